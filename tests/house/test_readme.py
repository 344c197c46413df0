"""What the documents promise exists: links, pictures, commands."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from seegrad.words.languages import LANGUAGES
from tools.my_work import copy

ROOT = Path(__file__).parents[2]
DOCUMENTS = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "grader").glob("*.md")),
]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_and_pictures_lead_somewhere(document: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)", document.read_text(encoding="utf-8"))
    missing = [target for target in targets if "://" not in target and not (document.parent / target).exists()]
    assert not missing


MAPS = [document for document in DOCUMENTS if document.name in ("ARCHITECTURE.md", "SECURITY.md", "CONTRIBUTING.md")]


@pytest.mark.parametrize("document", MAPS, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_paths_on_a_map_are_there(document: Path) -> None:
    """A path in backticks stands for a file or folder: from the root, from the document, or in its package."""
    home = document.parent
    bases = (ROOT, home, ROOT / "seegrad" if home == ROOT else home / "nbjudge", home / "tests")
    text = re.sub(r"^```.*?^```", "", document.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    named = re.findall(r"`([\w.-]+/[\w./-]*|[\w/]+\.(?:py|ts|toml))`", text)
    made = ("NN_topic", "build/", "notebooks/en", "submitted/", "autograded/", ".grader/", "release/")
    wanted = [path for path in named if not any(word in path for word in made)]
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    files = [f"/{path}" for path in listed]
    folders = {f"{folder}/" for path in files for folder in map(str, Path(path).parents)}
    kept = [*files, *folders]
    missing = [
        path
        for path in wanted
        if not any((base / path).exists() for base in bases) and not any(one.endswith(f"/{path}") for one in kept)
    ]
    assert wanted
    assert not missing


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_make_targets_exist(document: Path) -> None:
    known = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)", document.read_text(encoding="utf-8"), re.MULTILINE))
    assert named <= known


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_python_modules_can_be_run(document: Path) -> None:
    """`python -m X` names a module that has a command line of its own."""
    for name in sorted(
        set(re.findall(r"python -m ((?:seegrad|grader|tools|benchmarks)[\w.]*)", document.read_text(encoding="utf-8")))
    ):
        path = ROOT.joinpath(*name.split("."))
        runnable = path / "__main__.py" if path.is_dir() else path.with_suffix(".py")
        assert '__name__ == "__main__"' in runnable.read_text(encoding="utf-8"), name


def test_the_first_program_of_the_readme_is_diagnosed(tmp_path: Path) -> None:
    """The README's own code block, run as a script: silent, and named."""
    block = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    script = tmp_path / "first.py"
    script.write_text(block[1] + "\nfor d in rec.diagnoses:\n    print(d.kind, d.severity, d.culprit.code, d.node)\n")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["silent_corruption wrong c.zero_() SigmoidBackward0"]


FIRST_SCREEN_WORDS = 60
FIRST_OF_A_COURSE = "\n.venv/bin/nbjudge "


def test_a_learner_and_a_user_of_torch_find_their_first_command_on_the_first_screen() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for command in ("make lab", "python -m seegrad train.py"):
        before = text[: text.index(f"\n{command} ")]
        prose = re.sub(r"<!--.*?-->|^```.*?^```|\]\(\S*\)", "", before, flags=re.MULTILINE | re.DOTALL)
        assert len(prose.split()) <= FIRST_SCREEN_WORDS, command


@pytest.mark.parametrize("readme", ["README.md", "README.zh_CN.md"])
def test_an_instructor_reads_what_to_install_before_the_first_command_needs_it(readme: str) -> None:
    text = (ROOT / readme).read_text(encoding="utf-8")
    section = text[text.rindex("\n## ", 0, text.index(FIRST_OF_A_COURSE)) :]
    assert 0 < section.index("`make install`") < section.index(FIRST_OF_A_COURSE)


FIRST = "00_start_here"
WRITTEN = {
    "nbjudge/course/exporters.py": r'default_file = "(.+)"',
    "nbjudge/__main__.py": r'f"([\w-]+\{options\.name\}\.html)"',
}
FOLDERS = ("submitted", "autograded", "feedback", "exchange", ".grader", "my_work")


