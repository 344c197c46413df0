"""Every kind of value crosses by value through one table; what isn't one of them is refused; a new kind is one file."""

from __future__ import annotations

import collections
import copy
import datetime
import importlib.util
import io
import shutil
import subprocess
import sys
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nbjudge
from nbjudge.bridge import values
from nbjudge.bridge.values.shared import Containers, Copies
from nbjudge.errors import WireError
from nbjudge_tests.two_sides import Lend, crossed, lend, pair

__all__ = ["lend", "pair"]  # fixtures

Point = collections.namedtuple("Point", "x y")
NOW = datetime.datetime(2026, 2, 3, 4, 5, 6, 7)


@pytest.mark.parametrize(
    "value",
    [
        *(Fraction(-1, 3), Decimal("1.50"), Decimal("-1E+20"), Decimal("Infinity"), bytearray(b"xy")),
        *(NOW, NOW.date(), NOW.time(), NOW.astimezone(datetime.timezone(datetime.timedelta(hours=-3)))),
        *(datetime.timedelta(-1, 3), datetime.UTC, datetime.time(1, tzinfo=datetime.UTC)),
        *(collections.Counter("aab"), collections.OrderedDict(b=1, a=2), collections.deque([1, 2], maxlen=3)),
        *(Point(1, 2), [Point(Decimal(1), NOW)], {NOW.date(): Fraction(1, 2)}, NotImplemented, slice(1, None)),
        *(
            np.float64(1.5),
            np.int8(-3),
            np.bool_(True),
            np.float32(0.1),
            np.float16("nan"),
            np.complex64(1j),
            np.datetime64("2026-01-01"),
            np.timedelta64(3, "s"),
        ),
    ],
    ids=repr,
)
def test_a_value_arrives_as_what_it_was(value: Any) -> None:
    found = crossed(value)
    assert found == value or repr(value) == "np.float16(nan)"
    assert type(found).__name__ == type(value).__name__
    assert repr(found) == repr(value)


@pytest.mark.parametrize(
    "array",
    [
        *(np.arange(6.0).reshape(2, 3).T, np.zeros((0, 3)), np.array([True, False]), np.array(3, dtype=">i4")),
        *(np.array(["2026-01-01", "NaT"], dtype="datetime64[D]"), np.array([1j]), np.arange(3, dtype="uint64")[::-1]),
    ],
    ids=str,
)
def test_an_array_arrives_as_what_it_was(array: Any) -> None:
    found = crossed(array)
    assert (found.shape, found.dtype.name, found.flags.writeable) == (array.shape, array.dtype.name, True)
    assert np.array_equal(found, array, equal_nan=array.dtype.kind in "fcM")


@pytest.mark.parametrize("ends", [None, "", "\n", "\r\n"])
def test_a_file_in_memory_is_held_by_both_sides(lend: Lend, ends: str | None) -> None:
    def use(file: Any) -> str:
        first = str(file.readline())
        file.seek(0, io.SEEK_END)
        file.write("more\n")
        return first

    here, same = (io.StringIO("a\rb\r\nc", newline=ends) for _ in range(2))
    here.read(1), same.read(1)
    assert lend(use)(here) == use(same)
    assert (here.getvalue(), here.tell()) == (same.getvalue(), same.tell())
    binary = io.BytesIO(b"\0\xff")
    lend(lambda file: file.close() if file.read() == b"\0\xff" else None)(binary)
    assert binary.closed


def test_a_table_s_defaults_and_a_named_zone(lend: Lend) -> None:
    table = lend(lambda: collections.defaultdict(list, a=[1]))()
    assert (type(table), table["a"], table["new"]) == (collections.defaultdict, [1], [])
    if importlib.util.find_spec("zoneinfo") is not None:
        import zoneinfo

        try:
            zone = zoneinfo.ZoneInfo("Europe/Berlin")
        except zoneinfo.ZoneInfoNotFoundError:
            pytest.skip("no time zones are installed")
        assert crossed(NOW.replace(tzinfo=zone)) == NOW.replace(tzinfo=zone)  # the same moment, said by its offset


