"""What a promise sees of a call that an ordinary test doesn't: one answer for each thing that may go wrong."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch

from seegrad.check import ERRORS, CheckFailed
from seegrad.promise import between, leaf, numbers, promised, scattered
from seegrad.telling import shown
from seegrad.words import symptoms
from seegrad.words.beliefs import MISCONCEPTIONS
from seegrad.words.symptoms import NOTES, SUGGESTS

calls: list[int] = []


def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def move_(w: torch.Tensor, by: float) -> None:
    with torch.no_grad():
        w.add_(by)


def fill(w: torch.Tensor) -> float:
    w.grad = w.detach() * 2
    return float(w.detach().square().sum())


def written(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    x.data.zero_()
    return y


def restored(x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        x.add_(0)
    return x * 2


def silent(x: torch.Tensor) -> torch.Tensor:
    y = x.square()
    return y - y.detach() + 2 * x.detach()


def once_only(x: torch.Tensor) -> torch.Tensor:
    calls.append(1)
    return x * (2 if len(calls) % 2 else 3)


def kept_for_later(x: torch.Tensor, found: dict[str, torch.Tensor] = {}) -> torch.Tensor:  # noqa: B006  # the mistake
    return found.setdefault(str(x.dtype), x * 2)


def hooked(x: torch.Tensor) -> torch.Tensor:
    x.register_hook(lambda grad: grad * 0)
    return (x + 0) * 2


def halved_back(x: torch.Tensor) -> torch.Tensor:
    x.register_hook(lambda grad: grad / 2)
    return (x + 0) * 2


def of_x(symptom: str, function: Callable[..., Any], made: Callable[..., Any] = leaf) -> Any:
    return pytest.param(
        symptom, function, double, {"x": made(numbers(3, holds=(-1.5, 0.0)))}, id=f"{symptom}-{function.__name__}"
    )


def of_w(symptom: str, function: Callable[..., Any]) -> Any:
    return pytest.param(symptom, function, move_, {"w": leaf(numbers(3), grad=1.0), "by": 0.5}, id=symptom)


def of_grad(symptom: str, function: Callable[..., Any]) -> Any:
    return pytest.param(symptom, function, fill, {"w": leaf(numbers(2, 2), grad=1.0)}, id=symptom)


def rebind(w: torch.Tensor, by: float) -> None:
    w = w + by


def no_longer(w: torch.Tensor, by: float) -> None:
    move_(w, by)
    w.requires_grad_(False)


def other_memory(w: torch.Tensor, by: float) -> None:
    w.data = w.data + by


def nothing(x: torch.Tensor) -> None:
    x * 2  # the mistake: no return


def hook_left(w: torch.Tensor, by: float) -> None:
    move_(w, by)
    w.register_hook(lambda grad: grad * 3)


def returning(w: torch.Tensor, by: float) -> torch.Tensor:
    move_(w, by)
    return w


def unnoticed(w: torch.Tensor, by: float) -> None:
    w.data.add_(by)


def shared_counter(w: torch.Tensor, by: float) -> None:
    w.detach().add_(by)


def too_far(w: torch.Tensor, by: float) -> None:
    move_(w, 2 * by)


def emptied(w: torch.Tensor, by: float) -> None:
    move_(w, by)
    w.grad = None


def unfilled(w: torch.Tensor) -> float:
    return float(w.detach().square().sum())


def wrongly_filled(w: torch.Tensor) -> float:
    w.grad = w.detach()
    return unfilled(w)


def adding(w: torch.Tensor) -> float:
    w.square().sum().backward()
    return float(w.detach().square().sum())


def replacing(w: torch.Tensor) -> float:
    w.grad = w.detach() * 2
    return float(w.detach().square().sum())


class Greedy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:  # noqa: ARG004  # torch's own signature
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:  # noqa: ARG004  # the same
        return gradient.mul_(2)


class Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.left = [2]
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient * ctx.left.pop()


def into_the_gradient(x: torch.Tensor) -> torch.Tensor:
    out: torch.Tensor = Greedy.apply(x)
    return out


def switched_off(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    torch.set_grad_enabled(False)
    return y


def in_double(x: torch.Tensor) -> torch.Tensor:
    torch.set_default_dtype(torch.float64)
    return x * 2


SYMPTOMS = [
    of_x("kind", nothing),
    of_x("shape", lambda x: (x * 2)[:2]),
    of_x("dtype", lambda x: (x * 2).double()),
    of_x("wrong", lambda x: x * 3),
    of_x("cut", lambda x: x.detach() * 2),
    of_x("kept", written),
    of_x("touched", restored),
    of_x("gradient", silent),
    of_x("gradient", hooked),
    of_x("wrong", once_only),
    of_x("leaf", lambda x: x.detach_() * 2, between),
    of_x("lost", lambda x: (x * 2).detach().requires_grad_(), scattered),
    of_w("returned", returning),
    of_w("unmoved", rebind),
    of_w("written", too_far),
    of_w("storage", other_memory),
    of_w("unnoticed", unnoticed),
    of_w("requires_grad", no_longer),
    of_w("grad", emptied),
    of_w("hooked", hook_left),
    of_grad("unfilled", unfilled),
    of_grad("added", adding),
    of_grad("filled", wrongly_filled),
    pytest.param("replaced", replacing, adding, {"w": leaf(numbers(2, 2), grad=1.0)}, id="replaced"),
    of_x("neighbour", into_the_gradient),
    of_x("around", switched_off),
    of_x("around", in_double),
]


@pytest.mark.parametrize(("symptom", "function", "truth", "case"), SYMPTOMS)
def test_each_thing_that_may_go_wrong_is_seen_and_said(
    symptom: str, function: Callable[..., Any], truth: Callable[..., Any], case: dict[str, Any]
) -> None:
    calls.clear()
    with pytest.raises(CheckFailed) as caught:
        promised("f(…)", function, truth, case, notices="w")
    name = next(iter(case))
    assert symptom not in NOTES or NOTES[symptom].format(name=name) in caught.value.message, caught.value
    assert "Expected" in caught.value.lines[2]
    assert caught.value.misconceptions == tuple(filter(None, [SUGGESTS.get(symptom)]))


def test_a_right_answer_in_another_style_holds() -> None:
    cases = [
        {"x": made(numbers(*shape))} for made in (leaf, between, scattered) for shape in ((), (4,), (2, 0), (2, 3))
    ]
    promised("double(x)", lambda x: x + x, double, *cases, {"x": numbers(3, dtype=torch.float64)})
    for style in (shared_counter, unnoticed):
        promised("move_(w, by)", style, move_, {"w": leaf(numbers(3)), "by": 0.5})


@pytest.mark.parametrize(("made", "each"), [(leaf, 2), (between, 2), (torch.clone, 4)])
def test_a_call_serves_for_several_questions(made: Callable[[torch.Tensor], Any], each: int) -> None:
    """Where an answer is graded each call goes to another process and back: tests had most of its time."""
    asked: list[int] = []

    def answer(x: torch.Tensor) -> torch.Tensor:
        asked.append(1)
        return x * 2

    promised("f(x)", answer, double, *({"x": made(numbers(3))} for _ in range(5)))
    assert len(asked) == 5 * each + 1


def test_two_live_calls_are_told_from_one() -> None:
    with pytest.raises(CheckFailed) as caught:
        promised("f(x)", kept_for_later, double, {"x": leaf(numbers(3))}, {"x": leaf(numbers(3))})
    assert symptoms.EARLIER.format(name="x") in str(caught.value)


def test_what_an_earlier_call_returned_stays_what_it_was() -> None:
    told, buffer = list[float](), torch.zeros(3)

    def in_one_list(x: torch.Tensor) -> list[float]:
        told[:] = x.tolist()
        return told

    with pytest.raises(CheckFailed) as caught:
        promised("f(x)", buffer.copy_, torch.clone, {"x": numbers(3)}, {"x": numbers(3, dtype=torch.float64)})
    assert symptoms.REWRITTEN in str(caught.value)
    with pytest.raises(CheckFailed) as caught:
        promised("f(x)", in_one_list, torch.Tensor.tolist, {"x": leaf(numbers(3))}, {"x": leaf(numbers(3))})
    assert symptoms.OTHER in str(caught.value)


def test_torch_itself_is_put_back_before_anything_is_said() -> None:
    with pytest.raises(CheckFailed) as caught:
        promised("f(x)", switched_off, double, {"x": leaf(numbers(3))})
    assert torch.is_grad_enabled()
    assert caught.value.lines[:3] == (
        caught.value.lines[0].replace("f(x) with", "f(x); torch.is_grad_enabled() with"),
        "Came       False",
        "Expected   True",
    )


def test_a_second_backward_may_raise_but_not_be_silently_wrong() -> None:
    def hooked_once(x: torch.Tensor) -> torch.Tensor:
        y = x + 0
        handle = y.register_hook(lambda grad: (handle.remove(), grad * 2)[1])
        return y

    said = refused("f(x)", hooked_once, double_back, {"x": leaf(numbers(3))})
    assert f"Note       {symptoms.TWICE}" in said.lines
    assert f"Came       {shown(at_once(said, f=hooked_once))}".partition("  ")[0] in said.lines[1]
    promised("f(x)", Once.apply, double, {"x": leaf(numbers(3))}, {"x": leaf(numbers(2))})


def double_back(x: torch.Tensor) -> torch.Tensor:
    return 2 * x - x.detach()


def test_what_goes_by_the_tensor_and_not_by_its_numbers_is_told() -> None:
    known: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def by_id(x: torch.Tensor) -> torch.Tensor:
        return known.setdefault(id(x), (x, x.detach() * 2))[1]

    said = refused("f(x)", by_id, lambda x: x.detach() * 2, {"x": numbers(3)})
    assert f"Note       {symptoms.RENEWED}" in said.lines


def test_none_in_the_place_of_a_tensor_is_told_as_none() -> None:
    with pytest.raises(CheckFailed) as caught:
        promised("f(x)", lambda _: {"h": None}, lambda x: {"h": x * 2}, {"x": numbers(3)}, suggests={"none": "M02"})
    assert NOTES["none"] in str(caught.value)
    assert caught.value.misconceptions == ("M02",)


def scaled_down(w: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Writes what the product saves: with the same w, a second call overwrites what the first one's backward needs."""
    w.detach().clamp_(-1, 1)
    return (w * x).sin()


