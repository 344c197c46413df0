"""`%%see` in a real IPython: the cell runs as it would without, the picture comes first, torch's error stays."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from seegrad.display import magic, widget
from seegrad.display.widget import Picture, Sentence

NOT_FINITE = """\
w = torch.linspace(0, 1, 100).requires_grad_()
torch.where(w > 0, w.sqrt(), 0.0).sum().backward()
"""
RAISES = "out = a.sigmoid()\nc = out.detach()\nc.zero_()\nout.sum().backward()"


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.xmode = "Context"
    shell = InteractiveShell.instance(config=config)
    shell.run_cell("%load_ext seegrad")
    shell.run_cell("import torch\na = torch.tensor([1., 2., 3.], requires_grad=True)")
    yield shell
    InteractiveShell.clear_instance()


@pytest.fixture
def displayed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    found: list[Any] = []
    for shows in (magic, widget):
        monkeypatch.setattr(shows, "display", found.append)
    return found


def test_the_cell_assigns_in_the_user_s_namespace_and_gives_its_last_value(shell: Any, displayed: list[Any]) -> None:
    done = shell.run_cell("%%see\nb = a * 2\nb.sum()")
    assert done.success
    assert done.result.item() == 12.0
    assert shell.user_ns["b"].shape == (3,)
    (picture,) = displayed
    assert isinstance(picture, Picture)
    assert [text for _, text in picture._scene.code] == ["b = a * 2", "b.sum()"]


def test_a_cell_that_raises_shows_its_picture_and_torch_s_own_error(shell: Any, displayed: list[Any]) -> None:
    plain = shell.run_cell(RAISES)
    seen = shell.run_cell("%%see\n" + RAISES)
    assert type(seen.error_in_exec) is type(plain.error_in_exec) is RuntimeError
    assert str(seen.error_in_exec) == str(plain.error_in_exec)
    (picture,) = displayed
    assert picture.scene["frames"][-1]["phase"] == "error"


def test_the_traceback_begins_at_the_learner_s_line(
    shell: Any, displayed: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    shell.run_cell("%%see\n" + RAISES)
    said = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    assert "out.sum().backward()" in said
    assert "magic.py" not in said
    assert "run_cell_magic" not in said
    assert len(displayed) == 1


def test_of_the_traceback_the_learner_s_lines_are_shown_and_the_rest_when_it_is_asked_for(
    shell: Any, displayed: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    def said(cell: str) -> str:
        shell.run_cell(cell)
        return re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)

    plain, folded, asked = said(RAISES), said("%%see\n" + RAISES), said("%tb")
    assert "----> 4 out.sum().backward()" in folded
    assert "modified by an inplace operation" in folded
    assert "_tensor.py" not in folded
    assert "3 calls inside the libraries are left out here: `%tb`" in folded
    assert len(folded.splitlines()) < 12 < len(plain.splitlines())
    assert "_tensor.py" in asked
    assert "_tensor.py" in plain
    own = said("%%see\ndef f(x):\n    return missing\n\nf(1)")
    assert "return missing" in own
    assert "f(1)" in own
    assert "left out" not in own, "nothing was"
    assert displayed


@pytest.mark.usefixtures("displayed")
def test_what_ipython_keeps_of_earlier_cells_is_no_variable_of_the_learner(shell: Any) -> None:
    """Its history holds a graph whose name was bound anew; the frame that runs the cell is IPython's own."""
    shell.run_cell("import torch\na = torch.ones(2, requires_grad=True)\nb = a * 2", store_history=True)
    shell.run_cell("b", store_history=True)
    shell.run_cell("b = a * 3", store_history=True)
    shell.run_cell("%%see --as rec\n(a * 5).sum().backward()\nlast = a * 7")
    assert [ref.name for ref in shell.user_ns["rec"].recording.tensors if ref.name] == ["a", "last"]


def test_a_cell_without_a_last_expression_gives_nothing(shell: Any, displayed: list[Any]) -> None:
    assert shell.run_cell("%%see\nb = a * 2").result is None
    assert len(displayed) == 1


def test_braces_and_dollars_are_python_s(shell: Any, displayed: list[Any]) -> None:
    assert shell.run_cell('%%see\nx = 3\nf"{x}$x"').result == "3$x"
    assert displayed


def test_ipython_s_own_syntax_works_inside(shell: Any, displayed: list[Any]) -> None:
    assert shell.run_cell("%%see\nwhere = !echo here\nwhere[0]").result == "here"
    assert displayed


def test_a_question_hides_the_rest(shell: Any, displayed: list[Any]) -> None:
    shell.run_cell("%%see --ask versions --tensors out,c --name q7\n" + RAISES)
    question = displayed[0].scene["question"]
    assert question["kind"] == "versions"
    assert question["name"] == "q7"
    assert [label for _, label in question["targets"]] == ["out", "c"]


def test_torch_s_error_waits_with_the_question(shell: Any, displayed: list[Any]) -> None:
    """A cell that asks ends alike whether or not it raises; what was recorded is there for later cells."""
    assert shell.run_cell("%%see --ask outcome --as rec\n" + RAISES).success
    (picture,) = displayed
    assert picture.scene["question"]["truth"] == '"raise"'
    assert "modified by an inplace operation" in picture.scene["frames"][-1]["message"]
    assert shell.user_ns["rec"].error.kind == "RuntimeError"


