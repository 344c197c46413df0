# %% [markdown]
# # Assignment 06: embeddings and `clone()`
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
# Commit to an answer before you run anything. Stuck? Each exercise has three hints; open one at a time.

# %%
import torch
import torch.nn.functional as F
from torch import nn

# %load_ext seegrad

# %% [markdown]
# ## 1 · Predict (15 points)
#
# Each program starts with a new `e = nn.Embedding(3, 2, max_norm=1.0)` and `words = torch.tensor([0, 1])`. Which version
# does `e.weight` have at its end? The numbers in the table are random: your answer has to hold for all of them.
#
# | | program |
# |---|---|
# | A | `pass` |
# | B | `e(words)` |
# | C | `e(words); e(words)` |
# | D | `e.eval(); e.requires_grad_(False); e(words)` |
# | E | `e.max_norm = None; e(words)` |
# | F | `e.weight.clone().mul_(2)` |
# | G | `e.weight.detach().mul_(2)` |
#
# Answer with 0, 1, 2 or 3.

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# Who wrote the random numbers into the table, and how?
#
# <details><summary>Hint 2 of 3</summary>
#
# Section 1 for a new table, section 2 for what counts as a visit, section 4 for who shares a counter.
#
# <details><summary>Hint 3 of 3</summary>
#
# For each program count the calls that write to the table's bytes, or might have to. A mode or a flag doesn't stop them.
# Add what was there before.
#
# </details></details></details>

# %% grade_id="predict_versions" kind="solution"
counters = {"A": None, "B": None, "C": None, "D": None, "E": None, "F": None, "G": None}
### BEGIN SOLUTION
counters = {"A": 1, "B": 2, "C": 3, "D": 2, "E": 1, "F": 1, "G": 2}
### END SOLUTION

# %% grade_id="predict_versions_test" kind="test" points=15
import operator

import torch
from seegrad.check import answers, call, expect
from torch import nn

for program in "ABCDEFG":
    asked = f"counters[{program!r}]"
    expect(asked, call(asked, operator.getitem, counters, program)).one_of([0, 1, 2, 3])
### BEGIN HIDDEN TESTS
PROGRAMS = {
    "A": "pass",
    "B": "e(words)",
    "C": "e(words); e(words)",
    "D": "e.eval(); e.requires_grad_(False); e(words)",
    "E": "e.max_norm = None; e(words)",
    "F": "e.weight.clone().mul_(2)",
    "G": "e.weight.detach().mul_(2)",
}


def version(program):
    e = nn.Embedding(3, 2, max_norm=1.0)
    exec(program, {"e": e, "words": torch.tensor([0, 1])})
    return e.weight._version


answers(
    "counters",
    counters,
    {program: version(code) for program, code in PROGRAMS.items()},
    {
        "A": {0: "filled", 2: "each_lookup", 3: "each_lookup"},
        "B": {0: "M12", 1: "M12", 3: "each_lookup"},
        "C": {0: "M12", 1: "M12", 2: "filled"},
        "D": {0: "M08", 1: "M08", 3: "each_lookup"},
        "E": {0: "filled", "*": "no_norm"},
        "F": {0: "filled", 2: "clone", 3: "clone"},
        "G": {0: "M05", 1: "M05", 3: "counts"},
    },
    of=15,
)
### END HIDDEN TESTS

# %% [markdown]
# ## 2 · Predict (15 points)
#
# `e` is an embedding with `max_norm=1.0` whose rows are longer than 1, `words` are two of them, and `W` and `V` are
# matrices, of which only `W` needs a gradient. Each program ends with `(a.sum() + b.sum()).backward()`.
#
# | | first line | second line |
# |---|---|---|
# | A | `a = e.weight @ W` | `b = e(words) @ W` |
# | B | `b = e(words) @ W` | `a = e.weight @ W` |
# | C | `a = e.weight.clone() @ W` | `b = e(words) @ W` |
# | D | `a = e.weight.data @ W` | `b = e(words) @ W` |
# | E | `a = e.weight @ V` | `b = e(words) @ W` |
# | F | `a = e(words) @ W` | `b = e(words) @ W` |
#
# `"raises"`: backward raises. `"silent"`: no error, but `W.grad` isn't the derivative at the values that the lines
# computed with (the shortening counts as done before). `"right"`: no error, and it is.

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# Which line saves the weight itself, and for whose gradient?
#
# <details><summary>Hint 2 of 3</summary>
#
# Section 3 asks when `W` makes a difference; sections 4 and 5 have the remedies, and one that isn't.
#
# <details><summary>Hint 3 of 3</summary>
#
# Ask three things of each program: is the weight saved before the lookup? Under which counter? Does the lookup come
# after it? Three times yes, with the weight's own counter, is an error.
#
# </details></details></details>

