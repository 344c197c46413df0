# %% [markdown]
# # 05 · `.data` versus `.detach()`
#
# *About 55 minutes.* Both give you a tensor's numbers without its history. What else do they share, and what don't
# they?
#
# After this hour you can
#
# - say what the two share, and the one thing in which they differ;
# - predict whether a write raises, is harmless, or goes silently wrong;
# - find the line that did it, and repair it.
#
# **How to work:** predict, run, look, explain, change. Commit to each prediction before you run its cell.

# %% [markdown]
# Every cell uses `device`, which the kernel sets (chapter 00).
#
# A `NameError`, or `Cell magic … not found`? The kernel was restarted, or a cell was skipped: choose **Kernel ▸ Restart
# Kernel and Run up to Selected Cell**.

# %%
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
seegrad.ask_again("05")

# %% [markdown]
# ## 1 · Two ways to the numbers
#
# `a` is a leaf. `out` is made from it. Take `out` apart in both ways.

# %%
a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True, device=device)
out = a.sigmoid()
by_data = out.data
by_detach = out.detach()

out, by_data, by_detach

# %% [markdown]
# The same numbers. But the `grad_fn` is gone from both: they are leaves, and they don't ask for a gradient.

# %%
for name, t in {"a": a, "out": out, "out.data": by_data, "out.detach()": by_detach}.items():
    print(f"{name:13} requires_grad={t.requires_grad!s:6} is_leaf={t.is_leaf!s:6} has grad_fn={t.grad_fn is not None}")

# %% [markdown]
# ### A copy?
#
# A document on the web says: *“`.data` only copies the data.”* Many say the same of `.detach()`. From chapter 04 you know
# that a write through either of them reaches the tensor. Here is why:

# %%
by_data[0] = 9.0

print(out)
print(by_detach)
print("same bytes:", out.data_ptr() == by_data.data_ptr() == by_detach.data_ptr())

# %% [markdown]
# Neither copies: there is one storage, and three tensors look at it. A write through any of them is a write to all.
#
# So “only copies the data” is wrong, and the same document shows it two cells later: there it zeroes what it calls a
# copy, and the original is zero.
#
# *Misconception* **M05**: “`.data` is `.detach()`, and both copy”.

# %% [markdown]
# ### Never a gradient?
#
# *“The result will never require gradient”*, says the document. **Predict:** does the next cell raise?

# %%
fresh = a.sigmoid().detach()
fresh.requires_grad_()
(fresh * 2).sum().backward()

fresh.grad, a.grad

# %% [markdown]
# It is *born* without. You may switch it on: then it is a new leaf, and its gradient goes no further. Nothing
# reaches `a`.

# %% [markdown]
# ## 2 · The version
#
# A Node notes the version of what it saves and compares it in backward: that is torch's only alarm. From chapter 04 you
# know which of the two has a counter of its own.
#
# **Predict** the three versions after the three writes. Type them into the picture.

# %%
# %%see --ask versions --tensors out,by_data,by_detach
a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True, device=device)
out = a * 2
by_data = out.data
by_detach = out.detach()
by_data.add_(1)
by_data.add_(1)
by_detach.add_(1)
loss = out.sum()

# %% [markdown]
# Two of the writes, one at a time:

# %%
out = (a * 2).detach()
by_data, by_detach = out.data, out.detach()

versions = lambda: (out._version, by_data._version, by_detach._version)
print("out, .data, .detach()")
print(versions(), "at first")
by_data.add_(1)
print(versions(), "after by_data.add_(1)")
by_detach.add_(1)
print(versions(), "after by_detach.add_(1)")

# %% [markdown]
# `.detach()` shares the bytes **and** the counter. `.data` shares the bytes and gets a counter of its own.
#
# That is the whole difference. What follows is what comes of it.

# %% [markdown]
# ## 3 · A write through `.data`
#
# The sigmoid saves its own result: its derivative is $\sigma (1 - \sigma)$. We zero that result through `.data`, then
# run backward.
#
# **Predict:** does it raise, is `a.grad` right, or is it wrong without a word?

# %%
# %%see --ask outcome --as rec
a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True, device=device)
out = a.sigmoid()
c = out.data
c.zero_()
out.sum().backward()

# %% [markdown]
# What came, and the derivative by its formula:

# %%
s = torch.sigmoid(a.detach())
print("a.grad      ", a.grad)
print("derivative  ", s * (1 - s))


