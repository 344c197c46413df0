"""Backward on the Sketch: which card a gradient belongs to, on which wires it runs, which gradients are wrong.

Backward calls are laps over the graph: in each a gradient has so many contributions, and saved tensors may be freed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping
from dataclasses import replace
from itertools import pairwise

from seegrad.model.recording import Diagnosis, Frame, Gradient, Node, Recording
from seegrad.picture.sketch.desk import Desk
from seegrad.picture.sketch.parts import Card, Pill, Share, Wire, is_finite
from seegrad.words.languages import _

Flows = tuple[tuple[int, str, str], ...]
On = tuple[tuple[str, ...], ...]


def with_gradients(recording: Recording, desk: Desk) -> tuple[list[Card], Flows, On]:
    """The cards with their gradients, the wires that each step lights, and what each step is about."""
    found: dict[str, list[tuple[int, Gradient]]] = defaultdict(list)
    flows: list[tuple[int, str, str]] = []
    on: list[tuple[str, ...]] = []
    order: dict[int | None, int] = defaultdict(int)
    births = _births(desk)
    for step, frame in enumerate(recording.frames):
        if frame.phase != "backward" and frame.running is None:
            on.append(tuple(births[step]))
            for gradient in frame.gradients:
                found[desk.card_at(gradient.tensor, step)].append((step, gradient))
            continue
        if frame.phase == "backward":
            _number(desk, frame, step, order)
        lit = [_owner(desk, frame, gradient) for gradient in frame.gradients]
        for card, gradient in zip(lit, frame.gradients, strict=True):
            if not (gradient.kept and _is_past(desk.cards.get(card), step)):
                found[card].append((step, gradient))
        flows += [(step, *pair) for pair in _lit_wires(recording, desk, frame)]
        on.append(_about(desk, frame, lit))
    _hand_on(desk, found)
    cards = [replace(card, gradients=_last_of_each_step(found.get(card.id, []))) for card in desk.cards.values()]
    return cards, tuple(flows), tuple(on)


def _is_past(card: Card | None, step: int) -> bool:
    """Has a write replaced it by now? Then the tensor's `.grad` is told on the newest card, unless it's a leaf's."""
    return card is not None and card.kind != "leaf" and card.stale is not None and card.stale <= step


def _hand_on(desk: Desk, found: dict[str, list[tuple[int, Gradient]]]) -> None:
    """A `.grad` that is there when its tensor is written to belongs to the new card too."""
    for names in desk.history.values():
        for old, new in pairwise(name for name in names if name in desk.cards):
            born = desk.cards[new].born
            kept = [gradient for step, gradient in found.get(old, ()) if gradient.kept and step <= born]
            if kept:
                found[new].insert(0, (born, kept[-1]))


def _last_of_each_step(gradients: list[tuple[int, Gradient]]) -> tuple[tuple[int, Gradient], ...]:
    """A gradient that passes and is kept in one step is kept."""
    return tuple(dict(gradients).items())


def _births(desk: Desk) -> dict[int, list[str]]:
    """What was put down at each step, Functions first."""
    births: dict[int, list[str]] = defaultdict(list)
    for pill in desk.pills.values():
        births[pill.born].append(pill.id)
    for card in desk.cards.values():
        births[card.born].append(card.id)
    return births


def _number(desk: Desk, frame: Frame, step: int, order: dict[int | None, int]) -> None:
    pill = desk.pills.get(f"f{frame.running}")
    if pill is not None:
        order[frame.backward] += 1
        run, lap = (step, order[frame.backward]), (step, (frame.backward or 0) + 1)
        desk.pills[pill.id] = replace(pill, runs=(*pill.runs, run), laps=(*pill.laps, lap))


def _owner(desk: Desk, frame: Frame, gradient: Gradient) -> str:
    """The card of the tensor as the running Node knew it: an in-place write gives one tensor several cards."""
    drawn = desk.drawn_from.get((f"f{frame.running}", gradient.tensor))
    made = desk.made.get((frame.running, gradient.tensor)) if frame.running is not None else None
    return made or drawn or desk.card_at(gradient.tensor, frame.index)


def _lit_wires(recording: Recording, desk: Desk, frame: Frame) -> list[tuple[str, str]]:
    """The line to what the running Node made, and those to what it sends a gradient."""
    pill = f"f{frame.running}"
    node = desk.nodes.get(frame.running) if frame.running is not None else None
    if node is not None and node.leaf is not None:
        leaving = [desk.wires[k] for k in desk.leaving.get(desk.card_at(node.leaf, frame.index), ())]
        return [(wire.source, wire.target) for wire in leaving if _runs_in(desk, wire.target, frame)]
    raised = recording.error is not None and recording.error.node == frame.running
    lit = []
    for wire in (desk.wires[k] for k in (*desk.leaving.get(pill, ()), *desk.arriving.get(pill, ()))):
        source = desk.cards.get(wire.source)
        goes = wire.target == pill and not raised and (source is None or source.kind != "plain")
        if wire.kind != "alias" and (wire.source == pill or goes):
            lit.append((wire.source, wire.target))
    return lit


