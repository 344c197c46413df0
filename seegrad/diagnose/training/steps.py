"""A training loop that misses its gradients: cleared too early, seldom or never, another loss's."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from seegrad.diagnose.evidence import asked_on, label
from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.model.recording import STEP, Diagnosis, Frame, GradientUse, Place, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Phrase, Word, joined

MOST_NAMED = 3
UNNAMED = marked("Parameters without a name of their own")


@dataclass(frozen=True, slots=True)
class Round:
    """An optimiser's step, with all that was done since its step before.

    `came`: leaf → the Frames in which a gradient was added to its `.grad`; `between`: the other uses of gradients.
    """

    step: GradientUse
    came: dict[int, list[Frame]]
    between: Sequence[GradientUse]
    adds_to: GradientUse | None  # the step before

    @property
    def leaves(self) -> set[int]:
        """What the optimiser holds."""
        return leaves_of(self.step)

    @property
    def cleared(self) -> list[GradientUse]:
        """Where leaves of its own were cleared."""
        return [use for use in self.between if use.kind == "cleared" and self.leaves & leaves_of(use)]

    @property
    def fresh(self) -> list[int]:
        """The leaves with a gradient that wasn't cleared since it came last."""
        cleared = {leaf: use.frame for use in self.cleared for leaf, _ in use.tensors}
        last = {leaf: frames[-1].index for leaf, frames in self.came.items()}
        return [
            leaf for leaf, now in self.step.tensors if now is not None and cleared.get(leaf, -1) < last.get(leaf, 0)
        ]


def rounds(recording: Recording) -> Iterator[Round]:
    """One for each step, in order. The step before is the last one that held any of these leaves."""
    arrivals = [(frame, leaf) for frame in recording.frames if (leaf := leaf_of(recording, frame)) is not None]
    indices = [frame.index for frame, _ in arrivals]
    steps: list[tuple[int, GradientUse]] = []
    for at, step in enumerate(recording.uses):
        if step.kind == "stepped":
            leaves = leaves_of(step)
            before = ((place, use) for place, use in reversed(steps) if leaves & leaves_of(use))
            since, previous = next(before, (-1, None))
            begin = bisect_right(indices, previous.frame) if previous else 0
            came: dict[int, list[Frame]] = {}
            for frame, leaf in arrivals[begin : bisect_right(indices, step.frame)]:
                if leaf in leaves:
                    came.setdefault(leaf, []).append(frame)
            yield Round(step, came, recording.uses[since + 1 : at], previous)
            steps.append((at, step))


def leaves_of(use: GradientUse) -> set[int]:
    """Whose gradients they are."""
    return {leaf for leaf, _ in use.tensors}


def leaf_of(recording: Recording, frame: Frame) -> int | None:
    """The leaf to whose `.grad` the Frame adds."""
    return None if frame.running is None else recording.nodes[frame.running].leaf


def computes_itself(recording: Recording, step: GradientUse) -> bool:
    """Does a step come to its gradients by a closure: between its beginning and its first write to a leaf?"""
    leaves = leaves_of(step)
    storages = {recording.tensors[leaf].storage for leaf in leaves}
    for frame in recording.frames[step.frame + 1 :]:
        if leaf_of(recording, frame) in leaves:
            return True
        if any(recording.writes[write].storage in storages for write in frame.writes):
            return False
    return False


def names(recording: Recording, leaves: Sequence[int]) -> Word:
    """The first few of them; those without a name as one."""
    named = list(dict.fromkeys(label(recording, leaf) for leaf in leaves if recording.tensors[leaf].name))
    words = named if all(recording.tensors[leaf].name for leaf in leaves) else [*named, Phrase(UNNAMED)]
    return joined([*words[:MOST_NAMED], *([f"+{len(words) - MOST_NAMED}"] if len(words) > MOST_NAMED else [])])


# -- cleared between backward and step: the step finds nothing

