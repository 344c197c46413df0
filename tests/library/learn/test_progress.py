"""A learner's progress: what is noted, when, where; and that nothing there ever costs a lesson."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from IPython.core.interactiveshell import ExecutionInfo, InteractiveShell
from traitlets.config import Config

import seegrad
from seegrad.learn.course_map import COURSE, CourseMap, course_map
from seegrad.learn.progress import (
    BESIDE,
    FILE,
    VARIABLE,
    Chapter,
    Progress,
    Tried,
    chapter_here,
    note_prediction,
    progress_file,
    read_progress,
    write_progress,
)
from seegrad.model.scene import Choice, Question
from seegrad.quiz import Feedback
from tests.library.recordings import overwritten_alias

ROOT = Path(__file__).parents[3]
PASSES = "from seegrad.check import expect\nexpect('answer', 3).equals(3)"
FAILS = "from seegrad.check import expect\nexpect('answer', 2).equals(3, suggests='M09')"
PARTLY = "from seegrad.check import score\nscore(0.5, of=20, misconceptions=['M05'])"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def chapter(monkeypatch: pytest.MonkeyPatch) -> str:
    """Somebody has a chapter open."""
    monkeypatch.setenv("JPY_SESSION_NAME", "notebooks/en/02_leaf_tensors.ipynb")
    return "02_leaf_tensors"


@pytest.fixture
def shell(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("IPYTHONDIR", str(home / "ipython"))
    config = Config()
    config.HistoryManager.enabled = False
    shell = InteractiveShell.instance(config=config)
    shell.run_cell("%load_ext seegrad")
    yield shell
    InteractiveShell.clear_instance()


def answer(said: str = "fine", name: str = "q") -> Feedback:
    """A learner answers a question, whose right answer is "fine"."""
    wrong = (Choice("raise", "", "M01", "No."),)
    return note_prediction(Question(name, "outcome", "What will happen?", '"fine"', 0, wrong), {"outcome": said})


def kept(home: Path) -> dict[str, Any]:
    return dict(json.loads((home / FILE).read_text(encoding="utf-8")))


def test_an_answer_in_a_notebook_is_noted(chapter: str, home: Path) -> None:
    picture = seegrad.show(overwritten_alias("data"), ask="outcome")
    picture.answer = {"outcome": "fine"}  # type: ignore[union-attr]  # a picture
    (prediction,) = kept(home)["chapters"][chapter]["predictions"].values()
    assert prediction.pop("prompt").startswith("What will happen")
    assert prediction == {"right": False, "tries": 1, "misconception": "M06", "answer": {"outcome": "fine"}, "turn": 1}
    assert kept(home)["misconceptions"] == {"M06": 1}


def test_where_no_notebook_is_open_nothing_is_written(home: Path) -> None:
    assert progress_file() is None
    answer()
    assert not (home / FILE).exists()


def test_a_file_may_be_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(home / "mine.json"))
    answer()
    assert read_progress().chapters[""].predictions["q"].right


def test_a_second_answer_replaces_the_first_and_is_counted() -> None:
    progress = Progress().predicted("02", "q", Tried(False, 1, "M01")).predicted("02", "q", Tried(True))
    tried = progress.chapters["02"].predictions["q"]
    assert (tried.right, tried.tries, tried.misconception) == (True, 2, "")
    assert progress.misconceptions == {"M01": 1}


OLD = {"answer": {"outcome": "raise"}, "right": False, "misconception": "M01", "prompt": "What will happen?"}


@pytest.fixture
def beside(home: Path) -> Path:
    """What seegrad 0.1 left beside the notebook: two answers."""
    (home / BESIDE).write_text(json.dumps({"q": OLD, "other": OLD}), encoding="utf-8")
    return home / BESIDE


def test_what_was_kept_beside_the_notebook_is_taken_over(chapter: str, home: Path, beside: Path) -> None:
    before = beside.read_bytes()
    answer(name="new")
    assert kept(home)["chapters"][""]["predictions"] == {name: OLD | {"tries": 1} for name in ("q", "other")}
    assert list(kept(home)["chapters"][chapter]["predictions"]) == ["new"]
    assert beside.read_bytes() == before, "another learner may share the folder, an older seegrad reads it"


def test_what_is_taken_over_is_never_counted_again(chapter: str, home: Path, beside: Path) -> None:
    counted = Progress().predicted(chapter, "q", Tried(False, 1, "M01"))
    write_progress(counted, home / FILE)
    assert beside.exists()
    for name in ("new", "new", "later"):
        answer(name=name)
    after = read_progress()
    assert after.misconceptions == {"M01": 1}
    assert after.chapters[chapter].predictions["q"] == Tried(False, 1, "M01", OLD["prompt"], OLD["answer"], turn=1)
    assert {name: tried.tries for name, tried in after.chapters[""].predictions.items()} == {"other": 1}


def test_a_new_answer_replaces_one_that_is_taken_over(chapter: str, beside: Path) -> None:
    assert beside.exists()
    answer()
    answer("raise", "new")
    progress = read_progress()
    found = progress.chapters[chapter].predictions["q"]
    assert (found.right, found.tries, found.answer) == (True, 2, {"outcome": "fine"})
    assert list(progress.chapters[""].predictions) == ["other"]
    assert progress.misconceptions == {"M01": 1}


@pytest.mark.parametrize("there", ["", "not json", "[1]", '{"q": 3}', '{"q": {"answer": [1]}}', "[" * 100_000])
def test_a_damaged_file_beside_the_notebook_costs_nothing(there: str, chapter: str, home: Path) -> None:
    (home / BESIDE).write_text(there)
    answer(name="new")
    assert read_progress().chapters[chapter].predictions["new"].right


def test_checks_in_a_cell_are_noted_under_the_cell_s_name(shell: Any, chapter: str, home: Path) -> None:
    for source, name in ((FAILS, "one_test"), (PASSES, "one_test"), (FAILS, "one_test"), (PARTLY, "two_test")):
        shell.run_cell(source, cell_id=name)
    exercises = kept(home)["chapters"][chapter]["exercises"]
    assert exercises["one_test"] == {"right": True, "tries": 3, "misconception": "M09"}, "once passed stays passed"
    assert exercises["two_test"] == {"right": False, "tries": 1, "misconception": "M05"}
    assert kept(home)["misconceptions"] == {"M09": 2, "M05": 1}


@pytest.mark.parametrize(
    ("lang", "count", "note"),
    [
        ("en", "1 of 6 exercises passed; 2 answered", "Whether it is right is found out when it is graded."),
        ("zh_CN", "6 道练习，通过 1 道；另有 2 道已作答", "对不对，评分时才知道。"),
    ],
)
def test_a_check_of_the_form_alone_is_an_answer_and_not_a_pass(
    lang: str, count: str, note: str, shell: Any, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it says below its cell, that nobody knows yet whether the answer is right, the map says too."""
    monkeypatch.setenv("JPY_SESSION_NAME", "02_leaf_tensors.ipynb")
    says = "from seegrad.check import expect\nexpect('found', {}).{}"
    for name, source in (
        ("find_test", says.format("3", "one_of([1, 3])")),
        ("order_test", says.format("'BA'", "letters('ABC')")),
        ("write_test", PASSES),
    ):
        shell.run_cell(source, cell_id=name)
    exercises = kept(home)["chapters"]["02_leaf_tensors"]["exercises"]
    assert {name: each.get("form") for name, each in exercises.items()} == {
        "find_test": True,
        "order_test": True,
        "write_test": None,
    }
    shown = seegrad.course_map(lang)
    assert count in shown.text()
    assert note in shown.text()
    assert note in shown.html()


