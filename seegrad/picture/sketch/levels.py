"""A large Sketch → small ones, one for each nn.Module and one for what stands around them: pictures inside pictures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

from seegrad.model.recording import Recording
from seegrad.picture.sketch.desk import NAME_LONGEST, shorten
from seegrad.picture.sketch.parts import Bundle, Chip, ChipKind, Cluster, Mark, Sketch, StorageGroup, Wire
from seegrad.picture.sketch.tree import LEVEL, Group, Room, grow, in_chore, is_loading, ops

CHIP_LABELS = 3  # names on one chip; more of them are counted


@dataclass(frozen=True, slots=True)
class Level:
    """What is seen after opening one group; `about`: part → the steps that are about it."""

    id: str
    label: str
    parent: str | None
    sketch: Sketch
    about: dict[str, list[int]]


def collapse(recording: Recording, parts: Sketch, room: Room | None = None) -> tuple[Level, ...]:
    """The levels of a Sketch, the outermost first; one alone where it is small enough to be seen at once.

    What a loader does is a group however small the rest is: it may make dozens of views.

    `room`, of one pass: its update is a group however small it is.

    >>> [level.id for level in collapse(Recording(), Sketch())]
    ['']
    """
    whole = (Level("", "", None, parts, parts.about()),)
    few = len(parts.pills) <= LEVEL and room is None
    if few and not any(is_loading(recording, pill) for pill in parts.pills):
        return whole
    groups = grow(recording, parts, room or Room(modules=not few, updates=not few)).outermost_first()
    if len(groups) == 1:
        return whole
    table = _Table(parts, groups, _homes(parts, groups, once=room is not None), lines=room is None)
    for wire in parts.wires:
        table.put(wire)
    return tuple(map(table.level, groups))


def _path(group: Group | None) -> list[Group]:
    """From the outermost group to this one."""
    path = []
    while group is not None:
        path.append(group)
        group = group.parent
    return path[::-1]


def _together(groups: Iterable[Group]) -> Group | None:
    """The innermost group that holds them all."""
    shared: list[Group] | None = None
    for group in groups:
        path = _path(group)
        shared = path if shared is None else [a for a, b in zip(shared, path, strict=False) if a is b]
    return shared[-1] if shared else None


def _homes(parts: Sketch, groups: list[Group], *, once: bool) -> dict[str, Group]:
    """Part → its group. A result stands with the Function that made it, anything else with those that use it.

    `once`: a leaf that several groups use stands in the first of them.
    """
    home = {item: group for group in groups for item in group.items if isinstance(item, str)}
    pills = {pill.id for pill in parts.pills}
    users: dict[str, list[str]] = defaultdict(list)
    makers: dict[str, str] = {}
    for wire in parts.wires:
        users[wire.source].append(wire.target)
        makers.setdefault(wire.target, wire.source)
    uses: dict[str, list[Group]] = {}  # where its Functions stand, also those that use it by another card
    cards = sorted(parts.cards, key=lambda card: card.born)
    for card in reversed(cards):
        used = [home[user] for user in users[card.id] if user in home]
        uses[card.id] = [group for user in users[card.id] for group in uses.get(user, [home.get(user, groups[0])])]
        if card.kind == "leaf":
            used = [group for group in used if not in_chore(group)] or used  # a parameter stands with its module
            used = used[:1] if once else used
        home[card.id] = _together(used) or groups[0]
    for card in cards:
        maker = makers.get(card.id, "")
        if maker in pills and not card.root:
            home[card.id] = home[maker]
        elif maker in home and not uses[card.id]:
            home[card.id] = groups[0] if card.root else home[maker]
        elif maker in home:
            home[card.id] = _between(home[maker], groups[0] if card.root else home[card.id], uses[card.id])
    return home


def _between(made: Group, wanted: Group, uses: Iterable[Group]) -> Group:
    """The group nearest to `wanted` out of which no line leads that comes back: made in a box and used there again."""
    path = _path(made)
    again = {group for use in uses for group in _path(use)}
    return [group for group in path if group is wanted or group in again][-1] if wanted in path else wanted


class _Table:
    """Wires sorted into the levels in which they are seen."""

    def __init__(self, parts: Sketch, groups: list[Group], home: dict[str, Group], *, lines: bool) -> None:
        self.parts, self.groups, self.lines = parts, groups, lines
        self.paths = {name: _path(group) for name, group in home.items()}
        self.home = home
        self.boxes = {group.id for group in groups}
        self.labels = {card.id: card.full_name if card.kind == "leaf" else card.label for card in parts.cards}
        self.labels |= {pill.id: pill.label + pill.number for pill in parts.pills}
        self.leaves = {card.id for card in parts.cards if card.kind == "leaf"}
        self.detached = {wire.target for wire in parts.wires if wire.cut}
        self.wires: dict[str, dict[tuple[str, str, int], Wire]] = defaultdict(dict)
        self.chips: dict[str, dict[str, Chip]] = defaultdict(dict)
        self.flows: dict[str, list[tuple[int, str, str]]] = defaultdict(list)
        self.lit: dict[tuple[str, str], list[int]] = defaultdict(list)
        for step, source, target in parts.flows:
            self.lit[source, target].append(step)
        self.about = parts.about()
        self.seen = self._seen()
        self.pills = {pill.id: pill for pill in parts.pills}
        self.cards = {card.id: card for card in parts.cards}
        self.frozen: dict[str, list[bool]] = defaultdict(list)  # pill → of each leaf or Parameter that it uses
        for wire in parts.wires:
            card = self.cards.get(wire.source)
            if card is not None and (card.frozen or card.kind == "leaf"):
                self.frozen[wire.target].append(card.frozen)
        self.first_use: dict[tuple[str, str], str] = {}  # (level, leaf) → who is wired to it; others have a chip

    def put(self, wire: Wire) -> None:
        """Sort one wire in: as a line where both ends are seen, as a chip in the levels where only one is."""
        ours, theirs = self.paths[wire.source], self.paths[wire.target]
        depth = 0
        while depth < min(len(ours), len(theirs)) and ours[depth] is theirs[depth]:
            depth += 1
        level = ours[depth - 1]
        source = ours[depth].id if depth < len(ours) else wire.source
        target = theirs[depth].id if depth < len(theirs) else wire.target
        boxed = not self.lines and depth < len(ours)  # a leaf inside one box, used outside it
        chore = depth < len(theirs) and in_chore(theirs[depth])
        if wire.source in self.leaves and (
            boxed or chore or self.first_use.setdefault((level.id, wire.source), target) != target
        ):
            self._leaf_chip(level, wire, target)
        else:
            self._line(level, wire, source, target)
        if boxed and wire.source in self.leaves:
            ours = ours[:depth]  # no way out of its box: a chip stands for it where it is used
        for k in range(depth, len(ours)):  # levels that see only where it leaves
            inner = ours[k + 1].id if k + 1 < len(ours) else wire.source
            chip = f"o{ours[k].id}-{target}"
            label = theirs[depth].label if depth < len(theirs) else self.labels.get(target, target)
            self._chip(ours[k], chip, label, "out", wire.target, wire.born)
            self._line(ours[k], wire, inner, chip)
        for k in range(depth, len(theirs)):  # levels that see only where it arrives
            inner = theirs[k + 1].id if k + 1 < len(theirs) else wire.target
            if wire.source in self.leaves:
                self._leaf_chip(theirs[k], wire, inner)
                continue
            named = self._named(wire.source)
            chip = f"i{theirs[k].id}-{wire.source if named else source}"
            label = named or (ours[depth].label if depth < len(ours) else self.labels.get(source, source))
            self._chip(theirs[k], chip, label, "in", wire.source, wire.born)
            self._line(theirs[k], wire, chip, inner)

    def _named(self, part: str) -> str:
        """A tensor's own name, if it has one."""
        label = self.labels.get(part, "") if part.startswith("t") else ""
        return "" if label.startswith("(") else label

    def _leaf_chip(self, level: Group, wire: Wire, target: str) -> None:
        if level.chore and target in self.boxes:
            return  # it's called like the box
        chip = f"l{level.id}-{target}"
        self._chip(level, chip, self.labels[wire.source], "leaf", wire.source, wire.born)
        self._line(level, wire, chip, target)

    def _chip(self, level: Group, chip: str, label: str, kind: ChipKind, goes_to: str, born: int) -> None:
        known = self.chips[level.id].get(chip)
        if known is None:
            self.chips[level.id][chip] = Chip(chip, kind, (label,), goes_to, born)
        elif label not in known.labels:
            self.chips[level.id][chip] = replace(known, labels=(*known.labels, label), born=min(born, known.born))

    def _line(self, level: Group, wire: Wire, source: str, target: str) -> None:
        """Lines between the same two things are one line, except where a Function takes a tensor twice.

        A gradient comes back on it unless all of them are cut, there or just before, inside the box.
        """
        plain = source == wire.source and target == wire.target
        cut = wire.cut or (source != wire.source and wire.source in self.detached)
        lines = self.wires[level.id]
        key = (source, target, len(lines) if plain else -1)
        pins = wire.pins if (source if wire.kind == "out" else target).startswith("f") else ()
        if key not in lines:
            kind = wire.kind if plain or wire.kind != "alias" else "in"
            lines[key] = replace(wire, source=source, target=target, pins=pins, kind=kind, cut=cut)
        else:
            known = lines[key]
            pins = tuple(dict.fromkeys((*known.pins, *pins)))
            travels = tuple(dict.fromkeys((*known.travels, *wire.travels)))
            lines[key] = replace(known, pins=pins, cut=known.cut and cut, travels=travels)
        self.flows[level.id] += [(step, source, target) for step in self.lit.get((wire.source, wire.target), ())]

    def _seen(self) -> dict[str, dict[str, str]]:
        """Level → part → the part itself, or the box as which it is seen there."""
        seen: dict[str, dict[str, str]] = defaultdict(dict)
        for name, path in self.paths.items():
            for here, inner in zip(path, [*path[1:], None], strict=True):
                seen[here.id][name] = inner.id if inner else name
        return seen

    def level(self, group: Group) -> Level:
        """The Sketch of one level."""
        seen = self.seen[group.id]
        own = [name for name, rep in seen.items() if rep == name]
        inside = set(own)
        sketch = Sketch(
            cards=tuple(self.cards[name] for name in own if name in self.cards),
            pills=tuple(self.pills[name] for name in own if name in self.pills),
            wires=tuple(self.wires[group.id].values()),
            clusters=tuple(c for c in self._clusters(inside) if len(c.members) > 1),
            storages=tuple(s for s in self._storages(inside) if len(s.cards) > 1),
            marks=self._marks(seen),
            flows=tuple(dict.fromkeys(self.flows[group.id])),
            root=self.parts.root if self.parts.root in inside else None,
            bundles=tuple(map(self._bundle, group.groups())),
            chips=tuple(map(_short, self.chips[group.id].values())),
        )
        about: dict[str, list[int]] = defaultdict(list)
        for name, rep in seen.items():
            if name in self.about:
                about[rep] += self.about[name]
        return Level(group.id, group.label, group.parent.id if group.parent else None, sketch, dict(about))

    def _clusters(self, inside: set[str]) -> list[Cluster]:
        return [
            replace(cluster, members=tuple(name for name in cluster.members if name in inside))
            for cluster in self.parts.clusters
            if cluster.members[0] in inside
        ]

    def _storages(self, inside: set[str]) -> list[StorageGroup]:
        return [replace(s, cards=tuple(name for name in s.cards if name in inside)) for s in self.parts.storages]

    def _bundle(self, group: Group) -> Bundle:
        inside = [self.pills[name] for name in self.seen[group.id] if name in self.pills]
        pills = [pill for pill in inside if pill.kind == "node"]
        ran = sorted(min(step for step, _ in pill.runs) for pill in pills if pill.runs)
        counts = tuple({step: k + 1 for k, step in enumerate(ran)}.items())
        freed = [pill.freed for pill in pills]
        gone = None if None in freed else max((step for step in freed if step is not None), default=None)
        chore = group.chore or ("" if pills and not in_chore(group) else ops(len(inside)))
        return Bundle(
            group.id,
            group.label,
            len(pills),
            min(pill.born for pill in inside),
            counts,
            gone,
            chore,
            group.loose,
            due=sum(pill.due for pill in pills),
            off=not pills and not in_chore(group),
            frozen={True} == {frozen for pill in inside for frozen in self.frozen[pill.id]},
        )

    def _marks(self, seen: dict[str, str]) -> tuple[Mark, ...]:
        """A mark on something inside a box is seen on the box; the first one wins."""
        marks: dict[str, Mark] = {}
        for mark in self.parts.marks:
            if mark.target in seen:
                marks.setdefault(seen[mark.target], replace(mark, target=seen[mark.target]))
        return tuple(marks.values())


def _short(chip: Chip) -> Chip:
    """At most a few names on one chip, none of them long."""
    more = len(chip.labels) - CHIP_LABELS
    said = tuple(shorten(label, NAME_LONGEST) if chip.kind == "leaf" else label for label in chip.labels)
    return replace(chip, labels=said if more <= 1 else (*said[:CHIP_LABELS], f"+{more}"))
