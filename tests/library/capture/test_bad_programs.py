"""Input that nobody means to give: torch's own behaviour first, and a Diagnosis with what is known."""

from __future__ import annotations

import linecache
import threading
import traceback
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch

import seegrad
from seegrad.capture.probes import torch_private as _torch
from seegrad.model.recording import Recording
from seegrad.words.errors import RecordingError

BROKEN = "x = torch.ones(2, requires_grad=True)\ny = x.exp()\ny.add_(1)\ny.sum().backward()\n"
"""A program whose culprit is on line 3 and whose victim is on line 2."""


@pytest.fixture(autouse=True)
def own_errors_are_raised(monkeypatch):
    monkeypatch.setenv("SEEGRAD_RAISE_OWN_ERRORS", "1")


def run(text: str, file: str) -> seegrad.record:
    """The record of a broken program that Python knows under this file name."""
    rec = seegrad.record()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"), rec:
        exec(compile(text, file, "exec"), {"torch": torch})  # noqa: S102  # code without a file is what this is about
    return rec


def lines(rec: seegrad.record) -> tuple[Any, Any, Any]:
    """(kind, culprit, victim) of the first Diagnosis, the lines as numbers."""
    first = rec.diagnoses[0]
    return first.kind, first.culprit and first.culprit.line, first.victim and first.victim.line


# -- recorders


def test_a_recorder_is_used_once() -> None:
    rec = seegrad.record()
    with rec, pytest.raises(RecordingError, match="new one for each block"), rec:
        pass
    with pytest.raises(RecordingError, match="new one for each block"), rec:
        pass
    assert torch._C._len_torch_function_stack() == 0


def test_recorders_in_each_other_say_the_same_whichever_is_left_first() -> None:
    outer, inner = seegrad.record(), seegrad.record()
    a = torch.ones(2, requires_grad=True)
    with outer:
        b = a.exp()
        inner.__enter__()
        b.data.zero_()
        b.sum().backward()
        inner.__exit__(None, None, None)
    assert [each.kind for each in outer.diagnoses] == ["silent_corruption"]
    assert inner.diagnoses[0].culprit == outer.diagnoses[0].culprit
    assert torch._C._len_torch_function_stack() == 0


def test_the_recording_of_a_thread_that_outlives_the_block_holds_what_its_own_thread_did() -> None:
    go_on, a = threading.Event(), torch.ones(2, requires_grad=True)

    def late() -> None:
        go_on.wait(10)
        a.exp().sum().backward()

    thread = threading.Thread(target=late)
    with seegrad.record() as rec:
        thread.start()
        b = a * 2
    before = rec.to_json()
    go_on.set()
    thread.join()
    assert rec.to_json() == before
    assert a.grad is not None
    assert [frame.op for frame in rec.frames] == ["start", "mul"]
    assert b.requires_grad


