"""Which parts stand in one stack, and which cards share bytes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from seegrad.model.recording import Recording, TensorRef
from seegrad.picture.sketch.parts import Card, Cluster, Pill, StorageGroup, Wire

MOST_IN_STACK = 7  # with views; more of them make a picture too tall
VIEWS = frozenset({"T", "Transpose", "Permute", "View", "Unsqueeze", "Squeeze", "Expand", "Select", "Slice"})


def clusters_of(
    cards: Iterable[Card], pills: Iterable[Pill], wires: Iterable[Wire], storage: Mapping[str, int]
) -> tuple[Cluster, ...]:
    """Stacks of two or more: a tensor, its aliases and views, and writes whose only input is one of them.

    Only the head of a stack has lines coming in from outside, so stacks never make the graph run in a circle.
    `storage` knows the bytes of each card.
    """
    cards, pills = list(cards), list(pills)
    into: dict[str, list[Wire]] = defaultdict(list)
    out: dict[str, list[Wire]] = defaultdict(list)
    for wire in wires:
        into[wire.target].append(wire)
        out[wire.source].append(wire)
    writes = {pill.id for pill in pills if pill.kind == "write" and len(into[pill.id]) == 1}
    views = {pill.id for pill in pills if _is_view(pill, into[pill.id], out[pill.id], storage)}
    stacks = _Stacks()
    births = [(pill.born, 0, pill.id) for pill in pills if pill.id in writes | views]
    births += [(card.born, 1 + k, card.id) for k, card in enumerate(cards)]
    for *_, name in sorted(births):
        only = into[name][0] if len(into[name]) == 1 else None
        if only is None:
            continue
        same = only.kind == "alias" or name in writes or only.source in writes
        looks = name in views and stacks.room(only.source, 1 + len(out[name]))
        seen = only.source in views and only.source in stacks.head
        if same or looks or seen:
            stacks.put(only.source, name)
    return tuple(Cluster(f"g-{head}", _downwards(head, stacks.below)) for head in stacks.heads())


def _is_view(pill: Pill, into: list[Wire], out: list[Wire], storage: Mapping[str, int]) -> bool:
    """A Function that only looks at its input's bytes in another way."""
    if pill.kind != "node" or pill.inplace or len(into) != 1 or into[0].pins or into[0].source not in storage:
        return False
    made = [wire.target for wire in out if wire.kind == "out"]
    if made:
        return all(storage.get(card) == storage[into[0].source] for card in made)
    return pill.label.split("Backward")[0] in VIEWS


class _Stacks:
    """Stacks in the making: who hangs below whom, and how many already hang on each head."""

    def __init__(self) -> None:
        self.below: dict[str, list[str]] = defaultdict(list)
        self.head: dict[str, str] = {}
        self.size: dict[str, int] = defaultdict(lambda: 1)

    def put(self, upper: str, name: str) -> None:
        self.below[upper].append(name)
        self.head[name] = self.head.get(upper, upper)
        self.size[self.head[name]] += 1

    def room(self, upper: str, more: int) -> bool:
        return self.size[self.head.get(upper, upper)] + more <= MOST_IN_STACK

    def heads(self) -> list[str]:
        return [name for name in self.below if name not in self.head]


def _downwards(head: str, below: dict[str, list[str]]) -> tuple[str, ...]:
    """Depth first, so that a write stands right under what it writes to."""
    found, stack = [], [head]
    while stack:
        here = stack.pop()
        found.append(here)
        stack.extend(reversed(below.get(here, [])))
    return tuple(found)


def storages_of(recording: Recording, cards: Iterable[Card]) -> tuple[StorageGroup, ...]:
    """Cards of different tensors on the same bytes, where that matters: a named view, an alias, or a write."""
    refs = {ref.id: ref for ref in recording.tensors}
    written = {write.storage for write in recording.writes}
    groups: dict[int, list[Card]] = defaultdict(list)
    for card in cards:
        groups[refs[card.tensor].storage].append(card)
    found = []
    for storage, members in groups.items():
        tensors = list(dict.fromkeys(card.tensor for card in members))
        matters = storage in written or any(_stands_out(refs[k]) for k in tensors)
        if len(tensors) > 1 and matters:
            counters = {refs[k].counter for k in tensors} - {None}
            second = min(card.born for card in members if card.tensor != tensors[0])
            first = min(card.born for card in members if card.tensor == tensors[0])
            found.append(StorageGroup(storage, tuple(card.id for card in members), len(counters), max(first, second)))
    return tuple(found)


def _stands_out(ref: TensorRef) -> bool:
    return ref.route in ("detach", "data", "storage") or (ref.route == "view" and ref.name is not None)
