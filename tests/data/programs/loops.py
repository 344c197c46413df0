"""Training loops whose gradients are right and are missed by the step, and loops that look alike and are right."""

from __future__ import annotations

import copy

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # torch's own convention
from torch.nn.utils import clip_grad_norm_, clip_grad_value_

from tests.data.programs import program


def mlp(out=1):
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, out))


def batches(many=3, rows=5):
    xs = torch.randn(many, rows, 3)
    return [(x, x.sum(1, keepdim=True)) for x in xs]


class Trainer:
    def __init__(self, model, **options):
        self.model = model
        self.opt = torch.optim.AdamW(model.parameters(), lr=0.05, **options)

    def loss(self, x, y):
        return F.mse_loss(self.model(x), y)


# -- cleared between backward and step


@program("cleared_before_step")
def l_zero_grad_after_backward():
    model = mlp()
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for x, y in batches():
        loss = F.mse_loss(model(x), y)
        loss.backward()
        opt.zero_grad()  # culprit
        opt.step()  # victim


@program("cleared_before_step")
def l_step_before_backward():
    model = mlp()
    opt = torch.optim.Adam(model.parameters(), lr=0.1)
    for x, y in batches():
        loss = F.mse_loss(model(x), y)
        opt.step()  # victim
        loss.backward()
        opt.zero_grad()  # culprit


@program("cleared_before_step")
def l_module_cleared_in_a_method():
    class Careless(Trainer):
        def fit(self):
            for x, y in batches():
                self.loss(x, y).backward()
                self.before_step()
                self.opt.step()  # victim

        def before_step(self):
            self.model.zero_grad()  # culprit

    Careless(mlp()).fit()


@program("cleared_before_step")
def l_zeros_instead_of_none():
    model = mlp()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in batches():
        F.mse_loss(model(x), y).backward()
        opt.zero_grad(set_to_none=False)  # culprit
        opt.step()  # victim


@program("cleared_before_step")
def l_critic_cleared_with_the_wrong_optimiser():
    actor, critic = mlp(), mlp()
    opt_actor = torch.optim.Adam(actor.parameters(), lr=0.01)
    opt_critic = torch.optim.Adam(critic.parameters(), lr=0.01)
    for x, y in batches():
        opt_actor.zero_grad()
        F.mse_loss(actor(x), y).backward()
        opt_actor.step()
        F.mse_loss(critic(x), y).backward()
        opt_critic.zero_grad()  # culprit
        opt_critic.step()  # victim


# -- never cleared


@program("gradients_never_cleared")
def l_zero_grad_forgotten():
    model = mlp()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in batches():
        loss = F.mse_loss(model(x), y)
        loss.backward()  # culprit
        opt.step()  # victim


@program("gradients_never_cleared")
def l_cleared_once_before_the_loop():
    trainer = Trainer(mlp())
    trainer.opt.zero_grad()
    for x, y in batches(4):
        loss = trainer.loss(x, y)
        loss.backward()  # culprit
        trainer.opt.step()  # victim


@program("gradients_never_cleared")
def l_another_module_is_cleared():
    model, teacher = mlp(), mlp().requires_grad_(False)
    opt = torch.optim.Adam(model.parameters(), lr=0.01)
    for x, _ in batches():
        teacher.zero_grad()
        with torch.no_grad():
            wanted = teacher(x)
        F.mse_loss(model(x), wanted).backward()  # culprit
        opt.step()  # victim


@program("gradients_never_cleared")
def l_embedding_and_head_never_cleared():
    table, head = nn.Embedding(7, 3), nn.Linear(3, 2)
    opt = torch.optim.SGD([*table.parameters(), *head.parameters()], lr=0.1)
    for _ in range(3):
        words = torch.randint(0, 7, (4,))
        F.cross_entropy(head(table(words)), words % 2).backward()  # culprit
        opt.step()  # victim


@program("gradients_never_cleared")
def l_clipped_and_never_cleared():
    model = mlp()
    opt = torch.optim.Adam(model.parameters(), lr=0.01)
    for x, y in batches(4):
        loss = F.mse_loss(model(x), y)
        loss.backward()  # culprit
        norm = nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        if torch.isfinite(norm):
            opt.step()  # victim


