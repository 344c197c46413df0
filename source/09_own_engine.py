# %% [markdown]
# # Assignment 09: an engine of your own
#
# Seven exercises, 100 points, about 75 minutes. Write your answers in the cells that say `YOUR CODE HERE` or
# `YOUR ANSWER HERE`. In a cell of code, replace each `None`, or write your code in the place of the comment, and delete
# the line `raise NotImplementedError()`.
#
# The cell below each answer checks it: code that you wrote is run, an answer that you chose is only checked for its
# form, not for being right. Whether a choice is right you see when you run the program yourself. **Validate** runs the
# same cells; more checks run when your work is graded, with other numbers.
#
# Commit to an answer before you run anything.

# %% [markdown]
# Exercises 1 to 3 are about these values and rules. They are those of chapter 09, with two other operations; `graph` is
# the same.

# %%
import itertools
import math

import torch

# %load_ext seegrad


class Value:
    born = itertools.count()

    def __init__(self, data, op="", inputs=(), saved=()):
        self.data, self.op, self.inputs, self.saved = data, op, inputs, saved
        self.number = next(Value.born)
        self.grad = 0.0

    def __add__(self, other):
        return Value(self.data + other.data, "add", (self, other))

    def __sub__(self, other):
        return Value(self.data - other.data, "sub", (self, other))

    def __mul__(self, other):
        return Value(self.data * other.data, "mul", (self, other), (self, other))

    def tanh(self):
        return Value(math.tanh(self.data), "tanh", (self,), (self,))


RULES = {
    "add": lambda g: (g, g),
    "sub": lambda g: (g, -g),
    "mul": lambda g, a, b: (g * b, g * a),
    "tanh": lambda g, a: (g * (1 - math.tanh(a) ** 2),),
}


def graph(loss):
    found, waiting = [], [loss]
    while waiting:
        value = waiting.pop()
        if value not in found:
            found.append(value)
            waiting.extend(value.inputs)
    return found


# %% [markdown]
# ## 1 · Predict (15 points)
#
# The program is `a = Value(2.0)`, `c = a * a`, `d = c * c`, `e = d + c`. Then an engine runs backward from `e`. What is
# `a.grad`?
#
# | | the engine |
# |---|---|
# | A | pushes the youngest value first, and adds up; one call |
# | B | the same, but assigns (`=`) where it should add up (`+=`) |
# | C | `walk` of chapter 09: takes the value that was added last, pushes it, adds its inputs from left to right; adds up |
# | D | as A, and backward is called twice; only leaves keep a gradient |
# | E | as D, but every value keeps its gradient from call to call, and passes on all that it holds; `e` begins with 1 again |
#
# Each answer is a whole number.

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# Write down the gradient of `c` first, then what it gives to `a`. In which of the engines does `c` get the wrong one?
#
# <details><summary>Hint 2 of 3</summary>
#
# Chapter 09, section 2 for C, section 3 for B, D and E.
#
# <details><summary>Hint 3 of 3</summary>
#
# `e` gives 1 to `d` and 1 to `c`. `d` gives `c` two parts, 4 each. `c` gives `a` two parts, each of them 2 times what
# `c` was pushed with. In C write down each push of `c`; in E what `c` and `d` hold when the second call begins.
#
# </details></details></details>

# %% grade_id="predict" kind="solution"
prediction = {"A": None, "B": None, "C": None, "D": None, "E": None}
### BEGIN SOLUTION
prediction = {"A": 36, "B": 8, "C": 76, "D": 72, "E": 140}
### END SOLUTION

# %% grade_id="predict_test" kind="test" points=15
import operator

from seegrad.check import answers, call, expect

for engine in "ABCDE":
    asked = f"prediction[{engine!r}]"
    expect(asked, call(asked, operator.getitem, prediction, engine)).of_type(int)
### BEGIN HIDDEN TESTS
import torch


def torch_s(times):
    a = torch.tensor(2.0, requires_grad=True)
    c = a * a
    e = c * c + c
    for number in range(times):
        e.backward(retain_graph=True)
    return a.grad.item()


def pushed(values, grads, adds=True):
    for data, name, inputs in values:
        for one in inputs:
            grads[one] = (grads[one] if adds else 0) + grads[name] * data
    return grads


def fresh():
    return {"a": 0, "c": 0, "d": 0, "e": 1}


