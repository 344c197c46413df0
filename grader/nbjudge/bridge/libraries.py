"""Names of well-known libraries that may cross as names: each process then uses its own, untouched copy."""

from __future__ import annotations

import importlib
import re
import sys
import types
from typing import Any

from nbjudge.bridge.values.table import is_data
from nbjudge.errors import WireError

MODULES = (
    *("torch", "torch.nn", "torch.nn.functional", "torch.autograd", "torch.autograd.functional", "torch.linalg"),
    *("torch.special", "torch.optim", "torch.testing", "torch.utils.checkpoint"),
    *("math", "cmath", "numpy", "random", "copy", "functools", "itertools", "operator", "collections"),
    *("time", "warnings", "inspect", "statistics", "builtins"),
)
WITH_MEMBERS = (
    *("torch", "torch.nn", "torch.nn.functional", "torch.autograd", "torch.autograd.functional", "torch.linalg"),
    *("torch.special", "torch.optim", "torch.utils.checkpoint", "math", "builtins"),
)


EXCLUDED = re.compile(r"_|set_|use_|load|save|compile|seed|manual_seed|import|init|fork|hub|.*_$")
BUILTINS = frozenset(
    {
        *("abs", "all", "any", "len", "max", "min", "pow", "round", "sorted", "sum", "range"),
        *("bool", "complex", "dict", "float", "frozenset", "int", "list", "set", "str", "tuple"),
    }
)


def name_in_library(value: Any) -> str | None:
    """The dotted name by which a library's module, function or class is known, or None.

    >>> import math
    >>> name_in_library(math.sin), name_in_library(math), name_in_library(len), name_in_library(lambda: 0)
    ('math.sin', 'math', 'builtins.len', None)
    """
    if isinstance(value, types.ModuleType):
        name = getattr(value, "__name__", "")
        return name if name in MODULES and sys.modules.get(name) is value else None
    if not isinstance(value, type | types.FunctionType | types.BuiltinFunctionType):
        return None
    name = str(getattr(value, "__name__", ""))
    for module in WITH_MEMBERS:
        if module in sys.modules and vars(sys.modules[module]).get(name) is value and _may_cross(module, name, value):
            return f"{module}.{name}"
    return None


def _may_cross(module: str, name: str, value: Any) -> bool:
    """A public function or class that computes: none that changes settings, its arguments (`torch.zero_`: nobody would
    see that an answer did), reads files, or runs code.
    """
    if not isinstance(value, type | types.FunctionType | types.BuiltinFunctionType) or EXCLUDED.match(name):
        return False
    is_error = isinstance(value, type) and issubclass(value, Exception)
    return module != "builtins" or name in BUILTINS or is_error


def find_by_name(name: str) -> Any:
    """What this process knows under a name of `MODULES`, or a public member of one of `WITH_MEMBERS`.

    Raises:
        WireError: the name isn't one of these.
    """
    if name in MODULES:
        return importlib.import_module(name)
    module, _, member = name.rpartition(".")
    found = vars(importlib.import_module(module)).get(member) if module in WITH_MEMBERS else None
    if not _may_cross(module, member, found):
        raise WireError("A frame names something that isn't part of a known library.")
    return found


def home_of(kind: type) -> str | None:
    """Where a library defines a class; None for one that is the notebook's, or holds only what a notebook puts there.

    >>> import functools
    >>> home_of(functools.partial), home_of(type("Own", (), {})), home_of(types.SimpleNamespace)
    ('functools.partial', None, None)
    """
    module, name = str(kind.__module__), str(kind.__qualname__)
    if module == "builtins":
        return f"builtins.{name}"[:200]
    found: Any = sys.modules.get(module) if module != "__main__" else None
    for part in name.split("."):
        found = getattr(found, part, None)
    return f"{module}.{name}"[:200] if found is kind and kind is not types.SimpleNamespace else None


BY_VALUE = frozenset({"builtins", "numpy", "pandas", "torch", "collections", "pathlib"})
"""Libraries whose classes' objects are data, or have stand-ins of their own."""


def known_class(home: Any) -> type | None:
    """The class that a library defines under this name, where this process has loaded it already; nothing is imported.

    None for what crosses by value: nothing over there can stand for it.

    >>> known_class("builtins.float"), known_class("decimal.Decimal")
    (None, None)
    >>> known_class("functools.partial"), known_class("functools.nothing"), known_class("not.loaded")
    (<class 'functools.partial'>, None, None)
    """
    module, _, name = home.rpartition(".") if type(home) is str else ("", "", "")
    loaded = sys.modules.get(module) if module.partition(".")[0] not in BY_VALUE else None
    found = vars(loaded).get(name) if loaded is not None else None
    return found if isinstance(found, type) and home_of(found) == home and not is_data(found) else None


def known_error(home: str) -> type | None:
    """The class of errors that a library defines under this name, where this process has loaded it already.

    >>> import json
    >>> known_error("json.decoder.JSONDecodeError"), known_error("json.decoder.JSONDecoder"), known_error("os.system")
    (<class 'json.decoder.JSONDecodeError'>, None, None)
    """
    module, _, name = home.rpartition(".")
    found = vars(sys.modules[module]).get(name) if module in sys.modules else None
    if not isinstance(found, type) or not issubclass(found, Exception) or issubclass(found, BaseExceptionGroup):
        return None
    return found if home_of(found) == home else None
