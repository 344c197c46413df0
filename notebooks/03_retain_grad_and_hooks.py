# %% [markdown]
# # 03 · `retain_grad` and hooks
#
# *About 60 minutes, without the optional parts.* Backward computes a gradient for every tensor on its way, and keeps
# some. This chapter is about the others.
#
# After it you can
#
# - say which `.grad` will be filled, and have one more filled;
# - watch a gradient pass, and change it on its way;
# - say what a hook sees when somebody writes in place;
# - ask for just the gradients that you want.
#
# **How to work:** predict, run, look, explain, change. Commit to each prediction before you run its cell.

# %% [markdown]
# The parts called *optional* are for another day: nothing that comes later needs them.
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
seegrad.ask_again("03")

# %% [markdown]
# ## 1 · Who has a gradient?
#
# The network of chapter 01; here `inp` asks for no gradient. The three weights keep theirs.
#
# **Predict:** the eight tensors after `inp` are asked for their `.grad` below. How many warnings come?

# %%
inp = torch.ones(2, 2, device=device)
w1 = torch.tensor(2.0, requires_grad=True, device=device)
w2 = torch.tensor(3.0, requires_grad=True, device=device)
w3 = torch.tensor(4.0, requires_grad=True, device=device)
l1 = inp * w1
l2 = l1 + w2
l3 = l1 * w3
l4 = l2 * l3
loss = l4.mean()
loss.backward()

# %%
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    print(w1.grad, w2.grad, w3.grad)
    print(l1.grad, l2.grad, l3.grad, l4.grad, loss.grad)

print(len(told), told[0].category.__name__)
print("names retain_grad:", ".retain_grad()" in str(told[0].message))

# %% [markdown]
# Five: one for each computed tensor that was asked. A gradient has passed each of them, and once it had been passed on,
# its memory was free for the next one. The warning names `retain_grad`, which is next.
#
# From here on the warning tells nothing new, so we switch it off:

# %%
warnings.filterwarnings("ignore", message="The .grad attribute of a Tensor that is not a leaf")

# %% [markdown]
# ## 2 · `retain_grad`: keep it
#
# `t.retain_grad()` asks backward to leave its gradient in `t.grad`. Here three tensors ask.
#
# **Predict:** which tensors have a `.grad` now? And what is `loss.grad`?

# %%
# %%see --ask keeps
inp = torch.ones(2, 2, device=device)
w1 = torch.tensor(2.0, requires_grad=True, device=device)
w2 = torch.tensor(3.0, requires_grad=True, device=device)
w3 = torch.tensor(4.0, requires_grad=True, device=device)
l1 = inp * w1
l2 = l1 + w2
l3 = l1 * w3
l4 = l2 * l3
loss = l4.mean()
l1.retain_grad()
l4.retain_grad()
loss.retain_grad()
loss.backward()

# %%
print("loss", loss.grad)
print("l4  ", l4.grad)
print("l1  ", l1.grad)

# %% [markdown]
# `loss.grad` is $\partial loss / \partial loss = 1$. A mean of four gives each element a quarter.

# %% [markdown]
# ### Optional: the two parts
#
# `l1` is used twice: by `l2` and by `l3`. Its gradient is the sum over both ways. **Predict** each part before you
# run this.

# %%
through_l2 = 0.25 * l3
through_l3 = 0.25 * l2 * w3

print("through l2", through_l2[0, 0].item())
print("through l3", through_l3[0, 0].item())
print("sum is l1.grad:", torch.equal(through_l2 + through_l3, l1.grad))

# %% [markdown]
# ### Who has asked?
#
# `t.retains_grad` is true for a tensor that will keep its gradient because `retain_grad` was called. **Predict** it for
# `l1`, for `l2`, and for `w1`: a leaf, on which this cell calls it, too.

# %%
w1.retain_grad()

print("l1", l1.retains_grad)
print("l2", l2.retains_grad)
print("w1", w1.retains_grad, "is_leaf", w1.is_leaf)

