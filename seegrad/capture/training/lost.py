"""What only the end of the block shows: what nobody has seen again, and what was kept and isn't what it was.

A loop's name for a Parameter that is given to a new tensor, `p = p - rate * p.grad`: while that lives, a list or a dict
may hold it. Numbers of Parameters, or a term of a loss, under a name that the function around it never reads, or not
before it is given another. A gradient's own memory, kept from one step to the next: the backward call has written there
since. Before the first backward call: the Parameters that were made and put away again.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from seegrad.capture.probes.places import Source, around, definitions, nodes
from seegrad.capture.probes.source_text import called, stored_at
from seegrad.capture.tables import Tables
from seegrad.capture.tables.frames import FrameDraft
from seegrad.model.recording import Clue, Place

REBOUND = re.compile(r"\s*(\w+)\s*=(?!=).*\b\1\b")
"""`p = p * 2`: a name that is given to something computed of what it stood for."""

ARITHMETIC = frozenset(
    {"add", "sub", "mul", "div", "true_divide", "addcmul", "addcdiv", "lerp", "clamp", "clip", "where", "neg"}
)
"""Ops that compute other numbers: not those that copy, move or cast."""


def tell_lost(tables: Tables, source: Source) -> None:
    """Tell of the lines whose results have all gone, and no call elsewhere has taken them up."""
    places: dict[Place, list[FrameDraft]] = {}
    for frame in tables.frames.drafts.values():
        if frame.place is not None and frame.inputs and REBOUND.match(frame.place.code) is not None:
            places.setdefault(frame.place, []).append(frame)
    taken = _taken(tables) if places else {}
    for place, frames in places.items():
        parameters, results = _computed(tables, frames)
        living = [each for each in results if tables.tensors.alive(each) is not None]  # the name may hold the last
        elsewhere = any(taken.get(each, place) != place for each in results)
        if parameters and not elsewhere and len(living) <= 1 < len(results):
            name = REBOUND.match(place.code)
            said = name[1] if name else ""
            facts = ("name", said), ("read", str(int(_is_read(source, place, said))))
            tables.clues.append(Clue("lost", frames[-1].index, place, tuple(parameters), facts))


def _is_read(source: Source, place: Place, name: str) -> bool:
    """Does any other line of the function around read that name? In one whose text is unknown, one may."""
    scope = next(
        (each for each in reversed(around(source.text(place.file), place.line)) if isinstance(each, Scope)), None
    )
    return scope is None or any(getattr(each, "lineno", 0) != place.line for each in _reads(scope, name))


def _taken(tables: Tables) -> dict[int, Place | None]:
    """Tensor → a line that has taken it, the last; what is only written to isn't taken."""
    found: dict[int, Place | None] = {}
    for frame in tables.frames.drafts.values():
        written = frame.op.endswith("_") and not frame.op.endswith("__")
        found.update(dict.fromkeys(frame.inputs[1:] if written else frame.inputs, frame.place))
    return found


def _computed(tables: Tables, frames: Sequence[FrameDraft]) -> tuple[list[int], list[int]]:
    """The Parameters that a line's arithmetic is done with, and all that it has made of them."""
    parameters, results = dict[int, None](), dict[int, None]()
    for frame in frames:
        of = [number for each in frame.inputs if (number := _parameter(tables, each)) is not None]
        begins = frame.op in ARITHMETIC and of
        if begins or not results.keys().isdisjoint(frame.inputs):  # a copy of one, too
            parameters.update(dict.fromkeys(of if begins else ()))
            results.update(dict.fromkeys(frame.outputs))
    return list(parameters), list(results)


def _parameter(tables: Tables, tensor: int) -> int | None:
    """The Parameter that it is, or that it's a view of."""
    draft = tables.tensors.drafts.get(tensor)
    while draft is not None and not draft.parameter and draft.alias_of is not None:
        draft = tables.tensors.drafts.get(draft.alias_of)
    return draft.id if draft is not None and draft.parameter else None


# -- under a name that nothing reads

CHANGES = ARITHMETIC | {f"{op}_" for op in ARITHMETIC} | {"rmul", "radd", "rsub", "__imul__", "__iadd__", "__isub__"}

SEES_ALL = frozenset({"locals", "vars", "globals", "eval", "exec"})
"""What reads names that it doesn't write."""

Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.Module


