"""A write that torch refuses, or that a custom Function doesn't announce: to a leaf, a view, shared memory."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

from seegrad.diagnose.cut import is_elsewhere
from seegrad.diagnose.evidence import ancestors, birthplace, counter, errors_with, label, made_at, maker
from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.diagnose.mend import instead
from seegrad.model.recording import Diagnosis, Frame, Node, Place, RaisedError, Recording, TensorRef, Write
from seegrad.words.languages import marked
from seegrad.words.phrases import Word

# -- a leaf that requires grad

LEAF_CORE = "leaf Variable that requires grad"
LEAF = DiagnosisKind("leaf_modified", "error", marked("leaf modified"), (marked("leaf: no in-place write here"),))

WRITES_LEAF = marked(
    "{Culprit} writes in place to {label}, a leaf that requires grad: autograd would lose the value "
    "that the gradient belongs to, so torch refuses before anything is written."
)
WRITES_VIEW = marked(
    "{Culprit} writes in place to a view of {label}, a leaf that requires grad: it would change the leaf itself, "
    "so torch refuses before anything is written."
)
WRITES_MARKED = marked(
    "{Culprit} writes in place to {label} inside a custom Function: {label} is a leaf that requires grad, "
    "and no mark tells autograd where the value that the gradient belongs to has gone."
)
OUTSIDE_THE_GRAPH = marked(
    "To set or update values outside the graph, write under `with torch.no_grad():`; "
    "to compute with a changed value, make a new tensor, for example `{name}_new = {name} + …`."
)
INITIALISE = marked(
    "To initialise or update a parameter, write under `with torch.no_grad():` or use `torch.nn.init`; "
    "to compute with a changed value, make a new tensor."
)
RETURN_A_NEW_ONE = marked(
    "Let forward compute a new tensor instead of writing to its input, "
    "or give the Function a result (`{name} * 1`) instead of the leaf."
)


@finder(order=3)
def find_leaf(recording: Recording) -> Iterator[Diagnosis]:
    """One Diagnosis for each such error."""
    for error in errors_with(recording, LEAF_CORE):
        yield describe_leaf(recording, error)


def describe_leaf(recording: Recording, error: RaisedError) -> Diagnosis:
    """The leaf, and whether it was written itself or through a view."""
    frame = recording.frames[error.frame]
    written = frame.inputs[0] if frame.inputs else None
    marking = last_write(recording, error) if written is None else None
    leaf = the_leaf(recording, marking.tensor if marking else written)
    finding = Finding(
        recording=recording,
        kind=LEAF,
        frame=error.frame,
        culprit=marking.place if marking else error.place,
        tensor=leaf.id if leaf else None,
        write=marking,
        route="view" if leaf and (written not in (leaf.id, None) or frame.op == "__setitem__") else "self",
    )
    said = WRITES_MARKED if marking else WRITES_VIEW if finding.route == "view" else WRITES_LEAF
    trained = leaf is not None and leaf.parameter
    advice = RETURN_A_NEW_ONE if marking else INITIALISE if trained else OUTSIDE_THE_GRAPH
    facts: dict[str, Word] = {
        "label": label(recording, finding.tensor),
        "op": marking.op if marking else frame.op,
        "trained": int(trained),
        "marked": int(marking is not None),
    }
    return finding.told(said if finding.culprit else WRITES_LEAF, advice, facts)


def the_leaf(recording: Recording, written: int | None) -> TensorRef | None:
    """The tensor that was written if it is such a leaf, or the leaf that it's a view of."""
    for number, _ in ancestors(recording, written) if written is not None else ():
        if recording.tensors[number].is_leaf and recording.tensors[number].requires_grad:
            return recording.tensors[number]
    return None


def last_write(recording: Recording, error: RaisedError) -> Write | None:
    """The write inside a custom Function's forward, where torch refused what `ctx.mark_dirty` said of it."""
    return next((write for write in reversed(recording.writes) if write.frame <= error.frame), None)


# -- a view that may not be written: one of several, a custom Function's, or one made without gradients

