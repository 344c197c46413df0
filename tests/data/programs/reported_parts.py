"""Parts of a model that don't learn, or do, other than was meant; each in another dress than its report, and twins."""

# ruff: noqa: B007, B010  # they stay as people have written them

from __future__ import annotations

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # torch's own convention

from tests.data.programs import program

# -- frozen by an attribute that torch doesn't read


class Trunk(nn.Module):
    def __init__(self, width=6):
        super().__init__()
        self.blocks = nn.Sequential(nn.Linear(4, width), nn.ReLU(), nn.Linear(width, width), nn.Tanh())

    def forward(self, x):
        return self.blocks(x)


class Tagger(nn.Module):
    def __init__(self, trunk, tags):
        super().__init__()
        self.trunk, self.top = trunk, nn.Linear(6, tags)

    def forward(self, x):
        return self.top(self.trunk(x))


def fitted(model, turns, tags):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for turn in range(turns):
        loss = F.cross_entropy(model(torch.randn(8, 4)), torch.randint(0, tags, (8,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


@program("freeze_without_effect")
def p_trunk_frozen_after_a_long_training():
    """catalyst-team/catalyst#81, with a trunk that was trained before."""

    def train(model, turns, tags):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        for turn in range(turns):
            loss = F.cross_entropy(model(torch.randn(8, 4)), torch.randint(0, tags, (8,)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()  # victim

    class Reused(Tagger):
        def __init__(self, trunk, tags):
            super().__init__(trunk, tags)
            self.lock()

        def lock(self):
            for part in self.trunk.modules():
                part.requires_grad = False  # culprit

    trunk = Trunk()
    train(Tagger(trunk, 2), 40, 2)
    train(Reused(trunk, 3), 6, 3)


@program("freeze_without_effect")
def p_blocks_frozen_through_setattr():
    def lock(net, on=False):
        for block in net.trunk.blocks:
            setattr(block, "requires_grad", on)  # culprit

    net = Tagger(Trunk(), 2)
    for p in net.top.parameters():
        p.requires_grad = True
    lock(net)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    for turn in range(3):
        loss = F.cross_entropy(net(torch.randn(8, 4)), torch.randint(0, 2, (8,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()  # victim


@program("freeze_without_effect")
def p_method_overwritten_by_a_flag():
    net = Tagger(Trunk(), 2)
    for name, part in net.named_children():
        if name == "trunk":
            part.requires_grad_ = False  # culprit
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    for turn in range(3):
        loss = F.cross_entropy(net(torch.randn(8, 4)), torch.randint(0, 2, (8,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()  # victim


@program("freeze_without_effect")
def p_frozen_in_the_midst_of_one_training():
    net = Tagger(Trunk(), 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-2)
    for turn in range(70):
        if turn == 33:
            for part in net.trunk.children():
                part.requires_grad = False  # culprit
        loss = F.cross_entropy(net(torch.randn(8, 4)), torch.randint(0, 2, (8,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()  # victim


@program()
def p_teacher_with_a_flag_is_trained_no_more():
    teacher = fitted(Tagger(Trunk(), 3), 4, 3)
    for part in teacher.modules():
        part.requires_grad = False
    student = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
    for turn in range(5):
        x = torch.randn(8, 4)
        with torch.no_grad():
            wanted = teacher(x).softmax(1)
        loss = F.cross_entropy(student(x), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program()
def p_flag_of_its_own_that_it_reads():
    class Backbone(Trunk):
        def __init__(self, requires_grad):
            super().__init__()
            self.requires_grad = requires_grad
            for p in self.parameters():
                p.requires_grad = self.requires_grad

    net = Tagger(Backbone(requires_grad=False), 2)
    optimizer = torch.optim.Adam((p for p in net.parameters() if p.requires_grad), lr=1e-2)
    for turn in range(5):
        loss = F.cross_entropy(net(torch.randn(8, 4)), torch.randint(0, 2, (8,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program()
def p_module_and_parameters_frozen_after_a_training():
    trunk = fitted(Tagger(Trunk(), 2), 3, 2).trunk
    for part in trunk.modules():
        part.requires_grad = False
        for p in part.parameters(recurse=False):
            p.requires_grad = False
            p.grad = None
    fitted(Tagger(trunk, 3), 4, 3)


# -- under a detach, where another one is nearer to the loss


@program("graph_cut", tensor="model.codes.book.weight", route="detach")
def p_codebook_loss_of_the_straight_through():
    """showlab/Olaf-World#8, with tokens of a sound."""

    class Codes(nn.Module):
        def __init__(self):
            super().__init__()
            self.book = nn.Embedding(6, 3)

        def forward(self, h):
            picked = self.book(torch.cdist(h, self.book.weight).argmin(dim=1))
            return h + (picked - h).detach()

    class Coder(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.codes, self.decoder = nn.Linear(5, 3), Codes(), nn.Linear(3, 5)

        def forward(self, sound):
            h = self.encoder(sound)
            token = self.codes(h)
            commit = F.mse_loss(h, token.detach())
            codes = F.mse_loss(token, h.detach())  # culprit
            return F.mse_loss(self.decoder(token), sound) + codes + 0.25 * commit

    model = Coder()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for turn in range(3):
        optimizer.zero_grad()
        loss = model(torch.randn(8, 5))
        loss.backward()  # victim
        optimizer.step()


@program("graph_cut", tensor="words.weight", route="detach")
def p_words_without_a_loss_of_their_own():
    """As above, in a loop of its own, the sum written the other way round."""
    encoder, words, decoder = nn.Linear(5, 3), nn.Embedding(6, 3), nn.Linear(3, 5)
    held = [*encoder.parameters(), *words.parameters(), *decoder.parameters()]
    optimizer = torch.optim.Adam(held, lr=1e-2)
    for turn in range(3):
        sound = torch.randn(8, 5)
        h = encoder(sound)
        nearest = words(torch.cdist(h, words.weight).argmin(dim=1))
        out = (nearest - h).detach() + h  # culprit
        loss = F.mse_loss(decoder(out), sound)
        optimizer.zero_grad()
        loss.backward()  # victim
        optimizer.step()


@program("graph_cut", tensor="model.gates", route="detach")
def p_gate_cut_behind_another_cut():
    class Gated(nn.Module):
        def __init__(self):
            super().__init__()
            self.gates, self.body = nn.Parameter(torch.randn(3)), nn.Linear(4, 3)
            self.top, self.probe = nn.Linear(3, 2), nn.Linear(3, 2)

        def forward(self, x):
            gate = torch.sigmoid(self.gates)
            h = self.body(x) * gate.detach()  # culprit
            return self.top(h), self.probe(h.detach())

    model = Gated()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for turn in range(3):
        main, side = model(torch.randn(8, 4))
        labels = torch.randint(0, 2, (8,))
        loss = F.cross_entropy(side, labels) + F.cross_entropy(main, labels)
        optimizer.zero_grad()
        loss.backward()  # victim
        optimizer.step()


@program()
def p_codebook_that_learns_by_its_own_term():
    encoder, words, decoder = nn.Linear(5, 3), nn.Embedding(6, 3), nn.Linear(3, 5)
    held = [*encoder.parameters(), *words.parameters(), *decoder.parameters()]
    optimizer = torch.optim.Adam(held, lr=1e-2)
    for turn in range(3):
        sound = torch.randn(8, 5)
        h = encoder(sound)
        nearest = words(torch.cdist(h, words.weight).argmin(dim=1))
        out = h + (nearest - h).detach()
        loss = F.mse_loss(decoder(out), sound) + F.mse_loss(nearest, h.detach()) + F.mse_loss(h, nearest.detach())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program()
def p_codebook_that_follows_the_mean():
    encoder, words, decoder = nn.Linear(5, 3), nn.Embedding(6, 3), nn.Linear(3, 5)
    optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-2)
    for turn in range(3):
        sound = torch.randn(8, 5)
        h = encoder(sound)
        which = torch.cdist(h, words.weight).argmin(dim=1)
        nearest = words(which)
        with torch.no_grad():
            chosen = F.one_hot(which, 6).float()
            words.weight.mul_(0.99).add_(chosen.t() @ h / (chosen.sum(0)[:, None] + 1), alpha=0.01)
        out = h + (nearest - h).detach()
        loss = F.mse_loss(decoder(out), sound) + F.mse_loss(h, nearest.detach())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program()
def p_codebook_that_is_fixed():
    encoder, words, decoder = nn.Linear(5, 3), nn.Embedding(6, 3), nn.Linear(3, 5)
    optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-2)
    for turn in range(3):
        sound = torch.randn(8, 5)
        h = encoder(sound)
        nearest = words(torch.cdist(h, words.weight).argmin(dim=1))
        out = h + (nearest - h).detach()
        loss = F.mse_loss(decoder(out), sound) + F.mse_loss(h, out.detach())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


# -- its numbers alone reach the loss


class TwoEnds(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.embed, self.top = nn.Linear(4, 6), nn.Linear(6, 3), nn.Linear(6, 2)

    def forward(self, x):
        h = torch.tanh(self.body(x))
        return self.top(h), self.embed(h)


@program("never_reached")
def p_contrast_computed_in_numpy():
    """sl-93/SUPERVISED-CONTRASTIVE-LEARNING-FOR-PRE-TRAINED-LANGUAGE-MODEL-FINE-TUNING#2, with the pairs of a batch."""

    def contrast(points):
        gram = points @ points.T
        return float((gram.sum() - gram.trace()) / len(points))

    model = TwoEnds()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for turn in range(4):
        logits, points = model(torch.randn(8, 4))
        apart = contrast(points.detach().numpy())  # culprit
        loss = F.cross_entropy(logits, torch.randint(0, 2, (8,))) + 0.1 * apart
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()  # victim


@program("never_reached")
def p_spread_computed_in_a_helper():
    def spread(points):
        points = points.data.cpu().numpy()  # culprit
        return float(np.var(points, axis=0).sum())

    model = TwoEnds()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for turn in range(4):
        logits, points = model(torch.randn(8, 4))
        loss = F.cross_entropy(logits, torch.randint(0, 2, (8,))) - 0.1 * spread(points)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()  # victim


@program("never_reached")
def p_weight_of_a_loss_as_a_number():
    body, scale, top = nn.Linear(4, 6), nn.Linear(6, 1), nn.Linear(6, 2)
    held = [*body.parameters(), *scale.parameters(), *top.parameters()]
    optimizer = torch.optim.SGD(held, lr=0.1)
    for turn in range(4):
        h = body(torch.randn(8, 4)).relu()
        weight = scale(h).sigmoid().mean().item()  # culprit
        loss = weight * F.cross_entropy(top(h), torch.randint(0, 2, (8,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()  # victim


@program()
def p_probe_that_learns_now_and_then():
    body, top, probe = nn.Linear(4, 6), nn.Linear(6, 2), nn.Linear(6, 2)
    main, side = torch.optim.Adam([*body.parameters(), *top.parameters()]), torch.optim.Adam(probe.parameters())
    seen = []
    for turn in range(6):
        x, labels = torch.randn(8, 4), torch.randint(0, 2, (8,))
        h = body(x).relu()
        loss = F.cross_entropy(top(h), labels)
        main.zero_grad()
        loss.backward()
        main.step()
        seen.append(float(probe(h.detach()).detach().cpu().numpy().mean()))
        if turn % 3 == 2:
            told = F.cross_entropy(probe(h.detach()), labels)
            side.zero_grad()
            told.backward()
            side.step()


@program()
def p_embedding_frozen_and_looked_at():
    model = TwoEnds()
    model.embed.requires_grad_(False)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    seen = []
    for turn in range(4):
        logits, points = model(torch.randn(8, 4))
        seen.append(points.detach().numpy().var())
        loss = F.cross_entropy(logits, torch.randint(0, 2, (8,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program()
def p_numbers_of_what_learns_are_noted():
    model = TwoEnds()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    seen = []
    for turn in range(4):
        logits, points = model(torch.randn(8, 4))
        loss = F.cross_entropy(logits, torch.randint(0, 2, (8,))) + points.pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen.append(points.detach().cpu().numpy().mean())


# -- kept in a plain list


def trained(model, turns=3):
    """Trains a model whose scores are classes."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _turn in range(turns):
        loss = F.cross_entropy(model(torch.randn(8, 4)), torch.randint(0, 3, (8,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program("no_optimiser_holds_it")
def p_gains_of_each_band_in_a_plain_list():
    """pytorch/pytorch#632: two stages that both keep Parameters so, and fill what was empty."""

    class Stage(nn.Module):
        def __init__(self, n_out):
            super().__init__()
            self.gains = []  # culprit
            for _band in ("low", "high"):
                self.gains.append(nn.Parameter(torch.ones(n_out)))
            self.mix = nn.Linear(4, n_out)

        def forward(self, x):
            mixed = self.mix(x)
            return mixed * self.gains[0] + torch.tanh(mixed) * self.gains[1]

    trained(nn.Sequential(Stage(4), Stage(3)))


@program()
def p_gains_that_a_dict_names_once_more():
    """They are registered; the dict is for looking them up."""

    class Stage(nn.Module):
        def __init__(self, n_out):
            super().__init__()
            self.low, self.high = nn.Parameter(torch.ones(n_out)), nn.Parameter(torch.ones(n_out))
            self.gains = {"low": self.low, "high": self.high}
            self.mix = nn.Linear(4, n_out)

        def forward(self, x):
            mixed = self.mix(x)
            return mixed * self.gains["low"] + torch.tanh(mixed) * self.gains["high"]

    trained(nn.Sequential(Stage(4), Stage(3)))
