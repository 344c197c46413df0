"""Two recordings beside each other: what one alone has, and where numbers, versions and gradients part."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import seegrad
from nbjudge_tests.session import some
from seegrad.diagnose.difference import compare
from seegrad.diagnose.history.same_steps import same_step
from seegrad.display.widget import Picture
from seegrad.model.recording import Diagnosis, Recording
from seegrad.picture import draw
from seegrad.words.errors import RecordingError
from tests.library.recorded import seen, standing

Change = Callable[[torch.Tensor], torch.Tensor]


def recorded(change: Change, start: float = 1.0) -> Recording:
    w = torch.tensor([start, 2.0], requires_grad=True)
    with seegrad.record() as rec:
        out = (w * 3).sigmoid()
        out = change(out)
        (out * out).sum().backward()
    return rec.recording


def nothing(out: torch.Tensor) -> torch.Tensor:
    return out


def corrupted(out: torch.Tensor) -> torch.Tensor:
    out.data.mul_(2)
    return out


def counted(out: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        out.mul_(1)
        out.mul_(1)
    return out


def differences(recording: Recording) -> list[Diagnosis]:
    """They stand behind what was found."""
    return [each for each in recording.diagnoses if each.severity == "differs"]


def kinds(recording: Recording) -> list[tuple[str, str | None]]:
    return [(each.kind, each.culprit.code if each.culprit else None) for each in differences(recording)]


def test_a_write_that_one_alone_has_is_named_and_where_the_gradient_parts() -> None:
    right, wrong = compare(recorded(nothing), recorded(corrupted))
    gradients = [("other_gradient", "out = (w * 3).sigmoid()"), ("other_gradient", None)]
    assert kinds(right) == gradients
    assert kinds(wrong) == [("only_here", "out.data.mul_(2)"), *gradients]


def test_numbers_are_told_where_they_come_from_and_not_where_they_go_on() -> None:
    first, _ = compare(recorded(nothing), recorded(nothing, start=5.0))
    assert [each.message() for each in first.diagnoses if each.kind == "other_numbers"] == [
        "`w` is [1, 2] at first, and [5, 2] in the other recording."
    ]


def test_a_step_that_is_given_the_same_and_makes_something_else_is_told() -> None:
    torch.manual_seed(0)
    drawn = [recorded(lambda out: out * torch.rand(2)) for _ in range(2)]
    first, _ = compare(*drawn)
    told = [each for each in first.diagnoses if each.kind == "other_numbers"]
    assert [each.message().split(" made ")[0] for each in told] == [
        f"`rand` on line {told[0].culprit.line if told[0].culprit else 0} "
        "(`drawn = [recorded(lambda out: out * torch.rand(2)) for _ in…`)"
    ]
    assert told[0].message().endswith("If it draws numbers, seed both runs alike.")


def test_other_versions_are_told() -> None:
    def twice(how: Change) -> Recording:
        a = torch.ones(2, requires_grad=True)
        with seegrad.record() as rec:
            b = a * 1
            how(b)
            (b * b).sum().backward()
        return rec.recording

    first, _ = compare(twice(nothing), twice(counted))
    (told,) = [each.message() for each in first.diagnoses if each.kind == "other_versions"]
    assert "saved `other` v0, `self` v0, and `other` v2, `self` v2 in the other recording" in told


@pytest.mark.parametrize("name", some(25, sorted(standing())))
def test_a_program_does_not_differ_from_itself(name: str) -> None:
    recording = seen(name).recording
    assert [differences(each) for each in compare(recording, recording)] == [[], []]


@given(st.lists(st.sampled_from(["exp", "sin", "tanh"]), max_size=6), st.integers(0, 6))
def test_the_one_step_that_was_put_in_is_the_one_that_is_named(names: list[str], place: int) -> None:
    def run(ops: list[str]) -> Recording:
        with seegrad.record() as rec:
            x = torch.ones(2, requires_grad=True)
            for op in ops:
                x = getattr(torch, op)(x)
        return rec.recording

    first, second = compare(run(names), run([*names[:place], "sigmoid", *names[place:]]))
    assert [each.kind for each in first.diagnoses if each.kind == "only_here"] == []
    assert [each.message().split(" on ")[0] for each in second.diagnoses if each.kind == "only_here"] == ["`sigmoid`"]


def test_a_compiled_model_is_compared_with_the_plain_one(monkeypatch: pytest.MonkeyPatch) -> None:
    checks = torch.distributions.Distribution
    monkeypatch.setattr(checks, "_validate_args", checks._validate_args)  # torch.compile switches it off for good
    torch.manual_seed(0)
    model = torch.nn.Linear(2, 2)
    recordings = []
    for module in (model, torch.compile(model, backend="eager")):
        model.zero_grad()
        with seegrad.record() as rec:
            module(torch.ones(1, 2)).sum().backward()
        recordings.append(rec.recording)
    assert "The gradient of" not in str(seegrad.diff(*recordings))


def test_both_pictures_and_the_notes_are_shown() -> None:
    right, wrong = recorded(nothing), recorded(corrupted)
    found = seegrad.diff(right, wrong)
    said, *pictures = found.children
    assert "second: <code>data</code> on line" in said.value
    assert [isinstance(each, Picture) for each in pictures] == [True, True]
    shown = found._repr_mimebundle_()
    assert shown["text/plain"] == str(found)
    assert shown["text/html"].count("<img") == 2
    assert "only here" in pictures[1].svg()
    assert str(found).splitlines()[-1].startswith("second: `data` on line")


def test_what_is_no_recording_is_refused() -> None:
    with pytest.raises(RecordingError, match="is of type int"):
        seegrad.diff(Recording(), 3)  # type: ignore[arg-type]  # that is what is tried


def test_a_recording_opens_again_from_its_file(tmp_path: Path) -> None:
    with seegrad.record() as rec:
        odd = torch.ones(2, requires_grad=True)
        odd.sum().backward()
    assert seegrad.load(rec.save(tmp_path / "a.json")) == rec.recording
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\r\n")
    for file, said in (("picture.png", "isn't text"), ("notes.json", "isn't JSON")):
        (tmp_path / "notes.json").write_text("no")
        with pytest.raises(RecordingError, match=said):
            seegrad.load(tmp_path / file)


SETUP = "import torch\ntorch.manual_seed(0)\nw = torch.ones(2, requires_grad=True)\n"
LOOP = """for step in range({passes}):
    g = (w * torch.rand(2)).sigmoid()
    {line}
    loss = (g * torch.rand(9)[0]).sum()
    w.grad = None
    loss.backward()
