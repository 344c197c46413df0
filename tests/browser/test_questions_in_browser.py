"""The questions on the graph in a real browser: by mouse, by touch, by keyboard alone, on narrow and wide pages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
import torch
from playwright.sync_api import Browser, Locator, Page, expect

import seegrad
from nbjudge_tests.session import one_in
from seegrad.display.page import page as page_text
from seegrad.model.recording import Recording
from seegrad.quiz import ask, judge
from tests.browser.test_pictures import findings, needs_axe, visit, without_policy

pytestmark = pytest.mark.browser

CELL_PX = 125
"""Of a window of JupyterLab so much is its own."""


@pytest.fixture(scope="module")
def recording() -> Recording:
    a = torch.tensor([1.0, 2.0], requires_grad=True)
    w = torch.tensor([0.5, 0.1], requires_grad=True)
    with seegrad.record() as rec:
        h = a * w
        s = h.sigmoid()
        s.retain_grad()
        loss = (s + h).sum()
        loss.backward()
    return rec.recording


@pytest.fixture
def tab(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1032, "height": 900}, reduced_motion="reduce", has_touch=True)
    yield context.new_page()
    context.close()


def written() -> Recording:
    """Its picture is three times as high once the versions are said."""
    with seegrad.record() as rec:
        a = torch.zeros(2)
        a.add_(1)
        a += 1
        a[0] = 5
    return rec.recording


def open_question(tab: Page, folder: Path, recording: Recording, kind: str) -> list[str]:
    return visit(tab, folder, page_text(recording, question=ask(recording, kind)))


def check(tab: Page) -> None:
    tab.get_by_role("button", name="Check my prediction").click()


def answer(tab: Page) -> dict[str, object]:
    """The line of Python under the picture, run."""
    name, _, value = tab.locator(".sg-py code").inner_text().partition(" = ")
    assert name == "q1"
    return dict(json.loads(value))


def named(tab: Page, name: str) -> None:
    """Tap the card of a tensor."""
    tab.locator(".sg-cv .tn", has=tab.locator(f".nm:text-is('{name}')")).tap()


def test_what_keeps_its_gradient_is_hidden_until_it_is_said(recording: Recording, tab: Page, tmp_path: Path) -> None:
    wrong = open_question(tab, tmp_path, recording, "keeps")
    assert tab.locator(".sg-cv .slot").evaluate_all(
        "(all) => all.every((each) => getComputedStyle(each).visibility === 'hidden')"
    )
    for name in ("a", "w", "loss"):
        named(tab, name)
    expect(tab.locator(".sg-qk")).to_have_text("Your pick: a, loss, w")
    check(tab)
    assert answer(tab) == {"keeps": ["a", "loss", "w"]}
    expect(tab.locator(".sg-qv")).to_contain_text("M01")
    signs = {"right": ["a", "w"], "wrong": ["loss"], "missed": ["s"]}
    for mark, names in signs.items():
        expect(tab.locator(f".sg-cv [data-m={mark}] .nm")).to_have_text(names)
    expect(tab.locator(".sg-cv .qs")).to_have_count(4)
    assert wrong == []


@pytest.mark.parametrize("kind", ["outcome", "leaves", "keeps", "saves", "order", "versions"])
def test_nothing_chosen_is_no_answer(recording: Recording, tab: Page, tmp_path: Path, kind: str) -> None:
    """What was chosen by chance would be learned by nobody: the way on stays shut, and a sentence says why."""
    wrong = open_question(tab, tmp_path, recording, kind)
    check(tab)
    expect(tab.get_by_role("status").filter(has_text="first")).to_be_visible()
    expect(tab.locator(".sg-py, .sg-again, .qs")).to_have_count(0)
    expect(tab.get_by_role("button", name="Next step")).to_be_disabled()
    expect(tab.locator(".sg")).to_have_attribute("data-asks", "")
    assert wrong == []
    if kind in ("leaves", "keeps", "saves"):
        tab.get_by_role("checkbox", name="None of them").check()
        check(tab)
        assert not judge(ask(recording, kind), answer(tab)).right


def test_what_is_saved_is_said_by_touch(recording: Recording, tab: Page, tmp_path: Path) -> None:
    wrong = open_question(tab, tmp_path, recording, "saves")
    expect(tab.locator(".sg-cv .pins")).to_be_hidden()
    named(tab, "a")
    named(tab, "w")
    tab.locator(".sg-cv .fn", has=tab.locator(".fnm:text-is('SigmoidBackward0')")).tap()
    expect(tab.locator(".sg-qr.cur")).to_contain_text("SigmoidBackward0")
    named(tab, "a")  # isn't beside the Function: nothing to tick
    named(tab, "s")
    expect(tab.locator(".sg-qr input:checked")).to_have_count(3)
    check(tab)
    said = answer(tab)
    assert said == {
        "saves": {
            "MulBackward0": ["a", "w"],
            "SigmoidBackward0": ["s"],
            "AddBackward0": [],
            "SumBackward0": [],
        }
    }
    assert judge(ask(recording, "saves"), said).right
    expect(tab.locator(".sg-qv .right")).to_be_visible()
    expect(tab.locator(".sg-cv .pins")).to_be_visible()
    assert wrong == []


def test_what_is_saved_is_said_by_keyboard(recording: Recording, tab: Page, tmp_path: Path) -> None:
    open_question(tab, tmp_path, recording, "saves")
    tab.get_by_role("group", name="SigmoidBackward0").get_by_label("h", exact=True).focus()
    tab.keyboard.press("Space")
    tab.keyboard.press("Tab")
    expect(tab.get_by_role("group", name="SigmoidBackward0").get_by_label("s", exact=True)).to_be_focused()
    tab.get_by_role("button", name="Check my prediction").focus()
    tab.keyboard.press("Enter")
    assert answer(tab)["saves"]["SigmoidBackward0"] == ["h"]  # type: ignore[index]  # a dict
    expect(tab.locator(".sg-qv")).to_contain_text("SigmoidBackward0 saves s")
    expect(tab.locator(".sg-cv .fn[data-m=wrong] .fnm")).to_have_text(["MulBackward0", "SigmoidBackward0"])
    expect(tab.get_by_role("group", name="SigmoidBackward0")).to_contain_text("✗")


def test_the_order_is_clicked(recording: Recording, tab: Page, tmp_path: Path) -> None:
    wrong = open_question(tab, tmp_path, recording, "order")
    for name in ("SumBackward0", "MulBackward0", "AddBackward0", "SigmoidBackward0"):
        tab.locator(".sg-cv .fn", has=tab.locator(f".fnm:text-is('{name}')")).click()
    expect(tab.locator(".sg-cv .qn")).to_have_text(["2", "4", "3", "1"])
    check(tab)
    assert answer(tab) == {"order": ["SumBackward0", "MulBackward0", "AddBackward0", "SigmoidBackward0"]}
    expect(tab.locator(".sg-qv")).to_contain_text("has to wait")
    expect(tab.locator(".sg-cv .qn")).to_have_count(0)
    expect(tab.locator(".sg-cv .fn .chk:visible text")).to_have_text(["4", "3", "2", "1"])
    assert wrong == []


def test_the_order_is_given_by_keyboard_alone(recording: Recording, tab: Page, tmp_path: Path) -> None:
    open_question(tab, tmp_path, recording, "order")
    wanted = json.loads(ask(recording, "order").truth)
    tab.locator(".sg-cv [tabindex='0']").first.focus()
    for name in wanted:
        for _ in range(12):
            if name in tab.evaluate("document.activeElement.querySelector('title').textContent"):
                break
            tab.keyboard.press("ArrowDown")
        tab.keyboard.press("Enter")
    expect(tab.locator(".sg-qk")).to_have_text("Your pick: " + " → ".join(wanted))
    tab.get_by_role("button", name="Check my prediction").focus()
    tab.keyboard.press("Enter")
    expect(tab.locator(".sg-qv .right")).to_be_visible()


def test_what_comes_later_is_not_drawn_until_the_versions_are_said(tab: Page, tmp_path: Path) -> None:
    """Outlines of three writes would be the answer: 3."""
    outlines = "(all) => all.filter((each) => getComputedStyle(each).visibility === 'visible').length"
    open_question(tab, tmp_path, written(), "versions")
    later = tab.locator(".sg-cv .nd[data-s=g] > .bx, .sg-cv .e.ghost")
    assert later.count() >= 6
    assert later.evaluate_all(outlines) == 0
    tab.get_by_label("version a", exact=True).fill("3")
    check(tab)
    expect(tab.locator(".sg-qv .right")).to_be_visible()
    tab.get_by_role("button", name="First step").click()
    assert later.evaluate_all(outlines) >= 6


def test_what_may_be_picked_is_walked_to_by_arrows_in_reading_order(tab: Page, tmp_path: Path) -> None:
    """Cards and Functions as they stand, from left to right and then down; buttons and the track step as ever."""
    with seegrad.record() as rec:
        x = torch.ones(2, requires_grad=True)
        (x.exp() * x.sin()).sum().backward()
    open_question(tab, tmp_path, rec.recording, "saves")
    count = tab.locator(".sg-ct").inner_text()
    tab.locator(".sg-cv [tabindex='0']").focus()
    tab.keyboard.press("Home")
    places = []
    for _ in range(tab.locator(".sg-cv [aria-pressed]").count()):
        box = tab.locator(".sg-cv .nd:focus").bounding_box()
        assert box is not None
        places.append((round((box["x"] + box["width"] / 2) / 40), box["y"]))
        tab.keyboard.press("ArrowRight")
    assert len(places) == len(set(places)) >= 6
    assert places == sorted(places)
    assert tab.locator(".sg-ct").inner_text() == count
    tab.get_by_role("button", name="Previous step").click()
    tab.keyboard.press("ArrowLeft")
    assert int(tab.locator(".sg-ct").inner_text()[0]) == int(count[0]) - 2


@pytest.mark.parametrize("kind", one_in(2, ["keeps", "leaves", "order"]))
def test_where_several_are_to_be_clicked_a_narrow_picture_opens_at_its_beginning(
    kind: str, recording: Recording, tab: Page, tmp_path: Path
) -> None:
    tab.set_viewport_size({"width": 400, "height": 800})
    open_question(tab, tmp_path, recording, kind)
    box = tab.locator(".sg-cv")
    assert box.evaluate("(box) => box.scrollWidth > box.clientWidth")
    parts = tab.locator(".sg-cv [aria-pressed]")
    lefts = parts.evaluate_all("(parts) => parts.map((part) => part.getBoundingClientRect().left)")
    assert parts.nth(lefts.index(min(lefts))).evaluate_all(IN_SIGHT) == 1
    expect(tab.locator(".sg-qp")).to_be_in_viewport(ratio=1)


@pytest.mark.parametrize("scroller", ["page", "box"])
def test_an_answered_question_stays_where_its_reader_is(scroller: str, tab: Page, tmp_path: Path) -> None:
    """The picture above it grows by what was hidden; also in a box that scrolls, as in JupyterLab."""
    tab.set_viewport_size({"width": 400, "height": 700})
    recording = written()
    text = page_text(recording, question=ask(recording, "versions"))
    room = "height: 690px; overflow: auto; scroll-behavior: smooth" if scroller == "box" else "padding: 1px"
    around = "body::after, body::before { content: ''; display: block; height: 900px }"
    style = f"<style>html {{ scroll-behavior: smooth }} body {{ {room} }} {around}</style>"
    visit(tab, tmp_path, without_policy(text).replace("</head>", f"{style}</head>"))
    question, picture = tab.locator(".sg-q"), tab.locator(".sg-cv")
    for field in tab.locator(".sg-q input").all():
        field.fill("1")
    for name in ("Check my prediction", "Try again", "Check my prediction"):
        question.evaluate("(q) => q.scrollIntoView({ block: 'center', behavior: 'instant' })")
        for field in tab.locator(".sg-q input:enabled").all():
            field.fill("1")
        before, high = top(question), picture.evaluate("(picture) => picture.offsetHeight")
        tab.get_by_role("button", name=name).evaluate("(button) => button.click()")
        tab.wait_for_timeout(200)
        assert abs(picture.evaluate("(picture) => picture.offsetHeight") - high) > 50
        assert abs(top(question) - before) < 2, name
    question.evaluate("(q) => q.scrollIntoView({ block: 'end', behavior: 'instant' })")
    tab.get_by_role("button", name="Try again").evaluate("(button) => button.click()")
    for field in tab.locator(".sg-q input:enabled").all():
        field.fill("1")
    question.evaluate("(q) => q.scrollIntoView({ block: 'end', behavior: 'instant' })")
    check(tab)
    expect(question).to_be_in_viewport(ratio=0.99)


IN_SIGHT = """(parts) => { const v = document.querySelector('.sg-cv').getBoundingClientRect();
  return parts.map((part) => part.getBoundingClientRect()).filter((p) => {
  return p.left >= v.left - 1 && p.right <= v.right + 1 && p.top >= v.top - 1 && p.bottom <= v.bottom + 1;
}).length; }"""


def test_what_may_be_clicked_is_in_sight_when_it_is_asked(tab: Page, tmp_path: Path) -> None:
    a = torch.ones(2, requires_grad=True)
    with seegrad.record() as rec:
        (a.sin().cos().exp() * a.tanh()).sum().backward()
    tab.set_viewport_size({"width": 1200, "height": 900})
    open_question(tab, tmp_path, rec.recording, "order")
    functions = tab.locator(".sg-cv .fn")
    assert functions.evaluate_all(IN_SIGHT) == functions.count() == 6
    for name in json.loads(ask(rec.recording, "order").truth):
        tab.locator(".sg-cv .fn", has=tab.locator(f".fnm:text-is('{name}')")).click()
        assert functions.evaluate_all(IN_SIGHT) == 6, "a click moves nothing"
    check(tab)


@pytest.mark.parametrize("leaves", [3, 6])
def test_a_question_and_its_picture_are_seen_together(leaves: int, tab: Page, tmp_path: Path) -> None:
    """Also where there is least of a window, in JupyterLab; a high picture has its question beside it."""
    given = [torch.randn(2, 2, requires_grad=True) for _ in range(leaves)]
    with seegrad.record() as rec:
        torch.stack(given).sum().backward()
    tab.set_viewport_size({"width": 1280, "height": 800})
    open_question(tab, tmp_path, rec.recording, "saves")
    picture, question = tab.locator(".sg-cv"), tab.locator(".sg-q")
    assert tab.locator(".sg.high").count() == (leaves == 6)
    assert max(bottom(picture), bottom(question)) - min(top(picture), top(question)) <= 800 - CELL_PX
    if leaves == 6:
        assert abs(top(question) - top(picture)) < 2
        assert bottom(tab.locator(".sg-ft")) - bottom(picture) < 2
    else:
        assert top(question) >= bottom(picture) - 1


def test_a_long_question_leaves_less_room_to_its_picture(tab: Page, tmp_path: Path) -> None:
    a, b = (torch.randn(4, 4, requires_grad=True) for _ in range(2))
    with seegrad.record() as rec:
        h = a
        for k in range(3):
            h = ((h * b) + a).tanh() if k else (h * b).exp()
        h.sum().backward()
    tab.set_viewport_size({"width": 1000, "height": 800})
    open_question(tab, tmp_path, rec.recording, "saves")
    seen = bottom(tab.locator(".sg-q")) - top(tab.locator(".sg-cv"))
    assert tab.locator(".sg-qr").count() >= 8
    assert seen <= 800 - CELL_PX + 1


def test_what_a_question_asks_of_first_is_in_sight(tab: Page, tmp_path: Path) -> None:
    """Of one Function what it has saved: that one, wherever the tensors stand that it may have saved."""
    a = torch.ones(2, requires_grad=True)
    with seegrad.record() as rec:
        h = a.sin()
        for _ in range(12):
            h = h.cos()
        (h * a).sum().backward()
    tab.set_viewport_size({"width": 500, "height": 800})
    asked = ask(rec.recording, "saves", nodes=("MulBackward0",))
    visit(tab, tmp_path, page_text(rec.recording, question=asked))
    part = tab.locator(".sg-cv .fn", has=tab.locator(".fnm:text-is('MulBackward0')"))
    assert part.evaluate_all(IN_SIGHT) == part.count() == 1


def test_the_card_that_a_question_names_is_whole_in_a_narrow_window(tab: Page, tmp_path: Path) -> None:
    """The step is about what the gradient comes from, and the question about what it comes to."""
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with seegrad.record() as rec:
        y = x * 5
        z = y + x
        z.sum().backward()
    tab.set_viewport_size({"width": 400, "height": 800})
    open_question(tab, tmp_path, rec.recording, "gradient")
    (name,) = tab.locator(".sg-qp code").all_inner_texts()
    asked = tab.locator(".sg-cv .tn:not([data-s=g])", has=tab.locator(f".nm:text-is('{name}')"))
    assert asked.evaluate_all(IN_SIGHT) == asked.count() > 0


def test_what_versions_are_asked_of_is_in_sight_in_a_narrow_window(tab: Page, tmp_path: Path) -> None:
    """The step is about the end of a row, and the question about its beginning."""
    first = torch.ones(2, requires_grad=True)
    with seegrad.record() as rec:
        loss = first.sin().cos().exp().tanh().sum()
        loss.backward()
    tab.set_viewport_size({"width": 400, "height": 800})
    visit(tab, tmp_path, page_text(rec.recording, question=ask(rec.recording, "versions", tensors=("first",))))
    box = tab.locator(".sg-cv")
    assert box.evaluate("(box) => box.scrollWidth > box.clientWidth")
    asked = tab.locator(".sg-cv .tn:not([data-s=g])", has=tab.locator(".nm:text-is('first')"))
    assert asked.evaluate_all(IN_SIGHT) == asked.count() == 1


def test_what_was_picked_is_in_sight_with_what_became_of_it(tab: Page, tmp_path: Path) -> None:
    """Not the step at the end, to which an answer leads, until somebody steps."""
    a = torch.ones(2, requires_grad=True)
    with seegrad.record() as rec:
        a.sin().cos().exp().tanh().sigmoid().sum()
    tab.set_viewport_size({"width": 400, "height": 800})
    open_question(tab, tmp_path, rec.recording, "leaves")
    named(tab, "a")
    check(tab)
    tab.wait_for_timeout(300)  # what resizes has asked for its places
    marked = tab.locator(".sg-cv [data-m]")
    assert marked.evaluate_all(IN_SIGHT) == marked.count() > 0


@needs_axe
@pytest.mark.parametrize(("kind", "theme"), one_in(3, product(("order", "keeps", "saves"), ("light", "dark"))))
def test_axe_finds_nothing(kind: str, theme: str, recording: Recording, tab: Page, tmp_path: Path) -> None:
    text = without_policy(page_text(recording, question=ask(recording, kind)))
    visit(tab, tmp_path, text, theme)  # type: ignore[arg-type]  # a theme
    tab.locator(".sg-cv .fn").first.click()
    assert findings(tab) == []
    if kind == "order":
        tab.locator(".sg-cv .fn").last.click()
    check(tab)
    assert findings(tab) == []


@pytest.mark.parametrize("kind", ["keeps", "saves", "order"])
def test_a_question_fits_a_telephone(kind: str, recording: Recording, tab: Page, tmp_path: Path) -> None:
    tab.set_viewport_size({"width": 390, "height": 800})
    open_question(tab, tmp_path, recording, kind)
    room, used = tab.evaluate(
        "(() => { const q = document.querySelector('.sg-q'); return [q.clientWidth, q.scrollWidth]; })()"
    )
    assert used <= room + 1


@pytest.mark.parametrize(("width", "height"), [(1032, 700), (420, 800)])
def test_a_question_s_step_is_in_sight_and_no_room_is_kept_for_what_comes(
    browser: Browser, tmp_path: Path, width: int, height: int
) -> None:
    """What is written to `by_data` later stands above the newest card: a hole as high as the box itself."""
    a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    with seegrad.record() as rec:
        out = a * 2
        by_data = out.data
        by_detach = out.detach()
        by_data.add_(1)
        by_data.add_(1)
        by_detach.add_(1)
        loss = out.sum()
        loss.backward()
    page = browser.new_page(viewport={"width": width, "height": height}, reduced_motion="reduce")
    wrong = visit(page, tmp_path, page_text(rec.recording, question=ask(rec.recording, "versions")))
    newest = page.locator(".sg-cv .nd[data-s=a]", has=page.locator(".nm:text-is('by_detach')"))
    whole = page.locator(".sg-cv svg")
    assert inside(newest, page.locator(".sg-cv"))
    assert bottom(whole) - bottom(newest) < 60
    asked = bottom(whole) - top(whole)
    for field in page.locator(".sg-q input").all():
        field.fill("1")
    check(page)
    assert bottom(whole) - top(whole) > asked + 60
    assert wrong == []
    page.close()


def top(part: Locator) -> float:
    return float(part.evaluate("(part) => part.getBoundingClientRect().top"))


def bottom(part: Locator) -> float:
    return float(part.evaluate("(part) => part.getBoundingClientRect().bottom"))


def inside(part: Locator, box: Locator) -> bool:
    (left, top, right, low), (x, y, end, floor) = (
        each.evaluate("(e) => { const r = e.getBoundingClientRect(); return [r.left, r.top, r.right, r.bottom]; }")
        for each in (part, box)
    )
    return bool(x <= left and y <= top and right <= end and low <= floor)
