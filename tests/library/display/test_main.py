"""`python -m seegrad SCRIPT.py`: as if the script had run alone, then the diagnoses."""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from nbjudge_tests.session import first_of, one_in
from seegrad.__main__ import main
from seegrad.recorder import load
from seegrad.words.errors import RecordingError
from tests.course.chapters.nbval_runs import LESS_SEEN
from tests.library import warm

CORRUPT = """
import sys, torch
a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
out = a.sigmoid()
c = out.data
c.zero_()
out.sum().backward()
print(__name__, __file__, sys.argv, sys.path[0], a.grad.tolist())
"""


QUIET = os.environ | {"PYTHONWARNINGS": LESS_SEEN}


def python(*command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return warm.python(command, folder, QUIET, "41\nx\n")


def started(*command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A process as everybody starts it."""
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=QUIET,
        capture_output=True,
        text=True,
        check=False,
        input="41\nx\n",
    )


@pytest.fixture
def here(tmp_path, monkeypatch, capsys):
    """The command in this process, which saves what a process takes: for what is ours alone, not Python's."""
    monkeypatch.chdir(tmp_path)

    def command(*arguments: str) -> subprocess.CompletedProcess[str]:
        status = main(list(arguments))
        return subprocess.CompletedProcess(arguments, status, *capsys.readouterr())

    return command


@pytest.fixture
def script(tmp_path):
    def write(text: str) -> Path:
        path = tmp_path / "script.py"
        path.write_bytes(text.encode("latin-1" if "latin-1" in text else "utf-8"))
        return path

    return write


def test_the_script_s_output_comes_first_and_is_its_own(script, tmp_path) -> None:
    script(CORRUPT)
    alone, seen = (python(*c, "script.py", "-x", "--html", "y", folder=tmp_path) for c in ([], ["-m", "seegrad"]))
    assert seen.stdout.startswith(alone.stdout)
    assert (seen.returncode, seen.stderr) == (alone.returncode, alone.stderr)
    assert seen.stdout.removeprefix(alone.stdout) == (
        "\n── seegrad: 1 finding in 1 backward call ──\n"
        "script.py:6: WRONG GRADIENT: silent corruption\n"
        "    Line 6 (`c.zero_()`) overwrote `out` through `c`, which shares its memory but not its version, after "
        "SigmoidBackward0 from line 4 had saved it for the gradient of `a`; the version stayed 0, so torch raised "
        "nothing and the gradient is wrong. Replace `.data` by `.detach()` and torch will raise here instead; to be "
        "right, write to a copy, `c = out.detach().clone()`, or after the backward call.\n"
        "seegrad: --html y stands after script.py, so the script was given it. For seegrad: "
        "python -m seegrad --html y script.py -x\n"
    )
    assert not (tmp_path / "y").exists()


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ((), ""),
        (("--", "--html", "y.html"), ""),
        (("--save", "model.pt"), "import argparse; argparse.ArgumentParser().add_argument('--save')"),
    ],
)
def test_what_is_the_script_s_own_is_not_called_misplaced(script, here, given: tuple[str, ...], text: str) -> None:
    script(text)
    done = here("script.py", *given)
    assert (done.stdout, done.stderr) == ("\n── seegrad: 0 findings in 0 backward calls ──\n", "")


def test_of_a_script_that_refuses_its_arguments_nothing_is_told(script, here) -> None:
    script("import argparse; argparse.ArgumentParser().parse_args()")
    done = here("script.py", "--no-such-option")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith("unrecognized arguments: --no-such-option\n")


def test_the_command_that_puts_an_option_before_the_script_does_what_was_meant(script, here, tmp_path) -> None:
    script(CORRUPT)
    folder = tmp_path / "my folder"
    folder.mkdir()
    done = here("script.py", "--html", "my folder/page.html")
    command = shlex.split(done.stdout.rpartition("For seegrad: ")[2])
    assert here(*command[3:]).stdout.endswith("written: my folder/page.html\n")


