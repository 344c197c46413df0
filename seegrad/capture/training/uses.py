"""What a training loop does with gradients once they are there: an optimiser steps, somebody clears or clips them.

Neither needs to be a call of torch that writes: a step that finds no gradient does nothing at all. So torch is asked to
say of each optimiser when it steps; a gradient is cleared by setting `.grad`, which the recorder sees.
"""

from __future__ import annotations

import re
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import torch
from torch.nn.utils.clip_grad import clip_grad_norm_
from torch.optim.lr_scheduler import LRScheduler
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from seegrad.capture.probes import torch_private as _torch
from seegrad.capture.probes.places import Source, is_users
from seegrad.capture.probes.source_text import call_of, texts
from seegrad.capture.probes.variables import Reach, is_a, tensors_in
from seegrad.capture.tables import Tables
from seegrad.capture.tables.frames import FrameDraft, GradientUseDraft, Held, is_shown
from seegrad.capture.training.leaving.summed import SummedReads
from seegrad.capture.training.steps.masked import MaskedWeights
from seegrad.capture.training.steps.rescaled import RescaledClips, UsedUp
from seegrad.capture.training.windows import Windows
from seegrad.model.recording import Place

ZEROING = frozenset({"zero_", "_foreach_zero_"})
"""Calls that clear a gradient without taking it away."""

CLIPPING = clip_grad_norm_.__code__.co_filename
"""The file of torch's whose in-place ops clip gradients."""

UNSCALING = "_amp_foreach_non_finite_check_and_unscale_"
"""What a GradScaler divides gradients with, when it's asked to or when it steps."""

CLEARS = re.compile(r"\.grad(?: is (?:not )?None|(?:\.data|\.detach\(\))?\.(?:zero_|detach_|requires_grad_)\()")
"""A gradient that is looked at in order to clear it."""

At = tuple[int, Place | None]
"""When and where."""

MOST_ZEROED = 10_000
"""So many storages are remembered as zeroed: more, and they were no gradients."""

MOST_TIMES = 64
"""So often each."""


def on_step(
    begins: Callable[[Optimizer, FrameType], None], ends: Callable[[Optimizer, FrameType], None]
) -> Callable[[], None]:
    """From now on, tell of each optimiser in this thread that is about to step, and when it has; torch's frame too.

    What's returned ends it. A step that raises doesn't end. The user's hooks run in between.
    """
    thread = threading.get_ident()

    def before(optimiser: Optimizer, _args: Any, _kwargs: Any) -> None:
        if not torch.compiler.is_compiling() and threading.get_ident() == thread:
            begins(optimiser, sys._getframe(1))

    def after(optimiser: Optimizer, _args: Any, _kwargs: Any) -> None:
        if not torch.compiler.is_compiling() and threading.get_ident() == thread:
            ends(optimiser, sys._getframe(1))

    handles = register_optimizer_step_pre_hook(before), register_optimizer_step_post_hook(after)

    def end() -> None:
        for handle in handles:
            handle.remove()

    return end


