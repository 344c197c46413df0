"""An error that the program catches reads as it does alone; what is the user's own is never taken for ours."""

from __future__ import annotations

import contextlib
import gc
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # as everyone has it

import seegrad
from seegrad.capture.tables.tensors import StorageNumbers


class Failing(torch.autograd.Function):
    @staticmethod
    def forward(_: Any, x: torch.Tensor) -> torch.Tensor:
        return x @ torch.ones(5)


class Interrupted(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise KeyboardInterrupt


def chained() -> None:
    try:
        torch.ones(2) @ torch.ones(3)
    except RuntimeError as error:
        raise ValueError("mine") from error


def in_another_s_handler() -> None:
    try:
        torch.ones(2).item()
    except RuntimeError:
        torch.ones(2).view(3)


CALLS: dict[str, Callable[[], Any]] = {
    "an op": lambda: torch.ones(2) @ torch.ones(3),
    "an op in place": lambda: torch.ones(2, requires_grad=True).add_(1),
    "a read": lambda: torch.ones(2).item(),
    "bytes": lambda: torch.ones(2, requires_grad=True).numpy(),
    "a setter": lambda: setattr(torch.ones(2), "grad", torch.ones(3)),
    "a layer": lambda: nn.Linear(2, 3)(torch.ones(4)),
    "a custom Function": lambda: Failing.apply(torch.ones(2, requires_grad=True)),
    "an index": lambda: torch.ones(2)[3],
    "wrong arguments": lambda: torch.add(torch.ones(2)),
    "with a cause": chained,
    "while another is handled": in_another_s_handler,
    "an interrupt": lambda: torch.ones(2).as_subclass(Interrupted) + 1,
}


def caught(run: Callable[[], Any]) -> str:
    """What a program that catches an error could print of it."""
    try:
        run()
    except BaseException as error:
        return "".join(traceback.format_exception(error))
    raise AssertionError("it raises")


@pytest.mark.parametrize("name", CALLS)
def test_a_caught_error_reads_as_it_does_alone(name: str) -> None:
    alone = caught(CALLS[name])
    with seegrad.record():
        recorded = caught(CALLS[name])
        with seegrad.record():
            twice = caught(CALLS[name])
    assert recorded == twice == alone


def hooked() -> None:
    def hook(_: torch.Tensor) -> None:
        raise ArithmeticError("no hook")

    a = torch.ones(2, requires_grad=True) * 2
    a.register_hook(hook)
    a.sum().backward()


PYTHON_CALLS: dict[str, Callable[[], Any]] = {
    "a loss": lambda: F.cross_entropy(torch.ones(2, 3), torch.ones(5)),
    "a hook": hooked,
    "no hook": lambda: torch.ones(2).register_hook(print),
    "backward": lambda: torch.ones(2, requires_grad=True).backward(),
    "einsum": lambda: torch.einsum("ij,jk", torch.ones(2, 2), torch.ones(3, 3)),
}


@pytest.mark.parametrize("name", PYTHON_CALLS)
def test_torch_s_own_steps_to_a_mode_go_when_the_error_leaves_the_block(name: str) -> None:
    """Under any mode, a function of torch that is written in Python is entered twice: torch adds those steps later."""
    alone = caught(PYTHON_CALLS[name])
    with seegrad.record():
        recorded = caught(PYTHON_CALLS[name])
    assert "seegrad/capture" not in recorded
    assert "recorded call" not in recorded

    def block() -> None:
        with seegrad.record():
            PYTHON_CALLS[name]()

    def plain_block() -> None:
        with contextlib.nullcontext():
            PYTHON_CALLS[name]()

    assert steps(block) == steps(plain_block)
    assert set(alone.splitlines()) <= set(recorded.splitlines())


def steps(run: Callable[[], Any]) -> list[tuple[str, int | None]]:
    """(function, line) of each step of the error below the block."""
    try:
        run()
    except Exception as error:
        return [(step.name, step.lineno) for step in traceback.extract_tb(error.__traceback__)][2:]
    raise AssertionError("it raises")


def test_an_interrupt_while_we_read_shows_the_user_s_line_last(monkeypatch) -> None:
    from seegrad.capture.tables import tensors

    def interrupted(*_: Any) -> None:
        nn.Module.named_parameters(None).__next__()  # one more of torch's frames below ours

    def raises(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(tensors, "preview", interrupted)
    monkeypatch.setattr(nn.Module, "named_parameters", raises)
    with seegrad.record():
        try:
            torch.ones(2)
        except KeyboardInterrupt as error:
            found = traceback.extract_tb(error.__traceback__)
    assert [step.name for step in found[:1]] == ["test_an_interrupt_while_we_read_shows_the_user_s_line_last"]
    assert not [step for step in found if "seegrad/capture/t" in step.filename or step.name == "quietly"]


def test_the_error_of_a_signal_s_handler_reaches_the_program(monkeypatch, caplog) -> None:
    """Signals come at any moment: most likely while we read."""
    from seegrad.capture.tables import tensors

    def too_late(*_: Any) -> None:
        raise TimeoutError("too late")

    monkeypatch.setattr(tensors, "preview", lambda _: signal.raise_signal(signal.SIGUSR1))
    before = signal.signal(signal.SIGUSR1, too_late)
    try:
        with pytest.raises(TimeoutError, match="too late"), seegrad.record():
            torch.ones(2)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert not caplog.records


def test_what_cannot_be_recorded_is_said_once_in_a_line(monkeypatch, caplog, capsys) -> None:
    from seegrad.capture.tables import tensors

    monkeypatch.delenv("SEEGRAD_RAISE_OWN_ERRORS", raising=False)
    monkeypatch.setattr(tensors, "preview", lambda tensor: tensor.no_such_thing)
    for _ in range(2):
        with seegrad.record():
            for _ in range(5):
                torch.ones(2)
    (said,) = caplog.records
    assert "AttributeError" in said.getMessage()
    assert said.exc_info is None
    assert "Traceback" not in capsys.readouterr().err


def test_a_reference_whose_making_was_interrupted_dies_in_silence(monkeypatch) -> None:
    said: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", said.append)

    class Gone:
        _cdata = 1

        def _weak_ref(self) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        StorageNumbers().number(Gone())  # type: ignore[arg-type]  # a stand-in
    gc.collect()
    assert not said


@pytest.mark.parametrize("room", range(20, 80, 3))
def test_at_the_edge_of_the_recursion_limit_the_program_goes_on_in_silence(room: int, monkeypatch, capfd) -> None:
    monkeypatch.delenv("SEEGRAD_RAISE_OWN_ERRORS", raising=False)

    def deeper(x: torch.Tensor, left: int) -> torch.Tensor:
        return deeper(x, left - 1) if left else x * 2

    def depth() -> int:
        frame, count = sys._getframe(1), 0
        while frame is not None:
            frame, count = frame.f_back, count + 1
        return count

    x = torch.ones(2, requires_grad=True)
    left = sys.getrecursionlimit() - depth() - room
    with seegrad.record():
        assert deeper(x, left).tolist() == [2, 2]
    assert "Traceback" not in capfd.readouterr().err
