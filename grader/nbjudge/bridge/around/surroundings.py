"""What a question takes along of the process around it, and what comes back of it.

In one process a test that redirects stdout, records warnings or logs, or seeds a generator sees what the student's
functions print, warn, log and draw. Here they do so in a process of their own: what they print, warn and log comes back
as text with the next packet, and generators that a test has seeded start there where they stand here.
"""

from __future__ import annotations

import builtins
import contextlib
import io
import random
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from nbjudge.bridge.around.logged import Logged
from nbjudge.bridge.around.parts import Part
from nbjudge.bridge.values import UnsupportedError
from nbjudge.errors import WireError
from nbjudge.wire import listed, text

STREAMS = ("stdout", "stderr")
CHARS = 8 << 20  # printed during one question, while the test listens
WARNINGS = 1 << 10
BETWEEN = 1 << 22  # numbers that lie between what a test and an answer draw


class Captured(io.TextIOBase):
    """In the student's process: what is printed while the test listens."""

    encoding = "UTF-8"

    def __init__(self, name: str, kept: list[list[str]]) -> None:
        self._name, self._kept = name, kept

    def writable(self) -> bool:
        """Always."""
        return True

    def write(self, said: str) -> int:
        """Keep it, in the order of both streams."""
        if not isinstance(said, str):
            raise TypeError(f"write() argument must be str, not {type(said)}")
        self._kept.append([self._name, said])
        return len(said)


