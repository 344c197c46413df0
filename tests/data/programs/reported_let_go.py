"""Lines whose work is let go, and loops by hand, each in another dress than the report that it was rebuilt from."""

# ruff: noqa: B007, B015, B018  # they stay as people have written them

from __future__ import annotations

import torch
from torch import nn
from torch.distributions import Categorical
from torch.nn import functional as F  # noqa: N812  # torch's own convention

from tests.data.programs import program

# -- a statement whose result nobody takes


@program("result_dropped")
def l_words_that_were_never_taken():
    """fenchri/edge-oriented-graph#12, with a head of its own."""

    class Reader(nn.Module):
        def __init__(self, vectors):
            super().__init__()
            self.words = nn.Embedding(12, 4)
            self.words.from_pretrained(vectors, freeze=True)  # culprit
            self.top = nn.Linear(4, 2)

        def forward(self, x):
            return self.top(self.words(x).mean(1))

    model = Reader(torch.randn(12, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        loss = F.cross_entropy(model(torch.randint(12, (8, 3))), torch.randint(2, (8,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()  # victim


@program("result_dropped")
def l_mask_of_a_hook_that_returns_nothing():
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2))
    keep = torch.zeros(6, 4)
    keep[:3] = 1

    def only_half(grad):
        grad = grad * keep  # culprit

    model[0].weight.register_hook(only_half)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        loss = model(torch.randn(8, 4)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()  # victim
        optimizer.step()


@program("result_dropped")
def l_penalty_added_to_nothing():
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        loss = F.cross_entropy(model(torch.randn(8, 4)), torch.randint(2, (8,)))
        size = sum(p.abs().sum() for p in model.parameters())
        loss.add(0.01 * size)  # culprit
        optimizer.zero_grad()
        loss.backward()  # victim
        optimizer.step()


@program("result_dropped")
def l_clearing_without_brackets():
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        optimizer.zero_grad  # culprit
        model(torch.randn(8, 4)).pow(2).mean().backward()
        optimizer.step()  # victim


@program("result_dropped")
def l_freeze_that_compares():
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2))
    for p in model[0].parameters():
        p.requires_grad == False  # noqa: E712  # culprit
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).pow(2).mean().backward()
        optimizer.step()  # victim


@program()
def l_legal_hooks_and_statements():
    """A hook that only notes, one that returns; a module made and kept; a call for what it prints."""
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2))
    model.add_module("3", nn.Linear(2, 2))
    norms = []

    def note(grad):
        size = grad.norm()
        norms.append(size.item())

    def half(grad):
        return grad * 0.5

    def stays(grad):
        grad = grad.detach()
        norms.append(grad.abs().max())

    model[0].weight.register_hook(note)
    model[0].bias.register_hook(half)
    model[2].bias.register_hook(stays)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        loss = model(torch.randn(8, 4)).pow(2).mean()
        loss.item()
        loss.backward()
        optimizer.step()


# -- loops by hand


@program("gradients_never_cleared")
def l_weights_moved_by_hand_and_never_cleared():
    model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1))
    for step in range(5):
        x = torch.randn(8, 3)
        F.mse_loss(model(x), x.sum(1, keepdim=True)).backward()
        with torch.no_grad():
            for p in model.parameters():
                p -= 0.05 * p.grad  # culprit, victim


@program()
def l_legal_loops_by_hand():
    """Cleared in place, by None, by the module; momentum of one's own; a sum over two batches that is then used."""
    w, b = torch.randn(3, 1, requires_grad=True), torch.zeros(1, requires_grad=True)
    model, speed = nn.Linear(3, 1), {}
    for step in range(5):
        x = torch.randn(8, 3)
        (x @ w + b + model(x)).pow(2).mean().backward()
        (x @ w).pow(2).mean().backward()
        with torch.no_grad():
            w -= 0.1 * w.grad
            w.grad.zero_()
            b -= 0.1 * b.grad
            b.grad = None
            for p in model.parameters():
                speed[p] = 0.9 * speed.get(p, 0) + p.grad
                p -= 0.05 * speed[p]
        model.zero_grad()


# -- what an optimiser holds, and what not


@program("no_optimiser_holds_it")
def l_gate_in_a_buffer():
    class Gated(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.top = nn.Linear(4, 6), nn.Linear(6, 2)
            self.register_buffer("gate", torch.ones(6, requires_grad=True))  # culprit

        def forward(self, x):
            return self.top(self.inner(x) * self.gate)

    model = Gated()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).pow(2).mean().backward()
        optimizer.step()  # victim


