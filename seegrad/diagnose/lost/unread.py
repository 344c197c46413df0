"""A result under a name that nothing ever reads: new numbers of Parameters, or a term that no loss takes in."""

from __future__ import annotations

from collections.abc import Iterator

from seegrad.diagnose.finding import Finding, finder
from seegrad.diagnose.training.copies import DROPPED
from seegrad.diagnose.training.steps import names
from seegrad.model.recording import Clue, Diagnosis, Place, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word

UNREAD = marked(
    "{Culprit} computes new numbers of {leaves}, and `{name}`, the only name for them, is never read: nothing is "
    "changed by them."
)
WRITE_INTO = marked(
    "If a Parameter, or an average of one, is to change by them, write into that one, under `with torch.no_grad():`: "
    "`….copy_({name})`, or put `{name}` where it is kept."
)
NO_TERM = marked(
    "{Culprit} computes `{name}`, with its history, and nothing ever reads it: it is in no loss, so the step on "
    "{victim} goes without it."
)
ADD_IT = marked("If something is to learn from it, add it to the loss before the backward call; if not, leave it out.")


@finder(order=33)
def find_unread(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each such line, once a step has come after it; where a name stands for the Parameter, that is told."""
    rebound = {each.place for each in recording.clues_of("lost")}
    steps = [use for use in recording.uses if use.kind == "stepped"]
    for each in recording.clues_of("unread") if steps else ():
        if each.place not in rebound:
            after = next((use for use in steps if use.frame >= each.frame), steps[-1])
            yield _describe(recording, each, after.place)


def _describe(recording: Recording, found: Clue, step: Place | None) -> Diagnosis:
    how = found.fact("how")
    finding = Finding(
        recording=recording,
        kind=DROPPED,
        frame=found.frame,
        culprit=found.place,
        victim=step,
        tensor=found.tensors[0],
        name=found.fact("name"),
    )
    leaves = names(recording, found.tensors)
    said, advice = (NO_TERM, ADD_IT) if how == "term" else (UNREAD, WRITE_INTO)
    facts: dict[str, Word] = {"how": "unread", "of": how}
    return finding.told(said, advice, facts, leaves=leaves)
