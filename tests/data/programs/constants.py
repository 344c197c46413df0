"""Terms of a loss that are constant for what they should train; and constants that are meant.

In each broken one `loss_of` computes the loss, so that a test can mend it and compare with central differences.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.distributions import Normal
from torch.nn import functional as F  # noqa: N812  # torch's own convention

from tests.data.programs import program

# -- a term without a history


@program("constant_term")
def c_penalty_of_numbers():
    """An L1 penalty summed up by .item(); SimAC#3 adds a loss so."""
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(2):
        x, y = torch.randn(20, 8), torch.randn(20, 1)

        def loss_of(x=x, y=y):
            penalty = 0.0
            for p in model.parameters():
                penalty += p.abs().sum().item()  # culprit
            fit = F.mse_loss(model(x), y)
            return fit + 0.01 * penalty

        opt.zero_grad()
        loss = loss_of()
        loss.backward()  # victim
        opt.step()


@program("constant_term")
def c_gradient_penalty_without_a_graph():
    """WGAN-GP without create_graph: the penalty has no gradient; MAML-Pytorch#63 is the same line."""

    class Critic(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 1))

        def forward(self, x):
            return self.body(x)

    def penalty(critic, real, fake):
        mix = torch.rand(len(real), 1)
        between = (mix * real + (1 - mix) * fake).requires_grad_()
        (slope,) = torch.autograd.grad(critic(between).sum(), between)  # culprit
        return (slope.norm(2, dim=1) - 1).pow(2).mean()

    critic, generator = Critic(), nn.Linear(3, 6)
    opt = torch.optim.Adam(critic.parameters(), lr=1e-4)
    real = torch.randn(16, 6)

    def loss_of():
        torch.manual_seed(1)
        fake = generator(torch.randn(16, 3)).detach()
        wasserstein = critic(fake).mean() - critic(real).mean()
        return wasserstein + 10.0 * penalty(critic, real, fake)

    opt.zero_grad()
    loss = loss_of()
    loss.backward()  # victim
    opt.step()


@program("constant_term")
def c_dice_of_what_was_thresholded():
    """The Dice term sees a mask of 0 and 1; the cross entropy beside it trains."""
    net = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 1, 1))

    def dice(probability, target):
        hard = (probability > 0.5).float()  # culprit
        overlap = (hard * target).sum((1, 2, 3))
        total = hard.sum((1, 2, 3)) + target.sum((1, 2, 3))
        return 1 - ((2 * overlap + 1) / (total + 1)).mean()

    images, target = torch.randn(3, 1, 8, 8), (torch.rand(3, 1, 8, 8) > 0.5).to(torch.get_default_dtype())

    def loss_of():
        logits = net(images)
        loss = F.binary_cross_entropy_with_logits(logits, target)
        loss = loss + dice(torch.sigmoid(logits), target)
        return loss  # noqa: RET504  # as people write it

    loss = loss_of()
    loss.backward()  # victim


@program("constant_term")
def c_losses_of_layers_made_into_a_tensor():
    """torch.tensor of a list of losses; predrnn-pytorch#11 had it in its release."""

    class Stack(nn.Module):
        def __init__(self, depth=3, width=8):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
            self.head = nn.Linear(width, 1)

        def forward(self, x):
            apart = []
            for layer in self.layers:
                h = torch.tanh(layer(x))
                apart.append(F.cosine_similarity(h, x, dim=1).abs().mean())
                x = h
            decouple = torch.tensor(apart).mean()  # culprit
            return self.head(x), decouple

    model = Stack()
    x, y = torch.randn(12, 8), torch.randn(12, 1)

    def loss_of():
        out, decouple = model(x)
        return F.mse_loss(out, y) + 0.1 * decouple

    opt = torch.optim.Adam(model.parameters())
    for _ in range(2):
        opt.zero_grad()
        loss = loss_of()
        loss.backward()  # victim
        opt.step()


@program("constant_term")
def c_style_computed_in_numpy():
    """Gram matrices by numpy, and back; the content term beside it trains."""
    encoder = nn.Sequential(nn.Linear(10, 6), nn.Tanh())
    image, wanted, style = torch.randn(5, 10), torch.randn(5, 6), torch.randn(6, 6)

    def gram(features):
        array = features.detach().numpy()  # culprit
        return torch.from_numpy(array.T @ array / len(array))

    def loss_of():
        features = encoder(image)
        content = F.mse_loss(features, wanted)
        texture = F.mse_loss(gram(features), style)
        return content + 100 * texture

    opt = torch.optim.LBFGS(encoder.parameters())
    opt.zero_grad()
    loss = loss_of()
    loss.backward()  # victim


