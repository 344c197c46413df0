"""A second backward through a graph whose saved tensors are gone: which call freed them."""

from __future__ import annotations

from collections.abc import Iterator

from ..model import Diagnosis, Frame, RaisedError, Recording
from .aliases import birthplace, label

CORE = "backward through the graph a second time"


def find(recording: Recording) -> Iterator[Diagnosis]:
    """One Diagnosis for each such error."""
    for error in recording.errors:
        if CORE in error.text:
            yield describe(recording, error)


def describe(recording: Recording, error: RaisedError) -> Diagnosis:
    """The last earlier call that ran the failing Node."""
    node = recording.nodes[error.node] if error.node is not None else None
    failed = recording.frames[error.frame]
    runs = [
        frame
        for frame in recording.frames
        if node is not None
        and frame.running == node.id
        and frame.phase == "backward"
        and frame.backward != failed.backward
    ]
    output = node.outputs[0] if node and node.outputs else None
    return Diagnosis(
        kind="graph_freed",
        severity="error",
        raised=True,
        culprit=runs[-1].place if runs else None,
        victim=birthplace(recording, node) if node else None,
        node=node.name if node else None,
        tensor=recording.tensors[output].name if output is not None else None,
        arguments=(
            ("label", label(recording, output)),
            ("again", error.place.line if error.place else 0),
            ("shared", int(bool(runs) and root(recording, runs[-1]) != root(recording, failed))),
        ),
        node_id=node.id if node else None,
        tensor_id=output,
        frame=error.frame,
    )


def root(recording: Recording, frame: Frame) -> int | None:
    """The Node at which the call of this Frame began."""
    return next(
        (each.running for each in recording.frames if each.backward == frame.backward and each.running is not None),
        None,
    )
