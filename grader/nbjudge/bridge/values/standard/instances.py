"""Objects of classes that both sides import from the same file: the course's, beside the notebook, or a package's.

Their state crosses as data. An object is made by `object.__new__` of this side's own class, and its state is put where
Python keeps it, in `__dict__` and slots: no code of the class's runs, nor of an answer's, which may have changed the
class over there. What a `cached_property` has computed is none of it, and is computed anew. All that hold one another
cross together, so a list may have many links, and a ring none that is the last.
"""

from __future__ import annotations

import abc
import functools
import importlib
import random
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from nbjudge.bridge.values.shared import TRACKED, InPlace, share
from nbjudge.bridge.values.table import Decoder, Encoder, Tree, UnsupportedError, ValueKind, known
from nbjudge.errors import WireError
from nbjudge.wire import listed, text

NAME = "instance"
FIELDS = 1 << 12
CLASSES = 1 << 10
T = TypeVar("T")
_own: dict[type, bool] = {}
_nearest: dict[type, type | None] = {}
CONTAINERS = (list, tuple, dict, set, frozenset)
_META = (type, abc.ABCMeta)
_IN_THEIR_WAY = frozenset({"numpy", "pandas", "torch", "sympy", "PIL", "matplotlib", "nbjudge", "seegrad"})
_OTHERS = frozenset({"abc", "typing", "collections.abc"})  # modules of bases that bring no state


def _lies_beside(module: str) -> Path | None:
    """The file beside the notebook that a module of this name is made from."""
    if not all(part.isidentifier() for part in module.split(".")):
        return None
    path = Path.cwd().joinpath(*module.split("."))
    return next((file for file in (path.with_name(f"{path.name}.py"), path / "__init__.py") if file.is_file()), None)


def _is_given(module: str) -> bool:
    """Does it lie beside the notebook, or in a package of Python files alone?"""
    found = vars(sys.modules[module]).get("__file__") if module in sys.modules else None
    return type(found) is str and (Path(found).absolute() == _lies_beside(module) or _is_plain(module.split(".")[0]))


@functools.lru_cache(maxsize=1024)
def _is_plain(package: str) -> bool:
    """Is it installed, and no library whose objects cross in a way of their own, or keep a state outside of Python?"""
    found = vars(sys.modules[package]).get("__file__") if package in sys.modules else None
    if package in _IN_THEIR_WAY or type(found) is not str:
        return False
    path = Path(found)
    whole = path.parent if path.stem == "__init__" else path
    return whole.parent.name.endswith("-packages") and next(whole.rglob("*.so"), None) is None


def is_own(kind: type) -> bool:
    """Is it a class of such a module, with no base that keeps a state in a way of its own?"""
    return _remembered(_own, kind, _is_own)


def _remembered(known: dict[type, T], kind: type, find: Callable[[type], T]) -> T:
    """What was found of a class before: a value of any kind is asked whether it is of one."""
    if kind not in known:
        if len(known) >= CLASSES:
            known.clear()
        known[kind] = find(kind)
    return known[kind]


def _is_own(kind: type) -> bool:
    bases = [base for base in kind.__mro__ if base is not object and base.__module__ not in _OTHERS]
    return type(kind) in _META and bool(bases) and all(map(_is_found, bases))


def _is_found(kind: type) -> bool:
    module = kind.__module__
    if type(module) is not str or not _is_given(module):
        return False
    found: Any = sys.modules[module]
    for part in kind.__qualname__.split("."):
        found = vars(found).get(part) if hasattr(found, "__dict__") else None
    return found is kind


def nearest(kind: type) -> type | None:
    """Such a class that it is, or is derived from: an answer's own subclass crosses without its methods."""
    return _remembered(_nearest, kind, _found_nearest)


def _found_nearest(kind: type) -> type | None:
    return next((base for base in kind.__mro__ if is_own(base)), None)


def home(kind: type) -> str:
    """What such a class is called between the two sides."""
    return f"{kind.__module__}.{kind.__qualname__}"


def find(name: str) -> type | None:
    """This side's own class of that name; None where there is none. Only what lies beside the notebook is imported."""
    module = name.rpartition(".")[0]
    while module and module not in sys.modules and _lies_beside(module) is None:
        module = module.rpartition(".")[0]
    if not module:
        return None
    found: Any = sys.modules.get(module) or _imported(module)
    for part in name[len(module) + 1 :].split("."):
        found = vars(found).get(part) if hasattr(found, "__dict__") else None
    return found if isinstance(found, type) and is_own(found) else None


