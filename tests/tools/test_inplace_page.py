"""docs/inplace_error.md: each command gives the output shown; each program of its table does what the table says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell
from torch import nn

import seegrad
from seegrad.display import magic
from tools.pictures.consoles import PAGES, STEP, readers_lines, renewed, stable

(PAGE,) = PAGES
TEXT = PAGE.read_text(encoding="utf-8")
CORE = "modified by an inplace operation"


def causes() -> list[tuple[str, str, str]]:
    """The rows of the table of causes: cause, what raises, what does not."""
    table = TEXT.split("<!-- table: causes -->\n")[1].split("\n\n")[0]
    rows = [line.strip("|").split(" | ") for line in table.splitlines()[2:]]
    return [(cause.strip(), program(raises), program(does_not)) for cause, raises, does_not in rows]


def program(cell: str) -> str:
    """The lines of code in one cell of the table."""
    return "\n".join(re.findall(r"`([^`]*)`", cell))


def names() -> dict[str, Any]:
    """What the page says that each row finds."""
    said = re.findall(r"`((?:a|optimizer) = [^`]*)`", TEXT.split("<!-- table: causes -->")[1].split("\n## ")[0])
    assert [line.split()[0] for line in said] == ["a", "optimizer"]
    found: dict[str, Any] = {"torch": torch, "nn": nn}
    exec("\n".join(said), found)  # noqa: S102  # the page's own lines
    return found


def test_every_block_of_code_is_run() -> None:
    """By the commands, by the notebook's test, or by the table's; there is no other kind."""
    blocks = re.findall(r"(<!-- file: .* -->\n)?^```(\w+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    cells = [text for file, language, text in blocks if language == "python" and not file]
    assert {language for _, language, _ in blocks} == {"python", "console"}
    assert all(text.startswith("%") for text in cells)


@pytest.mark.whole
def test_the_commands_give_the_output_shown() -> None:
    assert stable(renewed(TEXT)) == stable(TEXT), "Run: python -m tools.pictures.consoles"


def test_the_fixed_file_differs_in_the_two_lines_of_the_story() -> None:
    before, after = (
        re.search(rf"file: {name} -->\n```python\n(.*?)```", TEXT, re.DOTALL) for name in ("train.py", "fixed.py")
    )
    assert before is not None
    assert after is not None
    gone = [line.strip() for line in before[1].splitlines() if line not in after[1].splitlines()]
    assert gone == ["weights = torch.softmax(scores, dim=-1)", "weights[:, self.future] = 0.0"]


@pytest.mark.parametrize(("raises", "does_not"), [row[1:] for row in causes()], ids=[row[0] for row in causes()])
def test_each_cause_raises_is_named_and_its_remedy_is_right(raises: str, does_not: str) -> None:
    with seegrad.record(code=("row", 1, raises)) as rec, pytest.raises(RuntimeError, match=CORE):
        exec(compile(raises, "row", "exec"), names())  # noqa: S102  # the page's own program
    first = rec.diagnoses[0]
    assert first.severity == "error"
    assert first.culprit is not None
    mended = {line.strip() for line in raises.splitlines()} - {line.strip() for line in does_not.splitlines()}
    handed_on = {line for line in mended if "=" in line and "(" in line and "backward" not in line}
    assert first.culprit.code in {*written_lines(raises), *handed_on}  # state handed on: the line to change

    after = names()
    with seegrad.record(code=("row", 1, does_not)) as rec:
        exec(compile(does_not, "row", "exec"), after)  # noqa: S102  # the same
    assert [each for each in rec.diagnoses if each.severity != "note"] == []
    assert after["a"].grad.abs().sum() > 0


def written_lines(text: str) -> list[str]:
    """The lines that write in place, as a reader sees them."""
    sign = re.compile(r"[+/]=|\] = |inplace=True|optimizer\.step|clamp_|table\(")
    return [line.strip() for line in text.splitlines() if sign.search(line)]


def test_the_notebook_cell_shows_the_picture_and_torch_s_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    shown: list[Any] = []
    monkeypatch.setattr(magic, "display", shown.append)
    shell = InteractiveShell.instance()
    try:
        shell.history_manager.enabled = False
        shell.run_cell("import torch")
        for cell in re.findall(r"```python\n(%.*?)```", TEXT, re.DOTALL):
            done = shell.run_cell(cell)
    finally:
        InteractiveShell.clear_instance()
    assert CORE in str(done.error_in_exec)
    assert "`h += 1`" in done.error_in_exec.__notes__[0]
    assert len(shown) == 1


def test_only_the_reader_s_own_steps_are_left_of_a_traceback() -> None:
    lines = [
        "Traceback (most recent call last):",
        '  File "/work/train.py", line 2, in <module>',
        "    loss.backward()",
        '  File "/lib/torch/_tensor.py", line 1, in backward',
        "    torch.autograd.backward(",
        '  File "/lib/torch/graph.py", line 1, in run',
        "    return engine()",
        "RuntimeError: no",
    ]
    assert STEP.match(lines[1])
    assert list(readers_lines(lines, Path("/work"))) == [
        lines[0], '  File "train.py", line 2, in <module>', lines[2], "  …", "RuntimeError: no"
    ]  # fmt: skip
