"""Random generators, which both sides may draw from: where they stand crosses, and where they stand afterwards.

An answer that could put a test's generator anywhere would choose the numbers that the test draws next, say zeros alone.
So in the judge it has to stand where drawing leads it to.
"""

from __future__ import annotations

import importlib
import random
import sys
from collections.abc import Sequence
from typing import Any

from nbjudge.bridge.values.shared import InPlace, share
from nbjudge.bridge.values.table import Decoder, Encoder, Tree, UnsupportedError
from nbjudge.errors import WireError
from nbjudge.wire import listed, text, whole

WORDS = 624  # of Mersenne's twister
STREAMS = {"PCG64": ("state", "inc"), "PCG64DXSM": ("state", "inc")}
BITS = 1 << 128
STEPS = {"PCG64": 0x2360ED051FC65DA44385DF649FCCF645, "PCG64DXSM": 0xDA942042E4DD58B5}  # what a step multiplies by
DRAWN = 1 << 28  # numbers, at most, while an answer has a generator of NumPy's
BLOCKS = 1 << 13  # of numbers, while it has one of Mersenne's twister
HALVES = 1 << 16  # of the numbers drawn last, of which the second half of one may be left
WIDEST = 12.0  # a number of the normal distribution that is left for the next call
CHOSEN = "a random generator that stands where no drawing has led it"


def _python_said(value: random.Random, _encode: Encoder) -> Any:
    version, items, gauss = random.Random.getstate(value)
    return {"version": version, "items": list(items), "gauss": gauss}


def _python_filled(value: Any, tree: Tree, decode: Decoder) -> random.Random:
    inner = _inner(tree)
    items, gauss = _words(inner, "items", WORDS + 1), inner.get("gauss")
    if gauss is not None and type(gauss) is not float:
        raise WireError("A generator's state isn't one.")
    made = random.Random() if value is None else value  # noqa: S311 - a test's, not a secret
    if _is_asked(value, decode):
        _check(_is_twisted(random.Random.getstate(made)[1], items) and _is_left(gauss))
    try:
        random.Random.setstate(made, (whole(inner, "version", 3, 3), tuple(items), gauss))
    except (TypeError, ValueError):
        raise WireError("A generator's state isn't one.") from None
    return made


def _python_stands(value: random.Random) -> bytes:
    return repr(random.Random.getstate(value)).encode()


def _is_numpy(kind: str) -> Any:
    def takes(value: Any) -> bool:
        numpy = sys.modules.get("numpy")
        if numpy is None or type(value) is not getattr(numpy.random, kind):
            return False
        return kind == "RandomState" or type(value.bit_generator).__name__ in STREAMS

    return takes


def _numpy_said(value: Any, _encode: Encoder) -> Any:
    state = value.bit_generator.state
    name = state["bit_generator"]
    numbers = [str(state["state"][part]) for part in STREAMS[name]]  # of 128 bits: more than JSON's readers hold
    return {"name": name, "state": numbers, "has": state["has_uint32"], "rest": state["uinteger"]}


def _numpy_filled(value: Any, tree: Tree, decode: Decoder) -> Any:
    inner = _inner(tree)
    name = text(inner, "name")
    if name not in STREAMS:
        raise WireError("A generator is of no kind that is carried.")
    numbers = [_long(item) for item in listed(inner, "state", len(STREAMS[name]))]
    if len(numbers) != len(STREAMS[name]):
        raise WireError("A generator's state isn't one.")
    numpy = importlib.import_module("numpy")
    made = numpy.random.Generator(getattr(numpy.random, name)(0)) if value is None else value
    new = {
        "bit_generator": name,
        "state": dict(zip(STREAMS[name], numbers, strict=True)),
        "has_uint32": whole(inner, "has", 0, 1),
        "uinteger": whole(inner, "rest", 0, 1 << 32),
    }
    if _is_asked(value, decode):
        _check(_is_stepped(made.bit_generator, new))
    made.bit_generator.state = new
    return made


def _legacy_said(value: Any, _encode: Encoder) -> Any:
    _, keys, place, has_gauss, gauss = value.get_state()
    return {"items": keys.tolist(), "place": int(place), "has": int(has_gauss), "gauss": float(gauss)}


def _legacy_filled(value: Any, tree: Tree, decode: Decoder) -> Any:
    inner = _inner(tree)
    if type(gauss := inner.get("gauss")) is not float:
        raise WireError("A generator's state isn't one.")
    numpy = importlib.import_module("numpy")
    made = numpy.random.RandomState(0) if value is None else value
    place, has = whole(inner, "place", 0, WORDS), whole(inner, "has", 0, 1)
    items = _words(inner, "items", WORDS)
    if _is_asked(value, decode):
        _, keys, stood, *_ = made.get_state()
        _check(_is_twisted((*keys.tolist(), int(stood)), [*items, place]) and _is_left(gauss))
    made.set_state(("MT19937", items, place, has, gauss))
    return made


