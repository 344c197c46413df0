"""The table of programs: what each is called, what it needs, and the function that builds it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from shutil import which
from typing import Any

import torch
from torch import nn

Built = tuple[nn.Module, Callable[[], Any]]
"""The model, whose parameters and gradients are compared afterwards, and what is recorded."""


@dataclass(frozen=True, slots=True)
class LibraryProgram:
    """A program that is run four times in a process of its own, or in several that talk to each other."""

    build: Callable[[], Built]
    needs: tuple[str, ...]
    processes: int
    limit_s: float

    @property
    def missing(self) -> list[str]:
        """Packages and commands that this machine lacks."""
        return [each for each in self.needs if find_spec(each) is None and which(each) is None]


_PROGRAMS: dict[str, LibraryProgram] = {}


def program(*needs: str, processes: int = 1, limit_s: float = 300) -> Callable[[Callable[[], Built]], Any]:
    """Put a function that builds a program into the table."""

    def registered(build: Callable[[], Built]) -> Callable[[], Built]:
        name = f"{(needs or ('torch',))[0]}-{build.__name__}"
        assert name not in _PROGRAMS, name
        _PROGRAMS[name] = LibraryProgram(build, needs, processes, limit_s)
        return build

    return registered


def library_programs() -> dict[str, LibraryProgram]:
    """All of them, by name: `timm-mixer`."""
    from tests.libraries.programs import (  # noqa: F401  # importing registers
        adapters,
        families,
        fitted,
        graphs,
        play,
        processes,
        torch_itself,
        transformed,
        vision,
    )

    return _PROGRAMS


def training(model: nn.Module, loss: Callable[[], torch.Tensor], steps: int = 3, lr: float = 1e-3) -> Built:
    """The loop that everybody writes; the last step's gradients stay."""
    optimizer = torch.optim.AdamW([each for each in model.parameters() if each.requires_grad], lr=lr)

    def run() -> list[torch.Tensor]:
        losses = []
        for _ in range(steps):
            optimizer.zero_grad()
            value = loss()
            value.backward()
            optimizer.step()
            losses.append(value.detach())
        return losses

    return model, run
