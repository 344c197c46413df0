"""Dropout in a module that is in evaluation mode, and that had dropped on the same line in training.

A function of torch's knows nothing of modes: it drops unless it's told not to. A `nn.Dropout` that is made where it's
used, or that no module holds, is in training mode for good: no `eval()` comes to it.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch

from seegrad.capture.probes.places import Source, nodes
from seegrad.capture.probes.source_text import called
from seegrad.capture.probes.torch_private import MODULE_CALL
from seegrad.capture.tables import Tables
from seegrad.model.recording import Clue, Place

ATTENTION = "scaled_dot_product_attention"
DROPS = frozenset({"dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout"})
"""Functions that are told by `training` whether they drop, the third of what they're given."""

LAYER = torch.nn.Dropout.__mro__[1]
"""What torch's layers of dropout are made of."""

MOST = 64
"""So many lines are told."""


@dataclass(frozen=True, slots=True)
class Drop:
    """In evaluation mode: where, in a module of which class, and how it came about."""

    place: Place
    owner: str
    how: str  # function, attention, made


class Modes:
    """The lines that drop."""

    def __init__(self, tables: Tables, source: Source) -> None:
        self._tables, self._source = tables, source
        self._trained: set[Place] = set()  # lines that have dropped in training mode
        self._told: set[Place] = set()

    def dropping(
        self, op: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], call: FrameType | None, user: FrameType | None
    ) -> Drop | None:
        """A call is about to be made, inside a module's `call`; None where all is as it's meant."""
        place = self._source.place(user) if call is not None and _drops(op, args, kwargs) else None
        if place is None or place in self._told or len(self._told) >= MOST:
            return None
        inner, *outer = _modules(call)
        made = isinstance(inner, LAYER)
        owner = next(iter(outer), None) if made else inner
        if owner is None or owner.training:
            self._trained |= {place} if owner is not None else set()
            return None
        chosen = _is_held(inner, outer) if made else op != ATTENTION and self._is_said(user)
        if chosen or place not in self._trained:
            return None
        return Drop(place, type(owner).__name__, "made" if made else "attention" if op == ATTENTION else "function")

    def dropped(self, found: Drop, frame: int, tensors: tuple[int, ...]) -> None:
        """It was made."""
        self._told.add(found.place)
        facts = (("owner", found.owner), ("how", found.how))
        self._tables.clues.append(Clue("dropped", frame, found.place, tensors, facts))

    def _is_said(self, user: FrameType | None) -> bool:
        """Does the line itself say whether to drop: `F.dropout(x, 0.5, training=True)`?"""
        line = user.f_lineno or 0 if user is not None else 0
        for each in nodes(self._source.text(user.f_code.co_filename)) if user is not None else ():
            if isinstance(each, ast.Call) and each.lineno <= line <= (each.end_lineno or 0):
                words = {word.arg for word in each.keywords}
                if called(each.func) in DROPS and (len(each.args) > 2 or "training" in words or None in words):
                    return True
        return False


def _drops(op: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Does it draw which numbers go?"""
    if op == ATTENTION:
        share = args[4] if len(args) > 4 else kwargs.get("dropout_p", 0.0)
        return type(share) is float and share > 0
    share = args[1] if len(args) > 1 else kwargs.get("p", 0.5)
    on = args[2] if len(args) > 2 else kwargs.get("training", kwargs.get("train", True))
    return on is True and type(share) in (int, float) and share > 0


def _modules(call: FrameType | None) -> list[torch.nn.Module]:
    """Those whose calls are under way, the innermost first."""
    found = []
    while call is not None:
        if call.f_code is MODULE_CALL:
            found.append(call.f_locals["self"])
        call = call.f_back
    return found


def _is_held(layer: torch.nn.Module, outer: list[torch.nn.Module]) -> bool:
    """Does one of these hold it? Then somebody has put it into training mode by itself."""
    return any(each is layer for module in outer for each in torch.nn.Module.modules(module))
