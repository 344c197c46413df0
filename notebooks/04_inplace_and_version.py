# %% [markdown]
# # 04 · In-place operations and `_version`
#
# Most people's first autograd error speaks of “an inplace operation”. It is an alarm, not the damage.
#
# After this hour you can
#
# - tell a write from a new tensor, and say what `_version` is after it;
# - predict which write raises: at once, in backward, never;
# - write a leaf, at the right moment;
# - find the line that wrote, which no error names.
#
# **How to work:** predict, run, look, explain, change. Commit before you run.

# %% [markdown]
# The parts called *optional* are for a second hour: nothing that comes later needs them.
#
# Every cell uses `device`. It is the CPU unless `SEEGRAD_DEVICE` says something else.
#
# A `NameError`, or `Cell magic … not found`? The kernel was restarted, or a cell was skipped: choose
# **Run ▸ Run All Above Selected Cell**.

# %%
import contextlib
import re

import torch
from IPython.display import Markdown

import seegrad

device = seegrad.device()

# %load_ext seegrad

# %% [markdown]
# ## 1 · A new tensor, or a write?
#
# Two lines change `a`. **Predict:** which of them works in place (*in-place*: it writes into the bytes that are
# there)? One, both, none?
#
# - `a = a.exp()`
# - `a[0] = 10`

# %%
a = torch.tensor([3.0, 1.0], device=device)
before = id(a)
a = a.exp()
print("a = a.exp()   same object:", id(a) == before)

a = torch.tensor([3.0, 1.0], device=device)
before = id(a)
a[0] = 10
print("a[0] = 10     same object:", id(a) == before, a)

# %% [markdown]
# `a = a.exp()` makes a new tensor and hangs the old *name* on it. `a[0] = 10` writes into the old one.
#
# Who notices? Whoever else holds the tensor. Give it a second name and look through that:

# %%
a = torch.tensor([3.0, 1.0], device=device)
other = a
a = a.exp()
print("after a = a.exp():", other)

a = other
a[0] = 10
print("after a[0] = 10:  ", other)

# %% [markdown]
# ### Optional: what `id()` doesn't know
#
# *“`id()` returns the object's memory address”*, say two documents, and they tell an in-place operation by it.
#
# **Predict:** below, is the `id` the same? And are the bytes?

# %%
a = torch.tensor([3.0, 1.0], device=device)
name, bytes_at = id(a), a.data_ptr()

a.data = torch.tensor([7.0, 7.0], device=device)
print("a.data = …    same id:", id(a) == name, "  same bytes:", a.data_ptr() == bytes_at)

view = a.view(2, 1)
print("a.view(2, 1)  same id:", id(view) == id(a), " same bytes:", view.data_ptr() == a.data_ptr())

# %% [markdown]
# `id()` knows the Python object. The bytes are another thing: `data_ptr()` says where they begin.
#
# Same `id`, other bytes; other `id`, same bytes. To tell whether two tensors share memory, never ask `id()`.

# %% [markdown]
# ### `i = i + 1` and `i += 1`
#
# *“In-place is like `i += 1`”*, says a document. It depends on what `i` is. **Predict** the three lines: does the
# second name see the change?

# %%
i = 1000
j = i
i += 1
print("int:   ", j)

items = [1]
same = items
items += [2]
print("list:  ", same)

t = torch.tensor([1.0], device=device)
twin = t
t += 1
print("tensor:", twin)
t = t + 1
print("tensor:", twin)

# %% [markdown]
# A number can't be written: `+=` makes a new one. A list and a tensor are written. And `t = t + 1` never writes.
#
# *Misconception* **M11**: “`t += 1` is short for `t = t + 1`”.

# %% [markdown]
# ### Optional: numpy has both
#
# numpy has the same two kinds. A document shows, under its heading “in-place”, an addition that isn't one. (It also
# forgets the `import`.)

# %%
import numpy as np

A = np.array([[1, 2, 3], [4, 5, 6]])
result = A + [[2], [3]]
print(result)
print(A)
A += [[2], [3]]
print(A)

# %% [markdown]
# ## 2 · The counter
#
# Torch can't see names. It counts writes: `_version`. Here are five ways to change `a` and `b`.
#
# **Predict** the versions at the end. Type them into the picture.

