"""Pairs that are nearer than the class: what a copy may change without getting away, and what makes no pair."""

from __future__ import annotations

import hashlib
import itertools
import keyword
import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbjudge.pages.classmates import Compared, said
from nbjudge.pages.similar.fingerprints import GRAM, WINDOW, Prints, grams, prints, winnowed
from nbjudge.pages.similar.pairs import LEAST_TOKENS, Found, covered, many, nearer, passages
from nbjudge.shown.patience import patience
from nbjudge.shown.tokens import tokens_of
from nbjudge_tests.classroom import authors
from nbjudge_tests.classroom.small import ROOT

Words = st.lists(st.sampled_from("abcdef"), max_size=60)


def taken(owner: str, *sources: str) -> Prints:
    return prints(owner, [tokens_of("code", source) for source in sources])


def spelled(words: Sequence[str]) -> list[tuple[str, int, int]]:
    return [(word, 2 * at, 2 * at + 1) for at, word in enumerate(words)]


def pairs(found: Found) -> list[tuple[str, str]]:
    return [(pair.first.owner, pair.second.owner) for pair in found.pairs]


# ---------------------------------------------------------------------- tokens


def test_names_comments_layout_spelling_of_literals_are_aside() -> None:
    one = "def mean(xs):\n    # all\n    return sum(xs) / len( xs ) + 1.50 + 'a'\n"
    two = '''def average(v):
    """The mean."""
    return sum(v)/len(v)+0x3+"other" "text"'''
    assert [word for word, _, _ in tokens_of("code", one)] == [word for word, _, _ in tokens_of("code", two)]


def test_what_is_asked_of_a_library_keeps_its_name_and_what_the_text_defines_does_not() -> None:
    words = [word for word, _, _ in tokens_of("code", "t.relu(x)\nself.size = 3\nself.size")]
    assert words == ["n", ".", "relu", "(", "n", ")", "n", ".", "n", "=", "0", "n", ".", "n"]


@given(st.text(max_size=200))
def test_every_text_has_tokens_that_stand_in_it_in_order(source: str) -> None:
    for kind in ("code", "prose"):
        spans = [span for _, *span in tokens_of(kind, source)]
        assert all(start < end for start, end in spans)
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans))
        assert not spans or spans[-1][1] <= len(source)


@given(st.from_regex(r"[a-z]{1,8}", fullmatch=True).filter(lambda name: not keyword.iskeyword(name) and name != "mine"))
def test_a_program_has_the_same_tokens_whatever_its_names_are(name: str) -> None:
    said = "def {0}(mine):\n    for {0} in mine:\n        {0} += 1\n    return {0}"
    assert [word for word, _, _ in tokens_of("code", said.format(name))] == [
        word for word, _, _ in tokens_of("code", said.format("other_name"))
    ]


# ---------------------------------------------------------------------- fingerprints


@given(st.lists(st.integers(0, 50), max_size=60))
def test_every_window_keeps_its_smallest(hashes: list[int]) -> None:
    kept = list(winnowed(hashes))
    assert kept == sorted(set(kept))
    assert bool(kept) == bool(hashes)
    for start in range(len(hashes) - WINDOW + 1):
        window = range(start, start + WINDOW)
        assert {hashes[at] for at in kept if at in window} >= {min(hashes[at] for at in window)}


@given(Words, Words, Words, Words, st.lists(st.sampled_from("abcdef"), min_size=GRAM + WINDOW - 1, max_size=30))
def test_a_run_that_two_texts_share_gives_them_a_fingerprint_in_common(
    before: list[str], after: list[str], others: list[str], rest: list[str], run: list[str]
) -> None:
    one = prints("one", [spelled(before + run + after)])
    two = prints("two", [spelled(others + run + rest)])
    assert one.spots.keys() & two.spots.keys()


@given(Words)
def test_a_fingerprint_is_the_hash_of_the_tokens_that_stand_there(words: list[str]) -> None:
    for mark, spots in prints("one", [spelled(words)]).spots.items():
        for spot in spots:
            assert grams(words)[spot.token] == mark
            assert (spot.start, spot.end) == (2 * spot.token, 2 * (spot.token + GRAM - 1) + 1)


