"""Value losses whose target learns too, and adversarial terms that reach no generator; and those that are meant.

Rebuilt from what people report: the target isn't detached (philtabor/Youtube-Code-Repository#23, easy-rl#117,
Hands-on-RL#28), the generator's term sees `fake.detach()` (image2reverb#37) or a discriminator's output that was
detached (mmagic#53).
"""

from __future__ import annotations

import copy

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # torch's own convention

from tests.data.programs import program


def transitions(many=8, states=4, actions=2):
    return (
        torch.randn(many, states),
        torch.randint(0, actions, (many, 1)),
        torch.randn(many, 1),
        torch.randn(many, states),
        (torch.rand(many, 1) > 0.8).to(torch.get_default_dtype()),
    )


def value_net(states=4, out=1):
    return nn.Sequential(nn.Linear(states, 8), nn.Tanh(), nn.Linear(8, out))


# -- the target learns too


@program("target_learns_too")
def b_temporal_difference():
    torch.manual_seed(0)
    critic = value_net()
    optimizer = torch.optim.Adam(critic.parameters(), lr=1e-2)
    gamma = 0.99
    for _ in range(3):
        state, _, reward, following, done = transitions()

        def loss_of(state=state, reward=reward, following=following, done=done):
            value = critic(state)
            target = reward + gamma * critic(following) * (1 - done)  # culprit
            return F.mse_loss(value, target)

        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()  # victim
        optimizer.step()


@program("target_learns_too")
def b_q_learning_in_an_agent():
    class Agent:
        def __init__(self, lr=1e-3, gamma=0.9):
            self.net = value_net(out=2)
            self.gamma = gamma
            self.optim = torch.optim.RMSprop(self.net.parameters(), lr=lr)
            self.criterion = nn.SmoothL1Loss()

        def loss(self, state, action, reward, following, done):
            chosen = self.net(state).gather(1, action)
            best = self.net(following).max(1)[0].unsqueeze(1)
            expected = reward + self.gamma * best * (1 - done)  # culprit
            return self.criterion(chosen, expected)

    agent = Agent()
    for _ in range(3):
        batch = transitions()

        def loss_of(batch=batch):
            return agent.loss(*batch)

        agent.optim.zero_grad()
        loss = loss_of()
        loss.backward()  # victim
        agent.optim.step()


@program("target_learns_too")
def b_actor_and_critic_share_a_body():
    """Hands-on-RL#28: the critic's half of an actor-critic."""

    class ActorCritic(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
            self.policy, self.value = nn.Linear(8, 2), nn.Linear(8, 1)

        def forward(self, x):
            h = self.body(x)
            return F.log_softmax(self.policy(h), dim=-1), self.value(h)

    model = ActorCritic()
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(3):
        state, action, reward, following, done = transitions()

        def loss_of(state=state, action=action, reward=reward, following=following, done=done):
            logp, value = model(state)
            _, next_value = model(following)
            td_target = reward + 0.98 * next_value * (1 - done)  # culprit
            delta = td_target - value
            actor = -(logp.gather(1, action) * delta.detach()).mean()
            return actor + 0.5 * delta.pow(2).mean()

        opt.zero_grad()
        loss = loss_of()
        loss.backward()  # victim
        opt.step()


@program("target_learns_too")
def b_returns_bootstrapped_backwards():
    """n steps: the last state's value begins the sum."""
    critic = value_net()
    opt = torch.optim.SGD(critic.parameters(), lr=1e-2)
    for _ in range(3):
        states, rewards = torch.randn(5, 4), torch.randn(5)

        def loss_of(states=states, rewards=rewards):
            values = critic(states).squeeze(-1)
            running = critic(states[-1:]).squeeze()
            returns = []
            for reward in reversed(rewards):
                running = reward + 0.95 * running  # culprit
                returns.insert(0, running)
            advantage = torch.stack(returns) - values
            return advantage.pow(2).mean()

        opt.zero_grad()
        loss = loss_of()
        loss.backward()  # victim
        opt.step()


@program()
def kb_target_without_gradients():
    critic = value_net()
    optimizer = torch.optim.Adam(critic.parameters(), lr=1e-2)
    for _ in range(3):
        state, _, reward, following, done = transitions()
        with torch.no_grad():
            target = reward + 0.99 * critic(following) * (1 - done)
        optimizer.zero_grad()
        F.mse_loss(critic(state), target).backward()
        optimizer.step()


@program()
def kb_target_network():
    net = value_net(out=2)
    target_net = copy.deepcopy(net)
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    for step in range(4):
        state, action, reward, following, done = transitions()
        expected = reward + 0.9 * target_net(following).max(1, keepdim=True)[0].detach() * (1 - done)
        loss = F.smooth_l1_loss(net(state).gather(1, action), expected)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 2:
            target_net.load_state_dict(net.state_dict())


@program()
def kb_twins_that_both_learn():
    """A siamese pair: each side is the other's wish."""
    encoder = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    opt = torch.optim.Adam(encoder.parameters(), lr=1e-3)
    for _ in range(3):
        x, noise = torch.randn(6, 4), 0.1 * torch.randn(6, 4)
        together = F.mse_loss(encoder(x), encoder(x + noise))
        apart = F.relu(1 - (encoder(x) - encoder(x.flip(0))).norm(dim=1)).mean()
        opt.zero_grad()
        (together + apart).backward()
        opt.step()


@program()
def kb_an_equation_s_residual():
    """A step of a heat equation, both sides of which the network gives."""
    field = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
    opt = torch.optim.Adam(field.parameters(), lr=1e-3)
    dt = 0.1
    for _ in range(3):
        x, t = torch.rand(6, 1), torch.rand(6, 1)
        now, after = field(torch.cat([x, t], 1)), field(torch.cat([x, t + dt], 1))
        source = torch.sin(x)
        loss = F.mse_loss(after, now + dt * source) + field(torch.cat([x * 0, t], 1)).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


# -- the generator's adversarial term is constant


def translator():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))


