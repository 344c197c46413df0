"""Image models of further reports, rebuilt with keys that were fixed before the first run; each names its report."""

# ruff: noqa: B007, B905, F841, N801, N803, N806, RET504, RUF059  # they stay as people have written them

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # torch's own convention

from tests.data.programs import program


@program("not_finite")
def q_colours_that_are_equal():
    """Zero-DCE_extension#2 (NaN after some images)."""

    class L_color(nn.Module):
        def forward(self, x):
            mean_rgb = torch.mean(x, [2, 3], keepdim=True)
            mr, mg, mb = torch.split(mean_rgb, 1, dim=1)
            Drg = torch.pow(mr - mg, 2)
            Drb = torch.pow(mr - mb, 2)
            Dgb = torch.pow(mb - mg, 2)
            k = torch.pow(torch.pow(Drg, 2) + torch.pow(Drb, 2) + torch.pow(Dgb, 2), 0.5)  # culprit
            return k

    class Enhance(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = nn.Conv2d(3, 8, 3, padding=1)
            self.conv2 = nn.Conv2d(8, 3, 3, padding=1)

        def forward(self, x):
            return x + torch.tanh(self.conv2(torch.relu(self.conv1(x)))) * x

    torch.manual_seed(0)
    net, color = Enhance(), L_color()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    images = torch.rand(6, 3, 8, 8)
    images[2] = 0.0
    for step in range(3):
        enhanced = net(images)
        loss = (enhanced - 0.6).pow(2).mean() + 5 * torch.mean(color(enhanced))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program("saved_tensor_modified")
def q_fake_of_the_last_discriminator_step():
    """SinGAN#117, #146."""

    def block(i, o):
        return nn.Sequential(nn.Linear(i, 16), nn.LeakyReLU(0.2), nn.Linear(16, o))

    torch.manual_seed(0)
    netG, netD = block(4, 8), block(8, 1)
    optD = torch.optim.Adam(netD.parameters(), lr=5e-4)
    optG = torch.optim.Adam(netG.parameters(), lr=5e-4)
    Dsteps, Gsteps = 2, 2
    real = torch.randn(8, 8)
    for epoch in range(2):
        for j in range(Dsteps):
            netD.zero_grad()
            errD_real = -netD(real).mean()
            errD_real.backward()
            noise = torch.randn(8, 4)
            fake = netG(noise)  # culprit
            errD_fake = netD(fake.detach()).mean()
            errD_fake.backward()
            optD.step()
        for j in range(Gsteps):
            netG.zero_grad()
            output = netD(fake)
            errG = -output.mean()
            errG.backward(retain_graph=True)
            optG.step()


@program("constant_term")
def q_image_gradients_of_an_argmax():
    """mobile-hair-segmentation-pytorch#3."""

    class ImageGradientLoss(nn.Module):
        def __init__(self):
            super().__init__()
            kernel = torch.tensor([[1.0, 0, -1], [2, 0, -2], [1, 0, -1]]).view(1, 1, 3, 3)
            self.register_buffer("kx", kernel)
            self.register_buffer("ky", kernel.transpose(2, 3).contiguous())

        def forward(self, pred, gray):
            size = pred.size()
            pred = pred.argmax(1).view(size[0], 1, size[2], size[3]).float()  # culprit
            ix, iy = F.conv2d(gray, self.kx, padding=1), F.conv2d(gray, self.ky, padding=1)
            mx, my = F.conv2d(pred, self.kx, padding=1), F.conv2d(pred, self.ky, padding=1)
            magnitude = torch.sqrt(mx**2 + my**2 + 1e-6)
            return (magnitude * (1 - (ix * mx + iy * my) ** 2)).mean()

    class HairMatte(nn.Module):
        def __init__(self):
            super().__init__()
            self.c1, self.c2 = nn.Conv2d(3, 6, 3, padding=1), nn.Conv2d(6, 2, 1)

        def forward(self, x):
            return self.c2(torch.relu(self.c1(x)))

    class HairMattingLoss(nn.Module):
        def __init__(self):
            super().__init__()
            self.image, self.bce = ImageGradientLoss(), nn.CrossEntropyLoss()

        def forward(self, pred, mask, gray):
            return self.bce(pred, mask) + 0.5 * self.image(pred, gray)

    torch.manual_seed(0)
    net, criterion = HairMatte(), HairMattingLoss()
    optimizer = torch.optim.Adadelta(net.parameters())
    for epoch in range(3):
        image, mask = torch.rand(2, 3, 8, 8), torch.randint(0, 2, (2, 8, 8))
        loss = criterion(net(image), mask, image.mean(1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program("never_reached")
def q_dice_of_a_thresholded_copy():
    """segmentation_models.pytorch#611."""

    def _threshold(x, threshold=None):
        if threshold is not None:
            return torch.tensor((x > threshold).type(x.dtype).tolist(), requires_grad=True)  # culprit
        return x

    class DiceLoss(nn.Module):
        def __init__(self, eps=1.0, threshold=None):
            super().__init__()
            self.eps, self.threshold = eps, threshold

        def forward(self, y_pr, y_gt):
            y_pr = torch.sigmoid(y_pr)
            y_pr = _threshold(y_pr, self.threshold)
            tp = torch.sum(y_gt * y_pr)
            fp = torch.sum(y_pr) - tp
            fn = torch.sum(y_gt) - tp
            return 1 - (2 * tp + self.eps) / (2 * tp + fn + fp + self.eps)

    class Epoch:
        def __init__(self, model, loss, optimizer):
            self.model, self.loss, self.optimizer = model, loss, optimizer

        def batch_update(self, x, y):
            self.optimizer.zero_grad()
            prediction = self.model(x)
            loss = self.loss(prediction, y)
            loss.backward()
            self.optimizer.step()
            return loss.item()

    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 1, 1))
    train = Epoch(model, DiceLoss(threshold=0.5), torch.optim.Adam(model.parameters(), lr=1e-3))
    for _ in range(3):
        train.batch_update(torch.rand(2, 3, 8, 8), (torch.rand(2, 1, 8, 8) > 0.5).float())


@program("no_optimiser_holds_it")
def q_feature_loss_with_layers_of_its_own():
    """yolov8_Distillation#5."""

    class FeatureLoss(nn.Module):
        def __init__(self, channels_s, channels_t):
            super().__init__()
            self.align_module = nn.ModuleList(nn.Conv2d(s, t, 1) for s, t in zip(channels_s, channels_t))

        def forward(self, y_s, y_t):
            loss = 0
            for idx, (s, t) in enumerate(zip(y_s, y_t)):
                s = self.align_module[idx](s)
                loss = loss + F.mse_loss(s, t)
            return loss

    class Backbone(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.a, self.b = nn.Conv2d(3, width, 3, padding=1), nn.Conv2d(width, width, 3, padding=1)

        def forward(self, x):
            f1 = torch.relu(self.a(x))
            return [f1, torch.relu(self.b(f1))]

    class Trainer:
        def __init__(self, student, teacher):
            self.student, self.teacher = student, teacher.eval()
            self.optimizer = torch.optim.SGD(student.parameters(), lr=0.01)  # culprit
            self.distill = FeatureLoss((4, 4), (8, 8))

        def step(self, images):
            with torch.no_grad():
                target = self.teacher(images)
            loss = self.distill(self.student(images), target)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()

    torch.manual_seed(0)
    trainer = Trainer(Backbone(4), Backbone(8))
    for _ in range(3):
        trainer.step(torch.rand(2, 3, 8, 8))


@program("cleared_before_step")
def q_cleared_before_the_step():
    """EdgeNets#14."""

    class Seg(nn.Module):
        def __init__(self):
            super().__init__()
            self.enc, self.dec = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 4, 1)

        def forward(self, x):
            return self.dec(F.relu(self.enc(x)))

    def train_seg(model, batches, optimizer, criterion):
        model.train()
        losses = []
        for images, targets in batches:
            pred = model(images)
            loss = criterion(pred, targets)
            loss.backward()
            optimizer.zero_grad()  # culprit
            optimizer.step()
            losses.append(loss.item())
        return sum(losses) / len(losses)

    torch.manual_seed(0)
    model = Seg()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    batches = [(torch.rand(2, 3, 6, 6), torch.randint(0, 4, (2, 6, 6))) for _ in range(3)]
    for epoch in range(2):
        train_seg(model, batches, optimizer, nn.CrossEntropyLoss())


@program("constant_term")
def q_verdict_detached_for_the_generator():
    """CSA-CDGAN#5."""

    class NetG(nn.Module):
        def __init__(self):
            super().__init__()
            self.c1, self.c2 = nn.Conv2d(6, 8, 3, padding=1), nn.Conv2d(8, 1, 1)

        def forward(self, a, b):
            return torch.sigmoid(self.c2(F.relu(self.c1(torch.cat((a, b), 1)))))

    netd = nn.Sequential(nn.Flatten(), nn.Linear(36, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1), nn.Sigmoid())
    torch.manual_seed(0)
    netg = NetG()
    optimizerd = torch.optim.Adam(netd.parameters(), lr=2e-4)
    optimizerg = torch.optim.Adam(netg.parameters(), lr=2e-4)
    l_adv, l_con = nn.BCELoss(), nn.BCELoss()
    for epoch in range(3):
        x1, x2, gt = torch.rand(4, 3, 6, 6), torch.rand(4, 3, 6, 6), (torch.rand(4, 1, 6, 6) > 0.5).float()
        fake = netg(x1, x2)
        pred_real = netd(gt)
        pred_fake = netd(fake).detach()  # culprit
        err_d = l_adv(pred_real, torch.ones_like(pred_real))
        err_g = l_con(fake, gt) + 0.5 * l_adv(pred_fake, torch.ones_like(pred_fake))
        optimizerg.zero_grad()
        err_g.backward(retain_graph=True)
        optimizerg.step()
        optimizerd.zero_grad()
        err_d.backward()
        optimizerd.step()


@program("optimiser_given_non_leaf")
def q_image_scaled_after_it_was_to_learn():
    """randomCNN-voice-transfer#16 (can't optimize a non-leaf Tensor)."""

    class CNN(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(1, 8, (3, 1))

        def forward(self, x):
            return torch.selu(self.conv(x))

    def gram(a):
        n, c, h, w = a.shape
        f = a.view(c, h * w)
        return f @ f.t() / (c * h * w)

    torch.manual_seed(0)
    cnn = CNN()
    style = cnn(torch.randn(1, 1, 9, 4)).detach()
    a_G_var = torch.randn(1, 1, 9, 4, requires_grad=True) * 1e-3  # culprit
    optimizer = torch.optim.Adam([a_G_var])
    for epoch in range(3):
        optimizer.zero_grad()
        loss = (gram(cnn(a_G_var)) - gram(style)).pow(2).sum()
        loss.backward()
        optimizer.step()


@program("not_finite")
def q_centre_of_an_empty_cluster():
    """jsis3d#26 (NaN in the first iterations when an instance is missing)."""

    class DiscriminativeLoss(nn.Module):
        def __init__(self, delta_d=1.5, delta_v=0.5):
            super().__init__()
            self.delta_d, self.delta_v = delta_d, delta_v

        def _centroids(self, embedded, masks):
            summed = torch.einsum("bne,bnk->bke", embedded, masks)
            return summed / masks.sum(1).unsqueeze(-1)  # culprit

        def _variance(self, embedded, masks, mu):
            diff = embedded.unsqueeze(2) - mu.unsqueeze(1)
            d = torch.clamp(diff.abs().sum(-1) - self.delta_v, min=0) ** 2
            return (d * masks).sum() / masks.sum()

        def forward(self, embedded, masks):
            mu = self._centroids(embedded, masks)
            present = (masks.sum(1) > 0).float().unsqueeze(-1)
            regular = (mu * present).abs().sum(-1).mean()
            return self._variance(embedded, masks, mu) + 0.001 * regular

    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 5))
    criterion = DiscriminativeLoss()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for i in range(3):
        points, labels = torch.randn(2, 40, 6), torch.randint(0, 4, (2, 40))
        masks = nn.functional.one_hot(labels, 5).float()
        loss = criterion(net(points), masks)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program("penalty_unused", tensor="steepness")
