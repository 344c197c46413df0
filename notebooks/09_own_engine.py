# %% [markdown]
# # 09 · An engine of your own
#
# *About 60 minutes, without the optional parts.* You have read and mended graphs. Now you make one: forty lines that
# agree with torch.
#
# After it you can
#
# - write an engine: values that know where they came from, rules, and a backward that runs them;
# - say which order backward needs, why gradients add up, and which of them are kept;
# - give your engine torch's alarm, and the one thing that torch's alarm leaves out;
# - teach torch an operation, and prove its gradient.

# %% [markdown]
# **How to work:** predict, run, look, explain, change.
#
# The parts called *optional* are for another day: nothing that comes later needs them.
#
# Every cell that uses torch uses `device`, which the kernel sets (chapter 00).
#
# A `NameError`, or `Cell magic … not found`? The kernel was restarted, or a cell was skipped: choose **Kernel ▸ Restart
# Kernel and Run up to Selected Cell**.

# %%
import itertools
import math
import sys

import torch
from torch.autograd import gradcheck, gradgradcheck

import seegrad

device = seegrad.device()

# %load_ext seegrad

# %% [markdown]
# ## Asked again
#
# Two questions on earlier chapters, each about a program that you haven't seen. What you predicted wrongly comes first.

# %%
seegrad.ask_again("09")

# %% [markdown]
# ## 1 · A value that knows where it came from
#
# A number alone has no history. So we wrap it: a `Value` holds its number, the name of the operation that made it, the
# values that went in, and those that backward will need.


# %%
class Value:
    born = itertools.count()

    def __init__(self, data, op="", inputs=(), saved=()):
        self.data, self.op, self.inputs, self.saved = data, op, inputs, saved
        self.number = next(Value.born)
        self.grad = 0.0

    def __add__(self, other):
        return type(self)(self.data + other.data, "add", (self, other))

    def __mul__(self, other):
        return type(self)(self.data * other.data, "mul", (self, other), (self, other))

    def exp(self):
        return type(self)(math.exp(self.data), "exp", (self,), (self,))


# %% [markdown]
# There is no torch in it. (`type(self)` is `Value` here; a subclass will use the same lines.) Let us compute something,
# and ask what the last value remembers.
#
# **Predict:** what does this print?


# %%
def program():
    a, b = Value(2.0), Value(3.0)
    c = a * b
    d = c * c
    e = d + c
    return {"a": a, "b": b, "c": c, "d": d, "e": e}


v = program()
print([one.op for one in v["e"].inputs], [one.data for one in v["e"].inputs])

# %% [markdown]
# `e` was made from `d` and `c`. It holds these values themselves, they hold theirs, and so on down to `a` and `b`.
# These references *are* the graph. Nobody drew it: it is what ran.
#
# In torch the same is split in two: the tensor has the number, its `grad_fn` has the inputs and what was saved.

# %% [markdown]
# ## 2 · Walking back
#
# Each operation gets a rule: given the gradient of its result, and what it saved, it says the gradient of each input.
# An operation with its rule is what torch calls a Function.

# %%
RULES = {
    "add": lambda g: (g, g),
    "mul": lambda g, a, b: (g * b, g * a),
    "exp": lambda g, a: (g * math.exp(a),),
}


def push(value):
    if value.op:
        gradients = RULES[value.op](value.grad, *(one.data for one in value.saved))
        for one, gradient in zip(value.inputs, gradients, strict=True):
            one.grad += gradient


# %% [markdown]
# `push` passes the gradient of one value on to its inputs. All that is missing is an order. Here is one: take the value
# that was added last, push it, add its inputs, until nothing waits.
#
# After each step it says with `yield` which value it was and which gradient had come. A function with `yield` runs only
# as far as somebody asks: `seegrad.follow` and `list` ask to its end.


# %%
def walk(loss):
    loss.grad, waiting = 1.0, [loss]
    while waiting:
        value = waiting.pop()
        push(value)
        waiting.extend(value.inputs)
        yield value, value.grad


