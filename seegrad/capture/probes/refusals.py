"""What the user's text says of what torch has just refused: read once the error is there, never while all goes well."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from types import CodeType, FrameType
from typing import Any

import torch
from torch.utils import hooks

from seegrad.capture.probes.places import Source, around, definitions, is_users, nodes
from seegrad.capture.probes.stores import stored_at
from seegrad.capture.probes.variables import is_a
from seegrad.model.recording import Clue, Place

SAID_ELSEWHERE = (
    *("once_differentiable", "where no input requires gradient", "created inside a custom Function"),
    *("hook returned", "has returned an incorrect number", "has changed the"),
)
"""Cores of the errors whose reason stands in the user's text."""

REGISTERS = re.compile(r"\.register_(?:full_)?backward_(?:pre_)?hook\(")
CLASS = re.compile(r"\s*class (\w+)\b")
DRAWS = re.compile(
    r"(?<![\w.])(?:(?:random|(?:np|numpy)\.random|(?:\w+\.)*_?rng)\.\w+|random|randint|randrange|uniform|choice)\("
)
"""Code that draws by Python's `random` or numpy, of which torch doesn't know."""

NAMED = re.compile(r"hook '([^']*)'")
CALLING = "user_pre_hook", "hook"
"""What torch's functions that call a module's hooks call the one that they call."""

GRAPHLESS = "does not require grad and does not have a grad_fn"
"""What torch says of a loss without a graph."""

LEAVES = ast.Return | ast.Raise | ast.Continue | ast.Break
Decision = ast.If | ast.IfExp | ast.While
MARK = re.compile(r"\s*@[\w.]*once_differentiable\b")


def said_of_refused(source: Source, error: BaseException, frames: Sequence[FrameType], at: int) -> list[Clue]:
    """The lines, in the files of the functions under way, that may be to blame after Frame `at`; their own come first.

    `registers`: it puts a backward hook on a module. `once`: it marks the backward of Function `owner`. `returns`: the
    hook that was refused returns there.
    """
    files = dict.fromkeys(frame.f_code.co_filename for frame in reversed(frames))
    returning = _refused_hook(source, error) or _named_hook(source, error, files)
    found = [each for file in files for each in _said(source, file, at)]
    own = [(code.co_filename, _lines(code)) for code in (frame.f_code for frame in frames)]
    said = sorted(
        found, key=lambda each: not any(each.place.file == file and each.place.line in on for file, on in own)
    )
    return said if returning is None else [*said, Clue("returns", at, returning[1], (), (("hook", returning[0]),))]


def _refused_hook(source: Source, error: BaseException) -> tuple[str, Place] | None:
    """(name, the line that returns) of a module's hook, where the error came from torch's function that calls it."""
    step = error.__traceback__
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    if step is None or step.tb_frame.f_code.co_filename != hooks.__file__:
        return None
    hook = next((held for each in CALLING if (held := step.tb_frame.f_locals.get(each)) is not None), None)
    code = getattr(getattr(hook, "__func__", hook), "__code__", None)
    if not isinstance(code, CodeType):
        return None
    begins = min(_lines(code), default=code.co_firstlineno)
    found = [each for each in _functions(source, code.co_filename) if each.name == code.co_name]
    lines = _returns([each for each in found if each.lineno <= begins <= (each.end_lineno or 0)])
    line = min(lines) if len(lines) == 1 else code.co_firstlineno
    return code.co_name, source.at(code.co_filename, line)


def _named_hook(source: Source, error: BaseException, files: Iterable[str]) -> tuple[str, Place] | None:
    """The same of the only function of the name that the error says."""
    said = NAMED.search(str(error))
    name = said[1].rpartition(".")[2] if said is not None else ""
    found = [(file, each) for file in files for each in _functions(source, file) if each.name == name]
    lines = _returns([each for _, each in found]) if len(found) == 1 else set()
    return (name, source.at(found[0][0], min(lines))) if len(lines) == 1 else None


def _functions(source: Source, file: str) -> list[ast.FunctionDef]:
    return [each for each in definitions(source.text(file)) if isinstance(each, ast.FunctionDef)]


def _returns(functions: Iterable[ast.FunctionDef]) -> set[int]:
    """The lines on which these return something."""
    every = (node for function in functions for node in ast.walk(function))
    return {node.lineno for node in every if isinstance(node, ast.Return) and node.value is not None}


def _said(source: Source, file: str, at: int) -> Iterator[Clue]:
    owner = ""
    for number, text in enumerate(source.text(file).splitlines(), 1):
        named = CLASS.match(text)
        owner = named[1] if named is not None else owner
        if REGISTERS.search(text) and not text.lstrip().startswith("#"):
            yield Clue("registers", at, source.at(file, number), ())
        elif MARK.match(text):
            yield Clue("once", at, source.at(file, number), (), (("owner", owner),))


