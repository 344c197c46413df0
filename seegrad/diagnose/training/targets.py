"""A value is compared with a target that the same Parameters bootstrap, and the loss trains both sides."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property

from seegrad.diagnose.evidence import made_at, ran
from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.diagnose.gradients import reach
from seegrad.diagnose.numbers.known import Makers
from seegrad.diagnose.training.steps import names
from seegrad.model.recording import Diagnosis, Frame, Place, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word

LOSSES = frozenset({"mse_loss", "smooth_l1_loss", "huber_loss", "l1_loss"})
"""Ops that compare a value with a target."""

DIFFERENCES = frozenset({"sub", "rsub", "__sub__"})
MEASURES = LOSSES | {"pow", "square", "abs", "norm", "mul"}
"""Ops that make a loss of a difference."""

HANDS_ON = frozenset(
    {"squeeze", "unsqueeze", "view", "reshape", "flatten", "stack", "cat", "__getitem__", "to", "float", "view_as"}
    | {"expand", "clone", "t", "transpose", "unbind"}
)
"""Ops that change nothing but the shape."""

FARTHEST = 64
"""So many Frames back a target is followed."""

TOO = DiagnosisKind("target_learns_too", "note", marked("the target learns too"))
BOTH_SIDES = marked(
    "{Culprit} computes a target with {leaves}, and so is the value that it's compared with: the backward call on "
    "{victim} goes through both, and moves the target towards the value too."
)
GIVEN = marked(
    "If you meant the target to be given (temporal difference learning), use its `.detach()`, or compute it under "
    "`with torch.no_grad():`; if both sides are meant to learn, leave it as it is."
)


NOT_KEPT = marked(
    "{Culprit} keeps nothing of what it does: `.detach()` hands back another tensor, and {target} goes on with the one "
    "that has a history. So the backward call on {victim} trains {leaves} through the target, too."
)
KEEP_IT = marked("Give the result to the variable: `{name} = {name}.detach()`.")
BARE = re.compile(r"\s*[\w.]+\.detach\(\)\s*(?:#|$)")
"""A statement that does nothing."""


@finder(order=18)
def find_targets(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line that adds what is given to a share of what the same Parameters estimate."""
    told, targets = set[Place | None](), _Targets(recording)
    for frame in recording.frames:
        for value, target in targets.compared(frame):
            sum_ = targets.bootstrapped(target, frame.index)
            if sum_ is None or sum_.place in told or targets.is_average(sum_.place):
                continue
            both = reach(recording, (value,)) & reach(recording, sum_.outputs)
            leaves = sorted(each for each in both if recording.tensors[each].parameter)
            shown = ran(recording, sum_)
            if leaves and shown is not None:
                told.add(sum_.place)
                bare = targets.detached_in_vain(sum_)
                finding = Finding(
                    recording=recording,
                    kind=TOO,
                    frame=shown.index,
                    culprit=sum_.place if bare is None else bare.place,
                    victim=shown.place,
                    tensor=sum_.outputs[0] if bare is None else bare.inputs[0],
                )
                facts: dict[str, Word] = {"leaves": names(recording, leaves)}
                said, advice = (BOTH_SIDES, GIVEN) if bare is None else (NOT_KEPT, KEEP_IT)
                yield finding.told(said, advice, facts, target=finding.line(sum_.place))


# -- a distribution that is to teach an earlier layer of its own model

TEACHES = marked(
    "If what is computed farther on is to teach what comes before it (distillation), use its `.detach()` as the "
    "target; if both sides are meant to learn, leave it as it is."
)


