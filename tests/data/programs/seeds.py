"""The code cells of seeds 000 to 002, each run of cells that belong together as one program."""

from __future__ import annotations

import torch
from torch import nn

from tests.data.programs import program


@program("leaf_modified", tensor="w", route="self")
def s000_in12_leaf_normal():
    w = torch.FloatTensor(10)
    w.requires_grad = True
    assert w.is_leaf
    w.normal_()  # culprit


@program()
def s000_in13_data_normal():
    w = torch.FloatTensor(10)
    w.requires_grad = True
    w.data.normal_()
    return w.data, w.requires_grad


@program("saved_tensor_modified", node="DotBackward0", tensor="d", route="self")
def s000_in20_write_after_use():
    x = torch.FloatTensor([1.0, 2.0])
    w1 = torch.FloatTensor([2.0, 1.0])
    w2 = torch.FloatTensor([3.0])
    w1 = w1.reshape(2, 1)
    w1.requires_grad = True
    w2.requires_grad = True
    d = torch.matmul(x, w1)
    f = torch.matmul(d, w2)  # victim
    d[:] = 0  # culprit
    f.backward()


@program("graph_cut", node="FillBackward3", tensor="w1")
def s000_in21_write_before_use():
    x = torch.FloatTensor([1.0, 2.0])
    w1 = torch.FloatTensor([[2.0], [1.0]])
    w2 = torch.FloatTensor([3.0])
    w1.requires_grad = True
    w2.requires_grad = True
    d = torch.matmul(x, w1)
    d[:] = 0  # culprit
    f = torch.matmul(d, w2)
    f.backward()
    return w1.grad, w2.grad


@program("silent_corruption", node="SigmoidBackward0", tensor="out", route="data")
def s000_in22_data():
    a = torch.tensor([1, 2, 3.0], requires_grad=True)
    out = a.sigmoid()  # victim
    c = out.data
    text = f"{a.requires_grad} {out.requires_grad} {c.requires_grad} {out} {c}"
    c.zero_()  # culprit
    out.sum().backward()
    return text, a.grad, a.sigmoid() * (1 - a.sigmoid())


@program("saved_tensor_modified", node="SigmoidBackward0", tensor="out", route="detach")
def s000_in23_detach():
    a = torch.tensor([1, 2, 3.0], requires_grad=True)
    out = a.sigmoid()  # victim
    c = out.detach()
    c.zero_()  # culprit
    out.sum().backward()


@program("saved_tensor_modified", node="MmBackward0", tensor="embedding.weight", route="inside")
def s000_in25_embedding():
    n, d, m = 3, 5, 7
    embedding = nn.Embedding(n, d, max_norm=1)
    W = torch.randn((m, d), requires_grad=True)  # noqa: N806  # the document's name
    idx = torch.tensor([1, 2])
    a = embedding.weight @ W.t()  # victim
    b = embedding(idx) @ W.t()  # culprit
    out = a.unsqueeze(0) + b.unsqueeze(1)
    loss = out.sigmoid().prod()
    loss.backward()


@program()
def s000_in26_embedding_clone():
    n, d, m = 3, 5, 7
    embedding = nn.Embedding(n, d, max_norm=1)
    W = torch.randn((m, d), requires_grad=True)  # noqa: N806  # the document's name
    idx = torch.tensor([1, 2])
    a = embedding.weight.clone() @ W.t()
    b = embedding(idx) @ W.t()
    out = a.unsqueeze(0) + b.unsqueeze(1)
    loss = out.sigmoid().prod()
    loss.backward()
    return embedding.weight.grad, W.grad


@program()
def s001_in67_tolist():
    x = torch.randn(2, requires_grad=True)
    return x.tolist()


@program()
def s001_in69_exp():
    a = torch.tensor(2.0, requires_grad=True)
    b = a.exp()
    return b, repr(b)


@program()
def s001_in54_to_63_l1_to_l4():
    inp = torch.ones([2, 2], requires_grad=True)
    w1 = torch.tensor(2.0, requires_grad=True)
    w2 = torch.tensor(3.0, requires_grad=True)
    w3 = torch.tensor(4.0, requires_grad=True)
    l1 = inp * w1
    l2 = l1 + w2
    l3 = l1 * w3
    l4 = l2 * l3
    loss = l4.mean()
    before = w1.data, w1.grad, l1.data, loss.data, inp.grad
    loss.backward()
    return before, w1.grad, w2.grad, w3.grad, inp.grad


