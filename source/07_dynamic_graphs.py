# %% [markdown]
# # Assignment 07: dynamic graphs
#
# Seven exercises, 100 points, about 60 minutes. Write your answers in the cells that say `YOUR CODE HERE` or
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
# Commit to an answer before you run anything. Stuck? Each exercise has three hints; open one at a time.

# %%
import torch

# %load_ext seegrad

# %% [markdown]
# ## 1 · Predict (15 points)
#
# Each program starts with `a = torch.tensor(3.0, requires_grad=True)`. What does `a.grad` hold at its end? Answer with
# 1, 2, 6, 7 or 12, or with `"raises"` where torch raises on the way.
#
# | | program |
# |---|---|
# | A | `loss = a + 2; loss.backward(); loss.backward()` |
# | B | `loss = a * a; loss.backward(); loss.backward()` |
# | C | `loss = a * a; loss.backward(retain_graph=True); loss.backward()` |
# | D | `(a * a).backward(); (a * a).backward()` |
# | E | `b = a.clone(); (b * b).backward(); b.backward()` |
# | F | `loss = a * a; loss.backward(retain_graph=True)`, `with torch.no_grad(): a -= 1`, `loss.backward()` |

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# What has to be there when a Node runs a second time?
#
# <details><summary>Hint 2 of 3</summary>
#
# Section 2 of the chapter lists who saves something. Section 1 says what two calls do to `.grad`.
#
# <details><summary>Hint 3 of 3</summary>
#
# Mark the Nodes through which *both* calls run. Does one of them save a tensor, and is it still there, and still
# the same? If nothing is missing, add the two gradients.
#
# </details></details></details>

# %% grade_id="predict" kind="solution"
prediction = {"A": None, "B": None, "C": None, "D": None, "E": None, "F": None}
### BEGIN SOLUTION
prediction = {"A": 2, "B": "raises", "C": 12, "D": 12, "E": 7, "F": "raises"}
### END SOLUTION

# %% grade_id="predict_test" kind="test" points=15
import operator

import torch
from seegrad.check import answers, call, expect

for program in "ABCDEF":
    asked = f"prediction[{program!r}]"
    expect(asked, call(asked, operator.getitem, prediction, program)).one_of([1, 2, 6, 7, 12, "raises"])
### BEGIN HIDDEN TESTS
PROGRAMS = {
    "A": "loss = a + 2; loss.backward(); loss.backward()",
    "B": "loss = a * a; loss.backward(); loss.backward()",
    "C": "loss = a * a; loss.backward(retain_graph=True); loss.backward()",
    "D": "(a * a).backward(); (a * a).backward()",
    "E": "b = a.clone(); (b * b).backward(); b.backward()",
    "F": "loss = a * a; loss.backward(retain_graph=True)\nwith torch.no_grad(): a -= 1\nloss.backward()",
}


def left(program):
    a = torch.tensor(3.0, requires_grad=True)
    try:
        exec(program, {"a": a, "torch": torch})
    except RuntimeError:
        return "raises"
    return int(a.grad)


answers(
    "prediction",
    prediction,
    {program: left(code) for program, code in PROGRAMS.items()},
    {
        "A": {"raises": "M10", 1: "M09", "*": "sum_slope"},
        "B": {6: "M10", 12: "M10", "*": "factors"},
        "C": {"raises": "retained", 6: "M09", "*": "square_slope"},
        "D": {"raises": "two_graphs", 6: "M09", "*": "square_slope"},
        "E": {"raises": "M10", 1: "M09", "*": "shorter"},
        "F": {12: "M07", "*": "watched"},
    },
    of=15,
)
### END HIDDEN TESTS

