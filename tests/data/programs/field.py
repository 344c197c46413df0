"""Mistakes that people reported, in the shape in which they met them: modules, trainers, agents; and some put right."""

from __future__ import annotations

import copy
import warnings

import torch
from torch import nn
from torch.distributions import Categorical
from torch.nn import functional as F  # noqa: N812  # torch's own convention
from torch.utils.checkpoint import checkpoint

from tests.data.programs import program


class Net(nn.Module):
    """A small network whose constructor and forward are the user's own."""

    def __init__(self, wide: int, out: int) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(wide, 6), nn.Linear(6, out)

    def forward(self, *parts: torch.Tensor) -> torch.Tensor:
        return self.last(F.relu(self.first(torch.cat(parts, 1))))


@program("saved_tensor_modified", route="self")
def d_one_image_for_several_generator_steps():
    def train(make, judge, noise):
        opt = torch.optim.Adam(make.parameters())
        fake = torch.tanh(make(noise))  # culprit
        for _ in range(2):
            make.zero_grad()
            loss = -judge(fake).mean()
            loss.backward(retain_graph=True)
            opt.step()

    train(Net(3, 4), Net(4, 1), torch.randn(2, 3))


@program("saved_tensor_modified", tensor="self.critic.last.weight")
def d_agent_that_steps_its_critic_first():
    class Agent:
        def __init__(self):
            self.actor, self.critic = Net(3, 2), Net(5, 1)
            self.late = copy.deepcopy(self.critic)
            self.actor_opt = torch.optim.Adam(self.actor.parameters())
            self.critic_opt = torch.optim.Adam(self.critic.parameters())

        def update(self, states, actions, rewards):
            with torch.no_grad():
                wanted = rewards + 0.9 * self.late(states, actions)
            critic_loss = F.mse_loss(self.critic(states, actions), wanted)
            actor_loss = -self.critic(states, torch.tanh(self.actor(states))).mean()
            self.critic_opt.zero_grad()
            critic_loss.backward()
            self.critic_opt.step()  # culprit
            self.actor_opt.zero_grad()
            actor_loss.backward()
            self.actor_opt.step()

    Agent().update(torch.randn(4, 3), torch.randn(4, 2), torch.randn(4, 1))


@program("saved_tensor_modified", tensor="model.inner.bias")
def d_layer_replaced_after_its_module_was_made():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(3, 3)

        def forward(self, x):
            return self.inner.bias.pow(2) * self.inner(x)  # victim

    model = Model()
    model.inner = nn.Linear(3, 3)
    loss = model(torch.randn(2, 3)).sum()
    with torch.no_grad():
        model.inner.bias.mul_(2)  # culprit
    loss.backward()


@program("saved_tensor_modified", tensor="tokens[1]", route="self")
def d_tokens_normalised_in_place():
    layers = nn.ModuleList(nn.Linear(3, 4) for _ in range(2))
    tokens = [layer(torch.randn(2, 3)) for layer in layers]
    for i in range(2):
        tokens[i] /= tokens[i].norm(dim=-1, keepdim=True)  # culprit, victim
    torch.cat(tokens).exp().sum().backward()


@program("saved_tensor_modified")
def d_power_iteration_writes_the_vector_that_it_used():
    class Normed(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(4, 3))
            self.register_buffer("u", torch.randn(4))

        def forward(self, x):
            with torch.no_grad():
                self.u.copy_(F.normalize(self.weight @ (self.weight.t() @ self.u), dim=0))  # culprit
            return x @ (self.weight / (self.u @ self.weight).norm()).t()  # victim

    critic = Normed()
    loss = critic(torch.randn(2, 3)).mean() - critic(torch.randn(2, 3)).mean()
    loss.backward()


@program("saved_tensor_modified")
def d_buffers_broadcast_before_each_forward():
    class Replica(nn.Module):
        def __init__(self, module, master):
            super().__init__()
            self.module, self.master = module, master

        def forward(self, x):
            with torch.no_grad():
                for mine, theirs in zip(self.module.buffers(), self.master.buffers(), strict=True):
                    mine.copy_(theirs)  # culprit
            return self.module(x)  # victim

    model = Replica(nn.BatchNorm1d(3), nn.BatchNorm1d(3))
    F.mse_loss(model(torch.randn(4, 3)), model(torch.randn(4, 3))).backward()