# %%
# %%see --ask versions --tensors a,b
a = torch.zeros(3, device=device)
a.add_(1)
a += 1
a[0] = 10
b = a * 2
b = b + 1

# %% [markdown]
# A trailing underscore (`add_`), an assignment to an index, an operator with `=` (`+=`): three spellings of one thing.
# Two more are `out=` and `inplace=True`.
#
# An underscore alone proves nothing: `requires_grad_()` changes no number.

# %% [markdown]
# ### “It starts at 0, and every in-place operation adds 1”
#
# So say three documents. **Predict** each number before you run it: which of these rows is 1?

# %%
fresh = {
    "torch.zeros(3)": torch.zeros(3, device=device),
    "matmul(vector, matrix)": torch.ones(2, device=device) @ torch.ones(2, 1, device=device),
    "torch.nn.Linear(2, 2).weight": torch.nn.Linear(2, 2, device=device).weight,
}
for made_by, t in fresh.items():
    print(f"{made_by:30} starts at {t._version}")

writes = ("t += 1", "torch.exp(t, out=t)", "t[0] += 1", "t.add_(0)", "t[0:0] = 5")
for write in (*writes, "t.requires_grad_()", "t.data.add_(1)"):
    t = torch.zeros(3, device=device)
    exec(write, {"t": t, "torch": torch})
    print(f"{write:30} adds {t._version}")

# %% [markdown]
# - A *result* may have been written before you get it: a matrix product of a vector is squeezed in place, a layer's
#   weight is initialised in place.
# - `t[0] += 1` is two writes: it adds into the slice, then assigns the slice.
# - Writing nothing at all counts too. A write through `.data` doesn't: chapter 05.
#
# What counts is that the version *moved*, not where it stands.

# %% [markdown]
# ### A view and a copy
#
# `row` is a view of `m`: it has no bytes of its own. `copy` does. **Predict** the three versions.

# %%
# %%see --ask versions --tensors m,row,copy
m = torch.zeros(2, 3, device=device)
row = m[0]
copy = m.clone()
row[:] = 1

# %% [markdown]
# `m` moved, though no line writes to the name `m`. One storage, one counter, for all views of it: slices, `view`,
# `reshape` where it can, `t()`, `detach()`.

# %%
m = torch.zeros(2, 3, device=device)
others = {"m[:, 1]": m[:, 1], "m.view(-1)": m.view(-1), "m.t()": m.t(), "m.detach()": m.detach()}
others |= {"m.clone()": m.clone(), "m + 0": m + 0, "m.data": m.data}
m[0] = 1

for made_by, t in others.items():
    shares_bytes = t.untyped_storage().data_ptr() == m.untyped_storage().data_ptr()
    print(f"{made_by:11} shares bytes: {shares_bytes!s:6} shares counter: {t._version == m._version}")

# %% [markdown]
# ## 3 · A value that backward needs
#
# $b \cdot b$ has the derivative $2b$, so the product keeps `b` for backward. Then `b` is written.
#
# **Predict:** what will happen? (`suppress` keeps an error, if there is one, from telling you.)

# %%
with contextlib.suppress(RuntimeError), seegrad.record() as alarm:
    a = torch.tensor([1.0, 3.0], requires_grad=True, device=device)
    b = a + 2
    loss = (b * b).mean()
    b[0] = 1000.0
    loss.backward()

seegrad.show(alarm, ask="outcome")

# %% [markdown]
# When `b * b` ran, its Node noted: `b`, version 0. In backward it looks again, finds version 1, and refuses. A wrong
# gradient would have been worse.
#
# The same in numbers:

# %%
a = torch.tensor([1.0, 3.0], requires_grad=True, device=device)
b = a + 2
print("saved at version", b._version)
loss = (b * b).mean()
b[0] = 1000.0
print("now at version  ", b._version)
try:
    loss.backward()
except RuntimeError as error:
    print(type(error).__name__, "…", re.search(r"is at version.*instead", str(error))[0])

# %% [markdown]
# ### Culprit and victim
#
# A Node whose saved value is hit by a write is a *victim*; the line that wrote is the *culprit*. **Predict** it here:
# click the line, or its pill.

