"""A ratio to an old policy that isn't old: both are computed of the same Parameters, with no step in between."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from seegrad.diagnose.cut import is_elsewhere
from seegrad.diagnose.evidence import label
from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.diagnose.numbers.known import Makers
from seegrad.diagnose.training.freezes import steps
from seegrad.diagnose.training.steps import leaves_of
from seegrad.model.recording import Diagnosis, Frame, Place, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word

DIFFERENCES, RATIOS = frozenset({"sub", "rsub"}), frozenset({"div", "true_divide", "truediv"})
ALIASES = frozenset({"detach", "data", "clone"})
"""Ops by which the numbers stay what they are."""

RANDOM = frozenset({
    "dropout", "alpha_dropout", "feature_alpha_dropout", "dropout1d", "dropout2d", "dropout3d", "bernoulli", "normal",
    "multinomial", "poisson", "rand", "randn", "randint", "rand_like", "randn_like", "rrelu",
    "scaled_dot_product_attention",
})  # fmt: skip
"""Ops that give other numbers, or may do so, when they run again."""

PLAIN = frozenset({
    "linear", "matmul", "mm", "addmm", "conv1d", "conv2d", "embedding", "relu", "tanh", "sigmoid", "gelu", "silu",
    "elu", "softplus", "exp", "log", "log1p", "neg", "softmax", "log_softmax", "logsumexp", "layer_norm", "squeeze",
    "unsqueeze", "flatten", "view", "reshape", "gather", "sum", "mean", "expand", "expand_as",
    "broadcast_tensors", "long", "float", "isfinite",
})  # fmt: skip
"""Ops that give the same numbers of the same tensors, by whatever else they are asked with here."""

TWO = frozenset({"add", "sub", "rsub", "mul", "div", "true_divide", "pow", "__getitem__", "getitem"})
"""Ops that give the same numbers where both operands are tensors; else the other is a number that isn't known."""

COMPUTES = re.compile(r"[-+*/[]|\b(?:add|sub|mul|div|pow)\(")
"""Such an op on a line itself; on one without, a function of torch's does it, always by the same number."""

SEVERAL = 2
"""In so many steps it has to be so: in the first one the old policy is the new one."""

ONE = DiagnosisKind("ratio_is_one", "note", marked("the ratio is always 1"))
SAME_POLICY = marked(
    "{Culprit} computes {old} anew for each step, of the same numbers and the same Parameters as what it is compared "
    "with on {victim}: no step lies in between, so the ratio of the two is always 1."
)
CANCELS = marked(
    "{Culprit} computes {old} anew for each step, of the same numbers and the same Parameters as what it is compared "
    "with on {victim}, and with its graph: the ratio of the two is always 1, and what comes back by the one cancels "
    "what comes back by the other."
)
ONCE = marked(
    "If it is meant to be what the policy was before these steps (PPO), compute it once, before their loop, or keep it "
    "from when the actions were drawn."
)