# %% [markdown]
# `seegrad.follow` draws an engine while it runs, as it draws torch's. The program is the one above: $c = ab$,
# $e = c^2 + c$.
#
# By hand, $\partial e/\partial a = (2c + 1)\,b$. **Predict** `a.grad`.

# %%
v = program()
walked = seegrad.follow(walk(v["e"]), v)
print("a.grad", v["a"].grad)

# %% [markdown]
# 81, and right would be 39. Each rule is right, and so is the graph.

# %% [markdown]
# ### What went on
#
# Three values were made by an operation: `c`, `d` and `e`. **Predict** how often each of them was pushed. Then go
# through the steps.

# %%
seegrad.show(walked)

# %% [markdown]
# `e` once, `d` once, `c` three times: `c` is used in three places, so it was pushed three times, and each time with
# *all* that had come so far, also with what was already passed on.
#
# The mistake isn't in a rule. A value may be pushed once only, and only when everything has arrived.

# %% [markdown]
# ### The order
#
# When has everything arrived at a value? When all that was made *from* it, on the way to the loss, is done. A value is
# always older than what is made from it. So: the youngest first.


# %%
def graph(loss):
    found, waiting = [], [loss]
    while waiting:
        value = waiting.pop()
        if value not in found:
            found.append(value)
            waiting.extend(value.inputs)
    return found


def ordered(loss):
    loss.grad = 1.0
    for value in sorted(graph(loss), key=lambda value: value.number, reverse=True):
        push(value)
        yield value, value.grad


# %% [markdown]
# **Predict** the order in which it runs the Functions. Click them.

# %%
v = program()
seegrad.show(seegrad.follow(ordered(v["e"]), v), ask="order")

# %%
v["a"].grad, v["b"].grad

# %% [markdown]
# Both are right. Each Function ran once.
#
# Torch has the same rule. Every Node is given a number at its birth, and the engine takes the highest one that is
# ready. An `AccumulateGrad` goes first as soon as it is ready, whatever its age.

# %% [markdown]
# ### Optional: younger than the loss
#
# `f` is made from `a` too, after `e`. **Predict:** does its rule run when backward begins at `e`?

# %%
v = program()
v["f"] = v["a"].exp()
seegrad.follow(ordered(v["e"]), v)
print("f.grad", v["f"].grad, " a.grad", v["a"].grad)

# %% [markdown]
# No. `graph` starts at the loss and walks to the inputs, and `f` isn't on any of these paths. A value that the loss
# wasn't made from sends no gradient.

# %% [markdown]
# ## 3 · One value, several gradients
#
# `push` has the line `one.grad += gradient`. Suppose somebody writes `one.grad = gradient` there.
#
# **Predict** `a.grad` for $a \cdot a$ at 3 with each of them.

# %%
for adds in (True, False):
    a = Value(3.0)
    square = a * a
    square.grad = 1.0
    for gradient in RULES["mul"](square.grad, a.data, a.data):
        a.grad = a.grad + gradient if adds else gradient
    print("adds up:", adds, " a.grad", a.grad)

# %% [markdown]
# `a` is used twice, and along each path a part of the gradient comes back: $3 + 3$. An engine that assigns keeps the
# last part alone. Wherever a value is used twice, its gradient would be wrong, and nothing would say so.

# %% [markdown]
# ### Backward, twice
#
# Torch would say that saved tensors were freed; ours frees nothing. So let us call it again.
#
# **Predict** `a.grad` after the second call. After the first it was 39.

# %%
v = program()
seegrad.follow(ordered(v["e"]), v)
seegrad.follow(ordered(v["e"]), v)
print("a.grad", v["a"].grad)

# %% [markdown]
# Not 78, but 153: `c` and `d` still hold what came in the first call, and pass it on once more. `d` has 1 + 1 = 2 now,
# `c` has 13 + 1 + 24 = 38, and `a` gets 3 · 38 on top of its 39.

# %% [markdown]
# ### What flows, and what stays
#
# Two things have been mixed up: the gradient that *flows* through a value, and the one that *stays* with it. What flows
# must be new in each call; so it moves into a dictionary that each call makes anew.
#
# `parts` calls the rule: later sections put another function in its place.

