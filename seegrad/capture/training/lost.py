"""A loop's name for a Parameter that is given to a new tensor, `p = p - rate * p.grad`: nobody sees that one again.

Whether it's gone unread only the end of the block shows: while it lives, a list or a dict may hold it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from seegrad.capture.tables import Tables
from seegrad.capture.tables.frames import FrameDraft
from seegrad.model.recording import Place, Shared

REBOUND = re.compile(r"\s*(\w+)\s*=(?!=).*\b\1\b")
"""`p = p * 2`: a name that is given to something computed of what it stood for."""

ARITHMETIC = frozenset(
    {"add", "sub", "mul", "div", "true_divide", "addcmul", "addcdiv", "lerp", "clamp", "clip", "where", "neg"}
)
"""Ops that compute other numbers: not those that copy, move or cast."""


def tell_lost(tables: Tables) -> None:
    """Tell of the lines whose results have all gone, and no call elsewhere has taken them up."""
    places: dict[Place, list[FrameDraft]] = {}
    for frame in tables.frames.drafts.values():
        if frame.place is not None and frame.inputs and REBOUND.match(frame.place.code) is not None:
            places.setdefault(frame.place, []).append(frame)
    taken = _taken(tables) if places else {}
    for place, frames in places.items():
        parameters, results = _computed(tables, frames)
        living = [each for each in results if tables.tensors.alive(each) is not None]  # the name may hold the last
        elsewhere = any(taken.get(each, place) != place for each in results)
        if parameters and not elsewhere and len(living) <= 1 < len(results):
            name = REBOUND.match(place.code)
            said = name[1] if name else ""
            tables.shared.append(Shared("lost", said, "", frames[-1].index, place, tuple(parameters)))


def _taken(tables: Tables) -> dict[int, Place | None]:
    """Tensor → a line that has taken it, the last; what is only written to isn't taken."""
    found: dict[int, Place | None] = {}
    for frame in tables.frames.drafts.values():
        written = frame.op.endswith("_") and not frame.op.endswith("__")
        found.update(dict.fromkeys(frame.inputs[1:] if written else frame.inputs, frame.place))
    return found


def _computed(tables: Tables, frames: Sequence[FrameDraft]) -> tuple[list[int], list[int]]:
    """The Parameters that a line's arithmetic is done with, and all that it has made of them."""
    parameters, results = dict[int, None](), dict[int, None]()
    for frame in frames:
        of = [number for each in frame.inputs if (number := _parameter(tables, each)) is not None]
        if frame.op in ARITHMETIC and (of or not results.keys().isdisjoint(frame.inputs)):
            parameters.update(dict.fromkeys(of))
            results.update(dict.fromkeys(frame.outputs))
    return list(parameters), list(results)


def _parameter(tables: Tables, tensor: int) -> int | None:
    """The Parameter that it is, or that it's a view of."""
    draft = tables.tensors.drafts.get(tensor)
    while draft is not None and not draft.parameter and draft.alias_of is not None:
        draft = tables.tensors.drafts.get(draft.alias_of)
    return draft.id if draft is not None and draft.parameter else None
