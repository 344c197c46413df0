"""Losses given what they don't take, factors that are both 0, rows of NaN that were left out; rebuilt from reports."""

# ruff: noqa: B007  # they stay as people have written them

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # torch's own convention

from tests.data.programs import program

# -- probabilities, where a loss takes logits or logarithms


@program("loss_of_probabilities", node="SigmoidBackward0")
def j_discriminator_that_ends_in_a_sigmoid():
    """The loss was changed for the one with logits, and the last layer stayed."""

    class Discriminator(nn.Module):
        def __init__(self, width=16):
            super().__init__()
            self.layers = nn.Sequential(
                nn.Linear(6, width), nn.LeakyReLU(0.2), nn.Linear(width, width), nn.LeakyReLU(0.2), nn.Linear(width, 1)
            )
            self.out = nn.Sigmoid()

        def forward(self, x):
            return self.out(self.layers(x)).squeeze(1)  # culprit

    gen, disc = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 6)), Discriminator()
    opt_gen = torch.optim.Adam(gen.parameters(), lr=2e-3, betas=(0.5, 0.999))
    opt_disc = torch.optim.Adam(disc.parameters(), lr=2e-3, betas=(0.5, 0.999))
    adversarial = nn.BCEWithLogitsLoss()
    for step in range(4):
        real, fake = torch.randn(12, 6) + 2, gen(torch.randn(12, 3))
        guess = torch.cat([disc(real), disc(fake.detach())])
        loss_disc = adversarial(guess, torch.cat([torch.ones(12), torch.zeros(12)]))  # victim
        opt_disc.zero_grad()
        loss_disc.backward()
        opt_disc.step()
        loss_gen = adversarial(disc(fake), torch.ones(12))
        opt_gen.zero_grad()
        loss_gen.backward()
        opt_gen.step()


@program("loss_of_probabilities", node="SoftmaxBackward0")
def j_soils_whose_layers_end_in_a_softmax():
    """NaJaeMin92/pytorch-DANN#7, for soils by their colours: the container is called, its last layer is to go."""

    class Soils(nn.Module):
        def __init__(self, kinds=5):
            super().__init__()
            self.layers = nn.Sequential(
                nn.Linear(4, 8),
                nn.ReLU(),
                nn.Linear(8, kinds),
                nn.Softmax(dim=1),  # culprit
            )
            self.wet = nn.Sequential(nn.Linear(4, 1), nn.Sigmoid())

        def forward(self, colours):
            return self.layers(colours), self.wet(colours)

    soils = Soils()
    optimizer = torch.optim.Adam(soils.parameters(), lr=0.02)
    colours, kinds, wet = torch.rand(20, 4), torch.randint(0, 5, (20,)), torch.rand(20, 1).round()
    for step in range(3):
        guess, wetness = soils(colours)
        loss = F.cross_entropy(guess, kinds)  # victim
        optimizer.zero_grad()
        (loss + F.binary_cross_entropy(wetness, wet)).backward()
        optimizer.step()


@program()
def j_legal_soils_whose_layers_end_in_a_softmax():
    """Their logarithms are taken before the loss; a sigmoid at the end of a container is what this loss takes."""
    soils = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 5), nn.Softmax(dim=1))
    wet = nn.Sequential(nn.Linear(4, 1), nn.Sigmoid())
    optimizer = torch.optim.Adam([*soils.parameters(), *wet.parameters()], lr=0.02)
    colours, kinds = torch.rand(20, 4), torch.randint(0, 5, (20,))
    for step in range(3):
        loss = F.nll_loss((soils(colours) + 1e-8).log(), kinds)
        loss = loss + F.binary_cross_entropy(wet(colours), (colours.sum(1, keepdim=True) > 2).float())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program("loss_of_probabilities", node="SoftmaxBackward0")
