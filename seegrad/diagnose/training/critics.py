"""What weighs a policy's loss learns by it: an advantage, whose critic hears of more than its target; a reward.

The slope of an expected reward is the logarithm's, weighed by the reward, and the reward's own: a product of the two
with both their histories is neither.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from math import prod

from seegrad.diagnose.evidence import ancestors, label, ran
from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.diagnose.gradients import reach
from seegrad.diagnose.numbers.known import Makers
from seegrad.diagnose.training.steps import leaves_of, names
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
    """A note for each line that takes what is estimated from what is given, where another graph is multiplied by it.

    And for each that multiplies the logarithm of a draw by what learns, where that isn't told already.
    """
    told, weights, products = set[Place | None](), _Weights(recording), set[Place | None]()
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
            products.add(weighed.place)
            yield finding.told(LEARNS_BY_IT, A_NUMBER, facts, weighed=finding.line(weighed.place))
    yield from _rewards(recording, products)


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


# -- a reward that weighs the logarithm of what was drawn

DRAWS = frozenset({"multinomial", "normal", "bernoulli"})
CHOOSES = frozenset({"gather", "__getitem__", "take_along_dim", "index_select"})
"""Ops that take what was drawn as an index: a logarithm goes in, or is taken of what comes out."""

SCORES = CHOOSES | {"sub", "binary_cross_entropy_with_logits", "nll_loss", "cross_entropy"}
"""Ops by which what was drawn meets what it was drawn by."""

LOGARITHMS = frozenset({"log", "log_softmax", "logsumexp", "logsigmoid"})
GOES_ON = NORMS | LOGARITHMS | {"pow", "sum", "clamp", "long", "T", "broadcast_tensors"}
"""Ops by which the logarithm stays what it is, or comes to be."""

PRODUCTS = frozenset({"mul", "rmul", "__imul__"})
FARTHEST = 256
"""So many tensors are followed from a draw."""

SCORED = marked(
    "{Culprit} multiplies the logarithm of how likely a draw was by {weight}, which has a history of its own: the "
    "backward call on {victim} goes through both, and changes {leaves} by how likely the draw was, not by what it led "
    "to."
)
WITHOUT_HISTORY = marked(
    "If {weight} is only to be a weight there (a reward, an advantage: REINFORCE), multiply by its `.detach()`; what "
    "is to learn from it gets a term of its own, without the logarithm."
)


def _rewards(recording: Recording, told: set[Place | None]) -> Iterator[Diagnosis]:
    """A note for each line that multiplies so, where a step uses what comes to the other Parameters by it."""
    scores = _Scores(recording)
    for product, weight, policy in scores.weighed():
        shown = ran(recording, product) if product.place not in told else None
        leaves = scores.others(weight, policy) if shown is not None and shown.op != "grad" else set()
        if shown is not None and scores.are_stepped(leaves, shown):
            told.add(product.place)
            finding = Finding(
                recording=recording,
                kind=TOO,
                frame=shown.index,
                culprit=product.place,
                victim=shown.place,
                tensor=weight,
            )
            spoken_of = label(recording, scores.spoken_of(weight, product.index - 1))
            facts: dict[str, Word] = {"leaves": names(recording, sorted(leaves)), "weight": spoken_of}
            yield finding.told(SCORED, WITHOUT_HISTORY, facts)


class _Scores:
    """The logarithms of what was drawn, and what they are multiplied by."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._makers = Makers(recording)

    def weighed(self) -> Iterator[tuple[Frame, int, set[int]]]:
        """(product, what the logarithm is multiplied by, the policy's Parameters)."""
        met = Counter[Place | None]()
        for drawing in self._recording.frames:
            if drawing.op in DRAWS and drawing.phase == "forward" and met[drawing.place] < SEVERAL:
                met[drawing.place] += 1
                given = [number for each in drawing.inputs for number, _ in ancestors(self._recording, each)]
                policy = self._parameters(given)  # a view, made with gradients off, of what has a history
                for score in self._scores(drawing, policy) if policy else ():
                    yield from ((*each, policy) for each in self._products(score, policy))

    def others(self, weight: int, policy: set[int]) -> set[int]:
        """The Parameters of a net behind the weight that the draw wasn't made by."""
        found = self._parameters((weight,)) - policy
        return found if any(prod(self._recording.tensors[each].shape) > 1 for each in found) else set()

    def are_stepped(self, leaves: set[int], shown: Frame) -> bool:
        """Does a step use what came to them, which nobody has cleared?"""
        after = (use for use in self._recording.uses if use.frame >= shown.index and use.kind in ("stepped", "cleared"))
        first = next((use for use in after if not leaves.isdisjoint(leaves_of(use))), None)
        return first is not None and first.kind == "stepped"

    def spoken_of(self, weight: int, until: int) -> int:
        """What a weight without a name is but for its scale and its shape."""
        made = self._makers.maker(weight, until)
        while self._recording.tensors[weight].name is None and made is not None and made.op in NORMS:
            graph = self._graph(made)
            if len(graph) != 1:
                break
            weight, made = graph[0], self._makers.maker(graph[0], made.index - 1)
        return weight

    def _parameters(self, tensors: Sequence[int]) -> set[int]:
        refs = self._recording.tensors
        with_graph = tuple(each for each in tensors if refs[each].requires_grad)
        return {each for each in reach(self._recording, with_graph) if refs[each].parameter} if with_graph else set()

    def _graph(self, frame: Frame) -> list[int]:
        """What it is given that has a history."""
        refs = self._recording.tensors
        return [each for each in frame.inputs if refs[each].requires_grad and not refs[each].is_leaf]

    def _scores(self, drawing: Frame, policy: set[int]) -> Iterator[Frame]:
        """Where the numbers that were drawn, in whichever shape, meet a result of the same Parameters."""
        waiting = list(drawing.outputs)
        for tensor in waiting:  # grows while it's read
            takers = self._makers.takers(tensor) if len(waiting) < FARTHEST else ()
            for taker in (each for each in takers if each.index > drawing.index):
                graph = self._graph(taker)
                if taker.op in SCORES and len(graph) == 1 and self._parameters(graph) == policy:
                    yield taker
                elif taker.op in GOES_ON and (not graph or taker.op == "broadcast_tensors"):
                    waiting += [each for each in taker.outputs if each not in (*waiting, *graph)]

    def _products(self, score: Frame, policy: set[int]) -> Iterator[tuple[Frame, int]]:
        """Where its logarithm is multiplied by what other Parameters have made, which isn't made of it."""
        waiting = dict.fromkeys(score.outputs, score.op not in CHOOSES or self._is_logarithm(score))
        read = list(waiting)
        for tensor in read:  # grows while it's read
            takers = self._makers.takers(tensor) if len(read) < FARTHEST else ()
            for taker in (each for each in takers if each.index > score.index):
                others = [each for each in self._graph(taker) if each not in waiting]
                if self._parameters(others) <= policy:
                    fresh = [each for each in taker.outputs if each not in waiting and taker.op in GOES_ON]
                    waiting |= dict.fromkeys(fresh, waiting[tensor] or taker.op in LOGARITHMS)
                    read += fresh
                elif taker.op in PRODUCTS and waiting[tensor] and len(others) == 1:
                    is_apart = waiting.keys().isdisjoint(reach(self._recording, (others[0],)))
                    yield from [(taker, others[0])] if is_apart else ()

    def _is_logarithm(self, score: Frame) -> bool:
        """Is a logarithm what the draw chooses from: made by one, or less the logarithm of a sum?"""
        for tensor in self._graph(score):
            made = self._makers.maker(tensor, score.index - 1)
            while made is not None and made.op in HANDS_ON | {"broadcast_tensors"} and len(self._graph(made)) == 1:
                made = self._makers.maker(self._graph(made)[0], made.index - 1)
            before = [] if made is None else [self._makers.maker(each, made.index - 1) for each in made.inputs]
            ops = {each.op for each in (made, *before) if each is not None}
            return not LOGARITHMS.isdisjoint(ops)
        return False
