"""Reinforcement learning of further reports, rebuilt with keys fixed before the first run; each names its report."""

# ruff: noqa: B007  # they stay as people have written them

from __future__ import annotations

import torch
from torch import nn
from torch.distributions import Categorical
from torch.nn import functional as F  # noqa: N812  # torch's own convention

from tests.data.programs import program


@program("never_reached")
def q_log_probability_taken_as_a_number():
    """ReLeaSE#39 (weights are not updating)."""

    class Generator(nn.Module):
        def __init__(self, n=7):
            super().__init__()
            self.emb, self.rnn, self.out = nn.Embedding(n, 8), nn.GRUCell(8, 12), nn.Linear(12, n)

        def forward(self, token, h):
            h = self.rnn(self.emb(token), h)
            return self.out(h), h

    class Reinforcement:
        def __init__(self, generator):
            self.generator = generator
            self.optimizer = torch.optim.Adam(generator.parameters(), lr=1e-3)

        def policy_gradient(self, n_batch=3, gamma=0.97):
            rl_loss, self.total = torch.zeros(1, requires_grad=True), 0
            for _ in range(n_batch):
                h, token, discounted = torch.zeros(1, 12), torch.zeros(1, dtype=torch.long), 1.0
                for _ in range(5):
                    output, h = self.generator(token, h)
                    log_probs = torch.log_softmax(output, dim=1)
                    top = torch.multinomial(log_probs.detach().exp(), 1)[0]
                    rl_loss = rl_loss - log_probs[0, top].item() * discounted  # culprit
                    discounted = discounted * gamma
                    token = top
            rl_loss = rl_loss / n_batch
            self.optimizer.zero_grad()
            rl_loss.backward()
            self.optimizer.step()

    torch.manual_seed(0)
    task = Reinforcement(Generator())
    for _ in range(2):
        task.policy_gradient()


@program("graph_freed")
def q_memory_of_log_probabilities_with_graphs():
    """PPO-PyTorch#18's question, as people get it wrong."""

    class Memory:
        def __init__(self):
            self.states, self.actions, self.logprobs, self.rewards = [], [], [], []

    class PPO:
        def __init__(self):
            self.policy = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))
            self.optimizer = torch.optim.Adam(self.policy.parameters(), lr=1e-2)

        def select_action(self, state, memory):
            dist = Categorical(logits=self.policy(state))
            action = dist.sample()
            memory.states.append(state)
            memory.actions.append(action)
            memory.logprobs.append(dist.log_prob(action))  # culprit
            return action

        def update(self, memory, epochs=4):
            rewards = torch.tensor(memory.rewards)
            rewards = (rewards - rewards.mean()) / (rewards.std() + 1e-5)
            states, actions = torch.stack(memory.states), torch.stack(memory.actions)
            old_logprobs = torch.stack(memory.logprobs)
            for _ in range(epochs):
                logprobs = Categorical(logits=self.policy(states)).log_prob(actions)
                ratios = torch.exp(logprobs - old_logprobs)
                loss = -torch.min(ratios * rewards, ratios.clamp(0.8, 1.2) * rewards).mean()
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()

    torch.manual_seed(0)
    ppo, memory = PPO(), Memory()
    for t in range(20):
        ppo.select_action(torch.randn(4), memory)
        memory.rewards.append(float(torch.randn(())))
    ppo.update(memory)


