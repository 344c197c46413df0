from __future__ import annotations

import functools
import json
import math
import re
import socket
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nbjudge.bridge import values
from nbjudge.bridge.peer import Peer
from nbjudge.bridge.torch.records import ITEM_BYTES, read_storage, read_tensor, read_window
from nbjudge.bridge.values import Body, table
from nbjudge.bridge.values.shared import Containers, Copies
from nbjudge.errors import WireError
from nbjudge.wire import BODY_BYTES, DEPTH, HEADER_BYTES, PacketReader, Pipe, listed, pack, parse_header, unpack

few = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT
TREES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4))
HEADERS = st.dictionaries(TEXT, TREES, max_size=5)


@few
@given(HEADERS, st.binary(max_size=200))
def test_what_is_packed_is_unpacked(header: dict[str, Any], body: bytes) -> None:
    frame = unpack(pack(header, body))
    assert (frame.header, frame.body) == (header, body)


@few
@given(st.lists(st.tuples(HEADERS, st.binary(max_size=50)), max_size=4), st.data())
def test_a_stream_may_be_cut_anywhere(frames: list[tuple[dict[str, Any], bytes]], data: st.DataObject) -> None:
    stream = b"".join(pack(header, body) for header, body in frames)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=5)))
    reader, found = PacketReader(), []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        reader.feed(stream[start:end])
        found += [(frame.header, frame.body) for frame in reader.packets()]
    assert found == frames


@few
@given(st.binary(max_size=300))
def test_random_bytes_are_a_frame_or_a_wire_error(data: bytes) -> None:
    for read in (unpack, parse_header, _stream):
        try:
            read(data)
        except WireError:
            continue


def _stream(data: bytes) -> None:
    reader = PacketReader()
    reader.feed(data)
    list(reader.packets())


@few
@given(HEADERS, st.binary(max_size=20), st.data())
def test_a_damaged_frame_is_a_frame_or_a_wire_error(header: dict[str, Any], body: bytes, data: st.DataObject) -> None:
    frame = bytearray(pack(header, body))
    for _ in range(data.draw(st.integers(1, 4))):
        frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    try:
        assert isinstance(unpack(bytes(frame)).header, dict)
    except WireError:
        return


@pytest.mark.parametrize(
    "header",
    [
        b"[]",
        b"3",
        b"",
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b'{"a": 1e999}',
        b'{"a": 1, "a": 2}',
        b'{"a": "\\ud800"}',
        b'{"a": "\xff"}',
        b'{"a": ' + b"[" * (DEPTH + 2) + b"]" * (DEPTH + 2) + b"}",
        b"[" * 100_000,
        b'{"a": ' + b"9" * 5000 + b"}",
        b'{"a": [' + b"[]," * (1 << 20) + b"[]]}",
    ],
    ids=[
        *("list", "number", "nothing", "nan", "infinity", "too large", "twice", "half a character", "not UTF-8"),
        *("deep", "very deep", "long number", "many parts"),
    ],
)
def test_a_header_that_is_not_ours_is_rejected(header: bytes) -> None:
    with pytest.raises(WireError):
        parse_header(header)


def test_a_list_may_be_as_long_as_a_header_holds() -> None:
    numbers = list(range(1_200_000))
    assert listed(unpack(pack({"v": numbers})).header, "v") == numbers


