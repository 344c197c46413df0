"""Which saved tensor serves which input's gradient, from torch's own formulas.

`derivatives.json` is made by `python -m tools.evidence.derivatives` from the `derivatives.yaml` inside torch's wheel.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib import resources


@dataclass(frozen=True, slots=True)
class Formula:
    """One Node's derivative: its differentiable inputs in slot order, who reads what, which gradients are always 0."""

    inputs: tuple[str, ...]
    serves: dict[str, tuple[int, ...]]
    zeros: tuple[int, ...] = ()
    pointwise: bool = False


@cache
def formulas() -> dict[str, Formula]:
    """Node name → Formula, for all of torch's generated Nodes.

    >>> formulas()["MulBackward0"].serves["other"]
    (0,)
    """
    text = resources.files("seegrad").joinpath("derivatives.json").read_text(encoding="utf-8")
    return {
        name: Formula(
            tuple(entry["inputs"]),
            {attr: tuple(slots) for attr, slots in entry["serves"].items()},
            tuple(entry.get("zeros", ())),
            entry.get("pointwise", False),
        )
        for name, entry in json.loads(text).items()
    }


def serves(node: str, attr: str, slots: int) -> tuple[int, ...]:
    """Input slots of `node` whose gradient reads its saved `attr`; all of them where that isn't known.

    >>> serves("MulBackward0", "self", 2), serves("MyFunctionBackward", "x", 2)
    ((1,), (0, 1))
    """
    formula = formulas().get(node)
    known = formula.serves.get(attr.split("[")[0]) if formula and len(formula.inputs) == slots else None
    return tuple(range(slots)) if known is None else known


SIGN_ONLY = frozenset({("ReluBackward0", "result"), ("LeakyReluBackward0", "self"), ("AbsBackward0", "self")})
"""Saved tensors of which the formula reads nothing but the sign."""


def reads_sign_only(node: str, attr: str) -> bool:
    """True where the gradient stays right as long as the signs of the saved tensor do.

    >>> reads_sign_only("ReluBackward0", "result"), reads_sign_only("SigmoidBackward0", "result")
    (True, False)
    """
    return (node, attr) in SIGN_ONLY


GATES = ("input_gates", "hidden_gates", "input_bias", "hidden_bias")
PUT_ASIDE = frozenset(
    {
        *((f"ThnnFused{cell}CellBackward0", attr) for cell in ("Gru", "Lstm") for attr in GATES),
        *(("NativeBatchNormBackward0", attr) for attr in ("running_mean", "running_var")),
    }
)
"""Saved for a second derivative alone: CUDA's kernel has put aside in the forward what the first one needs."""


def is_put_aside(node: str, attr: str, device: str) -> bool:
    """True where a backward that makes no graph takes nothing from the saved `attr` on that kind of device.

    >>> [is_put_aside("NativeBatchNormBackward0", "running_mean", device) for device in ("cuda", "cpu")]
    [True, False]
    """
    return device == "cuda" and (node, attr) in PUT_ASIDE


def always_zero(node: str) -> tuple[int, ...]:
    """Input slots of `node` whose gradient is 0 whatever comes: the old value was overwritten.

    >>> always_zero("FillBackward0"), always_zero("MulBackward0")
    ((0,), ())
    """
    formula = formulas().get(node)
    return formula.zeros if formula else ()


STEEP = frozenset({
    "Acos", "Acosh", "Asin", "Atan2", "Atanh", "Div", "Erfinv", "Exp", "Exp2", "Expm1", "LinalgEigh", "LinalgSvd",
    "Log", "Log10", "Log1P", "Log2", "Logit", "Logsumexp", "Pow", "Reciprocal", "Rsqrt", "Sqrt", "Tan", "Xlogy",
})  # fmt: skip
"""Nodes that have an infinite slope somewhere, without the end of their names."""


ROWS = frozenset({"LogSoftmax", "SafeSoftmax", "Softmax"})
"""Nodes whose results are no numbers where a whole row is left out."""


def stem(node: str) -> str:
    """A Node's name without its end.

    >>> stem("SqrtBackward0")
    'Sqrt'
    """
    return node.partition("Backward")[0]


@cache
def may_break(node: str) -> bool:
    """True where a Node may hand on a gradient that isn't finite although it's given a small one.

    >>> may_break("SqrtBackward0"), may_break("MulBackward0")
    (True, False)
    """
    return stem(node) in STEEP or stem(node) in ROWS


ROWS_OF, COLUMNS_OF = (-1,), (-2,)
MEETS = {
    **dict.fromkeys([("MmBackward0", "self"), ("BmmBackward0", "self"), ("AddmmBackward0", "mat1")], ROWS_OF),
    **dict.fromkeys([("MmBackward0", "mat2"), ("BmmBackward0", "mat2"), ("AddmmBackward0", "mat2")], COLUMNS_OF),
}
"""Products of matrices: along which dimension of the gradient a saved number meets all that there is."""

STEEP_AT_0 = frozenset({"Div", "Exp", "Exp2", "Expm1", "Log", "Log10", "Log2", "Pow", "Reciprocal", "Rsqrt", "Sqrt"})
"""Steep Nodes whose slope is finite where what they saved is finite and not 0."""


@cache
def meets(node: str, attr: str) -> tuple[int, ...] | None:
    """Dimensions of the gradient along which a number of the saved `attr` meets all; none: it meets its own alone.

    Where it meets nothing but 0, its value doesn't matter. None where that isn't known, or the slope may be infinite.

    >>> meets("SinBackward0", "self"), meets("MmBackward0", "self"), meets("AsinBackward0", "self")
    ((), (-1,), None)
    """
    formula = formulas().get(node)
    if formula is not None and formula.pointwise and stem(node) not in STEEP - STEEP_AT_0:
        return ()
    return MEETS.get((node, attr))


FLAT = frozenset({
    "Clamp", "ClampMax", "ClampMin", "Hardsigmoid", "Hardswish", "Hardtanh", "Relu", "Sigmoid", "Softshrink", "Tanh",
    "Threshold",
})  # fmt: skip
"""Nodes whose slope may be 0 for all that they are given, without the end of their names."""


@cache
def may_be_flat(node: str) -> bool:
    """True where a Node may hand on nothing but 0 although it's given something else.

    >>> may_be_flat("ReluBackward0"), may_be_flat("MulBackward0")
    (True, False)
    """
    return stem(node) in FLAT


FACTORS = {
    **dict.fromkeys(("Bmm", "Convolution", "Dot", "Mm", "Mul", "Mv"), (0, 1)),
    **dict.fromkeys(("Addmm", "Addmv", "Baddbmm"), (1, 2)),
}
"""Product, without the end of its Node's name → its factors' slots: the gradient of each is one with the other."""


@cache
def factors(node: str) -> tuple[int, ...]:
    """The slots of what a Node's op multiplies; none of another op.

    >>> factors("AddmmBackward0"), factors("AddBackward0")
    ((1, 2), ())
    """
    return FACTORS.get(stem(node), ())


SELECTS = frozenset({
    "Gather", "Index", "IndexPut", "IndexSelect", "MaskedFill", "MaskedScatter", "MaskedSelect", "NanToNum", "Nanmean",
    "Nansum", "Where",
})  # fmt: skip
"""Nodes that hand on 0 for the numbers that their op has left out, without the end of their names."""


@cache
def selects(node: str) -> bool:
    """True where an op may have left numbers out.

    >>> selects("IndexBackward0"), selects("MulBackward0")
    (True, False)
    """
    return stem(node) in SELECTS
