"""Custom Functions whose backward gives another slope than their forward has, or not what torch can take."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from difflib import get_close_matches

from seegrad.diagnose.evidence import birthplace, errors_with, function_of, label, method_at, returned_at
from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.diagnose.numbers.known import KnownNumbers
from seegrad.diagnose.training.freezes import idle_steps
from seegrad.diagnose.training.steps import leaf_of
from seegrad.model.recording import Diagnosis, Frame, FunctionCheck, Node, Place, RaisedError, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word, plural

DISAGREES = DiagnosisKind("backward_disagrees", "note", marked("backward disagrees with forward"))
ANOTHER_SLOPE = marked(
    "{Culprit} gives another gradient than the forward of `{function}` has: by `{argument}`, as it was used on "
    "{victim}, its slope in one direction is {found}, by central differences {expected}."
)
DEAF = marked(
    "{Culprit} takes no heed of `grad_output`: what `{function}` hands back for `{argument}` on {victim} is the same "
    "for twice as much."
)
UNREAD = marked(
    "{Culprit} takes no number of `{argument}`, the gradient that the backward of `{function}` is given: as it was "
    "used on {victim} that isn't 1 everywhere, so what it hands back is wrong."
)
MEND_BACKWARD = marked(
    "If it's to be the gradient of that forward, mend its formula for `{argument}`; if it's meant to differ "
    "(straight-through, a reversed gradient), leave it as it is."
)
NEARLY = 0.8
"""So much alike are two spellings of one name."""
MULTIPLY = marked("Multiply what is computed there by `grad_output`: the chain rule needs it.")


@finder(order=12)
def find_slopes(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each backward, at its first use that shows it; differences need `check_functions=True`."""
    told: set[Place | None] = set()
    for check in sorted(recording.checks, key=lambda each: not each.found):
        if check.place in told or not (check.found or _matters(recording, check)):
            continue
        told.add(check.place)
        finding = Finding(
            recording=recording,
            kind=DISAGREES,
            frame=check.frame,
            culprit=_handing(recording, check),
            victim=check.applied,
        )
        facts: dict[str, Word] = {"function": check.function, "argument": check.argument}
        said = ANOTHER_SLOPE if not check.deaf else DEAF if check.found else UNREAD
        advice = MULTIPLY if check.deaf else MEND_BACKWARD
        yield finding.told(said, advice, facts, found=check.found, expected=check.expected)


def _handing(recording: Recording, check: FunctionCheck) -> Place | None:
    """The line of the backward: of one that leaves `grad_output` out, its only `return`, at which that is missing."""
    return (returned_at(recording, check.place) if check.deaf else None) or check.place


def _matters(recording: Recording, check: FunctionCheck) -> bool:
    """Was it given something else than 1, in a backward that handed on something else than 0?"""
    known, own = KnownNumbers(recording), f"{check.function}Backward"
    ran = [f for f in recording.frames if f.running is not None and recording.nodes[f.running].name == own]
    for frame in ran:
        node = recording.nodes[frame.running or 0]
        given = known.given.get((frame.backward or 0, node.id))
        targets = {edge.target for edge in node.edges} - {None}
        on = [f for f in recording.frames if f.backward == frame.backward and f.running in targets]
        handed = [known.given.get((frame.backward or 0, f.running or 0)) for f in on]
        not_one = given is None or (given.low, given.high) != (1, 1)
        if not_one and any(each is None or not each.is_zero for each in handed):
            return True
    return False


# -- None where a gradient is needed

HANDS_NONE = marked(
    "{Culprit} hands back `None` for {label}{leaves}, which `{function}` was given on {victim}: no gradient comes to "
    "it, and the step on {step} leaves it as it is."
)
RETURN_ONE = marked(
    "If {label} is meant to learn through it, return its gradient there, at the place that it has among the arguments "
    "of forward; `None` says that none is needed."
)


