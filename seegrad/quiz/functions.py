"""Questions about Functions: what each of them saves, and in which order backward runs them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from seegrad.model.recording import Node, Recording
from seegrad.model.scene import Choice, Question
from seegrad.picture.sketch import Sketch, numbered, sketch, told_apart
from seegrad.quiz.subject import (
    QuestionKind,
    Wanted,
    aliases,
    choice,
    differences,
    last_forward,
    listed,
    names_in,
    question,
)
from seegrad.words.errors import QuestionError
from seegrad.words.languages import _, marked, speaking, together

MOST_ASKED = 24
FORWARD, YOUNGEST = "forward", "youngest"


def _saves(recording: Recording, wanted: Wanted) -> Question:
    """Of the tensors around each Function: those that it keeps for backward. `wanted.nodes` are the only ones asked."""
    last = last_forward(recording)
    with speaking("en"):  # an answer's names are the same in every language
        parts = sketch(recording)
    labels = dict(zip((card.id for card in parts.cards), _card_labels(parts), strict=True))
    around = _around(parts, labels)
    asked = {name: pill for name, pill in pills_of(recording, last, wanted.nodes).items() if around.get(pill)}
    if not asked:
        raise QuestionError(_("Autograd recorded no Function in this block, so there is nothing that one could save."))
    _few(asked)
    truth = {name: [label for label, kept in around[pill].items() if kept] for name, pill in asked.items()}
    said = " ".join(_saving(name, kept) for name, kept in truth.items())
    offered = {label for pill in asked.values() for label in around[pill]}
    whys = _Whys(recording, {card.tensor: labels[card.id] for card in parts.cards})
    return question(
        recording,
        "saves",
        wanted.prompt
        or marked(
            "What does each Function save for backward? Tick it, or click a Function and its tensors. A row without a "
            "tick saves nothing; “None of them” says so of all rows."
        ),
        truth,
        last,
        choices=tuple(
            choice(
                f"{'-' if kept else '+'}{name} {label}",
                label,
                "" if kept else whys.belief(pill, label),
                whys.kept(name, pill, label) if kept else whys.unneeded(name, label),
            )
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
        numbers=True,
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


class _Whys:
    """For each Function and a tensor beside it: why it is saved, or not."""

    def __init__(self, recording: Recording, labels: dict[int, str]) -> None:
        self._nodes = {f"f{node.id}": node for node in recording.nodes}
        self._labels = labels
        storages = {ref.id: ref.storage for ref in recording.tensors}
        self._written = [
            (labels[tensor], write.frame)
            for write in recording.writes
            for tensor in labels
            if storages.get(tensor) == write.storage
        ]

    def kept(self, name: str, pill: str, label: str) -> str:
        """For whose gradients it is needed, where that is known."""
        node = self._nodes[pill]
        slots = {
            slot
            for item in node.saved
            if item.tensor is not None and self._labels.get(item.tensor) == label
            for slot in item.serves
        }
        served = [node.inputs[slot] for slot in sorted(slots) if slot < len(node.inputs)]
        names = dict.fromkeys(self._labels[tensor] for tensor in served if tensor in self._labels)
        said = _("`{node}` needs `{name}` for the gradient of {names}.")
        return said.format(node=name, name=label, names=listed(names)) if names else ""

    def belief(self, pill: str, label: str) -> str:
        """Who ticks what nobody saves, and a later line overwrites, takes that write for one that raises: M03."""
        later = (frame > self._nodes[pill].frame for name, frame in self._written if name == label)
        return "M03" if any(later) else ""

    def unneeded(self, name: str, label: str) -> str:
        """Whatever its derivative is computed with, it isn't this."""
        return _("`{node}` computes its gradient without `{name}`.").format(node=name, name=label)


def _saving(name: str, kept: list[str]) -> str:
    if not kept:
        return _("`{node}` saves none of its tensors.").format(node=name)
    return _("`{node}` saves {names}.").format(node=name, names=listed(kept))


def _others_saved(question: Question, value: Any) -> list[str]:
    truth = json.loads(question.truth)
    given = {str(node): names_in(kept) for node, kept in value.items()} if isinstance(value, Mapping) else {}
    asked = dict.fromkeys([*truth, *given])
    return [key for node in asked for key in differences(given.get(node, []), truth.get(node, []), f"{node} ")]


def _order(recording: Recording, wanted: Wanted) -> Question:
    """The Functions, or those in `wanted.nodes`, in the order in which the first backward call runs them."""
    last = last_forward(recording)
    pills = {pill: name for name, pill in pills_of(recording, last, wanted.nodes).items()}
    calls = [frame.backward for frame in recording.frames if frame.backward is not None]
    ran = [f"f{frame.running}" for frame in recording.frames if calls and frame.backward == calls[0]]
    truth = list(dict.fromkeys(pills[pill] for pill in ran if pill in pills))
    if not truth:
        raise QuestionError(_("No backward pass ran in this block, so there is no order to ask for."))
    _few(pills.values())
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
        numbers=True,
    )


