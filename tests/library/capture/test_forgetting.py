"""A long program is recorded in the memory of its last laps, and what went wrong long ago is still told."""

from __future__ import annotations

import contextlib
import copy
import gc
import itertools
import warnings
import weakref
from collections.abc import Callable, Iterator

import pytest
import torch

import seegrad
from nbjudge_tests.session import some
from seegrad.capture.tables import forget as capture_forget
from seegrad.capture.tables.tensors import FRESH_BYTES, StorageNumbers, Tensors
from seegrad.display.page import page
from seegrad.model.recording import Recording
from tests.data.programs import programs


@pytest.fixture(autouse=True)
def little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small program is a long one here."""
    monkeypatch.setattr(capture_forget, "PATIENCE", 150)


def nothing(_step: int, _y: torch.Tensor) -> None:
    """What most steps do between forward and backward."""


def train(steps: int, each: Callable[[int, torch.Tensor], object] = nothing) -> None:
    """`each(step, y)` may do something between forward and backward."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(steps):
        y = model(torch.randn(2, 4)).sigmoid()
        each(step, y)
        optimizer.zero_grad()
        y.sum().backward()
        optimizer.step()


def numbers(recording: Recording) -> Iterator[tuple[str, int, int]]:
    """(what, number, how many there are) for everything that a Recording refers to."""
    tensors, nodes, frames = len(recording.tensors), len(recording.nodes), len(recording.frames)
    for frame in recording.frames:
        seen = [*frame.inputs, *frame.outputs, *frame.wanted, *dict(frame.values), *(g.tensor for g in frame.gradients)]
        yield from (("tensor", number, tensors) for number in seen)
        yield from (("node", number, nodes) for number in (*frame.nodes, frame.running or 0))
        yield from (("write", number, len(recording.writes)) for number in frame.writes)
    for node in recording.nodes:
        yield "frame", node.frame, frames
        yield from (("node", edge.target, nodes) for edge in node.edges if edge.target is not None)
        yield from (("tensor", saved.tensor, tensors) for saved in node.saved if saved.tensor is not None)
    for each in (*recording.tensors, *recording.writes, *recording.errors):
        yield "frame", each.frame, frames


def recorded(steps: int, each: Callable[[int, torch.Tensor], object] = nothing) -> Recording:
    rec = seegrad.record()
    with rec:
        train(steps, each)
    return rec.recording


def test_the_recording_doesn_t_grow_with_the_steps() -> None:
    few, many = recorded(20), recorded(100)
    assert len(many.frames) <= 2 * len(few.frames)
    assert len(many.tensors) <= 2 * len(few.tensors)
    assert len(many.nodes) <= 2 * len(few.nodes)
    assert many.diagnoses == ()


def test_what_is_left_fits_together() -> None:
    found = recorded(40)
    assert [(what, number) for what, number, count in numbers(found) if not 0 <= number < count] == []
    assert [each.index for each in found.frames] == list(range(len(found.frames)))
    assert [each.id for each in found.tensors] == list(range(len(found.tensors)))
    assert Recording.from_json(found.to_json()) == found
    assert "<svg" in page(found)


def test_a_silent_write_of_long_ago_is_still_told() -> None:
    def corrupt(step: int, y: torch.Tensor) -> None:
        if step == 2:
            y.data.zero_()  # the culprit

    (told,) = recorded(40, corrupt).diagnoses
    assert (told.kind, told.severity, told.tensor) == ("silent_corruption", "wrong", "y")
    assert told.culprit is not None
    assert told.culprit.code.startswith("y.data.zero_()")
    assert told.victim is not None
    assert told.victim.code == "y = model(torch.randn(2, 4)).sigmoid()"


def test_an_error_at_the_end_names_its_line() -> None:
    def overwrite(step: int, y: torch.Tensor) -> None:
        if step == 39:
            y.add_(1)

    rec = seegrad.record()
    with pytest.raises(RuntimeError), rec:
        train(40, overwrite)
    assert [d.culprit.code for d in rec.diagnoses if d.culprit and d.raised] == ["y.add_(1)"]


def test_hooks_of_finished_steps_go_and_those_of_living_tensors_stay() -> None:
    w = torch.ones(2, requires_grad=True)
    with seegrad.record() as rec:
        w.register_hook(print)
        w.sum()
        for _ in itertools.repeat(None, 60):
            y = torch.ones(2, requires_grad=True) * 2
            y.register_hook(abs)
            y.exp().sum().backward()
    assert len(rec._capture._state.tables.hooks.drafts) < 40
    found = [(each.name, rec.recording.tensors[each.tensor or 0].name) for each in rec.recording.hooks]
    assert found[0] == ("print", "w")
    assert found[-1] == ("abs", "y")


