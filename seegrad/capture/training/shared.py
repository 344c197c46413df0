"""One thing under two names: a target network that is the policy, n times one layer, a snapshot of Parameters.

Nothing of this is a call of torch. At an optimiser's first step, its second, its fourth …, the user's variables are
looked through, and the line is searched that gave the second name; so are Parameters that no optimiser was given.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any, TypeVar

import torch

from seegrad.capture.probes.places import Source, is_users, nodes
from seegrad.capture.probes.source_text import (
    Text,
    assigned,
    bound,
    call_of,
    called,
    function_of,
    given_in,
    listed_at,
    methods,
    named_only,
    texts,
    under_way,
)
from seegrad.capture.probes.variables import MAX_ITEMS, Reach, is_a, tensors_in
from seegrad.capture.tables import Tables
from seegrad.capture.training.made import MadeOptimisers, Path, leaves
from seegrad.capture.training.settings.again import MadeAgain
from seegrad.model.recording import Clue, Place

MEANT_AS_COPY = re.compile(
    r"(?:^|_)(?:target|tgt|teacher|old|prev|previous|best|ema|average|avg|swa|shadow|ref|reference|frozen|snapshot|backup|"
    r"copy|initial|momentum|anchor)(?:$|_)"
)
"""What a second name says where a copy was meant."""

ITSELF = frozenset(
    {"to", "cpu", "cuda", "xpu", "train", "eval", "float", "double", "half", "bfloat16", "type", "requires_grad_"}
    | {"apply", "share_memory"}
)
"""Methods of a module that hand back that module."""

NEARLY_INIT = frozenset({"init", "int", "inti"})
"""What is written where `__init__` is meant and never runs, underscores aside."""

NUMBERS = re.compile(r"(?:\.\d+)+$")
"""The places in lists with which a path ends."""

DROPOUTS = torch.nn.Dropout, torch.nn.Dropout1d, torch.nn.Dropout2d, torch.nn.Dropout3d, torch.nn.AlphaDropout
NORMS = torch.nn.BatchNorm1d, torch.nn.BatchNorm2d, torch.nn.BatchNorm3d, torch.nn.SyncBatchNorm
"""Modules that compute something else in evaluation mode."""

Named = list[tuple[str, Any]]
Kept = TypeVar("Kept")


class SharedThings:
    """All that were found, each once, as clues, whose fact `name` is the variable's.

    `module`: it and `other` are one module, or share all Parameters. `repeated`: a list that holds one module `other`
    times. `snapshot`: a list or dict that holds Parameters themselves. `hidden`: one that holds modules, whose
    Parameters no optimiser in sight was given, or, as an attribute of a module, Parameters: `what`. `left_out`: nor
    those of `module`, when that line made the optimiser. `partly`: that line made one of `part` alone, and these are
    the rest of `module`. `evaluated`: a module that was stepped in training mode, or put into it by the function that
    steps it, then stepped in the other. `resting`: one in evaluation mode beside others that are trained, whose
    Parameters no optimiser holds.
    """

    def __init__(self, tables: Tables, source: Source, made: MadeOptimisers) -> None:
        self._tables, self._source, self._made = tables, source, made
        self._again = MadeAgain(tables)
        self._told: set[str] = set()
        self._trained: set[tuple[int, int]] = set()  # optimiser and module that it has stepped in training mode
        self._modes: dict[tuple[CodeType, str, int], bool | None] = {}

    def look(self, optimiser: torch.optim.Optimizer, reach: Reach) -> None:
        """The optimiser is about to step."""
        self._again.stepped(optimiser, self._made.places.get(optimiser))
        leaves = {id(leaf) for group in optimiser.param_groups for leaf in group["params"]}
        frames = reach.frames
        for frame in frames:
            found = reach.of(frame)
            self._snapshots(found, leaves, frames)
            self._evaluated(found, optimiser, leaves, frames)
            modules = list(_modules(found))
            self._two_names(modules, leaves, frames)
            self._repeated(modules, leaves, frames)
        self._left_out(optimiser, reach.together(), frames)

    def _two_names(
        self, found: list[tuple[str, torch.nn.Module]], leaves: set[int], frames: Sequence[FrameType]
    ) -> None:
        for name, module in found:
            if MEANT_AS_COPY.search(_last(name)) is None or not _trains(module, leaves):
                continue
            other = next((each for each, same in found if _last(each) != _last(name) and _is_one(same, module)), None)
            if other is not None and MEANT_AS_COPY.search(_last(other)) is None:
                self._tell("module", name, list(module.parameters()), frames, module, other=other)

    def _repeated(
        self, found: list[tuple[str, torch.nn.Module]], leaves: set[int], frames: Sequence[FrameType]
    ) -> None:
        owners = dict(found)
        for name, module in found:
            if isinstance(module, torch.nn.ModuleList | torch.nn.Sequential):
                items, times = _longest_run(list(module))
                if items is not None and _trains(items, leaves):
                    above, _, _ = _attribute(name).rpartition(".")
                    held = list(items.parameters())
                    self._tell("repeated", name, held, frames, owners.get(above, module), other=str(times))

    def _snapshots(self, found: Named, leaves: set[int], frames: Sequence[FrameType]) -> None:
        for name, value in found:
            held = tensors_in(value) if type(value) in (list, tuple, dict) else []
            if held and all(id(each) in leaves for each in held):
                self._tell("snapshot", name, held, frames, None)

    def _evaluated(
        self, found: Named, optimiser: torch.optim.Optimizer, leaves: set[int], frames: Sequence[FrameType]
    ) -> None:
        """A module that is stepped in evaluation mode, and was in training mode before, or was to be."""
        for name, module in found:
            if not is_a(module, torch.nn.Module) or not _trains(module, leaves):
                continue
            key = id(optimiser), id(module)
            if module.training:
                self._trained.add(key)
            elif (key in self._trained or self._is_to_train(name, frames)) and any(
                map(_differs_by_mode, torch.nn.Module.modules(module))
            ):
                looked_through = texts(self._source, frames, module)
                uncalled = named_only(self._source, looked_through, _last(name), "train")
                place = uncalled or self._out_of_training(looked_through, _last(name))
                how = "named" if uncalled is not None else "called"
                self._told_at("evaluated", name, place, list(_parameters(module)), how=how)

    def _out_of_training(self, looked_through: list[Text], name: str) -> Place | None:
        """The line that calls `eval()`, or does its work."""
        ways = (call_of(self._source, looked_through, owner, "eval") for owner in (name, None))
        called = next(filter(None, ways), None)
        return called or assigned(self._source, looked_through, "training", name, on=False)

    def _is_to_train(self, name: str, frames: Sequence[FrameType]) -> bool:
        """Has a function under way called `name.train()` above the line that it is at, and `name.eval()` nowhere?"""
        inner = (frame for frame in frames if frame.f_code.co_name != "<module>")
        said = (self._puts_in_training(_last(name), frame) for frame in inner)
        return next((each for each in said if each is not None), False)

    def _puts_in_training(self, name: str, frame: FrameType) -> bool | None:
        """None where its function says nothing of that mode above the line that it is at. Asked at each step."""
        code, until = frame.f_code, frame.f_lineno or 0
        key = code, name, until
        if key not in self._modes:
            written = under_way(self._source, [frame]) if ".train()" in self._source.text(code.co_filename) else []
            calls = (call_of(self._source, written, name, method) for method in ("train", "eval"))
            train, out = (each.line if each is not None else 0 for each in calls)
            self._modes[key] = not train < out < until if code.co_firstlineno < train < until else None
        return self._modes[key]

    def _left_out(self, optimiser: torch.optim.Optimizer, found: Named, frames: Sequence[FrameType]) -> None:
        """Parameters with a gradient that no optimiser in sight holds: of a plain list's modules, or given to none."""
        optimisers = {id(each): (name, each) for name, each in found if is_a(each, torch.optim.Optimizer)}
        stepping = optimisers.setdefault(id(optimiser), ("", optimiser))[0]
        known = [*(each for _, each in optimisers.values()), *self._made.places]  # in a dict of the user's, too
        given = {id(leaf) for each in known for leaf in leaves(each)}
        modules = list(_modules(found))
        given |= self._resting(modules, given, frames)
        self._hidden(found, dict(modules), given, frames)
        if _any_waits((each for _, each in modules), given):
            waiting = {id(leaf): leaf for _, module in modules for leaf in _waiting(module, given)}
            loose = list(waiting.values())
            whole = _whole(modules, loose[0], waiting)
            if optimiser in self._made.places:
                place = listed_at(self._source, self._made.places[optimiser], self._made.columns[optimiser])
                self._told_at("left_out", stepping, place, loose, module=whole)
            elif stepping:
                self._tell("left_out", stepping, loose, frames, None, module=whole)
            self._partly(modules, loose)

    def _hidden(
        self, found: Named, owners: Mapping[str, torch.nn.Module], given: set[int], frames: Sequence[FrameType]
    ) -> None:
        """Modules that nothing but plain lists hold, or a module's own Parameters; those of one attribute together."""
        registered = {id(leaf) for each in owners.values() for leaf in _own(each)}
        hidden: dict[str, tuple[str, list[torch.Tensor], torch.nn.Module | None, str]] = {}
        for name, value in found:
            modules, owner = _in_plain(value, torch.nn.Module), owners.get(name.rpartition(".")[0])
            bare = _in_plain(value, torch.nn.Parameter) if owner is not None else []
            every = [leaf for each in modules for leaf in _parameters(each)]
            every += [each for each in bare if id(each) not in registered]
            if every and all(id(leaf) not in given and leaf.grad is not None for leaf in every):
                what = "modules" if modules else "Parameters"
                hidden.setdefault(_last(name), (name, [], owner, what))[1].extend(every)
        for name, loose, owner, what in hidden.values():
            self._tell("hidden", name, loose, frames, owner, what=what)

    def _resting(self, modules: Named, given: set[int], frames: Sequence[FrameType]) -> set[int]:
        """Those that wait of modules in evaluation mode, beside some in training mode: who writes so means it."""
        if not _any_waits((each for _, each in modules), given):
            return set()
        own = [(name, each, list(torch.nn.Module.parameters(each, recurse=False))) for name, each in modules]
        rest = [each for each in own if not each[1].training and any(id(leaf) not in given for leaf in each[2])]
        learn = any(module.training and any(id(leaf) in given for leaf in held) for _, module, held in own)
        loose = [leaf for _, _, held in rest for leaf in held if id(leaf) not in given] if learn else []
        if loose:
            looked = texts(self._source, frames, rest[0][1])
            ways = (call_of(self._source, looked, None, method) for method in ("eval", "train"))
            self._told_at("resting", rest[0][0], next(filter(None, ways), None), loose)
        return {id(leaf) for leaf in loose}

    def _partly(self, modules: Named, loose: Sequence[torch.Tensor]) -> None:
        """Tell of an optimiser that holds a part of the module of which these are the rest."""
        paths: dict[int, Path] = {}
        for name, module in modules:
            for own, leaf in torch.nn.Module.named_parameters(module, recurse=False):
                paths.setdefault(id(leaf), (*name.split("."), own))
        found = self._made.beside(paths[id(loose[0])], paths)
        if found is not None:
            place, part, whole = found
            with_it = [each for each in loose if paths[id(each)][: len(whole)] == whole]
            held = ".".join(part)
            self._told_at("partly", held, place, with_it, part=held, module=".".join(whole))

    def _tell(
        self,
        kind: str,
        name: str,
        tensors: Sequence[torch.Tensor],
        frames: Sequence[FrameType],
        owner: torch.nn.Module | None,
        **facts: str,
    ) -> None:
        attribute = _last(_attribute(name))
        if f"{kind} {attribute}" in self._told:
            return
        self._told.add(f"{kind} {attribute}")
        looked_through = texts(self._source, frames, owner, attribute)
        self._add(kind, _given_at(self._source, looked_through, kind, attribute), tensors, {"name": name, **facts})

    def _told_at(
        self, kind: str, name: str, place: Place | None, tensors: Sequence[torch.Tensor], **facts: str
    ) -> None:
        if f"{kind} {_last(name)}" not in self._told:
            self._told.add(f"{kind} {_last(name)}")
            self._add(kind, place, tensors, {"name": name, **facts})

    def _add(self, kind: str, place: Place | None, tensors: Sequence[torch.Tensor], facts: dict[str, str]) -> None:
        if place is None:  # a list of an optimiser's own, or a name that was given elsewhere
            return
        numbers = tuple(number for each in tensors if (number := self._tables.tensors.find(each)) is not None)
        self._tables.clues.append(Clue(kind, self._tables.frames.now, place, numbers, tuple(facts.items())))


