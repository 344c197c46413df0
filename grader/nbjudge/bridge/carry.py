"""Values of every kind ↔ trees: data by the table of values, all else by number or by name."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from nbjudge.bridge import objects as remote
from nbjudge.bridge import raised, values
from nbjudge.bridge.around.parts import BASES, BY_METHOD
from nbjudge.bridge.fields import PARAMETERS, fields_of
from nbjudge.bridge.handles import Borrowed, Lent
from nbjudge.bridge.libraries import find_by_name, home_of, known_class, known_error, name_in_library
from nbjudge.bridge.objects import RemoteClass
from nbjudge.bridge.raised import Attempted
from nbjudge.bridge.standing import Everything, Gate, Nature, Role, Stand
from nbjudge.bridge.values import Body, Crossing, Decoder, Encoder, UnsupportedError
from nbjudge.bridge.values.containers import STUDENT
from nbjudge.bridge.values.records import RECORD, is_record
from nbjudge.bridge.values.shared import Containers, Copies
from nbjudge.bridge.values.standard import instances
from nbjudge.bridge.values.table import kind_of
from nbjudge.errors import WireError
from nbjudge.wire import DEPTH, listed, text, whole

CLASSES = 1 << 12


class Plain:
    """A value that is to cross as data, though its class was asked for or has methods of its own."""

    def __init__(self, value: Any) -> None:
        self.value = value


class Whole:
    """An object of a class of the course's, which is to cross with its state."""

    def __init__(self, value: Any) -> None:
        self.value = value


class Yours:
    """The other side's thing with this number."""

    def __init__(self, number: int) -> None:
        self.number = number


