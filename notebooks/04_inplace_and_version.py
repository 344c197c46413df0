# %% [markdown]
# # 04 · In-place operations and `_version`
#
# *About 60 minutes, without the optional parts.* Most people's first autograd error speaks of “an inplace operation”.
#
# After it you can
#
# - tell a write from a new tensor, and say what `_version` is after it;
# - predict whether a write raises, and where;
# - write a leaf, at the right moment;
# - find the line that wrote, which no error names.
#
# **How to work:** predict, run, look, explain, change. Commit before you run.

# %% [markdown]
# The parts called *optional* are for another day: nothing that comes later needs them.
#
# Every cell uses `device`, which the kernel sets (chapter 00).
#
# A `NameError`, or `Cell magic … not found`? The kernel was restarted, or a cell was skipped: choose **Kernel ▸ Restart
# Kernel and Run up to Selected Cell**.

# %%
import re

import torch
from IPython.display import Markdown, display

import seegrad

device = seegrad.device()

# %load_ext seegrad

# %% [markdown]
# ## Asked again
#
# Two questions on earlier chapters, each about a program that you haven't seen. What you predicted wrongly comes first.

# %%
seegrad.ask_again("04")

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
print("a = a.exp()   same object:", id(a) == before, a)

a = torch.tensor([3.0, 1.0], device=device)
before = id(a)
a[0] = 10
print("a[0] = 10     same object:", id(a) == before, a)

# %% [markdown]
# Only `a[0] = 10`. `a = a.exp()` makes a new tensor and gives it the old *name*; `a[0] = 10` writes into the bytes of the
# old tensor.
#
# Give the tensor a second name, and look through that:

# %%
a = torch.tensor([3.0, 1.0], device=device)
other = a
a = a.exp()
print("after a = a.exp():", other)

a = other
a[0] = 10
print("after a[0] = 10:  ", other)

# %% [markdown]
# ### Optional: what does `id()` know?
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
# ### Optional: `i = i + 1` and `i += 1`
#
# *“In-place is like `i += 1`”*, says a document. **Predict** the four lines: does the second name see the change?

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
# It depends on what `i` is. A number can't be overwritten: `+=` makes a new one. Into a list and into a tensor `+=`
# writes. `t = t + 1` never writes.
#
# *Misconception* **M11**: “`x += y` is short for `x = x + y`”.

# %% [markdown]
# ### Optional: numpy has both
#
# numpy has the same two kinds. The document's example is the first addition. **Predict** which of the two writes into
# `A`.

# %%
import numpy as np

A = np.array([[1, 2, 3], [4, 5, 6]])
result = A + [[2], [3]]
print(result)
print(A)
A += [[2], [3]]
print(A)

# %% [markdown]
# The second. `A + …` made a new array, and `A` stayed what it was.

# %% [markdown]
# ## 2 · The counter
#
# Torch can't see names. It counts writes: `_version`. Below, five lines follow the one that makes `a`.
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
# An underscore alone proves nothing: there are methods with one that only set a flag.

# %% [markdown]
# ### “It starts at 0, and every in-place operation adds 1”
#
# So say three documents. Here three tensors are made in different ways:

# %%
fresh = {
    "torch.zeros(3)": torch.zeros(3, device=device),
    "matmul(vector, matrix)": torch.ones(2, device=device) @ torch.ones(2, 1, device=device),
    "torch.nn.Linear(2, 2).weight": torch.nn.Linear(2, 2, device=device).weight,
}
for made_by, t in fresh.items():
    print(f"{made_by:30} starts at {t._version}")

# %% [markdown]
# A *result* may have been written before you get it: a matrix product of a vector is squeezed in place, a layer's weight
# is initialised in place.
#
# And does each write add 1? Six lines write, or seem to write, into fresh zeros. **Predict** what each of them adds.

# %%
writes = ("t += 1", "torch.exp(t, out=t)", "t[0] += 1", "t.add_(0)", "t[0:0] = 5")
for write in (*writes, "t.requires_grad_()"):
    t = torch.zeros(3, device=device)
    exec(write, {"t": t, "torch": torch})
    print(f"{write:30} adds {t._version}")

# %% [markdown]
# - `t[0] += 1` is two writes: it adds into the slice, then assigns the slice.
# - A write that changes no number counts too.
# - `requires_grad_()` isn't a write: it sets a flag.
#
# What backward compares is whether the version has *moved*, not where it stands.

