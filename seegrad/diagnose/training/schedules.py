"""Out of order: a schedule ahead of optimiser or epochs, a clip of scaled gradients, an evaluation without end."""

from __future__ import annotations

from collections.abc import Iterator

from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.diagnose.training.freezes import trained_step
from seegrad.diagnose.training.steps import leaves_of
from seegrad.model.recording import Diagnosis, GradientUse, Place, Recording
from seegrad.words.languages import marked

EARLY = DiagnosisKind("scheduled_before_step", "note", marked("scheduled before the step"))
ONE_AHEAD = marked(
    "{Culprit} moves the schedule on before the first step on {victim}: no step uses its first learning rate, and each "
    "later one comes a call too early."
)
STEP_FIRST = marked("Call `optimizer.step()` first, and `scheduler.step()` after it.")

RUN_OUT = DiagnosisKind("rate_run_out", "note", marked("the rate has run out"))
NEXT_TO_NOTHING = marked(
    "{Culprit} has brought the rate from `{first}` down to `{rate}`: of the first {steps} steps on {victim}, the last "
    "{small} changed next to nothing."
)
BY_NOTHING = marked(
    "{Culprit} makes a schedule that multiplies the rate by 0, `{first}`, when its turn comes: of the first {steps} "
    "steps on {victim}, the last {small} changed nothing."
)
STAY = marked("`gamma` is a factor: 1 leaves the rate as it is.")
ONCE_AN_EPOCH = marked(
    "A schedule that counts epochs goes on once an epoch, after its last batch; one that counts batches is told how "
    "many there are."
)

SCALED = DiagnosisKind("clipped_while_scaled", "note", marked("clipped while scaled"))
STILL_SCALED = marked(
    "{Culprit} clips gradients that the scaler has multiplied: {victim} divides them by its factor afterwards, so they "
    "are clipped to far less than the limit says."
)
UNSCALE_FIRST = marked(
    "If the limit is meant for the gradients themselves, call `scaler.unscale_(optimizer)` before you clip."
)

DIVIDED = marked(
    "{Culprit} clips gradients, and {victim} divides all of them by one number afterwards, before the step: the limit "
    "holds for what they were before that, not for what the step uses."
)
MULTIPLIED = marked(
    "{Culprit} clips gradients, and {victim} multiplies all of them by one number afterwards, before the step: the "
    "limit holds for what they were before that, not for what the step uses."
)
CLIP_BELOW = marked(
    "If the limit is meant for what the step uses, clip below that line: bring the gradients to their own scale first."
)

EVALUATED = DiagnosisKind("trained_in_evaluation", "note", marked("trained in evaluation mode"))
NEVER_BACK = marked(
    "{Culprit} puts `{name}` into evaluation mode, and it is still there when the step on {victim} trains it: without "
    "dropout, with batch statistics that stand still."
)
ONLY_NAMED = marked(
    "{Culprit} names `train` and doesn't call it, which changes nothing: `{name}` was in evaluation mode, and it is "
    "still there when the step on {victim} trains it, without dropout, with batch statistics that stand still."
)
CALL_IT = marked("If it is to train as before, call it: `{name}.train()`.")
PUT_IT_BACK = marked(
    "If it is to train as before, call `{name}.train()` after the evaluation, or at the top of each epoch."
)


RATES = ("first", "rate", "steps", "small")


@finder(order=33)
def find_early(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each schedule that was ahead at its optimiser's first step."""
    for at, use in enumerate(recording.uses):
        if use.kind == "scheduled":
            yield from _told(recording, EARLY, use, _next(recording, at, "stepped"), ONE_AHEAD, STEP_FIRST)


@finder(order=34)
def find_run_out(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each schedule whose rate was next to nothing for most of the steps so far."""
    for each in recording.clues_of("run_out"):
        stepped = (use for use in recording.uses if use.kind == "stepped" and set(each.tensors) & leaves_of(use))
        step = next(stepped, None)
        finding = Finding(
            recording=recording,
            kind=RUN_OUT,
            frame=each.frame,
            culprit=each.place,
            victim=step.place if step is not None else None,
            tensor=each.tensors[0],
        )
        said, advice = (BY_NOTHING, STAY) if ("how", "factor") in each.facts else (NEXT_TO_NOTHING, ONCE_AN_EPOCH)
        yield finding.told(said, advice, {name: each.fact(name) for name in RATES})


@finder(order=34)
def find_scaled(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line that clips what is unscaled afterwards."""
    told: set[Place | None] = set()
    for at, use in enumerate(recording.uses):
        if use.kind == "unscaled":
            clip = recording.uses[at - 1]
            if clip.place not in told:
                told.add(clip.place)
                yield from _told(recording, SCALED, clip, use, STILL_SCALED, UNSCALE_FIRST)


@finder(order=34)
def find_rescaled(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line that clips what is then multiplied by hand."""
    for clip, then in zip(recording.clues_of("clip"), recording.clues_of("rescaled"), strict=True):
        finding = Finding(
            recording=recording,
            kind=SCALED,
            frame=then.frame,
            culprit=clip.place,
            victim=then.place,
            tensor=clip.tensors[0],
        )
        yield finding.told(DIVIDED if then.fact("how") == "divided" else MULTIPLIED, CLIP_BELOW, {})


@finder(order=35)
def find_evaluated(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each module that was stepped in training mode, and later in the other."""
    for each in recording.clues_of("evaluated"):
        step = trained_step(recording, each.tensors, each.frame)
        if step is not None:
            finding = Finding(
                recording=recording,
                kind=EVALUATED,
                frame=step.frame,
                culprit=each.place,
                victim=step.place,
                tensor=each.tensors[0],
                name=each.fact("name"),
            )
            named = each.fact("how") == "named"
            yield finding.told(*((ONLY_NAMED, CALL_IT) if named else (NEVER_BACK, PUT_IT_BACK)), {})


def _next(recording: Recording, at: int, kind: str) -> GradientUse | None:
    """The next use of that kind of any of the same leaves."""
    leaves = leaves_of(recording.uses[at])
    return next((use for use in recording.uses[at + 1 :] if use.kind == kind and leaves & leaves_of(use)), None)


def _told(
    recording: Recording, kind: DiagnosisKind, use: GradientUse, hit: GradientUse | None, said: str, advice: str
) -> Iterator[Diagnosis]:
    if hit is not None:
        finding = Finding(
            recording=recording,
            kind=kind,
            frame=max(use.frame, hit.frame),
            culprit=use.place,
            victim=hit.place,
            tensor=next(iter(leaves_of(use)), None),
        )
        yield finding.told(said, advice, {})
