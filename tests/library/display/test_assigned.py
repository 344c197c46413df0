"""An exercise's picture knows nothing that its learner is to find out; a check that passes says why, and no more."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import seegrad
from seegrad.display.assigned import passed
from seegrad.words.errors import QuestionError

PROGRAM = """
h = x * w
g = h.sigmoid()
top = g[:2]
top /= 2
seen = g.detach()
seen.zero_()
print(g)
for _ in range(2):
    loss = (g * g).sum()
    loss.backward()
    w.grad.zero_()
"""
SETUP = "w = torch.ones(3, requires_grad=True)\nx = torch.rand(3)"
TELLS = re.compile(
    r"\bsave[sd]?\b|\bversions?\b|\.grad\b|AccumulateGrad|overwritten in place|same bytes|one storage", re.I
)


def picked(program: str = PROGRAM, **more: Any) -> Any:
    entries = {
        "culprit": "line",
        "holds": range(3),
        "whose": ["g", "h"],
        "x": ["yes", "no"],
        "none": "line 1 3 or none",
    }
    return seegrad.pick("found", entries, program, SETUP, **more)


def test_the_program_runs_up_to_its_first_backward_and_touches_nobody(capsys: pytest.CaptureFixture[str]) -> None:
    before = torch.get_rng_state()
    scene = picked()._scene
    assert torch.equal(torch.get_rng_state(), before)
    assert capsys.readouterr().out == "", "what it prints may tell"
    assert {frame.phase for frame in scene.frames} == {"start", "forward"}
    assert scene.frames[-1].title == "loss = (g * g).sum()"
    assert [text for _, text in scene.code] == PROGRAM.strip("\n").splitlines(), "all of it can be read"


def test_a_backward_of_a_product_is_reached_behind_the_product() -> None:
    scene = picked("(x * w).backward(torch.ones(3))")._scene
    assert [item.label for item in scene.items if item.kind == "node"] == ["MulBackward0"]
    with pytest.raises(NameError):
        picked("y = missing")


def test_nothing_in_the_widget_tells_what_is_saved_written_or_found() -> None:
    picture = picked()
    scene = picture.scene
    told = {**scene, "code": [], "frames": [{**each, "title": ""} for each in scene["frames"]]}
    words = {**told, "question": {**scene["question"], "veil": ""}}  # which names what it hides
    assert not TELLS.search(json.dumps(words))
    assert not TELLS.search(re.sub("<style.*?</style>", "", picture.svg(), flags=re.DOTALL))
    assert scene["question"]["truth"] == "null"
    assert {each["text"] + each["diagnosis"] for each in scene["frames"]} == {""}
    assert not [item for item in scene["items"] if item["rows"]]


def test_whether_a_write_does_harm_changes_nothing_that_is_told() -> None:
    """A sigmoid needs its result, not its input: one of these writes raises in backward, the other doesn't."""
    harmless, harmful = (
        picked(f"h = x * w\ns = h.sigmoid()\nl = s.sum()\n{line}\nl.backward()") for line in ("h.mul_(1)", "s.mul_(1)")
    )
    for part in ("phase", "text", "severity", "diagnosis"):
        assert [getattr(each, part) for each in harmless._scene.frames] == [
            getattr(each, part) for each in harmful._scene.frames
        ]
    assert harmless._scene.question.choices == harmful._scene.question.choices


def test_a_write_without_a_function_is_shown_nowhere() -> None:
    """Else the one that hits a saved tensor would stand out, or be missed among others."""
    drawn = [
        picked(f"h = x * w\nl = h.sum()\nseen = h.detach()\n{line}l.backward()").svg()
        for line in ("", "seen.zero_()\n")
    ]
    shown = [re.findall(r'class="[^"]*\bnu\b[^"]*"[^>]*>([^<]*)', svg) for svg in drawn]
    assert shown[0] == shown[1] != []


def test_what_may_be_clicked() -> None:
    question = picked(last=3)._scene.question
    labels = dict(question.targets)
    assert labels["line:4"] == "line 4", "a line that doesn't run may be the answer"
    assert {"g", "h", "x"} <= set(labels.values())
    assert "top" not in labels.values(), "no entry and no value is called so"
    assert [choice.label for choice in question.choices if choice.key.startswith("none\t")] == [
        "no line",
        "line 1",
        "line 3",
    ]
    assert "w" not in labels.values()


def test_it_judges_nothing_and_keeps_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEEGRAD_PROGRESS", str(tmp_path / "kept.json"))
    picture = picked()
    picture.answer = {"entries": {"culprit": 4}}
    assert not (tmp_path / "kept.json").exists()
    assert picture._scene.question.right == picture._scene.question.wrong == ""


def test_what_can_t_be_asked_is_said() -> None:
    with pytest.raises(QuestionError, match="line or none"):
        seegrad.pick("found", {"culprit": "lines"}, PROGRAM, SETUP)
    with pytest.raises(QuestionError, match="nothing to ask"):
        seegrad.pick("found", {"culprit": "line"}, "")


FORM = """
from seegrad.check import expect
expect("type(found).__name__", type(found).__name__).equals("dict")
expect(f"found[{1!r}]", 7).one_of(range(9))
"""
ORDER = 'from seegrad.check import expect\nexpect("steps", "BA").letters("ABC")'
VALUE = """
from seegrad.check import expect
expect("f(x)", x, x=x).close(1.0)
expect("g(x)", 1).of_type(int)
expect("g(x)", x).equals(1)
"""


@pytest.mark.parametrize(
    ("cell", "cell_id", "error", "said"),
    [
        (FORM, "predict_test", None, "each part of your answer is one that may be chosen."),
        (ORDER, "order_test", None, "each part of your answer is one that may be chosen."),
        (
            VALUE,
            "write_test",
            None,
            "`f(x)`, `g(x)` came out as expected. Grading asks more than this cell, with other numbers too.",
        ),
        (VALUE, "write_test", AssertionError("no"), None),
        (VALUE, "5e80790afba2", None, None),
        ("x = 1", "write_test", None, None),
        ("from seegrad.check import call", "write_test", None, None),
    ],
)
def test_a_check_that_passes_says_why(
    cell: str, cell_id: str, error: Exception | None, said: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[dict[str, str]] = []
    monkeypatch.setattr(passed, "display", lambda data, **_more: shown.append(data))
    monkeypatch.setenv("JPY_SESSION_NAME", "/home/ada/01_x.ipynb")
    info = SimpleNamespace(raw_cell=cell, cell_id=cell_id)
    passed.say_passed(SimpleNamespace(info=info, error_in_exec=error, error_before_exec=None, result=None))
    head = "• Answered: " if cell in (FORM, ORDER) else "✓ Passed: "  # green is only what was compared
    assert [each["text/plain"][: len(head)] for each in shown] == ([head] if said else [])
    assert [passed.GREEN in each["text/html"] for each in shown] == ([head == "✓ Passed: "] if said else [])
    assert said is None or said.replace("`", "") in shown[0]["text/plain"]


def test_where_no_notebook_is_open_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a grader nor Validate nor a test of the course has an output more."""
    monkeypatch.setattr(passed, "display", lambda *_given, **_more: pytest.fail("something was shown"))
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    info = SimpleNamespace(raw_cell=FORM, cell_id="predict_test")
    passed.say_passed(SimpleNamespace(info=info, error_in_exec=None, error_before_exec=None, result=None))
