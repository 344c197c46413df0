"""A tensor with a graph that was handed to numpy: torch hands out only what has none."""

from __future__ import annotations

import re
from collections.abc import Iterator

from seegrad.diagnose.evidence import called, errors_with, is_caught, is_trained, label, made_at
from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.diagnose.gradients import reach
from seegrad.model.recording import Diagnosis, RaisedError, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word, joined

CORE = "Can't call numpy() on Tensor that requires grad"
HANDED = DiagnosisKind("numpy_of_a_result", "error", marked("handed to numpy"), (marked("has a graph: not for numpy"),))
MOST_NAMED = 2

SAID = {
    "result": marked(
        "{Culprit} hands {label} to numpy, which has no graph, and a gradient is to go through it to {leaves}: torch "
        "hands out only what needs none."
    ),
    "leaf": marked(
        "{Culprit} hands {label} to numpy, which has no graph, and it is to get a gradient: torch hands out only what "
        "needs none."
    ),
}
ADVICE = {
    "twin": marked(
        "If what comes of it is to train {leaves}, stay in torch: `{twin}`. If it is only looked at, hand over the "
        "numbers alone: `{detached}`."
    ),
    "method": marked(
        "If what comes of it is to train {leaves}, leave numpy away and compute with {label} itself. If it is only "
        "looked at, write `{detached}.numpy()`."
    ),
    "other": marked(
        "If what comes of it is to train {leaves}, use torch's own functions there. If it is only looked at, hand over "
        "the numbers alone: `{detached}`."
    ),
}

CALL = re.compile(
    r"\b(?:np|numpy)\.(?P<function>(?:linalg\.)?\w+)\(\s*(?P<given>[\w.]+)\s*(?:,\s*(?:axis\s*=\s*)?(?P<axis>-?\d+))?"
)
"""`np.sum(final, 0)`."""

REDUCING = frozenset({"sum", "mean", "prod", "max", "min", "median", "std", "var"})
JOINING = {"array": "stack", "asarray": "stack", "stack": "stack", "vstack": "stack"}
JOINING |= {"concatenate": "cat", "hstack": "cat"}
"""Functions of numpy that make an array of a list's → torch's for the same."""

SAME = REDUCING | {
    *("abs", "argmax", "argsort", "clip", "cos", "cumsum", "dot", "exp", "floor", "linalg.norm", "log", "matmul"),
    *("maximum", "minimum", "round", "sign", "sin", "sqrt", "square", "tanh", "where"),
}
"""Functions that torch has by the same name."""


@finder(order=12)
def find_handed_to_numpy(recording: Recording) -> Iterator[Diagnosis]:
    """The line of the user's that did, by a function of numpy's or of another package's."""
    for error in errors_with(recording, CORE):
        tensor = next(iter(recording.frames[error.frame].inputs), None)
        if tensor is not None and not is_caught(recording, error):
            yield _describe(recording, error, _unmoved(recording, tensor))


def _unmoved(recording: Recording, tensor: int) -> int:
    """What was moved to the CPU: `out`, of `out.cpu().numpy()`."""
    made = recording.frames[recording.tensors[tensor].frame]
    moved = tensor in made.outputs and made.op in ("cpu", "to") and recording.tensors[tensor].name is None
    return made.inputs[0] if moved and made.inputs else tensor


def _describe(recording: Recording, error: RaisedError, tensor: int) -> Diagnosis:
    finding = Finding(
        recording=recording,
        kind=HANDED,
        frame=error.frame,
        culprit=error.place,
        victim=error.place if is_trained(recording, tensor) else made_at(recording, tensor),
        tensor=tensor,
    )
    leaves = [each for each in sorted(reach(recording, (tensor,))) if is_trained(recording, each)]
    more = [f"+{len(leaves) - MOST_NAMED}"] if len(leaves) > MOST_NAMED else []
    names = joined([*(label(recording, each) for each in leaves[:MOST_NAMED]), *more])
    given = CALL.search(finding.code)
    many = given is not None and error.among and given["given"] == error.held
    twin = "" if given is None else _of_list(given) if many else _of_tensor(given)
    alone = f"{called(recording, tensor) or '…'}.detach()"
    detached = f"[each.detach() for each in {given['given']}]" if given is not None and many else alone
    how = "method" if ".numpy()" in finding.code else "twin" if twin else "other"
    facts: dict[str, Word] = {"label": label(recording, tensor), "cause": how, "leaves": names}
    said = "leaf" if is_trained(recording, tensor) else "result"
    return finding.told(SAID[said], ADVICE[how], facts, twin=twin, detached=detached)


def _of_list(given: re.Match[str]) -> str:
    """The same of a list of tensors: `torch.stack(final).sum(0)`; empty where it isn't known."""
    function, name = given["function"], given["given"]
    if function in JOINING:
        return f"torch.{JOINING[function]}({name})"
    return f"torch.stack({name}).{function}({given['axis'] or ''})" if function in REDUCING else ""


def _of_tensor(given: re.Match[str]) -> str:
    return f"torch.{given['function']}(…)" if given["function"] in SAME else ""
