"""A module that is called in the place of another of its make, which nobody calls."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from seegrad.model.recording import Place, Recording


@dataclass(frozen=True, slots=True)
class Twin:
    """A module that two lines call by its name, beside another one of its kind that none calls."""

    name: str
    unused: str
    first: Place
    again: Place


def called_instead(recording: Recording, leaf: int) -> Twin | None:
    """The only one of the same parent, with Parameters of the same names and shapes, that two lines call."""
    parent, _, unused = (recording.tensors[leaf].name or "").rpartition(".")[0].rpartition(".")
    held: dict[str, dict[str, tuple[int, ...]]] = {}
    numbers: dict[str, list[int]] = {}
    for ref in recording.tensors:
        child, _, own = (ref.name or "").removeprefix(f"{parent}.").partition(".")
        if ref.parameter and parent and own and ref.name == f"{parent}.{child}.{own}":
            held.setdefault(child, {})[own] = ref.shape
            numbers.setdefault(child, []).append(ref.id)
    twins = [child for child in held if child != unused and held[child] == held.get(unused)]
    found = [(child, _called_by_name(recording, child, numbers[child])) for child in twins]
    several = [(child, lines) for child, lines in found if len(lines) > 1]
    if len(several) != 1:
        return None
    ((name, (first, again, *_more)),) = several
    return Twin(name, unused, first, again)


def _called_by_name(recording: Recording, name: str, leaves: Collection[int]) -> list[Place]:
    """The lines that speak of it where something is computed with these, in the order of the program."""
    frames = (f for f in recording.frames if f.phase == "forward" and not set(leaves).isdisjoint(f.inputs))
    used = (each for frame in frames for each in (frame.place, frame.taken))
    speaks = re.compile(rf"\.{re.escape(name)}\(")
    lines = {each for each in used if each is not None and speaks.search(each.code)}
    return sorted(lines, key=lambda each: (each.file, each.line))
