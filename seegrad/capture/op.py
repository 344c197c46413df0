"""One call of torch: what it means, what was true before it, and what it did to tensors, Nodes, Writes and Frames."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import Any, Literal

import torch

from seegrad.capture.probes import torch_private as _torch
from seegrad.capture.probes.copying import Holder
from seegrad.capture.probes.numbers import PUTS, put_twice
from seegrad.capture.probes.places import LOADING, Source
from seegrad.capture.probes.variables import is_a, tensors_in
from seegrad.capture.state import RecordingState
from seegrad.capture.tables.frames import FrameDraft, Hit, builds_graph
from seegrad.capture.tables.hooks import KINDS as HOOKS
from seegrad.capture.tables.nodes import Birth
from seegrad.capture.training.collected import JOINS
from seegrad.capture.training.settings.axes import RUNS
from seegrad.capture.training.settings.fitted import FITTED
from seegrad.capture.training.settings.modes import ATTENTION, DROPS
from seegrad.capture.training.switches import GRAD_MODE, SWITCHES
from seegrad.model.recording import Clue, Place, RaisedError, Route
from seegrad.words.errors import text_of

VIEW_GETTERS = frozenset({"data", "T", "mT", "H", "mH", "real", "imag"})

# fmt: off
READS = frozenset({
    "size", "dim", "ndimension", "stride", "numel", "nelement", "element_size", "storage_offset", "is_contiguous",
    "is_floating_point", "is_complex", "is_signed", "is_same_size", "__len__", "__bool__", "__float__", "__int__",
    "__index__", "__complex__", "__repr__", "__str__", "__format__", "__hash__", "__dir__", "item", "tolist",
    "get_device", "has_names", "_is_view", "_use_count",
    "is_grad_enabled", "is_tensor", "is_inference", "is_shared", "is_pinned", "manual_seed",
    "__reduce_ex__", "__setstate__", "is_nonzero", "get_default_dtype", "set_default_dtype",
})
# fmt: on
"""Calls that make no tensor of the program and write nothing: passed straight on."""

# fmt: off
SILENT = frozenset({
    "size", "dim", "ndim", "shape", "numel", "stride", "dtype", "device", "layout", "requires_grad", "is_contiguous",
    "is_floating_point", "is_complex", "is_nested", "is_cuda", "is_cpu", "is_sparse", "is_quantized", "is_meta",
    "is_grad_enabled", "__len__",
})
# fmt: on
"""Of these the calls that never warn: nobody asks who has made them."""

COPY = "__deepcopy__"
"""Like those, but torch refuses a tensor that was computed."""

ESCAPES = frozenset({"numpy", "__array__", "untyped_storage", "storage", "_typed_storage", "data_ptr", "__dlpack__"})
"""Calls that give the bytes to someone who writes without a version counter."""

NOT_WRITES = frozenset({"requires_grad_", "detach_", "share_memory_", "rename_", "names_", "apply_grad_"})
INPLACE_OPERATORS = frozenset(
    f"__i{name}__"
    for name in (
        "add",
        "sub",
        "mul",
        "truediv",
        "div",
        "floordiv",
        "mod",
        "pow",
        "and",
        "or",
        "xor",
        "lshift",
        "rshift",
    )
)
NORMALISES = "batch_norm"
RUNNING_STATISTICS = {NORMALISES: (1, 2), "instance_norm": (1, 2)}
"""Arguments that these ops write without moving the version: torch's schema doesn't say so."""

HIDDEN_WRITERS = frozenset({"embedding", "embedding_bag", "set data"})
"""Ops that write an argument although their name doesn't end in an underscore."""

ROUTES: dict[str, Route] = {"data": "data", "detach": "detach", "detach_": "detach"}
EMPTY = frozenset({"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"})
"""Ops whose result holds whatever was in memory: not shown, it differs from run to run."""


# -- what it means: its name, its tensors, what it may write

CallKind = Literal["read", "copy", "escape", "backward", "gradient", "clear", "leaf", "hook", "mode", "told", "op"]


@dataclass(frozen=True, slots=True)
class Call:
    """A function of torch as the recorder sees it: known by its name."""

    name: str
    kind: CallKind
    inplace: bool = False  # the name says that it writes
    writes: bool = False  # it may write an argument that isn't called `out`
    foreign: bool = False  # not torch's own: nobody knows what it writes
    silent: bool = False  # it never warns
    fused: bool = field(default=False, repr=False)  # it writes its first arguments and never moves a version


