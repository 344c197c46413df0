"""Questions about Functions: what each of them saves, and in which order backward runs them."""

from __future__ import annotations

from collections.abc import Iterator

from ..cards import Sketch, sketch
from ..errors import QuestionError
from ..languages import _, marked, speaking
from ..model import Node, Recording
from ..scene import Choice, Question
from .subject import Wanted, choice, last_forward, listed, numbered, question

MOST_ASKED = 24
FORWARD, YOUNGEST = "forward", "youngest"


def saves(recording: Recording, wanted: Wanted) -> Question:
    """Of the tensors around each Function: those that it keeps for backward. `wanted.nodes` are the only ones asked."""
    last = last_forward(recording)
    with speaking("en"):  # an answer's names are the same in every language
        parts = sketch(recording)
    labels = dict(zip((card.id for card in parts.cards), _card_labels(parts), strict=True))
    around = _around(parts, labels)
    asked = {name: pill for name, pill in _pills(recording, last, wanted.nodes).items() if around.get(pill)}
    if not asked:
        raise QuestionError(_("Autograd recorded no Function in this block, so there is nothing that one could save."))
    _few(asked)
    truth = {name: [label for label, kept in around[pill].items() if kept] for name, pill in asked.items()}
    said = " ".join(_saving(name, kept) for name, kept in truth.items())
    offered = {label for pill in asked.values() for label in around[pill]}
    return question(
        recording,
        "saves",
        wanted.prompt
        or marked("What does each Function save for backward? Tick it, or click a Function and its tensors."),
        truth,
        last,
        choices=tuple(
            choice(f"{'-' if kept else '+'}{name} {label}", label, "M03")
            for name, pill in asked.items()
            for label, kept in around[pill].items()
        ),
        targets=(
            *((pill, name) for name, pill in asked.items()),
            *((card, label) for card, label in labels.items() if label in offered),
        ),
        right=said,
        wrong=said,
        veil="saves",
    )


def _card_labels(parts: Sketch) -> list[str]:
    """A name for each card; cards of one tensor share it, two tensors never do."""
    tensors = list(dict.fromkeys(card.tensor for card in parts.cards))
    names = {card.tensor: card.full_name for card in parts.cards}
    label = dict(zip(tensors, numbered(names[tensor] for tensor in tensors), strict=True))
    return [label[card.tensor] for card in parts.cards]


def _around(parts: Sketch, labels: dict[str, str]) -> dict[str, dict[str, bool]]:
    """Pill → the tensors that go in and come out, and whether the pill saves each."""
    found: dict[str, dict[str, bool]] = {}
    for wire in sorted(parts.wires, key=lambda wire: wire.kind != "in"):  # what goes in stands before what comes out
        pill, card = (wire.target, wire.source) if wire.kind == "in" else (wire.source, wire.target)
        if wire.kind in ("in", "out") and card in labels:
            tensors = found.setdefault(pill, {})
            tensors[labels[card]] = tensors.get(labels[card], False) or bool(wire.pins)
    return found


def _saving(name: str, kept: list[str]) -> str:
    if not kept:
        return _("`{node}` saves none of its tensors.").format(node=name)
    return _("`{node}` saves {names}.").format(node=name, names=listed(kept))


def order(recording: Recording, wanted: Wanted) -> Question:
    """The Functions in the order in which the first backward call runs them."""
    last = last_forward(recording)
    pills = {pill: name for name, pill in _pills(recording, last, ()).items()}
    calls = [frame.backward for frame in recording.frames if frame.backward is not None]
    ran = [f"f{frame.running}" for frame in recording.frames if calls and frame.backward == calls[0]]
    truth = list(dict.fromkeys(pills[pill] for pill in ran if pill in pills))
    if not truth:
        raise QuestionError(_("No backward pass ran in this block, so there is no order to ask for."))
    _few(pills)
    said = _("Backward runs {names}.").format(names=_(", then ").join(f"`{name}`" for name in truth))
    return question(
        recording,
        "order",
        wanted.prompt or marked("In which order does backward run the Functions? Click them one after the other."),
        truth,
        last,
        choices=tuple(_disorders(recording, pills, truth)),
        targets=tuple(pills.items()),
        right=said,
        wrong=said,
    )


def _disorders(recording: Recording, pills: dict[str, str], truth: list[str]) -> Iterator[Choice]:
    """What may be wrong with an order, the plainest first: `A<B` is A before B, which has to send A its gradient."""
    yield Choice(FORWARD, "", "", _("This is the order of the forward pass: backward starts at the end of it."))
    waits = _("`{early}` has to wait for `{late}`, which sends it its gradient.")
    for node in recording.nodes:
        late = pills.get(f"f{node.id}")
        for early in {pills.get(f"f{edge.target}"): None for edge in node.edges}:
            if early in truth and late in truth:
                yield Choice(f"{early}<{late}", "", "", waits.format(early=early, late=late))
    yield Choice(
        YOUNGEST, "", "", _("Each has its gradient by then, but of those that are ready torch runs the newest.")
    )
    for name in pills.values():
        if name not in truth:
            unneeded = _("No gradient comes to `{node}`: nothing leads from it to where backward starts.")
            yield Choice(f"+{name}", "", "", unneeded.format(node=name))


def _pills(recording: Recording, last: int, only: tuple[str, ...]) -> dict[str, str]:
    """Name → pill of the Functions made up to a step, without those that add into `.grad`."""
    nodes: list[Node] = [node for node in recording.nodes if node.leaf is None and node.frame <= last]
    found = dict(zip(numbered(node.name for node in nodes), (f"f{node.id}" for node in nodes), strict=True))
    missing = set(only) - found.keys()
    if missing:
        said = _("This block has no Function named {names}. It has {known}.")
        raise QuestionError(said.format(names=_(", ").join(sorted(missing)), known=_(", ").join(found)))
    return {name: pill for name, pill in found.items() if not only or name in only}


def _few(asked: dict[str, str]) -> None:
    """Raises: QuestionError where nobody would answer for so many."""
    if len(asked) > MOST_ASKED:
        said = _("This block has {count} Functions, too many to ask about: at most {most}. Record fewer lines.")
        raise QuestionError(said.format(count=len(asked), most=MOST_ASKED))
