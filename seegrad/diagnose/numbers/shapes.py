"""Shapes that fit and aren't what was meant: each number meets all others, a softmax has one number to normalise."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Set
from dataclasses import dataclass
from functools import cached_property

from seegrad.diagnose.cut import roots_of
from seegrad.diagnose.evidence import birthplace, label, ran
from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.diagnose.gradients import reach
from seegrad.diagnose.numbers.known import Makers
from seegrad.model.recording import Diagnosis, Frame, Node, Place, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word, joined

Shape = tuple[int, ...]

# -- `(n,)` beside `(n, 1)`: torch stretches both, and what is meant in pairs becomes a table

CROSSWISE = DiagnosisKind("broadcast_crosswise", "note", marked("each with all"))
EACH_WITH_ALL = marked(
    "{Culprit} makes {out} of {short} {short_shape} and {long} {long_shape}: torch stretches both, so that each number "
    "of one meets all of the other, and the backward call on {victim} goes through all of them."
)
ONE_SHAPE = marked(
    "If each is to meet its own, give both one shape before: `.unsqueeze({axis})` for {short}, or `.squeeze({axis})` "
    "for {long}."
)

FLATTENED = marked(
    "{Culprit} makes {short} {short_shape} of {long_shape}, and {lines} have it meet what is {long_shape} still: torch "
    "stretches both, so that each number of one meets all of the other, and the backward call on {victim} goes through "
    "all of them."
)
LEAVE_IT = marked(
    "If each is to meet its own, leave {short} the shape that it had, {long_shape}, or take the same dimension off the "
    "others: `.squeeze({axis})`."
)

LOSSES = frozenset({"mse_loss", "smooth_l1_loss", "huber_loss", "l1_loss"})
MEETS = LOSSES | {"sub", "rsub", "mul", "rmul", "div", "true_divide", "min", "max", "minimum", "maximum"}
"""Ops of two tensors after which a table is seldom meant; sums are (`|a|² + |b|² - 2ab`)."""

NUMBERWISE = frozenset(
    {"neg", "pow", "square", "abs", "mul", "rmul", "div", "clamp", "clamp_min", "clamp_max", "min", "max", "minimum"}
    | {"maximum", "add", "sub", "rsub", "sqrt", "log", "log1p", "relu", "where", "mse_loss", "smooth_l1_loss"}
)
"""Ops that hand a table on, number by number, to the mean of all: what else is done with it may need a table."""

TOTALS = frozenset({"mean", "sum"})

SHAPED = frozenset(
    {"squeeze", "unsqueeze", "view", "reshape", "flatten", "__getitem__", "t", "transpose", "expand", "view_as"}
    | {"permute", "detach", "to", "float", "contiguous", "clone"}
)
"""Ops that keep the numbers."""

SHAPED_IN_PLACE = frozenset({"unsqueeze_", "squeeze_", "t_", "transpose_", "resize_", "swapaxes_", "swapdims_"})
"""Ops after which a tensor hasn't the shape any more that it was made in."""

ON_PURPOSE = re.compile(r"\bNone\b|newaxis|unsqueeze|keepdim|outer|(?:view|reshape)\([^()]*,\s*1\s*\)")
"""Code that makes the table's second dimension where it's needed."""

FARTHEST = 64
"""So many tensors back, or on, a way is followed."""


@finder(order=14)
def find_crosswise(recording: Recording) -> Iterator[Diagnosis]:
    """A note for the first line of each loss that makes such a table of it."""
    told, met, tables = set[Place | None](), set[int](), Crosswise(recording)
    for frame in recording.frames:
        met.update(frame.inputs[:1] if frame.op in SHAPED_IN_PLACE else ())
        pair = crossed(recording, frame)
        if pair is None:
            continue
        if frame.place in told or not met.isdisjoint(frame.inputs):  # what follows from the same shapes
            met.update(frame.inputs)
            continue
        shown = tables.shown(frame) if tables.is_mistaken(frame) else None
        if shown is not None:
            told.add(frame.place)
            met.update(frame.inputs)
            yield _describe_crosswise(recording, frame, pair, shown, _Shared.by(recording, tables, frame, shown))