# -- what another loss has left


@program("foreign_gradients")
def l_generator_s_loss_in_the_discriminator_s_step():
    generator, discriminator = nn.Linear(2, 3), mlp()
    opt_g = torch.optim.Adam(generator.parameters(), lr=0.01)
    opt_d = torch.optim.Adam(discriminator.parameters(), lr=0.01)
    for real, _ in batches():
        opt_d.zero_grad()
        opt_g.zero_grad()
        fake = generator(torch.randn(5, 2))
        (-discriminator(fake).mean()).backward()  # culprit
        opt_g.step()
        loss_d = discriminator(fake.detach()).mean() - discriminator(real).mean()
        loss_d.backward()
        opt_d.step()  # victim


@program("foreign_gradients")
def l_actor_s_loss_in_the_critic_s_step():
    actor, critic = nn.Linear(3, 2), nn.Linear(5, 1)
    opt_a = torch.optim.SGD(actor.parameters(), lr=0.1)
    opt_c = torch.optim.SGD(critic.parameters(), lr=0.1)
    for state, reward in batches():
        action = actor(state)
        opt_a.zero_grad()
        (-critic(torch.cat([state, action], 1)).mean()).backward()  # culprit
        opt_a.step()
        F.mse_loss(critic(torch.cat([state, action.detach()], 1)), reward).backward()
        opt_c.step()  # victim
        opt_c.zero_grad()


# -- clipped too late


@program("clipped_after_step")
def l_clipped_after_the_step():
    model = mlp()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in batches():
        opt.zero_grad()
        F.mse_loss(model(x), y).backward()
        opt.step()  # victim
        clip_grad_norm_(model.parameters(), 1.0)  # culprit


@program("clipped_after_step")
def l_values_clipped_after_the_step():
    trainer = Trainer(mlp())
    for x, y in batches():
        trainer.loss(x, y).backward()
        trainer.opt.step()  # victim
        clip_grad_value_(trainer.model.parameters(), 0.5)  # culprit
        trainer.opt.zero_grad()


# -- held by no optimiser


@program("no_optimiser_holds_it")
def l_layers_in_a_plain_list():
    class Deep(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = [nn.Linear(3, 3) for _ in range(2)]  # culprit
            self.head = nn.Linear(3, 1)

        def forward(self, x):
            for block in self.blocks:
                x = torch.tanh(block(x))
            return self.head(x)

    model = Deep()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in batches():
        opt.zero_grad()
        F.mse_loss(model(x), y).backward()
        opt.step()  # victim


@program("no_optimiser_holds_it")
def l_head_replaced_after_the_optimiser_was_made():
    model = mlp()
    opt = torch.optim.Adam(model.parameters(), lr=0.01)
    model[2] = nn.Linear(4, 2)  # culprit
    for x, y in batches():
        loss = F.cross_entropy(model(x), (y[:, 0] > 0).long())
        opt.zero_grad()
        loss.backward()
        opt.step()  # victim


@program("no_optimiser_holds_it")
def l_the_copy_is_trained():
    model = mlp()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)  # culprit
    student = copy.deepcopy(model)
    for x, y in batches():
        opt.zero_grad()
        (F.mse_loss(student(x), y) + 0.1 * model(x).pow(2).mean()).backward()
        opt.step()  # victim


@program("no_optimiser_holds_it")
def l_weights_of_the_loss():
    class Weighted(nn.Module):
        def __init__(self):
            super().__init__()
            self.log_scale = nn.Parameter(torch.zeros(2))

        def forward(self, *losses):
            return sum(torch.exp(-s) * each + s for s, each in zip(self.log_scale, losses, strict=True))

    model, criterion = mlp(2), Weighted()
    opt = torch.optim.Adam(model.parameters(), lr=0.01)  # culprit
    for x, y in batches():
        out = model(x)
        loss = criterion(F.mse_loss(out[:, :1], y), F.l1_loss(out[:, 1:], y))
        opt.zero_grad()
        loss.backward()
        opt.step()  # victim


# -- right


@program()
def k_cleared_first():
    model = mlp()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in batches():
        opt.zero_grad()
        F.mse_loss(model(x), y).backward()
        clip_grad_norm_(model.parameters(), 1.0)
        opt.step()


