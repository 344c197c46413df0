"""Gradients that no step uses: the optimiser never steps, or it steps with the last of several backward calls alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.diagnose.training.steps import Round, leaf_of, leaves_of, names, rounds
from seegrad.model.recording import Diagnosis, Frame, GradientUse, Place, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word

SEVERAL = 2
"""Backward calls for the same leaves, steps of the same kind: once may be chance."""

# -- an optimiser that never steps

NEVER = DiagnosisKind("never_stepped", "note", marked("the optimiser never steps"))
NOBODY_STEPS = marked(
    "{Culprit} computes gradients for {leaves} in lap after lap, and the optimiser made on {victim}, which holds them, "
    "never steps: they stay as they are."
)
NOT_CALLED = marked(
    "{Culprit} names the method and doesn't call it: the optimiser made on {victim} never steps, so {leaves} stay as "
    "they are."
)
STEP = marked("If they are meant to learn, call the optimiser's `step()` after the backward call on {backward}.")
CALL_IT = marked("Write the brackets: `step()`.")


@finder(order=19)
def find_never_stepped(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each optimiser whose leaves got gradients again and again, and that had stepped by no end of it."""
    if recording.error is not None:
        return
    told: set[Place | None] = set()
    for idle in recording.uses:
        calls = _calls(recording, leaves_of(idle)) if is_idle(recording, idle) else []
        if len({frame.backward for frame in calls}) >= SEVERAL and idle.place not in told:
            told.add(idle.place)
            yield _describe(recording, idle, calls)


def is_idle(recording: Recording, use: GradientUse) -> bool:
    """Is it an optimiser that never stepped, and nobody else wrote to what it holds?"""
    if use.kind != "idle":
        return False
    leaves, calls = leaves_of(use), _calls(recording, leaves_of(use))
    storages = {recording.tensors[leaf].storage for leaf in leaves}
    stepped = any(each.kind == "stepped" and leaves & leaves_of(each) for each in recording.uses)
    since = calls[0].index if calls else 0
    return not stepped and not any(each.storage in storages and each.frame > since for each in recording.writes)


def _calls(recording: Recording, leaves: set[int]) -> list[Frame]:
    """The Frames in which a gradient came to one of these leaves."""
    return [frame for frame in recording.frames if leaf_of(recording, frame) in leaves]


def _describe(recording: Recording, idle: GradientUse, calls: list[Frame]) -> Diagnosis:
    leaves = [leaf for leaf, _ in idle.tensors if any(leaf_of(recording, frame) == leaf for frame in calls)]
    uncalled = (each for each in recording.uses if each.kind == "uncalled" and each.tensors == idle.tensors)
    named = next(uncalled, None)
    finding = Finding(
        recording=recording,
        kind=NEVER,
        frame=calls[-1].index,
        culprit=named.place if named is not None else calls[0].place,
        victim=idle.place,
        tensor=leaves[0],
    )
    said, advice = (NOBODY_STEPS, STEP) if named is None else (NOT_CALLED, CALL_IT)
    facts: dict[str, Word] = {"leaves": names(recording, leaves)}
    return finding.told(said, advice, facts, backward=finding.line(calls[0].place))


# -- cleared at each backward call, a step after several

EACH = DiagnosisKind("cleared_each_backward", "note", marked("cleared at each backward call"))
ONLY_THE_LAST = marked(
    "The step on {victim} comes after {count} backward calls on {backward}, but {culprit} clears the gradients between "
    "them: it uses those of the last call alone."
)
ONCE_A_STEP = marked("If the step is to use the sum of all, clear once a step: right after it.")


@finder(order=21)
def find_cleared_each(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line that clears so before two steps; none where another line makes use of the gradients."""
    found: dict[tuple[Place | None, Place | None], list[tuple[Round, list[Frame]]]] = {}
    steps = Counter[Place | None]()
    for round_ in rounds(recording):
        calls, lines = _one_a_call(round_), _cleared_between(round_)
        steps[round_.step.place] += 1
        if len(lines) == 1 and not _made_use_of(recording, round_, calls):
            found.setdefault((lines.pop(), round_.step.place), []).append((round_, calls))
    for (culprit, victim), each in found.items():
        if len(each) >= SEVERAL and len(each) == steps[victim]:  # else a batch was dropped now and then
            round_, calls = each[0]
            finding = Finding(
                recording=recording,
                kind=EACH,
                frame=round_.step.frame,
                culprit=culprit,
                victim=victim,
                tensor=next(iter(round_.came)),
            )
            yield finding.told(ONLY_THE_LAST, ONCE_A_STEP, {"count": len(calls)}, backward=finding.line(calls[0].place))


def _one_a_call(round_: Round) -> list[Frame]:
    """The first Frame of each backward call that came to a leaf of the step's."""
    first: dict[int | None, Frame] = {}
    for frame in sorted((frame for came in round_.came.values() for frame in came), key=lambda each: each.index):
        first.setdefault(frame.backward, frame)
    return list(first.values())


def _cleared_between(round_: Round) -> set[Place | None]:
    """The lines that clear between backward calls of one line; none where more than the last call's gradients stay."""
    calls, lines = _one_a_call(round_), set[Place | None]()
    if len({frame.place for frame in calls}) != 1:
        return set()
    for earlier, later in pairwise(calls):
        cleared = {use.place for use in round_.cleared if earlier.index <= use.frame < later.index}
        if not cleared and later is calls[-1]:
            return set()
        lines |= cleared
    return lines


def _made_use_of(recording: Recording, round_: Round, calls: list[Frame]) -> bool:
    """Does the user's code look at the gradients, or write to the leaves, before the step?"""
    storages = {recording.tensors[leaf].storage for leaf in round_.leaves}
    since = range(calls[0].index, round_.step.frame + 1)
    read = any(use.kind == "read" and use.frame in since for use in round_.between)
    return read or any(write.storage in storages and write.frame in since for write in recording.writes)
