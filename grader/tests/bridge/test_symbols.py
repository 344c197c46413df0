"""SymPy's expressions and matrices cross by their parts, and nothing that a symbol is called runs as code."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nbjudge.bridge import values
from nbjudge.bridge.values.shared import Containers, Copies
from nbjudge.errors import WireError
from nbjudge_tests.two_sides import Lend, lend, pair

__all__ = ["lend", "pair"]  # fixtures

sp = pytest.importorskip("sympy")
x, y = sp.symbols("x y")
n = sp.Symbol("n", integer=True)
f = sp.Function("f")


def crossed(value: Any) -> Any:
    tree = json.loads(json.dumps(values.encode(value, values.Crossing(Containers(0), Copies()))))
    return values.decode(tree, values.Crossing(Containers(1), Copies()))


@pytest.mark.parametrize(
    "value",
    [
        *(x, sp.Symbol(r"\theta_{1}", positive=True), sp.Symbol(r"\dot{x}^{2}_{AB}"), sp.Symbol("lambda")),
        *(sp.Dummy("d"), n * x + sp.Rational(1, 3), sp.Float("1.25", 30), sp.Float(-7.5), sp.Float(0)),
        *(sp.pi, sp.E, sp.I, sp.oo, sp.zoo, sp.nan, sp.true, sp.false, sp.S.Half, sp.Integer(0), sp.EmptySet),
        *(sp.sin(x) ** 2, f(x).diff(x, 2), sp.Integral(sp.exp(-x), (x, 0, sp.oo)), sp.Limit(sp.sin(x) / x, x, 0)),
        *(sp.Eq(x, 2), x < y, sp.Piecewise((x, x > 0), (0, True)), sp.solveset(sp.sin(x), x), sp.FiniteSet(1, 2)),
        *(sp.Add(x, x, evaluate=False), sp.cos(0, evaluate=False), sp.Pow(2, 10**9, evaluate=False)),
        *(sp.Matrix([[1, x], [y, 4]]), sp.ImmutableMatrix([[1, 2]]), sp.zeros(0, 2), sp.Poly(x**2 + 1, x)),
        *(sp.hyper([1], [2], x), sp.meijerg([[1], []], [[1], [0]], x), sp.Tuple(1, x)),
    ],
    ids=str,
)
def test_an_expression_is_the_same_on_the_other_side(value: Any) -> None:
    found = crossed(value)
    assert (type(found), sp.srepr(found)) == (type(value), sp.srepr(value))
    assert found == value or value is sp.nan


def test_a_matrix_is_changed_in_place(lend: Lend) -> None:
    matrix = sp.Matrix([[1, 2], [3, 4]])
    lend(lambda given: given.row_op(0, lambda item, _column: item * x))(matrix)
    assert matrix == sp.Matrix([[x, 2 * x], [3, 4]])
    lend(lambda given: given.col_del(0))(matrix)
    assert matrix == sp.Matrix([2 * x, 4])


CODE = ["__import__('os')", "a.b", 'x"', "a;b", "x\ny", "f(3)", "a[0]", "x:=1", "", "for f in", "'6'", "x,y", "if"]


@pytest.mark.parametrize("name", CODE)
def test_no_symbol_is_called_what_could_run(name: str) -> None:
    for value in (sp.Symbol(name) + 1, sp.Function(name)(x)) if name else ():
        with pytest.raises(values.UnsupportedError):
            values.encode(value, values.Crossing(Containers(0), Copies()))
    for part in (["Symbol", name, {}], ["Undefined", name]):
        with pytest.raises(WireError):
            values.decode({"t": "symbolic", "v": [part]}, values.Crossing(Containers(1), Copies()))


@pytest.mark.parametrize(
    "parts",
    [
        *([], [[]], ["x"], [["Symbol"]], [["Symbol", "x", []]], [["Symbol", "x", {"real": 1}]], [["Integer", "3"]]),
        *([["Integer", 1 << 20000]], [["Rational", 1, 0, 0]], [["Rational", 3, 2, 100]], [["Add", 0]]),
        *([["Float", 0, 1, 1 << 40, 53]], [["Float", 0, 1, 0, 9, 53]]),
        *([["Float", 2, 1, 0, 53]], [["Float", 0, -1, 0, 53]]),
        *([["Integer", 1], ["Add", -1]], [["Integer", 1], ["sympify", 0]], [["Constant", "register"]]),
        *([["Symbol", "x", {}], ["Integer", 3], ["plot", 0, 1]], [["Dummy", "d", {}, -1]], [["__builtins__"]]),
    ],
)
def test_what_is_no_expression_isn_t_made(parts: Any) -> None:
    with pytest.raises(WireError):
        values.decode({"t": "symbolic", "v": parts}, values.Crossing(Containers(1), Copies()))


@pytest.mark.parametrize("nothing", [(0, 0, 5, 7), (1, 0, -456, -3), (0, 3, -60, 1)])
def test_a_number_that_says_wrong_how_long_it_is_is_one_like_others(nothing: tuple[int, ...]) -> None:
    """mpmath takes one without digits for less than all others, also what lies between it and any other."""
    odd = sp.Float(1.5)
    odd._mpf_ = nothing
    found = crossed(odd)
    assert found == sp.Float((nothing[0], nothing[1], nothing[2])) or (found == 0.0 and not nothing[1])
    assert not abs(found - 12) < 1e-6


def test_an_own_class_of_symbols_is_no_data_nor_one_with_a_name_that_isn_t_said() -> None:
    own = type("Own", (sp.Symbol,), {"__eq__": lambda *_: True, "__hash__": lambda _: 1})("x")
    for value in (own, own + 1, sp.Wild("x"), sp.DeferredVector("x")):
        with pytest.raises(values.UnsupportedError, match="class"):
            values.encode(value, values.Crossing(Containers(0), Copies()))
