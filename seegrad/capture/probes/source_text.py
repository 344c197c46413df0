"""Where the user's text does what no call shows: sets an attribute, puts something into a list."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import CodeType, FrameType, FunctionType

import torch

from seegrad.capture.probes.places import Source, definitions, nodes
from seegrad.capture.probes.stores import stores
from seegrad.model.recording import Place

Text = tuple[str, ast.AST]
"""A file, and the tree to look through."""

COLLECTIONS = re.compile(r"([\w.]+)\[")
"""`before` in `grad - before[0]`."""

MOST_HANDS = 8
"""From so many functions to the next is followed what they hand back."""

PUTS = frozenset({"append", "appendleft", "extend", "insert", "add", "update", "setdefault", "put"})
"""Methods that put something into a collection."""


def texts(source: Source, frames: Sequence[FrameType], module: torch.nn.Module | None, word: str = "") -> list[Text]:
    """(file, tree) to look through: the functions under way, the innermost first, the module's class, whole files.

    Of files in which the word stands: to parse one costs as much as a thousand calls of torch that are recorded.
    """
    frames = [frame for frame in frames if word in source.text(frame.f_code.co_filename)]
    codes = [each.__code__ for each in methods(type(module))] if module is not None else []
    codes = [code for code in codes if word in source.text(code.co_filename)]
    own = {id(tree): (file, tree) for code in codes for file, tree in _class_around(source, code)}
    files = dict.fromkeys(code.co_filename for code in (*(frame.f_code for frame in reversed(frames)), *codes))
    wholes = [(file, each) for file in files for each in nodes(source.text(file))[:1]]
    return [*under_way(source, frames), *own.values(), *wholes]


def methods(kind: type) -> list[FunctionType]:
    """A module's methods, its own class's first: they tell where it stands, in a notebook's cell too."""
    kinds = [each for each in kind.__mro__ if each not in (torch.nn.Module, object)]
    functions = [inspect.unwrap(own) for each in kinds for own in vars(each).values() if isinstance(own, FunctionType)]
    return [each for each in functions if isinstance(each, FunctionType)]


def under_way(source: Source, frames: Sequence[FrameType]) -> list[Text]:
    """(file, tree) of the functions under way, the innermost first, each with the class around it; of a module all."""
    inner = reversed(frames)
    return [found for frame in inner for found in (*function_of(source, frame.f_code), *_around(source, frame))]


def _around(source: Source, frame: FrameType) -> list[Text]:
    """The class in whose text the frame's function stands; the file where the frame runs that."""
    code = frame.f_code
    if code.co_name == "<module>":
        return [(code.co_filename, each) for each in nodes(source.text(code.co_filename))[:1]]
    return _class_around(source, code)


def _class_around(source: Source, code: CodeType) -> list[Text]:
    """The innermost class in whose text a function stands."""
    first = code.co_firstlineno
    classes = [
        each
        for each in definitions(source.text(code.co_filename))
        if isinstance(each, ast.ClassDef) and each.lineno < first <= (each.end_lineno or 0)
    ]
    return [(code.co_filename, each) for each in sorted(classes, key=lambda each: each.lineno)[-1:]]


