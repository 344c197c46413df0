"""Submission and Assignment in, Result out, with a judge that says what a test tells it to say."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from nbjudge.course.restore import defined, released, restored, sealed
from nbjudge.errors import SandboxError
from nbjudge.grading.engine import grade, key
from nbjudge.grading.questions import answers
from nbjudge.grading.trial import run_notebook
from nbjudge.model import Assignment, Ending, Executed, Limits, Outcome, Result, Submission
from nbjudge.process.zygote import Zygote
from nbjudge_tests.sample import ANSWER, ASSIGNMENT, BOOK, COMPLETE, NOTE, STUB, TASK, TEST, cell, handed_in


class Judge:
    """Remembers the notebook that it was given and answers with `kind`."""

    def __init__(self, kind: Ending = Ending.PASSED, points: float | None = 2.0) -> None:
        self.outcome = Outcome("f_test", kind, points, 99.0, "said")
        self.seen: dict[str, Any] = {}
        self.files: Mapping[str, bytes] = {}

    def __call__(self, document: Mapping[str, Any], files: Mapping[str, bytes], assignment: Assignment) -> Executed:
        assert assignment == ASSIGNMENT
        self.seen, self.files = json.loads(json.dumps(document)), files
        return Executed(document, (self.outcome,), wall_s=1.0, cpu_s=0.5)

    def cells(self) -> list[tuple[str | None, str]]:
        return [(one["metadata"].get("nbgrader", {}).get("grade_id"), one["source"]) for one in self.seen["cells"]]


def graded(submission: Submission, judge: Judge | None = None) -> Result:
    return grade(submission, ASSIGNMENT, judge or Judge(), give_up=False)


def kinds(result: Result) -> dict[str, tuple[Ending, float | None, float]]:
    return {outcome.grade_id: (outcome.kind, outcome.points, outcome.max_points) for outcome in result.outcomes}


def test_every_question_has_one_outcome() -> None:
    result = graded(handed_in(*COMPLETE))
    assert kinds(result) == {
        "f_test": (Ending.PASSED, 2.0, 2.0),
        "why": (Ending.BY_HAND, None, 3.0),
        "draw": (Ending.BY_HAND, None, 1.0),
    }
    assert result.notebooks[0].comments == {"f": None, "why": None, "draw": None}
    assert (result.score, result.max_score, result.wall_s, result.cpu_s) == (2.0, 6.0, 1.0, 0.5)


def test_locked_cells_are_the_course_s_and_answers_the_student_s() -> None:
    judge = Judge()
    graded(handed_in(*COMPLETE), judge)
    assert judge.cells() == [
        ("setup", NOTE.source),
        ("f", "f = lambda x: x"),
        ("f_test", TEST.source),
        ("why", "Since."),
        ("draw", "Draw."),
    ]
    assert judge.seen["metadata"]["kernelspec"] == {"name": "python3"}


def test_flags_types_and_points_come_from_the_gradebook() -> None:
    forged = cell("pass", "f_test", "markdown")
    forged["metadata"]["nbgrader"] |= {"grade": False, "solution": True, "points": 1000, "schema_version": 99}
    judge = Judge()
    graded(handed_in(*COMPLETE[:2], forged, *COMPLETE[3:]), judge)
    test = judge.seen["cells"][2]
    assert (test["cell_type"], test["source"]) == ("code", TEST.source)
    given = test["metadata"]["nbgrader"]
    assert (given["grade"], given["solution"], given["points"], given["schema_version"]) == (True, False, 2, 3)


@pytest.mark.parametrize("metadata", ["text", 5, None, {"grade_id": 7}, {"grade_id": "unknown", "grade": True}, {}])
def test_odd_metadata_makes_an_ordinary_cell(metadata: Any) -> None:
    odd = cell("x = 1")
    odd["metadata"]["nbgrader"] = metadata
    judge = Judge()
    assert graded(handed_in(*COMPLETE, odd), judge).score == 2.0
    assert judge.seen["cells"][-1]["metadata"] == {}


class Reads:
    """Counts how often a text is read."""

    def __init__(self, reads: Callable[[Any], Any], text: object) -> None:
        self.reads, self.text, self.count = reads, text, 0

    def __call__(self, text: Any) -> Any:
        self.count += text == self.text
        return self.reads(text)


def test_however_many_answers_are_lost_a_text_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixteen megabytes for each answer of an assignment would keep the grader busy for a minute."""
    rows = [replace(ANSWER, grade_id=f"f{n}", source=f"def f{n}():\n    ...") for n in range(5)]
    book = replace(BOOK, cells=(*map(sealed, rows), *BOOK.cells))
    reads = Reads(defined, "y = 1")
    monkeypatch.setattr("nbjudge.course.restore.defined", reads)
    text = handed_in(cell("y = 1"), cell(f"{NOTE.source}\ny = 1", NOTE.grade_id, "markdown")).notebooks[BOOK.name]
    assert len(restored(text, book).document["cells"]) > 2
    assert reads.count == 1


