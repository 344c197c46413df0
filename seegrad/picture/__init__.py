"""Recording → Scene: one SVG that holds every step, the words beside it, and the inspector's rows.

A part carries the first and last step at which it is visible (`data-a`, `data-b`), or all of them (`data-at`), and its
state step by step (`data-st`). The player flips attributes; `still` reads the same string, so the two can't differ.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

from seegrad.model.recording import Recording
from seegrad.model.scene import Item, Question, Scene, SceneFrame, SceneLevel
from seegrad.picture.sketch import Level, Sketch, collapse, sketch
from seegrad.picture.steps import MOST_TOLD, items_of, scene_frames, with_verdict
from seegrad.picture.still import still, table
from seegrad.picture.svg import SharedParts, pictures
from seegrad.picture.svg.elements import text, with_uid
from seegrad.words.languages import _, speaking
from seegrad.words.widths import wrapped

__all__ = ["MOST_NODES", "MOST_STEPS", "MOST_TOLD", "draw", "still", "table"]

MOST_NODES = 6000  # Functions in one picture, all its levels together
MOST_STEPS = 15000


def draw(recording: Recording, question: Question | None = None, lang: str | None = None) -> Scene:
    """The Scene of a Recording. What is too large or empty becomes a plain sentence instead of a picture.

    >>> draw(Recording()).frames[0].text
    'Nothing has run yet, and no tensor is known.'
    """
    with speaking(lang) as spoken:
        return _draw(recording, question, spoken)


def _draw(recording: Recording, question: Question | None, lang: str) -> Scene:
    nodes, steps = len(recording.nodes), len(recording.frames)
    if nodes > MOST_NODES or steps > MOST_STEPS:
        sentence = _(
            "This graph is too large for a picture: it has {nodes} Functions and {steps} steps, and at most "
            "{most_nodes} and {most_steps} can be drawn. Record fewer lines, or read the steps below."
        )
        sentence = sentence.format(nodes=nodes, steps=steps, most_nodes=MOST_NODES, most_steps=MOST_STEPS)
        return _told(recording, sentence, lang)
    parts = sketch(recording)
    if not parts.cards:
        return _told(recording, _("No tensor was seen in this block, so there is no graph to draw."), lang)
    frames = scene_frames(recording, parts, lang, question.veil if question else "")
    if question is None or question.until_step < len(frames) - 1:  # while it is open it says nothing of the end
        frames = with_verdict(recording, frames)
    return _scene(recording, collapse(recording, parts), frames, question, lang)


def _told(recording: Recording, sentence: str, lang: str) -> Scene:
    """A Scene whose picture is a sentence; its steps are told all the same, of very many the ends."""
    body, (width, height) = _sentence(sentence)
    frames = scene_frames(recording, Sketch(), lang)
    return _finished([SceneLevel("", "", None, body, width, height)], recording, frames, (), None, lang)


def _scene(
    recording: Recording,
    levels: tuple[Level, ...],
    frames: tuple[SceneFrame, ...],
    question: Question | None,
    lang: str,
) -> Scene:
    drawn, parts = pictures(levels, len(frames))
    items = tuple(item for level in levels for item in items_of(recording, level.sketch, level.id))
    return _finished(drawn, recording, frames, items, question, lang, parts)


def _finished(
    levels: list[SceneLevel],
    recording: Recording,
    frames: tuple[SceneFrame, ...],
    items: tuple[Item, ...],
    question: Question | None,
    lang: str,
    parts: SharedParts = (),
) -> Scene:
    """The Scene with an id that follows from its content, so that two pictures on a page never share ids."""
    content = "".join([level.body for level in levels] + [markup for _name, markup in parts]) + str(question)
    uid = "s" + hashlib.sha1(content.encode(), usedforsecurity=False).hexdigest()[:7]
    outer, *inner = [replace(level, body=with_uid(level.body, uid)) for level in levels]
    return Scene(
        uid=uid,
        body=outer.body,
        view_box=f"0 0 {outer.width_px:g} {outer.height_px:g}",
        width_px=outer.width_px,
        height_px=outer.height_px,
        legend_px=outer.legend_px,
        frames=frames,
        items=items,
        code=recording.code,
        question=question,
        lang=lang,
        levels=tuple(inner),
        parts=tuple((name, with_uid(markup, uid)) for name, markup in parts),
    )


def _sentence(sentence: str) -> tuple[str, tuple[float, float]]:
    lines = wrapped(sentence, 90)
    drawn = "".join(text(line, 20, 34 + 20 * k, "say") for k, line in enumerate(lines))
    return drawn, (720.0, 44.0 + 20 * len(lines))
