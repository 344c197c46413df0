"""What nobody reads, or is summed up, or made anew, and no error says so; each in another dress than its report."""

# ruff: noqa: F841  # names that nothing reads are what these are about

from __future__ import annotations

import copy

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # torch's own convention

from tests.data.programs import program

# -- new numbers that nobody reads


@program("result_dropped")
def s_target_critic_under_a_name_of_its_own():
    """The target's new weights get a name, and nobody puts them anywhere."""

    class Agent:
        def __init__(self, tau=0.05, gamma=0.95):
            self.q = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
            self.target = copy.deepcopy(self.q)
            self.optimizer = torch.optim.Adam(self.q.parameters(), lr=1e-2)
            self.tau, self.gamma = tau, gamma

        def soft_update(self):
            for held, p in zip(self.target.parameters(), self.q.parameters(), strict=True):
                new = self.tau * p.data + (1 - self.tau) * held.data  # culprit

        def learn(self, state, reward, after):
            with torch.no_grad():
                wanted = reward + self.gamma * self.target(after)
            loss = (self.q(state) - wanted).pow(2).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.soft_update()

    agent = Agent()
    target = agent.target
    for _ in range(5):
        agent.learn(torch.randn(8, 4), torch.randn(8, 1), torch.randn(8, 4))


@program("result_dropped")
def s_average_of_weights_in_a_copy():
    """What is averaged is a copy of what was kept."""

    class Average:
        def __init__(self, model, decay):
            self.model, self.decay = model, decay
            self.kept = {name: p.data.clone() for name, p in model.named_parameters()}

        def update(self):
            for name, p in self.model.named_parameters():
                average = self.kept[name].clone()
                average.mul_(self.decay).add_(p.data, alpha=1 - self.decay)  # culprit

        def use(self):
            for name, p in self.model.named_parameters():
                p.data.copy_(self.kept[name])

    net = nn.Sequential(nn.Linear(5, 10), nn.Tanh(), nn.Linear(10, 1))
    average = Average(net, 0.9)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    x = torch.randn(64, 5)
    y = x.sum(1, keepdim=True).sin()
    for at in range(0, 64, 16):
        optimizer.zero_grad()
        F.mse_loss(net(x[at : at + 16]), y[at : at + 16]).backward()
        optimizer.step()
        average.update()
    average.use()


@program("result_dropped")
def s_momentum_encoder_by_a_row_of_calls():
    """Neither of the two calls writes; the encoder for the second view stays at its beginning."""

    class Views(nn.Module):
        def __init__(self, momentum=0.9):
            super().__init__()
            self.online = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 8))
            self.guess, self.momentum = nn.Linear(8, 8), momentum
            self.target = copy.deepcopy(self.online).requires_grad_(False)

        @torch.no_grad()
        def follow(self):
            for own, held in zip(self.online.parameters(), self.target.parameters(), strict=True):
                held.data.mul(self.momentum).add(own.data, alpha=1 - self.momentum)  # culprit

        def forward(self, first, second):
            with torch.no_grad():
                wanted = self.target(second)
            return 2 - 2 * F.cosine_similarity(self.guess(self.online(first)), wanted).mean()

    model = Views()
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    for _ in range(5):
        x = torch.randn(16, 10)
        loss = model(x + 0.1 * torch.randn_like(x), x + 0.1 * torch.randn_like(x))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        model.follow()


@program("result_dropped")
def s_weight_decay_that_no_loss_takes_in():
    """The penalty is computed, and the cross entropy alone is returned."""
    net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 4))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def loss_of(x, y):
        fit = F.cross_entropy(net(x), y)
        penalty = 0.01 * torch.stack([p.pow(2).sum() for p in net.parameters()]).sum()  # culprit
        return fit

    for _ in range(5):
        optimizer.zero_grad()
        loss_of(torch.randn(8, 6), torch.randint(0, 4, (8,))).backward()
        optimizer.step()