def test_a_backward_that_the_promised_write_destroys_is_not_asked_for_and_the_others_are() -> None:
    case = {"w": leaf(numbers(3, holds=(2.0,))), "x": leaf(numbers(3))}
    promised("f(w, x)", lambda w, x: scaled_down(w, x) * 1, scaled_down, case)
    with pytest.raises(CheckFailed, match="the gradient of `x` isn't"):
        promised("f(w, x)", lambda w, x: scaled_down(w, x.detach()) + x - x.detach(), scaled_down, case)


def test_a_belief_is_told_only_where_it_predicts_all_that_the_answer_does() -> None:
    def cut_on_one_path(x: torch.Tensor) -> torch.Tensor:
        return x * x.detach()

    case = {"x": leaf(numbers(3))}
    for answer, told in (
        (lambda x: x.clone().detach() * x, ("M07",)),
        (lambda x: x.detach() * x.detach() * (x / x), ()),
    ):
        with pytest.raises(CheckFailed, match="the gradient of `x` isn't") as caught:
            promised("f(x)", answer, torch.square, case, beliefs={"M07": cut_on_one_path})
        assert caught.value.misconceptions == told


def test_what_is_suggested_by_default_are_misconceptions_of_known_symptoms() -> None:
    assert set(SUGGESTS) <= {*NOTES, *(symptom for symptom, _said in ERRORS.values())}
    assert set(SUGGESTS.values()) <= set(MISCONCEPTIONS)