def tell_unread(tables: Tables, source: Source) -> None:
    """Tell of the lines whose result only such a name has: new numbers of Parameters, or one number with a graph."""
    places: dict[Place, tuple[int, list[int], list[int]]] = {}
    last: dict[Place, FrameDraft] = {}
    for frame in tables.frames.drafts.values():
        last |= {frame.place: frame} if frame.place is not None else {}
        given = frame.inputs if frame.op in CHANGES else ()
        found = [number for each in given if (number := _parameter(tables, each)) is not None]
        terms = [each for each in frame.outputs if _is_term(tables, each)]
        if frame.place is not None and frame.phase in ("forward", "inplace") and (found or terms):
            places[frame.place] = (frame.index, [*places.get(frame.place, (0, [], []))[1], *found], terms)
    for place, (index, parameters, terms) in places.items():
        parameters = parameters if _is_like(tables, last[place], parameters) else []
        name = _unread(source, place) if parameters or terms else ""
        told = tuple(dict.fromkeys(parameters)) if parameters and not terms else tuple(terms)
        if name and told:
            facts = ("name", name), ("how", "term" if terms else "numbers")
            tables.clues.append(Clue("unread", index, place, told, facts))


def _is_like(tables: Tables, last: FrameDraft, parameters: Sequence[int]) -> bool:
    """Is what comes out in the end of the shape of one of them: new numbers for it, not a figure about it?"""
    drafts = tables.tensors.drafts
    shapes = {tuple(drafts[each].shape) for each in parameters if each in drafts}
    return any(tuple(drafts[each].shape) in shapes for each in last.outputs if each in drafts)


def _is_term(tables: Tables, tensor: int) -> bool:
    """One number that came of leaves, with its history: as a loss is made of."""
    draft = tables.tensors.drafts.get(tensor)
    return draft is not None and draft.requires_grad and not draft.is_leaf and not draft.shape


def _unread(source: Source, place: Place) -> str:
    """The name that a line gives its result, or whose copy it writes to; empty where anything may read that."""
    within = around(source.text(place.file), place.line)
    scope = next((each for each in reversed(within) if isinstance(each, Scope)), None)
    statement = next((each for each in reversed(within) if isinstance(each, ast.stmt)), None)
    loops = any(isinstance(each, ast.For | ast.While) for each in within)
    if scope is None or statement is None or (isinstance(scope, ast.Module) and not loops):
        return ""  # another cell, or who imports it, may read what a file has made at last
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)]) if name.strip("_"):
            return name if not list(_reads(scope, name)) else ""
        case ast.Expr(value=ast.Call() as call):
            name = _written_name(call)
            return name if name and _is_only_written(scope, name) else ""
    return ""


def _holds(each: ast.AST, line: int) -> bool:
    if isinstance(each, ast.Module):
        return True
    return isinstance(each, ast.stmt) and each.lineno <= line <= (each.end_lineno or 0)


def _reads(scope: ast.AST, name: str) -> Iterator[ast.AST]:
    """Whatever may read a name in a function, or elsewhere if it isn't the function's own."""
    for each in ast.walk(scope):
        match each:
            case ast.Name(id=read, ctx=ast.Load()) if read == name or read in SEES_ALL:
                yield each
            case ast.AugAssign(target=ast.Name(id=read)) if read == name:
                yield each
            case ast.Global(names=others) | ast.Nonlocal(names=others) if name in others:
                yield each


def _written_name(call: ast.expr) -> str:
    """`average` of `average.mul_(decay).add_(p, alpha=rate)`: all that is called of it writes."""
    while isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
        if not call.func.attr.endswith("_") or call.func.attr.startswith("_"):
            return ""
        call = call.func.value
    return call.id if isinstance(call, ast.Name) else ""


def _is_only_written(scope: ast.AST, name: str) -> bool:
    """Is it always a fresh copy, and does nothing but statements of its own that write to it read its name?"""
    every = list(ast.walk(scope))
    sets = [
        each for each in every if isinstance(each, ast.Name) and each.id == name and isinstance(each.ctx, ast.Store)
    ]
    copies = [each for each in every if isinstance(each, ast.Assign) and _copies(each, name)]
    writes = [each for each in every if isinstance(each, ast.Expr) and _written_name(each.value) == name]
    return bool(copies) and len(sets) == len(copies) and len(list(_reads(scope, name))) == len(writes)


