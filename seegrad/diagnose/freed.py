"""A second backward through a graph whose saved tensors are gone: which call freed them, what led back to them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from seegrad.diagnose.evidence import (
    RESETS,
    birthplace,
    called,
    errors_with,
    is_trained,
    label,
    made_at,
    owner,
)
from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.diagnose.gradients import reach
from seegrad.diagnose.history.once import bound_outside, cached_by, filled_on, first_made, put_at, set_at
from seegrad.diagnose.history.taken import as_a_target, dropped_detach, of_a_peer, of_the_other, undetached
from seegrad.diagnose.history.updated import speaking_of
from seegrad.diagnose.history.ways import leading_to, links_into, root
from seegrad.model.recording import Collected, Diagnosis, Edge, Frame, Node, Place, RaisedError, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Word, joined

CORE = "backward through the graph a second time"
FREED = DiagnosisKind("graph_freed", "error", marked("graph freed"), (marked("saved tensors already freed"),))

FREED_ALREADY = marked(
    "The backward call on line {again} needs what {node} from {victim} had saved, but {culprit} has freed it already."
)
FREED_EARLIER = marked(
    "The backward call on line {again} needs what {node} from {victim} had saved, "
    "but an earlier backward call has freed it already."
)
HANDED_ON = marked(
    "{Culprit} hands {carried} on with its graph: the backward call on line {again} comes through it to {node} from "
    "{victim}, whose saved tensors an earlier call has freed."
)
LET_GO = marked(
    "{Culprit} detaches {carried} and nobody takes the result: `.detach()` leaves the tensor itself as it is, so the "
    "backward call on line {again} comes through it to {node} from {victim}, whose saved tensors an earlier call has "
    "freed."
)
STALE = marked(
    "{Culprit} uses {carried} once more, but line {changed} has meanwhile changed Parameters that it was computed "
    "with: the backward call on line {again} comes through it to {node} from {victim}, whose saved tensors an earlier "
    "call has freed."
)
ANEW_THERE = marked("{Place} takes it up each time: it can be computed anew there.")
TAKE_IT = marked("Put what `.detach()` returns in its place, `{cut}`, where the next step will take it from.")
RUN_AGAIN = marked(
    "Run the forward again before each backward, or pass `retain_graph=True` to the first call "
    "if both really belong to one forward."
)
BY_HOW = {
    "twice": marked(
        "Both go back from the same loss: leave one of the two calls out; if its gradients are meant to be added "
        "twice, pass `retain_graph=True` to the first."
    ),
    "carried": marked(
        "{carried} still leads into the step before: cut it there, `{cut}`, before line {taken} uses it again, "
        "and each backward ends where its own step begins."
    ),
    "within": marked(
        "{carried} still leads into the step before: cut it there, `{cut}`, at the end of the step, after the backward "
        "call on line {again}, and each backward ends where its own step begins."
    ),
    "unnamed": marked(
        "What line {made} made in the step before still leads there: "
        "give line {taken} its `.detach()`, and each backward ends where its own step begins."
    ),
    "kept": marked(
        "{carried} of an earlier step is still kept and used again on line {taken}: after each step, "
        "empty the list that keeps it, or keep `.detach()` of what is not to be trained any more."
    ),
    "summed": marked(
        "{carried} adds up losses with their graphs, so backward goes through every earlier step: call backward on the "
        "new loss alone, and add its `.detach()` to {carried}."
    ),
    "once": marked(
        "{carried} was computed once, on line {made}, and every step leads back through it: compute it anew in each "
        "step, or use `{detached}` if what made it is not to be trained."
    ),
    "collected": marked(
        "{carried} keeps results together with their graphs, and every step leads back through them: put `.detach()` "
        "of each in if what made them is not to be trained; else compute them anew in each step."
    ),
    "reset": marked(
        "`{op}` writes over all numbers of {carried} and leaves it its history: detach it there as well, "
        "`.detach_().{op}(…)`, or put a new tensor in its place, and each backward ends where its own step begins."
    ),
    "wrapped": marked(
        "{carried} isn't the Parameter but the result of an op on it, computed once, on line {made}: make the "
        "Parameter of the finished numbers, `nn.Parameter(…)` around the whole, and each step ends at a leaf."
    ),
    "shared": marked(
        "Both losses lead through {carried}: add them and call backward once; "
        "if only one of them is to train what made it, give the other one `{detached}`."
    ),
    "stale": marked(
        "Compute {carried} anew once line {changed} has run, as line {made} did, together with all that leads to it, "
        "and go back from that: what it is now belongs to the Parameters of before."
    ),
    "buffer": marked(
        "A buffer keeps numbers from one step to the next and isn't trained: store `.detach()` of what line {made} "
        "computes, and no later backward call goes through what it was computed from."
    ),
    "cached": marked(
        "That hands out in each step what a function has computed in the first one: take it away, so that {carried} is "
        "computed anew, or keep by it only what no Parameter is needed for."
    ),
    "peer": marked(
        "The step that follows this loss trains nothing of what made {peer}: give the loss `{detached}`, and each "
        "backward call stays with the Parameters that its own step trains."
    ),
    "target": marked(
        "A loss compares with {carried}, through which both backward calls lead: if it is only a target, give the loss "
        "`{detached}`; if what made it is to learn by both, add the losses and call backward once."
    ),
    "later": marked(
        "Both backward calls lead through {carried}: give the one that is not to train what made it `{detached}`; "
        "if both are, pass `retain_graph=True` to the first."
    ),
}


@finder(order=9)
def find_freed(recording: Recording) -> Iterator[Diagnosis]:
    """One Diagnosis for each such error."""
    for error in errors_with(recording, CORE):
        yield describe_freed(recording, error)


def describe_freed(recording: Recording, error: RaisedError) -> Diagnosis:
    """The last earlier call that ran the failing Node is the culprit; its tensor is what led into the old graph."""
    node = recording.nodes[error.node] if error.node is not None else None
    failed = recording.frames[error.frame]
    earlier = earlier_run(recording, error.node, failed)
    freed, again = apart(recording, error, earlier)
    way = carried(recording, node.id, failed, earlier, freed == again) if node and earlier else Carried("again")
    way = outdated(recording, way, earlier, failed) if way.how == "later" and earlier else way
    way = replace(way, given=error.given) if way.how in ("carried", "within") else way
    way = among_peers(recording, way, earlier, failed) if way.how in ("once", "wrapped") and earlier else way
    way = in_a_cache(recording, in_a_buffer(recording, at_a_target(recording, way, error)))
    dropped = dropped_detach(recording, way.tensors, failed)
    handed = dropped or way.handed_on(recording, error) or not_to_train(recording, way, earlier, error)
    output = node.outputs[0] if node and node.outputs else None
    tensor = way.tensors[0] if way.tensors else output
    finding = Finding(
        recording=recording,
        kind=FREED,
        frame=error.frame,
        culprit=handed or freed,
        victim=birthplace(recording, node),
        node=node,
        tensor=tensor,
        name=called(recording, tensor) if tensor is not None else None,
        instead=way.taken_anew,
    )
    facts: dict[str, Word] = {"again": again.line if again else 0, **way.facts(recording)}
    if way.how == "again" and earlier is not None and (freed, again) != (earlier.place, error.place):
        facts["how"] = "twice"
    if handed is not None and way.how == "once" and dropped is None:
        facts["made"] = handed.line
    freely = FREED_ALREADY if finding.culprit else FREED_EARLIER
    said = LET_GO if dropped else STALE if way.changed else HANDED_ON if handed else freely
    advice = TAKE_IT if dropped and facts["cut"] else BY_HOW.get(str(facts["how"]), RUN_AGAIN)
    return finding.told(said, advice, facts, detached=f"{finding.called or '…'}.detach()")


def apart(recording: Recording, error: RaisedError, earlier: Frame | None) -> tuple[Place | None, Place | None]:
    """The lines of the earlier call and of the one that failed, as one reads them who looks for the difference.

    Where one function makes both calls, and what it is given differs, the innermost lines that differ on the way there.
    """
    if earlier is None:
        return None, error.place
    starts = (root(recording, earlier), root(recording, recording.frames[error.frame]))
    made = [birthplace(recording, recording.nodes[start]) for start in starts if start is not None]
    in_it = starts[0] != starts[1] and made[:1] == made[1:]  # it computes what it calls backward on
    ways = zip(*(reversed(way) for way in error.ways), strict=False) if not in_it else ()
    return next(((before, now) for now, before in ways if now != before), (earlier.place, error.place))


# -- which tensor leads from a new graph into one that an earlier backward has been through

Computed = Literal["once", "collected", "wrapped", "peer", "target", "buffer", "cached"]
How = Literal["again", "shared", "later", "stale", "carried", "within", "kept", "summed", "reset"] | Computed
"""How the second backward came into the graph of the first.

