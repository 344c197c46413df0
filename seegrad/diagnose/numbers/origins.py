"""Back from a number that isn't finite to the Frame or the Node that was given finite ones."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from seegrad.diagnose.numbers.known import KnownNumbers, Makers, Span
from seegrad.diagnose.numbers.left_out import entrance_of
from seegrad.model.derivatives import ROWS, STEEP, stem
from seegrad.model.recording import STEP, Frame, Node, Recording

PUT_THERE = frozenset({
    "fill_", "full", "full_like", "masked_fill", "masked_fill_", "new_full", "tensor", "as_tensor", "where",
    "__setitem__", "fill_diagonal_", "nan_to_num", "nan_to_num_", "clamp", "clamp_", "new_tensor", "scalar_tensor",
})  # fmt: skip
"""Ops whose result may be infinite because the program says so."""

BREAKS = frozenset({
    "acos", "acosh", "asin", "atanh", "erfinv", "exp", "exp_", "exp2", "expm1", "log", "log10", "log1p", "log2", "log_",
    "logit", "nll_loss", "cross_entropy", "reciprocal", "rsqrt", "sqrt", "xlogy",
})  # fmt: skip
"""Ops that make what isn't finite of small numbers: they have a pole, or a domain."""

POWERS = frozenset({"pow", "pow_"})
WHOLE = re.compile(r"\*\*\s*\d+(?![\d.])|\.pow\(\d+\)|\.square\(")
"""Code of a power that has neither a pole nor a domain."""

DIVISIONS = frozenset({"div", "div_", "divide", "rdiv", "true_divide", "truediv", "__itruediv__"})
FEW = frozenset({"std", "var", "std_mean", "var_mean"})
LEFT_OUT = frozenset({"softmax", "log_softmax", "scaled_dot_product_attention"})
FRESH = frozenset({
    "arange", "bernoulli_", "eye", "kaiming_uniform_", "linspace", "normal", "normal_", "ones", "rand", "randint",
    "randn", "randperm", "trunc_normal_", "uniform_", "xavier_uniform_", "zeros", "zero_",
})  # fmt: skip
"""Ops that make finite numbers out of nothing."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where it began: the Frame of a forward op, or that of a Node's making with the Node; `tensor` is the result.

    `meant`: an infinity that the program itself has put there. `unseen`: not everything that went in is known.
    `left_out`: data with NaN that the Frame is given; with `backward`, the loss is without. `put`: the Frame that put
    the infinity there of which this one has made NaN.
    """

    frame: Frame | None
    tensor: int | None
    node: Node | None = None
    slot: int = 0
    backward: int | None = None
    meant: bool = False
    unseen: bool = False
    left_out: int | None = None
    put: Frame | None = None


