"""Parameters that get gradients and that no optimiser holds: never registered, replaced, copied, left out, thawed."""

from __future__ import annotations

import re
from collections.abc import Iterator

from seegrad.diagnose.evidence import label, made_at
from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.diagnose.training.steps import leaf_of, leaves_of, names
from seegrad.model.recording import Diagnosis, Frame, GradientUse, Place, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word

HELD_BY_NOBODY = DiagnosisKind("no_optimiser_holds_it", "note", marked("no optimiser holds it"))
NOT_STEPPED = {
    "before": marked(
        "The backward call on {culprit} computes a gradient for {leaves}, but no optimiser that steps holds them: the "
        "step on {victim} leaves them as they are."
    ),
    "thawed": marked(
        "{Culprit} switched {leaves} on, and no optimiser that steps holds them: the backward call on {backward} "
        "computes a gradient for them, the step on {victim} leaves them as they are."
    ),
    "wrapped": marked(
        "{Culprit} goes on from a Parameter to a result of it, by `{op}`: what is kept is no Parameter, so no module "
        "and no optimiser knows of it, and the step on {victim} leaves it as it is."
    ),
    "hidden": marked(
        "{Culprit} keeps modules in `{owner}`, a plain list or dict, which doesn't register them: the backward call on "
        "{backward} computes gradients for their Parameters, the optimiser wasn't given them, and the step on {victim} "
        "leaves them as they are."
    ),
    "bare": marked(
        "{Culprit} keeps Parameters in `{owner}`, a plain list or dict, which doesn't register them: the backward call "
        "on {backward} computes gradients for them, the optimiser wasn't given them, and the step on {victim} leaves "
        "them as they are."
    ),
    "replaced": marked(
        "{Culprit} made {leaves}, but the optimiser still holds what was in their place before: the backward call on "
        "{backward} computes a gradient for them, the step on {victim} leaves them as they are."
    ),
    "assigned": marked(
        "{Culprit} put {leaves} in the place of others, which the optimiser still holds: the backward call on "
        "{backward} computes a gradient for the new ones, the step on {victim} leaves them as they are."
    ),
    "copied": marked(
        "{Culprit} makes a copy, and the backward call on {backward} computes gradients for the copy, {leaves}: the "
        "optimiser holds what was copied, and the step on {victim} finds no gradient there."
    ),
    "left_out": marked(
        "{Culprit} leaves {leaves} out of what the optimiser is given: the backward call on {backward} computes a "
        "gradient for them, the step on {victim} leaves them as they are."
    ),
    "partly": marked(
        "{Culprit} makes the optimiser of `{part}` alone, without {leaves}: the backward call on {backward} computes a "
        "gradient for them, the step on {victim} leaves them as they are."
    ),
    "made": marked(
        "{Culprit} made {leaves}, and no optimiser that steps holds them: the backward call on {backward} computes a "
        "gradient for them, the step on {victim} leaves them as they are."
    ),
}
NOT_STEPPED["exchanged"], NOT_STEPPED["plain"] = NOT_STEPPED["assigned"], NOT_STEPPED["made"]
ADD_IT = marked(
    "If they are meant to learn, give them to the optimiser when you switch them on: `optimizer.add_param_group(…)`, "
    "or make it of all parameters from the start."
)
REGISTER = marked(
    "If they are meant to learn, register them: `nn.ModuleList([…])` or `nn.ModuleDict({{…}})` around it, before the "
    "optimiser is made. If no module keeps the list, give its Parameters to the optimiser yourself."
)
REGISTER_EACH = marked(
    "If they are meant to learn, register them: `nn.ParameterList([…])` or `nn.ParameterDict({{…}})` around it, before "
    "the optimiser is made."
)
MAKE_IT_AFTER = marked(
    "If they are meant to learn, make the optimiser after that line, or put the new numbers into the old Parameter: "
    "`with torch.no_grad(): parameter.copy_(…)`."
)
TAKE_THE_NUMBERS = marked(
    "If they are meant to learn, make the optimiser after that line, or let the old Parameters take the numbers: "
    "`load_state_dict(…)` without `assign=True`, or `with torch.no_grad(): parameter.copy_(…)`."
)
MOVE_IT = marked("{Place} makes that optimiser: made once that line has run, it is given the new ones.")
GIVE_THEM = marked(
    "If they are meant to learn, give it `{owner}.parameters()` beside what it holds, and make it after all modules "
    "are in place. If not, switch their `requires_grad` off."
)
GIVE_THE_WHOLE = marked(
    "If they are meant to learn, make it of the whole: `{owner}.parameters()`. If not, switch their `requires_grad` "
    "off."
)
MAKE_IT_LAST = marked(
    "If it is meant to learn, make the Parameter of the finished numbers: `nn.Parameter(…)` around the whole."
)
HOLD_IT = marked(
    "If they are meant to learn, give them to the optimiser: modules in a plain list aren't registered (use "
    "`nn.ModuleList`), and an optimiser knows only what `parameters()` held when it was made. If not, switch their "
    "`requires_grad` off."
)
KEEP_THE_WAY = marked(
    "If what was copied is to learn by it (MAML), keep the way back: compute `p - rate * gradient` as new tensors, "
    "without `.data`, and call the model with them by `torch.func.functional_call`; if the copy is to learn, give its "
    "parameters to the optimiser."
)
MAKE_IT_A_PARAMETER = marked(
    "If they are meant to learn, make Parameters of them, `nn.Parameter(…)`: neither a buffer nor a plain tensor is "
    "among a module's `parameters()`. If not, switch their `requires_grad` off."
)
NUMBERED = re.compile(r"\.(\d+)")
"""`net.0`, a path of torch's; in Python, `net[0]`."""

