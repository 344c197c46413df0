"""A leaf whose gradient is exactly 0: behind a step, a saturated or dead function, a mask that lets nothing through.

Or one of two factors that are both 0: the gradient of each is a product with the other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from seegrad.diagnose.cut import roots_of
from seegrad.diagnose.evidence import ancestors, birthplace, function_of, label, nodes_behind
from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.diagnose.numbers.draws import is_draw, is_linear
from seegrad.diagnose.numbers.known import KnownNumbers, shows
from seegrad.model.derivatives import always_zero, factors, stem
from seegrad.model.recording import STEP, Diagnosis, Edge, Frame, Node, Place, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word, phrase, plural

ZERO = DiagnosisKind("gradient_is_zero", "note", marked("gradient exactly 0"), (marked("only 0 goes back from here"),))

IS_ZERO = marked("The gradient of {label}{leaves} is exactly 0 after each backward call, because {why}.")
WHY = {
    "step": marked("`{op}` on {culprit} is flat everywhere: it has slope 0 wherever it has one"),
    "saturated": marked("all that `{op}` on {culprit} was given lies where it is flat"),
    "dead": marked("`{op}` on {culprit} gave 0 for the whole batch, and is flat there"),
    "drawn": marked("`{op}` on {culprit} draws numbers, and hands nothing back to what it draws from"),
    "masked": marked("the mask on {culprit} is 0 everywhere: nothing behind it counts"),
    "cancelled": marked(
        "`{op}` on {culprit} takes a tensor away and adds the same one, both with their graph: what comes back to it "
        "by the two ways cancels"
    ),
    "function": marked("{culprit}, in the backward of `{op}`, hands back nothing but 0"),
    "factors": marked(
        "`{op}` on {product} multiplies two factors that are both 0, and the gradient of each is a product with the "
        "other"
    ),
    "zeroed": marked(
        "`{op}` on {product} multiplies two factors that are both 0, and the gradient of each is a product with the "
        "other; the last of them became 0 on {culprit}"
    ),
    "begun": marked(
        "`{op}` on {product} multiplies two factors that are both 0, and the gradient of each is a product with the "
        "other; {label}, which could be anything as long as the other one is 0, became 0 on {culprit}"
    ),
}
MEND = {
    "step": marked(
        "If {label} is meant to learn through it, leave `{op}` out while training, or pass the gradient straight "
        "through: `x + (x.{op}() - x).detach()`."
    ),
    "saturated": marked(
        "If {label} is meant to learn through it, bring what goes in back to where it isn't flat: scale it down or "
        "begin at smaller numbers; in place of `clamp`, a scaled `torch.tanh` keeps a range and has a slope."
    ),
    "dead": marked(
        "If {label} is meant to learn through it, use what isn't flat there (`F.leaky_relu`), or begin anew with a "
        "smaller learning rate and biases near 0."
    ),
    "drawn": marked(
        "If {label} is meant to learn through it, draw apart from it, `mean + std * torch.randn_like(mean)`; a choice "
        "by chance is passed straight through, `drawn + p - p.detach()`."
    ),
    "masked": marked(
        "If something should count there, look at the condition that makes the mask; a batch without anything does no "
        "harm."
    ),
    "function": marked("If {label} is meant to learn through it, mend what that backward computes."),
    "cancelled": marked(
        "If {label} is meant to learn through it (straight-through), take the difference out of the graph: "
        "`x + (q - x).detach()`."
    ),
    "factors": marked(
        "Begin one of the two at random numbers and only the other at 0: the product is 0 all the same, and both learn."
    ),
}
MEND["zeroed"] = MEND["begun"] = MEND["factors"]

STEPS = frozenset({"Round", "Sign", "Floor", "Ceil", "Trunc"})
BENDS = {
    **dict.fromkeys(("Relu", "Threshold", "Relu6"), "dead"),
    **dict.fromkeys(
        ("Clamp", "ClampMin", "ClampMax", "Hardtanh", "Hardsigmoid", "Hardswish", "Softshrink"), "saturated"
    ),
    **dict.fromkeys(("Sigmoid", "LogSigmoid", "Tanh", "Erf", "Softmax", "Softplus"), "saturated"),
    **dict.fromkeys(("Elu", "Gelu", "Silu"), "saturated"),
    **dict.fromkeys(("Mul", "Where", "MaskedFill"), "masked"),
}
"""Node, without the end of its name → why it may hand on nothing but 0."""

BEND = frozenset({"dead", "saturated"})

ZEROES = frozenset(
    {"zero_", "zeros", "zeros_like", "new_zeros", "fill_", "full", "constant_", "mul_", "__imul__", "copy_"}
)
"""Ops that may have made a factor 0."""

FARTHEST, NEAREST = 64, 4
"""So many Nodes behind a product are gone through; so many lie at most between one and the leaf that is its factor."""


@dataclass(frozen=True, slots=True)
class Flat:
    """A Node that was given a gradient and handed on 0, in the last of the backward calls; why."""

    node: Node
    why: str
    frame: Frame


@finder(order=19)
def find_zeros(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each Node's line: of all leaves that got nothing but 0, ever, because of it.

    None where a loss is 0 itself, and so has nothing left to learn. Where it depends on the numbers, the calls that a
    long program has forgotten count: a spread that was learned until a clamp holds it has had its gradients.
    """
    steps = any(stem(node.name) in STEPS or is_draw(node) for node in recording.nodes)
    if not (steps or shows(recording, {"0"}, gradients=True)):
        return
    known = KnownNumbers(recording)
    zero: dict[int, list[Flat]] = {}
    alive: set[int] = set()
    always = {recording.nodes[each.node].leaf for each in recording.extremes if each.always and each.node is not None}
    for frames in _calls(recording):
        ways = _Ways(recording, known, frames)
        if ways.is_zero_itself():
            return
        for leaf in ways.leaves:
            flat = ways.flat_before(leaf)
            if leaf.leaf in always and (flat is None or (flat.why in BEND and ways.is_floor(flat.node))):
                continue  # nobody has kept what the Nodes handed on in that call; or a term of the loss has its fill
            if leaf.leaf is not None and flat is None:
                alive.add(leaf.leaf)
            elif leaf.leaf is not None and flat is not None:
                zero.setdefault(leaf.leaf, []).append(flat)
    if _has_forgotten(recording):
        zero = {leaf: found for leaf, found in zero.items() if leaf in always or found[-1].why not in BEND}
    held = {leaf for use in recording.uses if use.kind == "stepped" for leaf, _ in use.tensors}
    groups: dict[tuple[object, str], tuple[Flat, list[int]]] = {}
    for number, found in zero.items():
        if number not in alive:
            if found[-1].why == "drawn" and held and number not in held:
                continue  # an actor, while its critic alone is trained
            place = birthplace(recording, found[-1].node)
            groups.setdefault((place, found[-1].why), (found[-1], []))[1].append(number)
    for flat, leaves in groups.values():
        yield _describe(recording, flat, sorted(leaves))


