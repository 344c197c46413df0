# %% [markdown]
# # Assignment 03: `retain_grad` and hooks
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
# Commit to an answer before you run anything. Afterwards, put `%%see` on a cell and look.

# %%
import torch

# %load_ext seegrad

# %% [markdown]
# ## 1 · Predict: who has a `.grad`? (14 points)
#
# Each program starts with `x = torch.tensor([1.0, 2.0], requires_grad=True)` and `h = x * 3`. What is `h.grad` at the
# end?
#
# | | then |
# |---|---|
# | A | `h.sum().backward(); h.retain_grad()` |
# | B | `x.retain_grad(); h.sum().backward()` |
# | C | `h.retain_grad(); h = h * 2; h.sum().backward()` |
# | D | `h.retain_grad(); h *= 2; h.sum().backward()` |
# | E | `h.register_hook(print); h.sum().backward()` |
# | F | `h.sum().backward(inputs=[h])` |
# | G | `h = h.detach(); h.retain_grad()` |
#
# `"gradient"`: a tensor. `"nothing"`: it is `None`. `"raises"`: the program doesn't get that far.

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# Which tensor is asked to keep its gradient, and is it the one that is called `h` in the end?
#
# <details><summary>Hint 2 of 3</summary>
#
# Chapter 03, section 2: when the promise has to be made, on which tensors, and that it belongs to a tensor, not to a
# name. Section 5 tells the two spellings of a product apart; sections 3 and 7 have E and F.
#
# <details><summary>Hint 3 of 3</summary>
#
# Go through each row with three questions. Does the tensor need a gradient at all? Was it asked for before backward
# ran? Is the name still with the tensor that was asked?
#
# </details></details></details>

# %% grade_id="predict" kind="solution"
prediction = {"A": None, "B": None, "C": None, "D": None, "E": None, "F": None, "G": None}
### BEGIN SOLUTION
prediction = {"A": "nothing", "B": "nothing", "C": "nothing", "D": "gradient", "E": "nothing", "F": "gradient", "G": "raises"}
### END SOLUTION

# %% grade_id="predict_test" kind="test" points=14
import torch
from seegrad.check import answers, expect

expect("type(prediction).__name__", type(prediction).__name__).equals("dict")
expect("sorted(prediction)", sorted(prediction, key=str)).equals(list("ABCDEFG"))
for program in "ABCDEFG":
    expect(f"prediction[{program!r}]", prediction[program]).one_of(["gradient", "nothing", "raises"])
### BEGIN HIDDEN TESTS
import warnings

PROGRAMS = {
    "A": "h.sum().backward(); h.retain_grad()",
    "B": "x.retain_grad(); h.sum().backward()",
    "C": "h.retain_grad(); h = h * 2; h.sum().backward()",
    "D": "h.retain_grad(); h *= 2; h.sum().backward()",
    "E": "h.register_hook(look); h.sum().backward()",
    "F": "h.sum().backward(inputs=[h])",
    "G": "h = h.detach(); h.retain_grad()",
}


def outcome(program):
    x = torch.rand(2).requires_grad_()
    names = {"x": x, "h": x * 3, "look": lambda grad: None}
    try:
        exec(program, names)
    except RuntimeError:
        return "raises"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return "nothing" if names["h"].grad is None else "gradient"


answers(
    "prediction",
    prediction,
    {program: outcome(lines) for program, lines in PROGRAMS.items()},
    {
        "A": {"gradient": "M02", "raises": "too_late"},
        "B": {"gradient": "M02", "raises": "leaf_retains"},
        "C": {"gradient": "M11"},
        "D": {"nothing": "M11", "raises": "M03"},
        "E": {"gradient": "M02", "raises": "looks"},
        "F": {"nothing": "inputs", "raises": "inputs"},
        "G": {"gradient": "unkept", "nothing": "unkept"},
    },
    of=14,
)
### END HIDDEN TESTS

