"""The Frames in the making, one an event: the numbers shown in them, and the Writes made in them."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal, NamedTuple

import torch

from seegrad.capture.probes import torch_private as _torch
from seegrad.capture.probes.numbers import Look, SummaryDraft, runs_ahead
from seegrad.model.recording import Phase, Place, Preview, Summary

Seen = tuple[int, "Numbers", tuple[int, ...], bool]
"""Of a Gradient: tensor, preview or Summary, shape, kept."""

MAX_SIDE = 4
"""Longest side of a tensor whose numbers are shown."""

PLAIN: tuple[type, type] = (torch.Tensor, torch.nn.Parameter)
"""Torch's own kinds of tensors."""


def numeral(value: complex | float | int | bool) -> str:
    """One number, the same on every run: three significant digits; below 100,000 no digit before the point is cut off.

    >>> [numeral(x) for x in (0.7310586, 1024.0, 1e-9, 123456.0, True, 7, 1 - 2j, -0.0)]
    ['0.731', '1024', '1e-09', '1.23e+05', 'True', '7', '1-2j', '0']
    """
    if type(value) is float:
        return _real(value)
    if isinstance(value, bool | int):
        return str(value)
    if isinstance(value, complex):
        real, imaginary = _real(value.real), _real(value.imag)
        return f"{real}{'' if imaginary.startswith('-') else '+'}{imaginary}j"
    return _real(value)


def _real(value: float) -> str:
    if not math.isfinite(value):
        return str(value)
    if 100 <= abs(value) < 100_000:
        return f"{value:.0f}"
    text = f"{value:.3g}"
    return "0" if text == "-0" else text


def preview(tensor: torch.Tensor) -> Numbers:
    """Rows of numbers of a tensor up to 4×4, None for bigger ones. Of an accelerator's they are awaited.

    >>> preview(torch.tensor([[1.0, 0.12345], [float("nan"), -2000.0]]))
    (('1', '0.123'), ('nan', '-2000'))
    >>> preview(torch.zeros(5)) is None
    True
    """
    if is_big(tensor) or not _has_few(tensor):
        return None
    if not tensor.numel():
        return ()
    try:
        if tensor.device.type != "cpu":
            return Awaited(tensor.detach().clone())
        values = (tensor.detach() if tensor.requires_grad else tensor).tolist()
        return rows(values if tensor.dim() else [values], tensor.dim())
    except (RuntimeError, NotImplementedError):
        return None


def is_big(tensor: torch.Tensor) -> bool:
    """True for a tensor of torch's own kind that is known to have too many elements to be shown."""
    if type(tensor) not in PLAIN:
        return False
    count = tensor.numel()
    return type(count) is int and count > MAX_SIDE**2


def is_shown(tensor: torch.Tensor) -> bool:
    """True for a small tensor whose numbers can be read, now or later."""
    return not is_big(tensor) and _has_few(tensor)


def _has_few(tensor: torch.Tensor) -> bool:
    if not _torch.has_numbers(tensor) or tensor.dim() > 2 or tensor.numel() > MAX_SIDE**2:
        return False
    return max(tensor.shape, default=0) <= MAX_SIDE and (tensor.device.type == "cpu" or runs_ahead(tensor))


@dataclass(slots=True)
class Awaited:
    """Numbers of a tensor on a device that the host runs ahead of: a copy there, until the Recording is asked for."""

    copy: torch.Tensor | None
    rows: Preview | None = None


Numbers = Preview | Awaited | SummaryDraft | None
"""What is shown of a tensor."""


def told(numbers: Numbers) -> Preview | None:
    """What is shown, once it's no longer awaited; of a bigger tensor nothing."""
    if isinstance(numbers, SummaryDraft):
        return None
    return numbers.rows if isinstance(numbers, Awaited) else numbers


def summed(numbers: Numbers) -> Summary | None:
    """What is known of a bigger tensor, once it's no longer awaited."""
    return numbers.told if isinstance(numbers, SummaryDraft) else None


