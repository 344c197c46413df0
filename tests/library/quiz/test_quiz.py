"""Questions on the graph: the truth comes from the Recording, a wrong answer names its misconception."""

from __future__ import annotations

import contextlib
import json
import re
from typing import Any

import pytest
import torch

import seegrad
from seegrad.model.recording import Recording
from seegrad.model.scene import Choice
from seegrad.quiz import KINDS, ask, judge, outcome_of
from seegrad.words.beliefs import MISCONCEPTIONS
from seegrad.words.errors import QuestionError
from tests.library.recordings import overwritten_alias


def fine() -> Recording:
    a = torch.ones(3, requires_grad=True)
    with seegrad.record() as rec:
        b = a * 2
        b.sum().backward()
    return rec.recording


RECORDINGS = {"raise": overwritten_alias("detach"), "silent": overwritten_alias("data"), "fine": fine()}


@pytest.mark.parametrize("truth", RECORDINGS)
@pytest.mark.parametrize("said", ["raise", "silent", "fine"])
def test_an_outcome_is_right_exactly_when_it_is_what_happens(truth: str, said: str) -> None:
    assert outcome_of(RECORDINGS[truth]) == truth
    verdict = judge(ask(RECORDINGS[truth], "outcome"), {"outcome": said})
    assert verdict.right == (said == truth)
    assert (verdict.misconception in MISCONCEPTIONS) == (said != truth and truth != "fine")


def test_no_misconception_is_named_where_none_fits() -> None:
    x, w = torch.ones(2), torch.ones(2, requires_grad=True)
    vector, matrix = torch.ones(2), torch.ones(2, 1, requires_grad=True)
    with seegrad.record() as rec:
        product = vector @ matrix
        product[:] = 0
        loss = product.sum() + (x * w).sum()
        loss.backward()
    named = {kind: {choice.key: choice.misconception for choice in ask(rec.recording, kind).choices} for kind in KINDS}
    assert (named["leaves"]["-x"], named["leaves"]["-w"], named["leaves"]["+loss"]) == ("", "", "M01")
    assert json.loads(ask(rec.recording, "versions").truth)["product"] == 2
    assert (named["versions"]["product=1"], named["versions"]["w=1"]) == ("", "M11")
    assert (named["outcome"]["raise"], named["outcome"]["silent"]) == ("M03", "")
    assert {each.misconception for each in ask(fine(), "saves").choices} == {""}


@pytest.mark.parametrize(("overwritten", "truth"), [("exp", "raise"), ("sin", "fine")])
def test_that_any_write_raises_is_the_belief_of_who_said_raises(overwritten: str, truth: str) -> None:
    """Who expects no error where torch raises has said the opposite of M03."""
    y = torch.tensor([0.0, 1.0], requires_grad=True)
    with contextlib.suppress(RuntimeError), seegrad.record() as rec:
        z = getattr(y, overwritten)()
        z.mul_(2)
        z.sum().backward()
    question = ask(rec.recording, "outcome")
    assert json.loads(question.truth) == truth
    verdicts = {said: judge(question, {"outcome": said}) for said in ("raise", "silent", "fine")}
    named = {said: verdict.misconception for said, verdict in verdicts.items()}
    assert named == {"raise": "M03" if truth == "fine" else "", "silent": "", "fine": ""}
    told = ["a write that moves it is noticed" in verdict.message for verdict in verdicts.values()]
    assert told == ([False, True, True] if truth == "raise" else [False, False, False])


def test_a_detach_that_nobody_writes_through_is_no_belief_about_it() -> None:
    a = torch.ones(3, requires_grad=True)
    with contextlib.suppress(RuntimeError), seegrad.record() as rec:
        (a * 2).detach().sum()
        loss = (a * a).sum()
        loss.backward()
        loss.backward()
    question = ask(rec.recording, "outcome")
    assert json.loads(question.truth) == "raise"
    assert {choice.misconception for choice in question.choices} == {""}


