"""What comes to an optimiser's gradients from one step to the next: thrown away, clipped in parts, or nothing at all.

A long loop forgets what it has done, and these come once an epoch: they're noted when they happen.
"""

from __future__ import annotations

import weakref
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from types import FrameType

import torch
from torch.optim.optimizer import Optimizer

from seegrad.capture.probes import torch_private as _torch
from seegrad.capture.probes.places import Source
from seegrad.capture.tables import Tables
from seegrad.capture.tables.frames import FrameDraft, SwitchDraft
from seegrad.capture.training.steps.rescaled import ClipsInParts
from seegrad.capture.training.steps.thrown import Thrown, ThrownCalls
from seegrad.capture.training.steps.vain import UncalledLosses, cut_between
from seegrad.model.recording import Clue, Place

SEVERAL = 2
"""Backward calls for one step, times that a window isn't finished: once may be chance."""

MOST_TOLD = 4
"""So many of a line are noted."""

CHOOSES = ("if ", "elif ", "else:", "except", "finally")
"""How the lines begin under which something is done in one case alone."""

IS_THERE = "grad is not None:"
"""What is asked of each gradient before it's cleared by hand."""

HANDS_ON = frozenset({"requires_grad_", "detach", "data", "numel"})
"""Ops that compute nothing with what they're given."""

HOOKED = "BackwardHookFunction"
"""How the Node is called by which a module's backward hook is told: it may be what a call was made for."""

FEW_LOOKS = 8
"""So often the way from its loss is searched, which may be long."""

MOST_LOOKS = 64
"""So often a step that finds nothing is looked into."""


@dataclass(slots=True)
class _Window:
    """The backward calls that have come to an optimiser's leaf since its step: their lines, the last one's Frame."""

    lines: list[Place | None] = field(default_factory=list)
    frame: int = 0
    version: int | None = None  # of the leaf, at that call
    apart: bool = True  # these calls came to no leaf but the optimiser's
    full: set[tuple[Place | None, int]] = field(default_factory=set)  # of those that a step has used: line, how many
    touched: bool = False  # somebody has made use of the gradients, or may have


@dataclass(slots=True)
class _Newest:
    """The newest backward call: where it stands between the Frames, the leaves that it came to."""

    since: int = 0  # the end of the call before
    begin: int = 0
    end: int = 0
    leaves: frozenset[int] = frozenset()
    place: Place | None = None
    used: bool = False  # a step has gone by it


@dataclass(frozen=True, slots=True)
class _Silent:
    """A step behind that call found nothing: what is told of it, unless another goes by that call."""

    call: _Newest
    told: Clue
    beside: Clue | None = None


