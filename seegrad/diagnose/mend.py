"""The line to put in place of another, where one line mends what a Diagnosis says: its advice, written out.

Where the advice is to move a line, to add one, or to think, there's none.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from seegrad.diagnose.evidence import ancestors, made_at
from seegrad.diagnose.finding import NO_TWIN, PATH
from seegrad.model.recording import Diagnosis, Mend, Place, Recording

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


def mend_of(recording: Recording, diagnosis: Diagnosis) -> Mend | None:
    """The line that mends it; None where none does alone."""
    for place, rewrite in _ways(recording, diagnosis):
        line = rewrite(place.code) if place is not None else None
        if place is not None and line is not None and line != place.code:
            return Mend(place, line)
    return None


def _ways(recording: Recording, diagnosis: Diagnosis) -> Iterator[tuple[Place | None, Rewrite]]:
    """The lines that may be replaced, and how; the best first."""
    facts, culprit = dict(diagnosis.arguments), diagnosis.culprit
    match diagnosis.kind, str(facts.get("how") or facts.get("cause") or ""):
        case "saved_tensor_modified", "":
            yield from _of_write(recording, diagnosis)
        case "silent_corruption", _ if facts.get("kept") == "version" and not facts.get("trained"):
            yield from _of_write(recording, diagnosis)
        case ("view_modified", "several" | "function") | ("memory_overlaps", "within"):
            yield culprit, out_of_place
        case "memory_overlaps", "between":
            yield culprit, computed_first
        case "leaf_modified", _ if not facts.get("marked"):
            yield culprit, without_gradients
        case "graph_freed", "again":
            yield culprit, with_keyword("backward", "retain_graph")
        case "graph_kept", _:
            yield culprit, numbers_alone
        case (("graph_cut" | "constant_term"), "grad"):
            yield culprit, with_keyword("grad", "create_graph")
        case "constant_term", "number":
            yield culprit, without_call("item")
        case "constant_term", "drawn":
            yield culprit, renamed("sample", "rsample")
        case "graph_cut", "detach" if diagnosis.severity == "error":
            yield culprit, without_call("detach")
        case _:
            return


def _of_write(recording: Recording, diagnosis: Diagnosis) -> Iterator[tuple[Place | None, Rewrite]]:
    """Of a write to what was saved: the alias gets memory of its own, or the new value a tensor of its own."""
    facts = dict(diagnosis.arguments)
    written = recording.writes[diagnosis.write_id].tensor if diagnosis.write_id is not None else None
    is_view = written is not None and recording.tensors[written].route == "view"
    if facts.get("trained") or facts.get("part") or facts.get("again_round") or is_view:
        return
    if str(facts.get("op")).endswith("(inplace=True)"):
        yield diagnosis.culprit, without_keyword("inplace")
    elif diagnosis.route in ("data", "detach"):
        alias = (each for each, route in ancestors(recording, written or 0) if route == diagnosis.route)
        yield made_at(recording, next(alias, written)), copied
        if diagnosis.route == "data" and facts.get("op") not in NO_TWIN:  # what holds constants only has no history
            yield diagnosis.culprit, out_of_place
    elif diagnosis.route == "self" and diagnosis.raised:
        yield diagnosis.culprit, out_of_place


# -- one line, rewritten; None where it isn't such a line


def out_of_place(code: str) -> str | None:
    """A write as an assignment of something new.

    >>> out_of_place("l1 += 1.0"), out_of_place("self.x *= a - b"), out_of_place("x[1:] += x[:-1]")
    ('l1 = l1 + 1.0', 'self.x = self.x * (a - b)', None)
    >>> out_of_place("h.relu_()  # in place"), out_of_place("out.zero_()"), out_of_place("F.relu_(h)")
    ('h = h.relu()  # in place', 'out = torch.zeros_like(out)', 'h = F.relu(h)')
    >>> out_of_place("y = x.exp_()"), out_of_place("out.data.zero_()")
    ('y = x = x.exp()', 'out = torch.zeros_like(out)')
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
    """What a call writes to, and the same call out of place: `x.relu_()`, `torch.relu_(x)`."""
    if not (isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr.endswith("_")):
        return None
    owner, op = _text(code, value.func.value), value.func.attr
    given = [_text(code, each) for each in (*value.args, *value.keywords)]
    if owner in ("torch", "F", "nn.functional", "torch.nn.functional"):
        first = given[0] if given and PATH.fullmatch(given[0]) else None
        return (first, f"{owner}.{op[:-1]}({', '.join(given)})") if first else None
    name = owner.removesuffix(".data").removesuffix(".detach()")
    if not PATH.fullmatch(name) or op.startswith("__"):
        return None
    twin = NO_TWIN.get(op, "")
    if op == "fill_":
        return name, f"torch.full_like({name}, {', '.join(given)})"
    if "…" in twin or (twin and given):
        return None
    return name, twin.format(name=name, op=op) if twin else f"{name}.{op[:-1]}({', '.join(given)})"