def unregistered(source: Source, frames: Sequence[FrameType]) -> Iterator[tuple[str, str, Place]]:
    """(kind, path, line) of what modules without a single Parameter keep of such, where `parameters()` can't see it.

    Behind these what their classes make of modules and keep nowhere, and what stands in `__init__`'s place.
    """
    empty = [each for each in _modules(Reach(frames).together()) if next(_parameters(each[1]), None) is None]
    for path, module in empty:
        for name, value in vars(module).items():
            kind = _kept_unseen(value) if not name.startswith("_") else ""
            place = _given_at(source, texts(source, frames, module, name), kind, name) if kind else None
            if place is not None:
                yield kind, f"{path}.{name}", place
    for path, module in empty:
        for function in methods(type(module)):
            yield from ((kind, path, place) for kind, place in _in_vain(source, type(module), function))


def _in_vain(source: Source, kind: type, function: FunctionType) -> Iterator[tuple[str, Place]]:
    """Where a method that should be `__init__` is called something else; where one makes modules and keeps them not."""
    file = function.__code__.co_filename
    for _, tree in function_of(source, function.__code__) if is_users(file) else ():
        if tree.name.strip("_") in NEARLY_INIT and "__init__" not in vars(kind):
            yield "misnamed", source.at(file, tree.lineno)
        for statement in ast.walk(tree):
            if isinstance(statement, ast.Return) or (isinstance(statement, ast.Assign) and not _keeps(statement)):
                calls = (each for each in ast.walk(statement) if isinstance(each, ast.Call))
                made = (each for each in calls if _learns(_looked_up(each.func, function.__globals__)))
                yield from (("passing", source.at(file, each.lineno)) for each in made)