def test_a_cell_that_raises_another_error_hasn_t_passed(shell: Any, chapter: str, home: Path) -> None:
    shell.run_cell("from seegrad.check import expect\nexpect('x', missing).equals(3)", cell_id="x_test")
    assert kept(home)["chapters"][chapter]["exercises"]["x_test"]["right"] is False


def test_other_cells_aren_t_noted(shell: Any, chapter: str, home: Path) -> None:
    assert chapter
    shell.run_cell("1 + 1", cell_id="plain")
    shell.run_cell("def (", cell_id="broken")
    assert not (home / FILE).exists()


def test_what_shows_how_an_exercise_answers_is_none(shell: Any, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JPY_SESSION_NAME", "notebooks/en/00_start_here.ipynb")
    shell.run_cell(FAILS, cell_id="one")
    assert not (home / FILE).exists()


def test_loading_twice_notes_once(shell: Any, chapter: str, home: Path) -> None:
    shell.run_cell("%reload_ext seegrad")
    shell.run_cell(PASSES, cell_id="one_test")
    assert kept(home)["chapters"][chapter]["exercises"]["one_test"]["tries"] == 1


def test_ipython_still_tells_a_cell_s_id() -> None:
    """What `note_cell` reads of IPython."""
    assert {"raw_cell", "cell_id"} <= set(vars(ExecutionInfo("", False, False, True, "id")))


@pytest.mark.parametrize(
    ("notebook", "name"),
    [
        ("release/zh_CN/05_data_versus_detach/05_data_versus_detach.ipynb", "05_data_versus_detach"),
        ("05_data_versus_detach-Copy1.ipynb", "05_data_versus_detach"),
        ("Untitled.ipynb", ""),
    ],
)
def test_the_chapter_is_read_off_the_notebook_s_name(notebook: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JPY_SESSION_NAME", notebook)
    assert chapter_here() == name


def test_vs_code_names_its_notebook_otherwise(shell: Any) -> None:
    shell.user_ns["__vsc_ipynb_file__"] = "/home/me/02_leaf_tensors.ipynb"
    assert chapter_here() == "02_leaf_tensors"


@pytest.mark.parametrize(
    "there", ["", "not json", "[1]", "null", "{}", '{"chapters": 3}', '{"chapters": {"02": []}}', "[" * 100_000, "\x00"]
)
def test_a_damaged_file_is_begun_anew(there: str, chapter: str, home: Path) -> None:
    (home / FILE).write_text(there)
    answer()
    assert read_progress().chapters[chapter].predictions["q"].right
    assert "02  Leaf tensors" in seegrad.course_map("en").text()


def test_a_file_that_isn_t_text_is_begun_anew(chapter: str, home: Path) -> None:
    (home / FILE).write_bytes(b"\xff\xfe\x00")
    answer()
    assert chapter in read_progress().chapters


@pytest.mark.parametrize("place", ["missing/progress.json", "."])
def test_a_place_that_can_t_be_written_costs_nothing(place: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(home / place))
    answer()
    assert read_progress() == Progress()
    assert [path.name for path in home.iterdir()] == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["chapters", "predictions", "exercises",
    "misconceptions", "right", "tries", "prompt", "answer", "turn", "dress", "M01", "02_x"]), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(JSON)
def test_any_json_is_read_and_drawn(data: Any) -> None:
    progress = Progress.from_data(data)
    assert Progress.from_data(json.loads(json.dumps(progress.to_data()))) == progress
    ElementTree.fromstring(CourseMap(progress).svg())  # noqa: S314  # our own picture


def some_progress() -> Progress:
    begun = Progress().predicted("02_leaf_tensors", "a", Tried(False, 1, "M01", "“甲”？", {"leaves": ["a"]}))
    begun = begun.predicted("02_leaf_tensors", "b", Tried(True))
    return begun.checked("05_data_versus_detach", "x_test", True).checked("08_clinic", "x", False, ("M06", "M06"))


@pytest.mark.parametrize(
    ("lang", "said"),
    [
        ("en", "1 of 7 predictions right; 0 of 6 exercises passed; you are here"),
        ("zh_CN", "7 个预测，对了 1 个；6 道练习，通过 0 道；当前位置"),
    ],
)
def test_the_map_says_in_words_what_it_shows(lang: str, said: str) -> None:
    html = CourseMap(some_progress(), "02_leaf_tensors", lang)._repr_html_()
    assert said in html
    chapters, met = html.split("</ol>")
    assert chapters.count("<li>") == len(COURSE) == 11
    assert met.count("<li>") == 2
    assert 'href="05_data_versus_detach.ipynb"' in html
    image = re.search(r'src="data:image/svg\+xml,([^"]*)"', html)
    assert image
    drawn = unquote(image[1])
    assert "M06 ×2" in drawn
    assert drawn.count('class="new') == 8


def test_an_assignment_s_map_leads_to_the_chapters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chapters, own = tmp_path / "notebooks" / "en", tmp_path / "release" / "en" / "02_leaf_tensors"
    for folder in (chapters, own):
        folder.mkdir(parents=True)
    (chapters / f"{COURSE[0].name}.ipynb").touch()
    for folder, link in ((own, "../../../notebooks/en/08_clinic.ipynb"), (chapters, "08_clinic.ipynb")):
        monkeypatch.chdir(folder)
        assert f'href="{link}"' in course_map("en")._repr_html_()


def luminance(colour: str) -> float:
    """Relative luminance, as WCAG 2 defines it, of `#rgb` or `#rrggbb`."""
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    parts = [int(digits[k : k + 2], 16) / 255 for k in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("lang", ["en", "zh_CN"])
def test_nothing_is_cut_in_a_cell_of_a_small_window(lang: str) -> None:
    """JupyterLab leaves a cell 870 of 1,280 px, its sidebar open."""
    drawn = ElementTree.fromstring(CourseMap(some_progress(), "02_leaf_tensors", lang).svg())  # noqa: S314  # our own picture
    places = [each.get("transform", "") for each in drawn.iter("{http://www.w3.org/2000/svg}g")]
    lefts = [float(x) for place in places for x in re.findall(r"translate\((\S+) ", place)]
    assert max(lefts) < float(drawn.get("width", "0")) <= 870
    cards = [(stop.column, stop.row) for stop in COURSE]
    assert len(set(cards)) == len(cards)


def test_the_map_can_be_read_on_a_light_page_and_on_a_dark_one() -> None:
    """An image doesn't see the page's theme: letters stand on grounds of their own, lines are seen on both pages."""
    drawn = ElementTree.fromstring(CourseMap(some_progress(), "02_leaf_tensors").svg())  # noqa: S314  # our own picture
    svg = "{http://www.w3.org/2000/svg}"
    assert drawn.find(f"{svg}rect") is None, "a ground behind everything is a white panel on a dark page"
    assert drawn.find(f"{svg}text") is None, "letters outside a card or chip have no ground of their own"
    style = drawn.findtext(f"{svg}style") or ""
    (letters,) = re.findall(r"^text\{[^}]*fill:(#\w+)", style)
    grounds = re.findall(r"(?:\.bx|rect)\{fill:(#\w+)", style)
    assert len(grounds) == 7
    assert min(contrast(letters, ground) for ground in grounds) >= 4.5
    lines = re.findall(r"stroke:(#\w+)", style)
    assert lines
    assert min(contrast(line, page) for line in lines for page in ("#fff", "#111")) >= 3


def test_a_map_without_progress_is_the_same_every_time() -> None:
    assert seegrad.course_map("en")._repr_html_() == seegrad.course_map("en")._repr_html_()
    assert "predictions" not in seegrad.course_map("en").text()


def test_the_map_is_the_course_s() -> None:
    masters = {path.stem for path in (ROOT / "notebooks").glob("*.py")}
    assert masters <= {stop.name for stop in COURSE}
    assert [stop.number for stop in COURSE] == [f"{k:02}" for k in range(11)]


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    write_progress(some_progress(), tmp_path / "p.json")
    assert read_progress(tmp_path / "p.json") == some_progress()
    assert [path.name for path in tmp_path.iterdir()] == ["p.json"]


def test_a_chapter_s_state_is_what_was_done_last_and_never_told_by_colour_alone() -> None:
    right, wrong = Tried(True), Tried(False, misconception="M11")
    done = {
        "00_start_here": Chapter(dict.fromkeys("qrs", right), {"t": right}),
        "01_computational_graphs": Chapter({"q": right, "r": wrong}, {"t": right}),
        "02_leaf_tensors": Chapter({str(k): right for k in range(7)}, {"t": right}),
        "03_retain_grad_and_hooks": Chapter({"q": right}),
        "04_inplace_and_version": Chapter({}, {"t": Tried(False)}),
    }
    shown = CourseMap(Progress(done, {"M11": 1}), lang="en")
    html = shown.html()
    states = re.findall(r"</a>: ([^;<]*)", html)
    assert states == [
        *("done", "something was wrong the last time", "in work", "in work", "something was wrong the last time"),
        *["not started"] * 6,
    ]
    svg = unquote(re.findall(r'src="data:image/svg\+xml,([^"]*)"', html)[0])
    assert re.findall(r'class="no"[^>]*>(\d\d ?[✓✗…]?)<', svg) == [
        *("00 ✓", "01 ✗", "02 …", "03 …", "04 ✗"),
        *("05", "06", "07", "08", "09", "10"),
    ]
    assert "predictions: 7/7" in svg
    assert "exercises: 1/6" in svg
    assert shown.text().splitlines()[2].endswith("in work; 7 of 7 predictions right; 1 of 6 exercises passed")
    believed = "<em><code>x += y</code> is short for <code>x = x + y</code>.</em>"
    assert (
        f"<li>M11 ×1: {believed} In truth: <code>x += y</code> and <code>x[0] = y</code> write into the same tensor"
        in html
    )


def test_the_map_is_drawn_at_its_size_and_no_line_meets_another() -> None:
    """Titles of three lines stand above the counts; a narrow page scrolls the map instead of shrinking it away."""
    shown = CourseMap(some_progress(), "04_inplace_and_version", "en")
    assert "max-width:max(100%,720px)" in shown.html()
    assert "overflow-x:auto" in shown.html()
    svg = "{http://www.w3.org/2000/svg}"
    for card in ElementTree.fromstring(shown.svg()).iter(f"{svg}g"):  # noqa: S314  # our own picture
        lines = [float(each.get("y", "0")) for each in card.iter(f"{svg}text") if each.get("class") in ("ti", "do")]
        assert all(below - above >= 12 for above, below in pairwise(sorted(lines)))
