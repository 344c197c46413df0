"""Frames of the Recording → frames of the Scene: code line, sentence, torch's own words, the Diagnosis."""

from __future__ import annotations

from ..cards import Sketch
from ..model import Frame, Recording, Severity
from ..narrate import Narrator, title
from ..scene import SceneFrame

RANK: dict[Severity, int] = {"error": 0, "wrong": 1, "note": 2}


def scene_frames(recording: Recording, parts: Sketch, lang: str, veil: str = "") -> tuple[SceneFrame, ...]:
    """One SceneFrame a Frame; an empty Recording has one, so that there is always something to say."""
    frames = recording.frames or (Frame(0, "start", None, ""),)
    narrator = Narrator(recording, veil=veil)
    line_of = {number: k for k, (number, _) in enumerate(recording.code)}
    return tuple(
        _scene_frame(recording, frame, narrator, line_of, parts.on[step] if step < len(parts.on) else (), lang)
        for step, frame in enumerate(frames)
    )


def _scene_frame(
    recording: Recording, frame: Frame, narrator: Narrator, line_of: dict[int, int], on: tuple[str, ...], lang: str
) -> SceneFrame:
    here = sorted((d for d in recording.diagnoses if d.frame == frame.index), key=lambda d: RANK[d.severity])
    error = recording.error if recording.error is not None and recording.error.frame == frame.index else None
    place = frame.place
    inside = place is not None and (not recording.code_file or place.file == recording.code_file)
    return SceneFrame(
        phase=frame.phase,
        title=title(frame),
        text=narrator.sentence(frame),
        line=line_of.get(place.line) if place is not None and inside else None,
        on=on,
        message=f"{error.kind}: {error.text}" if error else "",
        diagnosis=" ".join(dict.fromkeys(diagnosis.message(lang) for diagnosis in here)),
        severity=here[0].severity if here else None,
    )
