"""Programs that nobody else has written, and the same ones as somebody hands them in who doesn't want it seen."""

from __future__ import annotations

import ast
import random

CALLS = ("sum", "max", "len", "sorted", "abs", "min")
METHODS = ("append", "items", "split", "strip", "update", "pop", "count", "index", "join", "extend")


def program(seed: int, statements: int = 40) -> str:
    """A few functions, drawn; two seeds have in common what chance gives them."""
    draw = random.Random(seed)  # noqa: S311 -- nothing secret is drawn
    functions = [_function(draw, f"solve_{number}", statements // 4) for number in range(4)]
    return "\n\n".join(functions) + "\n"


def _function(draw: random.Random, name: str, statements: int) -> str:
    body = "\n".join(_statement(draw, 1) for _ in range(statements))
    return f"def {name}(values, other):\n{body}\n    return {_expression(draw, 2)}"


def _statement(draw: random.Random, depth: int) -> str:
    pad = "    " * depth
    kind = draw.choice(("assign", "call", "if", "for", "add")) if depth < 3 else draw.choice(("assign", "call", "add"))
    if kind == "assign":
        return f"{pad}{draw.choice('abcde')} = {_expression(draw, 2)}"
    if kind == "add":
        return f"{pad}total += {_expression(draw, 1)}"
    if kind == "call":
        return f"{pad}values.{draw.choice(METHODS)}({_expression(draw, 1)})"
    inner = "\n".join(_statement(draw, depth + 1) for _ in range(draw.randint(1, 2)))
    if kind == "for":
        return f"{pad}for one in {_expression(draw, 1)}:\n{inner}"
    other = _statement(draw, depth + 1)
    condition = f"{_expression(draw, 1)} {draw.choice(('<', '>', '==', '!='))} {draw.randint(0, 9)}"
    return f"{pad}if {condition}:\n{inner}\n{pad}else:\n{other}"


def _expression(draw: random.Random, depth: int) -> str:
    if not depth:
        return draw.choice(["a", "b", "values", "other", str(draw.randint(0, 99)), "'text'"])
    kind = draw.randrange(4)
    left, right = _expression(draw, depth - 1), _expression(draw, depth - 1)
    if kind == 0:
        return f"{left} {draw.choice('+-*/%')} {right}"
    if kind == 1:
        return f"{draw.choice(CALLS)}({left})"
    if kind == 2:
        return f"values[{left}:{right}]"
    return f"[{left} for x in {right} if x]"


class _Renamed(ast.NodeTransformer):
    """Every name that isn't Python's own is another one."""

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return node if node.id in CALLS else ast.Name(f"my_{node.id}", node.ctx)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        return ast.arg(f"my_{node.arg}")


class _Swapped(ast.NodeTransformer):
    """The branches of every `if`, and its condition turned around."""

    def visit_If(self, node: ast.If) -> ast.If:
        self.generic_visit(node)
        return ast.If(ast.UnaryOp(ast.Not(), node.test), node.orelse, node.body) if node.orelse else node


def renamed(source: str) -> str:
    """Other names, other quotes and layout, a comment a line."""
    plain = ast.unparse(ast.fix_missing_locations(_Renamed().visit(ast.parse(source))))
    return "\n".join(f"{line}  # mine, {number}" for number, line in enumerate(plain.splitlines()))


def swapped(source: str) -> str:
    """Branches swapped."""
    return ast.unparse(ast.fix_missing_locations(_Swapped().visit(ast.parse(source))))


def reordered(source: str, seed: int = 0) -> str:
    """Functions in another order."""
    parts = ast.parse(source).body
    random.Random(seed).shuffle(parts)  # noqa: S311 -- nothing secret is drawn
    return "\n\n".join(ast.unparse(part) for part in parts)


def padded(source: str) -> str:
    """A dead line before every sixth, and a function that nobody calls."""
    lines = []
    for number, line in enumerate(ast.unparse(ast.parse(source)).splitlines()):
        if number % 6 == 3 and not line.lstrip().startswith(("el", "def")) and line.startswith("    "):
            lines.append(f"{line[: len(line) - len(line.lstrip())]}unused_{number} = {number} ** 2")
        lines.append(line)
    return "\n".join(lines) + "\n\n" + program(12345, 12).replace("solve", "spare")


DISGUISES = {"renamed": renamed, "swapped": swapped, "reordered": reordered, "padded": padded}
