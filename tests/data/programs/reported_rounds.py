"""Rounds from one step to the next that lose what they compute, each in another dress than its report."""

# ruff: noqa: B007  # they stay as people have written them

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # torch's own convention

from tests.data.programs import program

# -- cleared before each of several backward calls, in a loop too long to be remembered


@program("cleared_each_backward")
def r_four_orchards_of_which_one_is_learnt():
    """bytetriper/RAE#67, with the weight of apples from four orchards, one a micro-batch."""

    class Orchards(nn.Module):
        def __init__(self):
            super().__init__()
            self.place = nn.Embedding(4, 5)
            self.body = nn.Sequential(nn.Linear(9, 12), nn.Tanh(), nn.Linear(12, 1))

        def forward(self, tree, orchard):
            return self.body(torch.cat([tree, self.place(orchard)], 1)).squeeze(1)

    model = Orchards()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(40):
        trees, orchards = torch.randn(32, 4), torch.arange(4).repeat_interleave(8)
        weights = trees.sum(1) * (orchards + 1)
        for part in range(4):
            rows = slice(8 * part, 8 * part + 8)
            optimizer.zero_grad(set_to_none=True)  # culprit
            loss = F.mse_loss(model(trees[rows], orchards[rows]), weights[rows]) / 4
            loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()  # victim


@program("cleared_each_backward")
def r_cleared_by_hand_in_a_trainer():
    class Trainer:
        def __init__(self, every):
            self.net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 1))
            self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.05, momentum=0.9)
            self.every = every

        def forget(self):
            for p in self.net.parameters():
                if p.grad is not None:
                    p.grad.zero_()  # culprit

        def fit(self, batches):
            for at in range(batches):
                x = torch.randn(8, 6)
                self.forget()
                loss = F.smooth_l1_loss(self.net(x).squeeze(1), x.sum(1)) / self.every
                loss.backward()
                if (at + 1) % self.every == 0:
                    self.optimizer.step()  # victim

    trainer = Trainer(every=5)
    trainer.fit(150)


@program("cleared_each_backward")
def r_tasks_each_with_its_own_clearing():
    heads = nn.ModuleDict({name: nn.Linear(8, 1) for name in ("rain", "wind", "sun")})
    body = nn.Sequential(nn.Linear(5, 8), nn.Tanh())
    optimizer = torch.optim.Adam([*body.parameters(), *heads.parameters()], lr=1e-2)

    def weather():
        x = torch.randn(12, 5)
        return x, {"rain": x[:, :1], "wind": x[:, 1:2] * 2, "sun": x[:, 2:3] - 1}

    def one_day():
        x, seen = weather()
        for name, head in heads.items():
            optimizer.zero_grad(set_to_none=False)  # culprit
            F.mse_loss(head(body(x)), seen[name]).backward()
        optimizer.step()  # victim

    for day in range(50):
        one_day()


@program("cleared_each_backward")
def r_second_loss_clears_the_first():
    """Two losses of one optimiser, each with its own three lines, but for the first one's step."""
    body, kind, size = nn.Linear(6, 8), nn.Linear(8, 3), nn.Linear(8, 1)
    optimizer = torch.optim.SGD([*body.parameters(), *kind.parameters(), *size.parameters()], lr=0.05)
    for step in range(60):
        x = torch.randn(16, 6)
        hidden = body(x).relu()
        optimizer.zero_grad()
        sorted_ = F.cross_entropy(kind(hidden), x[:, :3].argmax(1))
        sorted_.backward(retain_graph=True)
        optimizer.zero_grad()  # culprit
        measured = F.mse_loss(size(hidden).squeeze(1), x.sum(1))
        measured.backward()
        optimizer.step()  # victim


