"""What comes back by two ways and cancels, averages that stay, what a long training hides, rebuilt from reports."""

from __future__ import annotations

import copy

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # torch's own convention
from torch.nn.utils import parametrize

from tests.data.programs import program


@program("gradient_is_zero")
def w_codes_passed_straight_without_a_detach():
    """A quantised autoencoder of sounds: the codes' gradient is to go on to the encoder."""

    class Codes(nn.Module):
        def __init__(self):
            super().__init__()
            self.book = nn.Parameter(torch.randn(8, 4))

        def forward(self, z):
            nearest = torch.cdist(z.detach(), self.book.detach()).argmin(1)
            code = self.book[nearest]
            return z + (code - z), code  # culprit

    encoder, codes, decoder = nn.Linear(12, 4), Codes(), nn.Linear(4, 12)
    modules = nn.ModuleList([encoder, codes, decoder])
    optimizer = torch.optim.Adam(modules.parameters(), lr=1e-2)
    sound = torch.sin(torch.linspace(0, 6, 12) * torch.rand(32, 1) * 3)
    for _ in range(14):
        passed, code = codes(encoder(sound))
        loss = F.mse_loss(decoder(passed), sound) + code.pow(2).mean()
        optimizer.zero_grad()
        loss.backward()  # victim
        optimizer.step()


@program("gradient_is_zero", tensor="item")
def w_stages_of_codes_that_take_the_whole_from_the_rest():
    """facebookresearch/encodec#25, for the codes of shop items: the second stage's commitment is to train, too."""

    class Stage(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("book", torch.randn(12, 4))

        def forward(self, rest):
            code = self.book[torch.cdist(rest.detach(), self.book).argmin(1)]
            commitment = F.mse_loss(rest, code)  # victim
            return rest + (code - rest).detach(), commitment

    class Stages(nn.Module):
        def __init__(self):
            super().__init__()
            self.stages = nn.ModuleList([Stage() for _ in range(2)])

        def forward(self, item):
            rest, total, commitments = item, 0.0, []
            for stage in self.stages:
                taken, commitment = stage(rest)
                rest = rest - taken  # culprit
                total = total + taken
                commitments.append(commitment)
            return total, sum(commitments)

    encoder, stages, decoder = nn.Linear(9, 4), Stages(), nn.Linear(4, 9)
    optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-2)
    items = torch.rand(24, 9)
    for _ in range(4):
        total, commitment = stages(encoder(items))
        loss = F.mse_loss(decoder(total), items) + 0.25 * commitment
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program("gradient_is_zero", tensor="switch.weight")
def w_rounding_error_held_down_without_effect():
    """Quantised weights of a switch: their distance from the grid is a term of the loss, and trains none of them."""
    switch = nn.Linear(5, 3, bias=False)
    optimizer = torch.optim.SGD(switch.parameters(), lr=0.1)
    for _ in range(4):
        weight = switch.weight
        with torch.no_grad():
            step = (weight * 4).round() / 4 - weight
        on_grid = weight + step
        off = weight - on_grid  # culprit
        loss = F.linear(torch.randn(8, 5), on_grid).pow(2).mean() + off.abs().sum()  # victim
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program()
def w_legal_stages_of_codes_that_take_numbers():
    """The same stages, and a whole that goes straight through once."""
    encoder, decoder, books = nn.Linear(9, 4), nn.Linear(4, 9), torch.randn(2, 12, 4)
    optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-2)
    items = torch.rand(24, 9)
    for _ in range(4):
        item = rest = encoder(items)
        total, commitment = 0.0, 0.0
        for book in books:
            code = book[torch.cdist(rest.detach(), book).argmin(1)]
            commitment = commitment + F.mse_loss(rest, code)
            taken = rest + (code - rest).detach()
            rest = rest - taken.detach()
            total = total + taken
        total = item + (total - item).detach()
        loss = F.mse_loss(decoder(total), items) + 0.25 * commitment
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program()
def w_legal_stages_of_codes_that_only_add_up():
    """No loss is asked of what is left: by the sum of all stages the gradient comes once, as it's to."""
    encoder, decoder, books = nn.Linear(9, 4), nn.Linear(4, 9), torch.randn(3, 12, 4)
    optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-2)
    items = torch.rand(24, 9)
    for _ in range(4):
        rest, total = encoder(items), 0.0
        for book in books:
            taken = rest + (book[torch.cdist(rest.detach(), book).argmin(1)] - rest).detach()
            rest = rest - taken
            total = total + taken
        loss = F.mse_loss(decoder(total), items)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program()
