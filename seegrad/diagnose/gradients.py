"""A gradient that doesn't come where it's looked for: asked for in vain, read from a result, 0 whatever happens."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from seegrad.diagnose.cut import LOST, backward_calls, because, cause
from seegrad.diagnose.evidence import (
    ENTERING,
    birthplace,
    called,
    errors_with,
    is_trained,
    label,
    made_at,
    maker,
    nodes_behind,
)
from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.diagnose.history.copied import CopiedNumbers
from seegrad.diagnose.history.flow import Cut, Flow
from seegrad.model.derivatives import always_zero
from seegrad.model.recording import GRADIENT_READ, Diagnosis, Frame, Node, Place, RaisedError, Recording, Switch
from seegrad.words.languages import marked
from seegrad.words.phrases import Word

# -- `autograd.grad` was asked for the gradient of a tensor that the graph doesn't lead to

UNUSED_CORES = ("have been used in the graph", "differentiated Tensors does not require grad")
UNUSED = DiagnosisKind("unused_input", "error", marked("unused input"))

NOT_REACHED = {
    "unused": marked(
        "The gradient of {label} was asked for on {victim}, but nothing that led to {root} used {label} as a tensor."
    ),
    "cut": marked(
        "The gradient of {label} was asked for on {victim}, but {culprit} cut the graph between {label} and {root}: "
        "{why}."
    ),
    "fresh": marked(
        "The gradient of {label} was asked for on {victim}, but {culprit} has only just made that tensor from {given}: "
        "{root} was computed without it."
    ),
    "beside": marked(
        "The gradient of {label} was asked for on {victim}, but {culprit} makes {label} of {given}, and {root} was "
        "computed from {given} itself: {label} lies beside that way."
    ),
    "again": marked(
        "The gradient of {label} was asked for on {victim}, but {culprit} has {label} made anew, by {made}: {root} was "
        "computed with what an earlier call had made there."
    ),
    "copied": marked(
        "The gradient of {label} was asked for on {victim}, but {culprit} has copied its numbers, and no more: {root} "
        "was computed with the copy, {given}, which knows nothing of {label}."
    ),
    "numbers": marked(
        "The gradient of {label} was asked for on {victim}, but {culprit} makes a tensor of plain numbers, which have "
        "no history: {root} was computed with that, and nothing leads back to {label}."
    ),
    "instead": marked(
        "The gradient of {label} was asked for on {victim}, but {culprit} computes {root} with {given}, of which "
        "{label} was made, and not with {label} itself."
    ),
    "linear": marked(
        "The gradient of {label} was asked for on {victim}, but what {culprit} has computed, the gradient of {given} "
        "at {label}, is the same whatever {label} is: all between the two is linear in {label}, so that a second "
        "derivative has no graph. It would be 0."
    ),
    "late": marked(
        "The gradient of {label} was asked for on {victim}, but {label} did not require grad when {root} was computed."
    ),
    "early": marked(
        "The gradient of {label} was asked for on {victim}, but {culprit} has it require grad only after {made} has "
        "computed with it: {root} knows nothing of it."
    ),
    "plain": marked(
        "The gradient of {label} was asked for on {victim}, but {culprit} made {label} without `requires_grad`, and "
        "{root} was computed with it as it was."
    ),
    "frozen": marked(
        "The gradient of {label} was asked for on {victim}, but {made} has switched that off, and {root} was computed "
        "with {label} as a constant."
    ),
}
REACH = {
    "unused": marked(
        "Compute {root} from {label} itself (a number from `float()`, `.item()` or numpy has no history), "
        "or pass `allow_unused=True` and get None for it."
    ),
    "cut": marked("Let {root} use {label} without that cut, or pass `allow_unused=True` and get None for it."),
    "fresh": marked("Ask for the gradient of {given}, which {root} did use, and take the same part of the result."),
    "beside": marked(
        "Compute {root} from {label} (join the parts first, where it takes several), or ask for the gradient of "
        "{given} and take that part of the result."
    ),
    "again": marked("Keep what the earlier call has made, and ask for the gradient of that."),
    "copied": marked(
        "Keep the way back (MAML): begin with {label} itself, compute `p - rate * gradient` as new tensors, without "
        "`.data`, and call the model with them by `torch.func.functional_call`; if the gradient at the copy is meant "
        "(first order), ask for that of {given}."
    ),
    "numbers": marked(
        "Stay in torch from {label} to {root}: hand on the tensor itself, without `.tolist()`, `.item()` or numpy."
    ),
    "instead": marked(
        "Give {label} to what computes it: a module takes other weights than its own by "
        "`torch.func.functional_call`, or by an argument of its forward that is meant for them."
    ),
    "linear": marked(
        "If {given} is meant to bend, put a smooth function between its layers, `torch.tanh` or `F.silu` (`relu` has "
        "no second derivative either); if 0 is right there, pass `materialize_grads=True`."
    ),
    "late": marked("Call `{name}.requires_grad_()` before the forward runs."),
    "frozen": marked(
        "Ask there only for those that require grad, `[t for t in tensors if t.requires_grad]`, and leave the others "
        "as they are; or don't switch {label} off."
    ),
}
REACH["plain"] = REACH["late"]
REACH["early"] = marked("Let {culprit} run before {made}: what is computed before it has no graph.")


@finder(order=11)
def find_unused(recording: Recording) -> Iterator[Diagnosis]:
    """One Diagnosis for each such error: of the first tensor that isn't reached."""
    for error in errors_with(recording, *UNUSED_CORES):
        frame = recording.frames[error.frame]
        tensor = next(iter(unreached(recording, frame)), None)
        if tensor is not None:
            yield describe_unused(recording, error, frame, tensor)
        elif not frame.wanted and error.raised_on is not None:
            yield _inside(recording, error)


