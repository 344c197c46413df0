# %% [markdown]
# # Assignment 10: a model that trains
#
# Six exercises, 100 points, about 70 minutes. Write your answers in the cells that say `YOUR CODE HERE` or
# `YOUR ANSWER HERE`. In a cell of code, replace each `None`, or write your code in the place of the comment, and delete
# the line `raise NotImplementedError()`.
#
# The cell below each answer checks it: code that you wrote is run, an answer that you chose is only checked for its
# form, not for being right. **Validate** runs the same cells; more checks run when your work is graded, with other
# numbers.
#
# Some answers can be given on a picture: run the cell with `pick` above the answer cell. It shows the program's graph up
# to `backward`, and writes what you choose into the answer cell. It knows no more than you do.
#
# In exercises 2, 4 and 5 seegrad may help you: run the program within `with seegrad.record() as rec:`, and read
# `rec.diagnoses`.

# %%
import torch
from torch import nn
from torch.nn import functional as F

import seegrad

# %load_ext seegrad

x = torch.tensor([[1.0, -1.0], [0.5, 2.0], [-1.5, 0.5], [2.0, 1.0]])
y = torch.tensor([[1.0], [0.0], [-1.0], [2.0]])

# %% [markdown]
# ## 1 · Predict (15 points)
#
# `w` is a leaf that holds 10, and `optimizer` is `torch.optim.SGD([w], lr=1.0)`. A round has these lines. Which number
# does `w` hold after **two** rounds?
#
# | | a round |
# |---|---|
# | A | `optimizer.zero_grad()`, `(3 * w).backward()`, `optimizer.step()` |
# | B | `(3 * w).backward()`, `optimizer.step()` |
# | C | `(3 * w).backward()`, `optimizer.zero_grad()`, `optimizer.step()` |
# | D | `optimizer.step()`, `optimizer.zero_grad()`, `(3 * w).backward()` |
# | E | `optimizer.zero_grad()`, `(3 * w).backward()`, `(3 * w).backward()`, `optimizer.step()` |
# | F | as A; but once, before the first round, `w = w.detach().clone().requires_grad_()` |
#
# Each answer is a whole number.

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# What stands in `w.grad` at the moment when `step` reads it?
#
# <details><summary>Hint 2 of 3</summary>
#
# Chapter 10, section 1 says what each line is there for; section 3 has a loop without one of them.
#
# <details><summary>Hint 3 of 3</summary>
#
# Write down `w.grad` and `w` line by line. In D the first round's gradient is used by the second. In F ask which tensor
# the optimiser was given.
#
# </details></details></details>

# %% grade_id="predict" kind="solution"
prediction = {"A": None, "B": None, "C": None, "D": None, "E": None, "F": None}
### BEGIN SOLUTION
prediction = {"A": 4, "B": 1, "C": 10, "D": 7, "E": -2, "F": 10}
### END SOLUTION

# %% grade_id="predict_test" kind="test" points=15
import operator

from seegrad.check import answers, call, expect

for loop in "ABCDEF":
    asked = f"prediction[{loop!r}]"
    expect(asked, call(asked, operator.getitem, prediction, loop)).of_type(int)
### BEGIN HIDDEN TESTS
import torch

ROUNDS = {"A": "zbs", "B": "bs", "C": "bzs", "D": "szb", "E": "zbbs", "F": "zbs"}


def held_after(letters, times, anew=False):
    weight = torch.tensor(10.0, requires_grad=True)
    mover = torch.optim.SGD([weight], lr=1.0)
    weight = weight.detach().clone().requires_grad_() if anew else weight
    for letter in letters * times:
        if letter == "b":
            (3 * weight).backward()
        else:
            (mover.zero_grad if letter == "z" else mover.step)()
    return int(weight.item())


answers(
    "prediction",
    prediction,
    {loop: held_after(letters, 2, loop == "F") for loop, letters in ROUNDS.items()},
    {
        "B": {4: "M09"},
        "C": {4: "thrown_away", 7: "thrown_away"},
        "E": {4: "M09"},
        "F": {4: "optimiser"},
    },
    of=15,
)
### END HIDDEN TESTS

