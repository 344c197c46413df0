"""A picture in less room than it takes: what the step is about is in sight, and so are the legend and the line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from playwright.sync_api import Browser, Page

import seegrad
from nbjudge_tests.session import one_in
from seegrad.display.page import page as page_text
from seegrad.display.page import pair_page
from seegrad.model.recording import Recording
from seegrad.picture import draw
from seegrad.quiz import ask
from tests.browser.test_pictures import findings, needs_axe, visit, without_policy
from tests.course.assignments.test_answered_on_graph import picked
from tools.pictures.portraits import PORTRAITS, Portrait, record
from tools.site.programs import read_programs
from tools.site.recorded import plays

pytestmark = pytest.mark.browser

LAB_CELL_PX = 831  # in a window of 1,280 px, the file browser open
BETWEEN = """([part, box]) => {
    const [a, b] = [part, box].map((each) => document.querySelector(each).getBoundingClientRect());
    return a.left >= b.left && a.right <= b.right && a.top >= b.top - 1 && a.bottom <= b.bottom + 1;
}"""
SIDES = "(part) => { const { left, right } = part.getBoundingClientRect(); return [left, right]; }"
ROOT = Path(__file__).parents[2]
LONG = [
    *(f"h{k} = h{k - 1} * 1.5" for k in range(1, 18)),
    "result = (h3 * torch.tensor([0.25, 0.75]) + h4.sin() * torch.tensor([1.0, 2.0]) * torch.ones(2)).sum()",
    "h4.mul_(2)",
    "result.backward()",
]


# where each row of a wrapped line begins, blanks aside
ROWS_LEFT_PX = r"""(line) => {
    const rows = new Map();
    const texts = document.createTreeWalker(line, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) for (const { index } of texts.currentNode.data.matchAll(/\S/g)) {
        const range = new Range();
        range.setStart(texts.currentNode, index);
        range.setEnd(texts.currentNode, index + 1);
        const { left, bottom } = range.getBoundingClientRect();
        rows.set(Math.round(bottom), Math.min(left, rows.get(Math.round(bottom)) ?? Infinity));
    }
    return [...rows.values()];
}"""


@pytest.fixture
def tab(browser: Browser) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": LAB_CELL_PX + 34, "height": 700}, reduced_motion="reduce")
    yield page
    page.close()


def portrait(name: str) -> Recording:
    return record(next(each for each in PORTRAITS if each.name == name))


def loop() -> Recording:
    """A training loop whose finding has much to say, and whose leaf has many rows."""
    setup = "x = torch.tensor([0.0, 1.0])\nscale = torch.tensor([1.0], requires_grad=True)"
    code = ["for _ in range(3):", "    z = x * scale", "    y = torch.where(z > 0, z.sqrt(), torch.zeros_like(z))"]
    code += [
        "    loss = (y**2).mean()",
        "    loss.backward()",
        "    with torch.no_grad():",
        "        scale -= 0.1 * scale.grad",
    ]
    return record(Portrait("loop", setup, "\n".join(code)))


def chain_of_steps() -> Recording:
    """A loop without a finding, wider than a narrow page, whose last step is about its right end."""
    setup = "w = torch.ones(2, requires_grad=True)\nopt = torch.optim.SGD([w], 0.1)"
    code = ["for _ in range(2):", "    opt.zero_grad()", "    loss = w.sin().cos().tanh().exp().sigmoid().sum()"]
    code += ["    loss.backward()", "    opt.step()", "    shown = loss.detach() * 2"]
    return record(Portrait("steps", setup, "\n".join(code)))


def long_program() -> Recording:
    return record(Portrait("long", "h0 = torch.ones(2, requires_grad=True)", "\n".join(LONG)))


def chain(length: int) -> Recording:
    """A row of Functions that fails at its first one, far from where backward begins."""
    x = torch.ones(2, requires_grad=True)
    with seegrad.record() as rec:
        h = first = x.sigmoid()
        for _ in range(length):
            h = h.sin()
        h.sum().backward(retain_graph=True)
        first.mul_(2)
        with pytest.raises(RuntimeError):
            h.sum().backward()
    return rec.recording


@pytest.mark.parametrize("name", one_in(2, ["gan", "l1_l4", "residual", "second_lap"]))
def test_what_failed_is_in_sight_with_what_it_saved(name: str, tab: Page, tmp_path: Path) -> None:
    tab.set_viewport_size({"width": 560, "height": 700})
    visit(tab, tmp_path, page_text(portrait(name)))
    inside = """() => {
        const box = document.querySelector(".sg-cv").getBoundingClientRect();
        return [...document.querySelectorAll(".nd.hm")].every((part) => {
            const { left, right, top, bottom } = part.getBoundingClientRect();
            return left >= box.left && right <= box.right && top >= box.top && bottom <= box.bottom;
        });
    }"""
    assert tab.evaluate(inside), "the write"
    for part in (".nd[data-s=e]", ".clash:not(.ghost)", ".pin.bad:not(.ghost)"):
        if tab.locator(part).count():
            assert tab.evaluate(BETWEEN, [f".sg-cv {part}", ".sg-cv"]), part


def test_each_step_brings_its_part_into_sight_and_the_page_stays(tab: Page, tmp_path: Path) -> None:
    tab.set_viewport_size({"width": 480, "height": 500})
    visit(tab, tmp_path, page_text(portrait("gan")))
    tab.locator(".sg-tl input").focus()
    place = tab.evaluate("scrollY")
    tab.keyboard.press("Home")
    scrolled = set()
    for _ in range(24):
        tab.keyboard.press("ArrowRight")
        scrolled.add(tab.evaluate("document.querySelector('.sg-cv').scrollLeft"))
        for part in (".nd[data-s=a]", ".nd[data-s=e]"):
            if tab.locator(part).count() == 1:
                assert tab.evaluate(BETWEEN, [part, ".sg-cv"])
    assert len(scrolled) > 2, "a picture that needs no scrolling shows nothing here"
    assert tab.evaluate("scrollY") == place


@pytest.mark.parametrize("width", one_in(2, [1280, 800]))
def test_a_step_that_says_less_leaves_the_page_as_high_as_it_was(width: int, tab: Page, tmp_path: Path) -> None:
    """The page is at its end: were it to grow shorter, the bar would move under the reader's pointer."""
    tab.set_viewport_size({"width": width, "height": 500})
    visit(tab, tmp_path, without_policy(page_text(chain(0))))  # waiting evaluates
    bar, player = tab.locator(".sg-bar"), tab.locator(".sg")
    tab.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    tab.locator(".sg-tl input").evaluate("(input) => input.focus({ preventScroll: true })")
    said, tops = tab.locator(".sg-in").inner_text(), set()
    for key in ("Home", "ArrowRight", "ArrowRight", "End", "ArrowLeft", "Home"):
        tab.keyboard.press(key)
        tops.add(bar.evaluate("(bar) => bar.getBoundingClientRect().top"))
    assert len(tops) == 1
    assert len(tab.locator(".sg-in").inner_text()) < len(said)
    height = player.evaluate("(player) => player.offsetHeight")
    tab.set_viewport_size({"width": width - 100, "height": 500})
    tab.wait_for_function(f"document.querySelector('.sg').offsetHeight < {height}", timeout=5000)


