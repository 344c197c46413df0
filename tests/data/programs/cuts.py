"""Graphs that end too early, leaves that aren't, and gradients of what was never used."""

from __future__ import annotations

import warnings

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # torch's own convention

from tests.data.programs import program


@program("graph_cut", tensor="encoder.weight", route="detach")
def x_encoder_detached_by_mistake():
    encoder, head = nn.Linear(3, 4, bias=False), nn.Linear(4, 1)
    features = encoder(torch.randn(2, 3))
    out = head(features.detach())  # culprit
    out.mean().backward()  # victim


@program("graph_cut", tensor="encoder.weight")
def x_features_under_no_grad():
    encoder, head = nn.Linear(3, 4, bias=False), nn.Linear(4, 1)

    @torch.no_grad()  # culprit
    def embed(x):
        return encoder(x)

    head(embed(torch.randn(2, 3))).mean().backward()  # victim


@program("graph_cut", severity="error", tensor="loss")
def x_training_with_gradients_switched_off():
    model = nn.Linear(3, 1)
    torch.set_grad_enabled(False)  # culprit
    try:
        loss = model(torch.randn(2, 3)).mean()
    finally:
        torch.set_grad_enabled(True)
    loss.backward()  # victim


@program("graph_cut", severity="note", tensor="model.weight")
def x_loss_rebuilt_from_its_number():
    model = nn.Linear(3, 1, bias=False)
    value = model(torch.randn(2, 3)).pow(2).mean().item()
    loss = torch.tensor(value, requires_grad=True)  # culprit
    loss.backward()  # victim
    return model.weight.grad


@program("graph_cut", severity="note", tensor="model.weight")
def x_prediction_wrapped_in_a_new_tensor():
    model = nn.Linear(3, 1, bias=False)
    prediction = model(torch.randn(2, 3))
    fresh = torch.tensor(prediction.tolist(), requires_grad=True)  # culprit
    F.mse_loss(fresh, torch.zeros(2, 1)).backward()  # victim
    return model.weight.grad


@program("graph_cut", severity="note", tensor="w")
def x_rebuilt_with_torch_tensor():
    w = torch.randn(3, requires_grad=True)
    y = w * 2
    z = y.clone().detach().requires_grad_(True)  # culprit
    (z**2).sum().backward()  # victim
    return w.grad


@program("graph_cut", severity="note", tensor="w")
def x_wrapped_in_a_parameter():
    w = torch.randn(3, requires_grad=True)
    shifted = nn.Parameter(w * 2 + 1)  # culprit
    (shifted**2).sum().backward()  # victim
    return w.grad


@program("graph_cut", severity="note", tensor="w")
def x_wrapped_in_a_parameter_and_used_later():
    w = torch.randn(3, requires_grad=True)
    h = w * 2
    p = nn.Parameter(h)  # culprit
    scale = torch.ones(3) + 1
    ((p * scale) ** 2).sum().backward()  # victim
    return w.grad


@program("graph_cut", severity="note", tensor="w")
def x_a_module_s_weight_made_of_a_result():
    w = torch.randn(3, requires_grad=True)
    head = nn.Linear(3, 1, bias=False)
    rows = w.unsqueeze(0) * 2
    head.weight = nn.Parameter(rows)  # culprit
    x = torch.ones(2, 3).mul(2)
    head(x).sum().backward()  # victim
    return w.grad


@program("graph_cut", severity="error", tensor="loss")
def x_loss_computed_in_numpy():
    model = nn.Linear(3, 1)
    prediction = model(torch.randn(4, 3))
    array = prediction.detach().numpy()  # culprit
    loss = torch.from_numpy(np.asarray([(array**2).mean()]))
    loss.backward()  # victim


@program("graph_cut", severity="note", tensor="encoder.weight")
def x_features_through_numpy():
    encoder, head = nn.Linear(3, 4, bias=False), nn.Linear(4, 1)
    features = encoder(torch.randn(2, 3)).detach().numpy()  # culprit
    head(torch.from_numpy(np.log1p(np.abs(features)))).mean().backward()  # victim


@program("graph_cut", severity="error", tensor="loss")
def x_cast_to_integers():
    position = torch.tensor([1.5, 2.5], requires_grad=True)
    cells = (position * 10).long()  # culprit
    loss = cells.float().mean()
    loss.backward()  # victim


@program("graph_cut", severity="error", tensor="loss")
def x_accuracy_as_a_loss():
    model = nn.Linear(3, 2)
    correct = model(torch.randn(4, 3)).argmax(1) == torch.zeros(4)  # culprit
    loss = 1 - correct.float().mean()
    loss.backward()  # victim


@program("graph_cut", severity="error", tensor="loss")
def x_threshold_as_a_layer():
    model = nn.Linear(3, 2)
    hard = model(torch.randn(4, 3)) > 0  # culprit
    loss = F.mse_loss(hard.float(), torch.ones(4, 2))
    loss.backward()  # victim


@program("graph_cut", severity="error", tensor="loss")
def x_every_parameter_frozen():
    model = nn.Linear(3, 1)
    for p in model.parameters():
        p.requires_grad_(False)
    loss = model(torch.randn(2, 3)).mean()
    loss.backward()  # victim


@program("inference_tensor", tensor="features")
def x_features_of_inference_mode():
    backbone, head = nn.Linear(3, 4), nn.Linear(4, 1)
    with torch.inference_mode():
        features = backbone(torch.randn(2, 3))  # culprit
    out = head(features)  # victim
    out.mean().backward()


