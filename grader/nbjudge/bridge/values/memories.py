"""Memory that arrays share: who writes into one writes into its views, also where they cross at different times.

An array is a window on a memory: an offset, strides, a shape. Either side numbers the memories that it brings; the
other makes one as large. Only items of arrays that cross are ever told of: what lies between or around them reads as
zeros over there, and nobody can show, or write, what the one who brought it hasn't passed.
"""

from __future__ import annotations

import bisect
import importlib
import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from nbjudge.bridge.values.table import DIMENSIONS, SHARED_BYTES, STORAGE_BYTES, UnsupportedError
from nbjudge.errors import WireError
from nbjudge.wire import listed, whole

WORK = 10_000  # steps to find out whether two arrays have an item in one place
FAR = 1 << 40  # no stride is longer


@dataclass(frozen=True, slots=True)
class Extent:
    """Where an array's items lie in a memory."""

    offset: int
    strides: tuple[int, ...]
    shape: tuple[int, ...]
    dtype: Any

    def on(self, flat: Any) -> Any:
        """The array, on these bytes; NumPy looks as well whether it lies within."""
        array = importlib.import_module("numpy").ndarray
        return array(self.shape, self.dtype, buffer=flat, offset=self.offset, strides=self.strides)

    def items_of(self, flat: Any) -> Any:
        """The bytes of its items, in an array of one item a byte; of a dimension that is broadcast one suffices."""
        shape = [1 if step == 0 else size for size, step in zip(self.shape, self.strides, strict=True)]
        array, bytes_each = importlib.import_module("numpy").ndarray, self.dtype.itemsize
        return array((*shape, bytes_each), flat.dtype, buffer=flat, offset=self.offset, strides=(*self.strides, 1))

    def lies_within(self, size: int) -> bool:
        """Does it stay inside of so many bytes?"""
        ends = [(count - 1) * step for count, step in zip(self.shape, self.strides, strict=True)]
        low = self.offset + sum(min(end, 0) for end in ends)
        return low >= 0 and self.offset + sum(max(end, 0) for end in ends) + self.dtype.itemsize <= size

    def has(self, array: Any) -> bool:
        """Do this array's items lie in the same order?"""
        steps = zip(self.shape, self.strides, array.strides, strict=True)
        return all(count == 1 or step == its for count, step, its in steps)

    @property
    def size_bytes(self) -> int:
        """Of its items."""
        return math.prod(self.shape) * int(self.dtype.itemsize)


@dataclass(slots=True)
class Memory:
    """One that both sides have. Its arrays keep it alive: it is forgotten with the last one that is shared."""

    number: int
    size: int
    start: int  # its address here
    beside: int  # bytes that the first array on it doesn't show
    shown: Any  # for each byte, whether an array that crossed shows it; None: all are
    members: set[int] = field(default_factory=set)  # the numbers of those arrays
    truths: set[int] = field(default_factory=set)  # of those whose items are truth values

    def show(self, extent: Extent) -> None:
        """An array that shows these items crosses."""
        if self.shown is not None:
            extent.items_of(self.shown)[...] = True
            if self.shown.all():
                self.shown = None

    def shows(self, extent: Extent) -> bool:
        """Have all of these items crossed?"""
        return self.shown is None or bool(extent.items_of(self.shown).all())


class Beneath(Protocol):
    """Memory that isn't an array's own but lent by what else is shared: a tensor's storage."""

    number: int
    size: int
    start: int
    ours: bool

    @property
    def shown(self) -> Any:
        """For each byte, whether it is shown; None: all are."""

    def show(self, extent: Extent) -> None:
        """An array that shows these items crosses."""

    def shows(self, extent: Extent) -> bool:
        """Have all of these items crossed?"""

    def flat(self) -> Any:
        """Its bytes, where they lie."""


class Lender(Protocol):
    """Who has such memories; one that is told as changed changes the arrays on it."""

    def around(self, low: int, high: int) -> Beneath | None:
        """What is shared and lies around these addresses."""

    def lent(self, number: int) -> Beneath | None:
        """The one with this number, while it is shared."""


