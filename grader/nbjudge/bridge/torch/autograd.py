"""The few things that a mirror of tensors needs from torch's autograd: edges, walks, counters, a Function that asks."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, Node, get_gradient_edge

from nbjudge.bridge.torch import torch_private
from nbjudge.bridge.torch.hooks import is_hooked, is_hooked_after
from nbjudge.bridge.torch.records import ITEM_BYTES, History, TensorRecord, Window
from nbjudge.bridge.values.table import ITEMS

CARRIED = frozenset(getattr(torch, name) for name in ITEM_BYTES)
FUNCTIONS = 256  # names of Nodes that are remembered
Edge: TypeAlias = tuple[Node, int]
Start: TypeAlias = int | Tensor  # the number of a shared tensor, or a leaf that isn't shared yet
Look: TypeAlias = tuple[Any, ...]
Products: TypeAlias = Callable[[int, Tensor], Sequence[Tensor | None]]


@dataclasses.dataclass(frozen=True, slots=True)
class Link:
    """Where a vector-Jacobian product starts and ends, as the graph was when the tensor was shared."""

    output: GradientEdge
    inputs: tuple[GradientEdge, ...]

    def ends_at(self, tensor: Tensor) -> bool:
        """Is this tensor one of the inputs, or the output?"""
        own = edge_of(tensor)
        return any(
            (edge.node, edge.output_nr) == own or getattr(edge.node, "variable", None) is tensor
            for edge in (self.output, *self.inputs)
        )

    def products(self, grad: Tensor, *, create_graph: bool) -> tuple[Tensor | None, ...]:
        """Vector-Jacobian products: of each input directly, not through another input."""
        with _stopped(self.inputs):
            return torch.autograd.grad(
                (self.output,), self.inputs, (grad,), retain_graph=True, create_graph=create_graph, allow_unused=True
            )


@contextlib.contextmanager
def _stopped(inputs: Sequence[GradientEdge]) -> Iterator[None]:
    """Where an input was computed from another one, no gradient flows on below it: the other side adds that itself."""
    handles: list[Any] = []
    for node in {edge.node for edge in inputs} if len(inputs) > 1 else ():
        stops = {edge.output_nr for edge in inputs if edge.node is node}
        if node.next_functions:
            handles.append(node.register_prehook(functools.partial(_without, stops)))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _without(stops: set[int], grads: tuple[Tensor, ...]) -> Any:
    return tuple(None if number in stops else grad for number, grad in enumerate(grads))


@dataclasses.dataclass(frozen=True, slots=True)
class Walk:
    """What a tensor was computed from, down to the nearest shared tensors and the leaves."""

    starts: Mapping[Edge, Start]
    saves: bool


class Asked:
    """What a Node's backward asks of the other side."""

    def __init__(self, link: int, products: Products) -> None:
        self._link, self._products = link, products

    def __call__(self, grad: Tensor) -> Sequence[Tensor | None]:
        """The gradients of the Node's inputs."""
        return self._products(self._link, grad)


def describe(tensor: Tensor, number: int, window: Window, counter: int, history: History | None) -> TensorRecord:
    """All that is said of a tensor."""
    return TensorRecord(
        id=number,
        window=window,
        counter=counter,
        version=torch_private.version(tensor),
        leaf=torch_private.is_leaf(tensor),
        requires_grad=torch_private.requires_grad(tensor),
        retains_grad=_retains_grad(tensor),
        hooked=is_hooked(tensor),
        hooked_after=is_hooked_after(tensor),
        parameter=isinstance(tensor, torch.nn.Parameter),
        history=history,
    )


def look(tensor: Tensor) -> Look | None:
    """All that a tensor's record is made of, at a glance: where this is what it was, there is nothing to tell.

    None where it can't be known so: an empty tensor has no address.
    """
    if not (address := tensor.data_ptr()):
        return None
    return (
        address,
        tensor.dtype,
        tensor.shape,
        tensor.stride(),
        tensor.storage_offset(),
        torch_private.version(tensor),
        torch_private.is_leaf(tensor),
        torch_private.requires_grad(tensor),
        _retains_grad(tensor),
        is_hooked(tensor),
        is_hooked_after(tensor),
        type(tensor),
        edge_of(tensor),
    )


