"""The conversation between the student's process and the judge: requests, replies, and requests inside requests.

Both sides run this same code. Either may ask while it is being asked (a callback, a gradient), up to a bounded depth;
everything that crosses is data: values, tensors (`parts`), and numbers that stand for functions and objects (`carry`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from nbjudge.bridge import objects, raised
from nbjudge.bridge.around import looks
from nbjudge.bridge.around.files import Files, Folder
from nbjudge.bridge.around.parts import PARTS, Changes, Part, Said
from nbjudge.bridge.around.replaced import Replaced
from nbjudge.bridge.around.shared_names import MOST, SharedNames
from nbjudge.bridge.around.surroundings import Surroundings
from nbjudge.bridge.carry import Carrier, Plain, Whole, Yours
from nbjudge.bridge.effects import Effects, held
from nbjudge.bridge.floor import Floor
from nbjudge.bridge.raised import Attempted, RemoteError
from nbjudge.bridge.standing import DONE, USES, Role, Sought, Stand, step
from nbjudge.bridge.values import Body, Crossing, UnsupportedError
from nbjudge.bridge.values.arrays import is_array
from nbjudge.bridge.values.containers import STUDENT
from nbjudge.errors import GraderError, WireError
from nbjudge.wire import Packet, Pipe, PipeEnd, listed, text

__all__ = ["DEPTH", "STUDENT", "Peer", "RemoteError"]

# Calls within calls, as of a recursive function of a test's that an answer decorates; Python's own end is near 120.
DEPTH = 64
OBJECT_OPS = ("attribute", "assign", "remove", "special", "method")
TOO_LARGE = "more than fits into one answer"
TIDY = 64  # shared containers, before those that nobody uses any more are looked for

Answer = Callable[[Packet], Any]
Hear = Callable[[Any, Crossing], Any]


@dataclass(frozen=True, slots=True)
class Draft:
    """A packet while it is put together."""

    crossing: Crossing
    said: Mapping[str, Said]

    def first(self, value: Any) -> None:
        """Of what it holds, say first what is heard before arrays are, where it has such."""
        items = [*held(value)]
        for item in items if any(map(is_array, items)) else ():
            for part in self.said.values():
                part.first(item)

    def check(self) -> None:
        """Raises UnsupportedError where a part couldn't say something."""
        for part in self.said.values():
            part.check()


