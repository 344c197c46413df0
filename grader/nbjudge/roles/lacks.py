"""In the judge: is something missing of what an answer gave? Whatever is said of all of it would hold then."""

from __future__ import annotations

import cmath
import itertools
import math
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from decimal import Decimal
from numbers import Number
from typing import Any

from nbjudge.bridge.objects import RemoteClass, RemoteObject
from nbjudge.bridge.values.packages.masked import has_masked, mask_of
from nbjudge.bridge.values.packages.pictures import is_picture
from nbjudge.bridge.values.packages.symbols import is_matrix, is_symbolic, items_of, size_of
from nbjudge.bridge.values.records import fields_in
from nbjudge.bridge.values.standard.instances import is_instance, state_of
from nbjudge.bridge.values.streams import content, is_read, is_stream
from nbjudge.bridge.values.table import ROUNDING, is_watched, kind_of, package_of

PARTS = 1 << 12  # containers in one value that are looked through
MASKS = 1 << 16  # the same, where it is told which items are masked
PLAIN = (Number, str, bytes, bytearray, range, type(None), list, tuple, dict, set, frozenset, deque)
SINGLE = (Number, str, bytes, bytearray, type(None))  # in which there is nothing else
THEIRS = (RemoteObject, RemoteClass)
WHOLE = frozenset({int, bool, type(None)})  # which lack nothing, and of which long lists are
TOO_MANY = object()  # in place of the parts that aren't looked at


def is_theirs(value: Any) -> bool:
    """Is it a stand-in, or the class of one? Nothing of it is asked."""
    return isinstance(type(value), RemoteClass) or issubclass(type(value), THEIRS)


def parts_of(value: Any) -> list[Any] | None:
    """What a container holds; None of anything else."""
    if is_instance(value):
        return [*state_of(value).values()]
    if isinstance(value, Mapping):
        return [*value.values()]
    if getattr(getattr(value, "dtype", None), "kind", "") in ("O", "V") and hasattr(value, "tolist"):
        return _flat(value.tolist())
    if is_symbolic(value):
        return items_of(value)
    if type(value).__name__ == "Interval" and package_of(type(value)) == "pandas":
        return [value.left, value.right]
    if fields := fields_in(value):
        return [part for _, part in fields]
    return [*value] if isinstance(value, list | tuple | set | frozenset | deque) or is_matrix(value) else None


def is_found(item: Any, thing: Any) -> bool | None:
    """Is it in an object of the student's, by going through that as Python does? None where this can't be told."""
    names = {name for base in type(thing).__mro__ for name in vars(base)}
    if "__next__" in names or "__iter__" not in names:
        return None
    return any(one is item or one == item for one in itertools.islice(iter(thing), PARTS))


def _flat(rows: Any) -> list[Any]:
    """The items of an array that was made lists of."""
    while isinstance(rows, list) and rows and all(type(row) is list for row in rows):
        rows = [item for row in rows for item in row]
    return rows if isinstance(rows, list) else [rows]


def looks_of(given: list[Any]) -> bytes | None:
    """What tells these arguments of a test's from others; None where they aren't plain data, of which code would run.

    >>> looks_of([1, [2.0, "x"]]) == looks_of([1, [2.0, "x"]]) != looks_of([1, [2.0]])
    True
    >>> looks_of([len, 1])
    """
    if any(_any_part(value, lambda part: not _is_plain(part)) for value in given):
        return None
    return b"\n".join(map(_look, given))


def _is_plain(value: Any) -> bool:
    if is_theirs(value) or kind_of(value) is None:
        return False
    return isinstance(value, PLAIN) or _shape(value) is not None


def _look(value: Any) -> bytes:
    kind = kind_of(value)
    if kind is not None and kind.look is not None:
        return kind.look(value)
    return repr(value).encode("utf-8", "surrogatepass")


def _any_part(value: Any, is_so: Callable[[Any], bool]) -> bool:
    """Is it, or a part of it, so? What has too many parts is taken for so."""
    return any(part is TOO_MANY or is_so(part) for part in _all_parts(value))


def _all_parts(value: Any) -> Iterator[Any]:
    """A value and all in it. An item is looked at where it lies: no long list hides what is beside it.

    Of what has more containers in it than anybody looks through, nothing is known: the last part is `TOO_MANY`.
    """
    yield value
    left, seen, known = [value], 0, {id(value)}
    while left and seen < PARTS:
        inside = [part for part in _inside(left.pop()) if type(part) not in WHOLE and id(part) not in known]
        known |= {id(part) for part in inside if is_instance(part)}  # one may hold itself
        seen += 1
        yield from inside
        left.extend(part for part in inside if not isinstance(part, Number | str | bytes | bytearray))
    if left:
        yield TOO_MANY


def _inside(value: Any) -> list[Any]:
    """What it holds, keys too; nothing of the student's is asked."""
    if is_watched(value) or is_theirs(value) or isinstance(value, str | bytes | bytearray | range):
        return []
    keys = value if isinstance(value, Mapping) and not is_instance(value) else ()
    return [*(parts_of(value) or ()), *keys]


