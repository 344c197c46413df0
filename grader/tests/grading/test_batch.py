"""A run over a class: what is run again, what isn't, and what is said of it; the judge is a stand-in that counts."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from nbgrader.api import Gradebook
from traitlets.config import Config

from nbjudge.course import intake, kept
from nbjudge.course.gradebook import Record
from nbjudge.course.kept import Kept
from nbjudge.course.layout import Course, held_alone
from nbjudge.errors import BusyError, CourseError, GradebookError
from nbjudge.grading import batch
from nbjudge.grading.batch import Entry, Farm, RunOptions, autograde, proof
from nbjudge.grading.farm import grade_all
from nbjudge.model import Assignment, Ending, Executed, Outcome
from nbjudge.pages.regrade import moved, rows
from nbjudge.pages.screen import explain, table
from nbjudge.shown.text import printable
from nbjudge_tests.classroom import small
from nbjudge_tests.classroom.commands import nbgrader
from nbjudge_tests.databases import Database
from nbjudge_tests.results import Counting, name_of_test
from nbjudge_tests.session import one_in

UNPARSEABLE = "00:00999999999999999999999999999912:00:00 +"  # dateutil raises decimal.InvalidOperation
ONE = RunOptions(reference="none")


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory, database: Database) -> Course:
    root = tmp_path_factory.mktemp("batch") / "course"
    url = database.fresh(root)
    nbgrader(small.make(root, url), "generate_assignment", small.NAME)
    for student in ("ada", "bo", "cy"):
        small.hand_in(root, student, small.RIGHT, "2026-02-03 12:00:00 UTC")
    return Course(root, url, "autograd101")


@pytest.fixture
def course(generated: Course, tmp_path: Path, database: Database) -> Course:
    shutil.copytree(generated.root, tmp_path / "course", ignore=shutil.ignore_patterns("results"))  # of generating it
    return replace(generated, root=tmp_path / "course", db_url=database.copy(generated.db_url, tmp_path / "course"))


def farm(judge: Counting) -> Farm:
    return partial(grade_all, open_judge=judge, workers=1)


def run(course: Course, judge: Counting, options: RunOptions = ONE) -> dict[str, Entry]:
    return {entry.student: entry for entry in autograde(course, small.NAME, options, farm(judge))}


def test_the_second_run_runs_and_records_nothing(course: Course) -> None:
    assert {(entry.problem, entry.unchanged) for entry in run(course, Counting()).values()} == {(None, False)}
    again = Counting()
    assert {(entry.problem, entry.unchanged) for entry in run(course, again).values()} == {(None, True)}
    assert again.runs == 0


def test_force_runs_all_again_and_a_new_seed_does_too(course: Course) -> None:
    first, forced, reseeded = Counting(), Counting(), Counting()
    run(course, first)
    run(course, forced, replace(ONE, force=True))
    run(course, reseeded, replace(ONE, new_seed=True))
    assert [judge.runs for judge in (first, forced, reseeded)] == [3, 3, 3]
    assert first.seeds == forced.seeds != reseeded.seeds


def test_only_who_handed_in_anew_is_run_again(course: Course) -> None:
    run(course, Counting())
    small.hand_in(course.root, "bo", small.PARTLY)
    judge = Counting()
    entries = run(course, judge)
    assert judge.runs == 1
    assert [entry.unchanged for entry in entries.values()] == [True, False, True]


def test_a_run_keeps_no_notebook_in_memory(course: Course) -> None:
    for _first_and_unchanged in range(2):
        texts = [graded.notebook for entry in run(course, Counting()).values() for graded in entry.result.notebooks]
        assert set(texts) == {""}
    published = course.root / "autograded" / "bo" / small.NAME / "coding.ipynb"
    assert "def double" in published.read_text()


def test_what_nobody_s_grades_come_from_any_more_is_not_kept(course: Course) -> None:
    for answers in (small.RIGHT, small.PARTLY, small.NOTHING):
        small.hand_in(course.root, "bo", answers)
        run(course, Counting())
    with Record(course) as record:
        applied = record.applied(small.NAME)
    assert {path.stem for path in (course.state / "results").iterdir()} == set(applied.values())


def test_a_result_that_was_kept_but_not_recorded_is_recorded_without_running(course: Course) -> None:
    run(course, Counting())
    shutil.rmtree(course.root / "autograded" / "ada")
    judge = Counting()
    assert not run(course, judge)["ada"].unchanged
    assert judge.runs == 0
    assert (course.root / "autograded" / "ada" / small.NAME / "coding.ipynb").is_file()


def test_a_damaged_kept_result_is_run_again(course: Course) -> None:
    run(course, Counting())
    for path in (course.root / ".grader" / "results").glob("*.json"):
        path.write_text("{")
    judge = Counting()
    run(course, judge)
    assert judge.runs == 3


def test_our_own_failure_is_reported_recorded_as_ungraded_and_tried_again_next_time(course: Course) -> None:
    entries = run(course, Counting(Ending.GRADER_FAILURE))
    assert {entry.problem for entry in entries.values()} == {"grader failure: said"}
    assert {line.split()[1] for line in table([*entries.values()]).splitlines()[2:5]} == {"–"}, "it is no zero"
    healed = Counting()
    assert {entry.problem for entry in run(course, healed).values()} == {None}
    assert healed.runs == 3


def test_why_of_our_own_failure_tells_it_of_each_question(course: Course) -> None:
    run(course, Counting(Ending.GRADER_FAILURE))
    with Record(course) as record:
        standing, key = record.standing("ada", small.NAME), record.applied(small.NAME)["ada"]
    assert standing is not None
    said = explain(standing, Kept(course.state).get(key))
    assert said.count("  grader failure: no score of ") == said.count("    said\n") == 2
    assert "not kept" not in said


def test_a_course_may_be_in_a_folder_with_brackets(course: Course) -> None:
    root = course.root.rename(course.root.with_name("course [1]"))
    url = course.db_url.replace(f"{course.root}/", f"{root}/")
    assert set(run(replace(course, root=root, db_url=url), Counting())) == {"ada", "bo", "cy"}


def test_only_the_named_student(course: Course) -> None:
    assert set(run(course, Counting(), replace(ONE, students=("a*",)))) == {"ada"}
    assert set(run(course, Counting(), replace(ONE, students=("a*", "cy")))) == {"ada", "cy"}
    with pytest.raises(CourseError, match=r"no folder matches .*/nobody/"):
        run(course, Counting(), replace(ONE, students=("ada", "nobody")))
    assert set(run(course, Counting(), replace(ONE, excluded=frozenset({"ada"})))) == {"bo", "cy"}


def test_students_are_created_only_where_that_is_wanted(course: Course) -> None:
    entry = run(course, Counting(), replace(ONE, students=("ada",), create_students=False))["ada"]
    assert "no such student" in str(entry.problem)
    with Record(course) as record:
        assert not record.knows_student("ada")


def test_what_can_t_be_recorded_is_told_and_the_rest_goes_on(course: Course, monkeypatch: pytest.MonkeyPatch) -> None:
    write = Record.write

    def sometimes(record: Record, result: Any, content: str) -> None:
        if result.student == "bo":
            raise GradebookError("locked")
        write(record, result, content)

    monkeypatch.setattr(Record, "write", sometimes)
    problems = {student: entry.problem for student, entry in run(course, Counting()).items()}
    assert problems == {"ada": None, "bo": "not recorded: locked", "cy": None}


# ---------------------------------------------------------------------- one folder never stops a class


@pytest.mark.parametrize(
    ("name", "why"),
    [
        (b"m\xff", "letters that can't be shown"),
        (b"bob\n2 eve", "letters that can't be shown"),
        (b"x" * 129, "longer than 128 letters"),
        (b"a[1]", "one of / "),
        (b"the reference answer 2", "own answers"),
    ],
)
def test_a_folder_that_can_t_be_a_student_is_named_and_the_rest_goes_on(name: bytes, why: str, course: Course) -> None:
    (course.root / "submitted" / "ada").rename(course.root / "submitted" / os.fsdecode(name))
    for _ in range(2):
        entries = run(course, Counting())
        (problem,) = [entry.problem for entry in entries.values() if entry.problem]
        assert why in problem
        assert len(entries) == 3
        assert len(printable(table(list(entries.values()))).splitlines()) == 8  # no name makes a line of its own
    with Record(course) as record:
        assert sorted(record.students()) == ["bo", "cy"]


@pytest.mark.parametrize("step", ["read", "settled", "kept", "published", "written"])
def test_what_raises_while_one_is_read_or_recorded_is_that_one_s_trouble(
    step: str, course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    places: dict[str, tuple[object, str]] = {
        "read": (intake, "_read"),
        "settled": (Record, "settled"),
        "kept": (Kept, "put"),
        "published": (batch, "publish"),
        "written": (Record, "write"),
    }
    if step == "settled":
        run(course, Counting())
    where, name = places[step]
    done = getattr(where, name)

    def sometimes(*given: Any) -> Any:
        if any("bo" in (each, getattr(each, "student", None)) for each in given):
            raise ArithmeticError("of a library's")
        return done(*given)

    monkeypatch.setattr(where, name, sometimes)
    problems = {student: entry.problem for student, entry in run(course, Counting()).items()}
    assert "ArithmeticError: of a library's" in str(problems.pop("bo"))
    assert problems == {"ada": None, "cy": None}


@pytest.mark.parametrize("text", [UNPARSEABLE, "garbage", "9999-12-31 23:59 UTC", "0001-01-01 00:00 UTC"])
def test_a_timestamp_that_can_t_be_read_is_told_and_never_handed_on(text: str, course: Course) -> None:
    (course.root / "submitted" / "ada" / small.NAME / "timestamp.txt").write_text(text)
    entries = run(course, Counting())
    assert {entry.problem for entry in entries.values()} == {None}
    assert "can't be read; lateness was not judged" in entries["ada"].result.notebooks[0].notes[-1]
    published = course.root / "autograded"
    assert not (published / "ada" / small.NAME / "timestamp.txt").exists()
    assert (published / "bo" / small.NAME / "timestamp.txt").read_text() == "2026-02-03 12:00:00.000000 UTC"


@pytest.mark.parametrize("umask", [0o000, 0o022])
def test_no_graded_folder_is_open_to_others_at_any_moment(
    umask: int, course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a run ends early: looked at after the first student, and before anything is written."""
    seen = []
    write = kept._write

    def look(draft: Path, contents: Iterable[tuple[str, bytes]], of: Course) -> None:
        def looking() -> Iterator[tuple[str, bytes]]:
            seen.extend(oct(path.stat().st_mode & 0o777) for path in (draft, *draft.parents[:2]))
            yield from contents

        write(draft, looking(), of)

    monkeypatch.setattr(kept, "_write", look)
    before = os.umask(umask)
    try:
        run(course, Counting())
    finally:
        os.umask(before)
    folders = [path for path in [course.root / "autograded", *(course.root / "autograded").rglob("*")] if path.is_dir()]
    assert {*seen, *(oct(path.stat().st_mode & 0o777) for path in folders)} == {oct(0o770 & ~umask)}


