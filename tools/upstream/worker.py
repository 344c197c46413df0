"""Run tests of one file, each as it's told, and say after each what was seen: `python -m tools.upstream.worker FILE`.

One process for a chunk of tests: where it crashes or hangs, `crew` starts another with what is left. Tasks come as JSON
on the standard input, what was seen goes out as JSON, a line each; what the tests print goes nowhere near it.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib.util
import json
import os
import random
import sys
import time
import unittest
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, TextIO

import numpy as np
import torch

import seegrad
from tools.upstream.compare import Run
from tools.upstream.sight import Onlooker, living, without_addresses

Body = Callable[[], Any]
MOST_PASSES = 10
"""So often the collector goes over what a test has left."""


class Leave(Exception):
    """What the mode "raising" lets leave the block."""


def plain(body: Body) -> Any:
    """As it is."""
    return body()


def recorded(body: Body, detail: Literal["default", "content"] = "default") -> Any:
    """As a user records: afterwards the Recording is asked for, whatever left the block."""
    recorder = seegrad.record(detail=detail)
    try:
        with recorder:
            return body()
    finally:
        str(recorder.diagnoses)


def content(body: Body) -> Any:
    """The same, every byte compared."""
    return recorded(body, "content")


def nested(body: Body) -> Any:
    """One record() in another."""
    return recorded(functools.partial(recorded, body))


def raising(body: Body) -> Any:
    """An exception leaves the block when the body is done, as in a cell that fails at its end."""
    with contextlib.suppress(Leave):
        recorded(functools.partial(_leaving, body))


def _leaving(body: Body) -> None:
    body()
    raise Leave


SIDES = {each.__name__: each for each in (plain, recorded, raising, nested, content)}
"""How a body may be run."""


def load(path: Path) -> ModuleType:
    """The file as a module, imported as if its folder were the current one."""
    os.chdir(path.parent)
    sys.path.insert(0, str(path.parent))
    sys.argv[:] = [str(path)]  # torch's tests read the command line
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file.")
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tests_of(module: ModuleType) -> Iterator[str]:
    """`Class.method` of each test that the file itself holds, or makes."""
    loader = unittest.TestLoader()
    for name, found in vars(module).items():
        if isinstance(found, type) and issubclass(found, unittest.TestCase) and name == found.__name__:
            yield from (f"{name}.{method}" for method in loader.getTestCaseNames(found))


class _Ending(unittest.TestResult):
    """How one test ended, in words: no traceback is kept, it would keep the test's tensors."""

    outcome, text = "passed", ""

    def addError(self, test: Any, err: Any) -> None:  # noqa: ARG002, N802  # as unittest calls it
        self._ended("error", err)

    def addFailure(self, test: Any, err: Any) -> None:  # noqa: ARG002, N802  # as unittest calls it
        self._ended("failed", err)

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:  # noqa: ARG002, N802  # as unittest calls it
        if err is not None:
            self._ended("failed", err)

    def addSkip(self, test: Any, reason: str) -> None:  # noqa: ARG002, N802  # as unittest calls it
        self.outcome, self.text = "skipped", reason

    def addExpectedFailure(self, test: Any, err: Any) -> None:  # noqa: ARG002, N802  # as unittest calls it
        self._ended("failed as expected", err)

    def addUnexpectedSuccess(self, test: Any) -> None:  # noqa: ARG002, N802  # as unittest calls it
        self.outcome = "passed unexpectedly"

    def _ended(self, how: str, err: Any) -> None:
        if self.outcome == "passed":
            self.outcome, self.text = f"{how}: {err[0].__name__}", without_addresses(str(err[1]))[:4000]


def run(case: type[unittest.TestCase], method: str, side: str) -> Run:
    """One test, once."""
    gc.collect()
    gc.freeze()  # what lives now is out of sight: afterwards the collector lists what this run has made
    seed(0)
    older = torch.ones((), requires_grad=True).exp()
    sight, ending, seconds = Onlooker(), _Ending(), [0.0]
    with sight.open():
        unittest.TestSuite([_prepared(case, method, SIDES[side], sight, seconds)])(ending)
        with contextlib.suppress(Exception):  # a test may leave a mode behind that forbids it
            torch.autograd.backward(
                older
            )  # the engine keeps what a failed graph still had to do until an older Node runs
        del older
        collect()
    return Run(
        ending.outcome, ending.text, sight.all_bits(), sight.random, living(), tuple(sight.logged), round(seconds[0], 4)
    )


def collect() -> None:
    """Until nothing more goes: what one pass frees may have held more by torch's C++, where the collector can't see.

    How many passes that takes depends on whether one has run already, so on how much was made meanwhile.
    """
    for _ in range(MOST_PASSES):
        if not gc.collect():
            return


def _prepared(
    case: type[unittest.TestCase],
    method: str,
    side: Callable[[Body], Any],
    sight: Onlooker,
    seconds: list[float],
) -> unittest.TestCase:
    """The test with its body, and only it, inside the block."""
    test = case(method)
    body = getattr(test, method)

    @functools.wraps(body)
    def block(*args: Any, **kwargs: Any) -> Any:
        start = time.process_time()
        try:
            return side(functools.partial(body, *args, **kwargs))
        finally:
            seconds[0] = time.process_time() - start
            sight.end()

    setattr(test, method, block)
    test.assertEqual = sight.comparing(test.assertEqual)  # type: ignore[method-assign]  # for this one test
    return test


def seed(number: int) -> None:
    """Every random generator at a known place."""
    torch.manual_seed(number)
    random.seed(number)
    np.random.seed(number)  # the global state is what a test may touch


def answer(module: ModuleType, tasks: list[tuple[str, str]], out: TextIO) -> None:
    """Say of each task what was seen."""
    for test, side in tasks:
        name, _, method = test.partition(".")
        print(json.dumps({"ended": asdict(run(getattr(module, name), method, side))}), file=out, flush=True)


def main() -> None:
    """Load the file, name its tests, and run those that are asked for."""
    tasks = json.loads(sys.stdin.read() or "[]")
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what tests print isn't for who reads the answers
    module = load(Path(sys.argv[1]).resolve())
    recorded(lambda: torch.autograd.backward(torch.ones((), requires_grad=True).exp()))  # what only the first one does
    print(json.dumps({"tests": list(tests_of(module))}), file=out, flush=True)
    answer(module, tasks, out)
    os._exit(0)  # not waiting for threads that a test has left


if __name__ == "__main__":
    main()
