"""What a sentence tells to write instead is what the mend writes: done as it stands, nothing is left out."""

from __future__ import annotations

import contextlib

import pytest
import torch
from torch import nn

import seegrad
from seegrad.diagnose.mend import mend_of

WRITTEN = {
    "h.mul_(2)": ("h = h.mul(…)", "h = h.mul(2)"),
    "torch.nn.functional.relu_(h)": ("h = torch.nn.functional.relu(h)", "h = torch.nn.functional.relu(h)"),
    "h.clamp_(max=1).mul_(3)": ("h = h.clamp(…).mul(…)", "h = h.clamp(max=1).mul(3)"),
    "h *= 2": ("h = h * …", "h = h * 2"),
    "box.h.add_(1)": ("box.h = box.h.add(…)", "box.h = box.h.add(1)"),
    "if True: h.exp_()": ("h = h.exp()", None),
    "y = h.mul_(2).sum()": ("h.mul(…)", None),
    "h.data.mul_(2)": ("h = h.mul(…)", "h = h.mul(2)"),
    "F.relu(h, inplace=True)": ("h = F.relu(h)", "h = F.relu(h)"),
    "rectify(h)": ("h = rectify(h)", None),
}


class Box:
    """What has a tensor as its attribute."""

    h: torch.Tensor


@pytest.mark.parametrize("line", WRITTEN)
def test_the_sentence_names_what_takes_the_result(line: str) -> None:
    found = diagnosed(line)
    quoted, mended = WRITTEN[line]
    assert f"`{quoted}`" in found.message("en")
    assert f"`{quoted}`" in found.message("zh")
    assert (found.mend.line if found.mend else None) == mended


def diagnosed(line: str) -> seegrad.Diagnosis:
    """The first thing found in a program that writes by this line to what `exp` has saved."""
    tensor = "box.h" if "box" in line else "h"
    code = f"{tensor} = w.exp()\n{line}\n{tensor}.sum().backward()\n"
    held = {"w": torch.ones(3, requires_grad=True), "box": Box(), "torch": torch, "F": nn.functional}
    rec = seegrad.record(code=("program.py", 1, code))
    with contextlib.suppress(RuntimeError), rec:
        exec(compile(code, "program.py", "exec"), held | {"rectify": nn.ReLU(inplace=True)})  # noqa: S102  # a program as its reader has it
    found = rec.recording.diagnoses[0]
    assert mend_of(rec.recording, found) == found.mend
    return found
