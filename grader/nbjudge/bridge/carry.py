"""Values of every kind ↔ trees: data by the table of values, all else by number or by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from nbjudge.bridge import callables, raised, values
from nbjudge.bridge import objects as remote
from nbjudge.bridge.handles import Borrowed, Lent
from nbjudge.bridge.libraries import find_by_name, name_in_library
from nbjudge.bridge.objects import RemoteClass
from nbjudge.bridge.raised import Attempted
from nbjudge.bridge.values import Body, Crossing, Decoder, Encoder, UnsupportedError
from nbjudge.bridge.values.containers import STUDENT
from nbjudge.bridge.values.parts import BY_METHOD
from nbjudge.bridge.values.shared import Containers, Copies
from nbjudge.errors import WireError
from nbjudge.wire import listed, text, whole

CLASSES = 1 << 12


class Carrier:
    """One side's way to say values and to hear them. `side` 0 is the judge: it lends little."""

    def __init__(self, side: int, asker: remote.Asker) -> None:
        self.side = side
        self.lent, self.borrowed = Lent(), Borrowed()
        self.containers = Containers(side)
        self.copies = Copies(watching=side == 1)
        self._asker = asker
        self._classes: dict[int, type] = {}  # theirs, kept: objects come and go
        self._told_classes: set[int] = set()

    def crossing(self, body: Body, parts: Mapping[str, Any]) -> Crossing:
        """What is at hand for one packet."""
        return Crossing(self.containers, self.copies, body, parts)

    def clear(self) -> None:
        """A new question: lists, dicts and copies of earlier ones aren't shared any more."""
        self.containers.clear()
        self.copies.clear()

    # ------------------------------------------------------------------ telling

    def encode(self, value: Any, crossing: Crossing) -> Any:
        """A value as a tree, its bytes and tensors beside it."""
        return values.encode(value, crossing, self._other)

    def changes(self, crossing: Crossing) -> list[dict[str, Any]]:
        """The shared containers that have changed here, as trees."""
        return self.containers.changes(Encoder(crossing, self._other))

    def _other(self, value: Any, inner: Encoder) -> Any:
        if isinstance(value, Attempted):
            return _attempted(value.value, inner)
        return self._named(value) or self._ours(value, inner)

    def _named(self, value: Any) -> Any:
        """What both sides know already: by the other side's number, or by its name."""
        if (number := self.borrowed.number_of(value)) is not None:
            return {"t": "yours", "id": number}
        if (name := name_in_library(value)) is not None:
            return {"t": "library", "v": name}
        return None

    def _ours(self, value: Any, inner: Encoder) -> Any:
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

    def _class(self, kind: type, inner: Encoder) -> dict[str, Any]:
        """A class with its bases and special methods, the first time; later its number alone."""
        if (known := self._named(kind)) is not None and known["t"] == "yours":
            return dict(known)
        if self.side == 0 and not remote.may_lend(kind):
            raise UnsupportedError(f"the class {kind.__name__[:80]} of the test's")
        number = self.lent.number_of(kind)
        for name, (base, _method) in BY_METHOD.items():
            if issubclass(kind, base):
                return {"t": name, "id": number, "name": callables.name_of(kind)}
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

    def _bases(self, kind: type, inner: Encoder) -> list[Any]:
        found = [self._named(base) or self._class(base, inner) for base in kind.__bases__ if base is not object]
        own = {"t": "library", "v": name} if (name := name_in_library(kind)) is not None else None
        return [own] if own is not None else found

    def untell(self) -> None:
        """A packet wasn't sent after all: describe every class again."""
        self._told_classes.clear()

    # ------------------------------------------------------------------ hearing

    def decode(self, tree: Any, crossing: Crossing) -> Any:
        """The value of a tree that came with a packet."""
        return values.decode(tree, crossing, self._heard)

    def apply(self, told: list[Any], crossing: Crossing) -> None:
        """Take over what the other side has changed in shared containers."""
        self.containers.apply(told, Decoder(crossing, self._heard))

    def _heard(self, tree: Mapping[str, Any], inner: Decoder) -> Any:
        kind = text(tree, "t")
        form = Carrier._hear_class if kind in BY_METHOD else _HEARD.get(kind)
        if form is None:
            raise WireError("A value isn't one of the kinds that are carried.")
        return form(self, tree, inner)

    def _hear_yours(self, tree: Mapping[str, Any], _inner: Decoder) -> Any:
        return self.lent.find(whole(tree, "id"))

    def _hear_function(self, tree: Mapping[str, Any], _inner: Decoder) -> Any:
        number = whole(tree, "id")
        if (found := self.borrowed.find(number)) is not None:
            return found

        def function(*args: Any, **kwargs: Any) -> Any:
            return self._asker.of("call", function, "", args, kwargs)

        callables.describe(function, tree)
        self.borrowed.keep(number, function)
        return function

    def _hear_method(self, tree: Mapping[str, Any], inner: Decoder) -> Any:
        of, name = inner(tree.get("of")), text(tree, "name")
        if self.borrowed.number_of(of) is None:
            raise WireError("A method belongs to nothing of the other side's.")

        def method(*args: Any, **kwargs: Any) -> Any:
            return self._asker.of("method", of, name, args, kwargs)

        method.__name__ = method.__qualname__ = name if name.isidentifier() else "method"
        method.__dict__["__self__"] = of
        return method

    def _hear_class(self, tree: Mapping[str, Any], inner: Decoder) -> Any:
        number = whole(tree, "id")
        if number in self._classes:
            self.borrowed.find(number)
            return self._classes[number]
        if len(self._classes) >= CLASSES:
            raise UnsupportedError(f"more than {CLASSES} classes")
        made = self._with_one_method(tree) if tree["t"] in BY_METHOD else self._made_class(tree, inner)
        self._classes[number] = made
        self.borrowed.keep(number, made)
        return made

    def _made_class(self, tree: Mapping[str, Any], inner: Decoder) -> type:
        bases = [inner(base) for base in listed(tree, "bases", 64)]
        special = [name for name in listed(tree, "special", 256) if name in remote.SPECIAL]
        hashable, builtin = tree.get("hashable") is not False, tree.get("builtin") is True
        return remote.make_class(self._asker, text(tree, "name"), bases, special, hashable, builtin=builtin)

    def _with_one_method(self, tree: Mapping[str, Any]) -> type:
        """A class here whose one method is the one over there: torch's Function and its `apply`."""
        base, method = BY_METHOD[text(tree, "t")]
        name = text(tree, "name")

        def asked(*args: Any, **kwargs: Any) -> Any:
            return self._asker.of("method", made, method, args, kwargs)

        members = {method: staticmethod(asked), "__module__": STUDENT}
        return (made := type(name if name.isidentifier() else base.__name__, (base,), members))

    def _hear_object(self, tree: Mapping[str, Any], inner: Decoder) -> Any:
        kind, number = inner(tree.get("class")), whole(tree, "id")
        if (found := self.borrowed.find(number)) is not None:
            return found
        if not isinstance(kind, RemoteClass) or (made := remote.make_object(kind)) is None:
            raise WireError("An object has no class of the other side's.")
        self.borrowed.keep(number, made)
        return made


def _attempted(value: Any, inner: Encoder) -> Any:
    try:
        return inner(value)
    except UnsupportedError as error:
        return {"t": "unsupported", "v": str(error)[:300]}


_HEARD: Mapping[str, Callable[[Carrier, Mapping[str, Any], Decoder], Any]] = {
    "library": lambda _carrier, tree, _inner: find_by_name(text(tree, "v")),
    "unsupported": lambda _carrier, tree, _inner: UnsupportedError(text(tree, "v", 300)),
    "exception": lambda _carrier, tree, inner: raised.made(tree, inner),
    "yours": Carrier._hear_yours,
    "function": Carrier._hear_function,
    "method": Carrier._hear_method,
    "class": Carrier._hear_class,
    "object": Carrier._hear_object,
}