@pytest.mark.parametrize(("function", "truth"), [(lambda a: a * a, "raise"), (lambda a: a + 2, "fine")])
def test_that_backward_deletes_the_graph_is_the_belief_of_who_said_raises(function: Any, truth: str) -> None:
    a = torch.ones(3, requires_grad=True)
    with contextlib.suppress(RuntimeError), seegrad.record() as rec:
        loss = function(a).sum()
        loss.backward()
        loss.backward()
    question = ask(rec.recording, "outcome")
    assert json.loads(question.truth) == truth
    named = {choice.key: choice.misconception for choice in question.choices}
    assert named == {"raise": "M10" if truth == "fine" else "", "silent": "", "fine": ""}
    assert ("retain_graph=True" in judge(question, {"outcome": "silent"}).message) == (truth == "raise")


@pytest.mark.parametrize("cut", [True, False])
def test_only_a_leaf_whose_grad_stays_empty_is_told_to_get_none(cut: bool) -> None:
    a = torch.ones(3, requires_grad=True)
    w = torch.ones(3, requires_grad=True)
    with seegrad.record() as rec:
        h = (a * 2).detach() if cut else a * 2
        if not cut:
            h.zero_()
        (h * w).sum().backward()
    assert (a.grad is None) == cut
    assert ("none comes to `a`" in ask(rec.recording, "outcome").right) == cut


def test_no_step_of_backward_is_shown_before_the_answer() -> None:
    for recording in RECORDINGS.values():
        question = ask(recording, "outcome")
        shown = recording.frames[: question.until_step + 1]
        assert shown[-1].phase == "forward"
        assert not {frame.phase for frame in shown} & {"backward", "error"}


@pytest.mark.parametrize(("route", "out"), [("detach", 1), ("data", 0)])
def test_versions_are_asked_before_the_first_write(route: str, out: int) -> None:
    recording = overwritten_alias(route)
    question = ask(recording, "versions", tensors=("out", "c"))
    assert recording.frames[question.until_step].index < recording.writes[0].frame
    assert json.loads(question.truth) == {"out": out, "c": 1}
    assert judge(question, {"versions": {"out": out, "c": 1}}).right
    wrong = judge(question, {"versions": {"out": 1 - out, "c": 1}})
    assert wrong.misconception == "M05"
    assert MISCONCEPTIONS["M05"] in wrong.message


@pytest.mark.parametrize(
    ("backward", "after"), [(True, "the last line before backward"), (False, "the last line that runs")]
)
def test_versions_are_asked_of_a_line_that_is_there(backward: bool, after: str) -> None:
    with seegrad.record() as rec:
        a = torch.ones(2, requires_grad=True)
        b = a * 2
        b += 1
        if backward:
            b.sum().backward()
    assert f" after {after}?" in ask(rec.recording, "versions").prompt


def test_versions_are_torch_s_own() -> None:
    a = torch.ones(3, requires_grad=True)
    with seegrad.record() as rec:
        out = a.sigmoid()
        c = out.detach()
        d = out.data
        d.add_(1)
        c.add_(1)
    truth = json.loads(ask(rec.recording, "versions").truth)
    assert truth == {"a": a._version, "out": out._version, "c": c._version, "d": d._version}


def test_leaves_are_torch_s_own() -> None:
    a = torch.ones(3, requires_grad=True)
    b = torch.ones(3)
    with seegrad.record() as rec:
        moved = a * 2
        summed = moved + b
        cut = summed.detach()
        (summed + cut).sum()
    question = ask(rec.recording, "leaves")
    names = {"a": a, "b": b, "moved": moved, "summed": summed, "cut": cut}
    assert sorted(json.loads(question.truth)) == sorted(name for name, tensor in names.items() if tensor.is_leaf)
    assert judge(question, {"leaves": ["cut", "b", "a"]}).right
    assert judge(question, {"leaves": ["a", "b", "cut", "moved"]}).misconception == "M01"
    assert not judge(question, {"leaves": ["a"]}).right


def test_the_culprit_is_the_line_that_wrote() -> None:
    for route in ("detach", "data"):
        question = ask(overwritten_alias(route), "culprit")
        assert judge(question, {"culprit": 3}).right
        assert dict(question.targets)["w0"] == "3"
    stopped = judge(ask(overwritten_alias("detach"), "culprit"), {"culprit": 5})
    assert stopped.misconception == "M04"


