"""Which variables a line gives to calls, and which it reads."""

from __future__ import annotations

import ast

from seegrad.diagnose.mend.lines import parts_of


def given_only(code: str) -> list[tuple[str, str]]:
    """(what it calls, the variable that it gives) for those to which the line gives nothing new.

    >>> given_only("out = self.conv(x)"), given_only("x = self.act(x)"), given_only("return h + self.last(self.act(h))")
    ([('conv', 'x')], [], [('act', 'h')])
    """
    found = parts_of(code)
    assigned = [target for each in found if isinstance(each, ast.Assign) for target in each.targets]
    new = {ast.unparse(each) for target in assigned for each in ast.walk(target) if isinstance(each, ast.expr)}
    alone = any(isinstance(each, ast.Expr) for each in found)  # its result is of no use: what it writes is
    calls = [each for each in found if isinstance(each, ast.Call) and not alone]
    given = [(call, each) for call in calls for each in call.args if isinstance(each, ast.Name | ast.Attribute)]
    named = [(ast.unparse(call.func).rpartition(".")[2], ast.unparse(each)) for call, each in given]
    return [(call, name) for call, name in named if name not in new]


def read_times(code: str, name: str) -> int:
    """How often a line reads a variable.

    >>> read_times("return x + f(x)", "x"), read_times("x = f(y)", "x"), read_times("x += y", "x")
    (2, 0, 1)
    """
    count = 0
    for each in parts_of(code):
        part = each.target if isinstance(each, ast.AugAssign) else each
        reads = isinstance(each, ast.AugAssign) or isinstance(getattr(each, "ctx", None), ast.Load)
        count += reads and ast.unparse(part) == name
    return count
