"""Programs rebuilt from reports: shares made twice, heads that are cut out of rows, an adapter that is all 0."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # torch's own convention

from tests.data.programs import program

# -- probabilities made of probabilities


@program("loss_of_probabilities")
def s_two_that_make_shares_of_the_harvest():
    """Hsuxu/Loss_ToolBox-PyTorch#11: what calls the inner function has made shares already."""

    def overlap(score, truth):
        share = torch.sigmoid(score).flatten(1)  # victim
        truth = truth.flatten(1)
        return 1 - (2 * (share * truth).sum(1) + 1) / ((share.square() + truth.square()).sum(1) + 1)

    def overlaps(scores, truths):
        scores = scores.softmax(1)  # culprit
        return sum(overlap(scores[:, kind], truths[:, kind]).mean() for kind in range(3)) / 3

    field = nn.Conv2d(1, 3, 3, padding=1)
    optimizer = torch.optim.SGD(field.parameters(), lr=0.1)
    for _year in range(3):
        truths = F.one_hot(torch.randint(3, (4, 5, 5)), 3).movedim(-1, 1).float()
        loss = overlaps(field(torch.randn(4, 1, 5, 5)), truths)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program()
def s_legal_shares_of_shares():
    """A gate on what a layer makes of shares; the best of them, normalised once more."""
    rate, gate, top = nn.Linear(4, 6), nn.Linear(6, 6), nn.Linear(6, 1)
    optimizer = torch.optim.SGD([*rate.parameters(), *gate.parameters(), *top.parameters()], lr=0.1)
    for _year in range(3):
        shares = rate(torch.randn(8, 4)).softmax(1)
        opened = torch.sigmoid(gate(shares))
        best = shares.topk(3).values.softmax(1)
        loss = F.binary_cross_entropy_with_logits(top(opened * shares), torch.rand(8, 1)) + best.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


# -- heads that are counted off instead of cut out


@program("dimensions_mixed")
def s_eyes_that_see_half_of_the_beads():
    """reczoo/FuxiCTR#30, with the parts in a dimension of their own."""
    eyes, size = 2, 6
    asks, shows = nn.Linear(size, size), nn.Linear(size, size)
    optimizer = torch.optim.SGD([*asks.parameters(), *shows.parameters()], lr=0.1)
    for _chain in range(3):
        beads = torch.randn(4, 5, size)
        seen = asks(beads).view(4, eyes, 5, size // eyes)  # culprit, victim
        shown = shows(beads).view(4, 5, eyes, size // eyes).transpose(1, 2)
        loss = (seen @ shown.transpose(-1, -2)).softmax(-1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program()
def s_legal_eyes():
    """Split and exchanged; torch's own order, time first; rows cut into shorter ones; as many parts as rows."""
    eyes, size = 2, 6
    asks = nn.Linear(size, size)
    optimizer = torch.optim.SGD(asks.parameters(), lr=0.1)
    for _chain in range(3):
        beads = asks(torch.randn(4, 5, size))
        split = beads.view(4, 5, eyes, size // eyes).transpose(1, 2).reshape(4 * eyes, 5, size // eyes)
        first = beads.transpose(0, 1).reshape(5, 4 * eyes, size // eyes).transpose(0, 1)
        cut = beads.reshape(4, 5 * eyes, size // eyes)
        square = beads[:, :2].reshape(4, 2, 2, size // 2)
        loss = (split - first).square().mean() + cut.square().mean() + square.abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


# -- both factors are 0, of a training so long that its first laps are forgotten


@program("gradient_is_zero", check_nan=True)
def s_an_adapter_that_all_is_set_to_nought_with():
    """nvidia-cosmos/cosmos-predict2.5#15: added first, and then all is begun anew."""
    body = nn.Linear(4, 4)
    adapter = nn.ParameterList([nn.Parameter(torch.randn(4, 2)), nn.Parameter(torch.zeros(2, 4))])
    for weight in adapter:
        nn.init.zeros_(weight)  # culprit
    body.requires_grad_(requires_grad=False)
    optimizer = torch.optim.AdamW(adapter, lr=0.01, weight_decay=0.0)
    for _lap in range(60):
        x = torch.randn(8, 4)
        y = body(x) + x @ adapter[0] @ adapter[1]
        for _fold in range(8):
            y = torch.sin(y * 0.9 + 0.1)
        loss = (y - x).square().mean()
        optimizer.zero_grad()
        loss.backward()  # victim
        optimizer.step()


@program(check_nan=True)
def s_legal_adapter_of_a_long_training():
    """One of the two is random."""
    body = nn.Linear(4, 4)
    down, up = nn.Parameter(torch.randn(4, 2)), nn.Parameter(torch.zeros(2, 4))
    body.requires_grad_(requires_grad=False)
    optimizer = torch.optim.AdamW([down, up], lr=0.01, weight_decay=0.0)
    for _lap in range(60):
        x = torch.randn(8, 4)
        y = body(x) + x @ down @ up
        for _fold in range(8):
            y = torch.sin(y * 0.9 + 0.1)
        loss = (y - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


# -- two optimisers that take turns on one line


@program()
def s_legal_optimisers_that_take_turns():
    """What the last turns leave alone has been stepped in turns before them, long ago."""
    near, far = nn.Linear(4, 3), nn.Linear(4, 3)
    optimizers = [torch.optim.Adam(each.parameters(), lr=3e-3) for each in (near, far)]
    for turn in (0, 1):
        for _lap in range(40):
            x = torch.randn(8, 4)
            near.zero_grad()
            far.zero_grad()
            score = torch.tanh(near(x)) + torch.tanh(far(x.flip(1)))
            for _fold in range(8):
                score = torch.sin(score * 0.9 + 0.1)
            loss = (score - x[:, :3]).square().mean()
            loss.backward()
            optimizers[turn].step()
