"""Random programs: torch decides whether they raise, a clean run of the same maths whether the gradient is right."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from unittest import mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import seegrad
from nbjudge_tests.session import ALL
from seegrad.diagnose import SEVERITIES

UNARY = ("sigmoid", "exp", "tanh", "sin", "relu", "square", "double", "shift")
ROUTES = ("self", "detach", "data", "view", "data_view")


@dataclass(frozen=True)
class Op:
    name: str
    inputs: tuple[int, ...]


@dataclass(frozen=True)
class Overwrite:
    target: int
    route: str
    factor: float


@st.composite
def random_programs(draw: st.DrawFn) -> list[Op | Overwrite]:
    """Two leaves, then ops on anything made so far, with in-place writes between them."""
    steps: list[Op | Overwrite] = []
    made = 2
    for _ in range(draw(st.integers(2, 8))):
        if draw(st.booleans()) or made == 2:
            two = draw(st.booleans())
            name = draw(st.sampled_from(("mul", "add") if two else UNARY))
            steps.append(Op(name, tuple(draw(st.integers(0, made - 1)) for _ in range(1 + two))))
            made += 1
        else:
            target, route = draw(st.integers(0, made - 1)), draw(st.sampled_from(ROUTES))
            if target < 2 and route in ("self", "view"):
                route = "data"  # a leaf refuses the others on the spot
            steps.append(Overwrite(target, route, draw(st.sampled_from((1.0, 1.5)))))
    return steps


def apply(op: Op, tensors: list[torch.Tensor]) -> torch.Tensor:
    given_ = [tensors[i] for i in op.inputs]
    if op.name == "square":
        return given_[0] * given_[0]
    if op.name == "double":
        return given_[0] * 2
    if op.name == "shift":
        return given_[0] + 0.25
    result: torch.Tensor = getattr(torch, op.name)(*given_)
    return result


def leaves() -> list[torch.Tensor]:
    return [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in ([0.5, 0.7, 0.3], [0.9, 0.4, 0.6])]


def gradients(steps: list[Op | Overwrite]) -> list[torch.Tensor | None]:
    """As a user would write it."""
    tensors = leaves()
    first = tensors[:2]
    for step in steps:
        if isinstance(step, Op):
            tensors.append(apply(step, tensors))
        else:
            overwrite(tensors[step.target], step)
    tensors[-1].sum().backward()
    return [leaf.grad for leaf in first]


def overwrite(tensor: torch.Tensor, step: Overwrite) -> None:
    if step.route == "self":
        tensor.mul_(step.factor)
    elif step.route == "detach":
        tensor.detach().mul_(step.factor)
    elif step.route == "data":
        tensor.data.mul_(step.factor)
    elif step.route == "view":
        tensor[:2].mul_(step.factor)
    else:
        tensor.data[1:].mul_(step.factor)


def right_gradients(steps: list[Op | Overwrite]) -> list[torch.Tensor | None]:
    """The same maths without sharing memory: each write makes a new tensor, so every Node keeps what it saved.

    A write that autograd doesn't see changes the value and passes the gradient through; one that it sees scales both.
    """
    tensors = leaves()
    first = tensors[:2]
    for step in steps:
        if isinstance(step, Op):
            tensors.append(apply(step, tensors))
            continue
        scale = torch.full((3,), step.factor, dtype=torch.float64)
        scale[2 if step.route == "view" else 3 :] = 1
        scale[: 1 if step.route == "data_view" else 0] = 1
        old = tensors[step.target]
        seen = step.route in ("self", "view")
        tensors[step.target] = old * scale if seen else old + (old * scale - old).detach()
    tensors[-1].sum().backward()
    return [leaf.grad for leaf in first]


def agree(one: list[torch.Tensor | None], other: list[torch.Tensor | None]) -> bool:
    return all(
        (a is None) == (b is None) and (a is None or b is None or torch.allclose(a, b, rtol=1e-9, atol=0))
        for a, b in zip(one, other, strict=True)
    )


@settings(deadline=None, max_examples=300 if ALL else 60)
@given(random_programs())
@mock.patch.dict(os.environ, SEEGRAD_RAISE_OWN_ERRORS="1")
def test_the_diagnosis_agrees_with_torch_and_with_a_clean_run(steps: list[Op | Overwrite]) -> None:
    rec, raised, found = seegrad.record(), None, None
    try:
        with rec:
            found = gradients(steps)
    except RuntimeError as error:
        raised = error
    kinds = [d.kind for d in rec.diagnoses if d.severity != "note"]
    if raised is not None:
        assert "modified by an inplace operation" in str(raised)
        assert kinds[0] == "saved_tensor_modified"
        assert rec.diagnoses[0].culprit is not None
        assert rec.diagnoses[0].culprit.code.endswith("mul_(step.factor)")
        return
    assert found is not None
    assert kinds == ([] if agree(found, right_gradients(steps)) else ["silent_corruption"] * len(kinds)), steps
    assert bool(kinds) != agree(found, right_gradients(steps)), steps


def test_the_most_important_comes_first() -> None:
    with seegrad.record() as rec:
        a = torch.ones(3, requires_grad=True)
        b = (a * 2).detach()
        (b * 2).sum()
        out = a.sigmoid()
        out.data.zero_()
        (out.sum() + b.sum()).backward()
        with contextlib.suppress(RuntimeError):
            torch.ones(2).sum().backward()
    ranks = [SEVERITIES.index(d.severity) for d in rec.diagnoses]
    assert ranks == sorted(ranks)
    assert [d.kind for d in rec.diagnoses][:2] == ["graph_cut", "silent_corruption"]


def test_one_line_that_hits_many_is_one_diagnosis() -> None:
    model = torch.nn.Sequential(*(torch.nn.Linear(2, 2) for _ in range(4)))
    with seegrad.record() as rec:
        x = torch.ones(1, 2, requires_grad=True)
        loss = model(x).sum()
        for p in model.parameters():
            p.data.mul_(0.5)
        loss.backward()
    (only,) = rec.diagnoses
    assert dict(only.arguments)["others"] == 3
    assert only.message().count("3 more Nodes") == 1


HELPER = """import torch
def scale(h):
    h{write}
    {more}
w = torch.ones(2, requires_grad=True)
h = w.exp()
scale(h)
h.sum().backward()
"""


@pytest.mark.parametrize(
    ("write", "more", "line"),
    [
        (".data.div_(2)", "", None),
        (".data.div_(2)", "print(h)", "h = h.div(2)"),
        (".mul_(2)", "", None),
        (" *= 2", "return h", "h = h * 2"),
    ],
)
def test_a_name_that_nobody_reads_after_is_not_given_a_new_value(write: str, more: str, line: str | None) -> None:
    """The caller's tensor has to be another one: only what its function hands back, or still uses, can be."""
    text = HELPER.format(write=write, more=more)
    with contextlib.suppress(RuntimeError), seegrad.record(code=("helper.py", 1, text)) as rec:
        exec(compile(text, "helper.py", "exec"), {})  # noqa: S102  # the program above
    (found,) = rec.diagnoses
    assert (found.mend and found.mend.line) == line
    if found.kind == "silent_corruption":
        assert ("take it up where `scale` is called" in found.message()) == (line is None)
