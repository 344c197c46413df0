"""One backward or grad call: a Frame for each Node that ran, and one for the error if it failed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from threading import get_ident
from types import FrameType
from typing import Any

import torch

from seegrad.capture.functions import made_for, returned_on
from seegrad.capture.gradients import Arrivals, Edit, Edits
from seegrad.capture.probes import torch_private as _torch
from seegrad.capture.probes.variables import in_buffers, tensors_in
from seegrad.capture.state import RecordingState
from seegrad.capture.tables import Tables
from seegrad.capture.tables.frames import MAX_SIDE, FrameDraft, Hit, Lap, Ran, preview
from seegrad.capture.tables.nodes import NodeDraft
from seegrad.capture.tables.tensors import Source, deref
from seegrad.capture.training.lost import tell_gone
from seegrad.capture.unseen import Stealth, Writer, writers_of, writing_line
from seegrad.model.recording import Clue, RaisedError
from seegrad.words.errors import text_of

Gradients = tuple[torch.Tensor | None, ...]
Quietly = Callable[..., Any]
"""Runs a piece of the recorder's own bookkeeping so that its errors stay its own."""

CPU = torch.device("cpu")

GIVEN = {"backward": 1, "grad": 2}
"""Position of the gradients to start with."""

RETAIN = {"backward": 2, "grad": 3}
"""Position of `retain_graph` among the arguments; `create_graph` follows it."""


Short = tuple[tuple[int, ...], tuple[int, ...] | None]
"""The tensors whose gradients arrive at a Node; the shape of the one whose numbers are shown, None where none are."""

NOTHING: Short = (), None


class Shortcut:
    """Which Nodes need no more than a note that they ran.

    Most Nodes of a model are so: their gradients are too big to show or the only thing to be shown, nobody may have
    spoiled what they saved. They get a short Frame, which costs less.
    """

    def __init__(self, tables: Tables, arrivals: Arrivals, wanted: Sequence[torch.Tensor]) -> None:
        self._tables, self._concerned, self._drafts = tables, arrivals.nodes, tables.tensors.drafts
        self._wanted = {tables.tensors.find(tensor) for tensor in wanted}  # torch has them retain their gradient

    def gradients(self, node: NodeDraft) -> Short | None:
        """What arrives at a Node; None where more than that may be seen."""
        if node.id in self._concerned or (node.looked_at and node.suspect()):
            return None
        if node.leaf is not None:
            return self._of_leaf(node.leaf)
        if not node.outputs:
            return NOTHING
        return self._of_output(node.id) if len(node.outputs) == 1 else None

    def _of_leaf(self, number: int) -> Short | None:
        """What arrives at the leaf, and the sum that it keeps afterwards."""
        draft = self._drafts[number]
        leaf = deref(draft.ref)
        if leaf is None or not _is_big(draft.shape) or len(_torch.hooks_after(leaf)):
            return None
        return (number,), None

    def _of_output(self, node: int) -> Short | None:
        number = self._tables.nodes.output(node, 0)
        draft = None if number is None else self._drafts.get(number)
        if number is None or draft is None:
            return None
        tensor, shape = deref(draft.ref), draft.shape
        if _torch.RAGGED in shape or number in self._wanted or (tensor is not None and tensor.retains_grad):
            return None
        return (number,), None if _is_big(shape) else shape


def _is_big(shape: tuple[int, ...]) -> bool:
    """True where no preview would be made of it."""
    return math.prod(shape) > MAX_SIDE**2 and _torch.RAGGED not in shape


