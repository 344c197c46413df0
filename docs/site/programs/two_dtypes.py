"""A Function of one's own under autocast

Autocast chooses `bfloat16` in the forward. Backward runs outside of it, and multiplies that by the weight as it was saved.
"""
# kind: two_dtypes
# corpus: a_gate_of_its_own_under_autocast
import torch

class Gate(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, gate):
        ctx.save_for_backward(x, gate)
        return x @ gate

    @staticmethod
    def backward(ctx, grad):
        x, gate = ctx.saved_tensors
        gate_there = gate.to(grad.dtype)
        # bug: gate_there = gate
        return grad @ gate_there.t(), x.t().to(grad.dtype) @ grad

x = torch.ones(2, 3, requires_grad=True)
gate = torch.ones(3, 3, requires_grad=True)
with torch.autocast("cpu", dtype=torch.bfloat16):
    y = Gate.apply(x, gate)
loss = y.float().sum()
loss.backward()
