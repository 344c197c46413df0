"""Programs of the corpus, all in `make test-all`: torch decides whether it raises, the marked lines who did it."""

from __future__ import annotations

import re

import pytest

import seegrad
from nbjudge_tests.session import some
from tests.data.programs import Program
from tests.library.recorded import recorded_anew, seen, standing

EACH = pytest.mark.parametrize("program", standing().values(), ids=standing().keys())


@EACH
def test_the_first_diagnosis_names_the_marked_lines(program: Program, request: pytest.FixtureRequest) -> None:
    if program.missed:
        request.applymarker(pytest.mark.xfail(reason=program.missed))
    recording = seen(program.name).recording
    loud = [each for each in recording.diagnoses if each.severity != "note"]
    if program.kind is None:
        assert loud == []
        return
    first = recording.diagnoses[0]
    assert (first.kind, first.severity) == (program.kind, program.severity)
    for mark, place in (("culprit", first.culprit), ("victim", first.victim)):
        if program.line(mark) is not None:
            assert place is not None
            assert (place.line, place.file) == (program.line(mark), program.run.__code__.co_filename), mark
    for name in ("node", "tensor", "route"):
        if getattr(program, name) is not None:
            assert getattr(first, name) == getattr(program, name)


@EACH
def test_what_is_said_is_whole_and_torch_raised_only_if_it_did(program: Program) -> None:
    recording, raised = seen(program.name).recording, seen(program.name).raised
    said_to_raise = [each for each in recording.diagnoses if each.raised]
    assert (recording.error is not None) == (raised is not None)
    assert raised is not None or not said_to_raise
    assert raised is None or program.kind is None or said_to_raise
    for each in recording.diagnoses:
        text = each.message("en")
        assert text.endswith(".")
        assert not re.search(r"\{\w*\}", text)
        assert "None" not in re.sub(r"`[^`]*`|and get None|is None|to None", "", text)
        assert each.message("xx") == text


@pytest.mark.slow
@pytest.mark.parametrize("name", some(30, standing()))
def test_recording_twice_gives_the_same_recording(name: str) -> None:
    assert recorded_anew(name).recording.to_json() == seen(name).recording.to_json()


@pytest.mark.slow
@pytest.mark.parametrize("name", some(30, standing()))
def test_a_recording_goes_through_json(name: str) -> None:
    recording = seen(name).recording
    assert seegrad.Recording.from_json(recording.to_json()) == recording
