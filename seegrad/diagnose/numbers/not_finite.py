"""NaN or infinity in a loss or in the gradient of a leaf: the first line that made one of finite numbers, and why."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import takewhile

from seegrad.diagnose.cut import roots_of
from seegrad.diagnose.evidence import birthplace, errors_with, label
from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.diagnose.numbers.known import Makers, Span, shows
from seegrad.diagnose.numbers.left_out import CLEANS
from seegrad.diagnose.numbers.origins import Origin, Origins
from seegrad.model.derivatives import STEEP as STEEP_NODES
from seegrad.model.derivatives import stem
from seegrad.model.recording import Diagnosis, Frame, Place, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Phrase, Word, phrase

BROKEN = DiagnosisKind("not_finite", "wrong", marked("NaN or infinity"), (marked("not finite from here on"),))
LOOKED_AT = replace(BROKEN, severity="note")
STOPPED_AT = replace(BROKEN, severity="error")
CORE = "returned nan values"

BEGAN = marked("{Culprit} made the first {what} on the way to {where} on {victim}: {why}.")
CAME_IN = marked("{label} held NaN or infinity when it was first used, and it reached {where} on {victim}.")
STEEP = marked(
    "{Culprit} takes `{op}` of a number at which its slope is infinite, so the gradient of {leaf} isn't finite, "
    "although the loss on {victim} is."
)
UNUSED = marked(
    "{Culprit} takes `{op}` of a number at which its slope isn't finite, so the gradient of {leaf} isn't either, "
    "although the loss on {victim} is. The gradient that arrives for that number is 0, as for what is left out, "
    "clamped or multiplied by 0 afterwards, and backward multiplies the two: NaN."
)
LEFT_OUT = marked(
    "{Culprit} computes with the NaN in {label}, so the gradient of {leaf} isn't finite, although the loss on "
    "{victim} is. What is left out only afterwards still takes part in backward, which multiplies it with 0: NaN."
)
GROWN = marked(
    "Backward through {culprit} makes the gradient of {leaf} larger than `{dtype}` can hold, in the call on {victim}."
)
ENTERED = marked("{Culprit} computes with the NaN in {label}, and it reached {where} on {victim}.")
HIDDEN = marked(
    "{Culprit} gives the mask a last dimension of 1, so {masked} hides whole rows of scores with it, never some of a "
    "row: {made} made the first NaN, of rows that hold nothing but -∞, and it reached {where} on {victim}."
)
PUT = marked(
    "{Culprit} puts an infinity there. On {made} it meets 0 or another infinity, which is the first NaN on the way to "
    "{where} on {victim}."
)
UNSEEN = marked(
    "NaN or infinity has reached {where} on {victim}, and what was recorded of the numbers doesn't show where it began."
)
STOPPED_STEEP = marked(
    "Backward through {culprit} made the first NaN, and anomaly mode ended the call on {victim} there: `{op}` was "
    "given a number at which its slope isn't finite."
)
STOPPED = marked(
    "Backward through {culprit} made the first NaN, and anomaly mode ended the call on {victim} there: {node} makes it "
    "of the numbers, or of the gradient, that it was given."
)
IN_CALL = marked("{line} (backward call {number})")
LOSS = marked("the loss")
GRADIENT = marked("the gradient of {label}")
INFINITY = marked("infinity")

WHY = {
    "log": marked("`{op}` of 0 is -∞"),
    "domain": marked("`{op}` has no finite value at one of the numbers it is given"),
    "empty": marked("0 divided by 0"),
    "zero": marked("a division by 0"),
    "power": marked("`{op}` of {high} is more than `{dtype}` can hold"),
    "half": marked("`float16` holds no number beyond 65504"),
    "overflow": marked("the result is more than `{dtype}` can hold"),
    "row": marked("one of the rows holds nothing but -∞, so that its sum of powers is 0"),
    "ignored": marked("all labels are ignored, and the mean of no losses is 0 divided by 0"),
    "few": marked("too few numbers for it: 0 divided by 0"),
    "infinite": marked("an infinity that was put there meets 0 or another infinity"),
    "data": marked("that number is given there"),
}
MASK_THERE = marked("{Place} puts the -∞ there: with a large finite number in its place, each row adds up to 1.")
MASKS = frozenset({"masked_fill", "masked_fill_", "where", "__setitem__", "index_fill", "index_fill_"})
TAKE_MASKS = frozenset({"scaled_dot_product_attention"})
PUTS = frozenset({"put", "late"})
DIMENSION = re.compile(r"softmax\([^()]*(?:\([^()]*\)[^()]*)*?(?:dim ?= ?|, ?)(-?\d+)")
NEAR = 4
"""So many Frames lie at most between the mask and what it leads to."""

MEND = {
    "log": marked(
        "Keep 0 out of it, `{name}.clamp(min=1e-12)` before the logarithm; where no gradient goes to `{name}`, "
        "`torch.xlogy({name}, {name})` is the product with its own logarithm, and 0 at 0."
    ),
    "domain": marked("Clamp what goes in to where `{op}` has a finite value."),
    "empty": marked(
        "Keep 0 out of the divisor: `.clamp(min=1)` where it counts, a small number added where it measures."
    ),
    "power": marked(
        "Subtract the largest number first, `x - x.amax(dim, keepdim=True)`, or use what does so by itself: `softmax`, "
        "`log_softmax`, `logsumexp`."
    ),
    "half": marked("Compute this line in `float32` (`.float()` on what goes in), or use `bfloat16`."),
    "overflow": marked(
        "If the numbers have grown from step to step, lower the learning rate or clip the gradients; else scale them "
        "down before this line."
    ),
    "row": marked(
        "Mask with a large finite number, `torch.finfo({name}.dtype).min`, or see to it that each row keeps one."
    ),
    "hidden": marked(
        "Let the mask lie along what each row adds up over, the last dimension: for keys to be hidden, "
        "`mask.unsqueeze(1).unsqueeze(2)`."
    ),
    "ignored": marked(
        'Sum instead, `reduction="sum"`, and divide by the number of labels that count, at least 1; or leave such a '
        "batch out."
    ),
    "few": marked("Use `correction=0`, which is 0 for one number, or leave such a batch out."),
    "infinite": marked("Use a large finite number in its place, or leave those numbers out before this line."),
    "put": marked("Use a large finite number in its place, or leave those numbers out before {made}."),
    "late": marked(
        "Mask before {rows}, which gives a score of -∞ the weight 0: what it returns is weights already, and those "
        "that are to be hidden have to be 0."
    ),
    "data": marked("Leave such rows out, or fill them in, before they are used."),
    "unseen": marked(
        "Record again and have every tensor looked at, then the line is named: `seegrad.record(check_nan=True)`, "
        "`%%see --check-nan`, `python -m seegrad` for a script."
    ),
    "steep": marked(
        "Keep what goes in away from there: add a small number to it before, as in `torch.sqrt(x + 1e-12)`."
    ),
    "edge": marked("Clamp what goes in to where the slope is finite: `x.clamp(-1 + 1e-6, 1 - 1e-6)`."),
    "left_out": marked(
        "Leave those numbers out before this line, of all that it is given (`{name}[mask]`), or put harmless ones in "
        "their place there, `{name}.nan_to_num()`; to mask or to choose afterwards is too late."
    ),
    "entered": marked(
        "Leave those numbers out before this line, of all that it is given (`{name}[mask]`), or put harmless ones in "
        "their place there, `{name}.nan_to_num()`; a mask that is multiplied takes nothing out, since 0 times NaN is "
        "NaN."
    ),
    "unused": marked(
        "Keep what goes in away from there, as in `torch.sqrt(x + 1e-12)`; or, if such a result isn't used, put a "
        "harmless number in for it before this line, `safe = torch.where(used, x, 1.0)`, and compute `{op}` of `safe`: "
        "to choose afterwards is too late."
    ),
}
MEND |= {"zero": MEND["empty"], "grown": MEND["overflow"]}

LOGARITHMS = frozenset({"log", "log2", "log10", "log_", "xlogy", "logit"})
POWERS = frozenset({"exp", "exp_", "exp2", "expm1", "cosh", "sinh"})
DIVISIONS = frozenset(
    {"div", "div_", "rdiv", "truediv", "__itruediv__", "reciprocal", "rsqrt", "true_divide", "divide"}
)
ROWS = frozenset({"softmax", "log_softmax", "scaled_dot_product_attention", "multi_head_attention_forward"})
LABELS = frozenset({"cross_entropy", "nll_loss"})
FEW = frozenset({"std", "var", "std_mean", "var_mean", "mean", "cov"})

ASKS = frozenset({"isfinite", "isnan", "isinf"})
"""Ops by which a program shows that it reckons with such numbers."""

MENDS = frozenset({"nan_to_num", "nan_to_num_"})
"""Ops that take them away."""

SUMS = frozenset({
    "add", "addmm", "baddbmm", "bmm", "dot", "einsum", "iadd", "imul", "linear", "matmul", "mm", "mul", "multiply",
    "mv", "radd", "rmul", "square", "sub", "sum",
})  # fmt: skip
"""Ops that have a finite value at all finite numbers: of none but too large ones they make an infinity."""

OVERFLOWS = frozenset({"overflow", "half", "grown"})
SCALES = "_amp_update_scale_"
"""A GradScaler leaves a step out where the scaled gradients overflow."""

DIVIDES = frozenset({"Div", "Reciprocal"})
ENDS_AT_ONE = frozenset({"Acos", "Asin", "Acosh", "Atanh"})
LARGE, HUGE = 1e6, 1e30
"""Smaller numbers hardly overflow by themselves; a gradient of the second size needs no steep slope for it."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """What isn't finite at the end: a loss, or the gradient of a leaf; the last Frame of that backward call."""

    frame: Frame
    origin: Origin
    leaf: int | None = None
    harmless: bool = False  # the loss alone


