"""Which line takes up, for a loss, what that loss isn't to train, where a `.detach()` belongs; or where one is lost."""

from __future__ import annotations

import re

from seegrad.diagnose.evidence import (
    are_in_one_function,
    birthplace,
    dropped_call,
    function_around,
    is_trained,
    nodes_behind,
    owner,
)
from seegrad.diagnose.gradients import reach
from seegrad.diagnose.mend.given import given_only
from seegrad.model.recording import Frame, Place, Recording

READS = frozenset({"len", "isinstance", "type", "id"})
"""Functions that are given a tensor and compute nothing of its numbers."""


def undetached(
    recording: Recording, tensors: tuple[int, ...], earlier: Frame, failed: Frame, bound: dict[str, Place]
) -> Place | None:
    """The line that takes up, for the loss of the earlier call, what the step behind that call doesn't train.

    `bound`: the lines that gave the variables under way what they hold.
    """
    behind, held = _trained(recording, tensors), _stepped(recording, earlier, failed)
    if not held or not behind or not behind.isdisjoint(held):
        return None
    taking = _taking(recording, tensors, _ran(recording, earlier))
    if taking is not None and _is_named(recording, tensors, taking):
        return taking
    return _handing(recording, tensors, bound, earlier.place) or taking


def _handing(
    recording: Recording, tensors: tuple[int, ...], bound: dict[str, Place], until: Place | None
) -> Place | None:
    """The only line that gives one of these to a call, from where it is bound to a backward call: of a module, say."""
    names = [name for each in tensors if (name := recording.tensors[each].name) in bound]
    since = bound[names[0]] if names else None
    if since is None or until is None or since.file != until.file:
        return None
    lines = {each.line: each.code for each in bound.values() if each.file == until.file}
    if until.file == recording.code_file:
        lines = dict(recording.code) if are_in_one_function(recording, since, until) else {}
    between = {line: code.strip() for line, code in lines.items() if since.line < line <= until.line}
    given = {line: [call for call, name in given_only(code) if name == names[0]] for line, code in between.items()}
    found = [line for line, calls in given.items() if not READS.issuperset(calls)]
    return Place(until.file, found[0], between[found[0]]) if len(found) == 1 else None


def of_a_peer(
    recording: Recording, tensors: tuple[int, ...], earlier: Frame, failed: Frame
) -> tuple[tuple[int, ...], Place | None]:
    """Of the results that two losses share, those that the step of the earlier one doesn't train; who takes them up.

    Only where that step trains what made another of them: then each loss has a result of its own, and its peer's.
    """
    results, held = [each for each in tensors if not is_trained(recording, each)], _stepped(recording, earlier, failed)
    behind = {each: _trained(recording, (each,)) for each in results}
    foreign = tuple(each for each, leaves in behind.items() if leaves and leaves.isdisjoint(held))
    own = any(leaves and leaves <= held for leaves in behind.values())
    return foreign, _taking(recording, foreign, _ran(recording, earlier)) if own and foreign else None


def _stepped(recording: Recording, since: Frame, until: Frame) -> set[int]:
    """The leaves with which optimisers have stepped between two Frames."""
    uses = (each for each in recording.uses if each.kind == "stepped" and since.index < each.frame < until.index)
    return {leaf for each in uses for leaf, _ in each.tensors}


def _ran(recording: Recording, call: Frame) -> set[int]:
    """The Nodes that ran in the backward call of a Frame."""
    return {each.running for each in recording.frames if each.backward == call.backward and each.running is not None}


def of_the_other(recording: Recording, tensors: tuple[int, ...], one: int | None, other: int | None) -> Place | None:
    """The line that takes up, for one of two losses that share these, what only the other one is to train.

    The other one reaches nothing but what made them, as far as known optimisers hold it; this one reaches more.
    """
    behind = _trained(recording, tensors)
    if one is None or other is None or not behind:
        return None
    held = [{leaf for leaf, _ in each.tensors} for each in recording.uses if each.kind in ("stepped", "idle")]
    mine = next((each for each in held if behind <= each), behind)
    foreign = set[int]().union(*held) - mine or {node.leaf for node in recording.nodes if node.leaf is not None} - mine
    ways = [nodes_behind(recording, [root]) for root in (one, other)]
    guilty = [way for way in ways if foreign & _leaves(recording, way)]
    return _taking(recording, tensors, guilty[0]) if len(guilty) == 1 else None


COMPARES = frozenset({"mse_loss", "smooth_l1_loss", "huber_loss", "l1_loss"})
"""Losses of which the second side is a target."""


def as_a_target(recording: Recording, start: int | None, failing: int | None) -> int | None:
    """The target of a comparison on the way from a loss's Node by which alone it leads to another Node."""
    behind = nodes_behind(recording, [start]) if start is not None else set()
    makers = {number: node.id for node in recording.nodes if node.id in behind for number in node.outputs}
    for frame in recording.frames if failing in behind else ():
        if frame.op in COMPARES and frame.phase == "forward" and not makers.keys().isdisjoint(frame.outputs):
            sides = [nodes_behind(recording, [makers[each]]) if each in makers else () for each in frame.inputs[:2]]
            if len(sides) == 2 and failing in sides[1] and failing not in sides[0]:
                return frame.inputs[1]
    return None


def _taking(recording: Recording, tensors: tuple[int, ...], among: set[int]) -> Place | None:
    """The line whose Node leads into what made these, and is none of that itself; in a forward, if it names them."""
    made = {node.id for node in recording.nodes if not set(tensors).isdisjoint(node.outputs)}
    others = (recording.nodes[each] for each in sorted(among - made))
    taking = (node for node in others if any(edge.target in made for edge in node.edges))
    place = birthplace(recording, next(taking, None))
    named = place is not None and _is_named(recording, tensors, place)
    return place if named or function_around(recording, place) != "forward" else None


def _is_named(recording: Recording, tensors: tuple[int, ...], place: Place) -> bool:
    """Does a line speak of one of these?"""
    words = set(re.findall(r"[\w.]+", place.code))
    return not words.isdisjoint(name for each in tensors if (name := recording.tensors[each].name) is not None)


def _trained(recording: Recording, tensors: tuple[int, ...]) -> set[int]:
    return {each for each in reach(recording, tensors) if is_trained(recording, each)}


def _leaves(recording: Recording, nodes: set[int]) -> set[int]:
    return {leaf for each in nodes if (leaf := recording.nodes[each].leaf) is not None}


REBOUND = re.compile(r"\s*(\w+)\s*=\s*\1\.detach\(\)\s*(?:#|$)")
"""`h = h.detach()`: of a loop's variable or an argument, it's gone when that is."""


def dropped_detach(recording: Recording, tensors: tuple[int, ...], failed: Frame) -> Place | None:
    """The line that has detached one of these, for nothing: no call was given the result, and it's kept nowhere."""
    frames = recording.frames[: failed.index]
    cuts = [
        frame
        for frame in frames
        if frame.op == "detach"
        and frame.place is not None
        and frame.inputs[:1]
        and owner(recording, frame.inputs[0]) in tensors
    ]
    cut = {each for frame in cuts for each in frame.outputs}
    taken = cut.intersection(each for frame in frames for each in frame.inputs) if cut else set[int]()
    for frame in cuts:
        code = frame.place.code if frame.place is not None else ""
        if taken.isdisjoint(frame.outputs) and (dropped_call(code, "detach") or REBOUND.match(code)):
            return frame.place
    return None
