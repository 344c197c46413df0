"""A view that may not be written: one of several, a custom Function's, or one made without gradients."""

from __future__ import annotations

from collections.abc import Iterator

from seegrad.diagnose.evidence import birthplace, counter, label
from seegrad.diagnose.raised import errors_with
from seegrad.model.recording import Diagnosis, Frame, Place, RaisedError, Recording, Write

CAUSES = {
    "function that returns multiple views": "several",
    "created inside a custom Function": "function",
    "created in no_grad mode": "no_grad",
    "view was created in inference mode": "inference",
}
"""Stable part of torch's message → why the view may not be written."""


BASE_CORE = "its base or another view of its base has been modified"


def find(recording: Recording) -> Iterator[Diagnosis]:
    """One Diagnosis for each such error."""
    for error in errors_with(recording, *CAUSES):
        yield describe(recording, error)


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


def describe(recording: Recording, error: RaisedError) -> Diagnosis:
    """The culprit is the write, the victim the line that made the view, or the one that read it afterwards."""
    frame = recording.frames[error.frame]
    read, write = stale(recording, error) if BASE_CORE in error.text else (None, None)
    tensor = read if read is not None else frame.inputs[0] if frame.inputs else None
    ref = recording.tensors[tensor] if tensor is not None else None
    made = last_made(recording, tensor, error.frame)
    return Diagnosis(
        kind="view_modified",
        severity="error",
        raised=True,
        culprit=write.place if write else error.place,
        victim=reader(recording, error) if write else made.place if made else None,
        node=None,
        tensor=ref.name if ref else None,
        route="view",
        arguments=(
            ("cause", "base" if write else next(cause for core, cause in CAUSES.items() if core in error.text)),
            ("label", label(recording, tensor)),
            ("op", write.op if write else frame.op),
            ("made", made.place.line if made and made.place else 0),
            ("maker", made.op if made else ""),
        ),
        tensor_id=tensor,
        frame=error.frame,
    )
