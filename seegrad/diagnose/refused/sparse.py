"""A table whose gradient is sparse, given to an optimiser that takes dense ones alone."""

from __future__ import annotations

import re
from collections.abc import Iterator

from seegrad.diagnose.evidence import errors_with, label, made_at
from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.model.recording import Diagnosis, Place, RaisedError, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word

CORE = "not support sparse gradients"
SPARSE = DiagnosisKind("sparse_gradient", "error", marked("sparse gradient"), (marked("takes dense gradients alone"),))

SAID = {
    "made": marked(
        "{Culprit} has the gradient of {label} be sparse (it holds those rows alone that were looked up), and the "
        "optimiser that steps on {victim} takes dense ones alone."
    ),
    "stepped": marked(
        "{Culprit} has an optimiser step with the gradient of {label}, which is sparse (it holds those rows alone that "
        "were looked up): it takes dense ones alone."
    ),
}
ADVICE = marked(
    "Leave `sparse=True` out, if the table isn't huge. Else give such tables an optimiser of their own that takes "
    "sparse gradients, `torch.optim.SparseAdam` (or `SGD`, `Adagrad`), and all other Parameters to this one."
)
SAYS_SO = re.compile(r"\bsparse(?:_grad)?\s*=\s*True\b")
LOOKS_UP = frozenset({"embedding", "embedding_bag", "gather"})


@finder(order=12)
def find_sparse(recording: Recording) -> Iterator[Diagnosis]:
    """The line that makes the gradient sparse."""
    for error in errors_with(recording, CORE):
        tensor = next(iter(recording.frames[error.frame].inputs), None)
        if tensor is not None:
            yield _describe(recording, error, tensor)


def _describe(recording: Recording, error: RaisedError, tensor: int) -> Diagnosis:
    place = _said(recording, tensor)
    finding = Finding(
        recording=recording,
        kind=SPARSE,
        frame=error.frame,
        culprit=place or error.place,
        victim=error.place,
        tensor=tensor,
    )
    how = "made" if place is not None else "stepped"
    facts: dict[str, Word] = {"how": how, "label": label(recording, tensor)}
    return finding.told(SAID[how], ADVICE, facts)


def _said(recording: Recording, tensor: int) -> Place | None:
    """Who says so: the call that looks up, the line that made the table, the only line of the file; else that line."""
    uses = (each.place for each in recording.frames if each.op in LOOKS_UP and tensor in each.inputs)
    made = made_at(recording, tensor)
    found = next((each for each in (*uses, made) if each is not None and SAYS_SO.search(each.code)), None)
    lines = [(line, text) for line, text in recording.code if SAYS_SO.search(text)]
    only = Place(recording.code_file, lines[0][0], lines[0][1].strip()) if len(lines) == 1 else None
    return found or only or made
