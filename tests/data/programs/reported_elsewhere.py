"""Programs rebuilt from reports: the line that is to be changed stands elsewhere than where it shows.

A state that a first, long lap has left, a result that a statement lets go, a clearing in the outer of two loops, a mask
that comes after the function that needs it, a module that is made for one call. Each stands in another dress.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # torch's own convention

from tests.data.programs import program

# -- a call that raises is no lap of its own: what it fails by lies in the lap before


@program("graph_freed")
def e_a_level_that_outlives_a_long_lap():
    """benedekrozemberczki/pytorch_geometric_temporal#284: so many calls a lap that older ones are forgotten."""

    class Pool(nn.Module):
        def __init__(self):
            super().__init__()
            self.start, self.pull = nn.Parameter(torch.randn(3)), nn.Linear(3, 3)
            self.level = None

        def forward(self, reading):
            before = self.start if self.level is None else self.level
            self.level = torch.tanh(self.pull(before) + reading)  # culprit, victim
            seen = self.level
            for _ripple in range(6):
                seen = torch.tanh(seen * 0.9 + 0.1)
            return seen.sum()

    pool, readings = Pool(), torch.randn(22, 3)
    optimizer = torch.optim.SGD(pool.parameters(), lr=0.01)
    for _day in range(2):
        total = sum((pool(reading) - reading.sum()) ** 2 for reading in readings)
        optimizer.zero_grad()
        total.backward()
        optimizer.step()


# -- a statement that makes another shape of something, and lets it go


@program("result_dropped")
def e_heights_squeezed_for_nothing():
    """discuss.pytorch.org 50431, with the target in the place of the prediction."""
    slope = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(slope.parameters(), lr=0.05)
    for _walk in range(4):
        steps = torch.randn(12, 3)
        heights = steps.sum(1)
        heights.unsqueeze(1)  # culprit
        loss = (slope(steps) - heights).square().mean()
        optimizer.zero_grad()
        loss.backward()  # victim
        optimizer.step()


@program()
def e_legal_shapes():
    """Taken up, looked at, written into a view of it; a statement that leaves the shape as it is."""
    slope, seen = nn.Linear(3, 1), []
    optimizer = torch.optim.SGD(slope.parameters(), lr=0.05)
    for _walk in range(4):
        steps = torch.randn(12, 3)
        heights = steps.sum(1)
        heights.view(12)
        heights.unsqueeze_(1)
        found = slope(steps)
        seen.append(found.squeeze(1).tolist())
        found.view(-1)[0].item()
        found.detach().view(3, 4).mean()
        loss = (found - heights).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return seen


# -- cleared in the outer of two loops, and stepped in the inner one


@program("gradients_never_cleared")
def e_a_judge_cleared_before_its_rounds():
    """ajbrock/BigGAN-PyTorch#25, with a potter and a judge."""
    potter, judge = nn.Linear(2, 2), nn.Linear(2, 1)
    makes, judges = torch.optim.SGD(potter.parameters(), lr=0.01), torch.optim.SGD(judge.parameters(), lr=0.01)
    for _fair in range(4):
        judges.zero_grad()  # culprit
        for _round in range(3):
            real, made = torch.randn(8, 2) + 2, potter(torch.randn(8, 2)).detach()
            (F.softplus(-judge(real)).mean() + F.softplus(judge(made)).mean()).backward()
            judges.step()  # victim
        makes.zero_grad()
        F.softplus(-judge(potter(torch.randn(8, 2)))).mean().backward()
        makes.step()


@program()
def e_legal_rounds():
    """Cleared in each round; twice in one of them; rounds that are added up on purpose, and stepped once."""
    judge = nn.Linear(2, 1)
    judges = torch.optim.SGD(judge.parameters(), lr=0.01)
    for _fair in range(3):
        judges.zero_grad()
        for _round in range(3):
            judges.zero_grad()
            F.softplus(-judge(torch.randn(8, 2))).mean().backward()
            judges.step()
        judges.zero_grad()
        for _part in range(2):
            (F.softplus(-judge(torch.randn(8, 2))).mean() / 2).backward()
        judges.step()


# -- a mask that takes numbers out of what a function has made of them


def misses(guess, truth):
    """Of each number by itself."""
    return (guess - truth).abs().pow(1.5)


@program("not_finite", check_nan=True)
def e_missing_depths_left_out_of_what_was_computed():
    """pytorch/pytorch#64305: the function is right, and so are its other callers."""
    sounder = nn.Linear(2, 3)
    optimizer = torch.optim.SGD(sounder.parameters(), lr=0.05)
    places, depths = torch.randn(16, 2), torch.randn(16, 3)
    depths[::3, 1] = float("nan")
    for _trip in range(3):
        known = ~depths.isnan()
        found = sounder(places)
        loss = misses(found, depths)[known].mean()  # culprit
        optimizer.zero_grad()
        loss.backward()  # victim
        optimizer.step()


