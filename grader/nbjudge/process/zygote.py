"""A warm parent process: imports once what a course imports, then gives confined processes in milliseconds each;
a notebook gets two."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from nbjudge.errors import SandboxError, ZygoteGone
from nbjudge.model import Limits
from nbjudge.process.child import Child
from nbjudge.process.fork_server import OWNER_FD, receive, send
from nbjudge.process.imports import DEFAULT_PRELOAD, PRELOADS
from nbjudge.sandbox import ELSEWHERE, SERVICE_ID

LIMITS = Limits()
ROLES = ("student", "judge", "scribe")
START_S = 120.0
SHOWN = 16  # pictures: what is said at the start is one datagram
PIECE_BYTES = 1 << 16
FORK_S = 20.0
END_S = 10.0
ENDED = "The zygote has ended; what it wrote on its standard error says why."
# One thread everywhere: a fork of a process with threads can hang, and grades must not depend on the number of cores.
ENVIRONMENT = {
    **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1"),
    "CUDA_VISIBLE_DEVICES": "",
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "HOME": "/home/student",
    "LOGNAME": "student",  # as a login says: torch 2.11 asks who it is, before it is anybody
    "PYTHONHASHSEED": "0",
    "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    "MPLBACKEND": "module://matplotlib_inline.backend_inline",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Ended:
    """How a child ended and what it used."""

    status: int
    cpu_s: float
    peak_bytes: int
    over: str | None = None  # what it used too much of together with all that it had started


class Zygote:
    """A process that forks confined children; a context manager. One thread may use it at a time.

    Args:
        preload: modules to import before the first fork; a name that isn't installed is skipped.
        limits: what each child may use.
        trust_students: go on where this machine holds fewer walls than untrusted code needs.
        roles: what its children may be.
        shown: cells of the release that only show a picture, which is drawn before the first fork.

    Raises:
        SandboxError: fewer walls hold than the stated minimum (see `nbjudge.sandbox.minimum`).
        ZygoteGone: it died at its start.
    """

    def __init__(
        self,
        preload: Sequence[str] = DEFAULT_PRELOAD,
        *,
        limits: Limits = LIMITS,
        trust_students: bool = False,
        roles: Sequence[str] = ROLES,
        shown: Sequence[str] = (),
    ) -> None:
        if sys.platform != "linux":
            raise SandboxError(ELSEWHERE.format(system=sys.platform))
        self.limits = limits
        self._ended: dict[int, Ended] = {}
        self._owner, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._process = self._start(theirs)
        said = {
            "preload": list(preload),
            "reachable": [*PRELOADS, *preload],  # also where they lie outside site-packages: imported once or not
            "limits": dataclasses.asdict(limits),
            "trust_students": trust_students,
            "roles": list(roles),
            "shown": list(shown[:SHOWN]),
        }
        try:
            self._send(said)
            ready, _ = self._receive(START_S)
        except BaseException:
            self.close()
            raise
        self.preloaded: tuple[str, ...] = tuple(ready["preloaded"])
        self.namespaces: str = ready["namespaces"]
        self._scratch: str | None = ready["scratch"]

    def _start(self, theirs: socket.socket) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-s", "-P", "-c", _ENTRY, str(theirs.fileno())]
        with theirs:
            return subprocess.Popen(  # noqa: S603 - our own module, no text from outside
                command,
                pass_fds=[theirs.fileno()],
                env=ENVIRONMENT,
                stdin=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,  # a terminal's Ctrl-C is for its owner, who ends it
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the zygote and everything that it has started."""
        self._owner.close()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def fork(self, role: str, peer: socket.socket) -> Child:
        """A confined child that serves as `role` (one of ROLES) and speaks with another one over `peer`."""
        control, theirs = socket.socketpair()
        out, out_theirs = os.pipe()
        err, err_theirs = os.pipe()
        folder = self._work_folder()
        with theirs:
            fds = [theirs.fileno(), out_theirs, err_theirs, peer.fileno()]
            self._send({"op": "fork", "role": role, "folder": folder and str(folder)}, fds)
        os.close(out_theirs)
        os.close(err_theirs)
        said, handles = self._receive(FORK_S)
        return Child(said["pid"], handles[0], control, out, err, folder)

    def _work_folder(self) -> Path | None:
        """Without a root of its own a child works in a folder of ours."""
        if self._scratch is None:
            return None
        folder = Path(tempfile.mkdtemp(dir=self._scratch))
        if os.getuid() == 0:
            os.chown(folder, SERVICE_ID, SERVICE_ID)
        return folder

    def end(self, child: Child) -> Ended | None:
        """Kill a child and all that it has started, and wait until it has gone."""
        child.close()
        deadline = time.monotonic() + END_S
        with contextlib.suppress(TimeoutError):
            while child.pid not in self._ended:
                said, _ = self._next(max(0.0, deadline - time.monotonic()))
                self._note(said)
        if child.folder is not None:
            shutil.rmtree(child.folder, ignore_errors=True)
        return self._ended.pop(child.pid, None)

    def _send(self, said: dict[str, Any], fds: Sequence[int] = ()) -> None:
        try:
            send(self._owner, said, fds)
        except OSError:
            raise ZygoteGone(ENDED) from None

    def _receive(self, timeout_s: float) -> tuple[dict[str, Any], list[int]]:
        """The next answer to a request; reports of ended children are noted on the way."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                said, fds = self._next(max(0.0, deadline - time.monotonic()))
            except TimeoutError:
                raise ZygoteGone(f"The zygote didn't answer within {timeout_s:g} s.") from None
            if "refused" in said:
                raise SandboxError(said["refused"])
            if "ended" not in said:
                return said, fds
            self._note(said)

    def _note(self, said: dict[str, Any]) -> None:
        self._ended[said["ended"]] = Ended(said["status"], said["cpu_s"], said["peak_bytes"], said["over"])

    def _next(self, timeout_s: float) -> tuple[dict[str, Any], list[int]]:
        readable, _, _ = select.select([self._owner], [], [], timeout_s)
        if not readable:
            raise TimeoutError
        said, fds = receive(self._owner)
        if said is None:
            raise ZygoteGone(ENDED)
        return said, fds


class Bench:
    """The student's process and, beside it, whoever judges it at the moment: one after another, over one line.

    The owner keeps the judge's end of it, so that a judge that hangs or has died can be replaced. `close` ends both.
    """

    def __init__(self, zygote: Zygote) -> None:
        self._zygote = zygote
        self._line, theirs = socket.socketpair()
        with theirs:
            self.student = zygote.fork("student", theirs)
        try:
            self.judge = zygote.fork("judge", self._line)
        except BaseException:
            zygote.end(self.student)
            self._line.close()
            raise
        self._used_s = 0.0  # by judges that were replaced

    def drain(self) -> None:
        """Throw away what the student's process says to a judge that isn't there any more."""
        with contextlib.suppress(OSError):
            while self._line.recv(PIECE_BYTES, socket.MSG_DONTWAIT):
                pass

    def end_judge(self) -> None:
        """End the judge and wait until it has gone."""
        if (ended := self._zygote.end(self.judge)) is not None:
            self._used_s += ended.cpu_s

    def replace_judge(self) -> Child:
        """Another one, once the last one was ended and the line is quiet."""
        self.drain()
        self.judge = self._zygote.fork("judge", self._line)
        return self.judge

    def close(self) -> tuple[Ended | None, float]:
        """End both: how the student's process ended, and the CPU time of all of them."""
        ended = [self._zygote.end(child) for child in (self.student, self.judge)]
        self._line.close()
        return ended[0], self._used_s + sum(end.cpu_s for end in ended if end is not None)


# The socket arrives under any number and is moved to the one that the server expects.
_ENTRY = (
    "import os, sys; fd = int(sys.argv.pop()); "
    f"os.dup2(fd, {OWNER_FD}) if fd != {OWNER_FD} else None; "
    f"os.closerange({OWNER_FD + 1}, 1 << 16); "
    "from nbjudge.process.fork_server import main; main()"
)
