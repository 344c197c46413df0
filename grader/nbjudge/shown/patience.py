"""Work on a student's text that may take only so long: CPU seconds, so that a busy machine changes nothing.

Python code and regular expressions are stopped by a signal. What hangs in C is ended from outside, with its process.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

TOO_LONG = "it takes longer than {seconds:g} s to convert"


class NotShown(Exception):
    """Why something can't be shown, as the clause that its reader gets.

    >>> str(NotShown("it is larger than 100 kB"))
    'it is larger than 100 kB'
    """


@contextmanager
def patience(seconds: float) -> Iterator[None]:
    """Raises `NotShown` inside once this process has computed for so long. For the main thread, and not nested.

    >>> with patience(5):
    ...     sum([1, 2])
    3
    """

    def over(_signal: int, _frame: FrameType | None) -> None:
        raise NotShown(TOO_LONG.format(seconds=seconds))

    before = signal.signal(signal.SIGVTALRM, over)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    except RecursionError:
        raise NotShown("it is nested too deeply") from None
    except MemoryError:
        raise NotShown("it takes too much memory to convert") from None
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