# %%
def plain(value, gradient):
    return RULES[value.op](gradient, *(one.data for one in value.saved))


def backward(loss, parts=plain):
    flowing = {loss: 1.0}
    for value in sorted(graph(loss), key=lambda value: value.number, reverse=True):
        gradient = flowing.pop(value)
        if value.op:
            for one, part in zip(value.inputs, parts(value, gradient), strict=True):
                flowing[one] = flowing[one] + part if one in flowing else part
        else:
            value.grad += gradient
        yield value, gradient


# %% [markdown]
# (The line with `flowing[one] + part`: for numbers `+=` would do, but with tensors it would write into a gradient that
# `add` gave to two values at once.)
#
# **Predict** `a.grad` after one call, after two, and `c.grad`.

# %%
v = program()
for _ in range(2):
    seegrad.follow(backward(v["e"]), v)
    print("a.grad", v["a"].grad, " c.grad", v["c"].grad)

# %% [markdown]
# That is torch's behaviour: leaves add up over the calls, and a value in between keeps nothing; where torch says
# `None`, ours says 0.0. *Misconception* **M09**: “each backward overwrites `.grad`”.

# %% [markdown]
# ### Optional: `retain_grad` of your own
#
# `retain_grad()` is a request to keep it all the same.
#
# **Change** `Value` and `backward`: a value whose `retains` is true keeps its gradient too, and passes it on as before.
# (One line in each: `self.retains = False`, and below the `pop`,
# `if value.op and value.retains: value.grad += gradient`.)

# %% [markdown]
# ## 4 · Against torch
#
# The same program on torch's engine:

# %%
# %%see
a = torch.tensor(2.0, dtype=torch.float64, requires_grad=True, device=device)
b = torch.tensor(3.0, dtype=torch.float64, requires_grad=True, device=device)
c = a * b
d = c * c
e = d + c
e.backward()

# %% [markdown]
# And on yours. **Predict** in how many of its numbers it differs from torch.

# %%
v = program()
seegrad.show(seegrad.follow(backward(v["e"]), v))

# %%
print("values   ", [v[name].data == value.item() for name, value in zip("abcde", (a, b, c, d, e), strict=True)])
print("gradients", v["a"].grad == a.grad.item(), v["b"].grad == b.grad.item())

# %% [markdown]
# In none, to the last digit: the same rules, run in the same order.

# %% [markdown]
# ## 5 · Tensors
#
# A rule doesn't care whether its numbers are single ones or arrays. So we put tensors inside, as mere containers of
# numbers: they don't require gradients, and torch's autograd sees nothing.
#
# One thing is new. $x + b$ with a `[3, 2]` and a `[2]` uses `b` for each of three rows.
#
# **Predict** the shape of the gradient that the rule of `add` gives to `b`, and the shape that it should have.

# %%
x = Value(torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], device=device))
b = Value(torch.tensor([10.0, 20.0], device=device))
out = x + b
for gradient, one in zip(RULES["add"](torch.ones_like(out.data)), (x, b), strict=True):
    print("rule gives", list(gradient.shape), " value has", list(one.data.shape))

# %% [markdown]
# `b` has two elements and was given six numbers: each element was used three times. So its gradient is a sum of three
# parts.

# %% [markdown]
# ### Back to the shape
#
# Along every dimension that broadcasting stretched, add up.


# %%
def unbroadcast(gradient, shape):
    while gradient.dim() > len(shape):
        gradient = gradient.sum(0)
    for k, size in enumerate(shape):
        if size == 1:
            gradient = gradient.sum(k, keepdim=True)
    return gradient


# %% [markdown]
# Two loops, for two ways of stretching: a dimension that wasn't there, and one of size 1. A gradient of six ones, shape
# `[3, 2]`, is brought back to three shapes:

# %%
for shape in ((2,), (3, 1), ()):
    print(list(shape), unbroadcast(torch.ones(3, 2, device=device), shape))

# %% [markdown]
# The numbers say how often each element was used.

