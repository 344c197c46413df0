"""What is run again on the way to a step or to a gradient: closures, recomputed forwards, choices and their weights."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # torch's own convention

from tests.data.programs import program

# -- a closure that runs several times a step


@program("gradients_never_cleared")
def cl_spring_of_a_trainer_that_clears_once():
    """Lightning#6147: the trainer clears, then hands the closure to an optimizer that runs it many times."""

    class Fit:
        def __init__(self, net, x, y):
            self.net, self.x, self.y = net, x, y
            self.search = torch.optim.LBFGS(net.parameters(), lr=0.02, max_iter=12, history_size=5)

        def run_closure(self):
            loss = F.mse_loss(self.net(self.x), self.y)
            loss.backward()
            return loss

        def lap(self):
            for p in self.net.parameters():
                p.grad = None  # culprit
            return self.search.step(self.run_closure)  # victim

    x = torch.linspace(-1, 1, 30).unsqueeze(1)
    fit = Fit(nn.Sequential(nn.Linear(1, 12), nn.Tanh(), nn.Linear(12, 1)), x, torch.sin(4 * x))
    for _ in range(12):
        fit.lap()


@program("gradients_never_cleared")
def cl_one_long_step_that_nothing_clears():
    """A single call of step does all, as with a large `max_iter`."""
    torch.manual_seed(3)
    where = torch.nn.Parameter(torch.tensor([-1.2, 1.0]))
    valley = torch.optim.LBFGS([where], lr=0.01, max_iter=120, tolerance_change=0.0, tolerance_grad=0.0)

    def height():
        x, y = where
        value = (1 - x) ** 2 + 5 * (y - x**2) ** 2
        value.backward()  # culprit
        return value

    valley.step(height)  # victim


@program("gradients_never_cleared")
def cl_sharpness_whose_second_run_adds():
    """A sharpness-aware optimizer of one's own: what its first run has left stays where it is."""

    class Sharp(torch.optim.Optimizer):
        def __init__(self, params, rho, lr):
            super().__init__(params, {"rho": rho, "lr": lr})

        @torch.no_grad()
        def step(self, closure):
            run = torch.enable_grad()(closure)
            loss = run()
            held = [p for group in self.param_groups for p in group["params"]]
            moves = [self.param_groups[0]["rho"] * p.grad / (p.grad.norm() + 1e-9) for p in held]
            for p, move in zip(held, moves, strict=True):
                p.add_(move)
            run()
            for p, move in zip(held, moves, strict=True):
                p.sub_(move)
                p.sub_(self.param_groups[0]["lr"] * p.grad)
            return loss

    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    sharp = Sharp(net.parameters(), rho=0.05, lr=0.1)
    for _batch in range(5):
        x = torch.randn(16, 4)
        kinds = (x[:, 0] > 0).long()
        sharp.zero_grad()  # culprit

        def closure(x=x, kinds=kinds):
            loss = F.cross_entropy(net(x), kinds)
            loss.backward()
            return loss

        sharp.step(closure)  # victim


@program()
def cl_legal_closures():
    """Cleared in each run by zeros, behind `.data`, by None; in one step alone; a closure that runs once a step."""
    net = nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 1))
    x = torch.randn(30, 2)
    y = x.prod(1, keepdim=True)

    def searched(clear, steps=2, many=8):
        search = torch.optim.LBFGS(net.parameters(), lr=0.2, max_iter=many, line_search_fn="strong_wolfe")

        def closure():
            clear(search)
            loss = F.mse_loss(net(x), y)
            loss.backward()
            return loss

        for _ in range(steps):
            search.zero_grad()
            search.step(closure)

    def behind(_search):
        for p in net.parameters():
            if p.grad is not None:
                p.grad.data.zero_()

    def one_by_one(_search):
        for p in net.parameters():
            p.grad = None

    searched(lambda search: search.zero_grad(set_to_none=False))
    searched(lambda search: search.zero_grad(set_to_none=False), steps=1, many=90)
    searched(behind, steps=1)
    searched(one_by_one)
    searched(lambda _search: net.zero_grad())
    once = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    def one():
        loss = F.mse_loss(net(x), y)
        loss.backward()
        return loss

    for _ in range(4):
        once.zero_grad()
        once.step(one)