def _retains_grad(tensor: Tensor) -> bool:
    return not torch_private.is_leaf(tensor) and torch_private.retains_grad(tensor)


def grad_of(tensor: Tensor) -> Tensor | None:
    """The gradient of a tensor that may have one; torch warns of the others."""
    return tensor.grad if torch_private.is_leaf(tensor) or torch_private.retains_grad(tensor) else None


def unsupported(tensor: Tensor) -> str | None:
    """Why a tensor can't be carried to another process, or None."""
    if tensor.layout is not torch.strided or tensor.is_quantized:
        return f"a tensor with layout {tensor.layout}{' that requires a gradient' if tensor.requires_grad else ''}"
    if tensor.device.type != "cpu":
        return f"a tensor on {tensor.device}"
    if tensor.dtype not in CARRIED:
        return f"a tensor of {tensor.dtype}"
    if tensor.numel() > ITEMS:
        return f"a tensor of more than {ITEMS} items"
    if tensor.is_inference():
        return "an inference tensor"
    if tensor.is_conj() or tensor.is_neg():
        return "a lazily conjugated or negated tensor"
    return None if is_true_or_false(tensor) else "a tensor of truth values in whose memory other numbers are"


def is_true_or_false(tensor: Tensor) -> bool:
    """Are truth values 0 and 1? torch counts, adds and compares others as nobody would."""
    return tensor.dtype is not torch.bool or not bool((tensor.view(torch.uint8) > 1).any())


def edge_of(tensor: Tensor) -> Edge | None:
    """The Node that computed a tensor, and which of its outputs it is; None for a leaf."""
    node = torch_private.grad_fn(tensor)
    return None if node is None else (node, tensor.output_nr)


def own_edge(tensor: Tensor) -> GradientEdge:
    """The edge into a tensor's history, as it is now."""
    return get_gradient_edge(tensor)


def name_of(tensor: Tensor) -> str:
    """The name of a tensor's grad_fn."""
    return type(tensor.grad_fn).__name__[:200]


def without_history(record: TensorRecord) -> TensorRecord:
    """The record, its history told."""
    return record if record.history is None else TensorRecord(*record[:-1], history=None)


def walk(tensor: Tensor, shared: Mapping[Edge, int]) -> Walk:
    """Go back from a tensor, by a stack, until each path ends at a shared tensor or at a leaf."""
    first = tensor.grad_fn
    assert first is not None  # noqa: S101 - called for tensors with a history only
    starts: dict[Edge, Start] = {}
    seen, stack, saves = {first}, [first], False
    while stack:
        node = stack.pop()
        saves = saves or torch_private.holds_saved(node)
        for below, number in node.next_functions:
            if below is None:
                continue
            if (below, number) in shared:
                starts[below, number] = shared[below, number]
            elif (leaf := getattr(below, "variable", None)) is not None:
                starts[below, number] = leaf
            elif below not in seen:
                seen.add(below)
                stack.append(below)
    return Walk(starts, saves)


def compute(history: History, raw: Tensor, inputs: Sequence[Tensor], asked: Asked) -> Tensor:
    """`raw` with a history: the output of one Function, computed by the other side, whose backward asks there."""

    only = [raw]  # emptied by forward: what a Node can reach must not reach its own output, which would never end

    def bare(_ctx: Any, _inputs: tuple[Tensor, ...]) -> Tensor:
        return only.pop()

    del raw
    made = _function(history.name).apply(Told(bare, history.saves, asked, 1), *inputs, *_anchor(inputs))
    assert isinstance(made, Tensor)  # noqa: S101 - apply isn't typed
    return made


