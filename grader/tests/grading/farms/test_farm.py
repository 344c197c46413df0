"""Many submissions: every one once, whatever dies, in any order."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from nbjudge.errors import SandboxError, ZygoteGone
from nbjudge.grading.farm import OpenJudge, grade_all
from nbjudge.model import Assignment, Ending, Executed, Outcome, Result, Submission
from nbjudge_tests.sample import ASSIGNMENT, COMPLETE, handed_in

CLASS = [handed_in(*COMPLETE, student=f"s{number:02}") for number in range(12)]


def judge(document: Mapping[str, Any], _files: Mapping[str, bytes], _assignment: Assignment) -> Executed:
    return Executed(document, (Outcome("f_test", Ending.PASSED, 2.0, 2.0),))


class Zygotes:
    """Counts what is open; of the n-th notebooks the zygote dies (`dies`), or their judge alone (`killed`)."""

    def __init__(
        self, dies: frozenset[int] = frozenset(), everywhere: bool = False, killed: frozenset[int] = frozenset()
    ) -> None:
        self.dies, self.everywhere, self.killed = dies, everywhere, killed
        self.opened = self.open = self.judged = 0
        self.lock = threading.Lock()

    @contextmanager
    def __call__(self, _assignment: Assignment) -> Iterator[Any]:
        with self.lock:
            self.opened, self.open = self.opened + 1, self.open + 1
        try:
            yield self._judge
        finally:
            with self.lock:
                self.open -= 1

    def _judge(self, *given: Any) -> Executed:
        with self.lock:
            self.judged += 1
            number = self.judged
        if self.everywhere or number in self.dies:
            raise BrokenPipeError("the zygote is gone")
        if number in self.killed:
            return Executed(given[0], (Outcome("f_test", Ending.GRADER_FAILURE, None, 2.0, "The judge failed."),))
        return judge(*given)


def graded(open_judge: OpenJudge, workers: int, submissions: list[Submission] = CLASS) -> dict[str, Result]:
    return {
        submission.student: result for submission, result in grade_all(submissions, ASSIGNMENT, open_judge, workers)
    }


@pytest.mark.parametrize("workers", [1, 3, 20])
def test_every_submission_once_and_the_same_whatever_the_number_of_workers(workers: int) -> None:
    zygotes = Zygotes()
    results = graded(zygotes, workers)
    assert results == graded(Zygotes(), 1, CLASS[::-1])
    assert set(results) == {submission.student for submission in CLASS}
    assert zygotes.open == 0
    assert zygotes.opened <= workers
    assert zygotes.judged == len(CLASS)


def test_a_dead_zygote_is_replaced_and_its_submission_tried_again() -> None:
    zygotes = Zygotes(dies=frozenset({1, 6}))
    assert graded(zygotes, 1) == graded(Zygotes(), 1)
    assert (zygotes.opened, zygotes.open) == (3, 0)


def test_a_submission_whose_judge_was_killed_is_tried_again_on_the_same_zygote() -> None:
    zygotes = Zygotes(killed=frozenset({1, 6}))
    assert graded(zygotes, 1) == graded(Zygotes(), 1)
    assert (zygotes.opened, zygotes.judged) == (1, len(CLASS) + 2)


def test_what_kills_every_zygote_is_our_failure_and_stops_nobody() -> None:
    zygotes = Zygotes(dies=frozenset({3, 4}))
    results = graded(zygotes, 1)
    failed = [student for student, result in results.items() if result.failed_by_us]
    assert failed == ["s02"]
    assert "the zygote is gone" in results["s02"].outcomes[0].message
    assert sum(result.score for result in results.values()) == 2.0 * (len(CLASS) - 1)


def test_a_machine_that_cannot_confine_ends_the_run() -> None:
    @contextmanager
    def unconfined(_: Assignment) -> Iterator[Any]:
        raise SandboxError("no walls")
        yield

    with pytest.raises(SandboxError, match="no walls"):
        graded(unconfined, 2)


@pytest.mark.parametrize(("deaths", "ends"), [(2, False), (3, True)])
def test_zygotes_that_die_at_birth_are_replaced_for_a_while(deaths: int, ends: bool) -> None:
    births = iter([True] * deaths)

    @contextmanager
    def frail(_: Assignment) -> Iterator[Any]:
        if next(births, False):
            raise ZygoteGone("killed")
        yield judge

    if ends:
        with pytest.raises(SandboxError, match="could be started: killed"):
            graded(frail, 1)
    else:
        assert graded(frail, 1) == graded(Zygotes(), 1)


def test_a_class_of_refused_submissions_starts_no_zygote() -> None:
    zygotes = Zygotes()
    refused = [Submission(f"s{number}", "ps1", refusal="not JSON") for number in range(3)]
    assert {result.refusal for result in graded(zygotes, 2, refused).values()} == {"not JSON"}
    assert zygotes.opened == 0


def test_only_a_few_submissions_are_in_memory_at_once() -> None:
    read: list[str] = []

    def reading() -> Iterator[Submission]:
        for submission in CLASS:
            read.append(submission.student)
            yield submission

    results = grade_all(reading(), ASSIGNMENT, Zygotes(), 1)
    next(results)
    assert len(read) < len(CLASS) / 2
    results.close()


def test_leaving_early_closes_every_zygote() -> None:
    zygotes = Zygotes()
    results = grade_all(CLASS, ASSIGNMENT, zygotes, 2)
    next(results)
    results.close()
    assert zygotes.open == 0
