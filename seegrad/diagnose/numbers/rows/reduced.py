"""A reduction that drops its dimension, beside what still has it with size 1: `(n, 1, h, w)` and `(n, h, w)`.

torch makes `(n, n, h, w)` of the two. Told where it's known which row belongs to which: what has the dimension took
part, number by number, in what was reduced, or a loss compares the table with a target that has one number a row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from seegrad.diagnose.evidence import label, ran
from seegrad.diagnose.finding import Finding, finder
from seegrad.diagnose.numbers.known import Makers
from seegrad.diagnose.numbers.shapes import (
    ALTERS,
    CROSSWISE,
    FARTHEST,
    LOSSES,
    MEETS,
    NUMBERWISE,
    ON_PURPOSE,
    SHAPED_IN_PLACE,
    Crosswise,
    Shape,
    crossed,
    said,
)
from seegrad.model.recording import Diagnosis, Frame, Place, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word

ROWS_WITH_ALL = marked(
    "{Culprit} makes {out} of {short} {short_shape} and {long} {long_shape}: `{op}` on {reduced} has dropped a "
    "dimension of {wide} that the other still has, with size 1, so torch stretches both, and each of the {count} rows "
    "of one meets all {count} of the other. The backward call on {victim} goes through all of them."
)
KEEP_IT = marked(
    "If each row is to meet its own, have `{op}` keep the dimension: `keepdim=True`; or take it off the other too: "
    "`.squeeze({axis})`."
)
REDUCED_THERE = marked("{Place} drops the dimension: with `keepdim=True` there, both have one shape.")

ARITHMETIC = (MEETS - LOSSES) | {"add", "radd"}
NUMBER_BY_NUMBER = (ALTERS - {"view", "reshape", "t", "transpose", "permute", "__getitem__"}) | {
    *("exp", "expm1", "sin", "cos", "softplus", "silu", "reciprocal", "rsqrt", "lt", "gt", "le", "ge"),
}
"""Ops of which each number comes of those at its own place, where the shape stays."""

REDUCES = frozenset(
    {"sum", "nansum", "mean", "nanmean", "amax", "amin", "max", "min", "prod", "logsumexp", "norm", "std", "var"}
    | {"median", "linalg_norm", "linalg_vector_norm", "vector_norm"}
)

PAIRS = frozenset(
    {"cross_entropy", "log_softmax", "softmax", "logsumexp", "diagonal", "diag", "trace", "triu", "tril", "matmul"}
    | {"__matmul__", "mm", "einsum", "topk", "sort", "argsort", "argmin", "argmax", "masked_fill", "masked_fill_"}
    | {"__getitem__", "masked_select", "fill_diagonal_", "t", "transpose", "amin", "amax", "min", "max"}
)
"""What is done with a table of pairs that is meant as one."""


@dataclass(frozen=True, slots=True)
class _Reduced:
    """The Frame that dropped the dimension, what it was given, and its shape."""

    frame: Frame
    given: int
    wide: Shape


@finder(order=14)
def find_reduced(recording: Recording) -> Iterator[Diagnosis]:
    """A note for the first line that makes such a table."""
    told, met, tables, makers = set[Place | None](), set[int](), Crosswise(recording), None
    for frame in recording.frames:
        met.update(frame.inputs[:1] if frame.op in SHAPED_IN_PLACE else ())
        pair = crossed(recording, frame, ARITHMETIC)
        if pair is None or (frame.op in MEETS and tables.is_mistaken(frame)):  # that one is told of its loss
            continue
        makers = makers or Makers(recording)
        is_new = frame.place not in told and met.isdisjoint(frame.inputs)
        found = _found(recording, makers, frame, pair) if is_new else None
        shown = ran(recording, frame) if found is not None else None  # what is only watched is nobody's to mend
        met.update(frame.inputs)
        if found is not None and shown is not None:
            told.add(frame.place)
            yield _describe(recording, frame, pair, found, shown)


def _found(recording: Recording, makers: Makers, frame: Frame, pair: tuple[int, int, int, Shape]) -> _Reduced | None:
    """What made the shorter one, where the rows of both are known to belong together."""
    if frame.place is None or ON_PURPOSE.search(frame.place.code):
        return None
    short, long, axis, table = pair
    few, many = recording.tensors[short].shape, recording.tensors[long].shape
    if axis != 1 or few[0] != many[0] or any(recording.tensors[each].parameter for each in frame.inputs):
        return None
    found = _reduced(recording, makers, frame, short, axis)
    if found is None or _is_a_table(recording, makers, frame, table[:2]):
        return None
    kin = _kin(recording, makers, long, frame.index - 1)
    if len(many) < 4 and any(made.place and ON_PURPOSE.search(made.place.code) for made in kin.values() if made):
        return None  # a row or a number that was given its dimension to meet all others
    if not kin.keys().isdisjoint(_taken_in(recording, makers, found)):
        return found
    return found if _has_one_target_a_row(recording, makers, frame, (few, many)) else None


def _reduced(recording: Recording, makers: Makers, frame: Frame, short: int, axis: int) -> _Reduced | None:
    """Back from the shorter one, number by number, to the reduction along that dimension, which can be no other's."""
    few = recording.tensors[short].shape
    waiting = [(short, frame.index - 1)]
    for tensor, until in waiting:  # grows while it's read
        made = makers.maker(tensor, until)
        if made is None or not made.inputs or len(waiting) > FARTHEST or made.phase != "forward":
            continue
        wide = recording.tensors[made.inputs[0]].shape
        if made.op in REDUCES and wide[:axis] + wide[axis + 1 :] == few and len(wide) == len(few) + 1:
            return _Reduced(made, made.inputs[0], wide) if wide[1:] != few and wide[axis] > 1 else None
        if made.op in NUMBER_BY_NUMBER | NUMBERWISE:
            same = (each for each in made.inputs if recording.tensors[each].shape == few)
            waiting += [(each, made.index - 1) for each in same]
    return None


