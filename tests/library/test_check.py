"""What a test cell says when an answer isn't right: six plain lines, in the words of what was asked."""

from __future__ import annotations

import ast
import math
import pickle
import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from IPython.core.interactiveshell import InteractiveShell

from seegrad.check import CheckFailed, answers, call, expect, perform, score
from seegrad.words.beliefs import BELIEVED, MISCONCEPTIONS, REMARKS
from seegrad.words.errors import SeegradError


def sigmoid_cut(x: torch.Tensor) -> torch.Tensor:
    return x.detach().sigmoid()


def sigmoid_silent(x: torch.Tensor) -> torch.Tensor:
    inner = x.sigmoid()
    out = inner * 1
    inner.data.zero_()
    return out


def sigmoid_loud(x: torch.Tensor) -> torch.Tensor:
    inner = x.sigmoid()
    out = inner * 1
    inner.detach().zero_()
    return out


def test_a_failure_says_what_was_asked_what_came_and_what_was_expected() -> None:
    x = torch.tensor([1.0, 2.0])
    with pytest.raises(CheckFailed) as caught:
        expect("double(x)", x * 3, x=x).close(x * 2, suggests="M05")
    assert str(caught.value).splitlines() == [
        "Asked      double(x) with x = [1, 2]",
        "Came       [3, 6]  f32[2], leaf, version 0",
        "Expected   [2, 4]  f32[2]",
        "Note       Each number is 1.5 times what was expected.",
        f"Suggests   M05 {MISCONCEPTIONS['M05']}",
    ]


def test_no_input_loses_its_name_however_long_the_tensors_are() -> None:
    rows = [torch.rand(6, 5) for _ in range(4)]
    given = {"weight": torch.rand(20, 3), "pieces": rows, "shape": (3, 1), "lr": 0.25, "left": torch.tensor([2.5])}
    with pytest.raises(CheckFailed) as caught:
        expect("f(weight, pieces, shape, lr)", 1, **given).equals(2)
    asked = caught.value.lines[0]
    assert len(asked) <= 240
    assert asked.startswith("Asked      f(weight, pieces, shape, lr) with shape = (3, 1), lr = 0.25, weight = [")
    assert all(f"{name} = " in asked for name in given)
    with pytest.raises(CheckFailed, match=r"x = \[f32\[9, 9\], f32\[9, 9\], "):
        expect("f(x)", 1, x=[torch.full((9, 9), 1 / 3)] * 19).equals(2)


def test_parts_are_tensors_before_anything_is_asked_of_them() -> None:
    first, second = expect("f(x)", (torch.zeros(2), torch.ones(2))).tensors(2)
    assert first.data_ptr() != second.data_ptr()
    with pytest.raises(CheckFailed) as caught:
        expect("f(x)", (torch.zeros(2), [0.5]), x=1).tensors(2)
    assert caught.value.lines == ("Asked      f(x)[1] with x = 1", "Came       a list: [0.5]", "Expected   a tensor")
    for came in (None, torch.zeros(2), (torch.zeros(2),)):
        with pytest.raises(CheckFailed, match="Expected   a tuple of 2 tensors"):
            expect("f(x)", came).tensors(2)
    with pytest.raises(CheckFailed, match=r"Expected   a tuple of 1 tensor$"):
        expect("f(x)", None).tensors(1)


def test_a_number_is_told_as_a_number() -> None:
    for right in (1.5, torch.tensor(1.5), torch.tensor([1.5]), torch.tensor(1.5, requires_grad=True)):
        expect("f(x)", right).close(1.5)
    with pytest.raises(CheckFailed, match=r"Came       2\.5\nExpected   1\.5$"):
        expect("f(x)", 2.5).close(1.5)
    for other in (None, [1.5], torch.tensor([1.5, 1.5]), True, math.nan):
        with pytest.raises(CheckFailed):
            expect("f(x)", other).close(1.5)


def test_where_an_error_came_no_error_was_expected() -> None:
    with pytest.raises(CheckFailed, match="Expected   no error"):
        expect("AB", ValueError("no")).equals(None)
    with pytest.raises(CheckFailed, match="Expected   no error"):
        call("f(x)", lambda: 1 / 0)


