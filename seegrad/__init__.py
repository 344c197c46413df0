"""See PyTorch autograd: record a block of code, draw its real graph, name the line that broke it."""

from __future__ import annotations
