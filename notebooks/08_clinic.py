# %% [markdown]
# # 08 · The clinic
#
# Programs from real projects come in, each with a complaint. You are the doctor: the picture is your X-ray, a finite
# difference your thermometer.
#
# After this hour you can
#
# - name a suspect by reading, before you run anything;
# - confirm it with `%%see`;
# - repair it with the smallest change, and prove two things: the gradient is right, and the program still computes
#   what it computed.

# %% [markdown]
# Every cell uses `device`. It is the CPU unless `SEEGRAD_DEVICE` says something else.
#
# A `NameError`, or `Cell magic … not found`? The kernel was restarted, or a cell was skipped: choose
# **Run ▸ Run All Above Selected Cell**.

# %%
import contextlib

import torch
from IPython.display import Markdown
from torch import nn

import seegrad

device = seegrad.device()

# %load_ext seegrad

# %% [markdown]
# ## 1 · The round
#
# Each patient is seen in four steps:
#
# 1. **Read.** Who saves? Who writes? Commit to a suspect.
# 2. **See.** The picture asks for your suspect, then shows the truth.
# 3. **Repair.** Edit the patient's cell and run it again, until the complaint is gone. Then compare with ours.
# 4. **Check.** Same values? Right gradient?

# %% [markdown]
# The complaint already narrows the search:
#
# | complaint | suspects |
# |---|---|
# | “modified by an inplace operation” | `+=`, `x[i] = …`, `inplace=True`, `optimizer.step()` |
# | “a second time” | a graph that reaches back into an earlier step |
# | “non-leaf” | a parameter that is a result |
# | no error, a wrong gradient | `.data`, numpy, a fused optimiser, BatchNorm |
# | no error, `.grad` is `None` | `detach`, `item`, `no_grad`, not a leaf |

# %% [markdown]
# The thermometer: how much does `f` change when one element of `x` does? It asks the function itself, not autograd.
#
# **Predict** what it shows for $x^3$ at 1 and 2.


# %%
def slope(f, x, h=1e-6):
    x = x.detach().double()
    steps = h * torch.eye(x.numel(), dtype=x.dtype, device=x.device)
    rises = [f(x + step.view_as(x)) - f(x - step.view_as(x)) for step in steps]
    return torch.stack(rises).view_as(x) / (2 * h)


def agree(came, want):
    return torch.allclose(came.detach().double(), want.detach().double(), atol=1e-5)


def chart(rec):
    return Markdown("".join(d.message() for d in rec.diagnoses[:1]) or "✓")


x = torch.tensor([1.0, 2.0], device=device)
print(slope(lambda x: x.pow(3).sum(), x))

# %% [markdown]
# ## 2 · Patient 1: a skip connection
#
# *“A residual block. It ran in evaluation for weeks. Training raises.”*
#
# **Predict:** which line did the damage? Click it. (`suppress` keeps the error from telling you.)

# %%
# %%see --ask culprit
with contextlib.suppress(RuntimeError):
    x = torch.tensor([[1.0, -1.0]], device=device)
    w = torch.tensor([[0.5, -0.3], [0.2, 0.8]], requires_grad=True, device=device)
    v = torch.tensor([[0.1, 0.4], [-0.6, 0.3]], requires_grad=True, device=device)
    out = torch.tanh(x @ w)
    branch = torch.tanh(out @ v)
    out += branch
    loss = out.pow(2).sum()
    loss.backward()

# %% [markdown]
# `out` was saved twice: by the matrix product, for the gradient of `v`, and by `tanh`, as its own result. `+=` writes
# into those bytes.
#
# *Misconception* **M11**: “`+=` is short for `= … +`”.

# %% [markdown]
# Below is the same patient with its error. It is your workbench: **repair** it, run it again, until the picture is
# quiet. `%%see` works on whatever you write.