# %% grade_id="predict" kind="solution"
prediction = {"A": None, "B": None, "C": None, "D": None, "E": None, "F": None}
### BEGIN SOLUTION
prediction = {"A": "raises", "B": "right", "C": "right", "D": "silent", "E": "right", "F": "right"}
### END SOLUTION

# %% grade_id="predict_test" kind="test" points=15
import operator

import torch
from seegrad.check import answers, call, expect
from torch import nn

for program in "ABCDEF":
    asked = f"prediction[{program!r}]"
    expect(asked, call(asked, operator.getitem, prediction, program)).one_of(["raises", "silent", "right"])
### BEGIN HIDDEN TESTS
PROGRAMS = {
    "A": "a = e.weight @ W\nb = e(words) @ W",
    "B": "b = e(words) @ W\na = e.weight @ W",
    "C": "a = e.weight.clone() @ W\nb = e(words) @ W",
    "D": "a = e.weight.data @ W\nb = e(words) @ W",
    "E": "a = e.weight @ V\nb = e(words) @ W",
    "F": "a = e(words) @ W\nb = e(words) @ W",
}


def outcome(program):
    e = nn.Embedding(4, 3, max_norm=1.0)
    e.load_state_dict({"weight": torch.rand(4, 3) + 1})
    W = torch.rand(3, 2, requires_grad=True)
    names = {"e": e, "W": W, "V": torch.rand(3, 2), "words": torch.tensor([1, 3])}
    used = []
    for line in program.splitlines():
        left, right = line.split(" = ")[1].split(" @ ")
        names["used"] = eval(left, names)
        if right == "W":
            used.append(names["used"].detach().clone())
        names[line[0]] = eval(f"used @ {right}", names)
    try:
        (names["a"].sum() + names["b"].sum()).backward()
    except RuntimeError:
        return "raises"
    want = torch.cat(used).sum(0)[:, None].expand(3, 2)
    return "right" if torch.allclose(W.grad, want) else "silent"


answers(
    "prediction",
    prediction,
    {program: outcome(code) for program, code in PROGRAMS.items()},
    {
        "A": {"silent": "watched", "right": "M12"},
        "B": {"raises": "M03", "silent": "before"},
        "C": {"raises": "clone", "silent": "clone"},
        "D": {"raises": "M05", "right": "M06"},
        "E": {"raises": "M03"},
        "F": {"raises": "M03"},
    },
    of=15,
)
### END HIDDEN TESTS

# %% [markdown]
# ## 3 · Find (15 points)
#
# This program raises on line 7: *“… modified by an inplace operation: [torch.FloatTensor [4, 9]], … is at version
# 4; expected version 3 …”*. `mix` needs a gradient; `pairs` holds three pairs of words.
#
# ```
# 1   table = nn.Embedding(9, 4, max_norm=1.0)
# 2   loss = 0.0
# 3   for word, following in pairs:
# 4       state = table(word) @ mix
# 5       scores = state @ table.weight.t()
# 6       loss = loss + F.cross_entropy(scores, following)
# 7   loss.backward()
# ```
#
# - `"culprit"`: the line that overwrites what backward still needs.
# - `"victim"`: the line that saved it.
# - `"round"`: the first round (1, 2 or 3) in which the culprit overwrites what was saved, whether or not it is this write
#   that the message tells of.
# - `"eval"`: after line 1 comes `table.eval()`. What happens on line 7: `"raises"` or `"fine"`?
# - `"clone"`: line 5 uses `table.weight.clone().t()`. What happens on line 7: `"raises"` or `"fine"`?

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# Nine columns of four numbers: of which tensor is that a view? Which lines touch it?
#
# <details><summary>Hint 2 of 3</summary>
#
# Section 7, “One weight for both ends”, has such a loop. For `"eval"` see section 2.
#
# <details><summary>Hint 3 of 3</summary>
#
# Write the lines down as they run, round after round. The first write that comes *after* a line which saved the weight
# does the harm.
#
# </details></details></details>

