"""What torch refuses to begin, to hand out, to go through twice; rebuilt from reports, beside programs it takes."""

# ruff: noqa: B007  # they stay as people have written them

from __future__ import annotations

import contextlib

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # torch's own convention

from tests.data.programs import program

# -- weights that backward starts with


@program("weights_of_another_shape")
def e_one_hot_for_a_sum():
    """A map of what counts for a class, which is picked by a product and given to the call once more."""

    class Explained(nn.Module):
        def __init__(self, classes=4):
            super().__init__()
            self.body, self.head = nn.Conv2d(1, 6, 3, padding=1), nn.Linear(6, classes)

        def forward(self, x):
            self.maps = self.body(x).relu()
            self.maps.retain_grad()
            return self.head(self.maps.mean((2, 3)))

        def relevance(self, x, target):
            scores = self(x)
            one_hot = F.one_hot(target, scores.shape[1]).float()
            picked = (scores * one_hot).sum()
            picked.backward(one_hot)  # culprit, victim
            return (self.maps.grad.mean((2, 3), keepdim=True) * self.maps).sum(1).relu()

    torch.manual_seed(0)
    model = Explained()
    model.relevance(torch.randn(5, 1, 8, 8), torch.randint(0, 4, (5,)))


@program("weights_of_another_shape")
def e_weights_in_a_column():
    """A loss for each example, and what the examples weigh as a sampler hands it out: a column."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        x, y, weights = torch.randn(6, 3), torch.randint(0, 3, (6,)), torch.rand(6, 1)
        losses = F.cross_entropy(model(x), y, reduction="none")
        optimizer.zero_grad()
        losses.backward(weights)  # culprit, victim
        optimizer.step()


@program()
def e_legal_weights_of_the_same_shape():
    torch.manual_seed(0)
    model = nn.Linear(3, 3)
    x, y = torch.randn(6, 3), torch.randint(0, 3, (6,))
    F.cross_entropy(model(x), y, reduction="none").backward(torch.rand(6))
    F.cross_entropy(model(x), y).backward(torch.tensor(0.5))
    scores = model(x)
    torch.autograd.backward([scores.sum(), scores], [None, torch.ones_like(scores)])


# -- backward from more than one number


@program("not_a_scalar")
def e_a_loss_for_each_word():
    """mindee/doctr#379."""

    class Reader(nn.Module):
        def __init__(self, hidden=12, letters=5):
            super().__init__()
            self.cell, self.out = nn.GRUCell(4, hidden), nn.Linear(hidden, letters)

        def forward(self, features, target=None, lengths=None):
            h = features.new_zeros(len(features), self.cell.hidden_size)
            steps = []
            for t in range(features.shape[1]):
                h = self.cell(features[:, t], h)
                steps.append(self.out(h))
            found = {"logits": torch.stack(steps, 1)}
            if target is not None:
                found["loss"] = self.compute_loss(found["logits"], target, lengths)
            return found

        @staticmethod
        def compute_loss(logits, target, lengths):
            each = F.cross_entropy(logits.transpose(1, 2), target, reduction="none")
            each = each.masked_fill(torch.arange(target.shape[1])[None] >= lengths[:, None], 0.0)
            of_word = each.sum(1) / lengths.float()
            return of_word.unsqueeze(1)  # culprit

    model = Reader()
    opt = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(3):
        target = torch.randint(0, 5, (8, 6))
        train_loss = model(torch.randn(8, 6, 4), target, torch.randint(2, 7, (8,)))["loss"]
        opt.zero_grad()
        train_loss.backward()  # victim
        opt.step()


@program("not_a_scalar")
def e_divergence_of_each_picture():
    """A variational autoencoder: the one term is a mean, the other a number for each picture."""

    class Coder(nn.Module):
        def __init__(self, size=16, latent=3):
            super().__init__()
            self.inner, self.outer = nn.Linear(size, 2 * latent), nn.Linear(latent, size)

        def forward(self, x):
            mean, log_var = self.inner(x).chunk(2, dim=1)
            z = mean + torch.randn_like(mean) * (0.5 * log_var).exp()
            return torch.sigmoid(self.outer(z)), mean, log_var

    def vae_loss(x, again, mean, log_var, beta=0.5):
        reconstruction = F.binary_cross_entropy(again, x)
        inside = 1 + log_var - mean**2 - log_var.exp()
        divergence = inside.sum(dim=1)  # culprit
        return reconstruction - 0.5 * beta * divergence

    coder = Coder()
    opt = torch.optim.Adam(coder.parameters(), lr=0.01)
    for step in range(3):
        x = torch.rand(10, 16)
        loss = vae_loss(x, *coder(x))
        opt.zero_grad()
        loss.backward()  # victim
        opt.step()