class Carrier:
    """One side's way to say values and to hear them. `side` 0 is the judge: it lends little."""

    def __init__(self, side: int, asker: remote.Asker) -> None:
        self.side = side
        self.lent, self.borrowed = Lent(), Borrowed()
        self.containers = Containers(side)
        self.copies = Copies(watching=side == 1)
        self.gate: Gate = Everything()
        self.asked: tuple[type, ...] = ()  # classes of ours that were asked for by name: their objects aren't data
        self.places: tuple[str, ...] = ()  # where what is heard now comes from
        self._asker = asker
        self._classes: dict[int, type] = {}  # theirs, kept: objects come and go
        self._natures: dict[type, Nature] = {}
        self._homes: dict[type, str] = {}  # of theirs that are a library's: where it defines them
        self._told_classes: set[int] = set()

    def crossing(self, body: Body, parts: Mapping[str, Any]) -> Crossing:
        """What is at hand for one packet."""
        return Crossing(self.containers, self.copies, body, parts, self.asked, objects_first=self.side == 1)

    def at(self, places: tuple[str, ...]) -> contextlib.AbstractContextManager[None]:
        """Meanwhile what is heard comes from there."""
        return _At(self, places)

    def beside(self, mark: str) -> contextlib.AbstractContextManager[None]:
        """Meanwhile what is heard comes from beside there: an exception's parts, a callback's arguments."""
        return self.at(Stand(Role.STRANGER, self.places).under(mark))

    def of_error(self, name: str) -> contextlib.AbstractContextManager[None]:
        """Meanwhile what is heard is what an exception that comes from here has under this name."""
        return self.at(Stand(Role.STRANGER, tuple(place.rstrip("!") for place in self.places)).under(f"!.{name[:80]}"))

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
        if isinstance(value, Yours):
            return {"t": "yours", "id": value.number}
        if isinstance(value, Whole):
            return instances.whole(value.value, inner)
        if isinstance(value, Plain):
            kind = RECORD if is_record(type(value.value)) else kind_of(value.value)
            tree = (kind or RECORD).encode(value.value, inner)
            if type(tree) is dict and tree.get("t") == "object":  # it would be asked for as data again
                raise UnsupportedError(f"a {type(value.value).__name__[:80]} with a part that is no data")
            return tree
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
        if self.side == 1 and (of := remote.bound_to(value)) is not None:
            return {"t": "method", "of": inner(of), "name": value.__name__}
        if remote.is_function(value) or (self.side == 0 and remote.may_call(value)):
            return self._function(value, inner)
        if self.side == 0 and not remote.may_lend(value):
            raise UnsupportedError(f"an object of {_of_the_test(type(value))}")
        tree = {"t": "object", "class": self._class(type(value), inner), "id": self.lent.number_of(value)}
        if self.side == 1:
            tree |= self._looks(value)
        return tree

    def _looks(self, value: Any) -> dict[str, bool]:
        """What else it might be taken for: an iterator, or data."""
        kind = type(value)
        state = {"state": True} if instances.is_instance(value) and not issubclass(kind, self.asked) else {}
        if hasattr(kind, "__next__") and hasattr(kind, "__iter__"):
            return {"iterator": True, **state}
        is_data = dataclasses.is_dataclass(kind) or (not state and kind_of(value) is not None)
        return {"data": True, **state} if is_data else state

    def _function(self, value: Any, inner: Encoder) -> dict[str, Any]:
        tree = {"t": "function", "id": self.lent.function(value), "name": remote.name_of(value)}
        if self.side == 0 and isinstance(doc := getattr(value, "__doc__", None), str):
            tree["doc"] = doc[: remote.DOC_CHARS]
        if self.side == 1:
            tree |= remote.signature(value)
            if "__wrapped__" in getattr(value, "__dict__", ()):
                tree["wrapped"] = inner(value.__wrapped__)
        return tree

    def _class(self, kind: type, inner: Encoder) -> dict[str, Any]:
        """A class with its bases and special methods, the first time; later its number alone."""
        if (known := self._named(kind)) is not None and known["t"] == "yours":
            return dict(known)
        if self.side == 0 and instances.is_own(kind):
            return {"t": "home", "v": instances.home(kind)}
        if self.side == 0 and not remote.may_lend(kind):
            raise UnsupportedError(f"the {_of_the_test(kind)}")
        number = self.lent.number_of(kind)
        for name, (base, _method) in BY_METHOD.items():
            if issubclass(kind, base):
                return {"t": name, "id": number, "name": remote.name_of(kind)}
        tree: dict[str, Any] = {"t": "class", "id": number}
        if number not in self._told_classes:
            special = remote.special_names(kind)
            tree |= {
                "name": remote.name_of(kind),
                "bases": self._bases(kind, inner),
                "hashable": remote.is_hashable(kind),
            }
            tree["special"] = special if self.side == 1 else sorted(remote.OF_AN_ITERATOR & set(special))
            if (home := home_of(kind)) is not None:
                tree["home"] = home
            if remote.BUILTIN.get(kind.__name__) is kind:
                tree["builtin"] = True
            if self.side == 1 and (fields := fields_of(kind)) is not None:
                tree["fields"] = fields
            self._told_classes.add(number)
        return tree

    def _bases(self, kind: type, inner: Encoder) -> list[Any]:
        found = [self._named(base) or self._class(base, inner) for base in kind.__bases__ if base is not object]
        own = {"t": "library", "v": name} if (name := name_in_library(kind)) is not None else None
        return [own] if own is not None else found

    def untell(self, said: int) -> None:
        """A packet wasn't sent after all: describe every class again, and each container beyond so many."""
        self._told_classes.clear()
        self.containers.unsay(said)

    # ------------------------------------------------------------------ hearing

    def decode(self, tree: Any, crossing: Crossing) -> Any:
        """The value of a tree that came with a packet."""
        return values.decode(tree, crossing, self._heard)

    def decode_names(self, named: Mapping[str, Any], crossing: Crossing) -> dict[str, Any]:
        """What names stand for, as they were told: classes before what may be made of them."""
        inner, found = Decoder(crossing, self._heard), dict[str, Any]()
        for name, tree in named.items():
            with self.at((name,)):
                if type(tree) is dict and tree.get("t") in ("class", *BY_METHOD):
                    self.gate.named(name, self._known_class(tree, inner))
                    tree = {"t": "class", "id": tree.get("id")}
                found[name] = self.decode(tree, crossing)
        return found

    def apply(self, told: list[Any], crossing: Crossing) -> None:
        """Take over what the other side has changed in shared containers."""
        self.containers.apply(told, Decoder(crossing, self._heard))

    def _heard(self, tree: Mapping[str, Any], inner: Decoder) -> Any:
        kind = text(tree, "t")
        form = Carrier._hear_class if kind in BY_METHOD else _HEARD.get(kind)
        if form is None:
            raise WireError("A value isn't one of the kinds that are carried.")
        return form(self, tree, inner)

    def is_known(self, kind: type) -> bool:
        """Is it a class that was asked for, or derived from one?"""
        return self.gate.knows(kind)

    def of_library(self, kind: type) -> type | None:
        """The class of a library's errors that the other side's has, where one may be raised here."""
        homes = [self._homes[base] for base in kind.__mro__ if base in self._homes]
        found = [known_error(home) for home in homes if self.gate.may_raise(home, self.places)]
        return next((one for one in found if one is not None), None)

    def _hear_yours(self, tree: Mapping[str, Any], _inner: Decoder) -> Any:
        return self.lent.find(whole(tree, "id"))

    def _from(self, inner: Decoder) -> tuple[str, ...]:
        """Where a thing has come from that has just been named; what a container holds has places of its own."""
        nested = inner.depth < DEPTH - 1
        return Stand(Role.STRANGER, self.places).under("[]") if nested else self.places

    def _stands(self, nature: Nature, inner: Decoder) -> Stand:
        """As what such a thing stands here."""
        return self.gate.admit(nature, self._from(inner))

    def _hear_function(self, tree: Mapping[str, Any], inner: Decoder) -> Any:
        number = whole(tree, "id")
        standing = self._stands(Nature("function", text(tree, "name"), calls=True), inner)
        part = _part(standing)
        if (found := self.borrowed.find(number, part)) is not None:
            return found

        def function(*args: Any, **kwargs: Any) -> Any:
            return self._asker.of("call", function, "", args, kwargs)

        remote.describe(function, tree)
        self.borrowed.keep(number, function, standing, part)
        if "wrapped" in tree:
            with self.at(standing.under(".__wrapped__")):
                function.__dict__["__wrapped__"] = inner(tree["wrapped"])
        return function

    def _hear_library(self, tree: Mapping[str, Any], inner: Decoder) -> Any:
        """A library's own function, class or module: no data either, though both sides have it."""
        found = find_by_name(text(tree, "v"))
        standing = self._stands(Nature("library", text(tree, "v"), calls=callable(found)), inner)
        if standing.role is not Role.STRANGER:
            return found

        def stranger(*_args: Any, **_kwargs: Any) -> Any:
            self.gate.refuse(standing)

        return stranger

    def _hear_method(self, tree: Mapping[str, Any], inner: Decoder) -> Any:
        name = text(tree, "name")
        with self.at(()):
            of = self._holder(tree.get("of"), inner)
        standing = self._stands(Nature("function", name, calls=True), inner)

        def method(*args: Any, **kwargs: Any) -> Any:
            return self._asker.of("method", of, name, args, kwargs, by=standing)

        method.__name__ = method.__qualname__ = name if name.isidentifier() else "method"
        method.__dict__["__self__"] = of
        return method

    def _holder(self, tree: Any, inner: Decoder) -> Any:
        """What a method belongs to: a thing of the other side's, in whatever role."""
        if type(tree) is dict and tree.get("t") == "object":
            tree = {name: part for name, part in tree.items() if name != "data"}
        if self.borrowed.number_of(of := inner(tree)) is None:
            raise WireError("A method belongs to nothing of the other side's.")
        return of

    def _hear_class(self, tree: Mapping[str, Any], inner: Decoder) -> Any:
        made = self._known_class(tree, inner)
        standing = self.borrowed.standing_of(made)
        now = self._stands(dataclasses.replace(self._natures[made], form="class", calls=True), inner)
        if now.role is Role.STRANGER:
            return self._stranger(whole(tree, "id"), now)
        if standing is not None:
            standing.role, standing.of_class = now.role, now.of_class
            standing.also(now.places)
        return self._own(made) or made

    def _own(self, made: type) -> type | None:
        """This side's own class, where the other's is the course's: what an answer has changed in it stays there."""
        return instances.find(self._homes[made]) if made in self._homes else None

    def _hear_home(self, tree: Mapping[str, Any], inner: Decoder) -> Any:
        """A class of the course's by its name, of which an object is to be made here."""
        found = instances.find(text(tree, "v"))
        if found is None:
            raise WireError("A frame names something that isn't a class of the course's.")
        homes, places = [instances.home(base) for base in found.__mro__ if instances.is_own(base)], self._from(inner)
        if not self.gate.is_given(homes, places):
            said = f"It holds an object of class {found.__name__[:80]}, which the released answer doesn't give there."
            self.gate.refuse(Stand(Role.STRANGER, (), said))
        return found

    def _rebuilt(self, kind: type, number: int, inner: Decoder) -> Any:
        """An object of the other side's with its state, of this side's own class; None where it can't stand as that."""
        found = next((own for base in kind.__mro__ if (own := self._own(base)) is not None), None)
        if found is None or not self.gate.is_given(sorted(self._natures[kind].homes), self._from(inner)):
            return None
        made = self._asker.data_of(number, state=True)
        return None if isinstance(made, UnsupportedError) else made

    def _stranger(self, number: int, standing: Stand) -> Any:
        """A class where none may stand: it can be passed on."""
        if (found := self.borrowed.find(number, _part(standing))) is not None:
            return found

        def stranger(*args: Any, **kwargs: Any) -> Any:
            return self._asker.of("call", stranger, "", args, kwargs)

        self.borrowed.keep(number, stranger, standing, _part(standing))
        return stranger

    def _known_class(self, tree: Mapping[str, Any], inner: Decoder) -> type:
        number = whole(tree, "id")
        if number in self._classes:
            self.borrowed.find(number)
            return self._classes[number]
        if len(self._classes) >= CLASSES:
            raise UnsupportedError(f"more than {CLASSES} classes")
        made = self._with_one_method(tree) if tree["t"] in BY_METHOD else self._made_class(tree, inner)
        self._classes[number] = made
        self._natures[made] = self._nature(made, tree)
        if "home" in tree:
            self._homes[made] = text(tree, "home")
        self.borrowed.keep(number, made, self.gate.admit(self._natures[made], ()))
        return made

    def _nature(self, made: type, tree: Mapping[str, Any]) -> Nature:
        """What is known of a class's objects."""
        classes = tuple(base for base in made.__mro__ if isinstance(base, RemoteClass))
        homes = {home for base in made.__mro__ if base in self._natures for home in self._natures[base].homes}
        real = [base for base in made.__mro__ if base not in classes and issubclass(base, tuple(BASES))]
        homes |= {f"{base.__module__}.{base.__qualname__}" for base in real}
        if "home" in tree:
            homes.add(text(tree, "home"))
        calls, manages = (any(name in vars(base) for base in classes) for name in ("__call__", "__enter__"))
        name = type.__getattribute__(made, "__name__")
        return Nature("object", name, classes, frozenset(homes), calls, "home" not in tree, manages)

    def _made_class(self, tree: Mapping[str, Any], inner: Decoder) -> type:
        bases = [self._base(base, inner) for base in listed(tree, "bases", 64)]
        special = [name for name in listed(tree, "special", 256) if name in remote.SPECIAL]
        name, hashable = text(tree, "name"), tree.get("hashable") is not False
        shown = remote.BUILTIN.get(name) if tree.get("builtin") is True else known_class(tree.get("home"))
        above = (own for base in bases for kind in getattr(base, "__mro__", ()) if (own := self._own(kind)) is not None)
        shown = next(above, None) if shown is None and "home" not in tree else shown
        fields = listed(tree, "fields", PARAMETERS) if "fields" in tree else None
        return remote.make_class(self._asker, name, bases, special, hashable, shown=shown, fields=fields)

    def _base(self, tree: Any, inner: Decoder) -> Any:
        is_class = type(tree) is dict and tree.get("t") == "class"
        if type(tree) is dict and tree.get("t") == "library":
            return find_by_name(text(tree, "v"))
        return self._known_class(tree, inner) if is_class else inner(tree)

    def _with_one_method(self, tree: Mapping[str, Any]) -> type:
        """A class here whose one method is the one over there: torch's Function and its `apply`."""
        base, method = BY_METHOD[text(tree, "t")]
        name = text(tree, "name")

        def asked(*args: Any, **kwargs: Any) -> Any:
            return self._asker.of("method", made, method, args, kwargs)

        members = {method: staticmethod(asked), "__module__": STUDENT}
        return (made := type(name if name.isidentifier() else base.__name__, (base,), members))

    def _hear_object(self, tree: Mapping[str, Any], inner: Decoder) -> Any:
        kind, number = self._base(tree.get("class"), inner), whole(tree, "id")
        if not isinstance(kind, RemoteClass):
            raise WireError("An object has no class of the other side's.")
        if tree.get("state") is True and (rebuilt := self._rebuilt(kind, number, inner)) is not None:
            return rebuilt
        forms = ["object"] if self.gate.knows(kind) or tree.get("iterator") is not True else []
        forms += ["iterator"] if tree.get("iterator") is True else []
        for form in forms:
            standing = self._stands(dataclasses.replace(self._natures[kind], form=form), inner)
            if standing.role is not Role.STRANGER:
                break
        if standing.role is Role.STRANGER and tree.get("data") is True:
            return self._asker.data_of(number)
        part = _part(standing)
        if (found := self.borrowed.find(number, part)) is not None:
            known = self.borrowed.standing_of(found)
            if known is not None:
                known.also(standing.places)
            return found
        if (made := remote.make_object(kind)) is None:
            raise WireError("An object has no class of the other side's.")
        self.borrowed.keep(number, made, standing, part)
        return made