def judge():
    return nn.Sequential(nn.Linear(4, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))


def paired(many=3, rows=6):
    return [(torch.randn(rows, 4), torch.randn(rows, 4)) for _ in range(many)]


@program("constant_term")
def b_generator_reuses_the_discriminator_s_view():
    """One forward of the discriminator, on the detached fake, for both losses."""
    net_g, net_d = translator(), judge()
    opt_g = torch.optim.Adam(net_g.parameters(), lr=2e-4)
    opt_d = torch.optim.Adam(net_d.parameters(), lr=2e-4)
    bce = nn.BCEWithLogitsLoss()
    one, zero = torch.ones(6, 1), torch.zeros(6, 1)
    for source, wanted in paired():
        fake = net_g(source)
        opt_d.zero_grad()
        pred_real = net_d(wanted)
        loss_d = bce(pred_real, one) + bce(net_d(fake.detach()), zero)
        loss_d.backward()
        opt_d.step()

        def loss_of(source=source, wanted=wanted):
            fake = net_g(source)
            score = net_d(fake.detach())  # culprit
            return bce(score, one) + 100 * F.l1_loss(fake, wanted)

        opt_g.zero_grad()
        loss = loss_of()
        loss.backward()  # victim
        opt_g.step()


@program("constant_term")
def b_generator_s_step_sees_no_generator():
    """image2reverb#37: training_step gives the discriminator what was detached."""

    class System(nn.Module):
        def __init__(self):
            super().__init__()
            self.g, self.d = translator(), judge()

        def generator_loss(self, source, wanted):
            fake = self.g(source)
            d_fake = self.d(fake.detach())  # culprit
            adversarial = F.mse_loss(d_fake, torch.ones_like(d_fake))
            return adversarial + 100 * F.l1_loss(fake, wanted)

        def discriminator_loss(self, source, wanted):
            d_real, d_fake = self.d(wanted), self.d(self.g(source).detach())
            return 0.5 * (F.mse_loss(d_real, torch.ones_like(d_real)) + F.mse_loss(d_fake, torch.zeros_like(d_fake)))

    system = System()
    opt_g = torch.optim.Adam(system.g.parameters(), lr=1e-3)
    opt_d = torch.optim.Adam(system.d.parameters(), lr=1e-3)
    for source, wanted in paired():

        def loss_of(source=source, wanted=wanted):
            return system.generator_loss(source, wanted)

        opt_g.zero_grad()
        loss = loss_of()
        loss.backward()  # victim
        opt_g.step()
        opt_d.zero_grad()
        system.discriminator_loss(source, wanted).backward()
        opt_d.step()


