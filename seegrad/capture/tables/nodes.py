"""The graph that torch built: Nodes numbered as they're met, with their Edges and what they save."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch

from seegrad.capture.probes import torch_private as _torch
from seegrad.capture.probes.places import clean_stack
from seegrad.capture.tables.depth import SHALLOW, take_along
from seegrad.capture.tables.saved import Saved, SavedTensors
from seegrad.capture.tables.tensors import Source, TensorDraft, Tensors, deref

Key = tuple[int, str | int]
"""What a Node is known by: torch's number and its name; what adds into a leaf, by `LEAF` and the leaf's number."""

LEAF = -1
"""The number of every AccumulateGrad, which has none: before all others."""

Met = tuple[Any, tuple[tuple[Key | None, int], ...], int]
"""A Node of torch at the moment it's met; for each of its Edges who is behind it, with the output's number; its depth,
0 where a Node behind it has just been met, too."""


@dataclass(slots=True)
class Birth:
    """What is known of the call that may have made Nodes."""

    frame: int
    op: str
    inputs: Sequence[int]
    written: Sequence[torch.Tensor] = ()
    late: bool = False  # the Node is older than this look at it


@dataclass(slots=True)
class NodeDraft:
    """A Node in the making: whom its Edges lead to, and what was given at each, is looked up when it's asked for."""

    id: int
    key: Key
    name: str
    op: str
    frame: int
    behind: Sequence[tuple[Key | None, int]]
    given: Sequence[int]  # the tensors that the op was given, whether or not they have an Edge
    nodes: Nodes
    outputs: tuple[int, ...] = ()
    leaf: int | None = None
    inplace: bool = False
    custom: bool = False  # a Function that was written in Python
    saved: Sequence[Saved] = ()
    depth: int = 1  # levels of the graph from this Node on, as far as they're known

    @property
    def edges(self) -> tuple[tuple[int, int | None, int], ...]:
        """(slot, Node, output number) for each Edge; None for an input that needs no gradient."""
        number = self.nodes.numbers.get
        return tuple([(slot, number(key) if key else None, output) for slot, (key, output) in enumerate(self.behind)])

    @property
    def inputs(self) -> tuple[int | None, ...]:
        """The tensor given at each Edge: by what made it; then, where it's unambiguous, by order."""
        return self.nodes.inputs(self)


