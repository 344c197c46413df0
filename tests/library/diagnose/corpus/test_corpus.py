"""How often the first Diagnosis names the right lines, over the corpus: broken programs and legal ones."""

from __future__ import annotations

import re
from collections import Counter

import pytest

import seegrad
from seegrad.diagnose.training.steps import leaf_of
from tests.data.programs import Program, programs
from tests.halves import HALVES, half_of
from tests.library.recorded import seen, standing

LEAST_BROKEN, LEAST_LEGAL = 80, 40
LEAST_CULPRITS, LEAST_VICTIMS = 0.98, 0.95


@pytest.fixture(scope="module", params=HALVES)
def recordings(request: pytest.FixtureRequest) -> dict[str, seegrad.Recording]:
    return {name: seen(name).recording for name in standing() if half_of(name) == request.param}


def broken() -> list[Program]:
    return [program for program in programs().values() if program.kind is not None]


def legal() -> list[Program]:
    return [program for program in programs().values() if program.kind is None]


def rate(recordings: dict[str, seegrad.Recording], mark: str) -> tuple[float, str]:
    """Share of right lines among those marked, and what was missed, kind by kind."""
    marked, missed = Counter[str](), dict[str, list[str]]()
    for program in broken():
        line = program.line(mark)
        if line is None or program.kind is None or program.name not in recordings:
            continue
        marked[program.kind] += 1
        first = next(iter(recordings[program.name].diagnoses), None)
        place = getattr(first, mark) if first is not None else None
        if first is None or place is None or (first.kind, place.line) != (program.kind, line):
            missed.setdefault(program.kind, []).append(program.name)
    table = "\n".join(f"{kind:26} {marked[kind]:4} {len(missed.get(kind, []))} {missed.get(kind)}" for kind in marked)
    return 1 - sum(map(len, missed.values())) / marked.total(), f"{mark}s: kind, marked, missed\n{table}"


def test_the_corpus_is_large_enough() -> None:
    assert len(broken()) >= LEAST_BROKEN
    assert len(legal()) >= LEAST_LEGAL
    assert len({program.kind for program in broken()}) >= 12


@pytest.mark.parametrize(("mark", "least"), [("culprit", LEAST_CULPRITS), ("victim", LEAST_VICTIMS)])
def test_the_marked_lines_are_found(recordings: dict[str, seegrad.Recording], mark: str, least: float) -> None:
    share, table = rate(recordings, mark)
    assert share >= least, table


def test_a_legal_program_gets_no_alarm(recordings: dict[str, seegrad.Recording]) -> None:
    alarms = {
        program.name: [each.message() for each in recordings[program.name].diagnoses if each.severity != "note"]
        for program in legal()
        if program.name in recordings
    }
    assert {name: said for name, said in alarms.items() if said} == {}


def test_a_cut_is_noted_only_for_a_leaf_without_any_gradient(recordings: dict[str, seegrad.Recording]) -> None:
    """Seen from outside: a leaf that such a note speaks of is never given a gradient in that Recording.

    Of what steps in vain, `autograd.grad` may have been asked for one: no step hears of that. Where a step's own loss
    was cut off, that call gave it none.
    """
    for name, recording in recordings.items():
        given = {gradient.tensor for frame in recording.frames for gradient in frame.gradients}
        came = {recording.nodes[frame.running].leaf for frame in recording.frames if frame.running is not None}
        for each in recording.diagnoses:
            if each.kind == "graph_cut" and each.severity == "note" and dict(each.arguments)["cause"] != "overwritten":
                how = dict(each.arguments).get("how")
                if how == "severed" and each.frame is not None:
                    call = recording.frames[each.frame].backward
                    given_then = {leaf_of(recording, frame) for frame in recording.frames if frame.backward == call}
                    assert each.tensor_id not in given_then, name
                else:
                    assert each.tensor_id not in (came if how == "in vain" else given), name


def test_every_kind_has_its_own_words(recordings: dict[str, seegrad.Recording]) -> None:
    """Nothing is left empty, in any language, and no sentence says the same twice."""
    for recording in recordings.values():
        for each in recording.diagnoses:
            for lang in ("en", "zh_CN"):
                said = each.message(lang)
                assert said.strip()
                assert not re.search(r"\{\w*\}", said)
            assert len(each.message("en").split(". ")) >= 2, each.message("en")
