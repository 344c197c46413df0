"""Recording and drawing need nothing that Python in a browser lacks: no thread, no process, no library to be loaded."""

from __future__ import annotations

import json
import subprocess
import sys

LIMITS = """
import ctypes, json, multiprocessing.process, os, socket, subprocess, threading

import torch

import seegrad
from seegrad.display.findings import findings
from seegrad.picture import draw, table

asked = []


def refused(name):
    def call(*arguments, **options):
        asked.append(name)
        raise OSError(f"{name}: there is none here")

    return call


for owner, name in (
    (threading.Thread, "start"), (subprocess.Popen, "__init__"), (multiprocessing.process.BaseProcess, "start"),
    (os, "fork"), (os, "system"), (os, "posix_spawn"), (ctypes.CDLL, "__init__"), (socket.socket, "connect"),
):
    setattr(owner, name, refused(f"{owner.__name__}.{name}"))


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad


MORE
with seegrad.record(detail="content", check_nan=True, check_functions=True, values=True) as rec:
    a = torch.linspace(0, 1, 40).requires_grad_()
    h = Doubled.apply(a).exp()
    h.data.zero_()
    h.sum().backward()
drawn = draw(seegrad.load(rec.save("rec.json")))
print(json.dumps([asked, [each["kind"] for each in findings(rec.recording)], len(table(drawn).splitlines()) > 5]))
"""


def run(more: str, folder: object) -> list[object]:
    program = LIMITS.replace("MORE", more)
    done = subprocess.run([sys.executable, "-c", program], cwd=str(folder), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answer: list[object] = json.loads(done.stdout)
    return answer


def test_a_recording_asks_for_none_of_it(tmp_path: object) -> None:
    assert run("", tmp_path) == [[], ["silent_corruption", "backward_disagrees"], True]


def test_who_would_ask_is_noticed(tmp_path: object) -> None:
    """The limits themselves: a thread that somebody starts is refused, and told."""
    tried = "try:\n    threading.Thread(target=print).start()\nexcept OSError:\n    pass"
    assert run(tried, tmp_path)[0] == ["Thread.start"]
