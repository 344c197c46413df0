"""What `torch.utils.checkpoint` computes again in a backward, beside what the forward has computed: is it the same?

A checkpoint keeps no results; it runs its function once more when a backward needs them. Where that run differs (other
random numbers, a counter that went on, a switch), torch compares shapes and dtypes alone. The non-reentrant kind is
seen: what packs its saved tensors knows which run it is.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from types import FrameType
from typing import Any

import torch
import torch.utils.checkpoint
from torch.overrides import TorchFunctionMode

from seegrad.capture.op import EMPTY, RUNNING_STATISTICS, call_of
from seegrad.capture.probes import torch_private as _torch
from seegrad.capture.probes.places import Source, call_as, caller, user_frame, user_frames
from seegrad.capture.probes.refusals import decided_by, drawn_by, switched_off
from seegrad.capture.probes.variables import tensors_in
from seegrad.capture.tables import Tables
from seegrad.model.recording import Place, Recomputed

MOST_STEPS = 10_000
"""Calls of one checkpoint that are compared."""

LARGEST = 1 << 16
"""Numbers of a result whose sum is compared; of bigger ones, and on a device, the shape is."""

NEAR = 1e-3
"""How far a sum may be off, in proportion to all its numbers: other threads add up in another order."""

FIRST = "_checkpoint_hook."
"""Who packs the tensors of a first run."""

KEEPS = "preserve_rng_state"
"""What a checkpoint is asked by whether it puts back torch's random generators for its second run."""

RECORDED = frozenset({"op", "told"})
"""Kinds of calls that become Frames: both runs are watched by one measure."""

OWN_CODE = (torch.utils.checkpoint.__file__, torch.random.__file__)


@dataclass(frozen=True, slots=True)
class RunStep:
    """One call in a checkpoint: what was called, in which Frame, what came out."""

    frame: int
    op: str
    shapes: tuple[tuple[object, ...], ...]  # with the dtype
    sums: tuple[tuple[float, float], ...]
    has_graph: bool
    place: Place | None = None  # of the second run
    reads: tuple[int, ...] = ()  # the tensors known before that it was given then

    def differs(self, other: RunStep) -> bool:
        """Are the numbers others?"""
        return any(
            abs(mine[0] - its[0]) > NEAR * max(mine[1], its[1])
            for mine, its in zip(self.sums, other.sums, strict=False)
        )


