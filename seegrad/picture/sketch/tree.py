"""Which Functions stand together: those of one module, else those of one op, one pass of a loop, or one stretch.

What gives parameters their first values, an optimiser's step, and a loader's batch stand together before all that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from itertools import chain, groupby

from seegrad.model.recording import LOADER, Place, Recording
from seegrad.picture.sketch.desk import NAME_LONGEST, shorten, shorten_code
from seegrad.picture.sketch.parts import Pill, Sketch, Wire
from seegrad.words.languages import _, counted

LEVEL = 36  # things that are seen at once: more of them are grouped, in a level once more
STRETCH = 12  # things in one group that only their neighbourhood holds together
CHORE_MOST = 20  # writes, each with its parameter, that are seen at once
OP = 4  # Functions of one op that are worth a group of their own
CHORE = 2  # writes and ops without a Function that are worth a group of their own
CODE_LONGEST = 30
PER_LEAF = 12  # of them: more are grouped by the parameter that they write to
TOLD = 3  # different signs of a stretch that are told, all of them
LAYOUT = frozenset(
    {"ᵀ", "view", "[i]", "[:]", "[…]", "clone", "copy", "to", "expand", "squeeze", "unsqueeze", "reshape_alias"}
    | {"split", "unsafe_split", "split_with_sizes", "unbind", "detach", "alias", "contiguous"}
)
"""Signs of what gives numbers another order or shape, and computes none: no stretch is called so if it does more."""

BULK = 0.6  # of all Functions: a group that holds them is opened from the start


@dataclass(frozen=True, slots=True)
class Room:
    """How much is seen at once: `most` things, modules as groups or not.

    `homes`: a module with parameters is a group even if it is one Function, so that they stand in it. `deep`: a list
    of modules is a group, and so is a line of code. `updates`: so are writes to parameters. `crowded`: had no room.
    """

    most: int = LEVEL
    modules: bool = True
    homes: bool = False
    deep: bool = False
    updates: bool = True
    crowded: frozenset[frozenset[str]] = frozenset()


@dataclass(eq=False)
class Group:
    """One group. `items` are Functions' ids and Groups in the order in which they were made.

    `chore`: what is said of a group that makes no Function, such as an optimiser's step. `loose`: only their
    neighbourhood holds its items together. `name`: its label without what tells it from others of that name.
    """

    label: str
    parent: Group | None = None
    items: list[str | Group] = field(default_factory=list)
    id: str = ""
    chore: str = ""
    loose: bool = False
    name: str = ""

    def __post_init__(self) -> None:
        self.name = self.name or self.label

    def groups(self) -> list[Group]:
        """Its groups."""
        return [item for item in self.items if isinstance(item, Group)]

    def outermost_first(self) -> list[Group]:
        """Itself and all groups inside it, in the order of the picture."""
        order = [self]
        for group in order:
            order.extend(group.groups())
        return order


def grow(recording: Recording, parts: Sketch, room: Room) -> Group:
    """The tree of groups, outermost first.

    What stands between the writes of a chore may need what they wrote, and they what it made: where lines would run in
    a circle by that, the writes stand for themselves.
    """
    order = sorted(parts.pills, key=lambda pill: pill.born)
    chores = _loads(recording, order) | (_chores(recording, parts, order) if room.updates else {})
    root = _grown(recording, parts, room, order, chores)
    if chores and _runs_in_a_circle(root, parts.wires):
        root = _grown(recording, parts, room, order, {})
    _number(root)
    return root


def _grown(recording: Recording, parts: Sketch, room: Room, order: Sequence[Pill], chores: dict[str, Group]) -> Group:
    root = _by_module(recording, order, chores, room, _variables(recording, parts))
    loads = frozenset(pill.id for pill in order if is_loading(recording, pill))
    _dissolve(root, loads | (_users_of_leaves(parts) if room.homes else frozenset()))
    if not room.deep:
        _open_bulk(root, len(order) - len(chores), room.most)
    pills = {pill.id: pill for pill in order}
    waiting = [root]
    while waiting:
        group = waiting.pop()
        if len(group.items) > _most(group, room):
            _split(group, recording, pills, room)
        waiting.extend(group.groups())
    return root


def _runs_in_a_circle(root: Group, wires: Sequence[Wire]) -> bool:
    """Would a line lead from one of its groups back to it? A result stands with what made it."""
    owner: dict[str, str] = {}
    for number, group in enumerate(root.groups()):
        for inner in group.outermost_first():
            owner |= {item: f"group {number}" for item in inner.items if isinstance(item, str)}
    before: dict[str, set[str]] = {}
    for wire in sorted(wires, key=lambda wire: wire.born):
        source = owner.get(wire.source, wire.source)
        target = owner.setdefault(wire.target, source) if wire.kind != "in" else owner.get(wire.target, wire.target)
        if source != target:
            before.setdefault(target, set()).add(source)
    try:
        TopologicalSorter(before).prepare()
    except CycleError:
        return True
    return False


def _most(group: Group, room: Room) -> int:
    """How many things may stand in it. No line joins the writes of a chore, and each stands with its parameter."""
    own = frozenset(item for item in group.items if isinstance(item, str))
    if own in room.crowded:
        return max(2, len(own) // 2)  # of two no group can be made that shows less
    return CHORE_MOST if in_chore(group) and not group.groups() else room.most


def in_chore(group: Group | None) -> bool:
    """Is it a chore, or a part of one?"""
    while group is not None and not group.chore:
        group = group.parent
    return group is not None


def ops(count: int) -> str:
    """`1 op`, `12 ops`: what makes no Function."""
    return counted("{count} op", "{count} ops", count).format(count=count)


def module_keys(path: str, deep: bool = False) -> tuple[str, ...]:
    """A module's path in steps; the number of a list's member stays with the list, which is a step itself if `deep`.

    >>> module_keys("model.layers.3.linear1")
    ('model', 'layers.3', 'linear1')
    >>> module_keys("model.0", deep=True)
    ('model', 'model.0')
    """
    keys: list[str] = []
    for name in filter(None, path.split(".")):
        if name.isdigit() and keys:
            keys[len(keys) - (not deep) :] = [f"{keys[-1]}.{name}"]
        else:
            keys.append(name)
    return tuple(keys)


def _chores(recording: Recording, parts: Sketch, order: Sequence[Pill]) -> dict[str, Group]:
    """Pill → its group, of the writes to parameters by which they are initialised or updated, and the ops for these."""
    leaves = {card.id: card.full_name for card in parts.cards if card.kind == "leaf"}
    written = {wire.target: leaves[wire.source] for wire in parts.wires if wire.writes and wire.source in leaves}
    given = {wire.target: leaves[wire.source] for wire in parts.wires if wire.source in leaves}
    found: dict[str, Group] = {}
    for plain, together in groupby(order, key=lambda pill: pill.kind != "node"):
        run = list(together)
        lines = {_place(recording, pill) for pill in run if pill.id in written}
        run = [pill for pill in run if plain and _place(recording, pill) in lines]
        if len(run) >= CHORE:
            names = dict.fromkeys(written[pill.id] for pill in run if pill.id in written)
            said = counted("{count} parameter", "{count} parameters", len(names)).format(count=len(names))
            group = Group(_chore_label(recording, run), items=_per_leaf(run, written, given), chore=said)
            found |= {pill.id: group for pill in run}
    return found


def _loads(recording: Recording, order: Sequence[Pill]) -> dict[str, Group]:
    """What a loader does for one batch; what of it has a Function belongs to the graph."""
    parted = groupby(order, lambda pill: is_loading(recording, pill))
    runs = [[pill.id for pill in together] for loads, together in parted if loads]
    return {name: group for run in runs for group in [Group(LOADER, items=[*run], chore=ops(len(run)))] for name in run}


def is_loading(recording: Recording, pill: Pill) -> bool:
    """Does a loader do this, and autograd record nothing?"""
    return pill.kind != "node" and recording.frames[pill.born].module == LOADER


def _place(recording: Recording, pill: Pill) -> Place | None:
    return recording.frames[pill.born].place


def _chore_label(recording: Recording, run: Sequence[Pill]) -> str:
    """The line of an optimiser's step; before any backward call parameters get their first values."""
    if not any(frame.phase == "backward" for frame in recording.frames[: run[0].born]):
        return _("initialisation")
    places = {_place(recording, pill) for pill in run}
    place = places.pop()
    return _("update") if places or place is None else shorten_code(place.code.strip(), NAME_LONGEST)


