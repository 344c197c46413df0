"""Gradients that are clipped where it changes nothing: after the step that was to use them, before they come, none."""

from __future__ import annotations

from collections.abc import Iterator

from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.diagnose.training.steps import Round, leaf_of, leaves_of, rounds
from seegrad.model.recording import Diagnosis, GradientUse, Place, Recording
from seegrad.words.languages import marked

CLIPPED_LATE = DiagnosisKind("clipped_after_step", "note", marked("clipped after the step"))
STEP_WAS_BEFORE = marked(
    "{Culprit} clips gradients that the step on {victim} has used already: it changes nothing about that step."
)
CLIP_BETWEEN = marked("Clip after the backward call and before the step.")


CLIPS_NOTHING = DiagnosisKind("clips_nothing", "note", marked("clips nothing"))
NONE_GIVEN = marked(
    "{Culprit} clips nothing: it is given no Parameter at all, so the step on {victim} uses the gradients as they are."
)
NONE_YET = marked(
    "{Culprit} clips nothing: none of the Parameters that it's given has a gradient there, the backward call on "
    "{backward} comes after it, and the step on {victim} uses its gradients as they are."
)
GONE_THROUGH = marked(
    "An iterator (`parameters()`, `filter(…)`, `itertools.chain(…)`) can be gone through once: if it has found them "
    "before, make a list of it where it is made, `list(…)`."
)


@finder(order=23)
def find_clips_of_nothing(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line that clips so between a gradient and its step."""
    told: set[Place | None] = set()
    for round_ in rounds(recording):
        for clip in round_.between:
            empty = clip.kind == "clipped" and not clip.tensors
            if empty and clip.place not in told and any(came[0].index <= clip.frame for came in round_.came.values()):
                told.add(clip.place)
                finding = _found(recording, clip, round_, next(iter(round_.came)))
                yield finding.told(NONE_GIVEN, GONE_THROUGH, {})


@finder(order=23)
def find_clipped_early(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line that clips before the gradients come that a step then uses; not if it's late for others."""
    told = {use.place for use in recording.uses if use.kind == "clipped"}
    for round_ in rounds(recording):
        for clip in round_.between:
            came = [round_.came[leaf][-1] for leaf in sorted(leaves_of(clip) & round_.came.keys())]
            if clip.kind == "early" and came and clip.place not in told:
                told.add(clip.place)
                finding = _found(recording, clip, round_, clip.tensors[0][0])
                yield finding.told(NONE_YET, CLIP_BETWEEN, {}, backward=finding.line(came[0].place))


def _found(recording: Recording, clip: GradientUse, round_: Round, tensor: int) -> Finding:
    """A clip that changes nothing of what a step then uses."""
    step = round_.step
    return Finding(
        recording=recording,
        kind=CLIPS_NOTHING,
        frame=step.frame,
        culprit=clip.place,
        victim=step.place,
        tensor=tensor,
    )


@finder(order=23)
def find_clipped_late(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line that clips where no gradient came since a step."""
    told: set[Place | None] = set()
    for at, clip in enumerate(recording.uses):
        if clip.kind != "clipped" or not clip.tensors or clip.place in told:
            continue
        leaves = leaves_of(clip)
        before = (use for use in reversed(recording.uses[:at]) if use.kind == "stepped" and leaves & leaves_of(use))
        step = next(before, None)
        if step is None:
            continue
        came = (leaf_of(recording, frame) for frame in recording.frames[step.frame + 1 : clip.frame + 1])
        if leaves.isdisjoint(came):
            told.add(clip.place)
            finding = Finding(
                recording=recording,
                kind=CLIPPED_LATE,
                frame=clip.frame,
                culprit=clip.place,
                victim=step.place,
                tensor=clip.tensors[0][0],
            )
            yield finding.told(STEP_WAS_BEFORE, CLIP_BETWEEN, {})
