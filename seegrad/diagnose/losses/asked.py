"""A slope that is asked for by `autograd.grad`, and lacks ways to what is differentiated: one of several, or all.

A way is lacking where gradients were off; of the slope of a slope also where a function is straight between its bends.
"""

from __future__ import annotations

from collections.abc import Iterator

from seegrad.diagnose.cut import because, cause, line_to_change
from seegrad.diagnose.evidence import INTEGERS, birthplace, label, nodes_behind
from seegrad.diagnose.finding import Finding, finder
from seegrad.diagnose.gradients import reach
from seegrad.diagnose.history.flow import Cut
from seegrad.diagnose.numbers.constant import CONSTANT
from seegrad.diagnose.numbers.known import Makers
from seegrad.diagnose.numbers.zeros import ZERO
from seegrad.model.derivatives import always_zero, stem
from seegrad.model.recording import Diagnosis, Frame, Node, Place, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word

LEFT_OUT = marked(
    "On one of its ways to {root}, {label} is a constant, though it has another: on {culprit}, {why}. The gradient "
    "that {victim} asks for leaves that way out."
)
WHOLE_SLOPE = marked(
    "If it is to be the whole slope, compute that way with gradients on; only what chooses (indices, masks) needs none."
)

MOST_OF_A_LINE = 4
"""Calls of one line that are looked at."""


@finder(order=13)
def find_ways_left_out(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line that switches gradients off on one way of several, to an input whose slope is asked for."""
    lines: dict[Place | None, list[Frame]] = {}
    for frame in recording.frames:
        if frame.op == "grad" and frame.phase == "backward":
            lines.setdefault(frame.place, []).append(frame)
    makers, told = Makers(recording) if lines else None, set[Place | None]()
    for ask in [each for asks in lines.values() for each in asks[:MOST_OF_A_LINE]]:
        for leaf in _inputs(recording, ask):
            cut = _cut(recording, makers, ask, leaf) if makers is not None else None
            place = line_to_change(recording, cut, cause(recording, cut)) if cut is not None else None
            if cut is not None and place not in told:
                told.add(place)
                yield _describe(recording, ask, leaf, cut, place)


def _inputs(recording: Recording, ask: Frame) -> list[int]:
    """What it asks for, reached, that isn't to learn."""
    refs = [recording.tensors[number] for number in ask.wanted]
    inputs = [each.id for each in refs if each.is_leaf and each.requires_grad and not each.parameter]
    reached = reach(recording, ask.inputs) if inputs else set()
    return [each for each in inputs if each in reached]


def _cut(recording: Recording, makers: Makers, ask: Frame, leaf: int) -> Cut | None:
    """The nearest call without gradients that was given something of the leaf's, and whose numbers went on."""
    waiting, tensors = list(ask.inputs), recording.tensors
    seen = set(waiting)
    for tensor in waiting:  # grows while it's read
        made = makers.maker(tensor, ask.index - 1)
        numbers = [] if made is None or made.phase == "backward" else made.inputs
        for each in [each for each in numbers if not tensors[each].dtype.startswith(INTEGERS)]:
            if made is not None and tensors[each].requires_grad and not tensors[tensor].requires_grad:
                silent = not made.grad_enabled and made.applied is None
                if silent and leaf in reach(recording, (each,)):
                    return Cut(made, (each,))
            elif each not in seen:
                seen.add(each)
                waiting.append(each)
    return None


def _describe(recording: Recording, ask: Frame, leaf: int, cut: Cut, place: Place | None) -> Diagnosis:
    finding = Finding(recording=recording, kind=CONSTANT, frame=ask.index, culprit=place, victim=ask.place, tensor=leaf)
    why, given = cause(recording, cut), label(recording, cut.given[0])
    facts: dict[str, Word] = {"label": label(recording, leaf), "cause": "asked", "op": cut.frame.op, "given": given}
    root = label(recording, ask.inputs[0])
    return finding.told(LEFT_OUT, WHOLE_SLOPE, facts, root=root, why=because(why, given, cut.frame.op))


# -- the slope of a slope, through nothing but what is straight between its bends

STRAIGHT = marked(
    "{Culprit} is straight between its bends, so the slope of a slope through `{op}` is exactly 0: {victim} asks for "
    "that by {label}, and gets 0 whatever the weights are."
)
BEND_IT = marked(
    "If a second derivative is to say something of {label}, use what is curved in place of `{op}`: `torch.tanh`, "
    "`F.softplus` or `F.silu`."
)
AGAIN = "BackwardBackward"
"""What stands in the name of the Node of a formula of a derivative."""


@finder(order=13)
def find_straight_slopes(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line that asks so for an input's, where torch's own formulas have 0 on every way to it."""
    again = any(AGAIN in node.name for node in recording.nodes)
    asks = [each for each in recording.frames if again and (each.op, each.phase) == ("grad", "backward")]
    of, told = _nodes_of(recording) if asks else {}, set[Place | None]()
    for ask in asks:
        for wanted in ask.wanted if ask.place not in told else ():
            ref = recording.tensors[wanted]
            node = _straight(recording, of, ask, wanted) if not ref.parameter else None
            if node is not None and ask.place not in told:
                told.add(ask.place)
                finding = Finding(
                    recording=recording,
                    kind=ZERO,
                    frame=ask.index,
                    culprit=birthplace(recording, node),
                    victim=ask.place,
                    node=node,
                    tensor=wanted,
                )
                facts: dict[str, Word] = {"label": label(recording, wanted), "op": node.op}
                yield finding.told(STRAIGHT, BEND_IT, facts)


def _nodes_of(recording: Recording) -> dict[int, list[int]]:
    """Tensor → the Nodes that made it, or that hand its gradient on to it."""
    of: dict[int, list[int]] = {}
    for node in recording.nodes:
        for tensor in {*node.outputs, *([] if node.leaf is None else [node.leaf])}:
            of.setdefault(tensor, []).append(node.id)
    return of


def _straight(recording: Recording, of: dict[int, list[int]], ask: Frame, wanted: int) -> Node | None:
    """Where all ways to an input lead through functions whose formulas have 0 there: the Node of the last of these."""
    begin = sorted({number for tensor in ask.inputs for number in of.get(tensor, ())})
    goal = set(of.get(wanted, ()))
    seen, stops = set(begin), list[tuple[Node, int]]()
    for number in begin:  # grows while it's read
        node = recording.nodes[number]
        zeros = always_zero(node.name) if AGAIN in node.name else ()
        stops += [(node, edge.target) for edge in node.edges if edge.slot in zeros and edge.target is not None]
        fresh = {edge.target for edge in node.edges if edge.slot not in zeros} - {None, *seen}
        begin += [target for target in fresh if target is not None]
        seen |= {target for target in fresh if target is not None}
    if not seen.isdisjoint(goal):
        return None
    leads = [(node, target) for node, target in stops if goal & nodes_behind(recording, [target])]
    made = (_forward(recording, node, target) for node, target in leads)
    return max(made, key=lambda node: node.id, default=None)


def _forward(recording: Recording, again: Node, target: int) -> Node:
    """The Node of the function itself: what it has saved for a derivative is its result, or what it was given."""
    name = stem(again.name)
    found = (each for each in recording.nodes if stem(each.name) == name and AGAIN not in each.name)
    return next((each for each in found if any(edge.target == target for edge in each.edges)), recording.nodes[target])