def _kin(recording: Recording, makers: Makers, long: int, until: int) -> dict[int, Frame | None]:
    """The tensor and those of its shape that its numbers were computed of, one by one, each with what made it."""
    shape, found, waiting = recording.tensors[long].shape, dict[int, Frame | None](), [(long, until)]
    for tensor, before in waiting:  # grows while it's read
        made = found[tensor] = makers.maker(tensor, before)
        if made is not None and made.op in NUMBER_BY_NUMBER | NUMBERWISE and len(waiting) < FARTHEST:
            same = (each for each in made.inputs if recording.tensors[each].shape == shape and each not in found)
            waiting += [(each, made.index - 1) for each in same]
    return found


def _taken_in(recording: Recording, makers: Makers, found: _Reduced) -> set[int]:
    """All that took part, number by number, in what was reduced."""
    taken, seen, waiting = set[int](), {found.given}, [(found.given, found.frame.index - 1)]
    for tensor, until in waiting:  # grows while it's read
        made = makers.maker(tensor, until)
        if made is None or made.op not in NUMBER_BY_NUMBER or len(waiting) > FARTHEST:
            continue
        taken.update(made.inputs)
        wide = [each for each in made.inputs if recording.tensors[each].shape == found.wide and each not in seen]
        seen.update(wide)
        waiting += [(each, made.index - 1) for each in wide]
    return taken


def _is_a_table(recording: Recording, makers: Makers, frame: Frame, size: Shape) -> bool:
    """Is it treated as one afterwards: each row's shares, its diagonal, another table beside it?"""
    waiting = list(frame.outputs)
    for tensor in waiting:  # grows while it's read
        is_one = recording.tensors[tensor].shape == size
        for taker in makers.takers(tensor) if len(waiting) < FARTHEST else ():
            others = (each for each in taker.inputs if each not in waiting)
            if is_one and (taker.op in PAIRS or any(recording.tensors[each].shape == size for each in others)):
                return True
            if taker.op in NUMBER_BY_NUMBER | NUMBERWISE | REDUCES:
                waiting += [each for each in taker.outputs if each not in waiting]
    return False


def _has_one_target_a_row(recording: Recording, makers: Makers, frame: Frame, shapes: tuple[Shape, Shape]) -> bool:
    """Does a loss compare the table with one number a row that no graph leads to?"""
    waiting = list(frame.outputs)
    for tensor in waiting:  # grows while it's read
        for taker in makers.takers(tensor) if len(waiting) < FARTHEST else ():
            targets = [recording.tensors[each] for each in taker.inputs if each not in waiting]
            if taker.op in LOSSES and any(ref.shape in shapes and not ref.requires_grad for ref in targets):
                return True
            if taker.op in NUMBER_BY_NUMBER | NUMBERWISE:
                waiting += [each for each in taker.outputs if each not in waiting]
    return False


def _describe(
    recording: Recording, frame: Frame, pair: tuple[int, int, int, Shape], found: _Reduced, shown: Frame
) -> Diagnosis:
    short, long, axis, table = pair
    finding = Finding(
        recording=recording,
        kind=CROSSWISE,
        frame=shown.index,
        culprit=frame.place,
        victim=shown.place,
        tensor=short,
        instead=((found.frame.place, REDUCED_THERE),),
    )
    facts: dict[str, Word] = {"short": label(recording, short), "long": label(recording, long), "axis": axis}
    shapes = {"short_shape": said(recording.tensors[short].shape), "long_shape": said(recording.tensors[long].shape)}
    words: dict[str, Word] = {"op": found.frame.op, "reduced": finding.line(found.frame.place), "count": table[0]}
    return finding.told(ROWS_WITH_ALL, KEEP_IT, facts, out=said(table), wide=said(found.wide), **shapes, **words)
