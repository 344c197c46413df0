"""pandas: series, frames, indices and single times, as columns of plain items. Never pickled; pandas may be missing.

What has a time zone, a frequency or two ends crosses as its numbers and what they mean; nothing of a subclass is asked.
"""

from __future__ import annotations

import datetime
import importlib
import re
import sys
import zoneinfo
from collections.abc import Callable, Mapping
from typing import Any

from nbjudge.bridge.values import arrays
from nbjudge.bridge.values.shared import Containers, Copies, InPlace, share
from nbjudge.bridge.values.table import (
    Crossing,
    Decoder,
    Encoder,
    Tree,
    UnsupportedError,
    ValueKind,
    key,
    known,
    package_of,
)
from nbjudge.errors import WireError
from nbjudge.wire import listed, text

LISTED = frozenset(
    {
        *("object", "str", "string", "boolean", "Float32", "Float64"),
        *("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64"),
    }
)
COLUMNS = 1 << 14
SHARED = ("Series", "DataFrame")
REGULAR = ("DatetimeIndex", "TimedeltaIndex")  # which may have a frequency
HOMES = ("builtins", "decimal", "fractions", "datetime", "pandas")  # no class of the other side's is from there
PLAIN = (
    *("NoneType", "bool", "int", "float", "str", "complex", "bytes", "Decimal", "Fraction", "date", "time", "datetime"),
    *("timedelta", "Timestamp", "Timedelta", "Period", "Interval", "NaTType", "NAType"),
)
UNITS = ("s", "ms", "us", "ns")
CLOSED = ("left", "right", "both", "neither")
MOST = (1 << 63) - 1
_FREQUENCY = re.compile(r"-?\d{0,9}[A-Za-z]{1,9}(-[A-Za-z]{1,9}){0,2}", re.ASCII)


def _is(*names: str) -> Callable[[Any], bool]:
    """Is a value's type one of these of pandas's own, or derived from one?"""

    def takes(value: Any) -> bool:
        if "pandas" not in sys.modules:
            return False
        bases = type(value).__mro__
        return any(base.__name__ in names and package_of(base) == "pandas" for base in bases)

    return takes


def _is_plain(item: Any) -> bool:
    return arrays.is_number(item) or (type(item).__name__ in PLAIN and package_of(type(item)) in HOMES)


def _is_numeric(dtype: str) -> bool:
    return dtype in arrays.NUMBERS or bool(arrays.TIMES.fullmatch(dtype))


def _plain(value: Any) -> Any:
    """A series or frame of pandas' own on what one of a subclass holds."""
    own = next(base for base in type(value).__mro__ if base.__name__ in SHARED and package_of(base) == "pandas")
    return value if type(value) is own else own(value)


def _column(values: Any, encode: Encoder) -> dict[str, Any]:
    held = values if _is_array(values) else values.array
    kind = next((kind for kind in KINDS if isinstance(held.dtype, getattr(sys.modules["pandas"], kind))), None)
    return _items(values, encode) if kind is None else KINDS[kind][0](held, encode) | {"dtype": kind}


def _row(tree: Any, decode: Decoder) -> Any:
    """The numbers of a column; WireError where they are none of one."""
    numbers = arrays.heard(tree.get("v"), decode)
    if numbers.ndim != 1:
        raise WireError("A column isn't one row of numbers.")
    return numbers


def _category(held: Any, encode: Encoder) -> dict[str, Any]:
    codes, kinds = arrays.said(held.codes.astype("int64"), encode), _column(held.categories, encode)
    return {"v": codes, "categories": kinds, "ordered": bool(held.ordered)}


def _category_heard(tree: Any, decode: Decoder) -> Any:
    codes, kinds = _row(tree, decode), _column_heard(tree.get("categories"), decode)
    ordered = tree.get("ordered") is True
    return _made(lambda pandas: pandas.Categorical.from_codes(codes, pandas.Index(kinds), ordered=ordered))


def _zoned(held: Any, encode: Encoder) -> dict[str, Any]:
    return {"v": arrays.said(held.tz_convert(None).to_numpy(), encode), "zone": encode(_zone(held.tz))}


