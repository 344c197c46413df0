"""Torch says nothing: bytes changed unseen of a saved tensor, of a gradient on its way, of what is still to be read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from seegrad.diagnose.evidence import (
    ancestors,
    birthplace,
    function_around,
    is_unread_after,
    label,
    line_of,
    needed_for,
    owner,
    route_of,
)
from seegrad.diagnose.finding import NO_TWIN, DiagnosisKind, Finding, finder
from seegrad.diagnose.mend import built_out_of_place
from seegrad.diagnose.mend.given import given_only, read_times
from seegrad.diagnose.saved import BUILT_AS, is_trained_leaf, of_write, way, written
from seegrad.model.recording import Diagnosis, Frame, Node, Place, Recording, SavedTensor, Write
from seegrad.words.languages import marked
from seegrad.words.phrases import Word, phrase, plural

# -- a saved tensor's bytes changed and its version didn't

SILENT = DiagnosisKind(
    "silent_corruption",
    "wrong",
    marked("silent corruption"),
    (marked("v{saved} saved = v{now} now,"), marked("but the numbers changed")),
)
UNCHECKED = replace(SILENT, tag=(marked("no version was noted,"), marked("and the numbers changed")))

SILENTLY = marked(
    "{Culprit} overwrote {label}{through}, after {node} from {victim} had saved it{need}{others}; "
    "the version stayed {saved}, so torch raised nothing and the gradient is wrong."
)
SILENTLY_KEPT_BY = {
    "attribute": marked(
        "{Culprit} overwrote {label}{through}, after {node} from {victim} had kept it as `{attr}`{need}{others}; "
        "torch checks only what `ctx.save_for_backward` saves, so it raised nothing and the gradient is wrong."
    ),
    "hook": marked(
        "{Culprit} overwrote {label}{through}, after {node} from {victim} had saved it{need}{others}; "
        "a saved-tensor hook keeps it, which switches torch's check off: nothing was raised, the gradient is wrong."
    ),
}
SILENTLY_BY_UNKNOWN = marked(
    "The bytes of {label} changed after {node} from {victim} had saved it{need}{others}; "
    "the version stayed {saved}, so torch raised nothing and the gradient is wrong."
)
KEEP_CHECKED = {
    "attribute": marked(
        "Keep it with `ctx.save_for_backward` and torch will raise here instead; "
        "to be right, write to a copy, `{copy}`, or after the backward call."
    ),
    "hook": marked(
        "Let the pack hook return a copy of what it's given, not the tensor itself (`save_on_cpu` copies nothing "
        "that is on the CPU already), or write to a copy, `{copy}`, or after the backward call."
    ),
}
UPDATE_CHECKED = marked(
    "An update belongs after the backward call that uses the old value; "
    "write it under `with torch.no_grad():` instead of through `.data`, and torch will check the order."
)
SEEN_INSTEAD = marked(
    "Make a new tensor instead, `{new}`, so that autograd knows of the change, or write after the backward call."
)
HANDED_BACK = marked(
    "Make a new tensor instead, `{new}`, hand it back with `return`, and take it up where `{function}` is called, "
    "so that autograd knows of the change; or write after the backward call."
)
CHECKED_BY_WAY = {
    "data": marked(
        "Replace `.data` by `.detach()` and torch will raise here instead; to be right, write to a copy, "
        "`{copy}`, or after the backward call."
    ),
    "inside": marked(
        "`{op}` does not move the version of what it writes: let the backward call come before it, "
        "or run the forward again after it."
    ),
    "storage": marked(
        "Give {alias} a storage of its own (`.clone()` instead of `set_`), or write after the backward call."
    ),
    "outside": marked(
        "Torch cannot see writes through numpy or a raw pointer: write to a copy, `{name}.detach().clone().numpy()`, "
        "or after the backward call."
    ),
}
LET_COUNT = marked(
    "The version counter was held back while the bytes changed: write without that, so that torch can check, "
    "or write after the backward call."
)


@finder(order=12)
def find_silent(recording: Recording) -> Iterator[Diagnosis]:
    """One Diagnosis for each line that corrupted something, with its first victim."""
    hits: dict[Place | None, list[tuple[Frame, Node, SavedTensor, Write | None]]] = {}
    for frame in recording.frames:
        if frame.running is None or not frame.corrupted:
            continue
        node = recording.nodes[frame.running]
        for index in frame.corrupted:
            write = corrupting(recording, frame, node, node.saved[index])
            hits.setdefault(line_of(write), []).append((frame, node, node.saved[index], write))
    for place, victims in hits.items():
        yield describe_silent(recording, place, victims)


def corrupting(recording: Recording, frame: Frame, node: Node, saved: SavedTensor) -> Write | None:
    """The first Write to these bytes between their saving and their use, or one by a hook in the same backward.

    A hook's Write stands at the end of its backward: when in it, before or after this use, the use itself tells.
    `x.data = y` writes nothing: x has other bytes from then on, those who share its old ones keep them.
    """
    hits = [
        write
        for write in recording.writes
        if node.frame < write.frame
        and (write.tensor == saved.tensor or (write.storage == saved.storage and write.op != "set data"))
        and write.span[0] < saved.span[1]
        and saved.span[0] < write.span[1]
    ]
    before = (write for write in hits if write.frame < frame.index)
    within = (write for write in hits if recording.frames[write.frame].backward == frame.backward is not None)
    return next(before, next(within, None))


def describe_silent(
    recording: Recording, place: Place | None, victims: list[tuple[Frame, Node, SavedTensor, Write | None]]
) -> Diagnosis:
    """The Diagnosis of one silent Write; the victim that the engine reached first stands for all."""
    frame, node, saved, write = victims[0]
    tensor = owner(recording, saved.tensor) if saved.tensor is not None else None
    finding = Finding(
        recording=recording,
        kind=SILENT if saved.version is not None and saved.checked else UNCHECKED,
        frame=frame.index,
        culprit=place,
        victim=birthplace(recording, node),
        node=node,
        tensor=tensor,
        write=write,
        saved=saved.version,
        now=saved.version,
        route=route_of(recording, write, tensor) if write and tensor is not None else "storage",
    )
    count = len({victim.id for _, victim, _, _ in victims} - {node.id})
    others = plural(" (and {count} more Node)", " (and {count} more Nodes)", count) if count else ""
    kept = "version" if saved.checked else "attribute" if saved.attr.startswith("ctx.") else "hook"
    facts: dict[str, Word] = {
        **written(finding),
        "needed_for": needed_for(recording, node, saved.serves),
        "kept": kept,
        "attr": saved.attr,
        "others": count,
        "trained": int(is_trained_leaf(finding)),
    }
    said = SILENTLY_KEPT_BY.get(kept, SILENTLY) if place else SILENTLY_BY_UNKNOWN
    return of_write(finding, said, KEEP_CHECKED.get(kept) or advice(finding, facts), facts, others=others)


def advice(finding: Finding, facts: dict[str, Word]) -> str:
    """What to do where torch's check was gone round, the most special advice first."""
    if finding.route == "data" and facts["trained"]:
        return UPDATE_CHECKED
    constant = facts["op"] in NO_TWIN  # a new tensor that holds constants only has no history
    if finding.route == "data" and f".data.{facts['op']}(" in finding.code and not constant:
        facts["function"] = function_around(finding.recording, finding.culprit)
        return HANDED_BACK if is_unread_after(finding.recording, finding.culprit) else SEEN_INSTEAD
    return CHECKED_BY_WAY.get(way(finding), LET_COUNT)