def test_a_graph_that_is_carried_along_is_never_forgotten() -> None:
    cell = torch.nn.Linear(2, 2)
    with seegrad.record() as rec:
        hidden = torch.zeros(1, 2)
        for _ in itertools.repeat(None, 60):
            hidden = torch.tanh(cell(hidden))
            (torch.ones(2, requires_grad=True) * 2).sum().backward()
        hidden.sum().backward()
    reached = {frame.op for frame in rec.frames if frame.backward == 60}
    assert {"TanhBackward0", "AddmmBackward0", "AccumulateGrad"} <= reached
    tanhs = [node for node in rec.recording.nodes if node.name == "TanhBackward0"]
    assert len(tanhs) == 60


def test_a_recording_that_nobody_holds_is_gone_at_once() -> None:
    """No cycle: neither the recorder's tables nor what they point at wait for the collector."""
    x = torch.ones(2, requires_grad=True)
    gc.collect()
    gc.disable()
    try:
        with seegrad.record() as rec:
            (x.exp() * 2).sum().backward()
        capture = weakref.ref(rec._capture)
        del rec
        assert capture() is None
    finally:
        gc.enable()


def test_a_write_looks_at_the_living_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Views that a loop has dropped are not asked again whether they live: twice the loop is twice the work."""
    monkeypatch.setattr(capture_forget, "PATIENCE", 100_000)

    def asked(steps: int) -> int:
        calls = []
        alive = Tensors.alive
        with monkeypatch.context() as patch:
            patch.setattr(Tensors, "alive", lambda self, number: (calls.append(number), alive(self, number))[1])
            sums = torch.zeros(3)
            with seegrad.record():
                for step in range(steps):
                    sums[step % 3] += 1
        return len(calls)

    few, many = asked(50), asked(200)
    assert many < 5 * few


def test_python_s_collector_gets_few_objects_to_look_at() -> None:
    """It looks at all there are whenever a quarter more have come: a recording that makes many is slow by that."""

    def objects(steps: int) -> int:
        with seegrad.record():
            y = torch.ones(20, requires_grad=True)
            for _ in range(steps):
                y = y * 1.5
            y.sum().backward()
            for _ in range(3):  # plain data in plain data goes out of its sight level by level
                gc.collect()
            return len(gc.get_objects())

    objects(10)
    assert objects(300) - objects(100) < 200 * 11


def test_what_is_held_of_large_tensors_that_are_gone_is_let_go_after_so_much_memory() -> None:
    """A weak reference is small, but it keeps the C library from using the place of the large block beside it again."""
    numbers = StorageNumbers()
    kept = torch.empty(10)
    assert numbers.number(kept.untyped_storage()) == 0
    for count in range(1, 200):
        assert numbers.number(torch.empty(2**18).untyped_storage()) == count  # 1 MiB each
    assert len(numbers.forget_dead()) == 1
    held = FRESH_BYTES // 2**20 + 1
    for _ in range(5 * held):
        numbers.number(torch.empty(2**18).untyped_storage())
        assert numbers.held <= held + 1
    assert numbers.number(kept.untyped_storage()) == 0


def test_a_model_that_was_trained_long_ago_has_been_held_by_an_optimiser() -> None:
    """Its last loss lives on, with the graph; the steps of its optimiser are told of as long."""
    torch.manual_seed(0)
    teacher, student = torch.nn.Linear(4, 2), torch.nn.Linear(4, 2)
    with seegrad.record() as rec:
        optimizer = torch.optim.SGD(teacher.parameters(), lr=0.1)
        for _ in range(60):
            teachers_loss = teacher(torch.randn(3, 4)).pow(2).mean()
            optimizer.zero_grad()
            teachers_loss.backward()
            optimizer.step()
        own = torch.optim.SGD(student.parameters(), lr=0.1)
        for _ in range(120):
            x = torch.randn(3, 4)
            with torch.no_grad():
                wanted = teacher(x)
            own.zero_grad()
            (student(x) - wanted).pow(2).mean().backward()
            own.step()
    assert not rec.diagnoses
    held = {rec.recording.tensors[leaf].name for use in rec.recording.uses for leaf, _ in use.tensors}
    assert {"teacher.weight", "student.weight"} <= held


def test_what_was_asked_for_by_a_forgotten_call_got_a_gradient() -> None:
    """Forces for a table of data, long before: that its numbers are detached keeps nothing from learning."""
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.Adam(model.parameters())
    with seegrad.record() as rec:
        places = torch.randn(8, 3).requires_grad_(True)
        energy = places.pow(2).sum(1)
        force = -torch.autograd.grad(energy.sum(), places)[0]
        data = places.detach(), energy.detach(), force
        for _ in range(60):
            at = data[0].clone().requires_grad_(True)
            found = model(at).tanh()[:, 0]
            slope = -torch.autograd.grad(found.sum(), at, create_graph=True)[0]
            loss = (found - data[1]).pow(2).mean() + (slope - data[2]).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    assert not rec.diagnoses


def test_what_was_cleared_before_something_was_forgotten_is_no_stumbling_block() -> None:
    """Zeros in place are told of at the next step: by then the Frame they came in may be gone."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with seegrad.record() as rec:
        for many in (1, 40):
            optimizer.zero_grad(set_to_none=False)
            for _ in range(many):
                model(torch.randn(3, 4)).pow(2).mean().backward()
            optimizer.step()
    assert rec.recording.frames
    assert all(use.frame < len(rec.recording.frames) for use in rec.recording.uses)
    assert not rec.diagnoses


