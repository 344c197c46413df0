"""A difference whose numbers change with a tensor and whose slope by it is exactly 0: `x - q` of a straight-through.

`q = x + (code - x).detach()` has the numbers of `code` and hands its gradient to `x` whole: of `x - q` the two ways
back to `x` cancel, 1 - 1. Sums, differences and detaches are read as one sum of tensors, once by their numbers and once
by their gradients.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from seegrad.diagnose.evidence import birthplace, label
from seegrad.diagnose.finding import Finding, finder
from seegrad.diagnose.numbers.known import Makers
from seegrad.diagnose.numbers.zeros import ZERO
from seegrad.model.derivatives import stem
from seegrad.model.recording import Diagnosis, Frame, Node, Place, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word

SAID = marked(
    "{Culprit} subtracts what hands its gradient on to {label} as it is, as a straight-through does: the result "
    "changes with {label}, but what comes back to {label} by the two ways cancels, 1 - 1 = 0. So what {victim} "
    "computes of it trains nothing that made {label}."
)
ADVICE = marked(
    "Subtract numbers alone: put `.detach()` behind what is subtracted. Where several such results are added up "
    "afterwards, pass the whole sum straight through once: `x + (total - x).detach()`."
)

PLUS = frozenset({"add", "__add__", "__radd__", "add_", "__iadd__"})
MINUS = frozenset({"sub", "subtract", "__sub__", "sub_", "__isub__"})
REVERSED = frozenset({"rsub", "__rsub__"})
CUTS = frozenset({"detach", "data"})
SAME = frozenset({"clone", "contiguous"})

SUMS = frozenset({"Add", "Sub", "Rsub", "Neg"})
"""Nodes that hand on what they're given: what a straight-through, or the next difference, makes of it."""

SHAPED = frozenset({"View", "UnsafeView", "ReshapeAlias", "Transpose", "Permute", "Squeeze", "Unsqueeze", "Clone", "T"})

SCALES = frozenset({"Mul", "Div"})

FARTHEST = 64
"""So many tensors are gone back through."""


@dataclass(slots=True)
class Weight:
    """How often a tensor stands in a sum: by its numbers, and on each way that its gradient takes."""

    numbers: int
    ways: list[int]

    @property
    def cancels(self) -> bool:
        """Do its numbers count, while what comes back to it is exactly 0?"""
        return self.numbers != 0 and bool(self.ways) and sum(self.ways) == 0


@dataclass(frozen=True, slots=True)
class Summand:
    """One of the tensors in a sum, as it was after Frame `until`, and by how much it counts there."""

    tensor: int
    until: int
    numbers: int
    gradient: int


@finder(order=20)
def find_cancelled_differences(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line of such a difference, of which something is computed that a backward call comes through."""
    makers, above, told = None, dict[int, list[Node]](), set[Place]()
    ran = {frame.running for frame in recording.frames if frame.running is not None}
    for frame in recording.frames:
        if frame.op not in MINUS | REVERSED or ran.isdisjoint(frame.nodes) or frame.place in (None, *told):
            continue
        makers = makers or Makers(recording)
        tensor = _cancelled(recording, makers, frame)
        above = above or (_above(recording, ran) if tensor is not None else {})
        taker = _taker(frame.nodes[0], above) if tensor is not None else None
        if taker is not None and tensor is not None and frame.place is not None:
            told.add(frame.place)
            yield _describe(recording, frame, tensor, taker)


def _cancelled(recording: Recording, makers: Makers, difference: Frame) -> int | None:
    """The tensor that comes back as 0; None where all do as their numbers say."""
    given = [recording.tensors[tensor] for tensor in difference.inputs]
    if len(given) != 2 or not difference.outputs or not all(ref.requires_grad for ref in given):
        return None
    weights: dict[tuple[int, int], Weight] = {}
    waiting = [Summand(difference.outputs[0], difference.index, 1, 1)]
    for term in waiting:  # grows while it's read
        made = makers.maker(term.tensor, term.until)
        parts = _parts(made, term) if made is not None else []
        if len(waiting) > FARTHEST:
            return None
        if not parts:
            weight = weights.setdefault((term.tensor, made.index if made is not None else -1), Weight(0, []))
            weight.numbers += term.numbers
            weight.ways += [term.gradient] if term.gradient else []
        waiting += parts
    found = (tensor for (tensor, _), weight in weights.items() if weight.cancels)
    return next((tensor for tensor in found if recording.tensors[tensor].requires_grad), None)


def _parts(made: Frame, term: Summand) -> list[Summand]:
    """What a sum, a difference or a detach is made of; nothing where it's another op, or scales what it adds.

    Nor of what only shares memory with it: numbers come from there, and no gradient goes.
    """
    if term.tensor not in made.outputs or (made.place is not None and "alpha" in made.place.code):
        return []
    signs = {**dict.fromkeys(PLUS, (1, 1)), **dict.fromkeys(MINUS, (1, -1)), **dict.fromkeys(REVERSED, (-1, 1))}
    if made.op in CUTS | SAME | {"neg", "__neg__"}:
        signs[made.op] = (-1 if "neg" in made.op else 1, 0)
    goes_back = term.gradient if made.grad_enabled and made.op not in CUTS else 0
    pairs = zip(made.inputs, signs.get(made.op, ()), strict=False) if len(made.inputs) <= 2 else ()
    return [Summand(tensor, made.index - 1, term.numbers * sign, goes_back * sign) for tensor, sign in pairs]


def _above(recording: Recording, ran: set[int]) -> dict[int, list[Node]]:
    """Node → those that ran and handed something on to it."""
    found: dict[int, list[Node]] = {}
    for node in recording.nodes:
        for edge in node.edges if node.id in ran else ():
            if edge.target is not None:
                found.setdefault(edge.target, []).append(node)
    return found


def _taker(difference: int, above: dict[int, list[Node]]) -> Node | None:
    """The Node that computes something of the difference, and ran; a straight-through or a further one is none."""
    waiting = [difference]
    for number in waiting:  # grows while it's read
        takers = above.get(number, [])
        waiting += [each.id for each in takers if _hands_on(each) and each.id not in waiting]
        found = next((each for each in takers if stem(each.name) not in SUMS and not _hands_on(each)), None)
        if found is not None:
            return found
    return None


def _hands_on(node: Node) -> bool:
    """Does it give the same numbers another shape, or another scale that is a plain number or no graph leads to?"""
    scaled = stem(node.name) in SCALES and sum(edge.target is not None for edge in node.edges) == 1
    return scaled or stem(node.name) in SHAPED


def _describe(recording: Recording, difference: Frame, tensor: int, taker: Node) -> Diagnosis:
    node = recording.nodes[difference.nodes[0]]
    shown = next(frame for frame in reversed(recording.frames) if frame.running == node.id)
    finding = Finding(
        recording=recording,
        kind=ZERO,
        frame=shown.index,
        culprit=difference.place,
        victim=birthplace(recording, taker),
        node=node,
        tensor=tensor,
    )
    facts: dict[str, Word] = {"label": label(recording, tensor), "cause": "subtracted", "op": difference.op}
    return finding.told(SAID, ADVICE, facts)
