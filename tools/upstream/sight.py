"""What a run of a test shows, seen without a call that torch, a mode or the recorder could notice.

Gradients are read from memory, not by torch's functions: reading must be the same on both sides, and change neither.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import hashlib
import logging
import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

MOST_BITS = 2000
"""Hashes kept one by one; what comes after them goes into one more."""
MOST_BACKWARDS = 40
"""After so many backward calls of one test the leaves' gradients are no longer looked at: each look costs a walk."""
PLAIN_TENSORS = (torch.Tensor, torch.nn.Parameter)
COMPILER_KINDS = {"FakeTensor", "FunctionalTensor"}
"""What the compiler keeps in caches of its own, more or less from run to run."""


class Onlooker:
    """Watches one run: the engine's results, what the test compares, the log."""

    def __init__(self) -> None:
        self.bits: list[str] = []
        self.logged: list[str] = []
        self.random = ""
        self._rest = hashlib.blake2b(digest_size=6)
        self._backwards = 0

    @contextlib.contextmanager
    def open(self) -> Iterator[None]:
        """See all that happens in the block."""
        engine = torch.autograd.graph._engine_run_backward
        handler = _Collecting(self.logged)
        hook, sys.unraisablehook = sys.unraisablehook, self._unraisable
        logging.getLogger("seegrad").addHandler(handler)
        _set_engine(self._watched(engine))
        try:
            yield
        finally:
            _set_engine(engine)
            logging.getLogger("seegrad").removeHandler(handler)
            sys.unraisablehook = hook

    def all_bits(self) -> tuple[str, ...]:
        """The hashes; the last one stands for all that came after the first so many."""
        more = [f"rest {self._rest.hexdigest()}"] if len(self.bits) >= MOST_BITS else []
        return (*self.bits, *more)

    def comparing(self, compare: Callable[..., Any]) -> Callable[..., Any]:
        """`assertEqual` that also hashes the tensors it's given."""

        @functools.wraps(compare)
        def seen(*args: Any, **kwargs: Any) -> Any:
            for value in args[:2]:
                self._add("compared", value)
            return compare(*args, **kwargs)

        return seen

    def end(self) -> None:
        """The body has ended: where the random generators stand."""
        state = hashlib.blake2b(digest_size=6)
        state.update(memory_of(torch.default_generator.get_state()))
        state.update(repr(random.getstate()).encode())
        state.update(repr(np.random.get_state()).encode())  # the global state is what a test may have touched
        self.random = state.hexdigest()

    def _watched(self, engine: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(engine)
        def watched(*args: Any, **kwargs: Any) -> Any:
            result = engine(*args, **kwargs)
            if not torch.compiler.is_compiling():
                self._after_backward(result, accumulates=bool(kwargs.get("accumulate_grad")))
            return result

        return watched

    def _after_backward(self, result: Any, *, accumulates: bool) -> None:
        for value in result if isinstance(result, tuple | list) else ():
            self._add("returned", value)
        self._backwards += 1
        if accumulates and self._backwards <= MOST_BACKWARDS:
            for each in sorted(_gradients()):  # in which order the collector lists them says nothing
                self._put(f"grad {each}")

    def _add(self, what: str, value: Any) -> None:
        if issubclass(type(value), torch.Tensor):
            self._put(f"{what} {hashed(value)}")
        elif type(value) in (list, tuple):
            for each in value:
                if issubclass(type(each), torch.Tensor):
                    self._put(f"{what} {hashed(each)}")

    def _put(self, bits: str) -> None:
        if len(self.bits) < MOST_BITS:
            self.bits.append(bits)
        else:
            self._rest.update(bits.encode())

    def _unraisable(self, event: Any) -> None:
        self.logged.append(f"nobody could catch {event.exc_type.__name__}: {without_addresses(str(event.exc_value))}")


class _Collecting(logging.Handler):
    def __init__(self, found: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._found = found

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.exc_info:
            text += "\n" + logging.Formatter().formatException(record.exc_info)
        self._found.append(without_addresses(text))


def _set_engine(function: Callable[..., Any]) -> None:
    """Both names by which torch calls it."""
    torch.autograd.graph._engine_run_backward = function
    torch.autograd._engine_run_backward = function  # type: ignore[attr-defined]  # imported there, not exported


def without_addresses(text: str) -> str:
    """Text without what changes from run to run.

    >>> without_addresses("<object at 0x7f99df61e350>")
    '<object at 0x…>'
    """
    return re.sub(r"0x[0-9a-f]{6,}", "0x…", text)


def hashed(tensor: torch.Tensor) -> str:
    """Kind and bytes of a tensor in few letters; only its kind where its bytes aren't plain memory of this machine."""
    try:
        with torch._C.DisableTorchFunction():
            kind = f"{type(tensor).__name__} {str(tensor.dtype)[6:]} {list(tensor.shape)}"
            flags = f"{tensor.is_conj():d}{tensor.is_neg():d}{tensor.requires_grad:d}"
            digest = hashlib.blake2b(memory_of(tensor), digest_size=6).hexdigest() if _in_memory(tensor) else "-"
    except Exception as error:  # a tensor of a kind nobody thought of: what it says is the same on both sides
        return f"{type(tensor).__name__} {type(error).__name__}"
    return f"{kind} {flags} {digest}"


def _in_memory(tensor: torch.Tensor) -> bool:
    return (
        type(tensor) in PLAIN_TENSORS
        and tensor.layout is torch.strided
        and tensor.device.type == "cpu"
        and not tensor.is_quantized
        and not torch._C._functorch.is_functorch_wrapped_tensor(tensor)
        and not torch._is_functional_tensor(tensor)
    )


def memory_of(tensor: torch.Tensor) -> bytes:
    """The bytes of its elements in order, read behind torch's back: no call is seen, no copy-on-write is broken."""
    if not tensor.numel():
        return b""
    size, shape, strides = tensor.element_size(), tensor.shape, tensor.stride()
    last = sum((length - 1) * stride for length, stride in zip(shape, strides, strict=True))
    storage = torch._C._data_address(tensor)  # type: ignore[attr-defined]  # torch names it nowhere
    address = storage + tensor.storage_offset() * size
    raw = memoryview((ctypes.c_uint8 * ((last + 1) * size)).from_address(address))
    steps = (*(stride * size for stride in strides), 1)
    return np.ndarray((*shape, size), np.uint8, buffer=raw, strides=steps).tobytes()


def _gradients() -> Iterator[str]:
    """Hashes of the gradients of the leaves made since `gc.freeze()`: those that Python knows.

    Not of views: to ask one whether it is a leaf may change its graph.
    """
    for each in gc.get_objects():
        if type(each) in PLAIN_TENSORS:
            with torch._C.DisableTorchFunction():
                if each.requires_grad and not each._is_view() and each.is_leaf and each.grad is not None:
                    yield hashed(each.grad)


def living() -> tuple[tuple[str, int], ...]:
    """What was made since `gc.freeze()` and isn't gone, counted by kind."""
    found: Counter[str] = Counter()
    for each in gc.get_objects():
        kind = _kind(type(each))  # type: ignore[arg-type]  # every class can be hashed by its identity
        if kind == "class":
            kind = "Function" if issubclass(each, torch.autograd.Function) else ""
        if kind:
            found[kind] += 1
    return tuple(sorted(found.items()))


@functools.lru_cache(4096)
def _kind(kind: type) -> str:
    if str(kind.__module__).startswith("seegrad.capture") and kind.__name__ in ("Capture", "RecordingState"):
        return "Recording"
    if kind.__name__ in COMPILER_KINDS:
        return ""
    for name, base in (("tensor", torch.Tensor), ("module", torch.nn.Module), ("class", type)):
        if issubclass(kind, base):
            return name
    return "Node" if issubclass(kind, torch.autograd.graph.Node) else ""
