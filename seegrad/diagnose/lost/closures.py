"""A closure that an optimiser runs several times in a step, and whose gradients nothing clears from run to run."""

from __future__ import annotations

from collections.abc import Iterator

from seegrad.diagnose.finding import Finding, finder
from seegrad.diagnose.training.steps import SUMMED, leaf_of, leaves_of
from seegrad.model.recording import STEP, Diagnosis, Frame, Place, Recording
from seegrad.words.languages import marked

SUMMED_IN_CLOSURE = marked(
    "The step on {victim} runs its closure several times, and moves the Parameters in between: nothing clears the "
    "gradients from one run to the next, so {culprit} adds to those of Parameters as they were before."
)
CLEAR_IN_CLOSURE = marked("Clear them first thing in the closure: `optimizer.zero_grad()` before its backward call.")


@finder(order=21)
def find_never_cleared_in_closure(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line of a step that moves a leaf between two gradients of it, none of which is cleared."""
    told: set[Place | None] = set()
    every = [use for use in recording.uses if use.kind == "stepped" and use.tensors]
    for at, step in enumerate(every):
        leaf, until = step.tensors[0][0], next((use.frame for use in every[at + 1 :]), len(recording.frames))
        second = _second_of_closure(recording, leaf, step.frame, until) if step.place not in told else None
        if second is not None:
            told.add(step.place)
            finding = Finding(
                recording=recording,
                kind=SUMMED,
                frame=second.index,
                culprit=second.place,
                victim=step.place,
                tensor=leaf,
            )
            yield finding.told(SUMMED_IN_CLOSURE, CLEAR_IN_CLOSURE, {"how": "closure"})


def _second_of_closure(recording: Recording, leaf: int, since: int, until: int) -> Frame | None:
    """Within a step, the Frame in which a leaf's gradient comes again, the leaf being moved and the first still there.

    What comes behind the last move may be no more of the step's: it isn't asked.
    """
    storage = recording.tensors[leaf].storage
    cleared = [use.frame for use in recording.uses if use.kind == "cleared" and leaf in leaves_of(use)]
    came, moved, second = -1, False, None
    for frame in recording.frames[since + 1 : until]:
        if leaf_of(recording, frame) == leaf:
            kept = came >= 0 and not any(came <= each <= frame.index for each in cleared)
            second = second or (frame if moved and kept else None)
            came, moved = frame.index, False
        elif frame.op == STEP and any(recording.writes[write].storage == storage for write in frame.writes):
            if second is not None:
                return second
            moved = True
    return None
