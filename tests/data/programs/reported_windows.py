"""Training steps whose parts don't fit together, each in another dress than the report that it was rebuilt from."""

# ruff: noqa: B007  # they stay as people have written them

from __future__ import annotations

import copy
import math

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # torch's own convention

from tests.data.programs import program

# -- written where autograd takes no notice of it


@program("graph_cut", tensor="model.voice.weight")
def m_voice_written_through_an_alias():
    """QwenLM/Qwen-VL#124, with a speaker's voice in the first slot of each utterance."""

    class Diariser(nn.Module):
        def __init__(self):
            super().__init__()
            self.frames, self.voice = nn.Linear(5, 6), nn.Linear(3, 6)
            self.out = nn.Linear(6, 2)

        def forward(self, frames, voices):
            slots = self.frames(frames)
            first = slots.detach()[:, 0]
            first.copy_(self.voice(voices))  # culprit
            return self.out(slots.relu().mean(1))

    model = Diariser()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(3):
        logits = model(torch.randn(8, 4, 5), torch.randn(8, 3))
        loss = F.cross_entropy(logits, torch.randint(0, 2, (8,)))
        optimizer.zero_grad()
        loss.backward()  # victim
        optimizer.step()


@program("graph_cut", tensor="model.stroke.0.weight")
def m_strokes_painted_under_no_grad():
    class Painter(nn.Module):
        def __init__(self):
            super().__init__()
            self.ground = nn.Linear(4, 12)
            self.stroke = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 3))

        def forward(self, z):
            canvas = self.ground(z).unflatten(1, (4, 3))
            stroke = self.stroke(z)
            with torch.no_grad():
                canvas[:, 1] = stroke  # culprit
            return canvas.sigmoid()

    model = Painter()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(3):
        loss = F.mse_loss(model(torch.randn(8, 4)), torch.rand(8, 4, 3))
        optimizer.zero_grad()
        loss.backward()  # victim
        optimizer.step()


@program("graph_cut", tensor="model.hyper.weight")
def m_weight_generated_and_written_into_data():
    class Conditioned(nn.Module):
        def __init__(self):
            super().__init__()
            self.hyper, self.layer, self.out = nn.Linear(2, 12), nn.Linear(4, 3), nn.Linear(3, 1)

        def forward(self, x, task):
            self.layer.weight.data.add_(self.hyper(task).view(3, 4), alpha=0.1)  # culprit
            return self.out(self.layer(x).tanh())

    model = Conditioned()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(3):
        x, task = torch.randn(8, 4), torch.randn(2)
        loss = F.mse_loss(model(x, task), x[:, :1] * task[0])
        optimizer.zero_grad()
        loss.backward()  # victim
        optimizer.step()


