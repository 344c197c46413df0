"""The kinds of questions that can be asked on a graph: each a Recording and what is wanted → a Question."""

from __future__ import annotations

from collections.abc import Callable

from seegrad.model.recording import Recording
from seegrad.model.scene import Question
from seegrad.quiz.functions import order, saves
from seegrad.quiz.outcome import culprit, outcome
from seegrad.quiz.subject import Wanted
from seegrad.quiz.tensors import keeps, leaves, versions

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
