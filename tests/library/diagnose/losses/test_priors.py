"""Parameters that are alone in a term of a loss: named where they are made, and not where anything else uses them."""

from __future__ import annotations

from pathlib import Path

import pytest

import seegrad
from seegrad.display.script import script
from seegrad.model.recording import Diagnosis

NET = """\
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.used = nn.Parameter(torch.zeros(6, 1))
        self.spare = nn.Parameter(torch.ones(6, 1))

    def forward(self, x):
        return x @ self.used

net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for lap in range(LAPS):
    x = torch.randn(8, 6)
    penalty = PENALTY
    loss = (net(x) - 1).square().mean() + 0.1 * penalty
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
AMISS = {
    "its square": "net.spare.square().sum()",
    "a sum": "sum(each.sum() for each in (net.spare.square(), net.spare.abs()))",
    "left out in a look": "net.spare.square().sum()\n    with torch.no_grad(): net(x).sum() + penalty",
    "in place": "torch.zeros(()).add_(net.spare.square().sum())",
}
MEANT = {
    "of what is used": "net.used.square().sum()",
    "of all": "sum(each.square().sum() for each in net.parameters())",
    "with what is used": "(net.spare - net.used).square().sum()",
    "with data": "(x @ net.spare).square().mean()",
    "with a tensor that isn't data": "(net.spare - torch.ones(6, 1)).square().sum()",
    "of its memory": "net.spare.square().sum() + (x @ net.spare.data).sum()",
    "by its numbers": "net.spare.square().sum()\n    x = x * (2 if net.spare.norm().item() > 0 else 1)",
    "in one lap alone": "net.spare.square().sum() if lap else (x @ net.spare).sum()",
}


def found(folder: Path, penalty: str, laps: int = 3) -> list[Diagnosis]:
    path = folder / "program.py"
    path.write_text(NET.replace("PENALTY", penalty).replace("LAPS", str(laps)), encoding="utf-8")
    program = script(str(path))
    with seegrad.record(code=(program.file, 1, program.text)) as rec:
        exec(program.code, {"__name__": "__main__"})  # noqa: S102  # our own text
    return [each for each in rec.diagnoses if dict(each.arguments).get("how") == "alone"]


@pytest.mark.parametrize("penalty", AMISS.values(), ids=AMISS)
def test_it_is_told_where_the_parameter_is_made(tmp_path: Path, penalty: str) -> None:
    (told,) = found(tmp_path, penalty)
    assert told.culprit is not None
    assert told.culprit.code == "self.spare = nn.Parameter(torch.ones(6, 1))"
    assert told.tensor == "net.spare"


@pytest.mark.parametrize("penalty", MEANT.values(), ids=MEANT)
def test_what_is_used_otherwise_is_not(tmp_path: Path, penalty: str) -> None:
    assert found(tmp_path, penalty) == []


def test_one_lap_is_too_few_and_a_long_training_isn_t_too_long(tmp_path: Path) -> None:
    assert found(tmp_path, AMISS["its square"], laps=1) == []
    assert len(found(tmp_path, AMISS["its square"], laps=150)) == 1
