# %% [markdown]
# # Assignment 01: Computational graphs
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
# ## 1 · Predict: who has a gradient? (10 points)
#
# ```
# x = torch.tensor([1.0, 2.0])
# w = torch.tensor(3.0, requires_grad=True)
# s = torch.tensor(4.0, requires_grad=True) * 0.5
# d = torch.tensor(1.0, requires_grad=True)
# n = torch.tensor(1.0, requires_grad=True)
# e = torch.tensor(1.0, requires_grad=True)
# h = x * w + s
# with torch.no_grad():
#     h = h + n
# k = x * w + s + d.detach() + torch.nn.Dropout().eval()(e)
# loss = (h * k).sum()
# loss.backward()
# ```
#
# After it, does `.grad` of each tensor hold a `"gradient"`, or `"nothing"`?

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# Which of them made an edge that `loss` can reach, and which of those does the graph end at?
#
# <details><summary>Hint 2 of 3</summary>
#
# Sections 6 and 9: a gradient passes through many tensors and stays in few; some lines record no edge.
#
# <details><summary>Hint 3 of 3</summary>
#
# For each name ask three things: does it require a gradient, did no operation make it, is there a path from `loss`?
# Three times yes, or it holds nothing.
#
# </details></details></details>

# %%
from seegrad import pick

pick(
    "holds",
    dict.fromkeys(("x", "w", "s", "d", "n", "e", "k", "loss"), ["gradient", "nothing"]),
    """
x = torch.tensor([1.0, 2.0])
w = torch.tensor(3.0, requires_grad=True)
s = torch.tensor(4.0, requires_grad=True) * 0.5
d = torch.tensor(1.0, requires_grad=True)
n = torch.tensor(1.0, requires_grad=True)
e = torch.tensor(1.0, requires_grad=True)
h = x * w + s
with torch.no_grad():
    h = h + n
k = x * w + s + d.detach() + torch.nn.Dropout().eval()(e)
loss = (h * k).sum()
loss.backward()
""",
)

# %% grade_id="predict" kind="solution"
holds = {"x": None, "w": None, "s": None, "d": None, "n": None, "e": None, "k": None, "loss": None}
### BEGIN SOLUTION
holds = {
    "x": "nothing",
    "w": "gradient",
    "s": "nothing",
    "d": "nothing",
    "n": "nothing",
    "e": "gradient",
    "k": "nothing",
    "loss": "nothing",
}
### END SOLUTION

# %% grade_id="predict_test" kind="test" points=10
from seegrad.check import answers, expect

expect("type(holds).__name__", type(holds).__name__).equals("dict")
expect("sorted(holds)", sorted(holds, key=str)).equals(["d", "e", "k", "loss", "n", "s", "w", "x"])
for name in ("x", "w", "s", "d", "n", "e", "k", "loss"):
    expect(f"holds[{name!r}]", holds[name]).one_of(["gradient", "nothing"])
### BEGIN HIDDEN TESTS
answers(
    "holds",
    holds,
    {name: "gradient" if name in ("w", "e") else "nothing" for name in ("x", "w", "s", "d", "n", "e", "k", "loss")},
    {
        "x": {"gradient": "unasked"},
        "w": {"nothing": "reached"},
        "s": {"gradient": "M01"},
        "d": {"gradient": "cut"},
        "n": {"gradient": "cut"},
        "e": {"nothing": "M08"},
        "k": {"gradient": "M02"},
        "loss": {"gradient": "M02"},
    },
    of=10,
)
### END HIDDEN TESTS

