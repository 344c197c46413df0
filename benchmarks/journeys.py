"""How many files two journeys lead through: a call of torch to its picture, a submission to its row in the gradebook.

    python -m benchmarks.journeys [--only library|grader] [--files]
    python benchmarks/journeys.py --root ../another_checkout      # with that checkout's own Python

Counted are calls of functions of ours, as `sys.setprofile` sees them; a hop is a call in another file than the call
before it in the same thread. Of the student's process and the judge it is told how many files they have loaded.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import inspect
import io
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

HEAD = ("", "files", "functions", "calls", "hops")
MARK = "loaded: "
COUNT = f'f\'{MARK}{{sum(name.split(".")[0] in ("nbjudge", "grader") for name in sys.modules)}}\''
STUDENT = f"import sys\nprint({COUNT})\ndef area(a, b): pass"
JUDGE = f"import sys\nassert area(1, 1) is not None, {COUNT}\n"
"""What cells hold to say how many files their process has loaded: an answer, and the begin of its test."""


@dataclass
class Leg:
    """A part of a journey; a context manager, which notes the calls made meanwhile, in threads begun meanwhile too."""

    name: str
    ours: tuple[str, ...]
    """Folders whose files count."""
    steps: list[tuple[int, CodeType]] = field(default_factory=list)

    def __enter__(self) -> None:
        threading.setprofile(self._see)
        sys.setprofile(self._see)

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def _see(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_flags & inspect.CO_OPTIMIZED and code.co_filename.startswith(self.ours):
            self.steps.append((threading.get_ident(), code))  # a function: the body of a module or class isn't one

    @property
    def files(self) -> set[str]:
        """Where the functions stand that were called."""
        return {code.co_filename for _, code in self.steps}

    @property
    def hops(self) -> int:
        """Calls in another file than the call before."""
        threads: dict[int, list[str]] = defaultdict(list)
        for thread, code in self.steps:
            threads[thread].append(code.co_filename)
        return sum(here != there for files in threads.values() for here, there in pairwise(files))

    def parted(self, first: str, last: str, names: tuple[str, str, str]) -> list[Leg]:
        """What comes before the first call in a file, up to the last one in another, and what comes after."""
        files = [code.co_filename for _, code in self.steps]
        begin = next(at for at, file in enumerate(files) if file.endswith(first))
        end = 1 + max(at for at, file in enumerate(files) if file.endswith(last))
        parts = self.steps[:begin], self.steps[begin:end], self.steps[end:]
        return [Leg(name, self.ours, part) for name, part in zip(names, parts, strict=True)]

    def row(self) -> tuple[str, ...]:
        """What the table says of it."""
        counts = len(self.files), len({code for _, code in self.steps}), len(self.steps), self.hops
        return (self.name, *(f"{count:,}" for count in counts))


def library(root: Path) -> list[Leg]:
    """From `a.sigmoid()` in a block to what a notebook shows."""
    import torch

    import seegrad

    ours = (f"{root / 'seegrad'}{os.sep}",)
    op, again, backward, leaving, asking, show, notebook = (
        Leg(name, ours)
        for name in ("a.sigmoid()", "out.sigmoid()", "sum, backward", "leaving the block",
                     "rec.recording, rec.diagnoses", "seegrad.show(rec)", "its mimebundle")
    )  # fmt: skip
    a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    with seegrad.record() as rec:
        with op:
            out = a.sigmoid()
        with again:
            twice = out.sigmoid()
        with backward:
            twice.sum().backward()  # type: ignore[no-untyped-call]  # torch gives it no types
        leaving.__enter__()
    leaving.__exit__()
    with asking:
        assert rec.recording.nodes
        assert not rec.diagnoses
    with show:
        picture = seegrad.show(rec)
    with notebook:
        picture._repr_mimebundle_()  # type: ignore[union-attr]  # nothing was asked, so it is a Picture
    return [op, again, backward, leaving, asking, show, notebook]


def grader(root: Path) -> tuple[list[Leg], Mapping[str, int]]:
    """From a submission's folder to its row in the gradebook, in the owner's process; and what the others have loaded.

    Another student is graded first, so that no import is counted.
    """
    main, small, ours = parts(root)
    leg = Leg("autograde", ours)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), silence():
        course = small.make(Path(folder) / "course")
        begin_cell(course / "source" / small.NAME / "coding.ipynb", "area_test", JUDGE)
        os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        os.chdir(course)
        command = [sys.executable, "-m", "nbgrader", "generate_assignment", small.NAME, "--log-level=ERROR"]
        subprocess.run(command, check=True)  # noqa: S603  # nbgrader on a course of our own
        telling = {**small.RIGHT, "area": STUDENT}
        for student, answers, around in (("tells", telling, contextlib.nullcontext()), ("right", small.RIGHT, leg)):
            small.hand_in(course, student, answers)
            with around:
                main(["autograde", small.NAME, "--student", student, "--workers", "1", "--without-reference"])
        graded = json.loads((course / "autograded" / "tells" / small.NAME / "coding.ipynb").read_text("utf-8"))
        names = "the command begins", "from the submission's files to its rows", "what the command says at its end"
        return leg.parted("intake.py", "gradebook.py", names), dict(told(graded))


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """What the grader prints isn't the matter."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


