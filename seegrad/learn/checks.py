"""What a check of an exercise looks at, read off its cell: what an answer comes to, or only whether it may be one."""

from __future__ import annotations

import ast
from collections.abc import Iterator

FORM = {"letters", "of_type", "one_of"}


def form_alone(source: str) -> bool:
    """Does a check see only that an answer may be one, and not whether it's right?

    >>> form_alone('expect("found", found).one_of([1, 2])'), form_alone('expect("f(x)", f(x), x=x).close(x * 2)')
    (True, False)
    """
    methods = {method for _asked, method in expectations(source)}
    return bool(methods & FORM) and "close" not in methods


def expectations(source: str) -> Iterator[tuple[str, str]]:
    """Of each `expect(asked, …).method(…)` what was asked, where it's plain text, and the method."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):  # a cell with a magic: no check of ours
        return
    for node in ast.walk(tree):
        match node:
            case ast.Call(ast.Attribute(ast.Call(ast.Name("expect"), [ast.Constant(str(asked)), *_rest]), method)):
                yield asked, method
            case ast.Call(ast.Attribute(ast.Call(ast.Name("expect")), method)):
                yield "", method
