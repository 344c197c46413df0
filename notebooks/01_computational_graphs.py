# %% [markdown]
# # 01 · Computational graphs
#
# *About 60 minutes, without the optional parts.* While your code computes, torch writes down how to compute backward.
# What it writes is a graph, and you can read it.
#
# After it you can
#
# - say what autograd recorded for a line, what each Function saved, and why;
# - follow a gradient through the graph, in the order in which torch does it;
# - answer three questions from a picture alone: who gets a `.grad`, what was saved, which line broke it.

# %% [markdown]
# **How to work:** predict, run, look, explain, change. Make each prediction before you run its cell. Where a picture asks,
# run the cell, and answer in the picture.
#
# The parts called *optional* are for another day: nothing that comes later needs them.
#
# *The documents* are five older tutorials that are still found on the web. You will meet answers like theirs, so this
# course runs what they say on your torch.
#
# Every cell uses `device`, which the kernel sets (chapter 00).

# %%
import warnings

import torch
from IPython.display import Markdown

import seegrad

device = seegrad.device()

# %load_ext seegrad

# %% [markdown]
# ## Asked again
#
# Two questions on earlier chapters, each about a program that you haven't seen. What you predicted wrongly comes first.

# %%
seegrad.ask_again("01")

# %% [markdown]
# ## 1 · A tensor and a Function
#
# A graph is made of two things, say the documents: tensors, and Functions. First a tensor.

# %%
x = torch.tensor([0.4011, -0.9069], requires_grad=True, device=device)
x

# %% [markdown]
# Next a Function: `b` will point to one. **Predict:** what does that Function compute: $e^x$ once more, or something
# else?

# %%
# %%see
a = torch.tensor(2.0, requires_grad=True, device=device)
b = a.exp()
b

# %% [markdown]
# The green card is `a`. The blue pill is a Function. In big letters it bears the name of what was done, `exp`; the small
# line under it is the Function's own, `ExpBackward0`: what has to be done in backward *because* `exp` was done.
#
# So it computes something else than $e^x$: from the gradient of `b` it makes that of `a`.
#
# Ask both tensors for their Function:

# %%
b.grad_fn.name(), a.grad_fn

# %% [markdown]
# `b` points to its Function, and `a` to none. (Up to torch 1.9 its name was `ExpBackward`.)

# %% [markdown]
# ### Optional: plain numbers, and a GPU by name
#
# `tolist()` gives plain Python numbers, with the digits that a 32-bit float really holds. A Python number has no history:
# what you compute from such numbers alone is in no graph.

# %%
x.tolist()

# %% [markdown]
# The document writes `torch.randn(2, requires_grad=True, device='cuda')`: random numbers, on a GPU. Without a GPU that
# line raises, since torch never moves to the CPU by itself. Here `device` decides, and the numbers stay the same.

# %%
try:
    made = torch.randn(2, requires_grad=True, device="cuda").is_cuda
except (AssertionError, RuntimeError):
    made = False
print("made where there is a GPU, and only there:", made == torch.cuda.is_available())

# %% [markdown]
# ### Optional: what a Function has
#
# *“Inside a Function there are two methods, `forward()` and `backward()`”*, says a document.
#
# **Predict:** which of them does `b.grad_fn` have: one, both, none?

# %%
function = b.grad_fn
print("forward: ", hasattr(function, "forward"))
print("backward:", hasattr(function, "backward"))
print("callable:", callable(function))
print("next_functions:", [node.name() for node, slot in function.next_functions])

# %% [markdown]
# Neither. The forward work is done and gone. A Function *is* the backward step: you call it with the gradient of its
# result, and it returns the gradient of its input. (A class of operations that you write yourself has both methods; what
# stands in the graph has neither.)
#
# Call it with two numbers:

# %%
with torch.no_grad():
    print("1 in, out comes", function(torch.tensor(1.0, device=device)))
    print("3 in, out comes", function(torch.tensor(3.0, device=device)))

# %% [markdown]
# $(e^x)' = e^x$. So it has to multiply by $e^2 = 7.3891$, and need not compute that again: it **saved** the result. In
# the picture that is the small tag `v0` at the pill.
#
# Compare where the saved tensor and `b` begin in memory:

# %%
function._saved_result.data_ptr() == b.data_ptr()

# %% [markdown]
# The saved tensor isn't a copy: it has the same bytes as `b`. So whoever writes into `b` changes what was saved.
# Chapter 04 is about the errors that come from this.

# %% [markdown]
# ## 2 · The example
#
# Nine tensors, and five lines that compute. Products and sums stand here for the layers of a network.
#
# A **leaf** is a tensor that was computed from no other: the graph has nothing behind it. **Predict** which tensors are
# leaves. Click them, then look at the graph.

# %%
# %%see --ask leaves
inp = torch.ones([2, 2], requires_grad=True, device=device)
w1 = torch.tensor(2.0, requires_grad=True, device=device)
w2 = torch.tensor(3.0, requires_grad=True, device=device)
w3 = torch.tensor(4.0, requires_grad=True, device=device)

l1 = inp * w1
l2 = l1 + w2
l3 = l1 * w3
l4 = l2 * l3
loss = l4.mean()

# %% [markdown]
# `inp`, `w1`, `w2` and `w3`: they have no `grad_fn`. Step through the picture with the arrow keys: each line adds one
# pill and one card.
#
# Now ask each of the nine tensors for its value, its gradient and its Function:


# %%
def told(name, tensor):
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        grad = tensor.grad
    function = tensor.grad_fn and tensor.grad_fn.name()
    print(f"{name:5} {tensor.data.tolist()!s:30} grad={grad!s:6}", end="")
    print(f"grad_fn={function!s:14} warnings={len(heard)}")
    return heard


tensors = {"inp": inp, "w1": w1, "w2": w2, "w3": w3, "l1": l1, "l2": l2, "l3": l3, "l4": l4, "loss": loss}
for name, tensor in tensors.items():
    heard = told(name, tensor)

# %% [markdown]
# Before backward no tensor has a gradient. (`warnings=1`: torch warns when a tensor that isn't a leaf is asked for its
# `.grad`.)

# %% [markdown]
# ### Optional: the warning
#
# Here is the warning that some of them gave:

# %%
heard = told("l1", l1)
Markdown("> " + ". ".join(str(heard[0].message).split(". ")[:2]) + ".")

# %% [markdown]
# You asked a non-leaf for its `.grad`. Only non-leaves give this warning, as the table shows. It says: backward won't fill
# this one. (Unless you ask for it: chapter 03.)

# %% [markdown]
# ## 3 · The graph, as torch holds it
#
# The picture was drawn from what torch keeps. You can walk it yourself: from `loss.grad_fn` along `next_functions`.
#
# **Predict:** nine tensors have names. How many stations of this walk are tensors, and what are the others?

# %%
found = [loss.grad_fn]
for function in found:
    following = [node for node, slot in function.next_functions if node is not None]
    found += [node for node in following if node not in found]
    print(f"{function.name():32} → {', '.join(node.name() for node in following)}")

print(len(found), "found, tensors:", sum(isinstance(node, torch.Tensor) for node in found))

# %% [markdown]
# None. The stations are nine Functions: five for the lines that compute, and an `AccumulateGrad` for each of the four
# leaves. (That there are nine tensors too is chance.)
#
# *“A graph consists of tensors and Functions”* describes a good drawing of it; what you walk through are **Functions and
# edges**, and no tensor is a station. Edges point backward, from a result to what it was made of.
#
# The same again, with fewer names:

# %%
w = torch.tensor(2.0, requires_grad=True, device=device)
(w * 3 + 1).square().backward()
w.grad

# %% [markdown]
# 42: no tensor between leaf and loss needs a name, or even to be alive.
#
# A Function in the graph is also called a **Node**; later chapters say so.
#
# At each leaf that needs a gradient the graph ends in an `AccumulateGrad`. In the picture it is the small `+=` at the
# leaf's card. Only this kind of Function has a `.variable`: the leaf whose `.grad` it fills.
#
# Ask the ends:

# %%
ends = [node for node in found if not node.next_functions]
for name, leaf in {"inp": inp, "w1": w1, "w2": w2, "w3": w3}.items():
    print(f"{name:3}", any(node.variable is leaf for node in ends))

# %% [markdown]
# ### Optional: one leaf less
#
# **Change** `l3 = l1 * w3` to `l3 = l1 * 4` in the example, run it again, and walk again. How many Functions now? Which
# `AccumulateGrad` has gone?
#
# <details><summary>Changed and run? Then open this.</summary>
#
# Eight: the product is still there, and the `AccumulateGrad` of `w3` has gone, since nothing uses `w3`.
#
# </details>

# %% [markdown]
# ## 4 · What a Function saves, and why
#
# Backward needs numbers from forward. Each Function keeps those that *its* derivative needs, and no others.
#
# **Predict** for each of the four lines that compute: which tensors does its Function save?

# %%
# %%see --ask saves
u = torch.tensor([1.0, 2.0], requires_grad=True, device=device)
v = torch.tensor(3.0, requires_grad=True, device=device)
p = u * v
q = p.sin()
r = q + u
s = r.exp()

# %%
for name, tensor in {"p": p, "q": q, "r": r, "s": s}.items():
    saved = [word for word in dir(tensor.grad_fn) if word.startswith("_saved")]
    print(f"{name} {tensor.grad_fn.name():13} {', '.join(saved)}")

# %% [markdown]
# | line | derivatives | so it saves |
# |---|---|---|
# | `p = u * v` | by `u`: `v`. By `v`: `u` | both |
# | `q = p.sin()` | $\cos p$ | its input, `p` |
# | `r = q + u` | 1 and 1 | no tensor (`alpha` is a number) |
# | `s = r.exp()` | $e^r$, which is `s` | its result, `s` |
#
# A product saves each factor **for the gradient of the other**.
#
# Compare the tensors that the Function of `p` saved with those around it:

# %%
saved = [getattr(p.grad_fn, word) for word in dir(p.grad_fn) if word.startswith("_saved")]
for name, tensor in {"u": u, "v": v, "p": p}.items():
    print(f"{name}:", any(value is tensor for value in saved))

# %% [markdown]
# ### Optional: when one factor doesn't ask
#
# One document writes `inp` of the example without `requires_grad`. **Predict:** what does the first product save then:
# `inp`, `w1`, both, nothing?

# %%
# %%see
inp = torch.ones([2, 2], device=device)
w1 = torch.tensor(2.0, requires_grad=True, device=device)
l1 = inp * w1

# %%
first = l1.grad_fn
print("inp:  ", first._saved_self is inp)
print("w1:   ", first._saved_other is w1)
print("edges:", [node and node.name() for node, slot in first.next_functions])

# %% [markdown]
# Only `inp`: `w1` needs a gradient, and the derivative by `w1` is `inp`. Nobody asks for the gradient of `inp`. So `w1`
# isn't saved, and the edge towards `inp` is empty: `None`.
#
# A frozen weight, in the same way, spares the layer saving its input.

# %% [markdown]
# ### Other Functions
#
# **Predict:** which of these save their input, which their result, which neither?

# %%
operations = {
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "cos": torch.cos,
    "log": torch.log,
    "x * x": lambda x: x * x,
    "x + x": lambda x: x + x,
    "x * 3": lambda x: x * 3,
    "sum": torch.sum,
}
x = torch.tensor([0.5, 1.0], requires_grad=True, device=device)
for name, operation in operations.items():
    y = operation(x)
    saved = [getattr(y.grad_fn, word) for word in dir(y.grad_fn) if word.startswith("_saved")]
    places = [value.data_ptr() for value in saved if isinstance(value, torch.Tensor)]
    print(f"{name:8} input: {x.data_ptr() in places!s:6} result: {y.data_ptr() in places}")

# %% [markdown]
# Read it as mathematics. $\sigma' = \sigma (1 - \sigma)$ and $\tanh' = 1 - \tanh^2$: the result is at hand, so it is the
# result, as with `exp`. $(\cos x)' = -\sin x$, $(\log x)' = 1/x$, $(x \cdot x)' = 2x$: only the input will do. The
# derivatives of `x + x` and `sum` need no number: neither. $(3x)' = 3$: neither as well, only the 3 itself (chapter 07).

