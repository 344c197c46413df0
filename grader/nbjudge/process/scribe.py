"""The trusted end of a scribe: a confined process that turns a student's text into what may be shown.

Parsers take minutes for text that is made for it, so none runs where grades are kept. One scribe serves one notebook
after another; one that hangs, dies or has worked for long is ended, and the next request gets a new one.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Mapping
from typing import Any

from nbjudge.errors import StudentGone, WireError
from nbjudge.process.child import Child
from nbjudge.process.zygote import Zygote
from nbjudge.wire import Packet

LOOK_S = 0.1  # how often its CPU time is looked at
WALL = 20  # wall-clock seconds for each second of CPU time, on a machine that is busy or asleep
START_S = 20.0
LEARN_S = 30.0  # of CPU time, to load a large library
RENEWED_S = 30.0  # of CPU time, after which another one goes on: limits count a whole life
OVER = "it took longer than {seconds:g} s, or more memory than there is for it"


class Scribe:
    """Answers one request after another; use it from one thread."""

    def __init__(self, zygote: Zygote) -> None:
        self._zygote = zygote
        self._child: Child | None = None
        self._learnt: set[str] = set()  # by the child

    def learn(self, *modules: str) -> None:
        """Load what isn't there yet, so that it doesn't count as work on somebody's text."""
        if wanted := [name for name in modules if self._child is None or name not in self._learnt]:
            self.ask({"op": "learn", "modules": wanted}, b"", LEARN_S)
            self._learnt.update(wanted)

    def ask(self, said: Mapping[str, Any], body: bytes, cpu_s: float) -> tuple[Packet | None, float]:
        """The answer, None where none came within so much CPU time; and the CPU time that it took."""
        child = self._child or self._start()
        before = child.cpu_s()
        try:
            child.send(said, body)
            packet = self._answer(child, before + cpu_s, time.monotonic() + WALL * cpu_s)
        except (StudentGone, WireError):
            packet = None
        if packet is None:
            self.close()
            return None, cpu_s
        now = child.cpu_s()
        if now > RENEWED_S:
            self.close()
        return packet, now - before

    def _start(self) -> Child:
        ours, theirs = socket.socketpair()
        with ours, theirs:  # nobody is at the other end
            self._child = self._zygote.fork("scribe", theirs)
        self._child.wait_for("hello", START_S)
        return self._child

    def _answer(self, child: Child, cpu_end_s: float, end: float) -> Packet | None:
        while True:
            for packet in child.receive():
                if packet.header.get("msg_type") == "made":
                    return packet
            if child.gone or time.monotonic() > end or child.cpu_s() > cpu_end_s:
                return None
            select.select(child.descriptors(), [], [], LOOK_S)

    def close(self) -> None:
        """End its process."""
        child, self._child = self._child, None
        self._learnt.clear()
        if child is not None:
            self._zygote.end(child)
