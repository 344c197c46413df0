"""A generator of Parameters that is gone through twice: the second time there's nothing in it, and nobody says so."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.model.recording import Diagnosis, Place, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word

USED_UP = DiagnosisKind("used_up", "note", marked("a generator that is used up"))
NOTHING_LEFT = marked(
    "{Culprit} makes a generator, which can be gone through once: line {first} uses it up, and {victim} goes through "
    "nothing."
)
MAKE_A_LIST = marked("Make it a list, `list({made})`, or make it anew where it's needed again.")

GIVES = frozenset({"parameters", "named_parameters", "buffers", "modules", "named_modules", "children"})
"""Methods of a module that give a generator."""

LAZY = frozenset({"filter", "map", "zip"})

LOOKS = frozenset({"isinstance", "next", "type", "id", "print", "len"})
"""Functions that don't go through what they're given."""

CLIPS = frozenset({"clip_grad_norm_", "clip_grad_value_"})
"""Functions that do nothing where there's nothing; an optimiser raises."""

Loop = ast.For | ast.comprehension
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Spent:
    """A generator made on a line, used up on another, and gone through again on a third, up to `end`."""

    made: ast.expr
    first: ast.expr
    again: ast.expr
    end: int
    scope: ast.Module | Function


@finder(order=36)
def find_used_up(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each such line of the block's file whose first use ran, where nothing ran in the second."""
    if not any(use.kind == "stepped" for use in recording.uses):
        return
    ran = {
        frame.place.line: frame.index for frame in recording.frames if frame.place and _is_own(recording, frame.place)
    }
    ran |= {use.place.line: use.frame for use in recording.uses if use.place and _is_own(recording, use.place)}
    told = set[int]()
    for spent in _spent(_tree(recording)):
        first, again = spent.first.lineno, spent.again.lineno
        nothing = not any(line in ran for line in range(again + 1, spent.end + 1))
        if spent.made.lineno in told or not _came_by(ran, spent.scope) or not nothing:
            continue
        told.add(spent.made.lineno)
        lines = dict(recording.code)
        culprit, victim = (
            Place(recording.code_file, at, lines.get(at, "").strip()) for at in (spent.made.lineno, again)
        )
        finding = Finding(
            recording=recording, kind=USED_UP, frame=len(recording.frames) - 1, culprit=culprit, victim=victim
        )
        facts: dict[str, Word] = {"made": ast.unparse(spent.made), "first": first}
        yield finding.told(NOTHING_LEFT, MAKE_A_LIST, facts)


def _is_own(recording: Recording, place: Place) -> bool:
    return place.file == recording.code_file


def _came_by(ran: dict[int, int], scope: ast.Module | Function) -> bool:
    """Did anything run in it?"""
    return isinstance(scope, ast.Module) or any(scope.lineno <= line <= (scope.end_lineno or 0) for line in ran)


def _tree(recording: Recording) -> ast.Module:
    """The file of the block; empty where what is known of it is no whole text."""
    lines = dict(recording.code)
    try:
        return ast.parse(
            "\n".join(lines.get(number, "").rstrip("\n") for number in range(1, max(lines, default=0) + 1))
        )
    except (SyntaxError, ValueError):
        return ast.Module(body=[], type_ignores=[])


def _spent(tree: ast.Module) -> Iterator[Spent]:
    functions = [each for each in ast.walk(tree) if isinstance(each, Function)]
    for function in functions:
        yield from _of_argument(tree, function)
    for scope in (tree, *functions):
        yield from _of_variable(scope)


def _of_argument(tree: ast.Module, function: Function) -> Iterator[Spent]:
    """`clip(model.parameters())`, where `clip` goes through what it is given twice."""
    for position, argument in enumerate(function.args.args):
        uses = _uses(function, argument.arg)
        if len(uses) > 1 and not _is_given(function, argument.arg):
            calls = (each for each in ast.walk(tree) if isinstance(each, ast.Call) and _named(each) == function.name)
            for call in calls:
                shift = isinstance(call.func, ast.Attribute) and function.args.args[0].arg == "self"
                given = call.args[position - shift : position - shift + 1]
                if given and _is_generator(given[0]):
                    yield Spent(given[0], uses[0][0], uses[1][0], uses[1][1], function)


def _of_variable(scope: ast.Module | Function) -> Iterator[Spent]:
    """`params = model.parameters()`, handed to the optimiser and gone through again."""
    for each in _own(scope):
        if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name) and _is_generator(each.value):
            name = each.targets[0].id
            uses = [use for use in _uses(scope, name) if use[0].lineno > each.lineno]
            if len(uses) > 1 and sum(_stores(other, name) for other in _own(scope)) == 1:
                yield Spent(each.value, uses[0][0], uses[1][0], uses[1][1], scope)


