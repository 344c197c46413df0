"""Gradients that are clipped in another unit than the step's, each in another dress than its report."""

# ruff: noqa: B007  # they stay as people have written them

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # torch's own convention

from tests.data.programs import program


@program("clipped_while_scaled")
def r_clouds_clipped_by_a_scale_of_one_s_own():
    """milesial/Pytorch-UNet#468, with a scaler of one's own and the outlines of clouds."""

    class OwnScaler:
        def __init__(self, factor=4096.0):
            self.factor = factor

        def up(self, loss):
            return loss * self.factor

        def down(self, optimizer):
            for group in optimizer.param_groups:
                for p in group["params"]:
                    if p.grad is not None:
                        p.grad.div_(self.factor)  # victim

    model = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 1, 1))
    optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), OwnScaler()
    for step in range(4):
        sky = torch.randn(4, 1, 6, 6)
        loss = F.binary_cross_entropy_with_logits(model(sky), (sky > 0).float())
        optimizer.zero_grad(set_to_none=True)
        scaler.up(loss).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # culprit
        scaler.down(optimizer)
        optimizer.step()


@program("clipped_while_scaled")
def r_sums_clipped_before_they_are_means():
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

    def finish(parts):
        gradients = [p.grad for p in model.parameters()]
        nn.utils.clip_grad_value_(model.parameters(), 0.05)  # culprit
        torch._foreach_mul_(gradients, 1.0 / parts)  # victim
        optimizer.step()
        optimizer.zero_grad()

    for step in range(4):
        for part in range(4):
            x = torch.randn(8, 4)
            F.mse_loss(model(x), x[:, :2] * 3).backward()
        finish(4)


@program("clipped_while_scaled")
def r_scale_kept_in_a_tensor():
    class Halves:
        def __init__(self, model):
            self.model, self.inverse = model, torch.tensor(1 / 512)
            self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(self):
            for p in self.model.parameters():
                p.grad.data.mul_(self.inverse)  # victim
            self.optimizer.step()

    model = nn.Linear(4, 2)
    halves = Halves(model)
    for step in range(4):
        x = torch.randn(8, 4)
        model.zero_grad()
        (F.mse_loss(model(x), x[:, :2]) / halves.inverse).backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm=2.0, foreach=False)  # culprit
        halves.step()


@program("clipped_while_scaled")
def r_scale_of_a_module_of_constants():
    scale = 1024.0
    model = nn.GRU(3, 4, batch_first=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(4):
        x = torch.randn(6, 5, 3)
        optimizer.zero_grad()
        loss = model(x)[0].pow(2).mean() * scale
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)  # culprit
        for p in model.parameters():
            p.grad /= scale  # victim
        optimizer.step()


@program()
def r_legal_gradients_scaled_around_a_clip():
    """Unscaled first; measured without a limit, then scaled by hand; a layer's own rate; a scale of 1; a mask."""
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    own = list(model.parameters())

    def come(scale=1.0):
        x = torch.randn(8, 4)
        optimizer.zero_grad()
        (F.mse_loss(model(x), x[:, :2]) * scale).backward()

    for step in range(2):
        come(64.0)
        for p in own:
            p.grad.div_(64.0)
        nn.utils.clip_grad_norm_(own, 1.0)
        optimizer.step()
    for step in range(2):
        come()
        length = nn.utils.clip_grad_norm_(own, float("inf")).item()
        for p in own:
            p.grad.mul_(min(1.0, 0.1 / length))
        optimizer.step()
    for step in range(2):
        come()
        nn.utils.clip_grad_norm_(own, 1.0)
        for depth, p in enumerate(own):
            p.grad.mul_(0.9**depth)
        optimizer.step()
    for step in range(2):
        come()
        nn.utils.clip_grad_norm_(own, 1.0)
        for p in model[0].parameters():
            p.grad.mul_(0.1)
        optimizer.step()
    for step in range(2):
        come()
        nn.utils.clip_grad_norm_(own, 1.0)
        for p in own:
            p.grad.mul_((p.grad.abs() > 1e-3).float())
            p.grad.div_(1.0)
        optimizer.step()