# %% [markdown]
# No error, and the gradient is wrong. Backward computed $0 \cdot (1 - 0)$ with the zeros that it found. The counter that the sigmoid watches never moved,
# so nothing raised.
#
# *Misconception* **M06**: “no error means that the gradient is right”.

# %% [markdown]
# You don't need the formula, you can ask the function itself: make one element a little larger, then a little smaller,
# and divide what the result changes by what the element changed. That is a *finite difference*:


# %%
def f(x):
    return torch.sigmoid(x).sum()


x, h = a.detach().double(), 1e-6
for k in range(3):
    step = torch.zeros(3, dtype=torch.float64, device=device)
    step[k] = h
    print(k, ((f(x + step) - f(x - step)) / (2 * h)).item())

# %% [markdown]
# Nor do you need to compute. `--as rec` has kept the recording of the picture, and that names the lines:

# %%
for found in rec.diagnoses:
    print("culprit:", found.culprit.code)
    print("victim: ", found.victim.code)
Markdown("".join(found.message() for found in rec.diagnoses) or "✓")

# %% [markdown]
# In the picture the tag at the sigmoid still says v0, but the numbers behind it are gone.
#
# **Change** the cell of the picture. First `c[2] = 0` instead of `c.zero_()`: what becomes of each number of `a.grad`? Then
# `c.mul_(1)`: what do you answer now?
#
# <details><summary>Changed and run? Then open this.</summary>
#
# Only the third number becomes 0: each element is computed from its own. After `c.mul_(1)` the numbers are what they
# were, so all is fine.
#
# </details>

# %% [markdown]
# ## 4 · A write through `.detach()`
#
# One word changes: `.data` becomes `.detach()`. Same bytes, same zeros. (A cell that asks keeps back what torch
# says.)
#
# **Predict** the outcome.

# %%
# %%see --ask outcome
a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True, device=device)
out = a.sigmoid()
c = out.detach()
c.zero_()
out.sum().backward()

# %% [markdown]
# The next program writes twice. **Predict:** if damage is done, which line does it? Click it, in the code or in the
# graph.

# %%
# %%see --ask culprit
x = torch.tensor([0.5, 1.0], requires_grad=True, device=device)
y = x.tanh()
shown = y.detach()
rounded = shown.round()
rounded.clamp_(min=0)
shown.sub_(rounded)
loss = y.sum()
loss.backward()

# %% [markdown]
# And the cell at the head of this section, without a question:

# %% tags=["raises-exception", "version-dependent"]
# %%see
a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True, device=device)
out = a.sigmoid()
c = out.detach()
c.zero_()
out.sum().backward()

# %% [markdown]
# Read the error as data:
#
# | it says | it means |
# |---|---|
# | `[torch.FloatTensor [3]]` | type and shape of the tensor that was hit |
# | `output 0 of Sigmoid` | who made it: this was saved as a *result* |
# | `is at version 1; expected version 0` | written once since it was saved |
# | the traceback | where backward *stopped* |
#
# It doesn't say **which line wrote**. Here that line is close to the traceback's arrow, in your code perhaps a thousand
# lines away.
#
# *Misconception* **M04**: “the traceback shows the line to fix”.
#
# Other versions of torch say it in other words. Search the web for the middle of the message, not for the whole.

# %% [markdown]
# ### Anomaly mode
#
# Torch's message recommends it. **Predict:** which line of this cell will it print?

# %%
import warnings

a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True, device=device)
with warnings.catch_warnings(record=True) as told, torch.autograd.detect_anomaly(check_nan=False):
    warnings.simplefilter("always")
    out = a.sigmoid()
    out.detach().zero_()
    try:
        out.sum().backward()
    except RuntimeError:
        pass

text = "".join(str(warning.message) for warning in told)
for line in ("out = a.sigmoid()", "out.detach().zero_()", "out.sum().backward()"):
    print(f"{line:21} {line in text}")

# %% [markdown]
# Anomaly mode prints the forward line of the Node that failed: the victim. The culprit stays unnamed.

# %% [markdown]
# ### The number in the document
#
# The document runs `.detach()`, gets the error, and then prints `a.grad`: `tensor([0., 0., 0.])`. **Predict** what
# yours prints.

# %%
a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True, device=device)
out = a.sigmoid()
c = out.detach()
c.zero_()
try:
    out.sum().backward()
except RuntimeError:
    pass

print(a.grad)

# %% [markdown]
# `None`: backward stopped at the sigmoid, before it reached `a`. (Of several leaves, some may have theirs by then.) The
# document's zeros came from an *earlier* cell, the silent one: its cells are numbered 69, 70, 57. These numbers count
# the runs, so this one ran out of order.
#
# If a result doesn't follow from the cells above it: **Kernel ▸ Restart Kernel and Run up to Selected Cell**.