C, D, E = (2, "c", "aa"), (4, "d", "cc"), (1, "e", "dc")
kept = pushed([E, D, C], fresh())
kept["e"] = 1
counted = {
    "A": int(torch_s(1)),
    "B": pushed([E, D, C], fresh(), adds=False)["a"],
    "C": pushed([E, C, D, C, C], fresh())["a"],
    "D": int(torch_s(2)),
    "E": pushed([E, D, C], kept)["a"],
}
answers(
    "prediction",
    prediction,
    counted,
    {
        "A": {"*": "within"},
        "B": {"*": "assigned"},
        "C": {"*": "too_early"},
        "D": {36: "M09", "*": "leaves_alone"},
        "E": {"*": "passes_on"},
    },
    of=15,
)
### END HIDDEN TESTS

# %% [markdown]
# ## 2 · Find (15 points)
#
# Five people have changed one line each of this `backward`, and report. (`graph(loss)` lists `loss` and all that it was
# made from.)
#
# ```
# 1   flowing = {loss: 1.0}
# 2   for value in sorted(graph(loss), key=lambda value: value.number, reverse=True):
# 3       gradient = flowing.pop(value)
# 4       if value.op:
# 5           parts = RULES[value.op](gradient, *(one.data for one in value.saved))
# 6           for one, part in zip(value.inputs, parts, strict=True):
# 7               flowing[one] = flowing.get(one, 0.0) + part
# 8       else:
# 9           value.grad += gradient
# ```

# %% [markdown]
# | | report |
# |---|---|
# | A | “`a * b` is right. With `a * b + a`, `a.grad` is `b`.” |
# | B | “The first call is right. After a second one, `a.grad` is what it was after the first.” |
# | C | “`KeyError` in line 3, for a leaf, before any rule was called.” |
# | D | “I'd like to begin with a gradient of my own instead of 1, and now I can.” |
# | E | “`a - b` is right. With `a * b`, `a.grad` is `a` and `b.grad` is `b`.” |
#
# Which line did each of them change?

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# Say for each line what it is there for. Then ask of a report: who didn't do its work?
#
# <details><summary>Hint 2 of 3</summary>
#
# Chapter 09, section 2 (the order, the start) and section 3 (who adds up what).
#
# <details><summary>Hint 3 of 3</summary>
#
# Two lines add up: one within a call, one from call to call. In C, somebody's turn came before its gradient did.
#
# </details></details></details>

# %% grade_id="find" kind="solution"
changed = {"A": None, "B": None, "C": None, "D": None, "E": None}
### BEGIN SOLUTION
changed = {"A": 7, "B": 9, "C": 2, "D": 1, "E": 5}
### END SOLUTION

# %% grade_id="find_test" kind="test" points=15
import operator

from seegrad.check import answers, call, expect

for report in "ABCDE":
    asked = f"changed[{report!r}]"
    expect(asked, call(asked, operator.getitem, changed, report)).one_of(list(range(1, 10)))
### BEGIN HIDDEN TESTS
answers(
    "changed",
    changed,
    {"A": 7, "B": 9, "C": 2, "D": 1, "E": 5},
    {
        "A": {"*": "within"},
        "B": {7: "M09", "*": "within"},
        "C": {"*": "turn"},
        "D": {"*": "seed"},
        "E": {"*": "serves"},
    },
    of=15,
)
### END HIDDEN TESTS

# %% [markdown]
# ## 3 · Write: your own `autograd.grad` (20 points)
#
# Write `gradients(loss, values)`. It returns a list: for each of `values`, in their order, the gradient of `loss`, a
# float; `None` for a value that `loss` wasn't made from.
#
# - A value may be a leaf, one in between, or `loss` itself, and may be asked for twice.
# - Nothing is changed: no `.grad`, no `.data`, no `.number`.
# - A chain of 3,000 operations must not be too long for it, and a value that is doubled forty times in a row must not take
#   for ever.

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# Which values take part, in which order do they have their turn, and where is a gradient kept until then?
#
# <details><summary>Hint 2 of 3</summary>
#
# `graph` finds all that take part. Chapter 09, section 3, has an engine whose gradients flow through a dictionary. When
# is the gradient of a value in between complete?
#
# <details><summary>Hint 3 of 3</summary>
#
# Don't take a gradient out of the dictionary when its value has its turn: leave it there, and look up what was asked
# for at the end. A function that calls itself for each input goes too deep in a long chain, and along each *path*
# where paths meet: forty doublings have 2⁴⁰ paths.
#
# </details></details></details>


