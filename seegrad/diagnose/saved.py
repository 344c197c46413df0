"""A saved tensor isn't what it was: its version moved. Torch raises where it's used."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from seegrad.diagnose.evidence import (
    A_RESULT,
    birthplace,
    counter,
    errors_with,
    function_of,
    label,
    line_of,
    needed_for,
    owner,
    route_of,
)
from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.diagnose.freed import Carried, apart, carried, earlier_run
from seegrad.diagnose.history.updated import (
    MAKE_IT_ANEW,
    RUN_IT_LATER,
    TOO_EARLY,
    USED_AGAIN,
    made_on,
    too_early,
    with_the_loss,
)
from seegrad.diagnose.mend import alias_line, built_out_of_place, copy_shown, instead, taken
from seegrad.model.recording import (
    EXTERNAL_WRITE,
    Diagnosis,
    Node,
    RaisedError,
    Recording,
    SavedTensor,
    Write,
)
from seegrad.words.languages import marked
from seegrad.words.phrases import Phrase, Word, phrase

# -- by which way a write reached it

SHAPES = frozenset({"squeeze_", "unsqueeze_", "t_", "transpose_", "swapaxes_", "swapdims_"})
"""Ops in place that change nothing but the shape."""

THROUGH = {
    "detach": marked(" through {alias}, which shares its memory and its version"),
    "data": marked(" through {alias}, which shares its memory but not its version"),
    "view": marked(" through {alias}, a view of the same memory"),
    "storage": marked(" through {alias}, which was put on the same storage"),
    "outside": marked(" behind torch's back"),
    "inside": marked(" inside `{op}`"),
}
FOR_GRADIENT = marked(" for the gradient of {needed}")


def way(finding: Finding) -> str:
    """The route, told apart where torch saw the write from where it saw nothing."""
    unseen = finding.route == "storage" and (finding.write is None or finding.write.op in (EXTERNAL_WRITE, ""))
    return "outside" if unseen else finding.route


def through(finding: Finding, facts: dict[str, Word]) -> Word:
    """The way of a write, as words; empty where the tensor was written under the name that the sentence gives it."""
    alias = facts["alias"]
    itself = alias == facts["label"] and finding.route not in ("inside", "storage")
    template = None if itself or is_inner(finding, alias) else THROUGH.get(way(finding))
    return phrase(template, **facts) if template else ""


def is_inner(finding: Finding, alias: Word) -> bool:
    """True where the alias was made by an op that the culprit's line doesn't show: inside torch."""
    if finding.route != "view" or not isinstance(alias, Phrase) or alias.template != A_RESULT:
        return False
    op = str(dict(alias.words)["op"])
    return re.fullmatch(r"\w+", op) is not None and f"{op}(" not in finding.code


def copy_of(finding: Finding, alias: Word) -> str:
    """The line that gives the alias memory of its own: as its mend writes it, else by the names that are known."""
    line = finding.write and alias_line(finding.recording, finding.write.tensor, finding.route)
    if line and (shown := copy_shown(line.code)):
        return shown
    name = alias.strip("`") if isinstance(alias, str) else ""
    copy = f"{finding.called or '…'}.detach().clone()"
    return f"{name} = {copy}" if name.isidentifier() and name != finding.called else copy


def of_write(finding: Finding, said: str, advice: str, facts: dict[str, Word], **words: Word) -> Diagnosis:
    """The Diagnosis of a write, with the words that these sentences share."""
    needed = facts["needed_for"]
    return finding.told(
        said,
        advice,
        facts,
        **instead(finding, str(facts["op"]), whole=bool(facts.get("whole"))),
        through=through(finding, facts),
        need=phrase(FOR_GRADIENT, needed=needed) if needed else "",
        copy=copy_of(finding, facts["alias"]),
        plain=str(facts["op"]).rstrip("_"),
        **words,
    )


# -- its version moved

CORE = "modified by an inplace operation"
"""The stable part of torch's message, seen from 1.0 to 2.13."""

MODIFIED = DiagnosisKind(
    "saved_tensor_modified", "error", marked("saved tensor modified"), (marked("saved value overwritten"),)
)
VERSIONS = replace(MODIFIED, tag=(marked("v{saved} saved ≠ v{now} now"),))
MOVED = DiagnosisKind("version_moved", "note", marked("version moved"))

