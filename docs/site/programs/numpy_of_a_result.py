"""A tensor with a graph, handed to numpy

numpy knows no graph. `detach()` gives the numbers and shares the memory; whoever writes there needs a copy.
"""
# kind: numpy_of_a_result
# corpus: e_outputs_logged_as_an_array
import torch

x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
y = x.exp()
array = y.detach().clone().numpy()
# bug: array = y.numpy()
# or: array = y.detach().numpy()
# but: Nothing is raised, but the memory is shared: right for reading, silently wrong for writing.
array[0] = 0.0
# or: print(array)
y.sum().backward()
