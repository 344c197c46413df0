"""Writes that change nothing: into a weight that its module computes anew before each use, or onto itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.diagnose.training.copies import DROPPED, find_moved_on
from seegrad.diagnose.training.steps import names
from seegrad.model.recording import Clue, Diagnosis, Place, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word

LOST_NUMBERS = marked(
    "{Culprit} writes into a result that is computed anew of {leaves} before it is used again: nothing reads what was "
    "written, and {leaves} keep their numbers."
)
WRITE_THEM = marked(
    "If the numbers are to last, write into the Parameter that it is computed of: `weight_orig` of a pruned module, "
    "`parametrizations.weight.original` of a parametrised one."
)

ITSELF = DiagnosisKind("copied_onto_itself", "note", marked("copied onto itself"))
STAYS = marked("{Culprit} copies {leaves} onto themselves: source and target are the same memory, so nothing changes.")
ANOTHER = marked(
    "If they are to follow another model, load that one's `state_dict()`; if they are to go back to what they were, "
    "keep a copy at that time: `copy.deepcopy(model.state_dict())`, since `state_dict()` holds the tensors themselves."
)


@finder(order=27)
def find_computed_anew(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each such line, with all the Parameters; none where each of them is written close by."""
    for place, frame, leaves in _lines(recording.clues_of("anew")):
        facts: dict[str, Word] = {"how": "anew", "leaves": names(recording, leaves)}
        yield _on(recording, DROPPED, place, frame, leaves).told(LOST_NUMBERS, WRITE_THEM, facts)


@finder(order=28)
def find_copied_onto_itself(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each such line, with all its Parameters.

    None where that follows from something else: what it loads was kept by reference, or both are one module.
    """
    clues = list(recording.clues_of("itself"))
    kept = {each.victim for each in find_moved_on(recording)} if clues else set()
    shared = {leaf for each in recording.clues_of("module") for leaf in each.tensors}
    own = (each for each in clues if each.place not in kept and shared.isdisjoint(each.tensors))
    for place, frame, leaves in _lines(own):
        yield _on(recording, ITSELF, place, frame, leaves).told(STAYS, ANOTHER, {"leaves": names(recording, leaves)})


def _lines(clues: Iterable[Clue]) -> list[tuple[Place, int, tuple[int, ...]]]:
    """Each line, the first Frame in which it did so, and the Parameters of all."""
    lines: dict[Place, list[Clue]] = {}
    for each in clues:
        lines.setdefault(each.place, []).append(each)
    of_all = (
        (place, found, dict.fromkeys(leaf for each in found for leaf in each.tensors)) for place, found in lines.items()
    )
    return [(place, found[0].frame, tuple(leaves)) for place, found, leaves in of_all]


def _on(recording: Recording, kind: DiagnosisKind, place: Place, frame: int, leaves: tuple[int, ...]) -> Finding:
    return Finding(recording=recording, kind=kind, frame=frame, culprit=place, victim=place, tensor=leaves[0])
