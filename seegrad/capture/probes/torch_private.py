"""The only file that touches private parts of torch. Each probe says what it does and where it was seen to work.

Seen on torch 2.9, 2.10, 2.11, 2.13 and 2.15 (CPU), where nothing else is said. Where a probe is missing or fails, the
caller gets None or a plain value, never an AttributeError: a torch that has changed makes the Recording poorer, not the
user's program wrong.
"""

from __future__ import annotations

import contextlib
import re
import warnings
import weakref
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import cache
from operator import attrgetter, methodcaller
from types import CodeType, FrameType
from typing import Any

import torch

TRIED = ("2.9", "2.11", "2.13", "2.15")
"""The versions that `make test-torch` runs all tests of the library on."""

_SAVED: Any = getattr(torch._C._autograd, "SavedTensor", object)

READS_SAVED = hasattr(_SAVED, "data") and hasattr(_SAVED, "unpack_hook")
"""Seen on 2.10 to 2.15, not on 2.9: what a Node keeps can be read without torch's check and without calling a hook."""

BACKWARD_CALLS = frozenset({torch.Tensor.backward, torch.autograd.backward, torch.autograd.grad})

MODULE_CALL: CodeType | None = getattr(getattr(torch.nn.Module, "_call_impl", None), "__code__", None)
"""Every call of a module passes through this code."""


def tell_of_this_torch() -> None:
    """Say once what is to be known of this torch, in warnings; never an error, whatever the filters say."""
    if not READS_SAVED:
        _warn(
            f"seegrad sees less on torch {torch.__version__} (no SavedTensor.data, new in 2.10): a result that "
            "the graph alone still holds isn't watched, so some causes are not named."
        )
    *tried, this = (tuple(map(int, each.split(".")[:2])) for each in (*TRIED, torch.__version__))
    if not tried[0] <= this <= tried[-1]:
        _warn(
            f"seegrad was tried on torch {TRIED[0]} to {TRIED[-1]}, not on {torch.__version__}: it may miss something."
        )


def _warn(text: str) -> None:
    with contextlib.suppress(Warning):
        warnings.warn(text, RuntimeWarning, stacklevel=3)


tell_of_this_torch()


def bypassed() -> bool:
    """True while a call must not be looked at: inside vmap or grad, whose tensors have no storage; among symbols."""
    try:
        return torch._C._functorch.maybe_current_level() is not None or _sizes_are_symbols()
    except AttributeError:
        return False


def _sizes_are_symbols() -> bool:
    """True where `torch.export` stands in for sizes: to read one there is to decide it. Seen on 2.9 to 2.15."""
    if not torch._C._len_torch_dispatch_stack():
        return False
    fake = torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE)
    return getattr(fake, "shape_env", None) is not None


def unseen() -> AbstractContextManager[Any]:
    """A guard under which nobody sees what is read: no mode, no subclass of Tensor, no tracer. Seen on 2.9 to 2.15.

    Switching dispatch modes off costs ten times as much, so that is done only where one is on; the tracer likewise.
    """
    guard: AbstractContextManager[Any] = torch._C.DisableTorchFunction()
    tracing: Any = torch._C._get_tracing_state()
    if tracing is None and not torch._C._len_torch_dispatch_stack():
        return guard
    both = contextlib.ExitStack()
    if tracing is not None:
        both.callback(torch._C._set_tracing_state, tracing)  # type: ignore[attr-defined]  # not among torch's types
        torch._C._set_tracing_state(None)  # type: ignore[attr-defined]  # as above
    both.enter_context(guard)
    both.enter_context(torch._C._DisableTorchDispatch())
    return both


def is_opaque(tensor: torch.Tensor) -> bool:
    """True for a tensor without bytes of its own: a shell around others (fake, nested …), a parameter not made yet."""
    kind = type(tensor)
    if kind is torch.Tensor or kind is torch.nn.Parameter:
        return False
    return kind.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__ or kind.shape is not torch.Tensor.shape


_SHAPE: Callable[[torch.Tensor], Any] = torch.Tensor.shape.__get__  # type: ignore[attr-defined]  # a getter

