"""A step whose own loss was computed while all that it holds was switched off: it finds nothing."""

from __future__ import annotations

from collections.abc import Iterator

from seegrad.diagnose.finding import Finding, finder
from seegrad.diagnose.training.freezes import SILENCED, steps, switched_on_again
from seegrad.diagnose.training.steps import leaves_of, names
from seegrad.model.recording import Diagnosis, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word

OFF_BY_THEN = marked(
    "{Culprit} had switched {leaves} off when the loss of the backward call on {backward} was computed of them: that "
    "call gives them no gradient, and the step behind it, whose optimiser holds nothing else, changes nothing."
)
ON_BEFORE = marked(
    "If they are to learn from that loss, switch them on again before it is computed, `requires_grad_(True)`, and off "
    "behind the step."
)


@finder(order=26)
def find_frozen_in_its_loss(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line that had switched off what a step was to learn, by a loss that no other step goes by.

    What is off for good is told of as that.
    """
    again = switched_on_again(recording)
    for each in recording.clues_of("frozen"):
        if not again.isdisjoint(each.tensors):
            backward, behind = recording.frames[each.frame].place, steps(recording)
            mine = (step for step in behind if step.frame >= each.frame and set(each.tensors) <= leaves_of(step))
            step = next(mine, None)
            finding = Finding(
                recording=recording,
                kind=SILENCED,
                frame=each.frame,
                culprit=each.place,
                victim=step.place if step is not None else backward,
                tensor=each.tensors[0],
            )
            facts: dict[str, Word] = {"leaves": names(recording, each.tensors), "how": "by then"}
            yield finding.told(OFF_BY_THEN, ON_BEFORE, facts, backward=finding.line(backward))
