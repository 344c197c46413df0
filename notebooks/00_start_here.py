# %% [markdown]
# # 00 · Start here
#
# *About 40 minutes.* This course shows what PyTorch's autograd does while your code runs: you run a few lines, and see
# the graph that torch recorded, what it saved, and which line broke it.
#
# You know Python, and you have used torch for a week. Nothing else is needed, and nothing is graded here.
#
# After it you can work in every chapter: pick a device, predict, run, look, answer; and know what to do
# when something looks odd.

# %% [markdown]
# ## 1 · Run a cell
#
# Click the cell below, and press **Shift + Enter**. It loads what all chapters need.

# %%
import torch

import seegrad

device = seegrad.device()

# %load_ext seegrad

# %% [markdown]
# `device` is where the tensors live. The kernel sets it, whose name stands at the top right: on *Python 3 (ipykernel)*,
# with which a chapter opens, and on *seegrad (CPU)* it is the CPU. Where there is a GPU, **Kernel ▸ Change Kernel** offers
# *seegrad (GPU)* too.
#
# No chapter needs a GPU, and no cell has to be changed for one.

# %%
x = torch.tensor([1.0, 2.0], device=device)
x.device.type == torch.device(device).type

# %% [markdown]
# Not every machine has a GPU. In code of your own, these lines choose the best that there is:

# %%
found = torch.accelerator.is_available()
best = torch.accelerator.current_accelerator() if found else torch.device("cpu")
torch.ones(1, device=best).sum().item()

# %% [markdown]
# ## 2 · The picture
#
# Write `%%see` above a cell, and it shows its own graph. Here is $z = x^2 + x$ at $x = 3$, and its gradient.

# %%
# %%see
x = torch.tensor(3.0, requires_grad=True, device=device)
y = x * x
z = y + x
z.backward()

# %% [markdown]
# | in the picture | it is |
# |---|---|
# | card | a tensor: its name, its value, its version (`v0`) |
# | green card with a bar | a leaf that needs a gradient: the graph begins there |
# | dashed card | a tensor that needs no gradient, be it a leaf or not |
# | blue pill | a Function: what backward has to do for one line |
# | small tag at a pill | what this Function saved, and at which version |
# | amber number | the order in which backward ran |
# | amber field | a gradient: `.grad` is kept, `∂` only passes |
#
# The legend under a picture explains what is in *this* one.

# %% [markdown]
# ### Step through it
#
# Each line of your code is a step, then each Function of backward. Drag the bar below the picture, or click it once and
# use the keys:
#
# | key | does |
# |---|---|
# | → and ← | one step on, one step back |
# | Home and End | first step, last step |
# | Space | play, pause |
# | a click on a part, then ↓ and ↑ | from part to part |
# | Enter | tell me about this part; in a question: choose it |
# | f | only this part and its neighbours |
# | Esc | back |
# | Shift + Enter | the notebook's own: run the next cell |

# %% [markdown]
# If the picture is a still image without a bar, run its cell: then the bar comes. A bar that is there already can be
# used even while no kernel runs.
#
# The picture shows what torch itself holds. Ask torch, and compare (chapter 01 explains the names):

# %%
x.grad, z.grad_fn.name(), [node.name() for node, slot in z.grad_fn.next_functions]

# %% [markdown]
# ## 3 · Predict, run, look, answer
#
# You learn from a picture what you have *predicted* first. So most cells ask before they tell.
#
# **Predict:** which of the three tensors below will hold a gradient after backward? Run the cell, click them in the
# picture, then **Check my prediction**.

# %%
# %%see --ask keeps
a = torch.tensor(2.0, requires_grad=True, device=device)
b = a * 3
c = a * b
c.backward()

# %% [markdown]
# Only `a`. `b` and `c` were computed: their gradients pass on to `a`, and aren't kept.

# %% [markdown]
# ### When you have answered
#
# The picture shows the rest: how it went on, what was right, and which **misconception** a wrong answer looks like.
# There are twelve of them in this course, `M01` to `M12`. A wrong prediction costs nothing: it is the fastest way to
# learn something.
#
# What explains an answer is folded, here and in every chapter. Explain it to yourself first, then open it and compare.

