"""The words: whole messages of the cases that learners meet most."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path

import pytest
import torch

import seegrad
from seegrad.diagnose.evidence import label
from seegrad.diagnose.finding import Finding
from seegrad.diagnose.saved import MODIFIED, raised
from seegrad.model import Recording
from seegrad.model.recording import Frame, Node, RaisedError, TensorRef, Write
from tests.data.programs import programs
from tests.library.recorded import seen
from tools.words import catalogue


def message(name: str) -> str:
    """The first message of a program, its line numbers as distances from the program's first line.

    The programs lie in other files than this one, so each message names its program's file: taken out here.
    """
    program = programs()[name]
    first = program.run.__code__.co_firstlineno
    said = seen(name).recording.diagnoses[0].message().replace(f" of {Path(program.run.__code__.co_filename).name}", "")
    return re.sub(r"(?i)(line )(\d+)", lambda m: f"{m[1]}{int(m[2]) - first}", said)


GOLDEN = {
    "s000_in22_data": (
        "Line 6 (`c.zero_()`) overwrote `out` through `c`, which shares its memory but not its version, after "
        "SigmoidBackward0 from line 3 had saved it for the gradient of `a`; the version stayed 0, so torch raised "
        "nothing and the gradient is wrong. Replace `.data` by `.detach()` and torch will raise here instead; to be "
        "right, write to a copy, `c = out.detach().clone()`, or after the backward call."
    ),
    "s000_in23_detach": (
        "Line 5 (`c.zero_()`) overwrote `out` through `c`, which shares its memory and its version: `out` is now at "
        "version 1, but SigmoidBackward0 from line 3 saved version 0 for the gradient of `a`. Write to a copy, "
        "`c = out.detach().clone()`, or move the write below the backward call: SigmoidBackward0 computes its gradient "
        "from its own result."
    ),
    "s000_in20_write_after_use": (
        "Line 10 (`d[:] = 0`) overwrote `d`: `d` is now at version 2, but DotBackward0 from line 9 saved version 1 for "
        "the gradient of `w2`. Move the write below the backward call, or keep `d` and give the new value a new name. "
        "Moved above line 9, where DotBackward0 saves `d`, it raises nothing, but the program computes something else."
    ),
    "s000_in25_embedding": (
        "Line 7 (`b = embedding(idx) @ W.t()`) overwrote `embedding.weight` inside `embedding`: `embedding.weight` is "
        "now at version 2, but MmBackward0 from line 6 saved version 1. `embedding` writes its argument although its "
        "name does not say so: run it before line 6 uses `embedding.weight`, or let line 6 use "
        "`embedding.weight.clone()`, which keeps the value from before the write."
    ),
    "c05_numpy": (
        "Line 6 (`n[:] = 0`) overwrote `out` behind torch's back, after SigmoidBackward0 from line 3 had saved it for "
        "the gradient of `a`; the version stayed 0, so torch raised nothing and the gradient is wrong. Torch cannot "
        "see writes through numpy or a raw pointer: write to a copy, `out.detach().clone().numpy()`, or after the "
        "backward call."
    ),
    "c05_fused_optimiser": (
        "Line 6 (`opt.step()`) overwrote `w` inside `_fused_sgd_`, after MulBackward0 from line 5 had saved it for the "
        "gradient of `w`; the version stayed 0, so torch raised nothing and the gradient is wrong. `_fused_sgd_` does "
        "not move the version of what it writes: let the backward call come before it, or run the forward again after "
        "it."
    ),
    "k_backward_twice": (
        "The backward call on line 6 needs what MulBackward0 from line 3 had saved, but line 5 (`loss.backward()`) has "
        "freed it already. Run the forward again before each backward, or pass `retain_graph=True` to the first call "
        "if both really belong to one forward."
    ),
    "k_view_of_a_leaf": (
        "Line 4 (`first.zero_()`) writes in place to a view of `a`, a leaf that requires grad: it would change the "
        "leaf itself, so torch refuses before anything is written. To set or update values outside the graph, write "
        "under `with torch.no_grad():`; to compute with a changed value, make a new tensor, for example "
        "`a_new = a + …`."
    ),
    "k_no_grad_around_the_loss": (
        "`loss` has no graph behind it, because line 5 (`loss = model(x).sum()`) cut it: `linear` ran with gradients "
        "switched off. Move this line out of the `no_grad` block if the gradient should flow through it."
    ),
    "s000_in21_write_before_use": (
        "Line 8 (`d[:] = 0`) overwrote `d`, so whatever made it no longer matters: the gradient of `w1` is 0 by "
        "construction. Compute with `d` before this line, or write only the part that you mean to replace."
    ),
    "r_hidden_state_carried_over": (
        "Line 5 (`h = torch.tanh(x @ w_in + h @ w_rec)`) hands `h` on with its graph: the backward call on line 7"
        " comes through it to TanhBackward0 from line 5, whose saved tensors an earlier call has freed. `h` still"
        " leads into the step before: cut it there, `h = h.detach()`, before line 5 uses it again, and each "
        "backward ends where its own step begins."
    ),
    "r_state_of_two_steps_with_a_backward_call_each": (
        "Line 8 (`h = cell(torch.randn(4, 2), h)`) hands `h` on with its graph: the backward call on line 9 comes "
        "through it to MulBackward0 from line 5, whose saved tensors an earlier call has freed. `h` still leads into "
        "the step before: cut it there, `h = h.detach()`, before line 8 uses it again, and each backward ends where "
        "its own step begins."
    ),
    "r_running_loss_that_keeps_its_graph": (
        "The backward call on line 9 needs what PowBackward0 from line 6 had saved, but line 9 "
        "(`total.backward()`) has freed it already. `total` adds up losses with their graphs, so backward goes "
        "through every earlier step: call backward on the new loss alone, and add its `.detach()` to `total`."
    ),
    "r_retain_graph_does_not_help_when_parameters_move": (
        "Line 6 (`h = torch.tanh(embed(x) + recur(h))`) hands `h` on with its graph: the backward call on line 9 "
        "comes through it to AddmmBackward0 from line 6, which saved version 2 of `recur.weight`, and line 10 has"
        " updated that to version 3 since. `h` still leads into an earlier step, which needs the old values: cut "
        "it there, `h = h.detach()`, before line 6 uses it again; `retain_graph=True` is not needed then."
    ),
    "g_generated_images_not_detached": (
        "The backward call on line 8 needs what TanhBackward0 from line 4 had saved, but line 6 "
        "(`d_loss.backward()`) has freed it already. Both backward calls lead through `fake`: give the one that "
        "is not to train what made it `fake.detach()`; if both are, pass `retain_graph=True` to the first."
    ),
    "g_actor_and_critic_share_the_advantage": (
        "Line 8 (`actor_loss = -(log_prob * advantage).mean()`) hands `advantage` on with its graph: the backward call "
        "on line 10 comes through it to AddmmBackward0 from line 4, whose saved tensors an earlier call has freed. "
        "Both losses lead through `advantage`: add them and call backward once; if only one of them is to train what "
        "made it, give the other one `advantage.detach()`."
    ),
    "g_discriminator_stepped_before_the_generator_s_backward": (
        "Line 8 (`opt_d.step()`) updated `discriminator.2.weight`: `discriminator.2.weight` is now at version 2, "
        "but AddmmBackward0 from line 5 saved version 1. The update lies between two backward calls through one "
        "forward: run that forward again after it, for the call on line 9. If it may use the gradients of both "
        "calls, make it after the second instead. Where the update is to stay, line 6 (`d_loss, g_loss = "
        "F.softplus(judged).mean(), F.softplus(-jud…`) has to be run below it, with all that it computes with."
    ),
    "x_optimiser_of_a_scaled_weight": (
        "`w` is the result of `mul` on line 2 (`w = torch.randn(3, requires_grad=True) * 0.1`), not a leaf: "
        "gradients are kept in leaves alone, so an optimiser could never update it. If `w` itself is to be "
        "trained, make it a leaf first, `w = w.detach().requires_grad_()`; otherwise give the optimiser the leaf "
        "that it was computed from."
    ),
    "x_leaf_rebound_by_arithmetic": (
        "`w.grad` on line 6 is None, because `w` is the result of line 3 (`w = w * 0.5`), not a leaf: backward "
        "keeps gradients in leaves alone. Keep the leaf under a name of its own and read its `.grad`; if it is "
        "the result that should be trained, make it a leaf, `w = w.detach().requires_grad_()`, or call "
        "`w.retain_grad()` before backward."
    ),
    "x_gradient_of_a_fresh_slice": (
        "The gradient of `x[…]` was asked for on line 4, but line 4 (`torch.autograd.grad(energy, x[:, 0])`) has "
        "only just made that tensor from `x`: `energy` was computed without it. Ask for the gradient of `x`, "
        "which `energy` did use, and take the same part of the result."
    ),
    "v_gates_of_a_chunk": (
        "Line 4 (`i.sigmoid_()`) writes in place to `i`, one of the views that `chunk` on line 3 returned "
        "together: autograd cannot follow a write to one of them, so torch refuses. Make a new tensor "
        "(`i = i.sigmoid()`, not `i.sigmoid_()`), or take that part alone by its index, `x[…]` or `x.narrow(…)`, "
        "which may be written."
    ),
    "f_tensor_hook_clips_in_place": (
        "Line 5 (`left.register_hook(lambda grad: grad.clamp_(-0.1, 0.1))`) overwrote a gradient while backward "
        "ran, and ExpBackward0 from line 3 was given the same tensor: torch raised nothing and the gradient of "
        "`right` is wrong. A hook or a custom backward may share its gradient with others: return a new tensor "
        "(`grad * 2`) instead of writing to it (`grad.mul_(2)`)."
    ),
    "f_identity_hooks_switch_the_check_off": (
        "Line 5 (`y.mul_(2)`) overwrote `y`, after ExpBackward0 from line 4 had saved it for the gradient of `x`; "
        "a saved-tensor hook keeps it, which switches torch's check off: nothing was raised, the gradient is "
        "wrong. Let the pack hook return a copy of what it's given, not the tensor itself (`save_on_cpu` copies "
        "nothing that is on the CPU already), or write to a copy, `y.detach().clone()`, or after the backward "
        "call."
    ),
    "v_box_sizes_squared_into_themselves": (
        "Line 3 (`boxes[:, 2:] = boxes[:, 2:] * boxes[:, 2:]`) overwrote `boxes`: `boxes` is now at version 1, "
        "but MulBackward0 from line 3 saved version 0. The line reads `boxes` and writes to it: give the new "
        "value memory of its own (`torch.cat` or `torch.stack` of its parts, `torch.where`), not `boxes[…] = …`."
    ),
    "d_tokens_normalised_in_place": (
        "Line 5 (`tokens[i] /= tokens[i].norm(dim=-1, keepdim=True)`) overwrote `tokens[1]`: `tokens[1]` is now at "
        "version 1, but LinalgVectorNormBackward0 from line 5 saved version 0 for the gradient of `tokens[1]`. The "
        "line reads `tokens[1]` and writes to it: make a new tensor (`tokens[i] = tokens[i] / …`, not `tokens[i] /= "
        "…`)."
    ),
    "d_power_iteration_writes_the_vector_that_it_used": (
        "Line 10 (`self.u.copy_(F.normalize(self.weight @ (self.weight.t() @ s…`) overwrote `critic.u`: `critic.u` is"
        " now at version 2, but MmBackward0 from line 11 saved version 1 for the gradient of `critic.weight`. That "
        "line runs in every round and hit what the round before had saved: make a new tensor in each round, or let "
        "line 11 use `critic.u.clone()`, or call backward before the next round."
    ),
    "d_attention_masked_through_data": (
        "Line 5 (`attention.data.masked_fill_(mask, 0)`) overwrote `attention` through `attention.data`, which shares"
        " its memory but not its version, after SoftmaxBackward0 from line 4 had saved it; the version stayed 0, so "
        "torch raised nothing and the gradient is wrong. Make a new tensor instead, `attention = "
        "attention.masked_fill(…)`, so that autograd knows of the change, or write after the backward call."
    ),
    "d_membrane_potential_kept_between_batches": (
        "Line 8 (`self.state = 0.5 * torch.tanh(self.state) + current`) hands `self.state` on with its graph: the"
        " backward call on line 14 comes through it to MulBackward0 from line 8, whose saved tensors an earlier "
        "call has freed. `self.state` still leads into the step before: cut it there, `self.state = "
        "self.state.detach()`, at the end of the step, after the backward call on line 14, and each backward ends "
        "where its own step begins."
    ),
    "d_memory_of_an_episode_not_emptied": (
        "The backward call on line 10 needs what GatherBackward0 from line 7 had saved, but line 10 "
        "(`loss.backward()`) has freed it already. `log_prob` of an earlier step is still kept and used again on line"
        " 9: after each step, empty the list that keeps it, or keep `.detach()` of what is not to be trained any "
        "more."
    ),
    "d_losses_collected_as_numbers": (
        "`loss` has no graph behind it, because line 8 (`loss = torch.tensor(losses).mean()`) cut it: a new tensor "
        "was made there of plain numbers, which have no history. Collect the tensors themselves and join them "
        "(`torch.stack`), not numbers that `.item()`, `float()` or `.tolist()` took out of them."
    ),
    "d_reentrant_checkpoint_of_a_frozen_input": (
        "`loss` has no graph behind it, because line 6 (`h = checkpoint(layer, h, use_reentrant=True)`) cut it: "
        "gradients are off inside a custom Function's forward, and none of the tensors that it was given requires "
        "grad. Let one of the tensors that it is given require grad; `torch.utils.checkpoint` is such a Function, "
        "which `use_reentrant=False` turns into an ordinary part of the graph."
    ),
    "d_mask_put_into_a_parameter_s_data": (
        "`gate.scores` led to the loss but got no gradient, because line 9 (`self.mask.data = "
        "torch.sigmoid(self.scores)`) cut the graph: assigning to `.data` takes the numbers of the result of "
        "`sigmoid` on line 9 without their history. Use the result of `sigmoid` on line 9 itself where the gradient "
        "should flow, not a tensor whose `.data` it was put into."
    ),
    "d_list_of_factors_moved_to_a_type": (
        "`factors[0]` is the result of `to` on line 2 (`factors = [torch.ones(2, "
        "requires_grad=True).to(torch.float…`), not a leaf: gradients are kept in leaves alone, so an optimiser could"
        " never update it. If `factors[0]` itself is to be trained, make it a leaf first, `factors[0] = "
        "factors[0].detach().requires_grad_()`; otherwise give the optimiser the leaf that it was computed from."
    ),
    "d_split_logits_divided_in_place": (
        "Line 3 (`logits /= 0.7`) writes in place to `logit`, one of the views that `split` on line 7 returned "
        "together: autograd cannot follow a write to one of them, so torch refuses. Make a new tensor (`logits = "
        "logits / …`, not `logits /= …`), or take that part alone by its index, `x[…]` or `x.narrow(…)`, which may be"
        " written."
    ),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_the_words(name: str, request: pytest.FixtureRequest) -> None:
    if programs()[name].missed:
        request.applymarker(pytest.mark.xfail(reason=programs()[name].missed))
    assert message(name) == GOLDEN[name]


def overwritten(
    culprit: seegrad.Place | None = None, victim: seegrad.Place | None = None, op: str = "", *, own_result: bool = False
) -> seegrad.Diagnosis:
    """What is said of a tensor `w` whose version moved from 0 to 1."""
    tensor = TensorRef(0, "w", (2,), "float32", "cpu", False, True, 0, 0, (0, 8), 0)
    recording = Recording(frames=(Frame(0, "error", culprit, op),), tensors=(tensor,))
    write = Write(0, 0, 0, 0, (0, 8), op, culprit, 0, 1) if culprit else None
    finding = Finding(
        recording=recording,
        kind=MODIFIED,
        frame=0,
        culprit=culprit,
        victim=victim,
        node=Node(0, "MulBackward0", "mul", 0, (), ()),
        tensor=0,
        write=write,
        saved=0,
        now=1,
    )
    named = label(recording, 0)
    facts = {"label": named, "alias": named, "op": op, "needed_for": "", "result": int(own_result), "trained": 0}
    return raised(finding, facts, RaisedError("RuntimeError", "", culprit, 0))


def test_an_unrecorded_culprit_is_admitted() -> None:
    assert (
        overwritten()
        .message()
        .startswith(
            "`w` was overwritten on a line that was not recorded: it is now at version 1, "
            "but MulBackward0 from a line before the recording saved version 0."
        )
    )


def test_no_sentence_is_a_generic_advice() -> None:
    for message in catalogue.extracted():
        if any(file.startswith("seegrad/diagnose/") for file, _ in message.locations):
            assert not re.search(r"\b(use|try) (a )?`?\.?clone\b", str(message.id), re.IGNORECASE), message.id


def test_other_files_are_named() -> None:
    here, there = seegrad.Place("a/train.py", 3, "w.zero_()"), seegrad.Place("a/model.py", 9, "y = w * w")
    found = overwritten(here, there, "zero_")
    assert "line 9 of model.py" in found.message()
    assert found.message().startswith("Line 3 of train.py (`w.zero_()`)")


def test_what_an_earlier_seegrad_stored_is_told_in_short() -> None:
    """Its Recordings hold no words: the facts are read as ever."""
    here = seegrad.Place("a/train.py", 3, "w.zero_()")
    data = json.loads(Recording(diagnoses=(overwritten(here, here, "zero_"),)).to_json())
    for name in ("title", "said", "advice", "tag"):
        del data["recording"]["diagnoses"][0][name]
    (found,) = Recording.from_json(json.dumps(data)).diagnoses
    assert found.message().startswith("saved tensor modified: a/train.py:3: w.zero_(). An earlier seegrad stored")
    assert found.message("zh").startswith("保存的张量被改写：a/train.py:3: w.zero_()。")


def test_a_file_is_named_only_where_it_is_another_than_the_block_s() -> None:
    program, rec = programs()["s000_in23_detach"], seegrad.record()
    with pytest.raises(RuntimeError), rec:
        program.run()
    assert re.match(r"Line \d+ of seeds\.py \(`c\.zero_\(\)`\)", rec.diagnoses[0].message())
    with contextlib.suppress(RuntimeError), seegrad.record() as rec:
        out = torch.ones(2, requires_grad=True).sigmoid()
        out.zero_()
        out.sum().backward()
    assert re.match(r"Line \d+ \(`out\.zero_\(\)`\)", rec.diagnoses[0].message())


IN_PLACE = [name for name in dir(torch.Tensor) if re.fullmatch(r"[a-z][a-z0-9_]*[a-z0-9]_", name)]


@pytest.mark.parametrize("op", IN_PLACE)
def test_no_method_is_named_that_torch_lacks(op: str) -> None:
    here = seegrad.Place("a.py", 3, f"w.{op}()")
    found = overwritten(here, here, op, own_result=True)
    proposed = re.findall(r"\b(?:w|torch)\.(\w+)\(", found.message().replace(f"`w.{op}()`", ""))
    assert [name for name in proposed if not hasattr(torch.Tensor, name) and not hasattr(torch, name)] == []


def of_what_follows() -> None:
    h = torch.ones(3, requires_grad=True) * 2
    r = (h * h).tanh()
    h += r
    h.sum().backward()


def of_what_was_there() -> None:
    h = torch.ones(3, requires_grad=True) * 2
    s = torch.ones(3)
    r = (h * h).tanh()
    h += s
    r.sum().backward()


@pytest.mark.parametrize(("program", "goes_up"), [(of_what_follows, False), (of_what_was_there, True)])
def test_a_write_is_moved_up_only_where_what_it_needs_is_there_by_then(program, goes_up: bool) -> None:
    """Moved above the line that computes `r`, `h += r` has no `r`."""
    with seegrad.record() as rec, contextlib.suppress(RuntimeError):
        program()
    (found,) = rec.diagnoses
    assert ("Moved above" in found.message()) is goes_up
    assert "Move the write below the backward call" in found.message()
