"""A large Sketch → small ones, one for each nn.Module and one for what stands around them: pictures inside pictures."""

from __future__ import annotations

from seegrad.model.recording import Recording
from seegrad.picture.sketch import Sketch
from seegrad.picture.sketch._levels import Level, levels_of
from seegrad.picture.sketch.tree import FLAT, grow

__all__ = ["FLAT", "Level", "collapse"]


def collapse(recording: Recording, parts: Sketch) -> tuple[Level, ...]:
    """The levels of a Sketch, the outermost first; one alone where it is small enough to be seen at once.

    >>> [level.id for level in collapse(Recording(), Sketch())]
    ['']
    """
    if len(parts.pills) <= FLAT:
        return (Level("", "", None, parts, parts.about()),)
    return levels_of(parts, grow(recording, parts))
