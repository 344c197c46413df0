"""What an optimiser gathers from step to step begins anew with zeros at each: a momentum without a memory."""

from __future__ import annotations

from collections.abc import Iterator

from seegrad.diagnose.evidence import label
from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.diagnose.training.steps import leaves_of
from seegrad.model.recording import Diagnosis, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word

ANEW = DiagnosisKind("state_made_anew", "note", marked("a state made anew at each step"))
SAID = marked(
    "{Culprit} puts new zeros in the place of `{key}`, which the optimiser keeps for {label}, before the step has read "
    "the old one, time after time: what was gathered there is lost, and the step on {victim} has nothing of it."
)
ADVICE = marked(
    'If it is to be carried over from step to step, make it once: under `if "{key}" not in state:`, or where '
    "`len(state) == 0`."
)


@finder(order=36)
def find_states_made_anew(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line that makes such a state."""
    for each in recording.clues_of("zeros"):
        leaf = each.tensors[0]
        steps = (use for use in reversed(recording.uses) if use.kind == "stepped" and leaf in leaves_of(use))
        step = next(steps, None)
        finding = Finding(
            recording=recording,
            kind=ANEW,
            frame=each.frame,
            culprit=each.place,
            victim=step.place if step is not None else each.place,
            tensor=leaf,
        )
        facts: dict[str, Word] = {"key": each.fact("name"), "label": label(recording, leaf)}
        yield finding.told(SAID, ADVICE, facts)