def call_of(function: Callable[..., Any]) -> Call:
    """What the recorder makes of a function.

    >>> call_of(torch.Tensor.size).kind, call_of(torch.Tensor.numpy).kind, call_of(torch.Tensor.add_)
    ('read', 'escape', Call(name='add_', kind='op', inplace=True, writes=True, foreign=False, silent=False))
    """
    name, is_property = name_of(function)
    if is_property and name == "grad":
        return Call(name, "gradient")
    if is_property and name == "set grad":
        return Call(name, "clear")
    if name == COPY:
        return Call(name, "copy")
    if is_property and name == "is_leaf":
        return Call(name, "leaf")
    if is_read(name, is_property):
        return Call(name, "read", silent=name in SILENT and not hasattr(function, "__code__"))
    if name == GRAD_MODE:
        return Call(name, "mode")
    if name in SWITCHES or name in JOINS:
        return Call(name, "told")
    if name in ESCAPES:
        return Call(name, "escape")
    if name in HOOKS:
        return Call(name, "hook")
    if function in _torch.BACKWARD_CALLS:
        return Call(name, "backward")
    inplace = is_inplace(name)
    writes = inplace or name in RUNNING_STATISTICS or name in HIDDEN_WRITERS
    return Call(name, "op", inplace, writes, _torch.is_foreign(function), fused=always_writes(name))


def name_of(function: Callable[..., Any]) -> tuple[str, bool]:
    """(name, is it a property getter or setter): `mul`, `detach`, `data` …

    >>> name_of(torch.Tensor.data.__get__), name_of(torch.Tensor.__rsub__), name_of(torch.mm)
    (('data', True), ('rsub', False), ('mm', False))
    """
    name = str(getattr(function, "__name__", function))
    if name in ("__get__", "__set__", "__delete__"):
        owner = getattr(function, "__self__", None)
        inner = str(getattr(owner, "__name__", None) or getattr(getattr(owner, "fget", None), "__name__", ""))
        return (f"set {inner}" if name == "__set__" else inner), True
    if name.startswith("__r") and name.endswith("__") and name not in READS:
        return name[2:-2], False
    return name.partition(".")[0], False


def is_read(name: str, is_property: bool) -> bool:
    """True for a call that the recorder needn't look at.

    A private attribute is set by torch itself, and maybe while it holds the lock that every look at the tensor's Node
    takes: a view whose base was written gets its hooks so.

    >>> is_read("shape", True), is_read("set data", True), is_read("set _backward_hooks", True)
    (True, False, True)
    """
    if not is_property:
        return name in READS
    return name not in VIEW_GETTERS and (not name.startswith("set ") or name.startswith("set _"))


def is_inplace(name: str) -> bool:
    """True for an op whose name says that it writes its first argument.

    >>> [is_inplace(name) for name in ("zero_", "__setitem__", "mul", "requires_grad_")]
    [True, True, False, False]
    """
    if name in NOT_WRITES:
        return False
    return name == "__setitem__" or name in INPLACE_OPERATORS or (name.endswith("_") and not name.endswith("__"))


