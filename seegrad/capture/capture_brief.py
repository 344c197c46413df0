"""Which Nodes of a backward need no more than a note that they ran: nothing of theirs would be seen in a picture.

Most Nodes of a model are so: their gradients are too big to show, nobody may have spoiled what they saved. They get a
short Frame, which costs less.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from seegrad.capture.probes.previews import MAX_SIDE
from seegrad.capture.tables.frames import Seen

if TYPE_CHECKING:
    from seegrad.capture.state import State
    from seegrad.capture.tables.nodes import NodeDraft

Gradients = tuple[Seen, ...]


def brief(state: State, node: NodeDraft) -> Gradients | None:
    """The gradients of a Node of which nothing is seen but that they arrive; None where more may be seen."""
    if node.saved and any(saved.suspect() for saved in node.saved):
        return None
    if node.leaf is not None:
        return _of_leaf(state, node.leaf)
    if not node.outputs:
        return ()
    return _of_output(state, node) if len(node.outputs) == 1 else None


def _of_leaf(state: State, number: int) -> Gradients | None:
    """What arrives at the leaf, and the sum that it keeps afterwards."""
    leaf, draft = state.tensors.alive(number), state.tensors.drafts[number]
    if leaf is None or not _is_big(draft.shape) or getattr(leaf, "_post_accumulate_grad_hooks", None):
        return None
    return (number, None, draft.shape, False), (number, None, draft.shape, True)


def _of_output(state: State, node: NodeDraft) -> Gradients | None:
    number = state.nodes.output(node.id, 0)
    if number is None or number not in state.tensors.drafts:
        return None
    tensor, shape = state.tensors.alive(number), state.tensors.drafts[number].shape
    if not _is_big(shape) or (tensor is not None and tensor.retains_grad):
        return None
    return ((number, None, shape, False),)


def _is_big(shape: torch.Size) -> bool:
    """True where no preview would be made of it."""
    return all(type(side) is int for side in shape) and math.prod(shape) > MAX_SIDE**2