# %% [markdown]
# ## 2 · Predict: which write does harm? (10 points)
#
# ```
# x = torch.tensor([1.0, 2.0])
# w = torch.tensor(0.5, requires_grad=True)
# a = x * w
# b = a.sin()
# c = b.exp()
# d = c + a
# loss = d.sum()
# ```
#
# Then **one** of these lines, then `loss.backward()`. Does it raise?
#
# | | the line |
# |---|---|
# | A | `b.mul_(3)` |
# | B | `c.abs_()` |
# | C | `d.zero_()` |
# | D | `a = a * 0` |
# | E | `a[1].zero_()` |
# | F | `c.detach().mul_(2)` |
#
# `"raises"`, or `"right"`: no error, and the gradient is that of the seven lines.

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# Which tensor does each of the lines write into, if any? And who saved that tensor?
#
# <details><summary>Hint 2 of 3</summary>
#
# Section 4 has a table: input, result, or nothing. Section 8 has ten lines much like these.
#
# <details><summary>Hint 3 of 3</summary>
#
# Write beside each of `*`, `sin`, `exp`, `+`, `sum` what its derivative needs. A line does harm when it moves the
# version of one of those tensors; whether a value changes doesn't matter.
#
# </details></details></details>

# %% grade_id="predict_write" kind="solution"
outcome = {"A": None, "B": None, "C": None, "D": None, "E": None, "F": None}
### BEGIN SOLUTION
outcome = {"A": "right", "B": "raises", "C": "right", "D": "right", "E": "raises", "F": "raises"}
### END SOLUTION

# %% grade_id="predict_write_test" kind="test" points=10
from seegrad.check import answers, expect

expect("type(outcome).__name__", type(outcome).__name__).equals("dict")
expect("sorted(outcome)", sorted(outcome, key=str)).equals(list("ABCDEF"))
for line in "ABCDEF":
    expect(f"outcome[{line!r}]", outcome[line]).one_of(["raises", "right"])
### BEGIN HIDDEN TESTS
import torch

WRITES = {
    "A": "b.mul_(3)",
    "B": "c.abs_()",
    "C": "d.zero_()",
    "D": "a = a * 0",
    "E": "a[1].zero_()",
    "F": "c.detach().mul_(2)",
}
FORWARD = "a = x * w; b = a.sin(); c = b.exp(); d = c + a; loss = d.sum()"


def comes_of(line):
    names = {"x": torch.rand(2) + 0.5, "w": torch.tensor(0.5, requires_grad=True)}
    exec(FORWARD, names)
    (want,) = torch.autograd.grad(names["loss"], names["w"])
    exec(FORWARD, names)
    exec(line, names)
    try:
        names["loss"].backward()
    except RuntimeError:
        return "raises"
    return "right" if torch.allclose(names["w"].grad, want) else "wrong"


answers(
    "outcome",
    outcome,
    {line: comes_of(code) for line, code in WRITES.items()},
    {
        "A": {"raises": "M03"},
        "B": {"right": "watched"},
        "C": {"raises": "M03"},
        "D": {"raises": "M11"},
        "E": {"right": "M12"},
        "F": {"right": "M05"},
    },
    of=10,
)
### END HIDDEN TESTS

# %% [markdown]
# ## 3 · Find (15 points)
#
# The last line raises: a variable needed for gradient computation has been modified by an inplace operation.
#
# ```
# 1   l1 = inp * w1
# 2   l2 = l1 + w2
# 3   l2.mul_(2)
# 4   l3 = l1 * w3
# 5   l4 = l2 * l3
# 6   seen = l3.detach()
# 7   seen.clamp_(max=6)
# 8   loss = l4.mean()
# 9   loss.backward()
# ```
#
# All four leaves require a gradient.
#
# - `"culprit"`: the number of the line that overwrites a value that was saved.
# - `"victim"`: the number of the line whose Function saved what the culprit overwrote.
# - `"serves"`: the saved tensor is needed for the gradient of which tensor, `"l1"`, `"l2"`, `"l3"` or `"l4"`?
# - `"holds"`: how many of the four leaves hold a gradient after the error?

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# Two lines write in place. Which of them writes *after* somebody saved the tensor?
#
# <details><summary>Hint 2 of 3</summary>
#
# Section 4 says for whose sake a product saves each factor; section 8 answers the same questions for another program.
#
# <details><summary>Hint 3 of 3</summary>
#
# Draw the graph and put a tag at each pill for what it saved. Then walk backward from `loss`, and see how far you come
# before two versions disagree.
#
# </details></details></details>

