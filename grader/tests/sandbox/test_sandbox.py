"""Each wall is tried from inside; the filter of system calls also by an interpreter of its own."""

from __future__ import annotations

import errno
import json
import os
import re
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nbjudge import sandbox
from nbjudge.errors import SandboxError
from nbjudge.process.zygote import Zygote
from nbjudge.sandbox import Wall, filters, root
from nbjudge_tests.trials import answer, cell, printed, run

ROOT = Path(__file__).parents[3]
NAMES = (
    *("namespaces made by root", "user namespace", "resource limits", "process limit", "no capabilities"),
    *("landlock", "seccomp"),
)


# ---------------------------------------------------------------------- what holds, and what is enough


def walls_of(*holding: str) -> tuple[Wall, ...]:
    return tuple(Wall(name, name in holding, "") for name in NAMES)


BASE = ("resource limits", "no capabilities", "seccomp")


def test_this_machine_holds_enough() -> None:
    found = sandbox.probe()
    assert tuple(wall.name for wall in found) == NAMES
    assert sandbox.minimum(found) is None
    assert all(wall.detail for wall in found)


@pytest.mark.parametrize("namespace", ["namespaces made by root", "user namespace"])
def test_namespaces_are_enough_without_landlock(namespace: str) -> None:
    assert sandbox.minimum(walls_of(*BASE, namespace)) is None


