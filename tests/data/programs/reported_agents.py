"""Agents of further reports, rebuilt with keys fixed before the first run; each names its report."""

# ruff: noqa: B007  # they stay as people have written them

from __future__ import annotations

import copy

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # torch's own convention

from tests.data.programs import program


@program("saved_tensor_modified")
def q_policy_loss_before_critics():
    """microsoft/oac-explore#27, clvrai/spirl#15."""

    def mlp(i, o):
        return nn.Sequential(nn.Linear(i, 16), nn.ReLU(), nn.Linear(16, o))

    class Trainer:
        def __init__(self):
            self.policy, self.qf1, self.qf2 = mlp(4, 2), mlp(6, 1), mlp(6, 1)
            self.target1, self.target2 = copy.deepcopy(self.qf1), copy.deepcopy(self.qf2)
            self.policy_optimizer = torch.optim.Adam(self.policy.parameters(), lr=3e-4)
            self.qf1_optimizer = torch.optim.Adam(self.qf1.parameters(), lr=3e-4)
            self.qf2_optimizer = torch.optim.Adam(self.qf2.parameters(), lr=3e-4)

        def train(self, obs, actions, rewards, next_obs):
            new_actions = torch.tanh(self.policy(obs))
            both = torch.cat([obs, new_actions], 1)
            q_new_actions = torch.min(self.qf1(both), self.qf2(both))
            policy_loss = -q_new_actions.mean()

            q1 = self.qf1(torch.cat([obs, actions], 1))
            q2 = self.qf2(torch.cat([obs, actions], 1))
            with torch.no_grad():
                after = torch.cat([next_obs, torch.tanh(self.policy(next_obs))], 1)
                q_target = rewards + 0.99 * torch.min(self.target1(after), self.target2(after))
            qf1_loss, qf2_loss = F.mse_loss(q1, q_target), F.mse_loss(q2, q_target)

            self.qf1_optimizer.zero_grad()
            qf1_loss.backward()
            self.qf1_optimizer.step()
            self.qf2_optimizer.zero_grad()
            qf2_loss.backward()
            self.qf2_optimizer.step()  # culprit
            self.policy_optimizer.zero_grad()
            policy_loss.backward()
            self.policy_optimizer.step()

    torch.manual_seed(0)
    trainer = Trainer()
    for _ in range(2):
        trainer.train(torch.randn(8, 4), torch.randn(8, 2), torch.randn(8, 1), torch.randn(8, 4))


@program()
def q_legal_policy_loss_before_critics():
    """microsoft/oac-explore#27, clvrai/spirl#15."""

    def mlp(i, o):
        return nn.Sequential(nn.Linear(i, 16), nn.ReLU(), nn.Linear(16, o))

    class Trainer:
        def __init__(self):
            self.policy, self.qf1, self.qf2 = mlp(4, 2), mlp(6, 1), mlp(6, 1)
            self.target1, self.target2 = copy.deepcopy(self.qf1), copy.deepcopy(self.qf2)
            self.policy_optimizer = torch.optim.Adam(self.policy.parameters(), lr=3e-4)
            self.qf1_optimizer = torch.optim.Adam(self.qf1.parameters(), lr=3e-4)
            self.qf2_optimizer = torch.optim.Adam(self.qf2.parameters(), lr=3e-4)

        def train(self, obs, actions, rewards, next_obs):
            new_actions = torch.tanh(self.policy(obs))
            both = torch.cat([obs, new_actions], 1)

            q1 = self.qf1(torch.cat([obs, actions], 1))
            q2 = self.qf2(torch.cat([obs, actions], 1))
            with torch.no_grad():
                after = torch.cat([next_obs, torch.tanh(self.policy(next_obs))], 1)
                q_target = rewards + 0.99 * torch.min(self.target1(after), self.target2(after))
            qf1_loss, qf2_loss = F.mse_loss(q1, q_target), F.mse_loss(q2, q_target)

            self.qf1_optimizer.zero_grad()
            qf1_loss.backward()
            self.qf1_optimizer.step()
            self.qf2_optimizer.zero_grad()
            qf2_loss.backward()
            self.qf2_optimizer.step()
            q_new_actions = torch.min(self.qf1(both), self.qf2(both))
            policy_loss = -q_new_actions.mean()
            self.policy_optimizer.zero_grad()
            policy_loss.backward()
            self.policy_optimizer.step()

    torch.manual_seed(0)
    trainer = Trainer()
    for _ in range(2):
        trainer.train(torch.randn(8, 4), torch.randn(8, 2), torch.randn(8, 1), torch.randn(8, 4))


