"""Hooks that torch refuses: a module's, whose result may not be written or whose inputs have no gradient; a tensor's.

What a tensor's hook returns takes the gradient's place, so it has to be one of its shape and dtype.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from seegrad.diagnose.evidence import errors_with, label, maker, returned_by
from seegrad.diagnose.finding import Finding, finder
from seegrad.diagnose.numbers.slopes import RETURNS
from seegrad.diagnose.writes import HOOKED, VIEW
from seegrad.model.recording import Diagnosis, Place, RaisedError, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Phrase, Word

NO_INPUT_CORE = "Modules where no input requires gradient"
WRITTEN = marked(
    "{Culprit} puts a backward hook on a module, so torch returns {label} through a Function of its own, as a view: "
    "the in-place op on {victim} writes to it, which would pass by the hook, so torch refuses."
)
BESIDE = marked(
    "Let what comes after that module compute a new tensor (`inplace=False`), or hook the result itself: "
    "`output.register_hook(…)` in a forward hook."
)
NO_INPUT = marked(
    "The hook of {culprit} returns a gradient for the inputs of its module, and none of those requires grad: the "
    "backward call on {victim} has nowhere to take it to."
)
LET_IT_REQUIRE = marked(
    "Give that module its input with its graph, without `.detach()`, or hook one whose input has a graph; a hook that "
    "only looks returns `None`."
)


@finder(order=4)
def find_hooked(recording: Recording) -> Iterator[Diagnosis]:
    """One for each such error, with the first line that puts such a hook on."""
    place = next((each.place for each in recording.clues_of("registers")), None)
    for error in errors_with(recording, "created inside a custom Function", NO_INPUT_CORE):
        yield from _describe(recording, error, place)


def _describe(recording: Recording, error: RaisedError, place: Place | None) -> Iterator[Diagnosis]:
    inputs = recording.frames[error.frame].inputs
    written = NO_INPUT_CORE not in error.text
    tensor = inputs[0] if written and inputs else None
    if written and maker(recording, tensor) != HOOKED:
        return
    finding = Finding(
        recording=recording,
        kind=VIEW if written else RETURNS,
        frame=error.frame,
        culprit=place,
        victim=error.place,
        tensor=tensor,
        route="view" if written else "self",
    )
    facts: dict[str, Word] = {"how": "hooked", "label": label(recording, tensor)}
    yield finding.told(WRITTEN, BESIDE, facts) if written else finding.told(NO_INPUT, LET_IT_REQUIRE, facts)


# -- what a tensor's hook returns doesn't fit its gradient

CHANGED = re.compile(r"hook '(?P<hook>[^']*)' has changed the (?P<what>size|type|device)")
WHAT = {"size": marked("shape"), "type": marked("dtype"), "device": marked("device")}
ANOTHER = marked(
    "The hook `{hook}` of {culprit} returns a tensor of another {what} than the gradient that it is given: what a hook "
    "returns takes the gradient's place, so the backward call on {victim} has nothing to go on with."
)
RETURN_NOTHING = marked(
    "If the hook is only to look at the gradient, let it return nothing: keep the number, without `return`. If it is "
    "to change it, return one of the same shape and dtype, `grad * factor`."
)


@finder(order=4)
def find_changed(recording: Recording) -> Iterator[Diagnosis]:
    """One for each such error: the line that returns it where that was found, else the one that puts the hook on."""
    for error in errors_with(recording, "has changed the"):
        found = CHANGED.search(error.text)
        if found is not None:
            yield _describe_changed(recording, error, found["hook"], found["what"])


def _describe_changed(recording: Recording, error: RaisedError, name: str, what: str) -> Diagnosis:
    hooks = [each for each in recording.hooks if each.kind == "tensor" and each.name.rpartition(".")[2] == name]
    hook = hooks[-1] if hooks else None
    finding = Finding(
        recording=recording,
        kind=RETURNS,
        frame=error.frame,
        culprit=returned_by(recording, name) or (hook.place if hook is not None else None),
        victim=error.place,
        tensor=hook.tensor if hook is not None and len(hooks) == 1 else None,
    )
    facts: dict[str, Word] = {"how": "changed", "hook": name, "what": Phrase(WHAT[what])}
    return finding.told(ANOTHER, RETURN_NOTHING, facts)