class Recomputations:
    """The checkpoints whose graphs live, with all calls of their first run."""

    def __init__(self, tables: Tables, source: Source, quietly: Callable[..., Any]) -> None:
        self._tables, self.source, self._quietly = tables, source, quietly
        self._first = weakref.WeakKeyDictionary[Any, list[RunStep]]()

    def ran(self, op: str, frame: int, result: Any) -> None:
        """A call has returned; does it belong to a checkpoint's first run?"""
        pack = _torch.packs()
        if pack is None or not getattr(pack, "__qualname__", "").startswith(FIRST) or op in EMPTY:
            return
        checkpoint = _held(pack, "frame")
        if checkpoint is not None:
            if not isinstance(checkpoint.recompute_fn, SecondRun):
                self._first[checkpoint] = []
                checkpoint.recompute_fn = SecondRun(self, checkpoint, self._quietly, self._unkept(checkpoint))
                if checkpoint.metadata_fn is not None:
                    checkpoint.metadata_fn = SavedTwice(self, checkpoint, self._quietly)
            steps = self._first.get(checkpoint)
            made = tensors_in(result)
            if steps is not None and made and len(steps) < MOST_STEPS:
                steps.append(_step(op, frame, made))

    def _unkept(self, checkpoint: Any) -> Place | None:
        """The line that has a checkpoint leave the random generators as they are; None where it puts them back."""
        if _held(checkpoint.recompute_fn, KEEPS) is not False:
            return None
        call: FrameType | None = sys._getframe()
        while call is not None and call.f_code.co_filename != torch.utils.checkpoint.__file__:
            call = call.f_back
        return switched_off(self.source, user_frames(call, None), KEEPS)

    def end(self) -> None:
        """Nothing more is to be seen."""
        for checkpoint in list(self._first):
            checkpoint.recompute_fn = checkpoint.recompute_fn.function
            if isinstance(checkpoint.metadata_fn, SavedTwice):
                checkpoint.metadata_fn = checkpoint.metadata_fn.function

    def compare(self, checkpoint: Any, again: Sequence[RunStep], *, is_whole: bool) -> None:
        """A checkpoint has run again, `is_whole`: to its end. Tell of the first call that differs, if one does."""
        first = self._first.pop(checkpoint, None)
        if first is not None:
            found = self._difference(first, again, is_whole=is_whole)
            unkept = checkpoint.recompute_fn.redrawn()
            self._tables.recomputed += [replace(each, unkept=unkept) for each in found]
            if isinstance(checkpoint.metadata_fn, SavedTwice):
                checkpoint.metadata_fn.is_told = bool(found)

    def step(self, saved: torch.Tensor) -> RunStep:
        """What the call that is made now saves."""
        return _step("", self._tables.frames.next, [saved])

    def differs(self, first: RunStep, unkept: Place | None) -> bool:
        """What that call saved has other numbers the second time; its statistics may, no gradient reads them."""
        draft = self._tables.frames.drafts.get(first.frame)
        if draft is not None and draft.op not in RUNNING_STATISTICS:
            self._tables.recomputed.append(Recomputed(first.frame, draft.op, draft.op, "numbers", unkept=unkept))
            return True
        return False

    def _difference(self, first: Sequence[RunStep], again: Sequence[RunStep], *, is_whole: bool) -> list[Recomputed]:
        graph, other = ([step for step in steps if step.has_graph] for steps in (first, again))
        for step, its in zip(graph, other, strict=False):
            if (step.op, step.shapes) != (its.op, its.shapes):
                how = "shape" if step.op == its.op else "op"
                left = self._left(first, its)
                drawn = self._drawn(step, its) if how == "op" else None
                return [Recomputed(step.frame, step.op, its.op, how, left, drawn)]  # type: ignore[arg-type]  # one of them
            if step.differs(its):
                cause = self._cause(step, its, first, again)
                return [Recomputed(cause.frame, cause.op, cause.op, "numbers", None, self._drawn(cause))]
        if is_whole and len(other) < len(graph):
            missing = graph[len(other)]
            place = self._tables.frames.drafts[missing.frame].place
            decided = decided_by(self.source, place) if place is not None else None
            return [Recomputed(missing.frame, missing.op, "", "fewer", decided, self._drawn(missing))]
        return []

    def _drawn(self, *steps: RunStep) -> Place | None:
        """The line that draws, of what decides whether these are reached."""
        drafts = self._tables.frames.drafts
        places = [drafts[step.frame].place if step.frame in drafts else step.place for step in steps]
        found = (drawn_by(self.source, place) for place in places if place is not None)
        return next((place for place in found if place is not None), None)

    def _left(self, first: Sequence[RunStep], its: RunStep) -> Place | None:
        """The line that reads in the second run what was made in the first."""
        frames, drafts = {step.frame for step in first}, self._tables.tensors.drafts
        return its.place if any(number in drafts and drafts[number].frame in frames for number in its.reads) else None

    def known(self, tensors: Sequence[torch.Tensor]) -> tuple[int, ...]:
        """Those that the first run, or anything else, has shown."""
        found = (self._tables.tensors.find(each) for each in tensors)
        return tuple(number for number in found if number is not None)

    def _cause(self, step: RunStep, its: RunStep, first: Sequence[RunStep], again: Sequence[RunStep]) -> RunStep:
        """The first call without a graph that differs and leads to that one; itself where there's none."""
        before, then = list(first[: first.index(step)]), list(again[: again.index(its)])
        if [each.op for each in before] != [each.op for each in then]:
            return step
        frames, found = self._tables.frames.drafts, step
        needed = set(frames[step.frame].inputs) if step.frame in frames else set[int]()
        for mine, other in reversed(list(zip(before, then, strict=True))):
            draft = frames.get(mine.frame)
            if draft is not None and not needed.isdisjoint(draft.outputs) and not mine.has_graph:
                needed |= set(draft.inputs)
                found = mine if mine.differs(other) else found
        return found


