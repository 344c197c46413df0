"""Updates that go elsewhere than was meant, rebuilt from reports with keys fixed before the first run."""

# ruff: noqa: B007  # they stay as people have written them

from __future__ import annotations

import copy
import io
import itertools

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # torch's own convention

from tests.data.programs import program


def mlp(i, o):
    return nn.Sequential(nn.Linear(i, 16), nn.ReLU(), nn.Linear(16, o))


@program("name_rebound")
def u_average_kept_under_a_loop_s_name():
    """YU1ut/MixMatch-pytorch#23."""

    class Average:
        def __init__(self, model, average, rate=0.9):
            self.rate = rate
            self.params, self.averaged = list(model.parameters()), list(average.parameters())

        def step(self):
            for param, averaged in zip(self.params, self.averaged, strict=True):
                averaged = averaged.detach() * self.rate  # culprit
                averaged.add_(param.detach() * (1 - self.rate))

    model = mlp(6, 3)
    average = copy.deepcopy(model)
    for param in average.parameters():
        param.detach_()
    optimizer, averages = torch.optim.SGD(model.parameters(), lr=0.1), Average(model, average)
    for step in range(3):
        x, y = torch.randn(16, 6), torch.randint(0, 3, (16,))
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        averages.step()


@program("name_rebound")
def u_descent_by_hand_under_a_loop_s_name():
    net = mlp(4, 1)
    x = torch.randn(32, 4)
    y = x.sum(1, keepdim=True)
    for step in range(5):
        loss = (net(x) - y).pow(2).mean()
        loss.backward()
        with torch.no_grad():
            for p in net.parameters():
                p = p - 0.1 * p.grad  # culprit
        net.zero_grad()


@program("name_rebound")
def u_weights_scaled_under_a_loop_s_name():
    layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])

    def reset():
        for layer in layers:
            for weight in layer.parameters():
                weight = weight * 0.5 + 0.1  # culprit

    reset()
    x = torch.randn(2, 4)
    for layer in layers:
        x = layer(x)
    x.sum().backward()


