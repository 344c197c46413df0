"""Averages of another model's weights without its buffers: in evaluation mode the copy normalises by no batch."""

from __future__ import annotations

from collections.abc import Iterator

from seegrad.diagnose.evidence import label
from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.model.recording import Diagnosis, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word

LEFT_BEHIND = DiagnosisKind("statistics_left_behind", "note", marked("statistics left behind"))
SAID = marked(
    "{Culprit} writes {label} from {source}, but not the statistics beside it: the running mean and variance, which "
    "training moves in the one model, are still 0 and 1 in the other, as they were made, and {victim} normalises by "
    "these."
)
ADVICE = marked(
    "If the copy is to compute in evaluation mode, give it the buffers, too: beside the Parameters, go over the "
    "`buffers()` of both models, and `copy_` each into the copy's."
)


@finder(order=36)
def find_left_behind(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line that writes so, where the copy was used."""
    used = {each.tensors: each for each in recording.clues_of("average used")}
    for each in recording.clues_of("averaged"):
        copy, model = each.tensors
        finding = Finding(
            recording=recording,
            kind=LEFT_BEHIND,
            frame=each.frame,
            culprit=each.place,
            victim=used[each.tensors].place,
            tensor=copy,
        )
        facts: dict[str, Word] = {"label": label(recording, copy), "source": label(recording, model)}
        yield finding.told(SAID, ADVICE, facts)