# %% [markdown]
# On a leaf `retain_grad()` does nothing: no error, no change. Leaves keep their gradient anyway.
#
# And on a tensor that needs no gradient? **Predict** for both of these: does `retain_grad` raise?

# %%
x = torch.tensor([1.0, 2.0], requires_grad=True, device=device)
for name, t in {"ones": torch.ones(2, device=device), "x.detach()": x.detach()}.items():
    try:
        t.retain_grad()
        print(name, t.retains_grad)
    except RuntimeError as error:
        print(name, type(error).__name__, "requires_grad=False" in str(error))

# %% [markdown]
# Both raise: without a gradient there is none to keep. *Misconception* **M02**: “`retain_grad` is for leaves, and works
# after backward”. It is for all the others that need a gradient.

# %% [markdown]
# ### Asked after backward
#
# **Predict** the three lines: `h.grad` after the first backward, after `retain_grad`, and after the second backward.
# (`retain_graph=True` lets backward run a second time: chapter 07.)

# %%
x = torch.tensor([1.0, 2.0], requires_grad=True, device=device)
h = x * 3
loss = (h * h).sum()

loss.backward(retain_graph=True)
print("first ", h.grad)
h.retain_grad()
print("asked ", h.grad)
loss.backward()
print("second", h.grad)

# %% [markdown]
# The first gradient had passed before anyone asked. `retain_grad` is a promise for the *next* backward: it doesn't bring
# back the last one.

# %% [markdown]
# ### Two backward calls
#
# Leaves add up their gradients over backward calls. **Predict** both `.grad`s after the second call.

# %%
x = torch.tensor([1.0, 2.0], requires_grad=True, device=device)
h = x * 3
h.retain_grad()
loss = (h * h).sum()
for _ in range(2):
    loss.backward(retain_graph=True)
    print("h.grad", h.grad, " x.grad", x.grad)

# %% [markdown]
# A kept gradient adds up like a leaf's. (*Misconception* **M09**: “each backward overwrites `.grad`”.) In a training loop
# you don't see it, since each forward makes a new `h`.

# %% [markdown]
# ### A name that moves on
#
# **Predict:** which names have a `.grad` in the end?

# %%
# %%see --ask keeps
x = torch.tensor([-1.0, 2.0], requires_grad=True, device=device)
h = x * 3
h.retain_grad()
h = h.relu()
h.sum().backward()

# %%
print(h.grad, h.retains_grad)

# %% [markdown]
# The name `h` has moved on to the relu's result, which nobody asked to keep anything. The result of `x * 3` was asked.
# But no name holds it any more, and relu doesn't save it: when its gradient passes, that tensor is gone, and nothing
# is kept. Click its card: the picture says so.
#
# **Change** the cell: call `retain_grad` after the relu, or keep a second name, `first = h`.

# %% [markdown]
# ## 3 · A hook: look at it as it passes
#
# To look once, you needn't keep anything. After `t.register_hook(f)`, backward calls `f` with the gradient of `t`.
#
# **Predict:** in which order will the three lines be printed? And what does `loss.grad` say afterwards?

# %%
# %%see
inp = torch.ones(2, 2, device=device)
w1 = torch.tensor(2.0, requires_grad=True, device=device)
w2 = torch.tensor(3.0, requires_grad=True, device=device)
w3 = torch.tensor(4.0, requires_grad=True, device=device)
l1 = inp * w1
l2 = l1 + w2
l3 = l1 * w3
l4 = l2 * l3
loss = l4.mean()
l1.register_hook(lambda grad: print("l1 grad", grad))
l4.register_hook(lambda grad: print("l4 grad", grad))
loss.register_hook(lambda grad: print("loss grad", grad))
loss.backward()

# %%
print(loss.grad)

