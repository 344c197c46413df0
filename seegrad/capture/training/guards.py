"""`if p.requires_grad: p.requires_grad = flag`: what such a function has switched off it can't switch on again.

The call that was to do it does nothing at all, so no call of torch shows it. It's read off the text: where the function
was called to switch off, and a statement that comes later in the same block calls it alike with `True`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import CodeType, FrameType

from seegrad.capture.probes.places import Source, user_frame
from seegrad.capture.probes.source_text import called, under_way
from seegrad.capture.tables import Tables
from seegrad.capture.tables.frames import SwitchDraft
from seegrad.model.recording import Place

FLAG = "requires_grad"


@dataclass(slots=True)
class _Waiting:
    """What such a function has switched off, and when it was called to switch it on: once `frame` is past `line`."""

    guard: Place
    frame: int
    code: CodeType
    line: int
    tensors: list[int]


class GuardedSwitches:
    """Those that were called to switch back."""

    def __init__(self, tables: Tables, source: Source) -> None:
        self._tables, self._source = tables, source
        self._guards: dict[Place, tuple[Place, str] | None] = {}  # by the line that switches: the `if`, the function
        self._waiting: list[_Waiting] = []

    def switched_off(self, tensor: int, place: Place | None, user: FrameType | None) -> None:
        """A line has switched a tensor's gradient off."""
        if place is None or user is None:
            return
        if place not in self._guards:
            self._guards[place] = _guard(self._source, place, user)
        found = self._guards[place]
        if found is None:
            return
        guard, name = found
        last = self._waiting[-1] if self._waiting else None
        caller = user_frame(user.f_back)
        if last is not None and caller is not None and (last.guard, last.frame) == (guard, id(caller)):
            last.tensors.append(tensor)
        elif caller is not None and (line := _called_on(self._source, caller, name)) is not None:
            self._waiting.append(_Waiting(guard, id(caller), caller.f_code, line, [tensor]))

    def look(self, frames: Sequence[FrameType]) -> None:
        """Tell of those that are still off although the call that was to switch them on is over."""
        for each in tuple(self._waiting):
            if any((id(f), f.f_code) == (each.frame, each.code) and f.f_lineno > each.line for f in frames):
                self._waiting.remove(each)
                living = ((number, self._tables.tensors.alive(number)) for number in each.tensors)
                off = [number for number, leaf in living if leaf is not None and not leaf.requires_grad]
                if off:
                    now = self._tables.frames.now
                    self._tables.switches.append(SwitchDraft("guarded", False, now, each.guard, off))


def _guard(source: Source, place: Place, user: FrameType) -> tuple[Place, str] | None:
    """The line that asks whether the gradient is on before it is switched by a variable, and the function's name."""
    for _, tree in under_way(source, [user])[:1]:
        for each in ast.walk(tree):
            for asks, switches in _asking(each):
                owner = _switched(switches)
                if owner and switches.lineno == place.line and _is_flag(asks.test, owner):
                    line = source.at(place.file, asks.lineno)
                    return None if line is None else (line, user.f_code.co_name)
    return None


def _asking(each: ast.AST) -> Iterator[tuple[ast.If, ast.stmt]]:
    """(the `if`, what it lets through): what stands in it, or behind one that goes on with the next (`continue`)."""
    if isinstance(each, ast.If) and not each.orelse:
        yield from ((each, inner) for inner in each.body)
    body = each.body if isinstance(each, ast.For) else []
    for at, asks in enumerate(body):
        if isinstance(asks, ast.If) and isinstance(asks.body[-1], ast.Continue) and isinstance(asks.test, ast.UnaryOp):
            positive = ast.If(asks.test.operand, asks.body, [], lineno=asks.lineno)
            yield from ((positive, later) for later in body[at + 1 :])


def _switched(statement: ast.stmt) -> str:
    """`p` of `p.requires_grad = flag`, `p.requires_grad_(flag)`; empty where it's no variable that is given."""
    match statement:
        case ast.Assign(targets=[ast.Attribute(value=owner, attr="requires_grad")], value=ast.Name()):
            return ast.unparse(owner)
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner, attr="requires_grad_"), args=[ast.Name()])):
            return ast.unparse(owner)
    return ""


def _is_flag(test: ast.expr, owner: str) -> bool:
    """`p.requires_grad`, `p.requires_grad is True`."""
    asked = (
        test.left if isinstance(test, ast.Compare) and ast.unparse(test).endswith((" is True", " == True")) else test
    )
    return ast.unparse(asked) == f"{owner}.{FLAG}"


def _called_on(source: Source, caller: FrameType, name: str) -> int | None:
    """The last line of the first statement behind the one under way, in its block, that makes the call with `True`."""
    for _, tree in under_way(source, [caller])[:1]:
        for each in ast.walk(tree):
            for block in (getattr(each, "body", None), getattr(each, "orelse", None)):
                later = _later(block, name, caller.f_lineno) if isinstance(block, list) else None
                if later is not None:
                    return later.end_lineno or later.lineno
    return None


def _later(block: Sequence[ast.stmt], name: str, now: int) -> ast.stmt | None:
    """The first statement of a block that makes again, with `True`, the call that a statement before makes now."""
    under = [at for at, each in enumerate(block) if _spans(each, now)]
    calls = {_alike(call) for at in under for call in _calls(block[at], name) if _spans(call, now)}
    behind = block[under[0] + 1 :] if calls else []
    return next(
        (each for each in behind if any(_alike(c) in calls and _says_true(c) for c in _calls(each, name))), None
    )


def _spans(each: ast.stmt | ast.expr, line: int) -> bool:
    return each.lineno <= line <= (each.end_lineno or each.lineno)


def _calls(statement: ast.stmt, name: str) -> list[ast.Call]:
    """The calls of that name in a statement that makes them whatever happens."""
    inner = list(ast.walk(statement))
    surely = isinstance(statement, ast.Expr | ast.For | ast.With) and not any(isinstance(e, ast.If) for e in inner)
    found = [each for each in inner if isinstance(each, ast.Call) and called(each.func) == name]
    return found if surely else []


def _alike(call: ast.Call) -> str:
    """What a call says, but for its flag."""
    given = [ast.unparse(each) for each in call.args if not isinstance(each, ast.Constant)]
    return f"{ast.unparse(call.func)} {given}"


def _says_true(call: ast.Call) -> bool:
    given = (*call.args, *(each.value for each in call.keywords))
    return any(isinstance(each, ast.Constant) and each.value is True for each in given)