def _zoned_heard(tree: Any, decode: Decoder) -> Any:
    times, zone = _row(tree, decode), _zone_heard(tree, decode)
    return _made(lambda pandas: pandas.DatetimeIndex(times).tz_localize("UTC").tz_convert(zone).array)


def _zone(zone: Any) -> Any:
    """A zone of Python's own; one of pytz's by its name."""
    name = getattr(zone, "zone", None)
    return zoneinfo.ZoneInfo(name) if type(name) is str else zone


def _zone_heard(tree: Any, decode: Decoder) -> Any:
    if not isinstance(zone := decode(tree.get("zone")), datetime.timezone | zoneinfo.ZoneInfo):
        raise WireError("A time has no zone.")
    return zone


def _periods(held: Any, encode: Encoder) -> dict[str, Any]:
    return {"v": arrays.said(held.astype("int64"), encode), "freq": _frequency(held.freqstr)}


def _periods_heard(tree: Any, decode: Decoder) -> Any:
    ordinals, frequency = _row(tree, decode), _frequency_heard(tree)
    return _made(lambda pandas: pandas.PeriodIndex.from_ordinals(ordinals, freq=frequency).array)


def _intervals(held: Any, encode: Encoder) -> dict[str, Any]:
    return {"v": [_column(end, encode) for end in (held.left, held.right)], "closed": held.closed}


def _intervals_heard(tree: Any, decode: Decoder) -> Any:
    ends = [_column_heard(end, decode) for end in listed(tree, "v", 2)]
    closed = _closed_heard(tree)
    return _made(lambda pandas: pandas.arrays.IntervalArray.from_arrays(*ends, closed=closed))


def _frequency(said: str) -> str:
    if not _FREQUENCY.fullmatch(said):
        raise UnsupportedError(f"times with the frequency {said[:80]}")
    return said


def _frequency_heard(tree: Any) -> str:
    if not _FREQUENCY.fullmatch(said := text(tree, "freq")):
        raise WireError("A frequency isn't one.")
    return said


def _closed_heard(tree: Any) -> str:
    if (closed := text(tree, "closed")) not in CLOSED:
        raise WireError("An interval is closed nowhere.")
    return closed


def _items(values: Any, encode: Encoder) -> dict[str, Any]:
    dtype = str(values.dtype)
    if _is_numeric(dtype):
        return {"dtype": dtype, "v": arrays.said(values.to_numpy(), encode)}
    items = values.tolist()
    odd = next((item for item in items if not _is_plain(item)), None)
    if dtype not in LISTED or odd is not None:
        what = f"dtype {dtype}" if odd is None else f"{type(odd).__name__} objects"
        raise UnsupportedError(f"a {type(values).__name__} of {what[:80]}")
    return {"dtype": dtype, "v": [encode(item) for item in items]}


def _column_heard(tree: Any, decode: Decoder) -> Any:
    """An array, or what pandas makes of the items."""
    if type(tree) is not dict:
        raise WireError("A column isn't an object.")
    if (kind := KINDS.get(text(tree, "dtype"))) is not None:
        return kind[1](tree, decode)
    return _items_heard(tree, decode)


def _items_heard(tree: Any, decode: Decoder) -> Any:
    dtype = text(tree, "dtype")
    if _is_numeric(dtype):
        return _row(tree, decode)
    items = [decode(item) for item in listed(tree, "v")]
    if dtype not in LISTED or not all(map(_is_plain, items)):
        raise WireError("A column is of no kind that is carried.")
    return _made(lambda pandas: pandas.Series(items, dtype=dtype).array)


def _made(make: Callable[[Any], Any]) -> Any:
    try:
        return make(importlib.import_module("pandas"))
    except Exception:  # whatever pandas says of parts that don't fit together
        raise WireError("A series or frame contradicts itself.") from None


def _index(value: Any, encode: Encoder) -> Any:
    names = [encode(name) for name in value.names]
    if type(value).__name__ == "RangeIndex":
        return {"t": "Index", "names": names, "range": encode(range(value.start, value.stop, value.step))}
    levels = [value.get_level_values(number) for number in range(value.nlevels)]
    said = {"t": "Index", "names": names, "v": [_column(level, encode) for level in levels]}
    return said | ({"freq": value.freqstr} if _is_regular(value) else {})


