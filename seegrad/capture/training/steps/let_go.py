"""What the user's text lets go at once: a module made by a statement of its own, a hook's new gradient.

What a module's hook computes, too. And statements that do nothing: `loss.backward`, `p.requires_grad == False`.
"""

from __future__ import annotations

import ast
import weakref
from collections.abc import Iterator, Sequence
from types import FrameType, FunctionType
from typing import Any

import torch

from seegrad.capture.probes.places import Source, around, definitions, is_users
from seegrad.capture.probes.source_text import under_way
from seegrad.capture.probes.variables import Reach, is_a
from seegrad.capture.tables import Tables
from seegrad.model.recording import Clue

MOST = 10_000
"""So many modules are remembered from one look to the next."""

CHANGES = frozenset({"clamp", "clip", "mul", "div", "add", "sub", "masked_fill", "nan_to_num", "neg", "clamp_min"})
"""Methods that are of use by their result alone."""

PURE = CHANGES | {
    *(
        "relu",
        "sigmoid",
        "tanh",
        "softmax",
        "log_softmax",
        "normalize",
        "layer_norm",
        "dropout",
        "where",
        "sign",
        "abs",
    ),
    *("round", "sqrt", "square", "pow", "exp", "log", "float", "half", "to", "roll", "flip"),
    *("zeros_like", "ones_like", "rand_like", "randn_like", "full_like"),
}
"""Methods and functions that compute something new and do nothing else."""

HOLDS = frozenset({"tuple", "list", "len", "min", "max", "float", "int", "range", "zip"})
TORCHS = frozenset({"torch", "F", "functional", "nn"})
HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
"""Where a module keeps its hooks."""

Functions = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda


NAMED = frozenset({"backward", "zero_grad", "requires_grad"})
"""What a statement that does nothing names: see `_does_nothing`."""


class LetGo:
    """Both are told once for each line."""

    def __init__(self, tables: Tables, source: Source) -> None:
        self._tables, self._source = tables, source
        self._made: list[tuple[weakref.ref[torch.nn.Module], str, int]] = []
        self._told: set[tuple[str, int]] = set()
        self._read: set[tuple[str, int]] = set()  # functions
        self._read_hooks: set[tuple[str, int]] = set()

    def given(self, module: torch.nn.Module, user: FrameType | None) -> None:
        """A module is given a Parameter of its own while that line runs."""
        newest = self._made[-1][0]() if self._made else None
        if user is not None and newest is not module and len(self._made) < MOST:
            self._made.append((weakref.ref(module), user.f_code.co_filename, user.f_lineno))

    def look(self, frames: Sequence[FrameType]) -> None:
        """Tell of the modules that are gone, each made by a line that is a call and no more; of what does nothing."""
        for file, statement in self._under_way(frames):
            does, place = _does_nothing(statement), self._source.at(file, statement.lineno)
            if does and place is not None and (file, place.line) not in self._told:
                self._told.add((file, place.line))
                self._tables.clues.append(Clue("idle", self._tables.frames.now, place, (), (("name", does),)))
        gone = dict.fromkeys((file, line) for ref, file, line in self._made if ref() is None)
        self._made.clear()
        for file, line in gone:
            place = self._source.at(file, line)
            if place is not None and (file, line) not in self._told and self._is_a_call_alone(file, line):
                self._told.add((file, line))
                self._tables.clues.append(Clue("unkept", self._tables.frames.now, place, ()))

    def _under_way(self, frames: Sequence[FrameType]) -> Iterator[tuple[str, ast.Expr]]:
        """The statements without a result of the functions under way, not of those in them: these may never run."""
        for frame in frames:
            first, file = frame.f_code.co_firstlineno, frame.f_code.co_filename
            if (file, first) not in self._read:
                self._read.add((file, first))
                if NAMED.isdisjoint(frame.f_code.co_names):  # its text needn't be parsed
                    continue
                for _, tree in under_way(self._source, [frame])[:1]:
                    body = tree.body if isinstance(tree, ast.Module | ast.FunctionDef) else []
                    yield from ((file, each) for each in _own(body) if isinstance(each, ast.Expr))

    def _is_a_call_alone(self, file: str, line: int) -> bool:
        """Is the innermost statement around a line a call whose result it doesn't take?"""
        match around(self._source.text(file), line)[-1:]:
            case [ast.Expr(value=ast.Call(args=args))]:
                return not any(isinstance(each, ast.Call) for each in args)  # a module made for what is called
        return False

    def of_modules(self, reach: Reach) -> None:
        """Tell of the hooks that users have put on modules, which compute something new and return nothing."""
        values = (value for frame in reach.frames for _, value in reach.of(frame))
        owners = [each for each in values if is_a(each, torch.nn.Module)]
        modules = {id(each): each for owner in owners for each in torch.nn.Module.modules(owner)}
        for module in modules.values():
            for hook in (each for table in HOOKS for each in vars(module).get(table, {}).values()):
                self._of_module(hook)

    def _of_module(self, hook: Any) -> None:
        function = hook if isinstance(hook, FunctionType) else vars(type(hook)).get("__call__")
        function = getattr(hook, "__func__", function)  # a method
        if not isinstance(function, FunctionType) or not is_users(function.__code__.co_filename):
            return
        file, first = function.__code__.co_filename, function.__code__.co_firstlineno
        if (file, first) in self._read_hooks:
            return
        self._read_hooks.add((file, first))
        found = self._written(file, first)
        line, given = (None, "") if found is None else _new_and_gone(found)
        if line is not None:
            facts = (("name", given),)
            self._tables.clues.append(Clue("hook", self._tables.frames.now, self._source.at(file, line), (), facts))

    def _written(self, file: str, first: int) -> ast.FunctionDef | None:
        written = (each for each in definitions(self._source.text(file)) if isinstance(each, ast.FunctionDef))
        at = (each for each in written if each.args.args and _begins(each) == first)
        return next(at, None)

    def hooked(self, hook: Sequence[Any], tensor: int) -> None:
        """The user has put a hook on a tensor: does it compute a new gradient, and return nothing?"""
        function = hook[0] if hook else None
        if not isinstance(function, FunctionType) or not is_users(function.__code__.co_filename):
            return
        file, first = function.__code__.co_filename, function.__code__.co_firstlineno
        found = self._written(file, first)
        line = None if found is None else _lost_in(found)
        place = None if line is None else self._source.at(file, line)
        if found is not None and place is not None and (file, place.line) not in self._told:
            self._told.add((file, place.line))
            given = ("name", found.args.args[-1].arg)
            self._tables.clues.append(Clue("unreturned", self._tables.frames.now, place, (tensor,), (given,)))


