"""More of the same bugs, in other people's styles: written after the finders, keys fixed before the first run.

Gradients left off by a generator that yields inside `no_grad`, frozen Sequentials by their items, best weights as a
list of `.data`, losses in a dict of lists and in records, an optimiser that was given what required grad before the
thaw.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # torch's own convention

from tests.data.programs import program


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 6), nn.ReLU())
        self.classifier = nn.Linear(6, 3)

    def forward(self, x):
        return self.classifier(self.features(x))


def data(many=4):
    return [(torch.randn(5, 4), torch.randint(0, 3, (5,))) for _ in range(many)]


@program("freeze_without_effect")
def w_items_of_a_sequential():
    net = Small()
    for param in net.features:
        param.requires_grad = False  # culprit
    net.classifier = nn.Linear(6, 3)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for epoch in range(2):
        correct = 0
        for inputs, labels in data(2):
            optimizer.zero_grad()
            outputs = net(inputs)
            loss = F.cross_entropy(outputs, labels)
            loss.backward()
            optimizer.step()  # victim
            correct += (outputs.argmax(1) == labels).sum().item()
        assert correct >= 0, epoch


@program("graph_cut", severity="error")
def w_a_generator_yields_inside_no_grad():
    teacher, student = Small(), Small()
    opt = torch.optim.SGD(student.parameters(), lr=0.1)

    def with_soft_labels(batches):
        with torch.no_grad():  # culprit
            for x, _ in batches:
                yield x, F.softmax(teacher(x), 1)

    batches = with_soft_labels(data())
    try:
        for x, soft in batches:
            logits = student(x)
            loss = F.kl_div(F.log_softmax(logits, 1), soft, reduction="batchmean")
            opt.zero_grad()
            loss.backward()  # victim
            opt.step()
    finally:
        batches.close()


@program("graph_cut", severity="error")
def w_an_evaluation_calls_a_training_step():
    class Runner:
        def __init__(self):
            self.net = Small()
            self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)

        def step(self, x, y):
            out = self.net(x)
            loss = F.cross_entropy(out, y)
            self.opt.zero_grad()
            loss.backward()  # victim
            self.opt.step()
            return loss.item()

        def adapt_and_test(self, support, query):
            with torch.no_grad():  # culprit
                for x, y in support:
                    self.step(x, y)
                return sum((self.net(x).argmax(1) == y).sum().item() for x, y in query)

    runner = Runner()
    for x, y in data(2):
        runner.step(x, y)
    runner.adapt_and_test(data(2), data(1))


@program("kept_by_reference")
def w_best_weights_as_a_list_of_data():
    net = Small()
    opt = torch.optim.SGD(net.parameters(), lr=0.2)
    best, weights = float("inf"), None
    for epoch in range(3):
        for x, y in data(2):
            opt.zero_grad()
            F.cross_entropy(net(x), y).backward()
            opt.step()
        with torch.no_grad():
            score = sum(F.cross_entropy(net(x), y).item() for x, y in data(1)) + epoch
        if score < best:
            best = score
            weights = [p.data for p in net.parameters()]  # culprit
    for p, w in zip(net.parameters(), weights, strict=True):
        p.data.copy_(w)  # victim


@program("kept_by_reference")
def w_state_rebuilt_item_by_item():
    net = Small()
    opt = torch.optim.Adam(net.parameters(), lr=0.05)
    snapshots = {}
    for epoch in range(3):
        for x, y in data(2):
            opt.zero_grad()
            F.cross_entropy(net(x), y).backward()
            opt.step()
        snapshots[epoch] = {k: v.cpu() for k, v in net.state_dict().items()}  # culprit
    net.load_state_dict(snapshots[0])  # victim
    return net(torch.ones(1, 4))


@program("graph_kept")
def w_a_dict_of_lists():
    net = Small()
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    history = defaultdict(list)
    for epoch in range(2):
        for x, y in data(4):
            logits = net(x)
            loss = F.cross_entropy(logits, y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            history["loss"].append(loss)  # culprit
            history["accuracy"].append((logits.argmax(1) == y).float().mean().item())
        history["epoch"].append(epoch)


@program("graph_kept")
def w_records_of_each_step():
    @dataclass
    class Record:
        step: int
        loss: torch.Tensor

    class Log:
        def __init__(self):
            self.records = []

        def write(self, step, loss):
            self.records.append(Record(step, loss))  # culprit

    net, log = Small(), Log()
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for step, (x, y) in enumerate(data(9)):
        loss = F.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        log.write(step, loss)


@program("graph_kept")
def w_the_sum_is_trained_again_and_again():
    net = Small()
    opt = torch.optim.SGD(net.parameters(), lr=0.0)
    total_loss = 0
    for x, y in data(5):
        out = net(x)
        total_loss = total_loss + F.cross_entropy(out, y)  # culprit
        opt.zero_grad()
        total_loss.backward(retain_graph=True)
        with torch.no_grad():
            for p in net.parameters():
                p.data = p.data - 0.1 * p.grad


@program("graph_kept")
def w_evaluation_collects_scores_in_a_class():
    class Evaluator:
        def __init__(self, net):
            self.net = net
            self.scores = []

        def add(self, x):
            self.scores.append(F.softmax(self.net(x), 1))  # culprit

        def result(self):
            return torch.cat(self.scores).max(1).values.mean().item()

    net = Small()
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for x, y in data(2):
        opt.zero_grad()
        F.cross_entropy(net(x), y).backward()
        opt.step()
    evaluator = Evaluator(net.eval())
    for x, _ in data(4):
        evaluator.add(x)
    evaluator.result()


@program("no_optimiser_holds_it")
def w_thawed_after_the_optimiser_was_made():
    net = Small()
    for p in net.features.parameters():
        p.requires_grad = False
    opt = torch.optim.Adam([p for p in net.parameters() if p.requires_grad], lr=1e-2)
    for epoch in range(3):
        if epoch == 1:
            for p in net.features.parameters():
                p.requires_grad = True  # culprit
        for x, y in data(2):
            loss = F.cross_entropy(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()  # victim


@program("one_module_twice")
def w_momentum_encoder_is_the_encoder():
    class MoCo(nn.Module):
        def __init__(self, encoder):
            super().__init__()
            self.encoder = encoder
            self.momentum_encoder = encoder  # culprit
            self.m = 0.9

        def forward(self, a, b):
            q = F.normalize(self.encoder(a), dim=1)
            with torch.no_grad():
                for slow, fast in zip(self.momentum_encoder.parameters(), self.encoder.parameters(), strict=True):
                    slow.data = self.m * slow.data + (1 - self.m) * fast.data
                k = F.normalize(self.momentum_encoder(b), dim=1)
            return q @ k.T / 0.2

    model = MoCo(Small())
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, _ in data(3):
        logits = model(x + 0.1 * torch.randn_like(x), x + 0.1 * torch.randn_like(x))
        loss = F.cross_entropy(logits, torch.arange(len(x)))
        opt.zero_grad()
        loss.backward()
        opt.step()


@program("learns_no_more")
def w_both_players_are_switched_off_by_the_first():
    def set_requires_grad(nets, requires_grad=False):
        for net in nets:
            for param in net.parameters():
                param.requires_grad = requires_grad

    gen, disc = nn.Linear(2, 4), nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
    style = nn.Parameter(torch.zeros(1))
    opt_g = torch.optim.Adam([*gen.parameters(), style], lr=1e-3)
    opt_d = torch.optim.Adam(disc.parameters(), lr=1e-3)
    for _ in range(3):
        fake = gen(torch.randn(5, 2)) + style
        set_requires_grad([disc], False)
        opt_g.zero_grad()
        (-disc(fake).mean()).backward()
        opt_g.step()
        set_requires_grad([disc])  # culprit
        opt_d.zero_grad()
        loss_d = disc(fake.detach()).mean() - disc(torch.randn(5, 4)).mean()
        if loss_d.requires_grad:
            loss_d.backward()
        opt_d.step()  # victim


@program()
def v_no_grad_where_it_belongs():
    net, teacher = Small(), Small()
    opt = torch.optim.SGD(net.parameters(), lr=0.1)

    @torch.no_grad()
    def labels(batches):
        for x, _ in batches:
            yield x, teacher(x).argmax(1)

    log = defaultdict(list)
    for x, y in labels(data(5)):
        loss = F.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        log["loss"].append(loss.item())
        log["last"] = [loss]


@program()
def v_thawed_and_given_to_the_optimiser():
    net = Small()
    net.features.requires_grad_(False)
    opt = torch.optim.Adam([p for p in net.parameters() if p.requires_grad], lr=1e-2)
    for epoch in range(3):
        if epoch == 1:
            net.features.requires_grad_(True)
            opt.add_param_group({"params": list(net.features.parameters()), "lr": 1e-3})
        for x, y in data(2):
            loss = F.cross_entropy(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()


@program()
def v_weights_kept_as_clones():
    net = Small()
    opt = torch.optim.SGD(net.parameters(), lr=0.2)
    weights = []
    for _ in range(3):
        for x, y in data(1):
            opt.zero_grad()
            F.cross_entropy(net(x), y).backward()
            opt.step()
        weights.append([p.data.clone() for p in net.parameters()])
    for p, first, last in zip(net.parameters(), weights[0], weights[-1], strict=True):
        p.data.copy_((first + last) / 2)


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1))

    def forward(self, x):
        return self.layers(x).squeeze(1)


@program("weight_learns_too")
def w_the_difference_is_written_out_twice():
    """encode-attend-navigate-pytorch#3: one for the policy, one for the critic; neither is detached."""
    policy, critic = nn.Linear(4, 3), Critic()
    opt = torch.optim.Adam([*policy.parameters(), *critic.parameters()], lr=0.01)
    for _ in range(2):
        state, gain = torch.randn(8, 4), torch.randn(8)
        chosen = torch.distributions.Categorical(logits=policy(state))
        log_prob = chosen.log_prob(chosen.sample())
        actor_loss = -(log_prob * (gain - critic(state))).mean()  # culprit
        critic_loss = (gain - critic(state)).square().mean()
        opt.zero_grad()
        (actor_loss + critic_loss).backward()  # victim
        opt.step()