INSIDE = {
    "": marked(
        "{Culprit} runs within the backward call on {victim}, and asks for the gradient of a tensor that doesn't "
        "require grad."
    ),
    "off": marked(
        "{Culprit} runs within the backward call on {victim}, and asks for the gradient of a tensor that doesn't "
        "require grad: {off} has switched that of {leaf} off."
    ),
}
ASK_FOR_THE_REST = marked(
    "Ask there only for those that require grad, `[t for t in tensors if t.requires_grad]`, and return `None` for the "
    "others; or leave them switched on, and out of the optimiser."
)


def _inside(recording: Recording, error: RaisedError) -> Diagnosis:
    """A Function's backward asks: what for isn't known, only what was switched off before."""
    switches = (
        each for each in reversed(recording.switches) if each.kind == "tensors" and not each.on and each.tensors
    )
    off = next(switches, None)
    finding = Finding(recording=recording, kind=UNUSED, frame=error.frame, culprit=error.raised_on, victim=error.place)
    how = "" if off is None else "off"
    leaf: Word = label(recording, off.tensors[0]) if off is not None else ""
    return finding.told(
        INSIDE[how], ASK_FOR_THE_REST, {"how": "inside"}, off=finding.line(off.place if off else None), leaf=leaf
    )


def unreached(recording: Recording, frame: Frame) -> list[int]:
    """The tensors that the call wanted and that its graph doesn't lead to."""
    reached = reach(recording, frame.inputs)
    return [number for number in frame.wanted if number not in reached or not recording.tensors[number].requires_grad]


def reach(recording: Recording, roots: tuple[int, ...]) -> set[int]:
    """The tensors that the Nodes behind `roots` made, and the leaves they add into."""
    makers = {number: node.id for node in recording.nodes for number in node.outputs}
    behind = nodes_behind(recording, [makers[number] for number in roots if number in makers])
    nodes = (recording.nodes[each] for each in behind)
    return set(roots).union(*(node.outputs if node.leaf is None else (node.leaf,) for node in nodes))


