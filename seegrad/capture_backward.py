"""One backward call watched from inside: hooks on every Node tell the engine's order, and who ran when it failed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from . import _torch

Gradients = tuple[torch.Tensor | None, ...]
Event = Callable[[int, Gradients], None]


def _ignore(_number: int, _gradients: Gradients) -> None:
    """Nobody listens yet."""


class Backward:
    """Hooks on all Nodes behind some roots, from `attach` to `detach`.

    `started(number, gradients)` is called when a Node has received its gradients,
    `finished(number, gradients of its inputs)` when it has run.
    """

    def __init__(self) -> None:
        self._started: Event = _ignore
        self._finished: Event = _ignore
        self._handles: list[Any] = []
        self._open: list[int] = []

    def attach(
        self, roots: Sequence[Any], number: Callable[[Any], int | None], started: Event, finished: Event
    ) -> None:
        """Hook every Node that can be reached; `number` gives a Node's number."""
        self._started, self._finished = started, finished
        waiting, seen = list(roots), set()
        while waiting:
            node = waiting.pop()
            found = number(node)
            if found is None or found in seen:
                continue
            seen.add(found)
            self._handles.append(node.register_prehook(partial(self._before, found)))
            self._handles.append(node.register_hook(partial(self._after, found)))
            waiting.extend(target for target, _ in node.next_functions if target is not None)

    def detach(self) -> None:
        """Take every hook off again."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._started = self._finished = _ignore

    @property
    def failing(self) -> int | None:
        """The Node that has started and not finished."""
        return self._open[-1] if self._open else None

    def _before(self, number: int, gradients: Gradients) -> None:
        self._open.append(number)
        self._started(number, gradients)

    def _after(self, number: int, inputs: Gradients, _outputs: Gradients) -> None:
        self._open.remove(number)
        self._finished(number, inputs)


def roots_of(
    args: tuple[Any, ...], kwargs: dict[str, Any], tensors_in: Callable[[Any], list[torch.Tensor]]
) -> list[torch.Tensor]:
    """The tensors that backward starts from, whichever way it was called."""
    given = args[0] if args else kwargs.get("tensors", kwargs.get("outputs", kwargs.get("self")))
    return tensors_in(given)


def grad_fns(tensors: Sequence[torch.Tensor]) -> list[Any]:
    """The Nodes that made the tensors, without the leaves."""
    return [node for tensor in tensors if (node := _torch.grad_fn(tensor)) is not None]
