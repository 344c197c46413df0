"""Graphs that are kept alive from lap to lap: which line holds on to which tensor, and how much hangs on it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

from seegrad.diagnose.evidence import label, made_at, nodes_behind
from seegrad.diagnose.finding import DiagnosisKind, Finding, finder
from seegrad.diagnose.freed import at, tensor_of
from seegrad.model.recording import Diagnosis, Edge, Node, Place, Recording
from seegrad.words.languages import marked
from seegrad.words.phrases import Phrase, Word, phrase

KEPT = DiagnosisKind("graph_kept", "note", marked("graphs kept alive"))

SUMMED = marked(
    "{Culprit} keeps the graphs of earlier laps: through {label}, this lap's result leads back into those before, "
    "and each lap adds to it. By the third lap that holds {nodes}, {size}."
)
CARRIED = marked(
    "{Culprit} goes on from {label} with its graph, so the backward call of each lap goes through all laps before it. "
    "By the third lap that holds {nodes}, {size}."
)
COLLECTED = marked(
    "{Culprit} keeps results together with their graphs: by the third lap `{name}` holds {nodes}, {size}, and each lap "
    "adds to it."
)
NEVER_USED = marked(
    "{Culprit} keeps results together with their graphs, and no backward call comes for them: three laps hold {nodes}, "
    "{size}."
)
NUMBERS = marked("If you only want its numbers, keep those alone: `.item()` or `.detach()`.")
CUT_OFF = marked(
    "If each lap is to train on itself alone, go on from {label} with `.detach()`: then no `retain_graph=True` is "
    "needed."
)
NO_GRAD = marked("If only its numbers are wanted, compute it under `with torch.no_grad():`.")

NODES = marked("{count} Nodes")
BYTES = marked("{size} of tensors saved for backward")
FREED = marked("whose saved tensors backward has freed already")
UNITS = ("B", "KiB", "MiB", "GiB")

SEVERAL = 3
"""Laps that have to be held before it is told."""

MOST_TRIED = 8
"""Laps in which a line is asked where it leads."""


@dataclass(frozen=True)
class Laps:
    """The Nodes of a Recording, each with its lap: from one step of an optimiser to the next, or one backward call."""

    recording: Recording

    @cached_property
    def borders(self) -> list[int]:
        """The last Frame of each lap."""
        steps = [use.frame for use in self.recording.uses if use.kind == "stepped"]
        ends = steps or [frames[0] for frames in self.calls.values()]
        return sorted({*self.recording.laps, *ends})

    @cached_property
    def calls(self) -> dict[int, list[int]]:
        """The Frames of each backward call; `autograd.grad` is none."""
        found: dict[int, list[int]] = {}
        asked = {frame.backward for frame in self.recording.frames if frame.op == "grad"}
        for frame in self.recording.frames:
            if frame.backward is not None and frame.backward not in asked:
                found.setdefault(frame.backward, []).append(frame.index)
        return found

    @cached_property
    def ran(self) -> dict[int, bool]:
        """Node → did the call that ran it last keep its graph."""
        frames = (frame for frame in self.recording.frames if frame.running is not None)
        return {frame.running: frame.keeps_graph for frame in frames if frame.running is not None}

    @cached_property
    def came(self) -> dict[int, set[int | None]]:
        """Node → the calls that ran it, `autograd.grad` among them."""
        found: dict[int, set[int | None]] = {}
        for frame in self.recording.frames:
            if frame.running is not None:
                found.setdefault(frame.running, set()).add(frame.backward)
        return found

    @cached_property
    def makers(self) -> dict[int, int]:
        """Tensor → the Node that made it."""
        return {tensor: node.id for node in self.recording.nodes for tensor in node.outputs}

    def of(self, frame: int) -> int:
        """The lap of a Frame."""
        return bisect_left(self.borders, frame)

    def behind(self, nodes: Iterable[int]) -> set[int]:
        """These Nodes and all that they lead to."""
        return nodes_behind(self.recording, nodes)

    def parameters(self, behind: Collection[int]) -> set[int]:
        """The Parameters that these Nodes lead to."""
        leaves = {leaf for number in behind if (leaf := self.recording.nodes[number].leaf) is not None}
        return {leaf for leaf in leaves if self.recording.tensors[leaf].parameter}

    def crossings(self) -> dict[Place, list[tuple[Node, Edge]]]:
        """The Edges from a Node into an earlier lap, by the line that made the Node."""
        nodes, frames = self.recording.nodes, self.recording.frames
        found: dict[Place, list[tuple[Node, Edge]]] = {}
        for node in sorted(nodes, key=lambda each: each.frame):
            place = frames[node.frame].place
            for edge in node.edges if place is not None else ():
                target = nodes[edge.target] if edge.target is not None else None
                if target is not None and target.leaf is None and self.of(target.frame) < self.of(node.frame):
                    found.setdefault(place, []).append((node, edge))  # type: ignore[arg-type]  # it isn't None here
        return found

    def weight(self, nodes: Collection[int]) -> dict[str, Word]:
        """The words for how many Nodes that is, and how many bytes they still keep: no Parameter's."""
        tensors, spans = self.recording.tensors, dict[int, int]()
        for number in nodes:
            if self.ran.get(number, True):
                for saved in self.recording.nodes[number].saved:
                    if saved.tensor is None or not tensors[saved.tensor].parameter:
                        spans[saved.storage] = max(spans.get(saved.storage, 0), saved.span[1] - saved.span[0])
        for ref in tensors:
            if ref.parameter:
                spans.pop(ref.storage, None)
        size = sum(spans.values())
        held = phrase(BYTES, size=readable(size)) if size else Phrase(FREED)
        return {"nodes": phrase(NODES, count=len(nodes)), "size": held}