def test_the_autograded_folder_is_nbgrader_s_and_holds_nothing_of_an_earlier_submission(course: Course) -> None:
    folder = course.root / "submitted" / "ada" / small.NAME
    (folder / "old.txt").write_text("1")
    run(course, Counting())
    (folder / "old.txt").unlink()
    run(course, Counting())
    target = course.root / "autograded" / "ada" / small.NAME
    assert sorted(path.name for path in target.iterdir()) == ["coding.ipynb", "timestamp.txt", "writing.ipynb"]
    assert {path.stat().st_mode & 0o777 for path in target.iterdir()} == {0o444}
    assert [path.name for path in target.parent.iterdir()] == [small.NAME]


def test_a_refused_submission_leaves_a_notice_in_place_of_its_notebooks(course: Course) -> None:
    (course.root / "submitted" / "ada" / small.NAME / "coding.ipynb").write_text("{")
    entry = run(course, Counting())["ada"]
    assert str(entry.problem).startswith("refused: 'coding.ipynb' is not a notebook")
    notice = (course.root / "autograded" / "ada" / small.NAME / "coding.ipynb").read_text()
    assert "This submission could not be graded" in notice


@pytest.mark.parametrize("name", ["", "..", "a/b", "a*"])
def test_an_assignment_is_named_by_its_folder(course: Course, name: str) -> None:
    with pytest.raises(CourseError, match="name of its folder"):
        autograde(course, name, ONE, farm(Counting()))


