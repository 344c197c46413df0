"""A small site as `make site` builds it: flipped by keys, searched offline, read in two languages, asking no host."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from pathlib import Path
from threading import Thread
from urllib.parse import quote

import nbformat
import pytest
from playwright.sync_api import Browser, Page, expect

from nbjudge_tests.session import one_in
from tests.browser.test_narrow_pictures import ROWS_LEFT_PX
from tests.browser.test_pictures import AXE, needs_axe
from tests.browser.test_site_in_browser import open_page, tab
from tools.course.offline_page import Way, chapter_page
from tools.site.programs import FOLDER
from tools.site.subjects import FLIPS

__all__ = ["tab"]

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]
NAMES = ("data_written", "each_with_all", "hidden_state", "leaf_updated", "never_cleared")
FLIP = ":::{flip} data_written\n:::\n"
FOCUSED = """() => {
    const { left, right } = document.activeElement.getBoundingClientRect();
    return [left, right, document.activeElement.outerHTML.slice(0, 80)];
}"""
INDEX = {
    "en": f"# A small site\n\n{FLIP}\n[A document](docs/one.md)\n\n"
    ":::{toctree}\ngallery/index\ncourse/01_parts\ndocs/one\napi\n:::\n",
    "zh_CN": f"# 小网站\n\n写成两行\n的一句话\n\n{FLIP}\n:::{{toctree}}\ngallery/index\n:::\n",
}
CHAPTER = """# %% [markdown]
# # 01 · Parts
#
# What it is about.

# %%
import torch

# %load_ext seegrad

# %% [markdown]
# ## 1 · The `first`

# %%
# %%see --ask keeps
a = torch.ones(2, requires_grad=True)
b = a * 2
b.sum().backward()

# %% [markdown]
# ## 2 · The second
#
# Nothing.
"""
DOCUMENT = """# A document

