# %% [markdown]
# # Assignment 08: the clinic
#
# Seven exercises, 100 points, about 70 minutes. Write your answers in the cells that say `YOUR CODE HERE` or
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
# Four patients, A to D, are waiting. Read first, and commit to a suspect. Then put `%%see` on a cell and look. A repair
# counts when the gradient is right **and** the program still computes what it computed.

# %%
import torch
from torch import nn
from torch.nn import functional as F

# %load_ext seegrad

# %% [markdown]
# ## 1 · Predict (10 points)
#
# Five complaints before the consultation. Each program starts with
# `x = torch.tensor([0.5, 1.0, 1.5], requires_grad=True)` and ends with `out.sum().backward()`. What happens there?
#
# | | first | then |
# |---|---|---|
# | A | `out = x.sigmoid()` | `out += x` |
# | B | `out = x.sin()` | `nn.ReLU(inplace=True)(out)` |
# | C | `out = x * x` | `x.grad = torch.ones(3)`, a step of `torch.optim.SGD([x], lr=0.1, fused=True)`, `x.grad = None` |
# | D | `out = x.exp()` | `out.sum().backward()`, then `x.grad = None` |
# | E | `out = x * 3` | `out = out + x.detach()` |
#
# `"raises"`: the last backward raises. `"silent"`: no error, but `x.grad` isn't the slope of `out.sum()` at the `x` that
# `out` was computed with. `"right"`: no error, and it is. The slope is the finite difference of chapter 08: how much
# `out.sum()` changes when the numbers of `x` do. A part that is cut off is missing from `x.grad`, meant or not.

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# Two questions for each row: what did the first line save, and does the second line change it?
#
# <details><summary>Hint 2 of 3</summary>
#
# Chapter 04, section 5, has a table of who saves its result and who its input. In chapter 08 patient 6 has a step that
# moves no version, patient 4 has a graph that was used already. `slope` stands in section 1.
#
# <details><summary>Hint 3 of 3</summary>
#
# In E nothing is overwritten. Ask `slope` instead: how much does `out` change when `x` does, and through how
# many of its terms may the gradient come back?
#
# </details></details></details>

# %% grade_id="predict" kind="solution"
prediction = {"A": None, "B": None, "C": None, "D": None, "E": None}
### BEGIN SOLUTION
prediction = {"A": "raises", "B": "right", "C": "silent", "D": "raises", "E": "silent"}
### END SOLUTION

# %% grade_id="predict_test" kind="test" points=10
import operator

import torch
from seegrad.check import answers, call, expect

for program in "ABCDE":
    asked = f"prediction[{program!r}]"
    expect(asked, call(asked, operator.getitem, prediction, program)).one_of(["raises", "silent", "right"])
### BEGIN HIDDEN TESTS
def stepped(x, out):
    x.grad = torch.ones_like(x)
    torch.optim.SGD([x], lr=0.1, fused=True).step()
    x.grad = None
    return out


def used(x, out):
    out.sum().backward()
    x.grad = None
    return out


PROGRAMS = {
    "A": (torch.sigmoid, lambda x, out: out.add_(x), lambda x: x.sigmoid() + x),
    "B": (torch.sin, lambda x, out: torch.nn.ReLU(inplace=True)(out), torch.sin),
    "C": (lambda x: x * x, stepped, lambda x: x * x),
    "D": (torch.exp, used, torch.exp),
    "E": (lambda x: x * 3, lambda x, out: out + x.detach(), lambda x: x * 4),
}


def outcome(make, then, whole):
    x = (torch.rand(3) + 0.5).requires_grad_()
    (want,) = torch.autograd.grad(whole(x).sum(), x)
    out = make(x)
    try:
        then(x, out).sum().backward()
    except RuntimeError:
        return "raises"
    return "right" if torch.allclose(x.grad, want) else "silent"


