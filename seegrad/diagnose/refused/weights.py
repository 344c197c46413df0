"""Weights that backward is to start with, of another shape than what it starts from."""

from __future__ import annotations

from collections.abc import Iterator

from seegrad.diagnose.evidence import errors_with, is_caught, label
from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.model.recording import Diagnosis, Recording
from seegrad.words.languages import marked

CORE = "Mismatch in shape: grad_output"
WEIGHTS = DiagnosisKind("weights_of_another_shape", "error", marked("weights of another shape"))

SAID = {
    "one": marked(
        "{Culprit} starts from {label}, a single number, and gives the call weights that are more than one: there's "
        "nothing to weigh."
    ),
    "many": marked(
        "{Culprit} starts from {label}, of shape {shape}, and gives the call weights of another shape: each number "
        "has one weight."
    ),
}
ADVICE = {
    "one": marked(
        "Leave the weights away; if they are meant for the numbers that it was summed from, start from those: "
        "`scores.backward(weights)` is `(scores * weights).sum().backward()`."
    ),
    "many": marked(
        "Give weights of shape {shape}; `torch.ones_like({name})` is the same as starting from its `.sum()`."
    ),
}


@finder(order=12)
def find_weights(recording: Recording) -> Iterator[Diagnosis]:
    """The call that was given them; of a call that starts from several it isn't known which was meant."""
    for error in errors_with(recording, CORE):
        roots = recording.frames[error.frame].inputs
        if len(roots) == 1 and not is_caught(recording, error):
            shape = recording.tensors[roots[0]].shape
            how = "many" if shape else "one"
            finding = Finding(
                recording=recording,
                kind=WEIGHTS,
                frame=error.frame,
                culprit=error.place,
                victim=error.place,
                tensor=roots[0],
            )
            facts = {"label": label(recording, roots[0]), "shape": str(list(shape))}
            yield finding.told(SAID[how], ADVICE[how], facts)
