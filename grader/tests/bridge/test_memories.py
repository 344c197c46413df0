"""Arrays that share memory on one side share it on the other; nobody shows or writes what wasn't passed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nbjudge.bridge import values
from nbjudge.bridge.values.memories import flat_of
from nbjudge.bridge.values.shared import Containers, Copies
from nbjudge.errors import WireError
from nbjudge_tests.two_sides import Lend, lend, pair

__all__ = ["lend", "pair"]  # fixtures

SHOWS = "An array shows what was never passed"
FLOATS = {"dtype": "float64", "shape": [2], "start": 0, "size_bytes": 16, "strides": [8]}


def crossing(containers: Containers, body: bytes | bytearray = b"") -> values.Crossing:
    return values.Crossing(containers, Copies(), values.Body(bytearray(body)))


def told(value: Any, containers: Containers) -> tuple[Any, bytes]:
    """What is said of a value, and the bytes that go with it."""
    ours = crossing(containers)
    return values.encode(value, ours), bytes(ours.body.data)


def heard(tree: Any, body: bytes, containers: Containers) -> Any:
    return values.decode(tree, crossing(containers, body))


def crossed(value: Any) -> Any:
    return heard(*told(value, Containers(0)), Containers(1))


def passed(value: Any) -> tuple[Containers, int]:
    """A judge that has passed an array, and the number of its memory."""
    judge = Containers(0)
    tree, _ = told(value, judge)
    return judge, tree["v"]["memory"][0]


VIEWS: list[Callable[[Any], Any]] = [
    lambda a: a[: len(a) // 2],
    lambda a: a[:],
    lambda a: a.view(),
    lambda a: a.reshape(2, -1),
    lambda a: a.reshape(2, -1).T,
    lambda a: a[::-1],
    lambda a: a[::-2],
    lambda a: a.view("int64"),
    lambda a: a.view(np.complex128).real,
    lambda a: np.lib.stride_tricks.sliding_window_view(a, 2, writeable=True),
    lambda a: np.asarray(memoryview(a))[1:],
]


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_is_one_whoever_writes(view: Callable[[Any], Any], lend: Lend) -> None:
    """By the result into the argument, by the argument into the result, here and over there."""
    held: list[Any] = []

    def give(a: Any) -> Any:
        held[:] = [a, view(a)]
        return held[1]

    def write(at: int, number: float) -> None:
        held[at].flat[0] = number

    array = np.arange(6.0)
    result = lend(give)(array)
    assert np.shares_memory(result, array)
    assert (result.shape, result.dtype, result.strides) == (view(array).shape, view(array).dtype, view(array).strides)
    for at, number in ((0, 7), (1, 8)):
        [array, result][at].flat[0] = number + 1
        assert np.array_equal(result, view(array))
        lend(write)(at, number)
        assert [array, result][at].flat[0] == number
        assert np.array_equal(result, view(array))


def test_a_copy_has_a_memory_of_its_own(lend: Lend) -> None:
    array = np.arange(6.0)
    result = lend(lambda a: a[:3].copy())(array)
    assert not np.shares_memory(result, array)
    assert result.base is None
    result[0] = 9
    array[1] = 9
    assert (array[0], result[1]) == (0, 1)


def test_a_view_has_the_argument_itself_as_its_base(lend: Lend) -> None:
    array = np.arange(6.0)
    assert lend(lambda a: a[1:])(array).base is array
    for made in (np.ones((1, 3)), np.asfortranarray(np.ones((2, 3))), np.ones((2, 3)), np.ones(())):
        assert lend(lambda made=made: made.copy(order="K"))().base is None


@pytest.mark.parametrize("rows", [lambda z: [z[:], z[:]], lambda z: (z, z[:]), lambda z: {"a": z[:2], "b": z[1:]}])
def test_arrays_of_an_answer_s_share_theirs(rows: Callable[[Any], Any], lend: Lend) -> None:
    found = lend(lambda: rows(np.zeros(3)))()
    first, second = found.values() if isinstance(found, dict) else found
    first[1] = 5
    assert 5 in second
    assert np.shares_memory(first, second)


def test_views_that_cross_in_different_calls_stay_related(lend: Lend) -> None:
    """A part first, the whole of it later, in either direction."""
    table, held = np.zeros((4, 3)), np.zeros(6)
    add, part = lend(lambda a: a.__iadd__(1) is None), lend(lambda start, end: held[start:end])
    assert add(table[1]) is add(table[:, 2]) is False
    assert table.tolist() == [[0, 0, 1], [1, 1, 2], [0, 0, 1], [0, 0, 1]]
    first, second, whole = part(4, 6), part(0, 3), part(0, 6)
    whole[:] = 3
    assert first.tolist() == [3, 3]
    assert second.tolist() == [3, 3, 3]
    assert held.tolist() != whole.tolist()  # nothing was asked since
    assert np.shares_memory(part(2, 5), first)
    assert held.tolist() == whole.tolist()


def test_two_arguments_that_share_memory_do_so_over_there(lend: Lend) -> None:
    array = np.arange(4.0)
    assert lend(np.shares_memory)(array[:3], array[1:]) is True
    assert lend(np.shares_memory)(array[:2], array[2:]) is False


def test_what_lies_beside_a_slice_is_not_there(lend: Lend) -> None:
    table = np.arange(12.0).reshape(3, 4)
    seen: list[Any] = []

    def look(a: Any) -> None:
        seen[:] = [flat_of(a).view("f8").copy()]
        flat_of(a).view("f8")[3] = -1  # in the column that wasn't passed
        a[0, 0] = 5

    lend(look)(table[:, :-1])
    assert seen[0].tolist() == [0, 1, 2, 0, 4, 5, 6, 0, 8, 9, 10, 0]
    assert table[0].tolist() == [5, 1, 2, 3]


def test_what_lies_beside_a_slice_is_not_shown_by_asking_for_it(lend: Lend) -> None:
    with pytest.raises(values.UnsupportedError, match="beside one that was passed"):
        lend(lambda a: a.base)(np.arange(4.0)[:2])


def test_a_read_only_array_is_one_over_there(lend: Lend) -> None:
    def write(a: Any) -> None:
        a[0] = 1

    array, frozen = np.zeros(3), np.broadcast_to(np.zeros(2), (3, 2))
    view = array[:]
    view.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        lend(write)(view)
    with pytest.raises(ValueError, match="read-only"):
        lend(write)(frozen)
    assert lend(lambda a, _view: write(a))(array, view) is None
    assert view[0] == 1
    assert lend(lambda: np.broadcast_to(np.arange(2.0), (3, 2)))().strides == (0, 8)


def test_who_forces_a_read_only_array_open_is_refused(lend: Lend) -> None:
    def force(a: Any) -> None:
        flat_of(a)[0] = 1

    array = np.zeros(3, "uint8")
    view = array[:]
    view.flags.writeable = False
    with pytest.raises(values.UnsupportedError, match="read-only"):
        lend(force)(view)
    assert array[0] == 0


def test_a_part_of_something_huge_is_sent_alone(lend: Lend) -> None:
    huge = np.zeros(40 << 20)  # 320 MB, of which nothing is touched but a page
    parts = lend(lambda a: [a[:2], a[1:]])(huge[5:8])
    parts[0][1] = 4
    assert huge[6] == parts[1][0] == 4
    tree, body = told(huge[:2], Containers(0))
    assert tree["v"]["memory"][1] == len(body) == 16
    tree, body = told(np.zeros((1 << 20, 5))[:, 0], Containers(0))
    assert len(body) == 8 << 20


def test_more_that_isn_t_shown_than_is_carried_travels_by_itself() -> None:
    judge, student = Containers(0), Containers(1)
    bases = [np.zeros(30 << 20, "uint8") for _ in range(5)]
    found = [heard(*told(base[:2], judge), student) for base in bases]
    sizes = [flat_of(array).nbytes for array in found]
    assert sizes == [30 << 20] * 3 + [2, 2]


def test_a_memory_is_forgotten_with_its_arrays(lend: Lend) -> None:
    ask = lend(lambda a: a[::2])
    for number in range(200):
        array = np.full(1000, number)
        assert np.shares_memory(ask(array), array)


@pytest.mark.parametrize("array", [np.ones((2, 3))[:, ::-1], np.zeros(3, ">i4"), np.zeros((0, 2)), np.array(3.0)])
def test_all_else_of_an_array_is_as_it_was(array: Any) -> None:
    found = crossed(array)
    assert np.array_equal(found, array)
    assert found.shape == array.shape


def test_an_array_of_truth_values_has_no_others(lend: Lend) -> None:
    held = np.zeros(2, "uint8")

    def give() -> Any:
        return held, held.view(bool)

    assert lend(give)()[1].tolist() == [False, False]
    held[0] = 2
    with pytest.raises(values.UnsupportedError, match="truth values"):
        lend(give)()


# ---------------------------------------------------------------------- what the other side may claim


@pytest.mark.parametrize(
    "place",
    [
        {"memory": [3, 15], "offset": 0},
        {"memory": [3, 16], "offset": 1},
        {"memory": [3, 16], "offset": 0, "strides": [16]},
        {"memory": [3, 16], "offset": 0, "strides": [-8]},
        {"memory": [3, 16], "offset": 0, "strides": [1 << 62]},
        {"memory": [3, 16], "offset": 0, "strides": [8, 8]},
        {"memory": [3, 16], "offset": 0, "strides": [1.0]},
        {"memory": [3, 16], "offset": -8},
        {"memory": [3, 16]},
        {"memory": [3, 1 << 40], "offset": 0},
        {"memory": [3, -1], "offset": 0},
        {"memory": [3], "offset": 0},
        {"memory": 3, "offset": 0},
        {"memory": [2, 16], "offset": 0},
        {"memory": [3, 0], "offset": 0, "shape": [0], "size_bytes": 0},
    ],
    ids=str,
)
def test_a_place_that_an_array_can_t_have_is_refused(place: dict[str, Any]) -> None:
    tree = {"t": "array", "id": 3, "v": FLOATS | place}
    with pytest.raises(WireError):
        heard(tree, bytes(16), Containers(0))


def test_many_that_claim_much_are_refused() -> None:
    judge = Containers(0)
    trees = [{"t": "array", "id": n, "v": FLOATS | {"memory": [n, 60 << 20], "offset": 0}} for n in range(3, 13, 2)]
    with pytest.raises(WireError, match="more memory than they show"):
        heard({"t": "tuple", "v": trees}, bytes(16), judge)


@pytest.mark.parametrize("offset", [0, 8, 16])
def test_what_was_not_passed_can_t_be_claimed(offset: int) -> None:
    """Neither beside it, nor overlapping it: labels lie behind the numbers that were passed."""
    table = np.arange(4.0)
    judge, memory = passed(table[1:2])
    with pytest.raises(WireError, match=SHOWS):
        heard({"t": "array", "id": 3, "v": FLOATS | {"memory": [memory, 32], "offset": offset}}, bytes(16), judge)
    assert table.tolist() == [0, 1, 2, 3]


def test_gaps_of_a_broadcast_or_overlapping_array_can_t_be_claimed() -> None:
    table = np.arange(16.0)
    odd = np.lib.stride_tricks.as_strided(table, (4, 4), (16, 16))  # as many bytes as it spans, with gaps
    judge, memory = passed(odd)
    with pytest.raises(WireError, match=SHOWS):
        heard({"t": "array", "id": 3, "v": FLOATS | {"memory": [memory, 128], "offset": 8}}, bytes(16), judge)


def test_a_view_of_what_was_passed_brings_no_numbers_of_its_own() -> None:
    """A change is told as one, and noted: it doesn't come hidden in a new view."""
    table = np.arange(4.0)
    judge, memory = passed(table)
    view = heard({"t": "array", "id": 3, "v": FLOATS | {"memory": [memory, 32], "offset": 8}}, bytes(16), judge)
    assert view.tolist() == [1, 2]
    assert view.base is table


