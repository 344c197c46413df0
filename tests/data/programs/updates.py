"""Parameters, buffers and inputs that change between the forward and its backward."""

from __future__ import annotations

import copy

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # torch's own convention
from torch.optim.swa_utils import AveragedModel

from tests.data.programs import program


def mlp():
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))


@program("saved_tensor_modified", route="self")
def u_micro_batches_forwarded_before_the_steps():
    model = mlp()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = [model(torch.randn(2, 3)).pow(2).mean() for _ in range(3)]  # victim
    for loss in losses:
        opt.zero_grad()
        loss.backward()
        opt.step()  # culprit


@program("saved_tensor_modified", route="self")
def u_step_between_two_losses_of_one_forward():
    model = mlp()
    opt = torch.optim.AdamW(model.parameters(), lr=0.1)
    out = model(torch.randn(2, 3))  # victim
    out.pow(2).mean().backward(retain_graph=True)
    opt.step()  # culprit
    out.abs().mean().backward()


@program("saved_tensor_modified", tensor="w", route="self")
def u_manual_update_too_early():
    w = torch.randn(3, requires_grad=True)
    x = torch.randn(4, 3)
    loss = (torch.outer(x @ w, w)).sum()  # victim
    with torch.no_grad():
        w -= 0.1 * w.sign()  # culprit
    loss.backward()


@program("saved_tensor_modified", tensor="table.weight", route="self")
def u_tied_weights_normalised_after_the_forward():
    table = nn.Embedding(6, 4)
    logits = F.linear(table(torch.tensor([0, 3])), table.weight)  # victim
    with torch.no_grad():
        table.weight.div_(table.weight.norm(dim=1, keepdim=True))  # culprit
    logits.logsumexp(1).sum().backward()


@program("saved_tensor_modified", tensor="table", route="inside")
def u_max_norm_renormalises_what_was_measured():
    table = torch.randn(5, 3, requires_grad=True) * 3
    lengths = table.norm(dim=1)  # victim
    found = F.embedding(torch.tensor([0, 2]), table.detach(), max_norm=1.0)  # culprit
    (found.sum() + lengths.sum()).backward()


@program("saved_tensor_modified", tensor="embed.weight", route="inside")
def u_siamese_embedding_with_max_norm():
    embed, project = nn.Embedding(6, 3, max_norm=0.5), nn.Linear(3, 2)
    left = project(embed.weight).mean(0)  # victim
    right = project(embed(torch.tensor([1, 2]))).mean(0)  # culprit
    F.mse_loss(left, right).backward()


@program("saved_tensor_modified", route="self")
def u_best_weights_restored_before_backward():
    model = mlp()
    best = copy.deepcopy(model.state_dict())
    loss = model(torch.randn(2, 3)).pow(2).mean()  # victim
    if loss > 0:
        model.load_state_dict(best)  # culprit
    loss.backward()


@program("saved_tensor_modified", tensor="layer.weight", route="view")
def u_weights_initialised_again():
    layer = nn.Linear(3, 3)
    x = torch.randn(2, 3, requires_grad=True)
    loss = layer(x).tanh().sum()  # victim
    nn.init.orthogonal_(layer.weight)  # culprit
    loss.backward()


@program("saved_tensor_modified", route="self")
def u_buffer_updated_after_it_was_used():
    class Centred(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(3))
            self.register_buffer("running", torch.ones(3))

        def forward(self, x):
            y = x * self.scale * self.running  # victim
            self.running.mul_(0.9).add_(x.mean(0), alpha=0.1)  # culprit
            return y

    Centred()(torch.randn(4, 3)).sum().backward()


@program("saved_tensor_modified", tensor="h", node="SigmoidBackward0")
def u_dropout_in_place():
    layer = nn.Linear(3, 4)
    h = torch.sigmoid(layer(torch.randn(2, 3)))  # victim
    F.dropout(h, 0.5, inplace=True)  # culprit
    h.sum().backward()


@program("saved_tensor_modified", node="TanhBackward0")
def u_inplace_activation_after_tanh():
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.ELU(inplace=True), nn.Linear(4, 1))  # culprit
    out = model(torch.randn(2, 3))  # victim
    out.sum().backward()


@program("saved_tensor_modified", tensor="x", route="self")
def u_batch_augmented_in_place():
    model = mlp()
    x = torch.randn(4, 3)
    clean = model(x)  # victim
    x.add_(0.1)  # culprit
    noisy = model(x)
    F.mse_loss(clean, noisy).backward()


