"""Where two Recordings of one program differ: steps that one alone has, numbers, gradients, saved versions.

Not a finder: nothing went wrong. What differs stands beside the Diagnoses of both Recordings, so it is seen in their
pictures. Compared is what both have: a pass with the same pass, a backward call with the same call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from seegrad.diagnose.evidence import label
from seegrad.diagnose.finding import DiagnosisKind, Finding
from seegrad.diagnose.history.same_steps import Pair, aligned, passes_of, runs_of, steps_of, twins_of
from seegrad.model.recording import Diagnosis, Frame, Gradient, Place, Preview, Recording, Summary
from seegrad.words.languages import marked
from seegrad.words.phrases import Word, phrase, plural

ONLY_HERE = DiagnosisKind("only_here", "differs", marked("only in this recording"), (marked("only here"),))
GOES_ON = DiagnosisKind("goes_on", "differs", marked("goes on"), (marked("goes on from here"),))
OTHER_NUMBERS = DiagnosisKind("other_numbers", "differs", marked("other numbers"), (marked("other numbers"),))
OTHER_GRADIENT = DiagnosisKind("other_gradient", "differs", marked("another gradient"), (marked("another gradient"),))
OTHER_VERSIONS = DiagnosisKind("other_versions", "differs", marked("other versions"), (marked("other versions"),))

STEP = marked("`{op}` on {culprit} ran in this recording only.")
STEPS = marked("`{op}` on {culprit} and {steps} after it ran in this recording only.")
BEGINS = marked("{label} is {here} at first, and {there} in the other recording.")
COMPUTED = marked(
    "`{op}` on {culprit} made {here}, and {there} in the other recording, though the numbers that it was given are the "
    "same, as far as they are known."
)
WENT_ON = marked("The other recording ended at the error on {victim}; this one went on.")
WENT_ON_ALONE = marked("The other recording ended by an error; this one went on.")
MADE = marked("`{op}` on {culprit} made {here}, and {there} in the other recording.")
SEED = marked("If it draws numbers, seed both runs alike.")
FIRST = marked(
    "The gradient of {label}, which arrives at {node} from {culprit}, is the first that differs on the way back: "
    "{here}, and {there} in the other recording."
)
GRADIENT = marked("The gradient of {label} is {here}, and {there} in the other recording.")
GRADIENT_OF = marked(
    "After backward call {number}, the gradient of {label} is {here}, and {there} in the other recording."
)
VERSIONS = marked("{node} from {culprit} saved {here}, and {there} in the other recording.")
NOTHING = ""
WHOLE = marked("numbers of norm {norm}, {low} to {high}")
BROKEN = marked("numbers of norm {norm}, {low} to {high}, {broken} of them NaN or infinite")
ONE = marked("{number} at {index}")

Known = Preview | Summary | None
"""What is known of a tensor's numbers."""


def compare(first: Recording, second: Recording) -> tuple[Recording, Recording]:
    """The two with a note behind their Diagnoses wherever they differ; as they are where they don't.

    Numbers are compared where they are known: those of tensors up to 4×4, and where `values` was on in both, the
    Summary of larger ones.

    >>> compare(Recording(), Recording()) == (Recording(), Recording())
    True
    """
    pairs, *alone = aligned(first, second)
    turned = [(b, a) for a, b in pairs]
    return (
        replace(first, diagnoses=(*first.diagnoses, *_notes(first, second, pairs, alone))),
        replace(second, diagnoses=(*second.diagnoses, *_notes(second, first, turned, alone[::-1]))),
    )


def _notes(here: Recording, there: Recording, pairs: list[Pair], alone: Sequence[list[Frame]]) -> list[Diagnosis]:
    after = _after_the_end(here, there, pairs, alone)
    found = [*_only(here, alone[0][: len(alone[0]) - len(after)]), *_went_on(here, there, after)]
    found += [*_numbers(here, there, pairs), *_versions(here, there, pairs)]
    found += [*_origin(here, there, pairs), *_gradients(here, there)]
    return sorted(found, key=lambda each: each.frame or 0)


def _only(here: Recording, alone: list[Frame]) -> Iterator[Diagnosis]:
    """A note for each run of steps that follow each other."""
    runs: list[list[Frame]] = [[each] for each in alone[:1]]
    order = {step.index: number for number, step in enumerate(steps_of(here))}
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