@pytest.mark.parametrize(
    ("line", "cell", "error"),
    [
        ("--ask outcome", "b = a * 2\nmissing", "NameError"),
        ("--ask culprit", "b = a * 2\nraise RuntimeError('mine')", "RuntimeError"),
    ],
)
def test_no_other_error_waits(shell: Any, displayed: list[Any], line: str, cell: str, error: str) -> None:
    """Neither one that says that the cell is broken, nor one that no question is about."""
    done = shell.run_cell(f"%%see {line}\n{cell}")
    assert type(done.error_in_exec).__name__ == error
    assert displayed


def test_a_question_that_makes_no_sense_is_said_and_the_picture_shown(shell: Any, displayed: list[Any]) -> None:
    assert shell.run_cell("%%see --ask order\nb = a * 2").success
    sentence, picture = displayed
    assert isinstance(sentence, Sentence)
    assert "No backward pass ran" in repr(sentence)
    assert isinstance(picture, Picture)


def test_one_function_may_be_asked_alone(shell: Any, displayed: list[Any]) -> None:
    shell.run_cell("%%see --ask saves --nodes SigmoidBackward0, --name q3\nout = a.sigmoid() * 2\nout.sum().backward()")
    (picture,) = displayed
    assert picture.scene["question"]["truth"] == '{"SigmoidBackward0": ["(sigmoid)"]}'
    assert picture.scene["question"]["name"] == "q3"


def test_the_step_is_the_one_asked_for(shell: Any, displayed: list[Any]) -> None:
    shell.run_cell("%%see --step 1\nb = a * 2\nc = b * 2")
    assert displayed[0].step == 1


@pytest.mark.parametrize("line", ["--bogus", "--step x", "--ask colour", "--name 'open"])
def test_a_wrong_option_is_said_in_one_line(shell: Any, line: str) -> None:
    with pytest.raises(UsageError, match=r"%%see: .*Usage"):
        magic.see(line, "b = 1")
    assert shell is not None


def test_a_syntax_error_is_python_s(shell: Any, displayed: list[Any]) -> None:
    done = shell.run_cell("%%see\nb = = 2")
    assert isinstance(done.error_in_exec, SyntaxError)
    assert not displayed


def test_content_finds_a_write_that_no_op_made(shell: Any, displayed: list[Any]) -> None:
    cell = "out = a.sigmoid()\nout.detach().numpy()[:] = 0\nout.sum().backward()"
    shell.run_cell("%%see --content\n" + cell)
    assert "wrong" in {frame["severity"] for frame in displayed[0].scene["frames"]}


@pytest.mark.parametrize("option", ["", "--check-nan"])
def test_nan_is_found_in_large_tensors_too(shell: Any, displayed: list[Any], option: str) -> None:
    shell.run_cell(f"%%see --as looked {option}\n{NOT_FINITE}")
    assert "wrong" in {frame["severity"] for frame in displayed[0].scene["frames"]}
    handed_on = {each.node for each in shell.user_ns["looked"].recording.extremes if each.node is not None}
    assert (len(handed_on) > 2) == bool(option), "with it each Node is looked at, without it the steep one and a leaf"


def test_the_traceback_carries_the_number_of_the_cell_that_runs(shell: Any, displayed: list[Any]) -> None:
    """IPython counts on before it runs a cell that goes into the history."""
    number = shell.execution_count
    seen = shell.run_cell("%%see\n" + RAISES, store_history=True)
    assert len(displayed) == 1
    said = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(seen.error_in_exec._render_traceback_()))
    assert re.search(r"Cell In\s?\[(\d+)\], line 4", said)[1] == str(number)  # type: ignore[index]  # None fails too


@pytest.mark.parametrize("line", ["%%see --ask leaves", "%%see --ahead help", "{show}"])
def test_an_answer_is_called_after_its_cell_so_that_two_are_kept(shell: Any, displayed: list[Any], line: str) -> None:
    shell.kernel = object()
    program = "b = a * 2\n(b * b).sum().backward()"
    if line == "{show}":
        shell.run_cell("import seegrad\nwith seegrad.record() as rec:\n    b = a * 2\n    (b * b).sum().backward()")
        program, line = "seegrad.show(rec, ask='leaves')", ""
    shown = [shell.run_cell(f"{line}\n{program}".strip(), store_history=True).result for _ in range(2)]
    first, second = displayed or shown
    names = [each._scene.question.name for each in (first, second)]
    assert len(set(names)) == 2
    assert all(re.fullmatch(r"q\d+", name) for name in names)
    assert first._scene.question.id == second._scene.question.id, "what is kept of it stays where it was"
    assert line or first._scene.uid == second._scene.uid, "nor is another picture drawn"
    assert shell.run_cell("%%see --ask leaves --name mine\nb = a * 2").success
    assert displayed[-1]._scene.question.name == "mine"


def test_steps_are_asked_ahead_and_torch_s_error_waits_too(shell: Any, displayed: list[Any]) -> None:
    assert shell.run_cell("%%see --ahead help\nb = a * 2\n(b * b).sum().backward()").success
    assert [picture.scene["question"]["kind"] for picture in displayed] == ["next"]
    assert not shell.run_cell("%%see --ahead much\nb = a * 2").success
