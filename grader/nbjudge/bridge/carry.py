"""Values of every kind ↔ trees: tensors and arrays by their bytes, containers shared, things of ours by number."""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from nbjudge.bridge import arrays, callables, containers, raised, values
from nbjudge.bridge import objects as remote
from nbjudge.bridge.arrays import Bare
from nbjudge.bridge.callables import PARAMETERS
from nbjudge.bridge.containers import Containers, is_container, raw_array
from nbjudge.bridge.handles import Borrowed, Lent
from nbjudge.bridge.libraries import find_by_name, name_in_library
from nbjudge.bridge.objects import RemoteClass
from nbjudge.bridge.raised import Attempted
from nbjudge.bridge.torch.message import Message
from nbjudge.bridge.torch.mirror import DTYPES, NAMES, Mirror
from nbjudge.bridge.values import UnsupportedError
from nbjudge.errors import WireError
from nbjudge.wire import Frame, listed, text, whole

CLASSES = 1 << 12


class Carrier:
    """One side's way to say values and to hear them. `side` 0 is the judge: it lends little."""

    def __init__(self, side: int, mirror: Mirror, asker: remote.Asker) -> None:
        self.side = side
        self.mirror = mirror
        self.lent, self.borrowed = Lent(), Borrowed()
        self.containers = Containers(side)
        self._asker = asker
        self._classes: dict[int, type] = {}  # theirs, kept: objects come and go
        self._told_classes: set[int] = set()

    # ------------------------------------------------------------------ telling

    def encode(self, value: Any, message: Message) -> Any:
        """A value as a tree, its tensors in the message."""
        return values.encode(value, lambda item, inner: self._other(item, inner, message))

    def changes(self, message: Message) -> list[dict[str, Any]]:
        """The shared containers that have changed here, as trees."""
        return self.containers.changes(lambda item: self.encode(item, message))

    def _other(self, value: Any, inner: values.Encode, message: Message) -> Any:
        if isinstance(value, Tensor):
            return {"t": "tensor", "id": self.mirror.share(value, message)}
        if isinstance(value, Bare):
            return self.mirror.data(value.tensor, message)
        if isinstance(value, Attempted):
            return _attempted(value.value, inner)
        if (array := raw_array(value)) is not None:
            return {**self.mirror.data(arrays.to_tensor(array), message), "t": "array"}
        if arrays.is_numpy(value) and not arrays.is_array(value):
            return {**self.mirror.data(arrays.to_tensor(value), message), "t": "scalar"}
        if is_container(value) and (not arrays.is_array(value) or arrays.is_numpy(value)):
            return self.containers.tree(value, inner)
        return self._named(value) or self._ours(value, inner)

    def _named(self, value: Any) -> Any:
        """What both sides know already: by its name, or by the other side's number."""
        if isinstance(value, torch.dtype) and value in NAMES:
            return {"t": "dtype", "v": NAMES[value]}
        if isinstance(value, torch.device):
            return {"t": "device", "v": str(value)}
        if (number := self.borrowed.number_of(value)) is not None:
            return {"t": "yours", "id": number}
        if (name := name_in_library(value)) is not None:
            return {"t": "library", "v": name}
        return None

    def _ours(self, value: Any, inner: values.Encode) -> Any:
        if isinstance(value, torch.Size):
            return {"t": "size", "v": [int(item) for item in value]}
        if isinstance(value, tuple) and (fields := _fields(type(value))):
            return {"t": "named", "name": type(value).__name__, "fields": fields, "v": [inner(item) for item in value]}
        if isinstance(value, BaseException):
            return raised.described(value, inner, classes=self.side == 1)
        if isinstance(value, type):
            return self._class(value, inner)
        if self.side == 1 and (of := callables.bound_to(value)) is not None:
            return {"t": "method", "of": inner(of), "name": value.__name__}
        if callables.is_function(value) or (self.side == 0 and remote.may_call(value)):
            return self._function(value)
        if self.side == 0 and not remote.may_lend(value):
            raise UnsupportedError(f"an object of class {type(value).__name__[:80]} of the test's")
        return {"t": "object", "class": self._class(type(value), inner), "id": self.lent.number_of(value)}

    def _function(self, value: Any) -> dict[str, Any]:
        tree = {"t": "function", "id": self.lent.function(value), "name": callables.name_of(value)}
        if self.side == 1:
            tree |= callables.signature(value)
        return tree

    def _class(self, kind: type, inner: values.Encode) -> dict[str, Any]:
        """A class with its bases and special methods, the first time; later its number alone."""
        if (known := self._named(kind)) is not None and known["t"] == "yours":
            return dict(known)
        if self.side == 0 and not remote.may_lend(kind):
            raise UnsupportedError(f"the class {kind.__name__[:80]} of the test's")
        number = self.lent.number_of(kind)
        if issubclass(kind, torch.autograd.Function):
            return {"t": "Function", "id": number, "name": callables.name_of(kind)}
        tree: dict[str, Any] = {"t": "class", "id": number}
        if number not in self._told_classes:
            special = remote.special_names(kind)
            tree |= {
                "name": callables.name_of(kind),
                "bases": self._bases(kind, inner),
                "hashable": remote.is_hashable(kind),
            }
            tree["special"] = special if self.side == 1 else sorted(remote.OF_AN_ITERATOR & set(special))
            if remote.BUILTIN.get(kind.__name__) is kind:
                tree["builtin"] = True
            self._told_classes.add(number)
        return tree

    def _bases(self, kind: type, inner: values.Encode) -> list[Any]:
        found = [self._named(base) or self._class(base, inner) for base in kind.__bases__ if base is not object]
        own = {"t": "library", "v": name} if (name := name_in_library(kind)) is not None else None
        return [own] if own is not None else found

    def untell(self) -> None:
        """A frame wasn't sent after all: describe every class again."""
        self._told_classes.clear()

    # ------------------------------------------------------------------ hearing

    def decode(self, tree: Any, frame: Frame) -> Any:
        """The value of a tree that came with a frame."""
        return values.decode(tree, lambda item, inner: self._heard(item, inner, frame))

    def apply(self, told: list[Any], frame: Frame) -> None:
        """Take over what the other side has changed in shared containers."""
        self.containers.apply(told, lambda item: self.decode(item, frame))

    def _heard(self, tree: Mapping[str, Any], inner: values.Encode, frame: Frame) -> Any:
        kind = text(tree, "t")
        if kind == "tensor":
            return self.mirror.ledger.tensor(whole(tree, "id"))
        if kind in ("data", "scalar") or (kind == "array" and "id" not in tree):
            tensor = self.mirror.read_data(tree, frame.body)
            return tensor if kind == "data" else arrays.from_tensor(tensor, scalar=kind == "scalar")
        if kind in ("same", "array") or kind in containers.KINDS.values():
            return self.containers.make(tree, inner)
        form = _HEARD.get(kind)
        if form is None:
            raise WireError("A value isn't one of the kinds that are carried.")
        return form(self, tree, inner)

    def _hear_yours(self, tree: Mapping[str, Any], _inner: values.Encode) -> Any:
        return self.lent.find(whole(tree, "id"))

    def _hear_function(self, tree: Mapping[str, Any], _inner: values.Encode) -> Any:
        number = whole(tree, "id")
        if (found := self.borrowed.find(number)) is not None:
            return found

        def function(*args: Any, **kwargs: Any) -> Any:
            return self._asker.of("call", function, "", args, kwargs)

        callables.describe(function, tree)
        self.borrowed.keep(number, function)
        return function

    def _hear_method(self, tree: Mapping[str, Any], inner: values.Encode) -> Any:
        of, name = inner(tree.get("of")), text(tree, "name")
        if self.borrowed.number_of(of) is None:
            raise WireError("A method belongs to nothing of the other side's.")

        def method(*args: Any, **kwargs: Any) -> Any:
            return self._asker.of("method", of, name, args, kwargs)

        method.__name__ = method.__qualname__ = name if name.isidentifier() else "method"
        method.__dict__["__self__"] = of
        return method

    def _hear_class(self, tree: Mapping[str, Any], inner: values.Encode) -> Any:
        number = whole(tree, "id")
        if number in self._classes:
            self.borrowed.find(number)
            return self._classes[number]
        if len(self._classes) >= CLASSES:
            raise UnsupportedError(f"more than {CLASSES} classes")
        if tree["t"] == "Function":
            made: type = self._function_class(number, text(tree, "name"))
        else:
            bases = [inner(base) for base in listed(tree, "bases", 64)]
            special = [name for name in listed(tree, "special", 256) if name in remote.SPECIAL]
            hashable = tree.get("hashable") is not False
            builtin = tree.get("builtin") is True
            made = remote.make_class(self._asker, text(tree, "name"), bases, special, hashable, builtin=builtin)
        self._classes[number] = made
        self.borrowed.keep(number, made)
        return made

    def _function_class(self, _number: int, name: str) -> type:
        """A Function here whose `apply` is the one over there."""

        def apply(*args: Any, **kwargs: Any) -> Any:
            return self._asker.of("method", made, "apply", args, kwargs)

        members = {"apply": staticmethod(apply), "__module__": remote.STUDENT}
        return (made := type(name if name.isidentifier() else "Function", (torch.autograd.Function,), members))

    def _hear_object(self, tree: Mapping[str, Any], inner: values.Encode) -> Any:
        kind, number = inner(tree.get("class")), whole(tree, "id")
        if (found := self.borrowed.find(number)) is not None:
            return found
        if not isinstance(kind, RemoteClass) or (made := remote.make_object(kind)) is None:
            raise WireError("An object has no class of the other side's.")
        self.borrowed.keep(number, made)
        return made

    def _hear_named(self, tree: Mapping[str, Any], inner: values.Encode) -> Any:
        items = [inner(item) for item in listed(tree, "v", PARAMETERS)]
        fields = listed(tree, "fields", PARAMETERS)
        return _named_tuple(text(tree, "name"), tuple(map(str, fields)))(*items[: len(fields)])


