"""What a `GradScaler` refuses: gradients of Parameters made `float16`; a call at the wrong time; a step without any."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from seegrad.diagnose.evidence import errors_with, label
from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.diagnose.training.freezes import UNUSED
from seegrad.model.recording import Diagnosis, Frame, Place, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word, plural

CORE = "unscale FP16 gradients"
HALF = "float16"
HALVES = DiagnosisKind("scaled_in_half", "error", marked("float16 parameters"), (marked("float16 from here on"),))

SAID = marked(
    "{label}{leaves} is `float16` since {culprit}, and so is the gradient that the scaler is to unscale on {victim}: "
    "it takes those of `float32` parameters alone, since a step in `float16` would lose what is small."
)
ADVICE = marked(
    "Leave the parameters in `float32`, without what makes them `float16` on that line: under `torch.autocast` each op "
    "that gains by it runs in `float16` by itself."
)


@finder(order=12)
def find_halves(recording: Recording) -> Iterator[Diagnosis]:
    """The line that made the parameters `float16` of which a scaler has refused the gradients."""
    for error in errors_with(recording, CORE):
        frames = recording.frames[: error.frame + 1]
        ran = (recording.nodes[frame.running].leaf for frame in frames if frame.running is not None)
        halves = {leaf: place for leaf in dict.fromkeys(ran) if leaf is not None for place in _halved(recording, leaf)}
        if halves:
            leaf, place = next(iter(halves.items()))
            count = len(halves) - 1
            finding = Finding(
                recording=recording, kind=HALVES, frame=error.frame, culprit=place, victim=error.place, tensor=leaf
            )
            facts: dict[str, Word] = {"label": label(recording, leaf), "leaves": count}
            more = plural(" (and {count} more leaf)", " (and {count} more leaves)", count) if count else ""
            yield finding.told(SAID, ADVICE, facts, leaves=more)


TWICE = DiagnosisKind("unscaled_twice", "error", marked("scaler called twice"), (marked("called before"),))

CALLED = {
    "unscale_() has already been called": "unscaled",
    "unscale_() is being called after step()": "late",
    "step() has already been called since": "stepped",
}
"""Stable part of the message → what was done before."""

BEFORE_UPDATE = {
    "unscaled": marked(
        "{Culprit} unscales gradients that were unscaled before, with no `update()` of the scaler in between: divided "
        "by the scale twice they would be too small, so the scaler refuses."
    ),
    "late": marked(
        "{Culprit} unscales gradients after the step on {victim}, with no `update()` of the scaler in between: that "
        "step has unscaled and used them already."
    ),
    "stepped": marked(
        "{Culprit} steps for a second time, the first on {victim}, with no `update()` of the scaler in between."
    ),
}
ONCE_A_STEP = {
    "unscaled": marked(
        "Unscale once for each step: where gradients of several batches add up, inside the `if` that steps, right "
        "before they are clipped; and call the scaler's `update()` after each step."
    ),
    "late": marked("Unscale before the step, and call the scaler's `update()` after it."),
    "stepped": marked(
        "Call the scaler's `update()` after each step; of several optimisers, once after the steps of all."
    ),
}


@finder(order=12)
def find_called_twice(recording: Recording) -> Iterator[Diagnosis]:
    """The line that called the scaler where `update()` was to come first, with the one that called it before."""
    for error in errors_with(recording, *CALLED):
        done = next(done for core, done in CALLED.items() if core in error.text)
        steps = [use.place for use in recording.uses if use.kind == "stepped" and use.frame <= error.frame]
        (*_, victim) = [None, *([error.place] if done == "unscaled" else steps)]
        finding = Finding(recording=recording, kind=TWICE, frame=error.frame, culprit=error.place, victim=victim)
        yield finding.told(BEFORE_UPDATE[done], ONCE_A_STEP[done], {"how": done})


NONE_CAME = replace(UNUSED, severity="error")
NOTHING_THERE = marked(
    "{Culprit} has the scaler step an optimiser none of whose Parameters has a gradient: there's nothing to unscale, "
    "so the scaler refuses."
)
STEP_IF_THERE = marked(
    "If a loss should have reached them, compute what leads from them to it with gradients on, and clear only after "
    "the step; if there are turns without one, step in the others alone: `if any(p.grad is not None for p in …):`."
)


@finder(order=12)
def find_nothing_to_step(recording: Recording) -> Iterator[Diagnosis]:
    """The line that asks for such a step."""
    for error in errors_with(recording, "No inf checks were recorded"):
        finding = Finding(recording=recording, kind=NONE_CAME, frame=error.frame, culprit=error.place)
        yield finding.told(NOTHING_THERE, STEP_IF_THERE, {"how": "scaler"})


def _halved(recording: Recording, leaf: int) -> list[Place | None]:
    """The line that made a leaf `float16`, which may be unknown; none where it isn't so."""
    moves = [frame for frame in recording.frames if frame.op == "set data" and frame.inputs[:1] == (leaf,)]
    now = moves[-1].inputs[-1] if moves else leaf
    if recording.tensors[now].dtype != HALF:
        return []
    made, seen = _made(recording, now), {now}
    while made is not None:
        halves = [each for each in made.inputs if recording.tensors[each].dtype == HALF]
        if not halves or halves[0] in seen:
            return [made.place]
        seen.add(halves[0])
        made = _made(recording, halves[0])
    return [None]


def _made(recording: Recording, tensor: int) -> Frame | None:
    """The Frame that made a tensor, or that on whose memory a Parameter was put; None where that was before."""
    storage = recording.tensors[tensor].storage
    same = (ref for ref in recording.tensors if ref.storage == storage and ref.id <= tensor and ref.dtype == HALF)
    frames = [recording.frames[ref.frame] for ref in same if ref.id in recording.frames[ref.frame].outputs]
    return frames[0] if frames and frames[0].phase != "start" else None
