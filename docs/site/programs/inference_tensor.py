"""A tensor of inference mode in a graph

Inference mode makes tensors that no graph may save; `no_grad` makes ordinary ones.
"""
# kind: inference_tensor
# corpus: x_features_of_inference_mode
import torch

weight = torch.ones(3, requires_grad=True)
with torch.no_grad(): cache = torch.arange(3.0)
# bug: with torch.inference_mode(): cache = torch.arange(3.0)
(weight * cache).sum().backward()
