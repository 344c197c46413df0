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


def depth(node: Any, behind: Sequence[tuple[Any, int]]) -> int:
    """Levels of the graph behind a Node, itself included; `behind` are those its Edges lead to, with their depths."""
    found = 1 + max([each for _, each in behind], default=0)
    if found > SHALLOW:
        section = found // SECTION
        deeper = [target for target, each in behind if each >= SHALLOW and each // SECTION < section]
        if deeper:
            _torch.keep_along(node, nested(deeper))
    return found


def nested(held: Sequence[Any]) -> tuple[Any, ...]:
    """As many tuples as a section has levels, the innermost of what is held.

    >>> nested("ab")
    (((((((((('a', 'b'),),),),),),),),),)
    """
    found = tuple(held)
    for _ in range(SECTION - 1):
        found = (found,)
    return found