# ---------------------------------------------------------------------- what else changes a grade


def test_a_moved_due_date_is_recorded_without_running_anything(course: Course) -> None:
    late = Config({"LateSubmissionPlugin": {"penalty_method": "zero"}})
    run(course, Counting())
    with Gradebook(course.db_url, course.course_id) as book:
        book.update_or_create_assignment(small.NAME, duedate="2026-02-01 00:00:00 UTC")
    book.engine.dispose()
    judge = Counting()
    told = autograde(course, small.NAME, ONE, farm(judge), config=late)
    assert judge.runs == 0
    assert {(entry.unchanged, entry.standing and entry.standing.points) for entry in told} == {(False, 0.0)}
    assert [row[:4] for row in rows(moved(told))[1:]] == [
        (student, "lateness", "0", "-2") for student in ("ada", "bo", "cy")
    ]
    lines = table(told).splitlines()
    assert [line.split()[:2] for line in lines[2:5]] == [[student, "0/12"] for student in ("ada", "bo", "cy")]
    assert lines[2].endswith("2 points off for lateness")
    again = autograde(course, small.NAME, ONE, farm(judge), config=late)
    assert {entry.unchanged for entry in again} == {True}
    assert not moved(again)


def test_the_table_has_what_a_person_gave(course: Course) -> None:
    run(course, Counting())
    with Gradebook(course.db_url, course.course_id) as book:
        grade = book.find_grade("why", "writing", small.NAME, "ada")
        grade.manual_score, grade.needs_manual_grade = 3.0, False
        book.db.commit()
    book.engine.dispose()
    said = table(autograde(course, small.NAME, ONE, farm(Counting())))
    assert re.search(r"^ada +5/12 +2 passed, 1 scored by hand, 1 not answered, 1 by hand  ", said, re.MULTILINE), said
    assert re.search(r"^bo +2/12 +2 passed, 2 by hand, 1 not answered  ", said, re.MULTILINE), said