# %% [markdown]
# The order is backward's, not yours: `loss` first, though it was registered last.
#
# `l1` is used twice, and its hook ran **once**, with 7: the engine waits until both parts have arrived, adds them, and
# then calls.

# %% [markdown]
# ### Optional: “Cleared after the print”?
#
# The document runs these lines, sees `None` at the end, and says: *“the grad of `loss` is cleared once it has been
# printed”*.
#
# Then it must be there while the hook runs. **Predict:** what does `x.grad` say *inside* the hook? And `h.grad`?

# %%
x = torch.tensor([1.0, 2.0], requires_grad=True, device=device)
h = x * 3


def look(grad):
    print("argument", grad)
    print("h.grad  ", h.grad)
    print("x.grad  ", x.grad)


h.register_hook(look)
h.sum().backward()
print("after   ", h.grad, x.grad)

# %% [markdown]
# Nothing is cleared, because nothing was ever stored. The gradient is an *argument*: it exists while it is passed on.
# A hook stores nothing in `.grad`, and a print destroys nothing.
#
# If you want both, ask for both:

# %%
x = torch.tensor([1.0, 2.0], requires_grad=True, device=device)
h = x * 3
h.register_hook(lambda grad: print("hook", grad))
h.retain_grad()
h.sum().backward()

print("kept", h.grad)

# %% [markdown]
# ### Store it yourself
#
# A hook may put the gradient wherever you like: into a dict, or only its norm into a list.

# %%
seen = {}
norms = []

x = torch.tensor([3.0, 4.0], requires_grad=True, device=device)
h = x * 2
h.register_hook(lambda grad: seen.update(h=grad))
h.register_hook(lambda grad: norms.append(grad.norm().item()))
(h * h).sum().backward()

seen, norms

# %% [markdown]
# ### Optional: hooks in a loop
#
# **Predict** the two lines.

# %%
x = torch.tensor([1.0, 2.0], requires_grad=True, device=device)
first = x * 3
second = first + 1
for name, t in {"first": first, "second": second}.items():
    t.register_hook(lambda grad: print(name, grad))
(second * 10).sum().backward()

# %% [markdown]
# `second`, twice. That is Python, not torch: a lambda looks up `name` when it is *called*, and by then the loop is
# over. A default argument holds the value that the name has now.
#
# The same with one word more:

# %%
x = torch.tensor([1.0, 2.0], requires_grad=True, device=device)
first = x * 3
second = first + 1
for name, t in {"first": first, "second": second}.items():
    t.register_hook(lambda grad, name=name: print(name, grad))
(second * 10).sum().backward()

# %% [markdown]
# ### Take it off again
#
# A hook stays with the value that it was registered on. `h` is new in each forward; a weight stays. So a cell that
# hooks a weight and is run twice hooks it twice. **Predict** how many lines the hooks print in each of the three
# backwards.

# %%
w = torch.tensor([1.0, 2.0], requires_grad=True, device=device)
handles = [w.register_hook(lambda grad: print("  hook", grad)) for _ in range(2)]

print("first")
(w * 3).sum().backward()
handles[0].remove()
print("second")
(w * 3).sum().backward()
handles[1].remove()
print("third")
(w * 3).sum().backward()
print("w.grad", w.grad)

# %% [markdown]
# `register_hook` returns a handle, and its `remove()` takes the hook off. Look at the last line too: 9. Each hook saw
# what *its* backward brought, 3; `w.grad` has added up all three.
#
# And a hook on a tensor that needs no gradient:

# %% tags=["raises-exception"]
torch.ones(2, device=device).register_hook(print)

# %% [markdown]
# ## 4 · A hook that returns something
#
# What a hook *returns* takes the gradient's place. `None` means: leave it as it is. So a hook with `print` only looks,
# since `print` returns `None`.
#
# Without the hook, `x.grad` would be $2 \cdot 6 \cdot 3 = 36$. **Predict** what it is with the hook.

