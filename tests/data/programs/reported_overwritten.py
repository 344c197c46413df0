"""Modules that write in place, and lines that read what they were given afterwards; and some that are meant to."""

from __future__ import annotations

import torch
from torch import nn

from tests.data.programs import program


def learned(net, x, laps=3):
    """Trained for some laps to give zeros."""
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for _ in range(laps):
        loss = net(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program("read_after_write")
def iw_shortcut_of_what_was_rectified():
    """rosinality/vq-vae-2-pytorch#60: the branch begins with an activation in place, the shortcut comes after it."""

    class Block(nn.Module):
        def __init__(self, channels):
            super().__init__()
            self.branch = nn.Sequential(
                nn.ReLU(inplace=True),  # culprit
                nn.Conv1d(channels, 6, 3, padding=1),
                nn.ReLU(inplace=True),
                nn.Conv1d(6, channels, 1),
            )

        def forward(self, input):
            out = self.branch(input)
            out += input  # victim
            return out

    net = nn.Sequential(nn.Conv1d(2, 4, 3), Block(4), nn.ReLU(inplace=True), nn.Conv1d(4, 1, 1))
    learned(net, torch.randn(3, 2, 8))


@program("read_after_write")
def iw_residual_on_one_line():
    """`x` is looked up before the call, and added after it has been written."""

    class Unit(nn.Module):
        def __init__(self):
            super().__init__()
            self.activation, self.layer = nn.ELU(inplace=True), nn.Linear(4, 4)  # culprit

        def forward(self, x):
            return x + self.layer(self.activation(x))  # victim

    net = nn.Sequential(nn.Linear(3, 4), Unit(), nn.Linear(4, 1))
    learned(net, torch.randn(5, 3))


@program("read_after_write")
def iw_two_branches_of_one_input():
    """The second branch begins with what the first has left of its input."""

    class Fork(nn.Module):
        def __init__(self):
            super().__init__()
            self.deep = nn.Sequential(nn.LeakyReLU(0.1, True), nn.Linear(4, 4))  # culprit
            self.shallow = nn.Linear(4, 4)

        def forward(self, features):
            deep = self.deep(features)
            shallow = self.shallow(features)  # victim
            return torch.cat([deep, shallow], dim=1)

    net = nn.Sequential(nn.Linear(3, 4), Fork(), nn.Linear(8, 1))
    learned(net, torch.randn(5, 3))


@program("read_after_write")
def iw_input_compared_with_what_comes_out():
    """How much is changed is asked of the input, which the first layer has changed itself."""
    net = nn.Sequential(nn.Hardtanh(-1, 1, inplace=True), nn.Linear(3, 3))  # culprit
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(3):
        noisy = 2 * torch.randn(6, 3)
        out = net(noisy)
        loss = (out - noisy).square().mean()  # victim
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program()
def iw_legal_activated_first_and_then_added():
    """What was overwritten has its old name again: what follows means the new value."""

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.act, self.layer = nn.ReLU(inplace=True), nn.Linear(4, 4)

        def forward(self, x):
            x = self.act(x)
            return x + self.layer(x)

    net = nn.Sequential(nn.Linear(3, 4), Block(), nn.Linear(4, 1))
    learned(net, torch.randn(5, 3))


@program()
def iw_legal_results_within_a_stem():
    """What a layer of the stem made, the next one has rewritten; another function calls what comes out `x`."""

    class Head(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 1)

        def forward(self, x):
            return x.mean(1, keepdim=True) * self.layer(x)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = nn.Sequential(nn.Linear(3, 4), nn.ReLU(inplace=True))
            self.head = Head()

        def forward(self, x):
            h = self.head(self.stem(x))
            return h.sum(1)

    learned(Net(), torch.randn(5, 3))


@program()
def iw_legal_slope_of_a_critic_built_in_place():
    """A penalty on the slope goes through the same Functions once more."""
    critic = nn.Sequential(nn.Linear(2, 8), nn.ReLU(inplace=True), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(critic.parameters(), lr=0.1)
    for _ in range(3):
        x = torch.randn(4, 2, requires_grad=True)
        (slope,) = torch.autograd.grad(critic(x).sum(), x, create_graph=True)
        loss = (slope.norm(dim=1) - 1).pow(2).mean() + critic(x).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program()
def iw_legal_shortcut_taken_before():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.act = nn.BatchNorm1d(4), nn.ReLU(inplace=True)
            self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            identity = x
            out = self.act(self.norm(self.first(x)))
            out = self.second(out)
            out += identity
            return self.act(out)

    net = nn.Sequential(nn.Linear(3, 4), Block(), Block(), nn.Linear(4, 1))
    learned(net, torch.randn(5, 3))


@program()
def iw_legal_one_after_the_other():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.ModuleList([nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True)) for _ in range(3)])

        def forward(self, x):
            seen = [x]
            for layer in self.inner:
                x = layer(x)
                seen.append(x)
            return torch.cat(seen, dim=1)

    net = nn.Sequential(nn.Linear(3, 4), Net(), nn.Linear(16, 1))
    learned(net, torch.randn(5, 3))