def w_legal_noise_taken_from_what_it_was_added_to():
    """A denoiser's target, centred numbers, and a zero that hands its gradient on."""
    encoder, denoiser = nn.Linear(6, 4), nn.Linear(4, 4)
    optimizer = torch.optim.SGD([*encoder.parameters(), *denoiser.parameters()], lr=0.05)
    for _ in range(4):
        clean = encoder(torch.randn(8, 6))
        noisy = clean + torch.randn(8, 4)
        loss = F.mse_loss(denoiser(noisy), noisy - clean)
        centred = clean - clean.mean(0)
        loss = loss + centred.pow(2).mean() + (clean - clean.detach()).exp().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program("ratio_is_one")
def w_old_density_from_the_new_policy():
    """Where to send an ambulance: each part of a day's calls is another one, so no data come twice."""
    policy = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 3))
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    calls = torch.randn(48, 5)
    with torch.no_grad():
        sent = torch.distributions.Categorical(logits=policy(calls)).sample()
    gain = torch.randn(48)
    for _ in range(3):
        for part in torch.randperm(48).split(16):
            here, way = calls[part], sent[part]
            now = torch.distributions.Categorical(logits=policy(here))
            new = now.log_prob(way)
            old = torch.distributions.Categorical(logits=policy(here)).log_prob(way)  # culprit
            ratio = torch.exp(new - old)  # victim
            capped = ratio.clamp(0.8, 1.2)
            loss = -torch.min(ratio * gain[part], capped * gain[part]).mean() - 0.01 * now.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


@program("name_rebound")
def w_teacher_s_average_in_a_method():
    """A teacher of a segmenter, behind its student by an average that is computed and let go."""

    class Pair(nn.Module):
        def __init__(self):
            super().__init__()
            self.student = nn.Conv2d(1, 2, 3, padding=1)
            self.teacher = copy.deepcopy(self.student).requires_grad_(False)

        @torch.no_grad()
        def follow(self):
            for mine, its in zip(self.student.parameters(), self.teacher.parameters(), strict=True):
                its = 0.9 * its + 0.1 * mine  # culprit

        def forward(self, x):
            self.follow()
            with torch.no_grad():
                soft = self.teacher(x).softmax(1)
            return F.kl_div(self.student(x + 0.1 * torch.randn_like(x)).log_softmax(1), soft, reduction="batchmean")

    pair = Pair()
    optimizer = torch.optim.SGD(pair.student.parameters(), lr=0.1)
    for _ in range(4):
        loss = pair(torch.randn(4, 1, 6, 6))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program("gradient_is_zero")
def w_zero_factors_behind_a_long_training():
    """A lookup of tastes, whose correction for a town is added once the others have learned."""

    class Correction(nn.Module):
        def __init__(self, base):
            super().__init__()
            self.base = base.requires_grad_(False)
            self.down = nn.Parameter(torch.zeros(2, 8))  # culprit
            self.up = nn.Parameter(torch.zeros(3, 2))

        def forward(self, x):
            return self.base(x) + x @ self.down.t() @ self.up.t()

    def train(net, laps):
        optimizer = torch.optim.AdamW([p for p in net.parameters() if p.requires_grad], lr=1e-2)
        for _ in range(laps):
            loss = F.mse_loss(net(torch.randn(16, 8)), torch.randn(16, 3))
            optimizer.zero_grad()
            loss.backward()  # victim
            optimizer.step()

    base = nn.Linear(8, 3)
    train(base, 20)
    corrected = Correction(base)
    train(corrected, 170)


@program("result_dropped")
def w_taps_reset_behind_their_parametrization():
    """Taps of a filter for heartbeats, of which some are held at 0; each fold is to begin at the same numbers."""

    class Held(nn.Module):
        def __init__(self, mask):
            super().__init__()
            self.register_buffer("mask", mask)

        def forward(self, taps):
            return taps * self.mask

    taps = nn.Conv1d(1, 2, 5)
    begin = taps.weight.detach().clone()
    parametrize.register_parametrization(taps, "weight", Held((torch.rand(2, 1, 5) > 0.4).float()))
    for _ in range(2):
        taps.weight.data.copy_(begin)  # culprit, victim
        optimizer = torch.optim.SGD(taps.parameters(), lr=0.1)
        for _ in range(3):
            loss = taps(torch.randn(4, 1, 20)).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