def _legacy_stands(value: Any) -> bytes:
    _, keys, *rest = value.get_state()
    return bytes(keys.tobytes()) + repr(rest).encode()


def _is_asked(value: Any, decode: Decoder) -> bool:
    """Is it one that both sides have, in the judge?"""
    return value is not None and not decode.crossing.objects_first


def _check(follows: bool) -> None:
    if not follows:
        raise UnsupportedError(CHOSEN)


def _is_left(gauss: float | None) -> bool:
    return gauss is None or abs(gauss) < WIDEST


def _is_twisted(before: Sequence[int], now: Sequence[int]) -> bool:
    """Does drawing lead from one state of Mersenne's twister to the other?

    >>> one, other = random.Random(3), random.Random(3)
    >>> _ = [other.random() for _ in range(5000)]
    >>> before, now = (each.getstate()[1] for each in (one, other))
    >>> _is_twisted(before, now), _is_twisted(now, before), _is_twisted(before, (0,) * 624 + (624,))
    (True, False, False)
    """
    keys, place = tuple(now[:WORDS]), now[WORDS]
    if tuple(before[:WORDS]) == keys:
        return place >= before[WORDS]
    walker = random.Random()  # noqa: S311 - it goes where another has been
    walker.setstate((3, (*before[:WORDS], WORDS), None))
    for _ in range(BLOCKS):
        walker.getrandbits(32 * WORDS)
        if walker.getstate()[1][:WORDS] == keys:
            return True
    return False


def _is_stepped(stands: Any, new: dict[str, Any]) -> bool:
    """Does drawing lead from where a bit generator stands to this state, and is the half that is left one of those?"""
    before, name = stands.state, new["bit_generator"]
    if before["bit_generator"] != name or before["state"]["inc"] != new["state"]["inc"]:
        return False
    count = _distance(before["state"]["state"], new["state"]["state"], STEPS[name], new["state"]["inc"])
    if count > DRAWN:
        return False
    if not new["has_uint32"] or (before["has_uint32"] and new["uinteger"] == before["uinteger"]):
        return True
    walker = type(stands)(0)
    walker.state = before
    drawn = walker.advance(max(count - HALVES, 0)).random_raw(min(count, HALVES))
    return bool(((drawn >> 32) == new["uinteger"]).any())


def _distance(before: int, now: int, factor: int, plus: int) -> int:
    """How many steps `x * factor + plus` lead from one number to the other, each bit from what is left of it."""
    count, bit = 0, 1
    while before != now and bit < BITS:
        if (before ^ now) & bit:
            before = (before * factor + plus) % BITS
            count |= bit
        plus = (factor + 1) * plus % BITS
        factor, bit = factor * factor % BITS, bit << 1
    return count if before == now else BITS


def put(value: Any, other: Any) -> None:
    """Let a generator stand where another one stands."""
    if isinstance(value, random.Random):
        value.setstate(other.getstate())
    elif type(value).__name__ == "RandomState":
        value.set_state(other.get_state())
    else:
        value.bit_generator.state = other.bit_generator.state


def is_generator(value: Any) -> bool:
    """Is it one of those that cross?"""
    return isinstance(value, random.Random) or _is_numpy("Generator")(value) or _is_numpy("RandomState")(value)


def _inner(tree: Tree) -> dict[str, Any]:
    inner = tree.get("v")
    if not isinstance(inner, dict):
        raise WireError("A generator isn't an object.")
    return inner


def _words(tree: Tree, name: str, count: int) -> list[int]:
    found = listed(tree, name, count)
    if len(found) != count or any(type(item) is not int or not 0 <= item < 1 << 32 for item in found):
        raise WireError("A generator's state isn't one.")
    return found


def _long(item: Any) -> int:
    if type(item) is not str or not item.isascii() or not item.isdigit() or len(item) > 40 or int(item) >= BITS:
        raise WireError("A generator's state isn't one.")
    return int(item)


share("Random", (random.Random,), InPlace(_python_said, _python_filled, _python_stands))
share(
    "Generator",
    (),
    InPlace(_numpy_said, _numpy_filled, lambda value: repr(value.bit_generator.state).encode()),
    _is_numpy("Generator"),
)
share(
    "RandomState",
    (),
    InPlace(_legacy_said, _legacy_filled, _legacy_stands),
    _is_numpy("RandomState"),
)