# %%
from seegrad import pick

pick(
    "found",
    {
        "culprit": "line",
        "victim": "line",
        "serves": ["l1", "l2", "l3", "l4"],
        "holds": range(5),
    },
    """
l1 = inp * w1
l2 = l1 + w2
l2.mul_(2)
l3 = l1 * w3
l4 = l2 * l3
seen = l3.detach()
seen.clamp_(max=6)
loss = l4.mean()
loss.backward()
""",
    """
inp = torch.tensor([1.0, 2.0], requires_grad=True)
w1, w2, w3 = (torch.tensor(number, requires_grad=True) for number in (2.0, 3.0, 4.0))
""",
)

# %% grade_id="find" kind="solution"
found = {"culprit": None, "victim": None, "serves": None, "holds": None}
### BEGIN SOLUTION
found = {"culprit": 7, "victim": 5, "serves": "l2", "holds": 0}
### END SOLUTION

# %% grade_id="find_test" kind="test" points=15
from seegrad.check import answers, expect

expect("type(found).__name__", type(found).__name__).equals("dict")
expect("sorted(found)", sorted(found, key=str)).equals(["culprit", "holds", "serves", "victim"])
for line in ("culprit", "victim"):
    expect(f"found[{line!r}]", found[line]).one_of(range(1, 10))
expect("found['serves']", found["serves"]).one_of(["l1", "l2", "l3", "l4"])
expect("found['holds']", found["holds"]).one_of(range(5))
### BEGIN HIDDEN TESTS
answers(
    "found",
    found,
    {"culprit": 7, "victim": 5, "serves": "l2", "holds": 0},
    {
        "culprit": {**dict.fromkeys((1, 2, 4, 8), "writes_none"), 3: "M03", 5: "other", 6: "shares", 9: "M04"},
        "victim": {**dict.fromkeys((1, 2, 3, 4, 6, 8), "saves_none"), 7: "other", 9: "no_node"},
        "serves": {"*": "serves"},
        "holds": dict.fromkeys((1, 2, 3, 4), "stopped"),
    },
    of=15,
)
### END HIDDEN TESTS

# %% [markdown]
# ## 4 · Order (15 points)
#
# Lines for the body of a loop. Choose those that belong in it and put them in order, so that after each round `w1`,
# `w2` and `w3` hold the gradients of **this** round's $\text{mean}((x w_1 + w_2) \cdot x w_1 w_3)$. There is more than
# one right order.
#
# ```
# A   l1 = x * w1
# B   l2 = l1 + w2
# C   l3 = l1 * w3
# D   loss = (l2 * l3).mean()
# E   loss.backward()
# F   w1.grad = w2.grad = w3.grad = None
# G   l2 = l1; l2 += w2
# H   l3 = l1.detach() * w3
# I   with torch.no_grad(): l1 = x * w1
# J   loss.detach().requires_grad_().backward()
# ```
#
# Answer with the letters, for example `"AHJ"`.

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# Four of the lines cut an edge or write in place. Which are they?
#
# <details><summary>Hint 2 of 3</summary>
#
# Section 9 shows what cuts an edge, section 6 what a second round does to `.grad`.
#
# <details><summary>Hint 3 of 3</summary>
#
# Six lines belong. What a line uses has to be made above it, in the same round; emptying may come anywhere before the
# gradients arrive.
#
# </details></details></details>

# %% grade_id="order" kind="solution"
lines = None
### BEGIN SOLUTION
lines = "FABCDE"
### END SOLUTION

# %% grade_id="order_test" kind="test" points=15
from seegrad.check import expect

expect("lines", lines).letters("ABCDEFGHIJ")
### BEGIN HIDDEN TESTS
import torch
from seegrad.check import perform