def _per_leaf(run: Sequence[Pill], written: dict[str, str], given: dict[str, str]) -> list[str | Group]:
    """What is done for one parameter, in one stretch: with it, or before the next write to one.

    What one op does for several parameters at once is none's alone.
    """
    if len(run) <= PER_LEAF:
        return [pill.id for pill in run]
    at_once = Counter(pill.born for pill in run)
    groups: list[Group] = []
    waiting: list[str | Group] = []
    last = ""  # for whom the newest of the groups is
    for pill in run:
        waiting.append(pill.id)
        name = "" if at_once[pill.born] > 1 else written.get(pill.id) or given.get(pill.id)
        if name is not None:
            if name != last or not groups:
                groups.append(Group(shorten(name, NAME_LONGEST)))
            groups[-1].items.extend(waiting)
            waiting, last = [], name
    for group in groups:
        group.chore = ops(len(group.items))
    _tell_apart([group for group in groups if group.label])
    parted = [[group] if group.label and len(group.items) > 1 else group.items for group in groups]
    return [*chain.from_iterable(parted), *waiting]


def _by_module(
    recording: Recording, order: Sequence[Pill], chores: dict[str, Group], room: Room, variables: dict[str, str]
) -> Group:
    """A module's group lasts as long as nothing outside it runs: a call after that makes another group."""
    root = Group("")
    stack: list[_ModuleCalls] = []
    calls: Counter[tuple[str, ...]] = Counter()
    for pill in order:
        chore = chores.get(pill.id)
        if chore is not None:
            stack.clear()
            if chore not in root.groups():
                root.items.append(chore)
                _adopt(root, chore)
            continue
        first, dot, inner = recording.frames[pill.born].module.partition(".")
        keys = module_keys(variables.get(first, first) + dot + inner if room.modules else "", room.deep)
        shared = 0
        while shared < min(len(keys), len(stack)) and stack[shared].key == keys[shared]:
            shared += 1
        if 0 < shared < min(len(keys), len(stack)) and stack[shared - 1].begins_anew(keys[shared]):
            calls[keys[:shared]] += 1
            stack[shared - 1].label(calls[keys[:shared]])
        del stack[shared:]
        for depth in range(shared, len(keys)):
            calls[keys[: depth + 1]] += 1
            above = stack[-1].group if stack else root
            if stack:
                stack[-1].inner = stack[-1].inner or keys[depth]
            group = Group(keys[depth], above)
            above.items.append(group)
            stack.append(_ModuleCalls(keys[depth], group, calls[keys[: depth + 1]]))
            stack[-1].label(stack[-1].first)
        (stack[-1].group if stack else root).items.append(pill.id)
    return root