def _keeps(statement: ast.Assign) -> bool:
    """Is it given to anything but variables of the method's own?"""
    targets = (part for each in statement.targets for part in ast.walk(each))
    return any(isinstance(each, ast.Attribute | ast.Subscript) for each in targets)


def _looked_up(callee: ast.expr, names: Mapping[str, Any]) -> Any:
    """What `torch.nn.Linear` means there."""
    first, *attributes = ast.unparse(callee).split(".")
    value = names.get(first)
    for name in attributes:
        value = vars(value).get(name) if isinstance(value, ModuleType) else None
    return value


def _learns(kind: Any) -> bool:
    """Is it a class of modules that makes Parameters, or some of torch's that do?"""
    return bool(_named_in_init(kind) & ({"Parameter"} | _torchs_that_learn()))


@functools.cache
def _torchs_that_learn() -> frozenset[str]:
    return frozenset(name for name, each in vars(torch.nn).items() if "Parameter" in _named_in_init(each))


def _named_in_init(kind: Any) -> set[str]:
    """What the making of a module names; nothing for what is no class of modules."""
    if not (isinstance(kind, type) and issubclass(kind, torch.nn.Module)):
        return set()
    made = (vars(each).get("__init__") for each in kind.__mro__)
    return {name for each in made if isinstance(each, FunctionType) for name in each.__code__.co_names}


