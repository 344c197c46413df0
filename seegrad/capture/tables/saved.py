"""What Nodes save, held weakly, and whether its bytes are still those that were saved.

By default only storages that someone outside torch holds are watched: compared at every event, on the CPU. With `every`
byte, each tensor is remembered when it's saved, on its own device, and compared once more before a backward. The CPU
tells at once whether bytes have changed; another device is asked, and its answers are read when the backward is over.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol

import torch

from seegrad.capture.probes import torch_private as _torch
from seegrad.capture.tables import content
from seegrad.capture.tables.content import Content, Fingerprint, Looks
from seegrad.model.derivatives import is_put_aside, may_break, meets, reads_sign_only, serves
from seegrad.model.recording import EXTERNAL_WRITE, Place

logger = logging.getLogger("seegrad")

MAX_COPY_BYTES = 64 * 2**20
"""Bigger saved tensors are compared by fingerprint, also where not every byte is."""

Line = tuple[str, int]
"""A file and a line of it."""

NOWHERE: Line = ("", 0)

OFTEN = 32
"""Events after memory was handed out at each of which it's compared."""


def is_due(age: int) -> bool:
    """True where memory that was handed out `age` events ago is compared: at first always, then ever less often.

    Else a program each of whose ops hands out memory, as kernels do, would be compared with itself again and again.

    >>> [age for age in range(30, 75) if is_due(age)], sum(map(is_due, range(10_000)))
    ([30, 31, 32, 34, 36, 38, 40, 42, 44, 46, 48, 50, 52, 54, 56, 58, 60, 62, 64, 68, 72], 164)
    """
    return age < OFTEN or age % (1 << (age // OFTEN).bit_length()) == 0


Gradients = Sequence[torch.Tensor | None]
"""What a Node is given, or hands on."""

Kept = tuple[str, int, int | None, int, int, int, int, bool]
"""What a Node keeps, as long as nobody asks for more: attribute, tensor, version, storage, its bytes there (start and
stop), slots, checked.

Plain numbers: Python's collector doesn't look at them again and again.
"""


@dataclass(slots=True, eq=False)
class Saved:
    """One saved tensor of one Node, held weakly."""

    node: int
    index: int
    ref: _torch.WeakTensor
    attr: str
    tensor: int  # the program's tensor: itself, or for a result the output that it is an alias of
    version: int | None
    storage: int
    span: tuple[int, int]
    slots: int  # number of the Node's Edges; 0 where its formula doesn't read it
    checked: bool  # torch compares its version
    name: str  # of the Node
    original: Content | None = None
    last: Content | None = None  # the same, moved on after each change that was reported
    signs: Content | None = None  # of the original, where it's a fingerprint and the formula reads no more
    assumed: bool = False  # a write hit its bytes and they couldn't be compared
    altered: bool | None = None  # the answer of the look before this backward, where nothing can have come after it
    event: int = 0  # how many there had been, where every byte is compared
    line: Line = NOWHERE

    @property
    def serves(self) -> tuple[int, ...]:
        """The input slots whose gradient reads it."""
        return serves(self.name, self.attr, self.slots)

    @property
    def birth(self) -> tuple[str, str, Line]:
        """What it is in every lap of a loop: saved as this, by such a Node, on that line."""
        return self.name, self.attr, self.line

    def suspect(self) -> bool:
        """True when it's worth asking whether its bytes have changed: a write may have hit them."""
        return self.assumed or (self.original is not None and self.altered is not False)

    def stands(self, tensor: torch.Tensor) -> bool:
        """True while its version is the one that was saved."""
        return _torch.version(tensor) == self.version

    def drop(self) -> None:
        """The Node keeps it no longer."""
        self.original = self.last = self.signs = None


Stretch = tuple[int, int]
"""From one event, at which the bytes were still the same, to another."""


@dataclass(frozen=True, slots=True)
class Unseen:
    """A write between two events, to what a Node has saved."""

    saved: Saved
    stretch: Stretch
    op: str = EXTERNAL_WRITE
    place: Place | None = None  # where it is known


@dataclass(frozen=True, slots=True)
class Inquiry:
    """A question put to a device: have these bytes changed?"""

    saved: Saved
    flag: torch.Tensor
    used: bool  # by the Node, whose gradient is wrong if so
    write: Unseen | None = None  # behind torch's back if so; None where the write is known


class Keeper(Protocol):
    """A Node that keeps something."""

    id: int
    looked_at: Sequence[Saved]

    @property
    def saved(self) -> Sequence[Saved]:
        """What it keeps."""


class SavedTensors:
    """All saved tensors of one Recording that live Nodes keep, by storage."""

    def __init__(self, *, every: bool) -> None:
        self.every = every
        self.event, self.line = 0, NOWHERE  # how many there were; that of the user's which is running
        self._unplaced: dict[int, Keeper] = {}  # Nodes that are in neither of the next two yet: few programs ask
        self._by_storage: dict[int, list[Saved]] = {}
        self._by_node: dict[int, Sequence[Saved]] = {}
        self._watched: dict[int, int] = {}  # storage → the event at which its memory was last handed out
        self._looked: dict[int, int] = {}  # watched storage → the event at which it was compared
        self._distrusted: set[tuple[str, str, Line]] = set()  # what a look before a backward has found changed
        self._births, self._looks = Looks(), Looks()
        self._asked: list[Inquiry] = []
        self._unable: set[tuple[torch.device, torch.dtype]] = set()

    # -- what is remembered

    def born(self, node: Keeper) -> None:
        """A Node was born that keeps something."""
        self._unplaced[node.id] = node

    def concerned(self, kept: Sequence[tuple[Kept, torch.Tensor]]) -> bool:
        """True where the bytes of anything that a Node begins to keep are to be remembered at once."""
        return self.every or any(each[3] in self._watched or _torch.escaped(tensor) for each, tensor in kept)

    def add(self, saved: Saved, tensor: torch.Tensor) -> None:
        """A Node is being born that keeps `tensor`; of all that it keeps some concern."""
        if self.every:
            saved.event, saved.line = self.event, self.line
        if saved.storage in self._watched or _torch.escaped(tensor) or saved.birth in self._distrusted:
            self._watched.setdefault(saved.storage, self.event)
            self._looked.setdefault(saved.storage, self.event)
            self._remember(saved, tensor)
        elif self.every:
            self._remember(saved, tensor)

    def place(self) -> None:
        """Find room for what was born since the last time."""
        unplaced, self._unplaced = self._unplaced, {}
        for node in unplaced.values():
            self._by_node[node.id] = node.saved
            for saved in node.saved:
                self._by_storage.setdefault(saved.storage, []).append(saved)

    def _remember(self, saved: Saved, tensor: torch.Tensor) -> None:
        """Keep the bytes as they are now, if none are kept yet."""
        if saved.original is not None or not content.has_bytes(tensor):
            return
        if self.every:
            saved.original = saved.last = self._born(saved, tensor)
            if isinstance(saved.original, Fingerprint) and reads_sign_only(saved.name, saved.attr):
                saved.signs = content.signs(tensor)
        elif content.answers_at_once(tensor):
            saved.original = saved.last = content.kept(tensor, MAX_COPY_BYTES)

    def _born(self, saved: Saved, tensor: torch.Tensor) -> Content | None:
        """The bytes now: no two Nodes that keep the same version look twice. None where the device can't tell."""
        kind = tensor.device, tensor.dtype
        if kind in self._unable:
            return None
        try:
            return self._births.at(saved.storage, tensor, content.kept)
        except (RuntimeError, NotImplementedError) as error:
            self._unable.add(kind)
            logger.warning("seegrad can't compare the bytes of %s on %s: %s", kind[1], kind[0], error)
            return None

    @property
    def watching(self) -> bool:
        """True when there are bytes to compare at every event."""
        return bool(self._watched)

    def live(self, storage: int) -> Iterator[tuple[Saved, torch.Tensor]]:
        """Saved tensors on a storage that still live, and have memory."""
        self.place()
        return ((saved, tensor) for saved in self._by_storage.get(storage, ()) for tensor in _memory(saved))

    def keep(self, storage: int) -> None:
        """A write to this storage may follow: remember what is saved there."""
        if self._unplaced or storage in self._by_storage:
            self._keep(storage)

    def _keep(self, storage: int) -> None:
        for saved, tensor in self.live(storage):
            self._remember(saved, tensor)

    def watch(self, storage: int) -> None:
        """Someone outside torch holds these bytes from now on: compare them at every event, later less often."""
        self._watched[storage] = self._looked[storage] = self.event
        self.keep(storage)

    # -- a write was seen

    def differs(self, storage: int) -> bool:
        """True when something saved there has just changed although its version stood. Only the CPU is asked."""
        return any(
            content.answers_at_once(tensor)
            and saved.stands(tensor)
            and not content.same(saved.last, content.seen(tensor, saved.last))
            for saved, tensor in self.live(storage)
            if saved.last is not None
        )

    def written(self, storage: int, span: tuple[int, int], exchanged: torch.Tensor | None = None) -> None:
        """What can't be compared counts as changed where bytes overlap and the version stood.

        `exchanged`: nothing was written, this tensor has other bytes from now on. Its views keep theirs.
        """
        self._births.forget([storage])
        self._looks.forget([storage])
        for saved, tensor in self.live(storage):
            saved.altered = None
            if saved.original is None and (not saved.checked or saved.stands(tensor)):
                touched = exchanged is None or exchanged is tensor
                saved.assumed |= touched and span[0] < saved.span[1] and saved.span[0] < span[1]
            elif saved.original is not None:
                saved.last = content.again(tensor, saved.original)

    # -- a write that nobody saw

    def changed_behind(self) -> list[Unseen]:
        """Watched saved tensors whose bytes changed since the last look, with no write seen. One a storage."""
        self.place()
        found: dict[int, Unseen] = {}
        for storage in [each for each in self._watched if each in self._by_storage]:  # on most nothing is saved
            if self.every and not is_due(self.event - self._watched[storage]):
                continue
            self._looks.forget([storage])
            looked, self._looked[storage] = self._looked[storage], self.event
            for saved, tensor in self.live(storage):
                unseen = Unseen(saved, (max(looked, saved.event), self.event))
                if self._moved(tensor, unseen):
                    found.setdefault(storage, unseen)
        return list(found.values())

    def look(self, nodes: Iterable[int], *, sure: bool) -> list[Unseen]:
        """The same for all that these Nodes keep, watched or not: before a backward. `sure`: nothing writes until then.

        Then this look is the one that counts for their use, unless a write is told after it.
        """
        self.disturbed()
        self.place()
        found: dict[int, Unseen] = {}
        for saved in chain.from_iterable(self._by_node.get(node, ()) for node in nodes):
            saved.altered = None
            for tensor in _memory(saved):
                unseen = Unseen(saved, (max(self._looked.get(saved.storage, 0), saved.event), self.event))
                if self._moved(tensor, unseen):
                    found.setdefault(saved.storage, unseen)
                elif sure:  # what the look above has compared isn't compared again
                    known = saved.last is saved.original is not None and saved.stands(tensor)
                    at_once = content.answers_at_once(tensor)
                    saved.altered = not (known and at_once) and self._used_changed(saved, tensor)
        self._distrusted.update(each.saved.birth for each in found.values())
        return list(found.values())

    def ask(self, storage: int, op: str, place: Place | None) -> None:
        """An op may have written there on another device than the CPU, which will tell later."""
        self._looks.forget([storage])
        for saved, tensor in self.live(storage):
            if not content.answers_at_once(tensor):
                self._moved(tensor, Unseen(saved, (self.event, self.event), op, place))

    def _moved(self, tensor: torch.Tensor, unseen: Unseen) -> bool:
        """True when the bytes have changed since the last look; of another device than the CPU it's told later."""
        saved = unseen.saved
        if saved.last is None or not saved.stands(tensor):
            return False
        now = self._now(saved, tensor)
        if not content.answers_at_once(tensor):
            self._asked.append(Inquiry(saved, content.differ(saved.last, now), used=False, write=unseen))
        elif content.same(saved.last, now):
            return False
        saved.last = now if isinstance(now, Fingerprint) else now.clone()
        return content.answers_at_once(tensor)

    def _now(self, saved: Saved, tensor: torch.Tensor) -> Content:
        """The bytes now: no two Nodes that keep the same look twice."""
        if isinstance(saved.original, Fingerprint):
            return self._looks.at(saved.storage, tensor, content.fingerprint)
        return tensor.detach()

    # -- a Node is to use it

    def disturbed(self) -> None:
        """Code of the user's has run: a look doesn't count any more."""
        self._looks.clear()

    def changed(self, saved: Saved) -> bool:
        """True when the version hasn't moved although the bytes differ from those that were saved."""
        if saved.altered is not None or not saved.suspect():
            return saved.altered is True
        return any(self._used_changed(saved, tensor) for tensor in _memory(saved))

    def _used_changed(self, saved: Saved, tensor: torch.Tensor) -> bool:
        if saved.checked and not saved.stands(tensor):
            return False
        if saved.original is None:
            return saved.assumed
        if content.answers_at_once(tensor):
            return self._differs(saved, tensor)
        flag = content.differ(saved.original, self._now(saved, tensor))
        if saved.signs is not None:
            flag &= content.differ(saved.signs, content.signs(tensor))
        self._asked.append(Inquiry(saved, flag, used=True))
        return False

    def _differs(self, saved: Saved, tensor: torch.Tensor) -> bool:
        """True when what the Node's formula reads isn't what was saved."""
        now = self._now(saved, tensor)
        if saved.original is None or content.same(saved.original, now):
            return False
        if saved.signs is not None:
            return not content.same(saved.signs, content.signs(tensor))
        if not reads_sign_only(saved.name, saved.attr) or not isinstance(saved.original, torch.Tensor):
            return True
        return not content.same(saved.original.sgn(), tensor.detach().sgn())

    def misread(self, node: Keeper, gradients: Gradients, creates_graph: bool) -> list[Saved]:
        """What the Node is to read and isn't what it saved; unless it multiplies that by 0, and 0 is right."""
        looked_at = node.looked_at if creates_graph else _read_at_once(node, gradients)
        found = [saved for saved in looked_at if self.changed(saved)]
        if not found or creates_graph:  # the gradient's own slope reads it, whatever it is multiplied by
            return found
        return [] if _are_zero(gradients) else [saved for saved in found if _is_reached(saved, gradients)]

    def answers(self) -> list[Inquiry]:
        """What the devices were asked and say yes to. Waits for them."""
        asked, self._asked = self._asked, []
        found: list[Inquiry] = []
        for device in {each.flag.device for each in asked}:
            here = [each for each in asked if each.flag.device == device]
            yes = torch.stack([each.flag for each in here]).tolist()
            found += [each for each, answer in zip(here, yes, strict=True) if answer]
        return found

    # -- end

    def release(self, nodes: Iterable[int]) -> None:
        """These Nodes are gone, or backward has freed what they kept."""
        born, placed = self._unplaced.pop, self._by_node.pop
        gone = [saved for node in nodes if born(node, None) is None for saved in placed(node, ())]
        for storage in {saved.storage for saved in gone}:
            _sift(self._by_storage, storage, lambda saved: saved.node in self._by_node)
        for saved in gone:
            saved.drop()
        self._births.keep(self._by_storage)

    def forget_dead(self, storages: Container[int]) -> None:
        """Drop the saved tensors that no longer exist; `storages` are those that do."""
        self.place()
        tables: list[dict[int, list[Saved]] | dict[int, Sequence[Saved]]] = [self._by_storage, self._by_node]
        for table in tables:
            for key in list(table):
                _sift(table, key, lambda saved: saved.ref() is not None)
        self._watched = {storage: event for storage, event in self._watched.items() if storage in storages}
        self._looked = {storage: event for storage, event in self._looked.items() if storage in storages}
        self._births.keep(self._by_storage)
        self._asked = [each for each in self._asked if each.saved.ref() is not None]


def _memory(saved: Saved) -> Iterator[torch.Tensor]:
    """The tensor, if it lives and has memory."""
    tensor = saved.ref()
    if tensor is not None and (saved.original is None or not _torch.is_freed(tensor)):
        yield tensor


def _read_at_once(node: Keeper, gradients: Gradients) -> Sequence[Saved]:
    """What is looked at of a Node, without what its kernel keeps for a second derivative alone."""
    devices = {each.device.type for each in gradients if each is not None} if node.looked_at else ()
    return [each for each in node.looked_at if not any(is_put_aside(each.name, each.attr, kind) for kind in devices)]


def _are_zero(gradients: Gradients) -> bool:
    """True where nothing but 0 arrives: whatever was saved, the result is right. Only the CPU is asked."""
    given = [gradient for gradient in gradients if gradient is not None]
    return all(_torch.is_readable(each) and not each.any() for each in given)


def _is_reached(saved: Saved, gradients: Gradients) -> bool:
    """False where 0 alone arrives at all that has changed there."""
    dimensions, gradient = meets(saved.name, saved.attr), gradients[0] if len(gradients) == 1 else None
    if dimensions is None or gradient is None:
        return True
    return any(_is_met(saved, tensor.detach(), gradient.detach(), dimensions) for tensor in _memory(saved))


def _is_met(saved: Saved, now: torch.Tensor, gradient: torch.Tensor, dimensions: tuple[int, ...]) -> bool:
    """True where a number that differs meets a gradient other than 0, or one that 0 makes no 0 of: 0 · ∞, 0 / 0."""
    before = saved.original
    if not isinstance(before, torch.Tensor) or before.shape != now.shape:
        return True
    if not content.answers_at_once(now) or not _torch.is_readable(gradient):
        return True
    matters = gradient.ne(0)
    if dimensions:
        matters = matters.any(dimensions, keepdim=True)
    for each in (before, now):
        matters = matters | ~each.isfinite()
        if may_break(saved.name):
            matters = matters | each.eq(0)
    return bool(((before != now) & matters).any())


def _sift(table: Any, key: int, keep: Callable[[Saved], bool]) -> None:
    """Keep some of a group, and the group only if anything is left of it."""
    table[key] = [saved for saved in table[key] if keep(saved)]
    if not table[key]:
        del table[key]