def refused(
    asked: str, function: Callable[..., Any], truth: Callable[..., Any], *cases: Any, **more: Any
) -> CheckFailed:
    with pytest.raises(CheckFailed) as caught:
        promised(asked, function, truth, *cases, **more)
    return caught.value


def at_once(said: CheckFailed, **names: Any) -> Any:
    """The value of what was asked, from the case as code."""
    *before, last = said.reproduce.splitlines()
    *more, value = last.split("; ")
    found = {"torch": torch} | names
    exec("\n".join([*before, *more]), found)  # noqa: S102  # our own code
    return eval(value, found)  # noqa: S307  # the same


def test_what_came_is_the_value_of_what_was_asked() -> None:
    case = {"w": leaf(torch.tensor([1.0, -2.0])), "by": 0.5}
    said = refused("move_(w, by)", other_memory, move_, case)
    assert "alias = w.detach(); move_(w, by); alias with by = 0.5, w = [1, -2]" in said.lines[0]
    assert at_once(said, move_=other_memory).tolist() == [1, -2]
    assert said.lines[1].startswith("Came       [1, -2]")
    said = refused("double(x)", halved_back, double, {"x": leaf(numbers(3))})
    came = at_once(said, double=halved_back)
    assert f"Came       {shown(came)}".partition("  ")[0] in said.lines[1]
    assert " c = [" in said.lines[0]


