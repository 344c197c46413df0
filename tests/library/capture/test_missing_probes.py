"""A torch that lacks a private probe: one clear warning, torch's own behaviour, and what can be told is told."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

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
    [((), AS_ON_2_9), (("unpack",), AS_ON_2_9), (("data", "unpack", "unpack_hook"), 1)],
    ids=["as it is", "as on 2.11", "as on 2.9"],
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


def test_the_warning_is_no_error_whatever_the_filters_say(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(
        "import torch\nsaved = torch._C._autograd.SavedTensor\nif hasattr(saved, 'data'):\n    del saved.data\n"
        "import seegrad\nprint('still here')"
    )
    done = subprocess.run([sys.executable, "-W", "error", str(script)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "still here\n"), done.stderr