def _does_nothing(statement: ast.Expr) -> str:
    """The method of torch's that it only names, the attribute that it only compares; empty for any other statement."""
    match statement.value:
        case ast.Attribute(attr="backward" | "zero_grad" as name):
            return name
        case ast.Compare(left=ast.Attribute(attr="requires_grad" as name), ops=[ast.Eq()]):
            return name
    return ""


def _lost_in(function: ast.FunctionDef) -> int | None:
    """The line that computes new numbers of what the function is given, and nothing takes them up or returns them."""
    name, own = function.args.args[-1].arg, list(_own(function.body))
    if any(isinstance(each, ast.Return) and each.value is not None for each in own):
        return None
    lines = [each.lineno for each in own if isinstance(each, ast.stmt) and _computes(each, name)]
    last = max(lines, default=0)
    taken = any(isinstance(each, ast.Name) and each.id == name and each.lineno > last for each in own)
    return last if lines and not taken else None


def _begins(function: ast.FunctionDef) -> int:
    return min([function.lineno, *(each.lineno for each in function.decorator_list)])


def _new_and_gone(function: ast.FunctionDef) -> tuple[int | None, str]:
    """The last line that computes something of what a module's hook is given, which nothing reads; the name for it.

    None where the hook returns something, hands a name of its own on, or where that line may do more.
    """
    own = list(_own(function.body))
    outside = any(isinstance(each, ast.Global | ast.Nonlocal | Functions) for each in own)
    if outside or any(isinstance(each, ast.Return | ast.Yield) and each.value is not None for each in own):
        return None, ""
    given = {each.arg for each in function.args.args if each.arg != "self"}
    found: tuple[int | None, str] = None, ""
    for each in sorted((each for each in own if isinstance(each, ast.stmt)), key=lambda each: each.lineno):
        match each:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if given & _named(value):
                gone = not any(_is_read(other, name, each.lineno) for other in own)
                found = (each.lineno, name) if gone and _is_pure(value) else found
                given.add(name)
            case ast.Expr(value=ast.Call() as call) if given & _named(call) and _is_pure(call):
                found = each.lineno, ""
    return found


def _named(value: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(value) if isinstance(each, ast.Name)}


def _is_read(each: ast.AST, name: str, line: int) -> bool:
    return isinstance(each, ast.Name) and each.id == name and isinstance(each.ctx, ast.Load) and each.lineno > line


def _is_pure(value: ast.AST) -> bool:
    """Is it arithmetic, or calls of torch that compute something new, and nothing else?"""
    calls = [each.func for each in ast.walk(value) if isinstance(each, ast.Call)]
    torchs = [each for each in calls if isinstance(each, ast.Attribute) and each.attr in PURE]
    holds = [each for each in calls if isinstance(each, ast.Name) and each.id in HOLDS]
    more = [each for each in calls if isinstance(each, ast.Attribute) and each not in torchs and _is_torchs(each)]
    computes = torchs or more or any(isinstance(each, ast.BinOp) for each in ast.walk(value))
    return bool(computes) and len(torchs) + len(holds) + len(more) == len(calls)


def _is_torchs(function: ast.Attribute) -> bool:
    """`F.gelu`, `torch.nn.functional.gelu`: not in place, and nothing that saves or prints."""
    root: ast.expr = function
    while isinstance(root, ast.Attribute):
        root = root.value
    by_itself = function.attr.endswith("_") or function.attr in ("save", "load", "manual_seed")
    return isinstance(root, ast.Name) and root.id in TORCHS and not by_itself


def _own(body: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """The nodes of a body, without those of functions in it."""
    waiting = list(body)
    for each in waiting:  # grows while it's read
        yield each
        waiting += [] if isinstance(each, Functions) else ast.iter_child_nodes(each)


def _computes(statement: ast.stmt, name: str) -> bool:
    """`grad = grad * mask`; `grad.clamp(-1, 1)`."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=target)], value=ast.BinOp() | ast.Call() as value) if target == name:
            return any(isinstance(each, ast.Name) and each.id == name for each in ast.walk(value))
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=method))):
            return owner == name and method in CHANGES
    return False