def _is_empty(value: Any) -> bool:
    """Is nothing in it? Whatever is said of all its elements holds, and by broadcasting any equation."""
    return _size(value) == 0


def _size(value: Any) -> int | None:
    """How many elements it has; None where it is no container of any."""
    if is_watched(value):
        return math.prod(value.shape) if hasattr(value, "shape") else None
    if is_theirs(value) or is_instance(value):
        return None
    if isinstance(value, range):
        return int(bool(value))  # a length may be too large for Python's own
    if is_stream(value):
        return len(content(value) or "")
    if is_symbolic(value):
        return size_of(value)
    if (shape := _shape(value)) is not None:
        return math.prod(shape)
    return len(value) if isinstance(value, Sized) else None


def _shape(value: Any) -> tuple[int, ...] | None:
    """Of an array, a tensor, a frame or a picture; a data class may have a field of this name."""
    if is_picture(value):
        return tuple(value.size)
    return (
        tuple(value.shape)
        if package_of(type(value)) in ("numpy", "pandas", "torch") and hasattr(value, "shape")
        else None
    )


def _is_missing(value: Any) -> bool:
    """Is it NaN, infinite or missing? It differs from nothing by more than any bound, or share of it.

    By what it is itself, an array as a whole; nothing of the test's is asked.
    """
    if is_theirs(value):
        return False
    kind = kind_of(value)
    if kind is not None and kind.lacks is not None:
        return kind.lacks(value)
    if type(value).__name__ in ("NaTType", "NAType"):
        return True
    if isinstance(value, Decimal | str):
        return _is_endless(value)
    if isinstance(value, float | complex):
        return not cmath.isfinite(value)
    if _shape(value) is None:
        return False
    if has_masked(value):
        return True
    if package_of(type(value)) == "pandas":
        return _is_missing_of_pandas(value)
    numpy, letter = sys.modules["numpy"], getattr(getattr(value, "dtype", None), "kind", "O")
    if letter in "fc":
        return not bool(numpy.isfinite(value).all())
    return letter in "mM" and bool(numpy.isnat(value).any())


def _is_endless(value: Decimal | str) -> bool:
    """Is it no finite number, or none once it is a float?

    >>> [_is_endless(value) for value in ("1e400", Decimal("1E+400"), Decimal("sNaN"), "1e4", "e", Decimal(3))]
    [True, True, True, False, False, False]
    """
    try:
        return (isinstance(value, Decimal) and value.is_snan()) or not math.isfinite(float(value))
    except ValueError:
        return False


def _is_missing_of_pandas(value: Any) -> bool:
    labels = value.index if type(value).__name__ in ("DataFrame", "Series") else None
    if labels is not None and _is_missing_of_pandas(labels):
        return True
    several = type(value).__name__ == "MultiIndex"  # of which pandas itself doesn't say it
    value = value.to_frame() if several else value
    found = sys.modules["pandas"].isna(value)
    if isinstance(found, bool):
        return found
    infinite = value.isin([math.inf, -math.inf]) if hasattr(value, "isin") else False
    return bool(getattr(found | infinite, "values", found | infinite).any())


def _is_unreal(value: Any) -> bool:
    """Is a number, or one of an array's, not real? NumPy orders those by their real parts, and a sum of squares of them
    may be anything. What is left of rounding counts for nothing.
    """
    if is_theirs(value):
        return False
    if type(value) is complex:
        return not abs(value.imag) <= ROUNDING * max(abs(value.real), abs(value.imag))
    kind = kind_of(value)
    if kind is not None and kind.unreal is not None:
        return kind.unreal(value)
    if getattr(getattr(value, "dtype", None), "kind", "") != "c":
        return False
    numpy = sys.modules["numpy"]
    with numpy.errstate(all="ignore"):
        return bool((abs(numpy.imag(value)) > ROUNDING * abs(value)).any())


def keys_of(value: Any) -> list[str]:
    """By what a test finds the parts of a mapping or a table: its plain keys, as text.

    >>> keys_of({"a": 1, 2: 3, (4,): 5}), keys_of([1])
    (["'a'", '2'], [])
    """
    if _is_table(value):
        return [repr(name)[:80] for name in value.columns if type(name) in (str, int)]
    is_mapping = isinstance(value, Mapping) and not is_instance(value)
    return [repr(key)[:80] for key in value if type(key) in (str, int)] if is_mapping else []


def _is_table(value: Any) -> bool:
    return type(value).__name__ == "DataFrame" and _shape(value) is not None


