"""Landlock: what files a process may open and whom it may reach, checked by the kernel after every other wall."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable
from pathlib import Path

from nbjudge.errors import SandboxError
from nbjudge.sandbox.syscalls import check, libc

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
TRUNCATE, IOCTL_DEV = 1 << 14, 1 << 15
FILE_RIGHTS = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
READ_ONLY = EXECUTE | READ_FILE | READ_DIR
TCP_BIND_AND_CONNECT = 3
ABSTRACT_SOCKETS_AND_SIGNALS = 3
RIGHTS_BY_ABI = ((1, (1 << 13) - 1), (2, 1 << 13), (3, TRUNCATE), (5, IOCTL_DEV))


def abi() -> int:
    """The version of landlock that this kernel speaks, 0 for none."""
    version: int = libc().syscall(CREATE_RULESET, None, 0, 1)
    return max(version, 0)


def restrict(read_only: Iterable[Path], writable: Iterable[Path]) -> int:
    """Confine this process and all that it starts to these paths, no TCP, no signals out; returns the ABI used.

    Raises:
        SandboxError: the kernel has no landlock.
    """
    version = abi()
    if not version:
        raise SandboxError("This kernel has no landlock.")
    handled = sum(rights for since, rights in RIGHTS_BY_ABI if version >= since)
    ruleset = _create(version, handled)
    for paths, rights in ((read_only, READ_ONLY), (writable, handled)):
        for path in paths:
            _allow(ruleset, path, rights & handled)
    check(libc().syscall(RESTRICT_SELF, ruleset, 0), "landlock_restrict_self")
    os.close(ruleset)
    return version


def _create(version: int, handled: int) -> int:
    network = TCP_BIND_AND_CONNECT if version >= 4 else 0
    scope = ABSTRACT_SOCKETS_AND_SIGNALS if version >= 6 else 0
    size_bytes = 8 if version < 4 else 16 if version < 6 else 24
    attributes = struct.pack("QQQ", handled, network, scope)[:size_bytes]
    return check(libc().syscall(CREATE_RULESET, attributes, len(attributes), 0), "landlock_create_ruleset")


def _allow(ruleset: int, path: Path, rights: int) -> None:
    try:
        beneath = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # what isn't there needs no rule
    if not path.is_dir():
        rights &= FILE_RIGHTS
    check(libc().syscall(ADD_RULE, ruleset, 1, struct.pack("=Qi", rights, beneath), 0), f"landlock rule for {path}")
    os.close(beneath)
