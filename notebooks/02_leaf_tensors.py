# %% [markdown]
# # 02 · Leaf tensors
#
# *About 60 minutes, without the optional parts.* You set `requires_grad=True`, you call `backward()`, and `.grad` is
# `None`. This chapter shows where it went.
#
# After it you can
#
# - tell a leaf by one question, on the CPU and on a GPU;
# - predict which tensors have a `.grad` after backward, and which number stands in it;
# - find the line that turned your parameter into something else, and repair it.
#
# **How to work:** predict, run, look, explain, change. Commit to each prediction before you run its cell.

# %% [markdown]
# The parts called *optional* are for another day: nothing that comes later needs them.
#
# Every cell uses `device`, which the kernel sets (chapter 00).

# %%
import copy
import warnings
import weakref

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
seegrad.ask_again("02")

# %% [markdown]
# ## 1 · One question
#
# `x` is data. `w` and `b` are to be learnt. The rest is computed from them.
#
# **Predict:** which of the five tensors are leaves? Click them, then look.

# %%
# %%see --ask leaves
x = torch.tensor([1.0, 2.0], device=device)
w = torch.tensor([3.0, -1.0], requires_grad=True, device=device)
b = torch.tensor(0.5, requires_grad=True, device=device)
h = w * x
out = h.sum() + b

# %% [markdown]
# Three leaves. `h` and `out` aren't: autograd noted for each the Function that will take its gradient back. That note
# is `grad_fn`.

# %%
for name, t in {"x": x, "w": w, "b": b, "h": h, "out": out}.items():
    made_by = t.grad_fn and t.grad_fn.name()
    print(f"{name:4} is_leaf={t.is_leaf!s:6} requires_grad={t.requires_grad!s:6} grad_fn={made_by}")

# %% [markdown]
# ### “Created by the user”
#
# *“A tensor that the user creates is a leaf; one that an operation makes is not”*, say three documents. Two of them
# give this example:

# %%
a = torch.ones([2, 2], requires_grad=True, device=device)
print(a.is_leaf)

b = a + 2
print(b.is_leaf)

# %% [markdown]
# True of this pair. Here are eight more. **Predict** which of them are leaves: write your list down.

# %%
w = torch.tensor([1.0, 2.0], requires_grad=True, device=device)
with torch.no_grad():
    quiet = w * 2

tensors = {
    "ones(2, requires_grad=True) * 0.1": torch.ones(2, requires_grad=True, device=device) * 0.1,
    "ones(2) * 0.1": torch.ones(2, device=device) * 0.1,
    "w > 1": w > 1,
    "w.argmax()": w.argmax(),
    "w * 2, under no_grad": quiet,
    "w.detach()": w.detach(),
    "Parameter(w * 2)": torch.nn.Parameter(w * 2),
    "w.view(2, 1)": w.view(2, 1),
}
for code, t in tensors.items():
    print(f"{code:34} is_leaf={t.is_leaf!s:6} grad_fn={t.grad_fn and t.grad_fn.name()}")

# %% [markdown]
# The first one *you* wrote, in one line, with `requires_grad=True`: no leaf. The next six came out of operations: all
# leaves. And the last has no numbers of its own, but `view` is an operation that autograd records: no leaf.
#
# So forget who created it. The rule without exceptions:
#
# **A leaf is a tensor whose `grad_fn` is `None`.**

# %%
all(t.is_leaf == (t.grad_fn is None) for t in tensors.values())

# %% [markdown]
# ### Once a leaf, always a leaf?
#
# `buffer` is a leaf: plain zeros. **Predict** after something that needs a gradient is written into it: is it a leaf
# still, and does it need a gradient?

# %%
buffer = torch.zeros(2, device=device)
print(buffer.is_leaf, buffer.requires_grad)

buffer[0] = w.sum()
print(buffer.is_leaf, buffer.requires_grad, buffer.grad_fn.name())

# %% [markdown]
# The write gave it a `grad_fn`. It is the same object, and no leaf any more.
#
# A leaf that *needs a gradient* would stop being one in the same way. Torch doesn't let that happen: it refuses the write
# on the spot. Chapter 04 is about such writes.
#
# This is one:

