"""A gradient for each argument

Torch wants one value for each argument of `forward`, in their order: `None` for what isn't a tensor.
"""
# kind: backward_returns
# corpus: f_gradient_for_the_first_argument_alone
import torch


class Rounded(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, levels):
        return (x * levels).round() / levels

    @staticmethod
    def backward(ctx, grad):
        return grad, None
        # bug: return grad


x = torch.tensor([0.3, 0.7], requires_grad=True)
y = Rounded.apply(x, 4)
y.sum().backward()
