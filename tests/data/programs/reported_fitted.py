"""What a loss compares doesn't fit together, of reports and of what beginners ask most often."""

# ruff: noqa: B007  # they stay as people have written them

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # torch's own convention
from torch.utils.data import DataLoader, TensorDataset

from tests.data.programs import program


def fitted(net, loss_of, *, rate=1e-2, laps=4, optimizer=torch.optim.Adam):
    """Some laps of a training."""
    steps = optimizer(net.parameters(), lr=rate)
    for lap in range(laps):
        steps.zero_grad()
        loss_of(net, lap).backward()
        steps.step()


# -- a result that never comes near its target


@program("out_of_reach")
def fi_harvest_behind_a_sigmoid():
    """Kilograms between 2 and 32, of a net that ends in a sigmoid."""
    net = nn.Sequential(
        nn.Linear(1, 16),
        nn.ReLU(),
        nn.Linear(16, 1),
        nn.Sigmoid(),  # culprit
    )
    rain = torch.linspace(0, 10, 60).unsqueeze(1)
    harvest = 3 * rain + 2
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _epoch in range(5):
        optimizer.zero_grad()
        loss = ((net(rain) - harvest) ** 2).mean()  # victim
        loss.backward()
        optimizer.step()


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.fold, self.narrow = nn.Linear(36, 20), nn.Linear(20, 6)

    def forward(self, x):
        return self.narrow(F.relu(self.fold(x)))


@program("out_of_reach")
def fi_pictures_that_a_decoder_makes_with_a_relu():
    """pytorch-vae#3: the pictures are scaled to [-1, 1], and the decoder ends as its layers do."""

    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.widen, self.paint = nn.Linear(6, 20), nn.Linear(20, 36)

        def forward(self, z):
            z = F.relu(self.widen(z))
            return F.relu(self.paint(z))  # culprit

    net = nn.Sequential(Encoder(), Decoder())
    pictures = torch.rand(40, 36) * 2 - 1
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for _epoch in range(3):
        for begin in range(0, 40, 10):
            seen = pictures[begin : begin + 10]
            optimizer.zero_grad()
            loss = F.mse_loss(net(seen), seen)  # victim
            loss.backward()
            optimizer.step()


@program("out_of_reach")
def fi_noise_foretold_by_a_tanh():
    """A diffusion model is to foretell the noise, which has no bounds."""
    net = nn.ModuleList([nn.Linear(9, 24), nn.Linear(24, 8)])
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    for step in range(6):
        x, at = torch.randn(32, 8), torch.rand(32, 1)
        noise = torch.randn_like(x)
        shown = at.sqrt() * x + (1 - at).sqrt() * noise
        foretold = torch.tanh(net[1](F.silu(net[0](torch.cat([shown, at], 1)))))  # culprit
        optimizer.zero_grad()
        F.smooth_l1_loss(foretold, noise).backward()  # victim
        optimizer.step()


@program("out_of_reach")
def fi_scores_of_a_classifier_behind_a_relu():
    """Each layer of the forward is followed by a relu, the last one too."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(8, 24), nn.Linear(24, 3)

        def forward(self, x):
            x = F.relu(self.a(x))
            return F.relu(self.b(x))  # culprit

    x = torch.randn(60, 8)
    kinds = x[:, :3].argmax(1)
    net, criterion = Net(), nn.CrossEntropyLoss()
    fitted(net, lambda net, lap: criterion(net(x), kinds))  # victim


@program("out_of_reach")
def fi_yes_or_no_behind_a_relu():
    """The sign of a score says which of the two it is, and there is none below 0."""
    net = nn.Sequential(
        nn.Linear(5, 16),
        nn.ReLU(),
        nn.Linear(16, 1),
        nn.ReLU(),  # culprit
    )
    x = torch.randn(50, 5)
    ripe = (x.sum(1) > 0).float()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _epoch in range(4):
        optimizer.zero_grad()
        F.binary_cross_entropy_with_logits(net(x).squeeze(1), ripe).backward()  # victim
        optimizer.step()


@program("out_of_reach")
def fi_kinds_of_cloud_between_two_bounds():
    """A tanh too many: a sure answer would be a large score."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(6, 16), nn.Linear(16, 4)

        def forward(self, x):
            return torch.tanh(self.b(F.relu(self.a(x))))  # culprit

    net, x = Net(), torch.randn(40, 6)
    kinds = x[:, :4].argmax(1)
    fitted(net, lambda net, lap: F.cross_entropy(net(x), kinds))  # victim


