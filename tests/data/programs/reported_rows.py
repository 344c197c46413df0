"""Rows that meet others than their own, of reports; a divergence from oneself; tables of all pairs that are meant."""

from __future__ import annotations

import torch
from torch import nn
from torch.distributions import Independent, Laplace, Normal, kl_divergence
from torch.nn import functional as F  # noqa: N812  # torch's own convention

from tests.data.programs import program


def trained(net, loss_of, *, rate=1e-2, laps=3):
    """Some laps of a training."""
    optimizer = torch.optim.Adam(net.parameters(), lr=rate)
    for lap in range(laps):
        optimizer.zero_grad()
        loss_of(net, lap).backward()
        optimizer.step()


# -- a reduction that drops its dimension, beside what still has it


class River(nn.Module):
    """How high it will stand at three gauges, and how sure that is."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(5, 12), nn.Tanh())
        self.level, self.spread = nn.Linear(12, 3), nn.Linear(12, 1)

    def forward(self, rain):
        hidden = self.body(rain)
        return self.level(hidden), self.spread(hidden).exp()


@program("broadcast_crosswise")
def rw_levels_of_a_river_with_one_spread_a_day():
    net = River()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _day in range(3):
        rain = torch.rand(14, 5)
        gauges = rain[:, :3] * 2 + 1
        level, spread = net(rain)
        off = (gauges - level) / spread
        far = 0.5 * off.pow(2).sum(dim=1)  # instead
        density = far + 3 * spread.log()  # culprit
        optimizer.zero_grad()
        loss = density.mean()
        loss.backward()  # victim
        optimizer.step()


@program("broadcast_crosswise")
def rw_views_of_a_valley_trusted_by_place():
    """Two pictures are mixed by how far each place is trusted; what is off has lost the channels, the trust hasn't."""

    class Mix(nn.Module):
        def __init__(self):
            super().__init__()
            self.trust = nn.Sequential(nn.Conv2d(6, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 1, 1), nn.Sigmoid())

        def forward(self, left, right):
            trust = self.trust(torch.cat([left, right], 1))
            return trust, trust * left + (1 - trust) * right

    mix = Mix()
    optimizer = torch.optim.SGD(mix.parameters(), lr=0.05)
    for _lap in range(3):
        valley = torch.rand(5, 3, 8, 8)
        left, right = valley + 0.1 * torch.randn(5, 3, 8, 8), valley + 0.3 * torch.randn(5, 3, 8, 8)
        trust, seen = mix(left, right)
        place = (seen - valley).abs().mean(1) + 0.01 * (1 - trust)  # culprit
        loss = place.square().flatten(1).mean(1).sum()
        optimizer.zero_grad()
        loss.backward()  # victim
        optimizer.step()


@program("broadcast_crosswise")
def rw_pairs_of_herbs_added_to_what_each_tastes():
    """A factorisation machine: what the herbs do alone is a column, what they do in pairs has lost its dimension."""

    class Taste(nn.Module):
        def __init__(self):
            super().__init__()
            self.alone, self.factors = nn.Linear(9, 1), nn.Parameter(0.1 * torch.randn(9, 4))

        def forward(self, herbs):
            pairs = (herbs @ self.factors).pow(2) - herbs.pow(2) @ self.factors.pow(2)
            together = 0.5 * pairs.sum(1)  # instead
            return self.alone(herbs) + together  # culprit

    net = Taste()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _lap in range(3):
        herbs = (torch.rand(16, 9) < 0.3).float()
        liked = herbs[:, :1] - herbs[:, 1:2] * herbs[:, 2:3]
        loss = F.mse_loss(net(herbs), liked)
        optimizer.zero_grad()
        loss.backward()  # victim
        optimizer.step()


@program()
def rw_legal_rows_that_keep_their_dimension():
    """The same sums, with the dimension kept, or taken off both."""
    net = River()

    def loss_of(net, lap):
        rain = torch.rand(14, 5)
        level, spread = net(rain)
        off = ((rain[:, :3] - level) / spread).pow(2)
        if lap % 2:
            return (off.sum(1, keepdim=True) + spread.log()).mean()
        return (off.sum(1) + spread.squeeze(1).log()).mean()

    trained(net, loss_of)


