"""What an index does that reads as if it did more: a copy that is written to, rows of which only the last stays."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Iterator
from functools import lru_cache

from seegrad.diagnose.evidence import ancestors, label
from seegrad.diagnose.finding import Finding, finder
from seegrad.diagnose.training.copies import DROPPED
from seegrad.model.recording import Diagnosis, Frame, Place, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word

COPIED = marked(
    "{Culprit} writes into a copy: an index that is a tensor, a mask or a list hands out new numbers, no view, and "
    "nothing reads them after that line: {label}, of which they were taken, stays as it is."
)
ON_THE_LEFT = marked(
    "If it is to change, let the index stand on the left of the sign, once: `x[index] = 0`, `x[index] *= factor`, "
    "`x[rows, 0] = …` instead of `x[rows][:, 0] = …` (of a Parameter, under `with torch.no_grad():`)."
)

PICKS = frozenset({"__getitem__", "index_select", "masked_select", "take", "take_along_dim", "gather"})
"""Ops that pick numbers, and by a tensor hand out a copy."""


@finder(order=33)
def find_written_copies(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line that writes to what it has picked itself, where nothing takes that up."""
    told, last = set[Place](), dict[int, int]()
    for frame in recording.frames:
        if frame.phase in ("forward", "inplace"):
            last.update(dict.fromkeys((recording.tensors[each].storage for each in frame.inputs), frame.index))
    for frame in recording.frames:
        of = _picked_of(recording, frame) if frame.writes and frame.place not in told else None
        if of is None or frame.place is None or not drops_its_result(frame.place.code):
            continue
        storage = recording.writes[frame.writes[0]].storage
        if recording.frames[last[storage]].place == frame.place and _is_over(recording, frame, last[storage]):
            told.add(frame.place)
            finding = Finding(
                recording=recording,
                kind=DROPPED,
                frame=frame.index,
                culprit=frame.place,
                victim=frame.place,
                tensor=of,
            )
            yield finding.told(COPIED, ON_THE_LEFT, {"how": "copied", "label": label(recording, of)})


def _picked_of(recording: Recording, frame: Frame) -> int | None:
    """The tensor of which the same line has picked, as a copy, what a Frame writes."""
    *_, (number, _route) = ancestors(recording, recording.writes[frame.writes[0]].tensor)
    made = recording.frames[recording.tensors[number].frame]
    picked = made.op in PICKS and made.place == frame.place and number in made.outputs and bool(made.inputs)
    if not picked or recording.tensors[made.inputs[0]].storage == recording.tensors[number].storage:
        return None
    return made.inputs[0]


def _is_over(recording: Recording, write: Frame, last: int) -> bool:
    """Does no Frame of that line read, after the write, what was written, but to write to it once more?"""
    storage = recording.writes[write.writes[0]].storage
    after = recording.frames[write.index + 1 : last + 1]
    reads = (each for each in after if any(recording.tensors[one].storage == storage for one in each.inputs))
    return all({recording.writes[one].storage for one in each.writes} == {storage} for each in reads)


@lru_cache(maxsize=1024)
def drops_its_result(code: str) -> bool:
    """Is a line a statement that gives nothing a name, and isn't part of a longer one?

    >>> drops_its_result("w[rows].zero_()"), drops_its_result("y = w[rows].zero_()"), drops_its_result("w[rows][0] = 1")
    (True, False, True)
    """
    with contextlib.suppress(SyntaxError, ValueError):
        match ast.parse(code).body:
            case [ast.Expr(value=ast.Call(func=ast.Attribute(attr=method)))]:
                return method.endswith("_")
            case [ast.Assign(targets=[ast.Subscript(value=ast.Subscript() | ast.Attribute() | ast.Call())])]:
                return True
            case [ast.AugAssign(target=ast.Subscript(value=ast.Subscript()))]:
                return True
    return False


# -- rows that are put to one place: the last stays

ONE_PLACE = marked(
    "{Culprit} puts {count} rows where another one lands, too: of those with the same index a single one stays, and "
    "the others reach no loss."
)
ADD_THEM = marked(
    "If all are to count, add them up: `x.index_add(0, index, rows)`, `scatter_add`, or "
    "`index_put((index,), rows, accumulate=True)`; `scatter_reduce` takes their mean or maximum. `x[index] += rows` "
    "adds one of each index alone."
)


@finder(order=33)
def find_put_twice(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each such line, once a backward has come by."""
    ran, told = {frame.running for frame in recording.frames}, set[Place]()
    for each in recording.clues_of("twice"):
        frame = recording.frames[each.frame]
        if each.place in told or ran.isdisjoint(frame.nodes):
            continue
        told.add(each.place)
        finding = Finding(
            recording=recording,
            kind=DROPPED,
            frame=each.frame,
            culprit=each.place,
            victim=each.place,
            tensor=each.tensors[0],
        )
        facts: dict[str, Word] = {"how": "twice", "count": each.fact("count")}
        yield finding.told(ONE_PLACE, ADD_THEM, facts)
