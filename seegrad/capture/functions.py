"""Custom Functions whose backward may be wrong: it never reads what it's given, or central differences say otherwise.

And those whose forward computes with what they weren't given, of which autograd knows nothing.

The first is seen of its code, as soon as it's used. The second is looked for on demand: what each was given is copied,
and compared when the block is over.
The copies are of double precision, the comparison runs after the recorded block, with a generator state of its own. A
Function that refuses doubles, answers differently each time or isn't smooth where it was used isn't compared.
"""

from __future__ import annotations

import ast
import dis
import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

import torch

from seegrad.capture.probes import torch_private as _torch
from seegrad.capture.probes.places import Source, definitions
from seegrad.capture.probes.variables import is_a, variables
from seegrad.capture.tables import Tables
from seegrad.capture.tables.frames import FrameDraft
from seegrad.model.recording import Clue, FunctionCheck, Place

MOST, MOST_IN_ALL = 3, 60
"""Uses of one Function on one line, with arguments of one kind, that are compared; and of one Function."""

LARGEST = 1_000_000
"""Numbers of all its arguments together; with more it isn't compared."""

AT_ONCE = 2
"""So many Frames lie, at most, between two events of one forward."""

STEP = 1e-6
NEAR, SMALL = 1e-4, 1e-7
"""How far a slope may be off: in proportion, and in all."""

RETURNS = frozenset(dis.opmap[name] for name in ("RETURN_VALUE", "RETURN_CONST") if name in dis.opmap)

OF_ITS_KIND = frozenset(
    [
        "shape",
        "size",
        "numel",
        "dim",
        "ndim",
        "dtype",
        "device",
        "layout",
        "is_cuda",
        "requires_grad",
        "new_ones",
        "new_zeros",
        "new_full",
        "new_empty",
    ]
)
"""What is asked of a tensor without reading a number of it."""

SMOOTH = 1e-3
"""How far the slopes to the two sides may differ."""

Arguments = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Application:
    """One use of a Function: on which line, with copies of what."""

    function: Any
    place: Place
    frame: int
    arguments: Arguments
    wanted: tuple[int, ...]  # positions of the tensors that require grad


class FunctionChecks:
    """All uses that were met."""

    def __init__(self, tables: Tables, source: Source) -> None:
        self._tables, self._source = tables, source
        self._met: list[Application] = []
        self._count = Counter[Any]()
        self._last: FrameType | None = None  # held until it's over: another one would have its address

    def met(self, frame: FrameType, place: Place) -> None:
        """A Function's forward is about to compute something; `frame` is apply's."""
        found = _application(frame) if frame is not self._last else None
        if found is None:
            return
        self._last = frame
        function, arguments = found
        tensors = [each for each in arguments if is_a(each, torch.Tensor)]
        use = function, place, tuple(map(_kind_of, arguments))
        is_new = self._count[use] < MOST and self._count[function] < MOST_IN_ALL
        if is_new and sum(each.numel() for each in tensors) <= LARGEST:
            self._count.update((use, function))
            wanted = [n for n, each in enumerate(arguments) if is_a(each, torch.Tensor) and each.requires_grad]
            real = tuple(n for n in wanted if arguments[n].is_floating_point())
            copies = tuple(_copy(each) for each in arguments)
            self._met.append(Application(function, place, self._tables.frames.next, copies, real))

    def over(self) -> None:
        """No Function's forward is under way."""
        self._last = None

    def compare(self) -> None:
        """The block is over: run them again."""
        devices = {each.device.index or 0 for use in self._met for each in use.arguments if _on_cuda(each)}
        for use in self._met:
            with torch.random.fork_rng(devices=list(devices)), torch.enable_grad():
                self._compare(use)
        self._met.clear()

    def _compare(self, use: Application) -> None:
        try:
            found = list(_disagreements(use))
        except Exception:  # the user's code, given doubles: what it raises says nothing of the program
            return
        for position, got, expected, deaf in found:
            self._tables.checks.append(
                FunctionCheck(
                    use.function.__name__,
                    _argument(use.function, position),
                    f"{got:.4g}",
                    f"{expected:.4g}",
                    deaf,
                    use.frame,
                    use.place,
                    _backward_of(self._source, use.function),
                )
            )


@dataclass(slots=True)
class _Under:
    """A Function's forward that is under way: the tensors that the functions around it know, with names and lines."""

    known: dict[int, tuple[str, Place]]
    last: int  # Frame