# %% [markdown]
# Below the picture your answer stands as a line of Python, with a button that copies it:
#
# `q6 = {"keeps": ["a"]}`
#
# Keep it, or paste it where your teacher asks for it. Its name is its cell's
# number: `q6` where the cell ran as `[6]`.
#
# Your predictions are kept in `.seegrad_progress.json` in your home folder, of each question the last answer. It is plain
# text, and stays on this machine.

# %% [markdown]
# ### Ask about your own code
#
# You can ask about any code of your own. `record` sees a block, `show` draws it and asks:
#
# | `ask=` | the question |
# |---|---|
# | `"leaves"`, `"keeps"` | click the leaves; click what keeps its gradient |
# | `"saves"`, `"order"` | what each Function saves; in which order backward runs them |
# | `"next"`, `"gradient"` | which Function runs next; which gradient comes next |
# | `"versions"` | type each tensor's version |
# | `"outcome"`, `"culprit"` | raises, silent, or fine; which line did it |

# %%
with seegrad.record() as rec:
    x = torch.tensor(3.0, requires_grad=True, device=device)
    y = x.exp()
    z = y * x
    z.backward()

seegrad.show(rec, ask="order")

# %% [markdown]
# **Change** the cell: replace `y * x` by `y + x`, run it, and answer again. Then make one of your own. Whatever you
# write, the picture is that of your code. Save the notebook with **Ctrl + S** (on a Mac **⌘ + S**), to find it again
# as you left it.

# %% [markdown]
# ## 4 · How will it end?
#
# `z` is made from `y`, then `z` is doubled in place. **Predict:** does torch raise an error, is a gradient wrong
# without an error, or is all fine?

# %%
# %%see --ask outcome
y = torch.tensor([0.0, 1.0], requires_grad=True, device=device)
z = y.exp()
z.mul_(2)
z.sum().backward()

# %% [markdown]
# It raises: `y.exp()` had kept its result `z` for backward, and the next line wrote over it.
#
# A cell that asks keeps torch's error back, since it would tell the answer; you find it at the picture's last step.
# Without a question the picture comes first, then the error as torch raised it. Read the last lines of the error, then
# the picture.
#
# Here is the same program without a question:

# %% tags=["raises-exception", "version-dependent"]
# %%see
y = torch.tensor([0.0, 1.0], requires_grad=True, device=device)
z = y.exp()
z.mul_(2)
z.sum().backward()

# %% [markdown]
# The red pill is the line that wrote, the red tag says what no longer fits: saved at v0, now at v1. Chapters 01, 04 and
# 05 are about this error. Some cells raise on purpose, like this one.
#
# **Run ▸ Run All Cells** goes on after a cell that is meant to raise. Where it stops, an error came that nobody meant.

# %% [markdown]
# ## 5 · When something looks odd
#
# A notebook remembers. Three things go wrong for everybody; each looks like an error of torch or of the course.
#
# ### A cell that ran twice
#
# **Predict** what the second cell prints when you run it a second time.

# %%
w = torch.tensor(1.0, requires_grad=True, device=device)

# %%
(w * 2).backward()
print(w.grad)

# %% [markdown]
# 4, and then 6: each run adds 2. Nothing is broken; gradients add up (**M09**: “each backward overwrites `.grad`”). Run
# the cell that makes `w` again, and you start afresh. Most cells of the course make what they use.

# %% [markdown]
# ### Cells out of order
#
# A cell uses what *ran*, not what is written in the notebook. Here the upper cell needs what the lower one makes. It
# raises:

# %% tags=["raises-exception"]
globals().pop("result", None)

print(result)

# %%
result = torch.ones(2, device=device).sum().item()
print(result)

# %% [markdown]
# `NameError: name … is not defined` means: the cell that makes this name didn't run in this kernel. Often the kernel was
# restarted, or you jumped.
#
# The upper cell raises however often you run it: it throws the name away first, on purpose. Where a cell further up makes
# the name that is missing, this mends it: **Kernel ▸ Restart Kernel and Run up to Selected Cell**.

