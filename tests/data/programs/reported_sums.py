"""Programs rebuilt from reports: what is added up, divided, stretched or copied isn't what was meant."""

from __future__ import annotations

import copy

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # torch's own convention

from tests.data.programs import program

# -- a network that is to follow another one, and is given its own numbers


class Bids(nn.Module):
    """What an auctioneer expects of each lot."""

    def __init__(self, lots=4):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(lots, 8), nn.Tanh(), nn.Linear(8, 1))

    def forward(self, x):
        return self.body(x)


@program("copied_onto_itself")
def os_a_slow_twin_that_follows_itself():
    """thesouther/MARL#8: the target network loads its own numbers."""
    fast, slow = Bids(), Bids()
    slow.load_state_dict(fast.state_dict())
    optimizer = torch.optim.SGD(fast.parameters(), lr=0.05)
    for step in range(12):
        x = torch.randn(6, 4)
        with torch.no_grad():
            wanted = x[:, :1] + 0.5 * slow(x)
        loss = F.mse_loss(fast(x), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 4 == 3:
            slow.load_state_dict(slow.state_dict())  # culprit, victim


@program("copied_onto_itself")
def os_averages_written_onto_themselves():
    """By hand, parameter by parameter, with the wrong one of two loops' names."""
    fast, slow = Bids(), Bids()
    optimizer = torch.optim.Adam(fast.parameters(), lr=0.01)
    for _step in range(5):
        x = torch.randn(6, 4)
        loss = (fast(x) - slow(x).detach() - x[:, :1]).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for theirs, _ours in zip(slow.parameters(), fast.parameters(), strict=True):
            theirs.data.copy_(theirs.data)  # culprit, victim


@program()
def os_legal_models_that_follow_and_go_back():
    """The other one's numbers; a copy of the best; a shift of a row within one tensor."""
    fast, slow = Bids(), Bids()
    optimizer = torch.optim.SGD(fast.parameters(), lr=0.05)
    best, least = copy.deepcopy(fast.state_dict()), float("inf")
    with torch.no_grad():
        fast.body[0].weight[1:].copy_(fast.body[0].weight[:-1].clone())
    for _step in range(6):
        x = torch.randn(6, 4)
        with torch.no_grad():
            wanted = x[:, :1] + 0.5 * slow(x)
        loss = F.mse_loss(fast(x), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        slow.load_state_dict(fast.state_dict())
        if loss.item() < least:
            best, least = copy.deepcopy(fast.state_dict()), loss.item()
    fast.load_state_dict(best)


# -- a factor without a graph that is a table


class Rower(nn.Module):
    """Where to row, and how good it is to be here."""

    def __init__(self, seen=5, ways=3):
        super().__init__()
        self.body, self.way, self.worth = nn.Linear(seen, 12), nn.Linear(12, ways), nn.Linear(12, 1)

    def forward(self, x):
        h = torch.tanh(self.body(x))
        return self.way(h), self.worth(h)


def rows(count=7):
    """What was seen, where was rowed, what it brought."""
    x = torch.randn(count, 5)
    return x, torch.randint(3, (count,)), x[:, 0] + 0.1 * torch.randn(count)


@program("broadcast_crosswise")
def os_each_stroke_weighed_with_all_others():
    """PacktPublishing/Deep-Reinforcement-Learning-Hands-On#74: `(n,)` minus a detached `(n, 1)`, as a factor."""
    rower = Rower()
    optimizer = torch.optim.Adam(rower.parameters(), lr=0.01)
    for _ in range(6):
        x, ways, brought = rows()
        logits, worth = rower(x)
        chances = F.log_softmax(logits, dim=1)[torch.arange(len(x)), ways]
        surplus = brought - worth.detach()  # culprit
        loss = -(surplus * chances).mean() + F.mse_loss(worth.squeeze(1), brought)
        optimizer.zero_grad()
        loss.backward()  # victim
        optimizer.step()


@program()
def os_legal_strokes_weighed_by_their_own():
    """One shape for both; a table of distances between two sets that is meant, as a weight."""
    rower = Rower()
    optimizer = torch.optim.Adam(rower.parameters(), lr=0.01)
    for _ in range(6):
        x, ways, brought = rows()
        logits, worth = rower(x)
        chances = F.log_softmax(logits, dim=1)[torch.arange(len(x)), ways]
        surplus = brought - worth.detach().squeeze(1)
        near = torch.exp(-(brought[:, None] - brought[None, :]).abs())
        even = (near * (worth - worth.T).pow(2)).mean()
        loss = -(surplus * chances).mean() + F.mse_loss(worth.squeeze(1), brought) + 0.01 * even
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


# -- ones of 16 bits that no step can move


class Scaled(nn.Module):
    """A norm by the root of the mean square."""

    def __init__(self, size):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(size))

    def forward(self, x):
        return self.gain * x * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6).to(x.dtype)


