"""Steps that 16 bits round away

Around 1, bfloat16 knows steps of 1/128 and no smaller ones: a hundredth of that, and the number stays where it was.
"""
# kind: step_rounded_away
# corpus: m_gauge_kept_in_sixteen_bits
import torch

w = torch.tensor([1.0, 2.0], requires_grad=True)
# bug: w = torch.tensor([1.0, 2.0], dtype=torch.bfloat16, requires_grad=True)
optimizer = torch.optim.Adam([w], lr=1e-4)
for step in range(5):
    optimizer.zero_grad()
    loss = ((w - 3) ** 2).sum()
    loss.backward()
    optimizer.step()
