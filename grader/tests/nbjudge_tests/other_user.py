"""A program: grade one notebook as an ordinary user, or where there are no namespaces. `test_sandbox` starts it.

python -m nbjudge_tests.other_user become (plain | without-namespaces) FOLDER     then starts itself again as
python -m nbjudge_tests.other_user grade
python -m nbjudge_tests.other_user become (doctor | doctor-without-namespaces) FOLDER     then starts the doctor
python -m nbjudge_tests.other_user become class FOLDER COURSE     then grades the hostile class
python -m nbjudge_tests.other_user become command FOLDER COMMAND … then runs that command
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from nbjudge.sandbox import syscalls as layers

ROOT = Path(__file__).parents[3]
ATTEMPTS = f"""
import os, socket, time
def tried(name, function):
    try:
        function()
        print(name, "worked")
    except OSError:
        print(name, "failed")
tried("shadow", lambda: open("/etc/shadow").read())
tried("course", lambda: open({str(ROOT / "pyproject.toml")!r}).read())
tried("network", lambda: socket.socket(socket.AF_INET))
tried("signal", lambda: os.kill(os.getppid() or 1 << 22, 0))
tried("outside", lambda: open("/tmp/../outside", "w"))
tried("own", lambda: open("own", "w").write("mine"))
if os.fork() == 0:
    os.setsid()
    time.sleep(100)
def f(x): return x * 2
"""


def become(kind: str, folder: Path) -> None:
    """Leave root, and with it namespaces if so asked; then grade."""
    if os.getuid() == 0:
        show_to_everybody([Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve(), ROOT], folder)
        layers.become(65534)
    if kind.endswith("without-namespaces"):
        layers.new_user_namespace(1000)
        Path("/proc/sys/user/max_user_namespaces").write_text("0", encoding="utf-8")
    if kind == "command":
        os.execvp(sys.argv[4], sys.argv[4:])  # noqa: S606 -- our own program's
    programs = {"doctor": ["nbjudge", "doctor"], "class": ["nbjudge_tests.classroom.hostile", *sys.argv[4:]]}
    program = programs.get(kind.partition("-")[0], ["nbjudge_tests.other_user", "grade"])
    os.execv(sys.executable, [sys.executable, "-B", "-m", *program])  # noqa: S606 -- our own program


def show_to_everybody(paths: list[Path], copies_in: Path) -> None:
    """As root: make these paths reachable where a folder above them is closed, in a mount namespace of our own."""
    layers.unshare(layers.NEWNS)
    layers.private_mounts()
    closed: dict[Path, set[Path]] = {}
    for path in paths:
        above = [folder for folder in reversed(path.parents) if not folder.stat().st_mode & 1]
        if above:
            closed.setdefault(above[0], set()).add(path)
    for closed_folder, wanted in closed.items():
        copies = {path: Path(tempfile.mkdtemp(dir=copies_in)) for path in wanted}
        for path, copy in copies.items():
            layers.mount(str(path), copy, None, layers.MS_BIND | layers.MS_REC)
        layers.mount_tmpfs(closed_folder, 1 << 20, "0755")
        for path, copy in copies.items():
            path.mkdir(parents=True)
            layers.mount(str(copy), path, None, layers.MS_BIND | layers.MS_REC)


def grade() -> None:
    """One notebook that tries what it may not; what came of it is printed."""
    from nbjudge.process.zygote import Zygote
    from nbjudge_tests.trials import answer, check, only, printed, run

    with tempfile.TemporaryDirectory() as own:  # others grade as this user at the same time
        tempfile.tempdir = os.environ["TMPDIR"] = own
        with Zygote(["torch"]) as zygote:
            result = run(zygote, answer(ATTEMPTS), check("assert f(2) == 4"))
            print(zygote.namespaces, only(result).kind)  # noqa: T201 -- a program
            print(printed(result, 0), end="")  # noqa: T201 -- the same
        print("left", list(Path(own).iterdir()))  # noqa: T201 -- the same


if __name__ == "__main__":
    become(sys.argv[2], Path(sys.argv[3])) if sys.argv[1] == "become" else grade()