def test_a_failure_can_be_run_again_with_all_of_its_numbers() -> None:
    x = torch.arange(10.0, dtype=torch.float64, requires_grad=True)

    def raises(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x

    with pytest.raises(CheckFailed) as caught:
        call("raises(x)", raises, x, x=x.detach().clone())
    names = {"torch": torch, "raises": raises}
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        exec(caught.value.reproduce, names)  # noqa: S102 -- that it runs is what is claimed
    assert torch.equal(torch.as_tensor(names["x"]), x)


@pytest.mark.parametrize(("number", "where"), [(2, "in round 2, line B raised"), (None, "line B raised")])
def test_a_line_of_an_order_is_named_with_its_round(number: int | None, where: str) -> None:
    names: dict[str, object] = {}
    perform("x = 1", names, "A", 1)
    with pytest.raises(ZeroDivisionError) as raised:
        perform("x / 0", names, "B", number)
    with pytest.raises(CheckFailed) as caught:
        expect("2 × AB", raised.value).equals(None, "M09")
    assert caught.value.lines[1] == f"Came       {where} ZeroDivisionError: division by zero"
    assert caught.value.lines[2] == "Expected   no error"


def test_what_cannot_be_written_is_left_out() -> None:
    for value in (torch.zeros(1000), object()):
        with pytest.raises(CheckFailed) as caught:
            expect("f(x)", 1, x=value).equals(2)
        assert caught.value.reproduce == ""


def test_a_failure_is_an_assertion_of_ours_and_travels_between_processes() -> None:
    failure = CheckFailed(["Asked  f(x)"], ("M05",))
    assert isinstance(failure, SeegradError)
    assert isinstance(failure, AssertionError)
    copy = pickle.loads(pickle.dumps(failure))  # noqa: S301  # our own bytes
    assert (copy.lines, copy.misconceptions) == (failure.lines, failure.misconceptions)


def test_jupyter_shows_the_lines_and_no_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    shell = InteractiveShell()
    shell.run_cell("from seegrad.check import expect\nexpect('answer', 41).equals(42, 'M06')")
    shown = capsys.readouterr().out
    assert shown.splitlines()[:3] == ["Asked      answer", "Came       41", "Expected   42"]
    assert "Traceback" not in shown


@given(st.lists(st.text(max_size=400), max_size=20), st.text(max_size=400))
def test_no_message_has_more_than_six_lines_or_a_long_one(texts: list[str], want: str) -> None:
    with pytest.raises(CheckFailed) as caught:
        expect("x", texts).equals(want, ("M01", "M02", "M03", "M04"))
    lines = caught.value._render_traceback_()
    assert len(lines) <= 6
    assert all(len(line) <= 120 and "\n" not in line for line in lines)


@pytest.mark.parametrize(("function", "number"), [(sigmoid_cut, "M10"), (sigmoid_silent, "M06"), (sigmoid_loud, "M05")])
def test_a_wrong_gradient_is_told_by_its_symptom(function: object, number: str) -> None:
    x = torch.rand(3, dtype=torch.float64)
    with pytest.raises(CheckFailed) as caught:
        expect("f(x)", function, x=x).differentiable({"cut": "M10", "wrong": "M06", "raised": "M05"})
    assert caught.value.misconceptions == (number,)


def test_what_no_finite_difference_can_judge_is_told_first() -> None:
    x = torch.rand(3, dtype=torch.float64)
    for function, note in (
        (lambda x: x * torch.rand(3), "The same call, made twice, gives different values."),
        (lambda x: x.float() * 2, "The dtype is another one: inputs come as float32 and as float64."),
        (lambda x: x.float().exp().double(), "The values are rounded: somewhere they are computed in float32."),
    ):
        with pytest.raises(CheckFailed) as caught:
            expect("f(x)", function, x=x).differentiable("M06")
        assert caught.value.lines[3:] == (f"Note       {note}",)


def test_an_error_is_told_with_what_it_means() -> None:
    w = torch.ones(2, requires_grad=True)
    with pytest.raises(CheckFailed) as caught:
        call("w.mul_(2)", w.mul_, 2, suggests={"leaf_written": "M11"})
    assert caught.value.lines[3:] == (
        "Note       A leaf that requires a gradient was written in place while gradients were recorded.",
        f"Suggests   M11 {MISCONCEPTIONS['M11']}",
    )


@pytest.mark.parametrize("function", [torch.sigmoid, torch.exp, torch.sin, torch.tanh, torch.log1p])
def test_the_finite_difference_agrees_with_torch(function: object) -> None:
    expect("f(x)", function, x=torch.rand(4, dtype=torch.float64) + 0.1).differentiable()


def test_a_function_of_two_inputs_is_checked_in_both() -> None:
    inputs = {"x": torch.rand(3, dtype=torch.float64) + 0.5, "y": torch.rand(3, dtype=torch.float64) + 0.5}
    expect("f(x, y)", lambda x, y: x * y.log(), **inputs).differentiable()
    with pytest.raises(CheckFailed, match=re.escape("∂/∂y of (f(x, y) * c).sum() with")):
        expect("f(x, y)", lambda x, y: x * y.detach().log(), **inputs).differentiable()


def test_the_gradient_that_is_expected_can_be_computed_anew_from_what_is_told() -> None:
    x = torch.tensor([0.5, 2.0, 3.0], dtype=torch.float64)
    with pytest.raises(CheckFailed) as failed:
        expect("f(x)", lambda x: x * x.detach(), x=x).differentiable()
    (asked, _, expected, *_) = failed.value.lines
    told = torch.tensor(ast.literal_eval(asked.partition("c = ")[2]), dtype=torch.float64)
    want = torch.tensor(ast.literal_eval(expected.removeprefix("Expected").partition("]")[0].strip() + "]"))
    torch.testing.assert_close(2 * x * told, want.double(), rtol=1e-3, atol=0)


def test_one_result_is_not_weighed() -> None:
    with pytest.raises(CheckFailed, match=re.escape("∂/∂x of f(x) with x = [0.5, 2]")):
        expect("f(x)", lambda x: x.detach().sum(), x=torch.tensor([0.5, 2.0], dtype=torch.float64)).differentiable()


def test_a_constant_has_no_gradient_and_that_is_right() -> None:
    expect("f(x)", lambda x: torch.ones(2, dtype=x.dtype), x=torch.rand(2, dtype=torch.float64)).differentiable()


@pytest.mark.parametrize(("came", "want"), [(1, True), (True, 1), (1.0, 1), ("1", 1), (None, 0), ([1], (1,))], ids=repr)
def test_equal_is_not_enough_the_type_has_to_match(came: object, want: object) -> None:
    with pytest.raises(CheckFailed):
        expect("x", came).equals(want)


def test_shape_and_kind_are_checked_before_values() -> None:
    for came in (torch.ones(3), 1.0, None, [1.0, 1.0]):
        with pytest.raises(CheckFailed) as caught:
            expect("x", came).close(torch.ones(2), {"shape": "M11", "wrong": "M06"})
        assert caught.value.misconceptions == ("M11",)
    expect("x", torch.ones(2, dtype=torch.float64)).close(torch.ones(2))


def test_a_big_tensor_is_told_by_its_shape_and_its_first_numbers() -> None:
    with pytest.raises(CheckFailed) as caught:
        expect("x", torch.zeros(1000, 1000)).close(torch.ones(2))
    assert caught.value.lines[1] == "Came       [0, 0, 0, 0, 0, 0, 0, 0, …]  f32[1000, 1000], leaf, version 0"


def test_nan_is_never_close() -> None:
    with pytest.raises(CheckFailed):
        expect("x", torch.tensor([math.nan])).close(torch.tensor([1.0]))


def test_what_a_student_raises_becomes_what_came() -> None:
    def broken(x: int) -> int:
        raise ValueError(f"no {x}\nand more")

    with pytest.raises(CheckFailed) as caught:
        call("broken(3)", broken, 3, suggests={"raised": ("M05", "M07")})
    assert caught.value.lines[1] == "Came       ValueError: no 3"
    assert caught.value.misconceptions == ("M05", "M07")


def test_an_unanswered_function_suggests_nothing() -> None:
    def stub() -> None:
        raise NotImplementedError

    with pytest.raises(CheckFailed) as caught:
        call("stub()", stub, suggests="M05")
    assert caught.value.misconceptions == ()


def test_an_error_of_the_grader_isn_t_taken_for_an_answer() -> None:
    lost = type("Lost", (Exception,), {"__module__": "nbjudge.anything"})

    def gone() -> None:
        raise lost

    with pytest.raises(lost):
        call("gone()", gone)
    with pytest.raises(lost):
        expect("gone()", gone).raises(ValueError)


def test_a_choice_that_nobody_made_is_told_as_that() -> None:
    with pytest.raises(CheckFailed, match="Came       nothing: not answered yet") as failed:
        expect("found['w']", None).one_of(["zeros", "moved"], suggests="M01")
    assert failed.value.misconceptions == ()


def test_an_order_is_a_string_and_one_that_nobody_gave_is_told_as_that() -> None:
    expect("steps", "BA").of_type(str)
    with pytest.raises(CheckFailed, match="Came       nothing: not answered yet"):
        expect("steps", None).of_type(str)
    with pytest.raises(CheckFailed, match=r"Came       \['B', 'A'\]\nExpected   str"):
        expect("steps", ["B", "A"]).of_type(str)


def test_an_expected_error_has_to_be_of_its_kind() -> None:
    x = torch.ones(2, requires_grad=True)
    expect("x.add_(1)", lambda x: x.add_(1), x=x).raises(RuntimeError)
    with pytest.raises(CheckFailed, match="Came       None"):
        expect("f(x)", lambda _: None, x=x).raises(RuntimeError)
    with pytest.raises(CheckFailed, match="Came       KeyError"):
        expect("f(x)", lambda _: {}[0], x=x).raises(RuntimeError)


def test_a_version_is_compared_as_a_number() -> None:
    out = torch.zeros(2)
    out.detach().add_(1)
    expect("out", out).version(1)
    out.data.add_(1)
    expect("out", out).version(1)
    with pytest.raises(CheckFailed, match="version 0"):
        expect("out", out).version(0)


def test_partial_credit_is_a_fraction_that_prints_as_points() -> None:
    half = score(0.5, of=20)
    assert float(half) == 0.5
    assert repr(half) == "10.0"
    for outside in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match="between 0 and 1"):
            score(outside)


