"""A hook or a custom backward wrote to its gradient in place, and another Node was given the same memory."""

from __future__ import annotations

from collections.abc import Iterator

from seegrad.diagnose.evidence import birthplace, label, needed_for
from seegrad.model.recording import Diagnosis, Frame, Node, Place, Recording, Write


def find(recording: Recording) -> Iterator[Diagnosis]:
    """One Diagnosis for each line that wrote, with its first victim."""
    told: set[Place] = set()
    for frame in recording.frames:
        if frame.running is None:
            continue
        for write in (recording.writes[number] for number in frame.spoiled):
            if write.place not in told:
                told.add(write.place)
                yield describe(recording, frame, recording.nodes[frame.running], write)


def describe(recording: Recording, frame: Frame, node: Node, write: Write) -> Diagnosis:
    """The culprit is the write, the victim the Node that was given what it left."""
    output = node.leaf if node.leaf is not None else node.outputs[0] if node.outputs else None
    needed = needed_for(recording, node, tuple(edge.slot for edge in node.edges))
    tensor = recording.tensors[output] if output is not None else None
    return Diagnosis(
        kind="gradient_overwritten",
        severity="wrong",
        raised=False,
        culprit=write.place,
        victim=birthplace(recording, node),
        node=node.name,
        tensor=tensor.name if tensor else None,
        version_saved=write.version_before,
        version_now=write.version_after,
        arguments=(
            ("label", label(recording, output)),
            ("op", write.op),
            ("needed_for", needed),
        ),
        node_id=node.id,
        tensor_id=output,
        write_id=write.id,
        frame=frame.index,
    )
