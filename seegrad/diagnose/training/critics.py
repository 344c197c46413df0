"""An advantage weighs a policy's loss, and what estimates it learns by it: the critic hears of more than its target."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from seegrad.diagnose.evidence import ancestors, ran
from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.diagnose.gradients import reach
from seegrad.diagnose.training.steps import names
from seegrad.diagnose.training.targets import DIFFERENCES, HANDS_ON, LOSSES
from seegrad.model.recording import Diagnosis, Frame, Place, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word

SQUARES = frozenset({"pow", "square", "abs"})
NORMS = HANDS_ON | {"sub", "div", "mul", "neg", "mean", "std", "add"}
"""Ops that leave an advantage what it is: standardised, scaled, in another shape."""

SEVERAL = 3
"""So many differences of one line are looked at."""

TOO = DiagnosisKind("weight_learns_too", "note", marked("the weight of a loss learns too"))
LEARNS_BY_IT = marked(
    "{Culprit} computes how far {leaves} are off their target, and the loss on {weighed} is weighed by it: the "
    "backward call on {victim} trains them by both, by their own error and by that loss."
)
A_NUMBER = marked(
    "If the difference is only to be a weight there (an advantage), give that loss its `.detach()`; if both are meant "
    "to train them, leave it as it is."
)


@finder(order=18)
def find_critics(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line that takes what is estimated from what is given, where another graph is multiplied by it."""
    told, weights = set[Place | None](), _Weights(recording)
    for frame in weights.differences():
        weighed = weights.weighed(frame)
        shown = ran(recording, weighed) if weighed is not None and frame.place not in told else None
        leaves = weights.trained_otherwise(frame) if shown is not None else []
        if weighed is not None and shown is not None and leaves:
            told.add(frame.place)
            finding = Finding(
                recording=recording,
                kind=TOO,
                frame=shown.index,
                culprit=frame.place,
                victim=shown.place,
                tensor=frame.outputs[0],
            )
            facts: dict[str, Word] = {"leaves": names(recording, leaves)}
            yield finding.told(LEARNS_BY_IT, A_NUMBER, facts, weighed=finding.line(weighed.place))


class _Weights:
    """Differences between what is given and what Parameters estimate, and what is multiplied by them."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._takers: dict[int, list[Frame]] = {}
        self._errors: list[Frame] = []  # that make a loss of an estimate and a target
        for frame in recording.frames:
            if frame.running is None and frame.phase == "forward":
                self._errors += [frame] if frame.op in LOSSES else []
                for tensor in frame.inputs:
                    self._takers.setdefault(tensor, []).append(frame)

    def differences(self) -> Iterator[Frame]:
        """`R - values`: of the two only one has a graph. The first few of each line stand for all."""
        met = Counter[Place | None]()
        for frame in self._recording.frames:
            differs = frame.op in DIFFERENCES and frame.phase == "forward" and len(frame.inputs) == 2
            if differs and met[frame.place] < SEVERAL and sum(map(self._has_graph, frame.inputs)) == 1:
                met[frame.place] += 1
                yield frame

    def _has_graph(self, tensor: int) -> bool:
        ref = self._recording.tensors[tensor]
        return ref.requires_grad and not ref.is_leaf

    def _becomes(self, frame: Frame) -> Iterator[tuple[int, Frame]]:
        """(tensor, Frame that takes it): the difference, and what it is made of but for its scale and its shape."""
        waiting = list(frame.outputs)
        for tensor in waiting:  # grows while it's read
            for taker in self._takers.get(tensor, ()):
                yield tensor, taker
                others = [each for each in taker.inputs if self._has_graph(each) and each not in waiting]
                if taker.op in NORMS and not others:
                    waiting += [each for each in taker.outputs if self._has_graph(each) and each not in waiting]

    def weighed(self, frame: Frame) -> Frame | None:
        """Where something else with a graph is multiplied by the difference."""
        mine = {tensor for tensor, _ in self._becomes(frame)}
        estimate = next(each for each in frame.inputs if self._has_graph(each))
        for tensor, taker in self._becomes(frame):
            others = [each for each in taker.inputs if each != tensor and self._has_graph(each) and each not in mine]
            if taker.op == "mul" and others and estimate not in reach(self._recording, tuple(others)):
                return taker
        return None

    def trained_otherwise(self, frame: Frame) -> list[int]:
        """The Parameters of the estimate that have a loss of their own with the same target; none without one."""
        target = next(each for each in frame.inputs if not self._has_graph(each))
        estimate = next(each for each in frame.inputs if self._has_graph(each))
        leaves = {each for each in reach(self._recording, (estimate,)) if self._recording.tensors[each].parameter}
        source = self._source(target)
        own = self._is_squared(frame) or any(map(self._is_squared, self._alike(source, leaves)))
        for error in () if own else self._errors:
            targets = {self._source(each) for each in error.inputs}
            if source in targets and not leaves.isdisjoint(reach(self._recording, error.inputs)):
                own = True
        return sorted(leaves) if own else []

    def _is_squared(self, difference: Frame) -> bool:
        return any(taker.op in SQUARES for _, taker in self._becomes(difference))

    def _alike(self, source: int, leaves: set[int]) -> Iterator[Frame]:
        """The differences from the same target that were written out again: `(R - V(s)).pow(2)`."""
        for frame in self.differences():
            if any(self._source(each) == source for each in frame.inputs if not self._has_graph(each)):
                estimate = tuple(each for each in frame.inputs if self._has_graph(each))
                if not leaves.isdisjoint(reach(self._recording, estimate)):
                    yield frame

    def _source(self, tensor: int) -> int:
        return ancestors(self._recording, tensor)[-1][0]