answers(
    "prediction",
    prediction,
    {program: outcome(*parts) for program, parts in PROGRAMS.items()},
    {
        "A": {"silent": "watched", "right": "M11"},
        "B": {"raises": "M03", "silent": "who_saves"},
        "C": {"raises": "unwatched", "right": "M06"},
        "D": {"silent": "M10", "right": "M10"},
        "E": {"raises": "cut", "right": "cut"},
    },
    of=10,
)
### END HIDDEN TESTS

# %% [markdown]
# ## 2 · Find (15 points)
#
# The programs of three patients. In each, one line writes into a tensor of which backward still needs all or a part.
#
# **Patient A**, a recurrent network that writes its states into one buffer. `x` and `w` require a gradient.
#
# ```
# 1   h = x.new_zeros(len(x) + 1, len(w))
# 2   for t in range(len(x)):
# 3       mixed = x[t] + h[t] @ w
# 4       h[t + 1] = torch.tanh(mixed)
# 5   h.sum().backward()
# ```

# %% [markdown]
# **Patient B**, which measures a score with averaged weights, then goes on training. `w` is a leaf that requires a
# gradient.
#
# ```
# 1   loss = (w * w * x).sum()
# 2   average.mul_(0.9).add_(w.data, alpha=0.1)
# 3   backup = w.data
# 4   w.data.copy_(average)
# 5   score = (w * w * x).sum().item()
# 6   w.data.copy_(backup)
# 7   loss.backward()
# ```
#
# **Patient C**, whose answers with the running statistics and with those of the batch should agree. `scale` requires a
# gradient; `mean` and `var` are the running statistics.
#
# ```
# 1   calm = F.batch_norm(x, mean, var, scale)
# 2   live = F.batch_norm(x, mean, var, scale, training=True)
# 3   loss = (calm - live).pow(2).sum()
# 4   loss.backward()
# ```

# %% [markdown]
# For each patient give two numbers of lines:
#
# - `culprit`: the line that writes;
# - `victim`: the line whose Node had saved what was written to, or a part of it.

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# Which lines write into a tensor that was there before?
#
# <details><summary>Hint 2 of 3</summary>
#
# Chapter 08: patient 1 shows that a write to one row counts for the whole, patients 6 and 7 show who writes without
# moving a version. A write is only guilty if a Node saved what it hits.
#
# <details><summary>Hint 3 of 3</summary>
#
# B has three writing lines. One hits a tensor that no Node saved, one writes values that are there already. In C look
# at the arguments that both calls share.
#
# </details></details></details>

# %%
from seegrad import pick

pick(
    "found",
    {
        "A culprit": "line",
        "A victim": "line",
    },
    """
h = x.new_zeros(len(x) + 1, len(w))
for t in range(len(x)):
    mixed = x[t] + h[t] @ w
    h[t + 1] = torch.tanh(mixed)
h.sum().backward()
""",
    """
x = torch.tensor([[1.0, 2.0], [0.5, -1.0]], requires_grad=True)
w = torch.eye(2).requires_grad_()
""",
    part=True,
)

# %%
from seegrad import pick

pick(
    "found",
    {
        "B culprit": "line",
        "B victim": "line",
    },
    """
loss = (w * w * x).sum()
average.mul_(0.9).add_(w.data, alpha=0.1)
backup = w.data
w.data.copy_(average)
score = (w * w * x).sum().item()
w.data.copy_(backup)
loss.backward()
""",
    """
w = torch.tensor([1.0, 2.0], requires_grad=True)
x, average = torch.tensor([0.5, 1.0]), torch.zeros(2)
""",
    part=True,
)

# %%
from seegrad import pick

pick(
    "found",
    {
        "C culprit": "line",
        "C victim": "line",
    },
    """
calm = F.batch_norm(x, mean, var, scale)
live = F.batch_norm(x, mean, var, scale, training=True)
loss = (calm - live).pow(2).sum()
loss.backward()
""",
    """
x, scale = torch.tensor([[1.0, 2.0], [3.0, 5.0], [0.0, 4.0]]), torch.ones(2, requires_grad=True)
mean, var = torch.zeros(2), torch.ones(2)
""",
    part=True,
)