OVER = """(edges) => { const { left, top, width, height } = edges.getBoundingClientRect();
  return { size: [width, height], reaches: document.elementFromPoint(left + 3, top + height / 2) === edges }; }"""

CUT = """(sides) => { const { classList } = document.querySelector('.sg-cv + div');
  return [...'lr'].filter((side) => classList.contains(side)).join('') === sides; }"""


def test_it_is_plain_that_there_is_more(browser: Browser, tmp_path: Path) -> None:
    """A scroll bar that takes its place, whatever the system does with its own; it fades at each side that is cut."""
    tab = browser.new_page(viewport={"width": 600, "height": 700})
    visit(tab, tmp_path, without_policy(page_text(portrait("gan"))))  # waiting evaluates
    box, edges = tab.locator(".sg-cv"), tab.locator(".sg-cv + div")
    assert box.evaluate("(box) => parseFloat(getComputedStyle(box, '::-webkit-scrollbar').height)") > 8
    assert box.locator("[tabindex='0']").count() == 1
    for left, sides in ((0, "r"), (40, "lr"), (9999, "l")):
        box.evaluate("(box, left) => { box.scrollLeft = left; box.scrollTop = 0; }", left)
        tab.wait_for_function(CUT, arg=sides)
    over = edges.evaluate(OVER)
    assert over["size"] == box.evaluate("(box) => [box.clientWidth, box.clientHeight]"), "beside the scroll bars"
    assert over["reaches"] is False, "what lies below is clicked as ever"
    tab.set_viewport_size({"width": 1400, "height": 1200})
    tab.wait_for_function("!document.querySelector('.sg-cv + div').matches('.l, .r, .t, .b')")
    tab.close()


