"""Where two Recordings of one program differ: steps that one alone has, numbers, gradients, saved versions.

Not a finder: nothing went wrong. What differs becomes notes of both Recordings, so it is seen in their pictures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from difflib import SequenceMatcher
from itertools import pairwise

from seegrad.diagnose.evidence import label
from seegrad.diagnose.finding import DiagnosisKind, Finding
from seegrad.model.recording import Diagnosis, Frame, Gradient, Preview, Recording, Summary
from seegrad.words.languages import marked
from seegrad.words.phrases import Word, phrase, plural

ONLY_HERE = DiagnosisKind("only_here", "note", marked("only in this recording"), (marked("only here"),))
OTHER_NUMBERS = DiagnosisKind("other_numbers", "note", marked("other numbers"), (marked("other numbers"),))
OTHER_GRADIENT = DiagnosisKind("other_gradient", "note", marked("another gradient"), (marked("another gradient"),))
OTHER_VERSIONS = DiagnosisKind("other_versions", "note", marked("other versions"), (marked("other versions"),))

STEP = marked("`{op}` on {culprit} ran in this recording only.")
STEPS = marked("`{op}` on {culprit} and {steps} after it ran in this recording only.")
BEGINS = marked("{label} is {here} at first, and {there} in the other recording.")
COMPUTED = marked(
    "`{op}` on {culprit} made {here}, and {there} in the other recording, though the numbers that it was given are the "
    "same, as far as they are known."
)
SEED = marked("If it draws numbers, seed both runs alike.")
FIRST = marked(
    "The gradient of {label}, which arrives at {node} from {culprit}, is the first that differs on the way back: "
    "{here}, and {there} in the other recording."
)
GRADIENT = marked("The gradient of {label} is {here}, and {there} in the other recording.")
VERSIONS = marked("{node} from {culprit} saved {here}, and {there} in the other recording.")
NOTHING = ""
WHOLE = marked("numbers of norm {norm}, {low} to {high}")
BROKEN = marked("numbers of norm {norm}, {low} to {high}, {broken} of them NaN or infinite")
ONE = marked("{number} at {index}")

Pair = tuple[Frame, Frame]
Known = Preview | Summary | None
"""What is known of a tensor's numbers."""


def compare(first: Recording, second: Recording) -> tuple[Recording, Recording]:
    """The two with a note in place of their Diagnoses wherever they differ; without notes where they don't.

    Steps are the same where they are the same op with results of the same shapes and dtypes, in the same order.
    Numbers are compared where they are known: those of tensors up to 4×4, and where `values` was on in both, the
    Summary of larger ones.

    >>> compare(Recording(), Recording()) == (Recording(), Recording())
    True
    """
    pairs, *alone = _aligned(first, second)
    turned = [(b, a) for a, b in pairs]
    return (
        replace(first, diagnoses=tuple(_notes(first, second, pairs, alone[0]))),
        replace(second, diagnoses=tuple(_notes(second, first, turned, alone[1]))),
    )


def _notes(here: Recording, there: Recording, pairs: list[Pair], alone: list[Frame]) -> list[Diagnosis]:
    found = [*_only(here, alone), *_numbers(here, there, pairs), *_versions(here, there, pairs)]
    found += [*_origin(here, there, pairs), *_gradients(here, there)]
    return sorted(found, key=lambda each: each.frame or 0)


def _aligned(first: Recording, second: Recording) -> tuple[list[Pair], list[Frame], list[Frame]]:
    """Steps that both have, and those that one alone has."""
    ours, theirs = _steps(first), _steps(second)
    keys = [_key(first, step) for step in ours], [_key(second, step) for step in theirs]
    pairs = [(ours[k], theirs[j]) for k, j in _matched(*keys)]
    known, twins = {pair[0].index for pair in pairs}, {pair[1].index for pair in pairs}
    alone = [step for step in ours if step.index not in known], [step for step in theirs if step.index not in twins]
    return pairs, *alone


def _matched(ours: list[tuple[object, ...]], theirs: list[tuple[object, ...]]) -> list[tuple[int, int]]:
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


def _steps(recording: Recording) -> list[Frame]:
    return [frame for frame in recording.frames if frame.phase in ("forward", "inplace")]


def _key(recording: Recording, step: Frame) -> tuple[object, ...]:
    made = [recording.tensors[tensor] for tensor in step.outputs]
    return step.op, *((each.shape, each.dtype) for each in made)


