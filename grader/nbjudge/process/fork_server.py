"""The zygote's own process: imports once, then forks a process per request. Started by `zygote`, not by hand.

It is single-threaded and runs trusted code only. It speaks with its owner over one socket (fd 3): JSON datagrams and
file descriptors. It never sees a submission: a child reads its own over its own socket.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import gc
import importlib
import importlib.util
import io
import json
import os
import select
import shutil
import signal
import socket
import tempfile
import traceback
import types
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nbjudge import sandbox
from nbjudge.errors import SandboxError
from nbjudge.model import Limits
from nbjudge.process.imports import TORCH
from nbjudge.sandbox import syscalls, watch

OWNER_FD, CONTROL_FD, PEER_FD = 3, 3, 4
DATAGRAM_BYTES = 1 << 18
FDS = 4
CRASHED = 70
ROLES = {
    name: f"nbjudge.roles.{name}" for name in ("student", "judge", "scribe")
}  # started by name: nobody imports them
NEED_A_KERNEL = frozenset({"student", "judge"})
WARM = "nbjudge.roles.warm"
TENSORS = "nbjudge.bridge.torch"  # a part of what the two roles say to each other, where torch is
PREFIX = "grader-zygote-"


def send(owner: socket.socket, said: Mapping[str, Any], fds: Sequence[int] = ()) -> None:
    """One JSON datagram, with file descriptors."""
    extra = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    owner.sendmsg([json.dumps(said).encode()], extra)


def receive(owner: socket.socket) -> tuple[dict[str, Any] | None, list[int]]:
    """One JSON datagram and its file descriptors; None when the other side has closed."""
    fds = array.array("i")
    try:
        data, extra, _, _ = owner.recvmsg(DATAGRAM_BYTES, socket.CMSG_LEN(FDS * fds.itemsize))
    except ConnectionResetError:
        return None, []
    for level, kind, content in extra:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(content[: len(content) - len(content) % fds.itemsize])
    return (json.loads(data) if data else None), list(fds)


@dataclass(slots=True)
class Server:
    """What the loop needs to know."""

    owner: socket.socket
    chosen: sandbox.Plan
    limits: Limits
    modules: tuple[str, ...]
    scratch: Scratch | None  # without a root of our own
    kernel: Any = None
    own_pids: int = -1  # our own pid namespace, to return to after a fork
    live: set[int] = field(default_factory=set)
    shared_bytes: int = 0  # our own memory: what each child shares with us
    stopped: dict[int, str] = field(default_factory=dict)  # child → what it used too much of

    def fork(self, said: Mapping[str, Any], fds: list[int]) -> None:
        """Fork a child that goes behind the walls and then serves as `said["role"]`."""
        try:
            child = self._forked()
        except OSError as error:
            send(self.owner, {"refused": f"The zygote couldn't fork: {error}."})
        else:
            if child == 0:
                self._live(said, fds)
            self.live.add(child)
            fds.append(os.pidfd_open(child))
            send(self.owner, {"pid": child}, fds[-1:])
        for fd in fds:
            os.close(fd)

    def _forked(self) -> int:
        """fork(2), into a pid namespace of its own where there are any."""
        if not self.chosen.own_root:
            return os.fork()
        syscalls.unshare(syscalls.NEWPID)
        try:
            child = os.fork()
        except OSError:
            syscalls.setns(self.own_pids, syscalls.NEWPID)
            raise
        if child:
            syscalls.setns(self.own_pids, syscalls.NEWPID)
        return child

    def _live(self, said: Mapping[str, Any], fds: list[int]) -> None:
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            os.setsid()
            self.owner.close()
            _settle(fds)
            folder = Path(said["folder"]) if said.get("folder") else None
            sandbox.enter(self.chosen, self.limits, self.modules, folder)
            importlib.import_module(ROLES[said["role"]]).live(self.kernel, CONTROL_FD, PEER_FD)
        except BaseException:  # the child must end here, whatever happened
            os.write(2, traceback.format_exc().encode("utf-8", "replace"))
        finally:
            os._exit(CRASHED)

    def reap(self) -> None:
        """Report every child that has ended, and end what it has left behind."""
        while True:
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid not in self.live:
                continue  # an orphan that was given to us
            self.live.discard(pid)
            self._end_orphans()
            cpu_s = used.ru_utime + used.ru_stime
            ended = {"ended": pid, "status": status, "cpu_s": cpu_s, "peak_bytes": used.ru_maxrss * 1024}
            send(self.owner, ended | {"over": self.stopped.pop(pid, None)})

    def watch(self) -> None:
        """End each child that uses too much together with all that it has started."""
        for pid in self.live - self.stopped.keys():
            if said := watch.over(pid, self.limits, self.shared_bytes):
                self.stopped[pid] = said
                os.kill(pid, signal.SIGKILL)

    def _end_orphans(self) -> None:
        """Without pid namespaces, what a child started is given to us when it ends: kill it."""
        if self.chosen.own_root:
            return
        listed = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="utf-8")
        for pid in map(int, listed.split()):
            if pid not in self.live:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def _settle(fds: list[int]) -> None:
    """Put the child's own descriptors at their numbers and close every other one."""
    copies = [os.dup(fd) for fd in fds]
    high = max(copies) + 1
    spare = [os.dup2(fd, high + number, inheritable=False) for number, fd in enumerate(copies)]
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    for number, fd in zip((CONTROL_FD, 1, 2, PEER_FD), spare, strict=True):
        os.dup2(fd, number, inheritable=number in (1, 2))
    os.closerange(PEER_FD + 1, 1 << 16)