# %% [markdown]
# ## 2 · Find (15 points)
#
# This program raises in its second round, on line 8: *“Trying to backward through the graph a second time …”*. `w`
# needs a gradient; `data` holds ten pairs of plain tensors.
#
# ```
#  1   h = torch.zeros(3)
#  2   total = 0.0
#  3   for x, y in data:
#  4       z = w * (x + h)
#  5       h = torch.tanh(z)
#  6       loss = (h - y).sum()
#  7       total = total + loss.item()
#  8       loss.backward()
#  9       with torch.no_grad(): w -= 0.1 * w.grad
# 10       w.grad = None
# ```
#
# - `"culprit"`: the line that computes with a tensor of the round before, and so joins the two rounds' graphs.
# - `"victim"`: the line whose Node, in the round before, is the first on backward's way that no longer has what it saved.
# - `"retain"`: line 8 becomes `loss.backward(retain_graph=True)`. Do all ten rounds run? `"fine"` or `"raises"`.
# - `"total"`: mend the culprit, and write line 7 as `total = total + loss`. How many rounds' graphs hang on `total` at
#   the end: 0, 1, 2, 9 or 10?

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# Which tensor lives longer than its round?
#
# <details><summary>Hint 2 of 3</summary>
#
# Section 4, “A state carried along”, has a picture of this loop. For `"total"`, see section 3.
#
# <details><summary>Hint 3 of 3</summary>
#
# Follow backward's way from `loss` in round 2, Node by Node, until it leaves the round. The first Node behind that
# border which saves something is the victim. For `"retain"`: what does line 9 write to, and who saved it?
#
# </details></details></details>

# %%
from seegrad import pick

pick(
    "found",
    {
        "culprit": "line",
        "victim": "line",
        "retain": ["fine", "raises"],
        "total": [0, 1, 2, 9, 10],
    },
    """
h = torch.zeros(3)
total = 0.0
for x, y in data:
    z = w * (x + h)
    h = torch.tanh(z)
    loss = (h - y).sum()
    total = total + loss.item()
    loss.backward()
    with torch.no_grad(): w -= 0.1 * w.grad
    w.grad = None
""",
    """
w = torch.ones(3, requires_grad=True)
data = [(torch.tensor([1.0, 2.0, 3.0]), torch.zeros(3))] * 10
""",
)

# %% grade_id="find" kind="solution"
found = {"culprit": None, "victim": None, "retain": None, "total": None}
### BEGIN SOLUTION
found = {"culprit": 4, "victim": 5, "retain": "raises", "total": 10}
### END SOLUTION

# %% grade_id="find_test" kind="test" points=15
import operator

from seegrad.check import answers, call, expect

for line in ("culprit", "victim"):
    asked = f"found[{line!r}]"
    expect(asked, call(asked, operator.getitem, found, line)).one_of(range(1, 11))
asked = "found['retain']"
expect(asked, call(asked, operator.getitem, found, "retain")).one_of(["fine", "raises"])
asked = "found['total']"
expect(asked, call(asked, operator.getitem, found, "total")).one_of([0, 1, 2, 9, 10])
### BEGIN HIDDEN TESTS
answers(
    "found",
    found,
    {"culprit": 4, "victim": 5, "retain": "raises", "total": 10},
    {
        "culprit": {7: "item", 8: "M04", 9: "cut", "*": "carried"},
        "victim": {4: "entered", 6: "saves_none", 7: "item", "*": "no_node"},
        "retain": {"fine": "M07"},
        "total": {0: "M10", 1: "M10", "*": "joined"},
    },
    of=15,
)
### END HIDDEN TESTS

# %% [markdown]
# ## 3 · Order (15 points)
#
# One step of a recurrent network, in pieces. Choose the lines that belong in it and put them in order, so that over
# many steps
#
# - `w` learns from the step at hand alone, with that step's gradient alone;
# - `total` adds up the losses as plain numbers;
# - no saved tensor outlives its step.
#
# Some lines don't belong. There is more than one right order.
#
# ```
# A   h = torch.tanh(w * (x + h))
# B   h = torch.tanh(w * (x + h.detach()))
# C   loss = (h - y).pow(2).sum()
# D   loss.backward()
# E   loss.backward(retain_graph=True)
# F   with torch.no_grad(): w -= lr * w.grad
# G   w = w - lr * w.grad
# H   w.grad = None
# I   total += loss.item()
# ```
#
# Answer with the letters, each at most once, for example `"AIH"`.

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# Which lines come in two versions? What is the difference within each pair?
#
# <details><summary>Hint 2 of 3</summary>
#
# Section 4, “A state carried along”: the two ways that are compared there, and what each leaves behind.
#
# <details><summary>Hint 3 of 3</summary>
#
# Forward, loss, backward, update, in that order. Two lines are left over that can stand in several places: ask for
# each what it must not come before.
#
# </details></details></details>

