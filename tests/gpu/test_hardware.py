"""What no second device of the tests has: CUDA's streams, graphs and kernels show the same, recorded or not."""

from __future__ import annotations

import contextlib
import gc
import tempfile
import warnings
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import seegrad
from tests.device import elsewhere

Program = Callable[[], list[torch.Tensor]]
PROGRAMS: dict[str, Program] = {}

pytestmark = [
    pytest.mark.skipif(elsewhere.chosen() != "cuda", reason="about CUDA, and SEEGRAD_TEST_DEVICE names another"),
    pytest.mark.usefixtures("on_device"),
]


def program(run: Program) -> Program:
    PROGRAMS[run.__name__] = run
    return run


def trained(model: nn.Module, loss: Callable[[], torch.Tensor], optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """Two steps: the losses, and the parameters in the end."""
    losses = []
    for _ in range(2):
        optimizer.zero_grad()
        value = loss()
        value.backward()
        optimizer.step()
        losses.append(value.detach())
    return [*losses, *(each.detach().clone() for each in model.parameters())]


def small(*sizes: int) -> nn.Sequential:
    return nn.Sequential(*(layer for pair in pairwise(sizes) for layer in (nn.Linear(*pair), nn.Tanh())))


@program
def streams() -> list[torch.Tensor]:
    x = torch.randn(64, 64, requires_grad=True)
    beside = torch.cuda.Stream()
    beside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(beside):
        y = (x @ x).relu()
    torch.cuda.current_stream().wait_stream(beside)
    (y * x).sum().backward()
    assert x.grad is not None
    return [x.grad]


@program
def a_graph_of_a_whole_step() -> list[torch.Tensor]:
    model = small(8, 16, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = torch.randn(4, 8), torch.randn(4, 1)

    def step() -> torch.Tensor:
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    beside = torch.cuda.Stream()
    beside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(beside):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(beside)
    graph = torch.cuda.CUDAGraph()
    optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        loss = step()
    for _ in range(3):
        graph.replay()
    return [loss.detach().clone(), *(each.detach().clone() for each in model.parameters())]


@program
def graphed_callables() -> list[torch.Tensor]:
    model = small(8, 16, 1)
    graphed = torch.cuda.make_graphed_callables(model, (torch.randn(4, 8, requires_grad=True),))
    x = torch.randn(4, 8)
    return trained(model, lambda: graphed(x).square().mean(), torch.optim.SGD(model.parameters(), lr=0.1))


@program
def compiled() -> list[torch.Tensor]:
    torch._dynamo.reset()
    model = small(8, 16, 1)
    fast = torch.compile(model)
    x = torch.randn(4, 8)
    return trained(model, lambda: fast(x).square().mean(), torch.optim.SGD(model.parameters(), lr=0.1))


@program
def half_with_a_scaler() -> list[torch.Tensor]:
    model = small(8, 16, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cuda", init_scale=2.0**24)  # the first step overflows and is left out
    x = 100 * torch.randn(4, 8)
    for _ in range(4):
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.float16):
            loss = model(x).square().sum() * 100
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    return [loss.detach(), *(each.detach().clone() for each in model.parameters())]


@program
def saved_in_pinned_memory() -> list[torch.Tensor]:
    x = torch.randn(32, 32, requires_grad=True)
    with torch.autograd.graph.save_on_cpu(pin_memory=True):
        y = (x @ x).tanh() * x
    y.sum().backward()
    assert x.grad is not None
    return [x.grad]


@program
def cudnn_s_lstm() -> list[torch.Tensor]:
    model = nn.LSTM(4, 8, num_layers=2)
    x = torch.randn(5, 3, 4)
    return trained(model, lambda: model(x)[0].square().mean(), torch.optim.SGD(model.parameters(), lr=0.1))


@program
def cudnn_s_convolutions() -> list[torch.Tensor]:
    layers = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.Conv2d(8, 4, 3)
    model = nn.Sequential(*layers).to(memory_format=torch.channels_last)
    x = torch.randn(2, 3, 12, 12).to(memory_format=torch.channels_last)
    with torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True):
        return trained(model, lambda: model(x).square().mean(), torch.optim.SGD(model.parameters(), lr=0.1))


@program
def attention_in_half() -> list[torch.Tensor]:
    q, k, v = (torch.randn(2, 4, 16, 32, dtype=torch.float16, requires_grad=True) for _ in range(3))
    nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).float().square().mean().backward()
    return [each.grad for each in (q, k, v) if each.grad is not None]


