"""A saved tensor's bytes changed and its version didn't: torch said nothing, the gradient is wrong."""

from __future__ import annotations

from collections.abc import Iterator

from seegrad.diagnose.evidence import birthplace, label, line_of, needed_for, owner, route_of
from seegrad.model.recording import Diagnosis, Frame, Node, Place, Recording, SavedTensor, Write


def find(recording: Recording) -> Iterator[Diagnosis]:
    """One Diagnosis for each line that corrupted something, with its first victim."""
    hits: dict[Place | None, list[tuple[Frame, Node, SavedTensor, Write | None]]] = {}
    for frame in recording.frames:
        if frame.running is None or not frame.corrupted:
            continue
        node = recording.nodes[frame.running]
        for index in frame.corrupted:
            write = culprit(recording, frame, node, node.saved[index])
            hits.setdefault(line_of(write), []).append((frame, node, node.saved[index], write))
    for place, victims in hits.items():
        yield describe(recording, place, victims)


def culprit(recording: Recording, frame: Frame, node: Node, saved: SavedTensor) -> Write | None:
    """The first Write to these bytes between their saving and their use, or one by a hook in the same backward.

    A hook's Write stands at the end of its backward: when in it, before or after this use, the use itself tells.
    """
    hits = [
        write
        for write in recording.writes
        if node.frame < write.frame
        and (write.storage == saved.storage or write.tensor == saved.tensor)
        and write.span[0] < saved.span[1]
        and saved.span[0] < write.span[1]
    ]
    before = (write for write in hits if write.frame < frame.index)
    within = (write for write in hits if recording.frames[write.frame].backward == frame.backward is not None)
    return next(before, next(within, None))


def describe(
    recording: Recording, place: Place | None, victims: list[tuple[Frame, Node, SavedTensor, Write | None]]
) -> Diagnosis:
    """The Diagnosis of one silent Write; the victim that the engine reached first stands for all."""
    frame, node, saved, write = victims[0]
    tensor = recording.tensors[owner(recording, saved.tensor)] if saved.tensor is not None else None
    others = {victim.id for _, victim, _, _ in victims} - {node.id}
    return Diagnosis(
        kind="silent_corruption",
        severity="wrong",
        raised=False,
        culprit=place,
        victim=birthplace(recording, node),
        node=node.name,
        tensor=tensor.name if tensor else None,
        version_saved=saved.version,
        version_now=saved.version,
        route=route_of(recording, write, tensor.id) if write and tensor else "storage",
        arguments=(
            ("label", label(recording, tensor.id if tensor else None)),
            ("alias", label(recording, write.tensor if write else None)),
            ("op", write.op if write else ""),
            ("needed_for", needed_for(recording, node, saved.serves)),
            ("kept", "version" if saved.checked else "attribute" if saved.attr.startswith("ctx.") else "hook"),
            ("attr", saved.attr),
            ("others", len(others)),
            ("trained", int(tensor.is_leaf and tensor.requires_grad if tensor else False)),
        ),
        node_id=node.id,
        tensor_id=tensor.id if tensor else None,
        write_id=write.id if write else None,
        frame=frame.index,
    )
