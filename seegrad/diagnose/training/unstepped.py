"""Gradients that no step uses: of an optimiser that never steps, of all backward calls but the last, of a penalty."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from math import prod

from seegrad.diagnose.evidence import label, made_at
from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.diagnose.gradients import reach
from seegrad.diagnose.mend.lines import parts_of
from seegrad.diagnose.training.carried.fast import fast_writes
from seegrad.diagnose.training.freezes import trained_step
from seegrad.diagnose.training.steps import Round, leaf_of, leaves_of, names, reached, rounds
from seegrad.model.recording import Clue, Diagnosis, Frame, GradientUse, Place, Recording
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
NOT_REACHED = marked(
    "{Culprit} lets the step through at a count that its loop never comes to before it begins anew: the backward call "
    "on {backward} computes gradients for {leaves} in lap after lap, and the optimiser made on {victim}, which holds "
    "them, never steps."
)
COUNT_ON = marked(
    "If they are meant to learn, let fewer laps make a step, count on from epoch to epoch, or step once more behind "
    "the loop with what is left."
)
ANOTHER_STEPS = marked(
    "{Culprit} steps another optimiser, to whose tensors the backward call on {backward} has brought nothing: that "
    "computes gradients for {leaves}, and the optimiser made on {victim}, which holds them, never steps."
)
STEP_THIS = marked("If they are meant to learn, let {culprit} step the optimiser that holds them.")
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
    waits = (each for each in recording.clues_of("step unreached") if set(each.tensors) == leaves_of(idle))
    count = next(waits, None)
    culprit = named or count or _steps_another(recording, calls)
    finding = Finding(
        recording=recording,
        kind=NEVER,
        frame=calls[-1].index,
        culprit=culprit.place if culprit is not None else calls[0].place,
        victim=idle.place,
        tensor=leaves[0],
    )
    said, advice = (NOBODY_STEPS, STEP) if culprit is None else (ANOTHER_STEPS, STEP_THIS)
    if culprit is not None and culprit in (named, count):
        said, advice = (NOT_CALLED, CALL_IT) if culprit is named else (NOT_REACHED, COUNT_ON)
    facts: dict[str, Word] = {"leaves": names(recording, leaves)}
    return finding.told(said, advice, facts, backward=finding.line(calls[0].place))


def _steps_another(recording: Recording, calls: list[Frame]) -> GradientUse | None:
    """The step that comes next after these backward calls, each time of tensors to which the call brings nothing."""
    steps = [use for use in recording.uses if use.kind == "stepped"]
    ends, brought = dict[int | None, int](), dict[int | None, set[int | None]]()
    for frame in recording.frames:
        if frame.backward is not None:
            ends[frame.backward] = frame.index
            brought.setdefault(frame.backward, set()).add(leaf_of(recording, frame))
    found = []
    for call in {frame.backward for frame in calls}:
        use = next((each for each in steps if each.frame >= ends[call]), None)
        beside = use is not None and any(ends[call] < end < use.frame for end in ends.values())
        if use is not None and not beside and not leaves_of(use) & brought[call]:  # nor another call in between
            found.append(use)
    return found[0] if len(found) > 1 and len({use.place for use in found}) == 1 else None


# -- cleared at each backward call, a step after several

EACH = DiagnosisKind("cleared_each_backward", "note", marked("cleared at each backward call"))
ONLY_THE_LAST = marked(
    "The step on {victim} comes after {count} backward calls on {backward}, but {culprit} clears the gradients between "
    "them: it uses those of the last call alone."
)
ONCE_A_STEP = marked("If the step is to use the sum of all, clear once a step: right after it.")
ONLY_WHAT_FOLLOWS = marked(
    "{Culprit} throws away all that the backward call on {backward} has computed, before any step has used it, again "
    "and again: the step on {victim} uses only what comes after."
)
KEEP_OR_LEAVE = marked(
    "If the step is to use that, too, clear once a step: right after it; if it isn't, leave that backward call out."
)


@finder(order=21)
def find_cleared_each(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line that clears so before two steps; none where another line makes use of the gradients."""
    severed = {each.place for each in recording.clues_of("reaches")}  # told as that
    thrown = (each for each in recording.clues_of("thrown") if recording.frames[each.frame].place not in severed)
    noted = [each for each in thrown if _step_of(recording, each) is not None]
    yield from (_thrown(recording, each) for each in noted)
    found: dict[tuple[Place | None, Place | None], list[tuple[Round, list[Frame]]]] = {}
    steps = Counter[Place | None]()
    for round_ in rounds(recording):
        calls, lines = _one_a_call(round_), _cleared_between(recording, round_)
        steps[round_.step.place] += round_.adds_to is not None or bool(lines)  # of the first, a part may be forgotten
        if len(lines) == 1 and not _made_use_of(recording, round_, calls):
            found.setdefault((lines.pop(), round_.step.place), []).append((round_, calls))
    told = {each.place for each in noted}
    for (culprit, victim), each in found.items():
        often = len(each) >= SEVERAL and len(each) == steps[victim]  # else a batch was dropped now and then
        if often and culprit not in told:
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