# %% grade_id="find" kind="solution"
found = {
    "A culprit": None,
    "A victim": None,
    "B culprit": None,
    "B victim": None,
    "C culprit": None,
    "C victim": None,
}
### BEGIN SOLUTION
found = {"A culprit": 4, "A victim": 3, "B culprit": 4, "B victim": 1, "C culprit": 2, "C victim": 1}
### END SOLUTION

# %% grade_id="find_test" kind="test" points=15
import operator

from seegrad.check import answers, call, expect

LINES = {"A": 5, "B": 7, "C": 4}
for chart, count in LINES.items():
    for role in ("culprit", "victim"):
        key = f"{chart} {role}"
        asked = f"found[{key!r}]"
        expect(asked, call(asked, operator.getitem, found, key)).one_of(range(1, count + 1))
### BEGIN HIDDEN TESTS
answers(
    "found",
    found,
    {"A culprit": 4, "A victim": 3, "B culprit": 4, "B victim": 1, "C culprit": 2, "C victim": 1},
    {
        "A culprit": {1: "writes_none", 2: "writes_none", 3: "other", 5: "M04"},
        "A victim": {**dict.fromkeys((1, 2, 5), "no_node"), 4: "other"},
        "B culprit": {1: "other", 2: "M03", 3: "shares", 5: "writes_none", 6: "M05", 7: "reads"},
        "B victim": {**dict.fromkeys((2, 3, 6, 7), "no_node"), 4: "other", 5: "saves_none"},
        "C culprit": {1: "other", 3: "writes_none", 4: "reads"},
        "C victim": {2: "other", 3: "saves_none", 4: "no_node"},
    },
    of=15,
)
### END HIDDEN TESTS

# %% [markdown]
# ## 3 · Repair patient A (15 points)
#
# `scan(x, w)` returns all states, one a row; the first row is the zero that it starts from. Backward through it raises.
#
# Repair it: the same states on any `x` and `w`, and the right gradient for both.

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# Which of the tensors here is written after the matrix product has saved a part of it?
#
# <details><summary>Hint 2 of 3</summary>
#
# Chapter 08, patient 1, “Row by row”: what can hold the states until the loop is over?
#
# <details><summary>Hint 3 of 3</summary>
#
# Let each round make a tensor of its own that nobody writes to, and join them after the loop. Compare your result's
# shape with the old one: does the first row still stand there?
#
# </details></details></details>

# %% grade_id="repair_scan" kind="solution"
def scan(x, w):
    h = x.new_zeros(len(x) + 1, len(w))
    for t in range(len(x)):
        mixed = x[t] + h[t] @ w
        h[t + 1] = torch.tanh(mixed)
    return h


### BEGIN SOLUTION
def scan(x, w):
    states = [x.new_zeros(len(w))]
    for row in x:
        states.append(torch.tanh(row + states[-1] @ w))
    return torch.stack(states)
### END SOLUTION


# %% grade_id="repair_scan_test" kind="test" points=15
import torch
from seegrad.check import call, expect

SYMPTOMS = {"raised": ("M11", "M03"), "cut": "cut"}
x = torch.tensor([[1.0, -1.0], [0.5, 2.0]], dtype=torch.float64)
w = torch.tensor([[0.5, -0.3], [0.2, 0.8]], dtype=torch.float64)
want = torch.tensor([[0.0, 0.0], [0.761594, -0.761594], [0.622133, 0.821771]], dtype=torch.float64)
expect("scan(x, w)", call("scan(x, w)", scan, x, w, x=x, w=w), x=x, w=w).close(want)
expect("scan(x, w)", lambda x, w: scan(x, w), x=x, w=w).differentiable(SYMPTOMS)
### BEGIN HIDDEN TESTS
from seegrad.promise import between, leaf, numbers, promised, scattered