@pytest.mark.parametrize(
    "text",
    one_in(
        7,
        [
            "import sys; sys.exit()",
            "import sys; sys.exit(7)",
            "import sys; sys.exit('a reason')",
            "1 / 0",
            "def f():\n    raise KeyError('x')\n\ntry:\n    1 / 0\nexcept ZeroDivisionError as e:\n    f()",
            "print('no torch at all')",
            "raise KeyboardInterrupt",
            "import sys; sys.exit(-3)",
            "def f(:",
            "import atexit\natexit.register(lambda: print('bye'))",
            "import __main__\nx = 3\nprint(__main__.x)",
            "import torch\na = torch.ones(2, requires_grad=True)\na.add_(1)",
            "# -*- coding: latin-1 -*-\nprint('caf\xe9')",
            "\ufeffprint('a byte order mark')",
            "import sys\nprint('said')\nsys.stdout.close()",
            "n = int(input())\nprint(n + len(input()))",
            "import json\ntry:\n    json.loads('{')\nexcept ValueError as e:\n    raise RuntimeError('bad') from e",
            "import sys\nsys.excepthook = lambda *error: print('my own hook', error[1])\nraise ValueError(3)",
            "import torch\ny = torch.ones(2, requires_grad=True).exp()\ny.register_hook(lambda g: exit(4))\n"
            "y.sum().backward()",
            "import dataclasses, inspect, pickle\n@dataclasses.dataclass\nclass C:\n    x: int\n"
            "print(pickle.loads(pickle.dumps(C(1))), inspect.getsource(C))",
        ],
    ),
)
def test_status_output_and_traceback_are_the_script_s(script, tmp_path, text: str) -> None:
    script(text)
    alone, seen = (started(*command, "script.py", folder=tmp_path) for command in ([], ["-m", "seegrad"]))
    assert seen.returncode == alone.returncode
    assert [line for line in alone.stdout.splitlines() if line not in seen.stdout.splitlines()] == []
    assert seen.stderr == alone.stderr


def test_what_an_error_came_of_is_told_once_below_the_script_s_own_traceback(script, tmp_path) -> None:
    script("import torch\na = torch.ones(2, requires_grad=True)\na.add_(1)")
    seen = python("-m", "seegrad", "script.py", folder=tmp_path)
    assert "seegrad" not in seen.stderr
    assert seen.stdout.count("Line 3 (`a.add_(1)`) writes in place to `a`") == 1


@pytest.mark.parametrize(
    ("options", "said"), [((), ["stdout"]), (("--auto",), []), (("--auto", "--check-nan"), ["stderr"])]
)
def test_each_tensor_is_looked_at(script, here, options: tuple[str, ...], said: list[str]) -> None:
    """Which op float16 overflowed in, a graph doesn't tell that kept neither what went in nor what came out."""
    script(
        "import torch\nw = torch.linspace(0, 1, 100).requires_grad_()\n"
        "(w.half() * 60_000 * 2).float().log_softmax(0)[3].sum().backward()\n"
    )
    seen = here(*options, "script.py")
    assert [where for where in ("stdout", "stderr") if "script.py:3: WRONG GRADIENT" in getattr(seen, where)] == said


TRAINS = """
import torch
w, x = torch.nn.Parameter(torch.ones(3)), torch.ones(3)
optimizer = torch.optim.SGD([w], lr=0.1) if {optimised} else None
for step in range(6):
    out = (w * x).sigmoid()
    if step == 4:
        out.data.zero_()
    w.grad = None
    out.sum().backward()
    if optimizer is None:
        w.data.sub_(w.grad)
    else:
        optimizer.step()
print("done", step)
"""


@pytest.mark.parametrize(("optimised", "steps", "found"), [(True, "3", 0), (False, "3", 0), (True, "5", 1)])
def test_of_a_long_training_the_first_steps_are_enough(
    script, tmp_path, optimised: bool, steps: str, found: int
) -> None:
    """The line that spoils step 5 is found where that is recorded; the program goes on either way."""
    script(TRAINS.format(optimised=optimised))
    done = python("-m", "seegrad", "--steps", steps, "script.py", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    findings = f"{found} finding{'s' * (not found)}"
    assert done.stdout.startswith(f"done 5\n\n── seegrad: {findings} in {steps} backward calls ──\n")
    assert done.stdout.count("silent corruption") == found
    said = f"seegrad: the first {steps} steps were recorded; what came after them ran unrecorded.\n"
    assert done.stdout.endswith(said)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--steps", "0"), "--steps is a number from 1 on"),
        (("--steps", "3", "--auto"), "--steps leaves steps unrecorded"),
        (("--steps", "3", "--try-fix", "both.html"), "--steps leaves steps unrecorded"),
    ],
)
def test_steps_that_say_nothing_are_refused(script, here, capsys, given: tuple[str, ...], said: str) -> None:
    script(CORRUPT)
    with pytest.raises(SystemExit):
        here(*given, "script.py")
    assert said in capsys.readouterr().err


def test_html_holds_the_picture_and_asks_no_network(script, here, tmp_path) -> None:
    script(CORRUPT)
    done = here("--html", "out.html", "script.py")
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "out.html").read_text(encoding="utf-8")
    assert "SigmoidBackward0" in text
    assert 'src="http' not in text
    assert 'href="http' not in text


