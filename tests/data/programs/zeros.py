"""Leaves whose gradient is exactly 0: rounded, saturated, dead, masked out; and zeros that are as they should be.

In each broken one `loss_of` computes the loss, so that a test can mend it and compare with central differences.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # torch's own convention

from tests.data.programs import program

# -- steps: no slope anywhere


@program("gradient_is_zero", node="RoundBackward0")
def z_quantised_activations():
    """8 levels, rounded in the forward; PTQ4ViT#6, hqq#84, generative-compression#51."""

    class Quantised(nn.Module):
        def __init__(self, levels=8):
            super().__init__()
            self.levels = levels
            self.encoder, self.decoder = nn.Linear(10, 6), nn.Linear(6, 10)

        def quantise(self, h):
            h = torch.sigmoid(h)
            return torch.round(h * self.levels) / self.levels  # culprit

        def forward(self, x):
            return self.decoder(self.quantise(self.encoder(x)))

    model = Quantised()
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(3):
        x = torch.randn(16, 10)

        def loss_of(x=x):
            return F.mse_loss(model(x), x)

        opt.zero_grad()
        loss = loss_of()
        loss.backward()  # victim
        opt.step()


@program("gradient_is_zero", node="SignBackward0", tensor="net.hidden.weight")
def z_binarised_weights():
    """sign of the weights, no straight-through; torch/nn#1174."""

    class Binary(nn.Linear):
        def forward(self, x):
            weight = self.weight.sign()  # culprit
            return F.linear(x, weight, self.bias)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.hidden, self.out = Binary(8, 12), nn.Linear(12, 3)

        def forward(self, x):
            return self.out(torch.tanh(self.hidden(x)))

    net = Net()
    x, y = torch.randn(20, 8), torch.randint(0, 3, (20,))

    def loss_of():
        return F.cross_entropy(net(x), y)

    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(2):
        opt.zero_grad()
        loss = loss_of()
        loss.backward()  # victim
        opt.step()


@program("gradient_is_zero", node="FloorBackward0")
def z_nearest_cell_of_a_grid():
    """A position looked up in a table: floor, then a weight computed of what floor gives."""

    class Field(nn.Module):
        def __init__(self):
            super().__init__()
            self.where = nn.Linear(4, 1)
            self.values = nn.Parameter(torch.randn(9))

        def forward(self, x):
            position = torch.sigmoid(self.where(x)).squeeze(-1) * 7
            low = position.floor()  # culprit
            cell = low.long()
            return self.values[cell] * (cell + 1 - low) + self.values[cell + 1] * (low - cell)

    field = Field()
    x, y = torch.randn(30, 4), torch.randn(30)

    def loss_of():
        return F.mse_loss(field(x), y)

    loss = loss_of()
    loss.backward()  # victim
    return field.where.weight.grad


@program("gradient_is_zero", node="NormalBackward1", tensor="encoder.weight")
def z_a_code_that_is_drawn():
    """Noise added by drawing: the decoder learns alone."""
    encoder, decoder = nn.Linear(9, 3), nn.Linear(3, 9)
    opt = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-2)
    for _ in range(2):
        x = torch.randn(15, 9)

        def loss_of(x=x):
            torch.manual_seed(1)
            mean = encoder(x)
            code = torch.normal(mean, 0.1)  # culprit
            return F.mse_loss(decoder(code), x)

        opt.zero_grad()
        loss = loss_of()
        loss.backward()  # victim
        opt.step()


# -- saturated


