"""Recording changes nothing: values to the bit, errors, warnings, versions, and nothing is left behind."""

from __future__ import annotations

import gc
import io
import subprocess
import sys
import textwrap
import traceback
import warnings
import weakref
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch

import seegrad
from nbjudge_tests.session import some
from tests.data.programs import programs
from tests.data.transparency import wholes
from tests.data.transparency.observe import Observation, observe


@pytest.fixture(autouse=True)
def own_errors_are_raised(monkeypatch):
    monkeypatch.setenv("SEEGRAD_RAISE_OWN_ERRORS", "1")


@pytest.fixture(autouse=True, scope="module")
def torch_has_compiled() -> None:
    """From the first `torch.compile` on optimisers step through a frame more: no program is to be the first."""
    torch.compile(lambda: None, backend="eager")()


@cache
def alone(run: Callable[[], Any]) -> Observation:
    """What a program shows without a recorder; its second run, when torch's own caches are warm."""
    observe(run, None)
    return observe(run, None)


@pytest.mark.parametrize("name", some(50, programs()))
def test_the_clinic_s_programs_show_the_same(name: str) -> None:
    run = programs()[name].run
    expected = alone(run)
    assert observe(run, "default") == expected


@pytest.mark.parametrize("name", wholes())
def test_whole_programs_show_the_same(name: str) -> None:
    run = wholes()[name]
    expected = alone(run)
    assert observe(run, "default") == expected


@pytest.mark.parametrize("name", some(40, [*programs(), *wholes()]))
def test_all_the_more_where_contents_are_kept(name: str) -> None:
    run = programs()[name].run if name in programs() else wholes()[name]
    expected = alone(run)
    assert observe(run, "content") == expected


def test_nothing_is_switched_on_afterwards() -> None:
    before = torch._C._len_torch_function_stack()
    for error in (None, ValueError, KeyboardInterrupt, SystemExit):
        rec = seegrad.record()
        try:
            with rec:
                torch.ones(2, requires_grad=True).exp().sum().backward()
                if error is not None:
                    raise error
        except (ValueError, KeyboardInterrupt, SystemExit):
            pass
        assert torch._C._len_torch_function_stack() == before
        frames = len(rec.frames)
        torch.ones(2).add_(1)
        assert len(rec.frames) == frames


def test_no_hook_stays_on_a_graph() -> None:
    a = torch.ones(2, requires_grad=True)
    with seegrad.record() as rec:
        loss = a.exp().sum()
        loss.backward(retain_graph=True)
    frames = len(rec.frames)
    seen = []
    a.register_hook(seen.append)
    loss.backward(retain_graph=True)
    assert len(seen) == 1
    assert len(rec.frames) == frames


def test_the_hooks_are_gone_after_an_error_in_backward() -> None:
    a = torch.ones(2, requires_grad=True)
    rec = seegrad.record()
    with pytest.raises(RuntimeError), rec:  # noqa: PT012  # the whole block is recorded
        b = a.exp()
        loss = b.sum() + a.sum()
        b.detach().zero_()
        loss.backward()
    frames = len(rec.frames)
    a.grad = None
    with pytest.raises(RuntimeError):
        loss.backward()
    assert len(rec.frames) == frames


@pytest.mark.parametrize("detail", ["default", "content"])
def test_tensors_die_as_they_would(detail: str) -> None:
    with seegrad.record(detail=detail) as rec:
        a = torch.ones(3, requires_grad=True)
        b = a.exp()
        temporary = weakref.ref(b)
        loss = b.sum()
        del b
        loss.backward()
        del loss
        gc.collect()
        assert temporary() is None
    leaf = weakref.ref(a)
    del a
    gc.collect()
    assert leaf() is None
    assert rec.frames


def test_torch_s_own_message_stays_and_the_explanation_is_a_note() -> None:
    program = programs()["s000_in23_detach"]
    with pytest.raises(RuntimeError) as alone:
        program.run()
    with pytest.raises(RuntimeError) as recorded, seegrad.record() as rec:
        program.run()
    assert str(recorded.value) == str(alone.value)
    assert recorded.value.__notes__ == [f"seegrad: {rec.diagnoses[0].message()}"]


