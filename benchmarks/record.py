"""What recording costs: ratios to the plain run, both sides alternating in one process.

    python benchmarks/record.py [ROUNDS]

Each round runs every side once, in turn; the figure is the median over the rounds of (side / plain).
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext

import torch

import seegrad

ROUNDS = 7
Program = Callable[[], list[torch.Tensor]]
Side = Callable[[], AbstractContextManager[object]]

SIDES: dict[str, Side] = {
    "plain": nullcontext,
    "record()": seegrad.record,
    'record(detail="content")': lambda: seegrad.record(detail="content"),
    "detect_anomaly": lambda: torch.autograd.detect_anomaly(check_nan=False),
}


def encoder(layers: int, batch: int, tokens: int) -> Program:
    """Forward and backward of a TransformerEncoder, d=256, 4 heads; f32[batch, tokens, 256]."""
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
    x = torch.randn(batch, tokens, 256)

    def run() -> list[torch.Tensor]:
        model.zero_grad()
        model(x).square().mean().backward()
        return [p.grad.clone() for p in model.parameters() if p.grad is not None]

    return run


def chain(ops: int) -> Program:
    """A chain of scalar multiplications and its backward: nothing but overhead."""

    def run() -> list[torch.Tensor]:
        x = torch.ones((), requires_grad=True)
        y = x
        for _ in range(ops):
            y = y * 1.0001
        y.backward()
        return [] if x.grad is None else [x.grad]

    return run


def measure(program: Program, rounds: int) -> dict[str, list[float]]:
    """Seconds of each side, round by round. The gradients must be those of the plain run, to the bit."""
    found: dict[str, list[float]] = {name: [] for name in SIDES}
    expected = program()
    for _ in range(rounds):
        for name, side in SIDES.items():
            start = time.perf_counter()
            with side():
                gradients = program()
            found[name].append(time.perf_counter() - start)
            assert all(map(torch.equal, expected, gradients)), f"{name} changed a gradient"
    return found


def ratios(seconds: dict[str, list[float]]) -> Iterable[str]:
    """One line a side."""
    for name, values in seconds.items():
        each = [value / plain for value, plain in zip(values, seconds["plain"], strict=True)]
        yield f"  {name:<26} ×{statistics.median(each):6.2f}   ({1e3 * statistics.median(values):8.1f} ms)"


def main() -> None:
    """Print the table."""
    import warnings

    warnings.simplefilter("ignore")  # anomaly mode warns that it is slow
    torch.set_num_threads(1)
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    programs = {
        "12-layer encoder, 2×16 tokens": encoder(12, 2, 16),
        "12-layer encoder, 8×128 tokens": encoder(12, 8, 128),
        "chain of 1,000 scalar ops": chain(1000),
    }
    for name, program in programs.items():
        print(name)
        print("\n".join(ratios(measure(program, rounds))), flush=True)


if __name__ == "__main__":
    main()
