"""What torch accepts and nobody hears of, each in another dress than the report that it was rebuilt from."""

# ruff: noqa: B007  # they stay as people have written them

from __future__ import annotations

import copy

import torch
from torch import nn
from torch.func import functional_call
from torch.nn import functional as F  # noqa: N812  # torch's own convention

from tests.data.programs import program

# -- the outer loss has no way to what its optimiser holds


@program("graph_cut")
def m_prior_of_a_thermostat():
    """A MAML in which each inner step begins anew from numbers."""
    net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
    outer = torch.optim.Adam(net.parameters(), lr=1e-2)

    def tuned(x, y):
        fast = dict(net.named_parameters())
        for turn in range(2):
            loss = F.mse_loss(functional_call(net, fast, (x,)), y)
            slopes = torch.autograd.grad(loss, list(fast.values()), create_graph=True)
            moved = [w.detach() - 0.1 * s.detach() for w, s in zip(fast.values(), slopes, strict=True)]  # culprit
            fast = {name: w.requires_grad_() for name, w in zip(fast, moved, strict=True)}
        return fast

    for house in range(5):
        x = torch.rand(12, 2)
        y = x[:, :1] * (1 + house) - x[:, 1:]
        fast = tuned(x[:6], y[:6])
        outer.zero_grad()
        F.mse_loss(functional_call(net, fast, (x[6:],)), y[6:]).backward()
        outer.step()  # victim


@program()
def m_legal_inner_steps():
    """Second order, with the way kept; first order, whose gradients are put into place."""
    net, later = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1)), nn.Linear(2, 1)
    outer = torch.optim.Adam(net.parameters(), lr=1e-2)
    first_order = torch.optim.SGD(later.parameters(), lr=1e-2)

    def tuned(model, x, y, *, keep):
        fast = dict(model.named_parameters())
        loss = F.mse_loss(functional_call(model, fast, (x,)), y)
        slopes = torch.autograd.grad(loss, list(fast.values()), create_graph=keep)
        moved = {name: w - 0.1 * slope for (name, w), slope in zip(fast.items(), slopes, strict=True)}
        return moved if keep else {name: w.detach().requires_grad_() for name, w in moved.items()}

    for house in range(5):
        x = torch.rand(12, 2)
        y = x[:, :1] * (1 + house) - x[:, 1:]
        outer.zero_grad()
        F.mse_loss(functional_call(net, tuned(net, x[:6], y[:6], keep=True), (x[6:],)), y[6:]).backward()
        outer.step()
        fast = tuned(later, x[:6], y[:6], keep=False)
        F.mse_loss(functional_call(later, fast, (x[6:],)), y[6:]).backward()
        for own, moved in zip(later.parameters(), fast.values(), strict=True):
            own.grad = moved.grad
        first_order.step()


# -- a module's method called `backward`