VIEW_CORES = {
    "function that returns multiple views": "several",
    "created inside a custom Function": "function",
    "created in no_grad mode": "no_grad",
    "view was created in inference mode": "inference",
}
"""Stable part of torch's message → why the view may not be written."""

HOOKED = "BackwardHookFunction"
"""Torch's own Function, through which it returns what a module with a backward hook has computed."""

BASE_CORE = "its base or another view of its base has been modified"
VIEW = DiagnosisKind("view_modified", "error", marked("view modified"))

NO_SUCH_VIEW = {
    "several": marked(
        "{Culprit} writes in place to {label}, one of the views that `{maker}` on {victim} returned together: "
        "autograd cannot follow a write to one of them, so torch refuses."
    ),
    "function": marked(
        "{Culprit} writes in place to {label}, which a custom Function on {victim} returned as a view of its input: "
        "the write would pass by the Function's own backward, so torch refuses."
    ),
    "base": marked(
        "{Culprit} overwrote memory that {label} is a view of: `{maker}` on line {made} returned views "
        "that autograd cannot bring up to date, so {victim} may not use it any more."
    ),
    "no_grad": marked(
        "{Culprit} writes in place to {label}, a view that was made on {victim} with gradients switched off: "
        "the write would be recorded although the view is not, so torch refuses."
    ),
    "inference": marked(
        "{Culprit} writes in place to {label}, a view that was made on {victim} in inference mode: "
        "the write would be recorded although the view is not, so torch refuses."
    ),
}
INSTEAD_OF_VIEW = {
    "several": marked(
        "Make a new tensor (`{new}`, not `{old}`), or take that part alone by its index, "
        "`x[…]` or `x.narrow(…)`, which may be written."
    ),
    "function": marked(
        "Make a new tensor (`{new}`, not `{old}`), or let forward return memory of its own, "
        "or call `ctx.mark_dirty` on an input that it means to change and return."
    ),
    "base": marked(
        "Make the views after the write, or let that line make a new tensor instead of writing to the old one."
    ),
    "no_grad": marked(
        "Make the view and write to it on the same side: both inside the `no_grad` block if the write is not to be "
        "differentiated, both outside if it is."
    ),
    "inference": marked("Make the view and write to it on the same side: both inside inference mode, or both outside."),
}


@finder(order=4)
def find_view(recording: Recording) -> Iterator[Diagnosis]:
    """One Diagnosis for each such error."""
    for error in errors_with(recording, *VIEW_CORES):
        if maker(recording, next(iter(recording.frames[error.frame].inputs), None)) != HOOKED:
            yield describe_view(recording, error)


def last_made(recording: Recording, tensor: int | None, before: int) -> Frame | None:
    """The last Frame that gave the tensor to the program: a custom Function's own, not what ran inside it."""
    made = (frame for frame in recording.frames[before - 1 :: -1] if tensor in frame.outputs and not frame.writes)
    born = recording.frames[recording.tensors[tensor].frame] if tensor is not None else None
    return next(made, born if born is not None and born.phase != "start" else None)


def stale(recording: Recording, error: RaisedError) -> tuple[int | None, Write | None]:
    """The view that was read after its base had been written, and that write; in backward a Node reads it."""
    saved = recording.nodes[error.node].saved if error.node is not None else ()
    for number in [each.tensor for each in saved if each.tensor is not None] or recording.frames[error.frame].inputs:
        ref = recording.tensors[number]
        after = (each for each in recording.writes if ref.frame < each.frame)
        moved = (each for each in after if each.version_before != each.version_after)  # torch knows what it counts
        writes = [each for each in moved if counter(recording, each.tensor) == ref.counter]
        if writes and ref.alias_of is not None:
            return number, writes[-1]
    return None, None


def reader(recording: Recording, error: RaisedError) -> Place | None:
    """The line that read the view; for a Node in backward, the line that made it."""
    return birthplace(recording, recording.nodes[error.node]) if error.node is not None else error.place