def _step_of(recording: Recording, noted: Clue) -> GradientUse | None:
    steps = (use for use in reversed(recording.uses) if use.kind == "stepped" and noted.tensors[0] in leaves_of(use))
    return next(steps, None)


def _thrown(recording: Recording, noted: Clue) -> Diagnosis:
    """What was seen while it ran: of a round longer than what is remembered, or of two losses' calls."""
    step, count = _step_of(recording, noted), noted.fact("calls")
    finding = Finding(
        recording=recording,
        kind=EACH,
        frame=step.frame if step is not None else noted.frame,
        culprit=noted.place,
        victim=step.place if step is not None else None,
        tensor=noted.tensors[0],
    )
    said, advice = (ONLY_THE_LAST, ONCE_A_STEP) if count else (ONLY_WHAT_FOLLOWS, KEEP_OR_LEAVE)
    backward = finding.line(recording.frames[noted.frame].place)
    return finding.told(said, advice, {"count": int(count)} if count else {}, backward=backward)


def _one_a_call(round_: Round) -> list[Frame]:
    """The first Frame of each backward call that came to a leaf of the step's."""
    first: dict[int | None, Frame] = {}
    for frame in sorted((frame for came in round_.came.values() for frame in came), key=lambda each: each.index):
        first.setdefault(frame.backward, frame)
    return list(first.values())


def _cleared_between(recording: Recording, round_: Round) -> set[Place | None]:
    """The lines that clear between backward calls of one line; none where more than the last call's gradients stay."""
    calls, lines = _one_a_call(round_), set[Place | None]()
    if len({frame.place for frame in calls}) != 1:
        return set()
    for earlier, later in pairwise(calls):
        cleared = {use.place for use in round_.cleared if earlier.index <= use.frame < later.index}
        if cleared and not _all_cleared(recording, round_, earlier, later):
            return set()
        if not cleared and later is calls[-1]:
            return set()
        lines |= cleared
    return lines


def _all_cleared(recording: Recording, round_: Round, earlier: Frame, later: Frame) -> bool:
    """Is all that a call has computed cleared before the next one comes? Else it may be for another step."""
    uses = (use for use in round_.between if use.kind == "cleared" and earlier.index <= use.frame < later.index)
    return reached(recording, earlier.backward) <= {None}.union(*(leaves_of(use) for use in uses))


def _made_use_of(recording: Recording, round_: Round, calls: list[Frame]) -> bool:
    """Does the user's code look at the gradients that are cleared, or write to the leaves, before the last call?"""
    storages = {recording.tensors[leaf].storage for leaf in round_.leaves}
    since = range(calls[0].index, calls[-1].index)
    read = any(use.kind == "read" and use.frame in since for use in round_.between)
    return read or any(write.storage in storages and write.frame in since for write in recording.writes)


# -- a penalty on gradients, computed with a graph so that it can train, and no backward call comes for it

IN_VAIN = 3
"""So many times a penalty has to be computed so: once may be to look at it."""

PENALTY = DiagnosisKind("penalty_unused", "note", marked("a penalty that nothing takes up"))
NOT_TAKEN = marked(
    "{Culprit} makes the loss without {label}, which line {made} computes of a gradient that was asked for with a "
    "graph of its own, again and again: no backward call comes for it, and the step on {victim} trains nothing by it."
)
ADD_IT = marked(
    "If it is a penalty, add it to the loss before the backward call; if it is only to be watched, leave "
    "`create_graph=True` out."
)
NUMBERS = frozenset({"item", "detach", "tolist", "numpy", "cpu"})
"""Methods by which a term is added up to be looked at."""


