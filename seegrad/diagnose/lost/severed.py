"""A step whose own loss was cut off from all that it holds: the gradient came to others, and no step uses it."""

from __future__ import annotations

from collections.abc import Iterator

from seegrad.diagnose.cut import LOST, ROUTES, because, cause, line_to_change
from seegrad.diagnose.evidence import A_TENSOR, label
from seegrad.diagnose.finding import Finding, finder
from seegrad.diagnose.history.flow import Cut
from seegrad.diagnose.training.steps import leaves_of, names
from seegrad.model.recording import Clue, Diagnosis, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Phrase, Word

REACHES_OTHERS = marked(
    "The step on {victim} finds nothing by the loss of {backward}: {leaves_held}, all that its optimiser holds, led to "
    "that loss, but {culprit} cut the graph: {why}. That backward call reaches only {others}, and no step behind it "
    "holds them."
)
GIVE_IT_ITSELF = marked(
    "If this step is to learn by that loss, give that loss {given} itself, with its graph; where another loss needs "
    "the cut (a discriminator's own), cut it for that one alone."
)


@finder(order=12)
def find_severed(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line that cut so, while the steps were made that found nothing."""
    for cuts, reaches in zip(recording.clues_of("severed"), recording.clues_of("reaches"), strict=True):
        yield _describe(recording, cuts, reaches)


def _describe(recording: Recording, cuts: Clue, reaches: Clue) -> Diagnosis:
    frame, leaf = recording.frames[cuts.frame], cuts.tensors[0]
    given = tuple(each for each in frame.inputs if recording.tensors[each].requires_grad)
    cut = Cut(frame, given)
    why = cause(recording, cut)
    mine = (use for use in reversed(recording.uses) if use.kind == "stepped" and set(cuts.tensors) == leaves_of(use))
    step = next(mine, None)
    finding = Finding(
        recording=recording,
        kind=LOST,
        frame=reaches.frame,
        culprit=line_to_change(recording, cut, why) or cuts.place,
        victim=step.place if step is not None else reaches.place,
        tensor=leaf,
        route=ROUTES.get(why, "self"),
    )
    known = cuts.fact("given")  # what is old is forgotten
    named: Word = label(recording, given[0]) if given else f"`{known}`" if known else Phrase(A_TENSOR)
    facts: dict[str, Word] = {
        "label": label(recording, leaf),
        "cause": why,
        "how": "severed",
        "op": cuts.fact("op"),
        "given": named,
        "leaves": len(cuts.tensors) - 1,
    }
    held, others = names(recording, cuts.tensors), names(recording, sorted(reaches.tensors))
    reason, backward = because(why, named, cuts.fact("op")), finding.line(reaches.place)
    return finding.told(
        REACHES_OTHERS, GIVE_IT_ITSELF, facts, leaves_held=held, others=others, why=reason, backward=backward
    )
