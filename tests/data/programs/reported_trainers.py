"""Trainers that lose a gradient between two of their methods, rebuilt from reports with keys fixed before the run."""

# ruff: noqa: B007  # they stay as people have written them

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # torch's own convention

from tests.data.programs import program


@program("graph_cut", severity="error", tensor="loss")
def u_scores_of_a_method_in_inference_mode():
    class Ranker(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.head = nn.Linear(6, 8), nn.Linear(8, 1)

        @torch.inference_mode()  # culprit
        def score(self, x):
            h = torch.tanh(self.body(x))
            return self.head(h).squeeze(1)

        def loss(self, better, worse):
            return F.softplus(self.score(worse) - self.score(better)).mean()

    ranker = Ranker()
    optimizer = torch.optim.Adam(ranker.parameters(), lr=1e-2)
    for step in range(3):
        better, worse = torch.randn(16, 6) + 0.5, torch.randn(16, 6) - 0.5
        loss = ranker.loss(better, worse)
        optimizer.zero_grad()
        loss.backward()  # victim
        optimizer.step()


@program("graph_cut", severity="error", tensor="loss")
def u_one_epoch_for_both_in_inference_mode():
    model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def compute(x, y):
        logits = model(x)
        return F.cross_entropy(logits, y)

    def epoch(batches, train):
        for x, y in batches:
            with torch.inference_mode():  # culprit
                loss = compute(x, y)
            if train:
                optimizer.zero_grad()
                loss.backward()  # victim
                optimizer.step()

    batches = [(torch.randn(8, 5), torch.randint(0, 3, (8,))) for _ in range(2)]
    epoch(batches, train=True)
    epoch(batches, train=False)


@program()
def u_legal_pseudo_labels_of_inference_mode():
    """What is predicted there is a target, or is looked at."""

    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))

        def forward(self, x):
            return self.net(x)

        @torch.inference_mode()
        def predict(self, x):
            return self(x).argmax(1)

    tagger = Tagger()
    optimizer = torch.optim.SGD(tagger.parameters(), lr=0.1)
    x, y = torch.randn(16, 5), torch.randint(0, 3, (16,))
    for step in range(3):
        with torch.inference_mode():
            accuracy = (tagger.predict(x) == y).float().mean().item()
        labels = y if step == 0 else tagger.predict(x).clone()
        loss = F.cross_entropy(tagger(x), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert 0 <= accuracy <= 1


@program("result_dropped")
def u_gradients_clipped_into_nothing():
    """pytorch/tutorials#30, with a name for the gradient."""

    class Trainer:
        def __init__(self, model, limit):
            self.model, self.limit = model, limit
            self.optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-2)

        def clip(self):
            for param in self.model.parameters():
                gradient = param.grad
                if gradient is None:
                    continue
                gradient.clip(-self.limit, self.limit)  # culprit

        def update(self, x, y):
            out, _ = self.model(x)
            loss = F.mse_loss(out[:, -1], y)
            self.optimizer.zero_grad()
            loss.backward()
            self.clip()
            self.optimizer.step()  # victim
            return loss.item()

    trainer = Trainer(nn.GRU(3, 4, batch_first=True), 0.01)
    for step in range(4):
        trainer.update(torch.randn(8, 5, 3), 20 * torch.randn(8, 4))