# %% [markdown]
# ### Rules for tensors
#
# `fitted` takes the place of `plain`. Before it calls the rule, it gives the gradient the shape of its value, also the
# 1.0 of the loss; afterwards it brings each part back to the shape of its input.
#
# `exp` gets a rule for tensors; `sum` is new, and `matmul`. An element of `a` goes into one row of the result, times one
# row of `b`. Its gradient is that row of `g` times that row of `b`, added up: `g @ b.T`.


# %%
def fitted(value, gradient):
    given = plain(value, gradient * torch.ones_like(value.data))
    return [unbroadcast(part, one.data.shape) for one, part in zip(value.inputs, given, strict=True)]


RULES |= {
    "matmul": lambda g, a, b: (g @ b.T, a.T @ g),
    "sum": lambda g, a: (g * torch.ones_like(a),),
    "exp": lambda g, a: (g * a.exp(),),
}


class Tensor(Value):
    def __matmul__(self, other):
        return type(self)(self.data @ other.data, "matmul", (self, other), (self, other))

    def sum(self):
        return type(self)(self.data.sum(), "sum", (self,), (self,))

    def exp(self):
        return type(self)(self.data.exp(), "exp", (self,), (self,))


# %% [markdown]
# ### Optional: a layer
#
# A layer and its loss, written once. It takes your tensors or torch's.
#
# **Predict:** what does each Function save? Tick it.


# %%
def layer(x, w, b):
    return ((x @ w + b).exp() * x).sum()


x = torch.tensor([[0.1, -0.2], [0.3, 0.4]], device=device)
w = torch.tensor([[0.5, -0.1], [0.2, 0.3]], device=device)
b = torch.tensor([0.1, -0.1], device=device)
mine = {"x": Tensor(x), "w": Tensor(w), "b": Tensor(b)}
loss = layer(*mine.values())
seegrad.show(seegrad.follow(backward(loss, fitted), {**mine, "loss": loss}), ask="saves")

# %%
theirs = [one.clone().requires_grad_() for one in (x, w, b)]
layer(*theirs).backward()
for (name, own), one in zip(mine.items(), theirs, strict=True):
    print(name, torch.allclose(own.grad, one.grad))

# %% [markdown]
# All three agree. Two new operations and `exp` for tensors, three lines of rules. Torch has some 650 of these lines; you
# know now how each of them is built.
#
# Ours is wasteful. `sum` saves its whole input for its shape alone, and `exp` computes again what it had. Torch notes a
# shape, and saves the result.

# %% [markdown]
# ## 6 · A write in between
#
# A saved tensor isn't a copy. What if somebody writes into it, between forward and backward?
#
# **Predict:** does our engine raise, is it silently wrong, or right? For $x^2$ the gradient is $2x$.

# %%
x = Tensor(torch.tensor([1.0, 2.0], device=device))
loss = (x * x).sum()
x.data.mul_(10)
list(backward(loss, fitted))
print("x.grad", x.grad)

# %% [markdown]
# Silently wrong: the rule read the new numbers. That is what torch would be without its version counters.

# %% [markdown]
# ### Versions
#
# We could copy what is saved: every step would pay for that with several times the memory (chapter 04, section 10). So we
# count. Every write moves the tensor's version; every operation notes the versions of what it saves; backward compares.
# Beyond torch, a write also notes its line: `sys._getframe(1).f_lineno` is the line that called.


# %%
class Counted(Tensor):
    def __init__(self, *made):
        super().__init__(*made)
        self.version, self.line = 0, None
        self.versions = [one.version for one in self.saved]

    def mul_(self, number):
        self.data.mul_(number)
        self.version += 1
        self.line = sys._getframe(1).f_lineno


def checked(value, gradient):
    for one, version in zip(value.saved, value.versions, strict=True):
        if one.version != version:
            raise RuntimeError(f"{value.op} saved version {version}, now {one.version}: see line {one.line}")
    return fitted(value, gradient)


# %% [markdown]
# **Predict** for each of these three whether backward raises.


# %%
def first(x):
    x.mul_(10)
    return (x * x).sum()


def second(x):
    loss = (x * x).sum()
    x.mul_(10)
    return loss


def third(x):
    loss = (x + x).sum()
    x.mul_(10)
    return loss


