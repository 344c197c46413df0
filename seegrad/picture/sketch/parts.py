"""The parts of a picture as frozen data. A Timeline says what holds from which step on."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeVar

from seegrad.model.recording import Gradient, Hook, Preview, Severity, Summary
from seegrad.words.languages import _

Value = TypeVar("Value")
Timeline = tuple[tuple[int, Value], ...]
Share = tuple[int, int]
"""How many of the gradients that are to be added up have come, and how many there will be."""


def at(timeline: Timeline[Value], step: int) -> Value | None:
    """What a Timeline says at a step; None before its first entry.

    >>> at(((0, "v0"), (3, "v1")), 2)
    'v0'
    """
    found = None
    for since, value in timeline:
        if since > step:
            break
        found = value
    return found


def spans(timeline: Timeline[Value], steps: int) -> list[tuple[int, int, Value]]:
    """(first step, last step, what holds) of each entry of a Timeline."""
    ends = [*(since for since, _ in timeline), steps]
    return [(since, until - 1, value) for (since, until), (_, value) in zip(pairwise(ends), timeline, strict=True)]


def is_finite(preview: Preview | None, summary: Summary | None = None) -> bool:
    """Are all numbers that are known of a tensor finite?

    >>> is_finite((("1", "-inf"),)), is_finite((("1", "2"),)), is_finite(None)
    (False, True, True)
    >>> is_finite(None, Summary("0", "1", "1", zeros=8, nans=0, infinities=1, strip=("0", "inf")))
    False
    """
    if summary is not None and not summary.is_finite:
        return False
    return not any(is_broken(number) for row in preview or () for number in row)


def is_broken(number: str) -> bool:
    """Is this infinite, or no number? Complex ones are written `1+nanj`.

    >>> is_broken("-inf"), is_broken("nan"), is_broken("0.5")
    (True, True, False)
    """
    return "inf" in number or "nan" in number


@dataclass(frozen=True, slots=True)
class Card:
    """One tensor between two direct in-place writes to it: a write makes the next card, and this one stale."""

    id: str
    tensor: int
    kind: Literal["leaf", "tensor", "plain"]
    label: str
    full_name: str
    shape: tuple[int, ...]
    born: int
    stale: int | None = None
    written: bool = False
    version_before: int | None = None  # of the card that a write replaced
    root: bool = False
    values: Timeline[Preview | None] = ()
    summaries: Timeline[Summary | None] = ()  # of numbers that are too many for `values`, at the same steps
    versions: Timeline[int | None] = ()
    gradients: Timeline[Gradient] = ()
    wrong_from: int | None = None  # the step from which its gradient is known to be wrong
    updated: tuple[int, ...] = ()  # the steps of writes that changed what it shows, in a picture of one pass
    overwritten: tuple[int, ...] = ()  # the steps in which another name of its storage changed its numbers
    shares: Timeline[Share] = ()  # of the gradients that it adds up
    accumulates: int | None = None  # the step from which an AccumulateGrad adds to its `.grad`
    retained: int | None = None  # the step of its `retain_grad()`
    hooks: tuple[Hook, ...] = ()
    harmed: tuple[int, ...] = ()  # the steps in which a write that a finding is about hit its bytes
    frozen: bool = False  # a Parameter that asks for no gradient

    @property
    def broken(self) -> list[int]:
        """The steps at which a number of it, or of its gradient, comes that isn't finite."""
        known: list[tuple[int, Preview | None, Summary | None]] = [(step, value, None) for step, value in self.values]
        known += [(step, None, summary) for step, summary in self.summaries]
        known += [(step, gradient.preview, gradient.summary) for step, gradient in self.gradients]
        return [step for step, preview, summary in known if not is_finite(preview, summary)]

    @property
    def is_finite(self) -> bool:
        """Are all numbers finite that are known of it and of its gradients?"""
        return not self.broken

    @property
    def moved(self) -> tuple[int, ...]:
        """The steps from which it has a version that a write gave it."""
        given = [
            (since, k > 0 or (self.written and version != self.version_before), version)
            for k, (since, version) in enumerate(self.versions)
        ]
        return tuple(since for since, moved, version in given if moved and version is not None)

    @property
    def keeps_from(self) -> int | None:
        """The step from which it has a `.grad`: a leaf always, another tensor after `retain_grad()`."""
        if self.kind == "leaf":
            return 0
        kept = [step for step, gradient in self.gradients if gradient.kept]
        return self.retained if self.retained is not None and not self.is_lost else min(kept, default=None)

    @property
    def is_lost(self) -> bool:
        """Did it call `retain_grad()`, and no variable held it any more when its gradient came?"""
        since = [gradient for step, gradient in self.gradients if self.retained is not None and step >= self.retained]
        return bool(since) and not any(gradient.kept for gradient in since)

    @property
    def keeps(self) -> bool:
        """Does it ever have a `.grad`?"""
        return self.keeps_from is not None

    @property
    def is_retained(self) -> bool:
        """Is it no leaf, and keeps its gradient all the same?"""
        return self.kind == "tensor" and self.keeps_from is not None


