"""A Sketch → the part of it that a stretch of steps is about, with steps and names of its own.

Passes of one loop get the same names: what is open or selected in one is found again in the next. A parameter stands
once, however often it is updated, and a result without a name that one Function alone uses is a line.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from seegrad.model.recording import Hook, Recording
from seegrad.picture.sketch.parts import Card, Mark, Pill, Sketch, Timeline, Wire
from seegrad.picture.sketch.passes import Stretch
from seegrad.picture.sketch.stacks import clusters_of, storages_of

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Steps:
    """Steps `first` up to `stop`, counted from 0."""

    first: int
    stop: int

    def holds(self, step: int | None) -> bool:
        """Is this one of the steps?"""
        return step is not None and self.first <= step < self.stop

    def moved(self, step: int) -> int:
        """The step's number in here; what was before is there from the beginning."""
        return max(step - self.first, 0)

    def later(self, step: int | None) -> int | None:
        """The same for what may not happen in here."""
        return self.moved(step) if step is not None and step < self.stop else None

    def timeline(self, timeline: Timeline[Value]) -> Timeline[Value]:
        """What holds at the beginning, and what comes in here."""
        return tuple({self.moved(step): value for step, value in timeline if step < self.stop}.items())

    def inside(self, timeline: Timeline[Value]) -> Timeline[Value]:
        """Only what comes in here."""
        return tuple((step - self.first, value) for step, value in timeline if self.holds(step))

    def steps(self, steps: Iterable[int]) -> tuple[int, ...]:
        """The steps that are in here."""
        return tuple(step - self.first for step in steps if self.holds(step))

    def hooks(self, hooks: Iterable[Hook]) -> tuple[Hook, ...]:
        """Hooks with their calls in here."""
        return tuple(
            replace(
                hook,
                frame=self.moved(hook.frame),
                calls=tuple(replace(c, frame=c.frame - self.first) for c in hook.calls if self.holds(c.frame)),
            )
            for hook in hooks
            if hook.frame < self.stop
        )


def excerpt(recording: Recording, parts: Sketch, stretch: Stretch) -> Sketch:
    """What the steps of a Stretch make, run or write to, with all that this needs."""
    window = Steps(stretch.first, stretch.stop)
    pills = {p.id: p for p in parts.pills if window.holds(p.born) or any(window.holds(step) for step, _place in p.runs)}
    wires = [wire for wire in parts.wires if wire.source in pills or wire.target in pills]
    # step 0 shows all that is known
    about = {part for on in parts.on[max(window.first, 1) : window.stop] for part in on}
    wanted = about | {end for wire in wires for end in (wire.source, wire.target)}
    cards = {
        card.id: card
        for card in parts.cards
        if card.born < window.stop and (card.id in wanted or (card.born and window.holds(card.born)))
    }
    bases = {wire.source for wire in parts.wires if wire.target in cards and window.holds(wire.born)}
    cards |= {card.id: card for card in parts.cards if card.id in bases and card.born < window.stop}
    cards = dict(sorted(cards.items(), key=lambda named: (named[1].born >= max(window.first, 1), named[1].tensor)))
    names = _names(recording, parts, cards, pills, window)
    wires = [w for w in parts.wires if w.source in names and w.target in names and w.born < window.stop]
    return _renamed(recording, parts, names, window, (cards, pills, wires))


def _names(
    recording: Recording, parts: Sketch, cards: Mapping[str, Card], pills: Mapping[str, Pill], window: Steps
) -> dict[str, str]:
    """Part → its name in here. Tensors from before keep their number; what is made in here is numbered anew."""
    first = {card.tensor: card.born for card in reversed(parts.cards)}
    seen_first = {ref.id: ref.frame for ref in recording.tensors if ref.name is None}  # such as a gradient
    new = {k for k, step in first.items() if (step and window.holds(step)) or window.holds(seen_first.get(k))}
    fresh = [card.tensor for card in cards.values() if card.kind != "leaf" and card.tensor in new]
    made = dict.fromkeys(fresh)
    own = {tensor: f"tp{k}" for k, tensor in enumerate(made)}
    seen: Counter[str] = Counter()
    names = {}
    for card in cards.values():
        tensor = own.get(card.tensor, f"t{card.tensor}")
        names[card.id] = f"{tensor}-{seen[tensor]}"
        seen[tensor] += 1
    for pill in pills.values():
        letter = pill.id[0]
        names[pill.id] = f"{letter}{seen[letter]}" if window.holds(pill.born) else f"{letter}x{pill.id[1:]}"
        seen[letter] += window.holds(pill.born)
    return names


