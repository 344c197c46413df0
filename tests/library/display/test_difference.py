"""Two recordings beside each other: what one alone has, and where numbers, versions and gradients part."""

from __future__ import annotations

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
from seegrad.display.widget import Picture
from seegrad.model.recording import Recording
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


def kinds(recording: Recording) -> list[tuple[str, str | None]]:
    return [(each.kind, each.culprit.code if each.culprit else None) for each in recording.diagnoses]


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
    assert [each.diagnoses for each in compare(recording, recording)] == [(), ()]


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
    assert "second: `data` on line" in said.value
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
