"""A term of a loss that compares numbers, none of which has a graph: what it says, nothing learns."""

from __future__ import annotations

from collections.abc import Iterator

from seegrad.diagnose.cut import cause, line_to_change, roots_of
from seegrad.diagnose.finding import Finding, finder
from seegrad.diagnose.history.flow import Cut, Flow
from seegrad.diagnose.numbers.constant import CONSTANT, SCALES, SUMS, backward_only
from seegrad.diagnose.numbers.known import Makers
from seegrad.model.recording import Diagnosis, Frame, Place, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word

COMPARES = frozenset(
    {"kl_div", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "cross_entropy", "nll_loss", "soft_margin_loss"}
    | {"binary_cross_entropy", "binary_cross_entropy_with_logits", "gaussian_nll_loss", "poisson_nll_loss"}
    | {"cosine_embedding_loss", "margin_ranking_loss", "triplet_margin_loss", "ctc_loss"}
)
"""torch's functions that say how far the first that they're given is from where it should be."""

SAID = marked(
    "{Culprit} computes what `{op}` on line {compared_on} is to bring to its target, of numbers without a graph: that "
    "term of the loss on {victim} is constant, and nothing learns from it."
)
ADVICE = marked(
    "If something is meant to learn from it, compute that of what the model gives with gradients on; if it is only to "
    "be watched, leave it out of the sum."
)
ENDED = marked(
    "What it is computed of has lost its graph on {place}: where that keeps it, what made it gets a gradient."
)


@finder(order=13)
def find_still_terms(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line of such a term, where other terms learn, and one side came of a model without gradients."""
    flow, makers, frames, since, told = Flow(recording), Makers(recording), iter(recording.frames), 0, set[Place]()
    for call in backward_only(recording):
        for frame in frames:
            flow.remember(frame)
            if frame.index >= call[0].index:
                break
        leaves = {recording.nodes[frame.running].leaf for frame in call if frame.running is not None}
        for made in _terms(recording, makers, call[0], since):
            place = made.place
            cuts = _cuts_of_a_model(flow, made, leaves) if place is not None and place not in told else []
            if place is not None and cuts:
                told.add(place)
                yield _describe(recording, makers, made, call, cuts)
        since = call[-1].index


def _describe(recording: Recording, makers: Makers, compared: Frame, call: list[Frame], cuts: list[Cut]) -> Diagnosis:
    """The culprit is the line that made the first of what is compared."""
    made = makers.maker(compared.inputs[0], compared.index - 1)
    place = made.place if made is not None and made.phase == "forward" else None
    ends = [line_to_change(recording, each, cause(recording, each)) for each in cuts]
    finding = Finding(
        recording=recording,
        kind=CONSTANT,
        frame=call[-1].index,
        culprit=place or compared.place,
        victim=call[0].place,
        instead=tuple((each, ENDED) for each in dict.fromkeys(ends)) if len(set(ends)) == 1 else (),
    )
    facts: dict[str, Word] = {"cause": "compared", "op": compared.op}
    return finding.told(SAID, ADVICE, facts, compared_on=compared.place.line if compared.place else 0)


def _terms(recording: Recording, makers: Makers, first: Frame, since: int) -> Iterator[Frame]:
    """The Frames since then that compared without a graph, and of whose results, or shares of them, the loss is."""
    roots = (root for root in roots_of(recording, first) if not recording.tensors[root].is_leaf)
    waiting = [(root, first.index) for root in roots]  # of a leaf nothing else would learn either: it's no sum
    seen = set(waiting)
    while waiting:
        tensor, until = waiting.pop()
        frame = makers.maker(tensor, until)
        if frame is None or frame.phase == "backward" or frame.index <= since:
            continue
        if frame.op in COMPARES and not recording.tensors[tensor].requires_grad:  # by its result: an input may be gone
            yield frame
        elif frame.op in SUMS | SCALES:
            parts = [(each, frame.index - 1) for each in frame.inputs]
            waiting += [each for each in parts if each not in seen]
            seen.update(parts)


def _cuts_of_a_model(flow: Flow, made: Frame, leaves: set[int | None]) -> list[Cut]:
    """Where one side, computed of leaves, lost its graph. Of those that the call trains, another finder tells."""
    cuts = list(flow.cuts(made.inputs, set()))
    behind = {leaf for cut in cuts for leaf in flow.behind(cut.given, set())}
    return cuts if leaves.isdisjoint(behind) else []
