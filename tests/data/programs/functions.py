"""The user's own Functions, hooks and checkpoints."""

from __future__ import annotations

import torch
from torch import nn
from torch.autograd import Function
from torch.utils.checkpoint import checkpoint

from seegrad.capture.probes import torch_private as _torch
from tests.data.programs import program

UNREAD = "" if _torch.READS_SAVED else "torch 2.9 doesn't show what a hook keeps"


class Flat(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.shape = x.shape
        return x.view(-1)

    @staticmethod
    def backward(ctx, grad):
        return grad.view(ctx.shape)


class StraightThrough(Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad.clamp(-1, 1)


class Halves(Function):
    @staticmethod
    def forward(ctx, x):
        return x[:2], x[2:]

    @staticmethod
    def backward(ctx, left, right):
        return torch.cat([left, right])


@program("view_modified")
def f_view_returned_by_a_function_modified():
    x = torch.randn(2, 2, requires_grad=True)
    y = Flat.apply(x * 2)  # victim
    y.mul_(3)  # culprit
    y.sum().backward()


@program("view_modified")
def f_input_returned_as_it_is_modified():
    x = torch.randn(3, requires_grad=True)
    y = StraightThrough.apply(x + 1)  # victim
    y += 1  # culprit
    y.sum().backward()


@program("view_modified")
def f_one_of_two_halves_modified():
    x = torch.randn(4, requires_grad=True)
    left, right = Halves.apply(x * 1)  # victim
    left.zero_()  # culprit
    (left.sum() + right.sum()).backward()


@program("marked_dirty")
def f_dirty_but_not_returned():
    class Scale(Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)  # culprit
            ctx.mark_dirty(x)
            return x + 0

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    h = torch.randn(3, requires_grad=True) * 1
    Scale.apply(h).sum().backward()  # victim


@program("marked_dirty", severity="wrong", node="AddBackward0", tensor="h")
def f_not_marked_and_used_again():
    class Scale(Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)  # culprit
            return x + 0

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    x = torch.randn(3, requires_grad=True)
    h = x * 1
    y = Scale.apply(h)
    (y + h).sum().backward()  # victim


@program("marked_dirty", severity="wrong", node="MulBackward0", tensor="h")
def f_not_marked_and_returned():
    class Scale(Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)  # culprit
            return x

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    x = torch.randn(3, requires_grad=True)
    h = x * 1
    y = Scale.apply(h)
    past = h * 3  # victim
    (y + past).sum().backward()


@program("marked_dirty", severity="wrong", node="MulBackward0", tensor="h")
def f_not_marked_and_a_view_used_again():
    class Clip(Function):
        @staticmethod
        def forward(ctx, x):
            x.clamp_(-1, 1)  # culprit
            return x.sum()

        @staticmethod
        def backward(ctx, grad):
            return grad.expand(4)

    x = torch.randn(4, requires_grad=True)
    h = x.exp().view(4) * 1
    part = h[:2]
    total = Clip.apply(h)
    (total + (part * 3).sum()).backward()  # victim


@program("leaf_modified", tensor="w")
def f_dirty_leaf():
    class Scale(Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)  # culprit
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    w = torch.randn(3, requires_grad=True)
    Scale.apply(w).sum().backward()


@program("marked_dirty")
def f_dirty_view_and_a_second_output():
    class Normalise(Function):
        @staticmethod
        def forward(ctx, x):
            norm = x.norm()
            x.div_(norm)  # culprit
            ctx.mark_dirty(x)
            return x, norm

        @staticmethod
        def backward(ctx, grad, norm_grad):
            return grad

    table = torch.randn(4, 3, requires_grad=True) * 1
    unit, norm = Normalise.apply(table[0])  # victim
    (unit.sum() + norm).backward()


@program("saved_tensor_modified", tensor="gate", node="SigmoidBackward0")
def f_write_that_was_not_marked():
    class Threshold(Function):
        @staticmethod
        def forward(ctx, x):
            x[x < 0.5] = 0  # culprit
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            return grad

    gate = torch.sigmoid(torch.randn(6, requires_grad=True))  # victim
    Threshold.apply(gate).sum().backward()


@program("silent_corruption", tensor="h")
def f_input_kept_as_an_attribute():
    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.x = x
            return x * x

        @staticmethod
        def backward(ctx, grad):
            return 2 * ctx.x * grad

    w = torch.ones(3, requires_grad=True)
    h = w + 1
    y = Square.apply(h)  # victim
    h.mul_(10)  # culprit
    y.sum().backward()
    return w.grad


@program("saved_tensor_modified", tensor="h")
def f_input_saved_the_right_way():
    class Cube(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, grad):
            return 3 * ctx.saved_tensors[0] ** 2 * grad

    h = torch.ones(3, requires_grad=True) * 2
    y = Cube.apply(h)  # victim
    h.sub_(1)  # culprit
    y.sum().backward()


@program("gradient_overwritten")
def f_backward_scales_its_gradient_in_place():
    class Reverse(Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            return grad.neg_()  # culprit

    a, b = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    kept = b.sin()  # victim
    reversed_ = Reverse.apply(a)
    (kept + reversed_).pow(2).sum().backward()
    return a.grad, b.grad


@program("gradient_overwritten")
def f_tensor_hook_clips_in_place():
    a, b = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    right = b.exp()  # victim
    left = a.exp()
    left.register_hook(lambda grad: grad.clamp_(-0.1, 0.1))  # culprit
    (left + right).pow(2).sum().backward()
    return a.grad, b.grad


@program("gradient_overwritten")
def f_leaf_hook_zeroes_in_place():
    w, v = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    mask = torch.tensor([1.0, 0.0, 1.0])
    scaled = v * 2  # victim

    def freeze(grad):
        grad.mul_(mask)  # culprit

    w.register_hook(freeze)
    (w + scaled).pow(2).sum().backward()
    return w.grad, v.grad


@program("gradient_overwritten")
def f_leaf_hook_counts_before_it_zeroes():
    w, v = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    seen, mask = [], torch.tensor([1.0, 0.0, 1.0])
    calls = torch.zeros(2)
    scaled = v * 2  # victim

    def freeze(grad):
        calls[0] += 1
        size = grad.norm()
        size.clamp_(min=1e-6)
        seen.append(size)
        grad.mul_(mask)  # culprit

    w.register_hook(freeze)
    (w + scaled).pow(2).sum().backward()
    return w.grad, v.grad


@program("silent_corruption", tensor="y", missed=UNREAD)
def f_identity_hooks_switch_the_check_off():
    x = torch.randn(3, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        y = x.exp()  # victim
    y.mul_(2)  # culprit
    y.sum().backward()
    return x.grad


@program("silent_corruption", tensor="h", missed=UNREAD)
def f_save_on_cpu_of_a_cpu_tensor():
    w = torch.randn(3, requires_grad=True)
    h = w * 1
    with torch.autograd.graph.save_on_cpu():
        y = (h * h).sum()  # victim
    with torch.no_grad():
        h.zero_()  # culprit
    y.backward()
    return w.grad


@program("saved_tensor_modified", tensor="x")
def f_checkpointed_input_modified():
    block = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
    x = torch.randn(2, 3, requires_grad=True) * 1
    y = checkpoint(block, x, use_reentrant=True)  # victim
    x += 1  # culprit
    y.sum().backward()


@program()
def f_inplace_after_the_last_save_of_a_checkpointed_block():
    def block(x):
        y = torch.sigmoid(x)
        y.mul_(2)  # the block is run again only up to the last value that it saves
        return y

    x = torch.randn(3, requires_grad=True)
    checkpoint(block, x, use_reentrant=False).sum().backward()
    return x.grad


@program("saved_tensor_modified", node="SoftmaxBackward0")
def f_forward_hook_writes_the_output():
    layer = nn.Sequential(nn.Linear(3, 3), nn.Softmax(dim=-1))

    def smooth(module, args, output):
        output.add_(0.1)  # culprit

    layer.register_forward_hook(smooth)
    features = layer(torch.randn(2, 3))  # victim
    features.log().sum().backward()


@program("saved_tensor_modified", tensor="x")
def f_forward_hook_writes_the_input():
    first, second = nn.Linear(3, 3), nn.Linear(3, 3)
    second.register_forward_pre_hook(lambda module, args: args[0].mul_(0.5))  # culprit
    x = torch.tanh(first(torch.randn(2, 3)))  # victim
    second(x).sum().backward()


@program("graph_freed")
def f_second_derivative_without_create_graph():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = (x**3).sum()  # victim
    torch.autograd.grad(y, x)  # culprit
    torch.autograd.grad(y, x)


@program("graph_freed", tensor="features")
def f_grad_of_each_output():
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh())
    x = torch.randn(1, 3, requires_grad=True)
    features = net(x)  # victim
    rows = [torch.autograd.grad(out, x)[0] for out in features[0]]  # culprit
    return torch.stack(rows)


class Adapted(nn.Module):
    """A frozen layer with a small one beside it that learns."""

    def __init__(self, width):
        super().__init__()
        self.base = nn.Linear(width, width).requires_grad_(False)
        self.down, self.up = nn.Parameter(torch.randn(2, width)), nn.Parameter(torch.zeros(width, 2))

    def forward(self, x):
        return self.base(x) + x @ self.down.t() @ self.up.t()


@program("graph_cut", severity="error")
def f_adapters_in_a_checkpoint_that_nothing_enters():
    """transformers#23170: the frozen embedding's result needs no gradient, so the checkpoint's has none."""
    table = nn.Embedding(6, 4)
    table.weight.requires_grad = False
    layers, head = nn.ModuleList([Adapted(4), Adapted(4)]), nn.Linear(4, 6).requires_grad_(False)
    opt = torch.optim.SGD([each for each in layers.parameters() if each.requires_grad], lr=0.1)
    words = torch.randint(0, 6, (3, 5))
    h = table(words)
    for layer in layers:
        h = checkpoint(layer, h, use_reentrant=True)  # culprit
    loss = head(h).logsumexp(-1).mean()
    opt.zero_grad()
    loss.backward()  # victim
    opt.step()


@program()
def f_adapters_in_a_checkpoint_that_is_part_of_the_graph():
    table = nn.Embedding(6, 4)
    table.weight.requires_grad = False
    layers = nn.ModuleList([Adapted(4), Adapted(4)])
    opt = torch.optim.SGD([each for each in layers.parameters() if each.requires_grad], lr=0.1)
    for _ in range(2):
        h = table(torch.randint(0, 6, (3, 5)))
        for layer in layers:
            h = checkpoint(layer, h, use_reentrant=False)
        opt.zero_grad()
        h.logsumexp(-1).mean().backward()
        opt.step()


# -- what a backward returns doesn't fit


class Rounded(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, levels):
        return (x * levels).round() / levels

    @staticmethod
    def backward(ctx, grad):
        return grad


class Averaged(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.rows = x.shape[0]
        return x.mean(0)

    @staticmethod
    def backward(ctx, grad):
        return grad / ctx.rows


class Powered(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, power):
        ctx.save_for_backward(x)
        ctx.power = power
        return x**power

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * ctx.power * x ** (ctx.power - 1), grad * x.log()


@program("backward_returns")
def f_gradient_for_the_first_argument_alone():
    """1zb/pytorch-image-comp-rnn#4."""
    layer = nn.Linear(3, 4)
    codes = Rounded.apply(torch.tanh(layer(torch.randn(5, 3))), 8)  # victim
    codes.pow(2).mean().backward()


@program("backward_returns")
def f_gradient_of_what_was_summed():
    layer = nn.Linear(3, 4)
    middle = Averaged.apply(layer(torch.randn(5, 3)))  # victim
    middle.pow(2).sum().backward()


@program("backward_returns")
def f_gradient_for_a_number():
    x = torch.rand(4, requires_grad=True)
    Powered.apply(x, 3).sum().backward()  # victim


@program()
def f_gradients_that_fit():
    class Right(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, scale, levels):
            ctx.save_for_backward(x, scale)
            return (x * levels).round() / levels * scale

        @staticmethod
        def backward(ctx, grad):
            x, scale = ctx.saved_tensors
            if not ctx.needs_input_grad[1]:
                return grad * scale, None, None, None
            return grad * scale, (grad * x).sum(0), None

    layer, scale = nn.Linear(3, 4), nn.Parameter(torch.ones(4))
    Right.apply(layer(torch.randn(5, 3)), scale, 8).mean().backward()
    Right.apply(layer(torch.randn(5, 3)), torch.ones(4), 8).mean().backward()
