"""A custom Function's backward that computes with two dtypes: autocast chose one in the forward, and has gone since."""

from __future__ import annotations

import re
from collections.abc import Iterator

from seegrad.diagnose.evidence import called, errors_with, function_of, label
from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.model.recording import Diagnosis, Node, RaisedError, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word

FLOATS = ("float", "bfloat")
CORES = ("same dtype", "expected scalar type", "should be the same")
TWO = DiagnosisKind("two_dtypes", "error", marked("two dtypes"))

SAID = marked(
    "{Culprit}, in the backward of `{function}`, computes with two dtypes, for the call on {victim}: {label}, which "
    "its forward has saved, is `{kept}`, and the gradient comes as `{given}`, which the result was."
)
ADVICE = marked(
    "If `torch.autocast` chose the dtype of the result: a Function's own backward runs outside of it, unless its "
    "forward is marked `@torch.amp.custom_fwd(device_type=…)` and its backward "
    "`@torch.amp.custom_bwd(device_type=…)`. Or bring them to one dtype there: `{inner}.to(…)`, with the dtype of the "
    "gradient."
)


@finder(order=11)
def find_two_dtypes(recording: Recording) -> Iterator[Diagnosis]:
    """The line in the backward."""
    for error in errors_with(recording, *CORES):
        node = recording.nodes[error.node] if error.node is not None else None
        if node is not None and function_of(node) and error.raised_on is not None:
            yield from _describe(recording, error, node)


def _describe(recording: Recording, error: RaisedError, node: Node) -> Iterator[Diagnosis]:
    given = {recording.tensors[each].dtype for each in node.outputs}
    kept = [each.tensor for each in node.saved if each.tensor is not None]
    others = [each for each in kept if (ref := recording.tensors[each].dtype) not in given and ref.startswith(FLOATS)]
    if len(given) != 1 or not others or error.raised_on is None:
        return
    code = error.raised_on.code
    tensor = max(others, key=lambda each: _stands_in(_inner(recording, each), code))
    finding = Finding(
        recording=recording,
        kind=TWO,
        frame=error.frame,
        culprit=error.raised_on,
        victim=error.place,
        node=node,
        tensor=tensor,
    )
    facts: dict[str, Word] = {
        "label": label(recording, tensor),
        "function": function_of(node),
        "kept": recording.tensors[tensor].dtype,
        "given": given.pop(),
    }
    yield finding.told(SAID, ADVICE, facts, inner=_inner(recording, tensor) or "saved")


def _inner(recording: Recording, tensor: int) -> str:
    """What the Function likely calls it: `weight`, of `net.mid.weight`."""
    return (called(recording, tensor) or "").rpartition(".")[2]


def _stands_in(name: str, code: str) -> int:
    """How likely a line that computes with two dtypes does so by this name: least by one that it casts itself.

    >>> [_stands_in(name, "grad @ w_there.t(), x.t().to(grad.dtype) @ b") for name in ("b", "w", "c", "x")]
    [3, 2, 1, 0]
    """
    if not name or not re.search(rf"\b{re.escape(name)}", code):
        return 1
    if re.search(rf"\b{re.escape(name)}\b(?:\.\w+(?:\([^()]*\))?)*?\.to\(", code):
        return 0
    return 3 if re.search(rf"\b{re.escape(name)}\b", code) else 2
