"""What an instructor asks after grading: the page on a class, why a student has these points, what a new test moves."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import pytest
from nbgrader.api import Gradebook
from playwright.sync_api import Browser

from nbjudge.course.office.standings import Score, Standing
from nbjudge.grading.batch import Entry
from nbjudge.model import Ending, Graded, Outcome, Result
from nbjudge.pages.items import FEWEST, QuestionStatistics, items
from nbjudge.pages.regrade import moves, rows
from nbjudge.pages.report import KINDS, page
from nbjudge.pages.screen import HIDDEN, columns, explain, summary, table
from nbjudge_tests.classroom import small
from nbjudge_tests.classroom.commands import nbgrader, python

ALERT = "<script>window.stolen = 1</script>"
MESSAGE = "Asked      f(1)\nCame       3\nExpected   2\nSuggests   M05 Detach shares the version."


def result(student: str, *outcomes: Outcome, **fields: object) -> Result:
    return Result("k", student, "ps1", None, (Graded("nb", "{}", outcomes, **fields),))  # type: ignore[arg-type] # a test's shorthand


def standing(student: str, *scores: Score, **fields: object) -> Standing:
    return Standing(student, "ps1", scores, **fields)  # type: ignore[arg-type] # the same


def score(name: str, auto: float | None, manual: float | None = None, *, waits: bool = False) -> Score:
    return Score("nb", name, auto, manual, 0.0, 2.0, waits)


PASSED = Outcome("q1", Ending.PASSED, 2.0, 2.0)
FAILED = Outcome("q1", Ending.FAILED, 0.0, 2.0, MESSAGE, ("M05",), ("is_leaf",))
WRITTEN = Outcome("q2", Ending.BY_HAND, None, 2.0)
RESULTS = {
    "ada": result("ada", PASSED, WRITTEN),
    "bo": result("bo", FAILED, WRITTEN, died="its process broke the rules: no frame"),
    ALERT: Result("k", ALERT, "ps1", None, refusal=f"no notebook {ALERT}"),
}
STANDINGS = [
    standing("ada", score("q1", 2.0), score("q2", None, 1.5)),
    standing("bo", score("q1", 0.0), score("q2", None, waits=True), penalty=0.5),
    standing(ALERT, score("q1", None, waits=True), score("q2", None, waits=True)),
    standing("cy", handed_in=False),
]


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.pictures: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        found = dict(attrs)
        if found.get("role") == "img":
            self.pictures.append(str(found["aria-label"]))
        self.links += [str(found["href"])] if "href" in found else []
        self.ids += [str(found["id"])] if "id" in found else []

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_counts_the_class() -> None:
    seen = Tags(page("ps1", STANDINGS, RESULTS))
    assert "4 students: 1 graded, 1 waiting for a person, 1 not graded, 1 not handed in." in seen.text
    assert "2 students, of 4 points: mean 1.8, median 1.75, least 0, most 3.5." in seen.text
    assert seen.pictures == [
        "2 students, of 4 points: mean 1.8, median 1.75, least 0, most 3.5",
        "1 passed, 1 failed",
        "1 scored by hand, 1 waiting for a person",
    ]
    assert "Detach shares the version. M05, 1 student" in seen.text
    assert "suspicious" in seen.text


def test_answers_that_wait_are_counted_where_somebody_looks_for_work_with_the_place_to_do_it() -> None:
    both = [standing(name, score("q1", 2.0), score("q2", None, waits=True)) for name in ("ada", "bo")]
    for class_, told in ((both, "2 answers wait"), (both[:1], "1 answer waits")):
        text = Tags(page("ps1", class_, {one.student: result(one.student, PASSED, WRITTEN) for one in class_})).text
        assert f"To be looked at{told} for a person (q2), to be scored in formgrader, Manual Grading, ps1." in text
        assert "Nobody." not in text
    alone = [standing("ada", score("q2", None, waits=True))]
    assert "1 answer waits" in page("ps1", alone, {"ada": result("ada", WRITTEN)}), "nothing but text was asked"
    assert "waits for a person (q2)" not in page("ps1", alone, {"ada": RESULTS[ALERT]}), "nothing could be read"


def test_a_failure_of_the_grader_s_is_to_be_looked_at_until_a_person_has_scored_it() -> None:
    lost = Outcome("q1", Ending.GRADER_FAILURE, None, 2.0, "The judge itself failed: KeyError: 1\nmore")
    ran = {"ada": result("ada", lost)}
    assert (
        "grader failure, q1: The judge itself failed: KeyError: 1"
        in page("ps1", [standing("ada", score("q1", None, waits=True))], ran).partition("<h2>Students")[0]
    )
    scored = Tags(page("ps1", [standing("ada", score("q1", None, 1.0))], ran))
    assert "To be looked atNobody." in scored.text
    assert scored.pictures[-1] == "1 scored by hand"


def test_questions_stand_as_the_notebook_has_them() -> None:
    """The gradebook promises no order."""
    ran = {"ada": result("ada", *(replace(PASSED, grade_id=name) for name in ("b", "c", "a")))}
    text = page("ps1", [standing("ada", *(score(name, 2.0) for name in "abc"))], ran)
    assert re.findall(r'data-head="question">(\w)<', text) == ["b", "c", "a"]


@pytest.mark.parametrize("ground", ["#ffffff", "#14171c"])
def test_a_failure_s_colour_is_seen_on_both_grounds(ground: str) -> None:
    """Contrast as WCAG has it, which asks for 3 of what isn't text."""

    def luminance(colour: str) -> float:
        parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    lights = sorted(luminance(colour) + 0.05 for colour in (ground, KINDS[Ending.GRADER_FAILURE][0]))
    assert lights[1] / lights[0] >= 3


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 700])
def test_a_long_reason_is_wrapped(width: int, browser: Browser, tmp_path: Path) -> None:
    refused = Result("k", "bo", "ps1", None, refusal=f"no notebook {'of this name ' * 40}{'x' * 300}")
    (tmp_path / "report.html").write_text(page("ps1", [STANDINGS[1]], {"bo": refused}), encoding="utf-8")
    shown = browser.new_page(viewport={"width": width, "height": 900})
    shown.goto((tmp_path / "report.html").as_uri())
    widths = "one => one.scrollWidth - one.clientWidth"
    assert shown.evaluate(f"[document.documentElement, document.querySelector('.wraps')].map({widths})") == [0, 0]
    shown.close()


