"""Weights that a mask has made 0 once, and that the steps behind it move again."""

from __future__ import annotations

from collections.abc import Iterator

from seegrad.diagnose.finding import Finding, finder
from seegrad.diagnose.training.freezes import IN_VAIN
from seegrad.diagnose.training.steps import names
from seegrad.model.recording import Diagnosis, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word

MOVED_AGAIN = marked(
    "{Culprit} moves {leaves} where {victim} has multiplied them by 0: that was done once, and they aren't 0 any more "
    "(each step uses their gradient, and what the optimiser remembers)."
)
MASK_AGAIN = marked(
    "If they are to stay 0, multiply them by the mask again after each step; a mask on the gradient alone doesn't "
    "stop momentum or weight decay."
)


@finder(order=27)
def find_unmasked(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line that steps so."""
    for mask, step in zip(recording.clues_of("masked"), recording.clues_of("unmasked"), strict=True):
        finding = Finding(
            recording=recording,
            kind=IN_VAIN,
            frame=step.frame,
            culprit=step.place,
            victim=mask.place,
            tensor=step.tensors[0],
        )
        facts: dict[str, Word] = {"leaves": names(recording, step.tensors)}
        yield finding.told(MOVED_AGAIN, MASK_AGAIN, facts)
