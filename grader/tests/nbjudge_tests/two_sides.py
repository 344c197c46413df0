"""The judge's side of a conversation, and the student's side in a thread."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import nbjudge.bridge.torch  # noqa: F401 - tensors are a part of the conversation
from nbjudge.bridge import values
from nbjudge.bridge.peer import Peer
from nbjudge.bridge.values.shared import Containers, Copies
from nbjudge.wire import Pipe

Lend = Callable[[Any], Any]


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Peer, Peer]]:
    """The judge's side, and the student's side in a thread; no module of a course's lies where they run."""
    monkeypatch.chdir(tmp_path)
    ours, theirs = socket.socketpair()
    judge, student = Peer(Pipe(ours.fileno()), side=0), Peer(Pipe(theirs.fileno()), side=1)
    thread = threading.Thread(target=serve, args=(student,))
    thread.start()
    yield judge, student
    ours.shutdown(socket.SHUT_RDWR)
    thread.join()
    ours.close()
    theirs.close()


def serve(peer: Peer) -> None:
    while True:
        try:
            peer.answer(peer.pipe.receive())
        except EOFError:
            return


@pytest.fixture
def lend(pair: tuple[Peer, Peer]) -> Lend:
    """Take anything to the student's side; what comes back stands for it here."""
    judge, student = pair
    things: list[Any] = []
    student.answers["thing"] = lambda _frame: things[-1]

    def lent(thing: Any) -> Any:
        things.append(thing)
        if isinstance(thing, type):
            student.carrier.asked += (thing,)
        return judge.ask("thing")

    return lent


def raised(function: Callable[[], Any]) -> str:
    """What a call raises: class, Python's own class behind it, and what it says."""
    try:
        function()
    except Exception as error:
        known = next(base for base in type(error).__mro__ if base.__module__ == "builtins")
        return f"{type(error).__name__} {known.__name__} {str(error)[:40]}"
    return "nothing"


def scenarios(names: dict[str, Any]) -> list[Callable[[Lend], Any]]:
    """The functions of a test module that take `lend`."""
    return [
        value
        for value in list(names.values())
        if callable(value)
        and getattr(value, "__annotations__", {}).get("lend") == "Lend"
        and value.__module__ == names["__name__"]
        and not value.__name__.startswith("test_")
    ]


def crossed(value: Any) -> Any:
    """As it is made on the other side, of JSON and bytes alone."""
    ours = values.Crossing(Containers(0), Copies())
    tree = json.loads(json.dumps(values.encode(value, ours)))
    return values.decode(tree, values.Crossing(Containers(1), Copies(), values.Body(bytes(ours.body.data))))
