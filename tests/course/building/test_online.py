"""Buttons for Colab and Binder: each leads to a file that is there, and each place can install what it needs."""

from __future__ import annotations

import re
import shutil
import tomllib
from pathlib import Path

import nbformat
import pytest

from tools import online

ROOT = Path(__file__).parents[3]


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """A course of one chapter in two languages, and its page."""
    for lang in ("en", "zh_CN"):
        (tmp_path / "notebooks" / lang).mkdir(parents=True)
        shutil.copy(ROOT / "notebooks" / lang / "05_data_versus_detach.ipynb", tmp_path / "notebooks" / lang)
    (tmp_path / "docs").mkdir()
    shutil.copy(ROOT / online.PAGE, tmp_path / "docs")
    return tmp_path


def test_each_button_leads_to_a_file_that_is_there(course: Path) -> None:
    assert online.main(["ada/autograd@v1", "--root", str(course)]) == 0
    links = re.findall(r"\]\((https://[^)]*ada/autograd[^)]*)\)", (course / online.PAGE).read_text(encoding="utf-8"))
    assert len(links) == 4
    for link in links:
        (path,) = re.findall(r"(?:colab|notebooks)/(?:en|zh_CN)/\w+\.ipynb", link)
        assert (course / path).exists()
        assert "/v1" in link


@pytest.mark.parametrize("lang", ["en", "zh_CN"])
def test_colab_s_notebook_is_the_chapter_and_a_cell_that_installs(course: Path, lang: str) -> None:
    online.write(course, "ada/autograd", "HEAD")
    book = nbformat.read(course / "colab" / lang / "05_data_versus_detach.ipynb", as_version=4)
    chapter = nbformat.read(course / "notebooks" / lang / "05_data_versus_detach.ipynb", as_version=4)
    assert book.cells[1:] == chapter.cells
    assert '"seegrad @ git+https://github.com/ada/autograd@HEAD"' in book.cells[0].source
    assert f'"{lang}"' in book.cells[0].source
    nbformat.validate(book)


def test_what_is_no_address_is_refused_in_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        online.main(["https://example.org/x"])
    assert "Say OWNER/NAME" in capsys.readouterr().err


def test_binder_installs_the_pinned_torch_and_an_extra_that_exists() -> None:
    lines = (ROOT / ".binder" / "requirements.txt").read_text(encoding="utf-8").splitlines()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    constraints = (ROOT / ".binder" / next(line for line in lines if line.startswith("-c")).split()[1]).resolve()
    assert constraints == ROOT / "constraints.txt"
    pin = re.search(r"^torch==([\d.]+)$", constraints.read_text(encoding="utf-8"), re.MULTILINE)
    assert pin
    assert f"torch=={pin[1]}+cpu" in lines
    assert ".[lab]" in lines
    assert "lab" in project["optional-dependencies"]
    assert (ROOT / ".binder" / "runtime.txt").read_text(encoding="utf-8") == "python-3.11\n"
