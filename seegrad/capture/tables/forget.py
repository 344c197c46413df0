"""What a long program has left behind is forgotten, so that recording it takes no more memory than one lap.

A lap ends when a backward call returns; `autograd.grad`, of which one lap may make many, ends one only where it's all
that is called, and so does a call that raises: what it fails by may lie in the lap before. Kept are the last two laps,
the graph that still lives, and the Frames in which something went wrong; of older Frames only those in which something
that still lives was made. However long what comes after a training is, a validation, an attack or another training, its
last lap is kept: what is true of it doesn't depend on what follows. A training is known by the lines that its backward
call came by.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Hashable, Iterable, Set
from itertools import chain

from seegrad.capture.tables import Tables
from seegrad.capture.tables.frames import GradientUseDraft, SwitchDraft

PATIENCE = 2_000
"""Frames that may come together before any is forgotten: all that a lesson or one training step makes."""

LONGEST_LAP = 20_000
"""Frames of one lap that are kept although nothing of them lives any more."""

WORTH = 10
"""Of the Frames at least the tenth part must be older than what is kept, or nothing is forgotten."""

MOST_TRAININGS = 8
"""Trainings whose last laps are kept: those that went on last."""

MAX_TROUBLES = 20
"""Frames with corrupted gradients that are kept: the first ones."""


class Forgetting:
    """Decides when to look, and what may go."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._laps = [0, 0]  # the Frames at which the last lap and the one before it began
        self._calls = [0, 0]  # the same, with `autograd.grad` as the end of one
        self._last: dict[Hashable, range] = {}  # of each training the last lap, the newest behind
        self._open: Hashable = None  # the training whose last lap no other call has followed so far
        self._ends: list[int] = []  # the Frames with which backward calls have ended since it was forgotten last
        self.look_at = PATIENCE  # so many Frames: before, there's nothing to do

    def lap(self, way: Hashable, began: int, *, ends: bool) -> None:
        """A call is over that came by this way and began behind that Frame: a backward that returned `ends` a lap."""
        self._ends.append(self._tables.frames.now)
        self._calls = [self._calls[-1], self._tables.frames.next]
        self._close(began)
        if not ends:
            return
        self._laps = [self._laps[-1], self._calls[-1]]
        self._last.pop(way, None)
        self._last[way] = range(*self._laps)
        self._open = way
        if len(self._last) > MOST_TRAININGS:
            del self._last[next(iter(self._last))]

    def _close(self, began: int) -> None:
        """To the newest lap belongs what its gradients were used for, up to that Frame; what follows is another's."""
        lap = self._last.get(self._open)
        if lap is not None:
            used = (use.frame for use in reversed(self._tables.uses) if use.frame < began)
            self._last[self._open] = range(lap.start, max(lap.stop, next(used, 0) + 1))
        self._open = None

    def look(self) -> None:
        """Forget, and look again when the Frames have doubled: the work stays in proportion to the program."""
        frames = self._tables.frames
        horizon, beside = self._horizon(), self._beside()
        older = sum(1 for number in chain(frames.drafts, frames.ran) if number < horizon and number not in beside)
        if older > len(frames) // WORTH:  # else all of it would be gone through for little
            forget(self._tables, horizon, self._ends, beside)
            self._ends = [end for end in self._ends if end >= horizon]
        self.look_at = max(PATIENCE, 2 * len(frames))

    def _horizon(self) -> int:
        """The Frame from which on all is kept."""
        began, ended = self._laps
        since = self._tables.frames.next - LONGEST_LAP
        return began if ended and began >= since else max(self._calls[0], since)

    def _beside(self) -> set[int]:
        """Older Frames that are kept: of each training the last lap."""
        kept = set[int]()
        for way, lap in reversed(self._last.items()):
            size = 2 * len(lap) if way == self._open else len(lap)
            if len(kept) + size <= 2 * LONGEST_LAP:
                kept.update(range(lap.start, lap.start + size))
        return kept


