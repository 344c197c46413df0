"""Tensors that two processes share: the same code on both sides, data in between.

Each side keeps a real tensor for every shared one. A message first says what has changed here since the last one
(bytes, versions, history, gradients), so an in-place write, a `.grad` or an alias on one side is one on the other too.
Gradients cross by vector-Jacobian products: a tensor computed over there is here the output of one Function, named as
its `grad_fn` is over there, whose backward asks the other side.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge

from nbjudge.bridge.around.parts import Changes
from nbjudge.bridge.torch import autograd as graph
from nbjudge.bridge.torch import torch_private
from nbjudge.bridge.torch.hooks import Ask, Relays, Settle
from nbjudge.bridge.torch.ledger import Agreed, Gone, Ledger
from nbjudge.bridge.torch.records import (
    ITEM_BYTES,
    TENSORS,
    History,
    StoredBytes,
    TensorRecord,
    Window,
    as_tree,
    read_storage,
    read_tensor,
    read_window,
    record_tree,
)
from nbjudge.bridge.torch.storages import Storage, StorageBeneath
from nbjudge.bridge.values import Body, UnsupportedError
from nbjudge.bridge.values.memories import Extent, Memories, Memory, raw
from nbjudge.bridge.values.table import SHARED_BYTES, STORAGE_BYTES, whole_numbers
from nbjudge.errors import WireError
from nbjudge.wire import listed

Products = Callable[[int, Tensor], Sequence[Tensor | None]]
DTYPES: Mapping[str, torch.dtype] = {name: getattr(torch, name) for name in ITEM_BYTES}
GONE = ("tensors", "storages", "links")
STORAGE, TENSOR, GRAD = "storage", "tensor", "grad"  # what changes are known by
NAMES: Mapping[torch.dtype, str] = {dtype: name for name, dtype in DTYPES.items()}


@dataclass(slots=True)
class Message:
    """The tensors' part of a packet."""

    gone: Gone = field(default_factory=Gone)
    body: Body = field(default_factory=Body)
    storages: list[StoredBytes] = field(default_factory=list)
    tensors: list[TensorRecord] = field(default_factory=list)
    grads: list[tuple[int, int | None]] = field(default_factory=list)
    problem: UnsupportedError | None = None  # something that has changed and can't be said

    def check(self) -> None:
        """Raises UnsupportedError where something couldn't be said."""
        if self.problem is not None:
            raise self.problem

    def put(self, data: bytes) -> int:
        """Append bytes to the body; returns where they start."""
        return self.body.append(data)

    def to_json(self) -> dict[str, Any]:
        """The part of the header that is about tensors."""
        return {
            "gone": as_tree(self.gone),
            "storages": [as_tree(part) for part in self.storages],
            "tensors": [record_tree(record) for record in self.tensors],
            "grads": [list(pair) for pair in self.grads],
        }