# %% grade_id="order" kind="solution"
steps = None
### BEGIN SOLUTION
steps = "BCDFHI"
### END SOLUTION

# %% grade_id="order_test" kind="test" points=15
import torch
from seegrad.check import expect

expect("steps", steps).letters("ABCDEFGHI")
### BEGIN HIDDEN TESTS
from seegrad.check import perform

LINES = {
    "A": "h = torch.tanh(w * (x + h))",
    "B": "h = torch.tanh(w * (x + h.detach()))",
    "C": "loss = (h - y).pow(2).sum()",
    "D": "loss.backward()",
    "E": "loss.backward(retain_graph=True)",
    "F": "with torch.no_grad(): w -= lr * w.grad",
    "G": "w = w - lr * w.grad",
    "H": "w.grad = None",
    "I": "total += loss.item()",
}


def run(letters, start, xs, ys):
    names = {"torch": torch, "w": start.clone().requires_grad_(), "h": torch.zeros(3), "total": 0.0, "lr": 0.5}
    for number, (names["x"], names["y"]) in enumerate(zip(xs, ys), 1):
        for letter in letters:
            perform(LINES[letter], names, letter, number)
    return names


def freed(loss):
    try:
        torch.autograd.backward(loss)
    except RuntimeError:
        return True
    return False


def suspicion(letters):
    for letter, number in {"A": "M10", "E": "M10", "G": "M11"}.items():
        if letter in letters:
            return number
    if "DHF" in letters or "DIHF" in letters or "DHIF" in letters:
        return "thrown_away"
    if not set("BCDFI") <= set(letters):
        return "left_out"
    return "M09" if "H" not in letters else "twice" if len(set(letters)) < len(letters) else None


start, xs, ys = torch.rand(3) + 0.5, torch.rand(4, 3), torch.rand(4, 3)
given = {"w": start, "x": list(xs), "y": list(ys)}
suspected, shown = suspicion(steps), f"4 × {steps[:16]}"
try:
    came = run(steps[:16], start, xs, ys)
except Exception as error:
    expect(shown, error, **given).equals(None, suspected)
want = run("BCDFHI", start, xs, ys)
expect(f"{shown}; w", came["w"], **given).close(want["w"], suspected)
expect(f"{shown}; total", torch.as_tensor(came["total"]), **given).close(torch.as_tensor(want["total"]), suspected)
expect(f"{shown}; loss.backward()", "raises" if freed(came["loss"]) else "runs", **given).equals("raises", suspected)
### END HIDDEN TESTS

# %% [markdown]
# ## 4 · Repair (20 points)
#
# `fit(w, x, y, lr, steps)` should do `steps` steps of gradient descent on
# `(tanh(w * x) - y).pow(2).sum() + 0.1 * tanh(w * x).pow(2).sum()`. When it is called, `w.grad` is empty.
#
# 1. each step takes the gradient of both parts at the `w` of that step, and of that step alone;
# 2. `w` is updated **in place**;
# 3. at the end `w.grad` is empty (`None` or zero);
# 4. it returns the list of the losses, as plain numbers or tensors without a graph.
#
# As it stands it raises no error, and is wrong. Any repair counts, a new body too; the smallest is the easiest to check.

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# Print the losses of three steps. What do you notice, and what does it tell about `h`?
#
# <details><summary>Hint 2 of 3</summary>
#
# Section 4, “Computed once, before the loop”, and its first case: two losses, one trunk. Section 3 on what a list of
# losses keeps.
#
# <details><summary>Hint 3 of 3</summary>
#
# What depends on `w` belongs in the loop. Then neither backward call needs the flag if the two losses are one. Two
# things are still left over from each step: look at `w.grad`, and at what hangs on the list.
#
# </details></details></details>


