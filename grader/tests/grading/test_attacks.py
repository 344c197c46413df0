"""Submissions that solve nothing and want points, secrets or damage: each file is what a student might hand in.

In one kernel with the tests most of them get full marks. Here they are one class, graded in one run.
"""

from __future__ import annotations

import ast
import itertools
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbgrader.api import Gradebook

from nbjudge.grading.batch import Entry
from nbjudge.model import Ending, Result
from nbjudge.pages.screen import attention, summary
from nbjudge.shown.hidden import without_hidden_tests
from nbjudge.shown.markup import CONVERSIONS
from nbjudge.shown.outputs import Shower
from nbjudge.shown.page import presentable
from nbjudge.shown.text import printable
from nbjudge_tests.classroom import hostile
from nbjudge_tests.classroom.commands import nbgrader
from nbjudge_tests.classroom.hostile import ATTACKS, FULL, HONEST, NAME, SECRETS, WORD_ONLY

ROOT = Path(__file__).parents[3]
LEFT = ("/tmp/left_behind", "/dev/shm/left_behind", "/var/tmp/left_behind", "/run/left_behind")

# What an attack prints when it has got at nothing.
EMPTY_HANDS = {
    "peek": "found [] []",
    "read_disk": "seen []",
    "write_outside": "written []\nbefore []",
    "network": "reached []",
    "own_descriptors": "found []",
    "other_processes": "reached []",
    "escape_the_root": "reached []",
    "poison_the_cache": "written []",
    "behind_a_function": "heard []",
    "histories": "seen []",
    "mailbox_in": "found []",
    "memory_of_nobody": "written 0",
}


@dataclass(frozen=True)
class Graded:
    """What came of the class."""

    entries: Mapping[str, Entry]
    points: Mapping[str, Mapping[str, float | None]]  # student → question → points, from the gradebook
    before: Mapping[str, str]
    after: Mapping[str, str]
    left: frozenset[int]  # processes that the run has started and not ended
    again: Path  # the same course and class, not graded yet


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> Graded:
    root = hostile.make(tmp_path_factory.mktemp("hostile") / "course")
    nbgrader(root, "generate_assignment", NAME)
    hostile.hand_in(root)
    shutil.copytree(root, root.with_name("again"), symlinks=True, copy_function=copied)
    before, running = digests(root), descendants()
    entries = hostile.grade(root)
    after = digests(root)
    left = frozenset(descendants() - running)
    return Graded(
        {entry.student: entry for entry in entries}, recorded(root), before, after, left, root.with_name("again")
    )


def copied(source: str, target: str) -> str:
    """Files; a pipe can't be read, so it is made anew."""
    if stat.S_ISFIFO(Path(source).lstat().st_mode):
        os.mkfifo(target)
        return target
    return str(shutil.copy2(source, target, follow_symlinks=False))


def lead_into(copy: Path, place: Path) -> None:
    """A link into the class leads into its copy."""
    for link in [path for path in copy.rglob("*") if path.is_symlink() and path.readlink().is_relative_to(place)]:
        inside = link.readlink().relative_to(place)
        link.unlink()
        link.symlink_to(copy / inside)


def digests(root: Path) -> dict[str, str]:
    """The class's submissions and the course's sources, which nobody may touch."""
    return {**hostile.digest(root / "submitted"), **hostile.digest(root / "source"), **hostile.digest(root / "release")}


def recorded(root: Path) -> dict[str, dict[str, float | None]]:
    with Gradebook(f"sqlite:///{root / 'gradebook.db'}") as book:
        return {
            submission.student.id: {
                grade.name: grade.auto_score for notebook in submission.notebooks for grade in notebook.grades
            }
            for submission in book.assignment_submissions(NAME)
        }


def descendants() -> set[int]:
    """The processes that this one has started, and these, and so on."""
    found, wanted = set[int](), ["self"]
    while wanted:
        for listed in Path(f"/proc/{wanted.pop()}/task").glob("*/children"):
            children = listed.read_text().split()
            found.update(map(int, children))
            wanted.extend(children)
    return found


def pages(entry: Entry) -> list[Any]:
    """The executed notebooks as the feedback page shows them."""
    texts = [graded.notebook for graded in entry.result.notebooks if graded.notebook]
    shower = Shower(lambda kind, source: CONVERSIONS[kind](source))
    return [without_hidden_tests(presentable(nbformat.reads(text, as_version=4), shower)) for text in texts]


def shown(entry: Entry) -> str:
    """All that a student may read of a result and hasn't written: outputs, the course's cells, each question's word."""
    cells = [cell for page in pages(entry) for cell in page["cells"]]
    written = [cell["source"] for cell in cells if not is_students(cell)]
    messages = [outcome.message for outcome in entry.result.outcomes]
    return json.dumps([written, [cell.get("outputs") for cell in cells], messages, entry.problem], ensure_ascii=False)


