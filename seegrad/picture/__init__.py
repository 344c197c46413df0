"""Recording → Scene: one SVG that holds every step, the words beside it, and the inspector's rows.

A part carries the first and last step at which it is visible (`data-a`, `data-b`), or all of them (`data-at`), and its
state step by step (`data-st`). The player flips attributes; `still` reads the same string, so the two can't differ.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

from seegrad.model.recording import Recording
from seegrad.model.scene import Item, Pass, Question, Scene, SceneFrame, SceneLevel
from seegrad.picture.sketch import (
    LEVEL,
    Level,
    Room,
    Sketch,
    Stretch,
    at,
    collapse,
    excerpt,
    sketch,
    stretches,
    with_numbers,
)
from seegrad.picture.steps import MOST_TOLD, items_of, scene_frames, sheets_of, with_verdict
from seegrad.picture.still import still, table
from seegrad.picture.svg import SharedParts, fits, opens, pictures
from seegrad.picture.svg.elements import text, with_uid
from seegrad.words.languages import _, speaking, together
from seegrad.words.widths import wrapped

__all__ = ["MOST_NODES", "MOST_STEPS", "MOST_TOLD", "draw", "still", "table"]

MOST_NODES = 6000  # Functions in one picture, all its levels together
MOST_STEPS = 15000
CLOSER = 4  # times that groups without room are grouped once more
ROOMS = (  # how one pass may be shown: in the first way that has room
    Room(modules=False),
    Room(homes=True),
    Room(homes=True, deep=True),
    Room(LEVEL // 3, homes=True, deep=True),
)


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
            "This graph is too large for a picture, which holds at most {most_nodes} Functions and {most_steps} steps: "
            "it has {nodes} and {steps}. Record fewer lines, or read the steps below."
        )
        sentence = sentence.format(nodes=nodes, steps=steps, most_nodes=MOST_NODES, most_steps=MOST_STEPS)
        return _told(recording, sentence, lang)
    parts = sketch(recording)
    if not parts.cards:
        return _told(recording, _("No tensor was seen in this block, so there is no graph to draw."), lang)
    if question is not None and question.numbers:
        parts = with_numbers(recording, parts, dict(question.targets))
    frames = scene_frames(recording, parts, lang, question.veil if question else "")
    if question is None or question.until_step < len(frames) - 1:  # while it is open it says nothing of the end
        frames = with_verdict(recording, frames)
    passes = stretches(recording) if question is None else ()
    if passes:
        return _in_passes(recording, parts, passes, frames, lang)
    if question is None and len(parts.pills) > LEVEL:
        part = excerpt(recording, parts, Stretch(0, len(recording.frames)))
        levels = collapse(recording, part, _room(recording, part))
        if any(bundle.chore for level in levels for bundle in level.sketch.bundles):
            frames = tuple(replace(frame, on=on) for frame, on in zip(frames, part.on, strict=True))
            return _scene(recording, levels, frames, None, lang, alone=True)
    return _scene(recording, collapse(recording, parts), frames, question, lang)


def _in_passes(
    recording: Recording, parts: Sketch, passes: tuple[Stretch, ...], frames: tuple[SceneFrame, ...], lang: str
) -> Scene:
    """A picture for each pass of a training loop, and for what stands around it."""
    drawn: list[Pass] = []
    room: Room | None = None  # of all passes of a loop
    for here in passes:
        before = drawn[-1].number if drawn else 0
        part = excerpt(recording, parts, here)
        own = replace(recording, frames=recording.frames[here.first : here.stop])
        told = [replace(f, on=on) for f, on in zip(frames[here.first : here.stop], part.on, strict=True)]
        told[0] = replace(told[0], text=together(told[0].text, *_skipped(before, here)))
        room = room if room is not None and 0 < before < here.number else _room(own, part)
        scene = _scene(own, collapse(own, part, room), tuple(told), None, lang, alone=True)
        root = next((card for card in part.cards if card.id == part.root), None)
        preview = at(root.values, here.stop) if root and not root.shape else None
        loss = preview[0][0] if preview else ""
        drawn.append(
            Pass(_label(here, passes), here.first, here.number, scene, loss, root.label if root and loss else "")
        )
    last = drawn[-1].scene
    all_frames = tuple(frame for each in drawn for frame in each.scene.frames)
    uid = "s" + hashlib.sha1("".join(each.scene.uid for each in drawn).encode(), usedforsecurity=False).hexdigest()[:7]
    same = [replace(each, scene=_with_id(each.scene, uid)) for each in drawn]
    size = max(each.scene.width_px for each in drawn), max(each.scene.height_px for each in drawn)
    return Scene(uid, "", last.view_box, *size, all_frames, code=recording.code, lang=lang, passes=tuple(same))


def _room(recording: Recording, part: Sketch) -> Room:
    """How to show one pass: as much at once as has room, and in an open box too."""
    room = next((room for room in ROOMS if _suits(room, collapse(recording, part, room)[0].sketch)), ROOMS[-1])
    for _round in range(CLOSER):
        crowded = {frozenset(pill.id for pill in sketch.pills) for sketch in _too_high(collapse(recording, part, room))}
        if crowded <= room.crowded:
            break
        room = replace(room, crowded=room.crowded | crowded)
    return room


def _too_high(levels: tuple[Level, ...]) -> list[Sketch]:
    return [level.sketch for level in levels[1:] if len(level.sketch.pills) > 1 and not opens(level)]


def _suits(room: Room, outer: Sketch) -> bool:
    """Has this room, without boxes that only their neighbourhood holds together?"""
    return fits(outer) and all(bundle.chore or (room.modules and not bundle.loose) for bundle in outer.bundles)


def _label(here: Stretch, passes: tuple[Stretch, ...]) -> str:
    if here.number:
        return _("pass {number} of {total}").format(number=here.number, total=here.total)
    return _("before the loop") if here is passes[0] else _("after the loop")


def _skipped(before: int, here: Stretch) -> list[str]:
    """What is said where passes of the loop aren't there, as where a long training left them behind."""
    first, last = before + 1 if before < here.number else 1, here.number - 1
    if last < first:
        return []
    one = _("Of pass {first} of this loop only what was found is kept.")
    several = _("Of passes {first} to {last} of this loop only what was found is kept.")
    return [(one if first == last else several).format(first=first, last=last)]