def fetch(awaited: Iterable[Numbers]) -> None:
    """Read what is still awaited, all of a device and dtype at once: here the host waits."""
    groups: dict[tuple[torch.device, torch.dtype], list[tuple[Awaited, torch.Tensor]]] = {}
    for each in awaited:
        if isinstance(each, Awaited) and each.copy is not None:
            groups.setdefault((each.copy.device, each.copy.dtype), []).append((each, each.copy))
            each.copy = None
    for group in groups.values():
        with contextlib.suppress(RuntimeError):  # the device is gone, or can't do it: no numbers are shown
            values = iter(torch.cat([copy.reshape(-1) for _, copy in group]).tolist())
            for each, copy in group:
                here = list(islice(values, copy.numel()))
                width = copy.shape[-1] if copy.dim() == 2 else copy.numel()
                matrix = [here[start : start + width] for start in range(0, len(here), width)]
                each.rows = rows(matrix, 2)


def rows(values: list[Any], dim: int) -> Preview:
    """Numbers as they are shown: a row for all, of a matrix one for each of its own."""
    return tuple([tuple([numeral(value) for value in row]) for row in (values if dim == 2 else [values])])


def builds_graph() -> bool:
    """Do ops build a graph here? Not in inference mode, whatever `enable_grad` says inside of it."""
    return torch.is_grad_enabled() and not torch.is_inference_mode_enabled()


@dataclass(eq=False)
class FrameDraft:
    """A Frame that may still grow; its fields are the Frame's."""

    index: int
    phase: Phase
    place: Place | None
    op: str
    grad_enabled: bool = True
    look: Look | None = None  # at what is too big to be shown
    inputs: tuple[int, ...] = field(default=(), init=False)
    outputs: tuple[int, ...] = field(default=(), init=False)
    nodes: tuple[int, ...] = field(default=(), init=False)
    writes: tuple[int, ...] = field(default=(), init=False)
    shown: dict[int, int | None] | None = field(default=None, init=False)  # tensor → version
    numbers: dict[int, Numbers] | None = field(default=None, init=False)  # tensor → those of which any are shown
    running: int | None = field(default=None, init=False)
    given: tuple[Seen, ...] = field(default=(), init=False)
    backward: int | None = field(default=None, init=False)
    corrupted: tuple[int, ...] = field(default=(), init=False)
    module: str = field(default="", init=False)
    wanted: tuple[int, ...] = field(default=(), init=False)
    spoiled: tuple[int, ...] = field(default=(), init=False)
    applied: Place | None = field(default=None, init=False)
    off: Place | None = field(default=None, init=False)
    built: Place | None = field(default=None, init=False)
    taken: Place | None = field(default=None, init=False)
    keeps_graph: bool = field(default=False, init=False)

    def see(self, tensor: torch.Tensor) -> Numbers:
        """What is shown of a tensor, or known of a bigger one."""
        if self.look is None:
            return preview(tensor)
        return self.look(tensor) if is_big(tensor) or (shown := preview(tensor)) is None else shown

    def show(self, tensor: int, numbers: Numbers, version: int | None) -> None:
        """The state of a tensor after this Frame."""
        if self.shown is None:
            self.shown = {}
        self.shown[tensor] = version
        if numbers is not None:
            self.numbers = self.numbers or {}
            self.numbers[tensor] = numbers
        elif self.numbers is not None:
            self.numbers.pop(tensor, None)

    @property
    def awaited(self) -> Iterator[Numbers]:
        """All that is shown in it."""
        yield from (self.numbers or {}).values()
        yield from (numbers for _, numbers, _, _ in self.given)

    def give(self, tensor: int, gradient: torch.Tensor, *, kept: bool = False) -> None:
        """A gradient that arrives in this Frame; `kept`: that is now in `.grad`."""
        self.given += ((tensor, self.see(gradient), _torch.shape(gradient), kept),)

    @property
    def gradients(self) -> tuple[tuple[int, Preview | None, tuple[int, ...], bool, Summary | None], ...]:
        """Those that arrive in it."""
        return tuple([(tensor, told(seen), shape, kept, summed(seen)) for tensor, seen, shape, kept in self.given])

    @property
    def summaries(self) -> list[tuple[int, Summary | None]]:
        """Tensor → what is known of it after this Frame, where it's too big to be shown."""
        known = self.numbers or {}
        return [(tensor, summed(seen)) for tensor, seen in known.items() if isinstance(seen, SummaryDraft)]

    @property
    def values(self) -> list[tuple[int, Preview | None]]:
        """Tensor → numbers after this Frame."""
        numbers = self.numbers or {}
        return [(tensor, told(numbers.get(tensor))) for tensor in self.shown or ()]

    @property
    def versions(self) -> list[tuple[int, int | None]]:
        """Tensor → version after this Frame."""
        return list((self.shown or {}).items())


