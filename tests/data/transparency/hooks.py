"""Hooks of every kind: on tensors, Nodes, modules, saved tensors; that change, raise, and remove themselves."""

from __future__ import annotations

import torch
from torch.autograd import graph

from tests.data.transparency import whole


@whole
def w_tensor_hooks():
    x, seen = torch.randn(3, requires_grad=True), []
    y = x.exp()
    y.register_hook(lambda g: g * 2)
    handle = y.register_hook(lambda g: seen.append(g))
    x.register_hook(lambda g: seen.append(g.clone()))
    y.sum().backward(retain_graph=True)
    handle.remove()
    y.sum().backward()
    return seen, x.grad, len(y._backward_hooks)


@whole
def w_hook_that_removes_itself():
    x, calls = torch.randn(3, requires_grad=True), []

    def once(g):
        calls.append(g)
        handle.remove()

    handle = x.register_hook(once)
    (x * 2).sum().backward()
    (x * 2).sum().backward()
    return calls, x.grad


@whole
def w_retain_grad():
    x = torch.randn(3, requires_grad=True)
    y = x.exp()
    y.retain_grad()
    z = y * 2
    z.retain_grad()
    z.sum().backward()
    return x.grad, y.grad, z.grad


@whole
def w_optimiser_in_backward():
    lin = torch.nn.Linear(3, 2)
    optimisers = {each: torch.optim.SGD([each], lr=0.1) for each in lin.parameters()}

    def step(parameter):
        optimisers[parameter].step()
        optimisers[parameter].zero_grad()

    for each in lin.parameters():
        each.register_post_accumulate_grad_hook(step)
    for _ in range(3):
        lin(torch.randn(4, 3)).square().sum().backward()
    return lin, [each.grad for each in lin.parameters()]


@whole
def w_node_hooks():
    x, seen = torch.randn(3, requires_grad=True), []
    y = x.sin()
    before = y.grad_fn.register_prehook(lambda gradients: (gradients[0] * 3,))
    y.grad_fn.register_hook(lambda inputs, outputs: seen.append((inputs, outputs)))
    y.sum().backward(retain_graph=True)
    before.remove()
    y.sum().backward()
    return seen, x.grad


@whole
def w_multi_gradient_hooks():
    a, b, seen = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True), []
    handle = graph.register_multi_grad_hook((a, b), lambda gradients: seen.append(gradients))
    graph.register_multi_grad_hook((a, b), lambda gradient: seen.append(gradient), mode="any")
    (a * b).sum().backward()
    handle.remove()
    (a * b).sum().backward()
    return seen


@whole
def w_hook_that_raises():
    x = torch.randn(3, requires_grad=True)
    y = x.exp()
    y.register_hook(lambda g: g.no_such_thing)
    y.sum().backward()


@whole
def w_hook_that_gives_the_wrong_shape():
    x = torch.randn(3, requires_grad=True)
    y = x.exp()
    y.register_hook(lambda g: g[:2])
    y.sum().backward()


@whole
def w_hook_that_interrupts():
    x = torch.randn(3, requires_grad=True)
    y = x.exp()

    def interrupt(_):
        raise KeyboardInterrupt

    y.register_hook(interrupt)
    y.sum().backward()


@whole
def w_backward_inside_a_hook():
    x, inner = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)
    y = x.exp()

    def again(g):
        with torch.enable_grad():
            (inner * g.detach()).sum().backward()

    y.register_hook(again)
    y.sum().backward()
    return x.grad, inner.grad


@whole
def w_module_hooks():
    lin, seen = torch.nn.Linear(3, 2), []
    lin.register_forward_pre_hook(lambda module, args: (args[0] * 2,))
    lin.register_forward_hook(lambda module, args, out: out.tanh())
    lin.register_full_backward_pre_hook(lambda module, outputs: seen.append(outputs))
    lin.register_full_backward_hook(lambda module, inputs, outputs: (inputs[0] * 0.5,))
    x = torch.randn(4, 3, requires_grad=True)
    lin(x).sum().backward()
    return seen, x.grad, lin.weight.grad


@whole
def w_global_module_hooks():
    names = []
    handles = [
        torch.nn.modules.module.register_module_forward_hook(lambda m, a, o: names.append(type(m).__name__)),
        torch.nn.modules.module.register_module_full_backward_hook(lambda m, i, o: names.append("back")),
    ]
    try:
        net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Tanh())
        net(torch.randn(1, 2, requires_grad=True)).sum().backward()
    finally:
        for handle in handles:
            handle.remove()
    return names


@whole
def w_saved_tensors_packed():
    x, packed = torch.randn(3, requires_grad=True), []

    def pack(tensor):
        packed.append(tuple(tensor.shape))
        return tensor.to(torch.float64)

    with graph.saved_tensors_hooks(pack, lambda tensor: tensor.to(torch.float32)):
        y = (x.exp() * x).sum()
    y.backward()
    return packed, x.grad


@whole
def w_saved_tensors_offloaded():
    x = torch.randn(3, requires_grad=True)
    with graph.save_on_cpu():
        y = x.sigmoid().square().sum()
    y.backward()
    return x.grad


@whole
def w_saved_tensors_hooks_forbidden():
    x = torch.randn(3, requires_grad=True)
    with graph.disable_saved_tensors_hooks("not here"), graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        return x.exp()


@whole
def w_mutation_allowed():
    x = torch.randn(3, requires_grad=True)
    with graph.allow_mutation_on_saved_tensors():
        y = x.exp()
        z = y * 2
        y.zero_()
        z.sum().backward()
    return x.grad


@whole
def w_one_saved_tensor_hooked():
    x = torch.randn(3, requires_grad=True)
    y = x.exp()
    y.grad_fn._raw_saved_result.register_hooks(
        lambda t: t.numpy(force=True), lambda n: torch.from_numpy(n).to(x.device)
    )
    y.sum().backward()
    return x.grad


@whole
def w_saved_tensors_read_by_the_program():
    x, w = torch.randn(3, requires_grad=True), torch.randn(3)
    y = x * w
    saved = (y.grad_fn._saved_other, y.grad_fn._saved_self)
    y.sum().backward()
    try:
        return saved, y.grad_fn._saved_other
    except RuntimeError as error:
        return saved, str(error)
