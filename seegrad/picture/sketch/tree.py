"""Which Functions stand together: those of one module, else those of one op, one pass of a loop, or one stretch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from seegrad.model.recording import Recording
from seegrad.picture.sketch.parts import Pill, Sketch
from seegrad.words.languages import _

LEVEL = 36  # things that are seen at once: more of them are grouped, in a level once more
STRETCH = 12  # things in one group that only their neighbourhood holds together
OP = 4  # Functions of one op that are worth a group of their own
BULK = 0.6  # of all Functions: a group that holds them is opened from the start


@dataclass
class Group:
    """One group. `items` are Functions' ids and Groups in the order in which they were made."""

    label: str
    parent: Group | None = None
    items: list[str | Group] = field(default_factory=list)
    id: str = ""

    def groups(self) -> list[Group]:
        """Its groups."""
        return [item for item in self.items if isinstance(item, Group)]

    def outermost_first(self) -> list[Group]:
        """Itself and all groups inside it, in the order of the picture."""
        order = [self]
        for group in order:
            order.extend(group.groups())
        return order


def grow(recording: Recording, parts: Sketch) -> Group:
    """The tree of groups, outermost first."""
    pills = {pill.id: pill for pill in parts.pills}
    order = sorted(pills.values(), key=lambda pill: pill.born)
    root = _by_module(recording, order)
    _dissolve(root)
    _open_bulk(root, len(pills))
    waiting = [root]
    while waiting:
        group = waiting.pop()
        if len(group.items) > LEVEL:
            _split(group, recording, pills)
        waiting.extend(group.groups())
    _number(root)
    return root


def module_keys(path: str) -> tuple[str, ...]:
    """A module's path in steps; the number of a list's member stays with the list.

    >>> module_keys("model.layers.3.linear1")
    ('model', 'layers.3', 'linear1')
    """
    keys: list[str] = []
    for name in filter(None, path.split(".")):
        if name.isdigit() and keys:
            keys[-1] += f".{name}"
        else:
            keys.append(name)
    return tuple(keys)


def _by_module(recording: Recording, order: Sequence[Pill]) -> Group:
    """A module's group lasts as long as nothing outside it runs: a second call makes a second group."""
    root = Group("")
    stack: list[tuple[str, Group]] = []
    calls: Counter[tuple[str, ...]] = Counter()
    for pill in order:
        keys = module_keys(recording.frames[pill.born].module)
        shared = 0
        while shared < min(len(keys), len(stack)) and stack[shared][0] == keys[shared]:
            shared += 1
        del stack[shared:]
        for depth in range(shared, len(keys)):
            calls[keys[: depth + 1]] += 1
            call = calls[keys[: depth + 1]]
            label = keys[depth] if call == 1 else _("{module}, call {number}").format(module=keys[depth], number=call)
            above = stack[-1][1] if stack else root
            group = Group(label, above)
            above.items.append(group)
            stack.append((keys[depth], group))
        (stack[-1][1] if stack else root).items.append(pill.id)
    return root


def _dissolve(root: Group) -> None:
    """A group of one thing is that thing; innermost groups first."""
    for group in reversed(root.outermost_first()):
        if group.parent is not None and len(group.items) == 1:
            _replace(group, group.items)


def _replace(group: Group, items: Sequence[str | Group]) -> None:
    """Put a group's own things where it stood."""
    above = group.parent
    if above is None:
        return
    for item in items:
        if isinstance(item, Group):
            if not item.label.startswith(group.label):
                item.label = f"{group.label}.{item.label}" if len(group.items) == 1 else item.label
            item.parent = above
    at = next(k for k, item in enumerate(above.items) if item is group)
    above.items[at : at + 1] = items


def _open_bulk(root: Group, total: int) -> None:
    """A first look that shows one single box tells nothing: such a box is opened."""
    while True:
        bulk = [group for group in root.groups() if _size(group) > BULK * total]
        if not bulk or len(root.items) - 1 + len(bulk[0].items) > LEVEL:
            return
        _replace(bulk[0], bulk[0].items)


def _size(group: Group) -> int:
    return sum(len(each.items) for each in group.outermost_first())


def _split(group: Group, recording: Recording, pills: dict[str, Pill]) -> None:
    """Fewer things in a group: by op, by pass of a loop, and last by neighbourhood, until they can be seen at once."""

    def born(item: str | Group) -> int:
        while isinstance(item, Group):
            item = item.items[0]
        return pills[item].born

    def op(items: Sequence[str | Group]) -> str:
        return recording.frames[born(items[0])].op

    _gather(group, _stretches(group.items, born, OP), op)
    _tell_apart(group.groups())
    if len(group.items) > LEVEL:
        passes = _passes(group.items, recording, born)
        number = {id(run): k + 1 for k, run in enumerate(passes)}
        _gather(group, passes, lambda run: _pass_label(run, number[id(run)], recording, born))
    while len(group.items) > LEVEL:
        size = -(-len(group.items) // -(-len(group.items) // STRETCH))
        runs = [group.items[k : k + size] for k in range(0, len(group.items), size)]
        _gather(group, runs, _stretch_label(group.items))


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
    return _("lines {first}–{last}, pass {number}").format(first=first, last=last, number=number)


def _stretch_label(all_items: Sequence[str | Group]) -> Callable[[Sequence[str | Group]], str]:
    """`cell 12–22` where all have the same name, else how many they are."""
    place = {id(item) if isinstance(item, Group) else item: k + 1 for k, item in enumerate(all_items)}

    def label(run: Sequence[str | Group]) -> str:
        first, last = (place[id(item) if isinstance(item, Group) else item] for item in (run[0], run[-1]))
        names = {item.label.split(" ")[0].split(",")[0] for item in run if isinstance(item, Group)}
        name = names.pop() if len(names) == 1 and all(isinstance(item, Group) for item in run) else _("part")
        return _("{name} {first}–{last}").format(name=name, first=first, last=last)

    return label


def _number(root: Group) -> None:
    """Ids in the order of the picture, outermost first; the root's is empty."""
    for number, group in enumerate(root.outermost_first()):
        group.id = f"m{number}" if number else ""
