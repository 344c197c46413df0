"""A file tree with only what Python needs, read-only: what a student's process sees instead of this machine's disk."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from nbjudge.errors import SandboxError
from nbjudge.sandbox.syscalls import (
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    bind_read_only,
    mount,
    mount_tmpfs,
    pivot,
    put_mount,
    take_mount,
)

HOME = Path("/home/student")
SYSTEM = (
    *("/bin", "/lib", "/lib32", "/lib64", "/usr/bin", "/usr/lib", "/usr/lib32", "/usr/lib64"),
    *("/usr/local/bin", "/usr/local/lib", "/usr/share/zoneinfo", "/usr/share/fonts"),
    *("/etc/ld.so.cache", "/etc/localtime", "/etc/fonts", "/etc/alternatives"),
)
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
TERMINALS = Path("/dev/pts")
HARMLESS = ("cpuinfo", "meminfo", "filesystems", "version")
ACCOUNT = "student:x:{id}:{id}::/home/student:/bin/sh\n"
SITES = ("/sys", "/mnt", "/media", "/srv", "/var")
TREE_BYTES = 16 << 20
SHARED_MEMORY_BYTES = 128 << 20


@functools.cache  # asked again in each child, where nothing of the old tree is left to look at
def visible(modules: tuple[str, ...]) -> tuple[Path, ...]:
    """What a process has to see on disk: the system's libraries, this Python, the packages named.

    A package that lives outside this Python (an editable install) is shown alone, not the folder around it.
    """
    wanted = [Path(path) for path in SYSTEM]
    wanted += [Path(path) for path in (sys.prefix, sys.base_prefix, sys.exec_prefix) if path not in ("/usr", "/")]
    wanted += list(_packages(modules))
    there = {form for path in wanted if path.exists() for form in (path, path.resolve())}
    return tuple(sorted(path for path in there if not _inside(path, there)))


def _packages(modules: Iterable[str]) -> Iterator[Path]:
    for name in sorted({module.partition(".")[0] for module in modules}):
        spec = importlib.util.find_spec(name)
        if spec is None:
            continue
        if spec.submodule_search_locations:
            yield from (Path(folder) for folder in spec.submodule_search_locations)
        elif spec.origin and Path(spec.origin).is_file():
            yield Path(spec.origin)


def _inside(path: Path, others: Iterable[Path]) -> bool:
    """Already shown by a folder around it (a symbolic link on the way would show something else)."""
    return any(other in path.parents and not other.is_symlink() for other in others)


def site(paths: Iterable[Path]) -> Path:
    """A folder that is there anyway and hides nothing of `paths`, to build on: no leftover, however we end.

    >>> site([Path("/usr/lib")]).is_dir()
    True
    """
    shown = tuple(paths)
    for folder in map(Path, SITES):
        if folder.is_dir() and not any(folder == path or folder in path.parents for path in shown):
            return folder
    raise SandboxError(f"None of {', '.join(SITES)} is there and free to mount on.")


def build(at: Path, paths: Iterable[Path], account_id: int) -> None:
    """Build the tree over the folder `at` and make it the root; needs a mount namespace of our own."""
    mount_tmpfs(at, TREE_BYTES, "0755")
    for path in (*paths, *(Path(device) for device in DEVICES)):
        _show(path, at)
    for folder in ("proc", "tmp", "dev/shm", "dev/pts", str(HOME).lstrip("/"), "etc"):
        (at / folder).mkdir(parents=True, exist_ok=True)
    (at / "etc/passwd").write_text(ACCOUNT.format(id=account_id), encoding="utf-8")
    (at / "etc/group").write_text(f"student:x:{account_id}:\n", encoding="utf-8")
    for name, target in (
        ("ptmx", "pts/ptmx"),
        ("fd", "/proc/self/fd"),
        ("stdin", "fd/0"),
        ("stdout", "fd/1"),
        ("stderr", "fd/2"),
    ):
        (at / "dev" / name).symlink_to(target)
    mount_proc(at / "proc")  # now: once the old /proc is out of sight a user namespace may not mount another
    pivot(at)


def _show(path: Path, at: Path) -> None:
    target = at / str(path).lstrip("/")
    if target.exists() or target.is_symlink():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if path.is_symlink() and path.is_dir():
        target.symlink_to(path.readlink())
        return
    if not path.exists():
        return
    if path.is_dir():
        target.mkdir()
    else:
        target.touch()
    bind_read_only(path, target)


def mount_proc(at: Path) -> None:
    """A /proc that shows this pid namespace only; where a container forbids it, the few files that libraries read."""
    try:
        mount("proc", at, "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    except OSError:
        for name in HARMLESS:
            if Path("/proc", name).exists() and not (at / name).exists():
                (at / name).touch()
                bind_read_only(Path("/proc", name), at / name)


def private_folders(home_bytes: int, kept: Iterable[Path]) -> None:
    """Empty, bounded, writable folders for one student: home, /tmp and shared memory. The rest can't be written.

    `kept` stays in sight also where it lies below one of them: a Python that is installed under /tmp, say.
    """
    shown = tuple(kept)
    _cover(HOME, home_bytes, shown)
    _cover(Path("/tmp"), home_bytes, shown)  # noqa: S108 - a mount point in a root of our own
    _cover(Path("/dev/shm"), SHARED_MEMORY_BYTES, shown)  # noqa: S108 - the same
    with contextlib.suppress(OSError):  # a terminal of its own, for `!command`; some containers forbid it
        mount("devpts", TERMINALS, "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0600")
    os.chdir(HOME)


def _cover(folder: Path, size_bytes: int, shown: Iterable[Path]) -> None:
    """Mount an empty folder over `folder`, then put back what has to be seen below it."""
    below = [path for path in shown if folder in path.parents and os.path.lexists(path)]
    links = {path: path.readlink() for path in below if path.is_symlink()}
    taken = {path: (path.is_dir(), take_mount(path)) for path in below if path not in links}
    mount_tmpfs(folder, size_bytes, "0777")
    for path, target in links.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)
    for path, (is_folder, mounted) in taken.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir() if is_folder else path.touch()
        put_mount(mounted, path)
