"""What is to be carried over and is lost: a model's statistics, an optimiser's state, an inner loop's history."""

from __future__ import annotations

import copy

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # torch's own convention

from tests.data.programs import program

# -- averages of another model's weights, without its statistics


class Tower(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.rise, self.norm, self.top = nn.Linear(6, width), nn.BatchNorm1d(width), nn.Linear(width, 3)

    def forward(self, x):
        return self.top(F.relu(self.norm(self.rise(x))))


def flowers(many=24):
    """Six measures of a flower, and which of three it is."""
    kinds = torch.arange(many) % 3
    return 3 * F.one_hot(kinds, 6).float() + torch.randn(many, 6) + 5, kinds


@program("statistics_left_behind")
def ku_averages_that_are_tested_at_the_end():
    """The averages are kept by a class of its own, by name, and only the last line computes with them."""

    class Ema:
        def __init__(self, model, decay):
            self.average, self.decay = copy.deepcopy(model).eval(), decay

        def update(self, model):
            mine = dict(self.average.named_parameters())
            with torch.no_grad():
                for name, weight in model.named_parameters():
                    mine[name].lerp_(weight, 1 - self.decay)  # culprit

    model = Tower()
    ema = Ema(model, 0.5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _step in range(6):
        x, kinds = flowers()
        optimizer.zero_grad()
        F.cross_entropy(model(x), kinds).backward()
        optimizer.step()
        ema.update(model)
    x, kinds = flowers()
    with torch.no_grad():
        guessed = ema.average(x).argmax(1)  # victim
    return (guessed == kinds).float().mean()


@program("statistics_left_behind")
def ku_a_teacher_that_is_written_by_its_data():
    """Mean teacher: both see an image, the pupil is drawn to what the teacher says of it."""

    def block(into, out):
        return nn.Sequential(nn.Conv2d(into, out, 3, padding=1), nn.BatchNorm2d(out), nn.LeakyReLU(0.1))

    def network():
        return nn.Sequential(block(1, 4), block(4, 6), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 2))

    def follow(teacher, pupil, step, most=0.9):
        share = min(1 - 1 / (step + 1), most)
        for theirs, mine in zip(teacher.parameters(), pupil.parameters(), strict=True):
            theirs.data = share * theirs.data + (1 - share) * mine.data  # culprit

    pupil, teacher = network(), network()
    teacher.load_state_dict(pupil.state_dict())
    for each in teacher.parameters():
        each.requires_grad_(False)
    teacher.eval()
    optimizer = torch.optim.Adam(pupil.parameters(), lr=1e-3)
    for step in range(1, 5):
        images = torch.rand(8, 1, 8, 8) + 2
        bright = (images.mean((1, 2, 3)) > 2.5).long()
        said = pupil(images + 0.1 * torch.randn_like(images))
        wanted = F.softmax(teacher(images), dim=1)  # victim
        loss = F.cross_entropy(said, bright) + F.mse_loss(F.softmax(said, dim=1), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        follow(teacher, pupil, step)


def averaged(update, *, training=False, used=True):
    """A training whose averages are written by `update(copy, model)`, and looked at each time, in either mode."""
    model = Tower()
    mean = copy.deepcopy(model).train(training)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _step in range(4):
        x, kinds = flowers()
        loss = F.cross_entropy(model(x), kinds)
        if used:
            with torch.no_grad():
                mean(x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        update(mean, model)


@torch.no_grad()
def of_weights(mean, model):
    for one, other in zip(mean.parameters(), model.parameters(), strict=True):
        one.mul_(0.9).add_(other, alpha=0.1)


@program()
def ku_averages_of_the_buffers_too():
    """What counts batches can't be averaged, and is copied."""

    def update(mean, model):
        of_weights(mean, model)
        for one, other in zip(mean.buffers(), model.buffers(), strict=True):
            one.copy_(other)

    averaged(update)


@program()
def ku_averages_of_all_that_a_state_holds():
    """`state_dict()` has the buffers as well."""

    def update(mean, model):
        mine = mean.state_dict()
        for name, other in model.state_dict().items():
            mine[name].copy_(0.9 * mine[name] + 0.1 * other)

    averaged(update)


@program()
def ku_averages_that_normalise_by_each_batch():
    """In training mode the copy has statistics of its own."""
    averaged(of_weights, training=True)


@program()
def ku_averages_that_nobody_uses():
    """They are only written to a file."""
    averaged(of_weights, used=False)


@program()
def ku_averages_of_a_model_that_was_trained_before():
    """Its statistics are of some use, although they stay as they were."""
    model = Tower()
    for _step in range(3):
        model(flowers()[0])
    mean = copy.deepcopy(model).eval()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _step in range(3):
        x, kinds = flowers()
        wanted = mean(x).softmax(1).detach()
        loss = F.cross_entropy(model(x), kinds) + F.mse_loss(model(x).softmax(1), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        of_weights(mean, model)


@program()
def ku_averages_whose_statistics_are_gathered_before_their_use():
    """torch.optim.swa_utils: the averages see the data once, as `update_bn` hands it to them."""
    model = Tower()
    mean = torch.optim.swa_utils.AveragedModel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _step in range(4):
        x, kinds = flowers()
        optimizer.zero_grad()
        F.cross_entropy(model(x), kinds).backward()
        optimizer.step()
        of_weights(mean.module, model)
    torch.optim.swa_utils.update_bn([flowers()[0] for _ in range(3)], mean)
    mean.eval()
    with torch.no_grad():
        return mean(flowers()[0])


@program()
def ku_averages_of_a_model_that_keeps_no_statistics():
    """A layer norm has nothing but its weights."""
    model = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 3))
    mean = copy.deepcopy(model).eval()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _step in range(4):
        x, kinds = flowers()
        loss = F.cross_entropy(model(x), kinds) + F.mse_loss(model(x), mean(x).detach())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        of_weights(mean, model)


# -- what an optimiser keeps for each Parameter, and makes anew at each step


def sloped(many=20):
    """Four weights of a line, which a model of one layer is to find."""
    x = torch.randn(many, 4)
    return x, (x @ torch.tensor([1.0, -2.0, 0.5, 3.0])).unsqueeze(1)


def descend(optimizer, net, *, steps=5):
    for _step in range(steps):
        x, y = sloped()
        optimizer.zero_grad()
        F.mse_loss(net(x), y).backward()
        optimizer.step()  # victim


@program("state_made_anew")
def ku_a_heavy_ball_that_forgets():
    """The velocity is set up where the step begins, for each Parameter that has a gradient."""

    class HeavyBall(torch.optim.Optimizer):
        def __init__(self, params, rate, drag=0.9):
            super().__init__(params, {"rate": rate, "drag": drag})

        @torch.no_grad()
        def step(self):
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is None:
                        continue
                    kept = self.state[p]
                    kept["velocity"] = torch.zeros_like(p)  # culprit
                    velocity = group["drag"] * kept["velocity"] - group["rate"] * p.grad
                    p.add_(velocity)
                    kept["velocity"] = velocity

    net = nn.Linear(4, 1)
    optimizer = HeavyBall(net.parameters(), 0.05)
    for _epoch in range(5):
        x, y = sloped()
        optimizer.zero_grad()
        F.mse_loss(net(x), y).backward()
        optimizer.step()  # victim
    return net.weight.detach()


@program("state_made_anew")
def ku_mean_squares_that_are_set_up_by_a_method():
    """Two averages: the count goes on, and the mean of the squares begins with zeros each time."""

    class Rms(torch.optim.Optimizer):
        def __init__(self, params, lr=1e-2, share=0.99):
            super().__init__(params, {"lr": lr, "share": share})

        def begin(self, p):
            state = self.state[p]
            state.setdefault("step", 0)
            state["square"] = p.new_zeros(p.shape)  # culprit
            return state

        def step(self, closure=None):
            with torch.no_grad():
                for group in self.param_groups:
                    for p in (each for each in group["params"] if each.grad is not None):
                        state = self.begin(p)
                        state["step"] += 1
                        state["square"].mul_(group["share"]).addcmul_(p.grad, p.grad, value=1 - group["share"])
                        right = state["square"] / (1 - group["share"] ** state["step"])
                        p.addcdiv_(p.grad, right.sqrt().add_(1e-8), value=-group["lr"])

    net = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1))
    optimizer = Rms(net.parameters())
    for _step in range(6):
        x, y = sloped()
        loss = F.mse_loss(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()  # victim
    return net[0].weight.detach()


def own(update):
    """An optimiser whose step is `update(p, state)` for each Parameter."""

    class Own(torch.optim.Optimizer):
        @torch.no_grad()
        def step(self):
            for group in self.param_groups:
                for p in group["params"]:
                    update(p, self.state[p])

    return lambda params: Own(params, {})


@program()
def ku_a_momentum_that_is_made_once():
    """Zeros where nothing is kept yet, and the new value in the old one's place from then on."""

    def update(p, state):
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(p)
        state["momentum"] = state["momentum"] * 0.9 + p.grad
        p.sub_(state["momentum"], alpha=0.01)

    net = nn.Linear(4, 1)
    descend(own(update)(net.parameters()), net)


@program()
def ku_room_for_a_step_that_nobody_expects_to_stay():
    """What is kept is written whole before it's read: it is only there to be looked at."""

    def update(p, state):
        state["way"] = torch.zeros_like(p)
        state["way"].add_(p.grad).clamp_(-1, 1)
        p.sub_(state["way"], alpha=0.01)

    net = nn.Linear(4, 1)
    descend(own(update)(net.parameters()), net)


@program()
def ku_zeros_in_which_a_step_gathers():
    """Several turns within one step draw on them: a series that is summed anew each time."""

    def update(p, state):
        state["series"] = torch.zeros_like(p)
        for _turn in range(4):
            state["series"].mul_(0.5).add_(p.grad)
        p.sub_(state["series"], alpha=0.01)

    net = nn.Linear(4, 1)
    descend(own(update)(net.parameters()), net)


@program()
def ku_the_momentum_of_the_step_before():
    """The old one goes to another name, and both are of use."""

    def update(p, state):
        state["before"] = state.get("now", torch.zeros_like(p))
        state["now"] = torch.zeros_like(p)
        state["now"].mul_(0.9).add_(p.grad).add_(state["before"], alpha=0.9)
        p.sub_(state["now"], alpha=0.01)

    net = nn.Linear(4, 1)
    descend(own(update)(net.parameters()), net)


# -- fast weights, written into the module without their history


class Curve(nn.Module):
    def __init__(self):
        super().__init__()
        self.bend, self.out = nn.Linear(1, 8), nn.Linear(8, 1)

    def forward(self, x):
        return self.out(torch.tanh(self.bend(x)))


def waves(tasks=3):
    """Of each task some points to learn by, and some to be judged by."""
    for _task in range(tasks):
        x, high, shift = torch.rand(12, 1) * 6 - 3, torch.rand(1) * 2, torch.rand(1) * 3
        y = high * torch.sin(x + shift)
        yield x[:6], y[:6], x[6:], y[6:]


@program("graph_cut")
def ku_fast_weights_that_are_copied_in():
    """MAML: after the task's loss the weights are put back, and the outer step goes by what has gathered."""
    net = Curve()
    params = list(net.parameters())
    outer = torch.optim.Adam(params, lr=1e-2)
    for _round in range(3):
        outer.zero_grad()
        before = [each.detach().clone() for each in params]
        for x, y, new_x, new_y in waves():
            inner = F.mse_loss(net(x), y)
            slopes = torch.autograd.grad(inner, params, create_graph=True)
            fast = [each - 0.1 * slope for each, slope in zip(params, slopes, strict=True)]
            with torch.no_grad():
                for each, new in zip(params, fast, strict=True):
                    each.copy_(new)  # culprit
            F.mse_loss(net(new_x), new_y).backward()  # victim
            with torch.no_grad():
                for each, old in zip(params, before, strict=True):
                    each.copy_(old)
        outer.step()


@program("graph_cut")
def ku_fast_weights_that_are_given_to_data():
    """Two inner steps, each of which writes what it computes."""

    class Meta:
        def __init__(self, rate):
            self.net, self.rate = Curve(), rate
            self.outer = torch.optim.SGD(self.net.parameters(), lr=0.05)

        def adapt(self, x, y):
            for _turn in range(2):
                loss = F.mse_loss(self.net(x), y)
                slopes = torch.autograd.grad(loss, self.net.parameters(), create_graph=True)
                for weight, slope in zip(self.net.parameters(), slopes, strict=True):
                    weight.data = weight - self.rate * slope  # culprit

        def learn(self, tasks):
            kept = [weight.data for weight in self.net.parameters()]
            self.outer.zero_grad()
            for x, y, new_x, new_y in tasks:
                self.adapt(x, y)
                loss = F.mse_loss(self.net(new_x), new_y)
                loss.backward()  # victim
                for weight, old in zip(self.net.parameters(), kept, strict=True):
                    weight.data = old
            self.outer.step()

    meta = Meta(0.1)
    for _round in range(3):
        meta.learn(waves())


def met(adapt):
    """An outer loop whose inner step is `adapt(net, x, y)`."""
    net = Curve()
    outer = torch.optim.SGD(net.parameters(), lr=0.05)
    for _round in range(3):
        outer.zero_grad()
        before = copy.deepcopy(net.state_dict())
        for x, y, new_x, new_y in waves():
            net.load_state_dict(adapt(net, x, y))
            F.mse_loss(net(new_x), new_y).backward()
            net.load_state_dict(before)
        outer.step()


@program()
def ku_fast_weights_of_the_first_order():
    """No graph of the gradients is wanted, and it is said: the outer loss moves the weights by its own alone."""

    def adapt(net, x, y):
        named = dict(net.named_parameters())
        slopes = torch.autograd.grad(F.mse_loss(net(x), y), named.values(), create_graph=False)
        return {name: each - 0.1 * slope for (name, each), slope in zip(named.items(), slopes, strict=True)}

    met(adapt)


@program()
def ku_fast_weights_with_which_the_module_is_called():
    """Their history is used, and for a look at the end they are written as well."""
    net = Curve()
    names = [name for name, _ in net.named_parameters()]
    outer = torch.optim.SGD(net.parameters(), lr=0.05)
    for _round in range(3):
        outer.zero_grad()
        before = copy.deepcopy(net.state_dict())
        for x, y, new_x, new_y in waves():
            params = list(net.parameters())
            slopes = torch.autograd.grad(F.mse_loss(net(x), y), params, create_graph=True)
            steps = zip(names, params, slopes, strict=True)
            fast = {name: each - 0.1 * slope for name, each, slope in steps}
            F.mse_loss(torch.func.functional_call(net, fast, (new_x,)), new_y).backward()
            net.load_state_dict(fast)
            F.mse_loss(net(new_x), new_y).backward()
            net.load_state_dict(before)
        outer.step()


@program()
def ku_an_update_whose_gradients_have_a_graph():
    """The graph is of no use; but what is written stays, as an optimiser's step does, and another trains a bias."""
    net, bias = Curve(), nn.Parameter(torch.zeros(1))
    other = torch.optim.SGD([bias], lr=0.1)
    for x, y, *_ in waves(5):
        params = list(net.parameters())
        loss = F.mse_loss(net(x) + bias, y)
        slopes = torch.autograd.grad(loss, params, create_graph=True)
        with torch.no_grad():
            for each, slope in zip(params, slopes, strict=True):
                each.copy_(each - 0.1 * slope)
        other.zero_grad()
        F.mse_loss(net(x) + bias, y).backward()
        other.step()