def _with_id(scene: Scene, uid: str) -> Scene:
    """The same Scene with another id: only one pass is on the page at a time."""
    levels = tuple(replace(level, body=level.body.replace(scene.uid, uid)) for level in scene.levels)
    parts = tuple((name, markup.replace(scene.uid, uid)) for name, markup in scene.parts)
    return replace(scene, uid=uid, body=scene.body.replace(scene.uid, uid), levels=levels, parts=parts, code=())


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
    *,
    alone: bool = False,
) -> Scene:
    until = question.until_step if question else None
    drawn, parts = pictures(levels, len(frames), alone=alone, until=until)
    items = tuple(item for level in levels for item in items_of(recording, level.sketch, level.id))
    sheets = tuple(dict.fromkeys(sheet for level in levels for sheet in sheets_of(level.sketch)))
    return replace(_finished(drawn, recording, frames, items, question, lang, parts), alone=alone, sheets=sheets)


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
    content = "".join([level.body for level in levels] + [markup for _name, markup in parts])
    content += str(question and replace(question, name="q1"))  # the answer's name is its cell's, and in no picture
    uid = "s" + hashlib.sha1(content.encode(), usedforsecurity=False).hexdigest()[:7]
    outer, *inner = [replace(level, body=with_uid(level.body, uid)) for level in levels]
    return Scene(
        uid=uid,
        body=outer.body,
        view_box=f"0 0 {outer.width_px:g} {outer.height_px:g}",
        width_px=outer.width_px,
        height_px=outer.height_px,
        legend_px=outer.legend_px,
        asked_px=outer.asked_px,
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