def _attempted(value: Any, inner: values.Encode) -> Any:
    try:
        return inner(value)
    except UnsupportedError as error:
        return {"t": "unsupported", "v": str(error)[:300]}


def _fields(kind: type) -> list[str]:
    """The names of a named tuple's items, or of a structure that torch returns; nothing for any other class."""
    if kind is tuple:
        return []
    if kind.__module__ == "torch.return_types":
        return [str(name) for name in getattr(kind, "__match_args__", ())]
    fields = getattr(kind, "_fields", ())
    own = set(vars(kind)) <= _NAMED_TUPLE_S_OWN | set(fields)
    return [str(name) for name in fields] if own and isinstance(fields, tuple) else []


_NAMED_TUPLE_S_OWN = frozenset({*vars(collections.namedtuple("_Any", ())), "__annotations__", "__orig_bases__"})


@functools.lru_cache(maxsize=256)
def _named_tuple(name: str, fields: tuple[str, ...]) -> Callable[..., Any]:
    try:
        made = collections.namedtuple(name, fields)  # type: ignore[misc]  # the fields are known when it runs
    except (ValueError, TypeError):
        raise WireError("A named tuple has impossible names.") from None
    made.__module__ = remote.STUDENT
    return made


def _dtype(tree: Mapping[str, Any]) -> torch.dtype:
    if (name := text(tree, "v")) not in DTYPES:
        raise WireError("A dtype has no known name.")
    return DTYPES[name]