# %%
seegrad.show(alarm, ask="culprit")

# %%
found = alarm.diagnoses[0]
print("culprit:", found.culprit.code)
print("victim: ", found.victim.code)
Markdown(found.message())

# %% [markdown]
# Now without `suppress`. `%%see` draws the picture; below it stands the error as torch raised it, and our note.

# %% tags=["raises-exception", "version-dependent"]
# %%see
a = torch.tensor([1.0, 3.0], requires_grad=True, device=device)
b = a + 2
loss = (b * b).mean()
b[0] = 1000.0
loss.backward()

# %% [markdown]
# The traceback's arrow points at `loss.backward()`. That is where the alarm rang. The fire is one line above it here;
# in your code it may be in another file.
#
# *Misconception* **M04**: “the traceback shows the line to fix”.

# %% [markdown]
# ### The name in the message
#
# “… which is output 0 of **X**”. Which X? **Predict:** the op that *made* `b`, the op that *saved* a value, or the one
# that *wrote* it?

# %% tags=["version-dependent"]
for use in ("s = b * b", "s = b.exp()"):
    for write in ("b[0] = 9", "b.mul_(9)", "s.zero_()"):
        names = {"b": torch.tensor([1.0, 3.0], requires_grad=True, device=device) + 2}
        exec(f"{use}\n{write}", names)
        try:
            names["s"].sum().backward()
            print(f"{use:11} {write:10} fine")
        except RuntimeError as error:
            print(f"{use:11} {write:10} output 0 of", re.search(r"output 0 of ([\w:]+)", str(error))[1])

# %% [markdown]
# An *input* that was saved is named by its last writer: a real clue, but a kind of op, not a line. A *result* that was
# saved is named by the op that made it: the victim. `fine`: nobody had saved what was written.
#
# Old answers show other words (names of ops instead of Nodes: since 2.13):
#
# | the document's torch | it said | your torch |
# |---|---|---|
# | up to 1.9 | `output 0 of AddBackward0`: what *made* `b` | `torch::autograd::CopySlices`: what *wrote* |
# | 2.0.1, for `d[:] = 0` | `output 0 of torch::autograd::CopySlices` | `Fill3` |
# | on Windows | `struct torch::autograd::CopySlices` | the same without `struct` |

# %% [markdown]
# ## 4 · One program, two orders
#
# The documents' main example: `x` and `w1` make `d`, `d` and `w2` make `f`.

# %%
x = torch.tensor([1.0, 2.0], device=device)
w1 = torch.tensor([[2.0], [1.0]], requires_grad=True, device=device)
w2 = torch.tensor([3.0], requires_grad=True, device=device)
d = torch.matmul(x, w1)
f = torch.matmul(d, w2)
f.backward()

print(w1.is_leaf, w2.is_leaf, d.is_leaf, f.is_leaf)
w1.grad, w2.grad

# %% [markdown]
# ### Write after use
#
# The derivative of $f = d \cdot w_2$ by $w_2$ is $d$. So `d` is saved, and then overwritten. **Predict** the version of
# `d` after the write.

# %%
with contextlib.suppress(RuntimeError), seegrad.record() as rec:
    x = torch.tensor([1.0, 2.0], device=device)
    w1 = torch.tensor([[2.0], [1.0]], requires_grad=True, device=device)
    w2 = torch.tensor([3.0], requires_grad=True, device=device)
    d = torch.matmul(x, w1)
    f = torch.matmul(d, w2)
    d[:] = 0
    f.backward()

seegrad.show(rec, ask="versions", tensors=["d"])

# %% [markdown]
# 2, since `d` was born at 1: the product of a vector was squeezed in place. The document's torch says so too: “version
# 2; expected version 1”.
#
# ### Optional: the same with a matrix
#
# With `x` as a matrix, `[[1., 2.]]`, it is “version 1; expected version 0”: one of the documents has this variant. The
# error is the same.

# %% tags=["raises-exception", "version-dependent"]
x = torch.tensor([[1.0, 2.0]], device=device)
w1 = torch.tensor([[2.0], [1.0]], requires_grad=True, device=device)
w2 = torch.tensor([3.0], requires_grad=True, device=device)
d = torch.matmul(x, w1)
f = torch.matmul(d, w2)
d[:] = 1
f.backward()