LINES = {
    "A": "l1 = x * w1",
    "B": "l2 = l1 + w2",
    "C": "l3 = l1 * w3",
    "D": "loss = (l2 * l3).mean()",
    "E": "loss.backward()",
    "F": "w1.grad = w2.grad = w3.grad = None",
    "G": "l2 = l1; l2 += w2",
    "H": "l3 = l1.detach() * w3",
    "I": "with torch.no_grad(): l1 = x * w1",
    "J": "loss.detach().requires_grad_().backward()",
}
WEIGHTS = ("w1", "w2", "w3")


def suspicion(letters):
    for letter, number in {"J": "M01", "I": "M07", "H": "cut", "G": "M11"}.items():
        if letter in letters:
            return number
    if "EF" in letters:
        return "thrown_away"
    if not set("ABCDE") <= set(letters):
        return "left_out"
    return "M09" if letters.count("E") > ("F" in letters) else "twice" if len(set(letters)) < len(letters) else None


suspected = suspicion(lines)
names = {name: torch.rand(()).add(0.5).requires_grad_() for name in WEIGHTS} | {"torch": torch}
for count in (1, 2):
    names["x"] = torch.rand(4) + 0.5
    given = {name: names[name].detach() for name in ("x", *WEIGHTS)}
    try:
        for letter in lines[:16]:
            perform(LINES[letter], names, letter, count)
    except Exception as error:
        expect(f"{count} × {lines[:16]}", error, **given).equals(None, suspected)
    own = {name: names[name].detach().clone().requires_grad_() for name in WEIGHTS}
    product = names["x"] * own["w1"]
    ((product + own["w2"]) * product * own["w3"]).mean().backward()
    for name in WEIGHTS:
        came = names[name].grad
        expect(f"{count} × {lines[:16]}; {name}.grad", came, **given).close(own[name].grad, suspected)
### END HIDDEN TESTS

# %% [markdown]
# ## 5 · Repair (20 points)
#
# `loss_of(x, w1, w2, w3)` should return the mean of $(x w_1 + w_2) \cdot x w_1 w_3$, so that its `backward()` fills the
# `.grad` of all three weights. The value is right. The gradients aren't.
#
# Repair it. Any repair counts, a new body too; the smallest is the easiest to check. `x` may have any shape, the weights
# are single numbers (0-dimensional). All four keep their values, and stay leaves.

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# Call it, run backward, and look at the three gradients. Which is missing, which is there?
#
# <details><summary>Hint 2 of 3</summary>
#
# Section 9: three ways to lose an edge, and no error for any of them. `%%see` shows where the graph is cut.
#
# <details><summary>Hint 3 of 3</summary>
#
# Each of the first three lines of code wraps a plain product or sum in something that cuts an edge. When the wrappings
# are gone, run backward again: there may be a write left, and section 8 knows it.
#
# </details></details></details>


# %% grade_id="repair" kind="solution"
def loss_of(x, w1, w2, w3):
    l1 = torch.tensor((x * w1).tolist(), requires_grad=True)
    with torch.no_grad():
        l2 = l1 + w2
    l3 = l1.detach() * w3
    l4 = l2 * l3
    l3 /= l3
    return l4.mean()


### BEGIN SOLUTION
def loss_of(x, w1, w2, w3):
    l1 = x * w1
    l2 = l1 + w2
    l3 = l1 * w3
    l4 = l2 * l3
    return l4.mean()


### END SOLUTION


# %% grade_id="repair_test" kind="test" points=20
import torch
from seegrad.check import call, expect