@dataclass(slots=True)
class _ModuleCalls:
    """A module that is being called, perhaps not for the first time in its group. `inner`: which of its own ran first.

    What holds its own by number runs them in order, `nn.Sequential`: where it's the first one's turn again, it was
    called anew.
    """

    key: str
    group: Group
    first: int
    inner: str = ""

    def begins_anew(self, inner: str) -> bool:
        """Does it, where after another of its own this one runs?"""
        return inner == self.inner and inner.removeprefix(f"{self.key}.").isdigit()

    def label(self, last: int) -> None:
        """Say which calls of the module the group holds."""
        said = _("{module}, call {number}") if self.first == last else _("{module}, calls {number}–{last}")
        told = said.format(module=self.key, number=self.first, last=last)
        self.group.label = self.key if self.first == last == 1 else told


def _adopt(above: Group, group: Group) -> None:
    group.parent = above
    for inner in group.groups():
        inner.parent = group


def _users_of_leaves(parts: Sketch) -> frozenset[str]:
    leaves = {card.id for card in parts.cards if card.kind == "leaf"}
    return frozenset(wire.target for wire in parts.wires if wire.source in leaves)


def _dissolve(root: Group, kept: frozenset[str]) -> None:
    """A group of one thing is that thing, except where it's one of these; innermost groups first."""
    for group in reversed(root.outermost_first()):
        if group.parent is not None and len(group.items) == 1 and group.items[0] not in kept:
            _replace(group, group.items)


