"""The README's pictures, made by the program itself: `python -m tools.pictures.portraits`.

Each program is recorded, written as an offline page, opened in a headless Chromium and photographed.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import torch
from playwright.sync_api import Browser, Page, sync_playwright

import seegrad
from seegrad.display.page import page, write_page
from seegrad.model.recording import Recording
from tools.pictures.training import TRAINING

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "pictures"
WIDTH_PX, HEIGHT_PX = 1240, 1400  # high enough for all of an open box: the player gives a graph 62 % of the window
CHROMIUM_ARGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"]


Theme = Literal["light", "dark"]
THEMES: tuple[Theme, ...] = ("light", "dark")


@dataclass(frozen=True, slots=True)
class Portrait:
    """One picture: what is there before, and what to record."""

    name: str
    setup: str
    code: str
    opens: str = ""  # the name of a box to open


MATRICES = """inp = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
w1 = torch.tensor([[0.5, -1.0], [2.0, 1.0]], requires_grad=True)
w2 = torch.tensor([[1.0, 0.0], [0.5, 2.0]], requires_grad=True)
w3 = torch.tensor([[3.0, 1.0], [-1.0, 0.5]], requires_grad=True)"""
VECTOR = "a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)"
PAIR = "a = torch.tensor([1.0, 2.0], requires_grad=True)"
CUSTOM = """
class Exp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        result = x.exp()
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0]
"""
NETWORK = """
class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(4)
        self.up = torch.nn.Linear(4, 8)
        self.down = torch.nn.Linear(8, 4)

    def forward(self, x):
        return x + self.down(torch.tanh(self.up(self.norm(x))))

model = torch.nn.Sequential(*[Block() for _ in range(12)])
x = torch.ones(2, 4)
"""

PORTRAITS = (
    Portrait(
        "l1_l4",
        MATRICES,
        "l1 = inp * w1\nl2 = l1 + w2\nl3 = l1 * w3\nl1 += 1.0\nl4 = l2 * l3\nloss = l4.mean()\nloss.backward()",
    ),
    Portrait("data", VECTOR, "out = a.sigmoid()\nc = out.data\nc.zero_()\nloss = out.sum()\nloss.backward()"),
    Portrait("detach", VECTOR, "out = a.sigmoid()\nc = out.detach()\nc.zero_()\nloss = out.sum()\nloss.backward()"),
    Portrait(
        "embedding",
        "emb = torch.nn.Embedding(3, 2, max_norm=1.0)\nidx = torch.tensor([0, 2])\n"
        "W = torch.ones(2, 2, requires_grad=True)",
        "a = emb.weight @ W\nb = emb(idx)\nloss = a.sum() + b.sum()\nloss.backward()",
    ),
    Portrait(
        "residual",
        "x = torch.tensor([1.0, 2.0])\nw1 = torch.tensor([0.5, 2.0], requires_grad=True)\n"
        "w2 = torch.tensor([1.0, -1.0], requires_grad=True)",
        "h = x * w1\nr = torch.tanh(h * w2)\nh += r\nloss = (h * h).sum()\nloss.backward()",
    ),
    Portrait(
        "gan",
        "G = torch.nn.Linear(2, 2, bias=False)\nD = torch.nn.Linear(2, 1, bias=False)\n"
        "z, real = torch.ones(1, 2), torch.ones(1, 2)",
        "fake = G(z)\nscore = D(fake).sum()\nloss_d = score - D(real).sum()\nloss_d.backward(retain_graph=True)\n"
        "with torch.no_grad():\n    D.weight -= 0.1 * D.weight.grad\nloss_g = -score\nloss_g.backward()",
    ),
    Portrait(
        "views",
        "a = torch.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)",
        "x = a * 2\nv = x.view(2, 2)\nr = v[0]\nr.mul_(3)\nloss = (x * x).sum() + v.sum()\nloss.backward()",
    ),
    Portrait(
        "outputs",
        "a = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)",
        "u, v = a.unbind(0)\nvals, idx = a.max(dim=1)\nloss = (u * v).sum() + vals.sum()\nloss.backward()",
    ),
    Portrait(
        "double_backward",
        "x = torch.tensor([2.0], requires_grad=True)",
        "y = (x ** 3).sum()\n(g,) = torch.autograd.grad(y, x, create_graph=True)\ns = g.sum()\ns.backward()",
    ),
    Portrait("second_lap", PAIR, "y = (a * a).sum()\ny.backward(retain_graph=True)\ny.backward()\ny.backward()"),
    Portrait(
        "hooks",
        PAIR + CUSTOM,
        "x = a * 2\nx.register_hook(lambda g: g * 10)\nx.retain_grad()\ny = Exp.apply(x)\nloss = y.sum()\n"
        "loss.backward()",
    ),
    Portrait(
        "islands",
        PAIR,
        "h = a * 2\nd = h.detach()\nloss = (d * h).sum()\nloss.backward()\nwith torch.no_grad():\n"
        "    a -= 0.1 * a.grad\n    n = a.norm()",
    ),
    Portrait("network", NETWORK, "loss = model(x).square().mean()\nloss.backward()"),
    Portrait("network_open", NETWORK, "loss = model(x).square().mean()\nloss.backward()", opens="model.5"),
)
SOFTMAX = Portrait(
    "softmax", VECTOR, "weights = a.softmax(dim=0)\nweights[2] = 0.0\nloss = weights.sum()\nloss.backward()"
)
TRAINED = {name: Portrait(name, before, code) for name, (before, code) in TRAINING.items()}
"""Programs of the size that people train."""
OPEN = Portrait("gan_steps_open", *TRAINING["gan_steps"], opens="loss_d = F.softplus(…).mean()…")
FOR_README: dict[str, tuple[str, Theme]] = {
    "silent_light": ("data", "light"),
    "softmax_masked": ("softmax", "light"),
    "raising_dark": ("detach", "dark"),
    **{
        f"{name}_light": (name, "light")
        for name in ("l1_l4", "embedding", "residual", "gan", "network", "network_open", *TRAINED, OPEN.name)
    },
}
"""File → Portrait and theme: what README and docs show."""


def record(portrait: Portrait) -> Recording:
    """Run a Portrait's code after its setup; the same numbers every time."""
    torch.manual_seed(0)
    made: dict[str, object] = {"torch": torch}
    exec(compile(portrait.setup, "setup.py", "exec"), made)  # noqa: S102  # our own text, above
    names: partial[dict[str, object]] = partial(
        dict, made
    )  # a plain dict here would give its tensors names such as made['a']
    del made
    program = compile(portrait.code, "example.py", "exec")
    try:
        with seegrad.record(code=("example.py", 1, portrait.code)) as rec:
            exec(program, names())  # noqa: S102  # our own text, above
    except RuntimeError:
        pass  # what the picture is about
    return rec.recording