@program()
def r_legal_calls_that_were_for_something_else():
    """What is cleared has been used: by a hook, as the gradient of a result, added up by hand; or no step was due."""
    net = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))
    optimizer, felt = torch.optim.SGD(net.parameters(), lr=1e-2), {}
    handle = net[0].register_full_backward_hook(lambda layer, given, got: felt.update(now=got[0].detach()))

    def loss_of(x):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), x[:, :3].argmax(1))
        loss.backward()
        return loss

    for step in range(25):  # where a layer looks
        x = torch.randn(8, 5)
        optimizer.zero_grad()
        net(x).max(1).values.sum().backward()
        weight = felt["now"].abs().mean()
        optimizer.zero_grad()
        (F.cross_entropy(net(x), x[:, :3].argmax(1)) + 0 * weight).backward()
        optimizer.step()
    handle.remove()
    for step in range(25):  # what an input that is computed feels
        x = torch.randn(8, 5)
        moved = x.clone().requires_grad_() * 1
        moved.retain_grad()
        loss_of(moved)
        loss_of((x + 0.1 * moved.grad.sign()).detach())
        optimizer.step()
    for step in range(15):  # each part's gradients, clamped
        total = [torch.zeros_like(p) for p in net.parameters()]
        for part in range(4):
            loss_of(torch.randn(8, 5))
            for each, p in zip(total, net.parameters(), strict=True):
                each += p.grad.clamp(-1, 1)
        for each, p in zip(total, net.parameters(), strict=True):
            p.grad = each / 4
        optimizer.step()
    for step in range(60):  # a step that is too large is left out
        loss_of(torch.randn(8, 5))
        if nn.utils.clip_grad_norm_(net.parameters(), 1.0) < 0.9:
            optimizer.step()


@program()
def r_legal_one_function_for_two_players():
    """What the other player's loss has left is cleared by the same lines; a closure that is called again and again."""
    maker, judge = nn.Linear(4, 3), nn.Linear(3, 1)
    makers, judges = (torch.optim.Adam(each.parameters(), lr=1e-3) for each in (maker, judge))

    def learn(loss, optimizer):
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    for step in range(50):
        z, real = torch.randn(8, 4), torch.randn(8, 3) + 2
        learn(F.softplus(-judge(maker(z))).mean(), makers)
        learn((F.softplus(-judge(real)) + F.softplus(judge(maker(z).detach()))).mean(), judges)
    line = nn.Linear(3, 1)
    bends = torch.optim.LBFGS(line.parameters(), lr=0.5, max_iter=4)
    x = torch.randn(20, 3)

    def closure():
        bends.zero_grad()
        loss = F.mse_loss(line(x), x.sum(1, keepdim=True))
        loss.backward()
        return loss

    for step in range(12):
        bends.step(closure)


# -- a step whose own loss was cut off from what it holds, after it had learnt by another one


@program("graph_cut")
def r_verdict_on_a_detached_echo():
    """nikhilsinghmus/image2reverb#37: an echo is imitated first, then only judged, and the judge is shown a copy."""

    class Echoes:
        def __init__(self, judged_from):
            self.maker = nn.Sequential(nn.Linear(3, 12), nn.LeakyReLU(0.2), nn.Linear(12, 5))
            self.judge = nn.Sequential(nn.Linear(8, 12), nn.LeakyReLU(0.2), nn.Linear(12, 1))
            self.makers = torch.optim.Adam(self.maker.parameters(), lr=2e-3)
            self.judges = torch.optim.Adam(self.judge.parameters(), lr=1e-3)
            self.judged_from = judged_from

        def step(self, turn, room, real):
            echo = self.maker(room)
            seen = self.judge(torch.cat([real, room], 1)), self.judge(torch.cat([echo.detach(), room], 1))
            judged = (seen[0] - 1).pow(2).mean() + seen[1].pow(2).mean()
            self.judges.zero_grad()
            judged.backward()
            self.judges.step()
            verdict = self.judge(torch.cat([echo.detach(), room], 1))  # culprit
            loss = (verdict - 1).pow(2).mean()
            if turn < self.judged_from:
                loss = loss + 10 * F.l1_loss(echo, real)
            self.makers.zero_grad()
            loss.backward()
            self.makers.step()  # victim

    echoes = Echoes(judged_from=30)
    for turn in range(80):
        room = torch.randn(8, 3)
        echoes.step(turn, room, torch.tanh(room @ torch.ones(3, 5)))


