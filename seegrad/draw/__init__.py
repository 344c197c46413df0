"""Recording → Scene: one SVG that holds every step, the words beside it, and the inspector's rows.

A part carries the first and last step at which it is visible (`data-a`, `data-b`) and its state step by step
(`data-st`). The player flips attributes; `still` reads the same string, so the two can't differ.
"""

from __future__ import annotations

import hashlib

from ..cards import Sketch, sketch
from ..languages import _, speaking
from ..layout import arrange, fold
from ..model import Recording
from ..scene import Layout, Point, Question, Scene, SceneFrame
from ..widths import wrapped
from .captions import MOST_STEPS, scene_frames
from .functions import draw_pill
from .inspect import items_of
from .legend import draw_legend
from .sizes import Box, Measured
from .states import States
from .still import still
from .storage import draw_frames, draw_tags
from .svg import UID, el, text
from .table import table
from .tensors import draw_card
from .wires import Wiring

__all__ = ["MOST_CARDS", "MOST_STEPS", "draw", "layout", "still", "table"]

MOST_CARDS = 400
MARGIN_PX = 12
RANK_GAP_PX = 27
PAGE_PX = 950  # the width of a notebook's page
SHRINKS_PX = 1180  # a picture of this width is still readable when it is shrunk to the page
NARROWEST_PX = 640


def draw(recording: Recording, question: Question | None = None, lang: str | None = None) -> Scene:
    """The Scene of a Recording. What is too large or empty becomes a plain sentence instead of a picture.

    >>> draw(Recording()).frames[0].text
    'Nothing has run yet, and no tensor is known.'
    """
    with speaking(lang) as spoken:
        return _draw(recording, question, spoken)


def _draw(recording: Recording, question: Question | None, lang: str) -> Scene:
    reason = _too_large(len(recording.tensors) // 4, recording)
    if reason is not None:
        return _told(recording, reason, lang)
    parts = sketch(recording)
    reason = _too_large(len(parts.cards), recording)
    if reason is not None:
        return _told(recording, reason, lang)
    if not parts.cards:
        return _told(recording, _("No tensor was seen in this block, so there is no graph to draw."), lang)
    frames = scene_frames(recording, parts, lang, question.veil if question else "")
    body, size = _picture(parts, len(frames))
    return _scene(recording, parts, frames, body, size, question, lang)


def _too_large(cards: int, recording: Recording) -> str | None:
    """Why there is no picture, or None. A quarter of the tensors is a cheap guess that never counts too many."""
    steps = len(recording.frames)
    if cards <= MOST_CARDS and steps <= MOST_STEPS:
        return None
    return _(
        "This graph is too large for a picture: it has {tensors} tensors and {steps} steps, and at most {cards} and "
        "{most_steps} can be read. Record fewer lines, or read the steps below."
    ).format(tensors=len(recording.tensors), steps=steps, cards=MOST_CARDS, most_steps=MOST_STEPS)


def _told(recording: Recording, sentence: str, lang: str) -> Scene:
    """A Scene whose picture is a sentence; its steps are told all the same."""
    frames = scene_frames(recording, Sketch(), lang)
    return _scene(recording, Sketch(), frames, *_sentence(sentence), None, lang)


def _scene(
    recording: Recording,
    parts: Sketch,
    frames: tuple[SceneFrame, ...],
    body: str,
    size: tuple[float, float],
    question: Question | None,
    lang: str,
) -> Scene:
    uid = "s" + hashlib.sha1((body + str(question)).encode(), usedforsecurity=False).hexdigest()[:7]
    width, height = size
    return Scene(
        uid=uid,
        body=body.replace(UID, uid),
        view_box=f"0 0 {width:g} {height:g}",
        width_px=width,
        height_px=height,
        frames=frames,
        items=items_of(recording, parts),
        code=recording.code,
        question=question,
        lang=lang,
    )


def layout(parts: Sketch, measured: Measured) -> tuple[Layout, list[int]]:
    """The Layout of a Sketch, and which of its wires are links there: not those inside one stack."""
    home = measured.home
    linked = [k for k, wire in enumerate(parts.wires) if home[wire.source] != home[wire.target]]
    links = [(home[parts.wires[k].source], home[parts.wires[k].target]) for k in linked]
    root = home.get(parts.root) if parts.root else None
    placed = arrange(measured.shapes, links, root, rank_gap_px=RANK_GAP_PX)
    return (placed if placed.width_px <= SHRINKS_PX else fold(placed, measured.shapes, PAGE_PX)), linked


def _picture(parts: Sketch, steps: int) -> tuple[str, tuple[float, float]]:
    measured = Measured(parts)
    placed, linked = layout(parts, measured)
    width = max(placed.width_px, NARROWEST_PX)
    left = MARGIN_PX + (width - placed.width_px) / 2
    top = MARGIN_PX + 4
    centres = {name: (x + left, y + top) for name, (x, y) in placed.centres}
    boxes = measured.boxes(centres)
    routes = {k: tuple((x + left, y + top) for x, y in route) for k, route in zip(linked, placed.routes, strict=True)}
    legend, legend_height = draw_legend(parts, MARGIN_PX, placed.height_px + top + 30, width, steps)
    body = _defs() + draw_frames(parts, measured, boxes) + _parts(parts, measured, boxes, routes, steps) + legend
    height = placed.height_px + top + MARGIN_PX + (legend_height + 14 if legend else 0)
    return body, (round(width + 2 * MARGIN_PX, 1), round(height, 1))


def _parts(
    parts: Sketch, measured: Measured, boxes: dict[str, Box], routes: dict[int, tuple[Point, ...]], steps: int
) -> str:
    wiring = Wiring(parts, boxes, routes, steps)
    marks = {mark.target: mark for mark in parts.marks}
    states = States(parts, steps)
    cards = [draw_card(c, boxes[c.id], measured.cards[c.id], states.of_card(c), steps) for c in parts.cards]
    pills = [draw_pill(p, boxes[p.id], marks.get(p.id), states.of_pill(p), steps) for p in parts.pills]
    return "".join([*wiring.draw(), *cards, *pills, wiring.pins(), draw_tags(parts, boxes)])


def _defs() -> str:
    head = el("marker", el("path", class_="mk", d="M0 0L10 5L0 10z"), id=f"{UID}-head", viewBox="0 0 10 10", refX="8.5",
              refY=5, markerWidth=5, markerHeight=5, orient="auto")  # fmt: skip
    hatch = el("pattern", el("rect", class_="hl", width=2, height=7), id=f"{UID}-hatch", width=7, height=7,
               patternUnits="userSpaceOnUse", patternTransform="rotate(45)")  # fmt: skip
    return el("defs", head, hatch)


def _sentence(sentence: str) -> tuple[str, tuple[float, float]]:
    lines = wrapped(sentence, 90)
    drawn = "".join(text(line, 20, 34 + 20 * k, "say") for k, line in enumerate(lines))
    return drawn, (720.0, 44.0 + 20 * len(lines))
