"""Asked again: which questions of earlier chapters come back, in which dress, and when one counts as learnt."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import seegrad
from seegrad.display import again as shown
from seegrad.display.again import AskedAgain, recorded
from seegrad.learn.again import Again, Dress, asked_again, dresses, earlier
from seegrad.learn.course_map import COURSE
from seegrad.learn.progress import VARIABLE, Progress, Tried, read_progress, write_progress
from seegrad.quiz import ask, judge
from seegrad.words.errors import QuestionError

NAMES = [stop.name for stop in COURSE]
GRAPHS, LEAVES, HOOKS, WRITES = NAMES[1:5]
WARDROBE = tuple(Dress(*each) for each in (
    (GRAPHS, "keeps", "one"), (GRAPHS, "keeps", "two"), (GRAPHS, "keeps", "three"),
    (GRAPHS, "outcome", "four"), (GRAPHS, "outcome", "five"),
    (LEAVES, "leaves", "six"), (LEAVES, "leaves", "seven"),
))  # fmt: skip


def answered(*told: tuple[str, str, bool]) -> Progress:
    """Answers one after the other: chapter, question, was it right."""
    progress = Progress()
    for chapter, question, right in told:
        progress = progress.predicted(chapter, question, Tried(right))
    return progress


def again(progress: Progress, chapter: str = HOOKS) -> list[Again]:
    return list(asked_again(progress, chapter, WARDROBE))


def test_what_was_wrong_comes_first_the_oldest_before_all() -> None:
    progress = answered(
        (LEAVES, "leaves-a", False), (GRAPHS, "outcome-b", True), (GRAPHS, "keeps-c", False), (GRAPHS, "keeps-d", False)
    )
    assert [each.question for each in again(progress)] == ["leaves-a", "keeps-c"]


def test_then_what_was_never_asked_then_what_was_asked_longest_ago() -> None:
    progress = answered((GRAPHS, "keeps-a", True), (LEAVES, "leaves-b", True))
    assert [each.dress.kind for each in asked_again(progress, HOOKS, WARDROBE, 3)] == ["outcome", "keeps", "leaves"]


def test_where_nothing_is_known_there_are_two_and_always_the_same() -> None:
    first = again(Progress())
    assert len(first) == 2
    assert first == again(Progress())
    assert [each.question for each in first] == [each.dress.name for each in first], (
        "a dress of its own asks for itself"
    )


def test_who_answers_none_is_asked_nothing_twice() -> None:
    asked = [each.question for name in NAMES[1:] for each in asked_again(Progress(), name)]
    assert len(set(asked)) == len(asked)


def test_a_wrong_answer_comes_in_one_dress_after_the_other_until_it_is_right() -> None:
    progress, worn = answered((GRAPHS, "keeps-a", False)), []
    for right in (False, False, False, True):
        (now,) = [each for each in again(progress) if each.dress.kind == "keeps"]
        assert now.question == "keeps-a"
        worn.append(now.dress.program)
        progress = progress.predicted(GRAPHS, now.question, Tried(right, dress=now.dress.name))
    assert sorted(worn[:3]) == ["one", "three", "two"]
    assert progress.chapters[GRAPHS].predictions["keeps-a"].right
    assert all(each.question != "keeps-a" for each in again(progress))


def test_earlier_is_what_a_chapter_builds_on_and_where_the_learner_has_been() -> None:
    assert earlier(Progress(), WRITES) == {NAMES[0], GRAPHS}
    assert earlier(answered((HOOKS, "keeps-a", True), (WRITES, "leaves-b", True)), WRITES) == {NAMES[0], GRAPHS, HOOKS}
    assert earlier(Progress(), NAMES[0]) == set()


QUESTIONS = ["keeps-1", "keeps-2", "outcome-1", "x"]
STORES = st.lists(st.tuples(st.sampled_from([*NAMES, "", "mine"]), st.sampled_from(QUESTIONS), st.booleans()))


@given(STORES, st.sampled_from(NAMES[1:]))
def test_two_are_asked_whatever_is_known_no_two_alike(told: list[tuple[str, str, bool]], chapter: str) -> None:
    progress = answered(*told)
    asked = asked_again(progress, chapter)
    assert len({(each.dress.chapter, each.dress.kind) for each in asked}) == 2
    for each in asked:
        assert each.dress.chapter in earlier(progress, chapter)
        known = progress.chapters.get(each.dress.chapter)
        assert each.question == each.dress.name or (known and not known.predictions[each.question].right)
    wrong = {
        (name, question.split("-")[0])
        for name, done in progress.chapters.items()
        for question, tried in done.predictions.items()
        if not tried.right and name in NAMES and name != chapter
    } & {(dress.chapter, dress.kind) for dress in dresses()}
    assert sum((each.dress.chapter, each.dress.kind) in wrong for each in asked) == min(2, len(wrong))


# -- the dresses


@pytest.mark.parametrize("dress", dresses(), ids=lambda dress: f"{dress.chapter[:2]}-{dress.name}")
def test_a_dress_can_be_asked_and_its_truth_is_recorded(dress: Dress) -> None:
    question = ask(recorded(dress), dress.kind)
    assert judge(question, {dress.kind: json.loads(question.truth)}).right
    assert question.choices, "a wrong answer is told why"
    assert dress.program.count("\n") <= 9


def test_no_two_dresses_are_the_same_and_an_outcome_can_t_be_guessed_from_its_chapter() -> None:
    assert len({dress.name for dress in dresses()}) == len(dresses())
    ends: dict[str, set[str]] = {}
    for dress in dresses():
        if dress.kind == "outcome":
            ends.setdefault(dress.chapter, set()).add(ask(recorded(dress), "outcome").truth)
    assert all(len(truths) > 1 for truths in ends.values())


# -- in a notebook


@pytest.fixture
def pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[AskedAgain]]:
    """What `ask_again` shows; the progress file is a new one."""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "progress.json"))
    made: list[AskedAgain] = []
    monkeypatch.setattr(shown, "display", made.append)
    return made


def test_an_answer_is_kept_with_the_prediction_that_it_asks_for_again(
    pictures: list[AskedAgain], tmp_path: Path
) -> None:
    write_progress(answered((GRAPHS, "keeps-a", False)), tmp_path / "progress.json")
    seegrad.ask_again("03")
    picture = pictures[0]
    assert picture.scene["question"]["kind"] == "keeps"
    picture.answer = {"keeps": json.loads(picture.scene["question"]["truth"])}
    kept = read_progress().chapters[GRAPHS].predictions
    assert set(kept) == {"keeps-a"}
    assert (kept["keeps-a"].right, kept["keeps-a"].tries, kept["keeps-a"].turn) == (True, 2, 2)
    assert kept["keeps-a"].dress in {dress.name for dress in dresses()}


def test_the_second_question_comes_when_the_first_is_answered(pictures: list[AskedAgain]) -> None:
    """Its picture hides what it asks for itself, and may show what the first one asks for."""
    seegrad.ask_again("03")
    first, second = pictures
    assert [picture.layout.display for picture in pictures] == [None, "none"]
    truth = json.loads(first.scene["question"]["truth"])
    first.answer = {first.scene["question"]["kind"]: truth}
    assert second.layout.display == ""


def bundle(picture: AskedAgain) -> dict[str, Any]:
    return dict(picture._repr_mimebundle_()[0])


def test_without_a_player_question_and_program_are_read_and_the_answer_is_folded(pictures: list[AskedAgain]) -> None:
    seegrad.ask_again("05", lang="en")
    for picture in pictures:
        question = picture._scene.question
        assert question
        made = bundle(picture)
        open_part, fold = made["text/html"].split("<details>")
        assert question.prompt in open_part
        assert "device=device" in open_part, "the program"
        assert "<summary>Predicted? Then open the answer.</summary>" in fold
        assert question.prompt in made["text/plain"]
        assert question.right not in open_part + made["text/plain"]


def test_a_chapter_that_isn_t_there_is_told() -> None:
    with pytest.raises(QuestionError, match=r"no chapter '17'\. Its chapters are 00, 01, 02"):
        seegrad.ask_again("17", lang="en")
