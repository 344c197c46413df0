"""An in-place write to a leaf that requires grad: torch refuses it on the spot."""

from __future__ import annotations

from collections.abc import Iterator

from ..model import Diagnosis, RaisedError, Recording, TensorRef
from .aliases import ancestors, label

CORE = "leaf Variable that requires grad"
VIEW_CORE = "view of a leaf Variable"


def find(recording: Recording) -> Iterator[Diagnosis]:
    """One Diagnosis for each such error."""
    for error in recording.errors:
        if CORE in error.text:
            yield describe(recording, error)


def describe(recording: Recording, error: RaisedError) -> Diagnosis:
    """The leaf, and whether it was written itself or through a view."""
    leaf = the_leaf(recording, error)
    frame = recording.frames[error.frame]
    return Diagnosis(
        kind="leaf_modified",
        severity="error",
        raised=True,
        culprit=error.place,
        victim=None,
        node=None,
        tensor=leaf.name if leaf else None,
        route="view" if VIEW_CORE in error.text else "self",
        arguments=(
            ("label", label(recording, leaf.id if leaf else None)),
            ("op", frame.op),
            ("trained", int(leaf.parameter if leaf else False)),
        ),
        tensor_id=leaf.id if leaf else None,
        frame=error.frame,
    )


def the_leaf(recording: Recording, error: RaisedError) -> TensorRef | None:
    """The first tensor given to the op that is such a leaf, or the leaf that it's a view of."""
    for given in recording.frames[error.frame].inputs:
        for number, _ in ancestors(recording, given):
            if recording.tensors[number].is_leaf and recording.tensors[number].requires_grad:
                return recording.tensors[number]
    return None
