"""All that one Recording holds while it grows, and what happens between two calls of torch."""

from __future__ import annotations

import dis
import re
import threading
from collections.abc import Sequence
from itertools import chain, pairwise
from types import CodeType, FrameType
from typing import Any

import torch

from seegrad.capture.calls import tensors_in
from seegrad.capture.names import VariableNames
from seegrad.capture.probes import torch_private as _torch
from seegrad.capture.probes.places import Source, user_frame, user_frames
from seegrad.capture.probes.previews import preview
from seegrad.capture.probes.variables import held_tensors, module_tensors, modules
from seegrad.capture.tables.forget import Forgetting
from seegrad.capture.tables.frames import FrameDraft, Frames, Hit, Writes
from seegrad.capture.tables.hooks import KINDS, HookDraft, name_of
from seegrad.capture.tables.nodes import Birth, Nodes
from seegrad.capture.tables.saved import SavedTensors
from seegrad.capture.tables.tensors import Tensors
from seegrad.errors import text_of
from seegrad.model.invented import EXTERNAL_WRITE, GRADIENT_READ
from seegrad.model.recording import Place, RaisedError


class RecordingState:
    """The tables of one Recording."""

    def __init__(self, source: Source, *, every_byte: bool) -> None:
        self.source = source
        self.lock = threading.RLock()  # the engine has a thread for each device
        self.frames = Frames()
        self.tensors = Tensors()
        self.names = VariableNames(self.tensors)
        self.saved = SavedTensors(every=every_byte)
        self.nodes = Nodes(self.tensors, self.saved)
        self.writes = Writes()
        self.errors: list[RaisedError] = []
        self.hooks: list[HookDraft] = []
        self.backwards = 0
        self.root: int | None = None
        self.uninitialised: set[int] = set()  # storages that hold whatever was in memory
        self.forgetting = Forgetting()
        self.block: FrameType | None = None
        self._module: dict[str, Any] = {}  # variables of the last line that ran outside any function
        self._last_line: tuple[str, int] | None = None
        # The line that called the custom Function which was running at the last event; and one event before.
        self.applying: Place | None = None
        self._applied: Place | None = None
        self._inside: tuple[int, ...] = ()  # Writes that the forward of a custom Function has made

    # -- begin and end

    def start(self, frame: FrameType | None, place: Place | None) -> None:
        """The block begins."""
        self.block = frame
        self.frames.new("start", "start", place)

    def finish(self, block: FrameType | None) -> None:
        """The block ends: a last look at what has no name yet."""
        self.new_event(block, deep=True)
        self.names.afresh([*user_frames(block, self.block), self._module])
        self.block, self._module = None, {}

    def last_look(self, user: FrameType | None) -> None:
        """A call of torch has failed: the last moment at which the variables of these functions can be read."""
        self.names.afresh(user_frames(user, self.block))

    def left_by(self, error: BaseException, place: Place | None, refused: torch.Tensor | None = None) -> RaisedError:
        """The error that leaves the block: the one seen in a call of torch, or one of the user's own."""
        kind, text = type(error).__name__, text_of(error)
        if self.errors and (self.errors[-1].kind, self.errors[-1].text) == (kind, text):
            return self.errors[-1]
        frame = self.frames.new("error", kind, place)
        frame.inputs = () if refused is None else (self.meet(refused),)
        return RaisedError(kind, text, place, frame.index)

    # -- between two calls

    def new_event(self, user: FrameType | None, *, direct: bool = True, deep: bool = False) -> None:
        """What happened since the last event: names were given, bytes may have changed behind torch's back."""
        frames = user_frames(user, self.block)
        if not self._last_line:  # nothing has run yet: what these frames hold existed before
            self.names.start(frames)
        if user is not None and user.f_code.co_name == "<module>":
            self._module = user.f_globals
        unseen = self.names.event(frames, direct=direct)
        self._applied, self.applying = self.applying, self._applying_line(frames)
        if self._applied is None:
            self._inside = ()
        strangers = [*unseen, *self.names.everything(frames)] if deep else unseen
        self.meet_wrapped(strangers, user)
        self.meet_late(strangers)
        line = (user.f_code.co_filename, user.f_lineno or 0) if user is not None else None
        self._look_behind(line)
        self._last_line = line or self._last_line
        self.forgetting.now_and_then(self)

    def _applying_line(self, frames: Sequence[FrameType]) -> Place | None:
        """The user's line that called the custom Function whose forward runs now: without gradients, always."""
        if torch.is_grad_enabled():
            return None
        for outer, frame in pairwise(frames):
            step = frame.f_back
            while step is not None and step is not outer:
                if step.f_code is _torch.APPLY:
                    return self.source.place(outer)
                step = step.f_back
        return None

    def applies(self, user: FrameType | None) -> None:
        """A custom Function's forward has returned; the line that called it."""
        self.applying = self.source.place(user)

    def _look_behind(self, line: tuple[str, int] | None) -> None:
        for saved, _ in self.saved.changed_behind() if self.saved.watching else ():
            frame = self.frames.new("inplace", EXTERNAL_WRITE, self.source.between(self._last_line, line))
            versions = saved.version, saved.version
            self.write(frame, Hit(saved.tensor, saved.storage, saved.span, EXTERNAL_WRITE, versions))

    def meet(self, tensor: torch.Tensor) -> int:
        """A tensor that's first seen as an input was there already: in the Frame before, or from the start."""
        number = self.tensors.find(tensor)
        if number is not None:
            return number
        frame = self.frames.drafts[0] if self.tensors.existed_at_start(tensor) else self.frames.last
        number = self.tensors.see(tensor, frame.index)
        self.show(frame, number, tensor)
        return number

    def meet_wrapped(self, tensors: Sequence[torch.Tensor], user: FrameType | None) -> None:
        """Leaves that were made on the bytes of a result (`nn.Parameter(y)`): each gets a Frame for the unseen call."""
        for tensor in tensors:
            source = wraps(self.tensors, tensor)
            if source is not None:
                place = bound_at(self.source, tensor, user_frames(user, self.block)) or self.source.place(user)
                frame = self.frames.new("forward", type(tensor).__name__, place)
                frame.inputs = (source,)
                frame.outputs = (self.tensors.see(tensor, frame.index, frame.inputs, "detach"),)
                self.show(frame, frame.outputs[0], tensor)

    def meet_late(self, tensors: Sequence[torch.Tensor]) -> None:
        """Nodes that were made where no call was seen (autograd.Function.apply, C++, before the block)."""
        if not tensors or not torch.is_grad_enabled():
            return
        last = self.frames.last
        unknown = [
            t for t in tensors if t.requires_grad and not _torch.is_leaf(t) and not self.nodes.source(t, last.index)
        ]
        if not unknown:
            return
        nodes = _torch.grad_fns(unknown)
        applied = self._applied if any(map(_torch.is_custom, nodes)) else None
        if applied is not None:
            last = self.frames.new("forward", _torch.function_name(nodes[0]), applied)
        last.nodes += self.nodes.walk(nodes, Birth(last.index, last.op, (), unknown, late=True))
        if applied is not None:
            last.inputs = tuple(dict.fromkeys(self.nodes.given(last.nodes)))
            last.outputs = tuple(self.meet(tensor) for tensor in unknown)
            for number, tensor in zip(last.outputs, unknown, strict=True):
                self.show(last, number, tensor)
            last.writes, self._inside = self._inside, ()

    def gradient_read(self, tensor: torch.Tensor, frame: FrameType) -> None:
        """`.grad` was read: a Frame where it's None because backward keeps gradients in leaves alone."""
        if not self.backwards or not tensor.requires_grad or _torch.is_leaf(tensor) or tensor.retains_grad:
            return
        user = user_frame(frame)
        self.new_event(user)
        read = self.frames.new("forward", GRADIENT_READ, self.source.place(user))
        read.inputs = (self.meet(tensor),)

    def escaped(self, tensors: Sequence[torch.Tensor]) -> None:
        """Someone outside torch was given these tensors' bytes."""
        for tensor in tensors:
            self.saved.watch(self.tensors.storage_number(tensor))

    def hooked(self, method: str, args: tuple[Any, ...], user: FrameType | None, handle: Any) -> None:
        """The user has put a hook on a tensor, and got a handle for it."""
        self.new_event(user)
        (tensor,), frame = tensors_in(args[:1]), self.frames.next - 1
        at = self.nodes.source(tensor, frame) if tensor.requires_grad and not _torch.is_leaf(tensor) else None
        place, name = self.source.place(user), name_of(args[1:])
        self.hooks.append(HookDraft(KINDS[method], frame, place, self.meet(tensor), name, at, handle))

    # -- what a Frame shows

    def show(self, frame: FrameDraft, number: int, tensor: torch.Tensor) -> None:
        """The tensor's numbers and version after this Frame."""
        empty = self.tensors.drafts[number].storage in self.uninitialised
        frame.show(number, None if empty else preview(tensor), _torch.version(tensor))

    def write(self, frame: FrameDraft, hit: Hit) -> None:
        """A Write was made: everyone who shares the bytes shows it."""
        number = self.writes.add(frame, hit)
        frame.writes += (number,)
        if self.applying is not None:
            self._inside += (number,)
        self.saved.written(hit.storage, hit.span)
        self.uninitialised.discard(hit.storage)
        for tensor in self.tensors.on_storage(hit.storage):
            each = self.tensors.alive(tensor)
            if each is not None:
                self.show(frame, tensor, each)