# %% [markdown]
# ## 2 · Predict: which number? (18 points)
#
# Each program starts with `x = torch.tensor(2.0, requires_grad=True)`, `h = x * k`, `seen = []`. `k` is a number of
# your own, which the cell below the hints shows.
#
# | | then | asked | choices |
# |---|---|---|---|
# | A | `h.register_hook(lambda grad: grad * 10); (h * h).backward()` | `x.grad` | 4k², 40k, 40k² |
# | B | `h.retain_grad(); h.register_hook(lambda grad: grad * 10); (h * h).backward()` | `h.grad` | 4k, 40k, 40k² |
# | C | `h.register_hook(seen.append); h.mul_(10); (h * 3).backward()` | `seen[0]` | 3, 10, 30 |
# | D | `h.retain_grad(); h.mul_(10); (h * 3).backward()` | `h.grad` | 3, 10, 30 |
# | E | `h.retain_grad(); y = h * h; y.backward(retain_graph=True); y.backward()` | `h.grad` | 0, 4k, 8k |
# | F | `x.register_hook(seen.append); h.backward(retain_graph=True); h.backward()` | `seen[1]` | k, 2k, 3k |
#
# Answer with numbers; `40 * k` is one, too.

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# Without any hook or write: what is the gradient of `h`, and what that of `x`?
#
# <details><summary>Hint 2 of 3</summary>
#
# Chapter 03, section 4, for A and B; section 5 for C and D; “Two backward calls” in section 2 for E; “Take it off again”
# in section 3 tells what a hook on a leaf is given.
#
# <details><summary>Hint 3 of 3</summary>
#
# Write the gradients along the graph, from the right to the left, and mark where each hook hangs: on the old value of
# `h`, or on the new one? Then ask of a stored number whether it is one backward's share or a sum.
#
# </details></details></details>

# %%
from seegrad.variants import student, variant

mine = variant(student(), "03.predict_values", seed="autograd101")
k = mine.whole("k", 2, 9)
print(mine.said(k=k))

# %% grade_id="predict_values" kind="solution"
values = {"A": None, "B": None, "C": None, "D": None, "E": None, "F": None}
### BEGIN SOLUTION
values = {"A": 40 * k * k, "B": 40 * k, "C": 30, "D": 3, "E": 8 * k, "F": k}
### END SOLUTION

# %% grade_id="predict_values_test" kind="test" points=18
import torch
from seegrad.check import answers, expect

CHOICES = {
    "A": [4 * k * k, 40 * k, 40 * k * k],
    "B": [4 * k, 40 * k, 40 * k * k],
    "C": [3, 10, 30],
    "D": [3, 10, 30],
    "E": [0, 4 * k, 8 * k],
    "F": [k, 2 * k, 3 * k],
}
expect("type(values).__name__", type(values).__name__).equals("dict")
expect("sorted(values)", sorted(values, key=str)).equals(list("ABCDEF"))
for program, choices in CHOICES.items():
    expect(f"values[{program!r}]", values[program]).one_of(choices)
### BEGIN HIDDEN TESTS
PROGRAMS = {
    "A": "h.register_hook(lambda grad: grad * 10); (h * h).backward(); came = x.grad",
    "B": "h.retain_grad(); h.register_hook(lambda grad: grad * 10); (h * h).backward(); came = h.grad",
    "C": "h.register_hook(seen.append); h.mul_(10); (h * 3).backward(); came = seen[0]",
    "D": "h.retain_grad(); h.mul_(10); (h * 3).backward(); came = h.grad",
    "E": "h.retain_grad(); y = h * h; y.backward(retain_graph=True); y.backward(); came = h.grad",
    "F": "x.register_hook(seen.append); h.backward(retain_graph=True); h.backward(); came = seen[1]",
}


def number(program):
    x = torch.tensor(2.0, requires_grad=True)
    names = {"x": x, "h": x * k, "seen": []}
    exec(program, names)
    return int(names["came"])


