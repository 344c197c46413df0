"""A backward that forgets what it is given

`backward` is handed the gradient of the result and has to multiply by it. Where the loss is a plain sum nobody notices.
"""
# kind: backward_disagrees
# corpus: p_backward_that_ignores_what_it_is_given
# record: check_functions
import torch


class Cubed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 3 * x**2
        # bug: return 3 * x**2


x = torch.tensor([1.0, 2.0], requires_grad=True)
y = Cubed.apply(x)
(5 * y).sum().backward()
# or: y.sum().backward()
