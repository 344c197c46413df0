"""In the judge: what a student's function has changed of what a test passed to it, and how that is undone.

A test sees such a change, as in ordinary Python. So it may also compute what it expects from an argument that the
answer has made to suit itself; a question is therefore asked again with clones of what the reference leaves alone.
A *place* is where something was passed: `"fit.0"` is the first argument of the asked `fit`.
"""

from __future__ import annotations

import collections
import contextlib
import copy
import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from nbjudge.bridge.around.parts import Part
from nbjudge.bridge.values import generators, streams
from nbjudge.bridge.values.arrays import is_mixed
from nbjudge.bridge.values.memories import Extent, address, flat_of, plain, write
from nbjudge.bridge.values.packages import masked, pictures, symbols
from nbjudge.bridge.values.records import is_record
from nbjudge.bridge.values.standard import instances
from nbjudge.bridge.values.table import STORAGE_BYTES, is_watched, package_of

GRAD = ".grad"  # what part of an argument changes: its gradient
LATER = "after the call"  # something that isn't an argument of a call that is going on; behind where it first was one
CONTAINERS = (list, dict, set, tuple, frozenset, collections.deque, collections.UserList, collections.UserDict)
PLAIN = frozenset({int, float, str, bool, type(None)})


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that the other side has changed in place, noted before the change is taken over here."""

    key: Hashable
    undo: Callable[[], None]
    ours: bool  # did the judge bring it in?
    is_one: Callable[[], bool] = lambda: True  # once it was taken over: a file that was only read has not changed


@dataclass(frozen=True, slots=True)
class Passed:
    """The arguments of a call, by place, and in which places a clone was passed."""

    values: Mapping[str, Any]
    cloned: frozenset[str] = frozenset()


class Effects:
    """Those of one question. With `kept` places all other arguments are kept from the student: clones are passed."""

    def __init__(self, parts: Mapping[str, Part], came: Callable[[tuple[str, ...], Any], None]) -> None:
        self.places: set[str] = set()
        self._came = came  # told of what an argument has become
        self._parts = parts
        self._kept: frozenset[str] | None = None
        self._names: dict[int, str] = {}
        self._calls: list[Passed] = []  # that are going on
        self._clones: dict[Hashable, Any] = {}
        self._live: set[Hashable] = set()  # what came back and isn't a copy, while it ought to be one
        self._first: dict[
            Hashable, tuple[str, Any]
        ] = {}  # where each thing was first passed; kept alive: an id() is a key
        self._new: list[Change] = []
        self._all: list[tuple[str, Callable[[], None]]] = []  # where each was, and how it is undone

    def begin(self, kept: Iterable[str] | None = None) -> None:
        """A new question, or the same once more with clones of all but what stands in the `kept` places."""
        self._kept = None if kept is None else frozenset(kept)
        self.places.clear()
        self._clones.clear()
        self._live.clear()
        self._first.clear()
        self._new.clear()
        self._all.clear()

    def name(self, found: Mapping[str, Any]) -> None:
        """What was asked for by name, so that a place can be called by it."""
        self._names = {id(value): name for name, value in found.items()}

    def undo(self, but: Iterable[str] = ()) -> None:
        """Give everything that was passed the values that it had, `but` for what was changed in these places."""
        self.settle()  # what came with a packet that couldn't be read to its end
        left = frozenset(but)
        for place, undo in reversed(self._all):
            if place not in left:
                undo()
        self._all.clear()

    # ------------------------------------------------------------------ what is told of

    def may_change(self, place: str, undo: Callable[[], None]) -> bool:
        """What lies at this place, and isn't passed, is about to be changed as it was over there: is it, here?"""
        self.places.add(place)
        if self._kept is None:
            self._all.append((place, undo))
        return self._kept is None or place in self._kept

    def came(self, place: str, value: Any) -> None:
        """The other side has brought this of itself."""
        self._came((place,), value)

    def note(self, key: Hashable, undo: Callable[[], None], *, ours: bool) -> None:
        """Something that is known by `key` is about to be changed here as it was over there."""
        self._new.append(Change(key, undo, ours))

    def note_container(self, value: Any, known_as: Any, ours: bool) -> None:
        """The same of a list, dict, set, array or picture; a view that came back is known as the array it is one of."""
        is_odd = generators.is_generator(value) or streams.is_stream(value) or masked.is_masked_array(value)
        if instances.is_instance(value):
            before: Any = instances.state_of(value)
        else:
            before = _array_clone(value) if is_odd else value.copy()
        change = Change(id(known_as), lambda: _refill(value, before), ours)
        if streams.is_stream(value):
            change = replace(change, is_one=lambda: streams.content(value) != streams.content(before))
        self._new.append(change)

    def settle(self) -> None:
        """All that was noted has been taken over: find its place, and undo it where it is kept away."""
        if not self._new:
            return
        new, self._new = self._new, []
        places = {key: place for passed in self._calls for key, place in self._listed(passed.values)}
        clones = {key for passed in self._calls for key in self._of_clones(passed)} | self._clones.keys()
        told = dict[str, None]()  # a list of which each item has changed is told once
        for change in (change for change in new if change.is_one()):
            place = places.get(change.key) or self._later(change.key)
            self.places.add(place)
            if self._kept is None:
                self._all += [(place, change.undo)] if change.ours else []
            elif place not in self._kept and change.key not in clones:
                if change.ours or change.key in places or change.key in self._live:  # a copy stays as it came
                    change.undo()
                continue
            told[place] = None
        for place, passed in itertools.product(told, self._calls):
            self._tell(place, passed.values)

    def _tell(self, place: str, given: Mapping[str, Any]) -> None:
        """What an argument has become, or its gradient."""
        if place in given:
            self.came(place, given[place])
        elif (of := place.removesuffix(GRAD)) in given and of != place:
            self.came(place, getattr(given[of], GRAD[1:], None))

    def _remember(self, given: Mapping[str, Any]) -> None:
        """A container is kept alive, for its key is an id(); a tensor has a number, and may go."""
        for place, value in given.items():
            for item in held(value):
                if type(item) in PLAIN:
                    continue
                if _inside(item) is not None or _is_copied(item) or generators.is_generator(item):
                    self._first.setdefault(id(item), (place, item))
                for part in self._parts.values():
                    for key, look in part.keys(item):
                        self._first.setdefault(key, (place + look, None))

    def _later(self, key: Hashable) -> str:
        return f"{self._first[key][0]} {LATER}" if key in self._first else LATER

    def _listed(self, given: Mapping[str, Any]) -> Iterator[tuple[Hashable, str]]:
        for place, value in given.items():
            for key, look in self._keys(value):
                yield key, place + look

    def _of_clones(self, passed: Passed) -> set[Hashable]:
        return {key for place in passed.cloned for key, _ in self._keys(passed.values[place])}

    def _keys(self, value: Any) -> Iterator[tuple[Hashable, str]]:
        """What changes of a value, and of all that it holds, are known by; beside it what they are a change of."""
        for item in held(value):
            yield id(item), ""
            for part in self._parts.values():
                yield from part.keys(item)

    # ------------------------------------------------------------------ what is passed

    @contextlib.contextmanager
    def passing(self, called: str, args: tuple[Any, ...], named: Mapping[str, Any]) -> Iterator[Any]:
        """Meanwhile these arguments are passed; yields what is passed in their place."""
        given = {f"{called}.{where}": value for where, value in (*enumerate(args), *named.items())}
        passed = Passed(given) if self._kept is None else self._cloned(given, self._kept)
        self._calls.append(passed)
        self._remember(given)
        try:
            values = list(passed.values.values())
            yield tuple(values[: len(args)]), dict(zip(named, values[len(args) :], strict=True))
        finally:
            self._remember(given)  # a tensor has its number now
            self._calls.pop()
            self._clones |= dict.fromkeys(self._of_clones(passed), passed)  # kept alive: a key may be an id()

    def given_back(self, value: Any) -> Any:
        """What a test gets of what an answer gave: a clone where arguments are clones, lest it's changed later on."""
        if self._kept is None or LATER in self._kept:
            return value
        made = self._clone(value, {})
        for item in held(made):
            self._live |= {key for part in self._parts.values() for key, _ in part.keys(item)}
        return made

    def called(self, op: str, thing: Any, name: str) -> str:
        """What a call is known by: the asked name, whatever it stands for, or the method's."""
        return self._names.get(id(thing), "") if op == "call" or name == "__call__" else name

    def _cloned(self, given: Mapping[str, Any], kept: frozenset[str]) -> Passed:
        memo: dict[Any, Any] = {}
        left = {place for place in given if kept & {place, f"{place} {LATER}"}}
        made = {place: value if place in left else self._clone(value, memo) for place, value in given.items()}
        return Passed(made, frozenset(place for place in made if made[place] is not given[place]))

    def _clone(self, value: Any, memo: dict[Any, Any]) -> Any:
        """Containers anew, with all that they hold; one thing that is passed twice stays one, and so does memory."""
        for item in held(value):
            if _inside(item) is None and id(item) not in memo:
                made = _on_its_memory(item, memo)
                for part in self._parts.values():
                    made = part.clone(made, memo)
                memo[id(item)] = made
        shells = [(item, memo.setdefault(id(item), instances.empty(type(item)))) for item in instances.graph(value)]
        for item, shell in shells:  # one by one: a list may have more links than Python calls functions within others
            instances.put(shell, {name: copy.deepcopy(part, memo) for name, part in instances.state_of(item).items()})
        return copy.deepcopy(value, memo)


