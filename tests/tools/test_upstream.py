"""`make test-upstream`: what is seen of a run, what counts as a difference, that a crash or a hang costs one run."""

from __future__ import annotations

import gc
import json
import unittest
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch

from tools.upstream import __main__ as command
from tools.upstream import compare, crew, page, worker
from tools.upstream.compare import Difference, Run, Unequal, Verdict, judge
from tools.upstream.sight import Onlooker, hashed, living, memory_of
from tools.words.marks import between_marks

TINY = '''
import logging
import os
import time
import unittest

import torch

KEPT = []


def recorded():
    return torch._C._len_torch_function_stack() > 0


class TestTiny(unittest.TestCase):
    def test_abort(self):
        os.abort()

    def test_bits(self):
        x = torch.ones(3, requires_grad=True)
        (x * (3 if recorded() else 2)).sum().backward()

    def test_compared(self):
        self.assertEqual(torch.zeros(()).fill_(recorded()), torch.zeros(()).fill_(recorded()))

    @unittest.expectedFailure
    def test_expected(self):
        self.fail("as always")

    def test_fine(self):
        x = torch.ones(3, requires_grad=True)
        self.assertIs(torch.autograd.grad(x.exp().sum(), x)[0].requires_grad, False)

    def test_hang(self):
        time.sleep(1000)

    def test_kept(self):
        if recorded():
            KEPT.append(torch.ones(3))

    def test_logged(self):
        if recorded():
            logging.getLogger("seegrad").warning("something happened at %s", object())

    def test_outcome(self):
        self.assertFalse(recorded())

    def test_random(self):
        if recorded():
            torch.rand(1)

    @unittest.skip("not here")
    def test_skipped(self):
        self.fail("never")

    def test_unsteady(self):
        self.fail(str(time.perf_counter()))


def helper(TestCase=unittest.TestCase):
    """Nothing that a runner should take for a test."""
'''


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, dict[str, Verdict], dict[str, Any]]:
    """The command, run once on a folder made for it: its exit status, its verdicts, its JSON."""
    folder = tmp_path_factory.mktemp("tests")
    (folder / "deep").mkdir()
    (folder / "deep" / "test_tiny.py").write_text(TINY)
    (folder / "test_broken.py").write_text("import nothing_of_this_name")
    written = folder / "all.json"
    status = command.main([str(folder), "--timeout", "8", "--json", str(written)])
    data = json.loads(written.read_text())
    found = map(Verdict.from_data, data["verdicts"])
    verdicts = {each.test.rpartition(".")[2]: each for each in found}
    return status, verdicts, data


@pytest.mark.whole
def test_every_test_has_a_verdict_and_a_difference_is_told_by_the_exit_status(
    tiny: tuple[int, dict[str, Verdict], dict[str, Any]],
) -> None:
    status, verdicts, data = tiny
    assert status == 1
    assert data["mode"] == "recorded"
    assert len(verdicts) == TINY.count("def test_")
    assert verdicts["test_fine"].test == "deep/test_tiny.py::TestTiny.test_fine"


@pytest.mark.parametrize(
    ("test", "outcome"),
    [
        ("test_abort", "crashed: SIGABRT"),
        ("test_expected", "failed as expected: AssertionError"),
        ("test_fine", "passed"),
        ("test_hang", "hung"),
        ("test_skipped", "skipped"),
    ],
)
@pytest.mark.whole
def test_what_ends_alike_is_equal_and_what_crashed_or_hung_stops_nobody(
    tiny: tuple[int, dict[str, Verdict], dict[str, Any]], test: str, outcome: str
) -> None:
    verdict = tiny[1][test]
    assert (verdict.outcome, verdict.differences, verdict.unsteady) == (outcome, (), ())


@pytest.mark.parametrize(
    ("test", "aspects", "recorded"),
    [
        ("test_bits", ["bits"], "grad Tensor float32 [3]"),
        ("test_compared", ["bits"], "compared Tensor float32 []"),
        ("test_kept", ["alive"], "tensor 1"),
        ("test_logged", ["logged"], "something happened at <object object at 0x…>"),
        ("test_outcome", ["outcome", "text"], "failed: AssertionError"),
        ("test_random", ["random"], ""),
    ],
)
@pytest.mark.whole
def test_what_differs_is_seen(
    tiny: tuple[int, dict[str, Verdict], dict[str, Any]], test: str, aspects: list[str], recorded: str
) -> None:
    verdict = tiny[1][test]
    assert [each.aspect for each in verdict.differences] == aspects
    assert verdict.differences[0].recorded.startswith(recorded)


