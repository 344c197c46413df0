"""Custom Functions whose backward gives another slope than their forward has: found by central differences."""

from __future__ import annotations

from collections.abc import Iterator

from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.model.recording import Diagnosis, Place, Recording
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
MEND_BACKWARD = marked(
    "If it's to be the gradient of that forward, mend its formula for `{argument}`; if it's meant to differ "
    "(straight-through, a reversed gradient), leave it as it is."
)
MULTIPLY = marked("Multiply what is computed there by `grad_output`: the chain rule needs it.")


@finder(order=12)
def find_slopes(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each backward, at its first use that shows it; needs `check_functions=True`."""
    told: set[Place | None] = set()
    for check in recording.checks:
        if check.place in told:
            continue
        told.add(check.place)
        finding = Finding(
            recording=recording, kind=DISAGREES, frame=check.frame, culprit=check.place, victim=check.applied
        )
        facts: dict[str, Word] = {"function": check.function, "argument": check.argument}
        said, advice = (DEAF, MULTIPLY) if check.deaf else (ANOTHER_SLOPE, MEND_BACKWARD)
        yield finding.told(said, advice, facts, found=check.found, expected=check.expected)
