"""Gradients of gradients, modules' hooks, two losses of one pass; rebuilt from reports, beside one that torch takes."""

# ruff: noqa: B007  # they stay as people have written them

from __future__ import annotations

import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F  # noqa: N812  # torch's own convention

from tests.data.programs import program


@program("no_derivative")
def m_code_of_a_field_that_goes_back_once():
    """NVlabs/tiny-cuda-nn#50."""

    class Waves(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, rates):
            ctx.save_for_backward(x, rates)
            return (x.unsqueeze(-1) * rates).sin().flatten(1)

        @staticmethod
        @once_differentiable  # culprit
        def backward(ctx, grad):
            x, rates = ctx.saved_tensors
            slopes = (x.unsqueeze(-1) * rates).cos() * rates
            return (grad.view(*x.shape, -1) * slopes).sum(-1), None

    rates = 2.0 ** torch.arange(3)
    net = nn.Sequential(nn.Linear(6, 8), nn.Softplus(), nn.Linear(8, 1))
    opt = torch.optim.Adam(net.parameters(), lr=0.01)
    for step in range(2):
        x = torch.rand(16, 2, requires_grad=True)
        (normal,) = torch.autograd.grad(net(Waves.apply(x, rates)).sum(), x, create_graph=True)
        loss = (normal.norm(dim=1) - 1).pow(2).mean()
        opt.zero_grad()
        loss.backward()  # victim
        opt.step()


@program(None)
def m_code_that_goes_back_once_and_is_asked_once():
    """The same mark, where nobody asks for a gradient of a gradient."""

    class Waves(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        @once_differentiable
        def backward(ctx, grad):
            return grad * ctx.saved_tensors[0].cos()

    net = nn.Linear(2, 2)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(3):
        loss = Waves.apply(net(torch.rand(4, 2))).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    return net.weight


@program("no_derivative")
def m_weights_of_the_classes_that_learn():
    """Two criteria in one, the weight of each class a Parameter: `cross_entropy` has no derivative by that."""
    net = nn.Linear(4, 3)
    balance = nn.Parameter(torch.ones(3))
    opt = torch.optim.SGD([*net.parameters(), balance], lr=0.1)
    for step in range(2):
        weights = balance.softmax(0) * 3  # culprit
        y = torch.randint(0, 3, (8,))
        loss = F.cross_entropy(net(torch.rand(8, 4)), y, weight=weights)  # victim
        opt.zero_grad()
        loss.backward()
        opt.step()


@program("unused_input")
def m_frozen_block_in_a_checkpoint_of_its_own():
    """openai/guided-diffusion's checkpoint, with an adapter: it asks for the gradients of all parameters."""

    class Again(torch.autograd.Function):
        @staticmethod
        def forward(ctx, run, x, *params):
            ctx.run, ctx.x, ctx.params = run, x, list(params)
            with torch.no_grad():
                return run(x)

        @staticmethod
        def backward(ctx, grad):
            x = ctx.x.detach().requires_grad_()
            with torch.enable_grad():
                y = ctx.run(x)
            found = torch.autograd.grad(y, [x, *ctx.params], grad)  # culprit
            return None, *found

    block, adapter = nn.Linear(4, 4), nn.Linear(2, 4)
    block.requires_grad_(False)
    opt = torch.optim.Adam(adapter.parameters(), lr=0.01)
    for step in range(2):
        loss = Again.apply(block, adapter(torch.rand(8, 2)), *block.parameters()).pow(2).mean()
        opt.zero_grad()
        loss.backward()  # victim
        opt.step()


@program("unused_input")
def m_second_step_from_the_weights_of_the_first():
    """tristandeleu/pytorch-maml: the inner loop never gives the model what it has adapted."""

    class Line(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight, self.bias = nn.Parameter(torch.rand(1, 1)), nn.Parameter(torch.zeros(1))

        def forward(self, x, params=None):
            params = dict(self.named_parameters()) if params is None else params
            return F.linear(x, params["weight"], params["bias"])

    def update(loss, params, rate=0.1):
        grads = torch.autograd.grad(loss, params.values(), create_graph=True)  # victim
        return {name: p - rate * g for (name, p), g in zip(params.items(), grads, strict=True)}

    def adapt(model, x, y, steps=2):
        params = dict(model.named_parameters())
        for _ in range(steps):
            guess = model(x)  # culprit
            params = update(F.mse_loss(guess, y), params)
        return params

    model = Line()
    opt = torch.optim.Adam(model.parameters(), lr=0.01)
    for task in range(2):
        x = torch.rand(8, 1)
        loss = F.mse_loss(model(x, adapt(model, x, 2 * x)), 2 * x)
        opt.zero_grad()
        loss.backward()
        opt.step()


@program("view_modified")
def m_hook_before_a_relu_in_place():
    """jacobgil/pytorch-grad-cam, on a layer with `ReLU(inplace=True)` behind it."""

    class Cam:
        def __init__(self, layer):
            self.gradients = []
            layer.register_full_backward_hook(self.keep)  # culprit

        def keep(self, module, grad_input, grad_output):
            self.gradients.append(grad_output[0].detach())

    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(16, 2))
    Cam(model[1])
    model(torch.rand(3, 1, 4, 4)).sum().backward()  # victim


@program("backward_returns")
def m_hook_of_a_classifier_behind_a_detach():
    """A gradient that is to be reversed, of a module whose input has no graph."""

    def turn_round(module, grad_input, grad_output):
        return (-0.1 * grad_output[0] @ module.weight,)

    encoder, accent = nn.Linear(6, 4), nn.Linear(4, 2)
    accent.register_full_backward_hook(turn_round)  # culprit
    opt = torch.optim.Adam([*encoder.parameters(), *accent.parameters()], lr=0.01)
    for step in range(2):
        code = encoder(torch.rand(8, 6))
        loss = code.pow(2).mean() + F.cross_entropy(accent(code.detach()), torch.randint(0, 2, (8,)))
        opt.zero_grad()
        loss.backward()  # victim
        opt.step()


@program("backward_returns")
def m_hook_of_one_gradient_at_every_layer_norm():
    """csdongxian/skip-connections-matter#3: written for what ends in a ReLU, put on what has a weight."""

    def evened(module, given, got):
        return (given[0] / given[0].std(),)  # culprit

    net = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 3))
    for layer in net:
        if isinstance(layer, nn.LayerNorm):
            layer.register_backward_hook(evened)
    signal = torch.rand(5, 6, requires_grad=True)
    torch.autograd.grad(net(signal).logsumexp(1).sum(), signal)  # victim