def q_steepness_of_each_tide_that_is_only_printed():
    """LixiangHan/GANs-for-1D-Signal#7, for a critic of tides: one number for each, shown now and then."""
    critic, maker = nn.Sequential(nn.Linear(12, 8), nn.Tanh(), nn.Linear(8, 1)), nn.Linear(3, 12)
    opt_critic = torch.optim.Adam(critic.parameters(), lr=1e-3)
    opt_maker = torch.optim.Adam(maker.parameters(), lr=1e-3)
    shown = []
    for tide in range(5):
        real = torch.sin(torch.linspace(0, 6, 12) + 6 * torch.rand(8, 1))
        made = maker(torch.randn(8, 3))
        between = (0.5 * real + 0.5 * made).detach().requires_grad_()
        score = critic(between)
        slope = torch.autograd.grad(score, between, torch.ones_like(score), create_graph=True)[0]
        steepness = 10 * (slope.norm(dim=1) - 1).square()
        verdict = (critic(made.detach()) - critic(real)).mean()  # culprit
        opt_critic.zero_grad()
        verdict.backward()
        opt_critic.step()  # victim
        loss = -critic(made).mean()
        opt_maker.zero_grad()
        loss.backward()
        opt_maker.step()
        if tide % 2 == 0:
            shown.append(steepness.mean().item())


