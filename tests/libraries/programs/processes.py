"""Two processes that talk by gloo: the same program runs in each."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from tests.libraries.table import Built, program


def joined() -> int:
    """This process's rank; the first call meets the others."""
    if not distributed.is_initialized():
        distributed.init_process_group("gloo")
    return int(os.environ["RANK"])


def layers() -> nn.Sequential:
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 16), nn.GELU(), nn.Linear(16, 4))


def stepped(model: nn.Module, inputs: torch.Tensor, steps: int = 3) -> Any:
    optimizer = torch.optim.AdamW(model.parameters())

    def run() -> list[torch.Tensor]:
        losses = []
        for _ in range(steps):
            optimizer.zero_grad()
            loss = model(inputs).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        return losses

    return run


@program(processes=2)
def ddp() -> Built:
    rank, model = joined(), layers()
    wrapped = DistributedDataParallel(model, bucket_cap_mb=1)
    return model, stepped(wrapped, torch.randn(4, 8) + rank)


@program(processes=2)
def ddp_accumulating() -> Built:
    """Two batches a step, talked about once; not every parameter used."""
    rank, model = joined(), layers()
    wrapped = DistributedDataParallel(model, find_unused_parameters=True, gradient_as_bucket_view=True)
    optimizer, inputs = torch.optim.SGD(model.parameters(), lr=0.1), torch.randn(4, 8) + rank

    def run() -> list[torch.Tensor]:
        losses = []
        for _ in range(2):
            with wrapped.no_sync():
                wrapped(inputs[:2]).square().mean().backward()
            loss = wrapped(inputs[2:]).square().mean()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)
            losses.append(loss.detach())
        return losses

    return model, run


@program(processes=2)
def fsdp2() -> Built:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    rank, model = joined(), layers()
    mesh = init_device_mesh("cpu", (2,))
    for each in model:
        if isinstance(each, nn.Linear):
            fully_shard(each, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model, stepped(model, torch.randn(4, 8) + rank)


@program(processes=2)
def tensor_parallel() -> Built:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    joined()
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))
    parallelize_module(model, init_device_mesh("cpu", (2,)), {"0": ColwiseParallel(), "2": RowwiseParallel()})
    return model, stepped(model, torch.randn(4, 8))


@program(processes=2)
def collected() -> Built:
    """Gradients averaged by hand, as scripts did before there was DDP."""
    rank, model = joined(), layers()
    inputs = torch.randn(4, 8) + rank
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def run() -> list[torch.Tensor]:
        losses = []
        for _ in range(3):
            optimizer.zero_grad()
            loss = model(inputs).square().mean()
            loss.backward()
            for each in model.parameters():
                distributed.all_reduce(each.grad)
                each.grad /= 2
            optimizer.step()
            losses.append(loss.detach())
        return losses

    return model, run
