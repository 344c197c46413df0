"""Which line gave a variable or an attribute what it holds, by the instructions that store into it."""

from __future__ import annotations

import dis
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from types import CodeType, FrameType

from seegrad.capture.probes.places import Source
from seegrad.model.recording import Place

IDENTIFIER = re.compile(r"[^\W\d]\w*")


@dataclass(slots=True)
class Bound:
    """`lines`: variable → the line that gave it what it holds; `names`: argument → its caller's name."""

    lines: dict[str, Place] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)


def bound(source: Source, frames: Sequence[FrameType]) -> Bound:
    """Of the variables in these functions under way; the innermost one's count.

    What a function was given, one of those that called it has bound, under whatever name.
    """
    found, outer, given = Bound(), Bound(), dict[int, str]()
    for frame in frames:
        lines = {name: source.place_at(frame, line) for name, line in rounds(frame.f_code, frame.f_lasti).items()}
        arguments, held = set(_arguments(frame.f_code)) - lines.keys(), frame.f_locals
        passed = {name: given[id(held[name])] for name in sorted(arguments) if id(held.get(name)) in given}
        lines |= {name: outer.lines[known] for name, known in passed.items()}
        outer = Bound(lines, {name: outer.names.get(known, known) for name, known in passed.items()})
        given = {id(held[name]): name for name in lines if held.get(name) is not None}
        shadowed = lines.keys() | arguments
        found.lines = {name: place for name, place in found.lines.items() if name not in shadowed} | lines
        found.names = {name: known for name, known in found.names.items() if name not in shadowed} | outer.names
    return found


def _arguments(code: CodeType) -> tuple[str, ...]:
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def stored_at(code: CodeType, name: str, now: int) -> int | None:
    """The line of the last store into `name` before the instruction at `now`, or of all where a loop has come round.

    >>> code = compile("p = 1\\nq = 2\\np = 3\\nprint(p)\\n", "example", "exec")
    >>> stored_at(code, "p", 10**6), stored_at(code, "p", 8), stored_at(code, "head.weight", 10**6)
    (3, 1, None)
    """
    found = stores(code, now)
    return next((found[part] for part in reversed(IDENTIFIER.findall(name)) if part in found), None)


def stores(code: CodeType, now: int) -> dict[str, int]:
    """Variable or attribute → the line of the last store into it before the instruction at `now`, or of all.

    >>> stores(compile("p = 1\\nq.r = 2\\np = 3\\n", "example", "exec"), 8)
    {'r': 2, 'p': 1}
    """
    return _last(dis.get_instructions(code), now)


def rounds(code: CodeType, now: int) -> dict[str, int]:
    """The same where a lap has gone before: what the loop around it stores comes later than what that began with.

    >>> code = compile("h = 0\\nfor x in y:\\n    f(h)\\n    h = g(h)\\n", "example", "exec")
    >>> call = next(each.offset for each in dis.get_instructions(code) if each.opname.startswith("CALL"))
    >>> stores(code, call)["h"], rounds(code, call)["h"]
    (1, 4)
    """
    found = stores(code, now)
    for begin, end in _loops(code, now):
        found |= _last([each for each in dis.get_instructions(code) if begin <= each.offset <= end], now)
    return found


def _loops(code: CodeType, now: int) -> list[tuple[int, int]]:
    """First and last instruction of each loop around the one at `now`, the outermost first."""
    ends: dict[int, int] = {}
    for each in dis.get_instructions(code):
        if "JUMP_BACKWARD" in each.opname and "NO_INTERRUPT" not in each.opname:
            ends[each.argval] = each.offset
    return sorted((begin, end) for begin, end in ends.items() if begin <= now <= end)


def _last(instructions: Iterable[dis.Instruction], now: int) -> dict[str, int]:
    before, found = dict[str, int](), dict[str, int]()
    for each in instructions:
        line = each.positions.lineno if each.positions else None
        if line is not None:
            (before if each.offset < now else found).update(dict.fromkeys(_stored(each), line))
    return found | before


def _stored(instruction: dis.Instruction) -> tuple[str, ...]:
    """What an instruction stores into: some store two, or store one and load another."""
    name, given = instruction.opname, instruction.argval
    if not name.startswith("STORE_") or name in ("STORE_SUBSCR", "STORE_SLICE"):
        return ()
    if isinstance(given, tuple):
        return tuple(given[: name.count("STORE_FAST")])
    return (given,) if isinstance(given, str) else ()
