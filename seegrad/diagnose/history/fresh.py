"""A loss that has a graph in other passes of a loop, and is made of constants alone in this one."""

from __future__ import annotations

from seegrad.diagnose.evidence import ENTERING
from seegrad.diagnose.history.flow import Cut, Flow
from seegrad.model.recording import Frame, Recording

MAKES = ENTERING | {"zeros", "ones", "full", "zeros_like", "ones_like", "full_like", "new_zeros", "new_tensor"}
"""Ops that make a constant."""


def constants(recording: Recording, flow: Flow, shown: Frame) -> list[Cut]:
    """The Frames that made what a backward call began with, nearest first, where its line has come to its end before.

    None of a loss for which data was computed with: that has another reason to have no graph.
    """
    if not _has_ended(recording, shown):
        return []
    found = list[Cut]()
    for tensor in flow.behind(shown.inputs[:1], set()):
        made = recording.frames[recording.tensors[tensor].frame]
        if tensor not in made.outputs:
            return []
        if made.op in MAKES:
            found.append(Cut(made, (tensor,), "constant"))
    return found


def _has_ended(recording: Recording, shown: Frame) -> bool:
    """Has a backward call on the same line run before?"""
    before = (each for each in recording.frames[: shown.index] if each.phase == "backward" and each.op != "grad")
    return shown.place is not None and any(each.place == shown.place for each in before)
