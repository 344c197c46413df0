"""A mask written into a softmax

Softmax keeps its result. A mask that is written into it takes away what its gradient is made of.
"""
# kind: saved_tensor_modified
import torch

scores = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
hidden = torch.tensor([False, False, True])
weights = scores.softmax(dim=0)
weights = weights.masked_fill(hidden, 0.0)
# bug: weights[hidden] = 0.0
weights[0].backward()
