"""Parameters that an optimiser holds, and what is computed with them is dropped, or only its numbers are taken."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath

from seegrad.diagnose.cut import behind_cuts
from seegrad.diagnose.evidence import INTEGERS
from seegrad.diagnose.finding import Finding, finder
from seegrad.diagnose.training.freezes import LIBRARIES, UNUSED, idle_steps, last_switches
from seegrad.diagnose.training.held import replacing
from seegrad.diagnose.training.steps import names
from seegrad.model.recording import Diagnosis, Frame, Place, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word

LISTED = re.compile(r"\.(?:tolist|numpy|item)\(|\b(?:np|numpy|math)\.\w+\(|\b(?:float|int|round)\(")
"""Code that makes plain numbers of a tensor."""

DROPPED = marked(
    "{Culprit} is the last that is computed with {leaves}, and nothing takes up its result: no loss reaches them, so "
    "the step on {victim}, whose optimiser holds them, leaves them as they are."
)
TAKE_IT_UP = marked(
    "If they are meant to learn, use that result in what the loss is computed of; if not, leave them out of the "
    "optimiser."
)


TAKEN_OUT = marked(
    "{Culprit} takes numbers out of what is computed with {leaves}, and numbers have no history: no loss reaches them, "
    "so the step on {victim}, whose optimiser holds them, leaves them as they are."
)
MADE_ANEW = marked(
    "{Culprit} makes a new tensor of the numbers that are computed with {leaves}, and it knows nothing of their "
    "history: no loss reaches them, so the step on {victim}, whose optimiser holds them, leaves them as they are."
)
JOIN = marked("If they are to learn, join the tensors themselves: `torch.stack(…)`.")
STAY = marked("If they are to learn, hand on the tensor itself, and compute in torch what is computed of its numbers.")


@finder(order=28)
def find_dropped(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line whose results were dropped, once two steps have found no gradient in what they came of.

    What led to a loss up to a line that cuts the graph is told there; what another stands in for now, with that.
    """
    idle = {leaf: held for leaf, held in idle_steps(recording).items() if len(held) > 1}
    if not idle:
        return
    ends, switched = _Ends(recording), last_switches(recording)
    groups: dict[Place, list[int]] = {}
    for leaf in idle:
        wanted = leaf not in switched and recording.tensors[leaf].requires_grad
        place = ends.dropped(leaf, idle[leaf][-1].frame) if wanted else None
        if place is not None and LIBRARIES.isdisjoint(PurePath(place.file).parts):
            groups.setdefault(place, []).append(leaf)
    told = behind_cuts(recording) | set(replacing(recording).values()) if groups else set()
    for place, leaves in groups.items():
        if not told.isdisjoint(leaves):
            continue
        step, taken_out = idle[leaves[0]][1], place in ends.lines or LISTED.search(place.code) is not None
        anew = None if taken_out else _anew(recording, place)
        finding = Finding(
            recording=recording,
            kind=UNUSED,
            frame=step.frame,
            culprit=anew or place,
            victim=step.place,
            tensor=leaves[0],
        )
        facts: dict[str, Word] = {"leaves": names(recording, leaves)}
        if anew is not None:
            yield finding.told(MADE_ANEW, JOIN, facts)
        else:
            yield finding.told(TAKEN_OUT if taken_out else DROPPED, STAY if taken_out else TAKE_IT_UP, facts)


def _anew(recording: Recording, place: Place) -> Place | None:
    """The line that makes a tensor of plain numbers of what that line computes."""
    made = (each.place for each in recording.clues_of("renewed") if recording.frames[each.frame].place == place)
    return next(made, None)


class _Ends:
    """What is computed of a leaf, up to the results with which nothing else is computed."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self.lines = set[Place]()  # those that take numbers out of such results, and compute nothing themselves
        self._ran = {frame.running for frame in recording.frames if frame.running is not None}
        taking = (frame for frame in recording.frames if not set(frame.outputs) & set(frame.inputs) or frame.writes)
        self._taken = {tensor for frame in taking for tensor in frame.inputs}  # `.cpu()` may hand on the tensor itself
        self._above: dict[int, list[int]] = {}
        self._users: dict[int, list[int]] = {}
        for node in recording.nodes:
            for target in {edge.target for edge in node.edges if edge.target is not None}:
                leaf = recording.nodes[target].leaf
                found = self._above.setdefault(target, []) if leaf is None else self._users.setdefault(leaf, [])
                found.append(node.id)

    def dropped(self, leaf: int, until: int) -> Place | None:
        """The line of the first such result; None where a backward came by, or anything was done with one of them.

        What is computed behind the last step, to report of the leaf, isn't asked.
        """
        waiting = [each for each in self._users.get(leaf, ()) if self._recording.nodes[each].frame < until]
        seen, ends = set(waiting), list[int]()
        for number in waiting:  # grows while it's read
            above = self._above.get(number, [])
            ends += [] if above else [number]
            fresh = [each for each in above if each not in seen]
            seen.update(fresh)
            waiting += fresh
        results = {tensor for number in ends for tensor in self._recording.nodes[number].outputs}
        if not results or not self._ran.isdisjoint(seen):
            return None
        if self._taken.isdisjoint(results):
            out = {each.place for each in self._recording.clues_of("taken out") if not results.isdisjoint(each.tensors)}
            self.lines |= out if len(out) == 1 else set()
            return (
                next(iter(out)) if len(out) == 1 else self._recording.frames[self._recording.nodes[ends[0]].frame].place
            )
        places = (self._recording.frames[self._recording.nodes[number].frame].place for number in ends)
        listed = (each for each in places if each is not None and LISTED.search(each.code))
        return self._left(results, next(listed, None))

    def _left(self, results: set[int], listed: Place | None) -> Place | None:
        """The line that takes numbers out of what was computed with these, where nothing else was done with them.

        `listed`: one that does so where it computes the last of them.
        """
        left = None
        for frame in self._recording.frames:
            if frame.phase == "forward" and not results.isdisjoint(frame.inputs):
                if self._chooses(frame):
                    continue
                if any(self._recording.tensors[tensor].requires_grad for tensor in frame.outputs):
                    return None
                last = self._taken.isdisjoint(frame.outputs)
                if last and (frame.place is None or not LISTED.search(frame.place.code)):
                    return None
                left = left or (frame.place if last else None)
                results |= set(frame.outputs)
        return left or listed

    def _chooses(self, frame: Frame) -> bool:
        """Does it make integers that something else goes on with (what was drawn, where something is), or an answer?"""
        kinds = [self._recording.tensors[each].dtype for each in frame.outputs]
        asks, goes_on = all(each == "bool" for each in kinds), not self._taken.isdisjoint(frame.outputs)
        return bool(kinds) and all(each.startswith(INTEGERS) for each in kinds) and asks is not goes_on
