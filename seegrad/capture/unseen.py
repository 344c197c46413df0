"""Writes that code of the user's makes while a backward runs: torch's engine shows the recorder no call of its hooks.

A tensor whose version is another one after the backward than before it was written by such code. Where such code goes
behind the versions (`.data`, numpy), the bytes that were saved are compared too.

Its line is found by reading: of the user's hooks and custom backwards, the lines that look like a write, and the
variable that each writes, looked up where the function finds it (its closure, its globals, `ctx.saved_tensors`). A line
that writes something else is out; of those left the surest is told, and none where two are equally unsure.
"""

from __future__ import annotations

import ast
import re
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import CO_VARARGS, unwrap
from types import CodeType, FunctionType
from typing import Any

import torch

from seegrad.capture.functions import definition_of
from seegrad.capture.probes import torch_private as _torch
from seegrad.capture.probes.places import Source, is_users
from seegrad.capture.probes.variables import is_a
from seegrad.capture.tables import Tables
from seegrad.capture.tables.frames import FrameDraft, Hit
from seegrad.capture.tables.nodes import NodeDraft
from seegrad.model.recording import STEP, Place

WRITES = re.compile(r"\.([a-z]\w*_|step)\(|(?<![<>=!])(\*\*|//|[-+*/%&|^])=(?!=)|(\])\s*=(?!=)")
"""What a line looks like that writes in place: `g.mul_(2)`, `g *= 2`, `g[0] = 2`, `optimiser.step()`."""

WRITTEN = re.compile(r"([A-Za-z_]\w*)(?:\.\w+|\[[^\]]*\]?|\([^()]*\))*\s*$")
"""The variable before such a sign: `g`, `seen[0`, `optimisers[p]`, `self.weight.data`."""

OPS = {
    **{"+": "add_", "-": "sub_", "*": "mul_", "/": "div_", "//": "floor_divide_", "%": "remainder_", "**": "pow_"},
    **{"&": "bitwise_and_", "|": "bitwise_or_", "^": "bitwise_xor_", "]": "__setitem__", "step": STEP},
}
"""A sign of writing → the op that does it; a method in place is its own."""

SAVED = re.compile(r"tensors\[(\d+)\]")
"""What a custom Function's Node calls what it keeps."""

COLLECTIONS = (dict, list, tuple)
PLAIN = (bool, int, float, str, type(None))
MOST = 10_000
"""So many things are looked into for one variable."""

SURE, GIVEN, POSSIBLE, NO = 3, 2, 1, 0
"""A line writes this memory; what torch gave its function; what may be or hold the memory; something else."""


Line = tuple[Place, str]
"""A line of the user's and the op that it does."""


@dataclass(frozen=True, slots=True)
class Writer:
    """A function of the user's that a Node's backward runs, and what torch gives it: a "gradient", or the "leaf".

    `saved_at`: where the memory that was written stands in the `ctx.saved_tensors` of that Node; None where unknown.
    """

    function: weakref.ref[FunctionType]
    given: str
    saved_at: frozenset[int] | None = None


def writers_of(node: Any, tensor: torch.Tensor | None) -> Iterator[Writer]:
    """What the user's code may run for a Node: its own backward, and the hooks on the tensor whose gradient it gets."""
    yield from _writers([_torch.backward_of(node)], "gradient")
    if tensor is not None:
        yield from _writers(_torch.hooks_on(tensor), "gradient")
        yield from _writers(_torch.hooks_after(tensor), "leaf")


def _writers(functions: Iterable[Any], given: str) -> Iterator[Writer]:
    for each in functions:
        function = unwrap(getattr(each, "__func__", each))  # a bound method is gone at once, its function isn't
        if isinstance(function, FunctionType):
            yield Writer(weakref.ref(function), given)


