"""Which steps of two Recordings of one program are the same: compared is only what both have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from seegrad.model.recording import Frame, Recording

Pair = tuple[Frame, Frame]
Key = tuple[object, ...]


def aligned(first: Recording, second: Recording) -> tuple[list[Pair], list[Frame], list[Frame]]:
    """Steps that both have, and those that one alone has; of passes that one has forgotten nobody knows.

    Steps are the same where they are the same op with results of the same shapes and dtypes, in the same order. Where
    one ended by an error, or has forgotten passes, they belong to the same pass, too: else what an error has cut off
    would be compared with a later pass. Of two whole ones, one may have a backward call more than the other.
    """
    both, steps = (first, second), (steps_of(first), steps_of(second))
    by_pass = any(each.error or each.laps for each in both)
    passes = [passes_of(each) for each in both]
    keys = [
        [(numbers[step.index] if by_pass else 0, *_key(each, step)) for step in run]
        for each, numbers, run in zip(both, passes, steps, strict=True)
    ]
    pairs = [(steps[0][k], steps[1][j]) for k, j in _matched(*keys)]
    known = {ours.index for ours, _ in pairs}, {theirs.index for _, theirs in pairs}
    since = max(map(_since, both))
    ours, theirs = (
        [step for step in steps[k] if step.index not in known[k] and passes[k][step.index] >= since] for k in (0, 1)
    )
    return pairs, ours, theirs


def _matched(ours: list[Key], theirs: list[Key]) -> list[tuple[int, int]]:
    """Places of the same step, first what both begin and end with: `difflib` alone looks for the longest block."""
    least = min(len(ours), len(theirs))
    begin = next((k for k in range(least) if ours[k] != theirs[k]), least)
    end = next((k for k in range(least - begin) if ours[-1 - k] != theirs[-1 - k]), least - begin)
    middle = SequenceMatcher(None, ours[begin : len(ours) - end], theirs[begin : len(theirs) - end], autojunk=False)
    return [
        *((k, k) for k in range(begin)),
        *((begin + b.a + k, begin + b.b + k) for b in middle.get_matching_blocks() for k in range(b.size)),
        *((len(ours) - k, len(theirs) - k) for k in range(end, 0, -1)),
    ]


def steps_of(recording: Recording) -> list[Frame]:
    """The Frames that the program's own lines made."""
    return [frame for frame in recording.frames if frame.phase in ("forward", "inplace")]


def _key(recording: Recording, step: Frame) -> Key:
    made = [recording.tensors[tensor] for tensor in step.outputs]
    return step.op, *((each.shape, each.dtype) for each in made)


def passes_of(recording: Recording) -> list[int]:
    """Of each Frame the number of the backward call that it leads to; -1 where passes are forgotten around it."""
    numbers, number = [0] * len(recording.frames), _calls(recording)
    for frame in reversed(recording.frames):
        number = frame.backward if frame.backward is not None else number
        numbers[frame.index] = number
    for before, last in zip((-1, *recording.laps), recording.laps, strict=False):
        numbers[before + 1 : last + 1] = [0 if before < 0 else -1] * (last - before)
    return numbers


def _calls(recording: Recording) -> int:
    return 1 + max((frame.backward for frame in recording.frames if frame.backward is not None), default=-1)


def _since(recording: Recording) -> int:
    """The first pass from which on all is kept."""
    first = recording.laps[-1] + 1 if recording.laps else 0
    return passes_of(recording)[first] if 0 < first < len(recording.frames) else 0


def twins_of(pairs: Sequence[Pair]) -> dict[int, int]:
    """Node → the other Recording's Node of the same step."""
    return {ours: theirs for step, twin in pairs for ours, theirs in zip(step.nodes, twin.nodes, strict=False)}


def runs_of(recording: Recording) -> Iterator[tuple[tuple[int, int], Frame]]:
    """Each run of a Node in backward: its number, which time it runs, and the Frame."""
    times: Counter[int] = Counter()
    for frame in recording.frames:
        if frame.running is not None:
            yield (frame.running, times[frame.running]), frame
            times[frame.running] += 1


def same_step(first: Recording, second: Recording, step: int) -> int | None:
    """The second's Frame at which the same happens as at one of the first; for an error, what it kept from coming."""
    frame = first.frames[step]
    if frame.phase == "error" and step:
        frame = first.frames[step - 1]
    pairs, *_alone = aligned(first, second)
    if frame.backward is None:
        twins = {ours.index: theirs.index for ours, theirs in pairs}
        return next((twins[k] for k in range(frame.index, 0, -1) if k in twins), None)
    ran, numbers = dict(runs_of(second)), twins_of(pairs)
    runs = [ran.get((numbers.get(node, -1), time)) for (node, time), each in runs_of(first) if each is frame]
    same = next(filter(None, runs), None)
    return same.index if same else _last_of(second, frame.backward)


def _last_of(recording: Recording, backward: int) -> int | None:
    """The last Frame of a backward call."""
    return next((each.index for each in reversed(recording.frames) if each.backward == backward), None)
