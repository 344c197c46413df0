"""Programs of trainings that run by the wrong settings: modes, freezes, rates, what is made anew."""

from __future__ import annotations

import copy

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # torch's own convention

from tests.data.programs import program


class Tides(nn.Module):
    """How high the water will be; what `drop` does with what is seen on the way."""

    def __init__(self, drop=None):
        super().__init__()
        self.near, self.far, self.drop = nn.Linear(5, 8), nn.Linear(8, 1), drop

    def forward(self, x):
        seen = torch.relu(self.near(x))
        return self.far(seen if self.drop is None else self.drop(self, seen))


def watched(model, rounds=2):
    """Training and evaluation take turns."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(rounds):
        model.train()
        for _ in range(3):
            x = torch.randn(6, 5)
            loss = (model(x) - x[:, :1]).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            model(torch.randn(6, 5))


@program("dropout_in_evaluation")
def tc_tides_that_drop_in_both_modes():
    """rixwew/pytorch-fm#21, delip/PyTorchNLPBook#28: `F.dropout` without `training=self.training`."""

    def some(_model, seen):
        return F.dropout(seen, p=0.3)  # culprit, victim

    model = Tides(some)
    watched(model)


@program("dropout_in_evaluation")
def tc_tides_whose_dropout_is_made_where_it_is_used():
    """A layer of dropout that no module holds."""

    def some(_model, seen):
        return nn.Dropout(0.3)(seen)  # culprit, victim

    model = Tides(some)
    watched(model)


@program("dropout_in_evaluation")
def tc_tides_that_look_around_with_a_share_dropped():
    """karpathy/nanoGPT#240: the attention's `dropout_p` is the same in both modes."""

    def some(_model, seen):
        rows = seen.unsqueeze(1)
        return F.scaled_dot_product_attention(rows, rows, rows, dropout_p=0.2).squeeze(1)  # culprit, victim

    model = Tides(some)
    watched(model)


@program()
def tc_legal_tides_that_know_their_mode():
    """The mode handed on; a layer that the module holds; one put into training mode by itself; a draw that is meant."""

    class Modal(Tides):
        def __init__(self):
            super().__init__()
            self.some, self.always = nn.Dropout(0.3), nn.Dropout(0.1)

        def forward(self, x):
            seen = self.some(F.dropout(torch.relu(self.near(x)), 0.2, self.training))
            return self.far(F.dropout(self.always(seen), p=0.1, training=True))

        def eval(self):
            super().eval()
            self.always.train()
            return self

    watched(Modal())


@program()
def tc_legal_tides_that_are_only_drawn_from():
    """No evaluation mode but from the first: nothing says that this line was to know a mode."""

    def some(_model, seen):
        return F.dropout(seen, p=0.3)

    model = Tides(some).eval()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(4):
        x = torch.randn(6, 5)
        loss = (model(x) - x[:, :1]).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


# -- a frozen module that counts its batches


class Shells(nn.Module):
    """An eye that was trained before, and a new head."""

    def __init__(self):
        super().__init__()
        self.eye = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU())
        self.kind = nn.Linear(6, 3)

    def forward(self, x):
        return self.kind(self.eye(x))


def kinds(model, optimizer, steps=3):
    """Some steps on batches of shells."""
    for _ in range(steps):
        x, y = torch.randn(6, 4), torch.randint(3, (6,))
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program("freeze_without_effect")
def tc_an_eye_whose_statistics_go_on():
    """pgniewko/gt-pyg#112: what is frozen is in training mode again at each epoch."""
    model = Shells()
    for leaf in model.eye.parameters():
        leaf.requires_grad = False  # culprit
    optimizer = torch.optim.SGD(model.kind.parameters(), lr=0.05)
    for _ in range(3):
        model.train()
        x, y = torch.randn(6, 4), torch.randint(3, (6,))
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        model.eval()