class Origins:
    """The ways back in one Recording."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.known = KnownNumbers(recording)
        self._makers = Makers(recording)

    # -- forward

    def of_tensor(self, tensor: int, until: int) -> Origin:
        """Where the first NaN behind a tensor began, or the first infinity."""
        born: Origin | None = None  # a NaN, of infinities that may be meant
        for _ in range(len(self.recording.frames) + 1):
            frame = self._makers.maker(tensor, until)
            if frame is None:
                return born or Origin(None, tensor)
            if frame.phase == "backward":
                return born or self._of_gradient(frame, tensor)
            spans = {each: self.known.at(each, frame.index - 1) for each in frame.inputs}
            broken = [each for each, span in spans.items() if span is not None and not span.is_finite]
            nans = [each for each in broken if (span := spans[each]) is not None and span.has_nan]
            now = self.known.at(tensor, frame.index)
            if not broken:
                unseen = any(span is None and self._is_floating(each) for each, span in spans.items())
                meant = frame.op in PUT_THERE and now is not None and not now.has_nan
                beyond = self._beyond(frame, tensor) if unseen and not meant else None
                stepped = self._of_step(frame, tensor) if frame.op == STEP and beyond is None else None
                here = beyond or stepped or Origin(frame, tensor, unseen=unseen, meant=meant)
                if born is None or not (meant or unseen):
                    return here
                return replace(born, put=frame if meant else None)
            if not nans and now is not None and now.has_nan and born is None:
                born = Origin(frame, tensor)
            tensor, until = (nans or broken)[0], frame.index - 1
        return born or Origin(None, tensor)

    def of_loss(self, root: int, first: Frame) -> Origin:
        """Where the first NaN behind a loss began; `first` is the first Frame of its backward.

        Where that isn't known: where data that holds one came in.
        """
        found = self.of_tensor(root, first.index)
        runs = self.runs(first.backward)
        entrance = entrance_of(self.recording, self.known, runs) if found.unseen else None
        if entrance is None:
            return found
        return Origin(entrance.frame, next(iter(entrance.frame.outputs), None), left_out=entrance.given)

    def _beyond(self, frame: Frame, tensor: int) -> Origin | None:
        """Back through results that nobody looked at, to the one op among their makers that breaks finite numbers.

        None where there are several, or where what was given from outside wasn't looked at either.
        """
        waiting, found, seen = [(frame, tensor)], list[Origin](), {tensor}
        for each, result in waiting:  # grows while it's read
            known = {given: self.known.at(given, each.index - 1) for given in each.inputs if self._is_floating(given)}
            broken = next((given for given, span in known.items() if span is not None and not span.is_finite), None)
            if broken is not None:
                return self.of_tensor(broken, each.index - 1)
            if self._may_break(each):
                found.append(Origin(each, result))
            if each.op in FRESH or (not known and each.inputs):
                continue
            if not each.inputs and each.op not in PUT_THERE:
                return None
            for given in (given for given, span in known.items() if span is None and given not in seen):
                made = self._makers.maker(given, each.index - 1)
                if made is None:
                    return None
                if made.phase == "backward" and self._has_broken(made.backward):
                    return self._of_gradient(made, given)
                seen.add(given)
                waiting += [] if made.phase == "backward" else [(made, given)]
        rows = [Origin(each, result) for each, result in waiting if each.op in LEFT_OUT]
        put = [each for each, _ in waiting if each.op in PUT_THERE]
        if found and not all(each.inputs for each in put):
            return None
        if not found and put:  # what is left out makes rows of nothing
            found = rows
        lines = {each.frame.place for each in found if each.frame is not None}
        return found[0] if len(lines) == 1 else None

    def _has_broken(self, backward: int | None) -> bool:
        """Has a Node of that call handed on what isn't finite?"""
        return any(slot[0] == backward and not span.is_finite for slot, span in self.known.handed.items())

    def _may_break(self, frame: Frame) -> bool:
        """Can this call have made what isn't finite of small finite numbers? A division by a plain number can't."""
        if frame.op in FEW:
            return any(not {0, 1}.isdisjoint(self.recording.tensors[each].shape) for each in frame.inputs)
        if frame.op in POWERS:
            return frame.place is None or WHOLE.search(frame.place.code) is None
        return frame.op in BREAKS or (frame.op in DIVISIONS and (len(frame.inputs) > 1 or frame.op == "rdiv"))

    def _is_floating(self, tensor: int) -> bool:
        ref = self.recording.tensors[tensor]
        return "int" not in ref.dtype and ref.dtype != "bool" and 0 not in ref.shape

    def _of_step(self, frame: Frame, tensor: int) -> Origin | None:
        """An optimiser's step hands on what its gradients hold; None where they are known to be finite."""
        adds = {node.id: node for node in self.recording.nodes if node.leaf == tensor}
        runs = [f for f in self.recording.frames[: frame.index] if f.running in adds and f.backward is not None]
        spans = [(f, self.known.given.get((f.backward or 0, f.running or 0))) for f in runs]
        for run, span in reversed(spans):
            if span is not None and not span.is_finite:
                return self.of_leaf(adds[run.running or 0], run.backward or 0)
        sure = bool(spans) and spans[-1][1] is not None
        return None if sure else Origin(frame, tensor, unseen=True)

    def _of_gradient(self, frame: Frame, tensor: int) -> Origin:
        """`autograd.grad` has handed it back."""
        runs = self.runs(frame.backward)
        for node in runs:
            if any(
                slot[:2] == (frame.backward, node.id) and not span.is_finite for slot, span in self.known.handed.items()
            ):
                return self._at_node(frame.backward or 0, node, 0)
        return Origin(frame, tensor, unseen=True)

    # -- backward

    def runs(self, backward: int | None) -> list[Node]:
        """The Nodes that ran in that call, in order."""
        frames = self.recording.frames
        return [self.recording.nodes[f.running] for f in frames if f.backward == backward and f.running is not None]

    def of_leaf(self, leaf: Node, backward: int) -> Origin:
        """Where the gradient of a leaf stopped being finite, of a loss that is."""
        runs = self.runs(backward)
        entrance = entrance_of(self.recording, self.known, runs, leaf)
        if entrance is not None:
            return Origin(
                entrance.frame, next(iter(entrance.frame.outputs), None), backward=backward, left_out=entrance.given
            )
        before: dict[int, list[tuple[Node, int]]] = {}
        for node in runs:
            for edge in node.edges:
                if edge.target is not None:
                    before.setdefault(edge.target, []).append((node, edge.slot))
        here, seen = leaf, {leaf.id}
        while True:
            givers = self._givers(backward, before.get(here.id, ()))
            if givers is None or not givers:
                return self._first_to_break(leaf, backward)
            first = next((each for each in givers if self._is_finite(backward, each[0])), None)
            if first is not None:
                return self._at_node(backward, *first)
            onward = next((node for node, _ in givers if node.id not in seen), None)
            if onward is None or (backward, onward.id) not in self.known.given:
                return self._first_to_break(leaf, backward)
            here = onward
            seen.add(here.id)

    def _first_to_break(self, leaf: Node, backward: int) -> Origin:
        """The first Node on the way to a leaf that is known to have handed on what isn't finite, of what is."""
        runs = self.runs(backward)
        leads = {leaf.id}
        for node in reversed(runs):
            leads |= {node.id for edge in node.edges if edge.target in leads}
        for node in (node for node in runs if node.id in leads and self._is_finite(backward, node)):
            for edge in (edge for edge in node.edges if edge.target in leads):
                span = self.known.handed.get((backward, node.id, edge.slot))
                if span is not None and not span.is_finite:
                    return self._at_node(backward, node, edge.slot)
        for node in (node for node in reversed(runs) if node.id in leads):  # a 0 that met a NaN of the forward
            for tensor in {*self.recording.frames[node.frame].inputs, *node.outputs}:
                span = self.known.at(tensor, node.frame)
                if span is not None and span.has_nan:
                    return self.of_tensor(tensor, node.frame)
        return Origin(None, leaf.leaf, leaf, backward=backward, unseen=True)

    def _is_finite(self, backward: int, node: Node) -> bool:
        span = self.known.given.get((backward, node.id))
        return span is not None and span.is_finite

    def _givers(self, backward: int, before: Sequence[tuple[Node, int]]) -> list[tuple[Node, int]] | None:
        """Of the Nodes that gave this one its gradient, those that gave what isn't finite; None where nobody knows."""
        handed = [self.known.handed.get((backward, node.id, slot)) for node, slot in before]
        if any(span is not None for span in handed):
            return [each for each, span in zip(before, handed, strict=True) if span is not None and not span.is_finite]
        if len(before) == 1:
            return list(before)
        given = {node.id: self.known.given.get((backward, node.id)) for node, _ in before}
        broken = [each for each in before if (span := given[each[0].id]) is not None and not span.is_finite]
        steep = [each for each in before if stem(each[0].name) in STEEP]
        return broken or (steep if len(steep) == 1 else None)

    def _at_node(self, backward: int, node: Node, slot: int) -> Origin:
        """A Node that was given finite numbers; what its op was given in the forward may not have been."""
        frame = self.recording.frames[node.frame]
        if frame.phase in ("forward", "inplace"):
            for tensor in frame.inputs:
                span = self.known.at(tensor, frame.index - 1)
                if span is not None and not span.is_finite:
                    found = self.of_tensor(tensor, frame.index - 1)
                    if not found.meant:
                        return found
        result = next(iter(node.outputs), None)
        span = None if result is None else self.known.at(result, frame.index)
        if result is not None and span is not None and span.has_nan and stem(node.name) in ROWS:
            return self.of_tensor(result, frame.index)
        return Origin(frame, result, node, slot, backward)

    # -- where it is seen

    def broke(self, origin: Origin) -> Node | None:
        """The Function that was given finite numbers and made others of them, forward or backward."""
        if origin.node is not None or origin.frame is None or origin.unseen:
            return origin.node
        made = [self.recording.nodes[each] for each in origin.frame.nodes]
        return next((node for node in made if origin.tensor in node.outputs), None)

    def shown(self, origin: Origin, end: Frame) -> Frame:
        """Where that Function runs backward; without one the first that is given what came of it; else the end."""
        frames = self.recording.frames
        backward = end.backward if origin.backward is None else origin.backward
        runs = {each.running: each for each in frames if each.backward == backward and each.running is not None}
        broke = self.broke(origin)
        if broke is not None or origin.unseen:
            return runs.get(broke.id, end) if broke is not None else end
        came = {origin.tensor}
        for frame in frames:
            if not came.isdisjoint(frame.inputs):
                made = [self.recording.nodes[each] for each in frame.nodes if each in runs]
                made = [node for node in made if not set(node.outputs).isdisjoint(frame.outputs)]
                if made:
                    return runs[made[0].id]
                came.update(frame.outputs)
        return end

    def handed(self, origin: Origin) -> Span | None:
        """What the Node of an Origin handed on."""
        if origin.node is None or origin.backward is None:
            return None
        target = next((edge.target for edge in origin.node.edges if edge.slot == origin.slot), None)
        exact = self.known.handed.get((origin.backward, origin.node.id, origin.slot))
        return exact or (self.known.given.get((origin.backward, target)) if target is not None else None)
