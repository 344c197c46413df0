"""Mistakes of real programs."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # torch's own convention

from seegrad.capture.probes import torch_private as _torch
from tests.data.programs import program


@program("graph_freed", node="MulBackward0", tensor="b")
def k_backward_twice():
    a = torch.tensor([3.0, 1.0], requires_grad=True)
    b = a * a  # victim
    loss = b.mean()
    loss.backward()  # culprit
    loss.backward()


@program("graph_freed", node="MulBackward0", tensor="shared")
def k_two_losses():
    a = torch.tensor([3.0, 1.0], requires_grad=True)
    shared = a * a  # victim
    (shared + 1).sum().backward()  # culprit
    (shared * 2).sum().backward()


@program("leaf_modified", tensor="a", route="view")
def k_view_of_a_leaf():
    a = torch.ones(3, requires_grad=True)
    first = a[0]
    first.zero_()  # culprit


@program("leaf_modified", tensor="model.weight", route="self")
def k_parameter_initialised():
    model = nn.Linear(2, 1)
    model.weight.zero_()  # culprit


@program("graph_cut", tensor="loss", severity="error")
def k_no_grad_around_the_loss():
    model = nn.Linear(2, 1)
    x = torch.ones(1, 2)
    with torch.no_grad():
        loss = model(x).sum()  # culprit
    loss.backward()  # victim


@program("graph_cut", tensor="loss", severity="error")
def k_argmax_has_no_derivative():
    model = nn.Linear(2, 3)
    choice = model(torch.ones(1, 2)).argmax()  # culprit
    loss = choice * 2.0
    loss.backward()  # victim


@program("graph_cut", tensor="loss", severity="error")
def k_nothing_requires_grad():
    x = torch.ones(3)
    loss = x.sum()
    loss.backward()  # victim


@program("saved_tensor_modified", node="ReluBackward0", tensor="h", route="self")
def k_inplace_on_a_relu():
    x = torch.randn(4, requires_grad=True)
    h = F.relu(x)  # victim
    h += 1  # culprit
    h.sum().backward()


@program(
    "saved_tensor_modified",
    node="SigmoidBackward0",
    route="inside",
    missed="" if _torch.READS_SAVED else "torch 2.9 doesn't show a saved result that the graph alone holds",
)
def k_inplace_module():
    model = nn.Sequential(nn.Linear(2, 2), nn.Sigmoid(), nn.ReLU(inplace=True))  # culprit
    model(torch.ones(1, 2)).sum().backward()  # victim


@program("saved_tensor_modified", tensor="hidden", route="self")
def k_hidden_state():
    cell = nn.Linear(2, 2)
    hidden = torch.zeros(1, 2)
    total = torch.zeros(())
    for step in range(3):
        hidden = torch.tanh(cell(hidden + step))  # victim
        total = total + hidden.sum()
        if step == 2:
            hidden += 1  # culprit
    total.backward()


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad


@program("saved_tensor_modified", node="SquareBackward", tensor="h", route="self")
def k_custom_function():
    a = torch.ones(2, requires_grad=True)
    h = a + 1
    y = Square.apply(h)
    h.mul_(10)  # culprit
    y.sum().backward()


@program("saved_tensor_modified", node="CopySlices", tensor="part")
def k_hidden_behind_copy_slices():
    a = torch.ones(4, requires_grad=True)
    y = a * 1
    part = y[:2]
    part.exp_()  # victim
    part.zero_()  # culprit
    y.sum().backward()


@program()
def k_caught_error_goes_on():
    a = torch.ones(2, requires_grad=True)
    return (a * 2).sum()
