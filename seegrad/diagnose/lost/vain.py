"""An optimiser that has never found a gradient: the loss's graph ends on the way to what it holds.

Or one that finds none any more: the loss that leads there is computed, and nobody calls its backward.
"""

from __future__ import annotations

from collections.abc import Iterator

from seegrad.diagnose.cut import LOST, MEND, NEW, ROUTES, cause
from seegrad.diagnose.evidence import label
from seegrad.diagnose.finding import Finding, finder
from seegrad.diagnose.history.flow import Cut
from seegrad.diagnose.training.freezes import UNUSED
from seegrad.diagnose.training.steps import leaves_of, names
from seegrad.model.recording import Clue, Diagnosis, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word

IN_VAIN = marked(
    "The step on {victim} has never found a gradient: {leaves_held}, all that its optimiser holds, led to the loss, "
    "but {culprit} cut the graph on the way, by `{op}`."
)
KEEP_THE_WAY = marked(
    "If the outer loss is to train them (MAML), keep the way back: take the inner gradients with `create_graph=True`, "
    "and go on with `p - rate * gradient` itself; if they are meant to learn without it (first order), put gradients "
    "into their `.grad` before the step."
)


@finder(order=14)
def find_in_vain(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each such optimiser, where the cut was found when it stepped."""
    for each in recording.clues_of("vain"):
        yield _describe(recording, each)


def _describe(recording: Recording, found: Clue) -> Diagnosis:
    frame, leaf = recording.frames[found.frame], found.tensors[0]
    given = tuple(each for each in frame.inputs if recording.tensors[each].requires_grad)
    why = cause(recording, Cut(frame, given))
    mine = (use for use in reversed(recording.uses) if use.kind == "stepped" and set(found.tensors) == leaves_of(use))
    step = next(mine, None)
    finding = Finding(
        recording=recording,
        kind=LOST,
        frame=step.frame if step is not None else found.frame,
        culprit=found.place,
        victim=step.place if step is not None else None,
        tensor=leaf,
        route=ROUTES.get(why, "self"),
    )
    named = label(recording, given[0]) if given else names(recording, found.tensors)  # what is old is forgotten
    facts: dict[str, Word] = {
        "label": label(recording, leaf),
        "cause": why,
        "how": "in vain",
        "op": found.fact("op"),
        "given": named,
        "leaves": len(found.tensors) - 1,
    }
    held, advice = names(recording, found.tensors), KEEP_THE_WAY if why in ("detach", "data", *NEW) else MEND[why]
    return finding.told(IN_VAIN, advice, facts, leaves_held=held)


UNCALLED = marked(
    "{Culprit} computes a loss that leads to {leaves}, and no backward call begins with it, nor is anything computed "
    "of it: the step on {victim} finds no gradient there, and leaves them as they are."
)
CALL_IT = marked(
    "If that step is to go by it, call its `backward()` before; if it is only to be looked at, compute it under `with "
    "torch.no_grad():`."
)


@finder(order=29)
def find_uncalled(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line of such a loss, of an optimiser that has found gradients before."""
    for each in recording.clues_of("no backward"):
        loss, *leaves = each.tensors
        steps = (use for use in recording.uses if use.kind == "stepped" and use.frame >= each.frame)
        step = next((use for use in steps if not leaves_of(use).isdisjoint(leaves)), None)
        if step is not None:
            finding = Finding(
                recording=recording,
                kind=UNUSED,
                frame=step.frame,
                culprit=each.place,
                victim=step.place,
                tensor=loss,
            )
            facts: dict[str, Word] = {"how": "uncalled", "leaves": names(recording, leaves)}
            yield finding.told(UNCALLED, CALL_IT, facts)
