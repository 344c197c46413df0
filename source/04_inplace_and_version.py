# %% [markdown]
# # Assignment 04: in-place operations and `_version`
#
# Seven exercises, 100 points, about 65 minutes. Write your answers in the cells that say `YOUR CODE HERE` or
# `YOUR ANSWER HERE`. In a cell of code, replace each `None`, or write your code in the place of the comment, and delete
# the line `raise NotImplementedError()`.
#
# The cell below each answer checks it: code that you wrote is run, an answer that you chose is only checked for its
# form, not for being right. Whether a choice is right you see when you run the program yourself. **Validate** runs the
# same cells; more checks run when your work is graded, with other numbers.
#
# Some answers can be given on a picture: run the cell with `pick` above the answer cell. It shows the program's graph up
# to `backward`, and writes what you choose into the answer cell. It knows no more than you do.
#
# Commit to an answer before you run anything. Afterwards, put `%%see` on a cell and look.

# %%
import torch

# %load_ext seegrad

# %% [markdown]
# ## 1 · Predict the versions (12 points)
#
# Each program starts with `t = torch.zeros(4)`. What is `t._version` after it: 0, 1 or 2?
#
# | | program |
# |---|---|
# | A | `t += 1` |
# | B | `t = t + 1` |
# | C | `t[0] += 1` |
# | D | `row = t[:2]; row.fill_(1)` |
# | E | `copy = t.clone(); copy.fill_(1)` |
# | F | `t.add_(0)` |

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# Which tensor is written in each program, and is it the one that `t` names at the end?
#
# <details><summary>Hint 2 of 3</summary>
#
# Chapter 04, section 1 for the spellings, section 2 for what a write through a view counts, and which one counts twice.
#
# <details><summary>Hint 3 of 3</summary>
#
# The counter counts writes to the bytes, through whatever name. It looks neither at the values nor at the spelling. A
# tensor that was just made by an addition hasn't been written yet.
#
# </details></details></details>

# %% grade_id="predict_versions" kind="solution"
counts = {"A": None, "B": None, "C": None, "D": None, "E": None, "F": None}
### BEGIN SOLUTION
counts = {"A": 1, "B": 0, "C": 2, "D": 1, "E": 0, "F": 1}
### END SOLUTION

# %% grade_id="predict_versions_test" kind="test" points=12
import operator

import torch
from seegrad.check import answers, call, expect

for program in "ABCDEF":
    asked = f"counts[{program!r}]"
    expect(asked, call(asked, operator.getitem, counts, program)).one_of([0, 1, 2])
### BEGIN HIDDEN TESTS
COUNTED = {
    "A": "t += 1",
    "B": "t = t + 1",
    "C": "t[0] += 1",
    "D": "row = t[:2]; row.fill_(1)",
    "E": "copy = t.clone(); copy.fill_(1)",
    "F": "t.add_(0)",
}


def version_after(program):
    names = {"t": torch.zeros(4)}
    exec(program, names)
    return names["t"]._version


answers(
    "counts",
    counts,
    {program: version_after(code) for program, code in COUNTED.items()},
    {
        "A": {0: "M11", 2: "counts"},
        "B": {1: "M11"},
        "C": {0: "M11", 1: "counts"},
        "D": {0: "M12", 2: "counts"},
        "E": {1: "clone", 2: "clone"},
        "F": {0: "counts", 2: "counts"},
    },
    of=12,
)
### END HIDDEN TESTS

