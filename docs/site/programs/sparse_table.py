"""A sparse table for an optimiser of dense gradients

With `sparse=True` the gradient holds those rows alone that were looked up. Adam takes dense ones; `SparseAdam`, `SGD` and `Adagrad` take sparse ones.
"""
# kind: sparse_gradient
# corpus: a_bags_of_words_for_an_optimiser_of_dense_ones
import torch

table = torch.nn.Embedding(4, 2)
# bug: table = torch.nn.Embedding(4, 2, sparse=True)
optimizer = torch.optim.Adam(table.parameters(), lr=0.1)
rows = table(torch.tensor([0, 2]))
loss = rows.pow(2).sum()
loss.backward()
optimizer.step()
