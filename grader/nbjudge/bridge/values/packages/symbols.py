"""SymPy's expressions and matrices, as lists of their parts. Never as text that is evaluated; SymPy may be missing.

What comes is built by this process's own SymPy without being worked out, from classes that SymPy gives by name.
`lambdify` and `sympify` make code of it. So a symbol's name is one word, whatever stands before and behind it: of
`for f in` and a quoted text an index and a sum would make `sum(f('6 + 6') for f in [eval])`. And a function without a
definition, which that code calls by its name, has a name by which nothing runs text: `eval(bytes((54, 43, 54)))` would.
"""

from __future__ import annotations

import importlib
import keyword
import math
import re
import sys
from collections.abc import Callable, Mapping, Sized
from functools import cache
from typing import Any

from nbjudge.bridge.values.shared import InPlace, share
from nbjudge.bridge.values.table import (
    ROUNDING,
    WHOLE_BITS,
    Decoder,
    Encoder,
    Tree,
    UnsupportedError,
    ValueKind,
    known,
    whole_numbers,
)
from nbjudge.errors import WireError
from nbjudge.wire import listed, text, whole

MOST = 1 << 14  # parts of one expression, items of one matrix
PRECISION_BITS = 1 << 14
DIGITS = (2, 5, 8, 15)  # to which numbers are worked out
NAME_CHARS = 200
NAME = re.compile(r"\\?[^\W\d]\w*+(?:[_^]?\{\\?\w*+\}|\^\w++)*+|[+-]")  # as LaTeX has it; the last: sides of a limit
FUNCTION = re.compile(r"[a-zA-DF-HJ-MPRT-Z](_?\d{1,3})?|theta|phi|rho|omega|sigma|tau|eta|xi|mu|nu")  # not SymPy's own
WHOLE = ("Integer", "Rational", "Float", "Symbol", "Dummy", "Constant")  # said without parts
TRUTHS = {"BooleanTrue": "true", "BooleanFalse": "false"}


@cache
def _sympy() -> Any:
    return importlib.import_module("sympy")


def _class(name: str) -> type | None:
    """SymPy's class of this name."""
    home = "sympy.functions.elementary.piecewise" if name == "ExprCondPair" else "sympy"  # the one that lies deeper
    found = vars(importlib.import_module(home)).get(name)
    return found if isinstance(found, type) and issubclass(found, _sympy().Basic) else None


def is_symbolic(value: Any) -> bool:
    """An expression of SymPy's, or another thing of its that nobody can change."""
    return "sympy" in sys.modules and issubclass(type(value), _sympy().Basic) and _kind(value) is not None


def _kind(value: Any) -> str | None:
    """As what a part is said: an atom, a constant, an undefined function's value, or an object of SymPy's class."""
    here, sympy = type(value), _sympy()
    if issubclass(here, sympy.Rational):
        return "Integer" if issubclass(here, sympy.Integer) else "Rational"
    if issubclass(here, sympy.Tuple):  # `hyper` has its own
        return "Tuple"
    if getattr(sympy.S, TRUTHS.get(here.__name__, here.__name__), None) is value:
        return "Constant"
    if isinstance(here, type(sympy.Function("f"))):
        return "Undefined"
    made_of_parts = not issubclass(here, sympy.Atom) or here.__name__ in WHOLE  # a Wild isn't, but has a name
    return here.__name__ if made_of_parts and _class(here.__name__) is here else None


# ---------------------------------------------------------------------- said


def _said(value: Any, encode: Encoder) -> Any:
    """Its parts, each after those that it is made of; what has an odd part isn't data."""
    parts: list[list[Any]] = []
    at: dict[int, int] = {}
    waiting = [value]
    while waiting:
        one = waiting[-1]
        kind = _kind(one) if issubclass(type(one), _sympy().Basic) else None
        if kind is None:
            return encode.other(value, encode)
        inner = () if kind in WHOLE else one.args
        missing = [part for part in inner if id(part) not in at]
        if missing:
            waiting += missing
            continue
        waiting.pop()
        if id(one) not in at:
            at[id(one)] = len(parts)
            parts.append([kind, *_content(kind, one), *(at[id(part)] for part in inner)])
        if len(parts) + len(waiting) > MOST:
            raise UnsupportedError(f"an expression of more than {MOST} parts")
    return {"t": "symbolic", "v": parts}


