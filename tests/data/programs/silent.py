"""Writes that torch can't see: the gradient is wrong and nobody says so."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from tests.data.programs import program


@program("silent_corruption", tensor="batch", route="storage")
def q_loader_reuses_its_array():
    buffer = np.zeros((4, 3), dtype=np.float32)
    batch = torch.from_numpy(buffer)
    buffer[:] = 1
    loss = nn.Linear(3, 1)(batch).sum()  # victim
    buffer[:] = 2  # culprit
    loss.backward()
    return loss


@program("silent_corruption", tensor="w", route="storage")
def q_weights_edited_as_an_array():
    w = torch.randn(4, requires_grad=True)
    loss = (w**2).sum()  # victim
    array = w.detach().numpy()
    array -= 0.5  # culprit
    loss.backward()
    return w.grad


@program("silent_corruption", tensor="p", route="storage")
def q_probabilities_plotted_in_percent():
    p = torch.softmax(torch.randn(4, requires_grad=True), dim=0)  # victim
    shown = np.asarray(p.detach())
    np.multiply(shown, 100, out=shown)  # culprit
    p[0].log().backward()
    return p


@program("silent_corruption", tensor="w", route="storage")
def q_shared_through_dlpack():
    w = torch.rand(3, requires_grad=True)
    loss = w.log().sum()  # victim
    other = torch.from_dlpack(w.detach())
    other.fill_(9)  # culprit
    loss.backward()
    return w.grad


@program("silent_corruption", tensor="w", route="storage")
def q_storage_filled():
    w = torch.rand(3, requires_grad=True)
    loss = (w * w).sum()  # victim
    w.untyped_storage().fill_(0)  # culprit
    loss.backward()
    return w.grad


@program("silent_corruption", tensor="w", route="storage")
def q_second_tensor_on_the_storage():
    w = torch.rand(4, requires_grad=True)
    loss = w.sqrt().sum() + w.pow(3).sum()  # victim
    window = torch.empty(0).set_(w.untyped_storage(), 0, (2,), (1,))
    window.zero_()  # culprit
    loss.backward()
    return w.grad


@program("silent_corruption", tensor="mask", route="data")
def q_mask_changed_through_data():
    x = torch.randn(3, requires_grad=True)
    mask = torch.tensor([1.0, 0.0, 1.0])
    y = x * mask  # victim
    mask.data.fill_(1)  # culprit
    y.sum().backward()
    return x.grad


@program("silent_corruption", tensor="h", route="data")
def q_hidden_units_dropped_through_data():
    layer, head = nn.Linear(3, 4), nn.Linear(4, 1)
    h = torch.tanh(layer(torch.randn(2, 3)))  # victim
    h.data[:, 0] = 0  # culprit
    head(h).sum().backward()
    return layer.weight.grad


@program("silent_corruption", tensor="y", route="data")
def q_data_of_a_view():
    x = torch.randn(6, requires_grad=True)
    y = x.exp()  # victim
    rows = y.view(2, 3)
    rows.data[0].zero_()  # culprit
    y.sum().backward()
    return x.grad


@program("silent_corruption", tensor="target", route="storage")
def q_labels_smoothed_in_numpy():
    labels = np.array([0.0, 1.0, 1.0], dtype=np.float32)
    target = torch.as_tensor(labels)
    logits = torch.randn(3, requires_grad=True)
    loss = nn.functional.binary_cross_entropy_with_logits(logits, target)  # victim
    labels[labels > 0.5] = 0.9  # culprit
    loss.backward()
    return logits.grad


@program("silent_corruption", tensor="out", route="storage")
def q_bytes_of_a_memoryview():
    x = torch.randn(3, requires_grad=True)
    out = x.sigmoid()  # victim
    raw = memoryview(out.detach().numpy()).cast("B")
    total = out.sum()
    raw[:4] = b"\0\0\0\0"  # culprit
    total.backward()
    return x.grad


@program("silent_corruption", tensor="layer.weight", route="data")
def q_pruned_between_forward_and_backward():
    layer = nn.Linear(4, 2)
    x = torch.randn(3, 4, requires_grad=True)
    out = layer(x)  # victim
    layer.weight.data[layer.weight.abs() < 0.2] = 0  # culprit
    out.pow(2).sum().backward()
    return x.grad