# %% [markdown]
# ## 5 · Backward, in order
#
# `backward()` starts at `loss` with the gradient 1 and works through the Functions, one at a time.
#
# **Predict** the order in which the Functions of the five lines run. `l1` is used twice: which of its two users comes
# first?

# %%
# %%see --ask order
inp = torch.ones([2, 2], requires_grad=True, device=device)
w1, w2, w3 = (torch.tensor(v, requires_grad=True, device=device) for v in (2.0, 3.0, 4.0))
l1 = inp * w1
l2 = l1 + w2
l3 = l1 * w3
l4 = l2 * l3
loss = l4.mean()
loss.backward()

# %% [markdown]
# The amber discs number the Functions: `mean`, `×` of `l4`, `×` of `l3`, `+` of `l2`, `×` of `l1`. Two rules make this
# order:
#
# - a Function waits until **all** gradients of its result have come;
# - of those that are ready, the one that was **made last** runs first. (A `+=` at a leaf has no such place: it runs as
#   soon as it is ready.)
#
# Each Function carries a number that says when it was made:

# %%
first = l1.grad_fn._sequence_nr()
for name, tensor in {"l1": l1, "l2": l2, "l3": l3, "l4": l4, "loss": loss}.items():
    function = tensor.grad_fn
    print(f"{name:5} {function.name():13} {function._sequence_nr() - first}")

# %% [markdown]
# Look at `l1` once more: its card says *∂ 2/2 came*. One gradient came from `l3`, one from `l2`. They are **added**, and
# only then does the first product run.

# %% [markdown]
# One more thing changed in the picture: the tags of what was saved are struck out now. As soon as a Function has run,
# what it saved is **freed**. Ask for it now; it raises:

# %% tags=["raises-exception"]
l4.grad_fn._saved_self

# %% [markdown]
# The Functions and the edges are still there. (`backward(retain_graph=True)`, which the error speaks of, keeps what was
# saved; chapter 07 says when you need it.)

# %% [markdown]
# ### Each step, before it opens
#
# The same program, with the lines of `l2` and `l3` swapped. **Predict** each step of backward: the picture asks before it
# opens the step, and offers a few answers.

# %%
# %%see --ahead help
inp = torch.ones([2, 2], requires_grad=True, device=device)
w1, w2, w3 = (torch.tensor(v, requires_grad=True, device=device) for v in (2.0, 3.0, 4.0))
l1 = inp * w1
l3 = l1 * w3
l2 = l1 + w2
l4 = l2 * l3
loss = l4.mean()
loss.backward()

# %% [markdown]
# The sum runs before the product of `l3` now, since it was made later. No gradient has changed: `l1` adds up what comes,
# in whichever order.

# %% [markdown]
# ## 6 · Who has a gradient afterwards
#
# **Predict:** which of these tensors have a `.grad` after backward? `data` is made without `requires_grad`.

# %%
# %%see --ask keeps
data = torch.ones([2, 2], device=device)
w = torch.tensor(2.0, requires_grad=True, device=device)
bias = torch.tensor(1.0, requires_grad=True, device=device)
h = data * w + bias
out = h.mean()
out.backward()

# %% [markdown]
# The leaves that asked: `w` and `bias`. Gradients *passed* through `h` and `out` as well (dashed in the picture), but
# each was dropped as soon as it had been used: in a large network they would fill the memory. `data` is a leaf too, but
# it didn't ask. Chapter 03 shows how a non-leaf can ask.

# %% [markdown]
# ### Optional: the nine tensors of section 5
#
# The same for the nine tensors of section 5:

# %%
named = {"inp": inp, "w1": w1, "w2": w2, "w3": w3, "l1": l1, "l2": l2, "l3": l3, "l4": l4, "loss": loss}
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    for name, tensor in named.items():
        print(f"{name:5}", tensor.grad)

# %% [markdown]
# The four leaves have one. The five results have none, though a gradient passed through each.