def function_of(source: Source, code: CodeType) -> list[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """(file, tree) of the function of which this was compiled, where its text is known."""
    return [
        (code.co_filename, each)
        for each in definitions(source.text(code.co_filename))
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
        and min([each.lineno, *(decorator.lineno for decorator in each.decorator_list)]) == code.co_firstlineno
    ]


def assigned(source: Source, texts: Iterable[Text], attribute: str, owner: str, *, on: bool = False) -> Place | None:
    """The line that sets `attribute` of what is called `owner`; else of whatever a variable there holds.

    Not one that sets it to the other of True and False than `on`. Of a module, no line that sets it of each of its
    Parameters.
    """
    found = [
        (at, called(target) != owner, target.lineno, file)
        for at, (file, tree) in enumerate(texts)
        for target in _set_in(tree, attribute, "parameters(" if owner else "", not on)
    ]
    return source.at(min(found)[3], min(found)[2]) if found else None


def _set_in(tree: ast.AST, attribute: str, over: str, other: bool) -> Iterator[ast.expr]:
    """Whose attribute is set, not to `other`; without the variables of loops over what has `over` in its text."""
    every = list(ast.walk(tree))
    loops = [each for each in every if isinstance(each, ast.For) and over and over in ast.unparse(each.iter)]
    held = {(id(inner), name.id) for loop in loops for name in _names_in(loop.target) for inner in ast.walk(loop)}
    for each in every:
        for target in _setting(each, attribute, other):
            if (id(each), called(target)) not in held:
                yield target


def _names_in(target: ast.expr) -> list[ast.Name]:
    return [each for each in ast.walk(target) if isinstance(each, ast.Name)]


def _setting(each: ast.AST, attribute: str, other: bool) -> Iterator[ast.expr]:
    """`owner` of `owner.attribute = …`, `setattr(owner, "attribute", …)`."""
    match each:
        case ast.Assign(value=ast.Constant(value=value)) if value is other:
            return
        case ast.Assign(targets=targets):
            yield from (to.value for to in targets if isinstance(to, ast.Attribute) and to.attr == attribute)
        case ast.Call(func=ast.Name(id="setattr"), args=[owner, ast.Constant(value=name), value]) if name == attribute:
            if not (isinstance(value, ast.Constant) and value.value is other):
                yield owner


def called(owner: ast.expr) -> str:
    """The last part of a path: `backbone` of `self.model.backbone`, `logs` of `self.logs["loss"]`."""
    while isinstance(owner, ast.Subscript):
        owner = owner.value
    return owner.attr if isinstance(owner, ast.Attribute) else owner.id if isinstance(owner, ast.Name) else ""


def bound(source: Source, texts: Iterable[Text], name: str, fits: Callable[[ast.expr], bool]) -> Place | None:
    """The first line that gives the variable or attribute of that name a value that fits."""
    for file, tree in texts:
        lines = [
            target.lineno
            for each in ast.walk(tree)
            for target, value in given_in(each)
            if called(target) == name and fits(value)
        ]
        if lines:
            return source.at(file, min(lines))
    return None


def given_in(statement: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """(what is given a value, the value): `a = b = x` is two, so is `a, b = x, y`."""
    match statement:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                match target, value:
                    case ast.Tuple(elts=names), ast.Tuple(elts=values) if len(names) == len(values):
                        yield from zip(names, values, strict=True)
                    case _:
                        yield target, value
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            yield target, value


def with_around(source: Source, frame: FrameType, name: str) -> Place | None:
    """The innermost `with` around the frame's line that calls torch's function of that name.

    Where it calls a variable that is it, the line that gave the variable that.
    """
    file, line = frame.f_code.co_filename, frame.f_lineno
    if name not in source.text(file):
        return None
    held = {**frame.f_globals, **frame.f_locals}
    names = {name, *(key for key, value in held.items() if value is getattr(torch, name))}
    blocks = [
        each
        for _, tree in under_way(source, [frame])[:1]
        for each in ast.walk(tree)
        if isinstance(each, ast.With | ast.AsyncWith) and each.lineno <= line <= (each.end_lineno or 0)
    ]
    calls = [(each.lineno, item.context_expr) for each in blocks for item in each.items]
    found = [(line, called(call.func)) for line, call in calls if isinstance(call, ast.Call)]
    line, by = max((each for each in found if each[1] in names), default=(0, name))
    given = stores(frame.f_code, frame.f_lasti).get(by)
    return source.at(file, given or line) if line else None


def called_at(source: Source, frames: Sequence[FrameType], made: Place) -> Place | None:
    """The last line so far of the innermost function under way that asks for the function in which `made` stands."""
    functions = (each for each in definitions(source.text(made.file)) if isinstance(each, ast.FunctionDef))
    around = [(each.lineno, each.name) for each in functions if each.lineno < made.line <= (each.end_lineno or 0)]
    name = max(around)[1] if around else ""
    for frame in reversed(frames if name else ()):
        lines = [line for line in _asked_for(source, frame, name) if line <= frame.f_lineno]
        if lines or frame.f_code.co_name == name:
            return source.at(frame.f_code.co_filename, max(lines)) if lines else None
    return None


def _asked_for(source: Source, frame: FrameType, name: str) -> Iterator[int]:
    """The lines of the frame's own text, not of functions in it, that call that function or name that property."""
    bodies = [getattr(tree, "body", []) for _, tree in under_way(source, [frame])[:1]]
    own = [each for body in bodies for each in body if not isinstance(each, ast.FunctionDef | ast.ClassDef)]
    for each in (each for part in own for each in ast.walk(part)):
        match each:
            case ast.Call(func=ast.Name(id=asked)) | ast.Attribute(attr=asked) if asked == name:
                yield each.lineno


def listed_at(source: Source, call: Place, column: int | None = None) -> Place:
    """The line that makes the list which a call is given first; the call's own where that's no variable of one value.

    `params = list(…)`, and below it `Adam(params)`: what is in it, one reads there.
    """
    every = nodes(source.text(call.file))
    around = [each for each in every if isinstance(each, ast.FunctionDef) and _is_in(call.line, each)]
    part = list(ast.walk(around[-1])) if around else every
    calls = [each for each in part if isinstance(each, ast.Call) and each.lineno == call.line]
    calls = [each for each in calls if each.col_offset == column] or calls
    makes = [each for each in calls if called(each.func)[:1].isupper()][:1]  # not what computes its arguments
    given = next((called(first) for each in makes for first in each.args[:1] if isinstance(first, ast.Name)), "")
    sets = [(to.lineno, value) for each in part for to, value in given_in(each) if given and called(to) == given]
    grows = any(isinstance(each, ast.stmt) and _puts(each, given) for each in part if given)
    lists = [line for line, value in sets if line < call.line and isinstance(value, ast.Call | ast.BinOp | ast.List)]
    place = source.at(call.file, lists[0]) if len(sets) == len(lists) == 1 and not grows else None
    return place or call


def _is_in(line: int, function: ast.FunctionDef) -> bool:
    return function.lineno < line <= (function.end_lineno or 0)


def stored_at(source: Source, near: Place, name: str) -> Place | None:
    """The line that keeps a tensor itself which `near` reads: in a collection named there, or what is called `name`.

    The collection's is looked for in the function around `near`, then in its file; the name in that function.
    """
    every = nodes(source.text(near.file))
    functions = [each for each in every if isinstance(each, ast.FunctionDef)]
    inside = [each for each in functions if each.lineno < near.line <= (each.end_lineno or 0)]
    around = list(ast.walk(inside[-1])) if inside else every
    into = {part.rpartition(".")[2] for part in COLLECTIONS.findall(f"{near.code} {name}")}
    for part, names, collections in ((around, [], into), (every, [], into), (around, [name, "grad"], set[str]())):
        lines = [each.lineno for each in part if isinstance(each, ast.stmt) and _keeps(each, names, collections)]
        if lines:
            return source.at(near.file, min(lines))
    return None


def _keeps(statement: ast.stmt, names: Sequence[str], collections: Iterable[str]) -> bool:
    """`state["last"] = grad`, `self.last = p.grad.data`, `last.append(grad)`; not `last.append(grad.clone())`."""
    match statement:
        case ast.Assign(targets=[ast.Subscript() | ast.Attribute()], value=value):
            pass
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr=method), args=[value])) if method in PUTS:
            pass
        case _:
            return False
    text = ast.unparse(value).removesuffix(".detach()").removesuffix(".data")
    named = any(text == name or text.endswith(f".{name}") for name in names)
    return "(" not in text and (named or any(_puts(statement, each) for each in collections))