def test_after_a_click_anywhere_in_it_the_keys_step_and_parts_are_walked_to(tab: Page, tmp_path: Path) -> None:
    """Also where a picture scrolls sideways, and on into a pass that fits; no key is the scroll bar's."""
    for width in (400, 1280):
        tab.set_viewport_size({"width": width, "height": 700})
        visit(tab, tmp_path, page_text(loop()))
        box, count = tab.locator(".sg-cv"), tab.locator(".sg-ct")
        box.click(position={"x": 3, "y": 3})
        told = []
        for key in ("Home", "ArrowRight", "ArrowRight", "ArrowLeft", "End", *["ArrowLeft"] * 9):
            tab.keyboard.press(key)
            told.append(f"{tab.locator('.sg-pn').inner_text()} {count.inner_text()}")
            assert tab.evaluate("!!document.activeElement.closest('.sg')"), (width, key)
        assert told[3] == told[1]
        assert len(set(told)) >= 12
        before = box.evaluate("(box) => box.scrollLeft")
        box.locator("[tabindex='0']").focus()
        seen = set()
        for _ in range(12):
            tab.keyboard.press("ArrowDown")
            assert tab.evaluate(BETWEEN, [".nd:focus .halo", ".sg-cv"])
            seen.add(box.evaluate("(box) => box.scrollLeft"))
        assert width > 400 or seen - {before}, "sideways too"


def of_the_gallery(name: str) -> Recording:
    program = read_programs(ROOT)[name]
    return plays(program)[program.choices[0]].recording


def test_all_that_a_step_is_about_is_whole_before_what_stands_around_it(tab: Page, tmp_path: Path) -> None:
    """A call and what it made, which has a long name: their neighbour on the other side would fit more easily."""
    tab.set_viewport_size({"width": 385, "height": 800})
    visit(tab, tmp_path, page_text(of_the_gallery("state_made_anew")))
    box = tab.locator(".sg-cv")
    assert box.evaluate("(box) => box.scrollWidth > box.clientWidth")
    left, right = box.evaluate(SIDES)
    active = tab.locator(".sg-cv .nd[data-s=a]")
    assert active.count() == 2
    for part in active.all():
        start, end = part.locator(".bx").first.evaluate(SIDES)
        assert left <= start < end <= right


@pytest.mark.parametrize("width", one_in(2, [320, 400, 560]))
def test_many_passes_have_room_in_a_narrow_window(width: int, tab: Page, tmp_path: Path) -> None:
    tab.set_viewport_size({"width": width, "height": 800})
    visit(tab, tmp_path, page_text(of_the_gallery("schedule_of_epochs")))
    strip = tab.locator(".sg-ps")
    assert strip.locator("i").count() == 48
    assert strip.evaluate("(strip) => strip.scrollWidth <= strip.clientWidth")
    left, right = strip.evaluate(SIDES)
    for part in strip.locator("button, .sg-pn, .sg-pl, i").all():
        start, end = part.evaluate(SIDES)
        assert left <= start < end <= right


def test_a_pass_s_slider_moves_the_pass(tab: Page, tmp_path: Path) -> None:
    visit(tab, tmp_path, page_text(loop()))
    slider, label = tab.locator(".sg-pb input"), tab.locator(".sg-pn")
    slider.focus()
    told = []
    for key in ("Home", "ArrowRight", "ArrowRight", "ArrowLeft", "End"):
        tab.keyboard.press(key)
        told.append(label.inner_text())
        assert slider.evaluate("(slider) => slider === document.activeElement")
    assert told[1] == told[3] != told[2]
    assert len(set(told)) >= 3


def test_the_legend_does_not_scroll_away(tab: Page, tmp_path: Path) -> None:
    tab.set_viewport_size({"width": 560, "height": 700})
    visit(tab, tmp_path, page_text(portrait("gan")))
    inside = "(legend) => [legend.scrollWidth <= legend.clientWidth, !legend.closest('.sg-cv'), legend.innerText]"
    fits, beside, words = tab.locator(".sg-lg").evaluate(inside)
    assert fits
    assert beside
    assert "torch raised" in words
    tab.locator(".sg-tl input").focus()
    tab.keyboard.press("Home")
    assert "torch raised" not in tab.locator(".sg-lg").inner_text()


def test_the_line_that_runs_is_in_sight(tab: Page, tmp_path: Path) -> None:
    visit(tab, tmp_path, page_text(long_program()))
    in_sight = [".sg-cd .cur", ".sg-cd"]
    assert tab.evaluate(BETWEEN, in_sight)
    assert tab.locator(".sg-cd").get_attribute("tabindex") == "0"
    tab.locator(".sg-tl input").focus()
    for key in ("Home", *["ArrowRight"] * 4, "End", "ArrowLeft", "ArrowLeft"):
        tab.keyboard.press(key)
        assert tab.locator(".sg-cd .cur").count() == 0 or tab.evaluate(BETWEEN, in_sight), key