THROWN_AWAY = DiagnosisKind(
    "cleared_before_step", "wrong", marked("gradients cleared before the step"), (marked("cleared before the step"),)
)
NOTHING_LEFT = marked(
    "{Culprit} cleared the gradients that the backward call on {backward} had computed, before the step on {victim} "
    "could use them: that step had nothing to go by."
)
CLEAR_ELSEWHERE = marked("Clear the gradients before the backward call, or after the step.")


@finder(order=20)
def find_thrown_away(recording: Recording) -> Iterator[Diagnosis]:
    """One for each line that cleared, at the first step that found nothing.

    Where another step has used gradients of these leaves, a batch was thrown away on purpose.
    """
    told: set[Place | None] = set()
    used = {leaf for round_ in rounds(recording) for leaf in round_.fresh}
    for round_ in rounds(recording):
        if not round_.came or not used.isdisjoint(round_.came) or _moved_since(recording, round_):
            continue
        guilty, last = round_.cleared[-1:], max(frames[-1].index for frames in round_.came.values())
        if guilty and guilty[0].place not in told and not _has_another(round_, guilty[0]):
            told.add(guilty[0].place)
            backward = recording.frames[last].place
            finding = Finding(
                recording=recording,
                kind=THROWN_AWAY,
                frame=round_.step.frame,
                culprit=guilty[0].place,
                victim=round_.step.place,
                tensor=next(iter(round_.came)),
            )
            yield finding.told(NOTHING_LEFT, CLEAR_ELSEWHERE, {}, backward=finding.line(backward))


def _has_another(round_: Round, cleared: GradientUse) -> bool:
    """Does the step go by gradients that were put in the place of those? A tensor's version never falls.

    One that was written full of zeros has one above 0.
    """
    now = dict(round_.step.tensors)
    then = ((now.get(leaf), version or 0) for leaf, version in cleared.tensors)
    return any(new is not None and (new < old or old == 0) for new, old in then)


def _moved_since(recording: Recording, round_: Round) -> bool:
    """Has one of the leaves been moved since its gradient came: by the step before, whose closure it came in?"""
    storages = {recording.tensors[leaf].storage for leaf in round_.came}
    first = min(frames[0].index for frames in round_.came.values())
    since = recording.frames[first : round_.step.frame + 1]
    return any(recording.writes[write].storage in storages for frame in since for write in frame.writes)


# -- never cleared: each step uses the sum of all gradients so far

SUMMED = DiagnosisKind("gradients_never_cleared", "note", marked("gradients never cleared"))
ADDED_UP = marked(
    "The step on {victim} uses more than the newest gradients: nothing has cleared those of the step before, so "
    "{culprit} has added to them."
)
SELDOM = marked(
    "{Culprit} clears the gradients for the first of several steps alone: the step on {victim} comes again before it "
    "does, and goes by what {backward} has added to those of the step before."
)
CLEAR_EACH = marked(
    "If each step is to use its own gradients, clear them in the inner loop, before each backward call on {backward}."
)
CLEAR = marked("If each step is to use its own gradients, call `optimizer.zero_grad()` before the backward call.")