@program("one_module_twice")
def q_target_network_is_the_policy():
    """easy-rl#117."""

    class MLP(nn.Module):
        def __init__(self, n, a):
            super().__init__()
            self.fc1, self.fc2 = nn.Linear(n, 16), nn.Linear(16, a)

        def forward(self, x):
            return self.fc2(F.relu(self.fc1(x)))

    class DoubleDQN:
        def __init__(self, model, gamma=0.9):
            self.policy_net = model
            self.target_net = model  # culprit
            self.gamma, self.count = gamma, 0
            self.optimizer = torch.optim.Adam(self.policy_net.parameters(), lr=1e-3)

        def update(self, s, a, r, s2, done):
            q = self.policy_net(s).gather(1, a)
            with torch.no_grad():
                best = self.policy_net(s2).argmax(1, keepdim=True)
                next_q = self.target_net(s2).gather(1, best)
                expected = r + self.gamma * next_q * (1 - done)
            loss = F.mse_loss(q, expected)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.count += 1
            if self.count % 2 == 0:
                self.target_net.load_state_dict(self.policy_net.state_dict())

    torch.manual_seed(0)
    agent = DoubleDQN(MLP(4, 2))
    for _ in range(4):
        states, later, ended = torch.randn(16, 4), torch.randn(16, 4), torch.zeros(16, 1)
        batch = states, torch.randint(0, 2, (16, 1)), torch.randn(16, 1), later, ended
        agent.update(*batch)


@program("target_learns_too")
def q_one_network_for_both_sides():
    """Deep-Q-Learning-Paper-To-Code#9, #16 (one network)."""

    class DeepQNetwork(nn.Module):
        def __init__(self, lr=1e-3):
            super().__init__()
            self.fc1, self.fc2 = nn.Linear(4, 24), nn.Linear(24, 3)
            self.optimizer = torch.optim.RMSprop(self.parameters(), lr=lr)
            self.loss = nn.MSELoss()

        def forward(self, state):
            return self.fc2(F.relu(self.fc1(state)))

    class DQNAgent:
        def __init__(self, gamma=0.99):
            self.q_eval, self.gamma = DeepQNetwork(), gamma

        def learn(self, states, actions, rewards, states_, dones):
            self.q_eval.optimizer.zero_grad()
            indices = torch.arange(len(states))
            q_pred = self.q_eval(states)[indices, actions]
            q_next = self.q_eval(states_).max(dim=1)[0]
            q_next[dones] = 0.0
            q_target = rewards + self.gamma * q_next  # culprit
            loss = self.q_eval.loss(q_target, q_pred)
            loss.backward()
            self.q_eval.optimizer.step()

    torch.manual_seed(0)
    agent = DQNAgent()
    for _ in range(3):
        states, later, ended = torch.randn(16, 4), torch.randn(16, 4), torch.rand(16) > 0.9
        batch = states, torch.randint(0, 3, (16,)), torch.randn(16), later, ended
        agent.learn(*batch)


@program("target_learns_too")
def q_detach_that_nobody_keeps():
    """deep-learning-from-scratch-4#13."""

    class QNet(nn.Module):
        def __init__(self, actions):
            super().__init__()
            self.l1, self.l2 = nn.Linear(4, 16), nn.Linear(16, actions)

        def forward(self, x):
            return self.l2(F.relu(self.l1(x)))

    class DQNAgent:
        def __init__(self):
            self.qnet = QNet(2)
            self.optimizer = torch.optim.Adam(self.qnet.parameters(), lr=5e-4)

        def update(self, state, action, reward, next_state, done):
            qs = self.qnet(state)
            q = qs[torch.arange(len(action)), action]
            next_qs = self.qnet(next_state)
            next_q = next_qs.max(1)[0]
            next_q.detach()  # culprit
            target = reward + (1 - done) * 0.98 * next_q
            loss = F.mse_loss(q, target)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()

    torch.manual_seed(0)
    agent = DQNAgent()
    for _ in range(3):
        agent.update(torch.randn(8, 4), torch.randint(0, 2, (8,)), torch.randn(8), torch.randn(8, 4), torch.zeros(8))