Of `code`, a [file](../Makefile), a [place](https://pytorch.org).

| | b |
|---|---|
| 1 | 2 |
"""
WIDTHS_PX = (360, 1280, 1920)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("root")
    (root / FOLDER).mkdir(parents=True)
    (root / "docs" / "one.md").write_text(DOCUMENT, encoding="utf-8")
    (root / "notebooks").mkdir()
    (root / "notebooks" / "01_parts.py").write_text(CHAPTER, encoding="utf-8")
    for name in NAMES:
        shutil.copy(ROOT / FOLDER / f"{name}.py", root / FOLDER)
    shutil.copy(ROOT / FOLDER / "zh_CN.toml", root / FOLDER)
    shutil.copy(ROOT / FLIPS, root / FLIPS)
    for lang, text in INDEX.items():
        (root / "docs" / "site" / lang).mkdir()
        (root / "docs" / "site" / lang / "index.md").write_text(text, encoding="utf-8")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "tools.site", str(folder), "--root", str(root)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert said[-1] == f"wrote {folder}"
    for lang in INDEX:  # a line a page, as it is made
        assert {f"{lang}: {name}" for name in ("index", *(f"gallery/{each}" for each in NAMES))} <= set(said)
    return folder


def test_a_line_is_flipped_by_keys_and_all_follows(site: Path, tab: Page) -> None:
    wrong = open_page(tab, site / "gallery" / "data_written.html")
    now = tab.locator(".sw-now")
    expect(now.first).to_contain_text("silent corruption")
    expect(tab.locator(".sg-cd")).to_contain_text("shown = h.data")
    tab.get_by_role("group", name="Line 5, with alternatives").get_by_role("radio").first.focus()
    tab.keyboard.press("ArrowDown")
    expect(now.first).to_contain_text("saved tensor modified")
    expect(now.nth(1)).to_contain_text("has been modified by an inplace operation")
    expect(now.nth(2)).to_have_text("None")
    expect(tab.get_by_role("status").first).to_have_text("found: saved tensor modified")
    tab.keyboard.press("ArrowDown")
    expect(now.first).to_have_text("nothing")
    expect(now.nth(2)).to_have_text("[2.718, 7.389, 20.09]")
    expect(tab.locator(".sg-cd")).to_contain_text("shown = h.detach().clone()")
    assert (
        tab.locator(".sw-rows tbody td:nth-child(2)").last.inner_text() == "[0.1353, 0.3679, 1]"
    )  # what was is still there
    tab.get_by_role("button", name="The mistake").click()
    expect(now.first).to_contain_text("silent corruption")
    tab.get_by_role("button", name="Mended").click()
    expect(now.first).to_have_text("nothing")
    tab.get_by_label("both pictures").check()
    expect(tab.locator(".sg")).to_have_count(2)
    expect(tab.locator(".sg-cd").first).to_contain_text("shown = h.data")
    assert wrong == []


def test_nothing_is_told_twice_before_a_line_is_flipped(site: Path, tab: Page) -> None:
    open_page(tab, site / "gallery" / "data_written.html")
    told = tab.locator(".sw-rows tbody td:visible")
    alone = told.count()
    tab.get_by_role("button", name="Mended").click()
    expect(told).to_have_count(2 * alone)
    tab.get_by_role("button", name="The mistake").click()
    expect(told).to_have_count(alone)
    expect(tab.get_by_label("both pictures")).to_be_hidden()


def test_in_a_narrow_window_the_picture_is_near_the_line_that_was_flipped(site: Path, tab: Page) -> None:
    """What the mistake said is folded to its beginning; choosing the mistake again shows all of it."""
    tab.set_viewport_size({"width": 400, "height": 800})
    open_page(tab, site / "gallery" / "hidden_state.html")
    was = tab.locator(".sw-rows tbody td:nth-child(2)").first
    high = was.evaluate("(cell) => cell.offsetHeight")
    tab.get_by_role("button", name="Mended").click()
    line, picture = tab.locator("fieldset").last.bounding_box(), tab.locator(".sw-picture:visible").bounding_box()
    assert line
    assert picture
    assert picture["y"] - line["y"] - line["height"] < 450
    tab.get_by_role("button", name="The mistake").click()
    assert was.evaluate("(cell) => cell.offsetHeight") == high


def test_the_gallery_is_in_groups_and_each_program_leads_on(site: Path, tab: Page) -> None:
    tab.set_viewport_size({"width": 400, "height": 800})
    wrong = open_page(tab, site / "gallery" / "index.html")
    lefts = tab.locator(".sw-cards li").evaluate_all("(all) => all.map((one) => one.getBoundingClientRect().left)")
    assert len(set(lefts)) == 2
    groups = tab.locator("article h2").evaluate_all("(all) => all.map((one) => one.firstChild.data)")
    assert tab.locator("article li a[href^='#']").all_inner_texts() == groups
    tab.get_by_role("link", name="Training loops").first.click()
    expect(tab.get_by_role("heading", name="Training loops")).to_be_in_viewport()
    open_page(tab, site / "gallery" / "hidden_state.html")
    tab.get_by_role("link", name="Graphs that are cut or freed").click()
    expect(tab.get_by_role("heading", name="Graphs that are cut or freed")).to_be_in_viewport()
    assert wrong == []


def test_of_an_alternative_that_only_silences_the_line_says_so(site: Path, tab: Page) -> None:
    open_page(tab, site / "gallery" / "hidden_state.html")
    said = tab.get_by_text("this is no cure for a loop")
    expect(said.last).to_be_hidden()
    tab.get_by_role("group").filter(has=tab.get_by_role("radio")).nth(1).get_by_role("radio").nth(1).check()
    expect(said.last).to_be_visible()
    expect(tab.get_by_role("status").first).to_contain_text("no cure for a loop")


def test_in_a_narrow_window_tab_goes_through_what_is_seen(site: Path, tab: Page) -> None:
    tab.set_viewport_size({"width": 400, "height": 800})
    open_page(tab, site / "gallery" / "data_written.html")
    beside = set()
    for _key in range(30):
        tab.keyboard.press("Tab")
        tab.wait_for_timeout(300)  # what slides in has arrived
        left, right, name = tab.evaluate(FOCUSED)
        beside |= {name} if right <= 0 or left >= 400 else set()
    assert beside == set()


def test_every_choice_of_two_lines_is_there(site: Path, tab: Page) -> None:
    wrong = open_page(tab, site / "gallery" / "hidden_state.html")
    seen = set()
    for one in range(2):
        tab.get_by_role("group").filter(has=tab.get_by_role("radio")).nth(0).get_by_role("radio").nth(one).check()
        for other in range(2):
            tab.get_by_role("group").filter(has=tab.get_by_role("radio")).nth(1).get_by_role("radio").nth(other).check()
            seen.add(tuple(tab.locator(".sw-now").all_inner_texts()))
    assert len(seen) == 3  # retain_graph changes nothing where the state is detached
    assert wrong == []


def test_in_a_narrow_window_what_is_wrapped_goes_on_further_in_than_its_line_began(site: Path, tab: Page) -> None:
    tab.set_viewport_size({"width": 320, "height": 700})
    wrapped = 0
    for name in ("each_with_all", "hidden_state"):
        open_page(tab, site / "gallery" / f"{name}.html")
        for code in tab.locator(".sw-code code").all():
            first, *others = code.evaluate(ROWS_LEFT_PX) or [0]
            wrapped += len(others)
            assert all(left >= first + 10 for left in others), code.inner_text()
    assert wrapped > 3


@pytest.mark.parametrize("name", [f"gallery/{name}.html" for name in NAMES] + ["index.html", "zh_CN/index.html"])
def test_every_picture_steps(name: str, site: Path, tab: Page) -> None:
    wrong = open_page(tab, site / name)
    tab.locator(".sg-tl input").focus()
    tab.keyboard.press("Home")
    expect(tab.locator(".sg-ct")).to_contain_text("1 /")
    tab.keyboard.press("End")
    expect(tab.locator(".sg-ct")).not_to_contain_text("1 /")
    assert wrong == []


def test_a_program_s_page_opens_where_something_was_found(site: Path, tab: Page) -> None:
    """Not at the last pass of its loop, where the mistake is in sight no more."""
    wrong = open_page(tab, site / "gallery" / "each_with_all.html")
    expect(tab.locator(".sg-ct")).to_contain_text("7 / 12")
    expect(tab.locator(".sg-in")).to_contain_text("makes [8, 8] of y [8]")
    tab.get_by_role("button", name="Mended").click()
    expect(tab.locator(".sg-ct")).not_to_contain_text("7 / 12")
    assert wrong == []


@pytest.mark.parametrize(
    ("folder", "words", "page"),
    [
        ("", "forgotten", "`zero_grad` forgotten"),
        ("", "my loop has forgotten zero_grad, says somebody called Ermintrude", "`zero_grad` forgotten"),
        ("zh_CN", "版本", "通过 .data 写入"),
        ("zh_CN", "zero_grad", "忘了 zero_grad"),
        ("zh_CN", "版本号计数", "通过 .data 写入"),
    ],
)
def test_it_is_searched_without_a_network(folder: str, words: str, page: str, site: Path, tab: Page) -> None:
    wrong = open_page(tab, site / folder / "index.html")
    tab.locator("input[name=q]").first.fill(words)
    tab.keyboard.press("Enter")
    expect(tab.locator("#search-results a").filter(has_text=page.replace("`", "")).first).to_be_visible()
    assert wrong == []


@pytest.mark.parametrize(
    ("folder", "words", "pages"),
    [
        ("", "AccumulateGrad adds", set()),  # as every picture says at its end, and none is about
        ("zh_CN", "梯度累加", {"never_cleared"}),  # which is about it
        ("", "retain_graph", {"hidden_state"}),  # which stands in a program's code
    ],
)
def test_what_every_picture_says_of_its_steps_is_not_searched(
    folder: str, words: str, pages: set[str], site: Path, tab: Page
) -> None:
    text = (site / folder / "gallery" / "hidden_state.html").read_text(encoding="utf-8")
    assert words.split()[0] in text
    tab.goto(f"{(site / folder / 'search.html').as_uri()}?q={quote(words)}")
    tab.wait_for_function("document.querySelector('.search-summary')?.innerText")
    found = tab.locator("#search-results li a").evaluate_all("(all) => all.map((a) => a.pathname)")
    assert {Path(each).stem for each in found} - {"api"} == pages


@pytest.mark.parametrize(("width", "opened"), [(400, False), (1280, True)])
def test_a_chapter_says_at_once_where_its_parts_are(width: int, opened: bool, site: Path, tab: Page) -> None:
    """Folded in a narrow window, which it would fill; in a wide one the page's margin has them."""
    tab.set_viewport_size({"width": width, "height": 800})
    wrong = open_page(tab, site / "course" / "01_parts.html")
    parts = tab.locator("h1 + .sw-parts")
    head = parts.get_by_text("In this chapter")
    expect(head).to_be_in_viewport()
    expect(tab.get_by_text("What it is about.")).to_be_in_viewport()
    expect(parts.get_by_role("link")).to_have_count(2 if opened else 0)
    if not opened:
        head.click()
    assert parts.get_by_role("link").all_inner_texts() == ["1 · The first", "2 · The second"]
    parts.get_by_role("link").last.click()
    expect(tab.get_by_role("heading", name="2 · The second")).to_be_in_viewport()
    tab.set_viewport_size({"width": 1400, "height": 800})
    expect(parts).to_be_hidden()
    expect(tab.locator(".toc-tree").get_by_text("1 · The first")).to_be_visible()
    assert wrong == []


def test_a_reader_of_the_site_is_shown_nothing_that_is_for_a_notebook(site: Path, tab: Page) -> None:
    """An answer as a line of Python has no cell to stand in, and no one counts a belief's number."""
    open_page(tab, site / "course" / "01_parts.html")
    tab.locator(".sg-cv .tn", has=tab.locator(".nm:text-is('b')")).click()
    tab.get_by_role("button", name="Check my prediction").click()
    said = tab.locator(".sg-qv")
    expect(said).to_contain_text("Not right")
    expect(said.get_by_role("button", name="Try again")).to_be_visible()
    assert "Python" not in said.inner_text()
    assert not re.search(r"M\d\d", said.inner_text())


def test_what_was_searched_for_can_be_changed_where_its_results_are(site: Path, tab: Page) -> None:
    """Also in a narrow window, whose drawer hides the other field."""
    tab.set_viewport_size({"width": 400, "height": 800})
    wrong = open_page(tab, site / "search.html")
    field = tab.get_by_role("search").last.get_by_role("searchbox", name="Search this site")
    field.fill("forgotten")
    field.press("Enter")
    expect(tab.locator("#search-results a").first).to_have_text("zero_grad forgotten")
    expect(field).to_have_value("forgotten")
    assert wrong == []


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    """The site as a web server serves it."""
    serve = partial(SimpleHTTPRequestHandler, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), serve) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_where_pages_may_be_fetched_a_search_tells_an_excerpt_of_each(address: str, tab: Page) -> None:
    tab.goto(f"{address}/search.html?q=forgotten")
    expect(tab.locator("#search-results .context").first).to_contain_text("forgotten")
    tab.goto(f"{address}/gallery/never_cleared.html")
    expect(tab.locator(".sg")).to_have_count(1)
    expect(tab.locator(".highlighted")).to_have_count(0)


