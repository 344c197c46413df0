"""The README's pictures, made by the program itself: `python -m tools.portraits`.

Each program is recorded, written as an offline page, opened in a headless Chromium and photographed.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from playwright.sync_api import Browser, sync_playwright

import seegrad
from seegrad.model import Recording
from seegrad.page import write_page

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "pictures"
WIDTH_PX = 1100
CHROMIUM_ARGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"]


@dataclass(frozen=True, slots=True)
class Portrait:
    """One picture: what to record, and how the page looks."""

    name: str
    code: str
    theme: Literal["light", "dark"] = "light"


PORTRAITS = (
    Portrait("silent_light", "out = a.sigmoid()\nc = out.data\nc.zero_()\nloss = out.sum()\nloss.backward()"),
    Portrait(
        "raising_dark", "out = a.sigmoid()\nc = out.detach()\nc.zero_()\nloss = out.sum()\nloss.backward()", "dark"
    ),
    Portrait("softmax_masked", "weights = a.softmax(dim=0)\nweights[2] = 0.0\nloss = weights.sum()\nloss.backward()"),
)


def record(portrait: Portrait) -> Recording:
    """Run a Portrait's code with a leaf `a` at hand."""
    program = compile(portrait.code, "example.py", "exec")
    try:
        with seegrad.record(code=("example.py", 1, portrait.code)) as rec:
            exec(program, {"a": torch.tensor([1.0, 2.0, 3.0], requires_grad=True)})  # noqa: S102  # our own text, above
    except RuntimeError as error:
        print(f"{portrait.name}: torch raised, as it should: {type(error).__name__}")
    return rec.recording


def photograph(browser: Browser, portrait: Portrait, folder: Path) -> Path:
    """Photograph one Portrait's page at its last step."""
    with tempfile.TemporaryDirectory() as scratch:
        path = write_page(record(portrait), Path(scratch) / "page.html")
        view = browser.new_page(
            viewport={"width": WIDTH_PX, "height": 800}, color_scheme=portrait.theme, reduced_motion="reduce"
        )
        view.goto(path.as_uri())
        target = folder / f"{portrait.name}.png"
        view.locator(".sg").screenshot(path=target)
        view.close()
    return target


def chosen(names: Sequence[str]) -> Iterator[Portrait]:
    """The Portraits with these names, all of them when none is named."""
    return (portrait for portrait in PORTRAITS if not names or portrait.name in names)


def main(argv: Sequence[str] | None = None) -> int:
    """Make the pictures."""
    parser = argparse.ArgumentParser(prog="python -m tools.portraits", description="Make the README's pictures.")
    parser.add_argument("names", nargs="*", choices=[[], *(portrait.name for portrait in PORTRAITS)])
    parser.add_argument("--folder", type=Path, default=FOLDER)
    arguments = parser.parse_args(argv)
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        print("No Chromium here. Run: make system", file=sys.stderr)
        return 1
    arguments.folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_ARGS)
        for portrait in chosen(arguments.names):
            print(f"wrote {photograph(browser, portrait, arguments.folder)}")
        browser.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
