"""How a picture stands in its cell, measured: nothing cut, nothing too small, what belongs together seen together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from nbjudge_tests.session import one_in
from seegrad.display.page import page as page_text
from seegrad.quiz import ask
from tests.browser.test_pictures import visit, without_policy
from tools.pictures.portraits import PORTRAITS, Portrait, record

pytestmark = pytest.mark.browser

CELLS_PX = (400, 640, 800, 1024, 1440)
SMALLEST_PX = 11
DETAILS_PX = 280
FEW = 12  # Functions: so many are to be seen together with the verdict and the line
LOOP = Portrait(
    "loop",
    "net = torch.nn.Linear(4, 1)\nx, y = torch.ones(8, 4), torch.ones(8, 1)",
    "opt = torch.optim.Adam(net.parameters(), lr=0.01, betas=(0.9, 0.999), eps=1e-08, weight_decay=0.0, fused=False)\n"
    "for step in range(3):\n    opt.zero_grad()\n    loss = ((net(x) - y) ** 2).mean()\n    loss.backward()\n"
    "    opt.step()",
)
SHOWN = {portrait.name: portrait for portrait in (*PORTRAITS, LOOP)}

MEASURE = """() => {
    const of = (name) => document.querySelector(name).getBoundingClientRect();
    const svg = document.querySelector(".sg-cv svg");
    const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
    const said = [...document.querySelectorAll(".sg *")].filter((each) =>
        [...each.childNodes].some((node) => node.nodeType === 3 && node.data.trim())
        && !each.closest(".ghost, .sg-sr, title, [hidden]"));
    const size = (each) => parseFloat(getComputedStyle(each).fontSize) * (svg.contains(each) ? scale : 1);
    const cell = of(".sg");
    const out = [...document.querySelectorAll(".sg *")].filter((each) => {
        const box = each.getBoundingClientRect();
        return box.width && !each.closest(".sg-sr") && !each.parentElement.closest(".sg-cv, .sg-cd")
            && (box.left < cell.left - 1 || box.right > cell.right + 1);
    });
    const [code, details] = [of(".sg-cd"), of(".sg-in")];
    return {
        small: said.filter((each) => size(each) < SMALLEST - 0.1).map((each) => each.outerHTML.slice(0, 90)),
        out: out.map((each) => each.outerHTML.slice(0, 90)),
        details: details.width, under: details.top >= code.bottom - 1,
        page: document.documentElement.scrollWidth <= innerWidth, track: of(".sg-tl").width,
    };
}""".replace("SMALLEST", str(SMALLEST_PX))


@pytest.fixture
def tab(browser: Browser) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": 1280, "height": 800}, reduced_motion="reduce")
    yield page
    page.close()


@pytest.mark.parametrize("name", one_in(2, ["l1_l4", "data", "loop"]))
def test_it_fits_into_a_cell_of_any_width(name: str, tab: Page, tmp_path: Path) -> None:
    visit(tab, tmp_path, page_text(record(SHOWN[name])))
    for width_px in CELLS_PX:
        tab.set_viewport_size({"width": width_px + 32, "height": 800})
        seen: dict[str, Any] = tab.evaluate(MEASURE)
        assert seen["small"] == [], width_px
        assert seen["out"] == [], width_px
        assert seen["page"], width_px
        assert seen["details"] >= DETAILS_PX, width_px
        assert seen["under"] == (width_px <= 620), width_px
        assert seen["track"] >= 120, width_px


def test_the_cell_counts_and_not_the_window(tab: Page, tmp_path: Path) -> None:
    """As in JupyterLab beside its files: a wide window, a narrow cell."""
    visit(tab, tmp_path, page_text(record(SHOWN["data"])))
    tab.evaluate("document.querySelector('.sg').parentElement.style.width = '420px'")
    seen = tab.evaluate(MEASURE)
    assert seen["under"]
    assert seen["out"] == []


def test_graph_verdict_and_line_are_seen_together(tab: Page, tmp_path: Path) -> None:
    """All of the verdict and the line, and of the graph the part that it is about."""
    looked_at = 0
    for portrait in PORTRAITS:
        recording = record(portrait)
        if len([node for node in recording.nodes if node.leaf is None]) > FEW:
            continue
        looked_at += 1
        visit(tab, tmp_path, page_text(recording))
        for part in (
            ".sg-cv",
            ".sg-in > p",
            ".sg-in .dg",
            ".sg-cd .cur",
            ".nd[data-s=e], .nd[data-s=w], .nd[data-s=a]",
        ):
            for box in [each.bounding_box() for each in tab.locator(part).all()][:1]:
                assert box is not None
                assert box["y"] >= 0, (portrait.name, part)
                assert box["y"] + box["height"] <= 800, (portrait.name, part)
    assert looked_at > 5


def test_a_high_picture_has_its_words_beside_it(tab: Page, tmp_path: Path) -> None:
    visit(tab, tmp_path, page_text(record(SHOWN["views"])))
    graph, words = tab.locator(".sg-cv").bounding_box(), tab.locator(".sg-ft").bounding_box()
    assert graph is not None
    assert words is not None
    assert graph["x"] + graph["width"] <= words["x"] + 1
    assert words["width"] >= DETAILS_PX
    assert graph["height"] > 0.7 * 800
    tab.set_viewport_size({"width": 1280, "height": 420})
    tab.locator(".sg-ft[tabindex]").wait_for()  # words that don't fit scroll by keyboard too
    tab.set_viewport_size({"width": 900, "height": 800})
    expect(tab.locator(".sg.high"), "no room beside it").to_have_count(0)  # once the page has heard of its new size


def test_all_of_it_or_readable_by_key_button_and_drag(tab: Page, tmp_path: Path) -> None:
    tab.set_viewport_size({"width": 640, "height": 800})
    visit(tab, tmp_path, page_text(record(SHOWN["gan"])))
    box = tab.locator(".sg-cv")
    sizes = "(box) => [box.scrollWidth - box.clientWidth, box.scrollHeight - box.clientHeight, box.scrollLeft]"
    over_px = box.evaluate(sizes)[0]
    assert over_px > 0
    tab.locator(".sg-zm").nth(2).click()
    assert max(box.evaluate(sizes)[:2]) <= 0, "all of it"
    tab.keyboard.press("1")
    assert box.evaluate(sizes)[0] == over_px, "readable again"
    tab.keyboard.press("+")
    assert box.evaluate(sizes)[0] > over_px
    place = box.bounding_box()
    assert place is not None
    before = box.evaluate(sizes)[2]
    tab.mouse.move(place["x"] + 200, place["y"] + 3)
    tab.mouse.down()
    tab.mouse.move(place["x"] + 260, place["y"] + 3, steps=3)
    tab.mouse.up()
    assert box.evaluate(sizes)[2] == max(0, before - 60)


def test_full_screen_and_back(tab: Page, tmp_path: Path) -> None:
    visit(tab, tmp_path, without_policy(page_text(record(SHOWN["l1_l4"]))))  # waiting evaluates
    tab.locator(".sg-zm").nth(3).click()
    tab.wait_for_selector(".sg:fullscreen")
    whole = tab.locator(".sg").bounding_box()
    assert whole is not None
    assert whole["width"] == tab.evaluate("innerWidth")
    tab.locator(".sg-zm").nth(3).click()
    tab.wait_for_selector(":fullscreen", state="detached")


def test_the_gradient_is_followed_to_one_leaf(tab: Page, tmp_path: Path) -> None:
    visit(tab, tmp_path, page_text(record(SHOWN["residual"])))
    leaf = tab.locator(".sg-cv .nd.leaf").first
    leaf.focus()
    tab.keyboard.press("Enter")
    tab.keyboard.press("g")
    kept = tab.locator(".sg-cv .nd.near")
    assert 2 < kept.count() < tab.locator(".sg-cv .nd").count()
    assert tab.locator(".sg-cv .nd.root.near").count() == 1
    dimmed = tab.locator(".sg-cv .nd:not(.near)").first
    assert float(dimmed.evaluate("(part) => getComputedStyle(part).opacity")) < 0.2
    tab.keyboard.press("g")
    assert kept.count() == 0 or not tab.locator(".sg-cv .foc").count()


def test_red_means_wrong(tab: Page, tmp_path: Path) -> None:
    """A healthy training loop shows no red at any step, and ends by saying that no problem was found."""
    visit(tab, tmp_path, page_text(record(LOOP)))
    tab.locator(".sg-tl input").focus()
    red = """() => [...document.querySelectorAll(".sg *")].filter((each) => {
        const style = getComputedStyle(each);
        return !each.closest("defs, .ghost") && [style.fill, style.stroke, style.color].includes("rgb(195, 32, 31)");
    }).length"""
    assert tab.locator(".dg.calm").inner_text() == "2 leaves got a gradient; no problem was found."
    assert tab.evaluate(red) == 0
    assert "var(--er)" not in (tab.locator(".sg-tl .seg").get_attribute("style") or "")
    raising = record(SHOWN["l1_l4"])
    visit(tab, tmp_path, page_text(raising))
    assert tab.evaluate(red) > 0
    for kind in ("outcome", "leaves"):
        visit(tab, tmp_path, page_text(raising, question=ask(raising, kind)))
        assert tab.evaluate(red) == 0, "which write did damage would answer it"