def test_a_copy_is_made_once_before_the_first_change_and_none_where_nothing_changes(course: Course) -> None:
    seen: list[int] = []

    def look() -> None:
        with Record(course) as record:
            seen.append(sum(one.handed_in for one in record.standings(small.NAME)))

    for expected in ([0], [0]):
        run(course, Counting(), replace(ONE, before_change=look))
        assert seen == expected


def test_texts_beyond_the_last_attempt_are_not_graded_and_an_old_one_is(course: Course) -> None:
    twice = replace(ONE, max_attempts=2)
    run(course, Counting(), twice)
    for answers in (small.PARTLY, small.NOTHING):
        small.hand_in(course.root, "ada", answers)
        entries = run(course, Counting(), twice)
    assert str(entries["ada"].problem).startswith("one attempt too many: max_attempts allows 2")
    assert entries["bo"].problem is None
    with Record(course) as record:
        assert [(one.student, one.number) for one in record.attempts(small.NAME)] == [
            *(("ada", number) for number in (1, 2)),
            ("bo", 1),
            ("cy", 1),
        ]
    small.hand_in(course.root, "ada", small.RIGHT)  # what was graded may be graded again
    assert run(course, Counting(), twice)["ada"].problem is None
    assert run(course, Counting())["ada"].unchanged


def test_when_it_was_handed_in_may_be_told_after_the_first_run(course: Course) -> None:
    (course.root / "submitted" / "ada" / small.NAME / "timestamp.txt").unlink(missing_ok=True)
    run(course, Counting())
    (course.root / "submitted" / "ada" / small.NAME / "timestamp.txt").write_text("2026-02-02 11:00:00 +0100")
    run(course, Counting())
    with Record(course) as record:
        (told,) = [one for one in record.attempts(small.NAME) if one.student == "ada"]
    assert (told.number, told.handed_in) == (1, datetime(2026, 2, 2, 10))


class FailingOnce(Counting):
    """The first test of a notebook gets no verdict, the others do."""

    def _judge(self, document: Mapping[str, Any], _files: Mapping[str, bytes], assignment: Assignment) -> Executed:
        ran = super()._judge(document, _files, assignment)
        lost = [replace(one, kind=Ending.GRADER_FAILURE, points=None) for one in ran.outcomes[:1]]
        return replace(ran, outcomes=(*lost, *ran.outcomes[1:]))


