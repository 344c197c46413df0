"""Training loops as people write them: optimisers, schedulers, adversaries, rewards, state carried over."""

from __future__ import annotations

import itertools

import torch
from torch import nn
from torch.optim import swa_utils
from torch.utils import data

from tests.data.transparency import whole


def fit(make, steps=3, **options):
    """(losses, module) of a small regression."""
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    optimiser = make(net.parameters(), **options)
    x, y, losses = torch.randn(8, 3), torch.randn(8, 1), []

    def closure():
        optimiser.zero_grad()
        loss = ((net(x) - y) ** 2).mean()
        loss.backward()
        losses.append(loss.item())
        return loss

    for _ in range(steps):
        optimiser.step(closure)
    return losses, net, optimiser.state_dict()["state"]


@whole
def w_optimisers_of_the_first_order():
    optim = torch.optim
    made = (optim.SGD, optim.Adagrad, optim.RMSprop, optim.Adadelta, optim.Rprop)
    return [fit(make, lr=0.01) for make in made], fit(optim.SGD, lr=0.1, momentum=0.9, nesterov=True)


@whole
def w_adams():
    optim = torch.optim
    return (
        fit(optim.Adam, foreach=False),
        fit(optim.AdamW, foreach=True),
        fit(optim.AdamW, fused=True),
        fit(optim.NAdam),
        fit(optim.Adam, amsgrad=True, weight_decay=0.1),
    )


@whole
def w_lbfgs():
    return fit(torch.optim.LBFGS, steps=2, max_iter=4, line_search_fn="strong_wolfe")


@whole
def w_differentiable_optimiser():
    x = torch.randn(3, requires_grad=True)
    weight = x.clone()
    weight.grad = weight.detach() * 2
    torch.optim.SGD([weight.detach().requires_grad_()], lr=0.1, differentiable=True).step()
    weight.sum().backward()
    return x.grad


@whole
def w_schedule_clip_and_average():
    net = nn.Linear(3, 1)
    optimiser = torch.optim.SGD(net.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 0.2, total_steps=5)
    average = swa_utils.AveragedModel(net, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.9))
    norms = []
    for _ in range(4):
        optimiser.zero_grad(set_to_none=False)
        net(torch.randn(5, 3)).square().sum().backward()
        norms.append(nn.utils.clip_grad_norm_(net.parameters(), 1.0))
        nn.utils.clip_grad_value_(net.parameters(), 0.5)
        optimiser.step()
        schedule.step()
        average.update_parameters(net)
    return norms, net, average, schedule.get_last_lr()


@whole
def w_accumulated_gradients():
    net = nn.Linear(3, 1)
    optimiser = torch.optim.Adam(net.parameters())
    for number, batch in enumerate(torch.randn(6, 2, 3)):
        (net(batch).square().mean() / 3).backward()
        if number % 3 == 2:
            optimiser.step()
            optimiser.zero_grad()
    return net, net.weight.grad


@whole
def w_adversaries():
    maker, judge = nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 4), nn.LeakyReLU(0.2), nn.Linear(4, 1))
    makers = torch.optim.Adam(maker.parameters(), lr=0.01)
    judges = torch.optim.Adam(judge.parameters(), lr=0.01)
    said = nn.BCEWithLogitsLoss()
    losses = []
    for _ in range(3):
        fake = maker(torch.randn(4, 2))
        judges.zero_grad()
        loss = said(judge(torch.randn(4, 2)), torch.ones(4, 1)) + said(judge(fake.detach()), torch.zeros(4, 1))
        loss.backward()
        judges.step()
        makers.zero_grad()
        fooled = said(judge(fake), torch.ones(4, 1))
        fooled.backward()
        makers.step()
        losses += [loss.item(), fooled.item()]
    return losses, maker, judge


@whole
def w_adversaries_in_the_wrong_order():
    maker, judge = nn.Linear(2, 2), nn.Linear(2, 1)
    judges = torch.optim.SGD(judge.parameters(), lr=0.01)
    fake = maker(torch.randn(4, 2))
    fooled = judge(fake).sigmoid().sum()
    judge(fake.detach()).sigmoid().sum().backward()
    judges.step()
    fooled.backward()