@finder(order=18)
def find_not_finite(recording: Recording) -> Iterator[Diagnosis]:
    """One Diagnosis, of the first backward call that was reached: what comes later follows from it.

    None where the program cleans the numbers up, or where the step is left out because of an overflow.
    """
    if not shows(recording, {"nan", "inf", "-inf"}):
        return
    origins = Origins(recording)
    scaled = any(frame.op == SCALES for frame in recording.frames)
    arrivals = list(_arrivals(origins))
    skipped = {
        each.frame.index
        for each in arrivals
        if (scaled or _has_passed(origins, each)) and _why(origins, each.origin) in OVERFLOWS
    }
    arrival = _clearest(each for each in arrivals if each.frame.index not in skipped)
    later = _behind(recording, arrival) if arrival is not None else ()
    if arrival is not None and not any(_meets(origins, frame, MENDS) for frame in later):
        asked = any(_meets(origins, frame, ASKS) for frame in later)
        mild = asked or arrival.harmless or _why(origins, arrival.origin) in ("unseen", "data", "entered")
        yield _describe(origins, arrival, LOOKED_AT if mild else BROKEN)


@finder(order=18)
def find_stopped(recording: Recording) -> Iterator[Diagnosis]:
    """One Diagnosis for each backward call that anomaly mode has ended: the Node that it names by its class alone.

    Where the loss itself isn't finite, `find_not_finite` has the line.
    """
    for error in errors_with(recording, CORE):
        frame = recording.frames[error.frame]
        node = recording.nodes[frame.running] if frame.running is not None else None
        if node is None or _has_broken_loss(Origins(recording), frame):
            continue
        given = next((each for each in node.inputs if each is not None), None)
        kind = stem(node.name)
        steep = "edge" if kind in ENDS_AT_ONE else "empty" if kind in DIVIDES else "steep"
        why = steep if kind in STEEP_NODES | DIVIDES else "unseen"
        finding = Finding(
            recording=recording,
            kind=STOPPED_AT,
            frame=frame.index,
            culprit=birthplace(recording, node),
            victim=error.place,
            node=node,
            tensor=given,
        )
        said, op = STOPPED if why == "unseen" else STOPPED_STEEP, node.op or kind
        yield finding.told(said, MEND[why], {"cause": why, "op": op}, label=label(recording, given))


