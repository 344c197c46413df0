"""The offline page in a headless Chromium: it plays, it asks, it follows light and dark, and it fetches nothing."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from nbjudge_tests.session import one_in
from seegrad.__main__ import main
from seegrad.display.page import page as page_text
from seegrad.quiz import ask
from tests.library.recordings import overwritten_alias

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def tab(browser: Browser) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": 1000, "height": 900})
    yield page
    page.close()


def visit(tab: Page, folder: Path, text: str) -> list[str]:
    """Open the page; what goes wrong from now on is collected: errors, and requests beyond the file itself."""
    wrong: list[str] = []
    path = folder / "graph.html"
    path.write_text(text, encoding="utf-8")
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    tab.on("request", lambda request: None if request.url.startswith("file:") else wrong.append(request.url))
    tab.goto(path.as_uri())
    return wrong


def test_it_plays_by_keyboard_and_click(tab: Page, tmp_path: Path) -> None:
    wrong = visit(tab, tmp_path, page_text(overwritten_alias("data")))
    expect(tab.locator(".sg-ct")).to_have_text("7 / 8")
    expect(tab.get_by_text("but the numbers changed")).to_be_visible()
    tab.locator(".sg-tl input").focus()
    tab.keyboard.press("Home")
    expect(tab.locator(".sg-ct")).to_have_text("1 / 8")
    expect(tab.get_by_text("but the numbers changed")).to_be_hidden()
    tab.keyboard.press("End")
    tab.locator("[id$='-f1']").click()
    expect(tab.locator(".sg-in caption")).to_contain_text("SigmoidBackward0")
    assert wrong == []


CUT = """
x = torch.randn(4, 3)
w = torch.randn(3, 1, requires_grad=True)
b = torch.zeros(1, requires_grad=True)
for epoch in range(3):
    h = x @ w
    h = h.detach() + b
    loss = (h ** 2).mean()
    loss.backward()
    with torch.no_grad():
        b -= 0.1 * b.grad
        b.grad = None
"""
OVERWRITTEN = """
a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
out = a.sigmoid()
out.data.zero_()
loss = out.sum()
loss.backward()
"""
FOUND = {"a note": (CUT, "cut the graph", 8), "a wrong gradient": (OVERWRITTEN, "the gradient is wrong", 5)}


@pytest.mark.parametrize("name", FOUND)
def test_a_page_opens_where_its_finding_is_seen(browser: Browser, tmp_path: Path, name: str) -> None:
    """However much the script does after it: what was found, and the line that it is about."""
    script, said, line = FOUND[name]
    script = f"import torch\n{script}" + "".join(f"z{k} = torch.ones(2) * {k}\n" for k in range(30))
    (tmp_path / "script.py").write_text(script, encoding="utf-8")
    assert main(["--html", str(tmp_path / "page.html"), str(tmp_path / "script.py")]) == 0
    tab = browser.new_page(viewport={"width": 1280, "height": 800})
    tab.goto((tmp_path / "page.html").as_uri())
    expect(tab.locator(".sg-in .dg")).to_contain_text(said)
    marked = tab.locator(".sg-cd li:is(.bad, .noted)")
    expect(marked).to_have_attribute("data-n", str(line))
    expect(tab.locator(".sg-in .dg")).to_be_in_viewport(ratio=1)
    expect(marked).to_be_in_viewport()
    tab.close()


def test_it_asks_and_then_tells(tab: Page, tmp_path: Path) -> None:
    recording = overwritten_alias("detach")
    wrong = visit(tab, tmp_path, page_text(recording, question=ask(recording, "culprit")))
    expect(tab.locator(".sg-ct")).to_have_text("5 / ?")
    tab.locator(".sg-cd li").nth(4).click()
    tab.get_by_role("button", name="Check my prediction").click()
    expect(tab.locator(".sg-qv")).to_contain_text("M04")
    expect(tab.locator(".sg-ct")).to_have_text("8 / 8")
    expect(tab.locator(".sg-in .ex")).to_contain_text("modified by an inplace operation")
    assert wrong == []


def test_everything_stays_inside_the_picture_and_readable(tab: Page, tmp_path: Path) -> None:
    """No text sticks out of the drawing, and no text is smaller than 7 pixels at 1000 px."""
    visit(tab, tmp_path, page_text(overwritten_alias("detach")))
    outside = tab.evaluate(
        """() => {
            const frame = document.querySelector("svg.sg-svg").getBoundingClientRect();
            return [...document.querySelectorAll("svg.sg-svg text")].filter((t) => {
                const box = t.getBoundingClientRect();
                const small = parseFloat(getComputedStyle(t).fontSize) < 7;
                const out = box.left < frame.left || box.right > frame.right || box.bottom > frame.bottom;
                return box.width && (small || out);
            }).map((t) => t.textContent);
        }"""
    )
    assert outside == []


def test_it_follows_light_and_dark(tab: Page, tmp_path: Path) -> None:
    tab.emulate_media(color_scheme="dark")
    visit(tab, tmp_path, page_text(overwritten_alias("data")))
    expect(tab.locator(".sg")).to_have_attribute("data-theme", "dark")
    tab.emulate_media(color_scheme="light")
    expect(tab.locator(".sg")).to_have_attribute("data-theme", "light")


def test_it_follows_vs_code_s_theme(tab: Page, tmp_path: Path) -> None:
    """What VS Code sets on a notebook's page: variables on the root, the kind of theme on the body."""
    visit(tab, tmp_path, page_text(overwritten_alias("data")))
    for kind, paper, theme in (
        ("vscode-dark", "rgb(31, 31, 31)", "dark"),
        ("vscode-light", "rgb(255, 255, 250)", "light"),
    ):
        tab.evaluate(
            """([kind, paper]) => {
                document.documentElement.style.setProperty("--vscode-editor-background", paper);
                document.body.style.background = paper;
                document.body.dataset.vscodeThemeKind = kind;
            }""",
            [kind, paper],
        )
        expect(tab.locator(".sg")).to_have_attribute("data-theme", theme)
        expect(tab.locator(".sg")).to_have_css("background-color", paper)