# %% [markdown]
# ## 2 · Predict where it raises (18 points)
#
# Each program starts with `x = torch.tensor([0.5, 1.0], requires_grad=True)`, then come the two columns, then
# `loss.backward()`.
#
# | | made | written, used |
# |---|---|---|
# | A | `y = (x * 2).exp()` | `y.mul_(2); loss = y.sum()` |
# | B | `y = (x * 2).sin()` | `y.mul_(2); loss = y.sum()` |
# | C | `y = x` | `y.mul_(2); loss = (y * y).sum()` |
# | D | `loss = (x * x).sum()` | `with torch.no_grad(): x.mul_(2)` |
# | E | `h = x * 2; row = h[:1]; loss = (h * h).sum()` | `row.zero_()` |
# | F | `loss = (x * x).sum()` | `x.data.mul_(2)` |
#
# `"write"`: the write raises. `"backward"`: backward raises. `"silent"`: no error, and `x.grad` isn't the derivative
# at the values that the loss was computed with. `"right"`: no error, and it is.

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# For each write: is a leaf written while gradients are recorded, and if not, which Function had saved the value?
#
# <details><summary>Hint 2 of 3</summary>
#
# Chapter 04, section 5 has a table of who saves its result and who its input. Section 6 is about leaves, section 7
# about writing them too late.
#
# <details><summary>Hint 3 of 3</summary>
#
# Ask three questions in this order. A leaf, in grad mode? Then at once. Was the old value saved? If not, all is well. If
# so: did the counter that the saved tensor looks at move?
#
# </details></details></details>

# %% grade_id="predict" kind="solution"
prediction = {"A": None, "B": None, "C": None, "D": None, "E": None, "F": None}
### BEGIN SOLUTION
prediction = {"A": "backward", "B": "right", "C": "write", "D": "backward", "E": "backward", "F": "silent"}
### END SOLUTION

# %% grade_id="predict_test" kind="test" points=18
import operator

import torch
from seegrad.check import answers, call, expect

for program in "ABCDEF":
    asked = f"prediction[{program!r}]"
    expect(asked, call(asked, operator.getitem, prediction, program)).one_of(["write", "backward", "silent", "right"])
### BEGIN HIDDEN TESTS
PROGRAMS = {
    "A": ("y = (x * 2).exp()\ny.mul_(2); loss = y.sum()", lambda x: 2 * (x * 2).exp()),
    "B": ("y = (x * 2).sin()\ny.mul_(2); loss = y.sum()", lambda x: 2 * (x * 2).sin()),
    "C": ("y = x\ny.mul_(2); loss = (y * y).sum()", lambda x: 4 * x * x),
    "D": ("loss = (x * x).sum()\nwith torch.no_grad(): x.mul_(2)", lambda x: x * x),
    "E": ("h = x * 2; row = h[:1]; loss = (h * h).sum()\nrow.zero_()", lambda x: 4 * x * x),
    "F": ("loss = (x * x).sum()\nx.data.mul_(2)", lambda x: x * x),
}


def outcome(program, twin):
    x = (torch.rand(2) + 0.5).requires_grad_()
    start = x.detach().clone().requires_grad_()
    (want,) = torch.autograd.grad(twin(start).sum(), start)
    names = {"torch": torch, "x": x}
    try:
        exec(program, names)
    except RuntimeError:
        return "write"
    try:
        names["loss"].backward()
    except RuntimeError:
        return "backward"
    return "right" if torch.allclose(x.grad, want) else "silent"


answers(
    "prediction",
    prediction,
    {program: outcome(*both) for program, both in PROGRAMS.items()},
    {
        "A": {"write": "when", "silent": "watched", "right": "who_saves"},
        "B": {"write": "M03", "backward": "M03", "silent": "who_saves"},
        "C": {"backward": "leaf_write", "silent": "leaf_write", "right": "leaf_write"},
        "D": {"write": "when", "silent": "watched", "right": "M07"},
        "E": {"write": "when", "silent": "M12", "right": "M12"},
        "F": {"write": "when", "backward": "M05", "right": "M06"},
    },
    of=18,
)
### END HIDDEN TESTS

# %% [markdown]
# ## 3 · Find (15 points)
#
# `w` needs a gradient, `x` and `y` don't. This program raises in its last line.
#
# ```
# 1   h = x * w
# 2   g = h.sigmoid()
# 3   scale = g.max().detach()
# 4   top = g[:2]
# 5   loss = (g * y).sum()
# 6   top /= scale
# 7   h.add_(1)
# 8   loss.backward()
# ```
#
# - `"culprit"`: the number of the line that writes into a value which backward still needs.
# - `"victim"`: the number of the line that saved this value.
# - `"version"`: the version of `g` when line 8 begins.

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# Two lines write. What had been saved of what they write: a result, an input, nothing?
#
# <details><summary>Hint 2 of 3</summary>
#
# Chapter 04, section 2: whose counter does a write through a view move? Section 5: does a sigmoid save what goes in or
# what comes out?
#
# <details><summary>Hint 3 of 3</summary>
#
# The product with `y` keeps `y`, since only `g` needs a gradient. So look at the Function that made `g`, and at each line
# that changes those bytes.
#
# </details></details></details>

