"""What hangs on cards and pills: hooks of the user, `retain_grad()`, and the AccumulateGrad of each leaf."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from seegrad.model.recording import Hook, Recording
from seegrad.picture.sketch.desk import Desk
from seegrad.picture.sketch.parts import Card


def hang_hooks(recording: Recording, desk: Desk, cards: Iterable[Card]) -> list[Card]:
    """The cards with their hooks; those of Functions go to their pills."""
    of_tensor: dict[int, list[Hook]] = defaultdict(list)
    for hook in recording.hooks:
        pill = desk.pills.get(f"f{hook.node}") if hook.node is not None else None
        if pill is not None:
            desk.pills[pill.id] = replace(pill, hooks=(*pill.hooks, hook))
        elif hook.tensor is not None:
            of_tensor[hook.tensor].append(hook)
    accumulators = {node.leaf: node.frame for node in recording.nodes if node.leaf is not None}
    return [_hung(card, of_tensor.get(card.tensor, []), accumulators.get(card.tensor)) for card in cards]


def _hung(card: Card, hooks: list[Hook], accumulator: int | None) -> Card:
    """A hook stays with the value that it was registered on; `retain_grad()` and a leaf's hooks follow the tensor."""
    leaf, end = card.kind == "leaf", card.stale
    follows = leaf or end is None
    retained = [hook.frame for hook in hooks if hook.kind == "retain" and follows]
    fresh = [hook for hook in hooks if (leaf or hook.frame >= card.born) and (end is None or hook.frame < end)]
    others = tuple(hook for hook in fresh if hook.kind != "retain")
    if not hooks and accumulator is None:
        return card
    return replace(
        card,
        hooks=others,
        retained=max(retained[0], card.born) if retained else None,
        accumulates=None if accumulator is None else max(accumulator, card.born),
    )
