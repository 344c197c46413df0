"""Numbers that are drawn by `torch.normal` and the like: a result with a history, which hands nothing back."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from seegrad.model.derivatives import stem
from seegrad.model.recording import Frame, Node, Recording

DRAWS = frozenset({"Bernoulli", "Normal", "Poisson"})
"""Nodes of draws, without the end of their names: the gradient of what they draw by is 0."""

LINEAR = frozenset({
    "Add", "Alias", "Cat", "Clone", "Expand", "Mean", "Neg", "Permute", "Rsub", "Select", "Squeeze", "Stack", "Sub",
    "Sum", "ToCopy", "Transpose", "UnsafeView", "Unsqueeze", "View",
})  # fmt: skip
"""Nodes that leave a sum of terms one, without the end of their names."""

SCALES = frozenset({"Div", "Mul"})
MOST_TERMS = 64
MOST_DRAWS = 16
"""So many of one backward call are looked at: each walks through the graph once a term."""


@dataclass(frozen=True, slots=True)
class Draw:
    """A Node that draws, and the leaves that a term behind it can't reach, though another does."""

    node: Node
    leaves: tuple[int, ...]


def is_draw(node: Node) -> bool:
    """Does it hand 0 back to what its numbers were drawn by? Not where it writes them over something."""
    return stem(node.name) in DRAWS and not node.inplace


def is_linear(node: Node) -> bool:
    """Does it hand on what it's given, to one or to several, at most scaled?"""
    kind = stem(node.name)
    return kind in LINEAR or (kind in SCALES and len([edge for edge in node.edges if edge.target is not None]) == 1)


def draws(recording: Recording, frames: list[Frame], trained: Collection[int]) -> Iterator[Draw]:
    """Of one backward call: those whose leaves learn by another term, of what was drawn from, and of nothing drawn.

    None where what was drawn meets what it was drawn from: its density, as in a policy gradient; straight through.
    """
    runs = [recording.nodes[frame.running] for frame in frames if frame.running is not None]
    found = [node for node in runs if is_draw(node)][:MOST_DRAWS]
    graph = {node.id: node for node in runs} if found else {}
    for node in found:
        others = _reach(graph, [runs[0]], without=node.id)
        below = _reach(graph, _next(graph, node))
        used = {leaf for each in below & others if _is_by(graph, node, each) for leaf in _leaves(graph, each)}
        missed = set[int]()
        for term in _terms(graph, runs[0]):
            if node.id in _reach(graph, [term]):
                reached = _reach(graph, [term], without=node.id)
                missed |= {leaf for each in below - reached if (leaf := graph[each].leaf) is not None}
        leaves = tuple(sorted(missed & used & set(trained)))
        if leaves and not _is_scored(recording, node):
            yield Draw(node, leaves)


def _next(graph: dict[int, Node], node: Node) -> list[Node]:
    return [graph[edge.target] for edge in node.edges if edge.target in graph]


def _reach(graph: dict[int, Node], begin: list[Node], without: int | None = None) -> set[int]:
    """These Nodes and all behind them; nothing behind `without`."""
    waiting = [node for node in begin if node.id != without]
    seen = {node.id for node in waiting}
    while waiting:
        fresh = [each for each in _next(graph, waiting.pop()) if each.id not in seen and each.id != without]
        seen.update(each.id for each in fresh)
        waiting += fresh
    return seen


def _leaves(graph: dict[int, Node], node: int) -> set[int]:
    return {leaf for each in _reach(graph, [graph[node]]) if (leaf := graph[each].leaf) is not None}


def _is_by(graph: dict[int, Node], draw: Node, node: int) -> bool:
    """Is it a result on the way to what was drawn from, or a leaf that this is a function of, of it alone?"""
    if graph[node].leaf is None:
        return True
    for each in _next(graph, draw):
        while each.id != node and len(behind := _next(graph, each)) == 1:
            each = behind[0]
        if each.id == node:
            return True
    return False


def _terms(graph: dict[int, Node], root: Node) -> list[Node]:
    """The loss as a sum, as far as the Nodes tell."""
    waiting, seen, found = [root], {root.id}, list[Node]()
    while waiting and len(found) < MOST_TERMS:
        node = waiting.pop()
        parts = _next(graph, node)
        if is_linear(node):
            fresh = [each for each in parts if each.id not in seen]
            seen.update(each.id for each in fresh)
            waiting += fresh
        else:
            found.append(node)
    return found


def _is_scored(recording: Recording, node: Node) -> bool:
    """Does something, now or later, meet both what was drawn and what it was drawn from?"""
    drawing = recording.frames[node.frame]
    refs = [recording.tensors[tensor] for tensor in drawing.inputs]
    given, drawn = {ref.storage for ref in refs if ref.requires_grad}, set(drawing.outputs)
    for frame in recording.frames[node.frame + 1 :]:
        if frame.phase != "backward" and not drawn.isdisjoint(frame.inputs):
            if any(recording.tensors[tensor].storage in given for tensor in frame.inputs):
                return True
            drawn.update(frame.outputs)
    return False
