"""Parameters and whole stretches of a program whose gradients are switched off or on, and what that does to the loop.

Rebuilt from what people report: a Module's attribute (MICCAI23-ProtoContra-SFDA#18, fast-reid#178), a freeze undone a
few lines later (yolov5#1213), frozen parameters that move on (fairseq#4702, discuss.pytorch.org/t/153740), networks
of a GAN that stay off (pytorch-CycleGAN-and-pix2pix#651, #1211), gradients switched off for a whole process
(SynergyNet#22, transformers#13257), layers that no forward uses (s4#26, pytorch#9976).
"""

from __future__ import annotations

import copy

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # torch's own convention

from tests.data.programs import program


class Classifier(nn.Module):
    def __init__(self, features=4, classes=3):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(features, 6), nn.ReLU())
        self.head = nn.Linear(6, classes)

    def forward(self, x):
        return self.head(self.backbone(x))


def loader(many=3, rows=4, features=4, classes=3):
    for _ in range(many):
        yield torch.randn(rows, features), torch.randint(0, classes, (rows,))


def fit(model, opt, batches):
    for x, y in batches:
        opt.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()


# -- a freeze that freezes nothing


@program("freeze_without_effect")
def f_attribute_of_a_module():
    class Config:
        lr = 0.05
        epochs = 2
        freeze_backbone = True

    cfg = Config()
    model = Classifier()
    if cfg.freeze_backbone:
        model.backbone.requires_grad = False  # culprit
    model.head.reset_parameters()
    optimizer = torch.optim.SGD(model.parameters(), lr=cfg.lr, momentum=0.9)
    criterion = nn.CrossEntropyLoss()
    for _epoch in range(cfg.epochs):
        model.train()
        running = 0.0
        for x, y in loader():
            optimizer.zero_grad()
            out = model(x)
            loss = criterion(out, y)
            loss.backward()
            optimizer.step()  # victim
            running += loss.item()


@program("freeze_without_effect")
def f_attribute_of_each_child():
    class FineTuner:
        def __init__(self, model, lr):
            self.model = model
            self.optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
            self.history = []

        def freeze(self):
            for name, child in self.model.named_children():
                if name != "head":
                    child.requires_grad = False  # culprit

        def train_step(self, x, y):
            self.optimizer.zero_grad(set_to_none=True)
            loss = F.cross_entropy(self.model(x), y)
            loss.backward()
            self.optimizer.step()  # victim
            return loss.item()

        def fit(self, epochs):
            self.freeze()
            for _ in range(epochs):
                losses = [self.train_step(x, y) for x, y in loader(2)]
                self.history.append(sum(losses) / len(losses))

    FineTuner(Classifier(), 1e-2).fit(2)


@program("freeze_without_effect")
def f_misspelt_on_each_parameter():
    def build(classes):
        model = Classifier(classes=classes)
        for name, param in model.named_parameters():
            if name.startswith("backbone"):
                param.require_grad = False  # culprit
        return model

    model = build(3)
    trainable = [p for p in model.parameters() if p.requires_grad]
    opt = torch.optim.Adam(trainable, lr=1e-2)
    best = float("inf")
    for _epoch in range(2):
        total, seen = 0.0, 0
        for x, y in loader(2):
            loss = F.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()  # victim
            total += loss.item() * len(x)
            seen += len(x)
        best = min(best, total / seen)


@program("freeze_without_effect")
def f_values_of_the_state_dict():
    encoder = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 6))
    head = nn.Linear(6, 3)
    for value in encoder.state_dict().values():
        value.requires_grad = False  # culprit
    opt = torch.optim.SGD([{"params": encoder.parameters()}, {"params": head.parameters(), "lr": 0.1}], lr=0.01)

    def accuracy(batches):
        right = total = 0
        with torch.no_grad():
            for x, y in batches:
                right += (head(encoder(x)).argmax(1) == y).sum().item()
                total += len(y)
        return right / total

    for _ in range(2):
        for x, y in loader(2):
            opt.zero_grad()
            loss = F.cross_entropy(head(encoder(x)), y)
            loss.backward()
            opt.step()  # victim
        accuracy(loader(1))


