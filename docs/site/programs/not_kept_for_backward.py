"""What backward needs, forward keeps

`ctx` is a new object in each call: `backward` finds there what `forward` has put into it, and nothing else.
"""
# kind: not_kept_for_backward
# corpus: si_strength_is_kept_by_an_instance
import torch


class Damped(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, strength):
        ctx.strength = strength
        # bug: Damped.strength = strength
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.strength, None


x = torch.tensor([0.3, 0.7], requires_grad=True)
y = Damped.apply(x, 0.5)
y.sum().backward()
