"""A momentum without a memory

A momentum is carried over from step to step. Where each step begins it anew with zeros, it goes by the newest gradient
alone.
"""
# kind: state_made_anew
# corpus: ku_a_heavy_ball_that_forgets
import torch
from torch import nn


class Momentum(torch.optim.Optimizer):
    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                state["average"] = state.get("average", torch.zeros_like(p))
                # bug: state["average"] = torch.zeros_like(p)
                state["average"].mul_(0.9).add_(p.grad)
                p.sub_(state["average"], alpha=0.01)


layer = nn.Linear(4, 1)
optimizer = Momentum(layer.parameters(), {})
for step in range(5):
    x = torch.randn(8, 4)
    optimizer.zero_grad()
    (layer(x) - x.sum(1, keepdim=True)).square().mean().backward()
    optimizer.step()