def test_a_byte_that_was_told_isn_t_a_truth_value() -> None:
    judge = Containers(0)
    numbers = {"dtype": "uint8", "shape": [2], "start": 0, "size_bytes": 2, "strides": [1], "offset": 0}
    heard({"t": "array", "id": 3, "v": numbers | {"memory": [3, 2]}}, bytes([1, 2]), judge)
    with pytest.raises(WireError, match="neither"):
        heard({"t": "array", "id": 5, "v": numbers | {"memory": [3, 2], "dtype": "bool"}}, bytes([1, 2]), judge)


@pytest.mark.parametrize("number", [2, 4, 5])
def test_a_new_array_takes_no_number_of_ours_and_none_in_use(number: int) -> None:
    """By a second array of one number, or one of the judge's, the memory of the first would outlive it."""
    judge = Containers(0)
    told(np.arange(2.0), judge)  # has number 2
    heard({"t": "array", "id": 5, "v": FLOATS | {"memory": [5, 16], "offset": 0}}, bytes(16), judge)
    with pytest.raises(WireError, match="a number that isn't free"):
        heard({"t": "array", "id": number, "v": FLOATS | {"memory": [7, 16], "offset": 0}}, bytes(16), judge)


def test_an_array_that_is_refused_leaves_no_memory_behind() -> None:
    judge = Containers(0)
    row = {"t": "array", "id": 5, "v": FLOATS | {"memory": [5, 16], "offset": 0, "matrix": True}}
    with pytest.raises(WireError, match="hasn't rows and columns"):
        heard(row, bytes(16), judge)
    assert judge.memories.known(5) is None


