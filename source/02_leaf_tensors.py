# %% [markdown]
# # Assignment 02: Leaf tensors
#
# Seven exercises, 100 points, about 55 minutes. Write your answers in the cells that say `YOUR CODE HERE` or
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
# ## 1 · Predict: leaf or not? (14 points)
#
# Before each line stands `w = torch.tensor([1.0, 2.0], requires_grad=True)` and `model = torch.nn.Linear(2, 1)`. Is
# `t` a leaf in the end?
#
# | | |
# |---|---|
# | A | `t = torch.ones(2, requires_grad=True) * 0.1` |
# | B | `t = torch.ones(2) * 0.1` |
# | C | `t = w.detach()` |
# | D | `t = torch.zeros(2); t[0] = w.sum()` |
# | E | `t = model.eval()(w)` |
# | F | `with torch.no_grad(): t = w * 2` |
# | G | `t = w.float()` |
#
# Answer with `True` or `False`.

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# Which of them has a note saying what made it?
#
# <details><summary>Hint 2 of 3</summary>
#
# Chapter 02, section 1: the list of eight tensors, the rule under it, and the buffer that is written into. Section 4:
# the calls that have nothing to do. Section 7: what `eval()` is for.
#
# <details><summary>Hint 3 of 3</summary>
#
# Ask of each: was there an operation, did anything that went into it require a gradient, and was autograd recording?
# Three times yes, and there is a `grad_fn`.
#
# </details></details></details>

# %% grade_id="predict" kind="solution"
leaf = {"A": None, "B": None, "C": None, "D": None, "E": None, "F": None, "G": None}
### BEGIN SOLUTION
leaf = {"A": False, "B": True, "C": True, "D": False, "E": False, "F": True, "G": True}
### END SOLUTION

# %% grade_id="predict_test" kind="test" points=14
import torch
from seegrad.check import answers, expect

expect("type(leaf).__name__", type(leaf).__name__).equals("dict")
expect("sorted(leaf)", sorted(leaf, key=str)).equals(list("ABCDEFG"))
for program in "ABCDEFG":
    expect(f"leaf[{program!r}]", leaf[program]).one_of([True, False])
### BEGIN HIDDEN TESTS
def written(w):
    t = torch.zeros(2)
    t[0] = w.sum()
    return t


PROGRAMS = {
    "A": lambda w, model: torch.ones(2, requires_grad=True) * 0.1,
    "B": lambda w, model: torch.ones(2) * 0.1,
    "C": lambda w, model: w.detach(),
    "D": lambda w, model: written(w),
    "E": lambda w, model: model.eval()(w),
    "F": lambda w, model: torch.no_grad()(torch.mul)(w, 2),
    "G": lambda w, model: w.float(),
}
made = {
    program: make(torch.tensor([1.0, 2.0], requires_grad=True), torch.nn.Linear(2, 1))
    for program, make in PROGRAMS.items()
}
answers(
    "leaf",
    leaf,
    {program: t.grad_fn is None for program, t in made.items()},
    {
        "A": {True: "M01"},
        "B": {False: "leaf"},
        "C": {False: "leaf"},
        "D": {True: "history"},
        "E": {True: "M08"},
        "F": {False: "leaf"},
        "G": {False: "same"},
    },
    of=14,
)
### END HIDDEN TESTS

# %% [markdown]
# ## 2 · Predict: what stands in `.grad`? (12 points)
#
# ```
# w, v, u, q = (torch.tensor(1.0, requires_grad=True) for _ in range(4))
# c = torch.tensor(1.0)
# dropout = torch.nn.Dropout(0.5).eval()
#
# for _ in range(2):
#     h = w * c
#     loss = 4 * h + 4 * v.detach() + 0 * u + 4 * dropout(q)
#     loss.backward()
# ```
#
# What is in the `.grad` of each of the six tensors at the end? Answer with a number, `0`, `4` or `8`, or with
# `"none"`.

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# For each of the six: does it keep a gradient at all, does a way from the loss lead to it, and how many times?
#
# <details><summary>Hint 2 of 3</summary>
#
# Chapter 02: the table in section 2 and “`None` isn't zero” below it, the start of section 6, and section 7 for what
# `eval()` does.
#
# <details><summary>Hint 3 of 3</summary>
#
# First put `"none"` where something isn't a leaf, didn't ask, or is cut off. For the rest take the slope of one pass,
# and remember that there are two passes and nobody empties anything between them.
#
# </details></details></details>

