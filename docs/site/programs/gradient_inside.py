"""A gradient inside a custom Function

Gradients are off in its forward, and in its backward too.
"""
# kind: graph_cut
# corpus: v_a_gradient_inside_a_function_s_forward
import torch


class Slope(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        with torch.enable_grad():
        # bug: if True:
            x = x.detach().requires_grad_()
            y = x.pow(3).sum()
            slope = torch.autograd.grad(y, x)[0]
        ctx.save_for_backward(x.detach())
        return slope

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 6 * ctx.saved_tensors[0]


w = torch.tensor([1.0, 2.0], requires_grad=True)
Slope.apply(w).sum().backward()
