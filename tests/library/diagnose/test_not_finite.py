"""NaN and infinity: the proposed mends, applied; what can be said without `check_nan`; what looking changes."""

from __future__ import annotations

import re
import runpy
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

import seegrad
from seegrad.model.recording import Recording
from seegrad.picture.sketch import sketch
from tests.data.programs import programs
from tests.library.mended import agree_with_differences, leaves_of, loss_of
from tests.library.recorded import seen

MENDS = {
    "n_distances_without_the_diagonal": (
        "return squared.sqrt()",
        "used = ~torch.eye(len(e), dtype=torch.bool); return torch.where(used, squared, 1.0).sqrt()",
    ),
    "n_speed_of_a_particle_at_rest": ("torch.sqrt((drift**2).sum(1))", "torch.sqrt((drift**2).sum(1) + 1e-12)"),
    "n_log_of_counts_where_there_are_any": ("torch.log(rate)", "torch.log(torch.where(rate > 0, rate, 1.0))"),
    "n_elu_written_with_where": ("torch.exp(slope)", "torch.exp(torch.where(slope <= 1, slope, 1.0))"),
    "n_angle_between_equal_rotations": ("torch.acos(cosine)", "torch.acos(cosine.clamp(-1 + 1e-6, 1 - 1e-6))"),
    "n_padded_query_sees_no_key": ('float("-inf")', "torch.finfo(scores.dtype).min"),
    "n_weights_masked_behind_their_softmax": (
        'scores.softmax(-1)\n            weights = weights.masked_fill(padded[:, None, :], float("-inf"))',
        'scores.masked_fill(padded[:, None, :], float("-inf")).softmax(-1)',
    ),
    "n_nearest_neighbours_but_not_oneself": ('float("inf")', "1e4"),
    "n_divergence_from_one_hot_labels": ("(p * (log_p - log_q))", "(torch.xlogy(p, p) - p * log_q)"),
    "n_entropy_bonus_of_masked_actions": ("(p * p.log())", "(p * p.clamp(min=1e-12).log())"),
    "n_softmax_written_by_hand": ("torch.exp(scores)", "torch.exp(scores - scores.amax(1, keepdim=True))"),
    "n_scores_in_half_precision": ("scores = q @", "q, k = q.float(), k.float(); scores = q @"),
    "n_mean_over_a_mask_that_is_empty": ("/ mask.sum()", "/ mask.sum().clamp(min=1)"),
    "n_every_label_is_ignored": (
        "ignore_index=-100)",
        'ignore_index=-100, reduction="sum") / (labels != -100).sum().clamp(min=1)',
    ),
    "n_advantages_of_a_last_batch_of_one": ("values.std()", "values.std(correction=0)"),
    "n_missing_targets_squared_before_the_mask": ("error = model(x) - y", "error = model(x) - y.nan_to_num()"),
    "n_missing_depths_behind_where": ("model(images), depth, r", "model(images), depth.nan_to_num(), r"),
    "n_a_mask_that_is_multiplied": ("(model(x) - y).abs()", "(model(x) - y.nan_to_num()).abs()"),
    "n_a_missing_value_in_the_table": ("torch.tensor(rows)", "torch.tensor([r for r in rows if r[1] == r[1]])"),
}
"""Program → what its line says, and what the advice makes of it."""

NO_FUNCTION = {
    "n_divergence_from_one_hot_labels",
    "n_advantages_of_a_last_batch_of_one",
    "n_a_missing_value_in_the_table",
    "n_a_mask_that_is_multiplied",
}
"""Programs in which what isn't finite is data, or made of data alone: the first Function that is given it is shown."""

HALF = "n_scores_in_half_precision"
OWN = {name: each for name, each in programs().items() if each.run.__module__.endswith(".nan")}
BROKEN = [name for name, each in OWN.items() if each.kind == "not_finite"]


@pytest.mark.slow
@pytest.mark.usefixtures("doubles")
@pytest.mark.parametrize("name", BROKEN)
def test_the_mend_gives_the_gradient_of_central_differences(name: str) -> None:
    """What is rounded to float16 has rough differences: within two percent of the largest gradient."""
    compute = loss_of(name, *MENDS[name])
    if name == HALF:
        agree_with_differences(compute, step=3e-2, about=0.02)
    else:
        agree_with_differences(compute)


@pytest.mark.parametrize("name", BROKEN)
def test_without_the_mend_something_is_not_finite(name: str) -> None:
    """Oracle: torch itself."""
    with warnings.catch_warnings(action="ignore"):
        loss = loss_of(name)()
    gradients = torch.autograd.grad(loss, leaves_of(loss))
    assert not all(each.isfinite().all() for each in (loss, *gradients))


def recorded(check_nan: bool, size: int, steps: int = 1) -> Recording:
    weight = torch.nn.Parameter(torch.linspace(0.0, 1.0, size))
    opt = torch.optim.SGD([weight], lr=0.1)
    with seegrad.record(check_nan=check_nan) as rec:
        for _ in range(steps):
            opt.zero_grad()
            loss = (weight / weight).sum()
            loss.backward()
            opt.step()
    return rec.recording