def preload(names: Sequence[str]) -> list[str]:
    """Import by name, in silence; returns the names that are there.

    It only saves time: what can't be imported, whatever the reason, is no trouble of those who don't ask for it.
    """
    there = []
    for name in names:
        with contextlib.redirect_stderr(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with contextlib.suppress(Exception):
                importlib.import_module(name)
                there.append(name)
    return there


def main() -> None:
    """Set up, say so, and serve until the owner closes its socket."""
    owner = socket.socket(fileno=OWNER_FD)
    said, _ = receive(owner)
    if said is None:
        return
    try:
        server = _start(owner, said)
    except SandboxError as error:
        send(owner, {"refused": str(error)})
        return
    _become_first_process(server)
    try:
        with contextlib.suppress(BrokenPipeError):  # the owner has closed its socket, or was killed
            _warm(server, said["preload"], said["roles"], said["shown"])
            _serve(server)
    finally:
        if server.scratch:
            server.scratch.close()


def _start(owner: socket.socket, said: Mapping[str, Any]) -> Server:
    found = sandbox.probe()
    if not said["trust_students"]:
        sandbox.demand(found)
    chosen = sandbox.plan(found)
    modules = ("nbjudge", *said["reachable"])
    sandbox.separate(chosen)
    scratch = None if chosen.own_root else Scratch(PREFIX)
    return Server(owner, chosen, Limits(**said["limits"]), modules, scratch)


def _become_first_process(server: Server) -> None:
    """Fork once, so that we are pid 1 of our pid namespace; the outer process waits and takes over our end."""
    if server.chosen.own_root:
        child = os.fork()
        if child:
            server.owner.close()
            _, status = os.waitpid(child, 0)
            os._exit(os.waitstatus_to_exitcode(status) & 255)
        sandbox.move_in(server.chosen, server.modules)
        server.own_pids = os.pidfd_open(os.getpid())
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)
    syscalls.prctl(syscalls.PR_SET_CHILD_SUBREAPER, 1)


def _warm(server: Server, names: Sequence[str], roles: Sequence[str], shown: Sequence[str]) -> None:
    # A profile of our own: what a student wrote into somebody's ~/.ipython must not run here.
    os.environ["IPYTHONDIR"] = str((server.scratch.path if server.scratch else Path("/tmp")) / "ipython")  # noqa: S108 - in our own root
    for role in roles:
        importlib.import_module(ROLES[role])
    if TORCH in names and importlib.util.find_spec(TORCH) is not None:
        importlib.import_module(TENSORS)
    if NEED_A_KERNEL & {*roles}:
        from nbjudge.process.kernel import Kernel

        server.kernel = Kernel()
    there = preload(names)  # as a cell would import them: ipywidgets looks for the kernel that it is in
    if server.kernel is not None:
        importlib.import_module(WARM).warm(server.kernel, shown)
    del os.environ["IPYTHONDIR"]
    gc.collect()
    gc.freeze()  # the collector would otherwise touch, and so copy, every page after a fork
    syscalls.in_large_pages()
    scratch = server.scratch and str(server.scratch.path)
    ready = {"ready": os.getpid(), "preloaded": there, "namespaces": server.chosen.namespaces, "scratch": scratch}
    send(server.owner, ready)


def _serve(server: Server) -> None:
    woken, waking = os.pipe()
    os.set_blocking(waking, False)
    signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, _noted)
    server.shared_bytes = watch.own_bytes()
    while True:
        readable, _, _ = select.select([server.owner.fileno(), woken], [], [], watch.PERIOD_S if server.live else None)
        if woken in readable:
            os.read(woken, 512)
        server.reap()
        server.watch()
        if server.owner.fileno() in readable:
            said, fds = receive(server.owner)
            if said is None:
                return
            server.fork(said, fds)


def _noted(_signal: int, _frame: types.FrameType | None) -> None:
    """The wake-up pipe has it."""


# --- a folder for a while --------------------------------------------------------------------------------------------


class Scratch:
    """A new folder below the system's temporary one; `close` removes it.

    As long as its maker lives the folder is locked. What a maker that was killed has left, the next one takes away.

    >>> scratch = Scratch("grader-example-")
    >>> scratch.path.is_dir(), scratch.close(), scratch.path.exists()
    (True, None, False)
    """

    def __init__(self, prefix: str) -> None:
        _sweep(prefix)
        self._lock = -1
        while self._lock < 0:  # a sweep of somebody else's may take an unlocked folder for an abandoned one
            self.path = Path(tempfile.mkdtemp(prefix=prefix))
            self.path.chmod(0o711)
            self._lock = _locked(self.path)

    def close(self) -> None:
        """Remove the folder and all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
        self._lock = -1


def _sweep(prefix: str) -> None:
    for path in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        if path.is_symlink() or not path.is_dir():
            continue
        lock = _locked(path)
        if lock >= 0:
            shutil.rmtree(path, ignore_errors=True)
            os.close(lock)


def _locked(path: Path) -> int:
    """A descriptor that holds the folder's lock, or -1: it is another's, or gone."""
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return -1
    with contextlib.suppress(OSError):
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(folder).st_uid == os.geteuid() and os.fstat(folder).st_nlink:
            return folder
    os.close(folder)
    return -1
