"""A layer that runs along the axis of the samples, by the `batch_first` that it has: they mix, and no step is followed.

What the loss compares with tells where the samples are: it has a row for each, and nothing for each step of one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from seegrad.diagnose.evidence import label, nodes_behind, ran
from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.diagnose.numbers.known import Makers
from seegrad.model.recording import LOADER, Clue, Diagnosis, Frame, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word

ALONG_SAMPLES = DiagnosisKind("another_axis", "note", marked("runs along the samples"))

ALONG_THE_FIRST = marked(
    "The `{layer}` of {culprit} has `batch_first=False`, which is the default: it runs along the first of the axes "
    "{shape} that it is given on {victim}, and takes the second one for the samples. But what {loss} compares with, "
    "{label}, has {along} rows, and none for each of {beside}. If the first axis holds the samples, the result of each "
    "is computed of others in its batch, and none goes along its own {beside} steps."
)
MAKE_IT_FIRST = marked("If so, make the `{layer}` with `batch_first=True`.")
ALONG_THE_SECOND = marked(
    "The `{layer}` of {culprit} has `batch_first=True`: it runs along the second of the axes {shape} that it is given "
    "on {victim}, and takes the first one for the samples. But what {loss} compares with, {label}, has {along} rows, "
    "and none for each of {beside}. If the second axis holds the samples, the result of each is computed of others in "
    "its batch, and none goes along its own {beside} steps."
)
SAMPLES_FIRST = marked("If so, give it the samples first, or make it with `batch_first=False` where they come second.")

SECOND = frozenset({
    "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy_with_logits", "binary_cross_entropy",
    "cross_entropy", "nll_loss",
})  # fmt: skip
DIFFERENCES = frozenset({"sub", "rsub"})
RUNS = frozenset({"lstm", "gru", "rnn_tanh", "rnn_relu"})
ATTENDS = "multi_head_attention_forward"
"""It is given the axis that it runs along first, whatever its module was given."""

TAKES = frozenset({"__getitem__", "select"})
SHAPES = frozenset({"to", "float", "long", "unsqueeze", "squeeze", "view", "reshape"})
DRAWS = frozenset({"__getitem__", "index_select"})
"""Ops by which samples are drawn, where they are given an index."""

SEVERAL, MOST = 2, 64
"""So many losses have to be seen, and so many are."""


@dataclass(frozen=True, slots=True)
class _ComparedRun:
    """A loss, the run that it was computed of, and what it compares with; sizes of that run's axes."""

    run: Frame
    loss: Frame
    target: int
    along: int
    beside: int
    behind: frozenset[int]  # Nodes of the loss


