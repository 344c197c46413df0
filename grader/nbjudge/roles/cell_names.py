"""Which global names a cell reads and which it binds, from its compiled code."""

from __future__ import annotations

import ast
import builtins
import dis
import functools
import types
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_READS = {"LOAD_NAME", "LOAD_GLOBAL", "DELETE_NAME", "DELETE_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS"}
_BINDS = {"STORE_NAME", "STORE_GLOBAL"}


@dataclass(frozen=True, slots=True)
class Names:
    """Global names, each in alphabetical order; `defined` are bound by import, def or class."""

    read: tuple[str, ...]
    bound: tuple[str, ...]
    defined: tuple[str, ...]


def names_in(source: str, asked: Collection[str] = ()) -> Names:
    """The global names of a cell of plain Python (IPython's own syntax already transformed).

    A name of Python's own, like `sum`, isn't among them, unless the assignment asks for one.

    Raises:
        SyntaxError: it isn't Python.

    >>> names_in("import torch\\ny = f(x) + len(z)")
    Names(read=('f', 'x', 'z'), bound=('torch', 'y'), defined=('torch',))
    """
    code = compile(source, "<cell>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    bound = sorted(set(_named(code, _BINDS, top=True)))
    defined = sorted(set(_defined(ast.parse(source))))
    read = sorted({name for name in _named(code, _READS) if _is_global(name, asked)} - set(defined))
    return Names(tuple(read), tuple(bound), tuple(defined))


def _is_global(name: str, asked: Collection[str]) -> bool:
    return name in asked or not hasattr(builtins, name)


def read_by_functions(names: Iterable[str], namespace: Mapping[str, Any], asked: Collection[str] = ()) -> set[str]:
    """The global names that our own functions among `names` read, and the functions that these call, and so on."""
    wanted, seen = list(names), set[str]()
    while wanted:
        value = namespace.get(wanted.pop())
        if not isinstance(value, types.FunctionType) or value.__globals__ is not namespace:
            continue
        new = {name for name in _named(value.__code__, _READS) if _is_global(name, asked)} - seen
        seen |= new
        wanted.extend(new)
    return seen


def definitions(source: str) -> str:
    """Only the statements at the top of a cell that import or define: what an instructor's cell brings by itself."""
    tree = ast.parse(source)
    kept: list[ast.stmt] = [node for node in tree.body if isinstance(node, _IMPORTING | _DEFINING)]
    return ast.unparse(ast.Module(kept, []))


_IMPORTING = ast.Import | ast.ImportFrom
_DEFINING = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def _defined(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, _IMPORTING):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, _DEFINING):
            yield node.name


def _named(code: types.CodeType, operations: set[str], *, top: bool = False) -> Iterator[str]:
    """Names in the given operations of a code object and, unless `top`, of all inside it (STORE_GLOBAL always)."""
    stack, outermost = [code], code
    while stack:
        current = stack.pop()
        for operation, name in _uses(current):
            inner_local = top and current is not outermost and not operation.endswith("GLOBAL")
            in_class_body = current is not outermost and operation == "STORE_NAME"
            if operation in operations and not inner_local and not in_class_body:
                yield name
        stack.extend(constant for constant in current.co_consts if isinstance(constant, types.CodeType))


@functools.lru_cache(maxsize=1024)
def _uses(code: types.CodeType) -> tuple[tuple[str, str], ...]:
    """(operation, global name) in one code object: asked for again with every test that calls the same functions."""
    return tuple(
        (instruction.opname, instruction.argval)
        for instruction in dis.get_instructions(code)
        if instruction.opname in _READS or instruction.opname in _BINDS
    )