def test_the_second_call_of_two_is_asked_for_with_the_first() -> None:
    def moved_once(w: torch.Tensor, by: float) -> None:
        if w.grad is None:
            move_(w, by)
            w.grad = torch.zeros_like(w)

    case = {"w": leaf(torch.tensor([1.0, -2.0])), "by": 0.5}
    said = refused("move_(w, by)", moved_once, move_, case, empties="w")
    assert said.lines[0] == "Asked      move_(w, by); move_(w, by); w with by = 0.5, w = [1, -2]"
    assert said.lines[1].startswith("Came       [1.5, -1.5]")
    assert said.lines[2].startswith("Expected   [2, -1]")
    assert said.lines[3:] == (
        f"Note       {symptoms.AGAIN}",
        "Note       `w` was moved by [0.5, 0.5]; expected was [1, 1].",
        "Note       Each number is 0.5 times what was expected.",
    )


def test_what_is_kept_between_calls_is_named() -> None:
    goals: list[torch.Tensor] = []

    def with_first_goal(w: torch.Tensor, goal: torch.Tensor) -> torch.Tensor:
        goals.append(goal)
        return w * goals[0]

    cases = [{"w": leaf(numbers(3)), "goal": numbers(3)} for _ in range(3)]
    said = refused("f(w, goal)", with_first_goal, torch.mul, *cases)
    assert said.lines[3:] == (f"Note       {symptoms.EARLIER.format(name='goal')}",)
    known: list[torch.Tensor] = []

    def first_result(w: torch.Tensor) -> torch.Tensor:
        known.append(w * 2)
        return known[0]

    first_result(torch.rand(2))  # in the visible part of a test
    said = refused("f(w)", first_result, double, *({"w": numbers(size)} for size in (3, 4)))
    assert f"Note       {symptoms.SAME}" in said.lines
    total: list[int] = []

    def grown(w: torch.Tensor) -> torch.Tensor:
        total.append(1)
        return w * (2 if len(total) < 2 else 3)

    said = refused("f(w)", grown, double, {"w": leaf(numbers(3))})
    assert said.lines[3:] == (f"Note       {symptoms.ALONE}",)


def test_a_note_on_wrong_values_says_what_the_values_do_not() -> None:
    def of(function: Callable[..., Any], *cases: Any) -> tuple[str, ...]:
        return refused("f(x)", function, double, *cases).lines[3:]

    x = {"x": leaf(torch.tensor([1.0, -2.0, 0.0]))}
    assert of(lambda x: x * 3, x) == ("Note       Each number is 1.5 times what was expected.",)
    assert of(lambda x: x * 1, x) == ("Note       These are the values of `x`.",)
    assert of(lambda x: (x * 2).clamp(min=0), x) == (
        "Note       With the absolute value of every number it is right.",
        "Note       0 came in 1 of 3 places where another number was expected.",
    )
    assert of(lambda x: x * torch.tensor([2.0, 0.0, 0.0]), {"x": leaf(torch.tensor([1.0, -2.0, 3.0]))}) == (
        "Note       Of 3 numbers only the first is right; for the rest 0 came.",
    )
    assert of(lambda x: x + 7, x) == ()
    rounded = refused(
        "f(x)", lambda x: (x.float() * 2 / 3).double(), lambda x: x * 2 / 3, {"x": numbers(3, dtype=torch.float64)}
    )
    assert "Note       The values are rounded: somewhere they are computed in float32." in rounded.lines


