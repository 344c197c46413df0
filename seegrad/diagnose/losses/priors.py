"""A term of a loss in which Parameters are alone that nothing else uses: a penalty or a prior on what isn't the model.

No data come into it and no other Parameter does: it draws its own to a place of its own, and the weights that the data
meet go without it. Where the same line holds others too (a penalty on all of a model), an unused one is no mistake.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from math import prod

from seegrad.diagnose.evidence import is_trained
from seegrad.diagnose.finding import Finding, finder
from seegrad.diagnose.history.flow import LEAVING
from seegrad.diagnose.numbers.constant import SUMS, backward_only
from seegrad.diagnose.training.freezes import UNUSED
from seegrad.diagnose.training.steps import leaf_of, leaves_of, names
from seegrad.model.recording import STEP, Diagnosis, Frame, Place, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word

NO_DATA = replace(UNUSED, title=marked("no data reach it"))
ALONE = marked(
    "{Culprit} makes a Parameter that only a term of the loss on {victim} takes, computed on {taken}: no data and no "
    "other Parameter meet {leaves} there, and nothing else is computed with them, so the term holds nothing that the "
    "data train."
)
TAKES_ALONE = marked(
    "{Culprit} computes a term of the loss on {victim} with {leaves} alone: no data and no other Parameter meet them "
    "there, and nothing else is computed with them, so the term holds nothing that the data train."
)
HOLD_THE_OTHERS = marked(
    "If that term is to hold the weights that the model computes with (a prior, a penalty), compute it of those; if "
    "these are to be used, compute the model's result with them."
)

SEEN = 2
"""Laps in which that has to be so."""

NEUTRAL = frozenset({"zeros", "zeros_like"})
"""Ops that make what a sum begins with."""

TAKES_NUMBERS = LEAVING - {"detach", "data"}


@dataclass(frozen=True, slots=True)
class LoneTerm:
    """The line that first computes with its Parameters, these, and the Frame that adds it to what data came into."""

    taken: Place | None
    leaves: frozenset[int]
    added: Frame


@finder(order=34)
def find_parameters_alone(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each such line; none of what other laps, other lines or other tensors on their memory use."""
    walk = _Walk(recording)
    terms: dict[Place | None, list[LoneTerm]] = {}
    for term in walk.terms():
        terms.setdefault(term.taken, []).append(term)
    for found in terms.values():
        leaves = frozenset[int]().union(*(term.leaves for term in found))
        shown = _shown(recording, found[-1], leaves)
        laps = _laps_of(recording, [term.added for term in found])
        if shown is not None and laps >= SEEN and leaves.isdisjoint(walk.used) and not _is_shared(recording, leaves):
            yield _describe(recording, found[0], sorted(leaves), shown)


