"""A distribution that is compared with itself, or that scores its own draw: what comes back cancels.

Of the divergence from itself all is 0, its second derivative too. `(mean + noise) - mean` is the noise, whatever the
mean is: a draw that has kept its graph and is only scored again teaches the mean nothing. An estimate of an entropy is
made so on purpose; it is told where the draw is handed on without its graph, and its score has a weight for each row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from seegrad.diagnose.evidence import label, ran
from seegrad.diagnose.finding import Finding, finder
from seegrad.diagnose.numbers.known import Makers
from seegrad.diagnose.numbers.shapes import SHAPED
from seegrad.diagnose.numbers.zeros import ZERO
from seegrad.model.recording import Diagnosis, Frame, Place, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word

FARTHEST = 64

# -- a divergence from itself

ITSELF = marked(
    "{Culprit} compares a distribution with itself: both sides are computed of {label}, with its graph, so the "
    "divergence is 0 whatever {label} is, and, but for rounding, so are its gradient and its second derivative, which "
    "{victim} asks for."
)
ONE_STAYS = marked(
    "If one side is to stay what it is while the other moves (a trust region, a penalty on what has changed), build "
    "that side of detached tensors, as `Normal(mean.detach(), std.detach())`, or of what was kept from before."
)

DIVERGENCE = re.compile(r"\bkl_divergence\(")
TWICE = re.compile(r"\bkl_divergence\(\s*([A-Za-z_][\w.]*)\s*,\s*\1\s*\)")
"""The same variable on both sides."""

COMPARES = frozenset({"sub", "div", "true_divide"})
TERMS = COMPARES | {
    *("pow", "log", "add", "mul", "rsub", "abs", "exp", "neg", "reshape", "view", "sum", "mean", "softmax"),
    *("__setitem__", "__eq__", "eq", "expand_as"),
}
"""What torch computes the divergence of two normal, Laplace or categorical distributions by, and a line its mean."""


@finder(order=19)
def find_divergence_from_itself(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line of such a divergence that a backward call comes through."""
    told, frames = set[Place](), recording.frames
    for number, frame in enumerate(frames):
        place = frame.place
        if frame.op != "sub" or place is None or place in told or not DIVERGENCE.search(place.code):
            continue
        if not _is_itself(recording, frame) or frame.phase != "forward":
            continue
        shown = ran(recording, frame)
        if shown is not None and (TWICE.search(place.code) or _all_alike(recording, _line(frames, number))):
            told.add(place)
            finding = Finding(
                recording=recording,
                kind=ZERO,
                frame=shown.index,
                culprit=place,
                victim=shown.place,
                tensor=frame.inputs[0],
            )
            facts: dict[str, Word] = {"label": label(recording, frame.inputs[0]), "cause": "itself", "op": frame.op}
            yield finding.told(ITSELF, ONE_STAYS, facts)


def _is_itself(recording: Recording, frame: Frame) -> bool:
    """Are both sides one tensor, with a graph?"""
    same = len(frame.inputs) == 2 and frame.inputs[0] == frame.inputs[1]
    return same and recording.tensors[frame.inputs[0]].requires_grad


def _line(frames: Sequence[Frame], number: int) -> list[Frame]:
    """The Frames of one run of the line in which this one stands."""
    first = last = number
    while first > 0 and frames[first - 1].place == frames[number].place and number - first < FARTHEST:
        first -= 1
    while last + 1 < len(frames) and frames[last + 1].place == frames[number].place and last - number < FARTHEST:
        last += 1
    return list(frames[first : last + 1])


def _all_alike(recording: Recording, line: list[Frame]) -> bool:
    """Are the two sides one tensor wherever two are compared that were there before, and is no other one learned?"""
    made, alike, given = set[int](), set[int](), set[int]()
    for frame in line:
        if frame.op not in TERMS or frame.phase not in ("forward", "inplace"):
            return False
        before = [each for each in frame.inputs if each not in made]
        if frame.op in COMPARES and len(before) == 2:
            if before[0] != before[1]:
                return False
            alike.add(before[0])
        given.update(each for each in before if recording.tensors[each].requires_grad)
        made.update(frame.outputs)
    return given <= alike


# -- a draw that is scored with its graph