@finder(order=28)
def find_penalties(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line that asks so for gradients, where nothing that is computed of any of them is ever used."""
    lines: dict[Place | None, list[Frame]] = {}
    for frame in recording.frames:
        if (frame.op, frame.phase) == ("grad", "backward") and frame.grad_enabled and frame.outputs:
            lines.setdefault(frame.place, []).append(frame)
    ran = {frame.running for frame in recording.frames if frame.running is not None}
    taken = fast_writes(recording) if lines else {}
    for frames in (each for each in lines.values() if len(each) >= IN_VAIN and each[0].place not in taken):
        ends = [_end(recording, frame, ran) for frame in frames]
        end = ends[-1]
        step = trained_step(recording, reach(recording, (end,)), frames[0].index) if end is not None else None
        if end is not None and step is not None and None not in ends and not _is_added(recording, end):
            made = _bound(recording, recording.tensors[end].name) or made_at(recording, end)
            finding = Finding(
                recording=recording,
                kind=PENALTY,
                frame=step.frame,
                culprit=_loss_between(recording, frames[0], step, end) or made,
                victim=step.place,
                tensor=end,
            )
            facts: dict[str, Word] = {"label": label(recording, end), "made": made.line if made else 0}
            yield finding.told(NOT_TAKEN, ADD_IT, facts)


def _end(recording: Recording, asked: Frame, ran: set[int]) -> int | None:
    """The last that is computed of these gradients and has fewer numbers than they, by its name where it has one.

    None where some of it led to a backward call, or none is: forces have as many numbers as places.
    """
    computed, found = set(asked.outputs), list[int]()
    size = max((prod(recording.tensors[tensor].shape) for tensor in asked.outputs), default=0)
    for frame in recording.frames[asked.index + 1 :]:
        if frame.phase == "forward" and not computed.isdisjoint(frame.inputs):
            if not ran.isdisjoint(frame.nodes):
                return None
            fresh = [tensor for tensor in frame.outputs if recording.tensors[tensor].requires_grad]
            computed |= set(fresh)
            found += [tensor for tensor in fresh if prod(recording.tensors[tensor].shape) < size]
    named = (tensor for tensor in reversed(found) if recording.tensors[tensor].name is not None)
    return next(named, found[-1] if found else None)


def _loss_between(recording: Recording, asked: Frame, step: GradientUse, end: int) -> Place | None:
    """The line of the loss whose backward call follows, before that step, to what is behind a penalty."""
    behind, calls = reach(recording, (end,)), dict[int, Frame]()
    for frame in recording.frames[asked.index + 1 : step.frame + 1]:
        if frame.backward is None or frame.backward == asked.backward or frame.running is None:
            continue
        first = calls.setdefault(frame.backward, frame)
        if recording.nodes[frame.running].leaf in behind and first.running is not None:
            loss = next(iter(recording.nodes[first.running].outputs), None)
            return None if loss is None else _set_above(recording, loss, first.place)
    return None


def _set_above(recording: Recording, loss: int, call: Place | None) -> Place | None:
    """The line that gives the loss its name, the nearest above its backward call; else the one that computes it."""
    name, made = recording.tensors[loss].name, made_at(recording, loss)
    sets = re.compile(rf"{re.escape(name)}\s*=(?!=)") if name is not None else None
    if sets is None or call is None or made is None or sets.match(made.code):
        return made
    above = [each for each in recording.code if each[0] < call.line and sets.match(each[1].strip())]
    line, text = above[-1] if above and call.file == recording.code_file else (0, "")
    return Place(recording.code_file, line, text.strip()) if line else made


def _is_added(recording: Recording, tensor: int) -> bool:
    """Does a line of the block's add it to something, in laps that aren't kept perhaps, and not its numbers alone?"""
    name = recording.tensors[tensor].name
    lines = (text for _, text in recording.code if name is not None and name in text and "+" in text)
    parts = (part for text in lines for part in parts_of(text.strip()))
    sums = (part for part in parts if isinstance(part, ast.BinOp | ast.AugAssign) and isinstance(part.op, ast.Add))
    terms = (each for part in sums for each in _operands(part))
    return any(name in names and NUMBERS.isdisjoint(names) for names in map(_named, terms))


def _operands(part: ast.BinOp | ast.AugAssign) -> list[ast.expr]:
    return [part.left, part.right] if isinstance(part, ast.BinOp) else [part.value]


def _named(term: ast.expr) -> set[str]:
    """The variables and attributes in a term."""
    found = [each for each in ast.walk(term) if isinstance(each, ast.Name | ast.Attribute)]
    return {ast.unparse(each) for each in found} | {each.attr for each in found if isinstance(each, ast.Attribute)}


def _bound(recording: Recording, name: str | None) -> Place | None:
    """The line of the block's file that gives the variable its value: a helper's `return` says less."""
    sets = re.compile(rf"\s*{re.escape(name)}\s*=(?!=)") if name is not None and name.isidentifier() else None
    line, text = next((each for each in recording.code if sets is not None and sets.match(each[1])), (0, ""))
    return Place(recording.code_file, line, text.strip()) if line else None