def halved_view(x: torch.Tensor) -> torch.Tensor:
    return x.detach().mul_(0.5)


def test_values_of_another_argument_values_that_look_at_none_and_shared_memory_are_told() -> None:
    case = {"x": numbers(3, low=1), "w": numbers(3, low=1)}
    assert symptoms.TAKEN.format(name="x", other="w") in str(refused("f(x, w)", lambda _x, w: w * w, torch.mul, case))
    assert symptoms.FIXED.format(name="w") in str(refused("f(x, w)", lambda x, _w: x.exp(), torch.mul, case))
    said = refused("f(x)", halved_view, lambda x: x / 2, {"x": leaf(numbers(3))})
    assert symptoms.ALIASED.format(name="x") in str(said)
    assert said.misconceptions == ()


def test_a_gradient_that_is_wrong_for_some_numbers_alone_is_nothing_kept_between_calls() -> None:
    def clamped_back(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        y.register_hook(lambda grad: grad.clamp(-5.2, 5.2))
        return y

    for seed in range(6):
        torch.manual_seed(seed)
        said = refused("f(x)", clamped_back, double, *({"x": leaf(numbers(1))} for _ in range(30)))
        assert "kept between calls" not in str(said)


def right_for(holds: Callable[[torch.Tensor], bool]) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda x: x * 2 if holds(x) else x * 2 + x.detach().sin()


@pytest.mark.parametrize(
    ("answer", "case", "note"),
    [
        (right_for(lambda x: len(x) == 3), leaf(numbers(4)), "in shape [3] of `x` it was right; in shape [4] it isn't"),
        (right_for(lambda x: bool(x.abs().max() < 5)), leaf(numbers(4, low=20, high=40)), "divided by 10 it is right"),
        (right_for(lambda x: x.dtype == torch.float32), leaf(numbers(4).double()), "was float32; here it is float64"),
        (
            right_for(lambda x: x.is_leaf),
            between(numbers(4)),
            "a leaf that requires a gradient; here it is the result of an operation",
        ),
        (right_for(lambda x: bool((x > 0).all())), leaf(-numbers(4, low=1)), "absolute value of every number"),
        (right_for(lambda x: x.grad is None), leaf(numbers(3), grad=2.0), "`x.grad` was None; here it is 2"),
    ],
    ids=["shape", "size", "dtype", "form", "sign", "grad"],
)
def test_what_alone_decides_is_told_and_a_shape_is_not_blamed_for_the_size_of_the_numbers(
    answer: Callable[..., Any], case: Any, note: str
) -> None:
    said = refused("f(x)", answer, double, {"x": leaf(numbers(3, low=0.5, high=3))}, {"x": case})
    assert note in str(said), said


@pytest.mark.parametrize("wrong", [0.0, 0.001])
def test_two_backwards_that_cancel_are_as_exact_as_each_of_them(wrong: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left of them is all rounding, and would look like another number."""
    drawn = itertools.cycle([1.0, -0.99999])
    monkeypatch.setattr(
        "seegrad.promise.weights", lambda want: torch.full_like(want, 0 if want.is_leaf else next(drawn))
    )

    def in_another_order(x: torch.Tensor) -> torch.Tensor:
        total = (x * 0.3 * 0.7).sum()
        total.register_hook(lambda grad: grad * (1 if grad > 0 else 1 + wrong))
        return total

    refused = pytest.raises(CheckFailed, match="second one") if wrong else contextlib.nullcontext()
    with refused:
        promised("total(x)", in_another_order, lambda x: (x * 0.21).sum(), {"x": leaf(torch.tensor([1.0, 3.0]))})
