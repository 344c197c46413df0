"""Fast weights that are written into a module without their history: no outer loss goes back through the inner step.

Whoever asks for the inner gradients with a graph of their own means to go back through them. `load_state_dict`,
`.data =` and `copy_` under `no_grad` hand on numbers alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from seegrad.diagnose.cut import LOST
from seegrad.diagnose.evidence import ancestors, label, nodes_behind
from seegrad.diagnose.finding import Finding, finder
from seegrad.diagnose.training.freezes import trained_step
from seegrad.diagnose.training.steps import leaf_of
from seegrad.model.recording import Diagnosis, Frame, Place, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word

NUMBERS_ALONE = marked(
    "{Culprit} writes {given}, computed of gradients that {asked} asked for with a graph of their own, into {label}: "
    "that takes the numbers alone, so the backward call on {victim} ends at {label}, and doesn't go back through those "
    "gradients."
)
CALL_WITH_THEM = marked(
    "If the outer loss is to train through the inner step (MAML), compute with the values themselves, by "
    "`torch.func.functional_call(model, weights, (x,))`; if the first order is enough, leave `create_graph=True` out."
)

WRITES = frozenset({"copy_", "set data"})
SEVERAL = 2
"""So often at least it has to be done so."""


@dataclass(frozen=True, slots=True)
class FastWrite:
    """What was computed of asked gradients, the Parameter that it was written into, and where a backward call ends."""

    asked: Frame
    write: Frame
    given: int
    leaf: int
    arrival: Frame | None  # None where it's written again before, by the next inner step


@finder(order=27)
def find_fast_weights(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line that writes so, into what is put back and stepped, or into a copy of what is."""
    told = set[Place | None]()
    for found in fast_writes(recording).values():
        if found.write.place in told or found.arrival is None:
            continue
        told.add(found.write.place)
        finding = Finding(
            recording=recording,
            kind=LOST,
            frame=found.arrival.index,
            culprit=found.write.place,
            victim=found.arrival.place,
            tensor=found.given,
        )
        words = {"label": label(recording, found.leaf), "given": label(recording, found.given)}
        facts: dict[str, Word] = {"how": "fast", "cause": "written", "op": found.write.op, **words}
        yield finding.told(NUMBERS_ALONE, CALL_WITH_THEM, facts, asked=finding.line(found.asked.place))


def fast_writes(recording: Recording) -> dict[Place | None, FastWrite]:
    """By the line that asks for gradients with a graph of their own: the first write of what is computed of them.

    Only where that holds each time, and no backward call comes for anything that is computed of them.
    """
    lines: dict[Place | None, list[Frame]] = {}
    for frame in recording.frames:
        has_graph = any(recording.tensors[each].requires_grad for each in frame.outputs)
        if (frame.op, frame.phase) == ("grad", "backward") and frame.grad_enabled and has_graph:
            lines.setdefault(frame.place, []).append(frame)
    ran = {frame.running for frame in recording.frames if frame.running is not None} if lines else set()
    found: dict[Place | None, FastWrite] = {}
    for place, asked in lines.items():
        ends = [*(each.index for each in asked[1:]), len(recording.frames)]
        laps = [(each, recording.frames[each.index + 1 : end]) for each, end in zip(asked, ends, strict=True)]
        written = [_written(recording, *lap, ran) for lap in laps]
        ending = [each for each in written if each is not None and each.arrival is not None]
        if len(ending) >= SEVERAL and None not in written and any(_is_of_trained(recording, each) for each in written):
            found[place] = ending[0]
    return found


def _written(recording: Recording, asked: Frame, since: Sequence[Frame], ran: set[int]) -> FastWrite | None:
    """The first such write of a lap; None where its history was of use."""
    computed, found = set(asked.outputs), None
    for frame in since:
        if computed.isdisjoint(frame.inputs):
            continue
        if frame.phase == "forward":
            if not ran.isdisjoint(frame.nodes):
                return None
            computed |= {each for each in frame.outputs if _is_of(recording, each, frame)}
        elif frame.op in WRITES and found is None and len(frame.inputs) == 2:
            leaf = _parameter(recording, frame.inputs[0])
            if leaf is not None and frame.inputs[1] in computed:
                arrival = _arrival(recording, leaf, asked, frame)
                found = FastWrite(asked, frame, frame.inputs[1], leaf, arrival)
    return found


def _is_of(recording: Recording, tensor: int, frame: Frame) -> bool:
    """Has it a history, or the bytes of something that has?"""
    return recording.tensors[tensor].requires_grad or frame.op in ("detach", "data")


def _parameter(recording: Recording, tensor: int) -> int | None:
    """The Parameter that it is, or of which it's a `.detach()` or `.data`."""
    *way, (number, _route) = ancestors(recording, tensor)
    whole = all(route in ("detach", "data") for _, route in way)
    return number if whole and recording.tensors[number].parameter else None


def _is_of_trained(recording: Recording, write: FastWrite | None) -> bool:
    """Does what was written lead back to something that an optimiser trains?"""
    given = {number for number, _ in ancestors(recording, write.given)} if write is not None else set[int]()
    made = [node.id for node in recording.nodes if not given.isdisjoint(node.outputs)]
    leaves = {leaf for each in nodes_behind(recording, made) if (leaf := recording.nodes[each].leaf) is not None}
    return bool(leaves) and trained_step(recording, leaves, 0) is not None


def _arrival(recording: Recording, leaf: int, asked: Frame, write: Frame) -> Frame | None:
    """Where a backward call comes to it before it's written again.

    Only if it gets back then what it was before the inner step, and is trained; or if it is a copy's, of which nobody
    takes the gradient: no optimiser holds it, and no code of the user's reads it.
    """
    writes = (each for each in recording.writes if each.frame > write.index)
    back = next((recording.frames[each.frame] for each in writes if _parameter(recording, each.tensor) == leaf), None)
    if not (_is_given_back(recording, leaf, asked, back) or _is_thrown_away(recording, leaf)):
        return None
    between = recording.frames[write.index : back.index if back is not None else None]
    return next((each for each in between if leaf_of(recording, each) == leaf), None)


def _is_given_back(recording: Recording, leaf: int, asked: Frame, back: Frame | None) -> bool:
    if back is None or back.op not in WRITES or trained_step(recording, {leaf}, back.index) is None:
        return False
    *_, (kept, _route) = ancestors(recording, back.inputs[-1])
    return recording.tensors[kept].frame < asked.index


def _is_thrown_away(recording: Recording, leaf: int) -> bool:
    used = {number for use in recording.uses if use.kind != "cleared" for number, _ in use.tensors}
    held = {number for use in recording.uses if use.kind in ("stepped", "idle") for number, _ in use.tensors}
    reads = [use for use in recording.uses if use.kind == "read"]  # of each line the first leaf is known
    several = any(use.place is not None and use.place.code.count(".grad") > 1 for use in reads)
    return leaf not in used and not several and all(number in held for use in reads for number, _ in use.tensors)
