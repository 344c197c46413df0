"""What chapter 05 shows: every way to write behind autograd's back, and every one that is harmless."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from tests.data.programs import program


def leaf():
    return torch.tensor([0.5, 1.0, 2.0], requires_grad=True)


@program()
def c05_detach_then_add():
    a = leaf()
    y = a + 2
    y.detach().zero_()
    y.sum().backward()
    return a.grad


@program()
def c05_detach_then_scaled():
    a = leaf()
    y = a * 2
    y.detach().zero_()
    y.sum().backward()
    return a.grad


@program()
def c05_detach_then_sin():
    a = leaf()
    y = a.sin()
    y.detach().zero_()
    y.sum().backward()
    return a.grad


@program("saved_tensor_modified", node="ExpBackward0", tensor="y", route="detach")
def c05_detach_after_exp():
    a = leaf()
    y = a.exp()  # victim
    y.detach().zero_()  # culprit
    y.sum().backward()


@program("saved_tensor_modified", node="TanhBackward0", tensor="y", route="view")
def c05_view_of_a_result():
    a = leaf()
    y = a.tanh()  # victim
    first = y[0]
    first.zero_()  # culprit
    y.sum().backward()


@program("silent_corruption", node="MulBackward0", tensor="w", route="data")
def c05_parameter_updated_too_early():
    w = torch.tensor([2.0], requires_grad=True)
    loss = (w * w).sum()  # victim
    w.data.mul_(10)  # culprit
    loss.backward()
    return w.grad


@program("silent_corruption", node="MulBackward0", tensor="w", route="data")
def c05_data_replaced():
    w = torch.tensor([2.0], requires_grad=True)
    loss = (w * w).sum()  # victim
    w.data = torch.tensor([100.0])  # culprit
    loss.backward()
    return w.grad


@program("silent_corruption", node="MulBackward0", tensor="w", route="data")
def c05_view_of_data():
    w = torch.tensor([2.0, 3.0], requires_grad=True)
    loss = (w * w).sum()  # victim
    w.data[1:].zero_()  # culprit
    loss.backward()
    return w.grad


@program("silent_corruption", node="SigmoidBackward0", tensor="out", route="storage")
def c05_numpy():
    a = leaf()
    out = a.sigmoid()  # victim
    n = out.detach().numpy()
    total = out.sum()
    n[:] = 0  # culprit
    total.backward()
    return a.grad


@program("silent_corruption", node="MulBackward0", tensor="t", route="storage")
def c05_from_numpy():
    array = np.array([1.0, 2.0])
    t = torch.from_numpy(array)
    a = torch.tensor([3.0, 4.0], dtype=torch.float64, requires_grad=True)
    loss = (a * t).sum()  # victim
    array *= 10  # culprit
    loss.backward()
    return a.grad


@program("silent_corruption", node="MulBackward0", tensor="w", route="inside")
def c05_fused_optimiser():
    w = torch.tensor([2.0], requires_grad=True)
    opt = torch.optim.SGD([w], lr=0.5, fused=True)
    w.grad = torch.tensor([1.0])
    loss = (w * w).sum()  # victim
    opt.step()  # culprit
    loss.backward()
    return w.grad


@program("saved_tensor_modified", node="MulBackward0", tensor="w", route="self")
def c05_plain_optimiser():
    w = torch.tensor([2.0], requires_grad=True)
    opt = torch.optim.SGD([w], lr=0.5, foreach=False)
    w.grad = torch.tensor([1.0])
    loss = (w * w).sum()  # victim
    opt.step()  # culprit
    loss.backward()


@program("silent_corruption", node="NativeBatchNormBackward0", tensor="bn.running_mean", route="inside")
def c05_batch_norm():
    bn = nn.BatchNorm1d(2)
    x = torch.randn(4, 2, requires_grad=True)
    bn.eval()
    y = bn(x)  # victim
    bn.train()
    bn(x.detach() * 5 + 2)  # culprit
    y.pow(2).sum().backward()
    return x.grad


@program("silent_corruption", node="SigmoidBackward0", tensor="out", route="self")
def c05_version_held_back():
    a = leaf()
    out = a.sigmoid()  # victim
    with torch.no_grad(), torch.autograd._unsafe_preserve_version_counter(out):
        out.zero_()  # culprit
    out.sum().backward()
    return a.grad


@program("silent_corruption", node="SigmoidBackward0", tensor="out", route="storage")
def c05_set_on_a_storage():
    a = leaf()
    out = a.sigmoid()  # victim
    alias = torch.empty(0).set_(out.detach().untyped_storage())
    alias.zero_()  # culprit
    out.sum().backward()
    return a.grad


@program()
def c05_data_other_bytes():
    a = torch.rand(2, 4, requires_grad=True)
    y = a * 2
    loss = y[:, :2].exp().sum() + (y[:, 2:3] ** 2).sum()
    y.data[:, 3] = 7
    loss.backward()
    return a.grad


@program()
def c05_data_written_and_restored():
    w = torch.tensor([2.0], requires_grad=True)
    loss = (w * w).sum()
    w.data.mul_(2)
    w.data.mul_(0.5)
    loss.backward()
    return w.grad


@program()
def c05_data_whose_gradient_is_not_needed():
    a, b = leaf(), leaf()
    loss = (a * b).sum()
    a.data.zero_()
    (wanted,) = torch.autograd.grad(loss, [a])
    return wanted


@program()
def c05_data_after_backward():
    w = torch.tensor([2.0], requires_grad=True)
    for _ in range(3):
        loss = (w * w).sum()
        loss.backward()
        w.data.sub_(0.1 * w.grad)
        w.grad = None
    return w


@program()
def c05_relu_reads_the_sign_only():
    a = torch.tensor([-1.0, 2.0, 3.0], requires_grad=True)
    y = a.relu()
    y.data.mul_(2)
    y.sum().backward()
    return a.grad


@program("graph_cut", tensor="a", route="detach")
def c05_detach_cuts():
    a, b = leaf(), leaf()
    y = (a * 2).detach()  # culprit
    (y * b).sum().backward()
    return a.grad, b.grad