def test_a_page_leads_to_itself_in_the_other_language(site: Path, tab: Page) -> None:
    wrong = open_page(tab, site / "gallery" / "hidden_state.html")
    tab.get_by_role("link", name="中文").click()
    expect(tab.locator("html")).to_have_attribute("lang", re.compile("zh"))
    expect(tab.get_by_role("heading", level=1)).to_contain_text("隐藏状态带着上一步的计算图")
    expect(tab.locator(".sw-now").first).to_contain_text("释放")
    tab.get_by_role("link", name="English").click()
    expect(tab.get_by_role("heading", level=1)).to_contain_text("A hidden state")
    open_page(tab, site / "docs" / "one.html")
    tab.get_by_role("link", name="中文").click()
    expect(tab.get_by_role("heading", level=1)).to_contain_text("小网站")  # that document has no Chinese
    assert wrong == []


def test_a_chinese_page_says_nothing_in_english(site: Path) -> None:
    page = (site / "zh_CN" / "index.html").read_text(encoding="utf-8")
    for words in ("Next", "Previous", "Made with", "Skip to content", "Back to top", "Toggle ", "Light mode"):
        assert words not in page
    for words in ("下一页", "回到顶部", "<p>写成两行的一句话</p>"):
        assert words in page


def test_a_link_to_what_is_no_page_is_words(site: Path, tab: Page) -> None:
    open_page(tab, site / "docs" / "one.html")
    links = tab.locator("article a:not(.headerlink)").evaluate_all("(all) => all.map((a) => a.getAttribute('href'))")
    assert links == ["https://pytorch.org"]
    expect(tab.locator("article")).to_contain_text("a file, a place")


