"""What is read as probabilities of classes: scores that nothing has normalised, or that add up to 1 elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from seegrad.diagnose.evidence import label, ran
from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.diagnose.losses.probabilities import SHAPED, TARGET_FIRST
from seegrad.diagnose.numbers.known import Makers
from seegrad.diagnose.numbers.shapes import LAYERS
from seegrad.model.recording import Diagnosis, Frame, Place, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word

NORMALISED = DiagnosisKind("not_normalised", "note", marked("no probabilities of the classes"))

SCORES = marked(
    "{Culprit} gives `{loss}` what a layer has computed, by `{layer}` on {made}: `{loss}` takes the logarithms of "
    "probabilities, and nothing has made the scores such. The loss falls without end as they grow."
)
SCORES_OF_CRITERION = marked(
    "{Culprit} makes a loss that takes the logarithms of probabilities, and {victim} gives it what a layer has "
    "computed, by `{layer}` on {made}: nothing has made the scores such. The loss falls without end as they grow."
)
NORMALISE = marked(
    "If these are scores of classes, give them to `F.cross_entropy`, which takes them as they are, or put "
    "`log_softmax` in between."
)
OTHERWISE = marked(
    "{Culprit} has the numbers add up to 1 along dimension {axis}, and `{loss}` on {taken} reads the classes along "
    "dimension {classes}: what it takes for the probabilities of one sample's classes doesn't add up to 1."
)
ALONG_CLASSES = marked("If they are the classes' probabilities, normalise along their dimension: `dim={classes}`.")
OVER_SAMPLES = marked(
    "{Culprit} has the numbers add up to 1 along dimension 0, and `{loss}` on {taken} takes dimension 0 for one matrix "
    "after the other: each weight shares its 1 with those at the same place of the other matrices, the other samples."
)
ALONG_SUMMED = marked("If each row of weights is to add up to 1, normalise along the last dimension: `dim=-1`.")
BRANCHES = marked(
    "{Culprit} has the numbers add up to 1 along dimension {axis}, the first of each of the {count} results that were "
    "stacked, and {taken} weighs {count} others by them and adds those up along dimension {summed}: there the weights "
    "don't add up to 1, and each place along dimension {axis} (each sample, say) depends on all others."
)
ALONG_BRANCHES = marked(
    "If the weights of the {count} are to add up to 1, normalise along the dimension that is added up: `dim={summed}`."
)

PRODUCTS = frozenset({"matmul", "__matmul__", "bmm"})
WEIGHS = frozenset({"mul", "__mul__"})
SAME = frozenset({"clone", "contiguous", "to", "float", "double", "dropout", "log"})
"""Ops by which the dimensions stay where they are."""

TAKES = {"nll_loss", "kl_div"}
FARTHEST = 16


@dataclass(frozen=True, slots=True)
class _Mistake:
    """The Frame that normalises along `axis`, and the one that takes the result; and where that runs backward."""

    made: Frame
    axis: int
    taken: Frame
    shown: Frame
    summed: int = 0


@finder(order=15)
def find_scores(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line of such a loss that is given what a layer with Parameters has made, as it is."""
    makers, told = Makers(recording), set[Place | None]()
    for frame in recording.frames:
        takes = frame.op in TAKES and frame.nodes and frame.inputs and frame.place not in told
        layer = _layer(recording, makers, frame) if takes else None
        shown = ran(recording, frame) if layer is not None else None
        if layer is not None and shown is not None:
            told.add(frame.place)
            finding = Finding(
                recording=recording,
                kind=NORMALISED,
                frame=shown.index,
                culprit=frame.built or frame.place,
                victim=shown.place if frame.built is None else frame.place,
                tensor=frame.inputs[0],
            )
            facts: dict[str, Word] = {"how": "scores", "loss": frame.op, "label": label(recording, frame.inputs[0])}
            said = SCORES if frame.built is None else SCORES_OF_CRITERION
            yield finding.told(said, NORMALISE, facts, layer=layer.op, made=finding.line(layer.place))


def _layer(recording: Recording, makers: Makers, loss: Frame) -> Frame | None:
    """The Frame of the layer whose result, at most shaped, a loss is given."""
    tensor, until = loss.inputs[0], loss.index - 1
    if loss.place is not None and TARGET_FIRST.search(loss.place.code):
        return None
    for _ in range(FARTHEST):
        made = makers.maker(tensor, until)
        if made is None or not made.inputs or made.writes:
            return None
        if made.op in LAYERS:
            learns = (recording.tensors[each] for each in made.inputs[1:])
            return made if any(ref.is_leaf and ref.requires_grad for ref in learns) else None
        if made.op not in SHAPED or made.op.startswith("clamp"):
            return None
        tensor, until = made.inputs[0], made.index - 1
    return None


