"""See PyTorch autograd: record a block of code, draw its real graph, name the line that broke it."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from seegrad.model.recording import Diagnosis, Place, Recording
from seegrad.words.errors import SeegradError

if TYPE_CHECKING:
    from seegrad.display.again import ask_again
    from seegrad.display.assigned import pick
    from seegrad.display.findings import findings
    from seegrad.display.magic import load_ipython_extension
    from seegrad.display.watch import lightning_callback, trainer_callback
    from seegrad.display.widget import diff, show
    from seegrad.engine import follow
    from seegrad.learn.course_map import course_map
    from seegrad.learn.device import device
    from seegrad.recorder import load, record

__all__ = [
    "Diagnosis",
    "Place",
    "Recording",
    "SeegradError",
    "ask_again",
    "course_map",
    "device",
    "diff",
    "findings",
    "follow",
    "lightning_callback",
    "load",
    "load_ipython_extension",
    "pick",
    "record",
    "show",
    "trainer_callback",
]

_LAZY = {
    "ask_again": "display.again",
    "course_map": "learn.course_map",
    "device": "learn.device",
    "diff": "display.widget",
    "findings": "display.findings",
    "follow": "engine",
    "lightning_callback": "display.watch",
    "load": "recorder",
    "load_ipython_extension": "display.magic",
    "pick": "display.assigned",
    "record": "recorder",
    "show": "display.widget",
    "trainer_callback": "display.watch",
}
"""Imported when they're first used: recording works without Jupyter, and what is pure loads without torch."""


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(f".{_LAZY[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