def test_a_class_of_one_is_one_student() -> None:
    one = standing("ada", replace(score("q1", 0.5), max_points=1.0))
    seen = Tags(page("ps1", [one, replace(one, student="bo", scores=(replace(one.scores[0], waits=True),))], {}))
    assert "2 students: 1 graded, 1 waiting for a person." in seen.text
    assert "1 still waits for a person; what that adds isn't in it." in seen.text
    seen = Tags(page("ps1", [one], {}))
    assert "1 student: 1 graded." in seen.text
    assert "1 student, of 1 point: mean 0.5, median 0.5, least 0.5, most 0.5." in seen.text
    assert explain(replace(one, penalty=0.5), None).splitlines()[:2] == [
        "ada, ps1: 0 of 1 point, graded",
        "0.5 of 0.5 points taken off for lateness",
    ]


def test_each_name_leads_to_the_reason_for_the_grade() -> None:
    text = page("ps1", STANDINGS, RESULTS)
    seen = Tags(text)
    assert set(seen.links) == {f"#{name}" for name in seen.ids}
    assert seen.ids == ["why-0", "why-1", "why-2"]
    for one in STANDINGS[:3]:
        assert explain(one, RESULTS[one.student]) in seen.text
    assert "cy" in seen.text, "who handed in nothing is named, and has no reason"


def test_the_page_acts_on_nobody_s_behalf() -> None:
    text = page("ps1", STANDINGS, RESULTS)
    seen = Tags(text)
    assert "script" not in seen.tags
    assert ALERT in seen.text
    assert re.search(r"Content-Security-Policy\" content=\"default-src &#x27;none&#x27;", text)
    assert text == page("ps1", STANDINGS, RESULTS)  # the same class, the same bytes


@pytest.mark.parametrize("standings", [[], [standing("cy", handed_in=False)]])
def test_a_class_without_grades_has_a_page_too(standings: list[Standing]) -> None:
    assert "Nobody is graded yet." in page("ps1", standings, {})


