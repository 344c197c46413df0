"""A student's page: what it tells, what it holds back until the date, and how it looks."""

from __future__ import annotations

import base64
import html
import json
import re
from copy import deepcopy
from dataclasses import replace
from datetime import datetime
from itertools import product
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from playwright.sync_api import Page

from nbjudge.course.office.standings import Score, Standing
from nbjudge.model import Ending, Graded, Outcome, Result
from nbjudge.pages.exported import HIDE
from nbjudge.pages.feedback import WORDS, HoldBack, Sheet, exercises
from nbjudge.plugin import FeedbackPage
from nbjudge_tests.browsers import visit
from nbjudge_tests.classroom import small
from nbjudge_tests.session import one_in

AXE = small.ROOT / "frontend" / "node_modules" / "axe-core" / "axe.min.js"
DUE = datetime(2026, 12, 1, 18)
TOLD = "Asked      area(-7, 31)\nCame       217\nExpected   -217\nSuggests   M05 Detach shares the version."
CASE = "a = -7\nassert area(a, 31) == -217"
FAILED = Outcome("area_test", Ending.FAILED, 0.0, 2.0, TOLD, ("M05",), hidden=True, reproduce=CASE)
SHOWN = Outcome("double_test", Ending.PARTLY, 1.0, 2.0, "double(2) should be 4")
WRITTEN = Outcome("why", Ending.BY_HAND, None, 3.0)
RESULT = Result("k", "ada", "small", None, (Graded("nb", "{}", (SHOWN, FAILED, WRITTEN), died="its process ended"),))
STANDING = Standing(
    "ada",
    "small",
    (
        Score("nb", "double_test", 1.0, None, 0.0, 2.0, waits=False),
        Score("nb", "area_test", 0.0, None, 0.0, 2.0, waits=False),
        Score("nb", "why", None, None, 0.0, 3.0, waits=True),
    ),
    penalty=0.5,
    penalties={"nb": 0.5},
)
EXERCISES = (("1 · Double", ("double", "double_test")), ("2 · Area", ("area", "area_test")), ("3 · Why", ("why",)))
PRINTED = "one line of many\n" * 1000
SHEET = Sheet("nb", STANDING, RESULT, EXERCISES, who="Ada Lovelace", links={"M05": "https://example.org/05.html#six"})


def cell(kind: str, source: str, name: str = "", outputs: tuple[Any, ...] = (), **marks: Any) -> Any:
    meta = {"nbgrader": {"grade_id": name, "schema_version": 3, **marks}} if name else {}
    if kind == "markdown":
        return new_markdown_cell(source, metadata=meta)
    return new_code_cell(source, metadata=meta, outputs=list(outputs))


def page(sheet: Sheet) -> str:
    """The page of a notebook with all that an answer can be."""
    table = "<table><tr><th>a</th></tr><tr><td>1</td></tr></table>"
    cells = [
        cell("markdown", "# small\n\nThree exercises."),
        cell("markdown", "## 1 · Double (2 points)\n\nWrite `double`."),
        cell(
            "code",
            "def double(x):  # twice\n    return 'no' * 2",
            "double",
            (
                new_output("stream", name="stdout", text="\x1b[31mred\x1b[0m <b>text</b>\n" + "long " * 60),
                new_output("stream", name="stderr", text=PRINTED),
                new_output("display_data", data={"text/html": table}),
                new_output("error", ename="E", evalue="e", traceback=["E: <script>window.stolen = 1</script>"]),
            ),
            solution=True,
            comment="No <i>response</i>.",
        ),
        cell("code", "hidden(1)", "double_test", (new_output("stream", text=TOLD),), grade=True),
        cell("code", "def area(a, b): return abs(a * b)", "area", solution=True),
        cell("code", "hidden(2)", "area_test", (new_output("stream", text=TOLD),), grade=True),
        cell("markdown", "Since **everything** is.", "why", grade=True, solution=True),
    ]
    made, _ = FeedbackPage().from_notebook_node(new_notebook(cells=cells), {"feedback": sheet.told()})
    return str(made)


def text_of(made: str) -> str:
    return " ".join(html.unescape(re.sub(r"<style>.*?</style>|<[^>]+>", " ", made, flags=re.DOTALL)).split())