@program("constant_term")
def b_discriminator_s_output_detached():
    """mmagic#53, one line further: what the discriminator says is detached."""
    net_g, net_d = translator(), judge()
    opt_g = torch.optim.Adam(net_g.parameters(), lr=1e-4)
    opt_d = torch.optim.Adam(net_d.parameters(), lr=1e-4)
    bce = nn.BCEWithLogitsLoss()
    for source, wanted in paired():

        def loss_of(source=source, wanted=wanted):
            fake = net_g(source)
            pixel = F.l1_loss(fake, wanted)
            logits = net_d(fake).detach()  # culprit
            adversarial = bce(logits, torch.ones_like(logits))
            return pixel + 5e-3 * adversarial

        opt_g.zero_grad()
        loss = loss_of()
        loss.backward()  # victim
        opt_g.step()
        fake = net_g(source).detach()
        real_logits, fake_logits = net_d(wanted), net_d(fake)
        loss_d = bce(real_logits, torch.ones(6, 1)) + bce(fake_logits, torch.zeros(6, 1))
        opt_d.zero_grad()
        loss_d.backward()
        opt_d.step()


@program("constant_term")
def b_features_matched_on_a_detached_fake():
    """Feature matching: the features of the fake come from the discriminator's own step."""

    class Features(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(4, 8), nn.Linear(8, 1)

        def forward(self, x):
            h = F.leaky_relu(self.first(x), 0.2)
            return self.last(h), h

    net_g, net_d = translator(), Features()
    for p in net_d.parameters():
        p.requires_grad_(False)
    opt_g = torch.optim.Adam(net_g.parameters(), lr=1e-3)
    for source, wanted in paired():

        def loss_of(source=source, wanted=wanted):
            fake = net_g(source)
            score, _ = net_d(fake)
            with torch.no_grad():
                _, real_features = net_d(wanted)
            _, fake_features = net_d(fake.detach())  # culprit
            return -score.mean() + 10 * F.l1_loss(fake_features, real_features)

        opt_g.zero_grad()
        loss = loss_of()
        loss.backward()  # victim
        opt_g.step()


@program()
def kb_each_network_has_its_own_view():
    net_g, net_d = translator(), judge()
    opt_g = torch.optim.Adam(net_g.parameters(), lr=2e-4)
    opt_d = torch.optim.Adam(net_d.parameters(), lr=2e-4)
    bce, one, zero = nn.BCEWithLogitsLoss(), torch.ones(6, 1), torch.zeros(6, 1)
    for source, wanted in paired():
        fake = net_g(source)
        opt_d.zero_grad()
        (bce(net_d(wanted), one) + bce(net_d(fake.detach()), zero)).backward()
        opt_d.step()
        opt_g.zero_grad()
        (bce(net_d(fake), one) + 100 * F.l1_loss(fake, wanted)).backward()
        opt_g.step()


@program()
def kb_relative_to_what_the_real_ones_score():
    """A relativistic loss: the other half is a constant for this step, and is meant so."""
    net_g, net_d = translator(), judge()
    opt_g = torch.optim.Adam(net_g.parameters(), lr=2e-4)
    opt_d = torch.optim.Adam(net_d.parameters(), lr=2e-4)
    bce = nn.BCEWithLogitsLoss()
    for source, wanted in paired():
        fake = net_g(source)
        for p in net_d.parameters():
            p.requires_grad_(False)
        real_score, fake_score = net_d(wanted).detach(), net_d(fake)
        opt_g.zero_grad()
        (bce(fake_score - real_score.mean(), torch.ones(6, 1)) + F.l1_loss(fake, wanted)).backward()
        opt_g.step()
        for p in net_d.parameters():
            p.requires_grad_(True)
        fake_score = net_d(fake.detach())
        opt_d.zero_grad()
        bce(net_d(wanted) - fake_score.mean().detach(), torch.ones(6, 1)).backward()
        bce(fake_score - net_d(wanted).mean().detach(), torch.zeros(6, 1)).backward()
        opt_d.step()


@program()
def kb_logged_and_weighted_by_itself():
    """An adaptive weight is a number on purpose, and the discriminator's loss is only logged."""
    net_g, net_d = translator(), judge()
    opt_g = torch.optim.Adam(net_g.parameters(), lr=2e-4)
    opt_d = torch.optim.Adam(net_d.parameters(), lr=2e-4)
    log = []
    for source, wanted in paired():
        fake = net_g(source)
        pixel, adversarial = F.l1_loss(fake, wanted), -net_d(fake).mean()
        weight = (pixel / (adversarial.abs() + 1e-4)).detach().clamp(0, 10)
        opt_g.zero_grad()
        (pixel + 0.1 * weight * adversarial).backward()
        opt_g.step()
        loss_d = F.relu(1 - net_d(wanted)).mean() + F.relu(1 + net_d(fake.detach())).mean()
        log.append(loss_d.detach() + pixel.detach())
        opt_d.zero_grad()
        loss_d.backward()
        opt_d.step()
