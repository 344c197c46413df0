"""An evaluation that never ends

`eval()` switches dropout off and batch statistics to a standstill, until `train()` is called again.
"""
# kind: trained_in_evaluation
# corpus: w_an_evaluation_without_a_way_back
import torch
from torch import nn

model = nn.Sequential(nn.Linear(2, 4), nn.Dropout(0.5), nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(4):
    loss = model(torch.randn(8, 2)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    model.eval()
    with torch.no_grad():
        score = model(torch.randn(8, 2)).pow(2).mean()
    model.train()
    # bug: pass