@program("foreign_gradients")
def q_temperature_hears_the_actor():
    """Felhof/DiscreteSAC#4."""

    class Agent:
        def __init__(self, states=4, actions=3):
            self.actor = nn.Sequential(nn.Linear(states, 16), nn.ReLU(), nn.Linear(16, actions), nn.Softmax(-1))
            self.critic = nn.Sequential(nn.Linear(states, 16), nn.ReLU(), nn.Linear(16, actions))
            self.critic_target = copy.deepcopy(self.critic)
            self.log_alpha = torch.tensor(0.0, requires_grad=True)
            self.alpha = self.log_alpha.exp()
            self.actor_optimiser = torch.optim.Adam(self.actor.parameters(), lr=1e-3)
            self.critic_optimiser = torch.optim.Adam(self.critic.parameters(), lr=1e-3)
            self.alpha_optimiser = torch.optim.Adam([self.log_alpha], lr=1e-3)
            self.target_entropy = 0.98

        def train_networks(self, states, actions, rewards, next_states):
            for each in (self.actor_optimiser, self.critic_optimiser, self.alpha_optimiser):
                each.zero_grad()
            critic_loss = self.critic_loss(states, actions, rewards, next_states)
            critic_loss.backward()
            self.critic_optimiser.step()
            actor_loss, log_probabilities = self.actor_loss(states)
            actor_loss.backward()  # culprit
            self.actor_optimiser.step()
            alpha_loss = -(self.log_alpha * (log_probabilities + self.target_entropy).detach()).mean()
            alpha_loss.backward()
            self.alpha_optimiser.step()
            self.alpha = self.log_alpha.exp()

        def critic_loss(self, states, actions, rewards, next_states):
            with torch.no_grad():
                probabilities = self.actor(next_states)
                log = torch.log(probabilities + 1e-8)
                values = (probabilities * (self.critic_target(next_states) - self.alpha * log)).sum(1)
                target = rewards + 0.99 * values
            return F.mse_loss(self.critic(states).gather(1, actions).squeeze(-1), target)

        def actor_loss(self, states):
            probabilities = self.actor(states)
            log = torch.log(probabilities + 1e-8)
            inside_term = self.alpha * log - self.critic(states)
            return (probabilities * inside_term).sum(1).mean(), (log * probabilities).sum(1)

    torch.manual_seed(0)
    agent = Agent()
    for _ in range(3):
        agent.train_networks(torch.randn(8, 4), torch.randint(0, 3, (8, 1)), torch.randn(8), torch.randn(8, 4))


@program()
def q_legal_temperature_hears_the_actor():
    """Felhof/DiscreteSAC#4."""

    class Agent:
        def __init__(self, states=4, actions=3):
            self.actor = nn.Sequential(nn.Linear(states, 16), nn.ReLU(), nn.Linear(16, actions), nn.Softmax(-1))
            self.critic = nn.Sequential(nn.Linear(states, 16), nn.ReLU(), nn.Linear(16, actions))
            self.critic_target = copy.deepcopy(self.critic)
            self.log_alpha = torch.tensor(0.0, requires_grad=True)
            self.alpha = self.log_alpha.exp().detach()
            self.actor_optimiser = torch.optim.Adam(self.actor.parameters(), lr=1e-3)
            self.critic_optimiser = torch.optim.Adam(self.critic.parameters(), lr=1e-3)
            self.alpha_optimiser = torch.optim.Adam([self.log_alpha], lr=1e-3)
            self.target_entropy = 0.98

        def train_networks(self, states, actions, rewards, next_states):
            for each in (self.actor_optimiser, self.critic_optimiser, self.alpha_optimiser):
                each.zero_grad()
            critic_loss = self.critic_loss(states, actions, rewards, next_states)
            critic_loss.backward()
            self.critic_optimiser.step()
            actor_loss, log_probabilities = self.actor_loss(states)
            actor_loss.backward()
            self.actor_optimiser.step()
            alpha_loss = -(self.log_alpha * (log_probabilities + self.target_entropy).detach()).mean()
            alpha_loss.backward()
            self.alpha_optimiser.step()
            self.alpha = self.log_alpha.exp().detach()

        def critic_loss(self, states, actions, rewards, next_states):
            with torch.no_grad():
                probabilities = self.actor(next_states)
                log = torch.log(probabilities + 1e-8)
                values = (probabilities * (self.critic_target(next_states) - self.alpha * log)).sum(1)
                target = rewards + 0.99 * values
            return F.mse_loss(self.critic(states).gather(1, actions).squeeze(-1), target)

        def actor_loss(self, states):
            probabilities = self.actor(states)
            log = torch.log(probabilities + 1e-8)
            inside_term = self.alpha * log - self.critic(states)
            return (probabilities * inside_term).sum(1).mean(), (log * probabilities).sum(1)

    torch.manual_seed(0)
    agent = Agent()
    for _ in range(3):
        agent.train_networks(torch.randn(8, 4), torch.randint(0, 3, (8, 1)), torch.randn(8), torch.randn(8, 4))


