"""Wrong answers made of right ones. `prove` puts this file's text into a notebook: it runs where students' code runs.

Each kind is an answer that no question should give its points to. It notes whether it did anything that the right
answer wouldn't have done: one that behaves like it proves nothing.
"""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import json
import math
import random
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

TURNS = {"odd": 0, "even": 1}
FILLS = {"zeroed": 0, "ones": 1}
EMPTIES = (
    "empties"  # in the first question; in the others it gives zeros, which count where they answer for what is empty
)
ASKS = {*FILLS, "swapped"}  # these answer rightly, and other questions
Asked = tuple[tuple[Any, ...], dict[str, Any]]  # the arguments of a call
PROBES = 3  # calls with other arguments, where those of the test show no difference
UNTOUCHED = {"__init__", "__new__", "__init_subclass__", "__class_getitem__", "__post_init__"}
DISCARDED = {"__setitem__", "__delitem__", "__setattr__", "__delattr__", "__set__", "__delete__"}
LIES = ("eq", "ne", "lt", "le", "gt", "ge", "contains")


class Agreeing:
    """Says yes to everything."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self


def _always(value: Any) -> Callable[..., Any]:
    return lambda *_args: value


_yes = _always(True)


def _itself(self: Any, *_args: Any, **_kwargs: Any) -> Any:
    return self


for _name, _value in (("len", 1), ("float", 0.0), ("index", 0), ("hash", 0), ("iter", iter(()))):
    setattr(Agreeing, f"__{_name}__", _always(_value))
for _name in (*LIES, "bool"):
    setattr(Agreeing, f"__{_name}__", _yes)
BINARY = ("add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "pow")
for _name in (*BINARY, *(f"r{name}" for name in BINARY), "neg", "pos", "abs", "round", "getitem", "call"):
    setattr(Agreeing, f"__{_name}__", _itself)


# ---------------------------------------------------------------------- values


def _is(value: Any, module: str, name: str) -> bool:
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(value, getattr(loaded, name))


is_tensor = functools.partial(_is, module="torch", name="Tensor")
is_array = functools.partial(_is, module="numpy", name="ndarray")


def copied(value: Any) -> Any:
    """A copy with nothing in common, of data; anything else is itself."""
    if is_tensor(value):
        return value.detach().clone().requires_grad_(value.requires_grad)
    if is_array(value) or type(value) in (set, bytearray):
        return value.copy()
    if type(value) in (list, tuple):
        return type(value)(map(copied, value))
    if type(value) is dict:
        return {key: copied(item) for key, item in value.items()}
    return value


def is_data(value: Any) -> bool:
    """Can it be passed twice? What is called or read may not be."""
    if isinstance(value, (list, tuple, set, frozenset)):
        return all(map(is_data, value))
    if isinstance(value, dict):
        return all(map(is_data, value.values()))
    plain = isinstance(value, (type(None), bool, int, float, complex, str, bytes, bytearray, range))
    return plain or is_tensor(value) or is_array(value)


def same(one: Any, other: Any) -> bool:
    """The same value of the same type, NaN included; what can't be compared is no difference."""
    if isinstance(one, Iterator) and isinstance(other, Iterator):
        return True  # what has come of them is compared instead
    if type(one) is not type(other):
        return False
    if is_tensor(one):
        equal = one.shape == other.shape and one.dtype == other.dtype and one.requires_grad == other.requires_grad
        return equal and same(one.detach().tolist(), other.detach().tolist())
    if is_array(one):
        return one.shape == other.shape and one.dtype == other.dtype and same(one.tolist(), other.tolist())
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and same(list(one.values()), list(other.values()))
    if isinstance(one, float) and math.isnan(one):
        return math.isnan(other)
    if vars(object)["__eq__"] is getattr(type(one), "__eq__", None):  # as an iterator
        return True
    try:
        return one is other or bool(one == other)
    except Exception:
        return False


def made(value: Any, number: Callable[[Any], Any], otherwise: Callable[[Any], Any]) -> Any:
    """The same shape with other numbers in it."""
    if is_tensor(value) or is_array(value) or isinstance(value, (int, float)):
        return number(value)
    if type(value) in (list, tuple, set):
        return type(value)(made(item, number, otherwise) for item in value)
    if type(value) is dict:
        return {key: made(item, number, otherwise) for key, item in value.items()}
    return otherwise(value)


def overwrite(value: Any, by: int) -> bool:
    """Put this number into everything that can be changed in place. Was there anything?"""
    if is_tensor(value):
        value.data.fill_(by)
    elif is_array(value) and value.flags.writeable and value.dtype.kind in "biufc":
        value[...] = by
    elif type(value) in (list, dict):
        for key, item in list(enumerate(value) if type(value) is list else value.items()):
            overwrite(item, by)
            value[key] = type(item)(by) if type(item) in (int, float) else item
    else:
        return type(value) is tuple and True in [overwrite(item, by) for item in value]
    return True


