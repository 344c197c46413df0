"""In the judge: the line of a test cell that failed, whether it was a hidden one, and how to do the same oneself.

What may be shown of it, and when, is decided where pages are made; here it is only written down.
"""

from __future__ import annotations

import ast
import math
import traceback
import types
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from nbjudge.names import Statement, statements
from nbjudge.roles.verdict import hidden_lines

MOST_CHARS = 4000  # of a case that is written down
MOST_OF_A_VALUE = 300  # characters: of a longer one, the lines that make it say more
MODULES = ("numpy", "torch")  # whose words `written` uses
MOST_NUMBERS = 400  # of a tensor or array
DEEPEST = 6
PLAIN = (type(None), bool, int, str, bytes, complex, range, slice)
BRACKETS: dict[type, str] = {list: "[]", tuple: "()", set: "{}", frozenset: "()"}


def of_error(
    error: BaseException, source: str, filename: str, namespace: Mapping[str, Any], borrowed: Collection[str]
) -> tuple[int, bool, str]:
    """The line that failed, whether it is hidden, and the case as code, without a value of the student's."""
    found = next((one for one in traceback.walk_tb(error.__traceback__) if one[0].f_code.co_filename == filename), None)
    if found is None:
        return 0, False, ""
    frame, line = found
    hidden = line in hidden_lines(source)
    own = vars(error).get("reproduce")
    if isinstance(own, str) and own:
        return line, hidden, own[:MOST_CHARS]
    return line, hidden, _code(source, line, {**namespace, **frame.f_locals}, borrowed)


def of_score(source: str) -> bool:
    """Whether what a cell ends with, its score, stands in a hidden line."""
    try:
        body = ast.parse(source).body
    except SyntaxError:  # a magic of IPython's: no line of it can be looked at
        return "HIDDEN TESTS" in source
    return bool(body) and body[-1].lineno in hidden_lines(source)


def _code(source: str, line: int, values: Mapping[str, Any], borrowed: Collection[str]) -> str:
    """The innermost statement at a line, after what it takes to run it; empty where that is hidden or too long.

    It takes short values of its names, and for other names the lines of the cell that make them.

    >>> print(_code("for n in (2, 5):\\n    assert double(n) == n + n", 2, {"n": 5, "double": len}, ["double"]))
    n = 5
    assert double(n) == n + n
    >>> print(_code("x = iter('ab')\\nnext(x)\\nassert next(x) == double(1)", 3, {"x": iter("")}, ["double"]))
    x = iter('ab')
    next(x)
    assert next(x) == double(1)
    >>> print(_code("n = 0\\nn += 1\\nn += double(1)", 3, {"n": 1, "double": len}, ["double"]))
    n = 1
    n += double(1)
    """
    statement = _statement(source, line)
    if statement is None:
        return ""
    *before, whole = (one for one in statements(source) if one.line <= line)
    own = frozenset(name for one in (*before, whole) for name in one.binds)
    read, text = _read(statement), ast.unparse(statement)
    said = _said(read, {name: value for name, value in values.items() if name in own or name not in borrowed})
    modules = {name for name in MODULES if any(f"{name}." in value for value in said.values())}
    wanted = {name for name in (*read, *modules) if name in own and name not in said}
    if wanted & whole.binds:  # it is made around this statement, or by it
        wanted, text, said, modules = {*whole.uses} & own, whole.text, {}, set()
    lines = _making(wanted, before, own, values)
    from_where = [*lines, *(one for one in (*before, whole) if one.binds & {*said} or one.text == text)]
    hidden = hidden_lines(source)
    if line not in hidden and any(hidden.intersection(range(one.line, one.end + 1)) for one in from_where):
        return ""
    imports = [f"import {name}" for name in sorted(modules - own - values.keys())]
    shown = [*imports, *(one.text for one in lines), *(f"{name} = {value}" for name, value in said.items()), text]
    return code if len(code := "\n".join(shown)) <= MOST_CHARS else ""


def _read(statement: ast.stmt) -> Iterable[str]:
    """The names that it reads, in order; `score += 1` reads what it changes."""
    added = [node.target for node in ast.walk(statement) if isinstance(node, ast.AugAssign)]
    found = (node for node in ast.walk(statement) if isinstance(node, ast.Name))
    return dict.fromkeys(node.id for node in found if isinstance(node.ctx, ast.Load) or node in added)


def _said(names: Iterable[str], values: Mapping[str, Any]) -> dict[str, str]:
    """The short values among these."""
    known = {name: written(values[name]) for name in names if name in values}
    return {name: text for name, text in known.items() if text is not None and len(text) <= MOST_OF_A_VALUE}


def _making(
    wanted: Collection[str], before: Sequence[Statement], own: Collection[str], values: Mapping[str, Any]
) -> list[Statement]:
    """The statements that names come from, and all that has to do with those that can be changed, in order."""
    names, found = {*wanted}, list[Statement]()
    for one in reversed(before):
        if one.binds & names or any(_can_change(values.get(name)) for name in one.uses & names):
            found.insert(0, one)
            names |= one.uses & {*own}
    return found


def _can_change(value: Any) -> bool:
    return not issubclass(type(value), (*PLAIN, float, type, types.ModuleType, types.FunctionType))


def _statement(source: str, line: int) -> ast.stmt | None:
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return None
    holding = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]
    return max(holding, key=lambda node: (node.lineno, -(node.end_lineno or 0)), default=None)


def written(value: Any, depth: int = 0) -> str | None:
    """A value as code that makes it; None where it isn't plain data.

    >>> written({"a": [1, (2.5, None)], "b": float("inf")})
    "{'a': [1, (2.5, None)], 'b': float('inf')}"
    """
    kind = type(value)
    if kind in PLAIN:
        return repr(value)
    if kind is float:
        return repr(value) if math.isfinite(value) else f"float({str(value)!r})"
    if depth > DEEPEST:
        return None
    if kind is dict:
        pairs = [(written(key, depth + 1), written(item, depth + 1)) for key, item in value.items()]
        return _joined("{}", [None if None in pair else f"{pair[0]}: {pair[1]}" for pair in pairs])
    if kind in BRACKETS and (value or kind is list or kind is tuple):
        parts = [written(item, depth + 1) for item in value]
        text = _joined(BRACKETS[kind], [*parts[:-1], f"{parts[-1]},"] if kind is tuple and len(parts) == 1 else parts)
        return f"frozenset({text})" if kind is frozenset and text else text
    return _numbers(value)


def _joined(brackets: str, parts: list[str | None]) -> str | None:
    known = [part for part in parts if part is not None]
    return f"{brackets[0]}{', '.join(known)}{brackets[1]}" if len(known) == len(parts) else None


def _numbers(value: Any) -> str | None:
    """A tensor or array, by its own type's words."""
    kind = type(value)
    make: dict[tuple[str, str], Callable[[], str]] = {
        ("torch", "Tensor"): lambda: (
            f"torch.tensor({value.tolist()!r}, dtype={value.dtype}{', requires_grad=True' * bool(value.requires_grad)})"
            if value.numel() <= MOST_NUMBERS
            else ""
        ),
        ("numpy", "ndarray"): lambda: (
            f"numpy.array({value.tolist()!r}, dtype={str(value.dtype)!r})" if value.size <= MOST_NUMBERS else ""
        ),
    }
    try:
        return (make.get((kind.__module__, kind.__name__)) or str)() or None
    except Exception:  # a sparse one, an object's array: it isn't written down
        return None