@program("graph_cut")
def r_fakes_drawn_in_one_place():
    """A function draws for both players; the player that draws is trained by what it drew without a graph."""

    class Game:
        def __init__(self):
            self.maker, self.critic = nn.Linear(4, 3), nn.Linear(3, 1)
            self.makers = torch.optim.RMSprop(self.maker.parameters(), lr=1e-3)
            self.critics = torch.optim.RMSprop(self.critic.parameters(), lr=1e-3)

        def draw(self, count):
            with torch.no_grad():
                return self.maker(torch.randn(count, 4))  # culprit

        def watch(self, real):
            self.critics.zero_grad()
            (self.critic(self.draw(len(real))) - self.critic(real)).mean().backward()
            self.critics.step()

        def make(self, warm):
            self.makers.zero_grad(set_to_none=False)
            loss = self.maker(torch.randn(8, 4)).pow(2).mean() if warm else -self.critic(self.draw(8)).mean()
            loss.backward()
            self.makers.step()  # victim

    game = Game()
    for turn in range(10):
        game.make(turn < 4)
        for _ in range(3):
            game.watch(torch.randn(8, 3) + 2)


@program("graph_cut")
def r_domain_fooled_by_numbers():
    body, kinds, domains = nn.Linear(6, 8), nn.Linear(8, 3), nn.Linear(8, 2)
    learner = torch.optim.SGD([*body.parameters(), *kinds.parameters()], lr=0.05)
    teller = torch.optim.SGD(domains.parameters(), lr=0.05)
    for turn in range(16):
        x = torch.randn(8, 6)
        kind, domain = x[:, :3].argmax(1), (x[:, 5] > 0).long()
        learner.zero_grad()
        F.cross_entropy(kinds(body(x).relu()), kind).backward()
        learner.step()
        shared = body(x).relu()
        hidden = shared.data  # culprit
        teller.zero_grad()
        F.cross_entropy(domains(hidden), domain).backward()
        teller.step()
        learner.zero_grad()
        fooled = -F.cross_entropy(domains(hidden), domain)
        fooled.backward()
        learner.step()  # victim


@program("graph_cut")
def r_a_judge_that_alone_hears_it():
    maker, judge = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3)), nn.Linear(3, 1)
    makers, judges = (torch.optim.Adam(each.parameters(), lr=1e-3) for each in (maker, judge))
    for turn in range(6):
        real = torch.randn(8, 3) + 2
        fake = maker(torch.randn(8, 4))
        judges.zero_grad()
        (F.softplus(-judge(real)) + F.softplus(judge(fake.detach()))).mean().backward()
        judges.step()
        makers.zero_grad()
        verdict = F.softplus(-judge(fake.detach())).mean()  # culprit
        verdict.backward()
        makers.step()  # victim


@program()
def r_legal_steps_that_find_nothing():
    """One call of backward, and all optimisers step, some of what is cut off for now; a player moved by hand."""
    body, head = nn.Linear(6, 8), nn.Linear(8, 3)
    both = [torch.optim.SGD(each.parameters(), lr=0.05) for each in (body, head)]
    for turn in range(12):
        x = torch.randn(8, 6)
        hidden = body(x).relu()
        for each in both:
            each.zero_grad()
        F.cross_entropy(head(hidden if turn < 6 else hidden.detach()), x[:, :3].argmax(1)).backward()
        for each in both:
            each.step()
    maker, judge = nn.Linear(4, 3), nn.Linear(3, 1)
    makers = torch.optim.SGD(maker.parameters(), lr=1e-3)
    for turn in range(12):
        z = torch.randn(8, 4)
        makers.zero_grad()
        judge.zero_grad()
        if turn % 2:
            F.softplus(-judge(maker(z))).mean().backward()
        else:
            F.softplus(judge(maker(z).detach())).mean().backward()
            with torch.no_grad():
                for p in judge.parameters():
                    p -= 0.01 * p.grad
        makers.step()


@program()
def r_legal_two_calls_then_two_steps():
    maker, judge = nn.Linear(4, 3), nn.Linear(3, 1)
    makers, judges = (torch.optim.Adam(each.parameters(), lr=1e-3) for each in (maker, judge))

    def learn(loss, optimizer):
        optimizer.zero_grad()
        loss.backward()

    for turn in range(12):
        real, fake = torch.randn(8, 3) + 2, maker(torch.randn(8, 4))
        learn(F.softplus(-judge(fake)).mean(), makers)
        learn((F.softplus(-judge(real)) + F.softplus(judge(fake.detach()))).mean(), judges)
        makers.step()
        judges.step()
