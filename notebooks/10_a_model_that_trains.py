# %% [markdown]
# # 10 · A model that trains
#
# *About 58 minutes, without the optional parts.* You have read graphs and built an engine. Now you train two models,
# and find out why others don't learn.
#
# After it you can
#
# - write a training loop, and say what each of its lines is there for;
# - go from a loss curve to the line of code behind it;
# - measure a model without holding on to its graphs, and keep its best weights;
# - train a small model that writes words which it has never read.

# %% [markdown]
# Every cell uses `device`, which the kernel sets (chapter 00). The models here compute with `float64`, so that your
# numbers are ours, and torch uses one thread: with matrices as small as these it is faster. `SGD` is torch's, told to
# write one tensor after the other on every device.
#
# A `NameError`, or `Cell magic … not found`? The kernel was restarted, or a cell was skipped: choose **Kernel ▸ Restart
# Kernel and Run up to Selected Cell**.
#
# What is called *optional* is for another day.

# %%
import copy
import math
from functools import partial

import torch
from IPython.display import Markdown
from torch import nn
from torch.nn import functional as F

import seegrad

device = seegrad.device()
torch.set_num_threads(1)
SGD = partial(torch.optim.SGD, foreach=False)

# %load_ext seegrad

# %% [markdown]
# ## Asked again
#
# Two questions on earlier chapters, each about a program that you haven't seen. What you predicted wrongly comes first.

# %%
seegrad.ask_again("10")

# %% [markdown]
# ## 1 · One step
#
# A model is a function with numbers in it that can be moved: its *parameters*. A training step computes a loss and its
# gradient, and moves each parameter a little way against it, so that the loss gets smaller.
#
# Here is a whole step, with two parameters.
#
# **Predict** which tensors keep a gradient.

# %%
# %%see --ask keeps
x = torch.tensor([[0.5, -1.0], [1.0, 0.5]], device=device)
y = torch.tensor([[1.0], [0.0]], device=device)
w = torch.tensor([[0.5, -0.3], [0.2, 0.8]], requires_grad=True, device=device)
v = torch.tensor([[0.1], [0.4]], requires_grad=True, device=device)
optimizer = SGD([w, v], lr=0.5)
h = torch.tanh(x @ w)
loss = (h @ v - y).pow(2).mean()
optimizer.zero_grad()
loss.backward()
optimizer.step()

# %% [markdown]
# `w` and `v`, the leaves that require one. `step` moves them by it, in place: it is the only line that writes.
#
# | line | what it is for |
# |---|---|
# | forward | makes a new graph, with the parameters as they are now |
# | `zero_grad()` | empties each `.grad`, because backward adds to it |
# | `backward()` | fills each `.grad`, and frees what the graph had saved |
# | `step()` | moves each parameter by what stands in its `.grad` |

# %% [markdown]
# ### The same lines in another order
#
# A colleague has tidied up. The four lines are there, and in each round each of them runs once.
#
# **Predict:** which line did damage, if any did? Click it.

# %%
# %%see --ask culprit --as rec
x = torch.tensor([0.5, -1.0], device=device)
w = torch.tensor([1.0, 0.2], requires_grad=True, device=device)
optimizer = SGD([w], lr=0.5)
for _ in range(2):
    loss = (w * x).exp().sum()
    loss.backward()
    optimizer.zero_grad()
    optimizer.step()

# %% [markdown]
# The gradients are thrown away just before `step` could use them. Torch has no opinion on that. seegrad watches the loop
# too, and names the line.


# %%
def findings(rec):
    return Markdown("\n\n".join(one.message() for one in rec.diagnoses) or "✓")


findings(rec)

# %% [markdown]
# *Misconception* **M06**: “no error means that the gradient is right”. Nor does it mean that a model learns.

# %% [markdown]
# ## 2 · Two spirals
#
# Now a whole training. The data is made in place: two arms of a spiral, 40 points each. The model gets a point and says
# which arm it is on. No straight line divides them, so it needs layers in between.


