"""Two networks against each other, and agents: who trains whom, and when."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # torch's own convention

from tests.data.programs import program


def networks():
    generator = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 3))
    discriminator = nn.Sequential(nn.Linear(3, 4), nn.LeakyReLU(0.2), nn.Linear(4, 1))
    return generator, discriminator


@program("graph_freed", tensor="fake")
def g_generated_images_not_detached():
    generator, discriminator = networks()
    ones, zeros = torch.ones(5, 1), torch.zeros(5, 1)
    fake = torch.tanh(generator(torch.randn(5, 2)))  # victim
    d_loss = F.binary_cross_entropy_with_logits(discriminator(fake), zeros)
    d_loss.backward()  # culprit
    g_loss = F.binary_cross_entropy_with_logits(discriminator(fake), ones)
    g_loss.backward()


@program("saved_tensor_modified", route="self")
def g_discriminator_stepped_before_the_generator_s_backward():
    generator, discriminator = networks()
    opt_d = torch.optim.Adam(discriminator.parameters(), lr=0.01)
    fake = generator(torch.randn(5, 2))
    judged = discriminator(fake)  # victim
    d_loss, g_loss = F.softplus(judged).mean(), F.softplus(-judged).mean()
    d_loss.backward(retain_graph=True)
    opt_d.step()  # culprit
    g_loss.backward()


@program("silent_corruption", route="data")
def g_critic_s_weights_clipped_through_data():
    generator, critic = networks()
    fake = generator(torch.randn(5, 2))
    g_loss = -critic(fake).mean()  # victim
    for p in critic.parameters():
        p.data.clamp_(-0.01, 0.01)  # culprit
    g_loss.backward()
    return [p.grad for p in generator.parameters()]


@program("saved_tensor_modified", route="self")
def g_critic_s_weights_clipped_under_no_grad():
    generator, critic = networks()
    g_loss = -critic(generator(torch.randn(5, 2))).mean()  # victim
    with torch.no_grad():
        for p in critic.parameters():
            p.clamp_(-0.01, 0.01)  # culprit
    g_loss.backward()


@program("graph_cut", severity="error", tensor="penalty")
def g_gradient_penalty_without_create_graph():
    _, critic = networks()
    mixed = torch.randn(5, 3, requires_grad=True)
    scores = critic(mixed)
    (slope,) = torch.autograd.grad(scores.sum(), mixed)  # culprit
    penalty = (slope.norm(dim=1) - 1).pow(2).mean()
    penalty.backward()  # victim


@program("graph_freed", tensor="cycled")
def g_cycle_and_identity_share_a_part():
    there, back = nn.Linear(3, 3), nn.Linear(3, 3)
    photo = torch.randn(4, 3)
    painted = torch.tanh(there(photo))
    cycled = torch.tanh(back(painted))  # victim
    F.l1_loss(cycled, photo).backward()  # culprit
    F.mse_loss(cycled, photo).backward()


@program("saved_tensor_modified", tensor="fake", node="SigmoidBackward0")
def g_pixels_clamped_in_place():
    generator, discriminator = networks()
    fake = torch.sigmoid(generator(torch.randn(5, 2)))  # victim
    fake.clamp_(0.05, 0.95)  # culprit
    discriminator(fake).mean().backward()


@program("saved_tensor_modified", tensor="labels", route="self")
def g_one_label_tensor_for_real_and_fake():
    _, discriminator = networks()
    labels = torch.empty(5, 1)
    labels.fill_(1.0)
    real_loss = F.binary_cross_entropy_with_logits(discriminator(torch.randn(5, 3)), labels)  # victim
    labels.fill_(0.0)  # culprit
    fake_loss = F.binary_cross_entropy_with_logits(discriminator(torch.randn(5, 3)), labels)
    (real_loss + fake_loss).backward()


@program("graph_freed", tensor="advantage")
def g_actor_and_critic_share_the_advantage():
    actor, critic = nn.Linear(4, 2), nn.Linear(4, 1)
    states, returns = torch.randn(6, 4), torch.randn(6)
    value = critic(states).squeeze(-1)  # victim
    advantage = returns - value
    log_prob = F.log_softmax(actor(states), dim=-1)[:, 0]
    critic_loss = advantage.pow(2).mean()
    actor_loss = -(log_prob * advantage).mean()  # culprit
    critic_loss.backward()
    actor_loss.backward()


@program("graph_freed", tensor="old")
def g_ppo_old_log_probabilities_with_a_graph():
    policy = nn.Linear(4, 2)
    opt = torch.optim.SGD(policy.parameters(), lr=0.1)
    states, actions, gain = torch.randn(6, 4), torch.randint(0, 2, (6, 1)), torch.randn(6, 1)
    old = F.log_softmax(policy(states), dim=-1).gather(1, actions)  # culprit, victim
    for _ in range(3):
        new = F.log_softmax(policy(states), dim=-1).gather(1, actions)
        loss = -((new - old).exp() * gain).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


@program("saved_tensor_modified", tensor="ratio", node="ExpBackward0")
def g_ppo_ratio_clipped_in_place():
    policy = nn.Linear(4, 2)
    states, gain = torch.randn(6, 4), torch.randn(6)
    old = policy(states)[:, 0].detach() - 1
    ratio = torch.exp(policy(states)[:, 0] - old)  # victim
    plain = ratio * gain
    ratio.clamp_(0.8, 1.2)  # culprit
    torch.min(plain, ratio * gain).mean().neg().backward()


@program()
def g_trust_region_step_that_gives_new_memory():
    policy = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))
    surrogate = policy(torch.randn(6, 4)).pow(2).mean()
    flat = nn.utils.parameters_to_vector(policy.parameters()).detach()
    nn.utils.vector_to_parameters(flat * 0.9, policy.parameters())
    surrogate.backward()
    return [p.grad for p in policy.parameters()]


@program("silent_corruption", route="data")
def g_target_network_moved_while_it_is_in_the_loss():
    online, target = (nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2)) for _ in range(2))
    q = online(torch.randn(6, 4)).max(1).values
    wanted = 0.9 * target(torch.randn(6, 4)).max(1).values  # victim
    loss = F.mse_loss(q, wanted)
    for slow, fast in zip(target.parameters(), online.parameters(), strict=True):
        slow.data.copy_(0.9 * slow.data + 0.1 * fast.data)  # culprit
    loss.backward()
    return [p.grad for p in target.parameters()]


@program("silent_corruption")
def g_trust_region_step_tried_before_backward():
    policy = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))
    surrogate = policy(torch.randn(6, 4)).pow(2).mean()  # victim
    for p in policy.parameters():
        p.data.add_(0.1 * torch.ones_like(p))  # culprit
    surrogate.backward()
    return [p.grad for p in policy.parameters()]


@program("saved_tensor_modified", route="self")
def g_world_model_stepped_before_the_policy_s_backward():
    world, policy = nn.Linear(6, 4), nn.Linear(4, 2)
    opt_world = torch.optim.RMSprop(world.parameters())
    state = torch.randn(3, 4)
    action = policy(state)
    following = world(torch.cat([state, action], dim=1))  # victim
    policy_loss = following.pow(2).mean()
    F.mse_loss(world(torch.randn(3, 6)), state).backward()
    opt_world.step()  # culprit
    policy_loss.backward()


@program("saved_tensor_modified", tensor="reward", route="self")
def g_rewards_normalised_in_place_after_the_loss():
    policy = nn.Linear(4, 2)
    reward = torch.randn(6)
    log_prob = F.log_softmax(policy(torch.randn(6, 4)), dim=-1)[:, 0]
    loss = -(log_prob * reward).sum()  # victim
    reward -= reward.mean()  # culprit
    loss.backward()


@program("graph_freed")
def g_episode_replayed_step_by_step():
    policy = nn.Linear(4, 2)
    state = torch.randn(1, 4)
    log_probs = []
    for _ in range(3):
        out = torch.tanh(policy(state))  # victim
        log_probs.append(out.sum())
        state = torch.cat([out, out], dim=1)
    for log_prob in log_probs:
        log_prob.backward()  # culprit