@program("freeze_without_effect")
def f_data_of_each_parameter():
    class Student(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(10, 4)
            self.mix = nn.Linear(4, 4)
            self.out = nn.Linear(4, 2)
            self.freeze_embeddings()

        def freeze_embeddings(self):
            for p in self.embed.parameters():
                p.data.requires_grad = False  # culprit

        def forward(self, tokens):
            return self.out(torch.relu(self.mix(self.embed(tokens).mean(1))))

    student = Student()
    opt = torch.optim.Adagrad(student.parameters(), lr=0.1)
    for _ in range(3):
        tokens = torch.randint(0, 10, (4, 5))
        target = (tokens.sum(1) % 2).long()
        loss = F.cross_entropy(student(tokens), target)
        opt.zero_grad()
        loss.backward()
        opt.step()  # victim


@program("freeze_without_effect")
def f_undone_a_few_lines_later():
    freeze = ["backbone.0."]
    model = Classifier()
    for k, v in model.named_parameters():
        if any(x in k for x in freeze):
            v.requires_grad = False
    pg0, pg1 = [], []
    for k, v in model.named_parameters():
        v.requires_grad = True  # culprit
        if k.endswith("bias"):
            pg0.append(v)
        else:
            pg1.append(v)
    optimizer = torch.optim.SGD(pg0, lr=0.01, momentum=0.9, nesterov=True)
    optimizer.add_param_group({"params": pg1, "weight_decay": 5e-4})
    for _epoch in range(2):
        mloss = 0.0
        for i, (x, y) in enumerate(loader(2)):
            pred = model(x)
            loss = F.cross_entropy(pred, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()  # victim
            mloss = (mloss * i + loss.item()) / (i + 1)


@program("freeze_without_effect")
def f_frozen_parameters_move_on():
    model = Classifier()
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    warmup, epochs = 1, 3
    for epoch in range(epochs):
        if epoch == warmup:
            for p in model.backbone.parameters():
                p.requires_grad_(False)  # culprit
        for x, y in loader(2):
            opt.zero_grad(set_to_none=False)
            out = model(x)
            loss = F.cross_entropy(out, y)
            loss.backward()
            opt.step()  # victim


# -- a freeze that silences what was meant to learn


@program("learns_no_more")
def f_discriminator_stays_off():
    gen = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 3))
    disc = nn.Sequential(nn.Linear(3, 4), nn.LeakyReLU(0.2), nn.Linear(4, 1))
    opt_g = torch.optim.Adam(gen.parameters(), lr=1e-3, betas=(0.5, 0.999))
    opt_d = torch.optim.Adam(disc.parameters(), lr=1e-3, betas=(0.5, 0.999))
    bce = nn.BCEWithLogitsLoss()

    def set_requires_grad(net, flag):
        for p in net.parameters():
            p.requires_grad = flag

    for step in range(3):
        real = torch.randn(4, 3)
        fake = gen(torch.randn(4, 2))
        if step == 0:
            opt_d.zero_grad()
            loss_d = bce(disc(real), torch.ones(4, 1)) + bce(disc(fake.detach()), torch.zeros(4, 1))
            loss_d.backward()
            opt_d.step()
        set_requires_grad(disc, False)  # culprit
        opt_g.zero_grad()
        loss_g = bce(disc(fake), torch.ones(4, 1))
        loss_g.backward()
        opt_g.step()
        opt_d.zero_grad()
        if step > 0:
            logits = disc(fake.detach())
            loss_d = bce(logits, torch.zeros(4, 1)) + 0 * gen[0].bias.sum()
            loss_d.backward()
            opt_d.step()  # victim


@program("learns_no_more")
def f_critic_frozen_in_the_actor_s_update():
    class Agent:
        def __init__(self):
            self.actor = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2))
            self.critic = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 1))
            self.value_scale = nn.Parameter(torch.ones(1))
            self.opt_actor = torch.optim.Adam([*self.actor.parameters(), self.value_scale], lr=1e-3)
            self.opt_critic = torch.optim.Adam(self.critic.parameters(), lr=1e-3)

        def q(self, state, action):
            return self.value_scale * self.critic(torch.cat([state, action], 1))

        def update_critic(self, state, action, reward):
            loss = F.mse_loss(self.q(state, action), reward)
            self.opt_critic.zero_grad()
            loss.backward()
            self.opt_critic.step()  # victim

        def update_actor(self, state):
            self.critic.requires_grad_(False)  # culprit
            loss = -self.q(state, torch.tanh(self.actor(state))).mean()
            self.opt_actor.zero_grad()
            loss.backward()
            self.opt_actor.step()

    agent = Agent()
    for _ in range(3):
        state, action, reward = torch.randn(5, 4), torch.randn(5, 2), torch.randn(5, 1)
        agent.update_critic(state, action, reward)
        agent.update_actor(state)