def _is_regular(value: Any) -> bool:
    """Has it a frequency of its own that its name tells all of?"""
    if type(value).__name__ not in REGULAR or value.freq is None:
        return False
    frequencies = importlib.import_module("pandas.tseries.frequencies")
    return bool(_FREQUENCY.fullmatch(value.freqstr)) and frequencies.to_offset(value.freqstr) == value.freq


def _index_heard(tree: Tree, decode: Decoder) -> Any:
    names = [key(decode(name)) for name in listed(tree, "names", 64)]
    if "range" in tree:
        places = decode(tree["range"])
        if type(places) is not range or len(names) != 1:
            raise WireError("An index isn't made of a range.")
        return _made(lambda pandas: pandas.RangeIndex(places, name=names[0]))
    levels = [_column_heard(level, decode) for level in listed(tree, "v", 64)]
    if len(levels) != len(names) or not levels:
        raise WireError("An index has other names than levels.")
    if len(levels) == 1:
        index = _made(lambda pandas: pandas.Index(levels[0], name=names[0]))
        return index if "freq" not in tree else _made(lambda _pandas: _regular(index, _frequency_heard(tree)))
    return _made(lambda pandas: pandas.MultiIndex.from_arrays(levels, names=names))


def _array(value: Any, encode: Encoder) -> Any:
    return {"t": "pandas array", "v": _column(value, encode)}


def _array_heard(tree: Tree, decode: Decoder) -> Any:
    column = _column_heard(tree.get("v"), decode)
    return column if _is_array(column) else _made(lambda pandas: pandas.array(column, dtype=column.dtype))


def _regular(index: Any, frequency: str) -> Any:
    if type(index).__name__ not in REGULAR:
        raise WireError("An index can't have a frequency.")
    index.freq = frequency  # pandas looks whether it has it
    return index


def _series(value: Any, encode: Encoder) -> Any:
    value = _plain(value)
    return {"name": encode(value.name), "index": encode(value.index), "v": _column(value, encode)}


def _series_heard(tree: Tree, decode: Decoder) -> Any:
    index, name = _index_of(tree, "index", decode), key(decode(tree.get("name")))
    column = _column_heard(tree.get("v"), decode)
    return _made(lambda pandas: pandas.Series(column, index=index, name=name))


def _frame(value: Any, encode: Encoder) -> Any:
    value = _plain(value)
    columns = [_column(value.iloc[:, number], encode) for number in range(value.shape[1])]
    return {"index": encode(value.index), "columns": encode(value.columns), "v": columns}


def _frame_heard(tree: Tree, decode: Decoder) -> Any:
    index, names = _index_of(tree, "index", decode), _index_of(tree, "columns", decode)
    columns = dict(enumerate(_column_heard(column, decode) for column in listed(tree, "v", COLUMNS)))
    return _made(lambda pandas: pandas.DataFrame(columns, index=index).set_axis(names, axis=1))


def _index_of(tree: Tree, name: str, decode: Decoder) -> Any:
    index = decode(tree.get(name))
    if not _is_index(index):
        raise WireError("A series or frame has no index.")
    return index


def _time(value: Any, encode: Encoder) -> Any:
    """Of a time or a span: its number, of which unit, and in which zone that is looked at."""
    zone = getattr(value, "tzinfo", None)
    said = {"t": "Timedelta" if _is("Timedelta")(value) else "Timestamp", "v": int(value.asm8.astype("int64"))}
    return said | {"unit": value.unit, "zone": None if zone is None else encode(_zone(zone))}


def _number_heard(tree: Tree) -> tuple[int, str]:
    unit = text(tree, "unit")
    if unit not in UNITS:
        raise WireError("A time is in no known unit.")
    return _whole(tree), unit


def _whole(tree: Tree) -> int:
    number = tree.get("v")
    if type(number) is not int or abs(number) > MOST:
        raise WireError("A time has no number.")
    return number