RAGGED = -1
"""A side that has no one length: of a nested tensor, or a symbol's."""


def shape(tensor: torch.Tensor) -> tuple[int, ...]:
    """`tensor.shape` in plain numbers, also of one that refuses to tell: a parameter not made yet, a nested tensor."""
    try:
        found = tuple(_SHAPE(tensor))
    except RuntimeError:
        return tuple([_side(tensor, i) for i in range(tensor.dim())])
    if tensor.is_meta or is_opaque(tensor):  # no other has symbols: they can't be hashed, and remember each question
        return tuple([side if type(side) is int else RAGGED for side in found])
    return found


def _side(tensor: torch.Tensor, position: int) -> int:
    try:
        return tensor.size(position)
    except RuntimeError:
        return RAGGED


_push: Any = torch.overrides._push_mode
_pop: Any = torch.overrides._pop_mode


def enter_below(mode: torch.overrides.TorchFunctionMode) -> None:
    """Put a mode under all that are on in this thread: whoever ends one of these ends the right one."""
    others = [_pop() for _ in range(torch._C._len_torch_function_stack())]
    for each in (mode, *reversed(others)):
        _push(each)


def is_on(mode: torch.overrides.TorchFunctionMode) -> bool:
    """True where a mode sees this thread's calls: none does while it is told of one, a backward's hooks included."""
    return any(mode is torch._C._get_function_stack_at(i) for i in range(torch._C._len_torch_function_stack()))


def leave(mode: torch.overrides.TorchFunctionMode) -> None:
    """Take a mode off, wherever it stands; nothing where this thread hasn't got it."""
    for each in reversed([_pop() for _ in range(torch._C._len_torch_function_stack())]):
        if each is not mode:
            _push(each)


def task_number() -> int:
    """Number of the engine's run that this thread is working on. Seen on 2.9 to 2.15; 0 where there is none."""
    return int(getattr(torch._C, "_current_graph_task_id", int)())


_STORAGE: Any = torch._C.StorageBase  # seen on 2.9 to 2.15: what torch.multiprocessing's StorageWeakRef asks by detours

is_gone: Callable[[int], bool] = _STORAGE._expired
"""Is the storage gone that this weak address is of?"""

let_go: Callable[[int], None] = _STORAGE._free_weak_ref
"""Its address may be used again."""


weak_address: Callable[[torch.UntypedStorage], int] = methodcaller("_weak_ref")
"""The storage's address, which nobody else gets until `let_go`, although the storage may go."""


_FIX = getattr(torch.Tensor, "_fix_weakref", None)  # seen on 2.9 to 2.15: torch.utils.weak does it to what it gets back


class WeakTensor(weakref.ref[torch.Tensor]):
    """A weak reference to a tensor: one object, where torch's own TensorWeakRef is two."""

    __slots__ = ()

    def __call__(self) -> torch.Tensor | None:
        """The tensor as torch.utils.weak gives it back, None when it is gone."""
        tensor = weakref.ref.__call__(self)
        if tensor is not None and _FIX is not None:
            _FIX(tensor)
        return tensor


GONE = WeakTensor(torch.empty(0))
"""A reference to nothing."""


_address_of_data: Callable[[torch.Tensor], int] = torch._C._data_address  # type: ignore[attr-defined]  # not among its types
address: Callable[[torch.Tensor | torch.UntypedStorage], int] = attrgetter("_cdata")
"""Address of a tensor's or a storage's body; meaningful only beside a weak reference that proves it's the same one."""

features: Callable[[torch.Tensor], tuple[Any, ...]] = attrgetter(
    "_cdata", "_version", "requires_grad", "dtype", "device", "shape", "nbytes", "is_nested"
)
"""What a tensor is, read at one go; raises RuntimeError where torch refuses one of them."""

is_view: Callable[[torch.Tensor], bool] = torch.Tensor._is_view
"""True where autograd knows the tensor as a view of another."""


def storage(tensor: torch.Tensor) -> torch.UntypedStorage | None:
    """The tensor's storage, None for layouts without one (sparse, …)."""
    try:
        return tensor.untyped_storage()
    except (RuntimeError, NotImplementedError):
        return None


