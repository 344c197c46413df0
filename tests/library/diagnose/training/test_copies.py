"""Copies that aren't: the mend that each sentence proposes, applied to the program it is said about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import seegrad
from seegrad.model.recording import Recording
from tests.data.programs import programs
from tests.library.diagnose.training.mended import mended
from tests.library.recorded import seen

RIGHT = [name for name, each in programs().items() if each.kind is None and each.run.__module__.endswith(".copies")]

Wanted = Callable[[dict[str, Any]], bool]


def apart(first: Callable[[dict[str, Any]], Any], second: Callable[[dict[str, Any]], Any]) -> Wanted:
    """Oracle: these two modules have other numbers by now."""
    return lambda held: (
        not any(torch.equal(a, b) for a, b in zip(first(held).parameters(), second(held).parameters(), strict=True))
    )


MENDS: dict[str, tuple[Wanted, list[tuple[str, str]]]] = {
    "c_best_state_of_early_stopping": (
        lambda held: not torch.equal(held["late"], held["model"].out.weight),
        [
            ("best_state = model.state_dict()", "best_state = copy.deepcopy(model.state_dict())"),
            (
                "    if best_state is not None:\n",
                "    late = model.out.weight.clone()\n    if best_state is not None:\n",
            ),
        ],
    ),
    "c_best_state_of_a_trainer": (
        lambda held: not torch.equal(held["late"], held["imputer"].model.out.weight),
        [
            (
                "self.best_model_dict = self.model.state_dict()",
                "self.best_model_dict = copy.deepcopy(self.model.state_dict())",
            ),
            (
                "            self._train()\n",
                "            self._train()\n            self.late = self.model.out.weight.clone()\n",
            ),
            ("    Imputer(3).fit()\n", "    imputer = Imputer(3)\n    imputer.fit()\n    late = imputer.late\n"),
        ],
    ),
    "c_the_dict_alone_is_copied": (
        apart(lambda held: held["final"], lambda held: held["model"]),
        [
            ("model.state_dict().copy()", "copy.deepcopy(model.state_dict())"),
            ("    return validate(final, loader(1))\n", ""),
        ],
    ),
    "c_parameters_compared_with_themselves": (
        lambda held: held["moved"] > 0,
        [
            ("list(model.parameters())", "[p.detach().clone() for p in model.parameters()]"),
            ("    return moved\n", ""),
        ],
    ),
    "c_change_of_the_weights_of_one_step": (
        lambda held: all(change > 0 for change in held["monitor"].report().values()),
        [
            ("name: p.data for", "name: p.detach().clone() for"),
            ("        monitor.report()\n", ""),
        ],
    ),
    "c_target_network_is_the_policy": (
        lambda held: held["agent"].target_net is not held["agent"].policy_net,
        [("self.target_net = self.policy_net", "self.target_net = copy.deepcopy(self.policy_net)")],
    ),
    "c_one_network_moved_twice": (
        apart(lambda held: held["learner"].online, lambda held: held["learner"].target_q),
        [("network.to(device).eval()", "copy.deepcopy(network).to(device).eval()")],
    ),
    "c_teacher_by_an_annotated_name": (
        apart(lambda held: held["teacher"], lambda held: held["student"]),
        [("student.float()", "copy.deepcopy(student).float()")],
    ),
    "c_best_model_is_the_model": (
        lambda held: held["best_model"] is held["model"],
        [
            ("    best_model = model\n    optimizer", "    best_model = copy.deepcopy(model)\n    optimizer"),
            ("            best_model = model\n    model", "            best_model = copy.deepcopy(model)\n    model"),
        ],
    ),
    "c_old_policy_is_the_new_one": (
        lambda _held: True,
        [("old_policy = policy", "old_policy = copy.deepcopy(policy)")],
    ),
    "c_shallow_copy_as_the_teacher": (
        apart(lambda held: held["teacher"], lambda held: held["student"]),
        [("copy.copy(student)", "copy.deepcopy(student)")],
    ),
    "c_one_residual_block_many_times": (
        apart(lambda held: held["model"][1]._layers[0], lambda held: held["model"][1]._layers[1]),
        [("[Residual(width)] * layers", "Residual(width) for _ in range(layers)")],
    ),
    "c_one_head_for_each_task": (
        apart(lambda held: held["model"].heads[0], lambda held: held["model"].heads[1]),
        [("[head for _ in range(tasks)]", "copy.deepcopy(head) for _ in range(tasks)")],
    ),
}


def test_every_broken_program_is_mended() -> None:
    broken = {name for name, each in programs().items() if each.kind and each.run.__module__.endswith(".copies")}
    assert broken == MENDS.keys()


@pytest.mark.parametrize("name", MENDS)
def test_the_mend_makes_a_copy(name: str) -> None:
    wanted, edits = MENDS[name]
    after = mended(name, *edits)
    assert not after.kinds
    assert wanted(after.held)


@pytest.mark.parametrize("name", RIGHT)
def test_a_real_copy_gets_no_note(name: str) -> None:
    assert not seen(name).recording.diagnoses


def test_a_live_view_that_is_written_on_purpose_is_none() -> None:
    """Who writes the averages through the dict itself knows that it's the module's own memory."""
    model, slow = torch.nn.Linear(2, 1), torch.nn.Linear(2, 1).requires_grad_(False)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    with seegrad.record() as rec:
        average = slow.state_dict()
        for _ in range(3):
            opt.zero_grad()
            model(torch.ones(1, 2)).sum().backward()
            opt.step()
            for name, value in model.state_dict().items():
                average[name].mul_(0.9).add_(value, alpha=0.1)
    assert not rec.diagnoses


def test_what_is_shared_is_read_back() -> None:
    recording = seen("c_target_network_is_the_policy").recording
    assert [(each.kind, each.fact("name"), each.fact("other")) for each in recording.clues_of("module")] == [
        ("module", "agent.target_net", "agent.policy_net")
    ]
    assert Recording.from_json(recording.to_json()) == recording