@program("result_dropped")
def s_noise_of_a_hook_that_returns_nothing():
    """A hook object of a layer's output; torch takes what it returns, and that is None."""

    class Noise:
        def __init__(self, size):
            self.size = size

        def __call__(self, module, given, result):
            result = result + self.size * torch.randn_like(result)  # culprit

    net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
    net[0].register_forward_hook(Noise(0.1))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(5):
        loss = F.cross_entropy(net(torch.randn(8, 4)), torch.randint(0, 2, (8,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program("result_dropped")
def s_normalised_input_of_a_pre_hook():
    """The statement in the hook computes rows of length 1, and the head gets what it got before."""
    body, head = nn.Linear(6, 8), nn.Linear(8, 2)

    def to_unit(module, given):
        x = given[0]
        F.normalize(x, dim=1)  # culprit

    head.register_forward_pre_hook(to_unit)
    optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.1)
    for _ in range(5):
        loss = F.cross_entropy(head(body(torch.randn(8, 6))), torch.randint(0, 2, (8,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


# -- summed up, or grown


@program("gradients_never_cleared")
def s_closure_of_a_physics_loss():
    """L-BFGS runs it several times a step, and all its gradients are added up."""
    net = nn.Sequential(nn.Linear(1, 10), nn.Tanh(), nn.Linear(10, 1))
    x = torch.linspace(0, 1, 20).unsqueeze(1).requires_grad_()
    optimizer = torch.optim.LBFGS(net.parameters(), lr=0.1, max_iter=5)

    def residual():
        u = net(x)
        (slope,) = torch.autograd.grad(u, x, torch.ones_like(u), create_graph=True)
        return (slope + u).pow(2).mean() + (net(torch.zeros(1, 1)) - 1).pow(2).mean()

    def closure():
        loss = residual()
        loss.backward(inputs=list(net.parameters()))  # culprit
        return loss

    for _ in range(4):
        optimizer.step(closure)


@program("gradients_never_cleared")
def s_texture_cleared_outside_of_the_closure():
    """An image is matched; it is cleared once a step, and the closure runs more often."""
    features = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(), nn.Conv2d(6, 8, 3, padding=1))
    features.requires_grad_(False)
    wanted = features(torch.rand(1, 3, 8, 8))
    start = nn.ParameterList([torch.rand(1, 3, 8, 8)])
    (image,) = start
    optimizer = torch.optim.LBFGS([image], max_iter=4, lr=0.5)
    for _ in range(3):
        optimizer.zero_grad()  # culprit

        def closure():
            loss = 1e3 * F.mse_loss(features(image), wanted)
            loss.backward()
            return loss

        optimizer.step(closure)


@program("clipped_after_step")
def s_recurrent_net_that_grows_to_infinity():
    """Gradients are cut back once the step has used them; some steps later the loss is infinite."""
    torch.manual_seed(0)

    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.into, self.on = nn.Parameter(torch.randn(3, 16)), nn.Parameter(torch.randn(16, 16))
            self.out = nn.Linear(16, 1)

        def forward(self, x):
            h = torch.zeros(x.size(1), 16)
            for row in x:
                h = torch.relu(row @ self.into + h @ self.on)
            return self.out(h)

    net = Recurrent()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(8):
        x = torch.randn(8, 4, 3)
        optimizer.zero_grad()
        loss = (net(x) - x.sum((0, 2)).unsqueeze(1)).pow(2).mean()
        loss.backward()
        optimizer.step()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)  # culprit


# -- made anew, or at 0, or plain numbers


@program("gradient_is_zero")
def s_adapters_whose_halves_are_both_zero():
    """An adapter begins at 0 by its second half; here the first is set to 0, too."""

    class Adapter(nn.Module):
        def __init__(self, base, rank=4):
            super().__init__()
            self.base = base.requires_grad_(False)
            self.down = nn.Parameter(torch.empty(rank, base.in_features))
            self.up = nn.Parameter(torch.empty(base.out_features, rank))
            nn.init.zeros_(self.down)  # culprit
            nn.init.zeros_(self.up)

        def forward(self, x):
            return self.base(x) + 2 * (x @ self.down.t() @ self.up.t())

    body, head = Adapter(nn.Linear(6, 12)), nn.Linear(12, 2)
    optimizer = torch.optim.SGD([*[p for p in body.parameters() if p.requires_grad], *head.parameters()], lr=0.1)
    for _ in range(5):
        loss = F.cross_entropy(head(torch.relu(body(torch.randn(8, 6)))), torch.randint(0, 2, (8,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program("no_optimiser_holds_it")
def s_scale_that_calibration_makes_anew():
    """A method of the module's own replaces its Parameter, behind the optimiser's back."""

    class Scaled(nn.Module):
        def __init__(self, size):
            super().__init__()
            self.inner, self.scale = nn.Linear(size, size), nn.Parameter(torch.ones(1))

        def calibrate(self, x):
            largest = self.inner(x).abs().max().detach()
            self.scale = nn.Parameter(largest / 7)  # culprit

        def forward(self, x):
            return torch.tanh(self.inner(x) / self.scale) * self.scale

    net = nn.Sequential(Scaled(6), nn.Linear(6, 1))
    params = [p for p in net.parameters()]  # noqa: C416  # as it was written
    optimizer = torch.optim.Adam(params, lr=1e-2)
    net[0].calibrate(torch.randn(32, 6))
    for _ in range(5):
        x = torch.randn(16, 6)
        loss = (net(x) - x.mean(1, keepdim=True)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program("constant_term")
def s_mixture_by_a_list_of_weights():
    """The gate is heard by the head, and what the experts say is weighed by plain numbers."""

    class Mixture(nn.Module):
        def __init__(self, count=3):
            super().__init__()
            self.experts = nn.ModuleList(nn.Linear(4, 4) for _ in range(count))
            self.gate, self.head = nn.Linear(4, count), nn.Linear(4 + count, 2)

        def forward(self, x):
            gate = torch.softmax(self.gate(x), -1)
            weights = gate.mean(0).tolist()  # culprit
            out = torch.zeros(len(x), 4)
            for weight, expert in zip(weights, self.experts, strict=True):
                out = out + weight * expert(x)
            return self.head(torch.cat([out, gate], 1))

    net = Mixture()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(4):
        x = torch.randn(8, 4)
        loss = F.cross_entropy(net(x), (x.sum(1) > 0).long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program("constant_term")
def s_learned_scale_of_cosines_as_a_number():
    """The scale has a penalty, by which alone it moves: the cosines are multiplied by a number."""

    class Cosines(nn.Module):
        def __init__(self, size, classes):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(classes, size))
            self.log_scale = nn.Parameter(torch.tensor(1.0))

        def forward(self, x):
            scale = torch.tensor(self.log_scale.exp().item())  # culprit
            return scale * F.normalize(x) @ F.normalize(self.weight).t()

    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), Cosines(16, 4))
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    for _ in range(4):
        loss = F.cross_entropy(net(torch.randn(16, 8)), torch.randint(0, 4, (16,))) + 1e-3 * net[2].log_scale ** 2
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program("loss_of_probabilities")
def s_likelihood_by_hand_of_probabilities():
    """The net ends in a softmax, and the likelihood takes the logarithm of another one."""
    net = nn.Sequential(nn.Linear(5, 12), nn.ReLU(), nn.Linear(12, 3), nn.Identity())
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)

    def chances(x):
        return torch.softmax(net(x), dim=1)  # culprit

    def likelihood(p, y):
        return -torch.log_softmax(p, dim=1).gather(1, y[:, None]).mean()

    for _ in range(4):
        loss = likelihood(chances(torch.randn(16, 5)), torch.randint(0, 3, (16,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program("result_dropped")
def s_best_weights_loaded_before_the_score():
    """The best weights so far are the first ones, and each epoch goes back to them before it is scored."""
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    best, lowest = copy.deepcopy(model.state_dict()), float("inf")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    x = torch.randn(32, 4)
    y = x.sum(1, keepdim=True)
    for _ in range(4):
        for at in (0, 16):
            loss = F.mse_loss(model(x[at : at + 16]), y[at : at + 16])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.load_state_dict(best)  # culprit
        with torch.no_grad():
            lowest = min(lowest, F.mse_loss(model(x), y).item())


@program("graph_cut")
def s_inner_steps_by_data():
    """Two inner steps of MAML, each of which makes leaves of what it computed."""
    model = nn.Linear(4, 2)
    outer = torch.optim.SGD(model.parameters(), lr=0.1)

    def loss_of(weights, x, y):
        return F.cross_entropy(torch.func.functional_call(model, weights, (x,)), y)

    for _ in range(3):
        fast = {name: p.clone() for name, p in model.named_parameters()}
        for _ in range(2):
            inner = loss_of(fast, torch.randn(8, 4), torch.randint(0, 2, (8,)))
            slopes = torch.autograd.grad(inner, fast.values(), create_graph=True)
            moved = zip(fast.items(), slopes, strict=True)
            fast = {name: (p - 0.1 * slope).data.requires_grad_() for (name, p), slope in moved}  # culprit
        loss = loss_of(fast, torch.randn(8, 4), torch.randint(0, 2, (8,)))
        outer.zero_grad()
        loss.backward()
        outer.step()
