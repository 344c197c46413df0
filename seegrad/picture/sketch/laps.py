"""Backward calls as laps over the graph: how many contributions a gradient has, and when saved tensors are freed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from seegrad.model.recording import Frame, Node, Recording
from seegrad.picture.sketch.desk import Desk
from seegrad.picture.sketch.parts import Card, Share

Output = tuple[int, int]
"""A Node and the number of its output: what an Edge leads to."""


def laps_of(recording: Recording) -> dict[int, list[tuple[int, Frame]]]:
    """The engine's steps of each backward call: (step, Frame) of every Node that ran."""
    laps: dict[int, list[tuple[int, Frame]]] = defaultdict(list)
    for step, frame in enumerate(recording.frames):
        if frame.phase == "backward" and frame.running is not None and frame.backward is not None:
            laps[frame.backward].append((step, frame))
    return dict(laps)


def failures(recording: Recording) -> dict[int | None, int]:
    """Backward call → the Node that was running when it raised, also where the block caught the error."""
    found = {
        frame.backward: frame.running
        for frame in recording.frames
        if frame.phase == "error" and frame.running is not None
    }
    error = recording.error
    if error is not None and error.node is not None and error.node not in found.values():
        found[max(laps_of(recording), default=None)] = error.node
    return found


def with_shares(recording: Recording, desk: Desk, cards: Iterable[Card]) -> list[Card]:
    """The cards, with how many of the gradients that they add up have come, where that is more than one."""
    shares: dict[str, list[tuple[int, Share]]] = defaultdict(list)
    failed = failures(recording)
    for call, lap in laps_of(recording).items():
        for card, timeline in _shares(desk, lap, failed.get(call)).items():
            shares[card] += timeline
    return [replace(card, shares=tuple(shares[card.id])) if card.id in shares else card for card in cards]


def _shares(desk: Desk, lap: list[tuple[int, Frame]], failed: int | None) -> dict[str, list[tuple[int, Share]]]:
    ran = {frame.running for _, frame in lap}
    taking_part = ran if failed is None else _behind(desk.nodes, ran)  # a call that raised left some of them waiting
    expected: dict[Output, int] = defaultdict(int)
    for number in taking_part:
        for edge in desk.nodes[number].edges if number in desk.nodes else ():
            if edge.target is not None:
                expected[edge.target, edge.output_nr] += 1
    come: dict[Output, int] = defaultdict(int)
    found: dict[str, list[tuple[int, Share]]] = defaultdict(list)
    for step, frame in lap:
        node = desk.nodes.get(frame.running if frame.running is not None else -1)
        if node is None or node.id == failed:
            continue
        for edge in node.edges:
            output = (edge.target or 0, edge.output_nr)
            if edge.target is None or expected[output] < 2:
                continue
            come[output] += 1
            card = _card_of(desk, node, output, step)
            if card is not None:
                found[card].append((step, (come[output], expected[output])))
    return {card: list(dict(timeline).items()) for card, timeline in found.items()}


def _behind(nodes: dict[int, Node], start: Iterable[int | None]) -> set[int | None]:
    """Everything that gradients from `start` can reach."""
    seen: set[int | None] = set()
    waiting = list(start)
    while waiting:
        here = waiting.pop()
        if here in seen or here not in nodes:
            continue
        seen.add(here)
        waiting.extend(edge.target for edge in nodes[here].edges)
    return seen


def _card_of(desk: Desk, sender: Node, output: Output, step: int) -> str | None:
    """The card in which the gradients for an output add up, as the sender knew it."""
    target = desk.nodes.get(output[0])
    if target is None:
        return None
    if target.leaf is not None:
        return desk.drawn_from.get((f"f{sender.id}", target.leaf)) or desk.card_at(target.leaf, step) or None
    return desk.made.get((target.id, target.outputs[output[1]])) if output[1] < len(target.outputs) else None


def free(recording: Recording, desk: Desk) -> None:
    """Write down from which step on each Function's saved tensors are gone.

    A call with retain_graph or create_graph frees nothing; nor did one after which the Function ran once more.
    """
    failed = failures(recording)
    for pill in list(desk.pills.values()):
        done = [step for step, _ in pill.runs if failed.get(recording.frames[step].backward) != pill.node]
        if done and not _keeps(recording.frames[done[-1]]):
            desk.pills[pill.id] = replace(pill, freed=done[-1] + 1)


def _keeps(frame: Frame) -> bool:
    """Was this backward call made with retain_graph or create_graph?"""
    return frame.keeps_graph or frame.grad_enabled