# %% grade_id="predict_grads" kind="solution"
grad = {"w": None, "c": None, "h": None, "v": None, "u": None, "q": None}
### BEGIN SOLUTION
grad = {"w": 8, "c": "none", "h": "none", "v": "none", "u": 0, "q": 8}
### END SOLUTION

# %% grade_id="predict_grads_test" kind="test" points=12
import torch
from seegrad.check import answers, expect

expect("type(grad).__name__", type(grad).__name__).equals("dict")
expect("sorted(grad)", sorted(grad, key=str)).equals(["c", "h", "q", "u", "v", "w"])
for name in grad:
    expect(f"grad[{name!r}]", grad[name]).one_of([0, 4, 8, "none"])
### BEGIN HIDDEN TESTS
answers(
    "grad",
    grad,
    {"w": 8, "c": "none", "h": "none", "v": "none", "u": 0, "q": 8},
    {
        "w": {0: "reached", 4: "M09", "none": "reached"},
        "c": {0: "zero", 4: "unasked", 8: "unasked"},
        "h": {0: "zero", 4: "M02", 8: "M02"},
        "v": {0: "zero", 4: "cut", 8: "cut"},
        "u": {"none": "zero", "*": "zero_slope"},
        "q": {0: "M08", 4: "M09", "none": "M08"},
    },
    of=12,
)
### END HIDDEN TESTS

# %% [markdown]
# ## 3 · Find (16 points)
#
# Nothing raises here, the last line prints `None`, and the loss never falls. `batches` holds tensors of type
# `float64`.
#
# ```
# 1   w = torch.zeros(3, requires_grad=True)
# 2   optimizer = torch.optim.SGD([w], lr=0.05)
# 3   w = w.double()
# 4   for x, y in batches:
# 5       optimizer.zero_grad()
# 6       loss = ((w * x).sum() - y) ** 2
# 7       loss.backward()
# 8       optimizer.step()
# 9   print(w.grad)
# ```
#
# - `"culprit"`: the number of the line without which the loss would fall.
# - `"filled"`: line 7 fills the `.grad` of one tensor. The number of the line that made this tensor: `1`, `3` or `6`.
# - `"w"`: at line 9, are the numbers in `w` still zeros, `"zeros"`, or did they move, `"moved"`?
#
# And `"repair"`: which of these changes, made alone, lets `w` learn?
#
# | | |
# |---|---|
# | A | `w.retain_grad()` after line 3 |
# | B | `loss.backward(retain_graph=True)` in line 7 |
# | C | `dtype=torch.float64` in line 1, and no line 3 |
# | D | `w = w.double().requires_grad_()` in line 3 |

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# How many tensors have been called `w` in the course of this program, and which of them does the optimiser know?
#
# <details><summary>Hint 2 of 3</summary>
#
# Chapter 02, section 4, “An optimiser and a name”.
#
# <details><summary>Hint 3 of 3</summary>
#
# Follow one tensor at a time. Backward fills leaves only; the optimiser moves what it was given in the second line;
# the loss is computed from whatever the name means inside the loop. A repair has to make all three the same tensor.
#
# </details></details></details>

# %%
from seegrad import pick

pick(
    "found",
    {
        "culprit": "line",
        "filled": "line 1 3 6",
        "w": ["zeros", "moved"],
        "repair": ["A", "B", "C", "D"],
    },
    """
w = torch.zeros(3, requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.05)
w = w.double()
for x, y in batches:
    optimizer.zero_grad()
    loss = ((w * x).sum() - y) ** 2
    loss.backward()
    optimizer.step()
print(w.grad)
""",
    """
batches = [(torch.tensor([1.0, 2.0, 3.0]).double(), torch.tensor(1.0).double())]
""",
)

# %% grade_id="find" kind="solution"
found = {"culprit": None, "filled": None, "w": None, "repair": None}
### BEGIN SOLUTION
found = {"culprit": 3, "filled": 1, "w": "zeros", "repair": "C"}
### END SOLUTION

# %% grade_id="find_test" kind="test" points=16
from seegrad.check import answers, expect

expect("type(found).__name__", type(found).__name__).equals("dict")
expect("sorted(found)", sorted(found, key=str)).equals(["culprit", "filled", "repair", "w"])
expect("found['culprit']", found["culprit"]).one_of(range(1, 10))
expect("found['filled']", found["filled"]).one_of([1, 3, 6])
expect("found['w']", found["w"]).one_of(["zeros", "moved"])
expect("found['repair']", found["repair"]).one_of(["A", "B", "C", "D"])
### BEGIN HIDDEN TESTS
answers(
    "found",
    found,
    {"culprit": 3, "filled": 1, "w": "zeros", "repair": "C"},
    {
        "culprit": {"*": "optimiser"},
        "filled": {3: "M01", 6: "M02"},
        "w": {"moved": "optimiser"},
        "repair": {"A": "optimiser", "B": "M10", "D": "M01"},
    },
    of=16,
)
### END HIDDEN TESTS

