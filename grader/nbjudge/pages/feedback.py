"""What a student's page says, as plain data: points, reasons, what to read again; nothing that is held back.

Text of the student's isn't here: the page's template gets it from the notebook, where it is cleaned.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from nbconvert.preprocessors import Preprocessor
from nbformat.v4 import new_output
from nbgrader.preprocessors import ClearHiddenTests
from traitlets import Bool, List

from nbjudge.course.office.standings import Score, Standing
from nbjudge.model import Ending, Graded, Outcome, Result
from nbjudge.pages.exported import HIDE
from nbjudge.shown.hidden import hidden_before

HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*(?:[(（][^()（）]*\d[^()（）]*[)）])?\s*$", re.MULTILINE)
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
SUGGESTS = re.compile(r"^\s*(?:Suggests|提示|可能)?\s*(M\d\d)\s+(\S.*)$")
LOST = Ending.GRADER_FAILURE
WORDS: Mapping[str, Mapping[str, str]] = {
    "en": {
        "feedback": "Feedback",
        "of": "{points} of {possible}",
        "one point": "{number} point",
        "many points": "{number} points",
        "waits": "Not graded yet, since a person reads it: {names} ({points}).",
        "lost": "Not graded yet, since the grader itself couldn't judge it: {names} ({points}). A person will look.",
        "no cell": "Answer cell {name} is missing from what you handed in.",
        "late": "Taken off for lateness: {points}. Before that it was {before}.",
        "held": "What hidden tests asked is shown after {date} UTC.",
        "undated": "Inputs of hidden tests are shown as code once the due date has passed; this assignment has none.",
        "hidden": "A hidden test failed. What it asked is shown after {date} UTC.",
        "later": "Hidden tests had run before this; what it said is shown after {date} UTC.",
        "ungraded": "not graded yet",
        "no grade": "not graded",
        "refused": "This submission could not be graded: {why}",
        "overview": "Overview",
        "exercise": "Exercise",
        "question": "Question",
        "points": "Points",
        "how": "How it ended",
        "beliefs": "Worth reading again",
        "read": "Read again: {name}",
        "answers": "Your answers",
        "other": "Other cells",
        "comment": "Comment",
        "output": "Output",
        "reproduce": "Run this yourself",
        "passed": "passed",
        "failed": "failed",
        "partly": "partly right",
        "not answered": "not answered",
        "crashed": "ended the program",
        "not reached": "not reached",
        "timed out": "took too long",
        "refused_question": "refused",
        "scored": "scored by a person",
        "died": "The program ended early: {why}",
        "ended": "The program ended early.",
    },
    "zh_CN": {
        "feedback": "反馈",
        "of": "{points} / {possible}",
        "one point": "{number} 分",
        "many points": "{number} 分",
        "waits": "尚未评分，需要人工批阅：{names}（{points}）。",
        "lost": "尚未评分，因为评分程序自身未能判断：{names}（{points}）。会有人工查看。",
        "no cell": "你提交的作业中缺少答题单元格 {name}。",
        "late": "因迟交扣 {points}，扣分前为 {before}。",
        "held": "隐藏测试的内容在 {date} UTC 之后显示。",
        "undated": "隐藏测试的输入要到截止日期之后才会以代码显示；这份作业没有截止日期。",
        "hidden": "有一个隐藏测试没有通过，其内容在 {date} UTC 之后显示。",
        "later": "在此之前已运行过隐藏测试；这里的内容在 {date} UTC 之后显示。",
        "ungraded": "尚未评分",
        "no grade": "未评分",
        "refused": "这份作业无法评分：{why}",
        "overview": "概览",
        "exercise": "练习",
        "question": "题目",
        "points": "得分",
        "how": "结果",
        "beliefs": "值得再读",
        "read": "再读：{name}",
        "answers": "你的答案",
        "other": "其他单元格",
        "comment": "评语",
        "output": "输出",
        "reproduce": "自己运行",
        "passed": "通过",
        "failed": "未通过",
        "partly": "部分正确",
        "not answered": "未作答",
        "crashed": "程序中止",
        "not reached": "未运行到",
        "timed out": "超时",
        "refused_question": "无法评分",
        "scored": "人工评分",
        "died": "程序提前结束：{why}",
        "ended": "程序提前结束了。",
    },
}


@dataclass(frozen=True, slots=True)
class Sheet:
    """What one student may know of one notebook. `held_until`, UTC: until then nothing is told of hidden tests.

    `late`: questions that were asked after hidden ones, so that an answer could say what those had asked.

    `over`: the date by which everybody had to hand in is behind us. Before, or without a date, no hidden case is shown
    as code.
    """

    notebook: str
    standing: Standing
    result: Result | None
    exercises: tuple[tuple[str, tuple[str, ...]], ...] = ()  # heading of the course's, its questions
    who: str = ""
    language: str = "en"
    held_until: datetime | None = None
    over: bool = False
    late: frozenset[str] = frozenset()
    links: Mapping[str, str] = field(default_factory=dict)  # a misconception or a question → where to read

    @property
    def words(self) -> Mapping[str, str]:
        """The page's own words."""
        return WORDS[self.language]

    @property
    def graded(self) -> Graded | None:
        """What the judge said of this notebook, where it is kept."""
        return next((one for one in self.result.notebooks if one.name == self.notebook), None) if self.result else None

    @property
    def refused(self) -> bool:
        """Nothing could be read: one sentence says it for all questions but those that a person has scored."""
        return self.result is not None and self.result.refusal is not None

    def told(self) -> dict[str, Any]:
        """For the template."""
        every = [score for score in self.standing.scores if score.notebook == self.notebook]
        scores = [score for score in every if score.points is not None or not self.refused]
        outcomes = {one.grade_id: one for one in self.graded.outcomes} if self.graded else {}
        questions = {score.grade_id: self._question(score, outcomes.get(score.grade_id)) for score in scores}
        waiting = [score for score in scores if score.points is None]
        return {
            "lang": tag_of(self.language),
            "say": dict(self.words),
            "assignment": self.standing.assignment,
            "notebook": self.notebook,
            "who": self.who,
            "points": self._total(every),
            "notes": list(self._notes(every, waiting, {name for name, one in outcomes.items() if one.kind is LOST})),
            "exercises": [
                {"name": name, "questions": [one for one in asked if one in questions]}
                for name, asked in self._sections(scores)
            ],
            "questions": questions,
            "sections": {one: number for number, (_, asked) in enumerate(self._sections(scores)) for one in asked},
            "beliefs": self._beliefs(questions),
            "later": self._until("later") if self.held_until else "",
        }

    def _sections(self, scores: Sequence[Score]) -> list[tuple[str, tuple[str, ...]]]:
        """The exercises, and what the course's source doesn't have (any more)."""
        known = {one for _, asked in self.exercises for one in asked}
        other = tuple(score.grade_id for score in scores if score.grade_id not in known)
        return [*self.exercises, *([(self.words["other"], other)] if other else [])]

    def _total(self, every: Sequence[Score]) -> str:
        """Where no question has a score there is no sum: it would be a zero that nobody gave."""
        if all(score.points is None for score in every):
            return self.words["no grade" if self.refused else "ungraded"]
        return self._sum(every, self._penalty)

    @property
    def _penalty(self) -> float:
        """What lateness takes off of this notebook."""
        return self.standing.penalties.get(self.notebook, 0.0)

    def _sum(self, every: Sequence[Score], taken_off: float = 0.0) -> str:
        points = max(0.0, sum(score.points or 0.0 for score in every) - taken_off)
        return self._of(points, sum(score.max_points for score in every))

    def _of(self, points: float, possible: float) -> str:
        return self.words["of"].format(points=f"{points:g}", possible=self._counted(possible))

    def _counted(self, points: float) -> str:
        return self.words["one point" if points == 1 else "many points"].format(number=f"{points:g}")

    def _notes(self, every: Sequence[Score], waiting: Sequence[Score], lost: Collection[str]) -> Iterator[str]:
        if self.result is not None and self.refused:
            yield self.words["refused"].format(why=self.result.refusal)
        for why, some in (
            ("waits", [score for score in waiting if score.grade_id not in lost]),
            ("lost", [score for score in waiting if score.grade_id in lost]),
        ):
            if some:
                points = self._counted(sum(score.max_points for score in some))
                yield self.words[why].format(names=", ".join(score.grade_id for score in some), points=points)
        for name in self.graded.lost if self.graded else ():
            yield self.words["no cell"].format(name=name)
        if self._penalty:
            yield self.words["late"].format(points=self._counted(self._penalty), before=self._sum(every))
        if self.graded is not None and self.graded.died:
            said = "died" if self.held_until is None else "ended"  # where it ended, a hidden test may have asked
            yield self.words[said].format(why=self.graded.died)
        if self.held_until is not None and not self.refused:
            yield self._until("held")
        if self._undated and self.graded and any(one.hidden and one.reproduce for one in self.graded.outcomes):
            yield self.words["undated"]

    @property
    def _undated(self) -> bool:
        """No date will come: without this sentence a reader would wait for one."""
        return self.held_until is None and not self.over

    def _question(self, score: Score, outcome: Outcome | None) -> dict[str, Any]:
        waits = score.points is None
        lines, suggested = _split(outcome.message if outcome and not waits else "")
        held = self._held(outcome)
        if outcome is not None and held:
            lines = [self._until("hidden" if outcome.hidden else "later")]
            suggested = [one for one in suggested if one[0] in outcome.misconceptions]
        may_copy = outcome is not None and not held and (self.over or not outcome.hidden)
        return {
            "name": score.grade_id,
            "kind": "waits" if waits else self._kind(score),
            "how": self._how(score, outcome),
            "given": self.words["ungraded"] if waits else self._of(score.points or 0.0, score.max_points),
            "lines": lines,
            "suggested": [self._belief(name, said) for name, said in suggested],
            "reproduce": outcome.reproduce if outcome is not None and may_copy and not waits else "",
            "link": self.links.get(score.grade_id, ""),
            "held": held,
        }

    def _held(self, outcome: Outcome | None) -> bool:
        told = outcome is not None and bool(outcome.message) and (outcome.hidden or outcome.grade_id in self.late)
        return self.held_until is not None and told

    def _until(self, word: str) -> str:
        return self.words[word].format(date=f"{self.held_until:%Y-%m-%d %H:%M}")

    def _kind(self, score: Score) -> str:
        """Which of three colours, beside the word that says it."""
        if score.points is not None and score.points >= score.max_points:
            return "passed"
        return "partly" if score.points else "failed"

    def _how(self, score: Score, outcome: Outcome | None) -> str:
        if score.points is None:
            return self.words["ungraded"]
        if score.manual is not None or outcome is None or outcome.kind is Ending.BY_HAND:
            return self.words["scored"]
        return self.words["refused_question" if outcome.kind is Ending.REFUSED else outcome.kind.value]

    def _belief(self, name: str, said: str) -> dict[str, str]:
        return {"name": name, "said": said, "link": self.links.get(name, "")}

    def _beliefs(self, questions: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The misconceptions that this student's answers suggest, and in which questions."""
        found: dict[str, dict[str, Any]] = {}
        for name, question in questions.items():
            for belief in question["suggested"]:
                found.setdefault(belief["name"], {**belief, "questions": []})["questions"].append(name)
        return [found[name] for name in sorted(found)]


def tag_of(language: str) -> str:
    """A language as a page names it.

    >>> tag_of("en"), tag_of("zh_CN")
    ('en', 'zh-Hans')
    """
    return language.replace("_", "-").removesuffix("-CN") + ("-Hans" if "CN" in language else "")


def _split(message: str) -> tuple[list[str], list[tuple[str, str]]]:
    """A message's lines, and of those that suggest a misconception its number and sentence.

    >>> _split("Came  1\\nSuggests   M05 Both share the bytes.")
    (['Came  1'], [('M05', 'Both share the bytes.')])
    """
    lines, suggested = [], []
    for line in message.splitlines():
        if found := SUGGESTS.match(line):
            suggested.append((found[1], found[2]))
        else:
            lines.append(line)
    return lines, suggested


def exercises(path: Path) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The headings of a course's own notebook, each with the cells that carry points below it."""
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    except (OSError, ValueError, KeyError, TypeError):
        return ()
    heading, found = "", dict[str, list[str]]()
    for cell in cells:
        source, marks = "".join(cell["source"]), cell["metadata"].get("nbgrader", {})
        if cell["cell_type"] == "markdown" and not marks.get("solution"):
            titles = HEADING.findall(FENCED.sub("", source))
            heading = titles[-1] if titles else heading
        if marks.get("grade") or marks.get("task") or marks.get("solution"):
            found.setdefault(heading, []).append(marks["grade_id"])
    return tuple((name, tuple(asked)) for name, asked in found.items() if name)


# --- of what a page is made, so that one can be told from what it would say today ------------------------------------

MADE_OF = ".made_of"


def made_of(notebooks: Sequence[str], known: Any) -> str:
    """The same for the same notebooks, byte for byte, and the same plain data.

    >>> made_of([], ["0 of 100 points"]) == made_of([], ["85 of 100 points"])
    False
    """
    read = [hashlib.sha256(Path(path).read_bytes()).hexdigest() for path in notebooks]
    return hashlib.sha256(json.dumps([read, known], sort_keys=True, default=str).encode()).hexdigest()


def note_made_of(folder: Path, text: str) -> None:
    """For the pages that are to be made in this folder."""
    (folder / MADE_OF).write_text(text, encoding="utf-8")


def is_made_of(folder: Path, pages: Sequence[Path], text: str) -> bool:
    """Whether the pages are all there, and made of this."""
    note = folder / MADE_OF
    return all(page.is_file() for page in pages) and note.is_file() and note.read_text(encoding="utf-8") == text


# --- what a page keeps back ------------------------------------------------------------------------------------------


class HoldBack(Preprocessor):
    """What a student may know before the date, in nbgrader's own page too.

    From the first hidden test on, what cells put out may say what it asked: a test cell shows what may be known of it
    instead, any other one a sentence.
    """

    enabled = Bool(True).tag(config=True)

    def preprocess(self, notebook: Any, resources: Any) -> tuple[Any, Any]:
        """nbconvert's hook."""
        told = resources.get("feedback", {})
        if not told.get("later"):
            return notebook, resources
        asked = hidden_before(notebook.cells, *resources.get(HIDE, ()))
        for cell, (late, _) in zip(notebook.cells, asked, strict=True):
            question = told["questions"].get(cell.metadata.get("nbgrader", {}).get("grade_id"), {})
            said = [told["later"]]
            if question.get("held"):
                said = [*question["lines"], *(one["said"] for one in question["suggested"])]
            if cell.cell_type == "code" and cell.outputs and (late or question.get("held")):
                cell.outputs = [new_output("stream", text="\n".join(said))]  # type: ignore[no-untyped-call]  # nbformat has no types
        return notebook, resources


class HideTests(ClearHiddenTests):  # type: ignore[misc] # nbgrader ships no types
    """nbgrader's ClearHiddenTests, for outputs that quote a hidden line too: done where the page is made."""

    display_data_priority: Any = List().tag(
        config=True
    )  # the exporter sets it on every step; here nothing is displayed

    def preprocess(self, notebook: Any, resources: Any) -> tuple[Any, Any]:
        """nbconvert's hook."""
        resources[HIDE] = (self.begin_test_delimeter, self.end_test_delimeter)
        return notebook, resources
