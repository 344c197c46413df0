"""Gradients of several backward calls, added up for one step that never comes: the last window isn't finished."""

from __future__ import annotations

from collections.abc import Iterator

from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
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
