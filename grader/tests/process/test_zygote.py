"""The zygote outlives each of its children, and leaves nothing behind."""

from __future__ import annotations

import dataclasses
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nbjudge.errors import StudentGone, ZygoteGone
from nbjudge.model import Ending, Limits
from nbjudge.process.child import Child
from nbjudge.process.fork_server import preload, send
from nbjudge.process.zygote import _ENTRY, ENVIRONMENT, Zygote
from nbjudge.sandbox.watch import descendants
from nbjudge_tests.trials import answer, cell, check, only, printed, run


@pytest.fixture
def child(zygote: Zygote) -> Iterator[Child]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        child = zygote.fork("student", theirs)
        child.wait_for("hello", 20)
        yield child
        zygote.end(child)


DEATHS = {
    "exit": "import os; os._exit(3)",
    "killed": "import os, signal; os.kill(os.getpid(), signal.SIGSEGV); import ctypes; ctypes.string_at(0)",
    "abort": "import os; os.abort()",
    "closed": "import os; os.closerange(0, 100)",
    "junk": "import os; os.write(3, b'\\xff' * 100)",
    "thread": "import os, threading; threading.Thread(target=os._exit, args=(1,)).start(); import time; time.sleep(5)",
}


@pytest.mark.parametrize("name", DEATHS)
def test_the_zygote_survives_what_a_child_dies_of(name: str, zygote: Zygote) -> None:
    before = set(descendants(zygote._process.pid))
    died = run(zygote, answer(DEATHS[name]), check("assert f(1) == 2"), limits=Limits(cell_s=20, notebook_s=40))
    assert only(died).kind is Ending.CRASHED
    assert died.died is not None
    assert died.died.startswith("The notebook's process was over in code cell 1: ")
    assert set(descendants(zygote._process.pid)) == before
    alive = run(zygote, answer("def f(x): return 2 * x"), check("assert f(1) == 2"))
    assert only(alive).kind is Ending.PASSED


def test_what_a_child_used_is_known(zygote: Zygote) -> None:
    result = run(zygote, cell("sum(range(3_000_000))"))
    assert 0 < result.cpu_s < 60
    assert result.wall_s > 0


def test_a_zygote_whose_owner_is_gone_ends_in_silence() -> None:
    owner, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        command = [sys.executable, "-c", _ENTRY, str(theirs.fileno())]
        running = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=ENVIRONMENT, stderr=subprocess.PIPE)
    with owner:  # gone before the zygote can say that it is ready
        send(
            owner,
            {
                "preload": [],
                "reachable": [],
                "limits": dataclasses.asdict(Limits()),
                "trust_students": False,
                "shown": [],
                "roles": [],
            },
        )
    assert running.communicate(timeout=60)[1] == b""
    assert running.returncode == 0


def test_a_child_is_killed_and_gone(zygote: Zygote) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        child = zygote.fork("student", theirs)
        child.wait_for("hello", 20)
        ended = zygote.end(child)
    assert ended is not None
    assert os.WIFSIGNALED(ended.status)
    with pytest.raises(StudentGone):
        child.wait_for("done", 1)


def test_a_child_that_does_not_answer_is_given_up(child: Child) -> None:
    with pytest.raises(StudentGone, match="in time"):
        child.wait_for("no such thing", 0.2)


def test_children_know_nothing_of_each_other(zygote: Zygote) -> None:
    run(zygote, cell("import torch; torch.left = 1; left = 2; open('left', 'w').write('x'); open('/tmp/left', 'w')"))
    seen = "'left' in globals(), hasattr(torch, 'left'), os.listdir('.'), os.path.exists('/tmp/left')"
    look = f"import os, torch\nprint({seen})"
    assert printed(run(zygote, cell(look)), 0) == "False False [] False\n"


def test_random_numbers_are_new_but_fixed(zygote: Zygote) -> None:
    draw = cell("import random, torch, numpy\nprint(random.random(), torch.rand(1).item(), numpy.random.rand())")
    first, again, other = (printed(run(zygote, draw, seed=seed), 0) for seed in (1, 1, 2))
    assert first == again != other


def test_a_fresh_zygote_takes_nothing_from_its_caller_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COURSE_SECRET", "7421")
    monkeypatch.setenv("PYTHONPATH", "/nonexistent")
    before = {path.name for path in Path("/tmp").glob("grader-*")}
    with Zygote(["no_such_module", "json"], limits=Limits(cell_s=5)) as zygote:
        assert zygote.preloaded == ("json",)
        result = run(zygote, cell("import os, sys\nprint('COURSE_SECRET' in os.environ, '/nonexistent' in sys.path)"))
        assert printed(result, 0) == "False False\n"
        process = zygote._process
    assert process.returncode == 0
    assert {path.name for path in Path("/tmp").glob("grader-*")} <= before


def test_a_library_that_cannot_be_imported_stops_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "asks_who_it_is.py").write_text("raise KeyError('getpwuid(): uid not found: 0')", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    assert preload(["asks_who_it_is", "json"]) == ["json"]


def test_who_it_is_is_said_by_the_environment() -> None:
    """The accounts of the machine aren't those of the sandbox, in which libraries are imported."""
    source = "import getpass, os, pwd; os.getuid = lambda: 4_294_967_294; print(getpass.getuser())"
    command = [sys.executable, "-I", "-c", source]
    assert subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=True).stdout == "student\n"


def test_a_zygote_that_cannot_start_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nbjudge.process.zygote._ENTRY", "raise SystemExit(1)")
    with pytest.raises(ZygoteGone, match="has ended"):
        Zygote([])
