"""Frozen for the warm-up, and never thawed

A parameter that requires no gradient isn't stepped, whichever optimiser holds it.
"""
# kind: learns_no_more
# corpus: f_backbone_frozen_for_the_warmup_and_never_thawed
import torch
from torch import nn

body, head = nn.Linear(2, 2), nn.Linear(2, 1)
opt_body = torch.optim.SGD(body.parameters(), lr=0.1)
opt_head = torch.optim.SGD(head.parameters(), lr=0.1)
body.requires_grad_(False)
for epoch in range(3):
    if epoch == 1: body.requires_grad_(True)
    # bug: pass
    opt_body.zero_grad()
    opt_head.zero_grad()
    head(body(torch.randn(3, 2))).pow(2).mean().backward()
    opt_head.step()
    if epoch > 0: opt_body.step()
