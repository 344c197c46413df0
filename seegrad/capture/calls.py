"""What a call of torch means to the recorder: its name, its tensors, what it may write; a backward call too."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import torch

from seegrad.capture.probes import torch_private as _torch
from seegrad.capture.probes.variables import is_a, tensors_in
from seegrad.capture.tables.hooks import KINDS as HOOKS

VIEW_GETTERS = frozenset({"data", "T", "mT", "H", "mH", "real", "imag"})

# fmt: off
READS = frozenset({
    "size", "dim", "ndimension", "stride", "numel", "nelement", "element_size", "storage_offset", "is_contiguous",
    "is_floating_point", "is_complex", "is_signed", "is_same_size", "__len__", "__bool__", "__float__", "__int__",
    "__index__", "__complex__", "__repr__", "__str__", "__format__", "__hash__", "__dir__", "item", "tolist",
    "get_device", "has_names", "_is_view",
    "_set_grad_enabled", "is_grad_enabled", "is_tensor", "is_inference", "is_shared", "is_pinned", "manual_seed",
    "__deepcopy__", "__reduce_ex__", "__setstate__", "is_nonzero", "get_default_dtype", "set_default_dtype",
})
# fmt: on
"""Calls that make no tensor of the program and write nothing: passed straight on."""

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
RUNNING_STATISTICS = {"batch_norm": (1, 2), "instance_norm": (1, 2)}
"""Arguments that these ops write without moving the version: torch's schema doesn't say so."""

HIDDEN_WRITERS = frozenset({"embedding", "embedding_bag", "set data"})
"""Ops that write an argument although their name doesn't end in an underscore."""


CallKind = Literal["read", "escape", "backward", "gradient", "hook", "op"]


@dataclass(frozen=True, slots=True)
class Call:
    """A function of torch as the recorder sees it: known by its name."""

    name: str
    kind: CallKind
    inplace: bool = False  # the name says that it writes
    writes: bool = False  # it may write an argument that isn't called `out`


def call_of(function: Callable[..., Any]) -> Call:
    """What the recorder makes of a function.

    >>> call_of(torch.Tensor.size).kind, call_of(torch.Tensor.numpy).kind, call_of(torch.Tensor.add_)
    ('read', 'escape', Call(name='add_', kind='op', inplace=True, writes=True))
    """
    name, is_property = name_of(function)
    if is_property and name == "grad":
        return Call(name, "gradient")
    if is_read(name, is_property):
        return Call(name, "read")
    if name in ESCAPES:
        return Call(name, "escape")
    if name in HOOKS:
        return Call(name, "hook")
    if function in _torch.BACKWARD_CALLS:
        return Call(name, "backward")
    inplace = is_inplace(name)
    return Call(name, "op", inplace, inplace or name in RUNNING_STATISTICS or name in HIDDEN_WRITERS)


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
    return name, False


def is_read(name: str, is_property: bool) -> bool:
    """True for a call that the recorder needn't look at."""
    return name not in VIEW_GETTERS and not name.startswith("set ") if is_property else name in READS


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


def always_writes(name: str) -> bool:
    """True for the ops that write their first arguments and never move a version: fused optimisers."""
    return name.startswith("_fused_") and name.endswith("_")


GIVEN = {"backward": 1, "grad": 2}
"""Position of the gradients to start with."""

RETAIN = {"backward": 2, "grad": 3}
"""Position of `retain_graph` among the arguments; `create_graph` follows it."""


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
