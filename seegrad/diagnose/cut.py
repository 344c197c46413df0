"""The graph ends where the data goes on: under no_grad, at a `.detach()`, in numpy, at an op without a derivative."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from seegrad.diagnose.evidence import label
from seegrad.diagnose.flow import Cut, Flow, is_trained
from seegrad.diagnose.raised import errors_with
from seegrad.model.recording import Diagnosis, Frame, Place, Recording, Route, Severity

ROUTES: dict[str, Route] = {"detach": "detach", "data": "data", "set_data": "data"}
CAUSES = {"detach": "detach", "detach_": "detach", "data": "data", "set data": "set_data", "grad": "grad"}
CASTS = frozenset({"to", "type", "long", "int", "short", "char", "byte", "bool"})
INTEGERS = ("int", "uint", "bool")

CORE = "does not require grad and does not have a grad_fn"


def errors(recording: Recording) -> Iterator[Diagnosis]:
    """Backward was called on a tensor without a graph."""
    for error in errors_with(recording, CORE):
        frame = recording.frames[error.frame]
        if frame.inputs:
            flow = Flow(recording)
            for earlier in recording.frames[: error.frame]:
                flow.remember(earlier)
            cuts = flow.cuts(frame.inputs[:1]) or flow.rebuilt()
            yield describe(recording, cuts[0] if cuts else None, frame, frame.inputs[:1], "error")


def notes(recording: Recording) -> Iterator[Diagnosis]:
    """Leaves that led to a loss and got no gradient at all, neither from it nor from any other; one note a line.

    What ran under `no_grad` for one loss is told once. None where torch's error ended it all: the rest was to come.
    """
    got = rewarded(recording)
    trained = (ref.id for ref in recording.tensors if is_trained(recording, ref.id))
    if recording.error in recording.errors or all(number in got for number in trained):
        return
    calls = {frames[0].index: frames for frames in backward_calls(recording)}
    flow = Flow(recording)
    for frame in recording.frames:
        flow.remember(frame)
        groups: dict[Place | str | None, tuple[Cut, list[int]]] = {}
        for cut in flow.cuts(roots_of(recording, frame)) if frame.index in calls else ():
            found = [leaf for leaf in flow.leaves(cut.given) if leaf not in got and is_known(recording, leaf)]
            why = cause(recording, cut)
            groups.setdefault(why if why == "no_grad" else cut.frame.place, (cut, []))[1].extend(found)
        for cut, leaves in groups.values():
            if leaves:
                yield describe(recording, cut, calls[frame.index][-1], leaves, "note")


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
    """The leaves that got a gradient from any call."""
    ran = {frame.running for frame in recording.frames if frame.running is not None}
    asked = {gradient.tensor for frame in recording.frames if frame.phase == "backward" for gradient in frame.gradients}
    return asked | {leaf for number in ran if (leaf := recording.nodes[number].leaf) is not None}


def cause(recording: Recording, cut: Cut | None) -> str:
    """Why the graph ends there; an id of `sentences.WHY`."""
    if cut is None:
        return "nothing"
    op, made = cut.frame.op, [recording.tensors[number] for number in cut.frame.outputs]
    if cut.why:
        return cut.why
    if op in CAUSES:
        return CAUSES[op]
    if not cut.frame.grad_enabled:
        return "no_grad" if cut.frame.applied is None else "function"
    return "integer" if op in CASTS and all(ref.dtype.startswith(INTEGERS) for ref in made) else "op"


def describe(
    recording: Recording, cut: Cut | None, shown: Frame, tensors: Sequence[int], severity: Severity
) -> Diagnosis:
    """The Diagnosis of one cut: `tensors` are the loss of an error, the leaves of a note."""
    why = cause(recording, cut)
    return Diagnosis(
        kind="graph_cut",
        severity=severity,
        raised=severity == "error",
        culprit=cut.frame.applied or cut.frame.place if cut else None,
        victim=shown.place,
        node=None,
        tensor=recording.tensors[tensors[0]].name,
        route=ROUTES.get(why, "self"),
        arguments=(
            ("label", label(recording, tensors[0])),
            ("cause", why),
            ("op", cut.frame.op if cut else ""),
            ("given", label(recording, cut.given[0]) if cut else ""),
            ("leaves", len(tensors) - 1),
        ),
        tensor_id=tensors[0],
        frame=shown.index,
    )
