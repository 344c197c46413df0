"""What torch refuses for what was done long before: a draw, a table that is sparse, a flag set late, a dtype, features.

Each stands in another dress than the program that it was rebuilt from.
"""

from __future__ import annotations

import random
from contextlib import suppress

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # torch's own convention
from torch.utils.checkpoint import checkpoint

from tests.data.programs import program

# -- a checkpoint whose second run takes another way


@program("recomputed_otherwise", severity="error")
def a_layers_of_an_encoder_dropped_by_python():
    """LayerDrop of a speech encoder, decided before the layer's own `if`."""
    random.seed(5)

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.mix = nn.Sequential(nn.LayerNorm(6), nn.Linear(6, 6), nn.GELU())

        def forward(self, frames):
            skipped = random.random() < 0.5  # noqa: S311  # its subject  # culprit
            if skipped:
                return frames
            return frames + self.mix(frames)

    layers = nn.ModuleList([Layer() for _ in range(6)])
    optimizer = torch.optim.SGD(layers.parameters(), lr=0.05)
    for _ in range(3):
        frames = torch.randn(4, 6)
        for layer in layers:
            frames = checkpoint(layer, frames, use_reentrant=False)
        loss = frames.pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program("recomputed_otherwise", severity="error")
def a_contrast_of_a_patch_drawn_by_numpy():
    """Another op comes in its place, not fewer."""
    rng = np.random.default_rng(11)

    def stretched(patch):
        if rng.random() < 0.5:  # culprit
            patch = torch.sigmoid(patch)
        return torch.tanh(tone(patch)).exp()

    tone = nn.Linear(5, 5)
    optimizer = torch.optim.SGD(tone.parameters(), lr=0.05)
    for _ in range(6):
        patch = torch.randn(3, 5, requires_grad=True)
        loss = checkpoint(stretched, patch, use_reentrant=False).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program("recomputed_otherwise", severity="error")
def a_refinement_that_ends_once_it_was_seen():
    """What a run counts decides how the next one ends."""

    class Refine(nn.Module):
        def __init__(self):
            super().__init__()
            self.rough, self.fine, self.runs = nn.Linear(4, 4), nn.Linear(4, 4), 0

        def forward(self, depth):
            self.runs += 1
            depth = torch.tanh(self.rough(depth))
            if self.runs % 2 == 0:  # culprit
                return depth
            return torch.sigmoid(self.fine(depth)).exp()

    net = Refine()
    checkpoint(net, torch.randn(2, 4), use_reentrant=False).mean().backward()


@program()
def a_legal_ways_that_are_drawn_the_same():
    """By torch, and before the checkpoint; one by Python that only looks."""
    random.seed(7)
    seen = []

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.mix = nn.Linear(6, 6)

        def forward(self, x, keep):
            if random.random() < 0.5:  # noqa: S311  # only looks
                seen.append(x.detach().mean())
            if not keep or torch.rand(()).item() < 0.3:
                return x
            return x + torch.tanh(self.mix(x))

    layers = nn.ModuleList([Layer() for _ in range(4)])
    optimizer = torch.optim.SGD(layers.parameters(), lr=0.05)
    for _ in range(3):
        x = torch.randn(4, 6, requires_grad=True)
        for layer in layers:
            kept = random.random() < 0.8  # noqa: S311  # before the checkpoint
            x = checkpoint(layer, x, kept, use_reentrant=False)
        optimizer.zero_grad()
        x.pow(2).mean().backward()
        optimizer.step()


# -- sparse gradients


