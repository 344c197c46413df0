"""Files that an answer writes and a test reads, and what of them never reaches the tests."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nbjudge.bridge.around.files import Folder
from nbjudge.bridge.peer import Peer
from nbjudge.grading.trial import run_notebook
from nbjudge.model import Assignment, Ending, Outcome
from nbjudge.process.zygote import Zygote
from nbjudge.wire import Pipe
from nbjudge_tests.trials import LIMITS, answer, check, notebook, only, run

RUNS = """
import os, pickle
class Runs:
    def __reduce__(self): return os.system, ("true",)
with open("found.bin", "wb") as file: pickle.dump(Runs(), file)
"""
RIGHT = "x = 3\nwith open('a.txt', 'w') as file: file.write('one')"


def test_a_file_is_read_as_it_is_when_the_test_looks(zygote: Zygote) -> None:
    source = f"{RIGHT}\ndef more():\n    with open('a.txt', 'a') as file: file.write(' two')\n    return 2"
    test = "before = open('a.txt').read()\nmore()\nassert (before, open('a.txt').read()) == ('one', 'one two')"
    gone = "import os\nos.remove('a.txt')\nmore()\nassert open('a.txt').read() == ' two'"
    assert [one.kind for one in run(zygote, answer(source), check(test, "a"), check(gone, "b")).outcomes] == [
        Ending.PASSED,
        Ending.PASSED,
    ]


def test_a_file_of_the_moment_is_there_for_the_answer_too(zygote: Zygote) -> None:
    source = "def add(name):\n    with open(name, 'a') as file: file.write('b')\n    return open(name).read()"
    test = """
import tempfile
with tempfile.NamedTemporaryFile("w", suffix=".txt", delete=False) as file: file.write("a")
assert add(file.name) == "ab" == open(file.name).read()
"""
    assert only(run(zygote, answer(source), check(test), beside=source)).kind is Ending.PASSED


def test_unpickling_what_an_answer_wrote_runs_nothing(zygote: Zygote) -> None:
    test = "import pickle\nwith open('found.bin', 'rb') as file:\n    pickle.load(file)"
    outcome = only(run(zygote, answer(RUNS), check(test)))
    assert (outcome.kind, outcome.points) == (Ending.GRADER_FAILURE, None)
    assert "unpickling runs code" in outcome.message
    plain = "import pickle\nwith open('found.bin', 'wb') as file: pickle.dump({'a': [1, 2.5]}, file)"
    assert only(run(zygote, answer(plain), check(f"{test}\nassert open('found.bin', 'rb')"))).kind is Ending.PASSED


def test_nobody_asks_the_judge_for_its_files_or_sources() -> None:
    here, there = socket.socketpair()
    with here, there:
        asked = {"files", "source"}
        assert not asked & Peer(Pipe(here.fileno()), side=0).answers.keys()
        assert asked <= Peer(Pipe(there.fileno()), side=1).answers.keys()


@pytest.mark.parametrize(
    "source",
    [
        "open('colorsys.py', 'w').write('raise SystemError')",
        "import os\nos.mkdir('colorsys')\nopen('colorsys/__init__.py', 'w').write('raise SystemError')",
    ],
)
def test_no_module_crosses(source: str, zygote: Zygote) -> None:
    test = "import os, sys\nsys.path.insert(0, os.getcwd())\nopen('a.txt')\nimport colorsys\nassert x == 3"
    assert only(run(zygote, answer(f"{RIGHT}\n{source}"), check(test))).kind is Ending.PASSED


def test_a_link_doesn_t_cross(zygote: Zygote) -> None:
    source = "import os\nos.symlink('/etc/passwd', 'a.txt')\nos.symlink('/etc', 'b')"
    test = "import os\nassert not os.path.exists('a.txt') and not os.path.exists('b')"
    assert only(run(zygote, answer(source), check(test))).kind is Ending.PASSED


def test_a_file_of_the_course_s_own_is_never_replaced(zygote: Zygote) -> None:
    book = notebook(
        answer("import os\nos.remove('want.txt')\nopen('want.txt', 'w').write('0')"),
        check("""
