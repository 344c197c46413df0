"""Graphs that live on from lap to lap because something holds a tensor that leads into them, and loops that hold none.

Rebuilt from what people report: running sums of losses (labelmodels#4, brax#152, MVTN#2, pytorch#64586), losses and
outputs in lists (packnet-sfm#51, mi-prometheus#111, lambeq#251, Continuous-Recurrent-Units#4), validation with its
graphs (MTN#7), hidden states that are carried on, with `retain_graph=True` to still the error.
"""

from __future__ import annotations

from collections import deque

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # torch's own convention

from tests.data.programs import program


class Net(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.hidden = nn.Linear(4, width)
        self.out = nn.Linear(width, 3)

    def forward(self, x):
        return self.out(torch.tanh(self.hidden(x)))


def loader(many=4, rows=6):
    for _ in range(many):
        yield torch.randn(rows, 4), torch.randint(0, 3, (rows,))


def train_one(model, opt, x, y):
    opt.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    opt.step()
    return loss


# -- sums


@program("graph_kept")
def g_running_loss_of_an_epoch():
    model = Net()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def train(epoch):
        model.train()
        running_loss = 0.0
        for inputs, labels in loader(5):
            optimizer.zero_grad()
            outputs = model(inputs)
            loss = criterion(outputs, labels)
            loss.backward()
            optimizer.step()
            running_loss += loss  # culprit
        return epoch, running_loss / 5

    history = []
    for epoch in range(2):
        _, average = train(epoch)
        history.append(float(average))


@program("graph_kept")
def g_smoothed_loss_for_the_progress_bar():
    class Meter:
        def __init__(self, decay=0.9):
            self.decay = decay
            self.value = None

        def update(self, new):
            if self.value is None:
                self.value = new
            else:
                self.value = self.decay * self.value + (1 - self.decay) * new  # culprit

    class Trainer:
        def __init__(self):
            self.model = Net()
            self.opt = torch.optim.Adam(self.model.parameters(), lr=1e-3)
            self.meter = Meter()

        def run(self, batches):
            shown = []
            for x, y in batches:
                loss = train_one(self.model, self.opt, x, y)
                self.meter.update(loss)
                shown.append(f"{float(self.meter.value):.3f}")
            return shown

    Trainer().run(loader(6))


@program("graph_kept")
def g_parts_of_the_loss_in_a_dict():
    encoder, decoder = nn.Linear(4, 4), nn.Linear(2, 4)
    opt = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-3)
    logs = {"reconstruction": 0.0, "kl": 0.0}
    for epoch in range(2):
        for x, _ in loader(3):
            mean, log_var = encoder(x).chunk(2, 1)
            z = mean + torch.randn_like(mean) * (0.5 * log_var).exp()
            reconstruction = F.mse_loss(decoder(z), x)
            kl = -0.5 * (1 + log_var - mean.pow(2) - log_var.exp()).mean()
            loss = reconstruction + 0.1 * kl
            opt.zero_grad()
            loss.backward()
            opt.step()
            logs["reconstruction"] += reconstruction.item()
            logs["kl"] += kl  # culprit
        print_every = 1
        if epoch % print_every == 0:
            "{reconstruction:.3f} {kl:.3f}".format(**logs)


@program("graph_kept")
def g_validation_loss_without_no_grad():
    model = Net(16)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss()

    def validate(batches):
        model.eval()
        val_loss, right, total = 0, 0, 0
        for x, y in batches:
            out = model(x)
            val_loss += criterion(out, y)  # culprit
            right += (out.argmax(1) == y).sum().item()
            total += len(y)
        return val_loss / total, right / total

    best = float("inf")
    for _epoch in range(2):
        model.train()
        for x, y in loader(2):
            train_one(model, opt, x, y)
        val_loss, _accuracy = validate(loader(4))
        best = min(best, float(val_loss))


# -- lists


@program("graph_kept")
def g_losses_in_a_list():
    model = Net()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for epoch in range(2):
        for x, y in loader(4):
            opt.zero_grad()
            pred = model(x)
            loss = F.cross_entropy(pred, y)
            loss.backward()
            opt.step()
            losses.append(loss)  # culprit
        mean = sum(losses).item() / len(losses)
        assert mean > 0, epoch


@program("graph_kept")
def g_outputs_kept_for_the_metric():
    class Experiment:
        def __init__(self):
            self.model = Net()
            self.opt = torch.optim.Adam(self.model.parameters(), lr=1e-3)
            self.outputs = []
            self.targets = []

        def step(self, x, y):
            out = self.model(x)
            loss = F.cross_entropy(out, y)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            self.outputs.append(out)  # culprit
            self.targets.append(y)
            return loss.item()

        def fit(self):
            for x, y in loader(5):
                self.step(x, y)
            predicted = torch.cat(self.outputs).argmax(1)
            return (predicted == torch.cat(self.targets)).float().mean()

    Experiment().fit()


