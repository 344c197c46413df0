"""A custom Function whose `ctx.mark_dirty` doesn't fit what it writes and returns."""

from __future__ import annotations

from collections.abc import Iterator

from ..model import Diagnosis, RaisedError, Recording
from .aliases import label
from .raised import errors_with

CAUSES = {
    "marked as dirty during the forward": "not_returned",
    "an input that is a view of another Tensor": "view",
}
"""Stable part of torch's message → what is wrong."""


def find(recording: Recording) -> Iterator[Diagnosis]:
    """One Diagnosis for each such error."""
    for error in errors_with(recording, *CAUSES):
        yield describe(recording, error)


def describe(recording: Recording, error: RaisedError) -> Diagnosis:
    """The culprit is the last write before the error: it was made inside `forward`. The victim is the call."""
    writes = [write for write in recording.writes if write.frame <= error.frame]
    write = writes[-1] if writes else None
    tensor = write.tensor if write else None
    return Diagnosis(
        kind="marked_dirty",
        severity="error",
        raised=True,
        culprit=write.place if write else error.place,
        victim=error.place,
        node=None,
        tensor=recording.tensors[tensor].name if tensor is not None else None,
        arguments=(
            ("cause", next(cause for core, cause in CAUSES.items() if core in error.text)),
            ("label", label(recording, tensor)),
            ("op", write.op if write else ""),
        ),
        tensor_id=tensor,
        write_id=write.id if write else None,
        frame=error.frame,
    )