# %% [markdown]
# ### A name of your own that hides another
#
# Every name is free, also those of Python and of the course. **Predict:** what becomes of the last line?

# %% tags=["raises-exception"]
max = torch.tensor([3.0, 4.0], device=device).max()
max(1, 2)

# %% [markdown]
# `max` is a tensor now, and a tensor can't be called.

# %% [markdown]
# ### Names that hide others
#
# Delete your name, and the old one is back. This is how to find such names:

# %%
import builtins


def hidden():
    theirs, mine = builtins.vars(builtins), builtins.globals()
    usual = {"open", "exit", "quit", "get_ipython"}
    known = [name for name in theirs if name in mine and name[0] != "_" and name not in usual]
    return [name for name in known if mine[name] is not theirs[name]]


max = 7
print(hidden())
del max
print(hidden(), max(1, 2))

# %% [markdown]
# `torch`, `device` and `seegrad` can be hidden in the same way. `%%see` doesn't mind:

# %%
seegrad = "mine"

# %%
# %%see
x = torch.tensor(3.0, requires_grad=True, device=device)
y = x + 1

# %% [markdown]
# A cell that uses the name itself would raise. To get all three back, run the first code cell of the chapter again. The
# line of it that helps here:

# %%
import seegrad

seegrad.__name__

# %% [markdown]
# ### Is my kernel in order?
#
# When you doubt, run this. Five times `True`, and it isn't the kernel.


# %%
def holds(question):
    try:
        return bool(question())
    except Exception:
        return False


state = {
    "torch": holds(lambda: torch.__name__ == "torch"),
    "seegrad": holds(lambda: seegrad.__name__ == "seegrad"),
    "device": holds(lambda: torch.ones(1, device=device).item() == 1),
    "gradients": holds(lambda: torch.is_grad_enabled() and not torch.is_inference_mode_enabled()),
    "built-in names": holds(lambda: not hidden()),
}
for name, good in state.items():
    print(f"{name:15} {good}")

# %% [markdown]
# One is `False`? Run the first code cell, and the one that makes `hidden`; if that doesn't help, restart the kernel.
# `gradients` is `False` after `torch.set_grad_enabled(False)`: that holds until you switch it on again, in every cell.

# %% [markdown]
# ## 6 · How an exercise answers
#
# Each chapter but this one has an assignment. Below each answer stands a cell that checks it, in six lines at most. This
# is such a check, and an answer that is wrong; it raises:

# %% tags=["raises-exception"]
from seegrad.check import expect


def slope_of_square(x):
    x = x.clone().requires_grad_()
    for _ in range(2):
        (x * x).backward()
    return x.grad


x = torch.tensor(3.0, device=device)
expect("slope_of_square(x)", slope_of_square(x), x=x).close(2 * x, "M09")

# %% [markdown]
# Four rows: what was asked, what came, what was expected, and which misconception it may be. Behind the numbers stands
# what sort of tensor it is: `f32[]` is one number (no dimensions) of 32 bits, then whether it is a leaf, and its
# version.
#
# The slope of $x^2$ at 3 is 6. Here `backward` ran twice, and both gradients were added up.
#
# **Change** `slope_of_square` until the cell says nothing: then it is right. In an assignment a check that passes says so
# in green; here it is silent:

# %%
expect("2 * x", 2 * x, x=x).close(torch.tensor(6.0, device=device))

# %% [markdown]
# ## 7 · The way through the course
#
# The map shows where you are, what you have predicted and passed, and which misconceptions you have met. Any cell can
# draw it.

# %%
seegrad.course_map()

# %% [markdown]
# Each chapter says in its first lines how long it takes: 40 to 60 minutes. Its assignment takes another 45 to 75 minutes.
# That makes about 21 hours for all of it. 01 comes first; after it you may go by either branch. The clinic (08) needs
# them both, 09 makes an engine, and 10 ends the course.
#
# **Now:** open [`01_computational_graphs`](01_computational_graphs.ipynb), in the same folder.