answers(
    "values",
    values,
    {program: number(lines) for program, lines in PROGRAMS.items()},
    {
        "A": {4 * k * k: "answers", 40 * k: "own_gradient"},
        "B": {4 * k: "hook_first", 40 * k * k: "own_gradient"},
        "C": {"*": "old_value"},
        "D": {"*": "old_value"},
        "E": {4 * k: "M09"},
        "F": {"*": "hook_share"},
    },
    of=18,
)
### END HIDDEN TESTS

# %% [markdown]
# ## 3 · Find (14 points)
#
# `u`, `v`, `w` are leaves. The gradient of `u` should be clipped, that of `w` should be a tenth, that of `v` should
# stay as it is. The program runs without an error, and one gradient isn't what it should be. Backward comes to `w`
# first, then to `u`, then to `v`.
#
# ```
# 1   def slow(grad):
# 2       return grad * 0.1
# 3   def clip(grad):
# 4       grad.clamp_(-1, 1)
# 5   w.register_hook(slow)
# 6   u.register_hook(clip)
# 7   loss = ((u + v + w) * x).pow(2).sum()
# 8   loss.backward()
# ```
#
# - `"culprit"`: the number of the line that does the damage.
# - `"victim"`: the leaf with the wrong gradient, `"u"`, `"v"` or `"w"`.
# - `"remedy"`: which of these belongs in line 4?
#
# | | |
# |---|---|
# | A | `grad = grad.clamp_(-1, 1)` |
# | B | `return grad.clamp(-1, 1)` |
# | C | `grad.detach().clamp_(-1, 1)` |
# | D | `grad.clamp(-1, 1)` |

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# A sum hands a gradient to each of its inputs. Does each get a copy?
#
# <details><summary>Hint 2 of 3</summary>
#
# Chapter 03, section 4, “Ten times smaller”: which of the two leaves was wrong there, and which line did it?
#
# <details><summary>Hint 3 of 3</summary>
#
# Of the two hooks one answers and one writes. For the remedies ask each time: does it leave the argument as it is, and
# does the engine get an answer?
#
# </details></details></details>

# %%
from seegrad import pick

pick(
    "found",
    {
        "culprit": "line",
        "victim": ["u", "v", "w"],
        "remedy": ["A", "B", "C", "D"],
    },
    """
def slow(grad):
    return grad * 0.1
def clip(grad):
    grad.clamp_(-1, 1)
w.register_hook(slow)
u.register_hook(clip)
loss = ((u + v + w) * x).pow(2).sum()
loss.backward()
""",
    """
u, v, w = (torch.tensor([number, 1.0], requires_grad=True) for number in (1.0, 2.0, 3.0))
x = torch.tensor([1.0, 2.0])
""",
)

# %% grade_id="find" kind="solution"
found = {"culprit": None, "victim": None, "remedy": None}
### BEGIN SOLUTION
found = {"culprit": 4, "victim": "v", "remedy": "B"}
### END SOLUTION

# %% grade_id="find_test" kind="test" points=14
from seegrad.check import answers, expect

expect("type(found).__name__", type(found).__name__).equals("dict")
expect("sorted(found)", sorted(found, key=str)).equals(["culprit", "remedy", "victim"])
expect("found['culprit']", found["culprit"]).one_of(range(1, 9))
expect("found['victim']", found["victim"]).one_of(["u", "v", "w"])
expect("found['remedy']", found["remedy"]).one_of(["A", "B", "C", "D"])
### BEGIN HIDDEN TESTS
answers(
    "found",
    found,
    {"culprit": 4, "victim": "v", "remedy": "B"},
    {
        "culprit": {"*": "answers"},
        "victim": {"u": "answers", "w": "answers"},
        "remedy": {"A": "answers", "C": "M05", "D": "unreturned"},
    },
    of=14,
)
### END HIDDEN TESTS

