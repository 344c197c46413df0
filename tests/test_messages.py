"""The words: whole messages of the cases that learners meet most."""

from __future__ import annotations

import re

import pytest

import seegrad
from seegrad import advice, sentences
from seegrad.messages import sentence
from tests.programs import programs


def message(name: str) -> str:
    """The first message of a program, its line numbers as distances from the program's first line."""
    program, rec = programs()[name], seegrad.record()
    try:
        with rec:
            program.run()
    except RuntimeError:
        pass
    first = program.run.__code__.co_firstlineno
    return re.sub(r"(?i)(line )(\d+)", lambda m: f"{m[1]}{int(m[2]) - first}", rec.diagnoses[0].message())


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
        "the gradient of `w2`. Move the write above line 9, where DotBackward0 saves `d`, or keep `d` and give the new "
        "value a new name."
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
}


@pytest.mark.parametrize("name", GOLDEN)
def test_the_words(name: str) -> None:
    assert message(name) == GOLDEN[name]


def test_an_unrecorded_culprit_is_admitted() -> None:
    unknown = seegrad.Diagnosis(
        "saved_tensor_modified", "error", True, None, None, "MulBackward0", "w", 0, 1, arguments=(("label", "`w`"),)
    )
    assert sentence(unknown).startswith(
        "`w` was overwritten on a line that was not recorded: it is now at version 1, "
        "but MulBackward0 from a line before the recording saved version 0."
    )


@pytest.mark.parametrize("table", [sentences.WHAT, advice.DO, sentences.THROUGH, sentences.WHY])
def test_no_sentence_is_a_generic_advice(table: dict[str, str]) -> None:
    for text in table.values():
        assert not re.search(r"\b(use|try) (a )?`?\.?clone\b", text, re.IGNORECASE), text


def test_other_files_are_named() -> None:
    here, there = seegrad.Place("a/train.py", 3, "x.zero_()"), seegrad.Place("a/model.py", 9, "y = x * x")
    found = seegrad.Diagnosis("saved_tensor_modified", "error", True, here, there, "MulBackward0", "x", 0, 1)
    assert "line 9 of model.py" in found.message()
    assert found.message().startswith("Line 3 of train.py (`x.zero_()`)")
