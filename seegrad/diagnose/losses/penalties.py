"""A penalty on a sample's gradient, of which the norm is taken along one of several axes: it holds each point instead.

A score for each sample says that its gradient is one long vector (WGAN-GP); where each point has a score of its own (a
distance field), the norm of each point's gradient is what is meant.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from seegrad.diagnose.evidence import label, ran
from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.diagnose.numbers.known import Makers
from seegrad.model.recording import Diagnosis, Frame, Place, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word

EACH_POINT = DiagnosisKind("penalty_of_each_point", "note", marked("penalty of each point"))

SAID = marked(
    "{Culprit} takes the norm of {label} along one axis of several, which leaves {count} norms for each sample: the "
    "penalty that {victim} trains by brings each of these to its bound, not the norm of a sample's whole gradient."
)
ADVICE = marked(
    "If the gradient of each sample is meant, as for a critic that gives a sample one score, take its norm over all "
    "axes but the first: `{name}.flatten(1).norm(2, dim=1)`."
)

NORMS = frozenset({"norm", "vector_norm", "linalg_norm", "linalg_vector_norm"})
ELEMENTWISE = frozenset({"pow", "square", "mul", "add", "abs", "sqrt"})
"""Ops between a gradient and its norm where that is written out: `((g ** 2).sum(1) + 1e-12).sqrt()`."""

BOUNDS = frozenset({"pow", "square", "relu", "clamp", "clamp_min", "abs"})
"""What is made of the distance from a bound."""

FARTHEST = 6


@finder(order=34)
def find_penalties_of_each_point(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line that takes such a norm, whose distance from a plain number a backward call trains by."""
    makers, told = Makers(recording), set[Place]()
    for frame in recording.frames:
        samples = _samples(recording, makers, frame) if frame.op == "grad" and frame.phase == "backward" else 0
        norm = _norm(recording, makers, frame.outputs[0], samples) if samples else None
        if norm is not None and norm.place is not None and norm.place not in told:
            shown = ran(recording, norm)
            if shown is not None:
                told.add(norm.place)
                yield _describe(recording, norm, frame.outputs[0], shown)


def _samples(recording: Recording, makers: Makers, asks: Frame) -> int:
    """How many samples have a score each, for the gradient of several axes that is asked for; 0 where that isn't so."""
    if len(asks.inputs) != 1 or len(asks.outputs) != 1 or not recording.tensors[asks.outputs[0]].requires_grad:
        return 0
    scores, shape = recording.tensors[asks.inputs[0]].shape, recording.tensors[asks.outputs[0]].shape
    if not scores:  # `critic(x).sum()`
        total = makers.maker(asks.inputs[0], asks.index - 1)
        summed = total is not None and total.op in ("sum", "mean") and len(total.inputs) == 1
        scores = recording.tensors[total.inputs[0]].shape if total is not None and summed else ()
    fits = len(shape) > 2 and bool(scores) and 1 < shape[0] == scores[0] == prod(scores)
    return shape[0] if fits else 0


def _norm(recording: Recording, makers: Makers, gradient: int, samples: int) -> Frame | None:
    """The Frame that takes the norms of the gradient along one axis, where their distance from a number is bounded."""
    shape, tensor, norm = recording.tensors[gradient].shape, gradient, None
    for _ in range(FARTHEST):
        taker = next((each for each in makers.takers(tensor) if set(each.inputs) == {tensor}), None)
        if taker is None or len(taker.outputs) != 1:
            return None
        tensor, out = taker.outputs[0], recording.tensors[taker.outputs[0]].shape
        if taker.op in NORMS or taker.op == "sum":
            if norm is not None or not _is_without_an_axis(shape, out) or prod(out) <= samples:
                return None
            norm = taker
        elif taker.op in ("sub", "rsub") and norm is not None:
            return norm if any(each.op in BOUNDS for each in makers.takers(tensor)) else None
        elif taker.op not in ELEMENTWISE:
            return None
    return None


def _is_without_an_axis(shape: tuple[int, ...], out: tuple[int, ...]) -> bool:
    """Is one axis gone, or 1 long, and not the first?

    >>> _is_without_an_axis((8, 3, 5), (8, 5)), _is_without_an_axis((8, 3, 5), (8, 3, 1))
    (True, True)
    >>> _is_without_an_axis((8, 3, 5), (3, 5)), _is_without_an_axis((8, 3, 5), (8,))
    (False, False)
    """
    ways = ((shape[:at], shape[at + 1 :]) for at in range(1, len(shape)))
    return any(out in ((*before, *after), (*before, 1, *after)) for before, after in ways)


def _describe(recording: Recording, norm: Frame, gradient: int, shown: Frame) -> Diagnosis:
    finding = Finding(
        recording=recording,
        kind=EACH_POINT,
        frame=shown.index,
        culprit=norm.place,
        victim=shown.place,
        tensor=gradient,
    )
    left = recording.tensors[norm.outputs[0]].shape
    facts: dict[str, Word] = {"label": label(recording, gradient), "count": prod(left) // left[0]}
    return finding.told(SAID, ADVICE, facts)