@program
def checkpoints_with_dropout() -> list[torch.Tensor]:
    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Tanh(), nn.Linear(8, 1))
    x = torch.randn(4, 8, requires_grad=True)
    run = lambda: checkpoint(model, x, use_reentrant=False).square().mean()  # noqa: E731  # a loss, as others have one
    return trained(model, run, torch.optim.SGD(model.parameters(), lr=0.1))


@program
def copies_that_nobody_waits_for() -> list[torch.Tensor]:
    host = torch.randn(64, 64, device="cpu").pin_memory()
    w = torch.randn(64, 64, requires_grad=True)
    (host.to("cuda", non_blocking=True) @ w).tanh().sum().backward()
    assert w.grad is not None
    return [w.grad]


@program
def fused_steps() -> list[torch.Tensor]:
    model = small(8, 16, 1)
    x = torch.randn(4, 8)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, fused=True)
    return trained(model, lambda: model(x).square().mean(), optimizer)


@program
def one_process_of_nccl() -> list[torch.Tensor]:
    with tempfile.TemporaryDirectory() as folder:
        store = torch.distributed.FileStore(str(Path(folder) / "store"), 1)
        torch.distributed.init_process_group("nccl", store=store, rank=0, world_size=1)
        try:
            model = nn.parallel.DistributedDataParallel(small(8, 16, 1), device_ids=[0])
            x = torch.randn(4, 8)
            return trained(model, lambda: model(x).square().mean(), torch.optim.SGD(model.parameters(), lr=0.1))
        finally:
            torch.distributed.destroy_process_group()


def run(name: str, *, recorded: bool) -> tuple[list[torch.Tensor], seegrad.record | None]:
    """One run of a program from one seed."""
    torch.manual_seed(0)
    rec = seegrad.record() if recorded else None
    with warnings.catch_warnings(), rec or contextlib.nullcontext():
        warnings.simplefilter("ignore")  # torch says some things once only
        shown = PROGRAMS[name]()
    return shown, rec


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_same_bits_come_recorded_or_not(name: str, on_device: str) -> None:
    run(name, recorded=False)
    plain, again = run(name, recorded=False)[0], run(name, recorded=False)[0]
    if not same(plain, again):
        pytest.skip(f"two plain runs of this program differ on {on_device}")
    recorded, rec = run(name, recorded=True)
    assert same(plain, recorded)
    assert rec is not None
    assert [each for each in rec.diagnoses if each.severity != "note"] == []


def same(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    return len(one) == len(other) and all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.fixture
def no_wait() -> Iterator[None]:
    """torch raises where the host waits for the device."""
    torch.cuda.synchronize()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says that it is a prototype
        torch.cuda.set_sync_debug_mode("error")
    yield
    torch.cuda.set_sync_debug_mode("default")


@pytest.mark.usefixtures("no_wait")
def test_the_host_waits_for_nothing_while_a_step_is_recorded() -> None:
    model, x = small(8, 16, 1), torch.randn(4, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with seegrad.record():
        for _ in range(3):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()


def test_an_error_of_a_hook_in_the_engine_s_thread_stays_the_user_s() -> None:
    def refuse(_gradient: torch.Tensor) -> torch.Tensor:
        raise KeyError("mine")

    x = torch.ones(3, requires_grad=True)
    with seegrad.record() as rec:
        y = x * 2
        y.register_hook(refuse)
        with pytest.raises(KeyError, match="mine"):
            y.sum().backward()
    assert rec.recording.nodes


def test_memory_of_the_device_is_given_back() -> None:
    def one(*, recorded: bool) -> int:
        gc.collect()
        before = torch.cuda.memory_allocated()
        with seegrad.record() if recorded else contextlib.nullcontext():
            x = torch.randn(1024, 1024, requires_grad=True)
            (x @ x).relu().sum().backward()
        del x
        gc.collect()
        return torch.cuda.memory_allocated() - before

    one(recorded=False)
    assert one(recorded=True) - one(recorded=False) < 1 << 20  # small tensors show their numbers, until they are read