def is_students(cell: Mapping[str, Any]) -> bool:
    marks = cell["metadata"].get("nbgrader", {})
    return not marks or bool(marks.get("solution"))


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_gains_nothing(attack: str, graded: Graded) -> None:
    entry = graded.entries[attack]
    gained = {outcome.grade_id for outcome in entry.result.outcomes if outcome.points}
    assert gained <= WORD_ONLY
    assert {outcome.claims for outcome in entry.result.outcomes if outcome.points} <= {("is_leaf", "requires_grad")}
    assert {name for name, points in graded.points[attack].items() if points} == gained


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_learns_nothing(attack: str, graded: Graded) -> None:
    text = shown(graded.entries[attack])
    own = ATTACKS[attack].read_text(encoding="utf-8")
    for secret in SECRETS:
        assert secret in own or secret not in text
    if attack in EMPTY_HANDS:
        assert EMPTY_HANDS[attack] in text.replace("\\n", "\n")


@pytest.mark.parametrize("attack", ATTACKS)
def test_nothing_acts_on_the_page(attack: str, graded: Graded) -> None:
    cells = [cell for page in pages(graded.entries[attack]) for cell in page["cells"]]
    for output in itertools.chain.from_iterable(cell.get("outputs", ()) for cell in cells):
        data = output.get("data", {})
        html = data.get("text/html", "")
        assert not re.search(r"<script|onerror|onload|javascript:|<iframe|<div class", html, re.IGNORECASE)
        assert not {"application/javascript", "application/vnd.jupyter.widget-view+json"} & set(data)


@pytest.mark.parametrize("attack", ATTACKS)
def test_nothing_moves_a_terminal_s_cursor_or_turns_its_lines(attack: str, graded: Graded) -> None:
    entry = graded.entries[attack]
    for text in (summary(entry), *(outcome.message for outcome in entry.result.outcomes)):
        assert printable(text) == text


@pytest.mark.parametrize("attack", ["bombs_shown", "bombs_written"])
def test_the_summary_names_what_is_too_much_to_show(attack: str, graded: Graded) -> None:
    assert "isn't shown" in "; ".join(attention(graded.entries[attack].result))


@pytest.mark.parametrize("attack", ["notebook_folder", "endless_path", "million_parts"])
def test_what_can_t_be_written_or_unpacked_is_refused(attack: str, graded: Graded) -> None:
    assert str(graded.entries[attack].problem).startswith("refused: ")


@pytest.mark.parametrize("student", HONEST)
def test_the_rest_of_the_class_is_graded(student: str, graded: Graded) -> None:
    entry = graded.entries[student]
    assert entry.problem is None
    assert {outcome.kind for outcome in entry.result.outcomes} == {Ending.PASSED}
    assert graded.points[student] == FULL


def test_no_file_no_process_and_no_other_grade_is_touched(graded: Graded) -> None:
    assert graded.after == graded.before
    assert not graded.left
    assert not [path for path in LEFT if Path(path).exists()]
    assert set(graded.points) == {*ATTACKS, *HONEST}


@pytest.fixture(scope="module")
def by_an_ordinary_user(graded: Graded, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Result]:
    own = tmp_path_factory.mktemp("root's")
    place = Path(tempfile.mkdtemp(prefix="ordinary-"))  # pytest's own folders are closed to others
    try:
        shutil.copytree(graded.again, place, symlinks=True, copy_function=copied, dirs_exist_ok=True)
        lead_into(place, graded.again.with_name("course"))
        for path in [place, *place.rglob("*")]:
            os.chown(path, 65534, 65534, follow_symlinks=False)
        command = [sys.executable, "-B", "-m", "nbjudge_tests.other_user", "become", "class", str(own), str(place)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900)
        assert done.returncode == 0, done.stdout + done.stderr
        lines = (place / "results.jsonl").read_text(encoding="utf-8").split("\n")  # outputs hold what else ends a line
    finally:
        shutil.rmtree(place)
    return {result.student: result for result in map(Result.from_json, lines)}


@pytest.mark.whole
@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_the_same_holds_for_a_grader_that_is_an_ordinary_user(
    graded: Graded, by_an_ordinary_user: Mapping[str, Result]
) -> None:
    assert by_an_ordinary_user.keys() == graded.entries.keys()
    assert {student: points(result) for student, result in by_an_ordinary_user.items()} == {
        student: points(graded.entries[student].result) for student in by_an_ordinary_user
    }
    for attack, text in EMPTY_HANDS.items():
        assert text in shown(Entry(attack, by_an_ordinary_user[attack])).replace("\\n", "\n")


def points(result: Result) -> list[float]:
    return [outcome.points or 0.0 for outcome in result.outcomes]


def test_points_on_a_word_are_a_tenth_at_most() -> None:
    assert sum(FULL[name] for name in WORD_ONLY) <= 0.1 * sum(FULL.values())


def test_there_are_a_hundred_and_more_and_each_says_what_it_tries() -> None:
    assert len(ATTACKS) >= 120
    for path in ATTACKS.values():
        text = path.read_text(encoding="utf-8")
        line = text.splitlines()[0] if path.suffix == ".ipy" else ast.get_docstring(ast.parse(text))
        assert line is not None
        assert re.match(r"(# )?[A-Z].{15,140}\.$", line), path.name
