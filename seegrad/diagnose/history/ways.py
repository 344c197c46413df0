"""The graph as ways: where a backward call begins, what leads to a Node, where a new graph meets an old one."""

from __future__ import annotations

from collections.abc import Container

from seegrad.model.recording import Edge, Frame, Node, Recording


def root(recording: Recording, frame: Frame) -> int | None:
    """The Node at which the call of this Frame began."""
    return next(
        (each.running for each in recording.frames if each.backward == frame.backward and each.running is not None),
        None,
    )


def leading_to(recording: Recording, target: int) -> set[int]:
    """The Node and all from which it can be reached."""
    above: dict[int, list[int]] = {}
    for node in recording.nodes:
        for edge in node.edges:
            if edge.target is not None:
                above.setdefault(edge.target, []).append(node.id)
    waiting, seen = [target], {target}
    while waiting:
        for number in above.get(waiting.pop(), ()):
            if number not in seen:
                seen.add(number)
                waiting.append(number)
    return seen


def links_into(recording: Recording, start: int, old: set[int], leading: Container[int]) -> list[tuple[Node, Edge]]:
    """The Edges, nearest to `start` first, from a new Node into the `old` ones, on the ways that are `leading` on."""
    waiting, seen, links = [start], {start}, []
    for number in waiting:  # grows while it's read
        node = recording.nodes[number]
        for edge in node.edges:
            if edge.target is None or edge.target not in leading:
                continue
            if edge.target in old:
                links.append((node, edge))
            elif edge.target not in seen:
                seen.add(edge.target)
                waiting.append(edge.target)
    return links
