"""NaN that enters the graph and is taken out of it again before the loss: backward meets it all the same."""

from __future__ import annotations

from dataclasses import dataclass

from seegrad.diagnose.numbers.known import KnownNumbers
from seegrad.model.derivatives import selects
from seegrad.model.recording import Frame, Node, Recording

CLEANS = frozenset(
    {"nan_to_num", "nan_to_num_", "where", "masked_fill", "masked_fill_", "masked_select", "__getitem__"}
)
"""Ops whose result may be without the NaN in what they're given."""


@dataclass(frozen=True, slots=True)
class Entrance:
    """The first Frame that computes with a NaN of the data, and has a history: what it's given."""

    frame: Frame
    given: int


def entrance_of(
    recording: Recording, known: KnownNumbers, runs: list[Node], leaf: Node | None = None
) -> Entrance | None:
    """Where a NaN came in among these Nodes of one backward call; None where that isn't known.

    `leaf`: only on the ways from it to a loss that is finite, which select among numbers.
    """
    on_the_way = {node.id for node in runs if node.leaf is None}
    if leaf is not None:
        chosen = _behind(runs, {node.id for node in runs if selects(node.name)})
        on_the_way = {node.id for node in _leading_to(runs, leaf)} & chosen
    born = {recording.nodes[node].frame for node in on_the_way}
    if not born:
        return None
    dirty = set[int]()
    for frame in recording.frames[: max(born) + 1]:
        given = next(
            (each for each in frame.inputs if each in dirty or _is_broken(recording, known, each, frame)), None
        )
        if given is None or frame.phase == "backward":
            continue
        if frame.index in born:
            return Entrance(frame, given)
        if frame.op not in CLEANS:
            dirty.update(each for each in frame.outputs if _is_data(recording, each))
    return None


def _behind(runs: list[Node], begin: set[int]) -> set[int]:
    """The Nodes that get their gradient from one of these; `runs` has each behind all that give it something."""
    found = set(begin)
    for node in runs:
        if node.id in found:
            found.update(edge.target for edge in node.edges if edge.target is not None)
    return found - begin


def _leading_to(runs: list[Node], leaf: Node) -> list[Node]:
    leads, found = {leaf.id}, list[Node]()
    for node in reversed(runs):
        if any(edge.target in leads for edge in node.edges):
            leads.add(node.id)
            found.append(node)
    return found


def _is_broken(recording: Recording, known: KnownNumbers, tensor: int, frame: Frame) -> bool:
    """Is it data that holds a NaN when that Frame is given it? An infinity may be meant, as in a mask that is added."""
    span = known.at(tensor, frame.index - 1) if _is_data(recording, tensor) else None
    return span is not None and span.has_nan


def _is_data(recording: Recording, tensor: int) -> bool:
    ref = recording.tensors[tensor]
    return not ref.requires_grad and ref.dtype.startswith(("float", "bfloat", "complex"))