@program("result_dropped")
def u_gradients_without_nan_in_a_line():
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        loss = model(torch.randn(16, 4)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        for p in model.parameters():
            torch.nan_to_num(p.grad, nan=0.0).clamp(-0.01, 0.01)  # culprit
        optimizer.step()  # victim


@program("result_dropped")
def u_critic_clamped_into_nothing():
    """A critic whose weights are to stay small (WGAN)."""
    generator = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2))
    critic = nn.Sequential(nn.Linear(2, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
    optimizer_g = torch.optim.RMSprop(generator.parameters(), lr=5e-3)
    optimizer_c = torch.optim.RMSprop(critic.parameters(), lr=5e-3)
    for iteration in range(3):
        for _ in range(2):
            real, fake = torch.randn(16, 2) + 2, generator(torch.randn(16, 2)).detach()
            loss_c = critic(fake).mean() - critic(real).mean()
            optimizer_c.zero_grad()
            loss_c.backward()
            optimizer_c.step()
            for p in critic.parameters():
                p.data.clamp(-0.01, 0.01)  # culprit
        loss_g = -critic(generator(torch.randn(16, 2))).mean()
        optimizer_g.zero_grad()
        loss_g.backward()
        optimizer_g.step()


@program()
def u_legal_gradients_that_are_looked_at():
    """Norms that are logged, new gradients that are put back, writes, and a set to which something is added."""
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    sizes, log = set(), []
    for step in range(3):
        loss = model(torch.randn(16, 4)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        log.append(sum(p.grad.norm().item() ** 2 for p in model.parameters()) ** 0.5)
        for p in model.parameters():
            sizes.add(float(p.grad.abs().max().add(1)))
            log.append(p.grad.clamp(-1, 1).sum().item())
            clipped = p.grad.clamp(-0.1, 0.1)
            p.grad = clipped
            p.grad.mul_(0.5)
            p.grad.data.clamp_(-1, 1)
        optimizer.step()
        with torch.no_grad():
            for p in model.parameters():
                p.clamp_(-2, 2)
                p.data = p.data.clamp(-1, 1)
    model[0].weight.data.clamp(-1, 1)
    return sizes, log


@program("no_optimiser_holds_it")
def u_list_of_optimisers_without_a_head():
    """zdebruine/MMVAE#39, with a list and a function that makes its optimisers."""

    class Policy(nn.Module):
        def __init__(self):
            super().__init__()
            self.trunk = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh())
            self.mean, self.spread = nn.Linear(8, 2), nn.Linear(8, 2)

        def forward(self, x):
            h = self.trunk(x)
            return self.mean(h), F.softplus(self.spread(h)) + 0.1

    class Agent(nn.Module):
        def __init__(self):
            super().__init__()
            self.policy, self.value = Policy(), nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))

    def optimisers_of(agent, lr):
        return [
            torch.optim.Adam(agent.policy.trunk.parameters(), lr=lr),  # culprit
            torch.optim.Adam(agent.value.parameters(), lr=lr),
        ]

    agent = Agent()
    optimisers = optimisers_of(agent, 1e-2)
    for step in range(4):
        x = torch.randn(16, 4)
        mean, spread = agent.policy(x)
        actions = (mean + spread * torch.randn_like(mean)).detach()
        returns = -(actions - x[:, :2]).pow(2).sum(1)
        value = agent.value(x).squeeze(1)
        log_prob = torch.distributions.Normal(mean, spread).log_prob(actions).sum(1)
        loss = -(log_prob * (returns - value.detach())).mean() + (returns - value).pow(2).mean()
        for each in optimisers:
            each.zero_grad()
        loss.backward()
        for each in optimisers:
            each.step()  # victim


@program()
def u_legal_optimisers_of_parts_in_a_dict():
    """Each part has its own, and what is frozen has none."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem, self.body, self.head = nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 2)

        def forward(self, x):
            return self.head(torch.tanh(self.body(torch.tanh(self.stem(x)))))

    net = Net()
    net.stem.requires_grad_(requires_grad=False)
    optimizers = {
        name: torch.optim.SGD(part.parameters(), lr=0.1) for name, part in net.named_children() if name != "stem"
    }
    for step in range(4):
        loss = F.cross_entropy(net(torch.randn(16, 4)), torch.randint(0, 2, (16,)))
        for each in optimizers.values():
            each.zero_grad()
        loss.backward()
        for each in optimizers.values():
            each.step()


@program("unused_input")
def u_labels_softened_twice():
    """ilia10000/dataset-distillation#3, with a property."""

    class Labels(nn.Module):
        def __init__(self, count):
            super().__init__()
            self.logits = nn.Parameter(torch.randn(count, 3))

        @property
        def soft(self):
            return torch.softmax(self.logits, dim=1)

    def inner_loss(net, x, labels):
        return -(labels.soft * torch.log_softmax(net(x), dim=1)).sum(1).mean()

    def gradient(loss, labels):
        wanted = [labels.soft]  # culprit
        return torch.autograd.grad(loss, wanted)[0]  # victim

    net, labels, x = nn.Linear(4, 3), Labels(6), torch.randn(6, 4)
    loss = inner_loss(net, x, labels)
    gradient(loss, labels)


@program("unused_input")
def u_positions_moved_again_for_their_force():
    """A force field whose positions are wrapped into the cell by a function."""
    cell = torch.tensor([4.0, 4.0, 4.0])
    free = 3 * torch.randn(5, 3)
    free.requires_grad_()

    def wrapped():
        return free - cell * (free / cell).detach().floor()

    def energy(at):
        distance = (at[:, None] - at[None]).pow(2).sum(-1) + torch.eye(len(at))
        return distance.rsqrt().sum()

    total = energy(wrapped())
    at = wrapped()  # culprit
    (force,) = torch.autograd.grad(total, [at])  # victim
    assert force.shape == at.shape


@program()
def u_legal_force_of_the_positions_that_were_used():
    """Made twice, and each time asked for the gradient of its own energy."""
    free = torch.randn(5, 3, requires_grad=True)

    def positions():
        return free * 1.5

    for _ in range(2):
        at = positions()
        energy = at.pow(2).sum()
        (force,) = torch.autograd.grad(energy, [at])
    assert force.shape == at.shape


