"""Who holds what torch has refused: of `copy.deepcopy`, the attribute that it has come to; of numpy, a list; what
`DistributedDataParallel` waits for, the modules that no loss came of."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch

from seegrad.capture.probes.places import Source, is_users
from seegrad.capture.probes.source_text import Text, bound, called, given_in, put_into, texts
from seegrad.capture.probes.variables import is_a
from seegrad.model.recording import Place
from seegrad.words.errors import text_of

IN_MODULES = frozenset({"_buffers", "_parameters", "_modules"})
"""Where a module keeps what has a name of its own."""

KEEPERS = {"weight_norm": ("_g", "_v"), "spectral_norm": ("_orig", "_u"), "prune": ("_orig", "_mask")}
"""What of torch's own keeps a result in a module's attribute → what it calls the tensors that this is computed of."""


@dataclass(frozen=True, slots=True)
class Holder:
    """An attribute or a variable that holds a result, by itself or in a collection; the line that puts it there.

    `name` is that of torch's function where one does so, or `prune`.
    """

    name: str
    place: Place | None
    collection: bool


def holder(source: Source, frame: FrameType, frames: Sequence[FrameType]) -> Holder | None:
    """Of the tensor that deepcopy, called from the user's `frames`, copies in `frame`; None where no attribute does."""
    keys, owner = list[Any](), None
    step: FrameType | None = frame
    while step is not None and not is_users(step.f_code.co_filename) and owner is None:
        if step.f_code.co_filename == copy.__file__:
            held = step.f_locals
            keys += [held["key"]] if step.f_code.co_name == "_deepcopy_dict" and "key" in held else []
            keys += [None] if step.f_code.co_name in ("_deepcopy_list", "_deepcopy_tuple") else []
            owner = held.get("x") if step.f_code.co_name == "_reconstruct" else None
        step = step.f_back
    if len(keys) > 1 and keys[-1] in IN_MODULES:
        keys.pop()
    if owner is None or not keys or type(keys[-1]) is not str:
        return None
    name, many = keys[-1], len(keys) > 1
    looked_through = [(file, tree) for file, tree in texts(source, frames, owner) if is_users(file)]
    keeper = _keeper(owner, name)
    if keeper is not None:
        return Holder(keeper, _called_on(source, looked_through, keeper), many)
    place = put_into(source, looked_through, name) if many else None
    place = place or _set_on(source, looked_through, name)
    return Holder(name, place or bound(source, looked_through, name, _may_be_computed), many)


def _set_on(source: Source, looked_through: Iterable[Text], name: str) -> Place | None:
    """The line that gives an attribute of that name what may hold a result; not a variable of the same name."""
    for file, tree in looked_through:
        given = [pair for each in ast.walk(tree) for pair in given_in(each) if isinstance(pair[0], ast.Attribute)]
        lines = [target.lineno for target, value in given if called(target) == name and _may_be_computed(value)]
        if lines:
            return source.at(file, min(lines))
    return None


def among(tensor: torch.Tensor, frames: Sequence[FrameType]) -> Holder | None:
    """The list or tuple, a variable of the innermost of these functions, that holds the tensor; None for none."""
    for name, value in dict(frames[-1].f_locals).items() if frames else ():
        if type(value) in (list, tuple) and any(each is tensor for each in value):
            return Holder(name, None, collection=True)
    return None


NOT_RECEIVED = re.compile(r"did not receive grad for rank \d+: ([\d ]+)")


def unreached(source: Source, error: BaseException, frames: Sequence[FrameType]) -> Iterator[tuple[str, Place]]:
    """(path, the line that builds it) for the modules whose gradients DistributedDataParallel said it waits for."""
    found, step = NOT_RECEIVED.search(text_of(error)), error.__traceback__
    wrapper: Any = None
    while found is not None and step is not None and wrapper is None:
        own = step.tb_frame.f_locals.get("self") if not is_users(step.tb_frame.f_code.co_filename) else None
        wrapper = own if is_a(own, torch.nn.parallel.DistributedDataParallel) else None
        step = step.tb_next
    if found is None or wrapper is None:
        return
    every = [leaf for leaf in wrapper.module.parameters() if leaf.requires_grad]
    missing = {id(every[at]) for at in map(int, found[1].split()) if at < len(every)}
    for path, owner, module in _owned(wrapper.module):
        own = [id(leaf) for leaf in module.parameters() if leaf.requires_grad]
        if own and missing.issuperset(own):
            missing -= set(own)
            place = bound(source, texts(source, frames, owner), path.rpartition(".")[2], _may_be_computed)
            if place is not None:
                yield path, place


def _owned(root: torch.nn.Module) -> Iterator[tuple[str, torch.nn.Module, torch.nn.Module]]:
    """(path, the module that has it, the module itself), what holds others before those."""
    for path, module in root.named_modules():
        if path:
            yield path, root.get_submodule(path.rpartition(".")[0]), module


def _keeper(owner: Any, name: str) -> str | None:
    named = dict(owner.named_parameters(recurse=False)) if is_a(owner, torch.nn.Module) else {}
    named |= dict(owner.named_buffers(recurse=False)) if named else {}
    return next((each for each, ends in KEEPERS.items() if all(name + end in named for end in ends)), None)


def _may_be_computed(value: ast.expr) -> bool:
    """False for what holds no result for sure: a constant, an empty collection."""
    return not isinstance(value, ast.Constant | ast.List | ast.Dict)


def _called_on(source: Source, looked_through: Iterable[Text], function: str) -> Place | None:
    """The first line that calls a function of that name."""
    for file, tree in looked_through:
        for each in ast.walk(tree):
            match each:
                case ast.Call(func=ast.Attribute(attr=called) | ast.Name(id=called)) if called == function:
                    return source.at(file, each.lineno)
    return None