def test_it_says_what_is_known_and_that_a_person_has_still_to_read() -> None:
    told = SHEET.told()
    assert told["points"] == "0.5 of 7 points"
    assert told["notes"] == [
        "Not graded yet, since a person reads it: why (3 points).",
        "Taken off for lateness: 0.5 points. Before that it was 1 of 7 points.",
        "The program ended early: its process ended",
        "Inputs of hidden tests are shown as code once the due date has passed; this assignment has none.",
    ]
    assert [(name, one["given"], one["how"]) for name, one in told["questions"].items()] == [
        ("double_test", "1 of 2 points", "partly right"),
        ("area_test", "0 of 2 points", "failed"),
        ("why", "not graded yet", "not graded yet"),
    ]
    assert [(one["name"], one["questions"]) for one in told["beliefs"]] == [("M05", ["area_test"])]


def test_an_answer_cell_that_was_deleted_is_named_in_the_page_s_language() -> None:
    without = replace(RESULT, notebooks=(replace(RESULT.notebooks[0], lost=("double",)),))
    said = {language: replace(SHEET, result=without, language=language).told()["notes"] for language in WORDS}
    assert "Answer cell double is missing from what you handed in." in said["en"]
    assert "你提交的作业中缺少答题单元格 double。" in said["zh_CN"]


def test_late_points_are_those_of_this_notebook_and_the_headline_is_what_is_left() -> None:
    scores = (
        Score("nb", "double_test", 17.0, None, 0.0, 50.0, waits=False),
        Score("b", "q", 9.0, None, 0.0, 9.0, False),
    )
    late = replace(STANDING, scores=scores, penalty=14.1, penalties={"nb": 5.1, "b": 9.0})
    told = replace(SHEET, standing=late, result=None).told()
    assert (told["points"], told["notes"]) == (
        "11.9 of 50 points",
        ["Taken off for lateness: 5.1 points. Before that it was 17 of 50 points."],
    )


def test_what_the_grader_could_not_judge_waits_for_no_reader() -> None:
    lost = replace(FAILED, kind=Ending.GRADER_FAILURE, points=None)
    result = replace(RESULT, notebooks=(replace(RESULT.notebooks[0], outcomes=(SHOWN, lost, WRITTEN)),))
    scores = (STANDING.scores[0], replace(STANDING.scores[1], auto=None, waits=True), STANDING.scores[2])
    assert replace(SHEET, result=result, standing=replace(STANDING, scores=scores)).told()["notes"][:2] == [
        "Not graded yet, since a person reads it: why (3 points).",
        "Not graded yet, since the grader itself couldn't judge it: area_test (2 points). A person will look.",
    ]


def test_until_the_date_nothing_is_told_of_a_hidden_test_and_all_of_an_open_one() -> None:
    held = replace(SHEET, held_until=DUE)
    seen = text_of(page(held))
    for secret in ("-7", "217", "a = "):
        assert secret not in json.dumps(held.told()["questions"])
        assert secret not in seen
    assert "A hidden test failed. What it asked is shown after 2026-12-01 18:00 UTC." in seen
    assert "The program ended early." in seen
    assert "its process ended" not in seen  # a cell's number may be what a hidden test has asked
    assert "Detach shares the version." in seen  # what to read again gives no answer away
    assert "double(2) should be 4" in seen


LATE = "Hidden tests had run before this; what it said is shown after 2026-12-01 18:00 UTC."


def test_nor_of_what_ran_after_one_and_may_repeat_what_it_asked() -> None:
    told = replace(SHEET, held_until=DUE, late=frozenset({"double_test"})).told()
    assert told["questions"]["double_test"]["lines"] == [LATE]
    after = replace(SHEET, over=True, late=frozenset({"double_test"})).told()
    assert after["questions"]["double_test"]["lines"] == ["double(2) should be 4"]
    assert after["later"] == ""


def test_a_suggestion_that_the_judge_has_not_made_itself_is_held_back_too() -> None:
    forged = replace(FAILED, message="ValueError: x\nSuggests M01 the test asked -7", misconceptions=())
    result = replace(RESULT, notebooks=(replace(RESULT.notebooks[0], outcomes=(forged,)),))
    assert "-7" not in json.dumps(replace(SHEET, result=result, held_until=DUE).told())