def test_a_file_is_digested_once_however_often_answers_name_it(monkeypatch: pytest.MonkeyPatch) -> None:
    reads = Reads(hashlib.sha256, b"1,2")
    monkeypatch.setattr("nbjudge.grading.questions.hashlib.sha256", reads)
    document = {"cells": [{"source": "see a.csv", "metadata": {}}] * 9}
    tasks = tuple(replace(TASK, grade_id=f"task{n}") for n in range(3))
    found = answers(document, replace(BOOK, cells=tasks), {"a.csv": b"1,2"})
    assert len(found) == 3
    assert reads.count == 1


def test_an_answer_is_another_one_when_a_file_that_it_names_is() -> None:
    document = {"cells": [{"source": "![](img/a.png) 见b.csv。", "metadata": {}}]}
    book = replace(BOOK, cells=(TASK,))
    files = {"img/a.png": b"1", "b.csv": b"1", "图.png": b"1", "my own.png": b"1", "c.png": b"1"}
    first = answers(document, book, files)
    changed = {name for name in files if answers(document, book, {**files, name: b"2"}) != first}
    assert changed == set(files) - {"c.png"}


def test_a_thousand_forged_marks_are_told_in_a_few_lines() -> None:
    result = graded(handed_in(*COMPLETE, *(cell("x", f"forged {n}") for n in range(500))))
    assert len(result.notebooks[0].notes) < 15
    assert "and 490 more like these" in result.notebooks[0].notes


def test_what_was_deleted_is_put_back_in_its_place_but_never_an_answer_s_stub() -> None:
    judge = Judge()
    result = graded(handed_in(cell("g = lambda x: x")), judge)
    assert judge.cells() == [
        ("setup", NOTE.source),
        ("f_test", TEST.source),
        ("why", "This cell was missing from the submission; the grader put it back.\n\nYOUR ANSWER HERE"),
        ("draw", TASK.source),
        (None, "g = lambda x: x"),
    ]
    assert kinds(result)["why"] == (Ending.BY_HAND, None, 3.0)
    assert "cell 'f_test' was missing and was put back" in result.notebooks[0].notes
    assert "answer cell 'f' is missing from what was handed in" in result.notebooks[0].notes
    assert result.notebooks[0].lost == ("f",)
    assert Result.from_json(result.to_json()) == result
    assert not graded(handed_in(*COMPLETE)).notebooks[0].lost


def test_a_test_put_back_follows_its_answer() -> None:
    judge = Judge()
    graded(handed_in(*COMPLETE[:2], cell("mine = 1"), *COMPLETE[3:]), judge)
    names = [name for name, _ in judge.cells()]
    assert names == ["setup", "f", "f_test", None, "why", "draw"]


def test_of_two_locked_copies_the_original_stays() -> None:
    copy = cell("pass", "f_test", cell_id="copy")
    original = cell("pass", "f_test", deletable=False)
    judge = Judge()
    result = graded(handed_in(COMPLETE[0], copy, COMPLETE[1], original, *COMPLETE[3:]), judge)
    assert judge.cells()[1] == (None, "pass")
    assert judge.cells()[3] == ("f_test", TEST.source)
    assert any("'f_test' was there 2 times" in note for note in result.notebooks[0].notes)


def test_of_two_answers_the_one_that_was_written_counts() -> None:
    twice = handed_in(COMPLETE[0], cell(STUB, "f", cell_id="a"), *COMPLETE[1:])
    assert kinds(graded(twice, Judge(Ending.FAILED, 0.0)))["f_test"][0] is Ending.FAILED


# ---------------------------------------------------------------------- what an editor may have done


def notes(result: Result) -> str:
    return "; ".join(result.notebooks[0].notes)


def test_a_written_answer_in_pieces_is_put_together() -> None:
    judge = Judge()
    result = graded(handed_in(*COMPLETE[:4], cell("And so.", "why", "markdown"), COMPLETE[4]), judge)
    assert ("why", "Since.\n\nAnd so.") in judge.cells()
    assert "'why' was there 2 times; all that was written was put together" in notes(result)


