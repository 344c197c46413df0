"""`python …` for the programs of tests, forked from a process that has loaded torch and has done nothing else.

Loading torch takes two seconds, and the tests start a hundred programs. Where it is asked what a process does with its
streams, signals and status, it is started as everybody starts it.
"""

from __future__ import annotations

import atexit
import builtins
import functools
import gc
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 240


def python(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], given: str = ""
) -> subprocess.CompletedProcess[str]:
    """What `python` with these words does in a folder, given this to read."""
    server = _server(tuple(sorted((name, text) for name, text in environment.items() if name in AT_START)))
    request = {"command": [*command], "folder": str(folder), "environment": dict(environment)}
    with tempfile.TemporaryFile() as read, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        read.write(given.encode())
        read.seek(0)
        socket.send_fds(server, [json.dumps(request).encode()], [each.fileno() for each in (read, out, err)])
        status = int(server.recv(16))
        for each in (out, err):
            each.seek(0)
        return subprocess.CompletedProcess(command, status, out.read().decode(), err.read().decode())


AT_START = ("PYTHONWARNINGS", "OMP_NUM_THREADS")
"""What is read once, when Python or torch starts."""


@functools.cache
def _server(at_start: tuple[tuple[str, str], ...]) -> socket.socket:
    """Our end of its socket; it ends with that."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.settimeout(TIMEOUT_S)
    command = [sys.executable, "-m", __name__, str(theirs.fileno())]
    environment = {name: text for name, text in os.environ.items() if name not in AT_START} | dict(at_start)
    server = subprocess.Popen(command, cwd=ROOT, env=environment, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
    theirs.close()

    def end() -> None:
        ours.close()
        server.wait()

    atexit.register(end)
    return ours


def _serve(asks: socket.socket) -> None:
    import torch  # noqa: F401 - what all this is for

    gc.collect()
    gc.freeze()
    while True:
        request, descriptors, _, _ = socket.recv_fds(asks, 1 << 20, 3)
        if not request:
            return
        child = os.fork()
        if not child:
            asks.close()
            _become(json.loads(request), descriptors)
        for each in descriptors:
            os.close(each)
        _, status = os.waitpid(child, 0)
        asks.send(str(os.waitstatus_to_exitcode(status)).encode())


def _become(request: Mapping[str, Any], descriptors: Sequence[int]) -> NoReturn:
    """The program, from its start to its end."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(number, mode, 1) for number, mode in enumerate("rww"))
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr  # type: ignore[misc]  # ours
    try:
        _run(request["command"])
        status = 0
    except SystemExit as end:
        status = _status(end)
    except BaseException as error:
        told = error.with_traceback(_own(error.__traceback__))
        sys.excepthook(type(told), told, told.__traceback__)
        status = -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    threading._shutdown()  # type: ignore[attr-defined]  # as Python ends: other threads, what is registered, streams
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    if status == -signal.SIGINT:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    os._exit(status & 255)


def _run(command: list[str]) -> None:
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    vars(main)["__builtins__"] = builtins
    sys.orig_argv[1:] = command
    if command[0] == "-m":
        sys.argv[:], sys.path[0] = ["-m", *command[2:]], str(Path.cwd())
        runpy._run_module_as_main(command[1])  # type: ignore[attr-defined]  # what `python -m` calls
        return
    sys.argv[:], sys.path[0] = command, str(Path(command[0]).resolve().parent)
    program = Path(command[0]).absolute()
    vars(main).update(__file__=str(program), __loader__=None, __spec__=None)
    exec(compile(program.read_bytes(), program, "exec"), vars(main))  # noqa: S102 - a test's own program


def _status(end: SystemExit) -> int:
    if end.code is None or isinstance(end.code, int):
        return end.code or 0
    sys.stderr.write(f"{end.code}\n")
    return 1


def _own(traceback: types.TracebackType | None) -> types.TracebackType | None:
    """The traceback without what is this file's."""
    while traceback is not None and traceback.tb_frame.f_code.co_filename == __file__:
        traceback = traceback.tb_next
    return traceback


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
