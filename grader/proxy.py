"""In the judge: what a test cell asks of the student's process, and what was only claimed over there."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

from .errors import StudentGone, WireError
from .peer import Peer
from .values import UnsupportedError
from .wire import Pipe

CLAIMS = ("is_leaf", "requires_grad", "grad_fn", "_version", "retains_grad")
GONE = "the student's process ended during this question"
T = TypeVar("T")


class Witness:
    """The student's process, as a test cell sees it. Remembers what went wrong, also when a test's `except` hid it."""

    def __init__(self, pipe: Pipe) -> None:
        self.peer = Peer(pipe, side=0)
        self.peer.call = self._guarded(self.peer.call)  # type: ignore[method-assign]  # proxies call it by name
        self.peer._products = self._guarded(self.peer._products)  # type: ignore[method-assign]  # the same
        self.gone: str | None = None
        self.unsupported: str | None = None
        self.claims: set[str] = set()

    def begin(self) -> None:
        """A new test cell: what was claimed or couldn't be carried before is no matter of its own."""
        self.claims.clear()
        self.unsupported = None

    def names(self, wanted: Sequence[str]) -> dict[str, Any]:
        """What these names stand for over there; a name that isn't there is left out.

        Values that can't be carried come as UnsupportedError objects, for the caller to raise where they are read.
        """
        return self._guarded(self._names)(wanted)

    def bound_at(self, names: Sequence[str]) -> dict[str, int]:
        """The student's cell that last gave each of these names a value."""
        return self._guarded(self._bound_at)(names)

    def _bound_at(self, names: Sequence[str]) -> dict[str, int]:
        found = self.peer.ask("bound", {"names": list(names)})
        if type(found) is not dict or any(type(cell) is not int for cell in found.values()):
            raise WireError("The answer to a question for cells isn't one.")
        return {name: cell for name, cell in found.items() if name in names}

    def finish(self) -> None:
        """Tell the other side what the test cell has changed, before the student's next cell runs."""
        if self.gone is None:
            self._guarded(self.peer.ask)("sync")

    def _names(self, wanted: Sequence[str]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        items = self.peer.ask("names", {"names": list(wanted)})
        for item in items if type(items) is list else [None]:
            if type(item) is not list or len(item) != 3 or item[0] not in wanted:
                raise WireError("The answer to a question for names isn't one.")
            name, how, value = item
            if how == "found":
                found[name] = value
            elif how == "unsupported":
                found[name] = UnsupportedError(str(value)[:300])
        return found

    def _guarded(self, ask: Callable[..., T]) -> Callable[..., T]:
        def guarded(*args: Any, **kwargs: Any) -> T:
            if self.gone is not None:
                raise StudentGone(self.gone)
            try:
                return ask(*args, **kwargs)
            except UnsupportedError as error:
                self.unsupported = self.unsupported or str(error)
                raise
            except (EOFError, ConnectionError):
                self.gone = GONE
                raise StudentGone(self.gone) from None
            except WireError as error:
                self.gone = f"the student's process broke the rules of the conversation: {error}"
                raise StudentGone(self.gone) from None

        return guarded

    # ------------------------------------------------------------------ claims

    def watch(self) -> None:
        """From here on, note when a test reads something of a tensor that only the student's process vouches for."""
        for name in CLAIMS:
            setattr(torch.Tensor, name, _watched(name, self))

    def vouched_elsewhere(self, tensor: Tensor) -> bool:
        """Did the student's process bring this tensor in?"""
        ledger = self.peer.mirror.ledger
        number = ledger.number_of(tensor)
        return number is not None and number in ledger.foreign


def _watched(name: str, witness: Witness) -> property:
    original = getattr(torch._C.TensorBase, name)

    def read(tensor: Tensor) -> Any:
        if not _inside_torch(sys._getframe(1).f_globals.get("__name__", "")) and witness.vouched_elsewhere(tensor):
            witness.claims.add(name)
        return original.__get__(tensor)

    def write(tensor: Tensor, value: Any) -> None:
        original.__set__(tensor, value)

    return property(read, write)


def _inside_torch(module: str) -> bool:
    return module.partition(".")[0] in ("torch", "grader")


def readable(values: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """The values that could be carried."""
    return {name: value for name, value in values if not isinstance(value, UnsupportedError)}