def test_the_line_that_did_it_is_in_sight_and_the_verdict_leads_to_the_others(tab: Page, tmp_path: Path) -> None:
    written = ["h = w.exp()", *(f"k{k} = {k}" for k in range(30)), "h.mul_(2)", *(f"n{k} = {k}" for k in range(30))]
    code = "\n".join([*written, "h.sum().backward()"])
    visit(tab, tmp_path, page_text(record(Portrait("far", "w = torch.ones(2, requires_grad=True)", code))))
    pane, links = ".sg-cd", tab.locator(".dg .sg-li")
    assert links.all_inner_texts() == ["Line 32", "line 1"]
    assert tab.evaluate(BETWEEN, [".sg-cd .bad", pane])
    links.nth(1).click()
    assert tab.evaluate(BETWEEN, [".sg-cd li[data-n='1']", pane])
    assert tab.locator(".sg-cv .sel").count() == 1, "its card is shown"
    links.nth(0).focus()
    tab.keyboard.press("Enter")
    assert tab.evaluate(BETWEEN, [".sg-cd .bad", pane])


@pytest.mark.parametrize("kind", [None, "culprit"])
def test_a_long_line_wraps_inside_its_pane(kind: str | None, tab: Page, tmp_path: Path) -> None:
    recording = long_program()
    visit(tab, tmp_path, page_text(recording, question=ask(recording, kind) if kind else None))
    line = tab.locator(f".sg-cd li[data-n='{LONG.index('h4.mul_(2)')}']")
    height_px, room_px, used_px = line.evaluate(
        "(li) => [li.offsetHeight, li.parentElement.clientWidth, li.parentElement.scrollWidth]"
    )
    assert height_px in {40, 60, 80}, "whole rows"
    assert room_px == used_px
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_what_is_wrapped_goes_on_further_in_than_its_line_began(tab: Page, tmp_path: Path) -> None:
    tab.set_viewport_size({"width": 400, "height": 700})
    code = "for _ in range(1):\n    if True:\n        y = w.exp() * 2 + w.sin() * 3 + w.cos() * 4 + w.tanh() * 5"
    visit(tab, tmp_path, page_text(record(Portrait("deep", "w = torch.ones(2)", code))))
    lefts = tab.locator(".sg-cd li").last.evaluate(ROWS_LEFT_PX)
    assert len(lefts) > 1
    assert min(lefts[1:]) >= lefts[0] + 10


def test_a_long_row_that_fails_at_its_start_is_shown_there(tab: Page, tmp_path: Path) -> None:
    visit(tab, tmp_path, page_text(chain(9)))
    assert tab.evaluate(BETWEEN, [".nd[data-s=e]", ".sg-cv"])


@pytest.mark.parametrize("width", one_in(2, [420, 800, 1280]))
def test_the_words_beside_the_code_are_seen_whole(width: int, tab: Page, tmp_path: Path) -> None:
    """What a finding says to its end, with the rows of what is selected: nothing of it is hidden."""
    tab.set_viewport_size({"width": width, "height": 800})
    visit(tab, tmp_path, page_text(loop()))
    tab.locator(".sg-cv .nd.leaf").first.dispatch_event("click")
    assert tab.locator(".sg-in tr").count() > 5
    assert tab.locator(".sg-in").evaluate("(pane) => pane.scrollHeight <= pane.clientHeight")
    hidden = "(last) => last.getBoundingClientRect().bottom > last.closest('.sg-ft').getBoundingClientRect().bottom"
    assert not tab.locator(".sg-in > :last-child").evaluate(hidden)


@needs_axe
def test_axe_finds_nothing_where_everything_scrolls(tab: Page, tmp_path: Path) -> None:
    tab.set_viewport_size({"width": 700, "height": 700})
    visit(tab, tmp_path, without_policy(page_text(portrait("gan"))))
    assert findings(tab) == []
    visit(tab, tmp_path, without_policy(page_text(long_program())))
    assert findings(tab) == []
    tab.set_viewport_size({"width": 1280, "height": 420})
    visit(tab, tmp_path, without_policy(page_text(portrait("views"))))
    assert findings(tab) == []


SMALLEST_PX = """(svg) => Math.min(...[...svg.querySelectorAll("text")].map((text) =>
    parseFloat(getComputedStyle(text).fontSize) * svg.getBoundingClientRect().width / svg.viewBox.baseVal.width))"""