`again`: from the same loss. `shared`: two losses of one forward. `later`: a loss made after the first backward,
`stale`: after a step, too, of an older result.
In a loop, `carried`: through a tensor that each step makes anew from the last, `within` a module's forward, `reset`:
one that each step writes over in place; `kept`: through one of an earlier step, beside those of this step; `summed`:
through a sum of all losses; `once`: through a tensor made before the loop, `collected`: joined of what a list holds,
`wrapped`: of a Parameter that nobody holds, `peer`: of what the step of that loss doesn't train, but its peer's does,
`buffer`: of what a module's buffer was given, `cached`: of what a function or its decorator keeps, `target`: of a loss.
"""

ITEM = re.compile(r"\[\d+\]$")

ATTRIBUTE = re.compile(r"(?:[\w.]+\s*,\s*)*?(self(?:\.\w+)+)\s*(?:,[\w.,\s]+)?=(?!=)")
"""`self.weight = …`, `_, self.weight = …`: what a module's forward keeps."""

MAX_NAMED = 3
"""Tensors that are named, where several lead into the old graph."""


@dataclass(frozen=True, slots=True)
class Carried:
    """The tensors through which a backward reached what an earlier one has used, and the line that took them up."""

    how: How
    tensors: tuple[int, ...] = ()
    taken: Place | None = None
    op: str = ""  # that took them up
    given: tuple[tuple[str, str], ...] = ()  # argument → what the caller of its function calls it
    changed: Place | None = None  # the line that has changed what they were computed with, after the first backward

    def facts(self, recording: Recording) -> dict[str, Word]:
        """What the sentences need of it."""
        names = self.names(recording)
        first = self.tensors[0] if self.tensors else None
        made, held = made_at(recording, first), joined_of(recording, first) if self.how == "collected" else None
        known: list[Word] = [f"`{name}`" for name in dict.fromkeys(map(collection, [held.name] if held else names))]
        return {
            "how": self.how if known or self.how not in ("carried", "within") else "unnamed",
            "carried": joined(known or dict.fromkeys(label(recording, number) for number in self.tensors)),
            "cut": cutting(names),
            "taken": self.taken.line if self.taken else 0,
            "made": made.line if made else 0,
            "op": self.op,
            **({"peer": label(recording, first)} if self.how == "peer" else {}),
            "changed": self.changed.line if self.changed else 0,
        }

    def handed_on(self, recording: Recording, error: RaisedError) -> Place | None:
        """The line to change: it binds what outlives the step, or computed it once.

        Torch's own traceback names the backward call already. A variable of a function that has returned outlives
        nothing: the line counts that binds it in a function under way, else the one that puts it into an attribute.
        """
        held = joined_of(recording, self.tensors[0]) if self.how == "collected" else None
        if held is not None or self.how in ("reset", "stale", "peer", "target", "buffer", "cached") or self._is_put_in:
            return held.place if held is not None else self.taken
        if self.how in ("once", "wrapped"):
            name = called(recording, self.tensors[0]) if self.tensors else None
            made = first_made(recording, self.tensors[0]) if self.tensors else None
            outside = bound_outside(error, name, made) if self.how == "once" else None
            return set_at(recording, name) or outside or made
        if self.how == "kept":
            return filled_on(recording, self.names(recording))
        if self.how not in ("carried", "within"):
            return None
        lines = dict(error.bound)
        parts = [collection(name).rpartition(".")[2] for name in self.names(recording)]
        made = made_at(recording, self.tensors[0]) if self.tensors else None
        if made is not None and not any(part in bound_on(made) for part in parts):
            made = put_at(recording, self.names(recording)[0], made) if parts else None
        return next((lines[part] for part in parts if part in lines), made)

    def is_a_variable(self, recording: Recording) -> bool:
        """Of an earlier step, is it kept by a plain name of its own, in no list, until another one takes that?"""
        names = [called(recording, number) for number in self.tensors]
        return self.how == "kept" and self.taken is not None and all(name and name.isidentifier() for name in names)

    @property
    def taken_anew(self) -> tuple[tuple[Place | None, str], ...]:
        """Of what was computed once, where it can be computed anew instead."""
        return ((self.taken, ANEW_THERE),) if self.how == "once" else ()

    @property
    def _is_put_in(self) -> bool:
        """Of an earlier step, is it kept in the memory of a tensor: `bank[i] = key`?"""
        return self.how == "kept" and (self.op == "__setitem__" or self.op.endswith("_"))

    def names(self, recording: Recording) -> list[str]:
        """The variables that hold them, as far as they're known; a forward's own are gone when it has returned."""
        found = list[str]()
        for number in self.tensors:
            name, made = called(recording, number), made_at(recording, number)
            kept = ATTRIBUTE.match(made.code) if made is not None and self.how == "within" else None
            inner = name is not None and kept is not None and "." not in name
            found += [kept[1]] if inner and kept is not None else [self._outside(name)] if name else []
        return found

    def _outside(self, name: str) -> str:
        """What outlives the step: a function's argument goes when it returns."""
        whole = collection(name)
        return f"{dict(self.given).get(whole, whole)}{name.removeprefix(whole)}"


