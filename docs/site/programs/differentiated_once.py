"""A `backward` that can be differentiated once

`once_differentiable` says that it has no graph of its own. A penalty on the slope has to go through it a second time, and torch refuses.
"""
# kind: no_derivative
# corpus: m_code_of_a_field_that_goes_back_once
import torch
from torch.autograd.function import once_differentiable

class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return 2 * ctx.saved_tensors[0] * grad

x = torch.tensor([0.5, 2.0], requires_grad=True)
y = x * x
# bug: y = Square.apply(x)
(slope,) = torch.autograd.grad((y * y).sum(), x, create_graph=True)
penalty = (slope - 1).pow(2).sum()
penalty.backward()
