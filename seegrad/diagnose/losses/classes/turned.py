"""A loss that is turned round: what is known in the place of what is predicted, or the whole with a minus before it."""

from __future__ import annotations

from collections.abc import Iterator

from seegrad.diagnose.cut import roots_of
from seegrad.diagnose.evidence import label, ran
from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.diagnose.losses.probabilities import SHAPED, TARGET_FIRST
from seegrad.diagnose.numbers.constant import backward_only
from seegrad.diagnose.numbers.known import Makers
from seegrad.diagnose.numbers.shapes import LAYERS
from seegrad.diagnose.training.steps import leaves_of
from seegrad.model.recording import Diagnosis, Frame, Place, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word

TURNED = DiagnosisKind("loss_turned_round", "note", marked("a loss turned round"))

SWAPPED = marked(
    "{Culprit} gives `{loss}` {first}, which has no graph, as what is predicted, and {second}, which a model has "
    "computed, as the target: the two aren't treated alike, so the gradient is another than that of their distance."
)
SWAP = marked(
    "If {second} is to come near {first}, give them the other way round: the prediction first, then the target."
)
NEGATED = marked(
    "{Culprit} puts a minus before `{loss}`, and the backward call on {victim} starts there: the steps make the loss "
    "larger, and nothing else is trained."
)
TAKE_OFF = marked(
    "If the model is to learn what `{loss}` compares it with, take the minus off: `{loss}` is small where it fits, and "
    "the logarithm's own minus is in it."
)

UNEVEN = frozenset({"binary_cross_entropy", "binary_cross_entropy_with_logits", "cross_entropy", "poisson_nll_loss"})
"""Losses whose two sides aren't treated alike; of `kl_div` both directions are in use."""

DISTANCES = frozenset({
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cross_entropy", "nll_loss", "mse_loss", "l1_loss",
    "smooth_l1_loss", "huber_loss",
})  # fmt: skip
"""Losses that are small where the first fits the second."""

FARTHEST = 16
SEVERAL = 2
"""So many backward calls have to start there."""


@finder(order=15)
def find_swapped(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line that gives a loss its two sides the wrong way round."""
    told = set[Place | None]()
    for frame in recording.frames:
        if frame.op not in UNEVEN or len(frame.inputs) < 2 or frame.place in told or _names_them(frame):
            continue
        first, second = (recording.tensors[each] for each in frame.inputs[:2])
        if first.requires_grad or not second.requires_grad or second.is_leaf or first.shape != second.shape:
            continue
        shown = ran(recording, frame)
        if shown is not None:
            told.add(frame.place)
            finding = Finding(
                recording=recording,
                kind=TURNED,
                frame=shown.index,
                culprit=frame.place,
                victim=shown.place,
                tensor=second.id,
            )
            facts: dict[str, Word] = {"how": "swapped", "loss": frame.op}
            words: dict[str, Word] = {"first": label(recording, first.id), "second": label(recording, second.id)}
            yield finding.told(SWAPPED, SWAP, facts, **words)


def _names_them(frame: Frame) -> bool:
    return frame.place is not None and TARGET_FIRST.search(frame.place.code) is not None


@finder(order=36)
def find_negated(recording: Recording) -> Iterator[Diagnosis]:
    """A note where the one line of a backward call starts at minus a distance of what trained layers compute.

    Who plays against another model has a loss of that one's, too; who looks for what deceives a model doesn't train it.
    """
    calls = [frames for frames in backward_only(recording) if frames]
    if len(calls) < SEVERAL or len({frames[0].place for frames in calls}) != 1:
        return
    makers = Makers(recording)
    held = {leaf for use in recording.uses if use.kind == "stepped" for leaf in leaves_of(use)}
    found = [_negated(recording, makers, frames[0], held) for frames in calls]
    if all(each is not None for each in found) and found[-1] is not None:
        negated, distance = found[-1]
        finding = Finding(
            recording=recording,
            kind=TURNED,
            frame=calls[-1][0].index,
            culprit=negated.place,
            victim=calls[-1][0].place,
            tensor=negated.outputs[0],
        )
        yield finding.told(NEGATED, TAKE_OFF, {"how": "negated", "loss": distance.op})


def _negated(recording: Recording, makers: Makers, first: Frame, held: set[int]) -> tuple[Frame, Frame] | None:
    """The Frames of the minus and of the distance, where the layer that makes the prediction is trained by it."""
    root = next(iter(roots_of(recording, first)), None)
    negated = makers.maker(root, first.index - 1) if root is not None else None
    if negated is None or negated.op != "neg" or not negated.inputs:
        return None
    distance = makers.maker(negated.inputs[0], negated.index - 1)
    if distance is None or distance.op not in DISTANCES:
        return None
    tensor, until = distance.inputs[0], distance.index - 1
    for _ in range(FARTHEST):
        made = makers.maker(tensor, until)
        if made is None or not made.inputs or made.op not in SHAPED | LAYERS.keys() | {"log_softmax", "sigmoid"}:
            return None
        if made.op in LAYERS:
            return None if held.isdisjoint(made.inputs[1:]) else (negated, distance)
        tensor, until = made.inputs[0], made.index - 1
    return None
