"""Training steps of further reports, rebuilt with keys that were fixed before the first run; each names its report."""

# ruff: noqa: B007, B905, N801, PERF401, RET504  # they stay as people have written them

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # torch's own convention

from tests.data.programs import program


@program("not_finite")
def q_gradients_projected_on_one_of_zero():
    """Pytorch-PCGrad#7 (nan after a few epochs)."""

    class TwoHeads(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Linear(6, 12)
            self.a, self.b = nn.Linear(12, 3), nn.Linear(12, 1)

        def forward(self, x):
            h = torch.relu(self.body(x))
            return self.a(h), self.b(h)

    def project(grads):
        out = []
        for i, g_i in enumerate(grads):
            g = g_i.clone()
            for j, g_j in enumerate(grads):
                if i == j:
                    continue
                inner = torch.dot(g, g_j)
                if inner <= 0:
                    g = g - inner * g_j / (g_j.norm() ** 2)  # culprit
            out.append(g)
        return sum(out)

    torch.manual_seed(0)
    net = TwoHeads()
    shared = list(net.body.parameters())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(3):
        x = torch.randn(16, 6)
        labels, wanted = torch.randint(0, 3, (16,)), torch.randn(16, 1)
        out_a, out_b = net(x)
        losses = [F.cross_entropy(out_a, labels), F.relu(F.l1_loss(out_b, wanted) - 5.0)]
        optimizer.zero_grad()
        flat = []
        for loss in losses:
            grads = torch.autograd.grad(loss, shared, retain_graph=True)
            flat.append(torch.cat([g.reshape(-1) for g in grads]))
        sum(losses).backward()
        merged, at = project(flat), 0
        for p in shared:
            p.grad = merged[at : at + p.numel()].view_as(p).clone()
            at += p.numel()
        optimizer.step()


@program("constant_term")
def q_dependency_loss_of_an_argmax():
    """Deep_Hierarchical_Classification#6."""

    class HierarchicalLoss(nn.Module):
        def __init__(self, parents, beta=0.8):
            super().__init__()
            self.parents, self.beta = parents, beta

        def lloss(self, predictions, labels):
            return sum(F.cross_entropy(p, wanted) for p, wanted in zip(predictions, labels))

        def dloss(self, predictions, labels):
            coarse = torch.argmax(torch.softmax(predictions[0], dim=1), dim=1)  # culprit
            fine = torch.argmax(torch.softmax(predictions[1], dim=1), dim=1)
            wrong = (self.parents[fine] != coarse).float()
            missed = (fine != labels[1]).float()
            return torch.sum(torch.pow(3.0, wrong * missed) - 1)

        def forward(self, predictions, labels):
            return self.lloss(predictions, labels) + self.beta * self.dloss(predictions, labels)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.coarse, self.fine = nn.Linear(6, 16), nn.Linear(16, 2), nn.Linear(16, 5)

        def forward(self, x):
            h = torch.relu(self.body(x))
            return self.coarse(h), self.fine(h)

    torch.manual_seed(0)
    model, criterion = Net(), HierarchicalLoss(torch.tensor([0, 0, 1, 1, 1]))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        x, fine = torch.randn(12, 6), torch.randint(0, 5, (12,))
        loss = criterion(model(x), (criterion.parents[fine], fine))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program("graph_kept")
def q_sum_of_likelihoods_for_the_log():
    """pytorch#1840 (memory grows until OOM)."""

    class Tagger(nn.Module):
        def __init__(self, words=12, tags=4):
            super().__init__()
            self.emb, self.lstm = nn.Embedding(words, 8), nn.LSTM(8, 10)
            self.out = nn.Linear(10, tags)

        def neg_log_likelihood(self, sentence, tags):
            h, _ = self.lstm(self.emb(sentence).unsqueeze(1))
            return F.cross_entropy(self.out(h.squeeze(1)), tags)

    torch.manual_seed(0)
    model = Tagger()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = [(torch.randint(0, 12, (6,)), torch.randint(0, 4, (6,))) for _ in range(5)]
    for epoch in range(2):
        sum_log_likelihood = 0
        for sentence, tags in data:
            model.zero_grad()
            neg_log_likelihood = model.neg_log_likelihood(sentence, tags)
            sum_log_likelihood += neg_log_likelihood  # culprit
            neg_log_likelihood.backward()
            optimizer.step()


@program("constant_term")
def q_students_features_beside_the_teachers():
    """YOLO-Master#240."""

    class Net(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.stem, self.mid, self.head = nn.Linear(6, width), nn.Linear(width, 8), nn.Linear(8, 3)
            self.cache = []

        def forward(self, x):
            self.cache.clear()
            h = torch.relu(self.stem(x))
            h = torch.tanh(self.mid(h))
            self.cache.append(h)
            return self.head(h)

    def hierarchical_loss(student, teacher, x):
        with torch.no_grad():  # culprit
            teacher(x)
            student(x)
        return sum(F.mse_loss(s, t) for s, t in zip(student.cache, teacher.cache))

    torch.manual_seed(0)
    student, teacher = Net(8), Net(24)
    optimizer = torch.optim.AdamW(student.parameters(), lr=1e-3)
    for _ in range(3):
        x, y = torch.randn(16, 6), torch.randint(0, 3, (16,))
        task = F.cross_entropy(student(x), y)
        loss = task + 2.0 * hierarchical_loss(student, teacher, x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program("gradients_never_cleared")
def q_executor_that_never_clears():
    """wekws#73."""

    class Executor:
        def __init__(self):
            self.step = 0

        def train(self, model, optimizer, data_loader, clip=5.0):
            model.train()
            for feats, target in data_loader:
                logits = model(feats)
                loss = F.cross_entropy(logits, target)
                loss.backward()  # culprit
                nn.utils.clip_grad_norm_(model.parameters(), clip)
                optimizer.step()
                self.step += 1

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    loader = [(torch.randn(8, 10), torch.randint(0, 4, (8,))) for _ in range(4)]
    executor = Executor()
    for epoch in range(2):
        executor.train(model, optimizer, loader)


@program("constant_term")
def q_generator_judged_on_detached_results():
    """image2reverb#37."""

    class Reverb:
        def __init__(self):
            self.enc = nn.Linear(6, 4)
            self.g = nn.Sequential(nn.Linear(4 + 2, 16), nn.ReLU(), nn.Linear(16, 10))
            self.d = nn.Sequential(nn.Linear(10 + 4, 16), nn.LeakyReLU(), nn.Linear(16, 1))
            self.opt_g = torch.optim.Adam([*self.enc.parameters(), *self.g.parameters()], lr=1e-3)
            self.opt_d = torch.optim.Adam(self.d.parameters(), lr=1e-3)

        def training_step(self, spec, image, which):
            f = self.enc(image)
            z = torch.randn(len(image), 2)
            fake_spec = self.g(torch.cat((f, z), 1))
            if which == "g":
                d_fake = self.d(torch.cat((fake_spec.detach(), f.detach()), 1))  # culprit
                g_loss1 = F.mse_loss(d_fake, torch.ones_like(d_fake))
                g_loss2 = F.l1_loss(fake_spec, spec)
                return g_loss1 + 100 * g_loss2
            d_fake = self.d(torch.cat((fake_spec.detach(), f.detach()), 1))
            d_real = self.d(torch.cat((spec, f.detach()), 1))
            return 0.5 * (F.mse_loss(d_real, torch.ones_like(d_real)) + F.mse_loss(d_fake, torch.zeros_like(d_fake)))

    torch.manual_seed(0)
    task = Reverb()
    for _ in range(3):
        spec, image = torch.rand(8, 10), torch.rand(8, 6)
        for which, opt in (("g", task.opt_g), ("d", task.opt_d)):
            loss = task.training_step(spec, image, which)
            opt.zero_grad()
            loss.backward()
            opt.step()


@program("foreign_gradients")
def q_discriminator_hears_the_generators_loss():
    """img2img-turbo#56, pytorch-lightning#591."""

    class Turbo:
        def __init__(self):
            self.gen = nn.Sequential(nn.Linear(5, 12), nn.ReLU(), nn.Linear(12, 6))
            self.disc = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 1))
            self.opt_gen = torch.optim.AdamW(self.gen.parameters(), lr=1e-3)
            self.opt_disc = torch.optim.AdamW(self.disc.parameters(), lr=1e-3)

        def generator_step(self, z):
            fake = self.gen(z)
            loss = F.softplus(-self.disc(fake)).mean()
            loss.backward()  # culprit
            self.opt_gen.step()
            self.opt_gen.zero_grad()
            return fake.detach()

        def discriminator_step(self, real, fake):
            loss = F.softplus(-self.disc(real)).mean() + F.softplus(self.disc(fake)).mean()
            loss.backward()
            self.opt_disc.step()
            self.opt_disc.zero_grad()

    torch.manual_seed(0)
    task = Turbo()
    for _ in range(3):
        fake = task.generator_step(torch.randn(8, 5))
        task.discriminator_step(torch.randn(8, 6), fake)


@program("no_optimiser_holds_it")
def q_parameter_cast_to_another_type():
    """pytorch#20089, #17484."""

    class Scaled(nn.Module):
        def __init__(self, dtype=torch.float64):
            super().__init__()
            self.layer = nn.Linear(5, 10, dtype=dtype)
            self.w = nn.Parameter(torch.ones(10)).to(dtype)  # culprit

        def forward(self, x):
            return torch.relu(self.layer(x)) * self.w

    torch.manual_seed(0)
    model = Scaled()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    criterion = nn.MSELoss()
    for step in range(4):
        x, y = torch.randn(8, 5, dtype=torch.float64), torch.randn(8, 10, dtype=torch.float64)
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()


@program("graph_freed")
def q_membrane_goes_on_through_batches():
    """snntorch#250."""

    class Leaky(nn.Module):
        def __init__(self, beta=0.9):
            super().__init__()
            self.beta, self.mem = beta, torch.zeros(())

        def forward(self, x):
            self.mem = self.beta * self.mem + x  # culprit
            spike = torch.sigmoid(8 * (self.mem - 1))
            return spike

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc1, self.lif1 = nn.Linear(6, 10), Leaky()
            self.fc2, self.lif2 = nn.Linear(10, 3), Leaky()

        def forward(self, x):
            return self.lif2(self.fc2(self.lif1(self.fc1(x))))

    def forward_pass(net, steps, data):
        record = []
        for _ in range(steps):
            record.append(net(data))
        return torch.stack(record)

    torch.manual_seed(0)
    net = Net()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    loss_fn = nn.CrossEntropyLoss()
    for i in range(3):
        data, targets = torch.rand(8, 6), torch.randint(0, 3, (8,))
        spikes = forward_pass(net, 4, data)
        loss = loss_fn(spikes.sum(0), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program("graph_freed")
def q_hidden_state_kept_by_the_module():
    """cnslab_fmri#4."""

    class fMRI_LSTM(nn.Module):
        def __init__(self, hidden_dim, input_dim, batch=4):
            super().__init__()
            self.hidden_dim, self.batch = hidden_dim, batch
            self.lstm = nn.LSTM(input_dim, hidden_dim, num_layers=1, batch_first=True)
            self.linear = nn.Linear(hidden_dim, 1)
            self.hidden = self.init_hidden()

        def init_hidden(self):
            return torch.randn(1, self.batch, self.hidden_dim), torch.randn(1, self.batch, self.hidden_dim)

        def forward(self, x):
            lstm_out, self.hidden = self.lstm(x, self.hidden)  # culprit
            return torch.sigmoid(self.linear(lstm_out.mean(1))).squeeze(-1)

    torch.manual_seed(0)
    net = fMRI_LSTM(8, 5)
    criterion = nn.BCELoss()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for epoch in range(2):
        for _ in range(2):
            training, labels = torch.randn(4, 7, 5), torch.randint(0, 2, (4,)).float()
            net.zero_grad()
            output = net(training)
            loss = criterion(output, labels)
            loss.backward()
            optimizer.step()


@program("saved_tensor_modified")
def q_row_written_after_each_product():
    """yongfengli.tk "Inplace operation in pytorch"."""

    class Recurrence(nn.Module):
        def __init__(self, n=10):
            super().__init__()
            self.param = nn.Parameter(torch.randn(n, n) * 0.1)

        def forward(self, a):
            b = torch.mm(self.param, a)
            y = 0
            for i in range(len(b)):
                b[i] = b[i] + 1  # culprit
                y = y + torch.mm(self.param, b)
            return y

    torch.manual_seed(0)
    model = Recurrence()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(2):
        loss = model(torch.randn(10, 1)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
