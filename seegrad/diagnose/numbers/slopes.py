"""Custom Functions whose backward gives another slope than their forward has: by its code, by central differences."""

from __future__ import annotations

from collections.abc import Iterator

from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.diagnose.numbers.known import KnownNumbers
from seegrad.model.recording import Diagnosis, FunctionCheck, Place, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word

DISAGREES = DiagnosisKind("backward_disagrees", "note", marked("backward disagrees with forward"))
ANOTHER_SLOPE = marked(
    "{Culprit} gives another gradient than the forward of `{function}` has: by `{argument}`, as it was used on "
    "{victim}, its slope in one direction is {found}, by central differences {expected}."
)
DEAF = marked(
    "{Culprit} takes no heed of `grad_output`: what `{function}` hands back for `{argument}` on {victim} is the same "
    "for twice as much."
)
UNREAD = marked(
    "{Culprit} never reads `{argument}`, the gradient that the backward of `{function}` is given: as it was used on "
    "{victim} that isn't 1 everywhere, so what it hands back is wrong."
)
MEND_BACKWARD = marked(
    "If it's to be the gradient of that forward, mend its formula for `{argument}`; if it's meant to differ "
    "(straight-through, a reversed gradient), leave it as it is."
)
MULTIPLY = marked("Multiply what is computed there by `grad_output`: the chain rule needs it.")


@finder(order=12)
def find_slopes(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each backward, at its first use that shows it; differences need `check_functions=True`."""
    told: set[Place | None] = set()
    for check in sorted(recording.checks, key=lambda each: not each.found):
        if check.place in told or not (check.found or _matters(recording, check)):
            continue
        told.add(check.place)
        finding = Finding(
            recording=recording, kind=DISAGREES, frame=check.frame, culprit=check.place, victim=check.applied
        )
        facts: dict[str, Word] = {"function": check.function, "argument": check.argument}
        said = ANOTHER_SLOPE if not check.deaf else DEAF if check.found else UNREAD
        advice = MULTIPLY if check.deaf else MEND_BACKWARD
        yield finding.told(said, advice, facts, found=check.found, expected=check.expected)


def _matters(recording: Recording, check: FunctionCheck) -> bool:
    """Was it given something else than 1, in a backward that handed on something else than 0?"""
    known, own = KnownNumbers(recording), f"{check.function}Backward"
    ran = [f for f in recording.frames if f.running is not None and recording.nodes[f.running].name == own]
    for frame in ran:
        node = recording.nodes[frame.running or 0]
        given = known.given.get((frame.backward or 0, node.id))
        targets = {edge.target for edge in node.edges} - {None}
        on = [f for f in recording.frames if f.backward == frame.backward and f.running in targets]
        handed = [known.given.get((frame.backward or 0, f.running or 0)) for f in on]
        not_one = given is None or (given.low, given.high) != (1, 1)
        if not_one and any(each is None or not each.is_zero for each in handed):
            return True
    return False
