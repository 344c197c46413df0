"""What has been put down so far while the Frames are walked: cards, pills, wires, and who is the newest of whom."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import Literal

from seegrad.model.recording import STEP, Frame, Recording, TensorRef
from seegrad.picture.sketch.parts import Card, Pill, Pin, Wire, at
from seegrad.words.languages import _

NAME_LONGEST = 20
SIGN_LONGEST = 18
CUT = "…"  # stands for what a short name leaves out
SIGNS = {
    "Add": "+", "Sub": "−", "Mul": "×", "Div": "÷", "Neg": "−x", "Pow": "xⁿ", "Exp": "exp", "Log": "log", "Sum": "Σ",
    "Mean": "mean", "Sigmoid": "σ", "Tanh": "tanh", "Relu": "relu", "Mm": "@", "Mv": "@", "Dot": "@", "Bmm": "@",
    "Addmm": "@+", "T": "xᵀ", "Transpose": "xᵀ", "Permute": "xᵀ", "Sqrt": "√", "Abs": "|x|", "Select": "[i]",
    "Slice": "[:]", "Index": "[…]", "CopySlices": "[…]=", "Copy": "copy", "Clone": "clone", "View": "view",
    "AsStrided": "view", "UnsafeView": "view", "ToCopy": "to", "NativeBatchNorm": "batch norm",
    "NativeLayerNorm": "layer norm", "Getitem": "[…]", "Matmul": "@", "Truediv": "÷", "Rsub": "−", "Radd": "+",
    "Rmul": "×", "Rpow": "xⁿ", "Rtruediv": "÷", "Rdiv": "÷", "Eq": "==", "Ne": "≠", "Lt": "<", "Le": "≤", "Gt": ">",
    "Ge": "≥",
}  # fmt: skip
NUMBER = re.compile(r"(Backward)?\d*$")
WORD = re.compile(r"(?<=[._])|(?<=[a-z0-9])(?=[A-Z])")
HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")  # where the function's own name has `_`
CUTS = frozenset({"detach", "data", "storage"})  # ways to another name through which no gradient comes back


GRADIENT = re.compile(r"[^\W\d][\w.]*\.grad\b(?!\()")
NEAR = 8  # Frames after which a tensor that was seen is taken up by another line


def gradient_name(recording: Recording, ref: TensorRef) -> str:
    """A `.grad` by the line that takes it up first, where that names one alone; empty where it doesn't, or no Frame."""
    takes = next((frame for frame in recording.frames[ref.frame : ref.frame + NEAR] if ref.id in frame.inputs), None)
    named = set(GRADIENT.findall(takes.place.code)) if takes is not None and takes.place is not None else set()
    others = [recording.tensors[k] for k in takes.inputs if k != ref.id] if takes is not None else []
    alone = len(named) == 1 and all(other.name for other in others) and not ref.requires_grad
    return named.pop() if alone else ""


def stepped_gradients(recording: Recording) -> dict[int, str]:
    """The gradients that an optimiser's step went by → their names: they come in the order of what it wrote."""
    refs, found = recording.tensors, dict[int, str]()
    for frame in recording.frames:
        if frame.op == STEP:
            given = [refs[k] for k in frame.inputs if k not in frame.outputs]
            leaves = [refs[k] for k in frame.outputs if refs[k].is_leaf and refs[k].requires_grad]
            if [ref.shape for ref in given] == [ref.shape for ref in leaves]:
                named = zip(given, leaves, strict=True)
                found |= {gradient.id: f"{leaf.name}.grad" for gradient, leaf in named if leaf.name}
    return found


