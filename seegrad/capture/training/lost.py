"""What only the end of the block shows: what nobody has seen again, and what was kept and isn't what it was.

A loop's name for a Parameter that is given to a new tensor, `p = p - rate * p.grad`: while that lives, a list or a dict
may hold it. A gradient's own memory, kept from one step to the next: the backward call has written there since.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from seegrad.capture.probes.places import Source
from seegrad.capture.probes.written import stored_at
from seegrad.capture.tables import Tables
from seegrad.capture.tables.frames import FrameDraft
from seegrad.model.recording import Clue, Place

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
            tables.clues.append(Clue("lost", frames[-1].index, place, tuple(parameters), (("name", said),)))


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


# -- a gradient's own memory

COMPARES = frozenset({"sub", "rsub", "dist", "mse_loss", "l1_loss", "cosine_similarity"})
"""Ops that say by how much two tensors differ."""

ALONE_TOO = frozenset({"mul", "dot", "vdot", "inner", "eq", "ne", "equal"})
"""Ops by which a gradient is held against the one before, too; one tensor is squared by them, or asked for NaN."""


def tell_kept(tables: Tables, source: Source) -> None:
    """Tell of the lines that keep a gradient itself, where it is compared with itself after it was cleared in place."""
    zeroed = _cleared(tables)
    told = set[Place]()
    for frame in tables.frames.drafts.values() if zeroed else ():
        older = _of_one_gradient(tables, frame, zeroed)
        if older is not None and frame.place is not None and frame.place not in told:
            told.add(frame.place)
            name = tables.tensors.drafts[older].name or ""
            place = stored_at(source, frame.place, name) or frame.place
            tables.clues.append(Clue("gradient", frame.index, place, (older,)))


def _cleared(tables: Tables) -> dict[int, list[int]]:
    """Storage of a gradient → the Frames in which it was cleared in place."""
    places = {use.place for use in tables.uses if use.kind == "cleared"}
    found: dict[int, list[int]] = {}
    for write in tables.writes.drafts.values():
        if write.op.endswith("zero_") and (write.place in places or ".grad.zero_(" in write.place.code):
            found.setdefault(write.storage, []).append(write.frame)
    return found


def _of_one_gradient(tables: Tables, frame: FrameDraft, zeroed: dict[int, list[int]]) -> int | None:
    """What was kept, of two that are a gradient's whole memory: it was there before the gradient was cleared last."""
    if len(frame.inputs) != 2 or frame.op not in COMPARES | ALONE_TOO:
        return None
    root, *other = {_whole(tables, each) for each in frame.inputs}
    if root is None or other or (frame.op in ALONE_TOO and len(set(frame.inputs)) == 1):
        return None
    drafts = tables.tensors.drafts
    aliases = [each for each in frame.inputs if each != root] or [root]
    kept = drafts[min(aliases, key=lambda each: drafts[each].frame)]
    return kept.id if any(kept.frame < at < frame.index for at in zeroed.get(kept.storage, ())) else None


def _whole(tables: Tables, tensor: int) -> int | None:
    """The tensor of which it's a `.detach()` or `.data`, or itself; None for a part."""
    draft = tables.tensors.drafts[tensor]
    while draft.alias_of is not None and draft.route in ("detach", "data"):
        draft = tables.tensors.drafts[draft.alias_of]
    return draft.id if draft.alias_of is None and not draft.parameter else None
