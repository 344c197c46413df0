"""ipykernel's own Kernel and Shell in this process, without ZMQ: what a real kernel would publish goes out as packets.

Same display hook, same tracebacks, same comms, so the outputs are those of stock nbgrader; no sockets, no threads.
"""

from __future__ import annotations

import asyncio
import datetime
import io
import json
import math
import os
import sys
import threading
import types
from collections.abc import Callable, Mapping
from typing import Any

from ipykernel import debugger
from ipykernel.kernelapp import IPKernelApp
from jupyter_client.session import Session

from nbjudge.errors import WireError
from nbjudge.process import shortcuts
from nbjudge.wire import Pipe

SILENT = ("status", "execute_input")
STREAM_CHARS = 8192
PIECE_CHARS = 1 << 20
TOO_LARGE = "[An output was too large and is left out.]\n"
DEPTH = 48


class PacketSession(Session):
    """A Session whose messages leave as packets; silent until it has a pipe."""

    def __init__(self) -> None:
        super().__init__(username="kernel", key=b"")
        self.pipe: Pipe | None = None
        self._lock = threading.RLock()

    def send(  # type: ignore[no-untyped-def, override]  # what callers of jupyter_client pass
        self, _stream, msg_or_type, content=None, _parent=None, *, buffers=None, metadata=None, **_rest
    ) -> None:
        """Send one message of the Jupyter protocol as a packet; what a notebook doesn't keep is left out."""
        if isinstance(msg_or_type, dict):
            kind, content = msg_or_type["header"]["msg_type"], msg_or_type["content"]
            metadata = msg_or_type.get("metadata")
        else:
            kind = msg_or_type
        if self.pipe is None or kind in SILENT:
            return
        header = {"msg_type": kind, "content": plain(content or {}), "metadata": plain(metadata or {})}
        parts = [bytes(part) for part in buffers or ()]
        header["buffers"] = [len(part) for part in parts]
        with self._lock:
            try:
                self.pipe.send(header, b"".join(parts))
            except WireError:
                self.pipe.send({"msg_type": "stream", "content": {"name": "stderr", "text": TOO_LARGE}})


class Stream(io.TextIOBase):
    """sys.stdout or sys.stderr of a cell: collects text and sends it as stream messages."""

    encoding = "UTF-8"
    errors = "replace"
    parent_header: Mapping[str, Any] = {}  # ipykernel looks for it

    def __init__(self, session: PacketSession, name: str, fd: int) -> None:
        self._session, self._name, self._fd = session, name, fd
        self._pieces: list[str] = []
        self._chars = 0
        self._pid = os.getpid()

    def fileno(self) -> int:
        """The pipe that subprocesses and C code write to."""
        return self._fd

    def writable(self) -> bool:
        """Always."""
        return True

    def set_parent(self, parent: object) -> None:
        """Cells run one after another here, so the parent message is always the current one."""

    def adopt(self) -> None:
        """Call after a fork: this process is now the one whose prints are packets."""
        self._pid = os.getpid()

    def write(self, text: str) -> int:
        """Print; what a process started by the student writes goes to the pipe instead."""
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text)}")
        if os.getpid() != self._pid:
            os.write(self._fd, text.encode("utf-8", "replace"))
            return len(text)
        self._pieces.append(text)
        self._chars += len(text)
        if self._chars > STREAM_CHARS:
            self.flush()
        return len(text)

    def flush(self) -> None:
        """Send what was collected."""
        if self._pieces and os.getpid() == self._pid:
            text = "".join(self._pieces)
            self._pieces, self._chars = [], 0
            for start in range(0, len(text), PIECE_CHARS):
                piece = text[start : start + PIECE_CHARS]
                self._session.send(None, "stream", {"name": self._name, "text": piece})


class KernelApp(IPKernelApp):
    """IPKernelApp without sockets; paths, extensions, matplotlib and pdb stay as they are."""

    capture_fd_output = False
    packet_session: PacketSession

    def init_connection_file(self) -> None:
        """No file says where we listen: we don't."""
        self.connection_file = "/nonexistent/kernel.json"

    def init_poller(self) -> None:
        """The zygote's end is ours too."""

    def init_sockets(self) -> None:
        """Frames go over a pipe."""
        self._ports: dict[str, int] = {}

    def init_heartbeat(self) -> None:
        """Our owner sees whether we live."""

    def write_connection_file(self, **_kwargs: Any) -> None:
        """No file."""

    def log_connection_info(self) -> None:
        """Nothing to log."""

    def init_session(self) -> None:
        """The session is ours."""

    def init_io(self) -> None:
        """The streams are set after the fork."""
        self.patch_io()  # type: ignore[no-untyped-call]  # ipykernel has no types

    def init_signal(self) -> None:
        """The zygote's children set their own."""

    def init_crash_handler(self) -> None:
        """An end is reported by our owner."""

    def init_kernel(self) -> None:
        """As ipykernel does it, without sockets and threads."""
        self.kernel = self.kernel_class.instance(  # type: ignore[attr-defined]  # a traitlets singleton
            parent=self,
            session=self.packet_session,
            iopub_socket=None,
            log=self.log,
            profile_dir=self.profile_dir,
            user_ns=self.user_ns,
            # do_execute asks which thread it is in; no subshell ever runs here
            shell_channel_thread=types.SimpleNamespace(parent_thread=None),
        )


