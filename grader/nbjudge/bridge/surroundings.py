"""What a call takes along of the process around it: grad mode and dtype. What it can't take along is found here.

In one process a test that redirects stdout, records warnings or seeds a generator sees what the student's functions
print, warn and draw. Here they do so in a process of their own and nothing of that comes back, so such a question is
refused instead of failed.
"""

from __future__ import annotations

import builtins
import contextlib
import random
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from nbjudge.bridge.values import UnsupportedError

DTYPES = {str(dtype): dtype for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64)}
REPLACED = ("input", "print", "open")
SEEDING = tuple((module, name) for module in (torch, torch.random) for name in ("manual_seed", "set_rng_state"))


def generator_states() -> dict[str, bytes]:
    """The states of the random generators that a cell is likely to use."""
    states = {"torch": torch.get_rng_state().numpy().tobytes(), "random": repr(random.getstate()).encode()}
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        _, keys, place, *_ = numpy.random.get_state()
        states["numpy"] = keys.tobytes() + int(place).to_bytes(4, "big")
    return states


@dataclass(slots=True)
class Surroundings:
    """The judge's side: what is told with each question, and what keeps one from being asked."""

    _seeded: bool = False
    _before: dict[str, Any] = field(default_factory=dict)

    def begin(self) -> None:
        """A new question: it hasn't seeded or replaced anything itself."""
        self._seeded = False
        self._before = _replaceable()

    def watch(self) -> None:
        """From here on it is known when a test seeds a generator itself."""
        for module, name in (*SEEDING, (random, "seed"), (random, "setstate")):
            setattr(module, name, self._noting(getattr(module, name)))
        if (numpy := sys.modules.get("numpy")) is not None:
            for name in ("seed", "set_state"):
                setattr(numpy.random, name, self._noting(getattr(numpy.random, name)))

    def _noting(self, seed: Callable[..., Any]) -> Callable[..., Any]:
        def seeding(*args: Any, **kwargs: Any) -> Any:
            self._seeded = True
            return seed(*args, **kwargs)

        return seeding

    def told(self) -> dict[str, Any]:
        """What the next question takes along.

        Raises:
            UnsupportedError: the test has put something in place of a function that only the student's process uses.
        """
        now = _replaceable()
        for what, before in self._before.items():
            if now[what] is not before:
                raise UnsupportedError(f"something asked while the test {what}")
        said: dict[str, Any] = {"grad": torch.is_grad_enabled(), "dtype": str(torch.get_default_dtype())}
        if self._seeded:
            said["seeded"] = True
        return said


def _replaceable() -> dict[str, Any]:
    """What a test may replace, by the words that say so."""
    return {
        **{f"has replaced Python's own {name}()": getattr(builtins, name) for name in REPLACED},
        "has redirected what is printed": sys.stdout,
        "has redirected sys.stderr": sys.stderr,
        "records warnings": warnings._showwarnmsg_impl,  # type: ignore[attr-defined]  # replaced while one records them
        "turns warnings into errors": bool(warnings.filters) and warnings.filters[0][0] == "error",
    }


class Around:
    """The student's side: one answer, given as if in the judge's surroundings."""

    def __init__(self, said: Mapping[str, Any]) -> None:
        self._said = said

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Meanwhile the process is as the question says."""
        default = torch.get_default_dtype()
        wanted = DTYPES.get(str(self._said.get("dtype")), default)
        before = generator_states() if self._said.get("seeded") is True else None
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch.set_grad_enabled(self._said.get("grad") is not False))
            if wanted is not default:
                torch.set_default_dtype(wanted)
                stack.callback(torch.set_default_dtype, default)
            yield
        if before is not None and generator_states() != before:
            raise UnsupportedError("random numbers, drawn after the test has seeded a generator itself")