def _replace(group: Group, items: Sequence[str | Group]) -> None:
    """Put a group's own things where it stood."""
    above = group.parent
    if above is None:
        return
    for item in items:
        if isinstance(item, Group):
            if not item.label.startswith(group.label) and len(group.items) == 1:
                item.label, item.name = f"{group.label}.{item.label}", f"{group.name}.{item.name}"
            item.parent = above
    at = next(k for k, item in enumerate(above.items) if item is group)
    above.items[at : at + 1] = items


def _variables(recording: Recording, parts: Sketch) -> dict[str, str]:
    """Class → variable, of modules that were called before their variable was known: their parameters tell it."""
    modules = {pill.id: recording.frames[pill.born].module.split(".") for pill in parts.pills}
    names = {card.id: card.full_name.split(".")[:-1] for card in parts.cards if card.kind == "leaf"}
    found: dict[str, set[str]] = {}
    for wire in parts.wires:
        path, name = modules.get(wire.target), names.get(wire.source)
        if path and path[0] and name and path[0] != name[0] and path[1:] == name[1:]:
            found.setdefault(path[0], set()).add(name[0])
    return {path: next(iter(known)) for path, known in found.items() if len(known) == 1}


def _open_bulk(root: Group, total: int, most: int) -> None:
    """A first look that shows one single box tells nothing: such a box is opened."""
    while True:
        bulk = [group for group in root.groups() if not group.chore and _size(group) > BULK * total]
        if not bulk or len(root.items) - 1 + len(bulk[0].items) > most:
            return
        _replace(bulk[0], bulk[0].items)


def _size(group: Group) -> int:
    return sum(len(each.items) for each in group.outermost_first())


