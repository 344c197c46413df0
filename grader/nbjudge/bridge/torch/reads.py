"""In the judge: what a test looks at of the tensors that the student's process has brought in."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Self
from weakref import WeakValueDictionary

from torch import Tensor
from torch.overrides import TorchFunctionMode

from nbjudge.bridge.around.parts import Looked
from nbjudge.bridge.torch import torch_private

FACTS = ("is_leaf", "requires_grad", "grad_fn", "_version", "retains_grad")
ABOUT = frozenset(  # what is asked about a tensor without looking at its numbers
    {
        *("__get__", "__set__", "size", "dim", "ndimension", "numel", "nelement", "stride", "storage_offset"),
        *("is_contiguous", "is_floating_point", "is_complex", "data_ptr", "type", "untyped_storage", "__len__"),
        *("requires_grad_", "detach", "register_hook", "retain_grad", "element_size", "__repr__", "__format__"),
    }
)
IsForeign = Callable[[Tensor], bool]


class Reads(TorchFunctionMode):
    """Notes when a test looks at the values of a tensor that the student's process brought in.

    Once it does there is nothing more to note: `rest` takes the mode away, which each operation would pay for.
    """

    def __init__(self, looked: Looked, is_foreign: IsForeign) -> None:
        super().__init__()
        self._looked, self._is_foreign = looked, is_foreign
        self._awake = False
        self._names: WeakValueDictionary[int, Tensor] = WeakValueDictionary()  # their tensors by other names: detached

    def __enter__(self) -> Self:
        super().__enter__()  # type: ignore[no-untyped-call]  # torch has no types for it
        self._awake = True
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if self._awake:
            super().__exit__(kind, error, trace)  # type: ignore[no-untyped-call]  # the same
        self._awake = False

    def rest(self) -> None:
        """Leave early, where there is nothing more to note and no other mode was entered since."""
        if self._awake and self._looked.data and torch_private.innermost_mode() is self:
            self.__exit__(None, None, None)

    def __torch_function__(self, function: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """As torch would do it; and noted."""
        if self._looked.data or not any(isinstance(item, Tensor) and self._counts(item) for item in args):
            return function(*args, **(kwargs or {}))
        self._looked.data = getattr(function, "__name__", "") not in ABOUT
        result = function(*args, **(kwargs or {}))
        if isinstance(result, Tensor):
            self._names[id(result)] = result
        return result

    def _counts(self, item: Tensor) -> bool:
        """Data that the other side has brought in; what an object of theirs says of a value isn't."""
        theirs = self._is_foreign(item) or self._names.get(id(item)) is item
        return theirs and not any(item is word for word in self._looked.worded)


def watched(name: str, looked: Looked, is_foreign: IsForeign) -> property:
    """A tensor's attribute that notes when a test reads what only the student's process vouches for."""
    original = torch_private.descriptor(name)

    def read(tensor: Tensor) -> Any:
        if name not in looked.facts and is_foreign(tensor) and not _inside_torch():
            looked.facts.add(name)
        return original.__get__(tensor)

    def write(tensor: Tensor, value: Any) -> None:
        original.__set__(tensor, value)

    return property(read, write)


def _inside_torch() -> bool:
    module = str(sys._getframe(2).f_globals.get("__name__", ""))
    return module.partition(".")[0] in ("torch", "nbjudge")
