"""A tensor made in inference mode, used where autograd needs an ordinary one."""

from __future__ import annotations

from collections.abc import Iterator

from seegrad.diagnose.carried import made_at
from seegrad.diagnose.evidence import label
from seegrad.diagnose.raised import errors_with
from seegrad.model.recording import Diagnosis, RaisedError, Recording

CAUSES = {"Inference tensors cannot be saved for backward": "saved", "Inplace update to inference tensor": "written"}
"""Stable part of torch's message → what was tried."""


def find(recording: Recording) -> Iterator[Diagnosis]:
    """One Diagnosis for each such error."""
    for error in errors_with(recording, *CAUSES):
        yield describe(recording, error)


def describe(recording: Recording, error: RaisedError) -> Diagnosis:
    """The culprit is the line that made the tensor, the victim the line that torch refused."""
    frame = recording.frames[error.frame]
    tensor = next((number for number in frame.inputs if recording.tensors[number].counter is None), None)
    return Diagnosis(
        kind="inference_tensor",
        severity="error",
        raised=True,
        culprit=made_at(recording, tensor) if tensor is not None else None,
        victim=error.place,
        node=None,
        tensor=recording.tensors[tensor].name if tensor is not None else None,
        arguments=(
            ("cause", next(cause for core, cause in CAUSES.items() if core in error.text)),
            ("label", label(recording, tensor)),
            ("op", frame.op),
        ),
        tensor_id=tensor,
        frame=error.frame,
    )
