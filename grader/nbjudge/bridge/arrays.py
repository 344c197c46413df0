"""NumPy's arrays and numbers travel as tensors' values do; NumPy may be missing."""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import Tensor

from nbjudge.bridge.torch.records import ITEM_BYTES
from nbjudge.errors import WireError


class Bare:
    """A tensor whose values alone are to travel."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


def is_numpy(value: Any) -> bool:
    """An array or a number of NumPy's with a dtype that is carried."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray | numpy.generic) and value.dtype.name in ITEM_BYTES


def is_array(value: Any) -> bool:
    """An array, not a single number."""
    return isinstance(value, sys.modules["numpy"].ndarray)


def to_tensor(value: Any) -> Tensor:
    """Its values, copied."""
    return torch.tensor(sys.modules["numpy"].asarray(value))


def from_tensor(values: Tensor, *, scalar: bool) -> Any:
    """The array with these values, or its only number.

    >>> from_tensor(torch.tensor([1, 2]), scalar=False)
    array([1, 2])
    """
    if values.dtype is torch.bfloat16:
        raise WireError("NumPy has no bfloat16.")
    array = values.numpy()
    return array.reshape(-1)[0] if scalar and array.size == 1 else array
