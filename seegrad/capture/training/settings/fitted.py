"""What a loss compares with: between which numbers all of it lies, and whether each call is given but one.

Of each line the first calls are looked at, later on one in so many; on the CPU alone, since another device would have
to be waited for.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import torch

from seegrad.capture.probes import torch_private as _torch
from seegrad.capture.probes.places import Source, around, nodes
from seegrad.capture.probes.source_text import called, given_in
from seegrad.capture.tables import Tables
from seegrad.capture.tables.frames import FrameDraft, numeral
from seegrad.model.recording import Clue, Place

SECOND = frozenset({
    "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy_with_logits",
    "soft_margin_loss", "cross_entropy", "nll_loss",
})  # fmt: skip
THIRD = frozenset({"cosine_embedding_loss", "margin_ranking_loss"})
DIFFERENCES = frozenset({"sub", "rsub"})
FITTED = SECOND | THIRD | DIFFERENCES
"""Ops that compare, and as which of their tensors they are given what is known: of a difference, what has no graph."""

IN_A_ROW, SELDOM = 256, 16
"""Of each line so many calls are looked at from the first on; after that, one in so many."""

ORDERS = frozenset({"shuffle", "sampler", "batch_sampler", None})
"""What tells a loader of another order; None stands for all that `**` hands on."""

SHUFFLES = 2
"""So many arguments of a loader come before the one that shuffles."""

FEWEST = 4
"""So many numbers at least have to be one and the same, if that is to mean something."""


@dataclass(slots=True)
class _Compared:
    """What was seen of a line: its calls, all that they compared with, those of one number alone; the newest Frame."""

    calls: int = 0
    low: float = math.inf
    high: float = -math.inf
    alone: list[float] = field(default_factory=list)  # the number, of each of the first calls that had but one
    frame: int = 0
    given: tuple[int, ...] = ()  # what was computed, what is known

    def add(self, low: float, high: float, many: int) -> None:
        self.low, self.high = min(low, self.low), max(high, self.high)
        if low == high and many >= FEWEST and self.calls < IN_A_ROW:
            self.alone.append(low)


class FittedTargets:
    """The lines at which a loss compares, each with all that it was seen to compare with."""

    def __init__(self, tables: Tables, source: Source) -> None:
        self._tables, self._source = tables, source
        self._lines: dict[tuple[Place, str], _Compared] = {}

    def met(self, frame: FrameDraft, tensors: Sequence[torch.Tensor]) -> None:
        """A call that compares these was made, with gradients switched on."""
        known = _known(frame.op, tensors)
        if known is None or frame.place is None or not _torch.is_readable(tensors[known]) or not tensors[known].numel():
            return
        line = self._lines.setdefault((frame.place, frame.op), _Compared())
        line.frame, line.given = frame.index, (frame.inputs[int(known == 0)], frame.inputs[known])
        ends = _ends(tensors[known]) if line.calls < IN_A_ROW or line.calls % SELDOM == 0 else None
        if ends is not None:
            line.add(*ends, tensors[known].numel())
        line.calls += 1

    def tell(self) -> None:
        """The block is over."""
        for (place, _), line in self._lines.items():
            if line.low <= line.high:
                facts = {
                    "low": numeral(line.low),
                    "high": numeral(line.high),
                    "calls": str(min(line.calls, IN_A_ROW)),
                    "alone": str(len(line.alone)),
                    "values": str(len(set(line.alone))),
                    "changes": str(sum(one != other for one, other in pairwise(line.alone))),
                }
                self._tables.clues.append(Clue("fitted", line.frame, place, line.given, tuple(facts.items())))
                loader = _in_order(self._source, place) if len(set(line.alone)) > 1 else None
                if loader is not None:
                    self._tables.clues.append(Clue("in order", line.frame, loader, line.given))


def _known(op: str, tensors: Sequence[torch.Tensor]) -> int | None:
    """Which of them the others are compared with; None where none is, or nothing that learns."""
    at = 2 if op in THIRD else 1
    if op in DIFFERENCES:
        if len(tensors) != 2 or tensors[0].shape != tensors[1].shape:
            return None
        at = int(tensors[0].requires_grad)
    if len(tensors) <= at or tensors[at].requires_grad or tensors[at].is_complex():
        return None
    return at if any(each.requires_grad for each in tensors) else None


def _ends(numbers: torch.Tensor) -> tuple[float, float] | None:
    """The smallest and the largest; None where they don't compare, or one is none."""
    try:
        low, high = (each.item() for each in torch.aminmax(numbers.detach()))
    except (RuntimeError, NotImplementedError):  # a dtype without an order, a batch inside vmap
        return None
    return (low, high) if math.isfinite(low) and math.isfinite(high) else None


def _in_order(source: Source, place: Place) -> Place | None:
    """The line that makes the loader of the loop around, where that is told of no other order than its data's."""
    text = source.text(place.file)
    loops = [each.iter for each in around(text, place.line) if isinstance(each, ast.For)]
    over = {each.id for loop in loops for each in ast.walk(loop) if isinstance(each, ast.Name)}
    made = [(called(to), value.lineno) for each in nodes(text) for to, value in given_in(each) if _is_plain(value)]
    lines = [line for name, line in made if name in over] or [line for _, line in made]
    return source.at(place.file, lines[0]) if len(lines) == 1 else None


def _is_plain(value: ast.AST) -> bool:
    """`DataLoader(data, batch_size=32)`, or with `shuffle=False`."""
    if not isinstance(value, ast.Call) or called(value.func) != "DataLoader" or len(value.args) > SHUFFLES:
        return False
    orders = [each for each in value.keywords if each.arg in ORDERS]
    return all(isinstance(each.value, ast.Constant) and not each.value.value for each in orders)
