"""All ways to ask torch for a derivative, and all that wraps a forward: checkpoint, autocast, anomaly, compile."""

from __future__ import annotations

import warnings

import torch
import torch.autograd.forward_ad as forward_ad
from torch.func import functional_call, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from tests.data.transparency import whole


@whole
def w_func_grad():
    x = torch.randn(3)
    return grad(lambda v: (v.sin() * v).sum())(x), grad(grad(lambda v: v.exp() * v))(x[0])


@whole
def w_func_vmap():
    x, w = torch.randn(4, 3), torch.randn(3, requires_grad=True)
    y = vmap(lambda row: (row * w).tanh().sum())(x)
    y.sum().backward()
    return y, w.grad


@whole
def w_func_per_sample_gradients():
    model = torch.nn.Linear(3, 1)
    parameters = {name: each.detach() for name, each in model.named_parameters()}
    x, y = torch.randn(5, 3), torch.randn(5, 1)

    def loss(given, row, target):
        return ((functional_call(model, given, (row,)) - target) ** 2).sum()

    return vmap(grad_and_value(loss), in_dims=(None, 0, 0))(parameters, x, y)


@whole
def w_func_jacobians():
    x = torch.randn(3)

    def f(v):
        return torch.stack([v.prod(), v.sum().exp(), v[0] * v[1]])

    return jacrev(f)(x), jacfwd(f)(x), hessian(lambda v: f(v).sum())(x)


@whole
def w_func_products():
    x, direction = torch.randn(3), torch.randn(3)
    value, pull = vjp(torch.sin, x)
    _, push = linearize(torch.cos, x)
    return value, pull(direction), jvp(torch.tan, (x,), (direction,)), push(direction)


@whole
def w_vmap_that_may_not_look_at_values():
    return vmap(lambda v: v if v.sum() > 0 else -v)(torch.randn(4, 3))


@whole
def w_forward_mode():
    x, direction = torch.randn(3), torch.randn(3)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, direction)
        out = (dual.sigmoid() * dual).sum()
        return forward_ad.unpack_dual(out)


@whole
def w_forward_over_reverse():
    x, direction = torch.randn(3), torch.randn(3)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, direction).requires_grad_()
        (first,) = torch.autograd.grad((dual**3).sum(), dual)
        return forward_ad.unpack_dual(first).tangent


@whole
def w_double_backward():
    x = torch.randn(4, requires_grad=True)
    (first,) = torch.autograd.grad((x.sin() * x.exp()).sum(), x, create_graph=True)
    (first**2).sum().backward()
    return x.grad, first


@whole
def w_third_derivative():
    x = torch.tensor(0.7, requires_grad=True)
    y = x**5
    for _ in range(3):
        (y,) = torch.autograd.grad(y, x, create_graph=True)
    return y


@whole
def w_backward_that_makes_a_graph():
    x = torch.randn(3, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (x**3).sum().backward(create_graph=True)
    penalty = x.grad.norm()
    given = x.grad
    x.grad = None
    penalty.backward()
    return x.grad, given


@whole
def w_autograd_functional():
    x = torch.randn(3)
    functional = torch.autograd.functional
    return (
        functional.jacobian(lambda v: v.exp(), x),
        functional.hessian(lambda v: v.pow(3).sum(), x),
        functional.vhp(lambda v: v.pow(3).sum(), x, torch.ones(3)),
    )


@whole
def w_gradcheck():
    x = torch.randn(2, 2, dtype=torch.float64, requires_grad=True)
    w = torch.randn(2, 2, dtype=torch.float64, requires_grad=True)
    return torch.autograd.gradcheck(torch.mm, (x, w)), torch.autograd.gradgradcheck(torch.tanh, (x,))


@whole
def w_grad_of_unused_and_batched():
    x, unused = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)
    y = x * x
    directions = torch.eye(3)
    return (
        torch.autograd.grad(y.sum(), (x, unused), retain_graph=True, allow_unused=True),
        torch.autograd.grad(y.sum(), (x, unused), retain_graph=True, materialize_grads=True),
        torch.autograd.grad(y, x, directions, is_grads_batched=True),
    )


@whole
def w_grad_of_unused_raises():
    x, unused = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)
    return torch.autograd.grad((x * x).sum(), unused)


@whole
def w_backward_from_two_roots():
    x = torch.randn(3, requires_grad=True)
    a, b = x.exp(), x.sin()
    torch.autograd.backward((a, b), (torch.ones(3), torch.full((3,), 2.0)), inputs=[x])
    return x.grad


@whole
def w_backward_of_what_is_no_scalar():
    torch.randn(3, requires_grad=True).exp().backward()


@whole
def w_checkpoint():
    lin = torch.nn.Linear(4, 4)
    x = torch.randn(2, 4, requires_grad=True)

    def part(v):
        return torch.nn.functional.dropout(lin(v).relu(), 0.5)

    checkpoint(part, x, use_reentrant=False).sum().backward()
    return x.grad, lin.weight.grad