def parts(root: Path) -> tuple[Any, ModuleType, tuple[str, ...]]:
    """The grader's command, the small course, and the folder that counts; by the names that a checkout has for them."""
    if (root / "grader" / "nbjudge").is_dir():
        names, folder = ("nbjudge.__main__", "nbjudge_tests.classroom.small"), root / "grader" / "nbjudge"
    else:  # before the grader was a project of its own
        names, folder = ("grader.__main__", "tests.classroom.small"), root / "grader"
    command, small = map(importlib.import_module, names)
    return command.main, small, (f"{folder}{os.sep}",)


def begin_cell(path: Path, grade_id: str, source: str) -> None:
    """Put lines at the begin of a notebook's cell."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        if cell["metadata"].get("nbgrader", {}).get("grade_id") == grade_id:
            cell["source"] = source + "".join(cell["source"])
    path.write_text(json.dumps(notebook), encoding="utf-8")


def told(notebook: Any) -> Iterator[tuple[str, int]]:
    """(process, files) as the graded notebook's cells have said them."""
    for cell in notebook["cells"]:
        name = cell["metadata"].get("nbgrader", {}).get("grade_id", "")
        for output in cell.get("outputs", ()):
            text = "".join(output.get("text", "")) or output.get("evalue", "")
            if MARK in text:
                yield ("the judge" if name.endswith("_test") else "the student's process"), int(text.split()[-1])


def whole(legs: Sequence[Leg]) -> Leg:
    """All of a journey."""
    return Leg("together", legs[0].ours, [step for leg in legs for step in leg.steps])


def printed(title: str, legs: Sequence[Leg], *, files: bool) -> None:
    """A journey as a table."""
    rows = [HEAD, *(leg.row() for leg in legs), *([whole(legs).row()] if len(legs) > 1 else [])]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    known = [path for folder in legs[0].ours for path in Path(folder).rglob("*.py")]
    print(f"\n{title}: {len(whole(legs).files)} of {len(known)} files")
    for name, *counts in rows:
        print(" ", name.ljust(widths[0]), *(text.rjust(width) for text, width in zip(counts, widths[1:], strict=True)))
    for leg in legs if files else ():
        print(f"  {leg.name}:", *sorted(file.removeprefix(leg.ours[0]) for file in leg.files))


def main(arguments: Sequence[str] | None = None) -> int:
    """Go both ways, print a table of each."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.journeys", description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--root", type=Path, default=Path(__file__).resolve().parents[1], help="the checkout to measure"
    )
    parser.add_argument("--only", choices=["library", "grader"], help="one of the two")
    parser.add_argument("--files", action="store_true", help="name the files too")
    options = parser.parse_args(arguments)
    root = options.root.resolve()
    if options.only != "grader":
        printed("a call of torch to its picture", library(root), files=options.files)
    if options.only != "library":
        legs, loaded = grader(root)
        printed("a submission to its row in the gradebook, the owner's process", legs, files=options.files)
        for process, count in loaded.items():
            print(f"  {process} has loaded {count} files")
    return 0


if __name__ == "__main__":
    sys.exit(main())
