"""A module's backward hook that torch refuses: its module's result may not be written, its inputs have no gradient."""

from __future__ import annotations

from collections.abc import Iterator

from seegrad.diagnose.evidence import errors_with, label, maker
from seegrad.diagnose.finding import Finding, finder
from seegrad.diagnose.numbers.slopes import RETURNS
from seegrad.diagnose.writes import HOOKED, VIEW
from seegrad.model.recording import Diagnosis, Place, RaisedError, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word

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
