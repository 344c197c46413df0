"""A saved tensor that lost its history by `.detach_()` before backward could use it."""

from __future__ import annotations

from collections.abc import Iterator

from seegrad.diagnose.evidence import birthplace, label
from seegrad.diagnose.raised import errors_with
from seegrad.model.recording import Diagnosis, Frame, RaisedError, Recording

CORE = "has been detached in-place"
DETACH = "detach_"


def find(recording: Recording) -> Iterator[Diagnosis]:
    """One Diagnosis for each such error."""
    for error in errors_with(recording, CORE):
        yield describe(recording, error)


def detaching(recording: Recording, error: RaisedError) -> tuple[Frame | None, int | None]:
    """The Frame of the `.detach_()` that hit one of the failing Node's saved tensors, and that tensor."""
    saved = {each.tensor for each in recording.nodes[error.node].saved} if error.node is not None else set()
    for frame in recording.frames[error.frame :: -1]:
        hit = next((number for number in frame.inputs if number in saved), None)
        if frame.op == DETACH and hit is not None:
            return frame, hit
    return None, None


def describe(recording: Recording, error: RaisedError) -> Diagnosis:
    """The culprit is the `.detach_()`, the victim the line of the Node that had saved the tensor."""
    node = recording.nodes[error.node] if error.node is not None else None
    frame, tensor = detaching(recording, error)
    return Diagnosis(
        kind="saved_tensor_detached",
        severity="error",
        raised=True,
        culprit=frame.place if frame else None,
        victim=birthplace(recording, node) if node else None,
        node=node.name if node else None,
        tensor=recording.tensors[tensor].name if tensor is not None else None,
        route="detach",
        arguments=(("label", label(recording, tensor)),),
        node_id=node.id if node else None,
        tensor_id=tensor,
        frame=error.frame,
    )
