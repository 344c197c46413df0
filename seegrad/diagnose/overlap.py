"""An in-place write to memory that several elements share, or that is read at shifted places by the same op."""

from __future__ import annotations

from collections.abc import Iterator

from seegrad.diagnose.carried import made_at
from seegrad.diagnose.evidence import label
from seegrad.diagnose.raised import errors_with
from seegrad.model.recording import Diagnosis, RaisedError, Recording

CORE = "single memory location"
WITHIN = "more than one element of the written-to tensor"


def find(recording: Recording) -> Iterator[Diagnosis]:
    """One Diagnosis for each such error."""
    for error in errors_with(recording, CORE):
        yield describe(recording, error)


def describe(recording: Recording, error: RaisedError) -> Diagnosis:
    """The culprit is the write, the victim the line that gave several elements one memory."""
    frame = recording.frames[error.frame]
    tensor = frame.inputs[0] if frame.inputs else None
    within = WITHIN in error.text
    return Diagnosis(
        kind="memory_overlaps",
        severity="error",
        raised=True,
        culprit=error.place,
        victim=made_at(recording, tensor) if within and tensor is not None else None,
        node=None,
        tensor=recording.tensors[tensor].name if tensor is not None else None,
        arguments=(
            ("cause", "within" if within else "between"),
            ("label", label(recording, tensor)),
            ("op", frame.op),
            ("maker", recording.frames[recording.tensors[tensor].frame].op if tensor is not None else ""),
        ),
        tensor_id=tensor,
        frame=error.frame,
    )