def test_what_was_recorded_is_saved_and_the_page_has_the_script_s_name(script, here, tmp_path) -> None:
    script(CORRUPT)
    here("--save", "all.json", "--html", "page.html", "script.py")
    assert [each.culprit.line for each in load(tmp_path / "all.json").diagnoses if each.culprit] == [6]
    assert "<title>script.py</title>" in (tmp_path / "page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("option", ["--html", "--json", "--save", "--try-fix"])
def test_what_cannot_be_written_is_told_before_the_script_runs(script, here, option: str) -> None:
    script("print('ran')")
    for path in ("no/such/folder.html", ".", "script.py/page.html"):
        done = here(option, path, "script.py")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"seegrad: can't write {path}: [Errno ")
        assert done.stderr.count("\n") == 1


def test_no_program_is_written_over(script, here, tmp_path) -> None:
    """A file name that was forgotten makes the script the option's."""
    text = script("print('ran')").read_text()
    (tmp_path / "train").write_text(text)
    for path, program in (("script.py", "script.py"), ("other.py", "script.py"), ("train", "train")):
        done = here("--html", path, program)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == f"seegrad: can't write {path}: it's the name of a program, which would be lost\n"
    assert [(tmp_path / name).read_text() for name in ("script.py", "train")] == [text, text]
    assert not (tmp_path / "other.py").exists()


def test_a_notebook_is_no_script(here, tmp_path) -> None:
    (tmp_path / "book.ipynb").write_text('{"cells": null}')
    done = here("book.ipynb")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("seegrad: can't read book.ipynb: it is a notebook, not a script: put `%%see`")


def test_what_can_no_longer_be_written_leaves_the_status_alone(script, tmp_path) -> None:
    script("import os, sys; os.mkdir('page.html'); sys.exit(5)")
    done = python("-m", "seegrad", "--html", "page.html", "script.py", folder=tmp_path)
    assert done.returncode == 5
    assert done.stderr.startswith("seegrad: can't write")


def test_what_was_found_is_no_recording(script, here, tmp_path) -> None:
    script(CORRUPT)
    here("--json", "found.json", "script.py")
    with pytest.raises(RecordingError, match="what was found in one"):
        load(tmp_path / "found.json")


def test_json_to_stdout_stands_there_alone(script, tmp_path) -> None:
    script(CORRUPT.replace("print(", "print('own'); ("))
    options = ("--json", "-", "--save", "all.json", "--try-fix", "both.html")
    done = python("-m", "seegrad", *options, "script.py", folder=tmp_path)
    own, found = done.stdout.split("\n", maxsplit=1)
    assert (done.returncode, own) == (0, "own")
    assert [each["kind"] for each in json.loads(found)["findings"]] == ["silent_corruption"]
    assert "── seegrad: 1 finding" in done.stderr
    assert "written: both.html" in done.stderr
    assert not (tmp_path / "-").exists()


TRAIN = """
import argparse
import os

import torch
from {package}model import Net

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--html", help="the script's own option, not ours")
    parser.add_argument("--rate", type=float)
    print(parser.parse_args())
    os.chdir("/")
    Net()(torch.ones(2, 3)).backward()
"""
MODEL = """
import torch

class Net(torch.nn.Linear):
    def __init__(self):
        super().__init__(3, 3)

    def forward(self, x):
        h = torch.sigmoid(super().forward(x))
        h += 1
        return h.sum()
"""


@pytest.mark.parametrize("package", ["", pytest.param("project.", marks=pytest.mark.whole)], ids=["script", "module"])
def test_a_project_in_another_folder(tmp_path, package: str) -> None:
    """Siblings are found, options after the name are the script's, and the culprit is named by its path from here."""
    folder = tmp_path / "project"
    folder.mkdir()
    folder.joinpath("train.py").write_text(TRAIN.format(package="." if package else ""))
    folder.joinpath("model.py").write_text(MODEL)
    name = ("-m", "project.train") if package else ("project/train.py",)
    given = (*name, "--html", "x", "--rate", "0.5")
    alone, seen = (python(*command, *given, folder=tmp_path) for command in ([], ["-m", "seegrad"]))
    assert seen.stdout.startswith(alone.stdout + "\n── seegrad: 1 finding in 1 backward call ──")
    assert "project/model.py:10: error: " in seen.stdout
    assert seen.returncode == alone.returncode == 1
    assert seen.stderr.splitlines()[-1] == alone.stderr.splitlines()[-1]


