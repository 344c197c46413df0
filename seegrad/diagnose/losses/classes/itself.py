"""Rows that are to find their partners among all rows, with each row itself among the classes."""

from __future__ import annotations

from collections.abc import Iterator

from seegrad.diagnose.evidence import label, ran
from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.diagnose.losses.classes.given import GIVEN
from seegrad.diagnose.numbers.known import Makers
from seegrad.model.recording import Diagnosis, Frame, Place, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word

AMONG_ITSELF = DiagnosisKind(GIVEN.name, GIVEN.severity, marked("each row is among its own classes"))
SAID = marked(
    "{Culprit} compares each row of {label} with every row, itself among them, and `cross_entropy` on {victim} takes "
    "all of them for classes: no other is as like a row as the row itself, so the loss is about the one answer that "
    "needs no learning."
)
ADVICE = marked(
    "If each row is to find another one, take the diagonal out before the loss, "
    "`.masked_fill(torch.eye({rows}, dtype=torch.bool), float('-inf'))`, and let the targets name the others."
)

PAIRWISE = frozenset({"matmul", "__matmul__", "mm", "einsum", "cosine_similarity", "cdist", "inner"})
"""Ops that hold each row of one against each row of the other."""

SCALES = frozenset({"div", "__truediv__", "true_divide", "mul", "__mul__", "__rmul__", "rmul", "neg", "__neg__"})
FARTHEST = 6


@finder(order=36)
def find_rows_among_themselves(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line that compares so, where nothing but a factor comes between it and the loss."""
    makers, told = Makers(recording), set[Place | None]()
    for loss in (frame for frame in recording.frames if frame.op == "cross_entropy" and frame.nodes):
        made = _compared(recording, makers, loss) if _takes_rows_as_classes(recording, loss) else None
        shown = ran(recording, loss) if made is not None and made.place not in told else None
        if made is not None and shown is not None:
            told.add(made.place)
            finding = Finding(
                recording=recording,
                kind=AMONG_ITSELF,
                frame=shown.index,
                culprit=made.place,
                victim=loss.place,
                tensor=made.inputs[0],
            )
            facts: dict[str, Word] = {"label": label(recording, made.inputs[0])}
            yield finding.told(SAID, ADVICE, facts, rows=recording.tensors[loss.inputs[0]].shape[0])


def _takes_rows_as_classes(recording: Recording, loss: Frame) -> bool:
    """As many classes as rows, and one number for each that says which: shares of several may be a teacher's."""
    if len(loss.inputs) < 2:
        return False
    scores, target = (recording.tensors[each] for each in loss.inputs[:2])
    square = len(scores.shape) == 2 and scores.shape[0] == scores.shape[1] > 1
    return square and target.dtype == "int64" and target.shape == scores.shape[:1]


def _compared(recording: Recording, makers: Makers, loss: Frame) -> Frame | None:
    """The Frame that holds each row against each; None where something else was done to that before the loss."""
    tensor, until = loss.inputs[0], loss.index - 1
    for _ in range(FARTHEST):
        made = makers.maker(tensor, until)
        if made is None or not made.inputs:
            return None
        if made.op in PAIRWISE:
            return made if _is_of_one(recording, made) else None
        scored = [each for each in made.inputs if recording.tensors[each].shape]
        if made.op not in SCALES or len(scored) != 1:
            return None
        tensor, until = scored[0], made.index - 1
    return None


def _is_of_one(recording: Recording, made: Frame) -> bool:
    """Are both sides all of one tensor's numbers, the same?"""
    refs = [recording.tensors[each] for each in made.inputs]
    return len(refs) == 2 and len({(ref.storage, ref.span) for ref in refs}) == 1
