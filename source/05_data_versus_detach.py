# %% [markdown]
# # Assignment 05: `.data` versus `.detach()`
#
# Six exercises, 100 points, about 45 minutes. Write your answers in the cells that say `YOUR CODE HERE` or
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
# ## 1 · Predict (15 points)
#
# Each program starts with `x = torch.tensor([0.5, 1.0, 1.5], requires_grad=True)` and ends with
# `out.sum().backward()`. What happens there?
#
# | | made by | then written by |
# |---|---|---|
# | A | `out = x.sigmoid()` | `out.data.zero_()` |
# | B | `out = x.sigmoid()` | `out.detach().zero_()` |
# | C | `out = x.sin()` | `out.detach().zero_()` |
# | D | `out = x.exp()` | `out.detach().numpy()[:] = 0` |
# | E | `out = x * 3` | `out.data.mul_(2)` |
#
# `"raises"`: backward raises. `"silent"`: no error, but `x.grad` isn't the derivative of what made `out`.
# `"right"`: no error, and it is.

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# Which tensors does each Node keep for backward: its input, its result, or none? And which of them does the
# second column overwrite?
#
# <details><summary>Hint 2 of 3</summary>
#
# Chapter 05, sections 3 to 5: a write through `.data` or numpy moves no counter, one through `.detach()` does. The
# list of eight functions says what each of them saves.
#
# <details><summary>Hint 3 of 3</summary>
#
# Ask two things of each row. Was the overwritten value saved? If not, nothing can go wrong. If it was, did the
# counter that the Node watches move? Only then does torch know.
#
# </details></details></details>

# %% grade_id="predict" kind="solution"
prediction = {"A": None, "B": None, "C": None, "D": None, "E": None}
### BEGIN SOLUTION
prediction = {"A": "silent", "B": "raises", "C": "right", "D": "silent", "E": "right"}
### END SOLUTION

# %% grade_id="predict_test" kind="test" points=15
import operator

import torch
from seegrad.check import answers, call, expect

for program in "ABCDE":
    asked = f"prediction[{program!r}]"
    expect(asked, call(asked, operator.getitem, prediction, program)).one_of(["raises", "silent", "right"])
### BEGIN HIDDEN TESTS
PROGRAMS = {
    "A": (torch.sigmoid, lambda out: out.data.zero_()),
    "B": (torch.sigmoid, lambda out: out.detach().zero_()),
    "C": (torch.sin, lambda out: out.detach().zero_()),
    "D": (torch.exp, lambda out: out.detach().numpy().fill(0)),
    "E": (lambda x: x * 3, lambda out: out.data.mul_(2)),
}


def outcome(make, write):
    x = (torch.rand(3) + 0.5).requires_grad_()
    (want,) = torch.autograd.grad(make(x).sum(), x)
    out = make(x)
    write(out)
    try:
        out.sum().backward()
    except RuntimeError:
        return "raises"
    return "right" if torch.allclose(x.grad, want) else "silent"


answers(
    "prediction",
    prediction,
    {program: outcome(*both) for program, both in PROGRAMS.items()},
    {
        "A": {"raises": "M05", "right": "M06"},
        "B": {"silent": "M05", "right": "M05"},
        "C": {"raises": "M03", "silent": "who_saves"},
        "D": {"raises": "M12", "right": "M06"},
        "E": {"raises": "M03", "silent": "who_saves"},
    },
    of=15,
)
### END HIDDEN TESTS

# %% [markdown]
# ## 2 · Find (15 points)
#
# This program runs without an error, and `w.grad` is wrong.
#
# ```
# 1   p = torch.sigmoid(w * x)
# 2   loss = (p - y).pow(2).sum()
# 3   kept = p.detach()
# 4   best = kept.max()
# 5   shown = p.data
# 6   shown[shown < best] = 0
# 7   print(shown)
# 8   loss.backward()
# ```
#
# - `"culprit"`: the number of the line that writes over a value which backward still needs.
# - `"victim"`: the number of the line that saved this value.
# - `"detach"`: what would happen if line 5 were `shown = p.detach()`? `"raises"`, `"silent"` or `"right"`.

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# Which line makes a value whose Node keeps it for backward, and which later line changes those very bytes?
#
# <details><summary>Hint 2 of 3</summary>
#
# Chapter 05, section 1: `.data` and `.detach()` give another name for the same bytes, and copy nothing. Section 4: the
# line that fails and the line that wrote are two different lines.
#
# <details><summary>Hint 3 of 3</summary>
#
# Only one line here writes into a tensor that exists already; the others make new ones or look. Go up from there:
# whose bytes are they? For the last question ask whether those bytes and their counter are shared.
#
# </details></details></details>