def readable(size_bytes: int) -> str:
    """A size in words.

    >>> readable(512), readable(1536), readable(3 * 2**20)
    ('512 B', '1.5 KiB', '3.0 MiB')
    """
    size, unit = float(size_bytes), 0
    while size >= 1024 and unit < len(UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size:.1f} {UNITS[unit]}" if unit else f"{size_bytes} B"


@finder(order=30)
def find_kept(recording: Recording) -> Iterator[Diagnosis]:
    """A note for each line that holds the graphs of three laps; none where a backward failed, which tells of it."""
    if not recording.nodes or any(error.node is not None for error in recording.errors):
        return
    laps = Laps(recording)
    told: set[tuple[str, int]] = set()
    for each in (*_carried(laps), *_collected(laps), *_validated(laps)):
        if each.culprit is None or at(each.culprit) not in told:
            told |= {at(each.culprit)} if each.culprit else set()
            yield each


def _carried(laps: Laps) -> Iterator[Diagnosis]:
    """A line that leads on into the lap before, again and again: a sum, an average, a state."""
    recording, seen = laps.recording, set[int]()
    for place, links in laps.crossings().items():
        link = _third(laps, links)
        if link is None or link[0].id in seen:
            continue
        node, edge = link
        behind = laps.behind([node.id])
        seen |= {each.id for each, _ in links}
        tensor = tensor_of(recording, node, edge)
        finding = Finding(recording=recording, kind=KEPT, frame=node.frame, culprit=place, tensor=tensor, node=node)
        through = node.id in laps.ran
        facts: dict[str, Word] = {"label": label(recording, tensor), "how": "carried" if through else "summed"}
        old = {number for number in behind if laps.of(recording.nodes[number].frame) < laps.of(node.frame)}
        if through and _is_one_loss(laps, node, old):
            continue
        said, advice = (CARRIED, CUT_OFF) if through else (SUMMED, NUMBERS)
        yield finding.told(said, advice, facts, **laps.weight(old))


def _is_one_loss(laps: Laps, node: Node, old: set[int]) -> bool:
    """Has one call gone back from it, and it alone through all before: a loss summed up over inner loops that step?"""
    computed = [number for number in old if laps.recording.nodes[number].leaf is None]
    return len(laps.came[node.id]) == 1 and all(laps.came.get(each, set()) <= laps.came[node.id] for each in computed)


def _third(laps: Laps, links: list[tuple[Node, Edge]]) -> tuple[Node, Edge] | None:
    """The first Edge of a line into an earlier lap behind which the line has led into one before that.

    A line that has led back several times without that leads each time to the same.
    """
    by_lap: dict[int, list[tuple[Node, Edge]]] = {}
    for node, edge in links:
        by_lap.setdefault(laps.of(node.frame), []).append((node, edge))
    earlier: set[int] = set()
    for group in list(by_lap.values())[:MOST_TRIED]:
        for node, edge in group if earlier else ():
            if edge.target is not None and not laps.behind([edge.target]).isdisjoint(earlier):
                return node, edge
        earlier |= {node.id for node, _ in group}
    return None