def test_small_numbers_tell_it_by_themselves() -> None:
    (found,) = recorded(False, 3).diagnoses
    assert (found.kind, found.severity, found.culprit and found.culprit.code) == (
        "not_finite",
        "wrong",
        "loss = (weight / weight).sum()",
    )


def test_a_loss_of_many_numbers_is_looked_behind_once_it_is_not_finite() -> None:
    for check_nan in (False, True):
        (found,) = recorded(check_nan, 50).diagnoses
        assert (found.severity, found.culprit and found.culprit.code) == ("wrong", "loss = (weight / weight).sum()")


@pytest.mark.parametrize("name", BROKEN)
def test_the_line_is_known_without_a_look_at_each_number(name: str) -> None:
    """By what the graph still holds when a loss, or what a steep Node hands on, isn't finite; else one is to look."""
    program = programs()[name]
    torch.manual_seed(0)
    with warnings.catch_warnings(action="ignore"), seegrad.record() as rec:
        program.run()
    (found,) = [each for each in rec.diagnoses if each.kind == "not_finite"]
    if name == HALF:  # float16 overflows in any op: which it was, only its numbers tell
        assert (found.severity, found.culprit) == ("note", None)
        assert "check_nan=True" in found.message("en")
    else:
        assert (found.severity, found.culprit and found.culprit.line) == (program.severity, program.line("culprit"))


@pytest.mark.parametrize("name", BROKEN)
def test_it_is_shown_where_the_function_runs_that_broke(name: str) -> None:
    """Not where what it made arrives: that Function, on that line, is what is told. Data that came so has none."""
    torch.manual_seed(0)
    with warnings.catch_warnings(action="ignore"), seegrad.record(check_nan=True) as rec:
        programs()[name].run()
    (found,) = [each for each in rec.diagnoses if each.kind == "not_finite"]
    assert found.frame is not None
    running = rec.recording.frames[found.frame].running
    assert running is not None
    assert rec.recording.nodes[running].leaf is None
    assert found.node_id == (None if name in NO_FUNCTION else running)


def test_of_a_function_that_broke_only_gradients_that_are_not_finite_are_wrong() -> None:
    w, b = torch.tensor([0.0], requires_grad=True), torch.tensor([4.0], requires_grad=True)
    with seegrad.record() as rec:
        torch.cat([w, b]).sqrt().sum().backward()
    assert [each.kind for each in rec.diagnoses] == ["not_finite"]
    leaves = [card for card in sketch(rec.recording).cards if card.kind == "leaf"]
    assert {card.label: card.wrong_from is not None for card in leaves} == {"w": True, "b": False}


@pytest.mark.slow
def test_the_line_is_still_known_at_the_end_of_a_long_loop() -> None:
    (found,) = [each for each in recorded(True, 50, steps=700).diagnoses if each.kind == "not_finite"]
    assert found.culprit
    assert found.culprit.code == "loss = (weight / weight).sum()"
    assert dict(found.arguments)["cause"] == "empty"


def test_a_loss_that_diverges_is_an_overflow_and_a_smaller_step_mends_it() -> None:
    causes = []
    for rate in (50.0, 0.01):
        weight = torch.nn.Parameter(torch.linspace(0.1, 1.0, 30))
        opt, finite = torch.optim.SGD([weight], lr=rate), []
        with seegrad.record(check_nan=True) as rec:
            for _ in range(40):
                opt.zero_grad()
                loss = weight.pow(2).sum()
                loss.backward()
                opt.step()
                finite.append(loss.detach())
        causes.append([dict(each.arguments)["cause"] for each in rec.diagnoses])
        called = [f"(backward call {1 + [bool(each.isfinite()) for each in finite].index(False)})" for _ in causes[-1]]
        assert all(when in each.message("en") for when, each in zip(called, rec.diagnoses, strict=True))
    assert causes == [["overflow"], []]


def finite(check_nan: bool) -> Recording:
    weight = torch.linspace(0.1, 1.0, 50).requires_grad_()
    with seegrad.record(check_nan=check_nan) as rec:
        (weight / weight.sqrt()).log().sum().backward()
    return rec.recording


def test_of_finite_numbers_nothing_is_kept_unless_it_is_asked_for() -> None:
    assert not finite(False).extremes
    assert finite(True).extremes


@pytest.mark.slow
def test_the_line_is_still_known_without_a_look_at_the_end_of_a_long_loop() -> None:
    """The weights are NaN from the second step on; the first is forgotten long before, but for this."""
    (found,) = [each for each in recorded(False, 50, steps=700).diagnoses if each.kind == "not_finite"]
    assert found.culprit
    assert (found.culprit.code, dict(found.arguments)["cause"]) == ("loss = (weight / weight).sum()", "zero")


def test_what_was_seen_is_read_back() -> None:
    recording = recorded(True, 50)
    assert Recording.from_json(recording.to_json()) == recording