@program("learns_no_more")
def f_backbone_frozen_for_the_warmup_and_never_thawed():
    model = Classifier()
    opt_backbone = torch.optim.AdamW(model.backbone.parameters(), lr=1e-4)
    opt_head = torch.optim.AdamW(model.head.parameters(), lr=1e-2)

    def freeze(module):
        for p in module.parameters():
            p.requires_grad = False  # culprit

    def warm_up(epochs):
        freeze(model.backbone)
        for _ in range(epochs):
            for x, y in loader(2):
                opt_head.zero_grad()
                F.cross_entropy(model(x), y).backward()
                opt_head.step()

    def fine_tune(epochs):
        for _ in range(epochs):
            for x, y in loader(2):
                opt_head.zero_grad()
                opt_backbone.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                opt_head.step()
                opt_backbone.step()  # victim

    warm_up(1)
    fine_tune(2)


@program("learns_no_more")
def f_all_encoders_share_the_frozen_one():
    def pretrained():
        net = nn.Sequential(nn.Linear(4, 6), nn.ReLU())
        with torch.no_grad():
            for p in net.parameters():
                p.mul_(0.5)
        return net

    teacher = pretrained()
    student = teacher
    head = nn.Linear(6, 3)
    opt_student = torch.optim.SGD(student.parameters(), lr=0.1)
    opt_head = torch.optim.SGD(head.parameters(), lr=0.1)
    teacher.requires_grad_(False)  # culprit
    temperature = 2.0
    for x, y in loader(3):
        with torch.no_grad():
            soft = F.softmax(head(teacher(x)) / temperature, 1)
        logits = head(student(x))
        kl = F.kl_div(F.log_softmax(logits / temperature, 1), soft, reduction="batchmean")
        loss = F.cross_entropy(logits, y) + temperature**2 * kl
        opt_student.zero_grad()
        opt_head.zero_grad()
        loss.backward()
        opt_head.step()
        opt_student.step()  # victim


# -- everything frozen: torch raises, and the line that froze it is the one to look at


@program("graph_cut", severity="error")
def f_the_new_head_is_frozen_too():
    def build(classes):
        model = Classifier()
        model.head = nn.Linear(6, classes)
        for param in model.parameters():
            param.requires_grad = False  # culprit
        return model

    model = build(5)
    optimizer = torch.optim.SGD(model.head.parameters(), lr=0.01, momentum=0.9)
    criterion = nn.CrossEntropyLoss()
    for _epoch in range(2):
        model.train()
        for x, y in loader(2, classes=5):
            optimizer.zero_grad()
            outputs = model(x)
            loss = criterion(outputs, y)
            loss.backward()  # victim
            optimizer.step()


@program("graph_cut", severity="error")
def f_frozen_for_feature_extraction_and_trained_again():
    class Pipeline:
        def __init__(self):
            self.net = Classifier()
            self.opt = torch.optim.Adam(self.net.parameters(), lr=1e-3)

        def extract(self, batches):
            self.net.eval().requires_grad_(False)  # culprit
            return [self.net.backbone(x) for x, _ in batches]

        def train(self, batches):
            self.net.train()
            for x, y in batches:
                loss = F.cross_entropy(self.net(x), y)
                self.opt.zero_grad()
                loss.backward()  # victim
                self.opt.step()

    pipe = Pipeline()
    pipe.train(loader(1))
    features = pipe.extract(loader(2))
    assert len(features) == 2
    pipe.train(loader(1))


# -- held by an optimiser, reached by no loss


@program("never_reached")
def f_layer_that_no_forward_uses():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc1 = nn.Linear(4, 6)
            self.fc2 = nn.Linear(6, 6)  # culprit
            self.fc3 = nn.Linear(6, 3)
            self.act = nn.ReLU()

        def forward(self, x):
            h = self.act(self.fc1(x))
            h = self.act(h)
            return self.fc3(h)

    net = Net()
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(2):
        for x, y in loader(2):
            opt.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            opt.step()  # victim


