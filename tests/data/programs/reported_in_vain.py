"""Calls made in vain: detached for nobody, clipped before backward, given to the wrong optimiser; and their twins."""

# ruff: noqa: B007  # they stay as people have written them

from __future__ import annotations

import contextlib

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # torch's own convention

from tests.data.programs import program

# -- detached, and nobody takes the result


@program("graph_freed")
def i_memory_detached_for_nobody():
    """OpenNMT/OpenNMT-py#403, with a memory that a reader writes to from page to page."""

    class Reader(nn.Module):
        def __init__(self):
            super().__init__()
            self.write, self.out = nn.Linear(8, 6), nn.Linear(6, 2)
            self.memory = {}

        def begin(self, readers=4):
            self.memory = {"short": torch.zeros(readers, 6), "seen": 0}

        def forward(self, page):
            short = torch.tanh(self.write(torch.cat([page, self.memory["short"]], 1)))
            self.memory = {"short": short, "seen": self.memory["seen"] + 1}
            return self.out(short)

        def forget_history(self):
            self.memory["short"].detach()  # culprit

    reader = Reader()
    optimizer = torch.optim.Adam(reader.parameters(), lr=1e-2)
    reader.begin()
    for page in range(4):
        loss = F.cross_entropy(reader(torch.randn(4, 2)), torch.randint(0, 2, (4,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        reader.forget_history()


@program("graph_freed")
def i_states_rebound_in_a_loop():
    """Each state's name goes to a detached one, and the list holds what it held."""
    cells = nn.ModuleList([nn.GRUCell(3, 5), nn.GRUCell(5, 5)])
    head = nn.Linear(5, 1)
    optimizer = torch.optim.SGD([*cells.parameters(), *head.parameters()], lr=0.05)
    states = [torch.zeros(6, 5), torch.zeros(6, 5)]
    for window in range(3):
        loss = 0.0
        for t in range(3):
            x = torch.randn(6, 3)
            for layer, cell in enumerate(cells):
                states[layer] = cell(x, states[layer])
                x = states[layer]
            loss = loss + F.mse_loss(head(x), torch.ones(6, 1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for state in states:
            state = state.detach()  # culprit


@program()
def i_legal_states_that_are_detached():
    """In place, in the list, under another name; and a copy for the log that nothing else takes."""
    cell, head = nn.GRUCell(3, 5), nn.Linear(5, 1)
    optimizer = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.05)
    states, log = [torch.zeros(6, 5), torch.zeros(6, 5)], []
    for window in range(3):
        states = [cell(torch.randn(6, 3), state) for state in states]
        loss = sum(F.mse_loss(head(state), torch.ones(6, 1)) for state in states)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log.append(states[0].detach())
        states[0].detach_()
        states[1:] = [state.detach() for state in states[1:]]


# -- the flag of a result


@program("flag_of_a_result")
def i_dream_that_goes_on_from_its_own_step():
    """Harry24k/adversarial-attacks-pytorch#2, for a picture that is to please a filter."""

    class Dreamer:
        def __init__(self, net, rate=0.1):
            self.net, self.rate = net, rate

        def ascend(self, picture):
            picture.requires_grad = True  # victim
            pleased = self.net(picture).mean()
            (direction,) = torch.autograd.grad(pleased, picture)
            return (picture + self.rate * direction / direction.norm()).clamp(-1, 1)  # culprit

        def dream(self, picture, steps=3):
            for _ in range(steps):
                picture = self.ascend(picture)
            return picture.detach()

    torch.manual_seed(0)
    dreamer = Dreamer(nn.Sequential(nn.Conv2d(1, 3, 3), nn.Tanh()))
    dreamer.dream(0.1 * torch.randn(1, 1, 6, 6))


@program("flag_of_a_result")
def i_features_frozen_by_their_flag():
    body, head = nn.Linear(4, 6), nn.Linear(6, 2)
    optimizer = torch.optim.Adam(head.parameters(), lr=1e-2)
    for step in range(3):
        features = body(torch.randn(8, 4)).relu()  # culprit
        features.requires_grad_(False)  # victim
        loss = F.cross_entropy(head(features), torch.randint(0, 2, (8,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program()
def i_legal_flags_of_leaves():
    """Of what is detached, of a Parameter, of a result that has it already; and one that the program has tried for."""
    net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    x = torch.randn(8, 4)
    for step in range(3):
        x.requires_grad = True
        (slope,) = torch.autograd.grad(net(x).sum(), x, create_graph=True)
        hidden = net[:2](x)
        hidden.requires_grad_()
        with contextlib.suppress(RuntimeError):
            hidden.requires_grad = True
        loss = slope.pow(2).sum(1).sub(1).pow(2).mean() + net[2](hidden).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        x = (x - 0.1 * slope).detach()


# -- clipped before there is a gradient


@program("clips_nothing")
def i_norm_bounded_before_backward():
    """simchowitzlabpublic/nano-world-model#22, in a recipe whose parts are called one by one."""

    class Recipe:
        def __init__(self, net):
            self.net, self.optimizer = net, torch.optim.SGD(net.parameters(), lr=0.05)

        def forward_loss(self, x, y):
            self.optimizer.zero_grad()
            return F.mse_loss(self.net(x), y)

        def bound(self):
            torch.nn.utils.clip_grad_norm_(self.net.parameters(), max_norm=0.1)  # culprit

        def update(self):
            self.optimizer.step()  # victim

    recipe = Recipe(nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1)))
    for step in range(4):
        loss = recipe.forward_loss(torch.randn(8, 3), torch.randn(8, 1))
        recipe.bound()
        loss.backward()
        recipe.update()


@program()
def i_legal_norms_bounded_in_time():
    """A loop that begins with the step of the lap before, a norm that is asked for beforehand, clipped by hand."""
    net, other = nn.Linear(3, 1), nn.Linear(3, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    second = torch.optim.SGD(other.parameters(), lr=0.05)
    for step in range(4):
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        F.mse_loss(net(torch.randn(8, 3)), torch.randn(8, 1)).backward()
        torch.nn.utils.clip_grad_norm_(other.parameters(), float("inf"))
        F.mse_loss(other(torch.randn(8, 3)), torch.randn(8, 1)).backward()
        if step % 2:
            torch.nn.utils.clip_grad_norm_(other.parameters(), 1.0)
        else:
            for p in other.parameters():
                p.grad.clamp_(-1.0, 1.0)
        second.step()
        second.zero_grad()


# -- an optimiser that is given another's, or a part


@program("no_optimiser_holds_it")
def i_critic_s_optimiser_given_the_actor():
    """zhaoyuzhi/deepfillv2#3, between an actor and its critic: nothing but the optimiser is to blame."""

    class Duel:
        def __init__(self):
            self.actor, self.critic = nn.Linear(4, 2), nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 1))
            self.of_actor = torch.optim.Adam(self.actor.parameters(), lr=1e-3)
            self.of_critic = torch.optim.Adam(self.actor.parameters(), lr=1e-2)  # culprit

        def judge(self, state, action):
            return self.critic(torch.cat([state, action], 1)).squeeze(1)

        def train(self, state, reward):
            action = self.actor(state).tanh()
            self.of_critic.zero_grad()
            bold = F.mse_loss(self.judge(state, action.detach()), reward)
            meek = F.mse_loss(self.judge(state, torch.zeros_like(action)), reward - 1)
            (bold + meek).backward()
            self.of_critic.step()
            self.of_actor.zero_grad()
            (-self.judge(state, action).mean()).backward()
            self.of_actor.step()

    duel = Duel()
    for step in range(3):
        duel.train(torch.randn(8, 4), torch.rand(8))


@program("no_optimiser_holds_it")
def i_one_head_listed_twice():
    """line/open-universe#5, with two heads of a reader; the list is made above the optimiser."""

    class Task:
        def __init__(self):
            self.body, self.tone, self.topic = nn.Linear(5, 8), nn.Linear(8, 2), nn.Linear(8, 3)
            self.optimizer, self.schedule = self.configure()

        def configure(self):
            heads = [*self.body.parameters(), *self.tone.parameters()]  # culprit
            optimizer = torch.optim.AdamW(heads, lr=1e-2)
            return optimizer, torch.optim.lr_scheduler.ConstantLR(optimizer)

        def fit(self, x, tone, topic):
            h = self.body(x).relu()
            loss = F.cross_entropy(self.tone(h), tone) + F.cross_entropy(self.topic(h), topic)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()  # victim
            self.schedule.step()

    task = Task()
    for step in range(3):
        task.fit(torch.randn(8, 5), torch.randint(0, 2, (8,)), torch.randint(0, 3, (8,)))


@program("no_optimiser_holds_it")
def i_optimiser_made_by_a_helper():
    """CIntellifusion/GeometryForcing#13: the helper makes it of the model, the loss has weights of its own."""

    class Margin(nn.Module):
        def __init__(self):
            super().__init__()
            self.project = nn.Linear(6, 3)

        def forward(self, h, y):
            return F.cross_entropy(self.project(h), y)

    class Run:
        def __init__(self):
            self.net, self.margin = nn.Linear(4, 6), Margin()
            self.optimizer = self.make(0.01)

        def make(self, rate):
            return torch.optim.Adam(self.net.parameters(), lr=rate)  # culprit

        def lap(self, x, y):
            loss = self.margin(self.net(x).tanh(), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()  # victim

    run = Run()
    for step in range(3):
        run.lap(torch.randn(8, 4), torch.randint(0, 3, (8,)))


@program()
def i_legal_probe_of_a_resting_encoder():
    """The encoder stays in evaluation mode and out of the optimiser; its gradients are a way to the adapter before."""

    class Probe(nn.Module):
        def __init__(self):
            super().__init__()
            self.adapter, self.head = nn.Linear(5, 4), nn.Linear(6, 2)
            self.encoder = nn.Sequential(nn.Linear(4, 6), nn.GELU(), nn.Linear(6, 6))
            self.encoder.eval()

        def forward(self, x):
            return self.head(self.encoder(self.adapter(x)))

    model = Probe()
    optimizer = torch.optim.AdamW([*model.adapter.parameters(), *model.head.parameters()], lr=1e-2)
    for step in range(3):
        loss = F.cross_entropy(model(torch.randn(8, 5)), torch.randint(0, 2, (8,)))
        model.zero_grad()
        loss.backward()
        optimizer.step()