# %%
# %%see
x = torch.tensor(2.0, requires_grad=True, device=device)
h = x * 3
h.register_hook(lambda grad: grad * 10)
(h * h).backward()

# %%
x.grad

# %% [markdown]
# 12 arrives at `h`, the hook makes 120 of it, and 120 is what the picture shows there. Whatever lies *before* `h` in
# your code comes after it in backward, and gets the new gradient: $120 \cdot 3$.
#
# **Change** `grad * 10` to `-grad`, then to `grad * 0`. What does `x` get?

# %% [markdown]
# ### How far does it reach?
#
# A hook clips the gradient of `h`: each element is kept within −1 … 1. **Predict:** which of the two weights notice?

# %%
w1 = torch.tensor([2.0, 2.0], requires_grad=True, device=device)
w2 = torch.tensor([5.0, 0.5], requires_grad=True, device=device)
for clipped in (False, True):
    h = w1 * 3
    if clipped:
        h.register_hook(lambda grad: grad.clamp(-1, 1))
    (h * w2).sum().backward()
    print("w1.grad", w1.grad, " w2.grad", w2.grad)
    w1.grad = w2.grad = None

# %% [markdown]
# `w1` lies behind `h` and gets $1 \cdot 3$ instead of $5 \cdot 3$. `w2` has a way of its own: untouched.

# %% [markdown]
# ### Several at once
#
# **Predict** `h.grad` and `x.grad`. The gradient of `h` is 12 when it arrives.

# %%
x = torch.tensor(2.0, requires_grad=True, device=device)
h = x * 3
h.retain_grad()
h.register_hook(lambda grad: grad * 10)
h.register_hook(lambda grad: grad + 1)
(h * h).backward()

print("h.grad", h.grad)
print("x.grad", x.grad)

# %% [markdown]
# Hooks run in the order in which you registered them, each on what the one before returned: $12 \cdot 10 + 1 = 121$.
# `retain_grad` was called first, and keeps what comes out **last**. It shows what really flows on.

# %% [markdown]
# ### Optional: what may a hook return?
#
# **Predict** which of these five hooks raise. None of them returns `None`.

# %%
answers = {
    "grad * 2": lambda grad: grad * 2,
    "5": lambda grad: 5,
    "grad.sum()": lambda grad: grad.sum(),
    "grad[:1]": lambda grad: grad[:1],
    "grad.double()": lambda grad: grad.double(),
}
for name, answer in answers.items():
    x = torch.tensor([1.0, 2.0], requires_grad=True, device=device)
    x.register_hook(answer)
    try:
        (x * 3).sum().backward()
        print(f"{name:13}", x.grad)
    except (RuntimeError, TypeError) as error:
        print(f"{name:13}", type(error).__name__, "·", x.grad)

# %% [markdown]
# All but the first. A hook returns a tensor of the same shape and type, or nothing. Where it raises, nothing is stored in
# `x.grad`.

# %% [markdown]
# ### Ten times smaller
#
# This hook is to make `a`'s gradient ten times smaller. **Predict** the outcome.

# %%
# %%see --ask outcome --as rec
def shrink(grad):
    grad.mul_(0.1)


a = torch.tensor([1.0, 2.0], requires_grad=True, device=device)
b = torch.tensor([3.0, 4.0], requires_grad=True, device=device)
a.register_hook(shrink)
out = (a + b) * 2
out.sum().backward()

# %%
print("a.grad", a.grad)
print("b.grad", b.grad)

# %% [markdown]
# Nobody hooked `b`, and its gradient is a tenth of what it should be. A sum passes *the same tensor* to both sides;
# the write reached it before `b` did.
#
# No error came: *misconception* **M06**, “no error means that the gradient is right”. And the in-place operation isn't
# in the model, but in a hook: **M12**, “my code has no in-place operation”.
#
# What the recording says:

# %%
Markdown(rec.diagnoses[0].message())

# %% [markdown]
# Torch's rule for hooks: never write to the argument; return a new tensor.
#
# A hook that keeps to it:

# %%
a = torch.tensor([1.0, 2.0], requires_grad=True, device=device)
b = torch.tensor([3.0, 4.0], requires_grad=True, device=device)
a.register_hook(lambda grad: grad * 0.1)
out = (a + b) * 2
out.sum().backward()

print("a.grad", a.grad)
print("b.grad", b.grad)

# %% [markdown]
# ## 5 · When somebody writes in place
#
# Two hooks on one tensor. Between them `h.mul_(10)` writes into it, and `h` gets a new Node.
#
# **Predict** what each hook sees, and what `h.grad` will be. The gradient of the value after the write is 3.

# %%
# %%see
x = torch.tensor([1.0, 2.0], requires_grad=True, device=device)
h = x * 2
h.retain_grad()
h.register_hook(lambda grad: print("before", grad))
h.mul_(10)
h.register_hook(lambda grad: print("after ", grad))
(h * 3).sum().backward()
print("h.grad", h.grad)

# %% [markdown]
# - A **hook** stays with the *value* that it was registered on. The first one sees the gradient of `x * 2`: it has
#   passed through the write, so it is 30.
# - **`retain_grad`** goes with the *tensor*. It was called before the write, and keeps the gradient of what `h` is at
#   the end: 3.
#
# In the picture the struck-through card is the old value: the first hook hangs there. The second hook and `.grad` are on
# the new card.

# %% [markdown]
# Which spelling writes in place? **Predict** for each of the three what the hook sees, and what `h.grad` says.


# %%
def mul_(h):
    return h.mul_(10)


def augmented(h):
    h *= 10
    return h


def new_name(h):
    h = h * 10
    return h


for write in (mul_, augmented, new_name):
    x = torch.tensor([1.0, 2.0], requires_grad=True, device=device)
    h, seen = x * 2, []
    h.retain_grad()
    h.register_hook(seen.append)
    h = write(h)
    (h * 3).sum().backward()
    print(f"{write.__name__:9}  hook {seen[0]}  h.grad {h.grad}")

# %% [markdown]
# `h *= 10` is `h.mul_(10)`: the same tensor, so the promise goes along. `h = h * 10` makes a new tensor, to which
# nobody promised anything: `None`.
#
# *Misconception* **M11**: “`x += y` is short for `x = x + y`”.

# %% [markdown]
# ### Where you meet it: `relu_`
#
# “Show me the gradient at the hidden layer.” Before the relu, or after it? **Predict** both lines.

# %%
x = torch.tensor([-1.0, 2.0], requires_grad=True, device=device)
h, seen = x * 2, []
h.retain_grad()
h.register_hook(seen.append)
torch.nn.functional.relu(h, inplace=True)
(h * 3).sum().backward()

print("hook  ", seen[0])
print("h.grad", h.grad)

# %% [markdown]
# The hook sees what comes out of the relu's backward: 0 where the input was negative. `h.grad` is the gradient of
# relu's *result*. One tensor, two gradients, and both are right: it has had two values.

# %% [markdown]
# ## 6 · Optional: after the leaf has added up
#
# A leaf has two kinds of hooks. `register_hook` is called with the gradient that arrives;
# `register_post_accumulate_grad_hook` is called with the leaf itself, *after* its `.grad` was written.
#
# **Predict** the four lines of two backward calls.

# %%
# %%see
p = torch.tensor([1.0, 2.0], requires_grad=True, device=device)
p.register_hook(lambda grad: print("arrives ", grad))
p.register_post_accumulate_grad_hook(lambda leaf: print("added up", leaf.grad))
(p * p).sum().backward()
(p * p).sum().backward()

# %% [markdown]
# The first kind sees what one backward brings, the second the sum so far. Only a leaf has an `AccumulateGrad` for it to
# follow.
#
# So on a leaf and on a result:

# %%
for name, t in {"leaf": p, "p * 2": p * 2}.items():
    try:
        t.register_post_accumulate_grad_hook(lambda leaf: None)
        print(name, "·", t.is_leaf)
    except RuntimeError as error:
        print(name, "·", t.is_leaf, type(error).__name__, "non-leaf" in str(error))

# %% [markdown]
# ### A step inside backward
#
# With this hook each weight takes its step as soon as its gradient is complete. **Predict** `w1` and `w2` after
# backward.

# %%
def step(leaf):
    with torch.no_grad():
        leaf.sub_(0.1 * leaf.grad)
    leaf.grad = None


w1 = torch.tensor([1.0, 2.0], requires_grad=True, device=device)
w2 = torch.tensor([3.0, 4.0], requires_grad=True, device=device)
for w in (w1, w2):
    w.register_post_accumulate_grad_hook(step)
(w1 * w2).sum().backward()

print("w1", w1.detach(), w1.grad)
print("w2", w2.detach(), w2.grad)

# %% [markdown]
# `.grad` is empty again: its memory was given back at once. Both steps used the *old* values: `w1` moved by
# $0.1 \cdot 3$ and $0.1 \cdot 4$.

# %% [markdown]
# ### Optional: ten weights in a row
#
# Whenever one of them has its gradient, the hook counts how many have a `.grad`. **Predict** the largest count.

# %%
def count_and_step(leaf):
    counts.append(sum(w.grad is not None for w in weights))
    step(leaf)


weights, counts = [torch.ones(2, requires_grad=True, device=device) for _ in range(10)], []
h = torch.ones(2, device=device)
for w in weights:
    w.register_post_accumulate_grad_hook(count_and_step)
    h = (h * w).sin()
h.sum().backward()

print(max(counts), "of", len(weights))

# %% [markdown]
# One. The gradients are never in memory all together. With millions of weights, that is what this hook is for.
#
# **Change** it: take the line `step(leaf)` out. What is the largest count now?

# %% [markdown]
# ## 7 · Ask only for what you want
#
# `backward` takes a list of tensors: `inputs`.
#
# **Predict:** which tensors have a `.grad`? Nobody calls `retain_grad`.

# %%
# %%see --ask keeps
inp = torch.ones(2, 2, device=device)
w1 = torch.tensor(2.0, requires_grad=True, device=device)
w2 = torch.tensor(3.0, requires_grad=True, device=device)
w3 = torch.tensor(4.0, requires_grad=True, device=device)
l1 = inp * w1
l2 = l1 + w2
l3 = l1 * w3
l4 = l2 * l3
loss = l4.mean()
loss.backward(inputs=[l1, w3])

# %%
print("l1", l1.grad, l1.retains_grad)
print("w1", w1.grad, " w2", w2.grad, " w3", w3.grad)

# %% [markdown]
# The tensors that you named have theirs, and no others. `l1` isn't a leaf: backward made the promise for you,
# `retains_grad` is true. `w1` and `w2` are leaves that need a gradient, and have none.
#
# *Misconception* **M01**: “`requires_grad=True` fills `.grad`”.

# %% [markdown]
# ### `autograd.grad`
#
# It *returns* the gradients, as a tuple, in the order in which you ask. **Predict:** what is in `.grad`
# afterwards?

# %%
x = torch.tensor([1.0, 2.0], requires_grad=True, device=device)
h = x * 3
loss = (h * h).sum()
of_h, of_x = torch.autograd.grad(loss, [h, x])

print("returned", of_h, of_x)
print("stored  ", h.grad, x.grad)

# %% [markdown]
# In `.grad` nothing was stored, so nothing adds up and nothing needs to be zeroed.

# %% [markdown]
# ### Optional: a hook on the way
#
# Below, `h` has a hook, and is asked to keep its gradient. **Predict** what is printed, returned and stored.

# %%
x = torch.tensor([1.0, 2.0], requires_grad=True, device=device)
h = x * 3
h.retain_grad()
h.register_hook(lambda grad: print("hook    ", grad))
loss = (h * h).sum()
(of_x,) = torch.autograd.grad(loss, [x])

