"""The tables of a RecordingState → the Recording, numbered without gaps."""

from __future__ import annotations

from dataclasses import replace

from seegrad.capture.state import RecordingState
from seegrad.capture.tables.hooks import frozen
from seegrad.capture.tables.ids import Ids
from seegrad.model.recording import RaisedError, Recording


def freeze(
    state: RecordingState,
    code: tuple[tuple[int, str], ...],
    file: str,
    versions: tuple[tuple[str, str], ...],
    error: RaisedError | None,
) -> Recording:
    """What was seen so far."""
    frames, tensors = state.frames.in_order(), state.tensors.drafts
    nodes, writes = state.nodes.drafts, state.writes.drafts
    ids = Ids.without_gaps(frames, tensors, nodes, writes)
    return Recording(
        frames=tuple([draft.freeze(ids) for draft in frames.values()]),
        tensors=tuple([draft.freeze(ids) for draft in tensors.values()]),
        nodes=tuple([draft.freeze(ids) for draft in nodes.values()]),
        writes=tuple([draft.freeze(ids) for draft in writes.values()]),
        error=_renumbered(error, ids) if error is not None else None,
        code=code,
        code_file=file,
        root=ids.one(ids.tensors, state.root),
        versions=versions,
        hooks=frozen(state.hooks, ids),
        errors=tuple(_renumbered(each, ids) for each in state.errors),
    )


def _renumbered(error: RaisedError, ids: Ids) -> RaisedError:
    return replace(error, frame=ids.frames[error.frame], node=ids.one(ids.nodes, error.node))