def _after_the_end(here: Recording, there: Recording, pairs: list[Pair], alone: Sequence[list[Frame]]) -> list[Frame]:
    """Steps that one alone has because an error had ended the other by then."""
    if there.error is None:
        return []
    ours, theirs = alone
    last_here, last_there = (max((pair[k].index for pair in pairs), default=0) for k in (0, 1))
    after = [step for step in ours if step.index > last_here]
    ended = there.frames[there.error.frame]
    if ended.backward is None and not any(step.index > last_there for step in theirs):
        return after
    passes, last = passes_of(here), passes_of(there)[ended.index]
    return [step for step in after if passes[step.index] > last]


def _went_on(here: Recording, there: Recording, after: list[Frame]) -> Iterator[Diagnosis]:
    """One sentence for all that follows the other's error: it is no difference of its own."""
    if there.error is None or (here.error is not None and not after):
        return
    frame = after[0].index if after else max(len(here.frames) - 1, 0)
    finding = Finding(recording=here, kind=GOES_ON, frame=frame, victim=there.error.place)
    yield finding.told(WENT_ON if there.error.place else WENT_ON_ALONE, NOTHING, {})


def _numbers(here: Recording, there: Recording, pairs: list[Pair]) -> Iterator[Diagnosis]:
    """Where numbers that differ come from: tensors that begin so, and steps that were given the same."""
    ours, theirs = _Known(here), _Known(there)
    for name, tensor in ours.at_first.items():
        came, other = ours.first.get(tensor), theirs.first.get(theirs.at_first.get(name, -1))
        if _differ(came, other):
            finding = Finding(recording=here, kind=OTHER_NUMBERS, frame=0, tensor=tensor)
            ours_are, theirs_are = _said(came, other)
            yield finding.told(BEGINS, NOTHING, {}, label=label(here, tensor), here=ours_are, there=theirs_are)
    told: set[tuple[str, Place | None]] = set()  # from then on, later passes go on from other numbers
    for step, twin in pairs:
        given = list(zip(ours.before(step), theirs.before(twin), strict=False))
        alike = (step.op, step.place) not in told and not any(_differ(a, b) for a, b in given)
        seen = all(known is not None for pair in given for known in pair)
        for tensor, same in zip(step.outputs, twin.outputs, strict=False):
            came, went = ours.after(step).get(tensor), theirs.after(twin).get(same)
            if alike and _differ(came, went):
                finding = Finding(
                    recording=here, kind=OTHER_NUMBERS, frame=step.index, culprit=step.place, tensor=tensor
                )
                ours_are, theirs_are = _said(came, went)
                said, advice = (COMPUTED, SEED) if seen else (MADE, NOTHING)
                yield finding.told(said, advice, {}, op=step.op, here=ours_are, there=theirs_are)
                told.add((step.op, step.place))


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
    twins, came_there = twins_of(pairs), dict(runs_of(there))
    for (node, time), frame in runs_of(here):
        other = came_there.get((twins.get(node, -1), time))
        for came, went in zip(frame.gradients, other.gradients if other else (), strict=False):
            if _differ(_of(came), _of(went)):
                yield _first(here, frame, came, went)
                return


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
    """Leaves of one name whose `.grad` is another after the same backward call: the first such call of each."""
    ours, theirs = _kept(here), _kept(there)
    told: set[str] = set()
    several = any(call for _, call in (*ours, *theirs))
    for name, call in sorted(ours.keys() & theirs.keys()):
        (frame, tensor, came), (*_, other) = ours[name, call], theirs[name, call]
        if name not in told and _differ(came, other):
            told.add(name)
            finding = Finding(recording=here, kind=OTHER_GRADIENT, frame=frame, tensor=tensor)
            ours_are, theirs_are = _said(came, other)
            words = {"label": label(here, tensor), "here": ours_are, "there": theirs_are}
            yield finding.told(GRADIENT_OF if several else GRADIENT, NOTHING, {}, number=call + 1, **words)


def _kept(recording: Recording) -> dict[tuple[str, int], tuple[int, int, Known]]:
    """Leaf's name and number of a backward call → Frame, tensor and numbers of the `.grad` that it left."""
    found = {}
    for frame in recording.frames:
        for gradient in frame.gradients:
            ref = recording.tensors[gradient.tensor]
            if gradient.kept and ref.is_leaf and ref.name and frame.backward is not None:
                found[ref.name, frame.backward] = (frame.index, ref.id, _of(gradient))
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