class Memories:
    """One side's. `arrays` are the shared ones, by number."""

    def __init__(self, side: int, arrays: Mapping[int, Any]) -> None:
        self._side = self._next = side
        self._arrays = arrays
        self._known: dict[int, Memory] = {}
        self._of: dict[int, Memory] = {}  # a shared array's
        self._starts: list[tuple[int, int]] = []  # sorted: address, number
        self._beside = [0, 0]  # what the memories of each side hold that isn't shown by the first array of each
        self._lent: dict[int, int] = {}  # a shared array's number: of what it lies on
        self.lender: Lender | None = None

    def clear(self) -> None:
        """A new question."""
        self._known.clear()
        self._of.clear()
        self._starts.clear()
        self._lent.clear()
        self._beside = [0, 0]

    def leave(self, number: int) -> None:
        """This array isn't shared any more."""
        self._lent.pop(number, None)
        if (memory := self._of.pop(number, None)) is None:
            return
        memory.members.discard(number)
        memory.truths.discard(number)
        if not memory.members:
            del self._known[memory.number]
            del self._starts[bisect.bisect_left(self._starts, (memory.start, memory.number))]
            self._beside[memory.number % 2] -= memory.beside

    def members(self, number: int) -> set[int]:
        """The shared arrays on this one's memory, itself among them; none where its items travel alone."""
        memory = self._of.get(number)
        return set() if memory is None else memory.members

    def is_ours(self, number: int) -> bool:
        """Did this side bring the memory of this array, or the storage beneath it, or the array itself?"""
        memory = self._of.get(number)
        return (self._lent.get(number, number) if memory is None else memory.number) % 2 == self._side

    def is_lent(self, number: int) -> bool:
        """Does this array lie on what changes by itself?"""
        on = self._lent.get(number)
        return on is not None and self.lender is not None and self.lender.lent(on) is not None

    def knows(self, memory: Memory) -> bool:
        """Is it shared still?"""
        return self._known.get(memory.number) is memory

    def known(self, number: int) -> Memory | None:
        """The memory of this number."""
        return self._known.get(number)

    # ------------------------------------------------------------------ telling

    def said(self, array: Any, number: int) -> dict[str, Any]:
        """Where a shared array lies; nothing where its items travel alone.

        Raises:
            UnsupportedError: it shows what lies beside an array that the other side has passed.
        """
        if not array.size or not array.dtype.isnative:
            return {}
        if array.dtype.kind == "b" and bool((array.view("u1") > 1).any()):
            raise UnsupportedError("an array of truth values in whose memory other numbers are")
        low, high = bounds(array)
        memory = self._of.get(number) or self.covering(low, high)
        if memory is None and self.lender is not None and (lent := self.lender.around(low, high)) is not None:
            self._lent[number] = lent.number
            return {"storage": lent.number} | _shown_in(lent, array, ours=lent.ours)
        if (memory := memory or self._around(array)) is None:
            return {}
        place = _shown_in(memory, array, ours=memory.number % 2 == self._side)
        self._join(memory, number, array)
        return {"memory": [memory.number, memory.size]} | place | ({"owner": True} if array.base is None else {})

    def _around(self, array: Any) -> Memory | None:
        """A new memory, which an array lies in."""
        low, high = bounds(array)
        if (flat := flat_of(array)) is None:
            return None
        whole_one = (address(flat), address(flat) + flat.nbytes)
        if not whole_one[0] <= low <= high <= whole_one[1]:
            return None
        for start, end in (whole_one, (low, high)):  # of one that is too large, what this array lies in
            if end - start <= STORAGE_BYTES and self._has_room(self._side, end - start, array.nbytes, SHARED_BYTES):
                self._next += 2
                return self._know(self._next, end - start, start, array)
        return None

    def covering(self, low: int, high: int) -> Memory | None:
        """The memory that is known around these addresses."""
        at = bisect.bisect_right(self._starts, (low, sys.maxsize)) - 1
        found = self._known[self._starts[at][1]] if at >= 0 else None
        return found if found is not None and high <= found.start + found.size else None

    def _has_room(self, side: int, size: int, shown: int, room: int) -> bool:
        return self._beside[side % 2] + max(0, size - shown) <= room

    def _know(self, number: int, size: int, start: int, first: Any) -> Memory:
        """From now on there is this memory, of which `first` is the first array."""
        all_of_it = first.nbytes == size and (first.flags.c_contiguous or first.flags.f_contiguous)
        shown = None if all_of_it else importlib.import_module("numpy").zeros(size, bool)
        memory = self._known[number] = Memory(number, size, start, max(0, size - first.nbytes), shown)
        bisect.insort(self._starts, (start, number))
        self._beside[number % 2] += memory.beside
        return memory

    def _join(self, memory: Memory, number: int, array: Any) -> None:
        memory.members.add(number)
        if array.dtype.kind == "b":
            memory.truths.add(number)
        self._of[number] = memory

    # ------------------------------------------------------------------ hearing

    def made(self, tree: Any, items: Any, number: int) -> Any:
        """A new array whose items came, where the other side says that it lies; WireError where it can't."""
        if "storage" in tree:
            return self._made_on(tree, items, number)
        named, size = _two(listed(tree, "memory", 2))
        extent, memory = _extent(tree, items), self._known.get(named)
        if not items.size or not extent.lies_within(size) or (memory is not None and memory.size != size):
            raise WireError("An array doesn't lie in its memory.")
        if memory is None:
            made = self._brought(named, size, extent, items if tree.get("owner") is True else None)
            memory = self._know(named, size, address(made) - extent.offset, made)
            if made is not items:
                made[...] = items
            memory.show(extent)
        else:
            flat = self.flat(memory)
            made = extent.on(flat)
            if memory.number % 2 != self._side:
                _take(memory, extent, flat, items)
            elif not memory.shows(extent):
                raise WireError("An array shows what was never passed.")
        self._join(memory, number, made)
        _check(made)
        return made

    def _made_on(self, tree: Any, items: Any, number: int) -> Any:
        """The same on what is lent."""
        lent = None if self.lender is None else self.lender.lent(whole(tree, "storage"))
        extent = _extent(tree, items)
        if lent is None or not items.size or not extent.lies_within(lent.size):
            raise WireError("An array doesn't lie in a storage.")
        made = extent.on(lent.flat())
        if not lent.ours:
            _take(lent, extent, lent.flat(), items)
        elif not lent.shows(extent):
            raise WireError("An array shows what was never passed.")
        self._lent[number] = lent.number
        _check(made)
        return made

    def _brought(self, number: int, size: int, extent: Extent, own: Any) -> Any:
        """The first array on a memory of the other side's; `own` is one that is to own its memory, as it does there."""
        if number % 2 == self._side or size > STORAGE_BYTES:
            raise WireError("An array names memory that isn't there.")
        if not self._has_room(number, size, extent.size_bytes, 2 * SHARED_BYTES):  # twice: over there some have gone
            raise WireError("Arrays lie in more memory than they show.")
        numpy = importlib.import_module("numpy")
        if own is not None and own.nbytes == size:
            if extent.has(own):
                return own
            if extent.has(made := numpy.empty(extent.shape, extent.dtype, order="F")):
                return made
        return extent.on(numpy.zeros(size, numpy.uint8))

    def flat(self, memory: Memory) -> Any:
        """The bytes of a known memory: each of its arrays has them."""
        flat = flat_of(self._arrays[next(iter(memory.members))])
        start = memory.start - address(flat)
        if not 0 <= start <= start + memory.size <= flat.nbytes:
            raise WireError("An array's memory isn't where it was.")
        return flat[start : start + memory.size]

    def check(self, numbers: Iterable[int]) -> None:
        """What shares memory with these, which were changed, has no truth value but 0 and 1; WireError otherwise."""
        changed = {memory.number: memory for number in numbers if (memory := self._of.get(number)) is not None}
        for member in (member for memory in changed.values() for member in memory.truths):
            _check(self._arrays[member])


