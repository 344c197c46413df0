"""What the other side may ask of a thing of ours. In the student's process: anything. In the judge's: a short list.

The student's code may be handed a model, an optimiser, a loader or an object of a class that the test defines. It can
use them as such; it never gets at what lies behind them.
"""

from __future__ import annotations

import asyncio
import copy
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
import torch.utils.data
from torch.optim.lr_scheduler import LRScheduler
from torch.utils.data.dataloader import _BaseDataLoaderIter

from nbjudge.bridge.objects import CARRIED, COPIED
from nbjudge.bridge.values import UnsupportedError

TESTS = "__main__"  # the module of what a test cell defines
_BUILTINS: tuple[Any, ...] = (
    map,
    filter,
    zip,
    enumerate,
    reversed,
    type(iter("")),
    type(iter(())),
    type(iter([])),
    type(iter({})),
)
ITERATORS = (types.GeneratorType, *_BUILTINS)
DATA = (torch.utils.data.DataLoader, torch.utils.data.Dataset, _BaseDataLoaderIter)
PLAIN = (type(None), bool, int, float, str, torch.Tensor, torch.nn.Module)
OFFERED = frozenset({"__call__", "__iter__", "__next__", "__len__", "__getitem__"})
SHOWN = frozenset({"__repr__", "__str__", "__format__"})
MODULE = frozenset(
    {
        *("forward", "parameters", "named_parameters", "buffers", "named_buffers", "children", "named_children"),
        *("modules", "named_modules", "zero_grad", "train", "eval", "requires_grad_", "state_dict", "apply"),
        *("load_state_dict", "to", "double", "float", "half", "get_parameter", "get_submodule", "training"),
        *("_parameters", "_buffers", "_modules"),
    }
)
OPTIMIZER = frozenset(
    {"step", "zero_grad", "state_dict", "load_state_dict", "add_param_group", "param_groups", "state"}
)
SCHEDULER = frozenset({"step", "get_last_lr", "last_epoch"})
LOADER = frozenset({"batch_size", "dataset", "tensors"})
NAMED: tuple[tuple[Any, frozenset[str]], ...] = (
    (torch.nn.Module, MODULE),
    (torch.optim.Optimizer, OPTIMIZER),
    (LRScheduler, SCHEDULER),
    (DATA, LOADER),
)
REFUSED = "what a test keeps to itself ({name} of its {kind})"


def may_lend(value: Any) -> bool:
    """May the student's process have a stand-in for this thing of the judge's?"""
    kind = value if isinstance(value, type) else type(value)
    bases = (torch.nn.Module, torch.optim.Optimizer, LRScheduler, *DATA, *ITERATORS)
    return issubclass(kind, bases) or kind.__module__ == TESTS


def offered_specials(names: Iterable[str]) -> list[str]:
    """Those special methods that a stand-in of the judge's has."""
    return sorted(OFFERED & set(names))


def check(op: str, thing: Any, name: str, given: tuple[Any, ...]) -> None:
    """Raises UnsupportedError for anything that the student's process may not ask of the judge's thing."""
    asked = {"special": _may_special, "method": _may_have, "attribute": _may_have, "assign": _may_assign}.get(op)
    if isinstance(thing, type) or not may_lend(thing) or asked is None or not asked(thing, name, given):
        raise UnsupportedError(REFUSED.format(name=name[:80], kind=type(thing).__name__[:80]))


def _may_special(thing: Any, name: str, _given: tuple[Any, ...]) -> bool:
    if name in COPIED:
        return isinstance(thing, torch.nn.Module)
    return name in OFFERED | SHOWN


def _may_have(thing: Any, name: str, _given: tuple[Any, ...]) -> bool:
    if any(isinstance(thing, kind) and name in names for kind, names in NAMED):
        return True
    if name.startswith("_"):
        return False
    own = vars(thing).get(name, NotImplemented) if hasattr(thing, "__dict__") else NotImplemented
    if own is not NotImplemented:
        return isinstance(own, PLAIN)
    if isinstance(thing, torch.nn.Module) and any(name in table for table in _tables(thing)):
        return True
    return any(_is_of_the_test(vars(kind).get(name)) for kind in type(thing).__mro__)


def _tables(module: torch.nn.Module) -> tuple[Mapping[str, Any], ...]:
    return module._parameters, module._buffers, module._modules


def _is_of_the_test(part: Any) -> bool:
    """A method or a plain class attribute that the test cell wrote."""
    if isinstance(part, property):
        part = part.fget
    return isinstance(part, types.FunctionType) and part.__module__ == TESTS


def _may_assign(thing: Any, name: str, given: tuple[Any, ...]) -> bool:
    hides = hasattr(type(thing), name) and name != "training"
    settable = isinstance(thing, torch.nn.Module) or type(thing).__module__ == TESTS
    return settable and not name.startswith("_") and not hides and isinstance(given[0], PLAIN)


def answer(op: str, thing: Any, name: str, given: tuple[Any, ...]) -> Any:
    """Do what is asked: get, set, remove, call a method by name, or use a special one."""
    if op == "attribute":
        return getattr(thing, name)
    if op == "assign":
        return setattr(thing, name, given[0])
    if op == "remove":
        return delattr(thing, name)
    args, kwargs = given[0], dict(given[1])
    if op == "method":
        return getattr(thing, name)(*args, **kwargs)
    return _special(thing, name, args, kwargs)


def _special(thing: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if name in _COPYING:
        return _COPYING[name](thing)
    if name == "__await__":
        return _awaited(thing)
    if name == "__call__" and isinstance(thing, type):
        return thing(*args, **kwargs)
    if name not in CARRIED and name not in SHOWN and name != "__dir__":
        raise UnsupportedError(f"an object whose {name[:80]} is used")
    return getattr(type(thing), name)(thing, *args, **kwargs)


def _awaited(thing: Any) -> Any:
    try:
        return asyncio.get_event_loop().run_until_complete(thing)
    except RuntimeError as error:
        if "no current event loop" not in str(error):
            raise
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(thing)
    finally:
        loop.close()


_COPYING: Mapping[str, Callable[[Any], Any]] = {"__copy__": copy.copy, "__deepcopy__": copy.deepcopy}
