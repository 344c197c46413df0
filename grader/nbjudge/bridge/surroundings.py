"""What a question can't take along of the process around it: found here, so that it is refused instead of failed.

In one process a test that redirects stdout, records warnings or seeds a generator sees what the student's functions
print, warn and draw. Here they do so in a process of their own, and nothing of that comes back.
"""

from __future__ import annotations

import builtins
import contextlib
import random
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from nbjudge.bridge.values import UnsupportedError
from nbjudge.bridge.values.parts import Part

REPLACED = ("input", "print", "open")
DRAWN = "random numbers, drawn after the test has seeded a generator itself"


class Surroundings:
    """One side's process around the conversation."""

    def __init__(self, parts: Mapping[str, Part]) -> None:
        self._parts = parts
        self._before: dict[str, Any] = {}
        self._seeded = False

    def begin(self) -> None:
        """A new question: it hasn't seeded or replaced anything itself."""
        self._seeded = False
        self._before = _replaceable()

    def watch(self) -> None:
        """From here on it is known when a test seeds a generator itself."""
        seeding = [(random, "seed"), (random, "setstate")]
        if (numpy := sys.modules.get("numpy")) is not None:
            seeding += [(numpy.random, "seed"), (numpy.random, "set_state")]
        for part in self._parts.values():
            seeding += part.seeding()
        for module, name in seeding:
            setattr(module, name, self._noting(getattr(module, name)))

    def _noting(self, seed: Callable[..., Any]) -> Callable[..., Any]:
        def seeding(*args: Any, **kwargs: Any) -> Any:
            self._seeded = True
            return seed(*args, **kwargs)

        return seeding

    def told(self) -> dict[str, Any]:
        """What the next question takes along.

        Raises:
            UnsupportedError: the test has put something in place of what only the student's process uses.
        """
        now = _replaceable()
        for what, before in self._before.items():
            if now[what] is not before:
                raise UnsupportedError(f"something asked while the test {what}")
        return {"seeded": True} if self._seeded else {}

    @contextlib.contextmanager
    def entered(self, header: Mapping[str, Any]) -> Iterator[None]:
        """Meanwhile the process is as a question says; UnsupportedError where it then draws what a test has seeded."""
        before = self._drawn() if header.get("seeded") is True else None
        with contextlib.ExitStack() as stack:
            for part in self._parts.values():
                stack.enter_context(part.entered(header))
            yield
        if before is not None and self._drawn() != before:
            raise UnsupportedError(DRAWN)

    def _drawn(self) -> list[Any]:
        """Where the generators stand."""
        states: list[Any] = [random.getstate(), *(part.random_state() for part in self._parts.values())]
        if (numpy := sys.modules.get("numpy")) is not None:
            _, keys, place, *_ = numpy.random.get_state()
            states.append((keys.tobytes(), int(place)))
        return states


def _replaceable() -> dict[str, Any]:
    """What a test may replace, by the words that say so."""
    return {
        **{f"has replaced Python's own {name}()": getattr(builtins, name) for name in REPLACED},
        "has redirected what is printed": sys.stdout,
        "has redirected sys.stderr": sys.stderr,
        "records warnings": warnings._showwarnmsg_impl,  # type: ignore[attr-defined]  # replaced while one records them
        "turns warnings into errors": bool(warnings.filters) and warnings.filters[0][0] == "error",
    }