def _content(kind: str, value: Any) -> list[Any]:
    if kind in ("Integer", "Rational"):
        return [_bounded(value.p), *([_bounded(value.q)] if kind == "Rational" else [])]
    if kind == "Float":
        return [*map(int, value._mpf_[:3]), value._prec]
    if kind in ("Symbol", "Dummy"):
        given = getattr(value, "_assumptions_orig", value.assumptions0)  # before SymPy 1.13 all that follows from them
        index = [value.dummy_index] if kind == "Dummy" else []
        return [_named(value.name), {name: flag for name, flag in given.items() if flag is not None}, *index]
    if kind == "Constant":
        return [TRUTHS.get(type(value).__name__, type(value).__name__)]
    if kind == "Undefined" and not FUNCTION.fullmatch(type(value).__name__):
        raise UnsupportedError("a function without a definition whose name isn't one letter, with a number or without")
    return [type(value).__name__] if kind == "Undefined" else []


def _bounded(number: int) -> int:
    if int(number).bit_length() > WHOLE_BITS:
        raise UnsupportedError(f"a whole number of more than {WHOLE_BITS} bits")
    return int(number)


def _named(name: str) -> str:
    if not _is_name(name):
        raise UnsupportedError("a symbol whose name isn't one word, or what LaTeX makes of one")
    return name


def _is_name(name: str) -> bool:
    """Is it a word by which code can't say more than this word? `lambda` is one: SymPy's printers know it.

    >>> [_is_name(name) for name in ("x_1", r"\\theta_{1}", "lambda", "for f in ", "'6'", "if", "x,y")]
    [True, True, True, False, False, False, False]
    """
    reserved = keyword.iskeyword(name) and name != "lambda"
    return len(name) <= NAME_CHARS and bool(NAME.fullmatch(name)) and not reserved


# ---------------------------------------------------------------------- heard


def _heard(tree: Tree, _decode: Decoder) -> Any:
    made: list[Any] = []
    for part in listed(tree, "v", MOST):
        if type(part) is not list or not part or type(part[0]) is not str:
            raise WireError("An expression isn't made of parts.")
        kind, *said = part
        try:
            made.append(_MAKERS.get(kind, _of_class)(kind, said, made))
        except WireError:
            raise
        except Exception:  # whatever SymPy says of parts that don't fit
            raise WireError("An expression's part isn't one of SymPy's.") from None
        if not issubclass(type(made[-1]), _sympy().Basic):
            raise WireError("An expression's part is no expression.")
    if not made:
        raise WireError("An expression has no parts.")
    return made[-1]


def _number(kind: str, said: list[Any], _made: list[Any]) -> Any:
    if any(type(one) is not int or abs(one).bit_length() > WHOLE_BITS for one in said):
        raise WireError("A number of an expression isn't one.")
    sympy = _sympy()
    if kind == "Integer":
        (one,) = said
        return sympy.Integer(one)
    if kind == "Rational":
        above, below = said
        return sympy.Rational(above, below)
    *mpf, precision = said
    if len(mpf) != 3 or not 0 < precision < PRECISION_BITS or abs(mpf[2]) > PRECISION_BITS:
        raise WireError("A number of an expression is no Float.")
    return sympy.Float(tuple(mpf) if mpf[1] else 0, precision=precision)  # how long it is, SymPy counts by itself


def _symbol(kind: str, said: list[Any], _made: list[Any]) -> Any:
    name, given, *index = said
    flags = type(given) is dict and all(_is_name(key) and type(flag) is bool for key, flag in given.items())
    if type(name) is not str or not _is_name(name) or not flags:
        raise WireError("A symbol has an odd name.")
    if kind == "Symbol":
        return _sympy().Symbol(name, **given)
    return _sympy().Dummy(name, dummy_index=whole({"index": index[0]}, "index", 0, 1 << 64), **given)


def _constant(_kind: str, said: list[Any], _made: list[Any]) -> Any:
    return getattr(_sympy().S, text({"name": said[0]}, "name", 80))


def _undefined(_kind: str, said: list[Any], made: list[Any]) -> Any:
    name, *inner = said
    if type(name) is not str or not FUNCTION.fullmatch(name):
        raise WireError("A function has an odd name.")
    return _sympy().Function(name)(*_among(inner, made))


def _of_class(kind: str, said: list[Any], made: list[Any]) -> Any:
    found, inner = _class(kind), _among(said, made)
    if found is None:
        raise WireError("An expression's part is of no class of SymPy's.")
    worked_out = (_sympy().Add, _sympy().Mul, _sympy().Pow, _sympy().Function, _sympy().Rel)
    return found(*inner, evaluate=False) if issubclass(found, worked_out) else found(*inner)


