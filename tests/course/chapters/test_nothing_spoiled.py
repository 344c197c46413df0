"""A prediction counts only if its answer isn't on the screen: every question of every chapter, in both languages.

Judged on the notebooks as a learner opens them, by what can be read there; nothing is taken from the builder. What a
cell will say comes from the executed copies.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import nbformat
import pytest

ROOT = Path(__file__).parents[3]
NOTEBOOKS = ROOT / "notebooks"
PROMPT = {"en": re.compile(r"\*\*predict", re.IGNORECASE), "zh_CN": re.compile(r"\*\*预测")}
CHAPTERS = [path for lang in PROMPT for path in sorted((NOTEBOOKS / lang).glob("*.ipynb"))]
QUESTIONS = 210  # in each language
FOLD = re.compile(r"<details>.*?</details>", re.DOTALL)
ASKS = re.compile(r"(?:--ask |\bask=\")(\w+)")
HEADING = re.compile(r"^#+ .*", re.MULTILINE)
TO_DO = re.compile(r"\*\*(Change|改动|Now|接下来)")  # what to try, and where to go, when all is told
ASKED = re.compile(r"[?？]|\*\*(predict|预测)|if there\s+is one|如果有|万一", re.IGNORECASE)
OUTCOME = {
    "en": re.compile(r"\b(rais(es?|ed|ing)|errors?|silent(ly)?|wrong|refuse[sd]?|alarm|remed\w+|loud)\b", re.I),
    "zh_CN": re.compile("报错|错误|出错|错的|不出声|一声不吭|没问题|没有问题|拒绝|警报|办法|解药"),
}
TELLS_IN_CODE = re.compile(r"silent|loud|alarm|rais(?:es|ing)|\bfine\b|wrong|right", re.IGNORECASE)
LEADING = re.compile(r"[^\n]+(?:\n[^\n]+)*[:：]\s*\Z")  # a last paragraph that leads on to the next cell of code
FOLDED = re.compile(r"<summary>(.*?)</summary>")
CLOSED = {
    "en": "Predicted and run? Explain it to yourself, then open this.",
    "zh_CN": "预测了、运行了吗？先自己解释一遍，再展开。",
}
NUMBER = re.compile(r"(?<![\w.])(?:\d+\.\d+|\d{2,})(?![\w.])")

each_chapter = pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: f"{path.parent.name}-{path.stem}")


@dataclass
class Asked:
    """A question: where it stands, the cells that answer it, and the prose that can be read around them."""

    heading: str
    prompt: str = ""
    before: str = ""  # everything above it, and the code that answers it
    cells: list[Any] = field(default_factory=list)
    between: list[str] = field(default_factory=list)  # cells of prose that only tell its answer
    after: str = ""  # what the next question says, up to a heading

    def __str__(self) -> str:
        return " ".join((self.prompt or self.cells[0].source).split())[:90]


def questions(path: Path) -> Iterator[Asked]:
    """The questions of a notebook from top to bottom; one ends at the next, or at a heading."""
    cells, heading, above, asked = nbformat.read(path, as_version=4).cells, "", "", None
    for cell, following in zip(cells, [*cells[1:], None], strict=True):
        text = FOLD.sub("", cell.source)
        if cell.cell_type == "code":
            if ASKS.search(text) and (asked is None or asked.cells):
                if asked:
                    yield asked
                asked = Asked(heading, before=above)
            if asked:
                asked.cells.append(cell)
                asked.before += text
        else:
            asks = PROMPT[path.parent.name].search(text) or (following and is_asking(following))
            if asked and asked.cells:
                if asks or HEADING.search(text):
                    asked.after = HEADING.split(text)[0]
                    yield asked
                    asked = None
                else:
                    leads = following is not None and following.cell_type == "code"
                    asked.between.append(LEADING.sub("", text) if leads else text)
            heading = ([heading, *HEADING.findall(text)])[-1]
            asked = Asked(heading, text, above + text) if asks else asked
        above += text
    if asked:
        yield asked


def is_asking(cell: Any) -> bool:
    return cell.cell_type == "code" and bool(ASKS.search(cell.source))


def paragraphs(text: str) -> list[str]:
    return [piece.strip() for piece in re.split(r"\n\s*\n", text) if piece.strip()]


def said(text: str) -> list[str]:
    """Sentences that ask nothing; what somebody else says, in quotation marks, isn't ours."""
    sentences = re.split(r"(?<=[.!?])[*)]*\s+|(?<=[。！？])", re.sub("“[^”]*”", "", text))
    return [each for each in sentences if each and not ASKED.search(each)]


def printed(path: Path) -> dict[str, str]:
    """Cell id → what it prints, its value and its error, as the executed copy has them; of a picture nothing."""
    book = nbformat.read(NOTEBOOKS / "executed" / path.parent.name / path.name, as_version=4)
    told = {}
    for cell in (cell for cell in book.cells if cell.cell_type == "code"):
        shown = [output for output in cell.outputs if "text/html" not in output.get("data", {})]
        parts = [each.get("text") or each.get("evalue") or each.get("data", {}).get("text/plain", "") for each in shown]
        told[cell.id] = "\n".join(parts)
    return told


@each_chapter
def test_what_a_learner_opens_has_run_nothing(path: Path) -> None:
    book = nbformat.read(path, as_version=4)
    code = [cell for cell in book.cells if cell.cell_type == "code"]
    assert code
    assert not [cell.id for cell in code if cell.outputs or cell.execution_count]
    assert "widgets" not in book.metadata


