"""Training programs that are right: nothing above a note, and a note only for a leaf that got no gradient at all."""

from __future__ import annotations

import copy

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # torch's own convention
from torch.optim.swa_utils import AveragedModel
from torch.utils.checkpoint import checkpoint

from tests.data.programs import program


def mlp(out=1):
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, out))


def grads(*modules):
    return [p.grad for module in modules for p in module.parameters()]


@program()
def t_hidden_state_detached():
    cell = nn.LSTMCell(2, 3)
    opt = torch.optim.SGD(cell.parameters(), lr=0.1)
    h, c = torch.zeros(4, 3), torch.zeros(4, 3)
    for x in torch.randn(3, 4, 2):
        h, c = h.detach(), c.detach()
        h, c = cell(x, (h, c))
        opt.zero_grad()
        (h + c).pow(2).mean().backward()
        opt.step()
    return h


@program()
def t_truncated_backpropagation():
    cell, head = nn.GRUCell(2, 3), nn.Linear(3, 1)
    opt = torch.optim.Adam([*cell.parameters(), *head.parameters()], lr=0.01)
    h, loss = torch.zeros(4, 3), 0.0
    for t, x in enumerate(torch.randn(6, 4, 2)):
        h = cell(x, h)
        loss = loss + head(h).pow(2).mean()
        if t % 3 == 2:
            opt.zero_grad()
            loss.backward()
            opt.step()
            h, loss = h.detach_(), 0.0
    return h


@program()
def t_gan_with_a_detach():
    generator, discriminator = nn.Linear(2, 3), nn.Linear(3, 1)
    opt_g = torch.optim.Adam(generator.parameters(), lr=0.01)
    opt_d = torch.optim.Adam(discriminator.parameters(), lr=0.01)
    for real in torch.randn(2, 4, 3):
        fake = generator(torch.randn(4, 2))
        opt_d.zero_grad()
        (F.softplus(discriminator(fake.detach())).mean() + F.softplus(-discriminator(real)).mean()).backward()
        opt_d.step()
        opt_g.zero_grad()
        F.softplus(-discriminator(fake)).mean().backward()
        opt_g.step()
    return grads(generator, discriminator)


@program()
def t_critic_clipped_after_its_step():
    critic = mlp()
    opt = torch.optim.RMSprop(critic.parameters(), lr=0.01)
    for real, fake in torch.randn(3, 2, 4, 3):
        opt.zero_grad()
        (critic(fake).mean() - critic(real).mean()).backward()
        opt.step()
        for p in critic.parameters():
            p.data.clamp_(-0.01, 0.01)
    return list(critic.parameters())


@program()
def t_gradient_penalty():
    critic = mlp()
    mixed = torch.randn(4, 3, requires_grad=True)
    (slope,) = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)
    ((slope.norm(dim=1) - 1).pow(2).mean() + critic(mixed).mean()).backward()
    return grads(critic)


@program()
def t_target_network_under_no_grad():
    online, target = mlp(2), mlp(2)
    opt = torch.optim.SGD(online.parameters(), lr=0.1)
    for states in torch.randn(2, 5, 3):
        with torch.no_grad():
            wanted = 1 + 0.9 * target(states).max(1).values
        loss = F.mse_loss(online(states).gather(1, torch.zeros(5, 1, dtype=torch.long))[:, 0], wanted)
        opt.zero_grad()
        loss.backward()
        opt.step()
        for slow, fast in zip(target.parameters(), online.parameters(), strict=True):
            slow.data.mul_(0.9).add_(fast.data, alpha=0.1)
    return grads(online)


@program()
def t_actor_critic_with_a_detach():
    actor, critic = nn.Linear(4, 2), nn.Linear(4, 1)
    states, returns = torch.randn(6, 4), torch.randn(6)
    advantage = returns - critic(states).squeeze(-1)
    log_prob = F.log_softmax(actor(states), dim=-1)[:, 0]
    advantage.pow(2).mean().backward()
    (-(log_prob * advantage.detach()).mean()).backward()
    return grads(actor, critic)


@program()
def t_ppo_epochs():
    policy = nn.Linear(4, 2)
    opt = torch.optim.SGD(policy.parameters(), lr=0.1)
    states, actions, gain = torch.randn(6, 4), torch.randint(0, 2, (6, 1)), torch.randn(6, 1)
    with torch.no_grad():
        old = F.log_softmax(policy(states), dim=-1).gather(1, actions)
    for _ in range(3):
        ratio = (F.log_softmax(policy(states), dim=-1).gather(1, actions) - old).exp()
        loss = -torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
        opt.step()
    return grads(policy)