def bound_on(place: Place) -> set[str]:
    """The variables and attributes that a line binds, by their last names: `out, self.hidden = …`.

    >>> sorted(bound_on(Place("rnn.py", 3, "out, (self.h, c) = rnn(x, (self.h, c))")))
    ['c', 'h', 'out']
    """
    targets, sign, _ = place.code.partition("=")
    return {part.strip(" ()").rpartition(".")[2] for part in targets.split(",")} if sign else set()


def collection(name: str) -> str:
    """The variable that has to be replaced where this one can't be: a tuple's item can't.

    >>> collection("hidden[1]"), collection("self.state")
    ('hidden', 'self.state')
    """
    return ITEM.sub("", name)


def cutting(names: list[str]) -> str:
    """The line that detaches these variables.

    >>> cutting(["h", "c"]), cutting(["hidden[0]", "hidden[1]"])
    ('h, c = h.detach(), c.detach()', 'hidden = tuple(each.detach() for each in hidden)')
    """
    wholes = dict.fromkeys(map(collection, names))
    if len(wholes) < len(names) or names != list(wholes):
        return "; ".join(f"{whole} = tuple(each.detach() for each in {whole})" for whole in wholes)
    return f"{', '.join(names)} = {', '.join(f'{name}.detach()' for name in names)}"


