"""`.grad` was read from the result of an op: it's None there, the gradient went to the leaf."""

from __future__ import annotations

from collections.abc import Iterator

from seegrad.diagnose.carried import made_at
from seegrad.diagnose.evidence import label
from seegrad.model.invented import GRADIENT_READ
from seegrad.model.recording import Diagnosis, Frame, Place, Recording


def find(recording: Recording) -> Iterator[Diagnosis]:
    """One note for each line that made such a tensor, at its first reading."""
    told: set[Place | None] = set()
    for frame in recording.frames:
        made = made_at(recording, frame.inputs[0]) if frame.op == GRADIENT_READ and frame.inputs else None
        if made is not None and made not in told:
            told.add(made)
            yield describe(recording, frame, frame.inputs[0])


def describe(recording: Recording, frame: Frame, tensor: int) -> Diagnosis:
    """The culprit is the line that made the result, the victim the one that read."""
    ref = recording.tensors[tensor]
    return Diagnosis(
        kind="grad_of_non_leaf",
        severity="note",
        raised=False,
        culprit=made_at(recording, tensor),
        victim=frame.place,
        node=None,
        tensor=ref.name,
        arguments=(("label", label(recording, tensor)), ("op", recording.frames[ref.frame].op)),
        tensor_id=tensor,
        frame=frame.index,
    )
