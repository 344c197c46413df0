"""What hangs on cards and pills: marks of Diagnoses, hooks, `retain_grad()`, and the AccumulateGrad of each leaf."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from seegrad.model.recording import Diagnosis, Frame, Hook, Node, Recording, Severity, TensorRef
from seegrad.picture.sketch.desk import Desk
from seegrad.picture.sketch.parts import Card, Mark
from seegrad.words.languages import _, marked
from seegrad.words.phrases import say

SEVERITIES = {"error": marked("torch raised here"), "wrong": marked("the gradient is wrong"), "note": marked("note")}


def marks_of(recording: Recording, desk: Desk) -> tuple[Mark, ...]:
    """One mark for each target, the most important Diagnosis first."""
    marks: dict[str, Mark] = {}
    for diagnosis in recording.diagnoses:
        if diagnosis.frame is None:
            continue
        saved = desk.tensors.get(diagnosis.tensor_id) if diagnosis.tensor_id is not None else None
        for target, severity, lines in _pinned(recording, desk, diagnosis):
            storage = saved.storage if saved else None
            drawn: Severity = "note" if severity == "differs" else severity  # it accuses nobody either
            marks.setdefault(target, Mark(target, drawn, diagnosis.kind, diagnosis.frame, lines, storage))
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


def tag(diagnosis: Diagnosis) -> tuple[str, ...]:
    """The one or two short lines pinned to the card or pill in question.

    >>> tag(Diagnosis("saved_tensor_modified", "error", True, None, None, None, None))
    ('torch raised here',)
    """
    elsewhere = diagnosis.kind == "graph_cut" and diagnosis.raised  # the cut has a note of its own
    own = () if elsewhere else diagnosis.tag
    return tuple(map(say, own)) or (_(SEVERITIES[diagnosis.severity]),)


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


def mark_harm(recording: Recording, desk: Desk, cards: Iterable[Card]) -> list[Card]:
    """The cards, with the steps in which a write did damage; its pill says so too. Any other write is a normal one."""
    ids = {d.write_id for d in recording.diagnoses if d.severity in ("error", "wrong")}
    done = [write for write in recording.writes if write.id in ids]
    harmed: dict[int, set[int]] = defaultdict(set)
    for write in done:
        harmed[write.storage].add(write.frame)
    writes = {f"w{write.id}" for write in done} | {
        f"f{node.id}" for node in recording.nodes if _wrote(desk, node, harmed)
    }
    for name in writes & desk.pills.keys():
        desk.pills[name] = replace(desk.pills[name], harmful=True)
    hit = {card.id: harmed.get(desk.tensors[card.tensor].storage) for card in cards}
    return [replace(card, harmed=tuple(sorted(hit[card.id] or ()))) for card in cards]


def _wrote(desk: Desk, node: Node, harmed: Mapping[int, set[int]]) -> bool:
    """Is this the Function of a write that did damage?"""
    storages = {desk.tensors[tensor].storage for tensor in node.outputs if tensor in desk.tensors}
    return node.inplace and any(node.frame in harmed.get(storage, ()) for storage in storages)


def hang_hooks(recording: Recording, desk: Desk, cards: Iterable[Card]) -> list[Card]:
    """The cards with their hooks; those of Functions go to their pills."""
    of_tensor: dict[int, list[Hook]] = defaultdict(list)
    for hook in recording.hooks:
        pill = desk.pills.get(f"f{hook.node}") if hook.node is not None else None
        if pill is not None:
            desk.pills[pill.id] = replace(pill, hooks=(*pill.hooks, hook))
        elif hook.tensor is not None:
            of_tensor[hook.tensor].append(hook)
    accumulators = {node.leaf: node.frame for node in recording.nodes if node.leaf is not None}
    return [_hung(card, of_tensor.get(card.tensor, []), accumulators.get(card.tensor)) for card in cards]


def _hung(card: Card, hooks: list[Hook], accumulator: int | None) -> Card:
    """A hook stays with the value that it was registered on; `retain_grad()` and a leaf's hooks follow the tensor."""
    leaf, end = card.kind == "leaf", card.stale
    follows = leaf or end is None
    retained = [hook.frame for hook in hooks if hook.kind == "retain" and follows]
    fresh = [hook for hook in hooks if (leaf or hook.frame >= card.born) and (end is None or hook.frame < end)]
    others = tuple(hook for hook in fresh if hook.kind != "retain")
    if not hooks and accumulator is None:
        return card
    return replace(
        card,
        hooks=others,
        retained=max(retained[0], card.born) if retained else None,
        accumulates=None if accumulator is None else max(accumulator, card.born),
    )
