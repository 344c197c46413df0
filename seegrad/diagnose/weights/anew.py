"""What is written into a weight that its module computes anew before each use: a pruned or parametrised one."""

from __future__ import annotations

from collections.abc import Iterator

from seegrad.diagnose.finding import Finding, finder
from seegrad.diagnose.training.copies import DROPPED
from seegrad.diagnose.training.steps import names
from seegrad.model.recording import Diagnosis, Recording
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


@finder(order=27)
def find_computed_anew(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each such line, with all the Parameters; none where each of them is written close by."""
    lines: dict[object, list[int]] = {}
    clues = list(recording.clues_of("anew"))
    for each in clues:
        lines.setdefault(each.place, []).extend(each.tensors)
    for each in clues:
        leaves = tuple(dict.fromkeys(lines.pop(each.place, ())))
        if leaves:
            finding = Finding(
                recording=recording,
                kind=DROPPED,
                frame=each.frame,
                culprit=each.place,
                victim=each.place,
                tensor=leaves[0],
            )
            facts: dict[str, Word] = {"how": "anew", "leaves": names(recording, leaves)}
            yield finding.told(LOST_NUMBERS, WRITE_THEM, facts)