def _only(here: Recording, alone: list[Frame]) -> Iterator[Diagnosis]:
    """A note for each run of steps that follow each other."""
    runs: list[list[Frame]] = [[each] for each in alone[:1]]
    order = {step.index: number for number, step in enumerate(_steps(here))}
    for before, step in pairwise(alone):
        if order[step.index] == order[before.index] + 1:
            runs[-1].append(step)
        else:
            runs.append([step])
    for run in runs:
        node = here.nodes[run[0].nodes[0]] if run[0].nodes else None
        tensor = run[0].outputs[0] if run[0].outputs else None
        first, steps = run[0], plural("{count} step", "{count} steps", len(run) - 1)
        finding = Finding(
            recording=here, kind=ONLY_HERE, frame=first.index, culprit=first.place, node=node, tensor=tensor
        )
        yield finding.told(STEP if len(run) == 1 else STEPS, NOTHING, {}, op=first.op, steps=steps)


def _numbers(here: Recording, there: Recording, pairs: list[Pair]) -> Iterator[Diagnosis]:
    """Where numbers that differ come from: tensors that begin so, and steps that were given the same."""
    ours, theirs = _Known(here), _Known(there)
    for name, tensor in ours.at_first.items():
        came, other = ours.first.get(tensor), theirs.first.get(theirs.at_first.get(name, -1))
        if _differ(came, other):
            finding = Finding(recording=here, kind=OTHER_NUMBERS, frame=0, tensor=tensor)
            ours_are, theirs_are = _said(came, other)
            yield finding.told(BEGINS, NOTHING, {}, label=label(here, tensor), here=ours_are, there=theirs_are)
    for step, twin in pairs:
        given = zip(ours.before(step), theirs.before(twin), strict=False)
        alike = not any(_differ(a, b) for a, b in given)
        for tensor, same in zip(step.outputs, twin.outputs, strict=False):
            came, went = ours.after(step).get(tensor), theirs.after(twin).get(same)
            if alike and _differ(came, went):
                finding = Finding(
                    recording=here, kind=OTHER_NUMBERS, frame=step.index, culprit=step.place, tensor=tensor
                )
                ours_are, theirs_are = _said(came, went)
                yield finding.told(COMPUTED, SEED, {}, op=step.op, here=ours_are, there=theirs_are)


class _Known:
    """The numbers of a Recording's tensors, followed from step to step."""

    def __init__(self, recording: Recording) -> None:
        self._frames, self._read = recording.frames, 0
        self.numbers: dict[int, Known] = {}
        self._read_to(1)
        self.first = dict(self.numbers)
        known = [recording.tensors[tensor] for tensor in self.first]
        self.at_first = {ref.name: ref.id for ref in known if ref.name}

    def before(self, step: Frame) -> list[Known]:
        """Those of what the step was given."""
        self._read_to(step.index)
        return [self.numbers.get(tensor) for tensor in step.inputs]

    def after(self, step: Frame) -> dict[int, Known]:
        """All, after the step."""
        self._read_to(step.index + 1)
        return self.numbers

    def _read_to(self, stop: int) -> None:
        for frame in self._frames[self._read : stop]:
            self.numbers.update(frame.values)
            self.numbers.update(frame.summaries)
        self._read = max(self._read, stop)


def _versions(here: Recording, there: Recording, pairs: list[Pair]) -> Iterator[Diagnosis]:
    """Nodes that saved a tensor at another version than their twin did."""
    for step, twin in pairs:
        for number, other in zip(step.nodes, twin.nodes, strict=False):
            node, same = here.nodes[number], there.nodes[other]
            ours, theirs = (
                [f"`{saved.attr}` v{saved.version}" for saved in each.saved if saved.version is not None]
                for each in (node, same)
            )
            if node.name == same.name and ours != theirs:
                finding = Finding(recording=here, kind=OTHER_VERSIONS, frame=step.index, culprit=step.place, node=node)
                yield finding.told(VERSIONS, NOTHING, {}, here=", ".join(ours) or "–", there=", ".join(theirs) or "–")


def _origin(here: Recording, there: Recording, pairs: list[Pair]) -> Iterator[Diagnosis]:
    """The first Node in backward whose gradients differ from those of its twin."""
    twins = {ours: theirs for step, twin in pairs for ours, theirs in zip(step.nodes, twin.nodes, strict=False)}
    came_there = dict(_runs(there))
    for (node, time), frame in _runs(here):
        other = came_there.get((twins.get(node, -1), time))
        for came, went in zip(frame.gradients, other.gradients if other else (), strict=False):
            if _differ(_of(came), _of(went)):
                yield _first(here, frame, came, went)
                return