# %% [markdown]
# ### A view and a copy
#
# `row` is a view of `m`: it looks at the bytes of `m`. `copy` has bytes of its own. **Predict** the three versions.

# %%
# %%see --ask versions --tensors m,row,copy
m = torch.zeros(2, 3, device=device)
row = m[0]
copy = m.clone()
row[:] = 1

# %% [markdown]
# `m` moved, though no line writes to the name `m`. A tensor and its views have one counter together: slices, `view`,
# `reshape` where it can, `t()`. So has what `detach()` gives.

# %% [markdown]
# ### Optional: who shares the counter?
#
# Six tensors made from `m`, and then a write. **Predict** which of them share its bytes, and which its counter.

# %%
m = torch.zeros(2, 3, device=device)
others = {"m[:, 1]": m[:, 1], "m.view(-1)": m.view(-1), "m.t()": m.t(), "m.detach()": m.detach()}
others |= {"m.clone()": m.clone(), "m + 0": m + 0}
m[0] = 1

for made_by, t in others.items():
    shares_bytes = t.untyped_storage().data_ptr() == m.untyped_storage().data_ptr()
    print(f"{made_by:11} shares bytes: {shares_bytes!s:6} shares counter: {t._version == m._version}")

# %% [markdown]
# Views and `detach()` share the bytes and the counter; `clone()` and `m + 0` have both of their own. One way to the
# bytes doesn't share the counter: it comes in section 7.

# %% [markdown]
# ## 3 · Used, then written
#
# `b` is used by a product, and then one of its elements is written.
#
# **Predict** the outcome. (A cell that asks keeps back what torch says.)

# %%
# %%see --ask outcome
a = torch.tensor([1.0, 3.0], requires_grad=True, device=device)
b = a + 2
loss = (b * b).mean()
b[0] = 1000.0
loss.backward()

# %% [markdown]
# It raises. $b \cdot b$ has the derivative $2b$, so the product keeps `b` for backward. When it ran, its Node noted:
# `b`, version 0. In backward it looks again, finds version 1, and refuses. A wrong gradient would have been worse.
#
# The same in numbers:

# %%
a = torch.tensor([1.0, 3.0], requires_grad=True, device=device)
b = a + 2
print("saved at version", b._version)
loss = (b * b).mean()
b[0] = 1000.0
print("now at version  ", b._version)

# %% [markdown]
# ### Culprit and victim
#
# A Node whose saved value is hit by a write is a *victim*; the line that wrote is the *culprit*.
#
# Here is another program, with two writes. **Predict:** if one of its lines is a culprit, which? Click the line, or its
# pill, or answer “no line”.

# %%
# %%see --ask culprit --as rec
x = torch.tensor([1.0, 2.0], requires_grad=True, device=device)
y = x * 3
z = y.sin()
total = z * 5 + y
y.add_(1)
total.mul_(2)
total.sum().backward()

# %%
for found in rec.diagnoses:
    print("culprit:", found.culprit.code)
    print("victim: ", found.victim.code)
    display(Markdown(found.message()))

# %% [markdown]
# And the first program of this section, without a question:

# %% tags=["raises-exception", "version-dependent"]
# %%see
a = torch.tensor([1.0, 3.0], requires_grad=True, device=device)
b = a + 2
loss = (b * b).mean()
b[0] = 1000.0
loss.backward()

# %% [markdown]
# Below the picture stands the error as torch raised it. The traceback's arrow points at `loss.backward()`: there the
# versions were compared. The line that wrote is the one above it here; in your code it may be in another file.
#
# *Misconception* **M04**: “the traceback shows the line to fix”.

# %% [markdown]
# ### The name in the message
#
# “… which is output 0 of **X**”. Which X? **Predict:** the op that *made* the tensor, the one that *saved* it, or the one
# that *wrote* it? And is it the same one each time? (`exp` saves what it makes, so in its rows the first two are one.)

# %% tags=["version-dependent"]
for use in ("s = b * b", "s = b.exp()"):
    for write in ("b[0] = 9", "b.div_(9)", "s.zero_()"):
        names = {"b": torch.tensor([1.0, 3.0], requires_grad=True, device=device) + 2}
        exec(f"{use}\n{write}", names)
        try:
            names["s"].sum().backward()
            print(f"{use:11} {write:10} fine")
        except RuntimeError as error:
            print(f"{use:11} {write:10} output 0 of", re.search(r"output 0 of ([\w:]+)", str(error))[1])

