"""Labels that a loss takes for something else: 0 and 1 where it wants −1 and 1, or the other way round; one a batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from seegrad.diagnose.evidence import label, ran
from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.diagnose.losses.fitted.reach import OUT_OF_REACH
from seegrad.model.recording import Clue, Diagnosis, Frame, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word

OTHER_LABELS = DiagnosisKind(OUT_OF_REACH.name, OUT_OF_REACH.severity, marked("labels that the loss doesn't take"))
ONE_CLASS = DiagnosisKind("one_class_in_a_batch", "note", marked("one class in each batch"))

ENDLESS = marked(
    "{Culprit} gives `{loss}` the labels {label}, whose numbers lie between {least} and {most}: it takes "
    "probabilities, from 0 to 1, and beyond these it has no least value, so the loss falls below 0, and without end."
)
TO_SHARES = marked("Give it 0 and 1, or what lies between; of −1 and 1 they come by `({name} + 1) / 2`.")
NO_SIDE = marked(
    "{Culprit} gives `{loss}` the labels {label}, which are 0 and 1: it takes 1 for the one side and −1 for the other, "
    "and of 0 it learns nothing."
)
TO_SIDES = marked("Give it 1 and −1, by `2 * {name} - 1`, if 0 is to be the other side.")
SORTED = marked(
    "{Culprit} goes through the classes one after the other: {alone} of the {calls} batches looked at hold one class "
    "alone, {label} is one number there, and the next batches have the same one, before another comes. Each step "
    "forgets for this class what was learned for the others."
)
SHUFFLE = marked(
    "If the samples are independent of each other, mix them before each epoch: `shuffle=True` of a loader, or an "
    "order by `torch.randperm`."
)

SHARES = frozenset({"binary_cross_entropy_with_logits"})
"""Losses that take what they aren't made for; `binary_cross_entropy` is refused it by torch."""

SIDES = frozenset({"cosine_embedding_loss", "margin_ranking_loss", "soft_margin_loss"})
"""Losses that are a constant where the side is 0; `hinge_embedding_loss` isn't."""

CLASSES = frozenset({"cross_entropy", "nll_loss"})

SLACK = 1e-3
"""So far from 0 and 1 a rounding may lie."""

SEVERAL, MOST_MIXED, LONG = 8, 0.3, 3
"""So many batches are seen, such a share of them may be mixed, and so many in a row, on average, are of one class."""


@finder(order=37)
def find_labels(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line of a loss that is given such."""
    stepped = any(use.kind == "stepped" for use in recording.uses)
    for clue in recording.clues_of("fitted") if stepped else ():
        shown = ran(recording, recording.frames[clue.frame])
        if shown is not None:
            yield from _told(recording, clue, shown)


def _told(recording: Recording, clue: Clue, shown: Frame) -> Iterator[Diagnosis]:
    loss, low, high = recording.frames[clue.frame].op, float(clue.fact("low")), float(clue.fact("high"))
    words: dict[str, Word] = {"label": label(recording, clue.tensors[1])}
    words["name"] = recording.tensors[clue.tensors[1]].name or "labels"
    facts: dict[str, Word] = {"loss": loss, "least": clue.fact("low"), "most": clue.fact("high")}
    if loss in SHARES and (low < -SLACK or high > 1 + SLACK):
        yield _finding(recording, clue, shown, OTHER_LABELS).told(ENDLESS, TO_SHARES, facts, **words)
    elif loss in SIDES and (low, high) == (0, 1):
        yield _finding(recording, clue, shown, OTHER_LABELS).told(NO_SIDE, TO_SIDES, facts, **words)
    elif loss in CLASSES and _is_sorted(clue):
        counts: dict[str, Word] = {"alone": int(clue.fact("alone")), "calls": int(clue.fact("calls"))}
        finding = _finding(recording, clue, shown, ONE_CLASS)
        loader = next((each.place for each in recording.clues_of("in order") if each.frame == clue.frame), None)
        finding = replace(finding, culprit=loader or clue.place, victim=clue.place)
        yield finding.told(SORTED, SHUFFLE, counts, **words)


def _is_sorted(clue: Clue) -> bool:
    """Several classes, one after the other, each for several batches that hold nothing else."""
    calls, alone, values, changes = (int(clue.fact(each)) for each in ("calls", "alone", "values", "changes"))
    return values > 1 and alone >= max(SEVERAL, (1 - MOST_MIXED) * calls) and (changes + 1) * LONG <= alone


def _finding(recording: Recording, clue: Clue, shown: Frame, kind: DiagnosisKind) -> Finding:
    tensor = clue.tensors[1]
    place = recording.frames[clue.frame].place
    return Finding(recording=recording, kind=kind, frame=shown.index, culprit=place, victim=shown.place, tensor=tensor)