@program()
def u_legal_average_in_place():
    model = mlp(6, 3)
    average = copy.deepcopy(model).requires_grad_(requires_grad=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        loss = F.cross_entropy(model(torch.randn(16, 6)), torch.randint(0, 3, (16,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for param, averaged in zip(model.parameters(), average.parameters(), strict=True):
                averaged.mul_(0.9).add_(param, alpha=0.1)


@program()
def u_legal_scaled_weights_are_kept():
    """They are kept in a dict, loaded at last; and masked ones are used at once."""
    model = mlp(4, 1)
    halves = {}
    for name, p in model.named_parameters():
        p = p * 0.5
        halves[name] = p.detach()
    for step in range(3):
        w = model[0].weight
        w = w * 0.5
        (torch.randn(2, 4) @ w.t()).sum().backward()
    model.load_state_dict(halves)


@program("foreign_gradients")
def u_both_losses_before_both_steps():
    """watchernyu/REDQ#3."""

    class Agent:
        def __init__(self):
            self.policy = mlp(2, 1)
            self.critics = nn.ModuleList([mlp(3, 1) for _ in range(2)])
            self.policy_optimizer = torch.optim.Adam(self.policy.parameters(), lr=1e-3)
            self.critic_optimizer = torch.optim.Adam(self.critics.parameters(), lr=1e-3)

        def values(self, obs, act):
            return torch.cat([critic(torch.cat([obs, act], 1)) for critic in self.critics], 1)

        def train(self, obs, act, reward):
            values = self.values(obs, act)
            critic_loss = F.mse_loss(values, reward.expand_as(values))
            self.critic_optimizer.zero_grad()
            critic_loss.backward()
            policy_loss = -self.values(obs, torch.tanh(self.policy(obs))).mean()
            self.policy_optimizer.zero_grad()
            policy_loss.backward()  # culprit
            self.critic_optimizer.step()
            self.policy_optimizer.step()

    agent = Agent()
    for step in range(3):
        agent.train(torch.randn(8, 2), torch.rand(8, 1), torch.randn(8, 1))


@program()
def u_legal_policy_loss_reaches_the_policy_alone():
    policy, critic = mlp(2, 1), mlp(3, 1)
    policy_optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3)
    critic_optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3)
    for step in range(3):
        obs, act, reward = torch.randn(8, 2), torch.rand(8, 1), torch.randn(8, 1)
        critic_optimizer.zero_grad()
        F.mse_loss(critic(torch.cat([obs, act], 1)), reward).backward()
        policy_optimizer.zero_grad()
        loss = -critic(torch.cat([obs, torch.tanh(policy(obs))], 1)).mean()
        loss.backward(inputs=list(policy.parameters()))
        critic_optimizer.step()
        policy_optimizer.step()


@program()
def u_legal_an_auxiliary_loss_for_the_head():
    """Two optimisers for parts of one model, cleared together: both losses are meant for both."""
    body, head = mlp(4, 3), nn.Linear(3, 2)
    body_optimizer = torch.optim.SGD(body.parameters(), lr=0.1)
    head_optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
    for step in range(3):
        x, y = torch.randn(8, 4), torch.randint(0, 2, (8,))
        body_optimizer.zero_grad()
        head_optimizer.zero_grad()
        features = body(x)
        F.cross_entropy(head(features.detach()), y).backward()
        F.cross_entropy(head(features), y).backward()
        head_optimizer.step()
        body_optimizer.step()


@program("no_optimiser_holds_it")
def u_checkpoint_assigned_behind_the_optimiser():
    """pytorch/tutorials#2522, NVIDIA/Megatron-LM#174."""

    def ready(file=None):
        model = mlp(8, 2)
        optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
        if file is not None:
            file.seek(0)
            model.load_state_dict(torch.load(file, weights_only=True), assign=True)  # culprit
        return model, optimizer

    model, _ = ready()
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    model, optimizer = ready(file)
    for step in range(3):
        loss = F.cross_entropy(model(torch.randn(8, 8)), torch.randint(0, 2, (8,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program("no_optimiser_holds_it")
def u_weight_assigned_behind_the_optimiser():
    model = mlp(8, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    wide = nn.Parameter(torch.randn(2, 16))
    model[2].weight = wide  # culprit
    for step in range(3):
        loss = F.cross_entropy(model(torch.randn(8, 8)), torch.randint(0, 2, (8,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program()
def u_legal_checkpoint_assigned_before_the_optimiser():
    model = mlp(8, 2)
    model.load_state_dict(copy.deepcopy(model.state_dict()), assign=True)
    model[2].weight = nn.Parameter(torch.randn(2, 16))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for step in range(3):
        loss = F.cross_entropy(model(torch.randn(8, 8)), torch.randint(0, 2, (8,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program("clips_nothing")
def u_iterator_of_parameters_is_used_up():
    """openai/spinningup#320."""
    q1, q2 = mlp(5, 1), mlp(5, 1)
    both = itertools.chain(q1.parameters(), q2.parameters())
    optimizer = torch.optim.SGD([*q1.parameters(), *q2.parameters()], lr=0.05)
    for step in range(4):
        x, r = torch.randn(8, 5), torch.randn(8, 1)
        loss = F.mse_loss(q1(x), r) + F.mse_loss(q2(x), r)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(both, max_norm=1.0)  # culprit
        optimizer.step()


@program("clips_nothing")
def u_optimiser_has_gone_through_the_filter():
    model = mlp(5, 1)
    learns = filter(lambda p: p.requires_grad, model.parameters())
    optimizer = torch.optim.Adam(learns, lr=1e-3)
    for step in range(3):
        loss = model(torch.randn(8, 5)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(learns, 1.0)  # culprit
        optimizer.step()


@program()
def u_legal_a_list_of_parameters_is_clipped_each_time():
    """Also what gets no gradient in a step: there is nothing to clip, and it's no mistake."""
    body, extra = mlp(5, 3), nn.Linear(3, 1)
    optimizer = torch.optim.SGD([*body.parameters(), *extra.parameters()], lr=0.05)
    for step in range(4):
        features = body(torch.randn(8, 5))
        loss = features.pow(2).mean() if step % 2 else extra(features).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(body.parameters(), 1.0)
        nn.utils.clip_grad_norm_(extra.parameters(), 1.0)
        optimizer.step()


@program("clips_nothing")
def u_longest_gradient_found_by_a_comprehension():
    """ShusenTang/Dive-into-DL-PyTorch#101: a clip of one's own goes through what it is given twice."""

    class Tuner:
        def __init__(self, net):
            self.net, self.optimizer = net, torch.optim.SGD(net.parameters(), lr=0.1)

        def bounded(self, weights, most=0.01):
            longest = max(weight.grad.norm().item() for _, weight in weights)
            for _, weight in weights:  # culprit
                weight.grad.mul_(min(1.0, most / longest))

        def tune(self, x):
            loss = self.net(x).square().mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.bounded(self.net.named_parameters())
            self.optimizer.step()  # victim

    tuner = Tuner(mlp(5, 1))
    for step in range(4):
        tuner.tune(torch.randn(8, 5))


@program()
def u_legal_a_clip_of_one_s_own_goes_twice_through_a_list():
    """Given an iterator, it makes a list of it first; and one way or the other goes through it, not both."""
    model = mlp(5, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def bounded(weights, most=0.01):
        weights = list(weights)
        total = sum(weight.grad.square().sum() for weight in weights).sqrt()
        for weight in weights:
            weight.grad.mul_((most / total).clamp(max=1.0))

    def limited(weights, most, each):
        if each:
            for weight in weights:
                weight.grad.div_(weight.grad.norm().clamp(min=1.0))
        else:
            for weight in weights:
                weight.grad.clamp_(-most, most)

    for step in range(4):
        loss = model(torch.randn(8, 5)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        bounded(model.parameters())
        limited(model.parameters(), 0.01, each=step % 2)
        optimizer.step()


@program("cleared_each_backward")
def u_micro_batches_whose_norm_is_logged():
    """bytetriper/RAE#67."""
    model = mlp(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    norms = []
    for step in range(12):
        optimizer.zero_grad(set_to_none=True)  # culprit
        loss = model(torch.randn(4, 8)).pow(2).mean() / 4
        loss.backward()
        if (step + 1) % 4 == 0:
            norms.append(torch.stack([p.grad.norm() for p in model.parameters()]).norm().item())
            optimizer.step()


@program()
def u_legal_teacher_trained_in_the_same_run():
    """labmlai/annotated_deep_learning_paper_implementations#66, mended."""
    teacher, student = mlp(6, 4), mlp(6, 4)
    first = torch.optim.Adam(teacher.parameters(), lr=1e-2)
    for step in range(20):
        first.zero_grad()
        F.cross_entropy(teacher(torch.randn(16, 6)), torch.randint(0, 4, (16,))).backward()
        first.step()
    optimizer = torch.optim.Adam(student.parameters(), lr=5e-3)
    for step in range(40):
        x = torch.randn(16, 6)
        with torch.no_grad():
            aims = F.log_softmax(teacher(x) / 3, dim=-1)
        loss = F.kl_div(F.log_softmax(student(x) / 3, dim=-1), aims, log_target=True, reduction="batchmean")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