@program("never_reached")
def f_the_positions_are_made_and_not_added():
    class Tagger(nn.Module):
        def __init__(self, words=12, width=4, tags=3, length=5):
            super().__init__()
            self.words = nn.Embedding(words, width)
            self.register_parameter("positions", nn.Parameter(torch.zeros(length, width)))
            nn.init.normal_(self.positions, std=0.02)  # culprit
            self.encoder = nn.GRU(width, width, batch_first=True)
            self.tags = nn.Linear(width, tags)

        def forward(self, tokens):
            out, _ = self.encoder(self.words(tokens))
            return self.tags(out)

    tagger = Tagger()
    opt = torch.optim.AdamW(tagger.parameters(), lr=1e-2)
    for _ in range(3):
        tokens = torch.randint(0, 12, (2, 5))
        loss = F.cross_entropy(tagger(tokens).flatten(0, 1), (tokens % 3).flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()  # victim


@program("never_reached")
def f_the_old_head_is_trained():
    def build():
        net = Classifier()
        old = nn.Linear(6, 3)  # culprit
        net.head = old
        return net, old

    net, head = build()
    opt_backbone = torch.optim.SGD(net.backbone.parameters(), lr=0.01)
    opt_head = torch.optim.SGD(head.parameters(), lr=0.1)
    net.head = nn.Linear(6, 3).requires_grad_(False)
    for _ in range(2):
        for x, y in loader(2):
            logits = net(x)
            loss = F.cross_entropy(logits, y)
            opt_backbone.zero_grad()
            opt_head.zero_grad()
            loss.backward()
            opt_backbone.step()
            opt_head.step()  # victim


@program("never_reached")
def f_attention_is_computed_and_its_result_dropped():  # RE-Net#6: the rows were never put into the padded tensor
    class Attention(nn.Module):
        def __init__(self, width=4):
            super().__init__()
            self.score = nn.Linear(width, 1)
            self.out = nn.Linear(width, 3)

        def forward(self, history):
            rows = torch.zeros(len(history), history.shape[-1])
            for each in history:
                weights = F.softmax(self.score(each), dim=0)
                row = (weights * each).sum(0)  # culprit
            del row
            return self.out(rows + history.mean(1))

    net = Attention()
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(3):
        loss = F.cross_entropy(net(torch.randn(4, 5, 4)), torch.randint(0, 3, (4,)))
        opt.zero_grad()
        loss.backward()
        opt.step()  # victim


@program()
def f_an_attention_whose_result_is_used_every_other_time():
    score, out = nn.Linear(4, 1), nn.Linear(4, 3)
    opt = torch.optim.Adam([*score.parameters(), *out.parameters()], lr=1e-2)
    for lap in range(6):
        x = torch.randn(4, 5, 4)
        attended = (F.softmax(score(x), dim=1) * x).sum(1)
        pooled = attended if lap % 2 else x.mean(1)
        opt.zero_grad()
        F.cross_entropy(out(pooled), torch.randint(0, 3, (4,))).backward()
        opt.step()


@program("never_reached")
def f_the_second_branch_takes_the_first_one_s_layers():
    class TwoBranches(nn.Module):
        def __init__(self):
            super().__init__()
            self.left = nn.Linear(2, 4)
            self.right = nn.Linear(2, 4)
            self.join = nn.Linear(8, 3)

        def forward(self, x):
            a, b = x[:, :2], x[:, 2:]
            left = torch.relu(self.left(a))
            right = torch.relu(self.left(b))  # culprit
            return self.join(torch.cat([left, right], 1))

    model = TwoBranches()
    opt = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    for _epoch in range(2):
        for x, y in loader(2):
            loss = F.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()  # victim


# -- gradients switched off for good


@program("graph_cut", severity="error")
def f_validation_switches_gradients_off():
    model = Classifier()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)

    def evaluate(batches):
        model.eval()
        torch.set_grad_enabled(False)  # culprit
        right = total = 0
        for x, y in batches:
            right += (model(x).argmax(1) == y).sum().item()
            total += len(y)
        return right / total

    try:
        for _epoch in range(2):
            model.train()
            for x, y in loader(2):
                loss = F.cross_entropy(model(x), y)
                opt.zero_grad()
                loss.backward()  # victim
                opt.step()
            evaluate(loader(1))
    finally:
        torch.set_grad_enabled(True)


@program("graph_cut", severity="error")
def f_a_detector_switches_gradients_off_where_it_is_built():
    class Detector:
        def __init__(self):
            torch.set_grad_enabled(False)  # culprit
            self.net = nn.Linear(4, 4)
            self.net.eval()

        def crop(self, image):
            return image + 0.1 * self.net(image)

    try:
        detector = Detector()
        model = Classifier()
        opt = torch.optim.Adam(model.parameters(), lr=1e-3)
        for x, y in loader(2):
            crops = detector.crop(x)
            logits = model(crops)
            loss = F.cross_entropy(logits, y)
            opt.zero_grad()
            loss.backward()  # victim
            opt.step()
    finally:
        torch.set_grad_enabled(True)


