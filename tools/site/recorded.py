"""What each choice of a program does: it is run and recorded, and its gradients are read when it is over."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import nn

from seegrad.model.recording import Recording, Severity
from seegrad.recorder import record
from tools.course.masters import BookError
from tools.site.programs import Choice, FlippedProgram

FILE = "program.py"
MOST_NUMBERS = 12


@dataclass(frozen=True, slots=True)
class Play:
    """One choice, run: what was seen, what torch said (an error, warnings), what was printed, each leaf's gradient."""

    recording: Recording
    says: str
    printed: str
    gradients: tuple[tuple[str, str], ...]


@cache
def plays(program: FlippedProgram) -> dict[Choice, Play]:
    """Every choice. Raises: BookError where the mistake isn't found, or the mended program isn't right."""
    made = {choice: play(program.code(choice), program.options) for choice in program.choices}
    first, mended = made[program.choices[0]], made[program.mended]
    kinds = [found.kind for found in first.recording.diagnoses]
    if program.kind and kinds[:1] != [program.kind]:
        raise BookError(f"{program.name}: the mistake gets {kinds}, not {program.kind}. {first.says}")
    if program.error and program.error not in first.says:
        raise BookError(f"{program.name}: torch says {first.says!r}, not {program.error!r}.")
    if mended.says or mended.recording.diagnoses:
        raise BookError(f"{program.name}: mended it still has {mended.says or mended.recording.diagnoses[0].kind}.")
    return made


def severity_of(program: FlippedProgram) -> Severity:
    """How grave its mistake is."""
    found = plays(program)[program.choices[0]].recording.diagnoses
    return found[0].severity if found else "error"


def play(code: str, options: tuple[str, ...] = ()) -> Play:
    """Run a program from the same random numbers each time.

    >>> done = play("import torch\\na = torch.ones(2, requires_grad=True)\\n(a * 3).sum().backward()\\n")
    >>> done.says, done.gradients
    ('', (('a.grad', '[3, 3]'),))
    """
    torch.manual_seed(0)
    names: dict[str, Any] = {"__name__": "__main__"}
    compiled = compile(code, FILE, "exec", dont_inherit=True)
    printed, error = io.StringIO(), ""
    given: dict[str, Any] = dict.fromkeys(options, True)
    rec = record(code=(FILE, 1, code), **given)
    with warnings.catch_warnings(action="always", record=True) as warned, contextlib.redirect_stdout(printed):
        try:
            with rec:
                exec(compiled, names)  # noqa: S102  # running the program is what is asked
        except Exception as raised:  # whatever it raises is what the page is about
            error = f"{type(raised).__name__}: {raised}"
    told = [f"{each.category.__name__}: {each.message}" for each in warned or ()]
    says = "\n".join(dict.fromkeys([*told, error] if error else told))
    return Play(rec.recording, says, printed.getvalue().rstrip("\n"), tuple(_gradients(names)))


def _gradients(names: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Of each leaf and each parameter that a program has at its end."""
    for name, value in names.items():
        found = value.named_parameters(name) if isinstance(value, nn.Module) else [(name, value)]
        for full, leaf in found:
            if isinstance(leaf, torch.Tensor) and leaf.is_leaf and leaf.requires_grad and leaf.numel() <= MOST_NUMBERS:
                yield f"{full}.grad", "None" if leaf.grad is None else numbers(leaf.grad)


def numbers(tensor: torch.Tensor) -> str:
    """The numbers, to four digits; of a sparse tensor also those that it leaves out.

    >>> numbers(torch.tensor([[1.0, 0.33333], [2e-9, torch.nan]]))
    '[[1, 0.3333], [2e-09, nan]]'
    """
    whole = tensor.detach()
    return _told((whole if whole.layout == torch.strided else whole.to_dense()).tolist())


def _told(value: Any) -> str:
    return f"[{', '.join(map(_told, value))}]" if isinstance(value, list) else f"{value:.4g}"
