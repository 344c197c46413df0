"""One backward or grad call: a Frame for each Node that ran, and one for the error if it failed."""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType
from typing import Any

import torch

from . import _torch
from .capture_backward import Backward, Gradients, grad_fns, roots_of
from .capture_calls import tensors_in
from .capture_frames import FrameDraft
from .capture_state import State
from .model import Gradient, RaisedError
from .previews import preview

Quietly = Callable[..., Any]
"""Runs a piece of the recorder's own bookkeeping so that its errors stay its own."""


class Run:
    """Watches one call, from its making to `detach`; then `done` or `failed` says how it ended."""

    def __init__(
        self, state: State, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], user: FrameType | None
    ) -> None:
        state.new_event(user, deep=True)
        roots = roots_of(args, kwargs, tensors_in)
        state.meet_late(roots)
        self._state = state
        self._name = name
        self._number, state.backwards = state.backwards, state.backwards + 1
        self._place = state.source.place(user)
        self._roots = tuple(state.tensors.see(root, state.frames[-1].index) for root in roots)
        self._inputs = tensors_in(kwargs.get("inputs", args[1] if name == "grad" and len(args) > 1 else None))
        self._open: dict[int, FrameDraft] = {}
        self._changed: dict[int, list[int]] = {}
        state.root = self._roots[0] if self._roots else state.root
        self._backward = Backward()
        self._grad_fns = grad_fns(roots)

    def attach(self, quietly: Quietly) -> None:
        """Put the hooks on."""
        at = self._state.frames[-1].index
        nodes, self._grad_fns = self._grad_fns, []
        self._backward.attach(
            nodes,
            lambda node: self._state.nodes.number(node, at),
            lambda number, gradients: quietly(self._started, number, gradients),
            lambda number, gradients: quietly(self._finished, number, gradients),
        )

    def detach(self) -> None:
        """Take the hooks off."""
        self._backward.detach()

    def _started(self, number: int, gradients: Gradients) -> None:
        state, node = self._state, self._state.nodes.found[number]
        frame = state.new_frame("backward", node.name, self._place)
        frame.running, frame.backward = number, self._number
        self._open[number] = frame
        self._changed[number] = [saved.index for saved in state.saved.of(number) if saved.changed()]
        for output, gradient in enumerate(gradients):
            tensor = node.leaf if node.leaf is not None else state.nodes.output(number, output)
            if tensor is not None and gradient is not None:
                frame.gradients.append(Gradient(tensor, preview(gradient), tuple(gradient.shape)))
                self._kept_by_request(frame, tensor)

    def _kept_by_request(self, frame: FrameDraft, tensor: int) -> None:
        """A non-leaf with `retain_grad()` has its `.grad` by now."""
        alive = self._state.tensors.alive(tensor)
        if alive is not None and alive.retains_grad and alive.grad is not None:
            frame.gradients.append(Gradient(tensor, preview(alive.grad), tuple(alive.grad.shape), kept=True))

    def _finished(self, number: int, gradients: Gradients) -> None:
        frame, node = self._open.pop(number), self._state.nodes.found[number]
        leaf = self._state.tensors.alive(node.leaf) if node.leaf is not None else None
        if leaf is not None and leaf.grad is not None and node.leaf is not None:
            frame.gradients.append(Gradient(node.leaf, preview(leaf.grad), tuple(leaf.grad.shape), kept=True))
        frame.corrupted = tuple(
            index
            for index in self._changed.pop(number)
            if any(slot < len(gradients) and gradients[slot] is not None for slot in node.saved[index].serves)
        )

    def failed(self, error: BaseException) -> None:
        """The call raised."""
        state, failing = self._state, self._backward.failing
        frame = state.new_frame("error", self._name, self._place)
        frame.inputs, frame.running, frame.backward = self._roots, failing, self._number
        for saved in state.saved.of(failing) if failing is not None else ():
            tensor, number = saved.ref(), state.nodes.found[saved.node].saved[saved.index].tensor
            if tensor is not None and number is not None:
                frame.versions[number] = _torch.version(tensor)
        state.errors.append(RaisedError(type(error).__name__, str(error), self._place, frame.index, failing))

    def done(self, result: Any) -> None:
        """The call returned."""
        state, outputs = self._state, tensors_in(result)
        if outputs:
            self._results(outputs, result)
        leaves = [state.tensors.alive(node.leaf) for node in state.nodes.found if node.leaf is not None]
        state.meet_late([leaf.grad for leaf in leaves if leaf is not None and leaf.grad is not None])
        state.forget_dead()

    def _results(self, outputs: list[torch.Tensor], result: Any) -> None:
        """`autograd.grad` hands gradients back instead of keeping them."""
        state = self._state
        frame = state.new_frame("backward", self._name, self._place)
        frame.inputs, frame.backward = self._roots, self._number
        frame.outputs = tuple(state.tensors.see(tensor, frame.index) for tensor in outputs)
        for number, tensor in zip(frame.outputs, outputs, strict=True):
            frame.values[number], frame.versions[number] = preview(tensor), 0
        for tensor, gradient in zip(self._inputs, result, strict=False):
            number = state.tensors.see(tensor, frame.index)
            if isinstance(gradient, torch.Tensor):
                frame.gradients.append(Gradient(number, preview(gradient), tuple(gradient.shape)))
        state.meet_late(outputs)
