"""What is meant to be a copy and is the thing itself: the best state, a snapshot, a target network, n layers.

Rebuilt from what people report: the best state kept by reference (PyPOTS#667, pytorch/tutorials#188, OpenKE#131,
LP-PDBBind#1, easy-few-shot-learning#129), copied as a dict alone (SMACT#601), a best model that is the model (astnn#8),
target networks that are the policy (Deep-QLearning-Agent-for-Traffic-Signal-Control#31, deep-q-rank#4), one layer many
times (pytorch-vq-vae#2, U-Net_v2#10, ddsp_pytorch#37, Liger-Kernel#269, DAB-DETR#17).
"""

from __future__ import annotations

import copy

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # torch's own convention

from tests.data.programs import program


class Net(nn.Module):
    def __init__(self, features=4, out=3):
        super().__init__()
        self.hidden = nn.Linear(features, 6)
        self.out = nn.Linear(6, out)

    def forward(self, x):
        return self.out(torch.tanh(self.hidden(x)))


def loader(many=2, rows=5):
    for _ in range(many):
        yield torch.randn(rows, 4), torch.randint(0, 3, (rows,))


def train(model, opt, batches):
    for x, y in batches:
        opt.zero_grad()
        F.cross_entropy(model(x), y).backward()
        opt.step()


def validate(model, batches):
    with torch.no_grad():
        return sum(F.cross_entropy(model(x), y).item() for x, y in batches)


# -- a state that moves on


@program("kept_by_reference")
def c_best_state_of_early_stopping():
    model = Net()
    opt = torch.optim.Adam(model.parameters(), lr=0.05)
    best_loss, best_state, patience = float("inf"), None, 2
    for epoch in range(4):
        train(model, opt, loader())
        val_loss = validate(model, loader(1)) + epoch
        if val_loss < best_loss:
            best_loss = val_loss
            best_state = model.state_dict()  # culprit
        else:
            patience -= 1
            if patience == 0:
                break
    if best_state is not None:
        model.load_state_dict(best_state)  # victim
    validate(model, loader(1))


@program("kept_by_reference")
def c_best_state_of_a_trainer():
    class Imputer:
        def __init__(self, epochs):
            self.model = Net()
            self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
            self.epochs = epochs
            self.best_loss = float("inf")
            self.best_model_dict = None

        def _train(self):
            for epoch in range(self.epochs):
                train(self.model, self.optimizer, loader())
                mean_loss = validate(self.model, loader(1)) + 10 * epoch
                if mean_loss < self.best_loss:
                    self.best_loss = mean_loss
                    self.best_model_dict = self.model.state_dict()  # culprit

        def fit(self):
            self._train()
            self.model.load_state_dict(self.best_model_dict)  # victim
            self.model.eval()

    Imputer(3).fit()


@program("kept_by_reference")
def c_the_dict_alone_is_copied():
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    best_val_loss = float("inf")
    epochs_without_improvement = 0
    best_state_dict = {}
    for epoch in range(3):
        model.train()
        train(model, optimizer, loader())
        model.eval()
        val_loss = validate(model, loader(1)) + epoch
        if val_loss < best_val_loss:
            best_val_loss = val_loss
            best_state_dict = model.state_dict().copy()  # culprit
            epochs_without_improvement = 0
        else:
            epochs_without_improvement += 1
    final = Net()
    final.load_state_dict(best_state_dict)  # victim
    return validate(final, loader(1))


@program("kept_by_reference")
def c_parameters_compared_with_themselves():
    model = Net()
    opt = torch.optim.SGD(model.parameters(), lr=0.5)
    before = list(model.parameters())  # culprit
    for _ in range(2):
        train(model, opt, loader())
    moved = 0.0
    for old, new in zip(before, model.parameters(), strict=True):
        moved += (new - old).abs().sum().item()  # victim
    return moved


@program("kept_by_reference")
def c_change_of_the_weights_of_one_step():
    class Monitor:
        def __init__(self, model):
            self.model = model
            self.last = {}

        def start(self):
            self.last = {name: p.data for name, p in self.model.named_parameters()}  # culprit

        def report(self):
            changes = {}
            for name, p in self.model.named_parameters():
                changes[name] = torch.norm(p.data - self.last[name]).item()  # victim
            return changes

    model = Net()
    opt = torch.optim.Adam(model.parameters(), lr=0.01)
    monitor = Monitor(model)
    for _ in range(3):
        monitor.start()
        train(model, opt, loader(1))
        monitor.report()


# -- one module under two names