class Unpassed:
    """Tensors with a history that a custom Function's forward computes with, and that don't lead to what it's given.

    Told with the line, under way, of the innermost function that knows such a tensor: it could have handed it on.
    """

    def __init__(self, tables: Tables, source: Source) -> None:
        self._tables, self._source = tables, source
        self._under: dict[Place, _Under] = {}
        self._looks = Counter[Place]()

    def inside(self, frames: Sequence[FrameType], outer: FrameType, line: Place | None) -> None:
        """A forward computes something, which `outer` has called on that line."""
        now = self._tables.frames.now
        under = self._under.get(line) if line is not None else None
        if under is not None and now - under.last <= AT_ONCE:
            under.last = now
        elif line is not None and self._looks[line] < MOST:
            self._looks[line] += 1
            known: dict[int, tuple[str, Place]] = {}
            for frame in reversed(frames[: frames.index(outer) + 1]):
                place = self._source.place(frame)
                named = [(name, each) for name, each in variables(frame) if is_a(each, torch.Tensor)]
                numbers = ((name, self._tables.tensors.find(each)) for name, each in named if each.requires_grad)
                new = {number: (name, place) for name, number in numbers if number is not None and place is not None}
                known = {**new, **known}
            self._under.pop(line, None)  # the newest comes last
            self._under[line] = _Under(known, now)

    def over(self, frame: FrameDraft, results: Sequence[torch.Tensor]) -> None:
        """What it has returned, perhaps, is met in that Frame: the newest that was under way is what made it."""
        nodes: list[Any] = [self._tables.tensors.grad_fn(each) for each in results] if self._under else []
        names = [node.name() for node in nodes if _torch.is_custom(node)]
        line, under = next(reversed(self._under.items()), (None, None))
        if not names or line is None or under is None:
            return
        self._under.clear()
        reached = self._leaves(frame.nodes)
        for tensor in self._given(line, under.last + 1):
            draft = self._tables.tensors.drafts.get(tensor)
            lost = self._leaves_of(tensor) - reached if draft is not None and draft.requires_grad else set[int]()
            if lost and draft is not None:
                name, place = under.known.get(tensor, (draft.name or "", line))
                facts = (("name", name), ("node", names[0]))
                self._tables.clues.append(Clue("unpassed", frame.index, place, tuple(sorted(lost)), facts))
                self._looks[line] = MOST

    def _given(self, line: Place, index: int) -> list[int]:
        """What those Frames up to one, of a forward that this line has called, were given and hadn't made."""
        drafts, frames = self._tables.frames.drafts, list[FrameDraft]()
        while index in drafts and drafts[index].applied == line:
            frames.append(drafts[index])
            index -= 1
        frames.reverse()
        made = {tensor for frame in frames for tensor in frame.outputs}
        return list(dict.fromkeys(tensor for frame in frames for tensor in frame.inputs if tensor not in made))

    def _leaves_of(self, tensor: int) -> set[int]:
        if self._tables.tensors.drafts[tensor].is_leaf:
            return {tensor}
        return self._leaves([number for number, node in self._tables.nodes.drafts.items() if tensor in node.outputs])

    def _leaves(self, numbers: Iterable[int]) -> set[int]:
        """The leaves that these Nodes lead to."""
        drafts = self._tables.nodes.drafts
        seen = [number for number in dict.fromkeys(numbers) if number in drafts]
        known = set(seen)
        for number in seen:  # grows while it's read
            targets = {target for _, target, _ in drafts[number].edges if target in drafts} - known
            known |= targets
            seen += [target for target in targets if target is not None]
        return {leaf for number in seen if (leaf := drafts[number].leaf) is not None}


def unread(function: Any, text: ast.FunctionDef | None = None) -> str:
    """The gradient that the backward of a custom Function is given and never reads; empty where it reads one.

    By `text`, that of the backward, what only asks for its shape and the like has not read it either.

    >>> class Deaf(torch.autograd.Function):
    ...     backward = staticmethod(lambda ctx, grad_output: ctx.saved_tensors[0])
    >>> unread(Deaf), unread(torch.autograd.Function)
    ('grad_output', '')
    """
    code = getattr(inspect.unwrap(function.backward), "__code__", None)
    if code is None or function.backward is torch.autograd.Function.backward:
        return ""
    count = code.co_argcount + bool(code.co_flags & inspect.CO_VARARGS)
    given = set(code.co_varnames[1:count])
    loaded = {name for each in dis.get_instructions(code) if "LOAD" in each.opname for name in _named(each.argval)}
    read = (loaded if text is None else loaded & _numbers_read(text)) | set(code.co_cellvars)
    return "" if given & read else next(iter(code.co_varnames[1:count]), "")