# %% [markdown]
# - `b * b` saved its *input* `b`. The message names the op that wrote `b` last. That is a real clue, but it is a kind of
#   op, not a line.
# - `b.exp()` saved its *result*. The message names the op that made it, which is here the one that saved: the victim.
# - `fine`: nobody had saved what was written.
#
# Other versions of torch use other names.

# %% [markdown]
# ## 4 · One program, two orders
#
# The documents' main example: `x` and `w1` make `d`, `d` and `w2` make `f`. A write to `d` below the line of `f` raises, as
# in section 3: the derivative of $f$ by $w_2$ is $d$, so `d` is saved.

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
# ### Optional: write after use
#
# The derivative of $f = d \cdot w_2$ by $w_2$ is $d$. So `d` is saved, and then overwritten. **Predict** the version of
# `d` after the write.

# %%
# %%see --ask versions --tensors d
x = torch.tensor([1.0, 2.0], device=device)
w1 = torch.tensor([[2.0], [1.0]], requires_grad=True, device=device)
w2 = torch.tensor([3.0], requires_grad=True, device=device)
d = torch.matmul(x, w1)
f = torch.matmul(d, w2)
d[:] = 0
f.backward()

# %% [markdown]
# 2, since `d` was born at 1: the product of a vector was squeezed in place. So torch's error says “version 2; expected
# version 1”.
#
# ### Optional: the same with a matrix
#
# Here `x` is a matrix, `[[1., 2.]]`. **Predict** which versions the error names.

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
# *“Change the order a little, and there is no problem”*, say two documents. **Predict** the outcome, where a *wrong*
# gradient is one that isn't the derivative of the program as it now stands.
#
# **Predict** the numbers in `w1.grad` and `w2.grad` too. Without the write they were `[[3], [6]]` and `[4]`.

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
# No error, and the gradient is right for *this* program. `d[:] = 0` is part of its graph: $f = 0 \cdot w_2$. (A write to
# all of a tensor stands there as a `Fill`, a write to a part of it as `CopySlices`.)
#
# This isn't the first program, repaired, but another one: nothing in it can learn. For the first one's gradient *and*
# zeros in `d`, write after `backward()`, or on `d.detach().clone()`.

# %% [markdown]
# ## 5 · Who has saved it?
#
# $y = b + 1$ has the derivative 1. `b` is zeroed after `y` was made from it.
#
# **Predict** the outcome.

# %%
# %%see --ask outcome
a = torch.tensor([1.0, 3.0], requires_grad=True, device=device)
b = a * 2
y = b + 1
b.zero_()
y.sum().backward()

# %% [markdown]
# It is fine: a write only matters to a Node that *saved* the value, and `+ 1` saves nothing.
#
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
# *Misconception* **M03**: “any in-place write raises”.

# %% [markdown]
# ### Optional: the two lines of section 1
#
# Here are the two lines of section 1 on one tensor, and then a backward. **Predict** the outcome.

# %%
# %%see --ask outcome
x = torch.ones(2, 2, requires_grad=True, device=device)
a = x.exp()
a[0] = 10
a.sum().backward()

# %% [markdown]
# It raises, and only in backward: the write itself went through.

# %% [markdown]
# ### Optional: “Torch doesn't support most in-place operations”
#
# *“… and there is no case in which you need them”*, says a document. **Predict** the outcome of this one, and `x.grad`.

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
# Fine: $2x$ is right. A buffer filled step by step is ordinary code. `squares` was born as a leaf without a gradient; the
# first write made it part of the graph.
#
# ### Optional: four more
#
# Each is compared with its out-of-place twin. **Predict** which gradients are the same.

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
    print(f"{name:9} same gradient: {torch.equal(*grads)}")

# %% [markdown]
# All four. `relu_` and `sigmoid_` save their result, `mul_(3)` only the 3. `pow_` needs the input, which it overwrites: so
# it keeps a copy.

# %% [markdown]
# ### Optional: three writes
#
# After each of these three the element that the square has saved is what it was. **Predict** which of them raise.


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
        print(f"{write.__name__:16} raises")

# %% [markdown]
# All three, although each gradient would have been right: the check compares *versions*, not values, and a view has the
# counter of the whole. That is coarse, but cheap: one number is compared for each saved tensor.
#
# The remedy is the same as ever: write elsewhere, or later.

