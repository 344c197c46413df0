"""A view that may not be written: one of several, a custom Function's, or one made without gradients."""

from __future__ import annotations

from collections.abc import Iterator

from ..model import Diagnosis, Frame, RaisedError, Recording
from .aliases import label
from .raised import errors_with

CAUSES = {
    "function that returns multiple views": "several",
    "created inside a custom Function": "function",
    "view was created in no_grad mode": "no_grad",
    "view was created in inference mode": "inference",
}
"""Stable part of torch's message → why the view may not be written."""


def find(recording: Recording) -> Iterator[Diagnosis]:
    """One Diagnosis for each such error."""
    for error in errors_with(recording, *CAUSES):
        yield describe(recording, error)


def last_made(recording: Recording, tensor: int | None, before: int) -> Frame | None:
    """The last Frame that gave the tensor to the program: a custom Function's own, not what ran inside it."""
    made = (frame for frame in recording.frames[before - 1 :: -1] if tensor in frame.outputs and not frame.writes)
    born = recording.frames[recording.tensors[tensor].frame] if tensor is not None else None
    return next(made, born if born is not None and born.phase != "start" else None)


def describe(recording: Recording, error: RaisedError) -> Diagnosis:
    """The culprit is the write, the victim the line that made the view."""
    frame = recording.frames[error.frame]
    tensor = frame.inputs[0] if frame.inputs else None
    ref = recording.tensors[tensor] if tensor is not None else None
    made = last_made(recording, tensor, error.frame)
    return Diagnosis(
        kind="view_modified",
        severity="error",
        raised=True,
        culprit=error.place,
        victim=made.place if made else None,
        node=None,
        tensor=ref.name if ref else None,
        route="view",
        arguments=(
            ("cause", next(cause for core, cause in CAUSES.items() if core in error.text)),
            ("label", label(recording, tensor)),
            ("op", frame.op),
            ("maker", made.op if made else ""),
        ),
        tensor_id=tensor,
        frame=error.frame,
    )