def may_write(call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    """The tensors that the call may write, as far as its name and arguments tell."""
    name, found = call.name, [kwargs.get("out")]
    if call.inplace:
        positions: Iterable[int] = _torch.written_arguments(name) or (0,)
        found += [args[i] for i in positions if i < len(args)] or list(kwargs.values())[:1]
    elif name in RUNNING_STATISTICS:
        found += [args[i] for i in RUNNING_STATISTICS[name] if i < len(args)]
        found += [kwargs.get("running_mean"), kwargs.get("running_var")]
    elif name in ("embedding", "embedding_bag"):
        found += [*args[1:2], kwargs.get("weight")]
    elif name == "set data":
        found += args[:1]
    return tensors_in(found)


def region(name: str, args: tuple[Any, ...]) -> tuple[int, int] | None:
    """Bytes that `x[index] = …` writes, where the index is plain (numbers, slices, …)."""
    if name != "__setitem__" or len(args) < 2:
        return None
    index = args[1] if type(args[1]) is tuple else (args[1],)
    if not all(
        type(each) in (int, slice) or each in (Ellipsis, None) for each in index if not is_a(each, torch.Tensor)
    ):
        return None
    if any(is_a(each, torch.Tensor) for each in index) or args[0].layout is not torch.strided:
        return None
    try:
        return _torch.span(args[0].detach()[index])
    except IndexError:
        return None


def may_have_node(tensor: torch.Tensor) -> bool:
    """False where no Node can have made the tensor; asks nothing of a view, which torch would have to find out."""
    return tensor.requires_grad and (_torch.is_view(tensor) or not tensor.is_leaf)


INNER = frozenset({"<listcomp>", "<genexpr>", "<setcomp>", "<dictcomp>"})
"""Parts of a line that have frames of their own, the lists until Python 3.12."""


def taken_on(source: Source, frames: Sequence[FrameType]) -> Place | None:
    """Where the user's line returns what it makes, as a lambda's does, the line that called its function for that."""
    at = len(frames) - 1
    while at > 0 and frames[at].f_code.co_name in INNER:
        at -= 1
    place = source.place(frames[at]) if at > 0 else None
    returns = frames[at].f_code.co_name == "<lambda>" or (place is not None and place.code.startswith("return "))
    return source.place(frames[at - 1]) if place is not None and returns else None


def always_writes(name: str) -> bool:
    """True for the ops that write their first arguments and never move a version: fused optimisers."""
    return name.startswith("_fused_") and name.endswith("_")


# -- what it does


MADE_BY_MODULES = frozenset(
    {"softmax", "sigmoid", "relu", "relu6", "tanh", "softplus", "log_softmax", "logsigmoid", "nll_loss", "kl_div"}
    | RUNS
)
"""Ops that may be a module's, whose building is of interest beside the line that calls it."""


class Op:
    """Looks before the call when it's made; then `done` or `failed` says how the call ended.

    `frame` makes the call; `way` leads there from the block: the user's frames, and the innermost call of a module.
    """

    # fmt: off
    __slots__ = (
        "_applied", "_built", "_call", "_drop", "_graph", "_inputs", "_module", "_numbers", "_option", "_runs",
        "_span", "_state", "_storages", "_tables", "_taken", "_targets", "_twice", "_user", "_versions",
    )
    # fmt: on

    def __init__(
        self,
        state: RecordingState,
        call: Call,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        frame: FrameType,
        way: tuple[list[FrameType], FrameType | None],
    ) -> None:
        frames, called = way
        module = None if called is not None and called.f_code.co_filename == LOADING else called
        user = frames[-1] if frames else None
        self._state, self._call, self._user = state, call, user
        self._tables = tables = state.tables
        self._option = kwargs.get("inplace") is True
        self._inputs = inputs = tensors_in((*args, *kwargs.values()))
        self._targets = may_write(call, args, kwargs) if call.writes or "out" in kwargs else []
        self._graph = graph = builds_graph()
        self._versions = list(map(_torch.version, inputs))
        drafts = list(map(tables.tensors.draft, inputs))
        late, unmet = [], []
        for tensor, draft, version in zip(inputs, drafts, self._versions, strict=True):
            if draft is None:
                unmet.append(tensor)
            elif draft.settled == version:
                if draft.source is not None or not draft.may_be_late(version):
                    continue
            elif draft.shape != _torch.shape(tensor):
                tables.tensors.reshaped(draft, tensor)
            if graph and may_have_node(tensor):
                late.append(tensor)
        strange = bool(unmet) and any(map(tables.tensors.is_new, unmet))
        state.new_event(user, frames=frames, direct=user is frame, deep=strange)
        self._module = state.module(called)  # after the event: its names are known now
        self._built: Place | None = None
        if (self._option or call.name in MADE_BY_MODULES) and module is not None and user is not None:
            self._built = state.switches.built.line(module, user, self._module)
        self._runs = module if graph and call.name in RUNS else None
        may_drop = call.name in DROPS or call.name == ATTENTION
        self._drop = state.switches.modes.dropping(call.name, args, kwargs, module, user) if may_drop else None
        self._taken = taken_on(state.source, frames)
        self._applied = self._applying(frame) if not self._graph and _torch.may_apply() else None
        if late:
            state.meet_late(late)
        if unmet:
            state.meet_wrapped(unmet, user)
        self._numbers = tuple([state.meet(t) if d is None else d.id for t, d in zip(inputs, drafts, strict=True)])
        if state.extremes is not None:
            state.extremes.before(inputs, self._numbers)
        self._twice = put_twice(call.name, args, kwargs) if graph and call.name in PUTS else 0
        self._storages: list[int] = []
        self._span: tuple[int, int] | None = None
        if call.foreign and tables.saved.every:
            self._targets = [*self._targets, *inputs]
        if call.writes:
            self._look_at_targets(args)
        if call.name == NORMALISES and module is not None:
            state.switches.averaged.normalises(module.f_locals["self"], module)

    def _applying(self, frame: FrameType | None) -> Place | None:
        """The user's line that called the custom Function in whose forward this call is made, where it's in one."""
        while frame is not None and frame is not self._user:
            if _torch.applied(frame):
                return self._place()
            frame = frame.f_back
        return self._state.applying

    def _look_at_targets(self, args: tuple[Any, ...]) -> None:
        """Remember the bytes that the call may overwrite, and the storages that it may exchange."""
        number = self._tables.tensors.storage_number
        self._storages = [number(tensor) for tensor in self._inputs]
        self._span = region(self._call.name, args)
        for tensor in self._targets:
            self._tables.saved.keep(number(tensor))

    # -- after the call

    def done(self, result: Any) -> None:
        """The call returned: what was written, made, saved."""
        tables, name = self._tables, self._call.name
        if name.startswith("set "):  # `x.requires_grad = True`: what is known of x has changed
            for tensor in self._inputs:
                tables.number(tensor)
        outputs = tensors_in(result)
        written = self._written()
        if self._call.foreign and tables.saved.every:
            self._state.ask_after(name, inputs=self._inputs, user=self._user)
        if not (outputs or written or self._storages):
            return
        frame = tables.frames.new("inplace" if written else "forward", name, self._place())
        frame.inputs = self._numbers
        if self._module:
            frame.module = self._module
            frame.built = self._built
        if self._applied is not None:
            frame.applied = self._applied
        frame.taken = self._taken
        if not self._graph:
            frame.off = self._state.switches.off(self._user)
        for tensor in written:
            self._write(frame, tensor)
        if self._storages:
            self._rebind(frame)
        if frame.writes:
            self._state.switches.averaged.wrote(frame)
        if name in RUNNING_STATISTICS:
            self._show_again(frame, [each for each in self._targets if not any(each is tensor for tensor in written)])
        if name in EMPTY:
            tables.tensors.uninitialised.update(map(tables.tensors.storage_number, outputs))
        frame.outputs = tuple([self._output(frame, tensor) for tensor in outputs])
        if self._drop is not None:
            self._state.switches.modes.dropped(self._drop, frame.index, self._numbers[:1])
        if self._state.extremes is not None:
            self._state.extremes.after(frame.index, [*outputs, *written])
        if self._graph:
            self._walk(frame, outputs, written)
            if name in FITTED:
                self._state.switches.fitted.met(frame, self._inputs)
            if self._runs is not None:
                self._state.switches.axes.met(frame, self._runs, self._inputs)
        if self._twice and frame.place is not None:
            count = (("count", str(self._twice)),)
            tables.clues.append(Clue("twice", frame.index, frame.place, self._numbers[-1:], count))
        if not (outputs or frame.writes or frame.nodes):
            tables.frames.drop_last()

    def _place(self) -> Place | None:
        return self._state.source.place(self._user)

    def _walk(self, frame: FrameDraft, outputs: list[torch.Tensor], written: list[torch.Tensor]) -> None:
        """Meet the Nodes that the call made."""
        made, changed = outputs, written
        if written:
            changed = [*written, *(base for tensor in written if (base := _torch.base(tensor)) is not None)]
            made = [*outputs, *(t for t in changed if not any(t is output for output in outputs))]
        settled = self._tables.tensors.is_settled
        graph = [tensor for tensor in made if tensor.requires_grad and settled(tensor)]
        if graph:
            frame.nodes = self._tables.nodes.walk(graph, Birth(frame.index, self._call.name, self._numbers, changed))
            asked = [tensor for tensor in self._inputs if _torch.is_view(tensor) and tensor.requires_grad]
            asked = [tensor for tensor in asked if not settled(tensor)]
            if asked:
                self._settle(frame, asked)

    def _settle(self, frame: FrameDraft, asked: Sequence[torch.Tensor]) -> None:
        """Views whose base was written have got a new Node by this call, if it had to ask who made them."""
        tensors, drafts = self._tables.tensors, self._tables.nodes.drafts
        for base in {id(base): base for tensor in asked if (base := _torch.base(tensor)) is not None}.values():
            views = [tensor for tensor in asked if _torch.base(tensor) is base]
            source = self._tables.source(base)
            new = [n for n in frame.nodes if not drafts[n].outputs and source in [each[1:] for each in drafts[n].edges]]
            if len(new) == len(views):
                self._tables.nodes.walk(views, Birth(frame.index, "", ()))
                for view in views:
                    draft = tensors.draft(view)
                    if draft is not None and draft.source is not None and draft.source[0] in new:
                        drafts[draft.source[0]].outputs = (draft.id,)
                        tensors.show(frame, draft.id, view)

    def _written(self) -> list[torch.Tensor]:
        """The tensors that the call wrote: those it names, then one for each other counter that moved."""
        now = list(map(_torch.version, self._inputs))
        if not self._targets and now == self._versions:
            return []
        versions = zip(self._inputs, self._versions, now, strict=True)
        moved = [tensor for tensor, before, after in versions if before is not None and after != before]
        found: list[torch.Tensor] = []
        for tensor in self._targets:
            shows = any(tensor is t for t in moved) or self._call.fused
            if (shows or _torch.version(tensor) is None or self._hit(tensor)) and not any(tensor is t for t in found):
                found.append(tensor)
        if len(moved) == len(found) == 1 and moved[0] is found[0]:
            return found
        counters = {self._tables.tensors.counter(tensor) for tensor in found}
        for tensor in moved:
            counter = self._tables.tensors.counter(tensor)
            if counter not in counters:
                counters.add(counter)
                found.append(tensor)
        return found

    def _hit(self, tensor: torch.Tensor) -> bool:
        return self._tables.saved.differs(self._tables.tensors.storage_number(tensor))

    def _write(self, frame: FrameDraft, tensor: torch.Tensor) -> None:
        position = next((i for i, each in enumerate(self._inputs) if each is tensor), None)
        version = self._versions[position] if position is not None else None
        part = self._span is not None and bool(self._targets) and tensor is self._targets[0]
        span = self._span if part and self._span is not None else _torch.span(tensor)
        tensors = self._tables.tensors
        see = tensors.made if self._graph else tensors.see
        number, storage = see(tensor, frame.index), tensors.storage_number(tensor)
        op = f"{self._call.name}(inplace=True)" if self._option else self._call.name
        self._state.write(frame, Hit(number, storage, span, op, (version, _torch.version(tensor))))
        self._state.uses.written(frame, tensor)

    def _rebind(self, frame: FrameDraft) -> None:
        """`x.data = y`, `set_`: the tensor left its storage, and whoever saved it sees the new one."""
        tensors = self._tables.tensors
        for tensor, storage, version in zip(self._inputs, self._storages, self._versions, strict=True):
            number = tensors.see(tensor, frame.index)
            if tensors.storage_number(tensor) == storage:
                continue
            span = tensors.rebound(number, tensor)
            now = _torch.version(tensor)
            self._state.write(frame, Hit(number, storage, span, self._call.name, (version, now)))
            self._tables.tensors.show(frame, number, tensor)
            frame.phase = "inplace"

    def _show_again(self, frame: FrameDraft, tensors: list[torch.Tensor]) -> None:
        """Their numbers may have changed inside the call although their versions stand."""
        tables = self._tables.tensors
        for tensor in tensors:
            tables.show(frame, tables.see(tensor, frame.index), tensor)

    def _output(self, frame: FrameDraft, tensor: torch.Tensor) -> int:
        tensors = self._tables.tensors
        if tensors.draft(tensor) is not None:
            return tensors.see(tensor, frame.index)
        route = ROUTES.get(self._call.name, "view")
        number = tensors.describe(tensor, frame.index, self._numbers, route, made=True).id
        tensors.show(frame, number, tensor)
        return number

    def failed(self, error: BaseException, held: Holder | None = None) -> None:
        """The call raised; `held`: a copy, of what an attribute holds."""
        self._state.last_look(self._user)
        frame = self._tables.frames.new("error", self._call.name, self._place())
        frame.inputs, frame.built = self._numbers, self._built
        said = RaisedError(type(error).__name__, text_of(error), frame.place, frame.index)
        self._state.refused(error, self._user)
        if held is not None:
            said = replace(said, held=held.name, among=held.collection, held_on=held.place)
        self._tables.raised(said)