@finder(order=12)
def find_none_returned(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each Function of the user's behind which a leaf is held and has never got a gradient."""
    returns = {each.fact("name"): each.place for each in reversed(tuple(recording.clues_of("function")))}
    idle = {leaf: held for leaf, held in idle_steps(recording).items() if returns and len(held) > 1}
    groups: dict[str, tuple[Node, list[int]]] = {}
    for frame in recording.frames if idle else ():
        leaf = leaf_of(recording, frame)
        node = _function_before(recording, frame, returns) if leaf in idle else None
        if leaf is not None and node is not None:
            idle.pop(leaf)
            groups.setdefault(function_of(node), (node, []))[1].append(leaf)
    for name, (node, leaves) in groups.items():
        step = idle_steps(recording)[leaves[0]][0]
        finding = Finding(
            recording=recording,
            kind=DISAGREES,
            frame=step.frame,
            culprit=returns[name],
            victim=birthplace(recording, node),
            node=node,
            tensor=leaves[0],
        )
        count = len(leaves) - 1
        more = plural(" (and {count} more leaf)", " (and {count} more leaves)", count) if count else ""
        facts: dict[str, Word] = {"function": name, "label": label(recording, leaves[0])}
        yield finding.told(HANDS_NONE, RETURN_ONE, facts, leaves=more, step=finding.line(step.place))


def _function_before(recording: Recording, arrived: Frame, names: Container[str]) -> Node | None:
    """Of these Functions, the nearest behind which all ways to a leaf lie, in the call in which that got nothing."""
    ran = [f.running for f in recording.frames if f.backward == arrived.backward and f.running is not None]
    before: dict[int, list[Node]] = {}
    for node in (recording.nodes[number] for number in ran):
        for edge in node.edges:
            if edge.target is not None:
                before.setdefault(edge.target, []).append(node)
    waiting, found = [arrived.running or 0], list[Node]()
    for number in waiting:  # grows while it's read
        for node in before.get(number, ()):
            if function_of(node) in names:
                found.append(node)
            elif not before.get(node.id):
                return None
            elif node.id not in waiting:
                waiting.append(node.id)
    return found[0] if len({function_of(node) for node in found}) == 1 else None


# -- Python has raised: a backward reads what forward hasn't kept for it

NOT_KEPT = DiagnosisKind("not_kept_for_backward", "error", marked("not kept for backward"))
NO_ATTRIBUTE = re.compile(r"'(?P<function>\w+)Backward' object has no attribute '(?P<attribute>\w+)'")
READS = marked(
    "{Culprit} reads `{attribute}`, which the forward of `{function}`, as it was used on {victim}, hasn't put into "
    "`ctx`: that is an object of this call alone, and knows nothing of the class or of an instance of it."
)
KEEP_IT = marked(
    "Give forward what is needed as an argument and keep it there, `ctx.{attribute} = …`, a tensor by "
    "`ctx.save_for_backward(…)`; backward returns one more `None` for it."
)
KEEP_IT_THERE = marked("{Place} is where it can be kept.")
OF_TORCH = ("saved_tensors", "needs_input_grad", "saved_for_forward")
SPELT = marked("Torch's own name for it is `ctx.{near}`.")


@finder(order=12)
def find_not_kept(recording: Recording) -> Iterator[Diagnosis]:
    """One for each such error that a custom Function's own backward has raised."""
    for error in errors_with(recording, "object has no attribute"):
        found = NO_ATTRIBUTE.search(error.text) if error.kind == "AttributeError" else None
        node = recording.nodes[error.node] if error.node is not None else None
        if found is None or node is None or node.name != f"{found['function']}Backward" or error.raised_on is None:
            continue
        near = get_close_matches(found["attribute"], OF_TORCH, 1, NEARLY)
        kept = None if near else method_at(recording, found["function"], ("setup_context", "forward"))
        finding = Finding(
            recording=recording,
            kind=NOT_KEPT,
            frame=error.frame,
            culprit=error.raised_on,
            victim=birthplace(recording, node),
            node=node,
            instead=((kept, KEEP_IT_THERE),),
        )
        facts: dict[str, Word] = dict(found.groupdict())
        yield finding.told(READS, SPELT if near else KEEP_IT, facts, near="".join(near))


# -- torch has raised: what a backward hands back doesn't fit the arguments of its forward

RETURNS = DiagnosisKind("backward_returns", "error", marked("backward returns what doesn't fit"))
CORES = {
    r"incorrect number of gradients \(expected (?P<expected>\d+), got (?P<got>\d+)\)": "count",
    r"invalid gradient at index (?P<index>\d+) - got (?P<got>\[[\d, ]*\]) but expected shape compatible with "
    r"(?P<expected>\[[\d, ]*\])": "shape",
    r"gradient different than None at position (?P<index>\d+)": "no_tensor",
    r"expected Variable(?: or None)? \(got (?P<got>\w+)\)": "number",
}
"""What torch's error says → what is wrong."""

WRONG = {
    "count": marked(
        "Torch wants {expected} of {culprit}, one for each argument of the forward of `{function}`, and gets {got}."
    ),
    "shape": marked(
        "The gradient that {culprit} returns at place {index} has shape {got}; that argument of the forward of "
        "`{function}` has {expected}."
    ),
    "made": marked(
        "The gradient that {culprit} makes, and the backward of `{function}` returns at place {index}, has shape "
        "{got}; that argument of its forward has {expected}."
    ),
    "no_tensor": marked(
        "{Culprit} returns a gradient at place {index}, and that argument of the forward of `{function}` is no tensor."
    ),
    "number": marked("{Culprit} returns a `{got}` among its gradients; torch takes tensors and `None`."),
}
ONE_FOR_EACH = marked(
    "Return one value for each argument of forward, in their order: `None` for what is no tensor or needs no gradient."
)
OF_THAT_SHAPE = marked(
    "Give it that shape: where forward has broadcast, the gradient is summed; where it has summed, it is expanded."
)


@finder(order=12)
def find_returns(recording: Recording) -> Iterator[Diagnosis]:
    """One for each such error; the victim is the line that used the Function."""
    for error in errors_with(
        recording, "number of gradients", "invalid gradient", "different than None", "expected Var"
    ):
        for core, how in CORES.items():
            found = re.search(core, error.text)
            if found is not None and error.inside is not None and error.node is not None:
                yield _describe_returns(recording, error, how, found.groupdict())


def _describe_returns(recording: Recording, error: RaisedError, how: str, said: dict[str, str]) -> Diagnosis:
    node = recording.nodes[error.node or 0]
    made = _made(recording, error, node, said) if how == "shape" else None
    finding = Finding(
        recording=recording,
        kind=RETURNS,
        frame=error.frame,
        culprit=made or error.inside,
        victim=birthplace(recording, node),
        node=node,
    )
    function = node.name.removesuffix("Backward")
    facts: dict[str, Word] = {"how": how, "function": function, **said}
    if how == "count":
        facts |= {key: plural("{count} gradient", "{count} gradients", int(said[key])) for key in ("expected", "got")}
    if how == "shape":  # torch counts these from 0
        facts["index"] = str(int(said["index"]) + 1)
    words = WRONG["made" if made is not None else how]
    return finding.told(words, OF_THAT_SHAPE if how == "shape" else ONE_FOR_EACH, facts)


def _made(recording: Recording, error: RaisedError, node: Node, said: dict[str, str]) -> Place | None:
    """The line that made what is of a wrong shape, unless that's the shape of another argument: then it's the order."""
    inputs = recording.frames[node.frame].inputs
    shapes = {str(list(recording.tensors[each].shape)) for each in inputs} - {said["expected"]}
    return None if said["got"] in shapes else dict(error.handed).get(int(said["index"]))
