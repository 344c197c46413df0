"""pandas: series, frames, indices and single times, as columns of plain items. Never pickled; pandas may be missing."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable
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
HOMES = ("builtins", "decimal", "fractions", "datetime", "pandas")  # no class of the other side's is from there
PLAIN = (
    *("NoneType", "bool", "int", "float", "str", "complex", "bytes", "Decimal", "Fraction", "date", "time", "datetime"),
    *("timedelta", "Timestamp", "Timedelta", "NaTType", "NAType"),
)
_TIME = re.compile(r"\d{1,6}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?([+-]\d\d:\d\d)?", re.ASCII)


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


def _column(values: Any, encode: Encoder) -> dict[str, Any]:
    if str(values.dtype) != "category":
        return _items(values, encode)
    held = values.array if type(values).__name__ == "Series" else values
    codes, kinds = arrays.said(held.codes.astype("int64"), encode), _items(held.categories, encode)
    return {"dtype": "category", "v": codes, "categories": kinds, "ordered": bool(held.ordered)}


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
    if text(tree, "dtype") != "category":
        return _items_heard(tree, decode)
    codes, kinds = arrays.heard(tree.get("v"), decode), _items_heard(tree.get("categories"), decode)
    ordered = tree.get("ordered") is True
    return _made(lambda pandas: pandas.Categorical.from_codes(codes, pandas.Index(kinds), ordered=ordered))


def _items_heard(tree: Any, decode: Decoder) -> Any:
    if type(tree) is not dict:
        raise WireError("A column isn't an object.")
    dtype = text(tree, "dtype")
    if _is_numeric(dtype):
        return arrays.heard(tree.get("v"), decode)
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
    return {"t": "Index", "names": names, "v": [_column(level, encode) for level in levels]}


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
        return _made(lambda pandas: pandas.Index(levels[0], name=names[0]))
    return _made(lambda pandas: pandas.MultiIndex.from_arrays(levels, names=names))


def _series(value: Any, encode: Encoder) -> Any:
    return {"name": encode(value.name), "index": encode(value.index), "v": _column(value, encode)}


def _series_heard(tree: Tree, decode: Decoder) -> Any:
    index, name = _index_of(tree, "index", decode), key(decode(tree.get("name")))
    column = _column_heard(tree.get("v"), decode)
    return _made(lambda pandas: pandas.Series(column, index=index, name=name))


def _frame(value: Any, encode: Encoder) -> Any:
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


def _time_heard(tree: Tree, _decode: Decoder) -> Any:
    said = text(tree, "v")
    if not _TIME.fullmatch(said):
        raise WireError("A Timestamp isn't one.")
    return _made(lambda pandas: pandas.Timestamp(said))


def _span_heard(tree: Tree, decode: Decoder) -> Any:
    parts = decode(tree.get("v"))
    if type(parts) is not int:
        raise WireError("A Timedelta isn't a whole number.")
    return _made(lambda pandas: pandas.Timedelta(parts, unit="ns"))


def _filled(heard: Callable[[Tree, Decoder], Any]) -> Callable[[Any, Tree, Decoder], Any]:
    """What makes a new one, for one that is there already: its own object takes over what the new one holds."""

    def fill(value: Any, tree: Tree, decode: Decoder) -> Any:
        inner = tree.get("v")
        if not isinstance(inner, dict):
            raise WireError("A series or frame isn't an object.")
        new = heard(inner, decode)
        if value is None:
            return new
        type(value).__init__(value, new)
        return value

    return fill


def _looks(value: Any) -> bytes:
    """All that would be said of a frame or series, for comparison."""
    crossing = Crossing(Containers(0), Copies())
    tree = (_frame if _is("DataFrame")(value) else _series)(value, Encoder(crossing, _nothing_else))
    return repr(tree).encode() + bytes(crossing.body.data)


def _nothing_else(_value: Any, _encode: Encoder) -> Any:
    raise UnsupportedError("a label that is no plain value")


_is_index = _is("Index", "RangeIndex", "DatetimeIndex", "TimedeltaIndex", "MultiIndex", "CategoricalIndex")
for _kind in (
    ValueKind("Index", (), _index, _index_heard, _is_index),
    ValueKind(
        "Timestamp", (), lambda at, _encode: {"t": "Timestamp", "v": at.isoformat()}, _time_heard, _is("Timestamp")
    ),
    ValueKind(
        "Timedelta",
        (),
        lambda span, encode: {"t": "Timedelta", "v": encode(span.as_unit("ns").value)},
        _span_heard,
        _is("Timedelta"),
    ),
    ValueKind("NaT", (), lambda *_: {"t": "NaT"}, lambda *_: _made(lambda pandas: pandas.NaT), _is("NaTType")),
    ValueKind("NA", (), lambda *_: {"t": "NA"}, lambda *_: _made(lambda pandas: pandas.NA), _is("NAType")),
):
    known(_kind)
share("Series", (), InPlace(_series, _filled(_series_heard), _looks), _is("Series"))
share("DataFrame", (), InPlace(_frame, _filled(_frame_heard), _looks), _is("DataFrame"))