@program("backward_never_called")
def m_rounding_layer_with_a_backward():
    """A straight-through estimator that is written as a module: its layer in front gets gradients of 0."""

    class Quantiser(nn.Module):
        def __init__(self, levels):
            super().__init__()
            self.levels = levels

        def forward(self, x):
            return torch.round(x * self.levels) / self.levels + 0.1 * x

        def backward(self, grad):  # culprit
            return grad.clamp(-1, 1)

    class Codec(nn.Module):
        def __init__(self):
            super().__init__()
            self.down, self.up, self.quantise = nn.Linear(6, 3), nn.Linear(3, 6), Quantiser(8)

        def forward(self, x):
            return self.up(self.quantise(self.down(x).sigmoid()))

    codec = Codec()
    optimizer = torch.optim.Adam(codec.parameters(), lr=1e-2)
    for step in range(3):
        x = torch.randn(16, 6)
        loss = F.mse_loss(codec(x), x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()  # victim


@program()
def m_legal_methods_called_backward():
    """A Function's own, a trainer's that calls the engine, a flow's inverse."""

    class Clipped(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.view_as(x)

        @staticmethod
        def backward(ctx, grad):
            return grad.clamp(-1, 1)

    class Flow(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale, self.shift = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(2))

        def forward(self, x):
            return Clipped.apply(x) * self.scale.exp() + self.shift, self.scale.sum()

        def backward(self, z):
            return (z - self.shift) * torch.exp(-self.scale)

    class Trained(nn.Module):
        def __init__(self):
            super().__init__()
            self.flow = Flow()

        def forward(self, x):
            z, volume = self.flow(x)
            return (z.pow(2).sum(1) / 2 - volume).mean()

        def backward(self, gradient=None):
            self.loss.backward()
            return gradient

    model = Trained()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(3):
        optimizer.zero_grad()
        model.loss = model(torch.randn(16, 2) * 2 + 1)
        model.backward()
        optimizer.step()


# -- steps that 16 bits round away


@program("step_rounded_away")
def m_gauge_kept_in_sixteen_bits():
    class Gauge(nn.Module):
        def __init__(self, kind):
            super().__init__()
            self.inner = nn.Linear(4, 32, dtype=kind)  # culprit
            self.out = nn.Linear(32, 1, dtype=kind)

        def forward(self, x):
            return self.out(self.inner(x).relu())

    gauge = Gauge(torch.bfloat16)
    optimizer = torch.optim.RMSprop(gauge.parameters(), lr=1e-5)
    for step in range(6):
        x = torch.randn(16, 4)
        loss = F.mse_loss(gauge(x.bfloat16()).float(), x.sum(1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()  # victim


@program()
def m_legal_steps_in_few_bits():
    """A rate that 16 bits can follow, one that still warms up, a rate of 0; the same small one in float32."""
    for kind, rate, rise in ((torch.bfloat16, 0.05, 1), (torch.bfloat16, 1e-6, 50), (torch.bfloat16, 0.0, 1),
                             (torch.float32, 1e-5, 1)):  # fmt: skip
        model = nn.Linear(4, 3, dtype=kind)
        optimizer = torch.optim.Adam(model.parameters(), lr=rate)
        for step in range(5):
            x = torch.randn(16, 4)
            loss = F.mse_loss(model(x.to(kind)).float(), x[:, :3])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            optimizer.param_groups[0]["lr"] *= rise


# -- tied, and made two by what makes all anew


@program("tie_undone")
def m_autoencoder_tied_before_it_has_numbers():
    class Autoencoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.outer = nn.Linear(6, 6), nn.Linear(6, 6)
            self.outer.weight = self.inner.weight

        def forward(self, x):
            return self.outer(self.inner(x).tanh())

    here = torch.empty(()).device
    with torch.device("meta"):
        model = Autoencoder()
    model = model.to_empty(device=here)  # culprit
    for each in model.parameters():
        nn.init.uniform_(each, -0.3, 0.3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        x = torch.randn(8, 6)
        optimizer.zero_grad()
        F.mse_loss(model(x), x).backward()
        optimizer.step()  # victim


@program()
def m_legal_ties():
    """Tied again behind `to_empty`, untied on purpose, cast and copied while tied."""

    class Autoencoder(nn.Module):
        def __init__(self, device):
            super().__init__()
            self.inner, self.outer = nn.Linear(6, 6, device=device), nn.Linear(6, 6, device=device)
            self.tie()

        def tie(self):
            self.outer.weight = self.inner.weight
            return self

        def forward(self, x):
            return self.outer(self.inner(x).tanh())

    again = Autoencoder("meta").to_empty(device=torch.empty(()).device).tie()
    for each in again.parameters():
        nn.init.uniform_(each, -0.3, 0.3)
    apart = Autoencoder(None)
    apart.outer.weight = nn.Parameter(apart.inner.weight.detach().clone())
    moved = copy.deepcopy(Autoencoder(None).double().float())
    for model in (again, apart, moved):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(3):
            x = torch.randn(8, 6)
            optimizer.zero_grad()
            F.mse_loss(model(x), x).backward()
            optimizer.step()


# -- a word that torch doesn't know was to switch a gradient on


class Songs(nn.Module):
    """Birds' songs beside their pictures, at a temperature that is learnt once both sides have settled."""

    def __init__(self):
        super().__init__()
        self.song, self.picture = nn.Linear(10, 4), nn.Linear(6, 4)
        self.temperature = nn.Parameter(torch.tensor(0.5), requires_grad=False)

    def forward(self, songs, pictures):
        heard, seen = F.normalize(self.song(songs), dim=1), F.normalize(self.picture(pictures), dim=1)
        return heard @ seen.t() / self.temperature.clamp(min=0.05)


def sung(model, laps, settle):
    """Train it; `settle` is called when both sides have settled."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for lap in range(laps):
        if lap == laps // 2:
            settle()
        both = torch.randn(8, 3)
        scores = model(both @ torch.ones(3, 10), both @ torch.ones(3, 6))
        optimizer.zero_grad()
        F.cross_entropy(scores, torch.arange(8)).backward()
        optimizer.step()


@program("learns_no_more")
def m_temperature_that_nobody_hears_of():
    """NVIDIA/TensorRT#2608: a range that was to be learnt stays what it was; no word of the module is wrong."""
    model = Songs()

    def settle():
        model.temperature.required_grad = True  # culprit

    sung(model, 8, settle)


@program()
def m_legal_mark_of_ones_own():
    """A mark that says which are to be learnt later, and that is read then; and the word that torch knows."""
    model, other = Songs(), Songs()
    model.temperature.require_grad = True

    def settle():
        for p in model.parameters():
            if getattr(p, "require_grad", False):
                p.requires_grad_(True)

    def settle_other():
        other.temperature.requires_grad = True

    sung(model, 12, settle)
    sung(other, 8, settle_other)