def storage_key(tensor: torch.Tensor) -> int | None:
    """Address of the storage's body, None for layouts without one (sparse, …)."""
    found = storage(tensor)
    return None if found is None else address(found)


def version(tensor: torch.Tensor) -> int | None:
    """The version counter, None for an inference tensor."""
    try:
        return tensor._version
    except RuntimeError:
        return None


def span(tensor: torch.Tensor) -> tuple[int, int]:
    """Bytes of its storage that a tensor may touch: start, stop. Empty for no elements, and where they're symbols."""
    if tensor.layout is not torch.strided or tensor.is_nested:
        return (0, 0)
    try:
        size, offset = tensor.nbytes, tensor.storage_offset()
    except RuntimeError:  # symbols
        return (0, 0)
    if type(size) is not int or type(offset) is not int or not size:
        return (0, 0)
    start = offset * tensor.element_size()
    if tensor.is_contiguous():
        return start, start + size
    steps = zip(shape(tensor), tensor.stride(), strict=True)
    return start, start + (sum([(int(n) - 1) * int(stride) for n, stride in steps]) + 1) * tensor.element_size()


def is_freed(tensor: torch.Tensor) -> bool:
    """True where the storage holds nothing: FSDP frees what it has gathered (`resize_(0)`).

    Reading such a tensor ends the process, and so does reading zeros that were never written down, as forward mode has
    them. The storage itself isn't asked: one that Python has seen isn't added to in place when gradients come together.
    """
    try:
        start = tensor.storage_offset() * tensor.element_size()
        return tensor._is_zerotensor() or (tensor.numel() > 0 and _address_of_data(tensor) == start)
    except (RuntimeError, NotImplementedError):
        return True


def is_readable(tensor: torch.Tensor) -> bool:
    """True where a tensor's numbers can be read at once: on the CPU."""
    return tensor.device.type == "cpu" and has_numbers(tensor)


def has_numbers(tensor: torch.Tensor) -> bool:
    """True where a tensor has numbers: in plain rows, its own, and there."""
    if is_opaque(tensor) or tensor.layout is not torch.strided or tensor.is_meta or tensor.is_nested:
        return False
    return not is_freed(tensor)


def grad_fn(tensor: torch.Tensor) -> Any | None:
    """`tensor.grad_fn`, None where torch refuses to tell (a view made under no_grad whose base was written)."""
    if not tensor.requires_grad:
        return None
    try:
        return tensor.grad_fn
    except RuntimeError:
        return None


def grad_fns(tensors: Sequence[torch.Tensor]) -> list[Any]:
    """The Nodes that made the tensors, without the leaves."""
    return [node for tensor in tensors if (node := grad_fn(tensor)) is not None]


NO_NUMBER = 2**64 - 1
"""What an AccumulateGrad answers when it's asked for its number."""


def is_leaf(tensor: torch.Tensor) -> bool:
    """`tensor.is_leaf`; True where torch refuses to tell (see `grad_fn`)."""
    try:
        return tensor.is_leaf
    except RuntimeError:
        return True


node_number: Callable[[Any], int] = methodcaller("_sequence_nr")
"""Number that torch gave the Node at its birth; unique in a thread, except for AccumulateGrad."""


_ATTRIBUTES: dict[type, tuple[tuple[str, str], ...]] = {}
"""(slot, attribute) of each kind of torch's own Nodes. A custom Function's is made with it, and must die with it."""

_CUSTOM = (("_raw_saved_tensors", "tensors"),)


def saved_slots(node: Any) -> tuple[tuple[str, str], ...]:
    """(slot, attribute) for each place where a Node of that kind keeps something."""
    kind = type(node)
    names = _ATTRIBUTES.get(kind)
    if names is None:
        if is_custom(node):
            return _CUSTOM
        found = [name for name in dir(kind) if name.startswith("_raw_saved_")]
        names = _ATTRIBUTES[kind] = tuple([(name, name.removeprefix("_raw_saved_")) for name in found])
    return names


