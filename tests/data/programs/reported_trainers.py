"""Trainers that lose a gradient between two of their methods, rebuilt from reports with keys fixed before the run."""

# ruff: noqa: B007  # they stay as people have written them

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # torch's own convention

from tests.data.programs import program


@program("graph_cut", severity="error", tensor="loss")
def u_scores_of_a_method_in_inference_mode():
    class Ranker(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.head = nn.Linear(6, 8), nn.Linear(8, 1)

        @torch.inference_mode()  # culprit
        def score(self, x):
            h = torch.tanh(self.body(x))
            return self.head(h).squeeze(1)

        def loss(self, better, worse):
            return F.softplus(self.score(worse) - self.score(better)).mean()

    ranker = Ranker()
    optimizer = torch.optim.Adam(ranker.parameters(), lr=1e-2)
    for step in range(3):
        better, worse = torch.randn(16, 6) + 0.5, torch.randn(16, 6) - 0.5
        loss = ranker.loss(better, worse)
        optimizer.zero_grad()
        loss.backward()  # victim
        optimizer.step()


@program("graph_cut", severity="error", tensor="loss")
def u_one_epoch_for_both_in_inference_mode():
    model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def compute(x, y):
        logits = model(x)
        return F.cross_entropy(logits, y)

    def epoch(batches, train):
        for x, y in batches:
            with torch.inference_mode():  # culprit
                loss = compute(x, y)
            if train:
                optimizer.zero_grad()
                loss.backward()  # victim
                optimizer.step()

    batches = [(torch.randn(8, 5), torch.randint(0, 3, (8,))) for _ in range(2)]
    epoch(batches, train=True)
    epoch(batches, train=False)


@program()
def u_legal_pseudo_labels_of_inference_mode():
    """What is predicted there is a target, or is looked at."""

    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))

        def forward(self, x):
            return self.net(x)

        @torch.inference_mode()
        def predict(self, x):
            return self(x).argmax(1)

    tagger = Tagger()
    optimizer = torch.optim.SGD(tagger.parameters(), lr=0.1)
    x, y = torch.randn(16, 5), torch.randint(0, 3, (16,))
    for step in range(3):
        with torch.inference_mode():
            accuracy = (tagger.predict(x) == y).float().mean().item()
        labels = y if step == 0 else tagger.predict(x).clone()
        loss = F.cross_entropy(tagger(x), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert 0 <= accuracy <= 1
