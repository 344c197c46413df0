"""The course as pages: read, stepped through and asked without a kernel, a network, or a script where none may run."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from xml.etree import ElementTree

import nbformat
import pytest
from babel.messages.catalog import Catalog
from babel.messages.pofile import write_po
from nbclient import NotebookClient
from playwright.sync_api import Browser, Page, expect

from nbjudge_tests.session import one_in
from seegrad.display.offline import OfflineExporter, markdown
from tests.browser.test_pictures import findings, needs_axe
from tools import book
from tools.course.offline import build_site
from tools.course.offline_page import Way, chapter_page

pytestmark = pytest.mark.browser

FIRST = r"""# %% [markdown]
# # 01 · Two `pages`
#
# The rule is $(x^2)' = 2x$, and
#
# $$\frac{\partial loss}{\partial l_1} = \underbrace{\tfrac14 \cdot l_3}_{\text{through } l_2} + \sum_{i=1}^n x_i$$
#
# Next: [the second](02_second.ipynb), its [exercises](../release/en/02_second/02_second.ipynb), a
# [document](https://docs.pytorch.org).

# %%
import torch

# %load_ext seegrad

# %%
# %%see --ask keeps
a = torch.tensor([1.0, 2.0], requires_grad=True)
b = a * 3
b.sum().backward()

# %% [markdown]
# Only `a` keeps one.

# %%
a.grad

# %%
# %%see --ask saves
a = torch.tensor([1.0, 2.0], requires_grad=True)
b = a.exp()
b.sum().backward()

# %%
# %%see --ask saves
a = torch.tensor([1.0, 2.0], requires_grad=True)
LINES
b = a.exp() + 0 * 1_000_000_000_000_000_000_000 + 0 * 1_000_000_000_000_000_000_000 + 0 * 1_000_000_000_000_000_000_000
b.sum().backward()

# %% [markdown]
# ## An error

# %% tags=["raises-exception"]
a = torch.ones(2, requires_grad=True)
a += 1

# %% [markdown]
# | | b |
# |---|---|
# | 1 | `<b>2</b>` |

