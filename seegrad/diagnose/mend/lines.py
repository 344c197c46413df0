"""One line of a program, rewritten as a mend wants it; and the quotes of it that a sentence makes."""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Callable
from typing import TypeGuard

from seegrad.diagnose.finding import NO_TWIN, PATH, Finding

Rewrite = Callable[[str], str | None]

SIGNS: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.MatMult: "@",
    ast.Pow: "**",
    ast.FloorDiv: "//",
    ast.Mod: "%",
}
ATOMS = (ast.Name, ast.Constant, ast.Attribute, ast.Call, ast.Subscript)
"""What needs no brackets behind a sign."""

FUNCTIONS = ("torch", "F", "nn.functional", "torch.nn.functional")
"""Whose functions write to their first argument."""

LEFT_OUT = ast.Constant(...)
"""What a sentence shows as `…`."""


class _Called(ast.Call):
    """A call of an attribute."""

    func: ast.Attribute


# -- one line, rewritten; None where it isn't such a line


def out_of_place(code: str) -> str | None:
    """A write as an assignment of something new.

    >>> out_of_place("l1 += 1.0"), out_of_place("self.x *= a - b"), out_of_place("x[1:] += x[:-1]")
    ('l1 = l1 + 1.0', 'self.x = self.x * (a - b)', None)
    >>> out_of_place("h.relu_()  # in place"), out_of_place("out.zero_()"), out_of_place("F.relu_(h)")
    ('h = h.relu()  # in place', 'out = torch.zeros_like(out)', 'h = F.relu(h)')
    >>> out_of_place("y = x.exp_()"), out_of_place("out.data.zero_()")
    ('y = x = x.exp()', 'out = torch.zeros_like(out)')
    >>> out_of_place("h.clamp_(max=1).mul_(3)")
    'h = h.clamp(max=1).mul(3)'
    >>> out_of_place("x[0] = 5")
    """
    statement = _parsed(code)
    if isinstance(statement, ast.AugAssign):
        return None if isinstance(statement.target, ast.Subscript) else computed_first(code)
    if isinstance(statement, ast.Expr) and (made := _made_new(code, statement.value)):
        return _put(code, statement, f"{made[0]} = {made[1]}")
    if isinstance(statement, ast.Assign) and (made := _made_new(code, statement.value)):
        targets = [_text(code, target) for target in statement.targets]
        return _put(code, statement, " = ".join(dict.fromkeys([*targets, *made])))
    return None


def computed_first(code: str) -> str | None:
    """The new value as a tensor of its own, then written.

    >>> computed_first("x[1:] += x[:-1]")
    'x[1:] = x[1:] + x[:-1]'
    """
    statement = _parsed(code)
    if not isinstance(statement, ast.AugAssign) or type(statement.op) not in SIGNS:
        return None
    target, value = _text(code, statement.target), _text(code, statement.value)
    value = value if isinstance(statement.value, ATOMS) else f"({value})"
    return _put(code, statement, f"{target} = {target} {SIGNS[type(statement.op)]} {value}")


def _made_new(code: str, value: ast.expr) -> tuple[str, str] | None:
    """What a call writes to, and the same call out of place: `x.relu_()`, `torch.relu_(x)`, `x.exp_().mul_(2)`."""
    calls = _chain(value)
    owner = _text(code, calls[0].func.value) if calls else ""
    name = new = owner.removesuffix(".data").removesuffix(".detach()")
    if owner in FUNCTIONS:
        given = _given(code, calls[0])
        name, new = given[0] if given else "", f"{owner}.{calls.pop(0).func.attr[:-1]}({', '.join(given)})"
    for call in calls:
        new = _twin(new, call.func.attr, _given(code, call)) if new else ""
    return (name, new) if new and PATH.fullmatch(name) else None


def _twin(of: str, op: str, given: list[str]) -> str:
    """What a method gives that doesn't write; empty where there's no such one."""
    twin = NO_TWIN.get(op, "")
    if op == "fill_":
        return f"torch.full_like({of}, {', '.join(given)})"
    if op.startswith("__") or "…" in twin or (twin and given):
        return ""
    return twin.format(name=of, op=op) if twin else f"{of}.{op[:-1]}({', '.join(given)})"


def _given(code: str, call: ast.Call) -> list[str]:
    return [_text(code, each) for each in (*call.args, *call.keywords)]


