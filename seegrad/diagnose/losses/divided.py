"""A loss that is divided by the number of batches only after its backward call: what is added up isn't."""

from __future__ import annotations

from bisect import bisect
from collections import Counter
from collections.abc import Iterator

from seegrad.diagnose.cut import roots_of
from seegrad.diagnose.evidence import label
from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.diagnose.numbers.constant import backward_only
from seegrad.diagnose.numbers.known import KnownNumbers
from seegrad.model.recording import Diagnosis, Frame, Place, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word

LATE = DiagnosisKind("divided_late", "note", marked("divided after its backward call"))
AFTERWARDS = marked(
    "{Culprit} divides {label} by {count} after the backward call on {victim} has gone through it: the gradients of "
    "the {count} calls for one step on {step} are added up undivided, {count} times their mean."
)
BEFORE = marked(
    "If the step is to go by their mean, divide before the backward call: `(loss / n).backward()`; a number that is "
    "only to be shown needs no graph: `loss.item() / n`."
)

DIVIDES = frozenset({"div", "true_divide", "mul", "__truediv__"})
SEVERAL = 2
CLOSE = 0.02
"""Numbers are known to three digits."""


@finder(order=23)
def find_divided_late(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line that does so for all calls of a step."""
    steps = [use for use in recording.uses if use.kind == "stepped"]
    calls = backward_only(recording) if steps else []
    ends = [use.frame for use in steps]
    windows = Counter(bisect(ends, frames[-1].index) for frames in calls)
    found: dict[Place | None, list[tuple[Frame, list[Frame], int]]] = {}
    known: KnownNumbers | None = None
    for at, frames in enumerate(calls):
        window = bisect(ends, frames[-1].index)
        until = calls[at + 1][0].index if at + 1 < len(calls) else len(recording.frames)
        if window < len(ends) and windows[window] > 1:
            for divided in _divided(recording, frames, until):
                known = KnownNumbers(recording) if known is None else known
                if _is_by(known, divided, windows[window]):
                    found.setdefault(divided.place, []).append((divided, frames, window))
    for each in found.values():
        if len(each) >= SEVERAL:
            divided, frames, window = each[-1]
            yield _describe(recording, divided, frames[-1], steps[window].place, windows[window])


def _divided(recording: Recording, frames: list[Frame], until: int) -> list[Frame]:
    """What divides the loss of a call, by a plain number, once it has returned and before the next one begins."""
    roots = roots_of(recording, frames[0])
    later = recording.frames[frames[-1].index + 1 : until]
    divide = (each for each in later if each.op in DIVIDES and each.phase == "forward")
    return [each for each in divide if each.outputs and len(roots) == 1 and each.inputs == roots]


def _is_by(known: KnownNumbers, divided: Frame, count: int) -> bool:
    before, after = known.at(divided.inputs[0], divided.index), known.at(divided.outputs[0], divided.index)
    if before is None or after is None or before.low != before.high or not after.low:
        return False
    return abs(before.low / after.low - count) <= CLOSE * count


def _describe(recording: Recording, divided: Frame, shown: Frame, step: Place | None, count: int) -> Diagnosis:
    finding = Finding(
        recording=recording,
        kind=LATE,
        frame=shown.index,
        culprit=divided.place,
        victim=shown.place,
        tensor=divided.inputs[0],
    )
    facts: dict[str, Word] = {"label": label(recording, divided.inputs[0]), "count": count}
    return finding.told(AFTERWARDS, BEFORE, facts, step=finding.line(step))
