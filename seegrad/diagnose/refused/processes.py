"""Parameters that no loss reaches, in a model that `DistributedDataParallel` wraps: it waits for them, and refuses."""

from __future__ import annotations

from collections.abc import Iterator

from seegrad.diagnose.evidence import errors_with
from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.diagnose.training.held import NUMBERED
from seegrad.model.recording import Diagnosis, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word, plural

CORE = "finished reduction in the prior iteration"
WAITED_FOR = DiagnosisKind("waited_for", "error", marked("a gradient is waited for"), (marked("waits for all"),))

SAID = marked(
    "{Culprit} builds `{module}`{more}, and nothing of it came into the last loss: `DistributedDataParallel` waits for "
    "a gradient of each Parameter before the forward on {victim}, so torch refuses."
)
UNKNOWN = marked(
    "Some Parameters came into no loss: `DistributedDataParallel` waits for a gradient of each before the forward on "
    "{victim}, so torch refuses."
)
ADVICE = marked(
    "Take it out of the model if it isn't needed, or let the loss come of it; if it is used now and then, "
    "`DistributedDataParallel(…, find_unused_parameters=True)`."
)


@finder(order=12)
def find_waited_for(recording: Recording) -> Iterator[Diagnosis]:
    """The line that builds what the last loss didn't come of."""
    for error in errors_with(recording, CORE):
        clues = list(recording.clues_of("unreached"))
        place = clues[0].place if clues else None
        facts: dict[str, Word] = {"module": NUMBERED.sub(r"[\1]", clues[0].fact("module"))} if clues else {}
        count = len(clues) - 1
        more = plural(" (and {count} more module)", " (and {count} more modules)", count) if count > 0 else ""
        finding = Finding(recording=recording, kind=WAITED_FOR, frame=error.frame, culprit=place, victim=error.place)
        yield finding.told(SAID if clues else UNKNOWN, ADVICE, facts, more=more)
