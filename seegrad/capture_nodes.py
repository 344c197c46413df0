"""The graph that torch built: Nodes numbered as they're met, with their Edges and what they save."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from . import _torch
from .capture_saved import Saved, SavedTensors
from .capture_tensors import Tensors
from .derivatives import reads_sign_only, serves
from .model import Edge, Node, SavedTensor

Key = tuple[str, int]
"""What a Node is known by: its name and torch's number, or the number of the leaf it adds into."""


@dataclass(slots=True)
class Birth:
    """What is known of the call that may have made Nodes."""

    frame: int
    op: str
    inputs: Sequence[torch.Tensor]
    outputs: Sequence[torch.Tensor]
    written: Sequence[torch.Tensor] = ()
    sources: dict[tuple[int, int], int] = field(default_factory=dict)  # (Node, output number) → the input it made
    late: bool = False  # the Node is older than this look at it


class Nodes:
    """All Nodes of one Recording."""

    def __init__(self, tensors: Tensors, saved: SavedTensors) -> None:
        self.found: list[Node] = []
        self._tensors = tensors
        self._saved = saved
        self._numbers: dict[Key, int] = {}
        self._outputs: dict[tuple[int, int], int] = {}

    def key(self, node: Any, frame: int) -> Key:
        """How the Node is known again without holding it."""
        if _torch.is_accumulator(node):
            return ("leaf", self._tensors.see(node.variable, frame))
        return (str(node.name()), _torch.node_number(node))

    def number(self, node: Any, frame: int) -> int | None:
        """The Node's number, None when it was never met."""
        return self._numbers.get(self.key(node, frame))

    def source(self, tensor: torch.Tensor, frame: int) -> tuple[int, int] | None:
        """(Node, output number) that made the tensor, where that Node was met."""
        node = _torch.grad_fn(tensor)
        number = self.number(node, frame) if node is not None else None
        return None if number is None else (number, tensor.output_nr)

    def output(self, number: int, output_nr: int) -> int | None:
        """The tensor that was a Node's output of that number."""
        return self._outputs.get((number, output_nr))

    def walk(self, roots: Sequence[Any], birth: Birth) -> tuple[int, ...]:
        """Describe every unknown Node behind `roots`; their numbers, those nearest the inputs first."""
        fresh: list[tuple[Key, Any]] = []
        seen: set[Key] = set()
        waiting = list(roots)
        while waiting:
            node = waiting.pop()
            key = self.key(node, birth.frame)
            if key in self._numbers or key in seen:
                continue
            seen.add(key)
            fresh.append((key, node))
            waiting.extend(target for target, _ in node.next_functions if target is not None)
        # Torch numbers Nodes in the order of their making; an AccumulateGrad carries no number and comes first.
        fresh.sort(key=lambda item: (item[0][0] != "leaf", item[0][1]))
        for key, _ in fresh:
            self._numbers[key] = len(self._numbers)
        made = sum(key[0] != "leaf" for key, _ in fresh)
        for key, node in fresh:
            self._describe(self._numbers[key], node, birth, only=made == 1)
        return tuple(self._numbers[key] for key, _ in fresh)

    def _describe(self, number: int, node: Any, birth: Birth, *, only: bool) -> None:
        name = str(node.name()).removeprefix("struct ").rpartition("::")[2]
        leaf = self._tensors.see(node.variable, birth.frame) if _torch.is_accumulator(node) else None
        edges = self._edges(node, birth.frame)
        made = [t for t in birth.outputs if _torch.grad_fn(t) is node]
        for tensor in made:
            self._outputs[number, tensor.output_nr] = self._tensors.see(tensor, birth.frame)
        self.found.append(
            Node(
                id=number,
                name=name,
                op=birth.op if only and leaf is None and not birth.late else op_of(name),
                frame=birth.frame,
                edges=edges,
                saved=self._describe_saved(number, node, name, edges, birth),
                inputs=self._inputs(edges, birth),
                outputs=tuple(self._tensors.see(t, birth.frame) for t in made),
                leaf=leaf,
                inplace=any(t is each for t in made for each in birth.written),
            )
        )

    def _edges(self, node: Any, frame: int) -> tuple[Edge, ...]:
        return tuple(
            Edge(slot, None if target is None else self.number(target, frame), output)
            for slot, (target, output) in enumerate(node.next_functions)
        )

    def _inputs(self, edges: tuple[Edge, ...], birth: Birth) -> tuple[int | None, ...]:
        """The tensor given at each Edge: by what made it; then, where it's unambiguous, by order."""
        found: list[int | None] = []
        for edge in edges:
            target = edge.target
            leaf = self.found[target].leaf if target is not None and target < len(self.found) else None
            made = birth.sources.get((target, edge.output_nr)) if target is not None else None
            found.append(leaf if leaf is not None else made)
        numbers = [number for t in birth.inputs if (number := self._tensors.find(t)) is not None]
        rest = [number for number in numbers if number not in found]
        free = [slot for slot, edge in enumerate(edges) if edge.target is None]
        if len(rest) == len(free) and len(edges) == len(numbers):
            for slot, number in zip(free, rest, strict=True):
                found[slot] = number
        return tuple(found)

    def _describe_saved(
        self, number: int, node: Any, name: str, edges: tuple[Edge, ...], birth: Birth
    ) -> tuple[SavedTensor, ...]:
        described: list[SavedTensor] = []
        for attr, data, torch_saved in _torch.saved_tensors(node):
            version = _torch.version_when_saved(torch_saved, data) if birth.late else _torch.version(data)
            tensor = self._owner(data, node, birth)
            record = Saved(
                number,
                len(described),
                _torch.TensorWeakRef(data),
                version,
                self._tensors.storage_number(data),
                _torch.span(data),
                reads_sign_only(name, attr),
            )
            self._saved.add(record, data)
            described.append(
                SavedTensor(attr, tensor, version, record.storage, record.span, serves(name, attr, len(edges)))
            )
        return tuple(described)

    def _owner(self, data: torch.Tensor, node: Any, birth: Birth) -> int:
        """The program's tensor that was saved: itself, or for a result the output that it is an alias of."""
        if self._tensors.find(data) is None:
            for tensor in birth.outputs:
                if (
                    tensor.shape == data.shape
                    and tensor.data_ptr() == data.data_ptr()
                    and _torch.grad_fn(tensor) is node
                ):
                    return self._tensors.see(tensor, birth.frame)
        return self._tensors.see(data, birth.frame, birth.inputs)


def op_of(name: str) -> str:
    """The op behind a Node's name.

    >>> op_of("LogSoftmaxBackward0"), op_of("AccumulateGrad"), op_of("AsStridedBackward0_copy")
    ('log_softmax', 'accumulate_grad', 'as_strided')
    """
    stem = re.sub(r"Backward\w*$", "", name) or name
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", stem).lower()
