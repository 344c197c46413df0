"""Which parts stand in one stack, and which cards share bytes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from ..model import Recording
from .parts import Card, Cluster, Pill, StorageGroup, Wire


def clusters_of(cards: Iterable[Card], pills: Iterable[Pill], wires: Iterable[Wire]) -> tuple[Cluster, ...]:
    """Stacks of two or more: a tensor, its aliases, and writes whose only input is one of them.

    Only the head of a stack has lines coming in from outside, so stacks never make the graph run in a circle.
    """
    cards, pills = list(cards), list(pills)
    into: dict[str, list[Wire]] = defaultdict(list)
    for wire in wires:
        into[wire.target].append(wire)
    writes = {pill.id for pill in pills if pill.kind == "write" and len(into[pill.id]) == 1}
    below: dict[str, list[str]] = defaultdict(list)
    inner: set[str] = set()
    births = [(pill.born, 0, pill.id) for pill in pills if pill.id in writes]
    births += [(card.born, 1 + k, card.id) for k, card in enumerate(cards)]
    for *_, name in sorted(births):
        only = into[name][0] if len(into[name]) == 1 else None
        if only is not None and (only.kind == "alias" or name in writes or only.source in writes):
            below[only.source].append(name)
            inner.add(name)
    heads = [name for name in below if name not in inner]
    return tuple(Cluster(f"g-{head}", _downwards(head, below)) for head in heads)


def _downwards(head: str, below: dict[str, list[str]]) -> tuple[str, ...]:
    """Depth first, so that a write stands right under what it writes to."""
    found, stack = [], [head]
    while stack:
        here = stack.pop()
        found.append(here)
        stack.extend(reversed(below.get(here, [])))
    return tuple(found)


def storages_of(recording: Recording, cards: Iterable[Card]) -> tuple[StorageGroup, ...]:
    """Cards of different tensors on the same bytes, where that matters: an alias without history, or a write."""
    refs = {ref.id: ref for ref in recording.tensors}
    written = {write.storage for write in recording.writes}
    groups: dict[int, list[Card]] = defaultdict(list)
    for card in cards:
        groups[refs[card.tensor].storage].append(card)
    found = []
    for storage, members in groups.items():
        tensors = list(dict.fromkeys(card.tensor for card in members))
        matters = storage in written or any(refs[k].route in ("detach", "data", "storage") for k in tensors)
        if len(tensors) > 1 and matters:
            counters = {refs[k].counter for k in tensors} - {None}
            second = min(card.born for card in members if card.tensor != tensors[0])
            first = min(card.born for card in members if card.tensor == tensors[0])
            found.append(StorageGroup(storage, tuple(card.id for card in members), len(counters), max(first, second)))
    return tuple(found)