@program("backward_returns")
def m_hook_that_returns_the_gradient_of_the_result_too():
    class Guided:
        def __init__(self, net):
            self.handles = [layer.register_full_backward_hook(self.positive) for layer in net if type(layer) is nn.ELU]

        def positive(self, layer, given, got):
            return given[0].clamp(min=0), got[0]  # culprit

    net = nn.Sequential(nn.Linear(6, 8), nn.ELU(), nn.Linear(8, 3))
    Guided(net)
    net(torch.rand(5, 6))[:, 0].sum().backward()  # victim


@program()
def m_legal_hooks_that_return_what_they_are_given():
    """As many as the module has inputs, of the same shape; and nothing, where they only look."""
    sizes = []
    net = nn.Sequential(nn.Linear(6, 8), nn.ELU(), nn.Linear(8, 3))
    net[1].register_full_backward_hook(lambda layer, given, got: (given[0].clamp(min=0),))
    net[2].register_full_backward_hook(lambda layer, given, got: sizes.append(got[0].norm().item()))
    net[2].register_full_backward_pre_hook(lambda layer, got: (got[0] * 0.5,))
    net(torch.rand(5, 6)).square().mean().backward()


@program("graph_freed")
def m_weight_kept_from_the_epoch_before():
    """benedekrozemberczki/pytorch_geometric_temporal#305: a weight that a recurrent cell makes anew from the last."""

    class Evolving(nn.Module):
        def __init__(self, size=4):
            super().__init__()
            self.first = nn.Parameter(torch.rand(1, size, size))
            self.cell, self.weight = nn.GRU(size, size), None

        def forward(self, x):
            last = self.first if self.weight is None else self.weight
            _, self.weight = self.cell(last, last)  # culprit, victim
            return x @ self.weight.squeeze(0)

    model = Evolving()
    opt = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(2):
        cost = 0
        for x in (torch.rand(8, 4), torch.rand(8, 4)):
            cost = cost + model(x).pow(2).mean()
        opt.zero_grad()
        cost.backward()
        opt.step()


@program("graph_freed")
def m_target_from_the_pass_that_trains_the_actor():
    """pytorch/rl: both losses of TD3 come out of one pass of the actor."""
    actor, critic = nn.Sequential(nn.Linear(2, 1), nn.Tanh()), nn.Linear(3, 1)
    later = nn.Linear(3, 1).requires_grad_(False)
    actor_opt = torch.optim.Adam(actor.parameters(), lr=0.01)
    critic_opt = torch.optim.Adam(critic.parameters(), lr=0.01)
    for step in range(2):
        seen, seen_next = torch.rand(8, 2), torch.rand(8, 2)
        actions = actor(torch.stack([seen, seen_next]))  # victim
        critic.requires_grad_(False)
        loss_actor = -critic(torch.cat([seen, actions[0]], -1)).mean()
        critic.requires_grad_(True)
        next_action = (actions[1] + 0.1 * torch.randn(8, 1)).clamp(-1, 1)  # culprit
        target = 0.9 * later(torch.cat([seen_next, next_action], -1))
        loss_critic = (critic(torch.cat([seen, torch.rand(8, 1)], -1)) - target).pow(2).mean()
        actor_opt.zero_grad()
        loss_actor.backward()
        critic_opt.zero_grad()
        loss_critic.backward()
        actor_opt.step()
        critic_opt.step()


