"""What is meant as a copy and is the thing itself, in three ways; or is meant as the thing itself, and is new."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from seegrad.diagnose.evidence import ancestors, label, line_of, made_at
from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.diagnose.training.freezes import arrivals, trained_step
from seegrad.diagnose.training.steps import names
from seegrad.model.recording import Diagnosis, Frame, Place, Recording, Shared, Write
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


@finder(order=31)
def find_moved_on(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line that kept a Parameter's own bytes, where they were written before they were read."""
    told: set[Place | None] = set()
    writes: dict[int, list[Write]] = {}
    for write in recording.writes:
        writes.setdefault(write.storage, []).append(write)
    snapshots = {leaf: each for each in recording.shared if each.kind == "snapshot" for leaf in each.tensors}
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
    recording: Recording, frame: Frame, writes: dict[int, list[Write]], snapshots: dict[int, Shared]
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
    "{Culprit} puts one module into each of the {other} places of `{name}`: they have the same Parameters, which the "
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
    for each in recording.shared:
        leaves = [leaf for leaf in each.tensors if leaf in came]
        step = trained_step(recording, leaves, 0)
        if each.kind not in ("module", "repeated") or step is None:
            continue
        finding = Finding(
            recording=recording,
            kind=TWICE,
            frame=step.frame,
            culprit=each.place,
            victim=step.place,
            tensor=leaves[0],
            name=each.name,
        )
        said, advice = (TWO_NAMES, COPY_MODULE) if each.kind == "module" else (MANY_PLACES, MAKE_EACH)
        facts: dict[str, Word] = {"how": each.kind, "other": each.other}
        yield finding.told(said, advice, facts)


# -- a Parameter's name that goes to a new tensor, which nobody sees again

LET_GO = DiagnosisKind("name_rebound", "note", marked("a name given to a new tensor"))
NOBODY_SEES = marked(
    "{Culprit} gives the name `{name}` to a new tensor, which nothing reads before it is gone: {leaves}, which "
    "`{name}` stood for, stay as they are."
)
WRITE_INTO = marked(
    "If they are to change, write into them instead: `with torch.no_grad():` around `{name}.copy_(…)`, "
    "`{name}.sub_(…)` or another of these."
)


@finder(order=33)
def find_let_go(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line whose new tensors are all gone, unread; none where the Parameters are written after it."""
    written = {write.storage: write.frame for write in recording.writes}
    for each in recording.shared:
        leaves = [leaf for leaf in each.tensors if recording.tensors[leaf].parameter]
        if each.kind != "lost" or any(written.get(recording.tensors[leaf].storage, -1) > each.frame for leaf in leaves):
            continue
        finding = Finding(
            recording=recording,
            kind=LET_GO,
            frame=each.frame,
            culprit=each.place,
            victim=each.place,
            tensor=leaves[0],
            name=each.name,
        )
        yield finding.told(NOBODY_SEES, WRITE_INTO, {"leaves": names(recording, leaves)})