class Surroundings:
    """One side's process around the conversation."""

    def __init__(self, parts: Mapping[str, Part], side: int) -> None:
        self._parts, self._judges = parts, side == 0
        self._before: dict[str, Any] = {}
        self._seeded = False  # by the test, in this question
        self._stood: Any = None  # where the judge's generators stood when the other side last heard of them
        self._drew = False  # has an answer drawn since?
        self._parted = False  # does each side draw its own numbers by now?
        self._heard = False  # has the answer drawn meanwhile?
        self._printed: list[list[str]] = []
        self._warned: list[list[Any]] = []
        self._logged = Logged()
        self._chars = 0

    # ------------------------------------------------------------------ in the judge

    def begin(self) -> None:
        """A new question: it hasn't seeded or redirected anything itself."""
        self._seeded, self._stood, self._drew, self._parted, self._chars = False, None, False, False, 0
        self._before = {name: getattr(sys, name) for name in STREAMS} | {"warnings": _recorder()}

    def watch(self) -> None:
        """From here on it is known when a test seeds a generator, or makes a handler of logs, itself."""
        self._logged.watch()
        seeding = [(random, "seed"), (random, "setstate")]
        if (numpy := sys.modules.get("numpy")) is not None:
            seeding += [(numpy.random, "seed"), (numpy.random, "set_state")]
        for part in self._parts.values():
            seeding += part.seeding()
        for module, name in seeding:
            setattr(module, name, self._noting(getattr(module, name)))

    def _noting(self, seed: Callable[..., Any]) -> Callable[..., Any]:
        def seeding(*args: Any, **kwargs: Any) -> Any:
            self._seeded, self._stood, self._drew, self._parted = True, None, False, False
            return seed(*args, **kwargs)

        return seeding

    def told(self) -> dict[str, Any]:
        """What the next question takes along."""
        if not self._judges or not self._before:
            return {}
        said: dict[str, Any] = {}
        if listening := [name for name in STREAMS if getattr(sys, name) is not self._before[name]]:
            said["listening"] = listening
        if _recorder() is not self._before["warnings"]:
            said["warnings"] = "always"
        elif warnings.filters and warnings.filters[0][0] == "error":
            said["warnings"] = "error"
        said |= self._logged.told()
        return said | self._stand() if self._seeded else said

    def _stand(self) -> dict[str, Any]:
        """An answer draws first what the test would; from then on each goes on by itself."""
        now = self._drawn()
        if self._drew or self._parted or self._stood == now:
            return {"seeded": []}
        self._stood = now
        return {"seeded": now}

    def has_drawn(self) -> bool:
        """Has an answer drawn numbers since this was asked?"""
        heard, self._heard = self._heard, False
        return heard

    def part(self) -> None:
        """From here on the test draws other numbers than an answer does: never those that an answer chooses."""
        if not self._seeded or self._parted:
            return
        self._parted = True
        random.randbytes(4 * BETWEEN)  # noqa: S311 - numbers of a test's
        for part in self._parts.values():
            part.draw(BETWEEN)
        if (numpy := sys.modules.get("numpy")) is not None:
            numpy.random.bytes(4 * BETWEEN)

    def hear(self, header: Mapping[str, Any]) -> None:
        """What the other side has printed, warned of and logged goes where the test listens."""
        if not self._judges or not self._before:
            return
        self._heard = self._heard or header.get("drew") is True
        self._drew = self._drew or self._heard
        for pair in listed(header, "printed") if "printed" in header else ():
            if type(pair) is not list or len(pair) != 2 or pair[0] not in STREAMS or type(pair[1]) is not str:
                raise WireError("What was printed isn't text.")
            if getattr(sys, pair[0]) is not self._before[pair[0]]:
                self._chars += len(pair[1])
                if self._chars > CHARS:
                    raise UnsupportedError(f"more than {CHARS >> 20} MB that are printed while the test listens")
                getattr(sys, pair[0]).write(pair[1])
        for one in listed(header, "warned", WARNINGS) if "warned" in header else ():
            _warn_again(one)
        self._logged.hear(header)

    # ------------------------------------------------------------------ in the student's process

    @contextlib.contextmanager
    def entered(self, header: Mapping[str, Any]) -> Iterator[None]:
        """Meanwhile the process is as a question says."""
        with contextlib.ExitStack() as stack:
            for part in self._parts.values():
                stack.enter_context(part.entered(header))
            if self._judges:
                yield
                return
            for name in listed(header, "listening", len(STREAMS)) if "listening" in header else ():
                if name in STREAMS and not isinstance(getattr(sys, name), Captured):
                    stack.enter_context(self._listened(name))
            if "warnings" in header:
                stack.enter_context(self._warnings(text(header, "warnings")))
            stack.enter_context(self._logged.listened(header))
            if "seeded" in header:
                stack.enter_context(self._as_seeded(listed(header, "seeded")))
            yield

    @contextlib.contextmanager
    def _listened(self, name: str) -> Iterator[None]:
        before = getattr(sys, name)
        setattr(sys, name, Captured(name, self._printed))
        try:
            yield
        finally:
            setattr(sys, name, before)

    @contextlib.contextmanager
    def _warnings(self, how: str) -> Iterator[None]:
        with warnings.catch_warnings():
            warnings.simplefilter("error" if how == "error" else "always")
            warnings.showwarning = self._note_warning  # type: ignore[assignment]  # the rest isn't told
            yield

    def _note_warning(self, message: Any, category: type, *_rest: Any) -> None:
        self._warned.append([[base.__name__[:200] for base in category.__mro__[:32]], str(message)[:2000]])

    @contextlib.contextmanager
    def _as_seeded(self, stands: list[Any]) -> Iterator[None]:
        if stands:
            self._put(stands)
        before = self._drawn()
        try:
            yield
        finally:
            self._drew = self._drew or self._drawn() != before

    def answered(self) -> dict[str, Any]:
        """What a packet of the student's brings along."""
        if self._judges:
            return {}
        said: dict[str, Any] = {"drew": True} if self._drew else {}
        self._drew = False
        for name, kept in (("printed", self._printed), ("warned", self._warned)):
            if kept:
                said[name] = _joined(kept) if name == "printed" else kept[:WARNINGS]
                kept.clear()
        return said | self._logged.answered()

    # ------------------------------------------------------------------ generators

    def _drawn(self) -> list[Any]:
        """Where the generators stand, as JSON can say it."""
        version, items, more = random.getstate()
        stands: list[Any] = [[version, list(items), more]]
        stands += [[name, part.random_state().hex()] for name, part in sorted(self._parts.items())]
        if (numpy := sys.modules.get("numpy")) is not None:
            _, keys, place, has_gauss, gauss = numpy.random.get_state()
            stands.append(["numpy", keys.tolist(), int(place), int(has_gauss), float(gauss)])
        return stands

    def _put(self, stands: list[Any]) -> None:
        own, *rest = stands
        random.setstate((own[0], tuple(own[1]), own[2]))
        for name, *state in rest:
            if name in self._parts:
                self._parts[name].put_random_state(bytes.fromhex(state[0]))
            elif (numpy := sys.modules.get("numpy")) is not None:
                numpy.random.set_state(("MT19937", *state))


def _joined(printed: list[list[str]]) -> list[list[str]]:
    """Neighbours of one stream as one text."""
    found: list[list[str]] = []
    for name, said in printed:
        if found and found[-1][0] == name:
            found[-1][1] += said
        else:
            found.append([name, said])
    return found


def _recorder() -> Any:
    """What is replaced while a test records warnings."""
    return warnings._showwarnmsg_impl  # type: ignore[attr-defined]  # private, and the only sign


def _warn_again(one: Any) -> None:
    """A warning of the other side's as the nearest of Python's own."""
    if type(one) is not list or len(one) != 2 or type(one[0]) is not list or type(one[1]) is not str:
        raise WireError("A warning isn't one.")
    found = [getattr(builtins, name, None) for name in one[0] if type(name) is str]
    known = [kind for kind in found if isinstance(kind, type) and issubclass(kind, Warning)]
    warnings.warn(one[1], known[0] if known else UserWarning, stacklevel=2)
