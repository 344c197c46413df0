"""Which steps make one pass of a training loop: known by its backward calls, which come again on the same lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from seegrad.model.recording import Frame, Place, Recording

LONGEST_CYCLE = 8  # backward calls in one pass

Key = tuple[str, int, str]


@dataclass(frozen=True, slots=True)
class Stretch:
    """Steps `first` up to `stop`. Pass `number` of `total`; 0: what stands before, between or after loops.

    Passes that were forgotten count too: the numbers are those of the program.
    """

    first: int
    stop: int
    number: int = 0
    total: int = 0


@dataclass(frozen=True, slots=True)
class _Call:
    """One backward call: its line, its first Frame and its last; the Nodes that `autograd.grad` went through.

    `number`: how many went before it, forgotten ones too.
    """

    place: Place | None
    first: int
    last: int
    differentiated: frozenset[int]
    number: int


def stretches(recording: Recording) -> tuple[Stretch, ...]:
    """All steps, in passes and what stands around them; nothing where no training loop is recognised.

    A pass begins where the first of the lines comes again that had led to the first pass's backward call.

    >>> stretches(Recording())
    ()
    """
    frames, calls = recording.frames, _calls(recording.frames)
    found: list[Stretch] = []
    for begin, cycle, times in _cycles([call.place for call in calls]):
        since = found[-1].stop if found else 0
        loop = _Loop(recording, calls[begin : begin + cycle * times], cycle, since)
        until = calls[begin + cycle * times].first if begin + cycle * times < len(calls) else len(frames)
        starts = loop.starts()
        if starts:
            stop = loop.stop(starts, until)
            starts += loop.unfinished(stop, until)
            ends = [*starts[1:], len(frames) if len(starts) > loop.times else stop]
            found += [Stretch(since, starts[0])] if starts[0] > since else []
            passes = loop.numbers(calls[begin - 1].number + 1 if begin else 0, len(starts))
            found += [Stretch(a, b, k, passes[-1]) for a, b, k in zip(starts, ends, passes, strict=True)]
    if found and found[-1].stop < len(frames):
        found.append(Stretch(found[-1].stop, len(frames)))
    return _with_beginning(frames, found)


def _with_beginning(frames: Sequence[Frame], found: list[Stretch]) -> tuple[Stretch, ...]:
    """What stands before a loop is its own picture only where something is computed there."""
    if len(found) > 1 and not found[0].number and not any(_does(frame) for frame in frames[: found[0].stop]):
        found[:2] = [Stretch(0, found[1].stop, found[1].number, found[1].total)]
    return tuple(found)


def _does(frame: Frame) -> bool:
    return bool(frame.nodes or frame.writes or (frame.inputs and frame.outputs))


def _calls(frames: Sequence[Frame]) -> list[_Call]:
    """Every backward call, with the error that ended it."""
    ran = [frame for frame in frames if frame.phase == "backward"]
    groups = [list(group) for _number, group in groupby(ran, key=lambda frame: frame.backward)]
    raised = {frame.index for frame in frames if frame.phase == "error"}
    ends = [group[-1].index for group in groups]
    return [
        _Call(group[0].place, group[0].index, end + (end + 1 in raised), _differentiated(group), group[0].backward or 0)
        for group, end in zip(groups, ends, strict=True)
    ]


def _differentiated(call: Sequence[Frame]) -> frozenset[int]:
    ran = [frame.running for frame in call if frame.running is not None]
    return frozenset(ran if any(frame.wanted for frame in call) else ())


def _cycles(places: Sequence[Place | None]) -> list[tuple[int, int, int]]:
    """(first call, calls in one pass, passes) of each loop: what repeats longest, from the left.

    >>> a, b = Place("x", 1, ""), Place("x", 2, "")
    >>> _cycles([a, a, b, a, a, b, b])
    [(0, 3, 2)]
    """
    found, here = [], 0
    while here < len(places):
        best = (1, 1)
        for cycle in range(1, LONGEST_CYCLE + 1):
            times, one = 1, places[here : here + cycle]
            while places[here + times * cycle : here + (times + 1) * cycle] == one:
                times += 1
            if times > 1 and times * cycle > best[0] * best[1]:
                best = (cycle, times)
        cycle, times = best
        if times > 1:
            found.append((here, cycle, times))
        here += cycle * times
    return found


class _Loop:
    """The passes of one loop, whose backward calls are known."""

    def __init__(self, recording: Recording, calls: Sequence[_Call], cycle: int, since: int) -> None:
        self.frames = recording.frames
        self.first = [call.first for call in calls[::cycle]]
        self.last = [call.last for call in calls[cycle - 1 :: cycle]]
        self.calls, self.cycle = [call.number for call in calls[::cycle]], cycle
        self.forgot = bool(recording.laps)
        self.since, self.times = since, len(self.first)
        self.head: Key | None = None  # of the Frame with which a pass begins
        self.is_one = bool(calls[0].differentiated & calls[cycle].differentiated)  # derivatives of one graph, in turn

    def starts(self) -> list[int]:
        """Where each pass begins; empty where no line leads to its backward calls, or one makes no Function.

        Several derivatives of one result, such as one for each column, are no training.
        """
        if self.is_one:
            return []
        before = range(self.since, self.first[0])
        between = range(self.last[0] + 1, self.first[1])
        lines = {self._key(k)[:2] for k in before}
        again = next((k for k in between if self._key(k)[:2] in lines), None)
        if again is None:
            return []
        self.head = self._key(again)
        often = Counter(self._key(k) for k in range(again, between.stop))[self.head]
        same = [k for k in before if self._key(k) == self.head][-often:]
        if not same:
            return []
        starts = [same[0], again]
        for last, first in zip(self.last[1:], self.first[2:], strict=False):
            starts.append(next((k for k in range(last + 1, first) if self._key(k) == self.head), last + 1))
        ends = zip(starts, self.first, strict=True)
        return starts if all(any(self.frames[k].nodes for k in range(a, b)) for a, b in ends) else []

    def numbers(self, before: int, count: int) -> list[int]:
        """The number of each of so many passes, of which the first comes after so many backward calls.

        One by one where nothing was forgotten: what is nested in a backward call has a number too.
        """
        if not self.forgot:
            return [*range(1, count + 1)]
        found = [(call - before) // self.cycle + 1 for call in self.calls]
        return [*found, *range(found[-1] + 1, found[-1] + 1 + count - len(found))]

    def stop(self, starts: Sequence[int], until: int) -> int:
        """Where the last pass ends: with the last line that also ends the first."""
        lines = {self._key(k)[:2] for k in range(self.last[0] + 1, starts[1])}
        rest = range(self.last[-1] + 1, until)
        return next((k + 1 for k in reversed(rest) if self._key(k)[:2] in lines), rest.start)

    def unfinished(self, stop: int, until: int) -> list[int]:
        """A pass that raised before its backward call."""
        return [k for k in range(stop, until) if self._key(k) == self.head][:1] if until == len(self.frames) else []

    def _key(self, step: int) -> Key:
        frame = self.frames[step]
        return (frame.place.file, frame.place.line, frame.op) if frame.place else ("", step, frame.op)