def test_a_dict_of_answers_is_scored_item_by_item() -> None:
    want = {"A": "silent", "B": "raises"}
    suggests = {"A": {"right": "M06"}, "B": {"silent": "M05"}}
    assert answers("p", dict(want), want, suggests, of=10) == 1
    half = answers("p", {"A": "right", "B": "raises"}, want, suggests, of=10)
    assert (float(half), half.misconceptions) == (0.5, ("M06",))
    assert half.lines[0] == "p['A']  came 'right', expected 'silent'"
    for nothing in ({"A": "right", "B": "silent"}, {}, None, "A", {"A": None, "B": ["raises"]}):
        with pytest.raises(CheckFailed):
            answers("p", nothing, want, suggests, of=10)


def test_a_remark_is_told_after_the_misconceptions_and_is_not_counted_as_one() -> None:
    suggests = {"A": {1: "shares"}, "B": {1: "M05"}}
    half = answers("p", {"A": 1, "B": 1, "C": 3}, {"A": 2, "B": 2, "C": 3}, suggests, of=3)
    assert half.lines[2:] == (f"Suggests   M05 {MISCONCEPTIONS['M05']}", f"Note       {REMARKS['shares']}")
    assert half.misconceptions == ("M05",)
    with pytest.raises(CheckFailed) as caught:
        expect("x", 1).equals(2, "shares")
    assert caught.value.lines[3:] == (f"Note       {REMARKS['shares']}",)
    assert caught.value.misconceptions == ()


def test_there_are_twelve_misconceptions_and_each_fits_one_line() -> None:
    assert list(MISCONCEPTIONS) == list(BELIEVED) == [f"M{number:02}" for number in range(1, 13)]
    assert all(len(f"Suggests   {number} {text}") <= 120 for number, text in MISCONCEPTIONS.items())
    assert all(len(f"Note       {text}") <= 120 for text in REMARKS.values())