@program("ratio_is_one")
def q_old_policy_computed_in_each_epoch():
    """higgsfield-ai/higgsfield#20, huggingface/trl#2769."""

    class Policy(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))

        def dist(self, states):
            return Categorical(logits=self.net(states))

    def ppo_update(policy, optimizer, states, actions, advantages, epochs=3, clip=0.2):
        for _ in range(epochs):
            with torch.no_grad():
                old_log_probs = policy.dist(states).log_prob(actions)  # culprit
            new_log_probs = policy.dist(states).log_prob(actions)
            ratio = (new_log_probs - old_log_probs).exp()
            surr1 = ratio * advantages
            surr2 = torch.clamp(ratio, 1 - clip, 1 + clip) * advantages
            loss = -torch.min(surr1, surr2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    torch.manual_seed(0)
    policy = Policy()
    optimizer = torch.optim.Adam(policy.parameters(), lr=3e-2)
    for _ in range(2):
        states = torch.randn(32, 4)
        with torch.no_grad():
            actions = policy.dist(states).sample()
        ppo_update(policy, optimizer, states, actions, torch.randn(32))


@program()
def q_legal_old_policy_computed_once():
    """The same, computed once: in the first epoch the ratio is 1 there, too."""

    class Policy(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))

        def dist(self, states):
            return Categorical(logits=self.net(states))

    def ppo_update(policy, optimizer, states, actions, advantages, epochs=3, clip=0.2):
        with torch.no_grad():
            old_log_probs = policy.dist(states).log_prob(actions)
        for _ in range(epochs):
            new_log_probs = policy.dist(states).log_prob(actions)
            ratio = (new_log_probs - old_log_probs).exp()
            surr1 = ratio * advantages
            surr2 = torch.clamp(ratio, 1 - clip, 1 + clip) * advantages
            loss = -torch.min(surr1, surr2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    torch.manual_seed(0)
    policy = Policy()
    optimizer = torch.optim.Adam(policy.parameters(), lr=3e-2)
    for _ in range(2):
        states = torch.randn(32, 4)
        with torch.no_grad():
            actions = policy.dist(states).sample()
        ppo_update(policy, optimizer, states, actions, torch.randn(32))


class Feeder(nn.Module):
    """How much to feed a tank of fish: what is thought of a state, and which of three portions."""

    def __init__(self):
        super().__init__()
        self.trunk = nn.Linear(4, 12)
        self.portion, self.worth = nn.Linear(12, 3), nn.Linear(12, 1)

    def forward(self, tank):
        inside = torch.tanh(self.trunk(tank))
        return Categorical(logits=self.portion(inside)), self.worth(inside).squeeze(-1)


def fed(feeder, days=6):
    """(densities of what was chosen, worths, what came of it) of some days."""
    scores, worths = [], []
    for _ in range(days):
        portions, worth = feeder(torch.randn(4))
        scores.append(portions.log_prob(portions.sample()))
        worths.append(worth)
    return scores, torch.stack(worths), torch.randn(days)


@program("graph_cut")
def q_densities_copied_beside_a_detached_advantage():
    """DeepReinforcementLearning_Pytorch#1: the advantage is cut on purpose, the densities aren't."""
    feeder = Feeder()
    optimizer = torch.optim.Adam(feeder.parameters(), lr=1e-2)
    for _ in range(4):
        scores, worths, growth = fed(feeder)
        scores = torch.tensor(scores)  # culprit
        advantage = (growth - worths).detach()
        loss = -(scores * advantage).mean() + F.smooth_l1_loss(worths, growth)
        optimizer.zero_grad()
        loss.backward()  # victim
        optimizer.step()


@program("constant_term")
def q_densities_copied_of_a_policy_that_learns_otherwise():
    """The same, with an entropy by which all of the policy learns something."""
    feeder = Feeder()
    optimizer = torch.optim.Adam(feeder.parameters(), lr=1e-2)
    for _ in range(4):
        scores, worths, growth = fed(feeder)
        portions, _ = feeder(torch.randn(8, 4))
        advantage = (growth - worths).detach()
        scores = torch.tensor(scores)  # culprit
        of_choice = -(advantage * scores).mean()
        loss = of_choice + F.smooth_l1_loss(worths, growth) - 0.01 * portions.entropy().mean()
        optimizer.zero_grad()
        loss.backward()  # victim
        optimizer.step()


@program()
def q_legal_densities_joined_beside_a_detached_advantage():
    """The mend; the numbers alone are noted down."""
    feeder, seen = Feeder(), []
    optimizer = torch.optim.Adam(feeder.parameters(), lr=1e-2)
    for _ in range(4):
        scores, worths, growth = fed(feeder)
        advantage = (growth - worths).detach()
        loss = -(torch.stack(scores) * advantage).mean() + F.smooth_l1_loss(worths, growth)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen.append(torch.tensor([each.item() for each in scores]).mean())


def gaze(n_places=6):
    """Who chooses where to look, who reads what is seen there, and one optimiser for both."""
    chooser, reader = nn.Linear(n_places, n_places), nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 3))
    return chooser, reader, torch.optim.Adam([*chooser.parameters(), *reader.parameters()], lr=1e-2)


