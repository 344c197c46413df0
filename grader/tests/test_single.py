"""One answer and its tests without a course: as a function, as a command, and without torch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

import nbjudge
from nbjudge import single
from nbjudge.__main__ import main
from nbjudge.errors import CourseError
from nbjudge.single import GradedTest, Judge

TESTS = {"three": "assert square(3) == 9", "minus": "assert square(-2) == 4"}


def cell(source: str, **marks: object) -> dict[str, object]:
    common = {"grade": False, "solution": False, "locked": False, "task": False, "schema_version": 3}
    metadata = {"nbgrader": {**common, **marks}} if marks else {}
    return {"cell_type": "code", "source": source, "metadata": metadata, "outputs": [], "execution_count": None}


SOLVED = "def mean(numbers):\n    ### BEGIN SOLUTION\n    return sum(numbers) / len(numbers)\n    ### END SOLUTION"
HIDDEN = "assert mean([1, 2]) == 1.5\n### BEGIN HIDDEN TESTS\nassert mean([4]) == 4\n### END HIDDEN TESTS"
SMALL = {
    "cells": [
        cell(SOLVED, grade_id="mean", solution=True),
        cell(HIDDEN, grade_id="mean_test", grade=True, locked=True, points=3),
    ],
    "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
    "nbformat": 4,
    "nbformat_minor": 4,
}
HEAVY = ("torch", "seegrad", "_editable_impl", "_seegrad", "triton", "nvidia")


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with nbjudge.open_judge(trust_students=True) as warm:
        yield warm


def endings(verdict: single.Verdict) -> list[str]:
    return [question["ending"] for question in verdict["questions"].values()]


def test_who_alone_brings_torch_is_judged_with_it(judge: Judge) -> None:
    """Neither the tests nor the answer before it need it: the seconds that it takes are theirs who do."""
    pytest.importorskip("torch")
    tests = {"three": "assert square(3) == 9\nassert float(square(2)) == 4.0"}
    for answer in ("def square(x):\n    return x * x", "import torch\ndef square(x):\n    return torch.tensor(x) ** 2"):
        assert endings(judge(answer, tests)) == ["passed"], answer


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("def square(x):\n    return x * x", ["passed", "passed"]),
        ("def square(x):\n    return x ** 2 if x > 0 else 0", ["passed", "failed"]),
        ("square = lambda x: x + x", ["failed", "failed"]),
        ("def square(x)", ["failed", "failed"]),
        ("", ["not answered", "not answered"]),
        ("import os\nos._exit(0)", ["crashed", "not reached"]),
        ("class A:\n    __eq__ = lambda *_: True\ndef square(x):\n    return A()", ["by hand", "by hand"]),
    ],
)
def test_an_answer_is_judged_by_its_tests(judge: Judge, answer: str, expected: list[str]) -> None:
    verdict = judge(answer, TESTS, seed=1)
    assert endings(verdict) == expected
    assert verdict["score"] == expected.count("passed")
    assert verdict["max_score"] == 2
    assert list(verdict["questions"]) == list(TESTS)
    assert json.loads(json.dumps(verdict)) == verdict


def test_cells_points_files_and_a_reference(judge: Judge) -> None:
    tests = [
        GradedTest("sum", "import math\nassert math.isclose(total(), 6.0)", 3),
        GradedTest("n", "assert n == 3", 0.5),
    ]
    cells = ["n = 3", "def total():\n    return sum(map(float, open('data.txt').read().split()))"]
    files = {"data.txt": b"1 2 3"}
    verdict = judge(cells, tests, reference=cells, files=files)
    assert verdict["score"] == verdict["max_score"] == 3.5
    assert judge(cells, tests, files={})["score"] == 0.5


def test_what_an_answer_may_give_back_is_known_from_the_reference(judge: Judge) -> None:
    """A function where the reference gives a function; without one a person has to look."""
    answer = "def adder(n):\n    return lambda x: x + n"
    other = "import functools, operator\ndef adder(n):\n    return functools.partial(operator.add, n)"
    tests = {"adder": "assert adder(2)(3) == 5"}
    assert endings(judge(answer, tests)) == ["by hand"]
    assert endings(judge(other, tests, reference=answer)) == ["passed"]
    assert endings(judge("def adder(n):\n    return lambda x: x", tests, reference=answer)) == ["failed"]


def test_a_test_without_sense_is_the_author_s_error(judge: Judge) -> None:
    with pytest.raises(CourseError, match="no test"):
        judge("", {})
    with pytest.raises(CourseError, match="of its own"):
        judge("", [GradedTest("q", "pass"), GradedTest("q", "pass")])
    with pytest.raises(CourseError, match="'q' isn't Python"):
        judge("", {"q": "assert square(3) =="})
    with pytest.raises(CourseError, match=r"reference doesn't pass.*three"):
        judge("square = abs", TESTS, reference="square = abs")


def test_what_is_named_nowhere_is_asked_of_the_answer_only_where_the_reference_gives_it(judge: Judge) -> None:
    verdict = judge("def square(x):\n    return x * x", {"q": "assert cube(2) == 8"}, reference=None)
    assert endings(verdict) == ["failed"]
    with pytest.raises(CourseError, match="cube"):
        judge("", {"q": "assert cube(2) == 8"}, reference="def square(x):\n    return x * x")


def test_the_command_prints_a_line_of_json_for_each_answer(tmp_path: Path, capsys) -> None:
    (tmp_path / "tests.py").write_text(
        "# %% three (2 points)\nassert square(3) == 9\n\n# %% four\nassert square(4) == 16\n"
    )
    (tmp_path / "right.py").write_text("def square(x):\n    return x * x\n")
    (tmp_path / "wrong.py").write_text("def square(x):\n    return 9\n")
    names = [str(tmp_path / name) for name in ("tests.py", "right.py", "wrong.py")]
    assert main(["judge", *names, "--i-trust-these-students"]) == 1
    right, wrong = map(json.loads, capsys.readouterr().out.splitlines())
    assert (right["score"], right["max_score"], wrong["score"]) == (3, 3, 2)
    assert right["answer"] == names[1]
    assert wrong["questions"]["four"]["ending"] == "failed"
    assert main(["judge", names[1], names[1]]) == 2
    assert "holds no test" in capsys.readouterr().err


def test_an_author_is_told_once_of_a_check_that_an_answer_comes_past(tmp_path: Path, capsys) -> None:
    tests, answer = tmp_path / "tests.py", tmp_path / "answer.py"
    tests.write_text("# %% three\nout = square(3)\nif isinstance(out, int):\n    assert out == 9\n")
    answer.write_text("def square(x):\n    return x * x\n")
    command = ["judge", str(tests), str(answer), str(answer), "--i-trust-these-students"]
    for more in ([], ["--reference", str(answer)]):
        main([*command, *more])
        said = capsys.readouterr()
        assert len(said.out.splitlines()) == 2
        assert said.err.count(f"{tests}, cell 'three', line 3: an answer that goes another way at line 2 than") == 1


def test_an_answer_that_is_no_text_is_refused(judge: Judge, tmp_path: Path) -> None:
    verdict = judge("x = '\ud800'", TESTS)
    assert "Unicode" in str(verdict["refusal"]) or "UTF-8" in str(verdict["refusal"])
    assert verdict["score"] == 0
    huge = tmp_path / "huge.py"
    with huge.open("wb") as file:
        file.truncate((16 << 20) + 1)
    with pytest.raises(CourseError, match="too large: 16"):
        single.answer_in(huge)


NOTEBOOK = '"nbformat": 4, "nbformat_minor": 5, "metadata": {}'
CELL = '"cell_type": "code", "source": "def square(x): return x * x", "outputs": []'
HOSTILE: dict[str, tuple[bytes, str]] = {  # file → content, why it is refused; "" where it is an answer
    "latin.py": (b"def square(x): return x * x # \xff", "not UTF-8"),
    "nul.py": (b"square = 1\0", ""),
    "no_encoding.py": (b"# coding: nonsense\ndef square(x): return x * x", "nor of an encoding that it names"),
    "no_text.py": (b"# coding: zlib\ndef square(x): return x * x", "nor of an encoding that it names"),
    "names.py": (b"# coding: punycode\n" + b"a" * 1_000_000 + b"-" + b"b" * 1_000_000, "nor of an encoding"),
    "damaged.ipynb": (b'{"cells": [', "damaged"),
    "list.ipynb": (b"[]", "a list, not an object"),
    "none.ipynb": (b'{"cells": null}', "no list of cells"),
    "parts.ipynb": (b'{"cells": [], "more": [' + b"[]," * 600_000 + b"[]]}", "too many parts"),
    "deep.ipynb": (b"[" * 200_000, "nested too deeply"),
    "odd_metadata.ipynb": (f'{{"cells": [{{{CELL}, "metadata": []}}], {NOTEBOOK}}}'.encode(), ""),
    "odd_marks.ipynb": (f'{{"cells": [{{{CELL}, "metadata": {{"nbgrader": 3}}}}], {NOTEBOOK}}}'.encode(), ""),
    "three.ipynb": (
        b'{"nbformat": 3, "cells": null, "worksheets": [{"cells": '
        b'[{"cell_type": "code", "input": "def square(x): return x * x", "outputs": []}]}]}',
        "",
    ),
}


def test_what_is_wrong_with_one_answer_is_told_of_that_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tests.py").write_text("# %% three (2 points)\nassert square(3) == 9\n")
    (tmp_path / "good.py").write_text("def square(x): return x * x\n")
    for name, (content, _) in HOSTILE.items():
        (tmp_path / name).write_bytes(content)
    with (tmp_path / "huge.ipynb").open("wb") as file:
        file.truncate((16 << 20) + 1)
    (tmp_path / "linked.py").symlink_to("good.py")
    os.mkfifo(tmp_path / "pipe.py")
    others = {
        "huge.ipynb": "too large",
        "linked.py": "symbolic link",
        "pipe.py": "neither a file",
        "gone.py": "No such",
    }
    reasons = {name: why for name, (_, why) in HOSTILE.items()} | others
    answers = [str(tmp_path / name) for name in [*reasons, "good.py"]]
    assert main(["judge", str(tmp_path / "tests.py"), *answers, "--i-trust-these-students"]) == 1
    verdicts = {Path(each["answer"]).name: each for each in map(json.loads, capsys.readouterr().out.splitlines())}
    assert list(verdicts) == [*reasons, "good.py"]
    for name, why in reasons.items():
        assert (why in verdicts[name]["refusal"]) if why else verdicts[name]["refusal"] is None, verdicts[name]
    assert {name: each["score"] for name, each in verdicts.items() if each["score"]} == dict.fromkeys(
        ("odd_metadata.ipynb", "odd_marks.ipynb", "three.ipynb", "good.py"), 2.0
    )
    assert {frozenset(each) for each in verdicts.values()} == {frozenset(verdicts["good.py"])}


READ = "{}def square(x):\n    return x * x if 'é' == '\\xe9' else 'wrong'\n"


@pytest.mark.parametrize(
    "content",
    [
        READ.format("").encode("utf-8-sig"),
        READ.format("# coding: utf-8\n").encode("utf-8-sig"),
        READ.format("# -*- coding: latin-1 -*-\n").encode("latin-1"),
        READ.format("#!/usr/bin/python3\n# vim: set fileencoding=cp1252 :\n").encode("cp1252"),
        READ.format("").replace("\n", "\r\n").encode("utf-8-sig"),
    ],
)
def test_a_file_is_read_as_python_reads_it(content: bytes, judge: Judge, tmp_path: Path) -> None:
    """By its byte order mark, or the encoding that it names."""
    path, tests = tmp_path / "answer.py", tmp_path / "tests.py"
    path.write_bytes(content)
    tests.write_text("# %% three (2 points)\nassert square(3) == 9, 'é'\n", encoding="utf-8-sig")
    reference = single.answer_in(path)
    assert judge(reference, single.tests_in(tests), reference=reference)["score"] == 2


def test_only_tests_and_reference_end_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tests.py").write_text("# %% three\nassert square(3) == 9\n")
    (tmp_path / "good.py").write_text("def square(x): return x * x\n")
    (tmp_path / "latin.py").write_bytes(b"\xff")
    good, latin, tests = (str(tmp_path / name) for name in ("good.py", "latin.py", "tests.py"))
    for wrong in (["judge", latin, good], ["judge", tests, good, "--reference", latin]):
        assert main([*wrong, "--i-trust-these-students"]) == 2
        assert "latin.py" in capsys.readouterr().err


def test_the_readme_s_example_does_what_it_says(tmp_path: Path) -> None:
    text = (Path(nbjudge.__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    block = next(each for each in text.split("```python\n")[1:] if "open_judge" in each).partition("```")[0]
    (tmp_path / "example.py").write_text(block)
    done = subprocess.run([sys.executable, "example.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout == "1.0 passed\n", done.stderr


def test_tests_may_be_a_notebook_s(tmp_path: Path) -> None:
    mark = {"grade_id": "q", "grade": True, "solution": False, "points": 2, "locked": True, "schema_version": 3}
    cells = [
        {"cell_type": "code", "source": "x = 1", "metadata": {}, "outputs": [], "execution_count": None},
        {"cell_type": "code", "source": ["assert x\n", "assert x == 1"], "metadata": {"nbgrader": mark}},
    ]
    path = tmp_path / "ps.ipynb"
    path.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    assert single.answer_in(path) == ["x = 1"]
    assert single.tests_in(path) == [GradedTest("q", "assert x\nassert x == 1", 2.0)]


def without_torch(folder: Path) -> Path:
    """A Python with everything that the grader needs, but neither torch nor the course."""
    venv.create(folder)
    (there,) = folder.glob("lib/python3*/site-packages")
    here = Path(sysconfig.get_paths()["purelib"])
    for entry in here.iterdir():
        if not entry.name.startswith(HEAVY):
            copied(entry, there / entry.name)
    (there / "grader.pth").write_text(str(Path(nbjudge.__file__).parents[1]))
    python, script = folder / "bin" / "python", folder / "bin" / "alembic"  # a command that nbgrader calls
    script.write_text(f"#!{python}\nfrom alembic.config import main\n\nmain()\n")
    script.chmod(0o755)
    return python


def copied(entry: Path, to: Path) -> None:
    """Hard links: as real as copies, in no time."""
    if entry.is_dir():
        for folder, _, names in os.walk(entry):
            target = to / Path(folder).relative_to(entry)
            target.mkdir(parents=True, exist_ok=True)
            for name in names:
                os.link(Path(folder) / name, target / name)
    else:
        os.link(entry, to)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return without_torch(tmp_path_factory.mktemp("plain") / "venv")


def said(folder: Path, *command: str | Path) -> str:
    """What a command prints in that folder; no variable of ours leads to this environment."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_program_is_judged_where_neither_torch_nor_the_course_is(plain: Path, tmp_path: Path) -> None:
    code = "import importlib.util as u; print([u.find_spec(n) for n in ('torch', 'seegrad')])"
    assert said(tmp_path, plain, "-c", code) == "[None, None]\n"
    (tmp_path / "tests.py").write_text("# %% q\nassert mean([1, 2]) == 1.5\n")
    (tmp_path / "answer.py").write_text("import statistics\nmean = statistics.mean\n")
    command = ["-W", "error", "-m", "nbjudge", "judge", "tests.py", "answer.py", "--i-trust-these-students"]
    assert json.loads(said(tmp_path, plain, *command))["score"] == 1