@program()
def t_gradient_accumulation():
    model = mlp()
    opt = torch.optim.AdamW(model.parameters(), lr=0.01)
    for i, x in enumerate(torch.randn(4, 2, 3)):
        (model(x).pow(2).mean() / 2).backward()
        if i % 2:
            opt.step()
            opt.zero_grad(set_to_none=True)
    return list(model.parameters())


@program()
def t_zero_grad_without_none():
    model = mlp()
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    for x in torch.randn(3, 2, 3):
        loss = model(x).abs().mean()
        opt.zero_grad(set_to_none=False)
        loss.backward()
        opt.step()
    return grads(model)


@program()
def t_zero_grad_between_forward_and_backward():
    w = torch.randn(3, requires_grad=True)
    for _ in range(3):
        loss = (w * w).sum()
        if w.grad is not None:
            w.grad.zero_()
        loss.backward()
    return w.grad


@program()
def t_moving_average_after_the_step():
    model = mlp()
    average = copy.deepcopy(model).requires_grad_(False)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in torch.randn(2, 4, 3):
        opt.zero_grad()
        model(x).pow(2).mean().backward()
        opt.step()
        with torch.no_grad():
            for slow, fast in zip(average.parameters(), model.parameters(), strict=True):
                slow.lerp_(fast, 0.1)
    return list(average.parameters())


@program()
def t_averaged_model_after_the_step():
    model = mlp()
    average, opt = AveragedModel(model), torch.optim.SGD(model.parameters(), lr=0.1)
    for x in torch.randn(2, 4, 3):
        opt.zero_grad()
        model(x).pow(2).mean().backward()
        opt.step()
        average.update_parameters(model)
    return list(average.parameters())


@program()
def t_step_called_twice():
    model = mlp()
    opt = torch.optim.Adam(model.parameters(), lr=0.01)
    model(torch.randn(2, 3)).sum().backward()
    opt.step()
    opt.step()
    return list(model.parameters())


@program()
def t_retain_graph_with_clipping():
    model = mlp()
    out = model(torch.randn(2, 3))
    out.mean().backward(retain_graph=True)
    nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    out.pow(2).mean().backward()
    nn.utils.clip_grad_value_(model.parameters(), 0.05)
    return grads(model)


@program()
def t_frozen_backbone():
    backbone, head = mlp(4), nn.Linear(4, 2)
    for p in backbone.parameters():
        p.requires_grad_(False)
    opt = torch.optim.SGD(head.parameters(), lr=0.1)
    F.cross_entropy(head(backbone(torch.randn(3, 3))), torch.tensor([0, 1, 0])).backward()
    opt.step()
    return grads(head)


@program()
def t_evaluation_between_the_steps():
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(inplace=True), nn.Dropout(0.3), nn.Linear(4, 1))
    opt = torch.optim.Adam(model.parameters(), lr=0.01)
    total = 0.0
    for x in torch.randn(2, 5, 3):
        model.train()
        loss = model(x).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item()
        model.eval()
        with torch.no_grad():
            total += float(model(x).mean())
    return total


@program()
def t_running_loss_detached():
    model = mlp()
    total = torch.zeros(())
    for x in torch.randn(3, 2, 3):
        loss = model(x).pow(2).mean()
        loss.backward()
        total += loss.detach()
    return total


@program()
def t_checkpoint_with_inplace_relu():
    block = nn.Sequential(nn.Linear(3, 3), nn.ReLU(inplace=True), nn.Linear(3, 3), nn.ReLU(inplace=True))
    x = torch.randn(2, 3, requires_grad=True)
    checkpoint(block, x, use_reentrant=False).sum().backward()
    checkpoint(block, x, use_reentrant=True).sum().backward()
    return x.grad, grads(block)


@program()
def t_checkpointed_lambda():
    layer = nn.Linear(3, 3)
    x = torch.randn(2, 3, requires_grad=True)
    checkpoint(lambda v: F.gelu(layer(v)), x, use_reentrant=True).sum().backward()
    return layer.weight.grad