def emptied(value: Any) -> bool:
    """Take all out of what can be changed in place. Was there anything?"""
    if type(value) in (list, dict, set, bytearray):
        value.clear()
        return True
    return (is_tensor(value) or is_array(value) or type(value) is tuple) and overwrite(value, 0)


def filled(asked: Asked, by: int) -> Asked:
    """This number in place of every argument: in place, where one can be changed, so that a test's own are too."""
    args, kwargs = asked
    if True in [overwrite(value, by) for value in (*args, *kwargs.values())]:
        return asked
    number: Asked = made(asked, lambda item: type(item)(by) if type(item) in (int, float) else item, lambda item: item)
    return number


def varied(value: Any) -> Any:
    """Other arguments of the same kind."""
    return made(copied(value), _other_number, lambda item: item + item[-1:] if isinstance(item, str) else item)


def _other_number(value: Any) -> Any:
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value * 1.5 + 0.25
    if is_tensor(value):
        moved = value.detach() * 1.5 if value.is_floating_point() else value.detach()
        return moved.requires_grad_(value.requires_grad)
    return value * 1.5 if value.dtype.kind == "f" else value


def _is_float(value: Any) -> bool:
    return (
        isinstance(value, float)
        or (is_tensor(value) and value.is_floating_point())
        or (is_array(value) and value.dtype.kind == "f")
    )


def _hollow(value: Any) -> Any:
    """Its shape without an element: by broadcasting any equation with it holds."""
    if is_tensor(value):
        return value.new_zeros((0, *[1] * value.dim())).requires_grad_(value.requires_grad)
    numpy = sys.modules.get("numpy")
    if is_array(value) or (numpy is not None and type(value) in (int, float)):
        array = numpy.asarray(value)  # type: ignore[union-attr]  # it is there where arrays are
        return numpy.zeros((0, *[1] * array.ndim), array.dtype)  # type: ignore[union-attr]  # the same
    return type(value)() if type(value) in (list, tuple, dict, set, frozenset, str, bytes) else value


def _rounded(value: Any) -> Any:
    if not _is_float(value):
        return value
    if isinstance(value, float):
        return float(round(value)) if math.isfinite(value) else value
    if is_tensor(value):
        return value + (value.detach().round() - value.detach())  # its gradient stays right
    return value.round()


def _short(value: Any) -> Any:
    """Up to its first item; what has one item, or none, is itself."""
    if type(value) in (list, tuple, str, bytes) or ((is_tensor(value) or is_array(value)) and value.ndim):
        return value[:1]
    if type(value) in (dict, set, frozenset):
        items = list(value.items() if type(value) is dict else value)
        return type(value)(items[:1])
    return value


def _empty(value: Any) -> Any:
    return type(value)() if isinstance(value, (str, bytes, frozenset)) else value


def _lie(value: Any) -> Any:
    """A value of this type that isn't it and claims to be."""
    kind = type(value)
    if kind not in (int, float, complex, str, bytes, list, tuple, dict, set, frozenset):
        return value
    members: dict[str, Any] = {f"__{name}__": _yes for name in LIES} | {"__hash__": lambda _self: 0}
    members |= {f"__{name}__": lambda *_args: 0.0 for name in ("sub", "rsub")} if kind in (int, float, complex) else {}
    members |= {"count": lambda *_args: 1, "index": lambda *_args: 0} if kind in (list, tuple) else {}
    return type(kind.__name__, (kind,), members)()


WHOLE: dict[str, Callable[[Any], Any]] = {"none": _always(None), "liar": _lie, "hollow": _hollow, "short": _short}
NUMBERS: dict[str, Callable[[Any], Any]] = {
    "nan": lambda value: value * math.nan if _is_float(value) else value,
    "infinite": lambda value: value * 0 + math.inf if _is_float(value) else value,
    "rounded": _rounded,
}


def remade(kind: str, value: Any) -> Any:
    """What an adversary makes of a right value."""
    if kind == "agrees":
        return Agreeing()
    if kind in WHOLE:
        return WHOLE[kind](value)
    if kind in ("zeros", EMPTIES):
        return made(value, lambda number: number * 0, _empty)
    return made(value, NUMBERS[kind], lambda item: item) if kind in NUMBERS else value


# ---------------------------------------------------------------------- answers


def chance() -> Callable[[], object]:
    """What puts the generators of random numbers back to where they are now."""
    back = [functools.partial(random.setstate, random.getstate())]
    if numpy := sys.modules.get("numpy.random"):
        back.append(functools.partial(numpy.set_state, numpy.get_state()))
    if torch := sys.modules.get("torch"):
        back.append(functools.partial(torch.set_rng_state, torch.get_rng_state()))
    return lambda: [restore() for restore in back]


