"""An average of weights that is written the wrong way round: into what is trained, out of what should follow it.

A pull towards weights that stay looks alike: told only where those are used in the forward, too, as a teacher's are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from seegrad.diagnose.evidence import label
from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.diagnose.numbers.known import Makers
from seegrad.diagnose.training.steps import leaf_of, leaves_of
from seegrad.model.recording import STEP, Diagnosis, Frame, GradientUse, Place, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word

EXCHANGED = DiagnosisKind("copied_onto_itself", "note", marked("an average the wrong way round"))
SAID = marked(
    "{Culprit} mixes the numbers of {source} into {label}, which the step on {victim} trains: {source}, which the "
    "forward uses, is written by nothing and stays where it began, and what is trained is drawn back to it each time."
)
ADVICE = marked(
    "If {source} is to follow what is trained, as an average, exchange the two: "
    "`average.mul_(decay).add_(trained, alpha=1 - decay)`."
)

ADDS = frozenset({"add_", "__iadd__", "lerp_", "copy_"})
SCALES = frozenset({"mul_", "__imul__"})
COMPUTES = frozenset({"mul", "add", "sub", "rmul", "radd", "rsub", "lerp", "detach", "data", "clone"})
"""What may be done with the numbers before they are written."""

HANDS_ON = frozenset({"requires_grad_", "detach", "data", "numel", "clone", "copy_"}) | COMPUTES | ADDS | SCALES
SEVERAL, FARTHEST = 2, 8


@dataclass(slots=True)
class _Mix:
    """A line's: the trained leaf, what is mixed into it, the steps that came before each time."""

    leaf: int
    source: int
    steps: set[int] = field(default_factory=set)


@finder(order=32)
def find_exchanged(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each such line."""
    steps = [use for use in recording.uses if use.kind == "stepped"]
    trained = {recording.tensors[leaf].storage: leaf for use in steps for leaf in leaves_of(use)}
    written = {write.storage for write in recording.writes}
    candidates = _frozen(recording, written) if trained.keys() & written else {}
    lines, makers = dict[Place, _Mix](), Makers(recording)
    for frame in recording.frames if candidates else ():
        found = _mixed(recording, makers, frame, trained, candidates)
        if found is not None and frame.place is not None:
            mix = lines.setdefault(frame.place, _Mix(*found))
            mix.steps.add(sum(use.frame < frame.index for use in steps))
    for place, mix in lines.items():
        if len(mix.steps - {0}) >= SEVERAL:
            yield _describe(recording, place, mix, steps)


def _describe(recording: Recording, place: Place, mix: _Mix, steps: list[GradientUse]) -> Diagnosis:
    step = next(use for use in reversed(steps) if mix.leaf in leaves_of(use))
    finding = Finding(
        recording=recording,
        kind=EXCHANGED,
        frame=step.frame,
        culprit=place,
        victim=step.place,
        tensor=mix.leaf,
    )
    facts: dict[str, Word] = {"label": label(recording, mix.leaf), "source": label(recording, mix.source)}
    return finding.told(SAID, ADVICE, facts)


def _frozen(recording: Recording, written: set[int]) -> dict[int, int]:
    """Storage → the Parameter that is never written and never gets a gradient, and that something is computed with."""
    came = {leaf_of(recording, frame) for frame in recording.frames}
    every = (each for each in recording.tensors if each.parameter and each.id not in came)
    still = {each.id: each.storage for each in every if each.storage not in written}
    uses = (frame for frame in recording.frames if frame.phase == "forward" and frame.op not in HANDS_ON)
    used = {leaf for frame in uses for leaf in frame.inputs if leaf in still}
    return {still[leaf]: leaf for leaf in used}


def _mixed(
    recording: Recording, makers: Makers, frame: Frame, trained: dict[int, int], candidates: dict[int, int]
) -> tuple[int, int] | None:
    """(trained leaf, what is mixed into it) where a Frame does that to all of its numbers."""
    if frame.op not in ADDS or len(frame.inputs) < 2 or not frame.writes:
        return None
    tensors, target = recording.tensors, recording.tensors[frame.inputs[0]]
    came = _storages(recording, makers, frame.inputs[1], frame.index - 1)
    leaf = trained.get(target.storage)
    sources = came & candidates.keys()
    if leaf is None or len(sources) != 1 or not came <= {target.storage, *sources}:
        return None
    source = candidates[sources.pop()]
    return (
        (leaf, source)
        if tensors[source].shape == target.shape and _keeps(makers, frame, came, target.storage)
        else None
    )


def _keeps(makers: Makers, frame: Frame, came: set[int], storage: int) -> bool:
    """Does a part of the old numbers stay: scaled on the same line, or among what is written?"""
    before = makers.maker(frame.inputs[0], frame.index - 1)
    scaled = before is not None and before.op in SCALES and before.place == frame.place
    return frame.op == "lerp_" or storage in came or scaled


def _storages(recording: Recording, makers: Makers, tensor: int, until: int) -> set[int]:
    """The memory of the Parameters that a tensor is computed of, at most scaled and added; -1 for anything else."""
    waiting, found = [(tensor, until)], set[int]()
    for number, before in waiting:  # grows while it's read
        ref = recording.tensors[number]
        made = makers.maker(number, before)
        if (
            made is None
            or ref.parameter
            or made.op == STEP
            or made.op in ADDS | SCALES
            or made.op in ("detach", "data")
        ):
            found.add(ref.storage)
        elif made.op in COMPUTES and made.inputs and len(waiting) < FARTHEST:
            waiting += [(each, made.index - 1) for each in made.inputs]
        else:
            found.add(-1)
    return found
