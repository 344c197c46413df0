"""Tensors that two processes share: the same code on both sides, data in between.

Each side keeps a real tensor for every shared one. A message first says what has changed here since the last one
(bytes, versions, history, gradients), so an in-place write, a `.grad` or an alias on one side is one on the other too.
Gradients cross by vector-Jacobian products: a tensor computed over there is here the output of one Function, named as
its `grad_fn` is over there, whose backward asks the other side.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge

from . import graph
from .errors import WireError
from .records import (
    ITEM_BYTES,
    STORAGE_BYTES,
    History,
    StoredBytes,
    TensorRecord,
    Window,
    read_storage,
    read_tensor,
    read_window,
)
from .values import UnsupportedError
from .wire import listed

Products = Callable[[int, Tensor], Sequence[Tensor | None]]
DTYPES: Mapping[str, torch.dtype] = {name: getattr(torch, name) for name in ITEM_BYTES}
NAMES: Mapping[torch.dtype, str] = {dtype: name for name, dtype in DTYPES.items()}


@dataclass(slots=True)
class Storage:
    """A shared storage and its bytes as both sides last agreed on them."""

    id: int
    here: torch.UntypedStorage
    agreed: bytes


@dataclass(slots=True)
class Message:
    """What one frame says about tensors, while it is put together."""

    body: bytearray = field(default_factory=bytearray)
    storages: list[StoredBytes] = field(default_factory=list)
    tensors: list[TensorRecord] = field(default_factory=list)
    grads: list[tuple[int, int | None]] = field(default_factory=list)

    def put(self, data: bytes) -> int:
        """Append bytes to the body; returns where they start."""
        start = len(self.body)
        self.body += data
        return start

    def to_json(self) -> dict[str, Any]:
        """The part of the header that is about tensors."""
        return {
            "storages": [{"id": part.id, "start": part.start, "size_bytes": part.size_bytes} for part in self.storages],
            "tensors": [record.to_json() for record in self.tensors],
            "grads": [list(pair) for pair in self.grads],
        }


class Mirror:
    """This side's tables of shared tensors. `side` is 0 or 1: each side numbers what it brings in its own way."""

    def __init__(self, side: int, products: Products) -> None:
        self._products = products
        self._next = side
        self.tensors: dict[int, Tensor] = {}
        self.links: dict[int, graph.Link] = {}
        self.foreign: set[int] = set()  # tensors that the other side brought in
        self._ids: dict[int, int] = {}  # id() of a tensor that we hold → its number
        self._storages: dict[int, Storage] = {}
        self._pointers: dict[int, int] = {}  # address → storage
        self._edges: dict[graph.Edge, int] = {}  # where the history of a shared tensor begins
        self._agreed: dict[int, TensorRecord] = {}
        self._agreed_grads: dict[int, int | None] = {}
        self._agreed_edges: dict[int, graph.Edge | None] = {}
        self._counters: dict[int, list[tuple[int, int]]] = {}  # storage → (counter, a tensor that has it)

    # ------------------------------------------------------------------ telling

    def begin(self) -> Message:
        """A message that starts with everything that has changed here since the last one."""
        message = Message()
        for storage in self._storages.values():
            now = graph.storage_bytes(storage.here)
            if now != storage.agreed:
                self._tell_bytes(storage, now, message)
        for number, tensor in list(self.tensors.items()):
            self._tell(number, tensor, message)
        for number, tensor in list(self.tensors.items()):
            self._tell_grad(number, tensor, message)
        return message

    def share(self, tensor: Tensor, message: Message) -> int:
        """The number of a tensor, telling the other side about it where it is new."""
        if (known := self._ids.get(id(tensor))) is not None:
            return known
        if reason := graph.unsupported(tensor):
            raise UnsupportedError(reason)
        number = self._new_number()
        self._hold(number, tensor)
        self._tell(number, tensor, message)
        self._tell_grad(number, tensor, message)
        return number

    def number_of(self, tensor: Tensor) -> int | None:
        """The number of a tensor that is shared already."""
        return self._ids.get(id(tensor))

    def data(self, tensor: Tensor, message: Message) -> dict[str, Any]:
        """A tensor's values alone: neither identity nor history travels."""
        values = tensor.detach().contiguous()
        data = graph.storage_bytes(values.clone().untyped_storage())
        return {
            "t": "data",
            "dtype": NAMES[values.dtype],
            "shape": list(values.shape),
            "start": message.put(data),
            "size_bytes": len(data),
        }

    def _new_number(self) -> int:
        self._next += 2
        return self._next

    def _hold(self, number: int, tensor: Tensor) -> None:
        self.tensors[number] = tensor
        self._ids[id(tensor)] = number

    def _tell(self, number: int, tensor: Tensor, message: Message) -> None:
        edge = graph.edge_of(tensor)
        known = number in self._agreed
        history = None
        if edge is not None and (not known or edge != self._agreed_edges[number]):
            history = self._new_history(tensor, message)
        record = self._describe(number, tensor, history, message)
        if record != self._agreed.get(number):
            message.tensors.append(record)
        self._agree(record, edge)

    def _describe(self, number: int, tensor: Tensor, history: History | None, message: Message) -> TensorRecord:
        storage = self._storage(tensor, message)
        window = Window(
            storage, NAMES[tensor.dtype], tuple(tensor.shape), tuple(tensor.stride()), int(tensor.storage_offset())
        )
        return TensorRecord(
            id=number,
            window=window,
            counter=self._counter(number, tensor, storage),
            version=tensor._version,
            leaf=tensor.is_leaf,
            requires_grad=tensor.requires_grad,
            retains_grad=not tensor.is_leaf and tensor.retains_grad,
            parameter=isinstance(tensor, torch.nn.Parameter),
            history=history,
        )

    def _agree(self, record: TensorRecord, edge: graph.Edge | None) -> None:
        """Both sides now hold this; a history is told once."""
        number = record.id
        self._agreed[number] = graph.without_history(record)
        self._agreed_edges[number] = edge
        if edge is not None:
            self._edges[edge] = number

    def _new_history(self, tensor: Tensor, message: Message) -> History:
        found = graph.walk(tensor, self._edges)
        starts = found.starts.values()
        inputs = tuple(start if isinstance(start, int) else self.share(start, message) for start in starts)
        link = self._new_number()
        self.links[link] = graph.Link(graph.own_edge(tensor), tuple(GradientEdge(*edge) for edge in found.starts))
        return History(link, graph.name_of(tensor), inputs, found.saves)

    def _tell_grad(self, number: int, tensor: Tensor, message: Message) -> None:
        readable = tensor.is_leaf or tensor.retains_grad
        grad = tensor.grad if readable else None
        told = None if grad is None else self.share(grad, message)
        if told != self._agreed_grads.get(number):
            message.grads.append((number, told))
        self._agreed_grads[number] = told

    def _storage(self, tensor: Tensor, message: Message) -> int:
        here = tensor.untyped_storage()
        pointer = here.data_ptr()
        if pointer and pointer in self._pointers:
            return self._pointers[pointer]
        if here.nbytes() > STORAGE_BYTES:
            raise UnsupportedError(f"a tensor of {here.nbytes() >> 20} MiB (at most {STORAGE_BYTES >> 20} are carried)")
        agreed = self._agreed.get(self._ids[id(tensor)])
        if not pointer and agreed is not None:
            return agreed.window.storage
        storage = Storage(self._new_number(), here, b"")
        self._know(storage)
        self._tell_bytes(storage, graph.storage_bytes(here), message)
        return storage.id

    def _know(self, storage: Storage) -> None:
        self._storages[storage.id] = storage
        if pointer := storage.here.data_ptr():
            self._pointers[pointer] = storage.id

    def _tell_bytes(self, storage: Storage, now: bytes, message: Message) -> None:
        storage.agreed = now
        message.storages.append(StoredBytes(storage.id, message.put(now), len(now)))

    def _counter(self, number: int, tensor: Tensor, storage: int) -> int:
        """The number of the version counter: shared by views and `detach()`, not by `.data`."""
        known = self._counters.setdefault(storage, [])
        for counter, member in known:
            if member == number:
                return counter
        for counter, member in known:
            if graph.same_counter(self.tensors[member], tensor):
                known.append((counter, number))
                return counter
        known.append((number, number))
        return number

    # ------------------------------------------------------------------ hearing

    def apply(self, said: Any, body: bytes) -> None:
        """Take over what the other side says has changed or is new."""
        if type(said) is not dict:
            raise WireError("A frame says nothing about its tensors.")
        for tree in listed(said, "storages"):
            self._apply_bytes(read_storage(tree, len(body)), body)
        sizes = {number: storage.here.nbytes() for number, storage in self._storages.items()}
        for tree in listed(said, "tensors"):
            record = read_tensor(tree, sizes)
            with torch.enable_grad():
                self._apply_record(record)
        for pair in listed(said, "grads"):
            self._apply_grad(pair)

    def tensor(self, number: int) -> Tensor:
        """The tensor that both sides know under this number; WireError where there is none."""
        if number not in self.tensors:
            raise WireError("A frame names a tensor that was never shared.")
        return self.tensors[number]

    def read_data(self, tree: Mapping[str, Any], body: bytes) -> Tensor:
        """A tensor of values alone."""
        stored = read_storage({**tree, "id": 0}, len(body))
        shape = listed(tree, "shape", 16)
        stride = graph.contiguous_stride(shape)
        window = read_window({**tree, "storage": 0, "stride": stride, "offset": 0}, {0: stored.size_bytes})
        storage = graph.storage_of(body[stored.start : stored.start + stored.size_bytes])
        return graph.window_on(storage, DTYPES[window.dtype], window)

    def _apply_bytes(self, stored: StoredBytes, body: bytes) -> None:
        data = body[stored.start : stored.start + stored.size_bytes]
        known = self._storages.get(stored.id)
        if known is None:
            self._know(Storage(stored.id, graph.storage_of(data), data))
            return
        if known.here.nbytes() != len(data):
            known.here.resize_(len(data))
        graph.overwrite(known.here, data)
        known.agreed = data

    def _apply_record(self, record: TensorRecord) -> None:
        if record.id in self.tensors:
            self._update(self.tensors[record.id], record)
        else:
            self._hold(record.id, self._make(record))
            self.foreign.add(record.id)
        tensor = self.tensors[record.id]
        self._apply_version(tensor, record)
        if record.retains_grad and tensor.requires_grad and not tensor.is_leaf:
            tensor.retain_grad()
        self._note_counter(record)
        self._agree(self._describe_again(record), graph.edge_of(tensor))

    def _describe_again(self, record: TensorRecord) -> TensorRecord:
        """The record as this side would write it, so that nothing is told back."""
        tensor = self.tensors[record.id]
        return TensorRecord(
            id=record.id,
            window=record.window,
            counter=record.counter,
            version=tensor._version,
            leaf=tensor.is_leaf,
            requires_grad=tensor.requires_grad,
            retains_grad=not tensor.is_leaf and tensor.retains_grad,
            parameter=isinstance(tensor, torch.nn.Parameter),
            history=None,
        )

    def _note_counter(self, record: TensorRecord) -> None:
        known = self._counters.setdefault(record.window.storage, [])
        if all(member != record.id for _, member in known):
            known.append((record.counter, record.id))

    def _window(self, record: TensorRecord) -> Tensor:
        """Values of a new tensor: on the shared storage, with the version counter of its kin where it has one."""
        storage = self._storages[record.window.storage].here
        for counter, member in self._counters.get(record.window.storage, ()):
            if counter == record.counter and member in self.tensors:
                kin = graph.same_window(self.tensors[member], DTYPES[record.window.dtype], record.window)
                if kin is not None:
                    return kin
        return graph.window_on(storage, DTYPES[record.window.dtype], record.window)

    def _make(self, record: TensorRecord) -> Tensor:
        raw = self._window(record)
        if record.history is not None and record.requires_grad:
            return graph.compute(record.history, raw, self._inputs(record.history), self._products)
        raw.requires_grad_(record.requires_grad)
        return torch.nn.Parameter(raw, requires_grad=record.requires_grad) if record.parameter else raw

    def _update(self, tensor: Tensor, record: TensorRecord) -> None:
        if record.window != self._agreed[record.id].window:
            tensor.data = self._window(record)
        if record.history is not None and record.requires_grad:
            graph.recompute(record.history, tensor, self._inputs(record.history), self._products)
        elif record.leaf and not tensor.is_leaf:
            tensor.detach_()
        if record.leaf and tensor.is_leaf and tensor.requires_grad != record.requires_grad:
            tensor.requires_grad_(record.requires_grad)

    def _inputs(self, history: History) -> list[Tensor]:
        return [self.tensor(number) for number in history.inputs]

    def _apply_version(self, tensor: Tensor, record: TensorRecord) -> None:
        if record.version > tensor._version:
            graph.set_version(tensor, record.version)

    def _apply_grad(self, pair: Any) -> None:
        if type(pair) is not list or len(pair) != 2 or type(pair[0]) is not int:
            raise WireError("A gradient isn't a pair of numbers.")
        tensor = self.tensor(pair[0])
        grad = None if pair[1] is None else self.tensor(pair[1])
        try:
            tensor.grad = grad
        except RuntimeError:
            raise WireError("A gradient doesn't fit its tensor.") from None
        self._agreed_grads[pair[0]] = pair[1]