class Nodes:
    """All Nodes of one Recording that weren't forgotten."""

    def __init__(self, tensors: Tensors, saved: SavedTensors) -> None:
        self.drafts: dict[int, NodeDraft] = {}
        self.numbers: dict[Key, int] = {}
        self._next = 0
        self._tensors = tensors
        self._saved = saved
        self._outputs: dict[Source, int] = {}

    def key(self, node: Any, frame: int) -> Key:
        """How the Node is known again without holding it."""
        number = _torch.node_number(node)
        if number == _torch.NO_NUMBER and hasattr(node, "variable"):  # it adds into a leaf
            return LEAF, self._tensors.see(node.variable, frame)
        return number, node.name()

    def number(self, node: Any, frame: int) -> int | None:
        """The Node's number, None when it was never met."""
        return self.numbers.get(self.key(node, frame))

    def source(self, tensor: torch.Tensor, frame: int) -> Source | None:
        """Who made the tensor, where that Node was met."""
        node = self._tensors.grad_fn(tensor)
        number = self.numbers.get(self.key(node, frame)) if node is not None else None
        return None if number is None else (number, tensor.output_nr)

    def output(self, number: int, output_nr: int) -> int | None:
        """The tensor that was a Node's output of that number."""
        return self._outputs.get((number, output_nr))

    def told(self, node: int, tensors: Sequence[int]) -> tuple[str, bool, list[tuple[int, ...]]]:
        """The Node's name, whether it adds into a leaf, and the shapes of these tensors."""
        draft = self.drafts[node]
        return draft.name, draft.leaf is not None, [self._tensors.drafts[tensor].shape for tensor in tensors]

    def accumulator(self, leaf: int) -> Source | None:
        """The Node, with its one output, that adds into that leaf's `.grad`."""
        number = self.numbers.get((LEAF, leaf))
        return None if number is None else (number, 0)

    def given(self, numbers: Sequence[int]) -> list[int]:
        """The tensors with a history that went into these Nodes, as far as they're known."""
        edges = [(target, output) for number in numbers for _, target, output in self.drafts[number].edges]
        leaves = [self.drafts[target].leaf for target, _ in edges if target in self.drafts]
        made = [self._outputs.get((target, output)) for target, output in edges if target is not None]
        return [number for number in (*leaves, *made) if number is not None]

    def inputs(self, node: NodeDraft) -> tuple[int | None, ...]:
        """The tensor given at each Edge: by what made it; then, where it's unambiguous, by order."""
        found: list[int | None] = []
        free: list[int] = []
        for slot, target, output in node.edges:
            draft = self.drafts.get(target) if target is not None else None
            if target is None:
                free.append(slot)
            made = self._outputs.get((target, output)) if target is not None else None
            leaf = draft.leaf if draft is not None else None
            found.append(leaf if leaf is not None else made if made in node.given else None)
        if free and len(found) == len(node.given):
            rest = [number for number in node.given if number not in found]
            if len(rest) == len(free):
                for slot, number in zip(free, rest, strict=True):
                    found[slot] = number
        return tuple(found)

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
        numbers, drafts = self.numbers, self.drafts
        while waiting:
            node, number = waiting.pop()
            if number is None or number in found:
                continue
            draft = drafts[number]
            found[number] = node, draft
            if draft.behind:
                for (each, _), (key, _) in zip(node.next_functions, draft.behind, strict=True):
                    if key is not None and (behind := numbers.get(key)) not in found:
                        waiting.append((each, behind))
        return list(found.values())

    # -- meet them

    def walk(self, made: Sequence[torch.Tensor], birth: Birth) -> tuple[int, ...]:
        """Describe every unknown Node behind these tensors; their numbers, those nearest the inputs first.

        Torch has just had to know who made them.
        """
        roots = [(self.key(node, birth.frame), node, tensor) for tensor in made if (node := _torch.grad_fn(tensor))]
        fresh = self._unknown(roots, birth.frame)
        order = sorted(fresh) if len(fresh) > 1 else list(fresh)  # as torch numbers them: in the order of their making
        drafts = [self._draft(key, fresh[key], birth) for key in order]
        functions = [draft for draft in drafts if draft.leaf is None]
        if len(functions) == 1 and not birth.late:
            functions[0].op = birth.op
        self._sound([draft for draft in functions if not draft.depth])
        outputs = self._join(roots, fresh, birth)
        if torch.is_anomaly_enabled():
            for node, _, _ in fresh.values():
                clean_stack(_torch.anomaly_stack(node))
        for draft in functions:
            self._describe(draft, fresh[draft.key], outputs, birth)
        return tuple([draft.id for draft in drafts])

    def _unknown(self, roots: Sequence[tuple[Key, Any, torch.Tensor]], frame: int) -> dict[Key, Met]:
        fresh: dict[Key, Met] = {}
        numbers, drafts, number_of, own = self.numbers, self.drafts, _torch.node_number, _torch.NO_NUMBER
        waiting = [(key, node) for key, node, _ in roots]
        while waiting:
            key, node = waiting.pop()
            if key in numbers or key in fresh:
                continue
            behind: list[tuple[Key | None, int]] = []
            depth, all_known = 1, True
            for target, output in node.next_functions:
                if target is None:
                    behind.append((None, output))
                    continue
                number = number_of(target)
                there: Key = (number, target.name()) if number != own else self.key(target, frame)
                behind.append((there, output))
                if there not in numbers:
                    waiting.append((there, target))
                    all_known = False
                elif all_known and (draft := drafts.get(numbers[there])) is not None and draft.depth >= depth:
                    depth = draft.depth + 1
            fresh[key] = node, tuple(behind), depth if all_known else 0
        return fresh

    def _draft(self, key: Key, met: Met, birth: Birth) -> NodeDraft:
        number, (made, name) = self._next, key
        self._next = self.numbers[key] = number
        self._next += 1
        if made == LEAF:
            leaf: Any = name
            draft = NodeDraft(number, key, "AccumulateGrad", "accumulate_grad", birth.frame, (), (), self, (), leaf)
        else:
            short = _short(name)
            draft = NodeDraft(number, key, short, op_of(short), birth.frame, met[1], birth.inputs, self)
            draft.depth = met[2]
        self.drafts[number] = draft
        return draft

    def _join(
        self, roots: Sequence[tuple[Key, Any, torch.Tensor]], fresh: Container[Key], birth: Birth
    ) -> dict[Key, list[torch.Tensor]]:
        """Say of each tensor who made it, and of each new Node what it made."""
        found: dict[Key, list[torch.Tensor]] = {}
        for key, _, tensor in roots:
            tensor_draft = self._tensors.draft(tensor)
            if tensor_draft is None or tensor_draft.is_leaf or tensor_draft.settled != _torch.version(tensor):
                tensor_draft = self._tensors.drafts[self._tensors.made(tensor, birth.frame)]
            source = tensor_draft.source = self.numbers[key], tensor.output_nr
            if key not in fresh:
                self._outputs.setdefault(source, tensor_draft.id)
                continue
            found.setdefault(key, []).append(tensor)
            draft = self.drafts[source[0]]
            draft.outputs += (tensor_draft.id,)
            draft.inplace = draft.inplace or any(tensor is each for each in birth.written)
            self._outputs[source] = tensor_draft.id
        return found

    def _describe(self, draft: NodeDraft, met: Met, made: Mapping[Key, Sequence[torch.Tensor]], birth: Birth) -> None:
        """What the Node keeps, and takes along."""
        node, behind, _ = met
        if draft.depth > SHALLOW:
            take_along(node, draft.depth, [0 if key is None else self._depth(key) for key, _ in behind])
        slots = _torch.saved_slots(node)
        if slots:
            draft.saved = self._kept_by(draft, node, slots, made.get(draft.key, ()), birth)
            self._saved.born(draft.id, draft.saved)

    def _kept_by(
        self,
        draft: NodeDraft,
        node: Any,
        slots: Sequence[tuple[str, str]],
        made: Sequence[torch.Tensor],
        birth: Birth,
    ) -> list[Saved]:
        draft.custom = _torch.is_custom(node)
        found: list[Saved] = []
        for attr, data, torch_saved in _torch.saved_tensors(node, slots):
            if torch_saved is None:
                self._keep_unchecked(draft, attr, data, found)
            else:
                self._keep(draft, node, attr, data, torch_saved, made, birth, found)
        for attr, data in _torch.attribute_tensors(node) if draft.custom else ():
            self._keep_unchecked(draft, attr, data, found)
        return found

    def _sound(self, drafts: Sequence[NodeDraft]) -> None:
        """Find the depth of these: of each once those behind it are known, in whatever order torch made them."""
        while drafts:
            unknown = []
            for draft in drafts:
                behind = [self._depth(key) for key, _ in draft.behind if key is not None]
                draft.depth = 1 + max(behind, default=0) if all(behind) else 0
                unknown += [] if draft.depth else [draft]
            drafts = unknown

    def _depth(self, key: Key) -> int:
        """Levels of the graph from that Node on; 1 for one that is forgotten."""
        draft = self.drafts.get(self.numbers.get(key, -1))
        return 1 if draft is None else draft.depth

    def _keep(
        self,
        draft: NodeDraft,
        node: Any,
        attr: str,
        data: torch.Tensor,
        torch_saved: Any,
        made: Sequence[torch.Tensor],
        birth: Birth,
        found: list[Saved],
    ) -> None:
        """A tensor that the Node keeps and whose version torch checks."""
        version = _torch.version_asked_of_torch(node, attr, torch_saved, data) if birth.late else _torch.version(data)
        tensor = self._tensors.draft(data) or self._owner(data, made, birth)
        ref = tensor.ref
        if deref(ref) is not data and _torch.READS_SAVED:
            ref = _torch.WeakTensor(data)
        slots = len(draft.behind) if attr[:8] != "running_" or _torch.is_read(node, attr) else 0
        number, span = len(found), tensor.span
        saved = Saved(draft.id, number, attr, tensor.id, ref, version, tensor.storage, span, draft.name, slots)
        self._saved.add(saved, data)
        found.append(saved)

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
            slots=len(draft.behind),
            checked=False,
        )
        self._saved.add(saved, data)
        found.append(saved)

    def _owner(self, data: torch.Tensor, made: Sequence[torch.Tensor], birth: Birth) -> TensorDraft:
        """The program's tensor that was saved as a result: the output that it is an alias of; else one of its own."""
        for tensor in made:
            if _torch.is_opaque(tensor) or _torch.is_opaque(data):  # torch 2.9 unpacks a plain shell of a fake one
                continue
            if _torch.shape(tensor) == _torch.shape(data) and _torch.begins_with(tensor, data):
                return self._tensors.drafts[self._tensors.see(tensor, birth.frame)]
        return self._tensors.drafts[self._tensors.see(data, birth.frame, birth.inputs)]

    def forget(self, kept: set[int]) -> None:
        """Drop all other Nodes."""
        self._saved.release(self.drafts.keys() - kept)
        self.drafts = {number: draft for number, draft in self.drafts.items() if number in kept}
        self.numbers = {key: number for key, number in self.numbers.items() if number in kept}
        self._outputs = {source: tensor for source, tensor in self._outputs.items() if source[0] in kept}


@lru_cache(maxsize=1024)
def _short(name: str | int) -> str:
    """The Node's name as torch prints it in Python."""
    return str(name).removeprefix("struct ").rpartition("::")[2]


@lru_cache(maxsize=1024)
def op_of(name: str) -> str:
    """The op behind a Node's name.

    >>> op_of("LogSoftmaxBackward0"), op_of("AccumulateGrad"), op_of("AsStridedBackward0_copy")
    ('log_softmax', 'accumulate_grad', 'as_strided')
    """
    stem = re.sub(r"Backward\w*$", "", name) or name
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", stem).lower()
