"""INSIDE the sandbox: runs the student's cells as IPython would, then answers what the judge asks.

Nothing here is trusted: the student's code can change all of it. It decides nothing.
"""

from __future__ import annotations

import contextlib
import os
import random
import select
import socket
import sys
from pathlib import Path, PurePosixPath
from typing import Any

from nbjudge.bridge.libraries import home_of
from nbjudge.bridge.peer import Peer
from nbjudge.bridge.raised import Attempted
from nbjudge.process.kernel import Kernel
from nbjudge.wire import Packet, Pipe, PipeEnd, listed, text, whole

STUDENT = "NBJUDGE_STUDENT"  # seegrad.variants reads it, and any course may


def live(kernel: Kernel, control_fd: int, peer_fd: int) -> None:
    """Serve the owner's and the judge's requests until the owner goes."""
    control = Pipe(control_fd)
    peer = _conversation(kernel, peer_fd)
    see_own_modules(sys.path)
    kernel.wire(control)
    control.send({"msg_type": "hello"})
    waiting = [control_fd, peer_fd]
    while True:
        try:
            readable, _, _ = select.select(waiting, [], [])
            if peer_fd in readable and not _answer(peer):
                waiting.remove(peer_fd)
            done = _obey(kernel, control) if control_fd in readable else ""
            if done == "files":
                peer.folder.settle()
            elif done == "renew":
                _empty(peer_fd)
                peer = _conversation(kernel, peer_fd)
                control.send({"msg_type": "renewed"})
        except KeyboardInterrupt:
            continue  # it was meant for a cell that has just ended


def _conversation(kernel: Kernel, peer_fd: int) -> Peer:
    """With a judge that has heard nothing yet."""
    peer = Peer(Pipe(peer_fd), side=1)
    peer.answers["names"] = lambda packet: _names(kernel, peer, packet)
    return peer


def _empty(peer_fd: int) -> None:
    """Forget what a judge that has ended still had to say."""
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(peer_fd)) as line:
        while line.recv(1 << 16, socket.MSG_DONTWAIT):
            pass


def see_own_modules(path: list[str]) -> None:
    """As in a kernel: a module beside the notebook can be imported, but none hides one of Python's own.

    >>> path = ["/lib/python", "/lib/python/site-packages"]
    >>> see_own_modules(path)
    >>> path
    ['/lib/python', '', '/lib/python/site-packages']
    """
    if "" not in path:
        path.insert(next((at for at, entry in enumerate(path) if "-packages" in entry), len(path)), "")


def _answer(peer: Peer) -> bool:
    try:
        with peer.floor:
            packet = peer.pipe.receive()
            if "op" in packet.header:  # else an answer that an interrupt was quicker than: nobody waits for it any more
                peer.answer(packet)
    except PipeEnd:
        return False
    return True


def _obey(kernel: Kernel, control: Pipe) -> str:
    """Do what the owner asks, and say what it was."""
    try:
        packet = control.receive()
    except PipeEnd:
        os._exit(0)
    op = text(packet.header, "op")
    if op == "files":
        place(packet)
    elif op == "seed":
        call_it(packet)
        seed(whole(packet.header, "seed"))
    elif op == "run":
        reply = kernel.run(text(packet.header, "code", 1 << 24), number=whole(packet.header, "cell"))
        control.send({"msg_type": "execute_reply", "content": reply})
        return op
    elif op == "flush":
        kernel.flush()
    if op != "renew":
        control.send({"msg_type": "flushed" if op == "flush" else "done"})
    return op


def call_it(packet: Packet) -> None:
    """Whose submission it is, for a question that draws each student's own numbers."""
    os.environ[STUDENT] = text(packet.header, "student", 1 << 12)


def place(packet: Packet) -> None:
    """Write files where the cells run."""
    at = 0
    for name, size_bytes in listed(packet.header, "files"):
        path = Path(*PurePosixPath(name).parts)
        with contextlib.suppress(
            OSError
        ):  # too large, or two names for one place: the cells will see that it's missing
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(packet.body[at : at + size_bytes])
        at += size_bytes


def seed(number: int) -> None:
    """Set every random generator that a cell is likely to use.

    Of torch the CPU's: `torch.manual_seed` also writes down a stack for each kind of device that isn't there, which
    reads the source files of all its frames.
    """
    random.seed(number)
    if (torch := sys.modules.get("torch")) is not None:
        torch.default_generator.manual_seed(number)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(number % (1 << 32))


def _names(kernel: Kernel, peer: Peer, packet: Packet) -> tuple[Any, ...]:
    """What the asked names stand for, as `(name, value)`: those that a test reads, and those that stand for a class."""
    found = kernel.namespace
    peer.names.watch(found, listed(packet.header, "heard"), listed(packet.header, "told"))
    wanted = [name for name in listed(packet.header, "names") if name in found]
    classes = [name for name in listed(packet.header, "classes") if isinstance(found.get(name), type)]
    told = [*dict.fromkeys([*classes, *wanted])]
    told.sort(key=lambda name: not isinstance(found[name], type))  # a list's own: answers may have bound `sorted`
    kinds = [found[name] for name in told if isinstance(found[name], type)]
    kinds += [part for kind in kinds for part in vars(kind).values() if isinstance(part, type)]
    peer.carrier.asked = tuple(kind for kind in kinds if home_of(kind) is None)
    return tuple((name, Attempted(found[name])) for name in told)