def why_unused(recording: Recording, frame: Frame, tensor: int) -> tuple[str, Cut | None]:
    """Why the graph doesn't lead there, and where: `fresh`, `beside`, `cut`, `copied`, `late`, `numbers`, `unused`."""
    ref = recording.tensors[tensor]
    roots = frame.inputs
    newest = max((recording.tensors[number].frame for number in roots), default=0)
    born = recording.frames[ref.frame]
    given = tuple(number for number in born.inputs if recording.tensors[number].requires_grad)
    if not ref.is_leaf and ref.frame > newest:
        return "fresh", Cut(born, given)
    both = reach(recording, (tensor,)) & reach(recording, roots)
    shared = [number for number in both if not recording.tensors[number].parameter]
    if not ref.is_leaf and shared:
        return "beside", Cut(born, (max(shared),))
    flow = Flow(recording)
    for earlier in recording.frames[: frame.index]:
        flow.remember(earlier)
    for cut in flow.cuts(roots):
        if tensor in flow.behind(cut.given, set()):
            return "cut", cut
    if tensor in flow.behind(roots, set()):
        first = _first_derivative(recording, frame, tensor)
        return ("late", None) if first is None else ("linear", Cut(first, first.inputs))
    copy = CopiedNumbers(recording).of(
        tensor, sorted(each for each in reach(recording, roots) if is_trained(recording, each))
    )
    if copy is not None:
        return "copied", Cut(copy.frame, (copy.leaf,))
    own = [each for each in sorted(both) if recording.tensors[each].shape == ref.shape]
    if own and not ref.is_leaf:
        return "instead", Cut(born, (own[0],))
    entered = _of_numbers(recording, flow.behind(roots, set()))
    return ("numbers", Cut(entered, ())) if entered is not None else ("unused", None)


def _first_derivative(recording: Recording, asked: Frame, tensor: int) -> Frame | None:
    """The call before, that has got a gradient for that tensor."""
    calls = (each for each in reversed(recording.frames[: asked.index]) if tensor in each.wanted and each.inputs)
    return next((each for each in calls if tensor in reach(recording, each.inputs)), None)


LISTED = re.compile(r"\.(?:tolist|numpy|item)\(|\bfloat\(|\b(?:np|numpy)\.")


def _of_numbers(recording: Recording, tensors: Iterable[int]) -> Frame | None:
    """The only line by which one of these was made of numbers that had been taken out of a tensor."""
    made = [recording.frames[recording.tensors[each].frame] for each in tensors]
    entered = [each for each in made if each.op in ENTERING and not each.inputs and each.place is not None]
    listed = [each for each in entered if each.place is not None and LISTED.search(each.place.code)]
    return listed[0] if len({each.place for each in listed}) == 1 else None


def _taken_on(recording: Recording, error: RaisedError, root: int, given: int) -> Place | None:
    """The line, of the functions under way, that binds what is computed first of `given` on the way to `root`."""
    bound = {name: place for name, place in error.bound if place.line}
    waiting, found = [root], made_at(recording, root)
    for number in waiting:  # grows while it's read
        name, made = recording.tensors[number].name, recording.frames[recording.tensors[number].frame]
        found = bound.get(name, found) if name is not None and number != given else found
        inputs = made.inputs if number in made.outputs else ()
        fresh = (each for each in inputs if recording.tensors[each].requires_grad and not is_trained(recording, each))
        waiting += [each for each in fresh if each not in waiting]
    return found


def _late_switch(recording: Recording, asked: Frame, tensor: int) -> tuple[Switch, Place | None] | None:
    """Who had it require grad, and the line that had computed with it before; None where nobody did so too late."""
    on = [each for each in recording.switches if each.kind == "tensors" and each.on and each.frame < asked.index]
    switch = next((each for each in reversed(on) if tensor in each.tensors), None)
    before = recording.frames[: switch.frame + 1] if switch is not None else ()
    used = next((each for each in before if each.phase == "forward" and tensor in each.inputs and each.outputs), None)
    return None if switch is None or used is None else (switch, used.place)


def _frozen_on(recording: Recording, asked: Frame, tensor: int) -> Place | None:
    """The line that has switched its gradient off, if nothing has switched it on again."""
    own = [each for each in recording.switches if each.kind == "tensors" and tensor in each.tensors]
    last = next((each for each in reversed(own) if each.frame < asked.index), None)
    return None if last is None or last.on else last.place