@dataclass
class Desk:
    """The picture in the making.

    `current` is the newest card of each tensor, `made` the card that a Function made of a tensor, `drawn_from` the
    card that a pill took as its input: an in-place write gives one tensor several cards.
    """

    recording: Recording
    cards: dict[str, Card] = field(default_factory=dict)
    pills: dict[str, Pill] = field(default_factory=dict)
    wires: list[Wire] = field(default_factory=list)
    loose_pins: list[tuple[str, Pin]] = field(default_factory=list)
    current: dict[int, str] = field(default_factory=dict)
    history: dict[int, list[str]] = field(default_factory=lambda: defaultdict(list))  # all cards of each tensor
    made: dict[tuple[int, int], str] = field(default_factory=dict)
    drawn_from: dict[tuple[str, int], str] = field(default_factory=dict)
    leaving: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))  # part → its wires, by number
    hidden: set[str] = field(default_factory=set)  # what ran inside a custom Function: its pill stands for it
    arriving: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        self.tensors = {ref.id: ref for ref in self.recording.tensors}
        self.nodes = {node.id: node for node in self.recording.nodes}
        self.writes = {write.id: write for write in self.recording.writes}
        self.stepped = stepped_gradients(self.recording)
        self.outputs = {tensor for frame in self.recording.frames for tensor in frame.outputs}

    def put(self, wire: Wire) -> None:
        """Put down a wire."""
        self.leaving[wire.source].append(len(self.wires))
        self.arriving[wire.target].append(len(self.wires))
        self.wires.append(wire)

    def card(self, tensor: int, born: int, *, written: bool = False, computed: bool = False) -> str:
        """Put down a new card for a tensor; the one before it becomes stale."""
        ref = self.tensors[tensor]
        old = self.current.get(tensor)
        count = int(old.rsplit("-", 1)[1]) + 1 if old else 0
        name, full = f"t{tensor}-{count}", self.name(ref)
        kind: Literal["leaf", "tensor", "plain"] = "tensor" if computed or ref.requires_grad else "plain"
        if kind == "tensor" and not computed and ref.is_leaf:
            kind = "leaf"
        root = tensor == self.recording.root
        label = shorten(full, NAME_LONGEST)
        before = self.cards[old].versions[-1][1] if old and self.cards[old].versions else None
        self.cards[name] = Card(
            name, tensor, kind, label, full, ref.shape, born, written=written, version_before=before, root=root,
            frozen=ref.parameter and not ref.requires_grad,
        )  # fmt: skip
        if old:
            self.cards[old] = replace(self.cards[old], stale=born, root=False)
        self.current[tensor] = name
        self.history[tensor].append(name)
        return name

    def card_at(self, tensor: int, step: int) -> str:
        """The card that was a tensor's newest at a step, "" where it has none."""
        cards = [name for name in self.history.get(tensor, ()) if name in self.cards]
        seen = [name for name in cards if self.cards[name].born <= step]
        return seen[-1] if seen else cards[0] if cards else ""

    def known(self, tensor: int, now: int) -> str | None:
        """The tensor's newest card; what nothing in the block made was there before, so its card is from the start."""
        if tensor in self.current:
            return self.current[tensor]
        if tensor not in self.tensors:
            return None
        ref = self.tensors[tensor]
        made = tensor in self.outputs or self.recording.frames[ref.frame].phase == "backward"  # a gradient
        name = self.card(tensor, min(now, ref.frame) if made else 0)
        self.hang_alias(ref, name, now)
        return name

    def name(self, ref: TensorRef) -> str:
        """The user's name, else where it comes from: `out.detach()`, `(mean)`."""
        if ref.name:
            return ref.name
        parent = self.tensors.get(ref.alias_of) if ref.alias_of is not None else None
        if parent and parent.name and not ref.parameter:
            return parent.name + alias_label(ref)
        frame = self.recording.frames[ref.frame] if ref.frame < len(self.recording.frames) else None
        made = f"({_spoken(frame.op)})" if frame and ref.id in frame.outputs and frame.op else ""
        of_leaf = gradient_name(self.recording, ref)  # of a long path its end: a card is no wider for it
        return made or self.stepped.get(ref.id) or ".".join(of_leaf.split(".")[-2:]) or _("(unnamed)")

    def hang_alias(self, ref: TensorRef, card: str | None, now: int) -> bool:
        """Hang an alias on the tensor whose bytes it shares; False where there is no such tensor."""
        if ref.alias_of is None or ref.alias_of == ref.id or ref.alias_of not in self.tensors:
            return False
        parent = self.known(ref.alias_of, now)
        if parent is None:
            return False
        name = card or self.card(ref.id, now)
        self.put(Wire(parent, name, self.cards[name].born, "alias", alias_label(ref), cut=ref.route in CUTS))
        return True

    def drop_strays(self) -> None:
        """Unnamed tensors that nothing leads to or from, such as a module's memory before it is wrapped."""
        wired = self.leaving.keys() | self.arriving.keys()
        refs = self.tensors
        strays = [
            k for k, card in self.cards.items() if k not in wired and refs[card.tensor].name is None and not card.root
        ]
        for name in strays:
            card = self.cards.pop(name)
            if self.current.get(card.tensor) == name:
                del self.current[card.tensor]

    def storages(self) -> dict[str, int]:
        """The bytes of each card."""
        return {name: self.tensors[card.tensor].storage for name, card in self.cards.items()}

    def hide_inside(self, card: str) -> None:
        """A custom Function's forward made this tensor by an op of its own: the Function's pill stands for both."""
        makers = [self.wires[k].source for k in self.arriving.get(card, ())]
        if len(makers) == 1 and makers[0].startswith("o") and len(self.leaving[makers[0]]) == 1:
            self.hidden |= {card, makers[0]}

    def update(self, frame: Frame) -> None:
        """Write down the numbers and versions that hold after a Frame."""
        changed = {self.writes[k].storage for k in frame.writes if k in self.writes}
        known = dict(frame.summaries)
        for tensor, preview in frame.values:
            card = self.cards.get(self.current.get(tensor, ""))
            if card is None:
                continue
            hit = card.born < frame.index and self.tensors[tensor].storage in changed
            if not card.values:
                card = self.cards[card.id] = replace(card, values=((card.born, preview),))
            elif hit or card.values[-1][1] != preview or known.get(tensor) != at(card.summaries, frame.index):
                values = (*card.values, (frame.index, preview))
                overwritten = (*card.overwritten, frame.index)
                card = self.cards[card.id] = replace(card, values=values, overwritten=overwritten)
            if known.get(tensor) != at(card.summaries, frame.index):
                summaries = (*card.summaries, (card.values[-1][0], known.get(tensor)))
                self.cards[card.id] = replace(card, summaries=summaries)
        for tensor, version in frame.versions:
            card = self.cards.get(self.current.get(tensor, ""))
            if card is not None and (not card.versions or at(card.versions, frame.index) != version):
                since = frame.index if card.versions else card.born
                self.cards[card.id] = replace(card, versions=(*card.versions, (since, version)))