# %% tags=["raises-exception"]
w = torch.tensor([1.0, 2.0], requires_grad=True, device=device)
w[0] = 5.0

# %% [markdown]
# ### Leaves that want no gradient
#
# A tensor with `requires_grad=False` counts as a leaf *by convention*. Two documents add that it makes no difference
# whether you call it one.
#
# **Predict:** does one of these lines raise, and which?

# %% tags=["raises-exception"]
a = torch.ones([2, 2], requires_grad=False, device=device)
print(a.is_leaf)

a.requires_grad_()
b = a + 2
b.requires_grad_(False)

# %% [markdown]
# The last one. So it does make a difference: `a` could be switched on, because it is a leaf. For a result, such as `b`,
# `requires_grad` follows from its inputs. (The switch is for numbers with a fraction: `w > 1` and `w.argmax()` above
# are leaves, but no slope leads to a truth value or an index.)

# %% [markdown]
# ### Optional: a copy with its history
#
# Nor can you copy a result together with its history:

# %%
for name, t in {"a": a, "b": b}.items():
    try:
        print(name, copy.deepcopy(t).requires_grad)
    except RuntimeError as error:
        print(name, str(error).partition(" (")[0])

# %% [markdown]
# ### Optional: “Leaves have no children”
#
# So says one document. In which direction? Start at `out` and walk the way that backward goes.

# %%
w = torch.tensor([3.0, -1.0], requires_grad=True, device=device)
x = torch.tensor([1.0, 2.0], device=device)
out = (w * x).sum() + w.sum()

waiting = [out.grad_fn]
while waiting:
    node = waiting.pop()
    following = [edge for edge, _ in node.next_functions]
    print(f"{node.name():28} → {[edge and edge.name() for edge in following]}")
    waiting += [edge for edge in following if edge]

# %% [markdown]
# Backward *ends* at the leaf: behind `AccumulateGrad` comes nothing. In forward the leaf has two children here, and
# may have a thousand. What it lacks is *inputs*.
#
# `AccumulateGrad` is the Node that adds to `.grad`. It belongs to a leaf that requires a gradient, and to no other
# tensor. `x` didn't ask, so a `None` stands in its place.

# %%
accumulate = (w * x).grad_fn.next_functions[0][0]
print(accumulate.name())
print(accumulate.variable is w)

# %% [markdown]
# ## 2 · Who keeps a gradient?
#
# **Predict:** which of these tensors have a `.grad` after backward? Click them.

# %%
# %%see --ask keeps
x = torch.tensor([1.0, 2.0], device=device)
w = torch.tensor([3.0, -1.0], requires_grad=True, device=device)
b = torch.tensor(0.5, requires_grad=True, device=device)
spare = torch.tensor(7.0, requires_grad=True, device=device)
h = w * x
loss = (h.sum() + b) ** 2
loss.backward()

# %%
with warnings.catch_warnings(action="ignore"):
    for name, t in {"x": x, "w": w, "b": b, "spare": spare, "h": h, "loss": loss}.items():
        print(f"{name:6} is_leaf={t.is_leaf!s:6} requires_grad={t.requires_grad!s:6} grad={t.grad}")

# %% [markdown]
# - `w` and `b` have theirs.
# - The gradient of `h` was computed: without it there would be none for `w`. Nobody kept it. (Chapter 03 shows how to
#   ask.)
# - `x` is a leaf that didn't ask.
# - `spare` is a leaf that asked, but nothing leads from the loss to it.
#
# | leaf | requires grad | reached from the loss | `.grad` after backward |
# |---|---|---|---|
# | yes | yes | yes | filled |
# | yes | yes | no | stays as it was |
# | yes | no | – | stays `None` |
# | no | yes | yes | passes through, isn't kept |

# %% [markdown]
# ### `None` isn't zero
#
# **Predict:** `None` or `0.` for each of the three?

# %%
used, cut, spare = (torch.tensor(2.0, requires_grad=True, device=device) for _ in range(3))
loss = used * 0 + cut.detach() * 3
loss.backward()

