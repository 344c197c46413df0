"""A straight-through: `x + (z - x).detach()` has the numbers of `z`, and hands its gradient to `x` alone."""

from __future__ import annotations

from dataclasses import dataclass

from seegrad.diagnose.evidence import ancestors
from seegrad.diagnose.history.flow import Cut
from seegrad.model.recording import Frame, Place, Recording

MINUS, PLUS = frozenset({"sub", "subtract", "__sub__", "rsub"}), frozenset({"add", "__add__", "__radd__"})
ADDS_IN_PLACE = frozenset({"add_", "__iadd__"})


DISTANCES = frozenset({"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "cosine_similarity"})


@dataclass(frozen=True, slots=True)
class Straight:
    """What stands under the `.detach()` alone, and what its gradient goes to.

    `compared`: the one line that compares the result with the numbers of what its gradient goes to: it is meant for
    what is hidden.
    """

    hidden: int
    through: int
    compared: Place | None = None


def straight_through(recording: Recording, cut: Cut) -> Straight | None:
    """What a cut belongs to; None where it isn't the one of a straight-through."""
    frame, given = cut.frame, cut.given[:1]
    if frame.op not in ("detach", "data") or not given:
        return None
    made = next((each for each in reversed(recording.frames[: frame.index]) if given[0] in each.outputs), None)
    if made is None or made.op not in MINUS or len(made.inputs) != 2:
        return None
    hidden, through = made.inputs
    adds = next((each for each in recording.frames[frame.index + 1 :] if _adds(each, frame, through)), None)
    return None if adds is None else Straight(hidden, through, _compared(recording, adds, through))


def _compared(recording: Recording, adds: Frame, through: int) -> Place | None:
    lines = set[Place | None]()
    for frame in recording.frames[adds.index + 1 :]:
        if frame.op in DISTANCES and len(frame.inputs) > 1 and not set(adds.outputs).isdisjoint(frame.inputs[:2]):
            other = frame.inputs[int(frame.inputs[0] in adds.outputs)]
            known = [number for number, _ in ancestors(recording, other)]
            if through in known and not recording.tensors[other].requires_grad:
                lines.add(frame.place)
    return lines.pop() if len(lines) == 1 else None


def _adds(each: Frame, cut: Frame, through: int) -> bool:
    """Does a Frame add to one tensor what was cut?"""
    return each.op in PLUS | ADDS_IN_PLACE and through in each.inputs and not set(cut.outputs).isdisjoint(each.inputs)