class Mirror:
    """This side's shared tensors. `side` is 0 (the judge) or 1: each side numbers what it brings in its own way."""

    def __init__(self, side: int, products: Products, hook: Ask, settle: Settle) -> None:
        self._products = products
        self.hooks = Relays(hook, settle)
        self.changes: Changes | None = None
        self.memories: Memories | None = None  # that arrays lie in
        self._side = self._next = side
        self.ledger = Ledger(weak=side == 0)
        self._unseen: set[int] = set()  # brought in as the start of a history alone: an answer isn't told their numbers

    # ------------------------------------------------------------------ telling

    @torch_private.hidden
    def begin(self, body: Body) -> Message:
        """A message that starts with everything that has changed here since the last one."""
        message = Message(gone=self.ledger.gone(), body=body)
        self.hooks.forget(message.gone.tensors)
        for storage in self.ledger.storages.values():
            now = storage.now()
            if now != storage.agreed:
                self._tell_bytes(storage, now, message)
        living = self.ledger.tensors()
        for tell in (self._tell, self._tell_grad):
            for number, tensor in living:
                try:
                    tell(number, tensor, message)
                except UnsupportedError as error:  # the rest is told, and the question ends with this
                    message.problem = error
        return message

    @torch_private.hidden
    def share(self, tensor: Tensor, message: Message, *, shown: bool = True) -> int:
        """The number of a tensor, telling the other side about it where it is new; its numbers if `shown`."""
        if (known := self.ledger.number_of(tensor)) is not None:
            if shown and known in self._unseen:
                self._see(known, message)
            return known
        if reason := graph.unsupported(tensor):
            raise UnsupportedError(reason)
        number = self._new_number()
        self.ledger.hold(number, tensor)
        if not shown:
            self._unseen.add(number)
        try:
            self._tell(number, tensor, message)
            self._tell_grad(number, tensor, message)
        except UnsupportedError:
            self.ledger.release(number, tensor)
            self._unseen.discard(number)
            raise
        return number

    @torch_private.hidden
    def data(self, tensor: Tensor, message: Message) -> dict[str, Any]:
        """A tensor's values alone: neither identity nor history travels."""
        values = tensor.detach().resolve_conj().resolve_neg()
        if reason := graph.unsupported(values):
            raise UnsupportedError(reason)
        values = values.contiguous()
        data = graph.storage_bytes(values.clone().untyped_storage())
        start = message.body.put(data)
        shape = list(values.shape)
        return {"t": "data", "dtype": NAMES[values.dtype], "shape": shape, "start": start, "size_bytes": len(data)}

    def _new_number(self) -> int:
        self._next += 2
        return self._next

    def _tell(self, number: int, tensor: Tensor, message: Message) -> None:
        known, look = self.ledger.agreed.get(number), graph.look(tensor)
        if known is not None and look is not None and look == known.look:
            return
        edge, history = graph.edge_of(tensor), None
        if edge is not None and (known is None or edge != known.edge):
            history = self._new_history(tensor, message)
        record = self._describe(number, tensor, history, message)
        if known is None or record != known.record:
            message.tensors.append(record)
        self._agree(record, edge, look)

    def _describe(self, number: int, tensor: Tensor, history: History | None, message: Message) -> TensorRecord:
        storage = self._storage(number, tensor)
        shape, stride = tuple(tensor.shape), tuple(tensor.stride())
        window = Window(storage, NAMES[tensor.dtype], shape, stride, int(tensor.storage_offset()))
        self._show(number, window, message)
        return graph.describe(tensor, number, window, self.ledger.counter(number, tensor, storage), history)

    def _agree(self, record: TensorRecord, edge: graph.Edge | None, look: graph.Look | None) -> None:
        """Both sides now hold this; a history is told once."""
        known = self.ledger.agreed.get(record.id)
        grad = None if known is None else known.grad
        self.ledger.agreed[record.id] = Agreed(graph.without_history(record), edge, look, grad)
        if edge is not None:
            self.ledger.edges[edge] = record.id

    def _new_history(self, tensor: Tensor, message: Message) -> History:
        found = graph.walk(tensor, self.ledger.edges)
        starts = found.starts.values()
        shown = self._side != 0  # a test's model behind a loss isn't what it has passed
        inputs = tuple(start if isinstance(start, int) else self.share(start, message, shown=shown) for start in starts)
        link = self._new_number()
        edges = tuple(GradientEdge(*edge) for edge in found.starts)
        self.ledger.links[link] = graph.Link(graph.own_edge(tensor), edges)
        return History(link, graph.name_of(tensor), inputs, found.saves)

    def _tell_grad(self, number: int, tensor: Tensor, message: Message) -> None:
        grad = graph.grad_of(tensor)
        told = None if grad is None else self.share(grad, message, shown=number not in self._unseen)
        if told != self.ledger.agreed[number].grad:
            message.grads.append((number, told))
        self.ledger.agreed[number].grad = told

    def _storage(self, number: int, tensor: Tensor) -> int:
        here = tensor.untyped_storage()
        if (known := self.ledger.storage_at(here, number)) is not None:
            return known
        if here.nbytes() > STORAGE_BYTES:
            raise UnsupportedError(f"a tensor of {here.nbytes() >> 20} MiB (at most {STORAGE_BYTES >> 20} are carried)")
        if here.nbytes() + sum(shared.here.nbytes() for shared in self.ledger.storages.values()) > SHARED_BYTES:
            raise UnsupportedError(f"more than {SHARED_BYTES >> 20} MiB of tensors at once")
        storage = Storage(self._new_number(), here, None, self._arrays_beneath(here))
        self.ledger.know(storage)
        return storage.id

    def _arrays_beneath(self, here: torch.UntypedStorage) -> tuple[Memory, int] | None:
        """The arrays' memory that a storage lies on, as where a tensor was made from an array."""
        low = here.data_ptr()
        found = (
            self.memories.covering(low, low + here.nbytes()) if self.memories is not None and here.nbytes() else None
        )
        return None if found is None else (found, low - found.start)

    def around(self, low: int, high: int) -> StorageBeneath | None:
        """The shared storage around these addresses, as where an array was made from a tensor."""
        for storage in self.ledger.storages.values():
            if (start := storage.here.data_ptr()) <= low and high <= start + storage.here.nbytes():
                return self.lent(storage.id)
        return None

    def lent(self, number: int) -> StorageBeneath | None:
        """The shared storage of this number; one that lies on arrays' memory is no memory of its own."""
        found = self.ledger.storages.get(number)
        return None if found is None or found.over else StorageBeneath(found, ours=self._brought(number))

    def _shared_beneath(self, storage: Storage) -> bool:
        """Is the arrays' memory that a storage lies on shared still?"""
        return storage.over is not None and self.memories is not None and self.memories.knows(storage.over[0])

    def _is_passed(self, storage: Storage, window: Window, *, ours: bool) -> bool:
        """Does a tensor on the arrays' memory show no more of it than they, or tensors, do? Of one's own it may."""
        if storage.over is None or self._brought(storage.over[0].number) is ours:
            return True
        each, start = ITEM_BYTES[window.dtype], storage.over[1]
        steps = tuple(step * each for step in window.stride)
        extent = Extent(start + window.offset * each, steps, window.shape, raw(each))
        return 0 in window.shape or storage.over[0].shows(extent) or storage.shows(window)

    def _show(self, number: int, window: Window, message: Message) -> None:
        """Tell the other side a tensor's items; where it isn't to see them, a new storage all the same."""
        storage = self.ledger.storages[window.storage]
        if not self._is_passed(storage, window, ours=True):
            raise UnsupportedError("a tensor of what lies in memory beside an array that was passed")
        if number not in self._unseen and not storage.shows(window):
            storage.show(window)
            self._tell_bytes(storage, storage.now(), message)
        elif storage.agreed is None:
            self._tell_bytes(storage, storage.now(), message)

    def _see(self, number: int, message: Message) -> None:
        """What only began a history is passed after all: its numbers, and its gradient's, are told."""
        self._unseen.discard(number)
        known = self.ledger.agreed[number]
        self._show(number, known.record.window, message)
        if known.grad in self._unseen:
            self._unseen.discard(known.grad)
            self._show(known.grad, self.ledger.agreed[known.grad].record.window, message)

    def _tell_bytes(self, storage: Storage, now: bytes, message: Message) -> None:
        storage.agreed = now
        over = () if storage.over is None else (storage.over[0].number, storage.over[1])
        message.storages.append(StoredBytes(storage.id, message.put(now), len(now), over))

    @contextlib.contextmanager
    def grads_kept(self, link: graph.Link) -> Iterator[None]:
        """The other side asks for gradients: it fills `.grad`, and has the hooks at a link's ends called, itself.

        That holds also for the `.grad` of tensors that retain theirs here.
        """
        shared = [tensor for _, tensor in self.ledger.tensors()]
        retaining = [tensor for tensor in shared if not tensor.is_leaf and tensor.retains_grad]
        before = [tensor.grad for tensor in retaining]
        with self.hooks.silent([tensor for tensor in shared if link.ends_at(tensor)]):
            try:
                yield
            finally:
                for tensor, grad in zip(retaining, before, strict=True):
                    tensor.grad = grad

    def keys(self, tensor: Tensor) -> Iterator[tuple[tuple[str, int], str]]:
        """What the other side's changes of a tensor, and of its gradient, are known by; and which of the two it is."""
        grad = graph.grad_of(tensor)
        for look, seen in (("", tensor), (".grad", grad)):
            number = None if seen is None else self.ledger.number_of(seen)
            if number is not None and number in self.ledger.agreed:
                yield (TENSOR, number), look
                yield (STORAGE, self.ledger.agreed[number].record.window.storage), look
        if (number := self.ledger.number_of(tensor)) is not None:
            yield (GRAD, number), ".grad"

    def _brought(self, number: int) -> bool:
        """Did this side bring it in? Each numbers in its own way."""
        return number % 2 == self._side

    # ------------------------------------------------------------------ hearing

    @torch_private.hidden
    def apply(self, said: Any, body: bytes) -> None:
        """Take over what the other side says is new, changed or gone."""
        if type(said) is not dict:
            raise WireError("A frame says nothing about its tensors.")
        gone = Gone(**{kind: whole_numbers(said.get("gone"), kind, TENSORS) for kind in GONE})
        self.ledger.forget(gone)
        self.hooks.forget(gone.tensors)
        for tree in listed(said, "storages"):
            self._apply_bytes(read_storage(tree, len(body)), body)
        if told := listed(said, "tensors"):
            sizes = {number: storage.here.nbytes() for number, storage in self.ledger.storages.items()}
            with torch.enable_grad():
                for tree in told:
                    self._apply_record(read_tensor(tree, sizes))
        for pair in listed(said, "grads"):
            self._apply_grad(pair)
        if not all(graph.is_true_or_false(tensor) for _, tensor in self.ledger.tensors()):
            raise WireError("A truth value in a tensor is neither.")

    @torch_private.hidden
    def read_data(self, tree: Mapping[str, Any], body: bytes | bytearray) -> Tensor:
        """A tensor of values alone."""
        stored = read_storage({**tree, "id": 0}, len(body))
        shape = whole_numbers(tree, "shape")
        whole_tensor = {**tree, "storage": 0, "stride": graph.contiguous_stride(shape), "offset": 0}
        window = read_window(whole_tensor, {0: stored.size_bytes})
        storage = graph.storage_of(bytes(body[stored.start : stored.start + stored.size_bytes]))
        made = graph.window_on(storage, DTYPES[window.dtype], window)
        if not graph.is_true_or_false(made):
            raise WireError("A truth value in a tensor is neither.")
        return made

    def _apply_bytes(self, stored: StoredBytes, body: bytes) -> None:
        data = body[stored.start : stored.start + stored.size_bytes]
        known = self.ledger.storages.get(stored.id)
        if known is None and self._brought(stored.id):
            raise WireError("A new storage has a number that isn't free.")
        if known is None:
            self.ledger.know(self._on_arrays(stored, data) or Storage(stored.id, graph.storage_of(data), data))
            return
        if known.here.nbytes() != len(data):
            raise WireError("A storage has changed its size.")
        shared, of = self._shared_beneath(known), stored.id if known.over is None else known.over[0].number
        if shared and self._brought(of):
            self._apply_beside(known, data)
            known.agreed = data
            return
        if self.changes is not None:
            self.changes.note((STORAGE, stored.id), partial(known.put, known.whole()), ours=self._brought(of))
        if known.over is not None and shared:
            known.take_beside(data, *known.over)
        elif self._brought(stored.id) or known.over is not None:
            known.take(data)
        else:
            known.put(data)
        known.agreed = data

    def _apply_beside(self, known: Storage, data: bytes) -> None:
        """On our arrays' memory: they are told of, and change, by themselves; what only our tensors show is taken."""
        where = None if known.over is None else known.only_here(*known.over)
        if where is None or not known.differs_at(where, data):
            return
        if self.changes is not None:
            undo = partial(known.put_at, where, known.whole())
            self.changes.note((STORAGE, known.id), undo, ours=True)
        known.put_at(where, data)

    def _on_arrays(self, stored: StoredBytes, data: bytes) -> Storage | None:
        """A new storage on arrays' memory; None where it doesn't lie on one that both sides have and may write."""
        memory = self.memories.known(stored.over[0]) if self.memories is not None and stored.over else None
        if memory is None or self.memories is None or not data:
            return None
        start = stored.over[1]
        if start + len(data) > memory.size:
            raise WireError("A storage doesn't lie in its memory.")
        flat = self.memories.flat(memory)[start : start + len(data)]
        if not flat.flags.writeable:
            return None
        made = Storage(stored.id, torch.from_numpy(flat).untyped_storage(), data, (memory, start))
        if not self._brought(memory.number):
            made.take_beside(data, memory, start)
        return made

    def _apply_record(self, record: TensorRecord) -> None:
        tensor, storage = self.ledger.find(record.id), self.ledger.storages[record.window.storage]
        passed = storage.shows(record.window) if self._brought(storage.id) else True
        if not passed or not self._is_passed(storage, record.window, ours=False):
            raise WireError("A tensor shows what was never passed.")
        storage.show(record.window)
        if tensor is None and self._brought(record.id):
            raise WireError("A new tensor has a number that isn't free.")
        if tensor is None:
            tensor = self._make(record)
            self.ledger.hold(record.id, tensor, foreign=True)
        else:
            self._update(tensor, record)
        if record.version > torch_private.version(tensor):
            torch_private.set_version(tensor, record.version)
        if record.retains_grad and tensor.requires_grad and not tensor.is_leaf:
            tensor.retain_grad()
        self.hooks.relay(record.id, tensor, wanted=record.hooked)
        self.hooks.relay_after(record.id, tensor, wanted=record.hooked_after)
        self.ledger.note_counter(record.id, record.counter, record.window.storage)
        # As this side would describe it, so that nothing is told back.
        described = graph.describe(tensor, record.id, record.window, record.counter, None)
        self._agree(described, graph.edge_of(tensor), graph.look(tensor))

    def _window(self, record: TensorRecord) -> Tensor:
        """Values of a new tensor: on the shared storage, with the version counter of its kin where it has one."""
        dtype = DTYPES[record.window.dtype]
        for kin in self.ledger.kin(record.counter, record.window.storage):
            if (made := graph.same_window(kin, dtype, record.window)) is not None:
                return made
        return graph.window_on(self.ledger.storages[record.window.storage].here, dtype, record.window)

    def _make(self, record: TensorRecord) -> Tensor:
        raw = self._window(record)
        if record.history is not None and record.requires_grad:
            return graph.compute(record.history, raw, self._inputs(record.history), self._ask(record.history))
        if record.parameter:
            return torch.nn.Parameter(raw, requires_grad=record.requires_grad)
        return raw.requires_grad_(record.requires_grad)

    def _update(self, tensor: Tensor, record: TensorRecord) -> None:
        if record.window != self.ledger.agreed[record.id].record.window:
            if self.changes is not None:
                undo = partial(setattr, tensor, "data", tensor.data)
                self.changes.note((TENSOR, record.id), undo, ours=self._brought(record.id))
            tensor.data = self._window(record)
        if record.history is not None and record.requires_grad:
            graph.recompute(record.history, tensor, self._inputs(record.history), self._ask(record.history))
        elif record.leaf and not tensor.is_leaf:
            tensor.detach_()
        if record.leaf and tensor.is_leaf and tensor.requires_grad != record.requires_grad:
            tensor.requires_grad_(record.requires_grad)

    def _inputs(self, history: History) -> list[Tensor]:
        return [self.ledger.tensor(number) for number in history.inputs]

    def _ask(self, history: History) -> graph.Asked:
        """What a Node of ours asks over there; when the Node has gone, the other side may forget its part."""
        asked = graph.Asked(history.link, self._products)
        weakref.finalize(asked, self.ledger.dead_links.append, history.link)
        return asked

    def _apply_grad(self, pair: Any) -> None:
        if type(pair) is not list or len(pair) != 2 or any(type(part) not in (int, type(None)) for part in pair):
            raise WireError("A gradient isn't a pair of numbers.")
        tensor = self.ledger.tensor(pair[0])
        grad = None if pair[1] is None else self.ledger.tensor(pair[1])
        if self.changes is not None:
            self.changes.note(
                (GRAD, pair[0]), partial(setattr, tensor, "grad", tensor.grad), ours=self._brought(pair[0])
            )
        try:
            tensor.grad = grad
        except RuntimeError:
            raise WireError("A gradient doesn't fit its tensor.") from None
        self.ledger.agreed[pair[0]].grad = pair[1]