@each_chapter
def test_what_explains_an_answer_is_folded(path: Path) -> None:
    """Between the cell that answers and the next question or heading nothing is open but what to try next."""
    for asked in questions(path):
        assert asked.cells, str(asked)
        assert not [text for each in asked.between for text in paragraphs(each) if not TO_DO.match(text)], str(asked)


@each_chapter
def test_no_heading_and_no_sentence_tells_an_outcome(path: Path) -> None:
    tells = OUTCOME[path.parent.name]
    for asked in questions(path):
        if "outcome" in ASKS.findall(asked.cells[0].source):
            told = [text for part in (asked.heading, asked.prompt, *asked.between, asked.after) for text in said(part)]
            assert not [text for text in told if tells.search(text)], str(asked)


@each_chapter
def test_what_leads_on_tells_no_outcome(path: Path) -> None:
    cells = nbformat.read(path, as_version=4).cells
    leading = [
        found[0]
        for cell, after in pairwise(cells)
        if cell.cell_type == "markdown" and after.cell_type == "code" and "<details>" in cell.source
        if (found := LEADING.search(FOLD.sub("", cell.source)))
    ]
    assert not [text for text in leading if OUTCOME[path.parent.name].search(text)]


@each_chapter
def test_below_an_answer_nothing_but_one_sentence_leads_on(path: Path) -> None:
    """Prose that only leads on stands open as a whole: what explains the answer needs a paragraph of its own."""
    answering = {asked.cells[0].id for asked in questions(path)}
    cells = nbformat.read(path, as_version=4).cells
    below = [cell.source for before, cell in pairwise(cells) if before.id in answering and cell.cell_type == "markdown"]
    assert not [text for text in below if LEADING.fullmatch(text) and len(said(text)) > 1]


@each_chapter
def test_a_cell_looks_the_same_whether_or_not_it_raises(path: Path) -> None:
    """No `suppress` for what raises only, and whoever catches an error speaks in both ways."""
    for cell in (cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"):
        assert "suppress" not in cell.source or path.stem.startswith("00"), cell.source
    for asked in questions(path):
        first = asked.cells[0]
        assert not catches_in_one_way_only(first.source), str(asked)
        if "outcome" in ASKS.findall(first.source):
            assert not TELLS_IN_CODE.search(first.source), str(asked)
            assert "try:" not in first.source, str(asked)


def catches_in_one_way_only(source: str) -> bool:
    """Is there a `try` that says something only where an error came?"""
    tree = ast.parse(re.sub(r"^[%!].*$", "", source, flags=re.MULTILINE))
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Try)]
    return any(not speaks([*node.body, *node.orelse]) for node in found if speaks(node.handlers))


def speaks(nodes: Sequence[ast.AST]) -> bool:
    """Does one of these print, or write a result down?"""
    text = "\n".join(map(ast.unparse, nodes))
    return any(word in text for word in ("print(", ".append(", "return "))


@each_chapter
def test_a_fold_says_predicted_only_below_its_question(path: Path) -> None:
    """And no fold follows another: each stands below the code that it is about."""
    cells = nbformat.read(path, as_version=4).cells
    answering = {asked.cells[0].id for asked in questions(path)}
    for before, cell in pairwise(cells):
        if cell.cell_type == "markdown" and (said := FOLDED.search(cell.source)):
            assert before.cell_type == "code", cell.source
            assert (before.id in answering) == (said[1] == CLOSED[path.parent.name]), cell.source


@each_chapter
def test_no_number_that_a_cell_will_show_is_told_before(path: Path) -> None:
    """What the run brings anew, and nothing above it holds, stands nowhere around its question."""
    told = printed(path)
    for asked in questions(path):
        new = {number for cell in asked.cells[:1] for number in NUMBER.findall(told[cell.id])}
        new -= set(NUMBER.findall(asked.before))
        assert not new & set(NUMBER.findall("\n".join([*asked.between, asked.after]))), str(asked)


@each_chapter
def test_where_the_learner_repairs_our_repair_is_closed(path: Path) -> None:
    english = nbformat.read(NOTEBOOKS / "en" / path.name, as_version=4).cells
    repairs = {after.id for cell, after in pairwise(english) if "**Repair**" in cell.source}
    assert len(repairs) == {"08_clinic": 7, "10_a_model_that_trains": 3}.get(path.stem, 0)
    closed = [cell.id for cell in nbformat.read(path, as_version=4).cells if cell.metadata.get("jupyter")]
    assert set(closed) == repairs


def test_every_question_is_asked_in_both_languages() -> None:
    english, chinese = (
        {path.stem: len(list(questions(path))) for path in CHAPTERS if path.parent.name == lang} for lang in PROMPT
    )
    assert english == chinese
    assert sum(english.values()) >= QUESTIONS


def test_without_the_folds_most_answers_would_stand_there(tmp_path: Path) -> None:
    """The same search, on chapters whose folds are open."""
    (tmp_path / "en").mkdir()
    found = 0
    for path in (path for path in CHAPTERS if path.parent.name == "en"):
        opened = tmp_path / "en" / path.name
        opened.write_text(path.read_text(encoding="utf-8").replace("<details>", "<div>"), encoding="utf-8")
        found += sum(bool(asked.between or asked.after.strip()) for asked in questions(opened))
    assert found > QUESTIONS / 2