# %% [markdown]
# ## 4 · Repair (20 points)
#
# `fit(start, x, y, lr, steps)` should
#
# 1. begin with `w` at 0.1 · `start`, and leave `start` as it is;
# 2. take `steps` steps of gradient descent on the mean of `(x @ w - y) ** 2`, each from the gradient at the present
#    `w`;
# 3. return `w` as a leaf that requires a gradient, with an empty `.grad` (`None` or zero), ready for more training.
#
# `start` doesn't require a gradient. The function doesn't get through its first step. Any repair counts, a new body
# too; the smallest is the easiest to check.

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# After the first line of the function: what made `w`? And after the last line of the loop?
#
# <details><summary>Hint 2 of 3</summary>
#
# Chapter 02, section 4: “Born right” for the beginning, “An update by hand” for the loop. Section 6 for what is left
# over from one step to the next.
#
# <details><summary>Hint 3 of 3</summary>
#
# Three things are wrong, and the error shows only the first. Ask for the gradient last, after scaling. Write into the
# leaf, where nobody records, and don't bind the name anew. Empty what the step has used.
#
# </details></details></details>

# %% grade_id="repair" kind="solution"
def fit(start, x, y, lr, steps):
    w = start.requires_grad_() * 0.1
    for _ in range(steps):
        loss = ((x @ w - y) ** 2).mean()
        loss.backward()
        w = w - lr * w.grad
    return w


### BEGIN SOLUTION
def fit(start, x, y, lr, steps):
    w = (start * 0.1).requires_grad_()
    for _ in range(steps):
        loss = ((x @ w - y) ** 2).mean()
        loss.backward()
        with torch.no_grad():
            w -= lr * w.grad
        w.grad = None
    return w
### END SOLUTION


# %% grade_id="repair_test" kind="test" points=20
import torch
from seegrad.check import call, expect

start = torch.tensor([10.0, -10.0])
x, y = torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.tensor([0.0, 1.0])
w = call("fit(start, x, y, 0.1, 1)", fit, start, x, y, 0.1, 1, suggests={"raised": "M01"}, start=start, x=x, y=y)
expect("fit(start, x, y, 0.1, 1)", w, start=start, x=x, y=y).close(torch.tensor([0.9, -0.4]))
expect("fit(start, x, y, 0.1, 1).is_leaf", w.is_leaf, start=start, x=x, y=y).equals(True, "M01")
expect("fit(start, x, y, 0.1, 1).requires_grad", w.requires_grad, start=start, x=x, y=y).equals(True, "M07")
### BEGIN HIDDEN TESTS
from seegrad.promise import numbers, promised


def descended(start, x, y, lr, rounds):
    weights = start * 0.1
    for _ in range(rounds):
        weights = weights - lr * 2 * x.T @ (x @ weights - y) / len(y)
    return weights.requires_grad_()


def never_emptied(start, x, y, lr, rounds):
    weights, slope = start * 0.1, 0
    for _ in range(rounds):
        slope = slope + 2 * x.T @ (x @ weights - y) / len(y)
        weights = weights - lr * slope
    weights.requires_grad_()
    weights.grad = slope if rounds else None
    return weights


def data(rows, size, rate, rounds, scale=1.0, **kind):
    start = numbers(size, low=-9, high=9, holds=(4.0,), **kind) * scale
    x, y = numbers(rows, size, low=-1, high=1, holds=(1.0, -1.0), **kind), numbers(rows, **kind)
    return {"start": start, "x": x, "y": y, "lr": rate, "steps": rounds}


promised(
    "fit(start, x, y, lr, steps)",
    fit,
    descended,
    data(5, 2, 0.25, 3),
    data(5, 2, 0.1, 1),
    data(3, 4, 0.05, 4, dtype=torch.float64),
    data(2, 1, 0.1, 2, scale=500.0),
    data(4, 3, 0.5, 0),
    suggests={"empty": "M01", "result_leaf": "M01", "asks": "M07", "unrecorded": "rebound"},
    beliefs={"M09": never_emptied},
)
### END HIDDEN TESTS

