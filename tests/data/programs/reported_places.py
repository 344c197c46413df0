"""Written anew after reports whose mistake can be mended at either of two lines; and their twins, which are right.

`# instead` marks the other line, `# named` a culprit that is known where the program's text is.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # torch's own convention

from tests.data.programs import program


class Gated(nn.Linear):
    """A layer with a gate of its own."""

    def __init__(self, n_in, n_out):
        super().__init__(n_in, n_out)
        self.gate = nn.Parameter(torch.ones(n_out))

    def forward(self, x):
        return super().forward(x) * torch.sigmoid(self.gate)


def gate_all(net):
    """Puts a gated layer in the place of each linear one, however deep."""
    for name, child in net.named_children():
        if type(child) is nn.Linear:
            setattr(net, name, Gated(child.in_features, child.out_features))
        else:
            gate_all(child)


def of_all(net):
    return torch.optim.Adam(net.parameters(), lr=1e-2)


@program("no_optimiser_holds_it")
def pl_layers_gated_behind_the_optimiser():
    """Both are done by functions that are called here: either line can change its place."""
    net = nn.Sequential(nn.Sequential(nn.Linear(4, 8), nn.ReLU()), nn.Linear(8, 2))
    optimizer = of_all(net)  # instead
    gate_all(net)  # culprit
    for _ in range(4):
        loss = F.cross_entropy(net(torch.randn(16, 4)), torch.randint(0, 2, (16,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()  # victim


@program()
def pl_layers_gated_before_the_optimiser_is_made():
    net = nn.Sequential(nn.Sequential(nn.Linear(4, 8), nn.ReLU()), nn.Linear(8, 2))
    optimizer = of_all(net)
    gate_all(net)
    optimizer = of_all(net)
    for _ in range(4):
        loss = F.cross_entropy(net(torch.randn(16, 4)), torch.randint(0, 2, (16,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program("no_optimiser_holds_it")
def pl_trainer_that_changes_the_head_of_its_own_model():
    """The optimiser is an attribute: who calls the two methods has nothing to do with it."""

    class Trainer:
        def __init__(self):
            self.net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
            self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)  # instead

        def adapt(self, classes):
            self.net[2] = nn.Linear(8, classes)  # culprit

        def fit(self, x, y):
            loss = F.cross_entropy(self.net(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()  # victim

    trainer = Trainer()
    trainer.adapt(3)
    for _ in range(4):
        trainer.fit(torch.randn(16, 4), torch.randint(0, 3, (16,)))


def update(optimizer, loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


class Maker(nn.Module):
    """Four notes of three numbers."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(3, 8), nn.Linear(8, 4)

    def forward(self, x):
        return self.last(torch.relu(self.first(x)))


@program("saved_tensor_modified", severity="error")
def pl_price_rated_before_the_forecast_has_learned():
    """One function makes all updates: nothing in it can come earlier or later."""
    forecast, price = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1)), nn.Linear(2, 3)
    of_forecast, of_price = (torch.optim.Adam(each.parameters(), lr=1e-2) for each in (forecast, price))

    def update(optimizer, loss):
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    def misses(seen, sold):
        return (forecast(seen) - sold).square().mean()

    def rated(asked):
        return -forecast(torch.tanh(price(asked))).mean()

    for _ in range(3):
        seen, sold, asked = torch.randn(8, 3), torch.randn(8, 1), torch.randn(8, 2)
        missed = misses(seen, sold)
        gain = rated(asked)  # named
        update(of_forecast, missed)
        update(of_price, gain)


@program()
def pl_price_rated_by_what_the_forecast_has_learned():
    forecast, price = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1)), nn.Linear(2, 3)
    of_forecast, of_price = (torch.optim.Adam(each.parameters(), lr=1e-2) for each in (forecast, price))
    for _ in range(3):
        seen, sold, asked = torch.randn(8, 3), torch.randn(8, 1), torch.randn(8, 2)
        update(of_forecast, (forecast(seen) - sold).square().mean())
        update(of_price, -forecast(torch.tanh(price(asked))).mean())


@program("saved_tensor_modified", severity="error")
def pl_melody_judged_once_more_after_its_maker_has_stepped():
    """The last one of a loop is used by the loop behind it, each time around; another one is made there, too."""
    maker, judge = Maker(), nn.Sequential(nn.Linear(4, 1))
    of_maker, of_judge = (torch.optim.Adam(each.parameters(), lr=1e-3) for each in (maker, judge))

    def heard(melody):
        return F.softplus(judge(melody)).mean()

    for _ in range(3):
        for _ in range(2):
            melody = maker(torch.randn(6, 3))
            loss = heard(melody.detach()) + heard(-torch.randn(6, 4))
            of_judge.zero_grad()
            loss.backward()
            of_judge.step()
        for _ in range(2):
            of_maker.zero_grad()
            fooled = heard(-melody)  # culprit
            fooled.backward(retain_graph=True)
            maker(torch.zeros(1, 3)).square().mean().backward()
            of_maker.step()


@program()
def pl_melody_made_anew_for_each_step_of_its_maker():
    maker, judge = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 4)), nn.Sequential(nn.Linear(4, 1))
    of_maker, of_judge = (torch.optim.Adam(each.parameters(), lr=1e-3) for each in (maker, judge))
    for _ in range(3):
        melody = maker(torch.randn(6, 3))
        update(of_judge, F.softplus(judge(melody.detach())).mean() + F.softplus(-judge(torch.randn(6, 4))).mean())
        for _ in range(2):
            update(of_maker, F.softplus(-judge(maker(torch.randn(6, 3)))).mean())


