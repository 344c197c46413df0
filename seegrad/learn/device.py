"""The device on which a chapter makes its tensors: the kernel names it, in one place."""

from __future__ import annotations

import os
import warnings

import torch

from seegrad.words.languages import _

VARIABLE = "SEEGRAD_DEVICE"
"""Set by the kernels `seegrad-cpu` and `seegrad-gpu`; empty in any other."""


def device() -> str:
    """The device that SEEGRAD_DEVICE names; the CPU where it names none, or one that isn't there (with a warning).

    >>> import torch
    >>> torch.ones(2, device=device()).sum().item()
    2.0
    """
    wanted = os.environ.get(VARIABLE) or "cpu"
    try:
        torch.empty(1, device=wanted)
    except (RuntimeError, AssertionError, NotImplementedError):  # each backend of torch has its own way to refuse
        said = _("{variable} says {wanted}, but torch finds no such device here: this notebook uses the CPU.")
        warnings.warn(said.format(variable=VARIABLE, wanted=wanted), stacklevel=2)
        return "cpu"
    return wanted