def _runs(recording: Recording) -> Iterator[tuple[tuple[int, int], Frame]]:
    """Each run of a Node in backward: its number, which time it runs, and the Frame."""
    times: Counter[int] = Counter()
    for frame in recording.frames:
        if frame.running is not None:
            yield (frame.running, times[frame.running]), frame
            times[frame.running] += 1


def _first(here: Recording, frame: Frame, came: Gradient, went: Gradient) -> Diagnosis:
    node = here.nodes[frame.running or 0]
    finding = Finding(
        recording=here,
        kind=OTHER_GRADIENT,
        frame=frame.index,
        culprit=here.frames[node.frame].place,
        node=node,
        name=None,
    )
    ours_are, theirs_are = _said(_of(came), _of(went))
    return finding.told(FIRST, NOTHING, {}, label=label(here, came.tensor), here=ours_are, there=theirs_are)


def _gradients(here: Recording, there: Recording) -> Iterator[Diagnosis]:
    """Leaves of one name whose `.grad` ends at other numbers."""
    ours, theirs = _kept(here), _kept(there)
    for name in sorted(ours.keys() & theirs.keys()):
        (frame, tensor, came), (*_, other) = ours[name], theirs[name]
        if _differ(came, other):
            finding = Finding(recording=here, kind=OTHER_GRADIENT, frame=frame, tensor=tensor)
            ours_are, theirs_are = _said(came, other)
            yield finding.told(GRADIENT, NOTHING, {}, label=label(here, tensor), here=ours_are, there=theirs_are)


def _kept(recording: Recording) -> dict[str, tuple[int, int, Known]]:
    """Leaf's name → Frame, tensor and numbers of its newest `.grad`."""
    found = {}
    for frame in recording.frames:
        for gradient in frame.gradients:
            ref = recording.tensors[gradient.tensor]
            if gradient.kept and ref.is_leaf and ref.name:
                found[ref.name] = (frame.index, ref.id, _of(gradient))
    return found


def _of(gradient: Gradient) -> Known:
    return gradient.summary or gradient.preview


def _differ(came: Known, other: Known) -> bool:
    """Are both known, and not the same? Of a Summary what's always there: its corner gives way in a long run."""
    if isinstance(came, Summary) and isinstance(other, Summary):
        return _facts(came) != _facts(other) or _parting(came, other) is not None
    return came is not None and other is not None and came != other


def _facts(known: Summary) -> tuple[object, ...]:
    return known.low, known.high, known.norm, known.zeros, known.nans, known.infinities, known.strip


def _parting(came: Summary, other: Summary) -> int | None:
    """The first number that differs, where the same corner of both is kept."""
    if came.kept != other.kept or not came.kept:
        return None
    pairs = enumerate(zip(came.numbers.split(), other.numbers.split(), strict=True))
    return next((k for k, (one, two) in pairs if one != two), None)


def _said(came: Known, other: Known) -> tuple[Word, Word]:
    """Both in words: of a Summary the number at which they part, where that is kept."""
    if isinstance(came, Summary) and isinstance(other, Summary):
        at = _parting(came, other)
        index = str(list(_index(at, came.kept))) if at is not None else ""
        one, two = (_whole(each) if at is None else _one(each, at, index) for each in (came, other))
        return one, two
    return _short(came), _short(other)


def _index(at: int, sides: tuple[int, ...]) -> list[int]:
    found: list[int] = []
    for side in reversed(sides):
        at, here = divmod(at, side)
        found.insert(0, here)
    return found


def _one(known: Summary, at: int, index: str) -> Word:
    return phrase(ONE, number=known.numbers.split()[at], index=index)


def _whole(known: Summary) -> Word:
    broken = known.nans + known.infinities
    words = {"norm": known.norm or "?", "low": known.low or "?", "high": known.high or "?"}
    return phrase(BROKEN, broken=broken, **words) if broken else phrase(WHOLE, **words)


def _short(numbers: Known) -> str:
    """`[[1, 2], [3, 4]]`, `[1, 2]`, `1`."""
    rows = [", ".join(row) for row in numbers or ()] if not isinstance(numbers, Summary) else ["…"]
    if len(rows) == 1:
        return f"[{rows[0]}]" if "," in rows[0] else rows[0]
    return "[" + ", ".join(f"[{row}]" for row in rows) + "]"