@program()
def m_legal_writes_that_nobody_hears_of():
    """Rounded in place, a memory of what was seen, an average of weights, an alias that is used itself."""

    class Rounded(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.out = nn.Linear(4, 6), nn.Linear(12, 2)
            self.register_buffer("centre", torch.zeros(6))
            self.register_buffer("memory", torch.zeros(8, 6))

        def forward(self, x):
            h = self.inner(x)
            with torch.no_grad():
                self.centre.mul_(0.9).add_(h.mean(0), alpha=0.1)
            self.memory.data[: len(h)] = h
            near = h.clone()
            near.data.copy_(near.round())
            shown = near.detach()
            shown[:, 0] = h[:, 0]
            return self.out(torch.cat([near - self.centre, shown], 1)) + self.memory.detach().mean()

    model = Rounded()
    slow = copy.deepcopy(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(3):
        x = torch.randn(8, 4)
        loss = F.cross_entropy(model(x), (x[:, 0] > 0).long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for p, s in zip(model.parameters(), slow.parameters(), strict=True):
            s.data.mul_(0.99).add_(p.data, alpha=0.01)
        with torch.no_grad():
            slow(x)


# -- a copy knows nothing of what it was copied from


@program("unused_input", tensor="self.policy.body.0.weight")
def m_look_ahead_on_a_twin():
    """vmikulik/maml-pytorch#2, with a twin that takes the numbers of a robot's policy."""

    class Policy(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))

        def forward(self, x):
            return self.body(x)

    class LookAhead:
        def __init__(self, rate):
            self.policy, self.twin, self.rate = Policy(), Policy(), rate
            self.optimizer = torch.optim.SGD(self.policy.parameters(), lr=0.05)

        def adapt(self, x, y):
            self.twin.load_state_dict(self.policy.state_dict())  # culprit
            loss = F.mse_loss(self.twin(x), y)
            for p, g in zip(self.twin.parameters(), torch.autograd.grad(loss, self.twin.parameters()), strict=True):
                p.data.sub_(g, alpha=self.rate)
            return self.twin

        def update(self, x, y):
            ahead = F.mse_loss(self.adapt(x[:8], y[:8])(x[8:]), y[8:])
            grads = torch.autograd.grad(ahead, list(self.policy.parameters()))  # victim
            for p, g in zip(self.policy.parameters(), grads, strict=True):
                p.grad = g
            self.optimizer.step()

    trainer = LookAhead(0.1)
    for step in range(3):
        x = torch.randn(16, 3)
        trainer.update(x, x.sum(1, keepdim=True))


@program("unused_input", tensor="logits")
def m_architecture_asked_for_behind_a_new_parameter():
    """A search over architectures: the choice is copied into a Parameter, by its numbers."""
    logits = torch.zeros(3, requires_grad=True)
    branches = nn.ModuleList(nn.Linear(4, 2) for _ in range(3))
    x, y = torch.randn(8, 4), torch.randint(0, 2, (8,))
    for step in range(2):
        weights = nn.Parameter(logits.detach().clone())  # culprit
        mixed = sum(w * branch(x) for w, branch in zip(weights.softmax(0), branches, strict=True))
        loss = F.cross_entropy(mixed, y)
        (slope,) = torch.autograd.grad(loss, [logits])  # victim
        logits.data -= 0.1 * slope


@program()
def m_legal_gradients_at_a_copy():
    """The first order: what is asked for is the gradient at the copy; and a path back that is kept."""
    model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(3):
        x = torch.randn(16, 3)
        y = x.sum(1, keepdim=True)
        fast = copy.deepcopy(model)
        inner = torch.optim.SGD(fast.parameters(), lr=0.1)
        F.mse_loss(fast(x[:8]), y[:8]).backward()
        inner.step()
        grads = torch.autograd.grad(F.mse_loss(fast(x[8:]), y[8:]), list(fast.parameters()))
        names = dict(model.named_parameters())
        loss = F.mse_loss(torch.func.functional_call(model, names, (x[:8],)), y[:8])
        slopes = torch.autograd.grad(loss, list(names.values()), create_graph=True)
        moved = {name: p - 0.1 * g for (name, p), g in zip(names.items(), slopes, strict=True)}
        ahead = F.mse_loss(torch.func.functional_call(model, moved, (x[8:],)), y[8:])
        for p, g, second in zip(
            model.parameters(), grads, torch.autograd.grad(ahead, list(model.parameters())), strict=True
        ):
            p.grad = g + second
        optimizer.step()


# -- off when its own loss is computed


def flagged(module, on):
    for p in module.parameters():
        p.requires_grad_(on)


@program("learns_no_more")
def m_domain_critic_off_in_its_penalty():
    """nv-tlabs/semanticGAN_code#25, with a critic of domains whose penalty comes once in a while."""
    encoder = nn.Sequential(nn.Linear(6, 8), nn.Tanh())
    critic = nn.Sequential(nn.Linear(8, 8), nn.Softplus(), nn.Linear(8, 1))
    label = nn.Linear(8, 3)
    of_encoder = torch.optim.Adam([*encoder.parameters(), *label.parameters()], lr=1e-2)
    of_critic = torch.optim.Adam(critic.parameters(), lr=1e-2)

    def steepness(h):
        h = h.detach().requires_grad_()
        (slope,) = torch.autograd.grad(critic(h).sum(), h, create_graph=True)
        return slope.pow(2).sum(1).mean() + 0 * critic(h).sum()

    for i in range(6):
        x, other, y = torch.randn(16, 6), torch.randn(16, 6) + 1, torch.randint(0, 3, (16,))
        flagged(critic, True)
        with torch.no_grad():
            here, there = encoder(x), encoder(other)
        of_critic.zero_grad()
        (F.softplus(-critic(here)) + F.softplus(critic(there))).mean().backward()
        of_critic.step()

        flagged(critic, False)  # culprit
        h = encoder(x)
        of_encoder.zero_grad()
        (F.cross_entropy(label(h), y) + F.softplus(critic(h)).mean()).backward()
        of_encoder.step()

        if i % 2 == 0:
            of_critic.zero_grad()
            (5 * steepness(encoder(other))).backward()
            of_critic.step()  # victim


@program()
def m_legal_switches_around_steps():
    """Each side is off in the other's loss, and both optimisers step each time; a probe of the inputs besides."""
    maker = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
    judge = nn.Sequential(nn.Linear(2, 8), nn.Softplus(), nn.Linear(8, 1))
    of_maker = torch.optim.Adam(maker.parameters(), lr=1e-2)
    of_judge = torch.optim.Adam(judge.parameters(), lr=1e-2)
    for i in range(4):
        real = torch.randn(16, 2)
        for mine, theirs in ((judge, maker), (maker, judge)):
            flagged(mine, True)
            flagged(theirs, False)
            made = maker(torch.randn(16, 3))
            loss = F.softplus(judge(made)).mean()
            loss = loss + F.softplus(-judge(real)).mean() if mine is judge else -loss
            of_maker.zero_grad()
            of_judge.zero_grad()
            loss.backward()
            of_maker.step()
            of_judge.step()
        probe = real.clone().requires_grad_()
        judge(probe).sum().backward()
        assert probe.grad is not None


# -- what was added up and never used


@program("unfinished_window")
def m_last_hours_of_each_day():
    """ultralytics/ultralytics#11217, with hours of a day; what begins a window clears what the day before has left."""

    class Forecaster:
        def __init__(self, hours, window):
            self.model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
            self.hours, self.window = hours, window
            self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-2)

        def day(self, x, y):
            for hour in range(self.hours):
                if hour % self.window == 0:
                    self.optimizer.zero_grad()  # culprit
                loss = F.mse_loss(self.model(x[hour]), y[hour]) / self.window
                loss.backward()  # victim
                if (hour + 1) % self.window == 0:
                    self.optimizer.step()

    forecaster = Forecaster(5, 3)
    x = torch.randn(5, 8, 3)
    for day in range(4):
        forecaster.day(x, x.sum(2, keepdim=True))


@program("unfinished_window")
def m_zeros_at_the_begin_of_an_epoch():
    model = nn.GRU(2, 4, batch_first=True)
    head = nn.Linear(4, 1)
    optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.05)
    batches = [torch.randn(6, 5, 2) for _ in range(7)]
    for epoch in range(4):
        optimizer.zero_grad(set_to_none=False)  # culprit
        for i, x in enumerate(batches, 1):
            _, h = model(x)
            loss = F.mse_loss(head(h[-1]), x[:, -1, :1])
            loss.backward()  # victim
            if i % 4 == 0:
                optimizer.step()
                optimizer.zero_grad(set_to_none=False)