@pytest.mark.browser
def test_the_pictures_are_drawn(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text(page("ps1", STANDINGS, RESULTS), encoding="utf-8")
    shown = browser.new_page()
    shown.goto((tmp_path / "report.html").as_uri())
    heights = shown.evaluate("[...document.querySelectorAll('.scores i')].map(bar => bar.clientHeight)")
    assert sorted(heights)[-2:] == [heights[0], heights[3]], "one student each: 0 and 3.5 of 4 points"
    assert shown.locator(".stack i").all_inner_texts() == ["1", "1", "1", "1"]
    assert shown.evaluate("window.stolen") is None
    shown.close()


NAMES = "[...document.querySelectorAll('.t')].at(-1).querySelectorAll('tbody tr')"
IN_ORDER = f"[...{NAMES}].sort((a, b) => a.offsetTop - b.offsetTop).map(row => row.cells[0].innerText)"


@pytest.mark.browser
def test_tables_are_sorted_by_keys_without_any_script(browser: Browser, tmp_path: Path) -> None:
    names, points = ["ada", "bo", "cy", "di"], [3.0, 0.5, 4.0, 1.0]
    class_ = [standing(name, score("q1", p)) for name, p in zip(names, points, strict=True)]
    (tmp_path / "report.html").write_text(page("ps1", class_, {}), encoding="utf-8")
    shown = browser.new_context(java_script_enabled=True, viewport={"width": 1280, "height": 900}).new_page()
    shown.goto((tmp_path / "report.html").as_uri())
    assert shown.evaluate(IN_ORDER) == names
    shown.get_by_role("radio", name="points").last.focus()
    shown.keyboard.press("Space")
    assert shown.evaluate(IN_ORDER) == ["bo", "di", "ada", "cy"]
    shown.keyboard.press("ArrowLeft")
    assert shown.evaluate(IN_ORDER) == names
    shown.context.close()


AXE = Path(__file__).parents[3] / "frontend" / "node_modules" / "axe-core" / "axe.min.js"


@pytest.mark.browser
@pytest.mark.skipif(not AXE.exists(), reason="axe-core isn't installed")
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (400, "dark")])
def test_everybody_can_read_it(width: int, scheme: str, browser: Browser, tmp_path: Path) -> None:
    text = page("ps1", [*STANDINGS, *CLASS_OF_20], RESULTS)
    assert "http-equiv" in text
    (tmp_path / "report.html").write_text(text.replace("Content-Security-Policy", "x-not-a-policy"), encoding="utf-8")
    shown = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]  # one of two
    shown.goto((tmp_path / "report.html").as_uri())
    shown.add_script_tag(path=AXE)
    found = shown.evaluate("axe.run(document).then(r => r.violations.map(v => [v.id, v.nodes[0].html.slice(0, 120)]))")
    assert found == []
    assert shown.evaluate("document.documentElement.scrollWidth <= innerWidth"), "nothing is cut"
    shown.close()


# ---------------------------------------------------------------------- items

# Four times these five students: shares of q1 0, 0, 1, 1, 1, of the rest (q2 and q3, 4 points together) 0, ½, ½, ¾, 1.
# q1: mean .6, deviations -.6 -.6 .4 .4 .4; the rest: mean .55, deviations -.55 -.05 -.05 .2 .45.
# Products .33 + .03 - .02 + .08 + .18 = .6; squares 1.2 and .55; .6 / √(1.2 · .55) = .7385.
FIVE = ((0, 0, 0), (0, 2, 0), (2, 0, 2), (2, 2, 1), (2, 2, 2))
CLASS_OF_20 = [standing(f"s{k}", *(score(f"q{n}", p) for n, p in enumerate(FIVE[k % 5], 1))) for k in range(20)]


def test_difficulty_and_discrimination_are_those_computed_by_hand() -> None:
    first = items(CLASS_OF_20)[0]
    assert (first.grade_id, first.students, first.difficulty) == ("q1", 20, pytest.approx(0.6))
    assert first.discrimination == pytest.approx(0.7385, abs=5e-5)


def test_of_a_small_class_only_its_size_is_told() -> None:
    assert items(CLASS_OF_20[: FEWEST - 1])[0] == QuestionStatistics("nb", "q1", FEWEST - 1)
    assert "too few students" in Tags(page("ps1", CLASS_OF_20[:19], {})).text
    assert "too few students" not in Tags(page("ps1", CLASS_OF_20, {})).text


def test_where_nobody_differs_there_is_no_correlation() -> None:
    alike = [standing(f"s{k}", score("q1", 2.0), score("q2", float(k % 3))) for k in range(20)]
    easy, other = items(alike)
    assert (easy.difficulty, easy.discrimination, other.discrimination) == (1.0, None, None)
    assert "nobody differs" in page("ps1", alike, {})