def test_the_reference_has_every_public_name(site: Path, tab: Page) -> None:
    import seegrad

    open_page(tab, site / "api.html")
    assert not [name for name in seegrad.__all__ if not tab.locator(f"[id='seegrad.{name}']").count()]


def test_without_a_script_all_of_the_mistake_can_be_read(site: Path, browser: Browser) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((site / "gallery" / "data_written.html").as_uri())
    expect(page.get_by_text("silent corruption").first).to_be_visible()
    expect(page.get_by_text("1  start     before the first line")).to_be_visible()
    context.close()


PAGES = (
    "index.html",
    "zh_CN/gallery/index.html",
    "gallery/hidden_state.html",
    "docs/one.html",
    "course/01_parts.html",
    "search.html",
    "gallery/leaf_updated.html",
)


@needs_axe
@pytest.mark.parametrize(("name", "theme"), one_in(3, product(PAGES, ("light", "dark"))))
def test_axe_finds_nothing_at_any_width(name: str, theme: str, site: Path, tab: Page) -> None:
    wrong = open_page(tab, site / name, theme)
    for width_px in WIDTHS_PX:
        tab.set_viewport_size({"width": width_px, "height": 900})
        assert tab.evaluate("document.documentElement.scrollWidth") <= width_px
        assert axe(tab) == []
    assert wrong == []


