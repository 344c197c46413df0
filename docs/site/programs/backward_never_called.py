"""A module's `backward`, which autograd never calls

The gradient is to be turned around. A Function's `backward` is called for that; a module's method of that name is not.
"""
# kind: backward_never_called
# corpus: m_rounding_layer_with_a_backward
import torch

class Turned(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x.view_as(x)
    @staticmethod
    def backward(ctx, grad): return -grad

class Turning(torch.nn.Module):
    def forward(self, x): return x.view_as(x)
    def backward(self, grad): return -grad

layer = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
turn = Turned.apply
# bug: turn = Turning()
for x in torch.ones(3, 4, 2):
    optimizer.zero_grad()
    turn(layer(x)).mean().backward()
    optimizer.step()