# %%
from seegrad import pick

pick(
    "found",
    {
        "culprit": "line",
        "victim": "line",
        "version": range(4),
    },
    """
h = x * w
g = h.sigmoid()
scale = g.max().detach()
top = g[:2]
loss = (g * y).sum()
top /= scale
h.add_(1)
loss.backward()
""",
    """
w = torch.tensor([0.5, 1.0, 2.0], requires_grad=True)
x, y = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 0.0, 1.0])
""",
    last=5,
)

# %% grade_id="find" kind="solution"
found = {"culprit": None, "victim": None, "version": None}
### BEGIN SOLUTION
found = {"culprit": 6, "victim": 2, "version": 1}
### END SOLUTION

# %% grade_id="find_test" kind="test" points=15
import operator

from seegrad.check import answers, call, expect

for line in ("culprit", "victim"):
    asked = f"found[{line!r}]"
    expect(asked, call(asked, operator.getitem, found, line)).one_of(range(1, 9))
asked = "found['version']"
expect(asked, call(asked, operator.getitem, found, "version")).one_of(range(4))
### BEGIN HIDDEN TESTS
answers(
    "found",
    found,
    {"culprit": 6, "victim": 2, "version": 1},
    {
        "culprit": {**dict.fromkeys((1, 3, 5), "writes_none"), 2: "other", 4: "shares", 7: "M03", 8: "M04"},
        "victim": {**dict.fromkeys((1, 3, 4, 5, 7), "saves_none"), 6: "other", 8: "no_node"},
        "version": {0: "M12", "*": "counts"},
    },
    of=15,
)
### END HIDDEN TESTS

# %% [markdown]
# ## 4 · Order (10 points)
#
# The life of a parameter, in pieces. Choose the lines that belong in it and put them in order, so that at the end
#
# - `w` is a leaf, and one step of gradient descent away from `start`,
# - `before` holds the `w` that the loss was computed with.
#
# Some lines don't belong. There is more than one right order.
#
# ```
# A   w = torch.zeros(3, requires_grad=True)
# B   with torch.no_grad(): w.copy_(start)
# C   w[:] = start
# D   loss = (w * w * x).sum()
# E   before = w.detach().clone()
# F   before = w.detach()
# G   loss.backward()
# H   with torch.no_grad(): w.sub_(lr * w.grad)
# I   w = w - lr * w.grad
# ```
#
# Answer with the letters, for example `"AIG"`.

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# Which of these lines write, and is each of them allowed to at that moment?
#
# <details><summary>Hint 2 of 3</summary>
#
# Chapter 04, sections 7 and 9: how a leaf is written, and when a step may come.
#
# <details><summary>Hint 3 of 3</summary>
#
# Three pairs of lines do the same job; in each, one line raises, loses the leaf, or looks at bytes that will change.
# Drop these three. The other six leave only one line that can stand in several places.
#
# </details></details></details>

# %% grade_id="order" kind="solution"
steps = None
### BEGIN SOLUTION
steps = "ABDEGH"
### END SOLUTION

# %% grade_id="order_test" kind="test" points=10
import torch
from seegrad.check import expect

expect("steps", steps).letters("ABCDEFGHI")
### BEGIN HIDDEN TESTS
from seegrad.check import perform

LINES = {
    "A": "w = torch.zeros(3, requires_grad=True)",
    "B": "with torch.no_grad(): w.copy_(start)",
    "C": "w[:] = start",
    "D": "loss = (w * w * x).sum()",
    "E": "before = w.detach().clone()",
    "F": "before = w.detach()",
    "G": "loss.backward()",
    "H": "with torch.no_grad(): w.sub_(lr * w.grad)",
    "I": "w = w - lr * w.grad",
}


