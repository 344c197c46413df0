"""The walls around a student's process: which ones this machine holds, and how a process goes behind them.

A zygote goes behind the first ones once (namespaces, a root of its own), each child of it behind the rest right after
the fork. Where user namespaces are missing, landlock and seccomp alone hold: see `minimum`.
"""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from nbjudge.errors import SandboxError
from nbjudge.model import Limits
from nbjudge.sandbox import filters, root, syscalls

SERVICE_ID = 65534  # whom root becomes: limits on processes don't bind the real root
INNER_ID = 1000
NAMESPACES = syscalls.NEWNS | syscalls.NEWPID | syscalls.NEWNET | syscalls.NEWIPC | syscalls.NEWUTS
ELSEWHERE = (
    "Untrusted code can be confined on Linux only; this is {system}. "
    "Grade inside a Linux container or virtual machine, started with its user namespaces allowed."
)
REFUSAL = (
    "This machine can't confine untrusted code: {missing}. Allow user namespaces "
    "(sysctl user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns), or use a kernel with landlock "
    "ABI 6 (Linux 6.12) and seccomp. `nbjudge doctor` lists every layer."
)


@dataclass(frozen=True, slots=True)
class Wall:
    """One wall: does it hold on this machine, and what it is made of or why it doesn't."""

    name: str
    holds: bool
    detail: str


@dataclass(frozen=True, slots=True)
class Plan:
    """The walls to go behind, as found out once by `probe`."""

    namespaces: str = "none"  # "root": made by root itself; "user": in a user namespace; "none"
    landlock: int = 0  # ABI
    seccomp: bool = False

    @property
    def own_root(self) -> bool:
        """Does the process see a file tree of its own?"""
        return self.namespaces != "none"


def probe() -> tuple[Wall, ...]:
    """Try each wall in a throwaway child: what holds on this machine."""
    if sys.platform != "linux":
        return (Wall("Linux", False, ELSEWHERE.format(system=sys.platform)),)
    return (
        _tried("namespaces made by root", _root_namespaces, "mount, pid, network, ipc, host name"),
        _tried("user namespace", _user_namespaces, "and in it mount, pid, network, ipc, host name"),
        _tried("resource limits", lambda: syscalls.limit_resources(Limits()), "memory, processes, files, CPU, core"),
        _tried("process limit", _process_limit, "a fork bomb ends early"),
        _tried("no capabilities", _no_privileges, "and no_new_privs"),
        _tried("landlock", _landlock, f"ABI {filters.landlock_abi()}"),
        _tried("seccomp", _seccomp, f"{len(filters.DENIED)} system calls denied, no sockets but Unix ones"),
    )


def plan(found: Sequence[Wall]) -> Plan:
    """The best that the walls found allow."""
    holds = {wall.name for wall in found if wall.holds}
    kinds = {"namespaces made by root": "root", "user namespace": "user"}
    kind = next((kind for name, kind in kinds.items() if name in holds), "none")
    return Plan(kind, filters.landlock_abi() if "landlock" in holds else 0, "seccomp" in holds)


def minimum(found: Sequence[Wall]) -> str | None:
    """What is missing for untrusted code, as a clause, or None where enough holds.

    Enough is: seccomp, resource limits, no capabilities, and either namespaces or landlock ABI 6 (files, TCP, signals).
    """
    holds = {wall.name for wall in found if wall.holds}
    missing = [name for name in ("resource limits", "no capabilities", "seccomp") if name not in holds]
    chosen = plan(found)
    if chosen.namespaces == "none" and chosen.landlock < 6:
        missing.append("namespaces or landlock ABI 6")
    return f"it lacks {', '.join(missing)}" if missing else None


def demand(found: Sequence[Wall]) -> None:
    """Raise SandboxError, with the reason, where less than the minimum holds."""
    if sys.platform != "linux":
        raise SandboxError(ELSEWHERE.format(system=sys.platform))
    if missing := minimum(found):
        raise SandboxError(REFUSAL.format(missing=missing))


def separate(chosen: Plan) -> None:
    """Namespaces for a zygote; its next child is the first process of theirs, and calls `move_in`."""
    if chosen.namespaces == "user":
        syscalls.new_user_namespace(INNER_ID)
    if chosen.own_root:
        syscalls.unshare(NAMESPACES)