@program()
def t_autocast_with_a_step():
    model, scaler_like = mlp(), 128.0
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in torch.randn(2, 4, 3):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(x).float().pow(2).mean() * scaler_like
        opt.zero_grad()
        loss.backward()
        for p in model.parameters():
            p.grad /= scaler_like
        opt.step()
    return grads(model)


@program()
def t_schedulers_and_groups():
    model = mlp()
    opt = torch.optim.AdamW([{"params": model[0].parameters(), "lr": 0.1}, {"params": model[2].parameters()}], lr=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=0.1, total_steps=4)
    for x in torch.randn(3, 2, 3):
        opt.zero_grad()
        model(x).pow(2).mean().backward()
        opt.step()
        schedule.step()
    return grads(model)


@program()
def t_lbfgs_closure():
    w = torch.tensor([1.0, -2.0], requires_grad=True)
    opt = torch.optim.LBFGS([w], max_iter=4)

    def closure():
        opt.zero_grad()
        loss = ((w - 3) ** 2).sum()
        loss.backward()
        return loss

    opt.step(closure)
    return w


@program()
def t_tied_weights():
    embed, decode = nn.Embedding(6, 4), nn.Linear(4, 6, bias=False)
    decode.weight = embed.weight
    opt = torch.optim.SGD(embed.parameters(), lr=0.1)
    for ids in torch.randint(0, 6, (2, 3)):
        opt.zero_grad()
        F.cross_entropy(decode(embed(ids)), ids).backward()
        opt.step()
    return embed.weight


@program()
def t_siamese_network():
    tower = mlp(4)
    a, b, c = torch.randn(3, 5, 3)
    F.triplet_margin_loss(tower(a), tower(b), tower(c)).backward()
    return grads(tower)


@program()
def t_embedding_with_max_norm_used_after_lookup():
    embed = nn.Embedding(5, 3, max_norm=0.5)
    found = embed(torch.tensor([1, 2]))
    (found @ embed.weight.T).logsumexp(1).sum().backward()
    return embed.weight.grad


@program()
def t_weights_restored_after_backward():
    model = mlp()
    best = copy.deepcopy(model.state_dict())
    for x in torch.randn(2, 4, 3):
        model(x).pow(2).mean().backward()
        model.load_state_dict(best)
    return grads(model)


@program()
def t_meta_learning_without_in_place():
    w = torch.randn(3, 1, requires_grad=True)
    x, y = torch.randn(4, 3), torch.randn(4, 1)
    (slope,) = torch.autograd.grad(F.mse_loss(x @ w, y), w, create_graph=True)
    F.mse_loss(x @ (w - 0.1 * slope), y).backward()
    return w.grad


@program()
def t_sharpness_aware_step_done_right():
    model = mlp()
    x = torch.randn(4, 3)
    model(x).pow(2).mean().backward()
    with torch.no_grad():
        steps = [0.05 * p.grad / (p.grad.norm() + 1e-9) for p in model.parameters()]
        for p, step in zip(model.parameters(), steps, strict=True):
            p.add_(step)
    model.zero_grad()
    model(x).pow(2).mean().backward()
    with torch.no_grad():
        for p, step in zip(model.parameters(), steps, strict=True):
            p.sub_(step)
    return grads(model)


@program()
def t_optimiser_in_backward():
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 1))
    optimisers = {p: torch.optim.SGD([p], lr=0.1, momentum=0.9) for p in model.parameters()}

    def update(p):
        optimisers[p].step()
        optimisers[p].zero_grad()

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(update)
    for _ in range(3):
        model(torch.ones(2, 3)).sum().backward()
    return [p.detach() for p in model.parameters()]


@program()
def t_backward_by_hand():
    """Backprop written by hand in a module, beside a head that autograd trains."""

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(3, 4) * 0.1)

        def forward(self, x):
            self.x = x
            return x @ self.weight.T

        def backward(self, grad_output):
            self.weight.grad = grad_output.T @ self.x
            return grad_output @ self.weight

    layer, head = Layer(), nn.Linear(3, 1)
    optimizer = torch.optim.SGD([*layer.parameters(), *head.parameters()], lr=0.1)
    for _ in range(3):
        x = torch.randn(8, 4)
        with torch.no_grad():
            inner = layer(x)
        inner.requires_grad_()
        loss = (head(inner) - x[:, :1]).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        with torch.no_grad():
            layer.backward(inner.grad)
        optimizer.step()