@program(check_nan=True)
def e_legal_masks_of_missing_depths():
    """Taken out before."""
    sounder = nn.Linear(2, 3)
    optimizer = torch.optim.SGD(sounder.parameters(), lr=0.05)
    places, depths = torch.randn(16, 2), torch.randn(16, 3)
    depths[::3, 1] = float("nan")
    for _trip in range(3):
        known = ~depths.isnan()
        loss = misses(sounder(places)[known], depths[known]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


# -- a module with a backward, made where it is called


@program("backward_never_called")
def e_a_mirror_made_for_one_call():
    """hash2430/pitchtron#3: no variable holds such a module."""

    class Mirror(nn.Module):
        def __init__(self, strength):
            super().__init__()
            self.strength = strength

        def forward(self, x):
            return x.clone()

        def backward(self, gradient):  # culprit
            return -self.strength * gradient

    def turned_round(x, strength):
        return Mirror(strength)(x)

    body, guess, origin = nn.Linear(4, 3), nn.Linear(3, 2), nn.Linear(3, 2)
    optimizer = torch.optim.SGD([*body.parameters(), *guess.parameters(), *origin.parameters()], lr=0.1)
    for _week in range(3):
        felt = body(torch.randn(8, 4)).tanh()
        loss = F.cross_entropy(guess(felt), torch.randint(2, (8,)))
        loss = loss + F.cross_entropy(origin(turned_round(felt, 0.4)), torch.randint(2, (8,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()  # victim


@program()
def e_legal_mirrors():
    """A Function of its own; a class that nothing makes one of."""

    class Turned(torch.autograd.Function):
        @staticmethod
        def forward(_ctx, x):
            return x.clone()

        @staticmethod
        def backward(_ctx, gradient):
            return -gradient

    class Unused(nn.Module):
        def forward(self, x):
            return x

        def backward(self, gradient):
            return -gradient

    body = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(body.parameters(), lr=0.1)
    for _week in range(3):
        loss = Turned.apply(body(torch.randn(8, 4)).tanh()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return Unused.__name__


# -- a pass without anything to learn from: its loss is made of constants


@program("graph_cut", severity="error")
def e_an_empty_net_costs_a_constant():
    """RangiLyu/nanodet#7, with fish."""
    counts = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(counts.parameters(), lr=0.1)
    for caught in (4, 2, 0, 3):
        guess = counts(torch.randn(caught, 3))
        if caught:
            size, kind = guess.square().mean(), (guess - 1).abs().mean()
        else:
            size, kind = torch.zeros(()), torch.zeros(())  # culprit
        loss = size + 0.5 * kind
        optimizer.zero_grad()
        loss.backward()  # victim
        optimizer.step()


@program()
def e_legal_empty_nets():
    """What the model gave, times 0; passes that are left out."""
    counts = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(counts.parameters(), lr=0.1)
    for caught in (4, 2, 0, 3, -1):
        guess = counts(torch.randn(max(caught, 0), 3))
        loss = guess.square().mean() if caught > 0 else guess.sum() * 0 if caught == 0 else torch.zeros(())
        if loss.requires_grad:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


# -- a loop over all gradients, some of which are None


@program("never_reached", severity="error")
def e_gradients_averaged_of_a_door_that_is_shut():
    """MichiganCOG/ViP#21, with a sum over rooms."""
    house = nn.ModuleDict({"hall": nn.Linear(3, 2), "attic": nn.Linear(3, 2)})
    optimizer = torch.optim.SGD(house.parameters(), lr=0.1)
    for _day in range(2):
        x = torch.randn(6, 3)
        rooms = {name: room(x) for name, room in house.items()}
        optimizer.zero_grad()
        rooms["hall"].square().sum().backward()
        for weight in house.parameters():
            weight.grad.div_(len(x))  # culprit, victim
        optimizer.step()


@program()
def e_legal_loops_over_gradients():
    """Those that have none are passed over."""
    house = nn.ModuleDict({"hall": nn.Linear(3, 2), "attic": nn.Linear(3, 2)})
    optimizer = torch.optim.SGD(house["hall"].parameters(), lr=0.1)
    for _day in range(2):
        x = torch.randn(6, 3)
        rooms = {name: room(x) for name, room in house.items()}
        optimizer.zero_grad()
        rooms["hall"].square().sum().backward()
        for weight in house.parameters():
            if weight.grad is not None:
                weight.grad.div_(len(x))
        optimizer.step()