@pytest.mark.parametrize(
    "tree",
    [
        {"t": "Fraction", "v": [1, 0]},
        {"t": "Fraction", "v": [1, -2]},
        {"t": "Fraction", "v": [True, 2]},
        {"t": "Decimal", "v": "1e9999999"},
        {"t": "Decimal", "v": "__import__('os')"},
        {"t": "Decimal", "v": "9" * 6000},
        {"t": "date", "v": "yesterday"},
        {"t": "datetime", "v": 3},
        {"t": "timedelta", "v": [1 << 60, 0, 0]},
        {"t": "timezone", "v": [{"t": "timedelta", "v": [3, 0, 0]}]},
        {"t": "deque", "v": [1, 2, 3]},
        {"t": "deque", "v": [-1]},
        {"t": "deque", "v": []},
        {"t": "deque", "v": [1 << 99]},
        {"t": "defaultdict", "v": [3]},
        {"t": "Counter", "v": [[{"t": "list", "v": []}, 1]]},
        {"t": "OrderedDict", "v": {"a": 1}},
        {"t": "bytearray", "v": "%"},
        {"t": "int", "v": 3},
        {"t": "None"},
        {"t": "same", "id": 3},
        {"t": "scalar", "dtype": "float64", "shape": [2], "start": 0, "size_bytes": 16},
        {"t": "scalar", "dtype": "object", "v": 1},
        {"t": "scalar", "dtype": "int8", "v": 300},
        {"t": "scalar", "dtype": "float64", "v": "1"},
        {"t": "scalar", "dtype": "datetime64[s]", "v": 1},
        {"t": "array", "id": 1, "v": {"dtype": "float64", "shape": [1 << 30], "start": 0, "size_bytes": 16}},
        {"t": "array", "id": 1, "v": {"dtype": "float64", "shape": [2], "start": 8, "size_bytes": 16}},
        {"t": "array", "id": 1, "v": {"dtype": "datetime64[25s]", "shape": [], "start": 0, "size_bytes": 8}},
        {"t": "DataFrame", "index": 3, "columns": 3, "v": []},
        {"t": "Timestamp", "v": "now"},
        {"t": "record", "name": "R", "fields": ["__class__"], "options": [True, False, False], "v": [3]},
        {"t": "StringIO", "id": 1, "v": {"closed": 0}},
        {"t": "StringIO", "id": 1, "v": {"closed": False, "at": 0, "text": "a", "ends": "a"}},
        {"t": "StringIO", "id": 1, "v": {"closed": False, "at": -1, "text": "a", "ends": None}},
        {"t": "BytesIO", "id": 1, "v": {"closed": False, "at": 0, "bytes": "a"}},
        {"t": "Series", "index": None},
        {"t": "picture", "id": 1, "v": {"mode": "RGB", "size": [2, 2], "start": 0, "size_bytes": 11, "palette": []}},
        {"t": "picture", "id": 1, "v": {"mode": "F", "size": [2, 2], "start": 0, "size_bytes": 16, "palette": []}},
        {
            "t": "picture",
            "id": 1,
            "v": {"mode": "L", "size": [1 << 20] * 2, "start": 0, "size_bytes": 16, "palette": []},
        },
        {"t": "picture", "id": 1, "v": {"mode": "P", "size": [4, 4], "start": 0, "size_bytes": 16, "palette": ["red"]}},
        {"t": "picture", "id": 1, "v": {"mode": "L", "size": [4], "start": 0, "size_bytes": 4, "palette": []}},
    ],
    ids=str,
)
def test_what_is_no_value_of_ours_is_refused(tree: Any) -> None:
    with pytest.raises(WireError):
        values.decode(tree, values.Crossing(Containers(1), Copies(), values.Body(bytes(16))))


def test_a_tree_is_only_as_deep_as_a_frame() -> None:
    tree: Any = {"t": "tuple", "v": []}
    for _ in range(1000):
        tree = {"t": "tuple", "v": [tree]}
    with pytest.raises(WireError):
        values.decode(tree, values.Crossing(Containers(1), Copies()))


def test_a_copy_that_is_changed_in_place_isn_t_graded_rather_than_failed(lend: Lend) -> None:
    letters = bytearray(b"a")
    assert lend(lambda given: sum(given))(letters) == 97
    with pytest.raises(values.UnsupportedError, match="a bytearray that was changed in place"):
        lend(lambda given: given.append(2))(letters)