def forget(tables: Tables, horizon: int, ends: Iterable[int] = (), beside: Set[int] = frozenset()) -> None:
    """Drop what is older than Frame `horizon`, dead, and without fault, but what lies `beside`.

    `ends`: the last Frames of backward calls.
    """
    tables.frames.whole(horizon, tables.kept | beside)
    storages = tables.tensors.forget_dead()
    tables.saved.forget_dead(storages)
    tables.tensors.uninitialised &= storages
    frames = {0} | {number for number in tables.frames.drafts if number >= horizon or number in beside}
    frames |= _troubles(tables)
    living = tables.tensors.living() | tables.lasting
    nodes = _nodes(tables, frames, living)
    writes = _writes(tables, frames, nodes)
    steps = [use.frame for use in tables.uses if use.kind == "stepped"]
    tables.laps += [end for end in steps or ends if end < horizon]
    tables.switches, tables.uses = _switches(tables, horizon, beside), _uses(tables, horizon, beside)
    tensors = _tensors(tables, frames, nodes, writes, living)
    frames |= _needed_frames(tables, nodes, writes, tensors)
    tables.rewarded = (tables.rewarded | _rewarded(tables)) & tensors
    tables.frames.outlive(nodes, tensors, frames)
    tables.hooks.forget(tensors)
    tables.nodes.forget(nodes)
    tables.tensors.forget(tensors)
    tables.frames.keep(frames)
    tables.laps = _left_of(tables.laps, frames)
    tables.writes.forget(writes)


def _troubles(tables: Tables) -> set[int]:
    drafts = tables.frames.drafts
    corrupted = [number for number, draft in drafts.items() if draft.corrupted or draft.spoiled][:MAX_TROUBLES]
    return {
        number for number in (*corrupted, *tables.kept, *(error.frame for error in tables.errors)) if number in drafts
    }


def _nodes(tables: Tables, frames: set[int], living: set[int]) -> set[int]:
    """Nodes that kept Frames speak of or that made living tensors, with all that is behind them."""
    drafts = tables.nodes.drafts
    waiting = [number for number, node in drafts.items() if not living.isdisjoint(node.outputs)]
    for number in frames:
        frame = tables.frames.drafts[number]
        waiting += frame.nodes if frame.running is None else (*frame.nodes, frame.running)
    kept: set[int] = set()
    while waiting:
        number = waiting.pop()
        if number in drafts and number not in kept:
            kept.add(number)
            waiting += [target for _, target, _ in drafts[number].edges if target is not None]
    return kept


def _writes(tables: Tables, frames: set[int], nodes: set[int]) -> set[int]:
    """Writes of kept Frames, and those that came after a kept Node had saved what they hit."""
    since: dict[int, int] = {}
    for node in (tables.nodes.drafts[number] for number in nodes):
        for _, _, _, storage, *_ in node.kept:
            since[storage] = min(node.frame, since.get(storage, node.frame))
    drafts = tables.writes.drafts
    return {
        number
        for number, write in drafts.items()
        if write.frame in frames or write.frame > since.get(write.storage, write.frame)
    }


def _tensors(tables: Tables, frames: set[int], nodes: set[int], writes: set[int], living: set[int]) -> set[int]:
    """Living tensors and those that anything kept speaks of, with what they are aliases of."""
    waiting: list[int | None] = [*living, tables.root]
    waiting += [leaf for use in tables.uses for leaf, _ in use.tensors]
    waiting += chain.from_iterable(each.tensors for each in tables.switches)
    waiting += chain.from_iterable(each.tensors for each in tables.collected)
    waiting += chain.from_iterable(each.tensors for each in tables.clues)
    for number in frames:
        frame = tables.frames.drafts[number]
        waiting += [*frame.inputs, *frame.outputs, *frame.wanted]
        waiting += [*(frame.shown or ()), *(each[0] for each in frame.given)]
    for node in (tables.nodes.drafts[number] for number in nodes):
        waiting += [*node.inputs, *node.outputs, node.leaf, *(kept[1] for kept in node.kept)]
    waiting += [tables.writes.drafts[number].tensor for number in writes]
    kept: set[int] = set()
    while waiting:
        number_or_none = waiting.pop()
        if number_or_none is not None and number_or_none in tables.tensors.drafts and number_or_none not in kept:
            kept.add(number_or_none)
            waiting.append(tables.tensors.drafts[number_or_none].alias_of)
    return kept