def _shown_in(memory: Memory | Beneath, array: Any, *, ours: bool) -> dict[str, Any]:
    """Where an array lies that crosses now."""
    extent = Extent(address(array) - memory.start, array.strides, array.shape, array.dtype)
    if ours:
        memory.show(extent)
    elif not memory.shows(extent):
        raise UnsupportedError("an array of what lies in memory beside one that was passed")
    return {"offset": extent.offset, "strides": [*extent.strides]}


def _take(memory: Memory | Beneath, extent: Extent, flat: Any, items: Any) -> None:
    """Write what is new of it: what both sides know already changes in no other way than as a change."""
    if (shown := memory.shown) is None:
        return
    new = ~extent.items_of(shown)
    once = tuple(slice(0, 1) if step == 0 else slice(None) for step in extent.strides)
    extent.items_of(flat)[new] = items[once].copy()[..., None].view("u1")[new]
    memory.show(extent)


def _check(array: Any) -> None:
    if array.dtype.kind == "b" and bool((plain(array).view("u1") > 1).any()):
        raise WireError("A truth value in an array is neither.")


def _two(told: list[Any]) -> tuple[int, int]:
    if len(told) != 2 or any(type(part) is not int or part <= 0 for part in told):
        raise WireError("An array's memory isn't one.")
    return told[0], told[1]


