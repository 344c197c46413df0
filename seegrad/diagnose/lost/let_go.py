"""What a line makes and nobody takes: a module, a hook's new gradient; and statements that do nothing at all."""

from __future__ import annotations

from collections.abc import Iterator

from seegrad.diagnose.evidence import label
from seegrad.diagnose.finding import Finding, finder
from seegrad.diagnose.training.copies import DROPPED
from seegrad.model.recording import Clue, Diagnosis, Frame, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word

GONE = marked(
    "{Culprit} makes a new module, and nobody takes it: it is gone again, and the step on {victim} trains what was "
    "there before."
)
TAKE_IT = marked(
    "If it is to be used, give it to the name or the attribute that is to hold it, `… = …`: a class method, like "
    "`from_pretrained`, returns a new object and leaves the one it is called on as it is."
)
NOT_RETURNED = marked(
    "{Culprit} computes a new gradient in a hook that returns nothing, so the backward call on {victim} goes on with "
    "that of {label} as it was."
)
RETURN_IT = marked("If the gradient is to change, let the hook return the new one: `return {given}`.")


HOOK_RETURNS_NOTHING = marked(
    "{Culprit} computes something new in a hook of a module, and the hook returns nothing: the module goes on with "
    "what it had, and so does the backward call on {victim}."
)
RETURN_NEW = marked("If the module is to go on with the new one, let the hook return it: `return …`.")

ONLY_NAMES = marked(
    "{Culprit} does nothing: it names `{given}` and doesn't call it, so the step on {victim} goes on without it."
)
ONLY_COMPARES = marked(
    "{Culprit} does nothing: it compares `{given}` instead of setting it, so the step on {victim} finds that as it was."
)
CALL_IT = marked("Call it, with brackets behind the name: `{given}()`.")
SET_IT = marked("A single `=` sets it; `requires_grad_(False)` does so of a tensor or of a whole module.")


@finder(order=5)
def find_idle_statements(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each statement that only looks as if it did something."""
    for each in recording.clues_of("idle"):
        step = next((use for use in recording.uses if use.kind == "stepped" and use.frame >= each.frame), None)
        if step is not None:
            finding = Finding(
                recording=recording, kind=DROPPED, frame=step.frame, culprit=each.place, victim=step.place
            )
            name = each.fact("name")
            compares = name == "requires_grad"
            said, advice = (ONLY_COMPARES, SET_IT) if compares else (ONLY_NAMES, CALL_IT)
            facts: dict[str, Word] = {"how": "compared" if compares else "named"}
            yield finding.told(said, advice, facts, given=name)


@finder(order=32)
def find_hooks_without_result(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each hook of a module that computes something new and returns nothing."""
    for each in recording.clues_of("hook"):
        backward = _next_backward(recording, each)
        if backward is not None:
            finding = Finding(
                recording=recording,
                kind=DROPPED,
                frame=backward.index,
                culprit=each.place,
                victim=backward.place,
                name=each.fact("name") or None,
            )
            yield finding.told(HOOK_RETURNS_NOTHING, RETURN_NEW, {"how": "module's hook"})


@finder(order=32)
def find_let_go(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each such line, once a step, or a backward call, has gone by what it was to change."""
    for each in recording.clues_of("unkept"):
        step = next((use for use in recording.uses if use.kind == "stepped" and use.frame >= each.frame), None)
        if step is not None:
            finding = Finding(
                recording=recording, kind=DROPPED, frame=step.frame, culprit=each.place, victim=step.place
            )
            yield finding.told(GONE, TAKE_IT, {"how": "module"})
    for each in recording.clues_of("unreturned"):
        backward = _next_backward(recording, each)
        if backward is not None:
            finding = Finding(
                recording=recording,
                kind=DROPPED,
                frame=backward.index,
                culprit=each.place,
                victim=backward.place,
                tensor=each.tensors[0],
            )
            facts: dict[str, Word] = {"how": "hook", "label": label(recording, each.tensors[0])}
            yield finding.told(NOT_RETURNED, RETURN_IT, facts, given=each.fact("name"))


def _next_backward(recording: Recording, clue: Clue) -> Frame | None:
    """The first Frame of a backward call after it."""
    return next((frame for frame in recording.frames[clue.frame :] if frame.phase == "backward"), None)