def _imported(module: str) -> Any:
    """It may seed what a test draws by, and this is in the midst of a test."""
    numpys, before = sys.modules.get("numpy"), random.getstate()
    stood = None if numpys is None else numpys.random.get_state()
    try:
        return importlib.import_module(module)
    finally:
        random.setstate(before)
        if numpys is not None:
            numpys.random.set_state(stood)


def is_instance(value: Any) -> bool:
    """Is it an object of such a class, or of one that is derived from it?"""
    return nearest(type(value)) is not None


# ---------------------------------------------------------------------- the state of one object


def _slots(kind: type) -> dict[str, Any]:
    found = dict[str, Any]()
    for base in reversed(kind.__mro__):
        found |= {name: part for name, part in vars(base).items() if type(part) is types.MemberDescriptorType}
    return found


def _dict_of(value: Any) -> dict[str, Any]:
    """Where Python keeps its attributes, whatever its class calls `__dict__`; nothing where there are only slots."""
    parts = [vars(base).get("__dict__") for base in type(value).__mro__]
    found = next((part for part in parts if type(part) is types.GetSetDescriptorType), None)
    return {} if found is None else found.__get__(value)


def _computed(kind: type) -> set[str]:
    cached = (functools.cached_property,)
    return {name for base in kind.__mro__ for name, part in vars(base).items() if type(part) in cached}


def _may_be_named(name: Any) -> bool:
    """Is it an attribute of an object's own? Libraries ask for `__array_interface__` and the like."""
    return type(name) is str and not name.startswith("__") and len(name) <= 200


def state_of(value: Any) -> dict[str, Any]:
    """The attributes of an object by name, read without any code of its class's; those that a subclass adds slots for
    aren't any.
    """
    kind, found = nearest(type(value)) or type(value), dict[str, Any]()
    for name, slot in _slots(kind).items():
        try:
            found[name] = slot.__get__(value)
        except AttributeError:  # it has no value
            continue
    left = _computed(kind)
    if not _has_dict(kind):
        return found
    return found | {name: item for name, item in _dict_of(value).items() if _may_be_named(name) and name not in left}


def put(value: Any, state: dict[str, Any]) -> None:
    """Give an object this state, and no other attributes.

    Raises:
        WireError: its class has no place for one of these.
    """
    slots, own = _slots(type(value)), _dict_of(value)
    rest = {name: item for name, item in state.items() if name not in slots}
    if rest and not _has_dict(type(value)):
        raise WireError("An object has attributes that its class has no place for.")
    for name, slot in slots.items():
        if name in state:
            slot.__set__(value, state[name])
        elif name in state_of(value):
            slot.__delete__(value)
    left = _computed(type(value))
    own.clear()
    own.update({name: item for name, item in rest.items() if name not in left})


def _has_dict(kind: type) -> bool:
    return any(type(vars(base).get("__dict__")) is types.GetSetDescriptorType for base in kind.__mro__)


def empty(kind: type) -> Any:
    """An object without a state, of which no code has run."""
    return object.__new__(kind)


def graph(value: Any, asked: tuple[type, ...] = ()) -> list[Any]:
    """An object and all of such classes that it holds, also in lists and the like; none of an `asked` class.

    Raises:
        UnsupportedError: it holds more than anybody looks through.
    """
    seen, found, left = set[int](), list[Any](), [value]
    while left:
        item = left.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if len(found) > TRACKED:
            raise UnsupportedError(f"more than {TRACKED} objects within one another")
        if is_instance(item) and not (asked and issubclass(type(item), asked)):
            found.append(item)
            left += reversed(state_of(item).values())
        elif type(item) in CONTAINERS:
            left += [*item, *(item.values() if type(item) is dict else ())]
    return found


def parts(value: Any) -> Iterator[tuple[str, Any]]:
    """All attributes of an object and of those that it holds, by name, but for these themselves."""
    for each in graph(value):
        yield from ((name, part) for name, part in state_of(each).items() if not is_instance(part))


# ---------------------------------------------------------------------- as trees


def _contents(value: Any, encode: Encoder) -> list[Any]:
    return [[name, encode(item)] for name, item in state_of(value).items()]


def _pairs(tree: Tree) -> list[Any]:
    found = listed(tree, "v", FIELDS)
    if any(type(pair) is not list or len(pair) != 2 or not _may_be_named(pair[0]) for pair in found):
        raise WireError("An object has impossible attributes.")
    return found