@finder(order=18)
def find_pupils(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line that makes a target of the very layers, and of more, that made what is drawn to it.

    None where another comparison draws the target's own layers to it as well: then they are to meet half way.
    """
    found: dict[Place | None, list[tuple[Frame, set[int], set[int]]]] = {}
    for frame in recording.frames:
        if frame.op == "kl_div" and frame.phase == "forward" and len(frame.inputs) == 2:
            value, target = (_parameters(recording, each) for each in frame.inputs)
            found.setdefault(made_at(recording, frame.inputs[1]), []).append((frame, value, target))
    for place, compared in found.items():
        shown = ran(recording, compared[0][0])
        if shown is not None and place is not None and all(value and value < target for _, value, target in compared):
            frame, value, _ = compared[0]
            finding = Finding(
                recording=recording,
                kind=TOO,
                frame=shown.index,
                culprit=place,
                victim=shown.place,
                tensor=frame.inputs[1],
            )
            yield finding.told(BOTH_SIDES, TEACHES, {"leaves": names(recording, sorted(value))})


def _parameters(recording: Recording, tensor: int) -> set[int]:
    return {each for each in reach(recording, (tensor,)) if recording.tensors[each].parameter}


class _Targets:
    """What a Recording compares, and how what it's compared with was made."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    @cached_property
    def _makers(self) -> Makers:
        return Makers(self._recording)

    @cached_property
    def _given_to(self) -> dict[int, set[str]]:
        """Tensor → the ops that it was given to."""
        found: dict[int, set[str]] = {}
        for frame in self._recording.frames:
            for tensor in frame.inputs:
                found.setdefault(tensor, set()).add(frame.op)
        return found

    def compared(self, frame: Frame) -> Iterator[tuple[int, int]]:
        """(value, target), either way round, where both have a history."""
        differs = frame.op in DIFFERENCES and any(
            not MEASURES.isdisjoint(self._given_to.get(tensor, ())) for tensor in frame.outputs
        )
        if len(frame.inputs) == 2 and (differs or frame.op in LOSSES):
            first, second = frame.inputs
            if self._has_graph(first) and self._has_graph(second):
                yield first, second
                yield second, first

    def is_average(self, place: Place | None) -> bool:
        """Does the line add to a share of what it has made before, with its history or without: a running average?"""
        for frame in (each for each in self._recording.frames if each.place == place and each.op == "add"):
            waiting = [each for each in frame.inputs if not self._has_graph(each)]
            if not waiting and len(frame.inputs) > 1:
                return True
            for tensor in waiting:  # grows while it's read
                made = self._makers.maker(tensor, frame.index - 1)
                if made is not None and made.place == place and made.op == "add":
                    return True
                if made is not None and len(waiting) < FARTHEST:
                    waiting += [each for each in made.inputs if each not in waiting]
        return False

    def _has_graph(self, tensor: int) -> bool:
        ref = self._recording.tensors[tensor]
        return ref.requires_grad and not ref.is_leaf

    def detached_in_vain(self, target: Frame) -> Frame | None:
        """The line `x.detach()` on the way to a target whose result nobody has kept."""
        waiting = list(target.inputs)
        for tensor in waiting:  # grows while it's read
            frame = self._makers.maker(tensor, target.index - 1)
            if frame is not None and self._has_graph(tensor) and len(waiting) < FARTHEST:
                waiting += [each for each in frame.inputs if each not in waiting]
        bare = (
            frame
            for frame in self._recording.frames[: target.index]
            if frame.op == "detach" and set(frame.inputs[:1]) & set(waiting)
            if frame.place and BARE.match(frame.place.code)
        )
        return next((frame for frame in bare if not any(each in self._given_to for each in frame.outputs)), None)

    def bootstrapped(self, target: int, until: int) -> Frame | None:
        """The sum of what is given and a share of an estimate, which the target is but for its shape."""
        waiting = [target]
        for tensor in waiting:  # grows while it's read
            frame = self._makers.maker(tensor, until)
            if frame is None or len(waiting) > FARTHEST:
                continue
            graph = [each for each in frame.inputs if self._has_graph(each)]
            if frame.op in HANDS_ON:
                waiting += [each for each in graph if each not in waiting]
            elif frame.op == "add" and len(graph) == 1 and len(frame.inputs) == 2:
                share = self._makers.maker(graph[0], frame.index - 1)
                if share is not None and share.op == "mul" and sum(map(self._has_graph, share.inputs)) == 1:
                    return frame
        return None