def _among(places: list[Any], made: list[Any]) -> list[Any]:
    if any(type(place) is not int or not 0 <= place < len(made) for place in places):
        raise WireError("An expression's part isn't there.")
    return [made[place] for place in places]


_MAKERS: Mapping[str, Callable[[str, list[Any], list[Any]], Any]] = {
    **dict.fromkeys(("Integer", "Rational", "Float"), _number),
    **dict.fromkeys(("Symbol", "Dummy"), _symbol),
    "Constant": _constant,
    "Undefined": _undefined,
}


def _lacks(value: Any) -> bool:
    """Is it NaN or infinite, or a number that is, or that nobody knows, once it is worked out?"""
    constants = _sympy().S
    missing = (constants.NaN, constants.Infinity, constants.NegativeInfinity, constants.ComplexInfinity)
    if isinstance(value, _sympy().Number):
        return value in missing or _is_endless(value)
    try:
        if getattr(value, "is_number", False):
            return _is_vague([value.evalf(most) for most in DIGITS], missing)
        return bool(value.has(*missing)) or (isinstance(value, _sympy().Expr) and value.evalf(2).has(*missing))
    except Exception:  # whatever SymPy finds impossible
        return True


def _is_endless(number: Any) -> bool:
    """Would it be infinite as a float of Python's?"""
    return isinstance(number, _sympy().Float) and math.isinf(float(number))


def _is_vague(numbers: list[Any], missing: tuple[Any, ...]) -> bool:
    """Does a number miss, or become another one when it is worked out further? SymPy compares by few digits: it would
    be less than anything, and more.
    """
    if any(one.has(*missing) for one in numbers) or _is_endless(abs(numbers[-1])):
        return True
    return any((abs(one - numbers[-1]) > abs(numbers[-1]) / 8 + ROUNDING) == True for one in numbers[:-1])  # noqa: E712 - or neither


def _unreal(value: Any) -> bool:
    """Is it a number that isn't real, once it is worked out? Those roots of a cubic that are contain `I` too."""
    if isinstance(value, _sympy().Number) or not getattr(value, "is_number", False):
        return False
    try:
        number = complex(value)
    except Exception:  # whatever SymPy finds impossible
        return bool(value.has(_sympy().I))
    return not abs(number.imag) <= ROUNDING * abs(number)


def size_of(value: Any) -> int | None:
    """How many items one of SymPy's collections or matrices has; None of what is none, or where nobody knows."""
    try:
        return len(value) if isinstance(value, Sized) else math.prod(map(int, value.shape))
    except Exception:  # whatever SymPy finds impossible
        return None


def items_of(value: Any) -> list[Any] | None:
    """What one of SymPy's collections is made of."""
    return [*value.args] if hasattr(value, "__len__") else None


known(ValueKind("symbolic", (), _said, _heard, takes=is_symbolic, lacks=_lacks, unreal=_unreal))

# ---------------------------------------------------------------------- matrices, which both sides may change in place


def is_matrix(value: Any) -> bool:
    """A matrix of SymPy's that can be changed."""
    return "sympy" in sys.modules and type(value) is _sympy().Matrix


def _matrix_said(value: Any, encode: Encoder) -> dict[str, Any]:
    items = value.flat()
    if len(items) > MOST:
        raise UnsupportedError(f"a matrix of more than {MOST} items")
    return {"shape": list(value.shape), "v": [encode(item) for item in items]}


def _matrix_fill(value: Any, tree: Tree, decode: Decoder) -> Any:
    said = tree.get("v")
    if not isinstance(said, dict):
        raise WireError("A matrix isn't an object.")
    shape, items = whole_numbers(said, "shape"), [decode(item) for item in listed(said, "v", MOST)]
    right = len(shape) == 2 and len(items) == shape[0] * shape[1]
    if not right or not all(issubclass(type(item), _sympy().Basic) for item in items):
        raise WireError("A matrix isn't made of expressions.")
    made = _sympy().Matrix(*shape, items)
    return made if value is None else put(value, made)


def put(value: Any, state: Any) -> Any:
    """Give a matrix the size and items of another."""
    vars(value).update(vars(state.copy()))
    return value


def _matrix_looks(value: Any) -> bytes:
    return repr((value.shape, [_sympy().srepr(item) for item in value.flat()])).encode()


share("symbolic matrix", (), InPlace(_matrix_said, _matrix_fill, _matrix_looks), is_matrix)