class Windows:
    """Those of the optimisers that have stepped; each is known by one of its leaves."""

    def __init__(self, tables: Tables, source: Source) -> None:
        self._tables, self._source = tables, source
        self._known = weakref.WeakKeyDictionary[Optimizer, int]()
        self._windows: dict[int, _Window] = {}
        self._rounds: dict[int, ThrownCalls] = {}  # of the same leaves
        self._parts: dict[int, ClipsInParts] = {}
        self._held: dict[int, frozenset[int]] = {}  # such a leaf → all that its optimiser holds
        self._used_at = -1  # the last Frame at which somebody has looked at gradients
        self._silent: list[_Silent] = []
        self._call = _Newest()
        self._thrown: dict[tuple[Place, int, int], list[Clue]] = {}
        self._looks: dict[Place | None, int] = {}
        self._uncalled = UncalledLosses(tables)
        self._severed: dict[Place | None, int] = {}  # looks, for the other thing that is looked for

    def came(self, ran: Sequence[int], begin: int, place: Place | None) -> None:
        """A backward call has run these Nodes."""
        self.settle()
        nodes, now = self._tables.nodes.drafts, self._tables.frames.now
        drafts = [nodes[number] for number in ran if number in nodes]
        leaves = frozenset([draft.leaf for draft in drafts if draft.leaf is not None])
        self._call = _Newest(self._call.end, begin, now, leaves, place)
        hooked = any(name.startswith(HOOKED) for name in {draft.kind.name for draft in drafts})
        for leaf in leaves & self._windows.keys():
            window = self._windows[leaf]
            window.lines.append(place)
            window.frame, window.version = now, self._version(leaf)
            window.apart &= leaves <= self._held[leaf] and not hooked and not self._tables.hooks.drafts
            window.touched |= self._used_at >= begin  # by a hook, while it ran

    def used(self, leaf: int | None = None) -> None:
        """Somebody looks at gradients, this leaf's for one: they may be put to use."""
        self._call.used |= leaf in self._call.leaves
        self._used_at = self._tables.frames.next
        for window in self._windows.values():
            window.touched |= bool(window.lines)

    def clipped(self, gradients: Collection[int], frame: FrameType, place: Place | None) -> None:
        """Torch is about to clip the gradients in these storages."""
        for number, window in self._windows.items() if place is not None else ():
            leaf = self._tables.tensors.alive(number) if window.lines else None
            gradient = leaf.grad if leaf is not None else None
            if place is not None and gradient is not None and _torch.storage_key(gradient) in gradients:
                self._parts[number].clipped(len(window.lines), place, frame, gradient)

    def stepped(self, optimiser: Optimizer, known: Sequence[tuple[int, torch.Tensor]]) -> None:
        """An optimiser is about to step on these leaves."""
        first = next((number for number, leaf in known if leaf.grad is not None), None)
        mine_too = self._call.leaves.intersection(number for number, _ in known)
        waiting = self._windows.get(self._known.get(optimiser, -1))
        if not mine_too and (first is None or (waiting is not None and not waiting.lines)):
            self._find_severed([number for number, _ in known])
        if first is None:
            self._find_frozen([number for number, _ in known])
            if optimiser in self._known:
                self._uncalled.stepped([number for number, _ in known], self._call.end)
            return
        self._call.used |= bool(mine_too)
        mine = self._known.setdefault(optimiser, first)
        window = self._windows.setdefault(mine, _Window())
        if window.lines:
            window.full |= {(line, len(window.lines)) for line in window.lines}
        self._held[mine] = frozenset(number for number, _ in known)
        in_parts = self._parts.setdefault(mine, ClipsInParts()).stepped(window.lines, touched=window.touched)
        if in_parts is not None:
            facts = (("calls", str(len(window.lines))),)
            self._tables.clues.append(Clue("in parts", window.frame, in_parts, (mine,), facts))
        self._tell_thrown(mine, window.lines)
        self.used()  # of another optimiser's leaves, what this one has used already
        self._windows[mine] = _Window(full=window.full)

    def zeroed(self, storages: Collection[int], user: FrameType | None) -> None:
        """The numbers in these storages are about to become zeros."""
        for number in [number for number, window in self._windows.items() if window.lines]:
            leaf = self._tables.tensors.alive(number)
            if leaf is not None and leaf.grad is not None and _torch.storage_key(leaf.grad) in storages:
                self.cleared(number, user)

    def cleared(self, leaf: int, user: FrameType | None) -> None:
        """A leaf's gradient is about to be thrown away; where that's done in one case alone, it's on purpose."""
        window = self._windows.get(leaf)
        if window is None or not window.lines:
            return
        of, count = set(window.lines), len(window.lines)
        whole, place = max((size for _, size in window.full), default=0), self._source.place(user)
        in_one_way = len(of) == 1 and of == {line for line, _ in window.full} and not window.touched
        if in_one_way and count < whole and place is not None and place not in of and not self._is_chosen(user):
            told = Clue("window", window.frame, place, (leaf,), (("calls", str(count)), ("whole", str(whole))))
            self._note((place, count, whole), told)
        self._throw(leaf, window, place, user)
        self._parts[leaf].cleared()
        self._windows[leaf] = _Window(full=window.full)

    def _throw(self, leaf: int, window: _Window, place: Place | None, user: FrameType | None) -> None:
        """Nobody has used them where nobody has looked at them, nor written to the leaf since."""
        used = window.touched or window.version != self._version(leaf)
        rounds = self._rounds.get(leaf)
        if rounds is not None and (used or place is None or self._is_chosen(user)):
            rounds.used()
        elif rounds is not None and place is not None:
            rounds.cleared([Thrown(place, line, window.frame, window.apart) for line in window.lines])

    def _version(self, leaf: int) -> int | None:
        tensor = self._tables.tensors.alive(leaf)
        return None if tensor is None else _torch.version(tensor)

    def _tell_thrown(self, leaf: int, lines: list[Place | None]) -> None:
        if leaf not in self._rounds:  # what came before its first step isn't known
            self._rounds[leaf] = ThrownCalls()
            return
        thrown = self._rounds[leaf].stepped(lines)
        if thrown:
            last = thrown[-1]
            count = str(len(thrown) + len(lines)) if last.line in lines else ""
            self._tables.clues.append(Clue("thrown", last.frame, last.place, (leaf,), (("calls", count),)))

    def _is_chosen(self, user: FrameType | None) -> bool:
        """Does its line stand under a condition that isn't one on a count (`if i % 4 == 0:`)?"""
        lines = self._source.text(user.f_code.co_filename).splitlines()[: user.f_lineno] if user is not None else []
        depth = _depth(lines[-1]) if lines else 0
        around = next((each for each in reversed(lines) if each.strip() and _depth(each) < depth), "")
        return around.lstrip().startswith(CHOOSES) and "%" not in around and IS_THERE not in around

    def _note(self, what: tuple[Place, int, int], found: Clue) -> None:
        """Told when it happens again, by as many calls."""
        self._thrown.setdefault(what, []).append(found)
        if SEVERAL <= len(self._thrown[what]) <= MOST_TOLD:
            self._tables.clues.append(found)

    def _find_frozen(self, leaves: list[int]) -> None:
        """A step finds nothing: was all of it switched off when the loss before it was computed?"""
        call = self._call
        looks = self._looks[call.place] = self._looks.get(call.place, 0) + 1
        read = self._read(set(leaves), call) if looks <= MOST_LOOKS else {}
        switches = [self._switch(leaf, frame) for leaf, frame in read.items()]
        off = [each.place for each in switches if each is not None and not each.on and each.place is not None]
        if off and len(off) == len(read):
            self._silent.append(_Silent(call, Clue("frozen", call.end, off[0], tuple(read))))

    def _find_severed(self, leaves: list[int]) -> None:
        """A step finds nothing of the newest call's, which came to what others step: was its loss cut off from it?"""
        call, root = self._call, self._tables.root
        looks = self._severed[call.place] = self._severed.get(call.place, 0) + 1
        if looks <= FEW_LOOKS and root is not None and call.leaves and call.leaves <= self._all_held():
            cut = cut_between(self._tables, root, set(leaves))
            if cut is not None and cut.place is not None and call.place is not None:
                drafts = self._tables.tensors.drafts
                known = (drafts[each] for each in cut.inputs if each in drafts)
                given = next((draft.name for draft in known if draft.requires_grad), None)
                facts = ("op", cut.op), ("given", given or "")
                cuts = Clue("severed", cut.index, cut.place, tuple(leaves), facts)
                self._silent.append(_Silent(call, cuts, Clue("reaches", call.end, call.place, tuple(call.leaves))))

    def _all_held(self) -> frozenset[int]:
        return frozenset[int]().union(*self._held.values())

    def settle(self) -> None:
        """All steps behind the newest backward call have been made: what no step went by is told of."""
        for each in (each for each in self._silent if not each.call.used):
            told = each.told
            if all((clue.kind, clue.place) != (told.kind, told.place) for clue in self._tables.clues):
                self._tables.clues += [told] if each.beside is None else [told, each.beside]
        self._silent.clear()

    def _read(self, leaves: set[int], call: _Newest) -> dict[int, int]:
        """Leaf → the last Frame, of the forward that led to a call, that was given it."""
        drafts = self._tables.frames.drafts
        found = ((number, drafts[number]) for number in range(call.since, call.begin) if number in drafts)
        return {leaf: number for number, each in found if _computes(each) for leaf in leaves & set(each.inputs)}

    def _switch(self, leaf: int, frame: int) -> SwitchDraft | None:
        """Who had switched it last, by that Frame."""
        switches = (each for each in reversed(self._tables.switches) if each.kind == "tensors" and each.frame <= frame)
        return next((each for each in switches if leaf in each.tensors), None)


def _computes(frame: FrameDraft) -> bool:
    return frame.phase == "forward" and frame.op not in HANDS_ON


def _depth(text: str) -> int:
    return len(text) - len(text.lstrip())