def saved_tensors(node: Any, slots: Sequence[tuple[str, str]]) -> Iterator[tuple[str, torch.Tensor, Any]]:
    """(attribute, tensor without version check, torch's SavedTensor) for all that a Node keeps in these slots.

    None instead of a SavedTensor: a hook keeps the tensor and torch doesn't check it. A hook that packs something else
    than a tensor or a tuple with one (offloading) keeps nothing of the program.
    The SavedTensor points into the Node: use it now, never keep it.
    """
    for slot, attribute in slots:
        held: Any = getattr(node, slot, None)
        if READS_SAVED and type(held) is _SAVED and held.unpack_hook is None:
            data = held.data
            if isinstance(data, torch.Tensor):
                yield attribute, data, held
            continue
        if isinstance(held, tuple | list):
            parts = [(f"{attribute}[{index}]", each) for index, each in enumerate(held)]
        else:
            parts = [(attribute, held)]
        for attr, saved in parts:
            if saved is None:
                continue
            if getattr(saved, "unpack_hook", None) is not None:
                packed = saved.data if READS_SAVED else None
                for part in packed if type(packed) is tuple else (packed,):
                    if isinstance(part, torch.Tensor):
                        yield attribute, part, None
                continue
            data = saved.data if READS_SAVED else _checked(node, attr)
            if isinstance(data, torch.Tensor):
                yield attr, data, saved


def _checked(node: Any, attr: str) -> Any:
    """What a Node keeps, through torch's own check; None where that fails, or where it would call someone's hook."""
    with contextlib.suppress(RuntimeError):
        return _unpacked(node, attr) if packs() is None else None
    return None


def packs() -> Any:
    """What is called with each tensor that a Node saves now; None where nothing is."""
    hooks: Any = torch._C._autograd._top_saved_tensors_default_hooks(False)
    return hooks and hooks[0]


def _unpacked(node: Any, attr: str) -> Any:
    """`node._saved_self` for `self`, `node._saved_tensors[1]` for `tensors[1]`. Raises what torch raises."""
    name, _, index = attr.rstrip("]").partition("[")
    own = name == "tensors" and hasattr(node, "saved_tensors")
    found = node.saved_tensors if own else getattr(node, f"_saved_{name}")
    return found[int(index)] if index else found


APPLY: CodeType | None = getattr(getattr(torch.autograd.Function.apply, "__func__", None), "__code__", None)
"""The code that runs a custom Function's forward; None on 2.15, where it's written in C and leaves no frame."""


def may_apply() -> bool:
    """False where no custom Function's forward runs: torch turns both kinds of gradients off. Seen on 2.9 to 2.15."""
    return not torch.is_grad_enabled() and not torch._C._is_fwd_grad_enabled()


def applied(frame: FrameType) -> bool:
    """True for the outermost frame of a custom Function that is applied: apply's own, on 2.15 the forward's."""
    return frame.f_code is APPLY if APPLY is not None else frame.f_code in _forwards()


def _forwards() -> Iterator[CodeType | None]:
    """The code of every custom Function's forward."""
    waiting = torch.autograd.Function.__subclasses__()
    while waiting:
        function: Any = waiting.pop()
        waiting += function.__subclasses__()
        for method in (function.forward, function.setup_context):
            yield getattr(method, "__code__", None)


def is_of_apply(frame: FrameType, args: Sequence[Any]) -> bool:
    """True for a `view_as` that is apply's own: where a forward returns its input, apply makes a view of it."""
    if APPLY is not None:
        return frame.f_code is APPLY
    return len(args) > 1 and args[0] is args[1] and may_apply() and not applied(frame)


def anomaly_stack(node: Any) -> list[str]:
    """Where the Node was made, as anomaly mode keeps and prints it."""
    return node.metadata.get("traceback_", [])  # type: ignore[no-any-return]  # torch keeps a list of lines there


def keep_along(node: Any, held: Any) -> None:
    """Let what is held die with the Node. Seen on 2.9 to 2.15: torch gives up its Edges first, then its `metadata`."""
    with contextlib.suppress(AttributeError):
        node.metadata["seegrad"] = held


