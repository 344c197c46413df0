"""The whole site: each link leads somewhere, each picture steps, nobody else is asked, and it is small."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.test_pictures import needs_axe
from tests.browser.test_site_pages import axe

pytestmark = [pytest.mark.browser, pytest.mark.whole]

ROOT = Path(__file__).parents[2]
MOST_BYTES = 60_000_000
MOST_FIRST_BYTES = 300_000
WIDTHS_PX = (360, 1280, 1920)
OPEN = "document.querySelectorAll('details').forEach((each) => { each.open = true; })"  # answers that wait
ELSEWHERE = ("https://", "http://", "mailto:", "data:")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "site"
    command = [sys.executable, "-m", "tools.site", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def tab(browser: Browser) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    yield page
    page.close()


class Links(HTMLParser):
    """Where a page leads, and the places on it that others lead to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.to: list[str] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del tag
        known = dict(attrs)
        self.places |= {value for key in ("id", "name") if (value := known.get(key))}
        self.to += [value for key in ("href", "src") if (value := known.get(key))]


def pages(site: Path) -> list[Path]:
    return sorted(site.rglob("*.html"))


def test_each_link_leads_somewhere(site: Path) -> None:
    known = {page: Links(page.read_text(encoding="utf-8")) for page in pages(site)}
    assert len(known) > 100
    missing = []
    for page, links in known.items():
        for link in links.to:
            if link.startswith(ELSEWHERE):
                continue
            path, place = urldefrag(link)
            target = (page.parent / unquote(path.partition("?")[0])).resolve() if path else page
            if not target.is_file():
                missing.append(f"{page.relative_to(site)}: {link}")
            elif place and target in known and unquote(place) not in known[target].places:
                missing.append(f"{page.relative_to(site)}: {link} has no such place")
    assert missing == []


def test_each_picture_steps_and_nobody_is_asked(site: Path, tab: Page) -> None:
    wrong: list[str] = []
    tab.on("pageerror", lambda error: wrong.append(f"{tab.url}: {error}"))
    tab.on("console", lambda message: wrong.append(f"{tab.url}: {message.text}") if message.type == "error" else None)
    tab.on("request", lambda asked: None if asked.url.startswith(("file:", "data:")) else wrong.append(asked.url))
    played = 0
    for page in pages(site):
        tab.goto(page.as_uri())
        tab.evaluate(OPEN)
        wanted = tab.locator("article .picture, article .program").count()
        tracks = tab.locator("article .sg-tl input")
        if tracks.count() != wanted:
            wrong.append(f"{page.relative_to(site)}: {tracks.count()} of {wanted} pictures play")
        for track in tracks.all():
            track.press("Home")
            first = track.input_value()
            track.press("ArrowRight")
            if track.input_value() == first:
                wrong.append(f"{page.relative_to(site)}: a picture doesn't step")
            played += 1
    assert wrong == []
    assert played > 200


def test_each_choice_of_each_program_is_there(site: Path, tab: Page) -> None:
    """What the form can say is what the page has recorded."""
    wrong = []
    for page in sorted((site / "gallery").glob("*.html")):
        tab.goto(page.as_uri())
        said = tab.evaluate(
            """() => [...document.querySelectorAll(".program")].map((each) => [
              [...each.querySelectorAll("fieldset")].reduce((n, one) => n * one.querySelectorAll("input").length, 1),
              Object.keys(JSON.parse(each.querySelector("script").textContent)).length])"""
        )
        wrong += [page.name for wanted, there in said if wanted != there]
    assert wrong == []


@needs_axe
def test_axe_finds_nothing_on_any_page(site: Path, tab: Page) -> None:
    found = []
    for number, page in enumerate(pages(site)):
        theme, width_px = ("light", "dark")[number % 2], WIDTHS_PX[number % 3]
        tab.emulate_media(color_scheme="dark" if theme == "dark" else "light")
        tab.set_viewport_size({"width": width_px, "height": 900})
        tab.goto(page.as_uri())
        found += [f"{page.relative_to(site)} ({theme}, {width_px} px): {each}" for each in axe(tab)]
        for wide_px in WIDTHS_PX:
            tab.set_viewport_size({"width": wide_px, "height": 900})
            if tab.evaluate("document.documentElement.scrollWidth") > wide_px:
                found.append(f"{page.relative_to(site)} is wider than {wide_px} px")
    assert found == []


def test_it_is_small(site: Path, tab: Page) -> None:
    assert sum(path.stat().st_size for path in site.rglob("*") if path.is_file()) <= MOST_BYTES
    asked: list[str] = []
    tab.on("request", lambda each: asked.append(unquote(urldefrag(each.url).url.partition("?")[0])))
    for first in (site / "index.html", site / "zh_CN" / "index.html"):
        asked.clear()
        tab.goto(first.as_uri(), wait_until="networkidle")
        files = {Path(url.removeprefix("file://")) for url in asked if url.startswith("file:")}
        assert sum(path.stat().st_size for path in files) <= MOST_FIRST_BYTES
