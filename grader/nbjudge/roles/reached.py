"""In the judge: which checks of a test were made, and held. Each that the reference answer came to has to be come to.

Whoever gives a test's loop nothing to go through, or ends it, or swallows a failed assertion, passes by what wasn't
looked at. So does one who gives a `zip`, or a `map` of several, less than the test has laid beside it.
"""

from __future__ import annotations

import ast
import builtins
import itertools
import operator
from collections.abc import Callable, Collection, Iterator, Sequence, Sized
from types import GeneratorType
from typing import Any, Protocol

from nbjudge.names import REPEATED, allows_an_error, only_passes
from nbjudge.roles.lacks import is_theirs

MARK = "_nbjudge_held"  # what a check is followed by; among the builtins, so that it is no name of a test's
PAIRS = "_nbjudge_pairs"  # what a test's `zip` is, or its `map`
LEAVES = frozenset({ast.Name, ast.Constant, ast.Load, ast.Store})
UNSAID = (GeneratorType, map, filter)  # a test's iterators that don't say how much they give, and give an end
BRANCH = "|"  # in a place, before the `if` or `try` and the branch of it that it lies in
ALLOWED = (
    "allowed "  # a place that is no check: a clause for an error that a call may raise instead of giving something
)


class Tally(Protocol):
    """Who is told of the checks that a test makes."""

    def held(self, place: str) -> None:
        """This check has held."""

    def paired(self, place: str, rows: int, length: int | None) -> None:
        """A `zip` is over after so many rows; what stands in this place of it has this length, if it says so."""


class Marked(ast.NodeTransformer):
    """Puts a mark behind each check of a cell, and beside each item that one goes through.

    Whoever compiles it gives what is new its lines, as IPython does (`ast.fix_missing_locations`).

    >>> cell = "for x, y in zip(f(), z):\\n    assert all(a for a in x)\\n    if y: assert x\\n    else: assert z"
    >>> print(ast.unparse(Marked(None).visit(ast.parse(cell))))
    for x, y in _nbjudge_pairs('line 1:12', zip)(f(), z):
        assert all((_nbjudge_held('line 2:14') or a for a in x))
        _nbjudge_held('line 2:4')
        if y:
            assert x
            _nbjudge_held('line 3:10|3:4/0')
        else:
            assert z
            _nbjudge_held('line 4:10|3:4/1')
    """

    def __init__(self, told: Tally | None) -> None:

        def mark(place: str, value: Any = None) -> Any:
            if told is not None:
                told.held(place)
            return value

        def pairs(place: str, made: Any) -> Any:
            return _pairing(place, told, made) if told is not None and (made is zip or made is map) else made

        setattr(builtins, MARK, mark)
        setattr(builtins, PAIRS, pairs)
        self._checks = 0  # that the node lies in
        self._branch = ""  # of an `if` with a check for each case: which of them the node lies in
        self._once = True  # does the node lie where nothing is repeated?

    def visit(self, node: ast.AST) -> Any:
        """What a loop or a function holds may run again and again; a name or a constant holds nothing."""
        if type(node) in LEAVES:
            return node
        outer, self._once = self._once, self._once and not isinstance(node, REPEATED)
        try:
            return super().visit(node)
        finally:
            self._once = outer

    def visit_Assert(self, node: ast.Assert) -> Any:
        """A check of Python's own."""
        self._within(node)
        return [node, self._mark(node)]

    def visit_Expr(self, node: ast.Expr) -> Any:
        """A check of a library's, by its name: `assert_allclose(…)`, `self.assertEqual(…)`."""
        called = node.value.func if isinstance(node.value, ast.Call) else None
        name = str(getattr(called, "attr", "") or getattr(called, "id", ""))
        if "assert" not in name.lower():
            return self.generic_visit(node)
        self._within(node)
        node.value = ast.copy_location(self._call(node, node.value), node.value)  # stays the cell's last expression
        return node

    def visit_If(self, node: ast.If) -> Any:
        """A check that raises by itself, marked before; or two cases with checks of their own."""
        node.test = self.visit(node.test)
        cases = (node.body, node.orelse)
        each = all(any(map(_checks, case)) for case in cases)
        for number, case in enumerate(cases):
            self._within_case(node, case, number if each else None)
        return [self._mark(node), node] if any(isinstance(part, ast.Raise) for part in node.body) else node

    def visit_Try(self, node: ast.Try) -> Any:
        """One call may raise an error that is named, or give what is checked: these are two cases as well."""
        each = self._once and allows_an_error(node)
        self._within_case(node, node.body, None)
        for clause in node.handlers:
            passes = each and only_passes(clause)
            self._within_case(node, clause.body, 1 if each else None, before=[clause] if passes else [])
        self._within_case(node, node.orelse, 0 if each else None)
        self._within_case(node, node.finalbody, None)
        return node

    def _within_case(
        self, node: ast.stmt, case: list[ast.stmt], number: int | None, before: Sequence[ast.ExceptHandler] = ()
    ) -> None:
        """One of its cases, by its number; None where it hasn't several of equal rank."""
        outer = self._branch
        self._branch = outer if number is None else f"{outer}{BRANCH}{node.lineno}:{node.col_offset}/{number}"
        marks = [self._mark(one, ALLOWED) for one in before]
        case[:] = [*marks, *(made for part in case for made in _listed(self.visit(part)))]
        self._branch = outer

    def visit_Call(self, node: ast.Call) -> Any:
        """`zip` or `map`, if that is what it is when it's called."""
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in ("zip", "map"):
            node.func = self._call(node, node.func, name=PAIRS)
        return node

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
            node.elt = ast.copy_location(ast.BoolOp(ast.Or(), [self._call(node), node.elt]), node.elt)
        return node

    def _mark(self, node: ast.stmt | ast.ExceptHandler, kind: str = "") -> ast.stmt:
        return ast.copy_location(ast.Expr(self._call(node, kind=kind)), node)

    def _call(
        self, node: ast.stmt | ast.expr | ast.ExceptHandler, *given: ast.expr, name: str = MARK, kind: str = ""
    ) -> ast.Call:
        """The mark for this place, which gives back what it is given."""
        place = ast.Constant(f"{kind}line {node.lineno}:{node.col_offset}{self._branch}")
        return ast.copy_location(ast.Call(ast.Name(name, ast.Load()), [place, *given], []), node)


