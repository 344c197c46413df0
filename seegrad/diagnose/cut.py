"""The graph ends where the data goes on: under no_grad, at a `.detach()`, in numpy, at an op without a derivative."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from seegrad.diagnose.evidence import (
    CASTS,
    ENTERING,
    INTEGERS,
    are_in_one_function,
    computed_off,
    errors_with,
    expression,
    is_trained,
    label,
)
from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.diagnose.history.flow import WRITTEN, Cut, Flow
from seegrad.diagnose.history.fresh import constants
from seegrad.diagnose.history.straight import Straight, straight_through
from seegrad.diagnose.training.held import replacing
from seegrad.model.recording import Diagnosis, Frame, Place, RaisedError, Recording, Route, Switch
from seegrad.words.languages import marked
from seegrad.words.phrases import Word, joined, phrase, plural

MOST_NAMED = 3
KEEPS_OUT = frozenset({"no_grad", "inside", WRITTEN})
"""Why a graph may end on purpose before what no optimiser holds."""

UNASKED = frozenset({"left", "leaf", "numbers"})
"""Why a graph may end although nobody has asked for that: told before what somebody did."""

CORE = "does not require grad and does not have a grad_fn"
CUT = DiagnosisKind("graph_cut", "error", marked("graph cut"), (marked("the graph is cut here"),))
LOST = replace(CUT, severity="note")

NO_GRAPH = marked("{label} has no graph behind it, because {culprit} cut it: {why}.")
NO_GRAPH_AS = {
    "left": marked(
        "{label} has no graph behind it: {given} left torch on {culprit}, and what comes back has no history."
    ),
    "nothing": marked("{label} has no graph behind it: none of the recorded tensors that led to it requires grad."),
    "constant": marked(
        "{label} has no graph behind it this time: {culprit} makes {given}, a constant, and nothing that learns led to "
        "it; before, the backward call on {victim} had a way to go."
    ),
    "early": marked(
        "{label} has no graph behind it: {culprit} has {given} require grad, but `{op}` had computed with it before."
    ),
}
NO_GRAPH_WITHIN = {
    "within": marked(
        "{label} has no graph behind it: {culprit} ran inside a custom Function's forward, where gradients are off."
    ),
    "computed": marked("{Culprit} computes with gradients off, as a backward runs: {victim} asks for its gradient."),
    "nested": marked(
        "{Culprit} asks for a gradient while a backward runs that calls it, and gradients are off there: nothing that "
        "is computed in it has a graph."
    ),
}
NO_GRAPH_FROZEN = marked(
    "{label} has no graph behind it: {culprit} switched the gradients of {leaves_off} off, and no other tensor that "
    "led to it requires grad."
)
NO_GRADIENT_EARLY = marked(
    "{label}{leaves} led to the loss but got no gradient: {culprit} has {given} require grad, but `{op}` had computed "
    "with it before."
)
NO_GRADIENT = marked("{label}{leaves} led to the loss but got no gradient, because {culprit} cut the graph: {why}.")

NO_LOSS_OF_ITS_OWN = marked(
    "{label}{leaves} led to the loss but got no gradient: {culprit} compares {other} with the straight-through's "
    "result, and the gradient of that goes back to {other} alone; {given} stands in it under `.detach()`."
)

ROUTES: dict[str, Route] = {"detach": "detach", "straight": "detach", "data": "data", "set_data": "data"}
CAUSES = {"detach": "detach", "detach_": "detach", "data": "data", "set data": "set_data", "grad": "grad"}
ASKED = re.compile(r"\bgrad\([^,()]+, *([\w.]+)\b(?!\()")
"""`grad(energy, x, …)`: for whose gradient somebody asks."""

WHY = {
    "detach": marked("`.detach()` returns {given} without its history"),
    "straight": marked(
        "{given} stands there under `.detach()` alone, as in every straight-through, so the gradient of the result "
        "goes to {other}"
    ),
    "data": marked("`.data` returns {given} without its history"),
    "set_data": marked("assigning to `.data` takes the numbers of {given} without their history"),
    "no_grad": marked("`{op}` ran with gradients switched off"),
    "inside": marked("`{op}` ran inside of it, with gradients switched off"),
    "switched": marked("it switched gradients off for all that follows"),
    "around": marked("gradients are off for all that runs before it ends, the backward call too"),
    "op": marked("`{op}` has no derivative for {given}, so its result does not require grad"),
    "early": marked("{given} didn't require grad yet when `{op}` computed with it"),
    "integer": marked("`{op}` turns {given} into integers, which carry no gradient"),
    "leaf": marked("a new leaf was made there of the numbers in {given}, and it knows nothing of their history"),
    "made": marked("`{op}` makes a new tensor of the numbers in {given}, and it knows nothing of their history"),
    WRITTEN: marked("it writes the numbers of {given} into a tensor, and autograd takes no notice of such a write"),
    "numbers": marked("a new tensor was made there of plain numbers, which have no history"),
    "function": marked(
        "gradients are off inside a custom Function's forward, and none of the tensors that it was given requires grad"
    ),
    "left": marked("{given} left torch there, and what comes back has no history"),
    "grad": marked("`autograd.grad` returns a gradient without a history unless it is asked to keep one"),
}
"""Why the graph ends there, by `cause`."""

FOR_OTHERS = marked(
    "{Place} does so for other lines that call its function, too: if none of them means to cut, change it there."
)
NOT_HERE = marked(
    "If that is right for the other lines that call its function, change {place} instead, which takes the result here."
)

NEW = frozenset({"leaf", "made"})
"""Causes: a tensor of its own, made of numbers."""

MEND = {
    "detach": marked("Use {given} itself where the gradient should flow; keep `.detach()` if the cut is meant."),
    "straight": marked(
        "If it is to learn, give it a loss term of its own, computed of {given} itself and not of the "
        "straight-through's result: `F.mse_loss({given_code}, {other_code}.detach())`."
    ),
    "data": marked("Use {given} itself where the gradient should flow; if the cut is meant, write `.detach()`."),
    "set_data": marked(
        "Use {given} itself where the gradient should flow, not a tensor whose `.data` it was put into."
    ),
    WRITTEN: marked(
        "Write into the tensor itself, with gradients on: not through `.data` or `.detach()`, nor under `no_grad`; "
        "where torch refuses that for a leaf or for what was saved, write into its `.clone()`."
    ),
    "numbers": marked(
        "Collect the tensors themselves and join them (`torch.stack`), "
        "not numbers that `.item()`, `float()` or `.tolist()` took out of them."
    ),
    "function": marked(
        "Let one of the tensors that it is given require grad; `torch.utils.checkpoint` is such a Function, "
        "which `use_reentrant=False` turns into an ordinary part of the graph."
    ),
    "within": marked(
        "Compute it there under `with torch.enable_grad():`, all of it, and of what requires grad: begin with "
        "`{given} = {given} if {given}.requires_grad else {given}.detach().requires_grad_()`."
    ),
    "switched": marked(
        "Use `with torch.no_grad():` around what needs no gradients, which ends where it stands; or switch them on "
        "again before the forward: `torch.set_grad_enabled(True)`."
    ),
    "around": marked(
        "Let what is to be trained run outside of that `with`; a generator that yields inside of one switches them off "
        "for whoever asks it for values, so give each value before it or behind it."
    ),
    "frozen": marked("Switch `requires_grad` on again, before the forward, for the parameters that are to learn."),
    "no_grad": marked("Move this line out of the `no_grad` block if the gradient should flow through it."),
    "inside": marked(
        "Let what is to be trained run outside of it: take the call out of the `with`, or the decorator away."
    ),
    "op": marked(
        "Use an op that has a derivative (a soft version instead of a choice or a comparison), "
        "or call `.detach()` to say that the cut is meant."
    ),
    "early": marked("Have {given} require grad before the first line that computes with it."),
    "integer": marked(
        "Compute with the numbers before they are rounded, and keep the integers for counting and indexing alone."
    ),
    "leaf": marked(
        "Compute with {given} itself instead of a new tensor made from its numbers; keep it if the cut is meant."
    ),
    "joined": marked(
        "Join the tensors themselves with `torch.stack` (or `torch.cat`) where their gradient should flow; keep the "
        "new tensor of their numbers if the cut is meant."
    ),
    "left": marked(
        "Stay in torch from the parameters to the loss: use the torch function of the same name, "
        "and numpy only for what needs no gradient."
    ),
    "grad": marked("Pass `create_graph=True` to that call, so that its result can be differentiated again."),
    "constant": marked(
        "Where there is nothing to learn from, leave the backward call and the step out, or keep the way: what the "
        "model gave, times 0, `output.sum() * 0`, in the constant's place."
    ),
    "nothing": marked("Set `requires_grad=True` on the tensors you want a gradient for, before the forward runs."),
}
MEND["made"] = MEND["leaf"]


@finder(order=10)
def find_cut(recording: Recording) -> Iterator[Diagnosis]:
    """Backward was called on a tensor without a graph."""
    for error in errors_with(recording, CORE):
        frame = recording.frames[error.frame]
        if frame.applied is not None or error.raised_on is not None:
            yield describe_within(recording, frame, error)
        elif frame.inputs:
            flow = Flow(recording)
            for earlier in recording.frames[: error.frame]:
                flow.remember(earlier)
            cuts = flow.cuts(frame.inputs[:1])
            off = None if cuts else frozen_by(recording, flow.behind(frame.inputs[:1], set()), frame)
            if off is not None:
                yield describe_frozen(recording, off, frame)
            else:
                cuts = cuts or flow.rebuilt() or constants(recording, flow, frame)
                yield describe_cut(recording, cuts[0] if cuts else None, frame, frame.inputs[:1], CUT)


@finder(order=14)
def find_lost(recording: Recording) -> Iterator[Diagnosis]:
    """Leaves that led to a loss and got no gradient at all, neither from it nor from any other; one note a line.

    What ran under `no_grad` for one loss is told once. None where torch's error ended it all: the rest was to come.
    None of a leaf that is given the values of a trained one; where optimisers step, nor of a Parameter that none of
    them holds (what a probe reads), or of another leaf that `no_grad` keeps out (a teacher).
    """
    got = rewarded(recording)
    without = {ref.id for ref in recording.tensors if is_trained(recording, ref.id)} - got
    if recording.error in recording.errors or not without:
        return
    got |= followers(recording, without, got)
    got |= set(replacing(recording).values())  # told with what stands in their place
    got |= {leaf for each in recording.clues_of("severed") for leaf in each.tensors}  # told with their own loss
    for causes in (UNASKED, frozenset(WHY)):
        for cut, shown, leaves in lost_by(recording, causes, got):
            got.update(leaves)
            yield describe_cut(recording, cut, shown, leaves, LOST)


def lost_by(recording: Recording, causes: Collection[str], got: set[int]) -> list[tuple[Cut, Frame, list[int]]]:
    """The cuts of these kinds, each with the last Frame of the call that shows it and the leaves that it keeps out."""
    held = {leaf for use in recording.uses if use.kind == "stepped" for leaf, _ in use.tensors}
    calls = {frames[0].index: frames for frames in backward_calls(recording)}
    flow, lost = Flow(recording), list[tuple[Cut, Frame, list[int]]]()
    for frame in recording.frames:
        flow.remember(frame)
        groups: dict[Place | str | None, tuple[Cut, list[int]]] = {}
        roots = roots_of(recording, frame) if frame.index in calls else ()
        for cut, behind in flow.claims(roots, lambda each: cause(recording, each) in causes):
            found = [leaf for leaf in behind if leaf not in got and is_known(recording, leaf)]
            why = cause(recording, cut)
            on = switched_on(recording, cut) if why == "early" else None
            if on is not None and on.frame >= frame.index:
                continue  # it isn't this loss from which it was to learn
            if found and held:
                mine = wanted(recording, calls[frame.index], held) if why in KEEPS_OUT else held
                kept_out = (leaf for leaf in found if why in KEEPS_OUT or recording.tensors[leaf].parameter)
                found = sorted(set(found) - (set(kept_out) - mine))
            one = cut.frame.off if why == "inside" else why if why in ("no_grad", "switched") else cut.frame.place
            groups.setdefault(one, (cut, []))[1].extend(found)
        lost += [(cut, calls[frame.index][-1], leaves) for cut, leaves in groups.values() if leaves]
    return lost


def wanted(recording: Recording, call: list[Frame], held: set[int]) -> set[int]:
    """What optimisers hold; nothing where a call came to Parameters of which they hold none: they hold other ones."""
    leaves = {recording.nodes[frame.running].leaf for frame in call if frame.running is not None}
    came = {leaf for leaf in leaves if leaf is not None and recording.tensors[leaf].parameter}
    return set() if came and held.isdisjoint(came) else held


def behind_cuts(recording: Recording) -> set[int]:
    """The leaves that led to a loss up to a line that cut the graph."""
    flow, calls = Flow(recording), {frames[0].index for frames in backward_calls(recording)}
    found = set[int]()
    for frame in recording.frames:
        flow.remember(frame)
        for cut in flow.cuts(roots_of(recording, frame)) if frame.index in calls else ():
            found.update(flow.leaves(cut.given))
    return found


def followers(recording: Recording, leaves: Collection[int], trained: set[int]) -> set[int]:
    """The leaves among these that are overwritten with what trained ones hold: a target network, a slow average."""
    on_storage = {recording.tensors[leaf].storage: leaf for leaf in leaves}
    flow, found = Flow(recording), set[int]()
    for frame in recording.frames:
        writes = (recording.writes[number] for number in frame.writes)
        written = {each.tensor if each.tensor in leaves else on_storage.get(each.storage) for each in writes}
        fresh = {leaf for leaf in written if leaf is not None} - found
        if fresh and not trained.isdisjoint(flow.behind(frame.inputs, set())):
            found |= fresh
        flow.remember(frame)
    return found


def is_known(recording: Recording, leaf: int) -> bool:
    """True for a leaf that somebody may ask for its gradient: not for the first step of `torch.randn(…) * 0.01`."""
    ref = recording.tensors[leaf]
    return ref.name is not None or ref.parameter or leaf not in recording.frames[ref.frame].outputs


def backward_calls(recording: Recording) -> list[list[Frame]]:
    """The Frames of each call of backward that ended well; `autograd.grad` asks for what it wants."""
    calls: dict[int, list[Frame]] = {}
    for frame in recording.frames:
        if frame.backward is not None and frame.phase != "inplace":
            calls.setdefault(frame.backward, []).append(frame)
    return [frames for frames in calls.values() if all(f.phase == "backward" and f.op != "grad" for f in frames)]


def roots_of(recording: Recording, first: Frame) -> tuple[int, ...]:
    """The tensors that a call of backward began with; `first` is its first Frame."""
    if first.running is None:
        return first.inputs
    node = recording.nodes[first.running]
    return node.outputs if node.leaf is None else (node.leaf,)


def rewarded(recording: Recording) -> set[int]:
    """The leaves that got a gradient from any call, one that is forgotten too; or that a step found with one."""
    ran = {frame.running for frame in recording.frames if frame.running is not None}
    asked = {gradient.tensor for frame in recording.frames if frame.phase == "backward" for gradient in frame.gradients}
    found = {leaf for use in recording.uses for leaf, now in use.tensors if use.kind == "stepped" and now is not None}
    found |= {leaf for each in recording.clues_of("rewarded") for leaf in each.tensors}
    return asked | found | {leaf for number in ran if (leaf := recording.nodes[number].leaf) is not None}


def cause(recording: Recording, cut: Cut | None) -> str:
    """Why the graph ends there."""
    if cut is None:
        return "nothing"
    op, made = cut.frame.op, [recording.tensors[number] for number in cut.frame.outputs]
    if cut.why:
        return cut.why
    if op in CAUSES:
        return CAUSES[op]
    if not cut.frame.grad_enabled:
        if cut.frame.applied is not None:
            return "function"
        if switched_off(recording, cut.frame) is not None:
            return "switched"
        return "inside" if is_elsewhere(recording, cut.frame) else "no_grad"
    if switched_on(recording, cut) is not None:
        return "early"
    if op in CASTS and all(ref.dtype.startswith(INTEGERS) for ref in made):
        return "integer"
    return "made" if op in ENTERING else "op"


def switched_off(recording: Recording, frame: Frame) -> Place | None:
    """The line that had switched gradients off for all that follows, before a Frame."""
    before = [each for each in recording.switches if each.kind == "mode" and each.frame < frame.index]
    return before[-1].place if before and not before[-1].on else None


def switched_on(recording: Recording, cut: Cut) -> Switch | None:
    """Who had what went into a Frame require grad, all of it, only after that."""
    on = (each for each in recording.switches if each.kind == "tensors" and each.on and each.frame >= cut.frame.index)
    return next((each for each in on if set(cut.given) <= set(each.tensors)), None)


def is_elsewhere(recording: Recording, frame: Frame) -> bool:
    """Does the `with` that has switched gradients off stand around a call, or a decorator, not around this line?"""
    off, place = frame.off, frame.place
    if off is None or place is None or off == place:
        return False
    if off.file != place.file or off.line > place.line or off.code.startswith("@"):
        return True
    between = [text for line, text in recording.code if off.line <= line <= place.line and text.strip()]
    depths = [len(text) - len(text.lstrip()) for text in between] if off.file == recording.code_file else []
    return bool(depths) and min(depths[1:], default=depths[0]) <= depths[0]


def within_no_grad(recording: Recording, shown: Frame) -> Place | None:
    """The line of the `with torch.no_grad():` inside which a backward call was made."""
    before = [each for each in recording.switches if each.kind == "scope" and each.frame <= shown.index]
    calls = {frame.backward for frame in recording.frames[before[-1].frame + 1 : shown.index + 1]} if before else set()
    return before[-1].place if before and len(calls - {None, shown.backward}) == 0 else None


def frozen_by(recording: Recording, behind: Collection[int], frame: Frame) -> Switch | None:
    """Who has switched off the gradients of something that led to a loss without a graph."""
    switches = (each for each in recording.switches if each.kind == "tensors" and each.frame < frame.index)
    off = [each for each in switches if not each.on and not set(behind).isdisjoint(each.tensors)]
    return off[-1] if off else None


def describe_frozen(recording: Recording, off: Switch, shown: Frame) -> Diagnosis:
    """The Diagnosis of a loss all of whose leaves are frozen."""
    loss = shown.inputs[0]
    finding = Finding(
        recording=recording, kind=CUT, frame=shown.index, culprit=off.place, victim=shown.place, tensor=loss
    )
    leaves: list[Word] = [label(recording, leaf) for leaf in off.tensors[:MOST_NAMED]]
    more = [f"+{len(off.tensors) - MOST_NAMED}"] if len(off.tensors) > MOST_NAMED else []
    facts: dict[str, Word] = {"label": label(recording, loss), "cause": "frozen", "leaves": len(off.tensors)}
    return finding.told(NO_GRAPH_FROZEN, MEND["frozen"], facts, leaves_off=joined([*leaves, *more]))


def describe_within(recording: Recording, shown: Frame, error: RaisedError) -> Diagnosis:
    """The Diagnosis of a gradient that was asked for where torch itself has gradients off.

    Where code of the user's raised it, that is a custom Function's backward, or a hook; else a Function's forward.
    """
    nested, computed = error.raised_on, computed_off(recording, error)
    why, made, flow = "within" if nested is None else "computed" if computed else "nested", None, Flow(recording)
    if nested is None and shown.inputs:
        for earlier in recording.frames[: shown.index]:
            flow.remember(earlier)
        made = next((cut.frame.place for cut in flow.cuts(shown.inputs[:1]) if cut.frame.applied is not None), None)
        made = asked_for(recording, error, shown, made)
    tensor = shown.inputs[0] if shown.inputs and nested is None else None
    finding = Finding(
        recording=recording,
        kind=CUT,
        frame=shown.index,
        culprit=(computed if nested else made) or nested or shown.place,
        victim=nested or shown.place,
        tensor=tensor,
    )
    asked = ASKED.search(finding.victim.code) if finding.victim is not None else None
    facts: dict[str, Word] = {"label": label(recording, tensor), "cause": why, "given": asked[1] if asked else "x"}
    return finding.told(NO_GRAPH_WITHIN[why], MEND["within"], facts)


def asked_for(recording: Recording, error: RaisedError, shown: Frame, made: Place | None) -> Place | None:
    """The line that made it, of the function that asks: there gradients are to be on, for all that it calls."""
    bound, asks = dict(error.bound), shown.place
    if made is None or asks is None or made in (asks, *bound.values()) or are_in_one_function(recording, made, asks):
        return made
    given = bound.get(recording.tensors[shown.inputs[0]].name or "")
    in_it = given is not None and (given.file, given.line) <= (asks.file, asks.line)
    known = asks.file == recording.code_file
    return given if given is not None and in_it and (not known or are_in_one_function(recording, given, asks)) else asks


def because(why: str, given: Word, op: str, other: Word = "") -> Word:
    """The reason as words; empty where the sentence gives it itself."""
    return phrase(WHY[why], given=given, op=op, other=other) if why in WHY else ""


def describe_cut(
    recording: Recording, cut: Cut | None, shown: Frame, tensors: Sequence[int], kind: DiagnosisKind
) -> Diagnosis:
    """The Diagnosis of one cut: `tensors` are the loss of an error, the leaves of a note."""
    why = cause(recording, cut)
    around = within_no_grad(recording, shown) if why in ("no_grad", "inside") else None
    straight = straight_through(recording, cut) if cut is not None and kind is LOST else None
    why = "around" if around is not None else "straight" if straight is not None else why
    meant = straight.compared if straight is not None else None
    asks, instead = (None, ()) if cut is None or around is not None else by_a_helper(recording, cut, why)
    finding = Finding(
        recording=recording,
        kind=kind,
        frame=shown.index,
        culprit=around or meant or asks or (line_to_change(recording, cut, why) if cut is not None else None),
        instead=instead,
        victim=shown.place,
        tensor=tensors[0],
        route=ROUTES.get(why, "self"),
    )
    count, given, op = len(tensors) - 1, label(recording, cut.given[0]) if cut else "", cut.frame.op if cut else ""
    given = label(recording, straight.hidden) if straight is not None else given
    codes = names_of(recording, straight)
    leaves = plural(" (and {count} more leaf)", " (and {count} more leaves)", count) if count else ""
    facts: dict[str, Word] = {
        "label": label(recording, tensors[0]),
        "cause": why,
        "op": op,
        "given": given,
        "leaves": count,
    }
    lost = NO_GRADIENT_EARLY if why == "early" else NO_GRADIENT
    lost = NO_LOSS_OF_ITS_OWN if meant is not None else lost
    said = lost if kind is LOST else NO_GRAPH_AS.get(why, NO_GRAPH)
    other = label(recording, straight.through) if straight is not None else ""
    mend = MEND["joined" if why in NEW and cut is not None and len(cut.given) > 1 else why]
    return finding.told(said, mend, facts, leaves=leaves, why=because(why, given, op, other), other=other, **codes)


def by_a_helper(recording: Recording, cut: Cut, why: str) -> tuple[Place | None, tuple[tuple[Place | None, str], ...]]:
    """Of a line that returns what it makes to several others: the one that takes it here, and what may be changed too.

    Where the others had nothing to lose by it, a function of the user's own does what it is for, and who asks it cuts.
    """
    line, taken = cut.frame.place, cut.frame.taken
    if taken is None or line_to_change(recording, cut, why) != line:
        return None, ()
    others = [each for each in recording.frames if each.place == line and each.taken not in (None, taken)]
    loses = any(recording.tensors[number].requires_grad for each in others for number in each.inputs)
    if others and not loses:
        return taken, ((line, FOR_OTHERS),)
    return None, ((taken, NOT_HERE),) if others else ()


def names_of(recording: Recording, straight: Straight | None) -> dict[str, Word]:
    """What is hidden in a straight-through, and what it goes through to, as they would be written."""
    named = (None, None) if straight is None else (straight.hidden, straight.through)
    hidden, through = (None if each is None else expression(recording, each) for each in named)
    return {"given_code": hidden or "z", "other_code": through or "x"}


def line_to_change(recording: Recording, cut: Cut, why: str) -> Place | None:
    """The line that cut; of many that ran with gradients off for good, the one that switched them off."""
    if why == "inside":
        return cut.frame.off
    if why == "early" and (on := switched_on(recording, cut)) is not None:
        return on.place
    return switched_off(recording, cut.frame) if why == "switched" else cut.frame.applied or cut.frame.place
