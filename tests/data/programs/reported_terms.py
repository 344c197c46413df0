"""Values cut off from what they came of, layers from what trains them; rebuilt from reports."""

# ruff: noqa: B007, RUF059  # they stay as people have written them

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


# -- what is detached for one loss enters another


@program("constant_term")
def e_features_of_the_detached_fake():
    """rishikksh20/TFGAN#7: the features of the detached fake enter the generator's loss, those beside them don't."""

    class Discriminator(nn.Module):
        def __init__(self, size=8):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(size, 6), nn.Linear(6, 6)])
            self.out = nn.Linear(6, 1)

        def forward(self, x):
            features = []
            for layer in self.layers:
                x = F.leaky_relu(layer(x), 0.2)
                features.append(x)
            return features, self.out(x)

    gen, disc = nn.Sequential(nn.Linear(3, 8), nn.Tanh()), Discriminator()
    optim_g = torch.optim.Adam(gen.parameters(), lr=0.01)
    optim_d = torch.optim.Adam(disc.parameters(), lr=0.01)
    for step in range(3):
        mel, audio = torch.randn(6, 3), torch.randn(6, 8)
        fake = gen(mel)
        real_features, real_score = disc(audio)
        fake_features, fake_score = disc(fake.detach())
        features_g, score_g = disc(fake)

        adversarial = F.mse_loss(score_g, torch.ones_like(score_g))
        matching = F.l1_loss(fake_features[0], real_features[0].detach())  # culprit
        loss_g = 0.1 * adversarial + 25.0 * matching
        optim_g.zero_grad()
        loss_g.backward(retain_graph=True)  # victim
        optim_g.step()
        loss_d = F.mse_loss(real_score, torch.ones_like(real_score)) + fake_score.pow(2).mean()
        optim_d.zero_grad()
        loss_d.backward()
        optim_d.step()


@program("constant_term")
def e_critic_s_value_in_the_actor_s_loss():
    """An agent: the critic is to learn of a detached state; its value of that enters the encoder's loss as well."""

    class Agent(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.critic = nn.Linear(4, 5), nn.Linear(5, 1)
            self.decoder = nn.Linear(5, 4)

    agent = Agent()
    actor_opt = torch.optim.SGD([*agent.encoder.parameters(), *agent.decoder.parameters()], lr=0.05)
    critic_opt = torch.optim.SGD(agent.critic.parameters(), lr=0.05)
    for step in range(3):
        seen, reward = torch.randn(7, 4), torch.randn(7, 1)
        state = agent.encoder(seen).tanh()
        value = agent.critic(state.detach())
        again = F.mse_loss(agent.decoder(state), seen)
        bonus = value.mean()  # culprit
        loss = again - 0.5 * bonus
        actor_opt.zero_grad()
        loss.backward(retain_graph=True)  # victim
        actor_opt.step()
        critic_loss = (value - reward).pow(2).mean()
        critic_opt.zero_grad()
        critic_loss.backward()
        critic_opt.step()


@program()
def e_legal_a_discriminator_of_two_fakes():
    """The detached fake trains the discriminator, the other one the generator, features and all."""
    gen, disc, head = nn.Linear(3, 8), nn.Linear(8, 6), nn.Linear(6, 1)
    optim_g = torch.optim.Adam(gen.parameters(), lr=0.01)
    optim_d = torch.optim.Adam([*disc.parameters(), *head.parameters()], lr=0.01)
    for step in range(3):
        fake, real = gen(torch.randn(6, 3)), disc(torch.randn(6, 8)).relu()
        fake_features, fake_features_g = disc(fake.detach()).relu(), disc(fake).relu()
        matching = F.l1_loss(fake_features_g, real.detach())
        loss_g = 2.0 * matching - 0.1 * head(fake_features_g).mean()
        optim_g.zero_grad()
        loss_g.backward()
        optim_g.step()
        loss_d = (head(real) - 1).pow(2).mean() + head(fake_features).pow(2).mean()
        optim_d.zero_grad()
        loss_d.backward()
        optim_d.step()


# -- layers that take the place of others, which the optimiser holds


@program("no_optimiser_holds_it")
def e_layers_pruned_behind_the_optimiser():
    """microsoft/nni#4521: a little function makes each smaller layer, and the model is given it."""

    def shrink(layer, keep_out=None, keep_in=None):
        weight, bias = layer.weight.data, layer.bias.data
        if keep_out is not None:
            weight, bias = weight[keep_out], bias[keep_out]
        if keep_in is not None:
            weight = weight[:, keep_in]
        new = nn.Linear(weight.size(1), weight.size(0))
        new.weight.data.copy_(weight)
        new.bias.data.copy_(bias)
        return new

    def speed_up(model):
        keep = model.first.weight.data.abs().sum(1).topk(6).indices
        model.first = shrink(model.first, keep_out=keep)
        model.second = shrink(model.second, keep_in=keep)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(5, 12), nn.Linear(12, 3)

        def forward(self, x):
            return self.second(F.relu(self.first(x)))

    def run(model, optimizer):
        for batch in range(2):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(torch.randn(8, 5)), torch.randint(0, 3, (8,)))
            loss.backward()
            optimizer.step()

    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    run(model, optimizer)
    speed_up(model)  # culprit
    run(model, optimizer)