@finder(order=15)
def find_normalised_elsewhere(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line that normalises along a dimension which isn't the one that is read so."""
    makers, told = Makers(recording), set[Place | None]()
    for node in recording.nodes:
        made = recording.frames[node.frame]
        if node.axis is None or made.place in told or not made.inputs or not made.outputs:
            continue
        dimensions = len(recording.tensors[made.outputs[0]].shape)
        found = _misread(recording, makers, made, node.axis % dimensions) if dimensions > 1 else None
        if found is not None:
            told.add(made.place)
            yield _describe(recording, found)


def _misread(recording: Recording, makers: Makers, made: Frame, axis: int) -> _Mistake | None:
    waiting = list(made.outputs[:1])
    for tensor in waiting:  # grows while it's read
        for taker in makers.takers(tensor) if len(waiting) < FARTHEST else ():
            first = taker.inputs[0] == tensor
            classes = taker.op == "nll_loss" and first and axis != 1
            if classes or (taker.op in PRODUCTS and first and _is_of_matrices(recording, taker) and axis == 0):
                shown = ran(recording, taker)
                if shown is not None:
                    return _Mistake(made, axis, taker, shown)
            elif taker.op in WEIGHS and (summed := _weighed(recording, makers, made, axis, taker)) is not None:
                shown = ran(recording, taker)
                if shown is not None:
                    return _Mistake(made, axis, taker, shown, summed)
            elif taker.op in SAME:
                waiting += [each for each in taker.outputs if each not in waiting]
    return None


def _weighed(recording: Recording, makers: Makers, made: Frame, axis: int, product: Frame) -> int | None:
    """The dimension along which what they weigh, stacked as they are, is added up; `axis` is the first of each part."""
    if len(product.inputs) != 2 or not product.outputs:
        return None
    weights = _stacked(recording, makers, made.inputs[0], made.index - 1)
    others = [each for each in product.inputs if each not in made.outputs]
    other = _stacked(recording, makers, others[0], product.index - 1) if len(others) == 1 else None
    along = weights if weights is not None and weights == other else None
    if along is None or axis != int(along == 0):
        return None
    shapes = [recording.tensors[each].shape for each in (made.outputs[0], others[0], product.outputs[0])]
    whole = shapes[2]
    if len({len(shape) for shape in shapes}) > 1 or shapes[0][axis] != shapes[1][axis] or len(whole) < 3:
        return None
    sums = (each for each in makers.takers(product.outputs[0]) if each.op == "sum" and each.outputs)
    left = {recording.tensors[each.outputs[0]].shape for each in sums}
    gone = [at for at in range(len(whole)) if whole[:at] + whole[at + 1 :] in left]
    return along if gone == [along] else None


def _stacked(recording: Recording, makers: Makers, tensor: int, until: int) -> int | None:
    """The dimension along which a tensor was stacked; None where it wasn't, or its sizes don't say."""
    made = makers.maker(tensor, until)
    if made is None or made.op != "stack" or len(made.inputs) < 2 or not made.outputs:
        return None
    part, whole = (recording.tensors[each].shape for each in (made.inputs[0], made.outputs[0]))
    places = [at for at, size in enumerate(whole) if size == len(made.inputs) and whole[:at] + whole[at + 1 :] == part]
    return places[0] if len(places) == 1 else None


def _is_of_matrices(recording: Recording, product: Frame) -> bool:
    """Is it one product of two matrices after the other, as many of both?"""
    one, other = (recording.tensors[each].shape for each in product.inputs[:2]) if len(product.inputs) > 1 else ((), ())
    return len(one) == len(other) > 2 and one[0] == other[0] > 1


def _describe(recording: Recording, found: _Mistake) -> Diagnosis:
    tensor = found.made.outputs[0]
    finding = Finding(
        recording=recording,
        kind=NORMALISED,
        frame=found.shown.index,
        culprit=found.made.built or found.made.place,
        victim=found.taken.place,
        tensor=tensor,
    )
    of_classes, of_branches = found.taken.op == "nll_loss", found.taken.op in WEIGHS
    said, advice = (OTHERWISE, ALONG_CLASSES) if of_classes else (OVER_SAMPLES, ALONG_SUMMED)
    if of_branches:
        said, advice = BRANCHES, ALONG_BRANCHES
    facts: dict[str, Word] = {
        "how": "axis",
        "loss": found.taken.op,
        "axis": found.axis,
        "label": label(recording, tensor),
    }
    words: dict[str, Word] = {"taken": finding.line(found.taken.place), "classes": 1}
    if of_branches:
        words = {
            "taken": words["taken"],
            "summed": found.summed,
            "count": recording.tensors[tensor].shape[found.summed],
        }
    return finding.told(said, advice, facts, **words)
