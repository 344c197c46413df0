"""Names, numbers and scenes as they shouldn't be: a readable picture or a plain sentence, and nothing is executed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Browser

from seegrad.display.page import asset, page
from seegrad.model.recording import Recording
from seegrad.model.scene import Scene
from seegrad.picture import draw, still
from seegrad.words.errors import PictureError
from tests.library.recordings import overwritten_alias

SVG = "{http://www.w3.org/2000/svg}"
TAGS = ("svg", "style", "title", "desc", "defs", "marker", "pattern", "g", "rect", "path", "text", "circle")
NAMES = {
    "long": "x" * 300,
    "long with dots": ".".join(["encoder", "layers", "11"] * 20),
    "arabic": "متغير_مهم",
    "hebrew with an override": "\u202eמשתנה",
    "chinese": "隐藏层的输出" * 4,
    "html": "<img src=x onerror=alert(1)>",
    "script": "</text></svg><script>alert(1)</script>",
    "entity": "&lt;b&gt; &amp; \"quoted\" 'single'",
    "control characters": "a\x00\x07\x1b[31mb\ud800\uffff",
    "emoji": "👩‍🔬🔥",
    "empty": "",
}


def named(name: str) -> Recording:
    recording = overwritten_alias("data")
    tensors = tuple(replace(ref, name=name) if ref.name == "out" else ref for ref in recording.tensors)
    code = tuple((number, text.replace("out", name)) for number, text in recording.code)
    return replace(recording, tensors=tensors, code=code)


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_any_name_is_drawn_and_stays_text(name: str) -> None:
    scene = draw(named(name))
    root = ElementTree.fromstring(still(scene, -1, asset("svg.css")))  # noqa: S314  # our own picture
    allowed = {f"{SVG}{tag}" for tag in TAGS}
    assert {each.tag for each in root.iter()} <= allowed
    assert not [key for each in root.iter() for key in each.attrib if key.startswith("on") or key == "href"]
    assert scene.width_px < 1300


@pytest.mark.parametrize("number", ["nan", "inf", "-inf", "-0", "1e+308", "1e-45"])
def test_numbers_that_are_none_are_written_as_they_are(number: str) -> None:
    recording = overwritten_alias("data")
    frames = tuple(
        replace(frame, values=tuple((tensor, ((number, "1", number),)) for tensor, _ in frame.values))
        for frame in recording.frames
    )
    text = still(draw(replace(recording, frames=frames)), -1, "")
    assert number.replace("-", "−") in text


@pytest.mark.parametrize("damage", ["", "[]", "null", "{", '{"schema": 0}', '{"schema": 1, "uid": []}'])
def test_a_damaged_scene_is_a_sentence(damage: str) -> None:
    with pytest.raises(PictureError, match="Draw it again"):
        Scene.from_json(damage)


def test_a_scene_from_before_there_were_levels_is_read() -> None:
    scene = draw(overwritten_alias("data"))
    older = json.loads(scene.to_json())
    del older["levels"]
    for item in older["items"]:
        del item["level"]
    assert Scene.from_json(json.dumps(older)) == scene


@pytest.mark.browser
def test_no_name_is_executed_and_a_damaged_scene_says_so(browser: Browser, tmp_path: Path) -> None:
    tab = browser.new_page()
    alarms: list[str] = []
    tab.on("dialog", lambda dialog: (alarms.append(dialog.message), dialog.dismiss()))
    tab.on("pageerror", lambda error: alarms.append(str(error)))
    for name in ("html", "script", "entity"):
        text = page(named(NAMES[name])).replace("Content-Security-Policy", "x-none")  # the policy alone would stop it
        path = tmp_path / f"{name}.html"
        path.write_text(text, encoding="utf-8")
        tab.goto(path.as_uri())
        tab.locator(".sg-ct").wait_for()
        tab.keyboard.press("Tab")
        for part in tab.locator(".sg-cv .nd:not([data-s=g])").all()[:4]:
            part.click()
        assert NAMES[name] in tab.locator(".sg-cd").inner_text()
    damaged = page(overwritten_alias("data")).replace('"schema":1', '"schema":7')
    path = tmp_path / "damaged.html"
    path.write_text(damaged, encoding="utf-8")
    tab.goto(path.as_uri())
    assert "another version of seegrad" in tab.locator("#picture").inner_text()
    assert alarms == []
    tab.close()
