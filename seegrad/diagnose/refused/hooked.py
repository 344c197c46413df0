"""Hooks that torch refuses: a module's, whose result may not be written or whose inputs have no gradient.

And what doesn't fit: what a hook returns takes the gradient's place, so it has to be one of its shape and dtype, and a
module's hook returns as many as it is given.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

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


# -- what a hook returns doesn't fit the gradient that it is given

REFUSED = re.compile(
    r"hook '(?P<hook>[^']*)' has changed the (?P<what>size|type|device)"
    r"|hook '(?P<legacy>[^']*)' has returned an incorrect number of values \(got (?P<few>\d+), but expected (?P<of>\d+)"
    r"|Backward (?P<pre>pre )?hook returned an invalid number of \w+, got (?P<got>\d+), but expected (?P<wanted>\d+)"
    r"|expected \w+, but hook returned '(?P<type>[^']*)'"
)
GIVEN_TO = re.compile(r"\.register_\w*hook\(\s*(?:[\w.]*\.)?(?P<hook>\w+)\s*[,)]")
"""The line that puts a module's hook on, with the name of its function."""

WHAT = {"size": marked("shape"), "type": marked("dtype"), "device": marked("device")}
ANOTHER = marked(
    "The hook `{hook}` of {culprit} returns a tensor of another {what} than the gradient that it is given: what a hook "
    "returns takes the gradient's place, so the backward call on {victim} has nothing to go on with."
)
NO_TENSOR = marked(
    "The hook `{hook}` of {culprit} returns no tensor but a `{what}`: what a hook returns takes the gradient's place, "
    "so the backward call on {victim} has nothing to go on with."
)
NOT_AS_MANY = marked(
    "The hook `{hook}` of {culprit} returns another number of gradients than it is given, {got} for {wanted}: what a "
    "module's hook returns takes the place of all of them, so the backward call on {victim} has nothing to go on with."
)
OF_THE_LAST_OP = marked(
    "The hook `{hook}` of {culprit} returns another number of gradients than it is given, {got} for {wanted}: "
    "`register_backward_hook` gives it those of the last op that its module computes, and what it returns takes the "
    "place of all of them, so the backward call on {victim} has nothing to go on with."
)
RETURN_NOTHING = marked(
    "If the hook is only to look at the gradient, let it return nothing: keep the number, without `return`. If it is "
    "to change it, return one of the same shape and dtype, `grad * factor`."
)
RETURN_AS_MANY = marked(
    "Return as many as it is given, in their order: `(new, *given[1:])`; a hook that only looks returns nothing."
)
FULL = marked(
    "Return as many as it is given, in their order, `(new, *given[1:])`, or put it on another module; "
    "`register_full_backward_hook` gives a hook one for each input of its module."
)


@dataclass(frozen=True, slots=True)
class _Hook:
    """The user's: what it is called, where it is put on, and on which tensor; None for a module's."""

    name: str
    place: Place | None
    tensor: int | None = None
    before: bool = False  # it is given the gradients of the results


@finder(order=4)
def find_changed(recording: Recording) -> Iterator[Diagnosis]:
    """One for each such error: the line that returns it where that was found, else the one that puts the hook on."""
    for error in errors_with(recording, "has changed the", "hook returned", "has returned an incorrect number"):
        found = REFUSED.search(error.text)
        if found is not None:
            yield from _describe_changed(recording, error, found)


def _describe_changed(recording: Recording, error: RaisedError, found: re.Match[str]) -> Iterator[Diagnosis]:
    hooks = _hooks(recording, found)
    hook = hooks[-1] if hooks else _Hook(found["hook"] or "", None)
    if not hook.name or len({each.name for each in hooks}) > 1:
        return
    finding = Finding(
        recording=recording,
        kind=RETURNS,
        frame=error.frame,
        culprit=returned_by(recording, hook.name) or hook.place,
        victim=error.place,
        tensor=hook.tensor if len(hooks) == 1 else None,
    )
    facts: dict[str, Word] = {"how": "changed", "hook": hook.name}
    got, wanted = found["few"] or found["got"], found["of"] or found["wanted"]
    if got:
        legacy = found["legacy"] is not None
        facts |= {"got": got, "wanted": wanted}
        yield finding.told(OF_THE_LAST_OP if legacy else NOT_AS_MANY, FULL if legacy else RETURN_AS_MANY, facts)
    else:
        what: Word = Phrase(WHAT[found["what"]]) if found["what"] else found["type"]
        yield finding.told(ANOTHER if found["what"] else NO_TENSOR, RETURN_NOTHING, {**facts, "what": what})


def _hooks(recording: Recording, found: re.Match[str]) -> list[_Hook]:
    """Those that the error may mean: the one that was found at once, else of the name that it says, or of its kind.

    A module's full hook is called by one of torch's own, whose name is what the error says.
    """
    said = [_Hook(each.fact("hook"), each.place) for each in recording.clues_of("returns")]
    if said:
        return said[-1:]
    on_tensors = [
        _Hook(each.name.rpartition(".")[2], each.place, each.tensor)
        for each in recording.hooks
        if each.kind == "tensor"
    ]
    on_modules = [_on_module(each.place) for each in recording.clues_of("registers")]
    every = [*on_tensors, *on_modules]
    name = (found["hook"] or found["legacy"] or "").rpartition(".")[2]
    if found["got"]:
        return [each for each in on_modules if each.before == (found["pre"] is not None)]
    named = [each for each in every if each.name == name]
    return named or ([] if found["legacy"] else on_modules if name else every)


def _on_module(place: Place) -> _Hook:
    given = GIVEN_TO.search(place.code)
    before = "_pre_hook(" in place.code
    return _Hook(given["hook"] if given is not None else "<lambda>", place, before=before)
