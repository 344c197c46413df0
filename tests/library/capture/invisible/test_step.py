"""An optimiser's step is one event: what it wrote, with its versions; beside it, the same step recorded op by op."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
from torch import nn

import seegrad
from seegrad.model.recording import STEP, Frame, Recording

Make = Callable[..., torch.optim.Optimizer]

KINDS = [
    *(("SGD", {"momentum": 0.9, "nesterov": True}), ("SGD", {"foreach": True, "maximize": True})),
    *(("Adam", {}), ("Adam", {"foreach": True, "amsgrad": True}), ("Adam", {"capturable": False, "weight_decay": 0.1})),
    *(("AdamW", {}), ("AdamW", {"foreach": True}), ("RMSprop", {}), ("Adagrad", {}), ("Adadelta", {}), ("NAdam", {})),
    *(("RAdam", {}), ("Adamax", {}), ("ASGD", {}), ("Rprop", {}), ("Adafactor", {})),
]


def own(kind: type[torch.optim.Optimizer]) -> Make:
    """The same optimiser with a step of the user's: recorded op by op."""

    class Own(kind):  # type: ignore[misc,valid-type]  # a class from outside
        def step(self, closure=None):
            return super().step(closure)

    return Own


def trained(make: Make, options: dict[str, object], *, recorded: bool = True) -> tuple[Recording | None, list[bytes]]:
    """Two steps of a small model, and all bytes afterwards."""
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)), torch.randn(5, 3)
    optimiser = make(model.parameters(), lr=0.01, **options)
    with seegrad.record() if recorded else contextlib.nullcontext() as rec:
        for _ in range(2):
            optimiser.zero_grad()
            model(x).pow(2).mean().backward()
            optimiser.step()
    kept = [each for state in optimiser.state.values() for each in state.values() if isinstance(each, torch.Tensor)]
    bytes_ = [each.detach().numpy().tobytes() for p in model.parameters() for each in (p, p.grad)]
    return rec.recording if rec else None, [*bytes_, *(each.numpy().tobytes() for each in kept)]


def steps(recording: Recording) -> list[Frame]:
    return [frame for frame in recording.frames if frame.op == STEP]


def moved(recording: Recording) -> dict[str, list[tuple[int, int]]]:
    """Leaf → for each stretch of writes on the line of a step, the version before and after."""
    found: dict[str, list[tuple[int, int]]] = {}
    lap, last = 0, 0
    for write in recording.writes:
        name = recording.tensors[write.tensor].name
        if name is None or "step" not in write.place.code:
            continue
        since = sum(1 for frame in recording.frames[last : write.frame] if frame.phase == "backward")
        lap, last = lap + bool(since), write.frame
        found.setdefault(name, [])
        known = found[name]
        if len(known) == lap:
            known[-1] = (known[-1][0], write.version_after)
        else:
            known.append((write.version_before, write.version_after))
    return found


@pytest.mark.parametrize(("name", "options"), KINDS)
def test_a_step_is_one_frame_that_says_what_the_ops_say(name: str, options: dict[str, object]) -> None:
    kind = getattr(torch.optim, name)
    whole, bits = trained(kind, options)
    in_ops, same = trained(own(kind), options)
    _, plain = trained(kind, options, recorded=False)
    assert bits == same == plain
    assert whole is not None
    assert in_ops is not None
    assert [len(frame.writes) for frame in steps(whole)] == [4, 4]
    assert not steps(in_ops)
    assert moved(whole) == moved(in_ops)
    names = [whole.tensors[each].name for each in steps(whole)[0].outputs]
    assert names == ["model.0.weight", "model.0.bias", "model.2.weight", "model.2.bias"]


def test_a_closure_is_recorded_whole_and_what_the_step_wrote_stands_between_its_runs() -> None:
    w = torch.tensor([3.0, -2.0], requires_grad=True)
    optimiser = torch.optim.LBFGS([w], max_iter=3)
    seen = []

    def closure():
        optimiser.zero_grad()
        loss = (w.exp() - w).sum()
        loss.backward()
        seen.append(w._version)
        return loss

    with seegrad.record() as rec:
        optimiser.step(closure)
    recording = rec.recording
    ops = [frame.op for frame in recording.frames if frame.phase in ("forward", "inplace")]
    assert len(seen) == 3
    assert ops == ["exp", "sub", "sum", *([STEP, "exp", "sub", "sum"] * 2)]  # it ends with a look at the loss
    assert [(write.version_before, write.version_after) for write in recording.writes] == list(pairwise(seen))


def test_a_closure_without_a_line_of_its_own_is_recorded_too() -> None:
    layer = nn.Linear(2, 1)
    with seegrad.record() as rec:
        layer(torch.ones(1, 2)).sum().backward()
        torch.optim.SGD(layer.parameters(), lr=0.1).step(functools.partial(layer, torch.ones(1, 2)))
    ops = [frame.op for frame in rec.recording.frames if frame.phase in ("forward", "inplace")]
    assert ops[-3:] == ["ones", "linear", STEP]