@program()
def x_the_difference_is_written_out_twice_and_one_is_a_number():
    policy, critic, scale = nn.Linear(4, 3), Critic(), nn.Linear(4, 1)
    opt = torch.optim.Adam([*policy.parameters(), *critic.parameters(), *scale.parameters()], lr=0.01)
    for _ in range(2):
        state, gain = torch.randn(8, 4), torch.randn(8)
        chosen = torch.distributions.Categorical(logits=policy(state))
        log_prob = chosen.log_prob(chosen.sample())
        actor_loss = -(log_prob * (gain - critic(state).detach())).mean()
        critic_loss = (gain - critic(state)).square().mean()
        certain = (scale(state).squeeze(1) * (gain - state.sum(1))).mean()
        opt.zero_grad()
        (actor_loss + critic_loss + 0.1 * certain).backward()
        opt.step()


@program("no_optimiser_holds_it")
def w_a_copy_learns_in_place_of_the_model():
    """Truxify#13118: the inner steps of MAML are made in a copy, and nothing leads back to what was copied."""
    model = Critic()
    opt = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(3):
        x, y = torch.randn(6, 4), torch.randn(6)
        fast = copy.deepcopy(model)  # culprit
        for gradient, p in zip(
            torch.autograd.grad(F.mse_loss(fast(x), y), list(fast.parameters())), fast.parameters(), strict=True
        ):
            p.data.sub_(gradient, alpha=0.1)
        opt.zero_grad()
        F.mse_loss(fast(x), y).backward()
        opt.step()  # victim