SCORED = marked(
    "{Culprit} draws {drawn} with its graph, and `log_prob` on {scored} takes {label} from it again: what comes back "
    "to {label} by the two ways cancels. So the weights on {weighed} teach it nothing by this way, though {victim} "
    "goes through it: they reach at most what says how far is drawn."
)
WITHOUT_GRAPH = marked(
    "If what is drawn is to become as likely as its weight says (REINFORCE, an actor), score it without its graph: "
    "draw it by `.sample()`, or score `{name}.detach()`."
)
SCORED_THERE = marked("{Place} scores what was drawn: with `.detach()` behind it there, only the score has a graph.")

DRAWS = re.compile(r"\.rsample\(")
SCORES = re.compile(r"\.log_prob\(")
LOOKS = frozenset({"__eq__", "_is_all_true", "all", "isfinite"})
"""What a distribution looks at, to see whether what it's given fits."""

HANDS_ON = SHAPED | {"neg", "pow", "div", "sub", "sum", "mean", "add", "stack", "cat", "concat"}
WEIGHTS = frozenset({"mul", "rmul"})


@dataclass(frozen=True, slots=True)
class _Draw:
    """The Frames that drew by `mean + noise`, took the mean off again, and weighed what came of it."""

    drew: Frame
    scored: Frame
    weighed: Frame


@finder(order=19)
def find_scored_draws(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line that draws so, where nothing but the score has what was drawn with its graph."""
    told, makers = set[Place | None](), None
    for frame in recording.frames:
        code = frame.place.code if frame.place is not None and frame.phase == "forward" else ""
        if frame.op != "sub" or len(frame.inputs) != 2 or not SCORES.search(code):
            continue
        makers = makers or Makers(recording)
        draw = _draw(recording, makers, frame)
        shown = ran(recording, frame) if draw is not None and draw.drew.place not in told else None
        if draw is None or shown is None:
            continue
        told.add(draw.drew.place)
        drawn, mean = frame.inputs
        finding = Finding(
            recording=recording,
            kind=ZERO,
            frame=shown.index,
            culprit=draw.drew.place,
            victim=shown.place,
            tensor=drawn,
            instead=((frame.place, SCORED_THERE),),
        )
        facts: dict[str, Word] = {"label": label(recording, mean), "cause": "scored", "op": frame.op}
        lines = {"scored": finding.line(frame.place), "weighed": finding.line(draw.weighed.place)}
        yield finding.told(SCORED, WITHOUT_GRAPH, facts, drawn=label(recording, drawn), **lines)


def _draw(recording: Recording, makers: Makers, scored: Frame) -> _Draw | None:
    """`scored` takes a mean from what was drawn by it, which nothing else has with its graph, and some have without."""
    drawn, mean = scored.inputs
    tensors = recording.tensors
    made = makers.maker(drawn, scored.index - 1)
    code = made.place.code if made is not None and made.place is not None else ""
    if made is None or made.op != "add" or mean not in made.inputs or not DRAWS.search(code):
        return None
    if not (tensors[drawn].requires_grad and tensors[mean].requires_grad):
        return None
    takers = [each for each in makers.takers(drawn) if each.op not in LOOKS and each.index != scored.index]
    if not takers or any(tensors[each].requires_grad for taker in takers for each in taker.outputs):
        return None
    weighed = _weighed(recording, makers, scored)
    return _Draw(made, scored, weighed) if weighed is not None else None


def _weighed(recording: Recording, makers: Makers, scored: Frame) -> Frame | None:
    """The Frame that multiplies the score with a number for each row that no graph leads to; a mask is none."""
    waiting = list(scored.outputs)
    for tensor in waiting:  # grows while it's read
        for taker in makers.takers(tensor) if len(waiting) < FARTHEST else ():
            others = [recording.tensors[each] for each in taker.inputs if each != tensor]
            rows = recording.tensors[tensor].shape[:1]
            plain = [ref for ref in others if not ref.requires_grad and ref.dtype.startswith("float")]
            if taker.op in WEIGHTS and any(ref.shape[:1] == rows and rows > (1,) for ref in plain):
                return taker
            if taker.op in HANDS_ON:
                waiting += [each for each in taker.outputs if each not in waiting]
    return None
