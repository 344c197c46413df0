"""An array that a loader fills again

`torch.from_numpy` shares the array's memory. A write by numpy moves no version.
"""
# kind: silent_corruption
# corpus: q_loader_reuses_its_array
import numpy as np
import torch

buffer = np.ones(3, dtype=np.float32)
w = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
batch = torch.tensor(buffer)
# bug: batch = torch.from_numpy(buffer)
loss = (batch * w).sum()
buffer[:] = 2
# or: batch += 1
loss.backward()
