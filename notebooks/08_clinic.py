# %% [markdown]
# # 08 · The clinic
#
# *About 55 minutes with the repairs, without the optional parts.* Programs from real projects come in as patients, each
# with a complaint: what its owner says about it. You are the doctor, and the picture is your X-ray.
#
# After it you can
#
# - name a suspect by reading, before you run anything;
# - confirm it with `%%see`;
# - repair it with the smallest change, and prove two things: the gradient is right, and the program still computes
#   what it computed.

# %% [markdown]
# Every cell uses `device`, which the kernel sets (chapter 00).
#
# A `NameError`, or `Cell magic … not found`? The kernel was restarted, or a cell was skipped: choose **Kernel ▸ Restart
# Kernel and Run up to Selected Cell**.
#
# What is called *optional* is for another day, as in each chapter.

# %%
import torch
from IPython.display import Markdown
from torch import nn

import seegrad

device = seegrad.device()

# %load_ext seegrad

# %% [markdown]
# ## Asked again
#
# Two questions on earlier chapters, each about a program that you haven't seen. What you predicted wrongly comes first.

# %%
seegrad.ask_again("08")

# %% [markdown]
# ## 1 · How to treat a patient
#
# Each patient is seen in four steps:
#
# 1. **Read.** Who saves? Who writes? Commit to a suspect.
# 2. **See.** The picture asks for your suspect, then shows the truth.
# 3. **Repair.** Edit the patient's cell and run it again, until the complaint is gone. A mended cell asks once more: then
#    answer “no line”. Compare with ours.
# 4. **Check.** Same values? Right gradient?
#
# A cell that asks keeps torch's error back, if there is one, for the picture's last step.

# %% [markdown]
# For the last step, each repair of ours ends with a line that tells. Copy it for yours, with your loss in the place of
# `…`: `agree(w.grad, slope(lambda w: …, w))`. It has to compute with doubles, as in `x.double()`.

# %% [markdown]
# Is a gradient right? `slope` asks the function itself, not autograd: it makes one element of `x` a little larger, then
# a little smaller, and divides the difference of the two results by that of the two inputs. That is a *finite
# difference*. `agree` compares two tensors, and `finding` says what a recording found.
#
# **Predict** what `slope` shows for $x^3$ at 1 and at 2.


# %%
def slope(f, x, h=1e-6):
    x = x.detach().double()
    steps = h * torch.eye(x.numel(), dtype=x.dtype, device=x.device)
    rises = [f(x + step.view_as(x)) - f(x - step.view_as(x)) for step in steps]
    return torch.stack(rises).view_as(x) / (2 * h)


def agree(came, want):
    return torch.allclose(came.detach().double(), want.detach().double(), atol=1e-5)


def finding(rec):
    return Markdown("".join(d.message() for d in rec.diagnoses[:1]) or "✓")


x = torch.tensor([1.0, 2.0], device=device)
print(slope(lambda x: x.pow(3).sum(), x))

# %% [markdown]
# ## 2 · Patient 1: a skip connection
#
# *“A residual block. It ran in evaluation for weeks. Training raises.”*
#
# **Predict:** which line did the damage? Click it.

# %%
# %%see --ask culprit
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
# *Misconception* **M11**: “`x += y` is short for `x = x + y`”.

# %% [markdown]
# **Change** the cell below until no error comes. It is the same patient: write what you like, `%%see` draws it.

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
# ### Optional: a colleague's proposal
#
# A colleague proposes `out.data += branch`. **Predict** the outcome.

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
# It runs, and computes the same loss. But the gradient of `w` is wrong: `tanh` reads what was written over its result.
# And `v` gets nothing at all, since no edge leads from the loss to `branch`.
#
# The gradient of `v`:

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
# ## 3 · Optional: patient 2, an activation that saves memory
#
# *“Somebody changed one word of my model, as a blog recommends, to save memory. My own code has no in-place
# operation.”*
#
# **Predict:** if a line does damage, which one? Click it. Then mend it in the same cell.

# %%
# %%see --ask culprit --as rec
x = torch.tensor([0.5, -1.0], device=device)
w = torch.tensor([1.0, 2.0], requires_grad=True, device=device)
activation = nn.ReLU(inplace=True)
scores = torch.tanh(w * x)
kept = activation(scores)
loss = kept.sum()
loss.backward()

# %%
finding(rec)