def test_the_line_that_builds_a_module_in_place_is_as_guilty_as_the_one_that_calls_it() -> None:
    a = torch.ones(3, requires_grad=True)
    with contextlib.suppress(RuntimeError), seegrad.record() as rec:
        activation = torch.nn.ReLU(inplace=True)
        out = a.tanh()
        kept = activation(out)
        kept.sum().backward()
    question = ask(rec.recording, "culprit")
    built, made, called, stopped = (line for line, _ in rec.recording.code)
    assert [judge(question, {"culprit": line}).right for line in (built, made, called, stopped)] == [
        True,
        False,
        True,
        False,
    ]
    assert judge(question, {"culprit": stopped}).misconception == "M04"
    assert f"Line {called} overwrote what backward needs, by what line {built} built" in question.right


def test_where_nothing_went_wrong_the_same_is_asked_and_no_line_is_the_answer() -> None:
    question, guilty = ask(fine(), "culprit"), ask(overwritten_alias("data"), "culprit")
    assert question.prompt == guilty.prompt
    assert question.choices[-1] == guilty.choices[-1] == Choice("0", "no line did any damage")
    assert judge(question, {"culprit": 0}).right
    assert not judge(question, {"culprit": 2}).right
    assert not judge(guilty, {"culprit": 0}).right


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_recording_is_nothing_to_ask_about(kind: str) -> None:
    with pytest.raises(QuestionError, match="Nothing was recorded"):
        ask(Recording(), kind)


def test_an_unknown_kind_lists_the_known_ones() -> None:
    with pytest.raises(QuestionError, match="culprit, gradient, keeps, leaves, next, order, outcome, saves, versions"):
        ask(fine(), "colour")


def test_an_unknown_tensor_is_named() -> None:
    with pytest.raises(QuestionError, match="nobody"):
        ask(fine(), "versions", tensors=("nobody",))


@pytest.mark.parametrize("answer", [{}, {"leaves": []}])
def test_an_answer_to_another_question_is_refused(answer: dict[str, object]) -> None:
    with pytest.raises(QuestionError, match="Expected an answer"):
        judge(ask(fine(), "outcome"), answer)


@pytest.mark.parametrize("value", [None, 3, "x", ["a", "b"], {"a": "1"}])
def test_a_value_of_the_wrong_type_is_a_wrong_answer(value: object) -> None:
    for kind in ("outcome", "versions", "leaves"):
        assert not judge(ask(fine(), kind), {kind: value}).right


def test_an_id_names_the_question_and_its_code_not_the_run() -> None:
    assert ask(fine(), "outcome").id == ask(fine(), "outcome").id
    assert ask(fine(), "outcome").id != ask(overwritten_alias("data"), "outcome").id


def test_a_wrong_pick_is_told_what_is_true_of_just_it() -> None:
    a, b = torch.ones(2, requires_grad=True), torch.ones(2)
    with seegrad.record() as rec:
        h = a * b
        b.add_(1)
        b.mul_(2)
        h.sum()
    leaves = judge(ask(rec.recording, "leaves"), {"leaves": ["a", "h"]}).message
    assert "`MulBackward0` made `h`." in leaves
    assert leaves.startswith("The leaves are `a`, `b`: they have no grad_fn.")
    assert "No Function" not in leaves, "that is said already, of all leaves at once"
    versions = judge(ask(rec.recording, "versions", tensors=("a", "b")), {"versions": {"a": 1, "b": 0}}).message
    assert "No write hits `a`." in versions
    assert re.search(r"2 writes move the version of `b`: on lines \d+, \d+\.", versions)
    with seegrad.record() as rec:
        h = a * b
        h.sum().backward()
    kept = judge(ask(rec.recording, "keeps"), {"keeps": ["b", "h"]}).message
    assert "`a` is a leaf that needs a gradient." in kept
    assert "`b` asks for no gradient." in kept
    assert "`h` isn't a leaf, and nobody called `h.retain_grad()`." in kept
    assert kept.count("retain_grad keeps") <= 1, "what several picks show is said once"


def test_a_tensor_may_be_asked_for_by_the_last_part_of_its_name_where_one_has_it() -> None:
    with seegrad.record() as rec:
        table = torch.nn.Embedding(3, 2)
        weight = table.weight
        table(torch.tensor([1]))
    assert json.loads(ask(rec.recording, "versions", tensors=("weight",)).truth) == {"table.weight": weight._version}
    with seegrad.record() as rec:
        first, second = torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)
        second(first(torch.ones(1)))
    with pytest.raises(QuestionError, match=r"named weight\."):
        ask(rec.recording, "versions", tensors=("weight",))