def _numbers_read(text: ast.FunctionDef) -> set[str]:
    """The variables that are used for more than their shape.

    >>> deaf = ast.parse("def backward(ctx, g):\\n    return torch.ones_like(g) * g.shape[0]").body[0]
    >>> sorted(_numbers_read(deaf)), sorted(_numbers_read(ast.parse("def f(x): return x.sum()").body[0]))
    (['torch'], ['x'])
    """
    parts = list(ast.walk(text))
    shapes = [each.value for each in parts if isinstance(each, ast.Attribute) and each.attr in OF_ITS_KIND]
    for call in (each for each in parts if isinstance(each, ast.Call)):
        if ast.unparse(call.func).endswith("_like"):
            shapes += call.args[:1]
    return {each.id for each in parts if isinstance(each, ast.Name) and each not in shapes}


def _named(value: Any) -> tuple[str, ...]:
    """The variables that an instruction speaks of: some load two."""
    return value if isinstance(value, tuple) else (value,) if isinstance(value, str) else ()


def unread_check(source: Source, function: Any, frame: int, applied: Place) -> FunctionCheck | None:
    """What is told of a Function whose backward reads no gradient."""
    code = getattr(inspect.unwrap(function.backward), "__code__", None)
    argument = unread(function, definition_of(source, code) if code is not None else None)
    place = _backward_of(source, function) if argument else None
    return FunctionCheck(function.__name__, argument, "", "", True, frame, applied, place) if place else None


def _backward_of(source: Source, function: Any) -> Place | None:
    """The line `def backward`."""
    code = getattr(inspect.unwrap(function.backward), "__code__", None)
    return None if code is None else _defined(source, code)


def _defined(source: Source, code: CodeType) -> Place | None:
    last = max((line for *_, line in code.co_lines() if line is not None), default=code.co_firstlineno)
    lines = (source.at(code.co_filename, line) for line in range(code.co_firstlineno, last + 1))
    return next((place for place in lines if place.code.lstrip().startswith("def ")), None)


def returned_on(source: Source, backward: Any) -> Place | None:
    """The line on which a backward returns; where there are several, the one that defines it."""
    code = getattr(inspect.unwrap(backward), "__code__", None)
    if code is None:
        return None
    lines = {line for first, end, line in code.co_lines() for at in range(first, end, 2) if code.co_code[at] in RETURNS}
    return (
        source.at(code.co_filename, min(lines) or 0)
        if len(lines) == 1 and None not in lines
        else _defined(source, code)
    )


def made_for(source: Source, backward: Any) -> tuple[tuple[int, Place], ...]:
    """Of what a backward returns, the place of each variable → the line that has made it.

    Only where its text leaves no doubt: it returns on one line, and one line gives the variable a value, or the last
    of them does whatever has happened before.
    """
    code = getattr(inspect.unwrap(backward), "__code__", None)
    own = definition_of(source, code) if code is not None else None
    returns = [each for each in ast.walk(own) if isinstance(each, ast.Return)] if own is not None else []
    if code is None or own is None or len(returns) != 1:
        return ()
    handed = returns[0].value
    parts = handed.elts if isinstance(handed, ast.Tuple) else [handed]
    lines = [(at, _given_on(own, each.id)) for at, each in enumerate(parts) if isinstance(each, ast.Name)]
    return tuple((at, source.at(code.co_filename, line)) for at, line in lines if line is not None)


def definition_of(source: Source, code: CodeType) -> ast.FunctionDef | None:
    """The text of a function; None where its file has none."""
    for each in definitions(source.text(code.co_filename)):
        first = min(part.lineno for part in (each, *each.decorator_list))
        if isinstance(each, ast.FunctionDef) and first == code.co_firstlineno:
            return each
    return None


def _given_on(function: ast.FunctionDef, name: str) -> int | None:
    """The line that gives a variable its last value; `x = None` gives it none. None where that's left open."""
    stores = [each for each in ast.walk(function) if isinstance(each, ast.Name) and each.id == name]
    assigned = [each for each in ast.walk(function) if isinstance(each, ast.Assign) and _stores(each, name)]
    named = [part for each in assigned for target in each.targets for part in ast.walk(target)]
    if any(not isinstance(each.ctx, ast.Load) and each not in named for each in stores):
        return None  # a loop, a `with` or `+=` gives it one, too
    values = [each for each in assigned if not (isinstance(each.value, ast.Constant) and each.value.value is None)]
    last = max(values, key=lambda each: each.lineno, default=None)
    return last.lineno if last is not None and (len(values) == 1 or last in function.body) else None


