"""What an answer logs while a test listens: records come back as text, and reach the handlers that the test has added.

A handler that stood before the first question, as IPython's own, isn't the test's.
"""

from __future__ import annotations

import contextlib
import logging
import traceback
import weakref
from collections.abc import Iterator, Mapping
from typing import Any

from nbjudge.errors import WireError
from nbjudge.wire import listed

LOGGERS = 1 << 8
RECORDS = 1 << 10  # brought by one packet
CHARS = 1 << 16  # of one message
NAME_CHARS = 200


class Logged:
    """One side's loggers around the conversation."""

    def __init__(self) -> None:
        self._added: weakref.WeakSet[logging.Handler] = weakref.WeakSet()  # in the judge: handlers of the test's
        self._levels: dict[str, int] = {}  # logger → its level before the first question
        self._kept: list[list[Any]] = []  # in the student's process: what wasn't told yet
        self._ear = _Ear(self._kept)

    # ------------------------------------------------------------------ in the judge

    def watch(self) -> None:
        """From here on a handler that is made is the test's."""
        self._levels = {logger.name: logger.level for logger in _loggers()}
        made, added = logging.Handler.__init__, self._added

        def noting(handler: logging.Handler, *args: Any, **kwargs: Any) -> None:
            made(handler, *args, **kwargs)
            added.add(handler)

        logging.Handler.__init__ = noting  # type: ignore[assignment, method-assign]  # assertLogs adds none by addHandler

    def told(self) -> dict[str, Any]:
        """The loggers that a test listens to, and the level that it has given each."""
        if not self._added:
            return {}
        heard = [logger for logger in _loggers() if not self._added.isdisjoint(logger.handlers)]
        return {"logs": [[logger.name, self._level(logger)] for logger in heard[:LOGGERS]]} if heard else {}

    def _level(self, logger: logging.Logger) -> int:
        """0 where it stands as it stood: an answer may have set it over there."""
        return logger.level if logger.level != self._levels.get(logger.name, logging.NOTSET) else logging.NOTSET

    def hear(self, header: Mapping[str, Any]) -> None:
        """What the other side has logged reaches the handlers that stand in its way here."""
        if "logged" not in header:
            return
        heard = {name for name, _ in self.told().get("logs", ())}
        for one in listed(header, "logged", RECORDS):
            record = _record(one)
            if heard & _ways(record.name):
                logging.getLogger(record.name).handle(record)

    # ------------------------------------------------------------------ in the student's process

    @contextlib.contextmanager
    def listened(self, header: Mapping[str, Any]) -> Iterator[None]:
        """Meanwhile what these loggers are given is kept for the other side."""
        with contextlib.ExitStack() as stack:
            for name, level in listed(header, "logs", LOGGERS) if "logs" in header else ():
                logger = logging.getLogger(name if name != logging.root.name else None)
                if self._ear not in logger.handlers:
                    stack.enter_context(self._heard(logger, level))
            yield

    @contextlib.contextmanager
    def _heard(self, logger: logging.Logger, level: int) -> Iterator[None]:
        before = logger.level
        if level:
            logger.setLevel(level)
        logger.addHandler(self._ear)
        try:
            yield
        finally:
            logger.removeHandler(self._ear)
            if level and logger.level == level:  # else the answer has set another itself
                logger.setLevel(before)

    def answered(self) -> dict[str, Any]:
        """What was logged since the last packet."""
        kept, self._kept[:] = self._kept[:RECORDS], []
        return {"logged": kept} if kept else {}


class _Ear(logging.Handler):
    """Keeps each record once, as text, whatever loggers it passes on its way."""

    def __init__(self, kept: list[list[Any]]) -> None:
        super().__init__()
        self._kept = kept
        self._last: weakref.ref[logging.LogRecord] | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if self._last is not None and self._last() is record:
            return
        self._last = weakref.ref(record)
        try:
            raised = "".join(traceback.format_exception(*record.exc_info)).rstrip("\n") if record.exc_info else ""
            said = [record.name[:NAME_CHARS], record.levelno, record.getMessage()[:CHARS], raised[:CHARS]]
        except Exception:  # as logging itself does where a message can't be made
            self.handleError(record)
        else:
            self._kept.append([*said, str(record.funcName)[:NAME_CHARS]])


def _loggers() -> list[logging.Logger]:
    named = list(logging.root.manager.loggerDict.values())
    return [logging.root, *(logger for logger in named if isinstance(logger, logging.Logger))]


def _ways(name: str) -> set[str]:
    """A logger and all above it.

    >>> sorted(_ways("app.rows"))
    ['app', 'app.rows', 'root']
    """
    parts = name.split(".")
    return {logging.root.name} | {".".join(parts[:count]) for count in range(1, len(parts) + 1)}


def _record(one: Any) -> logging.LogRecord:
    if type(one) is not list or [type(part) for part in one] != [str, int, str, str, str]:
        raise WireError("What was logged isn't a record.")
    name, level, message, raised, function = one
    record = logging.LogRecord(name[:NAME_CHARS], level, "", 0, message, (), None, function)
    record.exc_text = raised or None
    return record