# %% [markdown]
# ## 4 · Repair (16 points)
#
# `hidden_gradient(w, x)` computes the loss $\sum (relu(w \cdot x) - 1)^2$ and runs backward. It should
#
# 1. return the gradient of `w * x`, the tensor **before** the relu;
# 2. leave in `w.grad` the gradient of **this** call, whatever was there before.
#
# It raises nothing, and does neither. Any repair counts, a new body too; the smallest is the easiest to check.

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# When `h.grad` is read, which value of `h` does it belong to?
#
# <details><summary>Hint 2 of 3</summary>
#
# Chapter 03, section 5, “Where you meet it”, shows the two gradients of one `h`. Section 2, “Two backward calls”, is
# about the other half.
#
# <details><summary>Hint 3 of 3</summary>
#
# Let the relu make a tensor of its own and give that another name, so that the first tensor stays what was asked to
# keep its gradient. And what must be true of `w.grad` just before backward?
#
# </details></details></details>


# %% grade_id="repair" kind="solution"
def hidden_gradient(w, x):
    h = w * x
    h.retain_grad()
    h.relu_()
    loss = (h - 1).pow(2).sum()
    loss.backward()
    return h.grad


### BEGIN SOLUTION
def hidden_gradient(w, x):
    h = w * x
    h.retain_grad()
    active = h.relu()
    loss = (active - 1).pow(2).sum()
    w.grad = None
    loss.backward()
    return h.grad


### END SOLUTION


# %% grade_id="repair_test" kind="test" points=16
import torch
from seegrad.check import call, expect

w = torch.tensor([1.0, -2.0], requires_grad=True)
x = torch.tensor([3.0, 1.0])
came = call("hidden_gradient(w, x)", hidden_gradient, w, x, suggests={"unkept": "M02"}, w=w, x=x)
after_relu = torch.is_tensor(came) and came.tolist() == [4.0, -2.0]
suspected = {"shape": "M02", "wrong": "M11" if after_relu else None}
expect("hidden_gradient(w, x)", came, w=w, x=x).close(torch.tensor([4.0, 0.0]), suspected)
### BEGIN HIDDEN TESTS
from seegrad.promise import leaf, numbers, promised


def by_formula(weights, factors):
    product = weights.detach() * factors
    of_product = 2 * (product.relu() - 1) * (product > 0)
    weights.grad = of_product * factors
    return of_product


def signs(*shape, scale=1.0, before=None, **kind):
    factors = numbers(*shape, low=0.5, high=2.0, **kind) * scale
    factors.view(-1)[::2] *= -1
    return {"w": leaf(numbers(*shape, low=0.5, high=2.0, **kind), before), "x": factors}


promised(
    "hidden_gradient(w, x)",
    hidden_gradient,
    by_formula,
    signs(4, before=5.0),
    signs(4),
    signs(2, 3, scale=-40.0, before=-1.0, dtype=torch.float64),
    signs(scale=-1.0),
    signs(1, scale=0.001),
    suggests={
        **{"unrecorded": "M07", "kind": "M02", "unfilled": "M01"},
    },
)
### END HIDDEN TESTS

# %% [markdown]
# ## 5 · Write (18 points)
#
# Write `limited(x, limit)`. It returns a tensor with the values of `x`, to go on computing with. The gradient that
# comes back **through it** is clipped, element by element, to −limit … limit, before it reaches `x`.
#
# - Other uses of `x` get their full gradient through.
# - Nobody else's gradient changes. `side_by_side` puts your function beside a neighbour, so that you can look.
# - `x` requires a gradient, and keeps its values.

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# If you hook `x` itself, which gradients does the hook see?
#
# <details><summary>Hint 2 of 3</summary>
#
# Chapter 03, section 4: how a hook answers, “How far does it reach?”, and what a hook must not do with its argument.
#
# <details><summary>Hint 3 of 3</summary>
#
# You need a second tensor with the same values, made from `x` by an operation that autograd knows, so that only what
# comes back through it meets the hook.
#
# </details></details></details>


# %%
def side_by_side(x, neighbour, c, limit):
    beside = neighbour * 1
    loss = ((limited(x, limit) + beside) * c).sum()
    loss.backward()
    return x.grad, neighbour.grad


