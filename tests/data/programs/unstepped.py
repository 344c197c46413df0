"""Loops that never step, and loops that step with the last micro-batch alone; loops that look alike and are meant so.

Rebuilt from what people report: zero_grad once per micro-batch (bytetriper/RAE#67, torchtitan#3575, starVLA#395,
alpaca_farm#57), and from what a stranger wrote down of loops whose optimiser never steps.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # torch's own convention

from tests.data.programs import program


def tagger(width=5, classes=3):
    return nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Linear(width, classes))


def labelled(many=6, rows=4, classes=3):
    return [(torch.randn(rows, 4), torch.randint(0, classes, (rows,))) for _ in range(many)]


# -- an optimiser that never steps


@program("never_stepped")
def u_schedule_in_its_place():
    torch.manual_seed(0)
    model = tagger()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)  # victim
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    history = []
    for _epoch in range(2):
        model.train()
        running, seen = 0.0, 0
        for x, y in labelled(3):
            optimizer.zero_grad()
            out = model(x)
            loss = criterion(out, y)
            loss.backward()  # culprit
            scheduler.step()
            running += loss.item() * len(x)
            seen += len(x)
        history.append(running / seen)
        model.eval()
        with torch.no_grad():
            right = sum((model(x).argmax(1) == y).sum().item() for x, y in labelled(1))
        history.append(right)


@program("never_stepped")
def u_named_and_not_called():
    class Runner:
        def __init__(self, model, lr=0.05):
            self.model = model
            self.opt = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)  # victim
            self.losses = []

        def one_batch(self, x, y):
            self.opt.zero_grad(set_to_none=True)
            logits = self.model(x)
            loss = F.cross_entropy(logits, y)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.opt.step  # noqa: B018  # culprit
            return loss.item()

        def fit(self, epochs):
            for _ in range(epochs):
                self.model.train()
                losses = [self.one_batch(x, y) for x, y in labelled(3)]
                self.losses.append(sum(losses) / len(losses))

    Runner(tagger()).fit(2)


@program("never_stepped")
def u_recurrent_without_a_step():
    class Tagger(nn.Module):
        def __init__(self, hidden=5):
            super().__init__()
            self.embed = nn.Embedding(9, 4)
            self.lstm = nn.LSTM(4, hidden, batch_first=True)
            self.out = nn.Linear(hidden, 3)

        def forward(self, tokens):
            states, _ = self.lstm(self.embed(tokens))
            return self.out(states)

    def train(model, optimizer, batches):
        total = 0.0
        for tokens, tags in batches:
            model.zero_grad()
            scores = model(tokens)
            loss = F.cross_entropy(scores.flatten(0, 1), tags.flatten())
            loss.backward()  # culprit
            total += loss.item()
        return total / len(batches)

    model = Tagger()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)  # victim
    batches = [(torch.randint(0, 9, (2, 6)), torch.randint(0, 3, (2, 6))) for _ in range(4)]
    for _epoch in range(2):
        train(model, optimizer, batches)


@program("never_stepped")
def u_one_of_two_never_steps():
    generator = nn.Sequential(nn.Linear(2, 6), nn.ReLU(), nn.Linear(6, 3))
    critic = nn.Sequential(nn.Linear(3, 6), nn.LeakyReLU(0.2), nn.Linear(6, 1))
    opt_g = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.999))
    opt_d = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.5, 0.999))  # victim
    bce = nn.BCEWithLogitsLoss()
    for _ in range(4):
        real, noise = torch.randn(5, 3), torch.randn(5, 2)
        opt_d.zero_grad()
        fake = generator(noise)
        loss_d = bce(critic(real), torch.ones(5, 1)) + bce(critic(fake.detach()), torch.zeros(5, 1))
        loss_d.backward()  # culprit
        for p in critic.parameters():
            p.requires_grad_(False)
        opt_g.zero_grad()
        loss_g = bce(critic(fake), torch.ones(5, 1))
        loss_g.backward()
        opt_g.step()
        for p in critic.parameters():
            p.requires_grad_(True)


@program("never_stepped")
def u_only_a_scaler_would_step():
    """Mixed precision is off, and the other branch was forgotten."""
    model = tagger()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)  # victim
    use_amp, scaler = False, None
    for _epoch in range(2):
        for x, y in labelled(4):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()  # culprit
            if use_amp:
                scaler.step(optimizer)
                scaler.update()


@program()
def ku_a_step_that_is_still_to_come():
    """Every eighth batch, and the loop is looked at before."""
    model = tagger()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    accumulate = 8
    optimizer.zero_grad()
    for i, (x, y) in enumerate(labelled(6)):
        loss = F.cross_entropy(model(x), y) / accumulate
        loss.backward()
        if (i + 1) % accumulate == 0:
            optimizer.step()
            optimizer.zero_grad()


@program()
def ku_gradients_that_are_looked_at():
    """How much each weight matters: squared gradients, no training."""
    model = tagger()
    for p in model.parameters():
        p.requires_grad_(True)
    importance = {name: torch.zeros_like(p) for name, p in model.named_parameters()}
    batches = labelled(5)
    for x, y in batches:
        model.zero_grad()
        loss = F.nll_loss(F.log_softmax(model(x), dim=1), y)
        loss.backward()
        for name, p in model.named_parameters():
            importance[name] += p.grad.detach() ** 2 / len(batches)


@program()
def ku_the_update_is_written_out():
    """Langevin dynamics by hand; the optimiser is there for its learning rate."""
    model = tagger()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    with_noise = 1e-3
    for x, y in labelled(5):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        lr = optimizer.param_groups[0]["lr"]
        with torch.no_grad():
            for p in model.parameters():
                p.add_(p.grad, alpha=-lr)
                p.add_(torch.randn_like(p), alpha=with_noise)
        optimizer.param_groups[0]["lr"] = lr * scheduler.gamma


@program()
def ku_an_attack_on_a_trained_model():
    """The model's optimiser has done its work; now the input is changed."""
    model = tagger()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in labelled(2):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    ((x, y),) = labelled(1)
    delta = torch.zeros_like(x, requires_grad=True)
    for _ in range(4):
        model.zero_grad()
        loss = F.cross_entropy(model(x + delta), y)
        loss.backward()
        delta.data = (delta.data + 0.1 * delta.grad.sign()).clamp(-0.3, 0.3)
        delta.grad = None