def test_a_split_answer_runs_whole() -> None:
    judge = Judge()
    graded(handed_in(COMPLETE[0], cell("k = 1", "f"), cell("f = lambda x: k * x", "f"), *COMPLETE[2:]), judge)
    assert judge.cells()[1:3] == [(None, "k = 1"), ("f", "f = lambda x: k * x")]


def test_merged_answers_count_for_both() -> None:
    second = replace(ANSWER, grade_id="g", source="def g(x):\n    raise NotImplementedError()")
    judge = Judge()

    def run(document: Mapping[str, Any], files: Mapping[str, bytes], _: Assignment) -> Executed:
        return judge(document, files, ASSIGNMENT)

    both = replace(ASSIGNMENT, notebooks=(replace(BOOK, cells=(NOTE, ANSWER, second, *BOOK.cells[2:])),))
    merged = cell("def f(x): return x\ndef g(x): return x", "f")
    result = grade(handed_in(COMPLETE[0], merged, *COMPLETE[2:]), both, run, give_up=False)
    assert kinds(result)["f_test"][0] is Ending.PASSED


@pytest.mark.parametrize("mark", [None, "f-copy"])
def test_an_answer_without_its_mark_is_recognised_by_what_it_defines(mark: str | None) -> None:
    judge = Judge()
    lost = cell("import math\ndef f(x):\n    return x", mark)
    result = graded(handed_in(COMPLETE[0], cell("print(f)"), lost, *COMPLETE[2:]), judge)
    assert judge.cells()[2] == ("f", lost["source"])
    assert "'f' had lost its mark" in notes(result)


def test_two_answers_without_their_mark_are_not_guessed_at() -> None:
    judge = Judge()
    result = graded(handed_in(COMPLETE[0], cell("f = 1"), cell("f = 2"), *COMPLETE[2:]), judge)
    assert "lost its mark" not in notes(result)
    assert [name for name, _ in judge.cells()] == ["setup", None, None, "f_test", "why", "draw"]


def test_a_written_answer_is_recognised_by_its_cell_s_id() -> None:
    result = graded(handed_in(*COMPLETE[:3], cell("Since.", None, "markdown", "why"), COMPLETE[4]))
    assert kinds(result)["why"] == (Ending.BY_HAND, None, 3.0)
    assert "'why' had lost its mark" in notes(result)


@pytest.mark.parametrize("where", ["setup", "f_test"])
def test_an_answer_merged_into_a_locked_cell_is_taken_out(where: str) -> None:
    answer = "def f(x):\n    return x"
    own = {"setup": f"{NOTE.source}\n\n{answer}", "f_test": f"{answer}\n{TEST.source}"}
    cells = [cell(own.get(name, "pass"), name) if name == where else cell("pass", name) for name in ("setup", "f_test")]
    judge = Judge()
    result = graded(handed_in(*cells, *COMPLETE[3:]), judge)
    assert judge.cells()[:3] == [("setup", NOTE.source), ("f", answer), ("f_test", TEST.source)]
    assert "'f' was found inside a locked cell" in notes(result)


def test_hidden_lines_of_a_locked_cell_are_none_of_an_answer() -> None:
    hidden = replace(TEST, source="assert f(1) == 1\n### BEGIN HIDDEN TESTS\nf = 3\n### END HIDDEN TESTS")
    assert released(hidden.source) == "assert f(1) == 1\n"


def test_a_test_before_its_answer_is_moved_behind_it() -> None:
    judge = Judge()
    result = graded(handed_in(COMPLETE[0], COMPLETE[2], COMPLETE[3], cell("n = 1"), COMPLETE[1], COMPLETE[4]), judge)
    assert [name for name, _ in judge.cells()] == ["setup", "why", None, "f", "f_test", "draw"]
    assert "'f_test' stood before its answer" in notes(result)


def test_every_locked_cell_is_put_back_in_its_place_and_answers_stay() -> None:
    judge = Judge()
    second = cell("n = 1")
    result = graded(handed_in(COMPLETE[2], second, COMPLETE[1], *COMPLETE[3:], cell("mine = 2"), COMPLETE[0]), judge)
    assert [name for name, _ in judge.cells()] == ["setup", None, "f", "f_test", "why", "draw", None]
    assert "the locked cell 'setup' stood before or behind other cells and was put back" in notes(result)


