"""A training on one batch: the loader is begun anew for each step, and hands out its data in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from seegrad.diagnose.evidence import ran
from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.diagnose.numbers.known import Makers
from seegrad.model.recording import Diagnosis, Frame, Recording
from seegrad.words.languages import marked

FIRST = DiagnosisKind("first_batch_only", "note", marked("always the first batch"))
BEGUN_AGAIN = marked(
    "{Culprit} begins `{loader}` anew each time and takes its first batch; it hands out its data in order, so each "
    "backward call on {victim} learns from the same samples, and the others are never seen."
)
GO_ON = marked(
    "If all data is to count, go through the loader, `for batch in {loader}:`, or begin it once, before the loop, and "
    "take `next` of that; `shuffle=True` draws anew each time. To fit one batch on purpose, take it once, before the "
    "loop."
)

FARTHEST = 64
"""So many results on is followed what is computed of a batch."""


@finder(order=35)
def find_first_batches(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each such line whose batch a backward call has come to."""
    for each in recording.clues_of("first batch"):
        shown = _learnt_from(recording, each.tensors)
        if shown is not None:
            finding = Finding(
                recording=recording,
                kind=FIRST,
                frame=shown.index,
                culprit=each.place,
                victim=shown.place,
                tensor=each.tensors[0],
            )
            yield finding.told(BEGUN_AGAIN, GO_ON, {"loader": each.fact("loader")})


def _learnt_from(recording: Recording, batch: Sequence[int]) -> Frame | None:
    """The backward Frame that ran what was computed of it."""
    makers, waiting = Makers(recording), list(batch)
    for tensor in waiting:  # grows while it's read
        for taker in makers.takers(tensor):
            shown = ran(recording, taker) if taker.nodes else None
            if shown is not None:
                return shown
            waiting += [each for each in taker.outputs if each not in waiting][: max(0, FARTHEST - len(waiting))]
    return None