def suspicion(letters):
    for letter, number in {"C": "leaf_write", "I": "M11", "F": "M05"}.items():
        if letter in letters:
            return number
    if not set("ABDEGH") <= set(letters):
        return "left_out"
    return "M07" if letters.find("H") < letters.find("G") else "twice" if len(set(letters)) < len(letters) else None


start, x = torch.rand(3) + 1, torch.rand(3) + 0.5
names = {"torch": torch, "start": start.clone(), "x": x, "lr": 0.1}
suspected = suspicion(steps)
try:
    for letter in steps[:16]:
        perform(LINES[letter], names, letter)
    w, before = names["w"], names["before"]
except Exception as error:
    expect(steps[:16], error, start=start, x=x).equals(None, suspected)
expect(f"{steps[:16]}; w.is_leaf", w.is_leaf, start=start, x=x).equals(True, suspected)
expect(f"{steps[:16]}; w", w, start=start, x=x).close(start - 0.1 * 2 * start * x, suspected)
expect(f"{steps[:16]}; before", before, start=start, x=x).close(start, suspected)
### END HIDDEN TESTS

# %% [markdown]
# ## 5 · Repair (15 points)
#
# `running_product(x)` should return a new tensor with the products `x[0]`, `x[0]·x[1]`, `x[0]·x[1]·x[2]`, …, and
# gradients have to flow back to `x` through all of them. `x` itself keeps its values.
#
# Its values are right. Its backward raises. Any repair counts, a new body too; the smallest is the easiest to check.
# Zeros may stand in `x`, so don't divide.

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# What does the product in the loop save for backward, and is that written later?
#
# <details><summary>Hint 2 of 3</summary>
#
# Chapter 04, section 2: a slice has no counter of its own. Section 12 has a row for a write that hits a saved value.
#
# <details><summary>Hint 3 of 3</summary>
#
# Filling a buffer is fine, reading a factor from the buffer that is still being filled isn't. Let the factor have bytes
# of its own.
#
# </details></details></details>


# %% grade_id="repair" kind="solution"
def running_product(x):
    out = torch.ones(len(x) + 1, dtype=x.dtype)
    for k in range(len(x)):
        out[k + 1] = out[k] * x[k]
    return out[1:]


### BEGIN SOLUTION
def running_product(x):
    out = torch.ones(len(x) + 1, dtype=x.dtype)
    for k in range(len(x)):
        out[k + 1] = out[k].clone() * x[k]
    return out[1:]


### END SOLUTION


# %% grade_id="repair_test" kind="test" points=15
import torch
from seegrad.check import call, expect

SYMPTOMS = {"raised": "M11"}
x = torch.tensor([2.0, 3.0, 0.5], dtype=torch.float64)
out = call("running_product(x)", running_product, x, suggests=SYMPTOMS, x=x)
expect("running_product(x)", out, x=x).close(torch.tensor([2.0, 6.0, 3.0]))
expect("running_product(x)", running_product, x=x).differentiable(SYMPTOMS)
### BEGIN HIDDEN TESTS
from seegrad.promise import between, leaf, numbers, promised, scattered

F64 = torch.float64
promised(
    "running_product(x)",
    running_product,
    lambda given: given.cumprod(0),
    {"x": leaf(numbers(4, holds=(0.0, -1.5)))},
    {"x": leaf(numbers(4, holds=(0.0, 0.0, -2.5), dtype=F64), grad=1.0)},
    {"x": numbers(4, low=-1)},
    {"x": between(numbers(5, holds=(-0.5,), dtype=F64))},
    {"x": scattered(numbers(3, low=10, high=40))},
    {"x": leaf(numbers(1))},
    suggests={"overwritten": "M11"},
)
### END HIDDEN TESTS

# %% [markdown]
# ## 6 · Write (15 points)
#
# Write `blend_(w, target, t)` for two parameters. It moves `w` towards `target`, `w ← (1 − t) · w + t · target`, and
# returns nothing.
#
# - `w` is written **in place**: afterwards it is the same leaf, it needs a gradient, and its `.grad` is what it was.
# - `target` keeps its values, and no later gradient reaches it through `w`.
# - Torch notices the write: a backward that needs the old `w` raises. So neither `w = …` nor `.data` will do.

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# Which way of writing a leaf is hidden from the graph, but not from the counter?
#
# <details><summary>Hint 2 of 3</summary>
#
# Chapter 04, section 7 compares three ways, once before and once after the use. It also writes a computed value.
# Chapter 02, section 4, “An update by hand”, shows a line that only moves a name.
#
# <details><summary>Hint 3 of 3</summary>
#
# Two lines are enough: one that stops the recording, one in-place operation on `w` whose argument is the whole right-hand
# side. No line may begin with `w =`.
#
# </details></details></details>


