"""Tied weights that a call has made two of."""

from __future__ import annotations

from collections.abc import Iterator

from seegrad.diagnose.evidence import label
from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.model.recording import Diagnosis, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word

UNTIED = DiagnosisKind("tie_undone", "note", marked("tied weights made two"))
TWO_OF_ONE = marked(
    "{Culprit} made two of one Parameter: {first} and {second} were tied, and since then each has numbers and a "
    "gradient of its own, so the step on {victim} trains them apart."
)
TIE_AGAIN = marked(
    "If they are meant to be one, tie them again behind that line, before the optimiser is made: "
    "`head.weight = embedding.weight`."
)


@finder(order=23)
def find_untied(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line that did so; the first two of it."""
    told = set[object]()
    for each in recording.clues_of("untied"):
        if each.place not in told:
            told.add(each.place)
            steps = (use for use in recording.uses if use.kind == "stepped" and use.frame >= each.frame)
            step = next(steps, None)
            finding = Finding(
                recording=recording,
                kind=UNTIED,
                frame=each.frame,
                culprit=each.place,
                victim=step.place if step is not None else None,
                tensor=each.tensors[0],
            )
            first, second = (label(recording, tensor) for tensor in each.tensors)
            facts: dict[str, Word] = {"first": first, "second": second}
            yield finding.told(TWO_OF_ONE, TIE_AGAIN, facts)
