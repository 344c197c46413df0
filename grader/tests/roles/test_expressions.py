"""An answer that is an expression of SymPy's counts as data: tests compare it with their own SymPy."""

from __future__ import annotations

import pytest

from nbjudge.bridge.values.packages.symbols import _heard
from nbjudge.errors import WireError
from nbjudge.model import Ending
from nbjudge.process.zygote import Zygote
from nbjudge_tests.trials import answer, check, only, run

pytest.importorskip("sympy")

RIGHT = "import sympy as sp\ndef slope(f, x): return sp.diff(f, x)"
GIVEN = "import sympy as sp\nx, y = sp.symbols('x y')\n"


@pytest.mark.parametrize(
    "test",
    [
        "assert slope(x**2, x) == 2 * x",
        "assert sp.simplify(slope(sp.sin(x) * y, x) - y * sp.cos(x)) == 0",
        "assert sp.lambdify(x, slope(x**3, x))(2) == 12",
        "assert float(slope(x**3, x).subs(x, 2)) == 12",
        "assert slope(sp.Matrix([x**2, x]), x) == sp.Matrix([2 * x, 1])",
        "f = sp.Function('f'); assert slope(x * f(x), x) == f(x) + x * f(x).diff(x)",
    ],
)
def test_a_question_about_expressions_has_a_verdict(test: str, zygote: Zygote) -> None:
    said = only(run(zygote, answer(RIGHT), check(GIVEN + test), beside=RIGHT))
    assert (said.kind, said.points) == (Ending.PASSED, 1)
    wrong = only(run(zygote, answer(RIGHT.replace("sp.diff(f, x)", "f")), check(GIVEN + test), beside=RIGHT))
    assert (wrong.kind, wrong.points) == (Ending.FAILED, 0)


INVERTED = f"{GIVEN}assert not abs(float(slope(3 * x, x)) - 3) > 1e-6"
EMPTY = f"{GIVEN}assert all(item == 1 for item in slope(sp.Matrix([x, x]), x))"
NOTHING = {
    "nan": ("return sp.nan", INVERTED),
    "nan, once it is worked out": (
        "hole = sp.Pow(0, -1, evaluate=False)\n"
        "    return sp.Add(hole, sp.Mul(-1, hole, evaluate=False), evaluate=False)",
        INVERTED,
    ),
    "an empty matrix": ("return sp.zeros(0, 1)", EMPTY),
    "an object that equals everything": (
        "return type('Own', (sp.Symbol,), {'__eq__': lambda *_: True, '__hash__': lambda _: 1})('x')",
        f"{GIVEN}assert slope(x**2, x) == 2 * x",
    ),
    "a name that is code": (
        "return sp.Symbol('__import__(\"builtins\").__dict__.update(abs=lambda _: 0)')",
        f"{GIVEN}assert sp.lambdify(x, slope(x**2, x))(2) is None or True",
    ),
    "a function that runs text": (
        "return sp.Function('eval')(sp.Function('bytes')(sp.Tuple(*b'6 + 6')))",
        f"{GIVEN}assert sp.lambdify(x, slope(x**3, x))(2) == 12",
    ),
    "words that make a call beside a sum's and an index's own": (
        "parts = sp.IndexedBase(sp.Symbol('0 for f in '))[sp.Symbol('eval,')]\n"
        "    return sp.Sum(sp.Function('f')(sp.Symbol(\"'6 \\\\x2b 6'\")) + parts, (sp.Symbol('k'), 0, 0))",
        f"{GIVEN}assert sp.lambdify(x, slope(x**3, x))(2) == 12",
    ),
    "a number without digits, which is less than all others": (
        "odd = sp.Float(1.5)\n    odd._mpf_ = (0, 0, 5, 7)\n    return odd",
        f"{GIVEN}assert abs(slope(3 * x, x) - 3) < 1e-6",
    ),
    "a number that is another one to each number of digits": (
        "return sp.cot(sp.Add(sp.Rational(1, 10**9), sp.pi, evaluate=False), evaluate=False)",
        f"{GIVEN}assert abs(slope(3 * x, x) - 3) < 1e-6\nassert abs(slope(9 * x, x) - 9) < 1e-6",
    ),
    "nan, once it is a float": (
        "x, much = sp.Symbol('x'), sp.Symbol('much', infinite=True)\n"
        "    return sp.Mul(much, sp.Add(x, -x, evaluate=False), evaluate=False)",
        INVERTED,
    ),
    "a matrix of zeros, none": (
        "return sp.ZeroMatrix(0, 1)",
        f"{GIVEN}import numpy as np\nassert np.allclose(slope(sp.Matrix([3 * x]), x), 3)",
    ),
    "tuples of SymPy's in which there is nothing": (
        "return sp.Tuple(sp.Tuple(1), sp.Tuple())",
        f"{GIVEN}assert all(item == 1 for row in slope(sp.Array([[x, x], [x, x]]), x) for item in row)",
    ),
}


