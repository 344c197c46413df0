"""A straight-through: `x + (z - x).detach()` has the numbers of `z`, and hands its gradient to `x` alone."""

from __future__ import annotations

from dataclasses import dataclass

from seegrad.diagnose.history.flow import Cut
from seegrad.model.recording import Frame, Recording

MINUS, PLUS = frozenset({"sub", "subtract", "__sub__", "rsub"}), frozenset({"add", "__add__", "__radd__"})
ADDS_IN_PLACE = frozenset({"add_", "__iadd__"})


@dataclass(frozen=True, slots=True)
class Straight:
    """What stands under the `.detach()` alone, and what its gradient goes to."""

    hidden: int
    through: int


def straight_through(recording: Recording, cut: Cut) -> Straight | None:
    """What a cut belongs to; None where it isn't the one of a straight-through."""
    frame, given = cut.frame, cut.given[:1]
    if frame.op not in ("detach", "data") or not given:
        return None
    made = next((each for each in reversed(recording.frames[: frame.index]) if given[0] in each.outputs), None)
    if made is None or made.op not in MINUS or len(made.inputs) != 2:
        return None
    hidden, through = made.inputs
    adds = (each for each in recording.frames[frame.index + 1 :] if _adds(each, frame, through))
    return Straight(hidden, through) if next(adds, None) is not None else None


def _adds(each: Frame, cut: Frame, through: int) -> bool:
    """Does a Frame add to one tensor what was cut?"""
    return each.op in PLUS | ADDS_IN_PLACE and through in each.inputs and not set(cut.outputs).isdisjoint(each.inputs)
