"""Recording makes no Node: those that torch makes late, once somebody asks, come in the order of the plain run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

import seegrad
from nbjudge_tests.session import some
from seegrad.capture import mode
from seegrad.capture.mode import Detail
from tests.data.programs import programs

X = torch.tensor([0.1, 0.7, 1.3, -0.2])


@pytest.fixture(autouse=True, scope="module")
def no_node_is_made() -> Iterator[None]:
    """Torch's count of Nodes stands still while the recorder keeps its books."""
    plain = mode.quietly

    def counted(work: Callable[..., Any], *args: Any) -> Any:
        before = torch.autograd._get_sequence_nr()
        result = plain(work, *args)
        assert torch.autograd._get_sequence_nr() == before, work
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mode, "quietly", counted)
        yield


def stale(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A result, and a view of it whose grad_fn torch has to make anew."""
    y = x * 1
    v = y[:]
    y.mul_(2)
    return y, v


def shared(x: torch.Tensor, look: Callable[[torch.Tensor], Any]) -> torch.Tensor:
    """A loss in which three gradients meet: their sum depends on the order of the Nodes."""
    y, v = stale(x)
    look(v)
    a = (y * 1e8).sum()
    return a + (v * 3.3333333).sum() - (y * 1e8).sum() + (v.exp() * 0.1).sum()


LOOKS: dict[str, Callable[[torch.Tensor], Any]] = {
    "a question": lambda v: v.isnan().any(),
    "itself": lambda v: v.contiguous(),
    "a comparison": lambda v: (v > 0).sum(),
    "detach": lambda v: v.detach() + 1,
    "gradient": lambda v: v.grad if v.retains_grad else None,
    "numpy": lambda v: v.detach().numpy(),
    "without gradients": lambda v: torch.no_grad()(torch.add)(v, 1),
    "in a list": lambda v: [v.isnan(), {"v": v}],
    "a name": lambda v: globals().__setitem__("again", v),
    "kept": lambda v: v.retain_grad(),
    "used": lambda v: v.sum(),
    "printed": repr,
}


def run(look: Callable[[torch.Tensor], Any], detail: Detail | None) -> tuple[list[str], torch.Tensor]:
    x = X.clone().requires_grad_()
    with seegrad.record(detail) if detail else contextlib.nullcontext():
        loss = shared(x, look)
        order = nodes(loss)
        loss.backward()  # type: ignore[no-untyped-call]  # torch gives it no types
    assert x.grad is not None
    return order, x.grad


def nodes(loss: torch.Tensor) -> list[str]:
    """Every Node behind the loss, in the order of torch's numbers."""
    found, waiting = {}, [loss.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in found:
            found[node] = node._sequence_nr()  # type: ignore[attr-defined]  # the number is private
            waiting += [each for each, _ in node.next_functions]
    return [node.name() for node in sorted(found, key=lambda node: found[node])]


@pytest.mark.filterwarnings("ignore:The .grad attribute")
@pytest.mark.parametrize("detail", ["default", "content"])
@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_a_view_of_a_written_base_is_asked_about_when_the_program_asks(
    look: Callable[[torch.Tensor], Any], detail: Detail
) -> None:
    plain, recorded = run(look, None), run(look, detail)
    assert recorded[0] == plain[0]
    assert torch.equal(recorded[1], plain[1])


STEPS: dict[str, Callable[[list[torch.Tensor]], Any]] = {
    "view": lambda held: held.append(held[-1][1:] if held[-1].numel() > 1 else held[-1].view(-1)),
    "view of the first": lambda held: held.append(held[0][:2]),
    "write the first": lambda held: held[0].mul_(1.1),
    "write the last": lambda held: held[-1].add_(0.3),
    "write unseen": lambda held: torch.no_grad()(held[0].mul_)(1.0),
    "ask the last": lambda held: held[-1].isnan().any(),
    "ask all": lambda held: [each.contiguous() > 0 for each in held],
    "use the last": lambda held: held.append(held[-1] * 0.7),
    "use the first": lambda held: held.insert(0, held[0] * 1.3),
    "keep": lambda held: held[-1].retain_grad(),
}


def follow(steps: list[str], record: bool) -> tuple[list[str], torch.Tensor]:
    x = X.clone().requires_grad_()
    with seegrad.record() if record else contextlib.nullcontext():
        held = [x * 1]
        for step in steps:
            STEPS[step](held)
        loss = torch.stack([each.sum() * (i + 0.1) for i, each in enumerate(held)]).sum()
        order = nodes(loss)
        loss.backward()  # type: ignore[no-untyped-call]  # torch gives it no types
    assert x.grad is not None
    return order, x.grad


@given(st.lists(st.sampled_from(sorted(STEPS)), min_size=2, max_size=12))
@example(["view", "keep", "write the first", "keep"])
def test_any_program_of_views_and_writes_keeps_its_order(steps: list[str]) -> None:
    plain, recorded = follow(steps, record=False), follow(steps, record=True)
    assert recorded[0] == plain[0]
    assert torch.equal(recorded[1], plain[1])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", some(60, sorted(programs())))
def test_no_program_of_the_corpus_gets_another_node(name: str) -> None:
    with contextlib.suppress(Exception), seegrad.record():
        programs()[name].run()
