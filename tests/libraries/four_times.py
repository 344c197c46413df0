"""One program plain, recorded, plain, recorded: `python -m tests.libraries.four_times NAME` prints what differed."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import torch

import seegrad
from tests.data.transparency.observe import Bits, Observation, bits, observe
from tests.libraries.table import LibraryProgram, library_programs
from tests.libraries.torchvision_loads import make_torchvision_load

TWICE = (False, True, False, True)
"""Recorded or not; a program's first run warms up what its library keeps."""
ALWAYS = ("result", "error")
"""What the first run shows as well as the later ones; the rest, which a first import moves, from the third run on."""
THEIR_OWN = ("printed",)
"""Progress bars print how long they took."""


@dataclass
class Compared:
    """What four runs of a program showed."""

    differences: list[str] = field(default_factory=list)
    found: list[tuple[str, str, str]] = field(default_factory=list)
    """Severity, kind and sentence of each Diagnosis."""
    frames: int = 0
    seconds: list[float] = field(default_factory=list)
    """CPU seconds of each run."""


def compared(program: LibraryProgram) -> Compared:
    """Run it four times from the same seed."""
    found = Compared()
    seen = [one_run(program, found, recorded=recorded) for recorded in TWICE]
    if seen[0].error:
        found.differences.append(f"the plain run failed: {seen[0].error}")
    for number, each in enumerate(seen[1:], 2):
        found.differences += [f"run {number}: {told}" for told in differences(seen[0], each, ALWAYS)]
    rest = [each.name for each in fields(Observation) if each.name not in (*ALWAYS, *THEIR_OWN)]
    found.differences += [f"recorded: {told}" for told in differences(seen[2], seen[3], rest)]
    return found


def one_run(program: LibraryProgram, found: Compared, *, recorded: bool) -> Observation:
    """Build it, and watch it run."""

    def run() -> Any:
        model, steps = program.build()
        block = seegrad.record() if recorded else nullcontext()
        started = time.process_time()
        with block as rec:
            result = steps()
        found.seconds.append(time.process_time() - started)
        if rec is not None:
            found.frames = len(rec.frames)
            found.found = [(each.severity, each.kind, each.message()) for each in rec.diagnoses]
        return result, state(model)

    seen = observe(run, None)
    kept = tuple(each for each in seen.switched if each[0] != "threads")  # those of a DataLoader end when they like
    return replace(seen, switched=kept)


def state(model: torch.nn.Module) -> dict[str, Bits]:
    """Parameters, buffers and gradients to the bit, each with its version."""
    named = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    return {
        name: (bits(local(each)), bits(local(each.grad)) if each.requires_grad else None)
        for name, each in named.items()
    }


def local(tensor: torch.Tensor | None) -> torch.Tensor | None:
    """This process's part of a tensor that is spread over several."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def differences(first: Observation, other: Observation, names: Any) -> Iterator[str]:
    """The fields that aren't the same, with the first place where they part."""
    for name in names:
        here, there = getattr(first, name), getattr(other, name)
        if here != there:
            yield f"{name}{parting(here, there)}"


def parting(here: Any, there: Any) -> str:
    """The way into two values down to where they differ."""
    way = ""
    while type(here) is type(there) and isinstance(here, dict | list | tuple) and len(here) == len(there):
        keys = list(here) if isinstance(here, dict) else range(len(here))
        key = next((key for key in keys if key not in keys or here[key] != there[key]), None)
        if key is None:
            break
        here, there, way = here[key], there[key], f"{way}[{key!r}]"
    return f"{way}: {str(here)[:200]} ≠ {str(there)[:200]}"


if __name__ == "__main__":
    torch.set_num_threads(1)
    asked = library_programs()[sys.argv[1]]
    if asked.needs:  # what imports torchvision says so, or some library it needs does
        make_torchvision_load()
    told = compared(asked)
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    sys.stdout.write("\n" + json.dumps(asdict(told)))