def _chain(value: ast.AST) -> list[_Called]:
    """A call that writes, behind those on whose results it's called."""
    found: list[_Called] = []
    while _is_write(value):
        found.insert(0, value)
        value = value.func.value
    return found


def _is_write(value: ast.AST) -> TypeGuard[_Called]:
    """A call of a method, or of a module's function, that ends in an underscore."""
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr.endswith("_")


def copied(code: str) -> str | None:
    """An alias that gets memory of its own.

    >>> copied("c = out.data"), copied("c = out.detach()  # an alias"), copied("n = out.detach().numpy()")
    ('c = out.detach().clone()', 'c = out.detach().clone()  # an alias', 'n = out.detach().clone().numpy()')
    >>> copied("c = out.data[0]"), copied("c = out.data + d.data")
    ('c = out.detach().clone()[0]', None)
    """
    statement = _parsed(code)
    found = _aliases(statement.value) if isinstance(statement, ast.Assign) else []
    return _put(code, found[0], _with_memory(found[0])) if len(found) == 1 else None


def copy_shown(code: str) -> str | None:
    """The same, as a sentence quotes it; of a line that does more than name the alias, the copy alone.

    >>> copy_shown("c = out.detach()  # an alias"), copy_shown("self.h.data.mul_(2)"), copy_shown("h.mul_(2)")
    ('c = out.detach().clone()', 'self.h.detach().clone()', None)
    """
    if line := copied(code):
        return ast.unparse(ast.parse(line))
    found = [each for part in parts_of(code)[:1] for each in _aliases(part)]
    return _with_memory(found[0]) if len(found) == 1 else None


def _aliases(part: ast.AST) -> list[ast.AST]:
    return [each for each in ast.walk(part) if _is_alias(each)]


def _with_memory(alias: ast.AST) -> str:
    inner = alias.func if isinstance(alias, ast.Call) else alias
    return f"{ast.unparse(inner.value)}.detach().clone()" if isinstance(inner, ast.Attribute) else ""


def _is_alias(part: ast.AST) -> bool:
    if isinstance(part, ast.Call):
        return isinstance(part.func, ast.Attribute) and part.func.attr == "detach" and not part.args
    return isinstance(part, ast.Attribute) and part.attr == "data"


def without_gradients(code: str) -> str | None:
    """A write that autograd isn't to see.

    >>> without_gradients("w -= 0.1 * g"), without_gradients("w = w - 1")
    ('with torch.no_grad(): w -= 0.1 * g', None)
    """
    statement = _parsed(code)
    writes = isinstance(statement, ast.AugAssign | ast.Expr) or (
        isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Subscript)
    )
    return f"with torch.no_grad(): {code}" if writes else None


def numbers_alone(code: str) -> str | None:
    """What is kept from lap to lap, without its graph.

    >>> numbers_alone("total += loss"), numbers_alone("losses.append(loss)"), numbers_alone("h = cell(x, h)")
    ('total += loss.detach()', 'losses.append(loss.detach())', None)
    """
    statement = _parsed(code)
    kept: ast.expr | None = None
    if isinstance(statement, ast.AugAssign):
        kept = statement.value
    elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call) and len(statement.value.args) == 1:
        function = statement.value.func
        kept = statement.value.args[0] if isinstance(function, ast.Attribute) and function.attr == "append" else None
    return _put(code, kept, f"{kept.id}.detach()") if isinstance(kept, ast.Name) else None


def with_keyword(method: str, keyword: str) -> Rewrite:
    """A call of `method` with `keyword=True`, where one such call stands there without it.

    >>> with_keyword("backward", "retain_graph")("loss.backward()")
    'loss.backward(retain_graph=True)'
    >>> with_keyword("grad", "create_graph")("(g,) = torch.autograd.grad(y, x)")
    '(g,) = torch.autograd.grad(y, x, create_graph=True)'
    """

    def rewritten(code: str) -> str | None:
        (call, *more) = [*_calls(code, method), None]
        if call is None or any(more) or any(each.arg == keyword for each in call.keywords):
            return None
        text = _text(code, call)
        inside = ", " if call.args or call.keywords else ""
        return _put(code, call, f"{text[:-1].rstrip().rstrip(',')}{inside}{keyword}=True)")

    return rewritten


