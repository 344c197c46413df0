"""Parameters that were made `float16`: a `GradScaler` refuses their gradients."""

from __future__ import annotations

from collections.abc import Iterator

from seegrad.diagnose.evidence import errors_with, label
from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.model.recording import Diagnosis, Frame, Place, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word, plural

CORE = "unscale FP16 gradients"
HALF = "float16"
HALVES = DiagnosisKind("scaled_in_half", "error", marked("float16 parameters"), (marked("float16 from here on"),))

SAID = marked(
    "{label}{leaves} is `float16` since {culprit}, and so is the gradient that the scaler is to unscale on {victim}: "
    "it takes those of `float32` parameters alone, since a step in `float16` would lose what is small."
)
ADVICE = marked(
    "Leave the parameters in `float32`, without what makes them `float16` on that line: under `torch.autocast` each op "
    "that gains by it runs in `float16` by itself."
)


@finder(order=12)
def find_halves(recording: Recording) -> Iterator[Diagnosis]:
    """The line that made the parameters `float16` of which a scaler has refused the gradients."""
    for error in errors_with(recording, CORE):
        frames = recording.frames[: error.frame + 1]
        ran = (recording.nodes[frame.running].leaf for frame in frames if frame.running is not None)
        halves = {leaf: place for leaf in dict.fromkeys(ran) if leaf is not None for place in _halved(recording, leaf)}
        if halves:
            leaf, place = next(iter(halves.items()))
            count = len(halves) - 1
            finding = Finding(
                recording=recording, kind=HALVES, frame=error.frame, culprit=place, victim=error.place, tensor=leaf
            )
            facts: dict[str, Word] = {"label": label(recording, leaf), "leaves": count}
            more = plural(" (and {count} more leaf)", " (and {count} more leaves)", count) if count else ""
            yield finding.told(SAID, ADVICE, facts, leaves=more)


def _halved(recording: Recording, leaf: int) -> list[Place | None]:
    """The line that made a leaf `float16`, which may be unknown; none where it isn't so."""
    moves = [frame for frame in recording.frames if frame.op == "set data" and frame.inputs[:1] == (leaf,)]
    now = moves[-1].inputs[-1] if moves else leaf
    if recording.tensors[now].dtype != HALF:
        return []
    made, seen = _made(recording, now), {now}
    while made is not None:
        halves = [each for each in made.inputs if recording.tensors[each].dtype == HALF]
        if not halves or halves[0] in seen:
            return [made.place]
        seen.add(halves[0])
        made = _made(recording, halves[0])
    return [None]


def _made(recording: Recording, tensor: int) -> Frame | None:
    """The Frame that made a tensor, or that on whose memory a Parameter was put; None where that was before."""
    storage = recording.tensors[tensor].storage
    same = (ref for ref in recording.tensors if ref.storage == storage and ref.id <= tensor and ref.dtype == HALF)
    frames = [recording.frames[ref.frame] for ref in same if ref.id in recording.frames[ref.frame].outputs]
    return frames[0] if frames and frames[0].phase != "start" else None