def _copies(statement: ast.Assign, name: str) -> bool:
    match statement:
        case ast.Assign(targets=[ast.Name(id=given)], value=ast.Call(func=ast.Attribute(attr="clone"))):
            return given == name
    return False


# -- one term after another under one name, which nothing reads in between


CALLED_AS_OBJECTS = frozenset({"forward", "__call__"})


def tell_overwritten(tables: Tables, source: Source) -> None:
    """Tell of the lines that give a name such a term, where of those that the same line made others were taken."""
    made: dict[Place, list[FrameDraft]] = {}
    for frame in tables.frames.drafts.values():
        if (
            frame.place is not None
            and frame.phase == "forward"
            and any(_is_term(tables, each) for each in frame.outputs)
        ):
            made.setdefault(frame.place, []).append(frame)
    taken = _taken(tables) if made else {}
    for place, frames in made.items():
        left = [frame for frame in frames if taken.keys().isdisjoint(frame.outputs)]
        if left and len({frame.taken for frame in left if frame.taken is not None}) == 1 and len(left) < len(frames):
            found = _stored_over(source, place, left[-1].taken or place)
            terms = tuple(each for frame in left for each in frame.outputs)
            tables.clues += [Clue("overwritten", left[-1].index, at, terms, (("name", name),)) for at, name in found]


def _stored_over(source: Source, made: Place, taken: Place) -> list[tuple[Place, str]]:
    """(line, name): the one that names what the functions around these lines return, and whose name is given anew."""
    text = source.text(taken.file)
    defined = {each.name for each in definitions(text) if not isinstance(each, ast.AsyncFunctionDef)}
    functions = {each.name for place in (made, taken) for each in _functions_around(text, place.line)}
    others = set[str]() if functions.isdisjoint(CALLED_AS_OBJECTS) else defined - functions
    found = list[tuple[Place, str]]()
    for statement, name, asked in _named_calls(nodes(text)):
        if name.strip("_") and (asked in functions or (others and asked not in others)):
            scope = next(reversed(_functions_around(text, statement.lineno)), None)
            if scope is not None and _is_dead(scope, statement, name):
                found.append((source.at(taken.file, statement.lineno), name))
    return found if len(found) == 1 else []


def _functions_around(text: str, line: int) -> list[ast.FunctionDef]:
    return [each for each in around(text, line) if isinstance(each, ast.FunctionDef)]


def _named_calls(every: Sequence[ast.AST]) -> Iterator[tuple[ast.Assign, str, str]]:
    """(statement, name, what is called) for `kl = layer.kl()` and each name of `x, kl = layer(x)`."""
    for each in every:
        match each:
            case ast.Assign(targets=[target], value=ast.Call(func=ast.Name(id=asked) | ast.Attribute(attr=asked))):
                parts = target.elts if isinstance(target, ast.Tuple) else [target]
                yield from ((each, to.id, asked) for to in parts if isinstance(to, ast.Name))


def _is_dead(scope: ast.AST, statement: ast.stmt, name: str) -> bool:
    """Is the name, read later on, never read in the innermost loop around, or before what sets it beside the first?"""
    reads = [line for each in _reads(scope, name) if (line := getattr(each, "lineno", 0))]
    loops = [
        each for each in ast.walk(scope) if isinstance(each, ast.For | ast.While) and _holds(each, statement.lineno)
    ]
    end = statement.end_lineno or 0
    if loops:
        loop = max(loops, key=lambda each: each.lineno)
        end = loop.end_lineno or 0
        return all(not loop.lineno <= line <= end for line in reads) and any(line > end for line in reads)
    bodies = (getattr(each, "body", ()) for each in ast.walk(scope))
    beside = next((body for body in bodies if isinstance(body, list) and statement in body), [])
    sets = (
        each.lineno
        for each in beside
        if isinstance(each, ast.Assign) and each.lineno > end and name in {part.id for part in _names_of(each)}
    )
    again = next(sets, 0)
    return any(line > again for line in reads) and not any(end < line <= again for line in reads) if again else False