def _extent(tree: Any, items: Any) -> Extent:
    """Of a dimension of one item the stride is anything, so it's made a plain one."""
    strides = listed(tree, "strides", DIMENSIONS)
    if len(strides) != items.ndim or any(type(step) is not int or abs(step) > FAR for step in strides):
        raise WireError("An array's strides aren't ones.")
    steps = [step if count > 1 else items.itemsize for step, count in zip(strides, items.shape, strict=True)]
    return Extent(whole(tree, "offset"), tuple(steps), items.shape, items.dtype)


# ---------------------------------------------------------------------- arrays, by their addresses


def raw(size: int) -> Any:
    """A dtype of so many bytes."""
    numpy = importlib.import_module("numpy")
    return numpy.dtype((numpy.void, size))


def plain(value: Any) -> Any:
    """The array itself, where its class is derived from NumPy's."""
    array = sys.modules["numpy"].ndarray
    return value if type(value) is array else array.view(value, array)


def address(array: Any) -> int:
    """Of its first item."""
    return int(plain(array).__array_interface__["data"][0])


def bounds(array: Any) -> tuple[int, int]:
    """The addresses that its items lie between."""
    ends = [(count - 1) * step for count, step in zip(array.shape, array.strides, strict=True)]
    low = address(array)
    return low + sum(min(end, 0) for end in ends), low + sum(max(end, 0) for end in ends) + array.itemsize


def overlap(one: Any, other: Any) -> bool:
    """Have these arrays an item in one place? Of what is too hard to tell, yes."""
    numpy = sys.modules["numpy"]
    try:
        return bool(numpy.shares_memory(plain(one), plain(other), max_work=WORK))
    except numpy.exceptions.TooHardError:
        return True


def flat_of(array: Any) -> Any:
    """The bytes of the memory that an array lies in, as NumPy knows it; None where they aren't plain and in a row."""
    numpy, root = sys.modules["numpy"], array
    while (base := numpy.ndarray.base.__get__(root)) is not None:
        base = base.base if type(base).__name__ == "DummyArray" else base  # as_strided keeps one in between
        if not issubclass(type(base), numpy.ndarray):
            break
        root = base
    root = plain(root)
    if root.dtype.hasobject or not (root.flags.c_contiguous or root.flags.f_contiguous):
        return None
    try:
        return root.reshape(-1, order="A").view(numpy.uint8)
    except (TypeError, ValueError):  # items of no bytes, or of ones that NumPy keeps to itself
        return None


def write(array: Any, items: Any) -> None:
    """Write into an array, also into a read-only view on what can be written.

    Raises:
        UnsupportedError: nobody here may write there.
    """
    if not array.flags.writeable:
        flat = flat_of(array)
        if flat is None or not flat.flags.writeable:
            raise UnsupportedError("a read-only array that was written to")
        array = Extent(address(array) - address(flat), array.strides, array.shape, array.dtype).on(flat)
    array[...] = items


def follow(array: Any, items: Any) -> None:
    """The same of one that the other side brought, and has written: read-only, it is here as a promise alone."""
    if array.flags.writeable or not array.flags.owndata:
        write(array, items)
        return
    array.flags.writeable = True
    array[...] = items
    array.flags.writeable = False
