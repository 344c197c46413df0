"""Relays that one side has registered on a shared tensor are called when a gradient passes on the other side."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torch import Tensor

from nbjudge.bridge.torch.torch_private import hooks_after, hooks_of

Ask = Callable[[int, Tensor], Tensor | None]  # run the other side's hooks on a gradient
Settle = Callable[[int], None]  # run those that wait for a leaf's `.grad`


class Relay:
    """A hook of ours that stands for the other side's hooks."""

    def __init__(self, number: int, ask: Ask) -> None:
        self._number, self._ask = number, ask

    def __call__(self, grad: Tensor) -> Tensor | None:
        """What the other side's hooks make of a gradient."""
        return self._ask(self._number, grad)


class RelayAfter:
    """A hook of ours that stands for the other side's hooks on a leaf that has got its `.grad`."""

    def __init__(self, number: int, settle: Settle) -> None:
        self._number, self._settle = number, settle

    def __call__(self, _leaf: Tensor) -> None:
        """Call them."""
        self._settle(self._number)


class Relays:
    """One side's relays."""

    def __init__(self, ask: Ask, settle: Settle) -> None:
        self._ask, self._settle = ask, settle
        self._handles: dict[int, Any] = {}
        self._held: dict[int, Tensor] = {}  # a graph calls the hooks of a tensor that nobody holds any more
        self._after: dict[int, Any] = {}

    def relay(self, number: int, tensor: Tensor, *, wanted: bool) -> None:
        """Have, or don't have, the other side's hooks called for this tensor."""
        if wanted and number not in self._handles and tensor.requires_grad:
            self._handles[number] = _register(tensor, Relay(number, self._ask))
            self._held[number] = tensor
        elif not wanted and number in self._handles:
            self._handles.pop(number).remove()
            del self._held[number]

    def relay_after(self, number: int, leaf: Tensor, *, wanted: bool) -> None:
        """Have, or don't have, the other side's hooks called when this leaf has got its `.grad`."""
        if wanted and number not in self._after and leaf.requires_grad and leaf.is_leaf:
            self._after[number] = _register_after(leaf, RelayAfter(number, self._settle))
        elif not wanted and number in self._after:
            self._after.pop(number).remove()

    def forget(self, numbers: Sequence[int]) -> None:
        """These tensors aren't shared any more."""
        for number in numbers:
            self._handles.pop(number, None)
            self._held.pop(number, None)
            self._after.pop(number, None)

    @contextlib.contextmanager
    def silent(self, tensors: Sequence[Tensor]) -> Iterator[None]:
        """Meanwhile no hook of these tensors is called."""
        tables = [table for tensor in tensors if (table := hooks_of(tensor))]
        before = [dict(table) for table in tables]
        for table in tables:
            table.clear()
        try:
            yield
        finally:
            for table, kept in zip(tables, before, strict=True):
                table.update(kept)


def _register(tensor: Any, hook: Relay) -> Any:
    return tensor.register_hook(hook)


def _register_after(leaf: Any, hook: RelayAfter) -> Any:
    return leaf.register_post_accumulate_grad_hook(hook)


def is_hooked(tensor: Tensor) -> bool:
    """Has this side registered a hook of its own?"""
    table = hooks_of(tensor)
    return bool(table) and any(not isinstance(hook, Relay) for hook in table.values())


def is_hooked_after(tensor: Tensor) -> bool:
    """Has this side registered one that waits for the leaf's `.grad`?"""
    table = hooks_after(tensor)
    return bool(table) and any(not isinstance(hook, RelayAfter) for hook in table.values())


def run_after(leaf: Tensor) -> None:
    """Call this side's own hooks of a leaf that has got its `.grad`. Raises `RuntimeError` where torch does."""
    for hook in list((hooks_after(leaf) or {}).values()):
        if not isinstance(hook, RelayAfter) and hook(leaf) is not None:
            raise RuntimeError("Tensor post accumulate grad hooks should return None.")


def run(tensor: Tensor, grad: Tensor) -> Tensor:
    """What this side's own hooks make of a gradient."""
    for hook in list((hooks_of(tensor) or {}).values()):
        if not isinstance(hook, Relay) and (changed := hook(grad)) is not None:
            grad = changed
    return grad