@pytest.mark.parametrize("name", NOTHING)
def test_no_expression_pays_that_deserves_nothing(name: str, zygote: Zygote) -> None:
    body, test = NOTHING[name]
    cheat = f"import sympy as sp\ndef slope(f, x):\n    {body}"
    said = only(run(zygote, answer(cheat), check(test), beside=RIGHT))
    assert said.alone or not said.points  # what rests on a word waits for a person


def test_an_answer_that_is_a_function_without_a_definition_is_looked_at(zygote: Zygote) -> None:
    """Its class is of no module."""
    right = "import sympy as sp\ndef slope(f, x): return sp.Function('f')(x)"
    said = only(run(zygote, answer(right), check(f"{GIVEN}assert str(slope(x, x)) == 'f(x)'"), beside=right))
    assert (said.kind, said.points) == (Ending.PASSED, 1)


def test_a_function_without_a_definition_is_called_by_no_name_that_code_could_find() -> None:
    """Said by a process that doesn't care what it may say."""
    with pytest.raises(WireError, match="odd name"):
        _heard({"t": "symbolic", "v": [["Integer", 3], ["Undefined", "open", 0]]}, lambda tree: tree)


STYLES = {
    "roots as numbers, where the reference's are known by their place": (
        "import sympy as sp\ndef slope(f, x): return sp.solve(f, x)",
        "return sp.Poly(f, x).nroots()",
        "found = slope(x**5 - x - 1, x); assert max(abs(complex(one) ** 5 - complex(one) - 1) for one in found) < 1e-6",
    ),
    "an integral up to infinity that is left as it is": (
        "import sympy as sp\ndef slope(f, x): return sp.integrate(f, (x, 0, sp.oo))",
        "return sp.Integral(f, (x, 0, sp.oo))",
        "assert abs(float(slope(sp.exp(-x), x)) - 1) < 1e-6",
    ),
    "real roots written with I": (
        "import sympy as sp\ndef slope(f, x): return sorted(2 * sp.cos(k * sp.pi / 9) for k in (2, 4, 8))",
        "return sorted(sp.solve(f, x), key=lambda root: sp.re(root.evalf()))",
        "assert all(abs(complex(one) ** 3 - 3 * complex(one) + 1) < 1e-6 for one in slope(x**3 - 3 * x + 1, x))",
    ),
}


@pytest.mark.parametrize("name", STYLES)
def test_a_right_number_written_in_another_way_keeps_its_points(name: str, zygote: Zygote) -> None:
    reference, body, test = STYLES[name]
    honest = f"import sympy as sp\ndef slope(f, x): {body}"
    said = only(run(zygote, answer(honest), check(GIVEN + test), beside=reference))
    assert (said.kind, said.points, said.alone) == (Ending.PASSED, 1, False)


def test_an_expression_with_a_part_that_isn_t_carried_is_no_zero(zygote: Zygote) -> None:
    """The answer was asked for it again and again, as data that it wasn't."""
    honest = "import sympy as sp\ndef slope(f, x): return sp.diff(f, x) + sp.Trace(sp.MatrixSymbol('A', 2, 2))"
    said = only(run(zygote, answer(honest), check(f"{GIVEN}assert slope(x**2, x) == 2 * x"), beside=RIGHT))
    assert said.points is None
    assert "carry" in said.message
