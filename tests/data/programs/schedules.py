"""Schedules and scalers in the wrong order: a schedule's first value that no step uses, a clip of scaled gradients.

Rebuilt from what people report: NeuralRecon#51, C-3-Framework#96, pytorch-transformers-classification#21 and #42 (the
scheduler first; RAFT#104 is right), Pytorch-UNet#468, pytorch/examples#1196, returnn#1595 (clipped before unscaled).
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # torch's own convention
from torch.optim import lr_scheduler

from tests.data.programs import program


def mlp():
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))


def loader(many=3, rows=5):
    for _ in range(many):
        yield torch.randn(rows, 4), torch.randint(0, 3, (rows,))


# -- a schedule of epochs that goes on after each batch


@program("rate_run_out")
def s_rate_of_epochs_moved_by_batches():
    model = mlp()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    scheduler = lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.2)
    for _epoch in range(6):
        for x, y in loader(10):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()  # victim
            scheduler.step()  # culprit


@program("rate_run_out")
def s_cosine_counts_epochs_in_a_trainer():
    class Trainer:
        def __init__(self, epochs):
            self.net = mlp()
            self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)
            self.sched = lr_scheduler.LambdaLR(self.opt, lambda epoch: max(0.0, 1 - epoch / epochs) ** 2)
            self.epochs = epochs

        def fit(self):
            for _ in range(self.epochs):
                self.epoch()

        def epoch(self):
            for x, y in loader(6):
                loss = F.cross_entropy(self.net(x), y)
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()  # victim
                self.sched.step()  # culprit

    Trainer(8).fit()


@program()
def s_legal_rates_that_come_down():
    """By epochs, to nothing at the very end, in cycles, after a warm-up, by a plateau."""
    for make, by_batch in (
        (lambda opt: lr_scheduler.ExponentialLR(opt, gamma=0.2), False),
        (lambda opt: lr_scheduler.CosineAnnealingLR(opt, T_max=50), True),
        (lambda opt: lr_scheduler.CosineAnnealingWarmRestarts(opt, T_0=5), True),
        (lambda opt: lr_scheduler.OneCycleLR(opt, max_lr=0.1, total_steps=50), True),
    ):
        model = mlp()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scheduler = make(optimizer)
        for _ in range(5):
            for x, y in loader(10):
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                if by_batch:
                    scheduler.step()
            if not by_batch:
                scheduler.step()


# -- the scheduler before the optimiser


@program("scheduled_before_step")
def s_once_an_epoch_at_its_beginning():
    model = mlp()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scheduler = lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.1)
    for _epoch in range(3):
        scheduler.step()  # culprit
        model.train()
        for x, y in loader():
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()  # victim


@program("scheduled_before_step")
def s_in_each_step_of_a_trainer():
    class Trainer:
        def __init__(self, model, total):
            self.model = model
            self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
            self.lr_scheduler = lr_scheduler.LambdaLR(self.optimizer, lambda step: max(0.0, 1 - step / total))
            self.global_step = 0

        def training_step(self, x, y):
            loss = F.cross_entropy(self.model(x), y)
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.lr_scheduler.step()  # culprit
            self.optimizer.step()  # victim
            self.model.zero_grad()
            self.global_step += 1
            return loss.item()

    trainer = Trainer(mlp(), 10)
    for x, y in loader(4):
        trainer.training_step(x, y)


@program("scheduled_before_step")
def s_a_warm_up_that_loses_its_first_value():
    model = mlp()
    opt = torch.optim.Adam(model.parameters(), lr=0.1)
    warmup = lr_scheduler.LinearLR(opt, start_factor=0.1, total_iters=4)
    rates = []

    def one(x, y):
        opt.zero_grad()
        F.cross_entropy(model(x), y).backward()
        warmup.step()  # culprit
        opt.step()  # victim
        rates.append(opt.param_groups[0]["lr"])

    for x, y in loader(4):
        one(x, y)


@program("scheduled_before_step")
def s_a_cosine_for_two_optimisers():
    gen, disc = nn.Linear(2, 4), nn.Linear(4, 1)
    opt_g = torch.optim.Adam(gen.parameters(), lr=1e-3)
    opt_d = torch.optim.Adam(disc.parameters(), lr=1e-3)
    sched_d = lr_scheduler.CosineAnnealingLR(opt_d, T_max=5)
    for _ in range(3):
        fake = gen(torch.randn(3, 2))
        opt_d.zero_grad()
        (disc(fake.detach()) - disc(torch.randn(3, 4))).mean().backward()
        sched_d.step()  # culprit
        opt_d.step()  # victim
        opt_g.zero_grad()
        (-disc(fake).mean()).backward()
        opt_g.step()


# -- clipped while they are scaled


@program("clipped_while_scaled")
def s_clipped_before_the_scaler_steps():
    model = mlp()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu")
    for _epoch in range(2):
        for x, y in loader(2):
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cpu", enabled=False):
                loss = F.cross_entropy(model(x), y)
            scaler.scale(loss).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # culprit
            scaler.step(optimizer)  # victim
            scaler.update()


@program("clipped_while_scaled")
def s_clipped_and_unscaled_afterwards():
    class Trainer:
        def __init__(self, clip):
            self.model = mlp()
            self.opt = torch.optim.SGD(self.model.parameters(), lr=0.1)
            self.scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
            self.clip = clip

        def clip_gradients(self):
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)  # culprit

        def step(self, x, y):
            loss = F.cross_entropy(self.model(x), y)
            self.opt.zero_grad()
            self.scaler.scale(loss).backward()
            self.clip_gradients()
            self.scaler.unscale_(self.opt)  # victim
            self.scaler.step(self.opt)
            self.scaler.update()

    trainer = Trainer(0.5)
    for x, y in loader(3):
        trainer.step(x, y)


@program("clipped_while_scaled")
def s_values_clipped_while_scaled():
    model = mlp()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=4096.0)
    accumulation = 2
    for i, (x, y) in enumerate(loader(4)):
        loss = F.cross_entropy(model(x), y) / accumulation
        scaler.scale(loss).backward()
        if (i + 1) % accumulation == 0:
            torch.nn.utils.clip_grad_value_(model.parameters(), 0.1)  # culprit
            scaler.step(opt)  # victim
            scaler.update()
            opt.zero_grad()


@program("clipped_while_scaled")
def s_one_of_two_optimisers_is_unscaled():
    encoder, decoder = nn.Linear(4, 3), nn.Linear(3, 4)
    opt_e = torch.optim.SGD(encoder.parameters(), lr=0.1)
    opt_d = torch.optim.SGD(decoder.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
    for x, _ in loader(3):
        loss = F.mse_loss(decoder(torch.tanh(encoder(x))), x)
        opt_e.zero_grad()
        opt_d.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(opt_e)
        nn.utils.clip_grad_norm_(encoder.parameters(), 1.0)
        nn.utils.clip_grad_norm_(decoder.parameters(), 1.0)  # culprit
        scaler.step(opt_e)
        scaler.step(opt_d)  # victim
        scaler.update()


# -- right


@program()
def t_scheduler_after_the_optimiser():
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = lr_scheduler.OneCycleLR(optimizer, max_lr=0.2, total_steps=8)
    for x, y in loader(4):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        scheduler.step()


@program()
def t_a_schedule_that_goes_on():
    def make():
        model = mlp()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        return model, optimizer, lr_scheduler.ExponentialLR(optimizer, 0.9)

    def epoch(model, optimizer, scheduler):
        for x, y in loader(2):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
        scheduler.step()

    first = make()
    for _ in range(3):
        epoch(*first)
    again = make()
    again[0].load_state_dict({k: v.clone() for k, v in first[0].state_dict().items()})
    again[1].load_state_dict(first[1].state_dict())
    again[2].load_state_dict(first[2].state_dict())
    for _ in range(2):
        epoch(*again)


@program()
def t_unscaled_and_then_clipped():
    model = mlp()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = lr_scheduler.LinearLR(optimizer, total_iters=4)
    scaler = torch.amp.GradScaler("cpu")
    for x, y in loader(4):
        optimizer.zero_grad()
        scaler.scale(F.cross_entropy(model(x), y)).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scheduler.step()
        scaler.update()


@program()
def t_scaler_that_is_switched_off():
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    for x, y in loader(3):
        optimizer.zero_grad()
        scaler.scale(F.cross_entropy(model(x), y)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()


@program()
def t_scaled_and_not_clipped():
    model = mlp()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
    scheduler = lr_scheduler.ReduceLROnPlateau(optimizer)
    for x, y in loader(3):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        scheduler.step(loss.item())
