"""Torch raised because a saved tensor's version moved: which line moved it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from seegrad.diagnose.carried import Carried, carried, earlier_run
from seegrad.diagnose.evidence import birthplace, counter, label, line_of, needed_for, owner, route_of
from seegrad.diagnose.raised import errors_with
from seegrad.model.recording import Diagnosis, Node, RaisedError, Recording, SavedTensor, Write

CORE = "modified by an inplace operation"
"""The stable part of torch's message, seen from 1.0 to 2.13."""


LOOPED = frozenset({"carried", "within", "unnamed", "kept", "summed", "once"})
"""Ways in which a step's backward comes into an earlier step's graph; of the others, the write itself tells more."""


def find(recording: Recording) -> Iterator[Diagnosis]:
    """One Diagnosis for each such error."""
    for error in errors_with(recording, CORE):
        if error.node is not None:
            node = recording.nodes[error.node]
            found = by_versions(recording, error, node) or by_text(recording, error, node)
            yield replace(found, arguments=found.arguments + surroundings(recording, error))


def by_versions(recording: Recording, error: RaisedError, node: Node) -> Diagnosis | None:
    """The saved tensor of the failing Node whose version isn't the saved one."""
    now = dict(recording.frames[error.frame].versions)
    for saved in node.saved:
        version = now.get(saved.tensor) if saved.tensor is not None else None
        if saved.checked and version is not None and saved.version is not None and version != saved.version:
            return describe(recording, node, saved, version, error.frame, raised=True)
    return None


def culprits(recording: Recording, saved: SavedTensor) -> list[Write]:
    """The Writes that moved the version past the saved one, first first."""
    if saved.tensor is None or saved.version is None:
        return []
    own = counter(recording, saved.tensor)
    moved = [
        write
        for write in recording.writes
        if (
            write.storage == saved.storage or counter(recording, write.tensor) == own
        )  # `x.data = y` moves it elsewhere
        and write.version_before is not None
        and write.version_after is not None
        and write.version_after > max(saved.version, write.version_before)
    ]
    shared = [write for write in moved if counter(recording, write.tensor) == own]
    return shared or moved


def describe(
    recording: Recording, node: Node, saved: SavedTensor, version: int, frame: int, *, raised: bool
) -> Diagnosis:
    """The Diagnosis of one saved tensor whose version moved; of an unnamed view, it speaks of the tensor viewed."""
    writes = culprits(recording, saved)
    write = writes[0] if writes else None
    tensor = recording.tensors[owner(recording, saved.tensor)] if saved.tensor is not None else None
    return Diagnosis(
        kind="saved_tensor_modified" if raised else "version_moved",
        severity="error" if raised else "note",
        raised=raised,
        culprit=line_of(write),
        victim=birthplace(recording, node),
        node=node.name,
        tensor=tensor.name if tensor else None,
        version_saved=saved.version,
        version_now=version,
        route=route_of(recording, write, tensor.id) if write and tensor else "self",
        arguments=(
            ("label", label(recording, tensor.id if tensor else None)),
            ("alias", label(recording, write.tensor if write else None)),
            ("op", write.op if write else ""),
            ("needed_for", needed_for(recording, node, saved.serves)),
            ("more", max(len(writes) - 1, 0)),
            ("result", int(saved.tensor in node.outputs)),
            ("trained", int(tensor.is_leaf and tensor.requires_grad if tensor else False)),
            ("same", int(write is not None and is_same_line(recording, write, node))),
            ("whole", int(write is not None and is_same_line(recording, write, node) and is_whole(recording, write))),
            ("again_round", int(write is not None and ran_before(recording, write, node))),
            ("part", int(write is not None and is_part(recording, write, saved))),
        ),
        node_id=node.id,
        tensor_id=tensor.id if tensor else None,
        write_id=write.id if write else None,
        frame=frame,
    )


def is_same_line(recording: Recording, write: Write, node: Node) -> bool:
    """True for `x[…] = f(x[…])`: one line that reads and writes."""
    return write.op.endswith("_") and line_of(write) == birthplace(recording, node)


def is_whole(recording: Recording, write: Write) -> bool:
    """True for a tensor that is written as a whole, by its own name: not a part of it, not an alias."""
    return write.op != "__setitem__" and recording.tensors[write.tensor].alias_of is None


def ran_before(recording: Recording, write: Write, node: Node) -> bool:
    """True where the same line wrote the same memory before the Node saved it, too: a loop has come round."""
    return any(
        each.place == write.place and each.storage == write.storage and each.frame < node.frame
        for each in recording.writes
    )


def is_part(recording: Recording, write: Write, saved: SavedTensor) -> bool:
    """True for `x[…] = …` that fills a tensor piece by piece while pieces of it are read."""
    return (
        write.op == "__setitem__"
        and write.span != recording.tensors[write.tensor].span
        and (write.span[1] <= saved.span[0] or saved.span[1] <= write.span[0])
    )


def surroundings(recording: Recording, error: RaisedError) -> tuple[tuple[str, str | int], ...]:
    """The line that called backward, and how it came into the graph of an earlier step, if it did."""
    failed = recording.frames[error.frame]
    earlier = earlier_run(recording, error.node, failed)
    way = carried(recording, error.node, failed, earlier) if earlier and error.node is not None else Carried("again")
    again = ("again", error.place.line if error.place else 0)
    return (again, *way.arguments(recording)) if way.how in LOOPED else (again,)


def by_text(recording: Recording, error: RaisedError, node: Node) -> Diagnosis:
    """For a Node that hides what it saves (CopySlices): the Write whose shape and versions torch's message names."""
    shape = re.search(r"\[[\w.]+ \[([\d, ]*)\]\]", error.text)
    version = re.search(r"at version (\d+); expected version (\d+)", error.text)
    sides = tuple(int(side) for side in shape[1].split(",") if side.strip()) if shape else None
    expected, now = (int(version[2]), int(version[1])) if version else (None, None)
    write = next(
        (
            each
            for each in recording.writes
            if each.version_before == expected and sides in (None, recording.tensors[each.tensor].shape)
        ),
        None,
    )
    return Diagnosis(
        kind="saved_tensor_modified",
        severity="error",
        raised=True,
        culprit=line_of(write),
        victim=birthplace(recording, node),
        node=node.name,
        tensor=recording.tensors[write.tensor].name if write else None,
        version_saved=expected,
        version_now=now,
        arguments=(
            ("label", label(recording, write.tensor if write else None)),
            ("alias", label(recording, write.tensor if write else None)),
            ("op", write.op if write else ""),
            ("needed_for", ""),
            ("more", 0),
            ("result", 0),
            ("trained", 0),
        ),
        node_id=node.id,
        tensor_id=write.tensor if write else None,
        write_id=write.id if write else None,
        frame=error.frame,
    )
