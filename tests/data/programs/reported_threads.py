"""Written anew after threads in which somebody asked and somebody else found it; and two that are right."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import distributed, nn
from torch.nn import functional as F  # noqa: N812  # torch's own convention

from tests.data.programs import program


class Coder(nn.Module):
    """A code and what is lost by it."""

    def __init__(self):
        super().__init__()
        self.enc, self.dec = nn.Linear(6, 3), nn.Linear(3, 6)

    def forward(self, x):
        code = torch.tanh(self.enc(x))
        return code, F.mse_loss(self.dec(code), x)


@program("graph_freed")
def th_two_encodings_of_which_one_is_learnt_from():
    """Both were made on one line of one module; the backward call leads through the first."""
    coder, x, y = Coder(), torch.randn(24, 6), torch.randn(24, 1)
    first = torch.optim.Adam(coder.parameters(), lr=1e-2)
    for _ in range(3):
        _, loss = coder(x)
        first.zero_grad()
        loss.backward()
        first.step()
    seen, _ = coder(x[:16])  # culprit
    held_out, _ = coder(x[16:])
    head = nn.Linear(3, 1)
    optimizer = torch.optim.Adam(head.parameters(), lr=1e-2)
    for start in range(0, 16, 4):
        loss = F.mse_loss(head(seen[start : start + 4]), y[start : start + 4])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert F.mse_loss(head(held_out), y[16:]).isfinite()


@program("graph_cut")
def th_loss_that_is_wrapped_so_that_it_raises_no_more():
    """What came before was cut; a leaf made of the loss's own memory hides it, by torch's old constructor."""
    net = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)

    def scores(x):
        out = torch.sigmoid(net(x))
        if torch.is_tensor(x):
            out = out.data  # culprit
        return out.squeeze(1)

    for _ in range(4):
        x, y = torch.randn(16, 5), torch.rand(16)
        loss = F.binary_cross_entropy(scores(x), y)
        loss = torch.autograd.Variable(loss, requires_grad=True)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program("not_finite", severity="error")
def th_anomaly_mode_finds_the_root_of_nothing():
    """The small number is added where the root has been taken already; torch names the Node's class alone."""
    layer = nn.Linear(4, 6)

    def unit(features, eps=1e-10):
        size = torch.sqrt(features.pow(2).sum(1, keepdim=True))  # culprit
        return features / (size + eps)

    x = torch.cat([torch.randn(5, 4), torch.zeros(1, 4)])
    with torch.no_grad():
        layer.bias.zero_()
    with torch.autograd.set_detect_anomaly(True):
        loss = unit(torch.relu(layer(x))).sum()
        loss.backward()  # victim


@program("clipped_after_step")
def th_clipped_when_the_step_has_gone_too_far():
    """The numbers grow until they overflow, long after the first laps are forgotten: that follows from the clip."""
    net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    for _ in range(60):
        x = 4 * torch.randn(32, 6)
        loss = (net(x) - x.sum(1, keepdim=True)).square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()  # victim
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)  # culprit