def test_what_waits_for_a_person_counts_nowhere() -> None:
    waiting = [standing(f"w{k}", score("q1", 2.0), score("q2", 0.0, waits=True)) for k in range(20)]
    assert items(waiting) == (), "no other question has points"
    assert items([*CLASS_OF_20, *waiting]) == items(CLASS_OF_20)


# ---------------------------------------------------------------------- why


def test_why_tells_question_by_question() -> None:
    said = explain(STANDINGS[1], RESULTS["bo"]).splitlines()
    assert said[:2] == [
        "bo, ps1: 0 of 4 points, waiting for a person",
        "0.5 of 0 points taken off for lateness",
    ]
    assert said[3:8] == ["q1  failed: 0 of 2", *(f"    {line}" for line in MESSAGE.splitlines())]
    assert "    waits for a person to look at it" in said
    assert said[-1].startswith("To override: formgrader, Manual Grading, ps1")


def test_points_that_rest_on_a_word_are_told_with_what_to_do_and_where_there_are_none_nothing_is() -> None:
    for kind, points, told in ((Ending.PASSED, 2.0, True), (Ending.FAILED, 0.0, False), (Ending.BY_HAND, None, False)):
        rests = Result(
            "k", "bo", "ps1", None, (Graded("nb", "{}", (Outcome("q1", kind, points, 2.0, claims=("==",)),)),)
        )
        bo = standing("bo", score("q1", points or 0.0))
        said = explain(bo, rests)
        assert ("rests on the student's word: ==\n    nothing has to be done; who wants to be sure" in said) is told
        assert ("1 question rests on the student's word (q1), nothing" in table([Entry("bo", rests, None)])) is told
        assert "To be looked atNobody." in Tags(page("ps1", [bo], {"bo": rests})).text


HIDING = """assert primes(3) == [2, 3]
### BEGIN HIDDEN TESTS
for most in (7, 30):
    assert primes(most)[-1] == most - 1
### END HIDDEN TESTS"""


@pytest.mark.parametrize(("line", "hidden"), [(4, True), (1, False)])
def test_why_names_the_line_of_the_test_that_failed_a_hidden_one_too(line: int, hidden: bool) -> None:
    text = HIDING.splitlines()[line - 1].strip()
    case = {"hidden": hidden, "line": line, "reproduce": f"most = 30\n{text}"}
    told = Outcome("q1", Ending.FAILED, 0.0, 2.0, "A check of this question doesn't hold.", **case)  # type: ignore[arg-type] # the same
    cells = [{"source": HIDING, "metadata": {"nbgrader": {"grade_id": "q1"}}}]
    ran = Result("k", "bo", "ps1", None, (Graded("nb", json.dumps({"cells": cells}), (told,)),))
    said = explain(standing("bo", score("q1", 0.0)), ran).splitlines()
    assert f"    line {line} of the test{', hidden from students' * hidden}: {text}" in said
    assert "        most = 30" in said, "which turn of the loop"
    assert (HIDDEN in said) is hidden, "what its student reads of it"


def test_why_says_both_what_the_test_said_and_how_the_answer_above_it_ended() -> None:
    """A cell that isn't Python leaves a NameError to its test: the reason stands in the cell."""

    def ran(source: str, name: str = "", ended: str = "", **marks: bool) -> dict[str, object]:
        error = {
            "output_type": "error",
            "ename": ended,
            "evalue": "invalid\nsyntax",
            "traceback": ["Cell In[1], line 2"],
        }
        meta = {"nbgrader": {"grade_id": name, **marks}} if name else {}
        return {"source": source, "metadata": meta, "outputs": [error] if ended else []}

    cells = [
        ran("1 / 0", ended="ZeroDivisionError"),
        ran("hidden()", "q1", ended="AssertionError", grade=True),
        ran("found = = 1", "found", ended="SyntaxError", solution=True),
        ran("assert found", "q2", ended="NameError", grade=True),
    ]
    told = [Outcome(name, Ending.FAILED, 0.0, 2.0, "NameError: name 'found' is not defined") for name in ("q1", "q2")]
    result = Result("k", "bo", "ps1", None, (Graded("nb", json.dumps({"cells": cells}), tuple(told)),))
    said = explain(standing("bo", score("q1", 0.0), score("q2", 0.0)), result).splitlines()
    assert [line for line in said if "raises" in line] == [
        "    before that, code cell 1, line 2, raises ZeroDivisionError: invalid",
        "    before that, code cell 3, line 2, raises SyntaxError: invalid",
    ]


