"""What freezes nothing, or too much: the mend that each sentence proposes, applied to the program it is said about."""

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

RIGHT = [name for name, each in programs().items() if each.kind is None and each.run.__module__.endswith(".freezes")]


def frozen(*paths: str) -> Callable[[dict[str, Any]], bool]:
    """Oracle: these modules have no gradient, so no step has moved them."""
    return lambda held: all(each.grad is None for path in paths for each in at(held, path).parameters())


def learns(*paths: str) -> Callable[[dict[str, Any]], bool]:
    """Oracle: the newest backward has left these modules gradients that aren't all zero."""
    return lambda held: all(
        each.grad is not None and bool(each.grad.any()) for path in paths for each in at(held, path).parameters()
    )


def at(held: dict[str, Any], path: str) -> Any:
    """The module of a path: `model.backbone`."""
    first, *rest = path.split(".")
    found = held[first]
    for part in rest:
        found = getattr(found, part)
    return found


MENDS: dict[str, tuple[Callable[[dict[str, Any]], bool], list[tuple[str, str]]]] = {
    "f_attribute_of_a_module": (frozen("model.backbone"), [("requires_grad = False", "requires_grad_(False)")]),
    "f_attribute_of_each_child": (
        frozen("model.backbone"),
        [
            ("requires_grad = False", "requires_grad_(False)"),
            ("FineTuner(Classifier(), 1e-2)", "model = Classifier()\n    FineTuner(model, 1e-2)"),
        ],
    ),
    "f_misspelt_on_each_parameter": (frozen("model.backbone"), [("require_grad = False", "requires_grad_(False)")]),
    "f_values_of_the_state_dict": (frozen("encoder"), [("encoder.state_dict().values()", "encoder.parameters()")]),
    "f_data_of_each_parameter": (
        frozen("student.embed"),
        [("p.data.requires_grad = False", "p.requires_grad_(False)")],
    ),
    "f_undone_a_few_lines_later": (
        lambda held: held["model"].backbone[0].weight.grad is None,
        [("v.requires_grad = True", "if not v.requires_grad:\n            continue")],
    ),
    "f_frozen_parameters_move_on": (
        frozen("model.backbone"),
        [("p.requires_grad_(False)", "p.requires_grad_(False)\n                p.grad = None")],
    ),
    "f_discriminator_stays_off": (
        learns("disc"),
        [("        if step > 0:", "        if step > 0:\n            disc.requires_grad_(True)")],
    ),
    "f_critic_frozen_in_the_actor_s_update": (
        learns("agent.critic"),
        [
            (
                "loss = F.mse_loss(self.q",
                "self.critic.requires_grad_(True)\n            loss = F.mse_loss(self.q",
            )
        ],
    ),
    "f_backbone_frozen_for_the_warmup_and_never_thawed": (
        learns("model.backbone"),
        [("    def fine_tune(epochs):\n", "    def fine_tune(epochs):\n        model.backbone.requires_grad_(True)\n")],
    ),
    "f_all_encoders_share_the_frozen_one": (
        learns("student"),
        [("    for x, y in loader(3):", "    student.requires_grad_(True)\n    for x, y in loader(3):")],
    ),
    "f_the_new_head_is_frozen_too": (
        learns("model.head"),
        [("        return model\n", "        model.head.requires_grad_(True)\n        return model\n")],
    ),
    "f_frozen_for_feature_extraction_and_trained_again": (
        learns("pipe.net"),
        [("self.net.train()", "self.net.train().requires_grad_(True)")],
    ),
    "f_layer_that_no_forward_uses": (learns("net.fc2"), [("h = self.act(h)", "h = self.act(self.fc2(h))")]),
    "f_the_positions_are_made_and_not_added": (
        lambda held: bool(held["tagger"].positions.grad.any()),
        [("self.encoder(self.words(tokens))", "self.encoder(self.words(tokens) + self.positions)")],
    ),
    "f_the_old_head_is_trained": (
        learns("net.head"),
        [("    net.head = nn.Linear(6, 3).requires_grad_(False)\n", "")],
    ),
    "f_attention_is_computed_and_its_result_dropped": (
        learns("net.score"),
        [
            ("for each in history:", "for i, each in enumerate(history):"),
            ("row = (weights * each).sum(0)", "row = (weights * each).sum(0)\n                rows[i] = row"),
        ],
    ),
    "f_the_second_branch_takes_the_first_one_s_layers": (
        learns("model.right"),
        [("right = torch.relu(self.left(b))", "right = torch.relu(self.right(b))")],
    ),
    "f_validation_switches_gradients_off": (
        learns("model.head"),
        [
            ("        torch.set_grad_enabled(False)\n", ""),
            ("evaluate(loader(1))", "with torch.no_grad():\n                evaluate(loader(1))"),
        ],
    ),
    "f_a_detector_switches_gradients_off_where_it_is_built": (
        learns("model.head"),
        [
            ("            torch.set_grad_enabled(False)\n", ""),
            ("return image + 0.1", "with torch.no_grad():\n                return image + 0.1"),
        ],
    ),
    "f_a_guard_is_entered_and_not_left": (
        learns("model.head"),
        [
            ("            guard.__enter__()\n            for", "            for"),
            ("            ema.update()", "            with torch.no_grad():\n                ema.update()"),
        ],
    ),
    "f_the_error_is_silenced_by_requires_grad": (
        learns("model.head"),
        [
            (
                "                model.train()\n",
                "                model.train()\n                torch.set_grad_enabled(True)\n",
            )
        ],
    ),
}


