"""Checkpoints (`use_reentrant=False`) that compute something else the second time, and such as may."""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from tests.data.programs import program


def trained(block, **options):
    """Two steps of a block that is checkpointed; its gradients of the last."""
    torch.manual_seed(0)
    head = nn.Linear(8, 1)
    optimizer = torch.optim.SGD([*block.parameters(), *head.parameters()], lr=0.1)
    for _ in range(2):
        x = torch.randn(16, 8)
        h = checkpoint(block, x, use_reentrant=False, **options)
        loss = head(h).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return [parameter.grad for parameter in block.parameters()]


# -- other numbers (pytorch#49500: dropout under a checkpoint that leaves the generator alone; pytorch#104712)


@program("recomputed_otherwise")
def c_dropout_of_a_generator_that_goes_on():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.dropout = nn.Linear(8, 8), nn.Dropout(0.5)

        def forward(self, x):
            return self.dropout(torch.tanh(self.inner(x)))

    torch.manual_seed(1)
    return trained(Block(), preserve_rng_state=False)  # culprit


@program("recomputed_otherwise")
def c_switch_of_a_whole_network():
    """allenai/OLMo-core#828: set once, where the blocks are wrapped; each draws another mask the second time."""
    preserve_rng_state = False  # culprit

    class Wrapped(nn.Module):
        def __init__(self, block, **options):
            super().__init__()
            self.block, self.options = block, options

        def forward(self, x):
            return checkpoint(self.block, x, use_reentrant=False, **self.options)

    def block():
        return nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Dropout(0.3), nn.Linear(8, 8))

    torch.manual_seed(1)
    net = nn.Sequential(*[Wrapped(block(), preserve_rng_state=preserve_rng_state) for _ in range(2)])
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(2):
        loss = net(torch.randn(16, 8)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program("recomputed_otherwise", severity="error")
def c_path_left_out_by_a_draw_that_goes_on():
    """Which way is taken is drawn by torch, from the generator that the checkpoint is told to leave alone."""
    inner, outer = nn.Linear(8, 8), nn.Linear(8, 8)

    def block(x):
        h = torch.tanh(inner(x))
        return torch.sigmoid(outer(h)) if torch.rand(()).item() < 0.5 else h.exp() * 2

    torch.manual_seed(5)
    for _ in range(12):
        h = checkpoint(
            block,
            torch.randn(16, 8),
            use_reentrant=False,
            preserve_rng_state=False,  # culprit
        )
        h.exp().sum().backward()


@program("recomputed_otherwise")
def c_mask_drawn_by_a_generator_of_its_own():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.generator = nn.Linear(8, 8), torch.Generator().manual_seed(2)

        def forward(self, x):
            kept = torch.rand(x.shape, generator=self.generator) > 0.3  # culprit
            return torch.sigmoid(self.inner(x) * kept).exp()

    torch.manual_seed(1)
    return trained(Block())


@program("recomputed_otherwise")
def c_counter_that_warms_up():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.calls = nn.Linear(8, 8), 0

        def forward(self, x):
            self.calls += 1
            scale = min(1.0, self.calls / 10)
            h = self.inner(x) * scale  # culprit
            return torch.tanh(h).exp()

    torch.manual_seed(1)
    return trained(Block())


@program("recomputed_otherwise")
def c_another_branch_the_second_time():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.first = nn.Linear(8, 8), True

        def forward(self, x):
            h = self.inner(x)
            first, self.first = self.first, not self.first
            h = torch.tanh(h) if first else torch.sigmoid(h)  # culprit
            return h.exp()

    torch.manual_seed(1)
    return trained(Block())


@program("recomputed_otherwise", severity="error")
def c_layer_that_is_left_out_the_second_time():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.outer, self.cache = nn.Linear(8, 8), nn.Linear(8, 8), None

        def forward(self, x):
            h = torch.relu(self.inner(x))
            if self.cache is None:
                h = torch.sigmoid(self.outer(h))  # culprit
                self.cache = h.detach()
            return h.exp() * 2

    torch.manual_seed(1)
    return trained(Block())


@program("recomputed_otherwise")
def c_counter_beside_a_generator_that_goes_on():
    """Nothing is drawn: what differs is the counter."""

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.calls = nn.Linear(8, 8), 0

        def forward(self, x):
            self.calls += 1
            h = self.inner(x) / self.calls  # culprit
            return torch.tanh(h).exp()

    torch.manual_seed(1)
    return trained(Block(), preserve_rng_state=False)


# -- the same both times


@program()
def c_nothing_is_drawn_from_a_generator_that_goes_on():
    torch.manual_seed(1)
    block = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.Dropout(0.5), nn.Tanh()).eval()
    return trained(block, preserve_rng_state=False)