def copied(code: str) -> str | None:
    """An alias that gets memory of its own.

    >>> copied("c = out.data"), copied("c = out.detach()  # an alias"), copied("n = out.detach().numpy()")
    ('c = out.detach().clone()', 'c = out.detach().clone()  # an alias', 'n = out.detach().clone().numpy()')
    >>> copied("c = out.data[0]"), copied("c = out.data + d.data")
    ('c = out.detach().clone()[0]', None)
    """
    statement = _parsed(code)
    if not isinstance(statement, ast.Assign):
        return None
    found = [each for each in ast.walk(statement.value) if _is_alias(each)]
    if len(found) != 1:
        return None
    part = found[0]
    inner = part.func if isinstance(part, ast.Call) else part
    owner = _text(code, inner.value) if isinstance(inner, ast.Attribute) else ""
    return _put(code, part, f"{owner}.detach().clone()")


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


def without_call(method: str) -> Rewrite:
    """What a method was called on, without that call, where it stands there once.

    >>> without_call("item")("loss = a + b.item()"), without_call("item")("loss = a.item() + b.item()")
    ('loss = a + b', None)
    """

    def rewritten(code: str) -> str | None:
        (call, *more) = [*_calls(code, method), None]
        if call is None or any(more) or call.args or not isinstance(call.func, ast.Attribute):
            return None
        return _put(code, call, _text(code, call.func.value))

    return rewritten


def renamed(method: str, other: str) -> Rewrite:
    """Another method called in its place, where it is called once.

    >>> renamed("sample", "rsample")("z = Normal(mu, 1).sample()")
    'z = Normal(mu, 1).rsample()'
    """

    def rewritten(code: str) -> str | None:
        (call, *more) = [*_calls(code, method), None]
        if call is None or any(more) or not isinstance(call.func, ast.Attribute):
            return None
        return _put(code, call.func, f"{_text(code, call.func.value)}.{other}")

    return rewritten


# -- text and its parts


def _parsed(code: str) -> ast.stmt | None:
    """The only statement of a line that is one by itself."""
    try:
        body = ast.parse(code).body
    except (SyntaxError, ValueError):
        return None
    return body[0] if len(body) == 1 else None


def _calls(code: str, method: str = "") -> list[ast.Call]:
    """The calls in a line, of a function or method of that name if one is given."""
    statement = _parsed(code)
    found = [each for each in ast.walk(statement) if isinstance(each, ast.Call)] if statement is not None else []
    return [each for each in found if not method or _name(each.func) == method]


def _name(function: ast.expr) -> str:
    return (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )


def _text(code: str, part: ast.AST) -> str:
    return ast.get_source_segment(code, part) or ""


def _put(code: str, part: ast.AST, text: str) -> str:
    """The line with another text in place of a part of it; what stands around it, a comment too, stays."""
    data = code.encode()
    first, last = part.col_offset, part.end_col_offset  # type: ignore[attr-defined]  # statements and expressions have both
    return (data[:first] + text.encode() + data[last:]).decode()