# %% tags=["raises-exception", "version-dependent"]
# %%see
x = torch.tensor([[1.0, -1.0]], device=device)
w = torch.tensor([[0.5, -0.3], [0.2, 0.8]], requires_grad=True, device=device)
v = torch.tensor([[0.1, 0.4], [-0.6, 0.3]], requires_grad=True, device=device)
out = torch.tanh(x @ w)
branch = torch.tanh(out @ v)
out += branch
loss = out.pow(2).sum()
loss.backward()

# %% [markdown]
# A colleague proposes `out.data += branch`: *“then it runs.”* **Predict:** raises, wrong without a word, or right?

# %%
# %%see --ask outcome
x = torch.tensor([[1.0, -1.0]], device=device)
w = torch.tensor([[0.5, -0.3], [0.2, 0.8]], requires_grad=True, device=device)
v = torch.tensor([[0.1, 0.4], [-0.6, 0.3]], requires_grad=True, device=device)
out = torch.tanh(x @ w)
branch = torch.tanh(out @ v)
out.data += branch
loss = out.pow(2).sum()
loss.backward()

# %% [markdown]
# It runs, and computes the same loss. But `tanh` reads what was written over its result, and `v` gets nothing at all:
# no wire leads from `branch` to the loss.

# %%
print("v.grad", v.grad)

# %% [markdown]
# ### Our repair
#
# **Repair** yours first, then open ours.


# %%
def block(x, w, v):
    out = torch.tanh(x @ w)
    branch = torch.tanh(out @ v)
    out = out + branch
    return out.pow(2).sum()


w.grad = v.grad = None
repaired = block(x, w, v)
repaired.backward()

print("same value: ", agree(repaired, loss))
print("w.grad right", agree(w.grad, slope(lambda w: block(x.double(), w, v.double()), w)))
print("v.grad right", agree(v.grad, slope(lambda v: block(x.double(), w.double(), v), v)))

# %% [markdown]
# `out = out + branch` makes a new tensor, and the saved one keeps its value.

# %% [markdown]
# ### Row by row
#
# A row is a view. **Predict:** the version of `first`, after another row was written.

# %%
rows = torch.zeros(3, 2, device=device)
first = rows[0]
rows[1] = 1.0

print(first, "version", first._version)

# %% [markdown]
# No number of `first` changed, but its counter moved: torch counts the writes to the whole of `rows`. So a buffer that
# is filled row by row, while backward needs its earlier rows, raises.
#
# Collect the rows in a Python list, and join them with `torch.stack`.

# %% [markdown]
# ## 3 · Patient 2: an activation that saves memory
#
# *“Somebody replaced `nn.ReLU()` by `nn.ReLU(inplace=True)`, as a blog recommends. My own code has no in-place
# operation.”*
#
# **Predict** the outcome.

# %%
x = torch.tensor([0.5, -1.0], device=device)
w = torch.tensor([1.0, 2.0], requires_grad=True, device=device)
activation = nn.ReLU(inplace=True)
with contextlib.suppress(RuntimeError), seegrad.record() as patient_2:
    scores = torch.tanh(w * x)
    kept = activation(scores)
    loss = kept.sum()
    loss.backward()

seegrad.show(patient_2, ask="outcome")

# %% [markdown]
# **Predict** the culprit's line. This cell is your workbench: **repair** it here, once you have clicked.

# %%
# %%see --ask culprit
with contextlib.suppress(RuntimeError):
    x = torch.tensor([0.5, -1.0], device=device)
    w = torch.tensor([1.0, 2.0], requires_grad=True, device=device)
    scores = torch.tanh(w * x)
    kept = nn.ReLU(inplace=True)(scores)
    loss = kept.sum()
    loss.backward()

# %%
chart(patient_2)

# %% [markdown]
# `tanh` computes its derivative from its own result, and the ReLU has overwritten it.
#
# Is `inplace=True` forbidden, then? **Predict** which of these may stand before it.

