"""Backward from more than one number, without weights or with wrong ones; from a complex one or no tensor at all."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from seegrad.diagnose.cut import CUT
from seegrad.diagnose.evidence import errors_with, is_caught, label
from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.diagnose.numbers.known import Makers
from seegrad.model.recording import Diagnosis, Frame, Place, RaisedError, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word

CORE = "implicitly created only for scalar outputs"
MANY = DiagnosisKind("not_a_scalar", "error", marked("not a scalar"), (marked("more than one number"),))

SAID = {
    "made": marked(
        "{Culprit} leaves {label} with {count} numbers, of shape {shape}, and the call on {victim} gives them no "
        "weights: it can start from a single number alone."
    ),
    "term": marked(
        "{Culprit} makes a term of {label} with {count} numbers, of shape {shape}, and the sum has no fewer; the call "
        "on {victim} gives them no weights: it can start from a single number alone."
    ),
    "none": marked(
        "{Culprit} keeps the loss of each element by itself, {count} numbers of shape {shape}, and the call on "
        "{victim} gives them no weights: it can start from a single number alone."
    ),
    "asked": marked(
        "{Culprit} asks for a gradient of {label}, which has {count} numbers, of shape {shape}, and gives them no "
        "weights: it can start from a single number alone."
    ),
}
ADVICE = {
    "made": marked(
        "Make one number of them, there or before that call: by `.mean()`, which doesn't grow with the batch, or by "
        "`.sum()`, if that is what the loss is to be. Where each has a weight of its own, call `backward(weights)`."
    ),
    "none": marked(
        "Leave `reduction='none'` away, and torch takes the mean, or write `reduction='sum'`; keep it only where each "
        "element is weighed or masked first, and take `.mean()` or `.sum()` of what that leaves."
    ),
    "asked": marked(
        "Pass `grad_outputs=torch.ones_like({name})`, or ask for the gradient of its `.sum()`, which is the same: "
        "where each row comes of its own row of the input alone, each gets its own gradient."
    ),
}
ADVICE["term"] = ADVICE["made"]

SUMS = frozenset({"add", "add_", "__iadd__", "sub", "sub_", "__isub__", "rsub", "radd"})
SCALES = frozenset({"mul", "mul_", "__imul__", "rmul", "div", "div_", "__itruediv__", "true_divide", "neg"})
LOSSES = re.compile(r"(?:^|_)loss$|^(?:binary_)?cross_entropy(?:_with_logits)?$|^kl_div$")
"""Functions of torch that take the mean unless they're told not to."""

KEEPS_EACH = re.compile(r"\breduction\s*=\s*[\"']none[\"']|\breduce\s*=\s*False")


@dataclass(frozen=True, slots=True)
class _Source:
    """The Frame that made so many numbers, which tensor holds them, and how it came to that."""

    frame: Frame
    tensor: int
    how: str


@finder(order=12)
def find_not_a_scalar(recording: Recording) -> Iterator[Diagnosis]:
    """The line that has left the loss, or a term of it, with more than one number."""
    for error in errors_with(recording, CORE):
        roots = recording.frames[error.frame].inputs
        root = next((each for each in roots if _count(recording, each) != 1), None)
        if root is not None and not is_caught(recording, error):
            yield _describe(recording, error, root)


def _describe(recording: Recording, error: RaisedError, root: int) -> Diagnosis:
    shown = recording.frames[error.frame]
    is_training = not shown.wanted or all(recording.tensors[each].parameter for each in shown.wanted)
    source = _source(recording, root, error.frame) if is_training else None
    how, tensor = (source.how, source.tensor) if source is not None else ("asked", root)
    made = source.frame.place if source is not None else error.place
    finding = Finding(
        recording=recording,
        kind=MANY,
        frame=error.frame,
        culprit=_kept_by(recording, made) or made if how == "none" else made,
        victim=error.place,
        tensor=root,
    )
    facts: dict[str, Word] = {
        "label": label(recording, root),
        "cause": how,
        "count": _count(recording, tensor),
        "shape": str(list(recording.tensors[tensor].shape)),
    }
    return finding.told(SAID[how], ADVICE[how], facts)


