"""A Parameter that is given its own numbers: `target.load_state_dict(target.state_dict())`."""

from __future__ import annotations

from collections.abc import Iterator

from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.diagnose.training.copies import find_moved_on
from seegrad.diagnose.training.steps import names
from seegrad.model.recording import Diagnosis, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word

ITSELF = DiagnosisKind("copied_onto_itself", "note", marked("copied onto itself"))
STAYS = marked("{Culprit} copies {leaves} onto themselves: source and target are the same memory, so nothing changes.")
ANOTHER = marked(
    "If they are to follow another model, load that one's `state_dict()`; if they are to go back to what they were, "
    "keep a copy at that time: `copy.deepcopy(model.state_dict())`, since `state_dict()` holds the tensors themselves."
)


@finder(order=28)
def find_copied_onto_itself(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each such line, with all its Parameters.

    None where that follows from something else: what it loads was kept by reference, or both are one module.
    """
    lines: dict[object, list[int]] = {}
    clues = list(recording.clues_of("itself"))
    kept = {each.victim for each in find_moved_on(recording)} if clues else set()
    shared = {leaf for each in recording.clues_of("module") for leaf in each.tensors}
    clues = [each for each in clues if each.place not in kept and shared.isdisjoint(each.tensors)]
    for each in clues:
        lines.setdefault(each.place, []).extend(each.tensors)
    for each in clues:
        leaves = tuple(dict.fromkeys(lines.pop(each.place, ())))
        if leaves:
            finding = Finding(
                recording=recording,
                kind=ITSELF,
                frame=each.frame,
                culprit=each.place,
                victim=each.place,
                tensor=leaves[0],
            )
            facts: dict[str, Word] = {"leaves": names(recording, leaves)}
            yield finding.told(STAYS, ANOTHER, facts)
