"""The same mistakes in other styles: their mends, applied."""

from __future__ import annotations

import pytest

from tests.data.programs import programs
from tests.library.diagnose.training.mended import mended
from tests.library.recorded import seen

RIGHT = [name for name, each in programs().items() if each.kind is None and each.run.__module__.endswith(".later")]

MENDS = {
    "w_items_of_a_sequential": [("param.requires_grad = False", "param.requires_grad_(False)")],
    "w_a_generator_yields_inside_no_grad": [
        ("        with torch.no_grad():\n", "        if True:\n"),
        (
            "yield x, F.softmax(teacher(x), 1)",
            "with torch.no_grad():\n                    y = F.softmax(teacher(x), 1)\n                yield x, y",
        ),
    ],
    "w_an_evaluation_calls_a_training_step": [
        (
            "            with torch.no_grad():\n",
            "            for x, y in support:\n                self.step(x, y)\n            with torch.no_grad():\n",
        ),
        (
            "                for x, y in support:\n                    self.step(x, y)\n                return",
            "                return",
        ),
    ],
    "w_best_weights_as_a_list_of_data": [("[p.data for", "[p.detach().clone() for")],
    "w_state_rebuilt_item_by_item": [("k: v.cpu() for", "k: v.clone() for")],
    "w_a_dict_of_lists": [('history["loss"].append(loss)', 'history["loss"].append(loss.item())')],
    "w_records_of_each_step": [("Record(step, loss))", "Record(step, loss.detach()))")],
    "w_the_sum_is_trained_again_and_again": [
        ("total_loss = 0", "total_loss = torch.zeros(())"),
        ("= total_loss + F", "= total_loss.detach() + F"),
    ],
    "w_evaluation_collects_scores_in_a_class": [
        ("        evaluator.add(x)", "        with torch.no_grad():\n            evaluator.add(x)")
    ],
    "w_thawed_after_the_optimiser_was_made": [
        (
            "                p.requires_grad = True\n",
            "                p.requires_grad = True\n                opt.add_param_group({'params': [p]})\n",
        )
    ],
    "w_momentum_encoder_is_the_encoder": [
        ("self.momentum_encoder = encoder", "self.momentum_encoder = __import__('copy').deepcopy(encoder)")
    ],
    "w_both_players_are_switched_off_by_the_first": [
        ("set_requires_grad([disc])\n", "set_requires_grad([disc], True)\n")
    ],
    "w_the_difference_is_written_out_twice": [
        ("log_prob * (gain - critic(state))", "log_prob * (gain - critic(state).detach())")
    ],
    "w_an_evaluation_without_a_way_back": [
        ("            for _ in range(4):\n", "            for _ in range(4):\n                self.net.train()\n")
    ],
    "w_log_probs_rebuilt_of_a_memory": [("torch.tensor(memory)", "torch.stack(memory)")],
    "w_a_copy_learns_in_place_of_the_model": [
        (
            "opt = torch.optim.Adam(model.parameters(), lr=0.01)",
            "fast = copy.deepcopy(model)\n    opt = torch.optim.Adam(fast.parameters(), lr=0.01)",
        ),
        ("        fast = copy.deepcopy(model)\n", ""),
    ],
}


def test_every_broken_program_is_mended() -> None:
    broken = {name for name, each in programs().items() if each.kind and each.run.__module__.endswith(".later")}
    assert broken == MENDS.keys()


@pytest.mark.parametrize("name", MENDS)
def test_the_mend_is_right(name: str) -> None:
    assert programs()[name].kind not in mended(name, *MENDS[name]).kinds


def test_what_weighs_a_rebuilt_term_is_not_blamed() -> None:
    assert [each.kind for each in seen("w_log_probs_rebuilt_of_a_memory").recording.diagnoses] == ["graph_cut"]


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_gets_no_note(name: str) -> None:
    assert not seen(name).recording.diagnoses


def test_the_sum_detached_gives_the_gradient_of_the_new_loss_alone() -> None:
    """Oracle: the program that calls backward on each loss alone."""
    detached = mended("w_the_sum_is_trained_again_and_again", *MENDS["w_the_sum_is_trained_again_and_again"])
    alone = mended("w_the_sum_is_trained_again_and_again", ("total_loss = total_loss + F", "total_loss = F"))
    pairs = zip(detached.held["net"].parameters(), alone.held["net"].parameters(), strict=True)
    assert all(bool((a == b).all()) for a, b in pairs)