# %% grade_id="repair_fit" kind="solution"
def fit(w, x, y, lr, steps):
    losses = []
    h = torch.tanh(w * x)
    for _ in range(steps):
        error = (h - y).pow(2).sum()
        size = 0.1 * h.pow(2).sum()
        error.backward(retain_graph=True)
        size.backward(retain_graph=True)
        with torch.no_grad():
            w -= lr * w.grad
        losses.append(error + size)
    return losses


### BEGIN SOLUTION
def fit(w, x, y, lr, steps):
    losses = []
    for _ in range(steps):
        h = torch.tanh(w * x)
        loss = (h - y).pow(2).sum() + 0.1 * h.pow(2).sum()
        loss.backward()
        with torch.no_grad():
            w -= lr * w.grad
        w.grad = None
        losses.append(loss.item())
    return losses


### END SOLUTION


# %% grade_id="repair_fit_test" kind="test" points=20
import torch
from seegrad.check import call, expect



def numbers(*arguments):
    return [float(torch.as_tensor(loss).detach()) for loss in fit(*arguments)]


w, x, y = torch.tensor([1.0, -0.5], requires_grad=True), torch.tensor([1.0, 2.0]), torch.tensor([0.0, 1.0])
given = {"w": w.detach().clone(), "x": x, "y": y}
call("fit(w, x, y, 0.1, 1)", fit, w, x, y, 0.1, 1, suggests={"freed": "M10"}, **given)
suspected = "M07" if torch.equal(w.detach(), torch.tensor([1.0, -0.5])) else None
expect("fit(w, x, y, 0.1, 1); w", w, **given).close(torch.tensor([0.929633, -0.191276]), suspected)
given["w"] = w.detach().clone()
losses = call("fit(w, x, y, 0.1, 2)", numbers, w, x, y, 0.1, 2, suggests={"freed": "M10"}, **given)
expect("len(fit(w, x, y, 0.1, 2))", len(losses), **given).equals(2)
asked = "losses = fit(w, x, y, 0.1, 2); losses[0] == losses[1]"
expect(asked, losses[0] == losses[1], **given).equals(False, "record")


### BEGIN HIDDEN TESTS
from seegrad.promise import leaf, promised
from seegrad.promise import numbers as drawn


def descended(start, factors, goals, rate, rounds):
    told = []
    for _ in range(rounds):
        inner = start.detach().clone().requires_grad_()
        reached = torch.tanh(inner * factors)
        both = (reached - goals).square().sum() + reached.square().sum() / 10
        start.detach().sub_(torch.autograd.grad(both, inner)[0], alpha=rate)
        told.append(both.detach())
    return told


def never_emptied(start, factors, goals, rate, rounds):
    told, slope = [], torch.zeros_like(start)
    for _ in range(rounds):
        told += descended(start, factors, goals, 0.0, 1)
        inner = start.detach().clone().requires_grad_()
        reached = torch.tanh(inner * factors)
        both = (reached - goals).square().sum() + reached.square().sum() / 10
        slope = slope + torch.autograd.grad(both, inner)[0]
        start.detach().sub_(slope, alpha=rate)
    start.grad = slope if rounds else None
    return told


def fitted(*shape, rate=0.3, rounds=3, low=0.5, high=1.5, **kind):
    w, x = (drawn(*shape, low=low, high=high, **kind) for _ in "wx")
    return {"w": leaf(w), "x": x, "y": drawn(*shape, low=0.0, high=1.0, **kind), "lr": rate, "steps": rounds}


F64 = torch.float64
promised(
    "fit(w, x, y, lr, steps)",
    fit,
    descended,
    fitted(3),
    fitted(3, rounds=1),
    fitted(2, 2, rate=0.1, rounds=5, low=-2.0, high=2.0, dtype=F64),
    fitted(1, rate=0.01, rounds=2, low=-8.0, high=8.0, dtype=F64),
    fitted(4, rounds=0),
    fitted(rounds=4, dtype=F64),
    empties="w",
    beliefs={"M09": never_emptied},
)
### END HIDDEN TESTS