# %% grade_id="write" kind="solution"
def limited(x, limit):
    ### BEGIN SOLUTION
    y = x.clone()
    y.register_hook(lambda grad: grad.clamp(-limit, limit))
    return y
    ### END SOLUTION


# %% grade_id="write_test" kind="test" points=18
import torch
from seegrad.check import call, expect

x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
c = torch.tensor([5.0, -0.5, -5.0])
y = call("limited(x, 1)", limited, x, 1.0, x=x)
expect("limited(x, 1)", y, x=x).close(x)
if y.requires_grad:
    (y * c).sum().backward()
suspected = {"[5.0, -0.5, -5.0]": "answers", "[5.0, 0.0, 0.0]": "clamp_values"}
suspected = suspected.get(str(x.grad is not None and (x.grad + 0).tolist())) if y.requires_grad else "cut"
expect("(limited(x, 1) * c).sum().backward(); x.grad", x.grad, x=x, c=c).close(
    torch.tensor([1.0, -0.5, -1.0]), suspected
)
### BEGIN HIDDEN TESTS
from seegrad.promise import between, leaf, numbers, promised, scattered

for limit in (0.5, 2.0):
    x, neighbour = torch.rand(6).requires_grad_(), torch.rand(6).requires_grad_()
    c = numbers(6, holds=(3.0, -3.0, 0.25))
    given = {"x": x.detach().clone(), "neighbour": neighbour.detach().clone(), "c": c}
    asked = f"side_by_side(x, neighbour, c, {limit})"
    of_x, of_neighbour = call(asked, side_by_side, x, neighbour, c, limit, **given)
    expect(f"{asked}[0]", of_x, **given).close(c.clamp(-limit, limit))
    expect(f"{asked}[1]", of_neighbour, **given).close(c, {"wrong": "answers"})


def clipped(given, bound):
    same = given.view_as(given)
    same.register_hook(lambda arriving: arriving.clip(-bound, bound))
    return same


F64 = torch.float64
promised(
    "limited(x, limit)",
    limited,
    clipped,
    {"x": leaf(numbers(3, holds=(-1.5, 0.0)), grad=1.0), "limit": 0.5},
    {"x": leaf(numbers(3)), "limit": 2.0},
    {"x": between(numbers(2, 3, dtype=F64)), "limit": 1.0},
    {"x": scattered(numbers(4, low=-900, high=900)), "limit": 0.25},
    {"x": leaf(numbers(dtype=F64)), "limit": 0.5},
)
### END HIDDEN TESTS

# %% [markdown]
# ## 6 · Order (10 points)
#
# A training step, in pieces. Choose the lines that belong in it and put them in order, so that over many steps `w`
# learns, and `log` gets the gradient of `h` of each step. Some lines don't belong. There is more than one right order.
#
# ```
# A   h = w * x
# B   h.retain_grad()
# C   loss = (h - y).pow(2).sum()
# D   loss.backward()
# E   log.append(h.grad.clone())
# F   with torch.no_grad(): w -= lr * w.grad
# G   w.grad = None
# H   h = h.detach()
# I   loss.backward(inputs=[h])
# J   w = w - lr * w.grad
# ```
#
# Answer with the letters, for example `"AHC"`.

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# Which two `.grad`s does the step read, and which lines fill them?
#
# <details><summary>Hint 2 of 3</summary>
#
# Chapter 03, “Asked after backward” in section 2, and section 7: who has a `.grad` when you name the tensors that you
# want.
#
# <details><summary>Hint 3 of 3</summary>
#
# Seven lines belong. Start from the two that read a `.grad` and put before each what it needs. Then ask what the next
# step would find in `w.grad`.
#
# </details></details></details>

# %% grade_id="order" kind="solution"
steps = None
### BEGIN SOLUTION
steps = "ABCDEFG"
### END SOLUTION

# %% grade_id="order_test" kind="test" points=10
import torch
from seegrad.check import expect