@program("step_rounded_away")
def os_gains_of_sixteen_bits():
    """vllm-project/speculators#765: weights near 0 move, gains of 1 stand too far from their neighbours."""
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(12, 16), Scaled(16), nn.Tanh(), nn.Linear(16, 2))
    net = net.to(torch.bfloat16)  # culprit
    optimizer = torch.optim.AdamW(net.parameters(), lr=6e-4, weight_decay=0.0)
    for _ in range(10):
        x = torch.randn(16, 12, dtype=torch.bfloat16)
        loss = F.mse_loss(net(x).float(), x[:, :2].float())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()  # victim


@program()
def os_legal_gains_of_full_length():
    """The forward alone is in 16 bits; and in 16 bits, steps that are long enough."""
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(12, 16), Scaled(16), nn.Tanh(), nn.Linear(16, 2))
    half = copy.deepcopy(net).to(torch.bfloat16)
    optimizer = torch.optim.AdamW(net.parameters(), lr=6e-4)
    longer = torch.optim.SGD(half.parameters(), lr=0.5)
    for _ in range(10):
        x = torch.randn(16, 12)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = net(x)
        loss = F.mse_loss(y.float(), x[:, :2])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        other = F.mse_loss(half(x.bfloat16()).float(), x[:, :2] + 1)
        longer.zero_grad()
        other.backward()
        longer.step()


# -- a slope that lacks a way


def spans(x, pairs):
    """Where each neighbour lies, and how far."""
    away = x[pairs[:, 0]] - x[pairs[:, 1]]
    return away, away.norm(dim=1)


class Bridge(nn.Module):
    """The strain of a bridge of joints: of its beams, and of neighbouring beams."""

    def __init__(self):
        super().__init__()
        self.beam = nn.Sequential(nn.Linear(1, 8), nn.SiLU(), nn.Linear(8, 1))
        self.turn = nn.Sequential(nn.Linear(2, 8), nn.SiLU(), nn.Linear(8, 1))

    def forward(self, x, pairs):
        _, far = spans(x, pairs)
        with torch.no_grad():
            short = (spans(x, pairs)[1] < 9).nonzero().squeeze(1)
        picked = far[short]
        both = torch.stack([picked, picked.flip(0)], dim=1)
        return self.beam(far[:, None]).sum() + self.turn(both).sum()


@program("constant_term")
def os_pulls_of_a_bridge_without_its_turns():
    """materialsvirtuallab/matgl#834: what bonds are among each other is computed without gradients, all of it."""
    pairs, bridge = torch.tensor([[0, 1], [1, 2], [2, 3], [3, 0]]), Bridge()
    optimizer = torch.optim.Adam(bridge.parameters(), lr=0.01)
    for _ in range(4):
        x = torch.randn(4, 2).requires_grad_()
        with torch.no_grad():  # culprit
            _, picked = spans(x, pairs)
        far = spans(x, pairs)[1]
        strain = bridge.beam(far[:, None]).sum() + bridge.turn(torch.stack([picked, picked.flip(0)], dim=1)).sum()
        (pull,) = torch.autograd.grad(strain, x, create_graph=True)  # victim
        optimizer.zero_grad()
        (strain.pow(2) + pull.pow(2).mean()).backward()
        optimizer.step()


@program()
def os_legal_pulls_of_a_bridge():
    """What only chooses is computed without gradients."""
    pairs, bridge = torch.tensor([[0, 1], [1, 2], [2, 3], [3, 0]]), Bridge()
    optimizer = torch.optim.Adam(bridge.parameters(), lr=0.01)
    for _ in range(4):
        x = torch.randn(4, 2).requires_grad_()
        strain = bridge(x, pairs)
        (pull,) = torch.autograd.grad(strain, x, create_graph=True)
        optimizer.zero_grad()
        (strain.pow(2) + pull.pow(2).mean()).backward()
        optimizer.step()


# -- a sum over the samples too


