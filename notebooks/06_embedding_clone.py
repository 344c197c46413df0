# %% [markdown]
# # 06 · Embeddings and `clone()`
#
# *About 55 minutes, without the optional parts.* An embedding looks up rows in a table. This chapter is about embeddings with `max_norm`, and about
# `clone()`.
#
# After it you can
#
# - say what a lookup does, with `max_norm` and without;
# - predict whether a program around it raises, is right, or goes silently wrong;
# - choose among three remedies, by what your lines are meant to see;
# - say what a clone keeps of its original, and what it doesn't.
#
# **How to work:** predict, run, look, explain, change.

# %% [markdown]
# The parts called *optional* are for another day: nothing that comes later needs them.
#
# Every cell uses `device`, which the kernel sets (chapter 00).
#
# A `NameError`, or `Cell magic … not found`? The kernel was restarted, or a cell was skipped: choose **Kernel ▸ Restart
# Kernel and Run up to Selected Cell**.

# %%
import torch
import torch.nn.functional as F
from IPython.display import Markdown
from torch import nn

import seegrad

device = seegrad.device()

# %load_ext seegrad

# %% [markdown]
# ## Asked again
#
# Two questions on earlier chapters, each about a program that you haven't seen. What you predicted wrongly comes first.

# %%
seegrad.ask_again("06")

# %% [markdown]
# ## 1 · A lookup
#
# An embedding is a table: row `i` of its weight stands for word `i`. Real tables hold random numbers; ours has three
# rows that are easy to follow. Their lengths are 5, 0.5 and 2.


# %%
def make(**options):
    rows = torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.0, 2.0]], device=device)
    return nn.Embedding.from_pretrained(rows, freeze=False, **options)


embedding = make()

print(embedding(torch.tensor([2, 0], device=device)))
print("lengths", embedding.weight.detach().norm(dim=1))

# %% [markdown]
# Word 1 is looked up twice, word 2 never. **Predict** what the lookup saves (tick it in the picture), and then
# `embedding.weight.grad`.

# %%
# %%see --ask saves
embedding = make()
words = torch.tensor([0, 1, 1], device=device)
loss = embedding(words).sum()
loss.backward()

# %%
embedding.weight.grad

# %% [markdown]
# Each lookup hands its gradient to its row; two lookups add up. Row 2 took no part and gets zeros.
#
# `EmbeddingBackward0` saves the *numbers of the words*, not the weight. Remember that: a plain lookup doesn't care what
# happens to the weight afterwards.

# %% [markdown]
# ### The version of a new weight
#
# **Predict** the version of a new `nn.Embedding`'s weight. Of ours, from `make()`? And of ours after a lookup?

# %%
embedding = make()
print("new:", nn.Embedding(3, 2, device=device).weight._version)
print("ours:", embedding.weight._version)

embedding(torch.tensor([2, 0], device=device))
print("ours, looked up:", embedding.weight._version)

# %% [markdown]
# 1: its random numbers were written in place, by `normal_()`. Ours got its rows ready-made, and a plain lookup only
# reads. So “expected version 1” in an error message doesn't mean that you wrote something.

# %% [markdown]
# ## 2 · `max_norm`
#
# With `max_norm=1` no word may be longer than 1. We look up word 0, length 5. **Predict:** what comes out, and what does
# the weight hold before and afterwards?

# %%
embedding = make(max_norm=1.0)
print("before", embedding.weight.detach())
out = embedding(torch.tensor([0], device=device))
print("looked up", out.detach())
print("after", embedding.weight.detach())

# %% [markdown]
# The lookup shortened row 0 *in the table*, not only in its result. Row 2, too long as well, stays: nobody looked it
# up.
#
# *Misconception* **M12**: “my code has no in-place operation”. No underscore, no `+=`, and yet a
# write.

# %% [markdown]
# ### When the row is short enough
#
# Word 1 has length 0.5. **Predict** the version of `weight` at the end, and whether its numbers change.

# %%
# %%see --ask versions --tensors weight
embedding = make(max_norm=1.0)
weight = embedding.weight
out = embedding(torch.tensor([1], device=device))
loss = out.sum()

# %%
print("version", make().weight._version, "→", weight._version)
print("same numbers:", torch.equal(weight, make().weight))

# %% [markdown]
# The same numbers, another version. It moves whether or not a row was too long: the visit counts. Version checks will see
# a write that changed nothing.

