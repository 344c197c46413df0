"""Running the commands that an instructor runs.

Loading nbgrader takes two seconds, and the tests give hundreds of commands: `python -m nbgrader …` and
`python -m nbjudge …` are forked from a process that has loaded it, and has done nothing else. For each new gradebook it
asks another program for the version of its tables: here once a session.
"""

from __future__ import annotations

import functools
import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from multiprocessing.context import ForkServerContext
from pathlib import Path

from nbgrader import api

ENVIRONMENT = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
nbgrader_s_own = api.get_alembic_version
LOADED = ["nbgrader.apps", "nbgrader.server_extensions", "nbjudge.plugin", "nbjudge.__main__"]


def python(root: Path, *arguments: str, status: int = 0, timeout_s: float = 240, **variables: str) -> str:
    """`python …` in a folder; the output, which is also the message where it ends otherwise than with `status`."""
    run = _forked if arguments[0] == "-m" and arguments[1] in {"nbgrader", "nbjudge"} else _started
    returned, output, errors = run(root, arguments, {**ENVIRONMENT, **variables}, timeout_s)
    assert returned == status, f"status {returned}\n{output}{errors}"
    return output + errors


def nbgrader(root: Path, *arguments: str, status: int = 0, timeout_s: float = 240) -> str:
    return python(root, "-m", "nbgrader", *arguments, status=status, timeout_s=timeout_s)


Ended = tuple[int, str, str]  # status, output, errors


def _started(root: Path, arguments: tuple[str, ...], environment: Mapping[str, str], timeout_s: float) -> Ended:
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=timeout_s)
    return done.returncode, done.stdout, done.stderr


def _forked(root: Path, arguments: tuple[str, ...], environment: Mapping[str, str], timeout_s: float) -> Ended:
    with tempfile.TemporaryDirectory() as folder:
        streams = Path(folder, "out"), Path(folder, "err")
        given = root, arguments[1:], environment, streams, version_of_tables()
        running = _warm().Process(target=_command, args=given)
        running.start()
        running.join(timeout_s)
        if running.exitcode is None:
            running.kill()
            raise subprocess.TimeoutExpired(arguments, timeout_s)
        output, errors = (path.read_text() for path in streams)
        return running.exitcode, output, errors


@functools.cache
def _warm() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(LOADED)
    return context


@functools.cache
def version_of_tables() -> str:
    """What nbgrader's own function answers, which starts a process for it."""
    os.environ["PATH"] = ENVIRONMENT["PATH"]
    return nbgrader_s_own()


def _command(
    root: Path, arguments: tuple[str, ...], environment: Mapping[str, str], streams: tuple[Path, Path], version: str
) -> None:
    """What `python -m` does, in a process that has just been forked."""
    api.get_alembic_version = lambda: version
    for descriptor, path in zip((1, 2), streams, strict=True):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), descriptor)
    os.chdir(root)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[0:0] = [str(root)]
    sys.argv[:] = arguments
    runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
