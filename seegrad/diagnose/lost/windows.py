"""Gradients of several backward calls, added up for one step: one that never comes, or clipped before all are there."""

from __future__ import annotations

from collections.abc import Iterator

from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.diagnose.training.steps import leaves_of
from seegrad.model.recording import Diagnosis, Place, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word

UNFINISHED = DiagnosisKind("unfinished_window", "note", marked("an unfinished window thrown away"))
NEVER_STEPPED = marked(
    "{Culprit} throws away the gradients of {count} backward calls on {victim} that no step has used: steps use those "
    "of up to {whole}, and these were fewer."
)
STEP_WITH_LESS = marked(
    "If all data is to count, step once more behind the loop where some are left, or let the next epoch go on with "
    "them: clear right after each step, nowhere else, and count the calls on from epoch to epoch."
)


@finder(order=21)
def find_unfinished(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line that clears so again and again."""
    told: set[Place] = set()
    for each in recording.clues_of("window"):
        if each.place not in told:
            told.add(each.place)
            finding = Finding(
                recording=recording,
                kind=UNFINISHED,
                frame=each.frame,
                culprit=each.place,
                victim=recording.frames[each.frame].place,
                tensor=each.tensors[0],
            )
            facts: dict[str, Word] = {"count": each.fact("calls"), "whole": each.fact("whole")}
            yield finding.told(NEVER_STEPPED, STEP_WITH_LESS, facts)


# -- clipped behind each call, though the step goes by all of them

IN_PARTS = DiagnosisKind("clipped_in_parts", "note", marked("clipped before all of it has come"))
CUT_AGAIN = marked(
    "{Culprit} clips what has come so far after each of the {count} backward calls on {backward}, whose gradients are "
    "added up for one step on {victim}: what the first of them have left is cut down again each time, so the last ones "
    "count for more, and the step goes by another gradient than their sum, clipped."
)
CLIP_ONCE = marked("If the limit is for what the step uses, clip once, right before the step and under its condition.")


@finder(order=23)
def find_clipped_in_parts(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line that clips so from step to step."""
    told: set[Place] = set()
    for each in recording.clues_of("in parts"):
        if each.place not in told:
            told.add(each.place)
            mine = (use for use in recording.uses if use.kind == "stepped" and each.tensors[0] in leaves_of(use))
            step = next((use for use in mine if use.frame >= each.frame), None)
            finding = Finding(
                recording=recording,
                kind=IN_PARTS,
                frame=each.frame,
                culprit=each.place,
                victim=step.place if step is not None else None,
                tensor=each.tensors[0],
            )
            backward = finding.line(recording.frames[each.frame].place)
            yield finding.told(CUT_AGAIN, CLIP_ONCE, {"count": each.fact("calls")}, backward=backward)
