"""What is pinned where: a graph that is cut says so at the cut, and no label stands on another."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

import seegrad
from seegrad.model.recording import Recording
from seegrad.picture import draw
from seegrad.picture.sketch import Mark, Sketch, sketch

CUT = ("the graph is cut here",)
RAISED = ("torch raised here",)


def leaf(*numbers: float) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.float32, requires_grad=True)


def recorded(program: Callable[..., Any], *given: Any) -> Recording:
    with seegrad.record() as rec, contextlib.suppress(RuntimeError):  # what the picture is about
        program(*given)
    return rec.recording


def pinned(parts: Sketch, mark: Mark) -> str:
    """The name of what carries a mark."""
    cards, pills = {card.id: card.label for card in parts.cards}, {pill.id: pill.symbol for pill in parts.pills}
    return {**cards, **pills}[mark.target]


def detached(a: torch.Tensor, w: torch.Tensor) -> None:
    h = a * 2
    d = h.detach()
    loss = (d * w).sum()
    loss.backward()


def chosen(a: torch.Tensor, w: torch.Tensor) -> None:
    h = a * 2
    i = h.argmax()
    loss = (w * i).sum()
    loss.backward()


def made_anew(a: torch.Tensor, w: torch.Tensor) -> None:
    h = a * 2
    p = torch.tensor(h.tolist(), requires_grad=True)
    loss = (p * w).sum()
    loss.backward()


@pytest.mark.parametrize(("program", "where"), [(detached, "d"), (chosen, "argmax"), (made_anew, "p")])
def test_the_note_of_a_cut_is_pinned_where_it_happens(program: Callable[..., Any], where: str) -> None:
    parts = sketch(recorded(program, leaf(1, 2), leaf(3, 4)))
    assert [(pinned(parts, mark), mark.severity, mark.lines) for mark in parts.marks] == [(where, "note", CUT)]


def test_an_error_is_pinned_at_the_loss_and_the_cut_where_it_happened() -> None:
    def program(a: torch.Tensor) -> None:
        with torch.no_grad():
            h = a * 2
        loss = h.sum()
        loss.backward()

    parts = sketch(recorded(program, leaf(1, 2)))
    told = [(pinned(parts, mark), mark.severity, mark.lines) for mark in parts.marks]
    assert told == [("loss", "error", RAISED), ("×", "note", CUT)]


def test_a_loss_that_is_cut_itself_has_one_mark() -> None:
    def program(a: torch.Tensor) -> None:
        loss = (a * 2).sum().detach()
        loss.backward()

    parts = sketch(recorded(program, leaf(1, 2)))
    assert [(pinned(parts, mark), mark.severity, mark.lines) for mark in parts.marks] == [("loss", "error", CUT)]


def test_where_a_write_lets_only_zeros_back_the_graph_is_not_called_cut() -> None:
    def program(a: torch.Tensor, w: torch.Tensor) -> None:
        h = a * 2
        h.zero_()
        loss = (h * w).sum()
        loss.backward()

    parts = sketch(recorded(program, leaf(1, 2), leaf(3, 4)))
    assert [mark.lines for mark in parts.marks] == [("only 0 goes back from here",)]


def test_where_nothing_needed_a_gradient_nothing_is_cut() -> None:
    def program(x: torch.Tensor) -> None:
        loss = x.sum()
        loss.backward()

    parts = sketch(recorded(program, torch.ones(2)))
    assert [mark.lines for mark in parts.marks] == [RAISED]


def test_the_way_to_another_name_stands_below_the_badge_of_the_leaf() -> None:
    def program(a: torch.Tensor) -> None:
        d = a.detach()
        (d * a).sum().backward()

    body = draw(recorded(program, leaf(1, 2))).body
    (label,) = re.findall(r'<text x="[\d.]+" y="([\d.]+)" class="lk"[^>]*>\.detach\(\)', body)
    ((card, badge),) = re.findall(
        r'class="nd tn leaf"[^>]*translate\([\d.]+ ([\d.]+)\)".*?class="acc" transform="translate\([\d.]+ ([\d.]+)\)',
        body,
    )
    capitals_px, badge_px = 7.5, 7.5
    assert float(label) - capitals_px >= float(card) + float(badge) + badge_px


def test_the_line_that_did_the_damage_is_told_where_it_shows() -> None:
    code = "out = a.sigmoid()\nc = out.data\nc.zero_()\nout.sum().backward()"
    names = {"a": leaf(1, 2, 3)}
    with seegrad.record(code=("example.py", 1, code)) as rec:
        exec(compile(code, "example.py", "exec"), names)  # noqa: S102  # our own text, above
    told = [(frame.severity, frame.culprit) for frame in draw(rec.recording).frames if frame.severity]
    assert told == [("wrong", 2)]


def test_a_note_accuses_no_line() -> None:
    code = "h = a * 2\nd = h.detach()\n(d * w).sum().backward()"
    names = {"a": leaf(1, 2), "w": leaf(3, 4)}
    with seegrad.record(code=("example.py", 1, code)) as rec:
        exec(compile(code, "example.py", "exec"), names)  # noqa: S102  # our own text, above
    told = [(frame.severity, frame.culprit, frame.noted) for frame in draw(rec.recording).frames if frame.severity]
    assert told == [("note", None, 1)]