@program("saved_tensor_modified", tensor="inputs", route="self")
def u_input_buffer_filled_with_the_next_batch():
    model = mlp()
    inputs = torch.empty(4, 3)
    losses = []
    for batch in torch.randn(2, 4, 3):
        inputs.copy_(batch)  # culprit
        losses.append(model(inputs).mean())  # victim
    torch.stack(losses).sum().backward()


@program("saved_tensor_modified", route="self")
def u_meta_learning_inner_step_in_place():
    model = nn.Linear(3, 1)
    x, y = torch.randn(4, 3, requires_grad=True), torch.randn(4, 1)
    outer = model(x).pow(2).mean()  # victim
    inner = F.mse_loss(model(x.detach()), y)
    slopes = torch.autograd.grad(inner, list(model.parameters()))
    with torch.no_grad():
        for p, slope in zip(model.parameters(), slopes, strict=True):
            p.sub_(slope)  # culprit
    outer.backward()


@program("saved_tensor_modified", route="self")
def u_sharpness_aware_ascent_before_the_second_loss():
    model = mlp()
    x = torch.randn(4, 3)
    first = model(x).pow(2).mean()  # victim
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.05 * torch.ones_like(p))  # culprit
    second = model(x).pow(2).mean()
    (first + second).backward()


@program("silent_corruption", route="data")
def u_averaged_weights_swapped_in():
    norm, layer = nn.LayerNorm(3), nn.Linear(3, 3)
    average = {name: p.detach().clone() * 0.5 for name, p in norm.named_parameters()}
    loss = norm(layer(torch.randn(2, 3))).pow(3).mean()  # victim
    for name, p in norm.named_parameters():
        p.data = average[name]  # culprit
    loss.backward()
    return layer.weight.grad


@program()
def u_averaged_linear_weights_swapped_in():
    model = mlp()
    average = {name: p.detach().clone() * 0.5 for name, p in model.named_parameters()}
    loss = model(torch.randn(2, 3)).pow(2).mean()
    for name, p in model.named_parameters():
        p.data = average[name]  # a linear layer saved a transposed view, which keeps the old memory
    loss.backward()
    return [p.grad for p in model.parameters()]


@program("silent_corruption", route="inside")
def u_fused_adam_between_two_losses():
    model = mlp()
    opt = torch.optim.Adam(model.parameters(), lr=0.1, fused=True)
    x = torch.randn(4, 3)
    first, second = model(x).pow(2).mean(), model(x).abs().mean()  # victim
    first.backward()
    opt.step()  # culprit
    second.backward()
    return [p.grad for p in model.parameters()]


@program("silent_corruption", route="data")
def u_weight_decay_through_data():
    model = mlp()
    loss = model(torch.randn(2, 3)).pow(2).mean()  # victim
    for p in model.parameters():
        p.data -= 0.5 * p.data  # culprit
    loss.backward()
    return [p.grad for p in model.parameters()]


@program("silent_corruption", route="data")
def u_quantised_weights_put_in_place():
    layer = nn.Linear(3, 3)
    x = torch.randn(2, 3, requires_grad=True)
    out = layer(x)  # victim
    layer.weight.data.round_()  # culprit
    out.pow(2).sum().backward()
    return x.grad


@program("silent_corruption", tensor="norm.running_mean")
def u_batch_norm_back_to_training_before_backward():
    norm = nn.BatchNorm1d(3)
    x = torch.randn(8, 3, requires_grad=True)
    norm.eval()
    attacked = norm(x).pow(3).sum()  # victim
    norm.train()
    norm(torch.randn(8, 3) * 4)  # culprit
    attacked.backward()
    return x.grad


@program("saved_tensor_modified")
def u_averaged_model_updated_inside_the_loss():
    model = nn.Linear(3, 1)
    slow = AveragedModel(model)
    x = torch.randn(4, 3, requires_grad=True)
    slow.update_parameters(model)
    target = slow(x)  # victim
    loss = F.mse_loss(model(x), target)
    slow.update_parameters(model)  # culprit
    loss.backward()


@program("saved_tensor_modified", tensor="h", node="SigmoidBackward0")
def u_autocast_does_not_change_the_rules():
    layer = nn.Linear(3, 3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        h = torch.sigmoid(layer(torch.randn(2, 3)))  # victim
        h += 1  # culprit
        loss = h.sum()
    loss.backward()


@program("saved_tensor_modified", tensor="mask", route="self")
def u_one_mask_for_every_layer():
    layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(2))
    h, mask = torch.randn(2, 3), torch.ones(2, 3)
    for layer in layers:
        mask.bernoulli_(0.5)  # culprit
        h = layer(h) * mask  # victim
    h.sum().backward()