def move_in(chosen: Plan, modules: Sequence[str]) -> None:
    """A root of its own for a zygote. Trusted code only, so far."""
    if chosen.own_root:
        syscalls.private_mounts()
        shown = root.visible(tuple(modules))
        root.build(root.site(shown), shown, INNER_ID)


def enter(chosen: Plan, limits: Limits, modules: Sequence[str], folder: Path | None) -> None:
    """Go behind every wall that holds; there is no way back. `folder`: where to work without a root of our own."""
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, 9)
    syscalls.first_to_be_killed()
    if chosen.own_root:
        syscalls.unshare(syscalls.NEWNS | syscalls.NEWNET | syscalls.NEWIPC | syscalls.NEWUTS)
        root.private_folders(limits.submission_bytes + limits.file_bytes, root.visible(tuple(modules)))
        root.mount_proc(Path("/proc"))
    elif folder is not None:
        os.chdir(folder)
    syscalls.become(SERVICE_ID)
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, 9)  # changing the user has cleared it
    if chosen.own_root and Path("/proc/self/uid_map").exists():
        with contextlib.suppress(OSError):  # forbidden here and there; then the limit counts all processes of this user
            syscalls.new_user_namespace(INNER_ID)  # processes are counted for each user namespace on its own
    syscalls.limit_resources(limits)
    syscalls.no_new_privileges()
    syscalls.drop_capabilities()
    if chosen.landlock:
        filters.allow_paths(*_paths(chosen, modules, folder))
    if chosen.seccomp:
        filters.deny_calls(sockets_between_processes=chosen.own_root)


def _paths(chosen: Plan, modules: Sequence[str], folder: Path | None) -> tuple[list[Path], list[Path]]:
    devices = [Path(device) for device in root.DEVICES]
    if chosen.own_root:
        return [Path("/")], [root.HOME, Path("/tmp"), Path("/dev/shm"), root.TERMINALS, *devices]  # noqa: S108 - in a root of our own
    return list(root.visible(tuple(modules))), [*devices, *([folder] if folder else [])]


def _tried(name: str, attempt: Callable[[], None], detail: str) -> Wall:
    """Run `attempt` in a throwaway child; it holds when nothing is raised."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _answer(attempt, writing)
    os.close(writing)
    said = os.read(reading, 500).decode("utf-8", "replace")
    os.close(reading)
    os.waitpid(child, 0)
    return Wall(name, True, detail) if said == "holds" else Wall(name, False, said or "the attempt died")


def _answer(attempt: Callable[[], None], writing: int) -> None:
    try:
        attempt()
        said = "holds"
    except BaseException as error:  # whatever it is, it is this wall's detail
        said = str(error) or type(error).__name__
    os.write(writing, said.encode()[:500])
    os._exit(0)


def _root_namespaces() -> None:
    if os.getuid() != 0:
        raise SandboxError("not root")
    syscalls.unshare(NAMESPACES)
    _own_mounts()


def _user_namespaces() -> None:
    syscalls.new_user_namespace(INNER_ID)
    syscalls.unshare(NAMESPACES)
    _own_mounts()


def _own_mounts() -> None:
    syscalls.private_mounts()
    syscalls.mount_tmpfs(Path(tempfile.gettempdir()), 1 << 16, "0755")


def _process_limit() -> None:
    syscalls.become(SERVICE_ID)
    with contextlib.suppress(OSError):  # then the limit counts every process of this user
        syscalls.new_user_namespace(INNER_ID)
    resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
    try:
        child = os.fork()
    except BlockingIOError:
        return
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    raise SandboxError("the kernel doesn't enforce RLIMIT_NPROC for this user")


def _no_privileges() -> None:
    syscalls.no_new_privileges()
    syscalls.drop_capabilities()


def _landlock() -> None:
    syscalls.no_new_privileges()
    filters.allow_paths([Path("/usr")], [])
    if os.access("/etc/passwd", os.R_OK):
        try:
            Path("/etc/passwd").read_bytes()
        except PermissionError:
            return
        raise SandboxError("a file outside could still be read")


def _seccomp() -> None:
    syscalls.no_new_privileges()
    filters.deny_calls(sockets_between_processes=False)
    try:
        socket.socket(socket.AF_INET).close()
    except PermissionError:
        return
    raise SandboxError("a network socket could still be made")
