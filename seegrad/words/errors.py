"""The exceptions of seegrad, one tree.

::

    SeegradError                 everything below; catch this one
    ├── RecordingError           a Recording can't be made or read (wrong schema, not JSON)
    ├── PictureError             a Scene can't be drawn or shown
    ├── QuestionError            a question can't be asked of this Recording
    └── CheckFailed              an answer isn't right; also an AssertionError, so a test cell may raise it

Torch's own errors are never wrapped: a learner sees them as torch raised them.
"""

from __future__ import annotations


class SeegradError(Exception):
    """Root of every exception that seegrad raises.

    >>> issubclass(RecordingError, SeegradError)
    True
    """


def text_of(error: BaseException) -> str:
    """`str(error)`; empty where the user's class can't say it.

    >>> text_of(ValueError("mine"))
    'mine'
    """
    try:
        return str(error)
    except Exception:
        return ""


class RecordingError(SeegradError):
    """A Recording can't be made or read."""


class PictureError(SeegradError):
    """A Scene can't be drawn or shown."""


class QuestionError(SeegradError):
    """A question can't be asked of this Recording."""
