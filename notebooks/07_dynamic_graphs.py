# %% [markdown]
# # 07 · Dynamic graphs
#
# *About 60 minutes, without the optional parts.* You never draw the graph. Your code does, while it runs.
#
# After this hour you can
#
# - say when a graph is born, what backward frees, and what keeps the rest alive;
# - predict whether a second backward raises, and what it leaves in `.grad`;
# - tell when `retain_graph=True` is right, and when it hides a mistake;
# - take the gradient of a gradient, and train through it.
#
# **How to work:** predict, run, look, explain, change.

# %% [markdown]
# The parts called *optional* are for a second hour: nothing that comes later needs them.
#
# Every cell uses `device`, which the kernel sets (chapter 00).
#
# A `NameError`, or `Cell magic … not found`? The kernel was restarted, or a cell was skipped: choose **Kernel ▸ Restart
# Kernel and Run up to Selected Cell**.

# %%
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
seegrad.ask_again("07")

# %% [markdown]
# ## 1 · The graph is what ran
#
# This loop doubles `y` until it is large enough. How often, only the numbers know.
#
# **Predict:** how many `MulBackward0` will the picture have?

# %%
# %%see
x = torch.tensor(3.0, requires_grad=True, device=device)
y = x
while y < 20:
    y = y * 2
loss = y * y
loss.backward()

# %% [markdown]
# Three rounds, three Nodes, and one more for `y * y`. No Node says `while`. The comparisons ran too, but they have no
# derivative: the picture shows them as *not recorded*.
#
# **Change** 3.0 to 0.5, then to 50.0. Predict the number of `MulBackward0` before each run.
#
# <details><summary>Changed and run? Then open this.</summary>
#
# From 0.5 it takes six rounds: seven with the one for `y * y`. From 50.0 it takes none: one.
#
# </details>

# %% [markdown]
# ### The other branch
#
# **Predict** who will have a `.grad`: `a` is used if the sum is positive, `b` if it isn't.

# %%
# %%see --ask keeps
a = torch.tensor(2.0, requires_grad=True, device=device)
b = torch.tensor(5.0, requires_grad=True, device=device)
x = torch.tensor([1.0, 3.0], device=device)
out = a * x if x.sum() > 0 else b * x
out.sum().backward()

# %%
a.grad, b.grad

# %% [markdown]
# `b.grad` isn't 0, it is `None`: nothing in this graph leads to it. Nor does a gradient come through the condition:
# `x.sum() > 0` chose the branch, and left no Node.

# %% [markdown]
# ### Optional: zero, or none
#
# Two parameters: one has a gradient of zero, the other none. The optimiser has weight decay: it pulls what it moves
# towards 0. **Predict** which of the two it moves.

# %%
zero = torch.tensor(5.0, requires_grad=True, device=device)
none = torch.tensor(5.0, requires_grad=True, device=device)
zero.grad = torch.zeros_like(zero)
torch.optim.SGD([zero, none], lr=0.1, weight_decay=0.5).step()

zero.item(), none.item()

# %% [markdown]
# A gradient of zero is a gradient: weight decay pulls that parameter along. `None` is skipped. So a branch that wasn't
# taken leaves its parameters in peace, as long as their `.grad` is `None`.

# %% [markdown]
# ### When is it born?
#
# Nodes can be counted without a picture, along `next_functions`. The whole chapter uses this function:


# %%
def nodes(loss):
    found, waiting = [], [loss.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in found:
            found.append(node)
            waiting += [earlier for earlier, _ in node.next_functions]
    return [node.name() for node in found]


# %% [markdown]
# No backward runs in this cell. **Predict** which Nodes it prints: none, the last one, or all?

# %%
w = torch.tensor([1.0, 2.0], requires_grad=True, device=device)
first = (w.exp() * 3).sum()

print(nodes(first))

# %% [markdown]
# All of them, before any backward: each operation adds its Node as it runs.
#
# *Misconception* **M10**: “backward destroys the graph, and `retain_graph` mends it”.

# %% [markdown]
# ### Optional: three starts
#
# The loop at the beginning of this section, counted without a picture:

# %%
for start in (50.0, 3.0, 0.5):
    y = x = torch.tensor(start, requires_grad=True, device=device)
    while y < 20:
        y = y * 2
    print(start, nodes(y * y))

# %% [markdown]
# ### Optional: the same line, run twice
#
# **Predict** three answers: do two runs of the same line share their last Node? Do they share the Node of the leaf?
# What is `w.grad` after backward on both?


# %%
def forward(w):
    return (w * 2).sum()


w = torch.tensor([1.0, 2.0], requires_grad=True, device=device)
one, two = forward(w), forward(w)
leaf_of = lambda loss: loss.grad_fn.next_functions[0][0].next_functions[0][0]

print("same SumBackward0:  ", one.grad_fn is two.grad_fn)
print("same AccumulateGrad:", leaf_of(one) is leaf_of(two))
one.backward()
two.backward()
print(w.grad)

# %% [markdown]
# Two graphs that meet only at the leaf. So each can run its own backward, and `.grad` adds both up: 2 + 2.
#
# *Misconception* **M09**: “each backward overwrites `.grad`”.

# %% [markdown]
# ## 2 · Backward, twice
#
# **Predict** what the second backward does.

# %%
# %%see --ask outcome
a = torch.tensor([3.0, 1.0], requires_grad=True, device=device)
b = a * a
loss = b.mean()

loss.backward()
loss.backward()

# %% [markdown]
# It raises. Play the picture after your answer: when the first backward has passed `MulBackward0`, the tags with what it
# had saved are empty boxes. The second finds nothing in them.
#
# Now the same lines from the start:

# %%
a = torch.tensor([3.0, 1.0], requires_grad=True, device=device)
b = a * a
loss = b.mean()
loss.backward()

a.grad

# %% [markdown]
# A new forward, a new graph, and backward runs.
#
# Was the new `a` needed as well? **Predict** `a.grad`.

# %%
a = torch.tensor([3.0, 1.0], requires_grad=True, device=device)
for _ in range(2):
    b = a * a
    loss = b.mean()
    loss.backward()

a.grad

# %% [markdown]
# It wasn't: a new forward makes a new graph, and both graphs end in the same leaf. So `.grad` adds up: 3 + 3 and 1 + 1.

# %% [markdown]
# ### Is the graph gone?
#
# *“After backward the whole computational graph is freed from memory”*, says one of the five documents (chapter 01).
#
# **Predict** what the last two lines of this cell give: the Nodes after backward, and the tensor that `MulBackward0` had
# saved.

# %% tags=["raises-exception"]
a = torch.tensor([3.0, 1.0], requires_grad=True, device=device)
b = a * a
loss = b.mean()

print("before", nodes(loss), b.grad_fn._saved_self)
loss.backward()
print("after ", nodes(loss))
print("after ", b.grad_fn._saved_self)

# %% [markdown]
# Every Node is still there, and so is every edge. Only the saved tensor has gone, and to ask for it raises. So the
# document is wrong in one word: not the *graph* is freed, but what its Nodes had *saved*.

# %% [markdown]
# ### What torch says
#
# Two backward calls once more, with torch's own words:

# %% tags=["version-dependent"]
a = torch.tensor([3.0, 1.0], requires_grad=True, device=device)
loss = (a * a).mean()
loss.backward()
try:
    loss.backward()
except RuntimeError as error:
    print(*str(error).replace(". ", ".\n").splitlines(), sep="\n")

# %% [markdown]
# Today's words are exact: *saved tensors* are freed. They also name a cure, `retain_graph=True`: section 4 is
# about it.

# %% [markdown]
# ### A sum instead
#
# `a * a` becomes `a + 2`, and the mean a sum. **Predict** the outcome, and `a.grad`.

# %%
# %%see --ask outcome
a = torch.tensor([3.0, 1.0], requires_grad=True, device=device)
loss = (a + 2).sum()

loss.backward()
loss.backward()

# %%
a.grad

# %% [markdown]
# It is fine. A sum saves no tensor, so there is nothing to free, and nothing to miss. Backward runs as often as you
# like, and `.grad` adds up: 1 + 1.

# %% [markdown]
# **Predict** which of these ten can run backward twice. Write your list down.

# %%
functions = {
    "x + 2": lambda x: x + 2,
    "clone": torch.clone,
    "x * 3": lambda x: x * 3,
    "x * x": lambda x: x * x,
    "exp": torch.exp,
    "relu": torch.relu,
    "cumsum": lambda x: x.cumsum(0),
    "reshape": lambda x: x.reshape(2, 1),
    "mean": torch.mean,
    "max": torch.max,
}

for name, function in functions.items():
    x = torch.tensor([3.0, 1.0], requires_grad=True, device=device)
    loss = function(x).sum()
    loss.backward()
    try:
        loss.backward()
        print(f"{name:8} runs twice", x.grad)
    except RuntimeError:
        print(f"{name:8} raises")

# %% [markdown]
# Whoever needs no value for its derivative runs twice. One line may surprise you: `x * 3`. Its derivative is 3, and
# that 3 is a saved tensor too.

# %% [markdown]
# ### Optional: look into the Nodes
#
# **Predict** what each Node here saves, in the picture.

# %%
# %%see --ask saves
a = torch.tensor([3.0, 1.0], requires_grad=True, device=device)
b = a.exp()
c = b.cumsum(0)
loss = (c + b).sum()

loss.backward()

# %% [markdown]
# Only `exp` saves something: its own result.

# %% [markdown]
# What the Node of `x * 3` holds:

# %%
x = torch.tensor([3.0, 1.0], requires_grad=True, device=device)

(x * 3).grad_fn._saved_other, (x * 3).grad_fn._saved_self

# %% [markdown]
# ### Optional: a loss of two halves
#
# **Predict** the outcome, and what both gradients hold in the end.

# %%
# %%see --ask outcome
a = torch.tensor([3.0, 1.0], requires_grad=True, device=device)
b = torch.tensor([3.0, 1.0], requires_grad=True, device=device)
loss = (a * a).sum() + (b + 1).sum()
loss.backward()
loss.backward()

# %%
a.grad, b.grad

# %% [markdown]
# It raises: one half of the graph can run twice, the other can't. `b` got its gradient twice, `a` once. Backward starts
# with the newest Nodes, those of `b`, and runs until it meets one whose saved tensors are gone. What has been added
# by then stays.
#
# After an error in backward: set every `.grad` to `None` before you go on.

# %% [markdown]
# ## 3 · Who keeps a graph alive
#
# Saved tensors go when backward has passed. A weak reference watches without holding. `h` has no name of its own after
# `del`: only the graph keeps it.

# %%
a = torch.tensor([3.0, 1.0], requires_grad=True, device=device)
h = a * 2
loss = (h * h).sum()
watch = weakref.ref(h)
del h

print("saved:", watch() is not None)
loss.backward()
print("saved:", watch() is not None)

# %% [markdown]
# The Nodes stay for as long as somebody holds the loss. A classic: a running total, to print at the end.
#
# **Predict:** after 50 steps, how many Nodes hang on `total`? And on `plain`?

# %%
w = torch.tensor([1.0, 2.0], requires_grad=True, device=device)
total, plain = 0.0, 0.0
for _ in range(50):
    loss = (w * w).sum()
    loss.backward()
    total = total + loss
    plain = plain + loss.detach()

print("total", len(nodes(total)), total.item())
print("plain", plain.grad_fn, plain.item())

# %% [markdown]
# Fifty graphs hang on `total`, one a step, and none on `plain`. Each has three Nodes (`*`, the sum, `+`), and all share
# the Node of the leaf: 3 · 50 + 1 = 151. It raises nothing. Memory grows, and one day the machine has none left.
#
# A number to print is `loss.item()` or `loss.detach()`.

# %% [markdown]
# ### Optional: backward on the total
#
# Here backward is called on such a total. **Predict** the outcome. If it raises, in which step?

# %%
# %%see --ask outcome --as rec
w = torch.tensor([1.0, 2.0], requires_grad=True, device=device)
total = 0.0
for _ in range(3):
    loss = (w * w).sum()
    total = total + loss
    total.backward()

# %%
print("backward call number", 1 + rec.recording.frames[-1].backward)
Markdown(rec.diagnoses[0].message())

# %% [markdown]
# It raises in the second step: backward runs into the first step's graph, whose saved tensors have gone.

# %% [markdown]
# ## 4 · `retain_graph=True`
#
# This flag tells one backward call to leave the saved tensors where they are. After one backward `a.grad` is `[3, 1]`.
# **Predict** the outcome of three calls, and `a.grad`.

# %%
# %%see --ask outcome
a = torch.tensor([3.0, 1.0], requires_grad=True, device=device)
loss = (a * a).mean()

loss.backward(retain_graph=True)
loss.backward()
loss.backward()

# %%
a.grad

# %% [markdown]
# The third call raises: the first one left the saved tensors where they were, the second one freed them. So the
# gradient came twice.
#
# Three kinds of programs follow in which backward runs more than once.

# %% [markdown]
# ### First: two losses, one trunk
#
# Both losses go through `h`. **Predict** the outcome.

# %%
# %%see --ask outcome
w = torch.tensor([1.0, 2.0], requires_grad=True, device=device)
h = torch.tanh(w)
size = (h * h).sum()
mean = h.mean()
size.backward()
mean.backward()

# %% [markdown]
# It raises. The second loss needs what `TanhBackward0` had saved, and the first backward has freed it. Here
# `retain_graph=True` is right.
#
# Below, one backward runs on the sum. **Predict** the order in which it runs the Nodes.

# %%
# %%see --ask order
w = torch.tensor([1.0, 2.0], requires_grad=True, device=device)
h = torch.tanh(w)
size = (h * h).sum()
mean = h.mean()
(size + mean).backward()

# %% [markdown]
# `+`, `mean`, `sum`, `*`, `tanh`. It passes the trunk once: `TanhBackward0` waits until both gradients have come.

# %% [markdown]
# ### Optional: the two ways compared
#
# Compare what they leave in `w.grad`:

# %%
grads = {}
for way in ("retained", "added"):
    w = torch.tensor([1.0, 2.0], requires_grad=True, device=device)
    h = torch.tanh(w)
    size, mean = (h * h).sum(), h.mean()
    if way == "retained":
        size.backward(retain_graph=True)
        mean.backward()
    else:
        (size + mean).backward()
    grads[way] = w.grad

grads

# %% [markdown]
# ### Optional: another trunk
#
# Another trunk: `torch.tanh(w)` becomes `w + 2`. **Predict** the outcome of two backward calls.

# %%
# %%see --ask outcome
w = torch.tensor([1.0, 2.0], requires_grad=True, device=device)
h = w + 2
size = (h * h).sum()
mean = h.mean()
size.backward()
mean.backward()

# %% [markdown]
# Fine: the trunk `w + 2` has saved nothing that the first backward could free.

# %% [markdown]
# ### Second: a state carried along
#
# A recurrent network hands its state `h` from step to step. **Predict** the outcome.

# %%
# %%see --ask outcome --as rec
w = torch.tensor(0.5, requires_grad=True, device=device)
h = torch.tensor(1.0, device=device)
for x in (0.1, 0.2, 0.3):
    h = torch.tanh(w * h + x)
    loss = (h - 1).pow(2)
    loss.backward()

# %% [markdown]
# It raises in step 2, whose graph leads into step 1's: follow `h` in the picture. Torch's message proposes
# `retain_graph=True`.
#
# What the recording says:

# %%
Markdown(rec.diagnoses[0].message())

# %% [markdown]
# Try both: `retain_graph=True`, and `.detach()` for the state. **Predict** for each: does the number of Nodes that a
# step's backward passes stay the same, or does it grow?


# %%
def train(retain, steps=6):
    w = torch.tensor(0.5, requires_grad=True, device=device)
    h = torch.tensor(1.0, device=device)
    passed = []
    for _ in range(steps):
        h = torch.tanh(w * (h if retain else h.detach()) + 0.1)
        loss = (h - 1).pow(2)
        passed.append(len(nodes(loss)))
        loss.backward(retain_graph=retain)
    return passed


print("retain_graph", train(retain=True))
print("detach      ", train(retain=False))

# %% [markdown]
# With the flag 6, 9, 12, …: each step passes three Nodes more than the one before. Step 1000 will pass 3003, and what they
# saved is never freed. With `.detach()` it is 6 in every step: a step ends where it began.

# %% [markdown]
# A real step also updates `w`. **Predict** the outcome with `retain_graph=True`.

# %%
# %%see --ask outcome --as rec
w = torch.tensor(0.5, requires_grad=True, device=device)
h = torch.tensor(1.0, device=device)
for x in (0.1, 0.2, 0.3):
    h = torch.tanh(w * h + x)
    loss = (h - 1).pow(2)
    loss.backward(retain_graph=True)
    with torch.no_grad():
        w -= 0.1 * w.grad
    w.grad = None

# %%
Markdown(rec.diagnoses[0].message())

# %% [markdown]
# It raises another error, in step 3. The flag kept the `w` that step 2 had saved, and step 2's update has written to it.
# (In step 1 `h` needs no gradient, so nobody saves `w`.) Now the web's answer to *this* error is `.data`, and that is how
# gradients go silently wrong (chapter 05).
#
# *Misconception* **M10**: “backward destroys the graph, and `retain_graph` mends it”. The cure is `.detach()`.

# %% [markdown]
# ### Optional: back through two steps
#
# A state that is to learn over time isn't cut off: one backward at the end goes through all steps, here through two.
# **Predict** each step of backward, by the numbers on the cards: the picture asks before it opens one.

# %%
# %%see --ahead alone
w = torch.tensor(0.5, requires_grad=True, device=device)
h0 = torch.tensor(1.0, device=device)
h1 = torch.tanh(w * h0)
h2 = torch.tanh(w * h1)
loss = (h2 - 1).pow(2)
loss.backward()

# %% [markdown]
# `w` is used in both steps, so two parts of its gradient come: one at the second product, the other at the first, through
# `h1`. They are added up. It is one forward and one backward, so nothing that is needed was freed.

# %% [markdown]
# ### Third: computed once, before the loop
#
# `h` is computed outside of the loop; the flag keeps it. **Predict** the four losses.

# %%
w = torch.tensor([1.0, 2.0], requires_grad=True, device=device)
scale = torch.tensor([0.5, 0.5], device=device)
h = w * scale
for _ in range(4):
    loss = (h - 1).pow(2).sum()
    loss.backward(retain_graph=True)
    with torch.no_grad():
        w -= 0.1 * w.grad
    w.grad = None
    print(f"{loss.item():.4f}", w.detach())

# %% [markdown]
# No error; `w` moves, and the loss stands still. `h` was made from the *first* `w`, and a graph is a record: it doesn't
# compute again. Every step takes the gradient at the old place.
#
# *Misconception* **M06**: “no error means that the gradient is right”.
#
# **Change** the cell: move `h = …` into the loop, and drop the flag. What do the four losses do now?
#
# <details><summary>Changed and run? Then open this.</summary>
#
# They fall: each step computes `h` anew from the `w` that it finds.
#
# </details>

# %% [markdown]
# ### Three errors
#
# | the error says | it means | do |
# |---|---|---|
# | *a second time* | saved tensors were freed | new forward; add the losses; `.detach()` what is carried over |
# | *does not require grad* | there is no graph at all | find the cut |
# | *modified by an inplace operation* | a saved tensor was overwritten | find the write |
#
# `retain_graph=True` cures none of them, save where two backward calls really belong to one forward.

# %% [markdown]
# ### Optional: without a graph
#
# **Predict** what the two calls of this program print.

# %%
w = torch.tensor([1.0, 2.0], requires_grad=True, device=device)
loss = (w.detach() * 2).sum()
for retain in (False, True):
    try:
        loss.backward(retain_graph=retain)
        print(retain, "· fine")
    except RuntimeError as error:
        print(retain, "·", error)

# %% [markdown]
# Both say the same: where no graph is, there is nothing to retain.

# %% [markdown]
# ## 5 · The graph of a gradient
#
# Backward computes with tensors. With `create_graph=True` those operations add Nodes as well, and a gradient has a
# gradient. (`torch.autograd.grad` returns the gradients as a tuple, here of one: chapter 03.)
#
# **Predict** the first and the second derivative of $y = x^3$ at $x = 3$.

# %%
# %%see
x = torch.tensor(3.0, requires_grad=True, device=device)
y = x**3
(slope,) = torch.autograd.grad(y, x, create_graph=True)
(bend,) = torch.autograd.grad(slope, x)

# %%
print("first ", slope.item(), nodes(slope))
print("second", bend.item(), bend.grad_fn)

# %% [markdown]
# $3x^2$ is 27, and $6x$ is 18. `slope` was computed with `create_graph=True`: its own Nodes lead back to `x`. `bend` was
# computed without, so it has no history.
#
# Is `retain_graph=True` enough, without `create_graph`? **Predict** what this cell shows.

# %% tags=["raises-exception"]
x = torch.tensor(2.0, requires_grad=True, device=device)
y = x**3
(slope,) = torch.autograd.grad(y, x, retain_graph=True)
print(slope, slope.requires_grad)
torch.autograd.grad(slope, x)

# %% [markdown]
# It raises: `slope` is right, but it has no history: the flag keeps the old graph, and draws no new one.

# %% [markdown]
# With a history you can train *through* a gradient. Below, $y = w x^2$, and the loss is its slope, squared. `data` needs
# no gradient, so a leaf is made of it first.
#
# **Predict** `w.grad` at $w = 3$, $x = 2$. (The slope is $2wx$.)

# %%
w = torch.tensor(3.0, requires_grad=True, device=device)
data = torch.tensor(2.0, device=device)
x = data.clone().requires_grad_()
y = w * x**2
(slope,) = torch.autograd.grad(y, x, create_graph=True)
slope.pow(2).backward()

print(slope.item(), w.grad.item())

# %% [markdown]
# $(2wx)^2$ has the derivative $8wx^2$ by $w$: 96. Such a loss is called a *gradient penalty*: it asks for a flat $y$.

# %% [markdown]
# ## 6 · Optional: static graphs
#
# *“PyTorch uses dynamic graphs, TensorFlow static ones: design the graph first, then pour in the inputs, again and
# again, until the session ends”*, says the document of section 2, and adds that it isn't sure about `tf.Session`.
#
# That was TensorFlow 1. TensorFlow 2 (2019) runs eagerly by default, and PyTorch can do both. See a static graph
# without leaving it:

# %%
import torch.fx


def repeat(x, times):
    for _ in range(times):
        x = x * 2
    return x.sin()


static = torch.fx.symbolic_trace(lambda x: repeat(x, 3))

print(*static.graph.nodes)
print(static(torch.tensor(1.0, device=device)), repeat(torch.tensor(1.0, device=device), 3))

# %% [markdown]
# Traced once, with no numbers in it: three multiplications, and no loop. **Predict** what tracing makes of `branch`.


# %%
def branch(x):
    y = x * 2
    return y.sin() if y.sum() > 0 else y.cos()


try:
    print(*torch.fx.symbolic_trace(branch).graph.nodes)
except ValueError as error:
    print(error)

# %% [markdown]
# It raises. That is the price: while this graph is drawn there are no numbers, so no `if` and no `while` may ask for
# one. The gain: it is drawn once, whole, before it runs, so somebody can make it faster.

# %% [markdown]
# ### `torch.compile`
#
# It reads your function when it is called, and hands the graph to a *backend*. Ours writes down what it got, and runs it
# unchanged.
#
# **Predict:** three calls. How many graphs does the backend get?

# %% tags=["version-dependent"]
built = []


def backend(graph, inputs):
    built.append([node.name for node in graph.graph.nodes if node.op.startswith("call")])
    return graph.forward


def square(x):
    return (x.sin() ** 2).sum()


torch.compiler.reset()
compiled = torch.compile(square, backend=backend)
for _ in range(3):
    x = torch.tensor([0.5, 1.0], requires_grad=True, device=device)
    loss = compiled(x)
    loss.backward()

print(len(built), built)
print(x.grad, (2 * x.sin() * x.cos()).detach())

# %% [markdown]
# One. The *forward* was captured once and used three times.
#
# And the graph of *autograd*? **Predict:** can the third loss run backward twice?

# %%
print(nodes(loss))
try:
    loss.backward()
    print("fine")
except RuntimeError as error:
    print(str(error).partition(" (")[0])

# %% [markdown]
# It can't. Born at each call, freed by each backward, as ever. Compiling changes who computes; the rules of this
# chapter stay.

# %% [markdown]
# And the branch that `fx` refused? **Predict** how many graphs come, first with a positive, then with a negative input.

# %% tags=["version-dependent"]
built.clear()
torch.compiler.reset()
compiled = torch.compile(branch, backend=backend)
for number in (1.0, 2.0, -1.0, -2.0):
    before = len(built)
    compiled(torch.tensor([number, number], device=device))
    print(f"{number:4}", len(built), "new:", built[before:])

# %% [markdown]
# The graph *breaks* at the `if`: one graph before it, Python decides, another graph after it. The negative branch is
# captured when it is first taken. So your code stays dynamic, in pieces.
#
# With `fullgraph=True` you ask for one piece:

# %%
torch.compiler.reset()
try:
    torch.compile(branch, backend=backend, fullgraph=True)(torch.ones(2, device=device))
except RuntimeError as error:
    print(str(error).splitlines()[0])

# %% [markdown]
# ### When does it capture again?
#
# `repeat` takes a tensor and `times`. **Predict** the count of graphs after each call.

# %% tags=["version-dependent"]
built.clear()
torch.compiler.reset()
compiled = torch.compile(repeat, backend=backend)
for times in (2, 2, 3, 2, 4):
    before = len(built)
    compiled(torch.tensor(1.0, device=device), times)
    print("times", times, "· graphs", len(built), "new:", built[before:])

# %% [markdown]
# Another `times`, another graph; a known one is reused. What a graph takes for granted (`times`, types, shapes) is
# checked at each call by its *guards*.
#
# **Change** `(2, 2, 3, 2, 4)` to `range(1, 13)`. From where on does the count stand still? Torch has given up: it runs the
# function as it is.
#
# <details><summary>Changed and run? Then open this.</summary>
#
# From the ninth on: torch keeps at most eight graphs of one function (`torch._dynamo.config.recompile_limit`).
#
# </details>

# %% [markdown]
# A backend may also take over *backward*. `aot_eager` does, without compiling anything. **Predict** how many Nodes are
# left between `x` and `loss`.

# %% tags=["version-dependent"]
torch.compiler.reset()
fused = torch.compile(square, backend="aot_eager")
x = torch.tensor([0.5, 1.0], requires_grad=True, device=device)
with seegrad.record() as rec:
    loss = fused(x)
    loss.backward()

print(nodes(loss))
print(x.grad, (2 * x.sin() * x.cos()).detach())
seegrad.show(rec)

# %% [markdown]
# One for the whole function, beside the leaf's own `AccumulateGrad`. Its backward was drawn together with its forward:
# a static piece inside a dynamic graph.
#
# | | eager | compiled |
# |---|---|---|
# | forward captured | never | once for each set of guards |
# | autograd graph built | each call | each call, perhaps with fewer Nodes |
# | saved tensors freed | by backward | by backward |
# | `if` on a number | free | breaks the graph |

# %% [markdown]
# ## 7 · Optional: check yourself
#
# Three programs. **Predict** the outcome of each in its picture, then read on.

# %%
# %%see --ask outcome
a = torch.tensor([1.0, 2.0], requires_grad=True, device=device)
b = (a * a).detach().requires_grad_()
(b + 1).sum().backward()
(b + 1).sum().backward()

# %%
# %%see --ask outcome
a = torch.tensor([1.0, 2.0], requires_grad=True, device=device)
b = a.exp()
(b * 2).sum().backward()
(b + 2).sum().backward()

# %%
# %%see --ask outcome
a = torch.tensor([1.0, 2.0], requires_grad=True, device=device)
b = a.cumsum(0)
(b * b).sum().backward()
(b + 2).sum().backward()

# %% [markdown]
# - The first is fine: two forwards, two graphs, and `b` is a leaf. Its `.grad` is 2.
# - The second raises: both losses need what `exp` had saved.
# - The third is fine: the shared Node is `cumsum`, and it saves no tensor. `b * b` was freed, and nobody asks for it
#   again.
#
# **Now the assignment:** open [`07_dynamic_graphs`](../../release/en/07_dynamic_graphs/07_dynamic_graphs.ipynb).
# Seven exercises, about 60 minutes.
