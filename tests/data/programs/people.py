"""Training programs as people write them: classes, several losses and optimisers. Each is of a report that it names."""

from __future__ import annotations

import copy

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # torch's own convention

from tests.data.programs import program


def mlp(given, made):
    return nn.Sequential(nn.Linear(given, 6), nn.Tanh(), nn.Linear(6, made))


# -- an advantage that trains its critic (astariul/encode-attend-navigate-pytorch#2, lweitkamp/option-critic-pytorch#2)


def actor_critic(advantage_of, steps=2):
    torch.manual_seed(0)
    policy, critic = mlp(4, 3), mlp(4, 1)
    optimizer = torch.optim.Adam([*policy.parameters(), *critic.parameters()], lr=1e-2)
    for _ in range(steps):
        states, returns = torch.randn(8, 4), torch.randn(8)
        dist = torch.distributions.Categorical(logits=policy(states))
        actions = dist.sample()
        advantage, values = advantage_of(returns, critic(states).squeeze(-1))
        loss = -(dist.log_prob(actions) * advantage).mean() + 0.5 * F.mse_loss(values, returns)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return critic


@program("weight_learns_too")
def y_advantage_trains_the_critic():
    def advantage_of(returns, values):
        return returns - values, values  # culprit

    return actor_critic(advantage_of)


@program("weight_learns_too")
def y_normalised_advantage_trains_the_critic():
    def advantage_of(returns, values):
        advantage = returns - values  # culprit
        return (advantage - advantage.mean()) / (advantage.std() + 1e-8), values

    return actor_critic(advantage_of)


@program()
def y_advantage_is_a_number():
    return actor_critic(lambda returns, values: (returns - values.detach(), values))


@program()
def y_advantage_of_a_baseline_without_parameters():
    return actor_critic(lambda returns, values: (returns - returns.mean(), values))


# -- inner steps without a history (dragen1860/MAML-Pytorch#63 and #32, uvm-neurobotics-lab/ANML#3)