def states(inputs, mixing):
    rows = [torch.zeros(len(mixing), dtype=inputs.dtype)]
    for given_row in inputs:
        rows.append(torch.add(given_row, rows[-1] @ mixing).tanh())
    return torch.stack(rows)


F64 = torch.float64
promised(
    "scan(x, w)",
    scan,
    states,
    {"x": leaf(numbers(3, 2)), "w": leaf(numbers(2, 2, low=-1.0, high=1.0), grad=1.0)},
    {"x": between(numbers(2, 3, dtype=F64)), "w": scattered(numbers(3, 3, low=-1.0, high=1.0, dtype=F64))},
    {"x": numbers(4, 1, dtype=F64), "w": leaf(numbers(1, 1, dtype=F64))},
    {"x": numbers(1, 2), "w": leaf(numbers(2, 2))},
    {"x": numbers(0, 2), "w": numbers(2, 2)},
    {"x": numbers(3, 2), "w": numbers(2, 2)},
    {"x": leaf(numbers(5, 2, holds=(4.0, -4.0), dtype=F64)), "w": leaf(numbers(2, 2, dtype=F64))},
    suggests={"overwritten": ("M11", "M03")},
)
### END HIDDEN TESTS

# %% [markdown]
# ## 4 · Repair patient B (15 points)
#
# `validate(w, average, x)` is meant to do four things:
#
# 1. the loss $\sum w^2 x$ of the weights;
# 2. `average` ← 0.9 `average` + 0.1 `w`, in place;
# 3. the score: the same sum with the new `average` in the place of `w`;
# 4. `w.grad`: the gradient of the loss is added to it, as `backward` does; `w` itself stays what it was.
#
# It returns the loss and the score as numbers. It raises nothing, and two things are wrong afterwards. Repair them.

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# After the call, which values does `w` have, and which did it have before?
#
# <details><summary>Hint 2 of 3</summary>
#
# Chapter 08, patient 6, “A backup”: what `.data` gives you is no backup.
#
# <details><summary>Hint 3 of 3</summary>
#
# Either make the backup a real one, with bytes of its own, and mind which kind of write moves the version. Or ask
# yourself whether the score needs `w` at all.
#
# </details></details></details>

# %% grade_id="repair_average" kind="solution"
def validate(w, average, x):
    loss = (w * w * x).sum()
    average.mul_(0.9).add_(w.data, alpha=0.1)
    backup = w.data
    w.data.copy_(average)
    score = (w * w * x).sum().item()
    w.data.copy_(backup)
    loss.backward()
    return loss.item(), score


### BEGIN SOLUTION
def validate(w, average, x):
    loss = (w * w * x).sum()
    average.mul_(0.9).add_(w.detach(), alpha=0.1)
    score = (average * average * x).sum().item()
    loss.backward()
    return loss.item(), score
### END SOLUTION


# %% grade_id="repair_average_test" kind="test" points=15
import torch
from seegrad.check import call, expect

SYMPTOMS = {"raised": ("M05", "M07")}


def numbers(*arguments):
    loss, score = validate(*arguments)
    return torch.tensor([float(loss), float(score)])


w, average = torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor([0.5, 0.5])
x = torch.tensor([1.0, 3.0])
given = {"w": w.detach().clone(), "average": average.clone(), "x": x}
came = call("validate(w, average, x)", numbers, w, average, x, suggests=SYMPTOMS, **given)
expect("validate(w, average, x)", came, **given).close(torch.tensor([13.0, 1.57]))
expect("validate(w, average, x); w", w, **given).close(given["w"], ("M05", "M12"))
expect("validate(w, average, x); average", average, **given).close(torch.tensor([0.55, 0.65]), "M11")
### BEGIN HIDDEN TESTS
from seegrad.promise import leaf, promised
from seegrad.promise import numbers as drawn


def judged(weights, running, factors, *, at_the_average=False):
    now = weights.detach()
    running.copy_(0.9 * running + 0.1 * now.add_(0))
    at = running if at_the_average else now
    weights.grad = 2 * at * factors + (0 if weights.grad is None else weights.grad)
    return now.square() @ factors, running.square() @ factors


