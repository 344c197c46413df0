"""INSIDE the sandbox: turns what a student wrote into what may be shown. Our own code, on text that may hurt it.

Confined like a student's process, so that what takes too long or too much can be ended without harm to anybody.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
from pathlib import Path
from typing import Any

from nbjudge.shown.markup import CONVERSIONS
from nbjudge.shown.patience import NotShown, patience
from nbjudge.shown.tokens import tokens_as_json
from nbjudge.wire import Packet, Pipe, PipeEnd, listed, text, whole

MAKES = {**CONVERSIONS, "tokens": tokens_as_json}
MEMORY_BYTES = 1 << 30  # beyond what it has at its start


def live(_kernel: object, control_fd: int, _peer_fd: int) -> None:
    """Serve the owner's requests until it goes."""
    control = Pipe(control_fd)
    bound_memory()
    control.send({"msg_type": "hello"})
    while True:
        try:
            packet = control.receive()
        except PipeEnd:
            os._exit(0)
        said, body = answer(packet)
        control.send({"msg_type": "made", **said}, body)


def bound_memory() -> None:
    """A parser that unpacks a few letters to gigabytes ends here."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    most = pages * resource.getpagesize() + MEMORY_BYTES
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def answer(packet: Packet) -> tuple[dict[str, Any], bytes]:
    """What is to be said, and what was made."""
    op = text(packet.header, "op")
    if op == "learn":
        for name in listed(packet.header, "modules"):
            importlib.import_module(name)
        return {}, b""
    try:
        return _made(op, packet.body, whole(packet.header, "cpu_ms") / 1000)
    except Exception as error:  # of a library, on text that its author never thought of
        return {"problem": f"it can't be converted ({type(error).__name__}: {str(error)[:100]})"}, b""


def _made(op: str, body: bytes, seconds: float) -> tuple[dict[str, Any], bytes]:
    if op == "page":
        from nbjudge.shown.page import page

        document, withheld = page(json.loads(body), seconds)
        return {"problem": None, "withheld": withheld}, document.encode("utf-8", "replace")
    try:
        with patience(seconds):
            made = MAKES[op](body.decode("utf-8"))
    except NotShown as error:
        return {"problem": str(error)}, b""
    return {"problem": None}, made.encode("utf-8", "replace")
