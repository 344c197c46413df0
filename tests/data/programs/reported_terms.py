"""Values that were cut off from what they came of, by one of several ways; rebuilt from reports."""

# ruff: noqa: B007  # they stay as people have written them

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # torch's own convention

from tests.data.programs import program

# -- two ways lead to the loss: by numbers that were cut, and by a choice that never carries a gradient


@program("graph_cut")
def e_logits_masked_in_a_detached_copy():
    """alexhernandezgarcia/gflownet#251: the sampler's `no_grad` is right, what comes out of it chooses only."""

    class Agent:
        def __init__(self, side=4):
            self.side = side
            self.policy = nn.Sequential(nn.Linear(side, 12), nn.LeakyReLU(), nn.Linear(12, 2))
            self.log_z = nn.Parameter(torch.zeros(1))
            self.opt = torch.optim.Adam([*self.policy.parameters(), self.log_z], lr=0.01)

        def log_probs(self, outputs, actions, invalid):
            logits = outputs.clone().detach()  # culprit
            logits[invalid] = -1000.0
            return torch.log_softmax(logits, -1).gather(1, actions[:, None]).squeeze(1)

        def rollout(self, n):
            state, total = torch.zeros(n, dtype=torch.long), torch.zeros(n)
            for move in range(3):
                outputs = self.policy(F.one_hot(state, self.side).float())
                invalid = torch.stack([state == self.side - 1, state < 0], 1)
                with torch.no_grad():
                    odds = outputs.masked_fill(invalid, -1000.0)
                    actions = torch.distributions.Categorical(logits=odds).sample()
                total = total + self.log_probs(outputs, actions, invalid)
                state = state + (actions == 0).long()
            return state, total

    agent = Agent()
    for step in range(3):
        state, log_forward = agent.rollout(8)
        loss = (agent.log_z + log_forward - (state.float() + 1).log()).pow(2).mean()
        agent.opt.zero_grad()
        loss.backward()  # victim
        agent.opt.step()


@program("graph_cut")
def e_hard_assignment_beside_data_of_the_distances():
    """Clusters: the nearest is chosen without gradients; the loss takes the distances' `.data`."""
    encoder, centres = nn.Linear(5, 3), torch.randn(4, 3)
    opt = torch.optim.SGD([*encoder.parameters(), (scale := nn.Parameter(torch.ones(())))], lr=0.1)

    def nearest(codes):
        with torch.no_grad():
            return torch.cdist(codes, centres).argmin(1)

    for step in range(3):
        codes = encoder(torch.randn(10, 5))
        chosen = nearest(codes)
        distances = torch.cdist(codes, centres).data  # culprit
        distances.clamp_(max=5.0)
        loss = (scale * distances.gather(1, chosen[:, None])).mean()
        opt.zero_grad()
        loss.backward()  # victim
        opt.step()


@program()
def e_legal_choices_without_a_gradient():
    """What was drawn or chosen under `no_grad` weighs nothing by itself; a buffer is written over in place."""
    policy = nn.Linear(4, 3)
    opt = torch.optim.Adam(policy.parameters(), lr=0.01)
    kept = torch.zeros(6, 3)
    for step in range(3):
        logits = policy(torch.randn(6, 4))
        with torch.no_grad():
            actions = torch.distributions.Categorical(logits=logits).sample()
        kept.copy_(logits.detach())
        kept[0] = 0.0
        loss = -(torch.log_softmax(logits, 1).gather(1, actions[:, None]).squeeze(1) * kept.sum(1)).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