class Pages(nn.Module):
    """Words of some pages, the first of which stands for the page."""

    def __init__(self, width=6):
        super().__init__()
        self.words, self.weight = nn.Linear(4, width), nn.Linear(width, 1)

    def forward(self, page):
        words = self.words(page)
        return words[:, :1], words


@program()
def rw_legal_tables_of_all_pairs():
    """Each page beside the words of all: which belongs to which is what is learnt, so all pairs are meant."""
    net = Pages()

    def loss_of(net, lap):
        head, words = net(torch.randn(7, 5, 4))
        gated = head * words
        pooled = gated.mean(1)
        near = (head * pooled).sum(-1)
        whole = words.mean(1)
        scaled = net.weight(whole) * whole
        length = scaled.pow(2).sum(1)
        apart = length.view(-1, 1) + length - 2 * scaled @ scaled.t()
        column = scaled.norm(dim=1, keepdim=True)
        kernel = torch.exp(-(column - scaled.norm(dim=1)).pow(2)) * torch.ones(7, 7).triu(1)
        own = torch.arange(7)
        return F.cross_entropy(near, own) + F.cross_entropy(-apart, own) + kernel.sum() / 21

    trained(net, loss_of)


@program()
def rw_legal_as_many_rows_as_numbers():
    """A batch as large as a row is long, a column beside one number for each feature, outer products."""
    net = nn.Sequential(nn.Linear(6, 6), nn.Tanh())
    gate = nn.Linear(6, 1)
    both = nn.ModuleDict({"net": net, "gate": gate})

    def loss_of(both, lap):
        x = torch.randn(6, 6)
        out = both["net"](x)
        gated = out * both["gate"](x)
        usual = gated.mean(0)
        shifted = both["gate"](x) + usual
        outer = gated.sum(1)[:, None] * gated.sum(1)[None]
        return (shifted - x).pow(2).mean() + outer.mean() + out.sum(1, keepdim=True).pow(2).mean()

    trained(both, loss_of)


# -- a view of what a recurrent layer has given with its sequences in dimension 1


@program("dimensions_mixed")
def rw_melodies_told_apart_by_what_two_directions_remember():
    class Ear(nn.Module):
        def __init__(self):
            super().__init__()
            self.notes = nn.LSTM(3, 5, num_layers=2, bidirectional=True, batch_first=True)
            self.out = nn.Linear(20, 4)

        def forward(self, melody):
            _all, (last, _cell) = self.notes(melody)  # victim
            last = last.view(melody.size(0), -1)  # culprit
            return self.out(torch.tanh(last))

    ear = Ear()
    optimizer = torch.optim.Adam(ear.parameters(), lr=1e-2)
    for _lap in range(3):
        melody, kind = torch.randn(6, 9, 3), torch.randint(0, 4, (6,))
        optimizer.zero_grad()
        loss = F.cross_entropy(ear(melody), kind)
        loss.backward()
        optimizer.step()


@program("dimensions_mixed")
def rw_tides_read_as_one_row_a_harbour():
    """Steps come first where nothing says `batch_first`: a row of eight hours is taken for one harbour's."""
    rnn, out = nn.GRU(2, 4), nn.Linear(8 * 4, 1)
    optimizer = torch.optim.SGD([*rnn.parameters(), *out.parameters()], lr=0.05)
    for _lap in range(3):
        tides = torch.randn(8, 5, 2)
        wanted = tides[..., :1].mean(0)
        seen, _last = rnn(tides)  # victim
        rows = seen.reshape(5, -1)  # culprit
        optimizer.zero_grad()
        loss = F.mse_loss(out(rows), wanted)
        loss.backward()
        optimizer.step()