# %% [markdown]
# ## 5 · Write (10 points)
#
# Write `shrink(x)`: it divides `x` by `part` for as long as any of its numbers is above 1 or below −1, and returns the
# result. `part` is a number of your own, which the cell below the hints makes: use that name.
#
# - How often it divides depends on the numbers; it may be never.
# - A gradient flows through it, and it is right.
# - The caller's `x` keeps its values.

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# Does a loop disturb autograd? What does a graph know of it?
#
# <details><summary>Hint 2 of 3</summary>
#
# Section 1 begins with such a loop.
#
# <details><summary>Hint 3 of 3</summary>
#
# `y = x`, then a `while` that binds `y` to a new tensor in each round. The condition may ask for numbers; what flows to
# the result has to stay a tensor.
#
# </details></details></details>

# %%
from seegrad.variants import student, variant

mine = variant(student(), "07.write_shrink", seed="autograd101")
part = mine.one_of("part", 2, 4, 8)
print(mine.said(part=part))


# %% grade_id="write_shrink" kind="solution"
def shrink(x):
    ### BEGIN SOLUTION
    while x.abs().max() > 1:
        x = x / part
    return x
    ### END SOLUTION


# %% grade_id="write_shrink_test" kind="test" points=10
import torch
from seegrad.check import call, expect

SYMPTOMS = {"kept": ("M05", "M11"), "leaf_written": "M11"}
x = torch.tensor([3.0, -1.0], requires_grad=True)
y = call("shrink(x)", shrink, x, suggests=SYMPTOMS, x=x)
rounds = {2: 2, 4: 1, 8: 1}[part]
expect("shrink(x)", y, x=x).close(torch.tensor([3.0, -1.0]) / part**rounds)
### BEGIN HIDDEN TESTS
from seegrad.promise import between, leaf, numbers, promised, scattered


def within_one(given):
    narrowed = given.view_as(given)
    while ((narrowed > 1) | (narrowed < -1)).any():
        narrowed = torch.div(narrowed, part)
    return narrowed


F64 = torch.float64
promised(
    "shrink(x)",
    shrink,
    within_one,
    {"x": leaf(numbers(3, low=-0.9, high=0.9, holds=(0.0,)))},
    {"x": leaf(numbers(4, low=-0.9, high=0.9, holds=(1.0, -1.0)), grad=1.0)},
    {"x": leaf(numbers(3, low=-0.5, high=0.5, holds=(float(part),)))},
    {"x": leaf(numbers(2, 2, low=-0.5, high=0.9, holds=(-float(part) ** 2,), dtype=F64))},
    {"x": between(numbers(5, low=-6.0, high=6.0, holds=(1.25,), dtype=F64))},
    {"x": leaf(numbers(low=-3e17, high=-2e17))},
    {"x": scattered(numbers(2, 3, low=-40.0, high=0.5, holds=(-39.0,)))},
    {"x": numbers(1, low=1.5, high=90.0, dtype=F64)},
    suggests=SYMPTOMS,
)
### END HIDDEN TESTS

# %% [markdown]
# ## 6 · Write (15 points)
#
# Write `smooth_loss(w, x)` for a model `y = torch.sigmoid(w * x).sum()`. It returns one number, a tensor to train `w`
# with:
#
# $$y + \sum_i \left(\frac{\partial y}{\partial x_i}\right)^2$$
#
# - Its gradient for `w` has to be right: the second term depends on `w` too.
# - `x` is plain data; `w` is a parameter, and `w.grad` isn't touched before the caller runs backward.

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# The second term is a gradient. What must a gradient have, to be differentiated again?
#
# <details><summary>Hint 2 of 3</summary>
#
# Section 5 shows a flag that gives it a history, and one that doesn't.
#
# <details><summary>Hint 3 of 3</summary>
#
# To ask for ∂y/∂x, `x` has to be a leaf that needs a gradient: make one of your own from the caller's. Ask with
# `torch.autograd.grad`, so that no `.grad` is filled.
#
# </details></details></details>