def test_a_change_is_known_as_that_of_each_argument_that_it_hits(pair: Any, lend: Lend) -> None:
    judge, _ = pair
    table = np.ones((4, 3))
    features, labels = table[:, :2], table[:, 2]
    judge.effects.begin()

    def clean(y: Any, x: Any) -> None:
        x -= 1
        y[:] = 0

    lend(clean)(labels, features)
    assert judge.effects.places == {".0", ".1"}


def test_of_a_list_of_many_rows_all_changes_are_told_once(pair: Any, lend: Lend) -> None:
    """By calls, not by the clock: it was told of each row that the whole list has changed."""
    judge, _ = pair
    rows, came = list(np.zeros((60, 3), bool)), list[str]()
    judge.effects.begin()
    judge.effects.came = lambda place, _value: came.append(place)

    def fill(rows: Any) -> None:
        for row in rows:
            row[:] = True

    lend(fill)(rows)
    assert all(map(np.all, rows))
    assert came.count(".0") <= 1


def test_a_read_only_array_that_is_written_again_over_there_is_followed(lend: Lend) -> None:
    total = lend(lambda a: float(a.sum()))
    array = np.zeros(3)
    array.flags.writeable = False
    assert total(array) == 0
    array.flags.writeable = True
    array[0] = 5
    assert total(array) == 5
