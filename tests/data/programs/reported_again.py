"""What was computed once and is gone back from after it is out of date, or beside the way that was asked for.

Each stands in another dress than the report that it was rebuilt from.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # torch's own convention

from tests.data.programs import program

# -- a result of the Parameters of before


@program("graph_freed", tensor="guess")
def n_sharpness_of_a_gauge():
    """Sharpness-aware: a step up, a second gradient there, a step down; https://github.com/davda54/sam."""
    net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
    opt = torch.optim.SGD(net.parameters(), lr=0.05)

    @torch.no_grad()
    def climb(rho):
        for weight in net.parameters():
            weight.add_(weight.grad, alpha=rho)

    for _ in range(3):
        x = torch.rand(16, 3)
        y = x.sum(1, keepdim=True)
        guess = net(x)  # victim
        F.mse_loss(guess, y).backward()
        climb(0.05)
        opt.zero_grad()
        F.mse_loss(guess, y).backward()  # culprit
        opt.step()


@program("graph_freed", tensor="score")
def n_forger_judged_by_the_score_of_before():
    """The generator's loss goes by what the critic said before its own step."""
    forger, critic = nn.Linear(4, 6), nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 1))
    of_critic = torch.optim.Adam(critic.parameters(), lr=1e-2)
    of_forger = torch.optim.Adam(forger.parameters(), lr=1e-2)
    for _ in range(3):
        forged = forger(torch.rand(8, 4))
        score = critic(forged)  # victim
        blame = F.softplus(score).mean() + F.softplus(-critic(torch.rand(8, 6))).mean()
        of_critic.zero_grad()
        blame.backward()
        of_critic.step()
        praise = F.softplus(-score).mean()  # culprit
        of_forger.zero_grad()
        praise.backward()
        of_forger.step()


@program("graph_freed", tensor="guess")
def n_look_ahead_of_a_line_without_a_module():
    """The slope and the offset are plain leaves; the second gradient is to be of the numbers ahead."""
    slope, offset = (torch.zeros(1, requires_grad=True) for _ in range(2))
    x = torch.rand(16)
    y = 2 * x + 1
    for _ in range(3):
        guess = slope * x + offset  # victim
        (guess - y).square().mean().backward()
        with torch.no_grad():
            slope += 0.1 * slope.grad
            offset += 0.1 * offset.grad
        (guess - y).abs().mean().backward()  # culprit
        with torch.no_grad():
            slope -= 0.1 * slope.grad
            offset -= 0.1 * offset.grad


@program()
def n_legal_results_made_anew():
    """The same two, which ask the model again; and two losses of one result, with no step between them."""
    net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    for _ in range(3):
        x = torch.rand(16, 3)
        y = x.sum(1, keepdim=True)
        F.mse_loss(net(x), y).backward()
        with torch.no_grad():
            for weight in net.parameters():
                weight.add_(weight.grad, alpha=0.05)
        opt.zero_grad()
        F.mse_loss(net(x), y).backward()
        opt.step()
        opt.zero_grad()
        guess = net(x)
        F.l1_loss(guess, y).backward(retain_graph=True)
        (0.1 * guess.square().mean()).backward()
        opt.step()


# -- a tensor beside the way: both were made of one


@program("unused_input", tensor="t")
def n_heat_in_a_rod_by_its_columns():
    """The columns are taken out of the points that the net is given whole."""
    net = nn.Sequential(nn.Linear(2, 12), nn.Tanh(), nn.Linear(12, 1))
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(3):
        points = torch.rand(20, 2, requires_grad=True)
        s, t = points[:, :1], points[:, 1:]  # culprit
        heat = net(points)
        by_time = torch.autograd.grad(heat.sum(), t, create_graph=True)[0]  # victim
        by_place = torch.autograd.grad(heat.sum(), s, create_graph=True)[0]
        opt.zero_grad()
        (by_time - 0.1 * by_place).square().mean().backward()
        opt.step()


@program("unused_input", tensor="scaled")
def n_saliency_of_a_scaled_picture():
    """The scaled picture is asked for, the model was given the picture."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 4))
    picture = torch.rand(1, 1, 4, 4, requires_grad=True)
    scaled = picture * 2 - 1  # culprit
    best = model(picture).max()
    torch.autograd.grad(best, scaled)  # victim


@program()
def n_legal_derivatives_by_columns():
    """Joined again before the net; or by the whole, of which a column is taken afterwards."""
    net = nn.Sequential(nn.Linear(2, 12), nn.Tanh(), nn.Linear(12, 1))
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(3):
        points = torch.rand(20, 2, requires_grad=True)
        s, t = points[:, :1], points[:, 1:]
        heat = net(torch.cat([s, t], 1))
        by_time = torch.autograd.grad(heat.sum(), t, create_graph=True)[0]
        by_both = torch.autograd.grad(net(points).sum(), points, create_graph=True)[0]
        opt.zero_grad()
        (by_time - 0.1 * by_both[:, :1]).square().mean().backward()
        opt.step()


# -- two that learn from each other, each by an optimiser of its own


@program("graph_freed")
def n_readers_who_learn_from_each_other():
    """Two readers of one gauge; https://github.com/chxy95/Deep-Mutual-Learning/issues/5."""
    readers = [nn.Sequential(nn.Linear(5, size), nn.ELU(), nn.Linear(size, 3)) for size in (6, 9)]
    opts = [torch.optim.SGD(each.parameters(), lr=0.05) for each in readers]
    for _ in range(3):
        x, kind = torch.randn(12, 5), torch.randint(0, 3, (12,))
        said = [reader(x) for reader in readers]  # victim
        for one, other in ((0, 1), (1, 0)):
            apart = F.mse_loss(said[one].softmax(1), said[other].softmax(1))  # culprit
            loss = F.cross_entropy(said[one], kind) + apart
            opts[one].zero_grad()
            loss.backward()
            opts[one].step()