# %% grade_id="write_engine" kind="solution"
def gradients(loss, values):
    ### BEGIN SOLUTION
    found, waiting = {loss}, [loss]
    while waiting:
        for one in waiting.pop().inputs:
            if one not in found:
                found.add(one)
                waiting.append(one)
    arrived = {loss: 1.0}
    for value in sorted(found, key=lambda value: value.number, reverse=True):
        if value.op:
            parts = RULES[value.op](arrived[value], *(one.data for one in value.saved))
            for one, part in zip(value.inputs, parts, strict=True):
                arrived[one] = arrived.get(one, 0.0) + part
    return [arrived.get(value) for value in values]
    ### END SOLUTION


# %% grade_id="write_engine_test" kind="test" points=20
from seegrad.check import call, expect
from seegrad.telling import AsCode

a, b = Value(2.0), Value(3.0)
c = a * b
loss = c + a
made = {"a": "Value(2.0)", "b": "Value(3.0)", "c": "a * b", "loss": "c + a"}
given = {name: AsCode(code) for name, code in made.items()}
came = call("gradients(loss, [a, c, b])", gradients, loss, [a, c, b], **given)
expect("gradients(loss, [a, c, b])", came, **given).equals([4.0, 1.0, 2.0])
expect("gradients(loss, [a, c, b]); a.grad", a.grad, **given).equals(0.0)
### BEGIN HIDDEN TESTS
import torch


def doubled(a, b):
    for number in range(40):
        a = a + a
    return a * b


def chained(a, b):
    for number in range(3000):
        a = a + b
    return a


def meeting(a, b):
    c = (a * b).tanh()
    d = c + a
    return d * c - c


PROGRAMS = {
    "a * c - c": lambda a, c: a * c - c,
    "(a - c) * (a - c) * (a - c) + (a - c)": lambda a, c: (a - c) * (a - c) * (a - c) + (a - c),
    "((e := (a * c).tanh()) + a) * e - e": meeting,
    "([e := a] + [e := e + e for _ in range(40)])[-1] * c": doubled,
    "sum([c] * 3000, a)": chained,
    "c - c + a": lambda a, c: c - c + a,
}
KEPT = {"a": 7.0, "b": -3.0, "c": 2.0, "loss": 5.0, "later": 0.0}


for code, program in PROGRAMS.items():
    numbers = (torch.rand(2, dtype=torch.float64) + 0.5) * torch.tensor([1.0, -1.0])
    ours = numbers.clone().requires_grad_()
    between = ours[0] * ours[1]
    of_c, of_both = torch.autograd.grad(program(ours[0], between), [between, ours])
    a, b = map(Value, numbers.tolist())
    c = a * b
    loss = program(a, c)
    later, alone = loss + c, Value(5.0)
    whole = {"a": a, "b": b, "c": c, "loss": loss, "later": later}
    held = {name: (value.data, value.number) for name, value in whole.items()}
    for name, value in whole.items():
        value.grad = KEPT[name]
    want = {"a": of_both[0], "c": of_c, "loss": torch.tensor(1.0), "later": None, "alone": None, "b": of_both[1]}
    asked_for = [a, c, loss, later, alone, b, a]
    made = {"a": f"Value({a.data:.4f})", "b": f"Value({b.data:.4f})", "c": "a * b", "loss": f"({code})"}
    made |= {"later": "loss + c", "alone": "Value(5.0)"}
    given = {name: AsCode(code) for name, code in made.items()}
    said = "gradients(loss, [a, c, loss, later, alone, b, a])"
    for times in (1, 2):
        came = call(said, gradients, loss, asked_for, **given)
        expect(said, came, **given).of_type(list)
        expect(f"len({said})", len(came), **given).equals(7)
        for place, (name, slope) in enumerate([*want.items(), ("a", want["a"])]):
            one = expect(f"{said}[{place}]", came[place], **given)
            if slope is None:
                one.equals(None)
            else:
                one.of_type(float)
                one.close(slope.item())
        for name, value in whole.items():
            expect(f"{name}.grad = {KEPT[name]}; {said}; {name}.grad", value.grad, **given).equals(KEPT[name])
            expect(f"{said}; {name}.data", value.data, **given).equals(held[name][0])
            asked = f"born = {name}.number; {said}; {name}.number - born"
            expect(asked, value.number - held[name][1], **given).equals(0)