SEEN = """where => [...document.querySelectorAll(where + " text")]
    .filter(text => text.checkVisibility({visibilityProperty: true, opacityProperty: true}))
    .map(text => [text.textContent, getComputedStyle(text).fill, getComputedStyle(text).fontSize])"""


def saved(tab: Page, kind: str, path: Path) -> Path:
    tab.get_by_role("button", name="Save the picture as a file").click()
    with tab.expect_download() as download:
        tab.get_by_role("button", name=kind, exact=True).click()
    download.value.save_as(path)
    return path


@pytest.mark.parametrize(("theme", "key"), one_in(3, product(("light", "dark"), ("Home", "End"))))
def test_the_picture_is_saved_as_it_is_on_screen(browser: Browser, tmp_path: Path, theme: str, key: str) -> None:
    tab = browser.new_page(color_scheme="dark" if theme == "dark" else "light")
    wrong = visit(tab, tmp_path, page_text(overwritten_alias("data"), title="train.py"))
    tab.locator(".sg-tl input").focus()
    tab.keyboard.press(key)
    tab.mouse.move(0, 0)
    on_screen = tab.evaluate(SEEN, ".sg-cv > svg")
    width, height = (float(tab.locator(".sg-cv > svg").get_attribute(side) or 0) for side in ("width", "height"))
    svg = saved(tab, "SVG", tmp_path / "saved.svg")
    header = saved(tab, "PNG", tmp_path / "saved.png").read_bytes()[:24]
    assert [url for url in wrong if not url.startswith(("data:", "blob:"))] == []
    tab.goto(svg.as_uri())
    assert on_screen
    assert tab.evaluate(SEEN, "svg > svg") == on_screen
    assert header[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", header[16:]) == (int(2 * width), int(2 * height))
    tab.close()


def test_nothing_is_saved_while_a_question_is_open(tab: Page, tmp_path: Path) -> None:
    recording = overwritten_alias("data")
    visit(tab, tmp_path, page_text(recording, question=ask(recording, "versions", tensors=("out",))))
    expect(tab.get_by_role("button", name="Save the picture as a file")).to_be_disabled()