def describe_unused(recording: Recording, error: RaisedError, frame: Frame, tensor: int) -> Diagnosis:
    """The culprit is the line that cut the graph or made a new tensor, where there is one; the victim is the call."""
    why, cut = why_unused(recording, frame, tensor)
    plain = made_at(recording, tensor) if why == "late" else None
    early = _late_switch(recording, frame, tensor) if why in ("cut", "late") else None
    frozen = _frozen_on(recording, frame, tensor) if why == "late" and early is None else None
    made, why = (plain, "plain") if plain is not None else (cut.frame.place if cut else None, why)
    why, made = ("early", early[1]) if early is not None else (why, made)
    why, made = ("frozen", frozen) if frozen is not None else (why, made)
    called_again = called_twice(recording, error, frame, cut.frame) if cut and why == "fresh" else None
    why = "again" if called_again is not None else why
    if why == "instead" and cut is not None:
        made = _taken_on(recording, error, frame.inputs[0], cut.given[0])
    finding = Finding(
        recording=recording,
        kind=UNUSED,
        frame=error.frame,
        culprit=called_again or (early[0].place if early else None if frozen else made) or error.place,
        victim=error.place,
        tensor=tensor,
    )
    op, given = cut.frame.op if cut else "", label(recording, cut.given[0]) if cut and cut.given else ""
    reason = cause(recording, cut) if why == "cut" else ""
    facts: dict[str, Word] = {
        "cause": why,
        "label": label(recording, tensor),
        "root": label(recording, frame.inputs[0] if frame.inputs else None),
        "given": given,
        "op": op,
        "reason": reason,
    }
    line = finding.line(made)
    return finding.told(NOT_REACHED[why], REACH[why], facts, why=because(reason, given, op), made=line)


def called_twice(recording: Recording, error: RaisedError, frame: Frame, born: Frame) -> Place | None:
    """The line that called a function again which had made, on the same line, what the graph does lead to."""
    reached = reach(recording, frame.inputs)
    before = (each for each in recording.frames[: born.index] if (each.op, each.place) == (born.op, born.place))
    used = any(not reached.isdisjoint(each.outputs) for each in before)
    return next((line for made, line in error.remade if made == born.place), None) if used else None


# -- `.grad` was read from the result of an op: it's None there, the gradient went to the leaf

READ = DiagnosisKind("grad_of_non_leaf", "note", marked(".grad of a non-leaf"))
NONE_IN_A_RESULT = marked(
    "`{name}.grad` on {victim} is None, because `{name}` is the result of {culprit}, not a leaf: "
    "backward keeps gradients in leaves alone."
)
KEEP_LEAF = marked(
    "Keep the leaf under a name of its own and read its `.grad`; if it is the result that should be trained, "
    "make it a leaf, `{name} = {name}.detach().requires_grad_()`, or call `{name}.retain_grad()` before backward."
)


@finder(order=15)
def find_read(recording: Recording) -> Iterator[Diagnosis]:
    """One note for each line that made such a tensor, at its first reading."""
    told: set[Place | None] = set()
    for frame in recording.frames:
        made = made_at(recording, frame.inputs[0]) if frame.op == GRADIENT_READ and frame.inputs else None
        if made is not None and made not in told:
            told.add(made)
            tensor = frame.inputs[0]
            finding = Finding(
                recording=recording, kind=READ, frame=frame.index, culprit=made, victim=frame.place, tensor=tensor
            )
            facts: dict[str, Word] = {"label": label(recording, tensor), "op": maker(recording, tensor)}
            yield finding.told(NONE_IN_A_RESULT, KEEP_LEAF, facts)


# -- an optimiser was given the result of an op: it isn't what the gradient goes to

NON_LEAF_CORE = "can't optimize a non-leaf Tensor"
NON_LEAF = DiagnosisKind("optimiser_given_non_leaf", "error", marked("optimiser given a non-leaf"))
NOT_A_LEAF = {
    "named": marked(
        "{label} is the result of `{op}` on {culprit}, not a leaf: gradients are kept in leaves alone, "
        "so an optimiser could never update it."
    ),
    "unnamed": marked(
        "{Culprit} gives the optimiser the result of `{op}`, not a leaf: gradients are kept in leaves alone, "
        "so it could never update it."
    ),
    "unknown": marked(
        "The optimiser on {victim} was given the result of an op, not a leaf: gradients are kept in leaves alone, "
        "so it could never update it."
    ),
}
MAKE_LEAF = marked(
    "If {label} itself is to be trained, make it a leaf first, `{name} = {name}.detach().requires_grad_()`; "
    "otherwise give the optimiser the leaf that it was computed from."
)
MAKE_LEAF_UNNAMED = marked(
    "Give the optimiser the leaf that it was computed from; if the result itself is to be trained, "
    "give it a name and make it a leaf first, with `.detach().requires_grad_()`."
)