def test_an_attempt_counts_as_soon_as_any_question_got_a_verdict(course: Course) -> None:
    """Else one question that can't be carried would buy verdicts on all others, as often as one likes."""
    once, judge = replace(ONE, max_attempts=1), FailingOnce()
    assert run(course, judge, once)["ada"].problem == (
        "grader failure: said (the other questions are graded; --force judges it again)"
    )
    again = FailingOnce()
    assert str(run(course, again, once)["ada"].problem).startswith("grader failure: said")
    assert again.runs == 0
    small.hand_in(course.root, "ada", small.PARTLY)
    assert str(run(course, Counting(), once)["ada"].problem).startswith("one attempt too many: max_attempts allows 1")


def test_a_failure_of_the_grader_s_is_none_any_more_once_a_person_has_scored_the_question(course: Course) -> None:
    assert str(run(course, FailingOnce())["ada"].problem).startswith("grader failure: said")
    with Gradebook(course.db_url) as book:
        (lost,) = [one for one in book.find_submission(small.NAME, "ada").notebooks if one.name == "coding"]
        next(one for one in lost.grades if one.auto_score is None).manual_score = 1.0
        book.db.commit()
    again = run(course, FailingOnce())
    assert (again["ada"].problem, again["ada"].unchanged) == (None, True)
    assert str(again["bo"].problem).startswith("grader failure: said")


def test_where_no_question_got_a_verdict_it_was_no_attempt(course: Course) -> None:
    once = replace(ONE, max_attempts=1)
    run(course, Counting(Ending.GRADER_FAILURE), once)
    with Record(course) as record:
        assert not record.attempts(small.NAME)
    small.hand_in(course.root, "ada", small.PARTLY)
    assert run(course, Counting(), once)["ada"].problem is None


# ---------------------------------------------------------------------- the reference answer


def fails(document: Mapping[str, Any], _files: Mapping[str, bytes], _assignment: Assignment) -> Executed:
    """A judge on a course whose first test is wrong."""
    tests = [grade_id for cell in document["cells"] if (grade_id := name_of_test(cell))]
    return Executed(document, tuple(Outcome(name, Ending.FAILED, 0.0, 1.0, "Got 5\nmore") for name in tests))


def test_a_test_that_fails_on_the_reference_answer_is_named_and_nothing_is_recorded(course: Course) -> None:
    failing = partial(grade_all, open_judge=lambda _: nullcontext(fails), workers=1)
    with pytest.raises(CourseError, match=r"double_test \(coding.ipynb\): failed, 0 of 2: Got 5\n") as raised:
        autograde(course, small.NAME, RunOptions(), failing)
    assert "2 of the tests fail" in str(raised.value)
    assert str(raised.value).endswith("; --without-reference grades all the same")
    with pytest.raises(CourseError, match="double_test") as raised:
        proof(course, small.NAME, RunOptions(), failing)
    assert "--without-reference" not in str(raised.value), "which no other command takes"
    with Record(course) as record:
        assert not record.applied(small.NAME)
    assert not (course.root / "autograded").exists()


def test_a_grader_that_failed_on_the_reference_answer_doesn_t_blame_the_test(course: Course) -> None:
    with pytest.raises(CourseError, match=r"(?s)2 of the tests got no verdict .*the same command goes on") as raised:
        run(course, Counting(Ending.GRADER_FAILURE), RunOptions())
    assert "fail on" not in str(raised.value)


def test_a_module_that_is_missing_here_is_to_be_installed_here(course: Course) -> None:
    def lacks(document: Mapping[str, Any], _files: Mapping[str, bytes], _assignment: Assignment) -> Executed:
        why = "The instructor's cell fails: ModuleNotFoundError: No module named 'torch.nn'"
        lost = Outcome("double_test", Ending.GRADER_FAILURE, None, 1.0, why)
        return Executed(document, (lost,) if any(map(name_of_test, document["cells"])) else ())

    lacking = partial(grade_all, open_judge=lambda _: nullcontext(lacks), workers=1)
    with pytest.raises(CourseError, match="double_test") as raised:
        autograde(course, small.NAME, RunOptions(), lacking)
    said = str(raised.value)
    assert f"Install torch where nbjudge runs ({sys.executable} -m pip install …)" in said
    assert "killed" not in said