print(used.grad, cut.grad, spare.grad)

# %% [markdown]
# `used` gets `0.`: the graph leads from the loss to it, with the slope 0. The other two get `None`: the graph doesn't lead
# to them. When a `.grad` is `None`, look for the place where the graph is cut, not for a formula.

# %% [markdown]
# ## 3 · Optional: why have leaves at all?
#
# *To save memory*, says one document: you rarely want the gradient of an intermediate, so it is thrown away as soon as
# it has been used. Don't believe it, count.
#
# Twenty operations in a row. A hook sees each gradient as it arrives and counts those that are still alive.
# **Predict** the largest count.


# %%
def most_alive(held):
    seen, counts = [], []

    def count(gradient):
        seen.append(weakref.ref(gradient))
        counts.append(sum(known() is not None for known in seen))
        if held is not None:
            held.append(gradient)

    h = torch.ones(1000, requires_grad=True, device=device)
    for _ in range(20):
        h = h.sin()
        h.register_hook(count)
    h.sum().backward()
    return max(counts)


print(most_alive(held=None))

# %% [markdown]
# Twenty gradients were computed, and never was more than one of them alive.
#
# Does the counter count at all? Here a list holds on to each gradient:

# %%
print(most_alive(held=[]))


# %% [markdown]
# Now in bytes. The chain below begins at one leaf of 4 MB. **Predict** how many MB of gradients are there after
# backward: first as usual, then with `retain_grad` on each result.


# %%
def kept_bytes(retain):
    leaf = torch.ones(1_000_000, requires_grad=True, device=device)
    results = []
    h = leaf
    for _ in range(20):
        h = h.sin()
        results.append(h)
        if retain:
            h.retain_grad()
    h.sum().backward()
    with warnings.catch_warnings(action="ignore"):
        return sum(t.grad.nbytes for t in [leaf, *results] if t.grad is not None)


print(f"leaves only: {kept_bytes(retain=False) / 1e6:.0f} MB")
print(f"everything:  {kept_bytes(retain=True) / 1e6:.0f} MB")

# %% [markdown]
# A parameter's gradient is what the optimiser needs. The twenty others are only the way to it. The line between
# “keep” and “let go” has to run somewhere: it runs at the leaf.
#
# **Change** 20 into 100. Which of the two numbers grows?

# %% [markdown]
# ## 4 · Scaled and converted
#
# You want small weights, in double precision. **Predict:** which of these are leaves?

# %%
# %%see --ask leaves
start = torch.tensor([1.0, 2.0, 3.0], requires_grad=True, device=device)
scaled = start * 0.1
w = scaled.double()
loss = (w * w).sum()
loss.backward()

# %% [markdown]
# One: `start`. Scaling is an operation, and so is converting: `w` is the third tensor in a row, and its gradient is passed
# on to `start`.
#
# The same in one line, where the first tensor has no name:

# %%
w = torch.tensor([1.0, 2.0, 3.0], requires_grad=True, device=device).double()
(w * w).sum().backward()

with warnings.catch_warnings(action="ignore"):
    print("requires_grad:", w.requires_grad, "  is_leaf:", w.is_leaf, "  grad:", w.grad)

leaf = w.grad_fn.next_functions[0][0].variable
print("the leaf behind it:", leaf.dtype, leaf.grad)

# %% [markdown]
# The gradient exists. It is in a tensor that only the graph can reach.
#
# *Misconception* **M01**: “`requires_grad=True` fills `.grad`”. It fills the `.grad` of the *leaf*.
#
# What a recording says of such a line:

# %%
with warnings.catch_warnings(action="ignore"), seegrad.record() as rec:
    w = torch.tensor([1.0, 2.0, 3.0], requires_grad=True, device=device) * 0.1
    (w * w).sum().backward()
    print(w.grad)

Markdown(rec.diagnoses[0].message())

# %% [markdown]
# ### Which calls make a new tensor?
#
# **Predict** for each: is it a leaf, and is it the very same object as `w`? `"meta"` is a device that every machine
# has: shapes without numbers.