def _held(function: Any, name: str) -> Any:
    """What a function has closed over under that name."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=False))
    return cells[name].cell_contents if name in cells else None


def _step(op: str, frame: int, results: Sequence[torch.Tensor]) -> RunStep:
    shapes = tuple((*each.shape, each.dtype) for each in results)
    real = [each for each in results if each.dtype.is_floating_point]
    sums = tuple(_sums(each.detach()) for each in real) if all(map(_is_small, real)) else ()
    return RunStep(frame, op, shapes, sums, any(each.requires_grad for each in results))


def _is_small(tensor: torch.Tensor) -> bool:
    return tensor.numel() <= LARGEST and _torch.is_readable(tensor)


def _sums(tensor: torch.Tensor) -> tuple[float, float]:
    numbers = tensor.double()
    weights = torch.arange(1, numbers.numel() + 1, dtype=torch.float64) / max(1, numbers.numel())
    return float((numbers.flatten() * weights).sum()), float(numbers.abs().sum())


def _random_states() -> list[torch.Tensor]:
    """Of torch's own generators."""
    on_cuda = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]  # torch gives it no types
    with suppress(RuntimeError):  # not while a CUDA graph is captured
        return [torch.get_rng_state(), *(torch.cuda.get_rng_state_all() if on_cuda else ())]
    return []


class SecondRun:
    """What a checkpoint calls in place of its function, to compute again: that function, watched."""

    def __init__(
        self, recomputations: Recomputations, checkpoint: Any, quietly: Callable[..., Any], unkept: Place | None
    ) -> None:
        self._recomputations, self._quietly, self._unkept = recomputations, quietly, unkept
        self._checkpoint = weakref.ref(checkpoint)
        self._before: list[torch.Tensor] = []
        self.function: Callable[..., Any] = checkpoint.recompute_fn

    def redrawn(self) -> Place | None:
        """The line that has it leave the random generators as they are, where it has drawn from one."""
        is_drawn = self._unkept is not None and not all(map(torch.equal, self._before, _random_states()))
        return self._unkept if is_drawn else None

    def __call__(self, *args: Any) -> Any:
        """Run it again."""
        steps, is_whole = list[RunStep](), False
        if self._unkept is not None:
            self._before = self._quietly(_random_states) or []
        try:
            with SecondRunMode(steps, self._recomputations, self._quietly):
                result = self.function(*args)
            is_whole = True
            return result
        finally:  # torch ends it by an error of its own, as soon as it has what it needs
            compare = partial(self._recomputations.compare, is_whole=is_whole)
            self._quietly(compare, self._checkpoint(), steps)


class SavedTwice:
    """What a checkpoint asks for the shape and dtype of each tensor that is saved, in both runs.

    Of its last call the second run sees no result: torch ends it as soon as that has saved what it saves.
    """

    def __init__(self, recomputations: Recomputations, checkpoint: Any, quietly: Callable[..., Any]) -> None:
        self._recomputations, self._quietly = recomputations, quietly
        self._checkpoint = weakref.ref(checkpoint)
        self._first: dict[int, RunStep] = {}  # of how many were saved before it
        self._again = 0
        self.function: Callable[..., Any] = checkpoint.metadata_fn
        self.is_told = False

    def __call__(self, saved: torch.Tensor) -> Any:
        """Its shape and dtype."""
        self._quietly(self._note, saved)
        return self.function(saved)

    def _note(self, saved: torch.Tensor) -> None:
        checkpoint = self._checkpoint()
        if checkpoint is None or self.is_told:
            return
        if not checkpoint.forward_completed:
            self._first[len(checkpoint.x_metadatas)] = self._recomputations.step(saved)
            return
        first, self._again = self._first.get(self._again), self._again + 1
        now = self._recomputations.step(saved)
        if first is not None and first.shapes == now.shapes and first.differs(now):
            self.is_told = self._recomputations.differs(first, checkpoint.recompute_fn.redrawn())


class SecondRunMode(TorchFunctionMode):
    """Notes each call of torch."""

    def __init__(self, steps: list[RunStep], recomputations: Recomputations, quietly: Callable[..., Any]) -> None:
        super().__init__()
        self._steps, self._recomputations, self._quietly = steps, recomputations, quietly

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        frame = caller(sys._getframe(1))
        result = call_as(frame, func, args, kwargs or {})
        if frame.f_code.co_filename not in OWN_CODE:
            self._quietly(self._ran, func, args, frame, result)
        return result

    def _ran(self, func: Callable[..., Any], args: tuple[Any, ...], frame: FrameType, result: Any) -> None:
        call = call_of(func)
        if call.kind in RECORDED and call.name not in EMPTY and len(self._steps) < MOST_STEPS:
            place, reads = self._recomputations.source.place(user_frame(frame)), tensors_in(args)
            if made := tensors_in(result):  # torch's own first time may make a `torch.device`, and what not
                step = _step(call.name, -1, made)
                self._steps.append(replace(step, place=place, reads=self._recomputations.known(reads)))
