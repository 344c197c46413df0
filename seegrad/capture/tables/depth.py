"""How deep the graph is behind a Node; a deep graph is freed as it's freed unseen: not by one recursion.

Torch frees a chain of Nodes in a loop, however long it is, but from 2.13 on a Node that was once seen in Python frees
the next by a call of its own. Python frees containers within containers without running out of stack: of those nested
too deeply it puts the rest off until the outermost is gone. So a deep Node takes what it leads to along, in as many
tuples as the recursion has come down levels: it goes on when these are freed. They are in the Node's `metadata`, which
dies with it, and hold only what its Edges hold. So nothing lives longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from seegrad.capture.probes import torch_private as _torch

SHALLOW = 1_000
"""A graph of no more levels is left as it is: freed by one recursion, which fits into a thread's smallest stack."""

SECTION = 10
"""Levels of a deeper graph that one recursion comes down."""


def take_along(node: Any, depth: int, behind: Sequence[int]) -> None:
    """A Node at that depth holds what it leads to, where a section begins; `behind` are the depths there, by Edge."""
    section = depth // SECTION
    if all(each < SHALLOW or each // SECTION == section for each in behind):
        return
    edges = zip(node.next_functions, behind, strict=True)
    _torch.keep_along(node, nested([each for (each, _), at in edges if at >= SHALLOW and at // SECTION < section]))


def nested(held: Sequence[Any]) -> tuple[Any, ...]:
    """As many tuples as a section has levels, the innermost of what is held.

    >>> nested("ab")
    (((((((((('a', 'b'),),),),),),),),),)
    """
    found = tuple(held)
    for _ in range(SECTION - 1):
        found = (found,)
    return found