def test_the_reference_answer_is_judged_once_and_is_nobody_s_grade(course: Course) -> None:
    first, second = Counting(), Counting()
    entries = run(course, first, RunOptions())
    assert set(entries) == {"ada", "bo", "cy"}
    assert {entry.problem for entry in entries.values()} == {None}
    run(course, second, RunOptions(force=True))
    assert (first.runs, second.runs) == (4, 3)


def test_a_reference_that_fails_still_shows_what_it_can_where_nobody_demands_that_it_passes(course: Course) -> None:
    """Otherwise one test that has grown old would cost all others what is known of them."""
    told: list[Any] = []

    def shows(document: Mapping[str, Any], files: Mapping[str, bytes], assignment: Assignment) -> Executed:
        told.append(document["metadata"].get("places"))
        ran = fails(document, files, assignment)
        return replace(ran, outcomes=tuple(replace(one, places={"f()": ("data int",)}) for one in ran.outcomes))

    showing = partial(grade_all, open_judge=lambda _: nullcontext(shows), workers=1)
    entries = autograde(course, small.NAME, RunOptions(reference="shows"), showing)
    assert [entry.student for entry in entries] == ["ada", "bo", "cy"]
    known = [places["double_test"] for places in told if places and "double_test" in places]
    assert known == [{"f()": ("data int",)}] * 3
    (course.root / "source" / small.NAME / "writing.ipynb").unlink()
    assert len(autograde(course, small.NAME, RunOptions(reference="shows", force=True), showing)) == 3


def test_a_lost_source_is_named(course: Course) -> None:
    (course.root / "source" / small.NAME / "writing.ipynb").unlink()
    with pytest.raises(CourseError, match=r"writing\.ipynb is missing"):
        autograde(course, small.NAME, RunOptions(), farm(Counting()))
    assert len(run(course, Counting())) == 3  # where nobody asks for it, it isn't needed


# ---------------------------------------------------------------------- one at a time, and whole


def test_a_second_grader_is_refused_by_name(course: Course) -> None:
    with held_alone(course.state), pytest.raises(BusyError, match=f"process {os.getpid()} on "):
        run(course, Counting())
    with held_alone(course.state), pytest.raises(BusyError, match=f"process {os.getpid()} on "):
        batch.proof(course, small.NAME, ONE, farm(Counting()))
    assert len(run(course, Counting())) == 3


def test_what_a_killed_run_left_is_taken_away(course: Course) -> None:
    run(course, Counting())
    drafts = [
        course.root / "autograded" / "bo" / f".{small.NAME}.77new.swap",
        course.state / "results" / "0a.json.77.tmp",
    ]
    drafts[0].mkdir()
    (drafts[0] / "half.ipynb").write_text("{")
    drafts[1].write_text("{")
    run(course, Counting())
    assert not [draft for draft in drafts if draft.exists()]


@pytest.mark.parametrize(
    "folder", ["", *(pytest.param(each, marks=pytest.mark.whole) for each in (".grader", "autograded"))]
)
def test_a_full_disk_ends_the_run_with_a_sentence_and_loses_nothing(course: Course, folder: str) -> None:
    said = on_a_disk("full", course, folder)
    assert "No space left on device" in said or "disk is full" in said
    assert "ake room and run the same command again" in said
    assert "after: 20 graded, 20 recorded" in said


@pytest.mark.parametrize("folder", one_in(2, ["", ".grader", "gradebook.db", "autograded"]))
def test_a_read_only_course_is_named(course: Course, folder: str) -> None:
    said = on_a_disk("readonly", course, folder)
    assert Path(folder).stem in said
    assert "Give this user the right to write" in said
    assert "after: 20 graded, 20 recorded" in said


def on_a_disk(kind: str, course: Course, folder: str) -> str:
    """What a run says on such a disk, then how a run on a healthy one ends."""
    if not course.db_url.startswith("sqlite"):
        pytest.skip("the gradebook is on another machine's disk")
    root = course.root
    for number in range(17):
        small.hand_in(root, f"s{number:02}", small.RIGHT)
    command = [sys.executable, "-m", "nbjudge_tests.other_disk", kind, str(root), folder]
    done = subprocess.run(command, cwd=small.ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
