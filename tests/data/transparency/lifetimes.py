"""When things die: with the garbage collector off, each tensor, Node and module must go at its own moment."""

from __future__ import annotations

import gc
import weakref

import torch
from torch import nn

from tests.data.transparency import mark, watch, whole


@whole
def w_temporaries_die_at_once():
    x = torch.randn(3, requires_grad=True)
    y = x * 2
    watch("y", y)
    mark("before del")
    del y
    mark("after del")
    z = (x.exp() + 1).sum()
    watch("z", z)
    z = None
    mark("after rebinding")
    return z


@whole
def w_graph_dies_with_its_loss():
    x = torch.randn(3, requires_grad=True)
    h = x.exp()
    loss = (h * h).sum()
    watch("the Node of h", h.grad_fn)
    watch("the Node of the loss", loss.grad_fn)
    watch("h", h)
    del h
    mark("h is dropped")
    loss.backward()
    mark("backward is done")
    del loss
    mark("the loss is dropped")
    return x.grad


@whole
def w_graph_dies_without_backward():
    x = torch.randn(3, requires_grad=True)
    for number in range(3):
        y = x.sin().cos()
        watch(f"Node {number}", y.grad_fn)
        mark(f"round {number}")
    del y
    mark("the last is dropped")


@whole
def w_what_backward_frees():
    x = torch.randn(3, requires_grad=True)
    h = x.sigmoid()
    y = h * h
    watch("h", h)
    del h
    mark("backward")
    y.sum().backward()
    mark("done")
    return x.grad, y


@whole
def w_what_retain_graph_keeps():
    x = torch.randn(3, requires_grad=True)
    h = x.sigmoid()
    y = (h * h).sum()
    watch("h", h)
    del h
    y.backward(retain_graph=True)
    mark("retained")
    y.backward()
    mark("freed")
    return x.grad


@whole
def w_gradients_die_with_zero_grad():
    lin = nn.Linear(2, 1)
    for number in range(3):
        lin(torch.randn(3, 2)).sum().backward()
        watch(f"gradient {number}", lin.weight.grad)
        lin.zero_grad()
        mark(f"zeroed {number}")


@whole
def w_modules_die():
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    watch("the linear layer", net[0])
    watch("its weight", net[0].weight)
    out = net(torch.randn(1, 2)).sum()
    del net
    mark("the module is dropped")
    out.backward()
    del out
    mark("the output is dropped")


@whole
def w_local_variables_die_at_return():
    def inner(x):
        hidden = x * 2
        watch("hidden", hidden)
        bag = [x + 1, {"a": x + 2}]
        watch("in a list", bag[0])
        watch("in a dict", bag[1]["a"])
        return (hidden * 1).sum()

    out = inner(torch.randn(3))
    mark("returned")
    return out


@whole
def w_locals_are_a_copy():
    x = torch.randn(3)
    space = locals()
    y = x * 2
    before = sorted(space)
    watch("y", y)
    del y
    mark("dropped")
    return before, sorted(locals())


@whole
def w_an_error_lets_go():
    def inner():
        x = torch.randn(3, requires_grad=True)
        y = x.exp()
        watch("y", y)
        watch("its Node", y.grad_fn)
        y.add_(1)
        y.sum().backward()

    try:
        inner()
    except RuntimeError:
        mark("caught")
    mark("over")


@whole
def w_an_error_that_leaves_the_block():
    x = torch.randn(3, requires_grad=True)
    y = x.exp()
    watch("y", y)
    raise LookupError("mine")


@whole
def w_an_interrupt_that_leaves_the_block():
    x = torch.randn(3, requires_grad=True)
    y = x.exp()
    watch("y", y)
    y.sum().backward()
    raise KeyboardInterrupt


@whole
def w_weak_references_of_the_program():
    x = torch.randn(3, requires_grad=True)
    cache = weakref.WeakValueDictionary()
    for number in range(4):
        cache[number] = x * number
    kept = cache.get(2)
    keys = weakref.WeakKeyDictionary({x: "leaf"})
    return sorted(cache), kept, len(keys)


@whole
def w_a_cycle_waits_for_the_collector():
    lin = nn.Linear(2, 2)
    lin.__dict__["itself"] = lin
    watch("the layer", lin)
    out = lin(torch.randn(1, 2)).sum()
    out.backward()
    del lin, out
    mark("dropped")
    gc.collect()
    mark("collected")


@whole
def w_a_finaliser_of_the_program():
    class Resource:
        def __init__(self, tensor):
            self.tensor = tensor

        def __del__(self):
            mark(f"finalised, version {self.tensor._version}")

    resource = Resource(torch.zeros(2))
    resource.tensor.add_(1)
    del resource
    mark("after")


@whole
def w_storage_is_given_back():
    x = torch.randn(3)
    view = x[1:]
    storage = x.untyped_storage()
    watch("x", x)
    del x
    mark("x is dropped, its view is not")
    return view, storage.nbytes(), view._base is not None


@whole
def w_nodes_are_the_same_objects():
    x = torch.randn(3, requires_grad=True)
    y = x.exp()
    node = y.grad_fn
    z = y * 2
    return z.grad_fn.next_functions[0][0] is node, y.grad_fn is node, node._sequence_nr() < z.grad_fn._sequence_nr()


def scaled_by(factor):
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * factor

        @staticmethod
        def backward(ctx, gradient):
            return gradient * factor

    return Scale


@whole
def w_a_function_that_a_factory_makes():
    for number in range(2):
        scale, x = scaled_by(torch.randn(3)), torch.randn(3, requires_grad=True)
        watch(f"Function {number}", scale)
        scale.apply(x).sum().backward()
        del scale, x
        gc.collect()  # a class is a circle: nothing else frees it
        mark(f"collected {number}")


def looking_up_in(table):
    def looked_up(tensor):
        if torch.overrides.has_torch_function_unary(tensor):
            return torch.overrides.handle_torch_function(looked_up, (tensor,), tensor)
        return tensor + table

    return looked_up


@whole
def w_a_function_of_the_user_s_that_takes_part():
    """One that modes may see, as they see torch's own: its closure goes with it."""
    function = looking_up_in(torch.randn(3))
    watch("the function", function)
    result = function(torch.randn(3))
    del function
    gc.collect()
    mark("dropped")
    return result


@whole
def w_variables_of_an_exec():
    space = {"torch": torch, "x": torch.randn(3, requires_grad=True)}
    exec("y = (x * 2).exp()", space)  # noqa: S102  # code without a module is what this is about
    watch("y", space["y"])
    del space
    mark("the variables are dropped")
