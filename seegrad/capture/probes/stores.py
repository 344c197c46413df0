"""Which line gave a variable or an attribute what it holds, by the instructions that store into it; which built a
module that writes in place, by its text."""

from __future__ import annotations

import ast
import contextlib
import dis
import inspect
import re
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any

from seegrad.capture.probes import torch_private as _torch
from seegrad.capture.probes.places import Source, definitions, is_users, nodes
from seegrad.model.recording import Place

IDENTIFIER = re.compile(r"[^\W\d]\w*")


@dataclass(slots=True)
class Bound:
    """`lines`: variable → the line that gave it what it holds; `names`: argument → its caller's name."""

    lines: dict[str, Place] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)


def bound(source: Source, frames: Sequence[FrameType]) -> Bound:
    """Of the variables in these functions under way; the innermost one's count.

    What a function was given, one of those that called it has bound, under whatever name.
    """
    found, outer, given = Bound(), Bound(), dict[int, str]()
    for frame in frames:
        lines = {name: source.place_at(frame, line) for name, line in rounds(frame.f_code, frame.f_lasti).items()}
        arguments, held = set(_arguments(frame.f_code)) - lines.keys(), frame.f_locals
        passed = {name: given[id(held[name])] for name in sorted(arguments) if id(held.get(name)) in given}
        lines |= {name: outer.lines[known] for name, known in passed.items()}
        outer = Bound(lines, {name: outer.names.get(known, known) for name, known in passed.items()})
        given = {id(held[name]): name for name in lines if held.get(name) is not None}
        shadowed = lines.keys() | arguments
        found.lines = {name: place for name, place in found.lines.items() if name not in shadowed} | lines
        found.names = {name: known for name, known in found.names.items() if name not in shadowed} | outer.names
    return found


def _arguments(code: CodeType) -> tuple[str, ...]:
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def stored_at(code: CodeType, name: str, now: int) -> int | None:
    """The line of the last store into `name` before the instruction at `now`, or of all where a loop has come round.

    >>> code = compile("p = 1\\nq = 2\\np = 3\\nprint(p)\\n", "example", "exec")
    >>> stored_at(code, "p", 10**6), stored_at(code, "p", 8), stored_at(code, "head.weight", 10**6)
    (3, 1, None)
    """
    found = stores(code, now)
    return next((found[part] for part in reversed(IDENTIFIER.findall(name)) if part in found), None)


def stores(code: CodeType, now: int) -> dict[str, int]:
    """Variable or attribute → the line of the last store into it before the instruction at `now`, or of all.

    >>> stores(compile("p = 1\\nq.r = 2\\np = 3\\n", "example", "exec"), 8)
    {'r': 2, 'p': 1}
    """
    return _last(dis.get_instructions(code), now)


def rounds(code: CodeType, now: int) -> dict[str, int]:
    """The same where a lap has gone before: what the loop around it stores comes later than what that began with.

    >>> code = compile("h = 0\\nfor x in y:\\n    f(h)\\n    h = g(h)\\n", "example", "exec")
    >>> call = next(each.offset for each in dis.get_instructions(code) if each.opname.startswith("CALL"))
    >>> stores(code, call)["h"], rounds(code, call)["h"]
    (1, 4)
    """
    found = stores(code, now)
    for begin, end in _loops(code, now):
        found |= _last([each for each in dis.get_instructions(code) if begin <= each.offset <= end], now)
    return found


def _loops(code: CodeType, now: int) -> list[tuple[int, int]]:
    """First and last instruction of each loop around the one at `now`, the outermost first."""
    ends: dict[int, int] = {}
    for each in dis.get_instructions(code):
        if "JUMP_BACKWARD" in each.opname and "NO_INTERRUPT" not in each.opname:
            ends[each.argval] = each.offset
    return sorted((begin, end) for begin, end in ends.items() if begin <= now <= end)


def _last(instructions: Iterable[dis.Instruction], now: int) -> dict[str, int]:
    before, found = dict[str, int](), dict[str, int]()
    for each in instructions:
        line = each.positions.lineno if each.positions else None
        if line is not None:
            (before if each.offset < now else found).update(dict.fromkeys(_stored(each), line))
    return found | before