# -- cleared at each backward, a step every n-th


@program("cleared_each_backward")
def u_cleared_in_the_inner_loop():
    """RAE#67: the inner loop begins with zero_grad."""
    model = tagger()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    accumulate = 3
    step = 0
    running = 0.0
    for i, (x, y) in enumerate(labelled(9)):
        optimizer.zero_grad(set_to_none=True)  # culprit
        logits = model(x)
        loss = F.cross_entropy(logits, y) / accumulate
        loss.backward()
        running += loss.item()
        if (i + 1) % accumulate == 0:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()  # victim
            step += 1
            running = 0.0


@program("cleared_each_backward")
def u_cleared_where_the_model_runs():
    """torchtitan#3575: forward_backward clears, optim_step comes for several."""

    class Worker:
        def __init__(self):
            self.model = tagger()
            self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)

        def forward_backward(self, x, y, scale):
            self.model.zero_grad()  # culprit
            loss = F.cross_entropy(self.model(x), y) * scale
            loss.backward()
            return loss.detach()

        def optim_step(self):
            self.optimizer.step()  # victim

    worker = Worker()
    logged = []
    for _ in range(3):
        micro = labelled(2)
        losses = [worker.forward_backward(x, y, 1 / len(micro)) for x, y in micro]
        logged.append(sum(losses).item())
        worker.optim_step()


