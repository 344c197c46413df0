"""Probabilities, straight out of a softmax or sigmoid, given to what takes logits, or to a loss of their logarithms."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from seegrad.diagnose.evidence import label, ran
from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.diagnose.numbers.known import Makers
from seegrad.model.recording import Diagnosis, Frame, Place, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word

PROBABILITIES = DiagnosisKind("loss_of_probabilities", "note", marked("the loss takes no probabilities"))

GIVEN = {
    "twice": marked(
        "{Culprit} makes probabilities, and `{loss}` on {victim} takes what it is given for logits, to which it "
        "applies `{again}` itself. Logits between 0 and 1 leave the gradient weak, and the loss far from 0."
    ),
    "logarithm": marked(
        "{Culprit} makes probabilities, and `{loss}` on {victim} takes what it is given for their logarithms: without "
        "them its gradient isn't that of a likelihood, and a probability near 0 weighs no more than others."
    ),
    "squeezed": marked(
        "{Culprit} makes probabilities, and `{loss}` on {victim} makes probabilities of them once more, as if they "
        "were logits: of numbers between 0 and 1 come such as lie close together, so the gradient is weak, and a loss "
        "stays far from 0."
    ),
}
ADVICE = {
    "twice": marked(
        "If it is meant to learn these probabilities, give it what `{op}` is given, and use `{op}` only where "
        "probabilities are read."
    ),
    "logarithm": marked(
        "If it is meant to learn these probabilities, give it their logarithms: `{logs}` of what `{op}` is given."
    ),
    "squeezed": marked("Leave one of the two out: `{op}` here or `{loss}` there."),
}

TAKES = {
    "cross_entropy": ("twice", "log_softmax"),
    "binary_cross_entropy_with_logits": ("twice", "sigmoid"),
    "multilabel_soft_margin_loss": ("twice", "logsigmoid"),
    "nll_loss": ("logarithm", ""),
    "kl_div": ("logarithm", ""),
    "log_softmax": ("twice", "softmax"),
    "softmax": ("squeezed", ""),
    "sigmoid": ("squeezed", ""),
}
"""Loss, its first half, or what makes probabilities → what is amiss where it is given some, and what it applies."""

SOFTMAXES = frozenset({"softmax", "log_softmax"})
LOGS = {"softmax": "log_softmax", "sigmoid": "F.logsigmoid"}
"""Op that makes probabilities → the one that makes their logarithms."""

SHAPED = frozenset(
    {"squeeze", "unsqueeze", "view", "reshape", "flatten", "__getitem__", "t", "transpose", "permute", "contiguous"}
    | {"clone", "to", "float", "double", "view_as", "movedim", "unflatten", "clamp", "clip", "select", "narrow"}
    | {"index_select", "masked_select", "expand"}
)
"""Ops that hand probabilities on as they are, or some of them."""

JOINED = frozenset({"cat", "stack", "concat"})
READS = frozenset({"argmax", "argsort", "max", "topk", "detach", "eq", "__eq__"})
"""Ops for which their logarithms, or logits, do as well."""

TARGET_FIRST = re.compile(r"\btarget\s*=.*\binput\s*=")
"""Code that names them the other way round."""

FARTHEST = 512
"""So many tensors are gone back through: a decoder may stack hundreds."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """A Frame that made probabilities, the Frame of the loss they were given to, and one of its backward."""

    made: Frame
    loss: Frame
    shown: Frame


@finder(order=14)
def find_probabilities(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line that makes them, with the first such loss.

    `a.sigmoid().sigmoid()` is a function as good as any, where no optimiser trains by it.
    """
    ways: _Given | None = None
    told = set[Place | None]()
    trains = any(use.kind == "stepped" for use in recording.uses)
    for frame in recording.frames:
        if frame.op not in TAKES or not frame.nodes or not frame.inputs:
            continue
        if TAKES[frame.op][0] == "squeezed" and not trains:
            continue
        ways = ways or _Given(recording)
        made = ways.source(frame)
        shown = ran(recording, frame) if made is not None and made.place not in told else None
        if made is not None and shown is not None:
            told.add(made.place)
            yield _describe(recording, Mistake(made, frame, shown), alone=ways.is_alone(made))


class _Given:
    """What probabilities are made by, and what is done with them."""

    def __init__(self, recording: Recording) -> None:
        self._recording, self._makers = recording, Makers(recording)

    def source(self, loss: Frame) -> Frame | None:
        """The Frame that made what a loss is given; None where it isn't probabilities, all of it."""
        if loss.place is not None and TARGET_FIRST.search(loss.place.code):
            return None
        found, waiting = list[Frame](), [(loss.inputs[0], loss.index - 1)]
        for tensor, until in waiting:  # grows while it's read
            made = self._makers.maker(tensor, until)
            if made is None or len(waiting) > FARTHEST or not made.inputs:
                return None
            if made.op in LOGS and made.nodes:
                found.append(made)
            elif made.op in SHAPED and self._keeps_history(made):
                waiting.append((made.inputs[0], made.index - 1))
            elif made.op in JOINED:
                waiting += [(each, made.index - 1) for each in made.inputs]
            else:
                return None
        once = len({made.place for made in found}) == 1
        by_itself = loss.op in SOFTMAXES and any(made.op != "softmax" for made in found)  # of a gate, say
        return found[0] if once and not by_itself else None

    def _keeps_history(self, made: Frame) -> bool:
        return any(self._recording.tensors[tensor].requires_grad for tensor in made.outputs)

    def is_alone(self, made: Frame) -> bool:
        """Is nothing done with all that is made there but that losses get it, or the largest is chosen?"""
        on, built = made_on(made), made.built
        frames = [frame for frame in self._recording.frames if frame.op in LOGS]
        makes = [frame for frame in frames if (frame.built == built if on == built else frame.place == made.place)]
        waiting = [tensor for frame in makes for tensor in frame.outputs]
        for tensor in waiting:  # grows while it's read
            for taker in self._makers.takers(tensor):
                if taker.op in SHAPED | JOINED:
                    waiting += [each for each in taker.outputs if each not in waiting]
                elif not (taker.op in READS or (taker.op in TAKES and taker.inputs[0] == tensor)):
                    return False
        return True


def made_on(made: Frame) -> Place | None:
    """The line to change: of a module in a container the one that builds it, since no line calls it by its name."""
    own = made.module.rpartition(".")[2]
    names = made.place is not None and re.search(rf"(?<!\w){re.escape(own)}(?!\w)", made.place.code) is not None
    return made.place if made.built is None or names else made.built


def _describe(recording: Recording, found: Mistake, *, alone: bool) -> Diagnosis:
    how, again = TAKES[found.loss.op]
    tensor = next(iter(found.made.outputs), None)
    finding = Finding(
        recording=recording,
        kind=PROBABILITIES,
        frame=found.shown.index,
        culprit=made_on(found.made),
        victim=found.loss.place,
        node=recording.nodes[found.made.nodes[0]],
        tensor=tensor,
    )
    facts: dict[str, Word] = {"how": how, "op": found.made.op, "loss": found.loss.op, "label": label(recording, tensor)}
    facts["alone"] = int(alone and (how == "twice" or found.made.op == "softmax"))
    return finding.told(GIVEN[how], ADVICE[how], facts, again=again, logs=LOGS[found.made.op])