# %% [markdown]
# ### Run it twice
#
# **Predict** `w1.grad` after a second forward and backward with the same numbers.

# %%
inp = torch.ones([2, 2], requires_grad=True, device=device)
w1, w2, w3 = (torch.tensor(v, requires_grad=True, device=device) for v in (2.0, 3.0, 4.0))
for count in (1, 2):
    l1 = inp * w1
    ((l1 + w2) * (l1 * w3)).mean().backward()
    print(count, w1.grad)

# %% [markdown]
# It is 56: `AccumulateGrad` **adds** what comes to `.grad`.
#
# *Misconception* **M09**: “each backward overwrites `.grad`”.

# %% [markdown]
# ## 7 · The chain rule, read off the picture
#
# Why is it 28 after the first? Follow the graph from `loss` to `w1`. Along a path the derivatives are **multiplied**;
# where paths meet they are **added**.
#
# Two paths lead to $l_1$. On the one through $l_2$ stand three derivatives: $\partial loss/\partial l_4 = \tfrac14$,
# $\partial l_4/\partial l_2 = l_3$ and $\partial l_2/\partial l_1 = 1$.
#
# **Predict** what comes to each element of $l_1$ along this path, and along the one through $l_3$. The cards say:
# $l_2 = 5$, $l_3 = 8$, $w_3 = 4$.

# %%
l1 = inp * w1
l2, l3 = l1 + w2, l1 * w3
l4 = l2 * l3
with torch.no_grad():
    by_l2, by_l3 = l4.grad_fn(torch.full([2, 2], 1 / 4, device=device))
    through_l2, by_w2 = l2.grad_fn(by_l2)
    through_l3, by_w3 = l3.grad_fn(by_l3)
    by_inp, by_w1 = l1.grad_fn(through_l2 + through_l3)

print("l1, through l2:", through_l2.tolist())
print("l1, through l3:", through_l3.tolist())
print("w1, from each:", by_w1.tolist())
print("w1:", by_w1.sum(), " w2:", by_w2.sum(), " w3:", by_w3.sum())

# %% [markdown]
# Here you have called the Functions yourself, each with the gradient of its result, as backward does. The product of `l4`
# multiplies by $l_3 = 8$ and by $l_2 = 5$, the sum of `l2` by 1, the product of `l3` by $w_3 = 4$: 2 and 5 come to $l_1$.
# 2 + 5 = 7 is the gradient on its card.
#
# Then `w1`: one number that was multiplied with **four** elements. Each of them sends a 7, and they are summed: 28. What
# forward spread out (broadcast), backward adds up.

# %% [markdown]
# ### Optional: each step, with less help
#
# A smaller program, with an `exp` in it. **Predict** each step again, by the numbers on the cards.

# %%
# %%see --ahead alone
w1, w2 = (torch.tensor(v, requires_grad=True, device=device) for v in (0.5, 3.0))
l1 = w1 * 2
l2 = l1 + w2
l3 = l1.exp()
loss = l2 * l3
loss.backward()

# %% [markdown]
# To `l1` comes 2.72 through `l2`, and 10.9 through `l3`: `exp` multiplies what comes by its own result, which it saved.
# `w1` gets twice their sum.

# %% [markdown]
# ### Optional: without autograd
#
# The same three numbers again: change each weight a little, and look how much the loss changes:


# %%
def loss_at(w1, w2=3.0, w3=4.0):
    l1 = torch.ones([2, 2], dtype=torch.float64, device=device) * w1
    return ((l1 + w2) * (l1 * w3)).mean()


h = 1e-5
print("w1", round(float(loss_at(2 + h) - loss_at(2 - h)) / (2 * h), 4))
print("w2", round(float(loss_at(2.0, 3 + h) - loss_at(2.0, 3 - h)) / (2 * h), 4))
print("w3", round(float(loss_at(2.0, 3.0, 4 + h) - loss_at(2.0, 3.0, 4 - h)) / (2 * h), 4))

