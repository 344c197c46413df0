"""What every finder looks for in a Recording: who shares memory with whom, what to call a tensor, which error came."""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from textwrap import dedent
from typing import TypeGuard

from seegrad.model.recording import EXTERNAL_WRITE, STEP, Frame, Node, Place, RaisedError, Recording, Route, Write
from seegrad.words.languages import marked
from seegrad.words.phrases import Phrase, Word, joined, phrase

A_TENSOR = marked("a tensor")
A_RESULT = marked("the result of `{op}` on line {line}")
OF_SHAPE = marked("a tensor of shape {shape}")


def errors_with(recording: Recording, *cores: str) -> Iterator[RaisedError]:
    """Every error whose text holds one of `cores`, which stay the same between torch's versions.

    Among them one that left the block from outside torch.
    """
    left = recording.error
    rest = () if left is None or left in recording.errors else (left,)
    return (error for error in (*recording.errors, *rest) if any(core in error.text for core in cores))


def computed_off(recording: Recording, error: RaisedError) -> Place | None:
    """The line that computed, with gradients off, what was asked for its gradient while a backward ran."""
    return next((clue.place for clue in recording.clues_of("computed off") if clue.frame == error.frame), None)


def is_caught(recording: Recording, error: RaisedError) -> bool:
    """Has the block caught it, and gone on?"""
    return error != recording.error and error.frame < len(recording.frames) - 1


CASTS = frozenset({"to", "type", "long", "int", "short", "char", "byte", "bool"})
SHAPES = frozenset(f"{name}_like" for name in ("zeros", "ones", "full", "empty", "rand", "randn", "randint")) | {
    *("new_zeros", "new_ones", "new_full", "new_empty")
}
"""Ops that look at a tensor's shape and dtype only: no number of its goes into the result, so nothing is cut."""

ENTERING = frozenset({"tensor", "as_tensor"})
"""Ops that make a tensor of what came from outside torch."""

INTEGERS = ("int", "uint", "bool")
"""How the names of their dtypes begin."""

RESETS = frozenset({"zero_", "fill_", "normal_", "uniform_"})
"""Ops in place into which none of the numbers goes that were there."""

PRECEDENCE: tuple[Route, ...] = ("data", "detach", "view")
"""Of several routes on one way, the one that explains most."""


def ancestors(recording: Recording, tensor: int) -> list[tuple[int, Route]]:
    """The tensor and all it is an alias of, each with the route that leads on to the next."""
    way: list[tuple[int, Route]] = []
    number: int | None = tensor
    while number is not None:
        ref = recording.tensors[number]
        way.append((number, ref.route))
        number = ref.alias_of
    return way


def nodes_behind(recording: Recording, nodes: Iterable[int]) -> set[int]:
    """These Nodes, and all that they lead to."""
    seen = set(nodes)
    waiting = list(seen)
    for number in waiting:  # grows while it's read
        found = {edge.target for edge in recording.nodes[number].edges if edge.target is not None} - seen
        seen |= found
        waiting += found
    return seen


ASSIGNED = re.compile(r"((?:[\w.]+\s*,\s*)*[\w.]+)\s*=(?!=)\s*(?![\[({])")
"""`h = …`, `out, self.state = …`; not `many = [… for …]`, whose items have no names."""


def owner(recording: Recording, tensor: int) -> int:
    """The tensor to speak of: the nearest one of which this is a view that has a name or is trained; else itself."""
    for number, route in ancestors(recording, tensor):
        ref = recording.tensors[number]
        if ref.name or (ref.is_leaf and ref.requires_grad):
            return number
        if route != "view":
            break
    return tensor


def route_between(recording: Recording, written: int, saved: int) -> Route:
    """How the tensor that was written reaches the bytes of the tensor that was saved."""
    if written == saved:
        return "self"
    up, down = ancestors(recording, written), ancestors(recording, saved)
    shared = {number for number, _ in up} & {number for number, _ in down}
    if not shared:
        return "storage"
    routes = [route for way in (up, down) for number, route in way[: _until(way, shared)]]
    return next((route for route in PRECEDENCE if route in routes), "self")