@program("graph_kept")
def g_predictions_of_the_validation_set():
    model = Net()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader(2):
        train_one(model, opt, x, y)

    def predict(batches):
        model.eval()
        preds, targets = [], []
        for x, y in batches:
            logits = model(x)
            preds.append(logits)  # culprit
            targets.append(y)
        return torch.cat(preds), torch.cat(targets)

    preds, targets = predict(loader(5))
    accuracy = (preds.argmax(1) == targets).float().mean().item()
    assert 0 <= accuracy <= 1


@program("graph_kept")
def g_a_window_of_the_last_losses():
    model = Net()
    opt = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    window = deque(maxlen=50)
    patience, bad = 3, 0
    best = float("inf")
    for _epoch in range(2):
        for x, y in loader(4):
            loss = F.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            window.append({"loss": loss, "size": len(y)})  # culprit
        average = sum(each["loss"].item() * each["size"] for each in window)
        bad = 0 if average < best else bad + 1
        best = min(best, average)
        if bad > patience:
            break


class Hives:
    """Scales under beehives: what a night's weights foretell of the next day, epoch by epoch; as packnet-sfm#51."""

    def __init__(self):
        self.model = nn.Sequential(Net(), nn.Tanh(), nn.Linear(3, 3))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05)

    def foretell(self, x, y):
        scores = self.model(x).log_softmax(1)
        smooth = (scores[:, 1:] - scores[:, :-1]).abs().mean() + scores.exp().square().sum(1).mean()
        return {"loss": F.nll_loss(scores, y) + 0.01 * smooth, "metrics": {"right": (scores.argmax(1) == y).float()}}

    def learn(self, x, y):
        result = self.foretell(x, y)
        self.optimizer.zero_grad()
        result["loss"].backward()
        self.optimizer.step()
        return result


@program("graph_kept")
def g_results_of_each_epoch_handed_back():
    """The first epoch's are long forgotten when the last one ends."""

    def epoch(hives):
        results = []
        for x, y in loader(20):
            results.append(hives.learn(x, y))  # culprit
        return results

    def average(results):
        return sum(each["loss"].item() for each in results) / len(results)

    hives = Hives()
    assert all(average(epoch(hives)) > 0 for _ in range(6))


@program("graph_kept")
def g_results_under_another_name():
    """The list has grown in a function that is over, and a second one gave it its name."""

    def nights(hives, many):
        results, seen = [], 0
        for x, y in loader(many):
            results.append(hives.learn(x, y))  # culprit
            seen += len(x)
        return seen, results

    def warm_up(hives):
        _, first = nights(hives, 3)
        return first

    def fit(hives):
        early = warm_up(hives)
        nights(hives, 2)
        return early[0]["loss"].item()

    fit(Hives())


# -- carried on


@program("graph_kept")
def g_hidden_state_with_retain_graph():
    cell, head = nn.GRUCell(3, 5), nn.Linear(5, 1)
    opt = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.0)
    hidden = torch.zeros(2, 5)
    stream = torch.randn(6, 2, 3)
    for t in range(5):
        hidden = cell(stream[t], hidden)  # culprit
        loss = F.mse_loss(head(hidden), stream[t + 1, :, :1])
        opt.zero_grad()
        loss.backward(retain_graph=True)
        for p in [*cell.parameters(), *head.parameters()]:
            p.data = p.data - 0.01 * p.grad


@program("graph_kept")
def g_memory_of_an_agent():
    class Agent(nn.Module):
        def __init__(self):
            super().__init__()
            self.read = nn.Linear(4, 4)
            self.write = nn.Linear(4, 4)
            self.head = nn.Linear(4, 1)

        def forward(self, x, memory):
            seen = torch.tanh(self.read(x) + memory)
            return self.head(seen), torch.tanh(self.write(seen))

    agent = Agent()
    memory = torch.zeros(3, 4)
    total = 0.0
    for _ in range(5):
        x, y = torch.randn(3, 4), torch.randn(3, 1)
        out, new = agent(x, memory)
        loss = F.mse_loss(out, y)
        loss.backward(retain_graph=True)
        memory = 0.5 * memory + 0.5 * new  # culprit
        total += loss.item()


# -- right


@program()
def h_sums_of_numbers():
    model = Net()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    running, smoothed, losses, window = 0.0, None, [], deque(maxlen=3)
    for _epoch in range(2):
        for x, y in loader(3):
            loss = train_one(model, opt, x, y)
            running += loss.item()
            smoothed = loss.detach() if smoothed is None else 0.9 * smoothed + 0.1 * loss.detach()
            losses.append(float(loss))
            window.append(loss.detach())
    assert len(losses) == 6
    assert running > 0


@program()
def h_results_of_each_epoch_without_graphs():
    """A list of each lap's own results is let go when that has learnt from them."""

    def epoch(hives):
        results = []
        for x, y in loader(20):
            result = hives.learn(x, y)
            results.append({**result, "loss": result["loss"].detach()})
        return results

    hives, last = Hives(), 0.0
    for _ in range(4):
        last = sum(each["loss"].item() for each in epoch(hives))
    for _ in range(4):
        parts = [hives.foretell(x, y)["loss"] for x, y in loader(4)]
        hives.optimizer.zero_grad()
        torch.stack(parts).mean().backward()
        hives.optimizer.step()
    assert last > 0


