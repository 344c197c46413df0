"""A program of the corpus with a mend applied to its text, and central differences of the loss that it then computes.

The program computes its loss in a function of its own, `loss_of`.
"""

from __future__ import annotations

import inspect
import itertools
import textwrap
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.data.programs import programs


def loss_of(name: str, *mend: str) -> Callable[[], torch.Tensor]:
    """The loss that a program computes, with the mend applied: it stops where it would call backward."""
    program = programs()[name]
    source = textwrap.dedent(inspect.getsource(program.run))
    source = source[source.index("def ") :]
    if mend:
        assert source.count(mend[0]) == 1
        source = source.replace(*mend)
    lines = source.splitlines()
    at = next(n for n, line in enumerate(lines) if "loss.backward()" in line)
    lines[at] = lines[at][: len(lines[at]) - len(lines[at].lstrip())] + "return loss_of"
    scope: dict[str, Any] = dict(program.run.__globals__)
    exec("\n".join(lines), scope)  # noqa: S102  # the corpus's own text
    torch.manual_seed(0)
    with warnings.catch_warnings(action="ignore"):
        found = scope[name]()
    assert callable(found)
    return found


def leaves_of(loss: torch.Tensor) -> list[torch.Tensor]:
    """The leaves that torch would add into."""
    waiting, found, met = [loss.grad_fn], dict[int, torch.Tensor](), set[Any]()
    while waiting:
        node = waiting.pop()
        if node is not None and node not in met:
            met.add(node)
            waiting += [behind for behind, _ in node.next_functions]
            if hasattr(node, "variable"):
                found[id(node.variable)] = node.variable
    return list(found.values())


def difference(compute: Callable[[], torch.Tensor], leaf: torch.Tensor, index: tuple[int, ...], step: float) -> float:
    """The central difference of the loss by one number of a leaf."""
    ends = []
    for sign in (1, -1):
        with torch.no_grad():
            leaf[index] += sign * step
        ends.append(float(compute().detach()))
        with torch.no_grad():
            leaf[index] -= sign * step
    return (ends[0] - ends[1]) / (2 * step)


def agree_with_differences(compute: Callable[[], torch.Tensor], *, step: float = 1e-6, about: float = 0.0) -> None:
    """A few numbers of each leaf; `about` is a part of the largest gradient."""
    loss = compute()
    again = leaves_of(compute())
    leaves = [leaf for leaf in leaves_of(loss) if any(leaf is each for each in again)]  # not one made for the occasion
    gradients = torch.autograd.grad(loss, leaves)
    assert loss.isfinite()
    near = {"abs": about * max(float(each.abs().max()) for each in gradients)} if about else {"abs": 1e-6, "rel": 1e-4}
    for leaf, gradient in zip(leaves, gradients, strict=True):
        assert gradient.isfinite().all()
        for index in itertools.islice(itertools.product(*map(range, leaf.shape)), 0, None, max(1, leaf.numel() // 4)):
            assert float(gradient[index]) == pytest.approx(difference(compute, leaf, index, step), **near)
