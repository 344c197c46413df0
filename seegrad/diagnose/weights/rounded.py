"""Parameters kept in 16 bits, whose steps are rounded away."""

from __future__ import annotations

from collections.abc import Iterator

from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.diagnose.training.held import made_by
from seegrad.diagnose.training.steps import leaves_of, names
from seegrad.model.recording import Clue, Diagnosis, Place, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word

ROUNDED = DiagnosisKind("step_rounded_away", "note", marked("steps rounded away"))
STAYS = marked(
    "{Culprit} keeps {leaves} in 16 bits, and the step on {victim} leaves {percent}% of their numbers with a gradient "
    "exactly as they were, step after step: at a rate of `{rate}`, the change is less than half of what 16 bits can "
    "tell apart."
)
KEEP_THEM_LONG = marked(
    "Keep the Parameters in `float32` and let only the forward compute in 16 bits: `with torch.autocast(…)`; else use "
    "an optimiser that keeps a `float32` copy, or a larger rate."
)


@finder(order=27)
def find_rounded(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each such optimiser."""
    for each in recording.clues_of("rounded"):
        yield _describe(recording, each)


def _describe(recording: Recording, found: Clue) -> Diagnosis:
    mine = (use for use in reversed(recording.uses) if use.kind == "stepped" and set(found.tensors) <= leaves_of(use))
    step = next(mine, None)
    made = made_by(recording, found.tensors[0]) if step is not None and step.place == found.place else None
    finding = Finding(
        recording=recording,
        kind=ROUNDED,
        frame=step.frame if step is not None else found.frame,
        culprit=made or found.place,
        victim=step.place if step is not None else None,
        tensor=found.tensors[0],
    )
    facts: dict[str, Word] = {
        "leaves": names(recording, found.tensors),
        "percent": found.fact("percent"),
        "rate": found.fact("rate"),
    }
    return finding.told(STAYS, KEEP_THEM_LONG, facts)


# -- what a line of the user's adds to them

ABSORBED = marked(
    "{Culprit} keeps {leaves} in 16 bits, and {victim} leaves {percent}% of their numbers exactly as they were, time "
    "after time, though what it adds to them isn't 0: it is less than half of what 16 bits can tell apart."
)
ABSORBED_THERE = marked(
    "{Culprit} adds to {leaves}, which have 16 bits, and leaves {percent}% of their numbers exactly as they were, time "
    "after time, though what it adds isn't 0: it is less than half of what 16 bits can tell apart."
)
KEEP_SUMS_LONG = marked(
    "If they are to change by it, as an average of weights is, keep them in `float32`; what computes with them can be "
    "given a copy of 16 bits."
)


@finder(order=27)
def find_absorbed(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line that adds so, with all Parameters that it leaves."""
    lines: dict[tuple[Place, Place | None], list[Clue]] = {}
    for each in recording.clues_of("absorbed"):
        lines.setdefault((each.place, recording.frames[each.frame].place), []).append(each)
    for (place, adding), found in lines.items():
        leaves = [leaf for each in found for leaf in each.tensors]
        finding = Finding(
            recording=recording,
            kind=ROUNDED,
            frame=found[-1].frame,
            culprit=place,
            victim=adding,
            tensor=leaves[0],
        )
        facts: dict[str, Word] = {"leaves": names(recording, leaves), "percent": found[0].fact("percent")}
        yield finding.told(ABSORBED_THERE if place == adding else ABSORBED, KEEP_SUMS_LONG, facts)