# %% [markdown]
# ### Write before use
#
# *“Change the order a little, and there is no problem”*, say two documents. **Predict** the outcome, and then the
# numbers in `w1.grad` and `w2.grad`. They were `[[3], [6]]` and `[4]`.

# %%
# %%see --ask outcome
x = torch.tensor([1.0, 2.0], device=device)
w1 = torch.tensor([[2.0], [1.0]], requires_grad=True, device=device)
w2 = torch.tensor([3.0], requires_grad=True, device=device)
d = torch.matmul(x, w1)
d[:] = 0
f = torch.matmul(d, w2)
f.backward()

# %%
w1.grad, w2.grad, d.grad_fn.name()

# %% [markdown]
# No error, and the gradient is right: for *this* program. Here $f = 0 \cdot w_2$, and `w1` doesn't matter to it.
# `d[:] = 0` is part of the graph, and its derivative by what was there before is 0.
#
# It isn't the program with the error, repaired. It is another one: nothing in it can learn.
#
# *Misconception* **M06**: “no error, no problem”.

# %% [markdown]
# If you want the first program's gradient *and* zeros in `d` afterwards, write after `backward()`. If a zeroed copy will
# do, write on `d.detach().clone()`.
#
# **Change** the cell: write `d[:] = 1`. What becomes of `w2.grad`? Then `d.mul_(2)`: which gradients are alive now,
# and what is their factor?

# %% [markdown]
# ## 5 · Who has saved it?
#
# A write is only seen by a Node that *saved* the value. $y = x + 1$ has the derivative 1: it saves nothing.
#
# **Predict:** `b` is zeroed after `y` was made from it. What comes of that?

# %%
# %%see --ask outcome
a = torch.tensor([1.0, 3.0], requires_grad=True, device=device)
b = a * 2
y = b + 1
b.zero_()
y.sum().backward()

# %% [markdown]
# So ask what is saved. **Predict:** tick what each of these three Functions keeps.

# %%
# %%see --ask saves
x = torch.tensor([0.5, 1.0], requires_grad=True, device=device)
grown = x.exp()
wave = x.sin()
moved = x + 1

# %% [markdown]
# Now a list. Each function is run twice: once its *result* is written, once its *input*. **Predict** the table: who
# minds which?

# %%
functions = {
    "b + 1": lambda b: b + 1,
    "b * 3": lambda b: b * 3,
    "b * b": lambda b: b * b,
    "exp": torch.exp,
    "sigmoid": torch.sigmoid,
    "relu": torch.relu,
    "sin": torch.sin,
    "log": torch.log,
}
print("           result    input")
for name, function in functions.items():
    came = []
    for wrote in ("result", "input"):
        b = torch.tensor([0.5, 1.0], requires_grad=True, device=device) * 2
        y = function(b)
        (y if wrote == "result" else b).mul_(2)
        try:
            y.sum().backward()
            came.append("fine")
        except RuntimeError:
            came.append("raises")
    print(f"{name:10} {came[0]:9} {came[1]}")

# %% [markdown]
# Who saves its *result* minds a write there: `exp`, `sigmoid`, `relu`. Who saves its *input* minds that: `sin`, `log`,
# `b * b`. Who saves neither minds neither: `b * 3` keeps only the 3.
#
# `exp().mul_(2)` raises and `sin().mul_(2)` doesn't. The rule isn't about the write. It is about what was saved.
#
# *Misconception* **M03**: “any in-place write on a tensor that needs a gradient raises”.

# %% [markdown]
# One document runs its two lines of section 1 on the same tensor, and stops before any backward. **Predict** what one
# would have done.

# %%
# %%see --ask outcome
x = torch.ones(2, 2, requires_grad=True, device=device)
a = x.exp()
a[0] = 10
with contextlib.suppress(RuntimeError):
    a.sum().backward()

# %% [markdown]
# The write went through. Only the backward that needs the old value raises. (With leaves torch is stricter: section 6.)

