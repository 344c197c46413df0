"""Matrices and masked arrays cross as what they are: `*` of one multiplies rows by columns, the other leaves out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nbjudge.bridge import values
from nbjudge.bridge.values.shared import Containers, Copies
from nbjudge.errors import WireError
from nbjudge.roles.lacks import lacks_of
from nbjudge_tests.two_sides import Lend, lend, pair

__all__ = ["lend", "pair"]  # fixtures
pytestmark = pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")  # NumPy's, of matrices


def matrix(rows: Any) -> Any:
    return np.array(rows).view(np.matrix)


class Own(np.matrix):
    """A subclass of a matrix crosses as one."""


@pytest.mark.parametrize("array", [matrix([[1, 2], [3, 4]]), matrix([[True, False]]).T, np.ones((2, 2)).view(Own)])
def test_a_matrix_stays_one(array: Any, lend: Lend) -> None:
    found = lend(lambda: array)()
    assert type(found) is np.matrix
    assert (found * found.T).tolist() == (array * array.T).tolist()
    assert lend(lambda a: type(a).__name__)(matrix([[1]])) == "matrix"


def test_a_matrix_is_changed_in_place_and_shares_its_memory(lend: Lend) -> None:
    array = np.arange(4.0).reshape(2, 2)
    found = lend(lambda a: a.view(np.matrix))(array)
    found[0, 0] = 9
    assert array[0, 0] == 9
    lend(lambda m: m.__setitem__((1, 1), 7))(found)
    assert (array[1, 1], found[1, 1]) == (7, 7)


def masked() -> list[Any]:
    hard = np.ma.array([1.5, 2.0], mask=[True, False], fill_value=-1.0, hard_mask=True)
    days = np.ma.array(np.array(["2026-01-01", "NaT"], "datetime64[D]"), mask=[False, True])
    return [
        np.ma.masked_less_equal([1, -1, 3], 0),
        np.ma.array([1, 2]),
        hard,
        days,
        np.ma.zeros((2, 0)),
        np.ma.ones(()),
    ]


@pytest.mark.parametrize("array", masked(), ids=repr)
def test_a_masked_array_stays_one(array: Any, lend: Lend) -> None:
    for found in (lend(lambda: array)(), lend(lambda a: a)(array)):
        assert type(found) is np.ma.MaskedArray
        assert repr(found) == repr(array)
        assert (found.hardmask, repr(found.fill_value)) == (array.hardmask, repr(array.fill_value))
        assert (found.mask is np.ma.nomask) == (array.mask is np.ma.nomask)


def test_what_is_masked_over_there_is_masked_here(lend: Lend) -> None:
    numbers = np.arange(4.0)
    array = np.ma.array(numbers, copy=False)
    lend(lambda a: a.__setitem__(1, np.ma.masked))(array)
    assert array.tolist() == [0, None, 2, 3]
    lend(lambda a: a.__setitem__(0, 9))(array)
    assert numbers[0] == 9
    array[1] = 5
    assert lend(np.sum)(array) == 19


def test_the_masked_item_is_itself(lend: Lend) -> None:
    assert lend(lambda a: a[0])(np.ma.array([1], mask=[True])) is np.ma.masked
    assert lend(lambda a: a is np.ma.masked)(np.ma.masked) is True


@pytest.mark.parametrize(
    ("value", "lacks"),
    [
        (np.ma.array([1.0, 2.0], mask=[True, False]), True),
        ([np.ma.masked], True),
        (np.ma.array([1, 2], mask=[False, False]), False),
        (np.ma.array([1, 2]), False),
        (matrix([[1.0]]), False),
    ],
    ids=repr,
)
def test_what_is_masked_is_missing(value: Any, lacks: bool) -> None:
    """`(found == wanted).all()` leaves it out, so points rest on a word where the reference's isn't masked."""
    assert ("missing" in lacks_of(value)) is lacks


PART = {"dtype": "float64", "shape": [2], "start": 0, "size_bytes": 16}
MASK = {"dtype": "bool", "shape": [2], "start": 0, "size_bytes": 2}
FILL = {"dtype": "float64", "shape": [], "start": 0, "size_bytes": 8}


@pytest.mark.parametrize(
    "tree",
    [
        {"t": "array", "id": 3, "v": PART | {"matrix": True}},
        {"t": "masked array", "id": 3, "v": None},
        {
            "t": "masked array",
            "id": 3,
            "v": {"data": PART, "mask": MASK | {"shape": [1], "size_bytes": 1}, "fill": FILL},
        },
        {"t": "masked array", "id": 3, "v": {"data": PART, "mask": PART, "fill": FILL}},
        {"t": "masked array", "id": 3, "v": {"data": PART, "mask": MASK, "fill": PART}},
        {"t": "masked array", "id": 3, "v": {"data": PART, "mask": MASK, "fill": FILL | {"dtype": "int64"}}},
        {"t": "masked array", "id": 3, "v": {"data": None, "mask": MASK, "fill": FILL}},
    ],
    ids=str,
)
def test_what_is_neither_is_refused(tree: Any) -> None:
    with pytest.raises(WireError):
        values.decode(tree, values.Crossing(Containers(0), Copies(), values.Body(bytes(16))))


def test_a_mask_that_was_hardened_is_undone(pair: Any, lend: Lend) -> None:
    judge, _ = pair
    array = np.ma.array([1.0, 2, 3], mask=[0, 0, 1])
    judge.effects.begin()

    def harden(given: Any) -> None:
        given[0] = 7
        given[:2] = np.ma.masked
        given.harden_mask()
        given.fill_value = 5

    lend(harden)(array)
    judge.effects.undo()
    assert array.tolist() == [1, 2, None]
    assert not array.hardmask
    assert array.fill_value != 5