def _renamed(
    recording: Recording,
    parts: Sketch,
    names: Mapping[str, str],
    window: Steps,
    found: tuple[Mapping[str, Card], Mapping[str, Pill], Iterable[Wire]],
) -> Sketch:
    old_cards, old_pills, old_wires = found
    loss = _loss(recording, old_cards, window)
    cleared = _cleared(recording, window)
    cards = [_card(card, names, window, loss, cleared) for card in old_cards.values()]
    laps = [frame.backward for frame in recording.frames[window.first : window.stop] if frame.backward is not None]
    pills = [_pill(pill, names, window, min(laps, default=0)) for pill in old_pills.values()]
    wires = [replace(w, source=names[w.source], target=names[w.target], born=window.moved(w.born)) for w in old_wires]
    tensors = {ref.id: ref for ref in recording.tensors}
    whole = Sketch(
        cards=tuple(cards),
        pills=tuple(pills),
        wires=tuple(wires),
        loose_pins=tuple((names[name], pin) for name, pin in parts.loose_pins if name in names),
        marks=tuple(_marks(parts.marks, names, window)),
        on=tuple(tuple(names[p] for p in on if p in names) for on in parts.on[window.first : window.stop]),
        flows=tuple(
            (step - window.first, names[a], names[b])
            for step, a, b in parts.flows
            if window.holds(step) and a in names and b in names
        ),
        root=names[loss] if loss is not None else None,
    )
    unnamed = {ref.id for ref in recording.tensors if ref.name is None}
    short = _without_results(_with_updates(whole, unnamed), unnamed)
    storage = {card.id: tensors[card.tensor].storage for card in short.cards}
    return replace(
        short,
        clusters=clusters_of(short.cards, short.pills, short.wires, storage),
        storages=storages_of(recording, short.cards),
    )


def _with_updates(whole: Sketch, unnamed: set[int]) -> Sketch:
    """Writes that do no harm, to a leaf or to what an optimiser or a module keeps, change its card.

    Elsewhere a write puts another card beside it.
    """
    cards = {card.id: card for card in whole.cards}
    harm = {pill.id for pill in whole.pills if pill.harmful or pill.kind != "write"} | {m.target for m in whole.marks}
    before = {wire.target: wire.source for wire in whole.wires if wire.writes and wire.source in cards}
    now: dict[str, str] = {}
    for wire in whole.wires:
        old = before.get(wire.source, "")
        old = now.get(old, old)
        new = cards.get(wire.target)
        kept = new is not None and (new.kind == "leaf" or (new.kind == "plain" and new.tensor in unnamed))
        if wire.writes and new is not None and kept and old in cards and wire.source not in harm:
            now[new.id] = old
            del cards[new.id]
            cards[old] = _updated(cards[old], new)
    wires = [w for w in whole.wires if not (w.target in now and w.source in before)]
    return _replaced(whole, cards, [replace(w, source=now.get(w.source, w.source)) for w in wires], now)


def _updated(card: Card, new: Card) -> Card:
    """A card that shows what the next card of its tensor shows, from the step of the write on."""
    return replace(
        card,
        stale=new.stale,
        root=card.root or new.root,
        values=(*card.values, *new.values),
        versions=(*card.versions, *new.versions),
        gradients=tuple(dict((*card.gradients, *new.gradients)).items()),
        overwritten=(*card.overwritten, *new.overwritten),
        updated=(*card.updated, new.born, *new.updated),
        shares=(*card.shares, *new.shares),
    )