def test_every_broken_program_is_mended() -> None:
    broken = {name for name, each in programs().items() if each.kind and each.run.__module__.endswith(".freezes")}
    assert broken == MENDS.keys()


@pytest.mark.parametrize("name", MENDS)
def test_the_mend_does_what_was_meant(name: str) -> None:
    wanted, edits = MENDS[name]
    after, before = mended(name, *edits), programs()[name]
    assert (before.kind, before.severity) not in [(each.kind, each.severity) for each in after.recording.diagnoses]
    assert wanted(after.held)


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_freeze_gets_no_note(name: str) -> None:
    assert not seen(name).recording.diagnoses


def test_a_with_is_no_switch() -> None:
    weight = torch.ones(2, requires_grad=True)

    @torch.set_grad_enabled(False)
    def measured() -> torch.Tensor:
        return weight.sum()

    with seegrad.record() as rec:
        with torch.no_grad():
            weight.sum()
        with torch.set_grad_enabled(False):
            weight.sum()
        measured()
    assert not rec.recording.switches


def test_what_stays_is_a_switch() -> None:
    weight = torch.ones(2, requires_grad=True)
    with seegrad.record() as rec:
        torch.set_grad_enabled(False)
        weight.requires_grad_(False)
        torch.set_grad_enabled(True)
    assert [(each.kind, each.on) for each in rec.recording.switches] == [
        ("mode", False),
        ("tensors", False),
        ("mode", True),
    ]
    assert Recording.from_json(rec.to_json()) == rec.recording


def test_a_freeze_is_remembered_through_a_long_loop() -> None:
    model = torch.nn.Linear(3, 1)
    loss = torch.nn.Parameter(torch.ones(1))
    opt, other = torch.optim.SGD(model.parameters(), lr=0.1), torch.optim.SGD([loss], lr=0.1)
    with seegrad.record() as rec:
        model.requires_grad_(False)
        for _ in range(1_200):
            other.zero_grad()
            (model(torch.ones(1, 3)) * loss).sum().backward()
            other.step()
        opt.step()
    assert [each.kind for each in rec.diagnoses] == ["learns_no_more"]
    assert len(rec.recording.switches) == 1


def test_what_a_cut_explains_is_told_once() -> None:
    """Numbers of a loss, added up, made a new leaf: of the layers behind it nobody says that nothing takes them up."""
    torch.manual_seed(0)
    rnn, out = torch.nn.GRU(1, 4, batch_first=True), torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD([*rnn.parameters(), *out.parameters()], lr=0.1)
    x = torch.randn(1, 3, 1)
    with seegrad.record() as rec:
        for _ in range(3):
            hidden, _last = rnn(x)
            predicted = out(hidden)
            total = sum(torch.nn.functional.mse_loss(predicted[:, k], x[:, k]).item() for k in range(3))
            loss = torch.tensor(total, requires_grad=True)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    assert [diagnosis.kind for diagnosis in rec.diagnoses] == ["graph_cut"]


def test_what_a_new_head_stands_in_for_is_not_told_to_be_switched_on() -> None:
    """The frozen one learns no more, as it should be: the new one of its name is what no optimiser holds."""
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 5))
    with seegrad.record() as rec:
        for parameter in model.parameters():
            parameter.requires_grad = False
        optimizer = torch.optim.SGD(model[2].parameters(), 0.1)
        model[2] = torch.nn.Linear(4, 5)
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.ones(2, 3)).square().mean().backward()
            optimizer.step()
    assert [each.kind for each in rec.diagnoses] == ["no_optimiser_holds_it"]


def test_what_no_optimiser_holds_is_told_at_a_step_that_is_about_it() -> None:
    """A page opens there, and shows what that step is about."""
    recording = seen("l_layers_in_a_plain_list").recording
    found = recording.diagnoses[0]
    assert (found.kind, found.tensor) == ("no_optimiser_holds_it", "model.blocks[1].bias")
    assert found.frame is not None
    assert {each.tensor for each in recording.frames[found.frame].gradients} == {found.tensor_id}