for program_of in (first, second, third):
    x = Counted(torch.tensor([1.0, 2.0], device=device))
    loss = program_of(x)
    try:
        list(backward(loss, checked))
        print(program_of.__name__, x.grad)
    except RuntimeError as error:
        print(program_of.__name__, "RuntimeError:", error)

# %% [markdown]
# A write before the use does no harm: the new numbers are those that were used. A write after it does, if a rule will
# read them. `add` needs no numbers, only shapes, so in `third` nothing is wrong, and nothing is said.
#
# And look at the message: it names the line of the *write*. Torch's message names a kind of operation, and its anomaly
# mode the line that saved; the line that wrote is named by neither. `%%see` finds it.

# %% [markdown]
# ### Optional: a write to `x.data`
#
# `x.data` is the plain tensor inside our `Counted`. **Predict** the outcome of a write to that.

# %%
x = Counted(torch.tensor([1.0, 2.0], device=device))
loss = (x * x).sum()
x.data.mul_(10)
try:
    list(backward(loss, checked))
    print(x.grad)
except RuntimeError as error:
    print("RuntimeError:", error)

# %% [markdown]
# The counter counts what goes through `mul_`. A write that goes around it isn't counted. Torch's `.data` is such a way
# around. *Misconceptions* **M05**, “`.data` is `.detach()`, and both copy”, and **M06**, “no error means that the
# gradient is right”.

# %% [markdown]
# ## 7 · A rule inside torch
#
# Now the other way: torch's engine, with a rule of yours. A `torch.autograd.Function` has a `forward` that computes and
# saves, and a `backward`: the rule. `ctx` is the Node that is being made: what `forward` puts there, `backward` finds
# there.
#
# You never call the two yourself, so they have no `self`. `Cube.apply(…)` does: it runs `forward` and puts the Node
# into the graph. `Cube.forward` alone would record nothing.

# %%
class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, given):
        ctx.save_for_backward(given)
        return given**3

    @staticmethod
    def backward(ctx, gradient):
        (given,) = ctx.saved_tensors
        return gradient * 3 * given**2


# %% [markdown]
# **Predict** the order of the Functions.

# %%
# %%see --ask order
x = torch.tensor([1.0, 2.0], requires_grad=True, device=device)
doubled = x * 2
out = Cube.apply(doubled)
out.sum().backward()

# %% [markdown]
# One Node for all of `Cube`: in `forward`, torch records nothing.

# %% [markdown]
# ### Is it right?
#
# `gradcheck` compares a rule with finite differences, in `float64`. Below is a second rule beside that of `Cube`.
#
# **Predict** what `gradcheck` says of the two.


# %%
class Other(Cube):
    @staticmethod
    def backward(ctx, gradient):
        (given,) = ctx.saved_tensors
        return gradient * 3 * given


x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True, device=device)
for function in (Cube, Other):
    print(function.__name__, gradcheck(function.apply, x, raise_exception=False))
print("at 1:", [torch.autograd.grad(function.apply(x).sum(), x)[0][0].item() for function in (Cube, Other)])

# %% [markdown]
# At 1 both give 3: one point proves nothing. And neither says a word in training. *Misconception* **M06**: “no error
# means that the gradient is right”. A rule of yours is checked before it is used.

# %% [markdown]
# ### What the rule saved
#
# `save_for_backward` saves a tensor, no copy. **Predict** the outcome of a write between forward and backward.

# %%
# %%see --ask outcome
x = torch.tensor([1.0, 2.0], requires_grad=True, device=device)
doubled = x * 2
out = Cube.apply(doubled)
doubled.mul_(10)
out.sum().backward()


# %% [markdown]
# Others save it as an attribute, like this. **Predict** the outcome of the same write.


# %%
class Kept(torch.autograd.Function):
    @staticmethod
    def forward(ctx, given):
        ctx.given = given
        return given**3

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 3 * ctx.given**2


# %%
# %%see --ask outcome
x = torch.tensor([1.0, 2.0], requires_grad=True, device=device)
doubled = x * 2
out = Kept.apply(doubled)
doubled.mul_(10)
out.sum().backward()

