"""A view where the dimensions were to change places: it leaves the numbers in their order, so they mix.

`x.view(time, batch, -1)` of what is `(batch, time, …)` doesn't turn it: rows of one sample are read as another's. Told
where the shape asked for is the old one with dimensions of different sizes exchanged, where the classes' dimension was
the second and is the last afterwards, where a part of the last one, the heads of an attention, moves to the front or
comes back from there, where channels are to come before the places, or where a recurrent layer has given its sequences
in dimension 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from seegrad.diagnose.cut import roots_of
from seegrad.diagnose.evidence import label
from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.diagnose.gradients import reach
from seegrad.diagnose.numbers.constant import backward_only
from seegrad.diagnose.numbers.known import Makers
from seegrad.diagnose.numbers.shapes import said
from seegrad.model.recording import Diagnosis, Frame, Place, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word

MIXED = DiagnosisKind("dimensions_mixed", "note", marked("dimensions mixed by a view"))

EXCHANGED = marked(
    "{Culprit} makes {new} of {label}, which is {old}: `{op}` leaves the numbers in their order and only counts them "
    "off anew, so the dimensions don't change places, and what belongs to one sample is read as another's."
)
EXCHANGE = marked("If dimensions are to change places, use `.transpose(…)` or `.permute(…)`, and shape the result.")
PARTS = marked(
    "{Culprit} makes {new} of {label}, which is {old}: `{op}` leaves the numbers in their order and only counts them "
    "off anew, so each of the {count} parts (the heads of an attention, say) holds some of the {rows} rows, cut into "
    "pieces, and not its share of every row."
)
SPLIT_AND_EXCHANGE = marked(
    "If each part is to have its share of every row, split the last dimension and have the parts change places: "
    "`.view({batch}, {rows}, {count}, {share}).transpose(1, 2)`, and shape the result; on the way back the other way "
    "round."
)
CLASSES = marked(
    "{Culprit} makes {new} of {label}, which is {old} with {count} classes in dimension 1: `{op}` leaves the numbers "
    "in their order and only counts them off anew, so a row of {count} holds one class at {count} places, not {count} "
    "classes at one, and `{loss}` on {taken} reads it as classes."
)
CLASSES_LAST = marked(
    "If each row is to hold the scores of one place, bring the classes to the end first: `.movedim(1, -1)`; or give "
    "`{loss}` the result as it is, whose classes it looks for in dimension 1."
)

GATHERED = marked(
    "{Culprit} makes {new} of {label}, which is {old}: `{op}` leaves the numbers in their order and only counts them "
    "off anew, so a row of {many} holds {count} rows of {share} that follow each other, and not the rows at one place "
    "of all {count} parts (the heads of an attention, say)."
)
PARTS_LAST = marked(
    "If each row is to hold its place's share of every part, bring the parts beside the last dimension first: "
    "`.movedim({axis}, -2)`, and shape the result by `.reshape(…)`."
)
SPREAD = marked(
    "{Culprit} makes {new} of {label}, which is {old}: `{op}` leaves the numbers in their order and only counts them "
    "off anew, so each of the {many} channels holds the numbers of some neighbouring places, one place after the "
    "other, and not one number of every place."
)
CHANNELS_FIRST = marked(
    "If the last dimension is to be channels, bring it before the places first: `.movedim(-1, {axis})`, and shape the "
    "result by `.reshape(…)`."
)

PIECES = marked(
    "{Culprit} counts the {all} rows of {label} off as {rows} times {count}, but `{joins}` on {victim} has joined "
    "{count} pieces of {rows} rows, one behind the other: what is taken for one row of each piece is {count} "
    "neighbours of one piece."
)
STACK = marked(
    "If each of the {rows} is to hold one row of each piece, stack the pieces beside each other, "
    "`torch.stack(pieces, dim=1)`, before they are flattened; or count off the other way round and exchange: "
    "`.view({count}, {rows}, …).transpose(0, 1)`."
)

SEQUENCES = marked(
    "{Culprit} makes {new} of {label}, which is {old}, with the {batch} sequences of `{rnn}` on {victim} in dimension "
    "1: `{op}` leaves the numbers in their order and only counts them off anew, so each row of the result holds pieces "
    "of several sequences, not of one."
)
SEQUENCES_FIRST = marked(
    "If each row is to hold one sequence, bring that dimension to the front first: `.transpose(0, 1).reshape({batch}, "
    "-1)`; of a last state the last layer alone is `[-1]`, with two directions `torch.cat([h[-2], h[-1]], dim=1)`."
)

VIEWS = frozenset({"view", "reshape"})
READ = frozenset({"cross_entropy", "nll_loss", "log_softmax", "softmax"})
CONVOLVES = frozenset({"conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"})
"""Layers that leave their channels in dimension 1."""

KEEPS = frozenset({"interpolate", "relu", "batch_norm", "dropout", "contiguous", "clone", "float", "upsample"})
FARTHEST = 8

RECURRENT = frozenset({"gru", "lstm", "rnn_tanh", "rnn_relu"})

STATES = KEEPS | {"__getitem__", "view", "reshape", "index_select", "tanh", "layer_norm"}
"""Ops after which a state is one still, or some of its layers are, where the last two sizes stay."""

ROWWISE = KEEPS | {"linear", "tanh", "sigmoid", "gelu", "silu", "elu", "leaky_relu", "layer_norm", "embedding"}
"""Ops of which each row of the result is computed of the same row."""


@finder(order=33)
def find_mixed(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each such line whose result a loss is computed of."""
    views = [frame for frame in recording.frames if frame.op in VIEWS and frame.phase == "forward" and frame.outputs]
    pairs = [(frame, *_shapes(recording, frame)) for frame in views if frame.inputs]
    suspects = [each for each in pairs if any(fits(each[1], each[2]) for fits in (_is_exchanged, _parts, _is_flat))]
    makers, told = Makers(recording), set[Place | None]()
    lost = _behind_losses(recording) if suspects else set[int]()
    for frame, old, new in suspects:
        if frame.place in told or not _leads_to(recording, makers, frame, lost):
            continue
        taken = _read_as_classes(recording, makers, frame, old)
        if taken is not None or _is_exchanged(old, new) or _parts(old, new):
            told.add(frame.place)
            yield _describe(recording, frame, old, new, taken)