def backward_of(node: Any) -> Any | None:
    """The backward of a Function that was written in Python, of another Node None."""
    return getattr(getattr(node, "_forward_cls", None), "backward", None)


base: Callable[[torch.Tensor], torch.Tensor | None] = attrgetter("_base")
"""The tensor that this one is a view of. Seen on 2.9 to 2.15."""


def hooks_on(tensor: torch.Tensor) -> Collection[Any]:
    """The functions that are given the tensor's gradient. Seen on 2.9 to 2.15."""
    return (getattr(tensor, "_backward_hooks", None) or {}).values()


def hooks_after(leaf: torch.Tensor) -> Collection[Any]:
    """The functions that are given the leaf once its gradient is in `.grad`. Seen on 2.9 to 2.15."""
    return (getattr(leaf, "_post_accumulate_grad_hooks", None) or {}).values()


_BOTH: Callable[[torch.Tensor], Any] = attrgetter("_backward_hooks", "_post_accumulate_grad_hooks")


def has_hooks(tensor: torch.Tensor) -> bool:
    """True where somebody's code runs for the tensor's gradient, of whatever kind. Seen on 2.9 to 2.15."""
    return _BOTH(tensor) != (None, None) and bool(hooks_on(tensor) or hooks_after(tensor))


def function_of(node: Any) -> Any:
    """The Function that was written in Python, whose Node this is; None for another one."""
    return getattr(node, "_forward_cls", None)


def is_custom(node: Any) -> bool:
    """True for the Node of a Function that was written in Python."""
    return isinstance(node, torch.autograd.function.BackwardCFunction)


def is_read(node: Any, attr: str) -> bool:
    """False for what a Node saves although its formula, as it was called, doesn't read it: statistics in training."""
    return not (attr.startswith("running_") and getattr(node, "_saved_training", False) is True)


def axis_of(node: Any) -> int | None:
    """The dimension along which a softmax has normalised; a negative one is 2**64 too large."""
    return getattr(node, "_saved_dim", None)


def version_asked_of_torch(node: Any, attr: str, saved: Any, data: torch.Tensor) -> int | None:
    """The version torch expects, asked through torch's own check; for Nodes that are met after they were made."""
    now = version(data)
    try:
        saved.unpack() if hasattr(saved, "unpack") else _unpacked(node, attr)
    except RuntimeError as error:
        found = re.search(r"is at version (\d+); expected version (\d+)", str(error))
        if found and int(found[1]) == now:
            return int(found[2])
    return now


OWN_OPS = frozenset(
    {"aten", "prim", "prims", "quantized", "mkldnn", "inductor", "c10d", "_c10d_functional", "higher_order"}
)
"""Namespaces of torch's own ops."""


def is_foreign(function: Any) -> bool:
    """True for an op that isn't torch's own: made by `torch.library` or in C++. Seen on 2.9 to 2.15.

    >>> is_foreign(torch.ops.aten.add), is_foreign(torch.add)
    (False, False)
    """
    named = isinstance(function, torch._ops.OpOverload | torch._ops.OpOverloadPacket)
    return named and str(function).partition(".")[0] not in OWN_OPS


def escaped(tensor: torch.Tensor) -> bool:
    """True where the bytes belong to someone else (numpy, a buffer): they may change without torch."""
    try:
        return not tensor.untyped_storage().resizable()
    except (RuntimeError, NotImplementedError, AttributeError):
        return False


@cache
def written_arguments(name: str) -> tuple[int, ...]:
    """Positions of the arguments that torch's schema says the op `name` writes; empty where there's no such op.

    >>> written_arguments("zero_"), written_arguments("sigmoid")
    ((0,), ())
    """
    packet = getattr(torch.ops.aten, name, None) if name.isidentifier() and not name.startswith("__") else None
    overload = getattr(packet, packet.overloads()[0]) if packet is not None else None
    arguments = overload._schema.arguments if overload is not None else ()
    return tuple(i for i, each in enumerate(arguments) if each.alias_info is not None and each.alias_info.is_write)