def _kept_unseen(value: Any) -> str:
    """Does an attribute that isn't registered keep modules that learn, or a tensor that does?"""
    if any(next(_parameters(each), None) is not None for each in _in_plain(value, torch.nn.Module)):
        return "hidden"
    learns = any(each.requires_grad and each.is_leaf for each in tensors_in(value))
    return "plain" if learns else ""


def _modules(found: Named) -> Iterator[tuple[str, torch.nn.Module]]:
    """(path, module) for the modules among variables, and their own, each as often as it's named."""
    for name, value in found:
        if is_a(value, torch.nn.Module):
            yield from torch.nn.Module.named_modules(value, prefix=name, remove_duplicate=False)


def _whole(modules: Named, leaf: torch.Tensor, waiting: Mapping[int, object]) -> str:
    """The outermost module that has this leaf and none but those that wait, or the one that has it itself."""
    owners = [(name, {*map(id, _parameters(each))}) for name, each in modules]
    owners = [(name, those) for name, those in owners if id(leaf) in those]
    return next((name for name, those in owners if those <= waiting.keys()), owners[-1][0])


def _in_plain(value: Any, kind: type[Kept]) -> list[Kept]:
    """What is of that kind in a plain list, tuple or dict, which doesn't register it."""
    items = value.values() if type(value) is dict else value if type(value) in (list, tuple) else ()
    return [each for each in islice(items, MAX_ITEMS) if is_a(each, kind)]


def _own(module: torch.nn.Module) -> Iterator[torch.nn.Parameter]:
    return torch.nn.Module.parameters(module, recurse=False)


def _parameters(module: torch.nn.Module) -> Iterator[torch.nn.Parameter]:
    return torch.nn.Module.parameters(module)


def _waiting(module: torch.nn.Module, given: set[int]) -> list[torch.Tensor]:
    """Its Parameters with a gradient that were given to no optimiser."""
    return [each for each in _parameters(module) if id(each) not in given and each.grad is not None]