def crossed(recording: Recording, frame: Frame, ops: Set[str] = MEETS) -> tuple[int, int, int, Shape] | None:
    """(the shorter, the longer, the dimension of size 1 that it has more, the table's shape)."""
    if frame.op not in ops or len(frame.inputs) != 2 or frame.phase != "forward":
        return None
    short, long = sorted(frame.inputs, key=lambda each: len(recording.tensors[each].shape))
    few, many = recording.tensors[short].shape, recording.tensors[long].shape
    if len(few) + 1 != len(many):
        return None
    padded = (1, *few)
    table = tuple(map(max, padded, many))
    fits = all(one == other or 1 in (one, other) for one, other in zip(padded, many, strict=True))
    axes = (axis for axis, size in enumerate(many) if size == 1 and many[:axis] + many[axis + 1 :] == few)
    axis = next(axes, None)
    return (short, long, axis, table) if axis is not None and fits and table not in (padded, many) else None


class Crosswise:
    """What comes of a table, and what it was made of."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    @cached_property
    def _makers(self) -> Makers:
        return Makers(self._recording)

    @cached_property
    def _lost(self) -> set[int]:
        """All that led to the losses."""
        calls = {
            f.backward: f for f in reversed(self._recording.frames) if f.phase == "backward" and f.backward is not None
        }
        return {each for frame in calls.values() for each in reach(self._recording, roots_of(self._recording, frame))}

    def is_mistaken(self, frame: Frame) -> bool:
        """Is it of two things that don't belong crosswise, and does its mean or sum come into a loss?"""
        if frame.place is not None and ON_PURPOSE.search(frame.place.code):
            return False
        bases = [self._base(each, frame.index - 1) for each in frame.inputs]
        tensors = self._recording.tensors
        if bases[0] == bases[1] or any(tensors[each].parameter for each in (*bases, *frame.inputs)):
            return False
        return self._is_totalled(frame)

    def shown(self, frame: Frame) -> Frame | None:
        """The Frame in which a loss goes back through a table; one without a graph is a factor of what has one."""
        own = ran(self._recording, frame)
        if own is not None or any(self._recording.tensors[each].requires_grad for each in frame.outputs):
            return own
        later = self._recording.frames[frame.index + 1 :]
        return next((each for each in later if each.phase == "backward" and each.op != "grad"), None)

    def flattened(self, frame: Frame) -> Frame | None:
        """The Frame that took off the shorter tensor the dimension which the longer one has more."""
        pair = crossed(self._recording, frame)
        tensor, until = (pair[0], frame.index - 1) if pair is not None else (0, -1)
        for _ in range(FARTHEST if pair is not None else 0):
            made = self._makers.maker(tensor, until)
            if pair is None or made is None or made.op not in SHAPED or not made.inputs:
                break
            before, after = (self._recording.tensors[each].shape for each in (made.inputs[0], tensor))
            if before != after:
                return made if before == self._recording.tensors[pair[1]].shape else None
            tensor, until = made.inputs[0], made.index - 1
        return None

    def _base(self, tensor: int, until: int) -> int:
        """The tensor whose numbers these are, but for their shape."""
        for _ in range(FARTHEST):
            made = self._makers.maker(tensor, until)
            if made is None or made.op not in SHAPED or not made.inputs:
                break
            tensor, until = made.inputs[0], made.index - 1
        return tensor

    def _is_totalled(self, frame: Frame) -> bool:
        tensors, waiting = self._recording.tensors, list(frame.outputs)
        for tensor in waiting:  # grows while it's read
            if not tensors[tensor].shape and tensor in self._lost:
                return True
            for taker in self._makers.takers(tensor) if len(waiting) < FARTHEST else ():
                if taker.op in TOTALS or taker.op in NUMBERWISE:
                    total = taker.op in NUMBERWISE or all(not tensors[each].shape for each in taker.outputs)
                    waiting += [each for each in taker.outputs if total and each not in waiting]
        return False