def _count(recording: Recording, tensor: int) -> int:
    return math.prod(recording.tensors[tensor].shape)


def _source(recording: Recording, root: int, until: int) -> _Source | None:
    """Back from the loss, by sums and factors, to what isn't made of another with as many numbers."""
    makers, tensor, term, found = Makers(recording), root, False, None
    while (frame := makers.maker(tensor, until)) is not None:
        how = "none" if LOSSES.search(frame.op) else "term" if term else "made"
        found, until = _Source(frame, tensor, how), frame.index - 1
        many = [each for each in frame.inputs if _count(recording, each) != 1]
        if frame.op not in SUMS | SCALES:
            break
        if len(many) > 1 and frame.op in SUMS:  # `total += each`, in a loop
            many = [each for each in many if (made := makers.maker(each, until)) and made.place != frame.place]
        if len(many) != 1 or not _is_computed(recording, makers.maker(many[0], until)):
            break
        term |= frame.op in SUMS and len(frame.inputs) > 1
        tensor = many[0]
    return found


def _is_computed(recording: Recording, made: Frame | None) -> bool:
    """Of something with a graph, not a plain weight or mask."""
    return made is not None and any(recording.tensors[each].requires_grad for each in made.outputs)


def _kept_by(recording: Recording, called: Place | None) -> Place | None:
    """The only line of the block's file that says so, where the call itself doesn't: `nn.MSELoss(reduction="none")`."""
    if called is None or KEEPS_EACH.search(called.code) or called.file != recording.code_file:
        return None
    lines = [(line, text) for line, text in recording.code if KEEPS_EACH.search(text)]
    return Place(called.file, lines[0][0], lines[0][1].strip()) if len(lines) == 1 else None


# -- a complex number: which way is downhill?

COMPLEX_CORE = "implicitly created only for real scalar outputs"
OF_COMPLEX = {
    "made": marked(
        "{Culprit} leaves {label} complex, and so is what the call on {victim} begins at: a complex number is neither "
        "larger nor smaller than another, so there's nothing to go down."
    ),
    "term": marked(
        "{Culprit} leaves a term of {label} complex, and so is what the call on {victim} begins at: a complex number "
        "is neither larger nor smaller than another, so there's nothing to go down."
    ),
}
TAKE_ITS_SIZE = marked(
    "Make real numbers of them before they are summed: `.abs()` is the size of each, `.abs().square()` its square (a "
    "complex number's own `** 2` is complex), `torch.view_as_real(…)` both its parts."
)


@finder(order=12)
def find_complex(recording: Recording) -> Iterator[Diagnosis]:
    """The line that has left the loss, or a term of it, complex: back from it, by sums, factors, means."""
    for error in errors_with(recording, COMPLEX_CORE):
        root = next((each for each in recording.frames[error.frame].inputs if _is_complex(recording, each)), None)
        if root is None or is_caught(recording, error):
            continue
        source = _complex_source(recording, root, error.frame)
        finding = Finding(
            recording=recording,
            kind=MANY,
            frame=error.frame,
            culprit=source.frame.place if source is not None else error.place,
            victim=error.place,
            tensor=root,
        )
        how = source.how if source is not None else "made"
        yield finding.told(OF_COMPLEX[how], TAKE_ITS_SIZE, {"cause": "complex", "label": label(recording, root)})


def _is_complex(recording: Recording, tensor: int) -> bool:
    return recording.tensors[tensor].dtype.startswith("complex")


def _complex_source(recording: Recording, root: int, until: int) -> _Source | None:
    """The Frame that made the only complex term of those that a loss is summed of."""
    makers, tensor, term, found = Makers(recording), root, False, None
    while (frame := makers.maker(tensor, until)) is not None:
        found, until = _Source(frame, tensor, "term" if term else "made"), frame.index - 1
        of = [each for each in frame.inputs if _is_complex(recording, each)]
        if frame.op not in SUMS | SCALES or len(of) != 1:
            break
        term |= frame.op in SUMS and len(frame.inputs) > 1
        tensor = of[0]
    return found