def test_a_copy_that_the_student_goes_on_to_change_isn_t_graded_either(lend: Lend) -> None:
    seen = bytearray()
    look, count = lend(lambda: seen), lend(seen.append)
    assert look() == b""
    with pytest.raises(values.UnsupportedError, match="a bytearray that was changed in place"):
        count(1)


@pytest.mark.parametrize(
    ("value", "change"),
    [
        (collections.deque([1, 2], maxlen=2), lambda given: given.append(3)),
        (collections.Counter("ab"), lambda given: given.update("bc")),
        (collections.defaultdict(list, a=[1]), lambda given: given["b"].append(2)),
        (collections.OrderedDict(a=1, b=2), lambda given: given.move_to_end("a")),
    ],
    ids=["deque", "Counter", "defaultdict", "OrderedDict"],
)
def test_a_container_of_the_standard_library_s_is_changed_on_both_sides(value: Any, change: Any, lend: Lend) -> None:
    want = copy.deepcopy(value)
    change(want)
    lend(change)(value)
    assert (value, list(value), type(value)) == (want, list(want), type(want))


def test_an_array_of_odd_things_stays_over_there(lend: Lend) -> None:
    with pytest.raises(values.UnsupportedError):
        crossed(np.array([object()]))
    with pytest.raises(values.UnsupportedError, match="items"):
        lend(lambda: np.lib.stride_tricks.as_strided(np.zeros(1), (1 << 30,), (0,)))()


def test_pandas_crosses_by_its_columns(lend: Lend) -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(
        {"x": [1, 2], "y": ["a", None], "t": pd.to_datetime(["2026-01-01", "2026-02-03"]), "z": [True, False]}
    )
    whole = pd.array([1, None], dtype="Int64")
    for each in (frame, frame.set_index("t"), frame.groupby(["x", "z"]).agg(n=("x", "sum")), pd.DataFrame({})):
        pd.testing.assert_frame_equal(crossed(each), each)
    for each in (frame["x"], pd.Series(whole, name="w"), pd.Series([], dtype="float64"), frame.x.rename(("a", 1))):
        pd.testing.assert_series_equal(crossed(each), each)
    for each in (pd.RangeIndex(3), pd.Index(["a"], name="n"), pd.MultiIndex.from_tuples([(1, "a"), (2, "b")])):
        pd.testing.assert_index_equal(crossed(each), each)
    for each in (pd.Timestamp("2026-01-02 03:04:05.123456789"), pd.Timestamp(NOW, tz="UTC"), pd.Timedelta("3s")):
        assert crossed(each) == each
    assert crossed([pd.NaT, pd.NA]) == [pd.NaT, pd.NA] or crossed([pd.NaT, pd.NA])[0] is pd.NaT
    kinds = frame["y"].astype("category")
    pd.testing.assert_series_equal(crossed(kinds), kinds)
    with pytest.raises(values.UnsupportedError, match="dtype Sparse"):
        crossed(frame["x"].astype("Sparse[int64]"))
    with pytest.raises(values.UnsupportedError, match="set objects"):
        crossed(pd.Series([{1}]))
    lend(lambda given: given.insert(0, "new", 1))(frame)
    assert list(frame["new"]) == [1, 1]
    nearest = lend(lambda: type("Own", (pd.DataFrame,), {"equals": lambda *_: True})({"x": [1]}))()
    assert type(nearest) is pd.DataFrame
    assert not nearest.equals(pd.DataFrame({"x": [2]}))


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr", "HSV", "I", "I;16"])
def test_a_picture_crosses_by_its_pixels(mode: str) -> None:
    image = pytest.importorskip("PIL.Image")
    picture = image.fromarray(np.arange(18, dtype="uint8").reshape(2, 3, 3)).convert("L" if mode == "I;16" else mode)
    picture = image.frombytes(mode, (3, 2), bytes(range(12))) if mode == "I;16" else picture
    assert crossed(picture) == picture