def is_within(recording: Recording, tensors: tuple[int, ...], taking: Frame) -> bool:
    """True where the line that takes them up is likely in a module's forward: nothing should be cut there."""
    names = (called(recording, number) or "" for number in tensors)
    return "." in taking.module or any(name.startswith("self.") for name in names)


def earlier_run(recording: Recording, node: int | None, failed: Frame) -> Frame | None:
    """The last Frame in which another call ran the Node."""
    runs = [
        frame
        for frame in recording.frames[: failed.index]
        if node is not None
        and frame.running == node
        and frame.phase == "backward"
        and frame.backward != failed.backward
    ]
    return runs[-1] if runs else None


def carried(recording: Recording, failing: int, failed: Frame, earlier: Frame, alike: bool) -> Carried:
    """How the call of `failed` came to the Node `failing`, which that of `earlier` had run; `alike`: on one line."""
    start, call = root(recording, failed), [frame for frame in recording.frames if frame.backward == earlier.backward]
    ran = {frame.running for frame in call if frame.running is not None}
    if start is None or start in ran:
        return Carried("again")
    old = {node.id for node in recording.nodes if node.frame < call[0].index}
    shared = start in old
    links = links_into(recording, start, ran if shared else old, leading_to(recording, failing))
    tensors = tuple(dict.fromkeys(found for link in links if (found := tensor_of(recording, *link)) is not None))
    taking = recording.frames[links[0][0].frame] if links else None
    how = "shared" if shared else how_it_came(recording, tensors, failed, call[0], alike)
    if how == "carried" and taking is not None:
        how = "reset" if taking.op in RESETS else "within" if is_within(recording, tensors, taking) else how
    if taking is None:
        return Carried(how, tensors[:MAX_NAMED])
    names = [called(recording, number) or "" for number in tensors]
    return Carried(how, tensors[:MAX_NAMED], speaking_of(names, taking.place, taking.taken), taking.op)