@program()
def n_legal_readers_who_take_the_other_for_given():
    """The other one's answer is cut off; then both go by one loss, and one after the other."""
    readers = [nn.Sequential(nn.Linear(5, size), nn.ELU(), nn.Linear(size, 3)) for size in (6, 9)]
    opts = [torch.optim.SGD(each.parameters(), lr=0.05) for each in readers]
    for _ in range(3):
        x, kind = torch.randn(12, 5), torch.randint(0, 3, (12,))
        said = [reader(x) for reader in readers]
        for one, other in ((0, 1), (1, 0)):
            loss = F.cross_entropy(said[one], kind) + F.mse_loss(said[one], said[other].detach())
            opts[one].zero_grad()
            loss.backward()
            opts[one].step()
    for _ in range(3):
        x, kind = torch.randn(12, 5), torch.randint(0, 3, (12,))
        said = [reader(x) for reader in readers]
        loss = F.cross_entropy(said[0], kind) + F.cross_entropy(said[1], kind) + F.mse_loss(*said)
        for opt in opts:
            opt.zero_grad()
        loss.backward()
        for opt in opts:
            opt.step()


class Juror(nn.Module):
    """A judge whose own forward calls its layers, so that no line there speaks of what it is given."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))

    def forward(self, page):
        return self.layers(page).view(-1)


@program("graph_freed", tensor="forged")
def n_juror_that_hears_the_forger_with_its_graph():
    """pytorch/examples#116, for forged handwriting: the juror's step is to train the juror alone."""
    forger, juror = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 6)), Juror()
    opt_forger = torch.optim.Adam(forger.parameters(), lr=1e-3)
    opt_juror = torch.optim.Adam(juror.parameters(), lr=1e-3)
    for _ in range(2):
        verdict = juror(torch.rand(4, 6))
        opt_juror.zero_grad()
        F.softplus(-verdict).mean().backward()
        forged = forger(torch.randn(4, 3))
        fooled = torch.zeros(len(forged))
        verdict = juror(forged)  # culprit
        (F.softplus(verdict) + fooled).mean().backward()
        opt_juror.step()
        loss = F.softplus(-juror(forged)).mean()
        opt_forger.zero_grad()
        loss.backward()
        opt_forger.step()


@program()
def n_legal_jurors_that_hear_the_forger():
    """Detached for the juror's step; then with its graph, which is kept for the forger's."""
    forger, juror = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 6)), Juror()
    opt_forger = torch.optim.Adam(forger.parameters(), lr=1e-3)
    opt_juror = torch.optim.Adam(juror.parameters(), lr=1e-3)
    for whole in (False, True):
        forged = forger(torch.randn(4, 3))
        verdict = juror(forged if whole else forged.detach())
        opt_juror.zero_grad()
        F.softplus(verdict).mean().backward(retain_graph=whole)
        opt_juror.step()
        loss = F.softplus(-juror(forged)).mean()
        opt_forger.zero_grad()
        loss.backward()
        opt_forger.step()


# -- what a module keeps in a buffer


@program("graph_freed")
def n_range_of_a_scale_that_is_learnt():
    """A range kept for later, of what a layer has made; https://github.com/meta-pytorch/botorch/issues/1635."""

    class Ranged(nn.Module):
        def __init__(self):
            super().__init__()
            self.stretch = nn.Linear(3, 3)
            self.register_buffer("widest", torch.ones(3))

        def forward(self, x):
            x = self.stretch(x)
            if self.training:
                self.widest = x.abs().amax(0)  # culprit, victim
            return x / self.widest

    ranged = Ranged()
    opt = torch.optim.SGD(ranged.parameters(), lr=0.01)
    x = torch.randn(12, 3)
    for _ in range(3):
        loss = (ranged(x) - 0.5).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    ranged.eval()
    best = torch.zeros(1, 3, requires_grad=True)
    of_best = torch.optim.SGD([best], lr=0.1)
    for _ in range(3):
        far = ranged(best).square().sum()
        of_best.zero_grad()
        far.backward()
        of_best.step()


