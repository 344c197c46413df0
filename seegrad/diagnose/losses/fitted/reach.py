"""A result that can't come near what it's compared with: its last function gives no such numbers.

`relu` gives none below 0, `tanh` none beyond 1. What a distance compares with has to lie in that reach; the scores that
a cross-entropy takes are numbers of either sign and any size.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from seegrad.diagnose.evidence import label, ran
from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.diagnose.losses.probabilities import JOINED, SHAPED, TARGET_FIRST, made_on
from seegrad.diagnose.numbers.known import Makers, Span
from seegrad.model.recording import Clue, Diagnosis, Frame, Place, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Phrase, Word

OUT_OF_REACH = DiagnosisKind("out_of_reach", "note", marked("the target is out of reach"))
CUT_OFF = DiagnosisKind(OUT_OF_REACH.name, OUT_OF_REACH.severity, marked("scores that are cut off"))

NOT_BELOW = marked("no number below {low}")
NOT_ABOVE = marked("no number above {high}")
BETWEEN = marked("only numbers from {low} to {high}")

COMPARED = marked(
    "{Culprit} gives {reach}, by `{op}`, and {victim} compares that with {label}, whose numbers lie between {least} "
    "and {most}: those beyond are never reached, however long it trains."
)
FIT = marked(
    "If it is to come near {label}, leave out that `{op}`, or bring {label} between {low} and {high} by numbers that "
    "stay the same, and bring the result back by them."
)
LEAVE = marked("If it is to come near {label}, leave out that `{op}`.")
CUT = marked(
    "{Culprit} gives {reach}, by `{op}`, and `{loss}` on {victim} takes that for scores, which may be of either sign: "
    "no class is ever scored below {low}, and where `{op}` cuts a score off, it learns nothing."
)
BOUNDED = marked(
    "{Culprit} gives {reach}, by `{op}`, and `{loss}` on {victim} takes that for scores, which may be of any size: "
    "these never differ by more, so the loss stays above 0, however well they are chosen."
)
HALF = marked(
    "{Culprit} gives {reach}, by `{op}`, and `{loss}` on {victim} takes that for a score, whose sign says which of the "
    "two it is: no probability comes out below one half."
)
PLAIN = marked("If these are scores, give `{loss}` what `{op}` is given, as the layer has computed it.")

REACH = {
    "relu": Span(0.0, inf),
    "relu_": Span(0.0, inf),
    "softplus": Span(0.0, inf),
    "relu6": Span(0.0, 6.0),
    "sigmoid": Span(0.0, 1.0),
    "hardsigmoid": Span(0.0, 1.0),
    "softmax": Span(0.0, 1.0),
    "tanh": Span(-1.0, 1.0),
    "softsign": Span(-1.0, 1.0),
    "log_softmax": Span(-inf, 0.0),
    "logsigmoid": Span(-inf, 0.0),
}
"""Op → between which numbers its result lies, whatever it's given."""

DISTANCES = frozenset({"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"})
POWERS = frozenset({"pow", "square", "abs", "mul", "norm", "vector_norm", "linalg_norm", "matrix_norm"})
"""Ops that make a distance of a difference."""

SCORES = frozenset({"cross_entropy", "binary_cross_entropy_with_logits", "multilabel_soft_margin_loss"})
CUTS = frozenset({"relu", "relu_", "relu6", "tanh", "softsign"})
"""Ops that leave no scores; what makes probabilities is told of elsewhere."""

SHARE = 4
"""A target lies clearly beyond where that is more than one part in so many of all that it spans."""

FARTHEST = 64


@finder(order=37)
def find_out_of_reach(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line that makes such a result, where an optimiser trains by the comparison."""
    clues = list(recording.clues_of("fitted"))
    if not clues or not any(use.kind == "stepped" for use in recording.uses):
        return
    makers, told = Makers(recording), set[Place | None]()
    for clue in clues:
        loss = recording.frames[clue.frame]
        wanted = Span(float(clue.fact("low")), float(clue.fact("high")))
        made = _made(makers, clue.tensors[0], loss) if _compares(makers, loss) else None
        if made is None or made.place in told or not (loss.op in SCORES or _is_beyond(wanted, REACH[made.op])):
            continue
        shown = ran(recording, loss)
        if shown is not None:
            told.add(made.place)
            yield _describe(recording, clue, made, shown)


def _compares(makers: Makers, loss: Frame) -> bool:
    """Is it a loss of that kind, or a difference of which a distance is made, its sides in their places?"""
    if loss.place is not None and TARGET_FIRST.search(loss.place.code):
        return False
    if loss.op in ("sub", "rsub"):
        return any(taker.op in POWERS for each in loss.outputs for taker in makers.takers(each))
    return loss.op in DISTANCES | SCORES


def _made(makers: Makers, tensor: int, loss: Frame) -> Frame | None:
    """The Frame of the function that all of a tensor has come out of, and has only been shaped since."""
    found, waiting = list[Frame](), [(tensor, loss.index - 1)]
    for each, until in waiting:  # grows while it's read
        made = makers.maker(each, until)
        if made is None or not made.inputs or len(waiting) > FARTHEST:
            return None
        if made.op in REACH and made.nodes and (loss.op not in SCORES or made.op in CUTS):
            found.append(made)
        elif made.op in SHAPED and not made.op.startswith("clamp"):
            waiting.append((made.inputs[0], made.index - 1))
        elif made.op in JOINED:
            waiting += [(part, made.index - 1) for part in made.inputs]
        else:
            return None
    return found[0] if len({made.place for made in found}) == 1 else None


def _is_beyond(wanted: Span, reach: Span) -> bool:
    """Do the numbers that are wanted lie outside by a good part of all that they span?"""
    beyond = max(reach.low - wanted.low, wanted.high - reach.high)
    return beyond > max(wanted.high - wanted.low, 1e-6) / SHARE


def _describe(recording: Recording, clue: Clue, made: Frame, shown: Frame) -> Diagnosis:
    loss, reach = recording.frames[clue.frame], REACH[made.op]
    finding = Finding(
        recording=recording,
        kind=CUT_OFF if loss.op in SCORES else OUT_OF_REACH,
        frame=shown.index,
        culprit=made_on(made),
        victim=loss.place,
        node=recording.nodes[made.nodes[0]],
        tensor=next(iter(made.outputs), None),
    )
    facts: dict[str, Word] = {
        "op": made.op.rstrip("_"),
        "loss": loss.op,
        "low": _said(reach.low),
        "high": _said(reach.high),
    }
    words: dict[str, Word] = {"reach": _reach(reach), "label": label(recording, clue.tensors[1])}
    if loss.op in SCORES:
        half = loss.op != "cross_entropy" and reach.low == 0
        return finding.told(HALF if half else CUT if reach.high == inf else BOUNDED, PLAIN, facts, **words)
    facts |= {"least": clue.fact("low"), "most": clue.fact("high")}
    return finding.told(COMPARED, LEAVE if inf in (-reach.low, reach.high) else FIT, facts, **words)


def _reach(reach: Span) -> Phrase:
    low, high = _said(reach.low), _said(reach.high)
    said = NOT_BELOW if reach.high == inf else NOT_ABOVE if reach.low == -inf else BETWEEN
    return Phrase(said, (("low", low), ("high", high)))


def _said(number: float) -> str:
    return f"{number:g}"
