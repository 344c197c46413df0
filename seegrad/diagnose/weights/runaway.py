"""A learned weight of a loss that nothing holds: whatever the loss is, it is least where its weight is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod

from seegrad.diagnose.evidence import birthplace, label, nodes_behind
from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.diagnose.numbers.known import KnownNumbers
from seegrad.diagnose.training.critics import TOO
from seegrad.diagnose.training.steps import leaf_of, leaves_of
from seegrad.model.derivatives import stem
from seegrad.model.recording import STEP, Diagnosis, Frame, GradientUse, Node, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word

RUNS_AWAY = DiagnosisKind(TOO.name, "note", marked("a weight that learns its loss away"))
SAID = marked(
    "{Culprit} weighs what is to become small by {label}, which the step on {victim} trains by the same sum, and which "
    "stands in no other term: the sum falls as that weight falls, so all {count} gradients of {label} have the same "
    "sign, however well the rest has learned."
)
ADVICE = marked(
    "If weights of losses are to be learned, give each a term that holds it up, `torch.exp(-s) * loss + s`; else keep "
    "them as plain numbers."
)

SHAPES = frozenset({"Select", "Unbind", "Unsqueeze", "Squeeze", "View", "Expand", "Stack", "Cat", "Reshape", "Index"})
MONOTONE = frozenset({"Exp", "Neg", "Softplus", "Sigmoid", "Reciprocal", "Abs", "Relu"})
SUMS = frozenset({"Add", "Sum", "Mean"})
SCALES = frozenset({"Mul", "Div"})
SEVERAL, MOST = 4, 16
"""So many backward calls have to show it; so many numbers may the weights be."""


@dataclass(slots=True)
class _Upwards:
    """From a leaf up to the loss: the Nodes that multiply losses by it, and whether nothing else is on a way."""

    products: list[tuple[Node, int]] = field(default_factory=list)  # the product, the Node of what it's multiplied with
    free: bool = True


@finder(order=18)
def find_runaways(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each such leaf that an optimiser holds beside what makes the loss."""
    steps = {leaf: use for use in recording.uses if use.kind == "stepped" for leaf in leaves_of(use)}
    few = {leaf for leaf in steps if prod(recording.tensors[leaf].shape) <= MOST}
    hooked = {hook.tensor for hook in recording.hooks}
    held = few - hooked - {leaf for use in recording.uses if use.kind == "read" for leaf in leaves_of(use)}
    came: dict[int, list[Frame]] = {}
    for frame in recording.frames if held else ():
        leaf = leaf_of(recording, frame)
        if leaf in held and leaf is not None:
            came.setdefault(leaf, []).append(frame)
    known = KnownNumbers(recording) if came else None
    for leaf, frames in came.items():
        if known is not None and _is_of_one_sign(known, frames) and _is_only_stepped(recording, leaf):
            product = _product(recording, leaf, frames[-1], steps[leaf])
            if product is not None:
                finding = Finding(
                    recording=recording,
                    kind=RUNS_AWAY,
                    frame=steps[leaf].frame,
                    culprit=birthplace(recording, product),
                    victim=steps[leaf].place,
                    node=product,
                    tensor=leaf,
                )
                facts: dict[str, Word] = {"label": label(recording, leaf), "count": len(frames)}
                yield finding.told(SAID, ADVICE, facts)


def _is_of_one_sign(known: KnownNumbers, frames: list[Frame]) -> bool:
    spans = [known.given.get((frame.backward or 0, frame.running or 0)) for frame in frames]
    found = [span for span in spans if span is not None]
    same = all(span.low >= 0 < span.high for span in found) or all(span.low < 0 >= span.high for span in found)
    return SEVERAL <= len(found) == len(spans) and same


def _is_only_stepped(recording: Recording, leaf: int) -> bool:
    """Does nothing else write to it, from the first step on?"""
    storage = recording.tensors[leaf].storage
    first = next((each.frame for each in recording.uses if each.kind == "stepped" and leaf in leaves_of(each)), 0)
    return {write.op for write in recording.writes if write.storage == storage and write.frame > first} <= {STEP}


def _product(recording: Recording, leaf: int, came: Frame, step: GradientUse) -> Node | None:
    """The Node that multiplies a loss by it, in a backward call; None where it is in anything else."""
    ways = _ways(recording, came)
    node, others = came.running or 0, leaves_of(step) - {leaf}
    for _, factor in ways.products if ways.free else ():
        behind = nodes_behind(recording, [factor])
        trained = {recording.nodes[each].leaf for each in behind}
        if node in behind or others.isdisjoint(trained - {None}):
            return None
    return ways.products[0][0] if ways.free and ways.products else None


def _ways(recording: Recording, came: Frame) -> _Upwards:
    ran = [f.running for f in recording.frames if f.backward == came.backward and f.running is not None]
    above: dict[int, list[tuple[Node, int]]] = {}
    for node in (recording.nodes[number] for number in dict.fromkeys(ran)):
        for edge in node.edges:
            if edge.target is not None:
                above.setdefault(edge.target, []).append((node, edge.slot))
    ways, waiting = _Upwards(), [(came.running or 0, False)]
    for number, weighed in waiting:  # grows while it's read
        ways.free &= weighed or number in above
        for node, slot in above.get(number, ()):
            factor = _factor(recording, node, slot)
            if factor is not None and not weighed:
                ways.products.append((node, factor))
            elif not (_is_linear(node, slot) if weighed else _is_of_it_alone(node)):
                ways.free = False
                return ways
            after = (node.id, weighed or factor is not None)
            waiting += [after] if after not in waiting else []
    return ways


def _factor(recording: Recording, node: Node, slot: int) -> int | None:
    """The Node of what is multiplied by the weight, or divided by it, number by number."""
    others = [edge.target for edge in node.edges if edge.slot != slot and edge.target is not None]
    few = all(prod(recording.tensors[each].shape) <= MOST for each in node.outputs)
    return others[0] if stem(node.name) in SCALES and others and few else None


def _is_of_it_alone(node: Node) -> bool:
    """Is what comes out the weight still, in another shape or on another scale that grows or falls with it?"""
    alone = Counter(edge.target is not None for edge in node.edges)[True] == 1
    return stem(node.name) in SHAPES or (alone and stem(node.name) in MONOTONE | SCALES | {"Add", "Sub", "Clamp"})


def _is_linear(node: Node, slot: int) -> bool:
    """Does a sum stay one?"""
    name = stem(node.name)
    alone = Counter(edge.target is not None for edge in node.edges)[True] == 1
    return name in SHAPES | SUMS or (name in SCALES and alone) or (name == "Sub" and slot == 0)