@program()
def tc_legal_eyes_that_rest():
    """In evaluation mode after each `train()`; a teacher without gradients; frozen for a while only."""
    model, teacher = Shells(), Shells()
    teacher.requires_grad_(False)
    model.eye.requires_grad_(False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    model.train()
    model.eye.eval()
    for _ in range(3):
        x, y = torch.randn(6, 4), torch.randint(3, (6,))
        with torch.no_grad():
            soft = teacher(x).softmax(1)
        scores = model(x)
        loss = F.cross_entropy(scores, y) + F.kl_div(scores.log_softmax(1), soft, reduction="batchmean")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.train()
    kinds(model, optimizer)
    model.eye.requires_grad_(True)
    kinds(model, optimizer)


@program("trained_in_evaluation")
def tc_shells_whose_train_is_only_named():
    """`model.train` without its brackets, behind an evaluation."""
    model = Shells()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(3):
        model.train  # noqa: B018  # culprit
        x, y = torch.randn(6, 4), torch.randint(3, (6,))
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()  # victim
        model.eval()
        with torch.no_grad():
            model(torch.randn(6, 4))


# -- rates, and an optimiser for each step


class Kites(nn.Module):
    """How far a kite flies."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))

    def far(self):
        wind = torch.randn(6, 4)
        return (self.body(wind) - wind.sum(1, keepdim=True)).pow(2).mean()


@program("result_dropped")
def tc_a_rate_that_only_the_optimiser_has():
    """`optimizer.lr = …`: an attribute that nothing reads."""
    model = Kites()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(4):
        optimizer.lr = 0.1 * 0.5**epoch  # culprit
        loss = model.far()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()  # victim


@program("rate_run_out")
def tc_a_schedule_that_is_given_a_rate():
    """`LambdaLR` with a function that gives the rate itself: it is squared."""
    model = Kites()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1e-3 * 0.9**epoch)  # culprit
    for _ in range(6):
        loss = model.far()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()  # victim
        schedule.step()


@program("rate_run_out")
def tc_a_warm_up_that_counts_in_whole_numbers():
    """`step // steps` is 0 until the last."""
    model = Kites()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(12):
        for group in optimizer.param_groups:
            group["lr"] = 1e-2 * min(1, step // 100)  # culprit
        loss = model.far()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()  # victim


@program()
def tc_legal_rates():
    """A warm-up whose first factor is the rate's own size, one that begins at 0, an attribute beside the groups."""
    model = Kites()
    slow = torch.optim.Adam(model.parameters(), lr=1e-3)
    warm = torch.optim.lr_scheduler.LambdaLR(slow, lambda step: min(1.0, (step + 1) / 1000))
    for step in range(10):
        slow.lr = slow.param_groups[0]["lr"]
        loss = model.far()
        slow.zero_grad()
        loss.backward()
        slow.step()
        warm.step()
        if step == 0:
            assert warm.get_last_lr()[0] > 1e-6
    quick = torch.optim.SGD(model.parameters(), lr=0.1)
    begins = torch.optim.lr_scheduler.LambdaLR(quick, lambda step: min(1.0, step / 4))
    for _ in range(10):
        loss = model.far()
        quick.zero_grad()
        loss.backward()
        quick.step()
        begins.step()


@program("optimiser_made_again")
def tc_an_optimiser_for_each_batch():
    """Wangyixinxin/ACN#9: `Adam` is made inside the loop over batches."""
    model = Kites()
    for _ in range(6):
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)  # culprit
        loss = model.far()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()  # victim


@program()
def tc_legal_optimisers_made_often():
    """For a task's own copy, for several steps each, without any memory, for weights that go halfway back (Reptile)."""
    model = Kites()
    start = copy.deepcopy(model.state_dict())
    for _ in range(5):
        own = copy.deepcopy(model)
        inner = torch.optim.Adam(own.parameters(), lr=0.01)
        own.far().backward()
        inner.step()
        plain = torch.optim.SGD(model.parameters(), lr=0.01)
        plain.zero_grad()
        model.far().backward()
        plain.step()
        several = torch.optim.Adam(model.parameters(), lr=0.01)
        for _ in range(3):
            several.zero_grad()
            model.far().backward()
            several.step()
    for _ in range(5):
        task = torch.optim.Adam(model.parameters(), lr=0.01)
        task.zero_grad()
        model.far().backward()
        task.step()
        now = model.state_dict()
        start = {name: (start[name] + 0.5 * (now[name] - start[name])).clone() for name in start}
        model.load_state_dict(start)