# %%
def spirals(count):
    turn = torch.linspace(0.3, 1.0, count, dtype=torch.float64, device=device) * 2 * math.pi
    arm = torch.stack([turn * turn.cos(), turn * turn.sin()], 1) / 6
    return torch.cat([arm, -arm]), (torch.arange(2 * count, device=device) >= count).double()


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.second = nn.Linear(2, width), nn.Linear(width, width)
        self.head = nn.Linear(width, 1)

    def forward(self, x):
        return self.head(torch.tanh(self.second(torch.tanh(self.first(x))))).squeeze(1)


def made(kind, *given):
    torch.manual_seed(0)
    return kind(*given).to(device, torch.float64)


points, arms = spirals(40)

# %% [markdown]
# The loss is that of a yes-or-no question: how surprised is the model by the right answer? It is $-\log p$, where $p$ is
# the chance that the model gave to the right arm.
#
# **Predict** the loss before the first step. The model knows nothing yet: which chance does it give to each of two arms?


# %%
def spiral_loss(model):
    return F.binary_cross_entropy_with_logits(model(points), arms)


print(round(spiral_loss(made(Net, 16)).item(), 2), round(math.log(2), 2))

# %% [markdown]
# About one half, so the loss is about $\log 2$. Look at the first loss of every training: if it is much larger, something
# is wrong already.

# %% [markdown]
# ### The loop is yours
#
# Write it: `steps` times loss, gradients, step. `train` returns the losses, as plain numbers. `loss_of(model)` computes
# the loss. Take `torch.optim.Adam` with `lr=rate`: it moves each weight by about `rate`, however long the gradient is.


# %%
def train(model, loss_of, steps, rate=0.02):
    losses = []
    return losses


# %% [markdown]
# **Repair** it until `train(made(Net, 16), spiral_loss, 150)` ends with a loss below 0.01. Then open ours.


# %%
def train(model, loss_of, steps, rate=0.02):
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    losses = []
    for _ in range(steps):
        loss = loss_of(model)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


# %% [markdown]
# `zero_grad` may stand anywhere between a `step` and the next `backward`. `item()` takes the number alone, without its
# graph: section 5 says why.

# %% [markdown]
# ### The curve
#
# `curve` draws losses as a row of columns: time goes to the right, and the scale begins at 0.


