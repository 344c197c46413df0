"""Programs that nobody wrote: torch itself says whether they raise, which line did it, and which gradient is wrong."""

from __future__ import annotations

import linecache
from collections.abc import Callable

import pytest
import torch
from hypothesis import HealthCheck, event, example, given, settings

import seegrad
from nbjudge_tests.session import ALL
from seegrad.capture.probes import torch_private as _torch
from seegrad.model.recording import Diagnosis
from tests.data.random_programs import Account, Source, alike, as_torch_says, gradients, sources, true_gradients

KINDS = {
    "modified by an inplace operation": "saved_tensor_modified",
    "leaf Variable that requires grad": "leaf_modified",
    "backward through the graph a second time": "graph_freed",
    "does not require grad and does not have a grad_fn": "graph_cut",
    "function that returns multiple views": "view_modified",
    "created in no_grad mode": "view_modified",
    "single memory location": "memory_overlaps",
}
"""The stable part of torch's message → the Diagnosis that it must get."""

FILE = "<random program>"

pytestmark = pytest.mark.filterwarnings("ignore:grad and param do not obey")
"""Torch says so once a process: to the first of the two runs that are compared."""

ORACLE = pytest.mark.skipif(not _torch.READS_SAVED, reason="the oracle reads SavedTensor.data, new in torch 2.10")


@pytest.fixture(autouse=True)
def own_errors_are_raised(monkeypatch):
    monkeypatch.setenv("SEEGRAD_RAISE_OWN_ERRORS", "1")


def recorded(source: Source, detail: str) -> tuple[tuple[str, str] | None, tuple, tuple[Diagnosis, ...]]:
    """(error, gradients, diagnoses) of one recorded run."""
    space = {"torch": torch}
    linecache.cache[FILE] = (len(source.text), None, source.text.splitlines(keepends=True), FILE)
    code, error = compile(source.text, FILE, "exec"), None
    rec = seegrad.record(detail=detail)
    try:
        with rec:
            exec(code, space)  # noqa: S102  # the program is made by random_programs
    except Exception as raised:
        error = (type(raised).__name__, str(raised))
    return error, gradients(space), rec.diagnoses


def judge(source: Source, detail: str) -> None:
    """Compare what the recorder says with what torch says."""
    torch_says = as_torch_says(source)
    error, grads, diagnoses = recorded(source, detail)
    assert error == torch_says.error
    assert all((a is None) == (b is None) for (_, a), (_, b) in zip(grads, torch_says.gradients, strict=True))
    assert all(a is None or torch.equal(a, b) for (_, a), (_, b) in zip(grads, torch_says.gradients, strict=True))
    errors = [each for each in diagnoses if each.severity == "error"]
    if error is None:
        assert not errors
        right = alike(torch_says.gradients, true_gradients(source))
        event(f"gradients are right: {right}")
        judge_gradients(source, right, torch_says.changed, diagnoses)
        return
    kind = next((kind for core, kind in KINDS.items() if core in error[1]), None)
    event(f"torch raises: {kind}")
    assert kind is not None, f"an error that nobody thought of: {error}"
    judge_error(kind, errors, torch_says)


def judge_gradients(source: Source, right: bool, changed: frozenset[int], diagnoses: tuple[Diagnosis, ...]) -> None:
    """A `wrong` Diagnosis exists iff the gradient is wrong, and names a line that changed what was saved."""
    wrong = [each for each in diagnoses if each.severity == "wrong"]
    assert wrong or right, "a wrong gradient without a Diagnosis"
    if right and not source.kinked:
        assert not wrong, "a false alarm"
    for each in wrong:
        assert each.culprit is not None
        assert each.culprit.line in changed


def judge_error(kind: str, errors: list[Diagnosis], torch_says: Account) -> None:
    """An `error` Diagnosis exists, of the right kind, with torch's own lines."""
    assert [each.kind for each in errors] == [kind]
    (found,) = errors
    if kind == "graph_cut":
        return  # where the graph ends is a matter of the program's meaning: tests/data/programs has the lines
    if torch_says.culprits:
        assert found.culprit is not None
        assert found.culprit.line in torch_says.culprits
    if kind in ("saved_tensor_modified", "graph_freed"):
        assert found.victim is not None
        assert found.victim.line == torch_says.victim


LEAF = "w0 = torch.tensor([[0.0, 0.862], [1.091, 0.567]], dtype=torch.float64, requires_grad=True)\n"
END = "loss = (v2 * 0.7).sum()\nloss.backward()\n"
FOUND = [
    "v1 = w0 @ w0\nv2 = v1 * v1\nv2[0] = 0.8\nv1.data[0] -= 0.7\n",  # what has changed meets a gradient of 0 alone
    "v1 = w0.sin()\nv2 = v1[0]\nwith torch.no_grad(): v1 = w0.data\nv1[:, 0] *= 2\n",
    "v1 = w0 @ w0\nv2 = v1 / (v1.square() + 1)\nv2[0] = 0.8\nv1.data[0] -= 0.7\n",
    "v1 = w0 @ w0\nv2 = v1 @ v1\nv2[0] = 0.8\nv1.data[0] -= 0.7\n",  # as a factor of columns it's met
    "v2 = w0.sin()\nv3 = w0.detach().t()\nv3.data = v3.data * 0.9\nw0.data.mul_(1.3)\n",  # one line wrote nothing
    f"v2 = w0.sigmoid()\n{END}with torch.no_grad(): w0.mul_(1.7)\n",  # freed, and of older numbers
]
"""What newly drawn programs have shown."""


def drawn_before(test: Callable[..., None]) -> Callable[..., None]:
    """Those beside the newly drawn."""
    for lines in FOUND:
        test = example(source=Source(f"{LEAF}{lines}{END}", kinked=False))(test)
    return test


@ORACLE
@drawn_before
@given(source=sources())
@settings(
    max_examples=300 if ALL else 60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
def test_random_programs_are_judged_as_torch_judges_them(source: Source) -> None:
    judge(source, "default")


@ORACLE
@drawn_before
@given(source=sources())
@settings(
    max_examples=60 if ALL else 12, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
def test_the_content_level_judges_them_the_same(source: Source) -> None:
    judge(source, "content")
