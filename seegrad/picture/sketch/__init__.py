"""Recording → Sketch: which cards, pills and wires the picture has, and what they say at which step. No coordinates."""

from __future__ import annotations

from seegrad.model.recording import Frame, Node, Recording
from seegrad.picture.sketch.desk import Desk, shorten
from seegrad.picture.sketch.excerpt import excerpt
from seegrad.picture.sketch.functions import (
    numbered,
    put_functions,
    put_inner_writes,
    put_plain_writes,
    put_results,
    told_apart,
    with_numbers,
)
from seegrad.picture.sketch.gradients import await_backward, free, mark_wrong, with_gradients, with_shares, with_travels
from seegrad.picture.sketch.levels import Level, collapse
from seegrad.picture.sketch.marks import hang_hooks, mark_harm, marks_of
from seegrad.picture.sketch.parts import (
    Bundle,
    Card,
    Chip,
    Cluster,
    Mark,
    Pill,
    Pin,
    Sketch,
    StorageGroup,
    Wire,
    at,
    is_broken,
    is_finite,
    spans,
)
from seegrad.picture.sketch.passes import Stretch, stretches
from seegrad.picture.sketch.stacks import clusters_of, storages_of
from seegrad.picture.sketch.tree import LEVEL, Room

__all__ = [
    "LEVEL",
    "Bundle",
    "Card",
    "Chip",
    "Cluster",
    "Level",
    "Mark",
    "Pill",
    "Pin",
    "Room",
    "Sketch",
    "StorageGroup",
    "Stretch",
    "Wire",
    "at",
    "collapse",
    "excerpt",
    "is_broken",
    "is_finite",
    "numbered",
    "shorten",
    "sketch",
    "spans",
    "stretches",
    "told_apart",
    "with_numbers",
]


def sketch(recording: Recording) -> Sketch:
    """Which cards, pills and wires show this Recording.

    >>> sketch(Recording()).cards
    ()
    """
    desk = Desk(recording)
    for frame in recording.frames:
        _lay(desk, frame)
    desk.drop_strays()
    cards, flows, on = with_gradients(recording, desk)
    cards = with_shares(recording, desk, cards)
    free(recording, desk)
    await_backward(recording, desk)
    cards = hang_hooks(recording, desk, [card for card in cards if card.id not in desk.hidden])
    cards = mark_harm(recording, desk, cards)
    for name in desk.hidden & desk.pills.keys():
        del desk.pills[name]
    wires = tuple(wire for wire in desk.wires if not {wire.source, wire.target} & desk.hidden)
    return Sketch(
        cards=tuple(mark_wrong(recording, desk, cards)),
        pills=tuple(desk.pills.values()),
        wires=tuple(with_travels(cards, desk.pills.values(), wires, flows)),
        loose_pins=tuple(desk.loose_pins),
        clusters=clusters_of(cards, desk.pills.values(), wires, desk.storages()),
        storages=storages_of(recording, cards),
        marks=marks_of(recording, desk),
        on=on,
        flows=flows,
        root=desk.current.get(recording.root) if recording.root is not None else None,
    )


def _lay(desk: Desk, frame: Frame) -> None:
    """Put down what one Frame brought."""
    if frame.phase == "start":
        for ref in desk.recording.tensors:
            if ref.frame == frame.index:
                desk.known(ref.id, frame.index)
    if frame.phase == "backward":
        put_functions(desk, frame, _born(desk, frame))
        put_results(desk, frame)
        desk.update(frame)
        return
    for tensor in frame.inputs:
        if tensor not in frame.outputs:
            desk.known(tensor, frame.index)
    nodes = _born(desk, frame)
    written = [desk.writes[k] for k in frame.writes if k in desk.writes and desk.writes[k].frame == frame.index]
    put_inner_writes(desk, frame, written, nodes)
    put_functions(desk, frame, nodes)
    put_results(desk, frame)
    put_plain_writes(desk, frame, written)
    desk.update(frame)


def _born(desk: Desk, frame: Frame) -> list[Node]:
    """The Functions that a Frame brought, without those that add into `.grad`: these are drawn on their leaf."""
    return [desk.nodes[k] for k in frame.nodes if k in desk.nodes and desk.nodes[k].leaf is None]
