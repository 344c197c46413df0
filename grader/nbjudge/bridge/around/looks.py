"""What a test may look at of a student's function besides calling it: the text that it was written as, its examples."""

from __future__ import annotations

import inspect
import types
from typing import Any, Protocol

from nbjudge.bridge.values import UnsupportedError

CHARS = 1 << 18
EXAMPLES = "examples in the docstring of {name} that aren't the released ones: they would run beside the tests"


class Knows(Protocol):
    """The judge's side of a conversation."""

    def of(self, op: str, thing: Any, name: str, *given: Any) -> Any:
        """Ask something of a stand-in."""

    def stands_in(self, thing: Any) -> bool:
        """Is it one?"""

    def may_run(self, thing: Any, said: str) -> bool:
        """May a text of its be run as code: is it what the released answer has there?"""


def install(peer: Knows) -> None:
    """In the judge: `inspect.getsource` and `doctest.testmod` know stand-ins, by what they stand for."""
    import doctest  # after the kernel, whose debugger it is derived from

    lines = inspect.getsourcelines
    examples = doctest.DocTestFinder._get_test  # type: ignore[attr-defined]  # the only way in
    belongs = doctest.DocTestFinder._from_module  # type: ignore[attr-defined]  # the only way in

    def getsourcelines(thing: Any) -> tuple[list[str], int]:
        holder, name = _method(thing)
        if peer.stands_in(thing if holder is None else holder):
            said = peer.of("source", thing if holder is None else holder, name or "getsource")
            return str(said).splitlines(keepends=True), 0
        return lines(thing)

    def from_module(self: Any, module: Any, thing: Any) -> bool:
        if getattr(module, "__name__", "") == "__main__" and peer.stands_in(thing):
            return True
        return bool(belongs(self, module, thing))

    def test_of(self: Any, thing: Any, name: str, *rest: Any) -> Any:
        found = examples(self, thing, name, *rest)
        if found is not None and found.examples and peer.stands_in(thing) and not peer.may_run(thing, found.docstring):
            raise UnsupportedError(EXAMPLES.format(name=name[:80]))
        return found

    inspect.getsourcelines = getsourcelines  # type: ignore[assignment]  # meant; its parameter has another name
    doctest.DocTestFinder._from_module = from_module  # type: ignore[attr-defined]  # the same
    doctest.DocTestFinder._get_test = test_of  # type: ignore[attr-defined]  # the same


def _method(thing: Any) -> tuple[Any, str]:
    """What a stand-in for a method belongs to, and its name there."""
    own = vars(thing) if isinstance(thing, types.FunctionType) else {}
    return (own["__self__"], thing.__name__) if "__self__" in own else (None, "")


def source_of(thing: Any, name: str) -> str:
    """In the student's process: the text of a function or class, or of its method."""
    found = thing if name == "getsource" else getattr(thing, name)
    return inspect.getsource(found)[:CHARS]