@program("weight_learns_too")
def q_gaze_weighed_by_how_well_it_was_read():
    """batra-mlp-lab/visdial-rl#13, with a place of a row to look at."""
    chooser, reader, optimizer = gaze()
    for step in range(4):
        row, wanted = torch.randn(16, 6), torch.randint(0, 3, (16,))
        chances = torch.log_softmax(chooser(row), dim=1)
        place = torch.multinomial(chances.exp(), 1)
        missed = F.cross_entropy(reader(row.gather(1, place)), wanted, reduction="none")
        reward = 1.0 - missed
        looked = -(reward * chances.gather(1, place).squeeze(1)).mean()  # culprit
        optimizer.zero_grad()
        (looked + missed.mean()).backward()  # victim
        optimizer.step()


@program("weight_learns_too")
def q_throttle_weighed_by_a_model_of_the_road():
    """A draw of a normal distribution; what it led to is predicted by a net that the same step trains."""
    driver, road = nn.Linear(3, 2), nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD([*driver.parameters(), *road.parameters()], lr=1e-2)
    for step in range(4):
        seen = torch.randn(8, 3)
        moves = torch.distributions.Normal(driver(seen), 0.5)
        move = moves.sample()
        gained = road(torch.cat([seen, move], dim=1)).squeeze(1)
        felt = (gained - seen.sum(1)).square().mean()
        tried = moves.log_prob(move).sum(1) * gained  # culprit
        optimizer.zero_grad()
        (felt - tried.mean()).backward()  # victim
        optimizer.step()


@program()
def q_legal_gaze_weighed_by_a_number():
    chooser, reader, optimizer = gaze()
    for step in range(4):
        row, wanted = torch.randn(16, 6), torch.randint(0, 3, (16,))
        choice = Categorical(logits=chooser(row))
        place = choice.sample()
        missed = F.cross_entropy(reader(row.gather(1, place.unsqueeze(1))), wanted, reduction="none")
        loss = (missed.detach() * choice.log_prob(place)).mean() + missed.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program()
def q_legal_critic_is_cleared_before_its_own_loss():
    """What the policy's loss leaves in the critic is thrown away: each has an optimiser, and clears first."""
    policy, critic = nn.Linear(4, 3), nn.Linear(4, 3)
    first, second = (torch.optim.Adam(each.parameters(), lr=1e-2) for each in (policy, critic))
    for step in range(4):
        state = torch.randn(16, 4)
        choice = Categorical(logits=policy(state))
        action = choice.sample()
        first.zero_grad()
        (-(choice.log_prob(action) * critic(state).gather(1, action.unsqueeze(1)).squeeze(1)).mean()).backward()
        first.step()
        second.zero_grad()
        F.mse_loss(critic(state).gather(1, action.unsqueeze(1)).squeeze(1), state.sum(1)).backward()
        second.step()


@program()
def q_legal_draw_that_its_reward_goes_back_through():
    """`rsample` has a history: the reward's own slope is meant, and so is a density of it that is kept high."""
    driver, road = nn.Linear(3, 2), nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD([*driver.parameters(), *road.parameters()], lr=1e-2)
    for step in range(4):
        seen = torch.randn(8, 3)
        moves = torch.distributions.Normal(driver(seen), 0.5)
        move = moves.rsample()
        gained = road(torch.cat([seen, move], dim=1)).squeeze(1)
        doubted = torch.sigmoid(gained) * moves.log_prob(move).sum(1)
        optimizer.zero_grad()
        (0.1 * doubted - gained).mean().backward()
        optimizer.step()