# %%
w = torch.tensor([1.0, 2.0, 3.0], requires_grad=True, device=device)
calls = {
    "w * 1": w * 1,
    "w.clone()": w.clone(),
    "w.double()": w.double(),
    "w.float()": w.float(),
    "w.to(w.device)": w.to(w.device),
    'w.to("meta")': w.to("meta"),
    "w.contiguous()": w.contiguous(),
}
for code, t in calls.items():
    print(f"{code:16} is_leaf={t.is_leaf!s:6} same object={t is w}")

# %% [markdown]
# `.to(…)` and `.float()` return `w` itself **if there is nothing to do**. To another device or type, they make a
# new tensor with a `grad_fn`.
#
# So `torch.ones(3, requires_grad=True).to(device)` is a leaf on a laptop, where `device` is the CPU. On a machine with
# a GPU the same line makes a non-leaf, and `.grad` stays empty. `.cuda()` is the same call under another name.

# %%
for target in (w.device, torch.device("meta")):
    t = torch.ones(3, requires_grad=True, device=w.device).to(target)
    print(f"{'here' if target == w.device else 'elsewhere':10} is_leaf={t.is_leaf}")


# %% [markdown]
# ### Born right
#
# Do everything else first; ask for the gradient last, or say all of it at birth. **Change** one of them so that it
# isn't a leaf, and run it.


# %%
def at_birth():
    return torch.full((3,), 0.1, dtype=torch.float64, device=device, requires_grad=True)


def asked_last():
    return (torch.ones(3, device=device) * 0.1).double().requires_grad_()


def cut_off():
    w = torch.ones(3, requires_grad=True, device=device).double() * 0.1
    return w.detach().requires_grad_()


for make in (at_birth, asked_last, cut_off):
    w = make()
    (w * w).sum().backward()
    print(f"{make.__name__:11} is_leaf={w.is_leaf} grad={w.grad}")

# %% [markdown]
# <details><summary>Changed and run? Then open this.</summary>
#
# For instance `torch.ones(3, device=device, requires_grad=True)` in `asked_last`: two operations follow, so `w` is a
# result. `requires_grad_()` at the end changes nothing any more, and `w.grad` stays `None`.
#
# </details>

# %% [markdown]
# ### An optimiser and a name
#
# An optimiser refuses a non-leaf:

# %% tags=["raises-exception"]
w = torch.ones(3, requires_grad=True, device=device) * 0.1
torch.optim.SGD([w], lr=0.1)

# %% [markdown]
# Below, it gets a leaf, and then the name `w` is given to another tensor. **Predict** the loss in these three steps: does
# it fall?

# %%
w = torch.zeros(2, requires_grad=True, device=device)
optimizer = torch.optim.SGD([w], lr=0.1)
leaf, w = w, w.double()
x = torch.tensor([1.0, 2.0], dtype=torch.float64, device=device)

for _ in range(3):
    optimizer.zero_grad()
    loss = ((w * x).sum() - 1) ** 2
    loss.backward()
    optimizer.step()
    print(f"loss={loss.item()} leaf={[round(value, 1) for value in leaf.tolist()]} w={w.tolist()}")

# %% [markdown]
# Nothing raised, no warning, and the loss stands still. The step moves `leaf`, further and further; the loss is
# computed from `w`, which was converted once, at the start.
#
# *Misconception* **M06**: “no error means that the gradient is right”. Convert first, then make the optimiser.

# %% [markdown]
# ### An update by hand
#
# **Predict:** how many of the three steps work?

# %%
w = torch.tensor(3.0, requires_grad=True, device=device)
for step in range(3):
    try:
        (w * w).backward()
        with warnings.catch_warnings(action="ignore"):
            w = w - 0.1 * w.grad
        print(f"step {step}: w={w.item():.2f} is_leaf={w.is_leaf}")
    except TypeError as error:
        print(f"step {step}: {type(error).__name__}")
        break

# %% [markdown]
# One. `w = w - …` binds the name to a *result*. In the next step its `.grad` is `None`, and `0.1 * None` is a
# `TypeError`.
#
# Now the same update under `no_grad`. **Predict** what this cell shows.

