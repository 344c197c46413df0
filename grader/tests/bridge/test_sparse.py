"""Sparse tensors cross by their parts: what arrives is torch's own, and what is no sparse tensor is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nbjudge.bridge import sparse
from nbjudge.bridge.arrays import Bare
from nbjudge.errors import WireError
from nbjudge_tests.trials import answer, check, only, run

pytestmark = pytest.mark.filterwarnings("ignore:Sparse .* tensor support is in beta")
COO = "torch.sparse_coo"
PLACES, VALUES = torch.tensor([[0, 1], [1, 0]]), torch.tensor([1.0, 2.0])


def crossed(tensor: torch.Tensor) -> torch.Tensor:
    """As it is made on the other side."""
    return sparse.made(tuple(part.tensor if type(part) is Bare else part for part in sparse.described(tensor)))


@given(
    numbers=st.lists(st.sampled_from([0.0, 1.0, -2.5, float("inf")]), min_size=16, max_size=16),
    layout=st.sampled_from(list(sparse.LAYOUTS)),
    dtype=st.sampled_from([torch.float32, torch.float64, torch.complex64, torch.int64]),
)
def test_what_arrives_is_what_was_sent(numbers: list[float], layout: str, dtype: torch.dtype) -> None:
    finite = [0.0 if number == float("inf") and not dtype.is_floating_point else number for number in numbers]
    dense = torch.tensor(finite).reshape(4, 4).to(dtype)
    block = (2, 2) if layout.endswith(("bsr", "bsc")) else None
    sent = dense.to_sparse(layout=sparse.LAYOUTS[layout], blocksize=block)
    made = crossed(sent)
    assert (made.layout, made.dtype, made.shape) == (sent.layout, sent.dtype, sent.shape)
    assert torch.equal(made.to_dense(), dense)
    assert sparse.snapshot(made) == sparse.snapshot(sent)


def test_places_that_are_there_twice_stay_so() -> None:
    sent = torch.sparse_coo_tensor([[0, 0]], [1.0, 2.0], (2,), check_invariants=True)
    made = crossed(sent)
    assert not made.is_coalesced()
    assert made._nnz() == 2
    assert crossed(sent.coalesce()).is_coalesced()


@pytest.mark.parametrize(
    "told",
    [
        None,
        (COO, (2, 2), True),
        ("torch.jagged", (2, 2), True, PLACES, VALUES),
        (COO, [2, 2], True, PLACES, VALUES),
        (COO, (2, "2"), True, PLACES, VALUES),
        (COO, (2, -2), True, PLACES, VALUES),
        (COO, (2,) * 17, True, PLACES, VALUES),
        (COO, (2, 2), True, PLACES, [1.0, 2.0]),
        (COO, (2, 2), True, PLACES, VALUES, VALUES),
        (COO, (1, 1), True, PLACES, VALUES),
        (COO, (2, 2), True, torch.zeros(2, 2, dtype=torch.int64), VALUES),
        (COO, (2, 2), True, PLACES, VALUES[:1]),
        (COO, (2, 2), True, PLACES.double(), VALUES),
        (COO, (1 << 20, 1 << 20), True, PLACES, VALUES),
        ("torch.sparse_csr", (2, 2), True, torch.tensor([0, 9, 2]), torch.tensor([0, 1]), VALUES),
        ("torch.sparse_csr", (2, 2), True, torch.tensor([0, 1, 2]), torch.tensor([0, 7]), VALUES),
    ],
    ids=str,
)
def test_what_contradicts_itself_is_refused(told: Any) -> None:
    with pytest.raises(WireError):
        sparse.made(told)


def test_a_gradient_that_is_sparse_is_our_failure_never_a_zero(zygote: Any) -> None:
    source = "import torch\nwords = torch.nn.Embedding(5, 2, sparse=True)"
    test = "import torch\nwords(torch.tensor([1])).sum().backward()\nassert words.weight.grad.to_dense().sum() == 2"
    outcome = only(run(zygote, answer(source), check(test)))
    assert outcome.points is None
    assert "a tensor with layout torch.sparse_coo" in outcome.message


def test_places_that_change_in_place_cross_too(zygote: Any) -> None:
    """`mul_` keeps a tensor's places, `add_` doesn't: both are seen by who passed the tensor in."""
    source = "def grow(matrix, other): matrix.add_(other)"
    test = (
        "import torch\nours = torch.eye(2).to_sparse()\ngrow(ours, torch.ones(2, 2).to_sparse())\n"
        "assert torch.equal(ours.to_dense(), torch.eye(2) + 1)"
    )
    assert only(run(zygote, answer(source), check(test))).points == 1
