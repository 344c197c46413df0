"""What was asked for wasn't there: gradients of what is frozen or of the time before any, rows that a mask hides."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # torch's own convention

from tests.data.programs import program

# -- the gradient of what was switched off on purpose


@program("unused_input")
def as_inner_steps_of_a_frozen_stem():
    """higher#8: the pretrained part is frozen, and the inner loop asks for the gradients of all."""
    net = nn.ModuleDict({"stem": nn.Linear(6, 12), "head": nn.Linear(12, 1)})
    for weight in net["stem"].parameters():
        weight.requires_grad = False
    inputs, targets = torch.randn(20, 6), torch.randn(20, 1)
    fast = list(net.parameters())
    loss = F.mse_loss(net["head"](torch.tanh(net["stem"](inputs))), targets)
    sum(step.square().sum() for step in torch.autograd.grad(loss, fast, create_graph=True))  # culprit, victim


@program("unused_input")
def as_a_penalty_on_all_weights():
    """A gradient penalty over a model of which the embedding stays as it was loaded."""
    words = nn.Embedding(30, 8)
    scorer = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))
    words.requires_grad_(False)
    optimizer = torch.optim.SGD(scorer.parameters(), lr=0.1)
    weights = [*words.parameters(), *scorer.parameters()]
    for _epoch in range(2):
        optimizer.zero_grad()
        score = scorer(words(torch.randint(0, 30, (16,)))).pow(2).mean()
        slopes = torch.autograd.grad(score, weights, create_graph=True)  # culprit, victim
        (score + sum(slope.square().sum() for slope in slopes)).backward()
        optimizer.step()


@program(None)
def as_inner_steps_of_what_learns():
    """The same, asked of those that learn."""
    net = nn.ModuleDict({"stem": nn.Linear(6, 12), "head": nn.Linear(12, 1)})
    for weight in net["stem"].parameters():
        weight.requires_grad = False
    inputs, targets = torch.randn(20, 6), torch.randn(20, 1)
    fast = [weight for weight in net.parameters() if weight.requires_grad]
    loss = F.mse_loss(net["head"](torch.tanh(net["stem"](inputs))), targets)
    steps = torch.autograd.grad(loss, fast, create_graph=True)
    sum(step.square().sum() for step in steps).backward()


# -- a gradient is None until a backward call has run


@program("never_reached", severity="error")
def as_emptied_before_the_first_round():
    """pytorch-examples#7: the gradients are emptied before anything was added to them."""
    inputs = torch.linspace(-1, 1, 40).unsqueeze(1)
    targets = 3 * inputs + 0.5
    slope = torch.randn(1, 1, requires_grad=True)
    shift = torch.zeros(1, requires_grad=True)
    for _step in range(30):
        loss = (inputs @ slope + shift - targets).pow(2).mean()
        slope.grad.zero_()  # culprit, victim
        shift.grad.zero_()
        loss.backward()
        with torch.no_grad():
            slope -= 0.1 * slope.grad
            shift -= 0.1 * shift.grad


@program("never_reached", severity="error")
def as_emptied_by_a_helper_of_all():
    """One's own `zero_grad`, called at the start of the first round."""

    def empty(net):
        for weight in net.parameters():
            weight.grad.data.zero_()  # culprit, victim

    net = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))
    inputs, targets = torch.randn(30, 3), torch.randn(30, 1)
    for _step in range(3):
        empty(net)
        F.mse_loss(net(inputs), targets).backward()
        with torch.no_grad():
            for weight in net.parameters():
                weight -= 0.05 * weight.grad


@program(None)
def as_emptied_where_there_are_any():
    """The same, where there are any."""
    net = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))
    inputs, targets = torch.randn(30, 3), torch.randn(30, 1)
    for _step in range(3):
        for weight in net.parameters():
            if weight.grad is not None:
                weight.grad.zero_()
        F.mse_loss(net(inputs), targets).backward()
        with torch.no_grad():
            for weight in net.parameters():
                weight -= 0.05 * weight.grad


# -- a mask that lies along the queries


class Attention(nn.Module):
    def __init__(self, width=16, heads=2):
        super().__init__()
        self.heads = heads
        self.mixed, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x, mask):
        query, key, value = (self.split(each) for each in self.mixed(x).chunk(3, dim=-1))
        scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
        scores = scores.masked_fill(~mask, float("-inf"))
        weights = torch.softmax(scores, dim=-1)
        return self.out((weights @ value).transpose(1, 2).flatten(2))

    def split(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)