@pytest.mark.parametrize("name", ["n_padded_query_sees_no_key", "kn_the_scaler_skips_what_overflows"])
def test_looking_changes_nothing(name: str) -> None:
    """Bits, the random generator's state, versions, and the numbers of the Nodes that are made afterwards."""

    def run(check_nan: bool | None) -> tuple[Any, ...]:
        torch.manual_seed(0)
        start = torch.ones(1, requires_grad=True).exp().grad_fn._sequence_nr()
        weight = torch.nn.Parameter(torch.linspace(0.0, 2.0, 40))
        with seegrad.record(check_nan=bool(check_nan)) if check_nan is not None else warnings.catch_warnings():
            programs()[name].run()
            loss = (weight.sqrt() * torch.rand(40)).sum()
            loss.backward(retain_graph=True)
        after = torch.ones(1, requires_grad=True).exp().grad_fn._sequence_nr() - start
        bits = weight.grad.view(torch.int32).tolist()
        return bits, weight._version, weight.grad._version, after, torch.get_rng_state().tolist()

    assert run(None) == run(False) == run(True)


def test_legal_programs_get_nothing() -> None:
    for name in programs():
        if name.startswith("kn_"):
            assert not seen(name).recording.diagnoses, name


# -- docs/not_finite.md

PAGE = (Path(__file__).parents[3] / "docs" / "not_finite.md").read_text(encoding="utf-8")


def reasons() -> list[list[str]]:
    """The rows of its table: cause, what isn't finite, what is."""
    rows = PAGE.split("<!-- table: reasons -->\n")[1].split("\n\n")[0].splitlines()[2:]
    return [
        ["\n".join(re.findall("`([^`]*)`", cell)) or cell.strip() for cell in row[1:-1].split(" | ")] for row in rows
    ]


@pytest.mark.parametrize(("cause", "broken", "mended"), reasons(), ids=[row[0] for row in reasons()])
def test_the_page_s_table_holds(cause: str, broken: str, mended: str) -> None:
    for code, causes in ((broken, [cause]), (mended, [])):
        names = {"torch": torch, "labels": torch.tensor([-100])}
        x = names["x"] = torch.tensor([0.0, 1.0, 4.0], requires_grad=True)
        with seegrad.record(check_nan=True) as rec, warnings.catch_warnings(action="ignore"):
            exec(code, names)  # noqa: S102  # the page's own lines
            names["loss"].backward()
        assert x.grad is not None
        assert bool(names["loss"].isfinite() and x.grad.isfinite().all()) == (code == mended)
        told = [dict(each.arguments)["cause"] for each in rec.diagnoses if each.kind == "not_finite"]
        assert told == causes


def test_the_page_s_program_prints_what_it_says(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, said = re.findall(r"```(?:python|text)\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "page.py").write_text(code, encoding="utf-8")
    runpy.run_path(str(tmp_path / "page.py"))
    assert capsys.readouterr().out == said


def test_what_values_keeps_shows_where_it_began_too() -> None:
    def program(**looks: bool) -> list[tuple[str, int | None]]:
        scores = torch.linspace(-1, 1, 36).reshape(6, 6).requires_grad_()
        mask = torch.zeros(6, 6).index_fill(0, torch.tensor(0), -torch.inf)
        with seegrad.record(**looks) as rec:
            masked = scores + mask
            a = masked.softmax(-1)
            a.sum().backward()
        return [(each.kind, each.culprit and each.culprit.line) for each in rec.diagnoses]

    assert program(values=True) == program(check_nan=True)
    assert program(values=True)[0][1] is not None
    assert program() == program(values=True)


def test_where_nobody_has_looked_the_ways_to_look_are_named() -> None:
    """Which op float16 overflowed in, a graph doesn't tell that kept neither what went in nor what came out."""
    w = torch.linspace(0, 1, 100).requires_grad_()
    with seegrad.record() as rec:
        (w.half() * 60_000 * 2).float().log_softmax(0)[3].sum().backward()
    (found,) = rec.diagnoses
    for way in ("`seegrad.record(check_nan=True)`", "`%%see --check-nan`", "`python -m seegrad`"):
        assert way in found.message("en")


@pytest.mark.parametrize("late", [-1e9, -torch.inf])
def test_of_two_masks_the_one_that_puts_the_infinity_there_is_told(late: float) -> None:
    """The second hides rows, by a number that is no matter: it's the first that leaves a sentence without a word."""
    keys, rows = torch.tensor([[1, 1, 0], [0, 0, 0]]).bool(), torch.tensor([[1, 1, 0], [1, 1, 1]]).bool()
    x = torch.randn(2, 3, 4)
    with seegrad.record(check_nan=True) as rec:
        weight = torch.randn(4, 4, requires_grad=True)
        scores = (x @ weight) @ x.transpose(1, 2)
        scores = scores.masked_fill(~keys[:, None, :], -torch.inf)
        scores = scores.masked_fill(~rows[:, :, None], late)
        shares = scores.softmax(-1)
        (shares @ x).square().mean().backward()
    (found,) = rec.diagnoses
    assert found.culprit is not None
    assert found.culprit.code == "shares = scores.softmax(-1)"
    assert [place.code for place, _ in found.instead] == ["scores = scores.masked_fill(~keys[:, None, :], -torch.inf)"]
