"""What one process tells the other about a tensor: checked records, no torch.

Storages travel as bytes, tensors as windows on them, so aliasing survives the journey.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from nbjudge.bridge.values.table import ITEMS, STORAGE_BYTES, whole_numbers
from nbjudge.errors import WireError
from nbjudge.wire import text, whole

ITEM_BYTES: Mapping[str, int] = MappingProxyType(
    {
        **{"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8, "complex64": 8, "complex128": 16},
        **{"uint8": 1, "int8": 1, "int16": 2, "int32": 4, "int64": 8, "bool": 1},
    }
)
DIFFERENTIABLE = frozenset({"float16", "bfloat16", "float32", "float64", "complex64", "complex128"})
TENSORS = 1 << 16
VERSIONS = 1 << 31
FLAGS = ("leaf", "requires_grad", "retains_grad", "parameter", "hooked", "hooked_after")


class StoredBytes(NamedTuple):
    """A storage and where its bytes lie in the packet's body."""

    id: int
    start: int
    size_bytes: int
    over: tuple[int, ...] = ()  # the arrays' memory that it lies on, and where in it


class Window(NamedTuple):
    """Which items of a storage a tensor shows."""

    storage: int
    dtype: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int


class History(NamedTuple):
    """How a tensor was computed: a handle for vector-Jacobian products, and the shared tensors it was made from."""

    link: int
    name: str
    inputs: tuple[int, ...]
    saves: bool  # does the graph in between hold saved tensors, so that it can be used once only?


class TensorRecord(NamedTuple):
    """All that is said of one tensor; `history` is None where nothing has changed since the other side made it."""

    id: int
    window: Window
    counter: int  # tensors with the same number share one version counter
    version: int
    leaf: bool
    requires_grad: bool
    retains_grad: bool
    parameter: bool
    hooked: bool
    hooked_after: bool  # a hook of its owner's is called when its gradient has been accumulated
    history: History | None


def as_tree(part: Any) -> dict[str, Any]:
    """One of these as JSON can say it.

    >>> as_tree(StoredBytes(1, 0, 8))
    {'id': 1, 'start': 0, 'size_bytes': 8, 'over': ()}
    """
    return dict(zip(part.__annotations__, part, strict=True))


def record_tree(record: TensorRecord) -> dict[str, Any]:
    """The same of a tensor's, with what it holds."""
    history = None if record.history is None else as_tree(record.history)
    return as_tree(record) | {"window": as_tree(record.window), "history": history}


def read_storage(tree: Any, body_bytes: int) -> StoredBytes:
    """A storage's entry, checked against the body.

    Raises:
        WireError: it points outside the body, or is too large.
    """
    tree = _object(tree)
    over = whole_numbers(tree, "over", len(("memory", "start"))) if "over" in tree else ()
    stored = StoredBytes(whole(tree, "id"), whole(tree, "start"), whole(tree, "size_bytes", 0, STORAGE_BYTES), over)
    if len(over) == 1:
        raise WireError("A storage lies nowhere in the memory that it lies on.")
    if stored.start + stored.size_bytes > body_bytes:
        raise WireError("A storage lies outside its frame.")
    return stored


def read_window(tree: Any, storage_bytes: Mapping[int, int]) -> Window:
    """A window, checked: known dtype, whole non-negative numbers, inside its storage.

    Raises:
        WireError: it isn't.
    """
    tree = _object(tree)
    dtype = text(tree, "dtype")
    shape, stride = whole_numbers(tree, "shape"), whole_numbers(tree, "stride")
    window = Window(whole(tree, "storage"), dtype, shape, stride, whole(tree, "offset"))
    if dtype not in ITEM_BYTES or len(shape) != len(stride) or window.storage not in storage_bytes:
        raise WireError("A tensor has an unknown dtype or storage, or a stride that doesn't fit its shape.")
    items = 1
    for size in shape:
        items *= size
    if items > ITEMS:
        raise WireError(f"A tensor has more than {ITEMS} items.")
    last = window.offset + sum((size - 1) * step for size, step in zip(shape, stride, strict=True))
    if items and (last + 1) * ITEM_BYTES[dtype] > storage_bytes[window.storage]:
        raise WireError("A tensor reaches beyond its storage.")
    if not items and window.offset * ITEM_BYTES[dtype] > storage_bytes[window.storage]:
        raise WireError("An empty tensor begins beyond its storage.")
    return window


def read_tensor(tree: Any, storage_bytes: Mapping[int, int]) -> TensorRecord:
    """A tensor's record, checked.

    Raises:
        WireError: it isn't one of ours, or contradicts itself.
    """
    tree = _object(tree)
    window = read_window(tree.get("window"), storage_bytes)
    flags = {name: _flag(tree, name) for name in FLAGS}
    history = None if tree.get("history") is None else _history(tree["history"])
    if flags["requires_grad"] and window.dtype not in DIFFERENTIABLE:
        raise WireError(f"A tensor of {window.dtype} can't require a gradient.")
    if flags["leaf"] and history is not None:
        raise WireError("A leaf has no history.")
    return TensorRecord(
        whole(tree, "id"), window, whole(tree, "counter"), whole(tree, "version", 0, VERSIONS), **flags, history=history
    )


def _history(tree: Any) -> History:
    tree = _object(tree)
    inputs, name = whole_numbers(tree, "inputs", TENSORS), text(tree, "name")
    if not name.isprintable():
        raise WireError("A history has no name.")
    return History(whole(tree, "link"), name, inputs, _flag(tree, "saves"))


def _object(tree: Any) -> Mapping[str, Any]:
    if type(tree) is not dict:
        raise WireError("A part of a frame isn't an object.")
    return tree


def _flag(tree: Mapping[str, Any], key: str) -> bool:
    flag = tree.get(key)
    if type(flag) is not bool:
        raise WireError(f"{key!r} is neither true nor false.")
    return flag