@dataclass(frozen=True, slots=True)
class Pill:
    """One Function (`node`), or an op that left none: a write without history (`write`), an op without grad (`op`).

    `of_gradient`: a backward call made it, so it belongs to the graph of a gradient; `off`: gradients were off.
    """

    id: str
    kind: Literal["node", "write", "op"]
    label: str
    symbol: str
    born: int
    node: int | None = None
    inplace: bool = False
    runs: Timeline[int] = ()  # (step, place in the engine's order)
    laps: Timeline[int] = ()  # (step, which backward call: 1, 2, …)
    freed: int | None = None  # the step from which its saved tensors are gone
    custom: bool = False
    of_gradient: bool = False
    off: bool = False
    module: str = ""
    hooks: tuple[Hook, ...] = ()
    harmful: bool = False  # the write that a finding is about
    writes_to: str = ""  # of a write: the name of its tensor
    due: bool = False  # a backward call runs it, or would have if it hadn't raised
    number: str = ""  # `#2` on the second Function of a name, where a question tells them apart

    @property
    def name(self) -> str:
        """The second line: the Function's class, or that there is none."""
        if self.kind == "node":
            return self.label + self.number
        return _("gradients off") if self.off else _("not recorded") if self.kind == "op" else _("no Function")

    @property
    def sign(self) -> str:
        """The first line: a pencil for an in-place write, ∂ for a Function of a gradient, ƒ for one of the user's."""
        before = "✎ " if self.inplace else "∂ " if self.of_gradient else "ƒ " if self.custom else ""
        return before + self.symbol


@dataclass(frozen=True, slots=True)
class Pin:
    """The version tag of a saved tensor, None where torch compares none; at the pill's entrance, or at its exit."""

    attr: str
    version: int | None
    tensor: int | None
    name: str
    storage: int
    side: Literal["in", "out"]


@dataclass(frozen=True, slots=True)
class Wire:
    """A line between two parts. `alias`: another name of the same bytes, no Function between."""

    source: str
    target: str
    born: int
    kind: Literal["in", "out", "alias"]
    label: str = ""
    pins: tuple[Pin, ...] = ()
    writes: bool = False  # it leads through an in-place write
    cut: bool = False  # no gradient passes: `.detach()`, `.data`
    loose: bool = False  # a result that has no gradient, such as indices
    travels: tuple[str, ...] = ()  # what is said of what goes over it, there and back


@dataclass(frozen=True, slots=True)
class Cluster:
    """Cards and write pills that stand in one stack: a tensor, its aliases, the writes through them."""

    id: str
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StorageGroup:
    """The cards that share bytes. `counters` is how many version counters they have."""

    storage: int
    cards: tuple[str, ...]
    counters: int
    since: int


@dataclass(frozen=True, slots=True)
class Bundle:
    """A box for `count` Functions that are seen one level below. `ran`: how many of the `due`, that backward runs, did.

    `chore`: what is said of a box without Functions, such as an optimiser's step. `loose`: nothing but their
    neighbourhood holds its Functions together. `off`: none of its ops was recorded. `frozen`: nor is any of its
    parameters trained.
    """

    id: str
    label: str
    count: int
    born: int
    ran: Timeline[int] = ()
    freed: int | None = None
    chore: str = ""
    loose: bool = False
    due: int = 0
    off: bool = False
    frozen: bool = False


ChipKind = Literal["leaf", "in", "out"]


@dataclass(frozen=True, slots=True)
class Chip:
    """A name for what stands elsewhere: a leaf that several use, where a line comes from, where it leads to."""

    id: str
    kind: ChipKind
    labels: tuple[str, ...]
    goes_to: str
    born: int


@dataclass(frozen=True, slots=True)
class Mark:
    """A Diagnosis pinned to a card or pill. `pin` is the storage of the saved tensor that it is about."""

    target: str
    severity: Severity
    kind: str
    since: int
    lines: tuple[str, ...]
    storage: int | None = None


@dataclass(frozen=True, slots=True)
class Sketch:
    """Everything in the picture, without coordinates."""

    cards: tuple[Card, ...] = ()
    pills: tuple[Pill, ...] = ()
    wires: tuple[Wire, ...] = ()
    loose_pins: tuple[tuple[str, Pin], ...] = ()  # saved tensors that no wire carries: (pill, pin)
    clusters: tuple[Cluster, ...] = ()
    storages: tuple[StorageGroup, ...] = ()
    marks: tuple[Mark, ...] = ()
    on: tuple[tuple[str, ...], ...] = ()  # per step: what it is about
    flows: tuple[tuple[int, str, str], ...] = ()  # (step, source, target): wires on which a gradient runs
    root: str | None = None
    bundles: tuple[Bundle, ...] = ()
    chips: tuple[Chip, ...] = ()

    def about(self) -> dict[str, list[int]]:
        """Part → the steps that are about it."""
        found: dict[str, list[int]] = {}
        for step, parts in enumerate(self.on):
            for part in parts:
                found.setdefault(part, []).append(step)
        return found