@program("saved_tensor_modified", tensor="scale", route="self")
def u_loss_scale_halved_before_backward():
    model, scale = nn.Linear(3, 1), torch.tensor(1024.0)
    scaled = model(torch.randn(2, 3)).mean() * scale  # victim
    scale /= 2  # culprit
    scaled.backward()


@program("saved_tensor_detached", tensor="features")
def u_features_detached_in_place():
    encoder, head = nn.Linear(3, 4), nn.Linear(4, 1)
    features = encoder(torch.randn(2, 3))
    loss = head(features).mean() + features.pow(2).mean()  # victim
    features.detach_()  # culprit
    loss.backward()


@program("saved_tensor_modified", tensor="w", node="MulBackward0")
def u_hook_that_updates_between_two_backwards():
    w = torch.ones(3, requires_grad=True)

    def update(p):
        with torch.no_grad():
            p -= 0.1 * p.grad  # culprit

    w.register_post_accumulate_grad_hook(update)
    loss = (w * w).sum()  # victim
    loss.backward(retain_graph=True)
    loss.backward()


@program("saved_tensor_modified", tensor="gain", node="MulBackward0")
def u_hook_that_clips_another_leaf():
    w = torch.ones(3, requires_grad=True)
    gain = torch.full((3,), 2.0, requires_grad=True)
    scaled = w * gain  # victim

    def clip(_):
        with torch.no_grad():
            gain.clamp_(max=1.0)  # culprit

    out = scaled.exp()
    out.register_hook(clip)
    out.sum().backward()


@program("saved_tensor_modified", node="AddmmBackward0")
def u_optimiser_in_backward_and_a_second_backward():
    model = nn.Linear(3, 3)
    optimisers = {p: torch.optim.SGD([p], lr=0.1) for p in model.parameters()}

    def update(p):
        optimisers[p].step()  # culprit
        optimisers[p].zero_grad()

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(update)
    x = torch.ones(2, 3, requires_grad=True)
    loss = model(x).exp().sum()  # victim
    loss.backward(retain_graph=True)
    loss.backward()


@program("saved_tensor_modified", tensor="w", node="MulBackward0")
def u_hook_that_counts_before_it_updates():
    w, seen = torch.ones(3, requires_grad=True), torch.zeros(2)

    def update(p):
        seen[0] += 1
        with torch.no_grad():
            p.sub_(p.grad, alpha=0.1)  # culprit

    w.register_post_accumulate_grad_hook(update)
    loss = (w * w).sum()  # victim
    loss.backward(retain_graph=True)
    loss.backward()


@program("saved_tensor_modified", tensor="gain", node="MulBackward0")
def u_hooks_of_which_one_clips_another_leaf():
    w = torch.ones(3, requires_grad=True)
    gain = torch.full((3,), 2.0, requires_grad=True)
    norms = [torch.zeros(())]
    scaled = w * gain  # victim
    out = scaled.exp()
    total = out.sum()

    def measure(grad):
        norms[0] += grad.norm()

    def clip(grad):
        largest = grad.abs().max()
        largest.clamp_(min=1.0)
        with torch.no_grad():
            gain.clamp_(max=1.0)  # culprit

    total.register_hook(measure)
    out.register_hook(clip)
    total.backward()


@program("saved_tensor_modified", tensor="w", node="MulBackward0")
def u_hook_that_is_a_method():
    class Adapter:
        def update(self, weight):
            rate = torch.tensor(0.5)
            rate /= 5
            with torch.no_grad():
                weight -= rate * weight.grad  # culprit

    w = torch.ones(3, requires_grad=True)
    w.register_post_accumulate_grad_hook(Adapter().update)
    loss = (w * w).sum()  # victim
    loss.backward(retain_graph=True)
    loss.backward()


@program("silent_corruption", tensor="w", node="MulBackward0")
def u_hook_that_updates_through_data_between_two_backwards():
    w = torch.ones(3, requires_grad=True)

    def update(p):
        p.data.sub_(p.grad, alpha=0.1)  # culprit

    w.register_post_accumulate_grad_hook(update)
    loss = (w * w).sum()  # victim
    loss.backward(retain_graph=True)
    loss.backward()


@program("silent_corruption", tensor="gain", node="MulBackward0")
def u_hook_that_clips_another_leaf_through_data():
    w = torch.ones(3, requires_grad=True)
    gain = torch.full((3,), 2.0, requires_grad=True)
    scaled = w * gain  # victim

    def clip(_):
        gain.data.clamp_(max=1.0)  # culprit

    out = scaled.exp()
    out.register_hook(clip)
    out.sum().backward()