# %% [markdown]
# `tanh` computes its derivative from its own result, and the ReLU has overwritten it.
#
# **Predict** which of these six may stand before `nn.ReLU(inplace=True)`.

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
# So `inplace=True` isn't forbidden. It does no harm after an operation that saves its *input*, and it raises after one that
# saves its *result*. That is why an in-place ReLU after a convolution and a BatchNorm is everywhere, and works.
#
# *Misconceptions* **M03**, “any in-place write raises”, and **M12**, “my code has no in-place operation”.

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
# *“Discriminator `d`, generator `g`. A tutorial of 2018 has this code, and it ran there. Here it raises.”*
#
# (`softplus(s)` is $\log(1 + e^s)$, a `relu` with a round corner: the more negative `s` is, the smaller is the loss.)
#
# **Predict:** which line did the damage? Note who saved the value that it hit.

# %%
# %%see --ask culprit
softplus = nn.functional.softplus
g = torch.tensor([0.5, -0.3], requires_grad=True, device=device)
d = torch.tensor([0.2, 0.8], requires_grad=True, device=device)
opt_g, opt_d = torch.optim.SGD([g], lr=0.5), torch.optim.SGD([d], lr=0.5)
real, noise = torch.tensor([1.0, 2.0], device=device), torch.tensor([1.0, -1.0], device=device)

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
# An optimiser's step is an in-place write. *Misconception* **M12**: “my code has no in-place operation”.

# %% [markdown]
# ### Two repairs, two meanings
#
# What should `g` learn against: the `d` from *before* its step, or from *after* it? Both can be meant, and each has a
# repair of its own.
#
# **Repair** the patient's cell so that `g` learns against the `d` from *after*, then open ours.

# %%
def start():
    g = torch.tensor([0.5, -0.3], requires_grad=True, device=device)
    d = torch.tensor([0.2, 0.8], requires_grad=True, device=device)
    return g, d, torch.optim.SGD([g], lr=0.5), torch.optim.SGD([d], lr=0.5)


def fooled(g, d):
    return softplus(-(d * g * noise).sum())


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
# *After*: the generator's forward runs below the step. It computes another loss than the patient did.

# %% [markdown]
# ### Optional: against the `d` from before
#
# To keep the patient's value, both steps have to come below both backwards. That alone may not do: the generator's loss
# is made from `d` too.
#
# Below, its backward is once a plain `backward()`, once `backward(inputs=[g])`, which fills the `.grad` of `g` and of
# nothing else (chapter 03). **Predict** for both: is `d.grad` right when `opt_d` takes its step?
#
# (`fought` is the discriminator's loss; `right` compares `d.grad` with its slope by `d`.)

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
# A plain `backward()` adds the gradient of the generator's loss to `d.grad`, and `opt_d.step()` uses the sum. So the
# repair is: all backwards first, each into its own weights, then the steps.
#
# *Misconception* **M09**: “each backward overwrites `.grad`”. It adds.

# %% [markdown]
# ### Optional: why it ran in 2018
#
# Until torch 1.4 the optimisers wrote through `.data`, past the alarm.
#
# Below, a small step is added to `d` through `.data`. **Predict:** is `g.grad` that of the old `d`, of the new `d`, or of
# neither?

# %%
g, d, opt_g, opt_d = start()
old, loss = d.detach().clone(), fooled(g, d)
d.data += torch.tensor([0.15, 0.15], device=device)
loss.backward()
print("came ", g.grad)
print("old d", slope(lambda g: fooled(g, old), g).float())
print("new d", slope(lambda g: fooled(g, d.detach()), g).float())

# %% [markdown]
# Of neither: `softplus` saved its input, which was computed with the old `d`. The product saved `d` itself, and reads the
# new numbers there. So the tutorial's gradients were wrong, and nothing said so. Since torch 1.5 torch does.

# %% [markdown]
# ## 5 · Patient 4: a hidden state
#
# *“A recurrent network over a text, batch by batch. I tried it with one batch only. Will it do for a long text?”*
#
# You have met its kind in chapter 07, section 4. **Predict** the outcome. If something goes wrong, in which round of the
# loop does it?

# %%
# %%see --ask outcome --as rec
text = torch.tensor([[1.0, -1.0], [0.5, 2.0], [-1.0, 1.0]], device=device)
w = torch.tensor([[0.5, -0.3], [0.2, 0.8]], requires_grad=True, device=device)
optimizer = torch.optim.SGD([w], lr=0.1)
h = torch.tensor([0.1, 0.2], device=device)
for batch in text:
    h = torch.tanh(batch + h @ w)
    loss = h.pow(2).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# %%
finding(rec)

# %% [markdown]
# The second backward walks through `h` into the first round, whose saved tensors are freed. The Nodes are still there;
# what they saved isn't.
#
# Torch's error ends with advice: “Specify retain_graph=True”. With it the old rounds are kept, and they need the old `w`,
# which the step has overwritten: the next error (chapter 07). This program doesn't want to go through one graph twice.
#
# *Misconception* **M10**: “backward destroys the graph, and `retain_graph` mends it”.