@program("dimensions_mixed")
def rw_two_directions_of_the_upper_layer():
    """Layers and directions are taken apart rightly, and the upper layer's two are joined by a view."""
    rnn = nn.GRU(3, 4, num_layers=2, bidirectional=True, batch_first=True)
    out = nn.Linear(8, 2)
    optimizer = torch.optim.Adam([*rnn.parameters(), *out.parameters()], lr=1e-2)
    for _lap in range(3):
        walk, kind = torch.randn(5, 7, 3), torch.randint(0, 2, (5,))
        _steps, state = rnn(walk)  # victim
        upper = state.view(2, 2, 5, 4)[-1]
        both = upper.reshape(-1, 8)  # culprit
        optimizer.zero_grad()
        loss = F.cross_entropy(out(both), kind)
        loss.backward()
        optimizer.step()


@program()
def rw_legal_states_made_rows():
    """Turned before they are flattened, one layer and direction, the last alone, two that are joined, one sequence."""
    rnn = nn.GRU(3, 4, num_layers=2, bidirectional=True, batch_first=True)
    plain, out = nn.LSTM(3, 4, batch_first=True), nn.Linear(4, 2)
    every = nn.ModuleDict({"rnn": rnn, "plain": plain, "out": out})

    def loss_of(every, lap):
        walk = torch.randn(5, 7, 3)
        seen, state = every["rnn"](walk)
        turned = state.transpose(0, 1).reshape(5, -1)
        permuted = state.permute(1, 0, 2).contiguous().view(5, 16)
        joined = torch.cat([state[-2], state[-1]], 1)
        apart = state.view(2, 2, 5, 4)[-1].transpose(0, 1).reshape(5, 8)
        one = every["rnn"](walk[:1])[1].view(1, -1)
        _steps, (last, _cell) = every["plain"](walk)
        rows, alone = last.view(5, -1), last.squeeze(0)
        flat, steps = seen.reshape(5, -1), seen.reshape(-1, 8)
        kept = state.reshape(5, -1)  # as it's stored, to be counted off the other way again
        again = kept.view(4, 5, 4)[-1]
        parts = (turned, permuted, joined, apart, one, flat, steps, again)
        return every["out"](rows + alone).pow(2).mean() + sum(each.pow(2).mean() for each in parts)

    trained(every, loss_of)


@program()
def rw_legal_steps_first():
    """Steps come first, and stay so: rows for each step of each sequence, layers by themselves."""
    net = nn.RNN(3, 4, num_layers=3)
    head = nn.Linear(4, 2)
    both = nn.ModuleDict({"net": net, "head": head})

    def loss_of(both, lap):
        steps, state = both["net"](torch.randn(6, 5, 3))
        scores = both["head"](steps.view(30, 4)).view(6, 5, 2)
        layers = state.reshape(3, -1)
        own = steps.transpose(0, 1).reshape(5, -1)
        return scores.pow(2).mean() + layers.pow(2).mean() + own.pow(2).mean()

    trained(both, loss_of)


# -- a distribution beside itself, or its own draw


class Sailor(nn.Module):
    """Where he steers, and how surely."""

    def __init__(self):
        super().__init__()
        self.body, self.course = nn.Sequential(nn.Linear(3, 8), nn.Tanh()), nn.Linear(8, 2)
        self.doubt = nn.Parameter(torch.full((2,), -0.7))

    def forward(self, wind):
        course = self.course(self.body(wind))
        return Normal(course, self.doubt.exp().expand_as(course))


@program("gradient_is_zero")
def rw_sailor_held_near_to_himself():
    sailor = Sailor()
    optimizer = torch.optim.Adam(sailor.parameters(), lr=1e-2)
    for _lap in range(3):
        wind, gain = torch.randn(10, 3), torch.randn(10)
        now = sailor(wind)
        with torch.no_grad():
            steered = now.sample()
        chosen = now.log_prob(steered).sum(-1)
        near = torch.distributions.kl_divergence(now, now).sum(-1).mean()  # culprit
        optimizer.zero_grad()
        loss = 0.5 * near - (chosen * gain).mean()
        loss.backward()  # victim
        optimizer.step()


