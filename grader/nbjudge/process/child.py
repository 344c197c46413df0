"""The trusted end of a confined process: bounded, never waiting longer than asked, always able to kill."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from nbjudge.errors import StudentGone, WireError
from nbjudge.wire import PIECE_BYTES, Packet, PacketReader, pack

TICKS = os.sysconf("SC_CLK_TCK")
PIECES = 16  # read at once from one descriptor, so that a flood on one doesn't starve the others


class Child:
    """A process that a zygote has forked: packets over a socket, C code's prints over two pipes, a pidfd to end it."""

    def __init__(self, pid: int, handle: int, control: socket.socket, out: int, err: int, folder: Path | None) -> None:
        self.pid = pid
        self.folder = folder
        self.gone = False
        self._handle = handle
        self._control = control
        self._prints = {out: "stdout", err: "stderr"}
        self._reader = PacketReader()
        control.setblocking(False)
        for fd in self._prints:
            os.set_blocking(fd, False)

    def descriptors(self) -> list[int]:
        """What to wait on."""
        return [] if self.gone else [self._control.fileno(), *self._prints]

    def send(self, header: Mapping[str, Any], body: bytes = b"", timeout_s: float = 10.0) -> None:
        """Send one packet.

        Raises:
            StudentGone: the process has ended or doesn't read.
        """
        rest = memoryview(pack(header, body))
        deadline = time.monotonic() + timeout_s
        while rest:
            _, writable, _ = select.select([], [self._control], [], max(0.0, deadline - time.monotonic()))
            if not writable:
                raise StudentGone("the process stopped reading")
            try:
                rest = rest[self._control.send(rest) :]
            except BlockingIOError:
                continue
            except OSError:
                self.gone = True
                raise StudentGone("the process has ended") from None

    def receive(self) -> Iterator[Packet]:
        """What has arrived, without waiting; what was printed past the packets comes as stream messages.

        Raises:
            WireError: something that isn't a packet of ours.
        """
        for fd, name in list(self._prints.items()):
            if data := self._read_pipe(fd):
                content = {"name": name, "text": data.decode("utf-8", "replace")}
                yield Packet({"msg_type": "stream", "content": content})
        for _ in range(PIECES):
            try:
                piece = self._control.recv(PIECE_BYTES)
            except BlockingIOError:
                break
            except OSError:
                piece = b""
            if not piece:
                self.gone = True
                break
            self._reader.feed(piece)
            yield from self._reader.packets()

    def wait_for(self, kind: str, timeout_s: float) -> Packet:
        """The next packet of this kind; others are dropped.

        Raises:
            StudentGone: it didn't come in time, or the process has ended; with the last line that it wrote.
        """
        deadline = time.monotonic() + timeout_s
        written = ""
        while True:
            left_s = deadline - time.monotonic()
            if self.gone or left_s <= 0:
                why = "the process has ended" if self.gone else "the process didn't answer in time"
                raise StudentGone(": ".join((why, *written.strip().splitlines()[-1:])))
            select.select(self.descriptors(), [], [], left_s)
            try:
                for packet in self.receive():
                    if packet.header.get("msg_type") == kind:
                        return packet
                    if packet.header.get("msg_type") == "stream":
                        written = str(_mapping(packet.header.get("content")).get("text"))[-500:]
            except WireError as error:
                raise StudentGone(str(error)) from None

    def cpu_s(self) -> float:
        """The CPU time that the process has used itself; 0 once it has gone."""
        with contextlib.suppress(OSError, ValueError, StopIteration):
            said = Path(f"/proc/self/fdinfo/{self._handle}").read_text(encoding="ascii").splitlines()
            pid = next(int(line.split()[1]) for line in said if line.startswith("Pid:"))  # as it is called out here
            fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            return sum(map(int, fields[11:13])) / TICKS
        return 0.0

    def interrupt(self) -> None:
        """As the stop button of a notebook does."""
        self._signal(signal.SIGINT)

    def kill(self) -> None:
        """End the process, and with it every process of its pid namespace."""
        self._signal(signal.SIGKILL)

    def close(self) -> None:
        """Kill it and let go of every descriptor."""
        self.kill()
        self.gone = True
        self._control.close()
        for fd in (*self._prints, self._handle):
            with contextlib.suppress(OSError):
                os.close(fd)
        self._prints.clear()

    def _signal(self, number: int) -> None:
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(self._handle, number)

    def _read_pipe(self, fd: int) -> bytes:
        data = b""
        for _ in range(PIECES):
            try:
                piece = os.read(fd, PIECE_BYTES)
            except BlockingIOError:
                break
            if not piece:
                os.close(fd)
                del self._prints[fd]
                break
            data += piece
        return data


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