# %%
befores = {
    "w * x": lambda z: z * x,
    "BatchNorm": nn.BatchNorm1d(2, device=device),
    "sin": torch.sin,
    "exp": torch.exp,
    "tanh": torch.tanh,
    "softmax": lambda z: z.softmax(-1),
}
for name, before in befores.items():
    z = torch.tensor([[0.5, -1.0], [2.0, 0.1]], requires_grad=True, device=device)
    try:
        nn.ReLU(inplace=True)(before(z)).sum().backward()
        print(f"{name:9} fine")
    except RuntimeError:
        print(f"{name:9} raises")

# %% [markdown]
# Fine after whatever saves its *input*; fatal after whatever saves its *result*. That is why convolution, BatchNorm,
# ReLU in place is everywhere, and works.
#
# *Misconceptions* **M03**, “any in-place write raises”, and **M12**, “my code has none”.

# %% [markdown]
# ### Our repair
#
# **Repair** yours first, then open ours.


# %%
def forward(w):
    return nn.ReLU()(torch.tanh(w * x)).sum()


w.grad = None
repaired = forward(w)
repaired.backward()

print("same value: ", agree(repaired, loss))
print("w.grad right", agree(w.grad, slope(forward, w)))

# %% [markdown]
# The option goes. Nothing else changes.

# %% [markdown]
# ## 4 · Patient 3: a GAN
#
# *“Discriminator `d`, generator `g`. It is the code from a tutorial of 2018, and it ran there.”*
#
# **Predict:** which line did the damage? Note who saved the value that it hit.

# %%
# %%see --ask culprit
softplus = nn.functional.softplus
g = torch.tensor([0.5, -0.3], requires_grad=True, device=device)
d = torch.tensor([0.2, 0.8], requires_grad=True, device=device)
opt_g, opt_d = torch.optim.SGD([g], lr=0.5), torch.optim.SGD([d], lr=0.5)
real, noise = torch.tensor([1.0, 2.0], device=device), torch.tensor([1.0, -1.0], device=device)

with contextlib.suppress(RuntimeError):
    fake = g * noise
    loss_d = softplus((d * fake.detach()).sum()) + softplus(-(d * real).sum())
    loss_g = softplus(-(d * fake).sum())
    opt_d.zero_grad()
    loss_d.backward()
    opt_d.step()
    opt_g.zero_grad()
    loss_g.backward()
    opt_g.step()

# %% [markdown]
# `d * fake` needs `d` for the gradient of `fake`. The step moved `d` between that forward and its backward.
#
# *Misconception* **M12**: an optimiser's step is an in-place write.
#
# Why did it run in 2018? Until torch 1.4 the optimisers wrote through `.data`, past the alarm. Below, such a step.
# **Predict:** is `g.grad` that of the old `d`, of the new `d`, or of neither?


# %%
def start():
    g = torch.tensor([0.5, -0.3], requires_grad=True, device=device)
    d = torch.tensor([0.2, 0.8], requires_grad=True, device=device)
    return g, d, torch.optim.SGD([g], lr=0.5), torch.optim.SGD([d], lr=0.5)


def fooled(g, d):
    return softplus(-(d * g * noise).sum())


g, d, opt_g, opt_d = start()
old, loss = d.detach().clone(), fooled(g, d)
d.data -= 0.5 * torch.tensor([-0.3, -0.3], device=device)
loss.backward()
print("came ", g.grad)
print("old d", slope(lambda g: fooled(g, old), g).float())
print("new d", slope(lambda g: fooled(g, d.detach()), g).float())

# %% [markdown]
# Of neither. The tutorial's gradients were wrong all along; from torch 1.5 on, torch says so.
#
# ### Two repairs, two meanings
#
# What should `g` learn against: the `d` from *before* its step, or from *after* it? Decide, then repair.
#
# **After:** run the generator's forward below the step. It computes another loss than the patient did.