# -- weights of another shape than what it starts from

WEIGHTS_CORE = "Mismatch in shape: grad_output"
WEIGHTS = DiagnosisKind("weights_of_another_shape", "error", marked("weights of another shape"))

WEIGHED = {
    "one": marked(
        "{Culprit} starts from {label}, a single number, and gives the call weights that are more than one: there's "
        "nothing to weigh."
    ),
    "many": marked(
        "{Culprit} starts from {label}, of shape {shape}, and gives the call weights of another shape: each number "
        "has one weight."
    ),
}
WEIGHTS_OF_ITS_SHAPE = {
    "one": marked(
        "Leave the weights away; if they are meant for the numbers that it was summed from, start from those: "
        "`scores.backward(weights)` is `(scores * weights).sum().backward()`."
    ),
    "many": marked(
        "Give weights of shape {shape}; `torch.ones_like({name})` is the same as starting from its `.sum()`."
    ),
}


@finder(order=12)
def find_weights(recording: Recording) -> Iterator[Diagnosis]:
    """The call that was given them; of a call that starts from several it isn't known which was meant."""
    for error in errors_with(recording, WEIGHTS_CORE):
        roots = recording.frames[error.frame].inputs
        if len(roots) == 1 and not is_caught(recording, error):
            shape = recording.tensors[roots[0]].shape
            how = "many" if shape else "one"
            finding = Finding(
                recording=recording,
                kind=WEIGHTS,
                frame=error.frame,
                culprit=error.place,
                victim=error.place,
                tensor=roots[0],
            )
            facts: dict[str, Word] = {"label": label(recording, roots[0]), "shape": str(list(shape))}
            yield finding.told(WEIGHED[how], WEIGHTS_OF_ITS_SHAPE[how], facts)


# -- a plain number: Python's own error, of which torch knows nothing

ASKED = re.compile(
    r"'(int|float|bool|complex|numpy\.\w+)' object has no attribute "
    r"'(backward|detach|grad_fn|requires_grad_?|retain_grad)'"
)
PLAIN = {
    "number": marked(
        "{Culprit} makes a plain number of what {victim} asks for its `{asked}`: a `{type}` has no graph behind it, so "
        "no gradient can come of it."
    ),
    "handed": marked(
        "{Culprit} returns a plain number, a `{type}`, in the place from which {victim} has what it asks for its "
        "`{asked}`: it has no graph behind it, so no gradient can come of it."
    ),
    "unknown": marked(
        "{Culprit} asks a plain number for its `{asked}`: a `{type}` has no graph behind it, so no gradient can come "
        "of it."
    ),
}
IN_THIS_ORDER = marked(
    "Return the values in the order in which they are unpacked, or unpack them in that in which they are returned."
)
STAY_A_TENSOR = marked(
    "Let it stay a tensor, on every way that leads there: hand on the tensor itself where its gradient is wanted, and "
    "a tensor (`torch.zeros(())`) or nothing at all where there is nothing to learn from; then ask for a gradient only "
    "where it requires grad."
)


@finder(order=12)
def find_plain_number(recording: Recording) -> Iterator[Diagnosis]:
    """The line that made it a number, as far as the text tells."""
    error = recording.error
    asked = ASKED.search(error.text) if error is not None and error.kind == "AttributeError" else None
    if error is None or asked is None:
        return
    clue = next(iter(recording.clues_of("plain")), None)
    how, made = (clue.fact("how"), clue.place) if clue is not None else ("unknown", None)
    finding = Finding(recording=recording, kind=CUT, frame=error.frame, culprit=made or error.place, victim=error.place)
    facts: dict[str, Word] = {"cause": how, "type": asked[1], "asked": asked[2]}
    yield finding.told(PLAIN[how], IN_THIS_ORDER if how == "handed" else STAY_A_TENSOR, facts)