@pytest.mark.parametrize(("abi", "enough"), [(0, False), (5, False), (6, True), (7, True)])
def test_landlock_alone_must_be_recent(abi: int, enough: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nbjudge.sandbox.filters.landlock_abi", lambda: abi)
    assert (sandbox.minimum(walls_of(*BASE, "landlock")) is None) == enough


@pytest.mark.parametrize("missing", BASE)
def test_each_of_the_base_is_needed_and_named(missing: str) -> None:
    holding = [name for name in (*BASE, "user namespace", "landlock") if name != missing]
    with pytest.raises(SandboxError, match=missing):
        sandbox.demand(walls_of(*holding))


def test_elsewhere_than_on_linux_one_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    (wall,) = sandbox.probe()
    assert not wall.holds
    with pytest.raises(SandboxError, match=r"Linux only; this is darwin\. .*container"):
        Zygote()


# ---------------------------------------------------------------------- the filter, run by hand


def verdict(code: bytes, audit: int, number: int, *arguments: int) -> int:
    """What the kernel would return: an interpreter for the four instructions that the filter is made of."""
    data = struct.pack("=IIQ6Q", number & 0xFFFFFFFF, audit, 0, *(*arguments, 0, 0, 0, 0, 0, 0)[:6])
    lines = list(struct.iter_unpack("=HBBI", code))
    at, loaded = 0, 0
    while True:
        operation, yes, no, value = lines[at]
        at += 1
        if operation == 0x20:
            (loaded,) = struct.unpack_from("=I", data, value)
        elif operation == 0x15:
            at += yes if loaded == value else no
        elif operation == 0x45:
            at += yes if loaded & value else no
        else:
            assert operation == 0x06
            return value


MACHINES = [(machine, *filters.ARCHITECTURES[machine]) for machine in filters.ARCHITECTURES]
DENIED = filters.ERRNO | errno.EPERM


@pytest.mark.parametrize(("machine", "column", "audit"), MACHINES, ids=lambda value: str(value))
def test_what_the_filter_says(machine: str, column: int, audit: int) -> None:
    code = filters.program(machine, sockets_between_processes=True)
    special = {name: numbers[column] for name, numbers in filters.SPECIAL.items()}
    for numbers in filters.DENIED.values():
        if (number := numbers[column]) is not None:
            assert verdict(code, audit, number) == DENIED
    taken = {numbers[column] for numbers in (*filters.DENIED.values(), *filters.SPECIAL.values())}
    assert all(verdict(code, audit, number) == filters.ALLOW for number in range(450) if number not in taken)
    assert verdict(code, audit ^ 1, 0) == filters.KILL
    assert verdict(code, audit, special["clone3"]) == filters.ERRNO | errno.ENOSYS
    assert verdict(code, audit, special["clone"], 0x1200011) == filters.ALLOW
    assert verdict(code, audit, special["clone"], 0x10000000 | 17) == DENIED
    assert verdict(code, audit, special["socket"], 1) == filters.ALLOW
    assert verdict(code, audit, special["socket"], 2) == filters.ERRNO | errno.EACCES
    assert verdict(code, audit, special["ioctl"], 0, 0x5412) == DENIED
    assert verdict(code, audit, special["ioctl"], 0, 0x5401) == filters.ALLOW
    strict = filters.program(machine, sockets_between_processes=False)
    for name in ("connect", "bind"):
        assert verdict(code, audit, special[name]) == filters.ALLOW
        assert verdict(strict, audit, special[name]) == DENIED


def test_no_way_round_by_the_other_numbers_of_x86() -> None:
    code = filters.program("x86_64", sockets_between_processes=True)
    assert verdict(code, filters.ARCHITECTURES["x86_64"][1], 0x40000000 | 1) == DENIED


def test_a_machine_without_a_table_is_refused() -> None:
    with pytest.raises(SandboxError, match="riscv64"):
        filters.program("riscv64", sockets_between_processes=True)


@pytest.mark.parametrize(
    ("column", "header"),
    [(0, "/usr/include/x86_64-linux-gnu/asm/unistd_64.h"), (1, "/usr/include/asm-generic/unistd.h")],
)
def test_the_numbers_are_the_kernel_s(column: int, header: str) -> None:
    if not Path(header).exists():
        pytest.skip(f"{header} isn't installed")
    text = Path(header).read_text(encoding="utf-8")
    known = {name: int(number) for name, number in re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", text)}
    ours = {name: numbers[column] for name, numbers in (*filters.DENIED.items(), *filters.SPECIAL.items())}
    compared = {name: number for name, number in ours.items() if number is not None and name in known}
    assert len(compared) > 50
    assert compared == {name: known[name] for name in compared}


# ---------------------------------------------------------------------- what is visible


def test_a_package_outside_this_python_is_shown_alone() -> None:
    shown = root.visible(("nbjudge", "torch", "no_such_package"))
    assert ROOT not in shown
    assert any(path == ROOT / "grader" / "nbjudge" or path in (ROOT / "grader" / "nbjudge").parents for path in shown)
    for hidden in ("source", "tests", "gradebook.db"):
        assert not any(path == ROOT / hidden or path in (ROOT / hidden).parents for path in shown)


INSIDE = r"""
import ctypes, glob, json, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
def tried(function):
    try:
        function()
        return "worked"
    except Exception as error:
        return type(error).__name__
def written(path):
    return tried(lambda: open(path, "w").write("x"))
def called(number, *arguments):
    return "worked" if libc.syscall(number, *arguments) >= 0 else os.strerror(ctypes.get_errno())
status = dict(line.split(":\t", 1) for line in open("/proc/self/status").read().splitlines())
print(json.dumps({
    "home": sorted(os.listdir(".")), "cwd": os.getcwd(), "root": sorted(os.listdir("/")),
    "read": {path: tried(open(path).read) if os.path.exists(path) else "not there" for path in PATHS},
    "write": {path: written(path) for path in ("/x", "/etc/passwd", "/usr/x", sys.prefix + "/x")},
    "own": {path: written(path) for path in ("x", "/tmp/x", "/dev/shm/x", "/dev/null")},
    "big": tried(lambda: open("big", "wb").write(b"x" * (70 << 20))),
    "environment": sorted(os.environ), "pid": os.getpid(),
    "processes": [name for name in os.listdir("/proc") if name.isdigit()],
    "inet": tried(lambda: socket.socket(socket.AF_INET)), "netlink": tried(lambda: socket.socket(socket.AF_NETLINK)),
    "mount": called(MOUNT, b"none", b"/tmp", b"tmpfs", 0, 0), "unshare": called(UNSHARE, 0x10000000),
    "ptrace": called(PTRACE, 16, 1, 0, 0), "bpf": called(BPF, 0, 0, 0),
    "capabilities": [status[name].strip() for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")],
    "no_new_privs": status["NoNewPrivs"].strip(), "seccomp": status["Seccomp"].strip(),
    "user": os.getuid(), "kill": tried(lambda: os.kill(2, 9)),
    "descriptors": sorted(map(int, os.listdir("/proc/self/fd"))),
    "oom": open("/proc/self/oom_score_adj").read().strip(),
    "notebooks": glob.glob("**/*.ipynb", recursive=True),
}))
"""


@pytest.fixture(scope="module")
def inside(zygote: Zygote) -> dict[str, Any]:
    secrets = [
        "/etc/shadow",
        *map(str, (Path.home() / ".bashrc", ROOT / "pyproject.toml", ROOT / "source", ROOT / "tests")),
    ]
    column = filters.ARCHITECTURES[os.uname().machine][0]
    numbers = {name.upper(): filters.DENIED[name][column] for name in ("mount", "unshare", "ptrace", "bpf")}
    given = "\n".join([f"PATHS = {secrets!r}", *(f"{name} = {number}" for name, number in numbers.items())])
    files = {"data/a.csv": b"1,2", "ps1.ipynb": b"{}", "../out": b"x", "/abs": b"x"}
    result = run(zygote, answer(given + INSIDE), files=files)
    found: dict[str, Any] = json.loads(printed(result, 0))
    return found


def test_only_the_submission_s_own_files_are_there(inside: dict[str, Any]) -> None:
    assert inside["home"] == ["data"]
    assert inside["notebooks"] == []
    assert set(inside["read"].values()) == {"not there"}


def test_only_the_own_folders_can_be_written(inside: dict[str, Any]) -> None:
    assert not {"worked"} & set(inside["write"].values())
    assert set(inside["own"].values()) == {"worked"}
    assert inside["big"] == "OSError"


def test_no_network_and_no_other_process(inside: dict[str, Any]) -> None:
    assert inside["inet"] == inside["netlink"] == "PermissionError"
    assert inside["pid"] == 1
    assert inside["processes"] == ["1"]
    assert inside["kill"] == "ProcessLookupError"


def test_no_power(inside: dict[str, Any]) -> None:
    assert {int(mask, 16) for mask in inside["capabilities"]} == {0}
    assert (inside["no_new_privs"], inside["seccomp"], inside["oom"]) == ("1", "2", "1000")
    denied = os.strerror(errno.EPERM)
    assert [inside[name] for name in ("mount", "unshare", "ptrace", "bpf")] == [denied] * 4
    assert inside["user"] == sandbox.INNER_ID


def test_nothing_of_the_caller_s_is_inherited(inside: dict[str, Any]) -> None:
    assert max(inside["descriptors"]) <= 8  # its own five, the event loop's three, the listing's
    assert not {name for name in inside["environment"] if re.search(r"PYTEST|USER|SSH|TOKEN|VIRTUAL_ENV", name)}


def test_memory_is_bounded(zygote: Zygote) -> None:
    result = run(zygote, cell("try:\n    held = bytearray(3 << 30)\nexcept MemoryError:\n    print('bounded')"))
    assert printed(result, 0) == "bounded\n"


# ---------------------------------------------------------------------- other users, other machines

HELD = """
shadow failed
course failed
network failed
signal failed
outside failed
own worked
left []
"""


def as_other_user(kind: str, folder: Path) -> str:
    command = [sys.executable, "-B", "-m", "nbjudge_tests.other_user", "become", kind, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    if "PermissionError" in done.stderr and "mount" in done.stderr:
        pytest.skip("this root may not mount, so no other user can reach its Python")
    assert not done.stderr, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "missing"), [("doctor", 1), ("doctor-without-namespaces", 2)])
def test_the_doctor_tells_an_ordinary_user_which_walls_hold(kind: str, missing: int, tmp_path: Path) -> None:
    said = as_other_user(kind, tmp_path).splitlines()
    assert re.fullmatch(r"Linux .*, as user \d+", said[0])
    absent = [line.split("  ")[1] for line in said if line.startswith("MISSING")]
    assert absent == ["namespaces made by root", "user namespace"][:missing]
    assert "Enough for untrusted code." in said


@pytest.mark.slow
def test_an_ordinary_user_has_the_same_walls(tmp_path: Path) -> None:
    assert as_other_user("plain", tmp_path) == "user passed" + HELD


@pytest.mark.slow
def test_without_namespaces_landlock_and_seccomp_hold(tmp_path: Path) -> None:
    if "landlock" not in {wall.name for wall in sandbox.probe() if wall.holds}:
        pytest.skip("this kernel has no landlock")
    assert as_other_user("without-namespaces", tmp_path) == "none passed" + HELD


COVERED = """
import sys
from pathlib import Path
from nbjudge.sandbox import root, syscalls
folder = Path(sys.argv[1])
syscalls.new_user_namespace(1000)
syscalls.unshare(syscalls.NEWNS)
syscalls.private_mounts()
names = ("python/lib", "link", "a.txt", "gone")
root._cover(folder, 1 << 20, [*(folder / name for name in names), Path("/usr/lib")])
print(sorted(str(path.relative_to(folder)) for path in folder.rglob("*")))
print((folder / "python/lib/torch.py").read_text(), (folder / "a.txt").read_text(), (folder / "link").readlink())
(folder / "new.txt").write_text("mine")
"""


def test_a_python_below_a_private_folder_stays_in_sight(tmp_path: Path) -> None:
    """Installed under /tmp, as in a clone there: what isn't needed is hidden, what is needed isn't."""
    (tmp_path / "python/lib").mkdir(parents=True)
    (tmp_path / "python/lib/torch.py").write_text("torch")
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "link").symlink_to("python")
    done = subprocess.run([sys.executable, "-c", COVERED, str(tmp_path)], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.splitlines() == [
        "['a.txt', 'link', 'python', 'python/lib', 'python/lib/torch.py']",
        "torch a python",
    ], done.stderr
    assert not (tmp_path / "new.txt").exists()
