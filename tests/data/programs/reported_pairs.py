"""Rows that are to find each other, noise that is to be found again, a part that stands still; and what is right."""

from __future__ import annotations

import copy

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # torch's own convention
from torch.utils.data import DataLoader, TensorDataset

from tests.data.programs import program


class Reader(nn.Module):
    """Signatures of recordings, each of length 1."""

    def __init__(self, wide=12, size=5):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(wide, 16), nn.ReLU(), nn.Linear(16, size))

    def forward(self, x):
        return F.normalize(self.net(x), dim=1)


def twice(x):
    return x + 0.1 * torch.randn_like(x), x + 0.1 * torch.randn_like(x)


@program("target_was_given")
def pr_each_bird_among_its_own_classes():
    """Two views of each; the partner is named rightly, and nobody has taken the diagonal out."""
    reader = Reader()
    optimizer = torch.optim.Adam(reader.parameters(), lr=1e-3)
    for _ in range(3):
        one, other = twice(torch.randn(6, 12))
        songs = torch.cat([reader(one), reader(other)])
        alike = songs @ songs.T / 0.2  # culprit
        partner = torch.arange(12).roll(6)
        loss = F.cross_entropy(alike, partner)  # victim
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program("target_was_given")
def pr_each_bird_by_its_cosines():
    """Of a batch's vectors, each beside each."""
    net, scale = Reader().net, nn.Parameter(torch.tensor(1.5))
    optimizer = torch.optim.SGD([*net.parameters(), scale], lr=0.01)
    for _ in range(3):
        calls = net(torch.randn(8, 12))
        alike = F.cosine_similarity(calls[:, None], calls[None], dim=-1)  # culprit
        loss = F.cross_entropy(alike * scale.exp(), torch.arange(8))  # victim
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program()
def pr_legal_birds_without_themselves():
    """The diagonal is taken out, in three ways; two readers; a head as wide as the batch; shares of a teacher."""
    reader, other, head = Reader(), Reader(), nn.Linear(12, 8)
    parameters = [*reader.parameters(), *other.parameters(), *head.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=1e-3)
    own, partner = torch.eye(8, dtype=torch.bool), torch.arange(8).roll(4)
    for _ in range(3):
        x = torch.randn(8, 12)
        one, two = twice(x)
        z = reader(one)
        masked = (z @ z.T / 0.2).masked_fill(own, float("-inf"))
        filled = z @ z.T / 0.2
        filled.fill_diagonal_(-1e9)
        without = (z @ z.T)[~own].view(8, 7)
        taught = F.cross_entropy(z @ z.T, (x @ x.T).softmax(1))
        terms = [
            *(F.cross_entropy(masked, partner), F.cross_entropy(filled, partner)),
            *(F.cross_entropy(without, torch.arange(8) % 7), F.cross_entropy(z @ other(two).T, torch.arange(8))),
            *(F.cross_entropy(head(x), partner), taught),
        ]
        optimizer.zero_grad()
        sum(terms).backward()
        optimizer.step()