@dataclass(frozen=True, slots=True)
class _Shared:
    """The line that took a dimension off a tensor, and those that have it meet others which still have that."""

    made: Place
    lines: tuple[Place, ...]

    @staticmethod
    def by(recording: Recording, tables: Crosswise, first: Frame, shown: Frame) -> _Shared | None:
        """Where it's one tensor that more than one line stretches so, before the backward call that shows it."""
        made = tables.flattened(first)
        if made is None or made.place is None:
            return None
        lines = dict.fromkeys([first.place])
        for frame in recording.frames[first.index + 1 : shown.index]:
            if frame.place not in lines and tables.flattened(frame) is made and tables.is_mistaken(frame):
                lines[frame.place] = None
        places = tuple(place for place in lines if place is not None)
        return _Shared(made.place, places) if len(places) > 1 and made.place not in places else None


def _describe_crosswise(
    recording: Recording, frame: Frame, pair: tuple[int, int, int, Shape], shown: Frame, shared: _Shared | None
) -> Diagnosis:
    short, long, axis, table = pair
    culprit = shared.made if shared is not None else frame.place
    finding = Finding(
        recording=recording, kind=CROSSWISE, frame=shown.index, culprit=culprit, victim=shown.place, tensor=short
    )
    facts: dict[str, Word] = {"short": label(recording, short), "long": label(recording, long), "axis": axis}
    shapes = {"short_shape": said(recording.tensors[short].shape), "long_shape": said(recording.tensors[long].shape)}
    if shared is not None:
        return finding.told(FLATTENED, LEAVE_IT, facts, lines=joined(map(finding.line, shared.lines)), **shapes)
    return finding.told(EACH_WITH_ALL, ONE_SHAPE, facts, out=said(table), **shapes)


# -- a prediction that a loss stretches, since each of its numbers stands beside several

STRETCHED = marked(
    "{Culprit} compares {label} of shape {shape} with {target} of shape {wide}: torch stretches the first, so that "
    "each of its numbers is drawn to several at once, as the backward call on {victim} shows."
)
BROUGHT_TO_ONE = marked(
    "If each number is to meet its own, give both one shape before they meet: sum the target over the dimension that "
    "is too long, or let what predicts have as many numbers."
)
OF_EACH_NUMBER = marked(
    "{Culprit} makes {target} with a log-probability for each number of a row, of shape {wide}, which nothing sums: "
    "the loss on {loss} stretches {label}, of shape {shape}, and compares it with each of them."
)
SUM_THE_ROW = marked(
    "If a row is drawn as a whole, its log-probability is the sum of theirs: `.sum(dim=-1, keepdim=True)`, or let "
    "`torch.distributions.Independent(…, 1)` sum them."
)
MEETS_THERE = marked(
    "{Place} is where that shape first meets {shape}: brought to one shape there, both stay as they are."
)

DENSITIES = re.compile(r"\.(?:log_prob|entropy)\(|kl_divergence\(")
"""Calls of a distribution that hand back as many numbers as it has, where it isn't told that several are one event."""


@finder(order=14)
def find_stretched(recording: Recording) -> Iterator[Diagnosis]:
    """A note for the first line of each loss that torch itself warns of, where the prediction is what it stretches."""
    told, makers = set[Place | None](), Makers(recording)
    for frame in recording.frames:
        pair = _stretched(recording, frame)
        if pair is None or frame.place in told:
            continue
        shown = ran(recording, frame)
        told.add(frame.place)
        wide = _Wide.of(recording, makers, pair, frame.index - 1)
        if shown is not None and wide.source not in told:
            told.add(wide.source)
            yield _describe_stretched(recording, frame, pair, shown, wide)


