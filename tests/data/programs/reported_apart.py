"""Programs rebuilt from reports: what is trained, compared or kept isn't the thing that the line beside it means.

Modules that no module knows of, one that stands in several places, a copy that the optimiser doesn't hold, a target
that is too wide or has a history, what is kept when only its numbers were wanted. Each stands in another dress.
"""

from __future__ import annotations

import copy
import itertools

import torch
from torch import nn
from torch.distributions import Independent, Normal
from torch.nn import functional as F  # noqa: N812  # torch's own convention

from tests.data.programs import program

# -- an optimiser that is given nothing


class Rung(nn.Module):
    """A step of a ladder of features."""

    def __init__(self, size):
        super().__init__()
        self.mix = nn.Linear(size, size)

    def forward(self, x):
        return x + torch.tanh(self.mix(x))


def fitted(model, laps=6, size=4):
    """A few steps towards the sums of rows."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)  # victim
    for _lap in range(laps):
        x = torch.randn(8, size)
        loss = (model(x).sum(1) - x.sum(1)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program("no_optimiser_holds_it", severity="error")
def ap_rungs_of_a_ladder_in_a_tuple():
    """pyg-team/pytorch_geometric#7478: nothing is registered, so `parameters()` is empty."""

    class Ladder(nn.Module):
        def __init__(self, rungs=3):
            super().__init__()
            self.rungs = tuple(Rung(4) for _ in range(rungs))  # culprit

        def forward(self, x):
            for rung in self.rungs:
                x = rung(x)
            return x

    fitted(Ladder())


@program("no_optimiser_holds_it", severity="error")
def ap_gains_that_are_plain_tensors():
    """Tensors that require grad, and no Parameter among them."""

    class Gains(nn.Module):
        def __init__(self):
            super().__init__()
            self.gain = torch.ones(4, requires_grad=True)  # culprit

        def forward(self, x):
            return x * self.gain

    fitted(Gains())


@program("no_optimiser_holds_it", severity="error")
def ap_rungs_that_are_made_in_every_call():
    """Nothing is an attribute; the activation beside them would learn nothing anyway."""

    class Ladder(nn.Module):
        def __init__(self, size=4):
            super().__init__()
            self.size, self.bends = size, nn.Tanh()

        def forward(self, x):
            bend = nn.Sequential(nn.Dropout(0.1), self.bends)
            low = nn.Linear(self.size, self.size)(x)  # culprit
            return bend(Rung(self.size)(low))

    fitted(Ladder())


@program("no_optimiser_holds_it", severity="error")
def ap_a_layer_that_init_lets_go():
    """Its name is a variable's, and gone when `__init__` is; the loss beside it has no Parameter and needs none."""

    class Apart(nn.Module):
        def __init__(self):
            super().__init__()
            far = nn.MSELoss()
            self.far = far

        def forward(self, x):
            loss = nn.MSELoss()
            return self.far(x, x) + loss(x, x)

    class Gains(nn.Module):
        def __init__(self):
            super().__init__()
            gain = nn.Linear(4, 4, bias=False)  # culprit
            self.width = gain.weight.shape[0]

        def forward(self, x):
            return x * self.width

    apart = Apart()
    fitted(Gains(), laps=round(apart(torch.zeros(1)).item()))


@program("no_optimiser_holds_it", severity="error")
def ap_an_init_that_nobody_calls():
    """One underscore too few on each side."""

    class Gains(nn.Module):
        def _init_(self):  # culprit
            super().__init__()
            self.gain = nn.Linear(4, 4)

        def forward(self, x):
            return self.gain(x)

    fitted(Gains())


@program("no_optimiser_holds_it", severity="error")
def ap_a_choice_among_parameters_that_is_empty():
    """Nothing tells what was meant to be in it: the line that is refused is named."""
    model = Rung(4)
    learned = (each for each in model.parameters() if each.dim() > 5)
    optimizer = torch.optim.SGD(learned, lr=0.1)  # culprit, victim
    for _lap in range(2):
        optimizer.zero_grad()
        model(torch.randn(5, 4)).pow(2).mean().backward()
        optimizer.step()