@program("not_a_scalar")
def e_criterion_that_keeps_each_loss():
    class Trainer:
        def __init__(self, net):
            self.net = net
            self.criterion = nn.CrossEntropyLoss(reduction="none")
            self.opt = torch.optim.SGD(net.parameters(), lr=0.1)

        def step(self, x, y):
            loss = self.criterion(self.net(x), y)  # culprit
            self.opt.zero_grad()
            loss.backward()  # victim
            self.opt.step()

    trainer = Trainer(nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3)))
    for step in range(3):
        trainer.step(torch.randn(12, 5), torch.randint(0, 3, (12,)))


@program("not_a_scalar")
def e_slope_of_all_points_at_once():
    """A network that solves an equation: `autograd.grad` raises the same."""
    net = nn.Sequential(nn.Linear(1, 12), nn.Tanh(), nn.Linear(12, 1))
    opt = torch.optim.Adam(net.parameters(), lr=0.01)
    for step in range(3):
        t = torch.rand(20, 1, requires_grad=True)
        u = net(t)
        slope = torch.autograd.grad(u, t, create_graph=True)[0]  # culprit, victim
        loss = (slope + u).pow(2).mean() + (net(torch.zeros(1, 1)) - 1).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


@program()
def e_legal_weights_for_each_loss():
    """Weighed by hand, by `backward(weights)`, by `grad_outputs`; and a refusal that is caught."""
    net = nn.Linear(4, 3)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(3):
        x, y = torch.randn(8, 4), torch.randint(0, 3, (8,))
        each = F.cross_entropy(net(x), y, reduction="none")
        opt.zero_grad()
        each.backward(torch.full((8,), 1 / 8), retain_graph=True)
        (each * torch.rand(8)).mean().backward()
        opt.step()
    t = torch.rand(5, 4, requires_grad=True)
    u = net(t)
    torch.autograd.grad(u, t, torch.ones_like(u))
    again = net(t)
    try:
        again.backward()
    except RuntimeError:
        again.sum().backward()


# -- numpy has no graph


@program("numpy_of_a_result")
def e_layers_summed_by_numpy():
    """xiaxin1998/DHCN#8."""

    class HyperConv(nn.Module):
        def __init__(self, layers):
            super().__init__()
            self.layers = layers

        def forward(self, adjacency, embedding):
            items = embedding
            final = [items]
            for layer in range(self.layers):
                items = torch.sparse.mm(adjacency, items)
                final.append(items)
            items = np.sum(final, 0)  # culprit
            return items / (self.layers + 1)

    table, conv = nn.Embedding(9, 5), HyperConv(2)
    opt = torch.optim.Adam(table.parameters(), lr=0.02)
    adjacency = torch.eye(9).to_sparse()
    for step in range(3):
        sessions = torch.randint(0, 9, (6, 3))
        items = conv(adjacency, table.weight)
        scores = items[sessions].mean(1) @ items.t()
        loss = F.cross_entropy(scores, sessions[:, 0])
        opt.zero_grad()
        loss.backward()
        opt.step()


@program("numpy_of_a_result")
def e_outputs_logged_as_an_array():
    """What is only looked at: `.numpy()` inside a function that logs."""

    class Log:
        def __init__(self):
            self.rows = []

        def add(self, name, tensor):
            self.rows.append((name, tensor.cpu().numpy().mean()))  # culprit

    net, log = nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 1)), Log()
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(3):
        x = torch.randn(8, 3)
        out = net(x)  # victim
        loss = (out - x.sum(1, keepdim=True)).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        log.add("out", out)


@program("numpy_of_a_result")
def e_losses_of_all_tasks_as_an_array():
    heads = nn.ModuleList([nn.Linear(4, 1) for task in range(3)])
    opt = torch.optim.SGD(heads.parameters(), lr=0.1)
    for step in range(3):
        losses = []
        for head in heads:
            x = torch.randn(6, 4)
            losses.append(F.mse_loss(head(x), x[:, :1]))
        losses = np.array(losses)  # culprit
        loss = (losses * torch.tensor([1.0, 0.5, 0.5])).sum()
        opt.zero_grad()
        loss.backward()
        opt.step()


@program()
def e_legal_arrays_of_what_is_looked_at():
    """Detached, under `no_grad`, numbers alone; and a refusal that is caught."""
    net, seen = nn.Linear(3, 2), []
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(3):
        x = torch.randn(4, 3)
        out = net(x)
        loss = out.pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        seen.append(out.detach().numpy().mean())
        with contextlib.suppress(RuntimeError):
            seen.append(np.asarray(out).mean())
    with torch.no_grad():
        seen.append(net(torch.ones(1, 3)).numpy().sum())
    return np.mean(seen) < 100


# -- a state that a function was given, and hands back with its graph


