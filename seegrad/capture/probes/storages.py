"""Storages, numbered and known again by their addresses."""

from __future__ import annotations

from collections.abc import Callable

import torch

from seegrad.capture.probes import torch_private as _torch

FRESH_BYTES = 64 * 2**20
"""So much memory may be met anew before the storages that are gone are let go of."""

HELD_BYTES = 4096
"""So much more for each storage that is held: what it costs to ask it stays small beside filling the memory."""


class StorageNumbers:
    """Numbers of storages by their addresses, each held weakly: that keeps an address from being used again.

    There's no object for each: Python's collector would look at all of them. What torch keeps for a weak reference is
    small, but it lies between large blocks, and the C library then can't use their place again: so those that are gone
    are let go of after so much memory, not only after so many ops.
    """

    def __init__(self) -> None:
        self.count = 0
        self._numbers: dict[int, int] = {}
        self._fresh_bytes = 0

    def number(self, storage: torch.UntypedStorage | None) -> int:
        """The storage's number; a layout without one (None) gets a new one each time."""
        number = None if storage is None else self._numbers.get(_torch.address(storage))
        if number is None:
            number, self.count = self.count, self.count + 1
            if storage is not None:
                self._numbers[_torch.weak_address(storage)] = number
                self._fresh_bytes += size_bytes(storage)
                if self._fresh_bytes > FRESH_BYTES + HELD_BYTES * len(self._numbers):
                    self.forget_dead()
        return number

    @property
    def held(self) -> int:
        """How many are held."""
        return len(self._numbers)

    def forget_dead(self) -> set[int]:
        """Let go of the storages that are gone; the numbers of the others."""
        self._fresh_bytes = 0
        for weak in [weak for weak in self._numbers if _torch.is_gone(weak)]:
            _torch.let_go(weak)
            del self._numbers[weak]
        return set(self._numbers.values())

    def __del__(self, free: Callable[[int], None] = _torch.let_go) -> None:
        for weak in self._numbers:
            free(weak)  # bound above: the module's own names may be gone when Python ends


def size_bytes(storage: torch.UntypedStorage) -> int:
    """What it takes; 0 where that isn't known (symbolic shapes)."""
    try:
        size = storage.nbytes()
    except RuntimeError:
        return 0
    return size if type(size) is int else 0