# %%
from seegrad import pick

pick(
    "found",
    {
        "culprit": "line",
        "victim": "line",
        "round": range(1, 4),
        "eval": ["raises", "fine"],
        "clone": ["raises", "fine"],
    },
    """
table = nn.Embedding(9, 4, max_norm=1.0)
loss = 0.0
for word, following in pairs:
    state = table(word) @ mix
    scores = state @ table.weight.t()
    loss = loss + F.cross_entropy(scores, following)
loss.backward()
""",
    """
mix = torch.eye(4).requires_grad_()
pairs = [(torch.tensor(number), torch.tensor(number + 1)) for number in range(3)]
""",
)

# %% grade_id="find" kind="solution"
found = {"culprit": None, "victim": None, "round": None, "eval": None, "clone": None}
### BEGIN SOLUTION
found = {"culprit": 4, "victim": 5, "round": 2, "eval": "raises", "clone": "fine"}
### END SOLUTION

# %% grade_id="find_test" kind="test" points=15
import operator

from seegrad.check import answers, call, expect

for line in ("culprit", "victim"):
    asked = f"found[{line!r}]"
    expect(asked, call(asked, operator.getitem, found, line)).one_of(range(1, 8))
asked = "found['round']"
expect(asked, call(asked, operator.getitem, found, "round")).one_of([1, 2, 3])
for change in ("eval", "clone"):
    asked = f"found[{change!r}]"
    expect(asked, call(asked, operator.getitem, found, change)).one_of(["raises", "fine"])
### BEGIN HIDDEN TESTS
answers(
    "found",
    found,
    {"culprit": 4, "victim": 5, "round": 2, "eval": "raises", "clone": "fine"},
    {
        "culprit": {**dict.fromkeys((2, 3, 6), "writes_none"), 1: "each_lookup", 5: "other", 7: "M04"},
        "victim": {**dict.fromkeys((1, 2, 3, 6), "saves_none"), 4: "other", 7: "no_node"},
        "round": {1: "M03", 3: "each_lookup"},
        "eval": {"fine": "M08"},
        "clone": {"raises": "clone"},
    },
    of=15,
)
### END HIDDEN TESTS

# %% [markdown]
# ## 4 · Repair (20 points)
#
# `similarity(weight, words, W)` compares the looked-up words with every row of the table. It should
#
# 1. shorten the rows of `words` in the table to length 1 at most, as `max_norm` does;
# 2. use the table **as it is then** on both sides: one word, one length;
# 3. return the scores, with the right gradients for `weight` and `W`: those at the table as it is then. The shortening
#    itself isn't differentiated.
#
# Backward raises. Any repair counts, a new body too; the smallest is the easiest to check.

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# Which of the two lines writes, and which one saves?
#
# <details><summary>Hint 2 of 3</summary>
#
# The chapter has two remedies. Compare what each lets `a` and `b` see: sections 4 and 5.
#
# <details><summary>Hint 3 of 3</summary>
#
# You need no new word at all. Think of the order in which the graph is built.
#
# </details></details></details>


# %% grade_id="repair" kind="solution"
def similarity(weight, words, W):
    every = weight @ W
    chosen = F.embedding(words, weight, max_norm=1.0) @ W
    return chosen @ every.t()


### BEGIN SOLUTION
def similarity(weight, words, W):
    chosen = F.embedding(words, weight, max_norm=1.0) @ W
    every = weight @ W
    return chosen @ every.t()


### END SOLUTION


# %% grade_id="repair_test" kind="test" points=20
import torch
from seegrad.check import call, expect