def _any_waits(modules: Iterable[torch.nn.Module], given: set[int]) -> bool:
    """Was any Parameter with a gradient, of these modules and of all in them, given to no optimiser?"""
    own = torch.nn.Module.parameters
    each = {id(module): module for module in modules}.values()
    return any(
        id(leaf) not in given and leaf.grad is not None for module in each for leaf in own(module, recurse=False)
    )


def _trains(module: torch.nn.Module, leaves: set[int]) -> bool:
    return any(id(each) in leaves for each in torch.nn.Module.parameters(module))


def _differs_by_mode(module: torch.nn.Module) -> bool:
    """Does it compute something else in evaluation mode?"""
    if isinstance(module, DROPOUTS):
        return module.p > 0
    return isinstance(module, NORMS)


def _is_one(first: torch.nn.Module, second: torch.nn.Module) -> bool:
    """Is it one module, or a shallow copy with the same Parameters?"""
    if first is second:
        return True
    one, other = list(torch.nn.Module.parameters(first)), list(torch.nn.Module.parameters(second))
    alike = type(first) is type(second) and len(one) == len(other)
    return alike and all(a is b for a, b in zip(one, other, strict=True))


def _longest_run(items: Sequence[torch.nn.Module]) -> tuple[torch.nn.Module | None, int]:
    """The module that stands in the most places one behind the other, and in how many; None where none stands twice."""
    best, times, last = None, 1, 0
    for at in range(1, len(items)):
        last = last if items[at] is items[at - 1] else at
        if at - last + 1 > times:
            best, times = items[at], at - last + 1
    return best, times


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _attribute(name: str) -> str:
    """What a statement gives a value, of a path: a place in a list has no name of its own.

    >>> _attribute("net.heads.0.2"), _attribute("net")
    ('net.heads', 'net')
    """
    return NUMBERS.sub("", name)


# -- the statement that gives the name


def _given_at(source: Source, looked_through: Sequence[Text], kind: str, name: str) -> Place | None:
    """The line that gives the name what is meant; of a long statement that which repeats."""
    ways = (_collects, _is_empty, _holds) if kind == "hidden" else (SHARES[kind],)  # an empty one is filled later
    places = (bound(source, [text], name, way) for text in looked_through for way in ways)
    place = next(filter(None, places), None)
    if kind != "repeated" or place is None:
        return place
    given = (pair for each in nodes(source.text(place.file)) for pair in given_in(each))
    values = (value for target, value in given if target.lineno == place.line and called(target) == name)
    parts = (part.lineno for value in values for part in _repetitions(value))
    return source.at(place.file, next(parts, place.line))


def _hands_on(value: ast.expr) -> bool:
    """`target = policy`, `teacher = copy.copy(student)`, `target = policy.to(device).eval()`."""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in ITSELF:
        value = value.func.value
    match value:
        case ast.Name() | ast.Attribute():
            return True
        case ast.Call(func=ast.Attribute(attr="copy") | ast.Name(id="copy")):
            return True
    return False


def _repeats(value: ast.expr) -> bool:
    return next(_repetitions(value), None) is not None


def _repetitions(value: ast.expr) -> Iterator[ast.expr]:
    """`[layer] * n`, `[layer for _ in range(n)]`, wherever it stands in the value."""
    for each in ast.walk(value):
        match each:
            case ast.BinOp(left=ast.List(), op=ast.Mult()) | ast.BinOp(op=ast.Mult(), right=ast.List()):
                yield each
            case ast.ListComp(elt=ast.Name()) | ast.GeneratorExp(elt=ast.Name()):
                yield each


def _holds(value: ast.expr) -> bool:
    """Anything but an empty collection."""
    match value:
        case ast.Dict(keys=[]) | ast.List(elts=[]) | ast.Constant():
            return False
    return True


def _collects(value: ast.expr) -> bool:
    """A list, tuple or dict that is written out, and not empty."""
    collections = ast.List | ast.Tuple | ast.Dict | ast.ListComp | ast.DictComp | ast.BinOp
    return isinstance(value, collections) and _holds(value)


def _is_empty(value: ast.expr) -> bool:
    """`[]`, `{}`, `list()`."""
    match value:
        case ast.Dict(keys=[]) | ast.List(elts=[]) | ast.Call(func=ast.Name(id="list" | "dict"), args=[], keywords=[]):
            return True
    return False


def _calls(value: ast.expr) -> bool:
    """`torch.optim.SGD(…)`."""
    return isinstance(value, ast.Call)


SHARES = {
    "module": _hands_on,
    "repeated": _repeats,
    "snapshot": _holds,
    "plain": _holds,
    "left_out": _calls,
}
"""By kind, what the value looks like; of `hidden` several."""