def test_a_package_runs_its_main(tmp_path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    folder.joinpath("__main__.py").write_text("import sys\nprint(sys.argv, __package__, __name__)\nsys.exit(9)")
    folder.joinpath("__init__.py").touch()
    alone, seen = (python(*command, "-m", "project", "a", folder=tmp_path) for command in ([], ["-m", "seegrad"]))
    assert seen.stdout.startswith(alone.stdout)
    assert seen.returncode == alone.returncode == 9


@pytest.mark.whole
def test_a_folder_with_a_main_runs_as_python_runs_it(tmp_path) -> None:
    tmp_path.joinpath("tool").mkdir()
    tmp_path.joinpath("tool", "part.py").write_text("HERE = 3")
    text = "import sys, part\nprint(sys.argv, sys.path[0], __file__, __name__, part.HERE)\nsys.exit(9)"
    tmp_path.joinpath("tool", "__main__.py").write_text(text)
    alone, seen = (started(*command, "tool", "-x", folder=tmp_path) for command in ([], ["-m", "seegrad"]))
    assert (seen.returncode, seen.stdout.splitlines()[0]) == (alone.returncode, alone.stdout.splitlines()[0])


def test_workers_of_a_data_loader_find_the_script(script, tmp_path) -> None:
    script(
        "import torch\nfrom torch.utils.data import DataLoader\n"
        "def double(samples):\n    return 2 * torch.stack(samples)\n"
        "if __name__ == '__main__':\n"
        "    w = torch.ones(2, requires_grad=True)\n"
        "    spawned = dict(num_workers=1, multiprocessing_context='spawn')\n"
        "    for x in DataLoader(torch.ones(4, 2), 2, collate_fn=double, **spawned):\n"
        "        (x * w).sum().backward()\n"
        "    print(w.grad)\n"
    )
    done = python("-m", "seegrad", "script.py", folder=tmp_path)
    assert done.stdout.startswith("tensor([8., 8.])\n\n── seegrad: 0 findings in 2 backward calls"), done.stderr


def test_nobody_listens_any_more(script, tmp_path) -> None:
    script(CORRUPT.rsplit("print", 1)[0])
    command = f"{sys.executable} -m seegrad script.py | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, env=QUIET, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_full_disk_costs_what_is_said_and_nothing_else(script, tmp_path) -> None:
    script(CORRUPT.rsplit("print", 1)[0])
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "seegrad", "script.py"]
        done = subprocess.run(
            command, cwd=tmp_path, env=QUIET, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 0
    assert done.stderr == f"seegrad: can't write stdout: {OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))}\n"


@pytest.mark.parametrize("end", first_of(["raise ValueError(3)", ""]))
def test_a_stdout_that_a_shell_has_closed_changes_no_status(script, tmp_path, end: str) -> None:
    script(f"{CORRUPT.rsplit('print', 1)[0]}\n{end}\n")
    commands = [f"{sys.executable} {how} script.py >&-" for how in ("", "-m seegrad", "-m seegrad --auto")]
    shell = {"cwd": tmp_path, "env": QUIET, "capture_output": True, "text": True, "check": False}
    done = [subprocess.run(["bash", "-c", each], **shell) for each in commands]  # type: ignore[call-overload]  # one dict
    assert {each.returncode for each in done} == {1 if end else 0}
    assert done[0].stderr.splitlines() == [
        line for line in done[1].stderr.splitlines() if not line.startswith("seegrad: ")
    ]


def test_the_command_line_is_said_in_the_reader_s_language(capsys, monkeypatch) -> None:
    monkeypatch.setenv("SEEGRAD_LANG", "zh")
    with pytest.raises(SystemExit) as left:
        main(["--help"])
    lines = capsys.readouterr().out.splitlines()
    assert left.value.code == 0
    assert lines[0].startswith("用法：python -m seegrad ")
    assert all(re.search("[一-鿿]", line) for line in lines if line.startswith("  -") and len(line) > 20)


def test_the_version_says_torch_s_too(capsys) -> None:
    with pytest.raises(SystemExit):
        main(["--version"])
    assert torch.__version__.split("+")[0] in capsys.readouterr().out


def test_a_file_that_is_named_as_a_module(here) -> None:
    done = here("-m", "train.py")
    assert done.returncode == 2
    assert "for a file, leave `-m` out" in done.stderr


@pytest.mark.whole
def test_a_module_that_is_not_there(here) -> None:
    done = here("-m", "nowhere.train")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("seegrad: can't read nowhere.train: ")


def test_a_script_that_is_not_there(here) -> None:
    done = here("missing.py")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("seegrad: can't read missing.py")