def writing_line(
    writers: Iterable[tuple[Writer, bool]], source: Source, storage: int | None, *, guess: bool = False
) -> Line | None:
    """The line that wrote this memory; None where no line did, or each of two may have and there's to be no `guess`.

    Beside each writer: whether this memory is what torch gave it.
    """
    found = [
        (_certainty(function, name, storage, given) if at is None else at, line)
        for writer, given in writers
        if (function := writer.function()) is not None
        for name, line in _lines(function.__code__, source)
        for at in [_among_saved(writer, name, source, function.__code__)]
    ]
    best = max((certainty for certainty, _ in found), default=NO)
    lines = list(dict.fromkeys(line for certainty, line in found if certainty == best))
    return lines[0] if best > POSSIBLE or (best == POSSIBLE and (guess or len(lines) == 1)) else None


def _lines(code: CodeType, source: Source) -> Iterator[tuple[str, Line]]:
    """Every line that looks like a write: the variable that's written, the line and the op."""
    for number in sorted({line for _, _, line in code.co_lines() if line}) if is_users(code.co_filename) else ():
        text = source.line(code.co_filename, number)
        sign = WRITES.search(text)
        if sign:
            variable = WRITTEN.search(text[: sign.start()])
            op = str(sign[sign.lastindex or 1])
            place = Place(source.shown(code.co_filename), number, text)
            yield variable[1] if variable else "", (place, OPS.get(op, op))


def _among_saved(writer: Writer, name: str, source: Source, code: CodeType) -> int | None:
    """How sure it is of a variable that `ctx.saved_tensors` has given; None of others."""
    if writer.saved_at is None or name not in code.co_varnames:
        return None
    position = saved_names(definition_of(source, code)).get(name)
    return None if position is None else SURE if position in writer.saved_at else NO


def saved_names(function: ast.FunctionDef | None) -> dict[str, int]:
    """Variable → which of `ctx.saved_tensors` it is, for good: nothing else is put under its name.

    >>> text = "def backward(ctx, g):\\n a, b = ctx.saved_tensors\\n c = ctx.saved_tensors[0]\\n a *= g\\n b = b * g"
    >>> saved_names(ast.parse(text).body[0])
    {'a': 0, 'c': 0}
    """
    parts = list(ast.walk(function)) if function is not None else []
    written = {id(each.target) for each in parts if isinstance(each, ast.AugAssign)}
    named = [each for each in parts if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)]
    stores = Counter(each.id for each in named if id(each) not in written)
    found = [pair for each in parts if isinstance(each, ast.Assign) for pair in _unpacked(each)]
    return {name: position for name, position in found if stores[name] == 1}


def _unpacked(statement: ast.Assign) -> list[tuple[str, int]]:
    match statement:
        case ast.Assign(targets=[ast.Tuple(names) | ast.List(names)], value=ast.Attribute(attr="saved_tensors")):
            has_rest = any(isinstance(each, ast.Starred) for each in names)
            return [(each.id, at) for at, each in enumerate(names) if isinstance(each, ast.Name) and not has_rest]
        case ast.Assign(
            targets=[ast.Name(name)],
            value=ast.Subscript(ast.Attribute(attr="saved_tensors"), ast.Constant(int(position))),
        ):
            return [(name, position)]
    return []


def _certainty(function: FunctionType, name: str, storage: int | None, given: bool) -> int:
    """How sure it is that this variable of the function's is the memory."""
    code = function.__code__
    outer = name in code.co_freevars or (name not in code.co_varnames and name in function.__globals__)
    if outer:
        touches = _touches(_variable(function, name), storage)
        return POSSIBLE if touches is None else SURE if touches else NO
    arguments = code.co_varnames[: code.co_argcount + bool(code.co_flags & CO_VARARGS)]
    if name in arguments and name not in ("self", "ctx"):
        return GIVEN if given else NO
    return POSSIBLE


def _variable(function: FunctionType, name: str) -> Any:
    """The value of a variable from outside of the function; `...`, which may be anything, once it's deleted."""
    free = function.__code__.co_freevars
    if name not in free:
        return function.__globals__[name]
    try:
        return (function.__closure__ or ())[free.index(name)].cell_contents
    except ValueError:
        return ...


def _touches(value: Any, storage: int | None) -> bool | None:
    """True where this is the memory, False where it's known not to hold it, None where nobody can say.

    An optimiser writes all that it holds; of a list or dict only one item is written, and which one isn't known.
    """
    if is_a(value, torch.optim.Optimizer):
        parameters = [each for group in value.param_groups for each in group["params"]]
        return any(_torch.storage_key(each) == storage for each in parameters)
    if is_a(value, torch.Tensor):
        return _torch.storage_key(value) == storage
    return None if _may_hold(value, storage) else False