# %% [markdown]
# ## 6 · Writing a leaf
#
# Now a leaf that needs a gradient. **Predict:** is all fine, does `a[:] = 0` raise, or does `loss.backward()`?

# %% tags=["raises-exception"]
a = torch.tensor([10.0, 5.0, 2.0, 3.0], requires_grad=True, device=device)
a[:] = 0
loss = (a * a).mean()
loss.backward()

# %%
a, a.is_leaf, a._version

# %% [markdown]
# At once, and `a` is untouched. (Up to torch 1.7 the write went through, and `backward()` raised: “leaf variable has been
# moved into the graph interior”.)
#
# Why so strict? Backward stores gradients in leaves. If the write were recorded, `a` would be the *result* of a write: it
# would have a `grad_fn`, and its `.grad` would stay empty.

# %% [markdown]
# ### Optional: other spellings
#
# Other spellings of a write. **Predict** for each of these four what torch says: nothing, the same message, or another.

# %% tags=["version-dependent"]
for write in ("a.add_(10)", "a += 10", "a[0] = 0", "a.view(2, 2).zero_()"):
    a = torch.tensor([10.0, 5.0, 2.0, 3.0], requires_grad=True, device=device)
    try:
        exec(write, {"a": a})
        print(f"{write:21} fine")
    except RuntimeError as error:
        print(f"{write:21} {error}")

# %% [markdown]
# All four raise; two messages speak of “a *view* of a leaf”.

# %% [markdown]
# ### Optional: a write to a clone
#
# Below, the write goes to a clone. **Predict** the leaves.

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
# Only `a` is a leaf. The write to `b` was recorded, as `CopySlices`; the gradient goes back through it and the clone, to
# `a`: zeros where `b` was overwritten.

# %% [markdown]
# ### Optional: back through a write
#
# A smaller program with such a write. **Predict** each step of its backward: the picture asks before it opens one, and you
# find the next Function yourself.

# %%
# %%see --ahead alone
a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True, device=device)
b = a * 2
b[0] = 7
loss = (b * b).sum()
loss.backward()

# %% [markdown]
# `[14, 8, 12]` comes to `b` as it is in the end, and `CopySlices` passes on `[0, 8, 12]`: the 7 was written over what came
# from `a`, so nothing of its gradient belongs to `a`.

# %% [markdown]
# ## 7 · How to write a leaf
#
# *“Once it is created, an in-place operation raises”*, says a document. It doesn't while gradients aren't recorded:

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
# After the first two 1, after `.data` 0: it has a counter of its own (chapter 05). In all three `a` stays a leaf.
#
# A value that is computed is written the same way, with `copy_`:

# %%
w = torch.zeros(3, requires_grad=True, device=device)
with torch.no_grad():
    w.copy_(torch.arange(3.0, device=device) / 10)
w, w.is_leaf

# %% [markdown]
# ### Between forward and backward
#
# Here the same three functions write between forward and backward. The right gradient is $a / 2$: `[5, 2.5, 1, 1.5]`.
#
# **Predict** for each of the three: does it raise, and if not, what is `a.grad`?

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
# Two raise. `no_grad` and `.detach()` hide the write from the *graph*, not from the *counter*. `.data` hides it from
# both: no error comes, and the gradient is wrong (**M06**: “no error means that the gradient is right”).
#
# *Misconception* **M07**: “under `no_grad` a write is safe, and `w = …` updates `w`”. It is allowed, which is something
# else.

# %% [markdown]
# ### Optional: the first of the three, as a picture
#
# Here is the first of the three. **Predict** which of its lines the picture calls the culprit:

# %% tags=["raises-exception", "version-dependent"]
# %%see --as rec
a = torch.tensor([10.0, 5.0, 2.0, 3.0], requires_grad=True, device=device)
loss = (a * a).mean()
with torch.no_grad():
    a.fill_(10.0)
loss.backward()

# %% [markdown]
# ## 8 · Optional: initialising a parameter
#
# A parameter is a leaf that needs a gradient. So how is it initialised? The document tries these two lines:

# %% tags=["raises-exception"]
w = torch.zeros(10, requires_grad=True, device=device)
w.normal_()

# %% tags=["raises-exception"]
w.data = w.data.normal()