# %% [markdown]
# ## 5 · Write (18 points)
#
# A batch that doesn't fit into memory comes in parts. Write `accumulate(w, parts)`.
#
# - `w` is a leaf with one number. `parts` is a list of pairs `(x, y)` of vectors: `x[k]` and `y[k]` are one example. The
#   parts needn't be equally long.
# - The loss of one example is `(w * x - y) ** 2`.
# - Afterwards `w.grad` is the gradient of the **mean over all examples of all parts**, whatever stood in it before.
# - It returns this mean loss: a number, or a tensor without history.
#
# `w` keeps its value and stays the leaf that it is.

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# If the parts have 1 and 3 examples: how much does each example weigh in the mean of the two means?
#
# <details><summary>Hint 2 of 3</summary>
#
# Chapter 02, section 6: “On purpose” for the parts, `zero_grad` for what stood there before.
#
# <details><summary>Hint 3 of 3</summary>
#
# Count the examples first, and empty the gradient once. Then let each part add its share: its *sum*, divided by the
# number of all examples. Only the number of the loss goes into the total that you return.
#
# </details></details></details>

# %% grade_id="write" kind="solution"
def accumulate(w, parts):
    ### BEGIN SOLUTION
    count = sum(len(x) for x, _ in parts)
    total = 0.0
    w.grad = None
    for x, y in parts:
        loss = ((w * x - y) ** 2).sum() / count
        loss.backward()
        total += loss.item()
    return total
    ### END SOLUTION


# %% grade_id="write_test" kind="test" points=18
import torch
from seegrad.check import call, expect
from seegrad.telling import number_of

w = torch.tensor(1.0, requires_grad=True)
parts = [(torch.tensor([1.0]), torch.zeros(1)), (torch.tensor([2.0, 3.0, 4.0]), torch.zeros(3))]
loss = call("accumulate(w, parts)", accumulate, w, parts, w=w, parts=parts)
suspected = "unequal" if abs((number_of(loss) or 0) - 16 / 3) < 1e-3 else None
expect("accumulate(w, parts)", loss, w=w, parts=parts).close(7.5, suspected)
expect("accumulate(w, parts); w.grad is None", w.grad is None, w=w, parts=parts).equals(False, "M01")
suspected = "M09" if w.grad is not None and w.grad.tolist() == 14.5 else None
expect("accumulate(w, parts); w.grad", w.grad, w=w, parts=parts).close(torch.tensor(15.0), suspected)
### BEGIN HIDDEN TESTS
from seegrad.promise import leaf, numbers, promised


def over_all(weight, pieces):
    x, y = (torch.cat(column) for column in zip(*pieces, strict=True))
    error = weight.detach() * x - y
    weight.grad = 2 * (error * x).mean()
    return float(error.square().mean())


def by_parts(weight, pieces):
    errors = [(weight.detach() * x - y, x) for x, y in pieces]
    weight.grad = sum(2 * (error * x).mean() for error, x in errors) / len(errors)
    return float(sum(error.square().mean() for error, _x in errors)) / len(errors)


def split(*lengths, before=None, scale=1.0, **kind):
    pieces = [(numbers(length, **kind) * scale, numbers(length, **kind)) for length in lengths]
    return {"w": leaf(numbers(**kind), before), "parts": pieces}


cases = [
    split(2, 2),
    split(1, 3, before=5.0),
    split(4, 1, 2, before=-2.0, dtype=torch.float64),
    split(3, scale=30.0),
    split(1, 1, 1, 2, 5, scale=0.01, before=0.5),
]
promised("accumulate(w, parts)", accumulate, over_all, *cases, beliefs={"unequal": by_parts})
w, parts = torch.tensor(0.5, requires_grad=True), split(2, 3)["parts"]
loss, asked = torch.as_tensor(accumulate(w, parts)), "torch.as_tensor(accumulate(w, parts)).requires_grad"
expect(asked, loss.requires_grad, w=w, parts=parts).equals(False, "item")
### END HIDDEN TESTS

# %% [markdown]
# ## 6 · Order (10 points)
#
# One training step on a batch in two halves, to be repeated many times: each time `w` should move once, along the
# gradient of `loss(first) + loss(second)`. `loss(part)` computes with `w`; `optimizer` was made with `w`. Before the
# first time `w.grad` is empty.
#
# ```
# A   optimizer.zero_grad()
# B   loss(first).backward()
# C   loss(second).backward()
# D   optimizer.step()
# E   w = w.double()
# F   with torch.no_grad(): w = w - lr * w.grad
# G   (loss(first) + loss(second)).backward()
# H   with torch.no_grad(): loss(second).backward()
# ```
#
# Some lines don't belong. There is more than one right answer. Answer with the letters, for example `"EFH"`.

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# After which line is the gradient complete, and which line may come only then?
#
# <details><summary>Hint 2 of 3</summary>
#
# Chapter 02, section 6: “Where `zero_grad` belongs” and “On purpose”. Section 4 says which lines leave `w` another
# tensor than the optimiser's.
#
# <details><summary>Hint 3 of 3</summary>
#
# Two lines bind the name `w` to a new tensor, and one has no graph to run backward on. Of the rest, take the gradient
# of both halves exactly once, and empty it once in each round: not between filling and using.
#
# </details></details></details>

