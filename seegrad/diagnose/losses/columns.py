"""A gradient of several columns that is differentiated as a whole: what comes out adds up the mixed derivatives."""

from __future__ import annotations

import re
from collections.abc import Iterator

from seegrad.diagnose.evidence import label
from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.model.recording import Diagnosis, Frame, Place, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word

ADDED = DiagnosisKind("columns_added", "note", marked("mixed derivatives added"))

SAID = marked(
    "{Culprit} differentiates all {count} columns of {label} at once, and such a call gives a sum over all that it "
    "starts from: the column that {victim} takes holds the derivatives of the other columns, too."
)
ADVICE = marked(
    "If each column's own second derivative is meant, ask for one column at a time: "
    "`torch.autograd.grad({name}[:, 0].sum(), …, create_graph=True)[0][:, 0]`."
)

ONES = re.compile(r"\bones(?:_like)?\(")
COLUMN = re.compile(r"\[\s*(?:\.\.\.|:)\s*,\s*[^\]:]")
"""`u_xx[:, 0]`, `u_xx[:, [1]]`, `u_xx[..., 0:1]`."""


@finder(order=34)
def find_added_columns(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line that asks so for a gradient's gradient, of which a line takes a column."""
    asked: dict[int, Frame] = {}  # a gradient → the call that gave it
    told = set[Place | None]()
    for frame in recording.frames:
        if frame.op != "grad" or frame.phase != "backward":
            continue
        (root,) = frame.inputs if len(frame.inputs) == 1 else (None,)
        before = asked.get(root) if root is not None else None
        if root is not None and before is not None and before.wanted == frame.wanted and frame.place not in told:
            taken = _column_of(recording, frame) if _is_of_ones(recording, frame) else None
            if taken is not None and len(shape := recording.tensors[root].shape) > 1 and shape[-1] > 1:
                told.add(frame.place)
                yield _describe(recording, frame, root, taken)
        asked.update(dict.fromkeys(frame.outputs, frame))


def _is_of_ones(recording: Recording, asks: Frame) -> bool:
    """Does it start from ones, made by its line, or by the one before it?"""
    before = (each for each in reversed(recording.frames[: asks.index]) if each.backward != asks.backward)
    made = next(before).op in ("ones", "ones_like")
    return made or ONES.search(asks.place.code if asks.place else "") is not None


def _column_of(recording: Recording, asks: Frame) -> Place | None:
    """The first line that takes a column of what it gave; None where all is used as it is, a product with a vector."""
    taken = (each for each in recording.frames[asks.index + 1 :] if not set(asks.outputs).isdisjoint(each.inputs))
    first = next(taken, None)
    if first is None or first.place is None or first.op not in ("__getitem__", "select", "narrow", "split", "chunk"):
        return None
    return first.place if first.op != "__getitem__" or COLUMN.search(first.place.code) else None


def _describe(recording: Recording, asks: Frame, root: int, taken: Place) -> Diagnosis:
    finding = Finding(recording=recording, kind=ADDED, frame=asks.index, culprit=asks.place, victim=taken, tensor=root)
    count = recording.tensors[root].shape[-1]
    facts: dict[str, Word] = {"label": label(recording, root), "count": count}
    return finding.told(SAID, ADVICE, facts)