# %% [markdown]
# ## 8 · The example, changed
#
# **Predict:** if a line of this program does damage, which one? Click it, in the code or in the graph, or answer “no
# line”. (A cell that asks keeps back what torch says. You see it when you have answered.)

# %%
# %%see --ask culprit --as rec
inp = torch.ones([2, 2], requires_grad=True, device=device)
w1, w2, w3 = (torch.tensor(v, requires_grad=True, device=device) for v in (2.0, 3.0, 4.0))
l1 = inp * w1
l2 = l1 + w2
l3 = l1 * w3
l4 = l2 * l3
l3.add_(1)
loss = l4.mean()
loss.backward()

# %% [markdown]
# `l3.add_(1)`, the red pill: it adds 1 to the numbers of `l3`. An operation whose name ends in `_` writes in place: it
# moves the **version**. The `×` of `l4` had saved `l2` and `l3`, and the tag at `l3` says *v0 saved ≠ v1 now*.
#
# Torch compares the two versions in backward, and refuses. It stopped at this `×`, before any leaf: no tensor has a
# gradient. Its traceback would point at `loss.backward()`. *Misconception* **M04**: “the traceback shows the line to fix”.
#
# What the recording says:

# %%
d = rec.diagnoses[0]
print("culprit:", d.culprit.code)
print("victim: ", d.victim.code)
Markdown(d.message())

# %% [markdown]
# Now the same write stands one line higher. **Predict** how it ends: torch raises an error, no error comes but a gradient
# is wrong, or all is fine.

# %%
# %%see --ask outcome
inp = torch.ones([2, 2], requires_grad=True, device=device)
w1, w2, w3 = (torch.tensor(v, requires_grad=True, device=device) for v in (2.0, 3.0, 4.0))
l1 = inp * w1
l2 = l1 + w2
l3 = l1 * w3
l3.add_(1)
l4 = l2 * l3
loss = l4.mean()
loss.backward()

# %% [markdown]
# All is fine. When `l4` was made, `l3` had its new numbers already, and those were saved. The product that made `l3` has
# saved its two factors, not its result.

# %% [markdown]
# ### Which writes do harm?
#
# Ten lines, each put just before `loss.backward()`. **Predict** which raise. (Section 4: who saved what?)

# %%
forward = """
inp = torch.ones([2, 2], requires_grad=True, device=device)
w1, w2, w3 = (torch.tensor(v, requires_grad=True, device=device) for v in (2.0, 3.0, 4.0))
l1 = inp * w1; l2 = l1 + w2; l3 = l1 * w3; l4 = l2 * l3; loss = l4.mean()
"""
lines = ["l4.zero_()", "l4[0] = 7", "l2.zero_()", "l3.relu_()", "l3.detach().zero_()"]
lines += ["l1[0].zero_()", "l1 += 1", "l1 = l1 + 1", "l3 = 0 * l3", "loss.detach().zero_()"]
for line in lines:
    names = {"torch": torch, "device": device}
    exec(forward + line, names)
    try:
        names["loss"].backward()
        print(f"{line:21} fine   w1.grad = {names['w1'].grad}")
    except RuntimeError:
        print(f"{line:21} raises")

# %% [markdown]
# - Writes to `l4` and `loss` are fine: `mean` saved no tensor. *Misconception* **M03**: “any in-place write raises”.
# - `relu_` raises though it changed no value: torch compares versions.
# - `l1[0]` is a *view*: it looks at the bytes of `l1`. So does `l3.detach()` at those of `l3`. Both share the version,
#   too. *Misconceptions* **M12**: “my code has no in-place operation”, **M05**: “`.data` is `.detach()`, and both copy”.
# - `l1 += 1` writes; `l1 = l1 + 1` makes a new tensor. *Misconception* **M11**: “`x += y` is short for `x = x + y`”.

# %% [markdown]
# ## 9 · What the graph reaches
#
# The graph holds what ran *while torch was recording*.
#
# **Predict:** which of `w1`, `w2`, `w3` will have a `.grad`?

# %%
# %%see
inp = torch.ones([2, 2], device=device)
w1, w2, w3 = (torch.tensor(v, requires_grad=True, device=device) for v in (2.0, 3.0, 4.0))
l1 = inp * w1
l2 = l1.detach() + w2
with torch.no_grad():
    l3 = l1 * w3