def _fill(value: Any, tree: Tree, decode: Decoder) -> Any:
    """What a student does to one that a module has from the start is nothing to the judge's own module."""
    new = {sys.intern(name): decode(item) for name, item in _pairs(tree)}
    if decode.crossing.objects_first or not _name_of(value):
        put(value, new)
    return value


def _snapshot(value: Any) -> tuple[Any, ...]:
    state = state_of(value)
    return (*map(sys.intern, state), *state.values())


def _tell(value: Any, encode: Encoder) -> Any:
    """By number where both sides hold it. A student's is an object first; a test's own subclass is never lent."""
    crossing = encode.crossing
    if crossing.shared.number_of(value) is not None:
        return crossing.shared.tree(value, encode)
    if crossing.objects_first and (name := _name_of(value)):
        return _named(value, name)
    if crossing.objects_first or not is_own(type(value)):
        return encode.other(value, encode)
    return whole(value, encode)


def _named(value: Any, name: str) -> dict[str, Any]:
    kind = nearest(type(value))
    return {"t": "one", "of": "" if kind is None else home(kind), "is": name}


def whole(value: Any, encode: Encoder) -> dict[str, Any]:
    """An object with all that it holds, as one tree: each has a number before any of them is said."""
    shared = encode.crossing.shared
    if shared.number_of(value) is not None:
        return shared.tree(value, encode)
    is_told = encode.crossing.objects_first
    if is_told and (name := _name_of(value)):
        return _named(value, name)
    new = [each for each in graph(value, encode.crossing.asked) if shared.number_of(each) is None]
    new = [each for each in new if not is_told or not _name_of(each)]
    if not new or new[0] is not value:
        raise UnsupportedError(f"an object of class {type(value).__name__[:80]}")
    trees = shared.trees(new, encode)
    kinds = [home(kind) for each in new if (kind := nearest(type(each))) is not None]
    return {"t": "instances", "v": trees, "of": kinds, "is": [_name_of(each) for each in new]}


def _made(tree: Tree, decode: Decoder) -> Any:
    told, kinds = listed(tree, "v"), listed(tree, "of")
    if not told or len(told) != len(kinds):
        raise WireError("Objects came without classes.")
    found = {name: decode({"t": "home", "v": name}) for name in dict.fromkeys(map(str, kinds))}
    names = listed(tree, "is")
    if len(names) != len(told) or (any(names) and not decode.crossing.objects_first):
        raise WireError("Objects came without names, or with such as only the judge may say.")
    values = [_one_of(found[kind], name) for kind, name in zip(kinds, names, strict=True)]
    values = [empty(found[kind]) if one is None else one for kind, one in zip(kinds, values, strict=True)]
    for value, each in zip(values, told, strict=True):
        put(value, state_of(value) | _plain_state(each))
    return decode.crossing.shared.make_all(told, values, decode)


def _name_of(value: Any) -> str:
    """By which its class's module, or a class of its, has it from the start: the one `NIL` of a tree's.

    Such a one is told apart by being itself, so each side has its own.
    """
    kind = nearest(type(value))
    if kind is None:
        return ""
    holders = [(base.__qualname__, {**vars(base)}) for base in kind.__mro__ if base.__module__ == kind.__module__]
    holders.append(("", vars(sys.modules[kind.__module__])))
    found = ((where, name) for where, names in holders for name, item in names.items() if item is value)
    return next((".".join(filter(None, pair)) for pair in found), "")


def _one_of(kind: type, name: Any) -> Any:
    """The one that this side has by that name; None where it has none."""
    found: Any = sys.modules[kind.__module__]
    for part in name.split(".") if type(name) is str else ():
        found = vars(found).get(part) if hasattr(found, "__dict__") else None
    return found if type(found) is kind else None


def _one(tree: Tree, decode: Decoder) -> Any:
    kind, name = decode({"t": "home", "v": text(tree, "of")}), text(tree, "is")
    if (found := _one_of(kind, name)) is None:
        raise WireError("A frame names an object that no module of the course's has.")
    return found


def _plain_state(tree: Any) -> dict[str, Any]:
    """What is known of an object before the others are: its class may compute the hash of it, by which sets hold it."""
    pairs = _pairs(tree) if type(tree) is dict else []
    return {name: item for name, item in pairs if item is None or type(item) in (bool, int, float, str)}


share(NAME, (), InPlace(_contents, _fill, _snapshot), is_instance, _tell)
known(ValueKind("instances", (), lambda _value, _encode: None, _made))
known(ValueKind("one", (), lambda _value, _encode: None, _one))