def _until(way: list[tuple[int, Route]], shared: set[int]) -> int:
    return next(index for index, (number, _) in enumerate(way) if number in shared)


def route_of(recording: Recording, write: Write, saved: int) -> Route:
    """The route of a Write to a saved tensor; `inside` where the op's name doesn't tell that it writes."""
    if write.op == EXTERNAL_WRITE:
        return "storage"
    if write.op == "set data":
        return "data"
    if write.op.startswith("_fused_") or not (write.op.endswith("_") or write.op == STEP):
        return "inside"
    return route_between(recording, write.tensor, saved)


def line_of(write: Write | None) -> Place | None:
    """The line that wrote; None where no line of the user's code was found."""
    return write.place if write is not None and write.place.line else None


def counter(recording: Recording, tensor: int) -> int | None:
    """The number of the tensor's version counter."""
    return recording.tensors[tensor].counter


SUFFIXES: dict[Route, str] = {"detach": ".detach()", "data": ".data", "view": "[…]"}


def expression(recording: Recording, tensor: int) -> str | None:
    """The tensor as the user would write it: `out`, or for an alias without a variable `out.detach()`."""
    suffix = ""
    for number, route in ancestors(recording, tensor):
        ref = recording.tensors[number]
        if ref.name:
            return ref.name + suffix
        if route == "view" and recording.frames[ref.frame].op != "__getitem__":
            return None
        suffix = SUFFIXES.get(route, "") + suffix
    return None


def label(recording: Recording, tensor: int | None) -> Word:
    """What to call a tensor: its variable, what it's an alias of, or what made it."""
    if tensor is None:
        return Phrase(A_TENSOR)
    ref, written = recording.tensors[tensor], expression(recording, tensor)
    if written:
        return f"`{written}`"
    born = recording.frames[ref.frame] if ref.frame < len(recording.frames) else None
    if born is not None and tensor in born.outputs and born.place is not None:
        return phrase(A_RESULT, op=born.op, line=born.place.line)
    return phrase(OF_SHAPE, shape=str(list(ref.shape)))


def called(recording: Recording, tensor: int) -> str | None:
    """The tensor's variable; where none was seen, what the line whose result it is assigns to."""
    ref = recording.tensors[tensor]
    born = recording.frames[ref.frame]
    found = ASSIGNED.match(born.place.code) if born.place is not None and tensor in born.outputs else None
    if ref.name or found is None:
        return ref.name
    after = next((frame for frame in recording.frames[born.index + 1 :] if frame.phase != "start"), None)
    if after is not None and after.place == born.place:
        return None
    targets = [target.strip() for target in found[1].split(",")]
    return targets[min(born.outputs.index(tensor), len(targets) - 1)]


def birthplace(recording: Recording, node: Node | None) -> Place | None:
    """The line that made a Node; None where that was before the recording."""
    frame = recording.frames[node.frame] if node is not None else None
    return None if frame is None or frame.phase == "start" else frame.place


def function_of(node: Node) -> str:
    """The custom Function whose Node it is; empty for one of torch's own, whose name has a number: `MulBackward0`."""
    return node.name.removesuffix("Backward") if node.name.endswith("Backward") else ""


Function = ast.FunctionDef | ast.AsyncFunctionDef
DEFINES = re.compile(r"\s*(?:async )?def (\w+)\(")


def function_around(recording: Recording, place: Place | None) -> str:
    """The name of the function in whose text a line of the block's file stands; empty outside of any."""
    above = [text for line, text in recording.code if place is not None and line <= place.line]
    deep, name = len(above[-1]) - len(above[-1].lstrip()) if above else 0, None
    for text in reversed(above if place is not None and place.file == recording.code_file else []):
        if text.strip() and len(text) - len(text.lstrip()) < deep:
            deep, name = len(text) - len(text.lstrip()), DEFINES.match(text)
            if name is not None:
                return name[1]
    return ""


