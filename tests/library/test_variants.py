"""Each student's own numbers: the same everywhere, spread evenly, and no matter of who says what in a notebook."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seegrad.variants import GRADED, HUB, student, variant
from seegrad.words.languages import speaking

Ids = st.text(max_size=30)


@given(Ids, st.integers(), st.integers(-100, 100), st.integers(0, 100))
def test_a_draw_is_one_of_those_that_were_asked_for_and_stays(who: str, n: int, low: int, more: int) -> None:
    drawn = variant(who, n).whole("k", low, low + more)
    assert drawn in range(low, low + more + 1)
    assert drawn == variant(who, n).whole("k", low, low + more)


@given(Ids, st.lists(st.integers(), min_size=1, max_size=8))
def test_an_order_has_everything_in_it(who: str, things: list[int]) -> None:
    assert sorted(variant(who, 1).shuffled("rows", things)) == sorted(things)
    assert variant(who, 1).one_of("one", *things) in things


def test_the_order_in_which_things_are_drawn_means_nothing() -> None:
    one, two = variant("ada", 1), variant("ada", 1)
    assert (one.whole("a", 0, 99), one.whole("b", 0, 99)) == (two.whole("b", 0, 99), two.whole("a", 0, 99))[::-1]


def test_students_exercises_names_and_seeds_draw_each_for_themselves() -> None:
    draws = [
        variant(who, n, seed).whole(name, 0, 10**9) for who in "ab" for n in (1, 2) for seed in "xy" for name in "pq"
    ]
    assert len(set(draws)) == 16


def test_every_number_is_drawn_about_as_often() -> None:
    found = Counter(variant(f"s{number}", 1).whole("k", 2, 9) for number in range(4000))
    assert found.keys() == set(range(2, 10))
    assert all(400 < count < 600 for count in found.values())


def test_neighbouring_ids_have_nothing_to_do_with_each_other() -> None:
    draws = [variant(f"s{number:04}", 1).whole("k", 0, 1) for number in range(1000)]
    assert 400 < sum(before == after for before, after in pairwise(draws)) < 600


def test_another_process_draws_the_same() -> None:
    code = "from seegrad.variants import variant; print([variant('ada', n).whole('k', 0, 999) for n in range(5)])"
    told = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert told.strip() == str([variant("ada", n).whole("k", 0, 999) for n in range(5)])


def test_the_grader_s_word_counts_before_the_hub_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(GRADED, raising=False)
    monkeypatch.delenv(HUB, raising=False)
    assert student() == ""
    monkeypatch.setenv(HUB, "ada")
    assert student() == "ada"
    monkeypatch.setenv(GRADED, "bob")
    assert student() == "bob"


def test_it_is_said_whose_they_are_and_what_to_do_where_nobody_knows() -> None:
    assert variant("ada", 1).said(k=4, side="left") == "k = 4, side = left (yours, ada)"
    assert variant("", 1).said(k=4).splitlines() == [
        "k = 4 (whose, isn't known here)",
        "To hand in, set NBJUDGE_STUDENT to your id in the course, and start again.",
    ]
    with speaking("zh_CN"):
        assert variant("ada", 1).said(k=4) == "k = 4（你的题目，ada）"


def test_nothing_to_draw_from_is_said() -> None:
    with pytest.raises(ValueError, match="no whole number from 3 to 2"):
        variant("ada", 1).whole("k", 3, 2)
    with pytest.raises(ValueError, match="nothing to choose from"):
        variant("ada", 1).one_of("side")
