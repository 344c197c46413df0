"""A Diagnosis becomes a mark on the card or pill that it is about."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from seegrad.model.recording import Diagnosis, Frame, Recording, Severity, TensorRef
from seegrad.picture.narrate import tag
from seegrad.picture.sketch.desk import Desk
from seegrad.picture.sketch.parts import Mark


def marks_of(recording: Recording, desk: Desk) -> tuple[Mark, ...]:
    """One mark for each target, the most important Diagnosis first."""
    marks: dict[str, Mark] = {}
    for diagnosis in recording.diagnoses:
        if diagnosis.frame is None:
            continue
        saved = desk.tensors.get(diagnosis.tensor_id) if diagnosis.tensor_id is not None else None
        for target, severity, lines in _pinned(recording, desk, diagnosis):
            storage = saved.storage if saved else None
            marks.setdefault(target, Mark(target, severity, diagnosis.kind, diagnosis.frame, lines, storage))
    return tuple(marks.values())


def _pinned(recording: Recording, desk: Desk, diagnosis: Diagnosis) -> Iterator[tuple[str, Severity, tuple[str, ...]]]:
    """What is pinned where. A graph that is cut has a note where that happened, however far that is from the loss."""
    cut = _cut(recording, desk, diagnosis) if diagnosis.kind == "graph_cut" else None
    note = tag(replace(diagnosis, raised=False))
    target = _target(desk, diagnosis)
    if target is not None and (cut is None or diagnosis.severity != "note"):
        yield target, diagnosis.severity, note if target == cut else tag(diagnosis)
    if cut is not None:
        yield cut, "note", note


def _target(desk: Desk, diagnosis: Diagnosis) -> str | None:
    pill = f"f{diagnosis.node_id}"
    if pill in desk.pills:
        return pill
    if diagnosis.tensor_id is None:
        return None
    return desk.current.get(diagnosis.tensor_id)


def _cut(recording: Recording, desk: Desk, diagnosis: Diagnosis) -> str | None:
    """The op that the graph ends at; where none is drawn the tensor that it made, else the one that it was given."""
    told = dict(diagnosis.arguments)
    before = recording.frames[: diagnosis.frame]
    ran = [frame for frame in before if frame.place == diagnosis.culprit and frame.op == told.get("op")]
    if diagnosis.culprit is None or diagnosis.node_id is not None or not ran:
        return None
    frame, cause = ran[-1], told.get("cause")
    pills = [f"o{frame.index}", *(f"w{write}" for write in frame.writes)]
    tensors = frame.inputs if cause == "left" else (*frame.outputs, *frame.inputs)
    if cause == "leaf":
        tensors = tuple(ref.id for ref in recording.tensors if _is_new_leaf(ref, frame))
    cards = [desk.card_at(number, frame.index) for number in tensors]
    return next((part for part in (*pills, *cards) if part in desk.pills or part in desk.cards), None)


def _is_new_leaf(ref: TensorRef, frame: Frame) -> bool:
    return ref.is_leaf and ref.requires_grad and ref.frame == frame.index