# %% grade_id="write" kind="solution"
def blend_(w, target, t):
    ### BEGIN SOLUTION
    with torch.no_grad():
        w.copy_((1 - t) * w + t * target)
    ### END SOLUTION


# %% grade_id="write_test" kind="test" points=15
import torch
from seegrad.check import call, expect

w = torch.tensor([1.0, 2.0], requires_grad=True)
target = torch.tensor([3.0, 4.0], requires_grad=True)
given = {"w": w.detach().clone(), "target": target.detach().clone()}
call("blend_(w, target, 0.5)", blend_, w, target, 0.5, suggests={"leaf_written": "M11"}, **given)
unmoved = "new_name" if torch.equal(w.detach(), torch.tensor([1.0, 2.0])) else None
expect("blend_(w, target, 0.5); w", w, **given).close(torch.tensor([2.0, 3.0]), unmoved)
### BEGIN HIDDEN TESTS
from seegrad.promise import leaf, numbers, promised


def blended(moving, fixed, share):
    with torch.no_grad():
        moving.copy_(torch.lerp(moving, fixed, share))


def pair(share, *shape, before=None, **kind):
    parameters = {"w": leaf(numbers(*shape, **kind), before), "target": leaf(numbers(*shape, **kind), -2.0)}
    return {**parameters, "t": share}


cases = [
    pair(0.25, 3, holds=(0.0,), before=1.0),
    pair(1.0, 3),
    pair(0.75, 2, 3, dtype=torch.float64, before=0.5),
    pair(0.5, 4, low=-5000, high=5000),
]
unmoved = {"unmoved": "new_name", "leaked": "M11"}
promised("blend_(w, target, t)", blend_, blended, *cases, notices="w", suggests=unmoved)
promised("blend_(w, target, t)", blend_, blended, pair(0.0, 3, before=1.0), suggests=unmoved)
### END HIDDEN TESTS

# %% [markdown]
# ## 7 · Explain (15 points)
#
# A colleague writes: *“The error says `output 0 of Relu … is at version 1; expected version 0`, and the traceback points
# at `loss.backward()`. Neither of the two writes anything, so the error is wrong. And why doesn't torch simply keep
# a copy of what it needs?”*
#
# Answer in at most 120 words: what do the name, the versions and the traceback tell, and what don't they; how do you
# find the line; why no copies; and what do you change when you have found it?

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# Who is the victim here, who rang the alarm, and who is named nowhere?
#
# <details><summary>Hint 2 of 3</summary>
#
# Chapter 04, section 3 reads the message, section 10 counts what copies would cost, section 11 looks for the line.
#
# <details><summary>Hint 3 of 3</summary>
#
# Give each of the four questions a sentence of its own. A remedy is good if the old value survives until backward has
# read it.
#
# </details></details></details>

# %% [markdown] grade_id="explain" kind="manual" points=15
# `Relu` is the victim: its result was saved for backward, at version 0. The traceback shows where torch compared the
# versions, in backward. Version 1 says that somebody wrote into those bytes once, in between; the message doesn't name
# that line. I would print `_version` of the result along the forward, or record the cell with `%%see`, and look for
# `+=`, an index assignment, an underscore, `inplace=True`, also through views and in functions that are called. Copies of
# everything that is saved would take several times the memory in each step, written or not; a counter costs nearly
# nothing. Then I would make a new tensor (`y = y + x`), or write after backward.

# %% [markdown] grade_id="explain_rubric" kind="given"
# <details><summary>How it is graded</summary>
#
# | points | for |
# |---|---|
# | 4 | what the name, the versions and the traceback tell, and what they don't |
# | 4 | a way to find the line |
# | 3 | why no copies |
# | 4 | what you change |
#
# </details>