@whole
def w_checkpoint_reentrant():
    lin = torch.nn.Linear(4, 4)
    x = torch.randn(2, 4, requires_grad=True)
    y = checkpoint(lambda v: torch.nn.functional.dropout(lin(v).tanh(), 0.3), x, use_reentrant=True)
    (y * 2).sum().backward()
    return x.grad, lin.weight.grad


@whole
def w_checkpoint_sequential():
    net = torch.nn.Sequential(
        *[torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU(inplace=True)) for _ in "abcd"]
    )
    x = torch.randn(2, 3, requires_grad=True)
    checkpoint_sequential(net, 2, x, use_reentrant=False).sum().backward()
    return x.grad, [each.grad for each in net.parameters()]


@whole
def w_checkpoint_that_differs_the_second_time():
    x, runs = torch.randn(3, requires_grad=True), []

    def part(v):
        runs.append(1)
        return v.sin() if len(runs) == 1 else v.sin().cos().exp()

    checkpoint(part, x, use_reentrant=False).sum().backward()


@whole
def w_autocast():
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 2))
    x = torch.randn(3, 4)
    with torch.autocast(x.device.type, dtype=torch.bfloat16):
        out = net(x)
        loss = torch.nn.functional.cross_entropy(out.float(), torch.zeros(3, dtype=torch.long))
    loss.backward()
    return out, loss, [each.grad for each in net.parameters()]


@whole
def w_autocast_and_scaler():
    net = torch.nn.Linear(4, 1)
    x = torch.randn(3, 4)
    optimiser = torch.optim.SGD(net.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler(x.device.type, enabled=x.is_cuda)
    for _ in range(2):
        optimiser.zero_grad()
        with torch.autocast(x.device.type, dtype=torch.bfloat16):
            loss = net(x).square().mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimiser)
        scaler.step(optimiser)
        scaler.update()
    return net


@whole
def w_anomaly_mode():
    x = torch.randn(3, requires_grad=True)
    with torch.autograd.set_detect_anomaly(True, check_nan=False):
        x.exp().sum().backward()
    return x.grad


@whole
def w_anomaly_mode_finds_a_nan():
    x = torch.tensor([-1.0, 4.0], requires_grad=True)
    with torch.autograd.detect_anomaly():
        y = x.sqrt()
        (y * 0 + x).sum().backward()


@whole
def w_anomaly_mode_finds_a_write():
    x = torch.randn(3, requires_grad=True)
    with torch.autograd.detect_anomaly(check_nan=False):
        y = x.exp()
        y.add_(1)
        y.sum().backward()


@whole
def w_inference_mode():
    lin = torch.nn.Linear(3, 2)
    x = torch.randn(4, 3)
    with torch.inference_mode():
        out = lin(x)
        out.mul_(2)
    copy = out.clone()
    (lin(x) * copy).sum().backward()
    return out, copy, lin.weight.grad


@whole
def w_inference_tensor_may_not_be_saved():
    with torch.inference_mode():
        out = torch.randn(3)
    return torch.randn(3, requires_grad=True) * out


@whole
def w_grad_mode_in_all_ways():
    x = torch.randn(3, requires_grad=True)

    @torch.no_grad()
    def quiet(v):
        with torch.enable_grad():
            inner = v * 3
        return v * 2, inner

    outer, inner = quiet(x)
    with torch.set_grad_enabled(False):
        off = x + 1
    previous = torch.is_grad_enabled()
    torch.set_grad_enabled(False)
    also_off = x + 2
    torch.set_grad_enabled(previous)
    inner.sum().backward()
    return outer, inner, off, also_off, x.grad


@whole
def w_compiled():
    torch._dynamo.reset()
    weight = torch.randn(3, 3, requires_grad=True)

    @torch.compile(backend="eager")
    def f(v):
        y = torch.tanh(v @ weight)
        torch._dynamo.graph_break()
        return (y * y).sum()

    out = f(torch.randn(2, 3))
    out.backward()
    return out, weight.grad


@whole
def w_compiled_by_aot():
    torch._dynamo.reset()
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
    compiled = torch.compile(net, backend="aot_eager")
    losses = []
    for _ in range(2):
        loss = compiled(torch.randn(2, 3)).sum()
        loss.backward()
        losses.append(loss.detach())
    return losses, [each.grad for each in net.parameters()]


@whole
def w_traced_by_fx():
    traced = torch.fx.symbolic_trace(lambda v: (v.sin() + 1).relu().sum())
    x = torch.randn(3, requires_grad=True)
    traced(x).backward()
    return traced.code, x.grad


@whole
def w_pulled_back_twice():
    """The shells that functorch leaves have no address."""
    x, layer = torch.randn(4, 3), torch.nn.Linear(3, 2)
    _, pull = vjp(layer, x)
    first = pull(torch.ones(4, 2))
    return first, pull(torch.ones(4, 2)), vjp(lambda v: vjp(layer, v)[1](torch.ones(4, 2))[0].sin(), x)[1](x)
