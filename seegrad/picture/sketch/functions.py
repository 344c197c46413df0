"""Nodes become pills, with a pin for every tensor that they saved; so do ops and writes that left no Node behind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import prod
from typing import Literal

from seegrad.model.recording import Frame, Node, Recording, SavedTensor, TensorRef, Write
from seegrad.picture.sketch.desk import CUT, NUMBER, Desk, op_sign, shorten, sign
from seegrad.picture.sketch.parts import Card, Pill, Pin, Sketch, Wire

NODE_LONGEST = 30
SLICES = "CopySlices"  # a write through a view: torch makes this Node for the base and a new one for the view


def put_functions(desk: Desk, frame: Frame, nodes: list[Node]) -> None:
    """Put down the Nodes that were born in one Frame. Inputs are looked up before outputs replace them.

    An input that another of these Nodes has made (a view's Node, made anew because it was asked for) is its card.
    """
    slices = any(node.name == SLICES for node in nodes)
    for node in nodes:
        writes = node.inplace and (not slices or node.name == SLICES)
        symbol = op_sign(frame.op if slices else node.op) if writes else _sign_of(node)
        label = node.name if len(node.name) <= NODE_LONGEST else shorten(NUMBER.sub("", node.name), NODE_LONGEST)
        desk.pills[f"f{node.id}"] = Pill(
            f"f{node.id}",
            "node",
            label,
            symbol,
            frame.index,
            node.id,
            writes,
            custom=is_custom(node),
            of_gradient=frame.phase == "backward",
            module=frame.module,
        )
    sources = {node.id: [_source(desk, node, slot) for slot in range(len(node.edges))] for node in nodes}
    for node in nodes:
        _put_outputs(desk, frame, node)
    for node in nodes:
        _wire_inputs(desk, frame, node, sources[node.id])
    if frame.phase != "backward":
        _wire_bystanders(desk, frame, nodes)


def numbered(names: Iterable[str]) -> list[str]:
    """Names that differ: the second of a name is its `#2`.

    >>> numbered(["MulBackward0", "AddBackward0", "MulBackward0"])
    ['MulBackward0', 'AddBackward0', 'MulBackward0#2']
    """
    seen: Counter[str] = Counter()
    told = []
    for name in names:
        seen[name] += 1
        told.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return told


def told_apart(nodes: Iterable[Node]) -> dict[str, str]:
    """Pill → a name that no other has, of each Function but those that add into `.grad`."""
    some = [node for node in nodes if node.leaf is None]
    return dict(zip((f"f{node.id}" for node in some), numbered(node.name for node in some), strict=True))


def with_numbers(recording: Recording, parts: Sketch, called: Mapping[str, str]) -> Sketch:
    """The second Function of a name bears its `#2`, as in an answer, and so does a card that is `called` so there."""
    names = {f"f{node.id}": node.name for node in recording.nodes}
    numbers = {pill: name.removeprefix(names[pill]) for pill, name in told_apart(recording.nodes).items()}
    pills = tuple(replace(pill, number=numbers.get(pill.id, "")) for pill in parts.pills)
    return replace(parts, pills=pills, cards=tuple(_with_number(card, called.get(card.id, "")) for card in parts.cards))


def _with_number(card: Card, called: str) -> Card:
    number = called.removeprefix(card.full_name) if called.startswith(f"{card.full_name}#") else ""
    return replace(card, label=card.label + number, full_name=card.full_name + number)


def _sign_of(node: Node) -> str:
    """The Function's own sign; where that is too long a name, the op's that was called and made it alone.

    >>> _sign_of(Node(0, "MaxPool2DWithIndicesBackward0", "max_pool2d", 0, (), ()))
    'max_pool2d'
    """
    own = sign(node.name)
    return sign(node.op) if CUT in own and node.op else own


def is_custom(node: Node) -> bool:
    """A `torch.autograd.Function` of the user: torch numbers the names of its own.

    >>> is_custom(Node(0, "ClipBackward", "apply", 0, (), ())), is_custom(Node(0, "MulBackward0", "mul", 0, (), ()))
    (True, False)
    """
    return node.name.endswith("Backward")


def _source(desk: Desk, node: Node, slot: int) -> str | None:
    """The card that input `slot` comes from, where the tensor is known."""
    tensor = node.inputs[slot] if slot < len(node.inputs) else None
    target = desk.nodes.get(node.edges[slot].target or 0) if node.edges[slot].target is not None else None
    if tensor is None and target is not None:
        tensor = target.leaf
    return desk.known(tensor, node.frame) if tensor is not None else None


def _put_outputs(desk: Desk, frame: Frame, node: Node) -> None:
    several = len(node.outputs) > 1 and not node.inplace
    for number, tensor in enumerate(node.outputs):
        if tensor not in desk.tensors:
            continue
        card = desk.current.get(tensor)
        old = card or ""
        if old and is_custom(node):
            desk.hide_inside(old)
        if card is None or desk.cards[card].born < frame.index or desk.cards[card].written != node.inplace:
            card = desk.card(tensor, frame.index, written=node.inplace, computed=True)
        if is_custom(node) and old in desk.hidden and not desk.cards[card].values:
            values = tuple((frame.index, preview) for _, preview in desk.cards[old].values[-1:])
            summaries = tuple((frame.index, summary) for _, summary in desk.cards[old].summaries[-1:])
            desk.cards[card] = replace(desk.cards[card], values=values, summaries=summaries)
        desk.made[node.id, tensor] = card
        writes = desk.pills[f"f{node.id}"].inplace
        desk.put(Wire(f"f{node.id}", card, frame.index, "out", str(number) if several else "", writes=writes))


def _wire_inputs(desk: Desk, frame: Frame, node: Node, sources: list[str | None]) -> None:
    pill = f"f{node.id}"
    spare = list(node.saved)
    for slot, edge in enumerate(node.edges):
        source = _made_beside(desk, node, slot) or sources[slot] or _maker_of(desk, edge.target, edge.output_nr)
        if source is None:
            continue
        tensor = desk.cards[source].tensor if source in desk.cards else None
        kept = []
        if tensor is not None:
            desk.drawn_from[pill, tensor] = source
            kept = [saved for saved in spare if is_about(desk, saved, tensor)]
        if source in sources[slot + 1 :]:
            kept = kept[:1]  # x * x saves x twice: one for each of its wires
        spare = [saved for saved in spare if saved not in kept]
        pins = tuple(_pin(desk, saved, "in") for saved in kept)
        writes = desk.pills[pill].inplace and tensor in node.outputs
        desk.put(Wire(source, pill, frame.index, "in", pins=pins, writes=writes))
    _pin_results(desk, node, spare)


def _made_beside(desk: Desk, node: Node, slot: int) -> str | None:
    """The card that another Node of the same Frame has just made of input `slot`."""
    target, tensor = node.edges[slot].target, node.inputs[slot] if slot < len(node.inputs) else None
    if target is None or tensor is None or target not in desk.nodes or desk.nodes[target].frame != node.frame:
        return None
    return desk.made.get((target, tensor))


def _maker_of(desk: Desk, node: int | None, output_nr: int) -> str | None:
    """Where no tensor is known: the card that the next Node made, or its pill."""
    if node is None or node not in desk.nodes:
        return None
    outputs = desk.nodes[node].outputs
    if output_nr < len(outputs) and (node, outputs[output_nr]) in desk.made:
        return desk.made[node, outputs[output_nr]]
    return f"f{node}" if f"f{node}" in desk.pills else None


def _pin_results(desk: Desk, node: Node, spare: list[SavedTensor]) -> None:
    """A saved result is pinned where its line leaves the pill; the rest waits for a line that may bring it."""
    pill = f"f{node.id}"
    for saved in spare:
        if saved.tensor is None and saved.version is None:
            continue
        made = [tensor for tensor in node.outputs if is_about(desk, saved, tensor)]
        card = desk.made.get((node.id, made[0])) if made else None
        k = _over_a_view(desk, pill, saved)
        if card is not None:
            k = next(k for k in desk.arriving[card] if desk.wires[k].source == pill)
        if k is None:
            desk.loose_pins.append((pill, _pin(desk, saved, "in")))
            continue
        side: Literal["in", "out"] = "in" if card is None else "out"
        desk.wires[k] = replace(desk.wires[k], pins=(*desk.wires[k].pins, _pin(desk, saved, side)))


def _over_a_view(desk: Desk, pill: str, saved: SavedTensor) -> int | None:
    """The line on which a view that has no card, such as a Linear's transposed weight, brings the saved bytes."""
    for k in desk.arriving.get(pill, ()):
        before = [desk.cards.get(desk.wires[j].source) for j in desk.arriving.get(desk.wires[k].source, ())]
        storages = {desk.tensors[card.tensor].storage for card in before if card is not None}
        if desk.wires[k].source in desk.pills and not desk.wires[k].pins and saved.storage in storages:
            return k
    return None


def _wire_bystanders(desk: Desk, frame: Frame, nodes: list[Node]) -> None:
    """Tensors that the op was given but that autograd has no edge for, such as indices, or a constant's numbers."""
    known = {tensor for node in nodes for tensor in (*node.inputs, *node.outputs)}
    known |= {desk.nodes[edge.target].leaf for node in nodes for edge in node.edges if edge.target in desk.nodes}
    for tensor in dict.fromkeys(frame.inputs):
        card = desk.known(tensor, frame.index) if tensor not in known and tensor not in frame.outputs else None
        if card is None:
            continue
        for node in _takers(desk, nodes, tensor):
            pill = f"f{node.id}"
            if not any(desk.wires[k].source == card for k in desk.arriving.get(pill, ())):
                about = {saved.tensor for saved in node.saved if is_about(desk, saved, tensor)}
                pins = tuple(pin for other, pin in desk.loose_pins if other == pill and pin.tensor in about)
                desk.put(Wire(card, pill, frame.index, "in", pins=pins))


def _takers(desk: Desk, nodes: list[Node], tensor: int) -> list[Node]:
    """Which of the Functions of one op took a tensor that none of them has an edge for.

    Those that saved it, else its bytes; else the one with a place for a constant, if several the one that saved a copy
    of as many numbers. Where that leaves several, none: no line is better than a wrong one.
    """
    ref = desk.tensors[tensor]
    if len(nodes) == 1:
        return nodes
    if itself := [node for node in nodes if any(is_about(desk, saved, tensor) for saved in node.saved)]:
        return itself
    if viewed := [node for node in nodes if any(saved.storage == ref.storage for saved in node.saved)]:
        return viewed
    free = [node for node in nodes if any(edge.target is None for edge in node.edges)]
    if len(free) > 1:
        free = [node for node in free if any(_is_copy(desk, saved, ref) for saved in node.saved)]
    return free if len(free) == 1 else []


def _is_copy(desk: Desk, saved: SavedTensor, ref: TensorRef) -> bool:
    """May the op have saved that tensor's numbers, laid out anew? Then it's a tensor of its own."""
    own = desk.tensors.get(saved.tensor) if saved.tensor is not None else None
    alone = own is not None and own.name is None and own.frame >= ref.frame
    return alone and own is not None and own.dtype == ref.dtype and prod(own.shape) == prod(ref.shape)


def is_about(desk: Desk, saved: SavedTensor, tensor: int) -> bool:
    """Is this saved tensor that tensor? Torch saves some as unnamed aliases of the same bytes."""
    if saved.tensor == tensor:
        return True
    ref = desk.tensors[tensor]
    other = desk.tensors.get(saved.tensor) if saved.tensor is not None else None
    return (other is None or other.name is None) and saved.storage == ref.storage and saved.span == ref.span


def _pin(desk: Desk, saved: SavedTensor, side: Literal["in", "out"]) -> Pin:
    ref = desk.tensors.get(saved.tensor) if saved.tensor is not None else None
    version = saved.version if saved.checked else None
    return Pin(saved.attr, version, saved.tensor, desk.name(ref) if ref else saved.attr, saved.storage, side)


def put_results(desk: Desk, frame: Frame) -> None:
    """Results without a Function: an alias hangs on its tensor, the rest came from an op that recorded nothing."""
    fresh = [tensor for tensor in frame.outputs if tensor in desk.tensors and tensor not in desk.current]
    made = [tensor for tensor in fresh if not desk.hang_alias(desk.tensors[tensor], None, frame.index)]
    makers = [f"f{node}" for node in frame.nodes if f"f{node}" in desk.pills]
    if made and makers:  # a Function's result that has no gradient, such as the indices of `max`
        for tensor in made:
            desk.put(Wire(makers[-1], desk.card(tensor, frame.index), frame.index, "out", loose=True))
        return
    sources = [desk.current[tensor] for tensor in frame.inputs if tensor in desk.current]
    if made and sources:
        _put_op(desk, frame, made, sources)
        return
    for tensor in made:
        desk.card(tensor, frame.index)


def _put_op(desk: Desk, frame: Frame, made: list[int], sources: list[str]) -> None:
    symbol = sign(frame.op)
    pill = Pill(
        f"o{frame.index}", "op", shorten(frame.op, NODE_LONGEST), symbol, frame.index, off=not frame.grad_enabled
    )
    desk.pills[pill.id] = replace(pill, module=frame.module)
    for source in dict.fromkeys(sources):
        desk.put(Wire(source, pill.id, frame.index, "in"))
    for tensor in made:
        desk.put(Wire(pill.id, desk.card(tensor, frame.index), frame.index, "out"))


def put_inner_writes(desk: Desk, frame: Frame, written: list[Write], nodes: list[Node]) -> None:
    """An op that writes to one of its inputs before it computes, such as an embedding with max_norm."""
    made = {tensor for node in nodes for tensor in node.outputs} | set(frame.outputs)
    for write in written:
        if write.tensor in desk.current and write.tensor not in made:
            _put_write(desk, frame, write, ())


def put_plain_writes(desk: Desk, frame: Frame, written: list[Write]) -> None:
    """Writes that left no Function: under no_grad, through `.data` or `.detach()`.

    What one op writes to several tensors, it does to each by itself: none is another's input, and of what else it was
    given, as many for each, the first gets the first.
    """
    targets = dict.fromkeys(write.tensor for write in written)
    rows = len(targets)
    given = [k for k in dict.fromkeys(frame.inputs) if k in desk.current and k not in targets]
    own = {tensor: given if len(given) % rows else given[place::rows] for place, tensor in enumerate(targets)}
    for write in written:
        card = desk.known(write.tensor, frame.index)
        if card is None or (desk.cards[card].born == frame.index and desk.cards[card].written):
            continue
        _put_write(desk, frame, write, tuple(dict.fromkeys(desk.current[k] for k in own[write.tensor])))


def _put_write(desk: Desk, frame: Frame, write: Write, others: tuple[str, ...]) -> None:
    old = desk.current[write.tensor]
    symbol = op_sign(write.op or "write")
    pill = Pill(f"w{write.id}", "write", write.op, symbol, frame.index, inplace=True, off=not frame.grad_enabled)
    desk.pills[pill.id] = replace(pill, writes_to=desk.name(desk.tensors[write.tensor]))
    new = desk.card(write.tensor, frame.index, written=True)
    desk.cards[new] = replace(desk.cards[new], kind=desk.cards[old].kind)
    for other in others:
        desk.put(Wire(other, pill.id, frame.index, "in"))
    desk.put(Wire(old, pill.id, frame.index, "in", writes=True))
    desk.put(Wire(pill.id, new, frame.index, "out", writes=True))
