"""What each submission would pay for once more, done before the forks: first uses, of which nothing stays visible.

The first cell of a process imports on demand, fills caches of types and patterns, builds IPython's machinery for
tracebacks. After a fork each of the two processes of a submission would do it again. Only trusted code runs here, and
no backward: torch's engine is to start in the child that needs it.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import importlib
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from nbjudge.names import names_in

if TYPE_CHECKING:
    from nbjudge.process.kernel import Kernel

PICTURE = """from seegrad import pick
pick("found", {"one": "line"}, "b = (a * 2).relu()\\nb.sum().backward()", "a = torch.ones(2, requires_grad=True)")
"""
CELL = "import torch\nfor value in (1, 2.0):\n    f'{value}'\n"


def warm(kernel: Kernel, shown: Sequence[str] = ()) -> None:
    """Use once what cells use: torch and IPython, and the pictures `shown`. A part that fails is left cold."""
    torch: Any = sys.modules.get("torch")  # a course may do without
    uses = [partial(_numbers, torch)] if torch else []
    uses += [partial(_modules, torch)] if "torch._dynamo" in sys.modules else []  # for it alone: seconds to import
    uses += [partial(use, kernel) for use in (_cell, _late, _shown, _traceback, _examples)]
    pictures = shown or ((PICTURE,) if "seegrad.display.assigned" in sys.modules else ())
    uses += [partial(_picture, source) for source in pictures]
    with _as_it_was(), torch.random.fork_rng(devices=[]) if torch else contextlib.nullcontext():
        for use in uses:
            with contextlib.suppress(Exception):
                use()


@contextlib.contextmanager
def _as_it_was() -> Iterator[None]:
    """The streams that a kernel takes over are given back; `_cell` closes the event loop that it was given."""
    names = ("stdout", "stderr", "__stdout__", "__stderr__")
    before = [getattr(sys, name) for name in names]
    try:
        yield
    finally:
        for name, stream in zip(names, before, strict=True):
            setattr(sys, name, stream)


def _numbers(torch: Any) -> None:
    torch.manual_seed(0)
    with torch.no_grad():
        x = torch.randn(3, 3)
        ((x @ x + 1).exp().relu().softmax(-1) - x).pow(2).mean().item()
    x.requires_grad_().clone().detach().add_(1).tolist()
    repr(x)


def _modules(torch: Any) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimiser.step()
    optimiser.zero_grad()
    model(torch.ones(2, 3)).sum()
    torch.nn.Embedding(3, 2)(torch.tensor([1]))


def _cell(kernel: Kernel) -> None:
    names_in(kernel.shell.transform_cell(CELL))
    kernel.wire(None)
    loop = asyncio.get_event_loop()
    try:
        kernel.run("pass", silent=True)
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def _late(kernel: Kernel) -> None:
    """What IPython makes when it is first asked for: its log, and the magics that it loads by name."""
    _ = kernel.shell.logger
    kernel.shell.magics_manager.load_all_lazy_magics()


def _shown(kernel: Kernel) -> None:
    for value in (1, "text", [1.0], *(module.ones(2) for module in [sys.modules.get("torch")] if module)):
        kernel.shell.display_formatter.format(value)


def _traceback(kernel: Kernel) -> None:
    def fail(numbers: Any) -> Any:
        return numbers[0] / 0

    try:
        fail([1.0])
    except ZeroDivisionError:
        kernel.shell.InteractiveTB.structured_traceback(*sys.exc_info(), tb_offset=0)


def _picture(source: str) -> None:
    """What drawing reads once (torch's formulas, the words, the plan of each record, an empty widget), and the drawing.

    `source` is a cell of the release: it imports `pick`, and calls it.
    """
    *imports, call = ast.parse(source).body
    names: dict[str, Any] = {}
    exec(compile(ast.Module(imports, []), "<release>", "exec"), names)  # noqa: S102 - the course's own
    picture = eval(ast.unparse(call), names)  # noqa: S307 - the same
    try:
        picture._repr_mimebundle_()
    finally:
        picture.layout.close()
        picture.close()


def _examples(_kernel: Kernel) -> None:
    """Where the kernel has put its debugger in place of Python's: a class of doctest's is derived from it."""
    importlib.import_module("doctest")
