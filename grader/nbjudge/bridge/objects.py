"""Objects, classes and functions that live in the other process, as Python's own syntax sees them.

Python looks special methods up on the class, so each class over there has one here, with exactly those methods that
it has; everything else about an instance or a class is asked for by name.
"""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import copy
import dis
import inspect
import itertools
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from nbjudge.bridge.around.parts import BASES
from nbjudge.bridge.fields import FIELDS, PARAMETERS, is_plain_class, made_fields, plain_default
from nbjudge.bridge.standing import Role, Stand
from nbjudge.bridge.values import UnsupportedError, is_value
from nbjudge.bridge.values.containers import STUDENT
from nbjudge.errors import WireError
from nbjudge.wire import listed, text

DOC_CHARS = 2000
COMPARING = frozenset({"__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__contains__"})
_OPERATORS = ("add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "divmod", "pow", "lshift", "rshift")
ARITHMETIC = frozenset(
    f"__{how}{name}__"
    for how in ("", "r", "i")
    for name in (*_OPERATORS, "and", "xor", "or")
    if how + name != "idivmod"
)
OTHERS = frozenset(
    {
        *("__neg__", "__pos__", "__abs__", "__invert__", "__bool__", "__int__", "__float__", "__complex__"),
        *("__index__", "__round__", "__trunc__", "__floor__", "__ceil__", "__bytes__", "__fspath__"),
        *("__len__", "__length_hint__", "__getitem__", "__setitem__", "__delitem__", "__iter__", "__next__"),
        *("__reversed__", "__call__", "__enter__", "__exit__", "__await__", "__hash__"),
    }
)
UNCARRIED = frozenset(
    {
        *("__torch_function__", "__torch_dispatch__", "__array__", "__array_ufunc__", "__array_function__"),
        *("__dlpack__", "__aiter__", "__anext__", "__aenter__", "__aexit__"),
    }
)
CARRIED = COMPARING | ARITHMETIC | OTHERS
SPECIAL = CARRIED | UNCARRIED
COPIED = frozenset({"__copy__", "__deepcopy__"})
ALWAYS = frozenset({"__repr__", "__str__", "__format__", "__dir__"}) | COPIED
_MADE_OF_OTHERS = tuple(kind for kind in vars(itertools).values() if isinstance(kind, type))  # iterators, each of them
_FINAL: tuple[Any, ...] = (
    *_MADE_OF_OTHERS,
    *(types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType),
    *(types.FunctionType, types.BuiltinFunctionType, types.MethodType),
    *(map, filter, zip, enumerate, reversed, type(iter("")), type(iter(())), type(iter([])), type(iter({}))),
)
# Classes that nothing can derive from: `isinstance` is answered by __class__.
BUILTIN: Mapping[str, type] = {kind.__name__: kind for kind in _FINAL}
TESTS = "__main__"  # the module of what a test cell defines
SHOWN = frozenset({"__repr__", "__str__", "__format__"})
OF_AN_ITERATOR = frozenset({"__iter__", "__next__"})
REFUSED = "what a test keeps to itself ({name} of its {kind})"
PLAIN_BASES = (
    list,
    dict,
    tuple,
    set,
    frozenset,
    int,
    float,
    str,
    complex,
    bytes,
)  # `isinstance` is answered by __class__ for these too
_HERE = frozenset(
    {
        *("__class__", "__new__", "__reduce__", "__reduce_ex__", "__getstate__", "__setattr__"),
        *("__getattribute__", "__delattr__", "__init_subclass__", "__subclasshook__", "__sizeof__", "__weakref__"),
        "__slots__",
        FIELDS,
    }
)
_CLASS_HERE = frozenset(
    {*dir(type), *_HERE, "__dict__", "__module__", "__qualname__", "_asker_", "_shown_"} | SPECIAL | ALWAYS
) - {"__init__", "__doc__"}


class Asker(Protocol):
    """Where questions about things of the other side go."""

    def of(self, op: str, thing: Any, name: str, *values: Any, by: Stand | None = None) -> Any:
        """Ask `op` ("attribute", "assign", "remove", "special") of a stand-in, which may stand here as `by` says."""

    def used(self, thing: Any) -> Role:
        """Python uses a stand-in in a way that needs no answer from over there; raises `Refused` for a stranger."""

    def data_of(self, number: int, *, state: bool = False) -> Any:
        """The nearest data to a thing of the other side's; or, by its state, an object like it."""


class RemoteClass(type):
    """The class of a stand-in; itself the stand-in for a class over there."""

    _asker_: Asker

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """Construct one over there."""
        return cls._asker_.of("special", cls, "__call__", args, kwargs)

    def __getattribute__(cls, name: str) -> Any:
        if name in _CLASS_HERE:
            return type.__getattribute__(cls, name)
        return type.__getattribute__(cls, "_asker_").of("attribute", cls, name)

    def __setattr__(cls, name: str, value: Any) -> None:
        cls._asker_.of("assign", cls, name, value)

    def __delattr__(cls, name: str) -> None:
        cls._asker_.of("remove", cls, name)

    def __iter__(cls) -> Iterator[Any]:
        return iter(cls._asker_.of("special", cls, "__iter__", (), {}))

    def __len__(cls) -> int:
        return int(cls._asker_.of("special", cls, "__len__", (), {}))

    def __getitem__(cls, item: Any) -> Any:
        return cls._asker_.of("special", cls, "__getitem__", (item,), {})

    def __bool__(cls) -> bool:
        return True

    def __dir__(cls) -> list[str]:
        return [str(name) for name in cls._asker_.of("special", cls, "__dir__", (), {})]


class RemoteObject:
    """The stand-in for an object over there."""

    __slots__ = ("__weakref__",)

    def __getattribute__(self, name: str) -> Any:
        if name == "__class__":
            here = type(self)
            return type.__getattribute__(here, "_shown_") or here
        if name in _HERE or name in UNCARRIED or name in COPIED:
            return object.__getattribute__(self, name)
        return asker_of(self).of("attribute", self, name)

    def __eq__(self, other: object) -> Any:
        asker_of(self).used(self)
        return NotImplemented

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        sized = any("__len__" in vars(base) for base in type(self).__mro__)
        return (
            asker_of(self).used(self) is not Role.OBJECT
            or not sized
            or asker_of(self).of("special", self, "__bool__", (), {})
        )

    def __setattr__(self, name: str, value: Any) -> None:
        asker_of(self).of("assign", self, name, value)

    def __delattr__(self, name: str) -> None:
        asker_of(self).of("remove", self, name)

    def __reduce_ex__(self, _protocol: Any) -> Any:
        raise UnsupportedError(f"an object of class {type(self).__name__} that is to be pickled")


def asker_of(stand_in: Any) -> Asker:
    """Where questions about this stand-in go."""
    asker: Asker = type.__getattribute__(type(stand_in), "_asker_")
    return asker


def _special(name: str) -> Callable[..., Any]:
    def special(self: Any, *args: Any, **kwargs: Any) -> Any:
        return asker_of(self).of("special", self, name, args, kwargs)

    special.__name__ = name
    return special


def _uncarried(name: str) -> Callable[..., Any]:
    def special(self: Any, *_args: Any, **_kwargs: Any) -> Any:
        asker_of(self).used(self)
        raise UnsupportedError(f"an object of class {type(self).__name__} whose {name} is used")

    return special


def _exit(name: str) -> Callable[..., Any]:
    """A traceback belongs to this process alone, and so does a class that was made here for an error of theirs."""
    return lambda self, kind, error, _trace: asker_of(self).of(
        "special", self, name, (_known_to_both(kind), error, None), {}
    )


def _known_to_both(kind: Any) -> Any:
    """An error's class, or Python's own that it is derived from."""
    made_here = isinstance(kind, type) and kind.__module__ == STUDENT and not isinstance(kind, RemoteClass)
    return next(base for base in kind.__mro__ if base.__module__ == "builtins") if made_here else kind


def _copying(name: str) -> Callable[..., Any]:
    """What is copied already is known over there only: the memo of a deep copy stays here."""
    return lambda self, _memo=None: asker_of(self).of("special", self, name, (), {})


def _await(self: Any) -> Any:
    yield from ()
    return asker_of(self).of("special", self, "__await__", (), {})


def _unhashable(self: Any) -> int:
    raise TypeError(f"unhashable type: {type(self).__name__!r}")


_METHODS: Mapping[str, Callable[..., Any]] = {
    **{name: _special(name) for name in CARRIED | ALWAYS},
    **{name: _uncarried(name) for name in UNCARRIED},
    "__exit__": _exit("__exit__"),
    "__await__": _await,
    **{name: _copying(name) for name in COPIED},
}
for _name in ALWAYS:
    setattr(RemoteObject, _name, _METHODS[_name])


def special_names(kind: type) -> list[str]:
    """The special methods of a class that matter to Python's syntax and that aren't `object`'s own."""
    found: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        if base is not object:
            found |= {name: part for name, part in vars(base).items() if name in SPECIAL}
    return sorted(name for name, part in found.items() if part is not None)


def is_hashable(kind: type) -> bool:
    """Can its objects be keys?"""
    return kind.__hash__ is not None


def make_class(
    asker: Asker,
    name: str,
    bases: Sequence[Any],
    special: Sequence[str],
    hashable: bool = True,
    *,
    shown: type | None = None,
    fields: Sequence[Any] | None = None,
) -> type:
    """A class here that stands for one over there; of other classes here only well-known ones can be its bases.

    `shown` is what its objects are instances of for `isinstance`; `fields` are what a data class says of its own.
    """
    named = name if name.isidentifier() else "Unnamed"
    members: dict[str, Any] = {
        "__module__": STUDENT,
        "_asker_": asker,
        "_shown_": shown,
    }
    if (plain := next(filter(None, map(_plain_base, bases)), None)) is not None:
        members["_shown_"] = type(named, (plain,), {"__module__": STUDENT})
    real = [base for base in bases if isinstance(base, type) and _may_be_base(base)]
    if any(issubclass(base, BaseException) for base in real):
        return _exception_class(named, [base for base in real if issubclass(base, BaseException)], members)
    members |= {kind: _METHODS[kind] for kind in special if kind in _METHODS}
    members |= {} if fields is None else {FIELDS: made_fields(fields)}
    if not hashable:
        members["__hash__"] = _unhashable
    elif "__hash__" not in members:
        members["__hash__"] = object.__hash__
    if not any(isinstance(base, RemoteClass) for base in real):
        real.insert(0, RemoteObject)
    try:
        return RemoteClass(named, tuple(real), members)
    except TypeError:  # bases that can't go together here
        return RemoteClass(named, (RemoteObject,), members)


def _plain_base(base: Any) -> type | None:
    """The plain class that it is, or is derived from over there, as one of a `namedtuple`."""
    shown = type.__getattribute__(base, "_shown_") if isinstance(base, RemoteClass) else base
    found = shown.__mro__ if isinstance(shown, type) and (shown is not base or base in PLAIN_BASES) else ()
    return next((kind for kind in found if kind in PLAIN_BASES), None)


def _may_be_base(base: type) -> bool:
    return isinstance(base, RemoteClass) or issubclass(base, tuple(BASES))


def _exception_class(name: str, bases: Sequence[type], members: dict[str, Any]) -> type:
    members["__str__"] = lambda self: str(self.__dict__.get("_said_", ""))
    try:
        return RemoteClass(name, tuple(bases), members)
    except TypeError:
        return RemoteClass(name, (Exception,), members)


def make_object(kind: type) -> Any:
    """A new stand-in of this class."""
    return kind.__new__(kind) if issubclass(kind, RemoteObject) else None


# ---------------------------------------------------------------------- what is asked of a thing of ours


def may_lend(value: Any) -> bool:
    """May the student's process have a stand-in for this thing of the judge's? Only for an iterator of Python's own."""
    kind = value if isinstance(value, type) else type(value)
    return any(base.__module__ in ("builtins", "itertools") and hasattr(base, "__next__") for base in kind.__mro__)


def may_call(value: Any) -> bool:
    """May the student's process call it? Anything but a model, or what a test made to be an object."""
    kind = type(value)
    if not callable(value) or issubclass(kind, tuple(BASES)) or kind.__module__ == TESTS:
        return False
    parts = getattr(value, "_mock_children", {}) if kind.__module__ == "unittest.mock" else {}
    return all(name.startswith("__") for name in parts)


def check(op: str, thing: Any, name: str) -> None:
    """Raises UnsupportedError for anything that the student's process may not ask of the judge's thing."""
    if op != "special" or isinstance(thing, type) or not may_lend(thing) or name not in OF_AN_ITERATOR | SHOWN:
        raise UnsupportedError(REFUSED.format(name=name[:80], kind=type(thing).__name__[:80]))


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
    return _answer_special(thing, name, args, kwargs)


def _answer_special(thing: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if name in _BY_PYTHON:
        return _BY_PYTHON[name](thing)
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


_BY_PYTHON: Mapping[str, Callable[[Any], Any]] = {  # what a class needn't have itself
    "__copy__": copy.copy,
    "__deepcopy__": copy.deepcopy,
    "__bool__": bool,
}


# ---------------------------------------------------------------------- functions, which cross by number


def bound_to(value: Any) -> Any:
    """The object that a bound method belongs to, where it is reached there by its name again."""
    if not isinstance(value, types.MethodType | types.BuiltinMethodType | types.MethodWrapperType):
        return None
    of = value.__self__
    if of is None or isinstance(of, types.ModuleType | tuple | frozenset | BaseException) or is_value(of):
        return None
    return None if getattr(of, value.__name__, None) != value else of


def is_function(value: Any) -> bool:
    """Something that is called and otherwise has nothing of its own, nor will have."""
    if isinstance(value, types.FunctionType):
        return set(value.__dict__) <= {"__wrapped__"} and not _gets_attributes(value)
    return isinstance(value, types.BuiltinFunctionType | types.MethodType | types.MethodWrapperType)


def _gets_attributes(function: Any) -> bool:
    """Will a call store something in it, as in one that counts its calls? Looked for in what it is made of, too.

    >>> def count():
    ...     count.calls = getattr(count, "calls", 0) + 1
    >>> _gets_attributes(count), _gets_attributes(name_of)
    (True, False)
    """
    made_of = [function, *(part for part in _enclosed(function) if type(part) is types.FunctionType)]
    return any(_names(part, function) and _stores_attributes(part.__code__) for part in made_of)


def _enclosed(function: Any) -> list[Any]:
    """What the functions around it have given it so far."""
    found = []
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):  # one that is empty yet
            found.append(cell.cell_contents)
    return found


def _names(part: Any, function: Any) -> bool:
    """Has its code a name for this function?"""
    found = (part.__globals__.get(name) for name in part.__code__.co_names)
    return any(one is function for one in (*found, *_enclosed(part)))


def _stores_attributes(code: types.CodeType) -> bool:
    return "setattr" in code.co_names or any(one.opname == "STORE_ATTR" for one in dis.get_instructions(code))


def name_of(function: Any) -> str:
    """Its name, bounded."""
    return str(getattr(function, "__name__", "function"))[:200]


def signature(function: Any) -> dict[str, Any]:
    """How a function wants to be called, as `inspect.signature` tells it, and its docstring."""
    said: dict[str, Any] = {}
    if isinstance(doc := getattr(function, "__doc__", None), str):
        said["doc"] = doc[:DOC_CHARS]
    try:
        found = list(inspect.signature(function).parameters.values())[:PARAMETERS]
    except (ValueError, TypeError):
        return said
    plain = (type(None), bool, int, float, str)
    said["parameters"] = [
        [part.name[:200], int(part.kind), plain_default(part.default) if isinstance(part.default, plain) else None]
        for part in found
    ]
    told = getattr(function, "__annotations__", None)
    if isinstance(told, dict) and len(told) <= PARAMETERS and all(map(is_plain_class, told.values())):
        said["annotations"] = {str(name)[:200]: kind and kind.__name__ for name, kind in told.items()}
    said["optional"] = [part.name[:200] for part in found if part.default is not part.empty]
    return said


def describe(function: Any, tree: Mapping[str, Any]) -> None:
    """Give a function here the name, docstring and signature of the one over there."""
    name = text(tree, "name")
    function.__name__ = function.__qualname__ = name if name.isidentifier() else "function"
    if "doc" in tree:
        function.__doc__ = text(tree, "doc", DOC_CHARS)
    if "parameters" in tree:
        optional = listed(tree, "optional", PARAMETERS)
        try:
            parts = [_parameter(part, optional) for part in listed(tree, "parameters", PARAMETERS)]
            told = _annotations(tree.get("annotations"))
            parts = [part.replace(annotation=told.get(part.name, part.empty)) for part in parts]
            function.__signature__ = inspect.Signature(
                parts, return_annotation=told.get("return", inspect.Signature.empty)
            )
            function.__annotations__ = told
            function.__defaults__ = _defaults(parts)
        except (ValueError, TypeError):
            raise WireError("A function has an impossible signature.") from None


def _annotations(tree: Any) -> dict[str, Any]:
    """Classes of Python's own, by parameter."""
    named = tree if isinstance(tree, dict) else {}
    found = {name: kind and vars(builtins).get(kind) for name, kind in named.items()}
    return {name: kind for name, kind in found.items() if is_plain_class(kind)}


def _defaults(parts: Sequence[inspect.Parameter]) -> tuple[Any, ...] | None:
    """As a function shows them that is called by position."""
    found = [part.default for part in parts if part.kind in (part.POSITIONAL_ONLY, part.POSITIONAL_OR_KEYWORD)]
    return tuple(one for one in found if one is not inspect.Parameter.empty) or None


def _parameter(part: Any, optional: list[Any]) -> inspect.Parameter:
    name, kind, default = part
    given = default if name in optional else inspect.Parameter.empty
    return inspect.Parameter(name, inspect._ParameterKind(kind), default=given)
