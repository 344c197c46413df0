"""A constant's line leads to the Function that took it, also where one op makes many Functions."""

from __future__ import annotations

import torch
from torch import nn

import seegrad
from seegrad.model.recording import Recording
from seegrad.picture.sketch import sketch


def takers(recording: Recording, name: str) -> list[str]:
    """The Functions to which a line leads from the tensor of that name."""
    drawn, nodes = sketch(recording), {node.id: node for node in recording.nodes}
    cards = {card.id for card in drawn.cards if card.full_name == name}
    pills = {pill.id: nodes[pill.node].name for pill in drawn.pills if pill.node is not None}
    return [pills[wire.target] for wire in drawn.wires if wire.source in cards and wire.kind == "in"]


def test_a_cells_input_leads_to_the_product_with_its_weight() -> None:
    cell = nn.LSTMCell(3, 8)
    x, h, c = torch.randn(4, 3), torch.zeros(4, 8), torch.zeros(4, 8)
    with seegrad.record() as rec:
        hidden, _ = cell(x, (h, c))
    assert hidden.requires_grad
    assert takers(rec.recording, "x") == takers(rec.recording, "h") == ["AddmmBackward0"]
    assert takers(rec.recording, "c") == ["MulBackward0"]
    node = next(node for node in rec.recording.nodes if any(saved.tensor == 0 for saved in node.saved))
    into = {wire.source for wire in sketch(rec.recording).wires if wire.target == f"f{node.id}"}
    assert "t0-0" in into, "with weight_ih, not with weight_hh"


def test_what_attention_lays_out_anew_leads_to_its_first_product() -> None:
    attention = nn.MultiheadAttention(8, 2, batch_first=True)
    x = torch.randn(2, 5, 8)
    with seegrad.record() as rec:
        out, _ = attention(x, x, x)
    assert out.requires_grad
    drawn = sketch(rec.recording)
    labels = {pill.id: pill.label for pill in drawn.pills}
    constants = {card.id for card in drawn.cards if card.kind == "plain"}
    assert {labels[w.target] for w in drawn.wires if w.source in constants and w.kind == "in"} == {"MmBackward0"}


def test_indices_lead_to_the_function_that_saved_them() -> None:
    logits, label = torch.randn(4, 3, requires_grad=True), torch.tensor([0, 1, 2, 0])
    with seegrad.record() as rec:
        loss = nn.functional.cross_entropy(logits, label)
    assert loss.requires_grad
    assert takers(rec.recording, "label") == ["NllLossBackward0"]