def describe_view(recording: Recording, error: RaisedError) -> Diagnosis:
    """The culprit is the write, the victim the line that made the view, or the one that read it afterwards."""
    frame = recording.frames[error.frame]
    read, write = stale(recording, error) if BASE_CORE in error.text else (None, None)
    tensor = read if read is not None else frame.inputs[0] if frame.inputs else None
    made = last_made(recording, tensor, error.frame)
    finding = Finding(
        recording=recording,
        kind=VIEW,
        frame=error.frame,
        culprit=write.place if write else error.place,
        victim=reader(recording, error) if write else made.place if made else None,
        tensor=tensor,
        route="view",
    )
    why, op = "base" if write else cause_of(error, VIEW_CORES), write.op if write else frame.op
    facts: dict[str, Word] = {
        "cause": why,
        "label": label(recording, tensor),
        "op": op,
        "made": made.place.line if made and made.place else 0,
        "maker": made.op if made else "",
    }
    return finding.told(NO_SUCH_VIEW[why], INSTEAD_OF_VIEW[why], facts, **instead(finding, op))


def cause_of(error: RaisedError, causes: dict[str, str]) -> str:
    """What the stable part of torch's message tells."""
    return next(cause for core, cause in causes.items() if core in error.text)


# -- memory that several elements share, or that is read at shifted places by the same op

OVERLAP_CORE = "single memory location"
WITHIN = "more than one element of the written-to tensor"
OVERLAP = DiagnosisKind("memory_overlaps", "error", marked("memory overlaps"))

OVERLAPS = {
    "within": marked(
        "{Culprit} writes in place to {label}, but several of its elements are one place in memory: "
        "`{maker}` on {victim} repeats elements without copying them, so torch refuses."
    ),
    "between": marked(
        "{Culprit} reads and writes the same memory at shifted places: "
        "the result would depend on the order in which the elements are visited, so torch refuses."
    ),
}
APART = {
    "within": marked(
        "Write before `{maker}` repeats the elements, or let it copy them: `.repeat(…)` for `.expand(…)`, "
        "or make a new tensor (`{new}`, not `{old}`)."
    ),
    "between": marked(
        "Compute the new values first, as a tensor of their own, and write them afterwards: "
        "`x[1:] = x[1:] + x[:-1]`, not `x[1:] += x[:-1]`."
    ),
}


@finder(order=5)
def find_overlap(recording: Recording) -> Iterator[Diagnosis]:
    """One Diagnosis for each such error: the culprit is the write, the victim what gave several elements one memory."""
    for error in errors_with(recording, OVERLAP_CORE):
        frame = recording.frames[error.frame]
        tensor = frame.inputs[0] if frame.inputs else None
        why = "within" if WITHIN in error.text else "between"
        finding = Finding(
            recording=recording,
            kind=OVERLAP,
            frame=error.frame,
            culprit=error.place,
            victim=made_at(recording, tensor) if why == "within" else None,
            tensor=tensor,
        )
        made = maker(recording, tensor)
        facts: dict[str, Word] = {"cause": why, "label": label(recording, tensor), "op": frame.op, "maker": made}
        yield finding.told(OVERLAPS[why], APART[why], facts, **instead(finding, frame.op))


# -- a custom Function whose `ctx.mark_dirty` doesn't fit what it writes and returns

DIRTY_CORES = {
    "marked as dirty during the forward": "not_returned",
    "an input that is a view of another Tensor": "view",
}
"""Stable part of torch's message → what is wrong."""

SHIFTS = frozenset({"add_", "sub_", "__iadd__", "__isub__"})
"""Ops that leave the gradient as it is, if nothing with a history is added."""

DIRTY = DiagnosisKind("marked_dirty", "error", marked("mark_dirty misused"))
UNMARKED = replace(DIRTY, severity="wrong")

MISUSED = {
    "not_returned": marked(
        "{Culprit} writes in place to {label}, which `ctx.mark_dirty` announces, "
        "but the Function called on {victim} does not return it: what came after would use a value without a history."
    ),
    "view": marked(
        "{Culprit} writes in place to {label}, a view, and the Function called on {victim} returns more than that: "
        "autograd cannot rebase a view's history onto a Function with several outputs."
    ),
    "unmarked": marked(
        "{Culprit} writes in place to {label} inside the custom Function `{function}`, which does not announce it: "
        "for {node} on {victim}, which uses {label} afterwards, the gradient leaves out `{op}`, and torch says nothing."
    ),
}
MARK_RIGHTLY = {
    "not_returned": marked(
        "Return {label} itself from forward, or compute a new tensor there and leave out `ctx.mark_dirty`."
    ),
    "view": marked(
        "Compute a new tensor in forward instead of writing to its input, or return the written input alone."
    ),
    "unmarked": marked(
        "Compute a new tensor in forward (`{new}`, not `{old}`), "
        "or call `ctx.mark_dirty` on the input there and return it."
    ),
}


