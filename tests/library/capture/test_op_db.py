"""A sample of PyTorch's op database, the same on every run; `benchmarks/op_db.py` runs the whole."""

from __future__ import annotations

import itertools

import pytest

from nbjudge_tests.session import one_in
from tests.data.op_database import compared, names, samples

STRIDE, OFFSET = 4, 1
"""Every fourth op in `make test-all`, of these every sixth in `make test`."""
SHARES = 24
SAMPLES_AN_OP = 2


@pytest.fixture(autouse=True)
def own_errors_are_raised(monkeypatch):
    monkeypatch.setenv("SEEGRAD_RAISE_OWN_ERRORS", "1")


@pytest.mark.parametrize("share", one_in(6, range(SHARES)))
@pytest.mark.filterwarnings("ignore")  # making the samples warns
def test_an_op_gives_the_same_bits(share: int) -> None:
    chosen = names()[OFFSET::STRIDE][share::SHARES]
    assert chosen
    for name in chosen:
        for op, sample in itertools.islice(samples(name), SAMPLES_AN_OP):
            assert compared(op, sample) is not False, sample
