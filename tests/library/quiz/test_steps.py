"""The next step of backward, asked before it opens: the truth is torch's own, help offers less to choose from."""

from __future__ import annotations

import json
from functools import cache, partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import seegrad
from seegrad.model.recording import Recording
from seegrad.model.scene import Question
from seegrad.quiz import ahead, ask, judge
from seegrad.words.errors import QuestionError


def seen(came: dict[str, torch.Tensor], name: str, gradient: torch.Tensor) -> None:
    came[name] = gradient


def heard(ran: list[str], name: str, *_: object) -> None:
    ran.append(name)


@cache
def two_ways() -> tuple[Recording, list[str], dict[str, torch.Tensor]]:
    """Two Functions that are ready at once; the order in which torch called hooks on each; the gradients that came."""
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    unused = torch.ones(2, requires_grad=True)
    ran: list[str] = []
    came: dict[str, torch.Tensor] = {}
    with seegrad.record() as rec:
        early = x * 3
        late = x.exp()
        aside = unused.sin()
        both = early * late
        loss = both.sum()
        for name, tensor in {"early": early, "late": late, "both": both, "loss": loss}.items():
            assert tensor.grad_fn is not None
            tensor.register_hook(partial(seen, came, name))
            tensor.grad_fn.register_hook(partial(heard, ran, tensor.grad_fn.name()))
        loss.backward()
    del aside
    assert x.grad is not None
    return rec.recording, ran, came | {"x": x.grad}


def asked_first(questions: tuple[Question, ...], kind: str) -> Question:
    return next(question for question in questions if question.kind == kind)


def test_the_next_function_is_the_one_that_torch_ran() -> None:
    recording, ran, _ = two_ways()
    assert ran == ["SumBackward0", "MulBackward0", "ExpBackward0", "MulBackward0"]
    question = ask(recording, "next")
    assert json.loads(question.truth) == "ExpBackward0", "the first step where two are ready"
    assert recording.frames[question.until_step + 1].running == next(
        node.id for node in recording.nodes if node.name == "ExpBackward0"
    )


@pytest.mark.parametrize(
    ("picked", "why"),
    [
        ("MulBackward0", "Of those that are ready torch runs the newest."),
        ("SumBackward0", "`SumBackward0 → loss` has run already."),
        ("SinBackward0", "No gradient comes to `SinBackward0 → aside`"),
    ],
)
def test_a_wrong_function_is_told_why_it_isn_t_its_turn(picked: str, why: str) -> None:
    verdict = judge(ask(two_ways()[0], "next"), {"next": picked})
    assert not verdict.right
    assert verdict.message.startswith(f"Next runs `ExpBackward0 → late`. {why}")


def test_who_waits_is_told_for_whom() -> None:
    first = ahead(two_ways()[0], helped=False)[0]
    verdict = judge(first, {"next": "ExpBackward0"})
    assert (
        "`ExpBackward0 → late` has to wait for `MulBackward0 → both`, which sends it its gradient." in verdict.message
    )


def test_the_gradients_are_those_that_torch_s_hooks_saw() -> None:
    recording, _, came = two_ways()
    assert json.loads(json.loads(ask(recording, "gradient").truth)) == pytest.approx(came["x"].tolist(), rel=5e-3)
    for question in ahead(recording, helped=False):
        if question.kind == "gradient":
            name = question.prompt.split("`")[1]
            assert json.loads(json.loads(question.truth)) == pytest.approx(came[name].tolist(), rel=5e-3)


def test_another_number_is_told_what_it_is() -> None:
    question = ask(two_ways()[0], "gradient")
    messages = [judge(question, {"gradient": choice.key}).message for choice in question.choices]
    assert sum(message == question.right for message in messages) == 1
    assert all("Yours " in message for message in messages if message != question.right)


def test_each_function_is_asked_about_once_before_its_step() -> None:
    recording, ran, _ = two_ways()
    questions = ahead(recording, helped=False)
    assert [question.kind for question in questions] == ["next", "saves", "next", "gradient", "gradient"]
    steps = [question.until_step for question in questions]
    assert steps == sorted(set(steps))
    assert len(questions) == len(ran) + 1
    assert len({question.id for question in questions}) == len(questions)


@pytest.mark.parametrize("helped", [True, False])
def test_where_two_are_ready_it_is_asked_which_before_one_of_them_opens(helped: bool) -> None:
    """No other question may name it before: that is where a learner's belief about the order shows."""
    recording, _, _ = two_ways()
    first_choice = ask(recording, "next")
    asked = {question.until_step: question for question in ahead(recording, helped=helped)}
    assert asked[first_choice.until_step].kind == "next"
    assert asked[first_choice.until_step].truth == first_choice.truth
    before = [each.prompt for each in asked.values() if each.until_step < first_choice.until_step]
    assert not any("ExpBackward0" in prompt for prompt in before)


def test_with_help_fewer_are_offered_and_nothing_has_to_be_found() -> None:
    recording, _, _ = two_ways()
    helped, alone = (ahead(recording, helped=helped) for helped in (True, False))
    assert [question.truth for question in helped] == [question.truth for question in alone]
    for kind in ("next", "gradient"):
        assert 2 <= len(asked_first(helped, kind).choices) < len(asked_first(alone, kind).choices)
    assert not asked_first(helped, "next").targets
    assert asked_first(alone, "next").targets
    assert [asked_first(each, "next").prompt.endswith("Click it.") for each in (helped, alone)] == [False, True]


def test_where_no_backward_ran_there_is_no_step() -> None:
    a = torch.ones(2, requires_grad=True)
    with seegrad.record() as rec:
        a * 2  # nothing but recorded
    for question in (lambda: ahead(rec.recording, helped=True), lambda: ask(rec.recording, "next")):
        with pytest.raises(QuestionError, match="No backward pass ran"):
            question()


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(["exp", "sin", "neg", "double", "square"]), min_size=1, max_size=6), st.booleans())
def test_whatever_ran_its_truths_are_right_answers_and_no_other_is(operations: list[str], helped: bool) -> None:
    ways = {"exp": torch.exp, "sin": torch.sin, "neg": torch.neg, "double": lambda x: x * 2, "square": lambda x: x * x}
    x = torch.tensor(0.3, requires_grad=True)
    with seegrad.record() as rec:
        y = x
        for operation in operations:
            y = ways[operation](y)
        y.backward()
    for question in ahead(rec.recording, helped=helped):
        truth = json.loads(question.truth)
        assert judge(question, {question.kind: truth}).right
        if question.kind != "saves":
            keys = [choice.key for choice in question.choices]
            assert keys.count(truth) == 1
            assert len(keys) > 1
            assert not any(judge(question, {question.kind: key}).right for key in keys if key != truth)


def test_a_step_s_question_names_the_function_that_it_is_about() -> None:
    """Right after `Next runs …`, "this Function" would be taken for that one."""
    question = asked_first(ahead(two_ways()[0], helped=True), "saves")
    assert question.prompt.startswith("What has `MulBackward0 → both` saved?")
    assert list(json.loads(question.truth)) == ["MulBackward0#2"]
