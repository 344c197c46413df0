"""A Function that writes its input and returns another tensor

What `mark_dirty` names has to be returned: autograd gives it the Function as its new `grad_fn`.
"""
# kind: marked_dirty
# corpus: f_dirty_but_not_returned
import torch


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x
        # bug: return x + 0

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


w = torch.tensor([1.0, 2.0], requires_grad=True)
h = w * 1
Double.apply(h).sum().backward()
