"""The conversation between the student's process and the judge: requests, replies, and requests inside requests.

Both sides run this same code. Either may ask while it is being asked (a callback, a gradient), up to a bounded depth;
everything that crosses is data: values, tensors (`mirror`), and numbers that stand for functions and objects (`carry`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from nbjudge.bridge import objects, raised
from nbjudge.bridge.arrays import Bare
from nbjudge.bridge.carry import Carrier
from nbjudge.bridge.objects import STUDENT
from nbjudge.bridge.raised import RemoteError
from nbjudge.bridge.surroundings import Around, Surroundings
from nbjudge.bridge.torch import hooks
from nbjudge.bridge.torch.message import Message
from nbjudge.bridge.torch.mirror import Mirror
from nbjudge.bridge.values import UnsupportedError
from nbjudge.errors import WireError
from nbjudge.wire import Frame, Pipe, listed, text, whole

__all__ = ["DEPTH", "STUDENT", "Peer", "RemoteError"]

DEPTH = 16
OBJECT_OPS = ("attribute", "assign", "remove", "special", "method")
TOO_LARGE = "more than fits into one answer"
TIDY = 64  # shared containers, before those that nobody uses any more are looked for

Answer = Callable[[Frame], Any]
Noticed = Callable[[str, Any, str, tuple[Any, ...], Any], None]


class Peer:
    """One side of the conversation. `side` 0 is the judge, 1 the student."""

    def __init__(self, pipe: Pipe, side: int) -> None:
        self.pipe = pipe
        self.side = side
        self.mirror = Mirror(side, self._products, self._hooked, self._settled)
        self.carrier = Carrier(side, self.mirror, self)
        self.surroundings = Surroundings()
        self.noticed: Noticed | None = None  # told of every answer about a thing of the other side's
        self.answers: dict[str, Answer] = {
            "call": self._answer_call,
            "products": self._answer_products,
            "hooks": self._answer_hooks,
            "settled": self._answer_settled,
            "sync": lambda _frame: None,
            **dict.fromkeys(OBJECT_OPS, self._answer_object),
        }
        self._depth = 0
        self._fresh = False

    def begin_question(self) -> None:
        """A new question: lists and dicts of earlier ones aren't shared any more."""
        self.carrier.containers.clear()
        self._fresh = True

    # ------------------------------------------------------------------ asking

    def ask(self, op: str, said: Mapping[str, Any] | None = None, value: Any = None) -> Any:
        """Ask the other side and wait; meanwhile answer what it asks. Returns what it returns, raises what it raises.

        Raises:
            EOFError: the other side has gone.
            WireError: it sent something that isn't a frame of ours.
            UnsupportedError: `value`, or the answer, can't be carried.
        """
        with self.mirror.ledger.pinned():
            problem = self._send_question(op, said or {}, value)
            while "op" in (frame := self.pipe.receive()).header:
                self.answer(frame)
            self._take_over(frame)
            if problem is not None:
                raise problem
            if "raised" in frame.header:
                raise raised.made(frame.header["raised"], lambda tree: self.carrier.decode(tree, frame))
            return self.carrier.decode(frame.header.get("result"), frame)

    def of(self, op: str, thing: Any, name: str, *given: Any) -> Any:
        """Ask something of a stand-in for a thing of the other side's."""
        if op in ("call", "special", "method"):
            given = (given[0], tuple(given[1].items()))
        result = self.ask(op, {"name": name}, (thing, *given))
        if self.noticed is not None:
            self.noticed(op, thing, name, given, result)
        return result

    def _send_question(self, op: str, said: Mapping[str, Any], value: Any) -> UnsupportedError | None:
        """What can't be said is the caller's problem; what has changed here is told in any case."""
        header: dict[str, Any] = {"op": op, **said}
        header |= self.surroundings.told() if self.side == 0 else {"grad": torch.is_grad_enabled()}
        if self._fresh:
            header["fresh"], self._fresh = True, False
        containers = self.carrier.containers
        header["unshared"] = containers.unused() if self.side == 0 and len(containers) > TIDY else []
        message, problem = self.mirror.begin(), None
        try:
            header["containers"] = self.carrier.changes(message)
            header["value"] = self.carrier.encode(value, message)
            message.check()
            self._send(header, message)
        except UnsupportedError as error:
            problem = error
            self._send_least({"containers": [], **header, "op": "sync", "value": None}, message)
        return problem

    def _send(self, header: Mapping[str, Any], message: Message) -> None:
        """One frame, with all that is said about tensors and about what isn't needed any more."""
        gone = [list(pair) for pair in self.carrier.borrowed.gone()]
        try:
            self.pipe.send({**header, "tensors": message.to_json(), "gone": gone}, bytes(message.body))
        except WireError:
            self.carrier.untell()
            raise UnsupportedError(TOO_LARGE) from None

    def _send_least(self, header: Mapping[str, Any], message: Message) -> None:
        """A frame without what couldn't be said."""
        try:
            self._send(header, message)
        except UnsupportedError:
            self._send({**header, "containers": []}, message)

    def _take_over(self, frame: Frame) -> None:
        self.mirror.apply(frame.header.get("tensors"), frame.body)
        self.carrier.lent.forget([_pair(item) for item in listed(frame.header, "gone")])
        self.carrier.apply(listed(frame.header, "containers"), frame)

    def _products(self, link: int, grad: Tensor) -> Sequence[Tensor | None]:
        """The other side's vector-Jacobian products; shared, with their own history, when a graph of them is wanted."""
        create = torch.is_grad_enabled()
        products = self.ask("products", {"link": link, "create": create}, grad if create else Bare(grad))
        if type(products) is not tuple or any(not (item is None or isinstance(item, Tensor)) for item in products):
            raise WireError("Gradients aren't tensors.")
        return products

    def _hooked(self, number: int, grad: Tensor) -> Tensor | None:
        """What the other side's hooks make of the gradient of a shared tensor."""
        create = torch.is_grad_enabled()
        changed = self.ask("hooks", {"tensor": number, "create": create}, grad if create else Bare(grad))
        if not isinstance(changed, Tensor) or changed.shape != grad.shape:
            raise WireError("A hook has made something else of a gradient.")
        return changed

    def _settled(self, number: int) -> None:
        """The other side's hooks see the gradient that a shared leaf has just got; what they change comes back."""
        self.ask("settled", {"tensor": number})

    # ------------------------------------------------------------------ answering

    def answer(self, frame: Frame) -> None:
        """Answer one request: its result, or the exception that it raised."""
        if self._depth >= DEPTH:
            raise WireError(f"Calls between the processes are nested deeper than {DEPTH}.")
        self._depth += 1
        try:
            self._reply(*self._result_of(frame))
        finally:
            self._depth -= 1

    def _result_of(self, frame: Frame) -> tuple[str, Any]:
        around = Around(frame.header if self.side == 1 else {"grad": frame.header.get("grad")})
        try:
            if frame.header.get("fresh") is True:
                self.carrier.containers.clear()
            self._take_over(frame)
            self.carrier.containers.drop(frame.header.get("unshared"))
            handler = self.answers.get(text(frame.header, "op"), _unknown)
            with around.entered():
                result = handler(frame)
        except (EOFError, WireError):
            raise
        except BaseException as error:  # whatever the function raised is the answer
            return "raised", error
        return "result", result

    def _reply(self, kind: str, result: Any) -> None:
        message, changes = self.mirror.begin(), list[Any]()
        try:
            changes = self.carrier.changes(message)
            tree = self._described(result, message) if kind == "raised" else self.carrier.encode(result, message)
            message.check()
            self._send({kind: tree, "containers": changes}, message)
        except UnsupportedError as error:
            self._send_least({"raised": self._described(error, message), "containers": changes}, message)

    def _described(self, error: BaseException, message: Message) -> dict[str, Any]:
        return raised.described(error, lambda item: self.carrier.encode(item, message), classes=self.side == 1)

    def _value(self, frame: Frame, at_least: int) -> tuple[Any, ...]:
        given = self.carrier.decode(frame.header.get("value"), frame)
        if type(given) is not tuple or len(given) < at_least:
            raise WireError("A frame doesn't hold what its question needs.")
        return given

    def _answer_call(self, frame: Frame) -> Any:
        function, args, kwargs = self._value(frame, 3)
        if type(args) is not tuple or not callable(function):
            raise WireError("A frame calls something that isn't a function.")
        if self.side == 0 and not self.carrier.lent.is_function(function):
            raise WireError("A frame calls something that wasn't passed to be called.")
        return function(*args, **_named(kwargs))

    def _answer_object(self, frame: Frame) -> Any:
        op, name = text(frame.header, "op"), text(frame.header, "name")
        thing, *given = self._value(frame, 1 if op in ("attribute", "remove") else 2)
        if op in ("special", "method"):
            if len(given) != 2 or type(given[0]) is not tuple:
                raise WireError("A method's arguments aren't there.")
            given[1] = _named(given[1])
        if self.side == 0:
            objects.check(op, thing, name)
        return objects.answer(op, thing, name, tuple(given))

    def _answer_hooks(self, frame: Frame) -> Any:
        tensor = self.mirror.ledger.tensor(whole(frame.header, "tensor"))
        grad = self.carrier.decode(frame.header.get("value"), frame)
        if not isinstance(grad, Tensor):
            raise WireError("A frame passes no gradient to a hook.")
        changed = hooks.run(tensor, grad)
        return changed if frame.header.get("create") is True else Bare(changed)

    def _answer_settled(self, frame: Frame) -> None:
        hooks.run_after(self.mirror.ledger.tensor(whole(frame.header, "tensor")))

    def _answer_products(self, frame: Frame) -> Any:
        link = self.mirror.ledger.links.get(whole(frame.header, "link"))
        grad = self.carrier.decode(frame.header.get("value"), frame)
        if link is None or not isinstance(grad, Tensor):
            raise WireError("A frame asks for a gradient of something unknown.")
        if not link.inputs:
            return ()
        create = frame.header.get("create") is True
        with self.mirror.grads_kept(link):
            products = link.products(grad, create_graph=create)
        return tuple(products) if create else tuple(None if item is None else Bare(item) for item in products)


def _unknown(_frame: Frame) -> Any:
    raise UnsupportedError("something unknown")


def _named(pairs: Any) -> dict[str, Any]:
    if type(pairs) is not tuple or any(
        type(pair) is not tuple or len(pair) != 2 or type(pair[0]) is not str for pair in pairs
    ):
        raise WireError("Named arguments aren't pairs.")
    return dict(pairs)


def _pair(item: Any) -> tuple[int, int]:
    if type(item) is not list or len(item) != 2 or any(type(part) is not int or part < 0 for part in item):
        raise WireError("What isn't needed any more isn't told in pairs.")
    return item[0], item[1]
