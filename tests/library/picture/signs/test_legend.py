"""What is drawn is explained: each kind of sign that a picture can hold has its entry, where it occurs."""

from __future__ import annotations

import contextlib
import re

import pytest
import torch

import seegrad
from seegrad.model.recording import Recording
from seegrad.model.scene import Scene
from seegrad.picture import draw
from tests.data.programs import programs
from tools.pictures.portraits import PORTRAITS, TRAINED, record

SIGNS = {
    "leaf": "leaf|chip", "tensor": "tensor", "plain": "plain", "root": "root", "node": "node|write|custom|second",
    "own": "custom", "heat": "heat", "bd": "group", "frame": "open", "in": "way", "out": "way", "op": "op|off",
    "off": "off|op|group", "lo": "loose", "cut": "cut", "nr": "output", "pin": "pin|bare", "free": "free",
    "hook": "hook", "acc": "accumulate", "storage": "storage", "ip": "write", "write": "write", "moved": "moved",
    "hatch": "stale", "old": "stale", "chk": "order|again", "share": "share|run", "flow": "flow|tensor",
    "keep": "kept|leaf|retain",
    "error": "error", "nan": "nan", "wrong": "wrong", "done": "done",
}  # fmt: skip
"""Class → the entries any of which explains it."""
WORDS = {"lk", "st", "sc", "sym", "fnm", "bnm", "nm", "nu", "shp", "cap", "none", "note", "clash", "tip", "ver", "say"}
"""Classes of what says in words, or in numbers, what it is."""
OF_A_PART = {
    "nd",
    "fn",
    "tn",
    "bx",
    "bar",
    "halo",
    "under",
    "more",
    "slot",
    "edge",
    "fill",
    "on",
    "gv",
    "val",
    "new",
    "curl",
    "ex",
    "bang",
    "hl",
    "hg",
    "ch",
    "bump",
}
"""Classes of what belongs to a part, whatever its kind."""
LINES = {"e", "al", "bk", "nf", "mk", "eb", "bad", "hm", "edges", "pins", "storages", "tags", "hs"} | {
    f"h{sign}{k}" for sign in "np" for k in range(5)
}
"""Classes of lines, which the parts at their ends explain, of what holds many, and of the colours of what is wrong."""


def bodies(scene: Scene) -> list[str]:
    inner = [text for each in scene.passes for text in bodies(each.scene)]
    return [scene.body, *(level.body for level in scene.levels), *(markup for _, markup in scene.parts), *inner]


def seen_and_explained(scene: Scene) -> tuple[set[str], set[str]]:
    seen: set[str] = set()
    explained: set[str] = set()
    for body in bodies(scene):
        drawn, _, legend = body.partition('<g class="legend">')
        explained |= set(re.findall(r'class="lg-(\w+)"', legend))
        seen |= {name for names in re.findall(r'class="([^"]*)"', drawn) for name in names.split()}
        seen |= {"done"} if re.search(r'<g class="nd fn[^>]*data-st="[^"]*d\d', drawn) else set()
    return seen, explained


def of(name: str) -> Recording:
    program = programs()[name]
    torch.manual_seed(0)
    rec = seegrad.record(detail=program.detail)
    with contextlib.suppress(Exception), rec:
        program.run()
    return rec.recording


RECORDED = {each.name: each for each in [*PORTRAITS, TRAINED["gan_steps"], TRAINED["conv"]]}


@pytest.mark.parametrize("name", [*RECORDED, *sorted(programs())[::60]])
def test_what_is_drawn_has_its_entry(name: str) -> None:
    seen, explained = seen_and_explained(draw(record(RECORDED[name]) if name in RECORDED else of(name)))
    assert seen - WORDS - OF_A_PART - LINES <= SIGNS.keys()
    assert {sign for sign in seen & SIGNS.keys() if not explained & set(SIGNS[sign].split("|"))} == set()
