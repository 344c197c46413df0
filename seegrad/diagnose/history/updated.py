"""A leaf that learns, updated between a forward and its backward call: which of their lines is to change its place."""

from __future__ import annotations

import re
from dataclasses import replace

from seegrad.diagnose.evidence import are_in_one_function, called, function_at
from seegrad.diagnose.finding import Finding
from seegrad.model.recording import Place, RaisedError, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word

BELOW_IT = marked("Where the update is to stay, {place} has to be run below it, with all that it computes with.")
TOO_EARLY = marked(
    "{Culprit} computes what the backward call on line {again} goes back from, and that needs {label} as it was then: "
    "{node} from {victim} saved version {saved}, the update on {step} has moved it to version {now}."
)
RUN_IT_LATER = marked(
    "Run that line, and what it computes with, below the update: right before the backward call that it is for."
)
UPDATE_LAST = marked(
    "If both losses may go by the same weights, {place} can wait until the backward calls of both have run."
)
USED_AGAIN = marked(
    "{Culprit} uses {carried} again, which was computed before {step} updated {label}: that is at version {now} now, "
    "and {node} from {victim} saved version {saved}."
)
MAKE_IT_ANEW = marked(
    "Compute {carried} anew there, as line {made} did, or give that line its `.detach()` if what made it is not to be "
    "trained by it."
)


def too_early(finding: Finding, error: RaisedError) -> Finding | None:
    """The same, whose culprit is the line that computes the loss; None where the update may be moved as well.

    A function of the user's goes back from a loss that it is given and updates, for several losses in turn: nothing in
    it can change its place.
    """
    loss, step = computed_on(finding.recording, error), finding.culprit
    if loss is None or step is None or error.place is None or error.place == loss:
        return None
    shared = function_at(finding.recording, step)
    apart = shared is not None and not are_in_one_function(finding.recording, step, loss)
    if not apart or not are_in_one_function(finding.recording, step, error.place):
        return None
    return replace(finding, culprit=loss, instead=((step, UPDATE_LAST),))


def with_the_loss(finding: Finding, error: RaisedError) -> Finding:
    """The same, with the line that computes the loss as the one that may change its place instead of the update."""
    loss = computed_on(finding.recording, error)
    return finding if loss == error.place else replace(finding, instead=((loss, BELOW_IT),))


def computed_on(recording: Recording, error: RaisedError) -> Place | None:
    """The line, in a function under way, that gave what a failing call goes back from its name."""
    roots = recording.frames[error.frame].inputs
    name = called(recording, roots[0]) if roots else None
    return dict(error.bound).get(name or "")


def made_on(recording: Recording, error: RaisedError, tensor: int) -> dict[str, Word]:
    """The line of a function under way that gave a tensor its name, as a fact; nothing where there's none."""
    line = dict(error.bound).get(called(recording, tensor) or "")
    return {} if line is None else {"made": line.line}


def speaking_of(names: list[str], inner: Place | None, outer: Place | None) -> Place | None:
    """Of a line that takes up these variables and the one that called its function, the one that speaks of them."""
    speaks = [re.compile(rf"\b{re.escape(name.partition('[')[0])}\b") for name in names if name]
    by_name = [any(each.search(place.code) for each in speaks) for place in (inner, outer) if place is not None]
    return outer if outer is not None and by_name == [False, True] else inner