def test_two_threads_record_without_knowing_of_each_other() -> None:
    found: dict[str, list[str]] = {}

    def work(op: str) -> None:
        a = torch.ones(2, requires_grad=True)
        with seegrad.record() as rec:
            for _ in range(20):
                getattr(a, op)().sum().backward()
        found[op] = sorted({frame.op for frame in rec.frames if frame.phase == "forward"})

    threads = [threading.Thread(target=work, args=(op,)) for op in ("sin", "exp")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {"sin": ["sin", "sum"], "exp": ["exp", "sum"]}


def test_a_block_that_is_left_in_another_order_leaves_no_mode_behind() -> None:
    """Generators can leave blocks crosswise; torch allows it, so the recorder has to."""
    first, second = seegrad.record(), seegrad.record()
    first.__enter__()
    second.__enter__()
    torch.ones(2).add_(1)
    second.__exit__(None, None, None)
    first.__exit__(None, None, None)
    assert torch._C._len_torch_function_stack() == 0
    assert len(second.frames) <= len(first.frames)


# -- source that can't be read


@pytest.mark.parametrize("file", ["<stdin>", "<string>", "/no/such/file.py", "<ipython-input-3-abc>", "", "名字.py"])
def test_source_that_nobody_has(file: str) -> None:
    rec = run(BROKEN, file)
    assert lines(rec) == ("saved_tensor_modified", 3, 2)
    assert rec.diagnoses[0].culprit.file == file
    assert rec.diagnoses[0].culprit.code == ""
    assert "y" in rec.diagnoses[0].message()


def test_source_that_changed_on_disk_while_it_ran(tmp_path: Path) -> None:
    file = tmp_path / "changing.py"
    file.write_text(BROKEN)
    code = compile(BROKEN, str(file), "exec")
    file.write_text("# nothing\n")
    linecache.checkcache()
    rec = seegrad.record()
    with pytest.raises(RuntimeError), rec:
        exec(code, {"torch": torch})  # noqa: S102  # as above
    assert lines(rec) == ("saved_tensor_modified", 3, 2)
    assert rec.diagnoses[0].culprit.code == ""


def test_source_that_was_deleted_or_is_no_python(tmp_path: Path) -> None:
    gone, odd = tmp_path / "gone.py", tmp_path / "odd.py"
    odd.write_bytes(b"\xff\xfe\x00 not python \x00\n" * 5)
    assert lines(run(BROKEN, str(gone))) == ("saved_tensor_modified", 3, 2)
    assert lines(run(BROKEN, str(odd))) == ("saved_tensor_modified", 3, 2)


def test_code_on_one_line_and_line_numbers_beyond_the_file() -> None:
    assert lines(run(BROKEN.replace("\n", ";"), "<one line>"))[:2] == ("saved_tensor_modified", 1)
    assert lines(run("\n" * 9999 + BROKEN, "<far>")) == ("saved_tensor_modified", 10002, 10001)


# -- what stands among the variables


class Rude:
    """Raises at everything that a curious reader could ask."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(f"do not ask for {name}")

    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("not comparable")

    def __bool__(self) -> bool:
        raise RuntimeError("no truth")

    def __len__(self) -> int:
        raise RuntimeError("no length")

    def __iter__(self) -> Any:
        raise RuntimeError("not iterable")

    __hash__ = None  # type: ignore[assignment]  # unhashable on purpose


def test_rude_objects_among_the_variables_are_left_in_peace() -> None:
    rude, bag, table = Rude(), [Rude()], {"rude": Rude()}
    with seegrad.record() as rec:
        x = torch.ones(2, requires_grad=True)
        y = x.exp()
        y.data.zero_()
        y.sum().backward()
    assert rec.diagnoses[0].tensor == "y"
    assert [type(each) for each in (rude, bag[0], table["rude"])] == [Rude] * 3


def test_a_module_that_raises_when_it_is_looked_at() -> None:
    class Moody(torch.nn.Module):
        def named_parameters(self, *_: Any, **__: Any) -> Any:
            raise RuntimeError("not today")

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(name)

    moody = Moody()
    with seegrad.record() as rec:
        x = torch.ones(2, requires_grad=True)
        (x * 2).sum().backward()
    assert isinstance(moody, torch.nn.Module)
    assert any(each.name == "x" for each in rec.recording.tensors)


def test_a_million_numbers_in_a_list_cost_nothing_and_a_list_of_itself_ends() -> None:
    numbers: list[Any] = list(range(1_000_000))
    numbers.append(numbers)
    table: dict[str, Any] = {}
    table["itself"] = table
    with seegrad.record() as rec:
        x = torch.ones(2, requires_grad=True)
        (x * 2).sum().backward()
    assert len(numbers) > len(table)
    assert any(each.name == "x" for each in rec.recording.tensors)


class Sample:
    """A record that refers to all of them, as those of a data set do."""

    def __init__(self, everything: list[Sample], loss: torch.Tensor) -> None:
        self.everything, self.loss = everything, loss


def test_records_that_refer_to_each_other_are_looked_at_once() -> None:
    samples: list[Sample] = []
    x = torch.ones(2, requires_grad=True)
    samples += [Sample(samples, x * 2.0) for _ in range(3_000)]
    with seegrad.record() as rec:
        for _ in range(8):
            (x * 2).sum().backward()
    assert len(samples) == 3_000
    assert not rec.recording.collected


def test_names_in_any_script() -> None:
    rec = seegrad.record()
    with rec:
        変数 = torch.ones(2, requires_grad=True)  # noqa: N806  # Japanese knows no small letters
        β2 = 変数.exp()
        β2.data.zero_()
        β2.sum().backward()
    assert rec.diagnoses[0].tensor == "β2"
    assert Recording.from_json(rec.to_json()) == rec.recording


# -- tensors of every kind


def silently(make: Any) -> Any:
    """The first Diagnosis of a `.data` write between an op that saves its input and its backward."""
    x = make()
    w = torch.ones(x.shape, dtype=x.dtype, requires_grad=True)
    with seegrad.record() as rec:
        y = w * x
        x.data.mul_(3)
        y.sum().abs().backward()
    return next((each.kind for each in rec.diagnoses if each.severity != "note"), None)


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda: torch.tensor(2.0), "silent_corruption"),
        (lambda: torch.zeros(0), None),
        (lambda: torch.zeros(0, 3), None),
        (lambda: torch.tensor([float("inf"), 1.0]), "silent_corruption"),
        (lambda: torch.full((2,), float("nan")), None),
        (lambda: torch.zeros(2), None),
        (lambda: torch.tensor([1 + 1j]), "silent_corruption"),
        (lambda: torch.ones(2, dtype=torch.bfloat16), "silent_corruption"),
        (lambda: torch.ones(2, dtype=torch.float16), "silent_corruption"),
        (lambda: torch.ones(2, dtype=torch.float64), "silent_corruption"),
        (lambda: torch.ones(3, 2).t(), "silent_corruption"),
        (lambda: torch.ones(2, 1).expand(2, 1), "silent_corruption"),
        (lambda: torch.ones(4)[::2], "silent_corruption"),
    ],
    ids=count(),
)
def test_every_kind_of_number_is_compared(make: Any, kind: str | None) -> None:
    """What is 0, empty or not a number before is the same after: nothing was changed."""
    assert silently(make) == kind


def quantised() -> torch.Tensor:
    return torch.fake_quantize_per_tensor_affine(torch.ones(2), 0.1, 0, -128, 127)


@pytest.mark.parametrize("detail", ["default", "content"])
@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.eye(2).to_sparse(),
        lambda: torch.ones(2, dtype=torch.uint8),
        lambda: torch.ones(2, dtype=torch.bool),
        lambda: torch.ones(2, dtype=torch.float32).to(torch.float8_e5m2).to(torch.float32),
        lambda: torch.ones(2, device="meta"),
        lambda: torch.ones(2).conj(),
        lambda: torch.ones(2, dtype=torch.complex64).conj(),
        lambda: torch.ones(2)._neg_view(),
        lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged),
        quantised,
    ],
    ids=["sparse", "uint8", "bool", "float8", "meta", "real conj", "conj", "neg", "nested", "fake quantised"],
)
def test_odd_tensors_are_recorded_and_their_recording_is_json(make: Any, detail: str) -> None:
    with seegrad.record(detail=detail) as rec:
        x = make()
        y = x.clone()
        y.detach()
    assert Recording.from_json(rec.to_json()) == rec.recording
    assert [frame.op for frame in rec.frames].count("clone") == 1


def test_a_graph_whose_tensors_died() -> None:
    """Only the loss is left: names are gone, lines are not."""
    a = torch.ones(2, requires_grad=True)

    def build() -> torch.Tensor:
        hidden = a.exp()
        total = (hidden * 1).sum()
        hidden.detach().zero_()
        return total + hidden.sum()

    rec = seegrad.record()
    with pytest.raises(RuntimeError), rec:
        build().backward()
    first = build.__code__.co_firstlineno
    assert lines(rec) == ("saved_tensor_modified", first + 3, first + 1)
    assert rec.diagnoses[0].tensor == ("hidden" if _torch.READS_SAVED else None)  # torch 2.9 doesn't show whose it was


def test_a_graph_that_was_made_before_the_block() -> None:
    a = torch.ones(2, requires_grad=True)
    b = a.exp()
    b.detach().zero_()
    rec = seegrad.record()
    with pytest.raises(RuntimeError), rec:
        b.sum().backward()
    assert [each.kind for each in rec.diagnoses] == ["saved_tensor_modified"]
    assert rec.diagnoses[0].culprit is None
    assert rec.diagnoses[0].node == "ExpBackward0"
    assert rec.diagnoses[0].message()


def test_an_op_without_a_schema_that_writes() -> None:
    """A function that came from elsewhere and has no entry among torch's ops: its version says that it wrote."""

    def strange_(tensor: torch.Tensor) -> torch.Tensor:
        if torch.overrides.has_torch_function_unary(tensor):
            return torch.overrides.handle_torch_function(strange_, (tensor,), tensor)
        with torch.no_grad(), torch._C.DisableTorchFunction():
            return tensor.add_(1)

    a = torch.ones(2, requires_grad=True)
    rec = seegrad.record()
    with pytest.raises(RuntimeError), rec:  # noqa: PT012  # the whole block is recorded
        b = a.exp()
        strange_(b)
        b.sum().backward()
    kind, culprit, victim = lines(rec)
    assert kind == "saved_tensor_modified"
    assert culprit is not None
    assert culprit == victim + 1


def test_a_subclass_whose_torch_function_raises() -> None:
    class Refusing(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is torch.Tensor.exp:
                raise ArithmeticError("no exp")
            return super().__torch_function__(func, types, args, kwargs or {})

    rec = seegrad.record()
    with pytest.raises(ArithmeticError, match="no exp"), rec:
        torch.ones(2).as_subclass(Refusing).exp()
    assert rec.error is not None
    assert (rec.error.kind, rec.error.text) == ("ArithmeticError", "no exp")


def test_an_error_whose_text_raises() -> None:
    class Mute(RuntimeError):
        def __str__(self) -> str:
            raise ValueError("no words")

    rec = seegrad.record()
    with pytest.raises(Mute), rec:  # noqa: PT012  # as above
        torch.ones(2)
        raise Mute
    assert rec.error is None or rec.error.kind == "Mute"


def test_an_error_that_takes_no_notes() -> None:
    class Closed(RuntimeError):
        def add_note(self, _: str) -> None:
            raise TypeError("no notes")

    a = torch.ones(2, requires_grad=True)
    a_hook = a.exp()

    def hook(_: torch.Tensor) -> None:
        raise Closed("mine")

    a_hook.register_hook(hook)
    with pytest.raises(Closed, match="mine"), seegrad.record():
        a_hook.sum().backward()


# -- large

LENGTH = 20_000
"""Twenty times what recursion stands; `benchmarks/record.py` runs 100,000."""


@pytest.mark.whole
def test_a_long_chain_of_ops() -> None:
    """Nothing of ours recurses. Torch does when such a graph dies: one whose Nodes were ever looked at (`y.grad_fn`,
    recorder or not) is freed Node by Node on the stack, so the graph lives and dies in a thread with a large one.
    """
    found: list[Any] = []

    def chain() -> None:
        with seegrad.record() as rec:
            x = torch.ones((), requires_grad=True)
            y = x
            for _ in range(LENGTH):
                y = y * 1.0
            y.backward()
        found.extend((float(x.grad), len(rec.recording.nodes), rec.diagnoses))

    usual = threading.stack_size(1 << 30)
    try:
        thread = threading.Thread(target=chain)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(usual)
    assert found == [1.0, LENGTH + 1, ()]


def test_a_chain_that_was_made_before_the_block() -> None:
    """All its Nodes are met at once: no walk over them may recurse."""
    x = torch.ones((), requires_grad=True)
    y = x
    for _ in range(LENGTH):
        y = y * 1.0
    with seegrad.record() as rec:
        y.backward()
    assert x.grad == 1
    assert len(rec.recording.nodes) == LENGTH + 1


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # torch's StorageWeakRef, half made
def test_recursion_of_the_program_s_own_ends_as_python_ends_it() -> None:
    def deeper(x: torch.Tensor) -> torch.Tensor:
        return deeper(x * 1)

    with pytest.raises(RecursionError), seegrad.record() as rec:
        deeper(torch.ones(2, requires_grad=True))
    assert rec.error is not None
    assert rec.error.kind == "RecursionError"
    assert torch._C._len_torch_function_stack() == 0


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError])
def test_whatever_leaves_the_block_leaves_nothing_on(interrupt: type[BaseException]) -> None:
    rec = seegrad.record()
    with pytest.raises(interrupt), rec:  # noqa: PT012  # as above
        torch.ones(2, requires_grad=True).exp().sum().backward()
        raise interrupt
    assert torch._C._len_torch_function_stack() == 0
    assert len(rec.frames) > 1


def test_the_traceback_of_every_caught_error_can_be_printed() -> None:
    with seegrad.record() as rec:
        try:
            torch.ones(2) @ torch.ones(3)
        except RuntimeError as error:
            text = "".join(traceback.format_exception(error))
    assert "torch.ones(2) @ torch.ones(3)" in text
    assert rec.error is None
    assert len(rec.recording.errors) == 1