# %% tags=["raises-exception"]
w = torch.tensor(3.0, requires_grad=True, device=device)
(w * w).backward()
with torch.no_grad():
    w = w - 0.1 * w.grad
print("is_leaf:", w.is_leaf, "  requires_grad:", w.requires_grad)
(w * w).backward()

# %% [markdown]
# The new `w` is a leaf again, but one that needs no gradient: the second backward raises.
#
# *Misconception* **M07**: “under `no_grad` a write is safe, and `w = …` updates `w`”. To update is to write *into* the
# leaf.
#
# Below, the update writes into the leaf:

# %%
w = torch.tensor(3.0, requires_grad=True, device=device)
for step in range(3):
    (w * w).backward()
    with torch.no_grad():
        w -= 0.1 * w.grad
    w.grad = None
    print(f"step {step}: w={w.item():.3f} is_leaf={w.is_leaf}")

# %% [markdown]
# ## 5 · Parameters
#
# `torch.nn.Parameter` is a tensor that a module lists and that requires a gradient from birth. It is always made as a
# leaf, even from a result: what came before is cut off.

# %%
raw = torch.ones(2, requires_grad=True, device=device)
p = torch.nn.Parameter(raw * 0.1)
(p * p).sum().backward()

print("p:  ", p.is_leaf, p.grad)
print("raw:", raw.is_leaf, raw.grad)

# %% [markdown]
# A *module* may be moved at any time. **Predict** what is printed.

# %%
layer = torch.nn.Linear(2, 1, device=device)
before = layer.weight
layer.double()

print(layer.weight.dtype, "is_leaf:", layer.weight.is_leaf, "  same object:", layer.weight is before)

# %% [markdown]
# The module doesn't rebind its parameters, it swaps what is in them.
#
# | moved | by | still a leaf |
# |---|---|---|
# | a tensor | `w = w.to(…)` | only if nothing had to be done |
# | a module | `layer.to(…)` | yes |

# %% [markdown]
# ### Optional: “All Parameters are leaves and require a gradient”
#
# So says one document. **Predict** the four answers.

# %%
frozen = torch.nn.Linear(2, 1, device=device).requires_grad_(False)
print("frozen:     ", frozen.weight.is_leaf, frozen.weight.requires_grad)

normed = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(2, 1, device=device))
print("weight_norm:", normed.weight.is_leaf, normed.weight.requires_grad, type(normed.weight).__name__)
print([name for name, _ in normed.named_parameters()])

# %% [markdown]
# A Parameter can be frozen. And under `weight_norm` the thing called `weight` is no Parameter any more: it is computed
# anew each time from two others, and those are the leaves.

# %% [markdown]
# ### Optional: frozen, or cut?
#
# `body` is frozen, `x` asks for a gradient. **Predict:** who has one in the end?

# %%
body = torch.nn.Linear(2, 2, bias=False, device=device).requires_grad_(False)
head = torch.nn.Linear(2, 1, bias=False, device=device)
x = torch.tensor([[1.0, 2.0]], requires_grad=True, device=device)
with torch.no_grad():
    body.weight.copy_(torch.eye(2, device=device))
    head.weight.fill_(0.5)

# %%
# %%see --ask keeps
loss = head(body(x)).sum()
loss.backward()

# %%
for name, t in {"body.weight": body.weight, "head.weight": head.weight, "x": x}.items():
    print(f"{name:12} requires_grad={t.requires_grad!s:6} has grad: {t.grad is not None}")

# %% [markdown]
# The gradient goes *through* a frozen layer and reaches `x`. Frozen means: this leaf gets none. Cut, by `.detach()` or
# `no_grad`, means: nothing that came before the cut gets any.

# %% [markdown]
# ## 6 · Several calls of backward
#
# The slope of $p^2$ at $p = 2$ is 4. **Predict** `p.grad` after each of the three backward calls.

# %%
p = torch.tensor(2.0, requires_grad=True, device=device)
for _ in range(3):
    (p * p).backward()
    print(p.grad)

