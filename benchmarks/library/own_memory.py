"""What a running submission has of its own: its two processes share the zygote's pages until they write to them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping
from pathlib import Path

from nbjudge.grading.trial import run_notebook
from nbjudge.model import Assignment
from nbjudge.process.zygote import Zygote
from nbjudge_tests.trials import answer, check, notebook

PERIOD_S = 0.005
WHO = "the student's process, of its own", "the judge, of its own"
ANSWER = "%load_ext seegrad\nimport torch\nw = torch.ones(8, requires_grad=True)\ndef f(x): return (w * x).sum()"
TEST = """import time, torch
x = torch.rand(8, requires_grad=True)
f(x).backward()
assert torch.equal(x.grad, w)
time.sleep(1)  # so that both are seen with all that they have
"""
NOTEBOOK = notebook(answer(ANSWER), check(TEST))
"""One question with a gradient through both processes: little compute, so what is counted is the grader's own."""


def measured() -> Mapping[str, int]:
    """The most bytes at once, by part."""
    with Zygote() as zygote:
        watch = Watch(zygote._process.pid)
        with watch:
            run = run_notebook(zygote, NOTEBOOK, {}, Assignment("", (), 1))
        assert run.outcomes[0].points == 1, run.outcomes
        return {"the zygote, once a worker": watch.shared_bytes, **dict(zip(WHO, watch.most_bytes, strict=True))}


class Watch:
    """Looks at the zygote's children again and again: first the student's process, then the judge."""

    def __init__(self, outer: int) -> None:
        (self._zygote,) = children(outer) or [outer]
        self.shared_bytes = of(self._zygote, "Rss")
        self.most_bytes = [0, 0]
        self._seen: list[int] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(PERIOD_S):
            self._seen += [pid for pid in children(self._zygote) if pid not in self._seen]
            for number, pid in enumerate(self._seen[: len(WHO)]):
                self.most_bytes[number] = max(self.most_bytes[number], of(pid, "Private_Clean", "Private_Dirty"))


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    return [int(child) for path in Path(f"/proc/{pid}/task").glob("*/children") for child in path.read_text().split()]


def of(pid: int, *kinds: str) -> int:
    """Bytes of these kinds; 0 where the process has gone."""
    with contextlib.suppress(OSError):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").splitlines()
        return sum(int(line.split()[1]) << 10 for line in lines if line.split(":")[0] in kinds)
    return 0