@pytest.mark.parametrize("value", [[[]] * ((1 << 20) + 1), [10**8] * (HEADER_BYTES // 8)], ids=["parts", "bytes"])
def test_what_the_other_side_would_reject_isn_t_sent(value: list[object]) -> None:
    """Its process would end as one that breaks the rules: a value that is too large is the caller's own trouble."""
    with pytest.raises(WireError):
        pack({"v": value})


@pytest.mark.parametrize(("header", "body"), [(HEADER_BYTES + 1, 0), (2, BODY_BYTES + 1), (0xFFFFFFFF, 0xFFFFFFFF)])
def test_lengths_are_rejected_before_anything_is_read(header: int, body: int) -> None:
    reader = PacketReader()
    reader.feed(struct.pack(">II", header, body))
    with pytest.raises(WireError, match="too large"):
        list(reader.packets())


SAID = "[5, 7.5]"
OF_TORCH = {"tensor", "data"}  # these need a whole conversation
FIELDS = (
    *("v", "at", "id", "is", "name", "names", "fields", "options", "dtype", "shape", "start", "size_bytes", "factory"),
    *("most", "version", "items", "gauss", "state", "has", "rest", "place", "range", "index", "columns", "class"),
)


@pytest.mark.parametrize("name", sorted(table._named.keys() - OF_TORCH))
@pytest.mark.parametrize("value", [SAID, [SAID], [[SAID, SAID]], {"v": SAID}, 57575757, [57575757]], ids=repr)
def test_what_is_wrong_is_said_without_what_came(name: str, value: Any) -> None:
    """It is told on the student's page before the date, and what came may be what a hidden test has asked."""
    tree = {"t": name, **dict.fromkeys(FIELDS, value)}
    said = ""
    try:
        values.decode(tree, values.Crossing(Containers(1), Copies()))
    except (WireError, values.UnsupportedError) as error:
        said = str(error)
    assert not re.search("5.*7.?5", said)


def test_a_frame_s_own_lengths_are_not_quoted() -> None:
    for lengths in ((4_000_057_575, 2), (2, 4_000_057_575)):
        with pytest.raises(WireError) as raised:
            unpack(struct.pack(">II", *lengths))
        assert "57575" not in str(raised.value)


def test_a_pipe_reads_whole_frames_and_notices_the_end() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        Pipe(theirs.fileno()).send({"op": "hello"}, b"body")
        theirs.send(struct.pack(">II", 2, 0))
        theirs.shutdown(socket.SHUT_WR)
        pipe = Pipe(ours.fileno())
        frame = pipe.receive()
        assert (frame.header, frame.body) == ({"op": "hello"}, b"body")
        with pytest.raises(EOFError):
            pipe.receive()


# ---------------------------------------------------------------------- values

KEYS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT | st.binary(max_size=9)
PLAIN = KEYS | st.floats() | st.complex_numbers() | st.just(...) | st.builds(range, st.integers(), st.integers())
VALUES = st.recursive(
    PLAIN,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(KEYS, inner, max_size=3)
        | st.sets(KEYS, max_size=3)
        | st.frozensets(KEYS, max_size=3)
    ),
    max_leaves=12,
)


def said(value: Any) -> Any:
    """The tree of a value that holds nothing but plain values and containers."""
    return values.encode(value, values.Crossing(Containers(0), Copies()))


def heard(tree: Any) -> Any:
    return values.decode(tree, values.Crossing(Containers(1), Copies()))


def exact(value: Any) -> Any:
    """A form in which equality means: same types, same values, NaN equal to itself, −0.0 unequal to 0.0."""
    if isinstance(value, float | complex | bytes | range):
        return repr(value)
    if isinstance(value, list | tuple):
        return (type(value).__name__, *(exact(item) for item in value))
    if isinstance(value, set | frozenset):
        return (type(value).__name__, frozenset(exact(item) for item in value))
    if isinstance(value, dict):
        return ("dict", tuple((exact(key), exact(item)) for key, item in value.items()))
    return (type(value).__name__, repr(value))


@few
@given(VALUES)
def test_values_keep_their_types(value: Any) -> None:
    tree = unpack(pack({"v": said(value)})).header["v"]
    assert exact(heard(tree)) == exact(value)


@few
@given(TREES)
def test_a_random_tree_is_a_plain_value_or_a_wire_error(tree: Any) -> None:
    try:
        found = heard(tree)
    except WireError:
        return
    assert exact(heard(said(found))) == exact(found)


def test_a_subclass_travels_as_what_it_is_made_of() -> None:
    class Liar(int):
        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = int.__hash__

    assert heard(said([Liar(3)])) != [4]


@pytest.mark.parametrize(
    "value",
    [object(), {object(): 1}, {("a", object())}, 1 << 15_000, functools.reduce(lambda deep, _: [deep], range(30), [])],
    ids=["object", "key", "item", "bits", "deep"],
)
def test_what_cannot_be_carried_says_so(value: Any) -> None:
    with pytest.raises(values.UnsupportedError):
        said(value)


# ---------------------------------------------------------------------- tensors

SIZES = st.integers(-2, 5)
WINDOWS = st.fixed_dictionaries(
    {
        "storage": st.integers(0, 1),
        "dtype": st.sampled_from([*ITEM_BYTES, "object", ""]),
        "shape": st.lists(SIZES, max_size=3),
        "stride": st.lists(SIZES, max_size=3),
        "offset": SIZES,
    }
)


@few
@given(WINDOWS)
def test_a_window_lies_inside_its_storage(tree: dict[str, Any]) -> None:
    try:
        window = read_window(tree, {0: 40})
    except WireError:
        return
    reached = [window.offset + 1]
    if math.prod(window.shape):
        reached = [1 + window.offset + sum((s - 1) * d for s, d in zip(window.shape, window.stride, strict=True))]
        assert reached[0] * ITEM_BYTES[window.dtype] <= 40
    assert min(*window.shape, *window.stride, window.offset, 0) == 0


@few
@given(st.dictionaries(st.sampled_from(["id", "start", "size_bytes"]), st.integers(-5, 50) | SCALARS))
def test_a_storage_lies_inside_its_frame(tree: dict[str, Any]) -> None:
    try:
        stored = read_storage(tree, 30)
    except WireError:
        return
    assert 0 <= stored.start <= stored.start + stored.size_bytes <= 30


RECORD = {
    "id": 1,
    "window": {"storage": 0, "dtype": "float32", "shape": [2], "stride": [1], "offset": 0},
    **{
        "counter": 1,
        "version": 0,
        "leaf": True,
        "requires_grad": False,
        "retains_grad": False,
        "parameter": False,
        "hooked": False,
        "hooked_after": False,
    },
    "history": None,
}


@pytest.mark.parametrize(
    "change",
    [
        {"id": -1},
        {"id": True},
        {"version": 1 << 40},
        {"leaf": 1},
        {"window": None},
        {"window": {**RECORD["window"], "shape": [1 << 30], "stride": [0]}},
        {"window": {**RECORD["window"], "dtype": "int64"}, "requires_grad": True},
        {"history": {"link": 1, "name": "x", "inputs": [], "saves": False}},
    ],
    ids=lambda change: json.dumps(change)[:40],
)
def test_a_record_that_contradicts_itself_is_rejected(change: dict[str, Any]) -> None:
    assert read_tensor(RECORD, {0: 8}).window.shape == (2,)
    with pytest.raises(WireError):
        read_tensor({**RECORD, **change}, {0: 8})


# ---------------------------------------------------------------------- tensors' numbers

SHOWN = {"storage": 101, "dtype": "float32", "shape": [2, 2], "stride": [2, 1], "offset": 0}
UNSET = dict.fromkeys(("requires_grad", "retains_grad", "parameter", "hooked", "hooked_after"), False)
TOLD = {"id": 201, "window": SHOWN, "counter": 201, "version": 0, "leaf": True, **UNSET, "history": None}
KEPT = {"id": 101, "start": 0, "size_bytes": 16, "over": []}
NO_NUMBERS = (-1, 1 << 40, 1 << 62, 1 << 64, True, 0.5, None, "1", [1], 1e300)


def tell(tmp_path: Path, storage: dict[str, Any], record: dict[str, Any], body: bytes = bytes(64)) -> None:
    """A judge hears of one tensor."""
    with (tmp_path / "nobody").open("wb") as pipe:
        part = Peer(Pipe(pipe.fileno()), side=0).parts["tensors"]
        gone: dict[str, Any] = {"tensors": [], "storages": [], "links": []}
        with part.pinned():
            part.hear({"gone": gone, "storages": [storage], "tensors": [record], "grads": []}, Body(body))


def test_a_tensor_is_tell(tmp_path: Path) -> None:
    tell(tmp_path, KEPT, TOLD)


@pytest.mark.parametrize("number", NO_NUMBERS, ids=repr)
@pytest.mark.parametrize("name", ["id", "start", "size_bytes"])
def test_a_storage_s_numbers_are_numbers(name: str, number: Any, tmp_path: Path) -> None:
    with pytest.raises(WireError):
        tell(tmp_path, {**KEPT, name: number}, TOLD)


@pytest.mark.parametrize("number", [*NO_NUMBERS, [-1, 1], [2, -1], [1 << 30, 1 << 30], [True, 1], [2.0, 1], [1] * 99])
@pytest.mark.parametrize("name", ["storage", "dtype", "shape", "stride", "offset"])
def test_so_are_a_window_s(name: str, number: Any, tmp_path: Path) -> None:
    with pytest.raises(WireError):
        tell(tmp_path, KEPT, {**TOLD, "window": {**SHOWN, name: number}})


@pytest.mark.parametrize(
    "more",
    [
        {"id": 200},
        {"version": 1 << 40},
        {"version": -1},
        {"window": {**SHOWN, "offset": 1}},
        {"window": {**SHOWN, "stride": [1 << 39, 1]}},
        {"window": {**SHOWN, "dtype": "complex128"}},
        {"window": {**SHOWN, "dtype": "object"}},
        {"window": {**SHOWN, "dtype": "bool"}},
        {"leaf": False, "history": {"link": 301, "name": "\0", "inputs": [], "saves": False}},
        {"leaf": False, "history": {"link": -1, "name": "Mul", "inputs": [], "saves": False}},
    ],
    ids=str,
)
def test_no_tensor_takes_another_s_number_reaches_beyond_its_storage_or_holds_what_is_neither_true_nor_false(
    more: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(WireError):
        tell(tmp_path, KEPT, TOLD | more, b"\2" * 64)


def test_nor_does_a_storage(tmp_path: Path) -> None:
    with pytest.raises(WireError):
        tell(tmp_path, {**KEPT, "id": 100}, {**TOLD, "window": {**SHOWN, "storage": 100}})