@program("gradient_is_zero")
def rw_second_derivative_of_how_far_a_cook_is_from_himself():
    """A natural gradient: two distributions are built, of the same scores."""
    cook = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))
    orders = torch.randn(9, 4)
    mean, spread = cook(orders), cook[2].bias.exp().expand(9, 3)
    before = Laplace(mean, spread, validate_args=False)
    after = Laplace(mean, spread, validate_args=False)
    far = kl_divergence(before, after).mean()  # culprit
    slopes = torch.autograd.grad(far, list(cook.parameters()), create_graph=True)  # victim
    flat = torch.cat([slope.reshape(-1) for slope in slopes])
    curve = torch.autograd.grad(flat @ torch.ones_like(flat), list(cook.parameters()))
    torch.cat([slope.reshape(-1) for slope in curve]).norm()


@program("gradient_is_zero", tensor="shot")
def rw_archer_whose_draw_keeps_its_graph():
    aim_of, wide = nn.Linear(2, 2), nn.Parameter(torch.zeros(2))
    optimizer = torch.optim.Adam([*aim_of.parameters(), wide], lr=1e-2)
    for _shot in range(3):
        target = torch.rand(12, 2)
        aim = aim_of(target)
        hits = Normal(aim, wide.exp())
        shot = hits.rsample()  # culprit
        near = -(shot.detach() - target).square().sum(1)
        score = hits.log_prob(shot).sum(1)  # instead
        loss = -(score * (near - near.mean())).mean()
        optimizer.zero_grad()
        loss.backward()  # victim
        optimizer.step()


@program("gradient_is_zero")
def rw_throws_of_a_game_scored_one_after_the_other():
    class Thrower(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(2, 6), nn.ReLU(), nn.Linear(6, 1))

        def throw(self, seen):
            by = Independent(Normal(self.net(seen), 0.3 * torch.ones(5, 1)), 1)
            thrown = by.rsample()  # culprit
            return thrown.detach(), by.log_prob(thrown)  # instead

    thrower = Thrower()
    optimizer = torch.optim.SGD(thrower.parameters(), lr=0.05)
    for _game in range(2):
        seen, scores, gains = torch.randn(5, 2), [], []
        for _turn in range(3):
            thrown, score = thrower.throw(seen)
            seen = seen + 0.1 * thrown
            scores.append(score)
            gains.append(-seen.norm(dim=1))
        left = torch.stack(gains).flip(0).cumsum(0).flip(0)
        optimizer.zero_grad()
        loss = -(torch.stack(scores) * (left - left.mean())).sum()
        loss.backward()  # victim
        optimizer.step()


@program()
def rw_legal_distances_of_distributions():
    """One side detached, or another distribution; as much doubt on both sides, or the same course."""
    sailor = Sailor()

    def loss_of(sailor, lap):
        now = sailor(torch.randn(10, 3))
        held = Normal(now.loc.detach(), now.scale.detach())
        surer = Normal(now.loc, 0.5 * now.scale)
        aside = Normal(now.loc + 1, now.scale)
        broad = kl_divergence(Normal(now.loc, 1.0), now).mean()
        with torch.no_grad():
            assert not kl_divergence(now, now).any()
        near = kl_divergence(held, now).mean() + kl_divergence(surer, now).mean()
        return near + kl_divergence(aside, now).mean() + broad

    trained(sailor, loss_of)


@program()
def rw_legal_draws_that_are_scored():
    """A critic has the draw as well; an entropy is estimated, of each row that counts; a draw without its graph."""
    sailor, critic = Sailor(), nn.Linear(5, 1)
    both = nn.ModuleDict({"sailor": sailor, "critic": critic})

    def loss_of(both, lap):
        wind, counts = torch.randn(10, 3), (torch.arange(10) < 7).float()
        now = both["sailor"](wind)
        steered = now.rsample()
        score = now.log_prob(steered).sum(-1)
        worth = both["critic"](torch.cat([wind, steered], 1)).squeeze(1)
        actor = ((0.2 * score - worth) * counts).mean()
        entropy = -(now.log_prob(now.rsample()).sum(-1) * counts).mean()
        drawn = now.rsample()
        doubt = -now.log_prob(drawn).sum(-1).mean() * 0.01
        assert drawn.detach().isfinite().all()
        taken = now.rsample().detach()
        chosen = (now.log_prob(taken).sum(-1) * torch.randn(10)).mean()
        return actor - 0.01 * entropy - doubt - chosen

    trained(both, loss_of)