@program("constant_term")
def c_distance_returned_as_a_number():
    """FedProx: how far from the server's weights, returned by a function that ends in .item()."""

    class Client:
        def __init__(self, server):
            self.server = [p.detach().clone() for p in server.parameters()]
            self.model = nn.Linear(6, 2)
            self.opt = torch.optim.SGD(self.model.parameters(), lr=0.1)

        def distance(self):
            pairs = zip(self.model.parameters(), self.server, strict=True)
            parts = [(p - q).pow(2).sum() for p, q in pairs]
            return torch.stack(parts).sum().item()  # culprit

    client = Client(nn.Linear(6, 2))
    x, y = torch.randn(15, 6), torch.randint(0, 2, (15,))

    def loss_of():
        fit = F.cross_entropy(client.model(x), y)
        return fit + 0.5 * client.distance()

    for _ in range(2):
        client.opt.zero_grad()
        loss = loss_of()
        loss.backward()  # victim
        client.opt.step()


# -- a term that doesn't reach what the step trains


@program("constant_term")
def c_generator_s_own_loss_detached():
    """pix2pix: the line of the discriminator's step copied into the generator's; only L1 trains it."""

    def block(n, m):
        return nn.Sequential(nn.Linear(n, 16), nn.LeakyReLU(0.2), nn.Linear(16, m))

    generator, discriminator = block(5, 7), block(7, 1)
    opt_g = torch.optim.Adam(generator.parameters(), lr=2e-4)
    opt_d = torch.optim.Adam(discriminator.parameters(), lr=2e-4)
    source, real = torch.randn(10, 5), torch.randn(10, 7)
    one, zero = torch.ones(10, 1), torch.zeros(10, 1)
    for _ in range(2):
        fake = generator(source)
        opt_d.zero_grad()
        on_fake = F.binary_cross_entropy_with_logits(discriminator(fake.detach()), zero)
        (F.binary_cross_entropy_with_logits(discriminator(real), one) + on_fake).backward()
        opt_d.step()

        def loss_of(fake=None):
            fake = generator(source) if fake is None else fake
            fooled = F.binary_cross_entropy_with_logits(discriminator(fake.detach()), one)  # culprit
            return fooled + 10 * F.l1_loss(fake, real)

        opt_g.zero_grad()
        loss = loss_of(fake)
        loss.backward()  # victim
        opt_g.step()


# -- cut on one way of several