def test_a_picture_is_changed_in_place(lend: Lend) -> None:
    image = pytest.importorskip("PIL.Image")
    picture = image.new("RGB", (4, 2))
    lend(lambda given: given.putpixel((0, 0), (1, 2, 3)))(picture)
    assert picture.getpixel((0, 0)) == (1, 2, 3)
    lend(lambda given: given.thumbnail((2, 2)))(picture)
    assert picture.size == (2, 1)
    own = type("Own", (image.Image,), {"getpixel": lambda *_: 7})()
    own.__setstate__(image.new("L", (1, 1)).__getstate__())
    nearest = lend(lambda: own)()
    assert type(nearest) is image.Image
    assert nearest.getpixel((0, 0)) == 0
    broken = image.open(io.BytesIO(b"P6 2 2 255\n"))
    with pytest.raises(values.UnsupportedError, match="can't be read"):
        lend(lambda: broken)()


def test_a_class_that_is_only_named_like_a_plain_one_stands_in_no_column() -> None:
    pytest.importorskip("pandas")
    index = {"t": "Index", "names": [None], "range": {"t": "range", "v": [0, 1, 1]}}
    tree = {"t": "Series", "name": None, "index": index, "v": {"dtype": "object", "v": [{"t": "odd"}]}}
    with pytest.raises(WireError):
        values.decode(tree, values.Crossing(Containers(1), Copies()), lambda *_: type("str", (), {})())


# ---------------------------------------------------------------------- the room


def copied(folder: Path) -> Path:
    """The package, copied: what it imports is found there first."""
    place = folder / "nbjudge"
    shutil.copytree(Path(nbjudge.__file__).parent, place, ignore=shutil.ignore_patterns("__pycache__"))
    return place / "bridge" / "values"


def said(folder: Path, what: str) -> str:
    code = (
        f"from nbjudge.bridge import values\n"
        f"from nbjudge.bridge.values.shared import Containers, Copies\n"
        f"crossing = values.Crossing(Containers(0), Copies())\n"
        f"try: print(values.decode(values.encode({what}, crossing), crossing))\n"
        f"except values.UnsupportedError as error: print('refused:', error)"
    )
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(folder)!r})\n{code}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_a_kind_of_value_is_one_file(tmp_path: Path) -> None:
    """Without `datetime.py` a date isn't carried; with a file for an address, and no other change, one is."""
    room = copied(tmp_path)
    what = "__import__('datetime').date(2026, 2, 3)"
    assert said(tmp_path, what) == "2026-02-03"
    (room / "standard" / "datetime.py").rename(tmp_path / "datetime.txt")
    assert said(tmp_path, what) == "refused: an object of class date"
    (tmp_path / "datetime.txt").rename(room / "standard" / "datetime.py")
    assert said(tmp_path, what) == "2026-02-03"
    what = "__import__('ipaddress').IPv4Address('10.0.0.7')"
    assert said(tmp_path, what) == "refused: an object of class IPv4Address"
    (room / "standard" / "addresses.py").write_text(
        "from ipaddress import IPv4Address\n"
        "from nbjudge.bridge.values.table import ValueKind, known\n"
        "from nbjudge.wire import text\n"
        "known(ValueKind('address', (IPv4Address,), lambda value, encode: {'t': 'address', 'v': str(value)},\n"
        "    lambda tree, decode: IPv4Address(text(tree, 'v'))))\n"
    )
    assert said(tmp_path, what) == "10.0.0.7"


def test_nobody_names_the_file_of_a_kind() -> None:
    room = Path(nbjudge.__file__).parent
    texts = [path.read_text(encoding="utf-8") for path in room.rglob("*.py")]
    for kind in ("standard.datetime", "standard.collections", "packages.frames", "scalars"):
        folder, _dot, name = f"values.{kind}".rpartition(".")
        assert not [text for text in texts if f"{folder}.{name}" in text or f"{folder} import {name}" in text]


@pytest.mark.parametrize("room", ["peer", "carry", "values", "handles", "raised", "objects", "around.surroundings"])
def test_only_the_room_of_tensors_loads_torch(room: str) -> None:
    code = f"import sys, nbjudge.bridge.{room}; print(sorted({{'torch', 'numpy', 'pandas'}} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