# %%
g, d, opt_g, opt_d = start()
fake = g * noise
loss_d = softplus((d * fake.detach()).sum()) + softplus(-(d * real).sum())
loss_d.backward()
opt_d.step()
after = softplus(-(d * fake).sum())
after.backward()

patient = fooled(*start()[:2])
print(f"patient {patient.item():.4f}, now {after.item():.4f}")
print("g.grad right", agree(g.grad, slope(lambda g: fooled(g, d.detach()), g)))

# %% [markdown]
# **Before:** both backwards first, then both steps. It keeps the patient's value.
#
# A trap: `loss_g.backward()` adds to `d.grad` too, so `opt_d.step()` would use the sum of both losses' gradients.
# **Predict** the two rows.


# %%
def fought(g, d):
    return softplus((d * g * noise).sum()) + softplus(-(d * real).sum())


for inputs in (None, "g"):
    g, d, opt_g, opt_d = start()
    fake = g * noise
    loss_d = softplus((d * fake.detach()).sum()) + softplus(-(d * real).sum())
    before = softplus(-(d * fake).sum())
    loss_d.backward()
    before.backward(inputs=[g] if inputs else None)
    right = agree(d.grad, slope(lambda d, g=g: fought(g.detach(), d), d))
    print("inputs:", inputs, "· same value", agree(before, fooled(*start()[:2])), "· d.grad right", right)
    opt_d.step()
    opt_g.step()

# %% [markdown]
# `backward(inputs=[g])` writes to `g.grad` and to nothing else.
#
# *Misconception* **M09**: “each backward overwrites `.grad`”. It adds.

# %% [markdown]
# ## 5 · Patient 4: a hidden state
#
# *“A recurrent network over a long text, batch by batch. The first batch works.”*
#
# **Predict** the outcome. If something goes wrong: in which round of the loop?

# %%
text = torch.tensor([[1.0, -1.0], [0.5, 2.0], [-1.0, 1.0]], device=device)
w = torch.tensor([[0.5, -0.3], [0.2, 0.8]], requires_grad=True, device=device)
optimizer = torch.optim.SGD([w], lr=0.1)
h = torch.tensor([0.1, 0.2], device=device)
with contextlib.suppress(RuntimeError), seegrad.record() as patient_4:
    for batch in text:
        h = torch.tanh(batch + h @ w)
        loss = h.pow(2).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

seegrad.show(patient_4, ask="outcome")

# %%
advice = "Specify retain_graph=True"
print(patient_4.error is not None and advice in patient_4.error.text)
chart(patient_4)

# %% [markdown]
# The second backward walks through `h` into the first round, whose saved tensors are freed. The nodes are still
# there; what they saved isn't.
#
# | torch | its advice |
# |---|---|
# | 1.6 to 1.8 | `Specify retain_graph=True when calling backward the first time.` |
# | yours | `Specify retain_graph=True if you need to backward through the graph a second time` |

# %% [markdown]
# ### The advice, followed
#
# So thousands of answers on the web say `retain_graph=True`. **Predict:** which line does the damage now?

# %%
# %%see --ask culprit
with contextlib.suppress(RuntimeError):
    w = torch.tensor([[0.5, -0.3], [0.2, 0.8]], requires_grad=True, device=device)
    optimizer = torch.optim.SGD([w], lr=0.1)
    h = torch.tensor([0.1, 0.2], device=device)
    for batch in text:
        h = torch.tanh(batch + h @ w)
        loss = h.pow(2).sum()
        optimizer.zero_grad()
        loss.backward(retain_graph=True)
        optimizer.step()

# %% [markdown]
# The old rounds are kept now, and they need the old `w`. The step has overwritten it.
#
# The advice answers a question that nobody asked: you don't *want* to go through the graph a second time.
#
# *Misconception* **M10**: “`retain_graph` is the cure”.

# %% [markdown]
# ### Our repair
#
# **Repair** yours first, then open ours.


# %%
def round_loss(w, h, batch):
    return torch.tanh(batch + h @ w).pow(2).sum()


