"""A leaf whose gradient is 0 whatever happens: all its ways to the loss were overwritten in place."""

from __future__ import annotations

from collections.abc import Iterator

from seegrad.diagnose.cut import backward_calls
from seegrad.diagnose.evidence import birthplace, label
from seegrad.model.derivatives import always_zero
from seegrad.model.recording import Diagnosis, Frame, Node, Recording


def find(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each leaf that only a certain 0 reaches."""
    for frames in backward_calls(recording):
        first = frames[0].running
        if first is None:
            continue
        alive = reach(recording, [first])
        written = [node for i in sorted(alive) if recording.frames[(node := recording.nodes[i]).frame].writes]
        dead = [(node, slot) for node in written for slot in always_zero(node.name)]
        ran = {frame.running for frame in frames}
        told: set[int] = set()
        for node, slot in dead:
            target = node.edges[slot].target if slot < len(node.edges) else None
            behind = reach(recording, [target]) if target is not None else set()
            for number in sorted((behind - alive) & ran - told):
                told.add(number)
                if recording.nodes[number].leaf is not None:
                    yield describe(recording, node, slot, recording.nodes[number], frames[-1])


def reach(recording: Recording, roots: list[int]) -> set[int]:
    """All Nodes behind `roots`, over the Edges that can carry something else than 0."""
    waiting, seen = list(roots), set(roots)
    while waiting:
        node = recording.nodes[waiting.pop()]
        zeros = always_zero(node.name)
        for edge in node.edges:
            if edge.target is not None and edge.slot not in zeros and edge.target not in seen:
                seen.add(edge.target)
                waiting.append(edge.target)
    return seen


def describe(recording: Recording, node: Node, slot: int, leaf: Node, shown: Frame) -> Diagnosis:
    """The Diagnosis of one overwritten history."""
    place = birthplace(recording, node)
    lost = node.inputs[slot] if slot < len(node.inputs) else None
    return Diagnosis(
        kind="graph_cut",
        severity="note",
        raised=False,
        culprit=place,
        victim=shown.place,
        node=node.name,
        tensor=recording.tensors[leaf.leaf].name if leaf.leaf is not None else None,
        arguments=(
            ("label", label(recording, leaf.leaf)),
            ("cause", "overwritten"),
            ("op", node.op),
            ("given", label(recording, lost)),
        ),
        node_id=node.id,
        tensor_id=leaf.leaf,
        frame=shown.index,
    )