def without_keyword(keyword: str) -> Rewrite:
    """A call without a keyword; one whose result nobody took gives it to what it was called with.

    >>> without_keyword("inplace")("h = F.relu(h, inplace=True)"), without_keyword("inplace")("h = relu(h)")
    ('h = F.relu(h)', None)
    >>> without_keyword("inplace")("F.dropout(h, 0.5, inplace=True)")
    'h = F.dropout(h, 0.5)'
    """

    def rewritten(code: str) -> str | None:
        statement = _parsed(code)
        for call in _calls(code):
            kept = [each for each in call.keywords if each.arg != keyword]
            if len(kept) == len(call.keywords):
                continue
            given = [_text(code, each) for each in (*call.args, *kept)]
            text = f"{_text(code, call.func)}({', '.join(given)})"
            if isinstance(statement, ast.Expr):
                name = given[0] if given and PATH.fullmatch(given[0]) else None
                return _put(code, statement, f"{name} = {text}") if name else None
            return _put(code, call, text)
        return None

    return rewritten


def built_out_of_place(op: str) -> Rewrite:
    """A line, or a part of a statement on several, that builds modules to write in place by an op: not to.

    >>> made = built_out_of_place("leaky_relu(inplace=True)")
    >>> made("nn.LeakyReLU(0.2, inplace=True),"), made("act = nn.LeakyReLU(f(x), True))"), made("nn.ReLU(True)")
    ('nn.LeakyReLU(0.2),', 'act = nn.LeakyReLU(f(x)))', None)
    """
    kind = op.removesuffix("(inplace=True)").replace("_", "")

    def rewritten(code: str) -> str | None:
        made = code
        for found in re.finditer(r"[\w.]+\(", code):
            text = _whole_call(code[found.start() :])
            if text and found[0].rpartition(".")[2][:-1].lower() == kind and (new := _without_flag(text)):
                made = made.replace(text, new)
        return made if made != code else None

    return rewritten


def _whole_call(text: str) -> str:
    """The call with which a text begins; empty where it ends on another line."""
    for end in (found.end() for found in re.finditer(r"\)", text)):
        if isinstance(statement := _parsed(text[:end]), ast.Expr) and isinstance(statement.value, ast.Call):
            return text[:end]
    return ""


def _without_flag(text: str) -> str | None:
    """A call without `inplace=True`, or without a `True` that is the last it's given by position."""
    (call, *_) = _calls(text)
    given = [each for each in call.keywords if each.arg != "inplace"]
    arguments = call.args
    if len(given) == len(call.keywords):
        flag = arguments[-1] if arguments else None
        if not isinstance(flag, ast.Constant) or flag.value is not True:
            return None
        arguments = arguments[:-1]
    return f"{_text(text, call.func)}({', '.join(_text(text, each) for each in (*arguments, *given))})"


def without_call(method: str) -> Rewrite:
    """What a method was called on, without that call, where it stands there once.

    >>> without_call("item")("loss = a + b.item()"), without_call("item")("loss = a.item() + b.item()")
    ('loss = a + b', None)
    """

    def rewritten(code: str) -> str | None:
        call, owner = _only(code, method)
        return None if call is None or owner is None or call.args else _put(code, call, _text(code, owner))

    return rewritten


def renamed(method: str, other: str) -> Rewrite:
    """Another method called in its place, where it is called once.

    >>> renamed("sample", "rsample")("z = Normal(mu, 1).sample()")
    'z = Normal(mu, 1).rsample()'
    """

    def rewritten(code: str) -> str | None:
        call, owner = _only(code, method)
        return None if call is None or owner is None else _put(code, call.func, f"{_text(code, owner)}.{other}")

    return rewritten


def undone(function: str, other: str = "") -> Rewrite:
    """What a function was called on, in its place; or `other` of it, where torch has both.

    >>> undone("softmax")("return torch.softmax(z / 2, -1)"), undone("softmax", "log_softmax")("p = z.softmax(1)")
    ('return (z / 2)', 'p = z.log_softmax(1)')
    """

    def rewritten(code: str) -> str | None:
        call, owner = _only(code, function)
        if call is None or owner is None:
            return None
        of = next((each for each in call.args if not isinstance(each, ast.Constant | ast.UnaryOp)), owner)
        torchs, text = _text(code, owner) in FUNCTIONS, _text(code, of)
        if other:
            return _put(code, call.func, f"{_text(code, owner)}.{other}") if torchs or of is owner else None
        return None if torchs and of is owner else _put(code, call, text if isinstance(of, ATOMS) else f"({text})")

    return rewritten