def _lines(code: CodeType) -> range:
    """Those of a function; of a module none, since all are."""
    numbers = [line for _, _, line in code.co_lines() if line is not None] if code.co_name != "<module>" else []
    return range(min(numbers, default=0), max(numbers, default=-1) + 1)


def drawn_by(source: Source, reached: Place) -> Place | None:
    """The line that draws what decides whether that one is reached, or itself; not by torch."""
    if DRAWS.search(reached.code):
        return reached
    for each in _deciding(source, reached):
        if DRAWS.search(ast.unparse(each.test)):
            return source.at(reached.file, each.test.lineno)
        names = {node.id for node in ast.walk(each.test) if isinstance(node, ast.Name)}
        sets = (node for node in _around(source, reached) if isinstance(node, ast.Assign) and node.lineno < each.lineno)
        gave = [node for node in sets if any(isinstance(to, ast.Name) and to.id in names for to in node.targets)]
        last = max(gave, key=lambda node: node.lineno, default=None)
        if last is not None and DRAWS.search(ast.unparse(last.value)):
            return source.at(reached.file, last.lineno)
    return None


def decided_by(source: Source, reached: Place) -> Place | None:
    """The line that decides whether that one is reached: the nearest `if` around it, or before it that leaves."""
    found = next(_deciding(source, reached), None)
    return None if found is None else source.at(reached.file, found.test.lineno)


def _deciding(source: Source, reached: Place) -> Iterator[Decision]:
    """Nearest first: those around the line, and those before it by which the function, or a loop's turn, may end."""
    before = [node for node in _around(source, reached) if isinstance(node, Decision) and node.lineno <= reached.line]
    for node in sorted(before, key=lambda node: node.lineno, reverse=True):
        if reached.line <= (node.end_lineno or 0) or any(isinstance(each, LEAVES) for each in ast.walk(node)):
            yield node


def switched_off(source: Source, frames: Sequence[FrameType], name: str) -> Place | None:
    """The line that sets an argument to False, of what the innermost of these functions calls; else that call's.

    It stands in a call under way; else nobody else does so in these functions, or in their files.
    """
    frames = [frame for frame in frames if "-packages" not in frame.f_code.co_filename] or list(frames)
    said = {frame.f_code.co_filename: _settings(source.text(frame.f_code.co_filename), name) for frame in frames}
    around = [(frame, each) for frame in reversed(frames) for each in said[frame.f_code.co_filename]]
    now = [(frame, each) for frame, each in around if frame.f_lineno in each.lines]
    own = [(frame, each) for frame, each in around if each.line in _lines(frame.f_code)]
    for found in (now[:1], own, around):
        off = dict.fromkeys(source.place_at(frame, each.line) for frame, each in found if each.is_off)
        if len(off) == 1:
            return next(iter(off))
    passed = dict.fromkeys(source.place_at(frame, each.line) for frame, each in now or around if not each.is_off)
    return next(iter(passed)) if len(passed) == 1 else source.place(frames[-1]) if frames else None


@dataclass(frozen=True, slots=True)
class Setting:
    """On this line an argument is given or set, in a statement or call on these `lines`; is it to False?"""

    line: int
    lines: range
    is_off: bool


@lru_cache(maxsize=8)
def _settings(text: str, name: str) -> tuple[Setting, ...]:
    """Where an argument of that name is given or set, but to True.

    >>> [(each.line, each.is_off) for each in _settings("f(a=g,\\n  b=False)\\nb = False\\nf(b=b)\\nf(b=True)", "b")]
    [(3, True), (2, True), (4, False)]
    """
    return tuple(_set_in(text, name))


def _set_in(text: str, name: str) -> Iterator[Setting]:
    for each in nodes(text):
        for value in _values(each, name):
            if value is not None and not _is(value, True):
                part = value if isinstance(each, ast.FunctionDef) or not isinstance(each, ast.stmt | ast.expr) else each
                lines = range(part.lineno, (part.end_lineno or part.lineno) + 1)
                yield Setting(value.lineno, lines, _is(value, False))


def _values(node: ast.AST, name: str) -> list[ast.expr | None]:
    match node:
        case ast.Assign(targets, value):
            return [value for target in targets if _ends_in(target, name)]
        case ast.Call(keywords=words):
            return [word.value for word in words if word.arg == name]
        case ast.Dict(keys, values):
            pairs = zip(keys, values, strict=True)
            return [value for key, value in pairs if key is not None and _is(key, name)]
        case ast.FunctionDef(args=given):
            return [value for word, value in _defaults(given) if word == name]
    return []


