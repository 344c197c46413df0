"""The whole site: each link leads somewhere, each picture steps, nobody else is asked, and it is small."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote, unquote, urldefrag

import pytest
import torch
from playwright.sync_api import Browser, Page

from tests.browser.test_pictures import needs_axe
from tests.browser.test_site_pages import axe
from tools.site.flipped import unpacked

pytestmark = [pytest.mark.browser, pytest.mark.whole]

ROOT = Path(__file__).parents[2]
MOST_BYTES = 60_000_000
MOST_FIRST_BYTES = 300_000
WIDTHS_PX = (360, 1280, 1920)
OPEN = "document.querySelectorAll('details').forEach((each) => { each.open = true; })"  # answers that wait
UNPACKED = "[...document.querySelectorAll('.program')].every((each) => each.querySelector('.sg'))"
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
        tab.wait_for_function(UNPACKED)
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
              each.querySelector("script").textContent])"""
        )
        wrong += [page.name for wanted, packed in said if wanted != len(unpacked(packed))]
    assert wrong == []


@needs_axe
def test_axe_finds_nothing_on_any_page(site: Path, tab: Page) -> None:
    found = []
    for number, page in enumerate(pages(site)):
        theme, width_px = ("light", "dark")[number % 2], WIDTHS_PX[number % 3]
        tab.emulate_media(color_scheme="dark" if theme == "dark" else "light")
        tab.set_viewport_size({"width": width_px, "height": 900})
        tab.goto(page.as_uri())
        tab.wait_for_function(UNPACKED)
        found += [f"{page.relative_to(site)} ({theme}, {width_px} px): {each}" for each in axe(tab)]
        for wide_px in WIDTHS_PX:
            tab.set_viewport_size({"width": wide_px, "height": 900})
            if tab.evaluate("document.documentElement.scrollWidth") > wide_px:
                found.append(f"{page.relative_to(site)} is wider than {wide_px} px")
    assert found == []


def a() -> torch.Tensor:
    return torch.ones(3, requires_grad=True)


def twice(loss: torch.Tensor) -> None:
    loss.backward()
    loss.backward()


def overwritten(h: torch.Tensor) -> None:
    h.add_(1)
    h.sum().backward()


RAISED: dict[str, Callable[[], object]] = {
    "leaf_inplace": lambda: a().add_(1),
    "modified_inplace": lambda: overwritten(a().sigmoid()),
    "no_grad_fn": lambda: torch.ones(3).sum().backward(),
    "non_leaf_grad": lambda: (a() * 2).grad,
    "not_used": lambda: torch.autograd.grad((a() * 2).sum(), a()),
    "numpy_call": lambda: (a() * 2).numpy(),
    "scalar_outputs": lambda: (a() * 2).backward(),
    "second_time": lambda: twice((a() * a()).sum()),
}
PASTED = (
    "{type}: {said}",
    '"{said}"',
    "my backward() says: {said}",
    'File "/home/me/train.py", line 142, in main\n    loss.backward()\n{type}: {said}',
    "我的 backward() 报错：{said}",
)
TAILS = {  # of a message whose first words were left out, also of an operation that no page names
    "is at version 2; expected version 1 instead": "modified_inplace",
    "SigmoidBackward0 is at version 2; expected version 1": "modified_inplace",
    "AddmmBackward0, is at version 2; expected version 1": "modified_inplace",
    "If you indeed want the .grad field to be populated for a non-leaf Tensor, use .retain_grad()": "non_leaf_grad",
    "Set allow_unused=True if this is the desired behavior.": "not_used",
    "Use tensor.detach().numpy() instead.": "numpy_call",
    "Saved intermediate values of the graph are freed when you call .backward()": "second_time",
}
CHINESE = {
    "叶子张量": "course/02_leaf_tensors",
    "原地操作": "course/04_inplace_and_version",
    "原地写入": "course/04_inplace_and_version",
    "计算图": "course/01_computational_graphs",
    "动态图": "course/07_dynamic_graphs",
    "钩子": "course/03_retain_grad_and_hooks",
    "学习率": "gallery/never_stepped",
    "版本号": "course/05_data_versus_detach",
    "梯度裁剪": "gallery/clipped_late",
    "梯度清零": "gallery/cleared_before_step",
    "梯度累积": "gallery/unfinished_window",
    "梯度累加": "gallery/unfinished_window",
    "安装": "index",
    "冻结参数": "gallery/freeze_in_vain",
    "隐藏状态": "errors/second_time",
    "非叶子张量": "gallery/grad_of_a_result",
    "掩码": "errors/modified_inplace",
    "循环": "errors/second_time",
    "缓冲区": "errors/modified_inplace",
    "标量输出": "errors/scalar_outputs",
    "优化器": "errors/modified_inplace",
    "自定义 Function": "gallery/gradient_inside",
    "训练模型": "course/10_a_model_that_trains",
    "数据和分离": "course/05_data_versus_detach",
}