# %% grade_id="order" kind="solution"
steps = None
### BEGIN SOLUTION
steps = "ABCD"
### END SOLUTION

# %% grade_id="order_test" kind="test" points=10
import torch
from seegrad.check import expect

expect("steps", steps).letters("ABCDEFGH")
### BEGIN HIDDEN TESTS
import re

from seegrad.check import perform

LINES = {
    "A": "optimizer.zero_grad()",
    "B": "loss(first).backward()",
    "C": "loss(second).backward()",
    "D": "optimizer.step()",
    "E": "w = w.double()",
    "F": "with torch.no_grad(): w = w - lr * w.grad",
    "G": "(loss(first) + loss(second)).backward()",
    "H": "with torch.no_grad(): loss(second).backward()",
}


def run(letters, start, first, second, times):
    names = {"torch": torch, "w": start.clone().requires_grad_(), "first": first, "second": second, "lr": 0.1}
    names["optimizer"] = torch.optim.SGD([names["w"]], lr=0.1)
    exec("def loss(part): return (w * part).sin().sum()", names)
    for number in range(times):
        for letter in letters:
            perform(LINES[letter], names, letter, number + 1)
    return names["w"].detach().float()


def suspicion(letters):
    for letter, number in {"E": "M01", "F": "M07", "H": "cut"}.items():
        if letter in letters:
            return number
    if re.search("[BCG][^D]*A[^D]*D", letters):
        return "thrown_away"
    if "D" not in letters or not ("G" in letters or {"B", "C"} <= set(letters)):
        return "left_out"
    return "M09" if "A" not in letters else "twice" if len(set(letters)) < len(letters) else None


start, first, second = torch.rand(3), torch.rand(3) + 0.5, torch.rand(3) + 0.5
given = {"w": start, "first": first, "second": second}
suspected = suspicion(steps)
try:
    w = run(steps[:16], start, first, second, 3)
except Exception as error:
    expect(f"3 × {steps[:16]}", error, **given).equals(None, suspected)
expect(f"3 × {steps[:16]}; w", w, **given).close(run("ABCD", start, first, second, 3), suspected)
### END HIDDEN TESTS

# %% [markdown]
# ## 7 · Explain (10 points)
#
# A colleague writes: *“`w = torch.randn(10, requires_grad=True).to(device)`. On my laptop it trains. On the server with
# the GPU `w.grad` is `None`, without any error. I wrote `requires_grad=True`! The GPU's torch must be broken.”*
#
# Answer in at most 120 words: why does the same line work on the laptop, where is the gradient on the server, how can
# the colleague see it in one line, and how should the line be written?

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# What does `.to(device)` return when the tensor is already there?
#
# <details><summary>Hint 2 of 3</summary>
#
# Chapter 02, section 4: “Which calls make a new tensor?” and the two cells above it.
#
# <details><summary>Hint 3 of 3</summary>
#
# Name both tensors of the server: the one that was asked for a gradient, and the one that is called `w`. Say which of
# them is a leaf, and by which attribute you can tell.
#
# </details></details></details>

# %% [markdown] grade_id="explain" kind="manual" points=10
# On the laptop `device` is the CPU, so `.to(device)` has nothing to do and returns the tensor itself: a leaf. On the
# server it is an operation that makes a new tensor, with a `grad_fn`. `requires_grad` is True for both, but backward
# fills `.grad` in leaves only: the gradient is in the tensor on the CPU, which has no name and which only the graph can
# reach. `w.is_leaf`, or `w.grad_fn`, shows it. Write `torch.randn(10, device=device, requires_grad=True)`, or move
# first and call `requires_grad_()` last; and make the optimiser after that.

# %% [markdown] grade_id="explain_rubric" kind="given"
# <details><summary>How it is graded</summary>
#
# | points | for |
# |---|---|
# | 3 | why the line works on the laptop |
# | 3 | where the gradient is on the server, and why |
# | 2 | a line that shows it |
# | 2 | the line as it should be written |
#
# </details>