# -- a loss that is turned round, a target that was given


@program()
def tc_legal_rate_that_the_loop_reads():
    """An attribute of the optimiser's by which the loop itself sets each group."""
    model = Kites()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer.lr = 0.4
    for step in range(5):
        for group in optimizer.param_groups:
            group["lr"] = optimizer.lr * 0.5**step
        loss = model.far()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


# -- rates that stand still


def grower():
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1))


def grow(net, optimizer, laps=4):
    for _ in range(laps):
        x = torch.randn(6, 4)
        loss = F.mse_loss(net(x), x[:, :1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program("optimiser_made_again")
def st_schedule_of_the_season_begun_each_week():
    """Three weeks are to pass before the rate falls, and each week counts from 0."""
    net = grower()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def week():
        fall = torch.optim.lr_scheduler.MultiStepLR(optimizer, [3, 5], gamma=0.1)  # culprit
        for _ in range(4):
            x = torch.randn(6, 4)
            loss = F.mse_loss(net(x), x[:, :1])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()  # victim
        fall.step()

    for _ in range(6):
        week()


@program()
def st_legal_schedules_begun_again():
    """A cycle each, made anew for each: the rate falls in each of them; one for a warm-up, one for the rest."""
    net = grower()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(5):
        cycle = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
        for _ in range(4):
            grow(net, optimizer, 1)
            cycle.step()
        for group in optimizer.param_groups:
            group["lr"] = 0.1
    slow = torch.optim.Adam(net.parameters(), lr=1e-3)
    for milestone in (40, 50):
        stays = torch.optim.lr_scheduler.MultiStepLR(slow, [milestone], gamma=0.1)
        for _ in range(10):
            grow(net, slow, 1)
            stays.step()


@program("result_dropped")
def st_rate_of_the_greenhouse_that_only_its_log_reads():
    """The optimiser has taken the number that stood there when it was made."""

    class House:
        def __init__(self, pace_rate):
            self.net, self.pace_rate = grower(), pace_rate
            self.optimizer = torch.optim.SGD(self.net.parameters(), lr=self.pace_rate)

        def day(self):
            for _ in range(4):
                x = torch.randn(6, 4)
                loss = F.mse_loss(self.net(x), x[:, :1])
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()  # victim
            self.pace_rate *= 0.5  # culprit

    house = House(0.1)
    for _ in range(5):
        house.day()


@program()
def st_legal_rates_of_the_greenhouse_that_are_handed_on():
    """To its groups, to a new optimiser, to a loop by hand beside it; and a 0 that is written."""
    net, lr = grower(), 0.1
    optimizer = torch.optim.SGD(net.parameters(), lr=lr)
    for _ in range(4):
        grow(net, optimizer)
        lr = lr * 0.5
        optimizer.param_groups[0]["lr"] = lr
    step_rate = 0.05
    other = torch.optim.Adam(net.parameters(), lr=step_rate)
    for _ in range(4):
        grow(net, other)
        step_rate *= 0.5
        other = torch.optim.Adam(net.parameters(), lr=step_rate)
    for group in optimizer.param_groups:  # on purpose
        group["lr"] = 0.0
    halves = [{"params": net[0].parameters(), "lr": 0.0}, {"params": net[2].parameters(), "lr": 0.1}]
    grow(net, torch.optim.SGD(halves), 12)
    by_hand, rate = nn.Parameter(torch.ones(3)), 0.1
    beside = torch.optim.SGD(net.parameters(), lr=rate)
    for _ in range(4):
        grow(net, beside)
        rate /= 2
        (slope,) = torch.autograd.grad(by_hand.pow(2).sum(), by_hand)
        by_hand.data -= rate * slope