@program("no_optimiser_holds_it")
def e_norms_converted_behind_the_optimiser():
    """A walk through the model that puts other norms where the old ones were."""

    def group_norm(channels):
        made = nn.GroupNorm(2, channels)
        nn.init.ones_(made.weight)
        return made

    def convert(module):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.BatchNorm1d):
                setattr(module, name, group_norm(child.num_features))
            else:
                convert(child)

    model = nn.Sequential(nn.Linear(4, 6), nn.Sequential(nn.BatchNorm1d(6), nn.ReLU()), nn.Linear(6, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for stage in range(2):
        for step in range(2):
            loss = F.cross_entropy(model(torch.randn(8, 4)), torch.randint(0, 2, (8,)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        convert(model)  # culprit


@program()
def e_legal_layers_replaced_before_the_optimiser():
    """And one behind it, whose parameters it's given."""
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2))
    model[0] = nn.Linear(4, 6, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for stage in range(2):
        for step in range(2):
            loss = F.cross_entropy(model(torch.randn(8, 4)), torch.randint(0, 2, (8,)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model[2] = nn.Linear(6, 2)
        optimizer.add_param_group({"params": list(model[2].parameters())})


# -- no tensor at all: the sum of what was left out, a mean that is counted in Python


class Catalogue(nn.Module):
    """Which bird sings, told by what experts have heard, and by what the last model has guessed."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 4))

    def scores(self, songs):
        return self.layers(songs)


def flocks(count=6):
    """Songs, what was heard of them (-1: nothing), what was guessed, and which of them an expert has heard."""
    for part in range(count):
        songs, heard = torch.randn(8, 6), torch.arange(8) % 4
        expert = torch.arange(8) % 2 == 0
        known = torch.full((8,), part < 3)
        yield songs, torch.where(expert & known, heard, -1), torch.where(known, heard, -1), expert


@program("graph_cut", severity="error")
def e_mean_of_nothing_put_to_zero():
    """pyg-team/pytorch_geometric#10336: a mean over no bird at all is NaN, and a 0 of Python's is put in its place."""

    def settled(value):
        if torch.isnan(value):
            return 0  # culprit
        return value

    def both(scores, heard, guessed, expert, weight=0.5):
        by_expert = settled(F.cross_entropy(scores[expert], heard[expert], ignore_index=-1))
        by_guess = settled(F.cross_entropy(scores[~expert], guessed[~expert], ignore_index=-1))
        return weight * by_guess + (1 - weight) * by_expert

    model = Catalogue()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for songs, heard, guessed, expert in flocks():
        optimizer.zero_grad()
        loss = both(model.scores(songs), heard, guessed, expert)
        loss.backward()  # victim
        optimizer.step()


@program("graph_cut", severity="error")
def e_terms_counted_before_they_are_summed():
    """A dict of terms for the log, and the loss of the same numbers."""
    model = Catalogue()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    def weighed(scores, kinds):
        term = F.cross_entropy(scores, kinds)
        size = scores.square().mean().item()  # culprit
        return term, 0.1 * size

    for _ in range(2):
        _, size = weighed(model.scores(torch.randn(8, 6)), torch.arange(8) % 4)
        optimizer.zero_grad()
        size.backward()  # victim
        optimizer.step()


@program()
def e_legal_mean_of_nothing_that_stays_a_tensor():
    """A part from which nothing is to be learnt is left out; the log alone is of numbers."""
    model = Catalogue()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    total = 0
    for songs, heard, _, _ in flocks():
        if not (heard >= 0).any():
            continue
        optimizer.zero_grad()
        loss = F.cross_entropy(model.scores(songs), heard, ignore_index=-1)
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total


@program()
def e_legal_number_asked_whether_it_is_a_tensor():
    """The error is caught: what is no tensor is taken as it is."""
    model = Catalogue()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    def shown(value):
        try:
            return float(value.detach())
        except AttributeError:
            return float(value)

    for songs, heard, _, _ in flocks(2):
        optimizer.zero_grad()
        loss = F.cross_entropy(model.scores(songs), heard, ignore_index=-1)
        loss.backward()
        optimizer.step()
    return shown(loss) + shown(3)


class Distilled:
    """A large model that has learnt, a small one that is to, and batches."""

    def __init__(self):
        self.large, self.small = nn.Linear(6, 3), nn.Linear(6, 3)
        self.optimizer = torch.optim.Adam(self.small.parameters(), lr=1e-2)

    def batches(self):
        for _ in range(4):
            data, target = torch.randn(8, 6), torch.randint(0, 3, (8,))
            with torch.no_grad():
                large = self.large(data)
            yield large, self.small(data), target

    def step(self, loss):
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


@program("constant_term")
def th_teacher_beside_the_teacher():
    """labmlai/annotated_deep_learning_paper_implementations#66: both sides of the divergence are the large model's."""
    both = Distilled()
    for large, small, target in both.batches():
        soft = F.softmax(large / 5, dim=-1)
        told = F.log_softmax(large / 5, dim=-1)  # culprit
        far = F.kl_div(told, soft, reduction="batchmean")
        both.step(0.5 * far + 0.5 * F.cross_entropy(small, target))


@program()
def th_legal_student_beside_the_teacher():
    """And what the teacher thinks of the labels is only looked at."""
    both, seen = Distilled(), []
    for large, small, target in both.batches():
        soft = F.softmax(large / 5, dim=-1)
        far = F.kl_div(F.log_softmax(small / 5, dim=-1), soft, reduction="batchmean")
        seen.append(F.cross_entropy(large, target))
        both.step(0.5 * far + 0.5 * F.cross_entropy(small, target))
    return torch.stack(seen).mean()


class Kites(nn.Module):
    """Which kind it is, and where its tail hangs: both of what one layer sees."""

    def __init__(self):
        super().__init__()
        self.sees = nn.Linear(8, 12)
        self.kind, self.tail = nn.Linear(12, 3), nn.Linear(12, 2)

    def forward(self, picture):
        seen = torch.relu(self.sees(picture))
        return self.kind(seen), self.tail(seen)


def wrapped(tensor):
    """As it was done before tensors were variables: a tensor of its own on the same memory, without a history."""
    return torch.autograd.Variable(tensor)


@program("constant_term")
def th_tails_of_wrapped_numbers():
    """rimchang/Faster-RCNN-Pytorch-Simple#2: the places are compared by their numbers alone, wrapped anew."""
    model = Kites()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(4):
        picture, target, place = torch.randn(16, 8), torch.randint(0, 3, (16,)), torch.randn(16, 2)
        kind, tail = model(wrapped(picture))
        weight = (target > 0).float()[:, None]
        far = F.smooth_l1_loss(wrapped(tail.data * weight), wrapped(place * weight))  # culprit
        loss = F.cross_entropy(kind, wrapped(target)) + far
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program()
def th_legal_tails_beside_wrapped_numbers():
    """What is wrapped has no history to lose: data, and how far it was last time, by its numbers, for a weight."""
    model, last = Kites(), torch.ones(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(4):
        picture, target, place = torch.randn(16, 8), torch.randint(0, 3, (16,)), torch.randn(16, 2)
        kind, tail = model(wrapped(picture))
        far = F.smooth_l1_loss(tail, wrapped(place))
        loss = F.cross_entropy(kind, wrapped(target)) + far / wrapped(1 + last)
        last = far.data * 0.5
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
