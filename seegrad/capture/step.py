"""An optimiser's step, as one event: which tensors it wrote is read once before it and once after.

A dozen ops for each Parameter, on tensors that nobody else sees, say nothing that the step's own line doesn't say. So
where torch's own code steps, none of them is looked at. A closure, or a hook on the optimiser, is the user's code:
what was written until it runs is told before it.
"""

from __future__ import annotations

import weakref
from collections.abc import Container, Iterator, Sequence
from types import FrameType

import torch
from torch.optim.optimizer import Optimizer

from seegrad.capture.probes import torch_private as _torch
from seegrad.capture.probes.variables import tensors_in
from seegrad.capture.state import RecordingState
from seegrad.capture.tables.frames import Hit
from seegrad.model.recording import STEP

OWN = "torch.optim."
"""Where torch's optimisers are defined."""


def is_torchs(optimiser: Optimizer) -> bool:
    """True where torch's own code steps, and builds no graph.

    >>> is_torchs(torch.optim.SGD([torch.ones(1, requires_grad=True)]))
    True
    >>> is_torchs(torch.optim.SGD([torch.ones(1, requires_grad=True)], differentiable=True))
    False
    """
    own = str(getattr(type(optimiser).step, "__module__", "")).startswith(OWN)
    return own and not any(group.get("differentiable") for group in optimiser.param_groups)


class Step:
    """One step under way. `told` Frames may be several: one for each stretch between two runs of a closure."""

    def __init__(self, state: RecordingState, optimiser: Optimizer, user: FrameType | None) -> None:
        self._state, self._tables = state, state.tables
        self._optimiser = weakref.ref(optimiser)
        self._place, self._off = state.source.place(user), state.switches.off(user)
        self._before: list[tuple[torch.Tensor, int | None]] = []
        self.waits = True  # code of the user's has run since the last look
        self._fused: dict[int, str] = {}  # address of what a kernel wrote and moved no version → the kernel
        self._arrive(optimiser, user)
        self.look()

    def _arrive(self, optimiser: Optimizer, user: FrameType | None) -> None:
        """What happened before the step; Parameters that nothing in the block has used yet get their names."""
        tensors = self._tables.tensors
        used = [leaf for group in optimiser.param_groups for leaf in group["params"] if leaf.grad is not None]
        unmet = [leaf for leaf in used if tensors.draft(leaf) is None]
        self._state.new_event(user, deep=any(map(tensors.is_new, unmet)))
        self._state.meet_wrapped(unmet, user)

    def look(self) -> None:
        """Torch's code begins, or goes on: what it may write, as it is now."""
        optimiser = self._optimiser()
        if optimiser is not None:
            self.waits = False
            self._before = [(tensor, _torch.version(tensor)) for tensor in self._writable(optimiser)]
            for tensor, _ in self._before:
                self._tables.saved.keep(self._tables.tensors.storage_number(tensor))

    def _writable(self, optimiser: Optimizer) -> Iterator[torch.Tensor]:
        """What it holds; of gradients, and of what it keeps for each Parameter, those that were seen elsewhere."""
        leaves = {id(leaf): leaf for group in optimiser.param_groups for leaf in group["params"]}
        yield from leaves.values()
        seen = self._tables.tensors.draft
        beside = [leaf.grad for leaf in leaves.values()]
        for kept in optimiser.state.values():
            beside += kept.values() if type(kept) is dict else ()
        for each in tensors_in(beside):
            if id(each) not in leaves and seen(each) is not None:
                yield each

    def fused(self, kernel: str, targets: Sequence[torch.Tensor]) -> None:
        """A kernel writes these and moves no version."""
        self._fused |= dict.fromkeys(map(id, targets), kernel)

    def settle(self) -> None:
        """Code of the user's is about to run, or the step is over: a Frame for what was written, if anything was."""
        before, self._before, self.waits = self._before, [], True
        fused, self._fused = self._fused, {}
        written = [each for each in before if self._is_written(*each, fused)]
        if not written:
            return
        state, tensors = self._state, self._tables.tensors
        numbers = tuple([state.meet(tensor) for tensor, _ in written])
        frame = self._tables.frames.new("inplace", STEP, self._place)
        frame.grad_enabled, frame.off = False, self._off
        frame.inputs, frame.outputs = numbers + self._gradients(numbers), numbers
        for number, (tensor, version) in zip(numbers, written, strict=True):
            tensors.see(tensor, frame.index)
            storage, span, op = tensors.storage_number(tensor), _torch.span(tensor), fused.get(id(tensor), STEP)
            state.write(frame, Hit(number, storage, span, op, (version, _torch.version(tensor))))

    def _gradients(self, written: Sequence[int]) -> tuple[int, ...]:
        """The gradients that it went by, of those that were seen elsewhere."""
        optimiser, drafts = self._optimiser(), self._tables.tensors
        leaves = [] if optimiser is None else [leaf for group in optimiser.param_groups for leaf in group["params"]]
        met = [self._state.meet(leaf.grad) for leaf in leaves if leaf.grad is not None and drafts.draft(leaf.grad)]
        return tuple(each for each in dict.fromkeys(met) if each not in written)

    def _is_written(self, tensor: torch.Tensor, before: int | None, fused: Container[int]) -> bool:
        now = _torch.version(tensor)
        if now is not None and now != before:
            return True
        return (now is None and tensor.grad is not None) or id(tensor) in fused or self._differs(tensor)

    def _differs(self, tensor: torch.Tensor) -> bool:
        return self._tables.saved.differs(self._tables.tensors.storage_number(tensor))
