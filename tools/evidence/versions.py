"""Run the library's tests on other versions of torch: `python -m tools.evidence.versions [2.9 2.15] [--write]`.

Each version has an environment of its own in build/torch-VERSION, removed afterwards. PyPI has only CUDA builds of the
older versions: two to four gigabytes each. `--write` puts the counts into docs/versions.md.
"""

from __future__ import annotations

import argparse
import ast
import datetime
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from seegrad.capture.probes.torch_private import TRIED
from tools.words.marks import markdown_table, write_between

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
PAGE = ROOT / "docs" / "versions.md"

NOT_THE_LIBRARY = frozenset(
    {"nbjudge", "nbjudge_tests", "grader", "nbgrader", "nbformat", "jupytext", "playwright", "tools", "benchmarks"}
)
"""What a test of the library doesn't import: the rest is about the grader, the course, its tools or a browser."""
LIBRARY = "library"
"""The folder whose tests are all about the library: those too that import no seegrad but run it as a command."""
COURSE = ("tests/course/chapters/test_nbval.py", "tests/course/chapters/test_seed_coverage.py")
"""The chapters, strictly but for cells tagged version-dependent, and what each torch makes of the old documents."""
EACH_FILE_APART = ("-p", "no:cacheprovider", "-n", "auto", "--dist", "loadfile")
SHOWN = 20
"""Failed tests that are named on the screen; the log and the page name all."""

SESSION = "nbjudge_tests.session"
"""What every test session shares, of which nothing is the grader's."""


@dataclass(frozen=True, slots=True)
class VersionOutcome:
    """How the library's tests ended on one version."""

    torch: str
    """The version as torch tells it, with its build: `2.9.1+cu128`."""
    closing: str
    """pytest's last line, without its rules."""
    failed: tuple[str, ...]
    """pytest's FAILED and ERROR lines."""


def library_tests(folder: Path = ROOT / "tests") -> Iterator[Path]:
    """The files that test the library: they import it, or the programs recorded, and nothing of another part."""
    for path in sorted(folder.rglob("test_*.py")):
        found = imported(path)
        ours = "seegrad" in found or LIBRARY in path.relative_to(folder).parts
        if ours and not found & NOT_THE_LIBRARY:
            yield path


def imported(path: Path) -> set[str]:
    """Top-level packages that a file imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.module != SESSION and not node.level:
            names.add(node.module.split(".")[0])
            names.update({"playwright"} if node.module.startswith("tests.browser") else ())
    return names


def environment(version: str) -> Path:
    """An environment with that torch and the project, made where it isn't kept from before; its Python."""
    folder = BUILD / f"torch-{version}"
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    pins = folder / "constraints.txt"
    pins.write_text(without_torch((ROOT / "constraints.txt").read_text(encoding="utf-8")), encoding="utf-8")
    pip = [str(python), "-m", "pip", "install", "--quiet", "--no-cache-dir", "--disable-pip-version-check"]
    wanted = ["-c", str(pins), f"torch=={version}.*", "-e", f"{ROOT}[lab,test]"]
    subprocess.run([*pip, *wanted], check=True)  # noqa: S603  # pip, with the version that the user named
    return python


def without_torch(constraints: str) -> str:
    """The same pins, with torch's own version left open.

    >>> without_torch("numpy==2.4.6\\ntorch==2.13.0\\ntornado==6.6.1\\n")
    'numpy==2.4.6\\ntornado==6.6.1\\n'
    """
    return re.sub(r"(?m)^torch==.*\n", "", constraints)


def run_tests(python: Path, log: Path) -> VersionOutcome:
    """Run the library's tests and the course's notebooks with that Python; pytest's output goes to `log`."""
    tests = [*(str(path.relative_to(ROOT)) for path in library_tests()), *COURSE]
    with log.open("w", encoding="utf-8") as output:
        command = [str(python), "-m", "pytest", "-q", *EACH_FILE_APART, "--tb=short", *tests, "seegrad"]
        # A failing test is a finding, and the log says it: no check.
        subprocess.run(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)  # noqa: S603  # pytest on our tests
    asked = [str(python), "-c", "import torch; print(torch.__version__)"]
    told = subprocess.run(asked, capture_output=True, text=True, check=True)  # noqa: S603  # one line of our own
    return outcome(told.stdout.strip(), log.read_text(encoding="utf-8"))


def outcome(torch: str, text: str) -> VersionOutcome:
    """What pytest's output says.

    >>> outcome("2.9.1", "..F\\nFAILED tests/test_x.py::test_y - assert 0\\n1 failed, 2 passed in 0.12s\\n")
    VersionOutcome(torch='2.9.1', closing='1 failed, 2 passed', failed=('tests/test_x.py::test_y',))
    """
    lines = text.strip().splitlines() or ["pytest printed nothing"]
    closing = re.sub(r"^=+ | =+$| in [\d.]+s.*$", "", lines[-1])
    failed = (re.match(r"(?:FAILED|ERROR) (\S+)", line) for line in lines)
    return VersionOutcome(torch, closing, tuple(match[1] for match in failed if match))


def table(outcomes: Iterable[VersionOutcome], python: str, today: datetime.date) -> str:
    """The counts as Markdown."""
    rows = [(each.torch, each.closing, ", ".join(each.failed) or "–") for each in outcomes]
    head = ("torch", "pytest's closing line", "failed")
    return f"Python {python}, {sys.platform}, CPU, {today:%Y-%m-%d}:\n\n{markdown_table(head, rows)}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 1 where a version failed a test."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.evidence.versions", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument(
        "versions", nargs="*", default=TRIED, metavar="VERSION", help="the newest patch of 2.9 …; those tried before"
    )
    parser.add_argument("--write", action="store_true", help=f"put the counts into {PAGE.relative_to(ROOT)}")
    parser.add_argument(
        "--keep", action="store_true", help="leave the environments in build/, and use them the next time"
    )
    options = parser.parse_args(arguments)
    outcomes = [one(version, keep=options.keep) for version in options.versions]
    if options.write:
        text = table(outcomes, ".".join(map(str, sys.version_info[:3])), datetime.datetime.now(datetime.UTC).date())
        write_between(PAGE, text, "counts")
    return int(any(each.failed or "passed" not in each.closing for each in outcomes))


def one(version: str, *, keep: bool) -> VersionOutcome:
    """One version, from its environment to its closing line."""
    print(f"torch {version}: installing", flush=True)
    python = environment(version)
    log = BUILD / f"torch-{version}.log"
    print(f"torch {version}: running the library's tests, see {log.relative_to(ROOT)}", flush=True)
    try:
        found = run_tests(python, log)
    finally:
        if not keep:
            shutil.rmtree(BUILD / f"torch-{version}")
    more = [f"… and {len(found.failed) - SHOWN} more"] if len(found.failed) > SHOWN else []
    print(f"torch {found.torch}: {found.closing}", *found.failed[:SHOWN], *more, sep="\n  ", flush=True)
    return found


if __name__ == "__main__":
    raise SystemExit(main())