def _has_broken_loss(origins: Origins, frame: Frame) -> bool:
    spans = [origins.known.at(root, frame.index) for root in frame.inputs]
    return any(span is not None and not span.is_finite for span in spans)


def _has_passed(origins: Origins, arrival: Arrival) -> bool:
    """Does the last call bring finite gradients to the same leaves? Then no step has used these: they'd hold NaN."""
    calls = [frame.backward for frame in origins.recording.frames if frame.backward is not None]
    first, last = arrival.frame.backward, max(calls)
    leaves = {node.leaf for node in origins.runs(first or 0) if node.leaf is not None}
    again = [node for node in origins.runs(last) if node.leaf in leaves] if last != first else []
    spans = [span for node in again if (span := origins.known.given.get((last, node.id))) is not None]
    return bool(spans) and all(span.is_finite for span in spans)


def _behind(recording: Recording, arrival: Arrival) -> list[Frame]:
    """The Frames after it; where data is left out too late, without those that ask it while a loss is computed."""
    later = recording.frames[arrival.frame.index :]
    if arrival.origin.left_out is None:
        return list(later)
    steps = {use.frame for use in recording.uses if use.kind == "stepped"}
    found, before_backward = list[Frame](), False
    for frame in reversed(later):
        before_backward = frame.phase == "backward" or (before_backward and frame.index not in steps)
        asks_data = not any(recording.tensors[each].requires_grad for each in frame.inputs)
        if not (before_backward and asks_data and frame.op in ASKS | MENDS):
            found.append(frame)
    return found


