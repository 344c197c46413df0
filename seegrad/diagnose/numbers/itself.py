"""A result is taken from the same one, computed twice: the difference is 0, and so is all that it passes back."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from seegrad.diagnose.evidence import called, is_trained, made_at
from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.diagnose.gradients import reach
from seegrad.diagnose.numbers.known import Makers
from seegrad.diagnose.training.steps import names
from seegrad.model.recording import Diagnosis, Frame, Place, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word

ITSELF = DiagnosisKind("compared_with_itself", "note", marked("compared with itself"))
TWICE = marked(
    "{Culprit} computes over again, of the same numbers with the same Parameters, what {victim} takes it from: their "
    "difference is 0 there whatever the numbers are, and what it passes back to {leaves} by one of the two it takes "
    "away by the other."
)
KEEP_OLD = marked(
    "If one of the two is meant as it was before (an old policy, a reference), take its `.detach()`, or compute it "
    "under `with torch.no_grad():`, before the Parameters move or with a copy of them."
)

DIFFERENCES = frozenset({"sub", "rsub", "__sub__"})
DRAWS = frozenset(
    {"dropout", "bernoulli", "multinomial", "normal", "rrelu", "feature_dropout", "alpha_dropout"}
    | {"rand", "randn", "rand_like", "randn_like", "randint", "randperm", "poisson", "gumbel_softmax"}
    | {"uniform_", "normal_", "bernoulli_", "exponential_", "scaled_dot_product_attention"}
)
"""Ops that may answer differently each time."""

PARTS = frozenset({"__getitem__", "select", "narrow", "roll", "flip", "split", "chunk", "unbind"})
"""Ops that take this part or that, which nobody wrote down."""

OLD = re.compile(r"(?:^|_|\.)(?:old|prev|previous|ref|reference|before|last|target|behavio(?:u)?r)(?:$|_)")
FARTHEST = 400
"""Pairs that are compared at most."""

SEVERAL = 2
"""Differences of one line that are looked at."""


@finder(order=18)
def find_itself(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line that takes such a difference, where a backward goes through it."""
    makers, met, told = Makers(recording), Counter[Place | None](), set[Place | None]()
    ran = {frame.running: frame for frame in reversed(recording.frames) if frame.running is not None}
    for frame in recording.frames:
        if frame.op not in DIFFERENCES or len(set(frame.inputs)) != 2 or met[frame.place] == SEVERAL:
            continue
        met[frame.place] += 1
        shown = next((ran[node] for node in frame.nodes if node in ran), None)
        if shown is None or frame.place in told or not _same(recording, makers, frame):
            continue
        told.add(frame.place)
        old = next((each for each in frame.inputs if OLD.search(called(recording, each) or "")), frame.inputs[1])
        leaves = sorted(each for each in reach(recording, frame.inputs) if recording.tensors[each].parameter)
        finding = Finding(
            recording=recording,
            kind=ITSELF,
            frame=shown.index,
            culprit=set_at(recording, old, frame) or made_at(recording, old),
            victim=frame.place,
            tensor=old,
        )
        facts: dict[str, Word] = {"leaves": names(recording, leaves)}
        yield finding.told(TWICE, KEEP_OLD, facts)


def set_at(recording: Recording, tensor: int, taker: Frame) -> Place | None:
    """The line of the taker's function that gave the variable its value, where a call of the user's made it."""
    name, place, made = called(recording, tensor), taker.place, made_at(recording, tensor)
    if name is None or place is None or made is None or place.file != recording.code_file:
        return None
    sets = re.compile(rf"\s*(?:[\w.]+\s*,\s*)*{re.escape(name)}(?:\s*,\s*[\w.]+)*\s*=(?!=)")
    above = [each for each in recording.code if each[0] < place.line and sets.match(each[1])]
    return Place(place.file, above[-1][0], above[-1][1].strip()) if above else None


def _same(recording: Recording, makers: Makers, taker: Frame) -> bool:
    """Has one module run twice on the same tensors, and the same ops on what it gave? None of them by chance."""
    waiting = [(*taker.inputs, taker.index - 1, taker.index - 1)]
    seen, ran_twice, leads_to_leaf = set[tuple[int, int]](), False, False
    for one, other, until, until_other in waiting:  # grows while it's read
        if one == other or (one, other) in seen:
            leads_to_leaf |= is_trained(recording, one)
            continue
        seen.add((one, other))
        first, second = makers.maker(one, until), makers.maker(other, until_other)
        if first is None or second is None or len(seen) > FARTHEST or not _alike(first, second, one, other):
            return False
        ran_twice |= bool(first.module)
        waiting += [(a, b, first.index - 1, second.index - 1) for a, b in zip(first.inputs, second.inputs, strict=True)]
    return ran_twice and leads_to_leaf


def _alike(first: Frame, second: Frame, one: int, other: int) -> bool:
    """Two Frames in which the same was done, as far as it was written down: not which part of a tensor was taken."""
    if first is second or not first.inputs or one not in first.outputs or other not in second.outputs:
        return False
    same = (first.op, len(first.inputs), first.module, first.outputs.index(one)) == (
        second.op,
        len(second.inputs),
        second.module,
        second.outputs.index(other),
    )
    return same and (bool(first.module) or first.op not in PARTS) and first.op not in DRAWS