@program("never_reached")
def l_picture_without_requires_grad():
    class Canvas(nn.Module):
        def __init__(self):
            super().__init__()
            self.picture = torch.rand(1, 1, 6, 6)  # culprit

    look, canvas = nn.Conv2d(1, 3, 3).requires_grad_(False), Canvas()
    shift = torch.zeros(1, 1, 1, 1, requires_grad=True)
    optimizer = torch.optim.Adam([canvas.picture], lr=0.1)
    aim = torch.rand(1, 3, 4, 4)
    for step in range(4):
        optimizer.zero_grad()
        F.mse_loss(look(canvas.picture + shift), aim).backward()
        optimizer.step()  # victim


@program("no_optimiser_holds_it")
def l_the_teacher_is_given_to_the_optimiser():
    teacher = nn.Sequential(nn.Linear(4, 12), nn.ReLU(), nn.Linear(12, 3))
    pupil = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))
    optimizer = torch.optim.SGD(teacher.parameters(), lr=0.1)  # culprit
    for step in range(4):
        x = torch.randn(8, 4)
        with torch.no_grad():
            soft = teacher(x).softmax(1)
        loss = F.kl_div(pupil(x).log_softmax(1), soft, reduction="batchmean")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()  # victim


@program()
def l_legal_points_kept_in_a_module():
    """A physics-informed net keeps its points, which require grad, and asks for their gradient."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
            self.points = torch.linspace(0, 1, 10).view(-1, 1).requires_grad_()

        def forward(self):
            u = self.inner(self.points)
            slope = torch.autograd.grad(u.sum(), self.points, create_graph=True)[0]
            bend = torch.autograd.grad(slope.sum(), self.points, create_graph=True)[0]
            return (bend + u).pow(2).mean()

    net = Net()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for step in range(4):
        optimizer.zero_grad()
        net().backward()
        optimizer.step()


# -- on the way to the loss


@program("constant_term")
def l_bend_without_its_graph():
    net = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for step in range(4):
        t = torch.rand(12, 1, requires_grad=True)
        u = net(t)
        slope = torch.autograd.grad(u.sum(), t, create_graph=True)[0]
        bend = torch.autograd.grad(slope.sum(), t, retain_graph=True)[0]  # culprit
        loss = (bend + 4 * u).pow(2).mean() + (net(torch.zeros(1, 1)) - 1).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()  # victim
        optimizer.step()


@program("never_reached")
def l_log_probs_noted_as_numbers():
    policy = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
    for game in range(4):
        logs, wins = [], []
        for turn in range(5):
            choice = Categorical(logits=policy(torch.randn(4)))
            move = choice.sample()
            logs.append(choice.log_prob(move).item())  # culprit
            wins.append(float(move == 0))
        loss = -(torch.tensor(logs) * torch.tensor(wins)).sum()
        loss.requires_grad_()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()  # victim


@program("backward_disagrees")
def l_none_for_a_learned_slope():
    class Slope(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, slope):
            ctx.save_for_backward(x, slope)
            return x * slope

        @staticmethod
        def backward(ctx, grad):
            _x, slope = ctx.saved_tensors
            return grad * slope, None  # culprit

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.slope = nn.Linear(4, 6), nn.Parameter(torch.ones(6))

        def forward(self, x):
            return Slope.apply(self.inner(x), self.slope)  # victim

    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).pow(2).mean().backward()
        optimizer.step()


# -- weights and gradients that are multiplied


@program("freeze_without_effect")
def l_pruned_once_and_trained_on():
    model = nn.Linear(6, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def train(turns):
        for turn in range(turns):
            optimizer.zero_grad()
            model(torch.randn(8, 6)).pow(2).mean().backward()
            optimizer.step()  # culprit

    train(3)
    keep = (model.weight.norm(dim=1, keepdim=True) > model.weight.norm(dim=1).median()).float()
    model.weight.data.mul_(keep)  # victim
    train(3)


@program()
def l_legal_pruned_after_each_step():
    model = nn.Linear(6, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    keep = (model.weight.abs() > 0.2).float()
    for turn in range(5):
        optimizer.zero_grad()
        model(torch.randn(8, 6)).pow(2).mean().backward()
        optimizer.step()
        model.weight.data.mul_(keep)


@program("clipped_while_scaled")
def l_scale_taken_out_by_a_new_gradient():
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        loss = F.cross_entropy(model(torch.randn(8, 4)), torch.randint(2, (8,)))
        optimizer.zero_grad()
        (loss * 512.0).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # culprit
        for p in model.parameters():
            p.grad = p.grad / 512.0
        optimizer.step()
