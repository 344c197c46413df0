"""PyTorch's own database of ops with sample inputs: each sample run plain and recorded, forward and backward."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

import seegrad

DTYPE = torch.float64
NOT_REPEATABLE = frozenset({"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_permuted"})
"""Ops that give whatever was in memory: no two runs agree."""

Bits = list[Any]


def op_db() -> list[Any]:
    """Torch's own list. Its import takes five seconds, and pytest imports this module wherever it collects tests."""
    from torch.testing._internal import common_methods_invocations

    return list(common_methods_invocations.op_db)


def names() -> list[str]:
    """Every op that computes with float64, its variant behind a dot."""
    return [full_name(op) for op in op_db() if op.name not in NOT_REPEATABLE and DTYPE in op.supported_dtypes("cpu")]


def full_name(op: Any) -> str:
    """`linalg.det`, `sum.to_size` …"""
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else str(op.name)


def samples(name: str) -> Iterator[tuple[Any, Any]]:
    """(op, sample) for each sample input of an op."""
    op = next(each for each in op_db() if full_name(each) == name)
    torch.manual_seed(0)
    for sample in op.sample_inputs("cpu", DTYPE, requires_grad=op.supports_autograd):
        yield op, sample


def compared(op: Any, sample: Any) -> bool | None:
    """True when forward, gradients and error are the same to the bit; None where two plain runs differ already."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain = outcome(op, sample, nullcontext())
        if outcome(op, sample, nullcontext()) != plain:
            return None
        return outcome(op, sample, seegrad.record()) == plain


def outcome(op: Any, sample: Any, block: AbstractContextManager[Any]) -> Bits:
    """Bits of the results and of the gradients, or the error."""
    torch.manual_seed(0)
    given, args, kwargs = tree_map(fresh, (sample.input, sample.args, sample.kwargs))
    try:
        with block:
            result = op(given, *args, **kwargs)
            losses = [loss for leaf in tree_leaves(result) if (loss := scalar(leaf)) is not None]
            if losses:
                sum(losses).backward()
    except Exception as error:
        return [type(error), str(error)]
    leaves = [leaf for leaf in tree_leaves((given, args, kwargs)) if isinstance(leaf, torch.Tensor)]
    return [bits(leaf) for leaf in tree_leaves(result)] + [bits(leaf.grad) for leaf in leaves if leaf.is_leaf]


def fresh(value: Any) -> Any:
    """A copy of a tensor as a leaf of its own."""
    if not isinstance(value, torch.Tensor):
        return value
    return value.detach().clone().requires_grad_(value.requires_grad)


def scalar(value: Any) -> torch.Tensor | None:
    """Something to call backward on."""
    if not isinstance(value, torch.Tensor) or not value.requires_grad:
        return None
    dense = value.to_dense() if value.layout is not torch.strided else value
    return dense.abs().sum() if dense.is_complex() else dense.sum()


def bits(value: Any) -> Any:
    """A result as data that `==` compares bit by bit."""
    if not isinstance(value, torch.Tensor):
        return value
    dense = value.detach().to_dense() if value.layout is not torch.strided else value.detach()
    plain = dense.resolve_conj().resolve_neg().reshape(-1).clone(memory_format=torch.contiguous_format)
    return str(value.dtype), tuple(value.shape), plain.view(torch.uint8).numpy().tobytes() if plain.numel() else b""
