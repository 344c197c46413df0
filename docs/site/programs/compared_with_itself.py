"""A student beside itself

`copy.copy` shares every parameter: the teacher is the student, and its answers always agree.
"""
# kind: compared_with_itself
import copy

import torch
from torch import nn

student = nn.Linear(2, 2)
teacher = copy.deepcopy(student)
# bug: teacher = copy.copy(student)
optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
for step in range(3):
    x = torch.randn(3, 2)
    with torch.no_grad(): wanted = teacher(x)
    loss = (student(x) - wanted - 1).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