def open_box(view: Page, portrait: Portrait) -> None:
    """Open the box that a Portrait names, if it names one."""
    if portrait.opens:
        view.get_by_role("button", name=f"{portrait.opens}, ").first.click()


def photograph(browser: Browser, portrait: Portrait, theme: Theme, target: Path) -> Path:
    """Photograph one Portrait's page at its last step."""
    with tempfile.TemporaryDirectory() as scratch:
        path = write_page(record(portrait), Path(scratch) / "page.html")
        view = browser.new_page(
            viewport={"width": WIDTH_PX, "height": HEIGHT_PX}, color_scheme=theme, reduced_motion="reduce"
        )
        view.goto(path.as_uri())
        open_box(view, portrait)
        view.locator(".sg").screenshot(path=target)
        view.close()
    return target


def weigh() -> None:
    """What the pages of the training programs weigh, and how long they take to draw."""
    for name, portrait in TRAINED.items():
        recording = record(portrait)
        since = time.process_time()
        size = len(page(recording).encode())
        spent_s = time.process_time() - since
        print(f"| {name} | {len(recording.nodes)} | {len(recording.frames)} | {size / 1e3:.0f} kB | {spent_s:.1f} s |")


def main(argv: Sequence[str] | None = None) -> int:
    """Make the pictures."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.pictures.portraits", description="Make the README's pictures."
    )
    parser.add_argument("files", nargs="*", metavar="FILE", help=f"some of: {', '.join(FOR_README)}")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--weigh", action="store_true", help="print what the pages of training programs weigh")
    arguments = parser.parse_args(argv)
    unknown = set(arguments.files) - FOR_README.keys()
    if unknown:
        parser.error(f"no such picture: {', '.join(sorted(unknown))}")
    if arguments.weigh:
        weigh()
        return 0
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        print("No Chromium here. Run: make system", file=sys.stderr)
        return 1
    arguments.folder.mkdir(parents=True, exist_ok=True)
    portraits = {portrait.name: portrait for portrait in (*PORTRAITS, SOFTMAX, *TRAINED.values(), OPEN)}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=CHROMIUM_ARGS, ignore_default_args=["--hide-scrollbars"]
        )  # what there is to scroll to is to be seen
        for file in arguments.files or FOR_README:
            name, theme = FOR_README[file]
            print(f"wrote {photograph(browser, portraits[name], theme, arguments.folder / f'{file}.png')}")
        browser.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