def _defaults(given: ast.arguments) -> list[tuple[str, ast.expr | None]]:
    plain = [*given.posonlyargs, *given.args]
    last = plain[len(plain) - len(given.defaults) :]
    pairs = [*zip(last, given.defaults, strict=True), *zip(given.kwonlyargs, given.kw_defaults, strict=True)]
    return [(each.arg, value) for each, value in pairs]


def _ends_in(target: ast.expr, name: str) -> bool:
    match target:
        case ast.Name(found) | ast.Attribute(attr=found) | ast.Subscript(slice=ast.Constant(found)):
            return found == name
    return False


def _is(value: ast.expr, what: object) -> bool:
    return isinstance(value, ast.Constant) and value.value == what and type(value.value) is type(what)


# -- a plain number where a tensor was to be: nobody has seen how it came to that, so its text is asked

NUMBERS = frozenset({"item", "tolist", "float", "int", "round"})
"""Calls that make a plain number of a tensor."""

PASSING = frozenset({"sum", "max", "min", "abs"})
"""Calls of Python's own, whose result is a number where all that they are given is."""

MOST = 200
"""So many expressions are read."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """An expression in a function of a file (None: outside of any), and which of the values that it gives is meant.

    `through`: the line that returned it as one of several, if any did.
    """

    value: ast.expr
    file: str
    function: ast.FunctionDef | None
    item: int | None = None
    through: Place | None = None


def number_from(source: Source, frame: FrameType, asked: str) -> tuple[str, Place] | None:
    """The one line that makes a number of what the line under way asks for an attribute: `number`.

    Where several may have, that which returns it among others to one who took it for another of them: `handed`.
    """
    file, line = frame.f_code.co_filename, frame.f_lineno
    inside = _function_at(source, file, line) if frame.f_code.co_name != "<module>" else None
    parts = (each for each in nodes(source.text(file)) if isinstance(each, ast.Attribute) and each.attr == asked)
    waiting = [_Asked(each.value, file, inside) for each in parts if each.lineno <= line <= (each.end_lineno or line)]
    found, seen = dict[Place, Place | None](), set[tuple[int, int | None]]()
    for each in waiting:  # grows while it's read
        if (id(each.value), each.item) not in seen and len(seen) < MOST:
            seen.add((id(each.value), each.item))
            if _is_number(each.value):
                found[source.at(each.file, each.value.lineno)] = each.through
            else:
                waiting += _comes_of(source, each, frame)
    ways = set(found.values())
    handed = next(iter(ways)) if len(ways) == 1 else None
    return ("number", next(iter(found))) if len(found) == 1 else ("handed", handed) if handed is not None else None


def _is_number(value: ast.expr) -> bool:
    match value:
        case ast.Constant(int() | float()):
            return True
        case ast.Call(ast.Name(name) | ast.Attribute(attr=name)) | ast.Call(ast.Attribute(ast.Name(name))):
            return name in NUMBERS or ast.unparse(value.func).startswith(("np.", "numpy.", "math."))
    return False


def _comes_of(source: Source, asked: _Asked, frame: FrameType) -> list[_Asked]:
    """The expressions of which one that is a number may come."""
    value, on = asked.value, partial(_Asked, file=asked.file, function=asked.function, through=asked.through)
    match value:
        case ast.IfExp():
            return [on(value.body), on(value.orelse)]
        case ast.UnaryOp(operand=part):
            return [on(part)]
        case ast.BinOp(left=left, right=right):
            terms = [part for part in (left, right) if not isinstance(part, ast.Constant)]
            return [on(part) for part in terms or (left,)]
        case ast.Tuple(elts=parts) if asked.item is not None and asked.item < len(parts):
            return [on(parts[asked.item])]
        case ast.Name(id=name):
            return _assigned(source, asked, name)
        case ast.Call(func=ast.Name(id=name), args=given) if name in PASSING:
            return [on(part) for part in given]
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return _returned(source, asked, name, frame)
    return []


def _assigned(source: Source, asked: _Asked, name: str) -> list[_Asked]:
    """What a variable is given in its function, or outside of any."""
    found = list[_Asked]()
    for each in ast.walk(asked.function) if asked.function is not None else nodes(source.text(asked.file)):
        match each:
            case ast.Assign(targets=[ast.Name(id=to)], value=value) if to == name:
                found.append(replace(asked, value=value))
            case ast.AugAssign(target=ast.Name(id=to), value=value) if to == name:
                found += [] if isinstance(value, ast.Constant) else [replace(asked, value=value)]
            case ast.Assign(targets=[ast.Tuple(elts=parts)], value=value):
                at = next((at for at, part in enumerate(parts) if isinstance(part, ast.Name) and part.id == name), None)
                found += [] if at is None else [replace(asked, value=value, item=at)]
    return found


def _returned(source: Source, asked: _Asked, name: str, frame: FrameType) -> list[_Asked]:
    """What a function of the user's returns: the only one of that name in the file, or of a module that is called."""
    functions = [each for each in definitions(source.text(asked.file)) if isinstance(each, ast.FunctionDef)]
    named, file = [each for each in functions if each.name == name], asked.file
    if not named and asked.file == frame.f_code.co_filename:
        held = frame.f_locals.get(name, frame.f_globals.get(name))
        code = getattr(getattr(held, "forward", held), "__code__", None)
        if isinstance(code, CodeType) and is_users(code.co_filename):
            file = code.co_filename
            within = _function_at(source, file, max(_lines(code), default=0))
            named = [] if within is None else [within]
    returns = [each for each in ast.walk(named[0]) if isinstance(each, ast.Return)] if len(named) == 1 else []
    given = [_Asked(each.value, file, named[0], asked.item, asked.through) for each in returns if each.value]
    return [replace(each, through=_among_others(source, each)) for each in given]


