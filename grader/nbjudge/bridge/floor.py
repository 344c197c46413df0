"""Who may speak: one thread at a time, from its question to the answer.

An answer may map a test's function over threads, and a test an answer's. While a thread does what it was asked, others
of the same side may ask, since the other side listens meanwhile. Answers bear no number: what was asked last, by either
side, is answered first.
"""

from __future__ import annotations

import threading


class Floor:
    """A lock that its owner can take again, and can leave as a whole.

    >>> floor = Floor()
    >>> with floor, floor:
    ...     held = floor.leave()
    ...     floor.take(held)
    >>> held, floor.leave()
    (2, 0)
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._owner: int | None = None
        self._times = 0
        self._open: list[object] = []  # questions of both sides that have no answer yet

    def __enter__(self) -> None:
        self.take(1)

    def __exit__(self, *_error: object) -> None:
        with self._changed:
            if self._owner != threading.get_ident():  # an interrupt has kept this thread from taking it again
                return
            self._times -= 1
            if self._times == 0:
                self._owner = None
                self._changed.notify_all()

    def take(self, times: int, question: object = None) -> None:
        """Wait for it, as often as it was left, and until this question is the last one that has no answer."""
        me = threading.get_ident()
        with self._changed:
            while (times and self._owner not in (None, me)) or (
                question is not None and self._open[-1] is not question
            ):
                self._changed.wait()
            if times:
                self._owner, self._times = me, self._times + times

    def leave(self) -> int:
        """Others may speak; returns how often this thread has taken it."""
        with self._changed:
            if self._owner != threading.get_ident():
                return 0
            times, self._times, self._owner = self._times, 0, None
            self._changed.notify_all()
            return times

    def begin(self) -> object:
        """A question has been asked, by either side."""
        question = object()
        with self._changed:
            self._open.append(question)
        return question

    def end(self, question: object) -> None:
        """It has its answer."""
        with self._changed:
            self._open.remove(question)
            self._changed.notify_all()