RAISED = {"overwritten": ("M03", "M11"), "freed": "M10"}
x = torch.tensor([1.0, 2.0])
w1, w2, w3 = (torch.tensor(value, requires_grad=True) for value in (2.0, 3.0, 4.0))
loss = call("loss_of(x, w1, w2, w3)", loss_of, x, w1, w2, w3, x=x, w1=w1, w2=w2, w3=w3)
suspected = "M11" if torch.is_tensor(loss) and loss.tolist() == 148.0 else None
expect("loss_of(x, w1, w2, w3)", loss, x=x, w1=w1, w2=w2, w3=w3).close(torch.tensor(76.0), suspected)
expect("loss_of(x, w1, w2, w3); w2.grad", w2.grad, x=x, w1=w1, w2=w2, w3=w3).equals(None, "fills")
call("loss_of(x, w1, w2, w3).backward()", loss.backward, suggests=RAISED, x=x, w1=w1, w2=w2, w3=w3)
suspected = {"shape": "cut", "wrong": "M06" if w2.grad is not None and w2.grad.tolist() == 1.0 else None}
asked = "loss_of(x, w1, w2, w3).backward(); w2.grad"
expect(asked, w2.grad, x=x, w1=w1, w2=w2, w3=w3).close(torch.tensor(12.0), suspected)
### BEGIN HIDDEN TESTS
from seegrad.promise import leaf, numbers, promised


def two_paths(inp, first, second, third):
    once = torch.mul(inp, first)
    return torch.mean(once.square() * third + second * once * third)


def weights(*shape, low=0.3, high=3.0, holds=(), **kind):
    own = {name: leaf(numbers(low=low, high=high, **kind)) for name in ("w1", "w2", "w3")}
    return {"x": numbers(*shape, low=low, high=high, holds=holds, **kind), **own}


F64 = torch.float64
promised(
    "loss_of(x, w1, w2, w3)",
    loss_of,
    two_paths,
    weights(3),
    weights(2, 3, low=-3.0, holds=(-1.5, 1.5, 0.0), dtype=F64),
    {**weights(1, dtype=F64), "w2": leaf(torch.tensor(-0.5, dtype=F64), grad=2.0)},
    weights(4, low=10.0, high=40.0),
    weights(low=0.001, high=0.02, dtype=F64),
    weights(2, low=-2.0, dtype=F64),
    suggests={"lost w1": "M01", **RAISED},
    beliefs={
        "cut": lambda x, w1, w2, w3: ((x * w1 + w2) * (x * w1).detach() * w3).mean(),
        "cut 2": lambda x, w1, w2, w3: ((x * w1 + w2) * (x * w1 * w3).detach().requires_grad_()).mean(),
        "cut 3": lambda x, w1, w2, w3: (((x * w1).detach() + w2) * (x * w1 * w3)).mean(),
    },
)
### END HIDDEN TESTS

# %% [markdown]
# ## 6 · Write (20 points)
#
# This is a graph with two paths from `h` to the loss:
#
# ```
# h = x * w
# p = h + b
# q = h.exp()
# loss = (p * q).sum()
# ```
#
# Write `gradients(x, w, b)`. It returns a dict with the gradients of `loss`: `"w"`, `"b"` and `"h"`, each in the shape
# of its tensor. `x` is a vector, `w` and `b` are single numbers (0-dimensional).
#
# The three inputs **don't** require a gradient, and the function leaves them as they came: their values, and
# `requires_grad`. Read the chain rule off the graph, or (from chapter 03 on) let torch do it: how you get there is your
# choice.

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# Along which two paths does the loss depend on `h`, and what does each of them multiply?
#
# <details><summary>Hint 2 of 3</summary>
#
# Section 7 does the same for the chapter's example: multiply along a path, add where paths meet, sum what was
# broadcast.
#
# <details><summary>Hint 3 of 3</summary>
#
# Go backward, one tensor at a time: first the gradients of `p` and of `q`, which are each other's values; then `h`
# with both contributions; last `w` and `b`, which are single numbers and so need a sum.
#
# </details></details></details>


# %% grade_id="write" kind="solution"
def gradients(x, w, b):
    ### BEGIN SOLUTION
    h = x * w
    p, q = h + b, h.exp()
    by_h = q + p * q
    return {"h": by_h, "w": (by_h * x).sum(), "b": q.sum()}
    ### END SOLUTION


