"""`nn.Parameter(y)`: a new leaf on the bytes of a result. Nobody sees that call: it is told at the first use."""

from __future__ import annotations

import dis
import re
from itertools import chain
from types import CodeType, FrameType

import torch

from seegrad.capture.probes import torch_private as _torch
from seegrad.capture.probes.places import Source
from seegrad.capture.probes.variables import held_tensors, module_tensors, modules
from seegrad.capture.tables.tensors import Tensors
from seegrad.model.recording import Place

IDENTIFIER = re.compile(r"[^\W\d]\w*")


def wraps(tensors: Tensors, tensor: torch.Tensor) -> int | None:
    """The tensor with a graph on whose bytes this leaf was made; None for other tensors and for one that's known."""
    if not tensor.requires_grad or not _torch.is_leaf(tensor) or tensors.find(tensor) is not None:
        return None
    results = tensors.results_on(tensors.storage_number(tensor))
    return results[-1] if results and not tensors.existed_at_start(tensor) else None


def bound_at(source: Source, tensor: torch.Tensor, frames: list[FrameType]) -> Place | None:
    """The line that gave the tensor to a variable, an attribute or a collection; None where nothing holds it."""
    for frame in reversed(frames):
        in_modules = chain.from_iterable(module_tensors(name, module) for name, module in modules(frame))
        for name, value in chain(held_tensors(frame), in_modules):
            if value is tensor:
                line = stored_at(frame.f_code, name, frame.f_lasti)
                if line is not None:
                    return source.place_at(frame, line)
    return None


def stored_at(code: CodeType, name: str, now: int) -> int | None:
    """The line of the last store into `name` before the instruction at `now`, or of all where a loop has come round.

    >>> code = compile("p = 1\\nq = 2\\np = 3\\nprint(p)\\n", "example", "exec")
    >>> stored_at(code, "p", 10**6), stored_at(code, "p", 8), stored_at(code, "head.weight", 10**6)
    (3, 1, None)
    """
    stores = [each for each in dis.get_instructions(code) if each.opname.startswith("STORE_") and each.positions]
    for part in reversed(IDENTIFIER.findall(name)):
        found = [each for each in stores if each.argval == part]
        before = [each for each in found if each.offset < now]
        if found:
            positions = (before or found)[-1].positions
            return positions.lineno if positions else None
    return None
