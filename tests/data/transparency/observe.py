"""One run of a program, seen from outside."""

from __future__ import annotations

import contextlib
import gc
import io
import random
import re
import sys
import threading
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.modules import module as modules_of_torch
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

import seegrad
from tests.data.transparency import STAGE, Stage

COMPILER_KINDS = {"FakeTensor", "GraphModule"}
"""What the compiler keeps in caches of its own, more or less from run to run."""

Bits = Any
"""A value as data that `==` compares bit by bit."""


@dataclass(frozen=True)
class Observation:
    """Everything that a program shows; equal for a plain and a recorded run."""

    result: Bits
    error: Any
    warnings: tuple[Any, ...]
    printed: str
    events: tuple[str, ...]  # what `watch` and `mark` said, in order
    switched: tuple[tuple[str, Any], ...]  # switches of torch and Python that are not as before
    alive: bool  # it has left tensors or modules alive
    random: Any  # state of every random generator


def observe(run: Callable[[], Any], detail: str | None) -> Observation:
    """Run a program with `record(detail=…)`, or plain for None."""

    def recorded() -> contextlib.AbstractContextManager[Any]:
        return contextlib.nullcontext() if detail is None else seegrad.record(detail=detail)

    stage = Stage(recorded)
    STAGE.append(stage)
    seed(0)
    gc.collect()
    gc.freeze()  # what lives now is out of sight: afterwards the collector lists what this run has made
    gc.disable()
    before, drain = switches(), torch.ones((), requires_grad=True).exp()
    try:
        with silence() as (caught, text):
            result, error = outcome(run, stage)
        drain.backward()  # the engine's queue keeps what a failed graph still had to do until an older Node runs
        left = living()
    finally:
        gc.enable()
        STAGE.pop()
    return Observation(
        result,
        error,
        tuple((each.category, below_us(str(each.message)), each.filename, each.lineno) for each in caught),
        text.getvalue(),
        tuple(stage.events),
        tuple((name, now) for (name, now), (_, then) in zip(switches(), before, strict=True) if now != then),
        left,
        random_state(),
    )


def outcome(run: Callable[[], Any], stage: Stage) -> tuple[Bits, Any]:
    """(result, error) of one run as plain data; no tensor of it is held any longer."""
    result, error = None, None
    try:
        with stage.block():
            result = run()
        stage.events.append("the block has ended")
        result = bits(result)
    except BaseException as raised:  # a KeyboardInterrupt is compared like any other
        error = described(raised)
    stage.events.append("all is dropped")
    return result, error


@contextlib.contextmanager
def silence() -> Any:
    """(warnings, text) that the run gives out."""
    with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(io.StringIO()) as text:
        warnings.simplefilter("always")
        yield caught, text


def seed(number: int) -> None:
    """Every random generator at a known place."""
    torch.manual_seed(number)
    random.seed(number)
    np.random.seed(number)  # the global state is what a program may have touched


def random_state() -> Any:
    """Where every random generator stands."""
    return bits(torch.get_rng_state()), random.getstate(), str(np.random.get_state())  # as above


def below_us(text: str) -> str:
    """A stack in a warning without the frames of those who called the program."""
    return re.sub(r"(forward call that caused the error:\n).*result = run\(\)\n", r"\1", text, flags=re.DOTALL)


def described(error: BaseException | None) -> Any:
    """An error as a user sees it: kind, text, the lines of the traceback below this harness; and its causes."""
    if error is None:
        return None
    steps = [
        (Path(step.filename).name, step.lineno, step.name, step.line)
        for step in traceback.extract_tb(error.__traceback__)
        if step.filename != __file__
    ]
    return type(error).__qualname__, str(error), steps, described(error.__cause__), described(error.__context__)