# %% [markdown]
# ### In `eval()`?
#
# A model in `eval()`, first under `no_grad`, then in `inference_mode`. **Predict** for both what row 0 of the weight holds
# afterwards, and whether the version moves.

# %%
for name, mode in {"no_grad": torch.no_grad, "inference_mode": torch.inference_mode}.items():
    embedding = make(max_norm=1.0).eval()
    before = embedding.weight._version
    with mode():
        embedding(torch.tensor([0], device=device))
    print(f"{name:15}", embedding.weight[0].detach(), "version", before, "→", embedding.weight._version)

# %% [markdown]
# Written all the same. `eval()` switches dropout and BatchNorm; `no_grad` switches the recording. Neither switches off a
# write. Your model changes while you evaluate it.
#
# *Misconceptions* **M08**, “`eval()` turns gradients off”, and **M07**, “under `no_grad` a write is safe, and `w = …`
# updates `w`”.

# %% [markdown]
# ### Optional: `max_norm=True`
#
# The document has a second way to write it, commented out: `max_norm=True`. **Predict** which length that is.

# %%
embedding = make(max_norm=True)
embedding(torch.tensor([0, 2], device=device))

embedding.weight.detach().norm(dim=1)

# %% [markdown]
# `True` is the number 1 in Python, so it works by accident. Write the number.

# %% [markdown]
# ## 3 · The document's program
#
# This is the document's. **Predict** the outcome.

# %% tags=["raises-exception", "version-dependent"]
torch.manual_seed(0)
n, d, m = 3, 5, 7
embedding = nn.Embedding(n, d, max_norm=1, device=device)
W = torch.randn((m, d), requires_grad=True, device=device)
idx = torch.tensor([1, 2], device=device)
a = embedding.weight @ W.t()
b = embedding(idx) @ W.t()
out = a.unsqueeze(0) + b.unsqueeze(1)
loss = out.sigmoid().prod()
loss.backward()

# %% [markdown]
# Read the error as data:
#
# | it says | it means |
# |---|---|
# | `[torch.FloatTensor [3, 5]]` (on a GPU: `torch.cuda.FloatTensor`) | the tensor that was hit has this shape: which of yours has? |
# | no `output 0 of …` | it is a leaf: nobody computed it |
# | `is at version 2; expected version 1` | 1 from its birth, 2 from one write since |
# | the traceback | where backward stopped |
#
# `[3, 5]` is the weight. The error doesn't say who wrote.

# %% [markdown]
# The same on our small table. **Predict** the culprit: click it, or answer “no line”.

# %%
# %%see --ask culprit --as rec
W = torch.tensor([[1.0, 0.0], [0.0, 1.0]], requires_grad=True, device=device)
embedding = make(max_norm=1.0)
idx = torch.tensor([0, 1], device=device)
weight = embedding.weight
a = weight @ W.t()
b = embedding(idx) @ W.t()
loss = a.sum() + b.sum()
loss.backward()


# %%
Markdown(rec.diagnoses[0].message())

# %% [markdown]
# `MmBackward0` saved the weight at the first line, since $\partial a / \partial W$ *is* the weight. The lookup one line
# below shortens rows in it.
#
# The traceback stops at `backward()`. *Misconception* **M04**: “the traceback shows the line to fix”.

# %% [markdown]
# ### Without `W`'s gradient
#
# A word first, for the whole chapter: the shortening counts as *done before*, like any given number. A gradient is right
# if it is the derivative at the rows with which each line computed.
#
# One thing changes: `W` needs no gradient. **Predict** the outcome.

# %%
# %%see --ask outcome
W = torch.tensor([[1.0, 0.0], [0.0, 1.0]], device=device)
embedding = make(max_norm=1.0)
idx = torch.tensor([0, 1], device=device)
weight = embedding.weight
a = weight @ W.t()
b = embedding(idx) @ W.t()
loss = a.sum() + b.sum()
loss.backward()


# %% [markdown]
# Fine, and right. The weight's gradient needs `W`; only `W`'s gradient needs the weight. No one asks for it, so nobody
# saved the weight, and the write hits nothing.
#
# *Misconception* **M03**: “any in-place write raises”.

# %% [markdown]
# ### Optional: with no row too long
#
# `W` needs a gradient again. With `max_norm=100` nothing will be shortened. **Predict** the outcome.