def readable(tab: Page) -> bool:
    """Is all that is written in the picture at least 11 px high, and what there's no room for to be scrolled to?"""
    box, smallest_px = tab.locator(".sg-cv"), tab.locator(".sg-cv > svg").evaluate(SMALLEST_PX)
    over = box.evaluate("(box) => box.scrollWidth > box.clientWidth || box.scrollHeight > box.clientHeight")
    return smallest_px > 10.99 and (not over or tab.locator(".sg-cv[tabindex='0'], .sg-cv [tabindex='0']").count() == 1)


@pytest.mark.parametrize("kind", one_in(2, [None, "keeps", "order"]))
def test_a_picture_opens_as_large_as_its_words_need_also_where_it_asks(
    kind: str | None, tab: Page, tmp_path: Path
) -> None:
    recording = chain(3)
    for width, height in ((1000, 800), (800, 700), (560, 700)):
        tab.set_viewport_size({"width": width, "height": height})
        visit(tab, tmp_path, page_text(recording, question=ask(recording, kind) if kind else None))
        assert readable(tab), (width, height)


def test_what_is_wider_by_its_margins_alone_needs_no_scrolling(tab: Page, tmp_path: Path) -> None:
    text = page_text(chain(3))
    tab.set_viewport_size({"width": 1000, "height": 800})
    visit(tab, tmp_path, text)
    box = tab.locator(".sg-cv")
    wide = draw(chain(3)).width_px
    for less, scrolls in ((7, False), (20, True)):
        by = box.evaluate("(box) => box.clientWidth") - wide + less
        tab.set_viewport_size({"width": round(tab.viewport_size["width"] - by), "height": 800})
        assert box.evaluate("(box) => box.scrollWidth > box.clientWidth") == scrolls
        assert readable(tab)


@pytest.mark.parametrize("name", one_in(2, ["written", "gan", "l1_l4", "residual"]))
def test_what_failed_opens_as_large_as_its_words_need(name: str, tab: Page, tmp_path: Path) -> None:
    """Before a key is pressed, where what failed, what it had saved and the write are wider than their box, too."""
    text = page_text(chain(0) if name == "written" else portrait(name))
    for width in (400, 480, 560):
        tab.set_viewport_size({"width": width, "height": 800})
        visit(tab, tmp_path, text)
        assert readable(tab), width
        assert tab.evaluate(BETWEEN, [".nd[data-s=e]", ".sg-cv"]), "what failed is in sight"


def test_an_exercise_opens_as_large_as_its_words_need(tab: Page, tmp_path: Path) -> None:
    tab.set_viewport_size({"width": 880, "height": 800})
    for each in picked("01_computational_graphs"):
        visit(tab, tmp_path, pair_page([each.scene], ""))
        assert readable(tab)


def test_a_picture_without_a_finding_opens_at_its_beginning_and_full_screen_gives_it_more_room(
    tab: Page, tmp_path: Path
) -> None:
    """Its last step stands at its right end; the leaves at its beginning are what is read first."""
    for width in (420, 560):
        tab.set_viewport_size({"width": width, "height": 800})
        visit(tab, tmp_path, page_text(chain_of_steps()))
        box = tab.locator(".sg-cv")
        assert box.evaluate("(box) => box.scrollWidth > box.clientWidth")
        assert box.evaluate("(box) => [box.scrollLeft, box.scrollTop]") == [0, 0]
        tab.locator(".sg").press("Home")
        tab.locator(".sg").press("End")
        assert box.evaluate("(box) => box.scrollLeft") > 0, "from then on the step is in sight"
        height = box.evaluate("(box) => box.clientHeight")
        tab.get_by_role("button", name="Full screen").click()
        tab.wait_for_selector(".sg:fullscreen")
        assert box.evaluate("(box) => box.clientHeight") >= height
        assert tab.locator(".sg-in p").first.is_visible()
        tab.evaluate("document.exitFullscreen()")


def test_the_mark_of_a_pass_stands_above_its_bar_however_flat(tab: Page, tmp_path: Path) -> None:
    visit(tab, tmp_path, page_text(loop()))
    places = """(mark) => [mark, mark.parentElement, mark.closest(".sg-pb")].map((each) => each.getBoundingClientRect())
        .map(({ top, bottom }) => [top, bottom])"""
    for each in tab.locator(".sg-pb b").all():
        mark, bar, strip = each.evaluate(places)
        assert mark[1] <= bar[0] + 1
        assert mark[0] >= strip[0] - 1
    assert tab.locator(".sg-pb b").count()