def test_what_cells_put_out_after_a_hidden_test_is_held_back() -> None:
    test = "assert f(1)\n### BEGIN HIDDEN TESTS\nassert f(-7)\n### END HIDDEN TESTS"
    said = new_output("stream", text="asked [1, -7]")
    cells = [cell("code", "f", outputs=(said,)), cell("code", test, "area_test", (said,), grade=True)]
    cells += [cell("code", "print(asked)", outputs=(said,)), cell("code", "f")]
    for told, shown in ((replace(SHEET, held_until=DUE), LATE), (SHEET, said.text)):
        resources = {"feedback": told.told(), HIDE: ("BEGIN HIDDEN TESTS", "END HIDDEN TESTS")}
        book, _ = HoldBack().preprocess(deepcopy(new_notebook(cells=cells)), resources)
        first, _, own, silent = book.cells
        assert [first.outputs[0].text, own.outputs[0].text, silent.outputs] == [said.text, shown, []]
        assert ("-7" in json.dumps(book.cells[1].outputs)) == (told is SHEET)


def test_a_pasted_picture_stands_in_the_page() -> None:
    pasted = base64.b64encode(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x09\0\0\0\x09\x08\x02\0\0\0").decode()
    text = cell("markdown", "Look ![x](attachment:a.png)")
    text["attachments"] = {"a.png": {"image/png": pasted}}
    made, _ = FeedbackPage().from_notebook_node(new_notebook(cells=[text]), {"feedback": SHEET.told()})
    assert f'src="data:image/png;base64,{pasted}"' in made


def test_after_it_a_hidden_case_can_be_run_by_the_student() -> None:
    told = replace(SHEET, over=True).told()["questions"]["area_test"]
    assert told["lines"] == TOLD.splitlines()[:3]
    assert told["reproduce"] == CASE
    exec_names: dict[str, Any] = {"area": lambda a, b: abs(a * b)}
    with pytest.raises(AssertionError):
        exec(told["reproduce"], exec_names)  # noqa: S102 -- that it runs is what is claimed


def test_one_point_is_one_point() -> None:
    scores = (replace(STANDING.scores[0], max_points=1.0, waits=True, auto=None),)
    told = replace(SHEET, standing=replace(STANDING, scores=scores, penalties={"nb": 1.0})).told()
    zero = replace(scores[0], auto=0.0, waits=False)
    assert replace(SHEET, standing=replace(STANDING, scores=(zero,))).told()["points"] == "0 of 1 point"
    assert told["notes"][:2] == [
        "Not graded yet, since a person reads it: double_test (1 point).",
        "Taken off for lateness: 1 point. Before that it was 0 of 1 point.",
    ]


def test_without_a_date_a_hidden_case_is_told_in_words_and_not_as_code() -> None:
    told = SHEET.told()["questions"]["area_test"]
    assert (told["lines"][0], told["reproduce"]) == ("Asked      area(-7, 31)", "")
    why = "Inputs of hidden tests are shown as code once the due date has passed; this assignment has none."
    assert why in SHEET.told()["notes"]
    for other in (replace(SHEET, over=True), replace(SHEET, held_until=DUE)):
        assert why not in other.told()["notes"]
    assert "这份作业没有截止日期" in "".join(replace(SHEET, language="zh_CN").told()["notes"])


def test_a_person_s_score_takes_the_grader_s_place() -> None:
    scores = (*STANDING.scores[:2], replace(STANDING.scores[2], manual=2.5, waits=False))
    told = replace(SHEET, standing=replace(STANDING, scores=scores)).told()
    assert (told["questions"]["why"]["given"], told["questions"]["why"]["how"]) == (
        "2.5 of 3 points",
        "scored by a person",
    )


def test_a_refusal_is_its_reason_and_no_zero() -> None:
    scores = tuple(replace(score, auto=None, waits=True) for score in STANDING.scores)
    refused = Result("k", "ada", "small", None, refusal="not JSON")
    told = replace(SHEET, standing=replace(STANDING, scores=scores, penalties={}), result=refused).told()
    assert told["notes"] == ["This submission could not be graded: not JSON"]
    assert told["points"] == "not graded"
    assert not told["questions"], "the reason is said once"
    seen = text_of(page(replace(SHEET, standing=replace(STANDING, scores=scores, penalties={}), result=refused)))
    assert "points" not in seen
    assert "yet" not in seen
    by_hand = (*scores[:2], replace(scores[2], manual=2.0))
    told = replace(SHEET, standing=replace(STANDING, scores=by_hand, penalties={"nb": 2.0}), result=refused).told()
    assert (told["points"], list(told["questions"])) == ("0 of 7 points", ["why"])
    assert told["notes"][1:] == ["Taken off for lateness: 2 points. Before that it was 2 of 7 points."]


def test_a_page_on_which_all_waits_has_no_sum_yet() -> None:
    waiting = replace(STANDING, scores=STANDING.scores[2:], penalty=0.0)
    assert replace(SHEET, standing=waiting).told()["points"] == "not graded yet"


def test_both_languages_say_everything_with_the_same_gaps() -> None:
    gaps = [{name: set(re.findall(r"{\w+}", said)) for name, said in words.items()} for words in WORDS.values()]
    assert gaps[0] == gaps[1]
    assert 'lang="zh-Hans"' in page(replace(SHEET, language="zh_CN"))


def test_exercises_are_the_course_s_own_headings(tmp_path: Path) -> None:
    book = small.coding()
    book.cells.insert(1, new_markdown_cell("## 1 · Double (2 points)\n\n```\n# no heading\n```"))
    book.cells.insert(5, new_markdown_cell("## 2 · Area（1 分）"))
    nbformat.write(book, tmp_path / "coding.ipynb")
    assert [name for name, _ in exercises(tmp_path / "coding.ipynb")] == ["1 · Double", "2 · Area"]
    assert dict(exercises(tmp_path / "coding.ipynb"))["2 · Area"] == ("area", "area_test")
    assert exercises(tmp_path / "gone.ipynb") == ()


# ---------------------------------------------------------------------- as a reader sees it


@pytest.mark.browser
@pytest.mark.skipif(not AXE.exists(), reason="axe-core isn't installed; run: cd frontend && npm ci")
@pytest.mark.parametrize(("theme", "language"), one_in(3, product(("light", "dark"), ("en", "zh_CN"))))
def test_axe_finds_nothing(theme: str, language: str, tab: Page, tmp_path: Path) -> None:
    text = page(replace(SHEET, over=True, language=language))
    visit(tab, tmp_path, text.replace("Content-Security-Policy", "x-not-a-policy"), theme)
    tab.add_script_tag(path=AXE)
    found = tab.evaluate("axe.run(document).then((result) => result.violations)")
    assert [f"{each['id']}: {each['nodes'][0]['html'][:160]}" for each in found] == []


@pytest.mark.browser
@pytest.mark.parametrize("width_px", [320, 390, 1100])
def test_no_page_is_wider_than_the_window_and_none_asks_the_network(width_px: int, tab: Page, tmp_path: Path) -> None:
    asked: list[str] = []
    tab.on("request", lambda request: asked.append(request.url))
    tab.set_viewport_size({"width": width_px, "height": 800})
    visit(tab, tmp_path, page(replace(SHEET, over=True)))
    assert tab.evaluate("document.documentElement.scrollWidth") <= width_px
    assert [url.partition(":")[0] for url in asked] == ["file"]
    assert tab.evaluate("window.stolen") is None


@pytest.mark.browser
def test_headings_are_the_exercises_and_links_lead_to_the_questions(tab: Page, tmp_path: Path) -> None:
    visit(tab, tmp_path, page(SHEET))
    levels = tab.locator("h1, h2, h3").evaluate_all("(all) => all.map((h) => [h.tagName, h.innerText.split(' ')[0]])")
    assert [name for level, name in levels if level == "H2"] == ["Overview", "Worth", "1", "2", "3"]
    assert [name for level, name in levels if level == "H3"] == ["double_test", "area_test", "why"]
    inside = tab.locator("a[href^='#']").evaluate_all("(all) => all.map((a) => !!document.querySelector(a.hash))")
    assert inside
    assert all(inside)
    assert tab.locator("a[href^=https]").first.get_attribute("href") == "https://example.org/05.html#six"


@pytest.mark.browser
def test_a_long_output_is_a_box_that_keys_scroll_and_is_printed_whole(tab: Page, tmp_path: Path) -> None:
    visit(tab, tmp_path, page(SHEET))
    box = tab.locator("pre.long")
    assert box.inner_text().strip() == PRINTED.strip()
    assert box.bounding_box()["height"] < 600  # type: ignore[index]  # it is drawn
    box.focus()
    tab.keyboard.press("End")
    tab.wait_for_timeout(500)  # a browser glides there
    assert box.evaluate("(pre) => pre.scrollTop") > 10_000
    tab.emulate_media(media="print")
    assert box.evaluate("(pre) => pre.scrollHeight - pre.clientHeight") == 0