@pytest.mark.whole
def test_of_what_changes_by_itself_nothing_is_said(
    tiny: tuple[int, dict[str, Verdict], dict[str, Any]],
) -> None:
    assert (tiny[1]["test_unsteady"].differences, tiny[1]["test_unsteady"].unsteady) == ((), ("text",))


def test_a_file_that_cannot_be_imported_is_said_to_be_one(tmp_path: Path) -> None:
    broken = tmp_path / "test_broken.py"
    broken.write_text("import nothing_of_this_name")
    with pytest.raises(crew.NotLoaded, match=r"test_broken\.py can't be imported:[\s\S]*nothing_of_this_name"):
        crew.tests_in(broken)


def test_a_folder_without_tests_is_no_success(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main([str(tmp_path)]) == 2
    assert "No test was found." in capsys.readouterr().out


def test_tests_are_chosen_by_name_and_evenly(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").touch()
    (tmp_path / "test_b.py").touch()
    campaign = command.Campaign(tmp_path, "recorded", 1, only=("test_a.py",), without=("deep",), at_most=2)
    assert [path.name for path in campaign.files()] == ["test_a.py"]
    names = ["T.test_one", "T.test_deep", "T.test_two", "T.test_three", "T.test_four"]
    assert campaign.chosen(tmp_path / "test_a.py", names) == ["T.test_one", "T.test_three"]
    assert not campaign.chosen(tmp_path / "test_b.py", names)


# -- judging


def test_a_difference_is_one_that_every_pair_shows() -> None:
    passed, failed = Run("passed"), Run("failed: AssertionError")
    assert judge("t", [passed, passed], [failed, failed]).differences == (
        Difference("outcome", "passed", "failed: AssertionError"),
    )
    assert judge("t", [passed, passed], [failed, passed]).unsteady == ("outcome",)
    assert judge("t", [passed, failed], [failed, passed]).unsteady == ("outcome",)


def test_of_what_torch_itself_leaks_one_more_may_be_seen() -> None:
    plain, more = Run("passed", alive=(("tensor", 5),)), Run("passed", alive=(("Node", 1), ("tensor", 6)))
    assert not judge("t", [plain], [more]).differences
    (difference,) = judge("t", [Run("passed")], [more]).differences
    assert difference == Difference("alive", "nothing", "Node 1, 1 more")


def test_where_a_run_was_ended_nothing_else_is_compared() -> None:
    passed = Run("passed", bits=("a",), random="b")
    assert judge("t", [passed], [Run("hung")]).differences == (Difference("outcome", "passed", "hung"),)


def test_time_is_no_difference_and_the_quickest_run_counts() -> None:
    verdict = judge("t", [Run("passed", seconds=2), Run("passed", seconds=1)], [Run("passed", seconds=5)])
    assert (verdict.differences, verdict.plain_s, verdict.recorded_s) == ((), 1, 5)


def test_the_written_list_covers_what_it_names_and_no_more(tmp_path: Path) -> None:
    page = tmp_path / "list.toml"
    page.write_text(
        '[[unequal]]\ntests = "test_x.py::*.test_profiler*"\naspects = ["outcome"]\n'
        'modes = ["nested"]\nwhy = "events"\n'
    )
    (entry,) = compare.written_list(page)
    assert entry == Unequal("test_x.py::*.test_profiler*", ("outcome",), "events", ("nested",))
    outcome, bits = Difference("outcome", "a", "b"), Difference("bits", "a", "b")
    verdict = Verdict("test_x.py::T.test_profiler_count", "passed", (outcome,), (), 0, 0)
    assert entry.covers(verdict, "nested")
    assert not entry.covers(verdict, "recorded")
    assert compare.explained(verdict, "nested", [entry]).why == "events"
    assert not compare.explained(verdict, "recorded", [entry]).why
    assert not entry.covers(Verdict(verdict.test, "passed", (outcome, bits), (), 0, 0), "nested")
    assert not entry.covers(Verdict("test_y.py::T.test_profiler", "passed", (outcome,), (), 0, 0), "nested")


def test_a_file_is_counted_by_class() -> None:
    told = (Difference("bits", "a", "b"),)
    (count,) = compare.counted(
        [
            Verdict("f.py::T.a", "passed", (), ("text",), 1, 2),
            Verdict("f.py::T.b", "skipped", (), (), 0, 0),
            Verdict("f.py::T.c", "passed", told, (), 1, 2),
            Verdict("f.py::T.d", "passed", told, (), 1, 2, why="written"),
            Verdict("f.py::T.e", "hung", (), (), 0, 0),
        ],
        "content",
    )
    assert (count.tests, count.skipped, count.too_slow) == (5, 1, 1)
    assert (count.equal, count.listed, count.differ) == (1, 1, 1)
    assert (count.unsteady, count.slowdown) == (1, 2.0)


def test_a_run_comes_back_from_json() -> None:
    run = Run("passed", bits=("a", "b"), alive=(("tensor", 1),), logged=("x",), seconds=0.5)
    assert Run.from_data(json.loads(json.dumps(asdict(run)))) == run


# -- seeing


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(12.0).reshape(3, 4).t()[1:],
        torch.ones(3).expand(2, 3),
        torch.tensor(1 + 2j),
        torch.zeros(0, 3),
        torch.arange(6, dtype=torch.bfloat16)[::2],
    ],
)
def test_memory_is_read_as_torch_reads_it(tensor: torch.Tensor) -> None:
    assert memory_of(tensor) == tensor.contiguous().view(-1).view(torch.uint8).numpy().tobytes()