# %%
print("<script>alert(1)</script>")
""".replace("LINES", "\n".join(f"number = {k}" for k in range(20)))
SECOND = "# %% [markdown]\n# # 02 · The second\n\n# %%\n2 + 2\n"
CHINESE = {
    "# 01 · Two `pages`": "# 01 · 两个 `pages`",
    "The rule is $(x^2)' = 2x$, and": "规则是 $(x^2)' = 2x$，并且",
}


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("course")
    (root / "notebooks").mkdir()
    (root / "notebooks" / "01_first.py").write_text(FIRST, encoding="utf-8")
    (root / "notebooks" / "02_second.py").write_text(SECOND, encoding="utf-8")
    catalog = Catalog(locale="zh_CN")
    from tools.course.masters import read_master
    from tools.words.translations import extracted

    for message in extracted([read_master(root / "notebooks" / "01_first.py")]):
        if message.id:
            catalog.add(message.id, CHINESE.get(str(message.id), str(message.id)))
    (root / "locale" / "zh_CN").mkdir(parents=True)
    with (root / "locale" / "zh_CN" / "01_first.po").open("wb") as file:
        write_po(file, catalog)
    return root


@pytest.fixture(scope="module")
def site(course: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    made = {path.relative_to(folder).as_posix() for path in build_site(course, folder)}
    assert made == {"index.html", "en/01_first.html", "en/02_second.html", "zh_CN/index.html", "zh_CN/01_first.html"}
    return folder


@pytest.fixture
def tab(browser: Browser) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": 1100, "height": 900}, reduced_motion="reduce")
    yield page
    page.close()


def open_page(tab: Page, path: Path, theme: str = "light") -> list[str]:
    wrong: list[str] = []
    tab.emulate_media(color_scheme=theme)  # type: ignore[arg-type]  # a theme
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    tab.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    tab.on("request", lambda asked: None if asked.url.startswith(("file:", "data:")) else wrong.append(asked.url))
    tab.goto(path.as_uri())
    return wrong


def test_a_question_is_answered_without_a_kernel(site: Path, tab: Page) -> None:
    wrong = open_page(tab, site / "en/01_first.html")
    first, second = tab.locator(".sg").nth(0), tab.locator(".sg").nth(1)
    expect(first.locator(".sg-ct")).to_have_text("4 / ?")
    first.locator("[id$='-t0-0']").click()
    first.get_by_role("button", name="Check my prediction").click()
    expect(first.locator(".sg-qv .right")).to_be_visible()
    expect(first.locator(".sg-py code")).to_have_text(re.compile(r'^q\d+ = \{"keeps": \["a"\]\}$'))
    expect(second.locator(".sg-py")).to_have_count(0)
    expect(second.locator(".sg-qh")).to_be_visible()
    assert wrong == []


@pytest.mark.parametrize(
    ("lang", "says", "shows"),
    [
        ("en", "Predicted and run? Explain it to yourself", "What comes out: predict it"),
        ("zh_CN", "预测了、运行了吗？先自己解释一遍", "运行结果：先预测"),
    ],
)
def test_what_answers_a_question_waits_until_it_is_opened(
    lang: str, says: str, shows: str, site: Path, tab: Page
) -> None:
    wrong = open_page(tab, site / lang / "01_first.html")
    for summary, answer in ((says, "Only a keeps one."), (shows, "tensor([3., 3.])")):
        expect(tab.get_by_text(answer)).to_be_hidden()
        tab.get_by_text(summary).click()
        expect(tab.get_by_text(answer)).to_be_visible()
    assert tab.locator("main > details").count() == 2
    assert wrong == []


def test_one_finds_one_s_way(site: Path, tab: Page) -> None:
    wrong = open_page(tab, site / "index.html")
    tab.get_by_role("link", name="中文").click()
    expect(tab.get_by_role("heading", level=1)).to_have_text("理解 PyTorch autograd：全部课程")
    tab.get_by_role("link", name="English").click()
    assert wrong == []
    wrong = open_page(tab, site / "en/01_first.html")
    tab.get_by_role("link", name="Next chapter: 02 · The second").click()
    tab.get_by_role("link", name="Previous chapter: 01 · Two pages").click()
    tab.get_by_role("link", name="中文").click()
    expect(tab.get_by_role("heading", level=1)).to_have_text("01 · 两个 pages")
    expect(tab.locator("html")).to_have_attribute("lang", "zh-CN")
    expect(tab.locator(".sg-check").first).to_have_text("提交我的预测")
    tab.get_by_role("link", name="课程地图").click()
    assert wrong == []


def test_links_lead_to_pages_or_nowhere(site: Path, tab: Page) -> None:
    open_page(tab, site / "en/01_first.html")
    links = tab.locator("main a").evaluate_all("(all) => all.map((a) => a.getAttribute('href'))")
    assert links == ["02_second.html", "https://docs.pytorch.org"]


def test_formulas_need_no_script(site: Path, tab: Page) -> None:
    open_page(tab, site / "en/01_first.html")
    formulas = tab.locator("math").evaluate_all(
        "(all) => all.map((m) => [m.getAttribute('display'), m.getBoundingClientRect().height])"
    )
    assert [display for display, _ in formulas] == ["inline", "block"]
    assert formulas[1][1] > 40
    assert "$" not in tab.locator("main > p").first.inner_text()


def test_nothing_that_a_cell_printed_is_run(site: Path, tab: Page) -> None:
    said: list[str] = []
    tab.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
    open_page(tab, site / "en/01_first.html")
    expect(tab.locator("main > pre").last).to_have_text("<script>alert(1)</script>")
    expect(tab.locator("pre.er")).to_contain_text("a leaf Variable that requires grad")
    assert "\x1b" not in tab.content()
    assert said == []


def test_without_a_script_the_steps_can_be_read(site: Path, browser: Browser) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((site / "en/01_first.html").as_uri())
    expect(page.get_by_text("1  start     before the first line").first).to_be_visible()
    context.close()


PAGES = ("index.html", "zh_CN/index.html", "en/01_first.html", "zh_CN/01_first.html")


@needs_axe
@pytest.mark.parametrize(("name", "theme"), one_in(3, product(PAGES, ("light", "dark"))))
def test_axe_finds_nothing(name: str, theme: str, site: Path, tab: Page, tmp_path: Path) -> None:
    text = (site / name).read_text(encoding="utf-8").replace("Content-Security-Policy", "x-not-a-policy")
    (tmp_path / "page.html").write_text(text, encoding="utf-8")
    open_page(tab, tmp_path / "page.html", theme)
    assert findings(tab) == []


@pytest.mark.parametrize("width_px", [390, 1100])
def test_no_page_is_wider_than_the_window(width_px: int, site: Path, tab: Page) -> None:
    tab.set_viewport_size({"width": width_px, "height": 800})
    open_page(tab, site / "en/01_first.html")
    assert tab.evaluate("document.documentElement.scrollWidth") <= width_px


def test_a_page_is_made_again_only_when_something_changed(course: Path, site: Path, tmp_path: Path) -> None:
    assert build_site(course, site) == []
    copy = tmp_path / "course"
    shutil.copytree(course, copy)
    master = copy / "notebooks" / "02_second.py"
    master.write_text(master.read_text(encoding="utf-8").replace("2 + 2", "2 + 3"), encoding="utf-8")
    folder = tmp_path / "site"
    shutil.copytree(site, folder)
    assert [path.name for path in build_site(copy, folder)] == ["02_second.html"]
    assert "5" in (folder / "en" / "02_second.html").read_text(encoding="utf-8")


def test_the_command_writes_there(course: Path, site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (site / "en" / "02_second.html").unlink()
    assert book.main(["html", str(site), "02_second", "--root", str(course)]) == 0
    assert capsys.readouterr().out == f"en: course/02_second is run\nwrote {site / 'en' / '02_second.html'}\n"


def test_nbconvert_writes_one_notebook_that_needs_no_network(tab: Page, tmp_path: Path) -> None:
    """Saved with its widget's state, as JupyterLab does; the picture steps on nbconvert's own page."""
    cells = [
        nbformat.v4.new_markdown_cell("# One\n\n$$\\frac{1}{2}$$"),
        nbformat.v4.new_code_cell("import torch\n%load_ext seegrad"),
        nbformat.v4.new_code_cell("%%see\na = torch.ones(2, requires_grad=True)\n(a * 2).sum().backward()"),
    ]
    notebook = nbformat.v4.new_notebook(cells=cells)
    NotebookClient(notebook, kernel_name="python3").execute()
    text, _ = OfflineExporter().from_notebook_node(notebook)
    (tmp_path / "one.html").write_text(text, encoding="utf-8")
    wrong = open_page(tab, tmp_path / "one.html")
    expect(tab.locator(".sg-ct")).to_be_visible()
    tab.locator(".sg-tl input").focus()
    tab.keyboard.press("Home")
    expect(tab.locator(".sg-ct")).to_contain_text("1 /")
    expect(tab.locator("math mfrac")).to_be_visible()
    assert [each for each in wrong if not each.startswith("blob:")] == []


@pytest.mark.parametrize(
    "formula", ["x^2", r"\frac{a}{b}", r"\begin{aligned}a&=b\end{aligned}", r"\notacommand{x}", "{", ""]
)
def test_any_formula_is_well_formed(formula: str) -> None:
    ElementTree.fromstring(f"<div>{markdown(f'a ${formula}$ b')}</div>")  # noqa: S314  # our own page


def test_a_chapter_alone_has_no_neighbours() -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# Alone")])
    text = chapter_page(notebook, "01_x", "en", [Way("01_x", "Alone")], ["en"])
    assert "<script" not in text
    assert "Next chapter" not in text
