"""What is computed once and used again in every step: the line to change, so that it is computed anew."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from typing import TypeGuard

from seegrad.diagnose.evidence import are_in_one_function, called, function_at, made_at
from seegrad.model.recording import Place, RaisedError, Recording


def set_at(recording: Recording, name: str | None) -> Place | None:
    """The line of the block's file that gives an attribute its value: `self.target = net(x)`."""
    if name is None or not name.startswith("self."):
        return None
    sets = re.compile(rf"\s*{re.escape(name)}\s*=(?!=)(?!\s*None\b)")
    line, text = next((each for each in recording.code if sets.match(each[1])), (0, ""))
    return Place(recording.code_file, line, text.strip()) if line else None


def put_at(recording: Recording, name: str, made: Place) -> Place | None:
    """The line by which an attribute outlives the step: `self.state = (h, c)`, where another one has made `h`.

    In the function that has made it, or else the only one in the file that gives the attribute anything but nothing.
    """
    whole, _, part = re.sub(r"\[.*", "", name).rpartition(".")
    sets = re.compile(rf"\s*(?:\w+\.)+{re.escape(part)}\s*=(?!=)(?!\s*(?:None\b|\w+\.(?:new_)?zeros\b))")
    found = [Place(recording.code_file, line, text.strip()) for line, text in recording.code if sets.match(text)]
    near = [each for each in found if are_in_one_function(recording, each, made)]
    return next(iter(near or found), None) if whole and len(near or found) == 1 else None


def filled_on(recording: Recording, names: Iterable[str]) -> Place | None:
    """The only line of the block's file that puts anything into the list or dict of one of these: `losses[0]`."""
    wholes = {name.partition("[")[0].rpartition(".")[2] for name in names if "[" in name}
    parts = "|".join(map(re.escape, sorted(wholes)))
    fills = re.compile(rf"\b(?:{parts})(?:\.(?:append|extend|insert|appendleft|add)\(|\[[^\]]+\]\s*=(?!=)|\s*\+=)")
    found = [each for each in recording.code if wholes and fills.search(each[1])]
    line, text = found[0] if len(found) == 1 else (0, "")
    return Place(recording.code_file, line, text.strip()) if line else None


CACHES = re.compile(r"\s*@(?:\w+\.)?(?:lru_cache|cache|cached_property)\b")


def cached_by(recording: Recording, tensor: int) -> Place | None:
    """What keeps a tensor that a function has returned: its decorator, or the line that puts it into a collection.

    Of that the function has asked whether it's in there: `if key not in cache: cache[key] = func(x)`.
    """
    function = function_at(recording, made_at(recording, tensor))
    lines = {each.lineno for each in function.decorator_list} if function is not None else ()
    found = (each for each in recording.code if each[0] in lines and CACHES.match(each[1]))
    line, text = next(found, (0, ""))
    return Place(recording.code_file, line, text.strip()) if line else _kept_by(recording, tensor)


def _kept_by(recording: Recording, tensor: int) -> Place | None:
    made = recording.frames[recording.tensors[tensor].frame]
    for place in (made.place, made.taken):
        function = function_at(recording, place)
        if place is None or function is None:
            continue
        asked = {ast.unparse(each.comparators[0]) for each in ast.walk(function) if _asks_what_is_in(each)}
        puts = [each for each in ast.walk(function) if isinstance(each, ast.Assign) and _put_into(each) in asked]
        own = next((each for each in puts if each.lineno == place.line), None)
        name = called(recording, tensor)
        kept = own or next((each for each in puts if name is not None and ast.unparse(each.value) == name), None)
        text = dict(recording.code).get(kept.lineno) if kept is not None else None
        if kept is not None and text is not None:
            return Place(recording.code_file, kept.lineno, text.strip())
    return None


def _put_into(node: ast.Assign) -> str:
    """The collection that an item is put into; empty where it's none."""
    target = node.targets[0]
    return ast.unparse(target.value) if isinstance(target, ast.Subscript) else ""


def _asks_what_is_in(node: ast.AST) -> TypeGuard[ast.Compare]:
    return isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn)


def first_made(recording: Recording, tensor: int) -> Place | None:
    """The line that made it; of a variable that was given its own result (`x = x - x.mean()`), the first."""
    name, seen = called(recording, tensor), {tensor}
    while name is not None:
        inputs = recording.frames[recording.tensors[tensor].frame].inputs
        same = (each for each in behind_on_line(recording, inputs, tensor) if called(recording, each) == name)
        before = next((each for each in same if recording.tensors[each].requires_grad and each not in seen), None)
        if before is None:
            break
        seen.add(tensor := before)
    return made_at(recording, tensor)


def behind_on_line(recording: Recording, tensors: tuple[int, ...], of: int) -> list[int]:
    """These, and what the same line has made of others on the way to them."""
    line, waiting = made_at(recording, of), list(tensors)
    for each in waiting:  # grows while it's read
        made = recording.frames[recording.tensors[each].frame]
        if made.place == line and each in made.outputs:
            waiting += [number for number in made.inputs if number not in waiting]
    return waiting


def bound_outside(error: RaisedError, name: str | None, made: Place | None) -> Place | None:
    """The line of a function under way that binds a variable to what was made in one that has returned."""
    bound = dict(error.bound).get(name or "")
    binds = made is not None and re.match(rf"[^=]*\b{re.escape(name or '')}\b[^=]*=(?!=)", made.code)
    return None if binds else bound