def axe(tab: Page) -> list[str]:
    """What axe-core finds. It would fetch the style sheets once more, which a page from the disk may not."""
    tab.add_script_tag(path=AXE)
    found = tab.evaluate("axe.run(document, { preload: false }).then((result) => result.violations)")
    return [f"{each['id']} ×{len(each['nodes'])}: {each['nodes'][0]['html'][:160]}" for each in found]


def test_the_code_below_a_magic_has_its_colours() -> None:
    cells = [nbformat.v4.new_markdown_cell("# 01 · A"), nbformat.v4.new_code_cell("%%see --ask keeps\nx = 1\n\ny = x")]
    text = chapter_page(nbformat.v4.new_notebook(cells=cells), "01_x", "en", [Way("01_x", "A")], ["en"], alone=False)
    code = re.findall(r"<code>(.*?)</code>", text, re.DOTALL)[0]
    assert '<span class="mi">1</span>' in code
    assert re.sub("<[^>]*>", "", code) == "%%see --ask keeps\nx = 1\n\ny = x"


def test_a_gallery_s_pictures_are_dark_where_the_page_is(site: Path, tab: Page) -> None:
    open_page(tab, site / "gallery" / "index.html", "dark")
    assert tab.evaluate("getComputedStyle(document.querySelector('.sw-cards img')).filter").startswith("invert")


def test_a_chapter_s_part_has_no_page_around_it() -> None:
    cell = nbformat.v4.new_markdown_cell("# 01 · A `chapter`\n\nText.")
    text = chapter_page(nbformat.v4.new_notebook(cells=[cell]), "01_x", "en", [Way("01_x", "A")], ["en"], alone=False)
    assert text.strip().startswith("<h1")
    assert not re.search("<(html|head|nav|main|script|style)", text)