# %% [markdown]
# ## 2 · Find (20 points)
#
# Four training programs and what their owners say. `x` and `y` are those above.
#
# **Program P.** *“It needs more memory in every round.”*
#
# ```
# 1   model = nn.Linear(2, 1)
# 2   optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
# 3   total = 0
# 4   for step in range(5):
# 5       loss = (model(x) - y).pow(2).mean()
# 6       optimizer.zero_grad()
# 7       loss.backward()
# 8       optimizer.step()
# 9       total += loss
# 10  mean = total.item() / 5
# ```

# %% [markdown]
# **Program Q.** *“I go back to the best weights, and they are no better than the last.”*
#
# ```
# 1   model = nn.Linear(2, 1)
# 2   optimizer = torch.optim.SGD(model.parameters(), lr=0.9)
# 3   lowest = float("inf")
# 4   for step in range(5):
# 5       loss = (model(x) - y).pow(2).mean()
# 6       if loss.item() < lowest:
# 7           lowest, best = loss.item(), model.state_dict()
# 8       optimizer.zero_grad()
# 9       loss.backward()
# 10      optimizer.step()
# 11  model.load_state_dict(best)
# ```

# %% [markdown]
# **Program R.** *“Two halves of a batch should count as one batch. It learns as if there were only one half.”*
#
# ```
# 1   model = nn.Linear(2, 1)
# 2   optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
# 3   halves = ((x[:2], y[:2]), (x[2:], y[2:]))
# 4   for step in range(5):
# 5       for part, wanted in halves:
# 6           loss = (model(part) - wanted).pow(2).mean() / 2
# 7           optimizer.zero_grad()
# 8           loss.backward()
# 9       optimizer.step()
# ```

# %% [markdown]
# **Program S.** *“The same halves. Is everything in order here?”*
#
# ```
# 1   model = nn.Linear(2, 1)
# 2   optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
# 3   halves = ((x[:2], y[:2]), (x[2:], y[2:]))
# 4   for step in range(5):
# 5       for part, wanted in halves:
# 6           loss = (model(part) - wanted).pow(2).mean() / 2
# 7           loss.backward()
# 8       optimizer.step()
# 9       optimizer.zero_grad()
# ```
#
# Which line has to be changed or moved in each of them? One line does; 0 stands for “none”.

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# What does the owner complain about: what is kept, what is thrown away, or what is added up?
#
# <details><summary>Hint 2 of 3</summary>
#
# Chapter 10, section 8 goes from the symptom to what to look at. Record each program, and read what seegrad finds.
#
# <details><summary>Hint 3 of 3</summary>
#
# In P and Q one line keeps something that lives on. In R and S count, at the moment of `step`, how many halves stand in
# `.grad`.
#
# </details></details></details>

# %%
from seegrad import pick

pick(
    "found",
    {
        "P": "line or none",
    },
    """
model = nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
total = 0
for step in range(5):
    loss = (model(x) - y).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total += loss
mean = total.item() / 5
""",
    """
x = torch.tensor([[1.0, -1.0], [0.5, 2.0], [-1.5, 0.5], [2.0, 1.0]])
y = torch.tensor([[1.0], [0.0], [-1.0], [2.0]])
""",
    part=True,
)

# %%
from seegrad import pick

pick(
    "found",
    {
        "Q": "line or none",
    },
    """
model = nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.9)
lowest = float("inf")
for step in range(5):
    loss = (model(x) - y).pow(2).mean()
    if loss.item() < lowest:
        lowest, best = loss.item(), model.state_dict()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
model.load_state_dict(best)
""",
    """
x = torch.tensor([[1.0, -1.0], [0.5, 2.0], [-1.5, 0.5], [2.0, 1.0]])
y = torch.tensor([[1.0], [0.0], [-1.0], [2.0]])
""",
    part=True,
)

# %%
from seegrad import pick

