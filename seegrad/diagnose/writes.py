"""An in-place write to a leaf that requires grad: torch refuses it on the spot."""

from __future__ import annotations

from collections.abc import Iterator

from seegrad.diagnose.evidence import ancestors, label
from seegrad.diagnose.raised import errors_with
from seegrad.model.recording import Diagnosis, RaisedError, Recording, TensorRef, Write

CORE = "leaf Variable that requires grad"


def find(recording: Recording) -> Iterator[Diagnosis]:
    """One Diagnosis for each such error."""
    for error in errors_with(recording, CORE):
        yield describe(recording, error)


def describe(recording: Recording, error: RaisedError) -> Diagnosis:
    """The leaf, and whether it was written itself or through a view."""
    frame = recording.frames[error.frame]
    written = frame.inputs[0] if frame.inputs else None
    marked = marked_write(recording, error) if written is None else None
    leaf = the_leaf(recording, marked.tensor if marked else written)
    return Diagnosis(
        kind="leaf_modified",
        severity="error",
        raised=True,
        culprit=marked.place if marked else error.place,
        victim=None,
        node=None,
        tensor=leaf.name if leaf else None,
        route="view" if leaf and (written not in (leaf.id, None) or frame.op == "__setitem__") else "self",
        arguments=(
            ("label", label(recording, leaf.id if leaf else None)),
            ("op", marked.op if marked else frame.op),
            ("trained", int(leaf.parameter if leaf else False)),
            ("marked", int(marked is not None)),
        ),
        tensor_id=leaf.id if leaf else None,
        write_id=marked.id if marked else None,
        frame=error.frame,
    )


def the_leaf(recording: Recording, written: int | None) -> TensorRef | None:
    """The tensor that was written if it is such a leaf, or the leaf that it's a view of."""
    for number, _ in ancestors(recording, written) if written is not None else ():
        if recording.tensors[number].is_leaf and recording.tensors[number].requires_grad:
            return recording.tensors[number]
    return None


def marked_write(recording: Recording, error: RaisedError) -> Write | None:
    """The write inside a custom Function's forward, where torch refused what `ctx.mark_dirty` said of it."""
    return next((write for write in reversed(recording.writes) if write.frame <= error.frame), None)
