"""In the judge: the line of a test cell that failed, whether it was a hidden one, and how to do the same oneself.

What may be shown of it, and when, is decided where pages are made; here it is only written down.
"""

from __future__ import annotations

import ast
import math
import traceback
from collections.abc import Callable, Collection, Mapping
from typing import Any

from nbjudge.roles.verdict import hidden_lines

MOST_CHARS = 4000  # of a case that is written down
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
    """The innermost statement at a line, after the values of its names; empty where that would be too long.

    >>> print(_code("for n in (2, 5):\\n    assert double(n) == n + n", 2, {"n": 5, "double": len}, ["double"]))
    n = 5
    assert double(n) == n + n
    """
    statement = _statement(source, line)
    if statement is None:
        return ""
    read = dict.fromkeys(
        node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    )
    lines = [
        f"{name} = {said}"
        for name in read
        if name in values and name not in borrowed and (said := written(values[name])) is not None
    ]
    code = "\n".join([*lines, ast.unparse(statement)])
    return code if len(code) <= MOST_CHARS else ""


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