@dataclass(frozen=True, slots=True)
class Lap:
    """What the Frames of a backward call have in common: all calls on a line, as a rule."""

    place: Place | None
    keeps_graph: bool
    grad_enabled: bool


Ran = tuple[int, ...]
"""A Frame in which a Node ran, and nothing else was to be seen: the backward's number, its Lap's, the Node, and the
tensors whose gradients it was given.

Plain numbers: Python's collector doesn't look at them again and again.
"""

Told = Callable[[int, Sequence[int]], tuple[str, bool, Sequence[tuple[int, ...]]]]
"""A Node, and the tensors whose gradients it was given → its name, whether it adds into a leaf, the tensors' shapes."""


class Frames:
    """All Frames of one Recording that weren't forgotten. Most of a backward's are kept short, as `ran`."""

    def __init__(self, told: Told, look: Look | None = None) -> None:
        self.look = look
        self.drafts: dict[int, FrameDraft] = {}
        self.ran: dict[int, Ran] = {}
        self._given: dict[int, Numbers] = {}  # of a short Frame, where the gradient's numbers are shown
        self._laps: dict[Lap, int] = {}
        self._told = told
        self.next = 0

    def __len__(self) -> int:
        return len(self.drafts) + len(self.ran)

    @property
    def now(self) -> int:
        """The newest Frame's number."""
        return self.next - 1

    @property
    def first(self) -> FrameDraft:
        """The Frame in which the block begins."""
        return self.drafts[0]

    @property
    def last(self) -> FrameDraft:
        """The newest Frame, whole."""
        if self.now in self.ran:
            self._write_out(self.now)
        return self.drafts[self.now]

    def last_runs(self) -> dict[int, int]:
        """Node → the last Frame in which it ran."""
        found = {draft.running: number for number, draft in self.drafts.items() if draft.running is not None}
        for number, (_, _, node, *_) in self.ran.items():
            found[node] = max(number, found.get(node, number))
        return found

    def calls_of(self, node: int) -> set[int]:
        """The backward calls in which a Node ran."""
        whole = {draft.backward for draft in self.drafts.values() if draft.running == node}
        return {each for each in whole if each is not None} | {
            call for call, _, ran, *_ in self.ran.values() if ran == node
        }

    def of_run(self, node: int) -> FrameDraft:
        """The Frame in which a Node ran last, whole."""
        number = self.last_runs()[node]
        self.whole(number)
        return self.drafts[number]

    def whole(self, since: int, numbers: Set[int] = frozenset()) -> None:
        """Write out the short Frames from number `since` on, and those of these numbers."""
        for number in [number for number in self.ran if number >= since or number in numbers]:
            self._write_out(number)

    def outlive(self, nodes: Set[int], tensors: Set[int], numbers: Set[int]) -> None:
        """Write out the short ones among these Frames that speak of another Node, or tensor: it is to be forgotten."""
        for number in [number for number in self.ran if number in numbers]:
            _, _, node, *given = self.ran[number]
            if node not in nodes or not all(each in tensors for each in given):
                self._write_out(number)

    def _write_out(self, number: int) -> None:
        backward, at, node, *tensors = self.ran.pop(number)
        lap, (name, is_leaf, shapes) = list(self._laps)[at], self._told(node, tensors)
        numbers = self._given.pop(number, None)
        given = [(tensor, numbers, shape, False) for tensor, shape in zip(tensors, shapes, strict=True)]
        given += [(tensor, None, shape, True) for tensor, shape in zip(tensors, shapes, strict=True) if is_leaf]
        draft = FrameDraft(number, "backward", lap.place, name)
        draft.running, draft.given = node, tuple(given)
        draft.backward, draft.keeps_graph, draft.grad_enabled = backward, lap.keeps_graph, lap.grad_enabled
        self.drafts[number] = draft

    def keep(self, numbers: Set[int]) -> None:
        """Drop all others."""
        self.drafts = {number: draft for number, draft in self.drafts.items() if number in numbers}
        self.ran = {number: each for number, each in self.ran.items() if number in numbers}
        self._given = {number: each for number, each in self._given.items() if number in numbers}

    def in_order(self) -> dict[int, FrameDraft]:
        """Every Frame, whole, by its number."""
        self.whole(0)
        self.drafts = dict(sorted(self.drafts.items()))
        return self.drafts

    def lap(self, lap: Lap) -> int:
        """Its number, by which a short Frame speaks of it."""
        return self._laps.setdefault(lap, len(self._laps))

    def note(self, ran: Ran, numbers: Numbers = None) -> None:
        """The next Frame, short."""
        self.ran[self.next] = ran
        if numbers is not None:
            self._given[self.next] = numbers
        self.next += 1

    def new(self, phase: Phase, op: str, place: Place | None) -> FrameDraft:
        """The next Frame."""
        draft = FrameDraft(self.next, phase, place, op, builds_graph(), self.look)
        self.drafts[self.next] = draft
        self.next += 1
        return draft

    def drop_last(self) -> None:
        """Nothing happened in the newest Frame: it's taken back."""
        self.next -= 1
        del self.drafts[self.next]


