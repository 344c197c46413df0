"""The graph that torch built: Nodes numbered as they're met, with their Edges and what they save."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import torch

from seegrad.capture.probes import torch_private as _torch
from seegrad.capture.probes.places import clean_stack
from seegrad.capture.tables.depth import SHALLOW, take_along
from seegrad.capture.tables.saved import Kept, Saved, SavedTensors
from seegrad.capture.tables.tensors import Source, TensorDraft, Tensors, deref
from seegrad.model.derivatives import may_break, selects

Key = int
"""What a Node is known by: torch's number and its name's, in one. What adds into a leaf has no number: by the leaf's.

Those come before all others; a later Node has a greater number.
"""

NAMES = 20
"""Bits of a Key for the number of a name."""

KIND = (1 << NAMES) - 1
"""The number of the name in a Key."""

LEAVES = 1 << 100
"""The leaf's number less that: the Key of what adds into it."""

Met = tuple[Any, tuple[tuple[Key | None, int], ...]]
"""A Node of torch at the moment it's met; for each of its Edges who is behind it, with the output's number."""


class NodeKind(NamedTuple):
    """What all Nodes of one name have in common."""

    number: int  # of its name
    name: str  # as torch prints it in Python
    op: str
    slots: tuple[tuple[str, str], ...]
    custom: bool
    along: bool = False  # it normalises along a dimension
    steep: bool = False  # it may hand on what isn't finite
    selects: bool = False  # it may leave numbers out


ALONG = frozenset({"softmax", "log_softmax"})
"""Ops that do."""

ADDS = NodeKind(-1, "AccumulateGrad", "accumulate_grad", (), custom=False)
"""Of what adds into a leaf."""


@dataclass(slots=True)
class Birth:
    """What is known of the call that may have made Nodes."""

    frame: int
    op: str
    inputs: Sequence[int]
    written: Sequence[torch.Tensor] = ()
    late: bool = False  # the Node is older than this look at it


@dataclass(eq=False)
class NodeDraft:
    """A Node in the making: whom its Edges lead to, and what was given at each, is looked up when it's asked for.

    What few Nodes have, and what comes later, is the class's until then: there are many of them.
    """

    id: int
    key: Key
    kind: NodeKind
    frame: int
    behind: Sequence[tuple[Key | None, int]]
    given: Sequence[int]  # the tensors that the op was given, whether or not they have an Edge
    nodes: Nodes
    called: str = field(default="", init=False)  # the op that made it and no other
    outputs: tuple[int, ...] = field(default=(), init=False)
    leaf: int | None = field(default=None, init=False)
    inplace: bool = field(default=False, init=False)
    axis: int | None = field(default=None, init=False)  # along which it normalises
    kept: tuple[Kept, ...] = field(default=(), init=False)
    looked_at: Sequence[Saved] = field(default=(), init=False)  # once somebody asks for more than plain numbers
    depth: int = field(default=1, init=False)  # levels of the graph from this Node on, as far as they're known

    @property
    def name(self) -> str:
        """As torch prints it in Python."""
        return self.kind.name

    @property
    def op(self) -> str:
        """What made it."""
        return self.called or self.kind.op

    @property
    def custom(self) -> bool:
        """True for a Function that was written in Python."""
        return self.kind.custom

    @property
    def saved(self) -> Sequence[Saved]:
        """What it keeps."""
        if self.kept and not self.looked_at:
            self.looked_at = self.nodes.look_at(self)
        return self.looked_at

    def suspect(self) -> bool:
        """True when it's worth asking whether bytes that it keeps have changed."""
        return bool(self.looked_at) and any(saved.suspect() for saved in self.looked_at)

    @property
    def edges(self) -> tuple[tuple[int, int | None, int], ...]:
        """(slot, Node, output number) for each Edge; None for an input that needs no gradient."""
        number = self.nodes.numbers.get
        return tuple(
            [(slot, None if key is None else number(key), output) for slot, (key, output) in enumerate(self.behind)]
        )

    @property
    def inputs(self) -> tuple[int | None, ...]:
        """The tensor given at each Edge: by what made it; then, where it's unambiguous, by order."""
        return self.nodes.inputs(self)