def _disorders(recording: Recording, pills: dict[str, str], truth: list[str]) -> Iterator[Choice]:
    """What may be wrong with an order, the plainest first: `A<B` is A before B, which has to send A its gradient."""
    yield Choice(FORWARD, "", "", _("This is the order of the forward pass: backward starts at the end of it."))
    waits = _("`{early}` has to wait for `{late}`, which sends it its gradient.")
    for early, late in waits_of(recording, pills):
        if early in truth and late in truth:
            yield Choice(f"{early}<{late}", "", "", waits.format(early=early, late=late))
    newest = _(
        "In your order each Function has its gradient in time. But where several are ready, the newest runs first."
    )
    yield Choice(YOUNGEST, "", "", newest)
    nodes = {f"f{node.id}": node for node in recording.nodes}
    for pill, name in pills.items():
        yield _missing(recording, nodes[pill], name) if name in truth else unneeded(recording, nodes[pill], name)


def _disorder(question: Question, value: Any) -> list[str]:
    """What is wrong with an order: its members, all of it, one pair, or the choice among those that were ready."""
    given, truth = names_in(value), json.loads(question.truth)
    if given == truth or set(given) != set(truth):
        return differences(given, truth)
    pairs = [choice.key for choice in question.choices if "<" in choice.key]
    early = [key for key in pairs if given.index(key.split("<")[0]) < given.index(key.split("<")[1])]
    return [FORWARD] if early and early == pairs else early[:1] or [YOUNGEST]


def waits_of(recording: Recording, pills: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Each Function asked about with the next of them that has to run before it, over any that aren't asked about."""
    nodes = {f"f{node.id}": node for node in recording.nodes}
    for pill, late in pills.items():
        seen: dict[str, None] = {}
        waiting = [pill]
        while waiting:
            for edge in nodes[waiting.pop()].edges:
                target = f"f{edge.target}"
                if target in nodes and target not in seen:
                    seen[target] = None
                    waiting += [] if target in pills else [target]
        yield from ((pills[target], late) for target in seen if target in pills)


def _missing(recording: Recording, node: Node, name: str) -> Choice:
    """A Function that runs, and was left out: one that writes in place is taken for no Function at all."""
    place = recording.frames[node.frame].place
    if not node.inplace or place is None:
        return Choice(
            f"-{name}", "", "", _("Your answer leaves out a Function that runs: backward brings it a gradient too.")
        )
    said = _("Line {line} writes in place, and backward runs its `{node}` too.").format(line=place.line, node=name)
    shown = choice(f"-{name}", "", "M11")
    return replace(shown, message=together(said, shown.message))


def unneeded(recording: Recording, node: Node, name: str) -> Choice:
    """A Function that doesn't run, and was counted in: to need a gradient isn't to get one."""
    said = _("No gradient comes to `{node}`: nothing leads from it to where backward starts.").format(node=name)
    storages = {ref.id: ref.storage for ref in recording.tensors}
    if any(storages.get(made) in aliases(recording) for made in node.outputs):
        cut = _("Its result goes on only through `.detach()` or `.data`, and no gradient comes back over those.")
        return Choice(f"+{name}", "", "", together(said, cut))
    return Choice(f"+{name}", "", "M01", together(said, _("That a leaf before it has `requires_grad` is not enough.")))


def pills_of(recording: Recording, last: int, only: tuple[str, ...]) -> dict[str, str]:
    """Name → pill of the Functions made up to a step, without those that add into `.grad`."""
    names = told_apart(node for node in recording.nodes if node.frame <= last)
    found = {name: pill for pill, name in names.items()}
    missing = set(only) - found.keys()
    if missing:
        said = _("This block has no Function named {names}. It has {known}.")
        raise QuestionError(said.format(names=_(", ").join(sorted(missing)), known=_(", ").join(found)))
    return {name: pill for name, pill in found.items() if not only or name in only}


def _few(names: Collection[str]) -> None:
    """Raises: QuestionError where nobody would answer for so many: it says how to choose some of them."""
    if len(names) <= MOST_ASKED:
        return
    said = _(
        "This block has {count} Functions, too many to ask about: at most {most}. Choose some of them by name, "
        "`--nodes {some}` in a cell or `nodes={listed}` in `show`, or record fewer lines."
    )
    some = list(dict.fromkeys(name.split("#")[0] for name in names))[:2]
    raise QuestionError(said.format(count=len(names), most=MOST_ASKED, some=",".join(some), listed=json.dumps(some)))


SAVES = QuestionKind("saves", _saves, _others_saved)
ORDER = QuestionKind("order", _order, _disorder)
