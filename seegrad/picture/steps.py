"""Frames of the Recording → frames of the Scene: code line, sentence, torch's own words, the Diagnosis."""

from __future__ import annotations

from seegrad.model.recording import Frame, Place, Recording, Severity
from seegrad.model.scene import SceneFrame
from seegrad.picture.narrate import Narrator, title
from seegrad.picture.sketch import Sketch
from seegrad.words.languages import counted, together

MOST_TOLD = 1500
ENDS = 60
RANK: dict[Severity, int] = {"error": 0, "wrong": 1, "note": 2}


def scene_frames(recording: Recording, parts: Sketch, lang: str, veil: str = "") -> tuple[SceneFrame, ...]:
    """One SceneFrame a Frame; an empty Recording has one, so that there is always something to say."""
    frames = recording.frames or (Frame(0, "start", None, ""),)
    narrator = Narrator(recording, veil=veil)
    line_of = {number: k for k, (number, _) in enumerate(recording.code)}
    told: list[SceneFrame] = []
    before = -1
    for step in _kept(recording, len(frames)) if not parts.cards else range(len(frames)):
        if step > before + 1:
            told.append(SceneFrame("forward", "…", _left_out(step - before - 1)))
        on = parts.on[step] if step < len(parts.on) else ()
        told.append(_scene_frame(recording, frames[step], narrator, line_of, on, lang))
        before = step
    return tuple(told)


def _left_out(count: int) -> str:
    return counted("{count} step is left out here.", "{count} steps are left out here.", count).format(count=count)


def _kept(recording: Recording, count: int) -> list[int]:
    """Every step; of a very long Recording its beginning, its end, and where a Diagnosis shows."""
    if count <= MOST_TOLD:
        return list(range(count))
    shown = {diagnosis.frame for diagnosis in recording.diagnoses[:ENDS]} - {None}
    return [step for step in range(count) if step < ENDS or step >= count - ENDS or step in shown]


def _scene_frame(
    recording: Recording, frame: Frame, narrator: Narrator, line_of: dict[int, int], on: tuple[str, ...], lang: str
) -> SceneFrame:
    here = sorted((d for d in recording.diagnoses if d.frame == frame.index), key=lambda d: RANK[d.severity])
    error = recording.error if recording.error is not None and recording.error.frame == frame.index else None
    return SceneFrame(
        phase=frame.phase,
        title=title(frame),
        text=narrator.sentence(frame),
        line=_line(recording, line_of, frame.place),
        on=on,
        message=f"{error.kind}: {error.text}" if error else "",
        diagnosis=together(*dict.fromkeys(diagnosis.message(lang) for diagnosis in here)),
        severity=here[0].severity if here else None,
        culprit=_line(recording, line_of, here[0].culprit) if here and here[0].severity != "note" else None,
    )


def _line(recording: Recording, line_of: dict[int, int], place: Place | None) -> int | None:
    """Where a Place stands in the code that is shown; None where it's another file."""
    if place is None or (recording.code_file and place.file != recording.code_file):
        return None
    return line_of.get(place.line)