def forces(places, charges):
    """An energy and its slopes, both computed by the Function that hands on the slopes alone."""
    with torch.enable_grad():
        near, held = places.detach().requires_grad_(), charges.detach().requires_grad_()
        energy = (torch.outer(held, held) * torch.exp(-torch.cdist(near, near).square())).sum()
        return energy.detach(), *torch.autograd.grad(energy, (near, held))


class Energy(torch.autograd.Function):
    """Its slopes are known when the forward is over, and its backward scales them where they are kept."""

    @staticmethod
    def forward(ctx, places, charges):
        energy, by_place, by_charge = forces(places, charges)
        ctx.save_for_backward(by_place, by_charge)
        return energy

    @staticmethod
    def backward(ctx, given):
        by_place, by_charge = ctx.saved_tensors
        by_place *= given
        by_charge *= given
        return by_place, by_charge


@program("saved_tensor_modified", route="self")
def iw_kept_slopes_scaled_by_each_backward():
    """k2-fsa/k2#1106: two losses go through one energy, each for its own weights."""

    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, places, charges):
            energy, by_place, by_charge = forces(places, charges)
            by_place = by_place / by_place.abs().amax().clamp(min=1)
            ctx.save_for_backward(by_place, by_charge)
            return energy

        @staticmethod
        def backward(ctx, given):
            by_place, by_charge = ctx.saved_tensors
            by_place *= given  # culprit
            by_charge *= given
            return by_place, by_charge

    mover, charger = nn.Linear(4, 2), nn.Linear(4, 1)
    first = torch.optim.SGD(mover.parameters(), lr=0.01)
    second = torch.optim.SGD(charger.parameters(), lr=0.01)
    atoms = torch.randn(6, 4)
    for _ in range(3):
        energy = Scaled.apply(mover(atoms), charger(atoms).squeeze(1))  # victim
        loss = energy + charger(atoms).square().mean()
        first.zero_grad()
        second.zero_grad()
        energy.backward(retain_graph=True, inputs=list(mover.parameters()))
        loss.backward(inputs=list(charger.parameters()))
        first.step()
        second.step()


@program("saved_tensor_modified", route="self")
def iw_one_of_the_kept_is_written_once_the_others_are_read():
    """The one that is written is taken by its number, and its name is another one's in the forward."""

    class Clipped(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, low, high):
            inside = ((x > low) & (x < high)).to(x.dtype)
            ctx.save_for_backward(torch.sign(x), inside)
            return x.clamp(low, high)

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, given):
            mask = ctx.saved_tensors[1]
            found = given.clone()
            found += ctx.saved_tensors[0] * 0.1
            mask.mul_(found)  # culprit
            return mask, None, None

    net = nn.Linear(3, 5)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(3):
        kept = Clipped.apply(net(torch.randn(8, 3)), -0.5, 0.5)  # victim
        optimizer.zero_grad()
        kept.square().mean().backward(retain_graph=True)
        kept.mean().backward()
        optimizer.step()


@program()
def iw_legal_kept_slopes_scaled_once():
    """Nobody comes through the graph again: what was kept may be used up."""
    mover, charger = nn.Linear(4, 2), nn.Linear(4, 1)
    optimizer = torch.optim.SGD([*mover.parameters(), *charger.parameters()], lr=0.01)
    atoms = torch.randn(6, 4)
    for _ in range(3):
        energy = Energy.apply(mover(atoms), charger(atoms).squeeze(1))
        optimizer.zero_grad()
        energy.backward()
        optimizer.step()


@program()
def iw_legal_graph_kept_beside_the_slopes():
    """The graph is kept for a loss that doesn't come through them."""
    mover, charger = nn.Linear(4, 2), nn.Linear(4, 1)
    optimizer = torch.optim.SGD([*mover.parameters(), *charger.parameters()], lr=0.01)
    atoms = torch.randn(6, 4)
    for _ in range(3):
        charges = charger(atoms).squeeze(1)
        energy = Energy.apply(mover(atoms), charges)
        optimizer.zero_grad()
        energy.backward(retain_graph=True)
        charges.square().mean().backward()
        optimizer.step()
