"""docs/training_loop.md: its table names every kind of the two rooms, its example says what it shows."""

from __future__ import annotations

import contextlib
import importlib
import io
import linecache
import pkgutil
import re
from pathlib import Path

import torch

from seegrad.diagnose import lost, training, weights
from seegrad.diagnose.cut import CUT
from seegrad.diagnose.finding import DiagnosisKind
from seegrad.diagnose.losses import fitted

DOCS = Path(__file__).parents[4] / "docs"
KIND = re.compile(r"^# kind: (\w+)", re.MULTILINE)
PAGE = (DOCS / "training_loop.md").read_text(encoding="utf-8")


def test_the_table_names_each_kind_of_the_rooms() -> None:
    modules = [
        importlib.import_module(each.name)
        for room in (training, lost, weights, fitted)
        for each in pkgutil.walk_packages(room.__path__, f"{room.__name__}.")
    ]
    kinds = {each.name for module in modules for each in vars(module).values() if isinstance(each, DiagnosisKind)}
    _head, *told = re.findall(r"\| \[?`(\w+)`(?:\]\([^)]*\))? \|$", PAGE, re.MULTILINE)
    assert set(told) == kinds | {CUT.name}


def test_each_kind_leads_to_a_program_that_has_it() -> None:
    programs = {path: KIND.search(path.read_text(encoding="utf-8")) for path in DOCS.glob("site/programs/*.py")}
    shown = {found[1] for found in programs.values() if found}
    for kind, to in re.findall(r"\[`(\w+)`\]\((site/programs/\w+\.py)\)", PAGE):
        found = programs[DOCS / to]
        assert found, to
        assert found[1] == kind, to
    assert not [kind for kind in re.findall(r"\| `(\w+)` \|$", PAGE, re.MULTILINE) if kind in shown]


def test_the_example_says_what_the_page_shows() -> None:
    code, said = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE, re.DOTALL).groups()  # type: ignore[union-attr]  # it's there
    file, out = "<training_loop.md>", io.StringIO()
    linecache.cache[file] = len(code), None, code.splitlines(keepends=True), file
    torch.manual_seed(0)
    with contextlib.redirect_stdout(out):
        exec(compile(code, file, "exec"), {"__name__": "example"})  # noqa: S102  # the page's own text
    assert out.getvalue() == said
