"""`detach_()` on what a graph has saved

`detach_()` takes the tensor itself out of the graph; `detach()` gives another tensor.
"""
# kind: saved_tensor_detached
# corpus: u_features_detached_in_place
import torch

w = torch.tensor([1.0, 2.0], requires_grad=True)
features = w * 3
loss = (features**2).sum()
features = features.detach()
# bug: features.detach_()
loss.backward()