class Nodes:
    """All Nodes of one Recording that weren't forgotten."""

    def __init__(self, tensors: Tensors, saved: SavedTensors) -> None:
        self.drafts: dict[int, NodeDraft] = {}
        self.numbers: dict[Key, int] = {}
        self._named: dict[str, NodeKind] = {}
        self._kinds: list[NodeKind] = []  # the same, by number
        self._of_type: dict[type, NodeKind] = {}  # of those whose type says which it is
        self._next = 0
        self._sounded = 0  # of those before, the depth is known
        self._tensors = tensors
        self._saved = saved
        self._outputs: dict[Source, int] = {}
        self._aliases: dict[tuple[int, int], _torch.WeakTensor] = {}  # what a Node keeps that isn't the tensor itself

    def key(self, node: Any, frame: int) -> Key:
        """How the Node is known again without holding it."""
        kind = self._of_type.get(type(node))
        if kind is None:
            leaf = getattr(node, "variable", None) if _torch.node_number(node) == _torch.NO_NUMBER else None
            if leaf is not None:  # it adds into it
                return self._tensors.see(leaf, frame) - LEAVES
            kind = self._kind(node)
        return _torch.node_number(node) << NAMES | kind.number

    def _kind(self, node: Any) -> NodeKind:
        name = node.name()
        kind = self._named.get(name)
        if kind is None:
            short, slots = _short(name), _torch.saved_slots(node)
            op, custom = op_of(short), _torch.is_custom(node)
            along, steep = op in ALONG and not custom, may_break(short)
            kind = NodeKind(len(self._kinds), short, op, slots, custom, along, steep, selects(short))
            self._named[name] = kind
            self._kinds.append(kind)
            if is_named_by_type(node):
                self._of_type[type(node)] = kind
        return kind

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

    def look_at(self, node: NodeDraft) -> list[Saved]:
        """What a Node keeps, to be looked at again and again."""
        number, name, aliases, tensors = node.id, node.name, self._aliases, self._tensors.drafts
        found = []
        for index, kept in enumerate(node.kept):
            attr, tensor, version, storage, start, stop, slots, checked = kept
            ref = aliases.get((number, index)) or tensors[tensor].ref
            span = start, stop
            found.append(Saved(number, index, ref, attr, tensor, version, storage, span, slots, checked, name))
        return found

    def let_go(self) -> None:
        """Refer to no tensor any longer."""
        self._aliases.clear()
        for draft in self.drafts.values():
            for saved in draft.looked_at:
                saved.ref = _torch.GONE

    def told(self, node: int, tensors: Sequence[int]) -> tuple[str, bool, list[tuple[int, ...]]]:
        """The Node's name, whether it adds into a leaf, and the shapes of these tensors."""
        draft = self.drafts[node]
        return draft.name, draft.leaf is not None, [self._tensors.drafts[tensor].shape for tensor in tensors]

    def accumulator(self, leaf: int) -> Source | None:
        """The Node, with its one output, that adds into that leaf's `.grad`."""
        number = self.numbers.get(leaf - LEAVES)
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
                    if key in numbers and (behind := numbers[key]) not in found:
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
        first, functions = self._next, self._draw_up(order, fresh, birth)
        if len(functions) == 1 and not birth.late:
            functions[0].called = birth.op
        if len(self.drafts) > SHALLOW:  # fewer can't be deeper
            self._sound(functions, fresh)
        outputs = self._join(roots, fresh, birth)
        if torch.is_anomaly_enabled():
            for node, _ in fresh.values():
                clean_stack(_torch.anomaly_stack(node))
        for draft in functions:
            if draft.kind.slots:
                self._keep(draft, fresh[draft.key][0], outputs.get(draft.key, ()), birth)
        return tuple(range(first, self._next))

    def _unknown(self, roots: Sequence[tuple[Key, Any, torch.Tensor]], frame: int) -> dict[Key, Met]:
        fresh: dict[Key, Met] = {}
        numbers, kind_of, number_of = self.numbers, self._of_type.get, _torch.node_number
        waiting = [(key, node) for key, node, _ in roots]
        while waiting:
            key, node = waiting.pop()
            if key in numbers or key in fresh:
                continue
            behind: list[tuple[Key | None, int]] = []
            for target, output in node.next_functions:
                if target is None:
                    behind.append((None, output))
                    continue
                kind = kind_of(type(target))
                there = self.key(target, frame) if kind is None else number_of(target) << NAMES | kind.number
                behind.append((there, output))
                if there not in numbers:
                    if there < 0:
                        fresh[there] = target, ()
                    else:
                        waiting.append((there, target))
            fresh[key] = node, tuple(behind)
        return fresh

    def _draw_up(self, order: Sequence[Key], fresh: Mapping[Key, Met], birth: Birth) -> list[NodeDraft]:
        """Number these Nodes; those that aren't a leaf's."""
        numbers, drafts, kinds, frame, inputs = self.numbers, self.drafts, self._kinds, birth.frame, birth.inputs
        functions = []
        for number, key in enumerate(order, self._next):
            numbers[key] = number
            if key < 0:
                drafts[number] = draft = NodeDraft(number, key, ADDS, frame, (), (), self)
                draft.leaf = key + LEAVES
            else:
                drafts[number] = draft = NodeDraft(number, key, kinds[key & KIND], frame, fresh[key][1], inputs, self)
                functions.append(draft)
        self._next += len(order)
        return functions

    def _join(
        self, roots: Sequence[tuple[Key, Any, torch.Tensor]], fresh: Mapping[Key, Met], birth: Birth
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
            if birth.written:
                draft.inplace = draft.inplace or any(tensor is each for each in birth.written)
            self._outputs[source] = tensor_draft.id
        return found

    def _keep(self, draft: NodeDraft, node: Any, made: Sequence[torch.Tensor], birth: Birth) -> None:
        """Note what the Node keeps."""
        if draft.kind.along:
            axis = _torch.axis_of(node)
            draft.axis = axis if axis is None or axis < _torch.NO_NUMBER // 2 else axis - _torch.NO_NUMBER - 1
        found: list[tuple[Kept, torch.Tensor]] = []
        known, everywhere, late = self._tensors.draft, len(draft.behind), birth.late
        for attr, data, torch_saved in _torch.saved_tensors(node, draft.kind.slots):
            if torch_saved is None:
                self._keep_unchecked(draft, attr, data, found)
                continue
            tensor = known(data)
            if tensor is None:
                tensor = self._owner(data, made, birth)
                if _torch.READS_SAVED and deref(tensor.ref) is not data:
                    self._aliases[draft.id, len(found)] = _torch.WeakTensor(data)
            version = _torch.version_asked_of_torch(node, attr, torch_saved, data) if late else _torch.version(data)
            used = everywhere if attr[:8] != "running_" or _torch.is_read(node, attr) else 0
            found.append(((attr, tensor.id, version, tensor.storage, *tensor.span, used, True), data))
        if draft.kind.custom:
            for attr, data in attribute_tensors(node):
                self._keep_unchecked(draft, attr, data, found)
        if found:
            self._born(draft, found)

    def _born(self, draft: NodeDraft, found: Sequence[tuple[Kept, torch.Tensor]]) -> None:
        draft.kept = tuple([kept for kept, _ in found])
        self._saved.born(draft)
        if self._saved.concerned(found):
            for saved, (_, data) in zip(draft.saved, found, strict=True):
                self._saved.add(saved, data)

    def _sound(self, fresh: Sequence[NodeDraft], met: Mapping[Key, Met]) -> None:
        """Find the depth of all that were met since the last time; the deep ones among the new take theirs along."""
        draft_of, number_of = self.drafts.get, self.numbers.get
        for number in range(self._sounded, self._next):
            draft, deepest = draft_of(number), 0
            if draft is not None and draft.behind:
                for key, _ in draft.behind:
                    behind = None if key is None else draft_of(number_of(key, -1))
                    at = behind.depth if behind is not None else 0 if key is None else 1  # 1: it is forgotten
                    deepest = max(deepest, at)
                draft.depth = 1 + deepest
        self._sounded = self._next
        for draft in fresh:
            if draft.depth > SHALLOW:
                take_along(met[draft.key][0], draft.depth, [self._depth(key) for key, _ in draft.behind])

    def _depth(self, key: Key | None) -> int:
        """Levels of the graph from that Node on; 0 where there's none, 1 for one that is forgotten."""
        if key is None:
            return 0
        draft = self.drafts.get(self.numbers.get(key, -1))
        return 1 if draft is None else draft.depth

    def _keep_unchecked(
        self, draft: NodeDraft, attr: str, data: torch.Tensor, found: list[tuple[Kept, torch.Tensor]]
    ) -> None:
        """A tensor of the program that the Node keeps where torch doesn't check its version."""
        tensor = self._tensors.sharing(data)
        if tensor is None or not (data.is_floating_point() or data.is_complex()):
            return
        self._aliases[draft.id, len(found)] = _torch.WeakTensor(data)
        start, stop = _torch.span(data)
        kept = attr, tensor.id, _torch.version(data), tensor.storage, start, stop, len(draft.behind), False
        found.append((kept, data))

    def _owner(self, data: torch.Tensor, made: Sequence[torch.Tensor], birth: Birth) -> TensorDraft:
        """The program's tensor that was saved as a result: the output that it is an alias of; else one of its own."""
        for tensor in made:
            if is_alias(tensor, data):
                return self._tensors.drafts[self._tensors.see(tensor, birth.frame)]
        return self._tensors.describe(data, birth.frame, birth.inputs)

    def forget(self, kept: set[int]) -> None:
        """Drop all other Nodes."""
        self._saved.release(self.drafts.keys() - kept)
        self.drafts = {number: draft for number, draft in self.drafts.items() if number in kept}
        self.numbers = {key: number for key, number in self.numbers.items() if number in kept}
        self._outputs = {source: tensor for source, tensor in self._outputs.items() if source[0] in kept}
        self._aliases = {place: ref for place, ref in self._aliases.items() if place[0] in kept}


HEAP_TYPE = 1 << 9
"""Among a type's flags: it was made by a `class` statement."""


def is_named_by_type(node: Any) -> bool:
    """True where all Nodes of that type have one name: torch has made the type for them, and it stays."""
    kind = type(node)
    return kind.__name__ == node.name() and not kind.__flags__ & HEAP_TYPE


def attribute_tensors(node: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """(attribute, tensor) for what a custom Function keeps as `ctx.attribute`: torch doesn't check it."""
    for name, value in vars(node).items():
        for tensor in value if type(value) in (list, tuple) else (value,):
            if isinstance(tensor, torch.Tensor):
                yield f"ctx.{name}", tensor


def is_alias(tensor: torch.Tensor, other: torch.Tensor) -> bool:
    """True for tensors of one shape that begin at the same element of one storage.

    Functorch's shells have no `data_ptr()`; of a shell torch 2.9 unpacks a plain one.
    """
    key = _torch.storage_key(tensor)
    if key is None or key != _torch.storage_key(other) or _torch.is_opaque(tensor) or _torch.is_opaque(other):
        return False
    return _torch.shape(tensor) == _torch.shape(other) and tensor.storage_offset() == other.storage_offset()


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
