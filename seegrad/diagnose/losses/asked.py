"""A slope that is asked for by `autograd.grad`, and lacks one of the ways that lead to what is differentiated."""

from __future__ import annotations

from collections.abc import Iterator

from seegrad.diagnose.cut import because, cause, line_to_change
from seegrad.diagnose.evidence import INTEGERS, label
from seegrad.diagnose.finding import Finding, finder
from seegrad.diagnose.gradients import reach
from seegrad.diagnose.history.flow import Cut
from seegrad.diagnose.numbers.constant import CONSTANT
from seegrad.diagnose.numbers.known import Makers
from seegrad.model.recording import Diagnosis, Frame, Place, Recording
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
