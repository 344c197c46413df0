"""An optimiser was given a tensor that is the result of an op: it isn't what the gradient goes to."""

from __future__ import annotations

import re
from collections.abc import Iterator

from seegrad.diagnose.carried import made_at
from seegrad.diagnose.evidence import called, label
from seegrad.diagnose.raised import errors_with
from seegrad.model.recording import Diagnosis, RaisedError, Recording

CORE = "can't optimize a non-leaf Tensor"


def find(recording: Recording) -> Iterator[Diagnosis]:
    """One Diagnosis for each such error."""
    for error in errors_with(recording, CORE):
        yield describe(recording, error)


def given_tensor(recording: Recording, error: RaisedError) -> tuple[int | None, str | None]:
    """The tensor that torch refused, or else the newest result that the failing line names or makes; and its name."""
    for refused in recording.frames[error.frame].inputs:
        return refused, called(recording, refused)
    code, line = (error.place.code, error.place.line) if error.place else ("", 0)
    words = set(re.findall(r"[A-Za-z_]\w*", code))
    results = [ref.id for ref in reversed(recording.tensors) if ref.requires_grad and not ref.is_leaf]
    for number in results:
        name = called(recording, number)
        if name and re.split(r"[.\[]", name)[0] in words:
            return number, name
    made = (number for number in results if (place := made_at(recording, number)) is not None and place.line == line)
    return next(made, None), None


def describe(recording: Recording, error: RaisedError) -> Diagnosis:
    """The culprit is the line that made the result, the victim the one that gave it to the optimiser."""
    tensor, name = given_tensor(recording, error)
    return Diagnosis(
        kind="optimiser_given_non_leaf",
        severity="error",
        raised=True,
        culprit=made_at(recording, tensor) if tensor is not None else None,
        victim=error.place,
        node=None,
        tensor=name,
        arguments=(
            ("cause", "named" if name else "unnamed" if tensor is not None else "unknown"),
            ("label", f"`{name}`" if name else label(recording, tensor)),
            ("op", recording.frames[recording.tensors[tensor].frame].op if tensor is not None else ""),
        ),
        tensor_id=tensor,
        frame=error.frame,
    )
