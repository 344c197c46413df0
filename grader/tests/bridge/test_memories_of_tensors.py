"""An array and a tensor on one memory are so on the other side too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
import pytest
import torch

from nbjudge.bridge import values
from nbjudge.bridge.torch.mirror import Mirror
from nbjudge.bridge.values.shared import Containers, Copies
from nbjudge.errors import WireError
from nbjudge_tests.two_sides import Lend, lend, pair

__all__ = ["lend", "pair"]  # fixtures


def test_a_tensor_on_an_argument_s_memory(lend: Lend) -> None:
    held: list[Any] = []

    def give(x: Any) -> Any:
        held[:] = [x, torch.from_numpy(x)]
        return held[1]

    array = np.zeros(3)
    tensor = lend(give)(array)
    tensor[0] = 4
    assert array.tolist() == [4, 0, 0]
    array[1] = 5
    assert tensor.tolist() == [4, 5, 0]
    lend(lambda: held[1].fill_(7) is None)()
    assert array.tolist() == tensor.tolist() == [7, 7, 7]
    lend(lambda: held[0].fill(8))()
    assert array.tolist() == tensor.tolist() == [8, 8, 8]
    array[0] = 1
    assert lend(lambda: held[0].tolist() + held[1].tolist())() == [1, 8, 8] * 2


def test_an_array_on_an_argument_s_storage(lend: Lend) -> None:
    held: list[Any] = []

    def give(t: Any) -> Any:
        held[:] = [t, t[1:].numpy()]
        return held[1]

    tensor = torch.zeros(3)
    array = lend(give)(tensor)
    array[0] = 4
    assert tensor.tolist() == [0, 4, 0]
    tensor[2] = 5
    assert array.tolist() == [4, 5]
    lend(lambda: held[1].fill(7))()
    assert tensor.tolist() == [0, 7, 7]
    assert array.tolist() == [7, 7]
    lend(lambda: held[0].fill_(8) is None)()
    assert tensor.tolist() == [8, 8, 8]
    assert array.tolist() == [8, 8]


def test_copies_of_either_are_ones(lend: Lend) -> None:
    array, tensor = np.zeros(3), torch.zeros(3)
    lend(torch.tensor)(array)[0] = 1
    lend(lambda t: t.numpy().copy())(tensor)[0] = 1
    assert array.sum() == tensor.sum() == 0


@pytest.mark.parametrize("both", [lambda z: (torch.from_numpy(z), z), lambda z: [torch.from_numpy(z[1:]), z[1:]]])
def test_both_of_an_answer_s(both: Any, lend: Lend) -> None:
    tensor, array = lend(lambda: both(np.zeros(3)))()
    array[0] = 4
    assert tensor[0] == 4


def test_what_lies_beside_stays_there(lend: Lend) -> None:
    table, tensor = np.arange(4.0), torch.arange(4.0)
    for ask, given in (
        (lambda a: torch.from_numpy(a.base), table[:2]),
        (lambda t: torch.empty(0, dtype=t.dtype).set_(t.untyped_storage()).numpy(), tensor[:2]),
    ):
        with pytest.raises(values.UnsupportedError, match="beside"):
            lend(ask)(given)
    lend(lambda a: torch.from_numpy(a).fill_(9) is None)(table[1:3])
    assert table.tolist() == [0, 9, 9, 3]
    found = lend(torch.from_numpy)(table[1:3])
    found[0] = 7
    assert table.tolist() == [0, 7, 9, 3]


def test_who_outlives_the_other_goes_on(lend: Lend) -> None:
    held: list[Any] = []

    def give(t: Any) -> Any:
        held[:] = [t.numpy()]
        return held[0]

    array = lend(give)(torch.zeros(2))
    lend(lambda: None)()
    lend(lambda: held[0].fill(3))()
    assert array.tolist() == [3, 3]


def told(array: Any) -> tuple[Mirror, Containers, int]:
    """A judge that has passed an array, and its memory's number."""
    containers = Containers(0)
    mirror = Mirror(0, lambda *_: (), lambda *_: None, lambda *_: None)
    mirror.memories, containers.memories.lender = containers.memories, mirror
    tree = values.encode(array, values.Crossing(containers, Copies()))
    return mirror, containers, tree["v"]["memory"][0]


