"""The line that built a module of torch's: one that writes in place, ends a container, or runs along an axis."""

from __future__ import annotations

import ast
import contextlib
import inspect
import weakref
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from types import FrameType
from typing import Any

from seegrad.capture.probes.places import Source, definitions, is_users, nodes
from seegrad.capture.probes.source_text import called, given_in
from seegrad.capture.probes.torch_private import MODULE_CALL
from seegrad.capture.probes.variables import variables
from seegrad.model.recording import Place

FLAG = "inplace"
"""What modules of torch's that may write in place are told it by."""

ENDINGS = frozenset({"Softmax", "Softmax2d", "Sigmoid", "Tanh", "Softplus", "LogSoftmax", "LogSigmoid"})
"""Modules of torch's that a container often ends with, and a loss may do without."""

RUNNING = frozenset({"LSTM", "GRU", "RNN", "MultiheadAttention"})
RUNNING_INSIDE = frozenset({"TransformerEncoderLayer", "TransformerDecoderLayer", "Transformer"})
"""Modules of torch's that run along one of two axes, told by `batch_first` which; those that make such, told for it."""

CRITERIA = frozenset({"NLLLoss", "KLDivLoss"})
"""Losses that take logarithms of probabilities: of two that are told apart by that alone, one was chosen."""

TELLING = ENDINGS | CRITERIA | RUNNING | RUNNING_INSIDE


class BuiltModules:
    """Of modules of torch's that write in place or run along an axis, since they were built so, or end a container."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._known: dict[int, tuple[weakref.ref[Any], Place | None]] = {}

    def line(self, call: FrameType, user: FrameType, path: str) -> Place | None:
        """The line for the module that is called in `call`, by a line of the user's, and which a path leads to."""
        module = call.f_locals["self"]
        known = self._known.get(id(module))
        if known is None or known[0]() is not module:
            known = self._known[id(module)] = weakref.ref(module), self._look(call, user, path)
        return known[1]

    def _look(self, call: FrameType, user: FrameType, path: str) -> Place | None:
        module = made_whole(call)
        given = list(inspect.signature(type(module)).parameters)
        if not _is_torchs(module) or not (FLAG in given or type(module).__name__ in TELLING):
            return None  # what a module of the user's own writes, a line of it says
        (owner, *_), outermost = [*_owners(call), None], _outermost(call)
        file, parts = user.f_code.co_filename, path.split(".")
        places = [(file, user.f_code.co_firstlineno), (file, 0)]
        if owner is not None:
            names = (name for name, each in owner.named_modules() if each is module)
            parts, places = next(names, "").split("."), list(_constructors(type(owner)))
        else:
            held = [*variables(user), *variables(user.f_globals)]
            parts[0] = next((name for name, each in held if each is outermost), parts[0])
        flag = given.index(FLAG) if vars(module).get(FLAG) else None
        for file, first in places:
            line = built_on(self._source.text(file), first, tuple(parts), type(module).__name__, flag)
            if line is not None:
                return self._source.at(file, line)
        return None


def made_whole(call: FrameType) -> Any:
    """The module that is called; of one that runs along an axis, the outermost of torch's that was told which."""
    found, step = call.f_locals["self"], call.f_back
    while type(found).__name__ in RUNNING | RUNNING_INSIDE and step is not None:
        if step.f_code is MODULE_CALL:
            module = step.f_locals["self"]
            if not _is_torchs(module):
                break
            found = module if type(module).__name__ in RUNNING_INSIDE else found
        step = step.f_back
    return found


def _outermost(call: FrameType) -> Any:
    """The module that the user's line called."""
    found, step = call, call.f_back
    while step is not None:
        found = step if step.f_code is MODULE_CALL else found
        step = step.f_back
    return found.f_locals["self"]


def _owners(call: FrameType) -> Iterator[Any]:
    """The modules of the user's classes in whose call this one's lies, the innermost first."""
    step = call.f_back
    while step is not None:
        if step.f_code is MODULE_CALL and not _is_torchs(step.f_locals["self"]):
            yield step.f_locals["self"]
        step = step.f_back


def _is_torchs(module: Any) -> bool:
    return type(module).__module__.partition(".")[0] == "torch"


