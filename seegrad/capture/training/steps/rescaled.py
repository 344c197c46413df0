"""Gradients whose limit was for others: clipped and then all multiplied by one number, or before all of them had come.

A scale that the user has made by hand shows no other way: it is a number, and a method in place. And a limit for none:
the user's own loop over an iterator of Parameters that another loop has gone through.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, takewhile
from types import CodeType, FrameType, GeneratorType
from typing import Any

import torch

from seegrad.capture.probes import torch_private as _torch
from seegrad.capture.probes.places import Source, definitions
from seegrad.capture.tables import Tables, content
from seegrad.model.recording import Clue, Place

DIVIDES = frozenset({"div_", "true_divide_", "divide_", "__itruediv__", "_foreach_div_"})
SCALES = DIVIDES | {"mul_", "multiply_", "__imul__", "_foreach_mul_"}
"""Calls that may do so."""

OUT_OF_PLACE = frozenset({"div", "true_divide", "divide", "mul", "multiply"})
"""Those that make a new one."""

LIMITS = "max_norm", "clip_value"
"""What torch's functions that clip call their limit."""

FACTORS = "clip_coef_clamped", "clip_value"
"""What they go by: a factor for all, or the largest number there may be."""

ITERATORS = (GeneratorType, chain, filter, map, zip)
"""What can be gone through once."""

RESCALES = frozenset({"mul_", "div_", "clamp_", "clip_", "copy_"})
"""Methods by which a gradient is given a limit by hand."""

At = tuple[int, Place | None]


@dataclass(slots=True)
class _Clip:
    """A gradient after the clip; then what it was multiplied by, and where."""

    version: int
    at: At
    by: object = None
    scaled: At | None = None
    divided: bool = False


class RescaledClips:
    """Those gradients that were clipped and wait for their step, by their storages."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._clips: dict[int, _Clip] = {}
        self._told: set[Place] = set()

    @property
    def wait(self) -> bool:
        """Are there any?"""
        return bool(self._clips)

    def clipped(self, tensors: Sequence[torch.Tensor], frame: FrameType, at: At) -> None:
        """Torch is about to clip these; to no limit, in order to measure them, isn't one."""
        if math.isfinite(_limit(frame)):
            for each in tensors:
                key, version = _torch.storage_key(each), _torch.version(each)
                if key is not None and version is not None:
                    self._clips[key] = _Clip(version + 1, at)

    def scaled(self, op: str, targets: Sequence[torch.Tensor], by: Any, at: At) -> None:
        """The user's code is about to multiply these; a number that waits on a device is known by itself."""
        number = by if isinstance(by, int | float) else id(by) if _is_single(by) else None
        for each in targets if number not in (None, 1) else ():
            clip = self._clips.get(_torch.storage_key(each) or 0)
            if clip is not None and self._is_as_clipped(each, clip):
                clip.by, clip.scaled, clip.divided = (number, at[1]), at, op in DIVIDES

    def replaced(self, gradient: torch.Tensor, new: torch.Tensor) -> None:
        """Another gradient is about to take the place of this one: `p.grad = p.grad / scale`."""
        if _torch.storage_key(new) == _torch.storage_key(gradient):  # `p.grad /= scale` sets it again
            return
        clip = self._clips.pop(_torch.storage_key(gradient) or 0, None)
        number, old = self._tables.tensors.find(new), self._tables.tensors.find(gradient)
        draft = self._tables.tensors.drafts.get(number if number is not None else -1)
        made = self._tables.frames.drafts.get(draft.frame) if draft is not None else None
        key, version = _torch.storage_key(new), _torch.version(new)
        if clip is None or made is None or key is None or version is None or made.inputs != (old,):
            return
        if made.op in OUT_OF_PLACE and self._is_as_clipped(gradient, clip):
            place = (made.index, made.place)
            self._clips[key] = _Clip(version, clip.at, made.place, place, made.op not in ("mul", "multiply"))

    def _is_as_clipped(self, gradient: torch.Tensor, clip: _Clip) -> bool:
        """Has nobody written to it since? A `.data` counts its versions anew."""
        version, storage = _torch.version(gradient), self._tables.tensors.storage_number(gradient)
        if version != 0 or clip.version == 0:
            return version == clip.version
        since = takewhile(lambda write: write.frame > clip.at[0], reversed(self._tables.writes.drafts.values()))
        return all(write.storage != storage or write.place == clip.at[1] for write in since)

    def stepped(self, held: dict[int, int]) -> None:
        """An optimiser is about to step with these gradients: storage → leaf."""
        clips = {leaf: self._clips.pop(key) for key, leaf in held.items() if key in self._clips}
        found = next(iter(clips.values()), None)
        if found is None or found.scaled is None or any(each.by != found.by for each in clips.values()):
            return
        (frame, clip), (then, scale) = found.at, found.scaled
        if clip is not None and scale is not None and clip not in self._told:
            self._told.add(clip)
            how = "divided" if found.divided else "multiplied"
            self._tables.clues.append(Clue("clip", frame, clip, tuple(clips)))
            self._tables.clues.append(Clue("rescaled", then, scale, tuple(clips), (("how", how),)))

    def forget(self, key: int) -> None:
        """That gradient is cleared: another one may come to lie in its place."""
        self._clips.pop(key, None)


