"""The next word is to be said, and the same is asked for

Without a shift the target of each place is the word that was given there: handing it through is enough.
"""
# kind: target_was_given
# corpus: tc_verses_that_say_each_word_again
import torch
from torch import nn

table, says = nn.Embedding(9, 4), nn.Linear(4, 9)
optimizer = torch.optim.SGD([*table.parameters(), *says.parameters()], lr=0.1)
words = torch.randint(0, 9, (3, 6))
for step in range(2):
    logits = says(table(words))
    loss = nn.functional.cross_entropy(logits[:, :-1].reshape(-1, 9), words[:, 1:].reshape(-1))
    # bug: loss = nn.functional.cross_entropy(logits.reshape(-1, 9), words.reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