# %% [markdown]
# `save_for_backward` notes a version and compares it. Of an attribute no version is noted, so nobody compares, and the
# gradient is a hundred times too large. An attribute also keeps memory alive that backward would have freed.

# %% [markdown]
# ### Optional: in place
#
# A Function may write its input. `mark_dirty` says so to torch.
#
# **Predict** for each of the two Functions below: is `x.grad` right?


# %%
class Marked(torch.autograd.Function):
    says_so = True

    @classmethod
    def forward(cls, ctx, x):
        if cls.says_so:
            ctx.mark_dirty(x)
        return x.mul_(0.5)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 0.5


class Unmarked(Marked):
    says_so = False


for function in (Marked, Unmarked):
    x = torch.tensor([1.0, 2.0], requires_grad=True, device=device)
    y = x * 1
    function.apply(y)
    (y * y).sum().backward()
    print(f"{function.__name__:8} x.grad", x.grad, " right:", 2 * 0.25 * x.detach())

# %% [markdown]
# The bytes are the same. But only `mark_dirty` makes `y` itself a result of the Function. Without it
# `y` keeps its old history, in which it was never halved, and its gradient lacks a factor.

# %% [markdown]
# ### The gradient's gradient
#
# `backward` of `Cube` is made of torch operations. With `create_graph=True` they are recorded too, and can be
# differentiated once more. The function here is $x^3 + x^2$, at 3.
#
# **Predict** both derivatives, with `Cube`, and with a rule that computes with numpy.


# %%
class Numpy(Cube):
    @staticmethod
    def backward(ctx, gradient):
        (given,) = ctx.saved_tensors
        return gradient * torch.as_tensor(3 * given.detach().cpu().numpy() ** 2, device=given.device)


for function in (Cube, Numpy):
    x = torch.tensor(3.0, dtype=torch.float64, requires_grad=True, device=device)
    (slope,) = torch.autograd.grad(function.apply(x) + x**2, x, create_graph=True)
    (second,) = torch.autograd.grad(slope, x)
    print(f"{function.__name__:5} first", slope.item(), " second", second.item())

# %% [markdown]
# $3x^2 + 2x = 33$ from both. But $6x + 2 = 20$ comes from `Cube` alone. Numpy has no history, so the part $6x$ is
# missing, without a word: **M06**, “no error means that the gradient is right”.

# %% [markdown]
# ### Optional: a check for that
#
# There is a check for that too. **Predict** what it says of the two.

# %%
x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True, device=device)
for function in (Cube, Numpy):
    print(f"{function.__name__:5}", gradgradcheck(lambda x, f=function: f.apply(x) + x**2, x, raise_exception=False))

# %% [markdown]
# `gradgradcheck` compares the second derivative with a finite difference of the first.

# %% [markdown]
# ## 8 · Optional: check yourself
#
# 1. A value is used in three places. How often is its rule run, and with which gradient?
# 2. Why does `flowing` begin anew in each call?
#
# **Predict** what this prints, without looking up.

# %%
a = Value(2.0)
b = a * a
c = b + b
for _ in range(2):
    list(backward(c))
print(a.grad, b.grad)

# %% [markdown]
# 1. Once, with the sum of all that came.
# 2. Otherwise an old gradient would be passed on again.
#
# $c = 2a^2$ has the slope $4a = 8$, twice: 16. And `b` keeps nothing.

# %% [markdown]
# ## 9 · What you have made
#
# | in your engine | in torch, by the names of its source |
# |---|---|
# | `inputs` | `grad_fn.next_functions` |
# | `saved`, `versions` | `SavedVariable`, the `_saved_…` of a Node |
# | `RULES` | `derivatives.yaml`, some 650 formulas |
# | `number`, the youngest first | `sequence_nr`, a queue of the Nodes that are ready |
# | `flowing` | the engine's input buffers |
# | `grad +=` at a leaf | `AccumulateGrad` |
# | `line` of a write | nothing: that is what `%%see` is for |
#
# **Now the assignment:** open [`09_own_engine`](../../release/en/09_own_engine/09_own_engine.ipynb).
# You write the engine's parts yourself, about 75 minutes.
