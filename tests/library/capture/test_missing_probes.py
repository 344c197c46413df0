"""A torch that lacks a private probe: one clear warning, torch's own behaviour, and what can be told is told."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from seegrad import record
from seegrad.capture.probes import torch_private as _torch
from seegrad.model.recording import Recording

ROOT = Path(__file__).parents[3]
PROGRAM = """
import json, sys, warnings
import torch
for name in sys.argv[1:]:
    if hasattr(torch._C._autograd.SavedTensor, name):
        delattr(torch._C._autograd.SavedTensor, name)
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    import seegrad
    from seegrad import recorder


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return 2 * x * gradient


def result_written():
    out = a.sigmoid()
    out += 1
    out.sum().backward()


def input_written():
    b = a * 1
    out = b * b
    b.zero_()
    out.sum().backward()


def silent():
    out = a.exp()
    out.data.zero_()
    out.sum().backward()


def custom():
    b = a * 1
    out = Twice.apply(b)
    b.mul_(2)
    out.sum().backward()


def packed():
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x + 0, lambda x: unpacked.append(1) or x):
        out = a.exp() * a
    out.sum().backward()


found = {}
for program in (result_written, input_written, silent, custom, packed):
    a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    unpacked, error = [], None
    try:
        with seegrad.record() as rec:
            program()
    except RuntimeError as raised:
        error = "inplace operation" in str(raised)
    first = rec.diagnoses[0] if rec.diagnoses else None
    found[program.__name__] = [error, first and first.kind, first and first.culprit.code, len(unpacked)]
print(json.dumps([[str(each.message) for each in told], found]))
"""
EXPECTED = {
    "result_written": [True, "saved_tensor_modified", "out += 1", 0],
    "input_written": [True, "saved_tensor_modified", "b.zero_()", 0],
    "silent": [None, "silent_corruption", "out.data.zero_()", 0],
    "custom": [True, "saved_tensor_modified", "b.mul_(2)", 0],
    "packed": [None, None, None, 3],
}
AS_ON_2_9 = int(not hasattr(torch._C._autograd.SavedTensor, "data"))


@pytest.mark.parametrize(
    ("missing", "warnings"),
    [
        pytest.param((), AS_ON_2_9, id="as it is", marks=pytest.mark.whole),
        pytest.param(("unpack",), AS_ON_2_9, id="as on 2.11", marks=pytest.mark.whole),
        pytest.param(("data", "unpack", "unpack_hook"), 1, id="as on 2.9"),
    ],
)
def test_what_a_poorer_torch_still_tells(tmp_path: Path, missing: tuple[str, ...], warnings: int) -> None:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, str(script), *missing], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    told, found = json.loads(done.stdout)
    assert found == EXPECTED
    assert len([each for each in told if each.startswith("seegrad sees less on torch ")]) == warnings


ELSEWHERE = """
import torch
saved = torch._C._autograd.SavedTensor
if hasattr(saved, "data"):
    del saved.data
torch.__version__ = type(torch.__version__)("2.99.0+cpu")
"""


@pytest.mark.parametrize(
    ("version", "is_told"),
    [
        ("2.99.0+cpu", True),
        pytest.param("2.1.0", True, marks=pytest.mark.whole),
        ("2.13.7a0+git", False),
        ("2.14.1+cu130", False),
    ],
)
def test_a_torch_that_was_not_tried_is_told_once(tmp_path: Path, version: str, is_told: bool) -> None:
    script = tmp_path / "program.py"
    script.write_text(
        f"import torch\ntorch.__version__ = type(torch.__version__)({version!r})\n"
        "import seegrad\nseegrad.record, seegrad.show\nimport seegrad.capture.mode"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stderr.count("seegrad was tried on torch 2.9 to ") == is_told
    assert (f", not on {version}: " in done.stderr) is is_told


def test_the_warnings_are_no_errors_whatever_the_filters_say(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(f"{ELSEWHERE}import seegrad\nseegrad.record\nprint('still here')")
    done = subprocess.run([sys.executable, "-W", "error", str(script)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "still here\n"), done.stderr


class Writes(torch.autograd.Function):
    """Its forward writes what it's given, and gives it back."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(_ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient * 2


class GivesBack(torch.autograd.Function):
    """Its forward gives back what it's given; what it keeps is computed apart."""

    @staticmethod
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, _output: Any) -> None:
        ctx.save_for_backward(inputs[0] * 2)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient * ctx.saved_tensors[0]


def two_functions() -> Recording:
    a = torch.tensor([1.0, 2.0], requires_grad=True)
    with record() as rec:
        b = Writes.apply(a * 1)  # type: ignore[no-untyped-call]  # torch gives it no types
        c = GivesBack.apply(b)  # type: ignore[no-untyped-call]  # the same
        with torch.no_grad():
            b.view_as(b)
        (c * b).sum().backward()
    return rec.recording


def test_a_function_looks_the_same_where_apply_leaves_no_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on torch 2.15, where `apply` is written in C."""
    expected = two_functions()
    monkeypatch.setattr(_torch, "APPLY", None)
    assert two_functions() == expected
    assert [frame.applied for frame in expected.frames if frame.applied is not None]