@finder(order=8)
def find_non_leaf(recording: Recording) -> Iterator[Diagnosis]:
    """One Diagnosis for each such error."""
    for error in errors_with(recording, NON_LEAF_CORE):
        yield describe_non_leaf(recording, error)


def given_tensor(recording: Recording, error: RaisedError) -> tuple[int | None, str | None]:
    """The tensor that torch refused, or else the newest result that the failing line names or makes; and its name."""
    for refused in recording.frames[error.frame].inputs:
        return refused, called(recording, refused)
    code, line = (error.place.code, error.place.line) if error.place else ("", 0)
    words = set(re.findall(r"[A-Za-z_]\w*", code))
    results = [ref.id for ref in reversed(recording.tensors) if ref.requires_grad and not ref.is_leaf]
    for number in results:
        name = called(recording, number)
        if name and re.split(r"[.\[]", name)[0] in words:
            return number, name
    made = (number for number in results if (place := made_at(recording, number)) is not None and place.line == line)
    return next(made, None), None


def describe_non_leaf(recording: Recording, error: RaisedError) -> Diagnosis:
    """The culprit is the line that made the result, the victim the one that gave it to the optimiser."""
    tensor, name = given_tensor(recording, error)
    finding = Finding(
        recording=recording,
        kind=NON_LEAF,
        frame=error.frame,
        culprit=made_at(recording, tensor),
        victim=error.place,
        tensor=tensor,
        name=name,
    )
    how = "named" if name else "unnamed" if tensor is not None else "unknown"
    said = NOT_A_LEAF["unknown" if how == "named" and finding.culprit is None else how]
    called_so = f"`{name}`" if name else label(recording, tensor)
    facts: dict[str, Word] = {"cause": how, "label": called_so, "op": maker(recording, tensor)}
    return finding.told(said, MAKE_LEAF_UNNAMED if how == "unnamed" else MAKE_LEAF, facts)


# -- a leaf whose gradient is 0 whatever happens: all its ways to the loss were overwritten in place

ZERO = replace(LOST, tag=(marked("only 0 goes back from here"),))
NO_LONGER_MATTERS = marked(
    "{Culprit} overwrote {given}, so whatever made it no longer matters: the gradient of {label} is 0 by construction."
)
COMPUTE_BEFORE = marked("Compute with {given} before this line, or write only the part that you mean to replace.")


@finder(order=16)
def find_zero(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each leaf that only a certain 0 reaches."""
    for frames in backward_calls(recording):
        first = frames[0].running
        if first is None:
            continue
        alive = carrying(recording, [first])
        written = [node for i in sorted(alive) if recording.frames[(node := recording.nodes[i]).frame].writes]
        dead = [(node, slot) for node in written for slot in always_zero(node.name)]
        ran = {frame.running for frame in frames}
        told: set[int] = set()
        for node, slot in dead:
            target = node.edges[slot].target if slot < len(node.edges) else None
            behind = carrying(recording, [target]) if target is not None else set()
            for number in sorted((behind - alive) & ran - told):
                told.add(number)
                if recording.nodes[number].leaf is not None:
                    yield describe_zero(recording, node, slot, recording.nodes[number], frames[-1])


def carrying(recording: Recording, roots: list[int]) -> set[int]:
    """All Nodes behind `roots`, over the Edges that can carry something else than 0."""
    waiting, seen = list(roots), set(roots)
    while waiting:
        node = recording.nodes[waiting.pop()]
        zeros = always_zero(node.name)
        for edge in node.edges:
            if edge.target is not None and edge.slot not in zeros and edge.target not in seen:
                seen.add(edge.target)
                waiting.append(edge.target)
    return seen


def describe_zero(recording: Recording, node: Node, slot: int, leaf: Node, shown: Frame) -> Diagnosis:
    """The Diagnosis of one overwritten history."""
    finding = Finding(
        recording=recording,
        kind=ZERO,
        frame=shown.index,
        culprit=birthplace(recording, node),
        victim=shown.place,
        node=node,
        tensor=leaf.leaf,
    )
    lost = node.inputs[slot] if slot < len(node.inputs) else None
    facts: dict[str, Word] = {
        "label": label(recording, leaf.leaf),
        "cause": "overwritten",
        "op": node.op,
        "given": label(recording, lost),
    }
    return finding.told(NO_LONGER_MATTERS, COMPUTE_BEFORE, facts)