def _stretched(recording: Recording, frame: Frame) -> tuple[int, int] | None:
    """(the prediction, a target that has more of some dimension of which it has one)."""
    if frame.op not in LOSSES or len(frame.inputs) != 2 or frame.phase != "forward":
        return None
    if frame.place is not None and ON_PURPOSE.search(frame.place.code):
        return None
    tensors = recording.tensors
    given, target = frame.inputs if tensors[frame.inputs[0]].requires_grad else frame.inputs[::-1]
    few, many = tensors[given].shape, tensors[target].shape
    wider = len(few) == len(many) and few != many and all(a in (1, b) for a, b in zip(few, many, strict=True))
    return (given, target) if wider and math.prod(few) > 1 and tensors[given].requires_grad else None


@dataclass(frozen=True, slots=True)
class _Wide:
    """The line where what is too wide meets the narrow shape first; that which has made it, and what it's called."""

    met: Place | None = None
    source: Place | None = None
    named: int | None = None
    is_density: bool = False

    @staticmethod
    def of(recording: Recording, makers: Makers, pair: tuple[int, int], until: int) -> _Wide:
        """Back from the target, number by number."""
        narrow, wide = (recording.tensors[each].shape for each in pair)
        waiting = [(pair[1], until, _Wide())]
        for tensor, before, found in waiting:  # grows while it's read
            made = makers.maker(tensor, before)
            if made is None or len(waiting) > FARTHEST:
                continue
            shapes = [recording.tensors[each].shape for each in made.inputs]
            if narrow in shapes and wide in shapes:
                found = _Wide(made.place)
            elif found.met is not None and found.named is None and recording.tensors[tensor].name is not None:
                found = _Wide(found.met, made.place, tensor)
            if made.place is not None and found.met is not None and DENSITIES.search(made.place.code):
                named = tensor if found.named is None else found.named
                return _Wide(found.met, found.source or made.place, named, is_density=True)
            waiting += [
                (each, made.index - 1, found) for each, shape in zip(made.inputs, shapes, strict=True) if shape == wide
            ]
        mets = (found.met for _, _, found in waiting if found.met is not None)
        return _Wide(next(mets, None))


def _describe_stretched(
    recording: Recording, frame: Frame, pair: tuple[int, int], shown: Frame, wide: _Wide
) -> Diagnosis:
    given, target = pair
    target = wide.named if wide.is_density and wide.named is not None else target
    shape = said(recording.tensors[given].shape)
    finding = Finding(
        recording=recording,
        kind=CROSSWISE,
        frame=shown.index,
        culprit=wide.source if wide.is_density else frame.place,
        victim=shown.place,
        tensor=target if wide.is_density else given,
        instead=((wide.met, MEETS_THERE),),
    )
    facts: dict[str, Word] = {"label": label(recording, given), "target": label(recording, target)}
    shapes = {"shape": shape, "wide": said(recording.tensors[target].shape), "loss": finding.line(frame.place)}
    template, advice = (OF_EACH_NUMBER, SUM_THE_ROW) if wide.is_density else (STRETCHED, BROUGHT_TO_ONE)
    return finding.told(template, advice, facts, **shapes)


def said(shape: Shape) -> str:
    """A shape in words.

    >>> said((3, 1)), said((3,))
    ('[3, 1]', '[3]')
    """
    return str(list(shape))


# -- a softmax along a dimension of size 1, which a layer with one output has made

ALONE = DiagnosisKind("softmax_of_one", "note", marked("a softmax of one number"), (marked("constant from here on"),))
ALWAYS_ONE = {
    "softmax": marked(
        "{Culprit} normalises a tensor of shape {shape} along dimension {axis}, where each number is alone: the result "
        "is 1 whatever goes in, and {label} gets a gradient of exactly 0 by this way on {victim}."
    ),
    "log_softmax": marked(
        "{Culprit} takes the logarithm of a softmax of shape {shape} along dimension {axis}, where each number is "
        "alone: the result is 0 whatever goes in, and {label} gets a gradient of exactly 0 by this way on {victim}."
    ),
}
ALONG_OTHERS = {
    "softmax": marked(
        "Normalise along the dimension whose numbers are to add up to 1, after a `.view(…)` where it's one with "
        "another; for one score that stands for itself, use `torch.sigmoid`."
    ),
    "log_softmax": marked(
        "A class needs an output of its own; for two classes and one output there is "
        "`F.binary_cross_entropy_with_logits`."
    ),
}

