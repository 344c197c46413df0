"""The second device is one: storages, views, versions, a thread of the engine's, and every wait of the host is seen."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.device import elsewhere

ROOT = Path(__file__).parents[2]

WAITS = {
    "x.item()": "x = torch.ones((), device=NAME)",
    "x.tolist()": "x = torch.ones(2, device=NAME)",
    "bool(x.any())": "x = torch.ones(2, device=NAME)",
    "torch.equal(x, x.clone())": "x = torch.ones(2, device=NAME)",
    "x.cpu()": "x = torch.ones(2, device=NAME)",
    "x.nonzero()": "x = torch.ones(2, device=NAME)",
    "x[x > 0]": "x = torch.ones(2, device=NAME)",
    "torch.ones(2).to(NAME)": "",
}
"""What waits on an accelerator → what comes before it."""

NEVER = "(x @ x.T).relu_().view(4)[1:].sum(); x.detach().clone(); x.is_leaf; x._version; x.data_ptr()"

TENSORS = """
import threading, torch
from tests.device import elsewhere
elsewhere.register()
x = torch.arange(6.0, device="elsewhere").reshape(2, 3).requires_grad_()
y = x.exp()
view = y[0]
assert str(view.device) == "elsewhere:0" and view._base is y
assert view.untyped_storage()._cdata == y.untyped_storage()._cdata and view.data_ptr() == y.data_ptr()
threads = []
y.register_hook(lambda gradient: threads.append(threading.get_ident()))
y.sum().backward(retain_graph=True)
assert threads and threads[0] != threading.get_ident()
there = x.detach().cpu()
assert torch.equal(x.grad.cpu(), there.exp())
view.mul_(2)
assert y._version == 1 and torch.equal(y.detach().cpu()[0], there.exp()[0] * 2)
try:
    y.sum().backward()
except RuntimeError as error:
    assert "modified by an inplace operation" in str(error)
else:
    raise AssertionError("torch compares versions")
"""


ENDED_AT_ONCE = """
import os, sys
sys.stdout.flush()
os._exit(0)
"""
"""The engine's thread may still let go of the last graph when a backward is over. Were Python to end just then, that
thread would ask for it in vain, and the process abort: torch's end, and nothing of what is asked here."""


def said_by(code: str) -> list[str]:
    """What a process of its own prints: there the device may be registered."""
    whole = [sys.executable, "-c", code + ENDED_AT_ONCE]
    run = subprocess.run(whole, cwd=ROOT, capture_output=True, text=True, timeout=200)
    assert run.returncode == 0, run.stderr[-4000:]
    return run.stdout.splitlines()


@pytest.fixture(scope="module", autouse=True)
def _torch_can() -> None:
    if elsewhere.missing():
        pytest.skip(elsewhere.missing())


def test_its_tensors_are_torch_s_own() -> None:
    said_by(TENSORS)


def test_every_wait_of_the_host_is_noted() -> None:
    lines = ["import torch", "from tests.device.elsewhere import NAME, READS, register", "register()"]
    for what, before in WAITS.items():
        lines += [before, "READS.clear()", what, f"print(bool(READS), {what!r})"]
    lines += ["x = torch.ones(2, 2, device=NAME)", "READS.clear()", NEVER, "print(not READS, READS)"]
    said = said_by("\n".join(lines))
    assert len(said) == len(WAITS) + 1
    assert [line for line in said if not line.startswith("True")] == []


def test_a_recorder_that_reads_a_value_is_caught() -> None:
    code = """
import torch, seegrad
from seegrad.capture.tables import tensors
from tests.device.elsewhere import NAME, READS, register
register()
def reads_of(block):
    READS.clear()
    with block:
        torch.ones(2, device=NAME, requires_grad=True).exp().sum().backward()
    return len(READS)
print(reads_of(seegrad.record()))
tensors.preview = lambda tensor: ((str(tensor.tolist()),),)
print(reads_of(seegrad.record()) > 0)
"""
    assert said_by(code) == ["0", "True"]


def test_the_numbers_of_big_tensors_make_no_host_wait() -> None:
    code = """
import torch, seegrad
from tests.device.elsewhere import NAME, READS, register
register()
x = torch.linspace(-1, 2, 60, device=NAME).reshape(3, 20).requires_grad_()
w = torch.full((20, 300), 0.5, device=NAME, requires_grad=True)
READS.clear()
with seegrad.record(values=True) as rec:
    y = (x @ w).clamp(max=4)
    y.data.mul_(torch.inf)
    y.sum().backward()
    waited = len(READS)
known = {rec.recording.tensors[t].name: s for frame in rec.frames for t, s in frame.summaries if s}
kept = {rec.recording.tensors[g.tensor].name: g.summary for f in rec.frames for g in f.gradients if g.kept}
print(waited, known["x"].low, known["x"].high, known["w"].norm, known["y"].infinities == y.numel(), known["w"].kept)
print(kept["x"].norm, len(kept["x"].numbers.split()), waited < len(READS))
"""
    norm = 300 * 0.5 * 20**0.5  # of one row of three: the clamp lets no gradient through to the others
    assert said_by(code) == ["0 -1 2 38.7 True (16, 16)", f"{norm:.3g} 60 True"]
