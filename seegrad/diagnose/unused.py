"""`autograd.grad` was asked for the gradient of a tensor that the graph doesn't lead to."""

from __future__ import annotations

from collections.abc import Iterator

from seegrad.diagnose.cut import cause as why_cut
from seegrad.diagnose.evidence import label
from seegrad.diagnose.flow import Cut, Flow
from seegrad.diagnose.raised import errors_with
from seegrad.model.recording import Diagnosis, Frame, RaisedError, Recording

CORES = ("have been used in the graph", "differentiated Tensors does not require grad")


def find(recording: Recording) -> Iterator[Diagnosis]:
    """One Diagnosis for each such error: of the first tensor that isn't reached."""
    for error in errors_with(recording, *CORES):
        frame = recording.frames[error.frame]
        tensor = next(iter(unreached(recording, frame)), None)
        if tensor is not None:
            yield describe(recording, error, frame, tensor)


def unreached(recording: Recording, frame: Frame) -> list[int]:
    """The tensors that the call wanted and that its graph doesn't lead to."""
    reached = reach(recording, frame.inputs)
    return [number for number in frame.wanted if number not in reached or not recording.tensors[number].requires_grad]


def reach(recording: Recording, roots: tuple[int, ...]) -> set[int]:
    """The tensors that the Nodes behind `roots` made, and the leaves they add into."""
    makers = {number: node.id for node in recording.nodes for number in node.outputs}
    waiting = [makers[number] for number in roots if number in makers]
    seen, found = set(waiting), set(roots)
    while waiting:
        node = recording.nodes[waiting.pop()]
        found.update(node.outputs if node.leaf is None else (node.leaf,))
        for edge in node.edges:
            if edge.target is not None and edge.target not in seen:
                seen.add(edge.target)
                waiting.append(edge.target)
    return found


def reason(recording: Recording, frame: Frame, tensor: int) -> tuple[str, Cut | None]:
    """Why the graph doesn't lead there: `fresh`, `cut` (and where), `late`, `unused`."""
    ref = recording.tensors[tensor]
    roots = frame.inputs
    newest = max((recording.tensors[number].frame for number in roots), default=0)
    if not ref.is_leaf and ref.frame > newest:
        born = recording.frames[ref.frame]
        return "fresh", Cut(born, tuple(number for number in born.inputs if recording.tensors[number].requires_grad))
    flow = Flow(recording)
    for earlier in recording.frames[: frame.index]:
        flow.remember(earlier)
    for cut in flow.cuts(roots):
        if tensor in flow.behind(cut.given, set()):
            return "cut", cut
    return ("late" if tensor in flow.behind(roots, set()) else "unused"), None


def describe(recording: Recording, error: RaisedError, frame: Frame, tensor: int) -> Diagnosis:
    """The culprit is the line that cut the graph or made a new tensor, where there is one; the victim is the call."""
    why, cut = reason(recording, frame, tensor)
    return Diagnosis(
        kind="unused_input",
        severity="error",
        raised=True,
        culprit=cut.frame.place if cut else None,
        victim=error.place,
        node=None,
        tensor=recording.tensors[tensor].name,
        arguments=(
            ("cause", why),
            ("label", label(recording, tensor)),
            ("root", label(recording, frame.inputs[0] if frame.inputs else None)),
            ("given", label(recording, cut.given[0]) if cut and cut.given else ""),
            ("op", cut.frame.op if cut else ""),
            ("reason", why_cut(recording, cut) if why == "cut" else ""),
        ),
        tensor_id=tensor,
        frame=error.frame,
    )