def held(value: Any) -> Iterator[Any]:
    """A value and all that its containers hold, each once; but for what nobody can change, of which there is a lot."""
    seen, left = set[int](), [value]
    while left:
        item = left.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        yield item
        left += [part for part in _inside(item) or () if type(part) not in PLAIN]


def _inside(item: Any) -> list[Any] | None:
    """What a container holds, in whichever kind of one it may be passed, by Python's own methods; None of all else."""
    if type(item) in PLAIN or is_watched(item):
        return None
    if instances.is_instance(item):
        return [*instances.state_of(item).values()]
    base: Any = next((base for base in CONTAINERS if issubclass(type(item), base)), None)
    if base is not None:
        return [*base.__iter__(item), *(base.values(item) if hasattr(base, "values") else ())]
    if is_mixed(item):
        found: list[Any] = item.ravel().tolist()
        return found
    return [*vars(item).values()] if is_record(type(item)) and hasattr(item, "__dict__") else None


def _refill(value: Any, items: Any) -> None:
    if instances.is_instance(value):
        instances.put(value, items)
    elif isinstance(value, list):
        value[:] = items
    elif isinstance(value, collections.deque):
        value.clear()
        value.extend(items)
    elif isinstance(value, dict | set):
        value.clear()
        value.update(items)
    elif _is_frame(value):
        type(value).__init__(value, items)
    elif generators.is_generator(value):
        generators.put(value, items)
    elif pictures.is_picture(value):
        pictures.put(value, items)
    elif symbols.is_matrix(value):
        symbols.put(value, items)
    elif streams.is_stream(value):
        streams.put(value, items)
    elif masked.is_masked_array(value):
        masked.put(value, items)
    else:
        write(value, items)