@program("trained_in_evaluation")
def th_looked_at_before_the_first_step():
    """The function that trains puts the model into training mode, and a look takes it out before any step."""
    net = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)

    def look():
        net.eval()  # culprit
        with torch.no_grad():
            return net(torch.randn(8, 5)).mean().item()

    def epoch():
        net.train()
        for lap in range(8):
            if lap % 4 == 0:
                look()
            loss = net(torch.randn(8, 5)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()  # victim

    for _ in range(2):
        epoch()


@program("rate_run_out")
def th_schedule_that_is_switched_off_by_a_factor():
    """Without a schedule the factor should be 1; it was 0, and nothing is learnt from the tenth lap on."""
    net = nn.Linear(4, 1)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    if net.bias is None:
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=10, gamma=0.5)
    else:
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=10, gamma=0)  # culprit
    for _ in range(40):
        for _ in range(2):
            x = torch.randn(8, 4)
            loss = (net(x) - x.sum(1, keepdim=True)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()  # victim
        scheduler.step()


@program()
def th_legal_looked_at_and_put_back():
    """The same, and the look puts the mode back; a part that stands still in evaluation mode is meant to."""
    net = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)

    def look():
        net.eval()
        with torch.no_grad():
            found = net(torch.randn(8, 5)).mean().item()
        net.train()
        net[1].eval()
        return found

    def epoch():
        net.train()
        for lap in range(8):
            if lap % 4 == 0:
                look()
            loss = net(torch.randn(8, 5)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    for _ in range(2):
        epoch()


@program()
def th_legal_way_that_is_sampled_once_more():
    """Log-probabilities are summed along each way; the last ones are drawn when all is learnt, and nobody asks more."""
    policy = nn.Sequential(nn.Linear(4, 8), nn.LeakyReLU(), nn.Linear(8, 2))
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)

    def drawn(count):
        state, total = torch.zeros(count, 4), torch.zeros(count)
        for step in range(4):
            chances = torch.distributions.Categorical(logits=policy(state))
            action = chances.sample()
            total = total + chances.log_prob(action)
            state = state.clone()
            state[:, step] = action.float()
        return state, total

    for _ in range(4):
        states, total = drawn(16)
        loss = (total - states.sum(1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return drawn(64)


@program("saved_tensor_modified", route="inside")
def th_judge_that_is_built_in_place():
    """Dropout overwrites what the activation before it has saved, its own result; both are built in one call."""

    class Judge(nn.Module):
        def __init__(self):
            super().__init__()
            self.main = nn.Sequential(
                nn.Linear(6, 16),
                nn.LeakyReLU(0.2),
                nn.Linear(16, 8),
                nn.LeakyReLU(0.2, inplace=True),
                nn.Dropout(0.3, inplace=True),  # culprit
                nn.Linear(8, 1),
            )

        def forward(self, x):
            return torch.sigmoid(self.main(x.flatten(1)))  # victim

    judge = Judge()
    optimizer = torch.optim.Adam(judge.parameters(), lr=1e-3)
    for _ in range(3):
        loss = F.binary_cross_entropy(judge(torch.randn(4, 2, 3)), torch.ones(4, 1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program("saved_tensor_modified", route="inside")
def th_layers_that_a_loop_builds_in_place():
    """The way into `nn.Sequential(*layers)` can't be read; only one line builds such a module."""

    def net(sizes):
        layers = []
        for inside, out in itertools.pairwise(sizes):
            layers.append(nn.Linear(inside, out))
            layers.append(nn.Tanh())
            layers.append(nn.Hardswish(inplace=True))  # culprit
        return nn.Sequential(*layers)

    model = net([4, 8, 2])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        out = model(torch.randn(5, 4))  # victim
        optimizer.zero_grad()
        out.square().mean().backward()
        optimizer.step()


@program("saved_tensor_modified", route="inside")
def th_two_of_a_kind_built_in_place_of_which_none_is_told():
    """Which of two lines built the module can't be read: the line that calls it is said."""

    def net(wide):
        layers = [nn.Linear(4, 8), nn.Sigmoid()]
        if wide:
            layers += [nn.Hardtanh(-1, 1, True), nn.Linear(8, 8)]
        else:
            layers += [nn.Hardtanh(-2, 2, True), nn.Linear(8, 8)]
        return nn.Sequential(*layers)

    model = net(wide=True)
    out = model(torch.randn(5, 4))  # culprit, victim
    out.square().mean().backward()


def scaled_training(laps):
    """A model, an optimiser, a scaler on the CPU, and batches."""
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
    return net, optimizer, scaler, [(torch.randn(8, 4), torch.randn(8, 1)) for _ in range(laps)]


@program("unscaled_twice")
def th_unscaled_for_each_small_batch():
    """Two batches to a step, and each is unscaled and clipped: the second time the scaler refuses."""
    net, optimizer, scaler, batches = scaled_training(8)
    optimizer.zero_grad()
    for at, (x, y) in enumerate(batches):
        loss = F.mse_loss(net(x), y) / 2
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)  # culprit
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        if (at + 1) % 2 == 0:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()


@program("unscaled_twice")
def th_norm_that_is_looked_at_after_the_step():
    """The norm of the gradients is to be logged, so they are unscaled, but the step has done that."""
    net, optimizer, scaler, batches = scaled_training(4)
    for x, y in batches:
        optimizer.zero_grad()
        scaler.scale(F.mse_loss(net(x), y)).backward()
        scaler.step(optimizer)  # victim
        scaler.unscale_(optimizer)  # culprit
        nn.utils.get_total_norm([p.grad for p in net.parameters()])
        scaler.update()


@program("unscaled_twice")
def th_scaler_that_is_updated_each_epoch():
    """`update()` stands outside of the loop over batches."""
    net, optimizer, scaler, batches = scaled_training(3)
    for _ in range(2):
        for x, y in batches:
            optimizer.zero_grad()
            scaler.scale(F.mse_loss(net(x), y)).backward()
            scaler.step(optimizer)  # culprit, victim
        scaler.update()


@program()
def th_legal_unscaled_once_for_several_batches():
    net, optimizer, scaler, batches = scaled_training(8)
    optimizer.zero_grad()
    for at, (x, y) in enumerate(batches):
        loss = F.mse_loss(net(x), y) / 2
        scaler.scale(loss).backward()
        if (at + 1) % 2 == 0:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()


@program("no_optimiser_holds_it")
def th_groups_of_which_one_is_left_out():
    """The groups are made by a function of the model; one module isn't among them."""

    class Charges(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.sources, self.readout = nn.Linear(3, 4), nn.Linear(4, 4), nn.Linear(4, 1)

        def forward(self, x):
            features = torch.tanh(self.embedding(x))
            return self.readout(features + torch.tanh(self.sources(features)))

    def options(model, rate):
        groups = [
            {"params": model.embedding.parameters(), "weight_decay": 0.0},
            {"params": model.readout.parameters(), "weight_decay": 1e-6},
        ]
        return {"params": groups, "lr": rate}

    model = Charges()
    optimizer = torch.optim.Adam(**options(model, 1e-2))  # culprit
    for _ in range(4):
        optimizer.zero_grad()
        model(torch.randn(6, 3)).square().mean().backward()
        optimizer.step()  # victim


@program("graph_cut", severity="error")
def th_checked_in_inference_mode_by_a_variable():
    """`enable_grad` does nothing inside of inference mode; which mode it is, a variable says."""
    net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)

    def residual(x, y):
        with torch.enable_grad():
            x, y = x.clone().requires_grad_(True), y.clone().requires_grad_(True)
            out = net(torch.cat([x, y], dim=1))
            (slope,) = torch.autograd.grad(out, x, torch.ones_like(out), create_graph=True)
            return (slope - y).square().mean() + out.square().mean()

    def checked(strict):
        context = torch.inference_mode if strict else torch.no_grad  # culprit
        with context():
            return residual(torch.rand(16, 1), torch.rand(16, 1)).item()

    for epoch in range(4):
        optimizer.zero_grad()
        residual(torch.rand(32, 1), torch.rand(32, 1)).backward()
        optimizer.step()
        if epoch % 2:
            checked(strict=True)


@program()
def th_legal_checked_without_gradients_that_are_switched_on_inside():
    net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)

    def residual(x, y):
        with torch.enable_grad():
            x, y = x.clone().requires_grad_(True), y.clone().requires_grad_(True)
            out = net(torch.cat([x, y], dim=1))
            (slope,) = torch.autograd.grad(out, x, torch.ones_like(out), create_graph=True)
            return (slope - y).square().mean() + out.square().mean()

    for _ in range(4):
        optimizer.zero_grad()
        residual(torch.rand(32, 1), torch.rand(32, 1)).backward()
        optimizer.step()
        with torch.no_grad():
            residual(torch.rand(16, 1), torch.rand(16, 1)).item()


@program()
def th_legal_weights_that_are_adapted_and_let_go():
    """The weights of a task, new ones each step, with which the model is called; the last serve a test."""
    net = nn.Linear(3, 1)

    def called(x, weights):
        return F.linear(x, *weights)

    def adapted(x, y):
        weights = list(net.parameters())
        for _ in range(3):
            loss = F.mse_loss(called(x, weights), y)
            gradients = torch.autograd.grad(loss, weights)
            weights = [(w - 0.05 * g).detach().requires_grad_() for w, g in zip(weights, gradients, strict=True)]
        with torch.no_grad():
            return F.mse_loss(called(x, weights), y).item()

    return [adapted(torch.randn(8, 3), torch.randn(8, 1)) for _ in range(3)]


@contextmanager
def alone() -> Iterator[None]:
    """One process that talks to itself."""
    before = sys.excepthook
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        yield
    finally:
        distributed.destroy_process_group()
        sys.excepthook = before  # torch has put its own there, which says the rank


class Decoder(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.within, self.norm = nn.Linear(width, width), nn.LayerNorm(width)
        self.levels = nn.Sequential(nn.Linear(width, 8), nn.ReLU(), nn.Linear(8, width))  # culprit
        self.head = nn.Linear(width, 1)

    def forward(self, x):
        return self.head(self.norm(x + torch.tanh(self.within(x))))


@program("waited_for")
def th_layers_that_are_built_and_never_called():
    """The second forward is refused; `zero_grad` has left no trace of which had a gradient."""
    with alone():
        model = nn.parallel.DistributedDataParallel(Decoder())
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        for _ in range(3):
            optimizer.zero_grad()
            loss = model(torch.randn(2, 3, 4)).square().mean()  # victim
            loss.backward()
            optimizer.step()


@program()
def th_legal_layers_that_are_called_now_and_then():
    class Varied(Decoder):
        def forward(self, x, deep):
            return super().forward(self.levels(x) if deep else x)

    with alone():
        model = nn.parallel.DistributedDataParallel(Varied(), find_unused_parameters=True)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        for step in range(4):
            optimizer.zero_grad()
            model(torch.randn(2, 3, 4), step % 2 == 0).square().mean().backward()
            optimizer.step()


@program("never_reached", severity="error")
def th_guide_that_learns_in_some_turns_alone():
    """nerfstudio-project/nerfstudio#1919: one scaler, two optimisers, and turns in which the one net has no graph."""
    guide, painter = nn.Linear(3, 4), nn.Linear(3, 4)
    optimizers = [torch.optim.Adam(each.parameters(), lr=1e-3) for each in (guide, painter)]
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
    for turn in range(4):
        where = torch.rand(8, 3)
        with torch.set_grad_enabled(turn % 2 == 0):
            guessed = guide(where)
        painted = painter(where)
        loss = F.mse_loss(painted, where.sum(1, keepdim=True).expand(8, 4))
        loss = loss + F.mse_loss(guessed, painted.detach())
        for optimizer in optimizers:
            optimizer.zero_grad()
        scaler.scale(loss).backward()
        for optimizer in optimizers:
            scaler.step(optimizer)  # culprit
        scaler.update()


@program()
def th_legal_scaler_steps_what_has_a_gradient():
    net, optimizer, scaler, batches = scaled_training(6)
    for at, (x, y) in enumerate(batches):
        optimizer.zero_grad()
        with torch.set_grad_enabled(at % 2 == 0):
            loss = F.mse_loss(net(x), y)
        if at % 2 == 0:
            scaler.scale(loss).backward()
        if any(p.grad is not None for p in net.parameters()):
            scaler.step(optimizer)
            scaler.update()
