"""The graph ends where the data goes on: under no_grad, at a `.detach()` or `.data`, at an op without a derivative."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..model import Diagnosis, Frame, Recording, Route, Severity
from .aliases import label

ROUTES: dict[str, Route] = {"detach": "detach", "data": "data"}
Makers = dict[int, Frame]
"""Tensor → the last Frame in which it was made or written."""

CORE = "does not require grad and does not have a grad_fn"


def errors(recording: Recording) -> Iterator[Diagnosis]:
    """Backward was called on a tensor without a graph."""
    for error in recording.errors:
        frame = recording.frames[error.frame]
        if CORE in error.text and frame.inputs:
            made: Makers = {}
            for earlier in recording.frames[: error.frame]:
                remember(recording, made, earlier)
            cuts = cut_frames(recording, made, frame.inputs)
            yield describe(recording, cuts[0][0] if cuts else None, frame, frame.inputs[0], "error")


def notes(recording: Recording) -> Iterator[Diagnosis]:
    """A leaf that led to the loss got no gradient."""
    calls = {frames[0].index: frames for frames in backward_calls(recording)}
    made: Makers = {}
    told: set[tuple[int, int]] = set()
    for frame in recording.frames:
        remember(recording, made, frame)
        frames = calls.get(frame.index)
        if frames is None or frame.running is None:
            continue
        reached = {recording.nodes[each.running].leaf for each in frames if each.running is not None}
        for cut, given in cut_frames(recording, made, recording.nodes[frame.running].outputs):
            for leaf in sorted(leaves_behind(recording, made, given) - reached):
                key = (leaf, cut.place.line if cut.place else 0)
                if key not in told:
                    told.add(key)
                    yield describe(recording, cut, frames[-1], leaf, "note")


def backward_calls(recording: Recording) -> list[list[Frame]]:
    """The Frames of each call of backward that ended well; `autograd.grad` asks for what it wants."""
    calls: dict[int, list[Frame]] = {}
    for frame in recording.frames:
        if frame.backward is not None:
            calls.setdefault(frame.backward, []).append(frame)
    return [frames for frames in calls.values() if all(f.phase == "backward" and f.running is not None for f in frames)]


def remember(recording: Recording, made: Makers, frame: Frame) -> None:
    """Note in which Frame each tensor was made or written last."""
    if frame.phase in ("forward", "inplace"):
        made.update(dict.fromkeys(frame.outputs, frame))
        made.update(dict.fromkeys((recording.writes[write].tensor for write in frame.writes), frame))


def behind(recording: Recording, made: Makers, tensors: Sequence[int]) -> list[int]:
    """These tensors and all that led to them, nearest first; the way ends at a leaf that requires grad."""
    waiting, seen = list(dict.fromkeys(tensors)), set(tensors)
    for tensor in waiting:  # grows while it's read
        frame = made.get(tensor)
        if frame is None or is_trained(recording, tensor):
            continue
        fresh = [number for number in frame.inputs if number not in seen]
        seen.update(fresh)
        waiting.extend(dict.fromkeys(fresh))
    return waiting


def is_trained(recording: Recording, tensor: int) -> bool:
    """True for a leaf that requires grad."""
    return recording.tensors[tensor].is_leaf and recording.tensors[tensor].requires_grad


def cut_frames(recording: Recording, made: Makers, roots: Sequence[int]) -> list[tuple[Frame, tuple[int, ...]]]:
    """The Frames, nearest to `roots` first, where something with a gradient went in and nothing with one came out."""
    found = []
    for tensor in behind(recording, made, roots):
        frame = made.get(tensor)
        if frame is None or recording.tensors[tensor].requires_grad:
            continue
        given = tuple(number for number in frame.inputs if recording.tensors[number].requires_grad)
        if given:
            found.append((frame, given))
    return found


def leaves_behind(recording: Recording, made: Makers, tensors: Sequence[int]) -> set[int]:
    """The leaves that require grad and lead to these tensors."""
    return {number for number in behind(recording, made, tensors) if is_trained(recording, number)}


def cause(cut: Frame | None) -> str:
    """Why the graph ends there: `detach`, `data`, `no_grad`, `op`; `nothing` where nothing ever needed a gradient."""
    if cut is None:
        return "nothing"
    if cut.op in ("detach", "detach_"):
        return "detach"
    if cut.op == "data":
        return "data"
    return "op" if cut.grad_enabled else "no_grad"


def describe(
    recording: Recording,
    cut: Frame | None,
    shown: Frame,
    tensor: int,
    severity: Severity,
) -> Diagnosis:
    """The Diagnosis of one cut: `tensor` is the loss of an error, the leaf of a note."""
    before = [i for i in cut.inputs if recording.tensors[i].requires_grad] if cut else []
    return Diagnosis(
        kind="graph_cut",
        severity=severity,
        raised=severity == "error",
        culprit=cut.place if cut else None,
        victim=shown.place,
        node=None,
        tensor=recording.tensors[tensor].name,
        route=ROUTES.get(cause(cut), "self"),
        arguments=(
            ("label", label(recording, tensor)),
            ("cause", cause(cut)),
            ("op", cut.op if cut else ""),
            ("given", label(recording, before[0]) if before else ""),
        ),
        tensor_id=tensor,
        frame=shown.index,
    )
