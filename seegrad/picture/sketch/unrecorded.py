"""What leaves no Function behind: aliases, ops without gradient, and writes that autograd doesn't record."""

from __future__ import annotations

from dataclasses import replace

from seegrad.model.recording import Frame, Node, Write
from seegrad.picture.sketch.desk import Desk
from seegrad.picture.sketch.functions import NODE_LONGEST
from seegrad.picture.sketch.parts import Pill, Wire
from seegrad.picture.sketch.symbols import op_sign, shorten, sign


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
    symbol = sign(frame.op.capitalize())
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
    """Writes that left no Function: under no_grad, through `.data` or `.detach()`."""
    for write in written:
        card = desk.known(write.tensor, frame.index)
        if card is None or (desk.cards[card].born == frame.index and desk.cards[card].written):
            continue
        others = [desk.current[k] for k in frame.inputs if k in desk.current and k != write.tensor]
        _put_write(desk, frame, write, tuple(dict.fromkeys(others)))


def _put_write(desk: Desk, frame: Frame, write: Write, others: tuple[str, ...]) -> None:
    old = desk.current[write.tensor]
    symbol = op_sign(write.op or "write")
    pill = Pill(f"w{write.id}", "write", write.op, symbol, frame.index, inplace=True, off=not frame.grad_enabled)
    desk.pills[pill.id] = pill
    new = desk.card(write.tensor, frame.index, written=True)
    desk.cards[new] = replace(desk.cards[new], kind=desk.cards[old].kind)
    for other in others:
        desk.put(Wire(other, pill.id, frame.index, "in"))
    desk.put(Wire(old, pill.id, frame.index, "in", red=True))
    desk.put(Wire(pill.id, new, frame.index, "out", red=True))