@program()
def m_legal_windows():
    """The rest is stepped too; it goes on into the next epoch; a bad batch is dropped with what came before it."""

    def train(rest, bad):
        model = nn.Linear(3, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        batches = [torch.randn(6, 3) for _ in range(5)]
        optimizer.zero_grad()
        for epoch in range(5):
            for i, x in enumerate(batches):
                loss = model(x).pow(2).mean() * (math.nan if bad and i == 3 else 1.0)
                if not math.isfinite(loss.item()):
                    optimizer.zero_grad()
                    continue
                loss.backward()
                if (i + 1) % 2 == 0 or (rest and i == len(batches) - 1):
                    optimizer.step()
                    optimizer.zero_grad()

    for rest, bad in ((True, False), (False, False), (True, True)):
        train(rest, bad)


@program()
def m_legal_gradients_looked_at_and_cleared():
    """Norms of each task's gradient, every second step; two losses in turn, by one function that calls backward."""

    def back(loss):
        loss.backward()

    body, first, second = nn.Linear(4, 6), nn.Linear(6, 1), nn.Linear(6, 1)
    optimizer = torch.optim.Adam([*body.parameters(), *first.parameters(), *second.parameters()], lr=1e-2)
    norms = []
    for step in range(4):
        x = torch.randn(8, 4)
        losses = [head(body(x).tanh()).pow(2).mean() for head in (first, second)]
        if step % 2:
            back(losses[0] * 2)
            norms.append(body.weight.grad.norm().item())
            optimizer.zero_grad()
            losses = [head(body(x).tanh()).pow(2).mean() for head in (first, second)]
        for loss in losses:
            back(loss)
        optimizer.step()
        optimizer.zero_grad()
    return norms


# -- backward inside of a function that is called for a loss


class Steps:
    """What calls backward for others, as people's wrappers do."""

    def __init__(self, leaves):
        self.optimizer = torch.optim.Adam(leaves, lr=1e-2)

    def back(self, loss):
        self.optimizer.zero_grad()
        loss.backward()

    def apply(self):
        self.optimizer.step()


@program("graph_freed")
def m_residual_that_calls_backward_itself():
    """dropreg/R-Drop#8, with the residual of an equation, which has been through backward when it's handed out."""

    class Residual:
        def __init__(self, field, steps):
            self.field, self.steps = field, steps

        def __call__(self, t):
            u = self.field(t)
            (rate,) = torch.autograd.grad(u.sum(), t, create_graph=True)
            loss = (rate + u).pow(2).mean()
            self.steps.back(loss)  # culprit
            return loss

    class Solver:
        def __init__(self):
            self.field = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
            self.steps = Steps(self.field.parameters())
            self.residual = Residual(self.field, self.steps)

        def solve(self, t):
            loss = self.residual(t)
            self.steps.back(loss)
            self.steps.apply()
            return loss.item()

    solver = Solver()
    for step in range(3):
        solver.solve(torch.rand(16, 1, requires_grad=True))


@program("graph_freed", tensor="made")
def m_two_sides_through_one_function():
    """One function calls backward for both sides; what was made is given to the judge with its graph."""
    maker, judge = nn.Linear(3, 2), nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1))
    of_maker, of_judge = Steps(maker.parameters()), Steps(judge.parameters())
    for step in range(2):
        made = maker(torch.randn(8, 3)).tanh()  # victim
        against = F.softplus(judge(made)).mean() + F.softplus(-judge(torch.randn(8, 2))).mean()  # culprit
        of_judge.back(against)
        of_judge.apply()
        of_maker.back(F.softplus(-judge(made)).mean())
        of_maker.apply()