def call_of(source: Source, texts: Iterable[Text], name: str | None, method: str) -> Place | None:
    """The first line that calls a method of what has that name; None: of anything."""
    for file, tree in texts:
        for each in ast.walk(tree):
            match each:
                case ast.Call(func=ast.Attribute(value=owner, attr=attribute)) if attribute == method and (
                    name is None or called(owner) == name
                ):
                    return source.at(file, each.lineno)
    return None


def named_only(source: Source, texts: Iterable[Text], name: str, method: str) -> Place | None:
    """The first line that names a method of what has that name and doesn't call it: `optimizer.step`."""
    for file, tree in texts:
        for each in ast.walk(tree):
            match each:
                case ast.Expr(value=ast.Attribute(value=owner, attr=attribute)) if (attribute, called(owner)) == (
                    method,
                    name,
                ):
                    return source.at(file, each.lineno)
    return None


def put_into(source: Source, texts: Iterable[Text], name: str) -> Place | None:
    """The line that puts something into the collection of that name: `outputs.append(…)`, `outputs[i] = …`.

    Of one that a function handed back (`history = fit(…)`) that function's line, or that of one it has it from.
    """
    every = list(texts)
    waiting = [(every, name.rpartition(".")[2])]
    for among, last in waiting:  # grows while it's read
        for file, tree in among:
            lines = [each.lineno for each in ast.walk(tree) if isinstance(each, ast.stmt) and _puts(each, last)]
            if lines:
                return source.at(file, min(lines))
        waiting += _handed_back(every, among, last) if len(waiting) < MOST_HANDS else []
    return None


def _handed_back(every: Sequence[Text], among: Sequence[Text], name: str) -> list[tuple[list[Text], str]]:
    """(a function, its name for what it returns) for those by whose call the variable of that name is set."""
    calls = {
        (called(value.func), at)
        for _, tree in among
        for each in ast.walk(tree)
        for target, value, at in _unpacked(each)
        if isinstance(value, ast.Call) and called(target) == name
    }
    found: list[tuple[list[Text], str]] = []
    for function, at in calls:
        known = {id(each): (file, each) for file, tree in every for each in _defined(tree, function)}
        if len(known) == 1:  # of two of one name nobody knows which is called
            ((file, tree),) = known.values()
            names = {_returned(each.value, at) for each in ast.walk(tree) if isinstance(each, ast.Return)}
            found += [([(file, tree)], own) for own in names if own]
    return found


def _defined(tree: ast.AST, name: str) -> Iterator[ast.AST]:
    """The functions of that name."""
    yield from (each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef) and each.name == name)


def _unpacked(statement: ast.AST) -> Iterator[tuple[ast.expr, ast.expr, int | None]]:
    """(what is given a value, the value, which item of it): `a, b = f(x)` are two."""
    for target, value in given_in(statement):
        if isinstance(target, ast.Tuple):
            yield from ((each, value, at) for at, each in enumerate(target.elts))
        else:
            yield target, value, None


def _returned(value: ast.expr | None, at: int | None) -> str:
    """The name of what is returned, or of that item of it."""
    if at is not None:
        value = value.elts[at] if isinstance(value, ast.Tuple) and at < len(value.elts) else None
    return called(value) if isinstance(value, ast.Name | ast.Attribute) else ""


def _puts(statement: ast.stmt, name: str) -> bool:
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner, attr=method))) if method in PUTS:
            return called(owner) == name
        case ast.AugAssign(target=target):
            return called(target) == name
        case ast.Assign(targets=[ast.Subscript(value=owner)]):
            return called(owner) == name
    return False