OVERWROTE = marked(
    "{Culprit} overwrote {label}{through}: {label} is now at version {now}, "
    "but {node} from {victim} saved version {saved}{need}."
)
UPDATED = marked(
    "{Culprit} updated {label}{through}: {label} is now at version {now}, "
    "but {node} from {victim} saved version {saved}{need}."
)
HANDED_ON = marked(
    "{Culprit} hands {carried} on with its graph: the backward call on line {again} comes through it to {node} from "
    "{victim}, which saved version {saved} of {label}, and {step} has updated that to version {now} since."
)
BUILT = marked(
    "{Culprit} builds a module that, called on line {called_on}, overwrote {label}: {label} is now at version {now}, "
    "but {node} from {victim} saved version {saved}{need}."
)
BY_UNKNOWN = marked(
    "{label} was overwritten on a line that was not recorded: it is now at version {now}, "
    "but {node} from {victim} saved version {saved}{need}."
)
MOVE_WRITE_YET = marked(
    "No backward has run yet, so nothing is wrong so far: if it runs, torch will raise, "
    "so move the write below it or above {victim}."
)
BELOW_YET = marked(
    "No backward has run yet, so nothing is wrong so far: if it runs, torch will raise, so move the write below it."
)
LOOPED = {
    "carried": marked(
        "{carried} still leads into an earlier step, which needs the old values: cut it there, `{cut}`, "
        "before line {taken} uses it again; `retain_graph=True` is not needed then."
    ),
    "within": marked(
        "{carried} still leads into an earlier step, which needs the old values: cut it there, `{cut}`, "
        "after the backward call on line {again}; `retain_graph=True` is not needed then."
    ),
    "unnamed": marked(
        "What line {made} made in an earlier step still leads there, and that step needs the old values: "
        "give line {taken} its `.detach()`; `retain_graph=True` is not needed then."
    ),
    "kept": marked(
        "{carried} of an earlier step is still kept and used again on line {taken}: after each step, "
        "empty the list that keeps it, or keep `.detach()` of what is not to be trained any more."
    ),
    "once": marked(
        "{carried} was computed once, with the old values, and every step leads back through it: compute it anew after "
        "each update, or use its `.detach()` if what made it is not to be trained; "
        "`retain_graph=True` is not needed then."
    ),
    "collected": marked(
        "{carried} keeps results together with their graphs, and every step leads back through them to the old values: "
        "put `.detach()` of each in if what made them is not to be trained; else compute them anew after each update."
    ),
    "summed": marked(
        "{carried} adds up losses with their graphs, so backward goes through every earlier step: call backward on the "
        "new loss alone, and add its `.detach()` to {carried}."
    ),
}
"""Ways in which a step's backward comes into an earlier step's graph; of the others, the write itself tells more."""

COLLECT_PARTS = marked(
    "Torch counts the writes to the whole of {label}, not to its parts: "
    "collect the parts in a Python list and join them at the end (`torch.stack`)."
)
NEW_TENSOR = marked("The line reads {label} and writes to it: make a new tensor (`{new}`, not `{old}`).")
OWN_MEMORY = marked(
    "The line reads {label} and writes to it: give the new value memory of its own "
    "(`torch.cat` or `torch.stack` of its parts, `torch.where`), not `{old}`."
)
VIEW_INSTEAD = marked(
    "`{op}` changes only the shape, but torch counts it as a write: "
    "`{plain}` without the underscore makes a view instead."
)
UPDATE_LATER = marked(
    "An update belongs after the last backward call that needs the old value: move it below line {again}, "
    "or run the forward again after the write."
)
UPDATED_BETWEEN = marked(
    "The update lies between two backward calls through one forward: run that forward again after it, for the call on "
    "line {again}. If it may use the gradients of both calls, make it after the second instead."
)
EACH_ROUND = marked(
    "That line runs in every round and hit what the round before had saved: make a new tensor in each round, "
    "or let {victim} use `{name}.clone()`, or call backward before the next round."
)
IN_BACKWARD = marked(
    "That line runs in each backward call that comes through {node}, and the graph is kept for another one, which "
    "needs what was saved as it was: compute a new tensor there (`{new}`, not `{old}`)."
)
NOT_IN_PLACE = marked(
    "Build that module or call without `inplace=True`: {node} computes its gradient from the value that it replaced."
)
NOT_BUILT_IN_PLACE = marked(
    "Build it without `inplace=True`{instead}: {node} computes its gradient from the value that it replaced."
)
BUILT_AS = marked(" (`{call}`)")
NOT_IN_PLACE_TAKEN = marked(
    "Build that module or call without `inplace=True` and give its result the name (`{new}`): "
    "{node} computes its gradient from the value that it replaced."
)
OWN_RESULT = {
    "detach": marked(
        "Write to a copy, `{copy}`, or move the write below the backward call: "
        "{node} computes its gradient from its own result."
    ),
    "self": marked(
        "{node} computes its gradient from its own result: make a new tensor instead "
        "(`{new}`, not `{old}`), or move the write below the backward call."
    ),
}
BY_WAY = {
    "detach": marked(
        "Write to a copy, `{copy}`, or move the write below the backward call. "
        "Moved above {victim}, where {node} saves {label}, it raises nothing, but the program computes something else."
    ),
    "view": marked(
        "A view is the same memory: build the new value without writing into {label} (`torch.cat`, `torch.where`), "
        "or move the write below the backward call, or above {victim}: then the program is another one."
    ),
    "inside": marked(
        "`{op}` writes its argument although its name does not say so: run it before {victim} uses {label}, "
        "or let {victim} use `{name}.clone()`, which keeps the value from before the write."
    ),
    "storage": marked("Find who shares the memory of {label}, and give that its own copy before it writes."),
}
MOVE_WRITE = marked(
    "Move the write below the backward call, or keep {label} and give the new value a new name. "
    "Moved above {victim}, where {node} saves {label}, it raises nothing, but the program computes something else."
)