class BackwardRun:
    """Watches one call, from its making to `detach`; then `done` or `failed` says how it ended."""

    def __init__(
        self, state: RecordingState, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], user: FrameType | None
    ) -> None:
        state.new_event(user, deep=True)
        roots = roots_of(args, kwargs)
        self._grad_fns = _torch.grad_fns(roots)  # the next that torch asks for, too
        for root in roots:
            state.tables.tensors.settle(root)
        state.meet_late(roots)
        self._state, self._name = state, name
        self._tables = tables = state.tables
        self._number = state.begin_backward(user)
        self._place = state.source.place(user)
        if not self._number:
            tell_gone(tables, self._place)
        self._roots = tuple(map(tables.number, roots))
        self._wanted = wanted_of(name, args, kwargs)
        self._keeps_graph = keeps_graph(name, args, kwargs)
        self._lap = Lap(self._place, self._keeps_graph, creates_graph(name, args, kwargs))
        self._handles: list[Any] = []
        self._hooks: list[Any] = []  # what holds their hooks, and under which number: fewer objects than handles
        self._hook_numbers: list[int] = []
        self._thread = get_ident()
        self._task: int | None = None
        self._begins_here = all(root.device.type == "cpu" for root in roots)  # another device has a thread of its own
        self._ran: list[int] = []  # the Nodes, in order
        self._awaited: set[int] = set()  # Nodes whose end is awaited
        self._open: dict[int, tuple[FrameDraft, list[int]]] = {}
        self._running: int | None = None
        self._custom: set[int] = set()  # Nodes of Functions that were written in Python
        self._strange = bool(tables.hooks.drafts)  # code that isn't torch's runs for some Node
        self._writers: dict[int, tuple[Writer, ...]] = {}  # what the user's code runs for a Node
        self._steep: list[NodeDraft] = []  # all, where one of them may hand on what isn't finite
        self._selects: list[NodeDraft] = []  # all, where one of them may leave numbers out
        self._given = Edits()
        self._stealth: Stealth | None = None
        self._arrivals = Arrivals(tables)
        for root, gradient in zip(roots, given_of(name, args, kwargs, len(roots)), strict=True):
            self._arrivals.begin(tables.source(root), root, gradient)
        tables.root = self._roots[0] if self._roots else tables.root

    # -- hooks

    def attach(self, quietly: Quietly) -> None:
        """Hook every Node that can be reached: all at their start, at their end those of which more is to be known."""
        tables = self._tables
        met, self._grad_fns = tables.nodes.reachable(self._grad_fns, tables.frames.now), []
        hooked = bool(tables.hooks.drafts)
        for node, draft in met:
            if draft.leaf is not None or draft.kind.custom or hooked:
                self._note_writers(node, draft)
        if tables.saved.every:
            self._state.look_before_backward([draft.id for _, draft in met], sure=not self._strange)
        self._stealth = Stealth(tables, self._state.source, [draft for _, draft in met], self._writers, self._number)
        shortcut = Shortcut(tables, self._arrivals, self._wanted) if self._is_plain(met) else None
        extremes, note = self._state.extremes, self._notes(quietly)
        if extremes is not None:
            extremes.begin(self._number)
        elif self._begins_here:
            self._look_for_trouble(met, quietly)
        if self._begins_here and self._name == "backward":
            watch = partial(partial, quietly, self._handed_flatly)
            self._handles += self._state.stillness.begin(met, watch)
        hooks, numbers, lap = self._hooks, self._hook_numbers, (self._number, tables.frames.lap(self._lap))
        for node, draft in met:
            if extremes is not None:
                self._handles.append(node.register_hook(partial(quietly, self._handed_on, draft.id)))
            if hooked and self._arrivals.fed_by(draft):
                self._handles.append(node.register_hook(partial(quietly, self._handed_back, draft)))
            gradients = None if shortcut is None else shortcut.gradients(draft)
            if gradients is None:
                self._watch(node, draft, quietly)
                continue
            given, shown = gradients
            number = draft.id
            handle = node.register_prehook(partial(note, number, (*lap, number, *given), shown))
            hooks.append(handle.hooks_dict_ref())
            numbers.append(handle.id)

    def _look_for_trouble(self, met: list[tuple[Any, NodeDraft]], quietly: Quietly) -> None:
        """Has the loss a number that isn't finite? Will a steep Node hand on one?"""
        aftermath = self._state.aftermath
        if aftermath is None or aftermath.is_over:
            return
        nodes = [draft for _, draft in met]
        if aftermath.begins(self._number, self._roots, nodes):
            self._steep = nodes
        for node, draft in met:
            kind = draft.kind
            if kind.selects:
                self._selects = self._steep = nodes
            if kind.steep:
                self._steep = nodes
                self._handles.append(node.register_hook(partial(quietly, self._handed_steeply, draft.id)))

    def _handed_steeply(self, node: int, computed: Gradients, given: Gradients) -> None:
        if self._state.aftermath is not None and self._is_ours():
            self._state.aftermath.handed(self._number, node, computed, given)

    def _handed_flatly(self, node: int, computed: Gradients, given: Gradients) -> None:
        if self._is_ours():
            self._state.stillness.handed(self._number, node, computed, given)

    def _watch(self, node: Any, draft: NodeDraft, quietly: Quietly) -> None:
        """A whole Frame when the Node starts; its end is awaited for the sum in `.grad` and for what it had saved."""
        self._handles.append(node.register_prehook(partial(quietly, self._started, draft)))
        if draft.leaf is not None or draft.suspect():
            self._handles.append(node.register_hook(partial(quietly, self._finished, draft)))
            self._awaited.add(draft.id)

    def _is_plain(self, met: list[tuple[Any, NodeDraft]]) -> bool:
        """True where one thread does it all, no code of the user's runs for any Node, and big gradients aren't seen."""
        tensors = self._tables.tensors.drafts
        leaves = [tensors[draft.leaf] for _, draft in met if draft.leaf is not None]
        whole = self._tables.frames.look is not None  # a note holds no Summary
        return not (whole or self._writers) and self._begins_here and {leaf.on for leaf in leaves} <= {CPU}

    def _notes(self, quietly: Quietly) -> Callable[[int, Ran, tuple[int, ...] | None, Gradients], None]:
        """A hook that notes that a Node ran; a whole Frame is made where a write came or no gradient does."""
        frames, writes, order, thread = self._tables.frames, self._tables.writes, self._ran, self._thread
        began, nodes = writes.next, self._tables.nodes.drafts

        def note(node: int, ran: Ran, shown: tuple[int, ...] | None, gradients: Gradients) -> None:
            if get_ident() != thread or writes.next != began or not gradients or gradients[0] is None:
                quietly(self._started, nodes[node], gradients)
            elif shown is not None:
                quietly(self._noted, nodes[node], ran, shown, gradients)
            else:
                frames.ran[frames.next] = ran
                frames.next += 1
                order.append(node)
                self._running = node

        return note

    def _noted(self, node: NodeDraft, ran: Ran, shape: tuple[int, ...], gradients: Gradients) -> None:
        """A note with the numbers of the one gradient; a whole Frame where it isn't of the shape that is known."""
        gradient = gradients[0]
        if gradient is None or _torch.shape(gradient) != shape:
            self._started(node, gradients)
            return
        self._tables.frames.note(ran, preview(gradient))
        self._ran.append(node.id)
        self._running = node.id

    def _note_writers(self, node: Any, draft: NodeDraft) -> None:
        """Remember what the user's code may run for this Node."""
        number = draft.leaf if draft.leaf is not None else next(iter(draft.outputs), None)
        known = None if number is None else self._tables.tensors.drafts.get(number)
        tensor = None if known is None else deref(known.ref)
        if draft.leaf is not None and (tensor is None or not _torch.has_hooks(tensor)):
            return
        if draft.custom:
            self._custom.add(draft.id)
        self._strange |= draft.id in self._custom or (tensor is not None and _torch.has_hooks(tensor))
        writers = tuple(writers_of(node, tensor))
        if writers:
            self._writers[draft.id] = writers

    def _spoiled(self, node: NodeDraft, gradients: Gradients) -> tuple[int, ...]:
        """The Writes that hit a gradient which this Node is given and weren't made on the way to it."""
        edits = self._given.give(node.id, gradients, self._custom, self._tables.nodes.leads)
        written = [self._write_down(edit) for edit in edits]
        return tuple(number for number in written if number is not None)

    def _write_down(self, edit: Edit) -> int | None:
        writers = [(writer, writer.given == "gradient") for writer in self._writers.get(edit.writer, ())]
        line = writing_line(writers, self._state.source, edit.storage, guess=True)
        tensor = edit.ref()
        if edit.write is None and line is not None and tensor is not None:
            tensors, frame = self._tables.tensors, self._tables.frames.new("inplace", line[1], line[0])
            number = tensors.see(tensor, frame.index)
            frame.inputs = frame.outputs = (number,)
            storage, span = tensors.storage_number(tensor), _torch.span(tensor)
            edit.write = self._state.write(frame, Hit(number, storage, span, line[1], edit.versions))
        return edit.write

    def detach(self) -> None:
        """Take every hook off again."""
        for handle in self._handles:
            handle.remove()
        for hooks, number in zip(self._hooks, self._hook_numbers, strict=True):
            hooks.pop(number, None)
        for held in (self._handles, self._hooks, self._hook_numbers):
            held.clear()

    def _is_ours(self) -> bool:
        """False where another thread's backward passes through a Node of this graph: its hooks fire for everyone."""
        task, here = _torch.task_number(), get_ident() == self._thread
        if here or (self._task is None and not self._begins_here):
            self._task = task
        return self._task is not None and task == self._task

    def _started(self, node: NodeDraft, gradients: Gradients) -> None:
        if not self._is_ours():
            return
        with self._state.lock:
            spoiled = self._spoiled(node, gradients) if self._writers else ()
            frame = self._new_frame("backward", node.name)
            frame.spoiled = spoiled
            frame.running = self._running = node.id
            self._ran.append(node.id)
            if self._strange:
                self._tables.saved.disturbed()
            changed = [saved.index for saved in self._tables.saved.misread(node, gradients, self._lap.grad_enabled)]
            if changed:
                frame.corrupted = tuple(i for i in changed if _matters(node, i))
            if node.id in self._awaited:
                self._open[node.id] = frame, changed
            self._show_gradients(frame, node, gradients)
            self._arrivals.start(node, frame.index, gradients, self._leaf(node))

    def _show_gradients(self, frame: FrameDraft, node: NodeDraft, gradients: Gradients) -> None:
        for output, gradient in enumerate(gradients):
            tensor = node.leaf if node.leaf is not None else self._tables.nodes.output(node.id, output)
            if tensor is not None and gradient is not None:
                frame.give(tensor, gradient)
                if node.leaf is None:
                    self._kept_by_request(frame, tensor, (node.id, output))

    def _leaf(self, node: NodeDraft) -> torch.Tensor | None:
        """The leaf that the Node adds into, None for another Node and for a leaf that is gone."""
        return None if node.leaf is None else self._tables.tensors.alive(node.leaf)

    def _handed_back(self, node: NodeDraft, gradients: Gradients, _outputs: Gradients) -> None:
        if self._is_ours():
            with self._state.lock:
                self._arrivals.hand_back(node, gradients)

    def _handed_on(self, node: int, computed: Gradients, given: Gradients) -> None:
        if self._state.extremes is not None and self._is_ours():
            self._state.extremes.handed(self._number, node, computed, given)

    def _kept_by_request(self, frame: FrameDraft, tensor: int, made: Source) -> None:
        """A non-leaf with `retain_grad()` has its `.grad` by now; after a write, from the Node of the new value."""
        alive = self._tables.tensors.alive(tensor)
        if alive is None or not alive.retains_grad or alive.grad is None:
            return
        if self._tables.nodes.source(alive, frame.index) == made:
            frame.give(tensor, alive.grad, kept=True)

    def _finished(self, node: NodeDraft, gradients: Gradients, _outputs: Gradients) -> None:
        if not self._is_ours():
            return
        with self._state.lock:
            self._running = None
            started = self._open.pop(node.id, None)
            if started is None:  # it had started before the hooks were put on: another thread's, by another device
                return
            frame, changed = started
            leaf = self._leaf(node)
            if leaf is not None and leaf.grad is not None and node.leaf is not None:
                frame.give(node.leaf, leaf.grad, kept=True)
            if leaf is not None:
                self._arrivals.end(node, frame.index, leaf)
            computed = {slot for slot, gradient in enumerate(gradients) if gradient is not None}
            frame.corrupted = tuple(i for i in changed if not computed.isdisjoint(node.saved[i].serves))

    # -- how it ended

    def _new_frame(self, phase: Any, op: str) -> FrameDraft:
        frame = self._tables.frames.new(phase, op, self._place)
        frame.backward, frame.keeps_graph = self._number, self._keeps_graph
        return frame

    def failed(self, error: BaseException, user: FrameType | None) -> None:
        """The call raised, which the user's frame made."""
        tables, failing = self._tables, self._running
        self._tell_unseen()
        frame = self._new_frame("error", self._name)
        frame.inputs, frame.running, frame.applied = self._roots, failing, self._state.applying
        frame.wanted = tuple(map(tables.number, self._wanted))
        for saved in tables.nodes.drafts[failing].saved if failing is not None else ():
            tensor = saved.ref()
            if tensor is not None:
                frame.show(saved.tensor, frame.see(tensor), _torch.version(tensor))
        bound = self._state.bound(user)
        own = next(iter(self._writers.get(failing, ())), None) if failing in self._custom else None
        inside = returned_on(self._state.source, own.function()) if own is not None else None
        handed = made_for(self._state.source, own.function()) if own is not None else ()
        line = self._state.source.raised_on(error)
        error_of = partial(RaisedError, type(error).__name__, text_of(error), self._place, frame.index, failing)
        error_of = partial(error_of, remade=self._state.remade(frame.wanted, user), ways=self._state.ways(failing))
        lines, given = tuple(bound.lines.items()), tuple(bound.names.items())
        raised_on = None if line == self._place else line
        kept = dict.fromkeys(number for each in in_buffers(user) if (number := tables.tensors.find(each)) is not None)
        if kept and self._place is not None:
            tables.clues.append(Clue("buffer", frame.index, self._place, tuple(kept)))
        tables.raised(error_of(lines, inside, raised_on, given=given, handed=handed))
        self._end([node for node in self._ran if node != failing], returned=False)

    def done(self, result: Any) -> None:
        """The call returned."""
        outputs, nodes = tensors_in(result), self._tables.nodes.drafts
        self._tell_unseen()
        if outputs:
            self._results(outputs, result)
        elif not self._ran:
            self._at_a_leaf()
        if self._lap.grad_enabled:  # the gradients have a graph of their own
            leaves = [self._leaf(nodes[number]) for number in self._ran if number in nodes]
            self._state.meet_late([leaf.grad for leaf in leaves if leaf is not None and leaf.grad is not None])
        self._end(self._ran)

    def _tell_unseen(self) -> None:
        """Frames for what the user's code has written meanwhile."""
        for frame, hit in self._stealth.found(self._ran) if self._stealth is not None else ():
            self._state.write(frame, hit)

    def _at_a_leaf(self) -> None:
        """Backward began at leaves alone: no Node ran, yet the call was made."""
        frame = self._new_frame("backward", self._name)
        frame.inputs = self._roots
        for number in self._roots:
            leaf = self._tables.tensors.alive(number)
            if leaf is not None and leaf.grad is not None:
                frame.give(number, leaf.grad, kept=True)

    def _results(self, outputs: list[torch.Tensor], result: Any) -> None:
        """`autograd.grad` hands gradients back instead of keeping them."""
        tables, frame = self._tables, self._new_frame("backward", self._name)
        frame.inputs = self._roots
        frame.wanted = tuple(map(tables.number, self._wanted))
        frame.outputs = tuple(map(tables.number, outputs))
        for number, tensor in zip(frame.outputs, outputs, strict=True):
            frame.show(number, frame.see(tensor), 0)
        for number, gradient in zip(frame.wanted, result, strict=False):
            if isinstance(gradient, torch.Tensor):
                frame.give(number, gradient)
        self._state.meet_late(outputs)

    def _hear(self) -> None:
        """What other devices than the CPU tell of what these Nodes have used."""
        frames = self._tables.frames
        for saved in self._state.hear(self._number):
            node = self._tables.nodes.drafts[saved.node]
            if saved.node in self._ran and _matters(node, saved.index):
                frame = frames.of_run(saved.node)
                frame.corrupted = tuple(sorted({*frame.corrupted, saved.index}))

    def _end(self, ran: list[int], *, returned: bool = True) -> None:
        """The lap is over, where it returned; what these Nodes had saved is gone, unless the graph was to be kept."""
        self._hear()
        if self._state.aftermath is not None and self._steep:
            self._state.aftermath.selected(self._number, self._selects)
            self._state.aftermath.ended(self._number, self._steep)
        self._state.stillness.ended(self._number)
        if not self._keeps_graph:
            self._tables.saved.release(ran)
        self._state.end_backward(ran, self._place, ends_lap=returned and self._name == "backward")


