"""Parameters whose gradients are switched off: in vain, for too long, at 0, or without need: no loss reaches them."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterator
from itertools import groupby
from pathlib import PurePath

from seegrad.diagnose.evidence import ancestors, is_trained, label
from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.diagnose.history.copied import CopiedNumbers
from seegrad.diagnose.history.twins import called_instead
from seegrad.diagnose.training.held import KEEP_THE_WAY, made_by, replacing
from seegrad.diagnose.training.steps import leaf_of, leaves_of, names
from seegrad.model.recording import Diagnosis, Frame, GradientUse, Place, Recording, Switch
from seegrad.words.languages import marked
from seegrad.words.phrases import Word

LIBRARIES = {"site-packages", "dist-packages"}

PUT = re.compile(r"\s*\w+((?:\.\w+|\[-?\w+\])+)\s*=(?!=)")
INDEX = re.compile(r"\[(-?\w+)\]")
"""`model.fc = …`, `net[2] = …`: where a module is put."""

HANDS_ON = frozenset({"requires_grad_", "detach", "data", "numel"})
"""Ops that compute nothing with what they're given."""


def steps(recording: Recording) -> list[GradientUse]:
    """Every step of an optimiser."""
    return [use for use in recording.uses if use.kind == "stepped"]


def arrivals(recording: Recording) -> dict[int, list[int]]:
    """Leaf → the Frames in which a gradient came to it."""
    came: dict[int, list[int]] = {}
    for frame in recording.frames:
        leaf = leaf_of(recording, frame)
        if leaf is not None:
            came.setdefault(leaf, []).append(frame.index)
    return came


def trained_step(recording: Recording, leaves: Collection[int], since: int) -> GradientUse | None:
    """The first step, after a Frame, of an optimiser that holds some of these leaves and has a gradient for them."""
    fitting = (
        step
        for step in steps(recording)
        if step.frame >= since and any(leaf in leaves and now is not None for leaf, now in step.tensors)
    )
    return next(fitting, None)


def last_switches(recording: Recording, *, until: float = math.inf) -> dict[int, Switch]:
    """Leaf → who switched it last, up to a Frame."""
    switches = (each for each in recording.switches if each.kind == "tensors" and each.frame <= until)
    return {leaf: each for each in switches for leaf in each.tensors}


def switched_on_again(recording: Recording) -> set[int]:
    """The leaves that somebody has switched on."""
    return {leaf for each in recording.switches if each.kind == "tensors" and each.on for leaf in each.tensors}


# -- a freeze that freezes nothing

IN_VAIN = DiagnosisKind("freeze_without_effect", "note", marked("freeze without effect"))
IN_VAIN_AS = {
    "unheard": marked(
        "{Culprit} sets an attribute that torch doesn't read: {leaves} still require grad, and the step on {victim} "
        "changes them."
    ),
    "alias": marked(
        "{Culprit} switches off another tensor on the bytes of {leaves}, not the parameter: it still requires grad, "
        "and the step on {victim} changes it."
    ),
    "undone": marked(
        "{Culprit} switches {leaves} on again, which {off} had switched off just before: the step on {victim} changes "
        "them."
    ),
    "replaced": marked(
        "{Culprit} puts {leaves}, which require grad, in the place of what {off} had switched off, with its numbers: "
        "the step on {victim} changes them."
    ),
    "moves": marked(
        "{Culprit} switched {leaves} off, but a gradient is still in their `.grad`, and the optimiser goes on using "
        "it: the step on {victim} may change them (momentum, weight decay)."
    ),
}
BEHIND_IT = marked("{Place} is what runs it: freeze below that.")
FREEZE = {
    "unheard": marked(
        "If they are to stay as they are, call `requires_grad_(False)` on the module, which has each of its parameters "
        "switched off."
    ),
    "alias": marked(
        "If they are to stay as they are, switch off the parameters themselves: `for p in module.parameters(): "
        "p.requires_grad_(False)`."
    ),
    "undone": marked("If the freeze is meant, leave out the parameters that are frozen: `if p.requires_grad`."),
    "replaced": marked(
        "If they are to stay as they are, freeze once that line has run, or switch the new ones off, too."
    ),
    "moves": marked(
        "If they are to stay as they are, set their `.grad` to `None` when you freeze them: an optimiser passes over "
        "those."
    ),
}


