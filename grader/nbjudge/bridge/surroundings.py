"""What a call takes along of the process around it: grad mode, dtype, seeded generators, redirected prints, warnings.

In one process a test that redirects stdout, records warnings or seeds a generator reaches the student's functions; so
it does here. Only the judge tells; nothing of the student's process moves the judge's generators or streams' owners.
"""

from __future__ import annotations

import base64
import builtins
import contextlib
import io
import random
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from nbjudge.bridge.libraries import find_by_name, name_in_library
from nbjudge.bridge.values import UnsupportedError
from nbjudge.errors import WireError
from nbjudge.wire import listed, text

DTYPES = {str(dtype): dtype for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64)}
PRINTED_CHARS = 1 << 20
WARNED = 100
REPLACED = ("input", "print", "open")
SEEDING = tuple((module, name) for module in (torch, torch.random) for name in ("manual_seed", "set_rng_state"))
_SHOW_WARNING = warnings._showwarnmsg_impl  # type: ignore[attr-defined]  # replaced while a test records warnings


def generator_states() -> dict[str, bytes]:
    """The states of the random generators that a cell is likely to use."""
    states = {"torch": torch.get_rng_state().numpy().tobytes(), "random": repr(random.getstate()).encode()}
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        _, keys, place, *_ = numpy.random.get_state()
        states["numpy"] = keys.tobytes() + int(place).to_bytes(4, "big")
    return states


def set_generator_states(states: Mapping[str, bytes]) -> None:
    """Put the generators where they stand in the judge's process."""
    if "torch" in states:
        torch.set_rng_state(torch.frombuffer(bytearray(states["torch"]), dtype=torch.uint8))
    if "random" in states:
        version, *rest = states["random"].decode().strip("()").split(",", 1)
        numbers = [int(part) for part in rest[0].replace("(", "").replace(")", "").split(",")[:625]]
        random.setstate((int(version), tuple(numbers), None))
    numpy = sys.modules.get("numpy")
    if "numpy" in states and numpy is not None:
        keys = numpy.frombuffer(states["numpy"][:-4], dtype=numpy.uint32)
        numpy.random.set_state(("MT19937", keys, int.from_bytes(states["numpy"][-4:], "big")))


@dataclass(slots=True)
class Surroundings:
    """The judge's side: what is told with each question, and what is heard with each answer."""

    streams: tuple[Any, Any] | None = None  # sys.stdout and sys.stderr as they are when nobody redirects them
    _told: dict[str, bytes] = field(default_factory=dict)
    _seeded: bool = False
    _builtins: tuple[Any, ...] = ()

    def begin(self) -> None:
        """A new question: it hasn't seeded or replaced anything itself."""
        self._seeded = False
        self._builtins = tuple(getattr(builtins, name) for name in REPLACED)

    def watch(self) -> None:
        """From here on a test that seeds a generator seeds the student's too."""
        self.streams = (sys.stdout, sys.stderr)
        for module, name in (*SEEDING, (random, "seed"), (random, "setstate")):
            setattr(module, name, self._noting(getattr(module, name)))
        if (numpy := sys.modules.get("numpy")) is not None:
            for name in ("seed", "set_state"):
                setattr(numpy.random, name, self._noting(getattr(numpy.random, name)))

    def _noting(self, seed: Callable[..., Any]) -> Callable[..., Any]:
        def seeding(*args: Any, **kwargs: Any) -> Any:
            self._seeded, self._told = True, {}
            return seed(*args, **kwargs)

        return seeding

    def told(self) -> dict[str, Any]:
        """What the next question takes along.

        Raises:
            UnsupportedError: the test has put something in place of a function that only the student's process uses.
        """
        for name, before in zip(REPLACED, self._builtins, strict=False):
            if getattr(builtins, name) is not before:
                raise UnsupportedError(f"asked while the test has replaced Python's own {name}()")
        said: dict[str, Any] = {"grad": torch.is_grad_enabled(), "dtype": str(torch.get_default_dtype())}
        if self.streams is not None and (sys.stdout, sys.stderr) != self.streams:
            said["capture"] = True
        strict = bool(warnings.filters) and warnings.filters[0][0] == "error"
        if strict or warnings._showwarnmsg_impl is not _SHOW_WARNING:  # type: ignore[attr-defined]  # see above
            said["warnings"] = True
        if self._seeded:
            states = generator_states()
            moved = {name: state for name, state in states.items() if self._told.get(name) != state}
            self._told = states
            said["random"] = {name: base64.b64encode(state).decode() for name, state in moved.items()}
        return said

    def heard(self, reply: Mapping[str, Any]) -> None:
        """What was printed and warned over there belongs where this process prints and warns."""
        if "printed" in reply and self.streams is not None:
            printed = listed(reply, "printed", 2)
            for stream, own, said in zip((sys.stdout, sys.stderr), self.streams, printed, strict=False):
                if stream is not own and type(said) is str:
                    stream.write(said)
        for warned in listed(reply, "warned", WARNED) if "warned" in reply else ():
            if type(warned) is not dict:
                raise WireError("A warning isn't one.")
            category = find_by_name(text(warned, "category"))
            if not isinstance(category, type) or not issubclass(category, Warning):
                raise WireError("A warning has no category.")
            warnings.warn(text(warned, "text", 2000), category, stacklevel=4)


class Around:
    """The student's side: one answer, given as if in the judge's surroundings."""

    def __init__(self, said: Mapping[str, Any]) -> None:
        self._said = said
        self._streams: tuple[io.StringIO, io.StringIO] | None = None
        self._warned: list[warnings.WarningMessage] = []

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Meanwhile the process is as the question says."""
        default = torch.get_default_dtype()
        wanted = DTYPES.get(str(self._said.get("dtype")), default)
        states = self._said.get("random")
        if type(states) is dict:
            set_generator_states({name: base64.b64decode(state) for name, state in states.items()})
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch.set_grad_enabled(self._said.get("grad") is not False))
            if wanted is not default:
                torch.set_default_dtype(wanted)
                stack.callback(torch.set_default_dtype, default)
            if self._said.get("capture") is True:
                self._streams = (io.StringIO(), io.StringIO())
                stack.enter_context(contextlib.redirect_stdout(self._streams[0]))
                stack.enter_context(contextlib.redirect_stderr(self._streams[1]))
            if self._said.get("warnings") is True:
                self._warned = stack.enter_context(warnings.catch_warnings(record=True))
                warnings.simplefilter("always")
            yield

    def left(self) -> dict[str, Any]:
        """What was printed and warned meanwhile, for the reply."""
        said: dict[str, Any] = {}
        if self._streams is not None:
            said["printed"] = [stream.getvalue()[:PRINTED_CHARS] for stream in self._streams]
        if self._warned:
            said["warned"] = [_warning(warned) for warned in self._warned[:WARNED]]
        return said


def _warning(warned: warnings.WarningMessage) -> dict[str, str]:
    names = (name_in_library(base) for base in warned.category.__mro__)
    known = next((name for name in names if name is not None and name.endswith("Warning")), "builtins.Warning")
    return {"category": known, "text": str(warned.message)[:2000]}