def test_fingerprints_are_the_same_in_every_process() -> None:
    run = hashlib.blake2b(b"a\0b\0c\0d\0e\0f\0g\0h\0i", digest_size=8)
    assert grams("abcdefghi") == [int(run.hexdigest(), 16)]


# ---------------------------------------------------------------------- pairs


@pytest.fixture(scope="module")
def group() -> dict[str, Prints]:
    """Forty who know nothing of each other."""
    return {f"s{number:02}": taken(f"s{number:02}", authors.program(number)) for number in range(40)}


def test_people_who_know_nothing_of_each_other_make_no_pair(group: dict[str, Prints]) -> None:
    assert pairs(nearer(list(group.values()), ())) == []


@pytest.mark.parametrize("way", authors.DISGUISES)
def test_a_copy_is_found_however_it_is_disguised(way: str, group: dict[str, Prints]) -> None:
    copy = taken("copy", authors.DISGUISES[way](authors.program(7)))
    assert pairs(nearer([*group.values(), copy], ())) == [("copy", "s07")]


def test_a_copy_is_found_that_is_disguised_in_every_way(group: dict[str, Prints]) -> None:
    source = authors.program(7)
    for disguise in authors.DISGUISES.values():
        source = disguise(source)
    assert pairs(nearer([*group.values(), taken("copy", source)], ())) == [("copy", "s07")]


def test_half_a_text_is_enough(group: dict[str, Prints]) -> None:
    functions = authors.program(7).split("\n\n")
    mixed = "\n\n".join([*functions[:2], *authors.program(777).split("\n\n")[2:]])
    assert pairs(nearer([*group.values(), taken("mixed", mixed)], ())) == [("mixed", "s07")]


def test_cells_in_another_order_are_the_same_text(group: dict[str, Prints]) -> None:
    functions = authors.program(7).split("\n\n")
    (pair,) = nearer([*group.values(), taken("copy", *reversed(functions))], ()).pairs
    assert pair.nearness > 0.8


def test_what_the_course_gives_is_taken_out(group: dict[str, Prints]) -> None:
    given_text = authors.program(1000)
    known = set(grams([word for word, _, _ in tokens_of("code", given_text)]))
    told = [*group.values(), *(taken(f"t{number}", given_text, authors.program(50 + number)) for number in range(2))]
    assert pairs(nearer(told, known)) == []
    assert pairs(nearer(told, ())) == [("t0", "t1")]  # and nothing else took it out


def test_what_much_of_the_class_has_is_taken_out(group: dict[str, Prints]) -> None:
    usual = authors.program(1000)
    told = [taken(name, usual, authors.program(number)) for number, name in enumerate(group)]
    assert pairs(nearer(told, ())) == []


def test_short_answers_that_everyone_must_write_alike_make_no_pair() -> None:
    ways = (
        "def mean(xs):\n    return sum(xs) / len(xs)",
        "def mean(xs):\n    total = 0\n    for x in xs:\n        total += x\n    return total / len(xs)",
        "def mean(xs):\n    import statistics\n    return statistics.fmean(xs)",
    )
    told = [taken(f"s{number}", ways[number % 3].replace("x", "xyz"[number % 2])) for number in range(30)]
    assert pairs(nearer(told, ())) == []
    assert pairs(nearer([*told[:3], taken("again", ways[0])], ())) == []  # the same, of a few: too short
    assert max(len(tokens_of("code", way)) for way in ways) < LEAST_TOKENS


def test_everybody_in_a_ring_is_paired_with_everybody(group: dict[str, Prints]) -> None:
    ring = [taken(f"r{number}", authors.renamed(authors.program(2000))) for number in range(4)]
    found = nearer([*group.values(), *ring], ())
    assert sorted(pairs(found)) == list(itertools.combinations(("r0", "r1", "r2", "r3"), 2))