w = torch.tensor([[0.5, -0.3], [0.2, 0.8]], requires_grad=True, device=device)
optimizer = torch.optim.SGD([w], lr=0.1)
h = torch.tensor([0.1, 0.2], device=device)
for batch in text:
    carried = h
    h = h.detach()
    print("same numbers:", torch.equal(h, carried), end=" · ")
    want = slope(lambda w, h=h.double(), batch=batch.double(): round_loss(w, h, batch), w)
    h = torch.tanh(batch + h @ w)
    optimizer.zero_grad()
    h.pow(2).sum().backward()
    print("w.grad right:", agree(w.grad, want))
    optimizer.step()

# %% [markdown]
# Carry the numbers over, not the history. Each round's gradient is that of its own loss, with the old `h` as a constant.

# %% [markdown]
# ## 6 · Patient 5: small random weights
#
# *“I scale my weights, as the paper says. The optimiser refuses them.”*
#
# **Predict:** which tensors are leaves? Click them all.

# %%
# %%see --ask leaves
with contextlib.suppress(ValueError):
    raw = torch.tensor([0.5, -1.0], requires_grad=True, device=device)
    w = raw * 0.1
    optimizer = torch.optim.SGD([w], lr=0.1)

# %%
try:
    torch.optim.SGD([w], lr=0.1)
except ValueError as error:
    print(type(error).__name__, "non-leaf" in str(error))

print("scaled:", w.is_leaf, "· moved:", raw.to(torch.float64).is_leaf)

# %% [markdown]
# `w` is the result of `raw * 0.1`. It requires a gradient, but backward fills the `.grad` of leaves alone, so no optimiser
# could ever move it. `.to("cuda")` does the same to you, as `.to(torch.float64)` does here: what is moved is a result.
#
# *Misconception* **M01**: “`requires_grad` fills `.grad`”.

# %% [markdown]
# This patient is lucky: it is refused. Its twin gives `raw` to the optimiser. No error: **predict** whether `w`
# changes in three steps.

