"""Seven programs of the size that people train: what is there before, and the lines that are recorded."""

from __future__ import annotations

LINEAR = (
    "x = torch.linspace(-1, 1, 20)\ny = 3 * x + 1",
    """w = torch.zeros(1, requires_grad=True)
b = torch.zeros(1, requires_grad=True)
for epoch in range(5):
    loss = ((w * x + b - y) ** 2).mean()
    loss.backward()
    with torch.no_grad():
        w -= 0.5 * w.grad
        b -= 0.5 * b.grad
        w.grad = None
        b.grad = None""",
)
MLP = (
    "x = torch.randn(32, 8)\ny = x.sum(1, keepdim=True)",
    """model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
for step in range(10):
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()""",
)
LSTM = (
    "x = torch.randn(6, 4, 3)\ny = x.sum((0, 2))[:, None]",
    """lstm = nn.LSTM(3, 8)
head = nn.Linear(8, 1)
optimizer = torch.optim.Adam([*lstm.parameters(), *head.parameters()], lr=0.01)
for step in range(20):
    out, (h, c) = lstm(x)
    loss = F.mse_loss(head(h[-1]), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()""",
)
GAN = (
    "data = torch.randn(2, 16, 2) + 3",
    """G = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
D = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))
opt_g = torch.optim.Adam(G.parameters(), lr=0.01)
opt_d = torch.optim.Adam(D.parameters(), lr=0.01)
for real in data:
    fake = G(torch.randn(16, 4))
    loss_d = F.softplus(-D(real)).mean() + F.softplus(D(fake.detach())).mean()
    opt_d.zero_grad()
    loss_d.backward()
    opt_d.step()
    loss_g = F.softplus(-D(fake)).mean()
    opt_g.zero_grad()
    loss_g.backward()
    opt_g.step()""",
)
ENCODER = (
    "x = torch.randn(5, 2, 16)",
    """layer = nn.TransformerEncoderLayer(16, nhead=2, dim_feedforward=32, dropout=0.0)
encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
out = encoder(x)
loss = out.square().mean()
loss.backward()""",
)
CONV = (
    "x = torch.randn(4, 1, 8, 8)\ny = torch.tensor([0, 1, 2, 1])",
    """net = nn.Sequential(
    nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(4, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3),
)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
for step in range(3):
    loss = F.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()""",
)
GPT = (
    """
class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def attend(self, x):
        batch, time, width = x.shape
        parts = self.qkv(x).view(batch, time, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(*parts.unbind(0), is_causal=True)
        return self.proj(seen.transpose(1, 2).reshape(batch, time, width))

    def forward(self, x):
        x = x + self.attend(self.ln_1(x))
        return x + self.down(F.gelu(self.up(self.ln_2(x))))

class GPT(nn.Module):
    def __init__(self, tokens=50, width=32, heads=2, blocks=4, longest=16):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(tokens, width), nn.Embedding(longest, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(blocks))
        self.ln_f = nn.LayerNorm(width)

    def forward(self, ids):
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.ln_f(x) @ self.wte.weight.T

ids = torch.randint(0, 50, (2, 9))""",
    """gpt = GPT()
optimizer = torch.optim.AdamW(gpt.parameters(), lr=0.003)
for step in range(2):
    logits = gpt(ids[:, :-1])
    loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()""",
)
BEFORE = "import torch\nfrom torch import nn\nfrom torch.nn import functional as F\n"
PROGRAMS = {
    "linear_regression": LINEAR,
    "mlp_adam": MLP,
    "lstm": LSTM,
    "gan_steps": GAN,
    "encoder": ENCODER,
    "conv": CONV,
    "gpt": GPT,
}
TRAINING = {name: (BEFORE + before, code) for name, (before, code) in PROGRAMS.items()}
"""Name → what is there before, and what is recorded."""