@finder(order=18)
def find_ratios(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line on which the two were equal before each step, several steps long, with the same data."""
    found: dict[Place | None, list[_Pair | None]] = {}
    pairs = _Pairs(recording)
    for frame in pairs.compared():
        found.setdefault(frame.place, []).append(pairs.equal(frame))
    for each in found.values():
        equal = [pair for pair in each if pair is not None]
        same = pairs.cancelling(equal) or pairs.same_data(equal) if len(equal) == len(each) else []
        for pair in same[-1:]:
            finding = Finding(
                recording=recording,
                kind=ONE,
                frame=pair.frame.index,
                culprit=pair.place,
                victim=pair.frame.place,
                tensor=pair.old,
            )
            facts: dict[str, Word] = {"old": label(recording, pair.old)}
            yield finding.told(CANCELS if pair.both else SAME_POLICY, ONCE, facts)


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two results that are compared in `frame`, after the step of number `lap`, and what both are computed of."""

    frame: Frame
    old: int
    place: Place | None
    lap: int
    sources: frozenset[int]
    both: bool  # have a graph


@dataclass(frozen=True, slots=True)
class _Way:
    """How a tensor was computed since the last step: in which Frames, of what."""

    frames: frozenset[int]
    sources: frozenset[int]
    trained: frozenset[int]  # the Frames that were given a Parameter


class _Pairs:
    """What is compared by a ratio, one of the two with a graph and one without."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._steps = [step.frame for step in steps(recording)]
        self._held = {leaf for step in steps(recording) for leaf in leaves_of(step)}

    @cached_property
    def _makers(self) -> Makers:
        return Makers(self._recording)

    @cached_property
    def _exponents(self) -> set[int]:
        return {tensor for frame in self._recording.frames if frame.op == "exp" for tensor in frame.inputs}

    def compared(self) -> Iterator[Frame]:
        """`exp(new - old)`, `new / old`: what is old has no graph, or both have one."""
        for frame in self._recording.frames if len(self._steps) >= SEVERAL else ():
            graph = sum(self._recording.tensors[tensor].requires_grad for tensor in frame.inputs)
            if frame.phase == "forward" and len(frame.inputs) == 2 and graph:
                differs = frame.op in DIFFERENCES and not self._exponents.isdisjoint(frame.outputs)
                if differs or frame.op in RATIOS:
                    yield frame

    def equal(self, frame: Frame) -> _Pair | None:
        """Are the two computed apart, by the same ops, of the same, since the step before?"""
        laps = [step for step in self._steps if step < frame.index]
        since, refs = laps[-1] if laps else -1, self._recording.tensors
        new, old = sorted(frame.inputs, key=lambda tensor: not refs[tensor].requires_grad)  # stable: `new - old`
        made = self._makers.maker(old, frame.index - 1)
        if made is None or made.index <= since:
            return None
        before = self._way(old, frame.index - 1, since)
        after = self._way(new, frame.index - 1, since) if before.trained else before
        apart = bool(before.trained - after.trained) and bool(after.trained - before.trained)
        ops = self._ops(before.frames - after.frames)
        alike = ops == self._ops(after.frames - before.frames) and before.sources == after.sources
        if not apart or not alike or not RANDOM.isdisjoint(ops):
            return None
        both = refs[old].requires_grad
        if both and not all(map(self._is_plain, before.frames ^ after.frames)):
            return None
        place = made.off if is_elsewhere(self._recording, made) else made.place
        return _Pair(frame, old, place, len(laps), before.sources, both)

    def _is_plain(self, index: int) -> bool:
        """Does it give the same whenever it's given the same tensors: no index, no factor that may be another?"""
        frame = self._recording.frames[index]
        if frame.op in PLAIN | ALIASES:
            return True
        own = frame.place is None or COMPUTES.search(frame.place.code) is not None
        return frame.op in TWO and (len(frame.inputs) == 2 or not own)

    def _way(self, tensor: int, until: int, since: int) -> _Way:
        waiting = [(tensor, until)]
        sources, trained, met = set[int](), set[int](), set[int]()
        while waiting:
            number, before = waiting.pop()
            made = self._makers.maker(number, before)
            if number in self._held or made is None or made.index <= since or made.phase == "backward":
                sources.add(number)
            elif number in made.inputs and not made.writes:  # an op that hands back what it was given
                waiting.append((number, made.index - 1))
            elif made.index not in met:
                met.add(made.index)
                trained |= {made.index} if not self._held.isdisjoint(made.inputs) else set()
                waiting += [(each, made.index - 1) for each in made.inputs]
        return _Way(frozenset(met), frozenset(sources), frozenset(trained))

    def _ops(self, frames: frozenset[int]) -> Counter[str]:
        return Counter(op for index in frames if (op := self._recording.frames[index].op) not in ALIASES)

    def cancelling(self, pairs: list[_Pair]) -> list[_Pair]:
        """All of them where both have a graph, several steps long: with whichever data, nothing comes back."""
        several = len({pair.lap for pair in pairs}) >= SEVERAL
        return pairs if several and all(pair.both for pair in pairs) else []

    def same_data(self, pairs: list[_Pair]) -> list[_Pair]:
        """Those of several steps that are computed of the same tensors, which nobody but a step has written between."""
        refs, groups = self._recording.tensors, dict[frozenset[int], list[_Pair]]()
        for pair in pairs:
            groups.setdefault(pair.sources - self._held, []).append(pair)
        for sources, group in groups.items():
            storages = {refs[tensor].storage for tensor in sources}
            since = range(group[0].frame.index, group[-1].frame.index)
            written = any(write.storage in storages and write.frame in since for write in self._recording.writes)
            if sources and len({pair.lap for pair in group}) >= SEVERAL and not written:
                return group
        return []
