"""A hinge loss of probabilities: neither margin lies within what they can reach, so nothing is ever cut off.

Told where both sides are there, `relu(1 - p)` and `relu(1 + q)`, by the number that their lines name; `relu(1 - p)`
alone may guard a root.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from seegrad.diagnose.evidence import label, ran
from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.diagnose.losses.fitted.reach import OUT_OF_REACH
from seegrad.diagnose.losses.probabilities import LOGS, SHAPED, made_on
from seegrad.diagnose.numbers.known import Makers
from seegrad.diagnose.numbers.shapes import TOTALS
from seegrad.model.recording import Diagnosis, Frame, Place, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word

NO_MARGIN = DiagnosisKind(OUT_OF_REACH.name, OUT_OF_REACH.severity, marked("a margin out of reach"))
SAID = marked(
    "{Culprit} makes probabilities, by `{op}`, and a hinge loss takes them for scores: {victim} cuts `1 - …` off below "
    "0, and {other} cuts `1 + …`, but of numbers between 0 and 1 neither is ever below 0. Nothing is cut off, no score "
    "is ever good enough to be left alone, and the second never comes below 1."
)
ADVICE = marked(
    "If these are the scores of a hinge loss, give it what `{op}` is given, as the layer has computed it; "
    "probabilities are trained by `F.binary_cross_entropy`."
)

CUTS = frozenset({"relu", "relu_", "clamp", "clamp_", "clamp_min", "clip"})
AT_NOUGHT = re.compile(r"\bmin\s*=\s*0(?:\.0*)?(?![\w.])|\bclamp_min_?\(\s*0(?:\.0*)?\s*\)|\brelu\b|\bReLU\b")
BESIDE = re.compile(r"(?<![\w.])(\d+(?:\.\d*)?)\s*[-+]|[-+]\s*(\d+(?:\.\d*)?)(?![\w.]*\s*\*)")
"""Each number on a line that is added to something, or taken from it, or the other way round."""

SIDES = {"rsub": "minus", "__rsub__": "minus", "add": "plus", "__add__": "plus", "__radd__": "plus", "radd": "plus"}
FARTHEST = 8


@dataclass(frozen=True, slots=True)
class _Side:
    """The Frames that made the probabilities and cut what comes of them off; which side of the loss that is."""

    made: Frame
    cuts: Frame
    side: str


@finder(order=37)
def find_hinges(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line that makes probabilities of which both sides of such a loss are taken."""
    if not any(use.kind == "stepped" for use in recording.uses):
        return
    makers, found = Makers(recording), dict[Place | None, dict[str, _Side]]()
    for frame in recording.frames:
        side = _side(makers, frame) if frame.op in CUTS and frame.nodes and frame.inputs else None
        if side is not None:
            found.setdefault(made_on(side.made), {})[side.side] = side
    for place, sides in found.items():
        shown = ran(recording, sides["minus"].cuts) if len(sides) > 1 else None
        if shown is not None:
            yield _describe(recording, place, sides, shown)


def _side(makers: Makers, cuts: Frame) -> _Side | None:
    """What is cut off, if that is 1 minus a probability, or 1 plus one, and is added up as it is."""
    made = makers.maker(cuts.inputs[0], cuts.index - 1)
    if made is None or made.op not in SIDES or len(made.inputs) != 1 or not _is_of_one(made) or not _is_at_0(cuts):
        return None
    if not any(taker.op in TOTALS for each in cuts.outputs for taker in makers.takers(each)):
        return None
    tensor, until = made.inputs[0], made.index - 1
    for _ in range(FARTHEST):
        gives = makers.maker(tensor, until)
        if gives is None or not gives.inputs:
            return None
        if gives.op in LOGS:
            return _Side(gives, cuts, SIDES[made.op]) if gives.nodes else None
        if gives.op not in SHAPED or gives.op in ("clamp", "clip"):
            return None
        tensor, until = gives.inputs[0], gives.index - 1
    return None


def _is_of_one(made: Frame) -> bool:
    """Does its line add to 1 alone, and take from nothing else?"""
    numbers = [one or other for one, other in BESIDE.findall(made.place.code)] if made.place is not None else []
    return bool(numbers) and all(float(each) == 1 for each in numbers)


def _is_at_0(cuts: Frame) -> bool:
    """Below 0, and nowhere above."""
    code = cuts.place.code if cuts.place is not None else ""
    return cuts.op.startswith("relu") or (AT_NOUGHT.search(code) is not None and "max" not in code)


def _describe(recording: Recording, place: Place | None, sides: dict[str, _Side], shown: Frame) -> Diagnosis:
    made, other = sides["minus"].made, sides["plus"].cuts
    tensor = next(iter(made.outputs), None)
    finding = Finding(
        recording=recording,
        kind=NO_MARGIN,
        frame=shown.index,
        culprit=place,
        victim=sides["minus"].cuts.place,
        node=recording.nodes[made.nodes[0]],
        tensor=tensor,
    )
    facts: dict[str, Word] = {"op": made.op, "label": label(recording, tensor)}
    return finding.told(SAID, ADVICE, facts, other=finding.line(other.place))