def test_a_copy_at_the_end_of_a_locked_cell_that_lost_its_mark_is_put_back_and_said() -> None:
    judge = Judge()
    result = graded(handed_in(cell("import fake as math"), *COMPLETE[1:], COMPLETE[0]), judge)
    assert judge.cells()[:3] == [(None, "import fake as math"), ("setup", NOTE.source), ("f", "f = lambda x: x")]
    assert "'setup' stood" in notes(result)


@pytest.mark.parametrize("name", ["ps1 (1)", "ps1-Copy1", "Copy of ps1", "Ps1_final"])
def test_a_renamed_notebook_is_recognised(name: str) -> None:
    text = handed_in(*COMPLETE).notebooks["ps1"]
    result = graded(handed_in(*COMPLETE, notebooks={name: text}))
    assert kinds(result)["f_test"][0] is Ending.PASSED
    assert f"handed in as '{name}.ipynb'" in notes(result)
    two = graded(handed_in(*COMPLETE, notebooks={name: text, "other": text}))
    assert "is missing; found" in str(two.refusal)


def test_points_on_a_word_stop_at_a_tenth() -> None:
    judge = Judge()
    judge.outcome = replace(judge.outcome, alone=True, claims=("__eq__ of Yes",))
    outcome = graded(handed_in(*COMPLETE), judge).outcomes[0]
    assert (outcome.kind, outcome.points) == (Ending.BY_HAND, None)
    assert "__eq__ of Yes" in outcome.message
    judge.outcome = replace(judge.outcome, alone=False)
    assert graded(handed_in(*COMPLETE), judge).outcomes[0].kind is Ending.PASSED
    judge.outcome = replace(judge.outcome, alone=True, points=0.5, kind=Ending.PARTLY)
    assert graded(handed_in(*COMPLETE), judge).outcomes[0].points == 0.5


def test_an_untouched_answer_is_not_answered_but_keeps_what_it_earns() -> None:
    stub = handed_in(COMPLETE[0], cell(STUB, "f"), COMPLETE[2], cell("YOUR ANSWER HERE", "why", "markdown"))
    failed = graded(stub, Judge(Ending.FAILED, 0.0))
    assert kinds(failed)["f_test"] == (Ending.NOT_ANSWERED, 0.0, 2.0)
    assert kinds(failed)["why"] == (Ending.NOT_ANSWERED, 0.0, 3.0)
    assert failed.notebooks[0].comments["f"] == "No response."
    assert kinds(graded(stub))["f_test"] == (Ending.PASSED, 2.0, 2.0)
    assert kinds(graded(stub, Judge(Ending.GRADER_FAILURE, None)))["f_test"][0] is Ending.GRADER_FAILURE


def test_a_part_of_the_points_comes_with_its_reason() -> None:
    partly = graded(handed_in(*COMPLETE), Judge(Ending.PARTLY, 1.0)).notebooks[0]
    outputs = [out for cell in json.loads(partly.notebook)["cells"] for out in cell.get("outputs", ())]
    assert outputs == [{"output_type": "display_data", "data": {"text/plain": "said"}, "metadata": {}}]


def test_a_test_without_a_verdict_is_our_failure() -> None:
    judge = Judge()
    judge.outcome = replace(judge.outcome, grade_id="another")
    result = graded(handed_in(*COMPLETE), judge)
    assert kinds(result)["f_test"] == (Ending.GRADER_FAILURE, None, 2.0)
    assert result.failed_by_us


def test_files_of_the_course_lie_over_the_student_s() -> None:
    judge = Judge()
    assignment = replace(ASSIGNMENT, files={"data.csv": b"true"})
    submission = handed_in(*COMPLETE, files={"data.csv": b"forged", "notes.txt": b"mine"})

    def run(document: Mapping[str, Any], files: Mapping[str, bytes], _: Assignment) -> Executed:
        return judge(document, files, ASSIGNMENT)

    grade(submission, assignment, run, give_up=False)
    assert judge.files == {"data.csv": b"true", "notes.txt": b"mine"}


@pytest.mark.parametrize(
    ("submission", "reason"),
    [
        (Submission("ada", "ps1", refusal="not JSON"), "not JSON"),
        (Submission("ada", "ps1", {"ps1-Copy1": "{}"}), "'ps1.ipynb' is missing; found: 'ps1-Copy1.ipynb'"),
        (Submission("ada", "ps1"), "'ps1.ipynb' is missing; found: no notebook"),
    ],
)
def test_a_refusal_says_why(submission: Submission, reason: str) -> None:
    assert reason in str(graded(submission).refusal)


