"""The conversation between the student's process and the judge: requests, replies, and requests inside requests.

Both sides run this same code. Either may ask while it is being asked (a callback, a gradient), up to a bounded depth;
everything that crosses is data: values, tensors (`mirror`), and numbers that stand for functions.
"""

from __future__ import annotations

import builtins
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from . import arrays, values
from .errors import WireError
from .libraries import find_by_name, name_in_library
from .mirror import DTYPES, NAMES, Message, Mirror
from .values import UnsupportedError
from .wire import Frame, Pipe, listed, text, whole

DEPTH = 16
REASON_CHARS = 2000
FUNCTIONS = 1 << 16
STUDENT = "student"  # the module that exceptions of the other process say they come from


Answer = Callable[[Frame], tuple[Any, Message]]


class RemoteError(Exception):
    """An exception of the other process whose class isn't one of Python's own."""


class Peer:
    """One side of the conversation. `side` 0 is the judge, 1 the student."""

    def __init__(self, pipe: Pipe, side: int) -> None:
        self.pipe = pipe
        self.side = side
        self.mirror = Mirror(side, self._products)
        self.answers: dict[str, Answer] = {
            "call": self._answer_call,
            "products": self._answer_products,
            "sync": self.done,
        }
        self._depth = 0
        self._functions: dict[int, Callable[..., Any]] = {}  # ours, by the number that the other side knows
        self._kept: list[Any] = []
        self._classes: dict[int, type[torch.autograd.Function]] = {}  # their autograd Functions
        self._numbers: dict[int, int] = {}  # id() of a function of ours → its number
        self._proxies: dict[int, Callable[..., Any]] = {}  # theirs, by number
        self._proxy_numbers: dict[int, int] = {}

    # ------------------------------------------------------------------ asking

    def ask(self, op: str, said: Mapping[str, Any] | None = None, message: Message | None = None) -> Any:
        """Ask the other side and wait; meanwhile answer what it asks. Returns what it returns, raises what it raises.

        Raises:
            EOFError: the other side has gone.
            WireError: it sent something that isn't a frame of ours.
        """
        with self.mirror.ledger.pinned():
            message = message or self.mirror.begin()
            header = {"op": op, "grad": torch.is_grad_enabled(), **(said or {}), "tensors": message.to_json()}
            self.pipe.send(header, bytes(message.body))
            while "op" in (frame := self.pipe.receive()).header:
                self.answer(frame)
            self.mirror.apply(frame.header.get("tensors"), frame.body)
            return self._result(frame)

    def call(self, number: int, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Call a function that lives on the other side."""
        message = self.mirror.begin()
        packed = [self.encode(arg, message) for arg in args]
        named = [[name, self.encode(arg, message)] for name, arg in kwargs.items()]
        return self.ask("call", {"function": number, "args": packed, "kwargs": named}, message)

    def _result(self, frame: Frame) -> Any:
        if "raised" in frame.header:
            raise self._exception(frame.header["raised"])
        return self.decode(frame.header.get("result"), frame)

    def _products(self, link: int, grad: Tensor) -> Sequence[Tensor | None]:
        """The other side's vector-Jacobian products; shared, with their own history, when a graph of them is wanted."""
        message = self.mirror.begin()
        create = torch.is_grad_enabled()
        packed = self.encode(grad, message) if create else self.mirror.data(grad, message)
        products = self.ask("products", {"link": link, "of": packed, "create": create}, message)
        if type(products) is not list or any(not (item is None or isinstance(item, Tensor)) for item in products):
            raise WireError("Gradients aren't a list of tensors.")
        return products

    # ------------------------------------------------------------------ answering

    def answer(self, frame: Frame) -> None:
        """Answer one request: its result, or the exception that it raised."""
        if self._depth >= DEPTH:
            raise WireError(f"Calls between the processes are nested deeper than {DEPTH}.")
        self._depth += 1
        try:
            said, message = self._reply_to(frame)
        finally:
            self._depth -= 1
        self.pipe.send({**said, "tensors": message.to_json()}, bytes(message.body))

    def _reply_to(self, frame: Frame) -> tuple[dict[str, Any], Message]:
        try:
            self.mirror.apply(frame.header.get("tensors"), frame.body)
            handler = self.answers.get(text(frame.header, "op"))
            if handler is None:
                return {"raised": _described(UnsupportedError("something unknown"))}, self.mirror.begin()
            with torch.set_grad_enabled(frame.header.get("grad") is not False):
                tree, message = handler(frame)
        except (EOFError, WireError):
            raise
        except BaseException as error:  # whatever the function raised is the answer
            return {"raised": _described(error)}, self.mirror.begin()
        return {"result": tree}, message

    def done(self, result: Any = None) -> tuple[Any, Message]:
        """A finished answer: its value as a tree, in a message that says what has changed here."""
        message = self.mirror.begin()
        return self.encode(None if isinstance(result, Frame) else result, message), message

    def _answer_call(self, frame: Frame) -> tuple[Any, Message]:
        function = self._functions.get(whole(frame.header, "function"))
        if function is None:
            raise WireError("A frame calls a function that was never passed.")
        args = [self.decode(tree, frame) for tree in listed(frame.header, "args")]
        pairs = listed(frame.header, "kwargs")
        if any(type(pair) is not list or len(pair) != 2 or type(pair[0]) is not str for pair in pairs):
            raise WireError("Named arguments aren't pairs.")
        return self.done(function(*args, **{name: self.decode(tree, frame) for name, tree in pairs}))

    def _answer_products(self, frame: Frame) -> tuple[Any, Message]:
        link = self.mirror.ledger.links.get(whole(frame.header, "link"))
        grad = self.decode(frame.header.get("of"), frame)
        if link is None or not isinstance(grad, Tensor):
            raise WireError("A frame asks for a gradient of something unknown.")
        if not link.inputs:
            return self.done([])
        create = frame.header.get("create") is True
        with self.mirror.grads_kept():
            products = link.products(grad, create_graph=create)
        return self.done(list(products) if create else [None if item is None else _Bare(item) for item in products])

    # ------------------------------------------------------------------ values

    def encode(self, value: Any, message: Message) -> Any:
        """A value as a tree, its tensors in the message."""
        return values.encode(value, lambda item: self._encode_other(item, message))

    def decode(self, tree: Any, frame: Frame) -> Any:
        """The value of a tree that came with a frame."""
        return values.decode(tree, lambda item: self._decode_other(item, frame))

    def _encode_other(self, value: Any, message: Message) -> Any:
        if isinstance(value, Tensor):
            return {"t": "tensor", "id": self.mirror.share(value, message)}
        if isinstance(value, _Bare):
            return self.mirror.data(value.tensor, message)
        if arrays.is_numpy(value):
            kind = "array" if arrays.is_array(value) else "scalar"
            return {**self.mirror.data(arrays.to_tensor(value), message), "t": kind}
        if isinstance(value, torch.dtype) and value in NAMES:
            return {"t": "dtype", "v": NAMES[value]}
        if isinstance(value, torch.device):
            return {"t": "device", "v": str(value)}
        if (number := self._proxy_numbers.get(id(value))) is not None:
            return {"t": "yours", "id": number}
        if (name := name_in_library(value)) is not None:
            return {"t": "library", "v": name}
        if isinstance(value, type) and issubclass(value, torch.autograd.Function):
            return {"t": "Function", "id": self._number_of(value.apply, value), "name": _name_of(value)}
        if _is_function(value):
            return {"t": "function", "id": self._number_of(value), "name": _name_of(value)}
        raise UnsupportedError(_why_not(value))

    def _decode_other(self, tree: Mapping[str, Any], frame: Frame) -> Any:
        kind = text(tree, "t")
        if kind == "tensor":
            return self.mirror.ledger.tensor(whole(tree, "id"))
        if kind in ("data", "array", "scalar"):
            tensor = self.mirror.read_data(tree, frame.body)
            return tensor if kind == "data" else arrays.from_tensor(tensor, scalar=kind == "scalar")
        if kind == "dtype" and (name := text(tree, "v")) in DTYPES:
            return DTYPES[name]
        if kind == "device":
            return _device(text(tree, "v"))
        if kind == "yours" and (number := whole(tree, "id")) in self._functions:
            return self._functions[number]
        if kind == "library":
            return find_by_name(text(tree, "v"))
        if kind == "function":
            return self._proxy(whole(tree, "id"), text(tree, "name"))
        if kind == "Function":
            return self._proxy_class(whole(tree, "id"), text(tree, "name"))
        raise WireError("A value isn't one of the kinds that are carried.")

    def _number_of(self, function: Callable[..., Any], known_as: Any = None) -> int:
        known_as = function if known_as is None else known_as
        if (number := self._numbers.get(id(known_as))) is not None:
            return number
        if len(self._functions) >= FUNCTIONS:
            raise UnsupportedError("more functions than are carried")
        number = len(self._functions)
        self._functions[number] = function
        self._numbers[id(known_as)] = number
        self._kept.append(known_as)  # id() names it only while it lives
        return number

    def _proxy(self, number: int, name: str) -> Callable[..., Any]:
        """A function here that calls the one over there; the same one each time."""
        if number in self._proxies:
            return self._proxies[number]

        def remote(*args: Any, **kwargs: Any) -> Any:
            return self.call(number, args, kwargs)

        remote.__name__ = remote.__qualname__ = name if name.isidentifier() else "function"
        self._proxies[number] = remote
        self._proxy_numbers[id(remote)] = number
        return remote

    def _proxy_class(self, number: int, name: str) -> type[torch.autograd.Function]:
        """A Function here whose `apply` is the one over there."""
        if number not in self._classes:
            members = {"apply": staticmethod(self._proxy(number, name)), "__module__": STUDENT}
            named = name if name.isidentifier() else "Function"
            self._classes[number] = type(named, (torch.autograd.Function,), members)
        return self._classes[number]

    def _exception(self, tree: Any) -> BaseException:
        """The exception that the other side describes: Python's own class where it names one, else a RemoteError."""
        if type(tree) is not dict:
            raise WireError("A frame describes no exception.")
        name, reason = text(tree, "name"), text(tree, "text", REASON_CHARS)
        if tree.get("unsupported") is True:
            return UnsupportedError(reason)
        base = next((found for known in listed(tree, "bases", 64) if (found := _builtin_exception(known))), RemoteError)
        members = {"__module__": STUDENT, "__str__": lambda _self: reason}
        made: type[Exception] = type(name if name.isidentifier() else "RemoteError", (base,), members)
        return made(reason)


class _Bare:
    """A tensor whose values alone are to travel."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


def _described(error: BaseException) -> dict[str, Any]:
    try:
        reason = str(error)[:REASON_CHARS]
    except Exception:  # the student's own __str__ may do anything
        reason = ""
    bases = [base.__name__[:200] for base in type(error).__mro__[:64]]
    unsupported = isinstance(error, UnsupportedError)
    return {"name": type(error).__name__[:200], "text": reason, "bases": bases, "unsupported": unsupported}


def _builtin_exception(name: Any) -> type[Exception] | None:
    found = getattr(builtins, name, None) if type(name) is str else None
    if not isinstance(found, type) or not issubclass(found, Exception):
        return None
    return None if issubclass(found, UnicodeError | BaseExceptionGroup) else found


def _is_function(value: Any) -> bool:
    return callable(value) and not isinstance(value, type | torch.nn.Module | types.ModuleType)


def _name_of(function: Any) -> str:
    return str(getattr(function, "__name__", "function"))[:200]


def _why_not(value: Any) -> str:
    if isinstance(value, type):
        return f"the class {value.__name__[:80]}"
    if isinstance(value, torch.nn.Module):
        return f"an nn.Module ({type(value).__name__[:80]})"
    if isinstance(value, types.GeneratorType):
        return "a generator"
    return f"an object of class {type(value).__name__[:80]}"


def _device(said: str) -> torch.device:
    try:
        return torch.device(said)
    except (RuntimeError, ValueError):
        raise WireError("A device has no known name.") from None