NO_WAY_UP = {
    "detach": marked("Write to a copy, `{copy}`, or move the write below the backward call."),
    "view": marked(
        "A view is the same memory: build the new value without writing into {label} (`torch.cat`, `torch.where`), "
        "or move the write below the backward call."
    ),
    "self": marked("Move the write below the backward call, or keep {label} and give the new value a new name."),
}
"""Where the write needs what is computed once the tensor is saved, so that it can't come before that."""


@finder(order=1)
def find_modified(recording: Recording) -> Iterator[Diagnosis]:
    """One Diagnosis for each such error."""
    for error in errors_with(recording, CORE):
        if error.node is not None:
            node = recording.nodes[error.node]
            yield by_versions(recording, error, node) or by_text(recording, error, node)


@finder(order=17)
def find_moved(recording: Recording) -> Iterator[Diagnosis]:
    """At most one note, for a Recording without any backward: it will fail if it runs."""
    if any(frame.backward is not None for frame in recording.frames):
        return
    for node in recording.nodes:
        for saved in (each for each in node.saved if each.checked):
            writes = [write for write in culprits(recording, saved) if write.frame > node.frame]
            if writes and writes[-1].version_after is not None:
                yield describe_version(recording, node, saved, writes[-1].version_after, writes[0].frame)
                return


def by_versions(recording: Recording, error: RaisedError, node: Node) -> Diagnosis | None:
    """The saved tensor of the failing Node whose version isn't the saved one."""
    now = dict(recording.frames[error.frame].versions)
    for saved in node.saved:
        version = now.get(saved.tensor) if saved.tensor is not None else None
        if saved.checked and version is not None and saved.version is not None and version != saved.version:
            return describe_version(recording, node, saved, version, error.frame, error)
    return None


def culprits(recording: Recording, saved: SavedTensor) -> list[Write]:
    """The Writes that moved the version past the saved one, first first."""
    if saved.tensor is None or saved.version is None:
        return []
    own = counter(recording, saved.tensor)
    moved = [
        write
        for write in recording.writes
        if (
            write.storage == saved.storage or counter(recording, write.tensor) == own
        )  # `x.data = y` moves it elsewhere
        and write.version_before is not None
        and write.version_after is not None
        and write.version_after > max(saved.version, write.version_before)
    ]
    shared = [write for write in moved if counter(recording, write.tensor) == own]
    return shared or moved