def test_what_commands_write_of_a_class_is_never_committed_by_accident() -> None:
    """Names, scores and texts: the files that the grader's commands name themselves, a roster, and folders."""
    grader = ROOT / "grader"
    found = {path: re.findall(says, (grader / path).read_text(encoding="utf-8")) for path, says in WRITTEN.items()}
    assert all(len(set(names)) > 1 for names in found.values()), found
    names = [name.replace("{options.name}", "05_data_versus_detach") for names in found.values() for name in names]
    written = {*names, "roster.csv", "gradebook.db", *(f"{folder}/ada/notebook.ipynb" for folder in FOLDERS)}
    ask = ["git", "check-ignore", "--no-index", *written]
    ignored = subprocess.run(ask, cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    assert set(ignored) == written


def a_clone(tmp_path: Path) -> Path:
    """Of the repository's layout, with two chapters and one assignment in each language."""
    root = tmp_path / "clone"
    for lang in LANGUAGES:
        for place in (
            f"notebooks/{lang}/{FIRST}.ipynb",
            f"notebooks/{lang}/01_x.ipynb",
            f"release/{lang}/01_x/01_x.ipynb",
        ):
            (root / place).parent.mkdir(parents=True, exist_ok=True)
            (root / place).write_text(f"first {place}")
    (root / ".gitignore").write_bytes((ROOT / ".gitignore").read_bytes())
    subprocess.run(["git", "init", "--quiet", "."], cwd=root, check=True)
    return root


def test_make_lab_opens_a_learner_s_own_copy() -> None:
    command = ["make", "-n", "lab", "LAB_ARGS=--no-browser"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    copied, opened = said.find("-m tools.my_work"), said.find("jupyter lab")
    assert 0 < copied < opened
    assert f"/lab/tree/my_work/notebooks/en/{FIRST}.ipynb' --no-browser" in said
    ignored = ["git", "check-ignore", "--no-index", f"my_work/notebooks/en/{FIRST}.ipynb", "my_work/.copied.json"]
    assert subprocess.run(ignored, cwd=ROOT, capture_output=True, check=False).returncode == 0


def test_what_a_learner_changed_stays_and_the_rest_follows_the_course(tmp_path: Path) -> None:
    """As README says of `my_work`: changed ones stay, others follow, a renamed or deleted one begins anew."""
    root = a_clone(tmp_path)
    course = sorted(
        path.relative_to(root) for part in ("notebooks", "release") for path in (root / part).rglob("*.ipynb")
    )
    changed, other, away, *_ = course
    mine = root / "my_work"
    assert copy(root) == []
    assert {path: (mine / path).read_bytes() for path in course} == {
        path: (root / path).read_bytes() for path in course
    }
    (mine / changed).write_text("mine")
    (mine / away).unlink()
    assert copy(root) == [], "nothing is newer"
    assert (mine / changed).read_text() == "mine"
    assert (mine / away).read_text() == f"first {away}"
    for path in course:
        (root / path).write_text(f"second {path}")
    assert copy(root) == copy(root) == [changed.as_posix()]
    assert (mine / changed).read_text() == "mine"
    assert (mine / other).read_text() == f"second {other}"
    (mine / changed).rename(mine / "before.ipynb")
    assert copy(root) == []
    assert (mine / changed).read_text() == f"second {changed}"
    (mine / other).write_text("mine")
    (mine / ".copied.json").write_text("[")
    assert copy(root) == []
    assert (mine / other).read_text() == "mine", "without what was noted, too"


def test_a_notebook_that_was_only_opened_follows_the_course(tmp_path: Path) -> None:
    """JupyterLab writes the kernel's Python beside the cells, and a block for widgets, without anybody's doing."""
    root = a_clone(tmp_path)
    opened, answered = sorted(path.relative_to(root) for path in (root / "notebooks").rglob("*.ipynb"))[:2]
    for path in (opened, answered):
        (root / path).write_text(json.dumps({"cells": [{"source": "1"}], "metadata": {}}))
    copy(root)
    mine = root / "my_work"
    (mine / opened).write_text(json.dumps({"cells": [{"source": "1"}], "metadata": {"widgets": {}}}, indent=1))
    (mine / answered).write_text(json.dumps({"cells": [{"source": "2"}], "metadata": {}}))
    assert copy(root) == []
    assert "widgets" in (mine / opened).read_text(), "nothing is newer"
    for path in (opened, answered):
        (root / path).write_text(json.dumps({"cells": [{"source": "3"}], "metadata": {}}))
    assert copy(root) == [answered.as_posix()]
    assert json.loads((mine / opened).read_text())["cells"] == [{"source": "3"}]


def test_a_learner_s_copy_leads_where_the_clone_does(tmp_path: Path) -> None:
    """What an assignment there leads to is the copy's own."""
    root = a_clone(tmp_path)
    copy(root)
    ask = f"from seegrad.learn.course_map import course_map as m; print(m().lang, m().links['{FIRST}'])"
    for lang in LANGUAGES:
        here = root / "my_work" / "release" / lang / "01_x"
        told = subprocess.run([sys.executable, "-c", ask], cwd=here, capture_output=True, text=True, check=True).stdout
        spoken, link = told.split()
        assert spoken == lang
        assert (here / link).resolve() == root / "my_work" / "notebooks" / lang / f"{FIRST}.ipynb"
