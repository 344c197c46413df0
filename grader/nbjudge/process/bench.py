"""The judges of one notebook: all of them speak with the same student's process, one after another, over one line.

The owner keeps the judge's end of the line, so that a judge that has hung or died can be replaced.
"""

from __future__ import annotations

import contextlib
import socket

from nbjudge.process.child import Child
from nbjudge.process.zygote import Ended, Zygote

PIECE_BYTES = 1 << 16


class Bench:
    """The student's process and, beside it, whoever judges it at the moment. `close` ends both."""

    def __init__(self, zygote: Zygote) -> None:
        self._zygote = zygote
        self._line, theirs = socket.socketpair()
        with theirs:
            self.student = zygote.fork("student", theirs)
        try:
            self.judge = zygote.fork("judge", self._line)
        except BaseException:
            zygote.end(self.student)
            self._line.close()
            raise
        self._used_s = 0.0  # by judges that were replaced

    def drain(self) -> None:
        """Throw away what the student's process says to a judge that isn't there any more."""
        with contextlib.suppress(OSError):
            while self._line.recv(PIECE_BYTES, socket.MSG_DONTWAIT):
                pass

    def end_judge(self) -> None:
        """End the judge and wait until it has gone."""
        if (ended := self._zygote.end(self.judge)) is not None:
            self._used_s += ended.cpu_s

    def replace_judge(self) -> Child:
        """Another one, once the last one was ended and the line is quiet."""
        self.drain()
        self.judge = self._zygote.fork("judge", self._line)
        return self.judge

    def close(self) -> tuple[Ended | None, float]:
        """End both: how the student's process ended, and the CPU time of all of them."""
        ended = [self._zygote.end(child) for child in (self.student, self.judge)]
        self._line.close()
        return ended[0], self._used_s + sum(end.cpu_s for end in ended if end is not None)
