"""What is pandas' crosses exactly, with its zones, frequencies and ends; of a subclass what it holds."""

from __future__ import annotations

import datetime
import zoneinfo
from typing import Any

import numpy as np
import pandas as pd
import pytest

from nbjudge.bridge import values
from nbjudge.bridge.values.shared import Containers, Copies
from nbjudge.errors import WireError
from nbjudge_tests.two_sides import Lend, crossed, lend, pair

__all__ = ["lend", "pair"]  # fixtures

BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
DAYS = pd.date_range("2024-01-01", periods=60, name="day")
NUMBERS = pd.Series(range(60), index=DAYS)


@pytest.mark.parametrize(
    "value",
    [
        *(pd.Timestamp("2024-03-10 12:00", tz=BERLIN), pd.Timestamp("2024-03-10", tz="UTC"), pd.NaT, pd.NA),
        *(pd.Timestamp("2024-10-27 01:30", tz="UTC").tz_convert(BERLIN), pd.Timestamp(1, unit="s")),
        *(pd.Timedelta("1 days").as_unit("s"), pd.Timedelta(3, unit="ns"), pd.Period("2024-03", "M")),
        *(pd.Interval(0, 5, closed="left"), pd.Interval(pd.Timestamp("2024"), pd.Timestamp("2025"))),
        *(datetime.datetime(2024, 10, 27, 2, 30, tzinfo=BERLIN, fold=1), BERLIN, datetime.time(1, tzinfo=BERLIN)),
    ],
    ids=repr,
)
def test_a_single_one_is_the_same_over_there(value: Any) -> None:
    made = crossed(value)
    assert type(made) is type(value)
    assert repr(made) == repr(value)
    assert getattr(made, "fold", 0) == getattr(value, "fold", 0)
    assert getattr(made, "unit", None) == getattr(value, "unit", None)
    assert made is value or made is crossed(value) or made == value


@pytest.mark.parametrize(
    "value",
    [
        *(NUMBERS.resample("ME").sum(), NUMBERS.tz_localize(BERLIN), NUMBERS.to_period("W"), NUMBERS[::-1]),
        *(NUMBERS.groupby(pd.cut(NUMBERS, [0, 9, 99]), observed=False).sum(), pd.cut(NUMBERS, 3)),
        *(pd.Series(DAYS).dt.to_period("Q"), pd.Series(DAYS).dt.tz_localize("UTC"), pd.Series(DAYS - DAYS[0])),
        *(pd.Series([pd.Period("2024"), pd.Interval(0, 1), None]), pd.Series(DAYS[:0]).dt.tz_localize(BERLIN)),
        pd.Series([*pd.period_range("2024", periods=2, freq="2D"), None], dtype="period[2D]"),
    ],
    ids=lambda value: f"{value.dtype}-{value.index.dtype}",
)
def test_a_series_is(value: Any) -> None:
    pd.testing.assert_series_equal(crossed(value), value)
    pd.testing.assert_frame_equal(crossed(value.to_frame()), value.to_frame())
    pd.testing.assert_index_equal(crossed(value.index), value.index)
    assert getattr(crossed(value.index), "freq", None) == getattr(value.index, "freq", None)


@pytest.mark.parametrize(
    "dtype", ["Int64", "boolean", "string", "category", "float64", "period[D]", "datetime64[s, UTC]"]
)
def test_an_array_of_pandas_is(dtype: str) -> None:
    value = pd.array([None, None] if dtype == "float64" else [1, None] if dtype == "Int64" else [None], dtype=dtype)
    made = crossed(value)
    assert type(made) is type(value)
    assert made.equals(value)


NUMBER = {"dtype": "int64", "shape": [1], "start": 0, "size_bytes": 8}
TIME = {"dtype": "datetime64[ns]", "shape": [1], "start": 0, "size_bytes": 8}