def _among_others(source: Source, asked: _Asked) -> Place | None:
    several = isinstance(asked.value, ast.Tuple) and asked.item is not None
    return source.at(asked.file, asked.value.lineno) if several else asked.through


def _function_at(source: Source, file: str, line: int) -> ast.FunctionDef | None:
    functions = (each for each in definitions(source.text(file)) if isinstance(each, ast.FunctionDef))
    around = [each for each in functions if each.lineno < line <= (each.end_lineno or 0)]
    return max(around, key=lambda each: each.lineno, default=None)


def _around(source: Source, place: Place) -> Iterator[ast.AST]:
    """All that stands in the innermost function around a line."""
    functions = [each for each in definitions(source.text(place.file)) if not isinstance(each, ast.ClassDef)]
    around = [each for each in functions if each.lineno < place.line <= (each.end_lineno or 0)]
    return ast.walk(max(around, key=lambda each: each.lineno)) if around else iter(())


def computed_off(source: Source, error: BaseException) -> Place | None:
    """Of a gradient that code of the user's asks for while a backward runs: the line that computed what it's of.

    That is the last one of the function that asks which gives it to the variable; none where gradients were on there.
    """
    step, asks = error.__traceback__, None
    while step is not None:
        asks, step = step if is_users(step.tb_frame.f_code.co_filename) else asks, step.tb_next
    if asks is None or GRAPHLESS not in str(error):
        return None
    frame, file = asks.tb_frame, asks.tb_frame.f_code.co_filename
    names = set(_asked_of(source.text(file), asks.tb_lineno))
    name = names.pop() if len(names) == 1 else ""
    held, line = frame.f_locals.get(name), stored_at(frame.f_code, name, asks.tb_lasti)
    if line is None or not isinstance(held, torch.Tensor) or held.requires_grad:
        return None
    statement = around(source.text(file), line)
    computed = isinstance(statement[-1], ast.Assign | ast.AnnAssign | ast.AugAssign) and any(
        isinstance(each, ast.Call | ast.BinOp) for each in ast.walk(statement[-1])
    )
    return source.at(file, line) if computed and not any(map(_switches_on, statement)) else None


def _asked_of(text: str, line: int) -> Iterator[str]:
    """The variables whose gradient the calls on a line ask for: of `grad(y, x)` and of `y.backward()` it's `y`."""
    for each in nodes(text):
        if isinstance(each, ast.Call) and each.lineno <= line <= (each.end_lineno or 0):
            match each:
                case ast.Call(func=ast.Attribute(attr="grad") | ast.Name(id="grad"), args=[ast.Name(id=name), *_]):
                    yield name
                case ast.Call(func=ast.Attribute(attr="backward", value=ast.Name(id=name))) if name != "autograd":
                    yield name


def _switches_on(statement: ast.AST) -> bool:
    """`with torch.enable_grad():`, or whatever else may switch gradients on."""
    return isinstance(statement, ast.With) and "grad" in ast.unparse(statement.items[0])


def refused(error: BaseException) -> torch.Tensor | None:
    """The tensor that an optimiser has just refused, or whose sparse gradient: its error doesn't say which."""
    step = error.__traceback__
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    if step is None or is_users(step.tb_frame.f_code.co_filename):
        return None
    held = step.tb_frame.f_locals
    if step.tb_frame.f_code.co_name == "add_param_group":
        found = held.get("param")
        return found if is_a(found, torch.Tensor) else None
    own = str(step.tb_frame.f_globals.get("__name__")).startswith("torch.optim.")
    leaf: Any = held.get("p") if own else None
    is_sparse = is_a(leaf, torch.Tensor) and leaf.grad is not None and leaf.grad.is_sparse
    return leaf if is_sparse else None