class Peer:
    """One side of the conversation. `side` 0 is the judge, 1 the student."""

    def __init__(self, pipe: Pipe, side: int) -> None:
        self.pipe = pipe
        self.side = side
        self.floor = Floor()
        self.answers: dict[str, Answer] = {
            "call": self._answer_call,
            "sync": lambda _frame: None,
            "data": lambda packet: Plain(self.given(packet)),
            **dict.fromkeys(OBJECT_OPS, self._answer_object),
        }
        if side == 1:  # of the judge's own nobody may ask this
            self.answers |= {"files": self._answer_files, "source": self._answer_source}
            self.answers["state"] = lambda packet: Attempted(Whole(self.given(packet)))
        self.parts: dict[str, Part] = {}
        self.effects = Effects(self.parts, lambda places, value: self.carrier.gate.came(places, value))
        self.changes: Changes | None = self.effects if side == 0 else None
        self.parts |= {name: make(self) for name, make in PARTS.items()}
        self.carrier = Carrier(side, self)
        for part in self.parts.values():
            part.lie_in(self.carrier.containers.memories)
        self.carrier.containers.changing = self.effects.note_container if side == 0 else None
        self.surroundings = Surroundings(self.parts, side)
        self.replaced = Replaced()
        self.folder = Folder()
        self.files: Files | None = None  # the judge's, where it watches
        self.names = SharedNames()
        self._depth = 0
        self._fresh = False

    def begin_question(self) -> None:
        """A new question: lists and dicts of earlier ones aren't shared any more."""
        self.carrier.clear()
        self._fresh = True

    # ------------------------------------------------------------------ asking

    def ask(
        self, op: str, said: Mapping[str, Any] | None = None, value: Any = None, *, hear: Hear | None = None
    ) -> Any:
        """Ask the other side and wait; meanwhile answer what it asks. Returns what it returns, raises what it raises.

        `hear` makes a value of the answer's tree where it isn't simply one value.

        Raises:
            PipeEnd: the other side has gone.
            WireError: it sent something that isn't a packet of ours.
            UnsupportedError: `value`, or the answer, can't be carried.
        """
        with self.floor, self._pinned(), self.files.asking() if self.files else contextlib.nullcontext():
            question = self.floor.begin()
            try:
                problem = self._send_question(op, said or {}, value)
                while "op" in (packet := self.pipe.receive()).header:
                    self.answer(packet)
            finally:
                self.floor.end(question)
            with self.carrier.beside("~"):
                self._take_over(packet)
            if problem is not None:
                raise problem
            crossing = self._crossing(packet)
            if "raised" in packet.header:
                raise self._made(packet.header["raised"], crossing)
            return (hear or self.carrier.decode)(packet.header.get("result"), crossing)

    def _made(self, tree: Any, crossing: Crossing) -> BaseException:
        with self.carrier.beside("!"):
            return raised.made(tree, lambda part: self.carrier.decode(part, crossing), self.carrier)

    def _pinned(self) -> contextlib.AbstractContextManager[Any]:
        pins = [part.pinned() for part in self.parts.values()]
        return _all_of(pins) if len(pins) != 1 else pins[0]

    def of(self, op: str, thing: Any, name: str, *given: Any, by: Stand | None = None) -> Any:
        """Ask something of a stand-in for a thing of the other side's.

        Raises:
            Refused: it stands in no role here.
        """
        standing = by or self.carrier.borrowed.standing_of(thing) or Stand(Role.OBJECT)
        if op == "special" and (standing.role is Role.STRANGER or name not in USES.get(standing.role, {name})):
            return self._without_asking(thing, name, standing)
        self._demand(standing)
        places = standing.under(step("call" if by else op, name))
        if op not in ("call", "special", "method"):
            return self._sought(Sought(op, thing, name, given, places))
        with self.floor, self.effects.passing(self.effects.called(op, thing, name), *given) as (args, named):
            return self._sought(Sought(op, thing, name, (args, tuple(named.items())), places))

    def _sought(self, what: Sought) -> Any:
        self.carrier.gate.asking(what)
        with self.floor, self.carrier.at(what.places):
            try:
                result = self.ask(what.op, {"name": what.name}, (what.thing, *what.given))
            except (PipeEnd, GraderError):
                raise
            except Exception as error:
                self.carrier.gate.looked(what, error)
                raise
            finally:
                if self.carrier.gate.draws(what.places, drew=self.surroundings.has_drawn()):
                    self.surroundings.part()
        self.carrier.gate.looked(what, result)
        return self.effects.given_back(result)

    def used(self, thing: Any) -> Role:
        """Python uses a stand-in in a way that needs no answer from over there; raises `Refused` for a stranger."""
        standing = self.carrier.borrowed.standing_of(thing) or Stand(Role.OBJECT)
        self._demand(standing)
        return standing.role

    def _demand(self, standing: Stand) -> None:
        if standing.role is Role.STRANGER:
            self.carrier.gate.refuse(standing)

    def stands_in(self, thing: Any) -> bool:
        """Is it a stand-in for a thing of the other side's?"""
        return self.carrier.borrowed.number_of(thing) is not None

    def may_run(self, thing: Any, said: str) -> bool:
        """May a text of a stand-in's be run here as code?"""
        standing = self.carrier.borrowed.standing_of(thing)
        return standing is not None and self.carrier.gate.may_run(standing.places, said)

    def data_of(self, number: int, *, state: bool = False) -> Any:
        """The nearest data to a thing of the other side's; or, by its state, an object like it."""
        return self.ask("state" if state else "data", value=Yours(number))

    def _without_asking(self, thing: Any, name: str, standing: Stand) -> Any:
        """What Python itself says of a thing that is only passed on, called, or iterated over."""
        if name in objects.SHOWN:
            return f"<{type(thing).__name__} object>"
        if name == "__hash__":
            return object.__hash__(thing)
        self._demand(standing)
        if name in ("__eq__", "__ne__"):
            return NotImplemented
        if name == "__bool__":
            return True
        raise TypeError(f"{name} of {type(thing).__name__}: it can only be {DONE[standing.role]} here")

    def _send_question(self, op: str, said: Mapping[str, Any], value: Any) -> BaseException | None:
        """What can't be said, or raises meanwhile, is the caller's problem; what has changed here is told anyhow."""
        header: dict[str, Any] = {"op": op, **said}
        header |= self.surroundings.told()
        for part in self.parts.values():
            header |= part.around()
        if self._fresh:
            header["fresh"], self._fresh = True, False
        containers = self.carrier.containers
        header["unshared"] = containers.unused() if self.side == 0 and len(containers) > TIDY else []
        draft, known = self._draft(), containers.said
        try:
            header["containers"] = self.carrier.changes(draft.crossing)
            known = containers.said
            draft.first(value)
            header["value"] = self.carrier.encode(value, draft.crossing)
            header["bound"] = self._bound(draft.crossing)
            if self.files is not None and (written := self.files.told()) is not None:
                header["files"] = self.carrier.encode(written, draft.crossing)
            header["replaced"] = self.replaced.changes(lambda put: self.carrier.encode(put, draft.crossing))
            draft.check()
            self._send(header, draft)
        except (PipeEnd, WireError):
            raise
        except BaseException as error:
            self.carrier.untell(known)
            least = {"containers": [], **header, "op": "sync", "value": None, "bound": [], "replaced": []}
            self._send_least(least, draft)
            return error
        return None

    def _draft(self) -> Draft:
        """A packet that starts with everything that has changed here since the last one."""
        body = Body()
        said = {name: part.begin(body) for name, part in self.parts.items()}
        return Draft(self.carrier.crossing(body, said), said)

    def _crossing(self, packet: Packet) -> Crossing:
        return self.carrier.crossing(Body(packet.body), self.parts)

    def _send(self, header: Mapping[str, Any], draft: Draft) -> None:
        """One packet, with all that its parts say and what isn't needed any more."""
        gone = [list(pair) for pair in self.carrier.borrowed.gone()]
        said = {name: part.to_json() for name, part in draft.said.items()}
        try:
            self.pipe.send(
                {**header, **self.surroundings.answered(), **said, "gone": gone}, bytes(draft.crossing.body.data)
            )
        except WireError:
            raise UnsupportedError(TOO_LARGE) from None

    def _send_least(self, header: Mapping[str, Any], draft: Draft) -> None:
        """A packet without what couldn't be said."""
        try:
            self._send(header, draft)
        except UnsupportedError:
            self._send({**header, "containers": []}, draft)

    def _take_over(self, packet: Packet) -> None:
        crossing = self._crossing(packet)
        self.surroundings.hear(packet.header)
        for name, part in self.parts.items():
            part.hear(packet.header.get(name), crossing.body)
        self.carrier.lent.forget([_pair(item) for item in listed(packet.header, "gone")])
        self.carrier.apply(listed(packet.header, "containers"), crossing)
        self.effects.settle()
        if "bound" in packet.header:
            self.names.apply(listed(packet.header, "bound", MOST), lambda tree: self.carrier.decode(tree, crossing))
        if self.side == 1 and "files" in packet.header:
            shared, made, new, gone = self.carrier.decode(packet.header["files"], crossing)
            self.folder.shared |= {*shared}
            self.folder.make(made)
            self.folder.apply(new, gone)
        if self.side == 1 and "replaced" in packet.header:
            self.replaced.apply(listed(packet.header, "replaced"), lambda tree: self.carrier.decode(tree, crossing))

    def _bound(self, crossing: Crossing) -> list[list[Any]]:
        """The shared names that have been bound here; the judge's have to be told, a student's are told if they can."""
        given = (lambda value: value) if self.side == 0 else Attempted
        return self.names.changes(lambda value: self.carrier.encode(given(value), crossing))

    # ------------------------------------------------------------------ answering

    def answer(self, packet: Packet) -> None:
        """Answer one request: its result, or the exception that it raised."""
        self._depth += 1
        question = self.floor.begin()
        try:
            kind, result = self._result_of(packet)
            self.floor.take(self.floor.leave(), question)
            self._reply(kind, result)
        finally:
            self.floor.end(question)
            self._depth -= 1

    def _result_of(self, packet: Packet) -> tuple[str, Any]:
        try:
            with self.carrier.beside("<"):
                return "result", self._done(packet)
        except (PipeEnd, WireError):
            raise
        except BaseException as error:  # whatever the function raised is the answer
            return "raised", error

    def _done(self, packet: Packet) -> Any:
        if packet.header.get("fresh") is True:
            self.carrier.clear()
            self.names.watch({}, (), ())
            self.replaced.end()
        self._take_over(packet)
        self.carrier.containers.drop(packet.header.get("unshared"))
        handler = self.answers.get(text(packet.header, "op"), _unknown) if self._depth <= DEPTH else _too_deep
        with self.surroundings.entered(packet.header):
            held = self.floor.leave()
            try:
                return handler(packet)
            finally:
                self.floor.take(held)

    def _reply(self, kind: str, result: Any) -> None:
        draft, changes, said = self._draft(), list[Any](), self.carrier.containers.said
        try:
            self.carrier.copies.check()
            changes = self.carrier.changes(draft.crossing)
            said = self.carrier.containers.said
            draft.first(result)
            tree = (
                self._described(result, draft.crossing)
                if kind == "raised"
                else self.carrier.encode(result, draft.crossing)
            )
            bound = self._bound(draft.crossing)
            draft.check()
            self._send({kind: tree, "containers": changes, "bound": bound}, draft)
        except (PipeEnd, WireError):
            raise
        except BaseException as error:  # it can't be said, or its own code has raised this meanwhile
            self.carrier.untell(said)
            self._send_least({"raised": self._told(error, draft.crossing), "containers": changes}, draft)

    def _told(self, error: BaseException, crossing: Crossing) -> dict[str, Any]:
        """An error whose own code raises while it is described is told by its name."""
        try:
            return self._described(error, crossing)
        except BaseException:  # whatever it raises: it is the student's
            return self._described(RuntimeError(type(error).__name__[:80]), crossing)

    def _described(self, error: BaseException, crossing: Crossing) -> dict[str, Any]:
        return raised.described(error, lambda item: self.carrier.encode(item, crossing), classes=self.side == 1)

    def given(self, packet: Packet) -> Any:
        """The value that a question brings."""
        return self.carrier.decode(packet.header.get("value"), self._crossing(packet))

    def _value(self, packet: Packet, at_least: int) -> tuple[Any, ...]:
        given = self.given(packet)
        if type(given) is not tuple or len(given) < at_least:
            raise WireError("A frame doesn't hold what its question needs.")
        return given

    def _answer_files(self, packet: Packet) -> Any:
        """What has been written since this was asked; of some files only if anybody has written them."""
        shared, kept, maybe = self._value(packet, 3)
        self.folder.shared |= {*shared}
        return self.folder.changes(frozenset(kept) | self.folder.untouched(maybe))

    def _answer_source(self, packet: Packet) -> str:
        return looks.source_of(self._value(packet, 1)[0], text(packet.header, "name"))

    def _answer_call(self, packet: Packet) -> Any:
        function, args, kwargs = self._value(packet, 3)
        if type(args) is not tuple or not callable(function):
            raise WireError("A frame calls something that isn't a function.")
        if self.side == 0 and not self.carrier.lent.is_function(function):
            raise WireError("A frame calls something that wasn't passed to be called.")
        named = _named(kwargs)
        for given in (*args, *named.values()):
            self.carrier.gate.came(self.carrier.places, given)
        return function(*args, **named)

    def _answer_object(self, packet: Packet) -> Any:
        op, name = text(packet.header, "op"), text(packet.header, "name")
        thing, *given = self._value(packet, 1 if op in ("attribute", "remove") else 2)
        if op in ("special", "method"):
            if len(given) != 2 or type(given[0]) is not tuple:
                raise WireError("A method's arguments aren't there.")
            given[1] = _named(given[1])
        if self.side == 0:
            objects.check(op, thing, name)
        return objects.answer(op, thing, name, tuple(given))


@contextlib.contextmanager
def _all_of(managers: Iterable[contextlib.AbstractContextManager[Any]]) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for manager in managers:
            stack.enter_context(manager)
        yield


def _too_deep(_frame: Packet) -> Any:
    raise RecursionError("maximum recursion depth exceeded")


def _unknown(_frame: Packet) -> Any:
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