print("returned", of_x)
print("stored  ", h.grad, x.grad)

# %% [markdown]
# The gradient of `h` passes on its way to `x`: the hook is called, and as `retain_grad` has asked for it, `h.grad` is
# stored all the same. `x.grad` isn't.

# %% [markdown]
# ### Optional: “Only leaves keep their gradient”
#
# So say the documents. Run the four ways side by side:

# %%
ways = {
    "backward()": lambda loss, h: loss.backward(),
    "retain_grad()": lambda loss, h: (h.retain_grad(), loss.backward()),
    "inputs=[h]": lambda loss, h: loss.backward(inputs=[h]),
    "autograd.grad": lambda loss, h: torch.autograd.grad(loss, [h]),
}
for name, way in ways.items():
    x = torch.tensor(2.0, requires_grad=True, device=device)
    h = x * 3
    way(h * h, h)
    print(f"{name:13}  x.grad {x.grad!s}  h.grad {h.grad!s}")

# %% [markdown]
# And the other way round? `unused` is a leaf that never took part. **Predict** both answers. (`allow_unused=True` lets you
# ask for such a gradient at all.)

# %%
x = torch.tensor(2.0, requires_grad=True, device=device)
unused = torch.tensor(5.0, requires_grad=True, device=device)
loss = x * 3
print(torch.autograd.grad(loss, [unused], retain_graph=True, allow_unused=True))
loss.backward()
print(unused.grad)

# %% [markdown]
# A leaf may stay empty: `requires_grad` only *allows* a gradient. One has to arrive, too.

# %% [markdown]
# ## 8 · Which one?
#
# | you want | write |
# |---|---|
# | the gradient of a tensor in between, to use later | `t.retain_grad()`, before backward |
# | to look, log, or store it your own way | `t.register_hook(f)`, where `f` returns `None` |
# | to change it on its way | `t.register_hook(f)`, where `f` returns a new tensor |
# | to act when a leaf's `.grad` is complete | `leaf.register_post_accumulate_grad_hook(f)` |
# | `.grad` of a few tensors only | `loss.backward(inputs=[…])` |
# | the numbers, and no `.grad` but where `retain_grad` asked | `torch.autograd.grad(loss, […])` |

# %% [markdown]
# ## 9 · Optional: check yourself
#
# Three programs. **Predict** what the first two print, and the outcome of the third; then read on.

# %%
x = torch.tensor([1.0, 2.0], requires_grad=True, device=device)
h = x * 2
h.register_hook(lambda grad: grad * 0)
h += 1
h.retain_grad()
h.sum().backward()

print(h.grad, x.grad)

# %%
w = torch.tensor([1.0, 2.0], requires_grad=True, device=device) * 0.1
w.register_hook(lambda grad: print("hook", grad))
(w * 3).sum().backward()

print(w.grad)

# %%
# %%see --ask outcome
a = torch.tensor([1.0, 2.0], requires_grad=True, device=device)
b = torch.tensor([3.0, 4.0], requires_grad=True, device=device)
a.register_hook(lambda grad: grad.clamp_(max=1.0))
loss = ((a + b) * 5).sum()
loss.backward()

# %% [markdown]
# - `h.grad` is 1, `x.grad` is 0: the hook belongs to the value before `+= 1`, the promise to the value after it.
# - The hook sees 3, and `w.grad` is `None`: `* 0.1` made a tensor that is no leaf.
# - Silent: `clamp_` writes before it returns, and `b` gets the clipped gradient too.
#
# Wrong once? **Change** the program until you can say beforehand what it does.
#
# **Now the assignment:** open
# [`03_retain_grad_and_hooks`](../../release/en/03_retain_grad_and_hooks/03_retain_grad_and_hooks.ipynb).
# Seven exercises, about 60 minutes.