def _split(group: Group, recording: Recording, pills: dict[str, Pill], room: Room) -> None:
    """Fewer things in a group: by op, by pass of a loop, and last by neighbourhood, until they can be seen at once."""

    def born(item: str | Group) -> int:
        while isinstance(item, Group):
            item = item.items[0]
        return pills[item].born

    def op(items: Sequence[str | Group]) -> str:
        earlier = isinstance(items[0], str) and items[0][1] == "x"  # as an excerpt names what it didn't see made
        return _("from before") if earlier else recording.frames[born(items[0])].op

    _gather(group, _stretches(group.items, born, OP), op)
    _tell_apart(group.groups())
    if len(group.items) > room.most and room.deep and not group.chore:
        lines = [list(run) for _place, run in groupby(group.items, lambda item: _line(recording, born(item)))]
        _gather(group, lines, lambda run: _code(recording, born(run[0])))
    if len(group.items) > room.most:
        passes = _passes(group.items, recording, born)
        number = {id(run): k + 1 for k, run in enumerate(passes)}
        _gather(group, passes, lambda run: _pass_label(run, number[id(run)], recording, born))
    while len(group.items) > _most(group, room):
        size = min(STRETCH, _most(group, room))
        size = -(-len(group.items) // -(-len(group.items) // size))
        runs = [group.items[k : k + size] for k in range(0, len(group.items), size)]
        _gather(group, runs, _stretch_label(group.items, pills))
        for inner in group.groups():
            inner.loose = True
    _tell_apart([inner for inner in group.groups() if inner.loose])


def _tell_apart(groups: Sequence[Group]) -> None:
    """Groups of one name are numbered."""
    many = Counter(group.label for group in groups)
    seen: Counter[str] = Counter()
    for group in groups:
        label = group.label
        seen[label] += 1
        if many[label] > 1:
            group.label = _("{name} {number}").format(name=label, number=seen[label])


def _gather(group: Group, runs: Sequence[Sequence[str | Group]], label: Callable[[Sequence[str | Group]], str]) -> None:
    items: list[str | Group] = []
    for run in runs:
        if len(run) == 1:
            items.append(run[0])
            continue
        inner = Group(label(run), group, list(run))
        for item in run:
            if isinstance(item, Group):
                item.parent = inner
        items.append(inner)
    if len(items) > 1:
        group.items = items
        for item in items:
            if isinstance(item, Group):
                item.parent = group


def _stretches(
    items: Sequence[str | Group], born: Callable[[str | Group], int], least: int
) -> list[Sequence[str | Group]]:
    """Functions that one op made stand together where they are many."""
    runs: list[Sequence[str | Group]] = []
    for _step, same in groupby(items, key=born):
        run = list(same)
        runs += [run] if len(run) >= least else [[item] for item in run]
    return runs


def _line(recording: Recording, step: int) -> int:
    place = recording.frames[step].place
    return place.line if place is not None else 0


def _code(recording: Recording, step: int) -> str:
    place = recording.frames[step].place
    return shorten_code(place.code.strip(), CODE_LONGEST) if place is not None else ""


def _passes(
    items: Sequence[str | Group], recording: Recording, born: Callable[[str | Group], int]
) -> list[Sequence[str | Group]]:
    """A loop begins anew where the code jumps back, or where one line alone is repeated."""
    runs: list[list[str | Group]] = []
    before = (-1, -1)
    for item in items:
        step = born(item)
        line = _line(recording, step)
        if not runs or line < before[1]:
            runs.append([])
        runs[-1].append(item)
        before = (step, line)
    useful = 2 < len(runs) <= len(items) / 2
    return [*runs] if useful else [[item] for item in items]


def _pass_label(
    items: Sequence[str | Group], number: int, recording: Recording, born: Callable[[str | Group], int]
) -> str:
    first, last = (_line(recording, born(item)) for item in (items[0], items[-1]))
    return _("pass {number} through lines {first}–{last}").format(first=first, last=last, number=number)


def _stretch_label(all_items: Sequence[str | Group], pills: dict[str, Pill]) -> Callable[[Sequence[str | Group]], str]:
    """`cell 12–22` where all have the same name, else what they compute: `@ … softmax`."""
    place = {id(item) if isinstance(item, Group) else item: k + 1 for k, item in enumerate(all_items)}

    def label(run: Sequence[str | Group]) -> str:
        first, last = (place[id(item) if isinstance(item, Group) else item] for item in (run[0], run[-1]))
        names = {item.name for item in run if isinstance(item, Group)}
        if len(names) == 1 and all(isinstance(item, Group) for item in run):
            return _("{name} {first}–{last}").format(name=names.pop(), first=first, last=last)
        return _from_to(run, pills)

    return label


def _from_to(run: Sequence[str | Group], pills: dict[str, Pill]) -> str:
    """What a stretch computes: all of it where that is little, else the first and the last."""
    said = list(dict.fromkeys(chain.from_iterable(_signs(item, pills) for item in run)))
    telling = [each for each in said if each not in LAYOUT] or said
    few = len(telling) <= TOLD
    return shorten(", ".join(telling) if few else f"{telling[0]} … {telling[-1]}", CODE_LONGEST)


def _signs(item: str | Group, pills: dict[str, Pill]) -> Iterator[str]:
    """The signs of what stands in a stretch; a group of one name is called by that."""
    waiting = [item]
    while waiting:
        here = waiting.pop()
        if isinstance(here, str):
            yield pills[here].symbol
        elif here.loose:
            waiting += reversed(here.items)
        else:
            yield here.name


def _number(root: Group) -> None:
    """Ids in the order of the picture, outermost first; the root's is empty."""
    for number, group in enumerate(root.outermost_first()):
        group.id = f"m{number}" if number else ""