# %% grade_id="write_penalty" kind="solution"
def smooth_loss(w, x):
    ### BEGIN SOLUTION
    x = x.detach().clone().requires_grad_()
    y = torch.sigmoid(w * x).sum()
    (slope,) = torch.autograd.grad(y, x, create_graph=True)
    return y + slope.pow(2).sum()
    ### END SOLUTION


# %% grade_id="write_penalty_test" kind="test" points=15
import torch
from seegrad.check import call, expect

w, x = torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor([0.0, 1.0])
SYMPTOMS = {"freed": "M10", "backed": "asks_alone"}
loss = call("smooth_loss(w, x)", smooth_loss, w, x, suggests=SYMPTOMS, w=w, x=x)
suspected = "inner" if torch.is_tensor(loss) and round(loss.sum().item(), 4) == 1.4543 else None
expect("smooth_loss(w, x)", loss, w=w, x=x).close(torch.tensor(1.487392), suspected)
### BEGIN HIDDEN TESTS
from seegrad.promise import leaf, numbers, promised


def two_terms(weights, data):
    chance = 1 / (1 + (-weights * data).exp())
    return chance.sum(), (weights * chance * (1 - chance)).square().sum()


def by_hand(weights, data):
    return sum(two_terms(weights, data))


def without_slope(weights, data):
    y, penalty = two_terms(weights, data)
    return y + penalty.detach()


def slope_alone(weights, data):
    y, penalty = two_terms(weights, data)
    return y.detach() + penalty


def model(size, *, low=0.5, high=1.5, grad=None, **kind):
    w, x = numbers(size, low=low, high=high, **kind), numbers(size, low=-high, high=high, **kind)
    return {"w": leaf(w, grad), "x": x}


F64 = torch.float64
promised(
    "smooth_loss(w, x)",
    smooth_loss,
    by_hand,
    model(2),
    model(5, low=-2.0, high=2.0, grad=1.0, dtype=F64),
    model(1, dtype=F64),
    {"w": leaf(numbers(4, low=2.0, high=3.5, dtype=F64)), "x": numbers(4, low=2.0, high=3.5, dtype=F64)},
    model(3, grad=-2.0),
    suggests=SYMPTOMS,
    beliefs={"no_slope": without_slope, "cut": slope_alone},
)
### END HIDDEN TESTS

# %% [markdown]
# ## 7 · Explain (10 points)
#
# A colleague writes: *“Our recurrent model raised ‘backward through the graph a second time’. I passed
# `retain_graph=True` to every backward, as the error says. Now it runs (we update the weights once, after the last step),
# but each step is slower than the one before.”*
#
# Answer in at most 120 words: what does the first backward free, why does the second one need it, why does the flag
# make each step slower, and what would you do instead?

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# How many steps does the backward of step 100 pass?
#
# <details><summary>Hint 2 of 3</summary>
#
# Section 4 counts it.
#
# <details><summary>Hint 3 of 3</summary>
#
# Four sentences, one for each question. Name the tensor that joins the steps.
#
# </details></details></details>

# %% [markdown] grade_id="explain" kind="manual" points=10
# Backward frees the tensors that its Nodes have saved; Nodes and edges stay. The hidden state leads from step 2 into
# the graph of step 1, so the second backward reaches Nodes whose saved tensors have gone. With the flag nothing is
# freed: the backward of step 100 passes all 100 steps, and the memory of all of them is kept. I would hand the state on
# as `h.detach()`, so that each backward ends where its step begins, and drop the flag. If the loss is to reach further
# back, I would add up a few steps' losses and call backward once.

# %% [markdown] grade_id="explain_rubric" kind="given"
# <details><summary>How it is graded</summary>
#
# | points | for |
# |---|---|
# | 2 | what the first backward frees |
# | 2 | why the second one needs it |
# | 3 | why the flag makes each step slower |
# | 3 | what you would do instead |
#
# </details>
