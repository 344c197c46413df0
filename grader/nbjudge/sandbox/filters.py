"""What the kernel refuses a student's process after every other wall: system calls (seccomp), files (landlock).

A deny list of calls with a small BPF assembler; the paths that may be opened, and whom the process may reach.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from nbjudge.errors import SandboxError
from nbjudge.sandbox.syscalls import check, libc

PR_SET_SECCOMP = 22
SECCOMP_MODE_FILTER = 2
ALLOW = 0x7FFF0000
KILL = 0x80000000
ERRNO = 0x00050000
_LOAD, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
_NUMBER_AT, _ARCH_AT, _ARGUMENTS_AT = 0, 4, 16
NAMESPACE_FLAGS = 0x02000000 | 0x00020000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
AF_UNIX = 1
TIOCSTI, TIOCLINUX = 0x5412, 0x541C

ARCHITECTURES: Mapping[str, tuple[int, int]] = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
X32_BIT = 0x40000000

# name: (number on x86_64, number on aarch64); None where the architecture has no such call
DENIED: Mapping[str, tuple[int | None, int | None]] = {
    # other processes
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "kcmp": (312, 272),
    "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438),
    # memory that no process's size shows
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "msgget": (68, 186),
    # file systems and namespaces
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "open_tree": (428, 428),
    "mount_setattr": (442, 442),
    "open_by_handle_at": (304, 265),
    "name_to_handle_at": (303, 264),
    "unshare": (272, 97),
    "setns": (308, 268),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "fanotify_init": (300, 262),
    # the kernel's own machinery
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "syslog": (103, 116),
    "vhangup": (153, 58),
    "nfsservctl": (180, 42),
    "lookup_dcookie": (212, 18),
    "personality": (135, 92),
    "vmsplice": (278, 75),
    "iopl": (172, None),
    "ioperm": (173, None),
    "modify_ldt": (154, None),
    # clocks and names
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
}
SPECIAL: Mapping[str, tuple[int, int]] = {
    "clone": (56, 220),
    "clone3": (435, 435),
    "socket": (41, 198),
    "connect": (42, 203),
    "bind": (49, 200),
    "ioctl": (16, 29),
}

# landlock
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
TRUNCATE, IOCTL_DEV = 1 << 14, 1 << 15
FILE_RIGHTS = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
READ_ONLY = EXECUTE | READ_FILE | READ_DIR
TCP_BIND_AND_CONNECT = 3
ABSTRACT_SOCKETS_AND_SIGNALS = 3
RIGHTS_BY_ABI = ((1, (1 << 13) - 1), (2, 1 << 13), (3, TRUNCATE), (5, IOCTL_DEV))


# --- seccomp ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Line:
    """One BPF instruction; `yes` and `no` name labels or are empty for the next line."""

    code: int
    value: int
    yes: str = ""
    no: str = ""
    label: str = ""


def program(machine: str, *, sockets_between_processes: bool) -> bytes:
    """The filter for `machine`, as the kernel takes it.

    Args:
        machine: what `platform.machine()` says.
        sockets_between_processes: allow connect and bind of Unix sockets (needs a root of its own to be harmless).

    Raises:
        SandboxError: no table for this machine.

    >>> len(program("x86_64", sockets_between_processes=True)) % 8
    0
    """
    if machine not in ARCHITECTURES:
        raise SandboxError(f"There is no table of system calls for {machine}; x86_64 and aarch64 are known.")
    column, audit = ARCHITECTURES[machine]
    lines = [Line(_LOAD, _ARCH_AT), Line(_EQUAL, audit, no="kill"), Line(_LOAD, _NUMBER_AT)]
    if machine == "x86_64":
        lines.append(Line(_ANY_BIT, X32_BIT, yes="denied"))
    lines += [
        Line(_EQUAL, number, yes="denied") for numbers in DENIED.values() if (number := numbers[column]) is not None
    ]
    special = {name: numbers[column] for name, numbers in SPECIAL.items()}
    lines.append(
        Line(_EQUAL, special["clone3"], yes="unknown")
    )  # glibc then falls back to clone, whose flags we can read
    if not sockets_between_processes:
        lines += [Line(_EQUAL, special[name], yes="denied") for name in ("connect", "bind")]
    lines += [Line(_EQUAL, special[name], yes=name) for name in ("clone", "socket", "ioctl")]
    return assemble(lines + _ends())


def _ends() -> list[Line]:
    return [
        Line(_RETURN, ALLOW, label="allow"),
        Line(_LOAD, _ARGUMENTS_AT, label="clone"),
        Line(_ANY_BIT, NAMESPACE_FLAGS, yes="denied", no="allowed"),
        Line(_LOAD, _ARGUMENTS_AT, label="socket"),
        Line(_EQUAL, AF_UNIX, yes="allowed", no="refused"),
        Line(_LOAD, _ARGUMENTS_AT + 8, label="ioctl"),
        Line(_EQUAL, TIOCSTI, yes="denied"),
        Line(_EQUAL, TIOCLINUX, yes="denied"),
        Line(_RETURN, ALLOW, label="allowed"),
        Line(_RETURN, ERRNO | errno.EPERM, label="denied"),
        Line(_RETURN, ERRNO | errno.EACCES, label="refused"),
        Line(_RETURN, ERRNO | errno.ENOSYS, label="unknown"),
        Line(_RETURN, KILL, label="kill"),
    ]


def assemble(lines: list[Line]) -> bytes:
    """Resolve the labels: every jump goes forward, by at most 255 lines."""
    at = {line.label: number for number, line in enumerate(lines) if line.label}

    def jump(number: int, label: str) -> int:
        return at[label] - number - 1 if label else 0

    return b"".join(
        struct.pack("=HBBI", line.code, jump(number, line.yes), jump(number, line.no), line.value)
        for number, line in enumerate(lines)
    )


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def deny_calls(*, sockets_between_processes: bool) -> None:
    """Filter this process and all that it starts, for good; no_new_privs must be set."""
    code = program(platform.machine(), sockets_between_processes=sockets_between_processes)
    buffer = ctypes.create_string_buffer(code, len(code))
    described = _Program(len(code) // 8, ctypes.cast(buffer, ctypes.c_void_p))
    check(libc().prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(described), 0, 0), "seccomp")


# --- landlock --------------------------------------------------------------------------------------------------------


def landlock_abi() -> int:
    """The version of landlock that this kernel speaks, 0 for none."""
    version: int = libc().syscall(CREATE_RULESET, None, 0, 1)
    return max(version, 0)


def allow_paths(read_only: Iterable[Path], writable: Iterable[Path]) -> int:
    """Confine this process and all that it starts to these paths, no TCP, no signals out; returns the ABI used.

    Raises:
        SandboxError: the kernel has no landlock.
    """
    version = landlock_abi()
    if not version:
        raise SandboxError("This kernel has no landlock.")
    handled = sum(rights for since, rights in RIGHTS_BY_ABI if version >= since)
    ruleset = _ruleset(version, handled)
    for paths, rights in ((read_only, READ_ONLY), (writable, handled)):
        for path in paths:
            _allow_beneath(ruleset, path, rights & handled)
    check(libc().syscall(RESTRICT_SELF, ruleset, 0), "landlock_restrict_self")
    os.close(ruleset)
    return version


def _ruleset(version: int, handled: int) -> int:
    network = TCP_BIND_AND_CONNECT if version >= 4 else 0
    scope = ABSTRACT_SOCKETS_AND_SIGNALS if version >= 6 else 0
    size_bytes = 8 if version < 4 else 16 if version < 6 else 24
    attributes = struct.pack("QQQ", handled, network, scope)[:size_bytes]
    return check(libc().syscall(CREATE_RULESET, attributes, len(attributes), 0), "landlock_create_ruleset")


def _allow_beneath(ruleset: int, path: Path, rights: int) -> None:
    try:
        beneath = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # what isn't there needs no rule
    if not path.is_dir():
        rights &= FILE_RIGHTS
    check(libc().syscall(ADD_RULE, ruleset, 1, struct.pack("=Qi", rights, beneath), 0), f"landlock rule for {path}")
    os.close(beneath)
