"""See PyTorch autograd: record a block of code, draw its real graph, name the line that broke it."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .errors import SeegradError
from .model import Diagnosis, Place, Recording
from .recorder import record

if TYPE_CHECKING:
    from .course import course_map
    from .devices import device
    from .magic import load_ipython_extension
    from .widget import show

__all__ = [
    "Diagnosis",
    "Place",
    "Recording",
    "SeegradError",
    "course_map",
    "device",
    "load_ipython_extension",
    "record",
    "show",
]

_LAZY = {"course_map": "course", "device": "devices", "load_ipython_extension": "magic", "show": "widget"}
"""Names that are of use in a notebook: imported when they're first used, so that recording works without Jupyter."""


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(f".{_LAZY[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
