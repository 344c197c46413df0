"""Parts of a model that don't learn, or do, other than was meant; each in another dress than its report, and twins."""

# ruff: noqa: B007, B010  # they stay as people have written them

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # torch's own convention

from tests.data.programs import program

# -- frozen by an attribute that torch doesn't read


class Trunk(nn.Module):
    def __init__(self, width=6):
        super().__init__()
        self.blocks = nn.Sequential(nn.Linear(4, width), nn.ReLU(), nn.Linear(width, width), nn.Tanh())

    def forward(self, x):
        return self.blocks(x)


class Tagger(nn.Module):
    def __init__(self, trunk, tags):
        super().__init__()
        self.trunk, self.top = trunk, nn.Linear(6, tags)

    def forward(self, x):
        return self.top(self.trunk(x))


def fitted(model, turns, tags):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for turn in range(turns):
        loss = F.cross_entropy(model(torch.randn(8, 4)), torch.randint(0, tags, (8,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


@program("freeze_without_effect")
def p_trunk_frozen_after_a_long_training():
    """catalyst-team/catalyst#81, with a trunk that was trained before."""

    def train(model, turns, tags):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        for turn in range(turns):
            loss = F.cross_entropy(model(torch.randn(8, 4)), torch.randint(0, tags, (8,)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()  # victim

    class Reused(Tagger):
        def __init__(self, trunk, tags):
            super().__init__(trunk, tags)
            self.lock()

        def lock(self):
            for part in self.trunk.modules():
                part.requires_grad = False  # culprit

    trunk = Trunk()
    train(Tagger(trunk, 2), 40, 2)
    train(Reused(trunk, 3), 6, 3)


@program("freeze_without_effect")
def p_blocks_frozen_through_setattr():
    def lock(net, on=False):
        for block in net.trunk.blocks:
            setattr(block, "requires_grad", on)  # culprit

    net = Tagger(Trunk(), 2)
    for p in net.top.parameters():
        p.requires_grad = True
    lock(net)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    for turn in range(3):
        loss = F.cross_entropy(net(torch.randn(8, 4)), torch.randint(0, 2, (8,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()  # victim


@program("freeze_without_effect")
def p_method_overwritten_by_a_flag():
    net = Tagger(Trunk(), 2)
    for name, part in net.named_children():
        if name == "trunk":
            part.requires_grad_ = False  # culprit
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    for turn in range(3):
        loss = F.cross_entropy(net(torch.randn(8, 4)), torch.randint(0, 2, (8,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()  # victim


@program("freeze_without_effect")
def p_frozen_in_the_midst_of_one_training():
    net = Tagger(Trunk(), 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-2)
    for turn in range(70):
        if turn == 33:
            for part in net.trunk.children():
                part.requires_grad = False  # culprit
        loss = F.cross_entropy(net(torch.randn(8, 4)), torch.randint(0, 2, (8,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()  # victim


@program()
def p_teacher_with_a_flag_is_trained_no_more():
    teacher = fitted(Tagger(Trunk(), 3), 4, 3)
    for part in teacher.modules():
        part.requires_grad = False
    student = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
    for turn in range(5):
        x = torch.randn(8, 4)
        with torch.no_grad():
            wanted = teacher(x).softmax(1)
        loss = F.cross_entropy(student(x), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program()
def p_flag_of_its_own_that_it_reads():
    class Backbone(Trunk):
        def __init__(self, requires_grad):
            super().__init__()
            self.requires_grad = requires_grad
            for p in self.parameters():
                p.requires_grad = self.requires_grad

    net = Tagger(Backbone(requires_grad=False), 2)
    optimizer = torch.optim.Adam((p for p in net.parameters() if p.requires_grad), lr=1e-2)
    for turn in range(5):
        loss = F.cross_entropy(net(torch.randn(8, 4)), torch.randint(0, 2, (8,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program()
def p_module_and_parameters_frozen_after_a_training():
    trunk = fitted(Tagger(Trunk(), 2), 3, 2).trunk
    for part in trunk.modules():
        part.requires_grad = False
        for p in part.parameters(recurse=False):
            p.requires_grad = False
            p.grad = None
    fitted(Tagger(trunk, 3), 4, 3)
