"""The canonical pictures in a real browser: as they were last looked at, readable by everybody, small, and silent.

`SEEGRAD_GOLDENS=write pytest tests/browser/test_pictures.py` takes them anew; look at each before committing it.
"""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
from collections.abc import Iterator
from io import BytesIO
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, ImageChops
from playwright.sync_api import Browser, Page

from nbjudge_tests.session import one_in
from seegrad.display.page import page as page_text
from seegrad.model.recording import Recording
from seegrad.quiz import ask
from tools.pictures.portraits import PORTRAITS, THEMES, Portrait, Theme, open_box, record

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]
GOLDENS = Path(__file__).parent / "goldens"
AXE = ROOT / "frontend" / "node_modules" / "axe-core" / "axe.min.js"
WIDTH_PX = 1232
SEEN = 48  # of 255: less is a matter of smoothing
MOST_CHANGED = 0.004  # of all pixels
MOST_PLAYER_BYTES = 22_000
MOST_GRAPH_BYTES = 60_000
FONTS = {"monospace": "DejaVu Sans Mono", "system-ui": "DejaVu Sans"}


@pytest.fixture(scope="module")
def recordings() -> dict[str, Recording]:
    return {portrait.name: record(portrait) for portrait in PORTRAITS}


@pytest.fixture
def tab(browser: Browser) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": WIDTH_PX, "height": 900}, reduced_motion="reduce")
    yield page
    page.close()


def visit(tab: Page, folder: Path, text: str, theme: Theme = "light") -> list[str]:
    """Open a page; whatever goes wrong on it is collected."""
    wrong: list[str] = []
    path = folder / "graph.html"
    path.write_text(text, encoding="utf-8")
    tab.emulate_media(color_scheme=theme)
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    tab.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    tab.on("request", lambda request: None if request.url.startswith("file:") else wrong.append(request.url))
    tab.goto(path.as_uri())
    return wrong


def named(parameter: Portrait | Theme) -> str:
    """Its name among the tests' own."""
    return parameter if isinstance(parameter, str) else parameter.name


def has_the_fonts() -> bool:
    """The goldens were taken with these fonts; with others every letter differs."""
    fc_match = shutil.which("fc-match")
    if fc_match is None:
        return False
    said = [subprocess.run([fc_match, name], capture_output=True, text=True, check=False).stdout for name in FONTS]
    return all(f'"{font}"' in each for font, each in zip(FONTS.values(), said, strict=True))


@pytest.mark.parametrize(("portrait", "theme"), one_in(3, product(PORTRAITS, THEMES)), ids=named)
def test_it_looks_as_it_did(
    portrait: Portrait, theme: Theme, recordings: dict[str, Recording], tab: Page, tmp_path: Path
) -> None:
    wrong = visit(tab, tmp_path, page_text(recordings[portrait.name]), theme)
    open_box(tab, portrait)
    assert wrong == []
    shot = Image.open(BytesIO(tab.locator(".sg-cv").screenshot())).convert("RGB")
    golden = GOLDENS / f"{portrait.name}_{theme}.png"
    if os.environ.get("SEEGRAD_GOLDENS") == "write":
        golden.parent.mkdir(exist_ok=True)
        shot.quantize(256).save(golden, optimize=True)  # with 64 amber and red were one
        return
    if not has_the_fonts():
        pytest.skip(f"the goldens were taken with other fonts than those here: {FONTS}")
    with Image.open(golden) as before:
        assert shot.size == before.size
        difference = ImageChops.difference(shot, before.convert("RGB")).convert("L")
    changed = sum(difference.histogram()[SEEN:]) / (shot.width * shot.height)
    assert changed <= MOST_CHANGED, f"{changed:.2%} of the pixels changed"


def findings(tab: Page) -> list[str]:
    """What axe-core finds: rule, number of elements, the first of them."""
    tab.add_script_tag(path=AXE)
    found: list[dict[str, Any]] = tab.evaluate("axe.run(document).then((result) => result.violations)")
    return [f"{each['id']} ×{len(each['nodes'])}: {each['nodes'][0]['html'][:160]}" for each in found]