def _device(said: str) -> torch.device:
    try:
        return torch.device(said)
    except (RuntimeError, ValueError):
        raise WireError("A device has no known name.") from None


def _size(tree: Mapping[str, Any]) -> torch.Size:
    sizes = listed(tree, "v", 64)
    if any(type(size) is not int or not 0 <= size < 1 << 40 for size in sizes):
        raise WireError("A size isn't made of whole numbers.")
    return torch.Size(sizes)


_HEARD: Mapping[str, Callable[[Carrier, Mapping[str, Any], values.Encode], Any]] = {
    "dtype": lambda _carrier, tree, _inner: _dtype(tree),
    "device": lambda _carrier, tree, _inner: _device(text(tree, "v")),
    "size": lambda _carrier, tree, _inner: _size(tree),
    "library": lambda _carrier, tree, _inner: find_by_name(text(tree, "v")),
    "unsupported": lambda _carrier, tree, _inner: UnsupportedError(text(tree, "v", 300)),
    "exception": lambda _carrier, tree, inner: raised.made(tree, inner),
    "yours": Carrier._hear_yours,
    "function": Carrier._hear_function,
    "method": Carrier._hear_method,
    "class": Carrier._hear_class,
    "Function": Carrier._hear_class,
    "object": Carrier._hear_object,
    "named": Carrier._hear_named,
}