class _Untaken:
    """Results that no op takes: something that isn't seen may, a number that is taken out and decides."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[Place | None, frozenset[int]]] = {}
        self._lines = set[Place | None]()  # whose results are taken elsewhere: one may be left out now and then

    def made(self, frame: Frame, behind: frozenset[int]) -> None:
        """A Frame made these of Parameters."""
        self._made.update(dict.fromkeys(frame.outputs if behind else (), (frame.place, behind)))

    def taken_on(self, frame: Frame) -> None:
        """It takes some."""
        for each in frame.inputs:
            place, _ = self._made.pop(each, (None, None))
            self._lines.add(place)

    def unseen(self) -> frozenset[int]:
        """The Parameters behind those that are left, of lines of which all are."""
        left = (behind for place, behind in self._made.values() if place not in self._lines)
        return frozenset[int]().union(*left)


class _Walk:
    """What is computed of Parameters alone, up to where that is added to something else or meets it."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        held = {leaf for use in recording.uses if use.kind == "stepped" for leaf in leaves_of(use)}
        self._held = {leaf for leaf in held if recording.tensors[leaf].parameter and is_trained(recording, leaf)}
        self._whole = recording.laps[-1] if recording.laps else 0  # of older laps some Frames are forgotten
        self.used = set[int]()

    def terms(self) -> list[LoneTerm]:
        """Those of all laps that are whole; `used`: the Parameters that meet something else anywhere."""
        alone: dict[int, frozenset[int]] = {each: frozenset({each}) for each in self._held}
        taken, found, ends = dict[int, Place | None](), list[LoneTerm](), _Untaken()
        for frame in self._recording.frames:
            if frame.phase not in ("forward", "inplace") or frame.op == STEP or self._is_filled(frame):
                continue
            leaves = [alone[each] for each in frame.inputs if each in alone]
            behind = frozenset[int]().union(*leaves)
            stays = len(leaves) == len(frame.inputs) and self._stays(frame)
            if stays or (behind and self._adds(frame, alone)):
                ends.taken_on(frame)
                parts = [alone[each] for each in frame.inputs if alone.get(each)]
                whole = not stays and frame.grad_enabled and frame.index > self._whole
                found += [LoneTerm(taken.get(min(part)), part, frame) for part in parts if whole]
                for leaf in behind.intersection(frame.inputs):
                    taken.setdefault(leaf, frame.place)
            else:
                self.used |= behind
            for each in set(frame.outputs) - self._held:
                alone.pop(each, None)
            if stays:
                alone.update(dict.fromkeys(set(frame.outputs) - self._held, behind))
                ends.made(frame, behind)
        self.used |= ends.unseen()
        return found

    def _stays(self, frame: Frame) -> bool:
        """Is what it makes of nothing but these known to be of them alone?"""
        begins = frame.op in NEUTRAL and all(prod(self._recording.tensors[each].shape) == 1 for each in frame.outputs)
        return frame.op not in TAKES_NUMBERS and (bool(frame.inputs) or begins)

    def _is_filled(self, frame: Frame) -> bool:
        """Does it write numbers into what it's given and nothing else, as what initialises does?"""
        return bool(frame.writes) and set(frame.inputs) == set(frame.outputs) and len(frame.inputs) == 1

    def _adds(self, frame: Frame, alone: Collection[int]) -> bool:
        """Is it a sum of single numbers, of which others have a graph too where there are any?"""
        refs = [self._recording.tensors[each] for each in frame.inputs]
        learns = all(ref.requires_grad for ref in refs if ref.id not in alone)
        single = all(prod(ref.shape) == 1 for ref in refs)
        return frame.op in SUMS and single and (learns or not frame.grad_enabled)


def _shown(recording: Recording, term: LoneTerm, leaves: Collection[int]) -> Frame | None:
    """The last Frame of the first backward call behind it, if that came to these Parameters."""
    calls = (call for call in backward_only(recording) if call[0].index > term.added.index)
    call = next(calls, [])
    return call[-1] if set(leaves) <= {leaf_of(recording, frame) for frame in call} else None


def _laps_of(recording: Recording, frames: list[Frame]) -> int:
    """How many backward calls come behind one of these each."""
    ends = [call[0].index for call in backward_only(recording)]
    return len({sum(end < frame.index for end in ends) for frame in frames})


def _is_shared(recording: Recording, leaves: Collection[int]) -> bool:
    """Does another tensor on their memory go into anything?"""
    storages = {recording.tensors[leaf].storage for leaf in leaves}
    given = {each for frame in recording.frames if frame.phase == "forward" for each in frame.inputs}
    return any(each not in leaves and recording.tensors[each].storage in storages for each in given)


def _made_on(recording: Recording, leaf: int) -> Place | None:
    """The one line of the block's that gives a Parameter to an attribute, or a variable, of that name."""
    name = (recording.tensors[leaf].name or "").rpartition(".")[2]
    gives = re.compile(rf"\s*(?:\w+\.)*{re.escape(name)}\s*=\s*(?:\w+\.)*Parameter\(")
    lines = [each for each in recording.code if name and gives.match(each[1])]
    return Place(recording.code_file, lines[0][0], lines[0][1].strip()) if len(lines) == 1 else None


def _describe(recording: Recording, term: LoneTerm, leaves: list[int], shown: Frame) -> Diagnosis:
    made = _made_on(recording, leaves[0])
    finding = Finding(
        recording=recording,
        kind=NO_DATA,
        frame=shown.index,
        culprit=made or term.taken,
        victim=shown.place,
        tensor=leaves[0],
    )
    facts: dict[str, Word] = {"leaves": names(recording, leaves), "how": "alone"}
    said = ALONE if made is not None else TAKES_ALONE
    return finding.told(said, HOLD_THE_OTHERS, facts, taken=finding.line(term.taken))