@program("constant_term")
def c_latent_that_was_only_sampled():
    """sample() in a VAE: only KL trains the encoder; deepdow#106, firedup#9."""

    class VAE(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.mu, self.log_sigma = nn.Linear(9, 12), nn.Linear(12, 2), nn.Linear(12, 2)
            self.decoder = nn.Sequential(nn.Linear(2, 12), nn.ReLU(), nn.Linear(12, 9))

        def forward(self, x):
            h = torch.tanh(self.encoder(x))
            posterior = Normal(self.mu(h), self.log_sigma(h).exp())
            z = posterior.sample()  # culprit
            return self.decoder(z), posterior

    vae = VAE()
    x = torch.randn(16, 9)
    opt = torch.optim.Adam(vae.parameters(), lr=1e-3)

    def loss_of():
        torch.manual_seed(2)
        out, posterior = vae(x)
        reconstruction = F.mse_loss(out, x)
        divergence = torch.distributions.kl_divergence(posterior, Normal(0.0, 1.0)).mean()
        return reconstruction + divergence

    opt.zero_grad()
    loss = loss_of()
    loss.backward()  # victim
    opt.step()


@program("constant_term", tensor="angle")
def c_rotation_made_of_numbers():
    """torch.tensor([[cos, -sin], …]); discuss.pytorch.org/t/23261 and 26780. A prior reaches the angle otherwise."""
    angle, shift = nn.Parameter(torch.tensor(0.4)), nn.Parameter(torch.zeros(2))
    points = torch.randn(30, 2)
    goal = points @ torch.tensor([[0.0, 1.0], [-1.0, 0.0]]) + 0.3

    def loss_of():
        c, s = torch.cos(angle), torch.sin(angle)
        rotation = torch.tensor([[c, -s], [s, c]])  # culprit
        moved = points @ rotation.T + shift
        return F.mse_loss(moved, goal) + 0.01 * angle.pow(2)

    opt = torch.optim.Adam([angle, shift], lr=0.05)
    for _ in range(2):
        opt.zero_grad()
        loss = loss_of()
        loss.backward()  # victim
        opt.step()


# -- right


@program("constant_term")
def c_noise_with_a_spread_of_its_own():
    """normal(mean, std) in a VAE, pytorch#4620: a draw with a Node, which hands back 0 to both."""
    encoder, spread, decoder = nn.Linear(8, 3), nn.Linear(8, 3), nn.Linear(3, 8)
    opt = torch.optim.Adam([*encoder.parameters(), *spread.parameters(), *decoder.parameters()], lr=1e-3)
    for _ in range(2):
        x = torch.randn(12, 8)

        def loss_of(x=x):
            torch.manual_seed(1)
            mean, std = encoder(x), spread(x).exp()
            code = torch.normal(mean, std)  # culprit
            apart = (0.5 * (mean.pow(2) + std.pow(2)) - std.log()).sum(1)
            return ((decoder(code) - x).pow(2).sum(1) + 0.1 * apart).mean()

        opt.zero_grad()
        loss = loss_of()
        loss.backward()  # victim
        opt.step()


@program("constant_term")
def c_gates_drawn_by_chance():
    """Stochastic gates with a price: the price closes them, whatever the task would need."""
    body, gates, head = nn.Linear(6, 5), nn.Parameter(torch.ones(5)), nn.Linear(5, 1)
    opt = torch.optim.Adam([*body.parameters(), gates, *head.parameters()], lr=1e-2)
    for _ in range(2):
        x, y = torch.randn(20, 6), torch.randn(20, 1)

        def loss_of(x=x, y=y):
            torch.manual_seed(1)
            p = torch.sigmoid(gates)
            drawn = torch.bernoulli(p.expand(20, 5))  # culprit
            return F.mse_loss(head(body(x) * drawn), y) + 0.01 * p.sum()

        opt.zero_grad()
        loss = loss_of()
        loss.backward()  # victim
        opt.step()


@program()
def kc_draws_that_are_scored():
    """REINFORCE and a critic of the action, in one loss; the same with a distribution, all on one line."""
    mean, spread, critic = nn.Linear(4, 2), nn.Parameter(torch.zeros(2)), nn.Linear(6, 1)
    opt = torch.optim.Adam([*mean.parameters(), spread, *critic.parameters()], lr=1e-3)
    for _ in range(2):
        x = torch.randn(10, 4)
        middle, width = mean(x), spread.exp()
        action = torch.normal(middle, width.expand_as(middle))
        score = -((action - middle) ** 2 / (2 * width**2) + width.log()).sum(1)
        value = critic(torch.cat([x, action], 1)).squeeze(1)
        gain = -(action.detach() - 1).pow(2).sum(1)
        loss = -(score * (gain - value.detach())).mean() + (value - gain).pow(2).mean()
        d = Normal(mean(x), spread.exp())
        again = -(d.log_prob(chosen := d.sample()).sum(1) * -(chosen - 1).pow(2).sum(1)).mean() - d.entropy().mean()
        opt.zero_grad()
        (loss + again).backward()
        opt.step()
    return spread


@program()
def kc_draws_that_are_data():
    """Noise on data, on what comes in, straight through, of a memory; a machine that samples by its own weights."""
    encoder, decoder, weights = nn.Linear(8, 4), nn.Linear(4, 8), nn.Parameter(torch.randn(8, 4))
    opt = torch.optim.SGD([*encoder.parameters(), *decoder.parameters(), weights], lr=0.01)
    for _ in range(2):
        x = torch.randn(10, 8)
        p = torch.sigmoid(encoder(torch.normal(x, 0.1)))
        drawn = torch.bernoulli(p)
        code = drawn + p - p.detach()
        fit = F.mse_loss(decoder(code), x + torch.normal(0.0, 0.1, x.shape)) + 0.01 * p.sum()
        with torch.no_grad():
            negative = torch.normal(p, 0.2)
        apart = (decoder(negative) - decoder(torch.normal(p, 0.2).detach())).pow(2).mean()
        hidden = torch.bernoulli(torch.sigmoid(x @ weights))
        seen = torch.bernoulli(torch.sigmoid(hidden @ weights.T))
        energy = F.softplus(seen @ weights).mean() - F.softplus(x @ weights).mean()
        opt.zero_grad()
        (fit + 0.1 * apart + energy).backward()
        opt.step()
    return weights


@program()
def kc_target_of_a_temporal_difference():
    value = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
    opt = torch.optim.Adam(value.parameters())
    for _ in range(2):
        state, reward, after = torch.randn(10, 4), torch.randn(10, 1), torch.randn(10, 4)
        with torch.no_grad():
            target = reward + 0.9 * value(after)
        loss = F.smooth_l1_loss(value(state), target) + 0.1 * (value(state) - value(after).detach()).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


@program()
def kc_policy_gradient_with_a_baseline():
    policy, critic = nn.Linear(4, 2), nn.Linear(4, 1)
    opt = torch.optim.Adam([*policy.parameters(), *critic.parameters()])
    for _ in range(2):
        state = torch.randn(10, 4)
        chosen = Normal(policy(state), 1.0)
        action = chosen.sample()
        returns = -action.pow(2).sum(1)
        worth = critic(state).squeeze(1)
        advantage = returns - worth.detach()
        loss = -(chosen.log_prob(action).sum(1) * advantage).mean() + F.mse_loss(worth, returns)
        opt.zero_grad()
        loss.backward()
        opt.step()


@program()
def kc_codebook_with_straight_through():
    encoder, codes, decoder = nn.Linear(8, 4), nn.Embedding(16, 4), nn.Linear(4, 8)
    x = torch.randn(12, 8)
    z = encoder(x)
    near = codes((z.unsqueeze(1) - codes.weight).pow(2).sum(-1).argmin(1))
    through = z + (near - z).detach()
    loss = F.mse_loss(decoder(through), x) + F.mse_loss(near, z.detach()) + 0.25 * F.mse_loss(z, near.detach())
    loss.backward()
    return encoder.weight.grad, codes.weight.grad


@program()
def kc_teacher_that_follows():
    student, teacher = nn.Linear(6, 3), nn.Linear(6, 3)
    teacher.load_state_dict(student.state_dict())
    opt = torch.optim.SGD(student.parameters(), lr=0.1)
    for _ in range(3):
        x = torch.randn(9, 6)
        with torch.no_grad():
            wanted = teacher(x).softmax(-1)
            entropy = torch.special.entr(wanted).sum(-1).mean()
        loss = F.cross_entropy(student(x), wanted) - entropy
        opt.zero_grad()
        loss.backward()
        opt.step()
        with torch.no_grad():
            for slow, fast in zip(teacher.parameters(), student.parameters(), strict=True):
                slow.mul_(0.99).add_(fast, alpha=0.01)


@program()
def kc_numbers_for_the_log():
    model = nn.Linear(5, 1)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    log = []
    for _ in range(3):
        x, y = torch.randn(8, 5), torch.randn(8, 1)
        fit = F.mse_loss(model(x), y)
        size = sum(p.pow(2).sum() for p in model.parameters())
        loss = fit + 0.01 * size + 1e-8
        opt.zero_grad()
        loss.backward()
        opt.step()
        log.append((loss.item(), fit.item(), model.weight.abs().sum().item()))
    return log


@program()
def kc_size_is_printed_and_a_small_number_added():
    model = nn.Linear(5, 1)

    def size():
        return model.weight.pow(2).sum().item()

    said = []
    for _ in range(2):
        said.append(size())
        loss = F.mse_loss(model(torch.randn(8, 5)), torch.randn(8, 1)) + 1e-8
        loss.backward()
    return said


@program()
def kc_both_backwards_before_both_steps():
    generator, discriminator = nn.Linear(3, 4), nn.Linear(4, 1)
    opt_g = torch.optim.SGD(generator.parameters(), lr=0.1)
    opt_d = torch.optim.SGD(discriminator.parameters(), lr=0.1)
    for _ in range(2):
        real, fake = torch.randn(8, 4), generator(torch.randn(8, 3))
        opt_g.zero_grad()
        (-discriminator(fake).mean()).backward()
        opt_d.zero_grad()
        (discriminator(fake.detach()).mean() - discriminator(real).mean()).backward()
        opt_g.step()
        opt_d.step()


@program()
def kc_weighed_by_its_own_size():
    shared = nn.Linear(5, 4)
    one, other = nn.Linear(4, 1), nn.Linear(4, 1)
    x = torch.randn(10, 5)
    h = torch.tanh(shared(x))
    first, second = one(h).pow(2).mean(), other(h).abs().mean()
    loss = first / first.detach() + second / second.detach()
    loss.backward()
    return shared.weight.grad


@program()
def kc_reparametrised():
    mean, spread = nn.Parameter(torch.zeros(3)), nn.Parameter(torch.zeros(3))
    for _ in range(2):
        z = Normal(mean, spread.exp()).rsample((20,))
        (z.pow(2).mean() - spread.mean()).backward()
    return mean.grad


@program()
def kc_length_of_the_gradient_is_only_watched():
    model = nn.Linear(4, 1)
    loss = model(torch.randn(9, 4)).pow(2).mean()
    slopes = torch.autograd.grad(loss, list(model.parameters()), retain_graph=True)
    length = torch.stack([slope.norm() for slope in slopes]).norm()
    loss.backward()
    return length, model.weight.grad
