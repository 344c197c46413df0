"""Recording → Diagnoses, one small module a kind; pure."""

from __future__ import annotations

from ..model import Diagnosis, Recording


def diagnose(recording: Recording) -> tuple[Diagnosis, ...]:
    """What went wrong in a Recording, most important first."""
    del recording
    return ()