pick(
    "found",
    {
        "R": "line or none",
    },
    """
model = nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
halves = ((x[:2], y[:2]), (x[2:], y[2:]))
for step in range(5):
    for part, wanted in halves:
        loss = (model(part) - wanted).pow(2).mean() / 2
        optimizer.zero_grad()
        loss.backward()
    optimizer.step()
""",
    """
x = torch.tensor([[1.0, -1.0], [0.5, 2.0], [-1.5, 0.5], [2.0, 1.0]])
y = torch.tensor([[1.0], [0.0], [-1.0], [2.0]])
""",
    part=True,
)

# %%
from seegrad import pick

pick(
    "found",
    {
        "S": "line or none",
    },
    """
model = nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
halves = ((x[:2], y[:2]), (x[2:], y[2:]))
for step in range(5):
    for part, wanted in halves:
        loss = (model(part) - wanted).pow(2).mean() / 2
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
""",
    """
x = torch.tensor([[1.0, -1.0], [0.5, 2.0], [-1.5, 0.5], [2.0, 1.0]])
y = torch.tensor([[1.0], [0.0], [-1.0], [2.0]])
""",
    part=True,
)

# %% grade_id="find" kind="solution"
found = {"P": None, "Q": None, "R": None, "S": None}
### BEGIN SOLUTION
found = {"P": 9, "Q": 7, "R": 7, "S": 0}
### END SOLUTION

# %% grade_id="find_test" kind="test" points=20
import operator

from seegrad.check import answers, call, expect

for program, count in {"P": 10, "Q": 11, "R": 9, "S": 9}.items():
    asked = f"found[{program!r}]"
    expect(asked, call(asked, operator.getitem, found, program)).one_of(range(count + 1))
### BEGIN HIDDEN TESTS
answers(
    "found",
    found,
    {"P": 9, "Q": 7, "R": 7, "S": 0},
    {
        "P": {"*": "joined"},
        "Q": {"*": "bytes"},
        "R": {"*": "thrown_away"},
    },
    of=20,
)
### END HIDDEN TESTS

# %% [markdown]
# ## 3 · Write: the loop of a model of letters (25 points)
#
# A text is a tensor `codes` of whole numbers, one a letter. The smallest model of letters is a `table` of scores:
# `table[i, j]` says how well letter `j` follows letter `i`. Its loss is the mean surprise at each letter, given the one
# before: `F.cross_entropy(table[codes[:-1]], codes[1:])`.

# %% [markdown]
# Write `train(table, codes, rate, steps)`: `steps` times a step of gradient descent, in which `table` loses `rate` times
# the gradient of the loss.
#
# - `table` is a leaf that requires a gradient. It is written in place, and stays such a leaf.
# - What stands in `table.grad` before the call must not be used. Afterwards `table.grad` is empty: `None`, or zeros.
# - It returns a list: for each step the loss **before** it, as a float.
# - `codes` isn't changed.

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# Which four things happen in a round, and in which order?
#
# <details><summary>Hint 2 of 3</summary>
#
# Chapter 10, section 2: “The loop is yours”. Which optimiser subtracts just the rate times the gradient?
#
# <details><summary>Hint 3 of 3</summary>
#
# Empty before each backward, and once more at the end. A float is what `item` makes of a loss. With `steps` equal to 0
# the list is empty, and so is `table.grad`.
#
# </details></details></details>