# %% [markdown]
# ### “Torch doesn't support most in-place operations”
#
# *“… and there is no case in which you need them”*, says a document. **Predict:** does this one raise? What is
# `x.grad`?

# %%
# %%see --ask outcome
x = torch.tensor([1.0, 2.0], requires_grad=True, device=device)
squares = torch.zeros(2, device=device)
for k in range(2):
    squares[k] = x[k] ** 2
squares.sum().backward()

# %%
print(x.grad, squares.requires_grad, squares.is_leaf)

# %% [markdown]
# $2x$: right. A buffer filled step by step is ordinary code. `squares` was born as a leaf without a gradient; the
# first write made it part of the graph.
#
# ### Optional: four more
#
# Each is compared with its out-of-place twin:

# %%
pairs = {
    "relu_": (lambda h: h.relu_(), torch.relu),
    "sigmoid_": (lambda h: h.sigmoid_(), torch.sigmoid),
    "mul_(3)": (lambda h: h.mul_(3), lambda h: h * 3),
    "pow_(2)": (lambda h: h.pow_(2), lambda h: h**2),
}
for name, (in_place, out_of_place) in pairs.items():
    grads = []
    for function in (in_place, out_of_place):
        x = torch.tensor([-1.0, 0.5, 2.0], requires_grad=True, device=device)
        function(x * 3).sum().backward()
        grads.append(x.grad)
    print(f"{name:9} raises nothing, same gradient: {torch.equal(*grads)}")

# %% [markdown]
# ### Optional: versions and values
#
# **Predict** which of these raise. Would the gradient have been right?


# %%
def other_half(h):
    h[1:] = 0


def nothing_changes(h):
    h.add_(0)


def there_and_back(h):
    h.add_(1).sub_(1)


for write in (other_half, nothing_changes, there_and_back):
    x = torch.tensor([1.0, 2.0], requires_grad=True, device=device)
    h = x * 3
    loss = (h[:1] ** 2).sum()
    write(h)
    try:
        loss.backward()
        print(f"{write.__name__:16} fine")
    except RuntimeError:
        print(f"{write.__name__:16} raises; saved values unchanged: {torch.equal(h[:1], x[:1] * 3)}")

# %% [markdown]
# All three, and in none of them had a value been lost: the check compares *versions*, not values. One counter for a
# whole storage is coarse, and cheap: one number compared for each saved tensor.
#
# Better a false alarm than a wrong gradient. The remedy is the same: write elsewhere, or later.

# %% [markdown]
# ## 6 · Writing a leaf
#
# Now a leaf that needs a gradient. **Predict:** does this raise, and on which line: `a[:] = 0`, or `loss.backward()`?

# %% tags=["raises-exception"]
a = torch.tensor([10.0, 5.0, 2.0, 3.0], requires_grad=True, device=device)
a[:] = 0
loss = (a * a).mean()
loss.backward()

# %%
a, a.is_leaf, a._version

# %% [markdown]
# At once, and `a` is untouched. The document, from torch 1.7, shows another story:
#
# | | the document's torch | your torch (since 1.8) |
# |---|---|---|
# | after `a[:] = 0` | zeros, `grad_fn=<CopySlices>`, `is_leaf` False | an error at that line, `a` as before |
# | at `backward()` | `leaf variable has been moved into the graph interior` | not reached |
#
# So the old error is gone: you can only meet it on the web.

# %% [markdown]
# Other spellings. **Predict** which of these four raise.

# %% tags=["version-dependent"]
for write in ("a.add_(10)", "a += 10", "a[0] = 0", "a.view(2, 2).zero_()"):
    a = torch.tensor([10.0, 5.0, 2.0, 3.0], requires_grad=True, device=device)
    try:
        exec(write, {"a": a})
    except RuntimeError as error:
        print(f"{write:21} {error}")

# %% [markdown]
# All four; two speak of “a *view* of a leaf”. Up to torch 1.4 the message said “*has been* used” instead of “is
# being used”.
#
# Why so strict? A leaf is where a gradient comes to rest. Were the write recorded, `a` would be the *result* of a
# write: it would have a `grad_fn`, and its `.grad` would stay empty.

# %% [markdown]
# You can see that on a copy. **Predict** the leaves.