@program("saved_tensor_modified", tensor="x", route="inside")
def d_activation_in_place_after_the_shortcut():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.shortcut, self.main = nn.Linear(3, 3), nn.Linear(3, 3)
            self.activation = nn.LeakyReLU(0.2, inplace=True)  # culprit

        def forward(self, x):
            short = self.shortcut(x)  # victim
            x = self.activation(x)
            return short + self.main(x)

    nn.Sequential(nn.Linear(3, 3), Block())(torch.randn(2, 3)).sum().backward()


@program("silent_corruption", tensor="attention", route="data")
def d_attention_masked_through_data():
    class Attention(nn.Module):
        def forward(self, q, k, v, mask):
            attention = torch.softmax(q @ k.t(), dim=-1)  # victim
            attention.data.masked_fill_(mask, 0)  # culprit
            return attention @ v

    embed, mask = nn.Linear(3, 4), torch.ones(5, 5, dtype=torch.bool).triu(1)
    x = embed(torch.randn(5, 3))
    Attention()(x, x, x, mask).pow(2).mean().backward()
    return embed.weight.grad


@program("graph_freed", tensor="self.state")
def d_membrane_potential_kept_between_batches():
    class Leaky(nn.Module):
        def __init__(self):
            super().__init__()
            self.state = torch.zeros(1)

        def forward(self, current):
            self.state = 0.5 * torch.tanh(self.state) + current  # culprit
            return torch.sigmoid(self.state - 1)

    model = nn.Sequential(nn.Linear(3, 4), Leaky())
    for x in torch.randn(2, 5, 3):
        spikes = torch.stack([model(x) for _ in range(3)])
        spikes.mean().backward()


@program("graph_freed", tensor="self.hidden")
def d_lstm_state_kept_in_the_module():
    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm, self.head = nn.LSTM(3, 4, batch_first=True), nn.Linear(4, 1)
            self.hidden = torch.zeros(1, 2, 4), torch.zeros(1, 2, 4)

        def forward(self, x):
            out, self.hidden = self.lstm(x, self.hidden)  # culprit, victim
            return self.head(out[:, -1])

    model = Tagger()
    for x in torch.randn(2, 2, 5, 3):
        model(x).mean().backward()


@program("graph_freed", tensor="log_prob")
def d_memory_of_an_episode_not_emptied():
    policy = nn.Linear(4, 2)
    memory = []
    for _ in range(2):
        for state in torch.randn(3, 4):
            choice = Categorical(torch.softmax(policy(state), dim=-1))
            log_prob = choice.log_prob(choice.sample())  # victim
            memory.append(log_prob)
        loss = -torch.stack(memory).sum()
        loss.backward()  # culprit


@program("graph_freed", tensor="model.cached")
def d_normalised_adjacency_cached():
    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.cached = nn.Linear(3, 2), None

        def forward(self, x, weights):
            if self.cached is None:
                adjacency = weights / weights.sum(1, keepdim=True)  # culprit
                self.cached = adjacency
            return self.cached @ self.linear(x)

    model, weights, x = Layer(), torch.rand(4, 4, requires_grad=True), torch.randn(4, 3)
    for _ in range(2):
        loss = model(x, weights).pow(2).mean()
        loss.backward()


@program("graph_cut", tensor="loss", severity="error")
def d_losses_collected_as_numbers():
    encoder = Net(3, 2)
    a, b = encoder(torch.randn(4, 3)), encoder(torch.randn(4, 3))
    losses = []
    for one, other in zip(a, b, strict=True):
        distance = (one - other).pow(2).sum()
        losses.append(max(1 - distance.item(), 0.0))
    loss = torch.tensor(losses).mean()  # culprit
    loss.backward()  # victim


@program("graph_cut", tensor="loss", severity="error")
def d_reentrant_checkpoint_of_a_frozen_input():
    embed, layer = nn.Embedding(5, 3), nn.Linear(3, 3)
    embed.requires_grad_(False)
    h = embed(torch.tensor([0, 3]))
    with warnings.catch_warnings(action="ignore"):  # torch does say that no input requires grad
        h = checkpoint(layer, h, use_reentrant=True)  # culprit
    loss = h.pow(2).mean()
    loss.backward()  # victim