# %% grade_id="write_test" kind="test" points=20
import torch
from seegrad.check import call, expect

RAISED = {"unrecorded": "M01", "unused": ("M05", "M07")}
x, w, b = torch.tensor([1.0, -1.0]), torch.tensor(0.0), torch.tensor(2.0)
came = call("gradients(x, w, b)", gradients, x, w, b, suggests=RAISED, x=x, w=w, b=b)
expect("type(gradients(x, w, b)).__name__", type(came).__name__).equals("dict")
expect("sorted(gradients(x, w, b))", sorted(came)).equals(["b", "h", "w"])
suspected = "M01" if came["b"] is None else None
expect("gradients(x, w, b)['b']", came["b"], x=x, w=w, b=b).close(torch.tensor(2.0), suspected)
### BEGIN HIDDEN TESTS
from seegrad.promise import numbers, promised


def by_torch(vector, weight, bias):
    own = [weight.clone().requires_grad_(), bias.clone().requires_grad_()]
    inner = vector * own[0]
    end = torch.dot(inner + own[1], inner.exp())
    return dict(zip("hwb", torch.autograd.grad(end, [inner, *own]), strict=True))


def given(size, *, low=0.2, high=2.0, holds=(), **kind):
    w, b = (numbers(low=low, high=high, **kind) for _ in "wb")
    return {"x": numbers(size, low=low, high=high, holds=holds, **kind), "w": w, "b": b}


F64 = torch.float64
promised(
    "gradients(x, w, b)",
    gradients,
    by_torch,
    given(3),
    given(5, low=-2.0, holds=(0.0, -1.5, 1.5), dtype=F64),
    given(4, low=-2.0, high=-0.2, holds=(0.5,), dtype=F64),
    given(1),
    given(2, low=2.5, high=3.5),
    suggests={"none": "M02", "kept": "M11", "touched": "M11", **RAISED},
)
### END HIDDEN TESTS

# %% [markdown]
# ## 7 · Explain (10 points)
#
# A colleague writes: *“In the example I set `requires_grad=True` on every weight, yet `w3.grad` is `None` after
# `loss.backward()`, and so is `l4.grad`. There was no error. I'll pass `retain_graph=True`.”* Their third line is
# `l3 = torch.tensor((l1 * w3).tolist(), requires_grad=True)`.
#
# Answer in at most 120 words: why has `w3` no gradient, why has `l4` none, why was there no error, what will
# `retain_graph` do about it, and what should they change?

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# Are the two `None`s there for the same reason?
#
# <details><summary>Hint 2 of 3</summary>
#
# Draw the graph of their program. Sections 6 and 9 each explain one of the two.
#
# <details><summary>Hint 3 of 3</summary>
#
# For one of them no path leads from the loss; for the other there is a path, and something else is missing. Say which
# is which, and what would make each of them get its gradient.
#
# </details></details></details>

# %% [markdown] grade_id="explain" kind="manual" points=10
# `tolist()` gives plain numbers, so the third line starts a new graph: `l3` is a leaf, its `requires_grad=True` only
# asks for a gradient of `l3` itself. No edge leads from `loss` to `w3`, so nothing arrives there. `l4` is reached, a
# gradient passes through it, but it was made by an operation, and torch keeps gradients of leaves only. A missing edge
# is legal: torch can't know that I wanted one, so it says nothing. `retain_graph` keeps saved tensors after backward;
# it can't add an edge. The line should be `l3 = l1 * w3`; to see the gradient of `l4`, look at the picture.

# %% [markdown] grade_id="explain_rubric" kind="given"
# <details><summary>How it is graded</summary>
#
# | points | for |
# |---|---|
# | 3 | why `w3` has no gradient |
# | 2 | why `l4` has none |
# | 2 | why there was no error |
# | 1 | what `retain_graph` does about it |
# | 2 | what they should change |
#
# </details>