@program()
def x_a_copy_hands_its_gradients_on():
    """First-order MAML, Reptile; and the report of how far it went, behind the last step."""
    model = Critic()
    before = [p.detach().clone() for p in model.parameters()]
    opt = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(3):
        x, y = torch.randn(6, 4), torch.randn(6)
        fast = copy.deepcopy(model)
        inner = torch.optim.SGD(fast.parameters(), lr=0.1)
        for _ in range(2):
            inner.zero_grad()
            F.mse_loss(fast(x), y).backward()
            inner.step()
        for p, q in zip(model.parameters(), fast.parameters(), strict=True):
            p.grad = q.grad.clone()
        opt.step()
    return max((p - q).abs().max().item() for p, q in zip(model.parameters(), before, strict=True))


@program()
def x_the_new_weights_are_computed():
    model = Critic()
    opt = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(3):
        x, y = torch.randn(6, 4), torch.randn(6)
        weights = dict(model.named_parameters())
        inner = F.mse_loss(torch.func.functional_call(model, weights, (x,)), y)
        gradients = torch.autograd.grad(inner, list(weights.values()), create_graph=True)
        fast = {name: p - 0.1 * g for (name, p), g in zip(weights.items(), gradients, strict=True)}
        opt.zero_grad()
        F.mse_loss(torch.func.functional_call(model, fast, (x,)), y).backward()
        opt.step()


