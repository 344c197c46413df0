"""A small tensor's numbers as short text: three significant digits, the same on every run."""

from __future__ import annotations

import math
from typing import Any

import torch

from seegrad.capture.probes import torch_private as _torch
from seegrad.model.recording import Preview

MAX_SIDE = 4


def preview(tensor: torch.Tensor) -> Preview | None:
    """Rows of numbers of a tensor up to 4×4; None for bigger ones and for other devices (reading would wait for them).

    >>> preview(torch.tensor([[1.0, 0.12345], [float("nan"), -2000.0]]))
    (('1', '0.123'), ('nan', '-2000'))
    >>> preview(torch.zeros(5)) is None
    True
    """
    if tensor.numel() > MAX_SIDE**2 or _torch.is_opaque(tensor):
        return None
    if tensor.device.type != "cpu" or tensor.layout is not torch.strided or tensor.dim() > 2:
        return None
    if any(side > MAX_SIDE for side in tensor.shape):
        return None
    if not tensor.numel():
        return ()
    try:
        values: Any = tensor.detach().tolist()
    except (RuntimeError, NotImplementedError):
        return None
    if tensor.dim() == 0:
        return ((number(values),),)
    rows = values if tensor.dim() == 2 else [values]
    return tuple([tuple([number(value) for value in row]) for row in rows])


def number(value: complex | float | int | bool) -> str:
    """One number: three significant digits; whole digits before the point are never cut off below 100,000.

    >>> [number(x) for x in (0.7310586, 1024.0, 1e-9, 123456.0, True, 7, 1 - 2j, -0.0)]
    ['0.731', '1024', '1e-09', '1.23e+05', 'True', '7', '1-2j', '0']
    """
    if isinstance(value, bool | int):
        return str(value)
    if isinstance(value, complex):
        real, imaginary = _digits(value.real), _digits(value.imag)
        return f"{real}{'' if imaginary.startswith('-') else '+'}{imaginary}j"
    return _digits(value)


def _digits(value: float) -> str:
    if not math.isfinite(value):
        return str(value)
    if 100 <= abs(value) < 100_000:
        return f"{value:.0f}"
    text = f"{value:.3g}"
    return "0" if text == "-0" else text