@program("one_module_twice")
def c_target_network_is_the_policy():
    class Agent:
        def __init__(self):
            self.policy_net = Net(out=2)
            self.target_net = self.policy_net  # culprit
            self.optimizer = torch.optim.Adam(self.policy_net.parameters(), lr=1e-3)
            self.gamma = 0.9

        def learn(self, state, action, reward, after):
            q = self.policy_net(state).gather(1, action)[:, 0]
            with torch.no_grad():
                wanted = reward + self.gamma * self.target_net(after).max(1).values
            loss = F.smooth_l1_loss(q, wanted)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()

    agent = Agent()
    for step in range(4):
        state, after = torch.randn(5, 4), torch.randn(5, 4)
        agent.learn(state, torch.randint(0, 2, (5, 1)), torch.randn(5), after)
        if step % 2:
            agent.target_net.load_state_dict(agent.policy_net.state_dict())


@program("one_module_twice")
def c_one_network_moved_twice():
    """`.to()` of a module hands back that module (easy-rl#140)."""

    class Learner:
        def __init__(self, network, device):
            self.online, self.target_q = network.to(device), network.to(device).eval()  # culprit
            self.opt = torch.optim.SGD(self.online.parameters(), lr=0.05)

        def learn(self, state, after):
            with torch.no_grad():
                wanted = 0.8 * self.target_q(after).amax(1)
            self.opt.zero_grad()
            F.mse_loss(self.online(state).amax(1), wanted).backward()
            self.opt.step()

    learner = Learner(Net(out=2), torch.device("cpu"))
    for _ in range(3):
        learner.learn(torch.randn(6, 4), torch.randn(6, 4))


@program("one_module_twice")
def c_teacher_by_an_annotated_name():
    student = Net()
    teacher: nn.Module = student.float()  # culprit
    opt = torch.optim.SGD(student.parameters(), lr=0.1)
    for x, y in loader(3):
        with torch.no_grad():
            wanted = teacher(x).softmax(1)
        opt.zero_grad()
        out = student(x)
        (F.cross_entropy(out, wanted) + F.cross_entropy(out, y)).backward()
        opt.step()


@program("one_module_twice")
def c_best_model_is_the_model():
    model = Net()
    best_model = model  # culprit
    optimizer = torch.optim.Adamax(model.parameters())
    best_acc = 0.0
    for _epoch in range(3):
        total, right = 0, 0
        train(model, optimizer, loader())
        with torch.no_grad():
            for x, y in loader(1):
                right += (model(x).argmax(1) == y).sum().item()
                total += len(y)
        if right / total > best_acc:
            best_acc = right / total
            best_model = model
    model = best_model
    validate(model, loader(1))


@program("one_module_twice")
def c_old_policy_is_the_new_one():
    def ppo(epochs):
        policy = Net(out=2)
        old_policy = policy  # culprit
        opt = torch.optim.Adam(policy.parameters(), lr=0.01)
        for _ in range(epochs):
            state, advantage = torch.randn(6, 4), torch.randn(6)
            action = torch.randint(0, 2, (6, 1))
            with torch.no_grad():
                old = F.log_softmax(old_policy(state), 1).gather(1, action)[:, 0]
            new = F.log_softmax(policy(state), 1).gather(1, action)[:, 0]
            ratio = (new - old).exp()
            clipped = ratio.clamp(0.8, 1.2)
            loss = -torch.min(ratio * advantage, clipped * advantage).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
        return policy

    ppo(3)


@program("one_module_twice")
def c_shallow_copy_as_the_teacher():
    student = Net()
    teacher = copy.copy(student)  # culprit
    opt = torch.optim.SGD(student.parameters(), lr=0.1)
    temperature, weight = 2.0, 0.5
    for x, y in loader(3):
        with torch.no_grad():
            soft = F.softmax(teacher(x) / temperature, 1)
        logits = student(x)
        distilled = F.kl_div(F.log_softmax(logits / temperature, 1), soft, reduction="batchmean")
        loss = weight * F.cross_entropy(logits, y) + (1 - weight) * distilled
        opt.zero_grad()
        loss.backward()
        opt.step()


@program("one_module_twice")
def c_one_residual_block_many_times():
    class Residual(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.block = nn.Sequential(nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))

        def forward(self, x):
            return x + self.block(x)

    class ResidualStack(nn.Module):
        def __init__(self, width, layers):
            super().__init__()
            self._layers = nn.ModuleList([Residual(width)] * layers)  # culprit

        def forward(self, x):
            for layer in self._layers:
                x = layer(x)
            return x

    model = nn.Sequential(nn.Linear(4, 5), ResidualStack(5, 3), nn.Linear(5, 3))
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(2):
        train(model, opt, loader())