# %%
# %%see --ask leaves
a = torch.tensor([10.0, 5.0, 2.0, 3.0], requires_grad=True, device=device)
b = a.clone()
b[:2] = 0
loss = (b * b).mean()
loss.backward()

# %%
print(a.grad, b.grad_fn.name())

# %% [markdown]
# ## 7 · How to write a leaf
#
# *“Once it is created, an in-place operation raises”*, says a document; another: *“not even before it is used”*. There
# is a way: while gradients aren't recorded.

# %%
a = torch.tensor([10.0, 5.0, 2.0, 3.0], requires_grad=True, device=device)
print(a, a.is_leaf)
with torch.no_grad():
    a[:] = 10.0
print(a, a.is_leaf)

loss = (a * a).mean()
loss.backward()
print(a.grad)

# %% [markdown]
# Still a leaf, and the gradient is that of the new values. Two more ways go through a tensor that shares the bytes and
# needs no gradient: `.data` and `.detach()`.
#
# **Predict** the version of `a` after each of the three.


# %%
def under_no_grad(a):
    with torch.no_grad():
        a.fill_(10.0)


def by_detach(a):
    a.detach().fill_(10.0)


def by_data(a):
    a.data.fill_(10.0)


for write in (under_no_grad, by_detach, by_data):
    a = torch.tensor([10.0, 5.0, 2.0, 3.0], requires_grad=True, device=device)
    before = id(a)
    write(a)
    (a * a).mean().backward()
    print(f"{write.__name__:14} version {a._version}  leaf: {a.is_leaf}  same id: {id(a) == before}  {a.grad}")

# %% [markdown]
# A value that is computed is written the same way, with `copy_`:

# %%
w = torch.zeros(3, requires_grad=True, device=device)
with torch.no_grad():
    w.copy_(torch.arange(3.0, device=device) / 10)
w, w.is_leaf

# %% [markdown]
# ### Too late
#
# *“Write before the variable is used”*, warns the document; *“afterwards it raises.”* Here all three write between
# forward and backward. The right gradient is $a / 2$: `[5, 2.5, 1, 1.5]`.
#
# **Predict:** three errors?

# %%
for write in (under_no_grad, by_detach, by_data):
    a = torch.tensor([10.0, 5.0, 2.0, 3.0], requires_grad=True, device=device)
    loss = (a * a).mean()
    write(a)
    try:
        loss.backward()
        print(f"{write.__name__:14} no error, a.grad {a.grad}")
    except RuntimeError:
        print(f"{write.__name__:14} raises, version {a._version}")

# %% [markdown]
# Two. `no_grad` hides the write from the *graph*, not from the *counter*: the alarm works. `.data` hides it from both,
# and the gradient is wrong in silence.
#
# *Misconception* **M07**: “under `no_grad` a write is safe”. It is allowed, which is something else.
#
# *“If there is no error, there is no problem”*, ends that document. Its own first remedy is the counter-example
# (**M06**).

# %% [markdown]
# See the loud one. The tag on the wire says v0 saved, v1 now.

# %% tags=["version-dependent"]
with contextlib.suppress(RuntimeError), seegrad.record() as rec:
    a = torch.tensor([10.0, 5.0, 2.0, 3.0], requires_grad=True, device=device)
    loss = (a * a).mean()
    with torch.no_grad():
        a.fill_(10.0)
    loss.backward()

seegrad.show(rec)

# %% [markdown]
# ### One more spelling
#
# Under `no_grad`, and seen in many training loops. **Predict:** is `w` still the parameter?

# %%
w = torch.tensor([1.0, 2.0], requires_grad=True, device=device)
parameter = w
(w * w).sum().backward()
with torch.no_grad():
    w = w - 0.1 * w.grad

print(parameter, parameter._version)
print(w, w.requires_grad, w is parameter)

# %% [markdown]
# `w = …` made a new tensor and moved the name. The parameter has its old numbers, and the new `w` needs no gradient:
# the next backward has nothing to do. `w -= 0.1 * w.grad` would have written (**M07**, **M11**).

# %% [markdown]
# ## 8 · Optional: initialising a parameter
#
# A parameter is a leaf that needs a gradient. So how is it initialised? The document's first try, and its remedy:

