"""What is known of the numbers in a Recording: those that are shown of small tensors, the extremes of all others."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from functools import cached_property

from seegrad.model.recording import Frame, Gradient, Preview, Recording, Summary


@dataclass(frozen=True, slots=True)
class Span:
    """The smallest and the largest number of a tensor; both NaN if one of its numbers is.

    >>> Span(0.0, 0.0).is_zero, Span(-math.inf, 1.0).is_finite, Span(math.nan, math.nan).has_nan
    (True, False, True)
    """

    low: float
    high: float

    @property
    def is_finite(self) -> bool:
        """No NaN and no infinity."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    @property
    def has_nan(self) -> bool:
        """A number that is none."""
        return math.isnan(self.low)

    @property
    def is_zero(self) -> bool:
        """Nothing but 0."""
        return self.low == self.high == 0

    @property
    def holds_zero(self) -> bool:
        """0 lies between them, or is one of them."""
        return self.low <= 0 <= self.high


def span_of(preview: Preview | None) -> Span | None:
    """The Span of numbers that are shown; None where there are none.

    >>> span_of((("1", "-inf"), ("2", "0"))), span_of(())
    (Span(low=-inf, high=2.0), None)
    """
    texts = [text for row in preview or () for text in row]
    if not texts or texts[0] in ("True", "False"):
        return Span(float("False" not in texts), float("True" in texts)) if texts else None
    if any("j" in text for text in texts):
        numbers = [part for text in texts for part in (complex(text).real, complex(text).imag)]
    else:
        numbers = list(map(float, texts))
    return joined(Span(number, number) for number in numbers)


def span_of_summary(summary: Summary | None) -> Span | None:
    """The Span of a bigger tensor, where it is known. Which infinity there is, its strip says.

    >>> span_of_summary(Summary("-1", "2", "3", zeros=0, nans=0, infinities=1, strip=("2", "-inf")))
    Span(low=-inf, high=2.0)
    """
    if summary is None:
        return None
    if summary.nans:
        return Span(math.nan, math.nan)
    known = [*filter(None, (summary.low, summary.high)), *(set(summary.strip) & {"inf", "-inf"})]
    return joined(Span(number, number) for number in map(float, known))


def joined(spans: Iterable[Span]) -> Span | None:
    """One Span for all these numbers."""
    each = list(spans)
    if not each:
        return None
    if any(span.has_nan for span in each):
        return Span(math.nan, math.nan)
    return Span(min(span.low for span in each), max(span.high for span in each))


class KnownNumbers:
    """The Spans of tensors over time, and of what each Node was given and handed on."""

    def __init__(self, recording: Recording) -> None:
        self._tensors: dict[int, list[tuple[int, Span]]] = {}
        self.given: dict[tuple[int, int], Span] = {}  # (backward, Node)
        self.handed: dict[tuple[int, int, int], Span] = {}  # (backward, Node, input slot)
        for tensor, frame, span in sorted(_of_tensors(recording), key=lambda each: each[1]):
            self._tensors.setdefault(tensor, []).append((frame, span))
        for backward, node, slot, span in _of_gradients(recording):
            if slot is not None:
                self.handed[backward, node, slot] = span
            else:
                self.given[backward, node] = joined([span, *_one(self.given.get((backward, node)))]) or span

    def at(self, tensor: int, frame: int) -> Span | None:
        """After that Frame; None where its numbers were never seen."""
        seen = self._tensors.get(tensor, [])
        place = bisect_right(seen, frame, key=lambda each: each[0])
        return seen[place - 1][1] if place else None


def shows(recording: Recording, numbers: Set[str], *, gradients: bool = False) -> bool:
    """Is any of these numbers to be seen, of tensors or gradients or of the latter alone? Most programs have none."""
    if any(not numbers.isdisjoint((each.low, each.high)) for each in recording.extremes):
        return True
    for frame in recording.frames:
        previews = [gradient.preview for gradient in frame.gradients]
        if not gradients:
            previews += [preview for _, preview in frame.values]
        if any(not numbers.isdisjoint(row) for preview in previews for row in preview or ()):
            return True
        if any("j" in text for preview in previews for row in preview or () for text in row):
            return True  # complex ones are written otherwise
        summaries = [gradient.summary for gradient in frame.gradients]
        if not gradients:
            summaries += [summary for _, summary in frame.summaries]
        if any(not numbers.isdisjoint(_ends(summary)) for summary in summaries if summary):
            return True
    return False


def _ends(summary: Summary) -> list[str]:
    return [summary.low, summary.high, *(["nan"] if summary.nans else []), *(["inf"] if summary.infinities else [])]


class Makers:
    """Which Frame made a tensor or wrote its storage last, and which were given it."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._made: dict[int, list[Frame]] = {}
        self._wrote: dict[int, list[Frame]] = {}
        for frame in recording.frames:
            if frame.phase in ("forward", "inplace") or (frame.phase == "backward" and frame.outputs):
                for tensor in frame.outputs:
                    self._made.setdefault(tensor, []).append(frame)
                for write in frame.writes:
                    self._wrote.setdefault(recording.writes[write].storage, []).append(frame)

    def maker(self, tensor: int, until: int) -> Frame | None:
        """The last Frame up to `until` that did."""
        storage = self._recording.tensors[tensor].storage
        each = (_last(self._made.get(tensor, ()), until), _last(self._wrote.get(storage, ()), until))
        return max(filter(None, each), key=lambda frame: frame.index, default=None)

    def takers(self, tensor: int) -> Sequence[Frame]:
        """The Frames of the forward that it was given to."""
        return self._takers.get(tensor, ())

    @cached_property
    def _takers(self) -> dict[int, list[Frame]]:
        found: dict[int, list[Frame]] = {}
        for frame in self._recording.frames:
            for tensor in frame.inputs if frame.phase in ("forward", "inplace") else ():
                found.setdefault(tensor, []).append(frame)
        return found


def _last(frames: Sequence[Frame], until: int) -> Frame | None:
    """Of Frames in their order; a long training's weights have as many as it has steps."""
    place = bisect_right(frames, until, key=lambda frame: frame.index)
    return frames[place - 1] if place else None


def _one(span: Span | None) -> Iterator[Span]:
    if span is not None:
        yield span


def _of_tensors(recording: Recording) -> Iterator[tuple[int, int, Span]]:
    """Tensor, Frame, Span."""
    for frame in recording.frames:
        for tensor, preview in frame.values:
            if (span := span_of(preview)) is not None:
                yield tensor, frame.index, span
        for tensor, summary in frame.summaries:
            if (span := span_of_summary(summary)) is not None:
                yield tensor, frame.index, span
    for each in recording.extremes:
        if each.tensor is not None:
            yield each.tensor, each.frame, Span(float(each.low), float(each.high))


def _of_gradients(recording: Recording) -> Iterator[tuple[int, int, int | None, Span]]:
    """Backward, Node, input slot or None for what it was given, Span."""
    for each in recording.extremes:
        if each.node is not None and each.backward is not None:
            yield each.backward, each.node, each.slot, Span(float(each.low), float(each.high))
    for frame in recording.frames:
        if frame.running is not None and frame.backward is not None:
            for span in _given_in(frame):
                yield frame.backward, frame.running, None, span


def _given_in(frame: Frame) -> Iterator[Span]:
    for gradient in frame.gradients:
        span = None if gradient.kept else _of_gradient(gradient)
        if span is not None:
            yield span


def _of_gradient(gradient: Gradient) -> Span | None:
    return span_of_summary(gradient.summary) if gradient.summary else span_of(gradient.preview)