def test_a_short_frame_outlives_the_node_that_ran_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies that are stepped by hand: what is met while gradients are asked for lives on, the graph doesn't."""
    monkeypatch.setattr(capture_forget, "PATIENCE", 300)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(2, 24), torch.nn.Tanh(), torch.nn.Linear(24, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)

    def adapted() -> torch.nn.Module:
        fast = copy.deepcopy(model)
        for _ in range(2):
            loss = fast(torch.randn(5, 2)).pow(2).mean()
            gradients = torch.autograd.grad(loss, list(fast.parameters()), create_graph=True)
            for parameter, gradient in zip(fast.parameters(), gradients, strict=True):
                parameter.data -= 0.1 * gradient
        return fast

    def step() -> None:
        total = torch.zeros(())
        for _ in range(3):
            total = total + adapted()(torch.randn(5, 2)).pow(2).mean()
        optimizer.zero_grad()
        total.backward()
        optimizer.step()

    with seegrad.record() as rec:
        for _ in range(4):
            step()
    assert rec.recording.frames
    assert all(0 <= number < many for _what, number, many in numbers(rec.recording))


@pytest.mark.parametrize("how", ["in a list", "in a sum"])
def test_graphs_that_are_kept_are_told_however_long_the_training_was(how: str) -> None:
    """The steps between the laps are forgotten, and which results belong to which lap isn't."""

    def told(steps: int) -> list[str]:
        torch.manual_seed(0)
        model, total, losses = torch.nn.Linear(4, 1), torch.zeros(()), []
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with seegrad.record() as rec:
            for _ in range(steps):
                loss = model(torch.randn(2, 4)).pow(2).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                if how == "in a list":
                    losses.append(loss)
                else:
                    total = total + loss
        return [each.message() for each in rec.diagnoses]

    assert len(told(4)) == 1
    assert told(4) == told(60) == told(300)


@pytest.mark.parametrize("longest", [20_000, 200])
@pytest.mark.parametrize("after", ["nothing", "asked", "looked at", "trained"])
def test_what_comes_after_a_training_hides_nothing_of_it(
    monkeypatch: pytest.MonkeyPatch, after: str, longest: int
) -> None:
    """Slopes that are asked for, a long validation, another training: the term was constant while it was trained."""
    monkeypatch.setattr(capture_forget, "LONGEST_LAP", longest)
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def losses() -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.randn(5, 3).requires_grad_()
        y = net(x)
        slope = torch.autograd.grad(y.sum(), x, retain_graph=True)[0]
        return y.pow(2).mean(), slope.pow(2).mean()

    with seegrad.record() as rec:
        for _ in range(30):
            value, slope = losses()
            loss = value + slope
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            del loss, value, slope
        for _ in range(0 if after == "nothing" else 60):
            if after == "asked":
                losses()
            elif after == "trained":
                optimizer.zero_grad()
                net(torch.randn(5, 3)).pow(2).mean().backward()
                optimizer.step()
            else:
                with torch.no_grad():
                    net(torch.randn(5, 3))
    assert [each.kind for each in rec.diagnoses] == ["constant_term"]
    assert len(rec.recording.frames) < 10 * longest
    assert [(what, number) for what, number, many in numbers(rec.recording) if not 0 <= number < many] == []


def test_a_long_loop_that_only_asks_for_gradients_is_flat(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a training before it nor a training by its gradients makes it grow."""
    monkeypatch.setattr(capture_forget, "LONGEST_LAP", 300)

    def frames(laps: int, before: int) -> int:
        w = torch.ones(3, requires_grad=True)
        with seegrad.record() as rec:
            for _ in range(before):
                (w * torch.randn(3)).sum().backward()
            for _ in range(laps):
                (slope,) = torch.autograd.grad((w * torch.randn(3)).pow(2).sum(), w)
                with torch.no_grad():
                    w -= 0.01 * slope
        return len(rec.recording.frames)

    assert frames(300, 0) < 300
    assert frames(300, 5) < 1_000
    assert frames(600, 5) < 1_000


@pytest.mark.parametrize("name", some(40, sorted(programs())))
def test_what_is_left_of_a_long_program_breaks_no_rule(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    """Of Frames that are needed for something else, lines are kept and no tensors."""
    monkeypatch.setattr(capture_forget, "PATIENCE", 30)
    torch.manual_seed(0)
    with warnings.catch_warnings(action="ignore"), contextlib.suppress(Exception), seegrad.record() as rec:
        programs()[name].run()
    assert rec.recording.frames
    assert [each.getMessage() for each in caplog.records] == []