def patient(size, *, low=0.5, high=1.5, grad=None, **kind):
    w, average = (drawn(size, low=-high, high=high, **kind) for _ in "wa")
    return {"w": leaf(w, grad), "average": average, "x": drawn(size, low=low, high=high, **kind)}


F64 = torch.float64
promised(
    "validate(w, average, x)",
    validate,
    judged,
    patient(3),
    patient(5, low=-2.0, high=2.0, grad=1.0, dtype=F64),
    patient(1, dtype=F64),
    {**patient(2, low=10.0, high=40.0), "w": leaf(drawn(2, low=-40.0, high=-10.0))},
    patient(4, low=0.001, high=0.01, grad=-0.5, dtype=F64),
    suggests={**SYMPTOMS, "written": ("M05", "M12"), "unmoved average": "M11", "unfilled": "M10"},
    beliefs={"M06": lambda *given: judged(*given, at_the_average=True)},
)
### END HIDDEN TESTS

# %% [markdown]
# ## 5 · Repair patient C (15 points)
#
# `consistency(x, scale, mean, var)` normalises `x` with the running statistics, then with those of the batch. It adds the
# gradient of the squared difference to `scale.grad`, as `backward` does, and returns the loss as a number.
#
# It raises nothing, and `scale.grad` is wrong. Repair it. The loss stays what it is now, and so does what a call does to
# `mean` and `var`.

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# What does the first line's Node need in backward, besides `x` and `scale`?
#
# <details><summary>Hint 2 of 3</summary>
#
# Chapter 08, patient 7: two lines, the second of which writes what the first has saved, and no version moves. The
# remedies of section 11 apply.
#
# <details><summary>Hint 3 of 3</summary>
#
# Swapping the two lines changes the loss: the first must see the statistics from before. Whose bytes may the first
# line look at, so that the second can't reach them?
#
# </details></details></details>

# %% grade_id="repair_norm" kind="solution"
def consistency(x, scale, mean, var):
    calm = F.batch_norm(x, mean, var, scale)
    live = F.batch_norm(x, mean, var, scale, training=True)
    loss = (calm - live).pow(2).sum()
    loss.backward()
    return loss.item()


### BEGIN SOLUTION
def consistency(x, scale, mean, var):
    calm = F.batch_norm(x, mean.clone(), var.clone(), scale)
    live = F.batch_norm(x, mean, var, scale, training=True)
    loss = (calm - live).pow(2).sum()
    loss.backward()
    return loss.item()
### END SOLUTION


# %% grade_id="repair_norm_test" kind="test" points=15
import torch
from seegrad.check import call, expect

SYMPTOMS = {"unrecorded": "M10"}


def near(came):
    number = isinstance(came, float) or (torch.is_tensor(came) and came.numel() == 1)
    return round(float(came), 1) if number else None


x = torch.tensor([[1.0], [3.0], [8.0]])
scale, mean, var = torch.ones(1, requires_grad=True), torch.zeros(1), torch.ones(1)
given = {"x": x, "scale": scale.detach().clone(), "mean": mean.clone(), "var": var.clone()}
loss = call("consistency(x, scale, mean, var)", consistency, x, scale, mean, var, suggests=SYMPTOMS, **given)
expect("consistency(x, scale, mean, var)", loss, **given).close(59.3358, {20.6: "statistics", 0.0: "M08"}.get(near(loss)))
expect("consistency(x, scale, mean, var); mean", mean, **given).close(torch.tensor([0.4]))
silent = ("M12", "M06")
wrong = {69.7: silent, 76.2: silent, 109.1: silent, -11.7: "cut", 130.3: "cut", 237.3: "M09"}
suspects = {"shape": ("M10", "M07"), "wrong": wrong.get(near(scale.grad))}
expect("consistency(x, scale, mean, var); scale.grad", scale.grad, **given).close(torch.tensor([118.672]), suspects)
### BEGIN HIDDEN TESTS
from seegrad.promise import leaf, numbers, promised