# -- a hook or a custom backward wrote to its gradient in place, and another Node was given the same memory

SHARED = DiagnosisKind("gradient_overwritten", "wrong", marked("gradient overwritten"))
GRADIENT_SHARED = marked(
    "{Culprit} overwrote a gradient while backward ran, and {node} from {victim} was given the same tensor: "
    "torch raised nothing and the gradient of {label} is wrong."
)
RETURN_NEW = marked(
    "A hook or a custom backward may share its gradient with others: "
    "return a new tensor (`grad * 2`) instead of writing to it (`grad.mul_(2)`)."
)


@finder(order=13)
def find_shared(recording: Recording) -> Iterator[Diagnosis]:
    """One Diagnosis for each line that wrote, with its first victim."""
    told: set[Place] = set()
    for frame in recording.frames:
        if frame.running is None:
            continue
        for write in (recording.writes[number] for number in frame.spoiled):
            if write.place not in told:
                told.add(write.place)
                yield describe_shared(recording, frame, recording.nodes[frame.running], write)


def describe_shared(recording: Recording, frame: Frame, node: Node, write: Write) -> Diagnosis:
    """The culprit is the write, the victim the Node that was given what it left."""
    output = node.leaf if node.leaf is not None else node.outputs[0] if node.outputs else None
    finding = Finding(
        recording=recording,
        kind=SHARED,
        frame=frame.index,
        culprit=write.place,
        victim=birthplace(recording, node),
        node=node,
        tensor=output,
        write=write,
        saved=write.version_before,
        now=write.version_after,
    )
    needed = needed_for(recording, node, tuple(edge.slot for edge in node.edges))
    facts: dict[str, Word] = {"label": label(recording, output), "op": write.op, "needed_for": needed}
    return finding.told(GRADIENT_SHARED, RETURN_NEW, facts)