# %% tags=["raises-exception"]
w = torch.zeros(10, requires_grad=True, device=device)
w.normal_()

# %% tags=["raises-exception"]
w.data = w.data.normal()

# %% [markdown]
# The remedy never worked in any version: there is no `normal` without the underscore. What was meant is
# `w.data.normal_()`.
#
# *“Look at `nn.Module._apply`”*, it says, to see how torch does it. **Predict** what you find there: that is what
# `.to()` and `.cuda()` call.

# %%
import inspect

source = inspect.getsource(torch.nn.init._no_grad_normal_)
print("init uses no_grad:        ", "with torch.no_grad():" in source)
print("init writes by normal_:   ", "tensor.normal_(" in source)
print("_apply speaks of normal_: ", "normal_" in inspect.getsource(torch.nn.Module._apply))

torch.manual_seed(0)
w = torch.zeros(10, requires_grad=True, device=device)
torch.nn.init.normal_(w)
print(w.is_leaf, w.requires_grad, w._version)

# %% [markdown]
# `torch.nn.init` writes under `no_grad`, in place. That is why a fresh layer's weight stands at version 1.

# %% [markdown]
# ## 9 · The training step: forward, backward, step
#
# An optimiser is a program that writes leaves in place. So it matters *when*. **Predict** what this order does.

# %%
with contextlib.suppress(RuntimeError), seegrad.record() as rec:
    w = torch.tensor([1.0, 2.0], requires_grad=True, device=device)
    w.grad = torch.ones(2, device=device)
    optimizer = torch.optim.SGD([w], lr=0.1)
    loss = (w * w).sum()
    optimizer.step()
    loss.backward()

seegrad.show(rec, ask="outcome")

# %% [markdown]
# It raises: `step` wrote `w`, which the product had saved. No line of this cell ends in an underscore (**M12**: “my code has no
# in-place operation”).
#
# The right order is forward, backward, step: when the step writes, nobody needs the old value any more.
#
# Now a loop in that order. **Predict** the versions that are printed.

# %%
w = torch.tensor([1.0, 2.0], requires_grad=True, device=device)
optimizer = torch.optim.SGD([w], lr=0.1)
for _ in range(3):
    loss = (w * w).sum()
    saved_at = w._version
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("saved at", saved_at, " now at", w._version, " loss", round(loss.item(), 3), " leaf", w.is_leaf)

# %% [markdown]
# Each forward notes a newer version, each backward finds it unmoved. That is all that a training loop has to do right.
#
# **Change** the loop: put `optimizer.step()` first in it, so that the first round has no gradient. Does it raise? Then
# put it right below the line `loss = …`: which round raises?

# %% [markdown]
# ## 10 · Why not just keep a copy?
#
# Had each Node its own copy of what it saves, no write could hurt. Torch saves a *reference*. What would copies cost?
# Count the bytes that a small network saves: torch calls `count` for each tensor that it keeps for backward.

# %%
model = torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU()) for _ in range(8)))
model.to(device)
x = torch.ones(64, 256, device=device)
owned = {p.untyped_storage().data_ptr() for p in (*model.parameters(), x)}
copies, storages = 0, {}


def count(t):
    global copies
    copies += t.nbytes
    storages[t.untyped_storage().data_ptr()] = t.nbytes
    return t


with torch.autograd.graph.saved_tensors_hooks(count, lambda t: t):
    loss = model(x).sum()