@program()
def q_legal_slopes_that_are_meant_so():
    """A penalty of every fourth lap; forces that are compared without a graph, while the energy alone trains."""
    critic = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1))
    energy = nn.Sequential(nn.Linear(3, 6), nn.Tanh())
    optimizer = torch.optim.SGD([*critic.parameters(), *energy.parameters()], lr=0.01)
    errors = []
    for lap in range(8):
        real = torch.randn(6, 4, requires_grad=True)
        score = critic(real)
        (slope,) = torch.autograd.grad(score.sum(), real, create_graph=True)
        smooth = slope.square().sum(1)
        loss = F.softplus(-score).mean()
        if lap % 4 == 0:
            loss = loss + smooth.mean()
        places = torch.randn(6, 3, requires_grad=True)
        total = energy(places).sum()
        forces = -torch.autograd.grad(total, places, create_graph=True)[0]
        with torch.no_grad():
            errors.append((forces - places).abs().mean())
        optimizer.zero_grad()
        (loss + (total - 1).square()).backward()
        optimizer.step()


@program("penalty_unused")
def q_penalty_never_added():
    """LixiangHan/GANs-for-1D-Signal#7, Ha0Tang/AttentionGAN#27."""

    def grad_penalty(netD, real, fake, scale=10.0):
        alpha = torch.rand(len(real), 1)
        mixed = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
        score = netD(mixed)
        (gradient,) = torch.autograd.grad(score.sum(), mixed, create_graph=True)
        return scale * ((gradient.norm(2, dim=1) - 1) ** 2).mean()

    torch.manual_seed(0)
    netG = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8))
    netD = nn.Sequential(nn.Linear(8, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
    optD = torch.optim.Adam(netD.parameters(), lr=1e-4, betas=(0.0, 0.9))
    optG = torch.optim.Adam(netG.parameters(), lr=1e-4, betas=(0.0, 0.9))
    for epoch in range(3):
        real = torch.randn(8, 8)
        for _ in range(2):
            fake = netG(torch.randn(8, 4)).detach()
            real_score, fake_score = netD(real), netD(fake)
            penalty = grad_penalty(netD, real, fake)
            loss_D = fake_score.mean() - real_score.mean()  # culprit
            optD.zero_grad()
            loss_D.backward()
            optD.step()
        loss_G = -netD(netG(torch.randn(8, 4))).mean()
        optG.zero_grad()
        loss_G.backward()
        optG.step()


@program()
def q_legal_penalty_never_added():
    """LixiangHan/GANs-for-1D-Signal#7, Ha0Tang/AttentionGAN#27."""

    def grad_penalty(netD, real, fake, scale=10.0):
        alpha = torch.rand(len(real), 1)
        mixed = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
        score = netD(mixed)
        (gradient,) = torch.autograd.grad(score.sum(), mixed, create_graph=True)
        return scale * ((gradient.norm(2, dim=1) - 1) ** 2).mean()

    torch.manual_seed(0)
    netG = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8))
    netD = nn.Sequential(nn.Linear(8, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
    optD = torch.optim.Adam(netD.parameters(), lr=1e-4, betas=(0.0, 0.9))
    optG = torch.optim.Adam(netG.parameters(), lr=1e-4, betas=(0.0, 0.9))
    for epoch in range(3):
        real = torch.randn(8, 8)
        for _ in range(2):
            fake = netG(torch.randn(8, 4)).detach()
            real_score, fake_score = netD(real), netD(fake)
            penalty = grad_penalty(netD, real, fake)
            loss_D = fake_score.mean() - real_score.mean() + penalty
            optD.zero_grad()
            loss_D.backward()
            optD.step()
        loss_G = -netD(netG(torch.randn(8, 4))).mean()
        optG.zero_grad()
        loss_G.backward()
        optG.step()
