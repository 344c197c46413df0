"""A schedule whose rate has come to next to nothing long before the training's end.

One that is meant to go on once an epoch, and goes on after each batch, does that in silence.
"""

from __future__ import annotations

import ast
import weakref
from dataclasses import dataclass

from torch.optim.optimizer import Optimizer

from seegrad.capture.probes.places import Source
from seegrad.capture.probes.source_text import bound, call_of, texts
from seegrad.capture.probes.variables import Reach
from seegrad.capture.tables import Tables
from seegrad.capture.training.uses import schedulers
from seegrad.model.recording import Clue

NOTHING = 1e-3
"""A rate of so little of the largest one changes next to nothing."""

MOST, MANY = 0.5, 20
"""Told where more than such a share of the steps so far had no other, and at least so many."""


@dataclass(slots=True)
class _Rates:
    """What the rates of an optimiser's steps were so far."""

    steps: int = 0
    largest: float = 0.0
    now: float = 0.0
    small: int = 0  # steps, of those since the largest, by a rate of next to nothing


class RunOut:
    """Each optimiser's rate, asked before each step: one number of Python's own."""

    def __init__(self, tables: Tables, source: Source) -> None:
        self._tables, self._source = tables, source
        self._rates = weakref.WeakKeyDictionary[Optimizer, _Rates]()
        self._over = weakref.WeakSet[Optimizer]()

    def steps(self, optimiser: Optimizer) -> bool:
        """It is about to step: is there something to tell, for the first time?"""
        found = [rate for group in optimiser.param_groups if type(rate := group.get("lr")) is float]
        if not found or optimiser in self._over:
            return False
        rates, now = self._rates.setdefault(optimiser, _Rates()), max(found)
        rates.steps += 1
        if now > rates.largest:
            rates.largest, rates.small = now, 0
        rates.small += now < NOTHING * rates.largest
        rates.now = now
        has_run_out = rates.small >= MANY and rates.small > MOST * rates.steps
        if has_run_out:
            self._over.add(optimiser)
        return has_run_out

    def tell(self, optimiser: Optimizer, reach: Reach) -> None:
        """The line that calls its schedule, or gives it a factor of 0, and how many steps were in vain so far."""
        rates = self._rates[optimiser]
        found = next(((name, each) for name, each in schedulers(reach) if each.optimizer is optimiser), None)
        if found is None:  # somebody has set the rate by hand
            return
        name, written = found[0].rpartition(".")[2], texts(self._source, reach.frames, None)
        made = bound(self._source, written, name, _by_nothing) if getattr(found[1], "gamma", None) == 0 else None
        place = made or call_of(self._source, written, name, "step")
        leaves = [leaf for group in optimiser.param_groups for leaf in group["params"]]
        numbers = tuple(number for leaf in leaves if (number := self._tables.tensors.find(leaf)) is not None)
        if place is not None and numbers:
            facts = (
                *(("first", f"{rates.largest:g}"), ("rate", f"{rates.now:.1g}")),
                *(("small", str(rates.small)), ("steps", str(rates.steps))),
                *([("how", "factor")] if made is not None else []),
            )
            self._tables.clues.append(Clue("run_out", self._tables.frames.now, place, numbers, facts))


def _by_nothing(value: ast.expr) -> bool:
    """`StepLR(optimizer, 10, gamma=0)`."""
    words = value.keywords if isinstance(value, ast.Call) else []
    return any(word.arg == "gamma" and isinstance(word.value, ast.Constant) and not word.value.value for word in words)
