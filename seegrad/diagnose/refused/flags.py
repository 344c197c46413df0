"""A flag that torch refuses: `requires_grad` of a result that a loop hands on, or of whole numbers.

A leaf alone has that flag, and only one of floating point or complex numbers.
"""

from __future__ import annotations

from collections.abc import Iterator

from seegrad.diagnose.evidence import INTEGERS, called, errors_with, is_caught, label, made_at
from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.model.recording import Diagnosis, Place, RaisedError, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word

CORE = "only change requires_grad flags of leaf"
SWITCHED_OFF = "var_no_grad"
"""In torch's message where the flag was to go off."""

NEEDED = "can require gradients"
FLOATS = "loating point"
"""In torch's message where whole numbers were to have the flag, however it begins."""

FLAG = DiagnosisKind("flag_of_a_result", "error", marked("flag of a result"), (marked("a result: no flag of its own"),))

SAID = {
    "on": marked(
        "{Culprit} computed {label} of what requires grad, so it's a result with a history, and its `requires_grad` "
        "can't be set on {victim}: torch lets that be set on leaves alone."
    ),
    "off": marked(
        "{Culprit} computed {label} of what requires grad, so it's a result with a history, and its `requires_grad` "
        "can't be switched off on {victim}: torch lets that be set on leaves alone."
    ),
}
ADVICE = {
    "on": marked(
        "If a new step is to begin with its numbers, let go of the history where it's computed: `.detach()` around the "
        "whole, `{name} = (…).detach()`. If the gradient is to go further back through it, don't set the flag: it "
        "requires grad already, and `{name}.retain_grad()` keeps its own gradient."
    ),
    "off": marked(
        "Where it is to be used without its history, use `{name}.detach()` instead; to freeze weights, switch the "
        "flags of the Parameters themselves off."
    ),
}

WHOLE = DiagnosisKind(
    "flag_of_integers", "error", marked("flag of whole numbers"), (marked("whole numbers: no gradient"),)
)
MADE_SO = marked(
    "{Culprit} asks for the gradient of whole numbers or booleans, and torch refuses: only floating point and complex "
    "numbers have one."
)
SET_SO = marked(
    "{Culprit} asks for the gradient of {label}, whose numbers are `{dtype}`, and torch refuses: only floating point "
    "and complex numbers have one."
)
FLOAT_OR_NONE = marked(
    "If they choose or count (indices, labels, a mask), leave the flag out: what they choose, rows of an embedding "
    "say, learns without it; a Parameter takes `requires_grad=False`. If they are to learn, make them of floating "
    "point: `1.0` for `1`, or `dtype=torch.float32`."
)


@finder(order=12)
def find_flag_of_integers(recording: Recording) -> Iterator[Diagnosis]:
    """The line that asks for the gradient of numbers that can't have one: with them made, or afterwards."""
    for error in errors_with(recording, NEEDED):
        if FLOATS in error.text and not is_caught(recording, error):
            frame = recording.frames[error.frame]
            tensor = next((each for each in frame.inputs if _is_whole(recording, each)), None)
            finding = Finding(recording=recording, kind=WHOLE, frame=error.frame, culprit=error.place, tensor=tensor)
            dtype = recording.tensors[tensor].dtype if tensor is not None else ""
            facts: dict[str, Word] = {"op": frame.op, "dtype": dtype, "label": label(recording, tensor)}
            yield finding.told(MADE_SO if tensor is None else SET_SO, FLOAT_OR_NONE, facts)


def _is_whole(recording: Recording, tensor: int) -> bool:
    return recording.tensors[tensor].dtype.startswith(INTEGERS)


@finder(order=12)
def find_flag_of_a_result(recording: Recording) -> Iterator[Diagnosis]:
    """The line that made a result of the tensor whose flag torch has refused to set."""
    for error in errors_with(recording, CORE):
        tensor = next(iter(recording.frames[error.frame].inputs), None)
        if tensor is not None and not is_caught(recording, error):
            yield _describe(recording, error, tensor)


def _describe(recording: Recording, error: RaisedError, tensor: int) -> Diagnosis:
    finding = Finding(
        recording=recording,
        kind=FLAG,
        frame=error.frame,
        culprit=computed_at(recording, tensor) or error.place,
        victim=error.place,
        tensor=tensor,
        name=called(recording, tensor),
    )
    how = "off" if SWITCHED_OFF in error.text else "on"
    facts: dict[str, Word] = {"label": label(recording, tensor), "cause": how}
    return finding.told(SAID[how], ADVICE[how], facts)


def computed_at(recording: Recording, tensor: int) -> Place | None:
    """The line that computed it; of a view or of a write in place, the last that gave it a history."""
    born = recording.frames[recording.tensors[tensor].frame]
    if recording.tensors[tensor].alias_of is None and tensor in born.outputs and _has_history(recording, born.inputs):
        return made_at(recording, tensor)
    storage = recording.tensors[tensor].storage
    writes = (each for each in reversed(recording.writes) if each.storage == storage)
    given = (
        each for each in writes if _has_history(recording, set(recording.frames[each.frame].inputs) - {each.tensor})
    )
    written = next(given, None)
    return written.place if written is not None else made_at(recording, tensor)


def _has_history(recording: Recording, tensors: tuple[int, ...] | set[int]) -> bool:
    return any(recording.tensors[each].requires_grad for each in tensors)