def test_the_nearness_is_what_comparing_every_text_with_every_text_gives(group: dict[str, Prints]) -> None:
    """The oracle: no index, all pairs."""
    told = [*list(group.values())[:12], *(taken(f"c{n}", authors.padded(authors.program(n))) for n in range(3))]
    held = {mark: [one for one in told if mark in one.spots] for one in told for mark in one.spots}
    weight = {mark: math.log2(16 / len(who)) for mark, who in held.items() if len(who) <= many(len(told))}
    slow = {}
    for one, two in itertools.combinations(told, 2):
        own = [sum(weight.get(mark, 0) for mark in each.spots) for each in (one, two)]
        both = sum(weight.get(mark, 0) for mark in one.spots.keys() & two.spots.keys())
        slow[tuple(sorted((one.owner, two.owner)))] = both / min(own)
    found = nearer(told, ())
    assert {(pair.first.owner, pair.second.owner): pair.nearness for pair in found.pairs} == {
        names: pytest.approx(value) for names, value in slow.items() if value >= found.bound
    }
    assert len(found.pairs) >= 3


def test_of_two_or_three_nobody_says_what_is_usual(group: dict[str, Prints]) -> None:
    """It would be the nearness of the nearest pair itself."""
    few, ours = list(group.values())[:2], authors.program(2000)
    pair = [taken("c0", ours), taken("c1", authors.renamed(ours))]
    for told in (pair, [*pair, few[0]]):
        found = nearer(told, ())
        assert (found.usual, found.bound, pairs(found)) == (None, 0.9, [("c0", "c1")])
        assert "too few to say what is usual; a pair is told from 0.90 on" in said(_compared(found, told))
    found = nearer([*pair, *few], ())
    assert found.usual is not None
    assert f"is {found.usual:.2f}; a pair is told from {found.bound:.2f} on" in said(_compared(found, [*pair, *few]))
    page = " ".join((ROOT / "docs/grading.md").read_text(encoding="utf-8").split())
    assert "In a class of two or three there is no usual: a pair is told there from 0.90 on." in page


def _compared(found: Found, told: Sequence[Prints]) -> Compared:
    return Compared("small", found, {one.owner: () for one in told}, {}, {})


@given(st.lists(st.tuples(Words, Words), max_size=6))
def test_the_order_of_the_class_means_nothing(written: list[tuple[list[str], list[str]]]) -> None:
    told = [prints(str(place), list(map(spelled, texts))) for place, texts in enumerate(written)]
    assert nearer(told, ()) == nearer(told[::-1], ())


def test_a_text_of_one_token_is_one_passage_and_takes_no_time(group: dict[str, Prints]) -> None:
    twins = [prints(name, [tokens_of("prose", "图" * 50_000)]) for name in ("a", "b")]
    with patience(5):  # eleven seconds a pair, where each step copied all before it
        (pair,) = nearer([*twins, *group.values()], ()).pairs
        assert [len(side) for side in passages(pair)] == [1, 1]


def test_nobody_and_a_class_of_one_make_no_pair() -> None:
    assert nearer([], ()) == nearer([taken("s", "")], ()) == Found((), None)
    assert nearer([taken("s", authors.program(1))], ()) == Found((), None)


def test_passages_are_the_common_text_on_both_sides(group: dict[str, Prints]) -> None:
    functions = authors.program(7).split("\n\n")
    other = authors.program(778)
    mixed = [other, *functions[:2]]
    pair = nearer([*group.values(), taken("mixed", *mixed)], ()).pairs[0]
    left, right = passages(pair)
    assert {one.piece for one in left} >= {1, 2}
    assert {one.number for one in right} <= {one.number for one in left}
    for one in left:
        text = mixed[one.piece][one.start : one.end]
        twins = [each for each in right if each.number == one.number]
        assert one.piece == 0 or len(twins) != 1 or text in authors.program(7)[twins[0].start : twins[0].end]
    assert pair.tokens == min(covered(one, pair.shared) for one in (pair.first, pair.second))