def _clearest(arrivals: Iterator[Arrival]) -> Arrival | None:
    """The first one; of the same backward call, the first whose origin is known."""
    first = next(arrivals, None)
    if first is None or not first.origin.unseen:
        return first
    same = takewhile(lambda each: each.frame is first.frame, arrivals)
    return next((each for each in same if not each.origin.unseen), first)


def _arrivals(origins: Origins) -> Iterator[Arrival]:
    recording, known = origins.recording, origins.known
    calls: dict[int, list[Frame]] = {}
    for frame in recording.frames:
        if frame.backward is not None and frame.phase == "backward":
            calls.setdefault(frame.backward, []).append(frame)
    for backward, frames in calls.items():
        leaves = [node for node in origins.runs(backward) if node.leaf is not None]
        spans = [known.given.get((backward, leaf.id)) for leaf in leaves]
        broken = [leaf for leaf, span in zip(leaves, spans, strict=True) if span is not None and not span.is_finite]
        for root in roots_of(recording, frames[0]):
            span = known.at(root, frames[0].index)
            if span is not None and not span.is_finite:
                harmless = not broken and bool(spans) and None not in spans
                yield Arrival(frames[-1], origins.of_loss(root, frames[0]), harmless=harmless)
        for leaf in broken:
            yield Arrival(frames[-1], origins.of_leaf(leaf, backward), leaf.leaf)


def _meets(origins: Origins, frame: Frame, ops: frozenset[str]) -> bool:
    """Is one of these ops given what isn't finite?"""
    spans = [origins.known.at(each, frame.index - 1) for each in frame.inputs] if frame.op in ops else ()
    return any(span is not None and not span.is_finite for span in spans)


def _describe(origins: Origins, arrival: Arrival, kind: DiagnosisKind) -> Diagnosis:
    recording, origin = origins.recording, arrival.origin
    given = _given(origin)
    why = _why(origins, origin)
    put = origin.put.place if why in PUTS and origin.put is not None else None
    made = _made_on(recording, origin) if origin.frame is not None and origin.frame.phase != "start" else None
    masking = _masking(origins, origin) if why == "row" else None
    stretched = _stretched_on(recording, origin, masking) if masking is not None else None
    masked = masking.place if masking is not None else None
    why = "hidden" if stretched is not None else why
    call, number, asked = _call_of(recording, arrival)
    finding = Finding(
        recording=recording,
        kind=kind,
        frame=origins.shown(origin, arrival.frame).index,
        culprit=None if origin.unseen else stretched or put or made,
        instead=((masked, MASK_THERE),) if why == "row" and masking and masking.op in MASKS else (),
        victim=call,
        node=origins.broke(origin),
        tensor=given,
    )
    span, leaf = _span(origins, origin, given), label(recording, asked)
    result = origins.known.at(origin.tensor, origin.frame.index) if origin.frame and origin.tensor is not None else None
    op = origin.node.op if origin.node is not None and origin.node.op else origin.frame.op if origin.frame else ""
    dtype = recording.tensors[origin.tensor].dtype if origin.tensor is not None else ""
    calls = 1 + max(frame.backward for frame in recording.frames if frame.backward is not None)
    facts: dict[str, Word] = {"cause": why, "op": op, "high": f"{span.high:.3g}" if span else "?", "dtype": dtype}
    words: dict[str, Word] = {
        "what": Phrase(BROKEN.title) if result is None else "NaN" if result.has_nan else Phrase(INFINITY),
        "where": Phrase(LOSS) if arrival.leaf is None else phrase(GRADIENT, label=leaf),
        "leaf": leaf,
        "label": label(recording, given if given is not None else origin.tensor),
        "why": phrase(WHY[why], **facts) if why in WHY else "",
        "masked": finding.line(masked),
        "made": finding.line(made),
        "rows": finding.line(_weighed_on(origins, origin)),
        "victim": phrase(IN_CALL, line=finding.line(call), number=number + 1) if calls > 1 else finding.line(call),
    }
    return finding.told(_said(why, origin), MEND[why], facts, **words)


