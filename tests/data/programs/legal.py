"""Programs that are right: nothing above a note may be said of them."""

from __future__ import annotations

import warnings

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from tests.data.programs import program


def train(optimiser, **options):
    model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 1))
    opt = optimiser(model.parameters(), lr=0.1, **options)
    for _ in range(3):
        opt.zero_grad()
        loss = (model(torch.randn(5, 3)) - 1).pow(2).mean()
        loss.backward()
        opt.step()
    return [p.detach().clone() for p in model.parameters()], loss


@program()
def l_sgd():
    return train(torch.optim.SGD, momentum=0.9)


@program()
def l_adam_foreach():
    return train(torch.optim.Adam, foreach=True)


@program()
def l_adam_fused():
    return train(torch.optim.AdamW, fused=True)


@program()
def l_lstm():
    model = nn.LSTM(2, 3, batch_first=True)
    out, (h, _) = model(torch.randn(2, 4, 2))
    (out.sum() + h.sum()).backward()
    return [p.grad for p in model.parameters()]


@program()
def l_convolution():
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8, 2))
    loss = nn.functional.cross_entropy(model(torch.randn(3, 1, 6, 6)), torch.tensor([0, 1, 1]))
    loss.backward()
    return [p.grad for p in model.parameters()]


@program()
def l_attention():
    model = nn.MultiheadAttention(4, 2, batch_first=True)
    x = torch.randn(2, 3, 4, requires_grad=True)
    out, _ = model(x, x, x)
    out.pow(2).sum().backward()
    return x.grad


@program()
def l_buffer_filled_row_by_row():
    x = torch.randn(3, requires_grad=True)
    buf = torch.zeros(3)
    for i in range(3):
        buf[i] = x[i] ** 2
    buf.sum().backward()
    return x.grad


@program()
def l_inplace_where_it_is_right():
    x = torch.rand(3, requires_grad=True)
    y = (x + 1).mul_(2).relu_()
    y.sin().sum().backward()
    return x.grad


@program()
def l_second_derivative():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    (g,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    g.sum().backward()
    return g, x.grad


@program()
def l_retain_graph():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = x.exp().sum()
    y.backward(retain_graph=True)
    y.backward()
    return x.grad


@program()
def l_backward_inputs():
    x, z = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    torch.autograd.backward((x * z).sum(), inputs=[x])
    return x.grad, z.grad


@program()
def l_prod():
    x = torch.tensor([1.5, 2.5, 0.1], requires_grad=True)
    x.prod().backward()
    return x.grad


@program()
def l_checkpoint():
    model = nn.Linear(2, 2)
    x = torch.randn(3, 2, requires_grad=True)
    checkpoint(model, x, use_reentrant=False).sum().backward()
    return x.grad


@program()
def l_saved_tensor_hooks():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        y = x.exp()
    y.sum().backward()
    return x.grad


@program()
def l_functional_transforms():
    return torch.func.vmap(torch.func.grad(lambda t: (t**2).sum()))(torch.randn(2, 3))


@program()
def l_weight_norm():
    model = nn.utils.parametrizations.weight_norm(nn.Linear(2, 2))
    model(torch.ones(1, 2)).sum().backward()
    return [p.grad for p in model.parameters()]


@program()
def l_views_and_copies():
    x = torch.randn(2, 3, requires_grad=True)
    parts = [*x.unbind(0), *x.chunk(3, dim=1), x.T, x.reshape(-1), x.expand(2, 2, 3)]
    torch.cat([part.reshape(-1) for part in parts]).exp().sum().backward()
    return x.grad


@program()
def l_moving_average():
    w = torch.randn(3, requires_grad=True)
    average = torch.zeros(3)
    for _ in range(2):
        (w**2).sum().backward()
        with torch.no_grad():
            w -= 0.1 * w.grad
            average.mul_(0.9).add_(w, alpha=0.1)
        w.grad.zero_()
    return w, average


@program()
def l_a_warning_of_torch():
    a = torch.ones(2, requires_grad=True)
    b = a * 2
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        b.grad  # noqa: B018  # reading it is what warns
    return [(str(w.message), w.filename, w.lineno) for w in caught]
