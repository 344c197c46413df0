"""A learner's own engine, drawn: compared with torch's own Recording of the same program."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import seegrad
from seegrad import follow
from seegrad.model.recording import Recording
from seegrad.picture import draw
from seegrad.quiz import ask
from seegrad.words.errors import RecordingError

COUNT = itertools.count()
RULES: dict[str, Callable[..., tuple[Any, ...]]] = {
    "mul": lambda g, a, b: (g * b, g * a),
    "add": lambda g: (g, g),
    "exp": lambda g, a: (g * math.exp(a),),
}


class Value:
    """The chapter's, as short as it can be."""

    def __init__(self, data: Any, op: str = "", inputs: tuple[Value, ...] = (), saved: tuple[Any, ...] = ()) -> None:
        self.data, self.op, self.inputs, self.saved, self.grad = data, op, inputs, saved, 0.0
        self.number = next(COUNT)

    def __add__(self, other: Value) -> Value:
        return Value(self.data + other.data, "add", (self, other))

    def __mul__(self, other: Value) -> Value:
        return Value(self.data * other.data, "mul", (self, other), (self, other))


def ancestors(loss: Value) -> set[Value]:
    found, waiting = {loss}, [loss]
    while waiting:
        new = {*waiting.pop().inputs} - found
        found |= new
        waiting += new
    return found


def backward(loss: Value) -> Iterator[tuple[Value, float]]:
    flowing = {loss: 1.0}
    for value in sorted(ancestors(loss), key=lambda value: -value.number):
        gradient = flowing.pop(value)
        if value.op:
            for one, part in zip(value.inputs, RULES[value.op](gradient, *(v.data for v in value.saved)), strict=True):
                flowing[one] = flowing.get(one, 0.0) + part
        else:
            value.grad += gradient
        yield value, gradient


def program(a: Any, b: Any) -> dict[str, Any]:
    c = a * b
    d = c * c
    return {"a": a, "b": b, "c": c, "d": d, "e": d + c}


@pytest.fixture
def mine() -> Recording:
    names = program(Value(2.0), Value(3.0))
    return follow(backward(names["e"]), names)


@pytest.fixture
def theirs() -> Recording:
    with seegrad.record() as rec:
        a = torch.tensor(2.0, requires_grad=True)
        b = torch.tensor(3.0, requires_grad=True)
        c = a * b
        d = c * c
        e = d + c
        e.backward()
    return rec.recording


def test_forward_and_gradients_are_those_of_torch_s_own_recording(mine: Recording, theirs: Recording) -> None:
    def values(recording: Recording) -> dict[str | None, Any]:
        shown = dict(pair for frame in recording.frames for pair in frame.values)
        return {ref.name: shown[ref.id] for ref in recording.tensors}

    def gradients(recording: Recording) -> dict[str | None, list[Any]]:
        name = {ref.id: ref.name for ref in recording.tensors}
        came = [one for frame in recording.frames for one in frame.gradients]
        return {name[ref.id]: [(g.preview, g.kept) for g in came if g.tensor == ref.id] for ref in recording.tensors}

    assert values(mine) == values(theirs)
    assert gradients(mine) == gradients(theirs)


def test_the_questions_have_torch_s_answers(mine: Recording, theirs: Recording) -> None:
    for kind in ("leaves", "keeps"):
        assert ask(mine, kind).truth == ask(theirs, kind).truth
    same = {"mul": "MulBackward0", "add": "AddBackward0"}
    for kind in ("order", "saves"):
        told = ask(mine, kind).truth
        for own, name in same.items():
            told = told.replace(f'"{own}', f'"{name}')
        assert sorted(told) == sorted(ask(theirs, kind).truth)


def test_an_engine_that_runs_a_function_twice_is_seen_to_run_it_twice() -> None:
    names = program(Value(2.0), Value(3.0))

    def eager(loss: Value) -> Iterator[tuple[Value, float]]:
        waiting = [loss]
        while waiting:
            value = waiting.pop()
            waiting += value.inputs
            yield value, 1.0

    frames = follow(eager(names["e"]), names).frames
    assert [frame.op for frame in frames if frame.phase == "backward"].count("mul") > 2


def test_what_has_no_name_is_numbered_and_the_program_is_told_from_the_graph() -> None:
    a = Value(2.0)
    loss = a * a + a
    recording = follow(backward(loss), {"a": a, "_": loss})
    assert [line for _, line in recording.code] == ["a = 2", "v1 = mul(a, a)", "v2 = add(v1, a)", "backward(v2)"]


def test_tensors_show_their_shapes_and_numbers() -> None:
    a = Value(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    large = Value(torch.zeros(9))
    loss = Value(torch.tensor(10.0), "both", (a, large), ((a, 3),))
    recording = follow(iter([(loss, torch.tensor(1.0)), (a, torch.ones(2, 2))]), {"a": a, "large": large})
    assert recording.code[0][1] == "a = [[1, 2], [3, 4]]"
    assert recording.code[1][1] == "large = … [9]"
    assert recording.tensors[0].shape == (2, 2)
    (saved,) = recording.nodes[2].saved
    assert (saved.tensor, saved.version) == (0, 3)
    assert draw(recording).frames[-1].text == "AccumulateGrad adds the gradient to a.grad."


def test_an_error_of_the_engine_is_part_of_the_recording() -> None:
    a = Value(2.0)
    loss = a + a

    def failing(loss: Value) -> Iterator[tuple[Value, float]]:
        yield loss, 1.0
        raise ValueError("saved version 0, now 1")

    recording = follow(failing(loss))
    assert recording.error is not None
    assert (recording.error.kind, recording.error.text) == ("ValueError", "saved version 0, now 1")
    assert recording.frames[-1].phase == "error"
    assert "ValueError" in draw(recording).frames[-1].text


def test_an_error_before_the_first_step_is_the_learner_s_own() -> None:
    def failing() -> Iterator[tuple[Value, float]]:
        raise ZeroDivisionError
        yield

    with pytest.raises(ZeroDivisionError):
        follow(failing())


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        (lambda _: None, "gone through one by one"),
        (lambda _: iter(()), "made no step"),
        (lambda a: iter([a]), "is a pair"),
        (lambda _: iter([(1.0, Value(2.0))]), "this float lacks `data`, `inputs`, `op`, `grad`"),
        (lambda a: ((a, 1.0) for _ in itertools.count()), "no end is in sight"),
        (lambda a: iter([(a, 1.0), (Value(1.0), 1.0)]), "wasn't made from"),
    ],
)
def test_what_is_no_engine_is_told_so(steps: Callable[[Value], Any], said: str) -> None:
    with pytest.raises(RecordingError, match=said):
        follow(steps(Value(2.0)))


def test_data_that_are_no_numbers_are_shown_without_any() -> None:
    recording = follow(iter([(Value([1.0, 2.0]), None)]))
    assert recording.code[0][1] == "v0 = … []"


def test_a_circle_of_inputs_is_told() -> None:
    a = Value(2.0)
    loss = a + a
    a.inputs, a.op = (loss,), "add"
    with pytest.raises(RecordingError, match="in a circle"):
        follow(iter([(loss, 1.0)]))


def test_a_long_chain_needs_no_deep_stack() -> None:
    value = Value(1.0)
    for _ in range(2000):
        value = value + Value(1.0)
    assert len(follow(backward(value)).tensors) == 4001