TENSOR = {"counter": 3, "version": 0, "leaf": True, "requires_grad": False, "retains_grad": False, "parameter": False}
REST = {"hooked": False, "hooked_after": False, "history": None}


def claim(memory: int, start: int) -> Any:
    """What says that a tensor of two numbers lies there."""
    window = {"storage": 5, "dtype": "float64", "shape": [2], "stride": [1], "offset": 0}
    storage = {"id": 5, "start": 0, "size_bytes": 16, "over": [memory, start]}
    tensor = TENSOR | REST | {"id": 3, "window": window}
    return {
        "gone": {"tensors": [], "storages": [], "links": []},
        "storages": [storage],
        "tensors": [tensor],
        "grads": [],
    }


@pytest.mark.parametrize("start", [0, 8, 16, 24, 1 << 39])
def test_a_tensor_can_t_claim_what_no_array_has_shown(start: int) -> None:
    table = np.arange(4.0)
    mirror, _, memory = told(table[:1])
    with pytest.raises(WireError):
        mirror.apply(claim(memory, start), bytes(16))
    assert table.tolist() == [0, 1, 2, 3]


def test_nor_does_it_bring_numbers_of_its_own_into_an_array() -> None:
    table = np.arange(4.0)
    mirror, _, memory = told(table)
    with mirror.ledger.pinned():
        mirror.apply(claim(memory, 8), bytes(16))
        mirror.apply(claim(memory, 8), bytes(range(16)))
        assert mirror.ledger.tensor(3).tolist() == [1, 2]
    assert table.tolist() == [0, 1, 2, 3]


def test_an_array_can_t_claim_what_no_tensor_has_shown() -> None:
    mirror, containers, _ = told(np.zeros(1))
    tensor = torch.arange(4.0, dtype=torch.float64)
    mirror.share(tensor[:1], mirror.begin(values.Body()))
    (number,) = mirror.ledger.storages
    array = {"dtype": "float64", "shape": [1], "start": 0, "size_bytes": 8, "strides": [8], "storage": number}
    for offset in (8, 4, 32, 1 << 40):
        tree = {"t": "array", "id": 3, "v": array | {"offset": offset}}
        with pytest.raises(WireError):
            values.decode(tree, values.Crossing(containers, Copies(), values.Body(bytes(8))))
    assert tensor.tolist() == [0, 1, 2, 3]


def test_nor_once_the_array_is_forgotten() -> None:
    table = np.arange(4.0)
    mirror, containers, memory = told(table[:2])
    said = claim(memory, 0)
    said["storages"][0]["size_bytes"] = 32
    with mirror.ledger.pinned():
        mirror.apply(said, bytes(32))
        containers.drop([2])
        assert containers.memories.known(memory) is None
        said["storages"], said["tensors"][0]["window"]["offset"] = [], 2
        said["tensors"][0]["id"] = 7
        with pytest.raises(WireError, match="never passed"):
            mirror.apply(said, bytes(32))


def test_what_an_array_on_a_tensor_changes_is_undone_once_the_tensor_has_gone(pair: Any, lend: Lend) -> None:
    judge, _ = pair
    numbers, held = np.zeros(4), list[Any]()

    def kept(tensor: torch.Tensor) -> Any:
        held.append(tensor.numpy())
        return held[0]

    first, second = lend(kept), lend(lambda: held[0].fill(9))
    judge.effects.begin()
    array = first(torch.from_numpy(numbers))  # of the tensor nobody holds more than the call
    lend(lambda: None)()
    second()
    assert numbers.tolist() == array.tolist() == [9] * 4
    judge.effects.undo()
    assert numbers.tolist() == [0] * 4


