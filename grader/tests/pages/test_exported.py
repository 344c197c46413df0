"""Pages for students and instructors are made elsewhere, and whatever is in them, there is a page."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbgrader.server_extensions.formgrader.handlers import static_path, template_path
from traitlets.config import Config

from nbjudge.pages import exported
from nbjudge.pages.exported import HIDE, MENDED, MendedScripts, SafePages
from nbjudge_tests.classroom import bombs

HONEST = nbformat.v4.new_markdown_cell("written by **hand**, $a < b$")

FORMGRADER_SAYS = {"base_url": "", "index": 0, "total": 1, "nbgrader": {"notebook": "ps1"}}


def page(*cells: Any, resources: Any = None) -> str:
    notebook = nbformat.v4.new_notebook(cells=[HONEST, *cells])
    made, _ = SafePages(template_name="classic").from_notebook_node(notebook, resources)
    return str(made)


def test_an_honest_page_reads_as_nbconvert_makes_it() -> None:
    output = nbformat.v4.new_output("stream", text="step 1\rstep 2\rstep 3\n\x1b[31mred\x1b[0m <b>\n")
    made = page(nbformat.v4.new_code_cell("def f(x):\n    return x", outputs=[output]))
    assert "written by <strong>hand</strong>" in made
    assert '<span class="k">def</span>' in made
    assert "step 3" in made
    assert "step 2" not in made
    assert '<span class="ansi-red-fg">red</span> &lt;b&gt;' in made


def test_formgrader_s_page_of_a_submission_asks_no_server_elsewhere() -> None:
    as_formgrader = {"template_name": "formgrade", "extra_template_basedirs": [template_path]}
    exporter = SafePages(config=Config({"HTMLExporter": as_formgrader}))
    notebook = nbformat.v4.new_notebook(cells=[HONEST, nbformat.v4.new_code_cell("1")])
    made, _ = exporter.from_notebook_node(notebook, FORMGRADER_SAYS)
    assert "written by <strong>hand</strong>, $a &lt; b$" in made
    assert not re.findall("""<(?:script|link|img|iframe)[^>]*["'(](?:https?:)?//[^>]*>|import [^;]*https?://""", made)


@pytest.mark.parametrize("name", bombs.CELLS)
def test_a_bomb_of_markdown_is_rendered_in_time_or_stands_there_as_typed(name: str) -> None:
    made = page(nbformat.v4.new_markdown_cell(bombs.CELLS[name]))
    assert "written by <strong>hand</strong>" in made


@pytest.mark.parametrize("name", bombs.CODE)
def test_a_bomb_of_code_too(name: str) -> None:
    made = page(nbformat.v4.new_code_cell(bombs.CODE[name]))
    assert "written by <strong>hand</strong>" in made


def test_colours_without_end_become_plain_text() -> None:
    made = page(nbformat.v4.new_code_cell("", outputs=[nbformat.v4.new_output("stream", text=bombs.COLOURS)]))
    assert "x" * 45_000 in made
    assert "\x1b" not in made


def test_a_language_that_metadata_names_is_not_looked_for() -> None:
    cell = nbformat.v4.new_code_cell("SELECT 1", metadata={"magics_language": "sql", "language": "sql"})
    assert "hl-ipython3" in page(cell)


def test_a_hidden_line_is_hidden_where_it_is_asked_for() -> None:
    source = "a = 1\n### BEGIN HIDDEN TESTS\nassert secret == 7\n### END HIDDEN TESTS"
    cell = nbformat.v4.new_code_cell(source)
    marks = ("BEGIN HIDDEN TESTS", "END HIDDEN TESTS")
    assert "secret" in page(cell)
    assert "secret" not in page(cell, resources={HIDE: marks})


def test_a_picture_beside_the_notebook_stands_in_the_page_and_one_that_is_too_large_does_not(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "small.png").write_bytes(header(30, 20))
    (tmp_path / "large.png").write_bytes(header(30_000, 30_000))
    (tmp_path / "drawn.svg").write_text("<svg><path/></svg>")
    cells = [
        nbformat.v4.new_markdown_cell(f"![x]({name})") for name in ("own/small.png", "large.png", "drawn.svg", "no.png")
    ]
    made = page(*cells, resources={"metadata": {"path": str(tmp_path)}})
    sources = re.findall(r'<img[^>]* src="([^",]+)', made)
    assert sources == ["data:image/png;base64", "data:image/svg+xml;base64"]
    assert "![x](large.png)" in made


def header(wide: int, high: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", wide, high) + b"\x08\x02\0\0\0"


def test_what_a_library_stumbles_over_is_shown_as_typed_and_the_rest_has_its_page() -> None:
    made = page(nbformat.v4.new_markdown_cell("**Look** ![x](attachment:gone.png)"))
    assert "**Look** ![x](attachment:gone.png)" in made
    assert "written by <strong>hand</strong>" in made


def test_what_a_student_wrote_is_drawn_in_its_own_place_only() -> None:
    written = nbformat.v4.new_markdown_cell("<p style='font-size:900px;line-height:0'>x</p>")
    assert re.search(
        r'<div style="contain:content;overflow:auto"><p style="font-size:900px;line-height:0">x</p>', page(written)
    )


def test_a_page_that_takes_too_long_says_so_and_the_next_one_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exported, "PAGE_S", 0.001)
    made = page(nbformat.v4.new_code_cell("x = 1\n" * 200_000), resources={"unique_key": "<ps1>"})
    assert "The page of &lt;ps1&gt; can" in made
    assert "t be shown: it took longer than 0.001 s," in made
    monkeypatch.undo()
    assert "written by" in page()


@pytest.mark.parametrize("name", MENDED)
def test_formgrader_s_scripts_say_what_is_mended_once_and_then_no_more(name: str) -> None:
    """An nbgrader that says it in other words is to be looked at anew."""
    path = Path(static_path, "js", name)
    before, after = (text.encode() for text in MENDED[name])
    (served,) = MendedScripts.get_content(str(path))
    assert path.read_bytes().count(before) == 1
    assert (served.count(before), served.count(after)) == (0, 1)
    assert b"".join(MendedScripts.get_content(str(path), 5, 25)) == served[5:25]


def test_all_else_of_formgrader_s_files_is_as_it_was() -> None:
    path = Path(static_path, "css", "nbgrader.css")
    assert b"".join(MendedScripts.get_content(str(path))) == path.read_bytes()
