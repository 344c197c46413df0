"""The kernel's calls that a sandbox is made of, by ctypes: small functions, each raises OSError."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import platform
import resource
import struct
from pathlib import Path

from nbjudge.model import Limits

NEWNS, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET = 0x20000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = (
    1,
    2,
    4,
    8,
    32,
    4096,
    16384,
    1 << 18,
)
LOCKED_FLAGS = MS_NOSUID | MS_NODEV | MS_NOEXEC | 0x400 | 0x800 | 0x1000  # noatime, nodiratime, relatime
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_CAPBSET_DROP = 1, 4, 24
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 36, 38, 47
OPEN_TREE, MOVE_MOUNT = 428, 429  # the same number everywhere, since Linux 5.2
HERE, CLONE_TREE, RECURSIVE, EMPTY_PATH = -100, 1, 0x8000, 4
INODES = 1 << 16  # of a file system in memory: an empty file takes a kilobyte of the kernel's, which no size counts
PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
CAPABILITY_VERSION_3 = 0x20080522
DETACH = 2
MADV_COLLAPSE, LARGE_PAGE = 25, 2 << 20


@functools.cache
def libc() -> ctypes.CDLL:
    """The C library of this process."""
    return ctypes.CDLL(None, use_errno=True)


def check(result: int, what: str) -> int:
    """Pass a C result through, or raise OSError that names the call."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def unshare(flags: int) -> None:
    """New namespaces for this process (a new pid namespace: for its next child)."""
    check(libc().unshare(ctypes.c_int(flags)), "unshare")


def setns(fd: int, flags: int) -> None:
    """Enter, or for pids: let the next child enter, the namespace behind `fd`."""
    check(libc().setns(fd, flags), "setns")


def prctl(option: int, *arguments: int) -> None:
    """prctl(2) with its five numbers."""
    numbers = [ctypes.c_ulong(number) for number in (option, *arguments, 0, 0, 0, 0)[:5]]
    check(libc().prctl(*numbers), f"prctl {option}")


def mount(source: str | None, target: Path, kind: str | None, flags: int, options: str | None = None) -> None:
    """mount(2)."""
    texts = [None if text is None else text.encode() for text in (source, str(target), kind, options)]
    result = libc().mount(texts[0], texts[1], texts[2], ctypes.c_ulong(flags), texts[3])
    check(result, f"mount {target}")


def private_mounts() -> None:
    """What is mounted from here on stays in this namespace."""
    mount("none", Path("/"), None, MS_REC | MS_PRIVATE)


def mount_tmpfs(target: Path, size_bytes: int, mode: str) -> None:
    """An empty file system in memory with an upper bound."""
    mount("tmpfs", target, "tmpfs", MS_NOSUID | MS_NODEV, f"size={size_bytes},nr_inodes={INODES},mode={mode}")


def bind_read_only(source: Path, target: Path) -> None:
    """Show `source` at `target`, read-only, keeping the flags that an outer namespace has locked."""
    mount(str(source), target, None, MS_BIND | MS_REC)
    device = MS_NODEV if Path("/dev") not in source.parents else 0
    try:
        mount(None, target, None, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | device)
    except PermissionError:
        locked = os.statvfs(target).f_flag & LOCKED_FLAGS
        mount(None, target, None, MS_BIND | MS_REMOUNT | MS_RDONLY | locked)


def take_mount(path: Path) -> int:
    """A mounted folder or file as a descriptor that outlives what is mounted over its path."""
    flags = CLONE_TREE | RECURSIVE | os.O_CLOEXEC
    return check(libc().syscall(OPEN_TREE, HERE, str(path).encode(), flags), f"open_tree {path}")


def put_mount(taken: int, path: Path) -> None:
    """Mount what `take_mount` took on a folder or file of the same kind."""
    try:
        check(libc().syscall(MOVE_MOUNT, taken, b"", HERE, str(path).encode(), EMPTY_PATH), f"move_mount {path}")
    finally:
        os.close(taken)


def pivot(new_root: Path) -> None:
    """Make `new_root` the root; the old one is gone."""
    old = new_root / "old"
    old.mkdir()
    number = PIVOT_ROOT[platform.machine()]
    check(libc().syscall(number, str(new_root).encode(), str(old).encode()), "pivot_root")
    os.chdir("/")
    check(libc().umount2(b"/old", DETACH), "umount of the old root")
    Path("/old").rmdir()