needs_axe = pytest.mark.skipif(not AXE.exists(), reason="axe-core isn't installed; run: cd frontend && npm ci")


def without_policy(text: str) -> str:
    """The page without its content policy, which keeps axe out as it keeps out everything else."""
    return text.replace("Content-Security-Policy", "x-not-a-policy")


@needs_axe
@pytest.mark.parametrize(("portrait", "theme"), one_in(7, product(PORTRAITS, THEMES)), ids=named)
def test_axe_finds_nothing(
    portrait: Portrait, theme: Theme, recordings: dict[str, Recording], tab: Page, tmp_path: Path
) -> None:
    visit(tab, tmp_path, without_policy(page_text(recordings[portrait.name])), theme)
    assert findings(tab) == []
    first = tab.locator(".sg-cv .nd[data-s]:not([data-s=g])").first
    first.focus()
    tab.keyboard.press("Enter")
    tab.keyboard.press("f")
    tab.keyboard.press("Home")
    assert findings(tab) == []


@needs_axe
@pytest.mark.parametrize("kind", one_in(2, ["outcome", "leaves", "culprit"]))
def test_axe_finds_nothing_in_an_open_question(
    kind: str, recordings: dict[str, Recording], tab: Page, tmp_path: Path
) -> None:
    recording = recordings["data"]
    visit(tab, tmp_path, without_policy(page_text(recording, question=ask(recording, kind))))
    assert findings(tab) == []


def test_every_action_can_be_reached_by_keyboard_and_the_focus_is_seen(
    recordings: dict[str, Recording], tab: Page, tmp_path: Path
) -> None:
    visit(tab, tmp_path, page_text(recordings["network"]))
    reached: list[str] = []
    for _ in range(20):
        tab.keyboard.press("Tab")
        name, seen = tab.evaluate(
            """() => {
                const here = document.activeElement;
                const style = getComputedStyle(here);
                const halo = here.querySelector?.(":scope > .halo");
                const ring = style.outlineStyle !== "none" || (halo && getComputedStyle(halo).stroke !== "none")
                    || here.matches("input[type=range]");
                return [here.getAttribute("class") ?? here.tagName + (here.type ?? ""), ring];
            }"""
        )
        if name in reached and name.startswith("BODY"):
            break
        assert seen or name.startswith("BODY"), name
        reached.append(name)
    assert any("nd " in name for name in reached), "a part of the picture"
    assert any("search" in name for name in reached)
    assert any("range" in name for name in reached)
    tab.locator(".bd").first.focus()
    tab.keyboard.press("Enter")
    assert tab.locator(".sg-cr [aria-current]").inner_text() != "whole graph"
    tab.keyboard.press("Escape")
    assert tab.locator(".sg-cr [aria-current]").inner_text() == "whole graph"


def test_nothing_moves_where_motion_is_unwanted(recordings: dict[str, Recording], tab: Page, tmp_path: Path) -> None:
    visit(tab, tmp_path, page_text(recordings["l1_l4"]))
    moving = """() => document.getAnimations().length"""
    tab.locator(".sg-tl input").focus()
    tab.keyboard.press("ArrowLeft")
    assert tab.evaluate(moving) == 0
    tab.emulate_media(reduced_motion="no-preference")
    tab.keyboard.press("ArrowLeft")
    assert tab.evaluate(moving) > 0, "a gradient that runs is seen to run"


def test_player_and_pictures_are_small(recordings: dict[str, Recording]) -> None:
    static = ROOT / "seegrad" / "static"
    assert len(gzip.compress((static / "widget.js").read_bytes(), 9)) <= MOST_PLAYER_BYTES
    sizes = {name: len(gzip.compress(page_text(recording).encode(), 9)) for name, recording in recordings.items()}
    chapter_sized = {name: size for name, size in sizes.items() if not name.startswith("network")}
    assert max(chapter_sized.values()) <= MOST_GRAPH_BYTES, chapter_sized