assert open('want.txt').read() == '7'
"""),
    )
    own = {"want.txt": b"7"}
    ran = run_notebook(zygote, book, own, Assignment("", (), 5, LIMITS, own))
    assert only(ran).kind is Ending.PASSED


OWN = {"want.txt": b"7", "made.txt": b"1 2"}  # the second: what the author's answer wrote, left in the folder
MADE = "def save(items, name='made.txt'):\n    with open(name, 'w') as file: file.write(items)\nsave({})"
READS = "import os\nassert open('made.txt').read() == '1 2' and open('want.txt').read() == '7'"


def of_the_course(zygote: Zygote, source: str, places: dict[str, Any] | None = None) -> list[Outcome]:
    """Two questions on a file that the course has, and the answers write; without `places` as the reference."""
    book = notebook(answer(source), check(READS, "a"), check(READS, "b"), reference=MADE)
    book["metadata"] |= {"record": True} if places is None else {"places": places}
    return [*run_notebook(zygote, book, OWN, Assignment("", (), 5, LIMITS, OWN)).outcomes]


def test_a_file_of_the_course_s_own_is_the_answer_s_where_the_reference_writes_it_too(zygote: Zygote) -> None:
    shown = of_the_course(zygote, MADE.format("'1 2'"))
    assert [one.kind for one in shown] == [Ending.PASSED] * 2
    places = {one.grade_id: one.places for one in shown}
    wrong = of_the_course(zygote, MADE.format("'3 4'"), places)
    assert [one.kind for one in wrong] == [Ending.FAILED] * 2
    right = of_the_course(zygote, MADE.format("'1 2'") + "\nsave('0', 'want.txt')", places)
    assert [one.kind for one in right] == [Ending.PASSED] * 2


@pytest.mark.parametrize("name", ["expected.txt/", "./expected.txt", "colorsys.py/", "a.py/.", "sub/../a.txt", "a\0b"])
def test_a_file_has_one_spelling(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("expected.txt").write_text("ours")
    Folder().apply([(name, b"theirs")], [name], kept={"expected.txt"})
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"expected.txt": "ours"}


def test_no_program_runs_beside_files_of_an_answer(zygote: Zygote) -> None:
    test = "import os, subprocess\nassert os.path.exists('a.txt')\nsubprocess.run(['/bin/true'], check=False)"
    outcome = only(run(zygote, answer(RIGHT), check(test)))
    assert (outcome.kind, "might run them" in outcome.message) == (Ending.GRADER_FAILURE, True)


EXAMPLE = 'def double(x):\n    """\n    >>> {}\n    6\n    """\n    return {}'


@pytest.mark.parametrize(
    "test",
    [
        "assert doctest.testmod().failed == 0",
        "doctest.run_docstring_examples(double, globals())",
        "[doctest.DocTestRunner().run(one) for one in doctest.DocTestFinder().find(double)]",
    ],
)
def test_examples_of_an_answer_run_only_as_they_were_released(test: str, zygote: Zygote) -> None:
    reference = EXAMPLE.format("double(3)", "2 * x")
    question = check(f"import doctest\n{test}\nassert double(3) == 6")
    hostile = EXAMPLE.format("__builtins__.globals().clear() or 6", "6")
    outcome = only(run(zygote, answer(hostile), question, beside=reference))
    assert (outcome.kind, outcome.points) == (Ending.GRADER_FAILURE, None), outcome
    assert "aren't the released ones" in outcome.message
    honest = EXAMPLE.format("double(3)", "x + x")
    assert only(run(zygote, answer(honest), question, beside=reference)).kind is Ending.PASSED


def test_a_process_that_never_asked_for_the_temporary_folder_may_be_watched() -> None:
    """To find that folder opens a file, under a lock, which is noticed, and nothing there may ask for it again."""
    code = """
import tempfile
from nbjudge.bridge.around.files import Files
tempfile.tempdir = None
files = Files(lambda asked: ((), ()), print, lambda place, undo: True, lambda names: names)
files.watch()
files.begin()
with tempfile.TemporaryFile(): print("open")
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert run.stdout == "open\n", run.stderr