@finder(order=21)
def find_never_cleared(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line of a step whose gradients moved by its own backward calls alone since the step before."""
    told: set[Place | None] = set()
    for round_ in rounds(recording):
        if round_.adds_to is None or round_.cleared or round_.step.place in told:
            continue
        if any(computes_itself(recording, step) for step in (round_.adds_to, round_.step)):
            continue  # what its closure clears and adds comes after the versions that are known
        then = dict(round_.adds_to.tensors)
        clips = Counter(leaf for use in round_.between if use.kind == "clipped" for leaf, _ in use.tensors)
        grown = [
            leaf
            for leaf, now in round_.step.tensors
            if _only_added(then.get(leaf), now, len(round_.came.get(leaf, ())), clips[leaf])
        ]
        if grown and all(leaf in grown for leaf in round_.came):
            told.add(round_.step.place)
            backward, seldom = round_.came[grown[0]][-1].place, _seldom(recording, round_)
            finding = Finding(
                recording=recording,
                kind=SUMMED,
                frame=round_.step.frame,
                culprit=backward if seldom is None else seldom,
                victim=round_.step.place,
                tensor=grown[0],
            )
            said, advice = (ADDED_UP, CLEAR) if seldom is None else (SELDOM, CLEAR_EACH)
            yield finding.told(said, advice, {}, backward=finding.line(backward))


def _seldom(recording: Recording, summed: Round) -> Place | None:
    """The one line that clears all of these before the first step of each outer lap, none of the later ones."""
    alike = [each for each in rounds(recording) if each.step.place == summed.step.place]
    clears = [use for each in alike for use in each.cleared if summed.leaves <= leaves_of(use)]
    lines, often = {use.place for use in clears}, len({use.frame for use in clears})
    return next(iter(lines)) if len(lines) == 1 and 1 < often < len(alike) else None


def _only_added(then: int | None, now: int | None, came: int, clips: int) -> bool:
    """Has the gradient been written just as often as one came or it was clipped: by nobody who cleared it?"""
    return then is not None and now is not None and came > 0 and now - then == came + clips


BY_HAND = 2
"""So often in a row a loop by hand has to go by such a sum."""
SUMMED_BY_HAND = marked(
    "{Culprit} changes {label} by its gradient, and nothing has cleared that since the last time: the backward call on "
    "{backward} has added to it, so each change goes by the sum of all gradients so far."
)
CLEAR_BY_HAND = marked("If each change is to go by its own gradient, clear it afterwards: `{name}.grad = None`.")


@finder(order=21)
def find_never_cleared_by_hand(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line of the user's that goes so from one write to a leaf to the next, without an optimiser."""
    waiting: dict[int, _Update] = {}
    told: set[Place | None] = set()
    written = {recording.writes[number].storage for frame in recording.frames if _may(frame) for number in frame.writes}
    for frame in recording.frames:
        leaf = leaf_of(recording, frame)
        if leaf is not None and recording.tensors[leaf].storage in written:
            waiting.setdefault(leaf, _Update()).came = frame
        for leaf, gradient in _by_hand(recording, frame, waiting):
            update = waiting[leaf]
            if update.sums >= BY_HAND and frame.place not in told and update.came is not None:
                told.add(frame.place)
                finding = Finding(
                    recording=recording,
                    kind=SUMMED,
                    frame=frame.index,
                    culprit=frame.place,
                    victim=frame.place,
                    tensor=leaf,
                )
                backward = finding.line(update.came.place)
                yield finding.told(SUMMED_BY_HAND, CLEAR_BY_HAND, {"label": label(recording, leaf)}, backward=backward)
            waiting[leaf] = _Update(gradient, sums=update.sums)


@dataclass(slots=True)
class _Update:
    """Of a leaf that is written to by hand: the gradient it went by last, the arrival since, what's computed of it."""

    gradient: int | None = None
    came: Frame | None = None
    computed: dict[int, int] = field(default_factory=dict)  # tensor → the gradient that it's computed of
    sums: int = 0


def _may(frame: Frame) -> bool:
    """May what it writes be written by hand?"""
    return frame.phase in ("forward", "inplace") and frame.op != STEP


def _by_hand(recording: Recording, frame: Frame, waiting: dict[int, _Update]) -> list[tuple[int, int]]:
    """The leaves that the Frame writes to by what is computed of their own gradients, with those."""
    if not _may(frame):
        return []
    written = {recording.writes[number].storage for number in frame.writes}
    read, found = _read(recording, frame), []
    for leaf, update in waiting.items():
        tensors = recording.tensors
        if update.gradient is not None and tensors[update.gradient].storage in written:
            update.gradient, update.sums = None, 0  # cleared, scaled
        shape = tensors[leaf].shape
        mine = (each for each in frame.inputs if each in update.computed or read.get(each) == shape)
        of = [update.computed.get(each, each) for each in mine]
        if of and update.came is not None:
            update.computed.update(
                dict.fromkeys((*frame.outputs, *frame.inputs[:1]) if written else frame.outputs, of[0])
            )
            if tensors[leaf].storage in written:
                update.sums = update.sums + 1 if update.gradient == of[0] else 0
                found.append((leaf, of[0]))
    return found


def _read(recording: Recording, frame: Frame) -> dict[int, tuple[int, ...]]:
    """What may be a leaf's gradient, with its shape: read on that line, made by no call."""
    if frame.place is None or ".grad" not in frame.place.code:
        return {}
    refs = (recording.tensors[each] for each in frame.inputs)
    return {
        ref.id: ref.shape for ref in refs if not ref.requires_grad and ref.id not in recording.frames[ref.frame].outputs
    }


READ_AS_A_SUM = marked(
    "{Culprit} has added to the gradient of {label} after line {first} had read it, and nothing has cleared it "
    "between: what {victim} reads then is the sum over these backward calls, and no step goes by that sum."
)
ASK_FOR_EACH = marked(
    "If it is to be the gradient of the newest loss alone, clear it before each of these calls, or ask for it by "
    "`torch.autograd.grad(loss, parameters)`, which adds to nothing."
)


@finder(order=21)
def find_read_as_a_sum(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line that keeps a gradient to which a further backward call has come since one was kept."""
    for clue in recording.clues_of("summed"):
        before = reversed(recording.frames[: clue.frame + 1])
        came = next((frame for frame in before if leaf_of(recording, frame) in clue.tensors), None)
        if came is not None:
            finding = Finding(
                recording=recording,
                kind=SUMMED,
                frame=came.index,
                culprit=came.place,
                victim=clue.place,
                tensor=clue.tensors[0],
            )
            facts: dict[str, Word] = {"label": label(recording, clue.tensors[0]), "first": clue.fact("first")}
            yield finding.told(READ_AS_A_SUM, ASK_FOR_EACH, facts)


# -- what another loss has left is used too

FOREIGN = DiagnosisKind("foreign_gradients", "note", marked("gradients of another loss"))
LEFT_THERE = marked(
    "The step on {victim} also uses what {culprit} has left in the gradient of {label}: that backward call was for the "
    "step on {other}."
)
KEEP_APART = marked(
    "If that isn't meant, clear these gradients right before the backward call of their own loss, or keep the other "
    "loss from reaching them."
)
LEAVE_OUT = marked(
    "What brings {label} into that loss is {place}: with its `requires_grad` switched off around that line, the loss "
    "goes through it and leaves no gradient there."
)
CLEAR_LATER = marked(
    "{Place} clears these gradients before that call: done after it, right before the backward call of their own loss, "
    "it takes away what that call has left."
)
STEP_FIRST = marked(
    "If that isn't meant, make this step before that loss is computed, or say what its backward call may reach: "
    "`backward(inputs=list(…parameters()))`."
)


@finder(order=22)
def find_foreign(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line of a step whose gradients a backward for another optimiser's step has added to."""
    told: set[Place | None] = set()
    for round_ in rounds(recording):
        found = next(_left_by_others(recording, round_), None) or next(_came_for_others(recording, round_), None)
        if found is not None and round_.step.place not in told:
            told.add(round_.step.place)
            leaf, frame, other = found
            finding = Finding(
                recording=recording,
                kind=FOREIGN,
                frame=round_.step.frame,
                culprit=frame.place,
                victim=round_.step.place,
                tensor=leaf,
                instead=((met_on(recording, frame), LEAVE_OUT), *_cleared_early(round_, found)),
            )
            facts: dict[str, Word] = {"label": label(recording, leaf)}
            advice = KEEP_APART if other.frame < round_.step.frame else STEP_FIRST
            yield finding.told(LEFT_THERE, advice, facts, other=finding.line(other.place))


def met_on(recording: Recording, arrived: Frame) -> Place | None:
    """The line that computes with a leaf what a backward call came to it from; for whom, if it does so for several."""
    ran = (f.running for f in recording.frames if f.backward == arrived.backward and f.running is not None)
    nodes = (recording.nodes[number] for number in ran)
    met = (node for node in nodes if any(edge.target == arrived.running for edge in node.edges))
    node = next(met, None)
    return None if node is None else asked_on(recording, recording.frames[node.frame])


Left = tuple[int, Frame, GradientUse]
"""A leaf, the Frame in which a gradient came to it, and the step that this gradient's backward call was for."""


def _cleared_early(round_: Round, left: Left) -> list[tuple[Place | None, str]]:
    """The line that clears the leaf between its last step and the other loss's call, where that has stepped first."""
    leaf, frame, other = left
    clears = [use for use in round_.between if use.kind == "cleared" and leaf in leaves_of(use)]
    early = [use.place for use in clears if use.frame <= frame.index and other.frame < round_.step.frame]
    return [(early[-1], CLEAR_LATER)] if early else []


def _left_by_others(recording: Recording, round_: Round) -> Iterator[Left]:
    """The call that the arrival is of reached that other optimiser, which then stepped.

    After it another gradient came to the leaf, and nobody had cleared the first.
    """
    others = [use for use in round_.between if use.kind == "stepped" and not leaves_of(use) & round_.leaves]
    for other in others:
        for leaf, frames in round_.came.items():
            since = [frame for frame in frames if not _gone(round_, frame, leaf)]
            for frame in since[:-1]:
                between = frame.index <= other.frame < since[-1].index
                if between and leaves_of(other) & reached(recording, frame.backward):
                    yield leaf, frame, other


def _came_for_others(recording: Recording, round_: Round) -> Iterator[Left]:
    """The gradients of another optimiser alone were cleared for that call, after a first one for this step.

    Each clears its own before its own loss, and the other one steps later.
    """
    calls: dict[int | None, tuple[int, Frame]] = {}
    there = ((frame, leaf) for leaf, came in round_.came.items() for frame in came if not _gone(round_, frame, leaf))
    for frame, leaf in sorted(there, key=_when):
        calls.setdefault(frame.backward, (leaf, frame))
    for clear in round_.between:
        theirs = leaves_of(clear)
        other = (
            None if clear.kind != "cleared" or theirs & round_.leaves else _steps_later(recording, round_.step, theirs)
        )
        before = [call for call, (_, frame) in calls.items() if frame.index <= clear.frame]
        after = next((each for each in calls.values() if each[1].index > clear.frame), None)
        if other is None or after is None or not before or not theirs & reached(recording, after[1].backward):
            continue
        if all(reached(recording, call) <= {None, *round_.leaves} for call in before):
            yield *after, other


def _gone(round_: Round, came: Frame, leaf: int) -> bool:
    """Has anybody cleared what came there, before the step?"""
    return any(use.frame >= came.index and leaf in leaves_of(use) for use in round_.cleared)


def _when(each: tuple[Frame, int]) -> int:
    return each[0].index


def _steps_later(recording: Recording, step: GradientUse, leaves: set[int]) -> GradientUse | None:
    """The next step of what was cleared, before this optimiser steps again."""
    for use in recording.uses[recording.uses.index(step) + 1 :]:
        if use.kind == "stepped":
            if leaves_of(use) & leaves_of(step):
                return None
            if leaves <= leaves_of(use):
                return use
    return None


def reached(recording: Recording, backward: int | None) -> set[int | None]:
    """The leaves that a backward call has given a gradient."""
    return {leaf_of(recording, frame) for frame in recording.frames if frame.backward == backward}
