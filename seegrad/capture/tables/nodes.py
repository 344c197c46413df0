"""The graph that torch built: Nodes numbered as they're met, with their Edges and what they save."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import torch

from seegrad.capture.probes import torch_private as _torch
from seegrad.capture.probes.places import clean_stack
from seegrad.capture.tables.depth import depth
from seegrad.capture.tables.saved import Saved, SavedTensors
from seegrad.capture.tables.tensors import Tensors, deref

Key = tuple[str, int]
"""What a Node is known by: its name and torch's number, or the number of the leaf it adds into."""

Source = tuple[int, int]
"""(Node, output number): who made a tensor."""

Met = tuple[Key, Any, Sequence[tuple[Any, int]]]
"""A Node of torch at the moment it's met: its key, itself, its `next_functions`."""

Keys = dict[int, Key]
"""`id(node)` → its key, for the Nodes that one walk holds: torch hands out one object a Node while somebody has it."""


@dataclass(slots=True)
class Birth:
    """What is known of the call that may have made Nodes."""

    frame: int
    op: str
    inputs: Sequence[int]
    outputs: Sequence[torch.Tensor]
    written: Sequence[torch.Tensor] = ()
    sources: dict[Source, int] = field(default_factory=dict)  # who made an input → that input
    late: bool = False  # the Node is older than this look at it


@dataclass(slots=True)
class NodeDraft:
    """A Node in the making."""

    id: int
    name: str
    op: str
    frame: int
    edges: tuple[tuple[int, int | None, int], ...]
    inputs: tuple[int | None, ...]
    outputs: tuple[int, ...]
    leaf: int | None = None
    inplace: bool = False
    saved: Sequence[Saved] = ()
    depth: int = 1


