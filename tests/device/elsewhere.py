"""A second device that needs no hardware: host memory under a name of its own, in Python, for the tests alone.

torch has one device type that a project may fill (PrivateUse1), and a set-up for filling it from Python. A tensor here
is one of torch's own, with a storage, views and a version counter: only its kernels are ours. They show the CPU's
kernel the same memory and let it work. What would make a host wait for an accelerator, a value or a shape that is read
back, is noted in `READS`. The engine gives the device a thread of its own.

`register()` is for good: tests that use it run in a process of their own.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils import backend_registration

NAME = "elsewhere"

_SET_UP = getattr(backend_registration, "_setup_privateuseone_for_python_backend", None)
_CPU = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
_READING = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}
_LIBRARIES: list[torch.library.Library] = []
_ENOUGH = 4096
_HOST = torch.device("cpu")
_COPY = torch.ops.aten._copy_from.default


@dataclass(frozen=True)
class Read:
    """The host waited: for which op, and in which line that isn't torch's."""

    op: str
    place: str


READS: list[Read] = []
"""Each time that the host waited, in order."""


def chosen(otherwise: str = "cuda") -> str:
    """The device that SEEGRAD_TEST_DEVICE names."""
    return os.environ.get("SEEGRAD_TEST_DEVICE", otherwise)


def missing() -> str:
    """Why this torch can't have the device; empty where it can."""
    return "" if _SET_UP else f"torch {torch.__version__} has no set-up for a device written in Python."


def register() -> None:
    """Make the device known to torch, once; it can't be taken away again."""
    if _LIBRARIES or _SET_UP is None:
        return
    _SET_UP(NAME, _Module())
    every, some = torch.library.Library("_", "IMPL"), torch.library.Library("aten", "IMPL")
    every.fallback(_kernel, "PrivateUse1")
    every.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    for key in ("Conjugate", "Negative"):  # else each makes its tensor plain by a copy, and a copy comes here
        some.impl("_copy_from", torch.library.fallthrough_kernel, key)
    # beneath a mode that's switched off, where the recorder looks at views, torch finds no fallback in Python
    some.impl("as_strided", partial(_kernel, torch.ops.aten.as_strided.default), "PrivateUse1")
    some.impl("convolution_overrideable", _convolution, "PrivateUse1")
    some.impl("convolution_backward_overrideable", _convolution_backward, "PrivateUse1")
    torch.storage._StorageBase.clone = _cloned
    _LIBRARIES.extend((every, some))


class _Module:
    """What is asked of `torch.elsewhere`."""

    def is_available(self) -> bool:
        return True

    def is_initialized(self) -> bool:
        return True

    def _is_in_bad_fork(self) -> bool:
        return False

    def device_count(self) -> int:
        return 1

    def current_device(self) -> int:
        return 0

    def device(self, _index: int) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def get_rng_state(self, _device: Any = NAME) -> torch.Tensor:
        """Its random numbers are the CPU's."""
        return torch.get_rng_state()

    def set_rng_state(self, state: torch.Tensor, _device: Any = NAME) -> None:
        torch.set_rng_state(state)

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16]

    def manual_seed_all(self, seed: int) -> None:
        """The CPU's generator is set already."""


# -- memory


class _Memory:
    """Which memory of the host a storage of the device is."""

    def __init__(self) -> None:
        self._of: dict[int, tuple[Any, StorageWeakRef]] = {}
        self._many = _ENOUGH

    def storage(self, host: Any) -> Any:
        """A storage of the device; the host's memory lives as long as it does."""
        address, device = host.data_ptr(), torch.device(NAME, 0)
        storage = torch._C._construct_storage_from_data_pointer(address, device, host.nbytes())
        self._of[storage._cdata] = host, StorageWeakRef(storage)
        if len(self._of) > self._many:
            self._of = {key: entry for key, entry in self._of.items() if not entry[1].expired()}
            self._many = 2 * len(self._of) + _ENOUGH
        return storage

    def behind(self, storage: Any) -> Any:
        """The host's storage; an empty one for a storage that torch made itself, which is empty too."""
        host, made = self._of.get(storage._cdata, (None, None))
        alive = made is not None and not made.expired()
        return host if alive else torch.empty(0, dtype=torch.uint8, device="cpu").untyped_storage()


_MEMORY = _Memory()


_clone = torch.UntypedStorage.clone


def _cloned(storage: torch.UntypedStorage) -> torch.UntypedStorage:
    """`copy.deepcopy` of a tensor: torch asks no kernel, and has nobody to ask for the memory."""
    here = storage.device.type != NAME
    return _clone(storage) if here else _MEMORY.storage(_clone(_MEMORY.behind(storage)))