@finder(order=6)
def find_dirty(recording: Recording) -> Iterator[Diagnosis]:
    """One Diagnosis for each such error, and one for each write that nothing announced and that makes it wrong."""
    for error in errors_with(recording, *DIRTY_CORES):
        yield describe_dirty(recording, error)
    called = [frame for frame in recording.frames if frame.phase == "forward" and frame.writes and frame.nodes]
    takers = takers_of(recording) if called else {}
    for frame in called:
        for write in (recording.writes[number] for number in frame.writes):
            if is_hidden(recording, frame, write):
                taken = takers.get(write.storage, ())
                past = (ran for node, ran, born in taken if node.frame > frame.index and born < write.frame)
                yield from (describe_unmarked(recording, frame, write, ran) for ran in itertools.islice(past, 1))


def takers_of(recording: Recording) -> dict[int, list[tuple[Node, Frame, int]]]:
    """Storage → each Node that took a tensor on it, the Frame in which it ran first, and that tensor's own Frame."""
    ran = {frame.running: frame for frame in reversed(recording.frames) if frame.running is not None}
    found: dict[int, list[tuple[Node, Frame, int]]] = {}
    for node in (node for node in recording.nodes if node.id in ran):
        for tensor in (recording.tensors[number] for number in node.inputs if number is not None):
            found.setdefault(tensor.storage, []).append((node, ran[node.id], tensor.frame))
    return found


def is_hidden(recording: Recording, frame: Frame, write: Write) -> bool:
    """True for a write that the tensor's history says nothing of, though its gradient depends on it.

    Who takes that tensor, as it was known before, after the Function has returned, goes past the Function backward.
    """
    written = recording.tensors[write.tensor]
    in_graph = written.requires_grad and not written.is_leaf and written.id not in frame.outputs
    return in_graph and not is_shift(recording, write)


def is_shift(recording: Recording, write: Write) -> bool:
    """True where a number, or a tensor without a history, was added."""
    others = [recording.tensors[number] for number in recording.frames[write.frame].inputs if number != write.tensor]
    return write.op in SHIFTS and not any(other.requires_grad for other in others)


def describe_unmarked(recording: Recording, frame: Frame, write: Write, shown: Frame) -> Diagnosis:
    """The culprit is the write within `forward`, the victim the first Node of the backward that goes past it."""
    node = recording.nodes[shown.running or 0]
    finding = Finding(
        recording=recording,
        kind=UNMARKED,
        frame=shown.index,
        culprit=write.place,
        victim=birthplace(recording, node),
        node=node,
        tensor=write.tensor,
        write=write,
        saved=write.version_before,
        now=write.version_after,
    )
    facts: dict[str, Word] = {
        "cause": "unmarked",
        "label": label(recording, write.tensor),
        "op": write.op,
        "function": frame.op,
    }
    return finding.told(MISUSED["unmarked"], MARK_RIGHTLY["unmarked"], facts, **instead(finding, write.op))


def describe_dirty(recording: Recording, error: RaisedError) -> Diagnosis:
    """The culprit is the last write before the error: it was made inside `forward`. The victim is the call."""
    write = last_write(recording, error)
    finding = Finding(
        recording=recording,
        kind=DIRTY,
        frame=error.frame,
        culprit=write.place if write else error.place,
        victim=error.place,
        tensor=write.tensor if write else None,
        write=write,
    )
    why = cause_of(error, DIRTY_CORES)
    facts: dict[str, Word] = {"cause": why, "label": label(recording, finding.tensor), "op": write.op if write else ""}
    return finding.told(MISUSED[why], MARK_RIGHTLY[why], facts)