@program()
def q_legal_reward_with_a_history():
    """batra-mlp-lab/visdial-rl#13."""

    class QBot(nn.Module):
        def __init__(self, vocabulary=12, width=16, features=5):
            super().__init__()
            self.embed, self.rnn = nn.Embedding(vocabulary, width), nn.GRUCell(width, width)
            self.out, self.feature_net = nn.Linear(width, vocabulary), nn.Linear(width, features)
            self.log_probs = []

        def forward(self, start, steps=4):
            h, word = torch.zeros(len(start), self.rnn.hidden_size), start
            self.log_probs = []
            for _ in range(steps):
                h = self.rnn(self.embed(word), h)
                dist = torch.distributions.Categorical(logits=self.out(h))
                word = dist.sample()
                self.log_probs.append(dist.log_prob(word))
            return self.feature_net(h)

        def reinforce(self, reward):
            loss = 0
            for log_prob in self.log_probs:
                loss = loss + (-1 * log_prob * reward).mean()
            return loss

    torch.manual_seed(0)
    qbot = QBot()
    optimizer = torch.optim.Adam(qbot.parameters(), lr=1e-3)
    for iteration in range(3):
        start, image = torch.randint(0, 12, (8,)), torch.randn(8, 5)
        before = image.pow(2).mean(1)
        predicted = qbot(start)
        feature_dist = F.mse_loss(predicted, image, reduction="none").mean(1)
        reward = (before - feature_dist).detach()
        rl_loss = qbot.reinforce(reward)
        loss = rl_loss + feature_dist.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program()
def q_legal_on_policy_ratio():
    """SeungyounShin/minimal-r1#2."""

    torch.manual_seed(0)
    policy = nn.Sequential(nn.Embedding(10, 12), nn.Linear(12, 10))
    reference = nn.Sequential(nn.Embedding(10, 12), nn.Linear(12, 10)).requires_grad_(False)
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-3)

    def per_token(model, tokens):
        return F.log_softmax(model(tokens[:, :-1]), -1).gather(-1, tokens[:, 1:, None]).squeeze(-1)

    for _ in range(3):
        tokens = torch.randint(0, 10, (6, 8))
        rewards = torch.rand(6)
        advantages = (rewards - rewards.mean()) / (rewards.std() + 1e-4)
        logp = per_token(policy, tokens)
        with torch.no_grad():
            ref_logp = per_token(reference, tokens)
        kl = torch.exp(ref_logp - logp) - (ref_logp - logp) - 1
        loss = -(torch.exp(logp - logp.detach()) * advantages[:, None] - 0.04 * kl).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program()
def q_legal_entropy_given():
    """mani-skill/ManiSkill#899."""

    class Actor(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.mean, self.log_std = nn.Linear(4, 16), nn.Linear(16, 2), nn.Linear(16, 2)

        def get_action(self, obs):
            h = torch.relu(self.body(obs))
            dist = torch.distributions.Normal(self.mean(h), self.log_std(h).clamp(-5, 2).exp())
            raw = dist.rsample()
            action = torch.tanh(raw)
            return action, (dist.log_prob(raw) - torch.log(1 - action.pow(2) + 1e-6)).sum(1, keepdim=True)

    torch.manual_seed(0)
    actor = Actor()
    qf = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))
    log_alpha = torch.zeros(1, requires_grad=True)
    alpha, target_entropy = log_alpha.exp().item(), -2.0
    q_optimizer = torch.optim.Adam(qf.parameters(), lr=1e-3)
    actor_optimizer = torch.optim.Adam(actor.parameters(), lr=1e-3)
    a_optimizer = torch.optim.Adam([log_alpha], lr=1e-3)
    for _ in range(4):
        obs, actions, rewards, next_obs = torch.randn(8, 4), torch.randn(8, 2), torch.randn(8, 1), torch.randn(8, 4)
        with torch.no_grad():
            next_actions, next_log_pi = actor.get_action(next_obs)
            target = rewards + 0.99 * (qf(torch.cat([next_obs, next_actions], 1)) - alpha * next_log_pi)
        qf_loss = F.mse_loss(qf(torch.cat([obs, actions], 1)), target)
        q_optimizer.zero_grad()
        qf_loss.backward()
        q_optimizer.step()
        pi, log_pi = actor.get_action(obs)
        actor_loss = (alpha * log_pi - qf(torch.cat([obs, pi], 1))).mean()
        actor_optimizer.zero_grad()
        actor_loss.backward()
        actor_optimizer.step()
        with torch.no_grad():
            _, log_pi = actor.get_action(obs)
        alpha_loss = (-log_alpha.exp() * (log_pi + target_entropy)).mean()
        a_optimizer.zero_grad()
        alpha_loss.backward()
        a_optimizer.step()
        alpha = log_alpha.exp().item()
