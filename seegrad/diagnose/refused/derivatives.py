"""What torch has no derivative for: an argument of an op, an op's own gradient, a Function that is to be used once."""

from __future__ import annotations

from collections.abc import Iterator

from seegrad.diagnose.evidence import birthplace, errors_with, function_of, label, made_at
from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.model.recording import Diagnosis, Node, Place, RaisedError, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word

ONCE_CORE = "marked with @once_differentiable"
CORES = ("is not differentiable with respect to argument", "derivative for")
MISSING = ("is not differentiable", "is not implemented")
NO_DERIVATIVE = DiagnosisKind("no_derivative", "error", marked("no derivative"))
WITHOUT = {
    "once": marked(
        "{Culprit} says that the backward of `{function}` can't be differentiated, and the backward call on {victim} "
        "has to: a gradient that came through it is part of the loss."
    ),
    "applied": marked(
        "The backward of `{function}`, which {culprit} uses, is marked `once_differentiable`, and the backward call on "
        "{victim} has to differentiate it: a gradient that came through it is part of the loss."
    ),
    "argument": marked(
        "{label} of {culprit} requires grad, and `{op}` on {victim} has no derivative by that argument: torch refuses."
    ),
    "again": marked(
        "{node} of {culprit} has a derivative, but that has none of its own, and the backward call on {victim} has to "
        "differentiate a gradient that came through it."
    ),
}
DO = {
    "once": marked(
        "If that backward is made of differentiable ops, take the decorator away; if not, compute its gradient by "
        "another Function, which has a backward of its own."
    ),
    "argument": marked(
        "If nothing is to be learnt by it, give `{name}.detach()`; else write the op out in simple ones."
    ),
    "again": marked(
        "Write that op out in simple ones, or have torch choose another kernel (for attention: "
        "`sdpa_kernel(SDPBackend.MATH)`), or leave `create_graph=True` out where no second gradient is meant."
    ),
}
DO["applied"] = DO["once"]


@finder(order=11)
def find_no_derivative(recording: Recording) -> Iterator[Diagnosis]:
    """One for each such error."""
    for error in errors_with(recording, ONCE_CORE):
        yield _once(recording, error)
    for error in (each for each in errors_with(recording, *CORES) if any(core in each.text for core in MISSING)):
        yield _missing(recording, error)


def _once(recording: Recording, error: RaisedError) -> Diagnosis:
    """Of the Functions whose gradient has a graph of its own, the one that is marked so; else the last one used."""
    frames = (each for each in recording.frames if each.keeps_graph and each.running is not None)
    nodes = [recording.nodes[each.running] for each in frames if each.running is not None]
    used = list({function_of(node): node for node in nodes if function_of(node)}.values())
    marks = [(node, _mark(recording, function_of(node))) for node in used]
    node, place = next((each for each in reversed(marks) if each[1] is not None), (used[-1] if used else None, None))
    finding = Finding(
        recording=recording,
        kind=NO_DERIVATIVE,
        frame=error.frame,
        culprit=place or birthplace(recording, node),
        victim=error.place,
        node=node,
    )
    how = "once" if place is not None else "applied"
    facts: dict[str, Word] = {"how": how, "function": function_of(node) if node is not None else "…"}
    return finding.told(WITHOUT[how], DO[how], facts)


def _mark(recording: Recording, function: str) -> Place | None:
    """The line that marks the backward of a Function."""
    return next((each.place for each in recording.clues_of("once") if each.fact("owner") == function), None)


def _missing(recording: Recording, error: RaisedError) -> Diagnosis:
    """Of an op's forward, the last argument that requires grad; of its gradient, the op whose Node was running."""
    node: Node | None = recording.nodes[error.node] if error.node is not None else None
    frame = recording.frames[error.frame]
    given = [each for each in frame.inputs if recording.tensors[each].requires_grad]
    tensor = given[-1] if node is None and given else None
    finding = Finding(
        recording=recording,
        kind=NO_DERIVATIVE,
        frame=error.frame,
        culprit=birthplace(recording, node) if node is not None else made_at(recording, tensor),
        victim=error.place,
        node=node,
        tensor=tensor,
    )
    how = "again" if node is not None or frame.backward is not None else "argument"
    facts: dict[str, Word] = {"how": how, "label": label(recording, tensor), "op": frame.op}
    return finding.told(WITHOUT[how], DO[how], facts)
