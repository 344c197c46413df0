"""What is meant as a copy and is the thing itself, in three ways; or is meant as the thing itself, and is new."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from seegrad.diagnose.evidence import ancestors, dropped_call, is_trained, label, line_of, made_at
from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.diagnose.training.freezes import arrivals, trained_step
from seegrad.diagnose.training.steps import leaf_of, leaves_of, names
from seegrad.model.recording import Clue, Diagnosis, Frame, Place, Recording, Write
from seegrad.words.languages import marked
from seegrad.words.phrases import Word

COMPARES = frozenset(
    {"sub", "rsub", "eq", "ne", "equal", "allclose", "isclose", "dist", "mse_loss", "l1_loss", "cosine_similarity"}
)
"""Ops that say by how much two tensors differ."""

# -- a state that moves on with what it was taken of

MOVED_ON = DiagnosisKind("kept_by_reference", "note", marked("kept by reference"))
TAKEN = marked(
    "{Culprit} keeps {label} itself, not a copy of its numbers: {changed} has changed it since, and {victim} finds "
    "what it is by then."
)
WITH_ITSELF = marked(
    "{Culprit} keeps {label} itself, not a copy of its numbers: {victim} compares it with itself, whatever {changed} "
    "has changed."
)
COPY_STATE = marked(
    "If the numbers of that moment are meant, keep a copy: `copy.deepcopy(model.state_dict())`, or `.clone()` of each "
    "tensor."
)
COPY_EACH = marked("If the numbers of that moment are meant, keep `.detach().clone()` of each tensor.")

OF_ITS_OWN = marked(
    "{Culprit} keeps a gradient itself, not a copy of its numbers: {changed} writes the new one to the same memory, so "
    "{victim} compares it with itself."
)
COPY_GRADIENT = marked(
    "If the gradient of the step before is meant, keep a copy: `.clone()`. What is cleared in place stays where it is."
)


@finder(order=31)
def find_kept_gradients(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line that keeps a gradient's own memory for a comparison in a later step."""
    for each in recording.clues_of("gradient"):
        used = recording.frames[each.frame]
        before = (frame.place for frame in reversed(recording.frames[: each.frame]) if frame.phase == "backward")
        finding = Finding(
            recording=recording,
            kind=MOVED_ON,
            frame=each.frame,
            culprit=each.place,
            victim=used.place,
            tensor=each.tensors[0],
        )
        facts: dict[str, Word] = {"how": "gradient"}
        yield finding.told(OF_ITS_OWN, COPY_GRADIENT, facts, changed=finding.line(next(before, None)))