class Nodes:
    """All Nodes of one Recording that weren't forgotten."""

    def __init__(self, tensors: Tensors, saved: SavedTensors) -> None:
        self.drafts: dict[int, NodeDraft] = {}
        self._next = 0
        self._tensors = tensors
        self._saved = saved
        self._numbers: dict[Key, int] = {}
        self._outputs: dict[Source, int] = {}

    def key(self, node: Any, frame: int) -> Key:
        """How the Node is known again without holding it."""
        number = _torch.node_number(node)
        if number == _torch.NO_NUMBER and _torch.is_accumulator(node):
            return ("leaf", self._tensors.see(node.variable, frame))
        return (node.name(), number)

    def number(self, node: Any, frame: int) -> int | None:
        """The Node's number, None when it was never met."""
        return self._numbers.get(self.key(node, frame))

    def source(self, tensor: torch.Tensor, frame: int) -> Source | None:
        """Who made the tensor, where that Node was met."""
        node = _torch.grad_fn(tensor)
        number = self._numbers.get(self.key(node, frame)) if node is not None else None
        return None if number is None else (number, tensor.output_nr)

    def output(self, number: int, output_nr: int) -> int | None:
        """The tensor that was a Node's output of that number."""
        return self._outputs.get((number, output_nr))

    def accumulator(self, leaf: int) -> Source | None:
        """The Node, with its one output, that adds into that leaf's `.grad`."""
        number = self._numbers.get(("leaf", leaf))
        return None if number is None else (number, 0)

    def given(self, numbers: Sequence[int]) -> list[int]:
        """The tensors with a history that went into these Nodes, as far as they're known."""
        edges = [(target, output) for number in numbers for _, target, output in self.drafts[number].edges]
        leaves = [self.drafts[target].leaf for target, _ in edges if target in self.drafts]
        made = [self._outputs.get((target, output)) for target, output in edges if target is not None]
        return [number for number in (*leaves, *made) if number is not None]

    def leads(self, start: int, end: int) -> bool:
        """True when gradients flow from one Node to the other."""
        waiting, seen = [start], {start}
        while waiting:
            for _, target, _ in self.drafts[waiting.pop()].edges:
                if target is not None and target not in seen:
                    seen.add(target)
                    waiting.append(target)
        return end in seen

    def reachable(self, roots: Sequence[Any], frame: int) -> list[tuple[Any, NodeDraft]]:
        """Every known Node behind `roots`, with torch's own. A known Node's Edges say whom its neighbours are."""
        waiting = [(node, self.number(node, frame)) for node in roots]
        found: dict[int, tuple[Any, NodeDraft]] = {}
        while waiting:
            node, number = waiting.pop()
            if number is None or number in found:
                continue
            draft = self.drafts[number]
            found[number] = node, draft
            for (each, _), (_, target, _) in zip(node.next_functions, draft.edges, strict=True):
                if each is not None and target not in found:
                    waiting.append((each, self.number(each, frame) if target is None else target))
        return list(found.values())

    def walk(self, roots: Sequence[Any], birth: Birth) -> tuple[int, ...]:
        """Describe every unknown Node behind `roots`; their numbers, those nearest the inputs first."""
        fresh, keys = self._unknown(roots, birth.frame)
        if not fresh:
            return ()
        if torch.is_anomaly_enabled():
            for _, node, _ in fresh:
                clean_stack(_torch.anomaly_stack(node))
        # Torch numbers Nodes in the order of their making; an AccumulateGrad carries no number and comes first.
        fresh.sort(key=lambda met: (met[0][0] != "leaf", met[0][1]))
        numbers = range(self._next, self._next + len(fresh))
        self._next += len(fresh)
        self._numbers.update((met[0], number) for met, number in zip(fresh, numbers, strict=True))
        op = birth.op if not birth.late and sum([met[0][0] != "leaf" for met in fresh]) == 1 else None
        outputs = [(_torch.grad_fn(tensor), tensor) for tensor in birth.outputs]
        for met, number in zip(fresh, numbers, strict=True):
            made = [tensor for node, tensor in outputs if node is met[1]]
            self._describe(number, met, birth, op, made, keys)
        return tuple(numbers)

    def _unknown(self, roots: Sequence[Any], frame: int) -> tuple[list[Met], Keys]:
        fresh: list[Met] = []
        waiting, keys = list(roots), Keys()
        while waiting:
            node = waiting.pop()
            if id(node) in keys:
                continue
            key = keys[id(node)] = self.key(node, frame)
            if key not in self._numbers:
                following = node.next_functions
                fresh.append((key, node, following))
                waiting += [target for target, _ in following if target is not None]
        return fresh, keys

    def _describe(
        self, number: int, met: Met, birth: Birth, op: str | None, made: Sequence[torch.Tensor], keys: Keys
    ) -> None:
        (name, leaf), node, following = met
        if name == "leaf":
            self.drafts[number] = NodeDraft(number, "AccumulateGrad", "accumulate_grad", birth.frame, (), (), (), leaf)
            return
        short = _short(name)
        edges = tuple(
            [
                (slot, None if target is None else self._numbers.get(keys[id(target)]), output)
                for slot, (target, output) in enumerate(following)
            ]
        )
        draft = self.drafts[number] = NodeDraft(
            number, short, op or op_of(short), birth.frame, edges, self._inputs(edges, birth), ()
        )
        draft.depth = depth(
            node, [(at, self._depth(target)) for (at, _), (_, target, _) in zip(following, edges, strict=True)]
        )
        if made:
            self._made(draft, made, birth)
        draft.saved = self._kept_by(draft, node, made, birth)

    def _depth(self, number: int | None) -> int:
        """Levels of the graph from that Node on, as far as it's known."""
        return 0 if number is None or number not in self.drafts else self.drafts[number].depth

    def _made(self, draft: NodeDraft, made: Sequence[torch.Tensor], birth: Birth) -> None:
        """The tensors that the Node's call made."""
        draft.outputs = tuple([self._tensors.see(tensor, birth.frame) for tensor in made])
        for tensor, output in zip(made, draft.outputs, strict=True):
            self._outputs[draft.id, tensor.output_nr] = output
        draft.inplace = any(tensor is each for tensor in made for each in birth.written)

    def _inputs(self, edges: Sequence[tuple[int, int | None, int]], birth: Birth) -> tuple[int | None, ...]:
        """The tensor given at each Edge: by what made it; then, where it's unambiguous, by order."""
        found: list[int | None] = []
        free: list[int] = []
        for slot, target, output in edges:
            if target is None:
                free.append(slot)
                found.append(None)
                continue
            leaf = self.drafts[target].leaf if target in self.drafts else None
            found.append(birth.sources.get((target, output)) if leaf is None else leaf)
        if free and len(edges) == len(birth.inputs):
            rest = [number for number in birth.inputs if number not in found]
            if len(rest) == len(free):
                for slot, number in zip(free, rest, strict=True):
                    found[slot] = number
        return tuple(found)

    def _kept_by(self, draft: NodeDraft, node: Any, made: Sequence[torch.Tensor], birth: Birth) -> Sequence[Saved]:
        found: list[Saved] = []
        for attr, data, torch_saved in _torch.saved_tensors(node):
            if torch_saved is None:
                self._keep_unchecked(draft, attr, data, found)
                continue
            version = (
                _torch.version_asked_of_torch(node, attr, torch_saved, data) if birth.late else _torch.version(data)
            )
            owner = self._owner(data, made, birth)
            tensor, ref = self._tensors.drafts[owner], self._tensors.ref(owner)
            if deref(ref) is not data and _torch.READS_SAVED:
                ref = _torch.WeakTensor(data)
            index, slots = len(found), len(draft.edges) if _torch.is_read(node, attr) else 0
            saved = Saved(draft.id, index, attr, owner, ref, version, tensor.storage, tensor.span, draft.name, slots)
            self._saved.add(saved, data)
            found.append(saved)
        for attr, data in _torch.attribute_tensors(node) if _torch.is_custom(node) else ():
            self._keep_unchecked(draft, attr, data, found)
        return found

    def _keep_unchecked(self, draft: NodeDraft, attr: str, data: torch.Tensor, found: list[Saved]) -> None:
        """A tensor of the program that the Node keeps where torch doesn't check its version."""
        tensor = self._tensors.sharing(data)
        if tensor is None or not (data.is_floating_point() or data.is_complex()):
            return
        saved = Saved(
            node=draft.id,
            index=len(found),
            attr=attr,
            tensor=tensor.id,
            ref=_torch.WeakTensor(data),
            version=_torch.version(data),
            storage=tensor.storage,
            span=_torch.span(data),
            name=draft.name,
            slots=len(draft.edges),
            checked=False,
        )
        self._saved.add(saved, data)
        found.append(saved)

    def _owner(self, data: torch.Tensor, made: Sequence[torch.Tensor], birth: Birth) -> int:
        """The program's tensor that was saved: itself, or for a result the output that it is an alias of."""
        number = self._tensors.find(data)
        if number is not None:
            return number
        for tensor in made:
            if _torch.is_opaque(tensor) or _torch.is_opaque(data):  # torch 2.9 unpacks a plain shell of a fake one
                continue
            if tensor.shape == data.shape and _torch.begins_with(tensor, data):
                return self._tensors.see(tensor, birth.frame)
        return self._tensors.see(data, birth.frame, birth.inputs)

    def forget(self, kept: set[int]) -> None:
        """Drop all other Nodes."""
        self._saved.release(self.drafts.keys() - kept)
        self.drafts = {number: draft for number, draft in self.drafts.items() if number in kept}
        self._numbers = {key: number for key, number in self._numbers.items() if number in kept}
        self._outputs = {source: tensor for source, tensor in self._outputs.items() if source[0] in kept}


@lru_cache(maxsize=1024)
def _short(name: str) -> str:
    """The Node's name as torch prints it in Python."""
    return name.removeprefix("struct ").rpartition("::")[2]


@lru_cache(maxsize=1024)
def op_of(name: str) -> str:
    """The op behind a Node's name.

    >>> op_of("LogSoftmaxBackward0"), op_of("AccumulateGrad"), op_of("AsStridedBackward0_copy")
    ('log_softmax', 'accumulate_grad', 'as_strided')
    """
    stem = re.sub(r"Backward\w*$", "", name) or name
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", stem).lower()
