"""A saved tensor lost its history: `.detach_()` took it. Torch raises where it's used."""

from __future__ import annotations

from collections.abc import Iterator

from seegrad.diagnose.evidence import birthplace, errors_with, label
from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.model.recording import Diagnosis, Frame, RaisedError, Recording
from seegrad.words.languages import marked

DETACHED_CORE = "has been detached in-place"
DETACH = "detach_"
DETACHED = DiagnosisKind("saved_tensor_detached", "error", marked("saved tensor detached"))

TOOK_HISTORY = marked(
    "{Culprit} took the history of {label} away in place, but {node} from {victim} had saved it with that history."
)
LOST_HISTORY = marked("{label} lost its history in place, but {node} from {victim} had saved it with that history.")
DETACH_A_COPY = marked(
    "Give the detached tensor a name of its own (`fixed = {name}.detach()`), "
    "or call `.detach_()` after the backward call."
)


@finder(order=2)
def find_detached(recording: Recording) -> Iterator[Diagnosis]:
    """One Diagnosis for each such error: the culprit is the `.detach_()`, the victim the Node that had saved."""
    for error in errors_with(recording, DETACHED_CORE):
        node = recording.nodes[error.node] if error.node is not None else None
        frame, tensor = detaching(recording, error)
        finding = Finding(
            recording=recording,
            kind=DETACHED,
            frame=error.frame,
            culprit=frame.place if frame else None,
            victim=birthplace(recording, node),
            node=node,
            tensor=tensor,
            route="detach",
        )
        said = TOOK_HISTORY if finding.culprit else LOST_HISTORY
        yield finding.told(said, DETACH_A_COPY, {"label": label(recording, tensor)})


def detaching(recording: Recording, error: RaisedError) -> tuple[Frame | None, int | None]:
    """The Frame of the `.detach_()` that hit one of the failing Node's saved tensors, and that tensor."""
    saved = {each.tensor for each in recording.nodes[error.node].saved} if error.node is not None else set()
    for frame in recording.frames[error.frame :: -1]:
        hit = next((number for number in frame.inputs if number in saved), None)
        if frame.op == DETACH and hit is not None:
            return frame, hit
    return None, None
