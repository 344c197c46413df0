"""A second backward through a graph whose saved tensors are gone: which call freed them, what led back to them."""

from __future__ import annotations

from collections.abc import Iterator

from seegrad.diagnose.carried import Carried, carried, earlier_run
from seegrad.diagnose.evidence import birthplace, called
from seegrad.diagnose.raised import errors_with
from seegrad.model.recording import Diagnosis, RaisedError, Recording

CORE = "backward through the graph a second time"


def find(recording: Recording) -> Iterator[Diagnosis]:
    """One Diagnosis for each such error."""
    for error in errors_with(recording, CORE):
        yield describe(recording, error)


def describe(recording: Recording, error: RaisedError) -> Diagnosis:
    """The last earlier call that ran the failing Node is the culprit; its tensor is what led into the old graph."""
    node = recording.nodes[error.node] if error.node is not None else None
    failed = recording.frames[error.frame]
    earlier = earlier_run(recording, error.node, failed)
    way = carried(recording, node.id, failed, earlier) if node and earlier else Carried("again")
    output = node.outputs[0] if node and node.outputs else None
    tensor = way.tensors[0] if way.tensors else output
    return Diagnosis(
        kind="graph_freed",
        severity="error",
        raised=True,
        culprit=earlier.place if earlier else None,
        victim=birthplace(recording, node) if node else None,
        node=node.name if node else None,
        tensor=called(recording, tensor) if tensor is not None else None,
        arguments=(("again", error.place.line if error.place else 0), *way.arguments(recording)),
        node_id=node.id if node else None,
        tensor_id=tensor,
        frame=error.frame,
    )