def bits(value: Any) -> Bits:
    """A result as data; the graph behind a tensor included."""
    if isinstance(value, torch.Tensor):
        return tensor_bits(value)
    if isinstance(value, torch.nn.Module):
        return type(value).__name__, bits(dict(value.state_dict())), value.training
    if isinstance(value, list | tuple | set | frozenset):
        return [bits(each) for each in value]
    if isinstance(value, dict):
        return [(str(key), bits(each)) for key, each in value.items()]
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape, value.tobytes()
    return value


def tensor_bits(tensor: torch.Tensor) -> Bits:
    """Bytes, kind, version and graph of one tensor."""
    version = None if tensor.is_inference() else tensor._version
    kind = (type(tensor).__name__, str(tensor.dtype), str(tensor.layout), str(tensor.device), tuple(tensor.shape))
    return kind, version, tensor.requires_grad, tensor.is_leaf, graph(tensor), _bytes(tensor)


def _bytes(tensor: torch.Tensor) -> bytes:
    with torch._C.DisableTorchFunction(), torch.no_grad():
        plain = tensor.detach()
        if plain.is_quantized:
            plain = plain.int_repr()
        if plain.is_nested:
            plain = plain.to_padded_tensor(0.0)
        if plain.layout is not torch.strided:
            plain = plain.to_dense()
        plain = plain.resolve_conj().resolve_neg().cpu().contiguous().reshape(-1)
        return plain.view(torch.uint8).numpy().tobytes() if plain.numel() else b""


def graph(tensor: torch.Tensor) -> tuple[str, ...]:
    """Names of the Nodes behind a tensor, in the order of a walk."""
    names, seen = [], set()
    waiting = [tensor.grad_fn] if tensor.requires_grad and tensor.grad_fn is not None else []
    while waiting:
        node = waiting.pop()
        names.append(node.name())
        for target, output in node.next_functions:
            if target is not None:
                names.append(str(output))
                if target not in seen:
                    seen.add(target)
                    waiting.append(target)
    return tuple(names)


def living() -> bool:
    """True when a tensor or a module was made since `gc.freeze()` and isn't gone.

    Not how many: where torch itself leaks a graph, one more of its tensors may have been seen by Python.
    """
    kinds = (torch.Tensor, torch.nn.Module)
    found = (type(each) for each in gc.get_objects())
    return any(issubclass(kind, kinds) and kind.__name__ not in COMPILER_KINDS for kind in found)


def switches() -> tuple[tuple[str, Any], ...]:
    """What a program, or who looks at it, may leave switched on."""
    return tuple(
        {
            "function modes": torch._C._len_torch_function_stack(),
            "dispatch modes": len(_get_current_dispatch_mode_stack()),
            "torch functions": torch._C._is_torch_function_enabled(),
            "grad": torch.is_grad_enabled(),
            "inference": torch.is_inference_mode_enabled(),
            "anomaly": torch.is_anomaly_enabled(),
            "autocast": torch.is_autocast_enabled("cpu"),
            "saved tensor hooks": torch._C._autograd._top_saved_tensors_default_hooks(True) is not None,
            "multithreaded backward": torch.autograd.is_multithreading_enabled(),
            "vmap level": torch._C._functorch.maybe_current_level(),
            "default dtype": torch.get_default_dtype(),
            "default device": torch.get_default_device(),
            "deterministic": torch.are_deterministic_algorithms_enabled(),
            "threads of torch": torch.get_num_threads(),
            "global module hooks": tuple(
                len(hooks)
                for name, hooks in vars(modules_of_torch).items()
                if name.startswith("_global_") and isinstance(hooks, dict)
            ),
            "functions of torch": hash(tuple((name, id(each)) for name, each in vars(torch.Tensor).items())),
            "trace": sys.gettrace(),
            "profile": sys.getprofile(),
            "trace of threads": threading.gettrace(),
            "excepthook": sys.excepthook,
            "recursion limit": sys.getrecursionlimit(),
            "garbage collector's callbacks": len(gc.callbacks),
            "threads": threading.active_count(),
            "filters of warnings": len(warnings.filters),
        }.items()
    )