def _matters(node: NodeDraft, index: int) -> bool:
    """True when a gradient that somebody needs is computed from what was saved there."""
    needed = {slot for slot, target, _ in node.edges if target is not None}
    return not needed.isdisjoint(node.saved[index].serves)


# -- what the call asks for


def roots_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    """The tensors that backward starts from, whichever way it was called."""
    return tensors_in(args[0] if args else kwargs.get("tensors", kwargs.get("outputs", kwargs.get("self"))))


def wanted_of(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    """The tensors whose gradients were asked for by name, empty for all leaves."""
    return tensors_in(kwargs.get("inputs", args[1] if name == "grad" and len(args) > 1 else None))


def given_of(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], roots: int) -> list[Any]:
    """The gradient that each root starts with, None for ones.

    >>> given_of("backward", ("loss",), {}, 1), given_of("grad", ("y", "x", ["v"]), {}, 1)
    ([None], ['v'])
    """
    position = GIVEN[name]
    named = (kwargs.get(word) for word in ("gradient", "grad_tensors", "grad_outputs"))
    given = args[position] if len(args) > position else next((each for each in named if each is not None), None)
    each = list(given) if isinstance(given, list | tuple) else [given]
    return each if len(each) == roots else [None] * roots


def keeps_graph(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """True when the call leaves the saved tensors where they are.

    >>> keeps_graph("backward", (None, None, True), {}), keeps_graph("grad", (), {"create_graph": True})
    (True, True)
    """
    retain = _options(name, args, kwargs).get("retain_graph")
    return creates_graph(name, args, kwargs) if retain is None else bool(retain)


def creates_graph(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """True when the gradients get a graph of their own.

    >>> creates_graph("backward", (None, None, True), {}), creates_graph("grad", (), {"create_graph": True})
    (False, True)
    """
    return bool(_options(name, args, kwargs).get("create_graph"))


def _options(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    return dict(zip(("retain_graph", "create_graph"), args[RETAIN[name] :], strict=False)) | kwargs