@pytest.fixture(scope="module")
def handed_in(plain: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A course in plain Python with one right answer: the first of the README's five minutes."""
    course = tmp_path_factory.mktemp("course")
    config = "from nbjudge.plugin import install\n\nc = get_config()\ninstall(c)\n"
    (course / "nbgrader_config.py").write_text(config)
    source = course / "source" / "ps1" / "ps1.ipynb"
    source.parent.mkdir(parents=True)
    source.write_text(json.dumps(SMALL))
    said(course, plain, "-m", "nbgrader", "generate_assignment", "ps1")
    released = (course / "release" / "ps1" / "ps1.ipynb").read_text()
    answer = course / "submitted" / "ada" / "ps1" / "ps1.ipynb"
    answer.parent.mkdir(parents=True)
    answer.write_text(released.replace("raise NotImplementedError()", "return sum(numbers) / len(numbers)"))
    return course


@pytest.mark.whole  # a program is judged in the same place in `make test`
def test_a_course_in_plain_python_is_graded_where_neither_is(plain: Path, handed_in: Path) -> None:
    assert "3/3" in said(handed_in, plain, "-m", "nbjudge", "autograde", "ps1", "--i-trust-these-students")
    assert "mean_test" in said(handed_in, plain, "-m", "nbjudge", "why", "ada", "ps1")
    assert said(handed_in, plain, "-m", "nbjudge", "report", "ps1").strip().endswith("report-ps1.html")