def _made_on(recording: Recording, origin: Origin) -> Place | None:
    """The line to change: of what a function returns, the one that takes numbers out of that, where they are data's."""
    frame = origin.frame
    if frame is None or origin.left_out is None or frame.taken is None:
        return frame.place if frame is not None else None
    later, returned = recording.frames[frame.index :], set[int]()
    for each in later:
        returned.update(each.outputs if each.place == frame.place else ())
        if each.place == frame.taken and each.op in CLEANS and not returned.isdisjoint(each.inputs):
            return frame.taken
    return frame.place


def _masking(origins: Origins, origin: Origin) -> Frame | None:
    """What put the -∞ there, before it: of several masks the one that was given none. Or what takes a mask itself."""
    frame, makers = origin.frame, Makers(origins.recording)
    if frame is not None and frame.op in TAKE_MASKS:
        return frame
    given = frame.inputs[0] if frame is not None and frame.inputs else None
    for _ in range(NEAR):
        frame = makers.maker(given, frame.index - 1) if frame is not None and given is not None else None
        if frame is None or not frame.inputs:
            return None
        given = _scores(origins.recording, frame) if frame.op in MASKS else frame.inputs[0]
        before = origins.known.at(given, frame.index - 1) if given is not None else None
        if frame.op in MASKS and (before is None or before.is_finite):
            return frame
    return None


def _weighed_on(origins: Origins, origin: Origin) -> Place | None:
    """Where what is masked was made of scores already: rows that add up to 1."""
    frame, makers = origin.put, Makers(origins.recording)
    given = _scores(origins.recording, frame) if frame is not None and frame.op in MASKS else None
    while frame is not None and given is not None:
        frame = makers.maker(given, frame.index - 1)
        given = frame.inputs[0] if frame is not None and frame.op == "dropout" and frame.inputs else None
    return frame.place if frame is not None and frame.op in ROWS else None


def _scores(recording: Recording, masking: Frame) -> int | None:
    """What is masked, of all that such an op is given."""
    tensors = recording.tensors
    numbers = (each for each in masking.inputs if tensors[each].dtype != "bool")
    return max(numbers, key=lambda each: len(tensors[each].shape), default=None)


def _stretched_on(recording: Recording, origin: Origin, masking: Frame) -> Place | None:
    """The line that gave the mask its last dimension of 1, which is stretched over all that a row adds up over."""
    tensors, makers, masked = recording.tensors, Makers(recording), _scores(recording, masking)
    scores = tensors[masked].shape if masked is not None else ()
    masks = [each for each in masking.inputs if tensors[each].dtype == "bool" and len(tensors[each].shape) > 1]
    if origin.frame is None or not masks or not scores or scores[-1] == 1 or not _adds_up_last(origin.frame, scores):
        return None
    mask, frame = masks[-1], None
    while tensors[mask].shape[-1:] == (1,):
        frame = makers.maker(mask, frame.index - 1 if frame is not None else masking.index)
        if frame is None or not frame.inputs:
            return None
        mask = frame.inputs[0]
    return frame.place if frame is not None else None