@pytest.mark.parametrize(
    "tree",
    [
        {"t": "Timestamp", "v": "now"},
        {"t": "Timestamp", "v": 1 << 64, "unit": "ns"},
        {"t": "Timestamp", "v": 0, "unit": "Y"},
        {"t": "Timestamp", "v": True, "unit": "s"},
        {"t": "Timestamp", "v": 0, "unit": "s", "zone": {"t": "zone", "v": "../../etc/passwd"}},
        {"t": "Timestamp", "v": 0, "unit": "s", "zone": {"t": "zone", "v": "dateutil//etc/localtime"}},
        {"t": "Timestamp", "v": 0, "unit": "s", "zone": 3},
        {"t": "Timestamp", "v": 0, "unit": "s", "zone": {"t": "zone", "v": "Europe"}},
        {"t": "Timedelta", "v": 0.5, "unit": "s"},
        {"t": "Period", "v": 0, "freq": "__import__('os')"},
        {"t": "Period", "v": 0, "freq": "X"},
        {"t": "Period", "v": 1 << 64, "freq": "D"},
        {"t": "Interval", "v": [1, 0], "closed": "left"},
        {"t": "Interval", "v": [0, 1], "closed": "open"},
        {"t": "Interval", "v": [0], "closed": "left"},
        {"t": "Interval", "v": [{"t": "list", "v": []}, 1], "closed": "left"},
        {"t": "zone", "v": "/etc/passwd"},
        {"t": "date", "v": "2024-01-01", "zone": {"t": "zone", "v": "UTC"}, "fold": 0},
        {"t": "datetime", "v": "2024-01-01", "zone": {"t": "zone", "v": "UTC"}, "fold": 2},
        {"t": "pandas array", "v": {"dtype": "PeriodDtype", "v": NUMBER, "freq": "?"}},
        {"t": "pandas array", "v": {"dtype": "PeriodDtype", "v": {**NUMBER, "shape": [1, 1]}, "freq": "D"}},
        {"t": "pandas array", "v": {"dtype": "DatetimeTZDtype", "v": {**TIME, "shape": [1, 1]}, "zone": None}},
        {
            "t": "pandas array",
            "v": {"dtype": "IntervalDtype", "v": [{"dtype": "int64", "v": NUMBER}], "closed": "left"},
        },
        {"t": "pandas array", "v": {"dtype": "CategoricalDtype", "v": NUMBER, "categories": 3}},
        {"t": "Index", "names": [None], "v": [{"dtype": "int64", "v": NUMBER}], "freq": "D"},
    ],
    ids=str,
)
def test_what_is_none_is_refused(tree: Any) -> None:
    with pytest.raises(WireError):
        values.decode(tree, values.Crossing(Containers(1), Copies(), values.Body(bytes(16))))


# ---------------------------------------------------------------------- subclasses


class Shown(pd.DataFrame):
    """What an honest answer may write."""

    _metadata = ["note"]  # noqa: RUF012 - pandas' own way

    @property
    def _constructor(self) -> Any:
        return Shown


class Liar(pd.DataFrame):
    """Each name that a frame is said by says something else."""

    __eq__ = equals = lambda _self, _other: True  # type: ignore[assignment]  # what a liar writes
    iloc = index = columns = values = property(lambda _self: 1 / 0)  # type: ignore[assignment]  # what a liar writes
    shape = (1 << 40, 1 << 40)  # type: ignore[assignment]  # what a liar writes


class Row(pd.Series):
    """The same of a series."""

    dtype = "category"  # type: ignore[assignment]  # what a liar writes
    array = index = name = property(lambda _self: 1 / 0)  # type: ignore[assignment]  # what a liar writes
    to_numpy = tolist = lambda _self: [1, 2]  # type: ignore[assignment]  # what a liar writes


@pytest.mark.parametrize("kind", [Shown, Liar])
def test_of_a_frame_of_a_subclass_only_what_it_holds_counts(kind: Any, lend: Lend) -> None:
    held = pd.DataFrame({"a": [1, 2], "b": pd.period_range("2024", periods=2)})
    found = lend(lambda: kind(held))()
    assert type(found) is pd.DataFrame
    pd.testing.assert_frame_equal(found, held)


def test_what_can_t_be_said_for_its_own_code_is_an_error_of_the_answer_s_own(lend: Lend) -> None:
    with pytest.raises(ZeroDivisionError):
        lend(lambda: [np.ones(2), Row([0, 0])])()
    assert lend(lambda: 3)() == 3


def test_a_frame_of_a_subclass_that_is_changed_is_changed_by_pandas_alone(lend: Lend) -> None:
    class Mine(pd.DataFrame):
        def __init__(self, rows: int) -> None:
            super().__init__({"a": range(rows)})

    kept = Mine(3)
    found = lend(lambda: kept)()
    found["a"] *= 2
    lend(lambda: None)()
    assert lend(lambda: kept["a"].tolist())() == [0, 2, 4]