@finder(order=25)
def find_freeze_in_vain(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line that freezes nothing, at the first step that shows it."""
    told, asks = set[Place | None](), tuple(recording.clues_of("asks"))
    for how, switch, leaves, step, off in _in_vain(recording):
        if switch.place not in told:
            told.add(switch.place)
            finding = Finding(
                recording=recording,
                kind=IN_VAIN,
                frame=step.frame,
                culprit=switch.place,
                victim=step.place,
                tensor=leaves[0],
                instead=tuple((each.place, BEHIND_IT) for each in asks if leaves[0] in each.tensors),
            )
            facts: dict[str, Word] = {"how": how, "leaves": names(recording, leaves)}
            yield finding.told(IN_VAIN_AS[how], FREEZE[how], facts, off=finding.line(off))


Vain = tuple[str, Switch, list[int], GradientUse, Place | None]
"""How, by whom, for which leaves, which step shows it; and, of a freeze that was undone, the line that froze."""


def _in_vain(recording: Recording) -> Iterator[Vain]:
    came = arrivals(recording)
    last = last_switches(recording)
    yield from _replaced_by(recording, came, last)
    for at, switch in enumerate(recording.switches):
        if switch.kind == "unheard" and not switch.on:
            yield from _changed(recording, "unheard", switch, [leaf for leaf in switch.tensors if leaf in came])
        elif switch.kind == "tensors" and not switch.on:
            originals = [leaf for tensor in switch.tensors if (leaf := _original(recording, tensor)) in came]
            yield from _changed(recording, "alias", switch, [leaf for leaf in originals if leaf is not None])
            yield from _moves_on(recording, switch, [leaf for leaf in switch.tensors if last[leaf] is switch], came)
        elif switch.kind == "tensors":
            yield from _undone(recording, recording.switches[:at], switch, came)


def _replaced_by(recording: Recording, came: dict[int, list[int]], last: dict[int, Switch]) -> Iterator[Vain]:
    """What was switched off has given its place and its numbers to others, which aren't all that learns."""
    for place, clues in groupby(recording.clues_of("thawed"), key=lambda each: each.place):
        pairs = [(new, last[old]) for new, old in (each.tensors for each in clues) if old in last and not last[old].on]
        leaves, meant = [new for new, _ in pairs if new in came], switched_on_again(recording)
        step = trained_step(recording, leaves, 0)
        others = {leaf for leaf, now in (step.tensors if step is not None else ()) if now is not None} - set(leaves)
        if others and meant.isdisjoint(leaves):
            yield from _changed(recording, "replaced", Switch("tensors", True, 0, place), leaves, pairs[0][1].place)


def _changed(
    recording: Recording, how: str, switch: Switch, leaves: list[int], off: Place | None = None
) -> Iterator[Vain]:
    step = trained_step(recording, leaves, switch.frame)
    if leaves and step is not None:
        yield how, switch, leaves, step, off


def _original(recording: Recording, tensor: int) -> int | None:
    """The trained leaf of which this is a `.detach()` or `.data`."""
    ref = recording.tensors[tensor]
    while ref.route in ("detach", "data") and ref.alias_of is not None:
        ref = recording.tensors[ref.alias_of]
    return ref.id if ref.id != tensor and is_trained(recording, ref.id) else None


def _undone(
    recording: Recording, earlier: tuple[Switch, ...], switch: Switch, came: dict[int, list[int]]
) -> Iterator[Vain]:
    """All that one line had switched off is switched on, with more, before anything was computed with it."""
    on = set(switch.tensors)
    for off in reversed(earlier):
        if off.kind == "tensors" and not off.on and off.place != switch.place and set(off.tensors) < on:
            between = recording.frames[off.frame + 1 : switch.frame]
            if not any(frame.phase == "forward" and not on.isdisjoint(_computed_with(frame)) for frame in between):
                yield from _changed(
                    recording, "undone", switch, [leaf for leaf in off.tensors if leaf in came], off.place
                )
            return


def _computed_with(frame: Frame) -> tuple[int, ...]:
    """What goes into a Frame's op; nothing where it only hands a tensor on."""
    return () if frame.op in HANDS_ON else frame.inputs


def _moves_on(recording: Recording, switch: Switch, leaves: list[int], came: dict[int, list[int]]) -> Iterator[Vain]:
    """A step finds a gradient that came before the freeze, and that another step has used already."""
    newest = {leaf: came[leaf][-1] for leaf in leaves if leaf in came and came[leaf][-1] <= switch.frame}
    used: set[int] = set()
    for step in steps(recording):
        there = {
            leaf for leaf, now in step.tensors if now is not None and newest.get(leaf, step.frame + 1) <= step.frame
        }
        again = there & used
        if again and step.frame >= switch.frame:
            yield "moves", switch, sorted(again), step, None
            return
        used |= there


# -- a freeze that silences all that an optimiser holds

SILENCED = DiagnosisKind("learns_no_more", "note", marked("learns no more"))
NOTHING_TO_USE = marked(
    "{Culprit} switched {leaves} off, and nobody has switched them on again: the optimiser that steps on {victim} "
    "holds nothing else, so that step changes nothing."
)
THAW = marked(
    "If they are to learn, switch them on again before the forward whose gradients this optimiser is to use: "
    "`requires_grad_(True)`."
)

NOT_SWITCHED_BACK = marked(
    "{Culprit} passes over what is switched off, so {leaves}, which {off} had switched off, weren't switched on again: "
    "the step on {victim} leaves them as they are."
)
SWITCH_ALL = marked("If they are to learn by then, switch them whatever they are: leave out that `if`.")


@finder(order=26)
def find_guarded(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line that keeps a function from switching on again what it has switched off."""
    off = last_switches(recording)
    for each in recording.switches:
        leaves = [leaf for leaf in each.tensors if leaf in off and not off[leaf].on] if each.kind == "guarded" else []
        used = (frame for frame in recording.frames[each.frame :] if not set(leaves).isdisjoint(frame.inputs))
        step = next((step for step in steps(recording) if step.frame >= each.frame), None)
        if leaves and step is not None and next(used, None) is not None:
            finding = Finding(
                recording=recording,
                kind=SILENCED,
                frame=step.frame,
                culprit=each.place,
                victim=step.place,
                tensor=leaves[0],
            )
            facts: dict[str, Word] = {"leaves": names(recording, leaves), "how": "guarded"}
            yield finding.told(NOT_SWITCHED_BACK, SWITCH_ALL, facts, off=finding.line(off[leaves[0]].place))


NOBODY_HEARS = marked(
    "{Culprit} sets an attribute that torch doesn't read: {leaves} still require no grad, so no loss gives them a "
    "gradient, and the step on {victim} leaves them as they are."
)
SWITCH_ON = marked(
    "If they are to learn, switch them on by its name, `requires_grad_(True)`, before the forward, and give them to an "
    "optimiser."
)


@finder(order=26)
def find_thawed_in_vain(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line that was to switch on what never gets a gradient."""
    wanted = [each for each in recording.switches if each.kind == "unheard" and each.on and each.place is not None]
    learning = {*arrivals(recording), *switched_on_again(recording)} if wanted else set[int]()
    for each in wanted:
        leaves = [leaf for leaf in each.tensors if leaf not in learning]
        step = next((step for step in steps(recording) if step.frame >= each.frame), None)
        if leaves and step is not None:
            finding = Finding(
                recording=recording,
                kind=SILENCED,
                frame=step.frame,
                culprit=each.place,
                victim=step.place,
                tensor=leaves[0],
            )
            facts: dict[str, Word] = {"leaves": names(recording, leaves), "how": "unheard"}
            yield finding.told(NOBODY_HEARS, SWITCH_ON, facts)


@finder(order=26)
def find_silenced(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line of a step all of whose leaves were switched off for good."""
    told: set[Place | None] = set()
    forever = _off_for_good(recording)
    again = switched_on_again(recording)
    idle = Counter[Place | None]()
    by_then = {leaf for each in recording.clues_of("frozen") for leaf in each.tensors} & again
    for step in steps(recording):
        if (
            step.place in told
            or not step.tensors
            or not all(leaf in forever and now is None for leaf, now in step.tensors)
        ):
            continue
        then = last_switches(recording, until=step.frame)
        off = [then[leaf] for leaf, _ in step.tensors if leaf in then and then[leaf] in forever[leaf]]
        idle[step.place] += len(off) == len(step.tensors) and by_then.isdisjoint(leaves_of(step))
        if idle[step.place] > (not again.isdisjoint(leaves_of(step))):  # in turn with another, it may be on next time
            told.add(step.place)
            leaves = [leaf for leaf, _ in step.tensors]
            if {*leaves} <= {*replacing(recording).values()}:
                continue  # others of their names learn in their place, and of those that no optimiser holds is told
            finding = Finding(
                recording=recording,
                kind=SILENCED,
                frame=step.frame,
                culprit=off[0].place,
                victim=step.place,
                tensor=leaves[0],
            )
            facts: dict[str, Word] = {"leaves": names(recording, leaves)}
            yield finding.told(NOTHING_TO_USE, THAW, facts)


def _off_for_good(recording: Recording) -> dict[int, list[Switch]]:
    """Leaf → all that have switched it off since somebody switched it on."""
    found: dict[int, list[Switch]] = {}
    for each in (each for each in recording.switches if each.kind == "tensors"):
        for leaf in each.tensors:
            found.setdefault(leaf, []).append(each)
            if each.on:
                found[leaf].clear()
    return found


# -- held by an optimiser, and no forward computes with it

UNUSED = DiagnosisKind("never_reached", "note", marked("no loss reaches it"))
COPIED = marked(
    "{Culprit} copies the numbers of {leaves}, and no more: the losses are computed with the copy, so {leaves}, which "
    "the optimiser that steps on {victim} holds, get no gradient and stay as they are."
)
NOT_COMPUTED_WITH = marked(
    "{Culprit} made {leaves}, and the optimiser that steps on {victim} holds them, but no forward has computed with "
    "them: they get no gradient and stay as they are."
)
CALLED_TWICE = marked(
    "{Culprit} calls `{twin}` once more, which {first} has called already; nothing calls `{unused}` beside it, which "
    "is of the same make: {leaves} get no gradient, and the step on {victim} leaves them as they are."
)
CALL_THAT = marked("If `{unused}` is meant there, call that; if both lines are to share `{twin}`, leave it out.")
OR_LEAVE_IT = marked("{Place} is what makes it.")
USE_IT = marked("If they are meant to learn, use them in the forward; if not, leave them out of the model.")


@finder(order=27)
def find_unused(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line of the user's that made such leaves, once two steps have found no gradient in them."""
    idle, replaced = idle_steps(recording), _replaced(recording) | set(replacing(recording).values())
    touched = {tensor for frame in recording.frames if frame.phase == "forward" for tensor in _computed_with(frame)}
    switched = last_switches(recording)
    groups: dict[Place, list[int]] = {}
    for leaf, held in idle.items():
        made = made_by(recording, leaf)
        untouched = leaf not in touched | replaced and leaf not in switched and recording.tensors[leaf].requires_grad
        if made is not None and len(held) > 1 and untouched and LIBRARIES.isdisjoint(PurePath(made.file).parts):
            groups.setdefault(made, []).append(leaf)
    copied, learning = CopiedNumbers(recording) if groups else None, sorted(arrivals(recording))
    for made, leaves in groups.items():
        step, copy = idle[leaves[0]][1], copied.of(leaves[0], learning) if copied is not None else None
        twin = called_instead(recording, leaves[0]) if copy is None else None
        finding = Finding(
            recording=recording,
            kind=UNUSED,
            frame=step.frame,
            culprit=twin.again if twin is not None else copy.frame.place if copy is not None else made,
            victim=step.place,
            tensor=leaves[0],
            instead=((made, OR_LEAVE_IT),) if twin is not None else (),
        )
        facts: dict[str, Word] = {"leaves": names(recording, leaves)}
        if twin is not None:
            first = finding.line(twin.first)
            yield finding.told(CALLED_TWICE, CALL_THAT, facts, twin=twin.name, unused=twin.unused, first=first)
            continue
        said, advice = (NOT_COMPUTED_WITH, USE_IT) if copy is None else (COPIED, KEEP_THE_WAY)
        yield finding.told(said, advice, facts)


def _replaced(recording: Recording) -> set[int]:
    """The leaves of a module in whose place a line has put another that learns: it's that one which is told of."""
    learning = (leaf for leaf in arrivals(recording) if recording.tensors[leaf].parameter)
    lines = {made.code for leaf in learning if (made := made_by(recording, leaf)) is not None}
    paths = {INDEX.sub(r".\1", found[1]) for code in lines if (found := PUT.match(code)) is not None}
    return {ref.id for ref in recording.tensors for path in paths if ref.parameter and f"{path}." in f".{ref.name}"}


def idle_steps(recording: Recording) -> dict[int, list[GradientUse]]:
    """Leaf → the last steps in a row that hold it and have found no gradient in it."""
    idle: dict[int, list[GradientUse]] = {}
    for step in steps(recording):
        for leaf, now in step.tensors:
            idle.setdefault(leaf, []).append(step)
            if now is not None:
                idle[leaf].clear()
    return idle


# -- frozen at 0, and something is multiplied by it: what it belongs to never has a say

ZEROS = frozenset({"zeros", "zeros_like", "new_zeros", "zero_", "zeros_"})
FACTORS = frozenset({"matmul", "mm", "bmm", "mul", "linear", "einsum", "conv1d", "conv2d", "embedding", "__matmul__"})

AT_ZERO = DiagnosisKind("frozen_at_zero", "note", marked("frozen at 0"))
NO_SAY = marked(
    "{Culprit} switched {label} off, which is 0 everywhere: what {victim} multiplies by it is 0, and stays so, since "
    "no step can change it."
)
LEAVE_ON = marked(
    "If it is meant to learn (an adapter that begins at 0), freeze first and add it afterwards, or pass over it where "
    "you freeze; then make the optimiser."
)


@finder(order=26)
def find_frozen_at_zero(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line that froze such Parameters, where other Parameters are stepped."""
    if not steps(recording):
        return
    told: set[Switch] = set()
    off = {leaf: each for leaf, each in last_switches(recording).items() if not each.on}
    last = _last_made(recording)
    for frame in recording.frames if off else ():
        leaf = next((each for each in _factors(recording, frame) if each in off), None)
        if leaf is None or off[leaf] in told or recording.tensors[leaf].requires_grad:
            continue
        made = last.get(recording.tensors[leaf].storage)
        if made is not None and made.op in ZEROS:
            told.add(off[leaf])
            finding = Finding(
                recording=recording,
                kind=AT_ZERO,
                frame=frame.index,
                culprit=off[leaf].place,
                victim=frame.place,
                tensor=leaf,
            )
            facts: dict[str, Word] = {"label": label(recording, leaf)}
            yield finding.told(NO_SAY, LEAVE_ON, facts)


def _last_made(recording: Recording) -> dict[int, Frame]:
    """Storage → the last Frame that made or wrote its bytes."""
    found: dict[int, Frame] = {}
    for frame in recording.frames:
        fresh = (each for each in frame.outputs if recording.tensors[each].frame == frame.index)
        whole = (each for each in fresh if recording.tensors[each].alias_of is None)
        found.update({recording.tensors[each].storage: frame for each in whole})
        found.update({recording.writes[each].storage: frame for each in frame.writes})
    return found


def _factors(recording: Recording, frame: Frame) -> list[int]:
    """The Parameters of two or more dimensions that something is multiplied by; a bias that is 0 does no harm."""
    if frame.op not in FACTORS or frame.phase != "forward":
        return []
    given = [ancestors(recording, tensor)[-1][0] for tensor in frame.inputs]
    return [each for each in given if recording.tensors[each].parameter and len(recording.tensors[each].shape) > 1]