@program("graph_freed")
def e_state_of_the_search_handed_back():
    """quark0/darts#56: one stream's state is cut, that of the other isn't; both are called `hidden` somewhere."""

    class Cell(nn.Module):
        def __init__(self, size=6):
            super().__init__()
            self.mix, self.out = nn.Linear(2 * size, size), nn.Linear(size, 3)

        def forward(self, x, hidden):
            for each in x:
                hidden = torch.tanh(self.mix(torch.cat([each, hidden], -1)))
            return self.out(hidden), hidden

    def architect_step(model, optimizer, x, y, hidden):
        logits, hidden_next = model(x, hidden)
        loss = F.cross_entropy(logits, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return hidden_next, loss.item()

    model = Cell()
    opt_w = torch.optim.Adam(model.mix.parameters(), lr=0.01)
    opt_a = torch.optim.Adam(model.out.parameters(), lr=0.01)
    for epoch in range(2):
        hidden, hidden_valid = torch.zeros(4, 6), torch.zeros(2, 6)
        for i in range(3):
            x, y = torch.randn(5, 4, 6), torch.randint(0, 3, (4,))
            xv, yv = torch.randn(5, 2, 6), torch.randint(0, 3, (2,))
            hidden_valid, _ = architect_step(model, opt_a, xv, yv, hidden_valid)  # culprit
            logits, hidden = model(x, hidden.detach())
            opt_w.zero_grad()
            F.cross_entropy(logits, y).backward()
            opt_w.step()


@program("graph_freed")
def e_memory_begun_before_the_loop():
    """A while loop, and the line that renews the memory comes after the backward call."""

    class Writer(nn.Module):
        def __init__(self, slots=4):
            super().__init__()
            self.read, self.erase = nn.Linear(slots, 1), nn.Linear(slots, slots)

        def forward(self, memory, x):
            return torch.sigmoid(self.erase(memory)) * memory + x

    def learn(writer, optimizer, memory, x):
        loss = (writer.read(writer(memory, x)) - x[:, :1]).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    writer = Writer()
    optimizer = torch.optim.SGD(writer.parameters(), lr=0.1)
    state, step = torch.zeros(3, 4), 0
    while step < 3:
        x = torch.randn(3, 4)
        learn(writer, optimizer, state, x)
        state = writer(state, x)  # culprit
        step += 1


@program()
def e_legal_states_are_cut_by_who_keeps_them():
    cell = nn.GRUCell(4, 5)
    opt = torch.optim.SGD(cell.parameters(), lr=0.1)

    def step(x, hidden):
        hidden_next = cell(x, hidden)
        loss = hidden_next.pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        return hidden_next.detach()

    hidden, other = torch.zeros(2, 5), torch.zeros(2, 5)
    for lap in range(3):
        other = step(torch.randn(2, 4), other)
        hidden = step(torch.randn(2, 4), hidden)


# -- features that inference mode has made


@program("inference_tensor")
def e_features_extracted_by_a_decorated_method():
    """facebookresearch/dinov2#472."""

    class Depther:
        def __init__(self, backbone, head):
            self.backbone, self.head = backbone, head

        @torch.inference_mode()  # culprit
        def extract(self, images, size=4):
            self.backbone.eval()
            return torch.cat([self.backbone(chunk) for chunk in images.split(size)])

        def fit(self, features, depth, size=4):
            opt = torch.optim.Adam(self.head.parameters(), lr=0.01)
            for i in range(0, len(features), size):
                tokens = features[i : i + size]
                loss = F.smooth_l1_loss(self.head(tokens), depth[i : i + size])  # victim
                opt.zero_grad()
                loss.backward()
                opt.step()

    depther = Depther(nn.Sequential(nn.Linear(5, 6), nn.GELU()), nn.Linear(6, 1))
    images = torch.rand(12, 5)
    depther.fit(depther.extract(images), images.mean(1, keepdim=True))


@program("inference_tensor")
def e_shuffled_views_of_embeddings():
    """The block ends, and what it has made is transposed and cut up outside of it."""
    words, head = nn.Embedding(20, 4), nn.Linear(4, 2)
    opt = torch.optim.SGD(head.parameters(), lr=0.1)
    with torch.inference_mode():
        embedded = words(torch.arange(20)).tanh()  # culprit
    for step in range(2):
        rows = embedded.t()[:, step * 10 : step * 10 + 10].t()
        loss = F.cross_entropy(head(rows), torch.randint(0, 2, (10,)))  # victim
        opt.zero_grad()
        loss.backward()
        opt.step()


@program()
def e_legal_features_of_inference_mode_are_copied():
    """Cloned outside; and made under `no_grad`, by a function that is decorated."""

    @torch.inference_mode()
    def extract(net, x):
        return net(x)

    @torch.no_grad()
    def encode(net, x):
        return net(x)[:4]

    net, head = nn.Linear(3, 4), nn.Linear(4, 2)
    opt = torch.optim.SGD(head.parameters(), lr=0.1)
    for step in range(2):
        x = torch.randn(8, 3)
        rows = torch.cat([extract(net, x)[:4].clone(), encode(net, x)])
        loss = F.cross_entropy(head(rows), torch.randint(0, 2, (8,)))
        opt.zero_grad()
        loss.backward()
        opt.step()