# -- what a module has overwritten as it was built to, and a line reads afterwards

READ_AFTER = DiagnosisKind("read_after_write", "note", marked("read after it was overwritten"))
LEFT_THERE = marked(
    "{Culprit} builds a module that, called on line {called_on}, overwrites {label}: {victim} reads that afterwards, "
    "and gets what `{op}` has left there, not what went in."
)
LET_IT_STAY = marked("If {victim} is to have what went in, build the module without `inplace=True`{instead}.")


@finder(order=34)
def find_read_after(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line that builds such a module, with the first line that reads what that has overwritten."""
    built = [write for write in recording.writes if recording.frames[write.frame].built is not None]
    writes = [write for write in built if not _is_made_there(recording, write)]
    readers: dict[int, list[Frame]] = {write.tensor: [] for write in writes}
    for frame in recording.frames if writes else ():
        for tensor in set(frame.inputs) & readers.keys() if frame.phase in ("forward", "inplace") else ():
            readers[tensor].append(frame)
    told: set[Place | None] = set()
    for write in writes:
        at = recording.frames[write.frame]
        reads = (each for each in readers[write.tensor] if each.index > at.index and _reads_again(at, each))
        reader = next(reads, None)
        if reader is not None and at.built not in told:
            told.add(at.built)
            yield _describe_read(recording, write, reader)


def _is_made_there(recording: Recording, write: Write) -> bool:
    """Has the line that calls the module made it, too? What a layer gave the next one no variable has held before."""
    first, _route = ancestors(recording, write.tensor)[-1]
    return recording.frames[recording.tensors[first].frame].place == write.place


def _reads_again(wrote: Frame, reads: Frame) -> bool:
    """Does a line of the same call read a variable that the writing line gave to a module, and gave nothing new?"""
    line, other = wrote.place, reads.place
    if line is None or other is None or line.file != other.file:
        return False
    here = line == other
    if not here and line.code.startswith("return"):
        return False  # nothing of that call comes after it
    for called, name in given_only(line.code):
        owner = f".{wrote.module}.".rpartition(f".{called}.")[0]  # "" where a variable is called
        inside = f".{reads.module}.".startswith(f"{owner}.")
        inner = here and reads.module.startswith(wrote.module)
        if inside and not inner and read_times(other.code, name) > here:
            return True
    return False


def _describe_read(recording: Recording, write: Write, reader: Frame) -> Diagnosis:
    built, op = recording.frames[write.frame].built, write.op.removesuffix("(inplace=True)")
    finding = Finding(
        recording=recording,
        kind=READ_AFTER,
        frame=reader.index,
        culprit=built,
        victim=reader.place,
        tensor=write.tensor,
        write=write,
        route="inside",
    )
    call = built_out_of_place(write.op)(finding.code)
    instead = phrase(BUILT_AS, call=call.rstrip(", ")) if call else ""
    facts: dict[str, Word] = {"label": label(recording, write.tensor), "op": op}
    return finding.told(LEFT_THERE, LET_IT_STAY, facts, called_on=write.place.line, instead=instead)
