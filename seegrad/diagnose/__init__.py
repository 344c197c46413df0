"""Recording → Diagnoses; pure. A kind of Diagnosis is told in one file: its finder, its sentences, its tag.

Each file of this room and of those in it is loaded, and whatever it marks with `@finder` is asked: a new file needs no
line elsewhere.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

from seegrad.diagnose.finding import ORDER, Finder
from seegrad.diagnose.mend import mend_of
from seegrad.model.recording import STEP, Diagnosis, Recording

for _module in pkgutil.walk_packages(__path__, f"{__name__}."):
    importlib.import_module(_module.name)

FINDERS = tuple(sorted(ORDER, key=lambda find: (ORDER[find], find.__module__)))
Ask = Callable[[Finder, Recording], Iterable[Diagnosis]]
SEVERITIES = ("error", "wrong", "note")

TOO_FAR = frozenset(
    {"clipped_after_step", "clips_nothing", "clipped_while_scaled", "gradients_never_cleared", "foreign_gradients"}
)
"""Kinds of notes on steps that go farther than was meant, by which numbers may grow until they overflow."""

GROWN = frozenset({"overflow", "grown", "power", "half", "infinite", "unseen"})
"""Causes of a NaN that are no mistake of the line's own: what it was given had grown."""


def told_by(find: Finder, recording: Recording) -> list[Diagnosis]:
    """What one finder tells, each with the line that mends it."""
    return [replace(each, mend=mend_of(recording, each)) for each in find(recording)]


def diagnose(recording: Recording, ask: Ask = told_by) -> tuple[Diagnosis, ...]:
    """What went wrong in a Recording, most important first: torch's errors, wrong gradients, notes; then by time.

    A note that knows no line to change comes after those that do; so does a NaN to which steps have grown that another
    note is about: it follows from them. `ask` asks one finder: one that breaks need not cost what the others find.

    >>> diagnose(Recording())
    ()
    """
    found = [each for find in FINDERS for each in ask(find, recording)]
    too_far = any(each.kind in TOO_FAR and each.culprit for each in found)
    steps = (frame.index for frame in recording.frames if frame.op == STEP)
    amiss = next(steps, None) if too_far else None
    return tuple(sorted(found, key=partial(_importance, amiss)))


def _importance(amiss: int | None, found: Diagnosis) -> tuple[int, bool, int]:
    """`amiss`: the first step of those that go too far. Of a long loop the first laps that show it are forgotten."""
    severity, frame = found.severity, found.frame or 0
    grown = found.kind == "not_finite" and dict(found.arguments)["cause"] in GROWN
    follows = amiss is not None and frame > amiss and grown and severity != "error"
    severity = "note" if follows else severity
    return SEVERITIES.index(severity), severity == "note" and (follows or found.culprit is None), frame