@program("kept_by_reference")
def u_last_gradient_of_a_rule_kept_in_a_dict():
    """shivram1987/diffGrad#2, as a rule that goes by signs (Rprop)."""

    class Signs:
        def __init__(self, model, rate=1e-2):
            self.model = model
            self.rates = {n: torch.full_like(p, rate) for n, p in model.named_parameters()}
            self.last = {n: torch.zeros_like(p) for n, p in model.named_parameters()}

        @torch.no_grad()
        def step(self):
            for name, p in self.model.named_parameters():
                agree = torch.sign(p.grad * self.last[name])  # victim
                self.rates[name].mul_(torch.where(agree < 0, 0.5, torch.where(agree > 0, 1.2, 1.0)))
                p.sub_(self.rates[name] * p.grad.sign())
                self.last[name] = p.grad.detach()  # culprit

        def clear(self):
            for p in self.model.parameters():
                if p.grad is not None:
                    p.grad.zero_()

    model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
    rule, x = Signs(model), torch.randn(32, 3)
    y = x.sum(1, keepdim=True)
    for step in range(4):
        rule.clear()
        loss = (model(x) - y).pow(2).mean()
        loss.backward()
        rule.step()


@program("kept_by_reference")
def u_how_far_the_gradient_has_turned():
    """A dict of gradients that are compared with those of the step before: the more they turn, the less is learned."""
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before = {}
    for step in range(4):
        optimizer.zero_grad(set_to_none=False)
        loss = model(torch.randn(8, 4)).pow(2).mean()
        loss.backward()
        turned = 0.0
        for n, p in model.named_parameters():
            if n in before:
                turned += (p.grad - before[n]).norm().item()  # victim
            before[n] = p.grad  # culprit
        optimizer.param_groups[0]["lr"] = 0.1 / (1 + turned)
        optimizer.step()


@program()
def u_legal_gradients_of_the_step_before():
    """Copies of what is cleared in place; what is let go needs none; and a gradient that is asked for NaN, squared."""

    def train(set_to_none):
        model = nn.Linear(4, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        before, turned = [], []
        for step in range(4):
            optimizer.zero_grad(set_to_none=set_to_none)
            loss = model(torch.randn(8, 4)).pow(2).mean()
            loss.backward()
            for p in model.parameters():
                grad = p.grad
                assert not (grad != grad).any()
                turned.append((grad * grad).sum().item() + (p.grad.data - p.grad.detach()).sum().item())
            if before:
                turned.append(sum((p.grad - b).norm().item() for p, b in zip(model.parameters(), before, strict=True)))
            before = [p.grad if set_to_none else p.grad.clone() for p in model.parameters()]
            optimizer.step()
        return turned

    return train(set_to_none=True), train(set_to_none=False)


def switched(module, on):
    """As people write it who want to leave alone what is frozen for good."""
    for p in module.parameters():
        if not p.requires_grad:
            continue
        p.requires_grad_(on)


@program("learns_no_more")
def u_stage_that_was_to_thaw_the_body():
    """nttcslab/byol-a#7, with a trainer of two stages and an optimiser of all."""

    def switch(module, on):
        for p in module.parameters():
            if p.requires_grad is True:  # culprit
                p.requires_grad_(on)

    class TwoStages:
        def __init__(self):
            self.body, self.head = nn.Sequential(nn.Linear(6, 12), nn.ReLU()), nn.Linear(12, 3)

        def fit(self, x, y, steps):
            leaves = [*self.body.parameters(), *self.head.parameters()]
            optimizer = torch.optim.SGD(leaves, lr=0.1)
            for _ in range(steps):
                loss = F.cross_entropy(self.head(self.body(x)), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()  # victim

        def run(self, x, y):
            switch(self.body, on=False)
            self.fit(x, y, 3)
            switch(self.body, on=True)
            self.fit(x, y, 3)

    trainer = TwoStages()
    trainer.run(torch.randn(32, 6), torch.randint(0, 3, (32,)))


@program()
def u_legal_switches_that_ask_first():
    """A body that is frozen for good by such a function, another that is switched on; and one that asks nothing."""

    def stage(net, steps):
        optimizer = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], lr=0.1)
        for _ in range(steps):
            loss = net(torch.randn(8, 4)).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    def freely(module, on):
        for p in module.parameters():
            p.requires_grad_(on)

    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))
    switched(net[4], on=True)
    switched(net[0], on=False)
    freely(net[2], on=False)
    stage(net, 2)
    switched(net[2], on=True)
    freely(net[2], on=True)
    stage(net, 3)


@program()
def u_legal_switch_undone_by_hand():
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))

    def fit(steps):
        optimizer = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], lr=0.1)
        for _ in range(steps):
            optimizer.zero_grad()
            net(torch.randn(8, 4)).pow(2).mean().backward()
            optimizer.step()

    switched(net[0], on=False)
    fit(2)
    switched(net[0], on=True)
    net[0].requires_grad_()
    fit(3)
