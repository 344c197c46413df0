"""Custom Functions whose backward is not their forward's gradient, and some that are right; `check_functions` is on."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # torch's own convention

from tests.data.programs import program


def regression(activate, steps=2):
    torch.manual_seed(0)
    first, last = nn.Linear(3, 6), nn.Linear(6, 1)
    optimizer = torch.optim.SGD([*first.parameters(), *last.parameters()], lr=0.05)
    for _ in range(steps):
        x = torch.randn(8, 3)
        loss = F.mse_loss(last(activate(first(x))), x.sum(1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program("backward_disagrees", check_functions=True)
def p_backward_that_ignores_what_it_is_given():
    class Cubed(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, grad_output):  # culprit
            (x,) = ctx.saved_tensors
            return 3 * x**2

    def activate(h):
        return Cubed.apply(h)  # victim

    regression(activate)


@program("backward_disagrees", check_functions=True)
def p_swish_with_half_of_its_derivative():
    class Swish(torch.autograd.Function):
        @staticmethod
        def forward(ctx, i):
            result = i * torch.sigmoid(i)
            ctx.save_for_backward(i)
            return result

        @staticmethod
        def backward(ctx, grad_output):  # culprit
            i = ctx.saved_tensors[0]
            sigmoid = torch.sigmoid(i)
            return grad_output * sigmoid * (1 - sigmoid)

    swish = Swish.apply

    def activate(h):
        return swish(h)  # victim

    regression(activate)


@program("backward_disagrees", check_functions=True)
def p_two_gradients_in_the_wrong_order():
    class Gate(torch.autograd.Function):
        @staticmethod
        def forward(ctx, value, gate):
            s = torch.sigmoid(gate)
            ctx.save_for_backward(value, s)
            return value * s

        @staticmethod
        def backward(ctx, grad_output):  # culprit
            value, s = ctx.saved_tensors
            return grad_output * value * s * (1 - s), grad_output * s

    def activate(h):
        return Gate.apply(h, h.flip(1))  # victim

    regression(activate)


@program("backward_disagrees", check_functions=True)
def p_scale_forgotten_in_backward():
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight, scale):
            ctx.save_for_backward(x, weight)
            ctx.scale = scale
            return (x @ weight.t()) * scale

        @staticmethod
        def backward(ctx, grad_output):  # culprit
            x, weight = ctx.saved_tensors
            return grad_output @ weight, grad_output.t() @ x, None

    torch.manual_seed(0)
    weight = nn.Parameter(torch.randn(4, 3))
    opt = torch.optim.SGD([weight], lr=0.01)
    for _ in range(2):
        x = torch.randn(5, 3)
        out = Scaled.apply(x, weight, 0.5)  # victim
        loss = out.pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


@program(check_functions=True)
def kp_swish_as_it_should_be():
    class Swish(torch.autograd.Function):
        @staticmethod
        def forward(ctx, i):
            ctx.save_for_backward(i)
            return i * torch.sigmoid(i)

        @staticmethod
        def backward(ctx, grad_output):
            (i,) = ctx.saved_tensors
            s = torch.sigmoid(i)
            return grad_output * (s + i * s * (1 - s))

    regression(Swish.apply)


@program(check_functions=True)
def kp_a_hinge_and_a_dropout():
    """A kink at 0 that the data meets, and a mask that is drawn anew each time."""

    class Relu(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.clamp(min=0)

        @staticmethod
        def backward(ctx, grad_output):
            (x,) = ctx.saved_tensors
            return grad_output * (x > 0)

    class Drop(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, p):
            ctx.mask = (torch.rand_like(x) > p) / (1 - p)
            return x * ctx.mask

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output * ctx.mask, None

    def activate(h):
        return Drop.apply(Relu.apply(torch.cat([h[:, :3], h[:, 3:] * 0], 1)), 0.5)

    regression(activate)


@program(check_functions=True)
def kp_several_results_and_no_gradient_for_one():
    class Split(torch.autograd.Function):
        @staticmethod
        def forward(x, index, eps):
            safe = x.abs() + eps
            return safe.log(), safe, index + 1

        @staticmethod
        def setup_context(ctx, inputs, output):
            x, _, eps = inputs
            ctx.save_for_backward(x)
            ctx.eps = eps
            ctx.mark_non_differentiable(output[2])

        @staticmethod
        def backward(ctx, grad_log, grad_safe, _):
            (x,) = ctx.saved_tensors
            return grad_log * x.sign() / (x.abs() + ctx.eps) + grad_safe * x.sign(), None, None

    def activate(h):
        logs, safe, _ = Split.apply(h, torch.arange(6), 0.1)
        return logs + 0.1 * safe

    regression(activate)