@program()
def fi_legal_reaches():
    """Within reach: of each, or as far as a rounding; and what a pool evens out behind the last relu."""
    x = torch.randn(40, 6)
    whole = nn.Sequential(nn.Linear(6, 6), nn.Sigmoid())
    fitted(whole, lambda net, lap: F.mse_loss(net(x), x.sigmoid()))
    fitted(whole, lambda net, lap: ((net(x) - x.sign().clamp(0, 1)) ** 2).sum())
    sides = nn.Sequential(nn.Linear(6, 6), nn.Tanh())
    fitted(sides, lambda net, lap: F.mse_loss(net(x), x.sign()))
    rates = nn.Sequential(nn.Linear(6, 6), nn.ReLU())
    fitted(rates, lambda net, lap: F.mse_loss(net(x), x.abs() + 0.1 * torch.randn_like(x)))
    squeezed = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    pictures, kinds = torch.randn(9, 1, 6, 6), torch.arange(9) % 3
    fitted(squeezed, lambda net, lap: F.cross_entropy(net(pictures), kinds))
    wide = nn.Sequential(nn.Linear(6, 6), nn.Tanh())
    fitted(wide, lambda net, lap: F.mse_loss(40 * net(x), 30 * x.sign()))
    hidden = nn.ModuleList([nn.Linear(6, 6), nn.Linear(6, 3)])
    named = x[:, :3].argmax(1)
    fitted(hidden, lambda net, lap: F.cross_entropy(net[1](net[0](x).relu()), named))


@program()
def fi_legal_hinges_and_gates():
    """A relu that is the loss, and a gate beside its numbers."""
    net = nn.Linear(6, 1)
    x, side = torch.randn(40, 6), torch.randn(40, 1).sign()
    fitted(net, lambda net, lap: F.relu(1 - side * net(x)).mean())
    gate = nn.ModuleList([nn.Linear(6, 6), nn.Linear(6, 6)])
    fitted(gate, lambda net, lap: F.mse_loss(net[0](x).sigmoid() * net[1](x), 5 * x))


# -- labels that the loss doesn't take


@program("out_of_reach")
def fi_sides_given_to_a_loss_of_shares():
    """Labels of −1 and 1, as another loss would have them."""
    x = torch.randn(60, 4)
    side = torch.where(x.sum(1, keepdim=True) > 0, 1.0, -1.0)
    net = nn.Sequential(nn.Linear(4, 12), nn.ReLU(), nn.Linear(12, 1))
    criterion, optimizer = nn.BCEWithLogitsLoss(), torch.optim.Adam(net.parameters(), lr=1e-2)
    for _epoch in range(3):
        for begin in range(0, 60, 20):
            optimizer.zero_grad()
            loss = criterion(net(x[begin : begin + 20]), side[begin : begin + 20])  # culprit
            loss.backward()  # victim
            optimizer.step()


@program("out_of_reach")
def fi_pictures_of_bytes_given_to_a_loss_of_shares():
    """An autoencoder's picture isn't divided by 255."""
    net = nn.Sequential(nn.Linear(12, 6), nn.ReLU(), nn.Linear(6, 12))
    bytes_ = torch.randint(0, 256, (30, 12)).float()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for _step in range(4):
        loss = F.binary_cross_entropy_with_logits(net(bytes_ / 255), bytes_)  # culprit
        optimizer.zero_grad()
        loss.backward()  # victim
        optimizer.step()