class _At:
    """Several of them in each packet: a generator would take three times as long."""

    __slots__ = ("_before", "_carrier", "_places")

    def __init__(self, carrier: Carrier, places: tuple[str, ...]) -> None:
        self._carrier, self._places, self._before = carrier, places, carrier.places

    def __enter__(self) -> None:
        self._before, self._carrier.places = self._carrier.places, self._places

    def __exit__(self, *_error: object) -> None:
        self._carrier.places = self._before


def _part(standing: Stand) -> str:
    """A thing in two roles has two stand-ins; one that is only called has one for each place, which says what comes."""
    if standing.role is Role.CALLABLE:
        return f"call {' '.join(standing.places)}" if standing.places else ""
    return str(standing.sentence) if standing.role is Role.STRANGER else ""


def _attempted(value: Any, inner: Encoder) -> Any:
    said = inner.crossing.shared.said
    try:
        return inner(value)
    except UnsupportedError as error:
        inner.crossing.shared.unsay(said)
        return {"t": "unsupported", "v": str(error)[:300]}


_HEARD: Mapping[str, Callable[[Carrier, Mapping[str, Any], Decoder], Any]] = {
    "library": Carrier._hear_library,
    "unsupported": lambda _carrier, tree, _inner: UnsupportedError(text(tree, "v", 300)),
    "exception": lambda carrier, tree, inner: raised.made(tree, inner, carrier),
    "yours": Carrier._hear_yours,
    "function": Carrier._hear_function,
    "method": Carrier._hear_method,
    "class": Carrier._hear_class,
    "object": Carrier._hear_object,
    "home": Carrier._hear_home,
}


def _of_the_test(kind: type) -> str:
    """What can't be lent of a class, and what helps."""
    helps = "write the class into a cell of the release" if kind.__module__ == remote.TESTS else "pass plain data"
    return f"class {kind.__name__[:80]} of the test's ({helps})"
