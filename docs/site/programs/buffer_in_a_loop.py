"""A buffer that is filled and read in turn

Each product keeps what it read; the next write moves the version of the whole buffer.
"""
# kind: saved_tensor_modified
import torch

a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
state = torch.zeros(3)
for t in range(1, 3):
    state = torch.cat([state[:t], (state[t - 1] * a[t] + 1).view(1), state[t + 1 :]])
    # bug: state[t] = state[t - 1] * a[t] + 1
    # or: state[t] = state[t - 1].clone() * a[t] + 1
    # but: This helps too: the product keeps the copy, which nothing writes.
state.sum().backward()
