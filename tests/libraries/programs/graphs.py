"""PyTorch Geometric: messages along edges; and Gaussian processes, which bring matrices of their own kind."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from tests.libraries.table import Built, program, training


def graph() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(features, edges, labels) of twelve vertices."""
    return torch.randn(12, 6), torch.randint(0, 12, (2, 40)), torch.randint(0, 3, (12,))


class Convolved(nn.Module):
    """Two convolutions with dropout between."""

    def __init__(self, first: nn.Module, second: nn.Module) -> None:
        super().__init__()
        self.first, self.second = first, second

    def forward(self, features: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        hidden = functional.dropout(self.first(features, edges).relu(), training=self.training)
        return self.second(hidden, edges)


def on_vertices(first: nn.Module, second: nn.Module) -> Built:
    features, edges, labels = graph()
    model = Convolved(first, second)
    return training(model, lambda: functional.cross_entropy(model(features, edges), labels))


@program("torch_geometric")
def gcn() -> Built:
    from torch_geometric.nn import GCNConv

    return on_vertices(GCNConv(6, 8), GCNConv(8, 3))


@program("torch_geometric")
def gat() -> Built:
    from torch_geometric.nn import GATv2Conv

    return on_vertices(GATv2Conv(6, 4, heads=2, dropout=0.2), GATv2Conv(8, 3))


@program("torch_geometric")
def sage() -> Built:
    from torch_geometric.nn import SAGEConv

    return on_vertices(SAGEConv(6, 8, aggr="max"), SAGEConv(8, 3))


@program("torch_geometric")
def batched() -> Built:
    """Whole graphs from a loader, pooled."""
    from torch_geometric.data import Data
    from torch_geometric.loader import DataLoader
    from torch_geometric.nn import GIN, global_add_pool

    data = [
        Data(x=torch.randn(5, 6), edge_index=torch.randint(0, 5, (2, 9)), y=torch.tensor([n % 2])) for n in range(8)
    ]
    model = GIN(6, 8, 2, 2, norm="batch_norm")
    optimizer = torch.optim.Adam(model.parameters())

    def run() -> list[torch.Tensor]:
        losses = []
        for batch in DataLoader(data, batch_size=4, shuffle=True):
            optimizer.zero_grad()
            pooled = global_add_pool(model(batch.x, batch.edge_index), batch.batch)
            loss = functional.cross_entropy(pooled, batch.y)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        return losses

    return model, run


@program("torch_geometric")
def autoencoded() -> Built:
    from torch_geometric.nn import VGAE, GCNConv

    features, edges, _ = graph()
    mean, spread = GCNConv(6, 4), GCNConv(6, 4)
    encoder: Any = nn.ModuleList([mean, spread])
    encoder.forward = lambda x, e: (mean(x, e), spread(x, e))
    model = VGAE(encoder)

    def loss() -> torch.Tensor:
        z = model.encode(features, edges)
        return model.recon_loss(z, edges) + model.kl_loss() / 12

    return training(model, loss)


@program("gpytorch")
def gaussian_process() -> Built:
    import gpytorch

    class Regression(gpytorch.models.ExactGP):
        def __init__(self, x: torch.Tensor, y: torch.Tensor) -> None:
            super().__init__(x, y, gpytorch.likelihoods.GaussianLikelihood())
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, x: torch.Tensor) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    x = torch.linspace(0, 1, 20)
    y = (6 * x).sin() + 0.1 * torch.randn(20)
    model = Regression(x, y)
    likelihood = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
    return training(model.train(), lambda: -likelihood(model(x), y))


@program("pyro")
def variational() -> Built:
    """A guide drawn from and scored: parameters live in a store of their own."""
    import pyro
    from pyro.infer import SVI, Trace_ELBO
    from pyro.infer.autoguide import AutoNormal

    pyro.clear_param_store()
    seen = torch.randn(20) + 2

    def story() -> None:
        mean = pyro.sample("mean", pyro.distributions.Normal(0.0, 5.0))
        spread = pyro.sample("spread", pyro.distributions.LogNormal(0.0, 1.0))
        with pyro.plate("seen", 20):
            pyro.sample("each", pyro.distributions.Normal(mean, spread), obs=seen)

    guide = AutoNormal(story)
    guide()
    inference = SVI(story, guide, pyro.optim.Adam({"lr": 0.05}), Trace_ELBO(num_particles=2))
    return guide, lambda: [inference.step() for _ in range(3)]