# %%
raw = torch.tensor([0.5, -1.0], requires_grad=True, device=device)
w = raw * 0.1
optimizer = torch.optim.SGD([raw], lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    loss = (raw * 0.1).pow(2).sum()
    loss.backward()
    optimizer.step()

print("raw", raw.detach())
print("w  ", w.detach())

# %% [markdown]
# `raw` learns, `w` is the product from before. Whoever uses `w` later uses the untrained weights.
#
# ### Our repair
#
# **Repair** yours first, then open ours.

# %%
start_at = torch.tensor([0.5, -1.0], device=device)
trained = (start_at * 0.1).requires_grad_()
optimizer = torch.optim.SGD([trained], lr=0.1)
trained.pow(2).sum().backward()

print("same value: ", agree(trained, w), "· leaf", trained.is_leaf)
print("grad right: ", agree(trained.grad, slope(lambda w: w.pow(2).sum(), trained)))
optimizer.step()
print("it moved:   ", not agree(trained, w))

# %% [markdown]
# Scale first, then ask for gradients. The values stay the same, and `w` is a leaf.

# %% [markdown]
# ## 7 · Patient 6: a faster optimiser
#
# *“Two tasks, one network, one forward for both. With `fused=True` it trains faster, and a little worse.”*
#
# **Predict** the outcome.

# %%
u = torch.tensor(2.0, requires_grad=True, device=device)
v = torch.tensor(0.5, requires_grad=True, device=device)
optimizer = torch.optim.SGD([u, v], lr=0.1, fused=True)
with seegrad.record() as rec:
    first = u * torch.tanh(v)
    second = u * torch.sigmoid(v)
    first.backward()
    optimizer.step()
    optimizer.zero_grad()
    second.backward()

seegrad.show(rec, ask="outcome")

# %% [markdown]
# **Predict** the culprit. This cell is your workbench again.

# %%
# %%see --ask culprit
u = torch.tensor(2.0, requires_grad=True, device=device)
v = torch.tensor(0.5, requires_grad=True, device=device)
optimizer = torch.optim.SGD([u, v], lr=0.1, fused=True)
first = u * torch.tanh(v)
second = u * torch.sigmoid(v)
first.backward()
optimizer.step()
optimizer.zero_grad()
second.backward()

# %% [markdown]
# A step is a write. The fused one doesn't move the version, so the alarm stays off. The plain optimiser is your smoke
# detector: test with it, train with the fused one. What did `v` get?

# %%
old = torch.tensor([2.0, 0.5], device=device)
now = torch.stack([u, v]).detach()


def task(p):
    return p[0] * torch.sigmoid(p[1])


print("came           ", v.grad)
print("at old weights ", slope(task, old)[1].float())
print("at new weights ", slope(task, now)[1].float())

# %% [markdown]
# Neither: the new `u` times the old sigmoid's derivative. It is the gradient of no loss at all.
#
# *Misconception* **M06**: “no error means that the gradient is right”.
#
# **Change** `fused=True` to `fused=False` in the patient's cell and run it. What is different?

# %% [markdown]
# ### Running statistics
#
# BatchNorm writes its running statistics in every training forward. **Predict:** is `x.grad` right?

# %%
batch_norm = nn.functional.batch_norm
x = torch.tensor([[1.0, 3.0], [5.0, 9.0]], requires_grad=True, device=device)
mean, var = torch.zeros(2, device=device), torch.ones(2, device=device)
with seegrad.record() as rec:
    calm = batch_norm(x, mean, var)
    live = batch_norm(x.detach(), mean, var, training=True)
    calm.sum().backward()

print("mean", mean, "version", mean._version)
print("x.grad", x.grad[0], "right:", 1 / (torch.ones(2, device=device) + 1e-5).sqrt())
chart(rec)

# %% [markdown]
# And a backup. **Predict** what `backup` holds:

# %%
weights = torch.tensor([1.0, 2.0], device=device)
backup = weights.data
copy = weights.detach().clone()
weights.data.fill_(7)

print("backup", backup, "copy", copy, "version", weights._version)

# %% [markdown]
# `.data` is a second name for the same bytes, and a write through it moves no version. *Misconception* **M05**.

# %% [markdown]
# ### Our repair
#
# **Repair** yours first, then open ours.

# %%
u = torch.tensor(2.0, requires_grad=True, device=device)
v = torch.tensor(0.5, requires_grad=True, device=device)
optimizer = torch.optim.SGD([u, v], lr=0.1, fused=True)
one, two = u * torch.tanh(v), u * torch.sigmoid(v)
(one + two).backward()


def both(p):
    return p[0] * torch.tanh(p[1]) + p[0] * torch.sigmoid(p[1])


print("same values:", agree(one, first), agree(two, second))
print("grads right:", agree(torch.stack([u.grad, v.grad]), slope(both, torch.stack([u, v]))))
optimizer.step()

# %% [markdown]
# Both backwards before the step, and their sum in one: the forward stays as it was.

# %% [markdown]
# ## 8 · Patient 7: an actor and its critic
#
# *“The actor learns something. The critic's loss never falls.”*
#
# **Predict:** which tensors will have a gradient after backward? Click them all.

# %%
state, reward = torch.tensor([1.0, 2.0], device=device), 1.0
actor = torch.tensor([0.5, -0.3], requires_grad=True, device=device)
critic = torch.tensor([0.2, 0.8], requires_grad=True, device=device)
with seegrad.record() as patient_7:
    value = (critic * state).sum()
    gain = reward - value.detach()
    actor_loss = -(actor * state).log_softmax(0)[0] * gain
    critic_loss = gain.pow(2)
    (actor_loss + critic_loss).backward()

seegrad.show(patient_7, ask="keeps")

# %%
print("critic.grad", critic.grad)
chart(patient_7)

# %% [markdown]
# The `.detach()` is meant for the actor: its loss must not teach the critic. But it stands in the line that both
# share, so it cuts the critic's own loss too.
#
# Torch can't know what you meant. Only a picture shows the missing wire.

# %% [markdown]
# ### Where to cut
#
# Three places for one word. The critic should learn from `critic_loss` alone. **Predict** which row is right.


# %%
def advantage(critic):
    return reward - (critic * state).sum()


def teach(for_actor, for_critic):
    actor = torch.tensor([0.5, -0.3], requires_grad=True, device=device)
    critic = torch.tensor([0.2, 0.8], requires_grad=True, device=device)
    gain = advantage(critic)
    actor_loss = -(actor * state).log_softmax(0)[0] * for_actor(gain)
    loss = actor_loss + for_critic(gain).pow(2)
    loss.backward()
    return loss, critic.grad


keep, cut = (lambda t: t), (lambda t: t.detach())
want = slope(lambda critic: advantage(critic).pow(2), critic)
for name, both in {"everywhere": (cut, cut), "nowhere": (keep, keep), "actor": (cut, keep)}.items():
    loss, grad = teach(*both)
    right = grad is not None and agree(grad, want)
    print(f"{name:10}", "same value", agree(loss, actor_loss + critic_loss), "· right", right, "·", grad)

# %% [markdown]
# All three compute the same loss, to the last digit. They differ only in the graph.
#
# So both checks are needed: the values say that you didn't break what it computes, the gradient says that you
# repaired what it learns.

# %% [markdown]
# ## 9 · Check yourself
#
# Two walk-ins, no help. Patient 8: *“If the loss rises, we go back to the best weights.”* Find the culprit, then
# repair it in the cell.

# %%
layer = nn.Linear(2, 1, bias=False, device=device)
nn.init.ones_(layer.weight)
best = {"weight": torch.tensor([[0.5, -0.5]], device=device)}

# %%
# %%see --ask culprit
x = torch.tensor([[1.0, 2.0]], requires_grad=True, device=device)
with contextlib.suppress(RuntimeError):
    loss = layer(x).pow(2).sum()
    if loss >= 0:
        layer.load_state_dict(best)
    loss.backward()

# %% [markdown]
# Patient 9: *“We add up the loss for the log.”* **Predict** the outcome.

# %%
# %%see --ask outcome
with contextlib.suppress(RuntimeError):
    w = torch.tensor([1.0, 2.0], requires_grad=True, device=device)
    total = torch.tensor(0.0, device=device)
    for x in torch.tensor([[1.0, -1.0], [0.5, 2.0]], device=device):
        loss = (w * x).sum().tanh()
        total = total + loss
        total.backward()

# %% [markdown]
# - Patient 8: `load_state_dict` copies into the weights, in place. Move it below `backward()`.
# - Patient 9: the sum keeps each round's graph. Call `loss.backward()`, and add `loss.detach()`.

# %%
w = torch.tensor([1.0, 2.0], requires_grad=True, device=device)
total = torch.tensor(0.0, device=device)
for x in torch.tensor([[1.0, -1.0], [0.5, 2.0]], device=device):
    loss = (w * x).sum().tanh()
    total = total + loss.detach()
    w.grad = None
    loss.backward()
    print("w.grad right:", agree(w.grad, slope(lambda w, x=x.double(): (w * x).sum().tanh(), w)))

# %% [markdown]
# ## 10 · Discharge
#
# | found | treatment |
# |---|---|
# | a write hits what was saved | a new tensor, or the write after backward |
# | a step between forward and backward | forward again, or all backwards first |
# | a graph from an earlier round | `detach` what is carried over |
# | a result in the optimiser | scale or move first, then `requires_grad_()` |
# | a cut too early | `detach` at the one place that must not learn |
#
# **Now the assignment:** open `release/en/08_clinic`. Four more patients are waiting, about 60 minutes.