@program()
def r_legal_sums_of_what_was_clipped():
    """Each part is clipped by itself, and the mean of what is left takes its place."""
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        total = [torch.zeros_like(p) for p in model.parameters()]
        for part in range(4):
            x = torch.randn(1, 4)
            optimizer.zero_grad()
            F.mse_loss(model(x), x[:, :2]).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            for each, p in zip(total, model.parameters(), strict=True):
                each.add_(p.grad)
        for each, p in zip(total, model.parameters(), strict=True):
            p.grad.data.copy_(each + 0.01 * torch.randn_like(each))
            p.grad.data.div_(4)
        optimizer.step()


# -- several batches for one step, clipped as each comes


def tides(rows):
    """Readings of a tide gauge, and the next one."""
    x = torch.randn(rows, 6)
    return x, 4 * x[:, :1] - 2 * x[:, 1:2]


@program("clipped_in_parts")
def u_tides_clipped_as_they_come():
    """huggingface/transformers#1563: the clip stands in the loop, the step under its condition."""
    net = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    at_once, seen = 4, 0
    for lap in range(16):
        x, y = tides(6)
        loss = F.mse_loss(net(x), y) / at_once
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.2)  # culprit
        seen += len(x)
        if (lap + 1) % at_once == 0:
            optimizer.step()  # victim
            optimizer.zero_grad()


@program("clipped_in_parts")
def u_each_number_of_a_part_clipped():
    """In a class, by its numbers instead of by its norm."""

    class Gauge:
        def __init__(self, parts):
            self.net, self.parts = nn.Linear(6, 1), parts
            self.optimizer = torch.optim.Adam(self.net.parameters(), lr=1e-2)

        def add(self, x, y):
            (F.mse_loss(self.net(x), y) / self.parts).backward()
            nn.utils.clip_grad_value_(self.net.parameters(), 0.1)  # culprit

        def fit(self, rounds):
            for _ in range(rounds):
                self.optimizer.zero_grad(set_to_none=False)
                for _ in range(self.parts):
                    self.add(*tides(4))
                self.optimizer.step()  # victim

    gauge = Gauge(3)
    gauge.fit(5)


@program()
def u_legal_clipped_once_for_all():
    """Right before the step; the norm of each part is only measured; another term's is limited by itself."""
    net = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    for lap in range(16):
        x, y = tides(6)
        (F.mse_loss(net(x), y) / 4).backward()
        nn.utils.clip_grad_norm_(net.parameters(), float("inf"))
        if (lap + 1) % 4 == 0:
            nn.utils.clip_grad_norm_(net.parameters(), 0.2)
            optimizer.step()
            optimizer.zero_grad()
    for _ in range(4):
        x, y = tides(6)
        optimizer.zero_grad()
        net(x).square().mean().backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.01)
        F.mse_loss(net(x), y).backward()
        optimizer.step()


@program()
def u_legal_each_sample_by_itself():
    """What one gauge alone can say is limited, added up elsewhere, and blurred: nobody is to find out one of them."""
    net = nn.Linear(6, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for lap in range(5):
        x, y = tides(4)
        sums = [torch.zeros_like(p) for p in net.parameters()]
        for at in range(4):
            F.mse_loss(net(x[at]), y[at]).backward()
            nn.utils.clip_grad_norm_(net.parameters(), 0.3)
            for total, p in zip(sums, net.parameters(), strict=True):
                total.add_(p.grad)
                if lap % 2:
                    p.grad = None
                else:
                    p.grad = torch.zeros_like(p)
        for total, p in zip(sums, net.parameters(), strict=True):
            p.grad = (total + 0.1 * torch.randn_like(total)) / 4
        optimizer.step()
        optimizer.zero_grad()


@program()
def u_legal_each_sample_moved_by_its_data():
    """The same, and the gradient is cleared where it lies."""
    net = nn.Linear(6, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(5):
        x, y = tides(4)
        sums = [torch.zeros_like(p) for p in net.parameters()]
        for at in range(4):
            F.mse_loss(net(x[at]), y[at]).backward()
            nn.utils.clip_grad_norm_(net.parameters(), 0.3)
            for total, p in zip(sums, net.parameters(), strict=True):
                total += p.grad.data
            net.zero_grad(set_to_none=False)
        for total, p in zip(sums, net.parameters(), strict=True):
            p.grad = total / 4
        optimizer.step()