def _without_results(whole: Sketch, unnamed: set[int]) -> Sketch:
    """Results without a name, between one Function and the only one that uses it, become the line between the two."""
    into: dict[str, list[Wire]] = defaultdict(list)
    out: dict[str, list[Wire]] = defaultdict(list)
    for wire in whole.wires:
        into[wire.target].append(wire)
        out[wire.source].append(wire)
    pills = {pill.id for pill in whole.pills}
    kept = {mark.target for mark in whole.marks} | {whole.root}
    gone = {
        card.id: ""
        for card in whole.cards
        if card.tensor in unnamed and card.id not in kept and not into[card.id] and not out[card.id]
    }
    lines: dict[Wire, Wire | None] = {}
    for card in whole.cards:
        before, after = into[card.id], out[card.id]
        ends = [wire.source for wire in before] + [wire.target for wire in after]
        simple = len(before) == 1 and len(after) == 1 and pills.issuperset(ends)
        if simple and card.id not in kept and card.tensor in unnamed and _says_nothing(card):
            gone[card.id] = ends[0]
            lines[before[0]] = None
            one, two = lines.get(before[0]) or before[0], after[0]
            lines[two] = replace(two, source=one.source, pins=(*one.pins, *two.pins), label=one.label)
    wires = [line for wire in whole.wires if (line := lines.get(wire, wire)) is not None]
    return _replaced(whole, {card.id: card for card in whole.cards if card.id not in gone}, wires, gone)


def _says_nothing(card: Card) -> bool:
    """Is there nothing on the card that isn't seen elsewhere?"""
    plain = card.stale is None and not (card.hooks or card.written or card.overwritten or card.harmed or card.keeps)
    return plain and card.wrong_from is None and card.is_finite


def _replaced(whole: Sketch, cards: Mapping[str, Card], wires: Iterable[Wire], now: Mapping[str, str]) -> Sketch:
    """The Sketch with fewer cards; what was about one of them is about what stands for it now."""
    return replace(
        whole,
        cards=tuple(cards.values()),
        wires=tuple(wires),
        marks=tuple(replace(mark, target=now.get(mark.target, mark.target)) for mark in whole.marks),
        on=tuple(tuple(dict.fromkeys(filter(None, (now.get(part, part) for part in on)))) for on in whole.on),
        flows=tuple(
            dict.fromkeys(
                (step, a, b) for step, one, two in whole.flows if (a := now.get(one, one)) != (b := now.get(two, two))
            )
        ),
        root=now.get(whole.root, whole.root) if whole.root else None,
    )


def _loss(recording: Recording, cards: Mapping[str, Card], window: Steps) -> str | None:
    """The card on which the last backward call in here was made."""
    frames = [f for f in recording.frames[window.first : window.stop] if f.phase == "backward"]
    begins = [f for k, f in enumerate(frames) if not k or frames[k - 1].backward != f.backward]
    nodes = {node.id: node for node in recording.nodes}
    made = [nodes[f.running].outputs for f in begins[-1:] if f.running in nodes]
    return next((card.id for card in reversed([*cards.values()]) if made and card.tensor in made[0]), None)


def _cleared(recording: Recording, window: Steps) -> dict[int, int]:
    """Leaf → the last step before, after which its gradient was cleared."""
    uses = [use for use in recording.uses if use.kind == "cleared" and use.frame < window.first]
    return {leaf: use.frame for use in uses for leaf, _version in use.tensors}


def _card(card: Card, names: Mapping[str, str], window: Steps, loss: str | None, cleared: Mapping[int, int]) -> Card:
    fresh = window.holds(card.born)
    came = [entry for entry in card.gradients if entry[0] > cleared.get(card.tensor, -1)]
    return replace(
        card,
        id=names[card.id],
        born=window.moved(card.born),
        stale=window.later(card.stale),
        written=card.written and fresh,
        version_before=card.version_before if fresh else None,
        root=card.id == loss,
        values=window.timeline(card.values),
        summaries=window.timeline(card.summaries),
        versions=window.timeline(card.versions),
        gradients=window.timeline(tuple(came)),
        wrong_from=window.later(card.wrong_from),
        overwritten=window.steps(card.overwritten),
        shares=window.inside(card.shares),
        accumulates=window.later(card.accumulates),
        retained=window.later(card.retained),
        hooks=window.hooks(card.hooks),
        harmed=window.steps(card.harmed),
    )


def _pill(pill: Pill, names: Mapping[str, str], window: Steps, lap: int) -> Pill:
    return replace(
        pill,
        id=names[pill.id],
        born=window.moved(pill.born),
        runs=window.inside(pill.runs),
        laps=tuple((step, number - lap) for step, number in window.inside(pill.laps)),
        freed=window.later(pill.freed),
        hooks=window.hooks(pill.hooks),
    )


def _marks(marks: Iterable[Mark], names: Mapping[str, str], window: Steps) -> Iterable[Mark]:
    """What is found in here."""
    for mark in marks:
        if mark.target in names and window.holds(mark.since):
            yield replace(mark, target=names[mark.target], since=mark.since - window.first)
