"""Shapes that fit by chance: `(n,)` beside `(n, 1)`, a softmax of one number; and tables that are meant.

Rebuilt from what people report: values of PPO beside returns with a dimension more (RLinf#1568), Q values beside
rewards, masks without their channel; attention along the last dimension (KEQA_WSDM19#2), one output and cross_entropy.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # torch's own convention

from tests.data.programs import program


class Head(nn.Module):
    def __init__(self, features=4, out=1, flat=False):
        super().__init__()
        self.body, self.out, self.flat = nn.Linear(features, 8), nn.Linear(8, out), flat

    def forward(self, x):
        out = self.out(torch.tanh(self.body(x)))
        return out.squeeze(-1) if self.flat else out


def learn(model, loss_of, steps=3):
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(steps):
        opt.zero_grad()
        loss_of().backward()
        opt.step()


# -- each with all


@program("broadcast_crosswise")
def s_regression_beside_a_column():
    model, x = Head(), torch.randn(12, 4)
    y = x[:, 0] * 2 - x[:, 1]
    opt = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(3):
        prediction = model(x)
        loss = ((prediction - y) ** 2).mean()  # culprit
        opt.zero_grad()
        loss.backward()  # victim
        opt.step()


@program("broadcast_crosswise")
def s_huber_of_temporal_differences():
    """The action's value keeps the dimension that `gather` needs, what it's compared with has lost it."""
    model, target_net = Head(out=3), Head(out=3).requires_grad_(False)
    opt = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(3):
        state, after, reward = torch.randn(10, 4), torch.randn(10, 4), torch.randn(10)
        action = torch.randint(0, 3, (10, 1))
        value = model(state).gather(1, action)
        wanted = reward + 0.9 * target_net(after).amax(1)
        loss = F.smooth_l1_loss(value, wanted)  # culprit
        opt.zero_grad()
        loss.backward()  # victim
        opt.step()


def heat(flat):
    """How warm a house will be, held near to what was foretold before: RLinf#1568, with a boiler for a policy."""

    class Foreteller(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.warmth = nn.Linear(4, 8), nn.Linear(8, 1)

        def forward(self, x):
            return self.warmth(torch.tanh(self.body(x)))

    model, x = Foreteller(), torch.randn(11, 4)
    y = x[:, :1] * 2 - x[:, 1:2]
    with torch.no_grad():
        before = model(x)
    return model, (lambda: flat(model(x))), flat(before), flat(y)


@program("broadcast_crosswise")
def s_warmth_flattened_by_one_line():
    """Two lines stretch it: the one that took its dimension off is what they share."""
    model, foretell, before, y = heat(lambda each: each)
    opt = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(3):
        warm = foretell().squeeze(-1)  # culprit
        near = before + (warm - before).clamp(-0.2, 0.2)
        far = (y - warm).abs()
        loss = torch.max(far, (y - near).abs()).mean()
        opt.zero_grad()
        loss.backward()  # victim
        opt.step()


@program()
def s_legal_all_of_it_flattened():
    model, foretell, before, y = heat(lambda each: each.squeeze(-1))
    opt = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(3):
        warm = foretell()
        near = before + (warm - before).clamp(-0.2, 0.2)
        far = (y - warm).abs()
        opt.zero_grad()
        torch.max(far, (y - near).abs()).mean().backward()
        opt.step()


@program("broadcast_crosswise")
def s_policy_gradient_weighed_crosswise():
    policy, critic = Head(out=2), Head()
    opt = torch.optim.Adam([*policy.parameters(), *critic.parameters()], lr=0.01)
    for _ in range(3):
        state, gain = torch.randn(9, 4), torch.randn(9, 1)
        action = torch.randint(0, 2, (9,))
        log_prob = torch.distributions.Categorical(logits=policy(state)).log_prob(action)
        advantage = gain - critic(state)
        actor_loss = -(log_prob * advantage.detach()).mean()  # culprit
        opt.zero_grad()
        (actor_loss + advantage.pow(2).mean()).backward()  # victim
        opt.step()


@program("broadcast_crosswise")
def s_mask_without_its_channel():
    net = nn.Sequential(nn.Conv2d(1, 3, 3, padding=1), nn.ReLU(), nn.Conv2d(3, 1, 1))
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    images = torch.randn(4, 1, 6, 6)
    masks = (images[:, 0] > 0).float()
    for _ in range(2):
        opt.zero_grad()
        off = torch.sigmoid(net(images)) - masks  # culprit
        loss = off.abs().sum() / masks.numel()
        loss.backward()  # victim
        opt.step()


# -- a softmax of one number


@program("softmax_of_one")
def s_pooling_attention_over_the_wrong_dimension():
    class Pool(nn.Module):
        def __init__(self):
            super().__init__()
            self.score = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 1))
            self.out = nn.Linear(5, 2)

        def forward(self, h):
            weights = self.score(h).softmax(dim=2)  # culprit
            return self.out((weights * h).sum(1))

    model, x, y = Pool(), torch.randn(6, 7, 5), torch.randint(0, 2, (6,))
    opt = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(3):
        opt.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()  # victim
        opt.step()


