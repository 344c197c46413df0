"""Frame → what the learner reads beside the picture, in the language that is spoken."""

from __future__ import annotations

from collections import defaultdict

from seegrad.model.recording import GRADIENT_READ, STEP, Frame, Node, Recording, SavedTensor, TensorRef, Write
from seegrad.picture.sketch.desk import gradient_name, stepped_gradients
from seegrad.words.languages import _, closed, marked, together

NAMED = 2
"""So many of what one step has written are named."""

HUSHED = ("counters", "damage")  # veils under which no version is told: they would tell how it ends
WRITTEN_OUT = ("tensor", "as_tensor")  # ops that only take over the user's numbers: their names say nothing
DESCRIBED = ("the result of ", "a tensor ", "a number ", "an unnamed tensor ")  # no name of the user's: a capital fits
PHASES = {
    "start": marked("start"),
    "forward": marked("forward"),
    "inplace": marked("inplace"),
    "backward": marked("backward"),
    "error": marked("error"),
}


def title(frame: Frame) -> str:
    """The line of code that this step runs, else what it is."""
    if frame.phase != "start" and frame.place is not None and frame.place.code:
        return frame.place.code.strip()
    return _("before the first line") if frame.phase == "start" else frame.op or _(PHASES[frame.phase])


class Narrator:
    """Sentences about the Frames of one Recording."""

    def __init__(self, recording: Recording, veil: str = "") -> None:
        self.veil = veil  # what an open question asks for: the sentences must not tell it
        self.recording = recording
        self.tensors = {ref.id: ref for ref in recording.tensors}
        self.stepped = stepped_gradients(recording)
        switches = [each.tensors for each in recording.switches]
        switches += [frame.outputs for frame in recording.frames if frame.op == "requires_grad_"]
        self.switched = {tensor for tensors in switches for tensor in tensors}
        self.nodes = {node.id: node for node in recording.nodes}
        self.writes = {write.id: write for write in recording.writes}
        self.on_storage: dict[int, list[TensorRef]] = defaultdict(list)
        for ref in recording.tensors:
            self.on_storage[ref.storage].append(ref)

    def sentences(self) -> list[str]:
        """One text a Frame, in order."""
        return [self.sentence(frame) for frame in self.recording.frames]

    def sentence(self, frame: Frame) -> str:
        """One or two short sentences: what this step did."""
        text = closed(self._sentence(frame))
        return text[0].upper() + text[1:] if text.startswith(DESCRIBED) else text

    def _sentence(self, frame: Frame) -> str:
        if frame.phase == "start":
            return self._start(frame)
        if frame.phase == "error":
            return self._error()
        if frame.phase == "backward":
            return self._backward(frame)
        if frame.op == GRADIENT_READ:
            read = self.name(next(iter(frame.inputs), None))
            return _("{name}.grad was read: backward keeps no gradient there.").format(name=read)
        known = [k for k in frame.writes if k in self.writes]
        here = [self.writes[k] for k in known if self.writes[k].frame == frame.index]  # others are told there
        made = self._made(frame)
        return together(made, *self._written(frame, here)) or _("{op} ran; it made no tensor.").format(op=frame.op)

    def name(self, tensor: int | None) -> str:
        """The user's name, or a description."""
        ref = self.tensors.get(tensor) if tensor is not None else None
        if ref is None:
            return _("a tensor")
        if ref.name:
            return ref.name
        parent = self.tensors.get(ref.alias_of) if ref.alias_of is not None else None
        if parent is not None and parent.name and ref.route in ("detach", "data") and not ref.parameter:
            return parent.name + (".detach()" if ref.route == "detach" else ".data")
        frame = self.recording.frames[ref.frame] if ref.frame < len(self.recording.frames) else None
        if frame is not None and ref.id in frame.outputs and frame.op and frame.op not in WRITTEN_OUT:
            return _("the result of {op}").format(op=frame.op)
        if named := self.stepped.get(ref.id) or gradient_name(self.recording, ref):
            return named
        return _("a number") if not ref.shape else _("an unnamed tensor")

    def _grad(self, tensor: int) -> str:
        ref = self.tensors.get(tensor)
        name = self.name(tensor)
        return f"{name}.grad" if ref is not None and ref.name else _("the .grad of {name}").format(name=name)

    def _names(self, tensors: tuple[int, ...]) -> str:
        return _(", ").join(dict.fromkeys(self.name(tensor) for tensor in tensors))

    def _start(self, frame: Frame) -> str:
        if not self.recording.tensors:
            return _("Nothing has run yet, and no tensor is known.")
        here = [ref for ref in self.recording.tensors if ref.frame == frame.index]
        names = self._names(tuple(ref.id for ref in here if ref.is_leaf and ref.requires_grad))
        if not names or self.veil in ("leaves", "keeps"):
            return _("Nothing has run yet. Autograd has recorded nothing.")
        return _("Nothing has run yet. Leaves, whose gradients will be kept: {names}.").format(names=names)

    def _made(self, frame: Frame) -> str:
        nodes = [self.nodes[k] for k in frame.nodes if k in self.nodes and self.nodes[k].leaf is None]
        if frame.phase == "inplace":
            return ""
        if nodes:
            return self._recorded(frame, nodes)
        aliases = [
            self.tensors[k]
            for k in frame.outputs
            if k in self.tensors and k not in frame.inputs and self.tensors[k].route in ("detach", "data", "storage")
        ]
        if aliases:
            return self._alias(aliases[0])
        if not frame.outputs:
            return ""
        if frame.op == "requires_grad_":
            return self._switched(self.tensors[frame.outputs[0]])
        why = (
            _("{names} is made.")
            if not frame.inputs
            else _("{names} is computed. Autograd records nothing: gradients are off.")
            if not frame.grad_enabled
            else _("{names} is computed. Autograd records nothing: no gradient passes through {op}.")
            if any(map(self._has_history, frame.inputs))
            else _("{names} is computed. Autograd records nothing: no input needs a gradient.")
        )
        return why.format(names=self._names(frame.outputs), op=frame.op)

    def _has_history(self, tensor: int) -> bool:
        """Did it need a gradient when it was used? What is told of a leaf may have been switched on later."""
        return tensor in self.tensors and self.tensors[tensor].requires_grad and tensor not in self.switched

    def _recorded(self, frame: Frame, nodes: list[Node]) -> str:
        names = self._names(frame.outputs) or _("A result")
        functions = _(", ").join(dict.fromkeys(node.name for node in reversed(nodes)))
        if self.veil == "saves":
            return _("{names} is computed; autograd records {functions}.").format(names=names, functions=functions)
        saved = [self._saved(item) for node in nodes for item in node.saved if item.tensor is not None]
        if not saved:
            return _("{names} is computed; autograd records {functions}, which saves no tensor.").format(
                names=names, functions=functions
            )
        return _("{names} is computed; autograd records {functions} and saves {saved}.").format(
            names=names, functions=functions, saved=_(", ").join(dict.fromkeys(saved))
        )

    def _switched(self, ref: TensorRef) -> str:
        said = _("{name} asks for a gradient now.") if ref.requires_grad else _("{name} asks for no gradient any more.")
        return said.format(name=self.name(ref.id))

    def _saved(self, saved: SavedTensor) -> str:
        name = self.name(saved.tensor)
        if saved.version is None or name == _("a number") or self.veil in HUSHED:
            return name
        return f"{name}@v{saved.version}" if saved.checked else _("{name} (without a version)").format(name=name)

    def _alias(self, ref: TensorRef) -> str:
        parent = self.name(ref.alias_of)
        if self.veil in HUSHED:
            text = _("{name} is a second name for the bytes of {parent}, without history.")
        elif ref.route == "detach":
            text = _(
                "{name} is a second name for the bytes of {parent}, without history. They share one version counter."
            )
        elif ref.route == "data":
            text = _(
                "{name} is a second name for the bytes of {parent}, without history, with a version counter of its own."
            )
        else:
            text = _("{name} shares the bytes of {parent}, and autograd doesn't know it.")
        return text.format(name=self.name(ref.id), parent=parent)

    def _written(self, frame: Frame, writes: list[Write]) -> list[str]:
        """A sentence each; one for all that an optimiser's step has moved alike."""
        moves = {(write.version_before, write.version_after) for write in writes}
        alike = len(writes) > NAMED and len(moves) == 1 and frame.op == STEP and self.veil not in HUSHED
        if not alike:
            return [self._write(frame, write) for write in writes]
        ((before, after),) = moves
        names = ", ".join(self.name(write.tensor) for write in writes[:NAMED])
        said = _("{names} and {count} more are overwritten in place: the version of each goes {before} → {after}.")
        return [said.format(names=names, count=len(writes) - NAMED, before=before, after=after)]

    def _write(self, frame: Frame, write: Write) -> str:
        name, before, after = self.name(write.tensor), write.version_before, write.version_after
        if self.veil in HUSHED:
            said = _("{name} is overwritten in place.")
        elif before is None or after is None:
            said = _("{name} is overwritten; it has no version counter.")
        elif before == after:
            said = _("{name} is overwritten, but its version stays {after}: nobody counts this write.")
        else:
            said = _("{name} is overwritten in place: its version goes {before} → {after}.")
        own = said.format(name=name, before=before, after=after)
        return together(own, *self._others_hit(frame, write.tensor, write.storage))

    def _others_hit(self, frame: Frame, tensor: int, storage: int) -> list[str]:
        """The named tensors on the same bytes, and whether their own counter noticed."""
        moved = dict(frame.versions)
        mine = self.name(tensor)
        same = [ref for ref in self.on_storage[storage] if ref.frame < frame.index]
        others = [ref for ref in same if ref.name and ref.name != mine]
        if not others:
            return []
        if self.veil in HUSHED:
            return [_("The same bytes are {names}.").format(names=_(", ").join(ref.name or "" for ref in others))]
        counter = self.tensors[tensor].counter if tensor in self.tensors else None
        told = [ref.name or "" for ref in others if ref.counter == counter]
        blind = [
            f"{ref.name} (v{moved[ref.id]})" if moved.get(ref.id) is not None else ref.name or ""
            for ref in others
            if ref.counter != counter
        ]
        text = []
        if told:
            text.append(
                _("The same bytes are {names}, and the shared counter moves too.").format(names=_(", ").join(told))
            )
        if blind:
            text.append(
                _("The same bytes are {names}, whose own counter doesn't notice.").format(names=_(", ").join(blind))
            )
        return text

    def _backward(self, frame: Frame) -> str:
        kept = [gradient for gradient in frame.gradients if gradient.kept]
        node = self.nodes.get(frame.running) if frame.running is not None else None
        stored = (
            _("Stored in {names}.").format(names=_(", ").join(dict.fromkeys(self._grad(g.tensor) for g in kept)))
            if kept
            else ""
        )
        if frame.wanted:
            return _("autograd.grad returns the gradient of {names}.").format(names=self._names(frame.wanted))
        if node is None:
            return together(_("Backward starts at the root with gradient 1."), stored)
        if node.leaf is not None:
            return _("AccumulateGrad adds the gradient to {grad}.").format(grad=self._grad(node.leaf))
        to = self._names(
            tuple(k for k, e in zip(node.inputs, node.edges, strict=False) if k is not None and e.target is not None)
        )
        text = _("{node} receives the gradient of {outputs} and sends one to {inputs}.").format(
            node=node.name,
            outputs=self._names(node.outputs) or _("its result"),
            inputs=to or _("its inputs"),
        )
        return together(text, stored)

    def _error(self) -> str:
        error = self.recording.error
        return _("{kind} is raised.").format(kind=error.kind) if error else _("An error was raised.")