@program("inference_tensor", tensor="cache")
def x_inference_tensor_updated_later():
    with torch.inference_mode():
        cache = torch.zeros(3)  # culprit
    weight = torch.ones(3, requires_grad=True)
    cache.add_(1)  # victim
    return weight * cache


@program("grad_of_non_leaf", tensor="w")
def x_leaf_rebound_by_arithmetic():
    w = torch.randn(3, requires_grad=True)
    w = w * 0.5  # culprit
    (w**2).sum().backward()
    with warnings.catch_warnings(action="ignore"):
        return w.grad  # victim


@program("grad_of_non_leaf", tensor="w")
def x_leaf_rebound_by_a_cast():
    w = torch.randn(3, requires_grad=True).to(torch.float64)  # culprit
    (w**2).sum().backward()
    with warnings.catch_warnings(action="ignore"):
        return w.grad  # victim


@program("grad_of_non_leaf", tensor="h")
def x_gradient_of_a_hidden_value():
    layer = nn.Linear(3, 2)
    h = layer(torch.randn(2, 3))  # culprit
    h.pow(2).mean().backward()
    with warnings.catch_warnings(action="ignore"):
        return h.grad  # victim


@program("optimiser_given_non_leaf", tensor="w")
def x_optimiser_of_a_scaled_weight():
    w = torch.randn(3, requires_grad=True) * 0.1  # culprit
    torch.optim.SGD([w], lr=0.1)  # victim


@program("optimiser_given_non_leaf")
def x_optimiser_of_an_expression():
    w = torch.randn(3, requires_grad=True)
    torch.optim.Adam([w * 2])  # culprit


@program("optimiser_given_non_leaf", tensor="theta")
def x_optimiser_of_a_cast_tensor():
    theta = torch.randn(3, requires_grad=True)
    theta = theta.to(torch.float64)  # culprit
    scale = torch.ones(3, requires_grad=True)
    torch.optim.RMSprop([{"params": [scale]}, {"params": [theta], "lr": 0.1}])  # victim


@program("unused_input", tensor="b")
def x_gradient_of_an_unused_input():
    a, b = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)
    loss = (a * 2).sum() + b.detach().sum()  # culprit
    torch.autograd.grad(loss, [a, b])  # victim


@program("unused_input", tensor="z")
def x_gradient_of_something_never_used():
    x, z = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)
    loss = (x**2).sum()
    torch.autograd.grad(loss, [x, z])  # victim


@program("unused_input")
def x_gradient_of_a_fresh_slice():
    x = torch.randn(4, 2, requires_grad=True)
    energy = (x**2).sum()
    torch.autograd.grad(energy, x[:, 0])  # culprit


@program("unused_input", tensor="x")
def x_gradient_of_an_input_without_requires_grad():
    net, x = nn.Linear(2, 1), torch.randn(4, 2)
    u = net(x).sum()
    torch.autograd.grad(u, x)  # victim


@program("unused_input", tensor="x")
def x_requires_grad_set_after_the_forward():
    net, x = nn.Linear(2, 1), torch.randn(4, 2)
    u = net(x).sum()
    x.requires_grad_()
    torch.autograd.grad(u, x)  # victim


@program("unused_input", tensor="lamda")
def x_derivative_by_a_variable_that_was_converted():
    lamda = torch.tensor(0.5, requires_grad=True)
    w = torch.randn(3, requires_grad=True)
    with warnings.catch_warnings(action="ignore"):
        factor = float(lamda)
    loss = (w**2).sum() * factor
    torch.autograd.grad(loss, [w, lamda])  # victim


# -- leaves


@program("leaf_modified", tensor="w", route="self")
def x_gradient_step_without_no_grad():
    w = torch.randn(3, requires_grad=True)
    (w**2).sum().backward()
    w -= 0.1 * w.grad  # culprit


@program("leaf_modified", tensor="embed.weight", route="view")
def x_padding_row_zeroed():
    embed = nn.Embedding(5, 3)
    embed.weight[0] = 0  # culprit


@program("leaf_modified", tensor="layer.bias", route="self")
def x_forget_gate_bias():
    layer = nn.Linear(3, 4)
    layer.bias += 1  # culprit


@program("leaf_modified", tensor="w", route="view")
def x_first_row_of_a_weight():
    w = torch.zeros(3, 4, requires_grad=True)
    rows = w.view(-1, 2)
    rows[1:].uniform_(-1, 1)  # culprit


@program("leaf_modified", tensor="w")
def x_diagonal_of_a_weight():
    w = torch.zeros(3, 3, requires_grad=True)
    w.fill_diagonal_(1)  # culprit


@program("leaf_modified", tensor="net.0.weight", route="self")
def x_initialiser_written_by_hand():
    net = nn.Sequential(nn.Linear(3, 3), nn.ReLU())

    def init(layer):
        if isinstance(layer, nn.Linear):
            layer.weight.uniform_(-0.1, 0.1)  # culprit

    net.apply(init)


@program("leaf_modified", tensor="x", route="view")
def x_boundary_of_an_input():
    x = torch.linspace(0, 1, 5, requires_grad=True)
    x[0] = 0.5  # culprit
    x.pow(2).sum().backward()


@program("leaf_modified", tensor="image", route="self")
def x_adversarial_step_in_place():
    image = torch.rand(1, 4, requires_grad=True)
    nn.Linear(4, 2)(image).sum().backward()
    image.add_(0.1 * image.grad.sign())  # culprit