# %% grade_id="write_loop" kind="solution"
def train(table, codes, rate, steps):
    ### BEGIN SOLUTION
    optimizer = torch.optim.SGD([table], lr=rate)
    losses = []
    for _ in range(steps):
        loss = F.cross_entropy(table[codes[:-1]], codes[1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    optimizer.zero_grad()
    return losses
    ### END SOLUTION


# %% grade_id="write_loop_test" kind="test" points=25
import torch
from seegrad.check import call, expect

table, codes = torch.zeros(2, 2, requires_grad=True), torch.tensor([0, 1, 0, 1])
given = {"table": table.detach().clone(), "codes": codes}
suggested = {"leaf_written": "M11", "unrecorded": "cut"}
losses = call("train(table, codes, 3.0, 2)", train, table, codes, 3.0, 2, suggests=suggested, **given)
expect("train(table, codes, 3.0, 2)", losses, **given).of_type(list)
expect("len(train(table, codes, 3.0, 2))", len(losses), **given).equals(2)
expect("train(table, codes, 3.0, 2)[0]", losses[0], **given).of_type(float, "item")
expect("train(table, codes, 3.0, 2)[0]", losses[0], **given).close(0.693147)
expect("train(table, codes, 3.0, 2)[1]", losses[1], **given).close(0.189039)
wanted = torch.tensor([[-1.238405, 1.238405], [0.768941, -0.768941]])
added = torch.tensor([[-2.238405, 2.238405], [1.268941, -1.268941]])
suspected = "M09" if torch.allclose(table.detach(), added) else None
expect("train(table, codes, 3.0, 2); table", table, **given).close(wanted, suspected)
### BEGIN HIDDEN TESTS
from seegrad.promise import leaf, numbers, promised

F64 = torch.float64


def by_hand(scores, letters, rate, rounds, *, adds=False):
    before, after, recounted, slope = letters[:-1], letters[1:], [], 0
    old = 0 if scores.grad is None or not adds else scores.grad
    for _ in range(rounds):
        now = scores.detach()[before]
        recounted.append(float((now.logsumexp(1) - now.gather(1, after[:, None])[:, 0]).mean()))
        off = now.softmax(1).scatter_add(1, after[:, None], -torch.ones_like(now[:, :1])) / len(after)
        slope = torch.zeros_like(scores).detach().index_add(0, before, off) + (slope + old if adds else 0)
        old = 0
        scores.detach().sub_(rate * slope)
    scores.grad = None
    return recounted


def text(letters, length, rate, rounds, *, grad=None, scale=1.0, dtype=torch.float32):
    drawn = torch.cat([torch.tensor([0, 0]), torch.randint(letters, (length - 2,))])
    table = numbers(letters, letters, holds=(0.0,), dtype=dtype) * scale
    return {"table": leaf(table, grad), "codes": drawn, "rate": rate, "steps": rounds}


promised(
    "train(table, codes, rate, steps)",
    train,
    by_hand,
    text(3, 9, 0.5, 3),
    text(5, 4, 2.0, 2, grad=1.0),
    text(4, 30, 1.0, 4, grad=-3.0, dtype=F64),
    text(2, 2, 0.25, 1),
    text(3, 6, 0.1, 0, grad=2.0),
    text(3, 12, 4.0, 3, scale=10.0, dtype=F64),
    text(6, 7, 0.01, 5, scale=0.01, grad=0.5, dtype=F64),
    empties=("table",),
    beliefs={"M09": lambda *given: by_hand(*given, adds=True)},
)
### END HIDDEN TESTS

# %% [markdown]
# ## 4 · Repair: a stack of layers (15 points)
#
# `fit(inner, outer, x, y, rate, steps)` trains a model in place: `inner` is a list of weights, one a hidden layer,
# `outer` the weight of the last one. None of them requires a gradient. A `Parameter` that is made of such a tensor shares
# its memory, so a step moves the caller's weights too.
#
# It raises nothing, and it doesn't train as it should: three lines are wrong. Mend them, so that each step subtracts
# `rate` times the gradient of its own loss from **all** weights, and `fit` returns a list of floats, the loss before each
# step.

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# Which Parameters does the optimiser get, and which `.grad` does a step use?
#
# <details><summary>Hint 2 of 3</summary>
#
# Chapter 10, sections 3, 4 and 5: one mistake each. Record a call with five steps, mend what seegrad finds, and record
# again.
#
# <details><summary>Hint 3 of 3</summary>
#
# For Parameters there is a list of their own, as `nn.ModuleList` is one for modules. Then empty in time, and keep
# numbers.
#
# </details></details></details>


# %% grade_id="repair_stack" kind="solution"
class Stack(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.inner = [nn.Parameter(w) for w in inner]
        self.outer = nn.Parameter(outer)

    def forward(self, x):
        for w in self.inner:
            x = torch.tanh(x @ w)
        return x @ self.outer


def fit(inner, outer, x, y, rate, steps):
    model = Stack(inner, outer)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    losses = []
    for _ in range(steps):
        loss = (model(x) - y).pow(2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss)
    return losses


### BEGIN SOLUTION
class Stack(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.inner = nn.ParameterList(nn.Parameter(w) for w in inner)
        self.outer = nn.Parameter(outer)

    def forward(self, x):
        for w in self.inner:
            x = torch.tanh(x @ w)
        return x @ self.outer


def fit(inner, outer, x, y, rate, steps):
    model = Stack(inner, outer)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    losses = []
    for _ in range(steps):
        loss = (model(x) - y).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


### END SOLUTION


# %% grade_id="repair_stack_test" kind="test" points=15
import torch
from seegrad.check import call, expect

hidden, last = torch.tensor([[1.0]]), torch.tensor([[1.0]])
inputs, targets = torch.tensor([[1.0]]), torch.tensor([[0.0]])
given = {"a": hidden.clone(), "b": last.clone(), "x": inputs, "y": targets}
losses = call("fit([a], b, x, y, 0.5, 2)", fit, [hidden], last, inputs, targets, 0.5, 2, **given)
suspected = {1.0: None if last.item() == 1 else "optimiser", 0.29: "M09"}.get(round(hidden.item(), 2))
expect("fit([a], b, x, y, 0.5, 2); a", hidden, **given).close(torch.tensor([[0.612325]]), suspected)
expect("fit([a], b, x, y, 0.5, 2); b", last, **given).close(torch.tensor([[0.272979]]))
expect("fit([a], b, x, y, 0.5, 2)", losses, **given).of_type(list)
expect("len(fit([a], b, x, y, 0.5, 2))", len(losses), **given).equals(2)
for number, wanted in enumerate((0.580026, 0.061734)):
    expect(f"fit([a], b, x, y, 0.5, 2)[{number}]", losses[number], **given).of_type(float, "item")
    expect(f"fit([a], b, x, y, 0.5, 2)[{number}]", losses[number], **given).close(wanted)
### BEGIN HIDDEN TESTS
from seegrad.promise import numbers, promised

F64 = torch.float64


def descended(weights, top, rows, targets, rate, rounds, *, inside=True, adds=False):
    every, recounted = [*weights, top], []
    total = [0] * len(every)
    for _ in range(rounds):
        copies = [one.clone().requires_grad_() for one in every]
        out = rows
        for one in copies[:-1]:
            out = out.mm(one).tanh()
        loss = (out.mm(copies[-1]) - targets).square().mean()
        recounted.append(loss.item())
        new = torch.autograd.grad(loss, copies)
        total = [old + one if adds else one for old, one in zip(total, new, strict=True)]
        moved = range(len(every)) if inside else [len(every) - 1]
        for place in moved:
            every[place].sub_(rate * total[place])
    return recounted


def stack(*widths, rows, rate, rounds, dtype=torch.float32, scale=1.0, turned=False):
    kind = {"low": -1.0, "high": 1.0, "dtype": dtype}
    sizes = list(zip(widths, widths[1:], strict=False))
    made = [numbers(b, a, **kind).t() if turned else numbers(a, b, **kind) for a, b in sizes]
    inputs = {"x": numbers(rows, widths[0], dtype=dtype) * scale, "y": numbers(rows, widths[-1], dtype=dtype)}
    return {"inner": made[:-1], "outer": made[-1], **inputs, "rate": rate, "steps": rounds}


promised(
    "fit(inner, outer, x, y, rate, steps)",
    fit,
    descended,
    stack(2, 3, 1, rows=4, rate=0.1, rounds=3),
    stack(3, 2, 2, 1, rows=5, rate=0.2, rounds=2, dtype=F64),
    stack(2, 1, rows=3, rate=0.05, rounds=3),
    stack(1, 4, 4, 4, 2, rows=2, rate=0.3, rounds=4, dtype=F64),
    stack(2, 2, 1, rows=3, rate=0.1, rounds=0),
    stack(2, 3, 1, rows=4, rate=0.01, rounds=1, scale=20.0),
    stack(3, 2, 2, rows=3, rate=0.1, rounds=2, dtype=F64, turned=True),
    suggests={"unmoved": "optimiser", "unmoved inner": "optimiser", "history": "item"},
    beliefs={
        "M09": lambda *given: descended(*given, adds=True),
        "optimiser": lambda *given: descended(*given, inside=False),
        "optimiser 2": lambda *given: descended(*given, inside=False, adds=True),
    },
)
### END HIDDEN TESTS

# %% [markdown]
# ## 5 · Repair: the best weights (15 points)
#
# `search(w, x, y, held_x, held_y, rate, steps)` trains `w`, a leaf, in place on `x` and `y`, by at least one step. After
# each step it asks how large the loss on `held_x` and `held_y` is. It should return two things:
#
# - the numbers that `w` had after the step with the lowest such loss, the first of them if several are equal: a tensor
#   with memory of its own, that requires no gradient;
# - the mean of these losses over all steps, as a float.
#
# Its steps are right, and `w.grad` is empty afterwards. What it returns isn't right. Mend it.

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# Which numbers does `best` hold after the next step? And what hangs on `total`?
#
# <details><summary>Hint 2 of 3</summary>
#
# Chapter 10, section 5, and section 6: “A training with a validation”.
#
# <details><summary>Hint 3 of 3</summary>
#
# `detach` shares the memory: it takes one more word to have a copy. A measurement needs no graph. And which of the two
# comparisons, `<` or `<=`, lets a later one win?
#
# </details></details></details>


# %% grade_id="repair_best" kind="solution"
def search(w, x, y, held_x, held_y, rate, steps):
    optimizer = torch.optim.SGD([w], lr=rate)
    lowest, total = float("inf"), 0
    for _ in range(steps):
        optimizer.zero_grad()
        (x @ w - y).pow(2).mean().backward()
        optimizer.step()
        held = (held_x @ w - held_y).pow(2).mean()
        total += held
        if held <= lowest:
            lowest, best = held, w.detach()
    optimizer.zero_grad()
    return best, total / steps


### BEGIN SOLUTION
def search(w, x, y, held_x, held_y, rate, steps):
    optimizer = torch.optim.SGD([w], lr=rate)
    lowest, total = float("inf"), 0
    for _ in range(steps):
        optimizer.zero_grad()
        (x @ w - y).pow(2).mean().backward()
        optimizer.step()
        with torch.no_grad():
            held = (held_x @ w - held_y).pow(2).mean().item()
        total += held
        if held < lowest:
            lowest, best = held, w.detach().clone()
    optimizer.zero_grad()
    return best, total / steps


### END SOLUTION


# %% grade_id="repair_best_test" kind="test" points=15
import torch
from seegrad.arguments import share_memory
from seegrad.check import call, expect

w, line = torch.tensor([0.0], requires_grad=True), torch.tensor([[1.0]])
given = {"w": w.detach().clone(), "x": line, "y": torch.tensor([4.0]), "held": torch.tensor([3.125])}
asked = "search(w, x, y, x, held, 0.25, 4)"
best, mean = call(asked, search, w, line, given["y"], line, given["held"], 0.25, 4, **given)
suspected = "bytes" if torch.is_tensor(best) and share_memory(best, w) else None
expect(f"{asked}[0]", best, **given).close(torch.tensor([3.0]), suspected)
expect(f"{asked}[0].requires_grad", best.requires_grad, **given).equals(False)
expect(f"{asked}[1]", mean, **given).of_type(float, "item")
expect(f"{asked}[1]", mean, **given).close(0.453125)
expect(f"{asked}; w", w, **given).close(torch.tensor([3.75]))
### BEGIN HIDDEN TESTS
from seegrad.promise import leaf, numbers, promised

F64 = torch.float64


def explored(weights, rows, targets, other_rows, other_targets, rate, rounds, *, shares=False):
    kept, recounted = None, []
    for _ in range(rounds):
        now = weights.detach()
        now.sub_(rate * 2 * rows.T @ (rows @ now - targets) / len(targets))
        recounted.append(float((other_rows @ now - other_targets).square().mean()))
        if recounted[-1] < min(recounted[:-1], default=float("inf")):
            kept = now.clone()
    weights.grad = None
    return (weights.detach() if shares else kept), sum(recounted) / rounds


def between_two(size, rounds, *, reach, dtype=torch.float32, grad=None, scale=1.0):
    start, goal = numbers(size, dtype=dtype) * scale, numbers(size, low=4.0, high=6.0, dtype=dtype) * scale
    axes = torch.eye(size, dtype=dtype) * size**0.5
    held = axes * 0.5
    aims = {"y": axes @ goal, "held_x": held, "held_y": held @ (start + reach * (goal - start))}
    return {"w": leaf(start, grad), "x": axes, **aims, "rate": 0.2, "steps": rounds}


def anywhere(rows, size, rounds, **kind):
    x, held = numbers(rows, size, low=-1.0, high=1.0, **kind), numbers(rows + 1, size, low=-1.0, high=1.0, **kind)
    aims = {"y": numbers(rows, **kind), "held_x": held, "held_y": numbers(rows + 1, **kind)}
    return {"w": leaf(numbers(size, **kind), 1.0), "x": x, **aims, "rate": 0.1, "steps": rounds}


one = torch.ones(1, 1)
tie = {"w": leaf(torch.zeros(1)), "x": one, "y": 4 * one[0], "held_x": one, "held_y": 3.25 * one[0]}
promised(
    "search(w, x, y, held_x, held_y, rate, steps)",
    search,
    explored,
    between_two(2, 6, reach=0.6),
    between_two(3, 4, reach=0.2, dtype=F64),
    between_two(1, 5, reach=2.0, grad=3.0),
    between_two(2, 4, reach=0.6, dtype=F64, scale=0.01),
    anywhere(3, 2, 4, dtype=F64),
    anywhere(2, 4, 1),
    {**tie, "rate": 0.25, "steps": 4},
    empties="w",
    suggests={"shared": "bytes", "history": "item"},
    beliefs={"bytes": lambda *given: explored(*given, shares=True)},
)
### END HIDDEN TESTS

# %% [markdown]
# ## 6 · Explain (10 points)
#
# A colleague says: *“My loss falls from 2.9 to 0.4, smoothly. So the loop is right.”*
#
# Answer in at most 120 words: name two mistakes of a training loop with which the loss falls all the same, say of each how
# one notices it, and what a loss curve can and can't prove.

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# Which of the owners' programs of exercise 2 had a loss that fell?
#
# <details><summary>Hint 2 of 3</summary>
#
# Chapter 10, sections 4 to 6: what did these models do while something was wrong?
#
# <details><summary>Hint 3 of 3</summary>
#
# Think of layers that stay as they were, of a memory that grows, of a best model that isn't one. And of the words that
# were held back.
#
# </details></details></details>

# %% [markdown] grade_id="explain" kind="manual" points=10
# Layers in a plain list get gradients, but no optimiser holds them: the last layer learns alone, and the loss still
# falls. One notices it by their versions, or by counting `model.parameters()`. A sum of losses that are tensors keeps every
# graph: the loss falls as always, while memory grows from round to round; `total` has a `grad_fn`. A falling curve proves
# that something moves in a useful direction. It doesn't prove that everything learns that was meant to, that the gradients
# are those of one batch, or that the model knows anything about what it never read: for that one needs a second curve, of
# data that was held back.

# %% [markdown] grade_id="explain_rubric" kind="given"
# <details><summary>How it is graded</summary>
#
# | points | for |
# |---|---|
# | 4 | two mistakes with which the loss falls |
# | 3 | how one notices each of them |
# | 3 | what the curve proves, and what it doesn't |
#
# </details>