expect("steps", steps).letters("ABCDEFGHIJ")
### BEGIN HIDDEN TESTS
from seegrad.check import perform

LINES = {
    "A": "h = w * x",
    "B": "h.retain_grad()",
    "C": "loss = (h - y).pow(2).sum()",
    "D": "loss.backward()",
    "E": "log.append(h.grad.clone())",
    "F": "with torch.no_grad(): w -= lr * w.grad",
    "G": "w.grad = None",
    "H": "h = h.detach()",
    "I": "loss.backward(inputs=[h])",
    "J": "w = w - lr * w.grad",
}


def run(letters, start, x, y):
    names = {"torch": torch, "w": start.clone().requires_grad_(), "log": [], "x": x, "y": y, "lr": 0.1}
    for number in (1, 2, 3):
        for letter in letters:
            perform(LINES[letter], names, letter, number)
    return names["w"].detach(), names["log"]


def suspicion(letters):
    for letter, number in {"J": "M11", "H": "cut", "I": "inputs"}.items():
        if letter in letters:
            return number
    if "D" in letters and "B" not in letters.partition("D")[0]:
        return "M02"
    if "G" in letters.partition("D")[2].partition("F")[0] and "F" in letters:
        return "thrown_away"
    if not set("ACDEF") <= set(letters):
        return "left_out"
    return "M09" if "G" not in letters else "twice" if len(set(letters)) < len(letters) else None


start, x, y = torch.rand(3), torch.rand(3) + 0.5, torch.rand(3)
given = {"w": start, "x": x, "y": y}
suspected = suspicion(steps)
try:
    w, log = run(steps[:16], start, x, y)
except Exception as error:
    expect(f"3 × {steps[:16]}", error, **given).equals(None, suspected)
want_w, want_log = run("ABCDEFG", start, x, y)
expect(f"3 × {steps[:16]}; w", w, **given).close(want_w, suspected)
expect(f"3 × {steps[:16]}; len(log)", len(log), **given).equals(3, suspected)
expect(f"3 × {steps[:16]}; log", torch.stack(log), **given).close(torch.stack(want_log), suspected)
### END HIDDEN TESTS

# %% [markdown]
# ## 7 · Explain (10 points)
#
# A colleague writes: *“I called `h.retain_grad()` and `h.register_hook(print)` on one and the same `h`, and they show
# different gradients. And since I put a hook with `grad.mul_(0.1)` on one weight, another weight learns too slowly.
# Torch must be broken.”*
#
# Answer in at most 120 words: how can the two gradients of `h` differ though both are right, how could the second
# weight be hit, and what would you write instead?

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# What may happen to `h`, or to its gradient, between the two?
#
# <details><summary>Hint 2 of 3</summary>
#
# Chapter 03: “Several at once” and “Ten times smaller” in section 4; section 5 as a whole.
#
# <details><summary>Hint 3 of 3</summary>
#
# Say for each of the two what it stays with. Then think of one gradient that an operation passes to two places.
#
# </details></details></details>

# %% [markdown] grade_id="explain" kind="manual" points=10
# A hook stays with the value on which it was registered; `retain_grad` follows the tensor and keeps what is left when
# all hooks have run. So they differ if `h` was written in place after the hook was registered, as by `relu_`, or if
# another hook changed the gradient after `print` had seen it. Both are right: they are gradients of two values, or
# before and after a change. An addition passes one and the same gradient tensor to both inputs. `mul_` writes into
# that tensor, so whoever is served later gets a tenth as well, and torch doesn't notice. I would return a new tensor,
# `grad * 0.1`, and register hooks after the last in-place write, or use `relu` instead of `relu_`.

# %% [markdown] grade_id="explain_rubric" kind="given"
# <details><summary>How it is graded</summary>
#
# | points | for |
# |---|---|
# | 3 | how the two gradients of `h` can differ |
# | 2 | of what each of the two numbers is right |
# | 3 | how the second weight could be hit |
# | 2 | what you would write instead |
#
# </details>