# %% [markdown]
# ## 5 · Does `.detach()` always raise?
#
# *“`x.data` doesn't raise, `x.detach()` does”*, say two documents. Here are eight functions; each result is zeroed
# through `.detach()`.
#
# **Predict** which of them raise. Write your list down. (`torch.autograd.grad` returns a gradient instead of storing it:
# chapter 03.)

# %%
functions = {
    "x * 2": lambda x: x * 2,
    "x + 2": lambda x: x + 2,
    "sin": torch.sin,
    "cumsum": lambda x: x.cumsum(0),
    "exp": torch.exp,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "relu": torch.relu,
}

for name, function in functions.items():
    x = torch.tensor([0.5, 1.0, 1.5], requires_grad=True, device=device)
    (want,) = torch.autograd.grad(function(x).sum(), x)
    out = function(x)
    out.detach().zero_()
    try:
        out.sum().backward()
        print(f"{name:8} fine, gradient right: {torch.equal(x.grad, want)}")
    except RuntimeError:
        print(f"{name:8} raises")

# %% [markdown]
# Half of them are fine, and right. What matters is **what was saved**. `exp`, `sigmoid`, `tanh`, `relu` save their
# *result*. `sin` saves its *input*. `+` and `cumsum` save no tensor at all, and `* 2` saves only the 2.
#
# *Misconception* **M03**: “any in-place write raises”.

# %% [markdown]
# Look into three Nodes:

# %%
x = torch.tensor([0.5, 1.0, 1.5], requires_grad=True, device=device)

print("exp  ", x.exp().grad_fn._saved_result)
print("sin  ", x.sin().grad_fn._saved_self)
print("x * 2", (x * 2).grad_fn._saved_self, (x * 2).grad_fn._saved_other)

# %% [markdown]
# Here is one that wasn't in the list. **Predict** the outcome.

# %%
# %%see --ask outcome
x = torch.tensor([0.5, 1.0, 1.5], requires_grad=True, device=device)
out = x.sqrt()
out.detach().zero_()
out.sum().backward()

# %% [markdown]
# The derivative of $\sqrt x$ is $1 / (2 \sqrt x)$. The root is at hand, so the *result* is saved, and the write hits it.
#
# The write below changes no value. **Predict** the outcome.

# %%
# %%see --ask outcome
x = torch.tensor([0.5, 1.0, 1.5], requires_grad=True, device=device)
out = x.exp()
out.detach().mul_(1)
out.sum().backward()

# %% [markdown]
# It raises: torch compares versions, not values. A moved counter raises even when the values are the same; a still counter
# passes even when they aren't.

# %% [markdown]
# ## 6 · `.data` on a parameter
#
# A leaf that requires a gradient can't be written in place while gradients are recorded. The documents' way around it
# is `.data`.

# %% tags=["raises-exception"]
w = torch.zeros(10, requires_grad=True, device=device)
w.normal_()

# %%
w = torch.zeros(10, requires_grad=True, device=device)
print("w.data.requires_grad:", w.data.requires_grad)
print("zeros:", not w.any(), " version", w._version)
w.data.normal_()
print("zeros:", not w.any(), " version", w._version)

# %% [markdown]
# It works: random numbers stand where the zeros were, and the version stays at 0. (The document made `w` with
# `torch.FloatTensor(10)` and saw zeros. That was luck: such memory isn't initialised.)
#
# From chapter 04, section 7, you know how such a write ends when it stands **between** forward and backward. Here is why.
# The loss is $p^2$, at $p = 2$; first through `.data`:

# %%
# %%see
p = torch.tensor(2.0, requires_grad=True, device=device)
loss = p * p
p.data.mul_(10)
loss.backward()

# %%
p.grad

# %% [markdown]
# No error, and 40 instead of 4: the product saved `p` at version 0, and finds version 0 beside the new number.
#
# Today's way to write a parameter is `torch.no_grad()`, as `torch.nn.init` does. At the same place:

# %% tags=["raises-exception", "version-dependent"]
# %%see
p = torch.tensor(2.0, requires_grad=True, device=device)
loss = p * p
with torch.no_grad():
    p.mul_(10)
loss.backward()

# %% [markdown]
# It raises: this write moves the version, so torch notices. *Misconception* **M07**: “under `no_grad` a write is safe,
# and `w = …` updates `w`”.

