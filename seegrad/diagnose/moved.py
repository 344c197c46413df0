"""A saved tensor's version moved and no backward has run yet: it will fail if it runs."""

from __future__ import annotations

from collections.abc import Iterator

from seegrad.diagnose.saved import culprits, describe
from seegrad.model.recording import Diagnosis, Recording


def find(recording: Recording) -> Iterator[Diagnosis]:
    """At most one note, for a Recording without any backward."""
    if any(frame.backward is not None for frame in recording.frames):
        return
    for node in recording.nodes:
        for saved in (each for each in node.saved if each.checked):
            writes = [write for write in culprits(recording, saved) if write.frame > node.frame]
            if writes and writes[-1].version_after is not None:
                yield describe(recording, node, saved, writes[-1].version_after, writes[0].frame, raised=False)
                return