# %% [markdown]
# The Node is called *Accumulate*Grad. It adds; it never overwrites.
#
# *Misconception* **M09**: “each backward overwrites `.grad`”.
#
# If you re-run a cell that calls backward but doesn't make its leaf anew, the numbers grow in the same way. Each cell
# here makes its own leaf.

# %% [markdown]
# ### Optional: used more than once
#
# Here `p` is used more than once. **Predict** how many edges of the graph bring a gradient back to `p`, and the sum of
# what they bring.

# %%
# %%see
p = torch.tensor(2.0, requires_grad=True, device=device)
loss = p * 3 + p * p
loss.backward()

# %%
p.grad

# %% [markdown]
# Three: 3 from `p * 3`, and $p = 2$ twice from `p * p`. $3 + 2 + 2 = 7$: adding up is the chain rule for a tensor with
# several children. Within one backward the engine adds the three, and brings their sum to `AccumulateGrad` once. Over
# several calls `AccumulateGrad` adds.

# %% [markdown]
# ### Optional: two kinds of empty
#
# `zero_grad` empties `.grad`, in one of two ways. **Predict** what each of them leaves behind.

# %%
p = torch.tensor(2.0, requires_grad=True, device=device)
optimizer = torch.optim.SGD([p], lr=0.1)

(p * p).backward()
optimizer.zero_grad()
print(p.grad)

(p * p).backward()
optimizer.zero_grad(set_to_none=False)
print(p.grad)

# %% [markdown]
# | torch before 2.0 | from 2.0 on |
# |---|---|
# | `zero_grad()` fills with 0 | `zero_grad()` sets `None` |
# | `zero_grad(set_to_none=True)` sets `None` | `zero_grad(set_to_none=False)` fills with 0 |
#
# Old answers that print `tensor(0.)` aren't wrong, they are old.

# %% [markdown]
# ### Optional: `None`, zero and momentum
#
# An optimiser with momentum goes on moving a weight for a while. Here nothing uses `p` in the second step. **Predict** for
# which of the two `p` still moves.

# %%
for set_to_none in (True, False):
    p = torch.tensor(2.0, requires_grad=True, device=device)
    optimizer = torch.optim.SGD([p], lr=0.1, momentum=0.9)
    (p * p).backward()
    optimizer.step()
    before = p.item()
    optimizer.zero_grad(set_to_none=set_to_none)
    optimizer.step()
    print(f"set_to_none={set_to_none!s:6} moved: {p.item() != before}")

# %% [markdown]
# `None` says “this leaf took no part”, and the optimiser skips it. Zero says “took part, slope 0”.

# %% [markdown]
# ### Where `zero_grad` belongs
#
# Four loops, with `zero_grad` in different places. **Predict** each `w`.

# %%
orders = {
    "zero, backward, step": ("zero_grad", "backward", "step"),
    "backward, step, zero": ("backward", "step", "zero_grad"),
    "backward, zero, step": ("backward", "zero_grad", "step"),
    "backward, step": ("backward", "step"),
}
for order, calls in orders.items():
    w = torch.tensor(1.0, requires_grad=True, device=device)
    optimizer = torch.optim.SGD([w], lr=0.1)
    for _ in range(2):
        loss = w * w
        actions = {"zero_grad": optimizer.zero_grad, "backward": loss.backward, "step": optimizer.step}
        for call in calls:
            actions[call]()
    print(f"{order:22} w={w.item():.2f}")

# %% [markdown]
# `zero_grad` may stand anywhere, except between `backward` and `step`: the third never moves. The last steps with the
# sum of both gradients: no error, no warning, a wrong step.

# %% [markdown]
# ### On purpose
#
# A batch that doesn't fit into memory is taken in parts. Adding up is then what you want. **Predict:** are the two
# gradients the same?

# %%
x = torch.tensor([1.0, 2.0, 3.0, 4.0], device=device)
whole = torch.tensor(0.5, requires_grad=True, device=device)
((whole * x - 1) ** 2).mean().backward()

parts = torch.tensor(0.5, requires_grad=True, device=device)
for some in (x[:1], x[1:]):
    loss = ((parts * some - 1) ** 2).sum() / len(x)
    loss.backward()

print(whole.grad, parts.grad)

