"""The errors that a Recording knows, by the part of torch's text that stays the same between versions."""

from __future__ import annotations

from collections.abc import Iterator

from seegrad.model.recording import RaisedError, Recording


def errors_with(recording: Recording, *cores: str) -> Iterator[RaisedError]:
    """Every error that was raised, also one that left the block from outside torch, whose text holds one of `cores`."""
    left = recording.error
    rest = () if left is None or left in recording.errors else (left,)
    return (error for error in (*recording.errors, *rest) if any(core in error.text for core in cores))