def test_reading_breaks_no_copy_on_write() -> None:
    source = torch.arange(3.0)
    lazy = torch._lazy_clone(source)
    assert memory_of(lazy) == memory_of(source)
    assert torch._C._is_cow_tensor(lazy)


def test_no_mode_sees_the_reading() -> None:
    calls = []

    class Listening(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            calls.append(func)
            return func(*args, **(kwargs or {}))

    tensor = torch.ones(3, requires_grad=True)
    with Listening():
        hashed(tensor)
    assert not calls


@pytest.mark.parametrize(
    "tensor",
    [
        torch.ones(3, device="meta"),
        torch.eye(2).to_sparse(),
        torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged),
    ],
)
def test_what_is_no_plain_memory_has_a_kind_all_the_same(tensor: torch.Tensor) -> None:
    assert hashed(tensor) == hashed(tensor)


def test_the_gradients_of_a_backward_and_of_grad_are_seen() -> None:
    gc.collect()
    gc.freeze()
    onlooker = Onlooker()
    with onlooker.open():
        leaf = torch.ones(2, requires_grad=True)
        leaf.sum().backward()
        (gradient,) = torch.autograd.grad(leaf.exp().sum(), leaf)
    assert onlooker.bits == [f"grad {hashed(leaf.grad)}", f"returned {hashed(gradient)}"]


def test_the_living_are_counted_by_kind() -> None:
    gc.collect()
    gc.freeze()
    kept = [torch.ones(1, requires_grad=True).exp(), torch.nn.Linear(1, 1)]
    kept.append(kept[0].grad_fn)
    found = dict(living())
    assert found == {"Node": 1, "module": 1, "tensor": 4}  # the leaf lives on behind its Node


# -- the page


def case_that_leaves_a_traceback() -> type[unittest.TestCase]:
    """Made here: pytest is to run it in no other way."""

    class LeavesTraceback(unittest.TestCase):
        def test_left_in_a_variable(self) -> None:
            def forward(_ctx: Any, x: torch.Tensor) -> torch.Tensor:
                return x

            def backward(_ctx: Any, *_gradients: torch.Tensor) -> Any:
                raise ValueError

            methods = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
            fails: Any = type("Fails", (torch.autograd.Function,), methods)
            try:
                fails.apply(torch.ones(2, requires_grad=True)).sum().backward()
            except ValueError as error:
                step = error.__traceback__  # which holds this frame, which holds it
                assert step is not None

    return LeavesTraceback


@pytest.mark.parametrize("side", ["plain", "recorded"])
def test_what_takes_the_collector_two_passes_is_gone(side: str) -> None:
    found = worker.run(case_that_leaves_a_traceback(), "test_left_in_a_variable", side)
    assert (found.outcome, found.alive) == ("passed", ())


def test_the_page_shows_the_written_list() -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    assert between_marks(text, page.table_of_reasons(compare.written_list(page.LIST)), "list") == text


@pytest.mark.whole
def test_the_page_has_room_for_counts_from_json(
    tiny: tuple[int, dict[str, Verdict], dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy, found = tmp_path / "page.md", tmp_path / "found.json"
    copy.write_text(page.PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    found.write_text(json.dumps(tiny[2]))
    monkeypatch.setattr(page, "PAGE", copy)
    assert page.main([str(found)]) == 0
    assert "| deep/test_tiny.py | recorded | 12 | 1 | 1 | 4 | 0 | 6 | ×" in copy.read_text(encoding="utf-8")


def test_the_list_s_entries_say_why_and_name_aspects_and_modes() -> None:
    for entry in compare.written_list(page.LIST):
        assert entry.why.endswith(".")
        assert set(entry.aspects) <= set(compare.ASPECTS)
        assert set(entry.modes) <= set(command.MODES)


@pytest.mark.parametrize("mode", command.MODES)
def test_every_mode_is_a_side_and_on_the_page(mode: str) -> None:
    assert mode in worker.SIDES
    assert f"| {mode} | " in page.PAGE.read_text(encoding="utf-8")