def test_the_traceback_shows_none_of_our_frames() -> None:
    text = io.StringIO()
    try:
        with seegrad.record():
            programs()["s000_in23_detach"].run()
    except RuntimeError:
        traceback.print_exc(file=text)
    assert "seegrad/capture" not in text.getvalue()
    assert "recorded call" not in text.getvalue()


def test_a_warning_names_the_user_s_line() -> None:
    a = torch.ones(2, requires_grad=True)
    with warnings.catch_warnings(record=True) as caught, seegrad.record():
        warnings.simplefilter("always")
        b = a * 2
        b.grad  # noqa: B018  # reading it is what warns
    assert [w.filename for w in caught] == [__file__]


def test_the_random_numbers_are_the_same() -> None:
    torch.manual_seed(3)
    expected = torch.rand(5), torch.rand(5)
    torch.manual_seed(3)
    with seegrad.record(detail="content"):
        first = torch.rand(5)
    assert torch.equal(first, expected[0])
    assert torch.equal(torch.rand(5), expected[1])


def test_a_graph_of_many_nodes_is_ordinary() -> None:
    with seegrad.record() as rec:
        x = torch.ones((), requires_grad=True)
        y = x
        for _ in range(3000):
            y = y + 1
        y.backward()
    assert len(rec.recording.nodes) == 3001
    assert x.grad == 1


def test_a_compiled_function_gives_what_it_gives_alone() -> None:
    """The compiler reads the code of active modes: what it reads must be nothing but the call."""
    script = """
        import torch, seegrad
        function = torch.compile(lambda x: (x.sin() * 2).sum(), backend="eager")
        a = torch.ones(3, requires_grad=True)
        with seegrad.record() as rec:
            y = function(a)
            y.backward()
        b = torch.ones(3, requires_grad=True)
        (b.sin() * 2).sum().backward()
        print(torch.equal(y, (b.sin() * 2).sum()), torch.equal(a.grad, b.grad), rec.diagnoses)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["True True ()"]


def test_one_record_inside_another() -> None:
    with seegrad.record() as outer:
        a = torch.ones(2, requires_grad=True)
        with seegrad.record() as inner:
            b = a.exp()
            b.data.zero_()
            b.sum().backward()
    assert [d.kind for d in inner.diagnoses] == [d.kind for d in outer.diagnoses] == ["silent_corruption"]
    assert inner.diagnoses[0].culprit == outer.diagnoses[0].culprit


def test_an_error_is_explained_once_however_many_record_it() -> None:
    with pytest.raises(RuntimeError) as raised, seegrad.record(), seegrad.record():
        torch.ones(2, requires_grad=True).add_(1)
    assert len(raised.value.__notes__) == 1


def test_an_error_in_our_own_bookkeeping_stays_ours(monkeypatch, caplog) -> None:
    from seegrad.capture.tables import tensors as seen

    monkeypatch.delenv("SEEGRAD_RAISE_OWN_ERRORS")
    monkeypatch.setattr(seen, "preview", lambda tensor: tensor.numel() / 0)
    with seegrad.record():
        a = torch.ones(2, requires_grad=True)
        (a * 3).sum().backward()
    assert a.grad.tolist() == [3, 3]
    assert "ZeroDivisionError" in caplog.text


def test_an_error_in_our_own_diagnosis_does_not_hide_the_user_s(monkeypatch, caplog) -> None:
    from seegrad import recorder

    monkeypatch.delenv("SEEGRAD_RAISE_OWN_ERRORS")
    monkeypatch.setattr(recorder, "diagnose", lambda recording, _ask: recording.frames[10**9])
    rec = seegrad.record()
    with pytest.raises(KeyError, match="mine"), rec:
        raise KeyError("mine")
    assert rec.diagnoses == ()
    assert "IndexError" in caplog.text


def test_importing_the_recorder_imports_no_compiler() -> None:
    code = "import sys, seegrad; print('torch._dynamo' in sys.modules, 'torch._inductor' in sys.modules)"
    alone = "import sys, torch; print('torch._dynamo' in sys.modules, 'torch._inductor' in sys.modules)"
    said = [
        subprocess.run([sys.executable, "-c", text], capture_output=True, check=True).stdout for text in (code, alone)
    ]
    assert said[0] == said[1]
