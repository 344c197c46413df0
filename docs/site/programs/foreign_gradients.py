"""The generator's loss in the discriminator's step

The generator's backward goes through the discriminator and leaves gradients there. Clear them before its own backward.
"""
# kind: foreign_gradients
# corpus: l_generator_s_loss_in_the_discriminator_s_step
import torch
from torch import nn

generator, discriminator = nn.Linear(1, 2), nn.Linear(2, 1)
opt_g = torch.optim.SGD(generator.parameters(), lr=0.1)
opt_d = torch.optim.SGD(discriminator.parameters(), lr=0.1)
for step in range(2):
    pass
    # bug: opt_d.zero_grad()
    opt_g.zero_grad()
    fake = generator(torch.randn(3, 1))
    (-discriminator(fake).mean()).backward()
    opt_g.step()
    opt_d.zero_grad()
    # bug: pass
    loss = discriminator(fake.detach()).mean() - discriminator(torch.randn(3, 2)).mean()
    loss.backward()
    opt_d.step()