def _runs_in(desk: Desk, pill: str, frame: Frame) -> bool:
    """Has it run in the same backward call? One that ran in another has sent nothing now."""
    return pill in desk.pills and any(lap == (frame.backward or 0) + 1 for _, lap in desk.pills[pill].laps)


def _about(desk: Desk, frame: Frame, cards: list[str]) -> tuple[str, ...]:
    pill = f"f{frame.running}"
    node = desk.nodes.get(frame.running) if frame.running is not None else None
    leaf = desk.card_at(node.leaf, frame.index) if node is not None and node.leaf is not None else None
    if pill in desk.pills:
        return (pill,)
    return (leaf,) if leaf else tuple(dict.fromkeys(card for card in cards if card))


def mark_wrong(recording: Recording, desk: Desk, cards: list[Card]) -> list[Card]:
    """Gradients that a Function spoilt, of a damaged saved tensor or by NaN: what its own gradient reaches."""
    since: dict[str, int] = {}
    for diagnosis in recording.diagnoses:
        if diagnosis.severity == "wrong" and diagnosis.node_id in desk.nodes:
            for card, step in _spoilt(recording, desk, diagnosis).items():
                since[card] = min(step, since.get(card, step))
    return [replace(card, wrong_from=since.get(card.id)) for card in cards]


def _spoilt(recording: Recording, desk: Desk, diagnosis: Diagnosis) -> dict[str, int]:
    victim = desk.nodes[diagnosis.node_id or 0]
    slots = {slot for saved in victim.saved if saved.tensor == diagnosis.tensor_id for slot in saved.serves}
    edges = [edge for edge in victim.edges if not slots or edge.slot in slots]
    reached = _reach(desk.nodes, [edge.target for edge in edges if edge.target is not None])
    runs = [step for step, frame in enumerate(recording.frames) if frame.running == victim.id]
    leaves = {desk.nodes[k].leaf for k in reached} - {None}
    spoilt: dict[str, int] = {}
    for step, frame in enumerate(recording.frames):
        if not runs or step < runs[0]:
            continue
        for gradient in frame.gradients:
            if (gradient.tensor in leaves or frame.running in reached) and not _is_sound(diagnosis, gradient):
                spoilt.setdefault(_owner(desk, frame, gradient), step)
    return spoilt


def _is_sound(diagnosis: Diagnosis, gradient: Gradient) -> bool:
    """Is what the finding is about NaN, and this known to have none?"""
    known = gradient.preview or gradient.summary
    return diagnosis.kind == "not_finite" and bool(known) and is_finite(gradient.preview, gradient.summary)


def _reach(nodes: dict[int, Node], start: Iterable[int]) -> set[int]:
    """Every Node that gradients from `start` can reach."""
    seen: set[int] = set()
    stack = list(start)
    while stack:
        here = stack.pop()
        if here in nodes and here not in seen:
            seen.add(here)
            stack.extend(edge.target for edge in nodes[here].edges if edge.target is not None)
    return seen


Output = tuple[int, int]
"""A Node and the number of its output: what an Edge leads to."""


def laps_of(recording: Recording) -> dict[int, list[tuple[int, Frame]]]:
    """The engine's steps of each backward call: (step, Frame) of every Node that ran."""
    laps: dict[int, list[tuple[int, Frame]]] = defaultdict(list)
    for step, frame in enumerate(recording.frames):
        if frame.phase == "backward" and frame.running is not None and frame.backward is not None:
            laps[frame.backward].append((step, frame))
    return dict(laps)


def failures(recording: Recording) -> dict[int | None, int]:
    """Backward call → the Node that was running when it raised, also where the block caught the error."""
    found = {
        frame.backward: frame.running
        for frame in recording.frames
        if frame.phase == "error" and frame.running is not None
    }
    error = recording.error
    if error is not None and error.node is not None and error.node not in found.values():
        found[max(laps_of(recording), default=None)] = error.node
    return found


def with_shares(recording: Recording, desk: Desk, cards: Iterable[Card]) -> list[Card]:
    """The cards, with how many of the gradients that they add up have come, where that is more than one."""
    shares: dict[str, list[tuple[int, Share]]] = defaultdict(list)
    failed = failures(recording)
    for call, lap in laps_of(recording).items():
        for card, timeline in _shares(desk, lap, failed.get(call)).items():
            shares[card] += timeline
    return [replace(card, shares=tuple(shares[card.id])) if card.id in shares else card for card in cards]