def test_torchs_own_detour_for_its_compiler_is_part_of_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once the compiler is loaded, it stands between a step and what the step calls."""
    monkeypatch.setattr(torch.optim.Adam, "_init_group", torch.compiler.disable(torch.optim.Adam._init_group))
    recording, _ = trained(torch.optim.Adam, {})
    assert recording is not None
    assert [frame.op for frame in recording.frames if frame.place and "step()" in frame.place.code] == [STEP, STEP]


def test_what_a_closure_writes_is_its_own_lines_write() -> None:
    w = torch.ones(2, requires_grad=True)
    optimiser = torch.optim.SGD([w], lr=0.1)

    def closure():
        with torch.no_grad():
            w.add_(0.5)
        loss = (w * w).sum()
        loss.backward()
        return loss

    with seegrad.record() as rec:
        optimiser.step(closure)
    assert [(write.op, write.version_before, write.version_after) for write in rec.recording.writes] == [
        ("add_", 0, 1),
        (STEP, 1, 2),
    ]


def test_a_hook_of_the_users_on_the_optimiser_is_recorded() -> None:
    w = torch.ones(2, requires_grad=True)
    optimiser = torch.optim.Adam([w], lr=0.1)

    def halve(*_):
        w.grad.mul_(0.5)

    def clip(*_):
        w.data.clamp_(max=0.95)

    optimiser.register_step_pre_hook(halve)
    optimiser.register_step_post_hook(clip)
    with seegrad.record() as rec:
        (w * w).sum().backward()
        optimiser.step()
    assert [write.op for write in rec.recording.writes] == ["mul_", STEP, "clamp_"]


def test_only_torchs_own_step_that_builds_no_graph_is_one_event() -> None:
    w = torch.ones(2, requires_grad=True)
    with seegrad.record() as rec:
        x = w * 1
        optimiser = torch.optim.SGD([x], lr=0.1, differentiable=True)
        x.grad = torch.ones(2)
        optimiser.step()
        (x * w).sum().backward()
    assert [write.op for write in rec.recording.writes] == ["add_"]
    assert w.grad is not None


def test_an_op_that_raises_in_a_step_is_named_after_what_was_written() -> None:
    a, b = (torch.ones(2, requires_grad=True) for _ in range(2))
    optimiser = torch.optim.SGD([a, b], lr=0.1, momentum=0.9, foreach=False)
    a.grad, b.grad = torch.ones(2), torch.ones(2)
    optimiser.step()
    optimiser.state[b]["momentum_buffer"] = torch.ones(3)
    with seegrad.record() as rec, contextlib.suppress(RuntimeError):
        a.sum().backward()
        optimiser.step()
    last = rec.recording.frames[-2:]
    assert [(frame.phase, frame.op) for frame in last] == [("inplace", STEP), ("error", "add_")]
    assert rec.recording.errors[0].text.startswith("The size of tensor a (3) must match")
    assert [rec.recording.tensors[each].name for each in last[0].outputs] == ["a"]


def test_a_step_that_an_error_left_is_told_before_what_comes_next() -> None:
    class Odd(torch.optim.SGD):
        def _init_group(self, group, *rest):
            if group["odd"]:
                raise ValueError("odd")
            return super()._init_group(group, *rest)

    a, b = (torch.ones(2, requires_grad=True) for _ in range(2))
    optimiser = Odd([{"params": [a], "odd": False}, {"params": [b], "odd": True}], lr=0.1)
    with seegrad.record() as rec:
        (a * b).sum().backward()
        with contextlib.suppress(ValueError):
            optimiser.step()
        a.exp()
    assert [frame.op for frame in rec.recording.frames if frame.phase in ("forward", "inplace")][-2:] == [STEP, "exp"]
    assert [rec.recording.tensors[write.tensor].name for write in rec.recording.writes] == ["a"]


def test_each_op_is_looked_at_where_the_first_nan_is_asked_for() -> None:
    w = torch.zeros(2, requires_grad=True)
    optimiser = torch.optim.Adam([w], lr=0.1, eps=0.0, foreach=False)
    with seegrad.record(check_nan=True) as rec:
        (w * 0).sum().backward()
        optimiser.step()
        w.exp().sum().backward()
    assert rec.diagnoses[0].kind == "not_finite"
    assert "addcdiv_" in rec.diagnoses[0].message()


def test_a_tensor_that_an_optimiser_keeps_shows_its_version_where_the_user_looks_at_it() -> None:
    w = torch.ones(2, requires_grad=True)
    optimiser = torch.optim.SGD([w], lr=0.1, momentum=0.9)
    with seegrad.record() as rec:
        for _ in range(3):
            (w * w).sum().backward()
            optimiser.step()
            kept = optimiser.state[w]["momentum_buffer"]
            kept.sum()
    number = next(each.id for each in rec.recording.tensors if each.name == "kept")
    versions = [dict(frame.versions)[number] for frame in rec.recording.frames if number in dict(frame.versions)]
    assert versions[-1] == kept._version


def test_scalers_schedules_and_sparse_gradients_step_as_one() -> None:
    table, loose = nn.Embedding(4, 2, sparse=True), nn.Linear(2, 1)
    optimisers = torch.optim.SparseAdam(table.parameters()), torch.optim.AdamW(loose.parameters())
    schedule = torch.optim.lr_scheduler.StepLR(optimisers[1], 1)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    with seegrad.record() as rec:
        for _ in range(2):
            table.zero_grad()
            loose.zero_grad()
            scaler.scale(loose(table(torch.tensor([0, 2]))).sum()).backward()
            optimisers[0].step()
            scaler.step(optimisers[1])
            scaler.update()
            schedule.step()
    assert [len(frame.writes) for frame in steps(rec.recording)] == [1, 2, 1, 2]
    assert rec.diagnoses == ()
