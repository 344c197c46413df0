"""A Diagnosis becomes a mark on the card or pill that it is about."""

from __future__ import annotations

from ..model import Diagnosis, Recording
from ..narrate import tag
from .desk import Desk
from .parts import Mark


def marks_of(recording: Recording, desk: Desk) -> tuple[Mark, ...]:
    """One mark for each target, the most important Diagnosis first."""
    marks: dict[str, Mark] = {}
    for diagnosis in recording.diagnoses:
        target = _target(desk, diagnosis)
        if target is None or target in marks or diagnosis.frame is None:
            continue
        saved = desk.tensors.get(diagnosis.tensor_id) if diagnosis.tensor_id is not None else None
        marks[target] = Mark(
            target,
            diagnosis.severity,
            diagnosis.kind,
            diagnosis.frame,
            tag(diagnosis),
            saved.storage if saved else None,
        )
    return tuple(marks.values())


def _target(desk: Desk, diagnosis: Diagnosis) -> str | None:
    pill = f"f{diagnosis.node_id}"
    if pill in desk.pills:
        return pill
    if diagnosis.tensor_id is None:
        return None
    return desk.current.get(diagnosis.tensor_id)
