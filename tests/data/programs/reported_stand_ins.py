"""Written anew after reports in which one thing stands where another was meant; and their twins, which are right."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # torch's own convention

from tests.data.programs import program


class Ears(nn.Module):
    """A left and a right one, of one make."""

    def __init__(self):
        super().__init__()
        self.left, self.right = nn.GRU(3, 5, batch_first=True), nn.GRU(3, 5, batch_first=True)
        self.join = nn.Linear(10, 1)


@program("never_reached")
def si_left_ear_hears_both_sides():
    class Heard(Ears):
        def forward(self, stereo):
            near, _ = self.left(stereo[0])
            far, _ = self.left(stereo[1])  # culprit
            return self.join(torch.cat([near[:, -1], far[:, -1]], 1))

    net = Heard()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(4):
        loss = net(torch.randn(2, 6, 4, 3)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()  # victim


@program()
def si_both_ears_hear():
    class Heard(Ears):
        def forward(self, stereo):
            near, _ = self.left(stereo[0])
            far, _ = self.right(stereo[1])
            return self.join(torch.cat([near[:, -1], far[:, -1]], 1))

    net = Heard()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(4):
        loss = net(torch.randn(2, 6, 4, 3)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program()
def si_one_ear_that_is_shared_on_purpose():
    """The other one is put away before the optimiser is made."""

    class Heard(Ears):
        def forward(self, stereo):
            near, _ = self.left(stereo[0])
            far, _ = self.left(stereo[1])
            return self.join(torch.cat([near[:, -1], far[:, -1]], 1))

    net = Heard()
    del net.right
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(4):
        loss = net(torch.randn(2, 6, 4, 3)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


class Stations(nn.Module):
    """A frozen table of stations, and what is learnt of the weather."""

    def __init__(self, stations, frozen=True):
        super().__init__()
        self.table = nn.Embedding(stations, 4)
        if frozen:
            self.table.weight.requires_grad_(False)
        self.weather = nn.Linear(2, 4)

    def more(self, stations):
        wide = nn.Embedding(stations, 4)
        with torch.no_grad():
            wide.weight[: self.table.num_embeddings] = self.table.weight
        self.table = wide

    def forward(self, where, seen):
        return (self.table(where) * self.weather(seen)).sum(1)


@program("freeze_without_effect")
def si_frozen_table_gets_more_rows():
    class Wider(Stations):
        def grow(self, stations):
            wide = nn.Embedding(stations, 4)
            with torch.no_grad():
                wide.weight[: self.table.num_embeddings] = self.table.weight
            self.table = wide  # culprit

    net = Wider(6)
    net.grow(9)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(4):
        loss = F.mse_loss(net(torch.randint(0, 9, (8,)), torch.randn(8, 2)), torch.randn(8))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()  # victim


@program()
def si_table_with_more_rows_is_frozen_then():
    net = Stations(6)
    net.more(9)
    net.table.requires_grad_(False)
    optimizer = torch.optim.Adam([p for p in net.parameters() if p.requires_grad], lr=1e-2)
    for _ in range(4):
        loss = F.mse_loss(net(torch.randint(0, 9, (8,)), torch.randn(8, 2)), torch.randn(8))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program()
def si_head_of_more_classes_is_all_that_learns():
    """What it knows of the old ones it keeps; the rest is frozen, so nobody meant it to be."""
    body, head = nn.Sequential(nn.Linear(3, 8), nn.Tanh()), nn.Linear(8, 2)
    net = nn.ModuleDict({"body": body, "head": head})
    for p in net.parameters():
        p.requires_grad = False
    wide = nn.Linear(8, 4)
    with torch.no_grad():
        wide.weight[:2], wide.bias[:2] = head.weight, head.bias
    net["head"] = wide
    optimizer = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], lr=0.1)
    for _ in range(4):
        loss = F.cross_entropy(net["head"](net["body"](torch.randn(8, 3))), torch.randint(0, 4, (8,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program()
def si_frozen_body_with_a_fresh_head():
    """The new one has numbers of its own."""
    net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
    net.requires_grad_(False)
    net[2] = nn.Linear(8, 2)
    net.append(nn.Linear(2, 2))
    optimizer = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], lr=0.1)
    for _ in range(4):
        loss = F.cross_entropy(net(torch.randn(8, 3)), torch.randint(0, 2, (8,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program("not_kept_for_backward")
def si_strength_is_kept_by_an_instance():
    class Damped(torch.autograd.Function):
        def __init__(self, strength):
            self.strength = strength

        @staticmethod
        def forward(ctx, x):
            return x.view_as(x)

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.strength  # culprit

    layer = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    for _ in range(3):
        loss = Damped(0.5).apply(layer(torch.randn(8, 4))).square().mean()  # victim
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program("not_kept_for_backward")
def si_saved_tensors_by_another_name():
    class Cubed(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensor  # culprit
            return grad * 3 * x**2

    layer = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    for _ in range(3):
        loss = Cubed.apply(layer(torch.randn(8, 4))).abs().mean()  # victim
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program()
def si_strength_is_kept_by_forward():
    class Damped(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, strength):
            ctx.strength = strength
            return x.view_as(x)

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.strength * getattr(ctx, "more", 1.0), None

    layer = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    for _ in range(3):
        loss = Damped.apply(layer(torch.randn(8, 4)), 0.5).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


class Gauge(nn.Module):
    """What lies in a box, and how full it is, of a picture from above."""

    def __init__(self, size=8):
        super().__init__()
        self.base = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU())
        self.filled, self.kind = nn.Conv2d(8, 1, 1), nn.Conv2d(8, size, 1)

    def forward(self, x):
        h = self.base(x)
        return self.filled(h).mean(dim=(1, 2, 3)), self.kind(h).mean(dim=(2, 3))


class Weighed(nn.Module):
    """Two losses by learned weights, and the classes, which are the loss's own."""

    def __init__(self, size=8, kinds=6):
        super().__init__()
        self.classes = nn.Linear(size, kinds)
        self.filled, self.kind = nn.Parameter(-1.8 * torch.ones(1)), nn.Parameter(-torch.ones(1))

    def forward(self, told, batch):
        filled = F.l1_loss(told[0], batch["filled"])
        kind = F.cross_entropy(self.classes(2 * F.normalize(told[1])), batch["kind"])
        loss = torch.exp(-self.filled) * filled + torch.exp(-self.kind) * kind + (self.filled + self.kind)
        return loss.sum() * 0.5


class Store:
    """One loss for two optimisers: the model's, and the loss's own."""

    def __init__(self, model):
        self.model, self.loss = model, Weighed()
        self.optimizer = torch.optim.Adam(model.parameters(), 5e-3)
        self.weights = torch.optim.SGD(self.loss.parameters(), 5e-3, momentum=0.9)

    def train(self, batch):
        self.model.train()
        loss = self.loss(self.model(batch["image"]), batch)
        self.optimizer.zero_grad()
        self.weights.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.weights.step()
        return loss.item()


@program()
def si_legal_store():
    """Both clear before one backward call, and both step after it; github.com/ifzhang/FairMOT/issues/19."""
    torch.manual_seed(11)
    model = Gauge()
    store = Store(model)
    for _ in range(80):
        kind = torch.randint(0, 6, (12,))
        image = torch.rand(12, 1, 8, 8) * 0.1 + kind.view(-1, 1, 1, 1) * 0.1
        store.train({"image": image, "kind": kind, "filled": image.mean(dim=(1, 2, 3))})
    return model