def _checks(node: ast.AST) -> bool:
    """Does an assertion, Python's or a library's, lie in it?"""
    parts = [*ast.walk(node)]
    names = [str(getattr(part, "attr", getattr(part, "id", ""))).lower() for part in parts]
    return any(isinstance(part, ast.Assert) for part in parts) or any("assert" in name for name in names)


def _listed(made: Any) -> list[Any]:
    return made if isinstance(made, list) else [made]


# ---------------------------------------------------------------------- what is made of it


def is_missed(place: str, held: set[str], known: set[str]) -> bool:
    """Was this check, which the reference has come to, not come to, nor one instead of it?"""
    return place not in held and not place.startswith(ALLOWED) and not is_of_another_case(place, held, known)


def is_of_another_case(place: str, held: set[str], known: set[str]) -> bool:
    """Is this check of a case that an answer is never in? It is in the other one then, where the reference never is.

    There it has made a check; or it has raised what it may, and has made another one that the reference makes.

    >>> known = {"line 3:4|2:0/0", "line 1:0"}
    >>> found = ({"line 5:4|2:0/1"}, set(), {"allowed line 5:4|2:0/1"}, {"allowed line 5:4|2:0/1", "line 1:0"})
    >>> [is_of_another_case("line 3:4|2:0/0", held, known) for held in found]
    [True, False, False, True]
    """
    checks = {one for one in held if not one.startswith(ALLOWED)}
    for branch in place.split(BRANCH)[1:]:
        where, _, number = branch.partition("/")
        other = f"{where}/{1 - int(number)}"
        if (
            _in(held, other)
            and not _in(held, branch)
            and not _in(known, other)
            and (_in(checks, other) or checks & known)
        ):
            return True
    return False


def _in(places: set[str], branch: str) -> bool:
    return any(branch in place.split(BRANCH)[1:] for place in places)


def paired_role(rows: int, length: int | None) -> str:
    """What a `zip` has done with what stands in one place of it."""
    return f"{'through' if length is None or rows >= length else 'not through'} {rows if length is None else length}"


def is_cut_short(roles: Collection[str], rows: int, length: int | None) -> bool:
    """Is it over before what the reference's `zip`, in these roles, came to the end of?

    Of what doesn't say its length, which is the test's own, as many rows are asked for as the reference's had.

    >>> is_cut_short({"through 3"}, 1, 3), is_cut_short({"through 3"}, 1, 2), is_cut_short({"through 3"}, 1, None)
    (True, False, True)
    """
    if length is None:
        return rows < min((int(role.split()[-1]) for role in roles if role.startswith("through ")), default=0)
    return rows < length and f"through {length}" in roles and f"not through {length}" not in roles


def _pairing(place: str, told: Tally, made: Any) -> Callable[..., Any]:
    """A `zip`, or a `map` of several, that tells when it is over how far it has come with what it was given."""

    def paired(given: tuple[Any, ...], rows: Iterator[Any]) -> Iterator[Any]:
        ours = [(number, one) for number, one in enumerate(given) if not is_theirs(one)]
        lengths = {number: operator.length_hint(one, -1) for number, one in ours if not isinstance(one, Sized)}
        count = 0
        for row in rows:
            count += 1
            yield row
        for number, one in ours:
            length = len(one) if isinstance(one, Sized) else lengths[number]
            if length >= 0 or isinstance(one, UNSAID):
                told.paired(f"{place}#{number}", count, length if length >= 0 else None)

    def zipped(*given: Any, **strictly: Any) -> Iterator[Any]:
        return paired(given, zip(*given, **strictly))  # noqa: B905 - as the test has it

    def mapped(function: Any, *given: Any) -> Iterator[Any]:
        several = len(given) > 1
        return itertools.starmap(function, paired(given, zip(*given))) if several else map(function, *given)  # noqa: B905 - as `map` does

    return zipped if made is zip else mapped