# %%
from seegrad import pick

pick(
    "found",
    {
        "culprit": "line",
        "victim": "line",
        "detach": ["raises", "silent", "right"],
    },
    """
p = torch.sigmoid(w * x)
loss = (p - y).pow(2).sum()
kept = p.detach()
best = kept.max()
shown = p.data
shown[shown < best] = 0
print(shown)
loss.backward()
""",
    """
w = torch.tensor([0.5, 1.0, 2.0], requires_grad=True)
x, y = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 0.0, 1.0])
""",
)

# %% grade_id="find" kind="solution"
found = {"culprit": None, "victim": None, "detach": None}
### BEGIN SOLUTION
found = {"culprit": 6, "victim": 1, "detach": "raises"}
### END SOLUTION

# %% grade_id="find_test" kind="test" points=15
import operator

from seegrad.check import answers, call, expect

for line in ("culprit", "victim"):
    asked = f"found[{line!r}]"
    expect(asked, call(asked, operator.getitem, found, line)).one_of(range(1, 9))
asked = "found['detach']"
expect(asked, call(asked, operator.getitem, found, "detach")).one_of(["raises", "silent", "right"])
### BEGIN HIDDEN TESTS
answers(
    "found",
    found,
    {"culprit": 6, "victim": 1, "detach": "raises"},
    {
        "culprit": {**dict.fromkeys((2, 4, 7, 8), "writes_none"), 1: "other", 3: "shares", 5: "shares"},
        "victim": {2: "saves_none", **dict.fromkeys((3, 4, 5, 7, 8), "no_node"), 6: "other"},
        "detach": {"silent": "M05", "right": "M05"},
    },
    of=15,
)
### END HIDDEN TESTS

# %% [markdown]
# ## 3 · Repair (20 points)
#
# `train_step(w, x, lr)` should do one step of gradient descent on `(w * w * x).sum()`:
#
# 1. take the gradient at the `w` that the loss was computed with,
# 2. update `w` **in place**: `w ← w − lr · gradient`, then keep it within −1 … 1,
# 3. leave `w.grad` empty (`None` or zero), so that the next step starts afresh,
# 4. return the loss.
#
# It raises nothing, and learns the wrong thing. When it is called, `w.grad` is empty. Any repair counts, a new body
# too; the smallest is the easiest to check. How you write into `w` is your choice, if it is in place.

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# At the moment when backward runs, is `w` still what the loss was computed with?
#
# <details><summary>Hint 2 of 3</summary>
#
# Chapter 05, section 6, shows today's way to write a parameter and what it does to the version; section 8 says when a
# write harms nobody.
#
# <details><summary>Hint 3 of 3</summary>
#
# Sort the lines: first everything that needs the old `w`, then everything that changes it. What changes `w` belongs
# where gradients aren't recorded, and the last thing to do is to empty what backward filled.
#
# </details></details></details>

# %% grade_id="repair" kind="solution"
def train_step(w, x, lr):
    loss = (w * w * x).sum()
    w.data.clamp_(-1, 1)
    loss.backward()
    w.data.sub_(lr * w.grad)
    return loss


### BEGIN SOLUTION
def train_step(w, x, lr):
    loss = (w * w * x).sum()
    loss.backward()
    with torch.no_grad():
        w.sub_(lr * w.grad)
        w.clamp_(-1, 1)
    w.grad = None
    return loss
### END SOLUTION


# %% grade_id="repair_test" kind="test" points=20
import torch
from seegrad.check import call, expect

SYMPTOMS = {"raised": ("M05", "M07")}
w = torch.tensor([2.0, -0.5], requires_grad=True)
x = torch.tensor([1.0, 2.0])
start = w.detach().clone()
call("train_step(w, x, 0.1)", train_step, w, x, 0.1, suggests=SYMPTOMS, w=start, x=x)
suspected = "new_name" if torch.equal(w.detach(), start) else None
expect("train_step(w, x, 0.1); w", w, w=start, x=x).close(torch.tensor([1.0, -0.3]), suspected)
### BEGIN HIDDEN TESTS
from seegrad.promise import leaf, numbers, promised