COPIES = frozenset({"clone", "detach", "data", "requires_grad_", "numel"})
"""Ops that compute nothing with what they're given."""

HOLD = {
    "copied": KEEP_THE_WAY,
    "wrapped": MAKE_IT_LAST,
    "plain": MAKE_IT_A_PARAMETER,
    "thawed": ADD_IT,
    "hidden": REGISTER,
    "bare": REGISTER_EACH,
    "left_out": GIVE_THEM,
    "partly": GIVE_THE_WHOLE,
    "replaced": MAKE_IT_AFTER,
    "assigned": TAKE_THE_NUMBERS,
    "exchanged": MAKE_IT_AFTER,
}


@finder(order=24)
def find_held_by_nobody(recording: Recording) -> Iterator[Diagnosis]:
    """One note for all Parameters with a gradient that neither an optimiser nor a line of the block's updates.

    A block that an error has ended, or Ctrl-C, might have come to their step: one line has to have stepped twice since.
    """
    every = [use for use in recording.uses if use.kind == "stepped"]
    steps = [use for use in every if any(now is not None for _, now in use.tensors)]
    told = ("stepped", "idle")  # of one that is idle by itself; the gradients of one that stepped may come no more
    held = {leaf for use in recording.uses if use.kind in told for leaf in leaves_of(use)}
    written = {recording.tensors[write.tensor].storage: write.frame for write in recording.writes}
    waiting: dict[int, Frame] = {}
    replaced = replacing(recording)
    if replaced or not steps:  # what is held has no gradient to step with any more, or never had one
        steps = every
    last = max((use.frame for use in steps), default=-1)
    if not any(recording.tensors[leaf].parameter for leaf in held):  # what is trained is an input
        held |= {ref.id for ref in recording.tensors if ref.parameter}
    meant = replaced.keys() | of_modules(recording)
    for frame in recording.frames[: last + 1]:
        leaf = leaf_of(recording, frame)
        if leaf is not None and leaf not in held and (recording.tensors[leaf].parameter or leaf in meant):
            waiting.setdefault(leaf, frame)
    resting = {leaf for each in recording.clues_of("resting") for leaf in each.tensors}
    waiting = {leaf: came for leaf, came in waiting.items() if leaf not in resting}
    leaves = [leaf for leaf, came in waiting.items() if written.get(recording.tensors[leaf].storage, 0) < came.index]
    if recording.error is not None:
        leaves = [leaf for leaf in leaves if _passed_twice(steps, waiting[leaf])]
    came_by = [leaf for each in recording.clues_of("exchanged") for leaf in each.tensors]
    if leaves and leaves[0] in came_by:  # the line that put the first ones there
        leaves.sort(key=lambda leaf: came_by.index(leaf) if leaf in came_by else len(came_by))
    if leaves and leaves[0] in replacing(recording):  # of many, those whose line was seen
        assigned = {leaf for each in recording.clues_of("assigned") for leaf in each.tensors}
        leaves.sort(key=lambda leaf: leaf not in assigned)
    if leaves:
        yield _nobody(recording, leaves, waiting[leaves[0]], steps)


# -- a copy of what the optimiser holds, made once, that every forward goes on from

