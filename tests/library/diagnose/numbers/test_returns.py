"""What a custom Function's backward returns and torch can't take: the line is named, and what is advised ends it."""

from __future__ import annotations

import linecache
from typing import Any

import pytest
import torch

import seegrad
from seegrad.capture.functions import made_for
from seegrad.capture.probes.places import Source
from seegrad.model.recording import Diagnosis
from tests.data.programs import programs
from tests.library.recorded import seen

LINES = {
    "f_gradient_for_the_first_argument_alone": ("return grad", "wants 2 gradients", "gets 1 gradient"),
    "f_gradient_of_what_was_summed": ("return grad / ctx.rows", "at place 1 has shape [4]", "`Averaged` has [5, 4]"),
    "f_gradient_for_a_number": (
        "return grad * ctx.power * x ** (ctx.power - 1), grad * x.log()",
        "a gradient at place 2",
        "`Powered` is no tensor",
    ),
    "m_echo_cut_to_the_number_of_sounds": (
        "by_sound = both[:, late : late + sound.shape[0]]  # culprit",
        "at place 1, has shape [4, 4]",
        "its forward has [4, 9]",
    ),
    "m_gradients_in_the_order_of_another_forward": ("return by_prices, by_shares  # culprit", "at place 2"),
    "m_hook_of_a_classifier_behind_a_detach": (
        "accent.register_full_backward_hook(turn_round)  # culprit",
        "none of those",
    ),
    "m_hook_of_one_gradient_at_every_layer_norm": (
        "return (given[0] / given[0].std(),)  # culprit",
        "another number of gradients than it is given, 1 for 3",
    ),
    "m_hook_that_returns_the_gradient_of_the_result_too": (
        "return given[0].clamp(min=0), got[0]  # culprit",
        "another number of gradients than it is given, 2 for 1",
    ),
    "a_hook_that_returns_the_norm_for_the_log": (
        "code.register_hook(length_of)  # culprit",
        "The hook `length_of`",
        "no tensor but a `float`",
    ),
    "t2_hook_that_returns_what_it_measures": (
        "parameter.register_hook(watch(name))",
        "The hook `note`",
        "of another shape than the gradient",
    ),
}
"""Program → the line that is named, and what is said of it."""


def test_every_program_is_here() -> None:
    assert {name for name, each in programs().items() if each.kind == "backward_returns"} == LINES.keys()


@pytest.mark.parametrize("name", LINES)
def test_the_line_that_returns_is_named(name: str) -> None:
    (found,) = seen(name).recording.diagnoses
    code, *said = LINES[name]
    assert found.culprit is not None
    assert found.culprit.code.strip() == code
    assert all(each in found.message() for each in said)


def told(handed_back: Any, *, twice: bool = False) -> tuple[Diagnosis, ...]:
    class Given(torch.autograd.Function):
        @staticmethod
        def forward(_ctx: Any, x: torch.Tensor, _by: float) -> torch.Tensor:
            return x.sum(0)

        @staticmethod
        def backward(_ctx: Any, grad: torch.Tensor) -> Any:
            if twice and grad.dim() > 9:
                return grad
            return handed_back(grad)

    with seegrad.record() as rec:
        try:
            Given.apply(torch.ones(2, 3, requires_grad=True), 2.0).sum().backward()
        except RuntimeError:
            assert rec.recording is not None
    return rec.diagnoses


def test_what_is_advised_ends_it() -> None:
    assert [dict(each.arguments)["how"] for each in told(lambda grad: (grad, None))] == ["shape"]
    assert not told(lambda grad: (grad.expand(2, 3), None))
    assert [dict(each.arguments)["how"] for each in told(lambda _grad: (1.0, None))] == ["number"]


def test_the_line_that_makes_it_is_named_where_the_text_leaves_no_doubt() -> None:
    def line(body: str) -> str:
        text = "def backward(ctx, grad):\n" + "".join(f"    {each}\n" for each in body.split("\n"))
        held: dict[str, Any] = {}
        linecache.cache["made.py"] = (len(text), None, text.splitlines(keepends=True), "made.py")
        exec(compile(text, "made.py", "exec"), held)  # noqa: S102  # a text of this test's own
        made = dict(made_for(Source(), held["backward"]))
        return made[0].code.strip() if 0 in made else ""

    assert line("g = grad.sum(0)\nreturn g, None") == "g = grad.sum(0)"
    assert line("g = None\nif ctx:\n    g = grad.t()\nreturn g") == "g = grad.t()"
    assert line("g = grad.t()\ng = g.sum(0)\nreturn g") == "g = g.sum(0)"
    assert line("if ctx:\n    g = grad.t()\nelse:\n    g = grad\nreturn g") == ""
    assert line("g = grad\nfor each in ctx:\n    g += each\nreturn g") == ""
    assert line("if ctx:\n    return None\ng = grad.t()\nreturn g") == ""
    assert line("return grad.t()") == ""


def test_where_several_lines_return_the_one_that_defines_it_is_named() -> None:
    (found,) = told(lambda grad: grad, twice=True)
    assert found.culprit is not None
    assert found.culprit.code.strip().startswith("def backward")
