"""Random generators, which both sides may draw from: where they stand crosses, and where they stand afterwards."""

from __future__ import annotations

import importlib
import random
import sys
from typing import Any

from nbjudge.bridge.values.shared import InPlace, share
from nbjudge.bridge.values.table import Decoder, Encoder, Tree
from nbjudge.errors import WireError
from nbjudge.wire import listed, text, whole

WORDS = 624  # of Mersenne's twister
STREAMS = {"PCG64": ("state", "inc"), "PCG64DXSM": ("state", "inc")}
BITS = 1 << 128


def _python_said(value: random.Random, _encode: Encoder) -> Any:
    version, items, gauss = random.Random.getstate(value)
    return {"version": version, "items": list(items), "gauss": gauss}


def _python_filled(value: Any, tree: Tree, _decode: Decoder) -> random.Random:
    inner = _inner(tree)
    items, gauss = _words(inner, "items", WORDS + 1), inner.get("gauss")
    if gauss is not None and type(gauss) is not float:
        raise WireError("A generator's state isn't one.")
    made = random.Random() if value is None else value  # noqa: S311 - a test's, not a secret
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


def _numpy_filled(value: Any, tree: Tree, _decode: Decoder) -> Any:
    inner = _inner(tree)
    name = text(inner, "name")
    if name not in STREAMS:
        raise WireError("A generator is of no kind that is carried.")
    numbers = [_long(item) for item in listed(inner, "state", len(STREAMS[name]))]
    if len(numbers) != len(STREAMS[name]):
        raise WireError("A generator's state isn't one.")
    numpy = importlib.import_module("numpy")
    made = numpy.random.Generator(getattr(numpy.random, name)(0)) if value is None else value
    made.bit_generator.state = {
        "bit_generator": name,
        "state": dict(zip(STREAMS[name], numbers, strict=True)),
        "has_uint32": whole(inner, "has", 0, 1),
        "uinteger": whole(inner, "rest", 0, 1 << 32),
    }
    return made


def _legacy_said(value: Any, _encode: Encoder) -> Any:
    _, keys, place, has_gauss, gauss = value.get_state()
    return {"items": keys.tolist(), "place": int(place), "has": int(has_gauss), "gauss": float(gauss)}


def _legacy_filled(value: Any, tree: Tree, _decode: Decoder) -> Any:
    inner = _inner(tree)
    if type(gauss := inner.get("gauss")) is not float:
        raise WireError("A generator's state isn't one.")
    numpy = importlib.import_module("numpy")
    made = numpy.random.RandomState(0) if value is None else value
    place, has = whole(inner, "place", 0, WORDS), whole(inner, "has", 0, 1)
    made.set_state(("MT19937", _words(inner, "items", WORDS), place, has, gauss))
    return made


def _legacy_stands(value: Any) -> bytes:
    _, keys, *rest = value.get_state()
    return bytes(keys.tobytes()) + repr(rest).encode()


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