# -- a tensor made in inference mode, used where autograd needs an ordinary one

INFERENCE_CORES = {
    "Inference tensors cannot be saved for backward": "saved",
    "Inplace update to inference tensor": "written",
}
"""Stable part of torch's message → what was tried."""

NEAR = 32
"""So many calls may a Function's forward have made before it saves something."""

INFERENCE = DiagnosisKind("inference_tensor", "error", marked("inference tensor"))
MADE_IN_INFERENCE = {
    "saved": marked(
        "{label} was made in inference mode by {culprit}, so it has no version, "
        "but `{op}` on {victim} has to save it for backward."
    ),
    "saved_within": marked(
        "{label} comes from inference mode, which {culprit} switched on around all that ran inside, so it has no "
        "version, but `{op}` on {victim} has to save it for backward."
    ),
    "written": marked(
        "{label} was made in inference mode by {culprit}, so it has no version, "
        "and {victim} writes to it in place where versions count."
    ),
    "written_within": marked(
        "{label} comes from inference mode, which {culprit} switched on around all that ran inside, so it has no "
        "version, and {victim} writes to it in place where versions count."
    ),
}
MAKE_ORDINARY = marked(
    "Make it under `torch.no_grad()` instead of `torch.inference_mode()`, "
    "or bring it back with `{name} = {name}.clone()` outside that block."
)


@finder(order=7)
def find_inference(recording: Recording) -> Iterator[Diagnosis]:
    """One Diagnosis for each such error: the culprit is the line that made the tensor, the victim torch's refusal.

    Where inference mode stands around a call, or a whole function, the culprit is the line that says so.
    """
    for error in errors_with(recording, *INFERENCE_CORES):
        frame = recording.frames[error.frame]
        given = _given_from_inference(recording, frame)
        tensor = given if given is not None else _read_before(recording, frame)
        made = made_in_inference(recording, tensor)
        around = made.off if made is not None and is_elsewhere(recording, made) else None
        finding = Finding(
            recording=recording,
            kind=INFERENCE,
            frame=error.frame,
            culprit=around or (made.place if made is not None else made_at(recording, tensor)),
            victim=error.place,
            tensor=tensor,
        )
        why = cause_of(error, INFERENCE_CORES)
        op = "save_for_backward" if frame.phase == "error" and why == "saved" else frame.op
        facts: dict[str, Word] = {"cause": why, "label": label(recording, tensor), "op": op}
        said = MADE_IN_INFERENCE[f"{why}_within" if around is not None else why]
        yield finding.told(said, MAKE_ORDINARY, facts)


def _given_from_inference(recording: Recording, frame: Frame) -> int | None:
    return next((number for number in frame.inputs if recording.tensors[number].counter is None), None)


def _read_before(recording: Recording, refused: Frame) -> int | None:
    """Of a call that nobody saw, within a Function's own forward: the last such tensor that this had computed with."""
    if refused.phase != "error":
        return None
    before = reversed(recording.frames[: refused.index])
    own = itertools.takewhile(lambda frame: frame.phase == "forward" and frame.index > refused.index - NEAR, before)
    found = (_given_from_inference(recording, frame) for frame in own)
    tensor = next((each for each in found if each is not None and made_in_inference(recording, each)), None)
    way = ancestors(recording, tensor) if tensor is not None else []
    return next((each for each, _ in reversed(way) if recording.tensors[each].counter is None), None)


def made_in_inference(recording: Recording, tensor: int | None) -> Frame | None:
    """The Frame that made it there: a view of such a tensor, or a `.detach()`, is one, too, although it's made outside.

    None where that was before the recording.
    """
    made, seen = None, set[int]()
    while tensor is not None and tensor not in seen:
        seen.add(tensor)
        made = recording.frames[recording.tensors[tensor].frame]
        inner = recording.tensors[tensor].alias_of
        within = not made.grad_enabled and made.off is not None  # a Function's forward has gradients off by itself
        tensor = None if within or inner is None or recording.tensors[inner].counter is not None else inner
    return None if made is None or made.phase == "start" or made.grad_enabled else made
