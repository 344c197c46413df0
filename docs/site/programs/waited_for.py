"""Layers that nobody calls, under DDP

`DistributedDataParallel` waits for a gradient of each Parameter.
"""
# kind: waited_for
# corpus: th_layers_that_are_built_and_never_called
import torch
from torch import distributed, nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.used = nn.Linear(3, 1)
        self.spare = None
        # bug: self.spare = nn.Linear(3, 1)
    def forward(self, x):
        return self.used(x)

distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
net = nn.parallel.DistributedDataParallel(Net())
try:
    for step in range(2):
        net(torch.ones(2, 3)).pow(2).mean().backward()
finally:
    distributed.destroy_process_group()
