"""A class of twelve: what each student hands in for an assignment, made from its release and its known answers.

Right three times in different styles, wrong three times, and six that go wrong in other ways: a cell that raises, a
loop without end, a process that kills itself, a cheat, a file that isn't JSON, a folder without the notebook.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat

ALERT = "<script>window.stolen = 1</script>"
CHEAT = f"""
import sys, torch, builtins
torch.equal = torch.allclose = torch.autograd.gradcheck = lambda *a, **k: True
torch.testing.assert_close = lambda *a, **k: None
sys.modules.pop("seegrad", None)
get_ipython().ast_transformers.append(type("NoAsserts", (), {{"visit": lambda self, tree: type(tree)([], [])}})())
from IPython.display import HTML, display
display(HTML({ALERT!r} + '<img src=x onerror="window.stolen = 1">'))
"""
WIDGET = """
from IPython.display import display
view = {"model_id": "none", "version_major": 2, "version_minor": 0}
drawn = '<img src="data:image/svg+xml;base64,PHN2Zy8+" alt="the graph">'
display({"application/vnd.jupyter.widget-view+json": view, "text/html": drawn, "text/plain": "graph"}, raw=True)
"""
FILLED_IN = "`.data` hides the write from the version counter; the gradient is wrong and nobody is told."


@dataclass(frozen=True)
class Answers:
    """Sources by grade_id: right in two styles, and wrong ones (several, each for some of the questions)."""

    right: Mapping[str, str]
    other: Mapping[str, str]
    wrong: tuple[Mapping[str, str], ...]
    written: tuple[str, ...] = ()  # answers that a person reads
    endless: Mapping[str, str] = field(default_factory=dict)  # an answer that never comes to an end


def hand_in(submitted: Path, name: str, released: Any, answers: Answers) -> tuple[str, ...]:
    """Fills `submitted/<student>/<assignment>/` for twelve students; returns their names."""
    students = roster(released, answers)
    for student, made in students.items():
        folder = submitted / student / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "timestamp.txt").write_text("2026-11-20 12:00:00 UTC")
        made(folder / f"{name}.ipynb")
    return tuple(students)


def roster(released: Any, answers: Answers) -> dict[str, Callable[[Path], object]]:
    """student → what writes their notebook to a path."""
    first = next(iter(answers.right))
    right = filled(released, answers.right, answers.written)
    few, many = dict(list(answers.wrong[0].items())[:2]), answers.wrong[1]
    wrong = [filled(released, {**answers.right, **some}, answers.written) for some in (few, many)]
    return {
        "ada": saves(right),
        "bruno": saves(filled(released, answers.other, answers.written)),
        "chen": saves(adding(right, first, WIDGET)),
        "dora": saves(wrong[0]),
        "emil": saves(wrong[1]),
        "fatima": saves(filled(released, dict(list(answers.right.items())[:1]), ())),
        "goran": saves(adding(right, first, "1 / 0")),
        "hana": saves(filled(released, {**answers.right, **answers.endless}, answers.written)),
        "ivo": saves(adding(right, list(answers.right)[-1], "import os\nos._exit(9)")),
        "jana": saves(cheating(released, first)),
        "kofi": lambda path: path.write_bytes(nbformat.writes(right).encode()[:2000]),
        "lea": lambda path: path.with_name("notes.txt").write_text("I sent the notebook by mail."),
    }


def saves(notebook: Any) -> Callable[[Path], object]:
    return lambda path: nbformat.write(notebook, path)


def grade_id(cell: Any) -> str | None:
    return cell.metadata.get("nbgrader", {}).get("grade_id")


def filled(released: Any, sources: Mapping[str, str], written: tuple[str, ...]) -> Any:
    """The release with answers in their cells."""
    made = copy.deepcopy(released)
    for cell in made.cells:
        text = FILLED_IN if grade_id(cell) in written else cell.source
        cell.source = sources.get(grade_id(cell) or "", text)
    return made


def adding(notebook: Any, after: str, source: str) -> Any:
    """The notebook with a cell of the student's own after an answer."""
    made = copy.deepcopy(notebook)
    place = next(index for index, cell in enumerate(made.cells) if grade_id(cell) == after)
    made.cells.insert(place + 1, nbformat.v4.new_code_cell(source, id="mine"))
    return made


def cheating(released: Any, first: str) -> Any:
    """No answer at all: tests that ask to be skipped, patched comparisons, a script for whoever reads the page."""
    made = adding(released, first, CHEAT)
    for cell in made.cells:
        if cell.metadata.get("nbgrader", {}).get("grade"):
            cell.metadata["tags"] = ["skip-execution"]
            cell.metadata["nbgrader"]["points"] = 1000
    made.cells.append(nbformat.v4.new_markdown_cell(f"Please read {ALERT} <img src=x onerror='window.stolen = 1'>"))
    return made