@program("constant_term")
def w_slopes_that_are_looked_at_after_the_training():
    """pytorch#31984, for the wear of a tyre: what is asked for afterwards, season by season, is right as it is."""
    net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    roads = torch.rand(16, 2)

    def wear_and_slope(roads):
        roads = roads.clone().requires_grad_()
        wear = net(roads)
        (slope,) = torch.autograd.grad(wear.sum(), roads, retain_graph=True)  # culprit
        return F.mse_loss(wear, roads.square().sum(1, keepdim=True)), F.mse_loss(slope, 2 * roads.detach())

    for _ in range(38):
        wear, slope = wear_and_slope(roads)
        loss = wear + 0.5 * slope
        optimizer.zero_grad()
        loss.backward()  # victim
        optimizer.step()
        del loss, wear, slope
    for _ in range(90):
        wear_and_slope(torch.rand(16, 2))


@program()
def w_legal_slopes_that_are_looked_at_after_the_training():
    """The same, trained by the values and by slopes with a graph; what is looked at needs none."""
    net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    roads = torch.rand(16, 2)

    def wear_and_slope(roads, trains):
        roads = roads.clone().requires_grad_()
        wear = net(roads)
        (slope,) = torch.autograd.grad(wear.sum(), roads, create_graph=trains)
        return F.mse_loss(wear, roads.square().sum(1, keepdim=True)), F.mse_loss(slope, 2 * roads.detach())

    for _ in range(50):
        wear, slope = wear_and_slope(roads, trains=True)
        loss = wear + 0.5 * slope
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    for _ in range(90):
        wear_and_slope(torch.rand(16, 2), trains=False)


class Forecast(nn.Module):
    """Tomorrow's pollen from a week's, step by step."""

    def __init__(self, kinds=3, width=8):
        super().__init__()
        self.into, self.out = nn.Linear(kinds + width, width), nn.Linear(width, kinds)

    def forward(self, days):
        state = torch.zeros(len(days), self.into.out_features)
        for day in days.unbind(1):
            state = torch.tanh(self.into(torch.cat((day, state), 1)))
        return self.out(state)


def fitted(model, optimizer, laps=4):
    """So many steps towards the last day of each week."""
    for _ in range(laps):
        weeks = torch.rand(16, 7, 3)
        loss = F.mse_loss(model(weeks[:, :-1]), weeks[:, -1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program("no_optimiser_holds_it")
def w_forecast_built_once_more_before_it_is_trained():
    """spro/practical-pytorch#9: a first look at what comes out, and the cell that trains begins with a new model."""
    model = Forecast()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    assert model(torch.rand(1, 6, 3)).shape == (1, 3)
    model = Forecast()  # culprit
    fitted(model, optimizer)


@program("no_optimiser_holds_it")
def w_forecast_built_once_more_by_a_function():
    """Both come of the line of one function: the one that is too much is asked for here."""

    def fresh(seed):
        torch.manual_seed(seed)
        return nn.Sequential(Forecast(), nn.Softplus())

    model = fresh(0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    fitted(model, optimizer, 1)
    model = fresh(1)  # culprit
    fitted(model, optimizer)


@program()
def w_legal_forecast_built_once_more_with_its_optimiser():
    """For each part of the data another model, and an optimiser for each."""
    for seed in range(3):
        torch.manual_seed(seed)
        model = Forecast()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        fitted(model, optimizer, 2)


@program()
def w_legal_second_forecast_that_follows_the_first():
    """Built when the optimiser is made already, and never trained: it takes the first one's numbers."""
    model = Forecast()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    slow = Forecast().requires_grad_(False)
    slow.load_state_dict(model.state_dict())
    for _ in range(3):
        fitted(model, optimizer, 1)
        for mine, its in zip(slow.parameters(), model.parameters(), strict=True):
            mine.lerp_(its.detach(), 0.1)
    return slow(torch.rand(2, 6, 3))
