"""README and docs, followed word by word: every block of commands, in order, in a fresh clone and an empty home.

By an ordinary user, where root runs the tests. A block is commands (no language), a program (`python`; a `text`
block below it is what it prints) or only shown. What can't be run here says so in a remark above it:

    <!-- not run: needs a GPU -->      <!-- run by tests/… -->      <!-- run by CI: make lab, make test -->

Offline: `make lab` is its first half, `make install`, for which pip sees the packages that are installed here.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from textwrap import dedent

import pytest

from tests.house.test_pip_only import OWN
from tests.house.test_readme import ROOT
from tools.pictures.consoles import PAGES

READMES = ("README.md", "README.zh_CN.md")
ENGLISH = [
    *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md") if path not in PAGES),
    "grader/README.md",  # the last: its course has a nbgrader_config.py of its own
]
"""Pages in the order in which they are followed. The commands of PAGES are run by tests/tools/test_inplace_page.py."""
BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>not run|run by|file)(?:: | )(?P<said>.*?) -->\n\n?)?"
    r"^(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^ *```$",
    re.MULTILINE | re.DOTALL,
)
RUN = {"", "python", "py"}
SHOWN = {"text", "markdown", "toml", "console", "po", "diff"}
WORDS = {
    r"(<this repository>|https://github\.com/\w[\w.-]*/[\w.-]+)": "$REPOSITORY",
    "NAME": "05_data_versus_detach",
    "STUDENT": "ada",
    "OWNER": "somebody",
    "TESTS ANSWER …": "three.py square.py",
}
"""What a reader puts in the place of these."""
OF_THEIR_OWN = {
    "three.py": "# %% three (2 points)\nassert square(3) == 9\n",
    "square.py": "def square(x): return x * x\n",
}
PREPARED = """
$PYTHON -m venv .venv
rm -r .venv/lib/python*/site-packages
mv ~/lent/site-packages .venv/lib/python*/
mv ~/lent/bin/* .venv/bin/
mv ~/lent/share .venv/
make --silent install
"""
LEFT_OUT = shutil.ignore_patterns(*(f"{name}*" for name in OWN))


@dataclass(frozen=True)
class Block:
    place: str  # README.md:37
    language: str
    mark: str | None
    said: str
    text: str

    @property
    def left_out(self) -> list[str]:
        """Commands that are run elsewhere; `[""]` where all are."""
        if self.mark in (None, "file"):
            return []
        return self.said.partition(": ")[2].split(", ") if self.mark == "run by" else [""]


def blocks(document: str) -> list[Block]:
    text = (ROOT / document).read_text(encoding="utf-8")
    return [
        Block(f"{document}:{text.count(chr(10), 0, found.start('text'))}", found["language"], found["mark"],
              found["said"] or "", dedent(found["text"]))
        for found in BLOCK.finditer(text)
    ]  # fmt: skip


def lend(folder: Path) -> None:
    """The packages that are installed here and their commands, all but our own: files of two names, not copies."""
    kept = Path(sys.prefix)
    shutil.copytree(sysconfig.get_path("purelib"), folder / "site-packages", copy_function=linked, ignore=LEFT_OUT)
    shutil.copytree(kept / "share", folder / "share")
    for path in kept.glob("bin/*"):
        text = path.read_bytes()
        if text.startswith(b"#!") and path.name != "nbjudge":
            script = written(folder / "bin" / path.name, "")
            script.write_bytes(text.replace(bytes(kept), bytes(folder.parent / "seegrad" / ".venv"), 1))
            script.chmod(0o755)


def linked(old: str, new: str) -> None:
    try:
        os.link(old, new)
    except OSError:  # on another disk
        shutil.copy2(old, new)


def script(document: str, folder: Path) -> str:
    """What bash runs: each block behind a line that names it."""
    lines = ["set -euo pipefail", f"if test -d {folder}/seegrad; then cd {folder}/seegrad; cp {folder}/own/* .; fi"]
    every = enumerate(blocks(document))
    if document in READMES:  # they show a program before they say what to install
        every = enumerate(sorted(blocks(document), key=lambda block: block.language))
    for number, block in every:
        if block.mark == "file":
            lines.append(f"cp {written(folder / 'files' / block.said, block.text)} .")
        elif block.language in RUN and "" not in block.left_out:
            lines.append(f"printf '%s\\n' '== {block.place}'")
            program = written(folder / "programs" / f"{Path(document).stem}_{number}.py", block.text)
            lines += [f"python {program}"] if block.language else typed(block)
    return "\n".join(lines) + "\n"


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def typed(block: Block) -> Iterator[str]:
    for line in block.text.splitlines():
        words = line
        for said, meant in WORDS.items():
            words = re.sub(rf"{said}(?![\w.])", meant, words)
        if not any(words.startswith(command) for command in block.left_out):
            yield words
        elif words.startswith("make lab"):
            yield PREPARED


def follow(document: str, home: Path, place: Path) -> dict[str, str]:
    """Run a page's blocks as an ordinary user; what each said."""
    commands = written(home / "scripts" / f"{Path(document).stem}.sh", script(document, home))
    environment = {
        "HOME": str(home), "PATH": f"{home}/seegrad/.venv/bin:/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8",
        "PYTHON": sys.executable, "REPOSITORY": str(home / "repository"),
        "PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }  # fmt: skip
    command = ["bash", str(commands)]
    if os.getuid() == 0:
        for path in (home, *home.rglob("*")):
            if path.lstat().st_nlink == 1 or path.is_dir():  # not what is lent
                os.chown(path, 65534, 65534, follow_symlinks=False)
        user = [sys.executable, "-B", str(ROOT / "grader/tests/nbjudge_tests/other_user.py"), "become", "command"]
        command = [*user, str(place), *command]
    done = subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-6000:]}"
    parts = re.split(r"^== (.*)\n", done.stdout, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def a_home() -> Path:
    """An empty one, and beside it the address that it clones from: what is committed."""
    home = Path(tempfile.mkdtemp(prefix="home-"))  # pytest's own folders are closed to others
    subprocess.run(["git", "clone", "--quiet", "--bare", ROOT, home / "repository"], check=True)
    lend(home / "lent")
    for name, text in OF_THEIR_OWN.items():
        written(home / "own" / name, text)
    return home


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[Path, dict[str, str]]]]:
    """By README: the home that it was followed in, and what its blocks said."""
    made = {name: a_home() for name in READMES}
    try:
        yield {name: (home, follow(name, home, tmp_path_factory.mktemp("seen"))) for name, home in made.items()}
    finally:
        for home in made.values():
            shutil.rmtree(home)


@pytest.mark.parametrize("document", [*READMES, *ENGLISH])
def test_every_block_is_run_shown_or_says_why_not(document: str) -> None:
    for block in blocks(document):
        assert block.language in RUN or block.language in SHOWN, block.place
        for path in re.findall(r"[\w/]+\.py", block.said) if block.mark != "file" else ():
            assert (ROOT / path).exists(), f"{block.place}: {path}"


def test_both_readmes_say_the_same_blocks() -> None:
    english, chinese = ([(b.language, b.mark, b.said) for b in blocks(name)] for name in READMES)
    assert english == chinese
    assert len(english) == 6


@pytest.mark.whole
@pytest.mark.parametrize("readme", READMES)
def test_the_readme_is_true_and_ends_with_a_feedback_page(readme: str, homes) -> None:
    home, said = homes[readme]
    ran = [block.place for block in blocks(readme) if block.language in RUN and "" not in block.left_out]
    assert set(said) == set(ran)
    assert said[ran[-1]].splitlines()[-1] == "feedback/ada/05_data_versus_detach/05_data_versus_detach.html"
    assert (home / "seegrad/feedback/ada/05_data_versus_detach/05_data_versus_detach.html").stat().st_size > 10_000
    assert (home / "seegrad/grades.csv").exists()


@pytest.mark.whole
@pytest.mark.parametrize("document", ENGLISH)
def test_a_page_s_commands_run_and_print_what_it_shows(document: str, homes, tmp_path: Path) -> None:
    home, _ = homes["README.md"]
    said = follow(document, home, tmp_path)
    every = blocks(document)
    for block, after in pairwise(every):
        if block.language == "python" and after.language == "text" and block.place in said:
            assert said[block.place] == after.text
