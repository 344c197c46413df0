"""Twins of what is silently wrong, and are right: averages, hooks, closures, numbers that scale, adapters."""

from __future__ import annotations

import copy

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # torch's own convention
from torch.nn.utils import prune

from tests.data.programs import program


@program()
def s_legal_targets_and_averages():
    """Names that are read, copies that are put back, distances that are only looked at."""
    net = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 1))
    target = copy.deepcopy(net)
    kept = {name: p.detach().clone() for name, p in net.named_parameters()}
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)

    def follow(tau):
        with torch.no_grad():
            for p, held in zip(net.parameters(), target.parameters(), strict=True):
                new = tau * p.data + (1 - tau) * held.data
                held.copy_(new)

    def average(decay):
        for name, p in net.named_parameters():
            fresh = kept[name].clone()
            fresh.mul_(decay).add_(p.data, alpha=1 - decay)
            kept[name] = fresh

    def drift():
        total = 0.0
        for p, held in zip(net.parameters(), target.parameters(), strict=True):
            apart = p.data - held.data
            total += apart.norm().item()
        return total

    for _ in range(5):
        x = torch.randn(8, 5)
        with torch.no_grad():
            wanted = target(x)
        loss = (net(x) - wanted - 0.1).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        follow(0.05)
        average(0.9)
    return drift()