def sentences(rows=6, length=7, words=20):
    """Ids with 0 behind each end."""
    ids = torch.randint(1, words, (rows, length))
    ends = torch.arange(length) >= torch.randint(3, length, (rows, 1))
    return ids.masked_fill(ends, 0)


@program("not_finite", check_nan=True)
def as_padding_that_hides_its_own_rows():
    """hyunwoongko/transformer#40: the padding mask gets its new dimension behind the positions."""
    words, attend, head = nn.Embedding(20, 16), Attention(), nn.Linear(16, 2)
    optimizer = torch.optim.Adam([*words.parameters(), *attend.parameters(), *head.parameters()], lr=1e-3)
    for _step in range(3):
        ids = sentences()
        there = (ids != 0)[:, None, :, None]  # culprit
        seen = attend(words(ids), there)
        loss = F.cross_entropy(head(seen.mean(1)), torch.randint(0, 2, (6,)))
        optimizer.zero_grad()
        loss.backward()  # victim
        optimizer.step()


@program("not_finite", check_nan=True)
def as_a_bias_that_hides_its_own_rows():
    """The mask is made where it is used, by torch.where, of a plain softmax over single scores."""
    words, key, head = nn.Embedding(20, 12), nn.Linear(12, 12), nn.Linear(12, 1)
    optimizer = torch.optim.Adam([*words.parameters(), *key.parameters(), *head.parameters()], lr=1e-3)
    for _step in range(3):
        ids = sentences()
        x = words(ids)
        hidden = (ids == 0).unsqueeze(-1)  # culprit
        scores = x @ key(x).transpose(1, 2)
        scores = torch.where(hidden, torch.tensor(-math.inf), scores)
        loss = head(F.softmax(scores, -1) @ x).square().mean()
        optimizer.zero_grad()
        loss.backward()  # victim
        optimizer.step()


@program(None)
def as_padding_that_hides_the_keys():
    """The same, along the keys."""
    words, attend, head = nn.Embedding(20, 16), Attention(), nn.Linear(16, 2)
    optimizer = torch.optim.Adam([*words.parameters(), *attend.parameters(), *head.parameters()], lr=1e-3)
    for _step in range(3):
        ids = sentences()
        there = (ids != 0)[:, None, None, :]
        seen = attend(words(ids), there)
        loss = F.cross_entropy(head(seen.mean(1)), torch.randint(0, 2, (6,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


# -- a dict that hands out in each round what was computed in the first


@program("graph_freed")
def as_waves_kept_by_their_number():
    """rotary-embedding-torch#18: learned frequencies, kept by the length of what they were computed for."""

    class Waves(nn.Module):
        def __init__(self, waves=4):
            super().__init__()
            self.lengths = nn.Parameter(torch.rand(waves) + 0.5)
            self.known = {}

        def forward(self, steps):
            if steps in self.known:
                return self.known[steps]
            at = torch.outer(torch.linspace(0, 1, steps), self.lengths)
            waves = torch.cat([at.sin(), at.cos()], dim=-1)
            self.known[steps] = waves
            return waves

    waves, head = Waves(), nn.Linear(8, 1)
    optimizer = torch.optim.Adam([*waves.parameters(), *head.parameters()], lr=1e-2)
    course = torch.linspace(0, 1, 24).unsqueeze(1).sin()
    for _round in range(3):
        loss = F.mse_loss(head(waves(24)), course)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program(None)
def as_waves_of_given_lengths():
    """The same, of lengths that are given."""

    class Waves(nn.Module):
        def __init__(self, waves=4):
            super().__init__()
            self.register_buffer("lengths", torch.rand(waves) + 0.5)
            self.known = {}

        def forward(self, steps):
            if steps not in self.known:
                at = torch.outer(torch.linspace(0, 1, steps), self.lengths)
                self.known[steps] = torch.cat([at.sin(), at.cos()], dim=-1)
            return self.known[steps]

    waves, head = Waves(), nn.Linear(8, 1)
    optimizer = torch.optim.Adam([*waves.parameters(), *head.parameters()], lr=1e-2)
    course = torch.linspace(0, 1, 24).unsqueeze(1).sin()
    for _round in range(3):
        loss = F.mse_loss(head(waves(24)), course)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