def _rewarded(tables: Tables) -> set[int]:
    """The leaves that a gradient came to, or that were asked for one."""
    nodes = tables.nodes.drafts
    ran = (nodes[node].leaf for node in tables.frames.last_runs() if node in nodes)
    asked = {each[0] for draft in tables.frames.drafts.values() if draft.phase == "backward" for each in draft.given}
    return asked | {leaf for leaf in ran if leaf is not None}


def _switches(tables: Tables, horizon: int, beside: Set[int]) -> list[SwitchDraft]:
    """The new ones, and of the old ones the last of each line: what it has switched may be so still."""
    last = {(each.kind, each.on, each.place): each for each in tables.switches}
    return [
        each
        for each in tables.switches
        if each.frame >= horizon or each.frame in beside or last[each.kind, each.on, each.place] is each
    ]


LASTING = frozenset({"stepped", "idle", "uncalled"})
"""Uses that are looked for now and then alone, or that say who held a Parameter once."""


def _uses(tables: Tables, horizon: int, beside: Set[int]) -> list[GradientUseDraft]:
    """The new ones, and of the old steps (and of optimisers that don't step) each line's last, until its leaves step.

    A model that was trained before and is used now has been held by an optimiser. Several optimisers may step on one
    line, each the last for its own leaves, as long as these live.
    """
    new = [use for use in tables.uses if use.frame >= horizon or use.frame in beside]
    stepped = {leaf for use in new if use.kind == "stepped" for leaf, _ in use.tensors}
    old = (use for use in tables.uses if use.frame < horizon and use.frame not in beside)
    last = {(use.kind, use.place, _living(tables, use)): use for use in old if use.kind in LASTING}
    return [*(use for use in last.values() if stepped.isdisjoint(leaf for leaf, _ in use.tensors)), *new]


def _living(tables: Tables, use: GradientUseDraft) -> tuple[int, ...]:
    return tuple(leaf for leaf, _ in use.tensors if tables.tensors.alive(leaf) is not None)


def _needed_frames(tables: Tables, nodes: set[int], writes: set[int], tensors: set[int]) -> set[int]:
    """The Frames in which what is kept was made, written, hooked, and last run."""
    needed = {tables.tensors.drafts[number].frame for number in tensors}
    needed |= {tables.writes.drafts[number].frame for number in writes}
    needed |= {hook.frame for hook in tables.hooks.drafts.values() if hook.tensor in tensors}
    needed |= {tables.nodes.drafts[number].frame for number in nodes}
    needed |= {switch.frame for switch in tables.switches} | {use.frame for use in tables.uses}
    needed |= {each.frame for each in tables.collected} | {each.frame for each in tables.clues}
    needed |= {each.frame for each in tables.checks} | {each.frame for each in tables.recomputed}
    needed |= {frame for node, frame in tables.frames.last_runs().items() if node in nodes}
    return needed & (tables.frames.drafts.keys() | tables.frames.ran.keys())


def _left_of(laps: Iterable[int], kept: Collection[int]) -> list[int]:
    """The ends of laps → those of laps of which a Frame is kept, as the last such Frame.

    >>> _left_of([4, 9, 14, 19], {2, 3, 12, 30})
    [3, 12]
    """
    left = sorted(kept)
    places = [bisect_right(left, end) for end in laps]
    return sorted({left[place - 1] for place in places if place})