def _names_of(statement: ast.Assign) -> Iterator[ast.Name]:
    yield from (each for to in statement.targets for each in ast.walk(to) if isinstance(each, ast.Name))


# -- results that are put into a list, of which another line makes a tensor of plain numbers

ANEW = frozenset({"Tensor", "FloatTensor", "DoubleTensor", "tensor", "as_tensor", "array", "asarray"})


def tell_renewed(tables: Tables, source: Source) -> None:
    """Tell of the lines that make a new tensor of what a line computes, where no call of torch has taken that."""
    taken: dict[int, Place | None] | None = None
    told: set[Place] = set()
    for frame in reversed(tables.frames.drafts.values()):
        if frame.place is None or frame.place in told or frame.phase != "forward":
            continue
        if any(_is_term(tables, each) for each in frame.outputs):
            told.add(frame.place)
            taken = _taken(tables) if taken is None else taken
            line = _made_anew(source, frame.place) if taken.keys().isdisjoint(frame.outputs) else 0
            if line:
                tables.clues.append(
                    Clue("renewed", frame.index, source.at(frame.place.file, line), tuple(frame.outputs))
                )


def _made_anew(source: Source, place: Place) -> int:
    """The line that does so with what that line names, or with the list that it puts its result into."""
    within = around(source.text(place.file), place.line)
    scope = next((each for each in reversed(within) if isinstance(each, Scope)), None)
    match within[-1:]:
        case [ast.Assign(targets=[ast.Name(id=name)])]:
            pass
        case [ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append")))]:
            pass
        case _:
            return 0
    calls = [each for each in ast.walk(scope) if isinstance(each, ast.Call)] if scope is not None else []
    lines = {each.lineno for each in calls if called(each.func) in ANEW and any(_is_named(a, name) for a in each.args)}
    return lines.pop() if len(lines) == 1 else 0


def _is_named(argument: ast.expr, name: str) -> bool:
    return isinstance(argument, ast.Name) and argument.id == name


# -- numbers taken out of a result, by which something is multiplied

TAKES_OUT = re.compile(r"\.item\(\)|\bfloat\(|\.tolist\(\)|\.numpy\(\)")
PRODUCTS = ast.Mult | ast.Div | ast.MatMult


def tell_numbers(tables: Tables, source: Source) -> None:
    """Tell of the lines that take numbers out of a result with a history, with the lines that multiply by them."""
    lines: dict[Place, str] = {}
    taken: dict[int, Place | None] | None = None
    for frame in tables.frames.drafts.values():
        place = frame.place
        if place is None or frame.phase != "forward" or TAKES_OUT.search(place.code) is None:
            continue
        for number in frame.outputs:
            draft = tables.tensors.drafts.get(number)
            if draft is None or not draft.requires_grad or draft.is_leaf:
                continue
            taken = _taken(tables) if taken is None else taken
            if number not in taken:
                lines[place] = lines[place] if place in lines else _multiplied(source, place)
                if lines[place]:
                    told = (("lines", lines[place]),)
                    tables.clues.append(Clue("number", frame.index, place, (number,), told))


def _multiplied(source: Source, place: Place) -> str:
    """The lines with products of what that line sets or returns, in its function; where it returns it, in its file."""
    within = around(source.text(place.file), place.line)
    scope = next((each for each in reversed(within) if isinstance(each, Scope)), None)
    statement = next((each for each in reversed(within) if isinstance(each, ast.stmt)), None)
    match statement, scope:
        case ast.Assign(targets=[ast.Name(id=name)]), ast.AST() as own:
            part = [each for each in ast.walk(own) if getattr(each, "lineno", 0) > place.line]
            sets = [each for each in part if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)]
            if any(each.id == name for each in sets):
                return ""  # something else by then
            names = {name, *_loop_names(own, name)}
        case ast.Return(), ast.FunctionDef(name=name):
            part, names = list(nodes(source.text(place.file))), {name}
        case _:
            return ""
    products = [each for each in part if isinstance(each, ast.BinOp) and isinstance(each.op, PRODUCTS)]
    found = {each.lineno for each in products for side in (each.left, each.right) if _stands_for(side) in names}
    return " ".join(map(str, sorted(found)))