@program()
def m_legal_backward_by_one_function():
    """Twice through one graph that is kept; what was made is cut off for the judge."""
    maker, judge = nn.Linear(3, 2), nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1))
    of_maker, of_judge = Steps(maker.parameters()), Steps(judge.parameters())

    def again(loss, *, keep):
        loss.backward(retain_graph=keep)

    for step in range(3):
        made = maker(torch.randn(8, 3)).tanh()
        of_judge.back(F.softplus(judge(made.detach())).mean() + F.softplus(-judge(torch.randn(8, 2))).mean())
        of_judge.apply()
        of_maker.back(F.softplus(-judge(made)).mean())
        of_maker.apply()
        out = judge(torch.randn(8, 2))
        of_judge.optimizer.zero_grad()
        again(out.pow(2).mean(), keep=True)
        again(out.abs().mean(), keep=False)
        of_judge.apply()


class Kitchen:
    """Two nets, each with an optimiser; first the one that tastes learns alone, then both."""

    def __init__(self):
        self.taste, self.cook = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)), nn.Linear(3, 4)
        self.opt_t, self.opt_c = (torch.optim.Adam(each.parameters(), lr=1e-2) for each in (self.taste, self.cook))

    def learn_to_cook(self):
        self.opt_c.zero_grad()
        loss = -self.taste(self.cook(torch.randn(8, 3))).mean()
        loss.backward()
        self.opt_c.step()


@program("never_reached")
def w_loss_of_the_second_phase_that_nobody_calls_back():
    """AlanDongMu/TimeGAN_PytorchRebuild#1: the backward call stands in one branch alone."""

    class Both(Kitchen):
        def learn_to_taste(self, dish, both):
            self.opt_t.zero_grad()
            self.off = F.mse_loss(self.taste(dish), dish.sum(1, keepdim=True))
            if both:
                served = self.cook(torch.randn(8, 3)).detach()
                self.loss = self.off + 0.1 * self.taste(served).square().mean()  # culprit
            else:
                self.off.backward()
            self.opt_t.step()  # victim

    kitchen = Both()
    for day in range(12):
        if day > 4:
            kitchen.learn_to_cook()
        kitchen.learn_to_taste(torch.randn(8, 4), both=day > 4)


@program()
def w_legal_all_step_and_one_at_a_time_has_a_loss():
    """Whose turn it isn't finds no gradient: what is computed in that turn doesn't lead there, or is only looked at."""
    kitchen, seen = Kitchen(), []
    for day in range(12):
        dish = torch.randn(8, 4)
        kitchen.opt_t.zero_grad()
        if day % 3 == 0:
            F.mse_loss(kitchen.taste(dish), dish.sum(1, keepdim=True)).backward()
        else:
            kitchen.learn_to_cook()
            kitchen.opt_t.zero_grad()
        with torch.no_grad():
            seen.append(F.mse_loss(kitchen.taste(dish), dish.sum(1, keepdim=True)).item())
        kitchen.opt_t.step()


@program()
def w_legal_both_losses_are_computed_before_either_goes_back():
    kitchen = Kitchen()
    for day in range(8):
        dish = torch.randn(8, 4)
        off = F.mse_loss(kitchen.taste(dish), dish.sum(1, keepdim=True))
        made = kitchen.cook(torch.randn(8, 3)).square().mean()
        for optimizer, loss in ((kitchen.opt_t, off), (kitchen.opt_c, made)):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