def lacks_of(value: Any, keys: frozenset[str] = frozenset()) -> set[str]:
    """What a value lacks; of a mapping or table what has these `keys`, if there is such: nobody has asked for more.

    >>> [sorted(lacks_of(value)) for value in ([], "", [[1], []], {"a": 0}, 0, None)]
    [['empty'], ['empty'], ['empty'], [], [], []]
    >>> [sorted(lacks_of(value)) for value in (float("nan"), [1.0, (2.0, float("-inf"))], " nan", {float("nan"): 1})]
    [['missing'], ['missing'], ['missing'], ['missing']]
    >>> [sorted(lacks_of(value)) for value in (1j, [1 + 1e-12j], (3.0, [0, 2 - 1j]), "1j", complex("nan"))]
    [['imaginary'], [], ['imaginary'], [], ['imaginary', 'missing']]
    >>> [sorted(lacks_of(value)) for value in ([False, False], [False, True], False, [[], float("nan"), [True]])]
    [['false'], [], [], ['empty', 'missing', 'true']]
    >>> lacks_of([float("nan"), *range(9999)]), lacks_of({"a": 1, "b": []}, frozenset(["'a'"]))
    ({'missing'}, set())
    """
    found = _lacks_of_all(value)
    if not found or (part := _asked_for(value, keys)) is value:
        return found
    return _lacks_of_all(part)


def _lacks_of_all(value: Any) -> set[str]:
    """What it, or a part of it, lacks: gone through once for all that may be lacking."""
    found = {"read"} if is_read(value) else set[str]()
    for part in _all_parts(value):
        if part is TOO_MANY:
            return found | {*LACKING} - {"read"}
        for lack, is_so in LACKS.items():
            if lack not in found and is_so(part):
                found.add(lack)
        if not found >= CHOOSING and len(truths := _truths(part)) == 1:
            found |= {"true" if truths == {True} else "false"}
    return found


def _asked_for(value: Any, keys: frozenset[str]) -> Any:
    """What a mapping or table has under these keys; the whole value, where it has none of them."""
    if keys.isdisjoint(keys_of(value)):
        return value
    if _is_table(value):
        return value.loc[:, [type(name) in (str, int) and repr(name)[:80] in keys for name in value.columns]]
    return {key: item for key, item in value.items() if type(key) in (str, int) and repr(key)[:80] in keys}


def masks_of(value: Any, keys: frozenset[str] = frozenset()) -> bytes:
    """What tells which items are masked in it, and in the arrays within, from other masks; nothing where none is.

    Of pandas' own, which leaves what is missing out of sums and of `all`, how many are: rows may stand in any order.
    """
    left = deque[tuple[Any, Any]]([((), _asked_for(value, keys))])
    found, seen = [], dict[int, Any]()  # by its id(), kept alive
    while left and len(seen) < MASKS:
        path, part = left.popleft()
        if is_theirs(part) or (id(part) in seen and not has_masked(part)):  # it may hold itself
            continue
        seen[id(part)] = part
        if masks := mask_of(part) if has_masked(part) else _gaps_of(part):
            found.append(_path(path) + masks)
        inside: Iterable[tuple[Any, Any]] = enumerate(_inside(part))
        # the order of such a one is of no matter, and its keys hold nothing masked
        if isinstance(part, Mapping) and not is_instance(part):
            named = enumerate(part.items())
            inside = ((key if type(key) in (str, int) else (place,), item) for place, (key, item) in named)
        left.extend(((path, name), item) for name, item in inside if not isinstance(item, SINGLE))
    return b"\n".join(sorted(found))


def _gaps_of(value: Any) -> bytes:
    if package_of(type(value)) != "pandas" or not _shape(value):
        return b""
    columns = value.items() if _is_table(value) else [("", value)]
    gaps = ((repr(name)[:80], int(sys.modules["pandas"].isna(column).sum())) for name, column in columns)
    return repr(found).encode("utf-8", "surrogatepass") if (found := sorted(gap for gap in gaps if gap[1])) else b""


def _path(path: Any) -> bytes:
    """A chain of names within names, as deep as it may be."""
    names = []
    while path:
        path, name = path
        names.append(repr(name)[:80].encode("utf-8", "surrogatepass"))
    return b"/".join(names)


def _truths(value: Any) -> set[bool]:
    """The truth values in it, where it holds nothing else; nothing of what isn't one of several."""
    if type(value) in (list, tuple):
        return set(value) if value and all(type(item) is bool for item in value) else set()
    kind = None if is_theirs(value) else kind_of(value)
    if kind is not None and kind.watched:
        return set() if kind.truths is None else kind.truths(value)
    is_truth = getattr(getattr(value, "dtype", None), "kind", "") == "b" and bool(_shape(value))
    return {bool(value.min()), bool(value.max())} if is_truth and value.size else set()


LACKS: Mapping[str, Callable[[Any], bool]] = {"empty": _is_empty, "missing": _is_missing, "imaginary": _is_unreal}
CHOOSING = {"true", "false"}  # an array or list of truth values of which each is this one: it chooses all, or nothing
LACKING = {
    "empty": "nothing in it",
    "missing": "numbers missing or infinite in it",
    "imaginary": "numbers that aren't real in it",
    "read": "nothing left to read in it",
    "false": "nothing that is true in it",
    "true": "nothing that is false in it",
}