def _may_hold(value: Any, storage: int | None) -> bool:
    """False where every item of a collection is known to be something else."""
    waiting = [value]
    for _ in range(MOST):
        if not waiting:
            return False
        each = waiting.pop()
        if is_a(each, torch.Tensor):
            if _torch.storage_key(each) == storage:
                return True
        elif type(each) in COLLECTIONS:
            waiting += each.values() if type(each) is dict else each
        elif type(each) not in PLAIN:
            return True
    return True


BEHIND = frozenset({"data", "numpy", "untyped_storage", "from_dlpack", "data_ptr"})
"""What a function names that may write without moving a version."""

Writers = Mapping[int, tuple[Writer, ...]]
"""Node → what the user's code runs for it."""


class Stealth:
    """The versions of what the Nodes of one backward keep or add into, as they are before it."""

    def __init__(
        self, tables: Tables, source: Source, met: Sequence[NodeDraft], writers: Writers, backward: int
    ) -> None:
        self._tables, self._source, self._writers, self._backward = tables, source, writers, backward
        self._leaves = {draft.leaf: draft.id for draft in met if draft.leaf is not None}
        kept = {kept[1] for draft in met for kept in draft.kept} if writers else set()
        self._before = {number: self._version(number) for number in (*self._leaves, *kept)} if writers else {}
        self._began = tables.writes.next
        if any(self._goes_behind(writer) for each in writers.values() for writer in each):
            for number in self._before:
                tables.saved.keep(tables.tensors.drafts[number].storage)

    @staticmethod
    def _goes_behind(writer: Writer) -> bool:
        function = writer.function()
        return function is not None and not BEHIND.isdisjoint(function.__code__.co_names)

    def _version(self, number: int) -> int | None:
        tensor = self._tables.tensors.alive(number)
        return None if tensor is None else _torch.version(tensor)

    def found(self, ran: Sequence[int]) -> Iterator[tuple[FrameDraft, Hit]]:
        """A Frame and its Write for each counter that has moved unseen; `ran` are the Nodes that ran."""
        if not self._before:
            return
        tensors = self._tables.tensors.drafts
        told = {
            tensors[made.tensor].counter for made in self._tables.writes.since(self._began) if made.tensor in tensors
        }
        for number, before in self._before.items():
            now = self._version(number)
            if now is None:
                continue
            draft = tensors[number]
            if draft.counter in told or (now == before and not self._tables.saved.differs(draft.storage)):
                continue
            line = self._line(number, ran)
            if line is not None:
                told.add(draft.counter)
                yield self._frame(number, line), Hit(number, draft.storage, draft.span, line[1], (before, now))

    def _line(self, number: int, ran: Sequence[int]) -> Line | None:
        """Where the write was made: a leaf is what the post-accumulate hooks on it are given."""
        tensor, own = self._tables.tensors.alive(number), self._leaves.get(number)
        nodes = dict.fromkeys((*ran, *([] if own is None else [own])))
        writers = [
            (replace(writer, saved_at=self._saved_at(node, number)), node == own and writer.given == "leaf")
            for node in nodes
            for writer in self._writers.get(node, ())
        ]
        return writing_line(writers, self._source, None if tensor is None else _torch.storage_key(tensor))

    def _saved_at(self, node: int, number: int) -> frozenset[int] | None:
        """Where a tensor's memory stands among what a custom Function has saved by `ctx.save_for_backward`."""
        draft = self._tables.nodes.drafts.get(node)
        if draft is None or not draft.custom:
            return None
        storage = self._tables.tensors.drafts[number].storage
        found = ((SAVED.fullmatch(kept[0]), kept[3]) for kept in draft.kept)
        return frozenset(int(at[1]) for at, on in found if at is not None and on == storage)

    def _frame(self, number: int, line: Line) -> FrameDraft:
        frame = self._tables.frames.new("inplace", line[1], line[0])
        frame.inputs, frame.outputs, frame.backward = (number,), (number,), self._backward
        return frame
