"""A sum over the whole batch where each sample was to keep its own number: it counts once for every sample."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from seegrad.diagnose.cut import roots_of
from seegrad.diagnose.evidence import label
from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.diagnose.gradients import reach
from seegrad.diagnose.numbers.constant import backward_only
from seegrad.diagnose.numbers.known import Makers
from seegrad.diagnose.numbers.shapes import NUMBERWISE, TOTALS, said
from seegrad.model.recording import Diagnosis, Frame, Place, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word

SUMMED = DiagnosisKind("summed_over_samples", "note", marked("summed over all samples"))

MET = marked(
    "{Culprit} adds up all {count} numbers of {label}, one for each sample, and joins the sum with {other}, which "
    "still has one number a sample: in the mean that follows, each of the {count} samples takes the whole sum with it."
)
KEEP_EACH = marked("If each sample is to have its own, join {label} as it is: leave the sum over samples to the mean.")
LEFT_OVER = marked(
    "{Culprit} adds up all numbers of {label}, the samples too, and {mean} then takes the mean of that one number, "
    "which changes nothing: this term counts as many times as there are samples."
)
GIVE_DIMENSION = marked(
    "If the mean is to go over the samples, add up along the other dimensions alone: `.sum(dim=-1)`, "
    "`.flatten(1).sum(1)`."
)
MASKED = marked(
    "{Culprit} adds up all numbers of {label}, which is {shape}, and {masks} multiplies the sum with {mask}, which is "
    "{places} and says of each place whether it counts: each place that does takes the whole sum with it, of those "
    "that don't as well, and what is added up next holds that sum once for each."
)
SUM_EACH = marked(
    "If each place is to have its own, add up before {masks} only what one place has: `.sum(dim={dims})`, and the "
    "places after it."
)
SUM_LATER = marked("If each place is to have its own, multiply {label} as it is, and add up after that.")

WEIGHED = marked(
    "{Culprit} makes one number of all {count} samples, and {weighs} multiplies it with {weights}, which has a number "
    "for each of them: no sample meets its own, and the result is that one number times all of {weights} together."
)
WEIGH_EACH = marked(
    "If each sample is to count by its own, multiply first: leave one number a sample there (no mean yet, of a "
    'criterion `reduction="none"`), and take the mean of the products.'
)

JOINS = frozenset({"add", "sub", "rsub", "radd", "__add__", "__sub__"})
MASKS = frozenset({"mul", "__mul__"})
CASTS = frozenset({"float", "to", "type_as", "double", "half", "int", "long", "squeeze", "unsqueeze", "__getitem__"})
"""Ops between what says yes or no and the mask of zeros and ones."""

PYTHON_S_SUM = re.compile(r"(?<![\w.])sum\(\s*[\w.]+(?:\([^()]*\))?\s*\)")
"""Python's own `sum(log_det)` of one tensor, which adds up along its first dimension."""

CRITERIA = frozenset({"cross_entropy", "nll_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"})
CRITERIA |= {"binary_cross_entropy", "binary_cross_entropy_with_logits", "poisson_nll_loss", "gaussian_nll_loss"}
"""Ops that take the mean over samples by themselves."""

ALONG = re.compile(r"\bmean\(.*\b(?:dim|axis)\s*=|\.mean\(\s*(?:\[\s*)?-?\d")
"""A mean that says along which dimension: whoever writes that has more than one number in mind."""

FARTHEST = 32
"""So many tensors on, a way is followed."""


@dataclass(frozen=True, slots=True)
class _Total:
    """One number of all of a tensor's: what was added up, by which Frame in the end."""

    made: Frame
    of: int