class GradientUses:
    """All that was done with gradients, in order."""

    def __init__(self, tables: Tables, source: Source) -> None:
        self._tables, self._source = tables, source
        self._zeroed: dict[int, list[At]] = {}  # storage → when, where; no step has told of it yet
        self._used: dict[int, int] = {}  # storage of a gradient that a step has used → its leaf
        self._read: dict[int, int] = {}  # storage of a gradient that was looked at → its leaf
        self._clips: dict[int, tuple[int, At]] = {}  # storage → its version after the clip, when and where that was
        self._clipped: dict[
            int, tuple[At, At]
        ] = {}  # storage of one that was scaled when it was clipped → clip, unscale
        self._early: dict[int, At] = {}  # leaf → when and where it was to be clipped, and no gradient was there
        self._schedules: list[tuple[weakref.ref[LRScheduler], int]] = []  # those that were there at the start, how far
        self._scaled = False
        self.windows, self._rescaled = Windows(tables, source), RescaledClips(tables)
        self.masks, self._used_up = MaskedWeights(tables), UsedUp(source)
        self._summed = SummedReads(tables, source)
        self._first = weakref.WeakSet[Optimizer]()  # those that have stepped: asked at their first step alone

    def start(self, frame: FrameType | None) -> None:
        """The block begins: how far the schedules are."""
        found = (each for _, each in schedulers(Reach([] if frame is None else [frame])))
        self._schedules = [(weakref.ref(each), each.last_epoch) for each in found]

    def schedules(self, optimiser: Optimizer, reach: Reach) -> None:
        """Before an optimiser's first step: has its schedule gone on already?"""
        if self.has_met(optimiser):
            return
        self._first.add(optimiser)
        for name, each in schedulers(reach):
            began = next((epoch for ref, epoch in self._schedules if ref() is each), None)
            early = each.last_epoch == 1 and (began == 0 or (began is None and not optimiser.state))
            if each.optimizer is optimiser and early:
                place = call_of(self._source, texts(self._source, reach.frames, None), name.rpartition(".")[2], "step")
                leaves = [leaf for group in optimiser.param_groups for leaf in group["params"]]
                numbers = [(self._tables.tensors.find(leaf), None) for leaf in leaves]
                held = tuple((number, None) for number, _ in numbers if number is not None)
                self._tables.uses.append(GradientUseDraft("scheduled", self._now, place, held))
                return

    def stepped(self, optimiser: Optimizer, user: FrameType | None) -> None:
        """An optimiser is about to step; the leaves that no call has shown don't count."""
        leaves = [leaf for group in optimiser.param_groups for leaf in group["params"]]
        numbers = [(self._tables.tensors.find(leaf), leaf) for leaf in leaves]
        known = [(number, leaf) for number, leaf in numbers if number is not None]
        self._tell_zeroed(known)
        self._tell_clipped(known)
        self._tell_early(known)
        self._used_up.stepped()
        gradients = {key: number for number, leaf in known if (key := _storage(leaf.grad)) is not None}
        self._rescaled.stepped(gradients)
        self._summed.used(gradients)
        self._used.update(gradients)
        held = tuple((number, _version(leaf)) for number, leaf in known)
        self.windows.stepped(optimiser, known)
        self.masks.stepped(known, self._source.place(user))
        self._tables.uses.append(GradientUseDraft("stepped", self._now, self._source.place(user), held))

    def cleared(self, leaf: torch.Tensor, user: FrameType | None) -> None:
        """A gradient is about to be forgotten."""
        number = self._tables.tensors.find(leaf)
        if number is not None and leaf.grad is not None:
            self._used.pop(_storage(leaf.grad) or 0, None)
            self._rescaled.forget(_storage(leaf.grad) or 0)
            self._summed.gone(_storage(leaf.grad) or 0)
            self._tell_zeroed([(number, leaf)])
            self.windows.cleared(number, user)
            self._clear((self._now, self._source.place(user)), (number, _version(leaf)))

    def replaced(self, leaf: torch.Tensor, new: torch.Tensor) -> None:
        """Another gradient is about to take its place: no step will find the zeros that were written into this one."""
        if self._rescaled.wait and leaf.grad is not None:
            self._rescaled.replaced(leaf.grad, new)
        if self._summed.watches and (leaf.retains_grad or self._tables.tensors.is_leaf(leaf)):  # else torch would warn
            self._summed.gone(_storage(leaf.grad) or 0)
        number = self._tables.tensors.find(leaf) if self._zeroed else None
        if number is not None and leaf.grad is not None:
            self._tell_zeroed([(number, leaf)])

    def read(self, leaf: torch.Tensor, caller: FrameType) -> None:
        """A gradient is about to be looked at: by the user's own code it may be put to use."""
        self._remember(leaf)
        number = self._tables.tensors.find(leaf) if is_users(caller.f_code.co_filename) else None
        place = self._source.place(caller) if number is not None else None
        if number is not None and not (place is not None and _only_clears(place.code)):
            self._early.pop(number, None)  # perhaps it's clipped by hand
            self.windows.used(number)
            if place is not None:
                self._summed.read(leaf, number, place)
            nothing = self._used_up.read(leaf, caller)
            if nothing is not None:
                self._tables.uses.append(GradientUseDraft("clipped", self._now, nothing, ()))
            last = self._tables.uses[-1:]
            if not last or (last[0].kind, last[0].place) != ("read", place):
                self._tables.uses.append(GradientUseDraft("read", self._now, place, ((number, None),)))

    def _remember(self, leaf: torch.Tensor) -> None:
        """Whose gradient it is, should somebody write to it."""
        key, number = _storage(leaf.grad), self._tables.tensors.find(leaf)
        if key is not None and number is not None:
            if len(self._read) > MOST_ZEROED:
                self._read.clear()
            self._read[key] = number

    def written(self, frame: FrameDraft, tensor: torch.Tensor) -> None:
        """A call has written to a tensor: where that is a leaf's gradient, `.grad` shows what it holds from now on."""
        key = _torch.storage_key(tensor) if self._read else None
        if key is not None:
            self._summed.written(key)
        number = None if key is None else self._read.get(key)
        leaf = None if number is None else self._tables.tensors.alive(number)
        held = None if leaf is None else leaf.grad
        if number is not None and held is not None and _storage(held) == key and (frame.look or is_shown(held)):
            frame.give(number, held, kept=True)

    def has_stepped(self, optimiser: Optimizer) -> bool:
        """Was it seen to step, or does a scaler step for it when it likes?"""
        return optimiser in self._first or self._scaled

    def has_met(self, optimiser: Optimizer) -> bool:
        """Was it seen to step?"""
        return optimiser in self._first

    def scaled(self, op: str, args: tuple[Any, ...], user: FrameType | None) -> None:
        """The user's code multiplies something: of interest where it is clipped gradients, or weights."""
        if len(args) > 1:
            self.masks.multiplied(args, self._source.place(user))
        if self._rescaled.wait and len(args) > 1:
            self._rescaled.scaled(op, tensors_in(args[:1]), args[1], (self._now, self._source.place(user)))

    def clipped(self, tensors: Sequence[torch.Tensor], frame: FrameType, user: FrameType | None) -> None:
        """Torch clips these; told of those that a step has used and that nobody has cleared since.

        Of the others it's remembered: whether they are scaled, unscaling them shows.
        """
        at = self._now, self._source.place(user)
        self._early.clear()
        self._rescaled.clipped(tensors[:MOST_ZEROED], frame, at)
        self.windows.clipped({key for each in tensors[:MOST_ZEROED] if (key := _storage(each))}, frame, at[1])
        for each in tensors[:MOST_ZEROED]:
            key, version = _storage(each), _torch.version(each)
            if key is not None and version is not None:
                self._clips[key] = version + 1, at
        numbers = [(self._used.get(_storage(each) or 0), each) for each in tensors]
        held = tuple((number, _torch.version(each)) for number, each in numbers if number is not None)
        if held:
            self._tables.uses.append(GradientUseDraft("clipped", self._now, self._source.place(user), held))

    def clipped_nothing(self, frame: FrameType, user: FrameType | None) -> None:
        """Torch makes the norm of no gradients; told where there was no Parameter either, else when they are used."""
        caller: FrameType | None = frame
        while caller is not None and caller.f_code.co_filename == CLIPPING:
            given = caller.f_locals.get("parameters")
            if type(given) is list:
                at = self._now, self._source.place(user)
                found = (self._tables.tensors.find(each) for each in given[:MOST_ZEROED])
                self._early.update((number, at) for number in found if number is not None)
                if not given:
                    self._tables.uses.append(GradientUseDraft("clipped", *at, ()))
                return
            caller = caller.f_back

    def zeroed(self, tensors: Sequence[torch.Tensor], user: FrameType | None) -> None:
        """These become zeros; which of them are gradients, the next step shows."""
        at = self._now, self._source.place(user)
        if len(self._zeroed) > MOST_ZEROED:
            self._zeroed.clear()
        keys = list(filter(None, map(_storage, tensors)))
        self.windows.zeroed(keys, user)
        for key in keys:
            self._summed.gone(key)
            self._zeroed[key] = [*self._zeroed.get(key, ())[-MOST_TIMES:], at]

    def unscaled(self, tensors: Sequence[torch.Tensor], user: FrameType | None) -> None:
        """A GradScaler divides these; those that have been clipped since they came were scaled then."""
        self._scaled = True
        self.windows.used()
        at = self._now, self._source.place(user)
        for each in tensors if self._clips else ():
            key = _storage(each)
            version, clip = self._clips.pop(key or 0, (None, at))
            if key is not None and version is not None and version == _torch.version(each):
                self._clipped[key] = clip, at

    def _tell_clipped(self, known: Sequence[tuple[int, torch.Tensor]]) -> None:
        found = [
            (self._clipped.pop(key), number) for number, leaf in known if (key := _storage(leaf.grad)) in self._clipped
        ]
        if found:
            (clip, unscale), held = found[0][0], tuple((number, None) for _, number in found)
            self._tables.uses.append(GradientUseDraft("clipped", *clip, held))
            self._tables.uses.append(GradientUseDraft("unscaled", *unscale, held))

    def _tell_early(self, known: Sequence[tuple[int, torch.Tensor]]) -> None:
        times: dict[At, list[Held]] = {}
        for number, leaf in known if self._early else ():
            at = self._early.pop(number, None)
            if at is not None and leaf.grad is not None:
                times.setdefault(at, []).append((number, None))
        for at, held in times.items():
            self._tables.uses.append(GradientUseDraft("early", *at, tuple(held)))

    def _tell_zeroed(self, known: Sequence[tuple[int, torch.Tensor]]) -> None:
        times: dict[At, list[Held]] = {}
        for number, leaf in known if self._zeroed else ():
            for at in self._zeroed.pop(_storage(leaf.grad) or 0, ()):
                times.setdefault(at, []).append((number, _version(leaf)))
        for at in sorted(times, key=lambda each: each[0]):
            self._tables.uses.append(GradientUseDraft("cleared", *at, tuple(times[at])))

    @property
    def _now(self) -> int:
        return self._tables.frames.now

    def _clear(self, at: tuple[int, Place | None], held: Held) -> None:
        """Those of one line are one event."""
        last = self._tables.uses[-1:]
        if last and (last[0].kind, last[0].frame, last[0].place) == ("cleared", *at):
            last[0].tensors = (*last[0].tensors, held)
        else:
            self._tables.uses.append(GradientUseDraft("cleared", *at, (held,)))


def schedulers(reach: Reach) -> list[tuple[str, LRScheduler]]:
    """(name, schedule) for those among the user's variables, and among what the user's objects hold.

    A `ChainedScheduler` doesn't count its epochs itself.
    """
    named = (each for frame in reach.frames for each in reach.of(frame))
    return [(name, value) for name, value in named if is_a(value, LRScheduler) and hasattr(value, "last_epoch")]


def _only_clears(code: str) -> bool:
    """Does a line look at gradients for nothing but to clear them?

    >>> _only_clears("if p.grad is not None: p.grad.zero_()"), _only_clears("p.grad.zero_(); log(p.grad)")
    (True, False)
    """
    return CLEARS.search(code) is not None and ".grad" not in CLEARS.sub("", code)


def _storage(gradient: torch.Tensor | None) -> int | None:
    return None if gradient is None else _torch.storage_key(gradient)


def _version(leaf: torch.Tensor) -> int | None:
    return None if leaf.grad is None else _torch.version(leaf.grad)