def stepped(weights, factors, rate):
    old = weights.detach().clone()
    with torch.no_grad():
        weights.copy_((old - rate * 2 * old * factors).clamp(-1, 1))
    return float((old * old * factors).sum())


def parts(*shape, rate=0.5, low=0.0, high=0.3, **kind):
    weights = numbers(*shape, low=-0.9, high=0.9, holds=(2.5, -2.5, 0.0), **kind)
    return {"w": leaf(weights), "x": numbers(*shape, low=low, high=high, **kind), "lr": rate}


promised(
    "train_step(w, x, lr)",
    train_step,
    stepped,
    parts(5),
    parts(4, rate=0.25, low=1.5, high=3.0),
    parts(2, 3, low=-0.3, dtype=torch.float64),
    parts(1),
    parts(5, rate=0.01, low=-40.0, high=40.0),
    empties="w",
    suggests={"overwritten": ("M05", "M07"), "unmoved": "new_name"},
)
### END HIDDEN TESTS

# %% [markdown]
# ## 4 · Write (20 points)
#
# Write `percent(x)`. It returns two tensors:
#
# - `p`: the sigmoid of `x`, to train with: its gradient has to be right;
# - `shown`: the same values in percent, with everything below 50 set to 0, to print: no gradient comes back
#   through it.
#
# `x` keeps its values. How you get there is your choice.

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# Which of the two results may share its bytes with the other, if one of them is overwritten?
#
# <details><summary>Hint 2 of 3</summary>
#
# Chapter 05, section 8: three ways to get numbers of one's own, without history.
#
# <details><summary>Hint 3 of 3</summary>
#
# Make `p` first and leave it alone. `shown` has to be cut from the graph and needs memory of its own *before* you set
# anything to zero; a multiplication makes new memory.
#
# </details></details></details>

# %% grade_id="write" kind="solution"
def percent(x):
    ### BEGIN SOLUTION
    p = x.sigmoid()
    shown = p.detach() * 100
    shown[shown < 50] = 0
    return p, shown
    ### END SOLUTION


# %% grade_id="write_test" kind="test" points=20
import torch
from seegrad.check import call, expect

x = torch.tensor([-1.0, 0.5, 2.0], requires_grad=True)
came = call("percent(x)", percent, x, x=x)
p, shown = expect("percent(x)", came, x=x).tensors(2)
expect("percent(x)[0]", p, x=x).close(torch.sigmoid(x), "M05" if p.data_ptr() == shown.data_ptr() else None)
expect("percent(x)[1]", shown, x=x).close(torch.tensor([0.0, 62.2459, 88.0797]))
### BEGIN HIDDEN TESTS
from seegrad.promise import between, leaf, numbers, promised, scattered


def two(given):
    chance = given.sigmoid()
    kept = chance.detach()
    return chance, torch.where(kept >= 0.5, 100 * kept, 0)


def two_overwritten(given):
    chance, shown = two(given)
    return chance.detach() + (given - given.detach()) * shown * (1 - shown), shown


def two_cut(given):
    chance, shown = two(given.detach())
    return chance.requires_grad_(given.requires_grad), shown


F64 = torch.float64
promised(
    "percent(x)",
    percent,
    two,
    {"x": leaf(numbers(4, holds=(0.0, -0.5, 0.5)), grad=1.0)},
    {"x": leaf(numbers(5, low=-20, high=20, holds=(2.5, 1.5, -20.0, 20.0), dtype=F64))},
    {"x": leaf(numbers(4, holds=(0.5, 1.0), dtype=F64))},
    {"x": between(numbers(2, 3, holds=(0.0, -1.0, 1.0), dtype=F64))},
    {"x": scattered(numbers(5))},
    {"x": numbers(3)},
    {"x": leaf(numbers(1, low=0.1))},
    suggests={"overwritten": "M05", "shared": "M05"},
    beliefs={"M06": two_overwritten, "cut": two_cut},
)
### END HIDDEN TESTS