@finder(order=38)
def find_another_axis(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line that calls such a layer, where an optimiser trains by the comparison."""
    clues = list(recording.clues_of("axes")) if any(use.kind == "stepped" for use in recording.uses) else []
    losses = list(_losses(recording))[:MOST] if clues else []
    makers = Makers(recording)
    for clue in clues:
        found = list(_compared(recording, clue, losses))
        if len({each.loss.index for each in found}) < SEVERAL or not all(_has_rows(recording, each) for each in found):
            continue
        if _is_taken_apart(found) or not _are_samples(recording, makers, found, first=clue.fact("first") == "1"):
            continue
        shown = ran(recording, found[0].run)
        if shown is not None:
            yield _describe(recording, clue, found[0], shown)


def _describe(recording: Recording, clue: Clue, found: _ComparedRun, shown: Frame) -> Diagnosis:
    first, given = clue.fact("first") == "1", found.run.inputs[0]
    finding = Finding(
        recording=recording,
        kind=ALONG_SAMPLES,
        frame=shown.index,
        culprit=found.run.built or clue.place,
        victim=clue.place,
        node=recording.nodes[shown.running] if shown.running is not None else None,
        tensor=given,
    )
    rest = recording.tensors[given].shape[2:]
    axes = (found.beside, found.along) if first else (found.along, found.beside)
    facts: dict[str, Word] = {
        "layer": clue.fact("layer"),
        "along": found.along,
        "beside": found.beside,
        "shape": str([*axes, *rest]),
    }
    words: dict[str, Word] = {"loss": finding.line(found.loss.place), "label": label(recording, found.target)}
    if first:
        return finding.told(ALONG_THE_SECOND, SAMPLES_FIRST, facts, **words)
    return finding.told(ALONG_THE_FIRST, MAKE_IT_FIRST, facts, **words)


def _losses(recording: Recording) -> Iterator[tuple[Frame, int]]:
    """Each comparison that learns, and what it compares with."""
    tensors = recording.tensors
    for frame in recording.frames:
        if frame.phase == "forward" and frame.nodes and frame.op in SECOND | DIFFERENCES and len(frame.inputs) > 1:
            sides = frame.inputs[:2]
            if frame.op in DIFFERENCES:
                known = [each for each in sides if not tensors[each].requires_grad]
                if len(known) == 1 and tensors[sides[0]].shape == tensors[sides[1]].shape:
                    yield frame, known[0]
            elif not tensors[sides[1]].requires_grad:
                yield frame, sides[1]


def _compared(recording: Recording, clue: Clue, losses: Sequence[tuple[Frame, int]]) -> Iterator[_ComparedRun]:
    """The losses that were computed of what that line gave."""
    here = [each for each in recording.frames if each.place == clue.place and each.op in RUNS | {ATTENDS}]
    own = {each.index: [node for node in each.nodes if recording.nodes[node].leaf is None] for each in here}
    for loss, target in losses:
        behind = frozenset(nodes_behind(recording, loss.nodes)) if here else frozenset[int]()
        for run in here:
            if run.index < loss.index and not behind.isdisjoint(own[run.index]):
                one, other = recording.tensors[run.inputs[0]].shape[:2]
                turned = clue.fact("first") == "1" and run.op in RUNS
                yield _ComparedRun(run, loss, target, *((other, one) if turned else (one, other)), behind)


def _has_rows(recording: Recording, found: _ComparedRun) -> bool:
    """One for each along which it ran, and nothing for the others."""
    shape = recording.tensors[found.target].shape
    differ = found.along != found.beside and min(found.along, found.beside) > 1
    return differ and shape[:1] == (found.along,) and found.beside not in shape


def _is_taken_apart(found: Sequence[_ComparedRun]) -> bool:
    """Is there a loss for each of several parts of one run: of every sample, or step, by itself?"""
    lines = [(each.run.index, each.loss.place) for each in found]
    return len(set(lines)) < len(lines)


def _are_samples(recording: Recording, makers: Makers, found: Sequence[_ComparedRun], *, first: bool) -> bool:
    """Does anything beside say that it runs along what is drawn, and not along steps?

    There are more of it or fewer from call to call; it's drawn by an index, or comes from a loader; or of the other
    axis one is taken, as of steps the last.
    """
    varies = len({each.along for each in found}) > 1 and len({each.beside for each in found}) == 1
    if varies or any(_is_drawn(recording, makers, each.target, each.loss.index) for each in found):
        return True
    return any(_is_used_up(recording, each, first=first) for each in found)


def _is_drawn(recording: Recording, makers: Makers, tensor: int, until: int) -> bool:
    made = makers.maker(tensor, until)
    while made is not None and made.op in SHAPES and made.module != LOADER and made.inputs:
        tensor, made = made.inputs[0], makers.maker(made.inputs[0], made.index - 1)
    if made is None or made.module == LOADER:
        return made is not None
    index = recording.tensors[made.inputs[1]] if made.op in DRAWS and len(made.inputs) == 2 else None
    rows = recording.tensors[tensor].shape[:1]
    return index is not None and index.dtype.startswith("int") and index.shape == rows


def _is_used_up(recording: Recording, found: _ComparedRun, *, first: bool) -> bool:
    """Is one taken of the other axis?"""
    axes = (found.beside, found.along) if first else (found.along, found.beside)
    for frame in recording.frames[found.run.index + 1 : found.loss.index]:
        if frame.op in TAKES and not found.behind.isdisjoint(frame.nodes):
            before, after = (recording.tensors[each].shape for each in (frame.inputs[0], frame.outputs[0]))
            if before[:2] == axes and after == (found.along, *before[2:]):
                return True
    return False