class Kernel:
    """One IPython kernel of this process: built once in the zygote, wired to its own pipe in each fork."""

    def __init__(self) -> None:
        debugger._is_debugpy_available = False
        self.session = PacketSession()
        hook = sys.displayhook
        app = KernelApp.instance()
        app.packet_session = self.session
        sys.argv = ["ipykernel_launcher"]
        app.initialize(["--HistoryManager.enabled=False", "--log-level=ERROR"])  # type: ignore[no-untyped-call]  # no types
        sys.argv = ["ipykernel_launcher.py", "-f", "kernel.json"]
        sys.displayhook = hook
        self._kernel = app.kernel
        self.shell = app.kernel.shell
        shortcuts.take(self.shell)
        self.streams = (Stream(self.session, "stdout", 1), Stream(self.session, "stderr", 2))
        self._messages = 0
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def namespace(self) -> dict[str, Any]:
        """The cells' global names."""
        names: dict[str, Any] = self.shell.user_ns
        return names

    def wire(self, pipe: Pipe | None) -> None:
        """Call after the fork: publish to `pipe` (None: publish nothing) and take over stdout and stderr."""
        self.session.pipe = pipe
        for stream in self.streams:
            stream.adopt()
        sys.stdout, sys.stderr = self.streams
        sys.__stdout__ = sys.__stderr__ = None  # type: ignore[misc]  # as in a kernel: nothing behind the streams
        self._loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self._loop)

    def run(self, code: str, *, silent: bool = False, number: int = 0) -> dict[str, Any]:
        """Run a cell as a kernel does; returns the execute_reply's content as plain data.

        `silent`: uncounted. `number`: what it is counted as, where cells before it have run elsewhere.
        """
        if number:
            self._count_as(number)
        self.announce()
        assert self._loop is not None  # noqa: S101 - wire() was called; this tells the type checker
        try:
            reply = self._loop.run_until_complete(self._kernel.do_execute(code, silent, not silent, {}, False))
        except BaseException as error:  # an interrupt may hit IPython's own code
            reply = {"status": "error", "ename": type(error).__name__, "evalue": str(error), "traceback": []}
        self.flush()
        return {key: plain(reply.get(key)) for key in ("status", "ename", "evalue", "traceback", "execution_count")}

    def _count_as(self, number: int) -> None:
        """As `In[number]` it stands in tracebacks, where the whole notebook has that number beside the cell."""
        self.shell.execution_count = number
        history = self.shell.history_manager
        for told in (history.input_hist_parsed, history.input_hist_raw):
            told.extend("" for _ in range(number - len(told)))

    def announce(self) -> None:
        """Tell every part which message its output belongs to."""
        self._messages += 1
        header = {
            "msg_id": f"cell-{self._messages}",
            "session": "grader",
            "username": "student",
            "msg_type": "execute_request",
            "version": "5.3",
            "date": datetime.datetime.now(datetime.UTC),
        }
        self._kernel.set_parent(None, {"header": header, "content": {}, "metadata": {}, "parent_header": {}})

    def flush(self) -> None:
        """Send what cells have printed so far, also when they replaced the streams."""
        for stream in self.streams:
            stream.flush()


def plain(value: Any) -> Any:
    """`value` as JSON can say it: NaN and infinities as text, keys as text, dates in ISO form, the rest by repr.

    >>> plain({1: float("inf"), "x": (1, 2)})
    {'1': 'inf', 'x': [1, 2]}
    """
    return _plain(value, DEPTH)


def _plain(value: Any, depth: int) -> Any:
    if value is None or type(value) in (bool, int, str):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else repr(float(value))
    if depth == 0:
        return "…"
    if isinstance(value, Mapping):
        return {str(key): _plain(item, depth - 1) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item, depth - 1) for item in value]
    return _other(value)


def _other(value: Any) -> Any:
    for kind, form in _FORMS:
        if isinstance(value, kind):
            return form(value)
    return repr(value)


_FORMS: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (str, str),
    (int, int),
    (datetime.datetime, lambda moment: moment.isoformat()),
    (bytes, lambda data: json.dumps(data.decode("latin-1"))[1:-1]),
)
