"""A copy of a module, or of anything else that holds a result: torch copies leaves alone."""

from __future__ import annotations

from collections.abc import Iterator

from seegrad.diagnose.evidence import errors_with, is_caught, label, made_at
from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.model.recording import Diagnosis, RaisedError, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word

CORE = "support the deepcopy protocol"
COPIED = DiagnosisKind("result_copied", "error", marked("copy of a result"), (marked("a result: can't be copied"),))

SAID = {
    "computed": marked(
        "{Culprit} computed {label}, and what is copied on {victim} holds it: torch copies leaves alone, since the "
        "copy of a result would lose its history."
    ),
    "held": marked(
        "{Culprit} keeps a result in `{held}`, and it is still there when that is copied on {victim}: torch copies "
        "leaves alone, since the copy of a result would lose its history."
    ),
    "norm": marked(
        "{Culprit} has the module keep its {label}, a result, and that is copied on {victim}: torch copies leaves "
        "alone, since the copy of a result would lose its history."
    ),
}
ADVICE = {
    "computed": marked(
        "If its numbers alone are needed there, keep `{name}.detach()`; else let go of it before the copy."
    ),
    "attribute": marked(
        "If its numbers alone are needed there, keep it as `.detach()` gives it. If it is only kept until it is used, "
        "let go of it then, `self.{held} = None`, or return it instead."
    ),
    "collection": marked(
        "If their numbers alone are needed there, put in what `.detach()` or `.item()` gives; else empty it before the "
        "copy."
    ),
    "norm": marked(
        "Use `torch.nn.utils.parametrizations.{held}` instead, which keeps no result: it is computed whenever it is "
        "asked for."
    ),
}
ADVICE["prune"] = marked(
    "That is how `torch.nn.utils.prune` keeps a weight. `prune.remove(module, …)` before the copy makes a Parameter of "
    "it again; or prune the copy."
)
KEEPERS = {"weight_norm": "norm", "spectral_norm": "norm", "prune": "prune"}
"""What of torch's own keeps a result in an attribute → what is said of it."""


@finder(order=12)
def find_copied(recording: Recording) -> Iterator[Diagnosis]:
    """The line that put a result where torch has refused to copy it."""
    for error in errors_with(recording, CORE):
        tensor = next(iter(recording.frames[error.frame].inputs), None)
        if tensor is not None and not is_caught(recording, error):
            yield _describe(recording, error, tensor)


def _describe(recording: Recording, error: RaisedError, tensor: int) -> Diagnosis:
    held, place = error.held, error.held_on
    how = KEEPERS.get(held) or ("computed" if place is None else "collection" if error.among else "attribute")
    finding = Finding(
        recording=recording,
        kind=COPIED,
        frame=error.frame,
        culprit=place or made_at(recording, tensor),
        victim=error.place,
        tensor=tensor,
    )
    facts: dict[str, Word] = {"label": label(recording, tensor), "cause": how, "held": held}
    said = "norm" if how == "norm" and place is not None else "held" if place is not None else "computed"
    return finding.told(SAID[said], ADVICE[how], facts)