@program("out_of_reach")
def fi_pairs_that_are_alike_or_nought():
    """`cosine_embedding_loss` takes −1 for pairs that aren't alike."""
    net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
    left, right = torch.randn(30, 8), torch.randn(30, 8)
    alike = (torch.arange(30) % 2).float()
    criterion = nn.CosineEmbeddingLoss(margin=0.2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _step in range(4):
        optimizer.zero_grad()
        loss = criterion(net(left), net(right), alike)  # culprit
        loss.backward()  # victim
        optimizer.step()


@program()
def fi_legal_labels():
    """Shares, smoothed ones, sides where they're due, and one class alone that is all there is."""
    x = torch.randn(40, 6)
    net = nn.Linear(6, 1)
    ripe = (x[:, :1] > 0).float()
    fitted(net, lambda net, lap: F.binary_cross_entropy_with_logits(net(x), ripe * 0.9 + 0.05))
    fitted(net, lambda net, lap: F.binary_cross_entropy(net(x).sigmoid(), torch.ones(40, 1)))
    fitted(net, lambda net, lap: F.soft_margin_loss(net(x), ripe * 2 - 1))
    fitted(net, lambda net, lap: F.soft_margin_loss(net(x), torch.ones(40, 1)))
    two = nn.Linear(6, 3)
    fitted(two, lambda net, lap: F.cosine_embedding_loss(net(x), net(x.flip(0)), ripe.squeeze(1) * 2 - 1))
    fitted(two, lambda net, lap: F.cross_entropy(net(x), torch.zeros(40, dtype=torch.long)), laps=12)


# -- one class after the other


@program("one_class_in_a_batch")
def fi_loader_that_goes_through_the_kinds_of_beetle():
    """The folders were read one by one, and the loader doesn't shuffle."""
    x = torch.randn(150, 6)
    kinds = torch.arange(150) // 50
    beetles = DataLoader(TensorDataset(x, kinds), batch_size=10)  # culprit
    held_back = DataLoader(TensorDataset(x[::7], kinds[::7]), batch_size=10, shuffle=False)
    net = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 3))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _epoch in range(2):
        for batch, kind in beetles:
            optimizer.zero_grad()
            F.cross_entropy(net(batch), kind).backward()  # victim
            optimizer.step()
        with torch.no_grad():
            for batch, kind in held_back:
                assert net(batch).isfinite().all()


@program("one_class_in_a_batch")
def fi_slices_of_what_is_sorted():
    """No loader at all: slices, in the order of the file."""
    x = torch.randn(160, 6)
    kinds = torch.arange(160) // 40
    net = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 4), nn.LogSoftmax(dim=1))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _epoch in range(2):
        for begin in range(0, 160, 8):
            optimizer.zero_grad()
            loss = F.nll_loss(net(x[begin : begin + 8]), kinds[begin : begin + 8])  # culprit, victim
            loss.backward()
            optimizer.step()


