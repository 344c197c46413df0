"""What a notebook gets: a widget, a still picture, a table; none of them spoils an open question."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
import torch

import seegrad
from seegrad.display import widget
from seegrad.display.ahead import step_ahead
from seegrad.display.widget import Picture, Sentence, show
from seegrad.learn.progress import VARIABLE, read_progress
from seegrad.model.recording import Recording
from seegrad.model.scene import Scene
from seegrad.quiz import ahead
from tests.library.recordings import overwritten_alias

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "progress.json"))
    return


def shown(recording: Recording, **more: Any) -> Picture:
    made = show(recording, **more)
    assert isinstance(made, Picture)
    return made


def bundle(picture: Picture) -> dict[str, Any]:
    return picture._repr_mimebundle_()[0]


def image(picture: Picture) -> str:
    found = re.search(r'src="data:image/svg\+xml,([^"]*)"', bundle(picture)["text/html"])
    assert found
    return unquote(found[1])


def test_a_notebook_gets_widget_picture_and_table() -> None:
    made = bundle(shown(overwritten_alias("data")))
    assert set(made) >= {WIDGET_VIEW, "text/html", "text/plain"}
    assert made["text/html"].startswith('<img alt="Autograd graph, step 8 of 8: loss.backward()')
    assert made["text/plain"].splitlines()[0] == " 1  start     before the first line"


def test_everything_but_the_model_s_number_is_the_same_every_time() -> None:
    first, second = (bundle(shown(overwritten_alias("data"))) for _ in range(2))
    assert first.pop(WIDGET_VIEW) != second.pop(WIDGET_VIEW)
    assert first == second


def test_a_live_recording_is_shown_like_its_recording() -> None:
    a = torch.ones(2, requires_grad=True)
    with seegrad.record() as rec:
        (a * 2).sum().backward()
    assert shown(rec.recording).scene == seegrad.show(rec).scene


@pytest.mark.parametrize(("step", "first"), [(-1, 7), (0, 0), (3, 3), (99, 7), (-99, 0)])
def test_the_first_step_is_one_that_exists(step: int, first: int) -> None:
    assert shown(overwritten_alias("data"), step=step).step == first


def test_an_open_question_is_not_spoilt_by_the_fallbacks() -> None:
    for route, spoiler in (("data", "but the numbers changed"), ("detach", "RuntimeError")):
        picture = shown(overwritten_alias(route), ask="outcome")
        made = bundle(picture)
        assert picture.step == 4
        for text in (made["text/plain"], made["text/html"], image(picture)):
            assert spoiler not in text
            assert "backward  loss" not in text


def test_the_answer_unlocks_the_rest_and_is_kept() -> None:
    picture = shown(overwritten_alias("data"), ask="outcome")
    picture.answer = {"outcome": "raise"}
    assert "but the numbers changed" in image(picture)
    assert "AccumulateGrad" in picture.text()
    (kept,) = read_progress().chapters[""].predictions.values()
    assert kept.answer == {"outcome": "raise"}
    assert kept.misconception == "M05"


@pytest.mark.parametrize("answer", [{"outcome": None}, {"something": "else"}, {"outcome": ["a"]}])
def test_an_odd_answer_breaks_nothing(answer: dict[str, object]) -> None:
    shown(overwritten_alias("data"), ask="outcome").answer = answer


def test_leaves_are_not_told_while_they_are_asked_for() -> None:
    picture = shown(overwritten_alias("data"), ask="leaves")
    assert 'data-veil="leaves"' in image(picture)
    assert "leaf tensor" not in image(picture).split("legend")[0]
    assert "Leaves" not in picture.text()
    picture.answer = {"leaves": ["a"]}
    assert "data-veil" not in image(picture).split("</style>")[1]


def test_counters_are_not_told_while_versions_are_asked_for() -> None:
    for route in ("data", "detach"):
        assert "counter" not in shown(overwritten_alias(route), ask="versions").text()


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("order", "No backward pass ran"),
        ("colour", "of kind 'colour'"),
        (5, "of kind '5'"),
    ],
)
def test_a_question_that_can_t_be_asked_is_a_sentence_above_the_picture(
    kind: Any, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    above: list[object] = []
    monkeypatch.setattr(widget, "display", above.append)
    a = torch.ones(2, requires_grad=True)
    with seegrad.record() as rec:
        a * 2
    picture = show(rec, ask=kind)
    (sentence,) = above
    assert isinstance(sentence, Sentence)
    assert why in repr(sentence)
    assert isinstance(picture, Picture)
    assert picture.scene["question"] is None


def test_a_picture_that_can_t_be_drawn_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> Scene:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(widget, "draw", broken)
    made = show(overwritten_alias("data"))
    assert isinstance(made, Sentence)
    assert repr(made) == "seegrad couldn't draw this graph (ZeroDivisionError: oops). The recording is intact."


def test_markup_in_a_name_stays_inside_the_image() -> None:
    recording = overwritten_alias("data")
    tensors = tuple(replace(ref, name='"><b>') if ref.name == "out" else ref for ref in recording.tensors)
    html = bundle(shown(replace(recording, tensors=tensors)))["text/html"]
    assert html.count("<") == 1
    assert html.count(">") == 1 + html.split('src="')[0].count(">")


@pytest.mark.parametrize("recording", [Recording(), overwritten_alias("data")], ids=["empty", "full"])
def test_every_recording_can_be_shown(recording: Recording) -> None:
    assert bundle(shown(recording))["text/plain"]


def test_what_is_no_recording_gets_a_sentence() -> None:
    assert "this is of type int" in str(seegrad.show(5))  # type: ignore[arg-type]  # a learner's own `rec`


# -- a question before each step


def backward_of_a_product() -> Recording:
    a = torch.tensor(2.0, requires_grad=True)
    b = torch.tensor(3.0, requires_grad=True)
    with seegrad.record() as rec:
        c = a * b
        d = c.exp()
        d.backward()
    return rec.recording


def test_each_answer_opens_the_steps_up_to_the_next_question() -> None:
    recording = backward_of_a_product()
    questions = ahead(recording, helped=True)
    picture = step_ahead(recording, helped=True)
    assert isinstance(picture, Picture)
    for question, after in pairwise(questions):
        assert len(picture.scene["frames"]) == after.until_step + 1, "an answer opens no more"
        assert picture.step == question.until_step
        picture.answer = {question.kind: json.loads(question.truth)}
        assert picture.answer == {}, "the next question is open"
        assert picture.scene["question"]["prompt"] == f"✓ {question.right} {after.prompt}"
    assert len(picture.scene["frames"]) == len(recording.frames)
    last = questions[-1]
    picture.answer = {last.kind: "0"}
    assert picture.answer == {last.kind: "0"}
    kept = read_progress().chapters[""].predictions
    assert {name: tried.right for name, tried in kept.items()} == {
        question.id: question is not last for question in questions
    }
    assert [kept[question.id].prompt for question in questions] == [question.prompt for question in questions]


def test_what_was_wrong_is_told_before_the_next_question() -> None:
    picture = step_ahead(backward_of_a_product(), helped=False)
    assert isinstance(picture, Picture)
    picture.answer = {"next": "MulBackward0"}
    assert picture.scene["question"]["prompt"].startswith(
        "✗ Next runs `ExpBackward0 → d`. `MulBackward0 → c` has to wait"
    )


def test_an_answer_that_is_none_leaves_the_question_open() -> None:
    picture = step_ahead(backward_of_a_product(), helped=True)
    assert isinstance(picture, Picture)
    before = picture.scene
    picture.answer = {"leaves": []}
    assert picture.scene == before


def test_without_a_kernel_the_first_is_asked_and_the_rest_opens_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(widget.WITH_SCENES, "1")
    recording = backward_of_a_product()
    picture = step_ahead(recording, helped=True)
    assert isinstance(picture, Picture)
    scene = Scene.from_json(json.dumps(bundle(picture)[widget.SCENE]))
    assert scene.question is not None
    assert (len(scene.frames), scene.question.id) == (len(recording.frames), ahead(recording, helped=True)[0].id)


def test_where_no_step_can_be_asked_for_there_is_the_picture() -> None:
    a = torch.ones(2, requires_grad=True)
    with seegrad.record() as rec:
        b = a * 2
    assert b is not None
    picture = step_ahead(rec.recording, helped=True)
    assert isinstance(picture, Picture)
    assert not widget.asks(picture)