# %% [markdown]
# ## 5 · Order (15 points)
#
# A training step, in pieces. Choose the lines that belong in it and put them in order, so that over many steps `w`
# learns and `ema` follows the **updated** `w`. Some lines don't belong. There is more than one right order.
#
# ```
# A   loss = ((w * x).sigmoid() - y).pow(2).sum()
# B   loss.backward()
# C   with torch.no_grad(): w -= lr * w.grad
# D   w.grad = None
# E   ema.mul_(0.9).add_(w.detach(), alpha=0.1)
# F   w = w - lr * w.grad
# G   ema = w.data
# H   loss.data.backward()
# ```
#
# Answer with the letters, for example `"AHG"`.

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# Which of the lines use a gradient, which of them makes it, and which one throws it away?
#
# <details><summary>Hint 2 of 3</summary>
#
# Chapter 05, section 6, on updating a parameter, and the table at the end of section 8.
#
# <details><summary>Hint 3 of 3</summary>
#
# Three lines don't belong: one has no history to run backward on, one gives a name a new tensor, one shares bytes
# instead of averaging. The rest follows from what each line needs: the average comes after what it averages.
#
# </details></details></details>

# %% grade_id="order" kind="solution"
steps = None
### BEGIN SOLUTION
steps = "ABCDE"
### END SOLUTION

# %% grade_id="order_test" kind="test" points=15
import torch
from seegrad.check import expect

expect("steps", steps).letters("ABCDEFGH")
### BEGIN HIDDEN TESTS
from seegrad.check import perform

LINES = {
    "A": "loss = ((w * x).sigmoid() - y).pow(2).sum()",
    "B": "loss.backward()",
    "C": "with torch.no_grad(): w -= lr * w.grad",
    "D": "w.grad = None",
    "E": "ema.mul_(0.9).add_(w.detach(), alpha=0.1)",
    "F": "w = w - lr * w.grad",
    "G": "ema = w.data",
    "H": "loss.data.backward()",
}


def run(letters, start, x, y, times):
    names = {"torch": torch, "w": start.clone().requires_grad_(), "ema": torch.zeros(3), "x": x, "y": y, "lr": 0.5}
    for number in range(times):
        for letter in letters:
            perform(LINES[letter], names, letter, number + 1)
    return names["w"].detach(), names["ema"].detach()


def suspicion(letters):
    for letter, number in {"H": "cut", "F": "M11", "G": "M05"}.items():
        if letter in letters:
            return number
    if "BDC" in letters or "BDEC" in letters:
        return "thrown_away"
    if not set("ABCE") <= set(letters):
        return "left_out"
    return "M09" if "D" not in letters else "twice" if len(set(letters)) < len(letters) else None


start, x, y = torch.rand(3), torch.rand(3) + 0.5, torch.rand(3)
given = {"w": start, "x": x, "y": y}
suspected = suspicion(steps)
try:
    w, ema = run(steps[:16], start, x, y, 3)
except Exception as error:
    expect(f"3 × {steps[:16]}", error, **given).equals(None, suspected)
want_w, want_ema = run("ABCDE", start, x, y, 3)
expect(f"3 × {steps[:16]}; w", w, **given).close(want_w, suspected)
expect(f"3 × {steps[:16]}; ema", ema, **given).close(want_ema, suspected)
### END HIDDEN TESTS

# %% [markdown]
# ## 6 · Explain (15 points)
#
# A colleague writes: *“After the upgrade our training raised the error about an inplace operation. I replaced each
# `.detach()` by `.data`. The error is gone, so it's fixed.”*
#
# Answer in at most 120 words: what did the replacement change, what did it not change, how would you show the
# colleague that the gradient is wrong, and what would you do instead?

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# Did the write that the error complained of go away?
#
# <details><summary>Hint 2 of 3</summary>
#
# Chapter 05, section 2, names the one thing in which the two differ; section 3 shows two ways to examine a gradient.
#
# <details><summary>Hint 3 of 3</summary>
#
# Four sentences are enough: what stays the same, what torch can no longer see, one comparison that anybody can run,
# and a remedy that gives the write a place of its own or another moment.
#
# </details></details></details>

# %% [markdown] grade_id="explain" kind="manual" points=15
# `.data` and `.detach()` both give a tensor with the same bytes and no history. `.detach()` shares the version
# counter, so a write through it moves the version of what backward saved, and torch raises. `.data` has its own
# counter: the write is the same, the value that backward reads is just as destroyed, only the alarm is off. I would
# compare one gradient with a finite difference, or record the step and look for a silent corruption. Then I would
# find the write and give it its own memory, with `.detach().clone()` or an out-of-place operation, or move it after
# backward.

# %% [markdown] grade_id="explain_rubric" kind="given"
# <details><summary>How it is graded</summary>
#
# | points | for |
# |---|---|
# | 4 | what the replacement didn't change |
# | 4 | what it changed |
# | 3 | how you would show the colleague that the gradient is wrong |
# | 4 | what you would do instead |
#
# </details>