@program("sparse_gradient")
def a_bags_of_words_for_an_optimiser_of_dense_ones():
    class Topics(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.EmbeddingBag(30, 6, mode="mean", sparse=True)  # culprit
            self.out = nn.Linear(6, 3)

        def forward(self, text):
            return self.out(self.words(text))

    net = Topics()
    optimizer = torch.optim.RMSprop(net.parameters(), lr=0.01)
    for _ in range(2):
        loss = F.cross_entropy(net(torch.randint(0, 30, (8, 5))), torch.randint(0, 3, (8,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()  # victim


@program("sparse_gradient")
def a_rows_of_a_table_looked_up_by_hand():
    """The Parameter is a plain one: the call that looks up says that its gradient is sparse."""
    table = nn.Parameter(torch.randn(20, 4))
    optimizer = torch.optim.AdamW([table], lr=0.01)
    for _ in range(2):
        ends = torch.randint(0, 20, (2, 8))
        heads, tails = F.embedding(ends, table, sparse=True)  # culprit
        loss = F.softplus(-(heads * tails).sum(1)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()  # victim


@program()
def a_legal_sparse_tables_and_who_takes_them():
    words, out = nn.Embedding(20, 4, sparse=True), nn.Linear(4, 2)
    steps = torch.optim.SparseAdam(words.parameters(), lr=0.01), torch.optim.Adam(out.parameters(), lr=0.01)
    places = nn.EmbeddingBag(20, 2, sparse=True)
    plain = torch.optim.SGD(places.parameters(), lr=0.1)
    for _ in range(3):
        ids = torch.randint(0, 20, (8,))
        loss = F.cross_entropy(out(words(ids)) + places(ids[:, None]), ids % 2)
        for each in (*steps, plain):
            each.zero_grad()
        loss.backward()
        for each in (*steps, plain):
            each.step()


# -- a flag that comes after the first use


@program("unused_input")
def a_charge_of_a_field_that_was_there_before():
    """The field is minus the slope of the potential: the places are to require grad before the distances are taken."""
    sources = torch.randn(3, 2)

    def distances(places):
        return (places[:, None] - sources).norm(dim=-1)

    charges = nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([charges], lr=0.05)
    for _ in range(2):
        places = torch.randn(6, 2)
        far = distances(places)
        places.requires_grad_()  # culprit
        potential = (charges / (1 + far)).sum()
        (field,) = torch.autograd.grad(potential, places, create_graph=True)  # victim
        loss = (field - 0.1).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program("unused_input")
def a_pixels_asked_for_after_the_features():
    """The features have a graph, by their weights, and none that leads to the image."""
    net, head = nn.Conv2d(1, 2, 3), nn.Linear(2, 1)
    image = torch.rand(1, 1, 6, 6)
    features = torch.relu(net(image)).mean((2, 3))
    image.requires_grad = True  # culprit
    score = head(features).sum()
    (slope,) = torch.autograd.grad(score, image)  # victim
    assert slope.shape == image.shape


@program("graph_cut", severity="error")
def a_noise_that_is_to_be_learnt_after_all():
    """Nothing else requires grad, so that the loss has no graph."""
    image, noise = torch.rand(5), torch.zeros(5)
    shown = (image + noise).clamp(0, 1)
    noise.requires_grad_()  # culprit
    loss = (shown - 0.5).pow(2).sum()
    loss.backward()  # victim


@program()
def a_legal_flags_that_come_in_time():
    """Used before without it, and then once more; a body, in the optimiser already, that is thawed when all is done."""
    net, head = nn.Linear(3, 4).requires_grad_(False), nn.Linear(4, 1)
    optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
    places = torch.randn(4, 3)
    with torch.no_grad():
        before = head(net(places)).mean()
    places.requires_grad_()
    for _ in range(2):
        score = head(torch.tanh(net(places))).mean()
        (slope,) = torch.autograd.grad(score, places, create_graph=True)
        optimizer.zero_grad()
        (score + slope.pow(2).sum()).backward()
        optimizer.step()
    body = nn.Linear(3, 4).requires_grad_(False)
    later = torch.optim.SGD([*head.parameters(), *body.parameters()], lr=0.1)
    for _ in range(2):
        loss = head(torch.tanh(body(torch.randn(4, 3)))).pow(2).mean()
        later.zero_grad()
        loss.backward()
        later.step()
    for each in body.parameters():
        each.requires_grad = True
    return before


# -- a flag that whole numbers can't have


@program("flag_of_integers")
def a_stations_drawn_with_a_gradient():
    """pytorch#45210, for the stations of a bus: what is drawn only chooses rows."""
    places, score = nn.Embedding(30, 4), nn.Linear(8, 1)
    optimizer = torch.optim.SGD([*places.parameters(), *score.parameters()], lr=0.1)
    begin = torch.randint(0, 30, (6,), requires_grad=True)  # culprit
    end = torch.randint(0, 30, (6,))
    for _ in range(2):
        pair = torch.cat([places(begin), places(end)], dim=1)
        loss = score(pair).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program("flag_of_integers")
def a_prices_written_as_whole_numbers():
    """The prices are what is to be learnt."""
    prices = torch.tensor([3, 5, 2], requires_grad=True)  # culprit
    sold = torch.tensor([10.0, 4.0, 7.0])
    for _ in range(2):
        loss = (prices * sold).sum().sub(80).square()
        loss.backward()


@program("flag_of_integers", tensor="weights")
def a_parts_of_a_mixture_read_from_a_table():
    """Counted in a table, and made to learn afterwards."""
    table = {"sand": 4, "lime": 1, "water": 2}
    weights = torch.tensor(list(table.values()))
    weights.requires_grad_()  # culprit
    mixture = (weights / weights.sum() * torch.tensor([1.6, 0.8, 1.0])).sum()
    mixture.sub(1.2).square().backward()


@program()
def a_legal_whole_numbers_without_a_flag():
    """Drawn without it; of floating point; held by a Parameter that learns nothing; and one refusal that is caught."""
    places = nn.Embedding(30, 4)
    begin = torch.randint(0, 30, (6,))
    prices = torch.tensor([3, 5, 2], dtype=torch.float32, requires_grad=True)
    levels = nn.Parameter(torch.tensor([1, 2, 4]), requires_grad=False)
    with suppress(RuntimeError):
        begin.requires_grad_()
    loss = (places(begin).sum() * prices * levels).square().sum()
    loss.backward()
    return prices.grad


# -- features outside of the closure


@program("graph_freed")
def a_warped_clock_outside_of_the_closure():
    """The line to change calls the function that computes them; that line itself is right."""

    class Warp(nn.Module):
        def __init__(self):
            super().__init__()
            self.knots = nn.Parameter(torch.linspace(0.1, 1.0, 4))

        def forward(self, time):
            steps = torch.sigmoid(time[:, None] * self.knots)
            return steps.cumsum(1)

    def match(warp, line, time, heard):
        optimizer = torch.optim.LBFGS([*warp.parameters(), *line.parameters()], lr=0.1, max_iter=4)
        bent = warp(time)  # culprit

        def again():
            optimizer.zero_grad()
            loss = F.mse_loss(line(bent), heard)
            loss.backward()
            return loss

        optimizer.step(again)

    time = torch.linspace(-1, 1, 12)
    match(Warp(), nn.Linear(4, 1), time, time[:, None] ** 2)


@program()
def a_legal_features_that_learn_nothing():
    """Outside of the closure without a graph; inside with one."""
    basis, bend, line = nn.Linear(1, 5), nn.Linear(5, 5), nn.Linear(5, 1)
    x = torch.linspace(-1, 1, 12)[:, None]

    def features(x):
        return torch.tanh(basis(x))

    def match():
        optimizer = torch.optim.LBFGS([*bend.parameters(), *line.parameters()], lr=0.1, max_iter=4)
        fixed = features(x).detach()

        def again():
            optimizer.zero_grad()
            loss = F.mse_loss(line(torch.tanh(bend(fixed))), x * x)
            loss.backward()
            return loss

        for _ in range(2):
            optimizer.step(again)

    match()


# -- a Function of one's own under autocast


@program("two_dtypes")
def a_gate_of_its_own_under_autocast():
    class Gate(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, gate):
            ctx.save_for_backward(x, gate)
            return x @ gate

        @staticmethod
        def backward(ctx, grad_output):
            x, gate = ctx.saved_tensors
            to_gate = x.t().to(grad_output.dtype) @ grad_output
            return grad_output @ gate.t(), to_gate.to(gate.dtype)  # culprit

    gate, first = nn.Parameter(torch.randn(4, 4) / 2), nn.Linear(3, 4)
    optimizer = torch.optim.SGD([gate, *first.parameters()], lr=0.1)
    for _ in range(2):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = Gate.apply(first(torch.randn(6, 3)), gate)
        loss = out.float().pow(2).mean()
        optimizer.zero_grad()
        loss.backward()  # victim
        optimizer.step()


@program()
def a_legal_functions_under_autocast():
    """One is marked for it, one brings its tensors to one dtype."""

    class Marked(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cpu")
        def forward(ctx, x, gate):
            ctx.save_for_backward(x, gate)
            return x @ gate

        @staticmethod
        @torch.amp.custom_bwd(device_type="cpu")
        def backward(ctx, grad_output):
            x, gate = ctx.saved_tensors
            return grad_output @ gate.t(), x.t() @ grad_output

    class Cast(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, gate):
            ctx.save_for_backward(x, gate)
            return x @ gate

        @staticmethod
        def backward(ctx, grad_output):
            x, gate = (each.to(grad_output.dtype) for each in ctx.saved_tensors)
            return grad_output @ gate.t(), x.t() @ grad_output

    gates, first = nn.ParameterList([torch.randn(4, 4) / 2 for _ in range(2)]), nn.Linear(3, 4)
    optimizer = torch.optim.SGD([*gates, *first.parameters()], lr=0.1)
    for _ in range(2):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = Cast.apply(Marked.apply(first(torch.randn(6, 3)), gates[0]), gates[1])
        loss = out.float().pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program("backward_returns")
def a_hook_that_returns_the_norm_for_the_log():
    sizes = []

    def length_of(gradient):
        sizes.append(gradient.norm().item())
        return sizes[-1]

    encoder, head = nn.Linear(6, 8), nn.Linear(8, 3)
    code = encoder(torch.rand(5, 6)).tanh()
    code.register_hook(length_of)  # culprit
    head(code).square().mean().backward()  # victim