def describe_version(
    recording: Recording, node: Node, saved: SavedTensor, version: int, frame: int, error: RaisedError | None = None
) -> Diagnosis:
    """The Diagnosis of one saved tensor whose version moved; of an unnamed view, it speaks of the tensor viewed."""
    writes = culprits(recording, saved)
    write = writes[0] if writes else None
    tensor = owner(recording, saved.tensor) if saved.tensor is not None else None
    finding = Finding(
        recording=recording,
        kind=VERSIONS if error else MOVED,
        frame=frame,
        culprit=line_of(write),
        victim=birthplace(recording, node),
        node=node,
        tensor=tensor,
        write=write,
        saved=saved.version,
        now=version,
        route=route_of(recording, write, tensor) if write and tensor is not None else "self",
    )
    same = write is not None and is_same_line(recording, write, node)
    facts: dict[str, Word] = {
        **written(finding),
        "needed_for": needed_for(recording, node, saved.serves),
        "more": max(len(writes) - 1, 0),
        "result": int(saved.tensor in node.outputs),
        "trained": int(is_trained_leaf(finding)),
        "between": int(write is not None and is_trained_leaf(finding) and is_between(recording, write, node)),
        "same": int(same),
        "whole": int(write is not None and same and is_whole(recording, write)),
        "again_round": int(write is not None and ran_before(recording, write, node)),
        "part": int(write is not None and is_part(recording, write, saved)),
        "during": int(write is not None and is_by_backward(recording, write, node)),
    }
    if error is not None:
        return raised(finding, facts, error)
    return of_write(finding, OVERWROTE, BELOW_YET if needs_what_follows(finding) else MOVE_WRITE_YET, facts)


def written(finding: Finding) -> dict[str, Word]:
    """What was written, under which name, by which op."""
    recording, write = finding.recording, finding.write
    alias = label(recording, write.tensor if write else None)
    return {"label": label(recording, finding.tensor), "alias": alias, "op": write.op if write else ""}


def is_trained_leaf(finding: Finding) -> bool:
    """True where a leaf that requires grad was hit."""
    ref = finding.recording.tensors[finding.tensor] if finding.tensor is not None else None
    return ref is not None and ref.is_leaf and ref.requires_grad


def raised(finding: Finding, facts: dict[str, Word], error: RaisedError) -> Diagnosis:
    """The Diagnosis of an error; by what it is that was written, and how the call came there."""
    updated = facts["trained"] and finding.route != "inside"
    said = BY_UNKNOWN if finding.culprit is None else UPDATED if updated else OVERWROTE
    facts["again"], way = error.place.line if error.place else 0, way_into(finding.recording, error)
    if way.how in LOOPED:
        facts |= {**way.facts(finding.recording), "op": facts["op"]}
        handed = way.handed_on(finding.recording, error) if updated else None
        if handed is not None:  # the step is right: what it has updated must not be led back to
            step, finding = finding.line(finding.culprit), replace(finding, culprit=handed, instead=way.taken_anew)
            return of_write(finding, HANDED_ON, advice(finding, facts), facts, step=step)
        if updated and way.is_a_variable(finding.recording):
            step, finding = finding.line(finding.culprit), replace(finding, culprit=way.taken)
            facts |= made_on(finding.recording, error, way.tensors[0])
            return of_write(finding, USED_AGAIN, MAKE_IT_ANEW, facts, step=step)
    elif updated and finding.write is not None:
        step, early = finding.line(finding.culprit), too_early(finding, error)
        if early is not None:
            return of_write(early, TOO_EARLY, RUN_IT_LATER, facts, step=step)
        finding = with_the_loss(finding, error)
    elif finding.write is not None and (built := finding.recording.frames[finding.write.frame].built):
        line, finding = finding.write.place.line, replace(finding, culprit=built)
        call = built_out_of_place(str(facts["op"]))(built.code)
        instead = phrase(BUILT_AS, call=call.rstrip(", ")) if call else ""
        return of_write(finding, BUILT, NOT_BUILT_IN_PLACE, {**facts, "built": 1}, called_on=line, instead=instead)
    return of_write(finding, said, advice(finding, facts), facts)


def advice(finding: Finding, facts: dict[str, Word]) -> str:
    """What to do, the most special advice first."""
    op, route = str(facts["op"]), finding.route
    chosen = (
        (facts.get("how"), LOOPED.get(str(facts.get("how")))),
        (facts.get("during"), IN_BACKWARD),
        (facts.get("part"), COLLECT_PARTS),
        (facts.get("whole"), NEW_TENSOR),
        (facts.get("same"), OWN_MEMORY),
        (op in SHAPES, VIEW_INSTEAD),
        (facts.get("between"), UPDATED_BETWEEN),
        (facts["trained"] and route in ("self", "detach", "data", "view"), UPDATE_LATER),
        (facts.get("again_round"), EACH_ROUND),
        (op.endswith("(inplace=True)"), NOT_IN_PLACE_TAKEN if taken(finding.code) else NOT_IN_PLACE),
        (facts["result"], OWN_RESULT.get(route)),
        (needs_what_follows(finding), NO_WAY_UP.get(way(finding))),
        (True, BY_WAY.get(way(finding))),
    )
    return next((template for holds, template in chosen if holds and template), MOVE_WRITE)