SYMPTOMS = {**dict.fromkeys(("overwritten", "unmoved", "written"), "M12"), "leaf_written": "M11"}
weight = torch.tensor([[3.0, 4.0], [0.3, 0.4]], requires_grad=True)
words, W = torch.tensor([0]), torch.eye(2, requires_grad=True)
given = {"weight": weight.detach().clone(), "words": words, "W": W}
scores = call("similarity(weight, words, W)", similarity, weight, words, W, suggests=SYMPTOMS, **given)
two_lengths = torch.is_tensor(scores) and torch.allclose(scores, torch.tensor([[5.0, 0.5]]))
suspected = {"wrong": "M12" if two_lengths else None}
expect("similarity(weight, words, W)", scores, **given).close(torch.tensor([[1.0, 0.5]]), suspected)
call("similarity(weight, words, W).sum().backward()", scores.sum().backward, suggests=SYMPTOMS, **given)
### BEGIN HIDDEN TESTS
from seegrad.promise import leaf, numbers, promised


def one_length(table, looked_up, mixing, *cut):
    taken = table.detach()[looked_up]
    table.detach()[looked_up] = taken / torch.linalg.norm(taken, dim=1, keepdim=True).clamp(min=1)
    parts = {"chosen": table[looked_up], "by": mixing, "every": table, "also by": mixing}
    parts |= {name: parts[name].detach() for name in cut}
    return torch.einsum("ik,jk->ij", parts["chosen"] @ parts["by"], parts["every"] @ parts["also by"])


def looked_up(lengths, words, W, **kept):
    directions = torch.nn.functional.normalize(torch.randn(len(lengths), len(W), dtype=W.dtype))
    table = directions * torch.tensor(lengths, dtype=W.dtype)[:, None]
    return {"weight": leaf(table, **kept), "words": torch.tensor(words), "W": leaf(W, **kept)}


F64 = torch.float64
promised(
    "similarity(weight, words, W)",
    similarity,
    one_length,
    looked_up([2.0, 0.5, 3.0, 5.0], [3, 0], numbers(3, 2)),
    looked_up([0.5, 0.0, 4.0, 1.5, 0.9], [3, 1, 3, 0], numbers(2, 4), grad=1.0),
    looked_up([2e4, 0.5, 1e4], [2, 1], numbers(3, 3, dtype=F64)),
    looked_up([0.25, 0.5], [1], numbers(3, 2, dtype=F64)),
    looked_up([7e4], [0, 0], numbers(4, 1, dtype=F64)),
    suggests=SYMPTOMS,
    beliefs={
        "cut": lambda *given: one_length(*given, "every"),
        "cut 2": lambda *given: one_length(*given, "chosen"),
        "cut 3": lambda *given: one_length(*given, "chosen", "by"),
        "cut 4": lambda *given: one_length(*given, "also by"),
        "cut 5": lambda *given: one_length(*given, "every", "also by"),
    },
)
### END HIDDEN TESTS

# %% [markdown]
# ## 5 · Write (25 points)
#
# Write `mean_of(weight, words, most)`. It returns one row: the mean of the looked-up rows, each shortened to length `most`
# where it is longer.
#
# - The values are those that a lookup with `max_norm=most` would give.
# - The gradient is the *true* derivative: it knows of the shortening.
# - Nothing is written to `weight`: not its numbers, not its version.
#
# No row has length 0.

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# Why doesn't the gradient of an ordinary `max_norm` lookup know of the shortening?
#
# <details><summary>Hint 2 of 3</summary>
#
# Section 6 writes it as an operation, for length 1.
#
# <details><summary>Hint 3 of 3</summary>
#
# Take the rows by indexing, find each one's length, and a factor that is never above 1. Multiply out of place, then take
# the mean over the words.
#
# </details></details></details>


# %% grade_id="write" kind="solution"
def mean_of(weight, words, most):
    ### BEGIN SOLUTION
    rows = weight[words]
    factor = (most / rows.norm(dim=1, keepdim=True)).clamp(max=1)
    return (rows * factor).mean(0)
    ### END SOLUTION


# %% grade_id="write_test" kind="test" points=25
import torch
from seegrad.check import call, expect

SYMPTOMS = {"kept weight": "bytes", "touched weight": "M12", "overwritten": "M11", "leaf_written": "M11"}
weight = torch.tensor([[3.0, 4.0], [0.3, 0.4]], requires_grad=True)
words = torch.tensor([0, 1])
given = {"weight": weight.detach().clone(), "words": words}
mean = call("mean_of(weight, words, 1.0)", mean_of, weight, words, 1.0, suggests=SYMPTOMS, **given)
expect("mean_of(weight, words, 1.0)", mean, **given).close(torch.tensor([0.45, 0.6]))
### BEGIN HIDDEN TESTS
from seegrad.promise import between, leaf, promised, scattered