@finder(order=33)
def find_moved(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line by which a dimension goes past others to one that it's to be joined with."""
    views = [frame for frame in recording.frames if frame.op in VIEWS and frame.phase == "forward" and frame.outputs]
    makers, told = Makers(recording), set[Place | None]()
    lost: set[int] | None = None
    for frame in views:
        old, new = _shapes(recording, frame) if frame.inputs else ((), ())
        gathered = _gathered(old, new)
        axis = gathered if gathered is not None else _spread(old, new)
        if axis is None or frame.place in told:
            continue
        lost = _behind_losses(recording) if lost is None else lost
        back = (_shapes(recording, each)[1] for each in makers.takers(frame.outputs[0]) if each.op in VIEWS)
        if old in back or not _leads_to(recording, makers, frame, lost):
            continue
        told.add(frame.place)
        words: dict[str, Word] = {"old": said(old), "new": said(new), "axis": axis}
        if gathered is not None:
            words |= {"many": new[-1], "count": old[axis], "share": old[-1]}
            yield _counted_off(recording, frame, frame.place, GATHERED, PARTS_LAST, words)
        else:
            words["many"] = new[axis - (len(old) != len(new))]
            yield _counted_off(recording, frame, frame.place, SPREAD, CHANNELS_FIRST, words)


def _gathered(old: tuple[int, ...], new: tuple[int, ...]) -> int | None:
    """Which dimension goes past the ones behind it, and is joined with the last; None where none is sure to.

    As many parts as places, or a multiple, may be meant as they are counted off: the places with all that is theirs.

    >>> _gathered((4, 6, 5, 8), (6, 5, 32)), _gathered((6, 4, 5, 8), (6, 5, 32)), _gathered((6, 5, 4, 8), (6, 5, 32))
    (0, 1, None)
    >>> _gathered((2, 5, 5, 8), (2, 5, 40)), _gathered((2, 10, 5, 8), (2, 5, 80)), _gathered((4, 5, 8), (5, 32))
    (None, None, None)
    """
    if len(old) < 4 or len(new) != len(old) - 1 or not prod(old) or old[-1] < 2:
        return None
    for axis in range(len(old) - 2):
        places = old[axis + 1 : -1]
        fits = new == (*old[:axis], *places, old[axis] * old[-1])
        if fits and old[axis] > 1 < prod(places) and old[axis] != places[0] and old[axis] % prod(places):
            return axis
    return None


def _spread(old: tuple[int, ...], new: tuple[int, ...]) -> int | None:
    """Before which dimension the last one was to come, past two places at least; None where that isn't sure.

    >>> _spread((3, 1, 16, 16, 8), (3, 8, 16, 16)), _spread((3, 16, 16, 8), (3, 8, 16, 16))
    (2, 1)
    >>> _spread((3, 2, 4, 4, 16), (3, 32, 4, 4)), _spread((3, 8, 8, 8), (3, 8, 8, 8)), _spread((3, 6, 8), (3, 8, 6))
    (None, None, None)
    """
    if len(old) < 4 or not prod(old) or old[-1] < 2:
        return None
    joined = len(new) == len(old) - 1
    for axis in range(1, len(old) - 2):
        places = old[axis:-1]
        before = (*old[: axis - 1], old[axis - 1] * old[-1]) if joined else (*old[:axis], old[-1])
        sure = min(places) > 1 and old[-1] not in places and old[-1] % prod(places)
        if sure and (axis > 1 or not joined) and new == (*before, *places) and not _is_exchanged(old, new):
            return axis
    return None


@finder(order=33)
def find_sequences(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line that counts off anew what a recurrent layer has given with its sequences in dimension 1."""
    if not any(frame.op in RECURRENT for frame in recording.frames):
        return
    views = [frame for frame in recording.frames if frame.op in VIEWS and frame.phase == "forward" and frame.outputs]
    suspects = [frame for frame in views if frame.inputs and _is_torn(*_shapes(recording, frame))]
    makers, told = Makers(recording), set[Place | None]()
    lost = _behind_losses(recording) if suspects else set[int]()
    for frame in suspects:
        old, new = _shapes(recording, frame)
        rnn = _recurrent(recording, makers, frame) if frame.place not in told else None
        back = (_shapes(recording, each)[1] for each in makers.takers(frame.outputs[0]) if each.op in VIEWS)
        if rnn is None or old in back or not _leads_to(recording, makers, frame, lost):
            continue
        told.add(frame.place)
        words: dict[str, Word] = {"old": said(old), "new": said(new), "rnn": rnn.op, "batch": old[1]}
        yield _counted_off(recording, frame, rnn.place, SEQUENCES, SEQUENCES_FIRST, words)


def _counted_off(
    recording: Recording, frame: Frame, victim: Place | None, sentence: str, advice: str, words: dict[str, Word]
) -> Diagnosis:
    """Of a line that counts off anew what another one has made."""
    finding = Finding(
        recording=recording,
        kind=MIXED,
        frame=frame.index,
        culprit=frame.place,
        victim=victim,
        tensor=frame.inputs[0],
    )
    facts: dict[str, Word] = {"label": label(recording, frame.inputs[0]), "op": frame.op}
    return finding.told(sentence, advice, facts, **words)


def _is_torn(old: tuple[int, ...], new: tuple[int, ...]) -> bool:
    """Does a row for each of dimension 1 come of it, though that doesn't come first? Exchanged sizes are told as such.

    >>> _is_torn((2, 5, 3), (5, 6)), _is_torn((4, 5, 3), (2, 5, 6)), _is_torn((2, 5, 3), (5, 2, 3))
    (True, True, False)
    >>> _is_torn((1, 5, 3), (5, 3)), _is_torn((5, 5, 3), (5, 15)), _is_torn((2, 5, 3), (10, 3))
    (False, False, False)
    """
    if len(old) != 3 or min(old[:2]) < 2 or old[0] == old[1] or _is_exchanged(old, new):
        return False
    rows, many = old[1], old[0] * old[2]
    if len(new) == 3 and new[1] == rows:  # `(layers, batch, both directions)`, neighbours in time joined
        return 0 < new[0] < old[0] and prod(new) == rows * many and new[2] % old[2] == 0
    return new in ((rows, many), (rows, 1, many), (rows, old[0], old[2]))


def _recurrent(recording: Recording, makers: Makers, frame: Frame) -> Frame | None:
    """The Frame of the layer that gave it, or a state of which it is some layers, if dimension 1 is the batch's."""
    tensor, until = frame.inputs[0], frame.index - 1
    last = recording.tensors[tensor].shape[-2:]
    for _ in range(FARTHEST):
        made = makers.maker(tensor, until)
        if made is None or made.phase != "forward" or not made.inputs:
            return None
        if made.op in RECURRENT:
            states = made.outputs[1:]
            return made if states and recording.tensors[states[0]].shape[1:2] == last[:1] else None
        if made.op not in STATES or recording.tensors[made.inputs[0]].shape[-2:] != last:
            return None
        tensor, until = made.inputs[0], made.index - 1
    return None


@finder(order=33)
def find_pieces(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line that counts the rows of joined pieces off as if each piece had given one row at a time."""
    views = [frame for frame in recording.frames if frame.op in VIEWS and frame.phase == "forward" and frame.outputs]
    splits = [frame for frame in views if frame.inputs and _is_split(*_shapes(recording, frame))]
    makers, told = Makers(recording), set[Place | None]()
    lost = _behind_losses(recording) if splits else set[int]()
    for frame in splits:
        old, new = _shapes(recording, frame)
        joined = _joined(recording, makers, frame) if frame.place not in told else None
        if joined is None or not _leads_to(recording, makers, frame, lost):
            continue
        if len(joined.inputs) == new[1] and all(recording.tensors[each].shape[0] == new[0] for each in joined.inputs):
            told.add(frame.place)
            words: dict[str, Word] = {"joins": joined.op, "rows": new[0], "count": new[1], "all": old[0]}
            yield _counted_off(recording, frame, joined.place, PIECES, STACK, words)


def _is_split(old: tuple[int, ...], new: tuple[int, ...]) -> bool:
    """Are the rows counted off as so many times so many?

    >>> _is_split((10, 3), (5, 2, 3)), _is_split((10, 3), (10, 1, 3)), _is_split((4, 3), (2, 2, 3))
    (True, False, False)
    """
    return len(new) == len(old) + 1 and new[2:] == old[1:] and min(new[:2]) > 1 and new[0] != new[1]


def _joined(recording: Recording, makers: Makers, frame: Frame) -> Frame | None:
    """The Frame that joined the rows, one piece behind the other, where nothing has changed their order since."""
    tensor, until = frame.inputs[0], frame.index - 1
    rows = recording.tensors[tensor].shape[0]
    for _ in range(FARTHEST):
        made = makers.maker(tensor, until)
        if (
            made is None
            or not made.inputs
            or not made.outputs
            or recording.tensors[made.outputs[0]].shape[:1] != (rows,)
        ):
            return None
        if made.op in ("cat", "concat"):
            return made
        if made.op not in ROWWISE:
            return None
        tensor, until = made.inputs[0], made.index - 1
    return None


def _shapes(recording: Recording, frame: Frame) -> tuple[tuple[int, ...], tuple[int, ...]]:
    tensors = recording.tensors
    return tensors[frame.inputs[0]].shape, tensors[frame.outputs[0]].shape


def _is_exchanged(old: tuple[int, ...], new: tuple[int, ...]) -> bool:
    """Are the same sizes there in another order, three of them or more, each but once?

    >>> _is_exchanged((8, 5, 6), (5, 8, 6)), _is_exchanged((8, 1, 6), (1, 8, 6)), _is_exchanged((8, 5, 6), (8, 30))
    (True, False, False)
    """
    before, after = ([size for size in shape if size > 1] for shape in (old, new))
    return before != after and sorted(before) == sorted(after) and len(set(before)) == len(before) > 2


def _parts(old: tuple[int, ...], new: tuple[int, ...]) -> int:
    """Into how many parts of rows that stay as many the last dimension goes, which come before the rows; 0: into none.

    >>> _parts((8, 5, 6), (16, 5, 3)), _parts((8, 5, 6), (8, 2, 5, 3)), _parts((8, 2, 6), (8, 2, 2, 3))
    (2, 2, 0)
    """
    if len(old) != 3 or len(new) not in (3, 4) or not all(old) or new[-2] != old[1] or old[-1] % (new[-1] or 1):
        return 0
    count = old[-1] // new[-1]
    fits = new[:-2] in ((old[0] * count,), (old[0], count))
    return count if fits and count > 1 < old[1] != count else 0


def _is_flat(old: tuple[int, ...], new: tuple[int, ...]) -> bool:
    """Are there rows of as many numbers as dimension 1 had, and is that not the last?

    >>> _is_flat((2, 5, 8, 8), (128, 5)), _is_flat((2, 8, 5), (16, 5)), _is_flat((2, 5, 5), (10, 5))
    (True, False, False)
    """
    fits = len(old) > 2 and len(new) == 2 and new == (prod(old) // old[1], old[1]) if prod(old) else False
    return fits and old[1] > 1 and old[-1] != old[1] and prod(old[2:]) > 1


def _behind_losses(recording: Recording) -> set[int]:
    lines = {frames[0].place: frames[0] for frames in backward_only(recording)}
    return {each for first in lines.values() for each in reach(recording, roots_of(recording, first))}


def _leads_to(recording: Recording, makers: Makers, frame: Frame, lost: set[int]) -> bool:
    """Does a loss come of it, of data by way of what is computed next?"""
    if not lost.isdisjoint(frame.outputs):
        return True
    graph = recording.tensors[frame.inputs[0]].requires_grad
    waiting = [] if graph else list(frame.outputs)
    for tensor in waiting:  # grows while it's read
        for taker in makers.takers(tensor) if len(waiting) < FARTHEST else ():
            if not lost.isdisjoint(taker.outputs):
                return True
            waiting += [each for each in taker.outputs if each not in waiting]
    return False


def _read_as_classes(recording: Recording, makers: Makers, frame: Frame, old: tuple[int, ...]) -> Frame | None:
    """The Frame that reads the rows so, where a convolution has put the classes into dimension 1."""
    tensor, until, made = frame.inputs[0], frame.index - 1, None
    for _ in range(FARTHEST):
        made = makers.maker(tensor, until)
        if made is None or not made.inputs or made.op not in KEEPS:
            break
        tensor, until = made.inputs[0], made.index - 1
    channels = made is not None and made.op in CONVOLVES and bool(made.outputs)
    if made is None or not channels or recording.tensors[made.outputs[0]].shape[1:2] != old[1:2]:
        return None
    return next((taker for taker in makers.takers(frame.outputs[0]) if taker.op in READ), None)


def _describe(
    recording: Recording, frame: Frame, old: tuple[int, ...], new: tuple[int, ...], taken: Frame | None
) -> Diagnosis:
    finding = Finding(
        recording=recording,
        kind=MIXED,
        frame=frame.index,
        culprit=frame.place,
        victim=taken.place if taken is not None else frame.place,
        tensor=frame.inputs[0],
    )
    facts: dict[str, Word] = {"label": label(recording, frame.inputs[0]), "op": frame.op}
    words: dict[str, Word] = {"old": said(old), "new": said(new)}
    count = _parts(old, new)
    if count:
        sizes: dict[str, Word] = {"batch": old[0], "rows": old[1], "count": count, "share": new[-1]}
        return finding.told(PARTS, SPLIT_AND_EXCHANGE, facts, **sizes, **words)
    if taken is None:
        return finding.told(EXCHANGED, EXCHANGE, facts, **words)
    line = finding.line(taken.place)
    return finding.told(CLASSES, CLASSES_LAST, facts, count=old[1], loss=taken.op, taken=line, **words)
