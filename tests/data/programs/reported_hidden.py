"""What an index, a cache, a hook, an attribute does beside what its line says; each beside twins that are right."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # torch's own convention
from torch.nn.utils import parametrize

from tests.data.programs import program

# -- graphs that outlive their step


class Stream(nn.Module):
    """A cell that keeps its own state, without its history."""

    def __init__(self):
        super().__init__()
        self.cell, self.out, self.state = nn.LSTMCell(3, 8), nn.Linear(8, 1), None

    def forward(self, x):
        h, c = self.cell(x, self.state)
        self.state = (h.detach(), c.detach())
        return self.out(h)


@program("graph_freed")
def t2_cell_state_with_its_history():
    """The hidden state is detached, the cell's own is not; another line has made both."""

    class Kept(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell, self.out, self.state = nn.LSTMCell(3, 8), nn.Linear(8, 1), None

        def forward(self, x):
            h, c = self.cell(x, self.state)
            self.state = (h.detach(), c)
            return self.out(h)

    model = Kept()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(3):
        x = torch.randn(5, 3)
        loss = F.mse_loss(model(x), x.sum(1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program()
def t2_cell_state_without_its_history():
    """Both are detached."""
    model = Stream()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(3):
        x = torch.randn(5, 3)
        loss = F.mse_loss(model(x), x.sum(1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program("graph_freed")
def t2_table_that_a_cache_hands_out():
    """A decorator keeps what the first step has computed with Parameters."""

    class Relative(nn.Module):
        def __init__(self):
            super().__init__()
            self.mlp = nn.Sequential(nn.Linear(1, 8), nn.ReLU(), nn.Linear(8, 2))

        @lru_cache(maxsize=4)  # noqa: B019  # that is the mistake
        def bias(self, n):
            rel = (torch.arange(n)[:, None] - torch.arange(n)[None]).float()
            return self.mlp(rel[..., None]).permute(2, 0, 1)

        def forward(self, scores):
            return scores + self.bias(scores.shape[-1])

    model, query = Relative(), nn.Linear(4, 4)
    optimizer = torch.optim.Adam([*model.parameters(), *query.parameters()], lr=1e-2)
    for _ in range(3):
        x = torch.randn(2, 5, 4)
        scores = torch.einsum("bid,bjd->bij", query(x), x)[:, None]
        loss = model(scores).softmax(-1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program()
def t2_table_of_numbers_that_a_cache_hands_out():
    """What the cache keeps was computed of no Parameter."""

    class Relative(nn.Module):
        def __init__(self):
            super().__init__()
            self.mlp = nn.Sequential(nn.Linear(1, 8), nn.ReLU(), nn.Linear(8, 2))

        @lru_cache(maxsize=4)  # noqa: B019  # the module lives as long
        def distances(self, n):
            return (torch.arange(n)[:, None] - torch.arange(n)[None]).float()[..., None]

        def forward(self, scores):
            return scores + self.mlp(self.distances(scores.shape[-1])).permute(2, 0, 1)

    model, query = Relative(), nn.Linear(4, 4)
    optimizer = torch.optim.Adam([*model.parameters(), *query.parameters()], lr=1e-2)
    for _ in range(3):
        x = torch.randn(2, 5, 4)
        scores = torch.einsum("bid,bjd->bij", query(x), x)[:, None]
        loss = model(scores).softmax(-1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program("graph_freed")
def t2_losses_that_are_never_emptied():
    """Each step's loss is the mean of all so far, whose graphs have been freed."""

    class Losses:
        def __init__(self):
            self.held = []

        def add(self, value):
            self.held.append(value)

        def total(self):
            return torch.stack(self.held).mean()

    model, losses = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)), Losses()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(3):
        x = torch.randn(8, 4)
        losses.add(F.mse_loss(model(x), x.sum(1, keepdim=True)))
        loss = losses.total()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program()
def t2_losses_that_are_emptied():
    """The list is emptied after each step."""
    model, held = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)), []
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(3):
        for _ in range(2):
            x = torch.randn(8, 4)
            held.append(F.mse_loss(model(x), x.sum(1, keepdim=True)))
        loss = torch.stack(held).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        held.clear()


@program()
def t2_tasks_summed_over_inner_loops_that_step():
    """The outer loss leads back through all tasks once; the steps in between are those of each task's own head."""
    body = nn.Sequential(nn.Linear(2, 16), nn.Tanh())
    outer = torch.optim.Adam(body.parameters(), lr=1e-2)
    for _ in range(3):
        outer.zero_grad()
        total = 0
        for _ in range(4):
            x, head = torch.randn(8, 2), nn.Linear(16, 1)
            y, features = x.sum(1, keepdim=True), body(x)
            inner = torch.optim.SGD(head.parameters(), lr=0.1)
            for _ in range(2):
                inner.zero_grad()
                F.mse_loss(head(features.detach()), y).backward()
                inner.step()
            total = total + F.mse_loss(F.linear(features, head.weight.detach().clone()), y)
        total.backward()
        outer.step()


# -- what torch refuses


@program("backward_returns")
def t2_hook_that_returns_what_it_measures():
    """What a hook returns takes the gradient's place."""
    model, seen = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), {}

    def watch(name):
        def note(grad):
            seen[name] = grad.norm()
            return seen[name]

        return note

    for name, parameter in model.named_parameters():
        parameter.register_hook(watch(name))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        loss = F.cross_entropy(model(torch.randn(8, 4)), torch.randint(2, (8,)))
        optimizer.zero_grad()
        loss.backward()  # victim
        optimizer.step()


@program()
def t2_hooks_that_return_nothing_or_a_gradient():
    """One looks, one scales."""
    model, seen = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), {}

    def note(grad):
        seen["first"] = grad.norm().item()

    model[0].weight.register_hook(note)
    model[2].weight.register_hook(lambda grad: grad * 0.5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        loss = F.cross_entropy(model(torch.randn(8, 4)), torch.randint(2, (8,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program("not_a_scalar")
def t2_spectra_whose_difference_is_squared():
    """The square of a complex number is complex; the term before it is real."""
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)

    def spectral(out, target):
        difference = torch.fft.rfft(out) - torch.fft.rfft(target)
        return (difference**2).mean()  # culprit

    for _ in range(2):
        x = torch.randn(4, 8)
        out = net(x)
        loss = (out - x).abs().mean() + 0.1 * spectral(out, x)
        optimizer.zero_grad()
        loss.backward()  # victim
        optimizer.step()


@program()
def t2_spectra_whose_difference_has_a_size():
    """The size of a complex number is real."""
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(2):
        x = torch.randn(4, 8)
        out = net(x)
        loss = (out - x).abs().mean() + 0.1 * (torch.fft.rfft(out) - torch.fft.rfft(x)).abs().square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


# -- writes that reach nothing


class Symmetric(nn.Module):
    """The upper half, mirrored."""

    def forward(self, w):
        return w.triu() + w.triu(1).transpose(-1, -2)


class Critic(nn.Module):
    """A symmetric layer and a plain one."""

    def __init__(self):
        super().__init__()
        self.mix, self.out = nn.Linear(4, 4, bias=False), nn.Linear(4, 1)
        parametrize.register_parametrization(self.mix, "weight", Symmetric())

    def forward(self, x):
        return self.out(self.mix(x).relu())


@program("result_dropped")
def t2_weight_clamped_that_is_computed_of_another():
    """The weight of a parametrised layer is computed anew at each use, by several ops."""
    critic = Critic()
    optimizer = torch.optim.RMSprop(critic.parameters(), lr=0.05)
    for _ in range(4):
        loss = critic(torch.randn(16, 4)).mean() - critic(torch.randn(16, 4) + 1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            critic.mix.weight.clamp_(-0.05, 0.05)  # culprit
            critic.out.weight.clamp_(-0.05, 0.05)


@program()
def t2_weight_clamped_where_it_is_kept():
    """What it is computed of is clamped, and what is computed is looked at."""
    critic, seen = Critic(), []
    optimizer = torch.optim.RMSprop(critic.parameters(), lr=0.05)
    for _ in range(4):
        loss = critic(torch.randn(16, 4)).mean() - critic(torch.randn(16, 4) + 1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            critic.mix.parametrizations.weight.original.clamp_(-0.05, 0.05)
            critic.out.weight.clamp_(-0.05, 0.05)
            seen.append(critic.mix.weight.abs_().max().item())


@program("result_dropped")
def t2_rows_forgotten_in_a_copy():
    """An index that is a tensor hands out a copy."""
    table, out = nn.Embedding(12, 4), nn.Linear(4, 2)
    optimizer = torch.optim.SGD([*table.parameters(), *out.parameters()], lr=0.1)
    banned = torch.tensor([2, 5, 7])
    for _ in range(4):
        loss = F.cross_entropy(out(table(torch.randint(12, (8, 3))).mean(1)), torch.randint(2, (8,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            table.weight[banned].zero_()  # culprit


@program("result_dropped")
def t2_scores_set_by_two_indices():
    """The first of two indices hands out a copy, into which the second writes."""
    layer = nn.Linear(4, 6)
    optimizer = torch.optim.Adam(layer.parameters(), lr=1e-2)
    for _ in range(4):
        x = torch.randn(8, 4)
        scores = layer(x).clone()
        scores[x[:, 0] > 0][:, 0] = -10.0  # culprit
        loss = F.cross_entropy(scores, torch.randint(1, 6, (8,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program()
def t2_rows_written_where_they_are():
    """By one index on the left of the sign, by views, and into a copy that is used."""
    table, out = nn.Embedding(12, 4), nn.Linear(4, 2)
    optimizer = torch.optim.SGD([*table.parameters(), *out.parameters()], lr=0.1)
    banned = torch.tensor([2, 5, 7])
    for _ in range(4):
        scores = out(table(torch.randint(12, (8, 3))).mean(1)).clone()
        scores[:2][:, 0] = -10.0
        loss = F.cross_entropy(scores, torch.randint(2, (8,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            table.weight[banned] = 0.0
            table.weight[banned + 1] *= 0.5
            table.weight[0].zero_()
            near = table.weight[banned].clamp_(-1, 1)
            near.add_(1)
            out.bias[:1].copy_(near.mean())


@program("result_dropped")
def t2_messages_that_overwrite_each_other():
    """`x[index] += rows` adds one row for each index, however often it is named."""

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.message, self.update = nn.Linear(3, 3), nn.GRUCell(3, 3)

        def forward(self, h, src, dst):
            rows = self.message(h)[src].relu()
            heard = torch.zeros_like(h)
            heard[dst] += rows  # culprit
            return self.update(heard, h)

    layer, out = Layer(), nn.Linear(3, 1)
    optimizer = torch.optim.Adam([*layer.parameters(), *out.parameters()], lr=1e-2)
    for _ in range(3):
        x, src, dst = torch.randn(6, 3), torch.randint(6, (24,)), torch.randint(6, (24,))
        loss = (out(layer(x, src, dst)).sum() - x.sum()).square()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program()
def t2_rows_put_to_places_of_their_own():
    """No place twice; one that takes what isn't wanted; a choice of the best, put back; all added up."""
    score, out = nn.Linear(3, 3), nn.Linear(3, 1)
    optimizer = torch.optim.Adam([*score.parameters(), *out.parameters()], lr=1e-2)
    for _ in range(3):
        x = torch.randn(6, 3)
        rows = score(x).tanh()
        mixed, padded = torch.zeros(6, 3), torch.zeros(5, 3)
        mixed[torch.randperm(6)] = rows
        padded[torch.tensor([1, 2, 3, 4, 0, 0])] = rows
        best, where = rows.topk(2, dim=1)
        chosen = torch.zeros(6, 3).scatter(1, where, best)
        added = torch.zeros(2, 3).index_add(0, torch.tensor([0, 1, 0, 1, 0, 1]), rows)
        loss = out(torch.cat([mixed, padded[1:], chosen, added])).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program("name_rebound")
def t2_weights_moved_up_by_their_name_alone():
    """The steps go on, so the weights move; the line between two gradients moves nothing."""
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def ascend(modules):
        for p in modules.parameters():
            p = p + 0.05 * p.grad / (p.grad.norm() + 1e-12)  # culprit

    for _ in range(4):
        x = torch.randn(16, 4)
        optimizer.zero_grad()
        F.mse_loss(model(x), x.sum(1, keepdim=True)).backward()
        ascend(model)
        optimizer.zero_grad()
        F.mse_loss(model(x), x.sum(1, keepdim=True)).backward()
        optimizer.step()


@program()
def t2_numbers_of_weights_under_their_name():
    """What the name stands for then is reported of."""
    model, sizes = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(4):
        x = torch.randn(16, 4)
        optimizer.zero_grad()
        F.mse_loss(model(x), x.sum(1, keepdim=True)).backward()
        optimizer.step()
        for p in model.parameters():
            p = p * 100  # in percent
            sizes.append(p.detach().flatten()[0].item())
            p = p.detach() - 1  # as a distance
            sizes += p.tolist()[:1]


@program("unused_input")
def t2_coordinates_scaled_as_plain_numbers():
    """The points are brought to [0, 1] by way of a list, and the derivative is asked for by the points."""
    net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)

    def scaled(points):
        low, high = points.min(0).values, points.max(0).values
        return torch.tensor(((points - low) / (high - low)).tolist())  # culprit

    for _ in range(2):
        points = torch.rand(32, 2, requires_grad=True)
        (slope,) = torch.autograd.grad(net(scaled(points)).sum(), points, create_graph=True)  # victim
        loss = (slope[:, 0] + slope[:, 1]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program()
def t2_coordinates_scaled_by_plain_numbers():
    """Only the limits are plain numbers; the points keep their way."""
    net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for _ in range(2):
        points = torch.rand(32, 2, requires_grad=True)
        low, high = torch.tensor(points.amin(0).tolist()), torch.tensor(points.amax(0).tolist())
        (slope,) = torch.autograd.grad(net((points - low) / (high - low)).sum(), points, create_graph=True)
        loss = (slope[:, 0] + slope[:, 1]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