def shortened(table, looked_up, longest):
    taken = torch.index_select(table, 0, looked_up)
    sizes = taken.square().sum(-1, keepdim=True).sqrt()
    return torch.where(sizes > longest, taken * longest / sizes, taken).sum(0) / len(looked_up)


def always_short(table, looked_up, longest):
    long = table[looked_up].mean(0)
    return long + (shortened(table, looked_up, longest) - long).detach()


def by_a_number(table, looked_up, longest):
    taken = table[looked_up]
    return (taken * (longest / taken.detach().norm(dim=-1, keepdim=True)).clamp(max=1)).mean(0)


def shortened_there(table, looked_up, longest):
    of_old = shortened(table, looked_up, longest)
    first = table.detach().index_select(0, looked_up)
    table.detach()[looked_up] = first * (longest / first.norm(dim=-1, keepdim=True)).clamp(max=1)
    return of_old


def shortened_before(table, looked_up, longest):
    shortened_there(table, looked_up, longest)
    return table.index_select(0, looked_up).mean(0)


def rows(*lengths, width=3, dtype=torch.float32):
    directions = torch.nn.functional.normalize(torch.randn(len(lengths), width, dtype=dtype))
    return directions * torch.tensor(lengths, dtype=dtype)[:, None]


F64 = torch.float64
promised(
    "mean_of(weight, words, most)",
    mean_of,
    shortened,
    {"weight": leaf(rows(2.0, 0.5, 3.0, 5.0)), "words": torch.tensor([3, 1, 0]), "most": 1.0},
    {"weight": leaf(rows(0.5, 4.0, 2.0), grad=1.0), "words": torch.tensor([1, 0, 1, 1, 2]), "most": 2.5},
    {"weight": leaf(rows(2e4, 500.0, 1e4, dtype=F64)), "words": torch.tensor([2, 0, 1, 2]), "most": 3000.0},
    {"weight": between(rows(0.25, 0.5, width=2, dtype=F64)), "words": torch.tensor([1]), "most": 2},
    {"weight": scattered(rows(0.5, 1.5, width=5)), "words": torch.tensor([1, 0]), "most": 0.75},
    {"weight": rows(6.0, 1.0, width=2), "words": torch.tensor([0, 1, 0]), "most": 4.0},
    suggests=SYMPTOMS,
    beliefs={"M12": shortened_there, "M12 2": shortened_before, "shortened": always_short, "shortened 2": by_a_number},
)
### END HIDDEN TESTS

# %% [markdown]
# ## 6 · Explain (10 points)
#
# A colleague writes: *“Our model computes with the weight of its embedding (`max_norm=1`), looks words up after that,
# and backward raised. I cloned the weight in the first of the two lines, as the documentation says, and the error is
# gone. But when I evaluate the same model twice, under `eval()` and `no_grad`, I get two different scores.”*
#
# Answer in at most 120 words: who writes to the weight, and when? What did the clone change, and what not? Why do the
# scores differ? What would you do?

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# What is different about the model after its first evaluation?
#
# <details><summary>Hint 2 of 3</summary>
#
# Section 2 for the writer; the end of section 4 for what the two lines see.
#
# <details><summary>Hint 3 of 3</summary>
#
# Follow one row that is too long: its length in the cloned line and in the lookup, in the first run and in the second.
#
# </details></details></details>

# %% [markdown] grade_id="explain" kind="manual" points=10
# Each lookup shortens the looked-up rows in the weight itself, also in `eval()` and under `no_grad`: neither stops a
# write. The clone gave the first line bytes of its own, so what backward had saved is no longer overwritten and the
# error is gone. The write is still there. In the first evaluation the clone sees the long rows and the lookup the
# shortened ones; in the second both see short rows, so the scores differ. I would look up first and use the weight
# afterwards, so that both see one weight, or shorten out of place and drop `max_norm`.

# %% [markdown] grade_id="explain_rubric" kind="given"
# <details><summary>How it is graded</summary>
#
# | points | for |
# |---|---|
# | 3 | who writes to the weight, and when |
# | 2 | what the clone changed, and what it didn't |
# | 3 | why the scores differ |
# | 2 | what you would do |
#
# </details>
