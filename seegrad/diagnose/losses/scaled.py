"""A weight that should learn, and by whose plain number something is multiplied: `w = gate.sigmoid().item()`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from seegrad.diagnose.evidence import label
from seegrad.diagnose.finding import Finding, finder
from seegrad.diagnose.gradients import reach
from seegrad.diagnose.lost.dropped import find_dropped
from seegrad.diagnose.numbers.constant import CONSTANT, MEND, NUMBER, WAY, find_constant_terms
from seegrad.diagnose.numbers.known import Makers
from seegrad.model.recording import Diagnosis, Frame, Place, Recording
from seegrad.words.phrases import Word, phrase, plural

WEIGHTS = frozenset({"softmax", "sigmoid", "softplus", "exp", "tanh", "log_softmax", "logsigmoid"})
"""Ops by which weights are made that learn: who takes the largest number, or a norm, means a constant."""

MULTIPLIES = frozenset(
    {"mul", "mul_", "__imul__", "rmul", "div", "div_", "__itruediv__", "true_divide", "rdiv", "matmul", "__matmul__"}
)
SHAPES = frozenset({"mean", "__getitem__", "squeeze", "view", "reshape", "select", "neg", "flatten", "clamp", "sum"})
"""Ops that still hand on weights."""

DEEPEST = 5


@finder(order=13)
def find_scaled_by_numbers(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line that takes such a number out, by which another line multiplies what a loss comes of."""
    told: set[Place] | None = None
    makers = Makers(recording)
    for each in recording.clues_of("number"):
        made, lines = recording.frames[each.frame], set(map(int, each.fact("lines").split()))
        frames = _next_call(recording, made) if _is_weight(makers, made) else []
        came = {recording.nodes[frame.running].leaf for frame in frames if frame.running is not None}
        leaves = sorted(leaf for leaf in reach(recording, each.tensors) if leaf in came)
        if leaves and any(_scales(recording, frame, each.place.file, lines) for frame in _behind(recording, frames)):
            told = _told(recording) if told is None else told
            if each.place not in told:
                told.add(each.place)
                yield _describe(recording, made, each.tensors[0], leaves, frames[-1])


def _told(recording: Recording) -> set[Place]:
    """The lines that are told of already: as terms, or as the last that is computed with what never learns."""
    found = (*find_constant_terms(recording), *find_dropped(recording))
    return {each.culprit for each in found if each.culprit is not None}


def _next_call(recording: Recording, made: Frame) -> list[Frame]:
    """The Frames of the first backward call behind a Frame; of no `autograd.grad`."""
    after = recording.frames[made.index + 1 :]
    first = next((frame for frame in after if frame.phase == "backward" and frame.backward is not None), None)
    frames = [frame for frame in after if first is not None and frame.backward == first.backward]
    return [] if any(frame.op == "grad" for frame in frames) else [each for each in frames if each.phase == "backward"]


def _behind(recording: Recording, frames: Sequence[Frame]) -> list[Frame]:
    """The Frames that made the Nodes which a backward call ran."""
    made = {recording.nodes[frame.running].frame for frame in frames if frame.running is not None}
    return [recording.frames[each] for each in sorted(made)]


def _scales(recording: Recording, frame: Frame, file: str, lines: set[int]) -> bool:
    """Does it, on such a line, multiply one thing with a history by something without?"""
    graph = [each for each in frame.inputs if recording.tensors[each].requires_grad]
    here = frame.place is not None and frame.place.file == file and frame.place.line in lines
    return here and frame.op in MULTIPLIES and len(graph) == 1


def _is_weight(makers: Makers, made: Frame) -> bool:
    """Was it made by an op that makes weights, and then shaped at most?"""
    for _ in range(DEEPEST):
        if made.op in WEIGHTS:
            return True
        before = makers.maker(made.inputs[0], made.index - 1) if made.op in SHAPES and made.inputs else None
        if before is None:
            return False
        made = before
    return False


def _describe(recording: Recording, made: Frame, tensor: int, leaves: Sequence[int], shown: Frame) -> Diagnosis:
    finding = Finding(
        recording=recording,
        kind=CONSTANT,
        frame=shown.index,
        culprit=made.place,
        victim=shown.place,
        tensor=leaves[0],
    )
    count, given = len(leaves) - 1, label(recording, tensor)
    more = plural(" (and {count} more leaf)", " (and {count} more leaves)", count) if count else ""
    facts: dict[str, Word] = {"label": label(recording, leaves[0]), "cause": "weight", "op": made.op}
    return finding.told(WAY, MEND["number"], facts, leaves=more, why=phrase(NUMBER, given=given), given=given)