Held = tuple[int, int | None]
"""A leaf, and the version of its gradient; None where it has none."""


@dataclass(eq=False, slots=True)
class GradientUseDraft:
    """A GradientUse, numbered as capture numbers."""

    kind: Literal["cleared", "read", "stepped", "clipped", "early", "unscaled", "scheduled", "idle", "uncalled"]
    frame: int
    place: Place | None
    tensors: tuple[Held, ...]


@dataclass(eq=False, slots=True)
class SwitchDraft:
    """A Switch, numbered as capture numbers."""

    kind: Literal["mode", "scope", "tensors", "unheard", "guarded"]
    on: bool
    frame: int
    place: Place | None
    tensors: list[int]
    name: str = ""


class Hit(NamedTuple):
    """What an op did to some bytes, through which tensor; `versions` before and after."""

    tensor: int
    storage: int
    span: tuple[int, int]
    op: str
    versions: tuple[int | None, int | None]


class WriteDraft(NamedTuple):
    """A Write, numbered as capture numbers."""

    id: int
    frame: int
    tensor: int
    storage: int
    span: tuple[int, int]
    op: str
    place: Place
    version_before: int | None
    version_after: int | None


class Writes:
    """All Writes of one Recording that weren't forgotten, numbered as capture numbers."""

    def __init__(self) -> None:
        self.drafts: dict[int, WriteDraft] = {}
        self.next = 0

    def add(self, frame: FrameDraft, hit: Hit) -> int:
        """The number of a new Write."""
        number, self.next = self.next, self.next + 1
        where = frame.place or Place("", 0, "")
        self.drafts[number] = WriteDraft(
            number, frame.index, hit.tensor, hit.storage, hit.span, hit.op, where, *hit.versions
        )
        return number

    def since(self, number: int) -> list[WriteDraft]:
        """Those from that number on."""
        return [self.drafts[each] for each in range(number, self.next) if each in self.drafts]

    def forget(self, kept: Set[int]) -> None:
        """Drop all others."""
        self.drafts = {number: draft for number, draft in self.drafts.items() if number in kept}
