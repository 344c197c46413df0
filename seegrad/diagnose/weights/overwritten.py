"""Steps whose numbers are overwritten before anything reads them: by a snapshot that stays as it is, by a new start."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from seegrad.diagnose.evidence import RESETS
from seegrad.diagnose.finding import Finding, finder
from seegrad.diagnose.training.copies import DROPPED
from seegrad.diagnose.training.steps import leaves_of, names
from seegrad.model.recording import STEP, Diagnosis, Frame, Place, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word

UNDONE = marked(
    "{Culprit} writes the same numbers into {leaves} each time, over those that the step on {victim} has just written "
    "and that nothing has read: that step is undone."
)
ANEW = marked(
    "{Culprit} writes new numbers into {leaves} each time, over those that the step on {victim} has just written and "
    "that nothing has read: that step is undone."
)
ONCE = marked(
    "If they are to go on learning, do that once, before the loop, or only where it is wanted; if each round is to "
    "begin anew, read what was learned first."
)

SEVERAL = 2
"""Times that all which a step has written is overwritten."""


@dataclass(slots=True)
class _Line:
    """What a line has overwritten: leaf → times, and the storage that it copied from."""

    times: dict[int, int] = field(default_factory=dict)
    sources: dict[int, int] = field(default_factory=dict)
    copies: bool = False


@finder(order=27)
def find_overwritten(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line that overwrites, twice or more, all that an optimiser holds, right behind its step."""
    steps = [use for use in recording.uses if use.kind == "stepped"]
    lines = _overwriting(recording, {leaf for use in steps for leaf in leaves_of(use)}) if steps else {}
    for place, line in lines.items():
        leaves = sorted(leaf for leaf, times in line.times.items() if times >= SEVERAL)
        step = next((use for use in steps if use.tensors and leaves_of(use) <= set(leaves)), None)
        if step is not None:
            finding = Finding(
                recording=recording,
                kind=DROPPED,
                frame=step.frame,
                culprit=place,
                victim=step.place,
                tensor=leaves[0],
            )
            facts: dict[str, Word] = {"how": "overwritten", "leaves": names(recording, leaves)}
            yield finding.told(UNDONE if line.copies else ANEW, ONCE, facts)


def _overwriting(recording: Recording, held: set[int]) -> dict[Place, _Line]:
    """The lines that write whole leaves over what a step wrote there, unread."""
    whole = {recording.tensors[leaf].storage: leaf for leaf in held if recording.tensors[leaf].parameter}
    fresh, lines = set[int](), dict[Place, _Line]()
    for frame in recording.frames:
        wrote = {recording.writes[each].storage for each in frame.writes}
        if frame.op == STEP:
            fresh |= wrote & whole.keys()
            continue
        if not fresh and wrote.isdisjoint(whole):
            continue
        over = _whole_write(recording, frame, whole)
        if over is not None and over in fresh and frame.place is not None:
            _note(recording, lines.setdefault(frame.place, _Line()), frame, whole[over])
        if frame.phase in ("forward", "inplace"):
            given = frame.inputs[1:] if over is not None else frame.inputs if frame.op not in HANDS_ON else ()
            fresh -= {recording.tensors[each].storage for each in given} | wrote
    return lines


HANDS_ON = frozenset({"detach", "data", "requires_grad_", "numel"})
"""Ops that read no numbers."""


def _whole_write(recording: Recording, frame: Frame, whole: dict[int, int]) -> int | None:
    """The storage of a leaf all of whose numbers a Frame writes, none of which comes of the leaf itself."""
    ref = recording.tensors[frame.inputs[0]] if frame.inputs and frame.writes else None
    if ref is None or ref.storage not in whole or ref.shape != recording.tensors[whole[ref.storage]].shape:
        return None
    copies = frame.op == "copy_" and recording.tensors[frame.inputs[-1]].storage != ref.storage
    return ref.storage if copies or frame.op in RESETS - {"zero_", "fill_"} else None


def _note(recording: Recording, line: _Line, frame: Frame, leaf: int) -> None:
    """Once more, where what it copies is what it copied before."""
    if frame.op != "copy_":
        line.times[leaf] = line.times.get(leaf, 0) + 1
        return
    source = recording.tensors[frame.inputs[-1]].storage
    written = any(write.storage == source for write in recording.writes)
    same = line.sources.setdefault(leaf, source) == source and not written
    line.copies = True
    line.times[leaf] = line.times.get(leaf, 0) + 1 if same else 0