# %% [markdown]
# ### Our repair
#
# **Repair** yours first, then open ours.
#
# (`want` is the slope of one round's loss by `w`, with the carried `h` as a constant.)

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
# ## 6 · Optional: patient 5, small random weights
#
# *“I scale my weights, as the paper says, and hand them to the optimiser. I can't train them.”*
#
# **Predict:** which tensors are leaves? Click them all.

# %%
# %%see --ask leaves
raw = torch.tensor([0.5, -1.0], requires_grad=True, device=device)
w = raw * 0.1

# %% [markdown]
# Is `w` a leaf? Is `raw` one, when it has been moved to another dtype? What does the optimiser say to `w`? Run it:

# %% tags=["raises-exception"]
print("scaled:", w.is_leaf, "· moved:", raw.to(torch.float64).is_leaf)
torch.optim.SGD([w], lr=0.1)

# %% [markdown]
# `w` is the result of `raw * 0.1`. It needs a gradient, but by itself backward fills the `.grad` of leaves alone, so an
# optimiser could never move it. `.to("cuda")` makes a result in the same way as `.to(torch.float64)` does here.
#
# *Misconception* **M01**: “`requires_grad=True` fills `.grad`”.

# %% [markdown]
# This patient's twin gives `raw` to the optimiser. **Predict** whether `w` changes in three steps.

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
# No error. `raw` learns, and `w` is the product from before: whoever uses `w` later uses the untrained weights.
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
# *“Two tasks, one network, one forward for both. I set `fused=True` to train faster. Does it still learn the same?”*
#
# **Predict:** if a line does damage, which one? Click it. Then mend it in the same cell.

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
# A step is a write, and here it comes between forward and backward. The fused one moves no version, so no error comes.
#
# What did the patient's `v` get, and what would be right? Two finite differences tell:


# %%
def task(p):
    return p[0] * torch.sigmoid(p[1])


u = torch.tensor(2.0, requires_grad=True, device=device)
v = torch.tensor(0.5, requires_grad=True, device=device)
optimizer = torch.optim.SGD([u, v], lr=0.1, fused=True)
first, second = u * torch.tanh(v), u * torch.sigmoid(v)
old = torch.stack([u, v]).detach()
first.backward()
optimizer.step()
optimizer.zero_grad()
second.backward()
now = torch.stack([u, v]).detach()

print("came           ", v.grad)
print("at old weights ", slope(task, old)[1].float())
print("at new weights ", slope(task, now)[1].float())

# %% [markdown]
# Neither of the two: the new `u`, times the sigmoid's derivative at the old `v`. No loss has this gradient.
#
# *Misconception* **M06**: “no error means that the gradient is right”.

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
#
# With `fused=False` torch raises instead: the plain step moves the version. So try a new training loop with the plain
# optimiser first.

# %% [markdown]
# ### A backup
#
# **Predict** what `backup` and `copy` hold:

# %%
weights = torch.tensor([1.0, 2.0], device=device)
backup = weights.data
copy = weights.detach().clone()
weights.data.fill_(7)

print("backup", backup, "copy", copy, "version", weights._version)

# %% [markdown]
# `.data` is a second name for the same bytes, and a write through it moves no version. *Misconception* **M05**: “`.data`
# is `.detach()`, and both copy”.

# %% [markdown]
# ## 8 · Patient 7: running statistics
#
# *“One layer of BatchNorm, called as in a test, then as in training. Then one backward.”*
#
# BatchNorm keeps two running statistics: here `mean` is 0 and `var` is 1, so `x` goes through almost unchanged. A call
# with `training=True` brings them up to date: `mean` ← 0.9 `mean` + 0.1 times the batch's mean, and so for `var`. This
# patient stays on the CPU, whichever kernel you have.
#
# **Predict** the outcome.

# %%
# %%see --ask outcome --as rec
batch_norm = nn.functional.batch_norm
x = torch.tensor([[1.0, 3.0], [5.0, 9.0]], requires_grad=True, device="cpu")
mean, var = torch.zeros(2, device="cpu"), torch.ones(2, device="cpu")
tested = batch_norm(x, mean, var)
trained = batch_norm(x.detach(), mean, var, training=True)
tested.sum().backward()

# %%
zeros, ones = torch.zeros(2, device="cpu").double(), torch.ones(2, device="cpu").double()

print("mean ", mean, "version", mean._version)
print("came ", x.grad[0])
print("slope", slope(lambda x: batch_norm(x, zeros, ones).sum(), x)[0].float())
finding(rec)

# %% [markdown]
# No error, and a wrong gradient. The first call had saved `mean` and `var`; the second one moved them towards the
# batch's statistics, in place, and their versions didn't move. So backward divides by the new deviation. The slope at
# the old statistics is almost 1.