def test_one_notebook_of_two_missing_is_zero_for_its_questions() -> None:
    both = replace(ASSIGNMENT, notebooks=(BOOK, replace(BOOK, name="ps2")))

    def run(document: Mapping[str, Any], *_: Any) -> Executed:
        return Executed(document, (Judge().outcome,))

    result = grade(handed_in(*COMPLETE), both, run, give_up=False)
    first, second = result.notebooks
    assert (first.missing, second.missing) == (False, True)
    assert {outcome.points for outcome in second.outcomes} == {0.0}


def broken(*_: Any) -> Executed:
    raise RuntimeError("a pipe broke")


def test_an_exception_of_ours_is_no_zero_and_hurts_nobody_else() -> None:
    result = grade(handed_in(*COMPLETE), ASSIGNMENT, broken, give_up=True)
    assert kinds(result)["f_test"] == (Ending.GRADER_FAILURE, None, 2.0)
    assert "a pipe broke" in result.outcomes[0].message
    with pytest.raises(RuntimeError):
        grade(handed_in(*COMPLETE), ASSIGNMENT, broken, give_up=False)


def test_a_machine_that_cannot_confine_is_nobody_s_failure() -> None:
    def unconfined(*_: Any) -> Executed:
        raise SandboxError("no namespaces")

    with pytest.raises(SandboxError):
        grade(handed_in(*COMPLETE), ASSIGNMENT, unconfined, give_up=True)


def test_an_unreadable_timestamp_is_noted() -> None:
    result = graded(handed_in(*COMPLETE, timestamp="yesterday"))
    assert any("'yesterday' can't be read" in note for note in result.notebooks[0].notes)


CHANGES: tuple[Callable[[Submission, Assignment], tuple[Submission, Assignment]], ...] = (
    lambda s, a: (replace(s, notebooks={"ps1": s.notebooks["ps1"] + " "}), a),
    lambda s, a: (replace(s, files={"a": b"1"}), a),
    lambda s, a: (replace(s, student="bob"), a),
    lambda s, a: (s, replace(a, seed=8)),
    lambda s, a: (s, replace(a, limits=Limits(cell_s=1))),
    lambda s, a: (s, replace(a, files={"a": b"1"})),
    lambda s, a: (s, replace(a, notebooks=(replace(BOOK, cells=BOOK.cells[:-1]),))),
)


def test_the_key_moves_with_each_input_and_with_nothing_else() -> None:
    submission = handed_in(*COMPLETE)
    keys = [key(submission, ASSIGNMENT), *(key(*change(submission, ASSIGNMENT)) for change in CHANGES)]
    assert len(set(keys)) == len(keys)
    assert key(handed_in(*COMPLETE), ASSIGNMENT) == keys[0]


LOOP = "while True:\n    pass"


@pytest.mark.parametrize(
    ("cells", "ended"),
    [
        ([cell(f"{LOOP}\ndef f(x):\n    return x", "f")], Ending.TIMED_OUT),
        ([cell(LOOP), cell(STUB, "f")], Ending.TIMED_OUT),
        ([cell(LOOP, "setup"), cell("f = lambda x: x", "f"), cell(LOOP, "why")], Ending.PASSED),
        ([cell("f = lambda x: x", "f"), cell(LOOP)], Ending.PASSED),
    ],
)
def test_a_question_whose_answer_never_ends_has_timed_out(
    cells: list[dict[str, Any]], ended: Ending, zygote: Zygote
) -> None:
    short = replace(ASSIGNMENT, limits=Limits(cell_s=1.0))
    outcome = grade(
        handed_in(*cells, cell("", "f_test")), short, partial(run_notebook, zygote), give_up=False
    ).outcomes[0]
    assert outcome.kind is ended
    if ended is Ending.TIMED_OUT:
        assert outcome.message.startswith("Code cell 2 took longer than a cell may, and was stopped")


def test_the_real_judge_graded_through_the_engine(zygote: Zygote) -> None:
    judge = partial(run_notebook, zygote)
    result = grade(handed_in(*COMPLETE), ASSIGNMENT, judge, give_up=True)
    assert kinds(result)["f_test"] == (Ending.PASSED, 2.0, 2.0)
    wrong = grade(handed_in(COMPLETE[0], cell("f = lambda x: -x", "f"), *COMPLETE[2:]), ASSIGNMENT, judge, give_up=True)
    assert kinds(wrong)["f_test"] == (Ending.FAILED, 0.0, 2.0)