def _shares(desk: Desk, lap: list[tuple[int, Frame]], failed: int | None) -> dict[str, list[tuple[int, Share]]]:
    ran = {frame.running for _, frame in lap if frame.running is not None}
    taking_part = ran if failed is None else _reach(desk.nodes, ran)  # a call that raised left some of them waiting
    expected: dict[Output, int] = defaultdict(int)
    for number in taking_part:
        for edge in desk.nodes[number].edges if number in desk.nodes else ():
            if edge.target is not None:
                expected[edge.target, edge.output_nr] += 1
    come: dict[Output, int] = defaultdict(int)
    found: dict[str, list[tuple[int, Share]]] = defaultdict(list)
    for step, frame in lap:
        node = desk.nodes.get(frame.running if frame.running is not None else -1)
        if node is None or node.id == failed:
            continue
        for edge in node.edges:
            output = (edge.target or 0, edge.output_nr)
            if edge.target is None or expected[output] < 2:
                continue
            come[output] += 1
            card = _card_of(desk, node, output, step)
            if card is not None:
                found[card].append((step, (come[output], expected[output])))
    return {card: list(dict(timeline).items()) for card, timeline in found.items()}


def _card_of(desk: Desk, sender: Node, output: Output, step: int) -> str | None:
    """The card in which the gradients for an output add up, as the sender knew it."""
    target = desk.nodes.get(output[0])
    if target is None:
        return None
    if target.leaf is not None:
        return desk.drawn_from.get((f"f{sender.id}", target.leaf)) or desk.card_at(target.leaf, step) or None
    return desk.made.get((target.id, target.outputs[output[1]])) if output[1] < len(target.outputs) else None


def await_backward(recording: Recording, desk: Desk) -> None:
    """Write down which Functions backward runs: those that ran, and those that one which raised would have reached."""
    laps = laps_of(recording)
    broken = [laps[lap][0][1].running for lap in failures(recording) if lap in laps]
    reached = _reach(desk.nodes, (node for node in broken if node is not None))
    for pill in list(desk.pills.values()):
        desk.pills[pill.id] = replace(pill, due=bool(pill.runs) or pill.node in reached)


def free(recording: Recording, desk: Desk) -> None:
    """Write down from which step on each Function's saved tensors are gone.

    A call with retain_graph or create_graph frees nothing; nor did one after which the Function ran once more.
    """
    failed = failures(recording)
    for pill in list(desk.pills.values()):
        done = [step for step, _ in pill.runs if failed.get(recording.frames[step].backward) != pill.node]
        if done and not _keeps(recording.frames[done[-1]]):
            desk.pills[pill.id] = replace(pill, freed=done[-1] + 1)


def _keeps(frame: Frame) -> bool:
    """Was this backward call made with retain_graph or create_graph?"""
    return frame.keeps_graph or frame.grad_enabled


def with_travels(cards: Iterable[Card], pills: Iterable[Pill], wires: Iterable[Wire], flows: Flows) -> list[Wire]:
    """The lines, each with what goes over it: a tensor there, and its gradient back, or why none comes."""
    known = {card.id: card for card in cards}
    silent = {pill.id: pill for pill in pills if pill.kind != "node"}
    lit = {(source, target) for _step, source, target in flows}
    return [replace(wire, travels=(_travels(wire, known, silent, lit),)) for wire in wires]


def _travels(wire: Wire, cards: Mapping[str, Card], silent: Mapping[str, Pill], lit: Container[tuple[str, str]]) -> str:
    source = cards.get(wire.source)
    card = source or cards.get(wire.target)
    shape = "" if card is None else str(card.shape) if card.shape else _("scalar")
    what = _("{name}, {shape}").format(name=card.full_name, shape=shape) if card else _("a result")
    if (wire.source, wire.target) not in lit:
        why = _why_none(wire, card, silent.get(wire.target) or silent.get(wire.source))
        return _("Forward: {what}. No gradient comes back: {why}.").format(what=what, why=why)
    summed = max((total for _step, (_come, total) in source.shares), default=1) if source else 1
    if summed < 2:
        return _("Forward: {what}. Backward: its gradient, of the same shape.").format(what=what)
    return _("Forward: {what}. Backward: one of {count} gradients that are added up.").format(what=what, count=summed)


def _why_none(wire: Wire, card: Card | None, silent: Pill | None) -> str:
    if wire.cut:
        return _("it is cut off by {how}").format(how=wire.label)
    if wire.loose:
        return _("such a result has none, as indices have none")
    if card is not None and card.kind == "plain":
        return _("{name} needs none").format(name=card.full_name)
    if silent is not None:
        return _("autograd recorded nothing here")
    return _("no backward has passed here")