def outdated(recording: Recording, way: Carried, earlier: Frame, failed: Frame) -> Carried:
    """The same way, `stale` where a leaf behind its tensors, which learns, was written between the two calls.

    `carried` where the line that takes them up gives their variables what comes of it: a state, on its way to a next
    step that has a backward call of its own.
    """
    behind = reach(recording, way.tensors)
    writes = (each for each in recording.writes if earlier.index < each.frame < failed.index)
    learnt = (each.place for each in writes if each.tensor in behind and is_trained(recording, each.tensor))
    changed = next(learnt, None)
    if changed is None or way.taken is None:
        return way
    wholes = {collection(called(recording, number) or "").rpartition(".")[2] for number in way.tensors}
    return replace(way, how="carried") if wholes <= bound_on(way.taken) else replace(way, how="stale", changed=changed)


def among_peers(recording: Recording, way: Carried, earlier: Frame, failed: Frame) -> Carried:
    """The same way, `peer` where both losses take up results of two models, of which the first step trains one."""
    start = root(recording, failed)
    ran = {each.running for each in recording.frames if each.backward == earlier.backward and each.running is not None}
    links = links_into(recording, start, ran, range(len(recording.nodes))) if start is not None else []
    met = tuple(dict.fromkeys(found for link in links if (found := tensor_of(recording, *link)) is not None))
    foreign, taken = of_a_peer(recording, met, earlier, failed)
    return way if taken is None else replace(way, how="peer", tensors=foreign[:MAX_NAMED], taken=taken)


def at_a_target(recording: Recording, way: Carried, error: RaisedError) -> Carried:
    """The same way, `target` where a loss of one forward with another leads there by its target; `taken` made that."""
    start = root(recording, recording.frames[error.frame]) if way.how == "shared" else None
    target = as_a_target(recording, start, error.node)
    return way if target is None else replace(way, how="target", tensors=(target,), taken=made_at(recording, target))


def in_a_buffer(recording: Recording, way: Carried) -> Carried:
    """The same way, `buffer` where it leads through a result that a buffer was given; `taken` gives it that."""
    kept = {each for clue in recording.clues_of("buffer") for each in clue.tensors}
    tensor = next((each for each in way.tensors if each in kept), None)
    if tensor is None or way.how not in ("later", "stale", "once", "kept"):
        return way
    name, made = f"self.{(called(recording, tensor) or '').rpartition('.')[2]}", made_at(recording, tensor)
    gives = made is not None and re.match(rf"\s*{re.escape(name)}\s*=(?!=)", made.code)
    place = made if gives else set_at(recording, name)
    return way if place is None else replace(way, how="buffer", tensors=(tensor,), taken=place, changed=None)


