"""In-place writes, views, hooks and detached copies that are right."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn
from torch.autograd import Function
from torch.nn import functional as F  # noqa: N812  # torch's own convention

from tests.data.programs import program


@program()
def l_hook_that_updates_through_data_after_the_last_use():
    w = torch.ones(3, requires_grad=True)

    def update(p):
        p.data.sub_(p.grad, alpha=0.1)
        p.grad = None

    w.register_post_accumulate_grad_hook(update)
    for _ in range(3):
        (w * w).sum().backward()


@program()
def w_scores_masked_before_softmax():
    query, key = nn.Linear(4, 4), nn.Linear(4, 4)
    x = torch.randn(3, 4)
    scores = query(x) @ key(x).T / 2
    scores.masked_fill_(torch.triu(torch.ones(3, 3, dtype=torch.bool), 1), float("-inf"))
    torch.softmax(scores, dim=-1).pow(2).sum().backward()
    return query.weight.grad


@program()
def w_add_after_add():
    x = torch.randn(3, requires_grad=True)
    y = x + 1
    y += 1
    y += x
    y.sum().backward()
    return x.grad


@program()
def w_relu_in_place_after_a_convolution():
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(inplace=True), nn.Conv2d(2, 1, 3))
    net(torch.randn(2, 1, 6, 6)).pow(2).mean().backward()
    return [p.grad for p in net.parameters()]


@program()
def w_initialised_under_no_grad():
    layer = nn.Linear(3, 3)
    with torch.no_grad():
        layer.weight.fill_(0.1)
        layer.weight[0] = 1
        layer.bias.zero_()
    nn.init.xavier_uniform_(layer.weight)
    layer(torch.randn(2, 3)).sum().backward()
    return layer.weight.grad


@program()
def w_residual_added_in_place():
    first, second = nn.Linear(4, 4), nn.Linear(4, 4)
    x = torch.randn(2, 4)
    h = second(F.relu(first(x)))
    h += x
    h.pow(2).sum().backward()
    return first.weight.grad


@program()
def w_key_cache_under_no_grad():
    key, query = nn.Linear(4, 4), nn.Linear(4, 4)
    cache = torch.zeros(3, 4)
    outs = []
    with torch.no_grad():
        for t, token in enumerate(torch.randn(3, 4)):
            cache[t] = key(token)
            outs.append(torch.softmax(query(token) @ cache[: t + 1].T, dim=-1))
    return outs


@program()
def w_outputs_written_into_a_buffer():
    cell = nn.RNNCell(2, 3)
    h, outs = torch.zeros(1, 3), torch.zeros(4, 3)
    for t, x in enumerate(torch.randn(4, 1, 2)):
        h = cell(x, h)
        outs[t] = h[0]
    outs.pow(2).sum().backward()
    return [p.grad for p in cell.parameters()]


@program()
def w_boxes_decoded_slice_by_slice():
    raw = nn.Linear(3, 4)(torch.randn(5, 3))
    anchors = torch.rand(5, 2)
    raw[:, :2] = raw[:, :2].sigmoid() * 2 - 0.5
    raw[:, 2:] = (raw[:, 2:].tanh() + 1) * anchors
    raw.pow(2).mean().backward()
    return raw


@program()
def w_chunks_used_without_writing():
    gates = nn.Linear(2, 8)
    i, f, g, o = gates(torch.randn(3, 2)).chunk(4, dim=1)
    (i.sigmoid() * g.tanh() + f.sigmoid() * o.sigmoid()).sum().backward()
    return gates.weight.grad


@program()
def w_rows_written_by_index():
    points = nn.Linear(2, 3)(torch.randn(4, 2))
    for i in range(4):
        points[i] -= 1
    points.pow(2).sum().backward()
    return points


@program()
def w_array_written_after_backward():
    w = torch.randn(3, requires_grad=True)
    w.pow(2).sum().backward()
    w.detach().numpy()[:] = 0
    w.grad.numpy()[:] = 1
    return w, w.grad


@program()
def w_array_only_read():
    x = torch.randn(3, requires_grad=True)
    y = x.sigmoid()
    mean = float(np.mean(y.detach().numpy()))
    y.sum().backward()
    return x.grad, mean


@program()
def w_copy_of_an_array_written():
    x = torch.randn(3, requires_grad=True)
    y = x.exp()
    shown = y.detach().numpy().copy()
    shown *= 100
    y.sum().backward()
    return x.grad


@program()
def w_detached_clone_written():
    x = torch.randn(3, requires_grad=True)
    y = x.exp()
    y.detach().clone().zero_()
    y.clone().zero_()
    y.sum().backward()
    return x.grad


@program()
def w_hooks_that_return_new_gradients():
    a, b = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    left, right = a.exp(), b.exp()
    left.register_hook(lambda grad: grad.clamp(-0.1, 0.1))
    a.register_hook(lambda grad: grad * 2)
    (left + right).pow(2).sum().backward()
    return a.grad, b.grad


@program()
def w_gradient_written_after_accumulation():
    w = torch.ones(3, requires_grad=True)

    def halve(p):
        p.grad.mul_(0.5)

    w.register_post_accumulate_grad_hook(halve)
    (w * w).sum().backward()
    return w.grad


@program()
def w_own_gradient_scaled_in_place_by_its_only_owner():
    x = torch.ones(3, requires_grad=True)
    y = x.exp()
    y.register_hook(lambda grad: grad.mul_(2))
    (y * 3).sum().backward()
    return x.grad


@program()
def w_function_that_marks_its_write():
    class Double(Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    x = torch.randn(3, requires_grad=True)
    Double.apply(x * 1).pow(2).sum().backward()
    return x.grad


@program()
def w_function_that_writes_to_what_nobody_uses_again():
    class Double(Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            return x

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    x = torch.randn(3, requires_grad=True)
    (Double.apply(x * 1) * 3).sum().backward()
    return x.grad


@program()
def w_function_that_shifts_its_input():
    class Shift(Function):
        @staticmethod
        def forward(ctx, x):
            x.add_(1)
            return x.sum()

        @staticmethod
        def backward(ctx, grad):
            return grad.expand(3)

    x = torch.randn(3, requires_grad=True)
    h = x * 1
    (Shift.apply(h) + (h * 3).sum()).backward()
    return x.grad


@program()
def w_function_that_writes_to_its_own_copy():
    class Double(Function):
        @staticmethod
        def forward(ctx, x):
            y = x.clone()
            y.mul_(2)
            return y

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    x = torch.randn(3, requires_grad=True)
    h = x * 1
    (Double.apply(h) + h).sum().backward()
    return x.grad


@program()
def w_function_with_plain_attributes():
    class Power(Function):
        @staticmethod
        def forward(ctx, x, n):
            ctx.n = n
            ctx.save_for_backward(x)
            return x**n

        @staticmethod
        def backward(ctx, grad):
            return ctx.n * ctx.saved_tensors[0] ** (ctx.n - 1) * grad, None

    x = torch.rand(3, requires_grad=True)
    Power.apply(x, 3).sum().backward()
    return x.grad


@program()
def w_buffer_updated_under_no_grad_before_use():
    class Centred(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(3))
            self.register_buffer("mean", torch.zeros(3))

        def forward(self, x):
            with torch.no_grad():
                self.mean.lerp_(x.mean(0), 0.1)
            return (x - self.mean) * self.scale

    model = Centred()
    for x in torch.randn(2, 4, 3):
        model(x).pow(2).mean().backward()
    return model.scale.grad


@program()
def w_identity_hooks_without_a_write():
    x = torch.randn(3, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        y = x.exp() * x.sin()
    y.sum().backward()
    return x.grad


@program()
def w_offloaded_and_written_after_backward():
    x = torch.randn(3, requires_grad=True)
    h = x * 1
    with torch.autograd.graph.save_on_cpu():
        (h * h).sum().backward()
    with torch.no_grad():
        h.zero_()
    return x.grad


@program()
def w_hessian_vector_product():
    x = torch.randn(3, requires_grad=True)
    (g,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    (hv,) = torch.autograd.grad(g, x, grad_outputs=torch.ones(3))
    return hv


@program()
def w_jacobian_and_transforms():
    def f(w):
        return (w.sin() * 2).cumsum(0)

    w = torch.randn(3)
    return torch.func.jacrev(f)(w), torch.func.vmap(torch.func.grad(lambda t: f(t).sum()))(torch.randn(2, 3))


@program()
def w_functional_call_with_in_place_state():
    norm = nn.BatchNorm1d(2)
    params = {name: p.detach().requires_grad_() for name, p in norm.named_parameters()}
    out = torch.func.functional_call(norm, params, (torch.randn(4, 2),))
    out.pow(3).sum().backward()
    return [p.grad for p in params.values()]


@program()
def w_batch_norm_in_training_twice():
    norm = nn.BatchNorm1d(3)
    x = torch.randn(4, 3, requires_grad=True)
    first, second = norm(x), norm(x * 2)
    (first.pow(3).sum() + second.pow(3).sum()).backward()
    return x.grad, norm.running_mean


@program()
def w_adversarial_step_under_no_grad():
    model, image = nn.Linear(4, 2), torch.rand(1, 4, requires_grad=True)
    for _ in range(2):
        F.cross_entropy(model(image), torch.tensor([1])).backward()
        with torch.no_grad():
            image.add_(0.1 * image.grad.sign()).clamp_(0, 1)
        image.grad = None
    return image


@program()
def w_straight_through_estimator():
    x = torch.randn(4, requires_grad=True)
    hard = (x > 0).float()
    y = hard + x.sigmoid() - x.sigmoid().detach()
    y.pow(2).sum().backward()
    return x.grad


@program()
def w_gradient_stopped_on_one_side():
    net, predict = nn.Linear(3, 4), nn.Linear(4, 4)
    a, b = net(torch.randn(2, 3)), net(torch.randn(2, 3))
    loss = -F.cosine_similarity(predict(a), b.detach()).mean() - F.cosine_similarity(predict(b), a.detach()).mean()
    loss.backward()
    return net.weight.grad


@program()
def w_retained_gradient_of_a_hidden_value():
    layer = nn.Linear(3, 2)
    h = layer(torch.randn(2, 3))
    h.retain_grad()
    h.pow(2).mean().backward()
    return h.grad


@program()
def w_unused_input_allowed():
    x, z = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)
    return torch.autograd.grad((x * 2).sum(), [x, z], allow_unused=True)


@program()
def w_parameter_vector_round_trip():
    model = nn.Linear(3, 2)
    flat = nn.utils.parameters_to_vector(model.parameters()).detach()
    nn.utils.vector_to_parameters(flat * 0.5, model.parameters())
    model(torch.randn(2, 3)).sum().backward()
    return model.weight.grad


@program()
def w_spectral_norm():
    layer = nn.utils.parametrizations.spectral_norm(nn.Linear(3, 3))
    for x in torch.randn(2, 4, 3):
        layer(x).pow(2).mean().backward()
    return [p.grad for p in layer.parameters()]