@program()
def c_dropout_and_statistics():
    torch.manual_seed(1)
    return trained(nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Tanh()))


@program()
def c_numbers_that_are_only_watched():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.calls = nn.Linear(8, 8), 0
            self.register_buffer("seen", torch.zeros(()))

        def forward(self, x):
            self.calls += 1
            h = self.inner(x)
            if self.calls % 2:
                self.seen += h.detach().abs().mean()
            return torch.tanh(h).exp()

    torch.manual_seed(1)
    return trained(Block())


@program()
def c_mask_that_is_handed_in():
    layer = nn.Linear(8, 8)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(2)
    for _ in range(2):
        x = torch.randn(16, 8)
        kept = torch.rand(x.shape, generator=generator) > 0.3
        h = checkpoint(lambda x, kept: torch.sigmoid(layer(x) * kept).exp(), x, kept, use_reentrant=False)
        optimizer.zero_grad()
        h.mean().backward()
        optimizer.step()


@program()
def c_halves_that_are_turned_and_joined():
    """As rotary positions do."""
    q = nn.Linear(8, 8)

    def turned(x):
        h = q(x)
        first, second = h[..., :4], h[..., 4:]
        return (h * 0.5 + torch.cat((-second, first), dim=-1) + torch.stack([first, second], -1).flatten(-2)).tanh()

    optimizer = torch.optim.SGD(q.parameters(), lr=0.1)
    for _ in range(2):
        h = checkpoint(turned, torch.randn(4, 8), use_reentrant=False)
        optimizer.zero_grad()
        h.exp().sum().backward()
        optimizer.step()


# -- what the first run leaves behind (pytorch#155171: a cache of keys under a checkpoint)


class Cached(nn.Module):
    def __init__(self):
        super().__init__()
        self.key, self.value = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x, cache):
        keys, values = self.key(x), self.value(x)
        if cache:
            keys, values = torch.cat([cache["keys"], keys], 1), torch.cat([cache["values"], values], 1)
        if cache is not None:
            cache.update(keys=keys, values=values)
        return (x @ keys.transpose(1, 2)).softmax(-1) @ values


@program("recomputed_otherwise", severity="error")
def c_cache_that_the_first_run_has_filled():
    layers = nn.ModuleList([Cached(), Cached()])
    caches = [{} for _ in layers]
    x = torch.randn(2, 3, 4)
    for layer, cache in zip(layers, caches, strict=True):
        x = checkpoint(layer, x, cache, use_reentrant=False)
    x.pow(2).mean().backward()


@program()
def e_cache_of_earlier_words_that_is_only_read():
    layers = nn.ModuleList([Cached(), Cached()])
    x = torch.randn(2, 3, 4)
    with torch.no_grad():
        caches = [{} for _ in layers]
        for layer, cache in zip(layers, caches, strict=True):
            layer(torch.randn(2, 2, 4), cache)
    for layer, cache in zip(layers, caches, strict=True):
        x = checkpoint(lambda x, layer=layer, cache=cache: layer(x, dict(cache)), x, use_reentrant=False)
    x.pow(2).mean().backward()