@program()
def k_cleared_last():
    trainer = Trainer(mlp(), foreach=False)
    for x, y in batches():
        trainer.loss(x, y).backward()
        clip_grad_value_(trainer.model.parameters(), 0.5)
        trainer.opt.step()
        trainer.opt.zero_grad(set_to_none=False)


@program()
def k_accumulated_over_two_batches():
    model = mlp()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for n, (x, y) in enumerate(batches(6)):
        (F.mse_loss(model(x), y) / 2).backward()
        if n % 2:
            opt.step()
            opt.zero_grad()


@program()
def k_gan_whose_discriminator_is_reached_by_both_losses():
    generator, discriminator = nn.Linear(2, 3), mlp()
    opt_g = torch.optim.Adam(generator.parameters(), lr=0.01)
    opt_d = torch.optim.Adam(discriminator.parameters(), lr=0.01)
    for real, _ in batches():
        fake = generator(torch.randn(5, 2))
        opt_d.zero_grad()
        (discriminator(fake.detach()) - discriminator(real)).mean().backward()
        opt_d.step()
        opt_g.zero_grad()
        (-discriminator(fake).mean()).backward()
        opt_g.step()


@program()
def k_two_optimisers_for_one_loss():
    table, head = nn.Embedding(7, 3), nn.Linear(3, 2)
    sparse, dense = torch.optim.SGD(table.parameters(), lr=0.1), torch.optim.Adam(head.parameters(), lr=0.01)
    for _ in range(3):
        words = torch.randint(0, 7, (4,))
        sparse.zero_grad()
        dense.zero_grad()
        F.cross_entropy(head(table(words)), words % 2).backward()
        sparse.step()
        dense.step()


@program()
def k_cleared_by_hand():
    model = mlp()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in batches():
        for weight in model.parameters():
            weight.grad = None
        F.mse_loss(model(x), y).backward()
        opt.step()


@program()
def k_zeroed_by_hand():
    model = mlp()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in batches():
        F.mse_loss(model(x), y).backward()
        opt.step()
        for weight in model.parameters():
            weight.grad.zero_()


@program()
def k_updated_without_an_optimiser_beside_one():
    model, offset = mlp(), nn.Parameter(torch.zeros(1))
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in batches():
        opt.zero_grad()
        F.mse_loss(model(x) + offset, y).backward()
        opt.step()
        with torch.no_grad():
            offset -= 0.1 * offset.grad
        offset.grad = None


@program()
def k_lbfgs_clears_in_its_closure():
    model = mlp()
    opt = torch.optim.LBFGS(model.parameters(), max_iter=3)
    x, y = batches(1)[0]

    def closure():
        opt.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        return loss

    for _ in range(2):
        opt.step(closure)


@program()
def k_closures_that_accumulate():
    """As Lightning does with three batches and `accumulate_grad_batches=2`: the third steps alone."""
    model = nn.Linear(3, 2)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for number in range(6):

        def closure(first=number % 3 != 1):
            loss = model(torch.randn(4, 3)).pow(2).mean() / 2
            if first:
                opt.zero_grad()
            loss.backward()
            return loss

        if number % 3:
            opt.step(closure)
        else:
            closure()


@program()
def k_a_bad_batch_is_cleared_and_stepped_over():
    model = mlp()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for n, (x, y) in enumerate(batches(4)):
        opt.zero_grad()
        F.mse_loss(model(x), y).backward()
        if n == 2:
            opt.zero_grad()
        opt.step()


@program()
def k_a_second_layer_joins_later():
    first, second = nn.Linear(3, 3), nn.Linear(3, 1)
    opt = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.1)
    for n, (x, y) in enumerate(batches(4)):
        out = first(x) if n < 2 else second(first(x))
        opt.zero_grad()
        (out.mean(1, keepdim=True) - y).pow(2).mean().backward()
        opt.step()


@program()
def k_a_bad_batch_is_thrown_away():
    model = mlp()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for n, (x, y) in enumerate(batches(4)):
        loss = F.mse_loss(model(x), y)
        loss.backward()
        if n == 1:
            opt.zero_grad()
            continue
        opt.step()
        opt.zero_grad()