def test_why_knows_what_a_person_gave_and_what_isn_t_kept() -> None:
    assert "    a person gave 1.5; the grader nothing" in explain(STANDINGS[0], RESULTS["ada"])
    assert "not kept any more" in explain(STANDINGS[0], None)


def test_why_says_of_a_refused_one_why_and_no_zero() -> None:
    said = explain(STANDINGS[2], RESULTS[ALERT]).splitlines()
    assert said[0].endswith(", ps1: not graded")
    assert said[2] == f"Refused: no notebook {ALERT}"
    assert not [line for line in said if "q1" in line or "by hand" in line or "waits for a person" in line]
    by_hand = explain(replace(STANDINGS[2], scores=STANDINGS[0].scores[1:]), RESULTS[ALERT])
    assert "    a person gave 1.5; the grader nothing" in by_hand


# ---------------------------------------------------------------------- regrade


def test_only_what_moves_is_told_and_a_person_s_score_counts() -> None:
    after = [
        standing("ada", score("q1", 2.0), score("q2", None, 1.5)),
        standing("bo", score("q1", 2.0, 1.0), penalty=0.75),
        standing("di", score("q1", 0.0)),
    ]
    entries = [Entry("bo", result("bo", PASSED)), Entry("di", result("di", FAILED))]
    found = moves(STANDINGS[:2], after, entries)
    assert rows(found)[1:] == [
        ("bo", "q1", "0", "2 (a person's 1 counts)", "passed"),
        ("bo", "lateness", "-0.5", "-0.75", "what is taken off for it"),
        ("di", "q1", "–", "0", "Asked      f(1)"),
    ]


@pytest.mark.whole
def test_a_mended_test_moves_scores_after_a_backup(tmp_path: Path) -> None:
    root = small.make(tmp_path / "course")
    nbgrader(root, "generate_assignment", small.NAME)
    small.hand_in(root, "petra", small.PARTLY)
    small.hand_in(root, "rami", small.RIGHT)
    python(root, "-m", "nbjudge", "autograde", small.NAME)
    url = f"sqlite:///{root / 'gradebook.db'}"
    by_hand(url, "rami", 3.0)

    path = root / "source" / small.NAME / "coding.ipynb"
    book = nbformat.read(path, as_version=4)
    book.cells[5].source = book.cells[5].source.replace("area(-1, 3) == -3", "abs(area(-1, 3)) == 3")
    nbformat.write(book, path)
    refused = python(root, "-m", "nbjudge", "regrade", small.NAME, status=2)
    assert "has changed since the release was generated (area_test)" in refused
    nbgrader(root, "generate_assignment", small.NAME, "--force")

    said = python(root, "-m", "nbjudge", "regrade", small.NAME)
    assert re.search(r"^petra +area_test +0.5 +1 +passed$", said, re.MULTILINE), said
    assert "1 score moved, 1 student" in said
    backup = sorted((root / ".grader" / "backups").glob("gradebook-*.db"))[-1]
    assert auto_score(f"sqlite:///{backup}") == 0.5
    assert auto_score(url) == 1.0
    assert by_hand(url, "rami") == 3.0
    assert "No score moves of" in python(root, "-m", "nbjudge", "regrade", small.NAME)


def by_hand(url: str, student: str, points: float | None = None) -> float | None:
    """What a person gave for the written answer; `points` gives it."""
    with Gradebook(url, "autograd101") as book:
        grade = book.find_grade("why", "writing", small.NAME, student)
        if points is not None:
            grade.manual_score = points
            book.db.commit()
        found: float | None = grade.manual_score
    book.engine.dispose()
    return found


def auto_score(url: str) -> float:
    with Gradebook(url, "autograd101") as book:
        found = float(book.find_grade("area_test", "coding", small.NAME, "petra").auto_score)
    book.engine.dispose()
    return found


def test_a_name_with_lines_of_its_own_forges_no_row() -> None:
    rows = [("student", "score", "remark"), ("zed\nada      4/4    2 passed", "0/4", "x\r\ny\x1b[2J")]
    assert columns(rows)[2:] == ["zed ada      4/4    2 passed  0/4    x y"]
    refused = Result("k", "zed\nada", "ps1", None, refusal="no\nnotebook")
    assert summary(Entry("zed\nada", refused, "refused: no\nnotebook")) == "zed ada: refused: no notebook"