class ClipsInParts:
    """Those of one optimiser, from step to step, that come behind each backward call of several."""

    def __init__(self) -> None:
        self._clips: dict[int, tuple[Place, int]] = {}  # how many calls had come → where, the gradient's version
        self._calls = 0  # for the step before, where those were clipped so; else 0
        self._changed = False
        self._told = False

    def clipped(self, calls: int, place: Place, frame: FrameType, gradient: torch.Tensor) -> None:
        """Torch is about to clip this gradient and others. Whether that changes any is asked where it matters."""
        self._clips.setdefault(calls, (place, _torch.version(gradient) or 0))
        if calls < self._calls and not self._changed and not self._told:
            self._changed = _changes(frame, gradient)

    def cleared(self) -> None:
        """What has come is thrown away, or was moved to where it is added up: clipped one by one on purpose."""
        self._clips, self._changed = {}, False

    def stepped(self, lines: Sequence[Place | None], *, touched: bool) -> Place | None:
        """The line that clips so, when another step goes by calls on these lines; once.

        Each call has added to what the one before had left, which the versions show.
        """
        calls, places = len(lines), {place for place, _ in self._clips.values()}
        versions = [version for _, version in self._clips.values()]
        grows = versions == sorted(set(versions)) and len(versions) == calls > 1
        in_parts = grows and len(places) == 1 and len(set(lines)) == 1 and None not in lines and not touched
        found = in_parts and self._calls > 1 and self._changed and not self._told
        self._told |= found
        self._calls = calls if in_parts else 0
        self.cleared()
        return places.pop() if found else None


def _changes(frame: FrameType, gradient: torch.Tensor) -> bool:
    """Is the limit exceeded: by the norm of all, or by a number of this gradient? Only the CPU is asked."""
    if not content.answers_at_once(gradient):
        return False
    held = {name: caller.f_locals[name] for caller in _clipping(frame) for name in FACTORS if name in caller.f_locals}
    if "clip_value" in held:
        return bool((gradient.abs() > held["clip_value"]).any())
    factor = held.get("clip_coef_clamped")
    return isinstance(factor, torch.Tensor) and bool(factor < 1)


def _clipping(frame: FrameType) -> Iterator[FrameType]:
    """Torch's functions under way that clip, the innermost first."""
    step: FrameType | None = frame
    while step is not None and step.f_code.co_filename == frame.f_code.co_filename:
        yield step
        step = step.f_back


def _limit(frame: FrameType) -> float:
    """The limit that torch's function was given, from the frame in which it clips."""
    held = (caller.f_locals[name] for caller in _clipping(frame) for name in LIMITS if name in caller.f_locals)
    given = next(held, None)
    return float(given) if isinstance(given, int | float) else 0.0