@program()
def h_accumulated_over_micro_batches():
    model = Net()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        loss = 0.0
        for x, y in loader(4):
            loss += F.cross_entropy(model(x), y) / 4
        opt.zero_grad()
        loss.backward()
        opt.step()


@program()
def h_losses_of_one_step_in_a_list():
    trunk, heads = nn.Linear(4, 5), nn.ModuleList([nn.Linear(5, 1) for _ in range(4)])
    opt = torch.optim.Adam([*trunk.parameters(), *heads.parameters()], lr=1e-3)
    for x, y in loader(4):
        losses = []
        features = torch.relu(trunk(x))
        for k, head in enumerate(heads):
            losses.append(F.binary_cross_entropy_with_logits(head(features)[:, 0], (y == k).float()))
        opt.zero_grad()
        torch.stack(losses).mean().backward()
        opt.step()


@program()
def h_validation_with_no_grad():
    model = Net()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for _epoch in range(2):
        for x, y in loader(2):
            train_one(model, opt, x, y)
        preds, val_loss = [], 0
        with torch.no_grad():
            for x, y in loader(4):
                out = model(x)
                val_loss += F.cross_entropy(out, y)
                preds.append(out)
        torch.cat(preds).argmax(1)


@program()
def h_hidden_state_detached():
    cell, head = nn.GRUCell(3, 5), nn.Linear(5, 1)
    opt = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.1)
    hidden = torch.zeros(2, 5)
    stream = torch.randn(7, 2, 3)
    for t in range(6):
        hidden = cell(stream[t], hidden.detach())
        loss = F.mse_loss(head(hidden), stream[t + 1, :, :1])
        opt.zero_grad()
        loss.backward()
        opt.step()


@program()
def h_stages_of_one_forward_added_up():
    """Codes of what the stages before have left: each sum begins anew, and goes on straight through, as numbers."""
    encoder, decoder, books = nn.Linear(6, 4), nn.Linear(4, 6), torch.randn(4, 10, 4)
    opt = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-2)
    for _ in range(4):
        words = torch.randn(8, 6)
        word = rest = encoder(words)
        total = 0.0
        for book in books:
            taken = rest + (book[torch.cdist(rest.detach(), book).argmin(1)] - rest).detach()
            rest = rest - taken.detach()
            total = total + taken
        loss = F.mse_loss(decoder(word + (total - word).detach()), words)
        opt.zero_grad()
        loss.backward()
        opt.step()


@program()
def h_policy_gradient_with_its_log_probabilities():
    policy = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    opt = torch.optim.Adam(policy.parameters(), lr=1e-2)
    for _episode in range(4):
        log_probs, rewards = [], []
        state = torch.randn(4)
        for _ in range(5):
            distribution = torch.distributions.Categorical(logits=policy(state))
            action = distribution.sample()
            log_probs.append(distribution.log_prob(action))
            rewards.append(float(action) - 0.5)
            state = 0.9 * state + 0.1 * torch.randn(4)
        returns = torch.tensor(rewards).flip(0).cumsum(0).flip(0)
        loss = -(torch.stack(log_probs) * returns).sum()
        opt.zero_grad()
        loss.backward()
        opt.step()


@program()
def h_three_tasks_and_the_sum_that_is_shown():
    trunk, heads = nn.Linear(4, 5), [nn.Linear(5, 1), nn.Linear(5, 1), nn.Linear(5, 1)]
    parameters = [*trunk.parameters(), *(p for head in heads for p in head.parameters())]
    opt = torch.optim.SGD(parameters, lr=0.1)
    shown = []
    for x, y in loader(4):
        features = torch.tanh(trunk(x))
        opt.zero_grad()
        losses = [F.mse_loss(head(features)[:, 0], y.float()) for head in heads]
        for loss in losses[:-1]:
            loss.backward(retain_graph=True)
        losses[-1].backward()
        opt.step()
        shown.append(sum(losses).item())


@program()
def h_recurrent_model_validated_without_no_grad():
    cell, head = nn.RNNCell(3, 5), nn.Linear(5, 3)
    opt = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.1)

    def run(sequence):
        h = torch.zeros(2, 5)
        for x in sequence:
            h = cell(x, h)
        return head(h)

    for _epoch in range(2):
        for _ in range(2):
            loss = F.cross_entropy(run(torch.randn(4, 2, 3)), torch.tensor([0, 1]))
            opt.zero_grad()
            loss.backward()
            opt.step()
        total = 0.0
        for _ in range(3):
            total += F.cross_entropy(run(torch.randn(4, 2, 3)), torch.tensor([2, 1])).item()


@program()
def h_inner_steps_of_a_meta_learner():
    model = nn.Linear(4, 3)
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _task in range(3):
        fast = list(model.parameters())
        for x, y in loader(3):
            loss = F.cross_entropy(F.linear(x, *fast), y)
            gradients = torch.autograd.grad(loss, fast, create_graph=True)
            fast = [p - 0.1 * g for p, g in zip(fast, gradients, strict=True)]
        x, y = next(loader(1))
        opt.zero_grad()
        F.cross_entropy(F.linear(x, *fast), y).backward()
        opt.step()