alone = Value(float(5))
came = call("gradients(alone, [alone])", gradients, alone, [alone])
expect("alone = Value(5.0); gradients(alone, [alone])", came).equals([1.0])
expect("alone = Value(5.0); gradients(alone, [])", call("gradients(alone, [])", gradients, alone, [])).equals([])
### END HIDDEN TESTS

# %% [markdown]
# ## 4 · Write: the rule of a mean (15 points)
#
# `x` has the shape `shape`, and `y = x.mean(dims)` was computed from it. Write the rule:
# `mean_rule(gradient, shape, dims)` returns the gradient of `x`, given the gradient of `y`.
#
# - `shape` is a tuple. `dims` is a tuple of one or more different dimensions of `x`, in any order; a negative one
#   counts from behind, as in torch.
# - `gradient` is a float tensor in the shape of `y`: the dimensions in `dims` are gone. It isn't changed.
# - The result has the shape of `x` and the dtype of `gradient`.

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# How much does `y` grow when one element of `x` grows by 1? And how many elements of `x` share one element of `y`?
#
# <details><summary>Hint 2 of 3</summary>
#
# Chapter 09, section 5: the rule of `sum` gives the gradient back to every element, and “Back to the shape” goes the
# other way.
#
# <details><summary>Hint 3 of 3</summary>
#
# Give each dimension that is gone its place again, with size 1: the smallest number first. Then `expand` stretches the
# gradient to the whole shape, whatever its dtype.
#
# </details></details></details>

# %% grade_id="write_shape" kind="solution"
def mean_rule(gradient, shape, dims):
    ### BEGIN SOLUTION
    gone = sorted(k % len(shape) for k in dims)
    count = 1
    for k in gone:
        gradient = gradient.unsqueeze(k)
        count *= shape[k]
    return gradient.expand(shape) / count
    ### END SOLUTION

# %% grade_id="write_shape_test" kind="test" points=15
import torch
from seegrad.check import call, expect

gradient = torch.tensor([3.0, 6.0])
came = call("mean_rule(gradient, (2, 3), (1,))", mean_rule, gradient, (2, 3), (1,), gradient=gradient)
wanted = torch.tensor([[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]])
expect("mean_rule(gradient, (2, 3), (1,))", came, gradient=gradient).close(wanted)
### BEGIN HIDDEN TESTS
from seegrad.promise import numbers, promised

CASES = [
    ((2, 3), (0,)),
    ((3, 2), (-1,)),
    ((3, 3), (0,)),
    ((3, 3), (1,)),
    ((2, 3), (1, 0)),
    ((4,), (0,)),
    ((2, 3, 4), (0, 2)),
    ((2, 3, 4), (2, 0)),
    ((2, 3, 4), (-1, -3)),
    ((2, 3, 4), (2, -2)),
    ((2, 2, 2, 2), (-1, 1)),
    ((2, 3, 2), (1,)),
    ((3, 1, 2), (1, 2)),
    ((1,), (-1,)),
    ((2, 3), (0,)),
    ((2, 3, 2, 2), (3, 0, -2)),
    ((2, 1, 3), (-3, 1, 2)),
]


def by_torch(gradient, shape, dims):
    x = torch.zeros(shape, dtype=gradient.dtype, requires_grad=True)
    (came,) = torch.autograd.grad(x.mean(dims), x, gradient)
    return came.contiguous()


def sizes(shape, dims):
    averaged = {(len(shape) + dim) % len(shape) for dim in dims}
    return [size for place, size in enumerate(shape) if place not in averaged]


promised(
    "mean_rule(gradient, shape, dims)",
    mean_rule,
    by_torch,
    *(
        {
            "gradient": numbers(*sizes(shape, dims), dtype=(torch.float32, torch.float64)[number % 2]),
            "shape": shape,
            "dims": dims,
        }
        for number, (shape, dims) in enumerate(CASES)
    ),
    {"gradient": numbers(3, 2).T, "shape": (2, 2, 3), "dims": (1,)},
    {"gradient": torch.tensor([0.5, -2.0], dtype=torch.bfloat16), "shape": (4, 2), "dims": (0,)},
)
### END HIDDEN TESTS