def _set(tensor: torch.Tensor, storage: Any, like: torch.Tensor) -> torch.Tensor:
    set_ = torch.ops.aten.set_.source_Storage_storage_offset
    set_.redispatch(_CPU, tensor, storage, like.storage_offset(), like.shape, like.stride())
    return tensor


def _there(host: torch.Tensor, tensor: torch.Tensor | None = None) -> torch.Tensor:
    """A tensor of the device over the memory of one of the host's: a new one, or this one, changed."""
    storage = _MEMORY.storage(host.untyped_storage())
    return _set(torch._C._acc.create_empty_tensor((0,), host.dtype) if tensor is None else tensor, storage, host)


def _here(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor of the host over the memory of one of the device's."""
    host = torch.empty(0, dtype=tensor.dtype, device="cpu")
    host = _set(host, _MEMORY.behind(tensor.untyped_storage()), tensor)
    host = host.conj() if tensor.is_conj() else host
    return torch._neg_view(host) if tensor.is_neg() else host


def _is_there(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == NAME


# -- kernels


@dataclass(frozen=True)
class _Facts:
    """What an op's schema says."""

    is_view: bool
    writes: bool
    reads: bool
    tensors: tuple[int, ...]  # arguments that are tensors


@cache
def _facts(op: Any) -> _Facts:
    aliases = [each.alias_info for each in op._schema.returns]
    views = op._schema.name == "aten::set_" or any(each is not None and not each.is_write for each in aliases)
    tensors = tuple(i for i, each in enumerate(op._schema.arguments) if str(each.type) == "Tensor")
    return _Facts(views, op._schema.is_mutable, not _READING.isdisjoint(op.tags), tensors)


def _kernel(op: Any, *args: Any, **kwargs: Any) -> Any:
    """Any op of torch's, on this device."""
    facts = _facts(op)
    with torch._C.DisableTorchFunction():
        if op is _COPY:
            return _copy(*args)
        if facts.reads and (op is not torch.ops.aten.index.Tensor or _picks(args[1])):
            _note(op)
        if facts.is_view:
            return op.redispatch(_CPU, *args, **kwargs)  # what it does to sizes is the same on any device
        return _compute(op, facts, args, kwargs)


def _picks(indices: Sequence[torch.Tensor | None]) -> bool:
    """True where values say how large the result is."""
    return any(each is not None and each.dtype in (torch.bool, torch.uint8) for each in indices)


def _note(op: Any) -> None:
    """The host waits, for the innermost line that is neither torch's nor this file's."""
    torchs, frame = str(Path(torch.__file__).parent), sys._getframe(1)
    while frame.f_back is not None and (
        frame.f_code.co_filename.startswith(torchs) or frame.f_code.co_filename == __file__
    ):
        frame = frame.f_back
    READS.append(Read(op.name(), f"{frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_name}"))


def _copy(source: torch.Tensor, target: torch.Tensor, *_: Any) -> torch.Tensor:
    if source.device != target.device:
        _note(_COPY)
    (_here(target) if _is_there(target) else target).copy_(_here(source) if _is_there(source) else source)
    return target


def _compute(op: Any, facts: _Facts, args: Any, kwargs: Any) -> Any:
    """The CPU's kernel on the same memory; its results are the device's, and the arguments it wrote are themselves."""
    given: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def here(value: Any) -> Any:
        if not _is_there(value):
            return _HOST if isinstance(value, torch.device) else value
        if id(value) not in given:
            given[id(value)] = value, _here(value)
        return given[id(value)][1]

    compute = partial(op.redispatch, _CPU)  # past all that stands above a device: autograd, modes, functorch
    if any(i < len(args) and not isinstance(args[i], torch.Tensor) for i in facts.tensors):
        compute = op.overloadpacket  # a number was made a tensor above, and Python is given the number again
    result = compute(*_each(here, args), **{name: _each(here, value) for name, value in kwargs.items()})
    same = {id(host): tensor for tensor, host in given.values()}
    for tensor, host in given.values() if facts.writes else ():
        if _layout(host) != _layout(tensor):  # an out= or a resize_
            _there(host, tensor)

    def there(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return same[id(value)] if id(value) in same else _there(value)

    return _each(there, result)


def _convolution(*args: Any) -> Any:
    return _kernel(torch.ops.aten.convolution.default, *args)


def _convolution_backward(result: Any, given: Any, weight: Any, *how: Any) -> Any:
    return _kernel(torch.ops.aten.convolution_backward.default, result, given, weight, weight.shape[:1], *how)


def _each(change: Callable[[Any], Any], value: Any) -> Any:
    """The value, or each of a list, changed: deeper nothing is given to an op."""
    return type(value)([_each(change, each) for each in value]) if isinstance(value, list | tuple) else change(value)


def _layout(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.shape, tensor.stride(), tensor.storage_offset(), tensor.untyped_storage().data_ptr()
