"""Weights that began alike, row by row, and stay so: many units compute what one would."""

from __future__ import annotations

from collections.abc import Iterator

from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.diagnose.training.held import made_by
from seegrad.diagnose.training.steps import leaves_of, names
from seegrad.model.recording import Diagnosis, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word

ALIKE = DiagnosisKind("units_alike", "note", marked("units that stay alike"))
SAID = marked(
    "{Culprit} gives all rows of {leaves} the same numbers, and each backward call gives all rows the same gradient: "
    "the step on {victim} moves them alike, so the {count} units compute one and the same number for ever."
)
BEFORE = marked(
    "All rows of {leaves} hold the same numbers, and each backward call gives all rows the same gradient: the step on "
    "{victim} moves them alike, so the {count} units compute one and the same number for ever."
)
DRAW = marked(
    "If they are to learn different things, begin with numbers that are drawn: `nn.init.xavier_uniform_`, or what the "
    "layer itself begins with."
)


@finder(order=38)
def find_alike(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line that made such, of each optimiser."""
    for found in recording.clues_of("alike"):
        steps = (use for use in recording.uses if use.kind == "stepped" and set(found.tensors) <= leaves_of(use))
        step, made = next(steps, None), made_by(recording, found.tensors[0])
        known = found.fact("filled") == "1" or made is not None
        finding = Finding(
            recording=recording,
            kind=ALIKE,
            frame=step.frame if step is not None else found.frame,
            culprit=found.place if found.fact("filled") == "1" else made or found.place,
            victim=step.place if step is not None else found.place,
            tensor=found.tensors[0],
        )
        facts: dict[str, Word] = {"leaves": names(recording, found.tensors)}
        facts["count"] = recording.tensors[found.tensors[0]].shape[0]
        yield finding.told(SAID if known else BEFORE, DRAW, facts)