def _adds_up_last(frame: Frame, scores: tuple[int, ...]) -> bool:
    """Does each row lie along the last dimension, as far as the line says it?"""
    named = DIMENSION.search(frame.place.code) if frame.place is not None and frame.op not in TAKE_MASKS else None
    return named is None or int(named[1]) in (-1, len(scores) - 1)


def _call_of(recording: Recording, arrival: Arrival) -> tuple[Place | None, int, int | None]:
    """Where it shows, in which call, and whose gradient: in a loss that was made of one, where that was asked for."""
    number = arrival.origin.backward if arrival.leaf is None else None
    calls = [frame for frame in recording.frames if number is not None and frame.backward == number]
    asked = (tensor for frame in calls for tensor in frame.wanted)
    shown = (calls or [arrival.frame])[0]
    return shown.place, shown.backward or 0, next(asked, arrival.leaf)


def _said(why: str, origin: Origin) -> str:
    if why == "data" and origin.frame is None:
        return CAME_IN
    own = {"unseen": UNSEEN, "steep": STEEP, "edge": STEEP, "unused": UNUSED, "grown": GROWN}
    own |= {"left_out": LEFT_OUT, "entered": ENTERED, "hidden": HIDDEN, "put": PUT, "late": PUT}
    return own.get(why, BEGAN)


def _given(origin: Origin) -> int | None:
    """The tensor to speak of: the first that went in; for a number that was given from the start, the tensor itself."""
    if origin.frame is None or not origin.frame.inputs:
        return origin.tensor
    return origin.frame.inputs[0] if origin.left_out is None else origin.left_out


def _span(origins: Origins, origin: Origin, given: int | None) -> Span | None:
    return None if given is None or origin.frame is None else origins.known.at(given, origin.frame.index - 1)


def _why(origins: Origins, origin: Origin) -> str:
    """The reason, by the op, what went in, and what came out."""
    if origin.unseen:
        return "unseen"
    if origin.left_out is not None:
        return "entered" if origin.backward is None else "left_out"
    if origin.frame is None or origin.meant or not origin.frame.inputs:
        return "data"
    if origin.node is not None and origin.backward is not None:
        return _why_backward(origins, origin)
    op, known = origin.frame.op, origins.known
    came = known.at(origin.tensor, origin.frame.index) if origin.tensor is not None else None
    has_nan = came is not None and came.has_nan
    spans = [known.at(each, origin.frame.index - 1) for each in origin.frame.inputs]
    infinite = any(span is not None and not span.is_finite for span in spans)
    dtype = origins.recording.tensors[origin.tensor].dtype if origin.tensor is not None else ""
    reasons = (
        (op in ROWS and has_nan, "row"),
        (infinite and _weighed_on(origins, origin) is not None, "late"),
        (infinite and origin.put is not None and origin.put.place != origin.frame.place, "put"),
        (infinite, "infinite"),
        (op in LABELS and has_nan, "ignored"),
        (op in FEW and has_nan, "few"),
        (op in LOGARITHMS and not has_nan, "log"),
        (op in DIVISIONS, "empty" if has_nan else "zero"),
        (has_nan, "domain"),
        (dtype == "float16", "half"),
        (op in POWERS, "power"),
        (op.strip("_") in SUMS, "overflow"),
        (not any(span is not None and max(-span.low, span.high) > LARGE for span in spans), "domain"),
    )
    return next((why for holds, why in reasons if holds), "overflow")


def _why_backward(origins: Origins, origin: Origin) -> str:
    """A slope that is infinite, met by a 0 or by a gradient that counts; or numbers too large by themselves."""
    kind, handed = stem(origin.node.name) if origin.node is not None else "", origins.handed(origin)
    given = origins.known.given.get((origin.backward or 0, origin.node.id)) if origin.node is not None else None
    if handed is not None and handed.has_nan and (given is None or given.holds_zero):
        return "unused"
    large = given is not None and max(-given.low, given.high) > HUGE
    written_in_python = origin.node is not None and not origin.node.name[-1:].isdigit()
    if large or not (kind in STEEP_NODES or written_in_python):
        return "grown"
    return "edge" if kind in ENDS_AT_ONE else "steep"