@program()
def s001_in32_leaf_without_grad():
    a = torch.ones([2, 2], requires_grad=False)
    return a.is_leaf


@program()
def s001_in22_retain_grad():
    input = torch.ones([2, 2], requires_grad=False)  # the document's name
    w1 = torch.tensor(2.0, requires_grad=True)
    w2 = torch.tensor(3.0, requires_grad=True)
    w3 = torch.tensor(4.0, requires_grad=True)
    l1 = input * w1
    l2 = l1 + w2
    l3 = l1 * w3
    l4 = l2 * l3
    loss = l4.mean()
    l1.retain_grad()
    l4.retain_grad()
    loss.retain_grad()
    loss.backward()
    return loss.grad, l4.grad, l1.grad


@program()
def s001_in26_hooks():
    input = torch.ones([2, 2], requires_grad=False)  # the document's name
    w1 = torch.tensor(2.0, requires_grad=True)
    w2 = torch.tensor(3.0, requires_grad=True)
    w3 = torch.tensor(4.0, requires_grad=True)
    l1 = input * w1
    l2 = l1 + w2
    l3 = l1 * w3
    l4 = l2 * l3
    loss = l4.mean()
    seen = []
    l1.register_hook(lambda grad: seen.append(("l1", grad.clone())))
    l4.register_hook(lambda grad: seen.append(("l4", grad.clone())))
    loss.register_hook(lambda grad: seen.append(("loss", grad.clone())))
    loss.backward()
    return seen, loss.grad


@program()
def s001_in27_exp_makes_a_new_tensor():
    a = torch.tensor([3.0, 1.0])
    before = a
    a = a.exp()
    return a is before, a


@program()
def s001_in28_setitem_keeps_the_tensor():
    a = torch.tensor([3.0, 1.0])
    before = a.data_ptr()
    a[0] = 10
    return a.data_ptr() == before, a


@program("saved_tensor_modified", node="MulBackward0", tensor="b", route="self")
def s001_in31_version():
    a = torch.tensor([1.0, 3.0], requires_grad=True)
    b = a + 2
    loss = (b * b).mean()  # victim
    b[0] = 1000.0  # culprit
    loss.backward()


@program("version_moved", node="MulBackward0", tensor="b", route="self")
def s001_in30_version_moved_only():
    a = torch.tensor([1.0, 3.0], requires_grad=True)
    b = a + 2
    loss = (b * b).mean()  # victim
    b[0] = 1000.0  # culprit
    return b._version, loss


@program("leaf_modified", tensor="a", route="self")
def s001_in64_leaf_add():
    a = torch.tensor([10.0, 5.0, 2.0, 3.0], requires_grad=True)
    a.add_(10.0)  # culprit


@program("leaf_modified", tensor="w", route="self")
def s002_in23_leaf_normal():
    w = torch.FloatTensor(10)
    w.requires_grad = True
    w.normal_()  # culprit


@program("saved_tensor_modified", node="DotBackward0", tensor="d", route="self")
def s002_in44_write_after_use():
    x = torch.tensor([1.0, 3.0])
    w1 = torch.tensor([[2.0], [1.0]], requires_grad=True)
    w2 = torch.tensor([9.0], requires_grad=True)
    d = torch.matmul(x, w1)
    f = torch.matmul(d, w2)  # victim
    d[:] = 4  # culprit
    f.backward()


@program("version_moved", node="SigmoidBackward0", tensor="out", route="detach")
def s002_in61_to_64_data_shares_memory():
    a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    out = a.sigmoid()  # victim
    c = out.detach()
    c.zero_()  # culprit
    return out, c


@program()
def s002_in68_sigmoid_alone():
    a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    out = a.sigmoid()
    out.sum().backward()
    return a.grad


@program("silent_corruption", node="SigmoidBackward0", tensor="out", route="data")
def s002_in69_data():
    a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    out = a.sigmoid()  # victim
    c = out.data
    c.zero_()  # culprit
    out.sum().backward()
    return a.grad


@program("saved_tensor_modified", node="SigmoidBackward0", tensor="out", route="detach")
def s002_in70_detach():
    a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    out = a.sigmoid()  # victim
    c = out.detach()
    c.zero_()  # culprit
    out.sum().backward()