def adapted(inner_step, tasks=2):
    torch.manual_seed(0)
    weights = [nn.Parameter(torch.randn(5, 1) * 0.3), nn.Parameter(torch.randn(1, 5) * 0.3)]
    optimizer = torch.optim.SGD(weights, lr=0.1)

    def loss_of(fast, x):
        return F.mse_loss(F.linear(torch.tanh(F.linear(x, fast[0])), fast[1]), x.sin())

    for _ in range(tasks):
        loss = loss_of(inner_step(loss_of(weights, torch.rand(6, 1)), weights), torch.rand(6, 1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program("constant_term")
def y_inner_steps_of_the_first_order():
    def inner_step(loss, fast):
        gradients = torch.autograd.grad(loss, fast)  # culprit
        return [weight - 0.1 * gradient for weight, gradient in zip(fast, gradients, strict=True)]

    adapted(inner_step)


@program()
def y_inner_steps_of_the_second_order():
    def inner_step(loss, fast):
        gradients = torch.autograd.grad(loss, fast, create_graph=True)
        return [weight - 0.1 * gradient for weight, gradient in zip(fast, gradients, strict=True)]

    adapted(inner_step)


@program()
def y_inner_steps_of_the_first_order_that_were_chosen():
    def inner_step(loss, fast):
        gradients = torch.autograd.grad(loss, fast, create_graph=False)
        return [weight - 0.1 * gradient for weight, gradient in zip(fast, gradients, strict=True)]

    adapted(inner_step)


# -- what no optimiser was given (ifzhang/FairMOT#19; pruning and fine-tuning threads of the forum)


@program("no_optimiser_holds_it")
def y_experts_in_a_list():
    class Experts(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate, self.head = nn.Linear(4, 2), nn.Linear(4, 1)
            self.experts = [nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 4)) for _ in range(2)]  # culprit

        def forward(self, x):
            shares = F.softmax(self.gate(x), dim=-1).unsqueeze(-1)
            return self.head((shares * torch.stack([expert(x) for expert in self.experts], dim=1)).sum(dim=1))

    torch.manual_seed(0)
    model = Experts()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        loss = model(torch.randn(8, 4)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()  # victim


@program("no_optimiser_holds_it")
def y_weights_of_the_losses():
    class Weighted(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.zeros(2))

        def forward(self, *losses):
            return (torch.exp(-self.scale) * torch.stack(losses) + self.scale).sum()

    class Trainer:
        def __init__(self, model, optimizer):
            self.model, self.optimizer, self.criterion = model, optimizer, Weighted()

        def step(self, x):
            out = self.model(x)
            loss = self.criterion(out[:, 0].pow(2).mean(), out[:, 1].abs().mean())
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()

    torch.manual_seed(0)
    model = mlp(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)  # culprit
    trainer = Trainer(model, optimizer)
    for _ in range(2):
        trainer.step(torch.randn(8, 4))


@program("no_optimiser_holds_it")
def y_pruned_weights_are_new_parameters():
    torch.manual_seed(0)
    model = mlp(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        loss = model(torch.randn(8, 4)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        weight = model[0].weight.detach()
        model[0].weight = nn.Parameter(weight * (weight.abs() > 0.05))  # culprit


@program("no_optimiser_holds_it")
def y_perturbation_is_another_one_in_each_step():
    torch.manual_seed(0)
    model = mlp(4, 2).requires_grad_(False)
    x = torch.randn(8, 4)
    delta = torch.zeros_like(x).requires_grad_(True)
    optimizer = torch.optim.SGD([delta], lr=0.1)
    for _ in range(4):
        loss = -model(x + delta).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        delta = delta.detach().clamp(-0.1, 0.1).requires_grad_(True)  # culprit
    return delta


@program()
def y_perturbation_is_clamped_in_place():
    torch.manual_seed(0)
    model = mlp(4, 2).requires_grad_(False)
    x = torch.randn(8, 4)
    delta = torch.zeros_like(x).requires_grad_(True)
    optimizer = torch.optim.SGD([delta], lr=0.1)
    for _ in range(4):
        loss = -model(x + delta).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            delta.clamp_(-0.1, 0.1)


@program()
def y_image_is_trained_by_a_given_net():
    torch.manual_seed(0)
    net, image = nn.Conv2d(1, 2, 3), torch.rand(1, 1, 6, 6).requires_grad_(True)
    target = net(torch.rand(1, 1, 6, 6)).detach()
    optimizer = torch.optim.Adam([image], lr=0.1)
    for _ in range(3):
        loss = F.mse_loss(net(image), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program()
def y_adversarial_training():
    torch.manual_seed(0)
    model = mlp(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        x, y = torch.randn(8, 4), torch.randint(0, 3, (8,))
        delta = torch.zeros_like(x)
        for _ in range(2):
            delta.requires_grad_(True)
            (gradient,) = torch.autograd.grad(F.cross_entropy(model(x + delta), y), delta)
            delta = (delta.detach() + 0.03 * gradient.sign()).clamp(-0.1, 0.1)
        loss = F.cross_entropy(model(x + delta), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program()
def y_two_nets_each_with_its_optimiser():
    torch.manual_seed(0)
    nets = [mlp(4, 1), mlp(4, 1)]
    optimizers = [torch.optim.SGD(net.parameters(), lr=0.1) for net in nets]
    for _ in range(3):
        for net, optimizer in zip(nets, optimizers, strict=True):
            loss = net(torch.randn(8, 4)).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


# -- a freeze that silences (locuslab/open-unlearning#178)


def with_adapters(freeze, *, first):
    class Adapter(nn.Module):
        def __init__(self, base):
            super().__init__()
            self.base = base
            self.down, self.up = nn.Parameter(torch.randn(2, 4) * 0.1), nn.Parameter(torch.zeros(4, 2))

        def forward(self, x):
            return self.base(x) + x @ self.down.t() @ self.up.t()

    torch.manual_seed(0)
    body, head = nn.Linear(4, 4), nn.Linear(4, 2)
    if first:
        freeze(body)
        body = Adapter(body)
    else:
        body = Adapter(body)
        freeze(body)
    model = nn.Sequential(body, nn.Tanh(), head)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        loss = model(torch.randn(8, 4)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


@program("frozen_at_zero")
def y_adapters_frozen_with_their_base():
    def freeze(module):
        for parameter in module.parameters():
            parameter.requires_grad = False  # culprit

    return with_adapters(freeze, first=False)


@program()
def y_adapters_added_to_a_frozen_base():
    return with_adapters(lambda module: module.requires_grad_(False), first=True)


# -- an old policy, compared with the new one (huggingface/trl#2769, nikhilbarhate99/PPO-PyTorch#18)


def clipped(old_of, steps=2):
    torch.manual_seed(0)
    policy = mlp(4, 3)
    optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)

    def density(states, actions):
        return torch.distributions.Categorical(logits=policy(states)).log_prob(actions)

    for _ in range(steps):
        states, actions, gain = torch.randn(8, 4), torch.randint(0, 3, (8,)), torch.randn(8)
        old = old_of(density, states, actions)
        for _ in range(2):
            new = density(states, actions)
            ratio = (new - (density(states, actions) if old is None else old)).exp()
            loss = -torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


@program()
def y_old_policy_was_before():
    def old_of(density, states, actions):
        with torch.no_grad():
            return density(states, actions)

    clipped(old_of)


@program()
def y_neighbours_are_to_be_alike():
    torch.manual_seed(0)
    model = mlp(4, 6)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        x = torch.randn(8, 4)
        out, moved = model(x), model(x + 0.01 * torch.randn_like(x))
        loss = (out[:, 1:] - out[:, :-1]).abs().mean() + (out - moved).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program()
def y_two_draws_of_one_net():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.Dropout(0.5), nn.Linear(6, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        x = torch.randn(8, 4)
        first, second = model(x), model(x)
        loss = first.pow(2).mean() + (first - second).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


# -- a state and a target that live in objects (MorvanZhou/PyTorch-Tutorial#57; the style transfer of torch's tutorials)


@program("graph_freed")
def y_hidden_state_handed_on_by_a_trainer():
    class Reader(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell, self.head = nn.GRUCell(2, 4), nn.Linear(4, 2)

        def forward(self, x, h):
            h = torch.tanh(self.cell(x, h))
            return self.head(h), h

    class Trainer:
        def __init__(self, model):
            self.model = model
            self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def epoch(self):
            hidden = torch.zeros(3, 4)
            for _ in range(3):
                scores, hidden = self.model(torch.randn(3, 2), hidden)  # culprit
                loss = scores.pow(2).mean()
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()

    torch.manual_seed(0)
    Trainer(Reader()).epoch()


@program("graph_cut", tensor="encoder.2.weight")
def y_features_by_a_decorated_method():
    class Extractor:
        def __init__(self, net):
            self.net = net

        @torch.no_grad()  # culprit
        def __call__(self, x):
            return F.normalize(self.net(x), dim=-1)

    torch.manual_seed(0)
    encoder, head = mlp(4, 3), nn.Linear(3, 2)
    features = Extractor(encoder)
    optimizer = torch.optim.SGD([*encoder.parameters(), *head.parameters()], lr=0.1)
    for _ in range(2):
        loss = head(features(torch.randn(8, 4))).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program()
def y_frozen_teacher_by_a_decorated_function():
    torch.manual_seed(0)
    student = mlp(4, 3)
    teacher = copy.deepcopy(student)

    @torch.no_grad()
    def soft(x):
        return teacher(x).softmax(dim=-1)

    optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
    for _ in range(2):
        x = torch.randn(8, 4)
        loss = F.kl_div(F.log_softmax(student(x), dim=-1), soft(x), reduction="batchmean")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program("constant_term")
def y_spectrum_by_numpy():
    import numpy as np

    def spectrum(wave):
        parts = np.fft.rfft(wave.detach().cpu().numpy(), axis=-1)  # culprit
        return torch.from_numpy(np.log1p(np.abs(parts))).float()

    torch.manual_seed(0)
    model = mlp(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        x = torch.randn(4, 8)
        out = model(x)
        loss = 0.7 * F.l1_loss(out, x) + 0.3 * F.mse_loss(spectrum(out), spectrum(x))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program()
def y_metric_by_numpy_and_data_from_numpy():
    import numpy as np

    torch.manual_seed(0)
    model, scores = mlp(8, 8), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        x = torch.from_numpy(np.random.default_rng(0).normal(size=(4, 8))).float()
        out = model(x)
        scores.append(float(np.abs(out.detach().cpu().numpy()).mean()))
        weight = torch.from_numpy(np.ones(8)).float()
        loss = ((out - x).pow(2) * weight).mean() + 0.1 * weight.sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


# -- a backward that never reads its gradient (forum: the weight of a loss of one's own has no effect)


def weighed(function, weight=0.3):
    torch.manual_seed(0)
    model = mlp(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        x = torch.randn(8, 4)
        loss = weight * function(model(x), x.sum(1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


@program("backward_disagrees")
def y_loss_that_takes_no_heed_of_its_weight():
    class Pinball(torch.autograd.Function):
        @staticmethod
        def forward(ctx, guess, target):
            ctx.save_for_backward(guess, target)
            error = target - guess
            return torch.max(0.9 * error, -0.1 * error).mean()

        @staticmethod
        def backward(ctx, grad_output):  # culprit
            guess, target = ctx.saved_tensors
            return torch.where(target > guess, -0.9, 0.1) / guess.numel(), None

    return weighed(Pinball.apply)


class Rounded(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return torch.round(8 * x) / 8


@program("backward_disagrees")
def y_rounding_whose_slope_is_one():
    class Deaf(Rounded):
        @staticmethod
        def backward(ctx, grad_output):
            return torch.ones_like(grad_output)  # culprit

    return weighed(lambda guess, target: F.mse_loss(Deaf.apply(guess), target))


@program()
def y_rounding_that_hands_it_through():
    class Through(Rounded):
        @staticmethod
        def backward(ctx, grad_output):
            return torch.ones_like(grad_output) * grad_output

    return weighed(lambda guess, target: F.mse_loss(Through.apply(guess), target))


@program()
def y_loss_that_is_the_last():
    class Squares(torch.autograd.Function):
        @staticmethod
        def forward(ctx, guess, target):
            ctx.save_for_backward(guess, target)
            return (guess - target).pow(2).mean()

        @staticmethod
        def backward(ctx, _):
            guess, target = ctx.saved_tensors
            return 2 * (guess - target) / guess.numel(), None

    return weighed(Squares.apply, weight=torch.tensor(1.0))


@program()
def y_backward_that_passes_it_on():
    class Reversed(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.view_as(x)

        @staticmethod
        def backward(ctx, *gradients):
            return -gradients[0]

    return weighed(lambda guess, target: F.mse_loss(Reversed.apply(guess), target))