l4 = l2 * l3
loss = l4.mean()
loss.backward()

# %%
print(w1.grad, w2.grad, w3.grad)

# %% [markdown]
# Only `w2`. From `loss` no path leads to the others:
#
# - `detach()` gives the numbers and cuts the edge to `l1`;
# - under `no_grad()` nothing is recorded: `l3` has no `grad_fn`, though `w3` needs a gradient.
#
# **No error** says so: torch can't know which leaves you meant, and an unreached leaf is no error for it.
#
# *Misconceptions* **M01**: “`requires_grad=True` fills `.grad`”. **M10**: “backward destroys the graph, and
# `retain_graph` mends it”. It doesn't, since no edge is there.

# %% [markdown]
# ### Ways that look alike
#
# **Predict** for each line: is `w` reached?


# %%
def tensor_of(number):
    return torch.tensor(number, requires_grad=True, device=device)


ways = {
    "w * 2": lambda w: w * 2,
    "(w * 0.5) * 2": lambda w: (w * 0.5) * 2,
    "tensor_of(w.item()) * 2": lambda w: tensor_of(w.item()) * 2,
    "tensor_of(w.tolist()) * 2": lambda w: tensor_of(w.tolist()) * 2,
    "w.clone() * 2": lambda w: w.clone() * 2,
    "w.data * 2": lambda w: (w.data * 2).requires_grad_(),
    "dropout.eval()(w) * 2": lambda w: torch.nn.Dropout().eval()(w) * 2,
}
for name, way in ways.items():
    w = tensor_of(3.0)
    way(w).backward()
    print(f"{name:26} {w.grad}")

# %% [markdown]
# - `item()` and `tolist()` give plain Python numbers, and `w.data` is the numbers as a tensor without a history (chapter
#   05). `requires_grad=True`, or `requires_grad_()`, on such a *new* tensor starts a new graph. It doesn't mend the old
#   one.
# - `clone()` copies the numbers and keeps the edge.
# - `eval()` changes how some layers compute; it doesn't stop recording. *Misconception* **M08**: “`eval()` turns
#   gradients off”.

# %% [markdown]
# ## 10 · Three questions
#
# | you ask | look at |
# |---|---|
# | who will have `.grad`? | the green cards to which a path leads from where backward starts |
# | what was saved, is it the same? | the tags at the pill |
# | which line broke it? | the red pill, the write; check that a tag at another pill shows an older version |

# %% [markdown]
# ### Optional: check yourself
#
# Three programs. **Predict** in each picture, then read on. First: of the tensors that have a name, which get a `.grad`?

# %%
# %%see --ask keeps
x = torch.tensor([1.0, 2.0], device=device)
w = torch.tensor(3.0, requires_grad=True, device=device)
b = torch.tensor(1.0, requires_grad=True, device=device)
y = (x * w.clone() + b.detach()).exp()
y.sum().backward()

# %% [markdown]
# The other two: how does each of them end?

# %%
# %%see --ask outcome
x = torch.tensor([1.0, 2.0], device=device)
w = torch.tensor(3.0, requires_grad=True, device=device)
y = x * w
z = y.sin()
z.mul_(2)
z.sum().backward()

# %%
# %%see --ask outcome
x = torch.tensor([1.0, 2.0], device=device)
w = torch.tensor(3.0, requires_grad=True, device=device)
y = x * w
z = y.exp()
z.mul_(2)
z.sum().backward()

# %% [markdown]
# - Only `w`: `clone()` keeps the edge. `b` is a leaf too and asks for a gradient, but `detach()` cuts its edge. `x` is a
#   leaf that asks for nothing, and `y` isn't a leaf.
# - The second is fine: `sin` saved `y`, and nobody saved `z`.
# - The third raises: `exp` saved `z` itself.
#
# **Now the assignment:** open
# [`01_computational_graphs`](../../release/en/01_computational_graphs/01_computational_graphs.ipynb).
# Seven exercises, about 65 minutes.