# %% [markdown]
# ## 5 · Repair (15 points)
#
# `swish` computes $x\,\sigma(x)$, and its Function is the work of a hurried colleague. Training with it goes astray,
# and never says a word. Write `Swish` anew below it, so that
#
# - the gradient is right, whatever is computed from the result;
# - a write to `x` between forward and backward is noticed by torch;
# - it can be differentiated twice;
# - it stays a Function: the `grad_fn` of the result is `SwishBackward`.

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# There are three mistakes, all in four lines. What does `backward` do with the gradient that it is given?
#
# <details><summary>Hint 2 of 3</summary>
#
# Chapter 09, section 7: what the rule saved, and the gradient's gradient.
#
# <details><summary>Hint 3 of 3</summary>
#
# The derivative is $\sigma(x)\,(1 + x\,(1 - \sigma(x)))$. Compute it with torch operations on what was saved for
# backward, and multiply by what came from above.
#
# </details></details></details>


# %% grade_id="repair" kind="solution"
class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.x = x
        return x * x.sigmoid()

    @staticmethod
    def backward(ctx, gradient):
        x = ctx.x.detach()
        s = x.sigmoid()
        return s * (1 + x * (1 - s))


def swish(x):
    return Swish.apply(x)


### BEGIN SOLUTION
class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x.sigmoid()

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        s = x.sigmoid()
        return gradient * s * (1 + x * (1 - s))


### END SOLUTION

# %% grade_id="repair_test" kind="test" points=15
import torch
from seegrad.check import call, expect

given = torch.tensor([0.5, -1.0])
x = given.clone().requires_grad_()
out = call("swish(x)", swish, x, x=given)
s = given.sigmoid()
expect("swish(x)", out, x=given).close(given * s)
call("(3 * swish(x)).sum().backward()", (3 * out).sum().backward, x=given)
want = 3 * s * (1 + given * (1 - s))
suspected = "chain" if torch.is_tensor(x.grad) and torch.allclose(3 * x.grad, want) else None
expect("(3 * swish(x)).sum().backward(); x.grad", x.grad, x=given).close(want, suspected)
### BEGIN HIDDEN TESTS
from seegrad.promise import between, leaf, numbers, promised, scattered

promised(
    "swish(x)",
    swish,
    lambda x: x * x.sigmoid(),
    {"x": leaf(numbers(3, holds=(0.0,)))},
    {"x": leaf(numbers(dtype=torch.float64))},
    {"x": between(numbers(2, 2, dtype=torch.float64))},
    {"x": scattered(numbers(3, 2, low=-30.0, high=30.0))},
    {"x": leaf(numbers(0, 2))},
)
for shape in ((), (3,), (2, 2)):
    given = (4 * torch.rand(shape, dtype=torch.float64) - 2).requires_grad_()
    weight = torch.rand(shape, dtype=torch.float64) + 0.5
    ours = given.detach().clone().requires_grad_()
    out = call("swish(x)", swish, given, x=given)
    expect("type(swish(x).grad_fn).__name__", type(out.grad_fn).__name__, x=given).equals("SwishBackward")
    (came,) = torch.autograd.grad((out * weight).sum(), given, create_graph=True)
    (wanted,) = torch.autograd.grad((ours * ours.sigmoid() * weight).sum(), ours, create_graph=True)
    asked = "torch.autograd.grad((swish(x) * weight).sum(), x, create_graph=True)[0]"
    suspected = "chain" if torch.allclose(came * weight, wanted) else None
    expect(asked, came, x=given, weight=weight).close(wanted, suspected)
    expect(f"{asked}.requires_grad", came.requires_grad, x=given, weight=weight).equals(True, "cut")
    (twice,) = torch.autograd.grad(came.sum(), given, allow_unused=True)
    (wanted_twice,) = torch.autograd.grad(wanted.sum(), ours)
    expect(f"torch.autograd.grad({asked}.sum(), x)[0]", twice, x=given, weight=weight).close(wanted_twice, "cut")
h = given * 1
held = h.detach().clone()
out = call("swish(h)", swish, h, h=held).sum()
h.mul_(2.0)
asked = "out = swish(h).sum(); h.mul_(2); out.backward()"
expect(asked, lambda h: out.backward(), h=held).raises(RuntimeError, "attribute")
### END HIDDEN TESTS