@program("no_optimiser_holds_it")
def m_range_of_a_quantiser_set_anew():
    """openvinotoolkit/nncf: the controller, which keeps its quantisers in a list, replaces the scale at the start."""

    class Quantiser(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(1))

        def forward(self, x):
            return self.scale * torch.tanh(x / self.scale)

    class Controller:
        def __init__(self, model):
            self.quantisers = [each for each in model.modules() if isinstance(each, Quantiser)]

        def start(self):
            for each in self.quantisers:
                each.scale = nn.Parameter(torch.full((1,), 2.0))  # culprit

    model = nn.Sequential(nn.Linear(4, 4), Quantiser(), nn.Linear(4, 1), Quantiser())
    control = Controller(model)
    opt = torch.optim.Adam(model.parameters(), lr=0.01)
    with torch.no_grad():
        model(torch.rand(8, 4))
    control.start()
    for step in range(3):
        loss = (model(torch.rand(8, 4)) - 1).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()  # victim


@program("backward_returns")
def m_echo_cut_to_the_number_of_sounds():
    """hszhao/SAN#3: cut to one side of what is no square; https://github.com/hszhao/SAN/issues/3."""

    class Echoed(torch.autograd.Function):
        @staticmethod
        def forward(ctx, sound, echo, late):
            ctx.late = late
            ctx.save_for_backward(sound, echo)
            padded = F.pad(sound, (late, late))
            return padded[:, late:] + echo * padded[:, : sound.shape[1] + late]

        @staticmethod
        def backward(ctx, grad):
            sound, echo = ctx.saved_tensors
            late, length = ctx.late, sound.shape[1]
            by_echo = (grad * F.pad(sound, (late, 0))).sum(0)
            both = F.pad(grad[:, :length], (late, 0)) + echo * grad
            by_sound = both[:, late : late + sound.shape[0]]  # culprit
            return by_sound, by_echo, None

    loud, echo = nn.Linear(9, 9), nn.Parameter(torch.full((11,), 0.5))
    opt = torch.optim.SGD([*loud.parameters(), echo], lr=0.01)
    for step in range(2):
        heard = Echoed.apply(loud(torch.randn(4, 9)), echo, 2)  # victim
        loss = heard.pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


@program("backward_returns")
def m_gradients_in_the_order_of_another_forward():
    """Both are right, each at the other's place: what made them isn't to be changed."""

    class Weighed(torch.autograd.Function):
        @staticmethod
        def forward(ctx, shares, prices):
            ctx.save_for_backward(shares, prices)
            return prices @ shares

        @staticmethod
        def backward(ctx, grad):
            shares, prices = ctx.saved_tensors
            by_prices = grad.unsqueeze(1) * shares
            by_shares = prices.t() @ grad
            return by_prices, by_shares  # culprit

    shares, market = nn.Parameter(torch.ones(3)), nn.Linear(2, 3)
    opt = torch.optim.SGD([shares, *market.parameters()], lr=0.01)
    for step in range(2):
        worth = Weighed.apply(shares, market(torch.rand(5, 2)))  # victim
        loss = (worth - 1).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


@program()
def m_gradients_that_are_made_step_by_step():
    """Padded, cut, summed under one name; None where none is asked for."""

    class Shifted(torch.autograd.Function):
        @staticmethod
        def forward(ctx, sound, late, level):
            ctx.late = late
            return F.pad(sound, (late, 0)) + level

        @staticmethod
        def backward(ctx, grad):
            by_sound = by_level = None
            if ctx.needs_input_grad[0]:
                by_sound = grad[:, ctx.late :]
            if ctx.needs_input_grad[2]:
                by_level = grad.sum(0)
                by_level = by_level.sum().reshape(1)
            return by_sound, None, by_level

    loud, level = nn.Linear(6, 6), nn.Parameter(torch.zeros(1))
    opt = torch.optim.SGD([*loud.parameters(), level], lr=0.01)
    for step in range(2):
        loss = Shifted.apply(loud(torch.rand(4, 6)), 2, level).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


# -- a gradient is asked for where a Function's forward has them off