@program("no_optimiser_holds_it")
def ap_centres_that_each_call_normalises_into_new_ones():
    """As long as it takes for the first of them to be forgotten."""

    class Margin(nn.Module):
        def __init__(self):
            super().__init__()
            self.centres = nn.Linear(3, 5, bias=False)

        def of_length_one(self, rows):
            return F.normalize(rows, dim=1)

        def forward(self, x):
            x = self.of_length_one(x)
            self.centres.weight = nn.Parameter(self.of_length_one(self.centres.weight))  # culprit
            return 8 * self.centres(x)

    sees, margin = nn.Linear(4, 3), Margin()
    optimizer = torch.optim.Adam([*sees.parameters(), *margin.parameters()], lr=0.01)
    for _lap in range(70):
        optimizer.zero_grad()
        F.cross_entropy(margin(sees(torch.randn(10, 4))), torch.arange(10) % 5).backward()
        optimizer.step()  # victim


@program()
def ap_legal_ladders():
    """A ModuleList; a plain list beside it that lists the same modules; a module without any Parameter of its own."""

    class Ladder(nn.Module):
        def __init__(self, rungs=2):
            super().__init__()
            self.rungs = nn.ModuleList(Rung(4) for _ in range(rungs))
            self.order = [*self.rungs, nn.ReLU()]
            self.act = nn.Tanh()

        def forward(self, x):
            for rung in self.order:
                x = rung(x)
            return self.act(x) * 4

    fitted(Ladder())


# -- one module in several places of a call's arguments