def compared(batch, factor, centre, spread):
    still = (batch - centre) / (spread + 1e-5).sqrt()
    off = still - (batch - batch.mean(0)) / (batch.var(0, correction=0) + 1e-5).sqrt()
    centre.lerp_(batch.mean(0), 0.1)
    spread.lerp_(batch.var(0), 0.1)
    total = off.square().sum(0)
    old = torch.zeros_like(total) if factor.grad is None else factor.grad
    factor.grad = old + 2 * factor.detach() * total
    return factor.detach().square() @ total


def case(count, width, *, scale=1.0, grad=None, **kind):
    x, mean = numbers(count, width, low=-3 * scale, high=scale, **kind), numbers(width, low=2.0, high=5.0, **kind)
    mine, var = numbers(width, low=0.5, **kind), numbers(width, low=0.5, high=2.0, **kind)
    return {"x": x, "scale": leaf(mine, grad), "mean": mean, "var": var}


F64 = torch.float64
promised(
    "consistency(x, scale, mean, var)",
    consistency,
    compared,
    case(3, 2),
    case(4, 1, dtype=F64),
    case(6, 3, scale=20.0, grad=1.0, dtype=F64),
    case(2, 4, scale=0.1, dtype=F64),
    case(5, 2, grad=-2.0),
    suggests={**SYMPTOMS, "unmoved": ("M05", "M12"), "unfilled": ("M10", "M07")},
)
### END HIDDEN TESTS

# %% [markdown]
# ## 6 · Order: patient D (15 points)
#
# A GAN came in pieces. Choose the lines that belong into one round of training and put them in order: `d` learns to give
# 1 to what is real and 0 to what is fake; then `g` learns against the **updated** `d`. Both are updated in place, over
# many rounds. Before the first one `d.grad` and `g.grad` are `None`. Some lines don't belong. There is more than one
# right answer: what counts is the numbers of `d` and `g` after every round, however they came about.
#
# ```
# A   fake = g * noise
# B   loss_d = (d * real - 1).pow(2).sum() + (d * fake.detach()).pow(2).sum()
# C   loss_d.backward()
# D   with torch.no_grad(): d -= lr * d.grad
# E   loss_g = (d * fake - 1).pow(2).sum()
# F   loss_g.backward()
# G   with torch.no_grad(): g -= lr * g.grad
# H   g.grad = d.grad = None
# I   d = d - lr * d.grad
# J   loss_g = (d * fake.detach() - 1).pow(2).sum()
# K   d.data -= lr * d.grad
# ```
#
# Answer with the letters, each at most once, for example `"AJK"`.

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# Which loss may teach whom, and which lines write to `d`?
#
# <details><summary>Hint 2 of 3</summary>
#
# Chapter 08, patient 3: the section “Two repairs, two meanings”. And what does `.grad` hold when a round begins?
#
# <details><summary>Hint 3 of 3</summary>
#
# Write down for each of the two losses: forward, backward, update. No update may stand between a forward and the
# backward that belongs to it. Then look for what has to be emptied.
#
# </details></details></details>

# %% grade_id="order" kind="solution"
steps = None
### BEGIN SOLUTION
steps = "ABCDEFGH"
### END SOLUTION

# %% grade_id="order_test" kind="test" points=15
import torch
from seegrad.check import expect

expect("steps", steps).letters("ABCDEFGHIJK")
### BEGIN HIDDEN TESTS
from seegrad.check import perform

LINES = {
    "A": "fake = g * noise",
    "B": "loss_d = (d * real - 1).pow(2).sum() + (d * fake.detach()).pow(2).sum()",
    "C": "loss_d.backward()",
    "D": "with torch.no_grad(): d -= lr * d.grad",
    "E": "loss_g = (d * fake - 1).pow(2).sum()",
    "F": "loss_g.backward()",
    "G": "with torch.no_grad(): g -= lr * g.grad",
    "H": "g.grad = d.grad = None",
    "I": "d = d - lr * d.grad",
    "J": "loss_g = (d * fake.detach() - 1).pow(2).sum()",
    "K": "d.data -= lr * d.grad",
}


