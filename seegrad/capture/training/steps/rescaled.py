"""Gradients whose limit was for others: clipped and then all multiplied by one number, or before all of them had come.

A scale that the user has made by hand shows no other way: it is a number, and a method in place.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from types import FrameType
from typing import Any

import torch

from seegrad.capture.probes import torch_private as _torch
from seegrad.capture.tables import Tables, content
from seegrad.model.recording import Clue, Place

DIVIDES = frozenset({"div_", "true_divide_", "divide_", "__itruediv__", "_foreach_div_"})
SCALES = DIVIDES | {"mul_", "multiply_", "__imul__", "_foreach_mul_"}
"""Calls that may do so."""

OUT_OF_PLACE = frozenset({"div", "true_divide", "divide", "mul", "multiply"})
"""Those that make a new one."""

LIMITS = "max_norm", "clip_value"
"""What torch's functions that clip call their limit."""

FACTORS = "clip_coef_clamped", "clip_value"
"""What they go by: a factor for all, or the largest number there may be."""

At = tuple[int, Place | None]


@dataclass(slots=True)
class _Clip:
    """A gradient after the clip; then what it was multiplied by, and where."""

    version: int
    at: At
    by: object = None
    scaled: At | None = None
    divided: bool = False


class RescaledClips:
    """Those gradients that were clipped and wait for their step, by their storages."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._clips: dict[int, _Clip] = {}
        self._told: set[Place] = set()

    @property
    def wait(self) -> bool:
        """Are there any?"""
        return bool(self._clips)

    def clipped(self, tensors: Sequence[torch.Tensor], frame: FrameType, at: At) -> None:
        """Torch is about to clip these; to no limit, in order to measure them, isn't one."""
        if math.isfinite(_limit(frame)):
            for each in tensors:
                key, version = _torch.storage_key(each), _torch.version(each)
                if key is not None and version is not None:
                    self._clips[key] = _Clip(version + 1, at)

    def scaled(self, op: str, targets: Sequence[torch.Tensor], by: Any, at: At) -> None:
        """The user's code is about to multiply these; a number that waits on a device is known by itself."""
        number = by if isinstance(by, int | float) else id(by) if _is_single(by) else None
        for each in targets if number not in (None, 1) else ():
            clip = self._clips.get(_torch.storage_key(each) or 0)
            if clip is not None and self._is_as_clipped(each, clip):
                clip.by, clip.scaled, clip.divided = (number, at[1]), at, op in DIVIDES

    def replaced(self, gradient: torch.Tensor, new: torch.Tensor) -> None:
        """Another gradient is about to take the place of this one: `p.grad = p.grad / scale`."""
        if _torch.storage_key(new) == _torch.storage_key(gradient):  # `p.grad /= scale` sets it again
            return
        clip = self._clips.pop(_torch.storage_key(gradient) or 0, None)
        number, old = self._tables.tensors.find(new), self._tables.tensors.find(gradient)
        draft = self._tables.tensors.drafts.get(number if number is not None else -1)
        made = self._tables.frames.drafts.get(draft.frame) if draft is not None else None
        key, version = _torch.storage_key(new), _torch.version(new)
        if clip is None or made is None or key is None or version is None or made.inputs != (old,):
            return
        if made.op in OUT_OF_PLACE and self._is_as_clipped(gradient, clip):
            place = (made.index, made.place)
            self._clips[key] = _Clip(version, clip.at, made.place, place, made.op not in ("mul", "multiply"))

    def _is_as_clipped(self, gradient: torch.Tensor, clip: _Clip) -> bool:
        """Has nobody written to it since? A `.data` counts its versions anew."""
        version, storage = _torch.version(gradient), self._tables.tensors.storage_number(gradient)
        if version != 0 or clip.version == 0:
            return version == clip.version
        since = takewhile(lambda write: write.frame > clip.at[0], reversed(self._tables.writes.drafts.values()))
        return all(write.storage != storage or write.place == clip.at[1] for write in since)

    def stepped(self, held: dict[int, int]) -> None:
        """An optimiser is about to step with these gradients: storage → leaf."""
        clips = {leaf: self._clips.pop(key) for key, leaf in held.items() if key in self._clips}
        found = next(iter(clips.values()), None)
        if found is None or found.scaled is None or any(each.by != found.by for each in clips.values()):
            return
        (frame, clip), (then, scale) = found.at, found.scaled
        if clip is not None and scale is not None and clip not in self._told:
            self._told.add(clip)
            how = "divided" if found.divided else "multiplied"
            self._tables.clues.append(Clue("clip", frame, clip, tuple(clips)))
            self._tables.clues.append(Clue("rescaled", then, scale, tuple(clips), (("how", how),)))

    def forget(self, key: int) -> None:
        """That gradient is cleared: another one may come to lie in its place."""
        self._clips.pop(key, None)


class ClipsInParts:
    """Those of one optimiser, from step to step, that come behind each backward call of several."""

    def __init__(self) -> None:
        self._clips: dict[int, tuple[Place, int]] = {}  # how many calls had come → where, the gradient's version
        self._calls = 0  # for the step before, where those were clipped so; else 0
        self._changed = False
        self._told = False

    def clipped(self, calls: int, place: Place, frame: FrameType, gradient: torch.Tensor) -> None:
        """Torch is about to clip this gradient and others. Whether that changes any is asked where it matters."""
        self._clips.setdefault(calls, (place, _torch.version(gradient) or 0))
        if calls < self._calls and not self._changed and not self._told:
            self._changed = _changes(frame, gradient)

    def cleared(self) -> None:
        """What has come is thrown away, or was moved to where it is added up: clipped one by one on purpose."""
        self._clips, self._changed = {}, False

    def stepped(self, lines: Sequence[Place | None], *, touched: bool) -> Place | None:
        """The line that clips so, when another step goes by calls on these lines; once.

        Each call has added to what the one before had left, which the versions show.
        """
        calls, places = len(lines), {place for place, _ in self._clips.values()}
        versions = [version for _, version in self._clips.values()]
        grows = versions == sorted(set(versions)) and len(versions) == calls > 1
        in_parts = grows and len(places) == 1 and len(set(lines)) == 1 and None not in lines and not touched
        found = in_parts and self._calls > 1 and self._changed and not self._told
        self._told |= found
        self._calls = calls if in_parts else 0
        self.cleared()
        return places.pop() if found else None


def _changes(frame: FrameType, gradient: torch.Tensor) -> bool:
    """Is the limit exceeded: by the norm of all, or by a number of this gradient? Only the CPU is asked."""
    if not content.answers_at_once(gradient):
        return False
    held = {name: caller.f_locals[name] for caller in _clipping(frame) for name in FACTORS if name in caller.f_locals}
    if "clip_value" in held:
        return bool((gradient.abs() > held["clip_value"]).any())
    factor = held.get("clip_coef_clamped")
    return isinstance(factor, torch.Tensor) and bool(factor < 1)


def _clipping(frame: FrameType) -> Iterator[FrameType]:
    """Torch's functions under way that clip, the innermost first."""
    step: FrameType | None = frame
    while step is not None and step.f_code.co_filename == frame.f_code.co_filename:
        yield step
        step = step.f_back


def _limit(frame: FrameType) -> float:
    """The limit that torch's function was given, from the frame in which it clips."""
    held = (caller.f_locals[name] for caller in _clipping(frame) for name in LIMITS if name in caller.f_locals)
    given = next(held, None)
    return float(given) if isinstance(given, int | float) else 0.0


def _is_single(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.numel() == 1