# %% [markdown]
# ## 6 · Write: a rule of your own (10 points)
#
# Rounding has the derivative 0 nearly everywhere, so nothing before it would ever learn. Write `rounded(x)`: its
# value is that of `torch.round(x)`. In backward it passes the gradient on unchanged where $-1 \le x \le 1$;
# elsewhere nothing comes through.
#
# `x` itself isn't changed. How you get there is your choice: a Function, or operations that torch knows.

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# No derivative of a formula does this. Which part of torch takes a rule of yours?
#
# <details><summary>Hint 2 of 3</summary>
#
# Chapter 09, section 7: `Cube`, with another rule.
#
# <details><summary>Hint 3 of 3</summary>
#
# The rule multiplies what it is given by a mask of zeros and ones, made from the saved `x`. At −1 and at 1 it
# is one.
#
# </details></details></details>


# %% grade_id="write_rule" kind="solution"
def rounded(x):
    ### BEGIN SOLUTION
    class Rounded(torch.autograd.Function):
        @staticmethod
        def forward(ctx, given):
            ctx.save_for_backward(given)
            return given.round()

        @staticmethod
        def backward(ctx, gradient):
            (given,) = ctx.saved_tensors
            return gradient * (given.abs() <= 1)

    return Rounded.apply(x)
    ### END SOLUTION


# %% grade_id="write_rule_test" kind="test" points=10
import torch
from seegrad.check import call, expect

x = torch.tensor([0.3, -0.8, 1.7], requires_grad=True)
out = call("rounded(x)", rounded, x, x=x)
expect("rounded(x)", out, x=x).close(torch.tensor([0.0, -1.0, 2.0]))
call("(rounded(x) * 2).sum().backward()", (out * 2).sum().backward, x=x)
expect("(rounded(x) * 2).sum().backward(); x.grad", x.grad, x=x).close(
    torch.tensor([2.0, 2.0, 0.0]), {"shape": "cut", "wrong": "flat" if x.grad is not None and not x.grad.any() else None}
)
### BEGIN HIDDEN TESTS
from seegrad.promise import between, leaf, numbers, promised, scattered

EDGES = (-1.0, 1.0, 0.0, -1.25, 1.25, 0.5, -0.5, 2.5)


def straight(x):
    within = (x.detach().abs() <= 1).to(x.dtype)
    return x.detach().round() + (x * within - (x * within).detach())


promised(
    "rounded(x)",
    rounded,
    straight,
    {"x": leaf(numbers(9, holds=EDGES), grad=1.0)},
    {"x": leaf(numbers(2, 5, holds=EDGES, dtype=torch.float64))},
    {"x": leaf(torch.tensor(0.75))},
    {"x": between(numbers(3, 3, holds=EDGES, dtype=torch.float64))},
    {"x": scattered(numbers(2, 4, low=-20.0, high=20.0, holds=(1e12, -1e12)))},
    {"x": leaf(numbers(0))},
)
### END HIDDEN TESTS

# %% [markdown]
# ## 7 · Explain (10 points)
#
# A colleague has built an engine too. *“Mine keeps a copy of every saved tensor. So it needs no versions, it never
# raises, and its gradients are always right. Torch should do the same.”*
#
# Answer in at most 120 words: what is true in this, what does it cost, and which write would make torch's gradient
# wrong without a word, although torch has versions?

# %% [markdown]
# <details><summary>Hint 1 of 3</summary>
#
# With a copy, which numbers does a rule read after somebody has written?
#
# <details><summary>Hint 2 of 3</summary>
#
# Chapter 09, section 6; chapter 04, section 10, counts what copies would cost.
#
# <details><summary>Hint 3 of 3</summary>
#
# Three sentences: the colleague's gradients belong to the values that were used; every step pays for that, written or
# not; and a counter counts only the writes that go through it.
#
# </details></details></details>

# %% [markdown] grade_id="explain" kind="manual" points=10
# It is true that a copy can't be overwritten: each rule reads the numbers that its operation was computed with, so
# the gradient is right for them, and nothing has to raise. But every saved tensor then exists twice, in each step,
# whether anybody writes or not; the activations of a training step would need about twice the memory, and time to
# copy. A version costs a number and a comparison. What it can't see is a write that goes around it: through `.data`,
# numpy, or a kernel that gets a raw pointer. Then torch reads the new numbers, and the gradient is wrong without a
# word.

# %% [markdown] grade_id="explain_rubric" kind="given"
# <details><summary>How it is graded</summary>
#
# | points | for |
# |---|---|
# | 3 | what is true in it |
# | 3 | what it costs |
# | 4 | the write that torch misses, and what becomes of the gradient |
#
# </details>