# %%
# %%see --ask outcome
W = torch.tensor([[1.0, 0.0], [0.0, 1.0]], requires_grad=True, device=device)
embedding = make(max_norm=100.0)
a = embedding.weight @ W.t()
b = embedding(torch.tensor([0, 1], device=device)) @ W.t()
(a.sum() + b.sum()).backward()

# %%
print("same numbers:", torch.equal(embedding.weight, make().weight))

# %% [markdown]
# It raises although not one number changed: as in section 2, the lookup moved the version. Torch compares versions, not
# values.

# %% [markdown]
# ## 4 · `clone()`
#
# The document's second program takes `embedding.weight.clone()` in the first line. Here it is on our small table.
# **Predict** the outcome, then look for the clone in the picture.

# %%
# %%see --ask outcome
W = torch.tensor([[1.0, 0.0], [0.0, 1.0]], requires_grad=True, device=device)
embedding = make(max_norm=1.0)
idx = torch.tensor([0, 1], device=device)
weight = embedding.weight
a = weight.clone() @ W.t()
b = embedding(idx) @ W.t()
loss = a.sum() + b.sum()
loss.backward()


# %% [markdown]
# It is fine. `clone` is a Node of its own: `MmBackward0` has saved the *copy*, and the lookup writes to the original.

# %% [markdown]
# ### Optional: the document's own program
#
# And the document's own program:

# %%
torch.manual_seed(0)
n, d, m = 3, 5, 7
embedding = nn.Embedding(n, d, max_norm=1, device=device)
W = torch.randn((m, d), requires_grad=True, device=device)
idx = torch.tensor([1, 2], device=device)
a = embedding.weight.clone() @ W.t()
b = embedding(idx) @ W.t()
out = a.unsqueeze(0) + b.unsqueeze(1)
loss = out.sigmoid().prod()
loss.backward()

# %% [markdown]
# ### What a clone keeps
#
# Four ways to take a weight's numbers. **Predict** for each: same bytes? the same version counter? does a gradient reach
# the weight?

# %%
ways = {
    "weight.clone()": lambda w: w.clone(),
    "weight.detach()": lambda w: w.detach(),
    "weight.detach().clone()": lambda w: w.detach().clone(),
    "weight.data": lambda w: w.data,
}

for name, way in ways.items():
    weight = make().weight
    taken = way(weight)
    before = taken._version
    with torch.no_grad():
        weight.mul_(2)
    bytes_ = taken.data_ptr() == weight.data_ptr()
    print(f"{name:24} bytes {bytes_!s:6} counter {taken._version != before!s:6} gradient {taken.requires_grad}")

# %% [markdown]
# `clone()` alone takes new bytes *and* keeps the history. `.detach()` and `.data` do the opposite: old bytes, no
# history. Chapter 05 was about those two. The weight's counter is shared by `.detach()` alone.
#
# *Misconception* **M05**: “`.data` is `.detach()`, and both copy”.

# %% [markdown]
# Here the copy is written in place, and used. **Predict** who will have a `.grad`.

# %%
# %%see --ask keeps
weight = torch.tensor([1.0, 2.0], requires_grad=True, device=device)
copy = weight.clone()
copy.mul_(10)
loss = (copy * copy).sum()
loss.backward()

# %%
weight.grad, weight

# %% [markdown]
# The gradient goes back through the copy, to the leaf. The copy may be written: it is no leaf, and the write is recorded
# as a Node. The derivative of $(10w)^2$ is $200w$, and `weight` kept its numbers.

# %% [markdown]
# ### Which weight do they see?
#
# Back to the lookup. **Predict** the first row of `a`, and the first row of `b`. `W` is the identity, so both show the
# weight that they were computed with.

# %%
W = torch.tensor([[1.0, 0.0], [0.0, 1.0]], requires_grad=True, device=device)
embedding = make(max_norm=1.0)
a = embedding.weight.clone() @ W.t()
b = embedding(torch.tensor([0, 1], device=device)) @ W.t()

print("a", a[0].detach())
print("b", b[0].detach())

# %% [markdown]
# `a` has the long row, `b` the shortened one. In one forward pass one word has two lengths. With the clone no error comes,
# and each line's gradient fits the rows that it used. But is this the *program* that you mean?

# %% [markdown]
# ## 5 · The other order
#
# Here nothing is cloned, but the two lines change places. **Predict** the outcome.