def _stores(statement: ast.Assign, name: str) -> bool:
    parts = (part for target in statement.targets for part in ast.walk(target))
    return any(isinstance(each, ast.Name) and each.id == name and isinstance(each.ctx, ast.Store) for each in parts)


def _application(frame: FrameType) -> tuple[Any, tuple[Any, ...]] | None:
    """The custom Function that is applied in such a frame, and its arguments; None where they can't be told."""
    held = frame.f_locals
    if _torch.APPLY is not None:
        return held["cls"], held["args"]
    waiting: list[Any] = torch.autograd.Function.__subclasses__()
    for function in waiting:  # grows while it's read
        waiting += function.__subclasses__()
        if getattr(function.forward, "__code__", None) is frame.f_code:
            names = frame.f_code.co_varnames[: frame.f_code.co_argcount]
            return function, tuple(held[name] for name in names[0 if _has_setup_context(function) else 1 :])
    return None


def _has_setup_context(function: Any) -> bool:
    """True where the forward of a custom Function is given no `ctx`."""
    return function.setup_context is not torch.autograd.Function.setup_context


def _kind_of(value: Any) -> object:
    """Of a tensor its shape and dtype, of another value what it is."""
    if is_a(value, torch.Tensor):
        return tuple(value.shape), value.dtype, value.requires_grad
    return f"{value:.60}" if isinstance(value, str) else value if isinstance(value, int | float) else type(value)


def _copy(value: Any) -> Any:
    if not is_a(value, torch.Tensor):
        return value
    copy = value.detach().clone()
    return copy.double() if copy.is_floating_point() else copy


def _on_cuda(value: Any) -> bool:
    return is_a(value, torch.Tensor) and value.device.type == "cuda"


def _argument(function: Any, position: int) -> str:
    """What the forward calls it."""
    names = list(inspect.signature(function.forward).parameters)
    shift = 0 if _has_setup_context(function) else 1
    return names[min(position + shift, len(names) - 1)]


def _disagreements(use: Application) -> list[tuple[int, float, float, bool]]:
    """(position, slope by backward, slope by differences, is backward deaf to what it's given) where they differ."""
    leaves = {n: use.arguments[n].clone().requires_grad_() for n in use.wanted}

    def run(moved: int = -1, by: torch.Tensor | None = None) -> list[torch.Tensor]:
        torch.manual_seed(0)
        given = [leaves[n] + by if n == moved else leaves.get(n, each) for n, each in enumerate(use.arguments)]
        result = use.function.apply(*(each.clone() if is_a(each, torch.Tensor) else each for each in given))
        results = result if is_a(result, tuple) else (result,)
        return [each for each in results if is_a(each, torch.Tensor) and each.requires_grad]

    outputs = run()
    generator = torch.Generator().manual_seed(1)
    weights = [_like(each, generator) for each in outputs]
    gradients, twice = (
        torch.autograd.grad(
            outputs, list(leaves.values()), [factor * each for each in weights], retain_graph=True, allow_unused=True
        )
        for factor in (1, 2)
    )
    found = []
    for n, gradient, double in zip(leaves, gradients, twice, strict=True):
        along = _like(leaves[n], generator)
        expected = _slope(run, n, along, weights)
        got, again = ((float((each * along).sum()) if each is not None else 0.0) for each in (gradient, double))
        if expected is not None and abs(got - expected) > NEAR * max(abs(got), abs(expected)) + SMALL:
            found.append((n, got, expected, got != 0 and abs(again - got) < NEAR * abs(got)))
    return found


def _like(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return torch.randn(tensor.shape, generator=generator, dtype=torch.float64).to(tensor.device)


def _slope(
    run: Callable[..., list[torch.Tensor]], position: int, along: torch.Tensor, weights: Sequence[torch.Tensor]
) -> float | None:
    """By central differences, along a direction; None where the two sides differ."""

    def loss(step: float) -> float:
        results = run(position, step * along)
        return float(sum((each.detach() * weight).sum() for each, weight in zip(results, weights, strict=True)))

    with torch.enable_grad():
        low, here, high = loss(-STEP), loss(0.0), loss(STEP)
    left, right = (here - low) / STEP, (high - here) / STEP
    smooth = abs(left - right) <= SMOOTH * max(1.0, abs(left), abs(right))
    return (high - low) / (2 * STEP) if smooth else None