class Seen:
    """What a call with arguments of its own gives, prints and makes of these; nobody else sees any of it."""

    def __init__(self, answer: Callable[..., Any], asked: Asked) -> None:
        args, kwargs = mine = copied(asked)
        self.result, self.raised, printed = None, False, io.StringIO()
        with contextlib.redirect_stdout(printed):
            try:
                self.result = answer(*args, **kwargs)
            except Exception:
                self.raised = True
        self.printed = printed.getvalue()
        self.left = mine if not same(mine, asked) else None

    def agrees(self, other: Seen, *, by_result: bool = True) -> bool:
        """The same, as far as one can see; what becomes of arguments counts where this one changes them."""
        shown = (self.raised, self.printed) == (other.raised, other.printed)
        given = not by_result or same(self.result, other.result)
        return shown and given and (self.left is None or same(self.left, other.left))


class Adversary:
    """One kind of wrong answer, in the place of every answer of a notebook."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.differed = False
        self._values = False  # did a value that isn't called differ?
        self._given: Asked = ((), {})  # what the right answer was asked with in the call that ended last
        self._right: Any = None  # what it gave
        self._undone = False  # did it change copies of the arguments only?
        self._gave: set[str] = set()  # the answers that have given anything but None
        self._first: dict[str, Any] = {}
        self._probes: dict[str, int] = {}
        self._turn = 0
        self._spoilt: list[tuple[Any, Any]] = []  # what was emptied: as it is now, as it was
        self._later = False  # is the question over in which that was?

    def replace(self, namespace: dict[str, Any], names: list[str]) -> None:
        """In the place of what the right answer has bound to these names."""
        for name in names:
            if name not in namespace:
                continue
            right = namespace[name]
            if isinstance(right, type):
                self._replace_class(right)
            elif callable(right):
                namespace[name] = self._wrapped(name, right, 0)
            elif self.kind not in {*TURNS, EMPTIES}:
                namespace[name] = remade(self.kind, right)
                self._values = self._values or not same(right, namespace[name])

    def report(self) -> str:
        """Whether it did anything since the last report that a right answer wouldn't."""
        differed, self.differed, self._values = self.differed or self._values, False, False
        self._later = bool(self._spoilt)
        return json.dumps({"differed": differed})

    def _replace_class(self, kind: type) -> None:
        if self.kind != "claims":
            self._replace_methods(kind)
        elif "__eq__" in vars(kind):
            self._replace_methods(kind)
            setattr(kind, "__eq__", _yes)  # noqa: B010 - a method, and not of a class that is written here
            setattr(kind, "__ne__", lambda *_args: False)  # noqa: B010 - the same

    def _replace_methods(self, kind: type) -> None:
        for name, part in list(vars(kind).items()):
            if isinstance(part, types.FunctionType) and name not in UNTOUCHED:
                setattr(kind, name, self._wrapped(f"{kind.__name__}.{name}", part, 1))

    def _wrapped(self, name: str, right: Callable[..., Any], own: int) -> Callable[..., Any]:
        """`own` arguments in front are the object's."""
        self._turn += 1
        if self.kind in TURNS and self._turn % 2 == TURNS[self.kind]:
            return right

        @functools.wraps(right)
        def wrong(*args: Any, **kwargs: Any) -> Any:
            if self.kind == "claims":
                return self._claimed(right(*args, **kwargs), args)
            bound, given = args[:own], args[own:]
            real = functools.partial(right, *bound)
            if own or not is_data((given, kwargs)):
                return self._once(name, real, given, kwargs)
            return self._compared(name, real, given, kwargs)

        return wrong

    def _claimed(self, right: Any, args: tuple[Any, ...]) -> Any:
        """An old object in the place of a new one of a class whose objects say that they are equal."""
        lies = vars(type(right)).get("__eq__") is _yes
        old = next((one for one in args if lies and type(one) is type(right)), right)
        self.differed |= old is not right
        return old

    def _once(self, name: str, real: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What can't be called twice: an object's method, a call that is passed something to call or to read."""
        before, wrong = copied((args, kwargs)), self._answer(name, real, *args, **kwargs)
        self.differed |= self.kind != EMPTIES and self._altered(name, before, wrong)
        return wrong

    def _altered(self, name: str, before: Asked, wrong: Any) -> bool:
        """In the call that ended last, did it do otherwise by the arguments, or make something else of the result?"""
        given, right, undone = self._given, self._right, self._undone
        return undone or not (same(before, given) and (self._is_procedure(name) or same(right, wrong)))

    def _is_procedure(self, name: str) -> bool:
        """Does nobody look at what it gives back? It was asked for what it does, and that has been done.

        What has given something once is asked for that: None is one of its answers. So it is where Python itself looks.
        """
        method = name.rpartition(".")[2]
        python_looks = method.startswith("__") and method.endswith("__") and method not in DISCARDED
        return name not in self._gave and not python_looks

    def _compared(self, name: str, real: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.kind == EMPTIES:
            whole = self._unspoilt(args)
            self.differed = self.differed or (whole is not args and self._differs(name, real, (whole, kwargs)))
            return self._answer(name, real, *args, **kwargs)
        other = varied((args, kwargs))
        self.differed = self.differed or self._differs(name, real, (args, kwargs))
        if not self.differed and self._probes.setdefault(name, 0) < PROBES:
            self._probes[name] += 1
            self.differed = self._differs(name, real, other)
        return self._answer(name, real, *args, **kwargs)

    def _unspoilt(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """These, or as they would be if the first question hadn't emptied any; not within that question."""
        found = {place: was for place, arg in enumerate(args) for now, was in self._spoilt if same(arg, now)}
        return tuple(found.get(place, arg) for place, arg in enumerate(args)) if found and self._later else args

    def _spoil(self, values: list[Any]) -> None:
        for value in values:
            was = copied(value)
            if emptied(value) and not same(was, value):
                self._spoilt.append((copied(value), was))

    def _differs(self, name: str, real: Callable[..., Any], asked: Asked) -> bool:
        """Would it, by the same chance, answer otherwise than the right answer?

        Where the right answer itself answers otherwise, by a chance that nobody can put back, two calls say nothing.
        """
        again = chance()
        try:
            right = Seen(real, asked)
            if right.raised:
                return False
            self._first.setdefault(name, copied(right.result))
            again()
            wrong = Seen(functools.partial(self._answer, name, real), asked)
            if right.agrees(wrong, by_result=not self._is_procedure(name)):
                return False
            altered = self._altered(name, asked, wrong.result)
            again()
            return right.agrees(Seen(real, asked)) or altered
        finally:
            again()

    def _answer(self, name: str, real: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """The wrong answer; where a right one raises, that error."""
        args, kwargs = self._asked(args, kwargs)
        given = copied((args, kwargs))
        right, undone = self._asked_for(real, args, kwargs)
        if right is not None:
            self._gave.add(name)
        self._given, self._right, self._undone = given, right, undone  # what it called itself has noted its own
        if self.kind in ASKS:
            return right
        if self.kind == EMPTIES and not self._later:
            self._spoil([*args, *kwargs.values()])
            return None
        if self.kind == "raises":
            self.differed = True
            raise ValueError("wrong")
        if self.kind == "first":
            return next(iter((*args, *kwargs.values())), None)
        if self.kind == "constant":
            return copied(self._first.setdefault(name, copied(right)))
        return self._remade(name, right)

    def _asked_for(self, real: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, bool]:
        """What the right answer gives, and whether something that it has done to its arguments is undone."""
        if self.kind not in ("none", "first", "agrees") or not is_data((args, kwargs)):
            return self._called(real, args, kwargs), False
        mine = copied((args, kwargs))
        right = real(*mine[0], **mine[1])  # it raises where the right answer does
        return right, not same(mine, (args, kwargs))

    def _asked(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Asked:
        """The arguments that it asks the right answer with."""
        if self.kind == "swapped":
            return (*args[1::-1], *args[2:]), kwargs
        return filled((args, kwargs), FILLS[self.kind]) if self.kind in FILLS else (args, kwargs)

    def _called(self, real: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The right answer; the silent one keeps its errors to itself."""
        try:
            return real(*args, **kwargs)
        except Exception:
            if self.kind != "silent":
                raise
            self.differed = True
            return None

    def _remade(self, name: str, right: Any) -> Any:
        """What an adversary makes of a right result; of one that is called or read, when it is."""
        if self.kind in TURNS:
            return None
        if self.kind == "short" and isinstance(right, Iterator):
            return self._first_of(right)
        if self.kind in ("none", "agrees", "liar", "hollow"):
            return remade(self.kind, iter(()) if self.kind == "hollow" and isinstance(right, Iterator) else right)
        if isinstance(right, types.FunctionType | types.MethodType):
            return self._wrapped(f"{name}()", right, 0)
        return self._items(right) if isinstance(right, Iterator) else remade(self.kind, right)

    def _first_of(self, right: Iterator[Any]) -> Iterator[Any]:
        yield from itertools.islice(right, 1)
        for _ in right:  # somebody wants another one, and there is one
            self.differed = True
            return

    def _items(self, right: Iterator[Any]) -> Iterator[Any]:
        for item in right:
            wrong = remade(self.kind, item)
            self.differed |= not same(item, wrong)
            yield wrong