@program()
def n_legal_ranges_in_a_buffer():
    """One is stored without its graph; another with it, and goes back once in each lap."""

    class Ranged(nn.Module):
        def __init__(self, cut):
            super().__init__()
            self.cut, self.stretch = cut, nn.Linear(3, 3)
            self.register_buffer("widest", torch.ones(3))

        def forward(self, x):
            x = self.stretch(x)
            widest = x.abs().amax(0)
            self.widest = widest.detach() if self.cut else widest
            return x / self.widest

    for ranged in (Ranged(cut=True), Ranged(cut=False)):
        opt = torch.optim.SGD(ranged.parameters(), lr=0.01)
        for _ in range(3):
            loss = (ranged(torch.randn(12, 3)) - 0.5).square().mean()
            opt.zero_grad()
            loss.backward()
            opt.step()


# -- a custom Function computes with what it wasn't given


class Swing(torch.autograd.Function):
    """Where a spring is after some steps; backward goes the way again, for the start and for the weights."""

    @staticmethod
    def forward(ctx, law, start, *weights):
        ctx.law = law
        ctx.save_for_backward(start, *weights)
        return Swing.course(law, start)

    @staticmethod
    def course(law, at):
        for _ in range(4):
            at = at + 0.1 * law(at)
        return at

    @staticmethod
    def backward(ctx, grad):
        start, *weights = ctx.saved_tensors
        with torch.enable_grad():
            start = start.detach().requires_grad_()
            end = Swing.course(ctx.law, start)
            return (None, *torch.autograd.grad(end, (start, *weights), grad))


def swung(law, start, weights=None):
    """It asks the law for its weights where it's given none."""
    found = tuple(law.parameters()) if weights is None else tuple(weights)
    return Swing.apply(law, start, *found)


class Spring(nn.Module):
    """A law whose numbers are computed elsewhere."""

    def __init__(self, pull, drag):
        super().__init__()
        self.pull, self.drag = pull, drag

    def forward(self, at):
        return -self.pull * at - self.drag * at.abs() * at


def heard(model, laps=4):
    """Train it on where a spring was seen."""
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    for _ in range(laps):
        optimizer.zero_grad()
        (model() - torch.tensor([0.3, -0.2])).square().mean().backward()
        optimizer.step()


@program("never_reached")
def n_spring_of_computed_numbers():
    """rtqichen/torchdiffeq#104: the law's numbers are no Parameters of its own, so nobody hands them on."""

    class Seen(nn.Module):
        def __init__(self):
            super().__init__()
            self.raw_pull, self.raw_drag = nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(1))
            self.start = nn.Parameter(torch.tensor([1.0, -1.0]))

        def forward(self):
            pull = self.raw_pull.exp()
            drag = F.softplus(self.raw_drag)
            spring = Spring(pull, drag)
            return swung(spring, self.start)  # culprit

    model = Seen()
    heard(model)


@program()
def n_legal_spring_whose_numbers_are_handed_on():
    """And one whose drag is known; one whose numbers are Parameters."""

    class Seen(nn.Module):
        def __init__(self, drag):
            super().__init__()
            self.raw_pull, self.raw_drag = nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(1), drag)
            self.start = nn.Parameter(torch.tensor([1.0, -1.0]))

        def forward(self):
            pull, drag = self.raw_pull.exp(), F.softplus(self.raw_drag)
            return swung(Spring(pull, drag), self.start, [each for each in (pull, drag) if each.requires_grad])

    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.law = Spring(nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1)))
            self.start = nn.Parameter(torch.tensor([1.0, -1.0]))

        def forward(self):
            return swung(self.law, self.start)

    for model in (Seen(drag=True), Seen(drag=False), Own()):
        heard(model)


@program()
def n_legal_backward_of_its_own():
    """A Function that goes through its module again, whose Parameters get their gradients by that call; a mask."""

    class Again(torch.autograd.Function):
        @staticmethod
        def forward(ctx, part, x):
            ctx.part = part
            ctx.save_for_backward(x)
            return part(x)

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            with torch.enable_grad():
                x = x.detach().requires_grad_()
                torch.autograd.backward(ctx.part(x), grad)
            return None, x.grad

    class Sparse(torch.autograd.Function):
        @staticmethod
        def forward(ctx, part, x):
            keep = part.weight.abs().mean(0) > 0.1
            ctx.save_for_backward(keep)
            return x * keep

        @staticmethod
        def backward(ctx, grad):
            return None, grad * ctx.saved_tensors[0]

    first, second = nn.Linear(4, 4), nn.Linear(4, 1)
    optimizer = torch.optim.Adam([*first.parameters(), *second.parameters()], lr=1e-2)
    for _ in range(4):
        hidden = Again.apply(first, torch.randn(6, 4, requires_grad=True))
        optimizer.zero_grad()
        second(Sparse.apply(second, hidden)).square().mean().backward()
        optimizer.step()