def _constructors(kind: type) -> Iterator[tuple[str, int]]:
    """The file and first line of each `__init__` of a class and those it's made of, but for packages'."""
    for each in kind.__mro__:
        code = getattr(vars(each).get("__init__"), "__code__", None)
        if code is not None and is_users(code.co_filename) and "-packages" not in code.co_filename:
            yield code.co_filename, code.co_firstlineno


@lru_cache(maxsize=256)
def built_on(text: str, first: int, path: tuple[str, ...], kind: str, flag: int | None) -> int | None:
    """The line that builds the module of that kind, in place, to which a path leads from what a function stores.

    The function begins on line `first`, 0 for all of the text; `flag`: the place of `inplace` among arguments, None for
    a kind that has none. Where the path is lost, it's the only such line, if there is but one: of the function, else of
    the text.

    >>> text = "net = Sequential(\\n    Linear(2, 2),\\n    ReLU(inplace=True),\\n)\\nother = ReLU(True)\\n"
    >>> built_on(text, 0, ("net", "1"), "ReLU", 0), built_on(text, 0, ("other",), "ReLU", 0)
    (3, 5)
    >>> built_on(text, 0, ("unknown",), "ReLU", 0)
    >>> built_on("for i in n:\\n    layers += [ReLU(True)]\\nnet = Sequential(*layers)", 0, ("net", "0"), "ReLU", 0)
    2
    """
    inside = [each for each in definitions(text) if _first(each) == first]
    scope = list(ast.walk(inside[0])) if inside else list(nodes(text))
    found = [call for call in _led_to(_stored_in(scope), path) if _builds(call, kind, flag)]
    for among in (found, scope, nodes(text)):
        lines = {each.lineno for each in among if isinstance(each, ast.Call) and _builds(each, kind, flag)}
        if len(lines) == 1:
            return lines.pop()
    return None


def _first(definition: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> int:
    return min(each.lineno for each in (definition, *definition.decorator_list))


def _builds(call: ast.Call, kind: str, flag: int | None) -> bool:
    """Does this call build one of that kind, which writes in place if it may?"""
    if flag is None or called(call.func) != kind:
        return called(call.func) == kind
    given = [each.value for each in call.keywords if each.arg == FLAG] or call.args[flag : flag + 1]
    off = any(isinstance(each, ast.Constant) and not each.value for each in given)
    return bool(given) and not off


def _stored_in(scope: Iterable[ast.AST]) -> dict[str, list[ast.expr]]:
    """Variable or attribute → all that is stored into it."""
    found: dict[str, list[ast.expr]] = {}
    for each in scope:
        for target, value in given_in(each):
            found.setdefault(called(target), []).append(value)
    return found


def _led_to(stored: dict[str, list[ast.expr]], path: Sequence[str]) -> list[ast.Call]:
    """The calls that may have built what the path leads to."""
    found = stored.get(path[0], [])
    for part in path[1:]:
        found = [item for each in found if (item := _item(each, part, stored)) is not None]
    return [each for each in found if isinstance(each, ast.Call)]


def _item(container: ast.expr, part: str, stored: dict[str, list[ast.expr]]) -> ast.expr | None:
    """What a Sequential or a ModuleList was given in that place."""
    if not isinstance(container, ast.Call):
        return None
    given = list(_one_by_one(container.args, stored))
    with contextlib.suppress(ValueError, IndexError):
        return given[int(part)]
    return None


def _one_by_one(arguments: Sequence[ast.expr], stored: dict[str, list[ast.expr]]) -> Iterator[ast.expr]:
    """Arguments one by one, as far as they can be told: those of a list, and of `*layers` where that is stored once."""
    waiting = list(arguments)
    while waiting:
        each = waiting.pop(0)
        inner = each.value if isinstance(each, ast.Starred) else each
        once = stored.get(inner.id, []) if isinstance(inner, ast.Name) else []
        inner = once[0] if len(once) == 1 else inner
        if isinstance(inner, ast.List | ast.Tuple):
            waiting[:0] = inner.elts
        elif isinstance(each, ast.Starred):
            return
        else:
            yield inner