CONVERTS = frozenset({"to", "type", "type_as", "float", "double", "half", "bfloat16", "cuda", "cpu", "clone"})
CONVERTED = marked(
    "{Culprit} makes a copy of {label} by `{op}`, once, and each forward goes on from that: the step on {victim} "
    "changes {label}, which the optimiser holds, and the copy keeps the numbers that it was made with."
)
CONVERT_FIRST = marked(
    "Convert it before the optimiser is made, and make a leaf of it then: `.detach().{op}(…).requires_grad_()`. If the "
    "optimiser is there already, let the leaf keep its place, `x.data = x.data.{op}(…)`, or convert it anew in each "
    "forward."
)


@finder(order=24)
def find_converted(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each such copy that has been used, with its graph, in two laps after a step had changed the leaf.

    None where the leaf itself is used besides: then the copy may be what it's held against.
    """
    steps: dict[int, list[GradientUse]] = {}
    for use in recording.uses:
        for leaf in leaves_of(use) if use.kind == "stepped" else ():
            steps.setdefault(leaf, []).append(use)
    copies: dict[int, tuple[int, Frame]] = {}
    laps: dict[int, set[int]] = {}
    copied, used = set[int](), set[int]()
    for frame in recording.frames:
        if frame.phase != "forward" or not frame.grad_enabled:
            continue
        for copy in copies.keys() & set(frame.inputs):
            leaf, made = copies[copy]
            laps.setdefault(copy, set()).add(sum(made.index < use.frame < frame.index for use in steps[leaf]))
        if frame.op not in CONVERTS:
            used |= copied.intersection(frame.inputs)
        for copy in frame.outputs if frame.op in CONVERTS else ():
            leaf = frame.inputs[0] if frame.inputs else -1
            if leaf in steps and _is_a_copy(recording, leaf, copy):
                copies[copy] = leaf, frame
                copied.add(leaf)
    for copy, (leaf, made) in copies.items():
        if leaf not in used and len(laps.get(copy, set()) - {0}) > 1:
            yield _describe_converted(recording, leaf, made, steps[leaf])


def _is_a_copy(recording: Recording, leaf: int, result: int) -> bool:
    one, other = recording.tensors[leaf], recording.tensors[result]
    return one.is_leaf and other.requires_grad and not other.is_leaf and one.storage != other.storage


def _describe_converted(recording: Recording, leaf: int, made: Frame, steps: list[GradientUse]) -> Diagnosis:
    step = next(use for use in steps if use.frame > made.index)
    finding = Finding(
        recording=recording,
        kind=HELD_BY_NOBODY,
        frame=step.frame,
        culprit=made.place,
        victim=step.place,
        tensor=leaf,
    )
    facts: dict[str, Word] = {"how": "converted", "label": label(recording, leaf), "op": made.op}
    return finding.told(CONVERTED, CONVERT_FIRST, facts)


# -- an optimiser that was given nothing at all, which torch refuses

EMPTY_CORE = "empty parameter list"
GIVEN_NOTHING = DiagnosisKind(HELD_BY_NOBODY.name, "error", marked("an optimiser given nothing"))

FINDS_NOTHING = {
    "hidden": marked(
        "{Culprit} keeps modules in `{owner}`, a plain list or dict, which doesn't register them: `parameters()` finds "
        "none of theirs, so the optimiser on {victim} is given nothing."
    ),
    "plain": marked(
        "{Culprit} keeps a tensor that requires grad in `{owner}`, which registers no Parameter: `parameters()` "
        "doesn't find it, so the optimiser on {victim} is given nothing."
    ),
    "passing": marked(
        "{Culprit} makes modules for one call alone: `{owner}` doesn't keep them, so each call makes others, "
        "untrained, `parameters()` finds none of theirs, and the optimiser on {victim} is given nothing."
    ),
    "misnamed": marked(
        "{Culprit} is meant as `__init__` and is called something else, so Python doesn't run it when `{owner}` is "
        "made: the module has no Parameter, and the optimiser on {victim} is given nothing."
    ),
    "unknown": marked(
        "{Culprit} gives the optimiser nothing: what it is given holds no Parameter when that line runs, so torch "
        "refuses."
    ),
}
HAVE_IT_FOUND = {
    "hidden": marked(
        "Register them before the optimiser is made: `nn.ModuleList([…])` or `nn.ModuleDict({{…}})` around the plain "
        "collection."
    ),
    "plain": marked(
        "Make a Parameter of it, `nn.Parameter(…)`, and set it as an attribute of the module itself; several go into "
        "`nn.ParameterList`."
    ),
    "passing": marked(
        "Make them once, in `__init__`, each an attribute, `self.layer = …`, and let `forward` call the attributes."
    ),
    "misnamed": marked("Call it `__init__`, with two underscores on each side."),
    "unknown": marked(
        "Make the optimiser once all modules are in place, each an attribute of its module or in `nn.ModuleList`. An "
        "iterator, such as `parameters()`, can be read once: make a list of it, `list(…)`, where it's needed again."
    ),
}


@finder(order=12)
def find_given_nothing(recording: Recording) -> Iterator[Diagnosis]:
    """The line that keeps what was to be trained where no module knows of it; else that which makes the optimiser."""
    error = recording.error
    if error is None or EMPTY_CORE not in error.text:
        return
    clue = next(iter(recording.clues_of("unregistered")), None)
    how, path = (clue.fact("how"), clue.fact("name")) if clue is not None else ("unknown", "")
    finding = Finding(
        recording=recording,
        kind=GIVEN_NOTHING,
        frame=error.frame,
        culprit=clue.place if clue is not None else error.place,
        victim=error.place,
        name=path or None,
    )
    yield finding.told(FINDS_NOTHING[how], HAVE_IT_FOUND[how], {"how": how}, owner=NUMBERED.sub(r"[\1]", path))


def _passed_twice(steps: list[GradientUse], came: Frame) -> bool:
    """Has one line stepped twice since a gradient came?"""
    places = [use.place for use in steps if use.frame >= came.index]
    return len(places) > len(set(places))


def _nobody(recording: Recording, leaves: list[int], came: Frame, steps: list[GradientUse]) -> Diagnosis:
    """The Diagnosis of these; by how they came to be."""
    how, culprit, op, owner = _how(recording, leaves[0])
    victim = next(use for use in steps if use.frame >= came.index)
    holders = [each for each in recording.clues_of("holder") if leaves[0] in each.tensors][-1:]
    finding = Finding(
        recording=recording,
        kind=HELD_BY_NOBODY,
        frame=came.index,
        culprit=culprit or came.place,
        victim=victim.place,
        tensor=leaves[0],
        instead=tuple((each.place, MOVE_IT) for each in holders) if how in ("assigned", "exchanged") else (),
    )
    part, op = (op, "") if how == "partly" else ("", op)
    owner = NUMBERED.sub(r"[\1]", owner)
    if how == "assigned":  # maybe one in each lap, some called as a function's argument is that they were given to
        leaves = [leaf for leaf in leaves if "." in (recording.tensors[leaf].name or "")] or leaves
    facts: dict[str, Word] = {"leaves": names(recording, leaves), "how": how, "op": op}
    advice = HOLD.get(how, HOLD_IT)
    return finding.told(NOT_STEPPED[how], advice, facts, backward=finding.line(came.place), owner=owner, part=part)


def _how(recording: Recording, leaf: int) -> tuple[str, Place | None, str, str]:
    """How a leaf came to be held by nobody, the line, what it was given to (or the part held), the module it's of."""
    wrapped, thawed, made = wrapped_by(recording, leaf), switched_on(recording, leaf), made_by(recording, leaf)
    clues = {each.kind: each for each in reversed(recording.clues) if leaf in each.tensors}
    if wrapped is not None:
        return "wrapped", wrapped.place, wrapped.op, ""
    stands_in = leaf in replacing(recording)
    if thawed is not None and (recording.tensors[leaf].parameter or not stands_in):
        return "thawed", thawed, "", ""
    if "assigned" in clues and (stands_in or ("held", "1") in clues["assigned"].facts):
        return "assigned", clues["assigned"].place, "", ""
    if stands_in and "exchanged" in clues and "copy(" not in clues["exchanged"].place.code:
        return "exchanged", clues["exchanged"].place, "", ""
    if stands_in:
        stands = made or made_at(recording, leaf)
        if stands is not None and "copy(" in stands.code:
            return "copied", stands, "", ""
        return "replaced", clues["rebuilt"].place if "rebuilt" in clues else stands, "", ""
    if "hidden" in clues:
        how = "hidden" if clues["hidden"].fact("what") == "modules" else "bare"
        return how, clues["hidden"].place, "", clues["hidden"].fact("name")
    if "left_out" in clues:
        return "left_out", clues["left_out"].place, "", clues["left_out"].fact("module")
    if "partly" in clues:
        return "partly", clues["partly"].place, clues["partly"].fact("part"), clues["partly"].fact("module")
    if not recording.tensors[leaf].parameter:
        return "plain", made_at(recording, leaf), "", ""
    return ("made" if made else "before"), made, "", ""


def replacing(recording: Recording) -> dict[int, int]:
    """Leaf that learns and that no step holds → one that it stands in for, with which nothing is computed any more.

    A Parameter for one of the same shape, but for its length; another tensor for one of its own name.
    """
    first, last, read = dict[int, int](), dict[int, int](), dict[int, int]()
    for frame in recording.frames:
        taken = frame.inputs if frame.phase == "forward" and frame.op not in COPIES else ()
        read.update(dict.fromkeys(taken, frame.index))
        for each in taken:
            first.setdefault(each, frame.index)
        leaf = leaf_of(recording, frame)
        if leaf is not None:
            first.setdefault(leaf, frame.index)
            last[leaf] = frame.index
    held = {leaf for use in recording.uses if use.kind == "stepped" for leaf in leaves_of(use)}
    olds: dict[object, list[int]] = {}
    for leaf in held:
        olds.setdefault(_stands_for(recording, leaf), []).append(leaf)
    found: dict[int, int] = {}
    for leaf in last.keys() - held:
        alike = olds.get(_stands_for(recording, leaf), ())
        old = next((each for each in alike if max(last.get(each, -1), read.get(each, -1)) < first[leaf]), None)
        if old is not None:
            found[leaf] = old
    return found


def of_modules(recording: Recording) -> set[int]:
    """The leaves that are no Parameters and that modules have as attributes: a buffer that requires grad.

    Each has got a gradient in several calls, and nobody has asked for it, as one asks for that of data.
    """
    asked = {leaf for frame in recording.frames for leaf in frame.wanted}
    asked |= {leaf for use in recording.uses if use.kind == "read" for leaf in leaves_of(use)}
    calls: dict[int, set[int | None]] = {}
    for frame in recording.frames:
        leaf = leaf_of(recording, frame)
        if leaf is not None and leaf not in asked and "." in (recording.tensors[leaf].name or ""):
            calls.setdefault(leaf, set()).add(frame.backward)
    own = {leaf for leaf, found in calls.items() if len(found) > 1 and not recording.tensors[leaf].parameter}
    outside = {each for f in recording.frames if f.phase == "forward" and not f.module for each in f.inputs}
    return own - outside if own else own


def _stands_for(recording: Recording, leaf: int) -> object:
    ref = recording.tensors[leaf]
    return ("Parameter", ref.shape[1:], len(ref.shape)) if ref.parameter else (ref.name, ref.shape)


def wrapped_by(recording: Recording, leaf: int) -> Frame | None:
    """The op whose result is kept in place of the Parameter, which nobody holds: it ran once, for several laps."""
    uses = [frame for frame in recording.frames if leaf in frame.inputs and frame.phase == "forward"]
    calls = {frame.backward for frame in recording.frames if leaf_of(recording, frame) == leaf}
    alone = recording.tensors[leaf].name is None and len(uses) == 1 and len(calls) > 1
    return uses[0] if alone and uses[0].grad_enabled else None


def switched_on(recording: Recording, leaf: int) -> Place | None:
    """The line that switched the gradient of a leaf on again."""
    switches = [each for each in recording.switches if each.kind == "tensors" and leaf in each.tensors]
    return switches[-1].place if switches and switches[-1].on else None


def made_by(recording: Recording, leaf: int) -> Place | None:
    """The line that initialised it, or that made its numbers; None where the first thing seen of it is its use."""
    first = next((frame for frame in recording.frames if leaf in frame.inputs), None)
    written = {recording.writes[write].tensor for write in first.writes} if first is not None else ()
    if first is not None and (leaf in written or (first.phase == "inplace" and first.inputs[0] == leaf)):
        return first.place  # of a long loop the Write itself is forgotten
    storage = recording.tensors[leaf].storage
    if any(ref.storage == storage and ref.parameter for ref in recording.tensors[:leaf]):
        return made_at(recording, leaf)  # of another one's numbers: `weight_norm`
    fresh = (frame for frame in recording.frames if any(_is_made(recording, frame, each) for each in frame.outputs))
    made = next((f for f in fresh if any(recording.tensors[each].storage == storage for each in f.outputs)), None)
    return made.place if made is not None and recording.tensors[leaf].parameter else None


def _is_made(recording: Recording, frame: Frame, tensor: int) -> bool:
    return recording.tensors[tensor].frame == frame.index and recording.tensors[tensor].alias_of is None