# -- evaluation, and training again


class Dropped(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Dropout(0.2), nn.Linear(6, 3))

    def forward(self, x):
        return self.layers(x)


def learn_from(net, opt, many=3):
    for x, y in data(many):
        opt.zero_grad()
        F.cross_entropy(net(x), y).backward()
        opt.step()


@program("trained_in_evaluation")
def w_an_evaluation_without_a_way_back():
    """ncsn#2, coRNN#1: the first epoch trains, all others train in evaluation mode."""

    class Runner:
        def __init__(self):
            self.net = Dropped()
            self.opt = torch.optim.Adam(self.net.parameters(), lr=0.01)

        def score(self):
            self.net.eval()  # culprit
            with torch.no_grad():
                return sum(F.cross_entropy(self.net(x), y).item() for x, y in data(1))

        def fit(self):
            self.net.train()
            for _ in range(4):
                learn_from(self.net, self.opt)
                self.score()

    Runner().fit()


@program()
def x_evaluations_that_end():
    """Back in training mode each epoch; batch statistics frozen alone; a second phase with an optimiser of its own."""
    net = Dropped()
    opt = torch.optim.Adam(net.parameters(), lr=0.01)
    for epoch in range(4):
        net.train()
        if epoch > 1:
            net.layers[1].eval()
        learn_from(net, opt)
        net.eval()
        with torch.no_grad():
            sum(F.cross_entropy(net(x), y).item() for x, y in data(1))
    learn_from(net, torch.optim.SGD(net.layers[4].parameters(), lr=0.1))


@program()
def x_gradients_of_two_losses_are_weighed():
    """Zeros in place, and another gradient in the place of the old one: the other player's loss is cleared away."""
    judge, maker = nn.Linear(3, 1), nn.Linear(2, 3)
    by_judge, by_maker = (torch.optim.SGD(each.parameters(), lr=0.1) for each in (judge, maker))
    for _ in range(3):
        made = maker(torch.randn(5, 2))
        by_judge.zero_grad(set_to_none=False)
        judge(torch.randn(5, 3)).mean().backward()
        real = [p.grad.clone() for p in judge.parameters()]
        by_judge.zero_grad(set_to_none=False)
        judge(made.detach()).mean().neg().backward()
        for p, g in zip(judge.parameters(), real, strict=True):
            p.grad = 0.5 * p.grad + 2 * g
        by_judge.step()
        by_maker.zero_grad()
        judge(made).mean().neg().backward()
        by_maker.step()


@program("graph_cut", severity="note")
def w_log_probs_rebuilt_of_a_memory():
    """DeepReinforcementLearning_Pytorch#1; the advantage that weighs them is right to be a number."""
    policy, critic = nn.Linear(4, 2), Critic()
    opt = torch.optim.Adam([*policy.parameters(), *critic.parameters()], lr=0.01)
    for _ in range(2):
        memory, gains = [], torch.randn(5)
        states = torch.randn(5, 4)
        for state in states:
            chosen = torch.distributions.Categorical(logits=policy(state))
            memory.append(chosen.log_prob(chosen.sample()))
        log_probs = torch.tensor(memory)  # culprit
        values = critic(states)
        advantage = gains - values.detach()
        loss = (gains - values).pow(2).mean() - (log_probs * advantage).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
