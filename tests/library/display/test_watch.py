"""`import seegrad.auto`: silent where nothing is wrong; else the finding, where it happens and at the end."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

import seegrad
from nbjudge_tests.session import first_of
from seegrad.display.findings import as_json
from seegrad.display.watch import MOST_EXPLAINED, ProgramWatch, page_of
from tests.course.chapters.nbval_runs import LESS_SEEN
from tests.library import warm

QUIET = os.environ | {"PYTHONWARNINGS": LESS_SEEN}
SILENT = """\
import torch
a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
out = a.sigmoid()
c = out.data
c.zero_()
out.sum().backward()
print(a.grad.tolist())
"""
RAISES = """\
import torch

def step(a):
    h = a.sigmoid()
    h += 1
    h.sum().backward()

step(torch.ones(3, requires_grad=True))
"""
KEPT = """\
import torch
net, losses = torch.nn.Linear(3, 1), []
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for _ in range(5):
    loss = net(torch.ones(2, 3)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss)
"""

NOTED = """\
import sys
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [torch.nn.Linear(3, 3)]
        self.out = torch.nn.Linear(3, 1)

    def forward(self, x):
        return self.out(self.layers[0](x).tanh())

net = Net()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for _ in range(2):
    optimizer.zero_grad()
    net(torch.randn(4, 3)).pow(2).mean().backward()
    optimizer.step()
sys.exit(3)
"""
SPAWNED = """\
import seegrad.auto
import torch.multiprocessing
from raises import step

def child(rank):
    step(torch.ones(3, requires_grad=True))

if __name__ == "__main__":
    torch.multiprocessing.spawn(child, nprocs=1)
