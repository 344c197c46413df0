"""The measure of journeys: which calls count, what a hop is, and that both checkouts' names are known."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks import journeys
from benchmarks.journeys import Leg

ROOT = Path(__file__).parents[2]


@pytest.fixture
def ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "one_end.py").write_text(
        "import other_end\n\ndef go():\n    other_end.there()\n    other_end.there()\n"
    )
    (tmp_path / "other_end.py").write_text("class Body:\n    pass\n\ndef there():\n    return len([])\n")
    return tmp_path


def test_functions_of_ours_count_and_a_hop_is_a_change_of_file(ours: Path) -> None:
    leg = Leg("a way", (f"{ours}/",))
    with leg:
        import one_end  # type: ignore[import-not-found]  # written above; the bodies of modules don't count

        one_end.go()
    one_end.go()
    assert leg.row() == ("a way", "2", "2", "3", "1")
    assert sys.getprofile() is None


def test_the_way_to_the_picture_is_measured() -> None:
    legs = journeys.library(ROOT)
    first, again = legs[0], legs[1]
    assert 3 < len(again.files) <= 10  # one call of torch is followed in ten files
    looked_up = {Path(file).name for file in first.files - again.files}
    assert looked_up <= {"derivatives.py"}  # where a process meets the op for the first time
    assert len(again.steps) < len(first.steps)
    assert all(leg.steps for leg in legs)
    assert len(journeys.whole(legs).files) >= max(len(leg.files) for leg in legs)


@pytest.mark.whole
def test_a_submission_is_followed_in_thirty_files() -> None:
    (_, way, _), loaded = journeys.grader(ROOT)
    assert 10 < len(way.files) <= 30
    assert set(loaded) == {"the student's process", "the judge"}


def test_the_graders_cells_say_how_many_files_their_process_has() -> None:
    cells = [
        {"metadata": {"nbgrader": {"grade_id": "area"}}, "outputs": [{"text": ["loaded: 40\n"]}]},
        {"metadata": {"nbgrader": {"grade_id": "area_test"}}, "outputs": [{"evalue": "AssertionError: loaded: 41"}]},
        {"metadata": {}, "outputs": [{"text": "something else"}]},
    ]
    assert dict(journeys.told({"cells": cells})) == {"the student's process": 40, "the judge": 41}
    assert journeys.parts(ROOT)[1].NAME == "small"
