"""In the judge: which checks of a test were made, and held. Each that the reference answer came to has to be come to.

Whoever gives a test's loop nothing to go through, or ends it, or swallows a failed assertion, passes by what wasn't
looked at.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable
from typing import Any

MARK = "_nbjudge_held"  # what a check is followed by; among the builtins, so that it is no name of a test's


class Marked(ast.NodeTransformer):
    """Puts a mark behind each check of a cell, and beside each item that one goes through. `held` is told its place.

    >>> tree = Marked(print).visit(ast.parse("for x in y:\\n    assert all(z for z in x)"))
    >>> print(ast.unparse(tree))
    for x in y:
        assert all((_nbjudge_held('line 2:14') or z for z in x))
        _nbjudge_held('line 2:4')
    """

    def __init__(self, held: Callable[[str], None]) -> None:

        def mark(place: str, value: Any = None) -> Any:
            held(place)
            return value

        setattr(builtins, MARK, mark)
        self._checks = 0  # that the node lies in

    def visit_Assert(self, node: ast.Assert) -> Any:
        """A check of Python's own."""
        self._within(node)
        return [node, _mark(node)]

    def visit_Expr(self, node: ast.Expr) -> Any:
        """A check of a library's, by its name: `assert_allclose(…)`, `self.assertEqual(…)`."""
        called = node.value.func if isinstance(node.value, ast.Call) else None
        name = str(getattr(called, "attr", "") or getattr(called, "id", ""))
        if "assert" not in name.lower():
            return self.generic_visit(node)
        self._within(node)
        node.value = ast.copy_location(_call(node, node.value), node.value)  # which stays the cell's last expression
        return ast.fix_missing_locations(node)

    def visit_If(self, node: ast.If) -> Any:
        """A check that raises by itself; that it was made is marked before."""
        self.generic_visit(node)
        return [_mark(node), node] if any(isinstance(part, ast.Raise) for part in node.body) else node

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> Any:
        """What a check goes through."""
        return self._items(node)

    def visit_ListComp(self, node: ast.ListComp) -> Any:
        """What a check goes through."""
        return self._items(node)

    def visit_SetComp(self, node: ast.SetComp) -> Any:
        """What a check goes through."""
        return self._items(node)

    def _within(self, node: ast.stmt) -> None:
        self._checks += 1
        self.generic_visit(node)
        self._checks -= 1

    def _items(self, node: ast.GeneratorExp | ast.ListComp | ast.SetComp) -> ast.expr:
        self.generic_visit(node)
        if self._checks:
            node.elt = ast.copy_location(ast.BoolOp(ast.Or(), [_call(node), node.elt]), node.elt)
            ast.fix_missing_locations(node)
        return node


def _mark(node: ast.stmt) -> ast.stmt:
    return ast.fix_missing_locations(ast.copy_location(ast.Expr(_call(node)), node))


def _call(node: ast.stmt | ast.expr, *given: ast.expr) -> ast.Call:
    """The mark for this place, which gives back what it is given."""
    place = ast.Constant(f"line {node.lineno}:{node.col_offset}")
    return ast.copy_location(ast.Call(ast.Name(MARK, ast.Load()), [place, *given], []), node)