"""
CULPRIT = "Line 5 (`c.zero_()`) overwrote `out` through `c`"


def python(*command: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return warm.python(command, folder, QUIET | environment)


@pytest.fixture
def watch(tmp_path):
    watch = ProgramWatch(None, tmp_path / "page.html")
    yield watch
    watch.end()


def corrupt() -> None:
    a = torch.ones(3, requires_grad=True)
    out = a.sigmoid()
    out.data.zero_()
    out.sum().backward()


def spoil() -> None:
    a = torch.ones(3, requires_grad=True)
    out = a.sigmoid()
    out.zero_()
    out.sum().backward()


def test_a_wrong_gradient_is_told_when_the_program_ends_and_nothing_else_changes(tmp_path) -> None:
    (tmp_path / "train.py").write_text(SILENT)
    alone, seen = (python(*how, "train.py", folder=tmp_path) for how in ([], ["-m", "seegrad", "--auto"]))
    assert (seen.stdout, seen.returncode) == (alone.stdout, alone.returncode)
    first, second, last = seen.stderr.splitlines()
    assert first == "seegrad: train.py:5: WRONG GRADIENT: silent corruption"
    assert CULPRIT in second
    assert last == f"seegrad: the picture is in {tmp_path / 'train.seegrad.html'}"
    assert "c.zero_()" in (tmp_path / "train.seegrad.html").read_text(encoding="utf-8")


def test_one_line_of_import_does_the_same_and_a_variable_switches_it_off(tmp_path) -> None:
    lines = "import seegrad.auto, sys; before = 'torch' in sys.modules; import torch; print(before)"
    (tmp_path / "train.py").write_text(SILENT.replace("import torch", lines))
    environments = [QUIET | {"SEEGRAD": how} for how in ("1", "0")]  # as everybody starts it: torch isn't loaded yet
    seen, off = (
        subprocess.run(
            [sys.executable, "train.py"], cwd=tmp_path, env=each, capture_output=True, text=True, check=False
        )
        for each in environments
    )
    assert CULPRIT not in off.stderr + off.stdout
    assert (off.stderr, off.stdout.partition("\n")[0]) == ("", "False")
    assert seen.stdout == off.stdout.replace("False", "True")
    assert "`c.zero_()`" in seen.stderr


@pytest.mark.whole
@pytest.mark.parametrize("how", [("-m", "noted"), ("noted.py",), ("-m", "seegrad", "--auto", "noted.py")])
def test_the_command_that_tells_the_notes_can_be_copied_arguments_and_all(tmp_path: Path, how: tuple[str, ...]) -> None:
    (tmp_path / "noted.py").write_text(NOTED if "--auto" in how else f"import seegrad.auto\n{NOTED}")
    said = python(*how, "--name", "two words", "*", folder=tmp_path).stderr
    command = shlex.split(said.strip().rpartition(": ")[2])
    assert command[-3:] == ["--name", "two words", "*"]
    told = python(*command[1:], folder=tmp_path, SEEGRAD="0")
    assert "note" in told.stdout.partition("── seegrad: ")[2]


@pytest.mark.parametrize("command", first_of([("noted.py",), ("-m", "seegrad", "--auto", "noted.py"), ("-m", "noted")]))
def test_notes_are_counted_at_the_end_with_the_command_that_tells_them(tmp_path, command: tuple[str, ...]) -> None:
    (tmp_path / "noted.py").write_text(NOTED if "--auto" in command else f"import seegrad.auto\n{NOTED}")
    program = "-m noted" if "-m noted" in " ".join(command) else "noted.py"
    done = python(*command, folder=tmp_path)
    heading, clause, count = done.stderr.splitlines()
    line = 7 if "--auto" in command else 8
    assert heading == f"seegrad: noted.py:{line}: note: no optimiser holds it"
    assert clause.startswith(f"    Line {line} (`self.layers = [torch.nn.Linear(3, 3)]`) keeps modules in `net.layers`")
    assert count == f"seegrad: 1 note, which may be meant: python -m seegrad {program}"
    assert (done.returncode, done.stdout) == (3, "")
    assert python(*command, folder=tmp_path, SEEGRAD="0").stderr == (done.stderr if "--auto" in command else "")


@pytest.mark.parametrize("end", first_of(["raise KeyboardInterrupt", "raise ValueError(3)"]))
def test_notes_are_counted_however_the_program_ends(tmp_path, end: str) -> None:
    (tmp_path / "noted.py").write_text(f"{KEPT}\n{end}\n")
    done = python("-m", "seegrad", "--auto", "noted.py", folder=tmp_path)
    assert "\nseegrad: 1 note, which may be meant: python -m seegrad noted.py\nTraceback " in done.stderr
    assert done.stderr.startswith("seegrad: noted.py:9: note: graphs kept alive\n    Line 9 (")


def test_an_error_that_ends_the_program_has_the_finding_in_its_traceback(tmp_path) -> None:
    (tmp_path / "raises.py").write_text(RAISES)
    alone, seen = (python(*how, "raises.py", folder=tmp_path) for how in ([], ["-m", "seegrad", "--auto"]))
    assert seen.returncode == alone.returncode == 1
    notes = seen.stderr.removeprefix(alone.stderr).splitlines()
    assert [note.split("`")[0] for note in notes] == [
        "seegrad: Line 5 (",
        f"seegrad: the picture is in {tmp_path / 'raises.seegrad.html'}",
    ]


def test_a_right_program_hears_nothing(tmp_path, capsys, watch) -> None:
    watch.begin()
    w = torch.ones(3, requires_grad=True)
    optimiser = torch.optim.SGD([w], lr=0.1)
    for _ in range(4):
        optimiser.zero_grad()
        (w * w).sum().backward()
        optimiser.step()
    with pytest.raises(RuntimeError, match="size"):
        torch.ones(2) @ torch.ones(3)
    watch.end()
    assert capsys.readouterr() == ("", "")
    assert list(tmp_path.iterdir()) == []


def test_an_error_is_explained_where_it_is_raised_so_whoever_catches_it_can_read(tmp_path, watch) -> None:
    watch.begin()
    with pytest.raises(RuntimeError) as caught:
        spoil()
    said, where = caught.value.__notes__
    assert said.startswith("seegrad: Line ")
    assert "`out.zero_()`" in said
    assert where == f"seegrad: the picture is in {tmp_path / 'page.html'}"
    watch.end(caught.value)
    assert caught.value.__notes__ == [said, where]


def test_a_long_program_is_told_while_it_runs_and_once(capsys, watch) -> None:
    watch.begin()
    for _ in range(3):
        corrupt()
    told = capsys.readouterr().err
    assert "WRONG GRADIENT" in told
    for _ in range(30):
        corrupt()
    watch.end()
    assert "WRONG GRADIENT" not in capsys.readouterr().err


def test_errors_by_the_thousand_cost_no_thousand_explanations(watch) -> None:
    explained = 0
    watch.begin()
    for _ in range(MOST_EXPLAINED + 5):
        with pytest.raises(RuntimeError) as caught:
            spoil()
        explained += hasattr(caught.value, "__notes__")
    assert explained == MOST_EXPLAINED


def test_where_no_page_can_be_written_the_finding_is_told_all_the_same(tmp_path, capsys) -> None:
    watch = ProgramWatch(None, tmp_path / "gone" / "page.html")
    watch.begin()
    corrupt()
    watch.end()
    (line, message) = capsys.readouterr().err.splitlines()
    assert "WRONG GRADIENT" in line
    assert "`out.data.zero_()`" in message


def test_a_program_that_is_watched_twice_is_told_once(tmp_path) -> None:
    (tmp_path / "train.py").write_text(SILENT.replace("import torch", "import seegrad.auto, torch"))
    assert python("-m", "seegrad", "--auto", "train.py", folder=tmp_path).stderr.count("WRONG GRADIENT") == 1


def test_watching_takes_no_file_to_write(tmp_path) -> None:
    (tmp_path / "train.py").write_text(SILENT)
    done = python("-m", "seegrad", "--auto", "--json", "f.json", "train.py", folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "no --html, --json or --save" in done.stderr


def test_each_process_of_a_distributed_run_has_a_page_of_its_own(monkeypatch) -> None:
    monkeypatch.setenv("RANK", "3")
    assert page_of("code/train.py").name == "train.rank3.seegrad.html"


@pytest.mark.whole
def test_a_spawned_process_tells_its_parent(tmp_path) -> None:
    (tmp_path / "raises.py").write_text(RAISES.partition("\n\nstep(")[0])
    (tmp_path / "many.py").write_text(SPAWNED)
    assert "seegrad: Line 5 of raises.py (`h += 1`)" in python("many.py", folder=tmp_path).stderr


def test_findings_are_plain_data_with_a_schema() -> None:
    with seegrad.record() as rec:
        corrupt()
    document = json.loads(as_json(rec.recording))
    (found,) = document["findings"]
    assert (document["schema"], document["versions"]["torch"]) == (1, torch.__version__)
    assert found == seegrad.findings(rec.recording)[0]
    assert found | {"message": "", "culprit": {}, "victim": {}} == {
        "kind": "silent_corruption",
        "severity": "wrong",
        "title": "silent corruption",
        "message": "",
        "culprit": {},
        "victim": {},
        "tensor": "out",
        "node": "SigmoidBackward0",
        "version_saved": 0,
        "version_now": 0,
        "mend": None,
        "instead": [],
    }
    assert (found["culprit"]["file"], found["culprit"]["code"]) == (__file__, "out.data.zero_()")
    assert found["message"] == rec.diagnoses[0].message()
    assert seegrad.findings(rec.recording, "zh_CN")[0]["title"] != found["title"]


def test_the_line_that_mends_is_data_too() -> None:
    with seegrad.record() as rec:
        out = torch.ones(3, requires_grad=True).sigmoid()
        c = out.data
        c.zero_()
        out.sum().backward()
    mend = seegrad.findings(rec.recording)[0]["mend"]
    assert (mend["file"], mend["code"], mend["text"]) == (__file__, "c = out.data", "c = out.detach().clone()")


def test_a_mode_that_is_on_ends_as_if_nobody_watched(capsys, watch) -> None:
    with torch.device("meta"):
        watch.begin()
        assert torch.ones(2).device.type == "meta"
    assert torch.ones(2).tolist() == [1.0, 1.0]
    corrupt()
    with torch.device("cpu"):  # ends after the watch
        watch.end()
    assert "`out.data.zero_()`" in capsys.readouterr().err


def test_a_thread_that_is_watched_may_end_before_the_program(tmp_path, capsys) -> None:
    watch = ProgramWatch(None, tmp_path / "page.html")

    def work() -> None:
        watch.begin()
        corrupt()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    watch.end()
    assert "`out.data.zero_()`" in capsys.readouterr().err