@finder(order=31)
def find_moved_on(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line that kept a Parameter's own bytes, where they were written before they were read."""
    told: set[Place | None] = set()
    writes: dict[int, list[Write]] = {}
    for write in recording.writes:
        writes.setdefault(write.storage, []).append(write)
    snapshots = {leaf: each for each in recording.clues_of("snapshot") for leaf in each.tensors}
    for frame in recording.frames:
        found = _read_late(recording, frame, writes) or _with_itself(recording, frame, writes, snapshots)
        if found is not None and found[1] not in told:
            tensor, place, write, said, advice = found
            told.add(place)
            finding = Finding(
                recording=recording, kind=MOVED_ON, frame=frame.index, culprit=place, victim=frame.place, tensor=tensor
            )
            facts: dict[str, Word] = {"label": label(recording, tensor)}
            yield finding.told(said, advice, facts, changed=finding.line(line_of(write)))


Moved = tuple[int, Place | None, Write, str, str]
"""The Parameter, the line that kept it, who wrote it, what is said and advised."""


def _read_late(recording: Recording, frame: Frame, writes: dict[int, list[Write]]) -> Moved | None:
    """An op is given what a `state_dict()` has handed out, or copies onto itself, what was written meanwhile."""
    for tensor in frame.inputs if frame.phase in ("forward", "inplace") else ():
        leaf, made = _parameter(recording, tensor), made_at(recording, tensor)
        onto_itself = frame.op == "copy_" and leaf in map(partial(_parameter, recording), frame.inputs[:1])
        if leaf is None or leaf == tensor or made is None or not ("state_dict" in made.code or onto_itself):
            continue
        write = _written(recording, writes, tensor, frame)
        if (
            write is not None
            and all(each.tensor != tensor for each in writes[write.storage])
            and tensor != frame.inputs[0]
        ):
            return leaf, made, write, TAKEN, COPY_STATE
    return None


def _with_itself(
    recording: Recording, frame: Frame, writes: dict[int, list[Write]], snapshots: dict[int, Clue]
) -> Moved | None:
    """A Parameter is compared with itself, and one of the two was taken before it was written."""
    if frame.op not in COMPARES or len(frame.inputs) != 2:
        return None
    leaves = {_parameter(recording, tensor) for tensor in frame.inputs}
    older = min(frame.inputs, key=lambda tensor: recording.tensors[tensor].frame)
    leaf = next(iter(leaves))
    write = _written(recording, writes, older, frame) if leaf is not None and len(leaves) == 1 else None
    if leaf is None or write is None:
        return None
    if older != leaf:
        return leaf, made_at(recording, older), write, WITH_ITSELF, COPY_EACH
    kept = snapshots.get(leaf)
    return (leaf, kept.place, write, WITH_ITSELF, COPY_EACH) if kept is not None else None


def _parameter(recording: Recording, tensor: int) -> int | None:
    """The Parameter that this is, or of which it's a `.detach()` or `.data`."""
    *_, (number, _route) = ancestors(recording, tensor)
    routes = [route for _, route in ancestors(recording, tensor)[:-1]]
    whole = all(route in ("detach", "data") for route in routes)
    return number if whole and recording.tensors[number].parameter else None


def _written(recording: Recording, writes: dict[int, list[Write]], tensor: int, before: Frame) -> Write | None:
    """The last write to its bytes since the tensor was made, and before that Frame."""
    ref = recording.tensors[tensor]
    found = [each for each in writes.get(ref.storage, ()) if ref.frame < each.frame < before.index]
    return found[-1] if found else None


# -- one module under two names, or in each place of a list

TWICE = DiagnosisKind("one_module_twice", "note", marked("one module twice"))
TWO_NAMES = marked(
    "{Culprit} gives one module a second name: `{name}` and `{other}` have the same Parameters, so the step on "
    "{victim} changes both."
)
MANY_PLACES = marked(
    "{Culprit} puts one module into {other} places of `{name}`: they have the same Parameters, which the "
    "step on {victim} changes for all."
)
COPY_MODULE = marked("If you meant a copy, make one: `copy.deepcopy({other})`.")
MAKE_EACH = marked(
    "If you meant {other} layers, make each of them anew: `nn.ModuleList(Layer(…) for _ in range({other}))`, or "
    "`copy.deepcopy(layer)` in each place."
)


@finder(order=32)
def find_twice(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each such module that learns, where the line was found that did it."""
    came = arrivals(recording)
    for each in recording.clues_of("module", "repeated"):
        leaves = [leaf for leaf in each.tensors if leaf in came]
        step = trained_step(recording, leaves, 0)
        if step is None:
            continue
        finding = Finding(
            recording=recording,
            kind=TWICE,
            frame=step.frame,
            culprit=each.place,
            victim=step.place,
            tensor=leaves[0],
            name=each.fact("name"),
        )
        said, advice = (TWO_NAMES, COPY_MODULE) if each.kind == "module" else (MANY_PLACES, MAKE_EACH)
        facts: dict[str, Word] = {"how": each.kind, "other": each.fact("other")}
        yield finding.told(said, advice, facts)


# -- a Parameter's name that goes to a new tensor, which nobody sees again

LET_GO = DiagnosisKind("name_rebound", "note", marked("a name given to a new tensor"))
NOBODY_SEES = marked(
    "{Culprit} gives the name `{name}` to a new tensor, which nothing reads before it is gone: {leaves}, which "
    "`{name}` stood for, stay as they are."
)
SOME_STAY = marked(
    "{Culprit} gives the name `{name}` to a new tensor, which nothing reads before it is gone: by this line nothing "
    "changes, and {leaves} stay as they are."
)
AS_BEFORE = marked(
    "{Culprit} gives the name `{name}` to a new tensor, which nothing reads before it is gone: by this line nothing "
    "changes, and {leaves} are behind it what they were before."
)
WRITE_INTO = marked(
    "If they are to change, write into them instead: `with torch.no_grad():` around `{name}.copy_(…)`, "
    "`{name}.sub_(…)` or another of these."
)


@finder(order=33)
def find_let_go(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line whose new tensors are all gone, unread; none where all Parameters are written after it.

    Unless no other line reads the name: then it's of no use, whatever writes them. Of those it is computed of some may
    be trained and others, an average of them, written by nothing else.
    """
    written = {write.storage: write.frame for write in recording.writes}
    for each in recording.clues_of("lost"):
        every = [leaf for leaf in each.tensors if recording.tensors[leaf].parameter]
        leaves = [leaf for leaf in every if written.get(recording.tensors[leaf].storage, -1) <= each.frame]
        in_vain = not leaves and each.fact("read") == "0"
        leaves = every if in_vain else leaves
        if not leaves or (len(leaves) < len(every) and any(recording.tensors[leaf].requires_grad for leaf in leaves)):
            continue
        finding = Finding(
            recording=recording,
            kind=LET_GO,
            frame=each.frame,
            culprit=each.place,
            victim=each.place,
            tensor=leaves[0],
            name=each.fact("name"),
        )
        said = AS_BEFORE if in_vain else NOBODY_SEES if len(leaves) == len(every) else SOME_STAY
        yield finding.told(said, WRITE_INTO, {"leaves": names(recording, leaves)})


# -- new numbers for a gradient or a Parameter that nobody takes: `p.grad.clamp(-1, 1)` as a statement of its own

DROPPED = DiagnosisKind("result_dropped", "note", marked("a result that nobody takes"))
NOBODY_TAKES = {
    "gradient": marked(
        "{Culprit} computes new numbers from a gradient, and nobody takes them: `{op}` writes nothing, so {victim} "
        "goes by the gradient as it was."
    ),
    "parameter": marked(
        "{Culprit} computes new numbers from {label}, and nobody takes them: `{op}` writes nothing, so {label} stays "
        "as it is."
    ),
}
NOBODY_TAKES["result"] = NOBODY_TAKES["parameter"]
NOBODY_TAKES["shape"] = marked(
    "{Culprit} makes {new_shape} of {label}, and nobody takes that: `{op}` returns it and leaves {label} as it is, "
    "{shape}, so the loss that {victim} goes back from is computed of that."
)
WRITE_THEM = {
    "gradient": marked("If the gradient is to change, write into it: `{op}_` instead of `{op}`."),
    "chain": marked("If the gradient is to change, write the result into it: `.grad.copy_(…)`."),
    "parameter": marked("If it is to change, write into it, under `with torch.no_grad():`: `{op}_` instead of `{op}`."),
    "parameters": marked(
        "If it is to change, let each call of the row write, under `with torch.no_grad():`, `….mul_(…).add_(…)`; or "
        "write what comes out into it, `….copy_(…)`."
    ),
    "result": marked("If what follows is to go on from the new numbers, take them up: `{name} = {name}.{op}(…)`."),
    "shape": marked("If what follows is to go on in the new shape, take that up: `{name} = {name}.{op}(…)`."),
}

CHANGES = frozenset(
    {"add", "sub", "subtract", "mul", "multiply", "div", "divide", "true_divide", "addcmul", "addcdiv", "lerp", "neg"}
    | {"clamp", "clip", "clamp_min", "clamp_max", "nan_to_num", "masked_fill", "renorm"}
)
"""Ops of which there is one that writes, `clamp_`; out of place, they are of use by their result alone."""

SHAPES = frozenset(
    {"squeeze", "unsqueeze", "view", "reshape", "flatten", "unflatten", "t", "transpose", "swapaxes", "swapdims"}
    | {"permute", "movedim", "moveaxis", "expand"}
)
"""Ops that make another shape, and nothing else."""

CHAINS = {"gradient": "chain", "parameter": "parameters"}

OF_GRADIENT = re.compile(r"\.grad\b")


@finder(order=33)
def find_dropped(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line that is such a call and no more, of a gradient or Parameter that is used afterwards.

    Of a result too, and of a shape where what led to a loss stayed in the old one.
    """
    told: set[Place | None] = set()
    for frame in recording.frames:
        if frame.phase != "forward" or frame.op not in CHANGES | SHAPES or frame.place is None or frame.place in told:
            continue
        given = dropped_call(frame.place.code, frame.op)
        found = _dropped(recording, frame, given) if given else None
        if found is not None:
            told.add(frame.place)
            how, leaf, used = found
            finding = Finding(
                recording=recording, kind=DROPPED, frame=frame.index, culprit=frame.place, victim=used, tensor=leaf
            )
            chain = how != "result" and "(" in given.replace(".detach()", "")
            way = CHAINS[how] if chain else how  # what is written there is new already
            facts: dict[str, Word] = {"how": way, "label": label(recording, leaf), "op": frame.op}
            shapes = {"shape": shape_of(recording, leaf), "new_shape": shape_of(recording, *frame.outputs[:1])}
            yield finding.told(NOBODY_TAKES[how], WRITE_THEM[way], facts, **shapes)


Used = tuple[str, int, Place | None]
"""Of a gradient or of a Parameter; whose, and the line that goes by it afterwards."""


def shape_of(recording: Recording, *tensors: int) -> str:
    """The shapes as they are written."""
    return ", ".join(str(list(recording.tensors[each].shape)) for each in tensors)


def _dropped(recording: Recording, frame: Frame, given: str) -> Used | None:
    """What the call's statement lets go, where that is missing afterwards."""
    if frame.op in SHAPES:
        return _of_shape(recording, frame)
    return _of_gradient(recording, frame, given) or _of_parameter(recording, frame) or _of_result(recording, frame)


def _of_shape(recording: Recording, frame: Frame) -> Used | None:
    """A tensor that is of another shape than what was made of it, and that something which learns is computed of."""
    if not frame.inputs or not frame.outputs or is_trained(recording, frame.inputs[0]):
        return None
    tensor, tensors = frame.inputs[0], recording.tensors
    if tensors[tensor].shape == tensors[frame.outputs[0]].shape:
        return None
    later = recording.frames[frame.index + 1 :]
    takers = {node for each in later if each.phase == "forward" and tensor in each.inputs for node in each.nodes}
    backward = next((each for each in later if each.running in takers), None) if takers else None
    return None if backward is None else ("shape", tensor, backward.place)


def _of_gradient(recording: Recording, frame: Frame, given: str) -> Used | None:
    """The line goes on from a `.grad` that was read there, or that its variable was given; the step that follows."""
    name = re.split(r"\W", given)[0]
    named = re.compile(rf"\b{name}\b.*(?:=(?!=)|\bin\b).*\.grad\b")
    before = [use for use in recording.uses if use.kind == "read" and use.frame <= frame.index and use.place]
    here = [use for use in before if use.place == frame.place] if OF_GRADIENT.search(given) else []
    reads = here or [use for use in before if use.place and named.search(use.place.code)]
    leaf = reads[-1].tensors[0][0] if reads else None
    after = (use for use in recording.uses if use.kind == "stepped" and use.frame >= frame.index)
    step = next((use for use in after if leaf in leaves_of(use)), None)
    return ("gradient", leaf, step.place) if leaf is not None and step is not None else None


def _of_parameter(recording: Recording, frame: Frame) -> Used | None:
    """It's a Parameter, or a `.data` of one, to which gradients come later, or that is computed with."""
    first = frame
    for each in reversed(recording.frames[: frame.index]):  # the calls before it in its row
        if each.place != frame.place:
            break
        first = each if set(each.outputs) & set(first.inputs[:1]) and each.op in CHANGES else first
    leaf = _parameter(recording, first.inputs[0]) if first.inputs else None
    after = recording.frames[frame.index + 1 :] if leaf is not None else ()
    elsewhere = (each for each in after if each.place != frame.place)
    came = (each for each in elsewhere if leaf_of(recording, each) == leaf or (leaf in each.inputs and each.module))
    later = next(came, None)
    return ("parameter", leaf, later.place) if leaf is not None and later is not None else None


def _of_result(recording: Recording, frame: Frame) -> Used | None:
    """It's a result with a graph, through which a backward call goes later."""
    tensor = frame.inputs[0] if frame.inputs else None
    if tensor is None or recording.tensors[tensor].is_leaf or not recording.tensors[tensor].requires_grad:
        return None
    nodes = {node.id for node in recording.nodes if tensor in node.outputs}
    later = (each for each in recording.frames[frame.index :] if each.running in nodes)
    backward = next(later, None) if nodes else None
    return None if backward is None else ("result", tensor, backward.place)