@program("one_module_twice")
def c_one_head_for_each_task():
    class Heads(nn.Module):
        def __init__(self, tasks):
            super().__init__()
            self.body = nn.Linear(4, 6)
            head = nn.Linear(6, 3)
            self.heads = nn.ModuleList([head for _ in range(tasks)])  # culprit

        def forward(self, x):
            features = torch.relu(self.body(x))
            return [head(features) for head in self.heads]

    model = Heads(3)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader(3):
        losses = [F.cross_entropy(out, (y + k) % 3) for k, out in enumerate(model(x))]
        opt.zero_grad()
        sum(losses).backward()
        opt.step()


# -- right


@program()
def e_best_state_copied():
    model = Net()
    opt = torch.optim.Adam(model.parameters(), lr=0.05)
    best_loss, best_state = float("inf"), copy.deepcopy(model.state_dict())
    for epoch in range(3):
        train(model, opt, loader())
        val_loss = validate(model, loader(1)) + epoch
        if val_loss < best_loss:
            best_loss, best_state = val_loss, {k: v.clone() for k, v in model.state_dict().items()}
    model.load_state_dict(best_state)


@program()
def e_target_network_moved_after_the_copy():
    policy = Net(out=2).to("cpu")
    target_net, shadow = copy.deepcopy(policy).to("cpu"), Net(out=2).to("cpu").eval()
    opt = torch.optim.Adam(policy.parameters(), lr=1e-3)
    for _ in range(3):
        with torch.no_grad():
            wanted = torch.min(target_net(torch.randn(5, 4)), shadow(torch.randn(5, 4))).amax(1)
        opt.zero_grad()
        F.mse_loss(policy(torch.randn(5, 4)).amax(1), wanted).backward()
        opt.step()


@program()
def e_one_model_moved_where_it_stays():
    """Two names that promise no copy, and the same module moved again."""
    model = Net()
    network = model.to("cpu")
    network = network.train().float()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    train(network, opt, loader(3))


@program()
def e_target_network_copied_and_updated():
    policy = Net(out=2)
    target = copy.deepcopy(policy).requires_grad_(False)
    hard = Net(out=2)
    hard.load_state_dict(policy.state_dict())
    opt = torch.optim.Adam(policy.parameters(), lr=1e-3)
    for step in range(4):
        state, after = torch.randn(5, 4), torch.randn(5, 4)
        with torch.no_grad():
            wanted = 0.9 * torch.min(target(after), hard(after)).max(1).values
        loss = F.mse_loss(policy(state)[:, 0], wanted)
        opt.zero_grad()
        loss.backward()
        opt.step()
        for slow, fast in zip(target.parameters(), policy.parameters(), strict=True):
            slow.data.mul_(0.99).add_(fast.data, alpha=0.01)
        if step % 2:
            hard.load_state_dict(policy.state_dict())


@program()
def e_a_second_name_for_the_model():
    class Wrapper:
        def __init__(self, model):
            self.model = model
            self.net = model
            self.opt = torch.optim.SGD(model.parameters(), lr=0.1)

        def fit(self):
            unwrapped = self.model
            train(self.net, self.opt, loader())
            return unwrapped

    Wrapper(Net()).fit()


@program()
def e_snapshots_that_are_clones():
    model = Net()
    opt = torch.optim.SGD(model.parameters(), lr=0.5)
    before = [p.detach().clone() for p in model.parameters()]
    train(model, opt, loader())
    moved = sum((new - old).abs().sum().item() for old, new in zip(before, model.parameters(), strict=True))
    straight = torch.randn(4, requires_grad=True)
    hard = straight + (straight.round() - straight).detach()
    (hard * (straight - straight.detach() + 1)).sum().backward()
    return moved


@program()
def e_layers_that_share_what_has_no_weights():
    act = nn.ReLU()
    embed = nn.Linear(6, 4)
    model = nn.Sequential(nn.Linear(4, 6), act, nn.Linear(6, 6), act, embed)
    decoder = nn.Linear(4, 6)
    decoder.weight = nn.Parameter(embed.weight.detach().T.clone())
    layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
    opt = torch.optim.Adam([*model.parameters(), *decoder.parameters(), *layers.parameters()], lr=1e-3)
    for x, _ in loader(3):
        h = model(x)
        for layer in layers:
            h = torch.tanh(layer(h))
        loss = F.mse_loss(decoder(h)[:, :4], x)
        opt.zero_grad()
        loss.backward()
        opt.step()


@program()
def e_state_saved_right_away():
    model, other = Net(), Net()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        train(model, opt, loader())
        state = model.state_dict()
        other.load_state_dict(state)
        checkpoint = {"model": {k: v.clone() for k, v in state.items()}, "optimiser": opt.state_dict()}
    model.load_state_dict(checkpoint["model"])
