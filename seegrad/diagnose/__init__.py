"""Recording → Diagnoses, one small module a kind; pure."""

from __future__ import annotations

from itertools import chain

from ..model import Diagnosis, Recording
from . import (
    cut,
    detached,
    dirty,
    freed,
    gradient,
    inference,
    leaf,
    modified,
    moved,
    optimiser,
    overlap,
    overwritten,
    rebound,
    silent,
    unused,
    view,
)

KINDS = (
    modified.find,
    detached.find,
    leaf.find,
    view.find,
    overlap.find,
    dirty.find,
    inference.find,
    optimiser.find,
    freed.find,
    cut.errors,
    unused.find,
    silent.find,
    gradient.find,
    cut.notes,
    rebound.find,
    overwritten.find,
    moved.find,
)
SEVERITIES = ("error", "wrong", "note")


def diagnose(recording: Recording) -> tuple[Diagnosis, ...]:
    """What went wrong in a Recording, most important first: torch's errors, wrong gradients, notes; then by time.

    >>> diagnose(Recording())
    ()
    """
    found = chain.from_iterable(kind(recording) for kind in KINDS)
    return tuple(sorted(found, key=lambda each: (SEVERITIES.index(each.severity), each.frame or 0)))
