"""Another Parameter in the place of a module's own: `layer.weight = …`, `load_state_dict(…, assign=True)`.

Neither is a call of torch that is recorded. A module tells whoever asks of each Parameter that it's given; whether an
optimiser holds the new one shows when one steps.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

import torch
from torch.nn.modules.module import register_module_parameter_registration_hook

from seegrad.capture.probes.places import Source, user_frame
from seegrad.capture.probes.torch_private import WeakTensor
from seegrad.capture.tables import Tables
from seegrad.model.recording import Place, Shared

MOST = 10_000
"""So many are remembered from one look to the next."""


class AssignedParameters:
    """Those that took another's place, with the line that put them there."""

    def __init__(self, tables: Tables, source: Source) -> None:
        self._tables, self._source = tables, source
        self._found: list[tuple[WeakTensor, Place | None]] = []

    def watch(self, quietly: Callable[..., object]) -> Callable[[], None]:
        """From now on, in this thread; what's returned ends it."""
        thread = threading.get_ident()

        def given(module: torch.nn.Module, name: str, parameter: object) -> None:
            if threading.get_ident() == thread and not torch.compiler.is_compiling():
                quietly(self._given, module, name, parameter)

        return register_module_parameter_registration_hook(given).remove

    def _given(self, module: torch.nn.Module, name: str, parameter: object) -> None:
        """A module is about to hold a Parameter under a name."""
        if not isinstance(parameter, torch.nn.Parameter) or len(self._found) == MOST:
            return
        old = dict(torch.nn.Module.named_parameters(module, recurse=False)).get(name)
        if old is not None and old is not parameter:
            self._found.append((WeakTensor(parameter), self._source.place(user_frame(sys._getframe(1)))))

    def look(self) -> None:
        """Tell of those that calls have shown by now, the ones of a line together."""
        places: dict[Place, list[int]] = {}
        waiting = []
        for ref, place in self._found:
            parameter = ref()
            number = None if parameter is None else self._tables.tensors.find(parameter)
            if number is not None and place is not None:
                places.setdefault(place, []).append(number)
            elif parameter is not None:
                waiting.append((ref, place))
        self._found = waiting
        for place, numbers in places.items():
            self._tables.shared.append(Shared("assigned", "", "", self._tables.frames.now, place, tuple(numbers)))