@program("graph_cut", severity="error")
def f_a_guard_is_entered_and_not_left():
    model = Classifier()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    guard = torch.no_grad()

    class Ema:
        def __init__(self, decay):
            self.decay = decay
            self.shadow = copy.deepcopy(model)

        def update(self):
            guard.__enter__()  # culprit
            for slow, fast in zip(self.shadow.parameters(), model.parameters(), strict=True):
                slow.mul_(self.decay).add_(fast, alpha=1 - self.decay)

    ema = Ema(0.9)
    try:
        for x, y in loader(2):
            loss = F.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()  # victim
            opt.step()
            ema.update()
    finally:
        torch.set_grad_enabled(True)


@program("graph_cut", severity="note")
def f_the_error_is_silenced_by_requires_grad():
    model = Classifier()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    phases = ("val", "train")
    try:
        for phase in phases:
            if phase == "val":
                model.eval()
                torch.set_grad_enabled(False)  # culprit
            else:
                model.train()
            for x, y in loader(2):
                out = model(x)
                loss = F.cross_entropy(out, y)
                if phase == "train":
                    opt.zero_grad()
                    loss.requires_grad_(True)
                    loss.backward()  # victim
                    opt.step()
    finally:
        torch.set_grad_enabled(True)


# -- right


@program()
def f_ok_each_parameter_frozen():
    model = Classifier()
    for param in model.backbone.parameters():
        param.requires_grad = False
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    fit(model, opt, loader(4))


@program()
def f_ok_module_switched_with_its_method():
    model = Classifier()
    model.requires_grad_(False)
    model.head.requires_grad_(True)
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    fit(model, opt, loader(3))
    model.backbone.requires_grad_(True)
    fit(model, opt, loader(3))


@program()
def f_ok_gan_toggles_its_discriminator():
    gen, disc = nn.Linear(2, 3), nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
    opt_g = torch.optim.Adam(gen.parameters(), lr=1e-3)
    opt_d = torch.optim.Adam(disc.parameters(), lr=1e-3)

    def switch(net, flag):
        for p in net.parameters():
            p.requires_grad = flag

    for _ in range(3):
        real, fake = torch.randn(4, 3), gen(torch.randn(4, 2))
        switch(disc, True)
        opt_d.zero_grad()
        (disc(fake.detach()).mean() - disc(real).mean()).backward()
        opt_d.step()
        switch(disc, False)
        opt_g.zero_grad()
        (-disc(fake).mean()).backward()
        opt_g.step()


@program()
def f_ok_a_module_with_a_setting_of_that_name():
    class Features(nn.Module):
        def __init__(self, requires_grad=False):
            super().__init__()
            self.requires_grad = requires_grad
            self.body = nn.Linear(4, 6)
            if not requires_grad:
                for p in self.parameters():
                    p.requires_grad = False

        def forward(self, x):
            return torch.relu(self.body(x))

    model = nn.Sequential(Features(), nn.Linear(6, 3))
    opt = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    fit(model, opt, loader(3))


@program()
def f_ok_thawed_layer_by_layer():
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 3))
    for layer in model[:4]:
        layer.requires_grad_(False)
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    for depth in (4, 2, 0):
        model[depth].requires_grad_(True)
        fit(model, opt, loader(2))


@program()
def f_ok_early_layers_frozen_after_the_warmup():
    model = Classifier()
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    fit(model, opt, loader(2))
    for p in model.backbone.parameters():
        p.requires_grad = False
        p.grad = None
    fit(model, opt, loader(2))


@program()
def f_ok_gradients_switched_off_and_on_again():
    model = Classifier()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        for phase in ("train", "val"):
            model.train(phase == "train")
            torch.set_grad_enabled(phase == "train")
            for x, y in loader(2):
                loss = F.cross_entropy(model(x), y)
                if phase == "train":
                    opt.zero_grad()
                    loss.backward()
                    opt.step()
    torch.set_grad_enabled(True)


@program()
def f_ok_one_of_two_heads_each_batch():
    class TwoTasks(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Linear(4, 6)
            self.heads = nn.ModuleDict({"a": nn.Linear(6, 3), "b": nn.Linear(6, 3)})

        def forward(self, x, task):
            return self.heads[task](torch.relu(self.body(x)))

    model = TwoTasks()
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    for n, (x, y) in enumerate(loader(6)):
        loss = F.cross_entropy(model(x, "ab"[n // 3]), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