# %%
# %%see --ask outcome
W = torch.tensor([[1.0, 0.0], [0.0, 1.0]], requires_grad=True, device=device)
embedding = make(max_norm=1.0)
idx = torch.tensor([0, 1], device=device)
weight = embedding.weight
b = embedding(idx) @ W.t()
a = weight @ W.t()
loss = a.sum() + b.sum()
loss.backward()

# %%
print("a", a[0].detach())
print("b", b[0].detach())

# %% [markdown]
# No clone, no error. When `a` is computed the write has happened, and the weight that is saved is the one that stays.
# Both lines see the same word.
#
# *“weight must be cloned for this to be differentiable”*, says a comment in the document's program. “Must” is wrong. The
# document itself says it one line above: *mind the order in which the graph is built.*

# %% [markdown]
# ### `.data` instead of `clone()`
#
# Many answers on the web say `.data`. **Predict** the outcome.

# %%
# %%see --ask outcome
W = torch.tensor([[1.0, 0.0], [0.0, 1.0]], requires_grad=True, device=device)
embedding = make(max_norm=1.0)
idx = torch.tensor([0, 1], device=device)
weight = embedding.weight.data
a = weight @ W.t()
b = embedding(idx) @ W.t()
loss = a.sum() + b.sum()
loss.backward()


# %%
def gradients(take):
    W = torch.tensor([[1.0, 0.0], [0.0, 1.0]], requires_grad=True, device=device)
    embedding = make(max_norm=1.0)
    a = take(embedding.weight) @ W.t()
    b = embedding(torch.tensor([0, 1], device=device)) @ W.t()
    (a.sum() + b.sum()).backward()
    return W.grad[0], embedding.weight.grad[:, 0]


print("clone", *gradients(lambda weight: weight.clone()))
print(".data", *gradients(lambda weight: weight.data))

# %% [markdown]
# Two things went wrong, and no error came. `W`'s gradient was computed with the shortened rows, although `a` wasn't.
# And no gradient of `a` reaches the weight: row 2 got zeros.
#
# *Misconception* **M06**: “no error means that the gradient is right”.

# %% [markdown]
# ## 6 · The derivative of a shortened row
#
# The lookup's result depends on the row: $w / \lVert w \rVert$ where it is too long. Below, `loss` is the sum of word 0,
# whose row is $(3, 4)$. **Predict:** what will `weight.grad[0, 0]` hold? And what is the true slope there, as a finite
# difference finds it?


# %%
def looked_up(first):
    embedding = make(max_norm=1.0)
    with torch.no_grad():
        embedding.weight[0, 0] = first
    return embedding(torch.tensor([0], device=device)).sum(), embedding


h = 1e-2
loss, embedding = looked_up(3.0)
loss.backward()
slope = (looked_up(3.0 + h)[0] - looked_up(3.0 - h)[0]) / (2 * h)

print("backward  ", embedding.weight.grad[0, 0].item())
print("difference", round(slope.item(), 3))

# %% [markdown]
# 1 and 0.032. Shortening ran under `no_grad`: no Node. Backward sees a row that was *always* short, the one that now
# stands in the table.
#
# For training with `max_norm` that is what is meant: the write is a projection, done before the step. So this chapter
# calls such a gradient right (section 3). The derivative of the whole lookup, shortening included, it isn't.

# %% [markdown]
# Here the shortening is written as an operation, out of place:


# %%
def clipped(weight, words):
    rows = weight[words]
    return rows * (1 / rows.norm(dim=1, keepdim=True)).clamp(max=1)


embedding = make()
out = clipped(embedding.weight, torch.tensor([0, 1], device=device))
out.sum().backward()

print(out.detach())
print(embedding.weight.grad)
print("version", make().weight._version, "→", embedding.weight._version)

# %% [markdown]
# The same result as `max_norm`, the true derivative (0.032), and no write: the table keeps its row of length 5, and
# lines may come in any order.
#
# **Change:** use `F.normalize(rows, dim=1)` instead. Which row differs, and why?
#
# <details><summary>Changed and run? Then open this.</summary>
#
# Row 1: its length was 0.5, and `F.normalize` makes every row as long as 1, the short ones too.
#
# </details>