@program()
def cl_legal_gradients_handed_over():
    """Written into `.grad` by hand; and of several losses in one run, that is cleared."""
    net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
    held, x = list(net.parameters()), torch.randn(20, 3)
    y = x.sum(1, keepdim=True).sin()
    search = torch.optim.LBFGS(held, lr=0.3, max_iter=6)

    def asked():
        loss = F.mse_loss(net(x), y)
        for p, gradient in zip(held, torch.autograd.grad(loss, held), strict=True):
            p.grad = gradient
        return loss

    for _ in range(3):
        search.step(asked)
    again = torch.optim.LBFGS(held, lr=0.3, max_iter=6)

    def of_two():
        again.zero_grad()
        near, far = F.mse_loss(net(x), y), 0.01 * sum(p.square().sum() for p in held)
        near.backward()
        far.backward()
        return near + far

    for _ in range(3):
        again.step(of_two)


# -- computed again while a backward runs


@program("graph_cut", severity="error")
def cl_swirl_computed_again_on_the_way_back():
    """pytorch#7698: what a Function's backward computes again has no graph."""

    def swirl(x, turn):
        return torch.sin(turn * x) * x

    class Light(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, turn):
            ctx.save_for_backward(x, turn)
            return swirl(x, turn)

        @staticmethod
        def backward(ctx, grad):
            x, turn = (each.detach().requires_grad_() for each in ctx.saved_tensors)
            again = swirl(x, turn)  # culprit
            return torch.autograd.grad(again, (x, turn), grad)  # victim

    turn = nn.Parameter(torch.tensor(0.7))
    loss = Light.apply(torch.randn(6), turn).square().sum()
    loss.backward()


@program("graph_cut", severity="error")
def cl_segment_that_is_run_again_and_sent_back():
    """A checkpoint of one's own, which calls `backward` on what it has computed again."""

    class Segment(torch.autograd.Function):
        @staticmethod
        def forward(ctx, run, x):
            ctx.run, ctx.x = run, x.detach()
            return run(x)

        @staticmethod
        def backward(ctx, grad):
            x = ctx.x.requires_grad_()
            out = ctx.run(x)  # culprit
            out.backward(grad)  # victim
            return None, x.grad

    block = nn.Sequential(nn.Linear(5, 5), nn.GELU())
    x = torch.randn(3, 5, requires_grad=True)
    Segment.apply(block, x).mean().backward()


@program()
def cl_legal_segment_that_is_run_again():
    """The same with gradients switched on, for all that is computed again."""

    class Segment(torch.autograd.Function):
        @staticmethod
        def forward(ctx, run, x):
            ctx.run, ctx.x = run, x.detach()
            return run(x)

        @staticmethod
        def backward(ctx, grad):
            x = ctx.x.requires_grad_()
            with torch.enable_grad():
                out = ctx.run(x)
            out.backward(grad)
            return None, x.grad

    block = nn.Sequential(nn.Linear(5, 5), nn.GELU())
    x = torch.randn(3, 5, requires_grad=True)
    Segment.apply(block, x).mean().backward()


# -- a loss that was built for logarithms


@program("not_normalised")
def cl_tongues_told_by_a_criterion_of_logarithms():
    """pytorch/examples#732: the model's last line was changed, the criterion wasn't."""

    class Tongue(nn.Module):
        def __init__(self):
            super().__init__()
            self.letters, self.memory = nn.Embedding(9, 6), nn.GRU(6, 10, batch_first=True)
            self.out = nn.Linear(10, 4)

        def forward(self, word):
            seen, _ = self.memory(self.letters(word))
            return self.out(seen[:, -1])

    class Teacher:
        def __init__(self, net):
            self.net = net
            self.measure = nn.NLLLoss()  # culprit
            self.steps = torch.optim.Adam(net.parameters(), lr=1e-2)

        def lap(self, word, tongue):
            self.steps.zero_grad()
            loss = self.measure(self.net(word), tongue)  # victim
            loss.backward()
            self.steps.step()

    teacher = Teacher(Tongue())
    for _ in range(4):
        teacher.lap(torch.randint(0, 9, (12, 5)), torch.randint(0, 4, (12,)))


