"""Recording → Sketch: which cards, pills and wires the picture has, and what they say at which step. No coordinates."""

from __future__ import annotations

from seegrad.picture.sketch.parts import (
    Bundle,
    Card,
    Chip,
    ChipKind,
    Cluster,
    Mark,
    Pill,
    Pin,
    Sketch,
    StorageGroup,
    Timeline,
    Value,
    Wire,
    at,
)
from seegrad.picture.sketch.sketch import sketch
from seegrad.picture.sketch.symbols import shorten

__all__ = [
    "Bundle",
    "Card",
    "Chip",
    "ChipKind",
    "Cluster",
    "Mark",
    "Pill",
    "Pin",
    "Sketch",
    "StorageGroup",
    "Timeline",
    "Value",
    "Wire",
    "at",
    "shorten",
    "sketch",
]