# -- `nn.Parameter(y)`: a new leaf on the bytes of a result. Nobody sees that call: it is told at the first use

IDENTIFIER = re.compile(r"[^\W\d]\w*")


def wraps(tensors: Tensors, tensor: torch.Tensor) -> int | None:
    """The tensor with a graph on whose bytes this leaf was made; None for other tensors and for one that's known."""
    if not tensor.requires_grad or not _torch.is_leaf(tensor) or tensors.find(tensor) is not None:
        return None
    results = tensors.results_on(tensors.storage_number(tensor))
    return results[-1] if results and not tensors.existed_at_start(tensor) else None


def bound_at(source: Source, tensor: torch.Tensor, frames: list[FrameType]) -> Place | None:
    """The line that gave the tensor to a variable, an attribute or a collection; None where nothing holds it."""
    for frame in reversed(frames):
        in_modules = chain.from_iterable(module_tensors(name, module) for name, module in modules(frame))
        for name, value in chain(held_tensors(frame), in_modules):
            if value is tensor:
                line = stored_at(frame.f_code, name, frame.f_lasti)
                if line is not None:
                    return source.place_at(frame, line)
    return None


def stored_at(code: CodeType, name: str, now: int) -> int | None:
    """The line of the last store into `name` before the instruction at `now`, or of all where a loop has come round.

    >>> code = compile("p = 1\\nq = 2\\np = 3\\nprint(p)\\n", "example", "exec")
    >>> stored_at(code, "p", 10**6), stored_at(code, "p", 8), stored_at(code, "head.weight", 10**6)
    (3, 1, None)
    """
    stores = [each for each in dis.get_instructions(code) if each.opname.startswith("STORE_") and each.positions]
    for part in reversed(IDENTIFIER.findall(name)):
        found = [each for each in stores if each.argval == part]
        before = [each for each in found if each.offset < now]
        if found:
            positions = (before or found)[-1].positions
            return positions.lineno if positions else None
    return None