def in_a_cache(recording: Recording, way: Carried) -> Carried:
    """The same way, `cached` where what makes its tensor is asked for it once; `taken` says so."""
    place = cached_by(recording, way.tensors[0]) if way.how == "once" and way.tensors else None
    return way if place is None else replace(way, how="cached", taken=place)


def not_to_train(recording: Recording, way: Carried, earlier: Frame | None, error: RaisedError) -> Place | None:
    """The line that takes up, for one of the two losses, what only the other one is to train."""
    if earlier is None or not way.tensors:
        return None
    failed = recording.frames[error.frame]
    if way.how == "shared":
        return of_the_other(recording, way.tensors, root(recording, earlier), root(recording, failed))
    return undetached(recording, way.tensors, earlier, failed, dict(error.bound)) if way.how == "later" else None


def tensor_of(recording: Recording, node: Node, edge: Edge) -> int | None:
    """The tensor that an Edge stands for, by the name that the user knows it under."""
    given = node.inputs[edge.slot] if edge.slot < len(node.inputs) else None
    made = recording.nodes[edge.target].outputs if edge.target is not None else ()
    found = given if given is not None else made[0] if len(made) == 1 else None
    return None if found is None else owner(recording, found)


def how_it_came(recording: Recording, tensors: tuple[int, ...], failed: Frame, first: Frame, alike: bool) -> How:
    """Tell the ways of a new loss apart; `first` is the first Frame of the earlier call."""
    if not alike or failed.place is None:
        return "later"
    roots = {recording.tensors[number].name for number in failed.inputs} - {None}
    if roots & {recording.tensors[number].name for number in tensors}:
        return "summed"
    anew = made_anew(recording, tensors, range(first.index, failed.index))
    if not anew and tensors and joined_of(recording, tensors[0]) is not None:
        return "collected"
    if not anew:
        return "wrapped" if any(result_of_parameter(recording, number) for number in tensors) else "once"
    makers = {number: node.id for node in recording.nodes for number in node.outputs}
    behind = leading_to(recording, makers[tensors[0]]) if tensors[0] in makers else set()
    return "carried" if not behind or any(makers.get(number) in behind for number in anew) else "kept"


def joined_of(recording: Recording, tensor: int | None) -> Collected | None:
    """The list of the user's, filled on a line that was found, whose results that tensor was joined of."""
    inputs = recording.frames[recording.tensors[tensor].frame].inputs if tensor is not None else ()
    held = (each for each in recording.collected if each.place is not None and not set(inputs).isdisjoint(each.tensors))
    return next(held, None) if len(inputs) > 1 else None


def result_of_parameter(recording: Recording, tensor: int) -> bool:
    """True for `nn.Parameter(…) * 0.1`, `nn.Parameter(…).to(…)`: nobody holds the Parameter itself."""
    made = recording.frames[recording.tensors[tensor].frame]
    given = [recording.tensors[number] for number in made.inputs]
    return tensor in made.outputs and any(ref.parameter and ref.name is None for ref in given)


def made_anew(recording: Recording, tensors: tuple[int, ...], since: range) -> list[int]:
    """The tensors that the lines of `tensors` have made since, under the same names where they have one."""
    lines = {at(place) for number in tensors if (place := made_at(recording, number)) is not None}
    names = {recording.tensors[number].name for number in tensors}
    fresh = [
        number
        for frame in recording.frames[since.start : since.stop]
        if frame.phase != "backward" and frame.place is not None and at(frame.place) in lines
        for number in frame.outputs
    ]
    same = [number for number in fresh if recording.tensors[number].name in names]
    if not same and all(name is not None and "." in name and not ITEM.search(name) for name in names):
        return []  # an attribute, which no step has given another value
    return same if None not in names and all(recording.tensors[number].name for number in fresh) else fresh


def at(place: Place) -> tuple[str, int]:
    """File and line."""
    return place.file, place.line