def _on_its_memory(value: Any, memo: dict[Any, Any]) -> Any:
    """The clone of an array, on that of the memory that it lies in; of anything else its own."""
    flat = flat_of(value) if _is_array(value) and not masked.is_masked_array(value) else None
    if flat is None or type(value) is not type(plain(value)) or flat.nbytes > STORAGE_BYTES:
        return _array_clone(value)
    start = address(flat)
    if start in memo or value.base is not None:
        copied = memo.setdefault(start, flat.copy())
        return Extent(address(value) - start, value.strides, value.shape, value.dtype).on(copied)
    made = value.copy(order="K")
    memo[start] = flat_of(made)
    return made


def _array_clone(value: Any) -> Any:
    if generators.is_generator(value) or masked.is_masked_array(value):  # whose copy() has the same fill value
        return copy.deepcopy(value)
    if streams.is_stream(value):
        return streams.copy_of(value)
    return value.copy() if _is_copied(value) else value


def _is_copied(value: Any) -> bool:
    return (
        _is_array(value)
        or _is_frame(value)
        or pictures.is_picture(value)
        or symbols.is_matrix(value)
        or streams.is_stream(value)
    )


def _is_array(value: Any) -> bool:
    return package_of(type(value)) == "numpy" and type(value).__name__ in ("ndarray", "matrix", "MaskedArray")


def _is_frame(value: Any) -> bool:
    return package_of(type(value)) == "pandas" and type(value).__name__ in ("DataFrame", "Series")
