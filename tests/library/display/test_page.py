"""The offline page: everything inside one file, nothing fetched, nothing that a name could inject."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from seegrad.display.page import STATIC, page, write_page
from seegrad.model.scene import Scene
from seegrad.picture import draw
from tests.library.recordings import overwritten_alias

ROOT = Path(__file__).parents[3]


def scene_of(text: str) -> Scene:
    found = re.search(r'<script id="scene" type="application/json">(.*?)</script>', text, re.S)
    assert found
    return Scene.from_json(found[1])


def test_the_page_holds_the_scene() -> None:
    recording = overwritten_alias("data")
    assert scene_of(page(recording)) == draw(recording)


def test_the_page_is_the_same_bytes_every_time(tmp_path: Path) -> None:
    path = write_page(overwritten_alias("data"), tmp_path / "graph.html")
    assert path.read_text(encoding="utf-8") == page(overwritten_alias("data"))


def test_the_page_asks_for_nothing() -> None:
    text = page(overwritten_alias("detach"))
    assert not re.findall(r'(?:src|href)\s*=\s*"(?!#)', re.sub(r"<script.*?</script>", "", text, flags=re.S))
    assert not re.findall(r"@import|url\((?!#)", text)
    assert set(re.findall(r"https?://[\w./]+", text)) <= {"http://www.w3.org/2000/svg"}


def test_a_name_can_t_leave_its_place() -> None:
    recording = overwritten_alias("data")
    evil = "</script><script>alert(1)</script>"
    tensors = tuple(replace(ref, name=evil) if ref.name == "out" else ref for ref in recording.tensors)
    text = page(replace(recording, tensors=tensors), title=evil)
    assert evil not in text
    assert "alert(1)" in json.dumps(scene_of(text).to_data())


@pytest.mark.skipif(not (ROOT / "frontend" / "node_modules" / "esbuild").exists(), reason="node_modules isn't there")
@pytest.mark.skipif(shutil.which("node") is None, reason="node isn't there")
def test_the_committed_front_end_is_what_its_source_builds(tmp_path: Path) -> None:
    subprocess.run(["node", "build.mjs", str(tmp_path)], cwd=ROOT / "frontend", check=True)
    built = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert {path.name: path.read_bytes() for path in STATIC.iterdir() if path.is_file()} == built


def test_nbconvert_finds_its_exporters_where_no_converter_of_formulas_is() -> None:
    """It loads all that are installed, whichever is asked for: what one of them lacks would end each."""
    code = (
        "import sys; sys.modules['latex2mathml'] = None\n"
        "from nbconvert.exporters import get_exporter\n"
        "from seegrad.display.offline import mathml\n"
        "print(get_exporter('seegrad').__name__, mathml('x < y'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout.split(" ", 1)[-1].strip()) == (0, "<code>x &lt; y</code>"), done.stderr