@program()
def s_legal_hooks_that_look_write_or_return():
    """Hooks that note something down, write in place, check, or return what they made."""
    net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
    seen = {}

    class Means:
        def __init__(self):
            self.all = []

        def __call__(self, module, given, result):
            mean = result.detach().mean()
            self.all.append(mean.item())

    def keep(name):
        def hook(module, given, result):
            seen[name] = result.detach()

        return hook

    def bound(module, given, result):
        result = result.clamp_(-3, 3)

    def check(module, grad_input, grad_output):
        size = sum(each.norm() ** 2 for each in grad_input if each is not None)
        assert size < 1e6

    net[0].register_forward_hook(Means())
    net[0].register_forward_hook(keep("first"))
    net[0].register_forward_hook(lambda module, given, result: result + 0.1)
    net[2].register_forward_hook(bound)
    net[2].register_forward_pre_hook(lambda module, given: (given[0] * 2,))
    net[1].register_full_backward_hook(check)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(4):
        loss = F.cross_entropy(net(torch.randn(8, 4)), torch.randint(0, 2, (8,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program()
def s_legal_closures():
    """Cleared in the closure and outside of it; batches added up in one; cleared by hand."""
    net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
    x = torch.randn(40, 2)
    y = x.prod(1, keepdim=True)
    optimizer = torch.optim.LBFGS(net.parameters(), lr=0.5, max_iter=6, line_search_fn="strong_wolfe")

    def in_batches():
        optimizer.zero_grad()
        total = 0.0
        for at in range(0, 40, 10):
            loss = (net(x[at : at + 10]) - y[at : at + 10]).pow(2).mean() / 4
            loss.backward()
            total += loss.item()
        return total

    for _ in range(3):
        optimizer.zero_grad()
        optimizer.step(in_batches)
    by_hand = torch.optim.LBFGS(net.parameters(), lr=0.1, max_iter=4)

    def closure():
        for p in net.parameters():
            p.grad = None
        loss = (net(x) - y).pow(2).mean()
        loss.backward()
        return loss

    for _ in range(3):
        by_hand.step(closure)
        by_hand.zero_grad()


@program()
def s_legal_numbers_that_scale():
    """The step of a quantiser, the balance of two losses, a temperature: plain numbers that are meant so."""

    class Quantised(nn.Linear):
        def forward(self, x):
            size = self.weight.abs().max().item() / 127
            return F.linear(x, self.weight + (torch.round(self.weight / size) * size - self.weight).detach(), self.bias)

    class Gated(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last, self.gate = Quantised(6, 16), nn.Linear(16, 3), nn.Linear(6, 3)

        def forward(self, x):
            gate = torch.softmax(self.gate(x), -1)
            self.used = gate.mean(0).tolist()
            return self.last(torch.relu(self.first(x))) * gate

    net, log = Gated(), []
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    for lap in range(4):
        out = net(torch.randn(16, 6))
        fit, size = F.cross_entropy(out, torch.randint(0, 3, (16,))), out.pow(2).mean()
        balance = (fit / (size + 1e-6)).item()
        log.append(torch.sigmoid(out).mean().item())
        loss = fit + 0.01 * balance * size + 1e-3 / (1 + lap) * size
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program()
def s_legal_adapters_and_gates():
    """One half of an adapter at 0, a gate at 0 before a layer that isn't, a head made anew before the optimiser."""

    class Adapter(nn.Module):
        def __init__(self, base, rank=4):
            super().__init__()
            self.base = base.requires_grad_(False)
            self.down = nn.Parameter(torch.randn(rank, base.in_features) * 0.1)
            self.up = nn.Parameter(torch.zeros(base.out_features, rank))

        def forward(self, x):
            return self.base(x) + x @ self.down.t() @ self.up.t()

    class Gated(nn.Module):
        def __init__(self, size):
            super().__init__()
            self.inner, self.alpha = nn.Linear(size, size), nn.Parameter(torch.zeros(1))

        def forward(self, x):
            return x + self.alpha * torch.tanh(self.inner(x))

    net = nn.Sequential(Adapter(nn.Linear(6, 8)), Gated(8), nn.Linear(8, 2))
    net[2].weight = nn.Parameter(torch.zeros(2, 8))
    optimizer = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], lr=0.1)
    for _ in range(6):
        loss = F.cross_entropy(net(torch.randn(8, 6)), torch.randint(0, 2, (8,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program()
def s_legal_weights_that_go_back():
    """An average that is tried and taken back, folds that begin anew once they are scored, a start that moves on."""
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    x = torch.randn(32, 4)
    y = x.sum(1, keepdim=True)
    scores = []

    def train():
        for _ in range(2):
            loss = F.mse_loss(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    def score():
        with torch.no_grad():
            scores.append(F.mse_loss(net(x), y).item())

    average = {name: p.data.clone() for name, p in net.named_parameters()}
    for _ in range(3):
        train()
        for name, p in net.named_parameters():
            average[name].mul_(0.9).add_(p.data, alpha=0.1)
        own = {name: p.data.clone() for name, p in net.named_parameters()}
        for name, p in net.named_parameters():
            p.data.copy_(average[name])
        score()
        for name, p in net.named_parameters():
            p.data.copy_(own[name])
    start = copy.deepcopy(net.state_dict())
    for _ in range(3):
        net.load_state_dict(start)
        train()
        score()
    for _ in range(3):
        train()
        learned = {name: value.clone() for name, value in net.state_dict().items()}
        net.load_state_dict(start)
        start = {name: start[name] + 0.1 * (learned[name] - start[name]) for name in start}
    return scores


@program()
def s_legal_states_that_begin_anew():
    """Windows of a recurrent net, each from leaves of the state before; the net learns by the last window alone."""
    cell, head = nn.GRUCell(3, 5), nn.Linear(5, 1)
    optimizer = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.1)
    state = torch.zeros(4, 5)
    for _ in range(4):
        state = state.detach().requires_grad_()
        for _ in range(3):
            state = cell(torch.randn(4, 3), state)
        loss = head(state).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program()
def s_legal_scale_by_hand():
    """A loss scaled up as far as it goes: where that is too far the step is left out, and the scale goes down."""
    net = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    scale, left_out = 2.0**127, 0
    for _ in range(6):
        x = torch.randn(16, 3)
        loss = F.mse_loss(net(x), 3 * x.sum(1, keepdim=True))
        optimizer.zero_grad()
        (loss * scale).backward()
        if all(p.grad.isfinite().all() for p in net.parameters()):
            for p in net.parameters():
                p.grad.div_(scale)
            optimizer.step()
        else:
            scale, left_out = scale / 2**20, left_out + 1
    return left_out, loss.item()


@program()
def w_legal_straight_through_and_residuals():
    """Rounded numbers passed straight; a residual whose block learns; a step towards another by a share."""
    net, block = nn.Linear(4, 4), nn.Linear(4, 4)
    optimizer = torch.optim.SGD([*net.parameters(), *block.parameters()], lr=0.05)
    for _ in range(14):
        x = net(torch.randn(8, 4))
        rounded = x + (torch.round(x) - x).detach()
        learned = x + (block(x) - x)
        nearer = x + 0.5 * (rounded - x)
        loss = (rounded + learned + nearer - 1).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program()
def w_legal_difference_of_two_looks():
    """Two looks of one net at the same: at other classes, at other temperatures; a ratio to the detached itself."""
    net = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    x = torch.randn(16, 5)

    def at(heat):
        return F.log_softmax(net(x) / heat, dim=1)

    def score(kind):
        return net(x)[:, kind]

    for _ in range(4):
        softer = torch.exp(at(1.0) - at(2.0))
        margin = torch.exp(score(0) - score(1))
        log = at(1.0)[:, 0]
        once = torch.exp(log - log.detach())
        loss = softer.mean() + margin.mean() - (once * torch.randn(16)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program()
def w_legal_averages_that_are_looked_at():
    """A mixture of two nets is scored and let go; the average itself is written by another line."""
    net = nn.Linear(4, 2)
    average = copy.deepcopy(net).requires_grad_(False)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    far = []
    for _ in range(4):
        loss = F.cross_entropy(net(torch.randn(8, 4)), torch.randint(0, 2, (8,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for p, kept in zip(net.parameters(), average.parameters(), strict=True):
                kept.mul_(0.9).add_(p, alpha=0.1)
            for p, kept in zip(net.parameters(), average.parameters(), strict=True):
                kept = 0.5 * kept + 0.5 * p
                far.append(kept.norm().item())
    return far


@program()
def w_legal_zero_on_one_side_alone():
    """One of two low-rank factors begins at 0; a gate at 0 before a block that is at random numbers."""
    base = nn.Linear(6, 3).requires_grad_(False)
    down, up, gate = nn.Parameter(torch.randn(2, 6)), nn.Parameter(torch.zeros(3, 2)), nn.Parameter(torch.zeros(1))
    block = nn.Linear(3, 3)
    optimizer = torch.optim.Adam([down, up, gate, *block.parameters()], lr=0.05)
    for _ in range(14):
        x = torch.randn(16, 6)
        h = base(x) + x @ down.t() @ up.t()
        loss = F.mse_loss(h + gate * block(h), torch.randn(16, 3))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program()
def w_legal_mixture_of_two_nets_that_is_called():
    """Numbers between a net's and its average's, under a loop's name that a dict takes up."""
    net = nn.Linear(4, 2)
    average = copy.deepcopy(net).requires_grad_(False)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scores = []
    for _ in range(4):
        x, y = torch.randn(8, 4), torch.randint(0, 2, (8,))
        loss = F.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            between = {}
            for (name, p), kept in zip(net.named_parameters(), average.parameters(), strict=True):
                kept = 0.5 * kept + 0.5 * p
                between[name] = kept
            scores.append(F.cross_entropy(torch.func.functional_call(net, between, (x,)), y).item())
    return scores


@program()
def w_legal_old_policy_that_is_a_copy():
    """The ratio to a copy of the policy from before these steps, which has Parameters of its own."""
    policy = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3))
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    calls, sent, gain = torch.randn(32, 5), torch.randint(0, 3, (32,)), torch.randn(32)
    old = copy.deepcopy(policy)
    for _ in range(4):
        new_log = torch.distributions.Categorical(logits=policy(calls)).log_prob(sent)
        old_log = torch.distributions.Categorical(logits=old(calls)).log_prob(sent).detach()
        loss = -((new_log - old_log).exp() * gain).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program()
def w_legal_pruned_weight_that_is_rewound():
    """The Parameter behind a pruned weight goes back; what the module holds is brought up to it, too, and used."""
    net = nn.Linear(4, 3)
    begin = net.weight.detach().clone()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    prune.l1_unstructured(net, "weight", amount=0.3)
    for _ in range(3):
        with torch.no_grad():
            net.weight_orig.copy_(begin)
        for _ in range(2):
            loss = net(torch.randn(8, 4)).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            net.weight.clamp_(-1, 1)
            begin = 0.5 * (begin + net.weight)


@program()
def w_legal_results_that_are_written_and_shown():
    """Results whose numbers are bounded before they are shown, held by an object until the next ones come."""

    class Screen:
        shown = None

    screen, scale = Screen(), nn.Parameter(torch.ones(6))
    optimizer = torch.optim.SGD([scale], lr=0.1)
    seen = []
    for _ in range(4):
        screen.shown = scale * torch.randn(6)
        loss = (screen.shown - 1).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        with torch.no_grad():
            screen.shown.clamp_(0, 1)
        seen.append(screen.shown.sum().item())
        optimizer.step()
    return seen
