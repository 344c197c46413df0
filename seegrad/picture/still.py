"""A Scene without a player: one step as a stand-alone SVG, or all steps as plain text.

The SVG is read from the very string that the player plays. The text is for terminals, screen readers and the
comparison of notebooks.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree

from seegrad.model.scene import Scene, SceneFrame, SceneLevel
from seegrad.picture.narrate import PHASES
from seegrad.picture.svg.elements import clean, el, text
from seegrad.words.languages import _, speaking
from seegrad.words.widths import padded, wrapped

CAPTION_PX = 6.7  # advance of one character of the caption
LINE_PX = 16
TABLE_COLUMNS = 100
INDENT = " " * 14
NOT_IN_URI = re.compile(rb"[^\w\- =:/;,.'()\[\]{}+*!@$&~?|]+", re.ASCII)
HEAT = 'class="heat"'  # stands in a body that has a strip


def still(
    scene: Scene, step: int, css: str, *, heat: str = "", caption: bool = True, open_question: bool = False
) -> str:
    """The picture at one step on white paper: no script, the same bytes every time. `heat` is the style of strips.

    Without a caption nothing stands below the graph: no words, no key to its signs.

    `step` may be negative, as in a list. While its question is open the picture hides what is asked for, what
    comes later, and how many steps there are.

    Raises: IndexError when there is no such step.
    """
    with speaking(scene.lang):
        return _still(scene, step, (css, heat), caption, open_question)


def _still(scene: Scene, step: int, css: tuple[str, str], caption: bool, open_question: bool) -> str:
    frame = scene.frames[step]
    number = step % len(scene.frames)
    veil = scene.question.veil if scene.question is not None and open_question else ""
    total = None if open_question else len(scene.frames)
    drawn_in, inside = scene.drawn_at(number)
    level = drawn_in.level("" if open_question else drawn_in.level_of(inside))
    body = _at(level.body, inside, veil)
    lines = _caption(scene, level, number, total) if caption else []
    drawn = level.height_px + (level.legend_px if caption else 0)
    height = drawn + (LINE_PX * len(lines) + 18 if lines else 0)
    words = "".join(
        text(line, 14, drawn + 18 + LINE_PX * k, f"cp {class_}".strip()) for k, (class_, line) in enumerate(lines)
    )
    return el(
        "svg",
        el("title", f"{headline(number, total)}: {clean(frame.title)}"),
        el("desc", clean(frame.text)),
        f"<style>{''.join(css) if HEAT in body else css[0]}</style>",
        el("rect", width=level.width_px, height=height, rx=8, fill="#fff"),
        body,
        words,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {level.width_px:g} {height:g}",
        width=level.width_px,
        height=height,
        role="img",
        class_="sg-svg",
        data_theme="light",
        data_veil=veil or None,
        data_asks="" if open_question else None,
    )


def headline(step: int, total: int | None) -> str:
    """What a picture of one step is called; `total` is None while the number of steps is hidden."""
    said = _("Autograd graph, step {step}") if total is None else _("Autograd graph, step {step} of {total}")
    return said.format(step=step + 1, total=total)


def _caption(scene: Scene, level: SceneLevel, step: int, total: int | None) -> list[tuple[str, str]]:
    frame = scene.frames[step]
    width = max(40, int((level.width_px - 28) / CAPTION_PX))
    said = _("Step {step}. {text}") if total is None else _("Step {step} of {total}. {text}")
    told = said.format(step=step + 1, total=total, text=frame.text)
    lines = [("", line) for line in wrapped(told, width)]
    lines[:0] = [("strong", each.label) for each in scene.passes if each.scene is scene.drawn_at(step)[0]]
    if level.label:
        lines.insert(0, ("strong", _("Inside {name}").format(name=level.label)))
    lines += [("strong", line) for line in wrapped(scene.last_word(step), width)]
    for part in frame.message.splitlines():
        lines += [("bad", line) for line in wrapped(part, width)]
    return lines


def _at(body: str, step: int, veil: str) -> str:
    root = ElementTree.fromstring(f"<svg>{body}</svg>")  # noqa: S314  # our own picture, made by draw()
    for parent in list(root.iter()):
        for child in list(parent):
            if not _visible(child, step):
                if child.get("class", "").split(" ")[0] == "e":
                    child.set("class", child.get("class", "") + " ghost")
                else:
                    parent.remove(child)
    for element in root.iter():
        _settle(element, step)
        if veil and element.tag == "title" and element.text:
            element.text = element.text.split(",")[0]
    return "".join(ElementTree.tostring(child, encoding="unicode") for child in root)


def _visible(element: ElementTree.Element, step: int) -> bool:
    if (steps := element.get("data-at")) is not None:
        return str(step) in steps.split()
    return int(element.get("data-a", 0)) <= step <= int(element.get("data-b", step))


def _settle(element: ElementTree.Element, step: int) -> None:
    """Drop what only the player needs; write down the state of this step."""
    states = element.attrib.pop("data-st", None)
    for name in ("data-a", "data-b", "data-at", "data-w", "data-t", "data-open", "data-goto", "tabindex"):
        element.attrib.pop(name, None)
    if states is not None:
        element.set("data-s", [run[0] for run in states.split() if int(run[1:]) <= step][-1])
        element.set("role", "img")


def image_uri(svg: str) -> str:
    """A stand-alone SVG as an address: what an image in a page is made of.

    >>> image_uri("<b>µ</b>")
    'data:image/svg+xml,%3Cb%3E%C2%B5%3C/b%3E'
    """
    said = NOT_IN_URI.sub(lambda run: b"%" + run[0].hex("%").upper().encode(), svg.encode())
    return f"data:image/svg+xml,{said.decode('ascii')}"


def table(scene: Scene, until: int | None = None) -> str:
    """One line a step, wrapped; `until` is the last step to tell.

    >>> from seegrad.model.recording import Recording
    >>> from seegrad.picture import draw
    >>> print(table(draw(Recording())))
     1  start     before the first line
                  Nothing has run yet, and no tensor is known.
    """
    frames = scene.frames if until is None else scene.frames[: until + 1]
    with speaking(scene.lang):
        return "\n".join(line for step, frame in enumerate(frames) for line in _lines(step, frame))


def _lines(step: int, frame: SceneFrame) -> list[str]:
    mark = {"error": "!", "wrong": "!", "note": "·", None: " "}[frame.severity]
    phase = padded(_(PHASES[frame.phase]), 9)
    lines = [f"{step + 1:>2} {mark}{phase} {frame.title}".rstrip()]
    said = "\n".join((frame.text, frame.diagnosis, frame.message))
    for part in filter(None, said.splitlines()):
        lines += [INDENT + line for line in wrapped(part, TABLE_COLUMNS - len(INDENT))]
    return lines
