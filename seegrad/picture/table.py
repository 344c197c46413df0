"""The same steps as plain text, for terminals, screen readers and the comparison of notebooks."""

from __future__ import annotations

from seegrad.model.scene import Scene, SceneFrame
from seegrad.picture.narrate import PHASES
from seegrad.words.languages import _, speaking
from seegrad.words.widths import padded, wrapped

WIDTH = 100
INDENT = " " * 14


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
        lines += [INDENT + line for line in wrapped(part, WIDTH - len(INDENT))]
    return lines