@program("softmax_of_one")
def s_cross_entropy_with_one_output():
    model, x = Head(), torch.randn(8, 4)
    opt = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(3):
        out = model(x)
        loss = F.cross_entropy(out, torch.zeros(8, dtype=torch.long))  # culprit
        opt.zero_grad()
        loss.backward()  # victim
        opt.step()


@program("softmax_of_one")
def s_probabilities_of_one_channel():
    net = nn.Sequential(nn.Conv2d(1, 3, 3, padding=1), nn.ReLU(), nn.Conv2d(3, 1, 1))
    images = torch.randn(3, 1, 5, 5)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(2):
        probabilities = F.softmax(net(images) / 2, dim=1)  # culprit
        loss = F.binary_cross_entropy(probabilities, (images > 0).float())
        opt.zero_grad()
        loss.backward()  # victim
        opt.step()


# -- right


@program()
def t_every_pair_is_meant():
    """A ranking of all pairs, kernels of all distances, a table of squared lengths, a mean of an outer product."""
    model, x = Head(flat=True), torch.randn(7, 4)
    rank = torch.arange(7.0)
    later = rank.unsqueeze(1)
    codes = nn.Parameter(torch.randn(7, 4))

    def loss_of():
        score = model(x)
        column = score.view(-1, 1)
        wrong = torch.relu(column - score) * (later < rank)
        kernel = torch.exp(-((score[:, None] - rank) ** 2))
        length, other = x.pow(2).sum(1, keepdim=True), codes.pow(2).sum(1)
        distance = length + other - 2 * x @ codes.t()
        return wrong.mean() + kernel.mean() + distance.min(1).values.mean()

    opt = torch.optim.SGD([*model.parameters(), codes], lr=0.01)
    for _ in range(2):
        opt.zero_grad()
        loss_of().backward()
        opt.step()


@program()
def t_centres_beside_as_many_numbers():
    """Radial functions: as many centres as numbers, by chance; each row has its own weights."""
    model = Head(features=6)
    centres, widths = nn.Parameter(torch.linspace(-1, 1, 6)), nn.Parameter(torch.ones(6))

    def loss_of():
        x = torch.randn(6, 1)
        near = torch.exp(-((x - centres) ** 2) * widths.exp())
        return (model(near) - torch.sin(x)).pow(2).mean()

    opt = torch.optim.SGD([*model.parameters(), centres, widths], lr=0.01)
    for _ in range(2):
        opt.zero_grad()
        loss_of().backward()
        opt.step()


@program()
def t_shapes_that_are_one():
    model, flat, x = Head(), Head(flat=True), torch.randn(5, 4)
    y = torch.randn(5)

    def loss_of():
        weights = torch.softmax(model(x), dim=0)
        one = F.mse_loss(model(x[:1]), y[:1])
        own = ((flat(x) - y) ** 2 * weights.squeeze(1)).sum()
        return F.mse_loss(model(x).view(-1), y) + F.mse_loss(model(x), y.unsqueeze(1)) + one + own

    learn(nn.ModuleList([model, flat]), loss_of)


@program()
def t_attention_to_one_thing():
    """The first step of a decoder has one key, and so has a context of one token: nothing to choose from."""
    query, key, value = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)
    score = nn.Linear(4, 1)

    def loss_of():
        x, context = torch.randn(3, 5, 4), torch.randn(3, 1, 4)
        scores = query(x) @ key(context).transpose(1, 2) / 2
        pooled = (score(context).softmax(1) * context).sum(1)
        return (x + scores.softmax(-1) @ value(context)).pow(2).mean() + pooled.mean()

    learn(nn.ModuleList([query, key, value, score]), loss_of)


@program()
def t_one_score_a_neighbour():
    """Nodes with one neighbour now and then: along the dimension that is meant."""
    score, out = nn.Linear(4, 1), nn.Linear(4, 1)

    def loss_of():
        total = torch.zeros(())
        for count in (1, 3, 2):
            near = torch.randn(2, count, 4)
            total = total + out((score(near).softmax(1) * near).sum(1)).pow(2).mean()
        return total

    learn(nn.ModuleList([score, out]), loss_of)
