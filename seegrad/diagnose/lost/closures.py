"""A closure that an optimiser runs several times in a step, and whose gradients nothing clears from run to run."""

from __future__ import annotations

from collections.abc import Iterator

from seegrad.diagnose.finding import Finding, finder
from seegrad.diagnose.training.steps import SUMMED
from seegrad.model.recording import Diagnosis, Place, Recording
from seegrad.words.languages import marked

SUMMED_IN_CLOSURE = marked(
    "The step on {victim} runs its closure several times, and moves the Parameters in between: nothing clears the "
    "gradients from one run to the next, so {culprit} adds to those of Parameters as they were before."
)
CLEAR_IN_CLOSURE = marked("Clear them first thing in the closure: `optimizer.zero_grad()` before its backward call.")
CLEARED_ONCE = marked(
    "{Culprit} clears the gradients once, before the step on {victim}, which runs its closure several times and moves "
    "the Parameters in between: from the second run on, the backward call on {backward} adds to the gradients of "
    "Parameters as they were before."
)
CLEAR_FOR_EACH = marked(
    "If each run is to have its own gradients, clear them in the closure, before the backward call on {backward}."
)


@finder(order=21)
def find_never_cleared_in_closure(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line of a step that moves a leaf between two gradients of it, none of which is cleared."""
    once = {clue.frame: clue.place for clue in recording.clues_of("cleared once")}
    told: set[Place] = set()
    for run, step in zip(recording.clues_of("run again"), recording.clues_of("runs again"), strict=True):
        if step.place not in told:
            told.add(step.place)
            cleared = once.get(run.frame)
            finding = Finding(
                recording=recording,
                kind=SUMMED,
                frame=run.frame,
                culprit=cleared or run.place,
                victim=step.place,
                tensor=run.tensors[0],
            )
            said, advice = (SUMMED_IN_CLOSURE, CLEAR_IN_CLOSURE) if cleared is None else (CLEARED_ONCE, CLEAR_FOR_EACH)
            yield finding.told(said, advice, {"how": "closure"}, backward=finding.line(run.place))