@program("graph_cut")
def d_requires_grad_put_on_the_loss():
    model = nn.Linear(3, 2)
    with torch.no_grad():
        out = model(torch.randn(4, 3))  # culprit
    loss = F.cross_entropy(out, torch.tensor([0, 1, 1, 0]))
    loss.requires_grad = True
    loss.backward()  # victim


@program("graph_cut", tensor="gate.scores")
def d_mask_put_into_a_parameter_s_data():
    class Gate(nn.Module):
        def __init__(self):
            super().__init__()
            self.scores = nn.Parameter(torch.randn(3))
            self.mask = nn.Parameter(torch.zeros(3), requires_grad=False)

        def forward(self, x):
            self.mask.data = torch.sigmoid(self.scores)  # culprit
            return x * self.mask

    gate, layer = Gate(), nn.Linear(3, 1)
    layer(gate(torch.randn(2, 3))).mean().backward()  # victim


@program("optimiser_given_non_leaf", tensor="factors[0]")
def d_list_of_factors_moved_to_a_type():
    factors = [torch.ones(2, requires_grad=True).to(torch.float64) for _ in range(2)]  # culprit
    torch.optim.Adam(factors)  # victim


@program("optimiser_given_non_leaf", tensor="prompt")
def d_slices_of_an_embedding_collected():
    class Coach:
        def __init__(self):
            table = nn.Embedding(5, 3)
            self.prompts = []
            for i in range(2):
                prompt = table.weight[i].clone()  # culprit
                self.prompts.append(prompt)

        def optimiser(self):
            return torch.optim.Adam([{"params": self.prompts, "lr": 0.1}])  # victim

    Coach().optimiser()


@program("leaf_modified")
def d_detection_biases_through_a_view():
    class Detect(nn.Module):
        def __init__(self):
            super().__init__()
            self.heads = nn.ModuleList(nn.Conv2d(2, 6, 1) for _ in range(2))
            for head in self.heads:
                b = head.bias.view(3, -1)
                b[:, 1] += 0.5  # culprit

    Detect()


@program("view_modified", tensor="logit")
def d_split_logits_divided_in_place():
    def scored(logits):
        logits /= 0.7  # culprit
        return torch.log_softmax(logits, -1)

    policy = nn.Linear(3, 4)
    for logit in policy(torch.randn(4, 3)).split(2):  # victim
        scored(logit).mean().backward()


@program()
def d_gradient_penalty_with_a_leaky_critic():
    critic = nn.Sequential(nn.Linear(4, 6), nn.LeakyReLU(0.2), nn.Linear(6, 1))
    opt = torch.optim.Adam(critic.parameters())
    for real, fake in torch.randn(2, 2, 3, 4):
        mixed = torch.lerp(real, fake, torch.rand(3, 1)).requires_grad_()
        (slope,) = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)
        opt.zero_grad()
        (critic(fake).mean() - critic(real).mean() + (slope.norm(dim=1) - 1).pow(2).mean()).backward()
        opt.step()
    return [p.grad for p in critic.parameters()]


@program()
def d_agent_with_target_networks():
    actor, critic = Net(3, 2), Net(5, 1)
    late_actor, late_critic = copy.deepcopy(actor), copy.deepcopy(critic)
    opt = torch.optim.Adam([*actor.parameters(), *critic.parameters()])
    for states in torch.randn(2, 4, 3):
        with torch.no_grad():
            wanted = 1 + 0.9 * late_critic(states, late_actor(states))
        loss = F.mse_loss(critic(states, actor(states).detach()), wanted)
        loss = loss - critic(states, actor(states)).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        for late, now in zip(late_critic.parameters(), critic.parameters(), strict=True):
            late.data.mul_(0.9).add_(now.data, alpha=0.1)
    return [p.grad for p in actor.parameters()]


@program()
def d_noise_image_made_a_leaf():
    image = torch.randn(2, 3, requires_grad=True) * 0.01
    image = image.detach().requires_grad_()
    opt = torch.optim.SGD([image], lr=0.1)
    for _ in range(2):
        opt.zero_grad()
        image.pow(2).sum().backward()
        opt.step()
    return image