def called_on(recording: Recording, place: Place | None, since: Place | None, until: Place | None) -> Place | None:
    """The line itself; of one in a function that is given what line `since` has set, the line that gives it."""
    if place is None or since is None or until is None or {place.file, since.file} != {recording.code_file}:
        return place
    head = next((each for each in reversed(recording.code) if each[0] < place.line and DEFINES.match(each[1])), None)
    name = DEFINES.match(head[1]) if head is not None else None
    names = "|".join(re.escape(each.strip()) for each in since.code.partition("=")[0].split(","))
    calls = re.compile(rf"\b{name[1]}\(.*\b(?:{names})\b") if name is not None else None
    lines = [each for each in recording.code if since.line < each[0] <= until.line]
    speak = [each for each in lines if re.search(rf"\(.*\b(?:{names})\b", each[1])]  # called by another name, perhaps
    given = [each for each in lines if calls is not None and calls.search(each[1])]
    line, text = next(iter(given or (speak if len(speak) == 1 else ())), (0, ""))
    return Place(place.file, line, text.strip()) if line else place


WRITTEN = re.compile(r"\s*(?:(?:torch|F|nn\.functional|torch\.nn\.functional)\.\w+_\()?([A-Za-z_]\w*)\b(?!\s*=[^=])")
"""The name that begins a line which writes in place: `x += 1`, `x.data.div_(2)`, `F.relu_(x)`."""


def is_unread_after(recording: Recording, place: Place | None) -> bool:
    """Would a new value under the name that a line writes be read by nobody: does its function end without using it?

    Then the line writes for who has handed the tensor in, and only writing reaches them.
    """
    name = WRITTEN.match(place.code) if place is not None else None
    function = function_at(recording, place) if name is not None else None
    if place is None or name is None or function is None:
        return False
    around = [node for node in ast.walk(function) if isinstance(node, ast.For | ast.AsyncFor | ast.While)]
    again = [node for node in around if node.lineno <= place.line <= (node.end_lineno or 0)]
    first = min((node.lineno for node in again), default=place.line + 1)
    names = (node for node in ast.walk(function) if isinstance(node, ast.Name) and node.id == name[1])
    reads = {node.lineno for node in names if isinstance(node.ctx, ast.Load)} - {place.line}
    return not any(line >= first for line in reads)


def function_at(recording: Recording, place: Place | None) -> Function | None:
    """The function in whose text a line of the block's file stands, the inmost; None outside of any."""
    if place is None or place.file != recording.code_file:
        return None
    holds = [node for node in functions(recording) if node.lineno < place.line <= (node.end_lineno or 0)]
    return max(holds, key=lambda node: node.lineno, default=None)


def functions(recording: Recording) -> list[Function]:
    """Those in the text of the block's file."""
    return [node for node in parsed(recording) if isinstance(node, Function)]


def method_at(recording: Recording, owner: str, names: Sequence[str]) -> Place | None:
    """The line on which the only class of that name defines the first of these methods that it has."""
    classes = [node for node in parsed(recording) if isinstance(node, ast.ClassDef) and node.name == owner]
    methods = {each.name: each.lineno for each in (classes[0].body if len(classes) == 1 else ()) if is_function(each)}
    at = next((methods[name] for name in names if name in methods), 0)
    text = dict(recording.code).get(at)
    return Place(recording.code_file, at, text.strip()) if text is not None else None


def is_function(node: ast.AST) -> TypeGuard[Function]:
    """A `def`, of whichever kind."""
    return isinstance(node, Function)


def parsed(recording: Recording) -> list[ast.AST]:
    """All parts of the text of the block's file; none of what isn't Python by itself."""
    if not recording.code:
        return []
    text = dedent("\n".join(text for _, text in recording.code))
    lines = "\n" * (recording.code[0][0] - 1) + text
    with contextlib.suppress(SyntaxError, ValueError):
        return list(ast.walk(ast.parse(lines)))
    return []