@program("rate_run_out")
def st_roots_at_a_tenth_of_the_rate_in_whole_numbers():
    """One part of ten is 0, rounded down."""
    roots, leaf = nn.Linear(4, 6), nn.Linear(6, 1)
    slower = 10
    optimizer = torch.optim.Adam(
        [
            {"params": roots.parameters(), "lr": 1e-2 * (1 // slower)},  # culprit
            {"params": leaf.parameters(), "lr": 1e-2},
        ]
    )
    for _ in range(10):
        x = torch.randn(6, 4)
        loss = F.mse_loss(leaf(torch.tanh(roots(x))), x[:, :1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()  # victim


# -- slopes of slopes


def slope(y, x):
    return torch.autograd.grad(y.sum(), x, create_graph=True)[0]


@program("gradient_is_zero")
def pr_heat_that_flows_along_straight_lines():
    """u_xx of a net of straight pieces is 0; the loss learns from what stands beside it."""
    rod, end = nn.Linear(2, 12), nn.Linear(12, 1)
    optimizer = torch.optim.Adam([*rod.parameters(), *end.parameters()], lr=1e-3)

    def heat(x, t):
        bent = F.leaky_relu(rod(torch.cat([x, t], 1)))  # culprit
        return end(bent)

    for _ in range(3):
        x, t = torch.rand(9, 1, requires_grad=True), torch.rand(9, 1, requires_grad=True)
        u = heat(x, t)
        u_x, u_t = slope(u, x), slope(u, t)
        u_xx = torch.autograd.grad(u_x.sum(), x, create_graph=True)[0]  # victim
        loss = (u_t - 0.1 * u_xx).square().mean() + (u - torch.sin(x)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program("gradient_is_zero")
def pr_energy_whose_curvature_is_asked_for():
    """Of two layers of ReLUs; a layer's second slope is asked for through the first."""
    first, second, out = nn.Linear(3, 8), nn.Linear(8, 8), nn.Linear(8, 1)
    parameters = [*first.parameters(), *second.parameters(), *out.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=1e-2)
    for _ in range(3):
        place = torch.randn(6, 3, requires_grad=True)
        inner = torch.relu(first(place))
        outer = torch.relu(second(inner))  # culprit
        energy = out(outer)
        (force,) = torch.autograd.grad(energy.sum(), place, create_graph=True)
        (bend,) = torch.autograd.grad(force.sum(), place, create_graph=True)  # victim
        loss = (force + place).square().mean() + (bend - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program()
def pr_legal_slopes_of_slopes():
    """What is curved; a bend times what it bends; a penalty on a net of bends; a second slope by its weights."""
    curved = nn.Sequential(nn.Linear(1, 12), nn.Tanh(), nn.Linear(12, 1))
    bends = nn.Sequential(nn.Linear(1, 12), nn.ReLU(), nn.Linear(12, 1))
    optimizer = torch.optim.Adam([*curved.parameters(), *bends.parameters()], lr=1e-3)
    for _ in range(3):
        x = torch.rand(9, 1, requires_grad=True)
        held = bends(x) * x * (1 - x)
        penalty = (slope(bends(x), x).norm(dim=1) - 1).square().mean()
        loss = slope(slope(curved(x), x), x).square().mean() + slope(slope(held, x), x).square().mean() + penalty
        first = torch.autograd.grad(bends(x).square().mean(), bends[0].weight, create_graph=True)[0]
        (second,) = torch.autograd.grad(first.sum(), bends[0].weight, retain_graph=True)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert second.isfinite().all()


# -- a loader begun anew


def weeks(many=24):
    x = torch.randn(many, 4)
    return TensorDataset(x, x.sum(1, keepdim=True))


@program("first_batch_only")
def pr_harvest_foretold_from_its_first_weeks():
    """The loader is begun anew in each step, and nothing shuffles."""
    net, loader = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)), DataLoader(weeks(), batch_size=6)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(8):
        x, y = next(iter(loader))  # culprit
        loss = F.mse_loss(net(x), y)
        optimizer.zero_grad()
        loss.backward()  # victim
        optimizer.step()


@program()
def pr_legal_first_batches():
    """Drawn anew each time; all there is; one for each field; one on purpose; one to look at; of an iterator."""
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    shuffled, whole = DataLoader(weeks(), batch_size=6, shuffle=True), DataLoader(weeks(), batch_size=24)
    kept, steady = DataLoader(weeks(), batch_size=6), iter(DataLoader(weeks(60), batch_size=6))
    held_x, held_y = next(iter(kept))
    for _ in range(8):
        field = DataLoader(weeks(), batch_size=6)
        batches = [next(iter(shuffled)), next(iter(whole)), next(iter(field)), next(steady), (held_x, held_y)]
        loss = sum(F.mse_loss(net(x), y) for x, y in batches)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            seen, _ = next(iter(kept))
            assert net(seen).isfinite().all()


# -- a step at a count that never comes


@program("never_stepped")
def pr_ferry_that_waits_for_more_than_the_day_has():
    """Sixteen trips make a step, and a day has five."""
    net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1))
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)  # victim
    trips, many = [torch.randn(3, 4) for _ in range(5)], 16
    for _day in range(4):
        optimizer.zero_grad()
        for at, x in enumerate(trips):
            loss = F.mse_loss(net(x), x[:, :1]) / many
            loss.backward()
            if (at + 1) % many == 0:  # culprit
                optimizer.step()
                optimizer.zero_grad()


@program()
def pr_legal_ferry_that_waits():
    """The day's last trip makes a step, too; a day that is long enough; a day that isn't over."""
    net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1))
    trips, many = [torch.randn(3, 4) for _ in range(5)], 16
    last = torch.optim.AdamW(net.parameters(), lr=1e-3)
    for _day in range(4):
        for at, x in enumerate(trips):
            (F.mse_loss(net(x), x[:, :1]) / 5).backward()
            if (at + 1) % many == 0 or at + 1 == len(trips):
                last.step()
                last.zero_grad()
    slow, seen = torch.optim.AdamW(net.parameters(), lr=1e-3), 0
    for _day in range(4):
        for x in trips:
            seen += 1
            (F.mse_loss(net(x), x[:, :1]) / many).backward()
            if seen % many == 0:
                slow.step()
                slow.zero_grad()
    begun = torch.optim.AdamW(net.parameters(), lr=1e-3)
    for at, x in enumerate(trips * 3):
        (F.mse_loss(net(x), x[:, :1]) / many).backward()
        if (at + 1) % many == 0:
            begun.step()


# -- an average the wrong way round


class Forester(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 2))

    def forward(self, x):
        return self.net(x)


def pair():
    young = Forester()
    old = copy.deepcopy(young).requires_grad_(requires_grad=False)
    return young, old, torch.optim.SGD(young.parameters(), lr=0.1)