@program("not_normalised")
def cl_shades_given_to_a_divergence():
    """A pupil's scores, of which no `log_softmax` was taken."""
    pupil, teacher = nn.Linear(6, 5), nn.Linear(6, 5)
    apart = nn.KLDivLoss(reduction="batchmean")  # culprit
    optimizer = torch.optim.SGD(pupil.parameters(), lr=0.05)
    for _ in range(4):
        x = torch.randn(16, 6)
        with torch.no_grad():
            wanted = teacher(x).softmax(1)
        optimizer.zero_grad()
        loss = apart(pupil(x), wanted)  # victim
        loss.backward()
        optimizer.step()


@program()
def cl_legal_criteria_of_logarithms():
    """Given what they take."""
    net, teacher = nn.Linear(6, 5), nn.Linear(6, 5)
    apart = nn.KLDivLoss(reduction="batchmean")
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    for _ in range(3):
        x = torch.randn(16, 6)
        said = F.log_softmax(net(x), dim=1)
        optimizer.zero_grad()
        (F.nll_loss(said, x[:, :5].argmax(1)) + apart(said, teacher(x).softmax(1).detach())).backward()
        optimizer.step()


# -- the step of another optimiser, in place of one that never steps


class Way:
    """A walk of which each step gives several things."""

    def __init__(self):
        self.place = torch.zeros(1, 2)

    def step(self, move):
        self.place = self.place + move.detach() * 0.1
        return self.place, -self.place.norm(), float(self.place.norm()) > 3


@program("never_stepped")
def cl_pupil_of_a_walker_behind_the_walkers_step():
    """higgsfield/Imagination-Augmented-Agents#7: long, with a walk whose own `step` trains nothing."""
    way, walker, pupil = Way(), nn.Linear(2, 2), nn.Linear(2, 2)
    walks = torch.optim.RMSprop(walker.parameters(), lr=1e-3)
    learns = torch.optim.Adam(pupil.parameters(), lr=1e-3)  # victim
    for _ in range(45):
        place, _gain, there = way.step(walker(way.place))
        move = walker(place)
        apart = F.mse_loss(pupil(place), move.detach())
        walks.zero_grad()
        ((move - 1).square().mean() * (2 - there)).backward()
        walks.step()
        learns.zero_grad()
        apart.backward()
        walks.step()  # culprit


@program("never_stepped")
def cl_judge_whose_optimiser_was_given_twice_over():
    """Lornatang/SRGAN-PyTorch#85: under the name of one stands the other."""

    def train(judge, maker, judges, makes, laps):
        for _ in range(laps):
            true, made = torch.randn(8, 3) + 1, maker(torch.randn(8, 2))
            judge.zero_grad()
            (F.softplus(-judge(true)).mean() + F.softplus(judge(made.detach())).mean()).backward()
            judges.step()  # culprit
            maker.zero_grad()
            F.softplus(-judge(maker(torch.randn(8, 2)))).mean().backward()
            makes.step()

    judge, maker = nn.Linear(3, 1), nn.Linear(2, 3)
    judges = torch.optim.Adam(judge.parameters(), lr=1e-3)  # noqa: F841  # victim
    makes = torch.optim.Adam(maker.parameters(), lr=1e-3)
    train(judge, maker, makes, makes, 10)


@program()
def cl_legal_optimisers_that_wait():
    """The critic alone at first; one that steps every eighth time."""
    way, actor, critic = Way(), nn.Linear(2, 2), nn.Linear(2, 1)
    acts, judges = (torch.optim.Adam(each.parameters(), lr=1e-3) for each in (actor, critic))
    for lap in range(24):
        place, gain, _there = way.step(actor(way.place))
        judges.zero_grad()
        (critic(place) - gain).square().mean().backward()
        judges.step()
        (critic(place).detach() * actor(place)).mean().backward()
        if lap % 8 == 7:
            acts.step()
            acts.zero_grad()