def _time_heard(tree: Tree, decode: Decoder) -> Any:
    number, unit = _number_heard(tree)
    zone = None if tree.get("zone") is None else _zone_heard(tree, decode)
    time = importlib.import_module("numpy").datetime64(number, unit)
    if zone is None:
        return _made(lambda pandas: pandas.Timestamp(time))
    return _made(lambda pandas: pandas.Timestamp(time).tz_localize("UTC").tz_convert(zone))


def _span_heard(tree: Tree, _decode: Decoder) -> Any:
    span = importlib.import_module("numpy").timedelta64(*_number_heard(tree))
    return _made(lambda pandas: pandas.Timedelta(span))


def _period(value: Any, _encode: Encoder) -> Any:
    return {"t": "Period", "v": value.ordinal, "freq": _frequency(value.freqstr)}


def _period_heard(tree: Tree, _decode: Decoder) -> Any:
    ordinal, frequency = _whole(tree), _frequency_heard(tree)
    return _made(lambda pandas: pandas.Period(ordinal=ordinal, freq=frequency))


def _interval(value: Any, encode: Encoder) -> Any:
    return {"t": "Interval", "v": [encode(end) for end in (value.left, value.right)], "closed": value.closed}


def _interval_heard(tree: Tree, decode: Decoder) -> Any:
    ends, closed = [decode(end) for end in listed(tree, "v", 2)], _closed_heard(tree)
    if len(ends) != 2 or not all(map(_is_plain, ends)):
        raise WireError("An interval hasn't two ends.")
    return _made(lambda pandas: pandas.Interval(*ends, closed=closed))


def _filled(heard: Callable[[Tree, Decoder], Any]) -> Callable[[Any, Tree, Decoder], Any]:
    """What makes a new one, for one that is there already: its own object takes over what the new one holds."""

    def fill(value: Any, tree: Tree, decode: Decoder) -> Any:
        inner = tree.get("v")
        if not isinstance(inner, dict):
            raise WireError("A series or frame isn't an object.")
        new = heard(inner, decode)
        if value is None:
            return new
        type(new).__init__(value, new)
        return value

    return fill


def _looks(value: Any) -> bytes:
    """All that would be said of a frame, a series or its array, for comparison."""
    crossing = Crossing(Containers(0), Copies())
    say = _array if _is_array(value) else _frame if _is("DataFrame")(value) else _series
    tree = say(value, Encoder(crossing, _nothing_else))
    return repr(tree).encode() + bytes(crossing.body.data)


KINDS: Mapping[str, tuple[Callable[[Any, Encoder], dict[str, Any]], Callable[[Any, Decoder], Any]]] = {
    "CategoricalDtype": (_category, _category_heard),
    "DatetimeTZDtype": (_zoned, _zoned_heard),
    "PeriodDtype": (_periods, _periods_heard),
    "IntervalDtype": (_intervals, _intervals_heard),
}
"""Columns of more than their items: how each is said and heard, by the class of its dtype."""


def _nothing_else(_value: Any, _encode: Encoder) -> Any:
    raise UnsupportedError("a label that is no plain value")


_is_array = _is("ExtensionArray")
_is_index = _is("Index", "RangeIndex", "DatetimeIndex", "TimedeltaIndex", "MultiIndex", "CategoricalIndex")
for _kind in (
    ValueKind("Index", (), _index, _index_heard, _is_index),
    ValueKind("Timestamp", (), _time, _time_heard, _is("Timestamp")),
    ValueKind("Timedelta", (), _time, _span_heard, _is("Timedelta")),
    ValueKind("Period", (), _period, _period_heard, _is("Period")),
    ValueKind("Interval", (), _interval, _interval_heard, _is("Interval")),
    ValueKind("pandas array", (), _array, _array_heard, _is_array, snapshot=_looks),
    ValueKind("NaT", (), lambda *_: {"t": "NaT"}, lambda *_: _made(lambda pandas: pandas.NaT), _is("NaTType")),
    ValueKind("NA", (), lambda *_: {"t": "NA"}, lambda *_: _made(lambda pandas: pandas.NA), _is("NAType")),
):
    known(_kind)
share("Series", (), InPlace(_series, _filled(_series_heard), _looks), _is("Series"))
share("DataFrame", (), InPlace(_frame, _filled(_frame_heard), _looks), _is("DataFrame"))