@program()
def fi_legal_orders():
    """Shuffled; one song a batch, of which each second is its singer's; a few batches; halves of each kind."""
    x, kinds = torch.randn(120, 6), torch.arange(120) // 40
    net = nn.Linear(6, 3)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for batch, kind in DataLoader(TensorDataset(x, kinds), batch_size=6, shuffle=True):
        optimizer.zero_grad()
        F.cross_entropy(net(batch), kind).backward()
        optimizer.step()
    for song in [0, 2, 1, 2, 0, 1, 1, 0, 2, 1, 0, 2, 0, 1, 2, 1]:
        optimizer.zero_grad()
        F.cross_entropy(net(x[:9]), torch.full((9,), song)).backward()
        optimizer.step()
    fitted(net, lambda net, lap: F.cross_entropy(net(x[:8]), torch.full((8,), lap // 3)), laps=6)
    mixed = torch.arange(120) % 3
    for batch, kind in DataLoader(TensorDataset(x, mixed), batch_size=6):
        optimizer.zero_grad()
        F.cross_entropy(net(batch), kind).backward()
        optimizer.step()


# -- units that began alike


@program("units_alike")
def fi_layers_that_all_begin_with_a_tenth():
    """So that the runs can be compared, each weight is a tenth."""
    net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
    for layer in net:
        if isinstance(layer, nn.Linear):
            nn.init.constant_(layer.weight, 0.1)  # culprit
            nn.init.zeros_(layer.bias)
    x = torch.randn(60, 4)
    wanted = x[:, :1] * x[:, 1:2]
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _epoch in range(6):
        optimizer.zero_grad()
        ((net(x) - wanted) ** 2).mean().backward()
        optimizer.step()  # victim


@program("units_alike")
def fi_parameters_of_one_number():
    """A layer written by hand."""

    class Own(nn.Module):
        def __init__(self, into, out):
            super().__init__()
            self.weight = nn.Parameter(torch.full((out, into), 0.5))  # culprit
            self.bias = nn.Parameter(torch.zeros(out))

        def forward(self, x):
            return F.linear(x, self.weight, self.bias)

    net = nn.Sequential(Own(5, 8), nn.ReLU(), Own(8, 1))
    x = torch.rand(40, 5)
    wanted = x.prod(1, keepdim=True)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for _epoch in range(6):
        optimizer.zero_grad()
        F.mse_loss(net(x), wanted).backward()
        optimizer.step()  # victim


@program()
def fi_legal_beginnings_alike():
    """Rows that the data tell apart: of a last layer, an adapter, a table; and one that dropout tells apart."""
    x = torch.randn(40, 6)
    last = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    nn.init.constant_(last[2].weight, 0.1)
    kinds = x[:, :3].argmax(1)
    fitted(last, lambda net, lap: F.cross_entropy(net(x), kinds), laps=6)
    adapter = nn.ModuleList([nn.Linear(6, 2, bias=False), nn.Linear(2, 6, bias=False)])
    nn.init.zeros_(adapter[1].weight)
    fitted(adapter, lambda net, lap: F.mse_loss(x + net[1](net[0](x)), 2 * x), laps=6)
    table = nn.Embedding(5, 3)
    nn.init.ones_(table.weight)
    fitted(table, lambda net, lap: (net(torch.arange(4)) * x[:4, :3]).sum(), laps=6)
    dropped = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Dropout(0.5), nn.Linear(8, 1))
    for layer in (dropped[0], dropped[3]):
        nn.init.constant_(layer.weight, 0.1)
    fitted(dropped, lambda net, lap: F.mse_loss(net(x), x[:, :1]), laps=6)


# -- what is joined, or made anew, on the way to the loss


@program("never_reached")
def fi_losses_of_which_a_tensor_is_made():
    """forum 39681: the weights of several losses are to be learned, and nothing else learns."""

    class Weighed(nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model, self.eta = model, nn.Parameter(torch.zeros(2))

        def forward(self, x, near, far):
            parts = []
            for wanted, out in zip((near, far), self.model(x).split(1, dim=1), strict=True):
                parts.append(F.mse_loss(out, wanted))
            weighed = torch.Tensor(parts) * torch.exp(-self.eta) + self.eta  # culprit
            return weighed.sum()

    weighed = Weighed(nn.Linear(4, 2))
    optimizer = torch.optim.Adam(weighed.parameters(), lr=1e-2)
    for _lap in range(4):
        x = torch.randn(8, 4)
        optimizer.zero_grad()
        weighed(x, x[:, :1], x[:, 1:2]).backward()
        optimizer.step()  # victim


@program("dimensions_mixed")
def fi_nights_of_each_lighthouse_joined():
    """a2c-ppo-acktr#97: each keeper hands in his nights, and they are read as if a night had been handed in by all."""
    watch = nn.Sequential(nn.Linear(3, 6), nn.Tanh())
    memory, out = nn.GRUCell(6, 5), nn.Linear(5, 1)
    held = [*watch.parameters(), *memory.parameters(), *out.parameters()]
    optimizer = torch.optim.Adam(held, lr=1e-2)
    for _turn in range(3):
        nights = torch.randn(7, 4, 3)
        joined = torch.cat([nights[:, keeper] for keeper in range(4)], 0)  # victim
        seen = watch(joined).view(7, 4, 6)  # culprit
        state, said = torch.zeros(4, 5), []
        for night in seen:
            state = memory(night, state)
            said.append(out(state))
        optimizer.zero_grad()
        torch.stack(said).square().mean().backward()
        optimizer.step()


@program()
def fi_legal_joins():
    """Pieces that are stacked side by side, counted off as they were joined, or of which each gave one row."""
    net = nn.Linear(3, 4)
    for way in range(3):
        nights = torch.randn(7, 4, 3)

        def loss_of(net, lap, way=way, nights=nights):
            side = torch.stack([nights[:, keeper] for keeper in range(4)], 1).flatten(0, 1)
            behind = torch.cat([nights[:, keeper] for keeper in range(4)], 0)
            rows = torch.cat([nights[night] for night in range(7)], 0)
            taken, shape = ((side, (7, 4, 4)), (behind, (4, 7, 4)), (rows, (7, 4, 4)))[way]
            return net(taken).view(*shape).cumsum(0).square().mean()

        fitted(net, loss_of)
    scores = nn.Linear(3, 2)

    def told(net, lap):
        parts = [F.mse_loss(out, torch.ones(8)) for out in net(torch.randn(8, 3)).unbind(1)]
        shown = torch.tensor([float(each) for each in parts])
        return torch.stack(parts).sum() + 0 * shown.sum()

    fitted(scores, told)
