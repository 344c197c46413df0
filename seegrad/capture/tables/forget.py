"""What a long program has left behind is forgotten, so that recording it takes no more memory than one lap.

A lap ends when a backward call returns. Kept are the last two laps, the graph that still lives, and the Frames in which
something went wrong; of older Frames only those in which something that still lives was made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seegrad.capture.state import RecordingState

PATIENCE = 2_000
"""Frames that may come together before any is forgotten: all that a lesson or one training step makes."""

LONGEST_LAP = 20_000
"""Frames of one lap that are kept although nothing of them lives any more."""

MAX_TROUBLES = 20
"""Frames with corrupted gradients that are kept: the first ones."""


class Forgetting:
    """Decides when to look, and what may go."""

    def __init__(self) -> None:
        self.laps = [0, 0]  # the Frames at which the last lap and the one before it began
        self._look_at = PATIENCE

    def lap(self, state: RecordingState) -> None:
        """A backward call has returned."""
        self.laps = [self.laps[-1], state.frames.next]

    def now_and_then(self, state: RecordingState) -> None:
        """Forget when the Frames have doubled since the last time: the work stays in proportion to the program."""
        if len(state.frames) < self._look_at:
            return
        forget(state, max(self.laps[0], state.frames.next - LONGEST_LAP))
        self._look_at = max(PATIENCE, 2 * len(state.frames))


def forget(state: RecordingState, horizon: int) -> None:
    """Drop what is older than Frame `horizon`, dead, and without fault."""
    state.frames.whole(horizon)
    storages = state.tensors.forget_dead()
    state.saved.forget_dead(storages)
    state.uninitialised &= storages
    frames = {0} | {number for number in state.frames.drafts if number >= horizon} | _troubles(state)
    living = state.tensors.living()
    nodes = _nodes(state, frames, living)
    writes = _writes(state, frames, nodes)
    tensors = _tensors(state, frames, nodes, writes, living)
    frames |= _needed_frames(state, nodes, writes, tensors)
    state.hooks = [hook for hook in state.hooks if hook.tensor in tensors]
    state.nodes.forget(nodes)
    state.tensors.forget(tensors)
    state.frames.keep(frames)
    state.writes.drafts = {number: draft for number, draft in state.writes.drafts.items() if number in writes}


def _troubles(state: RecordingState) -> set[int]:
    drafts = state.frames.drafts
    corrupted = [number for number, draft in drafts.items() if draft.corrupted or draft.spoiled][:MAX_TROUBLES]
    return {number for number in (*corrupted, *(error.frame for error in state.errors)) if number in drafts}


def _nodes(state: RecordingState, frames: set[int], living: set[int]) -> set[int]:
    """Nodes that kept Frames speak of or that made living tensors, with all that is behind them."""
    drafts = state.nodes.drafts
    waiting = [number for number, node in drafts.items() if not living.isdisjoint(node.outputs)]
    for number in frames:
        frame = state.frames.drafts[number]
        waiting += frame.nodes if frame.running is None else (*frame.nodes, frame.running)
    kept: set[int] = set()
    while waiting:
        number = waiting.pop()
        if number in drafts and number not in kept:
            kept.add(number)
            waiting += [target for _, target, _ in drafts[number].edges if target is not None]
    return kept


def _writes(state: RecordingState, frames: set[int], nodes: set[int]) -> set[int]:
    """Writes of kept Frames, and those that came after a kept Node had saved what they hit."""
    since: dict[int, int] = {}
    for node in (state.nodes.drafts[number] for number in nodes):
        for saved in node.saved:
            since[saved.storage] = min(node.frame, since.get(saved.storage, node.frame))
    drafts = state.writes.drafts
    return {
        number
        for number, write in drafts.items()
        if write.frame in frames or write.frame > since.get(write.hit.storage, write.frame)
    }


def _tensors(state: RecordingState, frames: set[int], nodes: set[int], writes: set[int], living: set[int]) -> set[int]:
    """Living tensors and those that anything kept speaks of, with what they are aliases of."""
    waiting: list[int | None] = [*living, state.root]
    for number in frames:
        frame = state.frames.drafts[number]
        waiting += [*frame.inputs, *frame.outputs, *frame.wanted]
        waiting += [*(frame.shown or ()), *(each[0] for each in frame.gradients)]
    for node in (state.nodes.drafts[number] for number in nodes):
        waiting += [*node.inputs, *node.outputs, node.leaf, *(saved.tensor for saved in node.saved)]
    waiting += [state.writes.drafts[number].hit.tensor for number in writes]
    kept: set[int] = set()
    while waiting:
        number_or_none = waiting.pop()
        if number_or_none is not None and number_or_none in state.tensors.drafts and number_or_none not in kept:
            kept.add(number_or_none)
            waiting.append(state.tensors.drafts[number_or_none].alias_of)
    return kept


def _needed_frames(state: RecordingState, nodes: set[int], writes: set[int], tensors: set[int]) -> set[int]:
    """The Frames in which what is kept was made, written, hooked, and last run."""
    needed = {state.tensors.drafts[number].frame for number in tensors}
    needed |= {state.writes.drafts[number].frame for number in writes}
    needed |= {hook.frame for hook in state.hooks if hook.tensor in tensors}
    needed |= {state.nodes.drafts[number].frame for number in nodes}
    needed |= {frame for node, frame in state.frames.last_runs().items() if node in nodes}
    return needed & (state.frames.drafts.keys() | state.frames.ran.keys())