kept = sum(size for where, size in storages.items() if where not in owned)
print("kept alive by references:", kept // 1024, "KiB")
print("needed by copies:        ", copies // 1024, "KiB")

# %% [markdown]
# Weights and input live anyway, and two layers that save the same tensor share it. Copies would cost several times as
# much, for every step, whether or not anybody writes.
#
# ### Optional: copies on demand
#
# Who wants the copies can have them, made only when a write comes. **Predict** `a.grad` for the program of section 3.

# %%
a = torch.tensor([1.0, 3.0], requires_grad=True, device=device)
with torch.autograd.graph.allow_mutation_on_saved_tensors():
    b = a + 2
    loss = (b * b).mean()
    b[0] = 1000.0
    loss.backward()

a.grad, b

# %% [markdown]
# `[3, 5]`: that is $2b / 2$ with the `b` that was used, while `b` itself shows what was written. The old value lives on
# in a copy, made when the write came.
#
# It is good for experiments. For a program that you keep, a line that doesn't write says more.

# %% [markdown]
# ## 11 · “My code has no in-place operation”
#
# Real code hides the write in a function, and the function in a file. **Predict:** click the line that did it.


# %%
def gate(h):
    return h.sigmoid()


def tidy(h):
    return torch.nn.functional.relu(h, inplace=True)


with contextlib.suppress(RuntimeError), seegrad.record() as hidden:
    w = torch.tensor([1.0, -1.0], requires_grad=True, device=device)
    h = gate(w * 2)
    out = tidy(h)
    out.sum().backward()

seegrad.show(hidden, ask="culprit")

# %%
Markdown(hidden.diagnoses[0].message())

# %% [markdown]
# A way to search that needs no tool: print `_version` along the way. Where it has moved, somebody wrote.

# %%
w = torch.tensor([1.0, -1.0], requires_grad=True, device=device)
h = gate(w * 2)
print("after gate:", h._version)
out = tidy(h)
print("after tidy:", h._version, "  out is h:", out is h)

# %% [markdown]
# The commonest of all is a residual, here with `+=` and with `= … +`. **Predict** both.


# %%
def residual_write(x):
    y = x.relu()
    y += x
    return y


def residual_new(x):
    y = x.relu()
    y = y + x
    return y


for block in (residual_write, residual_new):
    x = torch.tensor([1.0, -1.0], requires_grad=True, device=device)
    try:
        block(x).sum().backward()
        print(f"{block.__name__:15} {x.grad}")
    except RuntimeError:
        print(f"{block.__name__:15} raises")

# %% [markdown]
# `+=` writes into what `relu` saved; `= … +` makes a new tensor.

# %% [markdown]
# ## 12 · Remedies
#
# | the alarm rings because | do |
# |---|---|
# | a write hits a value that was saved | a new tensor: `y = y + x`, `torch.where`, `clone()` before the write |
# | the write comes too early | write after `backward()` |
# | a leaf is written | `with torch.no_grad(): w.copy_(…)` |
# | nobody knows who wrote | `_version` along the way, or `%%see` |
#
# `.data` is in no row: it silences the alarm. **Change** `residual_write` so that it still uses an in-place operation,
# and is right.

# %% [markdown]
# ## 13 · Check yourself
#
# Four programs. For each: raises, silent, or fine? Answer in the picture, then read on.

# %%
with contextlib.suppress(RuntimeError), seegrad.record() as rec:
    x = torch.tensor([0.5, 1.0], requires_grad=True, device=device)
    y = x.tanh()
    y *= 2
    y.sum().backward()

seegrad.show(rec, ask="outcome")

# %%
with contextlib.suppress(RuntimeError), seegrad.record() as rec:
    x = torch.tensor([0.5, 1.0], requires_grad=True, device=device)
    y = x.cos()
    y *= 2
    y.sum().backward()

seegrad.show(rec, ask="outcome")

# %%
with contextlib.suppress(RuntimeError), seegrad.record() as rec:
    x = torch.tensor([[0.5, 1.0], [1.5, 2.0]], requires_grad=True, device=device)
    h = x * 2
    row = h[1]
    loss = (h * h).sum()
    row.zero_()
    loss.backward()

seegrad.show(rec, ask="outcome")

# %%
with contextlib.suppress(RuntimeError), seegrad.record() as rec:
    x = torch.tensor([0.5, 1.0], requires_grad=True, device=device)
    loss = (x * x).sum()
    x.data.mul_(3)
    loss.backward()

seegrad.show(rec, ask="outcome")

# %% [markdown]
# - The first raises: `tanh` saved its result. The second is fine: `cos` saved its input.
# - The third raises: `row` is a view, its write moves the counter of `h`.
# - The fourth is silent: `.data` moved nothing that backward looks at.
#
# Wrong once? The picture names the misconception. **Change** the program until you can say beforehand what it does.
#
# **Now the assignment:** open `release/en/04_inplace_and_version`. Seven exercises, about an hour.