@program("graph_cut", severity="error")
def pl_terms_put_together_by_what_reads_data():
    """The same function makes tensors of numbers, too, where nothing is to be lost."""
    net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)

    def whole(values):
        if isinstance(values, torch.Tensor):
            return values
        return torch.as_tensor(values, dtype=torch.float32)  # instead

    for _ in range(3):
        x, y = whole([[1.0, 2.0, 0.5], [0.2, 0.1, 0.9]]), whole([[1.0], [0.0]])
        terms = [(net(x) - y).square().mean(), net(x).abs().mean()]
        loss = whole(terms).mean()  # culprit
        optimizer.zero_grad()
        loss.backward()  # victim
        optimizer.step()


@program("graph_cut", severity="error")
def pl_codes_that_a_function_hands_out_detached():
    """It cuts for whoever calls it, and all of them have something to lose."""
    net, head = nn.Linear(3, 4), nn.Linear(4, 1)
    head.requires_grad_(False)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)

    def code(x):
        return torch.tanh(net(x)).detach()  # culprit

    held_out = code(torch.randn(2, 3))
    for _ in range(3):
        z = code(torch.randn(8, 3))  # instead
        loss = head(z).square().mean()
        optimizer.zero_grad()
        loss.backward()  # victim
        optimizer.step()
    assert held_out.isfinite().all()


@program("backward_disagrees")
def pl_squash_whose_backward_forgets_what_comes_to_it():
    class Squash(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x / (1 + x.abs())

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return 1 / (1 + x.abs()).square()  # named

    layer = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    for _ in range(3):
        loss = Squash.apply(layer(torch.randn(8, 4))).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program()
def pl_squash_whose_backward_takes_it_in():
    class Squash(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x / (1 + x.abs())

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad / (1 + x.abs()).square()

    layer = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    for _ in range(3):
        loss = Squash.apply(layer(torch.randn(8, 4))).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program("foreign_gradients")
def pl_rater_that_hears_what_the_maker_wants():
    """Both losses come out of one forward, and one function rates for both."""
    rater, maker = nn.Linear(3, 1), nn.Linear(2, 3)
    optimizers = [torch.optim.Adam(each.parameters(), lr=1e-2) for each in (rater, maker)]

    def rated(given):
        return rater(torch.tanh(given)).mean()

    for _ in range(3):
        loss = (rated(torch.randn(8, 3)) - 1).square()
        wanted = -rated(maker(torch.randn(8, 2)))
        for optimizer, each in zip(optimizers, (loss, wanted), strict=True):
            optimizer.zero_grad()
            each.backward()  # culprit
        for optimizer in optimizers:
            optimizer.step()  # victim


def tuned():
    """A rater that is stepped before its maker, whose loss leaves gradients in it too."""
    maker, rater = nn.Linear(3, 4), nn.Sequential(nn.Linear(4, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
    return maker, rater, *(torch.optim.Adam(each.parameters(), lr=1e-3) for each in (maker, rater))


@program("foreign_gradients")
def pl_rater_that_is_cleared_right_behind_its_step():
    """NVIDIA-NeMo/Speech#7266: what the maker's loss leaves there comes after the clear."""
    maker, rater, opt_m, opt_r = tuned()
    for _ in range(3):
        real, fake = torch.randn(8, 4), maker(torch.randn(8, 3))
        loss_r = F.relu(1 - rater(real)).mean() + F.relu(1 + rater(fake.detach())).mean()
        loss_r.backward()
        opt_r.step()  # victim
        opt_r.zero_grad()  # instead
        opt_m.zero_grad()
        (-rater(fake).mean()).backward()  # culprit
        opt_m.step()


@program()
def pl_rater_that_is_cleared_right_before_its_loss_goes_back():
    maker, rater, opt_m, opt_r = tuned()
    for _ in range(3):
        real, fake = torch.randn(8, 4), maker(torch.randn(8, 3))
        loss_r = F.relu(1 - rater(real)).mean() + F.relu(1 + rater(fake.detach())).mean()
        opt_r.zero_grad()
        loss_r.backward()
        opt_r.step()
        opt_m.zero_grad()
        (-rater(fake).mean()).backward()
        opt_m.step()


@program("constant_term")
def pl_loudness_of_a_voice_that_the_listener_is_trained_by():
    """cc-hpc-itwm/UpConv#4: the voice is detached for the listener's loss, and that of its loudness is added there."""
    voice, listener = nn.Linear(3, 16), nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 1))
    opt_v, opt_l = (torch.optim.Adam(each.parameters(), lr=1e-3) for each in (voice, listener))

    def loudness(sound):
        power = sound.view(-1, 4, 4).square().mean(2)
        return power / power.amax(1, keepdim=True)  # culprit

    for _ in range(3):
        real, sound = torch.rand(8, 16), voice(torch.randn(8, 3))
        opt_l.zero_grad()
        heard = F.softplus(-listener(real)).mean() + F.softplus(listener(sound.detach())).mean()
        level = F.mse_loss(loudness(sound.detach()), torch.full((8, 4), 0.5))  # instead
        (heard + level).backward()  # victim
        opt_l.step()
        opt_v.zero_grad()
        F.softplus(-listener(sound)).mean().backward()
        opt_v.step()