@program("one_module_twice")
def ap_one_rung_in_every_place_of_a_tower():
    """linkedin/Liger-Kernel#269: the list is multiplied in the call that builds each tower, before another layer."""

    class Towers(nn.Module):
        def __init__(self, towers=2, depth=3):
            super().__init__()
            self.towers = nn.ModuleList(
                [
                    nn.Sequential(
                        nn.Linear(4, 4),
                        *([Rung(4)] * depth),  # culprit
                        nn.Linear(4, 4, bias=False),
                    )
                    for _ in range(towers)
                ]
            )

        def forward(self, x):
            return sum(tower(x) for tower in self.towers)

    model = Towers()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    for _lap in range(4):
        x = torch.randn(8, 4)
        loss = (model(x).sum(1) - x.sum(1)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()  # victim


@program()
def ap_legal_towers():
    """An activation that stands in many places; a layer that comes again later on; sizes of a repeated list."""
    act, tied = nn.ReLU(), nn.Linear(4, 4)
    widths = [4] * 3
    tower = nn.Sequential(
        *[nn.Linear(a, b) for a, b in itertools.pairwise(widths)],
        *([act] * 2),
        tied,
        act,
        tied,
        nn.Linear(4, 4),
    )
    fitted(tower)


# -- a copy of what the optimiser holds


@program("no_optimiser_holds_it")
def ap_a_temperature_converted_after_its_optimiser_was_made():
    """ray-project/ray#11294: the optimiser steps the leaf, and what is read is its copy of another dtype."""

    class Ranker:
        def __init__(self):
            self.score = nn.Linear(3, 1)
            self.heat = torch.zeros(1, dtype=torch.float64, requires_grad=True)
            held = [*self.score.parameters(), self.heat]
            self.optimizer = torch.optim.Adam(held, lr=0.02)
            for name in ("heat",):
                setattr(self, name, getattr(self, name).to(torch.float32))  # culprit

        def step(self, pages, clicks):
            logits = self.score(pages).squeeze(1) * self.heat.exp()
            loss = F.binary_cross_entropy_with_logits(logits, clicks)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()  # victim

    ranker = Ranker()
    for _lap in range(5):
        ranker.step(torch.randn(8, 3), torch.rand(8).round())


@program()
def ap_legal_temperatures():
    """Converted before the optimiser was made, in each forward, or in its own place; a view, a copy to look at."""
    early = torch.zeros(1, dtype=torch.float64).to(torch.float32).requires_grad_()
    late = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    own = torch.zeros(1, requires_grad=True)
    seen_as = own.view(1, 1)
    score = nn.Linear(3, 1)
    optimizer = torch.optim.SGD([*score.parameters(), early, late, own], lr=0.05)
    own.data = own.data.to(torch.float32)
    first = late.detach().clone()
    for _lap in range(4):
        heat = (late.to(torch.float32) + early + seen_as[0]).exp()
        loss = F.binary_cross_entropy_with_logits(score(torch.randn(8, 3)).squeeze(1) * heat, torch.rand(8).round())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        assert first.dtype is torch.float64


@program()
def ap_legal_copies_in_two_parts():
    """A copy with its graph that two backward calls share, one lap long."""
    weight = torch.ones(4, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.05)
    for _lap in range(3):
        optimizer.zero_grad()
        single = weight.to(torch.float32)
        for _part in range(2):
            (single * torch.randn(4)).sum().backward()
        optimizer.step()


# -- a prediction that a loss stretches


class Skipper(nn.Module):
    """Steers two sails by one wind."""

    def __init__(self, *, whole):
        super().__init__()
        self.mean, self.spread = nn.Linear(3, 2), nn.Parameter(torch.zeros(2))
        self.whole = whole

    def forward(self, wind):
        sails = Normal(self.mean(wind), self.spread.exp())
        sails = Independent(sails, 1) if self.whole else sails
        drawn = sails.rsample()
        weight = sails.log_prob(drawn)  # culprit
        return drawn, weight


def sailed(skipper, shaped):
    """A critic of one number a row, towards what the skipper's entropy makes of it."""
    critic = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(critic.parameters(), lr=0.01)
    for _lap in range(4):
        wind = torch.randn(6, 3)
        with torch.no_grad():
            drawn, weight = skipper(wind)
            wanted = critic(torch.cat([wind, drawn], 1)) - 0.1 * shaped(weight)  # instead
        estimate = critic(torch.cat([wind, drawn], 1))
        loss = F.mse_loss(estimate, wanted)
        optimizer.zero_grad()
        loss.backward()  # victim
        optimizer.step()
    return critic


@program("broadcast_crosswise")
def ap_sails_whose_densities_are_not_summed():
    """sunwuzhou03/reinforcement-learning-lab#1: a log-probability of each sail beside one value of the whole."""
    critic = sailed(Skipper(whole=False), lambda weight: weight)
    assert len(critic) == 3


@program("broadcast_crosswise", tensor="estimate")
def ap_one_estimate_for_all_hours():
    """Nothing says where the width came from: the line of the loss is named."""
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _lap in range(3):
        day, hours = torch.randn(6, 3), torch.rand(6, 4)
        estimate = model(day)
        loss = F.smooth_l1_loss(estimate, hours)  # culprit
        optimizer.zero_grad()
        loss.backward()  # victim
        optimizer.step()


@program()
def ap_legal_sails():
    """The whole is one event, by the distribution; a wide prediction towards one number of each row; one number."""
    sailed(Skipper(whole=True), lambda weight: weight.unsqueeze(1))
    model = nn.Linear(3, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _lap in range(3):
        loss = F.mse_loss(model(torch.randn(6, 3)), torch.rand(6, 1)) + F.mse_loss(model.bias.sum(), torch.rand(1)[0])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


# -- a weight that a Function has fetched in inference mode, and keeps


class Fetched:
    """Hands out a whole weight, and keeps it until it is let go of."""

    def __init__(self, weight):
        self.weight, self.whole = weight, None

    def fetch(self):
        if self.whole is None:
            self.whole = torch.cat(self.weight.detach().chunk(2))
        return self.whole


class ByFetched(torch.autograd.Function):
    """A linear layer by a weight that is fetched."""

    @staticmethod
    def forward(ctx, x, held):
        whole = held.fetch()
        ctx.save_for_backward(whole)
        return x @ whole.t()

    @staticmethod
    def backward(ctx, grad):
        (whole,) = ctx.saved_tensors
        return grad @ whole, None


@program("inference_tensor")
def ap_a_fetched_weight_is_kept_from_an_evaluation():
    """snowflakedb/ArcticTraining#265: the Function's own call is refused, of which torch tells no tensor."""
    entry, held = nn.Linear(3, 4), Fetched(torch.randn(6, 4))

    @torch.inference_mode()  # culprit
    def evaluated(x):
        return ByFetched.apply(entry(x), held).mean()

    evaluated(torch.randn(5, 3))
    optimizer = torch.optim.SGD(entry.parameters(), lr=0.1)
    for _lap in range(2):
        loss = ByFetched.apply(entry(torch.randn(5, 3)), held).pow(2).mean()  # victim
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


# -- a target with the history of another loss


@program("graph_freed", tensor="wanted")
def ap_a_value_s_target_of_the_moves_that_are_trained():
    """pytorch/rl#1187: moves of this state and of the next come of one call, and the target is made of the latter."""
    player, judge = nn.Linear(3, 2), nn.Linear(5, 1)
    judge_before = copy.deepcopy(judge).requires_grad_(requires_grad=False)
    plays = torch.optim.Adam(player.parameters(), lr=0.01)
    judges = torch.optim.Adam(judge.parameters(), lr=0.01)
    for _lap in range(3):
        state, after = torch.randn(2, 8, 3)
        moves = torch.tanh(player(torch.stack([state, after])))
        loss_moves = -judge(torch.cat([state, moves[0]], 1)).mean()
        wanted = 0.3 + 0.9 * judge_before(torch.cat([after, moves[1]], 1))  # culprit
        loss_values = F.mse_loss(judge(torch.cat([state, moves[0].detach()], 1)), wanted)
        plays.zero_grad()
        loss_moves.backward()
        plays.step()
        judges.zero_grad()
        loss_values.backward()
        judges.step()


@program("graph_freed")
def ap_wishes_kept_by_their_key():
    """lululxvi/deepxde#2077: what a function has computed by a Parameter is put by and handed out in each step."""
    tilt = nn.Parameter(torch.tensor(0.5))
    model = nn.Linear(1, 1)

    def remembering(compute):
        known = {}

        def wrapper(key, x):
            if key not in known:
                known[key] = compute(x)
            return known[key]

        return wrapper

    wished = remembering(lambda x: torch.sin(tilt * x))
    optimizer = torch.optim.Adam([tilt, *model.parameters()], lr=0.01)
    x = torch.rand(8, 1)
    for _lap in range(3):
        wish = wished("x", x)
        loss = (model(x) - wish).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program("result_copied")
def ap_shares_kept_to_look_at():
    """sktime/sktime#10928: the attribute has the name of the variable, and the line that sets it is the one."""

    class Sharing(nn.Module):
        def __init__(self):
            super().__init__()
            self.ask = nn.Linear(3, 4)

        def forward(self, x):
            shares = torch.softmax(self.ask(x), dim=-1)
            self.shares = shares  # culprit
            return shares

    model = Sharing()
    model(torch.randn(5, 3)).var().backward()
    copy.deepcopy(model)  # victim


@program("graph_cut", severity="error")
def ap_a_margin_returned_where_a_loss_is_unpacked():
    """bnu-wangxun/Deep_Metric#26: the loss comes last, and the caller takes the first."""

    def measured(scores):
        widest = 0.0
        for row in scores:
            widest += row.max().item()
        loss = scores.pow(2).mean()
        return widest, loss  # culprit

    model = nn.Linear(3, 2)
    loss, _width = measured(model(torch.randn(4, 3)))
    loss.backward()  # victim


# -- a list of Parameters that is one of two on the line that makes the optimisers


@program("no_optimiser_holds_it")
def ap_a_list_that_takes_one_half_alone():
    """line/open-universe#5: two optimisers come of one line, each of a list of its own."""
    forger, eye, ear = nn.Linear(3, 3), nn.Linear(3, 1), nn.Linear(3, 1)
    makes = list(forger.parameters())
    finds = list(ear.parameters())  # culprit
    forging, finding = torch.optim.AdamW(makes, lr=0.01), torch.optim.AdamW(finds, lr=0.01)
    for _lap in range(4):
        true, false = torch.randn(6, 3) + 1, forger(torch.randn(6, 3))
        both = [(1 - each(true)).pow(2).mean() + each(false.detach()).pow(2).mean() for each in (eye, ear)]
        finding.zero_grad()
        sum(both).backward()
        finding.step()  # victim
        forging.zero_grad()
        sum((1 - each(false)).pow(2).mean() for each in (eye, ear)).backward()
        forging.step()


@program()
def ap_legal_things_that_are_kept():
    """A cache of what no Parameter is needed for; a target that is detached; shares kept as numbers; two in order."""
    model, judge = nn.Linear(3, 2), nn.Linear(3, 2)
    known = {}

    def remembered(key):
        if key not in known:
            known[key] = torch.eye(3)[key]
        return known[key]

    def judged(scores):
        return scores.pow(2).mean(), scores.max().item()

    optimizer = torch.optim.SGD([*model.parameters(), *judge.parameters()], lr=0.05)
    for lap in range(4):
        x = remembered(lap % 3).expand(4, 3) + 0.1 * torch.randn(4, 3)
        shares = torch.softmax(model(x), dim=-1)
        model.shares = shares.detach()
        wanted = judge(x).softmax(-1).detach()
        loss, _widest = judged(shares - wanted)
        loss = loss + F.mse_loss(judge(x), shares.detach())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        copy.deepcopy(model)


# -- one term after another under one name


class Guess(nn.Module):
    """A layer whose weights are guessed: what it makes, and how far its guess is from where it began."""

    def __init__(self, size):
        super().__init__()
        self.mean, self.spread = nn.Parameter(torch.randn(size, size) * 0.3), nn.Parameter(torch.zeros(size, size))

    def forward(self, x):
        weight = self.mean + 0.1 * self.spread.exp() * torch.randn_like(self.mean)
        return x @ weight, self.distance()

    def distance(self):
        return 0.5 * (self.spread.exp() + self.mean.pow(2) - 1 - self.spread).sum()


def guessed(forward, laps=4):
    """A few steps with two guessed layers and a third."""
    layers, last = nn.ModuleList(Guess(3) for _ in range(2)), Guess(3)
    optimizer = torch.optim.SGD([*layers.parameters(), *last.parameters()], lr=0.01)
    for _lap in range(laps):
        x = torch.randn(6, 3)
        out, far = forward(layers, last, x)
        loss = (out - x.roll(1, 1)).pow(2).mean() + 0.01 * far
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()  # victim
    return nn.ModuleList([*layers, last])


@program("result_dropped")
def ap_distances_given_over_by_the_last():
    """kumar-shridhar/PyTorch-BayesianCNN#25: only the last layer's distance is added."""

    def forward(layers, last, x):
        far = 0
        for layer in layers:
            x, _far = layer(x)  # culprit
        x, _far = last(torch.tanh(x))
        far += _far
        return x, far

    learned = guessed(forward)
    assert len(learned) == 3


@program()
def ap_legal_distances():
    """Each is added; each is kept; it's the last one's that is wanted, of layers that lie behind it."""

    def adding(layers, last, x):
        far = 0
        for layer in [*layers, last]:
            x, own = layer(x)
            far = far + own
        return x, far

    def listing(layers, last, x):
        each = []
        for layer in layers:
            x, own = layer(x)
            each.append(own)
        x, own = last(x)
        return x, sum(each, own)

    guessed(adding)
    guessed(listing)
    rise = nn.ModuleList(nn.Linear(3, 3) for _ in range(3))
    optimizer = torch.optim.SGD(rise.parameters(), lr=0.05)

    def missed(x):
        return x.pow(2).mean()

    for _lap in range(3):
        x = torch.randn(6, 3)
        for layer in rise:
            x = torch.tanh(layer(x))
            loss = missed(x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


# -- an average of weights, in 16 bits


def averaged(dtype, share, laps=80):
    """A calm average beside what is trained."""
    model = nn.Linear(6, 4)
    calm = copy.deepcopy(model).to(dtype).requires_grad_(requires_grad=False)  # culprit
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    for _lap in range(laps):
        x = torch.randn(8, 6)
        loss = (model(x) - x[:, :4]).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for ours, theirs in zip(calm.parameters(), model.parameters(), strict=True):
                ours.lerp_(theirs.to(dtype), share)  # victim
    return calm.float()


@program("step_rounded_away")
def ap_an_average_that_is_rounded_away():
    """d8ahazard/sd_dreambooth_extension#1417: each time the average takes less than 16 bits can tell apart."""
    calm = averaged(torch.bfloat16, 0.0005)
    assert calm.weight.dtype is torch.float32


@program()
def ap_legal_averages():
    """In 32 bits; by a share that 16 bits can tell apart, though not of weights that have only begun to move."""
    averaged(torch.float32, 0.0005)
    averaged(torch.bfloat16, 0.2)
    averaged(torch.bfloat16, 0.02)


# -- an earlier layer that is drawn to a later one


class Storeys(nn.Module):
    """What each storey of a house hands out: the later is made of the earlier."""

    def __init__(self):
        super().__init__()
        self.storeys = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    def forward(self, x):
        each = []
        for storey in self.storeys:
            x = torch.tanh(storey(x))
            each.append(x)
        return each


def matched(compared):
    """The last storey learns its classes, the others what the last says."""
    model = Storeys()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _lap in range(4):
        *early, last = model(torch.randn(8, 4))
        loss = F.cross_entropy(4 * last, torch.randint(0, 4, (8,))) + sum(compared(each, last) for each in early)
        optimizer.zero_grad()
        loss.backward()  # victim
        optimizer.step()
    return model


@program("target_learns_too")
def ap_storeys_that_draw_the_last_to_them():
    """huggingface/sentence-transformers#3880: the last layer's distribution is no target alone, but learns as well."""

    def compared(early, last):
        taught = F.softmax(last / 2, dim=-1)  # culprit
        return F.kl_div(F.log_softmax(early / 2, dim=-1), taught, reduction="batchmean")

    model = matched(compared)
    assert len(model.storeys) == 3


@program()
def ap_legal_storeys():
    """A target without its history; two that meet half way; two forwards with dropout that are drawn to each other."""

    def taught(early, last):
        return F.kl_div(F.log_softmax(early, dim=-1), F.softmax(last.detach(), dim=-1), reduction="batchmean")

    def half_way(early, last):
        middle = (F.softmax(early, dim=-1) + F.softmax(last, dim=-1)) / 2
        both = (F.kl_div(F.log_softmax(each, dim=-1), middle, reduction="batchmean") for each in (early, last))
        return sum(both)

    matched(taught)
    matched(half_way)
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.3), nn.Linear(8, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _lap in range(3):
        x = torch.randn(6, 4)
        one, other = model(x), model(x)
        loss = F.kl_div(F.log_softmax(one, -1), F.softmax(other, -1), reduction="batchmean")
        loss = loss + F.kl_div(F.log_softmax(other, -1), F.softmax(one, -1), reduction="batchmean")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