# %% [markdown]
# ## 9 · Optional: patient 8, an actor and its critic
#
# *“The actor learns something, but the agent gets no better.”*
#
# **Predict:** which tensors will have a gradient after backward? Click them all.

# %%
# %%see --ask keeps --as rec
state, reward = torch.tensor([1.0, 2.0], device=device), 1.0
actor = torch.tensor([0.5, -0.3], requires_grad=True, device=device)
critic = torch.tensor([0.2, 0.8], requires_grad=True, device=device)
value = (critic * state).sum()
gain = reward - value.detach()
actor_loss = -(actor * state).log_softmax(0)[0] * gain
critic_loss = gain.pow(2)
(actor_loss + critic_loss).backward()

# %%
print("critic.grad", critic.grad)
finding(rec)

# %% [markdown]
# The `.detach()` stands in the line that both losses share, so no edge leads to `critic` from either of them.
#
# Torch can't know what you meant, and raises nothing. You see it if you look: at the edge that is missing in the picture,
# at `critic.grad`, or at the slope.

# %% [markdown]
# ### Where to cut
#
# `.detach()` may stand in both losses, in none, or in one of them. The critic should learn from `critic_loss` and nothing
# else. **Predict** for which of three programs its gradient is right: `.detach()` in both, in none, or in the actor's.
#
# (`want` is the slope of `critic_loss` by `critic`; `cut` and `keep` detach a loss's part, or don't.)

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
for name, both in {"in both": (cut, cut), "in none": (keep, keep), "actor's": (cut, keep)}.items():
    loss, grad = teach(*both)
    right = grad is not None and agree(grad, want)
    print(f"{name:10}", "same value", agree(loss, actor_loss + critic_loss), "· right", right, "·", grad)

# %% [markdown]
# In the actor's alone: its loss must not teach the critic, and the critic's own must. All three compute the same loss, to
# the last digit; they differ only in the graph.
#
# So both checks are needed: the values say that you didn't break what it computes, the gradient says that you
# repaired what it learns.

# %% [markdown]
# ## 10 · Optional: check yourself
#
# Two more patients, without help. Patient 9: *“If the loss rises, we go back to the best weights.”*
#
# Here `x` stands for the output of earlier layers, so it needs a gradient. **Predict** the culprit: click it.

# %%
layer = nn.Linear(2, 1, bias=False, device=device)
nn.init.ones_(layer.weight)
best = {"weight": torch.tensor([[0.5, -0.5]], device=device)}

# %%
# %%see --ask culprit
x = torch.tensor([[1.0, 2.0]], requires_grad=True, device=device)
loss = layer(x).pow(2).sum()
if loss >= 0:
    layer.load_state_dict(best)
loss.backward()

# %% [markdown]
# Patient 10: *“We add up the loss for the log.”* **Predict** the outcome.

# %%
# %%see --ask outcome
w = torch.tensor([1.0, 2.0], requires_grad=True, device=device)
total = torch.tensor(0.0, device=device)
for x in torch.tensor([[1.0, -1.0], [0.5, 2.0]], device=device):
    loss = (w * x).sum().tanh()
    total = total + loss
    total.backward()

# %% [markdown]
# ### Our repair
#
# **Repair** both in their cells first, then open our repair of patient 10.

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
# - Patient 9: the layer saved its weights for the gradient of `x`, and `load_state_dict` copies into them, in place. Move
#   it below `backward()`.
# - Patient 10: the sum keeps each round's graph. Call `loss.backward()`, and add `loss.detach()`.

# %% [markdown]
# ## 11 · Complaint, suspect, treatment
#
# | complaint | suspects |
# |---|---|
# | “modified by an inplace operation” | `+=`, `x[i] = …`, `inplace=True`, `optimizer.step()` |
# | “a second time” | a graph that reaches back into an earlier step |
# | “non-leaf” | a parameter that is a result |
# | no error, a wrong gradient | `.data`, numpy, a fused optimiser, BatchNorm |
# | no error, `.grad` is `None` | `detach`, `item`, `no_grad`, not a leaf |
#
# | found | treatment |
# |---|---|
# | a write hits what was saved | a new tensor, or the write after backward |
# | a step between forward and backward | forward again, or all backwards first, each into its own weights |
# | a graph from an earlier round | `detach` what is carried over |
# | a result in the optimiser | scale or move first, then `requires_grad_()` |
# | a cut too early | `detach` at the one place that must not learn |
#
# **Now the assignment:** open [`08_clinic`](../../release/en/08_clinic/08_clinic.ipynb).
# Four more patients are waiting, about 70 minutes.