# %% [markdown]
# ## 7 · Elsewhere
#
# ### One weight for both ends
#
# Language models often use the table twice: to look words up, and to score the next word. **Predict** the outcome. If
# there is a harmful write, in which round of the loop does it run?

# %%
# %%see --ask outcome --as rec
embedding = make(max_norm=1.0)
mix = torch.tensor([[0.0, 1.0], [1.0, 0.0]], requires_grad=True, device=device)
loss = 0.0
for word, following in ((0, 1), (1, 2)):
    state = embedding(torch.tensor([word], device=device)) @ mix
    scores = state @ embedding.weight.t()
    loss = loss + F.cross_entropy(scores, torch.tensor([following], device=device))
loss.backward()

# %%
Markdown(rec.diagnoses[0].message())

# %% [markdown]
# It raises. Within a round the lookup comes first, as in section 5. But round 2's lookup comes *after* round 1's scores,
# which had saved the weight.
#
# Look up all words before the loop, or use `clipped`.

# %% [markdown]
# ### Optional: not only modules
#
# `F.embedding` is a function and takes any tensor as its table; `nn.EmbeddingBag` takes the mean of the rows. **Predict**
# what `table` holds afterwards, and how long the three rows of `bag.weight` are.

# %%
table = torch.tensor([[3.0, 4.0], [0.3, 0.4]], device=device)
F.embedding(torch.tensor([0], device=device), table, max_norm=1.0)

bag = nn.EmbeddingBag(3, 2, max_norm=1.0, device=device)
with torch.no_grad():
    bag.weight.copy_(make().weight)
bag(torch.tensor([[0, 2]], device=device))

print(table)
print(bag.weight.detach().norm(dim=1))

# %% [markdown]
# Row 0 of `table` is shortened too, though it is a plain tensor. In the bag rows 0 and 2 were looked up: both have length
# 1 now, and row 1 keeps its 0.5.

# %% [markdown]
# ### Optional: a list of states
#
# `state` is updated in place, and kept at every step. **Predict** the three rows that are kept, first without, then
# with `clone()`.

# %%
for keep in (lambda t: t, torch.clone):
    state = torch.zeros(2, device=device)
    kept = []
    for step in (1.0, 2.0, 3.0):
        state += step
        kept.append(keep(state))
    print([row.tolist() for row in kept])

# %% [markdown]
# Without it the list holds one tensor three times. `+=` writes into it, and all three entries show the last state.
#
# *Misconception* **M11**: “`x += y` is short for `x = x + y`”.
#
# **Change** `state += step` into `state = state + step`: is the clone still needed?
#
# <details><summary>Changed and run? Then open this.</summary>
#
# No: each `state` is a new tensor then, and nobody writes to the old ones.
#
# </details>

# %% [markdown]
# ### What to write
#
# | you want | write |
# |---|---|
# | short rows, one value for all | look up first, then use `weight` |
# | the weight as it was before | `weight.clone()`, and know that it is another weight |
# | the true derivative, any order | shorten out of place, like `clipped` |
# | an evaluation that changes nothing | no `max_norm`, or shorten once, before |
#
# `.data` is in none of the rows.

# %% [markdown]
# ## 8 · Check yourself
#
# Three programs. **Predict** the outcome of each in its picture, then read on. As before, the shortening counts as done.

# %%
# %%see --ask outcome
embedding = make(max_norm=1.0)
first = embedding(torch.tensor([0], device=device))
second = embedding(torch.tensor([0, 2], device=device))
loss = first.sum() + second.sum()
loss.backward()

# %%
# %%see --ask outcome
embedding = make(max_norm=1.0)
weight = embedding.weight
size = weight.pow(2).sum()
out = embedding(torch.tensor([1], device=device))
loss = out.sum() + 0.1 * size
loss.backward()

# %%
# %%see --ask outcome
embedding = make(max_norm=1.0)
out = embedding(torch.tensor([0], device=device))
score = (out * out).sum()
embedding(torch.tensor([2], device=device))
score.backward()

# %% [markdown]
# - The first is fine: a lookup saves the words' numbers and copies the rows. Both see the shortened row.
# - The second raises: `pow` saved the weight, and the lookup visited it. No row was too long; the version moved.
# - The third is fine: `out` is a copy of the row, and nobody writes to it.
#
# **Now the assignment:** open [`06_embedding_clone`](../../release/en/06_embedding_clone/06_embedding_clone.ipynb).
# Six exercises, about 45 minutes.
