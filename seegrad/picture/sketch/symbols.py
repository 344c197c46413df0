"""The sign of an operation, as mathematics writes it; its name where there is none."""

from __future__ import annotations

import re

SIGNS = {
    "Add": "+", "Sub": "−", "Mul": "×", "Div": "÷", "Neg": "−x", "Pow": "xⁿ", "Exp": "exp", "Log": "log", "Sum": "Σ",
    "Mean": "mean", "Sigmoid": "σ", "Tanh": "tanh", "Relu": "relu", "Mm": "@", "Mv": "@", "Dot": "@", "Bmm": "@",
    "Addmm": "@+", "T": "ᵀ", "Transpose": "ᵀ", "Permute": "ᵀ", "Sqrt": "√", "Abs": "|x|", "Select": "[i]",
    "Slice": "[:]", "Index": "[…]", "CopySlices": "[…]=", "Copy": "copy", "Clone": "clone", "View": "view",
    "AsStrided": "view",
}  # fmt: skip
NUMBER = re.compile(r"(Backward)?\d*$")
LONGEST = 12


def sign(name: str) -> str:
    """The sign for a Node's or an op's name.

    >>> sign("MulBackward0"), sign("NllLossBackward0"), sign("zero_")
    ('×', 'nllloss', 'zero_')
    """
    base = NUMBER.sub("", name.rsplit("::", 1)[-1])
    return shorten(SIGNS.get(base) or base.lower(), LONGEST)


def op_sign(op: str) -> str:
    """What an in-place op is called: its name, `[…] =` for an indexed assignment.

    >>> op_sign("add_"), op_sign("__setitem__"), op_sign("__iadd__")
    ('add_', '[…] =', '+=')
    """
    signs = {"setitem": "[…] =", "iadd": "+=", "isub": "−=", "imul": "×=", "itruediv": "÷=", "copy_slices": "[…] ="}
    return shorten(signs.get(op.strip("_")) or op, 20)


def shorten(text: str, longest: int) -> str:
    """Cut in the middle, so that both ends of a long name stay readable.

    >>> shorten("encoder_layer_weight", 9)
    'enco…ight'
    """
    if len(text) <= longest:
        return text
    half = (longest - 1) // 2
    return f"{text[: longest - 1 - half]}…{text[-half:]}"