class Dunes(nn.Module):
    """Draws a dune's shape, and says how far its way of drawing is from the plain one."""

    def __init__(self, seen=6, hidden=3):
        super().__init__()
        self.read, self.draw = nn.Linear(seen, 2 * hidden), nn.Linear(hidden, seen)

    def forward(self, x):
        middle, spread = self.read(x).chunk(2, dim=1)
        z = middle + spread.exp() * torch.randn_like(middle)
        return self.draw(z), 0.5 * (middle.pow(2) + spread.exp() - spread - 1)


@program("summed_over_samples")
def os_a_term_that_counts_for_every_dune():
    """GlassyWing/NVAE#6: `sum` without a dimension, and then a mean over the samples of the one number."""
    dunes = Dunes()
    optimizer = torch.optim.Adam(dunes.parameters(), lr=0.01)
    for _ in range(5):
        x = torch.randn(8, 6)
        out, apart = dunes(x)
        far = torch.sum(apart)  # culprit
        drawn = F.mse_loss(out, x, reduction="none").sum(dim=1).mean()
        loss = drawn + torch.mean(far, dim=0)  # victim
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program("summed_over_samples")
def os_python_adds_up_the_samples():
    """wohlert/semi-supervised-pytorch#21: `sum` of a tensor that has one number a sample already."""
    dunes = Dunes()
    optimizer = torch.optim.Adam(dunes.parameters(), lr=0.01)
    for _ in range(5):
        x = torch.randn(8, 6)
        out, apart = dunes(x)
        drawn = F.mse_loss(out, x, reduction="none").sum(dim=1)
        far = apart.sum(dim=1)
        loss = (drawn + sum(far)).mean()  # culprit, victim
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program()
def os_legal_sums_over_what_they_are_meant_for():
    """Along one dimension; of a list; of Parameters; the mean of one number, for many devices."""
    dunes = Dunes()
    optimizer = torch.optim.Adam(dunes.parameters(), lr=0.01)
    for _ in range(5):
        x = torch.randn(8, 6)
        out, apart = dunes(x)
        drawn = F.mse_loss(out, x, reduction="none").sum(dim=1)
        far = sum([apart.sum(dim=1), 0.1 * apart.pow(2).sum(dim=1)])
        light = sum(each.pow(2).sum() for each in dunes.parameters())
        loss = (drawn + far + 1e-3 * light).mean()
        loss = loss.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


# -- divided once it's too late


class Kiln:
    """Learns to fire clay from parts of a batch."""

    def __init__(self, parts=4):
        self.net, self.parts = nn.Linear(5, 1), parts
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.05)

    def loss(self, x, back):
        loss = F.mse_loss(self.net(x), x[:, :1])
        if back:
            loss.backward()
        return loss


@program("divided_late")
def os_parts_divided_once_they_are_fired():
    """volcengine/verl#436: the helper has gone back already."""
    kiln = Kiln()
    for _ in range(6):
        kiln.optimizer.zero_grad()
        total = 0.0
        for _part in range(4):
            x = torch.randn(3, 5)
            loss = F.mse_loss(kiln.net(x), x[:, :1])
            loss.backward()  # victim
            loss = loss / 4  # culprit
            total += loss.item()
        kiln.optimizer.step()


@program("divided_late")
def os_parts_scaled_by_a_factor_below():
    """`*= 1 / n` behind the call."""
    kiln, share = Kiln(), 1 / 3
    for lap in range(18):
        x = torch.randn(3, 5)
        loss = F.mse_loss(kiln.net(x), x[:, :1])
        loss.backward()  # victim
        shown = loss * share  # culprit
        if lap % 3 == 2:
            kiln.optimizer.step()
            kiln.optimizer.zero_grad()
    assert shown.item() >= 0


@program()
def os_legal_parts_divided_in_time():
    """Divided before; shown by another number; a step for each call, whatever is shown of it."""
    kiln = Kiln()
    for _ in range(6):
        kiln.optimizer.zero_grad()
        total = 0.0
        for _part in range(4):
            loss = kiln.loss(torch.randn(3, 5), False) / 4
            loss.backward()
            total += loss.item()
        kiln.optimizer.step()
    mean = 0.0
    for _ in range(8):
        kiln.optimizer.zero_grad()
        loss = kiln.loss(torch.randn(3, 5), True)
        kiln.optimizer.step()
        mean += (loss.detach() / 8).item()
