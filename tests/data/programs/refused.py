"""What torch refuses outside of a graph: to copy results, to unscale halves, to find a gradient where they are off."""

from __future__ import annotations

import copy
import warnings

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # torch's own convention
from torch.utils.checkpoint import checkpoint

from tests.data.programs import program

# -- copies of what holds a result


@program("result_copied")
def v_features_left_on_the_module():
    """byol-pytorch#95: a hook keeps what a layer gives, and the target is a deep copy made later."""

    class Tapped(nn.Module):
        def __init__(self, body):
            super().__init__()
            self.body, self.tap = body, None
            self.head = nn.Linear(5, 2)
            body[1].register_forward_hook(self.keep)

        def keep(self, _module, _given, made):
            self.tap = made.flatten(1)  # culprit

        def forward(self, x):
            self.body(x)
            return self.head(self.tap)

    online = Tapped(nn.Sequential(nn.Linear(4, 5), nn.ReLU()))
    online(torch.randn(2, 4))
    target = copy.deepcopy(online).requires_grad_(False)  # victim
    x = torch.randn(6, 4)
    loss = F.mse_loss(online(x), target(x))
    loss.backward()


@program("result_copied")
def v_losses_kept_beside_the_best_model():
    """A trainer that copies itself when it is best; its history holds losses with their graphs."""

    class Trainer:
        def __init__(self):
            self.model, self.history = nn.Linear(3, 1), []

        def step(self):
            loss = self.model(torch.randn(4, 3)).pow(2).mean()
            self.history.append(loss)  # culprit
            loss.backward()

    trainer = Trainer()
    best = None
    for _ in range(2):
        trainer.step()
        best = copy.deepcopy(trainer)  # victim
    return best is None


@program("result_copied")
def v_weight_norm_as_it_was():
    """pytorch#28594: the old function keeps the weight itself as a result."""
    warnings.simplefilter("ignore")
    layer = nn.utils.weight_norm(nn.Linear(3, 2))  # culprit
    layer(torch.randn(1, 3))
    average = copy.deepcopy(layer)  # victim
    average(torch.randn(1, 3)).sum().backward()


@program()
def kv_copies_of_what_holds_no_result():
    """Detached, let go of, computed when it is asked for, averaged; and one that is caught."""

    class Keeps(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))
            self.tap, self.losses = None, []

        def forward(self, x):
            self.tap = self.layer(x)
            out = self.tap.pow(2).mean()
            self.tap = self.tap.detach()
            self.losses.append(out.item())
            return out

    model = Keeps()
    model(torch.randn(4, 3)).backward()
    copied = copy.deepcopy(model)
    average = torch.optim.swa_utils.AveragedModel(model)
    average.update_parameters(model)
    result = model(torch.randn(4, 3))
    try:
        kept = copy.deepcopy(result)
    except RuntimeError:
        kept = result.detach().clone()
    copied(torch.randn(4, 3)).backward()
    return kept, copied.layer.bias.grad


# -- gradients of halves, unscaled


@program("scaled_in_half")
def v_half_before_the_optimiser():
    """pytorch-lightning#5140: the model is float16 itself, under autocast and with a scaler."""
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    model.half()  # culprit
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    for _ in range(2):
        with torch.autocast("cpu", dtype=torch.float16):
            out = model(torch.randn(6, 4))
        loss = out.float().pow(2).mean()
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(opt)  # victim
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(opt)
        scaler.update()


@program("scaled_in_half")
def v_a_head_made_in_half():
    """One layer alone, as it was built; the step finds it."""
    body = nn.Linear(4, 8)
    head = nn.Linear(8, 1, dtype=torch.float16)  # culprit
    opt = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    with torch.autocast("cpu", dtype=torch.float16):
        out = head(body(torch.randn(6, 4)))
    scaler.scale(out.float().pow(2).mean()).backward()
    scaler.step(opt)  # victim


@program()
def kv_halves_that_no_scaler_unscales():
    """float16 frozen beside float32 that learns; a float16 model with a scale of its own."""
    frozen, head = nn.Linear(4, 8).half().requires_grad_(False), nn.Linear(8, 1)
    opt = torch.optim.SGD(head.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    for _ in range(2):
        opt.zero_grad()
        scaler.scale(head(frozen(torch.randn(6, 4).half()).float()).pow(2).mean()).backward()
        scaler.step(opt)
        scaler.update()
    small = nn.Linear(4, 1).half()
    (small(torch.randn(6, 4).half()).float().pow(2).mean() * 8).backward()
    with torch.no_grad():
        for p in small.parameters():
            p -= 0.1 * p.grad / 8
    return small.weight


# -- gradients inside of what runs without them


@program("graph_cut", severity="error", tensor="energy")
def v_a_gradient_inside_a_function_s_forward():
    """torchdiffeq#154: an adjoint calls the field, which is a gradient itself."""

    class Solve(torch.autograd.Function):
        @staticmethod
        def forward(ctx, field, state, *_parameters):
            ctx.field = field
            ctx.save_for_backward(state)
            return state + 0.1 * field(state)

        @staticmethod
        def backward(ctx, gradient):
            with torch.enable_grad():
                state = ctx.saved_tensors[0].detach().requires_grad_()
                out = state + 0.1 * ctx.field(state)
                wanted = [state, *ctx.field.parameters()]
            return None, *torch.autograd.grad(out, wanted, gradient, allow_unused=True)

    class Field(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))

        def forward(self, x):
            energy = self.layers(x).sum()  # culprit
            force = torch.autograd.grad(energy, x, create_graph=True)[0]  # victim
            return force.flip(1)

    field = Field()
    end = Solve.apply(field, torch.randn(5, 2), *field.parameters())
    end.pow(2).mean().backward()


@program("graph_cut", severity="error")
def v_a_gradient_inside_a_function_s_backward():
    class Penalised(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        def backward(ctx, gradient):
            (x,) = ctx.saved_tensors
            value = x.sin().sum()  # culprit
            slope = torch.autograd.grad(value, x)[0]  # victim
            return gradient * slope

    x = torch.randn(4, requires_grad=True)
    Penalised.apply(x).sum().backward()


@program("graph_cut", severity="error")
def v_a_gradient_inside_a_hook():
    w, other = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)

    def project(gradient):
        size = (other * gradient).pow(2).sum()  # culprit
        return gradient - torch.autograd.grad(size, other)[0]  # victim

    out = w.tanh()
    out.register_hook(project)
    out.sum().backward()


class Guided(nn.Module):
    """Its forward is a gradient itself."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))

    def forward(self, state):
        with torch.enable_grad():
            state = state if state.requires_grad else state.detach().requires_grad_()
            energy = self.layers(state).sum()
            return torch.autograd.grad(energy, state, create_graph=True)[0]


@program()
def kv_gradients_where_they_are_switched_on_again():
    """Inside a Function, in its backward, in a checkpoint."""

    class Through(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, field):
            ctx.save_for_backward(x)
            ctx.field = field
            return field(x).detach()

        @staticmethod
        def backward(ctx, gradient):
            with torch.enable_grad():
                x = ctx.saved_tensors[0].detach().requires_grad_()
                return torch.autograd.grad(ctx.field(x), x, gradient)[0], None

    field, x = Guided(), torch.randn(5, 2, requires_grad=True)
    Through.apply(x * 1, field).pow(2).mean().backward()
    checkpoint(field, x * 2, use_reentrant=False).pow(2).mean().backward()
    return x.grad