def _collected(laps: Laps) -> Iterator[Diagnosis]:
    """A list that holds results of three laps."""
    recording = laps.recording
    for each in recording.collected:
        by_lap = {laps.of(recording.tensors[tensor].frame): tensor for tensor in each.tensors if tensor in laps.makers}
        if len(by_lap) >= SEVERAL:
            roots = [by_lap[lap] for lap in sorted(by_lap)[:SEVERAL]]
            yield _list_of(laps, each.place, each.name, roots, COLLECTED, NUMBERS)
        else:
            roots = _without_backward(laps, each.tensors)
            if roots:
                yield _list_of(laps, each.place, each.name, roots, NEVER_USED, NO_GRAD)


def _list_of(laps: Laps, place: Place | None, name: str, roots: list[int], said: str, advice: str) -> Diagnosis:
    recording = laps.recording
    finding = Finding(
        recording=recording,
        kind=KEPT,
        frame=max(recording.tensors[tensor].frame for tensor in roots),
        culprit=place or made_at(recording, roots[-1]),
        tensor=roots[-1],
        name=name,
    )
    facts: dict[str, Word] = {"how": "collected", "list": name}
    return finding.told(said, advice, facts, **laps.weight(laps.behind(laps.makers[tensor] for tensor in roots)))


def _without_backward(laps: Laps, tensors: Iterable[int]) -> list[int]:
    """The first three, where they are results of one line, computed alike and apart, and no backward came for them."""
    recording = laps.recording
    if not laps.calls or recording.error is not None:
        return []
    by_line: dict[Place | None, list[int]] = {}
    for tensor in tensors:
        if tensor in laps.makers:
            by_line.setdefault(made_at(recording, tensor), []).append(tensor)
    roots = max(by_line.values(), key=len, default=[])[:SEVERAL]
    return roots if len(roots) == SEVERAL and _alike(laps, [laps.makers[tensor] for tensor in roots]) else []


def _alike(laps: Laps, nodes: list[int]) -> bool:
    """Are these computed from the same Parameters, each apart, and did no backward come for any?

    Those that share a result, layers of one forward say, are of one lap.
    """
    ways = [laps.behind([node]) for node in nodes]
    parameters = [laps.parameters(way) for way in ways]
    computed = [{each for each in way if laps.recording.nodes[each].leaf is None} for way in ways]
    return (
        all(one.isdisjoint(other) for one, other in combinations(computed, 2))
        and bool(parameters[0])
        and all(each == parameters[0] for each in parameters)
        and (laps.ran.keys().isdisjoint(nodes))
    )


def _validated(laps: Laps) -> Iterator[Diagnosis]:
    """`total += loss` for which no backward comes: each sum leads to the one before, and to a result of its own.

    Not where one comes for other sums of that line: a model that has learnt is asked once more.
    """
    recording, nodes = laps.recording, laps.recording.nodes
    if not laps.calls or recording.error is not None:
        return
    told = {recording.frames[nodes[node].frame].place for node in laps.ran if nodes[node].name.startswith(SUM)}
    for third in nodes:
        place = recording.frames[third.frame].place
        second = _sum_before(laps, third) if place not in told else None
        first = _sum_before(laps, second) if second is not None else None
        if second is None or first is None or {third.id, second.id, first.id} & laps.ran.keys():
            continue
        terms = [_terms(third, second), _terms(second, first)]
        if all(len(each) == 1 for each in terms) and _alike(laps, [each[0] for each in terms]):
            apart = second.id not in laps.behind(terms[0]) and first.id not in laps.behind(terms[1])
            edge = next(edge for edge in third.edges if edge.target == second.id)
            if apart:
                told.add(place)
                tensor = tensor_of(recording, third, edge)
                finding = Finding(recording=recording, kind=KEPT, frame=third.frame, culprit=place, tensor=tensor)
                facts: dict[str, Word] = {"how": "validated"}
                yield finding.told(NEVER_USED, NO_GRAD, facts, **laps.weight(laps.behind([third.id])))


SUM = "AddBackward"


def _sum_before(laps: Laps, node: Node) -> Node | None:
    """The Node of an addition to which this one, of the same line, adds."""
    nodes, frames = laps.recording.nodes, laps.recording.frames
    if not node.name.startswith(SUM):
        return None
    targets = (nodes[edge.target] for edge in node.edges if edge.target is not None)
    place = frames[node.frame].place
    return next((each for each in targets if each.name == node.name and frames[each.frame].place == place), None)


def _terms(node: Node, other: Node) -> list[int]:
    """What else an addition leads to."""
    return [edge.target for edge in node.edges if edge.target is not None and edge.target != other.id]
