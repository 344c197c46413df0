"""Recording → Diagnoses, one small module a kind; pure."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

from seegrad.diagnose import (
    cut,
    detached,
    dirty,
    freed,
    inference,
    moved,
    optimiser,
    overlap,
    overwritten,
    rebound,
    silent,
    unused,
    view,
)
from seegrad.diagnose import gradients as gradient
from seegrad.diagnose import saved as modified
from seegrad.diagnose import writes as leaf
from seegrad.model.recording import Diagnosis, Recording

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
    found = [_placed(each, recording) for each in chain.from_iterable(kind(recording) for kind in KINDS)]
    return tuple(sorted(found, key=lambda each: (SEVERITIES.index(each.severity), each.frame or 0)))


def _placed(diagnosis: Diagnosis, recording: Recording) -> Diagnosis:
    """Where all happened in another file than the block that was recorded, the words have to name it."""
    files = {place.file for place in (diagnosis.culprit, diagnosis.victim) if place is not None}
    if not recording.code_file or len(files) != 1 or recording.code_file in files:
        return diagnosis
    return replace(diagnosis, arguments=(*diagnosis.arguments, ("elsewhere", 1)))