# -- the same, as a sentence quotes it


def instead(finding: Finding, op: str, *, whole: bool = False) -> dict[str, str]:
    """The words `new` and `old`: the culprit's write out of place, as its mend writes it, and as it stands.

    `whole`: no part of a tensor is written, so that `x[i]` is one of several.
    """
    code, name = finding.code, finding.called
    if op.endswith("(inplace=True)"):
        new, old = taken(code) or "", code
    else:
        new, old = quoted(code, op, name, whole=whole or "[" in (name or ""))
    return {"new": new, "old": old}


def quoted(code: str, op: str, name: str | None = None, *, whole: bool = False) -> tuple[str, str]:
    """A line's write by `op` out of place and as it stands, what isn't about that left out; `name`: the tensor's.

    >>> quoted("h.mul_(2)  # twice", "mul_"), quoted("return h.mul_(2)", "mul_"), quoted("if x: h.exp_()", "exp_")
    (('h = h.mul(…)', 'h.mul_(…)'), ('h.mul(…)', 'h.mul_(…)'), ('h = h.exp()', 'h.exp_()'))
    >>> quoted("self.h += x * 2", "add_"), quoted("h.clamp_(max=1).mul_(3)", "clamp_")
    (('self.h = self.h + …', 'self.h += …'), ('h = h.clamp(…).mul(…)', 'h.clamp_(…).mul_(…)'))
    >>> quoted("torch.nn.functional.relu_(h)", "relu_")
    ('h = torch.nn.functional.relu(h)', 'torch.nn.functional.relu_(h)')
    >>> quoted("x[0] = 5", "__setitem__"), quoted("net.h[0][1] += 5", "__iadd__")
    (('x = torch.where(…)', 'x[…] = …'), ('net.h = torch.where(…)', 'net.h[…] += …'))
    >>> quoted("h.uniform_(-1, 1)", "uniform_"), quoted("h.mul_(f(", "mul_"), quoted("", "mul_")
    (('h = torch.rand_like(h)', 'h.uniform_(…)'), ('h = h.mul(…)', 'h.mul_(…)'), ('y = y + …', 'y += …'))
    >>> quoted("h = F.relu(h, inplace=True)", "relu")
    ('h = F.relu(h)', 'h = F.relu(h, inplace=True)')
    >>> quoted("x[0].mul_(2)", "mul_", "x"), quoted("hs[0].mul_(2)", "mul_", "hs[0]")
    (('x = torch.where(…)', 'x[0].mul_(…)'), ('hs[0] = hs[0].mul(…)', 'hs[0].mul_(…)'))
    """
    if (new := without_keyword("inplace")(code)) and new != code:
        return new, code
    found = _shortest(code, op)
    part = _target(found) if isinstance(found, ast.AugAssign | ast.Assign) else None
    if found is not None and isinstance(part, ast.Subscript) and not whole:
        base = name or _base(part)
        sign = ast.unparse(found).removeprefix(ast.unparse(part)).strip()
        return f"{base} = torch.where(…)", _shown(f"{base}[…] {sign}")
    if isinstance(found, ast.AugAssign):
        old = ast.unparse(found)
        return _shown(computed_first(old) or old), _shown(old)
    if isinstance(found, ast.stmt) and (new := out_of_place(ast.unparse(found))):
        return _shown(new), _shown(ast.unparse(found))
    return _by_name(found, op, name or "y")


def _by_name(found: ast.AST | None, op: str, name: str) -> tuple[str, str]:
    """What can be said of a call inside an expression, of one without a twin, and of a line that can't be read."""
    call = found.value if isinstance(found, ast.Expr | ast.Assign) else found
    if call is None or not _is_write(call):
        return f"{name} = {name} + …", f"{name} += …"
    old, owner = ast.unparse(call), ast.unparse(call.func.value)
    if call is found and (made := _made_new(old, ast.parse(old, mode="eval").body)):
        return _shown(made[1]), _shown(old)
    is_part, name = isinstance(call.func.value, ast.Subscript), owner if PATH.fullmatch(owner) else name
    twin = "torch.where(…)" if is_part and owner != name else NO_TWIN.get(op, "{name}.{plain}(…)")
    new = twin.format(name=name, op=op, plain=op.rstrip("_"))
    return new if call is found else f"{name} = {new}", _shown(old)


