"""Wrong answers made of right ones: what a class hands in when nobody has handed anything in yet."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

Book = dict[str, Any]
SWAPPED: Mapping[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Lt: ast.GtE,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.GtE: ast.Lt,
    ast.Eq: ast.NotEq,
    ast.And: ast.Or,
}


class NothingReturned(ast.NodeTransformer):
    """Functions return None, names stand for None."""

    def visit_Return(self, node: ast.Return) -> ast.Return:
        """`return x` → `return None`."""
        return ast.copy_location(ast.Return(ast.Constant(None)), node)

    def visit_Module(self, node: ast.Module) -> ast.Module:
        """`x = 3` in a cell → `x = None`."""
        for one in node.body:
            if isinstance(one, ast.Assign):
                one.value = ast.Constant(None)
        self.generic_visit(node)
        return node


class OneOff(ast.NodeTransformer):
    """Every number is one too large."""

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        """`3` → `4`."""
        plain = type(node.value) in (int, float)
        return ast.copy_location(ast.Constant(node.value + 1), node) if plain else node  # type: ignore[operator]  # a number: its type was just asked


class OtherOperators(ast.NodeTransformer):
    """Plus for minus, less for greater."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Any operator that has a counterpart."""
        node = super().generic_visit(node)
        return SWAPPED[type(node)]() if type(node) in SWAPPED else node


class TurnedRound(ast.NodeTransformer):
    """Operands of `-` and `/`, and what is returned side by side, stand in the other order."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        """`a - b` → `b - a`."""
        self.generic_visit(node)
        if isinstance(node.op, ast.Sub | ast.Div | ast.FloorDiv | ast.Pow | ast.MatMult):
            node.left, node.right = node.right, node.left
        return node

    def visit_Return(self, node: ast.Return) -> ast.AST:
        """`return a, b` → `return b, a`."""
        self.generic_visit(node)
        if isinstance(node.value, ast.Tuple):
            node.value.elts.reverse()
        return node


class OtherKind(ast.NodeTransformer):
    """A text or a tuple is returned where something else was asked for."""

    def visit_Return(self, node: ast.Return) -> ast.AST:
        """`return x` → `return (x,)`; `return a, b` → `return [a, b]`."""
        self.generic_visit(node)
        if isinstance(node.value, ast.Tuple):
            node.value = ast.List(node.value.elts, ast.Load())
        elif node.value is not None:
            node.value = ast.Tuple([node.value], ast.Load())
        return node


SPOILERS: Mapping[str, type[ast.NodeTransformer]] = {
    "nothing-returned": NothingReturned,
    "one-off": OneOff,
    "other-operators": OtherOperators,
    "turned-round": TurnedRound,
    "other-kind": OtherKind,
}


def handed_in(source: Book, release: Book) -> Iterator[tuple[str, Book]]:
    """What a class hands in, by student: the solution, the release untouched, and wrong answers, no two alike."""
    seen: list[Book] = []
    for student, book in _every(source, release):
        if book not in seen:
            seen.append(book)
            yield student, book


def _every(source: Book, release: Book) -> Iterator[tuple[str, Book]]:
    yield "solution", source
    yield "release", release
    yield "half", _half(source, release)
    for name, spoiler in SPOILERS.items():
        yield name, _changed(source, partial(spoilt, spoiler=spoiler()))


def spoilt(text: str, spoiler: ast.NodeTransformer) -> str:
    """An answer spoilt; one that isn't plain Python stays as it is.

    >>> spoilt("def f(a, b): return a - 2", OneOff()), spoilt("%matplotlib inline", OneOff())
    ('def f(a, b):\\n    return a - 3', '%matplotlib inline')
    """
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return text
    before = ast.unparse(tree)
    after = ast.unparse(ast.fix_missing_locations(spoiler.visit(tree)))
    return text if after == before else after


def _changed(book: Book, change: Callable[[str], str]) -> Book:
    made = copy.deepcopy(book)
    for cell in _answers(made):
        cell["source"] = change(_text(cell))
    return made


def _half(source: Book, release: Book) -> Book:
    """Every second answer as it is released."""
    made, blank = copy.deepcopy(source), {_grade_id(cell): cell for cell in _answers(release)}
    for number, cell in enumerate(_answers(made)):
        if number % 2:
            cell["source"] = blank[_grade_id(cell)]["source"]
    return made


def _grade_id(cell: Mapping[str, Any]) -> str:
    return str(cell["metadata"]["nbgrader"]["grade_id"])


def _answers(book: Book) -> Iterator[dict[str, Any]]:
    for cell in book["cells"]:
        if cell["cell_type"] == "code" and cell["metadata"].get("nbgrader", {}).get("solution"):
            yield cell


def _text(cell: Mapping[str, Any]) -> str:
    source = cell["source"]
    return source if isinstance(source, str) else "".join(source)