def recompute(history: History, tensor: Tensor, inputs: Sequence[Tensor], asked: Asked) -> None:
    """Give a tensor a new history in place, as an in-place operation does."""

    def written(ctx: Any, inputs: tuple[Tensor, ...]) -> Tensor:
        ctx.mark_dirty(inputs[0])
        return inputs[0]

    told = Told(written, history.saves, asked, 2)
    _function(history.name).apply(told, tensor, *inputs, *_anchor(inputs))


def _anchor(inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The output must require a gradient, also where nothing that we know of does."""
    return () if any(tensor.requires_grad for tensor in inputs) else (torch.zeros((), requires_grad=True),)


@dataclasses.dataclass(frozen=True, slots=True)
class Told:
    """What one use of a Function is told beside its inputs."""

    made: Callable[[Any, tuple[Tensor, ...]], Tensor]
    saves: bool
    asked: Asked
    ahead: int  # arguments before the inputs, this one among them


def _forward(ctx: Any, told: Told, *inputs: Tensor) -> Tensor:
    ctx.saves, ctx.asked, ctx.ahead = told.saves, told.asked, told.ahead
    if told.saves:
        ctx.save_for_backward(torch.empty(0))
    return told.made(ctx, inputs)


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    if ctx.saves:
        _ = ctx.saved_tensors  # torch raises here when the graph was freed
    wanted = len(ctx.needs_input_grad)
    found: tuple[Tensor | None, ...] = (None,) * ctx.ahead + tuple(ctx.asked(grad))
    return (found + (None,) * wanted)[:wanted]


@functools.lru_cache(FUNCTIONS)
def _function(name: str) -> Any:
    """The Function whose Nodes have this name: making a class takes longer than using it."""
    methods = {"forward": staticmethod(_forward), "backward": staticmethod(_backward)}
    made: Any = type("Remote", (torch.autograd.Function,), methods)
    torch_private.name_nodes(made, name or "Remote")
    return made


def same_counter(first: Tensor, second: Tensor) -> bool:
    """Do two tensors share their version counter? Tried, and undone."""
    if first is second:
        return True
    before, other = torch_private.version(first), torch_private.version(second)
    if before != other:
        return False
    torch_private.set_version(first, before + 1)
    shared = torch_private.version(second) != other
    torch_private.set_version(first, before)
    return shared


def storage_bytes(storage: torch.UntypedStorage) -> bytes:
    """A storage's bytes, copied."""
    return bytes(view_of(storage).tobytes())


def view_of(storage: torch.UntypedStorage) -> Any:
    """A storage's bytes where they lie, as NumPy sees them."""
    return _bytes_of(storage).numpy()


def storage_of(data: bytes) -> torch.UntypedStorage:
    """A new storage with these bytes."""
    storage = torch.UntypedStorage(len(data))  # type: ignore[no-untyped-call]  # torch has no type for it
    overwrite(storage, data)
    return storage


def overwrite(storage: torch.UntypedStorage, data: bytes) -> None:
    """Write bytes without moving anybody's version counter."""
    if data:
        _bytes_of(storage).copy_(torch.frombuffer(bytearray(data), dtype=torch.uint8))


def _bytes_of(storage: torch.UntypedStorage) -> Tensor:
    return torch.empty(0, dtype=torch.uint8).set_(storage)


def window_on(storage: torch.UntypedStorage, dtype: torch.dtype, window: Window) -> Tensor:
    """A tensor on a storage, with a version counter of its own."""
    made = torch.empty(0, dtype=dtype).set_(storage, window.offset, window.shape, window.stride)
    torch_private.set_version(made, 0)  # set_ counts as a write
    return made


def same_window(kin: Tensor, dtype: torch.dtype, window: Window) -> Tensor | None:
    """A tensor that shares kin's storage and version counter; None where its dtype forbids that."""
    if kin.dtype != dtype:
        return None
    with torch.no_grad():
        return kin.detach().as_strided(window.shape, window.stride, window.offset)


def contiguous_stride(shape: Sequence[int]) -> list[int]:
    """The strides of a contiguous tensor."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1) if isinstance(size, int) else 1
    return strides[::-1]