# %% [markdown]
# The same, since each part is divided by the size of the **whole** batch. **Change** it into the `.mean()` of each
# part: the parts aren't equally long, and the gradient is another one. Nothing tells you.

# %% [markdown]
# ## 7 · Four switches
#
# `train()`, `eval()`, `torch.no_grad()`, `requires_grad_(False)` (called *frozen* below). **Predict:** with which of
# them does `weight.grad` stay empty?

# %%
def switched(name, model, x):
    if name == "no_grad":
        with torch.no_grad():
            return model(x)
    if name == "eval":
        model.eval()
    if name == "frozen":
        model.requires_grad_(False)
    return model(x)


for name in ("train", "eval", "no_grad", "frozen"):
    model = torch.nn.Linear(2, 1, device=device)
    out = switched(name, model, torch.ones(1, 2, device=device)).sum()
    if out.requires_grad:
        out.backward()
    has = model.weight.grad is not None
    print(f"{name:8} out: requires_grad={out.requires_grad!s:6} is_leaf={out.is_leaf!s:6}", end="")
    print(f" weight has grad: {has}")

# %% [markdown]
# Two: `no_grad` and `frozen`. `eval()` changes how some *layers* compute. It says nothing to autograd.
#
# *Misconception* **M08**: “`eval()` turns gradients off”.
#
# And look at `is_leaf`: under `no_grad`, or with nothing that asks, the result has no `grad_fn`. By the rule of
# section 1 it is a leaf.

# %% [markdown]
# What does `eval()` do, then? `Dropout` gets a hundred ones. **Predict** which numbers come out in `eval()`, and which in
# `train()`.

# %%
torch.manual_seed(0)
dropout = torch.nn.Dropout(0.5)
x = torch.ones(100, requires_grad=True, device=device)

for name, mode in {"eval": dropout.eval, "train": dropout.train}.items():
    shown = mode()(x)
    print(f"{name:5} numbers {shown.unique().tolist()} requires_grad={shown.requires_grad}")

# %% [markdown]
# In `eval()` it passes `x` on unchanged, and its result still needs a gradient. A validation loop therefore wants both:
# `model.eval()` for the right numbers, `torch.no_grad()` for no graph.

# %% [markdown]
# ## 8 · Keep this
#
# | question | answer |
# |---|---|
# | is it a leaf? | `t.grad_fn is None` |
# | will backward fill `.grad`? | a leaf, requires grad, reached from the loss |
# | `.grad` is `None` | not a leaf? didn't ask? not reached? |
# | scaled or moved parameter | make it so at birth, or `requires_grad_()` last |
# | update | `with torch.no_grad(): w -= …` |
# | before the next backward | `zero_grad()`, but not between `backward` and `step` |
# | no graph | `no_grad`, not `eval()` |

# %% [markdown]
# ## 9 · Optional: check yourself
#
# Three programs. **Predict** in each picture: in the first the leaves, in the other two what has a `.grad` in the end.

# %%
# %%see --ask leaves
u = torch.ones(2, device=device)
v = (u * 0.5).requires_grad_()
w = v.double()
loss = w.sum()
loss.backward()

# %%
# %%see --ask keeps
w = torch.ones(2, requires_grad=True, device=device)
with torch.no_grad():
    mean = w.mean()
shifted = w - mean
loss = (shifted * shifted).sum()
loss.backward()

# %%
# %%see --ask keeps
w = torch.ones(2, requires_grad=True, device=device)
memory = torch.zeros(2, device=device)
memory[1] = w.sum()
p = torch.nn.Parameter(w * 3)
loss = memory.sum() + p.sum()
loss.backward()

# %% [markdown]
# - First: `u` and `v`. `v` came from an operation on something that asked for nothing, and asked afterwards.
# - Second: `w` alone. `mean` is a leaf too, since under `no_grad` nobody notes who made it, but it doesn't ask.
# - Third: `w` and `p`. `memory` was a leaf until it was written.
#
# **Now the assignment:** open [`02_leaf_tensors`](../../release/en/02_leaf_tensors/02_leaf_tensors.ipynb).
# Seven exercises, about 55 minutes.
