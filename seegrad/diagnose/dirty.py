"""A custom Function whose `ctx.mark_dirty` doesn't fit what it writes and returns."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from seegrad.diagnose.evidence import birthplace, label
from seegrad.diagnose.raised import errors_with
from seegrad.model.recording import Diagnosis, Frame, Node, RaisedError, Recording, Write

CAUSES = {
    "marked as dirty during the forward": "not_returned",
    "an input that is a view of another Tensor": "view",
}
"""Stable part of torch's message → what is wrong."""

SHIFTS = frozenset({"add_", "sub_", "__iadd__", "__isub__"})
"""Ops that leave the gradient as it is, if nothing with a history is added."""


def find(recording: Recording) -> Iterator[Diagnosis]:
    """One Diagnosis for each such error, and one for each write that nothing announced and that makes it wrong."""
    for error in errors_with(recording, *CAUSES):
        yield describe(recording, error)
    called = [frame for frame in recording.frames if frame.phase == "forward" and frame.writes and frame.nodes]
    takers = takers_of(recording) if called else {}
    for frame in called:
        for write in (recording.writes[number] for number in frame.writes):
            if is_hidden(recording, frame, write):
                taken = takers.get(write.storage, ())
                past = (ran for node, ran, born in taken if node.frame > frame.index and born < write.frame)
                yield from (unmarked(recording, frame, write, ran) for ran in islice(past, 1))


def takers_of(recording: Recording) -> dict[int, list[tuple[Node, Frame, int]]]:
    """Storage → each Node that took a tensor on it, the Frame in which it ran first, and that tensor's own Frame."""
    ran = {frame.running: frame for frame in reversed(recording.frames) if frame.running is not None}
    found: dict[int, list[tuple[Node, Frame, int]]] = {}
    for node in (node for node in recording.nodes if node.id in ran):
        for tensor in (recording.tensors[number] for number in node.inputs if number is not None):
            found.setdefault(tensor.storage, []).append((node, ran[node.id], tensor.frame))
    return found


def is_hidden(recording: Recording, frame: Frame, write: Write) -> bool:
    """True for a write that the tensor's history says nothing of, though its gradient depends on it.

    Who takes that tensor, as it was known before, after the Function has returned, goes past the Function backward.
    """
    written = recording.tensors[write.tensor]
    in_graph = written.requires_grad and not written.is_leaf and written.id not in frame.outputs
    return in_graph and not is_shift(recording, write)


def is_shift(recording: Recording, write: Write) -> bool:
    """True where a number, or a tensor without a history, was added."""
    others = [recording.tensors[number] for number in recording.frames[write.frame].inputs if number != write.tensor]
    return write.op in SHIFTS and not any(other.requires_grad for other in others)


def unmarked(recording: Recording, frame: Frame, write: Write, shown: Frame) -> Diagnosis:
    """The culprit is the write within `forward`, the victim the first Node of the backward that goes past it."""
    node = recording.nodes[shown.running or 0]
    tensor = recording.tensors[write.tensor]
    return Diagnosis(
        kind="marked_dirty",
        severity="wrong",
        raised=False,
        culprit=write.place,
        victim=birthplace(recording, node),
        node=node.name,
        tensor=tensor.name,
        version_saved=write.version_before,
        version_now=write.version_after,
        arguments=(
            ("cause", "unmarked"),
            ("label", label(recording, tensor.id)),
            ("op", write.op),
            ("function", frame.op),
        ),
        node_id=node.id,
        tensor_id=tensor.id,
        write_id=write.id,
        frame=shown.index,
    )


def describe(recording: Recording, error: RaisedError) -> Diagnosis:
    """The culprit is the last write before the error: it was made inside `forward`. The victim is the call."""
    writes = [write for write in recording.writes if write.frame <= error.frame]
    write = writes[-1] if writes else None
    tensor = write.tensor if write else None
    return Diagnosis(
        kind="marked_dirty",
        severity="error",
        raised=True,
        culprit=write.place if write else error.place,
        victim=error.place,
        node=None,
        tensor=recording.tensors[tensor].name if tensor is not None else None,
        arguments=(
            ("cause", next(cause for core, cause in CAUSES.items() if core in error.text)),
            ("label", label(recording, tensor)),
            ("op", write.op if write else ""),
        ),
        tensor_id=tensor,
        write_id=write.id if write else None,
        frame=error.frame,
    )