def _own(scope: ast.AST) -> Iterator[ast.AST]:
    """All in a scope but what stands in the functions and classes in it."""
    waiting = list(ast.iter_child_nodes(scope))
    for each in waiting:  # grows while it's read
        yield each
        if not isinstance(each, Function | ast.ClassDef | ast.Lambda):
            waiting += ast.iter_child_nodes(each)


def _uses(scope: ast.Module | Function, name: str) -> list[tuple[ast.expr, int]]:
    """Where what has that name is gone through, in the order of the lines, and where that ends; none where one of two.

    In the two branches of an `if`, or behind a loop that is left early, one of two may be all that runs.
    """
    found: list[tuple[ast.expr, int]] = []
    branches = [each for each in _own(scope) if isinstance(each, ast.If | ast.Try | ast.Match | ast.For)]
    for each in _own(scope):
        match each:
            case ast.For(iter=ast.Name(id=held) as at, end_lineno=end) if held == name:
                found.append((at, end or at.lineno))
            case ast.comprehension(iter=ast.Name(id=held) as at) if held == name:
                found.append((at, at.lineno))
            case ast.Call(args=[ast.Name(id=held) as at, *_]) if held == name and _named(each) not in LOOKS:
                found.append((at, at.lineno))
    found.sort(key=lambda use: use[0].lineno)
    if len(found) < 2 or any(_parts(branch, found[0][0], found[1][0]) for branch in branches):
        return []
    second = found[1][0]
    loops = {id(each.iter) for each in _own(scope) if isinstance(each, Loop)}
    clips = {
        id(each.args[0]) for each in _own(scope) if isinstance(each, ast.Call) and each.args and _named(each) in CLIPS
    }
    return found if id(second) in loops | clips else []


def _parts(branch: ast.stmt, first: ast.expr, second: ast.expr) -> bool:
    """Does the first stand in it, and the second in another part of it, or behind one that leaves?"""
    inside = branch.lineno <= first.lineno <= (branch.end_lineno or 0)
    together = not isinstance(branch, ast.For) and branch.lineno <= second.lineno <= (branch.end_lineno or 0)
    leaves = any(isinstance(each, ast.Return | ast.Raise | ast.Continue | ast.Break) for each in ast.walk(branch))
    return inside and (together or leaves)


def _is_given(function: Function, name: str) -> bool:
    """Is the argument given another value, a list of its items as a rule?"""
    return any(_stores(each, name) for each in _own(function))


def _stores(each: ast.AST, name: str) -> bool:
    return isinstance(each, ast.Name) and each.id == name and isinstance(each.ctx, ast.Store)


def _named(call: ast.Call) -> str:
    """The last part of what is called."""
    return (
        call.func.attr
        if isinstance(call.func, ast.Attribute)
        else call.func.id
        if isinstance(call.func, ast.Name)
        else ""
    )


def _is_generator(value: ast.expr) -> bool:
    """`model.parameters()`, `filter(…)`, `(p for p in …)`."""
    if isinstance(value, ast.Call):
        method = isinstance(value.func, ast.Attribute) and value.func.attr in GIVES
        return method or (isinstance(value.func, ast.Name) and value.func.id in LAZY)
    return isinstance(value, ast.GeneratorExp)