# %% [markdown]
# ## 7 · “My code has no in-place operation”
#
# A write through `.data` isn't the only way past the counter. Two others follow, and chapter 08 has patients with more.
# *Misconception* **M12**: “my code has no in-place operation”.
#
# `record(detail="content")` also compares *contents*, so it sees writes that torch's own functions never saw.

# %% [markdown]
# ### numpy
#
# `.numpy()` shares the bytes of a CPU tensor, so this cell stays on the CPU. numpy knows of no counter.

# %%
x = torch.tensor([0.5, 1.0, 1.5], requires_grad=True)
with seegrad.record(detail="content") as rec:
    out = x.exp()
    out.detach().numpy()[:] = 0
    out.sum().backward()

print("x.grad    ", x.grad)
print("derivative", x.detach().exp())
Markdown(rec.diagnoses[0].message())

# %% [markdown]
# ### Another storage for the same tensor
#
# `p.data = …` swaps the storage of `p`. The loss is $p^2$, computed at $p = 2$. **Predict** `p.grad`.

# %%
p = torch.tensor(2.0, requires_grad=True, device=device)
with seegrad.record(detail="content") as rec:
    loss = p * p
    p.data = torch.tensor(10.0, device=device)
    loss.backward()

print("p.grad", p.grad, "version", p._version)
Markdown(rec.diagnoses[0].message())

# %% [markdown]
# 20: what was saved is `p` itself, and `p` looks at the new storage now. The right gradient, at $p = 2$, is 4.

# %% [markdown]
# ## 8 · Numbers to write on
#
# You want the numbers of `out`, and you want to write on them. Below, they are cloned first. **Predict** the outcome.

# %%
# %%see --ask outcome
a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True, device=device)
out = a.sigmoid()
c = out.detach().clone()
c.zero_()
out.sum().backward()


# %% [markdown]
# **Change** the next cell, when you have run it once: make one of its three functions spoil `a.grad`.


# %%
def copy_first(out):
    return out.detach().clone().mul_(100)


def out_of_place(out):
    return out.detach() * 100


def no_grad(out):
    with torch.no_grad():
        return out * 100


for remedy in (copy_first, out_of_place, no_grad):
    a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True, device=device)
    out = a.sigmoid()
    shown = remedy(out)
    out.sum().backward()
    s = torch.sigmoid(a.detach())
    print(f"{remedy.__name__:13}", torch.allclose(a.grad, s * (1 - s)), shown)

# %% [markdown]
# All three leave `a.grad` alone. What spoils it is for instance `out.data.mul_(100)` in `copy_first`: no copy, and no
# error. (`out.detach().mul_(100)` raises.)
#
# And if the write can wait until `backward()` has run:

# %%
a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True, device=device)
out = a.sigmoid()
out.sum().backward()
out.detach().zero_()

s = torch.sigmoid(a.detach())
print(torch.allclose(a.grad, s * (1 - s)))

# %% [markdown]
# ### What to write
#
# | you want | write |
# |---|---|
# | the numbers, to read | `t.detach()` |
# | the numbers, to change | `t.detach().clone()` |
# | to change a parameter | `with torch.no_grad(): p.mul_(…)` |
# | to be sure | a finite difference, or `seegrad.record()` |
#
# `.data` is in none of the rows. For what they are about it isn't needed, and it turns the alarm off.

# %% [markdown]
# ## 9 · Check yourself
#
# Three programs. **Predict** the outcome of each in its picture, then read on.

# %%
# %%see --ask outcome
x = torch.tensor([0.5, 1.0], requires_grad=True, device=device)
y = x.tanh()
z = y * 3
y.data.add_(1)
z.sum().backward()

# %%
# %%see --ask outcome
x = torch.tensor([0.5, 1.0], requires_grad=True, device=device)
y = x * 3
z = y * y
y.detach()[0] = 0
z.sum().backward()

# %%
# %%see --ask outcome
x = torch.tensor([0.5, 1.0], requires_grad=True, device=device)
y = x * 3
z = y + y
y.detach().zero_()
z.sum().backward()

# %% [markdown]
# - The first is silent: `tanh` saved `y`, and `.data` moved no version.
# - The second raises: `y * y` saved `y`, and one element is enough.
# - The third is fine: a sum saves nothing.
#
# Wrong once? The picture names the misconception. **Change** the program until you can say beforehand what it does.
#
# **Now the assignment:** open
# [`05_data_versus_detach`](../../release/en/05_data_versus_detach/05_data_versus_detach.ipynb).
# Six exercises, about 45 minutes.
