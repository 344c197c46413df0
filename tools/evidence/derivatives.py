"""Make `seegrad/derivatives.json` from torch's own formulas: `python -m tools.evidence.derivatives [--check]`.

The source is `derivatives.yaml`, which torch ships in its wheel beside torchgen, the generator of its C++ Nodes.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

OUTPUT = Path(__file__).parents[2] / "seegrad" / "derivatives.json"

Entry = dict[str, Any]

BY_HAND: dict[str, Entry] = {"CopyBackwards": {"inputs": ["self", "src"], "serves": {}, "zeros": [0]}}
"""Nodes that torch writes by hand, outside derivatives.yaml."""


def generate() -> str:
    """The file's text: one Node a line, sorted."""
    import torchgen.packaged as packaged
    from torchgen.packaged.autograd.load_derivatives import load_derivatives

    root = Path(next(iter(packaged.__path__)))
    native = root / "ATen" / "native"
    found, _ = load_derivatives(
        str(root / "autograd" / "derivatives.yaml"), str(native / "native_functions.yaml"), str(native / "tags.yaml")
    )
    entries = dict(BY_HAND)
    for variants in found.values():
        for info in variants.values():
            if info.has_derivatives and info.op:
                merge(entries.setdefault(info.op, {"inputs": [], "serves": {}}), info)
    lines = [f"{json.dumps(name)}: {json.dumps(entries[name])}" for name in sorted(entries)]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def merge(entry: Entry, info: Any) -> None:
    """Add one op's formulas to the Node that several ops may share."""
    inputs = [argument.name for argument in info.args_with_derivatives]
    entry["inputs"] = entry["inputs"] or inputs
    if "pointwise" in info.func.tags:
        entry["pointwise"] = True
    zeros = set(entry.get("zeros", ()))
    for derivative in info.derivatives:
        slots = [inputs.index(name) for name in derivative.var_names if name in inputs]
        for saved in (*derivative.saved_inputs, *derivative.saved_outputs):
            kept = entry["serves"].setdefault(str(getattr(saved.nctype.name, "name", saved.nctype.name)), [])
            kept.extend(slot for slot in slots if slot not in kept)
        if is_zero(derivative.original_formula):
            zeros.update(slots)
    if zeros:
        entry["zeros"] = sorted(zeros)


def is_zero(formula: str) -> bool:
    """True for the formula of an input whose old value no longer matters.

    >>> is_zero("zeros_like(grad)"), is_zero("grad * other")
    (True, False)
    """
    return formula.strip() in {"zeros_like(grad)", "at::zeros_like(grad)", "grad.zeros_like()"}


def main(arguments: list[str]) -> int:
    """Write the file, or with `--check` compare its bytes."""
    text = generate()
    if "--check" in arguments:
        if OUTPUT.read_text(encoding="utf-8") == text:
            return 0
        print(f"{OUTPUT.name} isn't what torchgen gives: run `python -m tools.evidence.derivatives` and commit it.")
        return 1
    OUTPUT.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
