"""What cells put out is bounded by what is kept of it, however few messages say it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from nbformat.v4 import new_code_cell, new_notebook

from nbjudge.grading.engine import _finished
from nbjudge.grading.outputs import CELLS, MESSAGES, Outputs
from nbjudge.model import Limits
from nbjudge.wire import Packet

LIMIT_BYTES = 1_000_000


def kept(*stretches: list[dict[str, Any]], tests: tuple[int, ...] = ()) -> list[Any]:
    """The cells after these messages, a list for each; those at `tests` are test cells."""
    book = new_notebook(cells=[new_code_cell("") for _ in stretches])
    outputs = Outputs(book, LIMIT_BYTES)
    for index, (cell, said) in enumerate(zip(book.cells, stretches, strict=True)):
        outputs.begin(cell, streams_only=index in tests)
        for header in said:
            outputs.add(Packet(header, b""), cell, index)
        outputs.finish(cell, {})
    return list(book.cells)


def display(text: str, name: str | None = None, kind: str = "display_data") -> dict[str, Any]:
    transient = {"display_id": name} if name else {}
    return {"msg_type": kind, "content": {"data": {"text/plain": text}, "metadata": {}, "transient": transient}}


def update(text: str, name: str) -> dict[str, Any]:
    return display(text, name, "update_display_data")


def size(cells: list[Any]) -> int:
    return len(json.dumps([cell.outputs for cell in cells]))


def test_one_update_of_many_outputs_counts_as_often_as_it_is_written() -> None:
    many = [display("x", "a") for _ in range(100)]
    assert size(kept([*many, update("A" * 600_000, "a")])) < 2 * LIMIT_BYTES
    assert size(kept(many, [update("A" * 600_000, "a")])) < 3 * LIMIT_BYTES


def test_an_error_that_a_reply_alone_tells_counts_as_any_output() -> None:
    """The reply is the student's process's, forged or not: megabytes in each cell would be the coordinator's memory."""
    book = new_notebook(cells=[new_code_cell("") for _ in range(8)])
    outputs = Outputs(book, LIMIT_BYTES)
    for cell in book.cells:
        outputs.begin(cell)
        outputs.finish(cell, {"status": "error", "ename": "E" * 10_000, "evalue": "v", "traceback": ["x" * 700_000]})
    assert 700_000 < size(list(book.cells)) < CELLS * LIMIT_BYTES
    assert "cut here" in book.cells[-1].outputs[0].text


def test_outputs_of_one_name_and_updates_of_them_are_counted_together() -> None:
    (cell,) = kept([display("x", "a") for _ in range(MESSAGES)])
    assert len(cell.outputs) ** 2 < 3 * MESSAGES
    assert "was cut here" in cell.outputs[-1].text


@pytest.mark.parametrize("letter", ["a", "\0", "\x1b", "数", "😀", '"', "\\"])
def test_a_letter_counts_as_many_bytes_as_it_takes_to_write(letter: str) -> None:
    cells = kept(*[[{"msg_type": "stream", "content": {"name": "stdout", "text": letter * 5000}}] * 500] * 4)
    assert size(cells) < 2 * CELLS * LIMIT_BYTES


def test_a_notebook_that_has_grown_past_its_bounds_is_kept_without_its_outputs() -> None:
    limits = Limits(output_bytes=LIMIT_BYTES, notebook_bytes=1000)
    lines = {"output_type": "display_data", "data": {"text/plain": "x" * CELLS * LIMIT_BYTES}, "metadata": {}}
    few, many = ([new_code_cell("1", outputs=[lines] * count) for count in counts] for counts in ([0], [1, 2]))
    assert "more than is kept" not in _finished(new_notebook(cells=few), (), limits)
    text = _finished(new_notebook(cells=many), (), limits)
    assert text.count("The outputs of this notebook are more than is kept.") == 2
    assert len(text) < 5000


def test_what_is_shown_and_then_updated_stays_as_it_was_meant() -> None:
    (cell,) = kept([display("0 %", "bar"), *(update(f"{n} %", "bar") for n in range(200))])
    assert [output.data for output in cell.outputs] == [{"text/plain": "199 %"}]


def test_what_stands_before_a_test_is_not_changed_after_it() -> None:
    first, _, _ = kept([display("before", "a")], [], [update("what the test has asked", "a")], tests=(1,))
    assert [output.data for output in first.outputs] == [{"text/plain": "before"}]
    first, _ = kept([display("before", "a")], [update("after", "a")])
    assert [output.data for output in first.outputs] == [{"text/plain": "after"}]