def _loop_names(scope: ast.AST, name: str) -> Iterator[str]:
    """`w` of `for w, expert in zip(weights, experts)`."""
    for each in ast.walk(scope):
        if isinstance(each, ast.For | ast.comprehension):
            targets = each.target.elts if isinstance(each.target, ast.Tuple) else [each.target]
            zipped = isinstance(each.iter, ast.Call) and isinstance(each.iter.func, ast.Name)
            over = each.iter.args if isinstance(each.iter, ast.Call) and zipped else [each.iter]
            over = [each.iter, *over] if len(over) != len(targets) else over
            held = (to for to, of in zip(targets, over, strict=False) if isinstance(of, ast.Name) and of.id == name)
            yield from (to.id for to in held if isinstance(to, ast.Name))


def _stands_for(side: ast.expr) -> str:
    """The name, or the function that is called or asked for as a property: `weights[i]`, `self.weight()`."""
    while isinstance(side, ast.Subscript | ast.Call):
        side = side.value if isinstance(side, ast.Subscript) else side.func
    return side.id if isinstance(side, ast.Name) else side.attr if isinstance(side, ast.Attribute) else ""


# -- a gradient's own memory

COMPARES = frozenset({"sub", "rsub", "dist", "mse_loss", "l1_loss", "cosine_similarity"})
"""Ops that say by how much two tensors differ."""

ALONE_TOO = frozenset({"mul", "dot", "vdot", "inner", "eq", "ne", "equal"})
"""Ops by which a gradient is held against the one before, too; one tensor is squared by them, or asked for NaN."""


def tell_kept(tables: Tables, source: Source) -> None:
    """Tell of the lines that keep a gradient itself, where it is compared with itself after it was cleared in place."""
    zeroed = _cleared(tables)
    told = set[Place]()
    for frame in tables.frames.drafts.values() if zeroed else ():
        older = _of_one_gradient(tables, frame, zeroed)
        if older is not None and frame.place is not None and frame.place not in told:
            told.add(frame.place)
            name = tables.tensors.drafts[older].name or ""
            place = stored_at(source, frame.place, name) or frame.place
            tables.clues.append(Clue("gradient", frame.index, place, (older,)))


def _cleared(tables: Tables) -> dict[int, list[int]]:
    """Storage of a gradient → the Frames in which it was cleared in place."""
    places = {use.place for use in tables.uses if use.kind == "cleared"}
    found: dict[int, list[int]] = {}
    for write in tables.writes.drafts.values():
        if write.op.endswith("zero_") and (write.place in places or ".grad.zero_(" in write.place.code):
            found.setdefault(write.storage, []).append(write.frame)
    return found


def _of_one_gradient(tables: Tables, frame: FrameDraft, zeroed: dict[int, list[int]]) -> int | None:
    """What was kept, of two that are a gradient's whole memory: it was there before the gradient was cleared last."""
    drafts = tables.tensors.drafts
    if len(frame.inputs) != 2 or frame.op not in COMPARES | ALONE_TOO or not drafts.keys() >= {*frame.inputs}:
        return None  # of what is forgotten nothing is known
    root, *other = {_whole(tables, each) for each in frame.inputs}
    if root is None or other or (frame.op in ALONE_TOO and len(set(frame.inputs)) == 1):
        return None
    aliases = [each for each in frame.inputs if each != root] or [root]
    kept = drafts[min(aliases, key=lambda each: drafts[each].frame)]
    return kept.id if any(kept.frame < at < frame.index for at in zeroed.get(kept.storage, ())) else None


def _whole(tables: Tables, tensor: int) -> int | None:
    """The tensor of which it's a `.detach()` or `.data`, or itself; None for a part."""
    draft = tables.tensors.drafts[tensor]
    while draft.alias_of is not None and draft.route in ("detach", "data"):
        draft = tables.tensors.drafts[draft.alias_of]
    return draft.id if draft.alias_of is None and not draft.parameter else None


def tell_gone(tables: Tables, place: Place | None) -> None:
    """Before the first backward call, on that line: the Parameters that nobody holds any more, as tied ones are."""
    drafts = tables.tensors.drafts
    gone = tuple(number for number, draft in drafts.items() if draft.parameter and tables.tensors.alive(number) is None)
    if gone and place is not None:
        tables.clues.append(Clue("gone", tables.frames.now, place, gone))