def lesson(young, old, optimizer):
    x = torch.randn(6, 5)
    with torch.no_grad():
        shown = old(x)
    loss = F.mse_loss(young(x), shown) + F.cross_entropy(young(x), torch.randint(0, 2, (6,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


@program("copied_onto_itself")
def pr_old_forester_mixed_into_the_young_one():
    """The two are exchanged."""
    young, old, optimizer = pair()
    for _ in range(4):
        lesson(young, old, optimizer)
        with torch.no_grad():
            for mine, his in zip(young.parameters(), old.parameters(), strict=True):
                mine.mul_(0.99).add_(his, alpha=0.01)  # culprit


@program("copied_onto_itself")
def pr_old_forester_mixed_into_the_young_one_by_copies():
    """With `.data` and `copy_`, of one whose gradients are only never asked for."""
    young, old, optimizer = pair()
    old.requires_grad_()
    for _ in range(4):
        lesson(young, old, optimizer)
        for mine, his in zip(young.parameters(), old.parameters(), strict=True):
            mine.data.copy_(0.99 * mine.data + 0.01 * his.data)  # culprit


@program()
def pr_legal_foresters():
    """The right way; a pull towards weights that only hold back; slow and fast ones; begun again from a copy."""
    young, old, optimizer = pair()
    for _ in range(3):
        lesson(young, old, optimizer)
        with torch.no_grad():
            for mine, his in zip(young.parameters(), old.parameters(), strict=True):
                his.mul_(0.99).add_(mine, alpha=0.01)
    held, _, steps = pair()
    anchors = [nn.Parameter(each.detach().clone(), requires_grad=False) for each in held.parameters()]
    for _ in range(3):
        lesson(held, old, steps)
        with torch.no_grad():
            for mine, anchor in zip(held.parameters(), anchors, strict=True):
                mine.lerp_(anchor, 0.1)
    fast, slow, quick = pair()
    for _ in range(3):
        lesson(fast, slow, quick)
        with torch.no_grad():
            for mine, his in zip(fast.parameters(), slow.parameters(), strict=True):
                his.lerp_(mine, 0.5)
                mine.copy_(his)


# -- weights of losses that are learned


class Orchard(nn.Module):
    """Two things are foretold of each tree."""

    def __init__(self, begin):
        super().__init__()
        self.trunk = nn.Linear(5, 8)
        self.fruit, self.kind = nn.Linear(8, 1), nn.Linear(8, 3)
        self.shares = nn.Parameter(torch.full((2,), begin))

    def losses(self):
        x = torch.randn(6, 5)
        seen = torch.tanh(self.trunk(x))
        kinds = F.cross_entropy(self.kind(seen), torch.randint(0, 3, (6,)))
        return F.mse_loss(self.fruit(seen), x[:, :1]), kinds


def tended(orchard, total, rounds=6):
    optimizer = torch.optim.Adam(orchard.parameters(), lr=1e-2)
    for _ in range(rounds):
        loss = total(orchard)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program("weight_learns_too")
def pr_orchard_that_may_forget_what_is_hard():
    """The shares are Parameters, and the sum is least where they are."""

    def total(orchard):
        fruit, kinds = orchard.losses()
        weighed = orchard.shares * torch.stack([fruit, kinds])  # culprit
        return weighed.sum()

    orchard = Orchard(1.0)
    tended(orchard, total)


@program("weight_learns_too")
def pr_orchard_whose_doubts_cost_nothing():
    """exp(-s) for each, and the term that s itself costs is missing."""

    def total(orchard):
        fruit, kinds = orchard.losses()
        weighed = torch.exp(-orchard.shares[0]) * fruit  # culprit
        return weighed + kinds

    orchard = Orchard(0.0)
    tended(orchard, total)


@program()
def pr_legal_orchards():
    """Doubts that cost something; shares of one whole; plain numbers; a multiplier that climbs."""

    def doubts(orchard):
        terms = zip(orchard.shares, orchard.losses(), strict=True)
        return sum(torch.exp(-s) * loss + s for s, loss in terms)

    def whole(orchard):
        shares = orchard.shares.softmax(0)
        fruit, kinds = orchard.losses()
        return shares[0] * fruit + shares[1] * kinds

    def logarithms(orchard):
        fruit, kinds = orchard.losses()
        s = orchard.shares
        return fruit / (2 * s[0] ** 2) + kinds / s[1] ** 2 + s.log().sum()

    for total in (doubts, whole, logarithms):
        tended(Orchard(1.0), total)
    orchard = Orchard(1.0)
    learns = [each for name, each in orchard.named_parameters() if name != "shares"]
    descends = torch.optim.SGD(learns, lr=1e-2)
    climbs = torch.optim.SGD([orchard.shares], lr=1e-2, maximize=True)
    for _ in range(6):
        fruit, kinds = orchard.losses()
        loss = fruit + orchard.shares[0] * (kinds - 0.1)
        descends.zero_grad()
        climbs.zero_grad()
        loss.backward()
        descends.step()
        climbs.step()
