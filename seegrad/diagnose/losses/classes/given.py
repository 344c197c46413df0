"""A token that is to be predicted from itself: the loss's target is what the model was given, place by place."""

from __future__ import annotations

from collections.abc import Iterator

from seegrad.diagnose.evidence import label, ran
from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.diagnose.losses.probabilities import SHAPED
from seegrad.diagnose.numbers.known import Makers
from seegrad.model.recording import Diagnosis, Frame, Place, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word

GIVEN = DiagnosisKind("target_was_given", "note", marked("the target is what was given"))
SAID = marked(
    "{Culprit} compares what is computed at each place with {label}, the very tokens that `{table}` on {looked} was "
    "given for these places: the loss falls as soon as each token is handed through, and says nothing of the next one."
)
ADVICE = marked(
    "If each place is to predict the next token, shift the two against each other: `logits[:, :-1]` beside "
    "`tokens[:, 1:]`."
)

TABLES = frozenset({"embedding"})
PLACEWISE = frozenset({
    "gru", "lstm", "rnn_tanh", "rnn_relu", "linear", "matmul", "add", "__add__", "relu", "gelu", "tanh", "silu",
    "dropout", "layer_norm", "rms_norm", "mul", "view", "reshape", "flatten", "contiguous", "float",
})  # fmt: skip
"""Ops whose result has, at each place, something of what is at that place in the first that they're given."""

TURNS = frozenset({"transpose", "permute", "movedim", "swapaxes", "swapdims", "moveaxis"})
"""Ops that bring the classes into dimension 1, where a loss looks for them if the places are kept apart."""

FARTHEST = 256


@finder(order=36)
def find_given_targets(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line of such a loss."""
    tables = [frame for frame in recording.frames if frame.op in TABLES and frame.inputs and frame.outputs]
    makers, told = Makers(recording), set[Place | None]()
    for frame in recording.frames if tables else ():
        if frame.op != "cross_entropy" or len(frame.inputs) < 2 or frame.place in told or not frame.nodes:
            continue
        looked = _looked_up(recording, makers, frame, tables)
        shown = ran(recording, frame) if looked is not None else None
        if looked is not None and shown is not None:
            told.add(frame.place)
            finding = Finding(
                recording=recording,
                kind=GIVEN,
                frame=shown.index,
                culprit=frame.place,
                victim=shown.place,
                tensor=looked.inputs[0],
            )
            facts: dict[str, Word] = {"label": label(recording, looked.inputs[0]), "table": looked.op}
            yield finding.told(SAID, ADVICE, facts, looked=finding.line(looked.place))


def _looked_up(recording: Recording, makers: Makers, loss: Frame, tables: list[Frame]) -> Frame | None:
    """The Frame that was given these tokens, where the way from it to the loss goes on place by place."""
    tensors, target = recording.tensors, _base(recording, makers, loss.inputs[1], loss.index - 1)
    if tensors[target].dtype != "int64" or len(tensors[target].shape) < 2:
        return None
    mine = {
        frame.outputs[0]: frame
        for frame in tables
        if frame.index < loss.index and _base(recording, makers, frame.inputs[0], frame.index - 1) == target
    }
    batch, time = tensors[target].shape[:2]
    waiting = [_with_classes_last(recording, makers, loss, (batch, time))] if mine else []
    for tensor in waiting:  # grows while it's read
        if tensor in mine:
            return mine[tensor]
        made = makers.maker(tensor, loss.index - 1)
        if made is None or made.op not in PLACEWISE or len(waiting) > FARTHEST:
            continue
        shapes = [(each, tensors[each].shape) for each in made.inputs if tensors[each].requires_grad]
        waiting += [each for each, shape in shapes if shape[:2] == (batch, time) and each not in waiting]
    return None


def _with_classes_last(recording: Recording, makers: Makers, loss: Frame, places: tuple[int, ...]) -> int:
    """The scores as they were before a turn brought their classes into dimension 1."""
    scores = loss.inputs[0]
    made = makers.maker(scores, loss.index - 1)
    if made is None or made.op not in TURNS or not made.inputs:
        return scores
    before, after = (recording.tensors[each].shape for each in (made.inputs[0], scores))
    turned = len(before) == 3 and before[:2] == places and after == (before[0], before[2], before[1])
    return made.inputs[0] if turned else scores


def _base(recording: Recording, makers: Makers, tensor: int, until: int) -> int:
    """The tensor whose numbers, all of them, these are: a copy that nobody has written to, another shape."""
    for _ in range(FARTHEST):
        made = makers.maker(tensor, until)
        if made is None or made.writes or made.op not in SHAPED or not made.inputs:
            break
        before, after = (recording.tensors[each].shape for each in (made.inputs[0], tensor))
        if _numbers(before) != _numbers(after) or made.op == "permute":
            break
        tensor, until = made.inputs[0], made.index - 1
    return tensor


def _numbers(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count