# %% [markdown]
# The second never worked: there is no `normal` without the underscore. What was meant is `w.data.normal_()`.
#
# How does torch do it itself? **Predict:** does the source of `torch.nn.init` write under `no_grad`? Does it call
# `normal_`? Does the source of `Module._apply`, where the document looks for it, speak of `normal_`? And at which version
# does `w` stand afterwards?

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
# `torch.nn.init` writes under `no_grad`, in place. That is why a new layer's weight stands at version 1. (`_apply`
# is what `.to()` and `.cuda()` call.)

# %% [markdown]
# ## 9 · The training step
#
# **Predict** the outcome of this order. (`w.grad` is set by hand, as an earlier backward would have left it.)

# %%
# %%see --ask outcome
w = torch.tensor([1.0, 2.0], requires_grad=True, device=device)
w.grad = torch.ones(2, device=device)
optimizer = torch.optim.SGD([w], lr=0.1)
loss = (w * w).sum()
optimizer.step()
loss.backward()

# %% [markdown]
# It raises: an optimiser is a program that writes leaves in place. `step` wrote `w`, which the product had saved. No
# operation of this cell has an underscore at its end (**M12**: “my code has no in-place operation”).
#
# The right order is forward, backward, step: when the step writes, nobody needs the old value any more.

# %% [markdown]
# ### Optional: three rounds
#
# Below, a loop in the order forward, backward, step. **Predict** the versions that are printed.

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
# Each forward saves `w` at a newer version, and each backward finds that version unmoved. The step moves it afterwards.
#
# **Change** the loop: move `optimizer.step()` to its first line. Does it raise? Then move it right
# below the line `loss = …`. Does it raise now, and in which round?
#
# <details><summary>Changed and run? Then open this.</summary>
#
# At the top it doesn't: it writes before the forward that saves. Below `loss = …` it raises in round 2: in round 1 it
# has no gradient yet, and writes nothing.
#
# </details>

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
# In real code lines stand in functions, and functions in other files. **Predict:** if a line did damage, which one? Click
# it, or answer “no line”. (Where a line calls a function of this cell, the line inside it counts.)

# %%
# %%see --ask culprit --as rec
def gate(h):
    return h.sigmoid()


def tidy(h):
    return torch.nn.functional.relu(h, inplace=True)


w = torch.tensor([1.0, -1.0], requires_grad=True, device=device)
h = gate(w * 2)
out = tidy(h)
out.sum().backward()

# %%
Markdown(rec.diagnoses[0].message())

# %% [markdown]
# There is a way to search that needs no tool: print `_version` along the way. Where it has moved, somebody wrote:

# %%
w = torch.tensor([1.0, -1.0], requires_grad=True, device=device)
h = gate(w * 2)
print("after gate:", h._version)
out = tidy(h)
print("after tidy:", h._version, "  out is h:", out is h)

# %% [markdown]
# ## 12 · Remedies
#
# | what happened | do |
# |---|---|
# | a write hits a value that was saved | a new tensor: `y = y + x`, `torch.where`, `clone()` before the write |
# | the write comes too early | write after `backward()` |
# | a leaf is written | `with torch.no_grad(): w.copy_(…)` |
# | nobody knows who wrote | `_version` along the way, or `%%see` |
#
# `.data` is in no row: with it torch notices nothing.

# %% [markdown]
# ## 13 · Optional: check yourself
#
# Three programs. **Predict** the outcome of each in its picture, then read on.

# %%
# %%see --ask outcome
x = torch.tensor([0.5, 1.0], requires_grad=True, device=device)
y = x.tanh()
y *= 2
y.sum().backward()

# %%
# %%see --ask outcome
x = torch.tensor([0.5, 1.0], requires_grad=True, device=device)
y = x.cos()
y *= 2
y.sum().backward()

# %%
# %%see --ask outcome
x = torch.tensor([[0.5, 1.0], [1.5, 2.0]], requires_grad=True, device=device)
h = x * 2
row = h[1]
loss = (h * h).sum()
row.zero_()
loss.backward()

# %% [markdown]
# - The first raises: `tanh` saved its result. The second is fine: `cos` saved its input.
# - The third raises: `row` is a view, its write moves the counter of `h`.
#
# Wrong once? The picture names the misconception. **Change** the program until you can say beforehand what it does.
#
# **Now the assignment:** open
# [`04_inplace_and_version`](../../release/en/04_inplace_and_version/04_inplace_and_version.ipynb).
# Seven exercises, about 65 minutes.