def _stored(instruction: dis.Instruction) -> tuple[str, ...]:
    """What an instruction stores into: some store two, or store one and load another."""
    name, given = instruction.opname, instruction.argval
    if not name.startswith("STORE_") or name in ("STORE_SUBSCR", "STORE_SLICE"):
        return ()
    if isinstance(given, tuple):
        return tuple(given[: name.count("STORE_FAST")])
    return (given,) if isinstance(given, str) else ()


# -- the line that built a module


FLAG = "inplace"
"""What modules of torch's that may write in place are told it by."""


class BuiltModules:
    """Of modules of torch's that write in place, since they were built so: the lines that built them."""

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
        module = call.f_locals["self"]
        if not _is_torchs(module) or FLAG not in inspect.signature(type(module)).parameters:
            return None  # what a module of the user's own writes, a line of it says
        (owner, *_) = [*_owners(call), None]
        parts, places = path.split("."), [(user.f_code.co_filename, 0)]
        if owner is not None:
            names = (name for name, each in owner.named_modules() if each is module)
            parts, places = next(names, "").split("."), list(_constructors(type(owner)))
        flag = list(inspect.signature(type(module)).parameters).index(FLAG)
        for file, first in places:
            line = built_on(self._source.text(file), first, tuple(parts), type(module).__name__, flag)
            if line is not None:
                return self._source.at(file, line)
        return None


def _owners(call: FrameType) -> Iterator[Any]:
    """The modules of the user's classes in whose call this one's lies, the innermost first."""
    step = call.f_back
    while step is not None:
        if step.f_code is _torch.MODULE_CALL and not _is_torchs(step.f_locals["self"]):
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
def built_on(text: str, first: int, path: tuple[str, ...], kind: str, flag: int) -> int | None:
    """The line that builds the module of that kind, in place, to which a path leads from what a function stores.

    The function begins on line `first`, 0 for all of the text; `flag`: the place of `inplace` among arguments. Where
    the path is lost, it's the only such line, if there is but one: of the function, else of the text.

    >>> text = "net = Sequential(\\n    Linear(2, 2),\\n    ReLU(inplace=True),\\n)\\nother = ReLU(True)\\n"
    >>> built_on(text, 0, ("net", "1"), "ReLU", 0), built_on(text, 0, ("other",), "ReLU", 0)
    (3, 5)
    >>> built_on(text, 0, ("unknown",), "ReLU", 0)
    >>> built_on("for i in n:\\n    layers += [ReLU(True)]\\nnet = Sequential(*layers)", 0, ("net", "0"), "ReLU", 0)
    2
    """
    inside = [each for each in definitions(text) if _first(each) == first]
    scope = list(ast.walk(inside[0])) if inside else list(nodes(text))
    found = [call for call in _led_to(_stored_in(scope), path) if _in_place(call, kind, flag)]
    for among in (found, scope, nodes(text)):
        lines = {each.lineno for each in among if isinstance(each, ast.Call) and _in_place(each, kind, flag)}
        if len(lines) == 1:
            return lines.pop()
    return None


def _first(definition: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> int:
    return min(each.lineno for each in (definition, *definition.decorator_list))


def _in_place(call: ast.Call, kind: str, flag: int) -> bool:
    """Does this call build one of that kind which writes in place?"""
    given = [each.value for each in call.keywords if each.arg == FLAG] or call.args[flag : flag + 1]
    off = any(isinstance(each, ast.Constant) and not each.value for each in given)
    return bool(given) and not off and _called(call) == kind


def _called(call: ast.Call) -> str:
    return str(getattr(call.func, "attr", getattr(call.func, "id", "")))


def _stored_in(scope: Iterable[ast.AST]) -> dict[str, list[ast.expr]]:
    """Variable or attribute → all that is stored into it."""
    found: dict[str, list[ast.expr]] = {}
    for each in scope:
        targets = (
            each.targets if isinstance(each, ast.Assign) else [each.target] if isinstance(each, ast.AnnAssign) else []
        )
        for target in targets:
            name = str(getattr(target, "attr", getattr(target, "id", "")))
            found.setdefault(name, []).append(each.value)  # type: ignore[attr-defined]  # both have one
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
    given = list(_given(container.args, stored))
    with contextlib.suppress(ValueError, IndexError):
        return given[int(part)]
    return None


def _given(arguments: Sequence[ast.expr], stored: dict[str, list[ast.expr]]) -> Iterator[ast.expr]:
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
