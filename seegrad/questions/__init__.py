"""The kinds of questions that can be asked on a graph: each a Recording and what is wanted → a Question."""

from __future__ import annotations

from collections.abc import Callable

from ..model import Recording
from ..scene import Question
from .course import culprit, outcome
from .functions import order, saves
from .subject import Wanted
from .tensors import keeps, leaves, versions

__all__ = ["KINDS", "Wanted"]

KINDS: dict[str, Callable[[Recording, Wanted], Question]] = {
    "outcome": outcome,
    "versions": versions,
    "leaves": leaves,
    "keeps": keeps,
    "saves": saves,
    "order": order,
    "culprit": culprit,
}