def j_letters_decoded_into_probabilities():
    """A decoder that gives one step at a time; its loss wants logarithms (tutorials of sequence to sequence)."""
    letters, hidden = 9, 12
    embed, cell, out = nn.Embedding(letters, hidden), nn.GRUCell(hidden, hidden), nn.Linear(hidden, letters)
    parameters = [*embed.parameters(), *cell.parameters(), *out.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.3)
    criterion = nn.NLLLoss()

    def decode(words, state):
        steps = []
        for at in range(words.shape[1]):
            state = cell(embed(words[:, at]), state)
            steps.append(F.softmax(out(state), dim=-1))  # culprit
        return torch.stack(steps, dim=1)

    for epoch in range(4):
        words = torch.randint(0, letters, (8, 6))
        guesses = decode(words[:, :-1], torch.zeros(8, hidden))
        loss = criterion(guesses.reshape(-1, letters), words[:, 1:].reshape(-1))  # victim
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program("loss_of_probabilities", node="SoftmaxBackward0")
def j_cross_entropy_of_a_method_s_result():
    """Descent by hand, on an image in patches: each of them has its classes."""
    net = nn.Sequential(nn.Linear(12, 20), nn.Tanh(), nn.Linear(20, 5))
    weights = list(net.parameters())

    def forward(x):
        h = x - x.mean(-1, keepdim=True)
        return net(h).softmax(-1)  # culprit

    for step in range(5):
        patches, classes = torch.randn(6, 10, 12), torch.randint(0, 5, (6, 10))
        prob = forward(patches)
        loss = F.cross_entropy(prob.permute(0, 2, 1), classes, label_smoothing=0.1)  # victim
        grads = torch.autograd.grad(loss, weights, retain_graph=True)
        loss.backward()
        with torch.no_grad():
            for weight, grad in zip(weights, grads, strict=True):
                weight -= 0.5 * grad
                weight.grad = None


