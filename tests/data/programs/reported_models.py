"""Models of further reports, rebuilt with keys that were fixed before the first run; each names its report."""

# ruff: noqa: B007, N806, RUF059  # they stay as people have written them

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # torch's own convention

from tests.data.programs import program


@program("saved_tensor_modified")
def q_residual_without_copy():
    """Jee-King/TSAN#3."""

    class Block(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.conv1 = nn.Conv1d(width, width, 3, padding=1)
            self.conv2 = nn.Conv1d(width, width, 3, padding=1)

        def forward(self, x):
            out = x
            h = torch.relu(self.conv1(x))
            h = self.conv2(h)
            out += h  # culprit
            return torch.relu(out)

    class TSAN(nn.Module):
        def __init__(self, width=8, blocks=2):
            super().__init__()
            self.head = nn.Conv1d(3, width, 3, padding=1)
            self.body = nn.ModuleList(Block(width) for _ in range(blocks))
            self.tail = nn.Conv1d(width, 3, 3, padding=1)

        def forward(self, x):
            h = torch.relu(self.head(x))
            for block in self.body:
                h = block(h)
            return self.tail(h)

    torch.manual_seed(0)
    model = TSAN()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    for step in range(2):
        low, high = torch.rand(4, 3, 10), torch.rand(4, 3, 10)
        loss = F.l1_loss(model(low), high)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program()
def q_legal_residual_without_copy():
    """Jee-King/TSAN#3."""

    class Block(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.conv1 = nn.Conv1d(width, width, 3, padding=1)
            self.conv2 = nn.Conv1d(width, width, 3, padding=1)

        def forward(self, x):
            out = x.clone()
            h = torch.relu(self.conv1(x))
            h = self.conv2(h)
            out += h
            return torch.relu(out)

    class TSAN(nn.Module):
        def __init__(self, width=8, blocks=2):
            super().__init__()
            self.head = nn.Conv1d(3, width, 3, padding=1)
            self.body = nn.ModuleList(Block(width) for _ in range(blocks))
            self.tail = nn.Conv1d(width, 3, 3, padding=1)

        def forward(self, x):
            h = torch.relu(self.head(x))
            for block in self.body:
                h = block(h)
            return self.tail(h)

    torch.manual_seed(0)
    model = TSAN()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    for step in range(2):
        low, high = torch.rand(4, 3, 10), torch.rand(4, 3, 10)
        loss = F.l1_loss(model(low), high)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program("graph_cut")
def q_loss_of_losses():
    """MC-E/Deep-Generalized-Unfolding-Networks-for-Image-Restoration#6."""

    class Stage(nn.Module):
        def __init__(self, width=6):
            super().__init__()
            self.a, self.b = nn.Conv2d(3, width, 3, padding=1), nn.Conv2d(width, 3, 3, padding=1)

        def forward(self, x):
            return x + self.b(torch.relu(self.a(x)))

    class Unfolding(nn.Module):
        def __init__(self, stages=3):
            super().__init__()
            self.stages = nn.ModuleList(Stage() for _ in range(stages))

        def forward(self, x):
            out = []
            for stage in self.stages:
                x = stage(x)
                out.append(x)
            return out

    def charbonnier(x, y, eps=1e-3):
        return torch.sqrt((x - y) ** 2 + eps**2).mean()

    def edge(x, y):
        return (x.diff(dim=-1) - y.diff(dim=-1)).abs().mean()

    torch.manual_seed(0)
    model = Unfolding()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-4)
    for epoch in range(2):
        for _ in range(2):
            target = torch.rand(2, 3, 8, 8)
            restored = model(target + 0.1 * torch.randn_like(target))
            loss_char = torch.tensor([charbonnier(r, target) for r in restored], requires_grad=True).sum()  # culprit
            loss_edge = torch.tensor([edge(r, target) for r in restored], requires_grad=True).sum()
            loss = loss_char + 0.05 * loss_edge
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


@program("no_optimiser_holds_it")
def q_convs_in_a_list():
    """kanezaki/pytorch-unsupervised-segmentation#6, asyml/texar-pytorch#72."""

    class MyNet(nn.Module):
        def __init__(self, input_dim, channels=8, layers=2):
            super().__init__()
            self.layers = layers
            self.conv1 = nn.Conv2d(input_dim, channels, 3, padding=1)
            self.bn1 = nn.BatchNorm2d(channels)
            self.conv2 = []
            self.bn2 = []  # culprit
            for i in range(layers - 1):
                self.conv2.append(nn.Conv2d(channels, channels, 3, padding=1))
                self.bn2.append(nn.BatchNorm2d(channels))
            self.conv3 = nn.Conv2d(channels, channels, 1)
            self.bn3 = nn.BatchNorm2d(channels)

        def forward(self, x):
            x = self.bn1(F.relu(self.conv1(x)))
            for i in range(self.layers - 1):
                x = self.bn2[i](F.relu(self.conv2[i](x)))
            return self.bn3(self.conv3(x))

    def main():
        torch.manual_seed(0)
        data = torch.rand(1, 3, 8, 8)
        model = MyNet(3)
        model.train()
        loss_fn = nn.CrossEntropyLoss()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        for batch_idx in range(4):
            optimizer.zero_grad()
            output = model(data)[0].permute(1, 2, 0).reshape(-1, 8)
            target = output.argmax(1)
            loss = loss_fn(output, target)
            loss.backward()
            optimizer.step()
        return model

    model = main()
    model.eval()


@program()
def q_legal_convs_in_a_list():
    """kanezaki/pytorch-unsupervised-segmentation#6, asyml/texar-pytorch#72."""

    class MyNet(nn.Module):
        def __init__(self, input_dim, channels=8, layers=2):
            super().__init__()
            self.layers = layers
            self.conv1 = nn.Conv2d(input_dim, channels, 3, padding=1)
            self.bn1 = nn.BatchNorm2d(channels)
            self.conv2 = nn.ModuleList()
            self.bn2 = nn.ModuleList()
            for i in range(layers - 1):
                self.conv2.append(nn.Conv2d(channels, channels, 3, padding=1))
                self.bn2.append(nn.BatchNorm2d(channels))
            self.conv3 = nn.Conv2d(channels, channels, 1)
            self.bn3 = nn.BatchNorm2d(channels)

        def forward(self, x):
            x = self.bn1(F.relu(self.conv1(x)))
            for i in range(self.layers - 1):
                x = self.bn2[i](F.relu(self.conv2[i](x)))
            return self.bn3(self.conv3(x))

    def main():
        torch.manual_seed(0)
        data = torch.rand(1, 3, 8, 8)
        model = MyNet(3)
        model.train()
        loss_fn = nn.CrossEntropyLoss()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        for batch_idx in range(4):
            optimizer.zero_grad()
            output = model(data)[0].permute(1, 2, 0).reshape(-1, 8)
            target = output.argmax(1)
            loss = loss_fn(output, target)
            loss.backward()
            optimizer.step()
        return model

    model = main()
    model.eval()


@program("constant_term")
def q_attention_terms_detached():
    """bboylyg/NAD#8."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.b1, self.b2, self.b3 = (nn.Conv2d(i, o, 3, padding=1) for i, o in ((3, 6), (6, 6), (6, 6)))
            self.head = nn.Linear(6, 4)

        def forward(self, x):
            a1 = torch.relu(self.b1(x))
            a2 = torch.relu(self.b2(a1))
            a3 = torch.relu(self.b3(a2))
            return a1, a2, a3, self.head(a3.mean((2, 3)))

    class AT(nn.Module):
        def forward(self, fm_s, fm_t):
            return F.mse_loss(self.attention_map(fm_s), self.attention_map(fm_t))

        def attention_map(self, fm, eps=1e-6):
            am = torch.pow(torch.abs(fm), 2).sum(1, keepdim=True)
            return am / (am.norm(dim=(2, 3), keepdim=True) + eps)

    def train_step(snet, tnet, optimizer, criterions, loader, betas=(500.0, 1000.0, 1000.0)):
        tnet.eval()
        snet.train()
        for img, target in loader:
            a1_s, a2_s, a3_s, output_s = snet(img)
            a1_t, a2_t, a3_t, _ = tnet(img)
            cls_loss = criterions["cls"](output_s, target)
            at3_loss = criterions["at"](a3_s, a3_t).detach() * betas[2]  # culprit
            at2_loss = criterions["at"](a2_s, a2_t).detach() * betas[1]
            at1_loss = criterions["at"](a1_s, a1_t).detach() * betas[0]
            at_loss = at1_loss + at2_loss + at3_loss + cls_loss
            optimizer.zero_grad()
            at_loss.backward()
            optimizer.step()

    torch.manual_seed(0)
    teacher, student = Net(), Net()
    for p in teacher.parameters():
        p.requires_grad = False
    optimizer = torch.optim.SGD(student.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    loader = [(torch.rand(4, 3, 6, 6), torch.randint(0, 4, (4,))) for _ in range(3)]
    train_step(student, teacher, optimizer, {"cls": nn.CrossEntropyLoss(), "at": AT()}, loader)


@program()
def q_legal_attention_terms_detached():
    """bboylyg/NAD#8."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.b1, self.b2, self.b3 = (nn.Conv2d(i, o, 3, padding=1) for i, o in ((3, 6), (6, 6), (6, 6)))
            self.head = nn.Linear(6, 4)

        def forward(self, x):
            a1 = torch.relu(self.b1(x))
            a2 = torch.relu(self.b2(a1))
            a3 = torch.relu(self.b3(a2))
            return a1, a2, a3, self.head(a3.mean((2, 3)))

    class AT(nn.Module):
        def forward(self, fm_s, fm_t):
            return F.mse_loss(self.attention_map(fm_s), self.attention_map(fm_t))

        def attention_map(self, fm, eps=1e-6):
            am = torch.pow(torch.abs(fm), 2).sum(1, keepdim=True)
            return am / (am.norm(dim=(2, 3), keepdim=True) + eps)

    def train_step(snet, tnet, optimizer, criterions, loader, betas=(500.0, 1000.0, 1000.0)):
        tnet.eval()
        snet.train()
        for img, target in loader:
            a1_s, a2_s, a3_s, output_s = snet(img)
            a1_t, a2_t, a3_t, _ = tnet(img)
            cls_loss = criterions["cls"](output_s, target)
            at3_loss = criterions["at"](a3_s, a3_t) * betas[2]
            at2_loss = criterions["at"](a2_s, a2_t) * betas[1]
            at1_loss = criterions["at"](a1_s, a1_t) * betas[0]
            at_loss = at1_loss + at2_loss + at3_loss + cls_loss
            optimizer.zero_grad()
            at_loss.backward()
            optimizer.step()

    torch.manual_seed(0)
    teacher, student = Net(), Net()
    for p in teacher.parameters():
        p.requires_grad = False
    optimizer = torch.optim.SGD(student.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    loader = [(torch.rand(4, 3, 6, 6), torch.randint(0, 4, (4,))) for _ in range(3)]
    train_step(student, teacher, optimizer, {"cls": nn.CrossEntropyLoss(), "at": AT()}, loader)


@program("graph_cut")
def q_prompt_by_data():
    """va1shn9v/PromptIR#6."""

    class PromptGenBlock(nn.Module):
        def __init__(self, dim=6, length=3, size=4, lin_dim=8):
            super().__init__()
            self.prompt_param = nn.Parameter(torch.rand(1, length, dim, size, size))
            self.linear_layer = nn.Linear(lin_dim, length)
            self.conv3x3 = nn.Conv2d(dim, dim, 3, padding=1, bias=False)

        def forward(self, x):
            B, C, H, W = x.shape
            emb = x.mean(dim=(-2, -1))
            weights = F.softmax(self.linear_layer(emb), dim=1)
            prompt = weights[:, :, None, None, None] * self.prompt_param.data.repeat(B, 1, 1, 1, 1)  # culprit
            prompt = torch.sum(prompt, dim=1)
            prompt = F.interpolate(prompt, (H, W), mode="bilinear")
            return self.conv3x3(prompt)

    class PromptIR(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Conv2d(3, 8, 3, padding=1)
            self.prompt = PromptGenBlock()
            self.output = nn.Conv2d(14, 3, 3, padding=1)

        def forward(self, x):
            h = torch.relu(self.embed(x))
            return self.output(torch.cat([h, self.prompt(h)], 1)) + x

    torch.manual_seed(0)
    net = PromptIR()
    optimizer = torch.optim.AdamW(net.parameters(), lr=2e-4)
    for epoch in range(2):
        for _ in range(2):
            clean = torch.rand(2, 3, 8, 8)
            restored = net(clean + 0.1 * torch.randn_like(clean))
            loss = F.l1_loss(restored, clean)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


@program("saved_tensor_modified")
def q_embedding_normalised_in_place():
    """adambielski/siamese-triplet#51."""

    class EmbeddingNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.convnet = nn.Sequential(nn.Conv2d(1, 4, 3), nn.PReLU(), nn.MaxPool2d(2, stride=2))
            self.fc = nn.Sequential(nn.Linear(4 * 3 * 3, 16), nn.PReLU(), nn.Linear(16, 2))

        def forward(self, x):
            output = self.convnet(x)
            return self.fc(output.view(output.size(0), -1))

    class EmbeddingNetL2(EmbeddingNet):
        def forward(self, x):
            output = super().forward(x)
            output /= output.pow(2).sum(1, keepdim=True).sqrt()  # culprit
            return output

    class TripletLoss(nn.Module):
        def __init__(self, margin):
            super().__init__()
            self.margin = margin

        def forward(self, anchor, positive, negative):
            near = (anchor - positive).pow(2).sum(1)
            far = (anchor - negative).pow(2).sum(1)
            return F.relu(near - far + self.margin).mean()

    torch.manual_seed(0)
    model, loss_fn = EmbeddingNetL2(), TripletLoss(0.2)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for batch in range(2):
        images = [torch.rand(6, 1, 8, 8) for _ in range(3)]
        optimizer.zero_grad()
        loss = loss_fn(*(model(each) for each in images))
        loss.backward()
        optimizer.step()


@program("not_finite")
def q_silent_bands():
    """mpariente/pytorch_stoi#7, #14."""

    EPS = 1e-8

    class NegSTOILoss(nn.Module):
        def __init__(self, bins=17, bands=4):
            super().__init__()
            octave = torch.zeros(bands, bins)
            for band in range(bands):
                octave[band, band * 4 : band * 4 + 4] = 1.0
            self.register_buffer("octave", octave)

        def forward(self, estimate, target):
            x_spec = torch.stft(target, 32, 16, return_complex=True, window=torch.hann_window(32)).abs()
            y_spec = torch.stft(estimate, 32, 16, return_complex=True, window=torch.hann_window(32)).abs()
            x_tob = torch.sqrt(torch.matmul(self.octave, x_spec.pow(2))) + EPS
            y_tob = torch.sqrt(torch.matmul(self.octave, y_spec.pow(2))) + EPS  # culprit
            x_tob = x_tob - x_tob.mean(-1, keepdim=True)
            y_tob = y_tob - y_tob.mean(-1, keepdim=True)
            return -(x_tob * y_tob).sum(-1).div(x_tob.norm(dim=-1) + EPS).mean()

    class Enhance(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = nn.Conv1d(1, 4, 9, padding=4)
            self.conv2 = nn.Conv1d(4, 1, 9, padding=4, bias=False)

        def forward(self, wave):
            return self.conv2(torch.relu(self.conv1(wave.unsqueeze(1)))).squeeze(1)

    torch.manual_seed(0)
    model, criterion = Enhance(), NegSTOILoss()
    nn.init.zeros_(model.conv1.bias)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(3):
        clean = torch.randn(3, 128)
        clean[0] = 0.0
        loss = criterion(model(clean), clean)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program()
def q_legal_silent_bands():
    """mpariente/pytorch_stoi#7, #14."""

    EPS = 1e-8

    class NegSTOILoss(nn.Module):
        def __init__(self, bins=17, bands=4):
            super().__init__()
            octave = torch.zeros(bands, bins)
            for band in range(bands):
                octave[band, band * 4 : band * 4 + 4] = 1.0
            self.register_buffer("octave", octave)

        def forward(self, estimate, target):
            x_spec = torch.stft(target, 32, 16, return_complex=True, window=torch.hann_window(32)).abs()
            y_spec = torch.stft(estimate, 32, 16, return_complex=True, window=torch.hann_window(32)).abs()
            x_tob = torch.sqrt(torch.matmul(self.octave, x_spec.pow(2)) + EPS)
            y_tob = torch.sqrt(torch.matmul(self.octave, y_spec.pow(2)) + EPS)
            x_tob = x_tob - x_tob.mean(-1, keepdim=True)
            y_tob = y_tob - y_tob.mean(-1, keepdim=True)
            return -(x_tob * y_tob).sum(-1).div(x_tob.norm(dim=-1) + EPS).mean()

    class Enhance(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = nn.Conv1d(1, 4, 9, padding=4)
            self.conv2 = nn.Conv1d(4, 1, 9, padding=4, bias=False)

        def forward(self, wave):
            return self.conv2(torch.relu(self.conv1(wave.unsqueeze(1)))).squeeze(1)

    torch.manual_seed(0)
    model, criterion = Enhance(), NegSTOILoss()
    nn.init.zeros_(model.conv1.bias)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(3):
        clean = torch.randn(3, 128)
        clean[0] = 0.0
        loss = criterion(model(clean), clean)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
