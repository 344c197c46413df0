"""Who is measured: the plain run, seegrad, torch's own tools, and peers that draw a model's graph."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from dataclasses import dataclass

import torch

import seegrad
from benchmarks.library.programs import NotInstalled, Workload


@dataclass(frozen=True, slots=True)
class Side:
    """One way to run a Workload."""

    name: str
    run: Callable[[Workload], object]
    ours: bool = False
    """Its gradients must be those of the plain run, to the bit."""
    says: str = ""
    """What it does, where that's less than forward and backward."""


def plain(program: Workload) -> None:
    """The program alone."""
    program.run()


def recorded(program: Workload) -> None:
    """Under `record()`, nothing asked."""
    with seegrad.record():
        program.run()


def asked(program: Workload) -> object:
    """Under `record()`, and the diagnoses asked for."""
    with seegrad.record() as rec:
        program.run()
    return rec.diagnoses


def content(program: Workload) -> None:
    """Under `record(detail="content")`."""
    with seegrad.record(detail="content"):
        program.run()


def values(program: Workload) -> None:
    """Under `record(values=True)`."""
    with seegrad.record(values=True):
        program.run()


def anomaly(program: Workload) -> None:
    """Torch's anomaly mode, as its error message recommends it."""
    with torch.autograd.detect_anomaly():
        program.run()


def debug_mode(program: Workload) -> None:
    """Torch's DebugMode, which logs every call."""
    try:
        from torch.utils._debug_mode import DebugMode
    except ImportError as error:
        raise NotInstalled("DebugMode, part of torch since 2.10") from error
    with DebugMode(record_torchfunction=True):
        program.run()


def torchviz(program: Workload) -> None:
    """The graph as dot text, between forward and backward."""
    try:
        from torchviz import make_dot
    except ImportError as error:
        raise NotInstalled("torchviz") from error
    loss = program.forward()
    make_dot(loss, params=dict(program.model.named_parameters()))
    loss.backward()  # type: ignore[no-untyped-call]  # torch gives it no types


def torchlens(program: Workload) -> None:
    """A log of the forward, every result kept; torch's functions are put back afterwards."""
    try:
        import torchlens
        from torchlens.options import CaptureOptions
    except ImportError as error:
        raise NotInstalled("torchlens") from error
    torchlens.trace(program.model, list(program.inputs), capture=CaptureOptions(unwrap_when_done=True))


def torchvista(program: Workload) -> None:
    """The forward as a page of HTML."""
    try:
        from torchvista import trace_model
    except ImportError as error:
        raise NotInstalled("torchvista") from error
    with contextlib.redirect_stdout(io.StringIO()):  # it displays its page: outside a notebook that's a line of text
        trace_model(program.model, program.inputs)


PLAIN = Side("plain", plain)
FORWARD_ONLY = "its own forward only, against plain forward and backward"
SIDES = (
    PLAIN,
    Side("record()", recorded, ours=True),
    Side("record(), diagnoses asked for", asked, ours=True),
    Side('record(detail="content")', content, ours=True),
    Side("record(values=True)", values, ours=True),
    Side("detect_anomaly()", anomaly),
    Side("DebugMode", debug_mode),
    Side("torchviz", torchviz),
    Side("TorchLens", torchlens, says=FORWARD_ONLY),
    Side("torchvista", torchvista, says=FORWARD_ONLY),
)
