"""A result under a name that nothing ever reads: new numbers of Parameters, or a term that no loss takes in."""

from __future__ import annotations

from collections.abc import Iterator

from seegrad.diagnose.evidence import is_trained, nodes_behind
from seegrad.diagnose.finding import Finding, finder
from seegrad.diagnose.gradients import reach
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


OVERWRITTEN = marked(
    "{Culprit} gives `{name}` one term after another, and nothing reads it before the next: what is computed of "
    "{leaves} for it is in no loss, so the step on {victim} goes without it."
)
ADD_EACH = marked("If each of them is to count, add it up where it is computed: `total = total + {name}`.")


@finder(order=33)
def find_overwritten(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each such line whose terms are of other Parameters than what the same code made and a loss takes."""
    steps = [use for use in recording.uses if use.kind == "stepped"]
    for each in recording.clues_of("overwritten") if steps else ():
        lost, kept = (_trained(recording, terms) for terms in (each.tensors, _beside(recording, each)))
        if lost and kept and lost.isdisjoint(kept):
            after = next((use for use in steps if use.frame >= each.frame), steps[-1])
            finding = Finding(
                recording=recording,
                kind=DROPPED,
                frame=each.frame,
                culprit=each.place,
                victim=after.place,
                tensor=each.tensors[-1],
                name=each.fact("name"),
            )
            leaves = names(recording, sorted(lost))
            yield finding.told(OVERWRITTEN, ADD_EACH, {"how": "unread", "of": "terms"}, leaves=leaves)


def _beside(recording: Recording, found: Clue) -> tuple[int, ...]:
    """What the line that made these terms has made besides, and not on the way to them."""
    place = recording.frames[found.frame].place
    makers = {number: node.id for node in recording.nodes for number in node.outputs}
    behind = nodes_behind(recording, [makers[each] for each in found.tensors if each in makers])
    made = [frame for frame in recording.frames if frame.place == place and frame.phase == "forward"]
    return tuple(each for frame in made for each in frame.outputs if each in makers and makers[each] not in behind)


def _trained(recording: Recording, terms: tuple[int, ...]) -> set[int]:
    return {each for each in reach(recording, terms) if is_trained(recording, each)}


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