@program("loss_of_probabilities", node="SoftmaxBackward0")
def j_two_views_compared_by_their_probabilities():
    """Consistency of two noisy views, symmetric: neither side has the logarithm."""
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    divergence = nn.KLDivLoss(reduction="batchmean")
    for step in range(4):
        x, labels = torch.randn(16, 8), torch.randint(0, 4, (16,))
        first = net(x + 0.1 * torch.randn_like(x))
        second = net(x + 0.1 * torch.randn_like(x)).detach()
        p = torch.softmax(first / 2, dim=1)  # culprit
        q = torch.softmax(second / 2, dim=1)
        loss = F.cross_entropy(first, labels) + divergence(p, q)  # victim
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program()
def j_legal_logarithms_and_targets():
    """Each loss has what it takes: a teacher's probabilities as target, logarithms, logarithms of a mixture."""
    student, teacher = nn.Linear(8, 4), nn.Linear(8, 4)
    optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
    for step in range(3):
        x, labels = torch.randn(16, 8), torch.randint(0, 4, (16,))
        with torch.no_grad():
            soft = F.softmax(teacher(x) / 3, dim=1)
        logits = student(x)
        logs, p = F.log_softmax(logits / 3, dim=1), torch.softmax(logits, dim=1)
        loss = F.kl_div(logs, soft, reduction="batchmean") * 9 + F.nll_loss(logs, labels)
        loss = loss + F.cross_entropy(logits, soft) + F.cross_entropy(target=soft, input=logits, label_smoothing=0.1)
        loss = loss + F.kl_div(logs, soft.log(), log_target=True, reduction="batchmean")
        loss = loss + F.kl_div(soft.log(), p, reduction="batchmean")  # the other way round: it is the target
        loss = loss + F.nll_loss(torch.log(0.9 * p + 0.1 / 4), labels)
        loss = loss - 0.01 * (p * p.clamp_min(1e-9).log()).sum(1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return student.weight


@program()
def j_legal_probabilities_that_others_take():
    """Attention far before the loss, a gate, a loss of probabilities, logarithms given once more, what is only read."""
    scores, gate, out = nn.Linear(6, 1), nn.Linear(6, 6), nn.Linear(6, 3)
    binary = nn.Linear(6, 1)
    parameters = [p for each in (scores, gate, out, binary) for p in each.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    for step in range(3):
        words, labels = torch.randn(8, 5, 6), torch.randint(0, 3, (8,))
        attention = torch.softmax(scores(words), dim=1)
        pooled = (attention * words).sum(1) * torch.sigmoid(gate(words.mean(1)))
        logits = out(pooled)
        yes = torch.sigmoid(binary(pooled)).squeeze(1)
        loss = F.cross_entropy(logits, labels) + F.binary_cross_entropy(yes, (labels == 0).float())
        loss = loss + F.cross_entropy(F.log_softmax(logits, dim=1), labels)
        loss = loss + F.cross_entropy(16 * torch.sigmoid(logits) - 8, labels)
        loss = loss + F.binary_cross_entropy_with_logits(logits[:, 0] - logits[:, 1], yes.detach())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            seen = F.nll_loss(torch.softmax(out(pooled), dim=1), labels)  # the mean chance of the label, negated
    return seen


# -- a product of two factors that are both 0


@program("gradient_is_zero", node="MulBackward0")
def j_factors_that_begin_at_zero():
    """A factorisation whose tables both begin at 0; the biases learn alone."""
    users, items, rank = 30, 40, 6

    class Factors(nn.Module):
        def __init__(self):
            super().__init__()
            self.user, self.item = nn.Embedding(users, rank), nn.Embedding(items, rank)
            self.user_bias, self.item_bias = nn.Embedding(users, 1), nn.Embedding(items, 1)
            for table in (self.user_bias, self.item_bias):
                table.weight.data.normal_(0, 0.1)
            self.user.weight.data.zero_()
            self.item.weight.data.zero_()  # culprit

        def forward(self, user, item):
            score = (self.user(user) * self.item(item)).sum(1)
            return score + self.user_bias(user).squeeze(1) + self.item_bias(item).squeeze(1)

    model = Factors()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    taste, kind = torch.randn(users, 2), torch.randn(items, 2)
    for step in range(14):
        user, item = torch.randint(0, users, (64,)), torch.randint(0, items, (64,))
        loss = F.mse_loss(model(user, item), (taste[user] * kind[item]).sum(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program("gradient_is_zero", node="AddmmBackward0")
def j_a_head_that_is_all_zero():
    """Two layers of a head are both to begin without effect, so that the old policy comes back first."""
    torch.manual_seed(3)
    body = nn.Sequential(nn.Linear(6, 16), nn.Tanh())
    head = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 2))

    def initialise(layer):
        if isinstance(layer, nn.Linear):
            nn.init.constant_(layer.weight, 0.0)  # culprit
            nn.init.zeros_(layer.bias)

    head.apply(initialise)
    old = nn.Linear(6, 2)
    optimizer = torch.optim.Adam([*body.parameters(), *head.parameters()], lr=1e-2)
    for step in range(14):
        x = torch.randn(32, 6)
        with torch.no_grad():
            base = old(x)
        loss = (base + head(body(x)) - torch.sin(3 * x[:, :2])).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program()
def j_legal_one_factor_is_zero():
    """Adapters whose second half begins at 0, a residual branch with a factor of 0, a last layer of zeros."""

    class Adapter(nn.Module):
        def __init__(self, base, rank=2):
            super().__init__()
            self.base = base.requires_grad_(False)
            self.down = nn.Linear(base.in_features, rank, bias=False)
            self.up = nn.Linear(rank, base.out_features, bias=False)
            nn.init.zeros_(self.up.weight)

        def forward(self, x):
            return self.base(x) + self.up(self.down(x))

    class Branch(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.inside = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
            self.weight = nn.Parameter(torch.zeros(width))
            nn.init.zeros_(self.inside[0].bias)

        def forward(self, x):
            return x + self.weight * self.inside(x)

    net = nn.Sequential(Adapter(nn.Linear(8, 12)), nn.Tanh(), Branch(12), nn.Linear(12, 2))
    nn.init.zeros_(net[3].weight)
    optimizer = torch.optim.AdamW([p for p in net.parameters() if p.requires_grad], lr=1e-2)
    for step in range(14):
        x = torch.randn(32, 8)
        loss = F.mse_loss(net(x), x[:, :2].sin())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return net[2].weight


@program()
def j_legal_states_that_begin_at_zero():
    """A hidden state of zeros that is learned, queries that begin at 0, a table with a row for padding."""
    start, recurrent, read = nn.Parameter(torch.zeros(1, 10)), nn.Linear(10, 10, bias=False), nn.Linear(4, 10)
    queries, keys = nn.Parameter(torch.zeros(3, 10)), nn.Linear(10, 10)
    table, out = nn.Embedding(7, 4, padding_idx=0), nn.Linear(10, 2)
    modules = (recurrent, read, keys, table, out)
    optimizer = torch.optim.Adam([start, queries, *(p for each in modules for p in each.parameters())], lr=1e-2)
    for step in range(14):
        words, wanted = torch.randint(0, 7, (16, 5)), torch.randint(0, 2, (16,))
        state, seen = start.expand(16, -1), []
        for at in range(5):
            state = torch.tanh(recurrent(state) + read(table(words[:, at])))
            seen.append(state)
        seen = torch.stack(seen, 1)
        weights = torch.softmax(queries @ keys(seen).transpose(1, 2), -1)
        loss = F.cross_entropy(out((weights @ seen).mean(1)), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return queries


# -- rows of NaN that are left out, in a loop so long that its beginning is forgotten


@program("not_finite")
def j_nodes_without_neighbours():
    """Attention over a graph's neighbours; who has none is taken out, and brings NaN into every gradient."""

    class GraphAttention(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.q, self.k, self.v = (nn.Linear(width, width, bias=False) for _ in range(3))
            self.out = nn.Linear(width, width)

        def forward(self, h, adjacent):
            scores = self.q(h) @ self.k(h).t() / math.sqrt(h.shape[1])
            away = torch.zeros_like(scores).masked_fill(~adjacent, -math.inf)
            attention = F.softmax(scores + away, dim=-1)  # culprit
            return torch.relu(self.out(attention @ self.v(h)))

    embed, layer, score = nn.Linear(5, 12), GraphAttention(12), nn.Linear(12, 1)
    optimizer = torch.optim.Adam([p for m in (embed, layer, score) for p in m.parameters()], lr=1e-2)
    for epoch in range(60):
        features, adjacent = torch.randn(20, 5), torch.rand(20, 20) < 0.15
        adjacent[4] = False
        known = adjacent.any(1)
        guess = score(layer(embed(features), adjacent)).squeeze(1)
        loss = F.mse_loss(guess[known], features.sum(1)[known])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program("not_finite")
def j_choices_of_those_that_are_done():
    """Heads choose among what is left; who has nothing left is taken out by its place, steps are written by hand."""
    wq, wk, wv = ((torch.randn(8, 8) / 3).requires_grad_() for _ in range(3))
    head = torch.zeros(8, 1, requires_grad=True)
    torch.nn.init.normal_(head, std=0.3)
    weights = [wq, wk, wv, head]

    def choose(state, options, left):
        fits = torch.einsum("bd,bnd->bn", state @ wq, options @ wk)
        fits[~left] = float("-inf")  # instead
        chance = fits.softmax(dim=1)  # culprit
        return torch.einsum("bn,bnd->bd", chance, options @ wv)

    lr = 0.02
    for step in range(70):
        state, options = torch.randn(10, 8), torch.randn(10, 6, 8)
        left = torch.rand(10, 6) < 0.6
        left[2], left[0] = False, True
        busy = left.any(1).nonzero().squeeze(1)
        value = (choose(state, options, left) @ head).squeeze(1)
        loss = (value.index_select(0, busy) - state[busy].mean(1)).square().mean()
        for weight in weights:
            weight.grad = None
        loss.backward()
        for weight in weights:
            weight.data.sub_(weight.grad, alpha=lr)


@program()
def j_legal_rows_without_anything():
    """A large finite number masks them, or nothing is multiplied with what they give: then the mask takes it out."""
    q, k, v = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 6)
    optimizer = torch.optim.SGD([p for each in (q, k, v) for p in each.parameters()], lr=0.1)
    for step in range(60):
        x, seen = torch.randn(5, 6), torch.rand(5, 5) < 0.4
        seen[3] = False
        fits = q(x) @ k(x).t()
        some = seen.any(1)
        finite = fits.masked_fill(~seen, torch.finfo(fits.dtype).min).softmax(1) @ v(x)
        infinite = fits.masked_fill(~seen, -math.inf).softmax(1)
        loss = finite[some].square().mean() + infinite[some].square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return q.weight


class Sieve(nn.Module):
    """Which of a field's ten measurements tell its harvest: each has a gate, and few gates are to be open."""

    def __init__(self, few):
        super().__init__()
        self.gates = nn.Parameter(torch.zeros(10))
        self.held = nn.Parameter(torch.zeros(10))
        self.harvest, self.few = nn.Linear(10, 1), few

    def forward(self, field):
        return self.harvest(field * torch.sigmoid(self.gates))


def sieved(net, also, laps=4):
    """Trained to tell the harvest, by that and by how many gates are open."""
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    fields = torch.randn(24, 10)
    for _ in range(laps):
        loss = F.mse_loss(net(fields), fields[:, :1]) + 0.1 * also(net)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program("never_reached")
def lo_gates_that_are_counted_and_never_passed():
    """kumar-shridhar/PyTorch-BayesianCNN#7: what is held to be small isn't what the data go through."""

    class Counted(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.zeros(10))
            self.spread = nn.Parameter(torch.ones(10))
            self.harvest = nn.Linear(10, 1)

        def size(self):
            return (self.spread.square() / 0.3 - 1 - torch.log(self.spread.square())).sum()  # culprit

        def forward(self, field):
            return self.harvest(field * torch.exp(self.scale))

    counted = Counted()
    sieved(counted, lambda net: net.size())


@program("never_reached")
def lo_gates_of_another_name():
    """The count is of what no forward computes with."""
    sieve = Sieve(few=3)
    sieved(sieve, lambda net: (torch.sigmoid(net.held).sum() - net.few).square())  # culprit


@program()
def lo_legal_gates_that_are_counted_and_passed():
    """And a penalty on all of the net, of which one Parameter isn't used."""

    def also(net):
        every = sum(each.square().sum() for each in net.parameters())
        return (torch.sigmoid(net.gates).sum() - net.few).square() + every

    sieved(Sieve(few=3), also)


@program()
def lo_legal_a_prior_and_a_doubt_that_learn():
    """Each meets what the data go through: a prior's own middle, and how much a loss is doubted."""

    class Doubted(Sieve):
        def __init__(self):
            super().__init__(few=2)
            self.doubt = nn.Parameter(torch.zeros(()))

        def also(self):
            prior = (self.gates - self.held).square().sum() + 0.01 * self.held.square().sum()
            return prior + torch.exp(-self.doubt) * self.harvest.weight.square().mean() + self.doubt

    sieved(Doubted(), lambda net: net.also())


@program()
def lo_legal_a_loss_of_parameters_alone():
    """Nothing here meets data: two valleys, each with its own walker."""
    walkers = nn.ParameterList([torch.tensor(2.0), torch.tensor(-1.5)])
    optimizer = torch.optim.SGD(walkers.parameters(), lr=0.1)
    for _ in range(4):
        loss = (walkers[0] - 1).square() + (walkers[1] + 3).square()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