def _calls(recording: Recording) -> Iterator[list[Frame]]:
    """Of a call that is forgotten what came last to a leaf may be left: nobody knows by which way."""
    nodes = recording.nodes
    calls: dict[int, list[Frame]] = {}
    for frame in recording.frames:
        if frame.backward is not None and frame.phase == "backward" and frame.running is not None:
            calls.setdefault(frame.backward, []).append(frame)
    for frames in calls.values():
        if any(nodes[frame.running].leaf is None for frame in frames if frame.running is not None):
            yield frames


def _has_forgotten(recording: Recording) -> bool:
    """Were there backward calls of which nothing is kept?"""
    kept = {frame.backward for frame in recording.frames if frame.backward is not None}
    return bool(kept) and max(kept) >= len(kept)


class _Ways:
    """The Nodes of one backward call, and what went from one to the other."""

    def __init__(self, recording: Recording, known: KnownNumbers, frames: list[Frame]) -> None:
        self._recording, self._known, self._frames = recording, known, frames
        self._backward = frames[0].backward or 0
        self._corrupted = {frame.running for frame in frames if frame.corrupted}
        nodes = [recording.nodes[frame.running] for frame in frames if frame.running is not None]
        self.leaves = [node for node in nodes if node.leaf is not None]
        self._before: dict[int, list[tuple[Node, int]]] = {}
        for node in nodes:
            for edge in node.edges:
                if edge.target is not None:
                    self._before.setdefault(edge.target, []).append((node, edge.slot))

    def is_zero_itself(self) -> bool:
        """Is the number that backward began at 0?"""
        roots = roots_of(self._recording, self._frames[0])
        spans = [self._known.at(root, self._frames[0].index) for root in roots]
        return any(span is not None and span.is_zero for span in spans)

    def is_floor(self, node: Node) -> bool:
        """Is its result a term of the loss, which has come to where it ends: a margin that is kept, free bits?"""
        waiting, seen = [node], {node.id}
        while waiting:
            here = waiting.pop()
            fresh = [each for each, _ in self._before.get(here.id, ()) if each.id not in seen]
            if not all(is_linear(each) or (here is node and stem(each.name) == "Pow") for each in fresh):
                return False
            seen.update(each.id for each in fresh)
            waiting += fresh
        return True

    def flat_before(self, leaf: Node) -> Flat | None:
        """The Node nearest to the loss behind which only 0 comes to the leaf; None where anything else may come."""
        if self._given_zero(leaf) is False:
            return None
        found: Flat | None = None
        waiting, seen = [leaf], {leaf.id}
        while waiting:
            here = waiting.pop()
            for node, slot in self._before.get(here.id, ()):
                why = self._why(node, slot, here)
                if why is not None:
                    found = Flat(node, why, self._frames[-1])
                elif not self._only_zero(node, slot):
                    return None
                elif node.id not in seen:
                    seen.add(node.id)
                    waiting.append(node)
        return found

    def _given_zero(self, node: Node) -> bool | None:
        span = self._known.given.get((self._backward, node.id))
        return None if span is None else span.is_zero

    def _only_zero(self, node: Node, slot: int) -> bool:
        """Does it hand on 0 for that input, because it is given 0?"""
        handed = self._known.handed.get((self._backward, node.id, slot))
        if handed is not None:
            return handed.is_zero and self._given_zero(node) is not False
        return self._given_zero(node) is not False and bool(self._before.get(node.id))

    def _handed_zero(self, node: Node, slot: int, to: Node) -> bool:
        """Did it hand on nothing but 0? Where it alone gave something to the next, that one's numbers say so too."""
        handed = self._known.handed.get((self._backward, node.id, slot))
        if handed is None and len(self._before[to.id]) == 1:
            handed = self._known.given.get((self._backward, to.id))
        return handed is not None and handed.is_zero

    def _why(self, node: Node, slot: int, to: Node) -> str | None:
        """Why a Node hands on nothing but 0 although it is given something."""
        if self._given_zero(node) or node.id in self._corrupted:
            return None
        kind = "" if function_of(node) else stem(node.name)
        if kind in STEPS and slot in always_zero(node.name):
            return "step"
        if is_draw(node):
            return "drawn"
        if self._given_zero(node) is None or not self._handed_zero(node, slot, to):
            return None
        if function_of(node):
            return "function" if _returned_on(self._recording, node) is not None else None
        if self._are_both_zero(node):
            return "factors"
        why = BENDS.get(kind)
        return why if why != "masked" or self._is_masked(node, slot) else None

    def _are_both_zero(self, node: Node) -> bool:
        """Is it a product that hands on nothing to either factor, each of which is made for itself?"""
        slots = factors(node.name)
        edges = [edge for edge in node.edges if edge.slot in slots and edge.target is not None]
        targets = {edge.target for edge in edges if edge.target is not None}
        nodes = self._recording.nodes
        return len(targets) == len(edges) == 2 and all(
            self._handed_zero(node, edge.slot, nodes[edge.target]) for edge in edges if edge.target is not None
        )

    def _is_masked(self, node: Node, slot: int) -> bool:
        """Is the other factor, or the condition, something that isn't trained?"""
        frame = self._recording.frames[node.frame]
        given = [self._recording.tensors[tensor] for tensor in frame.inputs]
        if stem(node.name) != "Mul":
            return True
        own = node.inputs[slot] if slot < len(node.inputs) else None
        return any(not ref.requires_grad for ref in given if ref.id != own)


