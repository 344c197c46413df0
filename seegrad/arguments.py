"""Live arguments of a call, made twice alike for answer and truth; and values that came beside those expected."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from seegrad.capture.probes.torch_private import version
from seegrad.telling import difference

TOLERANCE: Mapping[torch.dtype, float] = {torch.float64: 1e-9}  # of the largest number; 1e-4 for all other dtypes


@dataclass(frozen=True, slots=True)
class Live:
    """How to make an argument that has to do with gradients; `leaf`, `between` and `scattered` make one of these."""

    values: torch.Tensor
    form: str
    grad: torch.Tensor | None = None


def leaf(values: torch.Tensor, grad: float | torch.Tensor | None = None) -> Live:
    """A leaf that requires a gradient; what stands in its `.grad` before the call is `grad`, a number or a tensor."""
    given = torch.full_like(values, grad) if isinstance(grad, float | int) else grad
    return Live(values, "leaf", given)


def between(values: torch.Tensor) -> Live:
    """A tensor in the middle of a graph, the result of an operation on a leaf."""
    return Live(values, "between")


def scattered(values: torch.Tensor) -> Live:
    """The same, a view on every second number of its memory: neither a leaf nor contiguous."""
    return Live(values, "scattered")


def numbers(
    *shape: int, holds: Sequence[float] = (), low: float = -3.0, high: float = 3.0, dtype: torch.dtype = torch.float32
) -> torch.Tensor:
    """Random numbers; those that it `holds` stand among them, at places drawn at random.

    >>> drawn = numbers(2, 3, holds=(0.0, -1.5), dtype=torch.float64)
    >>> drawn.shape, bool((drawn == -1.5).sum() == 1), bool((drawn == 0).any())
    (torch.Size([2, 3]), True, True)
    """
    drawn = torch.rand(shape, dtype=dtype) * (high - low) + low
    places = torch.randperm(drawn.numel())[: len(holds)]
    drawn.view(-1)[places] = torch.tensor(holds[: drawn.numel()], dtype=dtype)
    return drawn


@dataclass(frozen=True, slots=True)
class Before:
    """What a tensor was before a call. `alias` is another name for its memory, which nobody passes on."""

    alias: torch.Tensor
    values: torch.Tensor
    requires_grad: bool
    is_leaf: bool
    grad: torch.Tensor | None
    pointer: int
    version: int | None


class Arguments:
    """The arguments of one world: `passed` by name, every tensor in them by its `path`, the leaves behind them."""

    def __init__(self, case: Mapping[str, Any]) -> None:
        self.roots: dict[str, torch.Tensor] = {}
        self.passed = {name: self._made(name, value) for name, value in case.items()}
        self.tensors = dict(_tensors(self.passed))
        self.before = {path: _before(tensor) for path, tensor in self.tensors.items()}

    def changed(self) -> str | None:
        """The name of an argument that isn't a tensor, or holds other things than it did; None where all are there."""
        now = dict(_tensors(self.passed))
        for path in {**self.tensors, **now}:
            if path not in now or path not in self.tensors or now[path] is not self.tensors[path]:
                return path.partition("[")[0]
        return None

    def _made(self, path: str, value: Any) -> Any:
        if isinstance(value, Live):
            return self._live(path, value)
        if isinstance(value, torch.Tensor):
            return value.detach().clone()
        if isinstance(value, list | tuple):
            return type(value)(self._made(f"{path}[{number}]", item) for number, item in enumerate(value))
        if isinstance(value, dict):
            return {key: self._made(f"{path}[{key!r}]", item) for key, item in value.items()}
        return copy.deepcopy(value)

    def _live(self, path: str, live: Live) -> torch.Tensor:
        root = live.values.detach().clone().requires_grad_()
        root.grad = None if live.grad is None else live.grad.clone()
        self.roots[path] = root
        if live.form == "between":
            return root + 0  # saves nothing: any number of backwards may pass
        return torch.stack([root, -root], -1)[..., 0] if live.form == "scattered" else root


def plain(case: Mapping[str, Any]) -> dict[str, Any]:
    """The same arguments as values alone, to be shown; of live ones what they hold now."""
    return {name: _plain(value) for name, value in case.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Live):
        return value.values.detach().clone().requires_grad_()
    if isinstance(value, torch.Tensor):
        return value.detach().clone().requires_grad_(value.requires_grad)
    return type(value)(map(_plain, value)) if isinstance(value, list | tuple) else value


def _tensors(passed: Mapping[str, Any]) -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor by its path, as code says it: `parts[0][1]`."""
    left = list(passed.items())
    while left:
        path, value = left.pop(0)
        if isinstance(value, torch.Tensor):
            yield path, value
        elif isinstance(value, list | tuple):
            left += [(f"{path}[{number}]", item) for number, item in enumerate(value)]
        elif isinstance(value, dict):
            left += [(f"{path}[{key!r}]", item) for key, item in value.items()]


def _before(tensor: torch.Tensor) -> Before:
    grad = None if not tensor.is_leaf or tensor.grad is None else tensor.grad.clone()
    alias = tensor.detach()
    return Before(alias, alias.clone(), tensor.requires_grad, tensor.is_leaf, grad, tensor.data_ptr(), version(tensor))


@dataclass(frozen=True, slots=True)
class Values:
    """Values that came and are wrong, those that should have come, and how the truth's are read."""

    came: torch.Tensor
    want: torch.Tensor
    read: Callable[[Arguments, Any], Any]

    def tells(self) -> bool:
        """Are they numbers that no two calls have by chance?"""
        return self.came.is_floating_point() and bool(self.came.detach().count_nonzero())

    def are_for_an_earlier(
        self, truth: Callable[..., Any], case: Mapping[str, Any], held: Sequence[Mapping[str, Any]]
    ) -> str:
        """The name of the tensor which, taken from an earlier case, makes these values the right ones; or nothing."""
        pairs = ((earlier, name) for earlier in held for name in case if self.tells())
        return next((name for earlier, name in pairs if self._right_with(truth, case, name, earlier.get(name))), "")

    def _right_with(self, truth: Callable[..., Any], case: Mapping[str, Any], name: str, value: Any) -> bool:
        if not isinstance(value, torch.Tensor | Live):
            return False
        theirs = Arguments({**case, name: value})
        try:
            want = self.read(theirs, truth(*theirs.passed.values()))
        except Exception:  # the author's own function: the shapes of two cases needn't go together
            return False
        return isinstance(want, torch.Tensor) and close(self.came, want)

    def difference(self, others: Mapping[str, torch.Tensor]) -> str:
        """What the wrong values are: an argument's, rounded, a multiple of the right ones, some of them."""
        return difference(self.came, self.want, others if self.tells() else {})


def equal(came: torch.Tensor, want: torch.Tensor) -> bool:
    """The same dtype, shape and numbers."""
    return came.shape == want.shape and came.dtype == want.dtype and torch.equal(came.detach(), want)


def close(came: torch.Tensor, want: torch.Tensor) -> bool:
    """Within the tolerance of the type, measured by the largest number."""
    if came.shape != want.shape:
        return False
    if came.dtype == want.dtype and torch.equal(came.detach(), want.detach()):
        return True  # as most are, number for number
    here, there = came.detach().to(torch.float64), want.detach().to(torch.float64)
    bound = TOLERANCE.get(want.dtype, 1e-4) * max(1e-6, float(there.abs().max()) if there.numel() else 0.0)
    return bool(torch.allclose(here, there, rtol=0.0, atol=bound))