def returned_by(recording: Recording, name: str) -> Place | None:
    """The only line on which the function of that name returns something; None where there are several, or none."""
    return _only_return(recording, [node for node in functions(recording) if node.name == name])


def returned_at(recording: Recording, head: Place | None) -> Place | None:
    """The same of the function whose `def` stands on that line."""
    if head is None or head.file != recording.code_file:
        return None
    return _only_return(recording, [node for node in functions(recording) if node.lineno == head.line])


def _only_return(recording: Recording, found: Iterable[Function]) -> Place | None:
    every = (node for function in found for node in ast.walk(function) if isinstance(node, ast.Return) and node.value)
    lines = {node.lineno for node in every}
    line, text = next((each for each in recording.code if {each[0]} == lines), (0, ""))
    return Place(recording.code_file, line, text.strip()) if line else None


def are_in_one_function(recording: Recording, one: Place, other: Place) -> bool:
    """Do two lines of the block's file stand in the text of one function, or both outside of any?"""
    if {one.file, other.file} != {recording.code_file}:
        return False
    first, second = (each.lineno if (each := function_at(recording, line)) else 0 for line in (one, other))
    return first == second


def made_at(recording: Recording, tensor: int | None) -> Place | None:
    """The line that made a tensor; None where that was before the recording."""
    frame = recording.frames[recording.tensors[tensor].frame] if tensor is not None else None
    return None if frame is None or frame.phase == "start" else frame.place


def asked_on(recording: Recording, frame: Frame) -> Place | None:
    """Its line; of one that returns what it makes to several lines, the one that takes it here."""
    takers = {each.taken for each in recording.frames if each.place == frame.place}
    return frame.taken if frame.taken is not None and len(takers) > 1 else frame.place


def ran(recording: Recording, made: Frame) -> Frame | None:
    """The first Frame of a backward in which what a Frame made ran."""
    nodes = set(made.nodes)
    return next((frame for frame in recording.frames[made.index + 1 :] if frame.running in nodes), None)


def maker(recording: Recording, tensor: int | None) -> str:
    """The op whose Frame a tensor was first seen in; empty where there's no tensor."""
    return recording.frames[recording.tensors[tensor].frame].op if tensor is not None else ""


def needed_for(recording: Recording, node: Node, slots: tuple[int, ...]) -> Word:
    """The inputs of a Node whose gradient is at stake, as words; empty where unknown."""
    names = []
    for slot in slots:
        if slot >= len(node.edges) or node.edges[slot].target is None:
            continue
        tensor = node.inputs[slot] if slot < len(node.inputs) else None
        if tensor is not None and recording.tensors[tensor].name:
            names.append(label(recording, tensor))
    return joined(dict.fromkeys(names))


def is_trained(recording: Recording, tensor: int) -> bool:
    """True for a leaf that requires grad."""
    ref = recording.tensors[tensor]
    return ref.is_leaf and ref.requires_grad and ref.route != "view"


@lru_cache(maxsize=4096)
def dropped_call(code: str, op: str) -> str:
    """What a call of `op` is given, where the call is a statement of its own; empty where there's none.

    >>> dropped_call("p.grad.data.clamp(-1, 1)", "clamp"), dropped_call("for p in ps: torch.clamp(p.grad, 0)", "clamp")
    ('p.grad.data', 'p.grad')
    >>> dropped_call("g = g.clamp(0)", "clamp"), dropped_call("seen.add(g.clamp(0))", "clamp")
    ('', '')
    """
    with contextlib.suppress(SyntaxError, ValueError):
        for each in ast.walk(ast.parse(code)) if code.count(f".{op}(") == 1 else ():
            match each:
                case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner, attr=name)) as call) if name == op:
                    given = call.args[0] if call.args and ast.unparse(owner) == "torch" else owner
                    return "" if "out" in {word.arg for word in call.keywords} else ast.unparse(given)
    return ""