def run(letters, start, real, noise, times):
    names = {"torch": torch, "real": real, "noise": noise, "lr": 0.05}
    names |= {name: value.clone().requires_grad_() for name, value in start.items()}
    for number in range(times):
        for letter in letters:
            perform(LINES[letter], names, letter, number + 1)
    return names["g"].detach(), names["d"].detach()


def suspicion(letters):
    for letter, number in {"J": "cut", "I": "M11"}.items():
        if letter in letters:
            return number
    if not set("ABCEFG") <= set(letters) or not {"D", "K"} & set(letters):
        return "left_out"
    place = {letter: letters.find(letter) for letter in LINES}
    if not place["A"] < place["E"] < place["F"]:
        return None
    if place["E"] < place["D"] < place["F"]:
        return "M07"
    if place["E"] < place["K"] < place["F"]:
        return "M06"
    kept = "H" not in letters or place["C"] < place["H"] < place["F"] or place["F"] < place["D"]
    return "M09" if "C" in letters and kept else "twice" if len(set(letters)) < len(letters) else None


start = {"g": torch.rand(3) + 0.5, "d": torch.rand(3) + 0.5}
real, noise = torch.rand(3) + 1, torch.randn(3)
given = {**start, "real": real, "noise": noise}
suspected = suspicion(steps)
try:
    g, d = run(steps[:16], start, real, noise, 3)
except Exception as error:
    expect(f"3 × {steps[:16]}", error, **given).equals(None, suspected)
want_g, want_d = run("ABCDEFGH", start, real, noise, 3)
expect(f"3 × {steps[:16]}; g", g, **given).close(want_g, suspected)
expect(f"3 × {steps[:16]}; d", d, **given).close(want_d, suspected)
### END HIDDEN TESTS

# %% [markdown]
# ## 7 · Explain (15 points)
#
# A colleague writes: *“Our recurrent model raised ‘Trying to backward through the graph a second time’. I set
# `retain_graph=True`, as the message says. Then it raised the error about an inplace operation. With
# `SGD(…, fused=True)` that is gone too. Both fixed!”*
#
# Answer in at most 150 words: what did each of the two cures do, what is wrong now, what would you change instead, and
# how would you prove that the repaired program is right?

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# Which disease had the model before the first cure, and does it still have it?
#
# <details><summary>Hint 2 of 3</summary>
#
# Chapter 08, patients 4 and 6: the one says where a graph should end, the other why an alarm can be silent.
#
# <details><summary>Hint 3 of 3</summary>
#
# Follow the weights: which round's backward reads which version of them, who has overwritten it, and who noticed? Then
# think of the two checks that end each repair in the clinic.
#
# </details></details></details>

# %% [markdown] grade_id="explain" kind="manual" points=15
# The hidden state carries its graph from one batch to the next, so each backward runs into the rounds before.
# `retain_graph=True` keeps what those rounds saved instead of ending the graph where a round ends. Those old graphs
# need the weights as they were, and every step overwrites them: that was the second error, and it was right. The fused
# step writes the same bytes without moving the version. The alarm is off, and backward mixes old activations with new
# weights: a gradient of no loss at all, while memory and time grow with each batch. I would write `h = h.detach()` at
# the start of each round, drop `retain_graph`, and test with the plain optimiser. Proof: the losses of a round are the
# same as before for the same weights and `h`, and its gradient agrees with a finite difference of that round's loss
# with `h` held constant.

# %% [markdown] grade_id="explain_rubric" kind="given"
# <details><summary>How it is graded</summary>
#
# | points | for |
# |---|---|
# | 4 | what the first cure did |
# | 4 | what the second cure did, and what is wrong now |
# | 3 | what you would change instead |
# | 4 | how you would prove that the repaired program is right |
#
# </details>