def new_user_namespace(inner_id: int) -> None:
    """A user namespace in which this process is `inner_id` and owns what it makes; needs no privilege."""
    outer_uid, outer_gid = os.geteuid(), os.getegid()
    unshare(NEWUSER)
    Path("/proc/self/setgroups").write_text("deny", encoding="utf-8")
    Path("/proc/self/uid_map").write_text(f"{inner_id} {outer_uid} 1", encoding="utf-8")
    Path("/proc/self/gid_map").write_text(f"{inner_id} {outer_gid} 1", encoding="utf-8")


def become(uid: int) -> None:
    """Leave root for good; stays dumpable so that it may still map itself into a user namespace.

    The root of a rootless container may know no other user: it stays what it is, which outside is nobody of importance.
    """
    if os.getuid() != 0:
        return
    with contextlib.suppress(OSError):
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    prctl(PR_SET_DUMPABLE, 1)


def limit_resources(limits: Limits) -> None:
    """The rlimits. Memory counts beyond what is there already: importing a CUDA build of torch takes 700 MB by itself.

    The address space is held only to what is far beyond honest use, since torch reserves gigabytes.
    """
    reserved_bytes, memory_bytes = _status_bytes("VmSize"), _status_bytes("VmData") + limits.memory_bytes
    bounds = {
        resource.RLIMIT_CORE: (0, 0),
        resource.RLIMIT_CPU: (limits.cpu_s, limits.cpu_s + 2),  # pid 1 ignores SIGXCPU; SIGKILL at the hard limit works
        resource.RLIMIT_DATA: (memory_bytes, memory_bytes),
        resource.RLIMIT_FSIZE: (limits.file_bytes, limits.file_bytes),
        resource.RLIMIT_NOFILE: (limits.files, limits.files),
        resource.RLIMIT_NPROC: (limits.processes, limits.processes),
    }
    if reserved_bytes:
        bounds[resource.RLIMIT_AS] = (reserved_bytes + 2 * limits.memory_bytes,) * 2
    for kind, (soft, hard) in bounds.items():
        _, ceiling = resource.getrlimit(kind)
        if ceiling != resource.RLIM_INFINITY:
            soft, hard = min(soft, ceiling), min(hard, ceiling)
        resource.setrlimit(kind, (soft, hard))


def drop_capabilities() -> None:
    """No capability in any set, and none to be had by starting another program."""
    libc().prctl(PR_CAP_AMBIENT, 4, 0, 0, 0)
    for number in range(64):
        libc().prctl(PR_CAPBSET_DROP, number, 0, 0, 0)
    header = struct.pack("Ii", CAPABILITY_VERSION_3, 0)
    check(libc().capset(header, b"\0" * 24), "capset")


def no_new_privileges() -> None:
    """setuid programs lose their power from here on."""
    prctl(PR_SET_NO_NEW_PRIVS, 1)


def first_to_be_killed() -> None:
    """When memory runs out the kernel should take a student's process, not the grader."""
    with contextlib.suppress(OSError):  # a container may show no /proc
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="utf-8")


def in_large_pages() -> None:
    """Put this process's own memory into pages of 2 MB where the kernel can, so that a fork copies fewer of its tables.

    A child that writes gets a copy of 4 kB, as ever. A kernel before 6.1, or one that may not, leaves all as it is.
    """
    for line in Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines():
        where, flags, *_, inode = line.split(maxsplit=5)[:5]
        if flags != "rw-p" or inode != "0":
            continue
        start, end = (int(number, 16) for number in where.split("-"))
        for page in range(-(-start // LARGE_PAGE) * LARGE_PAGE, end - LARGE_PAGE + 1, LARGE_PAGE):
            libc().madvise(ctypes.c_void_p(page), ctypes.c_size_t(LARGE_PAGE), MADV_COLLAPSE)


def _status_bytes(field: str) -> int:
    """A size from /proc/self/status; 0 where there is no /proc."""
    if not Path("/proc/self/status").exists():
        return 0
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    return 0