# -- two ways that cancel: `x + (q - x)`, without a `.detach()`


@finder(order=19)
def find_cancelled(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line by which a tensor is added as often as taken away, where leaves behind it never got more."""
    always = {each.node for each in recording.extremes if each.always and each.node is not None}
    found: dict[object, tuple[Flat, set[int]]] = {}
    for node in recording.nodes if always else ():
        for target in _cancelled_by(recording, node):
            behind = (recording.nodes[each].leaf for each in nodes_behind(recording, [target]) & always)
            leaves = {leaf for leaf in behind if leaf is not None}
            if leaves:
                flat = Flat(node, "cancelled", _last_run(recording, always))
                found.setdefault(birthplace(recording, node), (flat, set()))[1].update(leaves)
    for flat, held in found.values():
        yield _describe(recording, flat, sorted(held))


def _cancelled_by(recording: Recording, node: Node) -> Iterator[int]:
    """The Nodes whose result a sum of two takes in once with a plus and once with a minus."""
    for edge, sign in _signs(node):
        inner = recording.nodes[edge.target] if edge.target is not None else None
        for other, second in _signs(inner) if inner is not None else ():
            again = any(
                each is not edge
                and (each.target, each.output_nr) == (other.target, other.output_nr)
                and first == -sign * second
                for each, first in _signs(node)
            )
            if again and other.target is not None:
                yield other.target


def _signs(node: Node) -> Iterator[tuple[Edge, int]]:
    """The ways back of a sum or a difference, each with the sign by which the gradient goes there."""
    kind = stem(node.name)
    minus = {"Add": None, "Sub": 1, "Rsub": 0}.get(kind, -1)
    if minus != -1:
        yield from ((edge, -1 if edge.slot == minus else 1) for edge in node.edges)


def _last_run(recording: Recording, nodes: set[int]) -> Frame:
    """The last Frame of the backward in which one of these ran."""
    ran = (frame for frame in reversed(recording.frames) if frame.running in nodes)
    return next(ran, recording.frames[-1])


def _factors_behind(recording: Recording, product: Node) -> set[int]:
    """The leaves that are factors of a product, or of those behind it."""
    nodes, waiting, found = recording.nodes, [product], set[int]()
    for node in waiting:  # grows while it's read
        targets = [nodes[edge.target] for edge in node.edges if edge.target is not None]
        waiting += [each for each in targets if each not in waiting and len(waiting) < FARTHEST]
        for edge in node.edges if factors(node.name) else ():
            if edge.slot in factors(node.name) and edge.target is not None:
                found.add(_shaped(recording, nodes[edge.target]))
    return found - {-1}


def _may_be_random(recording: Recording, product: Node, leaves: set[int]) -> int | None:
    """Of the two factors, the one that is to begin at random where one is a gate, or scales what data went through.

    A gate is one number, and begins at 0; so does the last of several layers, behind which all comes out as 0.
    """
    whole = [_shaped(recording, node) for node in _factors_of(recording, product)]
    gates = [leaf for leaf in whole if leaf in leaves and math.prod(recording.tensors[leaf].shape) == 1]
    if len(gates) == 1 and set(whole) <= leaves:
        return next(iter(set(whole) - set(gates)))
    inner = next((node for node in _factors_of(recording, product) if _shaped(recording, node) == -1), None)
    inner = None if inner is None else _product_behind(recording, inner)
    scales = [_shaped(recording, node) for node in _factors_of(recording, inner)] if inner is not None else []
    found = leaves.intersection(scales)
    return next(iter(found)) if len(found) == 1 and leaves.intersection(whole) else None


def _factors_of(recording: Recording, product: Node) -> list[Node]:
    """The Nodes that hand on to each factor."""
    slots = factors(product.name)
    return [recording.nodes[each.target] for each in product.edges if each.slot in slots and each.target is not None]


def _product_behind(recording: Recording, node: Node) -> Node | None:
    """The nearest product behind a Node, where nothing joins others to it on the way."""
    for _ in range(NEAREST):
        targets = [each.target for each in node.edges if each.target is not None]
        if factors(node.name) or len(targets) != 1:
            break
        node = recording.nodes[targets[0]]
    return node if factors(node.name) else None


def _shaped(recording: Recording, node: Node) -> int:
    """The leaf of which a Node gives a shape or a part; -1 where it is of none alone."""
    for _ in range(NEAREST):
        targets = [edge.target for edge in node.edges if edge.target is not None]
        if node.leaf is not None or len(targets) != 1 or factors(node.name):
            break
        node = recording.nodes[targets[0]]
    return -1 if node.leaf is None else node.leaf


def _zeroed(recording: Recording, leaves: set[int]) -> Place | None:
    """The line that made the last of these leaves 0, where it is known."""
    storages = {recording.tensors[each].storage for leaf in leaves for each, _ in ancestors(recording, leaf)}
    last, steps = dict[int, Frame](), {use.place for use in recording.uses if use.kind == "stepped"}
    for frame in recording.frames:
        if frame.phase in ("forward", "inplace") and frame.op != STEP and frame.place not in steps:
            refs, inplace = (recording.tensors[each] for each in frame.outputs), frame.phase == "inplace"
            made = (ref.storage for ref in refs if inplace or (ref.frame == frame.index and ref.alias_of is None))
            wrote = (recording.writes[each].storage for each in frame.writes)  # those of long ago are forgotten
            last |= dict.fromkeys(storages.intersection([*made, *wrote]), frame)
    found = [frame for frame in last.values() if frame.op in ZEROES]
    return max(found, key=lambda frame: frame.index).place if found else None


def _returned_on(recording: Recording, node: Node) -> Place | None:
    """Where the backward of a custom Function, of the user's, returns."""
    own = (each for each in recording.clues_of("function") if each.fact("name") == function_of(node))
    return next((each.place for each in own), None)


def _describe(recording: Recording, flat: Flat, leaves: list[int]) -> Diagnosis:
    product = birthplace(recording, flat.node)
    behind = _factors_behind(recording, flat.node) if flat.why == "factors" else set[int]()
    behind &= set(leaves)
    chosen = _may_be_random(recording, flat.node, behind)
    zeroed = _zeroed(recording, behind if chosen is None else {chosen})
    first = leaves[0] if chosen is None else chosen
    finding = Finding(
        recording=recording,
        kind=ZERO,
        frame=flat.frame.index,
        culprit=zeroed or _returned_on(recording, flat.node) or product,
        victim=flat.frame.place,
        node=flat.node,
        tensor=first,
    )
    count, op = len(leaves) - 1, function_of(flat.node) or flat.node.op
    facts: dict[str, Word] = {"label": label(recording, first), "cause": flat.why, "op": op}
    how = flat.why if zeroed is None else "zeroed" if chosen is None else "begun"
    more = plural(" (and {count} more leaf)", " (and {count} more leaves)", count) if count else ""
    lines = {"culprit": finding.line(finding.culprit, code=True), "product": finding.line(product, code=True)}
    why = phrase(WHY[how], op=op, label=label(recording, first), **lines)
    return finding.told(IS_ZERO, MEND[how], facts, leaves=more, why=why)