def searched(tab: Page, site: Path, words: str) -> list[str]:
    """The pages that are found, best first."""
    tab.goto(f"{(site / 'search.html').as_uri()}?q={quote(words)}")
    tab.wait_for_function("document.querySelector('.search-summary')?.innerText")
    links = tab.locator("#search-results li a").evaluate_all("(all) => all.map((a) => a.getAttribute('href'))")
    return [urldefrag(link).url.removesuffix(".html") for link in links]


@pytest.mark.parametrize("lang", ["", "zh_CN"])
def test_an_error_that_is_pasted_with_words_around_it_finds_its_page(lang: str, site: Path, tab: Page) -> None:
    assert RAISED.keys() == {page.stem for page in (site / "errors").glob("*.html")} - {"index"}
    missed = []
    for name, does in RAISED.items():
        with warnings.catch_warnings(), pytest.raises((RuntimeError, Warning)) as raised:  # noqa: PT012  # one is warned of
            warnings.simplefilter("error")
            does()
        for form in PASTED:
            found = searched(tab, site / lang, form.format(type=raised.typename, said=raised.value))
            if f"errors/{name}" not in found[:3]:
                missed.append((name, form, found[:3]))
    assert missed == []


@pytest.mark.parametrize("lang", ["", "zh_CN"])
def test_the_tail_of_an_error_alone_finds_its_page(lang: str, site: Path, tab: Page) -> None:
    found = {tail: searched(tab, site / lang, tail)[:3] for tail in TAILS}
    assert {tail: pages for tail, pages in found.items() if f"errors/{TAILS[tail]}" not in pages} == {}


def test_a_chapter_s_parts_are_led_to_and_found(site: Path, tab: Page) -> None:
    for lang, part in (("", "2 · The counter"), ("zh_CN", "2 · 计数器")):
        tab.goto((site / lang / "course" / "04_inplace_and_version.html").as_uri())
        parts = tab.locator(".toc-tree a").all_inner_texts()
        assert part in parts
        assert len(parts) == tab.locator("article h2").count() + 1
        assert "course/04_inplace_and_version" in searched(tab, site / lang, part)[:1]
    assert tab.locator("#search-results a").first.inner_text().endswith(part)


def test_an_error_s_name_leaves_room_for_what_it_means(site: Path, tab: Page) -> None:
    tab.set_viewport_size({"width": 400, "height": 800})
    tab.goto((site / "errors" / "modified_inplace.html").as_uri())
    assert tab.locator("article h2 + p").first.is_visible()
    assert tab.locator("article h2 + p").first.evaluate("(first) => first.getBoundingClientRect().bottom < innerHeight")
    tab.set_viewport_size({"width": 1280, "height": 900})


def test_chinese_words_find_their_pages(site: Path, tab: Page) -> None:
    found = {words: searched(tab, site / "zh_CN", words) for words in CHINESE}
    assert {words: pages[:5] for words, pages in found.items() if CHINESE[words] not in pages[:5]} == {}


def test_it_is_small(site: Path, tab: Page) -> None:
    assert sum(path.stat().st_size for path in site.rglob("*") if path.is_file()) <= MOST_BYTES
    asked: list[str] = []
    tab.on("request", lambda each: asked.append(unquote(urldefrag(each.url).url.partition("?")[0])))
    for first in (site / "index.html", site / "zh_CN" / "index.html"):
        asked.clear()
        tab.goto(first.as_uri(), wait_until="networkidle")
        files = {Path(url.removeprefix("file://")) for url in asked if url.startswith("file:")}
        assert sum(path.stat().st_size for path in files) <= MOST_FIRST_BYTES