@whole
def w_actor_and_critic():
    actor, critic = nn.Linear(3, 2), nn.Linear(3, 1)
    optimiser = torch.optim.RMSprop([*actor.parameters(), *critic.parameters()], lr=0.01)
    state, logs, values, rewards = torch.randn(3), [], [], []
    for _ in range(4):
        policy = torch.distributions.Categorical(logits=actor(state))
        action = policy.sample()
        logs.append(policy.log_prob(action))
        values.append(critic(state))
        rewards.append(float(action))
        state = state * 0.9 + torch.randn(3) * 0.1
    back = torch.tensor([sum(rewards[i:]) for i in range(4)])
    advantage = back - torch.cat(values)
    loss = -(torch.stack(logs) * advantage.detach()).sum() + advantage.square().sum()
    loss.backward()
    optimiser.step()
    return loss, actor, critic


@whole
def w_state_carried_over():
    cell, out = nn.RNN(2, 3), nn.Linear(3, 1)
    optimiser = torch.optim.SGD(itertools.chain(cell.parameters(), out.parameters()), lr=0.1)
    hidden, losses = torch.zeros(1, 1, 3), []
    for _ in range(3):
        optimiser.zero_grad()
        states, hidden = cell(torch.randn(4, 1, 2), hidden)
        loss = out(states).square().mean()
        loss.backward()
        hidden = hidden.detach()
        optimiser.step()
        losses.append(loss.item())
    return losses, hidden


@whole
def w_state_carried_over_without_detach():
    cell = nn.RNN(2, 3)
    hidden = torch.zeros(1, 1, 3)
    for _ in range(2):
        states, hidden = cell(torch.randn(4, 1, 2), hidden)
        states.square().mean().backward()


@whole
def w_random_numbers():
    x = torch.ones(4, 4)
    first = nn.functional.dropout(x, 0.5)
    with torch.random.fork_rng():
        torch.manual_seed(5)
        inner = torch.rand(2)
    generator = torch.Generator(device=x.device).manual_seed(7)
    return first, inner, torch.randn(3, generator=generator), torch.randperm(5), torch.bernoulli(x * 0.5), x.normal_()


@whole
def w_loaded_in_batches():
    cpu = torch.device("cpu")  # a loader's sampler draws on the CPU
    x, y = torch.randn(10, 3, device=cpu), torch.randn(10, 1, device=cpu)
    generator = torch.Generator().manual_seed(3)
    with cpu:
        loader = data.DataLoader(data.TensorDataset(x, y), batch_size=4, shuffle=True, generator=generator)
        net = nn.Linear(3, 1)
        seen = []
        for inputs, targets in loader:
            net.zero_grad()
            ((net(inputs) - targets) ** 2).mean().backward()
            seen.append(inputs[0])
        first, second = data.random_split(data.TensorDataset(x), [6, 4])
        return seen, net.weight.grad, first.indices, second.indices


@whole
def w_mixed_precision_weights():
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1)).to(torch.bfloat16)
    optimiser = torch.optim.AdamW(net.parameters(), lr=0.01)
    for _ in range(2):
        net(torch.randn(5, 3, dtype=torch.bfloat16)).float().square().mean().backward()
        optimiser.step()
        optimiser.zero_grad()
    return net


@whole
def w_moving_target():
    online, target = nn.Linear(3, 2), nn.Linear(3, 2)
    target.load_state_dict(online.state_dict())
    optimiser = torch.optim.Adam(online.parameters())
    for _ in range(3):
        state, after = torch.randn(4, 3), torch.randn(4, 3)
        with torch.no_grad():
            goal = target(after).max(dim=1).values
        loss = nn.functional.smooth_l1_loss(online(state).gather(1, torch.zeros(4, 1, dtype=torch.long))[:, 0], goal)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        for mine, theirs in zip(target.parameters(), online.parameters(), strict=True):
            mine.data.mul_(0.9).add_(theirs.data, alpha=0.1)
    return online, target
