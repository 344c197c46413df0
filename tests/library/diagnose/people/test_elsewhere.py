"""A class that stands in another cell than the loop that trains it: its line is named there."""

from __future__ import annotations

import linecache
from typing import Any

import torch

import seegrad

CLASS = """\
import torch
from torch import nn


class Other(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3, 3)])


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = []
        for _ in range(2):
            self.layers.append(nn.Linear(3, 3))
        self.head = nn.Linear(3, 1)

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return self.head(x)
"""

LOOP = """\
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    model(torch.ones(2, 3)).pow(2).mean().backward()
    optimizer.step()
"""


def run(text: str, file: str, space: dict[str, Any]) -> None:
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    exec(compile(text, file, "exec"), space)  # noqa: S102  # two cells of ours


def test_layers_in_a_plain_list_are_named_where_their_own_class_stands() -> None:
    space: dict[str, Any] = {}
    torch.manual_seed(0)
    run(CLASS, "<the first cell>", space)
    with seegrad.record() as rec:
        run(LOOP, "<the second cell>", space)
    (found,) = rec.recording.diagnoses
    assert found.kind == "no_optimiser_holds_it"
    assert found.culprit is not None
    assert (found.culprit.file, found.culprit.line) == ("<the first cell>", 14)
    assert "`model.layers`, a plain list" in found.message("en")