@program("cleared_each_backward")
def u_cleared_after_each_backward_but_the_last():
    """alpaca_farm#57: the policy is cleared at every micro-batch, its optimiser isn't asked."""
    policy = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    optimizer = torch.optim.SGD(policy.parameters(), lr=0.02, momentum=0.9)

    def rollout_loss(x, action, advantage):
        logp = F.log_softmax(policy(x), dim=-1).gather(1, action[:, None]).squeeze(1)
        return -(logp * advantage).mean()

    rollouts = [(torch.randn(4, 4), torch.randint(0, 3, (4,)), torch.randn(4)) for _ in range(8)]
    for start in range(0, 8, 4):
        for x, action, advantage in rollouts[start : start + 4]:
            for p in policy.parameters():
                p.grad = None  # culprit
            loss = rollout_loss(x, action, advantage) / 4
            loss.backward()
        optimizer.step()  # victim


@program("cleared_each_backward")
def u_zeros_instead_of_none():
    model = tagger()
    params = [p for p in model.parameters() if p.requires_grad]
    opt = torch.optim.RMSprop(params, lr=1e-3)
    every, seen, log = 2, 0, []
    for epoch in range(2):
        for k, (x, y) in enumerate(labelled(4)):
            opt.zero_grad(set_to_none=False)  # culprit
            out = model(x)
            loss = F.cross_entropy(out, y) / every
            loss.backward()
            seen += len(x)
            if k % every == every - 1:
                opt.step()  # victim
        log.append((epoch, seen))


@program("cleared_each_backward")
def u_cleared_before_the_last_of_four():
    """starVLA#395: cleared where gradients are exchanged, right before the last backward call of a step."""
    model = tagger()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    accumulate = 4
    for i, (x, y) in enumerate(labelled(12)):
        sync = (i + 1) % accumulate == 0
        if sync:
            optimizer.zero_grad()  # culprit
        loss = F.cross_entropy(model(x), y) / accumulate
        loss.backward()
        if sync:
            optimizer.step()  # victim


@program()
def ku_bad_batches_are_dropped_now_and_then():
    model = tagger()
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    for i, (x, y) in enumerate(labelled(9)):
        opt.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        if i in (2, 6):
            continue
        opt.step()


@program()
def ku_accumulated_as_it_should_be():
    model = tagger()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    accumulate = 3
    optimizer.zero_grad()
    for i, (x, y) in enumerate(labelled(9)):
        (F.cross_entropy(model(x), y) / accumulate).backward()
        if (i + 1) % accumulate == 0:
            optimizer.step()
            optimizer.zero_grad()


@program()
def ku_gradients_of_tasks_are_projected():
    """Each task's gradient is kept, and the step uses their combination."""
    model = tagger()
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    params = list(model.parameters())
    for _ in range(3):
        kept = []
        for x, y in labelled(2):
            opt.zero_grad()
            F.cross_entropy(model(x), y).backward()
            kept.append([p.grad.clone() for p in params])
        for i, p in enumerate(params):
            first, second = kept[0][i], kept[1][i]
            if (first * second).sum() < 0:
                first = first - (first * second).sum() / second.pow(2).sum() * second
            p.grad = first + second
        opt.step()


@program()
def ku_a_bad_batch_is_dropped():
    model = tagger()
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    for i, (x, y) in enumerate(labelled(6)):
        opt.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        if i == 2:
            continue
        opt.step()


@program()
def ku_sharpness_is_climbed_first():
    """SAM: the first gradient moves the weights, the second one steps."""
    model = tagger()
    opt = torch.optim.SGD(model.parameters(), lr=0.05)

    def gradient(x, y):
        opt.zero_grad()
        F.cross_entropy(model(x), y).backward()

    for x, y in labelled(4):
        gradient(x, y)
        moved = []
        with torch.no_grad():
            for p in model.parameters():
                moved.append(0.05 * p.grad / (p.grad.norm() + 1e-9))
                p.add_(moved[-1])
        gradient(x, y)
        with torch.no_grad():
            for p, back in zip(model.parameters(), moved, strict=True):
                p.sub_(back)
        opt.step()