@finder(order=34)
def find_summed_over_samples(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line that makes such a sum."""
    makers, told, lost = Makers(recording), set[Place | None](), _behind_losses(recording)
    for frame in recording.frames:
        forgotten = not frame.inputs or not frame.outputs  # of a long program some Frames keep their lines alone
        if frame.phase != "forward" or frame.place is None or forgotten or not lost.issuperset(frame.outputs):
            continue
        if frame.op == "mean" and not recording.tensors[frame.inputs[0]].shape and ALONG.search(frame.place.code):
            total = _total(recording, makers, frame.inputs[0], frame)
            if total is not None and len(recording.tensors[total.of].shape) > 1 and total.made.place not in told:
                told.add(total.made.place)
                yield _describe(recording, total, frame, None)
        elif frame.op in JOINS and len(frame.inputs) == 2:
            met = _met(recording, makers, frame)
            if met is not None and met[0].made.place not in told and _is_averaged(recording, makers, frame):
                told.add(met[0].made.place)
                yield _describe(recording, met[0], frame, met[1])
        elif frame.op in MASKS and len(frame.inputs) == 2:
            masked = _masked(recording, makers, frame)
            if masked is not None and masked[0].made.place not in told and _is_averaged(recording, makers, frame):
                told.add(masked[0].made.place)
                yield _describe_masked(recording, masked[0], frame, masked[1])
            weighed = _weighed(recording, makers, frame) if masked is None else None
            if weighed is not None and weighed[0].place not in told and _is_averaged(recording, makers, frame):
                told.add(weighed[0].place)
                yield _describe_weighed(recording, weighed[0], frame, weighed[1])


def _behind_losses(recording: Recording) -> set[int]:
    """All that the last backward call of each line went back through."""
    lines = {frames[0].place: frames[0] for frames in backward_only(recording)}
    return {each for first in lines.values() for each in reach(recording, roots_of(recording, first))}


def _total(recording: Recording, makers: Makers, tensor: int, before: Frame) -> _Total | None:
    """By one `sum` of all that has a number a sample, or by Python's; a weight in between changes nothing."""
    for made in _way_back(recording, makers, tensor, before):
        if made.op == "sum" and recording.tensors[made.inputs[0]].shape:
            return _Total(made, made.inputs[0])
        if made.op == "add" and made.place is not None and PYTHON_S_SUM.search(made.place.code):
            return _by_python(makers, made)
    return None


def _way_back(recording: Recording, makers: Makers, tensor: int, before: Frame) -> Iterator[Frame]:
    """What made a single number, and behind what only multiplied that with another single one, what made it."""
    tensors = recording.tensors
    for _ in range(FARTHEST):
        made = makers.maker(tensor, before.index - 1)
        if made is None or made.phase != "forward" or not made.inputs:
            return
        yield made
        graph = [each for each in made.inputs if tensors[each].requires_grad]
        if made.op not in ("mul", "neg", "div", "rmul") or len(graph) != 1 or tensors[graph[0]].shape:
            return
        tensor, before = graph[0], made


def _by_python(makers: Makers, last: Frame) -> _Total | None:
    """The tensor that Python took apart on that line."""
    numbers = makers.maker(last.inputs[-1], last.index - 1)
    if numbers is None or numbers.op != "unbind" or numbers.place != last.place or not numbers.inputs:
        return None
    return _Total(last, numbers.inputs[0])


def _met(recording: Recording, makers: Makers, frame: Frame) -> tuple[_Total, int] | None:
    """The sum of a tensor of shape `(n,)` in a call that joins it with another one of that shape."""
    tensors = recording.tensors
    single = [each for each in frame.inputs if not tensors[each].shape]
    others = [each for each in frame.inputs if len(tensors[each].shape) == 1 and tensors[each].requires_grad]
    if len(single) != 1 or len(others) != 1 or tensors[others[0]].is_leaf:
        return None
    total = _total(recording, makers, single[0], frame)
    if total is None or tensors[total.of].is_leaf or tensors[total.of].shape != tensors[others[0]].shape:
        return None
    return (total, others[0]) if tensors[others[0]].shape[0] > 1 else None


def _masked(recording: Recording, makers: Makers, frame: Frame) -> tuple[_Total, int] | None:
    """The sum over all of what has numbers at each place, in a call that multiplies it with a mask of the places."""
    tensors = recording.tensors
    single = [each for each in frame.inputs if not tensors[each].shape and tensors[each].requires_grad]
    masks = [each for each in frame.inputs if tensors[each].shape and not tensors[each].requires_grad]
    if len(single) != 1 or len(masks) != 1 or not _says_which(recording, makers, masks[0], frame.index - 1):
        return None
    total, places = _total(recording, makers, single[0], frame), tensors[masks[0]].shape
    if total is None or tensors[total.of].is_leaf or max(places) < 2:
        return None
    return (total, masks[0]) if tensors[total.of].shape[: len(places)] == places else None


def _weighed(recording: Recording, makers: Makers, frame: Frame) -> tuple[Frame, int] | None:
    """The line that makes one number of all samples, in a call that multiplies it with given numbers, one for each."""
    tensors = recording.tensors
    single = [each for each in frame.inputs if not tensors[each].shape and tensors[each].requires_grad]
    given = [each for each in frame.inputs if tensors[each].shape and not tensors[each].requires_grad]
    if len(single) != 1 or len(given) != 1:
        return None
    many = tensors[given[0]].shape
    for made in _way_back(recording, makers, single[0], frame) if prod(many) == many[0] > 1 else ():
        of = tensors[made.inputs[0]]
        alone = made.op in ("sum", "mean") and prod(of.shape) == many[0]
        if of.shape[:1] == many[:1] and not of.is_leaf and (alone or made.op in CRITERIA):
            return made, given[0]
    return None


def _says_which(recording: Recording, makers: Makers, tensor: int, until: int) -> bool:
    """Was it made of yes and no?"""
    for _ in range(FARTHEST):
        if recording.tensors[tensor].dtype == "bool":
            return True
        made = makers.maker(tensor, until)
        if made is None or made.op not in CASTS or made.writes or not made.inputs:
            return False
        tensor, until = made.inputs[0], made.index - 1
    return False


def _finding(recording: Recording, total: _Total, shown: Frame) -> Finding:
    return Finding(
        recording=recording,
        kind=SUMMED,
        frame=shown.index,
        culprit=total.made.place,
        victim=shown.place,
        tensor=total.of,
    )


def _describe_masked(recording: Recording, total: _Total, shown: Frame, mask: int) -> Diagnosis:
    shape, places = recording.tensors[total.of].shape, recording.tensors[mask].shape
    finding = _finding(recording, total, shown)
    facts: dict[str, Word] = {"label": label(recording, total.of), "mask": label(recording, mask)}
    rest = range(len(places) - len(shape), 0)
    dims = str(rest[0]) if len(rest) == 1 else str(tuple(rest))
    words: dict[str, Word] = {"shape": said(shape), "places": said(places), "masks": finding.line(shown.place)}
    return finding.told(MASKED, SUM_EACH if rest else SUM_LATER, facts, dims=dims, **words)


def _describe_weighed(recording: Recording, made: Frame, shown: Frame, weights: int) -> Diagnosis:
    finding = _finding(recording, _Total(made, made.inputs[0]), shown)
    facts: dict[str, Word] = {"weights": label(recording, weights), "count": recording.tensors[weights].shape[0]}
    return finding.told(WEIGHED, WEIGH_EACH, facts, weighs=finding.line(shown.place))


def _is_averaged(recording: Recording, makers: Makers, frame: Frame) -> bool:
    """Does the mean, or the sum, of the joined numbers come next?"""
    waiting = list(frame.outputs)
    for tensor in waiting:  # grows while it's read
        for taker in makers.takers(tensor) if len(waiting) < FARTHEST else ():
            if taker.op in TOTALS and all(not recording.tensors[each].shape for each in taker.outputs):
                return True
            waiting += [each for each in taker.outputs if taker.op in NUMBERWISE and each not in waiting]
    return False


def _describe(recording: Recording, total: _Total, shown: Frame, other: int | None) -> Diagnosis:
    finding = _finding(recording, total, shown)
    facts: dict[str, Word] = {"label": label(recording, total.of), "count": recording.tensors[total.of].shape[0]}
    if other is None:
        return finding.told(LEFT_OVER, GIVE_DIMENSION, facts, mean=finding.line(shown.place))
    return finding.told(MET, KEEP_EACH, facts, other=label(recording, other))