def _is_single(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.numel() == 1


# -- a limit for none


@dataclass(frozen=True, slots=True)
class _Again:
    """Lines of a loop over what `name` holds, and its variables; the line of a later loop over it that clips."""

    name: str
    lines: range
    variables: tuple[str, ...]
    line: int


class UsedUp:
    """The user's functions that go twice through one iterator of Parameters, each told once a step."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._known: dict[CodeType, list[_Again]] = {}
        self._told = set[CodeType]()

    def stepped(self) -> None:
        """An optimiser is about to step."""
        self._told.clear()

    def read(self, leaf: torch.Tensor, caller: FrameType) -> Place | None:
        """A gradient is looked at: the line that is to clip it later, and will find none."""
        frame = caller.f_back if caller.f_code.co_name.startswith("<") and caller.f_back is not None else caller
        code = frame.f_code
        if code not in self._known:
            self._known[code] = list(_twice(self._source, code))
        for each in self._known[code] if code not in self._told else ():
            held = [caller.f_locals.get(name) for name in each.variables] if caller.f_lineno in each.lines else ()
            if any(one is leaf for one in held) and isinstance(frame.f_locals.get(each.name), ITERATORS):
                self._told.add(code)
                return self._source.at(code.co_filename, each.line)
        return None


def _twice(source: Source, code: CodeType) -> Iterator[_Again]:
    """Two loops of a function over one variable, which is set by nothing in between; the later one clips."""
    written = (each for each in definitions(source.text(code.co_filename)) if isinstance(each, ast.FunctionDef))
    function = next(
        (each for each in written if each.name == code.co_name and _begins(each) == code.co_firstlineno), None
    )
    inner = list(ast.walk(function)) if function is not None else []
    loops = [each for node in inner for each in _loops(node)]
    for first, target, iterated in loops:
        leaves = any(isinstance(each, ast.Break | ast.Return) for each in ast.walk(first))
        for later, its, again in loops if not leaves else ():
            ends = first.end_lineno or 0
            apart = any(_are_branches(each, first, later) for each in inner)
            between = any(first.lineno < line <= later.lineno for line in _setting(inner, iterated))
            if again == iterated and later.lineno > ends and not between and not apart and _clips(later, its):
                yield _Again(iterated, range(first.lineno, ends + 1), target, later.lineno)


def _begins(function: ast.FunctionDef) -> int:
    return min([function.lineno, *(each.lineno for each in function.decorator_list)])


Loop = tuple[ast.stmt | ast.expr, tuple[str, ...], str]


def _loops(node: ast.AST) -> Iterator[Loop]:
    """(loop, its variables, the name of what it goes through), a comprehension's too."""
    parts: list[tuple[ast.expr, ast.expr]] = []
    if isinstance(node, ast.For):
        parts = [(node.target, node.iter)]
    elif isinstance(node, ast.ListComp | ast.GeneratorExp | ast.SetComp):
        parts = [(each.target, each.iter) for each in node.generators[:1]]
    for target, over in parts:
        names = tuple(each.id for each in ast.walk(target) if isinstance(each, ast.Name))
        if isinstance(over, ast.Name) and isinstance(node, ast.stmt | ast.expr):
            yield node, names, over.id


def _setting(inner: Sequence[ast.AST], name: str) -> Iterator[int]:
    """The lines that give the variable another value."""
    for each in inner:
        if isinstance(each, ast.Name) and each.id == name and isinstance(each.ctx, ast.Store):
            yield each.lineno


def _are_branches(node: ast.AST, first: ast.AST, later: ast.AST) -> bool:
    """Does one of the two stand where a condition holds, the other where it doesn't?"""
    if not isinstance(node, ast.If):
        return False
    holds = {id(inner) for each in node.body for inner in ast.walk(each)}
    others = {id(inner) for each in node.orelse for inner in ast.walk(each)}
    return id(first) in holds and id(later) in others


def _clips(loop: ast.AST, variables: Sequence[str]) -> bool:
    """Does it give the gradients of its variables other numbers, in place or as new ones?"""
    for each in ast.walk(loop):
        match each:
            case ast.AugAssign(target=owner, op=ast.Mult() | ast.Div()) | ast.Assign(targets=[owner]):
                pass
            case ast.Call(func=ast.Attribute(value=owner, attr=method)) if method in RESCALES:
                pass
            case _:
                continue
        text = ast.unparse(owner)
        if any(text == f"{name}.grad" or text.startswith(f"{name}.grad.") for name in variables):
            return True
    return False