def needs_what_follows(finding: Finding) -> bool:
    """True where what was written is computed of something that isn't there yet when the Node saves the tensor."""
    recording, write, node = finding.recording, finding.write, finding.node
    if write is None or node is None:
        return False
    given = (recording.tensors[number] for number in recording.frames[write.frame].inputs)
    born = ((each, recording.frames[each.frame]) for each in given if each.storage != write.storage)
    return any(frame.index >= node.frame and each.id in frame.outputs for each, frame in born)


def is_same_line(recording: Recording, write: Write, node: Node) -> bool:
    """True for `x[…] = f(x[…])`: one line that reads and writes."""
    return write.op.endswith("_") and line_of(write) == birthplace(recording, node)


def is_whole(recording: Recording, write: Write) -> bool:
    """True for a tensor that is written as a whole, by its own name: not a part of it, not an alias."""
    return write.op != "__setitem__" and recording.tensors[write.tensor].alias_of is None


def ran_before(recording: Recording, write: Write, node: Node) -> bool:
    """True where the same line wrote the same memory before the Node saved it, too: a loop has come round."""
    return any(
        each.place == write.place and each.storage == write.storage and each.frame < node.frame
        for each in recording.writes
    )


def is_between(recording: Recording, write: Write, node: Node) -> bool:
    """True where a backward call had given the leaf a gradient of that forward before it was written."""
    calls = (frame for frame in recording.frames[node.frame : write.frame] if frame.running is not None)
    storages = (recording.nodes[frame.running].leaf for frame in calls if frame.running is not None)
    return any(leaf is not None and recording.tensors[leaf].storage == write.storage for leaf in storages)


def is_by_backward(recording: Recording, write: Write, node: Node) -> bool:
    """True where a custom Function's own backward wrote it, in a call that came through its Node."""
    call = recording.frames[write.frame].backward
    ran = (frame for frame in recording.frames[: write.frame] if frame.running == node.id)
    return bool(function_of(node)) and call is not None and any(frame.backward == call for frame in ran)


def is_part(recording: Recording, write: Write, saved: SavedTensor) -> bool:
    """True for `x[…] = …` that fills a tensor piece by piece while pieces of it are read."""
    return (
        write.op == "__setitem__"
        and write.span != recording.tensors[write.tensor].span
        and (write.span[1] <= saved.span[0] or saved.span[1] <= write.span[0])
    )


def way_into(recording: Recording, error: RaisedError) -> Carried:
    """How the call came into the graph of an earlier step, if it did."""
    failed = recording.frames[error.frame]
    earlier = earlier_run(recording, error.node, failed)
    if earlier is None or error.node is None:
        return Carried("again")
    before, now = apart(recording, error, earlier)
    return carried(recording, error.node, failed, earlier, before == now)


def by_text(recording: Recording, error: RaisedError, node: Node) -> Diagnosis:
    """For a Node that hides what it saves (CopySlices): the Write whose shape and versions torch's message names."""
    shape = re.search(r"\[[\w.]+ \[([\d, ]*)\]\]", error.text)
    version = re.search(r"at version (\d+); expected version (\d+)", error.text)
    sides = tuple(int(side) for side in shape[1].split(",") if side.strip()) if shape else None
    expected, now = (int(version[2]), int(version[1])) if version else (None, None)
    fits = (
        each
        for each in recording.writes
        if each.version_before == expected and sides in (None, recording.tensors[each.tensor].shape)
    )
    write = next(fits, None)
    finding = Finding(
        recording=recording,
        kind=VERSIONS if version else MODIFIED,
        frame=error.frame,
        culprit=line_of(write),
        victim=birthplace(recording, node),
        node=node,
        tensor=write.tensor if write else None,
        write=write,
        saved=expected,
        now=now,
    )
    return raised(finding, {**written(finding), "needed_for": "", "more": 0, "result": 0, "trained": 0}, error)