LAYERS = {"linear": -1, "addmm": -1, "mm": -1, "matmul": -1, "__matmul__": -1, "conv1d": 1, "conv2d": 1, "conv3d": 1}
"""Op → the dimension of its result that the layer's Parameter made."""

ALTERS = (NUMBERWISE | SHAPED | {"tanh", "sigmoid", "leaky_relu", "gelu", "elu", "dropout", "masked_fill"}) - LOSSES
"""Ops between the layer and the softmax."""


@dataclass(frozen=True, slots=True)
class Single:
    """A softmax of one number, and the Parameter of the layer that made it one."""

    node: Node
    axis: int
    layer: int
    ran: Frame


@finder(order=14)
def find_alone(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line all of whose softmaxes had one number to normalise."""
    softmaxes: dict[Place | None, list[Node]] = {}
    for node in recording.nodes:
        if node.axis is not None:
            softmaxes.setdefault(birthplace(recording, node), []).append(node)
    makers = Makers(recording) if softmaxes else None
    runs = {frame.running: frame for frame in reversed(recording.frames) if frame.running is not None}
    for place, nodes in softmaxes.items():
        singles = [_single(recording, makers, node, runs) for node in nodes] if makers and place is not None else []
        ran = [each for each in singles if each is not None]
        if ran and all(_size(recording, node)[1] == 1 for node in nodes):
            yield _describe_alone(recording, ran[0])


def _size(recording: Recording, node: Node) -> tuple[Shape, int, int]:
    """The shape of what a softmax gives, the size of the dimension along which it normalises, that dimension."""
    shape = recording.tensors[node.saved[0].tensor].shape if node.saved and node.saved[0].tensor is not None else ()
    axis = (node.axis or 0) % len(shape) if shape else 0
    return shape, shape[axis] if shape else 0, axis


def _single(recording: Recording, makers: Makers, node: Node, runs: dict[int, Frame]) -> Single | None:
    """None where it hasn't run backward, where there's but one number in all, or where no layer made that dimension."""
    shape, size, axis = _size(recording, node)
    if size != 1 or math.prod(shape) == 1 or node.id not in runs:
        return None
    frame = recording.frames[node.frame]
    waiting = list(frame.inputs[:1])
    for tensor in waiting:  # grows while it's read
        made = makers.maker(tensor, frame.index - 1)
        if made is None or len(waiting) > FARTHEST:
            continue
        layer = _one_output(recording, made)
        if layer is not None and axis == LAYERS[made.op] % len(shape):
            return Single(node, axis, layer, runs[node.id])
        if made.op in ALTERS:
            waiting += [each for each in made.inputs if recording.tensors[each].requires_grad and each not in waiting]
    return None


def _one_output(recording: Recording, made: Frame) -> int | None:
    """The Parameter that makes one number of many."""
    for tensor in made.inputs[1:] if made.op in LAYERS else ():
        ref = recording.tensors[tensor]
        is_weight = ref.is_leaf and ref.requires_grad and len(ref.shape) > 1
        outputs = (
            ref.shape[0] if made.op == "linear" or made.op.startswith("conv") else ref.shape[-1] if ref.shape else 0
        )
        if is_weight and outputs == 1:
            return tensor
    return None


def _describe_alone(recording: Recording, found: Single) -> Diagnosis:
    node = found.node
    finding = Finding(
        recording=recording,
        kind=ALONE,
        frame=found.ran.index,
        culprit=birthplace(recording, node),
        victim=found.ran.place,
        node=node,
        tensor=found.layer,
    )
    facts: dict[str, Word] = {"label": label(recording, found.layer), "op": node.op, "axis": found.axis}
    shape = said(_size(recording, node)[0])
    how = "log_softmax" if node.name.startswith("Log") else "softmax"
    return finding.told(ALWAYS_ONE[how], ALONG_OTHERS[how], facts, shape=shape)