# %%
def curve(losses, columns=60, rows=5):
    picked = [losses[k * len(losses) // columns] for k in range(columns)]
    height = max(picked) / rows
    for row in reversed(range(rows)):
        filled = [max(0, min(8, round(8 * (one / height - row)))) for one in picked]
        print(f"{height * (row + 1):5.2f} {''.join(' ▁▂▃▄▅▆▇█'[eighths] for eighths in filled)}".rstrip())


model = made(Net, 16)
losses = train(model, spiral_loss, 150)
curve(losses)
print("first", round(losses[0], 2), " last", round(losses[-1], 2))
print("right:", ((model(points) > 0) == (arms > 0)).sum().item(), "of", len(arms))

# %% [markdown]
# It falls, rests for a while where the slope is nearly flat, and falls again. In the end all 80 points are on the right
# arm.
#
# **Change** the width to 2, or the rate to 0.2, and look at the curve. Then change it back.

# %% [markdown]
# ## 3 · “It gets worse”
#
# *“Mine learns for a while, then the loss climbs to ten times of what it was.”* Below is the colleague's loop, and three
# steps of it are recorded.
#
# **Predict:** which line would you change, and what does the third step go by?


# %%
def careless(model, loss_of, steps, rate=0.02):
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    losses = []
    for _ in range(steps):
        loss = loss_of(model)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


with seegrad.record() as rec:
    careless(made(Net, 4), spiral_loss, 3)
findings(rec)

# %% [markdown]
# The third step uses the sum of three gradients, two of them from places where the weights no longer are. *Misconception*
# **M09**: “each backward overwrites `.grad`”.
#
# The sentence says *if*, because who adds up small batches on purpose writes the same.
#
# This is the curve of 300 such steps:

# %%
curve(careless(made(Net, 16), spiral_loss, 300))

# %% [markdown]
# ### Optional: the same on one weight
#
# The loss is $3w$, so each backward brings the slope 3. The rate is 1, and `w` begins at 10.
#
# **Predict** `w` after each of three rounds without `zero_grad`.

# %%
w = torch.tensor(10.0, requires_grad=True, device=device)
optimizer = SGD([w], lr=1.0)
for _ in range(3):
    (3 * w).backward()
    optimizer.step()
    print("w.grad", w.grad.item(), " w", w.item())

# %% [markdown]
# The steps are 3, 6 and 9 long: they grow although the slope is the same everywhere. On a curved loss such steps fly past
# the valley.

# %% [markdown]
# ## 4 · “More layers don't help”
#
# *“I can take two hidden layers or twenty: the loss comes down a little, and stays there.”*
#
# A `Linear` has two Parameters, a weight and a bias. **Predict:** with how many Parameters does a `Deep` compute, how many
# of them does its optimiser get, and do the others get a gradient?

# %%
F64 = {"dtype": torch.float64, "device": device}


class Deep(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = [nn.Linear(2, width, **F64), nn.Linear(width, width, **F64)]
        self.head = nn.Linear(width, 1, **F64)

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return self.head(x).squeeze(1)


with seegrad.record() as rec:
    deep = Deep(4)
    optimizer = torch.optim.Adam(deep.parameters(), lr=0.02)
    for _ in range(3):
        optimizer.zero_grad()
        spiral_loss(deep).backward()
        optimizer.step()
findings(rec)

# %%
print(len(list(deep.parameters())), "with gradient:", [layer.weight.grad is not None for layer in deep.layers])

# %% [markdown]
# It gets two of six. `nn.Module` notes what is assigned to an attribute if it is a Parameter or a module. A plain list is
# neither, so nobody looks into it, nor do `model.to(…)` and `state_dict()`.
#
# The others get a gradient all the same: the graph knows nothing of modules, and backward reaches every leaf.
#
# Two questions, then, for every parameter: does a gradient arrive, and does its version move?

# %% [markdown]
# ### Optional: gradient and step
#
# The same once more, as small as it can be. **Predict** the version of each of the two weights at the end.

# %%
# %%see --ask versions --tensors first,head
x = torch.tensor([0.5, -1.0], device=device)
first = torch.tensor([1.0, 0.2], requires_grad=True, device=device)
head = torch.tensor(2.0, requires_grad=True, device=device)
optimizer = SGD([head], lr=0.5)
for _ in range(2):
    loss = (torch.tanh(first * x) * head).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# %%
print("first.grad", first.grad, " head.grad", head.grad)

# %% [markdown]
# `first` gets its gradient in each round. Nobody uses it, and nobody empties it, so it grows.

# %% [markdown]
# ### Our repair
#
# **Repair** `Deep` so that its six Parameters are known, then open ours.


# %%
class Deep(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(2, width, **F64), nn.Linear(width, width, **F64)])
        self.head = nn.Linear(width, 1, **F64)

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return self.head(x).squeeze(1)


deep = Deep(4)
print(len(list(deep.parameters())))
with seegrad.record() as rec:
    train(deep, spiral_loss, 3)
findings(rec)

# %% [markdown]
# `nn.ModuleList` is a list that a module looks into. seegrad finds nothing more to say.

# %% [markdown]
# ## 5 · “It needs more and more memory”
#
# *“I only want the mean of the losses. After an hour the machine is full.”*
#
# **Predict** the outcome. And how many of the three graphs are still there after the last round?

# %%
# %%see --ask outcome --as rec
x = torch.tensor([0.5, -1.0], device=device)
w = torch.tensor([1.0, 0.2], requires_grad=True, device=device)
optimizer = SGD([w], lr=0.1)
total = 0
for _ in range(3):
    loss = (w * x).exp().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total = total + loss

# %%
findings(rec)

# %% [markdown]
# All three, and no gradient is wrong. A loss is a tensor with a history, and so is a sum of losses: the graph of every
# round hangs on `total`. Backward has freed what they had saved, but their Nodes stay. Where no backward runs, in a
# validation, all that was saved stays too.
#
# `total += loss.item()` takes the number alone. For a validation as a whole there is `torch.no_grad()`: then no graph is
# made at all.

# %% [markdown]
# ## 6 · A model that writes
#
# Now a model of letters: it reads twelve of them and says which one comes next. Its text is made in place as well, the
# numbers from 1 to 999 in words. Every sixth word is held back. The model never reads it, so we can ask at the end
# whether it has learned how such words are built, or only repeats them.


# %%
ones = "one two three four five six seven eight nine".split()
teens = "ten eleven twelve".split() + [f"{root}teen" for root in "thir four fif six seven eigh nine".split()]
tens = [f"{root}ty" for root in "twen thir for fif six seven eigh nine".split()]
small = [*ones, *teens, *tens, *(f"{ten}-{one}" for ten in tens for one in ones)]
words = small + [f"{one}-hundred{rest}" for one in ones for rest in ("", *(f"-{word}" for word in small))]

held_back = words[5::6]
learnt = sorted(set(words) - set(held_back))
letters = sorted({"."}.union(*words))
print(len(words), "words,", len(letters), "letters; held back:", *held_back[-3:])

# %% [markdown]
# The dot is a letter that stands before each word and behind it. `pairs` cuts the words: each row has twelve letters, as
# numbers, and its answer is the letter that follows.


# %%
def pairs(words, context=12):
    rows, following = [], []
    for word in words:
        text = [letters.index(letter) for letter in "." * context + word + "."]
        for k in range(context, len(text)):
            rows.append(text[k - context : k])
            following.append(text[k])
    return torch.tensor(rows, device=device), torch.tensor(following, device=device)


rows, following = pairs(learnt)
held_rows, held_following = pairs(held_back)
print(list(rows.shape), "".join(letters[k] for k in rows[11].tolist()), "→", letters[following[11]])

# %% [markdown]
# Each letter becomes six numbers, which are learned (an `Embedding`). One layer looks at all twelve letters at once,
# another gives each letter of the alphabet a score. `cross_entropy` makes chances of the scores. Its loss is again
# $-\log p$, the surprise at the right letter.
#
# **Predict** the first loss. There are 19 letters.


# %%
class Writer(nn.Module):
    def __init__(self, context=12):
        super().__init__()
        self.table = nn.Embedding(len(letters), 6)
        self.hidden, self.head = nn.Linear(6 * context, 64), nn.Linear(64, len(letters))

    def forward(self, rows):
        return self.head(torch.tanh(self.hidden(self.table(rows).flatten(1))))


def surprise(model, rows, following):
    return F.cross_entropy(model(rows), following)


print(round(surprise(made(Writer), rows[:500], following[:500]).item(), 1), round(math.log(len(letters)), 1))

# %% [markdown]
# $\log 19$, about: at first every letter is as likely as any other.

# %% [markdown]
# ### A training with a validation
#
# 18,000 rows are too many for every step, so each step draws 128 of them: a *mini-batch*. The loss then goes up and down,
# because each step sees other rows.
#
# Every 20 steps the model is asked about the words that were held back, and the best one so far is kept. This loop has two
# mistakes. One costs memory; the other makes `best` worthless.
#
# **Predict:** which lines are they?


# %%
def train_writer(model, steps, rate=0.02, every=20):
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    drawn, losses, measured, best = torch.Generator().manual_seed(0), [], [], None
    for step in range(steps):
        some = torch.randint(len(rows), (128,), generator=drawn).to(device)
        loss = surprise(model, rows[some], following[some])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if step % every == every - 1:
            measured.append(surprise(model, held_rows, held_following))
            if measured[-1] <= min(measured):
                best = model.state_dict()
    model.load_state_dict(best)
    return losses, measured


with seegrad.record() as rec:
    train_writer(made(Writer), 9, every=2)
findings(rec)

# %% [markdown]
# ### Our repair
#
# **Repair** `train_writer`, then open ours.


# %%
def train_writer(model, steps, rate=0.02, every=20):
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    drawn, losses, measured, best = torch.Generator().manual_seed(0), [], [], None
    for step in range(steps):
        some = torch.randint(len(rows), (128,), generator=drawn).to(device)
        loss = surprise(model, rows[some], following[some])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if step % every == every - 1:
            with torch.no_grad():
                measured.append(surprise(model, held_rows, held_following).item())
            if measured[-1] <= min(measured):
                best = copy.deepcopy(model.state_dict())
    model.load_state_dict(best)
    return losses, measured


with seegrad.record() as rec:
    train_writer(made(Writer), 9, every=2)
findings(rec)

# %% [markdown]
# `state_dict()` is no copy: its tensors are the Parameters themselves, and `step` writes them in place. So `best` was
# always the newest state. *Misconception* **M05**: “`.data` is `.detach()`, and both copy”.

# %% [markdown]
# ### It trains
#
# Two curves: the loss of each mini-batch, and that of the words which were held back.

# %%
writer = made(Writer)
losses, measured = train_writer(writer, 400)
curve(losses)
curve(measured, columns=20)
print("first", round(measured[0], 1), " last", round(measured[-1], 1))

# %% [markdown]
# The second curve ends where the first one does: the model knows as much about words that it never read.
#
# Why not 0? After `three-hundred-` there are many right ways to go on, and nobody can know which one comes.

# %% [markdown]
# ### It writes
#
# `write` begins with nothing but dots, draws a letter by the model's chances, and goes on with that, until the model says
# “dot”. Doubled scores make it more careful: what is likely becomes more likely.
#
# **Predict:** of 50 words that it writes, how many are numbers? And is one among them that it never read?


# %%
def write(model, drawn, context=12):
    text = [letters.index(".")] * context
    while len(text) < context + 40:
        with torch.no_grad():
            scores = 2 * model(torch.tensor([text[-context:]], device=device))
        text += torch.multinomial(scores.softmax(1)[0].cpu(), 1, generator=drawn).tolist()
        if letters[text[-1]] == ".":
            break
    return "".join(letters[k] for k in text).strip(".")


drawn = torch.Generator().manual_seed(1)
written = [write(writer, drawn) for _ in range(50)]
print(sum(word in words for word in written), "numbers; new:", *sorted(set(written) & set(held_back)))
print("before training:", write(made(Writer), drawn))

# %% [markdown]
# All of them are numbers, and some stood nowhere in what it has read. Nobody told it that `hundred` follows a
# digit, or that there is no `twenty-ten`. The gradient of one number, the surprise, brought all of it into some 6,000
# weights.

# %% [markdown]
# ### Optional: a shorter memory
#
# The same model reads three letters instead of twelve. **Predict** which mistakes it makes. What can't it know after
# `een`?

# %%
rows, following = pairs(learnt, 3)
held_rows, held_following = pairs(held_back, 3)
short = made(Writer, 3)
train_writer(short, 300)
print(*[write(short, drawn, 3) for _ in range(8)], sep="\n")

# %% [markdown]
# Each piece is right, and the whole isn't: after three letters it has forgotten whether a hundred came already.

# %% [markdown]
# ## 7 · Optional: check yourself
#
# 1. Which line of a loop writes into the parameters?
# 2. Which two things do you ask of a parameter that doesn't learn?
#
# **Predict** what this prints, without looking up.

# %%
w = torch.tensor(1.0, requires_grad=True, device=device)
optimizer = SGD([w], lr=1.0)
before, copied = w.detach(), w.detach().clone()
for _ in range(2):
    (2 * w).backward()
    optimizer.step()
print(before.item(), copied.item(), w.grad.item())

# %% [markdown]
# 1. `step`, and no other.
# 2. Does a gradient arrive, and does the version move?
#
# The steps are 2 and 4 long, since nothing emptied `.grad`: $1 - 6 = -5$. `before` shares its bytes with `w`, `copied`
# doesn't, and 4 stands in `w.grad`.

# %% [markdown]
# ## 8 · From the symptom to the line
#
# | what you see | what to look at | what seegrad calls it |
# |---|---|---|
# | the loss doesn't move | `zero_grad` between `backward` and `step` | `cleared_before_step` |
# | it gets worse and worse | no `zero_grad` | `gradients_never_cleared` |
# | more layers don't help | a plain list, a layer that was replaced later | `no_optimiser_holds_it` |
# | memory grows | a loss in a sum or a list, a validation with graphs | `graph_kept` |
# | the best model is the last one | `state_dict()` without a copy | `kept_by_reference` |
#
# For a script: `python -m seegrad train.py`.
#
# **Now the assignment:** open
# [`10_a_model_that_trains`](../../release/en/10_a_model_that_trains/10_a_model_that_trains.ipynb).
# You write a loop for a model of letters and treat two trainings that go wrong, about 70 minutes.