"""


def trained(line: str, passes: int, last: str = "") -> Recording:
    """A loop whose last steps are those of its every pass, in which a line is another."""
    text = SETUP + LOOP.format(passes=passes, line=line) + last
    rec = seegrad.record(code=("loop.py", 1, text))
    with contextlib.suppress(RuntimeError), rec:
        exec(compile(text, "loop.py", "exec"), {"__name__": "__main__"})  # noqa: S102  # the program above
    return rec.recording


@pytest.mark.parametrize("passes", [5, 200])
def test_a_run_that_an_error_has_ended_is_compared_up_to_there(passes: int) -> None:
    """A pass with the same pass: of the first, all that ran before the error is the same but for one line."""
    broken, mended = trained("g *= 2", passes), trained("g = g * 2", passes)
    assert bool(mended.laps) == (passes > 100), "the first passes of a long loop are forgotten"
    first, second = compare(broken, mended)
    assert [each.severity for each in first.diagnoses if each not in differences(first)] == ["error"], "it's kept"
    alone = [] if mended.laps else ["only_here"]
    assert sorted({kind for kind, _ in kinds(second)}) == sorted([*alone, "goes_on"])
    assert {kind for kind, _ in kinds(first)} == set(alone)
    told = str(seegrad.diff(broken, mended)).splitlines()
    assert told[0] == "second: The other recording ended at the error on line 9; this one went on."
    assert not any("gradient" in each or "steps after it" in each for each in told)


def test_that_an_error_has_ended_one_is_told_where_nothing_follows_it() -> None:
    (_, second) = compare(trained("g *= 2", 1), trained("g = g * 2", 1))
    assert "goes_on" in [kind for kind, _ in kinds(second)]
    (_, same) = compare(trained("g *= 2", 1), trained("g *= 2", 1))
    assert kinds(same) == [], "both ended there"


def test_gradients_are_compared_call_by_call() -> None:
    """Five passes and six of one program: the last gradients are others, those of the same pass are the same."""
    assert not any("gradient" in each.message() for each in differences(compare(trained("", 5), trained("", 6))[0]))
    first, _ = compare(trained("g = g * (1 + (step > 2))", 5), trained("g = g * (1 + (step > 9))", 5))
    assert "After backward call 4, the gradient of `w` is [" in [*differences(first)][-1].message()


def test_a_line_whose_numbers_are_others_in_each_pass_is_told_once() -> None:
    """Nor is it said that it was given the same, where nobody knows what it was given."""
    first, _ = compare(trained("g = g * 2", 3), trained("g = g * 3", 3))
    made = [each.message() for each in differences(first) if each.kind == "other_numbers"]
    assert made
    assert len(made) == len({each.split(" made ")[0] for each in made})


def test_a_difference_is_none_of_the_findings() -> None:
    """What the player counts as found are the steps with a severity."""
    first, second = (draw(each) for each in compare(recorded(nothing), recorded(corrupted)))
    assert not any(frame.severity for frame in first.frames)
    assert [frame.severity for frame in second.frames if frame.severity] == ["wrong"]
    assert any("Difference: `data` on line" in frame.text for frame in second.frames)
    assert "no problem was found" in first.frames[-1].diagnosis
    assert not any("Difference" in frame.diagnosis for frame in (*first.frames, *second.frames))


def test_the_step_at_which_an_error_would_have_come() -> None:
    """Oracle: the Node that raised runs there, in the same backward call."""
    broken, mended = trained("g *= 2", 5), trained("g = g * 2", 5)
    (found,) = broken.diagnoses
    step = same_step(broken, mended, found.frame or 0)
    assert step
    frame = mended.frames[step]
    assert (frame.backward, mended.nodes[frame.running or 0].name) == (0, "SigmoidBackward0")
    assert same_step(broken, trained("g = g * 2", 200), found.frame or 0) is None, "that pass is forgotten"


def of_many_numbers(change: float) -> Recording:
    """10×10 numbers, one of which is another, and a loss of them all."""
    w = torch.linspace(0, 1, 100).reshape(10, 10).requires_grad_()
    mask = torch.zeros(10, 10, dtype=torch.bool)
    mask[3, 7] = True
    with seegrad.record(values=True) as rec:
        out = w.masked_fill(mask, change)
        (out * out).sum().backward()
    return rec.recording


def test_numbers_of_larger_tensors_are_compared_by_what_values_keeps() -> None:
    """Oracle: the one number that was changed, at its own place."""
    first, second = compare(of_many_numbers(1.0), of_many_numbers(5.0))
    (made,) = [each for each in first.diagnoses if each.kind == "other_numbers"]
    assert "made 1 at [3, 7], and 5 at [3, 7] in the other recording" in made.message()
    (came,) = [each for each in second.diagnoses if each.kind == "other_gradient"]
    assert "The gradient of `out`" in came.message()
    assert "10 at [3, 7], and 2 at [3, 7] in the other recording" in came.message()
    same = compare(of_many_numbers(2.0), of_many_numbers(2.0))
    assert not any(each.diagnoses for each in same)


def test_where_no_corner_is_kept_norms_are_told() -> None:
    def without_corners(recording: Recording) -> Recording:
        frames = tuple(
            replace(
                frame,
                summaries=tuple(
                    (tensor, known and replace(known, kept=(), numbers="")) for tensor, known in frame.summaries
                ),
            )
            for frame in recording.frames
        )
        return replace(recording, frames=frames)

    first, _ = compare(without_corners(of_many_numbers(1.0)), without_corners(of_many_numbers(5.0)))
    (made,) = [each for each in first.diagnoses if each.kind == "other_numbers"]
    assert "made numbers of norm 5.86, 0 to 1, and numbers of norm 7.64, 0 to 5 in the other" in made.message()