@program("gradient_is_zero", node="ClampBackward1", check_nan=True)
def z_log_std_out_of_its_range():
    """An actor whose log_std begins above the limit; stable-baselines3#620, REDQ#8."""

    class Actor(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.mean, self.log_std = nn.Linear(5, 16), nn.Linear(16, 2), nn.Linear(16, 2)
            nn.init.constant_(self.log_std.bias, 6.0)
            nn.init.uniform_(self.log_std.weight, -0.01, 0.01)

        def forward(self, state):
            h = torch.tanh(self.body(state))
            return self.mean(h), self.log_std(h)

    actor = Actor()
    states, actions = torch.randn(32, 5), torch.randn(32, 2)

    def loss_of():
        mean, raw = actor(states)
        log_std = torch.clamp(raw, -20.0, 2.0)  # culprit
        return (0.5 * ((actions - mean) / log_std.exp()) ** 2 + log_std).mean()

    opt = torch.optim.Adam(actor.parameters(), lr=1e-3)
    for _ in range(2):
        opt.zero_grad()
        loss = loss_of()
        loss.backward()  # victim
        opt.step()


@program("gradient_is_zero", node="SigmoidBackward0", check_nan=True)
def z_inputs_that_were_never_scaled():
    """Pixel sums in the thousands: the sigmoid is 0 or 1 to the last bit."""
    net = nn.Sequential(nn.Linear(12, 5, bias=False), nn.Sigmoid(), nn.Linear(5, 1))
    with torch.no_grad():
        net[0].weight.abs_().add_(0.2)
    images, y = torch.randint(100, 256, (24, 12)) / 1.0, torch.randn(24, 1)

    def loss_of():
        hidden = net[0](images)
        gate = net[1](hidden)  # culprit
        return F.mse_loss(net[2](gate), y)

    loss = loss_of()
    loss.backward()  # victim
    return net[2].weight.grad


@program("gradient_is_zero", node="ReluBackward0", check_nan=True)
def z_a_layer_that_has_died():
    """After one step that was too large no unit answers any more (Quora's and every course's dying ReLU)."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(6, 10), nn.Linear(10, 1)

        def forward(self, x):
            h = F.relu(self.first(x))  # culprit
            return self.second(h)

    net = Net()
    with torch.no_grad():
        net.first.bias.sub_(25.0)
    x, y = torch.randn(40, 6), torch.randn(40, 1)

    def loss_of():
        return F.mse_loss(net(x), y)

    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(3):
        opt.zero_grad()
        loss = loss_of()
        loss.backward()  # victim
        opt.step()


@program("gradient_is_zero", node="ClampBackward1", tensor="spread.weight")
def z_a_spread_that_never_comes_back():
    """stable-baselines3#620: out of its range from the first step on; seen because it stays so for long."""
    body, mean, spread = nn.Linear(4, 12), nn.Linear(12, 2), nn.Linear(12, 2)
    nn.init.constant_(spread.bias, 5.0)
    nn.init.uniform_(spread.weight, -0.01, 0.01)
    opt = torch.optim.Adam([*body.parameters(), *mean.parameters(), *spread.parameters()], lr=1e-3)
    for _ in range(14):
        x, y = torch.randn(16, 4), torch.randn(16, 2)

        def loss_of(x=x, y=y):
            h = torch.tanh(body(x))
            width = spread(h).clamp(-5.0, 2.0)  # culprit
            return (0.5 * ((y - mean(h)) / width.exp()) ** 2 + width).mean()

        opt.zero_grad()
        loss = loss_of()
        loss.backward()  # victim
        opt.step()


@program("gradient_is_zero", node="ReluBackward0")
def z_a_branch_that_was_dead_from_the_start():
    """One branch of two: the other learns, so the loss falls."""

    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.other, self.out = nn.Linear(6, 8), nn.Linear(6, 8), nn.Linear(16, 3)

        def forward(self, x):
            first = torch.tanh(self.one(x))
            second = F.relu(self.other(x))  # culprit
            return self.out(torch.cat([first, second], 1))

    net = Two()
    nn.init.constant_(net.other.bias, -40.0)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(12):
        x, y = torch.randn(20, 6), torch.randint(0, 3, (20,))

        def loss_of(x=x, y=y):
            return F.cross_entropy(net(x), y)

        opt.zero_grad()
        loss = loss_of()
        loss.backward()  # victim
        opt.step()


# -- masked out


@program("gradient_is_zero", node="ReluBackward0", check_nan=True)
def z_heights_below_zero_behind_a_relu():
    """ProteomicsML/ProteomicsML#203: dead from the start, for longer than is remembered of each call."""

    class Tide(nn.Module):
        def __init__(self):
            super().__init__()
            self.sees, self.says = nn.Linear(3, 8), nn.Linear(8, 1)
            nn.init.constant_(self.says.bias, -3.0)

        def forward(self, moon):
            hidden = torch.tanh(self.sees(moon))
            return torch.relu(self.says(hidden)).squeeze(1)  # culprit

    tide = Tide()
    moon, height = torch.rand(16, 3), torch.rand(16)

    def loss_of():
        return F.mse_loss(tide(moon), height)

    opt = torch.optim.Adam(tide.parameters(), lr=1e-3)
    for _ in range(60):
        opt.zero_grad()
        loss = loss_of()
        loss.backward()  # victim
        opt.step()


@program("gradient_is_zero", node="MulBackward0", check_nan=True)
def z_a_mask_that_is_all_off():
    """Confidence in percent compared with a threshold between 0 and 1, the wrong way round: no box counts."""

    class Detector(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.score, self.box = nn.Linear(9, 16), nn.Linear(16, 1), nn.Linear(16, 4)

        def forward(self, x):
            h = torch.relu(self.body(x))
            return self.score(h).squeeze(-1), self.box(h)

    model = Detector()
    x, boxes = torch.randn(20, 9), torch.randn(20, 4)
    objects = (torch.rand(20) > 0.5).to(x.dtype)
    overlap = torch.rand(20) * 100

    def loss_of():
        score, box = model(x)
        positive = (overlap < 0.5).to(x.dtype)
        far = (box - boxes).abs().sum(1)
        localisation = (far * positive).sum() / positive.sum().clamp(min=1)  # culprit
        return F.binary_cross_entropy_with_logits(score, objects) + localisation

    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(2):
        opt.zero_grad()
        loss = loss_of()
        loss.backward()  # victim
        opt.step()


# -- right


@program()
def kz_terms_that_have_their_fill():
    """Free bits, a margin that is kept, a squared one: nothing comes of them for many steps, as they are meant."""
    code, prior, near = nn.Linear(6, 3), nn.Linear(6, 3), nn.Linear(6, 3)
    opt = torch.optim.SGD([*code.parameters(), *prior.parameters(), *near.parameters()], lr=1e-3)
    for _ in range(14):
        x = torch.randn(10, 6)
        kl = (code(x).detach() - prior(x)).pow(2).sum(1) * 1e-3
        free = kl.clamp(min=1.0).mean()
        margin = F.relu(near(x).norm(dim=1) - 50.0)
        loss = code(x).pow(2).mean() + 0.5 * free + margin.mean() + 0.1 * (margin**2).sum() / 10
        opt.zero_grad()
        loss.backward()
        opt.step()
    return code.weight


@program()
def kz_dead_for_a_while_or_passed_by():
    """A way around what is dead; a branch that begins at 0 and comes to life; one that is switched off by a weight."""
    first, second, third = nn.Linear(5, 8), nn.Linear(8, 5), nn.Linear(5, 8)
    nn.init.constant_(first.bias, -40.0)
    nn.init.zeros_(second.weight)
    gate = nn.Parameter(torch.tensor(0.0))
    opt = torch.optim.Adam([*first.parameters(), *second.parameters(), *third.parameters(), gate], lr=1e-2)
    for turn in range(16):
        x = torch.randn(20, 5)
        h = first(x)
        out = second(F.relu(h) + 0.1 * h) + gate * third(x)[:, :5]
        aside = F.relu(third(x)).mean() * float(turn > 12)
        opt.zero_grad()
        ((out - x).pow(2).mean() + aside).backward()
        opt.step()
    return gate


@program()
def kz_an_actor_that_waits_for_its_critic():
    """The critic begins alone, of actions that still hang on the actor, whose own optimiser steps later."""
    actor, critic = nn.Linear(5, 2), nn.Linear(7, 1)
    of_actor, of_critic = (torch.optim.SGD(each.parameters(), lr=0.01) for each in (actor, critic))
    for turn in range(4):
        x = torch.randn(12, 5)
        action = torch.normal(actor(x), 0.2)
        loss = (critic(torch.cat([x, action], 1)) - 1).pow(2).mean()
        of_critic.zero_grad()
        loss.backward()
        of_critic.step()
        if turn > 1:
            of_actor.zero_grad()
            (-critic(torch.cat([x, actor(x)], 1)).mean()).backward()
            of_actor.step()
            of_critic.zero_grad()
    return critic.weight


@program(check_nan=True)
def kz_straight_through():
    encoder, decoder = nn.Linear(8, 5), nn.Linear(5, 8)
    x = torch.randn(12, 8)
    h = encoder(x)
    code = h + (h.round() - h).detach()
    loss = F.mse_loss(decoder(code), x)
    loss.backward()
    return encoder.weight.grad


@program(check_nan=True)
def kz_low_rank_update_begins_at_zero():
    base = nn.Linear(8, 8).requires_grad_(False)
    down, up = nn.Parameter(torch.randn(2, 8)), nn.Parameter(torch.zeros(8, 2))
    x = torch.randn(12, 8)
    loss = (base(x) + x @ down.T @ up.T).pow(2).mean()
    loss.backward()
    return down.grad, up.grad


@program(check_nan=True)
def kz_margin_that_is_kept():
    embed = nn.Linear(4, 6)
    with torch.no_grad():
        embed.weight.mul_(10)
    anchor = torch.randn(10, 4)
    near, far = embed(anchor) - embed(anchor + 0.001), embed(anchor) - embed(anchor + 50)
    loss = F.relu(near.norm(dim=1) - far.norm(dim=1) + 1.0).mean()
    loss.backward()
    return embed.weight.grad


@program(check_nan=True)
def kz_some_units_are_dead():
    net = nn.Sequential(nn.Linear(6, 10), nn.ReLU(), nn.Linear(10, 1))
    with torch.no_grad():
        net[0].bias[:5] = -30.0
    for _ in range(2):
        net(torch.randn(20, 6)).pow(2).mean().backward()
    return net[0].weight.grad


@program(check_nan=True)
def kz_no_positive_in_one_batch_of_three():
    score, box = nn.Linear(5, 1), nn.Linear(5, 4)
    for threshold in (0.5, 2.0, 0.5):
        x = torch.randn(12, 5)
        positive = (torch.rand(12) > threshold).float()
        far = box(x).abs().sum(1)
        loss = F.binary_cross_entropy_with_logits(score(x).squeeze(1), positive)
        (loss + (far * positive).sum() / positive.sum().clamp(min=1)).backward()
    return box.weight.grad


@program(check_nan=True)
def kz_rounded_for_a_report_alone():
    model = nn.Linear(5, 1)
    guess = model(torch.randn(20, 5))
    shown = guess.round().sum()
    guess.pow(2).mean().backward()
    return shown, model.weight.grad


@program(check_nan=True)
def kz_output_clipped_beside_a_part_that_learns():
    model = nn.Linear(5, 2)
    out = model(torch.randn(20, 5))
    loss = out.pow(2).mean() + out.clamp(min=50.0).mean()
    loss.backward()
    return model.weight.grad
