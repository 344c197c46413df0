"""Programs whose mend is easily told wrong; and the same with the mend, which are right.

Each is as people write it: a discriminator that steps between its two uses, a Parameter that an op has made a result
of, a head that is put in after the optimiser was made.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # torch's own convention

from tests.data.programs import program


class Scaled(nn.Module):
    """A weight of its own, small at the start."""

    def __init__(self, weight):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.shift = weight

    def forward(self, x):
        return torch.tanh(self.linear(x)) * self.shift


@program("saved_tensor_modified", severity="error")
def v_discriminator_steps_between():
    torch.manual_seed(0)
    generator = nn.Linear(2, 3)
    discriminator = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    opt_g = torch.optim.SGD(generator.parameters(), lr=0.1)
    opt_d = torch.optim.SGD(discriminator.parameters(), lr=0.1)
    bce, one, zero = nn.BCEWithLogitsLoss(), torch.ones(5, 1), torch.zeros(5, 1)
    for _ in range(1):
        real, noise = torch.randn(5, 3), torch.randn(5, 2)
        fake = generator(noise)
        judged = discriminator(fake)  # victim
        loss_d = bce(discriminator(real), one) + bce(judged, zero)
        loss_g = bce(judged, one)
        opt_d.zero_grad()
        loss_d.backward(retain_graph=True)
        opt_d.step()  # culprit
        opt_g.zero_grad()
        loss_g.backward()
        opt_g.step()


@program()
def kv_discriminator_judges_anew():
    generator = nn.Linear(2, 3)
    discriminator = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    opt_g = torch.optim.SGD(generator.parameters(), lr=0.1)
    opt_d = torch.optim.SGD(discriminator.parameters(), lr=0.1)
    bce, one, zero = nn.BCEWithLogitsLoss(), torch.ones(5, 1), torch.zeros(5, 1)
    for _ in range(3):
        real, noise = torch.randn(5, 3), torch.randn(5, 2)
        fake = generator(noise)
        opt_d.zero_grad()
        (bce(discriminator(real), one) + bce(discriminator(fake.detach()), zero)).backward()
        opt_d.step()
        opt_g.zero_grad()
        bce(discriminator(fake), one).backward()
        opt_g.step()


@program("no_optimiser_holds_it")
def v_parameter_that_was_moved():
    torch.manual_seed(0)
    model = Scaled(nn.Parameter(torch.randn(3)).to(torch.float64).to(torch.get_default_dtype()))  # culprit
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        loss = model(torch.randn(4, 3)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()  # victim


@program("graph_freed", severity="error")
def v_parameter_that_was_scaled():
    torch.manual_seed(0)
    model = Scaled(nn.Parameter(torch.randn(3)) * 0.1)  # culprit, victim
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        loss = model(torch.randn(4, 3)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program()
def kv_parameter_of_the_finished_numbers():
    model = Scaled(nn.Parameter((torch.randn(3) * 0.1).to(torch.float64).to(torch.get_default_dtype())))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        loss = model(torch.randn(4, 3)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program("no_optimiser_holds_it")
def v_head_put_in_later():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 5))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model[2] = nn.Linear(4, 2)  # culprit
    for _ in range(3):
        x, y = torch.randn(6, 3), torch.randint(0, 2, (6,))
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()  # victim


@program()
def kv_head_put_in_before():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 5))
    model[2] = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        x, y = torch.randn(6, 3), torch.randint(0, 2, (6,))
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