class Stretched(torch.autograd.Function):
    """Some short steps of a motion, which backward goes through again."""

    @staticmethod
    def forward(ctx, motion, place, steps, *weights):
        ctx.motion, ctx.steps = motion, steps
        ctx.save_for_backward(place)
        for _ in range(steps):
            place = place + 0.1 * motion(place)
        return place

    @staticmethod
    def backward(ctx, grad):
        (place,) = ctx.saved_tensors
        weights = tuple(ctx.motion.parameters())
        with torch.enable_grad():
            place = place.detach().requires_grad_(True)
            end = place
            for _ in range(ctx.steps):
                end = end + 0.1 * ctx.motion(end)
            slopes = torch.autograd.grad(end, (place, *weights), grad, allow_unused=True)
        return None, slopes[0], None, *slopes[1:]


@program("graph_cut", severity="error")
def m_spring_whose_force_is_the_slope_of_its_energy():
    """rtqichen/torchdiffeq#154: the motion asks for a gradient; https://github.com/rtqichen/torchdiffeq/issues/154."""

    class Spring(nn.Module):
        def __init__(self):
            super().__init__()
            self.stiff = nn.Sequential(nn.Linear(2, 6), nn.Softplus(), nn.Linear(6, 1, bias=False))

        def energy(self, at):
            return self.stiff(at).sum()

        def forward(self, at):
            stored = self.energy(at)  # culprit
            (slope,) = torch.autograd.grad(stored, at, create_graph=True)  # victim
            return -slope

    spring = Spring()
    opt = torch.optim.SGD(spring.parameters(), lr=0.01)
    for step in range(2):
        end = Stretched.apply(spring, torch.randn(4, 2), 3, *spring.parameters())
        loss = end.pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


@program()
def m_spring_whose_force_is_computed_with_gradients_on():
    """The same, which switches them on for the energy."""

    class Spring(nn.Module):
        def __init__(self):
            super().__init__()
            self.stiff = nn.Sequential(nn.Linear(2, 6), nn.Softplus(), nn.Linear(6, 1, bias=False))

        def forward(self, at):
            with torch.enable_grad():
                at = at if at.requires_grad else at.detach().requires_grad_()
                stored = self.stiff(at).sum()
                (slope,) = torch.autograd.grad(stored, at, create_graph=True)
            return -slope

    spring = Spring()
    opt = torch.optim.SGD(spring.parameters(), lr=0.01)
    for step in range(2):
        end = Stretched.apply(spring, torch.randn(4, 2), 3, *spring.parameters())
        loss = end.pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


def pulls(net, places, far):
    """What each star is pulled by: the slope of an energy that the distances to the others give."""
    apart = far((places[:, None] - places).square().sum(-1)) * (1 - torch.eye(len(places)))
    energy = net(apart.unsqueeze(-1)).sum()
    return -torch.autograd.grad(energy, places, create_graph=True)[0]


@program("not_finite")
def m_stars_whose_distance_to_themselves_is_masked():
    """atomistic-machine-learning/schnetpack#6: the loss is made of a gradient, which is no number from the first."""
    net = nn.Sequential(nn.Linear(1, 8), nn.Softplus(), nn.Linear(8, 1))
    opt = torch.optim.Adam(net.parameters(), lr=0.01)

    def far(squares):
        return torch.sqrt(squares)  # culprit

    for step in range(3):
        loss = F.mse_loss(pulls(net, torch.rand(5, 3, requires_grad=True), far), torch.zeros(5, 3))
        opt.zero_grad()
        loss.backward()
        opt.step()


@program()
def m_legal_stars_a_little_apart_from_themselves():
    net = nn.Sequential(nn.Linear(1, 8), nn.Softplus(), nn.Linear(8, 1))
    opt = torch.optim.Adam(net.parameters(), lr=0.01)
    for step in range(3):
        places = torch.rand(5, 3, requires_grad=True)
        loss = F.mse_loss(pulls(net, places, lambda squares: torch.sqrt(squares + 1e-9)), torch.zeros(5, 3))
        opt.zero_grad()
        loss.backward()
        opt.step()


@program("unused_input")
def m_field_of_layers_without_a_bend():
    """pytorch/pytorch#38506: a slope that is the same everywhere has no slope."""
    field = nn.Sequential(nn.Linear(2, 8), nn.Linear(8, 1))
    places = torch.rand(6, 2).requires_grad_(True)
    height = field(places).squeeze(-1)
    slope = torch.autograd.grad(height.sum(), places, create_graph=True)[0]  # culprit
    curved = [torch.autograd.grad(slope[:, way].sum(), places, create_graph=True)[0] for way in range(2)]  # victim
    (curved[0] + curved[1]).square().mean().backward()