def _shortest(code: str, op: str) -> ast.AST | None:
    """The statement that writes by `op`, or its expression where others read what that gives; shortened."""
    parts = parts_of(code)
    simple = [each for each in parts if isinstance(each, ast.stmt) and not hasattr(each, "body")]
    for each in simple:
        if isinstance(each, ast.AugAssign):
            return ast.AugAssign(each.target, each.op, LEFT_OUT)
        if isinstance(each, ast.Assign) and op == "__setitem__" and isinstance(_target(each), ast.Subscript):
            return ast.Assign([_target(each)], LEFT_OUT, lineno=1)
    calls = [each for each in parts if _is_write(each) and op in [link.func.attr for link in _chain(each)]]
    for call in calls[:1]:
        whole = (each for each in simple if isinstance(each, ast.Expr | ast.Assign) and each.value is call)
        _left_out(call)
        return next(whole, call)
    return None


def _left_out(whole: _Called) -> None:
    """Leaves out what the calls of a chain are given, but for what a function writes to."""
    for call in _chain(whole):
        first = call.args[:1] if ast.unparse(call.func.value) in FUNCTIONS else []
        more = len(call.args) + len(call.keywords) > len(first)
        call.args, call.keywords = [*first, *([LEFT_OUT] if more else [])], []


def taken(code: str) -> str | None:
    """A call that writes by a keyword or by its module's, and whose result nobody takes: out of place, it's lost.

    >>> taken("F.relu(h, inplace=True)"), taken("self.act(self.h)"), taken("y = self.act(h)"), taken("net(h + 1)")
    ('h = F.relu(h)', 'self.h = self.act(self.h)', None, None)
    """
    statement = _parsed(code)
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return None
    if new := without_keyword("inplace")(code):
        return new if new != code else None
    first = _text(code, statement.value.args[0]) if statement.value.args else ""
    return f"{first} = {_text(code, statement.value)}" if PATH.fullmatch(first) else None


def _target(found: ast.AugAssign | ast.Assign) -> ast.expr:
    return found.target if isinstance(found, ast.AugAssign) else found.targets[0]


def _base(part: ast.expr) -> str:
    """Of which tensor it's a part."""
    while isinstance(part, ast.Subscript):
        part = part.value
    return ast.unparse(part)


def _shown(text: str) -> str:
    return text.replace("...", "…")


def parts_of(code: str) -> list[ast.AST]:
    """All that a line says; the head of a block, and of a call on several, counts as one."""
    for text in (code, f"{code} pass", *(f"{code}{')' * depth}" for depth in (1, 2, 3))):
        with contextlib.suppress(SyntaxError, ValueError):
            return list(ast.walk(ast.parse(text)))
    return []


# -- text and its parts


def _parsed(code: str) -> ast.stmt | None:
    """The only statement of a line that is one by itself."""
    with contextlib.suppress(SyntaxError, ValueError):
        (statement,) = ast.parse(code).body
        return statement
    return None


def _calls(code: str, method: str = "") -> list[ast.Call]:
    """The calls in a line, of a function or method of that name if one is given."""
    statement = _parsed(code)
    found = [each for each in ast.walk(statement) if isinstance(each, ast.Call)] if statement is not None else []
    return [each for each in found if not method or _name(each.func) == method]


def _only(code: str, method: str) -> tuple[ast.Call | None, ast.expr | None]:
    """The call of that name, where it is the only one, and what it is called on."""
    (call, *more) = [*_calls(code, method), None]
    owner = call.func.value if call is not None and isinstance(call.func, ast.Attribute) else None
    return (None, None) if any(more) else (call, owner)


def _name(function: ast.expr) -> str:
    return str(getattr(function, "attr", getattr(function, "id", "")))


def _text(code: str, part: ast.AST) -> str:
    return ast.get_source_segment(code, part) or ""


def _put(code: str, part: ast.AST, text: str) -> str:
    """The line with another text in place of a part of it; what stands around it, a comment too, stays."""
    data = code.encode()
    first, last = part.col_offset, part.end_col_offset  # type: ignore[attr-defined]  # statements and expressions have both
    return (data[:first] + text.encode() + data[last:]).decode()