def alias_label(ref: TensorRef) -> str:
    """How an alias was made, as code.

    >>> alias_label(TensorRef(0, None, (), "float32", "cpu", True, False, 0, 0, (0, 4), 0, 1, "data"))
    '.data'
    """
    if ref.parameter and ref.route == "detach":  # `nn.Parameter(y)`: nothing else makes a Parameter of another tensor
        return "Parameter()"
    return {"detach": ".detach()", "data": ".data", "view": _(" view")}.get(ref.route, _(" same bytes"))


def shorten(text: str, longest: int) -> str:
    """Cut in the middle, so that both ends of a long name stay readable: between words, and in one only if it must.

    >>> shorten("net.block.1.running_var", 20), shorten("binary_cross_entropy_with_logits", 18)
    ('net…1.running_var', 'binary…with_logits')
    >>> shorten("encoder_layer_weight", 9)
    'enco…ight'
    """
    if len(text) <= longest:
        return text
    words = WORD.split(text)
    for place in range(1, len(words)):  # the last ones tell a name from those beside it
        short = f"{words[0].rstrip('._')}{CUT}{''.join(words[place:])}"
        if len(short) <= longest:
            return short
    half = (longest - 1) // 2
    return f"{text[: longest - 1 - half]}{CUT}{text[-half:]}"


def shorten_code(code: str, longest: int) -> str:
    """A line of code that stays code: what is within brackets goes first, then its end.

    >>> shorten_code("loss = F.mse_loss(model(x), y)", 24), shorten_code("loss = F.mse_loss(model(x), y)", 12)
    ('loss = F.mse_loss(…)', 'loss = F.ms…')
    """
    if len(code) <= longest:
        return code
    kept, depth = [], 0
    for letter in code:
        depth = max(0, depth - (letter in ")]}"))
        if depth == 0:
            kept.append(letter)
        elif kept[-1] != "…":
            kept.append("…")
        depth += letter in "([{"
    short = "".join(kept)
    return short if len(short) <= longest else f"{short[: longest - 1].rstrip('([{…')}…"


def sign(name: str) -> str:
    """The sign for a Node's or an op's name.

    >>> sign("MulBackward0"), sign("mul"), sign("NllLossBackward0"), sign("zero_"), sign("__getitem__")
    ('×', '×', 'nll_loss', 'zero_', '[…]')
    """
    base = _spoken(NUMBER.sub("", name.rsplit("::", 1)[-1]))
    return shorten(SIGNS.get(base) or SIGNS.get(base.capitalize()) or HUMP.sub("_", base).lower(), SIGN_LONGEST)


def _spoken(op: str) -> str:
    """A method of Python's own by its operator: nobody has written its name."""
    bare = op.strip("_") if op.startswith("__") else ""
    return (SIGNS.get(bare.capitalize()) or bare) if bare else op


def op_sign(op: str) -> str:
    """What an in-place op is called: its name, `[…] =` for an indexed assignment.

    >>> op_sign("add_"), op_sign("__setitem__"), op_sign("__iadd__")
    ('add_', '[…] =', '+=')
    """
    signs = {"setitem": "[…] =", "iadd": "+=", "isub": "−=", "imul": "×=", "itruediv": "÷=", "copy_slices": "[…] ="}
    return shorten(signs.get(op.strip("_")) or op, 20)