def test_a_part_of_an_array_and_then_a_tensor_on_more_of_it(lend: Lend) -> None:
    table = np.zeros(6)
    part, tensor = table[1:3], torch.from_numpy(table)[:5]
    lend(lambda a: a.sum())(part)
    lend(lambda t: t.fill_(3) is None)(tensor)
    assert table.tolist() == [3, 3, 3, 3, 3, 0]
    tensor[4] = 4
    assert lend(lambda t: t.tolist())(tensor) == [3, 3, 3, 3, 4]
    lend(lambda t, a: (t[2:].add_(1).sum().item(), a.fill(7)))(tensor, part)
    assert table.tolist() == [3, 7, 7, 4, 5, 0]


def shown_by_a_tensor(table: Any) -> tuple[Mirror, Any]:
    """A judge that has passed an array's first item, then a tensor on it and the next; what an answer says of that."""
    mirror, _, memory = told(table[:1])
    tensor = torch.from_numpy(table)[:2]
    mirror.share(tensor, mirror.begin(values.Body()))
    storage = next(iter(mirror.ledger.storages))
    said = claim(memory, 0)
    said["storages"][0] |= {"id": storage, "size_bytes": 32}
    said["tensors"][0]["window"]["storage"] = storage
    return mirror, said


def test_what_is_written_there_is_what_our_tensor_shows_and_no_array() -> None:
    table, notes = np.arange(4.0), list[tuple[Any, bool]]()
    mirror, said = shown_by_a_tensor(table)

    class Noted:
        def note(self, _key: object, undo: Any, *, ours: bool) -> None:
            notes.append((undo, ours))

    mirror.changes = Noted()  # type: ignore[assignment]  # no more is asked of it
    said["tensors"] = []
    mirror.apply(said, np.full(4, 9.0).tobytes())
    assert table.tolist() == [0, 9, 2, 3]
    mirror.apply(said, np.array([5, 9, 9, 9.0]).tobytes())
    ((undo, ours),) = notes  # nothing has changed there the second time
    undo()
    assert ours
    assert table.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("offset", [1, 2])
def test_a_tensor_shows_no_more_than_ours_beside_an_array(offset: int) -> None:
    table = np.arange(4.0)
    mirror, said = shown_by_a_tensor(table)
    said["storages"], said["tensors"][0]["window"]["offset"] = [], offset
    with mirror.ledger.pinned():
        with pytest.raises(WireError, match="never passed"):
            mirror.apply(said, b"")
        said["tensors"][0]["window"]["offset"] = 0
        mirror.apply(said, b"")
    assert table.tolist() == [0, 1, 2, 3]


def test_what_security_md_says_isn_t_followed(lend: Lend) -> None:
    """Should one of these be followed some day, its words go from the page."""
    texts = np.array(["a", "b"])
    assert not np.shares_memory(lend(lambda given: given[:1])(texts), texts)
    table = pandas.DataFrame({"x": [1.0, 2.0]})
    assert not np.shares_memory(lend(lambda given: given["x"].to_numpy())(table), table["x"].to_numpy())
    numbers = np.zeros(3)
    assert not lend(share)(numbers, torch.from_numpy(numbers[1:]))


def share(array: Any, tensor: torch.Tensor) -> bool:
    """Do they lie in one memory?"""
    return np.shares_memory(array, tensor.numpy())


def test_an_array_and_a_tensor_on_it_are_one_memory_also_where_they_first_cross_together(lend: Lend) -> None:
    numbers = np.zeros(3)
    tensor = torch.from_numpy(numbers)
    assert lend(share)(numbers, tensor)
    lend(lambda given: given["array"].__setitem__(0, 5))({"array": numbers, "tensor": [tensor]})
    assert tensor.tolist() == numbers.tolist() == [5, 0, 0]
    array, on = lend(lambda: (made := np.zeros(2), torch.from_numpy(made)))()
    on[0] = 3
    assert array.tolist() == [3, 0]


def test_a_subclass_of_data_crosses_as_what_it_is_derived_from(lend: Lend) -> None:
    class Row(list[int]):
        pass

    class Grid(np.ndarray):
        pass

    assert type(lend(lambda: Row([1, 2]))()) is list
    assert type(lend(lambda: np.zeros(2).view(Grid))()) is np.ndarray
